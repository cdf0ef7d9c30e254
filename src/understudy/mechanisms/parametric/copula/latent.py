"""From noisy rank statistics to the correlations of latent normal numbers. Post-processing throughout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.mechanisms.parametric.copula.distribution import Latent, orthant_tables
from understudy.mechanisms.parametric.margins import proportions_of

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

ANGLES = np.linspace(-1.5, 1.5, 61)
"""Correlations are looked for among the sines of these angles: up to 0.9975 in size."""


@dataclass(frozen=True, eq=False)
class Dimension:
    """One dimension of a copula as the records show it: ranked groups of codes, in each part of the table.

    Attributes
    ----------
    latent
        The dimension.
    labels
        Group of each code in each part, of shape (parts, codes); -1 where the dimension is not seen.
    shares
        For each part the probabilities of its groups, given that the dimension is seen.
    seen
        For each part the probability that the dimension is seen.
    """

    latent: Latent
    labels: Labels
    shares: tuple[Array, ...]
    seen: Array

    @property
    def scores(self) -> Array:
        """Score of each code in each part: its middle rank, from -1 to 1; zero where the dimension is not seen."""
        scores = np.zeros(self.labels.shape)
        for part, share in enumerate(self.shares):
            inside = self.labels[part] >= 0
            scores[part, inside] = middle_ranks(share)[self.labels[part, inside]]
        return scores


def middle_ranks(shares: Array) -> Array:
    """Return twice the middle of each group's range of ranks, less one.

    Examples
    --------
    >>> middle_ranks(np.array([0.5, 0.5]))
    array([-0.5,  0.5])
    """
    above = np.cumsum(shares)
    return np.asarray(np.clip(2 * (above - shares / 2) - 1, -1.0, 1.0))


def dimensions_of(column: str, values: int, margins: Array, *, groups: int) -> list[Dimension]:
    """Return the dimensions of one column: its values, and its extra codes if there are any.

    Values are merged into at most ``groups`` groups that are about equally likely in each part.
    """
    inside = proportions_of(margins[:, :values])
    labels = np.full(margins.shape, -1, dtype=np.int64)
    shares: list[Array] = []
    for part, row in enumerate(inside):
        middle = np.cumsum(row) - row / 2
        which = (
            np.minimum((middle * groups).astype(np.int64), groups - 1)
            if values > groups
            else np.arange(values)
        )
        which = np.unique(which, return_inverse=True)[1]
        labels[part, :values] = which
        shares.append(np.bincount(which, weights=row).astype(np.float64))
    seen = margins[:, :values].sum(axis=1)
    found = [Dimension(Latent(column, "value"), labels, tuple(shares), seen)]
    if values < margins.shape[1]:
        state = np.concatenate([seen[:, None], margins[:, values:]], axis=1)
        codes = np.concatenate([np.zeros(values, dtype=np.int64), 1 + np.arange(margins.shape[1] - values)])
        repeated = np.tile(codes, (len(margins), 1))
        found.append(
            Dimension(Latent(column, "state"), repeated, tuple(proportions_of(state)), np.ones(len(margins)))
        )
    return found


def expected_curve(left: Dimension, right: Dimension, part: int, *, statistic: str) -> Array:
    """Return the expected statistic of one record, or of one pair of records, for each correlation of ``ANGLES``.

    ``"kendall"``: the product of the signs of two differences. ``"scores"``: the product of two scores. Records in
    which a dimension is not seen count as zero.
    """
    tables = orthant_tables(left.shares[part], right.shares[part], ANGLES)
    seen = float(left.seen[part] * right.seen[part])
    if statistic == "scores":
        a, b = middle_ranks(left.shares[part]), middle_ranks(right.shares[part])
        return np.asarray(seen * np.einsum("tij,i,j->t", tables, a, b))
    above = np.flip(np.cumsum(np.flip(tables, 1), axis=1), 1)
    above = np.concatenate([above[:, 1:], np.zeros_like(tables[:, :1])], axis=1)
    running = np.cumsum(above, axis=2)
    difference = running[:, :, -1:] - 2 * running + above
    return np.asarray(seen**2 * 2 * (tables * difference).sum(axis=(1, 2)))


def correlation_from(curve: Array, value: float, deviation: float) -> float:
    """Return the correlation at which a rising curve over ``ANGLES`` meets a noisy value, shrunk towards zero.

    Parameters
    ----------
    curve
        Expected value for each angle.
    value
        The noisy statistic.
    deviation
        Standard deviation of its noise.

    Notes
    -----
    With noise of standard deviation ``s`` on the correlation, ``r`` becomes ``r³ / (r² + s²)``: what does not stand
    out from the noise is mostly noise. As the budget grows ``s`` goes to zero and nothing is shrunk.
    """
    rising = np.maximum.accumulate(curve)
    span = rising[-1] - rising[0]
    if not span > 1e-9:
        return 0.0
    angle = float(np.interp(value, rising + 1e-12 * np.arange(len(rising)), ANGLES))
    zero = len(ANGLES) // 2
    slope = (curve[zero + 3] - curve[zero - 3]) / (np.sin(ANGLES[zero + 3]) - np.sin(ANGLES[zero - 3]))
    r = float(np.sin(angle))
    s = deviation / max(slope, 1e-9)
    return r**3 / (r**2 + s**2) if r else 0.0


def nearest_correlation(matrix: npt.ArrayLike, *, smallest: float = 1e-3) -> Array:
    """Return a positive definite correlation matrix close to a symmetric one (Higham 2002).

    Alternating projections, with Dykstra's correction, between matrices with eigenvalues of at least ``smallest``
    and matrices with a unit diagonal; a last scaling makes both hold exactly.

    Examples
    --------
    >>> repaired = nearest_correlation([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]])
    >>> bool(np.linalg.eigvalsh(repaired).min() > 0), repaired.diagonal().tolist()
    (True, [1.0, 1.0, 1.0])
    """
    made = np.array(matrix, dtype=np.float64)
    made = (made + made.T) / 2
    np.fill_diagonal(made, 1.0)
    if len(made) == 0 or np.linalg.eigvalsh(made)[0] >= smallest:
        return made
    correction = np.zeros_like(made)
    for _ in range(200):
        shifted = made - correction
        eigenvalues, vectors = np.linalg.eigh(shifted)
        definite = (vectors * np.maximum(eigenvalues, smallest)) @ vectors.T
        correction = definite - shifted
        step = definite.copy()
        np.fill_diagonal(step, 1.0)
        moved = float(np.abs(step - made).max())
        made = step
        if moved < 1e-7:
            break
    eigenvalues, vectors = np.linalg.eigh(made)
    made = (vectors * np.maximum(eigenvalues, smallest)) @ vectors.T
    size = np.sqrt(made.diagonal())
    made = made / size[:, None] / size[None, :]
    made = (made + made.T) / 2
    np.fill_diagonal(made, 1.0)
    return np.asarray(made)


def matrix_of(size: int, pairs: Sequence[tuple[int, int]], correlations: Sequence[float]) -> Array:
    """Put correlations of pairs into a matrix and repair it."""
    made = np.eye(size)
    for (i, j), r in zip(pairs, correlations, strict=True):
        made[i, j] = made[j, i] = r
    return nearest_correlation(made)
