"""Cutting a table that does not fit into memory by person: one pass over the records, and one external sort.

Each row becomes a line of 64-bit words, the two of its person and those of its record (`RecordWords`), in a file that has no name: nobody can open it, and it
is gone when it is closed or its process ends, however it ends. Rows are dealt out by the first bits of their person's first word into buckets of about
`LEAF_ROWS` rows. Then one bucket after another is read, rows of a person are put together, `chosen_rows` chooses, and the records that stay are written to a second file
of the same kind, from which every later question is answered without encoding anything again.

Memory holds one run of rows for each thread while rows are dealt out and one bucket for each thread afterwards, whatever the number of rows. A bucket with more
rows than that holds persons with very many rows; it is dealt out again by further bits, and the rows of one such person by the words of their records.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from understudy._system import take_lock
from understudy.data.counting.encode import ahead, in_threads
from understudy.data.files.checkpoint import Checkpoint, Until, own_folder
from understudy.data.persons import (
    ROWS_AT_ONCE,
    Persons,
    Words,
    check_max_rows,
    chosen_rows,
    first_words,
    number_of_equals,
)
from understudy.errors import DataError

LEAF_ROWS = 1 << 20
"""Rows of a bucket, about."""

LEAF_MOST = 1 << 22
"""Rows of a bucket that are held in memory; one with more is dealt out again."""

SEGMENT_ROWS = 1 << 10
"""Rows of one bucket that are written in one place, on average: as many as make reading them back cheap."""

_FANOUT = 256
_NOTHING = np.zeros(0, np.int64)
T = TypeVar("T")
_WORD = 8


class ScratchFile:
    """A file for this process alone: without a name, or with one so that work can go on after the end of its process.

    Parameters
    ----------
    folder
        Where it is; the system's folder for temporary files by default.
    name
        Its name in a folder that belongs to this user alone. One process at a time has it.

    Privacy
    -------
    In: private. Other users cannot open it. The system frees a file without a name when this process ends, however it ends.
    """

    def __init__(self, folder: Path | None = None, name: str | None = None) -> None:
        self._folder = Path(tempfile.gettempdir()) if folder is None else folder
        self._path = None if name is None else self._folder / name
        self._size = 0
        self._lock = threading.Lock()
        if self._path is not None:
            own_folder(self._folder)
        self._file: IO[bytes] = self._guarded(self._open)
        self.close = weakref.finalize(self, self._file.close)
        """Give the space of a file without a name back. It is given back too when nobody knows the file any more."""
        if self._path is not None and not take_lock(self._file.fileno()):
            self.close()
            raise DataError(
                f"Another process is at work in {str(self._folder)!r}. Wait for it to end, or name another folder."
            )

    def _open(self) -> IO[bytes]:
        if self._path is None:
            return tempfile.TemporaryFile(dir=self._folder)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        file = os.fdopen(os.open(self._path, flags, 0o600), "r+b")
        facts = os.fstat(file.fileno())
        if facts.st_uid != os.getuid() or facts.st_mode & 0o077 or not stat.S_ISREG(facts.st_mode):
            file.close()
            raise DataError(
                f"{str(self._path)!r} is open to other users. Remove it and count from the start."
            )
        return file

    def cut_to(self, size: int) -> bool:
        """Leave out what stands after so many bytes; say whether there were as many."""
        there = self._guarded(lambda: os.fstat(self._file.fileno()).st_size)
        self._size = size if there >= size else 0
        self._guarded(lambda: os.ftruncate(self._file.fileno(), self._size))
        return there >= size

    def sync(self) -> int:
        """Return the size, when everything is on the disk."""
        self._guarded(lambda: os.fsync(self._file.fileno()))
        return self._size

    def forget(self) -> None:
        """Take its name away, if it still has it; this process can still read it."""
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(self._path.lstat(), os.fstat(self._file.fileno())):
                    self._path.unlink()
            self._path = None

    def append(self, content: npt.NDArray[Any]) -> int:
        """Write an array at the end; return where it begins."""
        raw = memoryview(np.ascontiguousarray(content).reshape(-1).view(np.uint8).data)
        with self._lock:
            offset = self._size
            self._size += len(raw)
        self._guarded(lambda: self._write(raw, offset))
        return offset

    def _write(self, raw: memoryview, offset: int) -> None:
        while raw:
            written = os.pwrite(self._file.fileno(), raw, offset)
            raw, offset = raw[written:], offset + written

    def read(self, offset: int, size: int) -> bytes:
        """Return some bytes."""

        def whole() -> bytes:
            parts, at, left = [], offset, size
            while left:
                part = os.pread(self._file.fileno(), left, at)
                if not part:
                    raise OSError(errno.EIO, "the file ends early")
                parts.append(part)
                at, left = at + len(part), left - len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)

        return self._guarded(whole)

    def require_room(self, rows: int, line: int) -> None:
        """Refuse to begin what cannot end for want of space: so many rows of so many bytes."""
        there = self._guarded(lambda: os.fstat(self._file.fileno()).st_size)
        free = self._guarded(lambda: shutil.disk_usage(self._folder).free)
        if rows * line > free + there:
            raise DataError(
                f"Rows are put to their persons on disk, which takes {line} bytes for each row, and the folder {str(self._folder)!r} has less room than that. "
                "Name a folder with more room (the environment variable TMPDIR, or checkpoint=)."
            )

    def _guarded(self, action: Callable[[], T]) -> T:
        problem = ""
        try:
            return action()
        except OSError as error:
            problem = error.strerror or "the system refused"
        raise DataError(
            f"Rows are put to their persons on disk, in the folder {str(self._folder)!r}, and that failed: {problem}. "
            "Make room there or name another folder (the environment variable TMPDIR)."
        )


@dataclass
class _Buckets:
    """Rows of words on disk, dealt out to buckets."""

    file: ScratchFile
    width: int
    low: int
    shift: int
    number: int
    runs: list[tuple[int, npt.NDArray[np.int64]]] = field(default_factory=list)

    def add(self, rows: Words, by: Words) -> None:
        """Write rows, those of a bucket together."""
        from understudy._compile import of_one_type
        from understudy.data.counting.person_kernels import grouped

        found, bounds = grouped(
            of_one_type(rows), of_one_type(by), np.uint64(self.low), np.uint64(self.shift), self.number
        )
        self.runs.append((self.file.append(found), bounds))  # appending to a list is safe among threads

    def state(self) -> npt.NDArray[np.int64]:
        """Return what `restore` needs, when all rows are on the disk."""
        end = self.file.sync()
        lines = [np.concatenate(([offset], bounds)) for offset, bounds in self.runs]
        return np.concatenate([np.array([end], np.int64), *lines])

    def restore(self, state: npt.NDArray[np.int64]) -> bool:
        """Go on from a state; say whether the file still holds it."""
        if (len(state) - 1) % (self.number + 2) or not self.file.cut_to(int(state[0])):
            return False
        lines = state[1:].reshape(-1, self.number + 2)
        self.runs = [(int(line[0]), line[1:]) for line in lines]
        return True

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the rows of each bucket."""
        total = np.zeros(self.number, np.int64)
        for _, bounds in self.runs:
            total += np.diff(bounds)
        return total

    def chunks(self, bucket: int) -> Iterator[Words]:
        """Iterate over the rows of a bucket, some at a time."""
        line, waiting, held = self.width * _WORD, [], 0
        for offset, bounds in self.runs:
            start, stop = int(bounds[bucket]), int(bounds[bucket + 1])
            if start == stop:
                continue
            raw = self.file.read(offset + start * line, (stop - start) * line)
            waiting.append(np.frombuffer(raw, np.uint64).reshape(-1, self.width))
            held += stop - start
            if held >= LEAF_ROWS:
                yield np.concatenate(waiting)
                waiting, held = [], 0
        if waiting:
            yield np.concatenate(waiting)


