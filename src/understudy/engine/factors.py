"""Dense tables over cliques, and the small index arithmetic every part of the engine shares.

Inside the engine a column is a number (see `understudy.engine.order`) and a clique is a sorted tuple
of them, so that intersections, unions and projections are plain integer work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

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
