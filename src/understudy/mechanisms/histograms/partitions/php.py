"""P-HPartition: ranges bisected by the exponential mechanism, level by level (Acs et al. 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.curator import Curator, SealedCounts
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.mechanisms.histograms.bins import check_post_processing
from understudy.mechanisms.histograms.partitions.look import bisect_ranges
from understudy.mechanisms.histograms.partitions.partition import Line, check_cells, fit_buckets, line_of
from understudy.mechanisms.options import at_least, refuse, shares
from understudy.mechanisms.rounds import expected_absolute_noise
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Unit, noise_for
from understudy.schema import Schema


@dataclass(frozen=True, kw_only=True)
class PHPartition(Synthesizer):
    """Cut the column in two where its counts change most, cut the halves again, and measure what remains whole.

    At each level every bucket that is not final is cut once or left whole for good. The choice minimises, up to the
    randomness of the exponential mechanism, the absolute deviations of counts from the mean of their bucket plus
    the noise that each bucket will get.

    Parameters
    ----------
    levels
        How often buckets are cut at most; by default half the logarithm of the number of bins to base two, rounded up.
    structure_share
        Share of the budget for the cuts, divided equally over the levels. Levels that are not needed because all
        buckets are final leave their part to the counts.
    singles
        Whether a bucket may fall apart into its single bins at the last level, which the paper does not offer. Without it
        the error does not vanish as the budget grows, since a few levels of lopsided cuts cannot separate all bins.
    bins, max_bins, post_processing
        As for ``noise-first``.

    Privacy
    -------
    (1) All cuts of one level are one exponential mechanism: buckets are disjoint, so the sum of their absolute
    deviations moves by less than ``2 histogram_l1``, and the joint choice splits into one draw per bucket
    (:func:`~understudy.mechanisms.histograms.partitions.look.bisect_ranges`); replacing a row that leaves one bucket and enters another needs no
    further factor. (2) The counts of the final buckets, a partition of the records, get all that is left. Levels and
    counts compose adaptively. The rest is post-processing.

    Examples
    --------
    >>> PHPartition(levels=5).name
    'p-hp'
    """

    name: ClassVar[str] = "p-hp"
    summary: ClassVar[str] = "one ordered column bisected privately, level by level, then measured"
    source: ClassVar[Source] = Source(
        law="exponential mechanism for the cuts; Laplace or Gaussian on the counts between them",
        papers={Paper.DIPS: "section 3.1.3"},
        origin="Acs, Castelluccia and Chen 2012",
    )

    levels: int | None = None
    structure_share: float = 0.3
    singles: bool = True
    bins: int | str = "schema"
    max_bins: int = 4_096
    post_processing: str = "simplex"

    def __post_init__(self) -> None:
        refuse(at_least(self, 1, "levels", optional=True), shares(self, "structure_share"))
        check_cells(self.bins, self.max_bins)
        check_post_processing(self.post_processing)

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of one bucket."""
        line = line_of(schema, bins=self.bins, max_bins=self.max_bins, method=self.name)
        return total_deviation([(1, noise_for(accounting, unit, self._costs(accounting, cost, line)[1]))])

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how many levels there are and how noisy buckets will be, or why the table cannot be served."""
        line = line_of(schema, bins=self.bins, max_bins=self.max_bins, method=self.name)
        accounting = self.accounting(budget, schema, unit)
        levels, counts = self._costs(accounting, accounting.total(budget), line)
        noise = noise_for(accounting, unit, counts)
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(
                PlannedMeasurement(
                    schema.domain.names,
                    line.cells if self.singles else min(line.cells, 2 ** len(levels)),
                    noise,
                ),
            ),
            model_cells=line.cells,
            notes=(
                f"{line.ordered} bins are bisected over up to {len(levels)} levels; buckets are then measured with "
                f"{noise.kind} noise of scale {noise.scale:.4g} rows or less.",
            ),
        )

    def _costs(self, accounting: Accounting, total: float, line: Line) -> tuple[list[float], float]:
        """Return what each level and the counts may cost."""
        levels = ((line.ordered - 1).bit_length() + 1) // 2 if self.levels is None else self.levels
        if line.ordered == 1:
            return [], total
        structure, counts = accounting.split(total, [self.structure_share, 1 - self.structure_share])
        return list(accounting.split(structure, [1.0] * levels)), counts

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        line = line_of(curator.schema, bins=self.bins, max_bins=self.max_bins, method=self.name)
        progress("counting", 0.1)
        sealed = line.grid.seal(curator)
        progress("cutting", 0.3)
        starts = self._cut(curator, line, sealed)
        return fit_buckets(curator, line, sealed, starts, how=self.post_processing, progress=progress)

    def _cut(self, curator: Curator, line: Line, sealed: SealedCounts) -> list[int]:
        """Return the first cell of every final bucket."""
        accounting = curator.accounting
        levels, counts = self._costs(accounting, curator.remaining, line)
        price = expected_absolute_noise(noise_for(accounting, curator.unit, counts))
        starts = [0]
        active = [(0, line.ordered)] if line.ordered > 1 else []
        for level, cost in enumerate(levels):
            if not active:
                break
            cuts = bisect_ranges(
                curator,
                sealed,
                active,
                price=price,
                epsilon=accounting.selection_epsilon(cost),
                singles=self.singles and level + 1 == len(levels),
                purpose=f"cut {len(active)} buckets at level {level + 1}",
            )
            starts += [start for new in cuts for start in new]
            halves = [
                half
                for (first, end), new in zip(active, cuts, strict=True)
                if len(new) == 1
                for half in ((first, new[0]), (new[0], end))
            ]
            active = [(first, end) for first, end in halves if end - first > 1]
        return sorted(starts)
