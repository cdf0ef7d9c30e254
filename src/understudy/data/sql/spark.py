"""Tables of Spark: executors encode and count their partitions with the code of files, and the cluster adds up what they counted.

A count is one job of two stages. Each task of the first stage encodes the records of one partition and counts them in a `MarginalCounter`;
its counts leave it in pieces of ``PIECE_CELLS`` cells. A task of the second stage receives the pieces of some numbers from all partitions
and adds up those of the same number. The driver receives every piece once: as many bytes as the marginals have cells, however many
records and partitions there are. No record leaves the cluster unless a method asks for records (`distinct`, `chunks`).

A person-level unit takes one shuffle: executors send every record as words, with the hash of its person under the key of the truncation,
to the executor that gets all rows of that person, and that one chooses among them by the rule of :mod:`understudy.data.persons`, which is that of files.

Spark repeats tasks that fail. What a task of the first stage sends depends on the records of its partition alone, and Spark passes on what
one run of it sent, so a repeated task counts once.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
import re
import secrets
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data.counting.counting import (
    Counts,
    MarginalCounter,
    code_dtype,
    distinct_records,
)
from understudy.data.counting.encode import encode_batch
from understudy.data.persons import (
    RecordWords,
    check_key,
    check_max_rows,
    chosen_rows,
    id_texts,
    person_keys,
)
from understudy.data.prepare import Preparation
from understudy.data.sql.engines import SparkSession_
from understudy.data.sql.saved import SavedWork
from understudy.data.sql.session import changed
from understudy.data.sql.table import DatabaseTable
from understudy.data.table import DEFAULT_CHUNK_ROWS, read_without
from understudy.errors import DataError, Problems
from understudy.schema import Domain
from understudy.schema.coding.cells import MISSING, OUTSIDE, UNREADABLE
from understudy.schema.columns.column import settle

if TYPE_CHECKING:
    import pyarrow as pa

    from understudy.data.sql.session import Session
    from understudy.data.sql.source import Database
    from understudy.schema import Clique, Codes, Schema

PIECE_CELLS = 1 << 16
"""Cells of counts that are sent together (512 KB)."""

JOB_CELLS = 1 << 25
"""Most cells that one job counts (256 MB in each task), unless a single marginal has more."""

ADDED_BYTES = 1 << 26
"""Bytes of counts that one task of the second stage holds, on average."""

ENCODE_ROWS = 1 << 17
"""Rows that are encoded together. Spark sends smaller batches, which cost more each."""

_ROWS, _PROBLEM = -1, -2  # numbers of pieces that hold no counts
_PIECES = "piece int, rows long, counts binary, told string"


# ----------------------------------------------------------------------------------------
# What runs on executors: functions of the batches of one partition. Nothing of an error but its type leaves them, because Spark writes
# errors of Python, with what they quote, into its logs.


@dataclass(frozen=True)
class Work:
    """What executors have to know to encode records of a table. Public."""

    schema: Schema
    prepare: Preparation
    columns: tuple[str, ...]
    version: str
    id_column: str | None = None

    def prepared(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch | pa.Table]:
        """Iterate over the prepared records of a partition. Private."""
        try:
            here = version("understudy")
        except PackageNotFoundError:
            here = "of an unknown version"
        if self.version != here:
            raise DataError(
                f"The executors of Spark have understudy {here}, and this is {self.version}. Install the same version on all of them."
            )
        wanted = [*self.columns, *([] if self.id_column is None else [self.id_column])]
        for batch in _larger(batches):
            yield self.prepare.batch(batch, wanted) if self.prepare else batch

    def codes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, dict[str, Codes]]]:
        """Iterate over a partition as ``(rows, codes)``. Private."""
        for batch in self.prepared(batches):
            if self.id_column is not None:
                id_texts(_whole(batch.column(self.id_column)), self.id_column)  # refuses ids that are missing
            yield batch.num_rows, encode_batch(batch, self.schema, self.columns)


@dataclass(frozen=True)
class Kept:
    """The same for records that were chosen by person and are words already. Public."""

    domain: Domain
    columns: tuple[str, ...]

    def codes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, dict[str, Codes]]]:
        """Iterate over a partition as ``(rows, codes)``. Private."""
        layout = RecordWords.of(self.domain)
        for batch in batches:
            _require_none_told(batch)
            yield batch.num_rows, layout.unpack(_words(batch, "r", layout.width), self.columns)


def _require_none_told(batch: pa.RecordBatch) -> None:
    told = batch.column("told")
    if told.null_count < len(told):
        raise DataError(told.drop_null()[0].as_py())


def _words(batch: pa.RecordBatch | pa.Table, letter: str, width: int) -> npt.NDArray[np.uint64]:
    """Return columns of 64 bits as an array with one row for each record."""
    found = np.empty((batch.num_rows, width), np.int64)
    for place in range(width):
        found[:, place] = batch.column(f"{letter}{place}").to_numpy()
    return found.view(np.uint64)


def _as_columns(words: npt.NDArray[np.uint64], letter: str) -> dict[str, npt.NDArray[np.int64]]:
    return {
        f"{letter}{place}": np.ascontiguousarray(words[:, place]).view(np.int64)
        for place in range(words.shape[1])
    }


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if hasattr(values, "chunks") else values


def _larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join consecutive batches until they have enough rows."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ENCODE_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _told(error: Exception) -> str:
    """Return what may be said of an error: the words of our own, the type of others."""
    return str(error) if isinstance(error, DataError) else f"\n{type(error).__name__}"


def count_partition(
    work: Work | Kept, domain: Domain, cliques: Sequence[Clique], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Count the records of one partition; yield the counts in pieces, or the words of what was wrong. Private."""
    counter = MarginalCounter(domain, cliques)
    try:
        for rows, codes in work.codes(batches):
            counter.add(codes, rows=rows)
    except Exception as error:
        yield _pieces([_PROBLEM], [0], [None], [_told(error)])
        return
    yield _pieces([_ROWS], [counter.rows], [None], [None])
    if not counter.rows:
        return
    for number, counts in enumerate(_cut(counter.state)):
        yield _pieces([number], [0], [counts.astype("<i8", copy=False).tobytes()], [None])


