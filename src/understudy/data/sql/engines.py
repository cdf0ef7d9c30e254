"""The engines: how each of them opens a snapshot of a table and runs a query."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from understudy.data.files.stream import PARQUET_SUFFIXES, parquet_files
from understudy.data.persons import id_text
from understudy.data.sql.session import Session, missing_extra, on_calendar
from understudy.data.sql.source import Database, is_path, parts_of_name
from understudy.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1 << 17
"""Rows of a result that are in memory at a time."""


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
            self._paths = _local_files(self.source.table)
            if not self._paths:
                raise DataError("Without a DuckDB file the table must be a Parquet file or folder.")
            spills = _private_folder(self._paths[0].parent)
            weakref.finalize(self, shutil.rmtree, spills, ignore_errors=True)
            _spill_to(engine, spills)
            options = {"hive_partitioning": True, "hive_types_autocast": False, "union_by_name": True}
            return self._con.read_parquet([str(file) for file in self._paths], **options)
        assert folder is not None
        self._paths = [folder]
        _spill_to(engine, _spills_of(folder.resolve()))
        engine.execute("BEGIN TRANSACTION")
        return self._named(self.source.table)

    def _named(self, table: str) -> Any:
        return _named_table(self._con, table)

    def _run(self, sql: str) -> Iterator[pa.RecordBatch]:
        result = self._con.con.execute(sql)
        reader = getattr(result, "to_arrow_reader", None) or result.fetch_record_batch
        try:
            yield from reader(BATCH_ROWS)
        except OSError as error:  # what Arrow makes of every error of a stream
            raise _error_of_stream(error) from None

    def _close(self) -> None:
        self._con.disconnect()


def _error_of_stream(error: OSError) -> Exception:
    """Return the error of DuckDB that Arrow passed on as text: the kind of error begins it, and nothing else of it is looked at."""
    import duckdb

    kinds = {
        "INTERRUPT": duckdb.InterruptException,
        "Out of Memory": duckdb.OutOfMemoryException,
        "IO": duckdb.IOException,
        "TransactionContext": duckdb.TransactionException,
    }
    kind = kinds.get(str(error).partition(" Error")[0])
    return error if kind is None else kind("")


class PostgresSession(Session):
    """A PostgreSQL table, seen through one read-only transaction at the level REPEATABLE READ."""

    dialect = "postgres"

    def _open(self) -> Any:
        import psycopg

        self._snapshot = psycopg.connect(self.source.url, autocommit=False)
        weakref.finalize(self, self._snapshot.close)  # a table that nobody holds any more ends its snapshot
        self._snapshot.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self._snapshot.read_only = True
        with self._snapshot.cursor() as cursor:  # the transaction begins, and with it the snapshot
            cursor.execute("SET LOCAL TIME ZONE 'UTC'")
            cursor.execute("SET LOCAL DateStyle = 'ISO, YMD'")
            cursor.execute(
                "SET LOCAL extra_float_digits = 3"
            )  # doubles are written so that they read back the same
            cursor.execute("SET LOCAL client_encoding = 'UTF8'")
            cursor.execute("SET LOCAL jit = off")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            cursor.execute("SELECT count(*) FROM pg_catalog.pg_class LIMIT 1")
        return self._named(self.source.table)

    def _named(self, table: str) -> Any:
        import ibis
        import psycopg

        with psycopg.connect(self.source.url, autocommit=True) as other:
            found = _named_table(ibis.postgres.from_connection(other), table)
            place = found.op().namespace
            kinds = dict(found.schema()) | _kinds_of_server(other, place.database, found.op().name)
            return ibis.table(kinds, name=found.op().name, catalog=place.catalog, database=place.database)

    def _run(self, sql: str) -> Iterator[pa.RecordBatch]:
        # a savepoint: a query that fails leaves the snapshot as it was
        with self._snapshot.transaction(), self._snapshot.cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({sql}) AS described LIMIT 0")
            columns = [_column(column) for column in cursor.description or ()]
            with cursor.copy(f"COPY ({sql}) TO STDOUT (FORMAT csv)") as copy:
                lines: list[bytes] = []
                for line in copy:  # one record each
                    lines.append(bytes(line))
                    if len(lines) == BATCH_ROWS:
                        yield _of_lines(lines, columns)
                        lines = []
                yield _of_lines(lines, columns)

    def _close(self) -> None:
        self._snapshot.close()


_ARROW_TYPES = {
    16: "bool",
    20: "int64",
    21: "int16",
    23: "int32",
    26: "int64",
    700: "float32",
    701: "float64",
    1082: "date32",
}
_NUMERIC, _MOMENT, _MOMENT_WITH_ZONE = 1700, 1114, 1184
_BYTES, _TIME, _TIME_WITH_ZONE, _LENGTH_OF_TIME = 17, 1083, 1266, 1186


def _kinds_of_server(connection: Any, schema: str | None, table: str) -> dict[str, Any]:
    """Return the kinds of columns that decide how they are read and that Ibis does not tell from text: domains, by what they stand for, records and geometry.

    Privacy
    -------
    A domain over numbers would be read as doubles where it holds ids, and two persons with long ones would be one.
    """
    import ibis.expr.datatypes as dt
    from psycopg import sql

    plain: dict[int, Any] = {
        _NUMERIC: dt.Decimal(),
        _BYTES: dt.binary,
        _TIME: dt.time,
        _TIME_WITH_ZONE: dt.time,
        _LENGTH_OF_TIME: dt.Interval("s"),
        _MOMENT: dt.timestamp,
        _MOMENT_WITH_ZONE: dt.Timestamp("UTC"),
        1082: dt.date,
    }
    with connection.cursor() as cursor:
        where = [name for name in (schema, table) if name]
        cursor.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(sql.Identifier(*where)))
        columns = list(cursor.description or ())
        cursor.execute("SELECT oid FROM pg_catalog.pg_type WHERE typcategory IN ('A', 'C', 'G')")
        several = {number for (number,) in cursor}
    kinds: dict[str, Any] = {}
    for column in columns:
        number = column.type_code  # of a domain it is the type that it stands for
        if number in several:
            kinds[column.name] = dt.Array(dt.string)
        elif number == _NUMERIC and column.precision is not None:
            kinds[column.name] = dt.Decimal(column.precision, column.scale)
        elif number in plain:
            kinds[column.name] = plain[number]
    return kinds


def _column(column: Any) -> tuple[str, pa.DataType, pa.DataType]:
    """Return the name of a column of PostgreSQL, the type its text is read as, and the type it gets then."""
    import pyarrow as pa

    number, digits, scale = column.type_code, column.precision, column.scale or 0
    if (
        number == _NUMERIC
    ):  # without declared digits, or with too many, as doubles; declared ones may be no number
        known = digits is not None and digits <= 38 and scale >= 0
        return (
            (column.name, pa.string(), pa.decimal128(digits, scale))
            if known
            else (column.name, *[pa.float64()] * 2)
        )
    if number in (_MOMENT, _MOMENT_WITH_ZONE):
        return column.name, *[pa.timestamp("us", "UTC" if number == _MOMENT_WITH_ZONE else None)] * 2
    return column.name, *[pa.type_for_alias(_ARROW_TYPES.get(number, "string"))] * 2


def _of_lines(
    lines: Sequence[bytes], columns: Sequence[tuple[str, pa.DataType, pa.DataType]]
) -> pa.RecordBatch:
    """Return records that PostgreSQL wrote as text, each value read back to the last bit.

    Names of columns may repeat in a query, so they are given afterwards.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    places = [str(place) for place in range(len(columns))]
    body = b"".join(lines)
    if not body:
        arrays = [pa.array([], kind) for _, _, kind in columns]
        return pa.record_batch(arrays, names=[name for name, _, _ in columns])
    table = csv.read_csv(
        pa.py_buffer(body),
        read_options=csv.ReadOptions(column_names=places, use_threads=False, block_size=len(body) + 1),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types={place: kind for place, (_, kind, _) in zip(places, columns, strict=True)},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    )
    arrays = []
    for column, (_, written, kind) in zip(table.columns, columns, strict=True):
        values = column.combine_chunks()
        if pa.types.is_decimal(kind):
            values = pc.if_else(pc.equal(values, "NaN"), pa.scalar(None, written), values)
        arrays.append(values.cast(kind))
    return pa.record_batch(arrays, names=[name for name, _, _ in columns])


