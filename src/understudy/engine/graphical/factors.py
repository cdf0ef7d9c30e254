"""Maps: where the cells of a table go when it is summed down to some of its columns.

The patterns are explained in `_kernels`; here they are worked out from shapes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

# ----------------------------------------------------------------------------------------
# Dense tables over cliques, and the small index arithmetic every part of the engine shares.
#
# Inside the engine a column is a number (see `understudy.engine.graphical.junction`) and a clique is a sorted tuple
# of them, so that intersections, unions and projections are plain integer work.

Columns = tuple[int, ...]
"""A clique as sorted column numbers."""

Array = npt.NDArray[np.float64]

BYTES_PER_CELL = 8
"""Every cell of a model is one double."""


def to_mask(columns: Iterable[int]) -> int:
    """Return a bit mask with one bit per column.

    Examples
    --------
    >>> to_mask((0, 2))
    5
    """
    mask = 0
    for column in columns:
        mask |= 1 << column
    return mask


@lru_cache(maxsize=1 << 17)
def from_mask(mask: int) -> Columns:
    """Return the sorted numbers of the bits that are set.

    Examples
    --------
    >>> from_mask(5)
    (0, 2)
    """
    columns = []
    while mask:
        low = mask & -mask
        columns.append(low.bit_length() - 1)
        mask ^= low
    return tuple(columns)


def cells_of(sizes: Sequence[int], columns: Iterable[int]) -> int:
    """Return the number of cells of the table over some columns."""
    return math.prod(sizes[column] for column in columns)


def shape_of(sizes: Sequence[int], columns: Iterable[int]) -> tuple[int, ...]:
    """Return the shape of the table over some columns."""
    return tuple(sizes[column] for column in columns)


def sum_to(values: Array, columns: Columns, target: Columns) -> Array:
    """Sum a table over ``columns`` down to ``target``, both sorted, the second inside the first.

    Examples
    --------
    >>> sum_to(np.arange(6.0).reshape(2, 3), (1, 4), (4,))
    array([3., 5., 7.])
    """
    if columns == target:
        return values
    kept = set(target)
    summed: Array = values.sum(axis=tuple(axis for axis, column in enumerate(columns) if column not in kept))
    return np.asarray(summed)


def spread(values: Array, columns: Columns, over: Columns) -> Array:
    """Give a table over ``columns`` length-one axes so that it broadcasts over ``over``.

    Examples
    --------
    >>> spread(np.ones((2, 4)), (0, 2), (0, 1, 2)).shape
    (2, 1, 4)
    """
    present = set(columns)
    shape = iter(values.shape)
    return values.reshape([next(shape) if column in present else 1 for column in over])


def quotient(numerator: Array, denominator: Array) -> Array:
    """Divide elementwise with 0/0 = 0: a configuration that cannot occur says nothing.

    Examples
    --------
    >>> quotient(np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    array([0.25, 0.  ])
    """
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


Ints = npt.NDArray[np.int64]
Index = npt.NDArray[np.int32]

BLOCK = 1024
"""Cells handled at a time: few enough to stay in the first-level cache between two operations."""

SHORT_RUN = 8
"""Runs shorter than this are addressed cell by cell."""

# Patterns of `_kernels`, repeated here so that Numba is not imported with this module.
CELLS, KEPT, SUMMED = range(3)


class Maps:
    """Collects the maps from tables to smaller tables that some programs need."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._known: dict[tuple[Columns, Columns], int] = {}
        self._rows: list[tuple[int, ...]] = []
        self._pieces: list[Index] = []
        self._length = 0

    def _append(self, values: Index) -> int:
        start = self._length
        self._pieces.append(values)
        self._length += values.size
        return start

    def add(self, columns: Columns, target: Columns) -> int:
        """Return the number of the map that sums a table over ``columns`` down to ``target``."""
        key = (columns, target)
        if key in self._known:
            return self._known[key]
        kept = set(target)
        shape = shape_of(self._sizes, columns)
        block, mode, run, offsets, table = _work_out(shape, tuple(column in kept for column in columns))
        row = (block, offsets.size, mode, run, self._append(offsets), self._append(table))
        self._known[key] = len(self._rows)
        self._rows.append(row)
        return self._known[key]

    def arrays(self) -> tuple[Ints, Index]:
        """Return the matrix of maps and the flat array of indices they point into."""
        rows = np.array(self._rows, dtype=np.int64).reshape(-1, 6)
        return rows, np.concatenate(self._pieces) if self._pieces else np.zeros(0, dtype=np.int32)


@lru_cache(maxsize=4096)
def _work_out(shape: tuple[int, ...], kept: tuple[bool, ...]) -> tuple[int, int, int, Index, Index]:
    """Return block size, pattern, run length, offset of every block and the table inside a block.

    Remembered: trees change all the time, the shapes of their tables hardly.
    """
    steps = [0] * len(shape)
    stride = 1
    for axis in reversed(range(len(shape))):
        if kept[axis]:
            steps[axis] = stride
            stride *= shape[axis]
    inner = len(shape)
    block = 1
    while inner > 0 and (block == 1 or block * shape[inner - 1] <= BLOCK):
        inner -= 1
        block *= shape[inner]
    offsets = _offsets(shape[:inner], steps[:inner])
    run, mode, cut = 1, CELLS, len(shape)
    if cut > inner:
        last = kept[-1]
        while cut > inner and kept[cut - 1] == last:
            cut -= 1
            run *= shape[cut]
        mode = KEPT if last else SUMMED
    if run < SHORT_RUN and run < block:
        run, mode, cut = 1, CELLS, len(shape)
    return block, mode, run, offsets, _offsets(shape[inner:cut], steps[inner:cut])


def _offsets(shape: Sequence[int], steps: Sequence[int]) -> Index:
    offsets = np.zeros(1, dtype=np.int64)
    for size, step in zip(shape, steps, strict=True):
        offsets = (offsets[:, None] + step * np.arange(size, dtype=np.int64)).ravel()
    return offsets.astype(np.int32)
