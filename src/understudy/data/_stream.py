"""Reading records in batches, and keeping what readers say about them out of error messages.

Readers quote the text they could not parse. Here their exceptions are replaced, not wrapped: the new
error is raised after the ``except`` block has ended, so it carries neither cause nor context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from understudy.errors import DataError, Problems, UnderstudyError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

BATCH_ROWS = 1 << 18
"""Rows per Arrow batch: large enough for the kernel, small enough for the cache."""


class Stream(Protocol):
    """Something that can be read from the start as often as needed, one batch at a time."""

    label: str
    """What to call it in messages. Public: a file name, never contents."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Iterate over batches that hold the given columns, in an order that never changes."""
        ...

    def stamp(self) -> object:
        """Return something that changes when the stored records change, as far as can be told."""
        ...


def attempt(action: Callable[[], T], explain: Callable[[Exception], DataError]) -> T:
    """Run ``action``; if a reader fails, raise what ``explain`` returns and nothing of the old error.

    Errors of this package are passed on with their message alone.

    Examples
    --------
    >>> attempt(lambda: int("secret"), lambda error: DataError("Column 'age' must be a number."))
    Traceback (most recent call last):
    ...
    understudy.errors.DataError: Column 'age' must be a number.
    """
    failure: UnderstudyError
    try:
        return action()
    except DataError as error:
        failure = DataError(*error.args)
        vars(failure).update(vars(error))
    except UnderstudyError:
        raise
    except Exception as error:
        failure = explain(error)
    raise failure


def guarded(items: Iterator[T], explain: Callable[[Exception], DataError]) -> Iterator[T]:
    """Iterate over ``items`` with every step inside `attempt`."""
    end = object()
    while (item := attempt(lambda: next(items, end), explain)) is not end:
        yield item  # type: ignore[misc]


def name_problems(heading: str, names: Sequence[object], wanted: Sequence[str]) -> Problems:
    """Collect missing and repeated columns. Only names from the schema are shown: others may be records."""
    problems = Problems(heading)
    missing = [name for name in wanted if name not in names]
    if missing:
        problems.add(f"missing columns: {', '.join(map(repr, missing))}; names must match exactly")
    repeated = [name for name in wanted if list(names).count(name) > 1]
    if repeated:
        problems.add(f"columns named more than once: {', '.join(map(repr, repeated))}")
    return problems


def file_stamp(paths: Sequence[Path]) -> object:
    """Return names, identities, sizes and times of change of some files."""
    facts = [(path, path.stat()) for path in paths]
    return tuple(
        (str(path), fact.st_dev, fact.st_ino, fact.st_size, fact.st_mtime_ns) for path, fact in facts
    )


def batches_from(stream: Stream, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Iterate over the batches of a stream without its first ``rows`` rows."""
    direct = getattr(stream, "batches_from", None)
    if direct is not None:
        yield from direct(columns, rows)
        return
    for batch in stream.batches(columns):
        if rows >= batch.num_rows:
            rows -= batch.num_rows
        else:
            yield batch.slice(rows)
            rows = 0


def explain_os_error(error: Exception, label: str) -> DataError | None:
    """Return the error for a file that is absent or closed to us, or None for anything else."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"There is no file {label!r}. Check the path.")
    if isinstance(error, PermissionError):
        return DataError(f"{label!r} may not be read by this user. Check its permissions.")
    if isinstance(error, IsADirectoryError):
        return DataError(f"{label!r} is a folder, not a file.")
    return None
