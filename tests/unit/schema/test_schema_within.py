"""The table's own spelling of values, decimals, and values drawn inside bins by what the neighbours hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator

from understudy.errors import DataError, SchemaError
from understudy.schema import Boolean, Categorical, Column, Date, Integer, Ordinal, Real, Schema
from understudy.schema.coding.within import (
    cubic_slopes,
    exponential_rates,
    invert_cubic,
    invert_exponential,
)

# -- descriptions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: Boolean("x", spelling="NoYes"), "write the two texts, false first"),
        (lambda: Boolean("x", spelling=["No"]), "write the two texts"),
        (lambda: Boolean("x", spelling=[False, True]), "in quotes"),  # type: ignore[list-item]
        (lambda: Boolean("x", spelling=["", "Yes"]), "write the two texts"),
        (lambda: Boolean("x", spelling=["a", "a"]), "must differ"),
        (lambda: Boolean("x", spelling=["a\n", "b"]), "one line"),
        (lambda: Boolean("x", spelling=["Yes", "No"]), "'Yes' is read as true everywhere"),
        (lambda: Boolean("x", spelling=["dead", "0"]), "'0' is read as false everywhere"),
        (lambda: Boolean("x", spelling=["other", "own"], out_of_domain="to-other"), "needs the word 'other'"),
        (lambda: Boolean("x", spelling=["?", "own"], missing=True, missing_values=["?"]), "missing_values"),
        (lambda: Boolean("x", spelling=["9", "own"], missing=True, missing_values=[9]), "missing_values"),
        (lambda: Boolean("x", missing=True, missing_text="no"), "read as a truth value"),
        (lambda: Boolean("x", spelling=["a", "b"], missing=True, missing_text="b"), "spelling: 'b'"),
        (lambda: Boolean("x", missing_text="?"), "needs missing: true"),
        (lambda: Boolean("x", missing=True, missing_text=9), "must be text"),  # type: ignore[arg-type]
        (lambda: Boolean("x", missing=True, missing_text="a\tb"), "one line"),
        (lambda: Categorical("x", values=["?"], missing=True, missing_text="?"), "also one of the values"),
        (
            lambda: Categorical(
                "x", values=["a"], missing=True, missing_text="other", out_of_domain="to-other"
            ),
            "needs the word 'other'",
        ),
        (lambda: Integer("x", bins=["<18", "18<="], missing=True, missing_text="<18"), "label of a bin"),
        (lambda: Integer("x", minimum=0, maximum=9, missing=True, missing_text="9"), "also a possible value"),
        (lambda: Real("x", bins=[0, 1], decimals=-1), "from 0 to 15"),
        (lambda: Real("x", bins=[0, 1], decimals=16), "from 0 to 15"),
        (lambda: Real("x", bins=[0, 1], decimals=True), "from 0 to 15"),
        (lambda: Real("x", bins=[0, 1], decimals="2"), "from 0 to 15"),  # type: ignore[arg-type]
        (lambda: Real("x", bins=[0, 0.001, 0.004, 1], decimals=2), "holds no number with 2 decimals"),
        (lambda: Real("x", minimum=0, maximum=5, decimals=1), "bins, the first from"),
        (lambda: Real("x", values=[0.5, 0.25], decimals=1), "ascend"),
        (lambda: Real("x", values=[0.25, 0.5], decimals=1), "from 0.25 to 0.25 holds no number"),
        (lambda: Real("x", bins=[0, 1e12], decimals=9), "no 9 decimals in double precision"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(build: Callable[[], Column], complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        build()


def test_files_hold_the_new_fields_and_leave_out_their_defaults() -> None:
    text = """
    columns:
      - {name: adr, kind: real, bins: [0, 50, 100], decimals: 2, decode_by: smooth, missing: true, missing_text: "?"}
      - {name: again, kind: boolean, spelling: ["No", "Yes"]}
      - {name: seen, kind: date, bins: [2014-01-01, 2014-07-01, 2015-01-01], decode_by: smooth}
      - {name: plain, kind: real, bins: [0, 1]}
    """
    schema = Schema.parse(text)
    again = Schema.parse(schema.to_yaml())
    assert again == schema
    assert again.fingerprint() == schema.fingerprint()
    first, second, _, plain = schema.to_dict()["columns"]
    assert (first["decimals"], first["missing_text"], first["decode_by"]) == (2, "?", "smooth")
    assert first["missing_values"] == ["?"]
    assert second["spelling"] == ["No", "Yes"]
    assert set(plain) == {"name", "kind", "bins"}
    for change in ({"decimals": 1}, {"decode_by": "uniform"}, {"missing_text": "-"}):
        other = {**schema.to_dict(), "columns": [{**first, **change}, *schema.to_dict()["columns"][1:]]}
        assert Schema.from_dict(other).fingerprint() != schema.fingerprint()


def test_an_origin_may_be_given_for_decimals_and_spelling() -> None:
    real = Real("x", bins=[0, 1], decimals=2, origin={"decimals": "from-data"})
    assert real.facts_from_data == ("decimals",)
    truth = Boolean("x", spelling=["n", "p"], origin={"spelling": "from-data"})
    assert truth.facts_from_data == ("spelling",)
    assert Boolean("x", origin="from-data").facts == ("kind", "missing")


# -- words of the table ----------------------------------------------------------------------------


def test_own_texts_of_truth_values_are_read_and_written() -> None:
    column = Boolean("x", spelling=["died", "lives"], missing=True)
    assert column.encode(["lives", "died", "yes", 0, None, True]).tolist() == [1, 0, 1, 0, 2, 1]
    assert column.encode(pd.Series([True, False])).tolist() == [1, 0]
    assert column.labels == ("died", "lives", "missing")
    assert column.decode([0, 1, 2], np.random.default_rng(0)).tolist() == ["died", "lives", None]
    with pytest.raises(DataError, match="lives/died, true/false"):
        column.encode(["Lives"])


def test_own_texts_that_are_numbers_are_read_from_numbers_too() -> None:
    column = Boolean("x", spelling=["0", "2"], missing=True, missing_text="9")
    assert column.encode(["2", "0", "9"]).tolist() == [1, 0, 2]
    assert column.encode(np.array([2, 0, 9])).tolist() == [1, 0, 2]
    assert column.encode(np.array([2.0, 0.0, np.nan])).tolist() == [1, 0, 2]


def test_a_rule_may_use_the_words_of_the_table() -> None:
    columns = [Boolean("a", spelling=["no", "yes"]), Boolean("b", spelling=["died", "lives"]), Boolean("c")]
    schema = Schema(columns, ["a == b", 'b == "lives" or c'])
    codes = {"a": [0, 1, 1, 0], "b": [0, 1, 0, 0], "c": [1, 0, 1, 0]}
    assert schema.holds_codes({k: np.array(v) for k, v in codes.items()}).tolist() == [
        True,
        True,
        False,
        False,
    ]
    frame = schema.decode(codes, seed=0)
    assert schema.holds_raw(frame).tolist() == [True, True, False, False]
    with pytest.raises(SchemaError, match="true or false, 'died' or 'lives'"):
        Schema(columns, ['b == "Lives"'])


KINDS: list[Column] = [
    Categorical("x", values=["a", "b"], missing=True, missing_text="?"),
    Categorical("x", values=[1, 2], missing=True, missing_text="?"),
    Ordinal("x", values=["lo", "hi"], missing=True, missing_text="-9"),
    Boolean("x", missing=True, missing_text="?"),
    Boolean("x", spelling=["No", "Yes"], missing=True, missing_text="unknown"),
    Integer("x", minimum=0, maximum=4, missing=True, missing_text="?"),
    Integer("x", bins=["0-4", "5-9"], decode_by="label", missing=True, missing_text="-99"),
    Integer("x", bins=["0-4", "5-9"], decode_by="smooth", missing=True, missing_text="N.A."),
    Real("x", bins=[0, 1, 2], missing=True, missing_text="?", decimals=1),
    Real("x", bins=[0, 1, 2], missing=True, missing_text="?", out_of_domain="to-other"),
    Date(
        "x", minimum="2014-01-01", maximum="2014-12-31", resolution="month", missing=True, missing_text="0000"
    ),
]


@pytest.mark.parametrize("column", KINDS, ids=lambda column: f"{column.kind}-{column.missing_text}")
def test_the_text_of_a_missing_entry_is_read_as_missing(column: Column) -> None:
    assert column.missing_text in column.missing_values
    assert column.encode([column.missing_text, None]).tolist() == [column.missing_code] * 2
    codes = np.arange(column.size)
    decoded = column.decode(codes, np.random.default_rng(1))
    assert column.encode(decoded).tolist() == codes.tolist()
    if np.asarray(decoded).dtype == object and column.kind not in ("integer", "boolean"):
        last = np.asarray(decoded, dtype=object)[-1]
        assert last == column.missing_text or pd.isna(last)


def test_the_labels_of_a_fine_grid_are_not_made_before_somebody_asks() -> None:
    column = Real("x", minimum=0, maximum=1, bins=1_000_000)
    assert "value_labels" not in vars(column)


# -- decimals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["midpoint", "uniform", "integer-uniform", "smooth", "edge"])
def test_values_have_the_declared_decimals_and_stay_in_their_bins(rule: Any) -> None:
    column = Real("x", bins={"edges": [0, 1, 2.005, 4, 9], "open": "both"}, decode_by=rule, decimals=2)
    codes = np.repeat(np.arange(6), 400)
    values = column.decode(codes, np.random.default_rng(3))
    assert column.encode(values).tolist() == codes.tolist()
    assert all(repr(float(value)) == repr(round(float(value), 2)) for value in values)
    assert set(values[codes == 0]) == {-0.01}
    assert set(values[codes == 5]) == {9.0}
    if rule == "uniform":
        assert set(np.rint(values[codes == 1] * 100).astype(int)) <= set(range(100))
        assert len(set(values[codes == 1])) > 90
    if rule == "edge":
        assert set(values[codes == 3]) == {2.01}
    whole = Real("x", bins=[0, 1, 5], decode_by="uniform", decimals=0)
    drawn = whole.decode([0, 1, 1, 1, 1, 1, 1, 1], np.random.default_rng(0))
    assert drawn.dtype == np.float64
    assert drawn[0] == 0.0
    assert set(drawn[1:]) <= {1.0, 2.0, 3.0, 4.0, 5.0}


def test_a_missing_number_may_not_be_what_an_open_bin_shows() -> None:
    with pytest.raises(SchemaError, match="also a possible value"):
        Real("x", bins=["[0, 10]", "10<"], decimals=1, missing=True, missing_values=[10.1])
    Real("x", bins=["[0, 10]", "10<"], decimals=1, missing=True, missing_values=[10.2])


# -- smooth ----------------------------------------------------------------------------------------


@st.composite
def histograms(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    size = draw(st.integers(2, 12))
    widths = draw(st.lists(st.floats(1e-3, 1e3), min_size=size, max_size=size))
    counts = draw(st.lists(st.floats(1e-6, 1e5) | st.just(0.0), min_size=size, max_size=size))
    return np.array(widths), np.array(counts)


@settings(deadline=None)
@given(histograms())
def test_slopes_are_those_of_the_monotone_interpolant(found: Any) -> None:
    """scipy's PCHIP is the referee, wherever a bin holds records."""
    widths, counts = found
    assume(counts.sum() > 0 and (counts[counts > 0].min() / counts.max()) > 1e-6)
    left, right = cubic_slopes(widths, counts)
    edges = np.append(0.0, np.cumsum(widths))
    with np.errstate(all="ignore"):  # scipy divides by empty bins before it looks at them
        slope = PchipInterpolator(edges, np.append(0.0, np.cumsum(counts))).derivative()(edges)
    some = counts > 0
    density = counts[some] / widths[some]
    scale = np.abs(slope).max() + density.max()
    assert np.allclose(left[some] * density, slope[:-1][some], atol=1e-6 * scale, rtol=1e-6)
    assert np.allclose(right[some] * density, slope[1:][some], atol=1e-6 * scale, rtol=1e-6)
    assert (left[~some] == 1).all()
    assert (right[~some] == 1).all()
    assert min(left.min(), right.min()) >= 0
    assert max(left.max(), right.max()) <= 3


