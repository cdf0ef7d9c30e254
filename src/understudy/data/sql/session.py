"""A connection that holds one snapshot of a table, and hands out the results of queries in batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from understudy.data.files.stream import file_stamp
from understudy.data.sql.source import Database
from understudy.errors import DataError, MissingExtra, UnderstudyError

if TYPE_CHECKING:
    import pyarrow as pa

# ----------------------------------------------------------------------------------------
# What went wrong in a database, without a word of what the database said.
#
# Drivers quote values and whole queries in their messages. Here an error is told by its type alone; the new error
# carries neither cause nor context.

_UNSPENT = "The question was not answered, so nothing was drawn for it."

_ADVICE: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("QueryCanceled", "InterruptException", "CancelledError", "SparkJobCancelled"),
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
        ("UndefinedTable", "TableNotFound", "CatalogException", "UndefinedSchema", "InvalidSchemaName"),
        "There is no table of that name. Check --table, and add its schema if it is not in the search path.",
    ),
    (
        ("InvalidPassword", "InvalidAuthorizationSpecification"),
        "The database does not accept this user. Check the user name, and the password in the driver's own file or "
        "environment.",
    ),
    (
        ("OutOfMemory", "OutOfMemoryException", "OutOfMemoryError", "DiskFull", "ConfigurationLimitExceeded"),
        "The engine ran out of memory or disk space. Give it more, or use coarser bins.",
    ),
    (
        (
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
        ),
        "The connection to the database failed or was lost. Check that it is running and can be reached, and start "
        "again.",
    ),
    (("IOException",), "A file of the database cannot be read, or another program has it open for writing."),
)


def explain(error: BaseException, label: str) -> DataError:
    """Return the error to raise instead of one from a driver.

    Examples
    --------
    >>> print(explain(ConnectionResetError("user=clerk password=x"), "births"))
    The table 'births' could not be read: ConnectionResetError. The connection to the database failed or was \
lost. Check that it is running and can be reached, and start again. The question was not answered, so nothing was \
drawn for it.
    """
    names = [kind.__name__ for kind in type(error).__mro__]
    told = type(error).__name__
    if is_cancelled(error):
        names.insert(0, "SparkJobCancelled")
    for known, advice in _ADVICE:
        if any(name in known for name in names):
            return DataError(f"The table {label!r} could not be read: {told}. {advice} {_UNSPENT}")
    return DataError(
        f"The table {label!r} could not be read: {told}. What the database said is withheld, because it may quote "
        f"records; its own log has it. Check the table, its columns and their types. {_UNSPENT}"
    )


def is_cancelled(error: BaseException) -> bool:
    """Say whether Spark gave up a job because somebody cancelled it. The text is looked at, not shown."""
    kind = type(error)
    if not kind.__module__.startswith(("pyspark", "py4j")):
        return False
    text = str(error)
    return "SPARK_JOB_CANCELLED" in text or "cancelled" in text[:4000]


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

    def _named(self, table: str) -> Any:
        """Return another table of the same database as an Ibis expression."""
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

    def beside(self, table: str) -> Any:
        """Return another table of the same database as an Ibis expression, seen through the same snapshot."""
        found = self.guarded(lambda: self._named(table))
        if self._paths:
            self._stamp = self.guarded(lambda: file_stamp(self._paths))
        return found

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


def missing_extra(kind: str) -> MissingExtra:
    """Return the error that names what to install."""
    extra = "spark" if kind == "spark" else "sql"
    return MissingExtra(
        f"Reading a table from {kind} needs the optional extra: pip install 'understudy[{extra}]'."
    )
