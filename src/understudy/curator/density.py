"""Proved primitives for histograms and densities: how much bins hide, smoothed draws, kernel sums, step functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator.sealed import SealedCounts, SealedScalar
from understudy.errors import BudgetError

Labels = npt.NDArray[np.signedinteger[Any]]


def spread_error(sealed: SealedCounts, labels: Sequence[npt.ArrayLike]) -> SealedScalar:
    """Return how many rows coarser bins misplace: the L1 distance of counts to themselves, evened out in each bin.

    Parameters
    ----------
    sealed
        Exact counts. Private.
    labels
        For each axis the public bin of each entry.

    Privacy
    -------
    In: private. Out: under seal. Let ``S`` replace every cell by the mean of its bin. ``c - S c`` is linear in the
    counts. One row in a cell whose bin has ``w`` cells adds ``1 - 1/w`` there and ``-1/w`` in each of the
    ``w - 1`` others: ``2 (1 - 1/w)`` in L1, largest for the widest bin. The L1 norm moves by at most as much
    (triangle inequality), ``max_rows`` times as much for a unit of several rows, and replacing is one removal and
    one addition. So the sensitivity is ``2 (1 - 1/w)`` times ``Unit.histogram_l1``.

    Examples
    --------
    >>> from understudy.privacy import Unit
    >>> from understudy.schema import Domain
    >>> counts = SealedCounts(np.array([3, 1, 0, 0]), clique=("a",), domain=Domain(("a",), (4,)),
    ...                       unit=Unit.add_remove(), known_rows=None)
    >>> spread_error(counts, [[0, 0, 1, 1]]).sensitivity
    1.0
    """
    table = sealed._exact.astype(np.float64)
    widest = 1
    even = table
    if len(labels) != table.ndim:
        raise BudgetError(f"Bins are needed for {table.ndim} axes; got {len(labels)}.")
    for axis, given in enumerate(labels):
        which = np.asarray(given, dtype=np.int64)
        if which.shape != (table.shape[axis],) or which.min(initial=0) < 0:
            raise BudgetError(f"The bins of axis {axis} must be {table.shape[axis]} numbers, not negative.")
        widths = np.bincount(which)
        widest *= int(widths.max())
        front = np.moveaxis(even, axis, 0)
        sums = np.zeros((len(widths), *front.shape[1:]))
        np.add.at(sums, which, front)
        shape = (-1,) + (1,) * (table.ndim - 1)
        even = np.moveaxis(sums[which] / widths[which].reshape(shape), 0, axis)
    rows = float(sealed._unit.histogram_l1)
    return SealedScalar(float(np.abs(table - even).sum()), sensitivity=2.0 * (1.0 - 1.0 / widest) * rows)