@settings(deadline=None)
@given(st.floats(0, 3), st.floats(0, 3), st.floats(0, 1, exclude_max=True))
def test_the_inverse_of_the_cubic(left: float, right: float, share: float) -> None:
    place = float(invert_cubic(np.array([share]), np.array([left]), np.array([right]))[0])
    assert 0 <= place <= 1

    def cubic(x: float) -> float:
        return ((left + right - 2) * x + 3 - 2 * left - right) * x * x + left * x

    assert abs(cubic(place) - share) < 2.0**-16 * 1e-3


@settings(deadline=None)
@given(histograms())
def test_rates_are_zero_at_peaks_and_beside_empty_bins(found: Any) -> None:
    widths, counts = found
    rates = exponential_rates(widths, counts)
    density = counts / widths
    assert np.isfinite(rates).all()
    for place in range(1, len(counts) - 1):
        before, here, after = density[place - 1 : place + 2]
        if min(before, here, after) == 0 or (here - before) * (after - here) <= 0:
            assert rates[place] == 0
        else:
            assert rates[place] * (after - before) >= 0


def test_the_rate_of_an_exponential_table_is_found() -> None:
    edges = np.array([0, 1, 2, 4, 7, 10.0])
    counts = 1000 * -np.diff(np.exp(-0.9 * edges))
    rates = exponential_rates(np.diff(edges), counts)
    assert np.allclose(rates[:3], -0.9 * np.diff(edges)[:3], rtol=0.15)
    assert (rates[3:] < -2).all()


