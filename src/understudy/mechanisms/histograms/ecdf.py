"""A distribution function by the exponential mechanism (Wasserman and Zhou 2010; paper DIPS, equation 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.curator import Curator
from understudy.errors import BudgetError, SchemaError
from understudy.inference import History
from understudy.marginals import Measurement, Statistic
from understudy.mechanisms.allocation import rows_noise, total_is_public
from understudy.mechanisms.base import Fitted, Plan, PlannedMeasurement, Progress, Synthesizer
from understudy.mechanisms.histograms.bins import Grid, even_grid, require_ordered
from understudy.mechanisms.histograms.look import MAX_BINS, SLACK, PathDesign, choose_path
from understudy.mechanisms.options import between, refuse, shares
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit
from understudy.schema import Schema


@dataclass(frozen=True, kw_only=True)
class EmpiricalDistribution(Synthesizer):
    """Choose a whole synthetic data set whose distribution function is close to the real one.

    Among all data sets on a declared grid, one is chosen with a probability that falls exponentially with the
    largest distance between its distribution function and that of the table (Kolmogorov-Smirnov). The choice is
    exact: data sets inside a band around the real function are counted, not listed.

    Parameters
    ----------
    points
        Largest number of bins of the grid: adjacent values of the column are merged into that many. At most
        256.
    rows_share
        Share of the budget spent on the number of rows where that is private; the grid of records needs its
        order of magnitude.

    Privacy
    -------
    The proof is in :mod:`understudy.mechanisms.histograms.look`. Every unit of ``k`` rows moves every cumulative count, hence the
    largest deviation in rows, by at most ``k`` under both neighbour relations; that is the paper's ``1/n`` in units of
    rows, and it does not need the number of rows to be known. The choice is an exponential mechanism with that score:
    ``epsilon``-DP and of bounded range ``epsilon``. The number of rows, where private, is measured first and charged. An
    approximate budget is spent whichever way allows the larger ``epsilon``.

    Examples
    --------
    >>> EmpiricalDistribution(points=32).name
    'ecdf'
    """

    name: ClassVar[str] = "ecdf"
    summary: ClassVar[str] = (
        "a synthetic data set chosen by the distance of its distribution function to the real one"
    )
    source: ClassVar[Source] = Source(
        law="exponential mechanism over data sets; Laplace or Gaussian on a private number of rows",
        papers={Paper.DIPS: "section 3.1.2, equation (3.4)"},
        origin="Wasserman and Zhou 2010",
    )

    points: int = 64
    rows_share: float = 0.05

    def __post_init__(self) -> None:
        refuse(
            between(self, 2, MAX_BINS, "points"),
            shares(self, "rows_share"),
        )

    def accountings(self, budget: Budget) -> tuple[Accounting, ...]:
        """Pure first: nothing here is Gaussian, so a delta is of little use."""
        return super().accountings(budget)[::-1]

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return how far cumulative counts are off, up to a constant."""
        known = total_is_public(schema, unit)
        return 1.0 / self._design(unit, accounting, cost, known=known)[1]

    def _grid(self, schema: Schema) -> Grid:
        """Return the declared grid, or refuse a table this method cannot serve."""
        require_ordered(schema, method=self.name, most=1)
        grid = even_grid(schema, self.points)
        if not 2 <= grid.cells <= MAX_BINS:
            raise SchemaError(
                f"ecdf needs a column with 2 to {MAX_BINS} bins; this one has {grid.cells}. Ask for fewer points."
            )
        return grid

    def _design(
        self, unit: Unit, accounting: Accounting, total: float, *, known: bool
    ) -> tuple[Noise | None, float]:
        """Return the noise of the number of rows, unless it is known, and the epsilon of the choice."""
        noise = None
        if not known:
            counting, total = accounting.split(total, [self.rows_share, 1 - self.rows_share])
            noise = rows_noise(accounting, unit, counting)
        epsilon = accounting.selection_epsilon(total) - SLACK
        if epsilon < SLACK:
            raise BudgetError("The budget is too small for a choice among data sets; use a larger one.")
        return noise, epsilon * (1 - 2.0**-40)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how far the distribution function will be off, or refuse."""
        accounting = self.accounting(budget, schema, unit)
        grid = self._grid(schema)
        known = total_is_public(schema, unit)
        noise, epsilon = self._design(unit, accounting, accounting.total(budget), known=known)
        typical = 2 * grid.cells * unit.max_rows / epsilon
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=() if noise is None else (PlannedMeasurement((), 1, noise),),
            model_cells=grid.cells,
            notes=(
                f"Cumulative counts will be off by up to about {typical:,.0f} rows on {grid.cells} points.",
            ),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        grid = self._grid(curator.schema)
        known = curator.rows.number
        noise, epsilon = self._design(
            curator.unit, curator.accounting, curator.remaining, known=known is not None
        )
        measurements: list[Measurement] = []
        rows = known or 0
        if noise is not None:
            measurements = [curator.measure(curator.counts(()), noise=noise)]
            rows = max(1, round(float(measurements[0].values)))
        progress("counting", 0.2)
        counts = grid.seal(curator)
        design = PathDesign.of(curator.unit, epsilon=epsilon, bins=grid.cells, rows=rows)
        progress("choosing", 0.4)
        chosen = choose_path(
            curator,
            counts,
            design,
            purpose=f"choose a data set of {design.records} records on {grid.cells} points",
        )
        shown = Statistic(
            f"records on {grid.cells} points, each for {design.weight} rows",
            chosen.astype(np.float64),
            "mechanism",
        )
        progress("done", 1.0)
        scale = max(1, rows) / design.records
        return Fitted(
            grid.distribution(chosen.astype(np.float64) * scale),
            measurements,
            history=History.planned(len(measurements)),
            statistics=[shown],
        )