class SparkSession_(Session):
    """A table of a Spark cluster, or Parquet files that the cluster reads."""

    dialect = "pyspark"
    _views = 0

    def _open(self) -> Any:
        import ibis
        from pyspark.sql import SparkSession

        self._mine = SparkSession.getActiveSession() is None
        # task errors quote values: the log is silent unless somebody asks for it
        builder = SparkSession.builder.appName("understudy").config("spark.log.level", "OFF")
        url, options = self.source.url, {}
        if url.startswith("pyspark://"):
            from urllib.parse import parse_qsl

            options = dict(parse_qsl(urlsplit(url).query))
            for name, value in options.items():
                builder = builder.config(name, value)
        else:
            builder = builder.master(url)
            if url.startswith("local"):
                builder = builder.config("spark.sql.shuffle.partitions", "8")
                builder = builder.config("spark.local.dir", str(_folder_for_shuffles()))
        builder = (
            builder.config("spark.sql.session.timeZone", "UTC")
            # a folder named code=007 holds the value 007 whatever the other folders are called
            .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
        )
        self._spark = builder.getOrCreate()
        context = self._spark.sparkContext
        if self._mine:
            context.setLogLevel(options.get("spark.log.level", "OFF"))
        if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable  # executors of this machine run what runs here
        self._con = ibis.pyspark.connect(self._spark)
        return self._named(self.source.table)

    def _named(self, table: str) -> Any:
        if is_path(table):
            files = _local_files(table)
            if not files and not self.source.immutable:
                raise undeclared(self.source)
            self._paths = [*self._paths, *files]
            self._views += 1
            name = f"understudy_{id(self):x}_{self._views}"
            frame = self._spark.read.parquet(table)
            if table == self.source.table:
                self._whole = frame
            frame.createOrReplaceTempView(name)
            return self._con.table(name)
        if not self.source.immutable:
            raise undeclared(self.source)
        return _named_table(self._con, table)

    @property
    def files(self) -> list[Path]:
        """The Parquet files of the table that this machine sees, in the order of their names; none for other tables."""
        return self._paths

    def require_own_files(self) -> object:
        """Refuse tables other than Parquet files that this machine sees; return what tells the files from any others."""
        if not self._paths:
            raise _no_own_files()
        self.guarded(lambda: _require_files(self._whole, self._paths))
        self.require_unchanged()
        return self._stamp

    def of_files(self, files: Sequence[Path]) -> Any:
        """Return some of the files of the table as an Ibis expression, read with the types of the whole table."""

        def read() -> Any:
            reader = self._spark.read.schema(self._whole.schema)
            if Path(_without_scheme(self.source.table)).is_dir():
                reader = reader.option("basePath", self.source.table)  # names of folders are columns
            frame = reader.parquet(*map(path_for_spark, files))
            _require_files(frame, files)
            name = f"understudy_{id(self):x}_part"
            frame.createOrReplaceTempView(name)
            return on_calendar(self._con.table(name))

        return self.guarded(read)

    def written(self, folder: Path, kinds: str) -> Any:
        """Return a frame of what executors wrote to a folder."""
        return self.guarded(lambda: self._spark.read.schema(kinds).parquet(path_for_spark(folder)))

    def slots(self) -> int:
        """Return how many tasks the cluster runs at a time, about."""
        return self.guarded(lambda: max(1, int(self._spark.sparkContext.defaultParallelism)))

    def frame(self, query: Any) -> Any:
        """Return a query as a frame of Spark, which nothing has run yet."""
        self.require_open()
        self.require_unchanged()
        text = self.sql(query)
        return self.guarded(lambda: self._spark.sql(text))

    def shuffle_partitions(self) -> int:
        """Return into how many partitions Spark divides what is sent between executors."""
        return self.guarded(lambda: max(1, int(str(self._spark.conf.get("spark.sql.shuffle.partitions")))))

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
        self.dialect = self._con.name
        return self._named(self.source.table)

    def _named(self, table: str) -> Any:
        """Return a table whose whole numbers come as text.

        Privacy
        -------
        Ibis hands the rows of several engines through pandas, which turns the whole numbers of a column with a missing one into doubles: one record would change how those of others read.
        """
        found = _named_table(self._con, table)
        whole = {
            name: found[name].cast("string") for name, kind in found.schema().items() if kind.is_integer()
        }
        return found.mutate(**whole) if whole else found

    def _run(self, sql: str) -> Iterator[pa.RecordBatch]:
        yield from self._con.to_pyarrow_batches(self._con.sql(sql), chunk_size=BATCH_ROWS)

    def require_alive(self) -> None:
        """Do nothing: there is no snapshot to lose."""

    def _close(self) -> None:
        self._con.disconnect()


