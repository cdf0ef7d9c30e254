"""Files as raw frames, for drafting."""

from __future__ import annotations

import gzip

import pandas as pd
import pytest
from data_support import mixed_frame

from understudy.data import draft_schema, read_frame, read_table
from understudy.errors import DataError


def test_csv_columns_come_as_text_exactly_as_they_stand(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress("\ufeffcode;;age\r\n007;x;NA\r\n;y;4\r\n".encode()))
    frame = read_frame(path)
    assert list(frame.columns) == ["code", "age"]
    assert frame["code"].isna().tolist() == [False, True]
    assert frame["code"].iloc[0] == "007"
    assert frame["age"].tolist() == ["NA", "4"]


def test_parquet_keeps_types_and_exact_whole_numbers(tmp_path):
    frame = pd.DataFrame({"a": pd.array([2**53 + 1, None], dtype="Int64"), "b": ["x", "y"]})
    frame.to_parquet(tmp_path / "t.parquet")
    read = read_frame(tmp_path / "t.parquet")
    assert read["a"].tolist()[0] == 2**53 + 1
    assert read["b"].tolist() == ["x", "y"]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_fits_the_schema_drafted_from_it(tmp_path, name):
    frame = mixed_frame()
    path = tmp_path / name
    frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path)
    schema = draft_schema(read_frame(path))
    assert {"code", "age", "dose", "smokes", "born"} <= set(schema.names)
    assert read_table(path, schema).exact_row_count() == len(frame)
    assert read_table(frame, schema).exact_row_count() == len(frame)


def test_header_alone_gives_a_frame_without_rows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b")
    assert read_frame(path).shape == (0, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "is empty"), ("canary,canary\n1,2\n", "share a name"), ("a,b\ncanary\n", "more or fewer fields")],
)
def test_bad_files_are_refused_without_showing_them(tmp_path, text, words):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=words) as caught:
        read_frame(path)
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None
    with pytest.raises(DataError, match="no file"):
        read_frame(tmp_path / "absent.csv")


def test_options_for_csv_are_not_ignored_elsewhere(tmp_path):
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="CSV files only"):
        read_frame(tmp_path / "t.parquet", separator=";")
