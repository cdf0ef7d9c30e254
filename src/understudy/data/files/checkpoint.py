"""Work so far, kept in files of the custodian's own so that a long count survives the end of its process.

Exact counts, and the key that decided which rows of a person are counted, are as private as the records. They are written only where the caller names a folder for them, to
files that nobody else may read, and removed when the count is complete. Ledgers, models and bundles never hold them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from understudy.errors import DataError

T = TypeVar("T")

MAGIC = b"understudy counts so far 1\n"

SAVE_SECONDS = 60.0
"""How often a count is saved. At worst so much work is done twice."""

Arrays = Sequence[npt.NDArray[np.int64]]


def key_of(*facts: object) -> str:
    """Return a digest of everything that must be equal for counts to be continued."""
    return hashlib.sha256(json.dumps(facts, default=repr).encode("utf-8")).hexdigest()


@dataclass
class Checkpoint:
    """One resumable pass over the records: how many rows are done, and the counts of those rows.

    Parameters
    ----------
    folder
        Made if absent, for this user alone.
    name
        Which pass: one file each.
    key
        From `key_of`. A file with another key belongs to other records or questions and is replaced.

    Raises
    ------
    DataError
        If the folder or file can be read by others, belongs to somebody else, or cannot be written.

    Privacy
    -------
    In: private counts. Out: a private file, readable by this user alone. It is as sensitive as the table: put it
    on the disk of the table, not into a folder that is shared, backed up elsewhere or published.
    """

    folder: Path
    name: str
    key: str
    _saved: float = field(default_factory=time.monotonic, repr=False)

    def load(self, sizes: Sequence[int]) -> tuple[int, bool, list[npt.NDArray[np.int64]]]:
        """Return rows done, whether that is all, and the counts; zeros where there is nothing to go on from."""
        rows, complete, joined = self.load_all()
        if len(joined) != sum(sizes):
            return 0, False, [np.zeros(size, np.int64) for size in sizes]
        return rows, complete, np.split(joined, np.cumsum(sizes)[:-1]) if len(sizes) else []

    def load_all(self) -> tuple[int, bool, npt.NDArray[np.int64]]:
        """Return what `load` does with all arrays as one, however long; nothing where there is nothing to go on from."""
        fresh = (0, False, np.zeros(0, np.int64))
        own_folder(self.folder)
        body = _read_private(self._path)
        if body is None:
            return fresh
        head, _, rest = body.removeprefix(MAGIC).partition(b"\n")
        try:
            facts = json.loads(head)
            if facts["key"] != self.key:
                return fresh
            whole = facts["sha256"] == hashlib.sha256(rest).hexdigest() and len(rest) % 8 == 0
            rows, complete = int(facts["rows"]), bool(facts["complete"])
        except (ValueError, KeyError, TypeError):
            return fresh
        if not whole:  # cut off or damaged: count again
            return fresh
        return rows, complete, np.frombuffer(rest, "<i8").astype(np.int64)

    def save(self, rows: int, arrays: Arrays, *, complete: bool = False) -> None:
        """Replace the file by these counts; it is on the disk when this returns."""
        rest = b"".join(np.ascontiguousarray(array, "<i8").tobytes() for array in arrays)
        facts: dict[str, Any] = {"key": self.key, "rows": int(rows), "complete": complete}
        facts["sha256"] = hashlib.sha256(rest).hexdigest()
        temporary = self._path.with_name(f".{self.name}.{secrets.token_hex(6)}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(MAGIC + json.dumps(facts).encode("ascii") + b"\n" + rest)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise DataError(
                f"Counts so far cannot be kept in {str(self.folder)!r}: {error.strerror or 'the system refused'}. "
                "Make room, choose another folder, or count without it."
            ) from None
        self._saved = time.monotonic()

    def due(self) -> bool:
        """Say whether it is time to save again."""
        return time.monotonic() - self._saved >= SAVE_SECONDS

    def remove(self, *, write_over: bool = False) -> None:
        """Forget what was kept; a key is written over first."""
        with contextlib.suppress(FileNotFoundError):
            if write_over:
                with contextlib.suppress(OSError), self._path.open("r+b") as file:
                    file.write(bytes(os.fstat(file.fileno()).st_size))
                    file.flush()
                    os.fsync(file.fileno())
            self._path.unlink()

    @property
    def _path(self) -> Path:
        return self.folder / self.name


def own_folder(folder: Path) -> None:
    """Make a folder for this user alone, and refuse one that is open to others."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.stat()
    except OSError as error:
        raise DataError(
            f"Counts so far cannot be kept in {str(folder)!r}: {error.strerror or 'the system refused'}."
        ) from None
    if facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise DataError(
            f"The folder {str(folder)!r} is open to other users. Exact counts are as private as the table: use a "
            "folder of your own with permissions 700."
        )


def _read_private(path: Path) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    except OSError:
        raise DataError(f"{str(path)!r} cannot be read. Remove it and count from the start.") from None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if facts.st_uid != os.getuid() or facts.st_mode & 0o077 or not stat.S_ISREG(facts.st_mode):
            raise DataError(f"{str(path)!r} is open to other users. Remove it and count from the start.")
        body = file.read()
    if not body.startswith(MAGIC):
        raise DataError(
            f"{str(path)!r} does not hold counts so far and is left alone. Choose another folder."
        )
    return body


class Until(Iterator[T]):
    """Items, one at least, until somebody says that it is time for something else."""

    def __init__(self, items: Iterator[T], due: Callable[[], bool] | None) -> None:
        self._items, self._due = items, due
        self._some = self.ended = False

    def __next__(self) -> T:
        if self._some and self._due is not None and self._due():
            raise StopIteration
        self._some = True
        for item in self._items:
            return item
        self.ended = True
        raise StopIteration
