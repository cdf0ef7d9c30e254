"""encode(decode(codes)) == codes, for every kind of column and every rule."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from understudy.errors import SchemaError
from understudy.schema import Boolean, Categorical, Column, Date, Integer, Ordinal, Real, Schema

QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
NUMBERS = st.one_of(
    st.integers(-(10**6), 10**6),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.floats(allow_nan=False, allow_infinity=False),
)


@st.composite
def extras(draw: st.DrawFn, *, clamp: bool) -> dict[str, Any]:
    missing = draw(st.booleans())
    policies = ["refuse", "to-other"] + (["to-missing"] if missing else []) + (["clamp"] if clamp else [])
    text = draw(st.sampled_from(["", "?", "not known"])) if missing else ""
    return {"missing": missing, "missing_text": text, "out_of_domain": draw(st.sampled_from(policies))}


@st.composite
def named(draw: st.DrawFn) -> Column:
    values = draw(st.lists(st.one_of(TEXT, NUMBERS), min_size=1, max_size=8))
    build: Any = draw(st.sampled_from([Categorical, Ordinal]))
    try:
        made: Column = build("x", values=values, **draw(extras(clamp=False)))
        return made
    except SchemaError:
        assume(False)
        raise


@st.composite
def bins(draw: st.DrawFn, numbers: st.SearchStrategy[Any]) -> dict[str, Any]:
    edges = draw(st.lists(numbers, min_size=2, max_size=7, unique=True).map(sorted))
    return {
        "edges": edges,
        "open": draw(st.sampled_from(["none", "low", "high", "both"])),
        "closed": draw(st.sampled_from(["left", "right"])),
    }


@st.composite
def integers(draw: st.DrawFn) -> Column:
    rule = draw(st.sampled_from(["midpoint", "uniform", "integer-uniform", "smooth", "edge", "label"]))
    rest = {"decode_by": rule, **draw(extras(clamp=True))}
    shape = draw(st.integers(0, 3))
    whole = st.integers(-(2**62), 2**62) | st.integers(-30, 30)
    try:
        if shape == 0:
            low = draw(whole)
            return Integer("x", minimum=low, maximum=low + draw(st.integers(0, 40)), **rest)
        if shape == 1:
            return Integer("x", values=sorted(draw(st.sets(whole, min_size=1, max_size=8))), **rest)
        if shape == 2:
            low = draw(whole)
            return Integer(
                "x",
                minimum=low,
                maximum=low + draw(st.integers(9, 500)),
                bins=draw(st.integers(1, 9)),
                **rest,
            )
        return Integer("x", bins=draw(bins(whole)), **rest)
    except SchemaError:
        assume(False)
        raise


@st.composite
def reals(draw: st.DrawFn) -> Column:
    rule = draw(st.sampled_from(["midpoint", "uniform", "integer-uniform", "smooth", "edge", "label"]))
    rest = {"decode_by": rule, **draw(extras(clamp=True))}
    if draw(st.booleans()):
        rest["decimals"] = draw(st.integers(0, 6))
    shape = draw(st.integers(0, 2))
    try:
        if shape == 0:
            return Real("x", values=sorted(draw(st.sets(NUMBERS, min_size=1, max_size=8))), **rest)
        if shape == 1:
            low, high = sorted((draw(NUMBERS), draw(NUMBERS)))
            return Real("x", minimum=low, maximum=high, bins=draw(st.integers(1, 9)), **rest)
        return Real("x", bins=draw(bins(NUMBERS)), **rest)
    except SchemaError:
        assume(False)
        raise


@st.composite
def dates(draw: st.DrawFn) -> Column:
    rest = {
        "decode_by": draw(st.sampled_from(["midpoint", "uniform", "smooth", "edge", "label"])),
        **draw(extras(clamp=True)),
    }
    days = st.dates(dt.date(1700, 1, 1), dt.date(2250, 1, 1)).map(dt.date.isoformat)
    try:
        if draw(st.booleans()):
            return Date("x", bins=draw(bins(days)), **rest)
        low = draw(st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)))
        high = low + dt.timedelta(days=draw(st.integers(0, 900)))
        resolution: Any = draw(st.sampled_from(["day", "week", "month", "quarter", "year"]))
        return Date("x", minimum=low.isoformat(), maximum=high.isoformat(), resolution=resolution, **rest)
    except SchemaError:
        assume(False)
        raise


spellings = st.sampled_from([None, ("No", "Yes"), ("died", "lives"), ("0", "2"), ("N", "N.")])
booleans = st.builds(lambda rest, texts: Boolean("x", spelling=texts, **rest), extras(clamp=False), spellings)
columns = st.one_of(named(), integers(), reals(), dates(), booleans)


@QUIET
@given(columns, st.integers(0, 2**32 - 1))
def test_decoding_then_encoding_gives_the_codes_back(column: Column, seed: int) -> None:
    codes = np.arange(column.size, dtype=column.dtype)
    decoded = column.decode(codes, np.random.default_rng(seed))
    assert len(decoded) == column.size
    assert column.encode(decoded).tolist() == codes.tolist()
    assert column.encode(decoded).dtype == column.dtype
    assert column.encode(pd.Series(decoded)).tolist() == codes.tolist()


@QUIET
@given(st.one_of(integers(), reals()), st.integers(0, 2**32 - 1))
def test_decoded_numbers_survive_a_csv_file(column: Column, seed: int) -> None:
    """Codes of values only: a file cannot tell a missing entry from an empty one."""
    codes = np.arange(column.value_count, dtype=column.dtype)
    frame = pd.DataFrame({"x": column.decode(codes, np.random.default_rng(seed))})
    text = io.StringIO(frame.to_csv(index=False))
    back = pd.read_csv(text, dtype=str, keep_default_na=False)
    assert column.encode(back["x"]).tolist() == codes.tolist()


@QUIET
@given(columns)
def test_files_keep_a_column(column: Column) -> None:
    schema = Schema([column], name="n")
    again = Schema.parse(schema.to_yaml())
    assert again == schema
    assert again.column("x").labels == column.labels
    assert again.fingerprint() == schema.fingerprint()


@QUIET
@given(columns)
def test_labels_are_as_many_as_codes(column: Column) -> None:
    assert (
        len(column.labels)
        == column.size
        == column.value_count + len(column.labels) - len(column.value_labels)
    )
    assert column.size >= 1


@QUIET
@given(st.one_of(integers(), reals(), dates()), st.lists(NUMBERS, max_size=30))
def test_clamping_accepts_every_number(column: Column, numbers: list[float]) -> None:
    if column.out_of_domain != "clamp" or isinstance(column, Date):
        return
    codes = column.encode(np.array(numbers, dtype=np.float64))
    cells = column.cells  # type: ignore[attr-defined]
    for number, code in zip(numbers, codes.astype(int), strict=True):
        with np.errstate(over="ignore"):
            gaps = np.maximum(cells.low.astype(float) - number, number - cells.high.astype(float))
        gaps = np.maximum(gaps, 0.0)
        assert gaps[code] == gaps.min()


@QUIET
@given(
    columns,
    st.lists(
        st.one_of(st.none(), TEXT, NUMBERS, st.booleans(), st.dates(), st.binary(max_size=3)), max_size=12
    ),
)
def test_total_policies_never_complain(column: Column, entries: list[Any]) -> None:
    """Under to-missing and to-other nothing that happens depends on the entries."""
    if column.out_of_domain in ("to-missing", "to-other"):
        codes, problems = column.try_encode(pd.Series(entries, dtype=object))
        assert problems == []
        assert len(codes) == len(entries)


@pytest.mark.parametrize("rule", ["midpoint", "uniform", "smooth", "edge"])
def test_an_open_bin_gives_its_edge(rule: Any) -> None:
    column = Integer("x", bins=["<18", "18-20", "20<"], decode_by=rule)
    assert column.decode([0, 2], np.random.default_rng(0)).tolist() == [17, 21]
    real = Real("x", bins=["<18", "[18, 20]", "20<"], decode_by=rule)
    low, high = real.decode([0, 2], np.random.default_rng(0))
    assert low == np.nextafter(18, 0)
    assert high == np.nextafter(20, 30)


def test_edge_is_the_lower_end() -> None:
    assert Integer("x", bins=[0, 10, 20], decode_by="edge").decode(
        [0, 1], np.random.default_rng(0)
    ).tolist() == [0, 10]
    assert Real("x", bins=[0, 10, 20], decode_by="edge").decode(
        [0, 1], np.random.default_rng(0)
    ).tolist() == [0.0, 10.0]


def test_a_column_with_one_endless_bin() -> None:
    column = Integer("x", bins={"labels": ["(-inf, inf)"]})
    assert column.size == 1
    assert column.encode(column.decode([0], np.random.default_rng(0))).tolist() == [0]
    assert column.midpoints.tolist() == [0.0]
