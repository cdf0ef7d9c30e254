"""Tail bounds of the noise: the convex order they rest on, and that they are neither wrong nor slack."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from understudy.errors import WorkloadError
from understudy.inference.laws import CellNoise
from understudy.marginals import Measurement

SIGMAS = [0.05, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0]


def rounded_gaussian(sigma: float, reach: int) -> np.ndarray:
    """Probabilities of -reach..reach."""
    size = np.abs(np.arange(-reach, reach + 1))
    mass = norm.sf((size - 0.5) / sigma) - norm.sf((size + 0.5) / sigma)
    mass[reach] = 1 - 2 * norm.sf(0.5 / sigma)
    return mass


def discrete_gaussian(sigma: float, reach: int) -> np.ndarray:
    mass = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2))
    return np.asarray(mass / mass.sum())


def discrete_laplace(scale: float, reach: int) -> np.ndarray:
    mass = np.exp(-np.abs(np.arange(-reach, reach + 1.0)) / scale)
    return np.asarray(mass / mass.sum())


def stop_loss(mass: np.ndarray, at: np.ndarray) -> np.ndarray:
    """E (K - a)_+ for a law on whole numbers; linear between them."""
    reach = (len(mass) - 1) // 2
    tail = np.cumsum(mass[::-1])[::-1]
    whole = np.append(np.cumsum(tail[::-1])[::-1][1:], 0.0)
    return np.asarray(np.interp(at, np.arange(-reach, reach + 1), whole))


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("law", [rounded_gaussian, discrete_gaussian])
def test_whole_gaussian_noise_is_below_a_slightly_wider_normal(law: object, sigma: float) -> None:
    assert callable(law)
    at = np.linspace(0, 8 * sigma + 3, 4001)
    left = stop_loss(law(sigma, int(12 * sigma + 12)), at)
    wide = CellNoise("gaussian", sigma).stddev
    right = wide * norm.pdf(at / wide) - at * norm.sf(at / wide)
    seen = right > 1e-200
    assert np.all(left[seen] <= right[seen] * (1 + 1e-9))


@pytest.mark.parametrize("sigma", [1.0, 3.0, 10.0])
def test_a_normal_of_the_same_scale_would_not_do(sigma: float) -> None:
    at = np.linspace(0, 4 * sigma, 4001)
    left = stop_loss(rounded_gaussian(sigma, int(12 * sigma + 12)), at)
    assert np.any(left > sigma * norm.pdf(at / sigma) - at * norm.sf(at / sigma))


@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0, 2.0, 5.0, 20.0, 100.0])
def test_whole_laplace_noise_is_below_the_continuous_law(scale: float) -> None:
    at = np.linspace(0, 20 * scale + 2, 4001)
    left = stop_loss(discrete_laplace(scale, int(60 * scale + 20)), at)
    right = scale / 2 * np.exp(-at / scale)
    assert np.all(left <= right * (1 + 1e-9))


def largest_likely_sum(mass: np.ndarray, n: int, beta: float) -> int:
    """Smallest whole number that a sum of n draws from 0, 1, 2, ... exceeds with probability at most beta."""
    size = 1 << math.ceil(math.log2(n * len(mass)))
    law = np.fft.irfft(np.fft.rfft(mass, size) ** n, size)
    return int(np.searchsorted(np.cumsum(law), 1 - beta))


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("terms", [1, 3])
@pytest.mark.parametrize("n", [1, 12, 300])
def test_bounds_on_sums_hold_and_are_close_to_the_exact_quantile(kind: str, terms: int, n: int) -> None:
    scale, beta = 4.0, 0.05
    noise = CellNoise(kind, scale, terms)  # type: ignore[arg-type]
    reach = int(20 * scale)
    one = rounded_gaussian(scale, reach) if kind == "gaussian" else discrete_laplace(scale, reach)
    cell = one
    for _ in range(terms - 1):
        cell = np.convolve(cell, one)
    middle = (len(cell) - 1) // 2
    absolute = np.append(cell[middle], 2 * cell[middle + 1 :])
    positive = np.append(cell[: middle + 1].sum(), cell[middle + 1 :])
    slack = 1.05 + (0.9 if kind == "gaussian" else 1.6) / math.sqrt(n)
    for bound, law in ((noise.absolute_sum, absolute), (noise.positive_sum, positive)):
        exact = largest_likely_sum(law, n, beta)
        assert exact <= bound(n, beta) <= slack * exact + 1


@pytest.mark.parametrize("n", [1, 10, 500])
def test_bound_on_squares_covers_the_exact_quantile(n: int) -> None:
    sigma, beta = 3.0, 0.05
    reach = 40
    cell = rounded_gaussian(sigma, reach)
    squares = np.zeros(reach * reach + 1)
    squares[0] = cell[: reach + 1].sum()
    squares[np.arange(1, reach + 1) ** 2] = cell[reach + 1 :]
    exact = largest_likely_sum(squares[:401], n, beta)
    bound = CellNoise("gaussian", sigma).positive_squares(n, beta)
    assert exact <= bound <= exact * (1 + 3 / math.sqrt(n) + 0.05)
    assert CellNoise("laplace", sigma).positive_squares(n, beta) == math.inf


def test_the_constant_of_the_paper_is_larger() -> None:
    noise = CellNoise("gaussian", 50.0)
    n, beta = 1000, 0.05
    paper = 50.0 * (math.sqrt(2 * math.log(2)) * n + math.sqrt(2 * n * math.log(1 / beta)))
    lipschitz = noise.stddev * (math.sqrt(2 / math.pi) * n + math.sqrt(2 * n * math.log(1 / beta)))
    assert noise.absolute_sum(n, beta) <= lipschitz < 0.75 * paper


def test_signed_sums_and_edges() -> None:
    noise = CellNoise("gaussian", 2.0, terms=3)
    assert noise.signed_sum(5, math.exp(-2)) == pytest.approx(math.sqrt(2 * 5 * noise.variance * 2))
    laplace = CellNoise("laplace", 2.0)
    assert laplace.signed_sum(1, 0.01) >= 2.0 * math.log(0.5 / 0.01)
    for bound in (noise.absolute_sum, noise.positive_sum, noise.positive_squares, noise.signed_sum):
        assert bound(0, 0.05) == 0
        assert bound(4, 0.01) > bound(4, 0.1)
        with pytest.raises(WorkloadError, match="failure probability"):
            bound(4, 0.0)
    item = Measurement(("a",), np.zeros(4), "laplace", 2.0)
    assert CellNoise.of(item, terms=6).variance == 48.0
