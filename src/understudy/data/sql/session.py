"""A connection that holds one snapshot of a table, and hands out its records in Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from understudy.data.counting.encode import stored_otherwise
from understudy.data.files.stream import file_stamp, name_problems
from understudy.data.sql.source import Database
from understudy.errors import DataError, MissingExtra, Problems, UnderstudyError
from understudy.schema.coding.calendar import EARLIEST, LATEST

if TYPE_CHECKING:
    import pyarrow as pa

    from understudy.schema import Schema

# ----------------------------------------------------------------------------------------
# What went wrong in a database, without a word of what the database said.
#
# Drivers quote values and whole queries in their messages. Here an error is told by its type alone; the new error
# carries neither cause nor context.

_UNSPENT = "The question was not answered, so nothing was drawn for it."

_LOST = (
    "OperationalError",
    "ConnectionException",
    "ConnectionError",
    "ConnectionRefusedError",
    "AdminShutdown",
    "CrashShutdown",
    "CannotConnectNow",
    "Py4JNetworkError",
    "ConnectionDoesNotExist",
    "ConnectionFailure",
    "InterfaceError",
    "BrokenPipeError",
    "ConnectionResetError",
    "EOFError",
    "stopped SparkContext",
)

_ADVICE: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("QueryCanceled", "InterruptException", "CancelledError", "SPARK_JOB_CANCELLED"),
        "The query was cancelled, by hand or by a limit on its time. Raise the limit or ask when the database is less "
        "busy, and start again.",
    ),
    (
        ("SerializationFailure", "DeadlockDetected", "TransactionException", "InFailedSqlTransaction"),
        "The snapshot of the table was lost. Start again.",
    ),
    (
        ("InsufficientPrivilege", "PermissionException", "PermissionError"),
        "This user may not read the table. Ask for the right to SELECT from it.",
    ),
    (
        (
            "UndefinedTable",
            "TableNotFound",
            "CatalogException",
            "UndefinedSchema",
            "InvalidSchemaName",
            "TABLE_OR_VIEW_NOT_FOUND",
            "PATH_NOT_FOUND",
        ),
        "There is no table of that name. Check --table, add its schema if it is not in the search path, and put a name that holds "
        'dots in double quotes: health."births.2024".',
    ),
    (
        ("InvalidPassword", "InvalidAuthorizationSpecification", "login refused"),
        "The database refused the login. Check the user name, and the password in the driver's own file or "
        "environment; for PostgreSQL see PGPASSWORD and ~/.pgpass (PGPASSFILE).",
    ),
    (
        ("ModuleNotFoundError", "PYTHON_VERSION_MISMATCH"),
        "The executors of Spark encode the records, and lack what that takes. Install the same versions of Python and of Understudy "
        "with its extra 'spark' on every worker, or send them along (spark.archives, PYSPARK_PYTHON).",
    ),
    (
        ("PARQUET_TYPE_ILLEGAL", "PARQUET_TYPE_NOT_SUPPORTED", "PARQUET_TYPE_NOT_RECOGNIZED"),
        "Spark does not read the type of some column of these Parquet files, even if the schema leaves that column out. Time stamps of nanoseconds, "
        "as pandas writes them, are such a type: write the files with microseconds (to_parquet(..., coerce_timestamps='us')), or let DuckDB read them.",
    ),
    (
        ("MAX_RESULT_SIZE",),
        "What was asked for is larger than the driver may receive. Raise spark.driver.maxResultSize, or ask for fewer or smaller "
        "marginals.",
    ),
    (
        (
            "OutOfMemory",
            "OutOfMemoryException",
            "OutOfMemoryError",
            "DiskFull",
            "ConfigurationLimitExceeded",
            "No space left on device",
        ),
        "The engine ran out of memory or disk space. Give it more, or use coarser bins.",
    ),
    (
        ("ExecutorLostFailure", "FetchFailed"),
        "Executors were lost more often than Spark repeats a task. Give them more memory (spark.executor.memoryOverhead is that of "
        "Python), or more partitions, and start again.",
    ),
    (
        _LOST,
        "The connection to the database failed or was lost. Check that it is running and can be reached, and start "
        "again.",
    ),
    (("IOException",), "A file of the database cannot be read, or another program has it open for writing."),
    (("PythonException",), "Python failed on an executor of Spark, whose log has more."),
)

_IN_TEXTS_OF_SPARK = {
    "cancelled": "SPARK_JOB_CANCELLED",
    "ModuleNotFoundError": "ModuleNotFoundError",
    "PYTHON_VERSION_MISMATCH": "PYTHON_VERSION_MISMATCH",
    "maxResultSize": "MAX_RESULT_SIZE",
    "OutOfMemoryError": "OutOfMemoryError",
    "No space left on device": "No space left on device",
    "ExecutorLostFailure": "ExecutorLostFailure",
    "FetchFailed": "FetchFailed",
    "stopped SparkContext": "stopped SparkContext",
}
"""Words of Spark that say what happened, and what they mean here. Its texts are looked at, not shown."""


def explain(error: BaseException, label: str) -> DataError:
    """Return the error to raise instead of one from a driver.

    Examples
    --------
    >>> print(explain(ConnectionResetError("user=clerk password=x"), "births"))
    The database with the table 'births' could not be read: ConnectionResetError. The connection to the database failed or was \
