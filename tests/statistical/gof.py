"""Goodness of fit of integer draws, with the sample size worked out from the error to be caught."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import special, stats

from understudy.privacy import DiscreteGaussian, Gaussian, Geometric, Laplace

Cdf = Callable[[np.ndarray], np.ndarray]


def exact_cdf(noise: Gaussian | DiscreteGaussian | Laplace | Geometric, *, factor: float = 1.0) -> Cdf:
    """The distribution function ``noise`` would have if its scale were ``factor`` times what it is."""
    scale = noise.scale * factor
    match noise:
        case Gaussian():
            return lambda k: special.ndtr((k + 0.5) / scale)
        case DiscreteGaussian():
            if scale > 5_000:  # differs from the rounded Gaussian by less than 1 / (24 scale**2)
                return lambda k: special.ndtr((k + 0.5) / scale)
            reach = int(12 * scale) + 12
            mass = np.exp(-((np.arange(-reach, reach + 1) / scale) ** 2) / 2)
            cumulative = np.cumsum(mass) / mass.sum()
            return lambda k: cumulative[np.clip(k + reach, 0, 2 * reach).astype(np.int64)]
        case Laplace():
            norm = 1.0 + math.exp(-1.0 / scale)
            return lambda k: np.where(
                k < 0,
                np.exp(np.minimum(k, 0) / scale) / norm,
                1.0 - np.exp(-(np.maximum(k, 0) + 1) / scale) / norm,
            )
        case Geometric():
            return lambda k: np.where(k < 0, 0.0, -np.expm1(-(np.maximum(k, 0) + 1) / scale))


def edges_of(noise: Gaussian | DiscreteGaussian | Laplace | Geometric, cells: int = 20) -> np.ndarray:
    """Upper ends of about ``cells`` cells that are equally likely as far as integers allow."""
    return np.unique([noise.quantile(i / cells) for i in range(1, cells)])


def cell_probabilities(cdf: Cdf, edges: np.ndarray) -> np.ndarray:
    """Probability of each cell ``(-inf, e0], (e0, e1], ..., (e_last, inf)``."""
    return np.diff(np.concatenate([[0.0], cdf(edges.astype(np.float64)), [1.0]]))


def counts_in(draws: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many draws fall in each cell."""
    return np.bincount(np.searchsorted(edges, draws, side="left"), minlength=edges.size + 1)


def fit_pvalue(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """Chi-square p-value of cell counts against cell probabilities; empty impossible cells are left out."""
    possible = probabilities > 0
    if counts[~possible].any():
        return 0.0
    expected = counts.sum() * probabilities[possible]
    statistic = float(np.sum((counts[possible] - expected) ** 2 / expected))
    return float(stats.chi2.sf(statistic, expected.size - 1))


def draws_needed(right: np.ndarray, wrongs: Sequence[np.ndarray], alpha: float) -> int:
    """Sample size at which each wrong distribution is rejected at ``alpha``, but for probability ``alpha``.

    Draws from ``right`` tested against ``wrong`` have a statistic that is about noncentral chi-square
    with noncentrality ``n * sum((right - wrong)**2 / wrong)``; the required noncentrality is solved for.
    The smallest cell gets at least twenty expected draws, so that the chi-square law applies.
    """
    df = right.size - 1
    threshold = stats.chi2.isf(alpha, df)
    low, high = 0.0, 1e5
    while high - low > 0.1:
        middle = (low + high) / 2
        if stats.ncx2.cdf(threshold, df, middle) > alpha:
            low = middle
        else:
            high = middle
    per_draw = min(float(np.sum((right - wrong) ** 2 / wrong)) for wrong in wrongs)
    return math.ceil(max(1.1 * float(high) / per_draw, 20.0 / float(right.min())))
