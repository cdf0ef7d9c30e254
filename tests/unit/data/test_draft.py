"""Drafting a schema from a table."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.data import draft_schema
from understudy.errors import DataError, DomainNotPublic, SchemaError
from understudy.schema import Date, Schema


def column(entries: Any, **options: Any) -> Any:
    """Draft a table of one column beside a constant one, and return the column or the reason it was left out."""
    series = pd.Series(entries)
    frame = pd.DataFrame({"x": series, "constant": np.ones(len(series), dtype=int)})
    drafted = draft_schema(frame, name="t", **options)
    return dict(drafted.left_out).get("x") or drafted.column("x")


@pytest.mark.parametrize(
    ("entries", "kind", "summary"),
    [
        ([True, False], "boolean", "false, true"),
        (["yes", "no"], "boolean", "no, yes"),
        (["TRUE", "False"], "boolean", "False, TRUE"),
        (pd.Series([True, None], dtype="boolean"), "boolean", "false, true"),
        ([3, 7], "integer", "3, 4, ..., 7"),
        ([3.0, 7.0], "integer", "3, 4, ..., 7"),
        (pd.Series([3, None], dtype="Int64"), "integer", "3"),
        (["3", "7"], "integer", "3, 4, ..., 7"),
        ([Decimal(3), Decimal(7)], "integer", "3, 4, ..., 7"),
        ([5, 5], "integer", "5"),
        ([14, 51], "integer", "10, 11, ..., 55"),
        ([2.5, 2.5], "real", "2.5"),
        ([0, 1000], "integer", "0-49, 50-99, ..., 950-1000"),
        ([-3, 995], "integer", "-50 to -1, 0-49, ..., 950-1000"),
        ([0.013, 0.98], "real", "[0, 0.05), [0.05, 0.1), ..., [0.95, 1]"),
        (["1.5", "2.5"], "real", "[1.5, 1.6), [1.6, 1.7), ..., [2.4, 2.5]"),
        (["b", "a"], "categorical", "a, b"),
        (["007", "010"], "categorical", "007, 010"),
        (["a", "NA"], "categorical", "a"),
        (["1", "x"], "categorical", "1, x"),
        (pd.Series([1, "x"], dtype=object), "categorical", "1, x"),
        (["yes", "no", "maybe"], "categorical", "maybe, no, yes"),
        (["yes"], "categorical", "yes"),
        (pd.Categorical(["b", "a"], categories=["c", "b", "a"]), "categorical", "a, b, c"),
        (pd.Categorical(["lo", "hi"], categories=["lo", "hi"], ordered=True), "ordinal", "lo, hi"),
        (pd.Categorical([3, 5]), "integer", "3, 4, 5"),
        (["2014-01-05", "2014-02-07"], "date", "2014-01-01, 2014-01-02, ..., 2014-02-28"),
        (pd.to_datetime(["2014-01-05", "2014-11-07"]), "date", "2014-W01, 2014-W02, ..., 2014-W48"),
        (pd.to_datetime(["2014-01-05", "2019-11-07"]), "date", "2014-01, 2014-02, ..., 2019-11"),
        ([dt.date(1990, 1, 5), dt.date(2019, 12, 7)], "date", "1990-Q1, 1990-Q2, ..., 2019-Q4"),
        (
            pd.Series(pd.to_datetime(["1920-05-05", "2019-11-07"]).tz_localize("UTC")),
            "date",
            "1920, 1921, ..., 2019",
        ),
        (
            pd.Series(pd.PeriodIndex(["2014-03", "2014-04"], freq="M")),
            "date",
            "2014-03-01, 2014-03-02, ..., 2014-04-30",
        ),
        ([dt.date(9999, 12, 1), dt.date(9999, 12, 7)], "date", "9999-12-01, 9999-12-02, ..., 9999-12-31"),
    ],
)
def test_what_is_guessed(entries: Any, kind: str, summary: str) -> None:
    drafted = column(entries)
    assert (drafted.kind, drafted.summary()) == (kind, summary)
    assert drafted.origin == "from-data"
    assert drafted.facts_from_data[0] == "kind"


@pytest.mark.parametrize(
    ("entries", "missing"),
    [
        ([1, 2], False),
        ([1, None], True),
        (["1", ""], True),
        (["1", "n/a"], True),
        (["a", None], True),
        (["a", ""], True),
        (["yes", "no", ""], True),
        (["2014-01-01", "NaT"], True),
        (pd.Categorical(["a", None]), True),
    ],
)
def test_missing_entries(entries: Any, missing: bool) -> None:
    assert column(entries).missing is missing


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([None, None], "no entries"),
        (["", " "], "no entries"),
        (pd.Categorical([None, None]), "no entries"),
        ([f"n{i}" for i in range(300)], "identifier or free text"),
        (list(range(5000, 5300)), "identifier"),
        ([[1], [2]], "neither text nor numbers nor dates"),
        ([b"a", b"b"], "neither text nor numbers nor dates"),
        ([1j, 2j], "neither text nor numbers nor dates"),
        (["x" * 500, "y"], "long text"),
        ([np.inf, -np.inf], "no finite numbers"),
        ([-1.7e308, 1.7e308], "too far apart"),
    ],
)
def test_what_is_left_out_and_why(entries: Any, reason: str) -> None:
    found = column(entries)
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize("name", ["patient_id", "id", "ID", "personId", "uuid", "customer key"])
def test_identifiers_by_name(name: str, seed: int) -> None:
    numbers = np.random.default_rng(seed).permutation(10_000)[:500]
    drafted = draft_schema(pd.DataFrame({name: numbers, "y": numbers % 2}))
    assert drafted.names == ("y",)
    assert "identifier" in dict(drafted.left_out)[name]
    assert draft_schema(pd.DataFrame({"width": numbers, "y": numbers % 2})).names == ("width", "y")


def test_infinities_are_clamped() -> None:
    drafted = column([1.5, np.inf, -np.inf, 2.5])
    assert drafted.out_of_domain == "clamp"
    assert drafted.encode([np.inf]).tolist() == [drafted.size - 1]


def test_a_draft_is_refused_until_it_is_declared_public() -> None:
    frame = pd.DataFrame({"sex": ["M", "F"], "name": ["x" * 300, "y"]})
    drafted = draft_schema(frame, name="toy")
    assert drafted.name == "toy"
    assert drafted.row_count is None
    assert drafted.facts_from_data() == (
        "column 'sex': kind",
        "column 'sex': values",
        "column 'sex': missing",
        "left_out",
    )
    with pytest.raises(DomainNotPublic):
        drafted.require_public()
    assert Schema.parse(drafted.to_yaml()) == drafted
    assert "origin: from-data" in drafted.to_yaml()
    assert "not public yet" in drafted.to_yaml()
    assert "not public yet" not in drafted.declare_public(rare_are_public=True).to_yaml()
    draft_schema(frame, declare_public=True).require_public()


def test_wrong_tables() -> None:
    with pytest.raises(DataError, match="no rows"):
        draft_schema(pd.DataFrame({"x": []}))
    with pytest.raises(DataError, match="no columns"):
        draft_schema(pd.DataFrame(index=[1, 2]))
    with pytest.raises(DataError, match="repeated: 'x'"):
        draft_schema(pd.DataFrame([[1, 2]], columns=["x", "x"]))
    with pytest.raises(SchemaError, match=r"No column could be drafted.*'x': it has no entries"):
        draft_schema(pd.DataFrame({"x": [None]}))
    for limit in (0, -1, 1.5, True):
        with pytest.raises(SchemaError, match="max_categories"):
            draft_schema(pd.DataFrame({"x": [1]}), max_categories=limit)  # type: ignore[arg-type]


def test_max_categories_is_a_limit() -> None:
    entries = [f"ward {i % 30}" for i in range(300)]
    assert column(entries, max_categories=30).size == 30
    fewer = column(entries, max_categories=29)
    assert (fewer.value_count, fewer.out_of_domain) == (29, "to-other")


def test_other_frames() -> None:
    drafted = draft_schema(pl.DataFrame({"x": [1, 2, None], "s": ["a", "b", "a"]}))
    assert drafted.column("x").missing
    assert drafted.column("s").labels == ("a", "b")


def test_reasons_and_errors_do_not_quote_entries() -> None:
    canary = "canary-4711"
    for entries in ([canary + "z" * 300, "y"], [[canary], [canary]], [f"{canary}{i}" for i in range(400)]):
        assert canary not in str(column(entries))


ENTRY = st.one_of(
    st.none(),
    st.integers(-(10**9), 10**9),
    st.floats(-1e12, 1e12),
    st.just(float("nan")),
    st.text(max_size=5),
    st.booleans(),
    st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),
    st.sampled_from(["007", "NA", "", "yes", "no", "2014-01-01", "1e3", " 5 ", "inf"]),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(
        st.lists(ENTRY, min_size=1, max_size=15),
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=15),
        st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=15),
        st.lists(st.text(max_size=3), min_size=1, max_size=15),
        st.lists(st.dates().map(dt.date.isoformat), min_size=1, max_size=5),
    ),
    st.booleans(),
)
def test_a_table_fits_its_own_draft(entries: list[Any], as_csv: bool) -> None:
    series = pd.Series(entries, dtype=object) if len({type(e) for e in entries}) > 1 else pd.Series(entries)
    frame = pd.DataFrame({"x": series, "constant": np.ones(len(series), dtype=int)})
    if as_csv:
        text = frame.to_csv(index=False)
        frame = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    drafted = draft_schema(frame)
    codes = drafted.encode_frame(frame)
    assert all(part.max(initial=0) < drafted.domain.size(name) for name, part in codes.items())
    assert draft_schema(frame, declare_public=True).fingerprint() == drafted.fingerprint()


@pytest.mark.parametrize(
    ("entries", "format"),
    [
        (["31.12.2019", "01.02.2020"], "%d.%m.%Y"),
        (["31/12/2019", "1/2/2020"], "%d/%m/%Y"),
        (["12/31/2019", "1/2/2020"], "%m/%d/%Y"),
        (["31.12.2019 23:59", "01.02.2020 00:10"], "%d.%m.%Y %H:%M"),
        (["3 Mar 2019", "14 Dec 2020"], "%d %b %Y"),
        (["2019-12-31", "2020-02-01"], None),
    ],
)
def test_dates_are_drafted_with_the_format_they_are_written_in(
    entries: list[str], format: str | None
) -> None:
    found = column([*entries, None])
    assert isinstance(found, Date)
    assert found.format == format
    assert found.missing
    assert found.encode(entries).max() < found.missing_code


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        (["1/2/2020", "3/4/2021"], "read in several ways (%d/%m/%Y, %m/%d/%Y)"),
        (["10.000", "250.000", "900"], "10.000 would be read as ten"),
        ([f"{n},50 €" for n in range(200)], "1234.5"),
        ([f"${n},200" for n in range(200)], "1234.5"),
        ([f"{n} kg" for n in range(200)], "1234.5"),
        ([f"V-{n}" for n in range(1000, 1200)], "identifier"),
    ],
)
def test_numbers_and_dates_that_can_be_misread_are_left_out(entries: list[str], reason: str) -> None:
    found = column(entries)
    assert isinstance(found, str)
    assert reason in found


def test_decimal_points_are_not_taken_for_thousands() -> None:
    for entries in (["3.250", "0.125"], ["10.000", "2.5"], [10.0, 2.0]):
        assert not isinstance(column(entries), str)
