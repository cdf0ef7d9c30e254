"""Writing frames: three formats, and an existing file that survives every failure."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.data import check_output_format, read_table, write_frame
from understudy.errors import OutputError
from understudy.schema import Boolean, Categorical, Date, Integer, Real, Schema

FRAME = pd.DataFrame({"a": [1, 2], "b": ["x,y", 'quote " é']})
NAMES = ["t.csv", "t.csv.gz", "t.parquet", "T.CSV"]


def read_back(path):
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_can_be_read_back_and_replaces_what_was_there(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"old")
    assert write_frame(FRAME, path) == path
    pd.testing.assert_frame_equal(read_back(path), FRAME)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", NAMES)
def test_equal_frames_give_equal_bytes(tmp_path, name, monkeypatch):
    first = write_frame(FRAME, tmp_path / name).read_bytes()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 1e6)
    (tmp_path / "sub").mkdir()
    assert write_frame(FRAME, tmp_path / "sub" / name).read_bytes() == first


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path):
    path, link = tmp_path / "t.csv", tmp_path / "link.csv"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_frame(FRAME, link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    pd.testing.assert_frame_equal(read_back(path), FRAME)


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.gz", "csv"])
def test_unknown_endings_are_refused_before_anything_is_written(tmp_path, name):
    for act in (lambda path: write_frame(FRAME, path), check_output_format):
        with pytest.raises(OutputError, match=r"Use \.csv, \.csv\.gz or \.parquet"):
            act(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_absent_folders_and_folders_in_the_way_are_refused(tmp_path):
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(OutputError, match="does not exist"):
        write_frame(FRAME, tmp_path / "absent" / "t.csv")
    with pytest.raises(OutputError, match="folder of that name"):
        write_frame(FRAME, tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "may not write"),
        (999, "refused"),
    ],
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch, number, words, step):
    path = tmp_path / "t.csv"
    path.write_text("old")

    def fail(*arguments, **options):
        raise OSError(number, "system text")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OutputError, match=words):
        write_frame(FRAME, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_real_limit_on_file_size_leaves_the_old_file(tmp_path, name):
    path = tmp_path / name
    path.write_text("old")
    script = (
        "import resource, signal, sys, numpy as np, pandas as pd\n"
        "from understudy.data import write_frame\n"
        "from understudy.errors import OutputError\n"
        "import pyarrow.parquet\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "frame = pd.DataFrame({'a': np.random.default_rng(0).random(50_000)})\n"
        "try:\n    write_frame(frame, sys.argv[1])\n"
        "except OutputError as error:\n    print('refused:', error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert "refused:" in done.stdout, done.stderr
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("old")

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(pd.DataFrame, "to_csv", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_frame(FRAME, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_column_parquet_cannot_hold_is_refused(tmp_path):
    with pytest.raises(OutputError, match="Write CSV instead"):
        write_frame(pd.DataFrame({"a": [1, "x", None]}), tmp_path / "t.parquet")


# -- the spelling of a schema ----------------------------------------------------------------------

SPELLED = Schema(
    [
        Real(
            "price", bins=[0, 10, 200, 1000], decimals=2, decode_by="smooth", missing=True, missing_text="?"
        ),
        Real("share", bins=[0, 0.5, 1], decimals=5, decode_by="uniform"),
        Real("whole", bins=[-5, 0, 5], decimals=0, decode_by="uniform"),
        Boolean("again", spelling=["No", "Yes"]),
        Boolean("known", missing=True, missing_text="unknown"),
        Categorical("agent", values=["007", "9"], missing=True, missing_text="NULL"),
        Integer("age", minimum=0, maximum=9, missing=True, missing_text="-9"),
        Date(
            "seen",
            minimum="0900-01-01",
            maximum="0900-12-31",
            resolution="month",
            missing=True,
            missing_text="never",
        ),
        Real("plain", bins=[0, 1, 2], decode_by="uniform", missing=True, missing_text="?"),
        Real("mixed", bins=[0, 1, 2], decimals=1, missing=True, missing_text="?", out_of_domain="to-other"),
    ]
)


def some_codes(rows: int) -> dict[str, Any]:
    generator = np.random.default_rng(7)
    return {column.name: generator.integers(0, column.size, rows) for column in SPELLED.columns}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_csv_file_has_the_spelling_of_the_table_and_reads_back_to_the_same_codes(tmp_path, name):
    codes = some_codes(500)
    frame = SPELLED.decode(codes, seed=3)
    path = write_frame(frame, tmp_path / name, schema=SPELLED)
    text = pd.read_csv(path, dtype=str, keep_default_na=False)
    patterns = {
        "price": r"\?|\d{1,3}\.\d\d|1000\.00",
        "share": r"[01]\.\d{5}",
        "whole": r"-?\d",
        "again": "Yes|No",
        "known": "True|False|unknown",
        "agent": "007|9|NULL",
        "age": r"\d|-9",
        "seen": r"0900-\d\d-\d\d|never",
        "plain": r"\?|[01]\.\d+(e-\d+)?",
        "mixed": r"\?|other|\d\.\d",
    }
    for column, pattern in patterns.items():
        assert text[column].str.fullmatch(pattern).all(), column
    for source in (str(path), text):
        table = read_table(source, SPELLED)
        for column in SPELLED.columns:
            wanted = np.bincount(codes[column.name], minlength=column.size)
            assert table.count_many([(column.name,)])[0].tolist() == wanted.tolist(), column.name
    again = SPELLED.encode_frame(text)
    assert all(again[column].tolist() == list(codes[column]) for column in SPELLED.names)


def test_a_parquet_file_keeps_numbers_and_nulls_and_reads_back_to_the_same_codes(tmp_path):
    schema = replace(SPELLED, columns=SPELLED.columns[:-1])  # numbers beside 'other' are for CSV alone
    codes = {name: some_codes(500)[name] for name in schema.names}
    path = write_frame(schema.decode(codes, seed=3), tmp_path / "t.parquet", schema=schema)
    back = pd.read_parquet(path)
    assert str(back["price"].dtype) == "float64"
    assert back["price"].isna().any()
    assert set(back["agent"]) == {"007", "9", "NULL"}
    assert set(back["again"]) == {"Yes", "No"}
    table = read_table(str(path), schema)
    for column in schema.columns:
        wanted = np.bincount(codes[column.name], minlength=column.size)
        assert table.count_many([(column.name,)])[0].tolist() == wanted.tolist(), column.name


def test_spelling_leaves_the_frame_alone_whatever_its_columns_are_called(tmp_path):
    schema = Schema([Real("self", bins=[0, 10], decimals=1), Integer("of it", minimum=0, maximum=9)])
    frame = pd.DataFrame({"self": [1.5, 2.0], "of it": [1, 2]})
    path = write_frame(frame, tmp_path / "t.csv", schema=schema)
    assert path.read_text() == "self,of it\n1.5,1\n2.0,2\n"
    assert frame["self"].tolist() == [1.5, 2.0]
    assert frame["self"].dtype == np.float64


def test_a_schema_without_the_fields_changes_nothing_in_a_file(tmp_path):
    schema = Schema([Real("x", bins=[0, 1, 2], decode_by="uniform", missing=True), Boolean("y")])
    frame = schema.decode({"x": [0, 1, 2], "y": [0, 1, 1]}, seed=1)
    with_schema = write_frame(frame, tmp_path / "a.csv", schema=schema).read_bytes()
    assert with_schema == write_frame(frame, tmp_path / "b.csv").read_bytes()


@pytest.mark.parametrize(
    ("number", "decimals", "text"),
    [
        (204.05, 2, "204.05"),
        (5.0, 2, "5.00"),
        (-0.0, 0, "0"),
        (1e-05, 5, "0.00001"),
        (120.0, 0, "120"),
        (0.5, 3, "0.500"),
        (-0.001, 2, "0.00"),
    ],
)
def test_numbers_have_the_declared_decimals(tmp_path, number, decimals, text):
    schema = Schema([Real("x", bins=[-1, 1000], decimals=decimals)])
    path = write_frame(pd.DataFrame({"x": [number]}), tmp_path / "t.csv", schema=schema)
    assert path.read_text() == f"x\n{text}\n"
