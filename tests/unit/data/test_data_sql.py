"""Addresses of databases, names of tables and errors of drivers: what needs no database to be tested."""

from __future__ import annotations

import sys

import pandas as pd
import pytest

import understudy
from understudy.cli.main import run
from understudy.cli.options import parse_source
from understudy.data import Database, is_database, read_table
from understudy.data.sql.session import changed, explain
from understudy.data.sql.source import parts_of_name
from understudy.errors import DataError, UnderstudyError, UsageError, without_password
from understudy.ledgers import ledger_name
from understudy.release.spec.spec import Spec
from understudy.schema import Integer, Schema

SPEC = {
    "name": "births",
    "source": {"path": "t.csv"},
    "schema": "schema.yaml",
    "unit": "add-remove",
    "public": {"row_count": {"epsilon": 2}},
    "synthesizers": [{"method": "independent"}],
    "acceptance": {"form": "pass-only", "epsilon": 2, "criteria": [{"name": "cells", "kind": "max-marginal-error", "threshold": 0.5}]},
    "selection": {"rule": "single"},
    "budget": {"total": {"epsilon": 8}, "model": {"epsilon": 4}},
}  # fmt: skip
SCHEMA = Schema(columns=(Integer("a", minimum=0, maximum=1),))


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("postgresql://clerk@db/registry", "postgresql"),
        ("postgres:///registry", "postgresql"),
        ("postgresql+psycopg://clerk@db:5432/registry", "postgresql"),
        ("duckdb:///data/registry.duckdb", "duckdb"),
        ("data/registry.duckdb", "duckdb"),
        ("registry.DDB", "duckdb"),
        ("local", "spark"),
        ("local[*]", "spark"),
        ("local[2]", "spark"),
        ("yarn", "spark"),
        ("spark://host:7077", "spark"),
        ("k8s://https://host:6443", "spark"),
        ("pyspark://?spark.master=yarn", "spark"),
        ("trino://clerk@host/catalogue", "trino"),
    ],
)
def test_an_address_names_its_engine_and_is_never_shown(address, kind):
    assert is_database(address)
    source = Database(url=address, table="health.births")
    assert source.kind == kind
    assert repr(source) == str(source) == f"Database({kind}, table 'health.births')"


@pytest.mark.parametrize(
    "path", ["births.csv", "births/", "C:\\data\\births.csv", "localities.csv", "yarn.csv", ""]
)
def test_a_file_is_not_a_database(path):
    assert not is_database(path)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://clerk:hunter2@db/registry",
        "postgresql://clerk:hun/ter2@db/registry",
        "postgresql://clerk:hunter2?@db/registry",
        "postgresql://:hunter2@db/registry",
        "postgresql://db/registry?password=hunter2",
        "postgresql://db/registry?PassWord=hunter2",
        "postgresql://db/registry?a=1&passfile_secret=hunter2",
        "snowflake://clerk@account/db?token=hunter2",
        "postgresql://[clerk:hunter2@db",
        "pyspark://?spark.hadoop.fs.s3a.secret.key=hunter2",
    ],
)
def test_secrets_in_an_address_are_refused_and_not_shown(address):
    with pytest.raises(DataError) as raised:
        Database(url=address, table="t")
    assert "hunter2" not in str(raised.value)
    assert "clerk" not in str(raised.value)
    assert raised.value.__context__ is None


@pytest.mark.parametrize(
    "address",
    [
        # what 0.1.0 let through
        "pyspark://?spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net=hunter2",
        "pyspark://?spark.hadoop.fs.s3a.access.key=hunter2",
        "postgresql://clerk%3Ahunter2@db/registry",
        "postgresql://clerk%3ahunter2@db/registry",
        "postgresql://clerk%253Ahunter2@db/registry",
        # other spellings of the same
        "pyspark://?fs.azure.sas.box.store.blob.core.windows.net=hunter2",
        "pyspark://?spark.hadoop.fs.azure.account%2Ekey.store=hunter2",
        "mssql://db/registry?odbc_connect=DRIVER%3DX%3BUID%3Dclerk%3BPWD%3Dhunter2",
        "mssql://db/registry;password=hunter2",
        "azure://store?connection=DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hunter2",
        "azure://store?connection=AccountName%3Da%3BSharedAccessSignature%3Dhunter2",
        "https://store/table?sv=2020&sig=hunter2",
        "snowflake://clerk@account/db?TOKEN=hunter2",
        "trino://clerk@db/catalog?Authorization=hunter2",
        "bigquery://project?credentials_base64=hunter2",
        "postgresql://db/registry?proxy=http%3A%2F%2Fclerk%3Ahunter2%40gate",
        "duckdb:///a.duckdb?key=hunter2",
        "postgresql://db/registry#password=hunter2",
        "x://" + "%25" * 3 + "2525252525" + "3Ahunter2@db",
    ],
)
def test_secrets_are_found_however_they_are_written(address):
    with pytest.raises(DataError) as caught:
        Database(url=address, table="births")
    assert "hunter2" not in str(caught.value)


