"""Neighbouring tables stay neighbours on their way into the curator, whatever they are read from.

Every sensitivity in this package takes for granted that one more record in a source is one more record in the encoded
table, or none where a cleaning rule leaves it out, and that nothing else changes. Here that is tried on entries chosen to
be awkward: spellings of numbers, dates and truth values, and equal values of different types.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.data import Database, Derived, Preparation, read_table
from understudy.schema import Bins, Boolean, Categorical, Constraint, Date, Integer, Real, Schema

ANY: dict[str, Any] = {"missing": True, "out_of_domain": "to-other"}
SCHEMA = Schema(
    [
        Integer("n", bins=Bins(edges=[0, 10, 2**53, 2**53 + 1, 2**53 + 9]), **ANY),
        Real("x", bins=Bins(edges=[0, 10.00000001, 10.00000002, 30]), **ANY),
        Date("d", minimum="2019-12-30", maximum="2020-01-03", **ANY),
        Categorical("c", values=["1", "007", "True", "1000000000000000"], **ANY),
        Boolean("b", **ANY),
        Categorical("m", values=["one", "yes", "seven"], **ANY),
    ]
)
PREPARE = Preparation(
    derived=(Derived(name="m", source="c", values=(("1", "one"), ("True", "yes"), ("007", "seven"))),),
    rules=(Constraint.parse(f"n <= {2**53} or b", SCHEMA),),
)
COLUMNS = ("n", "x", "d", "c", "b")
TEXTS = (
    "1", "1.0", " 1", "+1", "1e0", "01", "007", "7", "10", "10.000000015", "1e1", "0x1", "inf", "nan", "NA", "true",
    "True", "T", "yes", "0", "-0", "9007199254740992", "9007199254740993", "9.1", "1000000000000000", "1e15", "2020-01-01",
    "2020-01-01T23:59", "2020-1-1", "20200101", "x", "[0, 10)", "", "\u0663",
)  # fmt: skip
MOMENT = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
OBJECTS = (
    *TEXTS, None, 1, 1.0, True, Decimal(1), 0, -0.0, False, 10, 10.000000015, 7, 2**53, 2**53 + 1, 1.5, 10**15, 1e15, 2**70,
    MOMENT, MOMENT.astimezone(dt.timezone(dt.timedelta(hours=-1))), pd.Timestamp(MOMENT), dt.date(2020, 1, 1),
)  # fmt: skip


def frame(records: list[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.Series([r[i] for r in records], dtype=object) for i, name in enumerate(COLUMNS)}
    )


def arrow(records: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table(
        {name: pa.array([r[i] or None for r in records], pa.string()) for i, name in enumerate(COLUMNS)}
    )


def csv(records: list[tuple[Any, ...]], folder: Path) -> Path:
    frame(records).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def parquet(records: list[tuple[Any, ...]], folder: Path) -> Path:
    pq.write_table(arrow(records), folder / "t.parquet", row_group_size=2)
    return folder / "t.parquet"


def duckdb(records: list[tuple[Any, ...]], folder: Path) -> Database:
    return Database(url="duckdb://", table=str(parquet(records, folder)))


SOURCES: dict[str, Any] = {
    "pandas": lambda records, _: frame(records),
    "arrow": lambda records, _: arrow(records),
    "polars": lambda records, _: pl.from_arrow(arrow(records)),
    "csv": csv,
    "parquet": parquet,
    "duckdb": duckdb,
}


def encoded(records: list[tuple[Any, ...]], kind: str, folder: Path, *, limit: int = 1024) -> Counter[Any]:
    table = read_table(SOURCES[kind](records, folder), SCHEMA, prepare=PREPARE, max_memory_mb=limit)
    codes, counts = table.distinct(SCHEMA.names)
    return Counter(dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True)))


def check(records: list[tuple[Any, ...]], kind: str, folder: Path, **options: Any) -> None:
    """One more record is one more, at either end of the table, and the same one as in a table of its own."""
    *others, record = records
    alone, without = encoded([record], kind, folder, **options), encoded(others, kind, folder, **options)
    assert sum(alone.values()) <= 1
    for table in ([*others, record], [record, *others]):
        assert encoded(table, kind, folder, **options) == without + alone


QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def several(entries: tuple[Any, ...]) -> Any:
    return st.lists(st.tuples(*[st.sampled_from(entries)] * len(COLUMNS)), min_size=2, max_size=5)


GROUPS: dict[str, Any] = {
    "everything": lambda entry: True,
    "text": lambda entry: isinstance(entry, str),
    "numbers": lambda entry: isinstance(entry, int | float) and not isinstance(entry, bool),
    "numbers and truths": lambda entry: isinstance(entry, int | float),
    "moments": lambda entry: isinstance(entry, dt.datetime),
    "all but text": lambda entry: not isinstance(entry, str),
}


@pytest.mark.parametrize("group", GROUPS)
def test_a_table_of_objects_is_the_sum_of_its_records(group: str, tmp_path: Path) -> None:
    """In columns of one type and of several, which pandas stores and hashes in different ways, in both orders."""
    records = [(entry,) * len(COLUMNS) for entry in OBJECTS if GROUPS[group](entry)]
    alone = sum((encoded([record], "pandas", tmp_path) for record in records), Counter())
    assert encoded(records, "pandas", tmp_path) == alone
    assert encoded(records[::-1], "pandas", tmp_path) == alone


@QUICK
@given(records=several(TEXTS))
@pytest.mark.parametrize("kind", ["arrow", "polars", "csv"])
def test_one_more_line_is_one_more_record(kind: str, tmp_path: Path, records: list[tuple[Any, ...]]) -> None:
    check(records, kind, tmp_path)


@settings(QUICK, max_examples=15)
@given(records=several(TEXTS))
@pytest.mark.parametrize("limit", [0, 1024], ids=["on disk", "in memory"])
def test_one_more_row_of_a_file_is_one_more_record(
    limit: int, tmp_path: Path, records: list[tuple[Any, ...]]
) -> None:
    check(records, "parquet", tmp_path, limit=limit)


@pytest.mark.parametrize("last", ["9.1", "x"])
def test_one_more_row_of_a_database_is_one_more_record(last: str, tmp_path: Path) -> None:
    """Every awkward entry in every column; then a fraction or a word beside them."""
    pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
    pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")
    others = [
        tuple(TEXTS[(place + shift) % len(TEXTS)] for shift in range(len(COLUMNS)))
        for place in range(len(TEXTS))
    ]
    kept = [record for record in others if last not in record]
    without = encoded(kept, "duckdb", tmp_path)
    assert without == encoded(kept, "csv", tmp_path)
    record = (last,) * len(COLUMNS)
    assert encoded([*kept, record], "duckdb", tmp_path) == without + encoded([record], "csv", tmp_path)


@QUICK
@given(records=several(TEXTS))
def test_text_is_the_same_record_wherever_it_is_stored(
    tmp_path: Path, records: list[tuple[Any, ...]]
) -> None:
    expected = encoded(records, "csv", tmp_path)
    for kind in ("arrow", "polars", "parquet"):
        assert encoded(records, kind, tmp_path) == expected
