"""A certificate that regression coefficients are close, made of sums over records only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt

from understudy.release.criteria._linear import Conditions, applied, whole_sums
from understudy.release.criteria._regression import Points, Regression, Scaling
from understudy.release.types import RecordTypes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

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
