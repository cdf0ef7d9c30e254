"""Coefficients from noisy moments. Post-processing throughout."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from understudy.engine import class_probabilities

Array = npt.NDArray[np.float64]


def line_from(
    gram: Array, cross: Array, square: float, *, rows: float, noise: float, finest: float
) -> tuple[Array, float]:
    """Return coefficients and error deviation of a least-squares fit to noisy moments (functional mechanism).

    Parameters
    ----------
    gram, cross, square
        Sums over records of products of predictors, of predictors and target, and of the squared target.
    rows
        Number of records.
    noise
        Standard deviation of the noise of each sum.
    finest
        Smallest deviation worth telling apart.

    Notes
    -----
    Noise of this size moves the eigenvalues of the matrix of products by up to about ``2 noise sqrt(width)``. What
    the smallest one lacks to that is added to all (a ridge), so that directions that cannot be told from noise do not
    blow up. The ridge vanishes as the budget grows.

    Examples
    --------
    >>> x = np.array([[1.0, -1.0], [1.0, 1.0]])
    >>> y = np.array([0.1, 0.5])
    >>> line, deviation = line_from(x.T @ x, x.T @ y, y @ y, rows=2.0, noise=0.0, finest=0.01)
    >>> line.round(6), deviation
    (array([0.3, 0.2]), 0.01)
    """
    matrix = (gram + gram.T) / 2
    width = len(matrix)
    needed = max(2.0 * noise * math.sqrt(width), 1e-9 * max(rows, 1.0))
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    matrix = matrix + max(0.0, needed - smallest) * np.eye(width)
    coefficients = np.asarray(np.linalg.solve(matrix, cross), dtype=np.float64)
    left = (square - 2 * float(coefficients @ cross) + float(coefficients @ gram @ coefficients)) / max(
        rows, 1.0
    )
    spread = float(np.clip(square / max(rows, 1.0), finest**2, 1.0))
    return coefficients, math.sqrt(float(np.clip(left, finest**2, max(spread, finest**2))))


def classes_from(predictors: Array, moments: Array, *, ridge: float) -> Array:
    """Return the weights whose class probabilities have given mean products with the predictors.

    Maximum likelihood chooses weights for which the mean of ``p_k x`` equals that of ``1{class k} x`` in the records;
    here the first mean is taken over predictors drawn from the model so far, the second is the noisy moment.

    Parameters
    ----------
    predictors
        Records drawn from the columns before, of shape (records, predictors).
    moments
        Noisy mean of the indicator of each class but the first times each predictor.
    ridge
        Strength of the quadratic penalty, per record.

    Examples
    --------
    >>> classes_from(np.ones((10, 1)), np.array([[0.75]]), ridge=0.0).round(3)
    array([[1.099]])
    """
    width, others = moments.shape
    weights = np.zeros((width, others))
    value, gradient, curvature = _derivatives(predictors, moments, weights, ridge)
    for _ in range(100):
        if float(np.abs(gradient).max(initial=0.0)) < 1e-8:
            break
        step = np.linalg.solve(curvature, gradient.T.ravel()).reshape(others, width).T
        decrease, length = float((gradient * step).sum()), 1.0
        while True:
            tried = weights - length * step
            new = _derivatives(predictors, moments, tried, ridge)
            if new[0] <= value - 1e-4 * length * decrease or length < 1e-6:
                break
            length /= 2
        weights = tried
        value, gradient, curvature = new
    return weights


def _derivatives(
    predictors: Array, moments: Array, weights: Array, ridge: float
) -> tuple[float, Array, Array]:
    """Return value, gradient and second derivatives; coefficients are ordered by class, then predictor."""
    n, (width, others) = len(predictors), moments.shape
    logits = predictors @ weights
    peak = np.maximum(logits.max(axis=1), 0.0)
    value = float((peak + np.log(np.exp(-peak) + np.exp(logits - peak[:, None]).sum(axis=1))).mean())
    p = class_probabilities(predictors, weights)[:, 1:]
    gradient = predictors.T @ p / n - moments + ridge * weights
    curvature = max(ridge, 1e-9) * np.eye(width * others)
    for k in range(others):
        for m in range(k, others):
            factor = p[:, k] * ((k == m) - p[:, m]) / n
            block = predictors.T @ (predictors * factor[:, None])
            curvature[k * width : (k + 1) * width, m * width : (m + 1) * width] += block
            if m > k:
                curvature[m * width : (m + 1) * width, k * width : (k + 1) * width] += block.T
    return (
        value + ridge / 2 * float((weights**2).sum()) - float((moments * weights).sum()),
        gradient,
        curvature,
    )
