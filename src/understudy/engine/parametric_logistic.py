"""Multinomial logistic regression from its sufficient statistics alone, noisy or not.

The likelihood of coefficients ``beta`` depends on the records through ``s = sum x 1[w = c]`` and through the values of the
predictors. Only ``s`` is released. The predictors enter the score equation ``s = sum x p(c | x, beta)`` as an average
over their distribution, for which a sample from the model fitted so far stands in.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ROUNDS = 20
_PASSES = 2
_CLOSE = 1e-3
"""The distance is like a chi-square: an improvement this small is far below what the data can tell."""


def probabilities(design: Floats, coefficients: Floats) -> Floats:
    """Return the probability of each level for each row; level 0 is the reference.

    Parameters
    ----------
    coefficients
        Of shape (levels - 1, predictors).
    """
    scores = np.concatenate([np.zeros((len(design), 1)), design @ coefficients.T], axis=1)
    scores -= scores.max(axis=1, keepdims=True)
    odds = np.exp(scores)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True), dtype=np.float64)


def solve_logistic(
    statistic: Floats,
    design: Floats,
    *,
    rows: float,
    noise_variance: float,
    deviations: Floats,
    centre: Floats | None = None,
    start: Floats | None = None,
) -> Floats:
    """Return the coefficients that explain noisy sufficient statistics best.

    Parameters
    ----------
    statistic
        Released sums of predictors within each level but the first, of shape (levels - 1, predictors).
    design
        A sample of the predictors.
    rows
        Number of records behind the statistic.
    noise_variance
        Variance of the noise of each sum.
    deviations
        Prior standard deviation of each coefficient, of shape (levels - 1, predictors).
    centre
        Prior means; zero by default.
    start
        Where to begin; at the shares of the levels by default.

    Notes
    -----
    Minimises ``(s - m(b))' C^-1 (s - m(b)) + (b - centre)' D^-2 (b - centre)`` where ``m(b)`` is the expected statistic and ``C``
    the covariance of what was released: the information of the regression, first at the shares of the levels and then
    at the first solution, plus the noise. Without noise the solution is that of the penalised likelihood; with noise,
    directions that are mostly noise are left to the prior. Levenberg and Marquardt's method: every step descends.

    Examples
    --------
    >>> x = np.stack([np.ones(4), np.array([-1.0, -0.5, 0.5, 1.0])], axis=1)
    >>> exact = 100 * (x * probabilities(x, np.array([[0.2, 1.0]]))[:, [1]]).mean(axis=0)
    >>> wide = np.full((1, 2), 1e3)
    >>> solve_logistic(exact[None], x, rows=100, noise_variance=0.0, deviations=wide).round(3)
    array([[0.2, 1. ]])
    """
    found = _at_shares(statistic, rows, noise_variance) if start is None else start
    middle = np.zeros(found.size) if centre is None else centre.ravel()
    prior = np.diag(1.0 / deviations.ravel() ** 2)
    eye = np.eye(found.size)
    for _ in range(_PASSES):
        _, information = expectation(design, found, rows)
        covariance = information + (noise_variance + 1e-6 * rows) * eye
        weights = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        found = _descend(statistic, design, found, rows, weights, prior, middle)
    return found


def _descend(
    statistic: Floats,
    design: Floats,
    found: Floats,
    rows: float,
    weights: Floats,
    prior: Floats,
    middle: Floats,
) -> Floats:
    """Minimise the weighted distance to the statistic and to the prior means."""
    shape, damping = statistic.shape, 1e-3

    def distance(expected: Floats, b: Floats) -> float:
        gap, away = (statistic - expected).ravel(), b.ravel() - middle
        return float(gap @ weights @ gap) + float(away @ prior @ away)

    expected, information = expectation(design, found, rows)
    now = distance(expected, found)
    for _ in range(_ROUNDS):
        gradient = information @ (weights @ (statistic - expected).ravel()) - prior @ (found.ravel() - middle)
        curvature = information @ weights @ information + prior
        step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
        tried = found + step.reshape(shape)
        expected_there, information_there = expectation(design, tried, rows)
        there = distance(expected_there, tried)
        if there > now:
            damping *= 8
            if damping > 1e6:
                break
            continue
        improved = now - there
        found, expected, information, now = tried, expected_there, information_there, there
        damping = max(damping / 8, 1e-9)
        if improved < _CLOSE:
            break
    return found


def draw_logistic(
    statistic: Floats,
    design: Floats,
    generator: np.random.Generator,
    *,
    rows: float,
    noise_variance: float,
    deviations: Floats,
) -> Floats:
    """Draw coefficients from their posterior: perturb the statistic and the prior, then solve again.

    The perturbation of the statistic has the covariance of its sampling error and of its noise together. For normal
    errors around a linear map this is an exact draw; here it is one to first order.
    """
    options = {"rows": rows, "noise_variance": noise_variance, "deviations": deviations}
    best = solve_logistic(statistic, design, **options)  # type: ignore[arg-type]
    _, information = expectation(design, best, rows)
    values, vectors = np.linalg.eigh(information + noise_variance * np.eye(len(information)))
    error = vectors @ (np.sqrt(np.maximum(values, 0.0)) * generator.standard_normal(len(values)))
    shift = deviations * generator.standard_normal(deviations.shape)
    perturbed = statistic + error.reshape(statistic.shape)
    return solve_logistic(perturbed, design, centre=shift, start=best, **options)  # type: ignore[arg-type]


def _at_shares(statistic: Floats, rows: float, noise_variance: float) -> Floats:
    """Return coefficients that give every level its share, whatever the predictors; the constant comes first."""
    least = np.sqrt(noise_variance) + 1.0
    counts = np.clip(statistic[:, 0], least, None)
    rest = max(rows - float(counts.sum()), least)
    found = np.zeros(statistic.shape)
    found[:, 0] = np.log(counts / rest)
    return found


def expectation(design: Floats, coefficients: Floats, rows: float) -> tuple[Floats, Floats]:
    """Return the expected statistic and its covariance for so many records."""
    chances = probabilities(design, coefficients)[:, 1:]
    share = rows / len(design)
    levels, width = coefficients.shape
    spread = (chances[:, :, None] * design[:, None, :]).reshape(len(design), levels * width)
    information = -(spread.T @ spread)
    own = spread.T @ design
    for c in range(levels):
        block = slice(c * width, (c + 1) * width)
        information[block, block] += own[block]
    return share * spread.sum(axis=0).reshape(levels, width), share * information
