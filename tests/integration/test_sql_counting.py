"""Exact counts from engines equal those of the table in memory bit for bit, held here or streamed for every question."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sql_support import assert_same_counts

from understudy.data import Database, SqlTable, connect, read_table
from understudy.schema import Integer, Schema

duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

SIZES = {"a": 3, "b": 7, "c": 2, "d": 40, "e": 5, "f": 300}
SCHEMA = Schema(columns=tuple(Integer(name, minimum=0, maximum=size - 1) for name, size in SIZES.items()))
CLIQUES = [clique for size in range(4) for clique in itertools.combinations(SIZES, size)]
CLIQUES += [("d", "a"), ("f", "b", "a"), ("a",), ("a",)]  # other orders, and one asked twice


@pytest.fixture(scope="module")
def records():
    generator = np.random.default_rng(5)
    skewed = {name: (generator.random(3000) ** 3 * size).astype(np.int64) for name, size in SIZES.items()}
    return pa.table(skewed)


@pytest.fixture(scope="module")
def parquet(records, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    for place in range(3):
        pq.write_table(records.slice(place * 1000, 1000), folder / f"part-{place}.parquet")
    return folder


@pytest.fixture(scope="module")
def filled(postgres, records):
    postgres.fill("counting", records)
    return postgres


def sources(request, engine, records, parquet):
    if engine == "duckdb":
        return connect(Database(url="duckdb://", table=str(parquet)))
    if engine == "spark":
        return connect(Database(url=request.getfixturevalue("spark"), table=str(parquet)))
    return connect(Database(url=request.getfixturevalue("filled").url, table="public.counting"))


def assert_same_records(one, two, names):
    for left, right in zip(one.distinct(names), two.distinct(names), strict=True):
        assert left.dtype == right.dtype
        assert (left == right).all()


@pytest.mark.parametrize("limit", [0, 1024], ids=["streamed", "held"])
@pytest.mark.parametrize("engine", ["duckdb", "postgres", "spark"])
def test_engines_count_what_the_table_in_memory_counts(request, engine, limit, records, parquet):
    local = read_table(records, SCHEMA)
    session = sources(request, engine, records, parquet)
    there = read_table(session, SCHEMA, max_memory_mb=limit)
    assert_same_counts(local, there, CLIQUES)
    for names in (("b", "a"), (), SCHEMA.names):
        assert_same_records(there, local, names)
    # the order is the same for all columns and in every call
    one = np.concatenate([chunk["f"] for chunk in there.chunks(("f",), rows=700)])
    two = np.concatenate([chunk["d"] for chunk in there.chunks(("d",), rows=900)])
    pairs = zip(records["f"].to_pylist(), records["d"].to_pylist(), strict=True)
    assert sorted(zip(one.tolist(), two.tolist(), strict=True)) == sorted(pairs)


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_one_round_of_questions_is_one_pass_over_the_columns_it_needs(
    request, monkeypatch, engine, records, parquet
):
    session = sources(request, engine, records, parquet)
    there = read_table(session, SCHEMA, max_memory_mb=0)
    asked = []
    monkeypatch.setattr(
        session, "batches", lambda query, inner=session.batches: asked.append(query.columns) or inner(query)
    )
    there.count_many([("a", "b"), ("b",), ("b", "d"), ()])
    assert [sorted(columns) for columns in asked] == [["a", "b", "d"]]
    held = read_table(session, SCHEMA)
    asked.clear()
    held.count_many([("a", "b"), ("b",), ("b", "d"), ()])
    assert asked == []


def test_a_marginal_that_is_too_large_is_refused_before_anything_is_asked(monkeypatch, parquet):
    from understudy.errors import DomainTooLarge

    session = connect(Database(url="duckdb://", table=str(parquet)))
    wide = Schema(columns=tuple(Integer(name, minimum=0, maximum=2000) for name in SIZES))
    table = SqlTable(session, wide, max_memory_mb=0)
    monkeypatch.setattr(session, "batches", lambda query: pytest.fail("the database was asked"))
    with pytest.raises(DomainTooLarge):
        table.count(("a", "b", "c"))


def test_an_empty_table_is_counted(tmp_path):
    path = tmp_path / "empty.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(f'{name} INTEGER' for name in SIZES)})")
    table = read_table(Database(url=str(path), table="t"), SCHEMA)
    assert table.exact_row_count() == 0
    assert table.count(("a", "b")).sum() == 0
    assert list(table.chunks()) == []
    assert table.distinct(("a",))[1].tolist() == []


def msnbc(shared_data):
    from pyarrow import csv

    table = csv.read_csv(pa.input_stream(shared_data / "msnbc" / "msnbc.csv.gz"))
    columns = tuple(Integer(name, minimum=0, maximum=17) for name in table.column_names)
    return table, Schema(columns=columns)


@pytest.mark.shared_data
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_all_three_way_marginals_of_msnbc_equal_the_local_kernel(request, shared_data, tmp_path, engine):
    records, schema = msnbc(shared_data)
    path = tmp_path / "msnbc.parquet"
    pq.write_table(records, path)
    url = "duckdb://" if engine == "duckdb" else request.getfixturevalue("spark")
    cliques = list(itertools.combinations(schema.names, 3))
    assert len(cliques) == 560
    there = read_table(Database(url=url, table=str(path)), schema)
    assert_same_counts(read_table(records, schema), there, cliques)
