"""One record never changes how another is read: a column is read entry by entry, whatever stands beside it."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import Derived, Preparation, read_table
from understudy.data.entries import read_entries
from understudy.schema import Bins, Boolean, Categorical, Column, Constraint, Date, Integer, Real, Schema

AWKWARD = (
    "7", "07", "7.", "7.0", "7.5", "-0", "+7", " 7 ", "7e0", "1e1", "0x10", "0b1", "1_0", "٣", "inf", "-Infinity", "nan",
    "NA", "", "true", "True", "1", "0", "no", "9007199254740993", "123456789012345678901234567890", "2024-01-02",
    "2024-1-2", "20240102", "2024-01-02T00:00", "1/2/2024", "x", "X", "x ", "16", "99", "100", "x\0", "x\0y", "7\0", "true\0",
)  # fmt: skip
COLUMNS = (
    Integer("c", minimum=0, maximum=99, out_of_domain="to-other", missing=True),
    Real("c", minimum=0, maximum=99, bins=[0, 7, 16, 99], out_of_domain="to-other", missing=True),
    Date("c", minimum="2024-01-01", maximum="2024-01-31", out_of_domain="to-other", missing=True),
    Categorical("c", values=["x", "7", "true"], out_of_domain="to-other", missing=True),
    Boolean("c", out_of_domain="to-other", missing=True),
)
LARGE = 2**53
UNCOMMON = (
    # whole numbers that a double cannot tell apart, and a bin whose ends are alike to six digits
    Integer("c", bins=Bins(edges=(0, LARGE, LARGE + 1, LARGE + 2, LARGE + 9)), out_of_domain="to-other", missing=True),
    Real("c", bins=Bins(edges=(0, 10.00000001, 10.00000002, 30)), out_of_domain="to-other", missing=True),
    Categorical("c", values=["1", "1000000000000000", "True"], out_of_domain="to-other", missing=True),
    Date("c", minimum="2014-06-01", maximum="2016-12-31", resolution="year", format="%Y", out_of_domain="to-other",
         missing=True),
    Date("c", minimum="2019-12-30", maximum="2020-01-03", out_of_domain="to-other", missing=True),
)  # fmt: skip
WEST, EAST = dt.timezone(dt.timedelta(hours=-1)), dt.timezone(dt.timedelta(hours=1))
MOMENT = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
OBJECTS = (
    1, 1.0, True, Decimal(1), "1", "1.0", 0, -0.0, False, 10**15, 1e15, 10, 10.0, 10.000000015, "10", " 10", LARGE,
    LARGE + 1, LARGE + 2, float(LARGE), str(LARGE + 1), 2**70, 1.5, "1.5", "2014", 2014, None, float("nan"), "x", MOMENT,
    MOMENT.astimezone(WEST), MOMENT.astimezone(EAST), pd.Timestamp(MOMENT), pd.Timestamp(MOMENT.astimezone(WEST)),
    dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), ["list"], "x\0y", "10\0", "\ud800", "'\\ud800'",
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(entries=st.lists(st.sampled_from(AWKWARD), min_size=2, max_size=6))
@pytest.mark.parametrize("column", COLUMNS, ids=lambda item: item.kind)
def test_an_entry_is_read_alike_alone_and_beside_others(column: Column, entries: list[str]) -> None:
    """Before, ``0x10`` was sixteen in a column of plain numbers and not a number beside a word."""
    schema = Schema([column])
    together = schema.encode_frame(pd.DataFrame({"c": entries}))["c"]
    alone = [int(schema.encode_frame(pd.DataFrame({"c": [entry]}))["c"][0]) for entry in entries]
    assert together.tolist() == alone


@pytest.mark.parametrize("column", COLUMNS, ids=lambda item: item.kind)
def test_a_file_is_read_entry_by_entry(column: Column, tmp_path: Path) -> None:
    """Each awkward entry beside a plain one and beside every other: its code is always the same."""
    schema = Schema([column])
    usable = [entry for entry in AWKWARD if entry]

    def codes(entries: list[str]) -> list[int]:
        path = tmp_path / "t.csv"
        path.write_text("\n".join(["c", *entries]) + "\n", encoding="utf-8")
        (chunk,) = read_table(path, schema).chunks(rows=100)
        found: list[int] = np.asarray(chunk["c"]).tolist()
        return found

    everything = dict(zip(usable, codes(usable), strict=True))
    for entry in usable:
        assert codes([entry, "7"])[0] == everything[entry], entry


NUL_FIRST = ["x\0y", "x", "x", "7", "7\0"]


def _in_file(entries: list[str], path: Path) -> Path:
    if path.suffix == ".csv":
        path.write_text("\n".join(["c", *entries]) + "\n", encoding="utf-8")
    else:
        pq.write_table(pa.table({"c": entries}), path)
    return path


@pytest.mark.parametrize(
    "made",
    [
        lambda entries, folder: pd.DataFrame({"c": pd.Series(entries, dtype=object)}),
        lambda entries, folder: pd.DataFrame({"c": pd.Series(entries, dtype="string[python]")}),
        lambda entries, folder: pd.DataFrame({"c": pd.Series(entries, dtype="string[pyarrow]")}),
        lambda entries, folder: pl.DataFrame({"c": entries}),
        lambda entries, folder: pa.table({"c": pa.array(entries).dictionary_encode()}),
        lambda entries, folder: _in_file(entries, folder / "t.csv"),
        lambda entries, folder: _in_file(entries, folder / "t.parquet"),
    ],
    ids=["objects", "texts", "Arrow texts", "polars", "dictionary", "csv", "parquet"],
)
def test_a_text_with_a_nul_changes_no_other(made: Callable[..., Any], tmp_path: Path) -> None:
    """Before, ``x``, NUL and ``y`` in the first record turned every ``x`` of the table into ``other``: pandas compares texts up to the first NUL."""
    schema = Schema([COLUMNS[3]])
    for entries in (NUL_FIRST, NUL_FIRST[::-1]):
        counts = read_table(made(entries, tmp_path), schema).count(("c",))
        other, (of_x, of_7) = COLUMNS[3].other_code, (COLUMNS[3].labels.index(text) for text in ("x", "7"))
        assert [int(counts[code]) for code in (of_x, of_7, other)] == [2, 1, 2]
        found = read_entries(made(entries, tmp_path), ["c"]).texts("c")
        assert found == {text: entries.count(text) for text in entries}


def alike(read: Callable[[list[object]], list[int]]) -> None:
    """Each entry beside each other one, in both orders, reads as it does alone."""
    alone = [read([entry])[0] for entry in OBJECTS]
    for one, two in itertools.permutations(range(len(OBJECTS)), 2):
        assert read([OBJECTS[one], OBJECTS[two]]) == [alone[one], alone[two]], (OBJECTS[one], OBJECTS[two])


@pytest.mark.parametrize("column", [*COLUMNS, *UNCOMMON], ids=lambda item: f"{item.kind}-{item.size}")
def test_an_object_is_read_alike_alone_and_beside_others(column: Column) -> None:
    """Before, one of several equal entries stood for all (a moment in two time zones, ``10**15`` and ``1e15``), one
    fraction made whole numbers inexact, and one word made ``10`` the label of a bin that it does not lie in."""
    alike(lambda entries: column.encode(pd.Series(entries, dtype=object)).tolist())


@pytest.mark.parametrize("rule", [f"c <= {LARGE}", f"c == {LARGE + 1}", "c + c < 3"])
def test_a_record_is_cleaned_alike_alone_and_beside_others(rule: str) -> None:
    """Before, one fraction among the entries made the whole numbers of the others inexact."""
    obeyed = Constraint.parse(rule, Schema([UNCOMMON[0]])).holds_raw
    alike(lambda entries: obeyed({"c": pd.Series(entries, dtype=object)}).tolist())


@pytest.mark.parametrize(
    "recipe",
    [Derived(name="c", source="raw", part="year"),
     Derived(name="c", source="raw", values=(("True", "2019"), ("1", "2020"), ("0", "2021")))],
    ids=["part", "values"],
)  # fmt: skip
def test_a_column_is_derived_alike_alone_and_beside_others(recipe: Derived) -> None:
    """Before, ``True`` and ``1`` were one entry, and the first of them decided what both became."""
    column = Categorical("c", values=["2019", "2020", "2021"], out_of_domain="to-other", missing=True)
    prepare = Preparation(derived=(recipe,))
    alike(
        lambda entries: column.encode(
            prepare.frame(pd.DataFrame({"raw": pd.Series(entries, dtype=object)}), ["c"])["c"]
        ).tolist()
    )


@pytest.mark.parametrize(
    ("made", "beside"),
    [(list, None), (list, 1.5), (pa.array, None), (pl.Series, None)],
    ids=["list", "mixed list", "arrow", "polars"],
)
def test_a_large_whole_number_stays_exact_in_a_bare_column(made: Any, beside: float | None) -> None:
    """Before, pandas chose one type for all entries, and whole numbers became doubles beside these."""
    codes = UNCOMMON[0].encode(made([LARGE + 1, beside]))
    assert int(codes[0]) == int(UNCOMMON[0].encode(made([LARGE + 1]))[0]) == 2
