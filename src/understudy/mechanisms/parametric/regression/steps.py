"""The steps of sequential regression from what was released. Post-processing throughout."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from understudy.marginals import Measurement
from understudy.mechanisms.parametric.margins import (
    Ladder,
    combined_total,
    ladder_of,
    noise_variance,
    proportions_of,
    refine,
)
from understudy.mechanisms.parametric.regression.distribution import (
    ClassStep,
    LineStep,
    Step,
    TableStep,
    class_probabilities,
    draw_step,
    line_values,
)
from understudy.mechanisms.parametric.regression.layout import RegressionLayout
from understudy.privacy import Noise

# ----------------------------------------------------------------------------------------
# Coefficients from noisy moments. Post-processing throughout.

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


LARGEST_EFFECT = 8.0
"""Size of coefficients of classes up to which the noise of moments is given a say; see the ridge."""
DRAWN = 8_192
"""Records drawn from the columns so far to fit the next one to its moments."""


def total_rows(
    known: int | None, released: list[Measurement], noise: list[Noise], matrix: Array, deviation: float
) -> float:
    """Estimate the number of rows from everything that counts them."""
    if known is not None:
        return float(max(1, known))
    found = [
        (float(item.values.sum()), noise_variance(kind) * item.values.size)
        for item, kind in zip(released, noise, strict=True)
    ]
    if matrix.size:
        found.append((float(matrix[0, 0]), deviation**2))
    return combined_total(found)


def histogram_shares(
    layout: RegressionLayout,
    released: list[Measurement],
    noise: list[Noise],
    owners: list[str],
    total: float,
) -> dict[str, Array]:
    """Return the proportions of each histogram, one row per combination of groups of earlier columns."""
    made = {}
    for name in layout.tables:
        column = layout.schema.column(name)
        mine = [place for place, owner in enumerate(owners) if owner == name]
        given = [other for other, _ in layout.given(name)]
        order = layout.schema.domain.canonical([*given, name])
        axes = [order.index(other) for other in [*given, name]]
        counts = [np.transpose(released[place].values, axes) for place in mine]
        flat = [step.reshape(-1, step.shape[-1]) for step in counts]
        variances = [noise_variance(noise[place]) for place in mine]
        rows = np.array([total])
        if len(flat[0]) > 1:
            sums = sum(
                step.sum(axis=1) / (v * step.shape[1]) for step, v in zip(flat, variances, strict=True)
            )
            weight = sum(1.0 / (v * step.shape[1]) for step, v in zip(flat, variances, strict=True))
            cells = Ladder("cells", (np.arange(len(flat[0])),))
            rows = refine(cells, [np.atleast_2d(sums / weight)], [1.0 / weight], [total])[0]
        made[name] = proportions_of(refine(ladder_of(column), flat, variances, rows))
    return made


def fitted_steps(
    layout: RegressionLayout,
    shares: dict[str, Array],
    weights: dict[str, Array],
    matrix: Array,
    deviation: float,
    total: float,
) -> list[Step]:
    """Fit the steps one after the other; what needs predictors draws them from the steps before."""
    predictors = _Predictors(layout)
    steps: list[Step] = []
    softmax = {model.target: model for model in layout.regressions}
    for name in layout.order:
        role = layout.role(name)
        before, own = layout.places(name)
        classes = weights.get(name)
        if name in softmax and classes is None:
            skip = 0 if role == "classes" else 1  # the position of a number comes before its extra codes
            ridge = max(1e-7, deviation / total / LARGEST_EFFECT)
            classes = classes_from(predictors.x, matrix[before, own][:, skip:] / total, ridge=ridge)
        step: Step
        if role == "histogram":
            step = TableStep(name, layout.given(name), shares[name])
        elif role == "classes":
            assert classes is not None
            step = ClassStep(name, classes)
        else:
            gram, rows = matrix[before, before], total
            if classes is not None:  # only records with a number count
                there = class_probabilities(predictors.x, classes)[:, 0]
                gram = (predictors.x * there[:, None]).T @ predictors.x * (total / DRAWN)
                rows = max(1.0, total * float(there.mean()))
            positions = layout.positions(name)
            coefficients, spread = line_from(
                gram,
                matrix[before, own.start],
                float(matrix[own.start, own.start]),
                rows=rows,
                noise=deviation,
                finest=max(1e-3, float(np.diff(positions).mean()) / 2),
            )
            edges = _edges(positions)
            if layout.ranked:
                histogram = shares[name][0, : len(positions)]
                edges = predictors.edges(coefficients, spread, histogram, classes)
            step = LineStep(name, coefficients, spread, edges, classes)
        steps.append(step)
        predictors.add(step)
    return steps


def _edges(positions: Array) -> Array:
    """Return edges half way between positions; the first and the last code are as wide on both sides."""
    inner = (positions[1:] + positions[:-1]) / 2
    return np.concatenate([[2 * positions[0] - inner[0]], inner, [2 * positions[-1] - inner[-1]]])


class _Predictors:
    """Draws predictors from the steps fitted so far, with a fixed seed; everything it uses is released."""

    def __init__(self, layout: RegressionLayout) -> None:
        self._layout = layout
        self._codes = np.zeros((DRAWN, len(layout.order)), dtype=np.uint32)
        self._generator = np.random.default_rng(0)
        self.x = np.ones((DRAWN, 1))

    def edges(self, coefficients: Array, deviation: float, histogram: Array, state: Array | None) -> Array:
        """Return edges of codes such that draws of a regression, where they are made, have a given histogram."""
        uniform = self._generator.permutation((np.arange(DRAWN) + 0.5) / DRAWN)
        drawn = line_values(self.x @ coefficients, deviation, -np.inf, np.inf, uniform)
        there = np.ones(DRAWN) if state is None else class_probabilities(self.x, state)[:, 0]
        order = np.argsort(drawn)
        below = (np.cumsum(there[order]) - there[order] / 2) / max(float(there.sum()), 1e-9)
        running = np.cumsum(proportions_of(histogram))[:-1]
        inner = np.interp(running, below, drawn[order])
        inner[running <= 0] = -np.inf
        inner[running >= 1] = np.inf
        return np.concatenate([[-np.inf], inner, [np.inf]])

    def add(self, step: Step) -> None:
        """Draw one more column."""
        domain = self._layout.schema.domain
        drawn = draw_step(step, self.x, self._codes, domain, self._generator)
        self._codes[:, domain.index(step.column)] = drawn
        self.x = np.concatenate([self.x, self._layout.features[step.column][drawn]], axis=1)
