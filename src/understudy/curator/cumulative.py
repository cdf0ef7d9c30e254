"""The exponential mechanism over step functions: synthetic distribution functions near the empirical one.

Wasserman and Zhou (2010) release a synthetic data set ``x`` with probability proportional to
``exp(-epsilon n KS(F, F_x) / 2)``, where ``KS`` is the largest distance between the two distribution functions (paper
DIPS, equation 3.4). Paper DIPS calls it infeasible, since there are so many data sets. On a grid of ``K`` bins it is not: a
data set is a monotone path of cumulative numbers ``0 <= x_1 <= ... <= x_{K-1} <= m``, the distance is the largest of ``K - 1``
deviations, and paths inside a band around ``F`` are counted by adding up from left to right.

**Score.** Every record stands for ``q`` rows. With cumulative counts ``C_j`` of the real table the deviation of a path is
``r = max_j |C_j - q x_j|``, a whole number of rows, and ``n KS`` where ``q m = n``. One unit of up to ``k`` rows, joined, left or
exchanged, moves every ``C_j`` by at most ``k``, hence ``r`` by at most ``k``, and nothing depends on the number of rows. The
level of a path is ``s = min(ceil(r / w), R)`` with a public width ``w`` of levels (one row unless there would be too many)
and a public cap ``R``; it moves by at most ``ceil(k / w)``. Weights ``exp(-gamma s)`` with ``gamma = epsilon / (2 ceil(k / w))``
are an exponential mechanism: ``epsilon``-DP and of bounded range ``epsilon``.

**Drawing.** ``exp(-gamma s)`` is the sum of ``exp(-gamma t) (1 - exp(-gamma))`` over levels ``t`` from ``s`` to ``R - 1`` and of
``exp(-gamma R)``. So: choose a level ``t`` with these weights times the number of paths of level at most ``t``, then one of
those paths, all equally likely. The level is forgotten.

**Numbers.** Numbers of paths are sums of positive numbers, at most ``e**600``; in double precision every one is within
``K m 2**-53 < 2**-30`` of the truth, relatively. Logarithms of weights are rounded to ``2**-20``. Each weight, hence each
unnormalised probability of a path, is thus within a factor ``exp(±2**-20)`` of the exact mechanism, and log-ratios between
neighbours, and their range, within ``4 * 2**-20 = 2**-18``. That much is added to what is charged. The path given the level
is drawn with whole numbers of any size, exactly.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from understudy.curator.curator import Curator
from understudy.curator.sealed import SealedCounts
from understudy.errors import BudgetError
from understudy.privacy import Randomness, SelectionEvent, Unit, exponential_mechanism
from understudy.privacy.randomness import BitReader

Ints = npt.NDArray[np.int64]

MAX_BINS = 256
MAX_RECORDS = 4_096
SLACK = 2.0**-18
"""What double precision may add to the cost of a choice."""

_MAX_LOG_PATHS = 600.0
_MAX_LEVELS = 50_000
_FINE = 16.0


def log_paths(bins: int, records: int) -> float:
    """Return the logarithm of the number of data sets of some records on some bins."""
    return math.lgamma(records + bins) - math.lgamma(bins) - math.lgamma(records + 1)


@dataclass(frozen=True)
class PathDesign:
    """The public numbers of one choice: records, the rows each stands for, and the levels of deviation.

    Examples
    --------
    >>> design = PathDesign.of(Unit.add_remove(), epsilon=1.0, bins=16, rows=1000)
    >>> design.weight, design.records, design.width
    (2, 500, 1)
    """

    epsilon: float
    weight: int
    records: int
    width: int
    levels: int
    rows_per_unit: int

    @classmethod
    def of(cls, unit: Unit, *, epsilon: float, bins: int, rows: int) -> PathDesign:
        """Return the design for a public or measured number of rows.

        Records stand for a sixteenth of the deviation to be expected, so that rounding to whole records does
        little harm, and for more where there would be more than 4,096 of them.
        """
        if not 2 <= bins <= MAX_BINS:
            raise BudgetError(f"A distribution function needs a grid of 2 to {MAX_BINS} bins, not {bins}.")
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise BudgetError(f"epsilon ({epsilon}) of a choice must be positive and finite.")
        most = MAX_RECORDS
        while log_paths(bins, most) > _MAX_LOG_PATHS:
            most //= 2
        k = unit.max_rows
        rows = max(1, rows)
        weight = max(1, math.ceil(rows / most), int(2 * bins * k / epsilon / _FINE))
        weight = min(weight, max(1, rows // 8))
        records = min(most, max(1, round(rows / weight)))
        # some path is within a record or so; beyond that, e**-30 of the probability may lie outside all bands
        reach = 2.0 * weight + (log_paths(bins, records) + 30.0) * 2 * k / epsilon
        reach = min(reach, float(weight * (records + 1)))
        width = max(1, math.ceil(reach / _MAX_LEVELS))
        return cls(epsilon, weight, records, width, math.ceil(reach / width), k)

    @property
    def gamma(self) -> float:
        """What one level takes off the logarithm of a probability, rounded down."""
        return self.epsilon / (2 * math.ceil(self.rows_per_unit / self.width)) * (1 - 2.0**-40)

    @property
    def event(self) -> SelectionEvent:
        """What the choice means for privacy."""
        return SelectionEvent(self.epsilon + SLACK)


def choose_path(curator: Curator, sealed: SealedCounts, design: PathDesign, *, purpose: str) -> Ints:
    """Choose a synthetic data set by the exponential mechanism, and charge first.

    Returns
    -------
    array of ints
        The number of records in each bin; they add up to ``design.records``.

    Privacy
    -------
    In: private. Out: releasable at the cost of ``design.event``. Proof in the module.
    """
    if sealed._unit.max_rows != design.rows_per_unit or len(sealed.shape) != 1:
        raise BudgetError(
            "The choice was designed for another unit, or the counts are not those of one column."
        )
    ends = np.cumsum(sealed._exact.astype(np.int64))[:-1]

    def draw() -> Ints:
        level = _choose_level(ends, design, curator._randomness)
        path = _uniform_path(*_band(ends, level, design), BitReader(curator._randomness))
        marks = np.array([0, *path, design.records], dtype=np.int64)
        return marks[1:] - marks[:-1]

    found: Ints = curator._answer(
        design.event, purpose=purpose, about=[sealed.clique, sealed.shape, design.records], draw=draw
    )
    return found


def _band(ends: Ints, level: int, design: PathDesign) -> tuple[list[int], list[int]]:
    """Return the smallest and largest cumulative number of records of each end, for a level."""
    if level >= design.levels:
        return [0] * len(ends), [design.records] * len(ends)
    q, reach = design.weight, level * design.width
    low = np.maximum(-((reach - ends) // q), 0)
    high = np.minimum((ends + reach) // q, design.records)
    return low.tolist(), high.tolist()


def log_weights(ends: Ints, design: PathDesign) -> npt.NDArray[np.float64]:
    """Return the logarithm of the weight of every level from 0 to the cap; minus infinity where no path fits."""
    from understudy.curator._cumulative_kernels import count_paths

    counts = np.zeros(design.levels + 1)
    count_paths(ends, design.weight, design.records, design.width, counts)
    levels = np.arange(design.levels + 1)
    with np.errstate(divide="ignore"):
        weights = np.log(counts) - design.gamma * levels
    weights[:-1] += math.log(-math.expm1(-design.gamma))
    return np.asarray(weights, dtype=np.float64)


def _choose_level(ends: Ints, design: PathDesign, randomness: Randomness) -> int:
    """Draw a level with its weight; the grid of the sampler is exactly ``2**-20`` with these parameters."""
    weights = log_weights(ends, design)
    possible = np.flatnonzero(np.isfinite(weights))
    scores = weights[possible] - weights[possible].max()
    chosen = exponential_mechanism(
        scores, epsilon=2.0 + 2.0**-19, sensitivity=1.0, score_error=0.0, randomness=randomness
    )
    return int(possible[chosen])


def _uniform_path(low: list[int], high: list[int], reader: BitReader) -> list[int]:
    """Draw an ascending sequence with ``low_j <= x_j <= high_j``, all of them equally likely.

    Numbers of sequences that end in each value are added up from left to right in whole numbers; the last
    value is drawn in proportion to them, then the one before among those not above it, and so on.
    """
    ways: list[list[int]] = [[1] * (high[0] - low[0] + 1)]
    for j in range(1, len(low)):
        sums = list(accumulate(ways[-1]))
        start, stop = low[j - 1], high[j - 1]
        ways.append([sums[min(x, stop) - start] if x >= start else 0 for x in range(low[j], high[j] + 1)])
    path: list[int] = []
    limit = high[-1]
    for j in range(len(low) - 1, -1, -1):
        sums = list(accumulate(ways[j][: limit - low[j] + 1]))
        limit = low[j] + bisect_right(sums, reader.below(sums[-1]))
        path.append(limit)
    return path[::-1]