CONNECTIONS = (
    # what PostgreSQL's client library reads, as people write it
    "host=db.example dbname=registry user=clerk password=hunter2",
    "host = db.example password = hunter2",
    "host=db password='hunter2 b' user=clerk",
    r"host=db password=a\'hunter2 user=clerk",
    "password='hunter2",
    "host='db' \"password\"=hunter2",
    "host=db\tpassword=a@hunter2",
    "host=db\npassword=hunter2",
    "PASSWORD=hunter2 host=db",
    "password=hunter2",
    "pass%77ord=hunter2 host=db",
    "host=db sslpassword=hunter2",
    "host=db passfile=hunter2",
    "host=db scram_client_key=hunter2",
    "host=db sslkey='pkcs11:object=k;pin-value=hunter2'",
    "host=db dbname='postgresql://clerk:hunter2@db/registry'",
    # addresses that are not quite one
    " postgresql://clerk:hunter2@db/registry",
    "'postgresql://clerk:hunter2@db/registry'",
    "postgresql:/clerk:hunter2@db/registry",
    "clerk:hunter2@db/registry",
    "clerk%3Ahunter2%40db/registry",
    "jdbc:postgresql://db/registry?user=clerk&password=hunter2",
    "DATABASE_URL=postgresql://clerk:hunter2@db/registry",
    "Driver={PostgreSQL};Server=db;Uid=clerk;Pwd=hunter2;",
    # addresses
    "postgresql://db/registry?user=clerk&sslpassword=a%40hunter2",
    "postgresql://db/registry?scram_server_key=hunter2",
    "postgresql://clerk:p'q@hunter2@db/registry",
    "postgresql://clerk:hunter2#@db/registry",
)
"""Each holds a password."""


