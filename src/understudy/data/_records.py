"""Distinct records and how often each occurs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.data._counting import Counts, code_dtype
from understudy.schema import Codes

_KEY_LIMIT = 1 << 64  # mixed-radix keys are 64-bit
_MERGE_ROWS = 1 << 20


def distinct_records(
    columns: Sequence[Codes], sizes: Sequence[int], *, rows: int, weights: Counts | None = None
) -> tuple[Codes, Counts]:
    """Return the distinct rows of some columns in lexicographic order, and the weight of each.

    Every row becomes one 64-bit mixed-radix key. When the columns have more than 2**64 combinations,
    the key so far is replaced by its rank among the keys that occur, which keeps the order and leaves
    room for more columns.

    Examples
    --------
    >>> a, b = np.array([1, 0, 1], np.uint8), np.array([2, 0, 2], np.uint8)
    >>> codes, counts = distinct_records([a, b], [2, 3], rows=3)
    >>> codes.tolist(), counts.tolist()
    ([[0, 0], [1, 2]], [1, 2])
    """
    key = np.zeros(rows, np.uint64)
    bound = 1
    for column, size in zip(columns, sizes, strict=True):
        if bound * size > _KEY_LIMIT:
            kept, rank = np.unique(key, return_inverse=True)
            key, bound = rank.astype(np.uint64), max(1, len(kept))
        key *= np.uint64(size)
        key += column
        bound *= size
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.concatenate((np.ones(min(1, rows), bool), key[1:] != key[:-1])))
    if weights is None:
        counts = np.diff(first, append=rows).astype(np.int64)
    else:
        counts = np.add.reduceat(weights[order], first) if rows else np.zeros(0, np.int64)
    chosen = order[first]
    dtype: np.dtype[Any] = code_dtype(max(sizes, default=1))
    codes = np.empty((len(chosen), len(columns)), dtype)
    for axis, column in enumerate(columns):
        codes[:, axis] = column[chosen]
    return codes, counts


def merge_distinct(parts: Iterable[tuple[Codes, Counts]], sizes: Sequence[int]) -> tuple[Codes, Counts]:
    """Merge the distinct records of several chunks, holding little more than the distinct ones at a time."""
    codes: npt.NDArray[Any] = np.empty((0, len(sizes)), code_dtype(max(sizes, default=1)))
    counts = np.zeros(0, np.int64)
    waiting: list[tuple[Codes, Counts]] = []
    waiting_rows = 0
    for part in parts:
        waiting.append(part)
        waiting_rows += len(part[1])
        if waiting_rows >= max(_MERGE_ROWS, len(counts)):
            codes, counts = _merge([(codes, counts), *waiting], sizes)
            waiting, waiting_rows = [], 0
    return _merge([(codes, counts), *waiting], sizes)


def _merge(parts: Sequence[tuple[Codes, Counts]], sizes: Sequence[int]) -> tuple[Codes, Counts]:
    codes = np.concatenate([part[0] for part in parts])
    counts = np.concatenate([part[1] for part in parts])
    return distinct_records(list(codes.T), sizes, rows=len(counts), weights=counts)
