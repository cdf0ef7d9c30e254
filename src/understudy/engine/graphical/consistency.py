"""Targets that agree with each other, without changing what is estimated.

Noise makes measurements contradict each other: two of them that share a column imply two different
one-way tables, and negative entries pull where no table can follow. Fitting such targets one after
the other moves a model to and fro. But the loss

    f(p) = sum_i  w_i / 2 |M_i p - y_i|^2

needs its targets only up to what no table can see. Write P for the projection, in the weights
``w``, onto tuples of marginals that agree on all shared columns. For *any* tuple ``n``

    t_i = P(y + n)_i - n_i      gives      sum_i w_i / 2 |M_i p - t_i|^2  =  f(p) + constant

for every table p of the given total, because ``P(y + n) - (y + n)`` is orthogonal to all agreeing
tuples. We choose ``n >= 0`` as the multipliers of the nearest agreeing and *non-negative* tuple
``m = P(y + n)``: then ``t = m`` where ``m > 0`` and ``t = -n`` where ``m = 0``, so every single
target, taken alone, is best fitted by the same ``m``. What remains of the conflict is only the
difference between agreeing tuples and marginals of a joint table. The same multipliers bound the
optimum from below:  f(p) >= sum_i w_i (|m_i - y_i|^2 / 2 - n_i m_i).

P has a closed form. Split every table into residual parts, one per subset ``A`` of its columns
(total, main effects, interactions). They are orthogonal, so independent noise of variance ``v`` per
cell leaves part ``A`` of a table over ``C`` with ``v |C \\ A|`` times a fixed covariance, where
``|C \\ A|`` counts the cells summed out. The best estimate of part ``A`` is the average over all
measurements that contain ``A`` with weights ``1 / (v |C \\ A|)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.engine.graphical.factors import Array, Columns, Ints, Maps, cells_of, shape_of


class Consistency:
    """The projection P for some cliques and weights, and the multipliers it yields.

    Parameters
    ----------
    sizes
        Number of codes of every column.
    cliques
        Columns of each table.
    weights
        Inverse variance per cell of each table.
    total
        The total every table is given.

    Examples
    --------
    >>> agree = Consistency((2, 2), [(0,), (0, 1)], [1.0, 1.0], 10.0)
    >>> agree.project(np.array([4.0, 6.0, 1.0, 1.0, 4.0, 4.0])).round(3)
    array([3.333, 6.667, 1.667, 1.667, 3.333, 3.333])
    """

    def __init__(
        self, sizes: Sequence[int], cliques: Sequence[Columns], weights: Sequence[float], total: float
    ) -> None:
        self.total = total
        cells = [cells_of(sizes, clique) for clique in cliques]
        self.starts = [int(start) for start in np.concatenate([[0], np.cumsum(cells)])]
        self._cell_weights = np.repeat(np.asarray(weights, dtype=np.float64), cells)
        self._share = np.repeat(total / np.array(cells, dtype=np.float64), cells)
        maps = Maps(sizes)
        at = self.starts[-1]  # full tables come first, subsets after them
        sums: list[tuple[int, ...]] = []
        uses: list[tuple[int, ...]] = []
        scales: list[tuple[float, float]] = []
        part_at: dict[Columns, int] = {}
        part_weight: dict[Columns, float] = {}
        n_parts = 0
        for clique, start, full, weight in zip(cliques, self.starts, cells, weights, strict=False):
            place = {clique: start}
            for size in range(len(clique), 0, -1):
                for subset in combinations(clique, size):
                    inner = cells_of(sizes, subset)
                    if subset != clique:
                        extra = min(set(clique) - set(subset), key=lambda column: (sizes[column], column))
                        parent = tuple(sorted((*subset, extra)))
                        place[subset] = at
                        at += inner
                        sums.append((maps.add(parent, subset), place[parent], place[subset], inner))
                    if subset not in part_at:
                        part_at[subset] = n_parts
                        part_weight[subset] = 0.0
                        n_parts += inner
                    precision = weight * inner / full
                    part_weight[subset] += precision
                    uses.append((place[subset], part_at[subset], inner))
                    scales.append((precision, inner / full))
        self._tables = np.zeros(at)
        self._parts = np.zeros(n_parts)
        self._sums = np.array(sums, dtype=np.int64).reshape(-1, 4)
        self._uses = np.array(uses, dtype=np.int64).reshape(-1, 3)
        self._scales = np.array(scales, dtype=np.float64).reshape(-1, 2)
        self._part_scale = np.concatenate(
            [np.full(cells_of(sizes, subset), 1.0 / part_weight[subset]) for subset in part_at]
            or [np.zeros(0)]
        )
        self._centres = _centres(sizes, part_at)
        self._maps, self._index = maps.arrays()

    def project(self, values: Array) -> Array:
        """Return the nearest agreeing tuple of the given total (flat, one table after the other)."""
        from understudy.engine.graphical import kernels as _kernels

        full = self.starts[-1]
        self._tables[:full] = values
        _kernels.project(
            self._tables, self._parts, self._sums, self._uses, self._scales, self._part_scale,
            self._centres, self._maps, self._index,
        )  # fmt: skip
        return self._tables[:full] + self._share

    def _weigh(self, values: Array) -> float:
        """Return the weighted sum. Not a dot product: a threaded BLAS would wake a second core for it."""
        return float((self._cell_weights * values).sum())

    def untangle(
        self,
        values: Array,
        *,
        forbidden: npt.NDArray[np.bool_] | None = None,
        tolerance: float = 1e-6,
        iterations: int = 200,
    ) -> tuple[Array, Array, float]:
        """Find the multipliers of the nearest agreeing non-negative tuple.

        Accelerated projected gradient ascent on the dual; stopping early is harmless, since any
        multipliers give equivalent targets and a valid bound.

        Parameters
        ----------
        values
            The measured tables ``y``, flat.
        forbidden
            Cells that must be zero: their multipliers may have any sign.
        tolerance
            Stops when the weighted squares of negative and forbidden entries, halved, plus the products
            of multipliers and positive entries, are below this times half the number of cells.
        iterations
            Cap on the number of projections.

        Returns
        -------
        targets
            Equivalent targets ``P(y + n) - n``.
        nearest
            The agreeing tuple ``P(y + n)``, non-negative up to the tolerance.
        bound
            A lower bound on ``f`` over all tables.
        """
        floor = np.zeros_like(values)
        if forbidden is not None:
            floor[forbidden] = -np.inf
        bar = tolerance * 0.5 * values.size
        multiplier = np.zeros_like(values)
        ahead = multiplier
        momentum = 1.0
        nearest = self.project(values)
        for _ in range(iterations):
            off = np.where(np.isinf(floor), nearest, np.minimum(nearest, 0.0))
            slack = np.where(np.isinf(floor), 0.0, np.abs(ahead) * np.maximum(nearest, 0.0))
            if self._weigh(0.5 * np.square(off) + slack) <= bar:
                break
            new = np.maximum(ahead - nearest, floor)
            if self._weigh((ahead - new) * (new - multiplier)) > 0:
                momentum = 1.0  # the momentum points uphill: start it again
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            ahead = new + ((momentum - 1.0) / following) * (new - multiplier)
            multiplier, momentum = new, following
            nearest = self.project(values + ahead)
        multiplier = np.maximum(ahead, floor)
        nearest = self.project(values + multiplier)
        loss = 0.5 * np.square(nearest - values) - multiplier * nearest
        return nearest - multiplier, nearest, self._weigh(loss)


def _centres(sizes: Sequence[int], part_at: dict[Columns, int]) -> Ints:
    """List, for every axis of every part, where the table starts and its extent around that axis."""
    rows = []
    for subset, start in part_at.items():
        shape = shape_of(sizes, subset)
        for axis, size in enumerate(shape):
            rows.append((start, math.prod(shape[:axis]), size, math.prod(shape[axis + 1 :])))
    return np.array(rows, dtype=np.int64).reshape(-1, 4)
