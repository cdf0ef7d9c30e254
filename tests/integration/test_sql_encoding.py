"""A database and a file with the same records have the same codes, for every kind of column and way of storage."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
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

from understudy.data import Database, Derived, Preparation, connect, read_table
from understudy.data.arrow import ArrowTable
from understudy.errors import DataError
from understudy.schema import Boolean, Categorical, Constraint, Date, Integer, Real, Schema

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


def test_entries_that_only_the_reader_of_the_schema_can_judge_are_read_however_many_there_are(tmp_path):
    """Before, more than 5,000 different ones were refused."""
    path = tmp_path / "odd.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT ' ' || range || '.0 ' AS age FROM range(6000)")
    schema = Schema(columns=(Integer("age", minimum=0, maximum=99, missing=True, out_of_domain="to-other"),))
    counts = read_table(Database(url=str(path), table="t"), schema).count(("age",))
    assert counts.tolist() == [1] * 100 + [5900, 0]


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_an_infinite_date_is_one_entry_outside_and_no_reason_to_refuse_the_others(postgres, kind):
    """Before, PostgreSQL refused the whole table, also under a policy that accepts every entry whatever it holds."""
    table = f"infinite_{kind}"
    with postgres.connect() as connection:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(
            f"CREATE TABLE {table} AS SELECT entry AS d FROM unnest(ARRAY['infinity', '2020-01-01', '-infinity',"
            f" '4000-01-01 BC']::{kind}[]) AS entry"
        )
    source = Database(url=postgres.url, table=table)
    policy = {"missing": True, "out_of_domain": "to-missing"}
    days = Schema(columns=(Date("d", minimum="2019-12-31", maximum="2020-01-02", **policy),))
    assert read_table(source, days).count(("d",)).tolist() == [0, 1, 0, 3]
    named = Schema(columns=(Categorical("d", values=["2020-01-01"], **policy),))
    assert read_table(source, named).count(("d",)).tolist() == [1, 3]
    years = Schema(columns=(Integer("y", minimum=2019, maximum=2020, **policy),))
    prepare = Preparation(derived=(Derived(name="y", source="d", part="year"),))
    assert read_table(source, years, prepare=prepare).count(("y",)).tolist() == [0, 1, 3]


def partitioned(folder, names):
    """One record in each folder ``code=NAME``, and leftovers of a writer that was interrupted."""
    for name in names:
        (folder / f"code={name}").mkdir(parents=True)
        pq.write_table(pa.table({"a": [1]}), folder / f"code={name}" / "part.parquet")
    for hidden in ("_temporary", ".staging"):
        (folder / hidden / f"code={names[0]}").mkdir(parents=True)
        pq.write_table(pa.table({"a": [1]}), folder / hidden / f"code={names[0]}" / "part.parquet")
    return str(folder)


@pytest.mark.parametrize("engine", ["file", "duckdb", "spark"])
@pytest.mark.parametrize("names", [["007", "8"], ["007", "8", "x"]], ids=["numbers", "text"])
def test_the_name_of_a_folder_is_read_alike_whatever_the_others_are_called(request, tmp_path, engine, names):
    """Before, Spark read 007 as 7 unless another folder was no number, and DuckDB counted unfinished files."""
    folder = partitioned(tmp_path / "parts", names)
    source = folder
    if engine != "file":
        url = "duckdb://" if engine == "duckdb" else request.getfixturevalue("spark")
        source = Database(url=url, table=folder)
    values = ("007", "7", "8")
    schema = Schema(columns=(Categorical("code", values=values, out_of_domain="to-other"),))
    expected = [1, 0, 1, len(names) - 2]
    assert read_table(source, schema).count(("code",)).tolist() == expected


def test_what_duckdb_writes_when_memory_is_short_is_for_nobody_else(tmp_path):
    """Before, records were spilled to files that everybody could read, in the working folder or beside the database."""
    path = tmp_path / "large.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS a FROM range(10)")
    pq.write_table(pa.table({"a": range(10)}), tmp_path / "t.parquet")
    for source in (
        Database(url=str(path), table="t"),
        Database(url="duckdb://", table=str(tmp_path / "t.parquet")),
    ):
        session, other = connect(source), connect(source)
        ((told,),) = session._con.con.execute("SELECT current_setting('temp_directory')").fetchall()
        folder = Path(told)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert folder.parent == tmp_path
        assert (
            len(list(session.batches("SELECT 1 AS one"))) == len(list(other.batches("SELECT 1 AS one"))) == 1
        )


def test_the_words_of_a_table_are_read_as_in_memory(tmp_path):
    """Own texts of truth values, as text and as numbers, and the text of a missing entry in every kind of column."""
    texts = ["lives", "died", "Lives", "yes", "no", "?", "", None, "NA", "2", "7", "9"]
    rest = {"missing": True, "out_of_domain": "to-other"}
    table = pa.table(
        {
            "fate": pa.array(texts),
            "code": pa.array(texts),
            "whole": pa.array([2, 7, 9, 0, 1, None, 3, 2, 2, 7, 9, 9], pa.int64()),
            "real": pa.array([2.0, 7.0, 9.0, 0.0, 1.0, None, 2.5, 2.0, 2.0, 7.0, 9.0, 9.0]),
            "number": pa.array(["1", "2.5", "?", "x", None, "", "9", "3", "1", "?", "?", "2"]),
            "day": pa.array(["2014-01-02", "?", "x", None, *["2014-05-05"] * 8]),
            "name": pa.array(["a", "b", "?", "c", None, "", *["a"] * 6]),
        }
    )
    schema = Schema(
        columns=(
            Boolean("fate", spelling=("died", "lives"), missing_text="?", **rest),
            Boolean("code", spelling=("7", "2"), missing_text="9", **rest),
            Boolean("whole", spelling=("7", "2"), missing_text="9", **rest),
            Boolean("real", spelling=("7", "2"), missing_text="9", **rest),
            Real("number", bins=[0, 2, 5], decimals=1, decode_by="smooth", missing_text="?", **rest),
            Date("day", bins=["2014-01-01", "2014-03-01", "2015-01-01"], missing_text="?", **rest),
            Categorical("name", values=["a", "b"], missing_text="?", **rest),
        )
    )
    path = tmp_path / "words.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("records", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM records")
    there = read_table(Database(url=str(path), table="t"), schema)
    local = read_table(table, schema)
    assert_same_counts(local, there, [(name,) for name in schema.names])
    assert local.count_many([("fate",)])[0].tolist() == [2, 2, 4, 4]
    pq.write_table(table, tmp_path / "words.parquet")
    on_disk = ArrowTable(str(tmp_path / "words.parquet"), schema)
    assert_same_counts(local, on_disk, [(name,) for name in schema.names])
