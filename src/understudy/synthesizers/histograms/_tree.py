"""Trees of nested bins, and the least-squares counts that agree with each other (Hay et al. 2010).

Everything here is post-processing of public bins and noisy counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError
from understudy.synthesizers.histograms._bins import Grid

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


def tree_of(leaves: Grid, *, branching: int) -> list[Grid]:
    """Return nested grids from a single cell down to the leaves; every axis splits ``branching`` ways per level.

    Depth ``d`` gives bin ``i`` of ``v`` the number ``floor(i b**d / v)``. These are nested, because
    ``floor(x / b) = floor(floor(x) / b)``; numbers that no bin has are left out. The last depth tells all bins of the
    widest axis apart.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> leaves = Grid(Domain(("a",), (6,)), (np.arange(6),))
    >>> [grid.labels[0].tolist() for grid in tree_of(leaves, branching=2)]
    [[0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 0, 1, 2, 2, 3], [0, 1, 2, 3, 4, 5]]
    """
    sizes = leaves.coarse.sizes
    levels = []
    power = 1
    while True:
        labels = tuple(
            np.unique(which * min(power, size) // size if power < size else which, return_inverse=True)[1]
            for which, size in zip(leaves.labels, sizes, strict=True)
        )
        levels.append(Grid(leaves.domain, tuple(item.astype(np.int64) for item in labels)))
        if power >= max(sizes):
            return levels
        power *= branching


def parents_of(fine: Grid, coarse: Grid) -> Labels:
    """Return, for every cell of a grid (flat), the cell of a coarser grid that holds it."""
    shape = coarse.coarse.sizes
    cell = np.zeros((), dtype=np.int64)
    for below, above, size in zip(fine.labels, coarse.labels, shape, strict=True):
        first = above[np.flatnonzero(np.diff(below, prepend=-1))]
        cell = np.add.outer(cell * size, first)
    return np.asarray(cell, dtype=np.int64).ravel()


def consistent(
    noisy: Sequence[Array | None], variances: Sequence[float], parents: Sequence[Labels]
) -> list[Array]:
    """Return the counts closest to the noisy ones, weighted by precision, in which children add up to their parent.

    Parameters
    ----------
    noisy
        Flat noisy counts of each level, root first. ``None`` for a level that was not measured.
    variances
        Noise variance of each level; zero for counts that are known.
    parents
        For each level but the first, the place of each cell's parent in the level above.

    Returns
    -------
    list of arrays
        The generalised least-squares estimate of every level. It is unbiased, and no linear unbiased
        estimate has a smaller variance for any sum of cells.

    Notes
    -----
    The two passes of Hay et al. (2010, Theorem 3), with weights that are right for any tree and any variance per
    level. Upwards: the best estimate ``z`` of a cell from its own subtree averages its noisy count and the sum of
    its children's ``z`` by inverse variance. Downwards: what the parent's final count has more than that sum is
    divided among the children in proportion to the variances of their ``z``.

    Examples
    --------
    >>> levels = consistent([np.array([10.0]), np.array([4.0, 3.0])], [1.0, 1.0], [np.array([0, 0])])
    >>> [level.tolist() for level in levels]
    [[9.0], [5.0, 4.0]]
    """
    if noisy[-1] is None or variances[-1] <= 0:
        raise BudgetError("The leaves of a tree must be measured with noise.")
    best: list[Array] = [np.asarray(noisy[-1], dtype=np.float64)]
    spread: list[Array] = [np.full(best[0].shape, float(variances[-1]))]
    for own, variance, parent in zip(noisy[-2::-1], variances[-2::-1], parents[::-1], strict=True):
        many = int(parent.max()) + 1
        sums: Array = np.bincount(parent, best[0], minlength=many).astype(np.float64)
        loose: Array = np.bincount(parent, spread[0], minlength=many).astype(np.float64)
        if own is None:
            estimate, left = sums, loose
        else:
            weight = loose / (loose + variance)
            estimate = weight * np.asarray(own, dtype=np.float64) + (1.0 - weight) * sums
            left = weight * variance
        best.insert(0, estimate)
        spread.insert(0, left)
    agreed = [best[0]]
    for level, parent in enumerate(parents, start=1):
        many = len(agreed[-1])
        missing = agreed[-1] - np.bincount(parent, best[level], minlength=many)
        share = spread[level] / np.bincount(parent, spread[level], minlength=many)[parent]
        agreed.append(best[level] + share * missing[parent])
    return agreed


def without_negatives(agreed: Sequence[Array], parents: Sequence[Labels]) -> list[Array]:
    """Return counts that are not negative and still add up, level by level from the root.

    The children of each cell are replaced by the closest counts that are not negative and add up to the
    parent's: one number is subtracted from all of them and what falls below zero becomes zero. Large sums, which
    are known best, are settled first and stay.
    """
    kept = [np.maximum(agreed[0], 0.0)]
    for level, parent in zip(agreed[1:], parents, strict=True):
        kept.append(_project_groups(level, parent, kept[-1]))
    return kept


def _project_groups(values: Array, group: Labels, totals: Array) -> Array:
    """Project the values of every group onto the simplex of the group's total."""
    order = np.lexsort((-values, group))
    which, ranked = group[order], values[order]
    first = np.searchsorted(which, np.arange(len(totals)))
    running = np.cumsum(ranked)
    before = np.concatenate([[0.0], running])[first]
    place = np.arange(len(which)) - first[which] + 1
    level = (running - before[which] - totals[which]) / place
    last = np.zeros(len(totals), dtype=np.int64)
    inside = np.flatnonzero(ranked > level)
    np.maximum.at(last, which[inside], inside)
    threshold = np.where(totals > 0, level[last], np.inf)
    return np.asarray(np.maximum(values - threshold[group], 0.0), dtype=np.float64)


def levels_describe(levels: Sequence[Grid]) -> str:
    """Write the numbers of cells of a tree, root first."""
    return ", ".join(f"{grid.cells:,}" for grid in levels)


def nested(levels: Sequence[Grid]) -> list[Labels]:
    """Return the parents of every level but the first."""
    return [parents_of(fine, coarse) for coarse, fine in pairwise(levels)]
