"""Redrawn cells and urns have the laws they claim, to the last count; wrong laws are caught.

False alarms: ``ALPHA`` per assertion. Sizes: a mean that is wrong by a tenth adds at least 450 to the chi-square of 200,000 draws in
about 100 cells (negative binomial with sigma 4, the widest law: n 2 KL = n (1/sigma) .1**2 = 500), a sigma wrong by .4 more; its
1e-9 quantile is about 210 and its deviation under the wrong law about 50.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from alpha import ALPHA
from scipy import stats

from understudy.privacy import SeededRandomness
from understudy.privacy.count_models.divergence import probabilities
from understudy.privacy.count_models.laws import CountLaw
from understudy.privacy.count_models.solving import draw_counts
from understudy.privacy.count_models.urn import UrnPrior, draw_urn

LAWS = [
    CountLaw("poisson", 0.8),
    CountLaw("negative-binomial", 0.8, 0.4),
    CountLaw("negative-binomial", 0.8, 4.0),
    CountLaw("poisson-inverse-gaussian", 0.8, 0.4),
    CountLaw("delaporte", 0.8, 0.6, 0.3),
    CountLaw("sichel", 0.8, 0.4, -2.2),
    CountLaw("sichel", 0.8, 0.4, 1.7),
]
IDS = [f"{law.family} {law.sigma} {law.nu}" for law in LAWS]
DRAWS = 200_000
COUNTS = (0, 1, 12, 300)


def fit_pvalue(draws: np.ndarray, law: CountLaw, count: int) -> float:
    """Chi-square of draws against a law, cells of small expectation merged from both ends."""
    found = probabilities(law, np.array([count + law.alpha]))
    expected = found.values[0] * len(draws)
    observed = np.bincount(
        np.minimum(np.maximum(draws - found.first, 0), len(expected) - 1), minlength=len(expected)
    )
    edges = np.flatnonzero(np.diff(np.floor(np.cumsum(expected) / 2000)) > 0) + 1
    e = np.add.reduceat(expected, np.concatenate([[0], edges]))
    o = np.add.reduceat(observed, np.concatenate([[0], edges]))
    return float(stats.chi2.sf(np.sum((o - e) ** 2 / e), max(1, len(e) - 1)))


@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_draws_have_their_law_and_no_other(law: CountLaw, seed: int) -> None:
    cells = np.repeat(COUNTS, DRAWS)
    np.random.default_rng(seed).shuffle(cells)
    drawn = draw_counts(law, cells, SeededRandomness(seed))
    assert drawn.min() >= 0
    for count in COUNTS:
        here = drawn[cells == count]
        assert fit_pvalue(here, law, count) > ALPHA
        assert fit_pvalue(here, replace(law, alpha=law.alpha + 0.1 * (count + law.alpha)), count) < ALPHA
        if law.sigma is not None and count >= 12:
            assert fit_pvalue(here, replace(law, sigma=min(1.0, law.sigma) * 0.6), count) < ALPHA


def test_cells_are_redrawn_independently(seed: int) -> None:
    """Neighbouring cells, empty or not, must not share their bits. 300,000 pairs: |r| > .02 is ten deviations."""
    law = CountLaw("poisson", 3.0)
    drawn = draw_counts(law, np.tile([0, 0, 5, 5], 300_000), SeededRandomness(seed)).reshape(-1, 4)
    correlation = np.asarray(np.corrcoef(drawn.T))
    limit = stats.norm.isf(ALPHA / 12) / math.sqrt(len(drawn))
    assert np.abs(correlation[np.triu_indices(4, 1)]).max() < limit


class Chosen:
    """Hands out chosen words, to ask for the result at one exact point of the unit interval."""

    def __init__(self, points: list[Fraction]) -> None:
        grid = [int(point * 2**106) for point in points]
        self._words = np.array(
            [word << 11 for value in grid for word in (value >> 53, value & (2**53 - 1))], dtype=np.uint64
        )

    def words(self, n: int) -> np.ndarray:
        assert n == len(self._words)
        return self._words

    def bytes(self, n: int) -> bytes:
        raise AssertionError("redrawing uses words")


@pytest.mark.parametrize("mean_less_alpha", [0, 3, 40])
def test_the_tail_is_exact_where_doubles_are_blind(mean_less_alpha: int) -> None:
    """Poisson quantiles at 1 - p for p down to 1e-27: thresholds at sixty digits, one unit of 1e-29 to either side."""
    law = CountLaw("poisson", 0.75)
    with localcontext() as context:
        context.prec = 60
        mean = Decimal(mean_less_alpha) + Decimal("0.75")
        mass, total, b = (-mean).exp(), (-mean).exp(), 0
        points, wanted = [], []
        while Decimal(1) - total > Decimal("1e-27"):
            for shift, answer in ((Decimal("-1e-29"), b), (Decimal("1e-29"), b + 1)):
                points.append(Fraction(total + shift))
                wanted.append(answer)
            b += 1
            mass = mass * mean / b
            total += mass
    keep = [i for i, point in enumerate(points) if 0 < point < 1]
    cells = np.full(len(keep), mean_less_alpha)
    drawn = draw_counts(law, cells, Chosen([points[i] for i in keep]))
    assert len(keep) > 40
    assert drawn.tolist() == [wanted[i] for i in keep]


def test_both_ends_of_the_unit_interval() -> None:
    for law in LAWS:
        low, high = draw_counts(law, np.array([7, 7]), Chosen([Fraction(0), 1 - Fraction(1, 2**106)]))
        assert low == 0
        found = probabilities(law, np.array([7 + law.alpha]))
        assert found.values[0][: int(high)].sum() == pytest.approx(1, abs=1e-12)
        assert high < 10**5


def test_urn_counts_have_the_law_of_the_urn(seed: int) -> None:
    """Three cells, three draws, ten outcomes, 60,000 tables; a prior a fifth too small is caught."""
    counts, rows, tables = np.array([2, 0, 1]), 3, 60_000
    source = SeededRandomness(seed)
    drawn = np.array([draw_urn(UrnPrior(3, 1, rows), counts, source) for _ in range(tables)])
    keys, observed = np.unique(drawn @ np.array([16, 4, 1]), return_counts=True)

    def pvalue(alpha: float) -> float:
        a = counts + alpha
        expected = []
        for key in keys:
            b = np.array([key >> 4, (key >> 2) & 3, key & 3])
            log = math.lgamma(a.sum()) - math.lgamma(a.sum() + rows) + math.lgamma(rows + 1)
            for i in range(3):
                log += math.lgamma(a[i] + b[i]) - math.lgamma(a[i]) - math.lgamma(b[i] + 1)
            expected.append(tables * math.exp(log))
        return float(stats.chisquare(observed, np.array(expected) * tables / sum(expected)).pvalue)

    assert len(keys) == 10
    assert pvalue(1.5) > ALPHA
    assert pvalue(1.2) < ALPHA
