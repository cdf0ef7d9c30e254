"""Every source of a table gives the same counts, truncation included."""

from __future__ import annotations

import gzip
import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from data_support import all_cliques, code_schema, mixed_frame, mixed_schema, random_codes

from understudy.data import ArrowTable, LocalTable, Table, read_table
from understudy.data.files import csv as csv_module
from understudy.data.files import dataset as dataset_module
from understudy.data.persons import ids_from_pandas
from understudy.errors import DataError
from understudy.schema import Categorical, Integer, Schema

FRAME = mixed_frame()
SCHEMA = mixed_schema()
KEY = np.random.default_rng(8).bytes(32)


def as_csv(tmp_path, name="t.csv", **options):
    path = tmp_path / name
    FRAME.to_csv(path, index=False, **options)
    return path


def as_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    FRAME.to_parquet(path, row_group_size=37)
    return path


def as_folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, start in enumerate(range(0, len(FRAME), 60)):
        FRAME.iloc[start : start + 60].to_parquet(folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    (folder / "notes.txt").write_text("not a table")
    return folder


def as_arrow():
    return pa.Table.from_pandas(FRAME)


def chunked_arrow():
    table = as_arrow()
    return pa.concat_tables([table.slice(0, 50), table.slice(50, 0), table.slice(50)])


SOURCES = {
    "pandas": lambda tmp: FRAME,
    "pandas categories": lambda tmp: FRAME.astype({"code": "category"}),
    "pandas arrow types": lambda tmp: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "arrow": lambda tmp: as_arrow(),
    "arrow chunks": lambda tmp: chunked_arrow(),
    "arrow dictionary": lambda tmp: as_arrow().set_column(1, "code", as_arrow()["code"].dictionary_encode()),
    "arrow batch": lambda tmp: as_arrow().to_batches()[0],
    "arrow dataset": lambda tmp: pads.dataset(str(as_parquet(tmp))),
    "arrow dataset in memory": lambda tmp: pads.dataset(as_arrow()),
    "polars": lambda tmp: pl.from_arrow(as_arrow()),
    "polars lazy": lambda tmp: pl.from_arrow(as_arrow()).lazy(),
    "csv": lambda tmp: as_csv(tmp),
    "csv text path": lambda tmp: str(as_csv(tmp)),
    "csv gzip": lambda tmp: as_csv(tmp, "t.csv.gz"),
    "csv gzip without the name": lambda tmp: as_csv(tmp, "t.csv", compression="gzip"),
    "csv with byte order mark": lambda tmp: as_csv(tmp, encoding="utf-8-sig"),
    "csv semicolons": lambda tmp: as_csv(tmp, sep=";"),
    "csv tabs": lambda tmp: as_csv(tmp, "t.tsv", sep="\t"),
    "csv windows": lambda tmp: as_csv(tmp, lineterminator="\r\n"),
    "parquet": as_parquet,
    "parquet list": lambda tmp: sorted(as_folder(tmp).glob("*.parquet")),
    "parquet folder": as_folder,
}


@pytest.fixture(scope="module")
def expected():
    codes = {name: SCHEMA.column(name).encode(FRAME[name]) for name in SCHEMA.names}
    return LocalTable(SCHEMA, codes, persons={"person": ids_from_pandas(FRAME["person"], "person")})


def assert_same(table, expected):
    assert isinstance(table, Table)
    assert table.exact_row_count() == expected.exact_row_count()
    cliques = all_cliques(SCHEMA.names)
    for left, right in zip(table.count_many(cliques), expected.count_many(cliques), strict=True):
        np.testing.assert_array_equal(left, right)
    for left, right in zip(table.distinct(SCHEMA.names), expected.distinct(SCHEMA.names), strict=True):
        np.testing.assert_array_equal(left, right)
    for name in SCHEMA.names:
        left = np.concatenate([chunk[name] for chunk in table.chunks([name], rows=23)])
        (right,) = expected.chunks([name])
        np.testing.assert_array_equal(left, right[name])


@pytest.mark.parametrize("kind", SOURCES)
def test_all_sources_give_the_same_table(kind, tmp_path, expected):
    table = read_table(SOURCES[kind](tmp_path), SCHEMA, id_column="person")
    assert isinstance(table, LocalTable)
    assert_same(table, expected)
    assert_same(table.truncated("person", 2, KEY), expected.truncated("person", 2, KEY))


@pytest.mark.parametrize(
    "kind", ["csv", "csv gzip", "csv semicolons", "parquet", "parquet folder", "arrow dataset"]
)
def test_sources_beyond_the_memory_limit_are_streamed_with_the_same_answers(
    kind, tmp_path, expected, monkeypatch
):
    monkeypatch.setattr(csv_module, "_BLOCK_BYTES", 1000)
    monkeypatch.setattr(dataset_module, "BATCH_ROWS", 29)
    table = read_table(SOURCES[kind](tmp_path), SCHEMA, id_column="person", max_memory_mb=0)
    assert isinstance(table, ArrowTable)
    assert repr(table) == "ArrowTable(5 columns; records not shown)"
    assert_same(table, expected)
    truncated = table.truncated("person", 2, KEY)
    assert_same(truncated, expected.truncated("person", 2, KEY))
    with pytest.raises(DataError, match="read without the id column"):
        truncated.truncated("person", 1, KEY)


def test_small_blocks_change_nothing(tmp_path, expected, monkeypatch):
    monkeypatch.setattr(csv_module, "_BLOCK_BYTES", 700)
    assert_same(read_table(as_csv(tmp_path), SCHEMA, id_column="person"), expected)


def test_old_encodings_are_read_when_named(tmp_path, expected):
    for encoding in ("latin-1", "cp1252", "utf-16"):
        table = read_table(as_csv(tmp_path, encoding=encoding), SCHEMA, encoding=encoding)
        np.testing.assert_array_equal(table.count(("code",)), expected.count(("code",)))


def test_other_separators_are_read_when_named(tmp_path, expected):
    table = read_table(as_csv(tmp_path, sep="!"), SCHEMA, separator="!")
    np.testing.assert_array_equal(table.count(("code", "smokes")), expected.count(("code", "smokes")))


def test_text_keeps_its_zeros_in_folder_names_too(tmp_path):
    schema = Schema(columns=(Categorical("code", values=("007", "7")), Integer("age", minimum=0, maximum=9)))
    for code, ages in (("007", [1, 2]), ("7", [3])):
        folder = tmp_path / "table" / f"code={code}"
        folder.mkdir(parents=True)
        pd.DataFrame({"age": ages}).to_parquet(folder / "part.parquet")
    for limit in (0, 1):
        table = read_table(tmp_path / "table", schema, max_memory_mb=limit)
        assert table.count(("code",)).tolist() == [2, 1]
        assert table.count(("code", "age"))[1].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]


