"""Coefficients from noisy moments. Post-processing throughout."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

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
        Strength of the quadratic penalty on everything but the constant, per record. The first predictor is the
        constant; the others are centred, so that class proportions are met whatever the penalty.

    Examples
    --------
    >>> classes_from(np.ones((10, 1)), np.array([[0.75]]), ridge=0.0).round(3)
    array([[1.099]])
    """
    centre = predictors.mean(axis=0)
    centre[0] = 0.0
    centred = predictors - centre
    wanted = moments - np.outer(centre, moments[0])
    eigenvalues, vectors = np.linalg.eigh(centred[:, 1:].T @ centred[:, 1:] / len(centred))
    # in these coordinates the second derivatives are close to a multiple of the identity
    largest = float(eigenvalues[-1]) if len(eigenvalues) else 1.0
    whiten = np.eye(len(centre))
    whiten[1:, 1:] = vectors / np.sqrt(np.maximum(eigenvalues, 1e-6 * max(largest, 1e-6)) + 4 * ridge)
    turned, goal = centred @ whiten, whiten.T @ wanted
    penalty = np.full((len(centre), 1), ridge)
    penalty[0] = min(ridge, 1e-6)

    def objective(flat: Array) -> tuple[float, Array]:
        v = flat.reshape(moments.shape)
        logits = turned @ v
        peak = np.maximum(logits.max(axis=1), 0.0)
        np.exp(logits - peak[:, None], out=logits)
        whole = np.exp(-peak) + logits.sum(axis=1)
        weights = whiten @ v
        value = float((peak + np.log(whole)).mean()) + float((penalty * weights**2).sum()) / 2
        slope = turned.T @ (logits / whole[:, None]) / len(turned) - goal + whiten.T @ (penalty * weights)
        return value - float((goal * v).sum()), slope.ravel()

    found = minimize(
        objective,
        np.zeros(moments.size),
        jac=True,
        method="L-BFGS-B",
        # a tenth of what the penalty allows for noise is as exact as it need be
        options={"maxiter": 200, "maxcor": 20, "ftol": 1e-11, "gtol": max(1e-6, 0.4 * ridge)},
    )
    weights = np.asarray(whiten @ found.x.reshape(moments.shape), dtype=np.float64)
    weights[0] -= centre @ weights
    return weights
