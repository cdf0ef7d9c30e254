"""Conditional tables from noisy counts or noisy moments (paper Deniability, section 3.4). Post-processing only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from understudy.engine import project_to_simplex
from understudy.schema import Integer, Real, Schema

Array = npt.NDArray[np.float64]


def dirichlet_table(
    noisy: Array,
    *,
    prior: float,
    truncation: str,
    draw: bool,
    generator: np.random.Generator,
) -> Array:
    """Turn noisy counts ``[configurations..., values]`` into conditional probabilities.

    Parameters
    ----------
    noisy
        Counts with noise.
    prior
        Strength of the Dirichlet prior, in rows. Its shape is the law of the values over all configurations
        together, so a configuration nobody has seen behaves like the average one.
    truncation
        ``"zero"`` cuts negative counts (equation 14 of the paper); ``"simplex"`` moves each row to the closest
        non-negative one with the same sum, which removes most of the noise in empty cells.
    draw
        Whether to draw the probabilities from their posterior instead of taking equation 13.
    """
    rows = noisy.reshape(-1, noisy.shape[-1])
    if truncation == "zero":
        counts = np.maximum(rows, 0.0)
    else:
        counts = np.stack([project_to_simplex(row, max(0.0, float(row.sum()))) for row in rows])
    pooled = project_to_simplex(rows.sum(axis=0), max(1.0, float(rows.sum()))) + 1.0 / rows.shape[1]
    alpha = counts + prior * pooled / pooled.sum()
    if draw:
        gamma = generator.standard_gamma(alpha)
        spent = gamma.sum(axis=1, keepdims=True)
        table = np.where(
            spent > 0, gamma / np.where(spent > 0, spent, 1.0), alpha / alpha.sum(axis=1, keepdims=True)
        )
    else:
        table = alpha / alpha.sum(axis=1, keepdims=True)
    return np.asarray(table.reshape(noisy.shape), dtype=np.float64)


def numeric_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns that can have a normal conditional: numbers without extra codes, three or more."""
    return tuple(
        column.name
        for column in schema.columns
        if isinstance(column, Integer | Real) and column.size == column.value_count and column.size > 2
    )


def positions(size: int) -> Array:
    """Return the codes of a numeric column spread over [0, 1], in the order of their values."""
    return np.linspace(0.0, 1.0, size)


def normal_table(moments: Array, size: int, *, strength: float, regression: Sequence[int] | None) -> Array:
    """Turn noisy moments ``[configurations..., 3]`` (rows, sum, sum of squares) into discretised normals.

    Parameters
    ----------
    moments
        Noisy number of rows, sum and sum of squares of the position of the target in [0, 1].
    size
        Number of values of the target.
    strength
        How many rows the average over all configurations counts for in each of them: the noise in rows.
    regression
        ``None`` lets each configuration have its own mean and spread. Otherwise the group sizes of the
        parents: the mean is linear in the parents' groups and the spread is common to all.
    """
    shape = moments.shape[:-1]
    rows = moments.reshape(-1, 3)
    pooled = rows.sum(axis=0)
    total = max(1.0, float(pooled[0]))
    centre = min(1.0, max(0.0, float(pooled[1]) / total))
    smallest = (1 / (2 * size)) ** 2
    spread = min(0.25, max(smallest, float(pooled[2]) / total - centre**2))
    weight = np.maximum(rows[:, 0], 0.0) + max(strength, 1e-9)
    mean = np.clip((rows[:, 1] + strength * centre) / weight, 0.0, 1.0)
    second = (rows[:, 2] + strength * (spread + centre**2)) / weight
    variance = np.clip(second - mean**2, smallest, 0.25)
    if regression is not None and shape:
        grid = np.stack(np.unravel_index(np.arange(len(rows)), tuple(regression)), axis=1)
        design = np.column_stack([np.ones(len(rows)), grid / np.maximum(np.array(regression) - 1, 1)])
        share = weight / weight.sum()
        scaled = design * np.sqrt(share)[:, None]
        ridge = 1e-9 * np.eye(design.shape[1])
        slope = np.linalg.solve(scaled.T @ scaled + ridge, scaled.T @ (mean * np.sqrt(share)))
        fitted = np.clip(design @ slope, 0.0, 1.0)
        common = float((share * (variance + (mean - fitted) ** 2)).sum())
        mean, variance = fitted, np.full(len(rows), min(0.25, max(smallest, common)))
    edges = (np.arange(1, size) - 0.5) / (size - 1)
    reach = (edges[None, :] - mean[:, None]) / np.sqrt(2 * variance)[:, None]
    below = 0.5 * (1 + np.vectorize(math.erf)(reach))
    table = np.diff(below, axis=1, prepend=0.0, append=1.0)
    table = np.maximum(table, 1e-12)
    return np.asarray((table / table.sum(axis=1, keepdims=True)).reshape(*shape, size))
