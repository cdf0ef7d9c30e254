"""The mechanisms of paper DIPS for many repetitions at once, with the law of the registered methods.

Arrays have repetitions (and sets) first and cells last. Noise comes from an ordinary seeded generator, because the
tables are simulated; ``tests/statistical/test_dips_laws.py`` holds these functions to the registered methods.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.inference.sufficient import whole_noise

Array = npt.NDArray[np.float64]
Generator = np.random.Generator


def sets_of(values: Array, m: int) -> Array:
    """Repeat every table m times along a new second axis: one copy per set."""
    return np.repeat(np.asarray(values, dtype=np.float64)[:, None], m, axis=1)


def laplace_cells(counts: Array, epsilon: float, generator: Generator) -> Array:
    """Discrete Laplace noise of scale 1/epsilon on every cell: adding or removing a row moves one of them."""
    return np.asarray(counts + whole_noise("laplace", 1 / epsilon, np.shape(counts), generator))


def boundary_inflated(noisy: Array, rows: int) -> Array:
    """Cells below zero become zero and those above the number of rows become that number."""
    return np.clip(noisy, 0.0, rows)


def shares(cells: Array) -> Array:
    """Probabilities proportional to the cells; a table of zeros says nothing."""
    total = cells.sum(axis=-1, keepdims=True)
    return np.where(total > 0, cells / np.where(total > 0, total, 1.0), 1.0 / cells.shape[-1])


def rounded(cells: Array, rows: int, generator: Generator) -> Array:
    """Count rows of a set drawn by systematic rounding, for tables of two cells."""
    expected = shares(cells)[..., 0] * rows
    low = np.floor(expected)
    first = low + (generator.random(expected.shape) < expected - low)
    return np.stack([first, rows - first], axis=-1)


def dirichlet(weights: Array, generator: Generator) -> Array:
    """Draw probabilities from Dirichlet distributions, one per table."""
    drawn = generator.standard_gamma(weights)
    return shares(drawn)


def modips_probabilities(
    counts: Array, epsilon: float, rows: int, prior: float, generator: Generator
) -> Array:
    """MODIPS of a multinomial: noisy counts, cut to what is possible, taken at their word in the posterior."""
    noisy = boundary_inflated(laplace_cells(counts, epsilon, generator), rows)
    return dirichlet(noisy + prior, generator)


def multinomial_dirichlet(counts: Array, epsilon: float, rows: int, generator: Generator) -> Array:
    """The Multinomial-Dirichlet synthesizer with the smallest prior that is epsilon-DP."""
    return dirichlet(counts + rows / np.expm1(epsilon), generator)


def mcclure_reiter(successes: Array, epsilon: float, rows: int) -> Array:
    """The probability that the Binomial-Beta synthesizer of McClure and Reiter draws with."""
    alpha = 1 / np.expm1(epsilon / rows)
    return np.asarray((successes + alpha) / (rows + 2 * alpha))


def smoothed(counts: Array, epsilon: float, rows: int) -> Array:
    """The smoothed histogram: a mixture with the uniform one (equation 3.3)."""
    cells = counts.shape[-1]
    weight = cells / (cells + rows * np.expm1(epsilon / rows))
    return np.asarray((1 - weight) * counts / rows + weight / cells)


def binned_values(probabilities: Array, edges: Array, rows: int, generator: Generator) -> Array:
    """Draw values: a bin by its probability, then evenly inside it."""
    counts = generator.multinomial(rows, probabilities)
    which = np.repeat(
        np.broadcast_to(np.arange(counts.shape[-1]), counts.shape).ravel(), counts.ravel()
    ).reshape(*counts.shape[:-1], rows)
    return np.asarray(edges[which] + np.diff(edges)[which] * generator.random(which.shape))
