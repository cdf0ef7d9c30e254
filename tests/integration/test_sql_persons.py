"""Rows of a person on every engine: those that stay of the same table in memory under the same key, whatever the order and the partitions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sql_support import assert_same_counts, small_cliques

from understudy.data import Database, Preparation, connect, read_table
from understudy.errors import BudgetError, DataError
from understudy.schema import Constraint, Integer, Schema

duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

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


def kept(table):
    codes, counts = table.distinct(("a", "b"))
    return Counter({int(a) * 5 + int(b): int(n) for (a, b), n in zip(codes, counts, strict=True)})


def on_duckdb(tmp_path, rows, name="t", **options):
    path = tmp_path / f"{name}.parquet"
    pq.write_table(arrow(rows), path)
    return read_table(Database(url="duckdb://", table=str(path)), SCHEMA, id_column="who", **options)


def assert_same_choice(local, there):
    assert local.people_by_rows("who", 4).tolist() == there.people_by_rows("who", 4).tolist()
    for max_rows in (1, 3):
        one, two = (table.truncated("who", max_rows, key_of(9)) for table in (local, there))
        assert one.exact_row_count() < local.exact_row_count()
        assert_same_counts(one, two, small_cliques(SCHEMA))
        assert kept(one) == kept(two)
        rows = Counter(
            zip(*(np.concatenate([c[n] for c in two.chunks()]).tolist() for n in "ab"), strict=True)
        )
        assert rows == Counter({divmod(record, 5): n for record, n in kept(one).items()})
        with pytest.raises(DataError, match="without the id column"):
            two.truncated("who", 1, key_of(1))


@pytest.mark.parametrize("limit", [0, 1024], ids=["streamed", "held"])
@pytest.mark.parametrize("engine", ["duckdb", "postgres", "spark"])
def test_an_engine_keeps_the_rows_that_the_table_in_memory_keeps(request, tmp_path, engine, limit):
    rows = random_rows(1)
    if engine == "postgres":
        server = request.getfixturevalue("postgres")
        server.fill(f"visits_{limit}", arrow(rows[::-1]))
        source = Database(url=server.url, table=f"visits_{limit}")
    else:
        url = "duckdb://" if engine == "duckdb" else request.getfixturevalue("spark")
        pq.write_table(arrow(rows[::-1]), tmp_path / "t.parquet", row_group_size=50)
        source = Database(url=url, table=str(tmp_path / "t.parquet"))
    table = read_table(source, SCHEMA, id_column="who", max_memory_mb=limit)
    assert_same_choice(read_table(arrow(rows), SCHEMA, id_column="who"), table)


def test_partitions_of_spark_make_no_difference(spark, tmp_path, monkeypatch):
    """Few and many partitions, and batches so small that persons lie in several; cleaning rules come first."""
    from pyspark.sql import SparkSession

    rows = random_rows(4)
    session = SparkSession.getActiveSession()
    prepare = Preparation(rules=(Constraint.parse("a + b > 0", SCHEMA),))
    local = read_table(arrow(rows), SCHEMA, id_column="who", prepare=prepare)
    pq.write_table(arrow(rows), tmp_path / "t.parquet")
    before = {
        name: session.conf.get(name)
        for name in ("spark.sql.shuffle.partitions", "spark.sql.execution.arrow.maxRecordsPerBatch")
    }
    try:
        for partitions, shuffles, batch in ((1, 1, 10_000), (7, 3, 3)):
            session.conf.set("spark.sql.shuffle.partitions", str(shuffles))
            session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch))
            frame = session.read.parquet(str(tmp_path / "t.parquet")).repartition(partitions)
            frame.createOrReplaceTempView(f"visits_{partitions}")
            source = Database(url=spark, table=f"visits_{partitions}", immutable=True)
            assert_same_choice(local, read_table(source, SCHEMA, id_column="who", prepare=prepare))
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


@pytest.mark.parametrize(
    "kind", ["bigint", "numeric(20, 2)", "numeric", "person_number", "uuid", "date", "text"]
)
def test_a_person_is_the_same_however_postgresql_stores_the_id(postgres, kind):
    """Numbers without declared digits stay exact, also under the name of a domain, and 7.00 is 7: one person must not become two, nor two one."""
    rows = random_rows(3)
    large = 2**53
    written = {
        "uuid": lambda n: f"00000000-0000-0000-0000-{n:012d}",
        "date": lambda n: f"20{n // 28 + 10}-01-{n % 28 + 1:02d}",
    }.get(kind, lambda n: str(large + n))
    numbers = [int(who[2:]) for who, _, _ in rows]
    ids = [written(n) for n in numbers]
    name = f"ids_{''.join(filter(str.isalpha, kind))}{'s' if '(' in kind else ''}"
    unbounded = kind in ("numeric", "person_number")
    padded = [f"{text}.00" if unbounded and place % 2 else text for place, text in enumerate(ids)]
    postgres.fill(f"{name}_text", arrow([(who, a, b) for who, (_, a, b) in zip(padded, rows, strict=True)]))
    with postgres.connect() as connection:
        connection.execute(
            "DROP DOMAIN IF EXISTS person_number CASCADE; CREATE DOMAIN person_number AS numeric"
        )
        connection.execute(f"CREATE TABLE {name} AS SELECT who::{kind} AS who, a, b FROM {name}_text")
    local = read_table(
        arrow([(who, a, b) for who, (_, a, b) in zip(ids, rows, strict=True)]), SCHEMA, id_column="who"
    )
    source = connect(Database(url=postgres.url, table=name))
    for limit in (0, 1024):
        assert_same_choice(local, read_table(source, SCHEMA, id_column="who", max_memory_mb=limit))


@pytest.mark.parametrize("limit", [0, 1024], ids=["streamed", "held"])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_one_person_changes_at_most_the_rows_of_one_person(tmp_path, seed, relation, limit):
    generator = np.random.default_rng(seed)
    for trial in range(4):
        rows = random_rows(100 * seed + trial, rows=80, persons=12)
        max_rows = int(generator.integers(1, 4))
        chosen = rows[0][0]
        others = [row for row in rows if row[0] != chosen]
        added = [(chosen, int(generator.integers(3)), int(generator.integers(5))) for _ in range(9)]
        neighbour = others if relation == "add-remove" else added + others  # the order of rows means nothing
        one, two = (
            kept(
                on_duckdb(tmp_path, records, f"{name}{trial}", max_memory_mb=limit).truncated(
                    "who", max_rows, key_of(trial)
                )
            )
            for name, records in (("one", rows), ("two", neighbour))
        )
        lost, gained = sum((one - two).values()), sum((two - one).values())
        assert lost <= max_rows
        assert gained <= (0 if relation == "add-remove" else max_rows)


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_ids_that_are_missing_and_bounds_that_make_no_sense_are_refused(request, tmp_path, engine):
    url = "duckdb://" if engine == "duckdb" else request.getfixturevalue("spark")
    pq.write_table(
        pa.table({"who": pa.array([None, "x"]), "a": [1, 1], "b": [1, 1]}), tmp_path / "no.parquet"
    )
    with pytest.raises(DataError, match="no value in the id column"):
        read_table(Database(url=url, table=str(tmp_path / "no.parquet")), SCHEMA, id_column="who")
    pq.write_table(arrow(random_rows(2, rows=10)), tmp_path / "t.parquet")
    table = read_table(Database(url=url, table=str(tmp_path / "t.parquet")), SCHEMA, id_column="who")
    with pytest.raises(BudgetError):
        table.truncated("who", 0, key_of(1))
    with pytest.raises(BudgetError):
        table.people_by_rows("who", 0)
    with pytest.raises(DataError, match="without the id column"):
        table.truncated("a", 1, key_of(1))
    with pytest.raises(DataError, match="key of 32"):
        table.truncated("who", 1, b"short")
