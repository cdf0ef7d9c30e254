"""Parquet files and folders, and any other Arrow dataset, read in batches."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from understudy.data.files.stream import (
    BATCH_ROWS,
    attempt,
    explain_os_error,
    file_stamp,
    guarded,
    name_problems,
    parquet_files,
)
from understudy.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads


PIECE_ROWS = 1 << 22
"""Rows of a row group that one thread reads by itself; a larger one is read batch by batch, for all of them."""

WAITS = (0.5, 2.0, 8.0)
"""Seconds to wait before a part that failed to arrive is asked for again."""

_PASSING = {
    errno.EIO, errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNRESET,
    errno.ECONNABORTED, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EPIPE,
}  # fmt: skip
"""Errors of a local or mounted disk that may pass. A damaged file is none of them."""


class DatasetStream:
    """An Arrow dataset as batches, file after file and in the order of the file names.

    Files are read one row group at a time. Where a read fails for a reason that may pass (a network disk that
    hiccups), the row group is asked for again and the rows that had arrived are passed over: whoever counts
    them sees every row once.

    Parameters
    ----------
    dataset
        What to read.
    wanted
        Columns that every file must have, as stored columns or as part of its folder name.
    label
        What to call it in messages.
    folder
        Where the files lie, if all Parquet files of a folder are meant. A file that is added later is noticed.
    """

    def __init__(
        self, dataset: pads.Dataset, wanted: Sequence[str], *, label: str, folder: Path | None = None
    ) -> None:
        self.label = label
        self._dataset = dataset
        self._folder = folder
        self._paths = _local_paths(dataset)
        attempt(lambda: self._check_columns(wanted), self._explain)

    @classmethod
    def from_paths(cls, paths: Sequence[Path], wanted: Sequence[str]) -> DatasetStream:
        """Open Parquet files, or one folder of them with Hive-style partitions (``year=2024/...``)."""
        label = paths[0].name if len(paths) == 1 else f"{len(paths)} Parquet files"
        dataset = attempt(lambda: _open(paths), lambda error: _explain_parquet(error, label))
        folder = paths[0] if len(paths) == 1 and paths[0].is_dir() else None
        return cls(dataset, wanted, label=label, folder=folder)

    @property
    def header(self) -> list[str]:
        """Names of the columns, folder names included."""
        return list(self._dataset.schema.names)

    def stamp(self) -> object:
        """Return names, sizes and times of change of the files, as far as the file system tells."""
        return attempt(self._stamp, self._explain)

    def _stamp(self) -> object:
        if self._folder is not None:
            return file_stamp(parquet_files(self._folder))
        if self._paths:
            return file_stamp(self._paths)
        files, system = getattr(self._dataset, "files", []), getattr(self._dataset, "filesystem", None)
        if not files or system is None:
            return ()
        facts = system.get_file_info(files)
        return tuple((fact.path, fact.size, fact.mtime_ns) for fact in facts)

    def count_rows(self) -> int:
        """Return the number of rows; for Parquet from the file footers alone. Private."""
        return attempt(lambda: int(self._dataset.count_rows()), self._explain)

    def read_all(self) -> pa.Table:
        """Return every row and column. Private."""
        return attempt(self._dataset.to_table, self._explain)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Iterate over batches with the given columns; other columns are not read from disk."""
        return self.batches_from(columns, 0)

    def batches_from(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Iterate over batches after the first ``rows`` rows; row groups before them are not read."""
        return guarded(self._read(list(columns), rows), self._explain)

    def pieces(
        self, columns: Sequence[str], rows: int = 0
    ) -> Iterator[Callable[[], Iterator[pa.RecordBatch]]]:
        """Iterate over pieces that can be read at the same time, after the first ``rows`` rows: row groups, and batches of those that are very large."""
        return guarded(self._pieces(list(columns), rows), self._explain)

    def _pieces(self, columns: list[str], skip: int) -> Iterator[Callable[[], Iterator[pa.RecordBatch]]]:
        for rows, part in self._parts():
            if rows is not None and skip >= rows:
                skip -= rows
                continue
            if rows is not None and rows <= PIECE_ROWS:
                yield partial(self._piece, part, columns, skip)
                skip = 0
                continue
            for batch in self._patiently(part, columns):
                if skip >= batch.num_rows:
                    skip -= batch.num_rows
                else:
                    yield partial(iter, (batch.slice(skip),))
                    skip = 0

    def _piece(self, part: Any, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
        for batch in guarded(self._patiently(part, columns), self._explain):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
            else:
                yield batch.slice(skip)
                skip = 0

    def _read(self, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
        for rows, part in self._parts():
            if rows is not None and skip >= rows:
                skip -= rows
                continue
            for batch in self._patiently(part, columns):
                if skip >= batch.num_rows:
                    skip -= batch.num_rows
                else:
                    yield batch.slice(skip)
                    skip = 0

    def _patiently(self, part: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Read one part; after an error that may pass, read it again and leave out what had arrived."""
        arrived = failures = 0
        while True:
            passed_over = 0
            try:
                for batch in self._scan(part, columns):
                    missing = passed_over + batch.num_rows - arrived
                    passed_over += batch.num_rows
                    if missing > 0:
                        arrived += missing
                        yield batch.slice(batch.num_rows - missing)
                return
            except OSError as error:
                if failures == len(WAITS) or not self._may_pass(error):
                    raise
            time.sleep(WAITS[failures])
            failures += 1

    def _may_pass(self, error: OSError) -> bool:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            return False
        return error.errno in _PASSING or (error.errno is None and not self._paths)

    def _scan(self, part: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow.dataset as pads

        # without these two, Arrow keeps what it read ahead and memory grows with the file
        options = {}
        if isinstance(part, pads.ParquetFileFragment):
            options["fragment_scan_options"] = pads.ParquetFragmentScanOptions(pre_buffer=False)
        yield from part.to_batches(
            schema=self._dataset.schema,
            columns=columns,
            batch_size=BATCH_ROWS,
            batch_readahead=1,
            use_threads=False,
            **options,
        )

    def _parts(self) -> Iterator[tuple[int | None, Any]]:
        """Iterate over row groups with their numbers of rows; other formats come file by file."""
        import pyarrow.dataset as pads

        for fragment in self._fragments():
            if isinstance(fragment, pads.ParquetFileFragment):
                for group in fragment.split_by_row_group():
                    yield group.row_groups[0].num_rows, group
            else:
                yield None, fragment

    def _fragments(self) -> list[Any]:
        return sorted(self._dataset.get_fragments(), key=lambda fragment: getattr(fragment, "path", ""))

    def _check_columns(self, wanted: Sequence[str]) -> None:
        import pyarrow.dataset as pads

        heading = f"The columns of {self.label!r} do not fit the schema"
        name_problems(heading, self._dataset.schema.names, wanted).raise_if_any(DataError)
        for fragment in self._fragments():
            here = [*fragment.physical_schema.names]
            here += [key for key in pads.get_partition_keys(fragment.partition_expression) if key not in here]
            name_problems(f"{heading}, in some of the files", here, wanted).raise_if_any(DataError)

    def _explain(self, error: Exception) -> DataError:
        return _explain_parquet(error, self.label)


def _open(paths: Sequence[Path]) -> pads.Dataset:
    import pyarrow as pa
    import pyarrow.dataset as pads

    base: Path | None = None
    files = list(paths)
    if len(paths) == 1 and paths[0].is_dir():
        base = paths[0]
        files = parquet_files(base)
    partitioning = None
    if base is not None:
        keys = dict.fromkeys(
            unquote(part.partition("=")[0])
            for file in files
            for part in file.relative_to(base).parts[:-1]
            if "=" in part
        )
        # as text: a folder named code=007 holds the value 007, not 7
        partitioning = pads.partitioning(pa.schema([(key, pa.string()) for key in keys]), flavor="hive")
    for file in files:
        _check_magic(file)

    def opened(common: pa.Schema | None = None) -> pads.Dataset:
        return pads.dataset(
            [str(file) for file in files],
            schema=common,
            format="parquet",
            partitioning=partitioning,
            partition_base_dir=None if base is None else str(base),
        )

    dataset = opened()
    return dataset if len(files) == 1 else opened(_common_types(dataset))


def _common_types(dataset: pads.Dataset) -> pa.Schema:
    """Give each column the type that suits all files; by default the first file would decide.

    A column without any entry is stored without a type, and whole numbers become real numbers in files
    that have missing ones.
    """
    import pyarrow as pa

    stored = [fragment.physical_schema.remove_metadata() for fragment in dataset.get_fragments()]
    common = pa.unify_schemas(stored, promote_options="permissive")
    names = dataset.schema.names
    return pa.schema([common.field(n) if n in common.names else dataset.schema.field(n) for n in names])


def _check_magic(file: Path) -> None:
    with file.open("rb") as stream:
        start = stream.read(4)
    if start not in (b"PAR1", b"PARE"):
        what = "is empty" if not start else "is not a Parquet file"
        raise DataError(f"{file.name!r} {what}, although it is named like one. Check how it was written.")


def _local_paths(dataset: pads.Dataset) -> list[Path]:
    paths = [Path(name) for name in getattr(dataset, "files", [])]
    return paths if all(path.exists() for path in paths) else []


def _explain_parquet(error: Exception, label: str) -> DataError:
    known = explain_os_error(error, label)
    if known is not None:
        return known
    if "duplicate field names" in str(error):
        return DataError(f"{label!r} has columns that share a name. Every column needs its own.")
    return DataError(
        f"{label!r} cannot be read: a file is damaged, incomplete, or its columns have other types than in "
        "the other files. Write it again or copy it anew."
    )
