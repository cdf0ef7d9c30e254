"""Multinomial logistic regression from its sufficient statistics alone, noisy or not.

The likelihood of coefficients ``beta`` depends on the records through ``s = sum x 1[w = c]`` and through the values of the
predictors. Only ``s`` is released. The predictors enter the score equation ``s = sum x p(c | x, beta)`` as an average
over their distribution, for which a sample from the model fitted so far stands in.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ROUNDS = 40
_LONGEST_STEP = 2.0
_CLOSE = 1e-5


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
        Where to begin; at the prior means by default.

    Notes
    -----
    Minimises ``(s - m(b))' C^-1 (s - m(b)) + (b - centre)' D^-2 (b - centre)`` where ``m`` is the expected statistic and
    ``C = J + noise`` its covariance, ``J`` the information of the regression. Without noise this is Newton's method for
    the penalised likelihood; with noise, directions that are mostly noise are left to the prior.

    Examples
    --------
    >>> x = np.stack([np.ones(4), np.array([-1.0, -0.5, 0.5, 1.0])], axis=1)
    >>> exact = 100 * (x * probabilities(x, np.array([[0.2, 1.0]]))[:, [1]]).mean(axis=0)
    >>> wide = np.full((1, 2), 1e3)
    >>> solve_logistic(exact[None], x, rows=100, noise_variance=0.0, deviations=wide).round(3)
    array([[0.2, 1. ]])
    """
    levels, width = statistic.shape
    prior = 1.0 / deviations.ravel() ** 2
    middle = np.zeros(levels * width) if centre is None else centre.ravel()
    found = middle.copy() if start is None else start.ravel().copy()
    eye = np.eye(levels * width)
    for _ in range(_ROUNDS):
        expected, information = expectation(design, found.reshape(levels, width), rows)
        covariance = information + (noise_variance + 1e-9 * rows) * eye
        pull = np.linalg.solve(covariance, statistic.ravel() - expected.ravel())
        weighted = np.linalg.solve(covariance, information)
        gradient = information @ pull - prior * (found - middle)
        curvature = information @ weighted + np.diag(prior)
        step = np.linalg.solve(curvature, gradient)
        longest = float(np.abs(step).max())
        found = found + step * min(1.0, _LONGEST_STEP / max(longest, 1e-300))
        if longest < _CLOSE:
            break
    return found.reshape(levels, width)


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


def expectation(design: Floats, coefficients: Floats, rows: float) -> tuple[Floats, Floats]:
    """Return the expected statistic and its covariance for so many records."""
    chances = probabilities(design, coefficients)[:, 1:]
    share = rows / len(design)
    expected = share * chances.T @ design
    levels, width = coefficients.shape
    information = np.zeros((levels, width, levels, width))
    for c in range(levels):
        for other in range(c, levels):
            weight = chances[:, c] * ((c == other) - chances[:, other])
            block = share * (design * weight[:, None]).T @ design
            information[c, :, other, :] = block
            information[other, :, c, :] = block.T
    return expected, information.reshape(levels * width, levels * width)
