"""A table that stays on disk and is counted batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from understudy.data._checkpoint import Checkpoint, key_of
from understudy.data._counting import Counts, MarginalCounter
from understudy.data._dataset import DatasetStream
from understudy.data._encode import encoded_batches
from understudy.data._pace import Pace, Watch, nobody
from understudy.data._persons import check_max_rows, kept_rows_of_stream
from understudy.data._records import distinct_records, merge_distinct
from understudy.data._stream import Stream
from understudy.data.table import DEFAULT_CHUNK_ROWS, Encoded, Words, read_without
from understudy.errors import DataError

if TYPE_CHECKING:
    import pyarrow.dataset as pads

    from understudy.schema import Codes, Schema

Path_ = str | PathLike[str]


class ArrowTable(Encoded):
    """Parquet files (or any Arrow dataset) larger than memory, read in batches for every question.

    Only the columns a question needs are read, and one batch at a time is in memory. Questions are
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
        errors of a disk that pass, but not after the end of its process. Parquet files only, and not for tables
        that are truncated by person: another run draws other rows, and counts of two draws must not be mixed.

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
        self._kept: npt.NDArray[np.bool_] | None = None
        self._stamp = self._stream.stamp()
        if self._folder is not None and not (
            isinstance(self._stream, DatasetStream) and self._stamp and id_column is None
        ):
            raise DataError(
                "checkpoint= needs Parquet files as they are: no CSV, no preparation while reading, and no id column, "
                "because another run would truncate to other rows and counts of two draws must not be mixed."
            )
        self._stored_rows = self._check_records()
        self._rows = self._stored_rows

    def count_many(self, cliques: Iterable[Sequence[str]]) -> list[Counts]:
        """Return the exact marginals of several cliques. Private. Reads the files once."""
        counter = MarginalCounter(self._schema.domain, cliques)
        if not counter.columns:
            counter.add({}, rows=self._rows)
            return counter.counts()
        saved = self._saved("counting", [sorted(counter.columns), counter.layout])
        done = 0
        if saved is not None:
            done, _, state = saved.load([totals.size for totals in counter.state])
            counter.restore(done, state)
        for rows, codes in self._batches(counter.columns, skip=done, task="counting"):
            counter.add(codes, rows=rows)
            done += rows
            if saved is not None and saved.due():
                saved.save(done, counter.state)
        if self._folder is not None:
            for name in ("checking", "counting"):
                Checkpoint(self._folder, name, "").remove()
        return counter.counts()

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

    def truncated(self, id_column: str, max_rows: int, words: Words) -> ArrowTable:
        """Return the table with at most ``max_rows`` rows per person, chosen at random.

        See `Table.truncated` for the argument. One byte per row is kept in memory; the ids are read
        several times, each time comparing only those of one part of the persons.
        """
        check_max_rows(max_rows)
        if id_column != self._id_column or self._kept is not None:
            raise read_without(id_column)
        kept = kept_rows_of_stream(
            lambda: (batch.column(id_column) for batch in self._stream.batches([id_column])),
            id_column,
            rows=self._stored_rows,
            max_rows=int(max_rows),
            words=words,
        )
        self._check_unchanged(len(kept))
        table = object.__new__(ArrowTable)
        table._schema, table._id_column, table._stream = self._schema, None, self._stream
        table._filtered, table._watch, table._folder = self._filtered, self._watch, None
        table._stamp, table._stored_rows = self._stamp, self._stored_rows
        table._kept, table._rows = kept, int(kept.sum())
        return table

    def require_unchanged(self) -> None:
        """Refuse to go on if a file was added, removed, replaced or written to."""
        self._check_unchanged(self._stored_rows)

    def _check_records(self) -> int:
        """Encode every record once; return how many there are."""
        saved = self._saved("checking", [])
        seen, complete, _ = (0, False, []) if saved is None else saved.load([])
        if complete:
            return seen
        total = getattr(self._stream, "count_rows", lambda: None)()
        pace = Pace("checking", total, self._watch, seen)
        for rows, _ in encoded_batches(self._stream, self._schema, self._schema.domain.names, skip=seen):
            seen += rows
            pace.add(rows)
            if saved is not None and saved.due():
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

    def _batches(
        self, columns: Sequence[str], *, skip: int = 0, task: str = "reading"
    ) -> Iterator[tuple[int, dict[str, Codes]]]:
        self.require_unchanged()
        pace = Pace(task, self._stored_rows, self._watch, skip)
        for rows, codes in encoded_batches(self._stream, self._schema, columns, skip=skip):
            if self._kept is None:
                yield rows, codes
            else:
                kept = self._kept[pace.done : pace.done + rows]
                yield int(kept.sum()), {name: column[kept] for name, column in codes.items()}
            pace.add(rows)
        self._check_unchanged(pace.done)

    def _check_unchanged(self, rows: int) -> None:
        if rows != self._stored_rows or self._stream.stamp() != self._stamp:
            raise self._changed()

    def _changed(self) -> DataError:
        return DataError(
            f"{self._stream.label!r} changed while it was in use: a file was added, removed, replaced or written to. "
            "Counts from it were thrown away and no noise was drawn from them. Work on a copy that nobody changes, "
            "and read the table again."
        )


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
