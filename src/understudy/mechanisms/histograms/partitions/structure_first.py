"""StructureFirst: buckets chosen by the exponential mechanism, then measured (Xu et al. 2013)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from understudy.curator import Curator
from understudy.errors import BudgetError
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.mechanisms.histograms.bins import check_post_processing
from understudy.mechanisms.histograms.partitions.look import SealedBuckets
from understudy.mechanisms.histograms.partitions.partition import Line, check_cells, fit_buckets, line_of
from understudy.mechanisms.options import at_least, refuse, shares, unused
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Unit, noise_for
from understudy.schema import Schema

_MOST_BUCKETS = 64


@dataclass(frozen=True, kw_only=True)
class StructureFirst(Synthesizer):
    """Choose where buckets begin, from the last to the first, then measure one count per bucket.

    With ``k`` buckets there are ``k - 1`` choices. Each picks the first cell of the last bucket of the cells that are
    left, with a probability that falls exponentially in the error of the best partition that begins the last bucket
    there (dynamic programming over the exact counts, inside the curator).

    Parameters
    ----------
    buckets
        Number of buckets. By default it is chosen by the exponential mechanism among 1, 2, 4, ..., 64 and one bucket per
        cell, so that the error vanishes as the budget grows; with a fixed number it does not.
    max_count
        By default choices are scored by the *root* of the squared error, which one row changes by at most one. With a
        number here they are scored by the squared error of counts capped at it, as in the paper: one row then
        changes a score by almost twice that number.
    structure_share
        Share of the budget for choosing where buckets begin.
    number_share
        Share of the budget for choosing how many there are, if that is not given.
    bins, max_bins, post_processing
        As for ``noise-first``.

    Privacy
    -------
    Up to ``k`` looks before the last. (1) The number of buckets, by one exponential mechanism over the errors of the best
    partitions plus public terms. (2) ``k - 1`` choices of a cut, each with an equal part of ``structure_share``; which
    cuts are possible depends on earlier choices only. One unit moves a root squared error by at most
    ``histogram_l2``, a squared error of counts capped at ``F`` by at most ``(2F - 1) histogram_l1``; the paper's bound
    ``2 (2F + 1)`` needs the largest count, which is private (:mod:`understudy.mechanisms.histograms.partitions.look`). (3) The bucket counts,
    a partition of the records, with all that is left. Where one bucket, or one per cell, was chosen, there is nothing
    to cut and (3) gets the share of (2). Costs add up adaptively; spreading counts evenly is post-processing.

    Examples
    --------
    >>> StructureFirst(buckets=8).structure_share
    0.4
    """

    name: ClassVar[str] = "structure-first"
    summary: ClassVar[str] = "buckets of one ordered column chosen privately, then measured"
    source: ClassVar[Source] = Source(
        law="exponential mechanism for the buckets; Laplace or Gaussian on their counts",
        papers={Paper.DIPS: "section 3.1.3"},
        origin="Xu et al. 2013",
    )

    buckets: int | None = None
    max_count: int | None = None
    structure_share: float = 0.4
    number_share: float = 0.1
    bins: int | str = "schema"
    max_bins: int = 4_096
    post_processing: str = "simplex"

    def __post_init__(self) -> None:
        refuse(
            at_least(self, 1, "buckets", "max_count", optional=True),
            shares(self, "structure_share", "number_share"),
            []
            if self.buckets is None
            else unused(self, "number_share", because="buckets says how many there are"),
        )
        if not self.structure_share + self.number_share < 1:
            raise BudgetError("structure_share and number_share must leave something for the counts.")
        check_cells(self.bins, self.max_bins)
        check_post_processing(self.post_processing)

    def trial(self) -> StructureFirst:
        """Return one that cuts whatever it sees: two buckets at most would leave half of it untried."""
        return StructureFirst(buckets=3)

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of one bucket."""
        line = line_of(schema, bins=self.bins, max_bins=self.max_bins, method=self.name)
        return total_deviation([(1, noise_for(accounting, unit, self._costs(accounting, cost, line)[2]))])

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how the budget is divided between structure and counts, or why the table cannot be served."""
        line = line_of(schema, bins=self.bins, max_bins=self.max_bins, method=self.name)
        self._require(line)
        accounting = self.accounting(budget, schema, unit)
        number, structure, counts = self._costs(accounting, accounting.total(budget), line)
        noise = noise_for(accounting, unit, counts)
        most = max(self._candidates(line))
        how = (
            f"{self.buckets} buckets"
            if number == 0
            else f"a number of buckets chosen from {', '.join(map(str, self._candidates(line)))}"
        )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(PlannedMeasurement(schema.domain.names, most, noise),),
            model_cells=line.cells,
            notes=(
                f"{how[0].upper()}{how[1:]} of {line.ordered} bins; cuts cost {structure:.4g} ({accounting.symbol}) "
                f"in all, bucket counts get {noise.kind} noise of scale {noise.scale:.4g} rows or less.",
            ),
        )

    def _require(self, line: Line) -> None:
        if self.buckets is not None and self.buckets > line.ordered:
            raise BudgetError(
                f"buckets ({self.buckets}) is more than the {line.ordered} bins there are to be cut. "
                "Ask for fewer, or leave it out."
            )

    def _candidates(self, line: Line) -> list[int]:
        """Return the numbers of buckets that may be used, smallest first."""
        if self.buckets is not None:
            return [self.buckets]
        powers = [2**i for i in range(_MOST_BUCKETS.bit_length()) if 2**i < line.ordered]
        return [*powers, line.ordered]

    def _costs(self, accounting: Accounting, total: float, line: Line) -> tuple[float, float, float]:
        """Return what the number of buckets, the cuts and the counts may cost."""
        counts = 1 - self.structure_share - self.number_share
        candidates = self._candidates(line)
        if len(candidates) > 1:
            number, structure, rest = accounting.split(
                total, [self.number_share, self.structure_share, counts]
            )
            return number, structure, rest
        if candidates[0] in (1, line.ordered):
            return 0.0, 0.0, total
        structure, rest = accounting.split(total, [self.structure_share, 1 - self.structure_share])
        return 0.0, structure, rest

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        line = line_of(curator.schema, bins=self.bins, max_bins=self.max_bins, method=self.name)
        candidates = self._candidates(line)
        number, structure, counts = self._costs(curator.accounting, curator.remaining, line)
        progress("counting", 0.0)
        sealed = line.grid.seal(curator)
        progress("partitioning", 0.1)
        errors = SealedBuckets(
            sealed,
            cells=line.ordered,
            buckets=max([k for k in candidates if k < line.ordered], default=1),
            max_count=self.max_count,
        )
        progress("choosing", 0.6)
        k = candidates[0]
        if len(candidates) > 1:
            k = self._choose_number(curator, errors, candidates, number, structure, counts)
        starts = self._choose_starts(curator, errors, k, structure)
        return fit_buckets(curator, line, sealed, starts, how=self.post_processing, progress=progress)

    def _choose_number(
        self,
        curator: Curator,
        errors: SealedBuckets,
        candidates: list[int],
        number: float,
        structure: float,
        counts: float,
    ) -> int:
        """Choose how many buckets: few enough for noise and cuts, enough for the shape."""
        accounting = curator.accounting
        variance = noise_for(accounting, curator.unit, counts).variance
        squared = self.max_count is not None
        scores = []
        for k, error in zip(candidates, errors.totals(candidates), strict=True):
            # k counts of this variance, each spread over about cells / k cells
            extra = k * math.sqrt(variance / errors.cells)
            extra = extra**2 if squared else extra
            if 1 < k < errors.cells:
                each = accounting.selection_epsilon(accounting.split(structure, [1.0] * (k - 1))[0])
                extra += (k - 1 if squared else math.sqrt(k - 1)) * 2 * errors.sensitivity / each
            scores.append(error.shifted(extra).scaled(-1.0))
        chosen = curator.choose(
            scores,
            epsilon=accounting.selection_epsilon(number),
            purpose=f"choose a number of buckets from {len(candidates)}",
        )
        return candidates[chosen]

    def _choose_starts(self, curator: Curator, errors: SealedBuckets, buckets: int, cost: float) -> list[int]:
        """Choose the first cell of every bucket, from the last bucket to the second."""
        if buckets == errors.cells:
            return list(range(buckets))
        starts: list[int] = []
        end = errors.cells
        costs = curator.accounting.split(cost, [1.0] * (buckets - 1)) if buckets > 1 else []
        for left, share in zip(range(buckets, 1, -1), costs, strict=True):
            scores = [error.scaled(-1.0) for error in errors.last_bucket(end=end, buckets=left)]
            chosen = curator.choose(
                scores,
                epsilon=curator.accounting.selection_epsilon(share),
                purpose=f"choose where bucket {left} of {buckets} begins",
            )
            end = left - 1 + chosen
            starts.append(end)
        return [0, *starts[::-1]]