@settings(deadline=None)
@given(st.floats(-20, 20).filter(lambda rate: abs(rate) > 0.01), st.floats(0, 1))
def test_the_inverse_of_the_exponential(rate: float, share: float) -> None:
    place = float(invert_exponential(np.array([share]), np.array([rate]))[0])
    assert 0 <= place <= 1
    assert abs(np.expm1(rate * place) / np.expm1(rate) - share) < 1e-9


def test_the_wide_last_bin_of_a_heavy_tail_is_not_spread_evenly() -> None:
    """100,000 draws of the last of bins that double; their mean has a deviation below 2."""
    column = Real("x", bins=[0, 50, 100, 200, 1000], decode_by="smooth")
    values = column.decode(np.full(100_000, 3), np.random.default_rng(5), counts=[5000, 3000, 1500, 250])
    assert 290 < values.mean() < 350  # 600 if spread evenly; a cubic alone gives about 410


@st.composite
def binned(draw: st.DrawFn) -> tuple[Column, np.ndarray[Any, Any]]:
    """A column that decodes smoothly, and any counts: none, negative, huge."""
    missing = draw(st.booleans())
    policy: Any = draw(st.sampled_from(["refuse", "to-other"]))
    rest: dict[str, Any] = {"decode_by": "smooth", "missing": missing, "out_of_domain": policy}
    ends = draw(st.sampled_from(["none", "low", "high", "both"]))
    kind = draw(st.sampled_from(["integer", "real", "decimal", "date", "far"]))
    column: Column
    if kind == "date":
        days = draw(st.sets(st.dates(dt.date(1990, 1, 1), dt.date(2030, 1, 1)), min_size=2, max_size=6))
        edges = [day.isoformat() for day in sorted(days)]
        column = Date("x", bins={"edges": edges, "open": ends}, **rest)
    elif kind in ("integer", "far"):
        most = 60 if kind == "integer" else 2**62
        numbers = sorted(draw(st.sets(st.integers(-most, most), min_size=2, max_size=8)))
        column = Integer("x", bins={"edges": numbers, "open": ends}, **rest)
    elif kind == "decimal":
        cents = sorted(draw(st.sets(st.integers(-500, 500), min_size=2, max_size=8)))
        column = Real("x", bins={"edges": [c / 100 for c in cents], "open": ends}, decimals=2, **rest)
    else:
        reals = st.floats(allow_nan=False, allow_infinity=False, width=32) | st.floats(-5, 5)
        numbers_ = sorted(draw(st.sets(reals, min_size=2, max_size=8)))
        column = Real("x", bins={"edges": numbers_, "open": ends}, **rest)
    counts = draw(
        st.lists(
            st.floats(-10, 1e6) | st.sampled_from([0.0, 1e300, float("nan"), float("inf")]),
            min_size=column.size,
            max_size=column.size,
        )
    )
    return column, np.array(counts)