class SqliteSession(OtherSession):
    """A table of an SQLite file, opened for reading; the table must be declared immutable.

    Privacy
    -------
    SQLite keeps a type for each entry, not for a column: text may stand among numbers. So every column comes as text, like those of a CSV file, and each entry becomes
    text by itself (`understudy.data.persons.id_text`). How one entry reads depends on no other, and neither does the type of a column.
    """

    dialect = "sqlite"
    _views = 0

    def _open(self) -> Any:
        import sqlite3

        if not self.source.immutable:
            raise undeclared(self.source)
        file = Path(_after_scheme(self.source.url))
        if not file.is_file():  # which would be made
            raise DataError(
                f"There is no SQLite file {file.name!r}. Check the path: sqlite://FILE, or from the root sqlite:///FOLDER/FILE."
            )
        self._file = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        weakref.finalize(self, self._file.close)
        self._file.text_factory = _utf8
        return self._named(self.source.table)

    def _named(self, table: str) -> Any:
        import ibis
        from ibis.common.exceptions import TableNotFound

        *where, name = parts_of_name(table)
        place = _quoted(where[-1]) if where else "main"
        # hidden columns of virtual tables are none of theirs; generated ones are
        described = self._file.execute(f"PRAGMA {place}.table_xinfo({_quoted(name)})").fetchall()
        columns = [str(row[1]) for row in described if row[6] != 1]
        if len(where) > 1 or not columns:
            raise TableNotFound(name)
        self._views += 1
        view = f"understudy_{self._views}"
        # bytes in their order: entries that a collation takes for equal would stand in any order
        listed = ", ".join(f"{_quoted(item)} COLLATE BINARY AS {_quoted(item)}" for item in columns)
        self._file.execute(f"CREATE TEMP VIEW {view} AS SELECT {listed} FROM {place}.{_quoted(name)}")
        return ibis.table(dict.fromkeys(columns, "string"), name=view)

    def _run(self, sql: str) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        cursor = self._file.execute(sql)
        names = [str(item[0]) for item in cursor.description]
        while rows := cursor.fetchmany(BATCH_ROWS):
            columns = [
                pa.array(_as_texts(entries, name, self.source.label), pa.string())
                for name, entries in zip(names, zip(*rows, strict=True), strict=True)
            ]
            yield pa.record_batch(columns, names=names)

    def _close(self) -> None:
        self._file.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _utf8(stored: bytes) -> str:
    """Return a text of SQLite, which does not check what it is given."""
    try:
        return stored.decode("utf-8")
    except UnicodeDecodeError:
        pass
    raise DataError(
        "The SQLite file holds text that is not UTF-8. Convert it, or leave its column out by a view. Nothing was spent."
    )