def add_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up pieces of the same number, from whatever partitions; memory for one of each number. Private."""
    totals: dict[int, npt.NDArray[np.int64]] = {}
    rows = 0
    told: set[str] = set()
    seen = False
    for batch in batches:
        for piece, number, counts, words in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            if piece == _PROBLEM:
                told.add(words)
            elif piece == _ROWS:
                rows, seen = rows + number, True
            elif piece in totals:
                totals[piece] += np.frombuffer(counts, "<i8")
            else:
                totals[piece] = np.frombuffer(counts, "<i8").astype(np.int64)
    for words in sorted(told):
        yield _pieces([_PROBLEM], [0], [None], [words])
    if seen:
        yield _pieces([_ROWS], [rows], [None], [None])
    for piece in sorted(totals):
        yield _pieces([piece], [0], [totals[piece].astype("<i8", copy=False).tobytes()], [None])


def _pieces(*columns: Sequence[Any]) -> pa.RecordBatch:
    import pyarrow as pa

    kinds = (pa.int32(), pa.int64(), pa.binary(), pa.string())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.record_batch(arrays, names=["piece", "rows", "counts", "told"])


def _cut(state: Sequence[Counts]) -> Iterator[Counts]:
    for totals in state:
        for start in range(0, len(totals), PIECE_CELLS):
            yield totals[start : start + PIECE_CELLS]


def distinct_of_partition(
    work: Work | Kept, domain: Domain, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the distinct records of each batch of a partition as words, with their counts. Private.

    ``domain`` has the columns in question alone.
    """
    layout = RecordWords.of(domain)
    try:
        for rows, codes in work.codes(batches):
            found, counts = distinct_records([codes[name] for name in domain.names], domain.sizes, rows=rows)
            words = layout.pack(dict(zip(domain.names, found.T, strict=True)), len(counts))
            yield _records({**_as_columns(words, "r"), "n": counts})
    except Exception as error:
        yield _problem([*(f"r{place}" for place in range(layout.width)), "n"], error)


