"""Connections that hold one snapshot of a table, and hand out the results of queries in batches."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from understudy.data._stream import file_stamp
from understudy.data.sql._faults import changed, explain
from understudy.data.sql.source import Database
from understudy.errors import DataError, MissingExtra, UnderstudyError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

BATCH_ROWS = 1 << 17
"""Rows of a result that are in memory at a time."""


class Session:
    """One connection and one snapshot, shared by all tables read from it.

    Attributes
    ----------
    source
        Where the table is.
    relation
        The table as an Ibis expression.
    dialect
        The SQL dialect, as Ibis names it.
    streams
        Whether results arrive in batches, so that one larger than memory can be read.
    groups
        Whether the engine knows grouping sets.
    """

    dialect = ""
    quoting: Any = None  # sqlglot's dialect, where it has another name
    streams = True
    groups = True

    def __init__(self, source: Database) -> None:
        self.source = source
        self._paths: list[Path] = []
        self._stamp: object = None
        self._closed = False
        self._defined: dict[str, str] = {}
        self.relation: Any = self.guarded(self._open)
        if self._paths:
            self._stamp = self.guarded(lambda: file_stamp(self._paths))

    def __repr__(self) -> str:
        return f"Session({self.source!r})"

    # -- what an engine provides

    def _open(self) -> Any:
        raise TypeError("Session is a base; use connect.")

    def _compile(self, query: Any) -> str:
        import ibis

        return str(ibis.to_sql(query.unbind(), dialect=self.dialect, pretty=False))

    def _run(self, sql: str) -> Iterator[pa.RecordBatch]:
        raise TypeError("Session is a base; use connect.")

    def _close(self) -> None:
        """Let go of the connection."""

    # -- what tables use

    def guarded(self, action: Callable[[], T]) -> T:
        """Run an action of the driver; its errors are replaced, not wrapped."""
        failure: UnderstudyError
        try:
            return action()
        except UnderstudyError:
            raise
        except ImportError:
            failure = missing_extra(self.source.kind)
        except Exception as error:
            failure = explain(error, self.source.label)
        raise failure

    def defined(self, query: Any) -> Any:
        """Return a query under a name of its own: other queries use it without its being compiled again."""
        import ibis

        name = f"understudy_{len(self._defined)}"
        self._defined[name] = self.sql(query)
        return ibis.table(query.schema(), name=name)

    def sql(self, query: Any) -> str:
        """Return a query as text of the engine's dialect, together with the definitions it uses."""
        if isinstance(query, str):
            return query
        text = self.guarded(lambda: self._compile(query))
        used = [name for name in self._defined if re.search(rf"\b{name}\b", text)]
        if not used:
            return text
        parts = ", ".join(f"{self.quoted(name)} AS ({self._defined[name]})" for name in used)
        return f"WITH {parts}, {text[5:]}" if text.startswith("WITH ") else f"WITH {parts} {text}"

    def quoted(self, name: str) -> str:
        """Return a name of a column as the engine's dialect quotes it."""
        import sqlglot

        return str(sqlglot.exp.to_identifier(name, quoted=True).sql(dialect=self.quoting or self.dialect))

    def batches(self, query: Any) -> Iterator[pa.RecordBatch]:
        """Iterate over the result of a query. A failure is an error: there is no partial result.

        Privacy
        -------
        Out: private.
        """
        if self._closed:
            raise DataError(
                f"The connection to the table {self.source.label!r} was closed. Read the table again."
            )
        self.require_unchanged()
        text = self.sql(query)
        found = self.guarded(lambda: iter(self._run(text)))
        end = object()
        while (batch := self.guarded(lambda: next(found, end))) is not end:
            yield batch  # type: ignore[misc]
        self.require_unchanged()

    def rows(self, query: Any) -> list[dict[str, Any]]:
        """Return the whole result of a query with a short one."""
        return [row for batch in self.batches(query) for row in batch.to_pylist()]

    def require_unchanged(self) -> None:
        """Refuse to go on if the connection was lost or the files behind the table were written to."""
        if self._paths and self.guarded(lambda: file_stamp(self._paths)) != self._stamp:
            raise changed(self.source.label)

    def require_alive(self) -> None:
        """Refuse to go on if the snapshot can no longer be asked."""
        self.require_unchanged()
        if not self._closed:
            self.guarded(lambda: list(self._run("SELECT 1 AS one")))

    def close(self) -> None:
        """End the snapshot."""
        if not self._closed:
            self._closed = True
            self.guarded(self._close)