@settings(deadline=None, max_examples=300)
@given(binned(), st.integers(0, 2**32 - 1))
def test_a_smooth_value_has_the_code_it_came_from(found: Any, seed: int) -> None:
    column, counts = found
    codes = np.repeat(np.arange(column.size), 7)
    for known in (counts, None):
        decoded = column.decode(codes, np.random.default_rng(seed), counts=known)
        assert column.encode(decoded).tolist() == codes.tolist()
        again = column.decode(codes, np.random.default_rng(seed), counts=known)
        assert pd.Series(again).equals(pd.Series(decoded))


def test_values_lean_towards_the_denser_neighbour() -> None:
    """100,000 draws from a falling density; a uniform draw has its mean at 15, ten deviations (0.09) away."""
    column = Real("x", bins=[0, 10, 20, 30], decode_by="smooth")
    codes = np.ones(100_000, dtype=int)
    values = column.decode(codes, np.random.default_rng(5), counts=[6000, 3000, 1500])
    assert 14.0 < values.mean() < 14.7
    rising = column.decode(codes, np.random.default_rng(5), counts=[1500, 3000, 6000])
    assert 15.3 < rising.mean() < 16.0
    level = column.decode(codes, np.random.default_rng(5), counts=[3000, 3000, 3000])
    assert abs(level.mean() - 15) < 0.1


