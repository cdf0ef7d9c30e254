"""The universal histogram: counts at every scale, made consistent (Hay et al. 2010; paper DIPS, section 3.1.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, SealedCounts
from understudy.errors import BudgetError
from understudy.inference import History
from understudy.marginals import Measurement, Statistic
from understudy.mechanisms.allocation import rows_noise, total_is_public
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.mechanisms.histograms.bins import POST_PROCESSING, Grid, check_bins, legitimate, planned_grids
from understudy.mechanisms.options import at_least, between, one_of, refuse
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Schema

# ----------------------------------------------------------------------------------------
# Trees of nested bins, and the least-squares counts that agree with each other (Hay et al. 2010).
#
# Everything here is post-processing of public bins and noisy counts.

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


_WAYS = ("top-down", *POST_PROCESSING)
_LEVELS = ("uniform", "geometric")


@dataclass(frozen=True, kw_only=True)
class UniversalHistogram(Synthesizer):
    """Measure the bins at every scale, from all rows down to single bins, and reconcile the answers.

    Parameters
    ----------
    branching
        In how many parts a bin is divided from one level to the next, along every column. The paper uses 2;
        more parts mean fewer levels to pay for.
    levels
        How the budget is divided over the levels: ``"geometric"`` (default), more for finer levels by the factor
        ``branching ** (columns / 3)`` (Cormode et al. 2012), or ``"uniform"``, as in the paper.
    bins
        ``"schema"`` (default): every code is a leaf. A number: that many leaves per ordered column.
    post_processing
        ``"top-down"`` (default): at every level the closest counts that are not negative and add up to
        the level above. ``"simplex"``, ``"zero-truncation"`` and ``"boundary-inflated"`` look at the leaves only.
    max_cells
        Largest number of leaves.

    Privacy
    -------
    Every level is a partition of all possible rows, so one unit changes the counts of a level by at most
    ``histogram_l1`` in L1 and ``histogram_l2`` in L2, and the number of rows by ``max_rows``. Each level is a
    measurement of its own, charged with its share of the budget: with pure ``epsilon`` and ``h`` levels of equal
    shares every count gets discrete Laplace noise of scale ``h l1 / epsilon``. (As one query the tree has sensitivity
    ``h l1``, which is the same.) Under other budgets the noise is Gaussian and the squares add up. Where the number
    of rows is public the root is not measured. Consistency and what follows is post-processing.

    Examples
    --------
    >>> UniversalHistogram(branching=4).name
    'universal-histogram'
    """

    name: ClassVar[str] = "universal-histogram"
    summary: ClassVar[str] = "noisy counts at every scale of a tree of bins, reconciled by least squares"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on counts of every level of a tree",
        papers={Paper.DIPS: "section 3.1.3"},
        origin="Hay, Rastogi, Miklau and Suciu 2010; Qardaji, Yang and Li 2013; Cormode et al. 2012",
    )

    branching: int = 4
    levels: str = "geometric"
    bins: int | str = "schema"
    post_processing: str = "top-down"
    max_cells: int = 4_000_000

    def __post_init__(self) -> None:
        refuse(
            between(self, 2, 1024, "branching"),
            one_of(self, "levels", _LEVELS),
            at_least(self, 1, "max_cells"),
        )
        check_bins(self.bins)
        if self.bins == "private":
            raise BudgetError("universal-histogram measures bins of every width; it needs no private choice.")
        if self.post_processing not in _WAYS:
            raise BudgetError(
                f"post_processing ({self.post_processing!r}) must be one of {', '.join(_WAYS)}."
            )

    def tree(self, schema: Schema) -> list[Grid]:
        """Return the levels of the tree for a schema, root first, or refuse it."""
        leaves = planned_grids(schema, bins=self.bins, max_cells=self.max_cells, method=self.name)[0]
        return tree_of(leaves, branching=self.branching)

    def _design(
        self, tree: list[Grid], unit: Unit, accounting: Accounting, total: float, *, root: bool
    ) -> list[Noise]:
        """Return the noise of every measured level; the root is left out where it is known."""
        growth = self.branching ** (len(tree[0].domain) / 3) if self.levels == "geometric" else 1.0
        depths = range(0 if root or len(tree) == 1 else 1, len(tree))
        costs = accounting.split(total, [growth**depth for depth in depths])
        return [
            rows_noise(accounting, unit, cost)
            if tree[depth].cells == 1
            else noise_for(accounting, unit, cost)
            for depth, cost in zip(depths, costs, strict=True)
        ]

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of all nodes of the tree."""
        tree, root = self.tree(schema), not total_is_public(schema, unit)
        design = self._design(tree, unit, accounting, cost, root=root)
        measured = tree[len(tree) - len(design) :]
        return total_deviation((grid.cells, noise) for grid, noise in zip(measured, design, strict=True))

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how noisy each level will be, or that there are too many leaves."""
        accounting = self.accounting(budget, schema, unit)
        tree = self.tree(schema)
        root = not total_is_public(schema, unit)
        design = self._design(tree, unit, accounting, accounting.total(budget), root=root)
        measured = tree[len(tree) - len(design) :]
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=tuple(
                PlannedMeasurement(() if grid.cells == 1 else schema.domain.names, grid.cells, noise)
                for grid, noise in zip(measured, design, strict=True)
            ),
            model_cells=sum(grid.cells for grid in tree),
            notes=(f"The levels have {levels_describe(tree)} cells.",),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        tree = self.tree(curator.schema)
        known = curator.rows.number
        design = self._design(tree, curator.unit, curator.accounting, curator.remaining, root=known is None)
        progress("counting", 0.1)
        measured = tree[len(tree) - len(design) :]
        sealed = [_seal(curator, grid) for grid in measured]
        progress("measuring", 0.4)
        noisy = curator.measure_many(
            sealed, noise=design, purpose=f"measure {len(design)} levels of {levels_describe(measured)} bins"
        )
        progress("reconciling", 0.7)
        parents = nested(tree)
        values: list[np.ndarray | None] = [item.values.ravel() for item in noisy]
        variances = [item.variance for item in noisy]
        if len(design) < len(tree):
            values, variances = [np.array([float(known or 0)]), *values], [0.0, *variances]
        agreed = consistent(values, variances, parents)
        if self.post_processing == "top-down":
            leaves = without_negatives(agreed, parents)[-1]
        else:
            leaves = legitimate(agreed[-1], known, how=self.post_processing)
        measurements, statistics = _released(measured, noisy)
        progress("done", 1.0)
        return Fitted(
            tree[-1].distribution(leaves),
            measurements,
            history=History.planned(len(measurements)),
            statistics=statistics,
        )


def _seal(curator: Curator, grid: Grid) -> SealedCounts:
    return curator.counts(()) if grid.cells == 1 else grid.seal(curator)


def _released(levels: list[Grid], noisy: list[Measurement]) -> tuple[list[Measurement], list[Statistic]]:
    """Keep the number of rows and the finest level as marginals, the levels between as statistics."""
    measurements: list[Measurement] = []
    statistics: list[Statistic] = []
    for grid, item in zip(levels, noisy, strict=True):
        if grid.cells == 1:
            measurements.append(item)
            continue
        marginals, others = grid.released(item)
        measurements += marginals
        statistics += others
    return measurements, statistics
