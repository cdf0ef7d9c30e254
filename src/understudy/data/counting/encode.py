"""From Arrow batches to codes, one column at a time and by the rules of the schema."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from understudy.data.counting.counting import code_dtype
from understudy.data.files.stream import Stream, attempt, batches_from
from understudy.errors import DataError, Problems
from understudy.schema.coding.reading import series_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from understudy.schema import Codes, Schema

# ----------------------------------------------------------------------------------------
# Working a little ahead in other threads, in order.

T = TypeVar("T")
R = TypeVar("R")

_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_LOOK = 0.05
"""Seconds after which a thread that waits for another looks whether it is still there."""


def threads() -> int:
    """Return how many threads read, encode and count: one per core of this process, or fewer (``UNDERSTUDY_THREADS``).

    Where several processes work at a time they share the cores: what :mod:`understudy.parallel` allows Arrow holds here too.

    Raises
    ------
    DataError
        If the setting is no whole number of at least one.
    """
    asked = os.environ.get("UNDERSTUDY_THREADS", "").strip()
    if not asked:
        import pyarrow as pa

        return max(1, min(_CORES, int(pa.cpu_count())))
    if not asked.isdecimal() or int(asked) < 1:
        raise DataError(
            "UNDERSTUDY_THREADS must be a whole number, 1 or more: how many threads count at a time."
        )
    return min(_CORES, int(asked))


def ahead(work: Callable[[T], R], items: Iterator[T], *, threads: int) -> Iterator[R]:
    """Apply ``work`` to items in threads and yield the results in the order of the items.

    At most ``threads + 1`` items are in memory at a time. With one thread, or a single item, nothing is started. An error
    comes up where its result would have come.

    Examples
    --------
    >>> list(ahead(lambda number: number * number, iter(range(5)), threads=2))
    [0, 1, 4, 9, 16]
    """
    start = list(islice(items, 2)) if threads > 1 else []
    if len(start) < 2:
        yield from map(work, chain(start, items))
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="understudy-encode")
    waiting: deque[Future[R]] = deque()
    try:
        for item in chain(start, items):
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def in_threads(work: Callable[[Iterator[T]], R], items: Iterator[T], *, threads: int) -> list[R]:
    """Call ``work`` in threads with iterators that share some items, each of which one of them gets; return what they return.

    Items are taken one at a time, in their order and in the calling thread, since some drivers of databases may be used in one thread alone. After an error no further
    items are handed out, and the first error comes up when all have ended.

    Examples
    --------
    >>> sorted(sum(in_threads(list, iter(range(5)), threads=2), []))
    [0, 1, 2, 3, 4]
    """
    if threads <= 1:
        return [work(items)]
    waiting: queue.Queue[Any] = queue.Queue(1)
    failed, end = threading.Event(), object()

    def shared() -> Iterator[T]:
        while not failed.is_set():
            try:
                item = waiting.get(timeout=_LOOK)
            except queue.Empty:
                continue
            if item is end:
                return
            yield item

    def run() -> R:
        try:
            return work(shared())
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(threads, thread_name_prefix="understudy-count") as pool:
        try:
            running = [pool.submit(run) for _ in range(threads)]
            for item in chain(items, repeat(end, threads)):
                while not failed.is_set() and not all(future.done() for future in running):
                    with suppress(queue.Full):
                        waiting.put(item, timeout=_LOOK)
                        break
                else:  # nobody wants it any more
                    break
            return [future.result() for future in running]
        except BaseException:  # of the items, or an interruption: the threads end with the item they are at
            failed.set()
            raise


def encoded_batches(
    stream: Stream, schema: Schema, columns: Sequence[str], *, skip: int = 0, threads: int
) -> Iterator[tuple[int, dict[str, Codes]]]:
    """Iterate over the batches of a stream as ``(rows, codes)``, after the first ``skip`` rows.

    While one batch is being used, the next ones are encoded in other threads. They come in the order of the stream.

    Privacy
    -------
    In and out: private. A value outside its domain is refused by the column itself, without being shown.
    """

    def encode(batch: pa.RecordBatch) -> tuple[int, dict[str, Codes]]:
        return batch.num_rows, encode_batch(batch, schema, columns)

    return ahead(encode, batches_from(stream, columns, skip), threads=threads)


def encode_batch(
    batch: pa.RecordBatch | pa.Table, schema: Schema, columns: Sequence[str]
) -> dict[str, Codes]:
    """Encode some columns of a batch, reporting the problems of all of them at once."""
    problems = Problems("The table does not fit the schema")
    codes: dict[str, Codes] = {}
    for name in columns:
        try:
            codes[name] = _encode_column(batch.column(name), schema, name)
        except DataError as error:
            problems.add(str(error))
    problems.raise_if_any(DataError)
    return codes


def _encode_column(values: pa.Array | pa.ChunkedArray, schema: Schema, name: str) -> Codes:
    def unreadable(error: Exception) -> DataError:
        return DataError(stored_otherwise(name, schema.column(name).kind))

    size = schema.domain.size(name)
    codes = np.asarray(attempt(lambda: _codes(values, schema.column(name)), unreadable))
    if codes.size and int(codes.max()) >= size:
        raise DataError(f"Column {name!r} was encoded to codes outside 0 to {size - 1}.")
    return codes.astype(code_dtype(size), copy=False)


def stored_otherwise(name: str, kind: str) -> str:
    """Return the words for a column whose type no column of the schema takes."""
    return f"Column {name!r} is stored in a way that a column of kind {kind!r} cannot take. Convert it before reading the table."


def _codes(values: pa.Array | pa.ChunkedArray, column: Any) -> npt.NDArray[Any]:
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    kind = values.type
    if _is_no_entry(kind):
        raise DataError(stored_otherwise(column.name, column.kind))
    numeric = column.kind in ("integer", "real")
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or (_is_text(kind) and not numeric):
        return _encode_distinct(values, column)
    if pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    return np.asarray(column.encode(series_of_arrow(values)))


def _is_no_entry(kind: pa.DataType) -> bool:
    """Say whether a type holds something that no column is about: lists and records, bytes, times of day and lengths of time."""
    import pyarrow as pa

    types = pa.types
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return bool(
        types.is_nested(kind)
        or binary
        or types.is_binary_view(kind)
        or types.is_time(kind)
        or types.is_duration(kind)
        or types.is_interval(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _encode_distinct(values: pa.Array, column: Any) -> npt.NDArray[Any]:
    """Encode each distinct value once: columns of text have few."""
    import pandas as pd
    import pyarrow as pa

    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    labels = values.dictionary
    absent = len(labels)
    # widened first: 128 labels fill 8-bit indices, and the absent one needs a place beside them
    indices = values.indices.cast(pa.int64()).fill_null(absent).to_numpy(zero_copy_only=False)
    used = np.flatnonzero(np.bincount(indices, minlength=absent + 1))
    listed = [*labels.to_pylist(), None]
    distinct = pd.Series([listed[place] for place in used], dtype=object)
    codes = np.asarray(column.encode(distinct))
    table = np.zeros(absent + 1, codes.dtype)
    table[used] = codes
    return np.asarray(table[indices])
