"""What went wrong in a database, without a word of what the database said.

Drivers quote values and whole queries in their messages. Here an error is told by its type alone; the new error
carries neither cause nor context.
"""

from __future__ import annotations

from understudy.errors import DataError

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