def _told(action):
    """Everything that an action says: its error with all that led to it, or what it returned."""
    with pytest.raises(UnderstudyError) as caught:
        action()
    error, said = caught.value, []
    while error is not None:
        said.append(f"{error!s} {error!r} {error.args} {vars(error)}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return " ".join(said)


@pytest.mark.parametrize("text", CONNECTIONS)
def test_a_password_is_not_shown_whatever_it_is_handed_over_as(text, tmp_path, monkeypatch):
    """A table, a schema, a prior, a source of a specification: all of them take names of files too, and used to show them."""
    monkeypatch.chdir(tmp_path)
    schema = Schema.parse("columns: [{name: a, kind: boolean}]")
    schema.write("schema.yaml")
    pd.DataFrame({"a": [True, False]}).to_csv("t.csv", index=False)
    paid = {"epsilon": 1.0, "unit": "add-remove", "ledger": "memory"}
    spec = Spec.from_dict(SPEC, where=tmp_path)
    actions = {
        "table": lambda: read_table(text, schema),
        "address": lambda: Database(url=text, table="births"),
        "fit": lambda: understudy.synthesize(text, schema=schema, **paid),
        "schema": lambda: understudy.synthesize("t.csv", schema=text, **paid),
        "prior": lambda: understudy.synthesize("t.csv", schema=schema, prior=text, **paid),
        "discovery": lambda: understudy.synthesize(text, discover=0.5, **paid | {"delta": 1e-6}),
        "evaluation": lambda: understudy.evaluate(text, "t.csv", schema=schema),
        "release": lambda: understudy.publish(spec, source=text),
        "path": lambda: Spec.from_dict(SPEC | {"source": {"path": text}}, where=tmp_path),
        "database": lambda: Spec.from_dict(
            SPEC | {"source": {"database": {"url": text, "table": "births"}}}, where=tmp_path
        ),
    }
    for what, action in actions.items():
        assert "hunter2" not in _told(action), what
    before = {path.name for path in tmp_path.iterdir()}
    assert before == {"schema.yaml", "t.csv"}  # no ledger and no state is called by it


@pytest.mark.parametrize("text", CONNECTIONS[:8] + CONNECTIONS[-2:])
def test_a_password_is_no_name_of_a_table(text):
    with pytest.raises(DataError) as caught:
        Database(url="postgresql:///registry", table=text)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", CONNECTIONS)
def test_messages_end_where_a_password_could_begin(text):
    """Whatever a message quotes: the last of several guards, for those who forget the others."""
    for said in (text, repr(text), f"There is no file {text!r}. Check the path."):
        assert "hunter2" not in without_password(said)
        assert "hunter2" not in str(DataError(f"Wrong: {said}."))


@pytest.mark.parametrize(
    "said",
    [
        "sigma (-1.0) must be positive.",
        "The rule \"password == 'x' or token != 3\" names no column.",
        "Made on 2026-11-19 23:41:00 by anna@registry.example.",
        "Use postgresql://user@host:5432/dbname, not a password in it.",
        "100% of epsilon=1 is spent; rho=0.04 remains.",
        "C:\\data\\a@b.csv is no file.",
    ],
)
def test_other_messages_stay_as_they_are(said):
    assert without_password(said) == said


@pytest.mark.parametrize(
    "said",
    [
        f"postgresql://anna:{'hunter2' * 300}@host/db",
        f"anna:{'hunter2' * 300}@host/db",
        f"password{'x' * 60} = hunter2",
        "%" + "25" * 6 + "3Apassword%" + "25" * 6 + "3Dhunter2",
        "%" + "25" * 5_000 + "3Dhunter2",  # encoded more often than anybody does
    ],
)
def test_long_and_deeply_encoded_passwords_are_cut_too(said):
    assert "hunter2" not in without_password(said)


@pytest.mark.parametrize("word", ["a", "aa:", "://a:", "passw", "%2B", "+%"])
def test_long_words_of_strangers_are_looked_at_in_one_go(word):
    """A pattern that starts again at each letter would need hours for these."""
    said = word * (2_000_000 // len(word)) if word == "a" else word * 20_000
    assert without_password(said) == said


def test_a_connection_without_a_password_is_told_how_it_is_written():
    with pytest.raises(DataError, match="postgresql://user@host/dbname"):
        Database(url="host=db user=clerk dbname=registry", table="births")
    with pytest.raises(DataError, match="name of a table"):
        read_table("host=db user=clerk dbname=registry", Schema.parse("columns: [{name: a, kind: boolean}]"))


@pytest.mark.parametrize("words", [["synth", "{}"], ["schema", "check", "s.yaml", "{}"], ["ledger", "show", "{}"], ["synth", "t.csv", "{}"], ["verify", "{}"]])  # fmt: skip
def test_the_command_line_and_its_log_show_no_password(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text("columns: [{name: a, kind: boolean}]\n", encoding="utf-8")
    for text in CONNECTIONS:
        given = [word.replace("{}", text) for word in words]
        monkeypatch.setattr(sys, "argv", ["understudy", "--log-json", "log.json", *given])
        with pytest.raises(SystemExit) as stop:
            run()
        assert stop.value.code
        shown = capsys.readouterr()
        assert "error:" in shown.err
        assert "hunter2" not in shown.out + shown.err, text
    log = tmp_path / "log.json"
    assert not log.exists() or "hunter2" not in log.read_text(encoding="utf-8")


def test_a_secret_in_the_address_of_a_file_is_refused_too():
    with pytest.raises(DataError, match="password") as caught:
        Database(url="local[2]", table="s3a://me:hunter2@bucket/births.parquet")
    assert "hunter2" not in str(caught.value)
    Database(url="local[2]", table="abfss://box@store.dfs.core.windows.net/births.parquet")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://clerk@db.example:5432/registry?sslmode=require&application_name=under%20study",
        "postgresql://clerk%40office@db/registry?keepalives=1&keepalives_idle=30",
        "postgresql://clerk@db/registry?sslkey=client.key&sslcert=client.crt&options=-c%20search_path%3Dhealth",
        "postgresql://clerk@[::1]:5432/registry",
        "duckdb:///folder/keys%20of%20houses.duckdb",
        "pyspark://?spark.sql.shuffle.partitions=8&spark.hadoop.fs.s3a.endpoint=http://store:9000",
        "pyspark://?spark.hadoop.fs.azure.account.auth.type=OAuth",
        "snowflake://clerk@account/db?authenticator=externalbrowser&warehouse=small",
        "trino://clerk@db:8080/catalog/schema?SessionTimeZone=UTC",
        "spark://host:7077",
        "k8s://https://cluster:6443",
        "local[2]",
    ],
)
def test_addresses_without_secrets_stay(address):
    assert Database(url=address, table="births").url == address


def test_a_port_and_an_empty_option_are_no_secret():
    assert (
        Database(url="postgresql://clerk@db:5432/registry?connect_timeout=3", table="t").kind == "postgresql"
    )


def test_a_database_needs_a_table_and_files_take_none():
    with pytest.raises(DataError, match="Name the table"):
        Database(url="duckdb:///x.duckdb", table=" ")
    with pytest.raises(DataError, match="name of a table"):
        read_table("postgresql:///registry", SCHEMA)
    with pytest.raises(UsageError, match="--table"):
        parse_source("postgresql:///registry", None, False)
    with pytest.raises(UsageError, match="this is a file"):
        parse_source("births.csv", "births", False)
    with pytest.raises(UsageError, match="this is a file"):
        parse_source("births.csv", None, True)
    with pytest.raises(DataError, match="CSV files only"):
        read_table(Database(url="duckdb:///x.duckdb", table="t"), SCHEMA, separator=";")
    with pytest.raises(DataError, match="must be a URL"):
        Database(url="births.csv", table="t")


def test_ledgers_are_named_after_files_and_tables():
    assert [
        ledger_name(name) for name in ("births.csv.gz", "Births.parquet", "health.births", "a b", "..")
    ] == [
        "births",
        "Births",
        "health-births",
        "a-b",
        "table",
    ]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("births", ("births",)),
        ("health.births", ("health", "births")),
        ("registry.health.births", ("registry", "health", "births")),
        ('"births.2024"', ("births.2024",)),
        ('health."births.2024"', ("health", "births.2024")),
        ('"a ""quoted"" name".t', ('a "quoted" name', "t")),
        ("two words", ("two words",)),
    ],
)
def test_names_of_tables_have_up_to_three_parts_and_quotes_around_dots(name, parts):
    assert parts_of_name(name) == parts


