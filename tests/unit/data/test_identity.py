"""What marks a table: the same for copies, another for other tables."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pandas as pd
import pytest

from understudy.data import Database, digest_content, digest_place
from understudy.data.identity import table_file

KEY = b"k" * 32
FRAME = pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"]})


def content(source: object, key: bytes = KEY) -> bytes | None:
    return digest_content(source, hashlib.blake2b(key=key))


def place(source: object) -> bytes | None:
    return digest_place(source, hashlib.blake2b(key=KEY))


def test_files_are_known_by_their_bytes_and_places_by_their_paths(tmp_path: Path, monkeypatch) -> None:
    first, second, third = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv"))
    first.write_text("a\n1\n")
    second.write_text("a\n1\n")
    third.write_text("a\n2\n")
    assert content(first) == content(str(second)) != content(third)
    assert content(first, b"another key") != content(first)
    assert place(first) != place(second)
    (tmp_path / "link.csv").symlink_to(first)
    monkeypatch.chdir(tmp_path)
    assert place("a.csv") == place(tmp_path / "link.csv") == place(first) == place([first])
    assert table_file("a.csv") == first
    assert content(tmp_path / "absent.csv") is None


def test_a_folder_is_known_whatever_the_names_of_its_files(tmp_path: Path) -> None:
    for name, files in {"one": ("1", "2"), "two": ("x", "a")}.items():
        (tmp_path / name).mkdir()
        for file, value in zip(files, (1, 2), strict=True):
            pd.DataFrame({"a": [value]}).to_parquet(tmp_path / name / f"{file}.parquet")
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert content(tmp_path / "one") == content(sorted((tmp_path / "two").iterdir()))
    assert content(tmp_path / "one") != content(tmp_path / "one" / "1.parquet")


def test_frames_are_known_whatever_the_order_of_rows_and_columns() -> None:
    shuffled = FRAME.sample(frac=1, random_state=1)[["b", "a"]]
    known = content(FRAME)
    assert known is not None
    assert content(shuffled) == known
    assert place(FRAME) is None
    for other in (FRAME.head(2), FRAME.assign(a=[1, 2, 4]), FRAME.rename(columns={"a": "c"})):
        assert content(other) != known


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_frames_of_other_kinds_are_known_too(kind: str) -> None:
    module = pytest.importorskip(kind)
    frame = module.DataFrame({"a": [1, 2]}) if kind == "polars" else module.table({"a": [1, 2]})
    assert content(frame) == content(pd.DataFrame({"a": [1, 2]}))


def test_what_cannot_be_digested_has_no_mark() -> None:
    assert content(object()) is None
    assert content(pd.DataFrame({"a": [[1], {2}]})) is None
    assert content(Database(url="postgresql://db/registry", table="births")) is None


SAME = [
    ("postgresql://db.example/registry", "births"),
    ("postgres://clerk@DB.example:5432/registry", "public.births"),
    ("postgresql://boss@db.example/registry?sslmode=require", "births"),
    ("postgresql:///registry?host=db.example&user=boss", "births"),
    ("postgresql://db.example/registry", 'public."births"'),
]
OTHER = [
    ("postgresql://db.example/other", "births"),
    ("postgresql://db.example:5433/registry", "births"),
    ("postgresql://elsewhere/registry", "births"),
    ("postgresql://db.example/registry", "deaths"),
    ("postgresql://db.example/registry", "health.births"),
    ("postgresql://db.example/registry", '"health.births"'),
]


def test_databases_are_known_by_address_and_table_without_user_and_options() -> None:
    marks = {place(Database(url=url, table=table)) for url, table in SAME}
    assert len(marks) == 1
    others = {place(Database(url=url, table=table)) for url, table in OTHER}
    assert len(others) == len(OTHER)
    assert not marks & others


def test_file_databases_are_known_by_their_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    urls = ("r.duckdb", f"duckdb://{tmp_path}/r.duckdb", "duckdb://r.duckdb?threads=1")
    assert len({place(Database(url=url, table="t")) for url in urls}) == 1
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "t.parquet")
    through = Database(url="duckdb://", table=str(tmp_path / "t.parquet"))
    assert place(through) == place(tmp_path / "t.parquet")
    assert content(through) == content(tmp_path / "t.parquet")


def test_a_compressed_copy_is_the_same_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"a\n1\n"))
    assert content(tmp_path / "b.csv.gz") == content(tmp_path / "a.csv")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"a\n1\n")[:-6])
    assert content(tmp_path / "b.csv.gz") is None  # reading it says what is wrong


def test_a_table_of_a_file_database_is_known_under_every_spelling_and_in_a_copy(tmp_path: Path) -> None:
    (tmp_path / "r.duckdb").write_bytes(b"content")
    (tmp_path / "copy.duckdb").write_bytes(b"content")
    url = str(tmp_path / "r.duckdb")
    spellings = ("births", "BIRTHS", "main.births", "r.main.births")
    assert len({place(Database(url=url, table=name)) for name in spellings}) == 1
    assert len({content(Database(url=url, table=name)) for name in spellings}) == 1
    others = [Database(url=url, table=name) for name in ("deaths", "health.births", "other.main.births")]
    assert len({place(item) for item in others}) == 3
    assert not {content(item) for item in others} & {content(Database(url=url, table="births"))}
    copied = Database(url=str(tmp_path / "copy.duckdb"), table="births")
    assert content(copied) == content(Database(url=url, table="births")) is not None
    assert content(Database(url=str(tmp_path / "absent.duckdb"), table="births")) is None
