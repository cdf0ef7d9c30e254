"""Work of a cluster of Spark that survives the end of its driver: counts of the files so far, and the rows of persons that stay.

A checkpoint of Spark divides a table by whole Parquet files, which are the same for every application, and not by its partitions, which are not.
The files are counted some at a time; after each time the driver keeps the counts of all files so far and how many files these are.
A later run with the same files, schema, questions and versions counts the files after them, so no row is counted twice or left out.

Of a table that is cut by person the folder also holds the key that decides which rows stay and, as soon as they were chosen, these rows as words. Counts of such a table are made from
those rows; a run that goes on takes the key and the rows of the earlier one, so that no count mixes rows that two keys chose (:mod:`understudy.data.arrow` has the argument).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from understudy._system import take_lock
from understudy.data.counting.counting import MarginalCounter
from understudy.data.files.checkpoint import Checkpoint, key_of, own_folder
from understudy.data.persons import KEY_BYTES
from understudy.errors import DataError

PORTION_BYTES = 1 << 28
"""Bytes of files that each task slot of the cluster counts between two times of saving, about."""

_CHECKING, _COUNTING, _KEY, _CHOSEN, _ROWS = "checking", "counting", "persons", "chosen", "rows"
_LOCK = "in-use"


@dataclass
class SavedWork:
    """The folder of a checkpoint, held by one process at a time.

    Parameters
    ----------
    folder
        Made if absent, for this user alone.
    facts
        What must be equal for work to be gone on with: files, schema, preparation, versions. Public, but for sizes and times of files.

    Raises
    ------
    DataError
        If the folder is open to others, or another process is at work in it.

    Privacy
    -------
    The files hold exact counts, and of persons the key and encoded rows: they are as private as the table. What is left of an earlier process and is no use
    any more is removed when a later one takes the folder.
    """

    folder: Path
    facts: tuple[object, ...]
    _lock: IO[bytes] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        own_folder(self.folder)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        path = self.folder / _LOCK
        try:
            self._lock = os.fdopen(os.open(path, flags, 0o600), "r+b")
        except OSError as error:
            raise DataError(
                f"Counts so far cannot be kept in {str(self.folder)!r}: {error.strerror or 'the system refused'}."
            ) from None
        if not take_lock(self._lock.fileno()):
            self._lock.close()
            raise DataError(
                f"Another process or table is at work in {str(self.folder)!r}. Wait for it to end, or name another folder."
            )
        self.close = weakref.finalize(self, _let_go, self._lock, path)
        """Let others have the folder, and remove rows of persons that were counted; done when nobody holds the table any more, or the process ends in good order."""

    def work(self, name: str, *facts: object) -> Checkpoint:
        """Return a piece of work by its name, on the condition of these facts and those of the table."""
        return Checkpoint(self.folder, name, key_of(*self.facts, *facts))

    def counts(self, step: str, counter: MarginalCounter, *facts: object) -> tuple[Checkpoint, int]:
        """Return where the counts of a step are kept and how many files they are of; the counter is given the counts."""
        saved = self.work(step, counter.layout, *facts)
        rows, _, joined = saved.load_all()
        sizes = [1, *(totals.size for totals in counter.state)]
        if len(joined) != sum(sizes):
            return saved, 0
        (files,), *state = np.split(joined, np.cumsum(sizes)[:-1])
        counter.restore(rows, state)
        return saved, int(files)

    def keep_counts(self, saved: Checkpoint, counter: MarginalCounter, files: int) -> None:
        """Keep the counts of the first ``files`` files."""
        saved.save(counter.rows, [np.array([files], np.int64), *counter.state])

    def key(self, id_column: str, max_rows: int, key: bytes) -> bytes:
        """Return the key that earlier work began with, or keep this one for later work."""
        saved = self.work(f"{_KEY}-{max_rows}", id_column)
        found = saved.load_all()[2]
        if len(found) * 8 == KEY_BYTES:
            return found.astype("<i8").tobytes()
        saved.save(0, [np.frombuffer(key, "<i8").astype(np.int64)])
        return key

    def chosen(self, max_rows: int, *facts: object) -> tuple[Path, int] | None:
        """Return where the rows that stay were written by an earlier process, and how many they are; None where they were not."""
        saved = self.work(f"{_CHOSEN}-{max_rows}", max_rows, *facts)
        rows, complete, name = saved.load_all()
        place = self.folder / f"{_ROWS}-{max_rows}-{int(name[0]):015x}" if complete and len(name) else None
        return (place, rows) if place is not None and place.is_dir() else None

    def place(self, max_rows: int) -> tuple[Path, int]:
        """Return a folder that is not there yet for rows that stay, and its number."""
        number = secrets.randbits(60)
        return self.folder / f"{_ROWS}-{max_rows}-{number:015x}", number

    def keep_chosen(self, max_rows: int, rows: int, number: int, *facts: object) -> None:
        """Note that the rows that stay are all in the folder of a number."""
        self.work(f"{_CHOSEN}-{max_rows}", max_rows, *facts).save(
            rows, [np.array([number], np.int64)], complete=True
        )

    def forget(self) -> None:
        """Remove counts and key: what they were for is done. The key is written over first."""
        own_folder(self.folder)
        for path in self.folder.iterdir():
            kind, _, rest = path.name.partition("-")
            if path.name == _CHECKING or (kind in (_COUNTING, _KEY, _CHOSEN) and rest.isdecimal()):
                Checkpoint(self.folder, path.name, "").remove(write_over=kind == _KEY)

    def sweep(self) -> None:
        """Remove rows of persons that no note speaks of: of a process that ended before they were all there, or after they were counted."""
        _sweep(self.folder)

    @staticmethod
    def portion(files: Sequence[Path], slots: int) -> Sequence[Path]:
        """Return the first of some files: as many as keep a cluster busy until it is time to save, one at least."""
        room = PORTION_BYTES * max(1, slots)
        for number, file in enumerate(files):
            room -= file.stat().st_size
            if room <= 0:
                return files[: number + 1]
        return files


def _sweep(folder: Path) -> None:
    if any(path.name.startswith(f"{_CHOSEN}-") for path in folder.iterdir()):
        return  # a later process goes on with them
    for path in folder.iterdir():
        kind, _, rest = path.name.partition("-")
        if kind == _ROWS and "-" in rest and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def _let_go(lock: IO[bytes], path: Path) -> None:
    with contextlib.suppress(OSError):
        _sweep(path.parent)
        path.unlink()
    lock.close()