lost. Check that it is running and can be reached, and start again. The question was not answered, so nothing was \
drawn for it.
    """
    told = type(error).__name__
    of_spark = type(error).__module__.startswith(("pyspark", "py4j"))
    signs = _signs_of_spark(error) if of_spark else []
    names = [*signs, *(kind.__name__ for kind in type(error).__mro__)]
    if _login_refused(error):
        names = ["login refused"]
    if of_spark and signs:
        told = f"{told} ({signs[0]})"
    for known, advice in _ADVICE:
        if any(name in known for name in names):
            # of several tables, the one that is asked about when a connection is lost need not be the one that was being read
            whole = names == ["login refused"] or known is _LOST
            what = f"The database with the table {label!r}" if whole else f"The table {label!r}"
            return DataError(f"{what} could not be read: {told}. {advice} {_UNSPENT}")
    where = "its own log has it"
    if of_spark:
        where = "the log of Spark has it, which pyspark://?spark.master=...&spark.log.level=ERROR shows here"
    return DataError(
        f"The table {label!r} could not be read: {told}. What the database said is withheld, because it may quote "
        f"records; {where}. Check the table, its columns and their types. {_UNSPENT}"
    )


_LOGIN = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "is not permitted to log in",
    "authentication method",
)
"""Words of PostgreSQL, and of its client library, for a login that was refused. Its texts are looked at, not shown."""


def _login_refused(error: BaseException) -> bool:
    """Say whether a server of PostgreSQL refused the login: by the class of its error (28...), which the driver has not for every
    error while connecting, by what the client knows of the password, or by words that are known here.
    """
    if not type(error).__module__.startswith("psycopg"):
        return False
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return str(state).startswith("28")
    if getattr(getattr(error, "pgconn", None), "needs_password", False):
        return True
    text = str(error)
    return any(words in text for words in _LOGIN) or (
        'role "' in text and "does not exist" in text and "connection to server" in text
    )


def _signs_of_spark(error: BaseException) -> list[str]:
    """Return what Spark calls this kind of error, and the words in its text that are known here: nothing of a record."""
    named: list[str] = []
    condition = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    if condition is not None:
        try:
            name = condition()
        except Exception:
            name = None
        if isinstance(name, str) and name.replace("_", "").replace(".", "").isalnum() and name.isupper():
            named.append(name)
    text = str(error)
    return [*(sign for words, sign in _IN_TEXTS_OF_SPARK.items() if words in text), *named]


def changed(label: str) -> DataError:
    """Return the error for a table that is not what it was when it was opened."""
    return DataError(
        f"The table {label!r} changed while it was in use. Nothing was drawn from the question that noticed it. "
        "Start again when nobody writes to it."
    )


T = TypeVar("T")


class Session:
    """One connection and one snapshot, shared by all tables read from it.

    Attributes
    ----------
    source
        Where the table is.
    relation
        The table as an Ibis expression, its dates within the calendar.
    dialect
        The SQL dialect, as Ibis names it.
    """

    dialect = ""

    def __init__(self, source: Database) -> None:
        self.source = source
        self._paths: list[Path] = []
        self._stamp: object = None
        self._closed = False
        self.relation: Any = self.guarded(lambda: on_calendar(self._open()))
        if self._paths:
            self._stamp = self.guarded(lambda: file_stamp(self._paths))

    def __repr__(self) -> str:
        return f"Session({self.source!r})"

    # -- what an engine provides

    def _open(self) -> Any:
        raise TypeError("Session is a base; use connect.")

    def _named(self, table: str) -> Any:
        """Return another table of the same database as an Ibis expression."""
        raise TypeError("Session is a base; use connect.")

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

    def beside(self, table: str) -> Any:
        """Return another table of the same database as an Ibis expression, seen through the same snapshot."""
        found = self.guarded(lambda: on_calendar(self._named(table)))
        if self._paths:
            self._stamp = self.guarded(lambda: file_stamp(self._paths))
        return found

    def sql(self, query: Any) -> str:
        """Return a query as text of the engine's dialect."""
        import ibis

        if isinstance(query, str):
            return query
        return self.guarded(lambda: str(ibis.to_sql(query.unbind(), dialect=self.dialect, pretty=False)))

    def batches(self, query: Any) -> Iterator[pa.RecordBatch]:
        """Iterate over the result of a query. A failure is an error: there is no partial result.

        Privacy
        -------
        Out: private.
        """
        self.require_open()
        self.require_unchanged()
        text = self.sql(query)
        found = self.guarded(lambda: iter(self._run(text)))
        end = object()
        while (batch := self.guarded(lambda: next(found, end))) is not end:
            yield batch  # type: ignore[misc]
        self.require_unchanged()

    def require_open(self) -> None:
        """Refuse to go on with a connection that was closed."""
        if self._closed:
            raise DataError(
                f"The connection to the table {self.source.label!r} was closed. Read the table again."
            )

    def require_unchanged(self) -> None:
        """Refuse to go on if the files behind the table were written to."""
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


