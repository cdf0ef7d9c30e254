"""Random fields under noise of a known variance: which kinds of similarity there are, and what is left without noise.

Shared by the smoothing of single columns and of marginals. Works on released numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack
from scipy.optimize import minimize

__all__ = ["field_posterior", "nearer", "shrunk_cells"]

Array = npt.NDArray[np.float64]

_SIZES = np.array([0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0])
"""Relative sizes of differences that are tried for single cells."""
_FACTORS = np.geomspace(1e-6, 1e4, 60)
"""Variances of differences from what is expected that are tried, in units of the noise's."""
_EVERYWHERE = 0.02
_ROUNDS = 50
_LOOSE = 0.01
"""Weight of straying from a usual variance: it decides only where data do not."""


def shrunk_cells(gap: Array, expected: Array, variance: float) -> Array:
    """Return the posterior mean of differences that are independent from cell to cell, of many sizes.

    A mixture of normal distributions around zero whose shares are those that make the table likeliest
    (expectation maximisation): small differences are noise, large ones are real.

    Examples
    --------
    >>> shrunk_cells(np.array([1.0, -1.0, 50.0]), np.full(3, 10.0), 4.0).round(1).tolist()
    [0.0, -0.0, 49.9]
    """
    spread = np.square(_SIZES[:, None] * expected.ravel()) + variance
    fit = -0.5 * (np.square(gap.ravel()) / spread + np.log(spread))
    shares = np.full(len(_SIZES), 1.0 / len(_SIZES))
    for _ in range(_ROUNDS):
        log = np.log(shares + 1e-300)[:, None] + fit
        belief = np.exp(log - log.max(axis=0))
        belief /= belief.sum(axis=0)
        shares = belief.sum(axis=1)
        shares[0] += 1.0
        shares /= shares.sum()
    return np.asarray(((belief * (1.0 - variance / spread)).sum(axis=0) * gap.ravel()).reshape(gap.shape))


def nearer(noisy: Array, expected: Array, variance: float) -> Array:
    """Return the posterior mean of counts that differ from expected ones, from cell to cell, with a variance proportional to what is expected.

    The factor is the one that makes the noisy table likeliest, so a table that differs by no more than its noise comes out as expected, and one that differs by much more as it was measured.
    Cells that expect little move least. A fiftieth of the average is expected everywhere, so that no cell is held at nothing.

    Examples
    --------
    >>> nearer(np.array([12.0, 7.0, 11.0, 8.0]), np.full(4, 10.0), 9.0).round(1).tolist()
    [10.0, 10.0, 10.0, 10.0]
    >>> nearer(np.array([900.0, 7.0, 11.0, 0.0]), np.full(4, 10.0), 9.0).round().tolist()
    [900.0, 7.0, 11.0, 0.0]
    """
    gap = (noisy - expected).ravel()
    usual = np.maximum(expected, 0.0).ravel()
    usual = usual + _EVERYWHERE * usual.mean() + 1e-12
    factors = _FACTORS * variance / usual.mean()
    spread = factors[:, None] * usual + variance
    unlikely = (np.square(gap) / spread + np.log(spread)).sum(axis=1)
    kept = 1.0 - variance / spread[int(np.argmin(unlikely))]
    return np.asarray(expected + (kept * gap).reshape(expected.shape))


def field_posterior(
    gap: Array,
    parts: Sequence[Array],
    variance: float,
    *,
    start: Array,
    usual: float,
    bounds: tuple[float, float],
    steps: int,
) -> tuple[Array, float]:
    """Fit how much of each kind of similarity there is; return what is left without noise.

    Parameters
    ----------
    gap
        Noisy differences, as a vector.
    parts
        Covariance of each kind, up to a factor.
    variance
        Variance of the noise.
    start, usual, bounds, steps
        Logarithms of the factors to start from, of a usual factor, and the least and largest; most steps.

    Returns
    -------
    tuple
        Posterior mean, and the mean posterior variance.
    """

    def loss(log: Array) -> tuple[float, Array]:
        shares = np.exp(log)
        inverse, root = _inverse(_sum(shares, parts), variance)
        solved = inverse @ gap
        slope = [
            0.5 * s * (float(np.vdot(inverse, part)) - float(solved @ part @ solved))
            for s, part in zip(shares, parts, strict=True)
        ]
        stray = log - usual
        likelihood = 0.5 * float(gap @ solved) + float(np.log(root).sum())
        return likelihood + 0.5 * _LOOSE * float(stray @ stray), np.array(slope) + _LOOSE * stray

    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[bounds] * len(parts), options={"maxiter": steps}
    )
    field = _sum(np.exp(found.x), parts)
    inverse, _ = _inverse(field, variance)
    left = np.diag(field) - np.einsum("ij,ji->i", field @ inverse, field)
    return np.asarray(field @ (inverse @ gap)), float(np.mean(left))


def _sum(shares: Array, parts: Sequence[Array]) -> Array:
    return np.asarray(sum(s * part for s, part in zip(shares, parts, strict=True)))


def _inverse(field: Array, variance: float) -> tuple[Array, Array]:
    """Return the inverse of a covariance with noise added, and the diagonal of its Cholesky factor."""
    noisy = field.copy()
    noisy[np.diag_indices_from(noisy)] += variance
    lower, failed = lapack.dpotrf(noisy, lower=1)
    if failed:  # numerically singular: more noise
        return _inverse(field, variance + 1e-9 * float(np.trace(field)) / len(field) + variance)
    half, _ = lapack.dpotri(lower, lower=1)
    inverse = np.tril(half) + np.tril(half, -1).T
    return inverse, np.diag(lower).copy()