def _as_texts(entries: Sequence[Any], name: str, label: str) -> list[str | None]:
    """Return the entries of a column as text, each by itself."""
    if any(type(entry) is bytes for entry in entries):
        raise DataError(
            f"The column {name!r} of {label!r} holds bytes (BLOB), which no column takes. Store text or numbers there, or leave the column out by a view."
        )
    return [entry if entry is None or type(entry) is str else id_text(entry) for entry in entries]


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
        "sqlite": SqliteSession,
    }
    try:
        import ibis  # noqa: F401
    except ImportError:
        raise missing_extra(source.kind) from None
    return kinds.get(source.kind, OtherSession)(source)


def undeclared(source: Database) -> DataError:
    """Return the error for an engine that cannot hold a snapshot of a table that may change."""
    return DataError(
        f"A snapshot of the table {source.label!r} cannot be held on {source.kind}, and counts of a table that changes "
        "in between do not belong to one table. Declare that nobody writes to it meanwhile (--immutable, or "
        "immutable: true in a specification), or copy it to files."
    )


_GLOB = re.compile(r"[\\{}\[\]*?]")
"""What Spark takes for a pattern in a path."""


def path_for_spark(path: Path) -> str:
    """Return a file or folder of this machine as Spark wants to be told: by its path, which is no pattern."""
    return _GLOB.sub(r"\\\g<0>", f"file://{os.path.abspath(path)}")