@pytest.mark.parametrize("name", ["a.b.c.d", "a..b", ".a", "a.", '"a', 'a"b"', '"a"b', '""', ""])
def test_what_is_no_name_of_a_table_is_refused(name):
    with pytest.raises(DataError, match="no name of a table"):
        parts_of_name(name)


def test_errors_of_spark_say_what_can_be_done_and_nothing_of_their_text():
    """What Spark says is looked at for known words; what is shown is the kind of error and the advice."""

    class Told(Exception):
        __module__ = "pyspark.errors.exceptions.captured"

        def __init__(self, text, condition=None):
            super().__init__(f"secret {text} secret")
            self.getCondition = lambda: condition

    cases = {
        "ModuleNotFoundError: No module named 'understudy'": "every worker",
        "bigger than spark.driver.maxResultSize": "spark.driver.maxResultSize",
        "java.lang.OutOfMemoryError: Java heap space": "out of memory",
        "ExecutorLostFailure (executor 1 exited": "spark.executor.memoryOverhead",
        "cancelled as part of cancellation of all jobs": "cancelled",
        "Cannot call methods on a stopped SparkContext": "was lost",
        "something else": "spark.log.level",
    }
    for text, advice in cases.items():
        told = str(explain(Told(text), "births"))
        assert advice in told
        assert "secret" not in told
    assert "(TABLE_OR_VIEW_NOT_FOUND)" in str(explain(Told("x", "TABLE_OR_VIEW_NOT_FOUND"), "births"))
    assert "secret" not in str(explain(Told("x", "secret value"), "births"))


def test_a_refused_login_is_told_apart_from_a_server_that_is_not_there():
    class OperationalError(Exception):
        __module__ = "psycopg"
        sqlstate = None
        pgconn = None

    class Waiting:
        needs_password = True

    texts = ("FATAL:  password authentication failed for user secret", "fe_sendauth: no password supplied")
    refused = [OperationalError(text) for text in texts]
    for state in ("28P01", "28000"):
        refused.append(OperationalError("secret"))
        refused[-1].sqlstate = state
    refused.append(OperationalError("secret, in another language"))
    refused[-1].pgconn = Waiting()
    for error in refused:
        told = str(explain(error, "births"))
        assert "refused the login" in told
        assert "PGPASSWORD" in told
        assert "secret" not in told
    away = OperationalError("connection to server failed: Connection refused")
    shut = OperationalError("terminating connection: secret password authentication failed")
    shut.sqlstate = "57P01"
    for error in (away, shut):
        told = str(explain(error, "births"))
        assert "Check that it is running" in told
        assert told.startswith("The database with the table 'births' could not be read")
        assert "secret" not in told


def test_errors_of_drivers_are_told_by_their_type_alone():
    class SomethingOdd(Exception):
        pass

    for error in (SomethingOdd("secret"), ConnectionResetError("secret"), MemoryError("secret")):
        told = explain(error, "births")
        assert type(error).__name__ in str(told)
        assert "secret" not in str(told)
        assert "'births'" in str(told)
    assert "connection" in str(explain(ConnectionResetError(), "births"))
    assert "changed while it was in use" in str(changed("births"))