def test_quoted_line_breaks_and_separators_stay_inside_their_field(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('"a\nb",code\n1,"x\ny"\n0,"p,q"\n')
    schema = Schema(columns=(Categorical("code", values=("x\ny", "p,q")),))
    assert read_table(path, schema).count(("code",)).tolist() == [1, 1]


@pytest.mark.parametrize("text", ["a,b\n", "a,b", "\n\na,b\n\n", "\ufeffa,b\r\n", "unused;b;a\n"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("limit", [0, 1])
def test_a_header_alone_is_an_empty_table(tmp_path, text, name, limit):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    table = read_table(path, code_schema({"a": 2, "b": 3}), max_memory_mb=limit)
    assert table.exact_row_count() == 0
    assert table.count(("a", "b")).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert table.distinct(("b",))[0].shape == (0, 1)


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_single_row_tables_from_every_source(tmp_path, rows):
    schema = code_schema({"a": 2, "b": 3})
    frame = pd.DataFrame({"a": [1][:rows], "b": [2][:rows], "id": ["x"][:rows]}).astype(
        {"a": "int64", "b": "int64"}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    sources = [
        frame,
        arrow,
        pl.from_arrow(arrow),
        pads.dataset(arrow),
        tmp_path / "t.csv",
        tmp_path / "t.parquet",
    ]
    for source, limit in itertools.product(sources, (0, 1)):
        table = read_table(source, schema, id_column="id", max_memory_mb=limit)
        assert table.exact_row_count() == rows
        assert int(table.count(("a", "b")).sum()) == rows
        truncated = table.truncated("id", 1, bytes(32))
        assert int(truncated.count(())) == rows


def test_columns_named_by_numbers_are_found_under_their_text():
    frame = pd.DataFrame({0: [0, 1], 1: [1, 1], 2: ["x", "y"]})
    table = read_table(frame, code_schema({"0": 2, "1": 2}), id_column="2")
    assert table.count(("0", "1")).tolist() == [[0, 1], [0, 1]]
    assert table.truncated("2", 1, bytes(32)).exact_row_count() == 2


def test_three_hundred_columns(tmp_path):
    sizes = {f"c{i}": 2 + i % 300 for i in range(300)}
    frame = pd.DataFrame(random_codes(sizes, 20))
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    schema = code_schema(sizes)
    expected = read_table(frame, schema).count(("c0", "c150", "c299"))
    for source in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        np.testing.assert_array_equal(read_table(source, schema).count(("c0", "c150", "c299")), expected)


@pytest.mark.parametrize("size", [255, 256, 257, 65535, 65536, 65537])
def test_code_widths_survive_every_route(tmp_path, size):
    schema = code_schema({"a": size})
    pd.DataFrame({"a": [0, size - 1, size - 1]}).to_parquet(tmp_path / "t.parquet")
    for limit in (0, 1):
        counts = read_table(tmp_path / "t.parquet", schema, max_memory_mb=limit).count(("a",))
        assert (counts[0], counts[-1], counts.sum()) == (1, 2, 3)


def test_whole_numbers_beside_missing_ones_stay_exact(tmp_path):
    big = 2**53
    schema = Schema(columns=(Integer("a", minimum=big, maximum=big + 3, missing=True),))
    table = pa.table({"a": pa.array([big + 1, None, big + 3])})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        assert read_table(source, schema).count(("a",)).tolist() == [0, 1, 0, 1, 1]


@pytest.mark.parametrize("labels", [127, 128, 255, 256])
def test_dictionaries_that_fill_their_index_type(labels):
    """Pandas and Arrow index 128 categories with 8 bits; a missing entry must not fall out of them."""
    values = [f"v{i}" for i in range(labels)]
    schema = Schema(columns=(Categorical("a", values=tuple(values), missing=True),))
    frame = pd.DataFrame({"a": pd.Categorical([*values, None], categories=values)})
    for source in (frame, pa.Table.from_pandas(frame)):
        assert read_table(source, schema).count(("a",)).tolist() == [1] * (labels + 1)


def test_unused_dictionary_entries_are_not_checked():
    values = pa.DictionaryArray.from_arrays(pa.array([0, 0, 2]), pa.array(["x", "not declared", "y"]))
    schema = Schema(columns=(Categorical("a", values=("x", "y")),))
    assert read_table(pa.table({"a": values}), schema).count(("a",)).tolist() == [2, 1]


@pytest.mark.parametrize("limit", [0, 1])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_parquet_files_may_store_a_column_in_different_types(tmp_path, limit, order):
    parts = [pa.array([None, None]), pa.array([1, 2], pa.int32()), pa.array([1.0, None, 3.0])]
    for number, part in enumerate(order):
        pq.write_table(pa.table({"a": parts[part]}), tmp_path / f"part-{number}.parquet")
    schema = Schema(columns=(Integer("a", minimum=0, maximum=3, missing=True),))
    assert read_table(tmp_path, schema, max_memory_mb=limit).count(("a",)).tolist() == [0, 2, 1, 1, 3]


def test_a_file_that_changes_while_in_use_is_noticed(tmp_path):
    schema = code_schema({"a": 2})
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [0, 1]}).to_parquet(path)
    table = ArrowTable(path, schema)
    pd.DataFrame({"a": [0, 1, 1, 1]}).to_parquet(path)
    with pytest.raises(DataError, match="changed while it was in use"):
        table.count(("a",))
    path.unlink()
    with pytest.raises(DataError, match="no file"):
        table.count(("a",))


def test_two_threads_read_one_table_on_disk(tmp_path, expected):
    table = read_table(as_parquet(tmp_path), SCHEMA, max_memory_mb=0)
    cliques = all_cliques(SCHEMA.names)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: table.count_many(cliques), range(4)))
    for answer in answers:
        for left, right in zip(answer, expected.count_many(cliques), strict=True):
            np.testing.assert_array_equal(left, right)


def test_importing_the_room_loads_no_heavy_library():
    heavy = ["pandas", "pyarrow", "numba", "polars", "scipy", "pydantic"]
    script = f"import sys, understudy.data; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_entry_does_not_change_how_large_whole_numbers_are_read():
    """Before, one missing entry beside a number beyond 63 bits made the whole table unreadable."""
    schema = Schema(
        columns=(Integer(name="a", minimum=0, maximum=3, missing=True, out_of_domain="to-missing"),)
    )
    for entries, expected in (([2**63 + 5, 2], [0, 0, 1, 0, 1]), ([2**63 + 5, 2, None], [0, 0, 1, 0, 2])):
        table = read_table(pa.table({"a": pa.array(entries, pa.uint64())}), schema)
        assert table.count(("a",)).tolist() == expected
