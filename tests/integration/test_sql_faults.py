"""Whatever goes wrong between us and a database: a clear error, no value shown, nothing charged, nothing drawn."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import traceback

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services import missing_spark

from understudy.curator import Curator
from understudy.data import Database, SqlTable, connect, read_table
from understudy.errors import DataError
from understudy.privacy import Laplace, Ledger, PureDP, Unit
from understudy.schema import Integer, Schema

duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

SCHEMA = Schema(columns=(Integer("a", minimum=0, maximum=9), Integer("b", minimum=0, maximum=9)))
RECORDS = pa.table({"a": [i % 10 for i in range(500)], "b": [i % 7 for i in range(500)]})
SECRET = "zzsecretzz"


def curator_of(table):
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="t")
    return Curator(table, unit=Unit.add_remove(), ledger=ledger), ledger


def assert_clear(raised, *words):
    """The message says what to do; neither it nor its traceback holds what the driver said."""
    text = str(raised.value)
    assert all(word in text for word in words), text
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    shown = "".join(traceback.format_exception(raised.value))
    assert SECRET not in shown
    assert "postgresql://" not in text


def later(action, *, after=0.5):
    """Do something from another thread a moment later."""
    timer = threading.Timer(after, action)
    timer.start()
    return timer


# -- PostgreSQL ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(postgres):
    postgres.fill("stable", RECORDS)
    return postgres


def strike(server, function):
    """Cancel or terminate every connection but this one."""
    with server.connect() as connection:
        connection.execute(
            f"SELECT {function}(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


def test_a_snapshot_does_not_see_what_is_written_meanwhile(filled):
    table = SqlTable(Database(url=filled.url, table="stable"), SCHEMA, max_memory_mb=0)
    before = table.count(("a", "b"))
    with filled.connect() as connection:
        connection.execute("INSERT INTO stable SELECT 0, 0 FROM generate_series(1, 50)")
        connection.execute("DELETE FROM stable WHERE a = 3")
    try:
        assert (table.count(("a", "b")) == before).all()
        assert table.exact_row_count() == 500
        fresh = SqlTable(Database(url=filled.url, table="stable"), SCHEMA, max_memory_mb=0)
        assert fresh.exact_row_count() == 500  # fifty more, and fifty fewer
        assert fresh.count(("a",))[3] == 0
    finally:
        with filled.connect() as connection:
            connection.execute("DELETE FROM stable")
            connection.execute("INSERT INTO stable SELECT i % 10, i % 7 FROM generate_series(0, 499) AS i")


def test_a_lost_connection_is_an_error_that_costs_nothing(filled):
    table = SqlTable(Database(url=filled.url, table="stable"), SCHEMA, max_memory_mb=0)
    curator, ledger = curator_of(table)
    noisy = curator.measure(curator.counts(("a",)), noise=Laplace(10.0), purpose="first")
    assert noisy.values.shape == (10,)
    spent = ledger.spent
    strike(filled, "pg_terminate_backend")
    time.sleep(0.2)
    for _ in range(2):
        with pytest.raises(DataError) as raised:
            curator.measure(curator.counts(("b",)), noise=Laplace(10.0), purpose="second")
        assert_clear(raised, "connection", "start again")
    assert ledger.spent == spent
    with pytest.raises(DataError):
        table.require_unchanged()


def test_records_that_are_held_here_need_no_connection(filled):
    table = read_table(Database(url=filled.url, table="stable"), SCHEMA)
    strike(filled, "pg_terminate_backend")
    table.require_unchanged()
    assert table.count(("a",)).tolist() == [50] * 10


def test_a_cancelled_query_is_an_error_and_no_count(filled):
    with filled.connect() as connection:
        connection.execute(
            "CREATE OR REPLACE VIEW slow AS SELECT a, b FROM stable, LATERAL (SELECT pg_sleep(0.2 + 0 * a)) AS wait"
        )
    timer = later(lambda: strike(filled, "pg_cancel_backend"), after=2.0)
    with pytest.raises(DataError) as raised:
        read_table(Database(url=filled.url, table="slow"), SCHEMA)
    timer.join()
    assert_clear(raised, "cancelled")


def test_what_the_server_says_is_not_repeated(filled):
    with filled.connect() as connection:
        connection.execute(f"CREATE OR REPLACE VIEW bad AS SELECT a, ('{SECRET}' || b)::int AS b FROM stable")
    with pytest.raises(DataError) as raised:
        read_table(Database(url=filled.url, table="bad"), SCHEMA)
    assert_clear(raised, "withheld")


def test_a_failed_query_leaves_the_snapshot_as_it_was(filled):
    session = connect(Database(url=filled.url, table="stable"))
    table = SqlTable(session, SCHEMA, max_memory_mb=0)
    with pytest.raises(DataError):
        list(session.batches("SELECT 1 / 0"))
    assert table.count(("a",)).tolist() == [50] * 10
    session.close()
    with pytest.raises(DataError, match="was closed"):
        table.count(("a",))


def test_wrong_names_and_wrong_passwords_are_told_without_secrets(filled, monkeypatch, tmp_path):
    with pytest.raises(DataError) as raised:
        read_table(Database(url=filled.url, table="nowhere"), SCHEMA)
    assert_clear(raised, "no table of that name")
    with pytest.raises(DataError, match="missing columns: 'c'"):
        read_table(
            Database(url=filled.url, table="stable"),
            Schema(columns=(Integer("c", minimum=0, maximum=1),)),
        )
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "absent"))
    monkeypatch.setenv("PGPASSWORD", SECRET)
    with pytest.raises(DataError) as raised:
        read_table(Database(url=filled.url, table="stable"), SCHEMA)
    assert_clear(raised, "refused the login")
    monkeypatch.delenv("PGPASSWORD")
    with pytest.raises(DataError) as raised:
        read_table(Database(url=filled.url, table="stable"), SCHEMA)
    assert_clear(raised, "refused the login")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    with pytest.raises(DataError) as raised:
        read_table(Database(url=filled.url.replace("clerk@", "nobody@"), table="stable"), SCHEMA)
    assert_clear(raised, "refused the login")
    with pytest.raises(DataError) as raised:  # nobody listens there
        read_table(Database(url="postgresql://clerk@127.0.0.1:1/postgres", table="stable"), SCHEMA)
    assert_clear(raised, "Check that it is running")
    assert "The database with the table" in str(raised.value)


def test_a_password_in_an_address_is_refused_before_anything_is_connected(filled):
    for url in (
        f"postgresql://clerk:{SECRET}@127.0.0.1/x",
        f"postgresql://clerk:{SECRET}/x@127.0.0.1/x",
        f"postgresql://127.0.0.1/x?user=clerk&password={SECRET}",
        f"postgresql://127.0.0.1/x?sslpassword={SECRET}",
        f"snowflake://clerk@account/db?token={SECRET}",
        f"postgresql://clerk:{SECRET}@[::1/x",
    ):
        with pytest.raises(DataError) as raised:
            Database(url=url, table="t")
        assert_clear(raised, "password" if "token" not in url else "secret")


# -- files behind a table --------------------------------------------------------------------------


def test_a_parquet_file_that_changes_between_scans_is_noticed(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(RECORDS, path)
    table = SqlTable(Database(url="duckdb://", table=str(path)), SCHEMA, max_memory_mb=0)
    curator, ledger = curator_of(table)
    pq.write_table(RECORDS.slice(1), path)
    with pytest.raises(DataError) as raised:
        curator.measure(curator.counts(("a",)), noise=Laplace(10.0), purpose="p")
    assert_clear(raised, "changed while it was in use")
    assert ledger.spent == 0


def test_a_duckdb_file_that_is_replaced_is_noticed(tmp_path):
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("records", RECORDS)
        connection.execute("CREATE TABLE t AS SELECT * FROM records")
    table = SqlTable(Database(url=str(path), table="t"), SCHEMA, max_memory_mb=0)
    assert table.count(("a",)).tolist() == [50] * 10
    copy = tmp_path / "copy.duckdb"
    shutil.copy(path, copy)
    os.replace(copy, path)
    with pytest.raises(DataError, match="changed while it was in use"):
        table.count(("a",))


def test_an_interrupted_duckdb_query_is_an_error(tmp_path):
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE VIEW t AS SELECT x.range % 10 AS a, y.range % 7 AS b FROM range(900000) x, range(900000) y"
        )
    session = connect(Database(url=str(path), table="t"))
    timer = later(session._con.con.interrupt, after=0.7)
    with pytest.raises(DataError) as raised:
        SqlTable(session, SCHEMA)
    timer.join()
    assert_clear(raised, "cancelled")


def test_without_a_snapshot_the_table_must_be_declared_immutable_and_is_checked(tmp_path):
    path = tmp_path / "t.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        connection.executemany(
            "INSERT INTO t VALUES (?, ?)", list(zip(*RECORDS.to_pydict().values(), strict=True))
        )
    with pytest.raises(DataError, match="--immutable"):
        read_table(Database(url=f"sqlite://{path}", table="t"), SCHEMA)
    table = SqlTable(Database(url=f"sqlite://{path}", table="t", immutable=True), SCHEMA, max_memory_mb=0)
    expected = read_table(RECORDS, SCHEMA).count_many([("a", "b"), ("a",)])
    for one, two in zip(table.count_many([("a", "b"), ("a",)]), expected, strict=True):
        assert (one == two).all()
    curator, ledger = curator_of(table)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM t WHERE rowid = 1")
    connection.close()
    with pytest.raises(DataError, match="changed while it was in use") as raised:
        curator.measure(curator.counts(("a",)), noise=Laplace(10.0), purpose="p")
    assert "file" not in str(raised.value)  # the table has none that its reader would know
    assert ledger.spent == 0


# -- Spark -----------------------------------------------------------------------------------------


def test_a_spark_job_that_is_cancelled_and_files_that_change(spark, tmp_path):
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    path = tmp_path / "t.parquet"
    pq.write_table(RECORDS, path)
    session.read.parquet(str(path)).createOrReplaceTempView("stable")
    session.sql(
        "CREATE OR REPLACE TEMP VIEW slow AS SELECT a, b FROM stable "
        "WHERE reflect('java.lang.Thread', 'sleep', 300L) IS NULL OR a >= 0"
    )
    with pytest.raises(DataError, match="--immutable"):
        read_table(Database(url=spark, table="slow"), SCHEMA)
    over = threading.Event()

    def cancel():  # again and again: on a busy machine the job may not have begun at the first time
        while not over.wait(1.0):
            session.sparkContext.cancelAllJobs()

    threading.Thread(target=cancel, daemon=True).start()
    with pytest.raises(DataError) as raised:
        read_table(Database(url=spark, table="slow", immutable=True), SCHEMA)
    over.set()
    assert_clear(raised, "cancelled")

    table = read_table(Database(url=spark, table=str(path)), SCHEMA)
    curator, ledger = curator_of(table)
    assert curator.measure(curator.counts(("a",)), noise=Laplace(10.0), purpose="p").values.shape == (10,)
    spent = ledger.spent
    pq.write_table(RECORDS.slice(1), path)
    with pytest.raises(DataError, match="changed while it was in use"):
        curator.measure(curator.counts(("b",)), noise=Laplace(10.0), purpose="p")
    assert ledger.spent == spent


def test_values_in_errors_of_spark_are_not_shown(spark):
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    session.sql(
        f"CREATE OR REPLACE TEMP VIEW bad AS SELECT id AS a, CAST(concat('{SECRET}', id) AS INT) AS b FROM range(20)"
    )
    with pytest.raises(DataError) as raised:
        read_table(Database(url=spark, table="bad", immutable=True), SCHEMA)
    assert_clear(raised, "withheld")


def test_files_of_pandas_that_spark_does_not_read_are_refused_with_what_can_be_done(spark, tmp_path):
    """Moments to the nanosecond, which pandas writes by itself, end Spark also where the schema leaves them out."""
    import pandas as pd

    days = pd.Series(pd.date_range("2000-01-01", periods=500)).astype("datetime64[ns]")
    frame = RECORDS.to_pandas().assign(day=days)
    frame.to_parquet(tmp_path / "ns.parquet")
    with pytest.raises(DataError) as raised:
        read_table(Database(url=spark, table=str(tmp_path / "ns.parquet")), SCHEMA)
    assert_clear(raised, "PARQUET_TYPE_ILLEGAL", "coerce_timestamps='us'")
    frame.to_parquet(tmp_path / "us.parquet", coerce_timestamps="us")
    there = read_table(Database(url=spark, table=str(tmp_path / "us.parquet")), SCHEMA)
    assert there.count(("a",)).tolist() == [50] * 10


SHUFFLING = """
import sys
from pathlib import Path

