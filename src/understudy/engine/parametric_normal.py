"""Draws and matrices of the normal law that the samplers of parametric models share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def pairs_of(d: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the pairs of columns of a symmetric matrix, in the order in which they are released."""
    return np.triu_indices(d)


def symmetric(values: Floats, d: int) -> Floats:
    """Return the symmetric matrix with the given upper triangle."""
    i, j = pairs_of(d)
    matrix = np.zeros((d, d))
    matrix[i, j] = values
    matrix[j, i] = values
    return matrix


def positive_definite(matrix: Floats, floor: float | Floats) -> Floats:
    """Return the closest symmetric matrix with no eigenvalue below the floor."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T, dtype=np.float64)


def product_covariance(sigma: Floats) -> Floats:
    """Covariance of the products of centred normal numbers (Isserlis)."""
    i, j = pairs_of(len(sigma))
    return np.asarray(
        sigma[i[:, None], i] * sigma[j[:, None], j] + sigma[i[:, None], j] * sigma[j[:, None], i],
        dtype=np.float64,
    )


def laplace_variances(gap: Floats, scale: float, generator: np.random.Generator) -> Floats:
    """Draw the variance behind each Laplace number given its size.

    Laplace noise of scale ``b`` is normal with an exponential variance of mean ``2 b²``; given the noise ``e``, one
    over the variance is inverse Gaussian with mean ``1 / (b |e|)`` and shape ``1 / b²``.
    """
    mean = 1.0 / (scale * np.maximum(np.abs(gap), 1e-9 * scale))
    drawn = generator.wald(mean, 1.0 / scale**2)
    return np.asarray(1.0 / np.maximum(drawn, 1e-12 / scale**2), dtype=np.float64)


def draw_normal(covariances: Floats, generator: np.random.Generator) -> Floats:
    """Draw one centred normal vector per covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariances)
    white = generator.standard_normal(values.shape) * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(np.einsum("kij,kj->ki", vectors, white), dtype=np.float64)


def inverse_wishart(freedom: float, scale: Floats, generator: np.random.Generator) -> Floats:
    """Draw from the inverse Wishart law by Bartlett's decomposition."""
    d = len(scale)
    lower = np.tril(generator.standard_normal((d, d)), -1)
    lower[np.diag_indices(d)] = np.sqrt(generator.chisquare(np.maximum(freedom - np.arange(d), 1e-3)))
    root = np.linalg.cholesky(scale)
    inside = np.linalg.solve(lower, root.T)
    drawn = inside.T @ inside
    return np.asarray((drawn + drawn.T) / 2, dtype=np.float64)


def bounded(sigma: Floats) -> Floats:
    """Shrink variances above the largest possible one, keeping the correlations."""
    size = np.sqrt(np.minimum(1.0, 1.0 / np.maximum(np.diag(sigma), 1e-300)))
    return np.asarray(sigma * np.outer(size, size), dtype=np.float64)
