"""Reading records in batches, and keeping what readers say about them out of error messages.

Readers quote the text they could not parse. Here their exceptions are replaced, not wrapped: the new
error is raised after the ``except`` block has ended, so it carries neither cause nor context.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from understudy.errors import DataError, Problems, UnderstudyError

if TYPE_CHECKING:
    import pyarrow as pa

# ----------------------------------------------------------------------------------------
# Telling a person how a long pass over the records goes, without telling how many records there are.

Watch = Callable[[str, float], None]
"""Called with a few words and a fraction between 0 and 1."""

TELL_SECONDS = 0.5


def nobody(words: str, fraction: float) -> None:
    """Tell nobody."""


@dataclass
class Pace:
    """Rows per second of one pass.

    Privacy
    -------
    In: private numbers of rows. Out: a fraction and a rate of two digits, for the eyes of the custodian, who owns
    the records. Neither belongs in a file, a log or an answer for a program.

    Examples
    --------
    >>> said = []
    >>> pace = Pace("counting", 4, lambda words, fraction: said.append(fraction), interval=0.0)
    >>> pace.add(1)
    >>> pace.add(3)
    >>> said
    [0.25, 1.0]
    """

    task: str
    total: int | None
    watch: Watch
    done: int = 0
    interval: float | None = None
    _started: float = field(default_factory=lambda: time.monotonic())
    _told: float = field(default_factory=lambda: time.monotonic())
    _base: int = field(init=False)

    def __post_init__(self) -> None:
        self._base = self.done

    def add(self, rows: int) -> None:
        """Count rows as read and tell, but not too often."""
        self.done += rows
        now = time.monotonic()
        if now - self._told < (TELL_SECONDS if self.interval is None else self.interval):
            return
        self._told = now
        fraction = min(1.0, self.done / self.total) if self.total else 0.0
        self.watch(
            f"{self.task}, {rate((self.done - self._base) / max(1e-9, now - self._started))}", fraction
        )


def rate(rows_per_second: float) -> str:
    """Write a rate with two digits.

    Examples
    --------
    >>> rate(4_321_987.0), rate(876_543.0), rate(12.3)
    ('4.3 million rows/s', '880 thousand rows/s', '12 rows/s')
    """
    scales = ((1e9, " billion"), (1e6, " million"), (1e3, " thousand"), (1.0, ""))
    unit, word = next((item for item in scales if rows_per_second >= 0.995 * item[0]), scales[-1])
    number = rows_per_second / unit
    digits = f"{number:.1f}" if unit > 1 and number < 9.95 else f"{float(f'{number:.2g}'):g}"
    return f"{digits}{word} rows/s"


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


Piece = Callable[[], "Iterator[pa.RecordBatch]"]
"""What reads some of the batches of a stream."""


def pieces_from(stream: Stream, columns: Sequence[str], rows: int) -> Iterator[Piece]:
    """Iterate over pieces of a stream without its first ``rows`` rows, in their order; each can be read in a thread of its own.

    Streams whose records have to be read one after another give a piece for each batch, which is read when the next piece is asked for.
    """
    direct = getattr(stream, "pieces", None)
    if direct is not None and (not rows or getattr(stream, "batches_from", None) is not None):
        yield from direct(columns, rows)
        return
    for batch in batches_from(stream, columns, rows):
        yield lambda batch=batch: iter((batch,))  # type: ignore[misc]


def explain_os_error(error: Exception, label: str) -> DataError | None:
    """Return the error for a file that is absent or closed to us, or None for anything else."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"There is no file {label!r}. Check the path.")
    if isinstance(error, PermissionError):
        return DataError(f"{label!r} may not be read by this user. Check its permissions.")
    if isinstance(error, IsADirectoryError):
        return DataError(f"{label!r} is a folder, not a file.")
    return None


# ----------------------------------------------------------------------------------------
# Which file is read how, by the ending of its name.

CSV_SUFFIXES = (".csv", ".tsv", ".data", ".csv.gz", ".tsv.gz", ".data.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")


def is_csv(path: Path) -> bool:
    """Say whether a path is to be read as CSV, refusing what cannot be read at all."""

    def explain(error: Exception) -> DataError:
        return explain_os_error(error, path.name) or DataError(
            f"{path.name!r} cannot be opened. Check the path."
        )

    status = attempt(path.stat, explain)
    name = path.name.lower()
    if stat.S_ISDIR(status.st_mode):
        return False
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path.name!r} is not a regular file. Save the table to a file first.")
    if name.endswith(CSV_SUFFIXES):
        return True
    if name.endswith(PARQUET_SUFFIXES):
        return False
    if name.endswith(SPREADSHEETS):
        what = "OpenDocument sheets" if name.endswith(".ods") else "Excel files"
        raise DataError(
            f"{what} are not read ({path.name!r}). Save the sheet as CSV (UTF-8) and give that file."
        )
    raise DataError(
        f"The name {path.name!r} does not say what kind of file it is. "
        f"It must end in one of {', '.join((*CSV_SUFFIXES, *PARQUET_SUFFIXES))}, or be a Stata, SPSS or SAS file."
    )


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder, in the order of their names, without hidden and unfinished ones."""

    def visible(path: Path) -> bool:
        return not any(
            part.startswith(("_", ".")) and "=" not in part for part in path.relative_to(folder).parts
        )

    files = sorted(
        path for path in folder.rglob("*") if path.suffix.lower() in PARQUET_SUFFIXES and visible(path)
    )
    files = [path for path in files if path.is_file()]
    if not files:
        raise DataError(
            f"The folder {str(folder)!r} holds no Parquet files. Their names must end in "
            f"{' or '.join(PARQUET_SUFFIXES)}; for CSV, pass the file itself."
        )
    return files