from understudy.data import Database, read_table
from understudy.schema import Integer, Schema

schema = Schema(columns=(Integer("a", minimum=0, maximum=999),))
table = read_table(Database(url="local[2]", table=sys.argv[1]), schema)
print(table.count(("a",)).sum(), flush=True)
folder = Path(sys.argv[2])
print(*folder.rglob("shuffle_*.data"), sep="\\n", flush=True)
print(*{oct(found.stat().st_mode & 0o777) for found in folder.glob("understudy-*")}, flush=True)
"""


def test_what_the_tasks_of_a_local_spark_pass_on_is_for_nobody_else(tmp_path):
    """Before, exact counts lay in files of the system's temporary folder that everybody could read."""
    if missing_spark():
        pytest.skip(missing_spark())
    pq.write_table(pa.table({"a": list(range(1000))}), tmp_path / "t.parquet")
    (tmp_path / "temporary").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_DIRS"}
    done = subprocess.run(
        [sys.executable, "-c", SHUFFLING, str(tmp_path / "t.parquet"), str(tmp_path / "temporary")],
        env={**environment, "TMPDIR": str(tmp_path / "temporary"), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=True,
    )
    rows, *shuffled, modes = done.stdout.splitlines()
    assert rows == "1000"
    assert shuffled
    assert all("/understudy-spark-" in path for path in shuffled)
    assert modes == "0o700"
    assert not list((tmp_path / "temporary").glob("understudy-*"))  # gone with the process


def test_a_sqlite_file_that_is_not_there_is_refused_and_not_made(tmp_path):
    path = tmp_path / "registry.sqlite"
    with pytest.raises(DataError, match=r"no SQLite file 'registry\.sqlite'"):
        SqlTable(Database(url=f"sqlite://{path}", table="t", immutable=True), SCHEMA)
    assert list(tmp_path.iterdir()) == []
