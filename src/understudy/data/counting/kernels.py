"""Compiled loops that turn columns of codes into counts. Import this module only when something is counted.

Kernels are compiled once per code width (uint8, uint16, uint32) and kept on disk, so a second process starts without
compiling. Two choices make counting fast:

- Cliques that differ only in their last column share the mixed-radix index of the other columns.
- Each half of the rows has its own accumulator. Neighbouring rows of real tables often fall in the same
  cell, and two chains of increments do not wait for each other's stores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from understudy._compile import compiled, inner

MAX_ROWS_PER_CALL = 1 << 20
"""Rows handed to the kernel at once: 32-bit accumulators cannot overflow and scratch stays small."""

SCRATCH_CELLS = 1 << 18
"""Largest marginal counted in scratch accumulators; larger ones are counted in place."""


@inner(nogil=True)
def _product(sizes: npt.NDArray[np.int64]) -> np.int64:
    """Return the product of some sizes; a loop compiles faster than what NumPy's function becomes."""
    product = np.int64(1)
    for i in range(len(sizes)):
        product *= sizes[i]
    return product


@inner(nogil=True)
def _prefix_index(
    matrix: npt.NDArray[Any], prefix: npt.NDArray[np.int64], prefix_sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint32]:
    """Return the mixed-radix index of the shared columns, row by row."""
    index = np.empty(matrix.shape[1], np.uint32)
    for row in range(len(index)):  # zeros of NumPy's compile longer
        index[row] = 0
    for i in range(len(prefix)):
        column = matrix[prefix[i]]
        size = np.uint32(prefix_sizes[i])
        for row in range(len(index)):
            index[row] = index[row] * size + np.uint32(column[row])
    return index


@compiled(nogil=True)
def add_counts(
    matrix: npt.NDArray[Any],
    prefix: npt.NDArray[np.int64],
    prefix_sizes: npt.NDArray[np.int64],
    members: npt.NDArray[np.int64],
    member_sizes: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    totals: npt.NDArray[np.int64],
) -> None:
    """Add the counts of the cliques ``(*prefix, member)`` to ``totals``.

    Parameters
    ----------
    matrix
        Codes, one row per column of the table, at most ``MAX_ROWS_PER_CALL`` wide. Every code must be
        smaller than the size of its column: nothing is checked here.
    prefix, prefix_sizes
        Rows of ``matrix`` that all cliques share, in the order of the axes, with their sizes.
    members, member_sizes
        The last column of each clique, with its size.
    offsets
        Where the cells of each clique begin in ``totals``.
    totals
        Exact counts so far, changed in place. Private.
    """
    one = np.uint32(1)
    n = matrix.shape[1]
    half = n // 2
    index = _prefix_index(matrix, prefix, prefix_sizes)
    prefix_cells = _product(prefix_sizes)
    scratch_cells = 0
    for j in range(len(members)):
        cells = prefix_cells * member_sizes[j]
        if cells <= SCRATCH_CELLS and cells <= n:
            scratch_cells = max(scratch_cells, cells)
    left = np.empty(scratch_cells, np.uint32)
    right = np.empty(scratch_cells, np.uint32)
    for cell in range(scratch_cells):
        left[cell] = 0
        right[cell] = 0
    for j in range(len(members)):
        column = matrix[members[j]]
        size = np.uint32(member_sizes[j])
        cells = prefix_cells * member_sizes[j]
        counts = totals[offsets[j] : offsets[j] + cells]
        if cells <= scratch_cells:
            first_index, second_index = index[:half], index[half:]
            first_column, second_column = column[:half], column[half:]
            for row in range(half):
                left[first_index[row] * size + np.uint32(first_column[row])] += one
                right[second_index[row] * size + np.uint32(second_column[row])] += one
            for row in range(2 * half, n):
                left[index[row] * size + np.uint32(column[row])] += one
            for cell in range(cells):
                counts[cell] += np.int64(left[cell]) + np.int64(right[cell])
                left[cell] = 0
                right[cell] = 0
        else:
            for row in range(n):
                counts[index[row] * size + np.uint32(column[row])] += 1


@compiled(nogil=True)
def add_weights(
    matrix: npt.NDArray[Any],
    weights: npt.NDArray[np.int64],
    prefix: npt.NDArray[np.int64],
    prefix_sizes: npt.NDArray[np.int64],
    members: npt.NDArray[np.int64],
    member_sizes: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    totals: npt.NDArray[np.int64],
) -> None:
    """Do what `add_counts` does for records that stand for ``weights`` rows each."""
    index = _prefix_index(matrix, prefix, prefix_sizes)
    prefix_cells = _product(prefix_sizes)
    for j in range(len(members)):
        column = matrix[members[j]]
        size = np.uint32(member_sizes[j])
        counts = totals[offsets[j] : offsets[j] + prefix_cells * member_sizes[j]]
        for row in range(len(index)):
            counts[index[row] * size + np.uint32(column[row])] += weights[row]
