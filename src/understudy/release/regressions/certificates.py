"""A certificate that regression coefficients are close, made of sums over records only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.release.record_types import RecordTypes
from understudy.release.regressions.fits import Points, Regression, Scaling

# ----------------------------------------------------------------------------------------
# Sums over records of public numbers, in whole steps, and how many records away they are from a limit.
#
# What a record contributes to a condition is a public function of the record alone. It is rounded to whole steps of a public grid and
# clipped to a public range *before* it is multiplied by a count, so sums are whole numbers and one record moves them by no more
# than the range, whatever floating point did to the function. Only that it gives a record the same number wherever the record stands in the table
# is needed: so contributions are computed element by element, and never by a matrix product, whose rounding depends on its neighbours.

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

STEPS = 1 << 30
"""A record is so many steps: slacks are whole numbers of them."""

_ENDLESS = 1 << 62
"""A slack that no table changes, in steps; sums of contributions end here too."""


def applied(design: Floats, weights: Floats) -> Floats:
    """Return ``design @ weights``, each entry from its own row alone, so that it does not depend on where the row stands.

    Examples
    --------
    >>> applied(np.array([[1.0, 2.0], [1.0, 3.0]]), np.array([10.0, 1.0])).tolist()
    [12.0, 13.0]
    """
    columns = weights if weights.ndim == 2 else weights[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        total = design[:, :1] * columns[:1]
        for j in range(1, design.shape[1]):
            total = total + design[:, j : j + 1] * columns[j : j + 1]
    return np.asarray(total if weights.ndim == 2 else total[:, 0])


def whole_sums(counts: Ints, steps: Ints) -> Ints:
    """Return the sums over records (the first axis) of count times steps, cut where 64 bits end.

    Steps are at most ``2**30`` in size, so up to ``2**32`` rows fit; beyond, Python's whole numbers are added.

    Examples
    --------
    >>> whole_sums(np.array([2, 3]), np.array([[1], [5]])).tolist(), whole_sums(np.array([2**40]), np.array([2**30])).tolist()
    ([17], 4611686018427387904)
    """
    if int(counts.sum()) < 1 << 32:
        return np.asarray(np.tensordot(counts.astype(np.int64), steps, axes=(0, 0)))
    endless = np.tensordot(counts.astype(object), steps.astype(object), axes=(0, 0))
    return _cut(endless)


def _added(one: Ints, other: Ints) -> Ints:
    """Return the sums of numbers of at most ``2**62`` in size, cut there.

    Parts of a table are added so: their sums may be cut, and two of these leave 64 bits. A cut moves no two numbers further apart.

    Examples
    --------
    >>> _added(np.array([_ENDLESS, -_ENDLESS, 1]), np.array([_ENDLESS, -1, 1])).tolist() == [_ENDLESS, -_ENDLESS, 2]
    True
    """
    above, below = one > _ENDLESS - np.maximum(other, 0), one < -_ENDLESS - np.minimum(other, 0)
    return np.asarray(np.where(above, _ENDLESS, np.where(below, -_ENDLESS, one + other)))


def _cut(endless: Any) -> Ints:
    """Return whole numbers without an end as numbers of 64 bits, cut where a slack ends."""
    numbers = np.asarray(endless, dtype=object)
    cut = [min(max(number, -_ENDLESS), _ENDLESS) for number in numbers.ravel().tolist()]
    return np.array(cut, dtype=np.int64).reshape(numbers.shape)


def group_sums(counts: Ints, steps: Ints) -> Ints:
    """Return the sums over codes (the last axis) of count times steps, for each group, cut where 64 bits end."""
    if int(counts.sum(axis=-1).max(initial=0)) < 1 << 32:
        return np.asarray((counts * steps).sum(axis=-1))
    endless = (counts.astype(object) * steps.astype(object)).sum(axis=-1)
    return _cut(endless)


@dataclass(frozen=True, eq=False)
class Conditions:
    """Conditions ``sum over records of c(record) < limit``, from the extremes of each ``c`` over all possible records.

    The steps of a condition are ``2**-30`` of ``width = max(0, highest) - min(0, lowest)``. A record contributes a whole number of them
    between ``bottom`` and ``bottom + 2**30``, which includes 0: a record that is added, removed or replaced moves the sum by at
    most ``2**30`` steps, one record. So the slack, ``(limit - sum) / width``, has step sensitivity 1, exactly.
    """

    lowest: Floats
    highest: Floats
    width: Floats
    bottom: Ints

    @classmethod
    def between(cls, lowest: npt.ArrayLike, highest: npt.ArrayLike) -> Conditions:
        """Build the conditions from the extremes of their contributions."""
        low, high = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (lowest, highest)))
        with np.errstate(over="ignore", invalid="ignore"):
            width = np.maximum(0.0, high) - np.minimum(0.0, low)
            share = np.minimum(0.0, low) / np.where((width > 0) & np.isfinite(width), width, 1.0)
        bottom = np.clip(np.floor(np.nan_to_num(share, nan=-1.0) * STEPS), -STEPS, 0)
        return cls(low, high, width, bottom.astype(np.int64))

    @property
    def _usable(self) -> npt.NDArray[np.bool_]:
        return (self.width > 0) & np.isfinite(self.width)

    def steps(self, contributions: Floats, *, down: bool = False) -> Ints:
        """Return contributions of records (the first axis) as whole steps within their range, rounded up unless told otherwise."""
        with np.errstate(over="ignore", invalid="ignore"):
            shares = contributions / np.where(self._usable, self.width, 1.0) * STEPS
        rounded = np.nan_to_num(np.floor(shares) if down else np.ceil(shares), nan=float(STEPS))
        bottom = self.bottom.astype(np.float64)
        return np.asarray(np.clip(rounded, bottom, bottom + STEPS).astype(np.int64))

    def limits(self, limit: npt.ArrayLike) -> Ints:
        """Return public limits in steps, rounded down."""
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.asarray(limit, dtype=np.float64) / np.where(self._usable, self.width, 1.0) * STEPS
        steps = np.nan_to_num(np.floor(steps), nan=-math.inf)
        return np.asarray(np.clip(steps, -0.5 * _ENDLESS, 0.5 * _ENDLESS).astype(np.int64))

    def slacks(self, limit: npt.ArrayLike, totals: Ints, *, allowed: Ints | None = None) -> Ints:
        """Return the slack of each condition in steps.

        Parameters
        ----------
        limit
            Public limit of each condition.
        totals
            The sums over the real table, in steps.
        allowed
            The limits in steps where they are known better than by dividing; public.

        Notes
        -----
        The slack is positive only if the condition holds. A condition whose contributions are all negative cannot be violated by any
        record if the limit is not negative; its slack has no end. Where all contributions are zero the sum is zero, a public
        fact. Where contributions are so large that their range is no finite number, the condition counts as violated by
        every table.

        Examples
        --------
        >>> conditions = Conditions.between([-1.0], [2.0])
        >>> totals = whole_sums(np.array([4]), conditions.steps(np.array([[1.0]])))
        >>> round(float(as_slack(conditions.slacks(10.0, totals)[0])), 6)
        2.0
        """
        bound = np.asarray(limit, dtype=np.float64)
        steps = self.limits(bound) if allowed is None else np.clip(allowed, -(_ENDLESS // 2), _ENDLESS // 2)
        slack = np.clip(steps - totals, 1 - _ENDLESS, _ENDLESS - 1)
        slack = np.where(self._usable, slack, -_ENDLESS)
        slack = np.where(self.width == 0, np.where(bound > 0, _ENDLESS, -_ENDLESS), slack)
        safe = ((self.highest < 0) & (bound >= 0)) | ((self.highest <= 0) & (bound > 0))
        return np.asarray(np.where(safe, _ENDLESS, slack))


def as_slack(steps: int | np.integer[Any]) -> Fraction | float:
    """Return a slack in records from one in steps; infinite where it has no end.

    Examples
    --------
    >>> as_slack(STEPS // 4), as_slack(_ENDLESS)
    (Fraction(1, 4), inf)
    """
    if abs(int(steps)) >= _ENDLESS:
        return math.inf if steps > 0 else -math.inf
    return Fraction(int(steps), STEPS)


def smallest(*slacks: Ints) -> int:
    """Return the least of some slacks in steps; without an end if there are none."""
    return min((int(part.min(initial=_ENDLESS)) for part in slacks), default=_ENDLESS)


# ----------------------------------------------------------------------------------------
# How many records away a sum is from a limit, with those records that are there.

_MOST_RECORDS = 1 << 29
"""Distances in records end here, in both directions."""
_MOST_COUNTS = 1 << 21
"""About how many counts of levels are held for all conditions together."""
_FINEST = 20
"""Levels are at least so many powers of two wide: 1,024 of them."""


@dataclass(frozen=True, eq=False)
class Tails:
    """How many records contribute how much to a sum, from which the number of records to its limit follows.

    `Conditions.slacks` divides the distance of a sum from its limit by the range of a contribution, as if every record that is
    replaced lay at the lowest end of the range. Few do. Here the records that are there decide: a step takes away the record with the
    lowest contribution that is left, or one without a contribution, and puts in the highest contribution that is possible.

    Write ``S`` for the sum, ``L`` for the limit, ``c_i`` for the contributions, ``c'_i`` for those below zero rounded down to a level (a public
    grid of width ``d`` with an edge at 0) and 0 for all others, and ``h`` for the larger of the highest contribution and ``d``. There are as many further
    records without a contribution as one likes. The distance is the smallest number ``k`` for which ``S`` plus the ``k`` largest of all
    ``h - c'_i`` reaches ``L``. It is positive exactly when ``S < L``.

    *Step sensitivity 1.* Adding or removing a record is replacing one without a contribution, or replacing by one, so let record ``i`` be replaced by one that
    contributes ``e``. Write ``P_k`` for the sum of the ``k`` largest ``h - c'`` of all records but ``i``. If ``k`` steps reach ``L`` from the new table, so do ``k + 1`` steps from
    the old one, which reach at least ``S + h - c'_i + P_k``. From the new table ``k`` steps reach either ``S + e - c_i + P_k``, which is no more, since ``e <= h`` and ``c'_i <= c_i``;
    or ``S + e - c_i + (h - e') + P_(k-1)``, which is no more either: ``P_k >= P_(k-1) + h``, and ``e - e' <= h``, because ``e' = 0`` for ``e >= 0`` and ``e - e' <= d <= h``
    otherwise. The step back is a step like any other. Where ``S >= L`` the distance is counted the other way round, from the number of steps after which
    the sum would be below its limit: one step less than that, negative. From a table below its limit to one that is not, the number falls from 1 to 0.

    Levels take away a little more than a record contributes, so that in a table of many records that lie at the lowest end the distance by the range is the larger one. It has
    step sensitivity 1 too and is positive for the same tables, and so is the larger of both, which is taken.

    Distances by levels are whole numbers of records, and all are cut at ``2**29`` records.

    Examples
    --------
    >>> conditions = Conditions.between([-1.0], [1.0])
    >>> steps = conditions.steps(np.array([[-0.5], [0.0]]))
    >>> tails = Tails.none(conditions).with_records(steps, np.array([3, 100]))
    >>> total = whole_sums(np.array([3, 100]), steps)
    >>> distances = [as_slack(tails.slacks(conditions, limit, total)[0]) for limit in (2.5, 10.5, -3.0)]
    >>> distances == [3, 11, -0.75]
    True
    """

    width: int
    below: Ints
    above: Ints

    @classmethod
    def none(cls, conditions: Conditions) -> Tails:
        """Begin without a record; how fine the levels are follows from the number of conditions."""
        most = max(1, _MOST_COUNTS // max(1, conditions.bottom.size))
        bits = max(_FINEST, 31 - most.bit_length())
        empty = np.zeros((*conditions.bottom.shape, STEPS >> bits), dtype=np.int64)
        return cls(1 << bits, empty, empty)

    def with_records(self, steps: Ints, counts: Ints) -> Tails:
        """Count more records (the first axis of ``steps``, their contributions in whole steps), each as often as ``counts`` says."""
        return Tails(
            self.width,
            self.below + self._levels(steps, counts),
            self.above + self._levels(-steps, counts),
        )

    def _levels(self, steps: Ints, counts: Ints) -> Ints:
        """Count the records below zero by level, the lowest first."""
        shape = self.below.shape
        levels = shape[-1]
        place = np.where(steps < 0, levels + steps // self.width, levels).reshape(len(counts), -1)
        conditions = place.shape[1]
        place = place + (levels + 1) * np.arange(conditions)
        weights = np.broadcast_to(counts.astype(np.float64)[:, None], place.shape)
        found = np.bincount(place.ravel(), weights=weights.ravel(), minlength=conditions * (levels + 1))
        return found.reshape(conditions, levels + 1)[:, :levels].astype(np.int64).reshape(shape)

    def slacks(self, conditions: Conditions, limit: npt.ArrayLike, totals: Ints) -> Ints:
        """Return the distance of each condition from its limit in steps; see `Conditions.slacks`, than which it is never smaller."""
        plain = conditions.slacks(limit, totals)
        gap = np.asarray(conditions.limits(limit) - totals)
        top, low = conditions.bottom + STEPS, -conditions.bottom
        reached = _records(np.maximum(gap, 1), self.below, np.maximum(top, self.width), self.width)
        back = 1 - _records(np.maximum(1 - gap, 1), self.above, np.maximum(low, self.width), self.width)
        records = np.where(gap > 0, reached, back)
        larger = np.maximum(np.minimum(plain, _MOST_RECORDS * STEPS), records * STEPS)
        return np.where(np.abs(plain) >= _ENDLESS, plain, larger)


def _records(gap: Ints, counts: Ints, edge: Ints, width: int) -> Ints:
    """Return how many steps make up for a positive gap: each record of a level moves the sum by ``edge`` and its level, others by ``edge``."""
    levels = counts.shape[-1]
    moves = edge[..., None] + width * np.arange(levels, 0, -1)
    many = np.minimum(np.cumsum(counts, axis=-1), 2 * _MOST_RECORDS)
    moved = np.cumsum(np.diff(many, axis=-1, prepend=0) * moves, axis=-1)
    zero = np.zeros((*edge.shape, 1), dtype=np.int64)
    many, moved = np.concatenate([zero, many], axis=-1), np.concatenate([zero, moved], axis=-1)
    moves = np.concatenate([moves, edge[..., None]], axis=-1)
    found = []
    for row in np.broadcast_to(gap, np.broadcast_shapes(gap.shape, edge.shape)).reshape(-1, *edge.shape):
        used = (moved[..., 1:] < row[..., None]).sum(axis=-1)[..., None]
        done, left, each = (
            np.take_along_axis(table, used, axis=-1)[..., 0] for table in (many, moved, moves)
        )
        found.append(np.minimum(done - (left - row) // each, _MOST_RECORDS))
    return np.stack(found).reshape(np.broadcast_shapes(gap.shape, edge.shape))


_BLOCK = 1 << 21

SHARES = (
    0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7,
)  # fmt: skip
"""Values of ``t`` that are tried; any list of numbers between 0 and 1 is valid."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """Sums over the real table and their public ranges, from which closeness of coefficients follows.

    Let ``w`` be the candidate's coefficients, ``G = X'X/n`` its Gram matrix, ``G_R`` the real one, both with the same
    public ``n`` and the same public scaling, ``u = G^-1 X_R'(y - X_R w)/n`` and ``M = G^-1 (G_R - G)``.

    Claim: if ``|M|_1 <= t < 1`` (largest column sum) and ``|u|_1 < T (1 - t)`` then the real table has unique
    least-squares coefficients ``w_R`` and ``|w_R - w|_1 < T``. Proof: ``G_R = G (I + M)`` and ``|M|_1 < 1`` make
    ``G_R`` invertible. The normal equations ``G_R w_R = X_R'y/n`` give ``G_R (w_R - w) = X_R'(y - X_R w)/n = G u``, so
    ``w_R - w = (I + M)^-1 u``, and the Neumann series bounds the norm of the inverse by ``1/(1 - t)``.

    Both norms are maxima over finitely many sign vectors ``s``: ``|u|_1 = max s.u`` and
    ``|M|_1 = max over j and s of s.M e_j``. With ``a = G^-1 s``, ``n s.u`` is the sum over real records of
    ``(a.x)(y - w.x)``, and ``n s.M e_j`` is the sum of ``(a.x) x_j`` minus ``n s_j``. So each condition is a sum over
    records below a public limit; the number of records it is away from that, which replaces those of the table by the worst of *all possible
    records*, has step sensitivity 1 (`Tails`), and so has the minimum over conditions. The
    maximum over a public list of ``t`` keeps the step sensitivity, and is positive only if some ``t`` works.
    """

    n: float
    signs: Floats
    residual: Conditions
    residual_total: Ints
    residual_tails: Tails
    gram: Conditions
    gram_total: Ints
    gram_tails: Tails

    @classmethod
    def build(
        cls, regression: Regression, real: RecordTypes, scaling: Scaling, fit: tuple[Floats, Floats], n: int
    ) -> Certificate:
        """Compute the sums over the real table and the ranges over the possible records."""
        coefficients, gram = fit
        half = np.array([(1.0, *rest) for rest in product((1.0, -1.0), repeat=len(coefficients) - 1)])
        signs = np.concatenate([half, -half])
        directions = np.linalg.solve(gram / n, half.T)
        low_u, high_u, low_m, high_m = _ranges(regression.points, scaling, directions, coefficients)
        close = Conditions.between(np.concatenate([low_u, -high_u]), np.concatenate([high_u, -low_u]))
        stable = Conditions.between(np.concatenate([low_m, -high_m]), np.concatenate([high_m, -low_m]))
        x, y, counts = _together(*regression.rows(real))
        residual_tails, gram_tails = Tails.none(close), Tails.none(stable)
        residual_total = np.zeros(len(signs), dtype=np.int64)
        gram_total = np.zeros((len(signs), len(coefficients)), dtype=np.int64)
        for part in _blocks(len(counts), signs.size + len(signs)):
            design, many = scaling.design(x[part]), counts[part]
            along = applied(design, directions)
            along = np.concatenate([along, -along], axis=1)
            with np.errstate(over="ignore", invalid="ignore"):
                residual = y[part] - applied(design, coefficients)
                steps = close.steps(along * residual[:, None])
                residual_total = _added(residual_total, whole_sums(many, steps))
                residual_tails = residual_tails.with_records(steps, many)
                steps = stable.steps(along[:, :, None] * design[:, None, :])
                gram_total = _added(gram_total, whole_sums(many, steps))
                gram_tails = gram_tails.with_records(steps, many)
        return cls(n, signs, close, residual_total, residual_tails, stable, gram_total, gram_tails)

    def slack(self, limit: float) -> int:
        """Return how many steps of a record the certificate is away from failing for an L1 error of ``limit``."""
        allowed = self.n * limit * (1 - np.array(SHARES))[:, None]
        close = self.residual_tails.slacks(self.residual, allowed, self.residual_total)
        return int(np.minimum(close.min(axis=1), self._stable).max())

    @cached_property
    def _stable(self) -> Ints:
        """How many steps away the Gram matrix is from leaving each share."""
        allowed = self.n * (np.array(SHARES)[:, None, None] + self.signs)
        slacks = self.gram_tails.slacks(self.gram, allowed, self.gram_total)
        return np.asarray(slacks.min(axis=(1, 2)))


def _together(x: Floats, y: Floats, counts: Ints) -> tuple[Floats, Floats, Ints]:
    """Return each combination of features and target once, with the number of records that have it."""
    rows, place = np.unique(np.column_stack([x, y]), axis=0, return_inverse=True)
    many = np.zeros(len(rows), dtype=np.int64)
    np.add.at(many, place.reshape(-1), counts)
    return rows[:, :-1], rows[:, -1], many


def _blocks(records: int, conditions: int) -> list[slice]:
    """Return parts of the records that are small enough to hold the contributions of all conditions."""
    size = max(1, _BLOCK // max(1, conditions))
    return [slice(start, start + size) for start in range(0, records, size)]


def _ranges(
    points: Points, scaling: Scaling, directions: Floats, coefficients: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return lowest and highest contributions of a possible record to each sum."""
    if points.x is None:
        return _box_ranges(points, scaling, directions, coefficients)
    design = scaling.design(points.x)
    along, predicted = design @ directions, design @ coefficients
    # for fixed features the contribution is linear in the target, so its extremes are at the ends
    ends = [along * (end - predicted)[:, None] for end in (points.low, points.high)]
    low_u, high_u = np.minimum(*ends).min(axis=0), np.maximum(*ends).max(axis=0)
    by_column = [along * design[:, j : j + 1] for j in range(design.shape[1])]
    low_m = np.stack([products.min(axis=0) for products in by_column], axis=1)
    high_m = np.stack([products.max(axis=0) for products in by_column], axis=1)
    return low_u, high_u, low_m, high_m


def _box_ranges(
    points: Points, scaling: Scaling, directions: Floats, coefficients: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return outer bounds from the box of feature values: a product of two bounded factors."""
    bottom = np.concatenate([[1.0], (points.x_low - scaling.centre) / scaling.width])
    top = np.concatenate([[1.0], (points.x_high - scaling.centre) / scaling.width])

    def linear(weights: Floats) -> tuple[Floats, Floats]:
        first, second = weights * bottom[:, None], weights * top[:, None]
        return np.minimum(first, second).sum(axis=0), np.maximum(first, second).sum(axis=0)

    along_low, along_high = linear(directions)
    (predicted_low,), (predicted_high,) = linear(coefficients[:, None])
    residual = float(points.low.min() - predicted_high), float(points.high.max() - predicted_low)
    low_u, high_u = _product_range(along_low, along_high, *residual)
    columns = [
        _product_range(along_low, along_high, float(bottom[j]), float(top[j])) for j in range(len(bottom))
    ]
    low_m = np.stack([low for low, _ in columns], axis=1)
    high_m = np.stack([high for _, high in columns], axis=1)
    return low_u, high_u, low_m, high_m


def _product_range(low: Floats, high: Floats, other_low: float, other_high: float) -> tuple[Floats, Floats]:
    products = np.stack([low * other_low, low * other_high, high * other_low, high * other_high])
    return products.min(axis=0), products.max(axis=0)
