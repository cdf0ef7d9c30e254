"""One record never changes how another is read: a column is read entry by entry, whatever stands beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import read_table
from understudy.schema import Boolean, Categorical, Column, Date, Integer, Real, Schema

AWKWARD = (
    "7", "07", "7.", "7.0", "7.5", "-0", "+7", " 7 ", "7e0", "1e1", "0x10", "0b1", "1_0", "٣", "inf", "-Infinity", "nan",
    "NA", "", "true", "True", "1", "0", "no", "9007199254740993", "123456789012345678901234567890", "2024-01-02",
    "2024-1-2", "20240102", "2024-01-02T00:00", "1/2/2024", "x", "X", "x ", "16", "99", "100",
)  # fmt: skip
COLUMNS = (
    Integer("c", minimum=0, maximum=99, out_of_domain="to-other", missing=True),
    Real("c", minimum=0, maximum=99, bins=[0, 7, 16, 99], out_of_domain="to-other", missing=True),
    Date("c", minimum="2024-01-01", maximum="2024-01-31", out_of_domain="to-other", missing=True),
    Categorical("c", values=["x", "7", "true"], out_of_domain="to-other", missing=True),
    Boolean("c", out_of_domain="to-other", missing=True),
)


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
        return np.asarray(chunk["c"]).tolist()

    everything = dict(zip(usable, codes(usable), strict=True))
    for entry in usable:
        assert codes([entry, "7"])[0] == everything[entry], entry
