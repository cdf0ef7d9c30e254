"""Logistic regressions for study 4: Firth's for many sets at once, and private ones by objective perturbation."""

from __future__ import annotations

import numpy as np

from benchmarks.papers._dips_common import Array
from benchmarks.papers._private_erm import objective_parameters

RIDGE = 1e-4
"""Least regularisation of the private regressions; more where the budget is small."""
CURVATURE = 0.25
"""Largest second derivative of the logistic loss."""
_STEPS, _LONGEST = 25, 5.0


def firth(features: Array, labels: Array, weights: Array) -> tuple[Array, Array]:
    """Coefficients and variances of weighted logistic regressions with Firth's correction.

    Parameters
    ----------
    features, labels, weights
        ``[sets, rows, p]``, ``[sets, rows]`` of 0 and 1, and ``[sets, rows]``; a weight of zero leaves a row out.
    """
    sets, _, p = features.shape
    beta = np.zeros((sets, p))
    inverse = np.zeros((sets, p, p))
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.einsum("snp,sp->sn", features, beta)))
        curvature = weights * chance * (1 - chance)
        scaled = features * curvature[..., None]
        information = np.swapaxes(scaled, 1, 2) @ features + 1e-9 * np.eye(p)
        inverse = np.linalg.inv(information)
        leverage = np.einsum("snp,snp->sn", features @ inverse, scaled)
        score = weights * (labels - chance) + leverage * (0.5 - chance)
        step = np.einsum("spq,sq->sp", inverse, np.einsum("snp,sn->sp", features, score))
        length = np.linalg.norm(step, axis=1, keepdims=True)
        step = step * np.minimum(1.0, _LONGEST / np.maximum(length, 1e-12))
        beta = beta + step
        if float(np.abs(step).max()) < 1e-6:
            break
    return beta, np.diagonal(inverse, axis1=1, axis2=2)


def private_logistic(
    features: Array, labels: Array, kept: Array, scales: Array, epsilon: float, generator: np.random.Generator
) -> tuple[Array, float, float]:
    """Coefficients by objective perturbation, replacing one row; also the scale of the tilt and the ridge.

    Tables come first in all arrays. Rows that are not kept have their features set to zero: they add a constant to the
    loss, so that the number of rows stays public and the sensitivity what it is for records of norm at most one.
    """
    sets, n, p = features.shape
    # with enough ridge at most half of the budget goes into the change of volume, the rest into the tilt
    ridge = max(RIDGE, CURVATURE / (n * np.expm1(epsilon / 4)))
    left, _ = objective_parameters(n, curvature=CURVATURE, regularisation=ridge, epsilon=epsilon)
    tilt = spherical((sets, p), 2 / left, generator) / n
    x = np.where(kept[..., None], features, 0.0) / scales
    w = np.zeros((sets, p))
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(np.einsum("snp,sp->sn", x, w), -40, 40)))
        gradient = np.einsum("snp,sn->sp", x, chance - labels) / n + ridge * w + tilt
        hessian = np.swapaxes(x * (chance * (1 - chance))[..., None], 1, 2) @ x / n + ridge * np.eye(p)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        # a Newton step longer than this may overshoot where the loss is flat
        step *= np.minimum(1.0, 2 * _LONGEST / np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-12))
        w = w - step
        if float(np.abs(step).max()) < 1e-8:
            break
    return w / scales, 2 / left, ridge


def spherical(shape: tuple[int, int], scale: float, generator: np.random.Generator) -> Array:
    """Vectors with density proportional to exp(-|b| / scale)."""
    direction = generator.standard_normal(shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(direction * generator.gamma(shape[1], scale, (shape[0], 1)))


def corrected_draws(
    beta: Array,
    design: Array,
    kept: Array,
    rows: int,
    scales: Array,
    scale: float,
    ridge: float,
    draws: int,
    generator: np.random.Generator,
) -> Array:
    """Draw coefficients given a private fit, with tilt, ridge and sampling taken into account to first order.

    With ``w = scales β`` the fit solves ``g(w) + tilt/n + ridge w = 0``, ``g`` the gradient of the mean loss. At the true
    ``w0`` the gradient is ``N(0, H/n)``, ``H`` its Hessian, so ``w0 ≈ w + H⁻¹ (ridge w + tilt/n + N(0, H/n))``. ``H`` comes
    from records drawn from the released model, the tilt from its public law.
    """
    x = np.where(kept[:, None], design, 0.0) / scales
    w = beta * scales
    chance = 1 / (1 + np.exp(-(x @ w)))
    hessian = (x * (chance * (1 - chance) * kept)[:, None]).T @ x / len(x) + 1e-7 * np.eye(x.shape[1])
    tilt = spherical((draws, len(beta)), scale, generator) / rows
    sampling = generator.standard_normal((draws, len(beta))) @ np.linalg.cholesky(hessian / rows).T
    return np.asarray((w + (ridge * w + tilt + sampling) @ np.linalg.inv(hessian)) / scales)
