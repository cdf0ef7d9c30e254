"""The universal histogram: counts at every scale, made consistent (Hay et al. 2010; paper DIPS, section 3.1.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.curator import Curator, Noise, SealedCounts, noise_for
from understudy.errors import BudgetError
from understudy.inference import History
from understudy.marginals import Measurement, Statistic
from understudy.privacy import Accounting, Budget, Unit
from understudy.schema import Schema
from understudy.synthesizers._allocation import rows_noise, total_is_public
from understudy.synthesizers._options import at_least, between, one_of, refuse
from understudy.synthesizers.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.synthesizers.histograms._bins import (
    POST_PROCESSING,
    Grid,
    check_bins,
    legitimate,
    planned_grids,
)
from understudy.synthesizers.histograms._tree import (
    consistent,
    levels_describe,
    nested,
    tree_of,
    without_negatives,
)

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
        known = curator.known_rows
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
