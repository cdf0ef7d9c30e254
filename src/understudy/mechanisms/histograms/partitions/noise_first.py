"""NoiseFirst: noisy bins merged into the buckets that make their estimated error smallest (Xu et al. 2013)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

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
from understudy.mechanisms.histograms.bins import check_post_processing
from understudy.mechanisms.histograms.partitions.partition import best_buckets, check_cells, line_of
from understudy.mechanisms.options import one_of, refuse
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Unit, noise_for
from understudy.schema import Schema

Array = npt.NDArray[np.float64]

PENALTIES = ("search", "paper")


@dataclass(frozen=True, kw_only=True)
class NoiseFirst(Synthesizer):
    """Measure every bin of an ordered column, then merge neighbours that the noise cannot tell apart.

    Averaging ``k`` buckets of ``N`` noisy bins removes noise and adds the error of treating a bucket as flat. If the
    buckets were fixed, the expected squared error would be ``SSE + (2k - N) v``, where ``SSE`` is the squared error
    of the noisy bins around their bucket means and ``v`` the variance of the noise. The method takes the
    buckets, of any number, that minimise this estimate; dynamic programming finds them exactly.

    Parameters
    ----------
    penalty
        What a bucket costs in the minimisation. ``"paper"``: ``2 v``, as printed; since the buckets are chosen on the
        noisy bins, and the best of about ``N`` places for a cut fits noise, that merges far too little.
        ``"search"`` (default): ``2 v ln N``, which makes up for the search.
    bins
        ``"schema"``, or a number of bins that adjacent values are merged into first.
    max_bins
        Largest number of bins; time grows with its square.
    post_processing
        How negative counts are removed, as for ``perturbed-histogram``.

    Privacy
    -------
    The bins partition the records. They are measured once with the whole budget: Laplace noise of scale
    ``l1 / epsilon`` under pure budgets, Gaussian noise of scale ``l2 / mu`` otherwise. Buckets and means are computed
    from noisy bins and the public scale: post-processing.

    Examples
    --------
    >>> NoiseFirst(penalty="paper").name
    'noise-first'
    """

    name: ClassVar[str] = "noise-first"
    summary: ClassVar[str] = "noisy bins of one ordered column, merged into the best buckets afterwards"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on every bin",
        papers={Paper.DIPS: "section 3.1.3"},
        origin="Xu et al. 2013",
    )

    penalty: str = "search"
    bins: int | str = "schema"
    max_bins: int = 8_192
    post_processing: str = "simplex"

    def __post_init__(self) -> None:
        refuse(one_of(self, "penalty", PENALTIES))
        check_cells(self.bins, self.max_bins)
        check_post_processing(self.post_processing)

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of one bin."""
        return total_deviation([(1, noise_for(accounting, unit, cost))])

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how noisy each bin will be, or why the table cannot be served."""
        line = line_of(schema, bins=self.bins, max_bins=self.max_bins, method=self.name)
        accounting = self.accounting(budget, schema, unit)
        noise = noise_for(accounting, unit, accounting.total(budget))
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(PlannedMeasurement(schema.domain.names, line.cells, noise),),
            model_cells=line.cells,
            notes=(
                f"{line.cells} bins are measured with {noise.kind} noise of scale {noise.scale:.4g} rows; "
                "then adjacent bins that the noise cannot tell apart share their mean.",
            ),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        line = line_of(curator.schema, bins=self.bins, max_bins=self.max_bins, method=self.name)
        noise = noise_for(curator.accounting, curator.unit, curator.remaining)
        progress("counting", 0.1)
        sealed = line.grid.seal(curator)
        progress("measuring", 0.4)
        measured = curator.measure(sealed, noise=noise, purpose=f"measure {line.cells} bins")
        progress("merging", 0.6)
        starts = best_buckets(measured.values[: line.ordered], self._price(line.ordered, measured.variance))
        sums: Array = np.bincount(line.labels(starts), weights=measured.values).astype(np.float64)
        distribution = line.distribution(curator, line.even(starts, sums), how=self.post_processing)
        measurements, statistics = line.grid.released(measured)
        progress("done", 1.0)
        return Fitted(
            distribution,
            measurements,
            history=History.planned(len(measurements)),
            statistics=statistics,
        )

    def _price(self, cells: int, variance: float) -> float:
        """Return the penalty of one bucket."""
        return 2.0 * variance * (math.log(cells) if self.penalty == "search" and cells > 2 else 1.0)
