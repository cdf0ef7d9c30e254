"""The perturbed histogram: noise on the bins of a table (paper DIPS, equation 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.curator import Curator
from understudy.inference import History
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.mechanisms.histograms.bins import (
    Grid,
    check_bins,
    check_post_processing,
    choose_grid,
    large,
    legitimate,
    planned_grids,
)
from understudy.mechanisms.options import at_least, refuse, shares, unused
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Schema


@dataclass(frozen=True, kw_only=True)
class PerturbedHistogram(Synthesizer):
    """Add noise to every bin of the joint histogram of all columns and draw values evenly inside the bins.

    Parameters
    ----------
    bins
        ``"schema"`` (default): every code of the schema is a bin. A number: adjacent values of every ordered
        column are merged into that many bins. ``"private"``: the number is chosen among powers of two by
        the exponential mechanism, with ``bins_share`` of the budget.
    bins_share
        Share of the budget that a private choice of bins costs.
    post_processing
        ``"simplex"`` (default): the closest table without negative counts and with the right total.
        ``"zero-truncation"``: negative counts become zero, as in the paper. ``"boundary-inflated"``: counts are
        cut to between zero and the number of rows.
    max_cells
        Largest histogram that will be enumerated.

    Privacy
    -------
    The bins are a partition of all possible rows that is public, or chosen by an exponential mechanism that has
    been charged. One unit changes their counts by at most ``histogram_l1`` in L1 and ``histogram_l2`` in L2.
    Discrete Laplace noise of scale ``l1 / epsilon`` on every bin is ``epsilon``-DP; under the other budgets the noise
    is Gaussian with the scale that the remaining cost allows. Choice and measurement compose. Empty bins get
    noise like all others; the rest is post-processing. The paper's ``Delta = 1`` holds for adding or removing
    a row only; replacing one needs 2, and gets it.

    Examples
    --------
    >>> PerturbedHistogram(bins=16).name
    'perturbed-histogram'
    """

    name: ClassVar[str] = "perturbed-histogram"
    summary: ClassVar[str] = (
        "noise on every bin of the joint histogram; bins from the schema, given or chosen privately"
    )
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on every bin; exponential mechanism for private bins",
        papers={Paper.DIPS: "section 3.1.2, equation (3.1)"},
        origin="Wasserman and Zhou 2010",
    )

    bins: int | str = "schema"
    bins_share: float = 0.1
    post_processing: str = "simplex"
    max_cells: int = 10_000_000

    def __post_init__(self) -> None:
        refuse(
            shares(self, "bins_share"),
            at_least(self, 1, "max_cells"),
            [] if self.bins == "private" else unused(self, "bins_share", because="bins is not private"),
        )
        check_bins(self.bins)
        check_post_processing(self.post_processing)

    def _grids(self, schema: Schema) -> list[Grid]:
        return planned_grids(schema, bins=self.bins, max_cells=self.max_cells, method=self.name)

    def _design(
        self, grids: list[Grid], unit: Unit, accounting: Accounting, total: float
    ) -> tuple[float, Noise]:
        """Return the cost of choosing bins (zero where there is no choice) and the noise of every bin."""
        if len(grids) == 1:
            return 0.0, noise_for(accounting, unit, total)
        choosing, measuring = accounting.split(total, [self.bins_share, 1 - self.bins_share])
        return choosing, noise_for(accounting, unit, measuring)

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of one bin."""
        return total_deviation([(1, self._design(self._grids(schema), unit, accounting, cost)[1])])

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how noisy each bin will be, or that there are too many."""
        accounting = self.accounting(budget, schema, unit)
        grids = self._grids(schema)
        _, noise = self._design(grids, unit, accounting, accounting.total(budget))
        notes = [f"Bins with fewer than about {3 * noise.scale:.0f} records will be hard to tell from noise."]
        if len(grids) > 1:
            notes.append(
                f"One of {len(grids)} sets of bins, from {large(grids[0].cells)} to {large(grids[-1].cells)} cells, "
                f"will be chosen with {self.bins_share:.0%} of the budget."
            )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(PlannedMeasurement(schema.domain.names, grids[-1].cells, noise),),
            model_cells=grids[-1].cells,
            notes=tuple(notes),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        grids = self._grids(curator.schema)
        choosing, noise = self._design(grids, curator.unit, curator.accounting, curator.remaining)
        progress("choosing bins", 0.1)
        grid = choose_grid(curator, grids, cost=choosing, noise=noise)
        progress("measuring", 0.4)
        measured = curator.measure(
            grid.seal(curator), noise=noise, purpose=f"measure a histogram of {large(grid.cells)} bins"
        )
        progress("post-processing", 0.8)
        cells = legitimate(measured.values, curator.rows.number, how=self.post_processing)
        measurements, statistics = grid.released(measured)
        progress("done", 1.0)
        return Fitted(
            grid.distribution(cells),
            measurements,
            history=History.planned(len(measurements)),
            statistics=statistics,
        )
