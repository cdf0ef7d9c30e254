"""Noisy distances from independence for many pairs of columns, in one look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Noise, gap_sensitivity, independence_gap, scalar_noise
from understudy.marginals import Statistic, in_batches
from understudy.privacy import Accounting, Unit
from understudy.schema import Clique

_CELLS_AT_ONCE = 20_000_000
"""Pairs are counted in batches of so many cells; only one number of each is kept."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Released distances from independence, in rows, one per pair."""

    pairs: tuple[Clique, ...]
    values: npt.NDArray[np.float64]

    @property
    def statistic(self) -> Statistic:
        """The numbers as they are kept in a model file."""
        return Statistic(f"distance from independence of {len(self.pairs)} pairs", self.values, "mechanism")


def gap_noises(accounting: Accounting, unit: Unit, cost: float, pairs: int) -> Noise:
    """Return the noise of each of several distances that share a cost equally, from public facts alone.

    Examples
    --------
    >>> from understudy.privacy import PURE
    >>> round(gap_noises(PURE, Unit.add_remove(), 1.0, 10).scale, 2)
    40.0
    """
    share = accounting.split(cost, [1.0] * pairs)[0]
    return scalar_noise(accounting, share, gap_sensitivity(unit))


def measure_gaps(curator: Curator, pairs: Sequence[Clique], cost: float) -> Gaps:
    """Measure how far each pair of columns is from independent.

    Privacy
    -------
    In: private. Out: releasable. One number per pair, moved by at most 4 rows (6 for a replaced record) by one row
    (:mod:`understudy.curator.independence`), each with noise for an equal share of ``cost``, charged together before any is
    drawn.
    """
    sealed = [
        independence_gap(counts)
        for batch in in_batches(pairs, curator.domain.cells, most=_CELLS_AT_ONCE)
        for counts in curator.counts_many(batch)
    ]
    noise = gap_noises(curator.accounting, curator.unit, cost, len(pairs))
    values = curator.measure_scalars(
        sealed, noise=[noise] * len(pairs), purpose=f"measure the dependence of {len(pairs)} pairs of columns"
    )
    return Gaps(tuple(pairs), np.array(values))