Chunks = Callable[[], Iterator[Words]]
Parts = Callable[[int], Iterator[Chunks]]
Chosen = tuple[Words, npt.NDArray[np.bool_]]
"""Records that stay, and whether each is the first of its person."""


class KeptRows:
    """The records that stay of a table that was cut by person, on disk, in the order of `chosen_rows`. Private."""

    def __init__(self, file: ScratchFile, width: int) -> None:
        self._file, self._width = file, width
        self._blocks: list[tuple[int, int, int]] = []
        self.rows = 0
        self.forget = file.forget

    def add(self, chosen: Chosen) -> None:
        """Write the records of further persons."""
        records, first = chosen
        if len(records):
            self._blocks.append((self._file.append(records), len(records), self._file.append(first)))
            self.rows += len(records)

    def state(self) -> npt.NDArray[np.int64]:
        """Return what `restore` needs, when all records are on the disk."""
        end = self._file.sync()
        return np.array([end, *(number for block in self._blocks for number in block)], np.int64)

    def restore(self, state: npt.NDArray[np.int64]) -> bool:
        """Go on from a state; say whether the file still holds it."""
        if (len(state) - 1) % 3 or not self._file.cut_to(int(state[0])):
            return False
        self._blocks = [(int(a), int(b), int(c)) for a, b, c in state[1:].reshape(-1, 3)]
        self.rows = sum(rows for _, rows, _ in self._blocks)
        return True

    def blocks(self, most: int, skip: int = 0) -> Iterator[tuple[int, int]]:
        """Iterate over places in the file with at most so many rows each, after some rows."""
        for offset, rows, _ in self._blocks:
            begin = min(skip, rows)
            skip -= begin
            for start in range(begin, rows, most):
                yield offset + start * self._width * _WORD, min(most, rows - start)

    def read(self, block: tuple[int, int]) -> Words:
        """Return the records of a place in the file."""
        offset, rows = block
        raw = self._file.read(offset, rows * self._width * _WORD)
        return np.frombuffer(raw, np.uint64).reshape(rows, self._width)

    def whose(self) -> Persons:
        """Return a number for each row that is the same for rows of one person."""
        flags = [np.frombuffer(self._file.read(offset, rows), np.bool_) for _, rows, offset in self._blocks]
        return np.cumsum(np.concatenate([np.zeros(0, bool), *flags]), dtype=np.int64) - 1