def records_of_persons(
    work: Work, key: bytes, with_records: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the hash of each row's person and, if asked, the record as words. Private."""
    assert work.id_column is not None
    layout = RecordWords.of(work.schema.domain)
    width = layout.width if with_records else 0
    try:
        for batch in work.prepared(batches):
            columns = _as_columns(person_keys(_whole(batch.column(work.id_column)), key, work.id_column), "p")
            if with_records:
                codes = encode_batch(batch, work.schema, layout.names)
                columns |= _as_columns(layout.pack(codes, batch.num_rows), "r")
            yield _records(columns)
    except Exception as error:
        yield _problem(["p0", "p1", *(f"r{place}" for place in range(width))], error)


def choose_in_partition(
    domain: Domain, max_rows: int, key: bytes, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Choose rows of persons who lie in one partition with all their rows, these one after another. Private."""
    layout = RecordWords.of(domain)
    waiting = (np.zeros((0, 2), np.uint64), np.zeros((0, layout.width), np.uint64))

    def chosen(persons: npt.NDArray[np.uint64], records: npt.NDArray[np.uint64]) -> pa.RecordBatch:
        rows, _, _ = chosen_rows(persons, records, max_rows, key)
        return _records(_as_columns(records[rows], "r"), rows=len(rows))

    try:
        for batch in _larger(batches):
            _require_none_told(batch)
            persons = np.concatenate([waiting[0], _words(batch, "p", 2)])
            records = np.concatenate([waiting[1], _words(batch, "r", layout.width)])
            last = (persons == persons[-1]).all(axis=1) if len(persons) else np.zeros(0, bool)
            waiting = persons[last], records[last]  # the last person may have more rows
            yield chosen(persons[~last], records[~last])
        yield chosen(*waiting)
    except Exception as error:
        yield _problem([f"r{place}" for place in range(layout.width)], error)


def _records(columns: dict[str, npt.NDArray[np.int64]], *, rows: int | None = None) -> pa.RecordBatch:
    import pyarrow as pa

    rows = len(next(iter(columns.values()))) if rows is None else rows
    arrays = [*map(pa.array, columns.values()), pa.nulls(rows, pa.string())]
    return pa.record_batch(arrays, names=[*columns, "told"])


def _problem(names: Sequence[str], error: Exception) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = [*(pa.array([0], pa.int64()) for _ in names), pa.array([_told(error)])]
    return pa.record_batch(arrays, names=[*names, "told"])


def _kinds(letter: str, width: int, *others: str) -> str:
    return ", ".join([*(f"{letter}{place} long" for place in range(width)), *others, "told string"])


# ----------------------------------------------------------------------------------------
# What runs on the driver.


class SparkTable(DatabaseTable):
    """A table of a Spark cluster, encoded and counted by its executors.

    Opening it encodes every record once, on the executors, and checks it. Every round of questions is a job; nothing is held here.

    Parameters
    ----------
    source
        The `Database`, or a session of Spark that is open already.
    schema
        The public schema.
    id_column
        The column that says who a row is about, for person-level units.
    prepare
        Derived columns and cleaning rules.
    max_memory_mb
        Megabytes of distinct records that are brought here at a time, where a method asks for records.
    checkpoint
        A folder of this user alone, on the disk of the driver, where counts so far are kept, so that counting goes on after the end of the driver; for Parquet files that the
        driver sees. Of a table that is cut by person it holds the key and the rows that stay as well, which executors write there: then it lies on a disk that they share.
        The files are as private as the table, and removed when a count is complete (:mod:`understudy.data.sql.saved`).

    Raises
    ------
    DataError
        If Spark fails, or the table does not fit the schema. Later, if it changed in between. Messages hold no value of the table and nothing
        that Spark said.

    Privacy
    -------
    The table is private. Counts come from jobs that ended and saw as many rows as when the table was opened.
    """

    _session: SparkSession_
    _saved: SavedWork | None = None

    def __init__(
        self,
        source: Database | Session,
        schema: Schema,
        *,
        id_column: str | None = None,
        prepare: Preparation | None = None,
        max_memory_mb: int = 1024,
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        self._folder = None if checkpoint is None else Path(checkpoint)
        super().__init__(source, schema, id_column=id_column, prepare=prepare, max_memory_mb=max_memory_mb)

    def _begin(self, needed: Sequence[str]) -> None:
        assert isinstance(self._session, SparkSession_)
        self._limit = max(self._limit, 1 << 24)
        self._kept: Any = None
        if self._folder is not None:
            stamp = self._session.require_own_files()
            facts = (self._schema.fingerprint(), stamp, repr(self._prepare), version("understudy"))
            self._saved = SavedWork(self._folder, facts)
            self._saved.sweep()
        work = self._work(self._schema.names, self._id_column)
        self._rows = self._counted([()], work, step="checking").rows

    def count_many(self, cliques: Iterable[Sequence[str]]) -> list[Counts]:
        """Return the exact marginals of several cliques; one job for up to ``JOB_CELLS`` cells. Private."""
        asked = [tuple(clique) for clique in cliques]
        domain = self._schema.domain
        MarginalCounter(domain, asked)  # refuses what is too large before anything is asked
        found: list[Counts] = []
        for number, some in enumerate(_jobs(domain, asked)):
            counter = MarginalCounter(domain, some)
            if counter.columns:
                counter = self._counted(some, self._source(counter.columns), step=f"counting-{number}")
                self._require_rows(counter.rows)
            else:
                counter.add({}, rows=self._rows)
            found += counter.counts()
        if self._saved is not None:
            self._saved.forget()
        return found

    def distinct(self, columns: Sequence[str]) -> tuple[Codes, Counts]:
        """Return the distinct records of some columns, sorted, and how often each occurs. Private."""
        names = self._names(columns)
        if not names:
            present = min(1, self._rows)
            return np.zeros((present, 0), np.uint8), np.full(present, self._rows, np.int64)
        sizes = self._schema.domain.shape(names)
        parts = list(self._distinct(names))
        weights = np.concatenate([np.zeros(0, np.int64), *(counts for _, counts in parts)])
        joined = [
            np.concatenate([np.zeros(0, code_dtype(size)), *(codes[name] for codes, _ in parts)])
            for name, size in zip(names, sizes, strict=True)
        ]
        return distinct_records(joined, sizes, rows=len(weights), weights=weights)

    def chunks(
        self, columns: Sequence[str] | None = None, *, rows: int = DEFAULT_CHUNK_ROWS
    ) -> Iterator[dict[str, Codes]]:
        """Iterate over the records, at most ``rows`` at a time, equal ones one after another. Private.

        Records of Spark have no order; here it is the same in every call, whatever the columns.
        """
        names = self._names(columns)
        rows = self._chunk_rows(rows)
        for codes, weights in self._distinct(self._schema.domain.names):
            ends = np.cumsum(weights)
            for start in range(0, int(ends[-1]) if len(ends) else 0, rows):
                place = np.searchsorted(ends, np.arange(start, min(start + rows, int(ends[-1]))), "right")
                yield {name: codes[name][place] for name in names}

    def people_by_rows(self, id_column: str, most: int) -> Counts:
        """Return how many people have one row, two rows, and so on; those with ``most`` rows or more come last. Private."""
        from pyspark.sql import functions

        check_max_rows(most)
        if id_column != self._id_column:
            raise read_without(id_column)
        work = self._work((), id_column)
        hashes = self._encoded(
            work, partial(records_of_persons, work, secrets.token_bytes(32), False), _kinds("p", 2)
        )

        def job() -> Any:
            people = hashes.groupBy("p0", "p1", "told").agg(functions.count("*").alias("rows"))
            size = functions.least("rows", functions.lit(int(most))).alias("size")
            told = functions.max("told").alias("told")
            counted = people.groupBy(size).agg(
                functions.count("*").alias("people"), functions.sum("rows").alias("rows"), told
            )
            return counted

        answer = self._collected(job)
        self._refuse(answer["told"].drop_null().to_pylist())
        self._require_rows(sum(answer["rows"].to_pylist()))
        found = np.zeros(most, np.int64)
        for size, people in zip(answer["size"].to_pylist(), answer["people"].to_pylist(), strict=True):
            found[size - 1] = people
        return found

    def truncated(self, id_column: str, max_rows: int, key: bytes) -> SparkTable:
        """Return the table with at most ``max_rows`` rows per person, by one shuffle; see `Table.truncated`.

        The rows that stay are kept as words on the disks of the executors until the table is forgotten. One that is lost is computed
        again, and is the same, because the key is. With a checkpoint they are also written to its folder, where a later process finds them.
        """
        from pyspark import StorageLevel

        check_max_rows(max_rows)
        check_key(key)
        if id_column != self._id_column:
            raise read_without(id_column)
        if self._saved is not None:
            key = self._saved.key(id_column, int(max_rows), key)
            earlier = self._chosen_before(id_column, int(max_rows), key)
            if earlier is not None:
                return earlier
        domain = self._schema.domain
        width = RecordWords.of(domain).width
        work = self._work(self._schema.names, id_column)
        kinds = ", ".join(["p0 long", "p1 long", _kinds("r", width)])
        sent = self._encoded(work, partial(records_of_persons, work, key, True), kinds)
        partitions = self._session.shuffle_partitions()
        table = copy.copy(self)
        table._id_column = None
        table._kept = self._session.guarded(
            lambda: (
                # a fixed number of partitions: Spark may not divide one of them, and with it a person, while it runs
                sent.repartition(partitions, "p0", "p1")
                .sortWithinPartitions("p0", "p1")
                .mapInArrow(partial(choose_in_partition, domain, int(max_rows), key), _kinds("r", width))
                .persist(StorageLevel.DISK_ONLY)
            )
        )
        weakref.finalize(table, _forget, table._kept)
        table._rows = table._counted([()], table._source(self._schema.names)).rows
        if self._saved is not None:
            self._write(self._saved, table, int(max_rows), id_column, key)
        return table

    def _chosen_before(self, id_column: str, max_rows: int, key: bytes) -> SparkTable | None:
        """Return the table of the rows that an earlier process chose by this key and wrote, if it did."""
        assert self._saved is not None
        found = self._saved.chosen(max_rows, id_column, hashlib.sha256(key).hexdigest())
        if found is None:
            return None
        place, rows = found
        kinds = _kinds("r", RecordWords.of(self._schema.domain).width)
        table = copy.copy(self)
        table._id_column = None
        table._kept = self._session.written(place, kinds)
        table._rows = rows
        table._require_rows(table._counted([()], table._source(self._schema.names)).rows)
        return table

    def _write(self, saved: SavedWork, table: SparkTable, max_rows: int, id_column: str, key: bytes) -> None:
        """Have executors write the rows that stay to the folder of the checkpoint, and see that all of them arrived."""
        import pyarrow.parquet as pq

        place, number = saved.place(max_rows)
        told = ""
        try:
            self._session.guarded(lambda: table._kept.write.parquet(f"file://{os.path.abspath(place)}"))
            arrived = self._session.guarded(
                lambda: sum(pq.read_metadata(file).num_rows for file in place.glob("*.parquet"))
            )
        except DataError as error:
            arrived, told = -1, f" {error}"
        if arrived != table._rows:
            raise DataError(
                f"The rows of persons that stay could not be kept in {str(saved.folder)!r}: with checkpoint=, executors of Spark must see that folder under the same path as "
                f"this process, as the same user, and with room for the codes of each row. Name such a folder, or leave checkpoint= out.{told}"
            )
        saved.keep_chosen(max_rows, table._rows, number, id_column, hashlib.sha256(key).hexdigest())

    def require_unchanged(self) -> None:
        """Refuse to go on if the files behind the table changed or Spark cannot be asked any more."""
        self._session.require_alive()

    # -- pieces

    def _work(self, columns: Sequence[str], id_column: str | None = None) -> Work:
        return Work(self._schema, self._prepare, tuple(columns), version("understudy"), id_column)

    def _source(self, columns: Sequence[str]) -> Work | Kept:
        """Return how executors come to codes: by encoding records, or from those that were chosen by person."""
        return self._work(columns) if self._kept is None else Kept(self._schema.domain, tuple(columns))

    def _encoded(
        self, work: Work | Kept, function: Callable[..., Any], kinds: str, files: Sequence[Path] = ()
    ) -> Any:
        """Return a frame of what a function makes of the partitions of the table, or of some of its files."""
        if isinstance(work, Kept):
            self._session.require_open()
            self._session.require_unchanged()
            return self._session.guarded(lambda: self._kept.mapInArrow(function, kinds))
        wanted = [*work.columns, *([] if work.id_column is None else [work.id_column])]
        needed = self._prepare.wanted(wanted, self._header)
        relation = self._session.of_files(files) if files else self._session.relation
        frame = self._session.frame(relation.select(*needed))
        return self._session.guarded(lambda: frame.mapInArrow(function, kinds))

    def _counted(self, cliques: Sequence[Clique], work: Work | Kept, *, step: str = "") -> MarginalCounter:
        """Count all rows: by one job or, where counts so far are kept, by a job for some files after another."""
        if self._saved is None or not step or isinstance(work, Kept):
            return self._counted_in_one_job(cliques, work)
        counter = MarginalCounter(self._schema.domain, cliques)
        asked = (sorted(counter.columns), work.columns, work.id_column)
        saved, done = self._saved.counts(step, counter, *asked)
        files, slots = self._session.files, self._session.slots()
        while done < len(files):
            some = SavedWork.portion(files[done:], slots)
            part = self._counted_in_one_job(cliques, work, some)
            counter.merge(part.rows, part.state)
            done += len(some)
            self._saved.keep_counts(saved, counter, done)
        return counter

    def _counted_in_one_job(
        self, cliques: Sequence[Clique], work: Work | Kept, files: Sequence[Path] = ()
    ) -> MarginalCounter:
        """Run one job of counting; return a counter with the counts of all rows, or of those of some files."""
        counter = MarginalCounter(self._schema.domain, cliques)
        adders = 1 + sum(totals.nbytes for totals in counter.state) // ADDED_BYTES
        counting = partial(count_partition, work, self._schema.domain, cliques)
        partial_counts = self._encoded(work, counting, _PIECES, files)
        answer = self._collected(
            lambda: partial_counts.repartition(adders, "piece").mapInArrow(add_pieces, _PIECES)
        )
        self._refuse(answer["told"].drop_null().to_pylist())
        pieces = list(_cut(counter.state))
        rows, found = 0, set()
        for piece, number, counts in zip(
            *(answer[name].to_pylist() for name in ("piece", "rows", "counts")), strict=True
        ):
            if piece == _ROWS:
                rows += number
            else:
                pieces[piece] += np.frombuffer(counts, "<i8")
                found.add(piece)
        if rows and len(found) != len(pieces):
            raise changed(self._session.source.label)
        counter.restore(rows, counter.state)
        return counter

    def _collected(self, job: Callable[[], Any]) -> pa.Table:
        """Run a job and bring its result here; nothing else does."""
        found: pa.Table = self._session.guarded(lambda: job().toArrow())
        self._session.require_unchanged()
        return found

    def _refuse(self, told: Sequence[str]) -> None:
        """Raise what executors found wrong, each problem once, in the order of the columns."""
        if not told:
            return
        failed = sorted(words.strip() for words in told if words.startswith("\n"))
        if failed:
            raise DataError(
                f"The table {self._session.source.label!r} could not be read: {failed[0]} on an executor of Spark. What it said is withheld, because it "
                "may quote records. Check the table, its columns and their types. The question was not answered, so nothing was drawn for it."
            )
        heading = "The table does not fit the schema"
        if not all(words.startswith(heading) for words in told):
            raise DataError(sorted(words for words in told if not words.startswith(heading))[0])
        lines = [line.removeprefix("  - ") for words in told for line in words.split("\n")[1:]]
        problems = Problems(heading)
        for column in self._schema.columns:
            start = f"Column {column.name!r} "
            own = {
                sentence
                for line in lines
                if line.startswith(start)
                for sentence in re.split(f" (?={re.escape(start)})", line)
            }
            order = [
                sentence
                for mark in (MISSING, OUTSIDE, UNREADABLE)
                for sentence in settle(column, np.array([mark], np.int32))[1]
            ]
            known = [sentence for sentence in order if sentence in own]
            if own:
                problems.add(" ".join([*known, *sorted(own.difference(known))]))
        problems.raise_if_any(DataError)

    def _distinct(self, names: Sequence[str]) -> Iterator[tuple[dict[str, Codes], Counts]]:
        """Iterate over the distinct records of some columns, in parts that fit the memory limit and in the same order each time."""
        from pyspark.sql import functions

        domain = Domain(tuple(names), self._schema.domain.shape(names))
        layout = RecordWords.of(domain)
        words = [f"r{place}" for place in range(layout.width)]
        work = self._source(names)
        kinds = _kinds("r", layout.width, "n long")
        frame = self._encoded(work, partial(distinct_of_partition, work, domain), kinds)
        grouped = self._session.guarded(
            lambda: frame.groupBy(*words, "told").agg(functions.sum("n").alias("n"))
        )
        parts = 1
        if min(self._rows, domain.cells(names)) * 8 * (len(words) + 2) > self._limit:
            count = self._session.guarded(lambda: int(grouped.count()))
            parts = -(-count * 8 * (len(words) + 2) // self._limit)
        seen = 0
        for part in range(parts):
            chosen = (
                grouped
                if parts == 1
                else grouped.where(functions.expr(f"pmod(hash({', '.join(words)}), {parts}) = {part}"))
            )
            answer = self._collected(lambda chosen=chosen: chosen)  # type: ignore[misc]
            self._refuse(answer["told"].drop_null().to_pylist())
            found = _words(answer, "r", layout.width)
            order = np.lexsort(found.T[::-1]) if layout.width else np.arange(len(found))
            counts = np.asarray(answer["n"], np.int64)[order]
            seen += int(counts.sum())
            yield layout.unpack(found[order]), counts
        self._require_rows(seen)

    def _require_rows(self, rows: int) -> None:
        if rows != self._rows:
            raise changed(self._session.source.label)


def _forget(kept: Any) -> None:
    with contextlib.suppress(Exception):  # Spark may have ended before
        kept.unpersist()


def _jobs(domain: Domain, cliques: Sequence[Clique]) -> Iterator[list[Clique]]:
    """Divide cliques, in their order, so that those of one job have at most ``JOB_CELLS`` cells or are one."""
    some: list[Clique] = []
    cells = 0
    for clique in cliques:
        more = domain.cells(clique)
        if some and cells + more > JOB_CELLS:
            yield some
            some, cells = [], 0
        some.append(clique)
        cells += more
    if some:
        yield some
