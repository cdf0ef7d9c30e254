"""MODIPS: posteriors that know the noise are calibrated, and estimates reach the truth as the budget grows.

False-alarm rate of every assertion: ``ALPHA``. Each test names the wrong answer that it must catch.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from alpha import ALPHA
from scipy import stats
from scipy.special import gammaln

from understudy.curator import Curator
from understudy.data import read_table
from understudy.marginals import Statistic
from understudy.mechanisms import create
from understudy.mechanisms.parametric.modips.gaussian import (
    GaussianEvidence,
    draw_gaussian,
    laplace_variances,
    naive_gaussian,
)
from understudy.mechanisms.parametric.modips.location import naive_counts, plausible_counts
from understudy.mechanisms.parametric.modips.slomag import draw_logistic, probabilities
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Schema

SCHEMA = Schema.parse(
    """
columns:
  - {name: height, kind: real, minimum: 0, maximum: 10}
  - {name: weight, kind: real, minimum: 0, maximum: 10}
  - {name: group, kind: categorical, values: [a, b, c]}
"""
)


def _exact_posterior(
    y: np.ndarray, noise: str, scale: float, alpha: float, total: int | None, most: int
) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Enumerate the posterior of small counts."""
    tables = [
        n for n in itertools.product(range(most + 1), repeat=len(y)) if total is None or sum(n) == total
    ]
    n = np.array(tables, dtype=float)
    gap = np.where(np.isnan(y), 0.0, (y - n) / scale)
    law = -np.abs(gap) if noise == "laplace" else -0.5 * gap**2
    weights = (gammaln(n + alpha) - gammaln(n + 1) + law).sum(axis=1)
    chances = np.exp(weights - weights.max())
    return tables, chances / chances.sum()


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("total", [None, 7])
@pytest.mark.parametrize("y", [(3.0, 1.0, -1.0), (np.nan, 5.0)], ids=["three cells", "one of two released"])
def test_drawn_counts_follow_the_posterior(
    noise: Literal["laplace", "gaussian"], total: int | None, y: tuple[float, ...], seed: int
) -> None:
    """Chi-square against enumeration. 1,500 draws; another prior weight of the cells (4 instead of 1/2) is caught."""
    values = np.array(y)
    if total is None and np.isnan(values).any():
        values = np.array([2.0, 5.0])
    scale, alpha, draws = 0.8, 0.5, 1_500
    tables, chances = _exact_posterior(values, noise, scale, alpha, total, 30 if len(values) == 2 else 16)
    generator = np.random.default_rng(seed)
    noisy = Statistic("c", values, noise, scale)
    drawn = [
        tuple(int(x) for x in plausible_counts(noisy, alpha=alpha, total=total, generator=generator))
        for _ in range(draws)
    ]
    place = {table: index for index, table in enumerate(tables)}
    seen = np.bincount([place[item] for item in drawn], minlength=len(tables))
    assert _fits(seen, chances) > ALPHA
    _, wrong = _exact_posterior(values, noise, scale, 4.0, total, 30 if len(values) == 2 else 16)
    assert _fits(seen, wrong) < ALPHA


def _fits(seen: np.ndarray, chances: np.ndarray) -> float:
    """p-value of a chi-square test, rare tables taken together."""
    expected = chances * seen.sum()
    common = expected >= 8
    observed, hoped = seen[common], expected[common]
    rest = expected[~common].sum()
    if rest > 1:
        observed, hoped = np.append(observed, seen[~common].sum()), np.append(hoped, rest)
    hoped = hoped * observed.sum() / hoped.sum()
    return float(stats.chisquare(observed, hoped).pvalue)


def test_probabilities_cover_at_every_rank(seed: int) -> None:
    """Truth drawn from the prior must be exchangeable with draws from the posterior: ranks are uniform.

    1,000 tables of two cells, 100 records, Laplace noise of scale 10, 9 draws each. Taking the noisy count as exact
    puts the truth outside all draws in most tables.
    """
    generator = np.random.default_rng(seed)
    alpha, rows, scale = 1 / 3, 100, 10.0
    aware, naive = np.zeros(10), np.zeros(10)
    for _ in range(1_000):
        truth = generator.beta(alpha, alpha)
        count = generator.binomial(rows, truth)
        noisy = Statistic("c", np.array([np.nan, count + generator.laplace(0, scale)]), "laplace", scale)
        n = [plausible_counts(noisy, alpha=alpha, total=rows, generator=generator)[1] for _ in range(9)]
        aware[sum(generator.beta(alpha + k, alpha + rows - k) < truth for k in n)] += 1
        told = naive_counts(noisy, total=rows)[1]
        naive[(generator.beta(alpha + told, alpha + rows - told, 9) < truth).sum()] += 1
    assert stats.chisquare(aware).pvalue > ALPHA
    assert stats.chisquare(naive).pvalue < ALPHA


def test_the_variance_behind_laplace_noise(seed: int) -> None:
    """Noise, then variance given noise, then noise given variance must be Laplace again (Kolmogorov-Smirnov)."""
    generator = np.random.default_rng(seed)
    noise = generator.laplace(0, 2.0, 40_000)
    again = generator.normal(0, np.sqrt(laplace_variances(noise, 2.0, generator)))
    assert stats.kstest(again, stats.laplace(scale=2.0).cdf).pvalue > ALPHA
    assert stats.kstest(again, stats.laplace(scale=2.2).cdf).pvalue < ALPHA