@dataclass(frozen=True)
class Resume:
    """What another process needs to go on with cutting a table: a folder of this user alone, and how far it is.

    Attributes
    ----------
    folder
        Where the rows lie meanwhile.
    dealing, choosing
        How far the two steps are.
    name
        The last part of the names of its files.
    """

    folder: Path
    dealing: Checkpoint
    choosing: Checkpoint
    name: str

    @classmethod
    def of(cls, folder: Path, name: str, facts: str) -> Resume:
        """Return the work of a name, on the condition of some facts."""
        return cls(
            folder,
            Checkpoint(folder, f"dealing-{name}", facts),
            Checkpoint(folder, f"choosing-{name}", facts),
            name,
        )


def cut_by_person(
    parts: Parts,
    *,
    width: int,
    rows: int,
    max_rows: int,
    key: bytes,
    threads: int,
    resume: Resume | None = None,
    whole: Callable[[int], None],
) -> KeptRows:
    """Keep at most so many rows of each person, and return their records.

    Parameters
    ----------
    parts
        Returns pieces of the table after some rows, in their order, that can be read at the same time. Each iterates over rows of words: two of the person, then the record.
    width
        Words of a record.
    rows
        How many rows there should be.
    max_rows, key
        As for `chosen_rows`.
    threads
        How many work at a time.
    resume
        Where to keep the work; in files without a name by default, which end with the process.
    whole
        Told how many rows were read, before anything is made of them; it refuses a table that changed.

    Privacy
    -------
    In and out: private. Which rows stay is what `chosen_rows` says about all rows together: persons are never divided between buckets, and a person whose rows are divided keeps the
    smallest of the words that the parts of it kept.
    """
    folder = None if resume is None else resume.folder
    with contextlib.ExitStack() as files:
        file = ScratchFile(folder, None if resume is None else f"kept-{resume.name}")
        failed = files.enter_context(contextlib.ExitStack())
        failed.callback(file.close)
        kept = KeptRows(file, width)
        done, complete, state = (0, False, _NOTHING) if resume is None else resume.choosing.load_all()
        if not len(state) or not kept.restore(state):
            done, complete = 0, False
            kept.restore(np.zeros(1, np.int64))
        if not complete:
            buckets = _dealt(
                parts, width=width, rows=rows, threads=threads, resume=resume, files=files, whole=whole
            )
            _choose(buckets, kept, done, max_rows=max_rows, key=key, threads=threads, resume=resume)
        failed.pop_all()
    return kept


def _choose(
    buckets: _Buckets,
    kept: KeptRows,
    done: int,
    *,
    max_rows: int,
    key: bytes,
    threads: int,
    resume: Resume | None,
) -> None:
    """Choose among the rows of all buckets after the first ``done``, in their order."""
    sizes = buckets.sizes()

    def leaf(bucket: int) -> list[Chosen]:
        folder = None if resume is None else resume.folder
        return list(_cut(partial(buckets.chunks, bucket), int(sizes[bucket]), max_rows, key, folder))

    for found in ahead(leaf, iter(range(done, buckets.number)), threads=threads):
        for chosen in found:
            kept.add(chosen)
        done += 1
        if resume is not None and resume.choosing.due():
            resume.choosing.save(done, [kept.state()])
    if resume is not None:
        resume.choosing.save(done, [kept.state()], complete=True)
        buckets.file.forget()
        resume.dealing.remove()


