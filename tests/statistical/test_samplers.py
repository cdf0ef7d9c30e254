"""Each sampler has the distribution it claims: the claimed scale passes, one 5 % off is rejected.

Every assertion has false-alarm rate ALPHA. Sample sizes come from `draws_needed`: large enough that a
scale 5 % too small or too large slips through with probability ALPHA only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from alpha import ALPHA
from gof import cell_probabilities, counts_in, draws_needed, edges_of, exact_cdf, fit_pvalue

from understudy.privacy import DiscreteGaussian, Gaussian, Geometric, Laplace, SeededRandomness
from understudy.privacy.noise import bigint as _noise_bigint
from understudy.privacy.noise.noise import dyadic
from understudy.privacy.noise.opendp import OpenDPRandomness
from understudy.privacy.noise.randomness import BitReader
from understudy.privacy.noise.selection import (
    bernoulli_exp,
    coin_scaled_exp,
    exponential_mechanism,
    permute_and_flip,
)

AnyNoise = Gaussian | DiscreteGaussian | Laplace | Geometric
WRONG = (0.95, 1.05)
SCALES = (0.4, 0.7310585786, 1.0, 3.0, 10.1, 100.0, 1e6 / 7, 2.0**33 + 0.25, 2.0**40)


def assert_has_its_scale(noise: AnyNoise, draw: Callable[[int], np.ndarray]) -> None:
    edges = edges_of(noise)
    right = cell_probabilities(exact_cdf(noise), edges)
    wrongs = [cell_probabilities(exact_cdf(noise, factor=factor), edges) for factor in WRONG]
    counts = counts_in(draw(draws_needed(right, wrongs, ALPHA)), edges)
    assert fit_pvalue(counts, right) > ALPHA
    for wrong in wrongs:
        assert fit_pvalue(counts, wrong) < ALPHA


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", [Gaussian, DiscreteGaussian, Laplace, Geometric])
def test_kernels_have_the_scale_they_claim(kind: type[AnyNoise], scale: float, seed: int) -> None:
    noise = kind(scale)
    assert_has_its_scale(noise, lambda n: noise.draw(n, SeededRandomness(seed)))


@pytest.mark.parametrize(
    "noise", [Gaussian(7.3), DiscreteGaussian(7.3), Laplace(7.3), Laplace(0.9)], ids=repr
)
def test_kernels_have_the_shape_they_claim(noise: AnyNoise, seed: int) -> None:
    # A right scale can hide a wrong shape: exp(-x (2 k + 1) / 2) in place of exp(-x (2 k + x) / 2) within a
    # level bends the density but keeps the variance within 0.5 %. Two million draws in 60 cells reject a
    # density off by 1 % up and down in alternate cells (noncentrality 200).
    edges = edges_of(noise, cells=60)
    right = cell_probabilities(exact_cdf(noise), edges)
    counts = counts_in(noise.draw(2_000_000, SeededRandomness(seed)), edges)
    assert fit_pvalue(counts, right) > ALPHA
    bent = right * (1 + 0.01 * np.where(np.arange(right.size) % 2, 1.0, -1.0))
    assert fit_pvalue(counts, bent / bent.sum()) < ALPHA


@pytest.mark.parametrize("scale", [0.6, 1.7, 40.0, 3e9 + 0.5])
def test_big_integer_samplers_have_the_scale_they_claim(scale: float, seed: int) -> None:
    reader = BitReader(SeededRandomness(seed), block_bytes=4096)
    m, shift = dyadic(scale)

    def drawn(sampler: Callable[..., int], *arguments: int) -> Callable[[int], np.ndarray]:
        return lambda n: np.array([sampler(*arguments, reader) for _ in range(n)])

    assert_has_its_scale(Gaussian(scale), drawn(_noise_bigint.rounded_gaussian, m, shift))
    assert_has_its_scale(DiscreteGaussian(scale), drawn(_noise_bigint.discrete_gaussian, m, shift))
    assert_has_its_scale(Laplace(scale), drawn(_noise_bigint.discrete_laplace, m, 1 << shift))
    assert_has_its_scale(Geometric(scale), drawn(_noise_bigint.geometric, m, 1 << shift))


@pytest.mark.parametrize(
    "noise", [Laplace(0.7), Laplace(10.0), DiscreteGaussian(0.8), DiscreteGaussian(100.0)]
)
def test_opendp_draws_from_the_same_distribution(noise: Laplace | DiscreteGaussian) -> None:
    # OpenDP takes no seed: this test draws anew on every run, and alarms falsely with probability ALPHA.
    assert_has_its_scale(noise, lambda n: noise.draw(n, OpenDPRandomness()))


@pytest.mark.parametrize("noise", [Gaussian(2.0**-11 / 3), DiscreteGaussian(2.0**-11 / 3), Laplace(2.0**-20)])
def test_tiny_scales_give_zero(noise: AnyNoise, seed: int) -> None:
    # P(not 0) < exp(-1e6). The first two take the big-integer path.
    assert not noise.draw(200, SeededRandomness(seed)).any()


def test_signs_and_neighbours_are_independent(seed: int) -> None:
    # Catches a sampler that reuses words: consecutive draws, and sign against magnitude, in a 2 x 2 table.
    # A dependence of 2 percentage points is rejected at this size.
    for noise in (Gaussian(3.0), DiscreteGaussian(3.0), Laplace(3.0)):
        draws = noise.draw(200_000, SeededRandomness(seed))
        moved = draws[draws != 0]
        large = np.abs(moved) > 2
        for a, b in ((moved > 0, large), (moved[1:] > 0, moved[:-1] > 0), (large[1:], large[:-1])):
            table = np.array([[np.sum(a & b), np.sum(a & ~b)], [np.sum(~a & b), np.sum(~a & ~b)]], float)
            expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
            assert np.sum((table - expected) ** 2 / expected) < 37.4  # chi-square, 1 df, 1e-9


@pytest.mark.parametrize(("p", "q"), [(1, 10), (1, 2), (1, 1), (7, 3), (2**70, 2**70 // 3), (355, 113)])
def test_exponential_coins(p: int, q: int, seed: int) -> None:
    right = np.array([np.exp(-p / q), -np.expm1(-p / q)])
    wrongs = [np.array([np.exp(-p / q * f), -np.expm1(-p / q * f)]) for f in WRONG]
    n = draws_needed(right, wrongs, ALPHA)
    heads = int(bernoulli_exp(p, q, n, SeededRandomness(seed)).sum())
    counts = np.array([heads, n - heads])
    assert fit_pvalue(counts, right) > ALPHA
    for wrong in wrongs:
        assert fit_pvalue(counts, wrong) < ALPHA


@pytest.mark.parametrize(("p", "q", "doublings"), [(1, 2, 0), (3, 4, 1), (20, 3, 9), (2**90 + 1, 2**88, 5)])
def test_scaled_exponential_coins(p: int, q: int, doublings: int, seed: int) -> None:
    probability = 2.0**doublings * np.exp(-p / q)
    right = np.array([probability, 1 - probability])
    wrongs = [np.array([probability * f, 1 - probability * f]) for f in WRONG]
    n = draws_needed(right, wrongs, ALPHA)
    reader = BitReader(SeededRandomness(seed), block_bytes=4096)
    heads = sum(coin_scaled_exp(p, q, doublings, reader) for _ in range(n))
    counts = np.array([heads, n - heads])
    assert fit_pvalue(counts, right) > ALPHA
    for wrong in wrongs:
        assert fit_pvalue(counts, wrong) < ALPHA


def softmax(scores: np.ndarray, rate: float) -> np.ndarray:
    weights = np.exp(rate * (scores - scores.max()))
    return np.asarray(weights / weights.sum())


def flip_probabilities(scores: np.ndarray, rate: float) -> np.ndarray:
    """P(i first to succeed) = p_i E[1 / (1 + successes of others)] = p_i ∫ prod_j (1 - p_j + p_j t) dt."""
    p = np.exp(rate * (scores - scores.max()))
    result = np.empty_like(p)
    for i in range(p.size):
        polynomial = np.polynomial.Polynomial([1.0])
        for j in range(p.size):
            if j != i:
                polynomial *= np.polynomial.Polynomial([1 - p[j], p[j]])
        result[i] = p[i] * polynomial.integ()(1.0)
    return np.asarray(result)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(
    ("mechanism", "law"), [(exponential_mechanism, softmax), (permute_and_flip, flip_probabilities)]
)
def test_selection_has_the_exact_probabilities(
    mechanism: Callable[..., int], law: Callable[..., np.ndarray], monotone: bool, seed: int
) -> None:
    # Caught: an epsilon 20 % off, and the monotone rate used where the general one is due (or reverse).
    scores = np.array([10.0, 9.5, 9.5, 7.25, 3.0, 8.0])
    epsilon, sensitivity = 1.5, 2.0
    rate = epsilon / sensitivity / (1 if monotone else 2)
    right = law(scores, rate)
    wrongs = [law(scores, rate * f) for f in (0.5, 0.8, 1.2, 2.0)]
    n = draws_needed(right, wrongs, ALPHA)
    source = SeededRandomness(seed)
    options = {"epsilon": epsilon, "sensitivity": sensitivity, "monotone": monotone, "randomness": source}
    counts = np.bincount([mechanism(scores, **options) for _ in range(n)], minlength=scores.size)
    # The grid lowers the rate by under 0.06 %: with these sizes, invisible beside ALPHA.
    assert fit_pvalue(counts, right) > ALPHA
    for wrong in wrongs:
        assert fit_pvalue(counts, wrong) < ALPHA


@pytest.mark.parametrize("mechanism", [exponential_mechanism, permute_and_flip])
def test_selection_among_many_uneven_candidates(mechanism: Callable[..., int], seed: int) -> None:
    # One candidate as likely as 20,000 others together, which lie log(20000) below it and are spread
    # over [0, 1e9] beyond; the naive rejection sampler would need about 10,000 tries each time.
    others, tail = 20_000, 80_000
    scores = np.concatenate([np.full(others, -np.log(others)), [0.0], -np.geomspace(30.0, 1e9, tail)])
    if mechanism is exponential_mechanism:
        best = 1 / (2 + np.sum(np.exp(scores[others + 1 :])))
    else:
        best = 1 - np.exp(-1.0)  # Poisson(1) rivals succeed: E[1 / (1 + N)]
    right = np.array([best, 1 - best])
    wrongs = [right + np.array([d, -d]) for d in (-0.16, 0.16)]
    n = draws_needed(right, wrongs, ALPHA)
    source = SeededRandomness(seed)
    options = {"epsilon": 2.0, "sensitivity": 1.0, "score_error": 0.0, "randomness": source}
    chosen = np.array([mechanism(scores, **options) for _ in range(n)])
    hits = int(np.sum(chosen == others))
    counts = np.array([hits, n - hits])
    assert fit_pvalue(counts, right) > ALPHA
    for wrong in wrongs:
        assert fit_pvalue(counts, wrong) < ALPHA
    # 80,000 candidates of weight below exp(-100): none is ever chosen, but for probability 1e-35.
    assert not np.any(scores[chosen] < -100.0)