def test_a_spike_is_kept_and_does_not_bend_its_neighbours() -> None:
    spiked = Integer("x", bins=["0", "1-100", "101-200"], decode_by="smooth")
    counts = [90_000, 1000, 1000]
    codes = np.repeat([0, 1, 2], 20_000)
    values = spiked.decode(codes, np.random.default_rng(5), counts=counts)
    assert set(values[codes == 0]) == {0}
    # even neighbours: the middle one would have its mean near 36 if the spike took part
    assert abs(values[codes == 1].mean() - 50.5) < 1
    real = Real("x", bins=["[0, 0]", "(0, 100]", "(100, 200]"], decode_by="smooth", decimals=2)
    drawn = real.decode(codes, np.random.default_rng(5), counts=counts)
    assert set(drawn[codes == 0]) == {0.0}
    assert abs(drawn[codes == 1].mean() - 50) < 1


def test_runs_of_single_values_are_a_histogram_of_their_own() -> None:
    column = Integer("x", bins=["0", "1", "2", "3-9"], decode_by="smooth")
    codes = np.full(20_000, 3)
    values = column.decode(codes, np.random.default_rng(5), counts=[800, 600, 400, 700])
    assert values.mean() < 5.5  # 6 if every number were equally likely


def test_codes_are_counted_where_no_counts_are_given() -> None:
    column = Integer("x", bins=["0-9", "10-19", "20-29"], decode_by="smooth")
    codes = np.repeat([0, 1, 2], [600, 300, 150])
    own = column.decode(codes, np.random.default_rng(5))
    assert own.tolist() == column.decode(codes, np.random.default_rng(5), counts=[600, 300, 150]).tolist()
    with pytest.raises(DataError, match="one number for each of its codes"):
        column.decode(codes, np.random.default_rng(5), counts=[1, 2])


def test_other_rules_and_columns_are_not_touched_by_counts() -> None:
    schema = Schema([Integer("x", bins=["0-9", "10-19"], decode_by="uniform"), Boolean("y")])
    codes = {"x": [0, 1, 0], "y": [0, 1, 1]}
    plain = schema.decode(codes, seed=3)
    assert plain.equals(schema.decode(codes, seed=3, counts={"x": [9, 1], "y": [1, 1]}))
    assert plain["x"].tolist() == _uniform_of_0_1_0(3, [0, 1, 0])


def _uniform_of_0_1_0(seed: int, codes: list[int]) -> list[int]:
    stream = np.random.default_rng(seed).spawn(2)[0]
    low, high = np.array([0, 10])[codes], np.array([9, 19])[codes]
    return [int(number) for number in stream.integers(low, high, endpoint=True)]