def on_calendar(relation: Any) -> Any:
    """Return a relation with dates and times beyond the years 1 to 9999 moved to the ends, and types that Ibis does not know as text.

    An infinite date has no day number and no value in Python: one of them would make a whole table unreadable. Time stamps of nanoseconds lie between the years
    1677 and 2262, where infinite ones are the first or last, and cannot be compared with the ends.
    """
    import ibis

    columns = {}
    for name in relation.columns:
        column = relation[name]
        kind = column.type()
        if kind.is_date() or (kind.is_timestamp() and kind.scale != 9):
            make = ibis.date if kind.is_date() else ibis.timestamp
            first, last = make(EARLIEST.isoformat()), make(LATEST.isoformat())
            columns[name] = ibis.ifelse(column > last, last, ibis.ifelse(column < first, first, column))
        elif kind.is_unknown():
            columns[name] = column.cast("string")
    return relation.mutate(**columns) if columns else relation


def check_columns(session: Session, columns: Sequence[str], *, schema: Schema) -> None:
    """Refuse a table without some columns, and columns of the schema that are stored in a way that no column takes, before a record is read."""
    kinds = session.relation.schema()
    label = session.source.label
    name_problems(f"The columns of {label!r} do not fit the schema", list(kinds), columns).raise_if_any(
        DataError
    )
    problems = Problems("The table does not fit the schema")
    for column in schema.columns:
        kind = kinds.get(column.name)
        if kind is not None and (
            kind.is_nested() or kind.is_binary() or kind.is_interval() or kind.is_time()
        ):
            problems.add(stored_otherwise(column.name, column.kind))
    problems.raise_if_any(DataError)


def missing_extra(kind: str) -> MissingExtra:
    """Return the error that names what to install."""
    extra = "spark" if kind == "spark" else "sql"
    return MissingExtra(
        f"Reading a table from {kind} needs the optional extra: pip install 'understudy[{extra}]'."
    )
