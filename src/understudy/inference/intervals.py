"""Confidence intervals for cells, counts, totals and means, from the measurements that speak of them.

**Planned measurements.** When everything was measured in one planned batch, the generalised least-squares
estimate of a query has a known error law, and the interval is exact: estimate plus or minus its quantile.

**Adaptive measurements.** When later measurements were chosen after looking at earlier noise, an average over
"all measurements that happen to cover the query" is not normal: whether and how precisely a marginal was
measured again can depend on the noise it had before. Let step ``j`` be the ``j``-th batch that can answer the
query. What it measures is fixed before its noise is drawn, so *its own* interval with failure probability
``β_j`` is exact whatever ``j`` turns out to be, and all of them hold together with probability
``1 - sum β_j``. Four fifths of the failure probability are spent that way, most of it on the first step. The
last fifth is spent on the weighted average of all Gaussian steps by a bound that holds for every adaptive
design: with ``w_j`` one over the variance of step ``j``, ``V = sum w_j``, ``S = sum w_j e_j`` and any fixed ``r > 0``,

    P( some step has  S² > (V + r) (ln((V + r) / r) + 2 ln(1/β)) ) <= β,

because ``sqrt(r / (V + r)) exp(S² / 2(V + r))``, a mean of ``exp(z S - z² V / 2)`` over ``z ~ N(0, 1/r)``, is
a supermartingale (Ville's inequality; for the method of mixtures see Robbins 1970). The interval is the
intersection.

Everything is then clipped to what counts can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from understudy._html import html_table
from understudy.errors import WorkloadError
from understudy.inference.covers import Evidence, summed
from understudy.inference.laws import WeightedNoise, require_beta
from understudy.inference.signs import combined, readings, told_by_sums
from understudy.marginals import Measurement
from understudy.schema import Clique, Domain

# ----------------------------------------------------------------------------------------
# Linear queries: the best unbiased estimate of ``sum_x c(x) m(x)`` from noisy marginals.
#
# Split the weights ``c`` over a clique into effects, one for each subset ``A`` of its columns: ``c = sum_A c_A``
# with ``c_A`` a function of the columns in ``A`` only that sums to zero along each of them (the analysis of variance).
# Effects of different subsets are orthogonal, in the query as in the noise of a measured table. So the
# answer is a sum of independent parts ``<c_A, m_A>``, where ``m_A`` is the marginal over ``A``, and the best
# estimate of each part averages all measurements that contain ``A`` with weights one over their variance:
# a table with ``n`` cells of variance ``v``, summed to the ``n_A`` cells of ``A``, has variance ``v n / n_A``
# per cell. For noise of equal variance in each cell of a table this is generalised least squares.

Array = npt.NDArray[np.float64]

_TINY = 1e-12
_SHOWN = 50
"""Cells of a marginal that a notebook shows."""


def effects(weights: Array, clique: Clique) -> dict[Clique, Array]:
    """Split a table of weights into its effects, leaving out those that vanish.

    Examples
    --------
    >>> parts = effects(np.array([[1.0, 0.0], [0.0, 0.0]]), ("a", "b"))
    >>> {columns: part.ravel().tolist() for columns, part in parts.items()}
    {(): [0.25], ('a',): [0.25, -0.25], ('b',): [0.25, -0.25], ('a', 'b'): [0.25, -0.25, -0.25, 0.25]}
    """
    found = {}
    scale = float(np.abs(weights).max(initial=0.0))
    for size in range(len(clique) + 1):
        for subset in combinations(clique, size):
            gone = tuple(axis for axis, name in enumerate(clique) if name not in subset)
            part: Array = np.asarray(weights.mean(axis=gone), dtype=np.float64)
            for axis in range(part.ndim):
                part = part - part.mean(axis=axis, keepdims=True)
            if np.abs(part).max(initial=0.0) > _TINY * scale:
                found[subset] = part
    return found


@dataclass(frozen=True, eq=False)
class Step:
    """What one batch of measurements says about a query: an unbiased value and the law of its error."""

    value: float
    noise: WeightedNoise


def best_weights(
    domain: Domain, batch: Sequence[Measurement], parts: dict[Clique, Array], *, total: float | None
) -> tuple[float, list[tuple[Measurement, Array]]] | None:
    """Return a constant and, for each measurement used, the weights of its cells; ``None`` if a part is not covered.

    The estimate is the constant plus the weighted sum of the measured cells. The constant is the part that
    depends on the number of rows alone, where that is public.
    """
    constant = 0.0
    weights: dict[int, Array] = {}
    for columns, part in parts.items():
        if not columns and total is not None:
            constant += float(part) * total
            continue
        inside = [index for index, item in enumerate(batch) if set(columns) <= set(item.clique)]
        if not inside:
            return None
        precision = np.array([1 / (batch[index].values.size * batch[index].variance) for index in inside])
        precision /= precision.sum()
        for index, share in zip(inside, precision, strict=True):
            clique = batch[index].clique
            shape = tuple(domain.size(name) if name in columns else 1 for name in clique)
            spread = np.broadcast_to(share * part.reshape(shape), domain.shape(clique))
            weights[index] = weights[index] + spread if index in weights else spread
    return constant, [(batch[index], table) for index, table in weights.items()]


def answer(evidence: Evidence, batch: Sequence[Measurement], parts: dict[Clique, Array]) -> Step | None:
    """Return the best unbiased answer of one batch to a query given by its effects."""
    found = best_weights(evidence.domain, batch, parts, total=evidence.total)
    if found is None:
        return None
    constant, weighted = found
    value = constant + sum(float((table * item.values).sum()) for item, table in weighted)
    return Step(value, WeightedNoise.of(weighted))


def answers(evidence: Evidence, parts: dict[Clique, Array]) -> list[Step]:
    """Return the answers of all batches that can answer a query, in order."""
    return [found for batch in evidence.batches if (found := answer(evidence, batch, parts)) is not None]


def table_estimate(evidence: Evidence, batch: Sequence[Measurement], clique: Clique) -> Array | None:
    """Return the best unbiased estimate of every cell of a marginal from one batch, or ``None``."""
    domain = evidence.domain
    estimate: Array = np.zeros(domain.shape(clique))
    for size in range(len(clique) + 1):
        for subset in combinations(clique, size):
            if any(domain.size(name) == 1 for name in subset):
                continue  # a column with one value has no effect of its own
            shape = tuple(domain.size(name) if name in subset else 1 for name in clique)
            spread = domain.cells(clique) // domain.cells(subset)
            if not subset and evidence.total is not None:
                estimate = estimate + evidence.total / spread
                continue
            inside = [item for item in batch if set(subset) <= set(item.clique)]
            if not inside:
                return None
            precision = np.array([1 / (item.values.size * item.variance) for item in inside])
            precision /= precision.sum()
            part: Array = np.zeros(domain.shape(subset))
            for item, share in zip(inside, precision, strict=True):
                part = part + share * summed(item.values, item.clique, subset)
            for axis in range(part.ndim):
                part = part - part.mean(axis=axis, keepdims=True)
            estimate = estimate + part.reshape(shape) / spread
    return estimate


Ends = tuple[float, float, float]
"""Low end, high end and estimate of a number."""

_SINGLE, _DECAY = 0.8, 0.25
_SCAN = 9
"""Where a confidence set for a mean is looked for before its ends are refined."""


REAL_TABLE = "the real table"


@dataclass(frozen=True, eq=False)
class Interval:
    """A confidence interval, or one for each cell of a table.

    Attributes
    ----------
    low, high
        Ends, in rows (or in the unit of the values, for a mean). Arrays for tables.
    estimate
        Point estimate inside the interval.
    confidence
        Probability, over the noise, that one given interval contains the real value.
    basis
        ``"measured"``: from measurements that cover the query. ``"bound"``: from a bound on the model's error.
        ``"trivial"``: nothing is known. ``"refits"``: from refits (:class:`~understudy.inference.refits.Refits`).
    table
        Which table has the real value: the one that was counted, which is not the whole one where rows are cut by person.
    columns, labels
        Of an interval for each cell of a marginal: its columns, and the names of the values of each.
    """

    low: Array
    high: Array
    estimate: Array
    confidence: float
    basis: str
    table: str = REAL_TABLE
    columns: Clique = ()
    labels: tuple[tuple[str, ...], ...] = ()

    @property
    def width(self) -> Array:
        """Length of the interval."""
        return self.high - self.low

    def rows(self) -> list[tuple[str | float, ...]]:
        """Return a row for each cell: the names of its values, low end, estimate and high end.

        Examples
        --------
        >>> ends = np.array([3.0, 0.0]), np.array([5.0, 1.0]), np.array([4.0, 0.5])
        >>> Interval(*ends, 0.95, "measured", columns=("sex",), labels=(("f", "m"),)).rows()[0]
        ('f', 3.0, 4.0, 5.0)
        """
        parts = [np.asarray(part, dtype=np.float64).ravel() for part in (self.low, self.estimate, self.high)]
        names = product(*self.labels) if self.labels else ((),) * len(parts[0])
        return [(*name, *map(float, ends)) for name, *ends in zip(names, *parts, strict=True)]

    def _repr_html_(self) -> str:
        shown = [(*row[:-3], *(f"{end:,.1f}" for end in row[-3:])) for row in self.rows()[:_SHOWN]]
        left = np.size(self.low) - len(shown)
        return html_table(
            f"Intervals with {self.confidence:.0%} confidence each ({self.basis})",
            (*self.columns, "low", "estimate", "high"),
            shown,
            note=f"Of {self.table}." + (f" {left:,} more cells are not shown." if left > 0 else ""),
        )


def step_shares(count: int) -> list[float]:
    """Return how the failure probability is spread over the first ``count`` steps; the sum stays below one.

    Examples
    --------
    >>> [round(share, 3) for share in step_shares(3)]
    [0.75, 0.188, 0.047]
    """
    return [(1 - _DECAY) * _DECAY**j for j in range(count)]


def _offsets(evidence: Evidence, steps: Sequence[Step], beta: float) -> list[tuple[Array, float]]:
    """Return pairs (weights of the steps' values, half width); the intervals they describe hold together."""
    count = len(steps)
    if len(evidence.batches) == 1:
        return [(np.ones(1), steps[0].noise.half_width(beta))]
    found = []
    for j, share in enumerate(step_shares(count)):
        pick = np.zeros(count)
        pick[j] = 1.0
        found.append((pick, steps[j].noise.half_width(beta * _SINGLE * share)))
    proxies = [step.noise.proxy for step in steps]
    if count > 1 and all(proxy is not None for proxy in proxies):
        weights = np.array([1 / proxy for proxy in proxies if proxy is not None])
        total = float(weights.sum())
        prior = float(weights[0]) / 2
        square = (total + prior) * (math.log1p(total / prior) + 2 * math.log(1 / (beta * (1 - _SINGLE))))
        found.append((weights / total, math.sqrt(square) / total))
    return found


def query_interval(evidence: Evidence, clique: Clique, weights: Array, *, beta: float) -> Ends | None:
    """Return low end, high end and estimate of ``sum weights · counts``, or ``None`` if nothing measured it.

    Parameters
    ----------
    clique, weights
        The query: one weight per cell of the clique.
    beta
        Failure probability.

    Notes
    -----
    The ends are not clipped. If the intersection is empty, which a true set of measurements produces with
    probability at most ``beta``, both ends are the estimate.
    """
    require_beta(beta)
    if weights.shape != evidence.domain.shape(clique):
        raise WorkloadError(
            f"The weights for {clique} must have shape {evidence.domain.shape(clique)}, not {weights.shape}."
        )
    parts = effects(weights, clique)
    if all(not columns for columns in parts) and evidence.total is not None:
        value = float(sum(float(part) for part in parts.values())) * evidence.total
        return value, value, value
    if not parts:
        return 0.0, 0.0, 0.0
    steps = answers(evidence, parts)
    if not steps:
        return _from_sums(evidence, parts, beta=beta)
    values = np.array([step.value for step in steps])
    offsets = _offsets(evidence, steps, beta)
    low = max(float(pick @ values) - half for pick, half in offsets)
    high = min(float(pick @ values) + half for pick, half in offsets)
    estimate = float(offsets[-1][0] @ values)
    if low > high:
        low = high = min(max(estimate, high), low)
    return low, high, min(max(estimate, low), high)


def _from_sums(evidence: Evidence, parts: dict[Clique, Array], *, beta: float) -> Ends | None:
    """Return low end, high end and estimate of a query from tables and sums of signs together, or ``None`` if an effect of it was never measured; the proof is that of :mod:`understudy.inference.signs`."""
    if not evidence.sums:
        return None
    known = {columns: part for columns, part in parts.items() if columns or evidence.total is None}
    constant = sum(float(part) for columns, part in parts.items() if columns not in known) * (
        evidence.total or 0.0
    )
    low, high, estimate = -math.inf, math.inf, None
    later = len(evidence.batches)
    for share, looks in readings(evidence, list(known)):
        value, told = constant, []
        for look, columns in looks.items():
            own = {name: known[name] for name in columns}
            if look >= later:
                sums = evidence.sums[look - later]
                said, noise = told_by_sums(sums, own)
                planned = sums.planned
            else:
                step = answer(evidence, evidence.batches[look], own)
                assert step is not None
                said, noise, planned = step.value, step.noise, look == 0
            value += said
            told.append((noise, planned))
        half = combined(told, beta * share)
        low, high, estimate = max(low, value - half), min(high, value + half), value
    if estimate is None:
        return None
    if low > high:
        low = high = min(max(estimate, high), low)
    return low, high, min(max(estimate, low), high)


def total_interval(evidence: Evidence, *, beta: float) -> Ends:
    """Return an interval for the number of rows and an estimate of it; exact where it is public."""
    if evidence.total is not None:
        return evidence.total, evidence.total, evidence.total
    found = query_interval(evidence, (), np.ones(()), beta=beta)
    if found is None:
        return 0.0, math.inf, 1.0
    low, high, estimate = found
    return max(low, 0.0), max(high, 0.0), max(estimate, 0.0)


def cell_intervals(evidence: Evidence, clique: Clique, *, confidence: float) -> Interval | None:
    """Return an interval for every cell of a marginal, or ``None`` if no batch covers it.

    All cells of a table have the same error law, so one quantile serves them all.
    """
    domain = evidence.domain
    beta = require_beta(1 - confidence)
    one: Array = np.zeros(domain.shape(clique))
    one[(0,) * len(clique)] = 1.0
    parts = effects(one, clique)
    steps = answers(evidence, parts)
    if not steps:
        return _cells_from_sums(evidence, clique, confidence)
    tables = [
        table for batch in evidence.batches if (table := table_estimate(evidence, batch, clique)) is not None
    ]
    offsets = _offsets(evidence, steps, beta)
    stacked = np.stack(tables)
    centres = [np.tensordot(pick, stacked, axes=1) for pick, _ in offsets]
    low = np.max([centre - half for centre, (_, half) in zip(centres, offsets, strict=True)], axis=0)
    high = np.min([centre + half for centre, (_, half) in zip(centres, offsets, strict=True)], axis=0)
    return clipped(low, high, centres[-1], evidence.total, confidence, "measured")


def _cells_from_sums(evidence: Evidence, clique: Clique, confidence: float) -> Interval | None:
    """Return an interval for every cell of a marginal from tables and sums of signs together, or ``None``."""
    if not evidence.sums:
        return None
    ends: list[Ends] = []
    shape = evidence.domain.shape(clique)
    for cell in np.ndindex(shape):
        one: Array = np.zeros(shape)
        one[cell] = 1.0
        found = _from_sums(evidence, effects(one, clique), beta=1 - confidence)
        if found is None:
            return None
        ends.append(found)
    low, high, estimate = np.array(ends).T.reshape(3, *shape)
    return clipped(low, high, estimate, evidence.total, confidence, "measured")


def clipped(
    low: Array, high: Array, estimate: Array, total: float | None, confidence: float, basis: str
) -> Interval:
    """Keep intervals inside what counts can be, and not empty."""
    ceiling = math.inf if total is None else total
    middle = np.clip(estimate, np.minimum(low, high), np.maximum(low, high))
    low, high = np.where(low > high, middle, low), np.where(low > high, middle, high)
    low, high = np.clip(low, 0.0, ceiling), np.clip(high, 0.0, ceiling)
    return Interval(low, high, np.clip(middle, low, high), confidence, basis)


def count_interval(
    evidence: Evidence, clique: Clique, mask: npt.NDArray[np.bool_], *, confidence: float
) -> Interval | None:
    """Return an interval for the number of rows in some cells of a marginal, or ``None``."""
    found = query_interval(evidence, clique, mask.astype(np.float64), beta=require_beta(1 - confidence))
    if found is None:
        return None
    low, high, estimate = (np.asarray(item) for item in found)
    return clipped(low, high, estimate, evidence.total, confidence, "measured")


def mean_interval(evidence: Evidence, clique: Clique, values: Array, *, confidence: float) -> Interval | None:
    """Return an interval for the mean over rows whose cell ``c`` of a marginal stands for ``values[c]``, or ``None``.

    Cells with the value NaN (missing, other, outside of a group) are left out of the mean.
    """
    beta = require_beta(1 - confidence)
    counted, plain = counted_values(evidence, clique, values)

    def ends(mean: float) -> Ends | None:
        return query_interval(evidence, clique, counted * (plain - mean), beta=beta)

    if ends(float(plain[counted].min())) is None:
        return None
    return invert(lambda mean: _some(ends(mean)), plain[counted], confidence=confidence, basis="measured")


def counted_values(evidence: Evidence, clique: Clique, values: Array) -> tuple[npt.NDArray[np.bool_], Array]:
    """Return which cells of a marginal enter a mean, and their values with zero for the others."""
    counted = np.isfinite(values)
    if values.shape != evidence.domain.shape(clique) or not counted.any():
        named = ", ".join(map(repr, clique))
        raise WorkloadError(f"A mean of {named} needs one value per code, at least one of them a number.")
    return counted, np.where(counted, values, 0.0)


def invert(ends: Callable[[float], Ends], values: Array, *, confidence: float, basis: str) -> Interval:
    """Return every mean ``t`` for which zero is a possible value of ``sum (value - t) count``.

    ``ends(t)`` gives an interval and an estimate of that sum, which falls with ``t``. The real mean makes
    the sum zero, so it is left out only if its own interval fails: the unknown number of rows needs no
    interval of its own (Fieller's method). The set is looked for on a grid from the smallest to the
    largest value, and its outermost ends are refined.
    """
    grid = np.linspace(float(values.min()), float(values.max()), _SCAN)
    lows, highs, middles = np.array([ends(float(mean)) for mean in grid], dtype=np.float64).T
    below, above, signs = (np.flatnonzero(item) for item in (lows <= 0, highs >= 0, middles <= 0))
    first = int(below[0]) if len(below) else _SCAN - 1
    last = int(above[-1]) if len(above) else 0
    turn = int(signs[0]) if len(signs) else _SCAN - 1
    low = _crossing(lambda t: ends(t)[0], float(grid[max(first - 1, 0)]), float(grid[first]))
    high = _crossing(lambda t: ends(t)[1], float(grid[last]), float(grid[min(last + 1, _SCAN - 1)]))
    middle = _crossing(lambda t: ends(t)[2], float(grid[max(turn - 1, 0)]), float(grid[turn]))
    low, high = min(low, middle), max(high, middle)
    return Interval(np.asarray(low), np.asarray(high), np.asarray(middle), confidence, basis)


def _some(found: Ends | None) -> Ends:
    assert found is not None
    return found


def _crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function falls through zero between two points, or the point it stays beyond."""
    if low == high or function(low) <= 0:
        return low
    if function(high) >= 0:
        return high
    return float(brentq(function, low, high, xtol=1e-9 * (high - low)))
