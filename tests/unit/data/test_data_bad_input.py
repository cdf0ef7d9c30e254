"""Bad input: a clear error for each kind, and nothing private in it or behind it."""

from __future__ import annotations

import gzip
import os
import re
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from understudy.data import ArrowTable, read_table
from understudy.errors import DataError
from understudy.schema import Categorical, Integer, Real, Schema

CANARY = "canary-d41d8cd9"
ROWS = 4937  # a number that appears nowhere else
SCHEMA = Schema(
    columns=(
        Categorical("ward", values=("north", "south")),
        Integer("age", minimum=0, maximum=99),
        Real("dose", minimum=0, maximum=10, bins=2),
    )
)
HEADER = "ward,age,dose\n"
GOOD = "north,3,1.5\n" * ROWS


def refusal(source, **options):
    """Return the message of the refusal, after checking that nothing private is in it or behind it."""
    with pytest.raises(DataError) as caught:
        read_table(source, SCHEMA, **options)
    error: BaseException | None = caught.value
    shown = "".join(traceback.format_exception(caught.value))
    behind = []
    while error is not None:
        behind += [str(error), repr(error), repr(error.args), repr(getattr(error, "__notes__", ""))]
        error = error.__cause__ or error.__context__
    for text in (shown, *behind):
        assert CANARY not in text
        assert str(ROWS) not in text
        assert str(ROWS + 1) not in text
        assert str(ROWS + 2) not in text
    assert len(behind) == 4, "another exception is chained to the refusal"
    return str(caught.value)