def count_by_rows(
    parts: Parts,
    *,
    rows: int,
    most: int,
    threads: int,
    whole: Callable[[int], None],
) -> npt.NDArray[np.int64]:
    """Return how many persons have one row, two rows, and so on, those with ``most`` or more last; the parts iterate over the two words of each row's person. Private."""
    check_max_rows(most)
    with contextlib.ExitStack() as files:
        buckets = _dealt(parts, width=0, rows=rows, threads=threads, resume=None, files=files, whole=whole)
        total = np.zeros(most + 1, np.int64)

        def leaf(bucket: int) -> npt.NDArray[np.int64]:
            persons, sizes = np.zeros((0, 2), np.uint64), np.zeros(0, np.int64)
            for chunk in buckets.chunks(bucket):
                persons, sizes = number_of_equals(
                    np.concatenate([persons, chunk]), np.concatenate([sizes, np.ones(len(chunk), np.int64)])
                )
            return np.bincount(np.minimum(sizes, most), minlength=most + 1)

        for found in ahead(leaf, iter(range(buckets.number)), threads=threads):
            total += found
    return total[1:]


def _dealt(
    parts: Parts,
    *,
    width: int,
    rows: int,
    threads: int,
    resume: Resume | None,
    files: contextlib.ExitStack,
    whole: Callable[[int], None],
) -> _Buckets:
    """Write the rows of all parts to buckets by the first bits of their persons."""
    bits = min(12, max(1, (rows // LEAF_ROWS).bit_length()))
    scratch = ScratchFile() if resume is None else ScratchFile(resume.folder, f"rows-{resume.name}")
    files.callback(scratch.close)
    scratch.require_room(rows, (2 + width) * _WORD)
    buckets = _Buckets(scratch, 2 + width, 0, 64 - bits, 1 << bits)
    run_rows = max(ROWS_AT_ONCE, SEGMENT_ROWS << bits)

    def deal(shared: Iterable[Chunks]) -> int:
        waiting: list[Words] = []
        held = seen = 0
        for part in shared:
            for lines in part():
                waiting.append(lines)
                held += len(lines)
                if held >= run_rows:
                    together = np.concatenate(waiting)
                    waiting.clear()
                    buckets.add(together, together[:, 0])
                    seen, held = seen + held, 0
        if waiting:
            together = np.concatenate(waiting)
            buckets.add(together, together[:, 0])
        return seen + held

    seen, complete, state = (0, False, _NOTHING) if resume is None else resume.dealing.load_all()
    if not len(state) or not buckets.restore(state):
        seen, complete = 0, False
        buckets.restore(np.zeros(1, np.int64))
    pieces = iter(()) if complete else parts(seen)
    while not complete:
        some = Until(pieces, None if resume is None else resume.dealing.due)
        seen += sum(in_threads(deal, some, threads=threads))
        complete = some.ended
        if complete:
            whole(seen)
        if resume is not None:
            resume.dealing.save(seen, [buckets.state()], complete=complete)
    return buckets


def _cut(chunks: Chunks, rows: int, max_rows: int, key: bytes, folder: Path | None) -> Iterator[Chosen]:
    """Choose among the rows of some persons, in the order of the persons."""
    if not rows:
        return
    if rows <= LEAF_MOST:
        lines = np.concatenate(list(chunks()))
        yield from _in_cache(lines, max_rows, key)
        return
    low, high = _range(lines[:, 0] for lines in chunks())
    if low == high:
        yield _cut_one(chunks, rows, max_rows, key, folder)
        return
    with contextlib.closing(ScratchFile(folder)) as scratch:
        finer = _spread(scratch, chunks, low, high, lambda lines: lines[:, 0])
        for bucket, size in enumerate(finer.sizes().tolist()):
            yield from _cut(partial(finer.chunks, bucket), size, max_rows, key, folder)


def _in_cache(lines: Words, max_rows: int, key: bytes) -> Iterator[Chosen]:
    """Choose among rows in memory, part by part."""
    from understudy._compile import of_one_type
    from understudy.data.counting.person_kernels import grouped

    low, high = int(lines[:, 0].min()), int(lines[:, 0].max())
    shift = max(0, (high - low).bit_length() - max(0, (len(lines) // ROWS_AT_ONCE).bit_length()))
    number = ((high - low) >> shift) + 1
    if number > 1 and shift < 64:
        by = np.ascontiguousarray(lines[:, 0])
        lines, bounds = grouped(of_one_type(lines), of_one_type(by), np.uint64(low), np.uint64(shift), number)
    else:
        bounds = np.array([0, len(lines)])
    for start, stop in pairwise(bounds):
        if start < stop:
            here = lines[start:stop]
            records = np.ascontiguousarray(here[:, 2:])
            places, first, _ = chosen_rows(np.ascontiguousarray(here[:, :2]), records, max_rows, key)
            yield records[places], first


def _spread(
    scratch: ScratchFile, chunks: Chunks, low: int, high: int, by: Callable[[Words], Words]
) -> _Buckets:
    """Deal rows out again, evenly over the range of what they are dealt out by."""
    shift = max(0, (high - low).bit_length() - _FANOUT.bit_length() + 1)
    number = ((high - low) >> shift) + 1
    finer: _Buckets | None = None
    for lines in chunks():
        if finer is None:
            finer = _Buckets(scratch, lines.shape[1], low, shift, number)
        finer.add(lines, np.ascontiguousarray(by(lines)))
    assert finer is not None
    return finer


def _range(values: Iterable[Words]) -> tuple[int, int]:
    low, high = 2**64 - 1, 0
    for some in values:
        low, high = min(low, int(some.min())), max(high, int(some.max()))
    return low, high


def _cut_one(chunks: Chunks, rows: int, max_rows: int, key: bytes, folder: Path | None) -> Chosen:
    """Choose among the rows of one person that do not fit into memory together (of two persons, where half their hashes are equal)."""
    best = _smallest(chunks, rows, max_rows, key, folder)
    h1, _, records = best
    return records, np.concatenate([np.ones(min(1, len(h1)), bool), h1[1:] != h1[:-1]])


Best = tuple[Words, Words, Words]
"""Of rows: the second word of the person, the word of the row, the record."""


def _smallest(chunks: Chunks, rows: int, max_rows: int, key: bytes, folder: Path | None) -> Best:
    """Return the rows that stay of one person, dealt out by the words that their records have as the first of their kind: equal records stay together."""
    if rows <= LEAF_MOST:
        lines = np.concatenate(list(chunks()))
        records = np.ascontiguousarray(lines[:, 2:])
        places, _, words = chosen_rows(np.ascontiguousarray(lines[:, :2]), records, max_rows, key)
        return lines[places, 1], words[places], records[places]
    low, high = _range(first_words(lines[:, :2], lines[:, 2:], key) for lines in chunks())
    if low == high:
        return _equal_rows(chunks, rows, max_rows, key)
    best: Best | None = None
    with contextlib.closing(ScratchFile(folder)) as scratch:
        finer = _spread(
            scratch, chunks, low, high, lambda lines: first_words(lines[:, :2], lines[:, 2:], key)
        )
        for bucket, size in enumerate(finer.sizes().tolist()):
            if size:
                found = _smallest(partial(finer.chunks, bucket), size, max_rows, key, folder)
                best = found if best is None else _better([best, found], max_rows)
    assert best is not None
    return best


def _equal_rows(chunks: Chunks, rows: int, max_rows: int, key: bytes) -> Best:
    """Return what stays of rows that are all equal: which of the numbers 0, 1, ... have the smallest words."""
    lines = next(chunks())[:1]
    if any((some != lines).any() for some in chunks()):  # two records with one word: one chance in 2**64
        every = np.concatenate(list(chunks()))
        records = np.ascontiguousarray(every[:, 2:])
        places, _, words = chosen_rows(np.ascontiguousarray(every[:, :2]), records, max_rows, key)
        return every[places, 1], words[places], records[places]
    best: Best | None = None
    for start in range(0, rows, LEAF_MOST):
        copies = np.arange(start, min(rows, start + LEAF_MOST))
        many = np.repeat(lines, len(copies), axis=0)
        words = first_words(many[:, :2], many[:, 2:], key, copies)
        found = many[:, 1], words, many[:, 2:]
        best = _better([found] if best is None else [best, found], max_rows)
    assert best is not None
    return best


def _better(parts: Sequence[Best], max_rows: int) -> Best:
    """Return the rows with the smallest words of each person, in order."""
    h1, words, records = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    order = np.lexsort((*records.T[::-1], words, h1))
    who = h1[order]
    starts = np.flatnonzero(np.concatenate((np.ones(min(1, len(who)), bool), who[1:] != who[:-1])))
    rank = np.arange(len(who)) - np.repeat(starts, np.diff(starts, append=len(who)))
    order = order[rank < max_rows]
    return h1[order], words[order], records[order]
