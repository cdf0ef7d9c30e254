"""The steps of sequential regression from what was released. Post-processing throughout."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.curator import Noise
from understudy.engine import (
    ClassStep,
    LineStep,
    Step,
    TableStep,
    class_probabilities,
    draw_step,
    line_values,
)
from understudy.marginals import Measurement
from understudy.synthesizers.parametric._margins import (
    Ladder,
    combined_total,
    ladder_of,
    noise_variance,
    proportions_of,
    refine,
)
from understudy.synthesizers.parametric._regression_fit import classes_from, line_from
from understudy.synthesizers.parametric._regression_layout import RegressionLayout

Array = npt.NDArray[np.float64]

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