@pytest.mark.parametrize(("cells", "noise"), [(1, "laplace"), (3, "gaussian")])
def test_means_and_variances_are_as_far_from_the_truth_as_from_each_other(
    cells: int, noise: Literal["laplace", "gaussian"], seed: int
) -> None:
    """For a calibrated posterior, draw less truth and draw less other draw have the same variance.

    30 tables of 5,000 records with noise of scale 200 in every sum. The ratio of the two sums of squares, per parameter,
    is at most the F quantile with the number of tables as degrees of freedom. A posterior that ignores the noise is
    off by the variance of the noise over that of the sampling, above 100 here.
    """
    generator = np.random.default_rng(seed)
    rows, scale, tables = 5_000, 200.0, 30
    mean, variance = 0.1, 0.06
    gaps: dict[str, list[list[float]]] = {"aware": [], "naive": []}
    for _ in range(tables):
        cell = generator.integers(0, cells, rows)
        t = generator.normal(mean, math.sqrt(variance), rows)
        n = np.bincount(cell, minlength=cells).astype(float)
        sums = np.bincount(cell, weights=t, minlength=cells)[:, None]
        draw = generator.laplace if noise == "laplace" else generator.normal
        evidence = GaussianEvidence(
            Statistic("s", sums + draw(0, scale, sums.shape), noise, scale),
            Statistic("q", np.array([(t**2).sum()]) + draw(0, scale, 1), noise, scale),
            np.ones((cells, 1), dtype=bool),
        )
        for kind, sampler in (("aware", _short), ("naive", naive_gaussian)):
            one, two = (sampler(evidence, n, generator) for _ in range(2))
            shares = n / n.sum()
            a, b = (float(shares @ item.means[:, 0]) for item in (one, two))
            c, d = (float(item.covariance[0, 0]) for item in (one, two))
            gaps[kind].append([a - mean, a - b, c - variance, c - d])
    limit = stats.f.isf(ALPHA / 4, tables, tables)
    aware, naive = (np.square(gaps[kind]).sum(axis=0) for kind in ("aware", "naive"))
    assert 1 / limit < aware[0] / aware[1] < limit
    assert 1 / limit < aware[2] / aware[3] < limit
    assert naive[0] / naive[1] > limit


def _short(evidence: GaussianEvidence, n: np.ndarray, generator: np.random.Generator):  # type: ignore[no-untyped-def]
    return draw_gaussian(evidence, n, generator, iterations=50)


def test_logistic_coefficients_know_the_noise(seed: int) -> None:
    """As for means: 60 tables of 1,000 records, noise of scale 30; ignoring it is caught."""
    generator = np.random.default_rng(seed)
    truth, rows, scale, tables = np.array([[-0.5, 1.5]]), 1_000, 30.0, 60
    known: list[list[Any]] = []
    ignored: list[list[Any]] = []
    for _ in range(tables):
        design = np.stack([np.ones(rows), generator.uniform(-1, 1, rows)], axis=1)
        level = generator.random(rows) < probabilities(design, truth)[:, 1]
        noisy = design[level].sum(axis=0)[None] + generator.normal(0, scale, (1, 2))
        wide = np.full((1, 2), 5.0)
        for kept, variance in ((known, scale**2), (ignored, 0.0)):
            one, two = (
                draw_logistic(noisy, design, generator, rows=rows, noise_variance=variance, deviations=wide)
                for _ in range(2)
            )
            kept.append([*(one - truth).ravel(), *(one - two).ravel()])
    limit = stats.f.isf(ALPHA / 4, tables, tables)
    aware, naive = (np.square(kept).sum(axis=0) for kept in (known, ignored))
    for place in (0, 1):
        assert 1 / limit < aware[place] / aware[place + 2] < limit
    assert naive[1] / naive[3] > limit


def _frame(n: int, seed: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    group = generator.choice(3, n, p=[0.5, 0.3, 0.2])
    both = generator.multivariate_normal([0, 0], [[1.0, 0.6], [0.6, 1.0]], n)
    height = np.clip(4 + group + both[:, 0], 0, 10)
    return pd.DataFrame(
        {
            "height": height,
            "weight": np.clip(5 + both[:, 1], 0, 10),
            "group": np.array(["a", "b", "c"], dtype=object)[group],
        }
    )


@pytest.mark.parametrize("model", ["glom", "slomag", "average"])
def test_estimates_reach_the_truth_as_epsilon_grows(model: str, seed: int) -> None:
    """At epsilon 1,000 a released mean differs from the table's by less than sampling allows; at .01 it is noise.

    Height is 10 wide, so that at epsilon 1,000 and 3,000 rows the noise of a mean is below .001. A draw of the mean
    has the standard error ``s``, the records drawn from it add as much again: 2s together.
    """
    data = _frame(3_000, seed)
    errors = {}
    for epsilon in (0.01, 1_000.0):
        budget, unit = PureDP(epsilon), Unit.add_remove()
        book = Ledger.in_memory(budget=budget, unit=unit, table="t")
        curator = Curator(
            read_table(data, SCHEMA), unit=unit, ledger=book, randomness=SeededRandomness(seed + 5)
        )
        options = {"models": ("glom", "slomag")} if model == "average" else {}
        made = create("modips", model=model, **options).fit(curator, budget).sample(3_000, seed=seed)
        errors[epsilon] = [
            abs(made.height.mean() - data.height.mean()) / (2 * data.height.std() / math.sqrt(3_000)),
            abs(made.height.corr(made.weight) - data.height.corr(data.weight)) / (2 / math.sqrt(3_000)),
            abs((made.group == "a").mean() - (data.group == "a").mean()) / (2 * 0.5 / math.sqrt(3_000)),
            abs(
                made.height[made.group == "c"].mean() - data.height[data.group == "c"].mean()
            ) / (2 / math.sqrt(500)),
        ]  # fmt: skip
    limit = stats.norm.isf(ALPHA / 8)
    assert max(errors[1_000.0]) < limit
    assert max(errors[0.01]) > limit