def written(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


# -- CSV ------------------------------------------------------------------------------------------------

CSV_CASES = {
    "too many fields": (HEADER + GOOD + f"{CANARY},1,2,3\n", "more or fewer fields"),
    "too few fields": (HEADER + GOOD + f"{CANARY}\n", "more or fewer fields"),
    "open quotation mark": (HEADER + GOOD + f'"{CANARY},1,2\n' + GOOD, "fields|quotation mark"),
    "endless quotation mark": (HEADER + f'"{CANARY}' + "x" * 9_000_000 + GOOD, "quotation mark"),
    "empty": ("", "is empty"),
    "blank": ("\n \n\n", "is empty"),
    "header is a record": (f"{CANARY},1,2\n" + GOOD, "None of the columns"),
    "some columns missing": (f"ward,{CANARY},dose\n" + GOOD, "missing columns: 'age'"),
    "column named twice": ("ward,age,dose,age\n" + f"{CANARY},1,2,3\n" * ROWS, "more than once: 'age'"),
    "other column named twice": (f"ward,age,dose,{CANARY},{CANARY}\n", "share a name"),
    "unknown value": (HEADER + GOOD + f"{CANARY},1,2\n", "'ward' has values outside"),
    "text for a number": (HEADER + GOOD + f"north,{CANARY},2\n", "'age'"),
    "number out of range": (HEADER + GOOD + "north,73219,2\n", "'age' has values outside"),
    "not a number": (HEADER + GOOD + "north,1,nan\n", "'dose'"),
    "infinite": (HEADER + GOOD + "north,1,inf\n", "'dose'"),
    "missing value": (HEADER + GOOD + "north,,2\n", "'age' has missing"),
    "several columns": (HEADER + f"{CANARY},{CANARY},{CANARY}\n", "(?s)'ward'.*'age'.*'dose'"),
    "latin": ((HEADER + GOOD + f"{CANARY}é,1,2\n").encode("latin-1"), "encoding='latin-1'"),
    "latin header": (f"ward,age,dose,é{CANARY}\n".encode("latin-1"), "encoding='latin-1'"),
    "utf-16": ((HEADER + GOOD).encode("utf-16"), "encoding='utf-16'"),
    "parquet inside": (b"PAR1" + CANARY.encode(), "is a Parquet file"),
    "spreadsheet inside": (b"PK\x03\x04" + CANARY.encode(), "export it as CSV"),
    "header with an endless field": ("w" * 300_000, "cannot be read as CSV"),
    "endless header": ("w" * 5_000_000, "too long"),
}


@pytest.mark.parametrize(
    ("case", "name"),
    [
        (case, name)
        for case in CSV_CASES
        for name in ("t.csv", "t.csv.gz")
        if "inside" not in case or name == "t.csv"
    ],
)
@pytest.mark.parametrize("limit", [0, 64])
def test_bad_csv(tmp_path, case, name, limit):
    content, words = CSV_CASES[case]
    message = refusal(written(tmp_path, content, name), max_memory_mb=limit)
    assert re.search(words, message), message


@pytest.mark.parametrize("cut", [5, 20, 60, -1, -6])
def test_truncated_gzip(tmp_path, cut):
    whole = gzip.compress((HEADER + GOOD + f"{CANARY},1,2\n").encode())
    path = tmp_path / "t.csv.gz"
    path.write_bytes(whole[:cut])
    assert "gzip" in refusal(path)


def test_damaged_gzip(tmp_path):
    numbers = np.random.default_rng(0).integers(0, 9, 20_000)
    damaged = bytearray(gzip.compress((HEADER + "".join(f"north,{n},{n}.5\n" for n in numbers)).encode()))
    damaged[len(damaged) // 2] ^= 0xFF
    path = tmp_path / "t.csv.gz"
    path.write_bytes(damaged)
    assert "'t.csv.gz'" in refusal(path)


def test_plain_text_named_gzip(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_text(HEADER + GOOD)
    assert "Remove '.gz'" in refusal(path)


def test_wrong_encoding_named(tmp_path):
    path = written(tmp_path, (HEADER + GOOD + f"{CANARY}é,1,2\n").encode("latin-1"))
    assert "is not valid ascii text" in refusal(path, encoding="ascii")
    assert "No text encoding is named 'utf-99'" in refusal(path, encoding="utf-99")
    assert "(',,') must be one character" in refusal(path, separator=",,")


def test_unusual_separator(tmp_path):
    path = written(tmp_path, (HEADER + GOOD).replace(",", "!"))
    assert "separator=" in refusal(path)
    assert "None of the columns" in refusal(written(tmp_path, HEADER + GOOD), separator=";")


def test_options_for_csv_are_not_ignored_elsewhere(tmp_path):
    frame = pd.DataFrame({"ward": ["north"], "age": [1], "dose": [1.0]})
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (frame, tmp_path / "t.parquet"):
        assert "CSV files only" in refusal(source, separator=";")
        assert "CSV files only" in refusal(source, encoding="latin-1")


# -- paths ----------------------------------------------------------------------------------------------


def test_paths_that_lead_nowhere(tmp_path):
    assert "There is no file 'absent.csv'" in refusal(tmp_path / "absent.csv")
    assert "There is no file 'absent.parquet'" in refusal(str(tmp_path / "absent.parquet"))
    assert "Save the sheet as CSV" in refusal(written(tmp_path, HEADER, "t.xlsx"))
    assert "does not say what kind" in refusal(written(tmp_path, HEADER, "t.txt"))
    (tmp_path / "folder").mkdir()
    written(tmp_path, HEADER, "folder/t.csv")
    assert "holds no Parquet files" in refusal(tmp_path / "folder")
    (tmp_path / "folder.csv").mkdir()
    assert "holds no Parquet files" in refusal(tmp_path / "folder.csv")
    assert "There is no file" in refusal([tmp_path / "absent.parquet", tmp_path / "other.parquet"])
    os.mkfifo(tmp_path / "pipe.csv")
    assert "not a regular file" in refusal(tmp_path / "pipe.csv")


def test_files_of_others(tmp_path, monkeypatch):
    csv = written(tmp_path, HEADER + GOOD)
    parquet = tmp_path / "t.parquet"
    pd.DataFrame({"ward": ["north"], "age": [1], "dose": [1.0]}).to_parquet(parquet)
    honest = Path.open

    def refuse(self, *arguments, **options):
        if self.parent == tmp_path:
            raise PermissionError(13, CANARY)
        return honest(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    assert "may not be read by this user" in refusal(csv)
    assert "may not be read by this user" in refusal(parquet)


# -- Parquet ---------------------------------------------------------------------------------------------


def good_arrow(**columns):
    base = {"ward": ["north"] * ROWS, "age": [3] * ROWS, "dose": [1.5] * ROWS}
    return pa.table(base | columns)


@pytest.mark.parametrize("limit", [0, 64])
def test_bad_parquet(tmp_path, limit):
    path = tmp_path / "t.parquet"
    pq.write_table(good_arrow(ward=[CANARY] * ROWS), path)
    assert "'ward' has values outside" in refusal(path, max_memory_mb=limit)
    whole = path.read_bytes()
    path.write_bytes(whole[:-50])
    assert "damaged" in refusal(path, max_memory_mb=limit)
    path.write_bytes(b"")
    assert "is empty" in refusal(path, max_memory_mb=limit)
    path.write_text(HEADER + CANARY)
    assert "is not a Parquet file" in refusal(path, max_memory_mb=limit)
    pq.write_table(good_arrow().drop_columns(["age"]), path)
    assert "missing columns: 'age'" in refusal(path, max_memory_mb=limit)
    pq.write_table(good_arrow(age=[[CANARY]] * ROWS), path)
    assert "'age'" in refusal(path, max_memory_mb=limit)
    assert "missing columns: 'who'" in refusal(path, id_column="who", max_memory_mb=limit)


@pytest.mark.parametrize("limit", [0, 64])
def test_parquet_files_that_disagree(tmp_path, limit):
    pq.write_table(good_arrow(), tmp_path / "a.parquet")
    pq.write_table(good_arrow().drop_columns(["age"]), tmp_path / "b.parquet")
    assert "in some of the files" in refusal(tmp_path, max_memory_mb=limit)
    pq.write_table(good_arrow(age=[CANARY] * ROWS), tmp_path / "b.parquet")
    assert "other types" in refusal(tmp_path, max_memory_mb=limit)


def test_repeated_parquet_columns(tmp_path):
    table = pa.table([["north"], [1], [1.0], [2]], names=["ward", "age", "dose", "age"])
    pq.write_table(table, tmp_path / "t.parquet")
    assert "more than once: 'age'" in refusal(table)
    assert "share a name" in refusal(tmp_path / "t.parquet")
    assert "more than once: 'age'" in refusal(pads.dataset(table))


# -- frames and other objects ----------------------------------------------------------------------------


def test_bad_frames():
    good = pd.DataFrame({"ward": ["north"] * ROWS, "age": 3, "dose": 1.5})
    for frame in (good, pa.Table.from_pandas(good), pl.from_pandas(good)):
        assert "missing columns: 'who'" in refusal(frame, id_column="who")
    assert "missing columns: 'dose'" in refusal(good[["ward", "age"]])
    assert "more than once: 'age'" in refusal(pd.concat([good, good[["age"]]], axis=1))
    assert "'ward'" in refusal(good.assign(ward=CANARY))
    assert "'ward'" in refusal(good.assign(ward=[[CANARY]] * ROWS))
    assert "'dose'" in refusal(good.assign(dose=np.inf))
    assert "'age'" in refusal(good.assign(age=pd.Series([CANARY, 1.5] + [3] * (ROWS - 2), dtype=object)))
    assert "'ward'" in refusal(pl.from_pandas(good.assign(ward=CANARY)))
    assert "'ward'" in refusal(pa.Table.from_pandas(good.assign(ward=CANARY)).to_batches()[0])


def test_ids_that_cannot_be_used(tmp_path):
    frame = pd.DataFrame({"ward": ["north"] * 2, "age": 3, "dose": 1.5, "who": [CANARY, None]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (
        frame,
        pa.Table.from_pandas(frame),
        pl.from_pandas(frame),
        tmp_path / "t.csv",
        tmp_path / "t.parquet",
    ):
        assert "no value in the id column 'who'" in refusal(source, id_column="who")
    assert "must not be a column of the schema" in refusal(frame, id_column="age")


@pytest.mark.parametrize("source", [None, 3, [CANARY, 4], {"ward": [CANARY]}, [], pd.Series([CANARY])])
def test_objects_that_are_no_tables(source):
    assert "cannot be read from an object of type" in refusal(source)


def test_negative_memory_limit():
    assert "must not be negative" in refusal("t.csv", max_memory_mb=-1)


def test_no_files():
    with pytest.raises(DataError, match="No files"):
        ArrowTable([], SCHEMA)


def test_an_endless_field_is_refused_whatever_other_code_set(tmp_path: Path) -> None:
    """Some libraries raise Python's limit for the whole process; a header must not depend on it."""
    import csv

    path = tmp_path / "t.csv"
    path.write_text("w" * 300_000)
    before = csv.field_size_limit(2**31 - 1)
    try:
        with pytest.raises(DataError, match="cannot be read as CSV"):
            read_table(path, SCHEMA)
    finally:
        csv.field_size_limit(before)