def _require_files(frame: Any, files: Sequence[Path]) -> None:
    """Refuse a frame of Spark that reads other files than these, in whatever order."""
    seen = [unquote(urlsplit(uri).path) for uri in frame.inputFiles() if uri.startswith("file:")]
    if sorted(seen) != sorted(os.path.abspath(path) for path in files):
        raise _no_own_files()


def _no_own_files() -> DataError:
    return DataError(
        "checkpoint= needs Parquet files that this process sees under the path that Spark reads, their names ending in .parquet or .pq: other tables may be divided "
        "otherwise when they are read again. Leave it out, or name the folder of the files as the table."
    )


def _without_scheme(table: str) -> str:
    return table.removeprefix("file://")


def _local_files(table: str) -> list[Path]:
    """Return the local Parquet files that a name stands for; none if it stands for something else."""
    path = Path(_without_scheme(table))
    if path.is_dir():
        return parquet_files(path)
    return [path] if path.is_file() and path.suffix.lower() in PARQUET_SUFFIXES else []


def _private_folder(beside: Path) -> Path:
    """Make a folder that only this user can enter, beside the data if possible: there is room for large ones."""
    try:
        return Path(tempfile.mkdtemp(prefix=".understudy-", dir=beside))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="understudy-"))


@cache
def _folder_for_shuffles() -> Path:
    """Return where a Spark of this machine writes what its tasks pass on; its own choice is open to everybody.

    A cluster has folders of its own, and ``SPARK_LOCAL_DIRS`` goes before this one.
    """
    folder = Path(tempfile.mkdtemp(prefix="understudy-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _spills_of(database: Path) -> Path:
    """Return the folder for spills of a DuckDB file; connections of one process share its engine, and so this."""
    folder = _private_folder(database.parent)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _spill_to(engine: Any, folder: Path) -> None:
    """Say where DuckDB writes records when memory is short.

    Privacy
    -------
    Where it chooses the folder itself (``.tmp`` here, or beside the database) everybody can read the files.
    """
    ((known,),) = engine.execute("SELECT current_setting('temp_directory')").fetchall()
    if known != str(folder):
        quoted = str(folder).replace("'", "''")
        engine.execute(f"SET temp_directory = '{quoted}'")


def _after_scheme(url: str) -> str:
    """Return the path of ``duckdb:///folder/file``, ``duckdb://file`` or a plain path."""
    if "://" not in url:
        return url
    path = url.split("://", 1)[1].split("?", 1)[0]
    return path


def _named_table(connection: Any, name: str) -> Any:
    """Return a table by its name, with or without its schema and catalogue."""
    *where, table = parts_of_name(name)
    return connection.table(table, database=tuple(where) or None)
