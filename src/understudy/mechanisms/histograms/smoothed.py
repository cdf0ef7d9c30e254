"""The smoothed histogram: records drawn from a mixture with the uniform distribution (paper DIPS, equation 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.curator import Curator
from understudy.engine.distributions.released import ReleasedRecords
from understudy.errors import BudgetError
from understudy.marginals import Statistic
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer
from understudy.mechanisms.histograms.bins import Grid, check_bins, large, planned_grids
from understudy.mechanisms.histograms.look import MAX_SMOOTHED, Smoothing, smoothed_records
from understudy.mechanisms.options import at_least, between, refuse
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Unit
from understudy.schema import Schema


@dataclass(frozen=True, kw_only=True)
class SmoothedHistogram(Synthesizer):
    """Draw a fixed number of records from the histogram mixed with the uniform distribution, and release those.

    No noise is added: the mixture itself is not released, only records from it, and the guarantee is about
    that many of them. The model therefore *is* the records. Asking it for fewer gives some of them, asking for
    more repeats them; neither looks at the data again.

    Parameters
    ----------
    records
        How many records are drawn and paid for. More of them have less sampling error but a stronger pull
        towards the uniform distribution.
    bins
        ``"schema"`` (default) or a number of bins per ordered column.
    max_cells
        Largest histogram that will be enumerated.

    Privacy
    -------
    Each record falls into bin ``j`` with probability ``(c_j + t) / (n + K t)``: the mixture (3.2) with the weight
    (3.3) of the paper, where ``t = 1 / (exp(e) - 1)`` and ``e`` is the cost of one record; the proof for both
    neighbour relations is in :class:`~understudy.mechanisms.histograms.look.Smoothing`. ``m`` records compose: the paper's ``epsilon`` is
    ``m e`` with ``m = n``. Under pure budgets ``e = epsilon / m``; under others the costs of ``m`` acts add up as
    squares, which leaves much larger ``e``. An approximate budget is spent whichever way allows the larger
    ``e``. Drawing afresh from the mixture on every sample, as one might read the paper, would cost as much again
    each time; it is impossible here.

    Examples
    --------
    >>> SmoothedHistogram(records=500).name
    'smoothed-histogram'
    """

    name: ClassVar[str] = "smoothed-histogram"
    summary: ClassVar[str] = (
        "a fixed number of records from the histogram mixed with the uniform distribution"
    )
    source: ClassVar[Source] = Source(
        law="draws from the histogram mixed with the uniform law",
        papers={Paper.DIPS: "section 3.1.2, equations (3.2) and (3.3)"},
        origin="Wasserman and Zhou 2010",
    )

    records: int = 1_000
    bins: int | str = "schema"
    max_cells: int = 1_000_000

    def __post_init__(self) -> None:
        refuse(
            between(self, 1, MAX_SMOOTHED, "records"),
            at_least(self, 1, "max_cells"),
        )
        check_bins(self.bins)
        if self.bins == "private":
            raise BudgetError("smoothed-histogram takes bins from the schema or a number of them.")

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the rows that are added to every bin."""
        return self.smoothing(unit, accounting, cost, rows_fixed=unit.keeps_rows).pseudo

    def _grid(self, schema: Schema) -> Grid:
        return planned_grids(schema, bins=self.bins, max_cells=self.max_cells, method=self.name)[0]

    def smoothing(self, unit: Unit, accounting: Accounting, cost: float, *, rows_fixed: bool) -> Smoothing:
        """Return how much is added to every bin so that all records together cost at most ``cost``."""
        return Smoothing.affordable(unit, accounting, cost, records=self.records, rows_fixed=rows_fixed)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how strongly the records will be pulled towards the uniform distribution, or refuse."""
        accounting = self.accounting(budget, schema, unit)
        grid = self._grid(schema)
        fixed = unit.keeps_rows
        smoothing = self.smoothing(unit, accounting, accounting.total(budget), rows_fixed=fixed)
        added = smoothing.pseudo * grid.cells
        notes = [
            f"{self.records:,} records will be drawn and paid for, once: a sample of more repeats them.",
            f"{added:,.6g} imaginary rows are spread evenly over {large(grid.cells)} bins.",
        ]
        if schema.row_count is not None:
            weight = added / (schema.row_count + added)
            notes.append(f"About {weight:.0%} of the records will be drawn from the uniform distribution.")
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(),
            model_cells=grid.cells,
            notes=tuple(notes),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        grid = self._grid(curator.schema)
        progress("counting", 0.1)
        sealed = grid.seal(curator)
        fixed = curator.rows.fixed
        smoothing = self.smoothing(curator.unit, curator.accounting, curator.remaining, rows_fixed=fixed)
        progress("drawing", 0.5)
        drawn = smoothed_records(
            curator,
            sealed,
            smoothing,
            records=self.records,
            purpose=f"draw {self.records} records from a smoothed histogram of {large(grid.cells)} bins",
        )
        codes = _inside(grid, drawn)
        total = float(max(1, self.records if curator.rows.number is None else curator.rows.number))
        shown = Statistic(
            f"counts of {self.records} records in {large(grid.cells)} bins",
            np.bincount(drawn, minlength=grid.cells).astype(np.float64),
            "mechanism",
        )
        progress("done", 1.0)
        return Fitted(ReleasedRecords(curator.domain, total, codes), (), statistics=[shown])


def _inside(grid: Grid, drawn: np.ndarray) -> np.ndarray:
    """Give each record codes inside its bin; the records of a bin are spread evenly over them."""
    columns = []
    for labels, bins in zip(grid.labels, np.unravel_index(drawn, grid.coarse.sizes), strict=True):
        widths = np.bincount(labels)
        first = np.cumsum(widths) - widths
        order = np.argsort(bins, kind="stable")
        many = np.bincount(bins, minlength=len(widths))
        rank = np.empty(len(bins), dtype=np.int64)
        rank[order] = np.arange(len(bins)) - np.repeat(np.cumsum(many) - many, many)
        columns.append(first[bins] + (2 * rank + 1) * widths[bins] // (2 * many[bins]))
    return np.stack(columns, axis=1)