class DuckdbSession(Session):
    """A DuckDB file, opened for reading within one transaction, or Parquet files read by DuckDB."""

    dialect = "duckdb"

    def _open(self) -> Any:
        import ibis

        path = _after_scheme(self.source.url)
        folder = Path(path) if path else None
        memory = path in ("", ":memory:")
        if folder is not None and not memory and not folder.exists():
            raise DataError(f"There is no DuckDB file {folder.name!r}. Check the path.")
        self._con = ibis.duckdb.connect(path or ":memory:", read_only=not memory)
        engine = self._con.con
        engine.execute("SET enable_progress_bar = false")
        engine.execute("SET TimeZone = 'UTC'")
        if memory:
            self._paths = parquet_files(self.source.table)
            if not self._paths:
                raise DataError("Without a DuckDB file the table must be a Parquet file or folder.")
            options = {"hive_partitioning": True, "hive_types_autocast": False, "union_by_name": True}
            return self._con.read_parquet([str(file) for file in self._paths], **options)
        assert folder is not None
        self._paths = [folder]
        engine.execute("BEGIN TRANSACTION")
        return _named_table(self._con, self.source.table)

    def _run(self, sql: str) -> Iterator[pa.RecordBatch]:
        result = self._con.con.execute(sql)
        reader = getattr(result, "to_arrow_reader", None) or result.fetch_record_batch
        yield from reader(BATCH_ROWS)

    def _close(self) -> None:
        self._con.disconnect()


class PostgresSession(Session):
    """A PostgreSQL table, seen through one read-only transaction at the level REPEATABLE READ."""

    dialect = "postgres"

    def _open(self) -> Any:
        import ibis
        import psycopg

        self._snapshot = psycopg.connect(self.source.url, autocommit=False)
        weakref.finalize(self, self._snapshot.close)  # a table that nobody holds any more ends its snapshot
        self._snapshot.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self._snapshot.read_only = True
        with self._snapshot.cursor() as cursor:  # the transaction begins, and with it the snapshot
            cursor.execute("SET LOCAL TIME ZONE 'UTC'")
            cursor.execute("SET LOCAL jit = off")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            cursor.execute("SELECT count(*) FROM pg_catalog.pg_class LIMIT 1")
        with psycopg.connect(self.source.url, autocommit=True) as other:
            table = _named_table(ibis.postgres.from_connection(other), self.source.table)
            return ibis.table(table.schema(), name=table.op().name, database=_database_of(table))

    def _run(self, sql: str) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        # a savepoint: a query that fails leaves the snapshot as it was
        with self._snapshot.transaction(), self._snapshot.cursor(name="understudy", binary=True) as cursor:
            cursor.execute(sql)
            while rows := cursor.fetchmany(BATCH_ROWS):
                names = [column.name for column in cursor.description or ()]
                arrays = [pa.array(list(column)) for column in zip(*rows, strict=True)]
                yield pa.record_batch(arrays, names=names)

    def _close(self) -> None:
        self._snapshot.close()


