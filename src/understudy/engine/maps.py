"""Maps: where the cells of a table go when it is summed down to some of its columns.

The patterns are explained in `_kernels`; here they are worked out from shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from understudy.engine.factors import Columns, shape_of

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
