"""Looks at histograms: what coarse bins hide, counts in ascending order, records from smoothed bins, and synthetic
distribution functions near the empirical one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, SealedCounts, SealedScalar
from understudy.curator.sealed import require_seals
from understudy.errors import BudgetError
from understudy.privacy import Accounting, Event, Unit
from understudy.privacy.events import PureEvent, SelectionEvent
from understudy.privacy.exact_floats import float_up
from understudy.privacy.noise.randomness import BitReader, Randomness, below_many
from understudy.privacy.noise.selection import exponential_mechanism
from understudy.privacy.own import own

# Compiled counting of monotone paths inside bands. Exact inputs are private; only the curator calls this.


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

    def check(self, bins: int) -> None:
        """Refuse numbers that :func:`choose_path` proves nothing for: counts of paths that a double does not hold, levels without a width."""
        whole = (self.weight, self.records, self.width, self.levels)
        held = all(isinstance(number, int) and 1 <= number < 1 << 53 for number in whole)
        held = held and bins <= MAX_BINS and self.records <= MAX_RECORDS and self.levels <= _MAX_LEVELS
        if not (held and 0 < self.epsilon < math.inf) or log_paths(bins, self.records) > _MAX_LOG_PATHS:
            raise BudgetError(
                "This is no design of a choice among distribution functions; see PathDesign.of."
            )

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
    In: private. Out: releasable at the cost of ``design.event``.

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
    design = own(design, PathDesign)
    require_seals([sealed], SealedCounts)
    if sealed._unit.max_rows != design.rows_per_unit or len(sealed.shape) != 1:
        raise BudgetError(
            "The choice was designed for another unit, or the counts are not those of one column."
        )
    design.check(sealed.shape[0])
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

    from understudy.mechanisms.histograms.kernels import count_paths

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


_PSEUDO_BITS = 20
"""Pseudo-counts are whole multiples of ``2**-20`` rows."""

MAX_SMOOTHED = 20_000
"""Most records one smoothed histogram gives: each is an act of its own in the ledger."""


def spread_error(sealed: SealedCounts, labels: Sequence[npt.ArrayLike]) -> SealedScalar:
    """Return how many rows coarser bins misplace: the L1 distance of counts to themselves, evened out in each bin.

    Parameters
    ----------
    sealed
        Exact counts. Private.
    labels
        For each axis the public bin of each entry.

    Privacy
    -------
    In: private. Out: under seal. Let ``S`` replace every cell by the mean of its bin. ``c - S c`` is linear in the
    counts. One row in a cell whose bin has ``w`` cells adds ``1 - 1/w`` there and ``-1/w`` in each of the
    ``w - 1`` others: ``2 (1 - 1/w)`` in L1, largest for the widest bin. The L1 norm moves by at most as much
    (triangle inequality), ``max_rows`` times as much for a unit of several rows, and replacing is one removal and
    one addition. So the sensitivity is ``2 (1 - 1/w)`` times ``Unit.histogram_l1``. The distance is exact: ``|w c - S|`` is a whole number
    for a cell of a bin of ``w`` cells that hold ``S`` rows, and these are added for each width by itself.

    Examples
    --------
    >>> from understudy.privacy import Unit
    >>> from understudy.schema import Domain
    >>> counts = SealedCounts(np.array([3, 1, 0, 0]), clique=("a",), domain=Domain(("a",), (4,)),
    ...                       unit=Unit.add_remove(), known_rows=None)
    >>> spread_error(counts, [[0, 0, 1, 1]]).sensitivity
    1.0
    """
    table = sealed._exact
    cells = math.prod(table.shape)
    # a bin has at most all cells, so whole numbers of 64 bits do unless rows times cells squared is vast
    kind = np.int64 if sealed._total * cells * 2 < 1 << 62 else object
    widest = 1
    sums_of_bins: npt.NDArray[Any] = table.astype(kind)
    width_of_bin = np.ones(table.shape, dtype=np.int64)
    if len(labels) != table.ndim:
        raise BudgetError(f"Bins are needed for {table.ndim} axes; got {len(labels)}.")
    for axis, given in enumerate(labels):
        which = np.asarray(given, dtype=np.int64)
        if which.shape != (table.shape[axis],) or which.min(initial=0) < 0:
            raise BudgetError(f"The bins of axis {axis} must be {table.shape[axis]} numbers, not negative.")
        widths = np.bincount(which)
        widest *= int(widths.max())
        front = np.moveaxis(sums_of_bins, axis, 0)
        sums = np.zeros((len(widths), *front.shape[1:]), dtype=kind)
        np.add.at(sums, which, front)
        shape = (-1,) + (1,) * (table.ndim - 1)
        sums_of_bins = np.moveaxis(sums[which], 0, axis)
        width_of_bin = np.moveaxis(np.moveaxis(width_of_bin, axis, 0) * widths[which].reshape(shape), 0, axis)
    apart = np.abs(width_of_bin.astype(kind) * table.astype(kind) - sums_of_bins)
    error = sum(
        (Fraction(int(apart[width_of_bin == width].sum()), int(width)) for width in np.unique(width_of_bin)),
        Fraction(0),
    )
    reach = 2 * (1 - Fraction(1, widest)) * sealed._unit.histogram_l1
    return SealedScalar(error, sensitivity=float_up(reach))


def sorted_counts(sealed: SealedCounts) -> SealedCounts:
    """Return the counts in ascending order, without saying which bin each belongs to (an unattributed histogram).

    Privacy
    -------
    In: private. Out: under seal. Sorting brings no two vectors further apart in any Lp norm: if ``x_i < x_j`` and
    ``y_i > y_j``, exchanging ``y_i`` and ``y_j`` does not increase ``|x_i - y_i|^p + |x_j - y_j|^p``, and enough such
    exchanges sort ``y`` as ``x`` is sorted. So the sensitivities are those of the counts (for one added row, Hay
    et al. 2010, Proposition 3).
    """
    result = object.__new__(SealedCounts)
    result._exact = np.sort(sealed._exact, axis=None)
    result._unit, result._known_rows = sealed._unit, sealed._known_rows
    result.clique, result.shape = ("sorted counts",), result._exact.shape
    result.l1, result.l2, result.linf = sealed.l1, sealed.l2, sealed.linf
    result.cells = sealed.cells
    return result


@dataclass(frozen=True)
class Smoothing:
    """How much is added to every bin before records are drawn from it, and what each record costs.

    Parameters
    ----------
    unit
        Who is protected.
    pseudo
        Rows added to every bin, as a whole multiple of ``2**-20``.
    rows_fixed
        Whether neighbours have equally many rows.

    Privacy
    -------
    A record falls into bin ``j`` with probability ``(c_j + t) / (n + K t)``, which is equation (3.3) of paper DIPS:
    the mixture of the histogram and the uniform distribution with the weight ``lambda = K t / (n + K t)``. With
    ``t = 1 / (exp(e) - 1)`` that is the paper's ``K / (K + n (exp(e) - 1))``, so its ``epsilon`` is what *one* record
    costs times their number. ``t`` does not depend on the number of rows, which may therefore be private.

    *Adding up to k rows*, ``a_j`` of them in bin ``j``: the log-ratio is ``ln((c_j + a_j + t) / (c_j + t))`` less a
    constant that is the same for all bins. The first part lies between 0 and ``e = ln(1 + k / t)``, so the ratios have
    range ``e`` and the draw is also ``e``-DP: a draw by an exponential mechanism in the sense of
    :class:`~understudy.privacy.events.SelectionEvent`. *Replacing one row* when the number of rows stays: the constant is zero
    and the first part lies between ``-e`` and ``e``: ``e``-DP. *Replacing otherwise* is one removal and one addition:
    range ``2 e``.

    Records are independent given the table, so ``m`` of them compose: ``m`` events.

    Examples
    --------
    >>> one = Smoothing.for_epsilon(Unit.add_remove(), 0.01, rows_fixed=False)
    >>> round(one.pseudo, 2), round(one.event.epsilon, 6)
    (99.5, 0.01)
    """

    unit: Unit
    pseudo: float
    rows_fixed: bool

    @classmethod
    def for_epsilon(cls, unit: Unit, epsilon: float, *, rows_fixed: bool) -> Smoothing:
        """Return the smallest pseudo-count whose records cost at most ``epsilon`` each."""
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise BudgetError(f"epsilon ({epsilon}) of a record must be positive and finite.")
        share = epsilon / (1 if cls._single(unit, rows_fixed) else 2)
        share = min(share * (1.0 - 2.0**-40), 500.0)
        units = max(1, math.ceil(unit.max_rows / math.expm1(share) * 2.0**_PSEUDO_BITS))
        return cls(unit, units * 2.0**-_PSEUDO_BITS, rows_fixed)

    @staticmethod
    def _single(unit: Unit, rows_fixed: bool) -> bool:
        """Say whether one logarithm covers all neighbours."""
        return unit.relation == "add-remove" or (unit.max_rows == 1 and rows_fixed)

    @property
    def event(self) -> PureEvent | SelectionEvent:
        """What one record means for privacy."""
        step = math.log1p(self.unit.max_rows / self.pseudo) * (1.0 + 2.0**-48)
        if self.unit.relation == "add-remove":
            return SelectionEvent(step)
        return PureEvent(step) if self._single(self.unit, self.rows_fixed) else SelectionEvent(2.0 * step)

    @classmethod
    def affordable(
        cls, unit: Unit, accounting: Accounting, cost: float, *, records: int, rows_fixed: bool
    ) -> Smoothing:
        """Return the least smoothing with which ``records`` records cost at most ``cost`` together."""
        each = cost / records * (1.0 - 2.0**-40)
        single = cls._single(unit, rows_fixed)
        ranged = unit.relation == "add-remove" or not single
        epsilon = accounting.selection_epsilon(each) if ranged else accounting.pure_epsilon(each)
        return cls.for_epsilon(unit, epsilon, rows_fixed=rows_fixed)


def smoothed_records(
    curator: Curator, sealed: SealedCounts, smoothing: Smoothing, *, records: int, purpose: str
) -> npt.NDArray[np.int64]:
    """Draw records from a smoothed histogram, once and for all, and charge for all of them first.

    Returns
    -------
    array of ints
        The bin (flat) of each record. Nothing else about the histogram is released; drawing again is another
        charge.

    Privacy
    -------
    In: private. Out: releasable at the cost of ``records`` times ``smoothing.event``. A record falls into bin ``j`` with
    probability ``(c_j + t) / (n + K t)``. Up to ``k`` more rows multiply ``c_j + t`` by a factor between 1 and ``1 + k/t`` and the
    sum by one that is the same for all bins, so log-ratios have range ``e = ln(1 + k/t)``; exchanged rows are
    in :class:`Smoothing`. Records are independent given the table and compose. The weights ``c_j + t`` are whole multiples of ``2**-20`` and a record is a uniform whole number
    below their sum, so no probability is rounded.
    """
    smoothing, records = own(smoothing, Smoothing), int(records)
    require_seals([sealed], SealedCounts)
    if not 1 <= records <= MAX_SMOOTHED:
        raise BudgetError(f"records ({records}) must be between 1 and {MAX_SMOOTHED:,}.")
    if sealed._unit != smoothing.unit or (smoothing.rows_fixed and not curator.rows.fixed):
        raise BudgetError(
            "The smoothing was worked out for another unit, or for tables of equally many rows."
        )
    added = smoothing.pseudo * 2.0**_PSEUDO_BITS
    if added < 1 or added != math.floor(added) or added * sealed._exact.size >= 2.0**62:
        raise BudgetError(
            f"A pseudo-count of {smoothing.pseudo:.6g} rows on {sealed._exact.size:,} bins cannot be drawn from exactly. "
            "Ask for fewer bins or records, or for a larger budget."
        )
    events: tuple[Event, ...] = (smoothing.event,) * records
    exact = sealed._exact.astype(np.int64).ravel()
    ends = np.cumsum((exact << _PSEUDO_BITS) + int(added))

    def draw() -> npt.NDArray[np.int64]:
        tickets = below_many(int(ends[-1]), records, curator._randomness)
        return np.searchsorted(ends, tickets, side="right").astype(np.int64)

    found: npt.NDArray[np.int64] = curator._answer(
        *events, purpose=purpose, about=[sealed.clique, sealed.shape], draw=draw
    )
    return found
