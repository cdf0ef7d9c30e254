"""A table that stays on disk and is counted batch by batch."""

from __future__ import annotations

import hashlib
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from understudy.data.counting.counting import Counts, MarginalCounter, distinct_records, merge_distinct
from understudy.data.counting.encode import encode_batch, encoded_batches, in_threads, threads
from understudy.data.files.checkpoint import Checkpoint, Until, key_of, own_folder
from understudy.data.files.dataset import DatasetStream
from understudy.data.files.spool import KeptRows, Resume, count_by_rows, cut_by_person
from understudy.data.files.stream import BATCH_ROWS, Pace, Piece, Stream, Watch, nobody, pieces_from
from understudy.data.persons import (
    KEY_BYTES,
    Persons,
    RecordWords,
    check_key,
    check_max_rows,
    person_keys,
    require_ids,
)
from understudy.data.table import DEFAULT_CHUNK_ROWS, Encoded, read_without
from understudy.errors import DataError

if TYPE_CHECKING:
    import pyarrow.dataset as pads

    from understudy.schema import Codes, Schema

Path_ = str | PathLike[str]

Coded = Callable[[], Iterator[tuple[int, "dict[str, Codes]"]]]
"""What encodes some of the rows."""

_OF_PERSONS = ("persons", "rows", "kept", "dealing", "choosing")

BATCHES_BYTES = 1 << 31
"""What the batches of all threads may take together, about; at least one thread works."""

COUNTERS_BYTES = 1 << 30
"""What the counters of all threads may take together; at least one counts."""


