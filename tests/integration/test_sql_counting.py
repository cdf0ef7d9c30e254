"""Exact counts from engines equal the local kernel bit for bit, by every plan of counting."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sql_support import assert_same_counts

from understudy.data import Database, SqlTable, connect, read_table
from understudy.data.sql import plans as _plans
from understudy.data.sql import table as table_module
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


def sources(request, engine, records, parquet):
    if engine == "duckdb":
        return connect(Database(url="duckdb://", table=str(parquet)))
    if engine == "spark":
        return connect(Database(url=request.getfixturevalue("spark"), table=str(parquet)))
    server = request.getfixturevalue("postgres")
    with server.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS counting")
    server.fill("counting", records)
    return connect(Database(url=server.url, table="public.counting"))


@pytest.mark.parametrize("engine", ["duckdb", "postgres", "spark"])
def test_every_plan_counts_what_the_local_kernel_counts(request, monkeypatch, engine, records, parquet):
    local = read_table(records, SCHEMA)
    session = sources(request, engine, records, parquet)
    held = SqlTable(session, SCHEMA)
    assert held._held is not None
    assert_same_counts(local, held, CLIQUES)
    codes, counts = local.distinct(("b", "a"))
    for one, two in zip(held.distinct(("b", "a")), (codes, counts), strict=True):
        assert (one == two).all()

    monkeypatch.setattr(table_module, "_RECORDS_AT_LEAST", 10)
    asked = []
    monkeypatch.setattr(
        session, "batches", lambda query, inner=session.batches: asked.append(query) or inner(query)
    )
    there = SqlTable(session, SCHEMA, max_memory_mb=0)
    assert there._held is None
    for sets in (True, False) if session.streams else (True,):
        monkeypatch.setattr(table_module, "prefers_sets", lambda chosen=sets, **_: chosen)
        asked.clear()
        assert_same_counts(local, there, CLIQUES)
        assert len(asked) <= 2  # an estimate, and one query for all 46 marginals
        assert isinstance(asked[-1], str) == sets  # grouping sets are written out, the rest is an expression
    if engine == "spark":
        return  # the rest is the same code, and jobs of Spark are slow
    for one, two in zip(there.distinct(("b", "a")), (codes, counts), strict=True):
        assert (one == two).all()
    for table in (held, there):  # the order is the same for all columns and in every call
        one = np.concatenate([chunk["f"] for chunk in table.chunks(("f",), rows=700)])
        two = np.concatenate([chunk["d"] for chunk in table.chunks(("d",), rows=900)])
        pairs = zip(records["f"].to_pylist(), records["d"].to_pylist(), strict=True)
        assert sorted(zip(one.tolist(), two.tolist(), strict=True)) == sorted(pairs)


def test_a_marginal_that_is_too_large_is_refused_before_anything_is_asked(monkeypatch, parquet):
    from understudy.errors import DomainTooLarge

    monkeypatch.setattr(table_module, "_RECORDS_AT_LEAST", 10)
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


def test_merged_cliques_cover_every_clique_and_stay_small():
    cliques = list(itertools.combinations(SIZES, 3))
    groups = _plans.merged(SCHEMA.domain, cliques)
    assert sorted(clique for inside in groups.values() for clique in inside) == sorted(cliques)
    for larger, inside in groups.items():
        assert SCHEMA.domain.cells(larger) <= _plans.MERGED_CELLS
        assert all(set(clique) <= set(larger) for clique in inside)
    assert len(groups) < len(cliques) / 4


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
