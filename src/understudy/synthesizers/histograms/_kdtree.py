"""Boxes of a noisy table, cut until what is left inside looks like noise. Post-processing only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Cut:
    """Where a box is cut in two: the axis and the first entry of the upper half."""

    axis: int
    at: int


@dataclass(frozen=True, eq=False)
class KdTree:
    """How a noisy table is cut into boxes.

    Parameters
    ----------
    values
        Noisy counts.
    allowed
        Cells that can hold records; the others belong to boxes but count for nothing.
    variance, spread
        Variance of the noise of a cell, and the variance of its square in units of ``variance²`` (2 for
        Gaussian noise, 5 for Laplace noise).
    rule
        ``"variance"``: the cut that leaves the least squared error. ``"median"``: across the longest side, where half
        of the box's count lies on either side.
    threshold
        A box is cut if its squared error exceeds what noise alone would give by this many standard deviations; with
        ``rule="variance"`` also if the best cut explains more than the best of that many cuts of pure noise would.

    Examples
    --------
    >>> values = np.array([[9.0, 9.0, 0.0], [9.0, 9.0, 0.0]])
    >>> KdTree(values, np.ones((2, 3), dtype=bool), 0.5, 2.0, "variance", 2.0).labels()
    array([[0, 0, 1],
           [0, 0, 1]])
    """

    values: Array
    allowed: npt.NDArray[np.bool_]
    variance: float
    spread: float
    rule: str
    threshold: float

    def labels(self) -> Labels:
        """Return the box of each cell, numbered from zero."""
        which = np.zeros(self.values.shape, dtype=np.int64)
        pending: list[Box] = [tuple((0, size) for size in self.values.shape)]
        found = 0
        while pending:
            box = pending.pop()
            cut = self._cut(box)
            if cut is None:
                which[_slices(box)] = found
                found += 1
                continue
            (low, high), rest = box[cut.axis], list(box)
            rest[cut.axis] = (cut.at, high)
            pending.append(tuple(rest))
            rest[cut.axis] = (low, cut.at)
            pending.append(tuple(rest))
        return which

    def _cut(self, box: Box) -> Cut | None:
        """Return where to cut a box, or ``None`` where it looks flat."""
        place = _slices(box)
        kept, values = self.allowed[place], self.values[place]
        cells = int(kept.sum())
        if cells < 2:
            return None
        if cells == values.size:
            apart = values - values.sum() / cells
        else:
            apart = np.where(kept, values - values[kept].sum() / cells, 0.0)
        error = float(np.square(apart).sum())
        usual = (cells - 1) * self.variance
        deviation = self.variance * math.sqrt(self.spread * (cells - 1))
        rough = error > usual + self.threshold * deviation
        if self.rule == "median":
            return self._median(box, kept, values) if rough else None
        cut, explained, tried = self._best(box, kept, apart)
        if cut is None:
            return None
        # the largest of `tried` correlated chi-squared variables with one degree of freedom, and some more
        luck = self.variance * (2 * math.log(tried + 1) + self.threshold)
        return cut if rough or explained > luck else None

    def _best(self, box: Box, kept: npt.NDArray[np.bool_], apart: Array) -> tuple[Cut | None, float, int]:
        """Return the cut that explains most of the squared error, how much, and out of how many."""
        best, most, tried = None, -1.0, 0
        total = int(kept.sum())
        whole = total == apart.size
        for axis, length in enumerate(apart.shape):
            if length < 2:
                continue
            others = tuple(i for i in range(apart.ndim) if i != axis)
            sums = np.cumsum(apart.sum(axis=others))[:-1]
            if whole:
                below = np.arange(1, length) * (total // length)
            else:
                below = np.cumsum(kept.sum(axis=others))[:-1]
                useful = (below > 0) & (below < total)
                sums, below = np.where(useful, sums, 0.0), np.where(useful, below, 1)
            tried += length - 1
            # deviations add up to zero, so the upper half holds minus the sum of the lower one
            gains = np.square(sums) * (total / (below * (total - below)))
            at = int(np.argmax(gains))
            if gains[at] > most:
                best, most = Cut(axis, box[axis][0] + at + 1), float(gains[at])
        return best, most, tried

    def _median(self, box: Box, kept: npt.NDArray[np.bool_], values: Array) -> Cut | None:
        """Return the cut across the longest side that leaves half of the (positive) count on either side."""
        lengths = [high - low for low, high in box]
        axis = int(np.argmax(lengths))
        others = tuple(i for i in range(values.ndim) if i != axis)
        mass = np.where(kept, np.maximum(values, 0.0), 0.0).sum(axis=others)
        total = float(mass.sum())
        if lengths[axis] < 2:
            return None
        line = np.cumsum(mass)[:-1]
        at = int(np.argmin(np.abs(line - total / 2))) if total > 0 else (lengths[axis] - 1) // 2
        return Cut(axis, box[axis][0] + at + 1)


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(low, high) for low, high in box)