class ArrowTable(Encoded):
    """Parquet files (or any Arrow dataset) larger than memory, read in batches for every question.

    Only the columns a question needs are read, and one batch for each thread is in memory. Questions are
    best asked together: ``count_many`` reads the files once. `read_table` chooses this class when the
    encoded table would not fit its memory limit.

    Parameters
    ----------
    source
        A Parquet file, several of them, a folder (Hive-style partitions such as ``year=2024/`` become
        columns of text), or a ``pyarrow.dataset.Dataset``.
    schema
        The public schema. Every record is checked against it here, before any budget can be spent.
    id_column
        The column that says who a row is about, for person-level units.
    filtered
        Whether the source leaves records out by their values.
    watch
        Told how a pass goes: words with a rate of rows per second, and a fraction. For a terminal of the custodian.
    checkpoint
        A folder of this user alone, where counts so far are kept once a minute. When the same table is counted
        again after its process ended, the count goes on from there. The files hold **exact counts**: they are
        as private as the table, and are removed when a count is complete. Without it, a count goes on after
        errors of a disk that pass, but not after the end of its process. Parquet files only.

        Of a table that is cut by person the folder also holds the key that decided which rows stay, and the encoded rows that are being sorted. A second run goes on with that key
        and not with one of its own: counts of one key are never added to counts of another, so what comes out is what one run with the first key would have given, at
        most ``max_rows`` rows of each person. The key is drawn before a record is read and says nothing about the table by itself; it is written over and removed with the counts.

    Raises
    ------
    DataError
        If the files cannot be read or do not fit the schema. Later, if a file is added, replaced or changed
        while the table is in use; what was counted from it is thrown away before any noise is drawn.

    Privacy
    -------
    The table is private. Its repr shows neither values nor the number of rows. Counts leave a pass only when
    it has seen every row and the files are as they were at the start.

    Examples
    --------
    >>> import pandas as pd, tempfile
    >>> from understudy.schema import Boolean, Schema
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pd.DataFrame({"smokes": [True, False, True]}).to_parquet(f"{folder}/t.parquet")
    ...     table = ArrowTable(f"{folder}/t.parquet", Schema(columns=(Boolean(name="smokes"),)))
    ...     table.count(("smokes",)).tolist()
    [1, 2]
    """

    def __init__(
        self,
        source: Path_ | Sequence[Path_] | pads.Dataset | Stream,
        schema: Schema,
        *,
        id_column: str | None = None,
        filtered: bool = False,
        watch: Watch | None = None,
        checkpoint: Path_ | None = None,
    ) -> None:
        self._schema = schema
        self._filtered = filtered
        self._id_column = id_column
        self._watch = watch or nobody
        self._folder = None if checkpoint is None else Path(checkpoint)
        self._stream = as_stream(source, wanted_columns(schema, id_column))
        self._kept: KeptRows | None = None
        self._cuts: weakref.WeakSet[KeptRows] = weakref.WeakSet()
        self._stamp = self._stream.stamp()
        if self._folder is not None and not (isinstance(self._stream, DatasetStream) and self._stamp):
            raise DataError(
                "checkpoint= needs Parquet files as they are: no CSV, and no preparation while reading."
            )
        self._stored_rows = self._check_records()
        self._rows = self._stored_rows

    def count_many(self, cliques: Iterable[Sequence[str]]) -> list[Counts]:
        """Return the exact marginals of several cliques. Private. Reads the files once, on all cores."""
        asked = [tuple(clique) for clique in cliques]
        counter = MarginalCounter(self._schema.domain, asked)
        if not counter.columns:
            counter.add({}, rows=self._rows)
            return counter.counts()
        saved = self._saved("counting", [sorted(counter.columns), counter.layout, self._cut_facts])
        if saved is not None and self._cut_key is not None:
            self._key_file(*self._cut_key)  # other counts of this table may have ended and removed it
        done = 0
        if saved is not None:
            done, _, state = saved.load([totals.size for totals in counter.state])
            counter.restore(done, state)
        self._count(counter, asked, done, saved)
        if self._folder is not None:
            self._forget(self._folder)
        return counter.counts()

    def _count(
        self, counter: MarginalCounter, asked: list[tuple[str, ...]], done: int, saved: Checkpoint | None
    ) -> None:
        """Add all rows after the first ``done`` to a counter.

        Threads take pieces of the table, each with a counter of its own; counts are whole numbers, so that the sum of all counters is the same whichever thread
        counted which piece. Counters that are large are fewer. When it is time to save, no further pieces are handed out; those that were are then the first of the table, and all
        of them are counted.
        """
        self.require_unchanged()
        size = 8 * sum(totals.size for totals in counter.state)
        number = min(_workers(len(counter.columns)), max(1, COUNTERS_BYTES // max(1, size)))
        pace = Pace("counting", self._rows, self._watch, done)
        lock = threading.Lock()

        def count(pieces: Iterator[Coded]) -> MarginalCounter:
            with lock:
                mine = free.pop()
            for piece in pieces:
                for rows, codes in piece():
                    mine.add(codes, rows=rows)
                    with lock:
                        pace.add(rows)
            return mine

        if number == 1:  # one counter; batches are encoded ahead of it
            for rows, codes in self._batches(counter.columns, done, task="counting"):
                counter.add(codes, rows=rows)
                if saved is not None and saved.due():
                    saved.save(counter.rows, counter.state)
            return
        pieces = self._pieces(counter.columns, done)
        more = True
        while more:
            free = [counter, *(MarginalCounter(self._schema.domain, asked) for _ in range(number - 1))]
            some = Until(pieces, None if saved is None else saved.due)
            for other in in_threads(count, some, threads=number):
                if other is not counter:
                    counter.merge(other.rows, other.state)
            more = not some.ended
            if saved is not None and more:
                saved.save(counter.rows, counter.state)
        if counter.rows != self._rows:
            raise self._changed()
        self.require_unchanged()

    def distinct(self, columns: Sequence[str]) -> tuple[Codes, Counts]:
        """Return the distinct records of some columns, sorted, and how often each occurs. Private.

        Memory grows with the number of distinct records, not with the number of rows.
        """
        names = self._names(columns)
        sizes = self._schema.domain.shape(names)
        parts = (
            distinct_records([codes[name] for name in names], sizes, rows=rows)
            for rows, codes in self._batches(names)
        )
        return merge_distinct(parts, sizes)

    def chunks(
        self, columns: Sequence[str] | None = None, *, rows: int = DEFAULT_CHUNK_ROWS
    ) -> Iterator[dict[str, Codes]]:
        """Iterate over the records in the order they are stored, at most ``rows`` at a time. Private."""
        names = self._names(columns)
        rows = self._chunk_rows(rows)
        for length, codes in self._batches(names):
            for start in range(0, length, rows):
                yield {name: codes[name][start : start + rows] for name in names}

    def people_by_rows(self, id_column: str, most: int) -> Counts:
        """Return how many people have one row, two rows, and so on; those with ``most`` rows or more come last. Private."""
        if id_column != self._id_column or self._kept is not None:
            raise read_without(id_column)
        key = secrets.token_bytes(KEY_BYTES)  # decides nothing but where rows are kept meanwhile
        return count_by_rows(
            lambda skip: (
                partial(self._persons_of, piece, key)
                for piece in pieces_from(self._stream, [id_column], skip)
            ),
            rows=self._stored_rows,
            most=int(most),
            threads=threads(),
            whole=self._check_unchanged,
        )

    def _persons_of(self, piece: Piece, key: bytes) -> Iterator[npt.NDArray[np.uint64]]:
        for batch in piece():
            yield person_keys(batch.column(str(self._id_column)), key, str(self._id_column))

    def truncated(self, id_column: str, max_rows: int, key: bytes) -> ArrowTable:
        """Return the table with at most ``max_rows`` rows per person, chosen by a key.

        See `Table.truncated` for the argument. Every record is read once more and sorted on disk by its person (:mod:`understudy.data.files.spool`); the result answers from what is
        written there and does not read the files again.
        """
        check_max_rows(max_rows)
        check_key(key)
        if id_column != self._id_column or self._kept is not None:
            raise read_without(id_column)
        layout = RecordWords.of(self._schema.domain)
        self.require_unchanged()
        wanted = wanted_columns(self._schema, id_column)
        pace, lock = Pace("cutting", self._stored_rows, self._watch), threading.Lock()

        def lines(piece: Piece) -> Iterator[npt.NDArray[np.uint64]]:
            for batch in piece():
                codes = encode_batch(batch, self._schema, self._schema.domain.names)
                persons = person_keys(batch.column(id_column), key, id_column)
                yield np.concatenate([persons, layout.pack(codes, batch.num_rows)], axis=1)
                with lock:
                    pace.add(batch.num_rows)

        resume, name = None, f"{id_column}: {int(max_rows)}"
        if self._folder is not None:
            key = self._key_file(name, key)
            facts = self._saved("", [name, hashlib.sha256(key).hexdigest()])
            assert facts is not None
            resume = Resume.of(self._folder, str(int(max_rows)), facts.key)
            for earlier in self._cuts:  # a table that this process has cut already goes on without names
                earlier.forget()
        kept = cut_by_person(
            lambda skip: (partial(lines, piece) for piece in pieces_from(self._stream, wanted, skip)),
            width=layout.width,
            rows=self._stored_rows,
            max_rows=int(max_rows),
            key=key,
            threads=_workers(len(wanted)),
            resume=resume,
            whole=self._check_unchanged,
        )
        table = object.__new__(ArrowTable)
        table._schema, table._id_column, table._stream = self._schema, None, self._stream
        table._filtered, table._watch, table._folder = self._filtered, self._watch, self._folder
        table._stamp, table._stored_rows = self._stamp, self._stored_rows
        table._kept, table._rows = kept, kept.rows
        if resume is not None:
            table._cut_key, table._cut_facts = (name, key), resume.dealing.key
            self._cuts.add(kept)
        return table

    _cut_key: tuple[str, bytes] | None = None
    _cut_facts: str = ""

    def _key_file(self, name: str, key: bytes) -> bytes:
        """Return the key that earlier work began with, or keep this one for later work."""
        saved = self._saved(f"persons-{name.rpartition(' ')[2]}", [name])
        assert saved is not None
        found = saved.load_all()[2]
        if len(found) * 8 == KEY_BYTES:
            return found.astype("<i8").tobytes()
        saved.save(0, [np.frombuffer(key, "<i8").astype(np.int64)])
        return key

    def _forget(self, folder: Path) -> None:
        """Remove all that was kept of this table: counts, rows, and the key."""
        own_folder(folder)
        for path in folder.iterdir():
            kind, _, rest = path.name.partition("-")
            if path.name in ("checking", "counting") or (kind in _OF_PERSONS and rest.isdecimal()):
                Checkpoint(folder, path.name, "").remove(write_over=kind == "persons")

    @property
    def whose(self) -> Persons | None:
        """Of a table that was cut by person: a number per row that is the same for rows of one person, as of one in memory. Private.

        Whether a table is in memory depends on how large it is, which is private: what is done with its rows must not.
        """
        return None if self._kept is None else self._kept.whose()

    def require_unchanged(self) -> None:
        """Refuse to go on if a file was added, removed, replaced or written to."""
        self._check_unchanged(self._stored_rows)

    def _check_records(self) -> int:
        """Encode every record once; return how many there are."""
        saved = self._saved("checking", [self._id_column])
        seen, complete, _ = (0, False, []) if saved is None else saved.load([])
        if complete:
            return seen
        total = getattr(self._stream, "count_rows", lambda: None)()
        pace, lock = Pace("checking", total, self._watch, seen), threading.Lock()
        names, by = self._schema.domain.names, self._id_column

        def check(pieces: Iterator[Piece]) -> int:
            found = 0
            for piece in pieces:
                for batch in piece():
                    encode_batch(batch, self._schema, names)
                    if by is not None:
                        require_ids(batch.column(by), by)
                    found += batch.num_rows
                    with lock:
                        pace.add(batch.num_rows)
            return found

        pieces, more = pieces_from(self._stream, wanted_columns(self._schema, by), seen), True
        while more:
            some = Until(pieces, None if saved is None else saved.due)
            seen += sum(in_threads(check, some, threads=_workers(len(names))))
            more = not some.ended
            if saved is not None and more:
                saved.save(seen, [])
        if self._stream.stamp() != self._stamp:
            raise self._changed()
        if saved is not None:
            saved.save(seen, [], complete=True)
        return seen

    def _saved(self, name: str, facts: list[object]) -> Checkpoint | None:
        if self._folder is None:
            return None
        return Checkpoint(self._folder, name, key_of(self._schema.fingerprint(), self._stamp, facts))

    def _pieces(self, columns: Sequence[str], skip: int) -> Iterator[Coded]:
        """Iterate over pieces of the table that can be encoded at the same time, after its first rows."""
        kept = self._kept
        if kept is not None:
            layout = RecordWords.of(self._schema.domain)

            def read(block: tuple[int, int]) -> Iterator[tuple[int, dict[str, Codes]]]:
                yield block[1], layout.unpack(kept.read(block), columns)

            yield from (partial(read, block) for block in kept.blocks(BATCH_ROWS, skip))
            return

        def encode(piece: Piece) -> Iterator[tuple[int, dict[str, Codes]]]:
            for batch in piece():
                yield batch.num_rows, encode_batch(batch, self._schema, columns)

        yield from (partial(encode, piece) for piece in pieces_from(self._stream, columns, skip))

    def _batches(
        self, columns: Sequence[str], skip: int = 0, *, task: str = "reading"
    ) -> Iterator[tuple[int, dict[str, Codes]]]:
        """Iterate over the rows in their order, after the first ones."""
        self.require_unchanged()
        pace = Pace(task, self._rows, self._watch, skip)
        if self._kept is None:
            batches = encoded_batches(
                self._stream, self._schema, columns, skip=skip, threads=_workers(len(columns))
            )
        else:
            batches = (item for piece in self._pieces(columns, skip) for item in piece())
        for rows, codes in batches:
            yield rows, codes
            pace.add(rows)
        if pace.done != self._rows:
            raise self._changed()
        self.require_unchanged()

    def _check_unchanged(self, rows: int) -> None:
        if rows != self._stored_rows or self._stream.stamp() != self._stamp:
            raise self._changed()

    def _changed(self) -> DataError:
        return DataError(
            f"{self._stream.label!r} changed while it was in use: a file was added, removed, replaced or written to. "
            "Counts from it were thrown away and no noise was drawn from them. Work on a copy that nobody changes, "
            "and read the table again."
        )


def _workers(columns: int) -> int:
    """Return how many threads work on batches with so many columns: fewer where the batches are large."""
    return max(1, min(threads(), BATCHES_BYTES // (8 * BATCH_ROWS * max(1, columns))))


def wanted_columns(schema: Schema, id_column: str | None) -> list[str]:
    """Return the columns to look for in a source, refusing an id column that is also data."""
    if id_column is not None and id_column in schema.domain:
        raise DataError(
            f"The id column {id_column!r} must not be a column of the schema: it says whose a row is, and "
            "never appears in a synthetic table."
        )
    return [*schema.domain.names, *([] if id_column is None else [id_column])]


def as_stream(source: Path_ | Sequence[Path_] | pads.Dataset | Stream, wanted: Sequence[str]) -> Stream:
    """Turn what a user passes into a stream of batches."""
    import pyarrow.dataset as pads

    if isinstance(source, pads.Dataset):
        return DatasetStream(source, wanted, label="dataset")
    if isinstance(source, str | PathLike):
        return DatasetStream.from_paths([Path(source)], wanted)
    if isinstance(source, Sequence):
        if not source:
            raise DataError("No files were given.")
        return DatasetStream.from_paths([Path(path) for path in source], wanted)
    return source
