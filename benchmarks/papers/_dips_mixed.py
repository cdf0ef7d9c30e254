"""What studies 3 and 4 of paper DIPS share: the general location model by its sufficient statistics, and more.

Records are a cell of a table and two numbers. Only statistics matter for the location model: counts, sums of the numbers
in each cell, and the scatter inside the cells. Repetitions (and sets) come first in all arrays.

Noise, for adding or removing one record with the number of records public: a count moves by one; a sum of
deviations from the public middle of a range of length ``2h`` moves by at most ``h``; the scatter
``SS = sum (z - cell mean)(z - cell mean)'`` moves by at most ``(2h)²`` in each entry, since a record enters it as
``n/(n+1) (z - mean)(z - mean)'``. The paper divides the sums by exact counts and scales the noise by them, which would
give the counts away; here the sums get noise and are divided by noisy counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.papers._dips_common import Array
from benchmarks.papers._dips_laws import dirichlet, sets_of

Generator = np.random.Generator


@dataclass(frozen=True)
class Statistics:
    """Counts ``[..., K]``, sums of deviations from the middles ``[..., K, 2]`` and scatter ``[..., 2, 2]``."""

    counts: Array
    sums: Array
    scatter: Array

    def noised(self, epsilon: float, half: float, generator: Generator) -> Statistics:
        """Laplace noise with a sixth of the budget for each of counts, two sums, two variances, one covariance."""
        part = epsilon / 6
        noise = generator.laplace(0, (2 * half) ** 2 / part, self.scatter.shape)
        noise[..., 1, 0] = noise[..., 0, 1]
        return Statistics(
            self.counts + generator.laplace(0, 1 / part, self.counts.shape),
            self.sums + generator.laplace(0, half / part, self.sums.shape),
            self.scatter + noise,
        )

    def sets(self, m: int) -> Statistics:
        """Repeat along a new second axis."""
        return Statistics(sets_of(self.counts, m), sets_of(self.sums, m), sets_of(self.scatter, m))


def statistics_of(cell: Array, z: Array, cells: int, middle: Array) -> Statistics:
    """Compute the statistics of records ``[..., n]`` and ``[..., n, 2]``."""
    lead, n = cell.shape[:-1], cell.shape[-1]
    flat = cell.reshape(-1, n).astype(np.int64)
    tables = len(flat)
    index = (flat + cells * np.arange(tables)[:, None]).ravel()
    numbers = (z - middle[cell]).reshape(-1, 2)
    counts = np.bincount(index, minlength=tables * cells).astype(np.float64)
    sums = np.stack([np.bincount(index, numbers[:, j], minlength=tables * cells) for j in range(2)], axis=-1)
    squares = np.einsum("tni,tnj->tij", numbers.reshape(tables, n, 2), numbers.reshape(tables, n, 2))
    means = sums / np.maximum(counts, 1)[:, None]
    scatter = squares - np.einsum(
        "tki,tkj->tij", sums.reshape(tables, cells, 2), means.reshape(tables, cells, 2)
    )
    return Statistics(
        counts.reshape(*lead, cells), sums.reshape(*lead, cells, 2), scatter.reshape(*lead, 2, 2)
    )


def possible_scatter(scatter: Array, rows: int, half: float) -> Array:
    """Move a noisy scatter matrix to the closest possible one: variances between nearly zero and h²."""
    values, vectors = np.linalg.eigh((scatter + np.swapaxes(scatter, -1, -2)) / 2)
    values = np.clip(values, 1e-4 * rows, half**2 * rows)
    return np.asarray(np.einsum("...ij,...j,...kj->...ik", vectors, values, vectors))


def wishart_root(df: float, shape: tuple[int, ...], generator: Generator) -> Array:
    """Draw lower triangular roots of standard Wishart matrices."""
    root = np.zeros((*shape, 2, 2))
    root[..., 0, 0] = np.sqrt(generator.chisquare(df, shape))
    root[..., 1, 1] = np.sqrt(generator.chisquare(df - 1, shape))
    root[..., 1, 0] = generator.standard_normal(shape)
    return root


def location_parameters(
    noisy: Statistics, rows: int, middle: Array, half: float, prior: float, generator: Generator
) -> tuple[Array, Array, Array]:
    """Draw probabilities, cell means and covariance from their posterior, the statistics taken at their word."""
    cells = noisy.counts.shape[-1]
    counts = np.clip(noisy.counts, 0.0, rows)
    probabilities = dirichlet(counts + prior, generator)
    # Inverse Wishart with rows - cells degrees of freedom: root of the scatter times inverse standard Wishart.
    root = np.linalg.cholesky(possible_scatter(noisy.scatter, rows, half))
    standard = wishart_root(rows - cells, noisy.counts.shape[:-1], generator)
    half_root = np.einsum("...ij,...kj->...ik", root, np.linalg.inv(standard))
    covariance = np.einsum("...ij,...kj->...ik", half_root, half_root)
    size = np.maximum(counts, 1.0)[..., None]
    centre = np.clip(noisy.sums / size, -half, half)
    noise = generator.standard_normal(centre.shape) / np.sqrt(size)
    centre = centre + np.einsum("...ij,...kj->...ki", np.linalg.cholesky(covariance), noise)
    return probabilities, middle + np.clip(centre, -half, half), covariance


def location_sets(
    parameters: tuple[Array, Array, Array], rows: int, middle: Array, generator: Generator
) -> Statistics:
    """Draw the statistics of sets from the location model by their own laws: multinomial, normal, Wishart."""
    probabilities, means, covariance = parameters
    cells = probabilities.shape[-1]
    counts = generator.multinomial(rows, probabilities).astype(np.float64)
    root = np.linalg.cholesky(covariance)
    noise = generator.standard_normal(means.shape) * np.sqrt(counts)[..., None]
    sums = counts[..., None] * (means - middle) + np.einsum("...ij,...kj->...ki", root, noise)
    scatter_root = np.einsum(
        "...ij,...jk->...ik", root, wishart_root(rows - cells, counts.shape[:-1], generator)
    )
    return Statistics(counts, sums, np.einsum("...ij,...kj->...ik", scatter_root, scatter_root))


def draw_cells(probabilities: Array, rows: int, generator: Generator) -> Array:
    """Draw the cell of every record, ordered by cell."""
    counts = generator.multinomial(rows, probabilities)
    places = np.broadcast_to(np.arange(counts.shape[-1]), counts.shape)
    return np.repeat(places.ravel(), counts.ravel()).reshape(*counts.shape[:-1], rows)
