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
    records below a public limit; its slack, divided by the range of the contribution over *all possible
    records* (zero included), has step sensitivity 1 (`Conditions`), and so has the minimum over conditions. The
    maximum over a public list of ``t`` keeps the step sensitivity, and is positive only if some ``t`` works.
    """

    n: float
    signs: Floats
    residual: Conditions
    residual_total: Ints
    gram: Conditions
    gram_total: Ints

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
        x, y, counts = regression.rows(real)
        residual_total = np.zeros(len(signs), dtype=np.int64)
        gram_total = np.zeros((len(signs), len(coefficients)), dtype=np.int64)
        for part in _blocks(len(counts), len(half)):
            design, many = scaling.design(x[part]), counts[part]
            along = applied(design, directions)
            along = np.concatenate([along, -along], axis=1)
            with np.errstate(over="ignore", invalid="ignore"):
                residual = y[part] - applied(design, coefficients)
                residual_total += whole_sums(many, close.steps(along * residual[:, None]))
                for j in range(len(coefficients)):
                    column = Conditions(
                        stable.lowest[:, j], stable.highest[:, j], stable.width[:, j], stable.bottom[:, j]
                    )
                    gram_total[:, j] += whole_sums(many, column.steps(along * design[:, j : j + 1]))
        return cls(n, signs, close, residual_total, stable, gram_total)

    def slack(self, limit: float) -> int:
        """Return how many steps of a record the certificate is away from failing for an L1 error of ``limit``."""
        allowed = self.n * limit * (1 - np.array(SHARES))[:, None]
        close = self.residual.slacks(allowed, self.residual_total)
        return int(np.minimum(close.min(axis=1), self._stable).max())

    @cached_property
    def _stable(self) -> Ints:
        """How many steps away the Gram matrix is from leaving each share."""
        allowed = self.n * (np.array(SHARES)[:, None, None] + self.signs)
        slacks = self.gram.slacks(allowed, self.gram_total)
        return np.asarray(slacks.min(axis=(1, 2)))


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
