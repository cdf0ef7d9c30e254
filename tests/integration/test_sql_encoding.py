"""A database and a file with the same records have the same codes, for every kind of column and way of storage."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from sql_support import (
    RULES,
    assert_same_counts,
    awkward_schemas,
    awkward_table,
    preparations,
    rule_schema,
    small_cliques,
)

from understudy.data import Database, Preparation, connect, read_table
from understudy.errors import DataError
from understudy.schema import Constraint, Integer, Schema

duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

RECORDS = awkward_table()
SCHEMAS = list(awkward_schemas())
# engines started as services take part of the cases each: between them every column and every rule
SOME = SCHEMAS[1::3]


@pytest.fixture(scope="module")
def on_duckdb(tmp_path_factory):
    path = tmp_path_factory.mktemp("duckdb") / "registry.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("records", RECORDS)
        connection.execute("CREATE TABLE t AS SELECT * FROM records")
    return connect(Database(url=str(path), table="t"))


@pytest.fixture(scope="module")
def on_postgres(postgres):
    postgres.fill("awkward", RECORDS)
    session = connect(Database(url=postgres.url, table="awkward"))
    yield session
    session.close()


@pytest.fixture(scope="module")
def on_spark(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("spark") / "awkward.parquet"
    pq.write_table(RECORDS, path)
    return connect(Database(url=spark, table=str(path)))


def compare(session, schema):
    """The same counts, or the same refusal word for word."""
    told = []
    for source in (RECORDS, session):
        try:
            told.append(read_table(source, schema))
        except DataError as error:
            told.append(str(error))
    local, there = told
    if isinstance(local, str) or isinstance(there, str):
        assert there == local
        return
    assert_same_counts(local, there, small_cliques(schema, 1))


@pytest.mark.parametrize("place", range(len(SCHEMAS)))
def test_every_kind_of_column_is_encoded_as_in_memory_by_duckdb(on_duckdb, place):
    compare(on_duckdb, SCHEMAS[place])


def test_every_kind_of_column_is_encoded_as_in_memory_by_postgresql(on_postgres):
    for schema in SOME:
        compare(on_postgres, schema)


def test_every_kind_of_column_is_encoded_as_in_memory_by_spark(on_spark):
    for schema in (SCHEMAS[9], SCHEMAS[14]):
        compare(on_spark, schema)


def test_a_strict_column_is_refused_with_the_words_of_a_file(on_duckdb):
    strict = Schema(
        columns=tuple(
            replace(column, missing=False, missing_values=(), out_of_domain="refuse")
            for column in SCHEMAS[7].columns
        )
    )
    compare(on_duckdb, strict)


@pytest.mark.parametrize("place", range(len(RULES) + 1))
def test_cleaning_and_derived_columns_agree_with_the_local_ones_on_duckdb(on_duckdb, place):
    schema = rule_schema()
    prepare = list(preparations(schema))[place]
    local = read_table(RECORDS, schema, prepare=prepare)
    there = read_table(on_duckdb, schema, prepare=prepare)
    assert there.filtered == local.filtered == bool(prepare.rules)
    assert_same_counts(local, there, small_cliques(schema))


@pytest.mark.parametrize("engine", ["on_postgres", "on_spark"])
def test_all_cleaning_rules_together_agree_with_the_local_ones(request, engine):
    session = request.getfixturevalue(engine)
    schema = rule_schema()
    derived = next(iter(preparations(schema))).derived
    rules = tuple(Constraint.parse(text, schema) for text in RULES)
    for chosen in (rules[1:4], rules[4:8], rules[8:]) if engine == "on_postgres" else (rules[1:8:3],):
        prepare = Preparation(derived=derived, rules=chosen)
        local = read_table(RECORDS, schema, prepare=prepare)
        assert 0 < local.exact_row_count() < RECORDS.num_rows
        assert_same_counts(local, read_table(session, schema, prepare=prepare), small_cliques(schema, 1))


def test_too_many_odd_entries_are_refused_without_showing_one(tmp_path):
    path = tmp_path / "odd.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'secret' || range AS age FROM range(6000)")
    schema = Schema(columns=(Integer("age", minimum=0, maximum=99, missing=True, out_of_domain="to-other"),))
    with pytest.raises(DataError, match="too many different entries") as raised:
        read_table(Database(url=str(path), table="t"), schema)
    assert "secret" not in str(raised.value)
    assert raised.value.__context__ is None