class SparkSession_(Session):
    """A table of a Spark cluster, or Parquet files that the cluster reads."""

    dialect = "pyspark"
    streams = False

    def _open(self) -> Any:
        import ibis
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName("understudy")
        url = self.source.url
        if url.startswith("pyspark://"):
            from urllib.parse import parse_qsl, urlsplit

            for name, value in parse_qsl(urlsplit(url).query):
                builder = builder.config(name, value)
        else:
            builder = builder.master(url)
            if url.startswith("local"):
                builder = builder.config("spark.sql.shuffle.partitions", "8")
        builder = (
            builder.config("spark.sql.session.timeZone", "UTC")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "OFF")
        )
        self._mine = SparkSession.getActiveSession() is None
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("OFF")  # task errors quote values
        self._con = ibis.pyspark.connect(self._spark)
        table = self.source.table
        if _is_path(table):
            self._paths = parquet_files(table)
            if not self._paths and not self.source.immutable:
                raise undeclared(self.source)
            name = f"understudy_{id(self):x}"
            self._spark.read.parquet(table).createOrReplaceTempView(name)
            return self._con.table(name)
        if not self.source.immutable:
            raise undeclared(self.source)
        return _named_table(self._con, table)

    def _run(self, sql: str) -> Iterator[pa.RecordBatch]:
        table = self._spark.sql(sql).toArrow()
        yield from table.to_batches(max_chunksize=BATCH_ROWS)

    def _close(self) -> None:
        if self._mine:
            self._spark.stop()


class OtherSession(Session):
    """Any other engine that Ibis connects to; the table must be declared immutable."""

    def _open(self) -> Any:
        import ibis

        if not self.source.immutable:
            raise undeclared(self.source)
        self._con = ibis.connect(self.source.url)
        self.dialect, self.quoting = self._con.name, self._con.dialect
        self.groups = self.dialect not in ("mysql", "sqlite", "singlestore")
        return _named_table(self._con, self.source.table)

    def _run(self, sql: str) -> Iterator[pa.RecordBatch]:
        yield from self._con.to_pyarrow_batches(self._con.sql(sql), chunk_size=BATCH_ROWS)

    def require_alive(self) -> None:
        """Do nothing: there is no snapshot to lose."""

    def _close(self) -> None:
        self._con.disconnect()


def connect(source: Database) -> Session:
    """Open a session of the right kind.

    Raises
    ------
    MissingExtra
        If the driver is not installed.
    DataError
        If the database cannot be reached or has no such table. The message holds nothing of the address and nothing
        that the driver said.
    """
    kinds: dict[str, type[Session]] = {
        "duckdb": DuckdbSession,
        "postgresql": PostgresSession,
        "spark": SparkSession_,
    }
    try:
        import ibis  # noqa: F401
    except ImportError:
        raise missing_extra(source.kind) from None
    return kinds.get(source.kind, OtherSession)(source)


def missing_extra(kind: str) -> MissingExtra:
    """Return the error that names what to install."""
    extra = "spark" if kind == "spark" else "sql"
    return MissingExtra(
        f"Reading a table from {kind} needs the optional extra: pip install 'understudy[{extra}]'."
    )


def undeclared(source: Database) -> DataError:
    """Return the error for an engine that cannot hold a snapshot of a table that may change."""
    return DataError(
        f"A snapshot of the table {source.label!r} cannot be held on {source.kind}, and counts of a table that changes "
        "in between do not belong to one table. Declare that nobody writes to it meanwhile (--immutable, or "
        "immutable: true in a specification), or copy it to files."
    )


def parquet_files(table: str) -> list[Path]:
    """Return the local Parquet files that a name stands for; none if it stands for something else."""
    from understudy.data._paths import PARQUET_SUFFIXES

    path = Path(table.removeprefix("file://"))
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix.lower() in PARQUET_SUFFIXES)
    return [path] if path.is_file() and path.suffix.lower() in PARQUET_SUFFIXES else []


def _is_path(table: str) -> bool:
    return "/" in table or table.lower().endswith((".parquet", ".pq"))


def _after_scheme(url: str) -> str:
    """Return the path of ``duckdb:///folder/file``, ``duckdb://file`` or a plain path."""
    if "://" not in url:
        return url
    path = url.split("://", 1)[1].split("?", 1)[0]
    return path


def _named_table(connection: Any, name: str) -> Any:
    """Return a table by its name, with or without its schema and catalogue."""
    *where, table = name.split(".")
    return connection.table(table, database=tuple(where) if len(where) > 1 else (where[0] if where else None))


def _database_of(table: Any) -> Any:
    """Return schema and catalogue of a table."""
    place = table.op().namespace
    return (place.catalog, place.database) if place.catalog else place.database
