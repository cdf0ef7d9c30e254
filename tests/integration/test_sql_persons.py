"""Truncation in the engine: a keyed hash, checked against its definition, for stability and for fairness."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from sql_support import small_cliques

from understudy.data import Database, read_table
from understudy.errors import BudgetError, DataError
from understudy.schema import Integer, Schema

duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

ALPHA = 1e-9
SCHEMA = Schema(columns=(Integer("a", minimum=0, maximum=2), Integer("b", minimum=0, maximum=4)))


def key_of(seed):
    return np.random.default_rng(seed).bytes(32)


def random_rows(seed, rows=400, persons=60):
    generator = np.random.default_rng(seed)
    return [
        (f"p,{person}", int(a), int(b))
        for person, a, b in zip(
            generator.integers(0, persons, rows),
            generator.integers(0, 3, rows),
            generator.integers(0, 5, rows),
            strict=True,
        )
    ]


def arrow(rows):
    who, a, b = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"who": pa.array(who, pa.string()), "a": pa.array(a, pa.int64()), "b": pa.array(b, pa.int64())}
    )


def reference(rows, max_rows, seed):
    """The definition, row by row: MD5 of key, record, number among equal rows, and id."""
    key = key_of(seed).hex()
    seen, named = Counter(), defaultdict(list)
    for who, a, b in rows:
        record = a * 5 + b
        copy = seen[who, record]
        seen[who, record] += 1
        digest = hashlib.md5(f"{key},{record},{copy},{who}".encode()).hexdigest()
        named[who].append((digest, record, copy))
    return Counter(record for mine in named.values() for _, record, _ in sorted(mine)[:max_rows])


def kept(table):
    codes, counts = table.distinct(("a", "b"))
    return Counter({int(a) * 5 + int(b): int(n) for (a, b), n in zip(codes, counts, strict=True)})


def on_duckdb(tmp_path, rows, name="t"):
    path = tmp_path / f"{name}.parquet"
    pq.write_table(arrow(rows), path)
    return read_table(Database(url="duckdb://", table=str(path)), SCHEMA, id_column="who")


@pytest.mark.parametrize("engine", ["duckdb", "postgres", "spark"])
def test_the_engine_keeps_the_rows_that_the_definition_keeps(request, tmp_path, engine):
    rows = random_rows(1)
    if engine == "duckdb":
        table = on_duckdb(tmp_path, rows)
    elif engine == "spark":
        pq.write_table(arrow(rows), tmp_path / "t.parquet")
        source = Database(url=request.getfixturevalue("spark"), table=str(tmp_path / "t.parquet"))
        table = read_table(source, SCHEMA, id_column="who")
    else:
        server = request.getfixturevalue("postgres")
        server.fill("visits", arrow(rows))
        table = read_table(Database(url=server.url, table="visits"), SCHEMA, id_column="who")
    for max_rows in (1, 3):
        truncated = table.truncated("who", max_rows, key_of(9))
        expected = reference(rows, max_rows, 9)
        assert kept(truncated) == expected
        assert truncated.exact_row_count() == sum(expected.values())
        for clique in small_cliques(SCHEMA):
            assert truncated.count(clique).sum() == sum(expected.values())


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_one_person_changes_at_most_the_rows_of_one_person(tmp_path, seed, relation):
    generator = np.random.default_rng(seed)
    for trial in range(6):
        rows = random_rows(100 * seed + trial, rows=80, persons=12)
        max_rows = int(generator.integers(1, 4))
        chosen = rows[0][0]
        others = [row for row in rows if row[0] != chosen]
        added = [(chosen, int(generator.integers(3)), int(generator.integers(5))) for _ in range(9)]
        neighbour = others if relation == "add-remove" else added + others  # the order of rows means nothing
        one = kept(on_duckdb(tmp_path, rows, f"one{trial}").truncated("who", max_rows, key_of(trial)))
        two = kept(on_duckdb(tmp_path, neighbour, f"two{trial}").truncated("who", max_rows, key_of(trial)))
        lost, gained = sum((one - two).values()), sum((two - one).values())
        assert lost <= max_rows
        assert gained <= (0 if relation == "add-remove" else max_rows)


def test_every_choice_of_rows_is_equally_likely(tmp_path):
    """6,000 persons with rows 0, 0, 1, 1 keep two: both zeros 1/6, both ones 1/6, one of each 4/6.

    Caught: a hash of the record alone, without the number among equal rows, never keeps one of each.
    """
    rows = [(f"p{person}", value, 0) for person in range(6000) for value in (0, 0, 1, 1)]
    schema = Schema(columns=(Integer("a", minimum=0, maximum=2), Integer("b", minimum=0, maximum=5999)))
    numbered = pa.table(
        {
            "who": pa.array([who for who, _, _ in rows]),
            "a": pa.array([value for _, value, _ in rows]),
            "b": pa.array([int(who[1:]) for who, _, _ in rows]),
        }
    )
    pq.write_table(numbered, tmp_path / "t.parquet")
    source = Database(url="duckdb://", table=str(tmp_path / "t.parquet"))
    counts = read_table(source, schema, id_column="who").truncated("who", 2, key_of(3)).count(("b", "a"))
    assert (counts.sum(axis=1) == 2).all()
    zeros = np.bincount(counts[:, 0], minlength=3)
    assert stats.chisquare(zeros, [1000, 4000, 1000]).pvalue > ALPHA
    assert stats.chisquare(zeros, [3000, 0.001, 2999.999]).pvalue < ALPHA


def test_ids_that_are_missing_and_bounds_that_make_no_sense_are_refused(tmp_path):
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT NULL::VARCHAR AS who, 1 AS a, 1 AS b")
    with pytest.raises(DataError, match="no value in the id column"):
        read_table(Database(url=str(path), table="t"), SCHEMA, id_column="who")
    table = on_duckdb(tmp_path, random_rows(2, rows=10))
    with pytest.raises(BudgetError):
        table.truncated("who", 0, key_of(1))
    with pytest.raises(DataError, match="without the id column"):
        table.truncated("a", 1, key_of(1))
