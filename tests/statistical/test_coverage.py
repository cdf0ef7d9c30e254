"""Coverage of intervals from several synthetic tables: the valid pairings cover, the wrong ones are caught.

Each test simulates ``REPEATS`` tables with independent noise and counts how often the 95 % interval misses the truth. The
count is binomial. A pairing counts as covering if its misses are credible for a coverage of .95 give or take .015
(normal approximations, whole counts), that is if ``P(Binomial(REPEATS, .065) >= misses)`` and
``P(Binomial(REPEATS, .035) <= misses)`` both exceed ALPHA = 1e-9. A wrong pairing must be outside at the same
threshold: at 2,000 repetitions the limits are 202 and 26 misses, and the wrong pairings below missed 260 or more of 2,000,
or 11 or fewer. No retries.
"""

from __future__ import annotations

import numpy as np
import pytest
from alpha import ALPHA
from scipy.stats import binom

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.inference import combine, normal_draws, normal_draws_from_sums, regression_draws
from understudy.inference.sufficient import whole_noise
from understudy.marginals import Statistic
from understudy.mechanisms import create, synthesize_many
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Schema

REPEATS = 2000
TOLERANCE = 0.015
Array = np.ndarray


def too_many(misses: int, repeats: int = REPEATS) -> bool:
    return bool(binom.sf(misses - 1, repeats, 0.05 + TOLERANCE) < ALPHA)


def too_few(misses: int, repeats: int = REPEATS) -> bool:
    return bool(binom.cdf(misses, repeats, 0.05 - TOLERANCE) < ALPHA)


def misses(q: Array, v: Array, truth: float, rule: str, ratio: float = 1.0) -> int:
    """Combine sets along the first axis by any rule and count intervals that miss."""
    interval = combine(q, v, rule=rule, size_ratio=ratio, unchecked=True).interval()
    return int(((truth < interval.low) | (truth > interval.high)).sum())


class Proportion:
    """A share of 0.3 among 200 rows, each of both cells noised with a whole or a part of the budget."""

    n, share = 200, 0.3

    def __init__(self, seed: int, scale: float) -> None:
        self.rng = np.random.default_rng([seed, int(1000 * scale)])
        ones = self.rng.binomial(self.n, self.share, REPEATS).astype(float)
        self.counts = np.stack([ones, self.n - ones], axis=-1)
        self.scale = scale

    def noisy(self, sets: int | None) -> Array:
        shape = self.counts.shape if sets is None else (sets, *self.counts.shape)
        return self.counts + whole_noise("laplace", self.scale, shape, self.rng)

    def estimate(self, noisy: Array) -> Array:
        """Ones, both cells moved alike so that they add up to the number of rows."""
        return np.asarray(np.clip(noisy[..., 0] + (self.n - noisy.sum(axis=-1)) / 2, 0, self.n))

    def analysed(self, ones: Array, rows: int) -> tuple[Array, Array]:
        p = ones / rows
        return p, p * (1 - p) / rows


@pytest.mark.parametrize("scale", [2.0, 10.0, 25.0])
def test_independent_noise_is_covered_by_partial_only(scale: float, seed: int) -> None:
    made = Proportion(seed, scale)
    ones = made.estimate(made.noisy(5))
    q, v = made.analysed(made.rng.binomial(made.n, made.rng.beta(ones + 0.5, made.n - ones + 0.5)), made.n)
    partial = misses(q, v, made.share, "partial")
    assert not too_many(partial)
    assert not too_few(partial)
    if scale > 5:
        assert too_few(misses(q, v, made.share, "imputation"))
    if scale > 20:
        assert too_many(misses(q, v, made.share, "raab-proper"))


@pytest.mark.parametrize("scale", [2.0, 10.0, 25.0])
def test_posterior_draws_are_covered_by_full_and_percentile_only(scale: float, seed: int) -> None:
    made = Proportion(seed, scale)
    release = made.noisy(None)
    fresh = release - whole_noise("laplace", scale, (199, *release.shape), made.rng)
    ones = made.estimate(fresh)
    drawn = made.rng.beta(ones + 0.5, made.n - ones + 0.5)
    full = misses(*made.analysed(made.rng.binomial(made.n, drawn[:50]), made.n), made.share, "full")
    rows = 20 * made.n
    percentile = misses(
        *made.analysed(made.rng.binomial(rows, drawn), rows), made.share, "percentile", ratio=20
    )
    for found in (full, percentile):
        assert not too_many(found)
        assert not too_few(found)
    if scale > 5:
        wrong = misses(*made.analysed(made.rng.binomial(made.n, drawn[:50]), made.n), made.share, "partial")
        assert too_many(wrong)


@pytest.mark.parametrize(
    ("scale", "low", "high"), [(6.0, 0.80, 0.92), (10.0, 0.68, 0.86), (25.0, 0.30, 0.60)]
)
def test_one_fit_drawn_from_many_times_misses_its_noise(
    scale: float, low: float, high: float, seed: int
) -> None:
    """The known failure: coverage of .73 to .86 where the noise is about as large as the sampling error."""
    made = Proportion(seed, scale)
    believed = made.estimate(made.noisy(None)) / made.n
    q, v = made.analysed(made.rng.binomial(made.n, believed, (5, REPEATS)), made.n)
    wrong = misses(q, v, made.share, "partial")
    assert too_many(wrong)
    assert low < 1 - wrong / REPEATS < high


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 50.0])
def test_mean_and_variance_of_a_normal_variable(epsilon: float, seed: int) -> None:
    rng = np.random.default_rng([seed, int(100 * epsilon)])
    n, bounds = 100, (-3.0, 4.0)
    x = np.clip(rng.standard_normal((REPEATS, n)), *bounds)
    small, wide = 2 * 7 / (n * epsilon), 2 * 49 / (n * epsilon)
    centre = x.mean(axis=1) + rng.laplace(0, small, REPEATS)
    spread = x.var(axis=1, ddof=1) + rng.laplace(0, wide, REPEATS)
    t = (2 * x - 1) / 7
    sums, squares = (item.sum(axis=1) + rng.laplace(0, 2 / epsilon, REPEATS) for item in (t, t**2))

    def draws(scale: float) -> list[tuple[Array, Array]]:
        shared = {"rows": n, "bounds": bounds, "draws": 199, "generator": rng}
        return [
            normal_draws(
                Statistic("mean", centre, "laplace", scale * small),
                Statistic("variance", spread, "laplace", scale * wide),
                **shared,  # type: ignore[arg-type]
            ),
            normal_draws_from_sums(
                Statistic("sum", sums, "laplace", scale * 2 / epsilon),
                Statistic("squares", squares, "laplace", scale * 2 / epsilon),
                **shared,  # type: ignore[arg-type]
            ),
        ]

    for mu, variance in draws(1.0):
        for drawn, truth in ((mu, 0.0), (variance, 1.0)):
            found = misses(drawn, np.zeros_like(drawn), truth, "percentile")
            assert not too_many(found)
            assert not too_few(found)
    if epsilon == 0.1:
        for mu, variance in draws(0.5):  # draws that believe in half the noise
            assert too_many(misses(mu, np.zeros_like(mu), 0.0, "percentile"))
            assert too_many(misses(variance, np.zeros_like(variance), 1.0, "percentile"))


def test_coefficients_of_a_regression(seed: int) -> None:
    """600 regressions of 500 rows; noise about as large as the sampling error. Half the noise must be caught."""
    rng = np.random.default_rng(seed)
    truth = np.array([0.3, 0.5, -0.4])
    outside = {1.0: np.zeros(3, dtype=int), 0.4: np.zeros(3, dtype=int)}
    repeats, scale = 600, 6.0
    for _ in range(repeats):
        x = np.column_stack([np.ones(500), rng.uniform(-1, 1, (500, 2))])
        z = np.column_stack([x, x @ truth + rng.normal(0, 0.2, 500)])
        noise = np.triu(rng.laplace(0, scale, (4, 4)))
        noise = noise + np.triu(noise, 1).T
        noise[0, 0] = 0.0
        for believed, count in outside.items():
            released = Statistic("moments", z.T @ z + noise, "laplace", believed * scale)
            beta, _ = regression_draws(released, rows=500, draws=199, generator=rng)
            drawn = np.sort(beta, axis=0)
            count += (truth < drawn[4]) | (truth > drawn[194])
    for place in range(3):
        assert not too_many(int(outside[1.0][place]), repeats)
        assert too_many(int(outside[0.4][place]), repeats)


def test_registered_sets_cover_and_resampled_ones_do_not(seed: int) -> None:
    """The whole road: the laplace method through the curator, 40 sets, 150 tables of 60 rows, epsilon .1.

    At 150 tables the limit is 33 misses; the resampled sets miss about 75.
    """
    schema = Schema.parse("name: t\nrow_count: 60\ncolumns: [{name: x, kind: boolean}]")
    unit, budget, repeats = Unit.add_remove(), PureDP(0.1), 150
    rng = np.random.default_rng(seed)
    missed = {"posterior": 0, "resampled": 0}
    for index in range(repeats):
        table = LocalTable(schema, {"x": (rng.random(60) < 0.4).astype(np.uint8)})
        for how in missed:
            ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
            noise = SeededRandomness(10_000 * seed + index)
            curator = Curator(table, unit=unit, ledger=ledger, randomness=noise)
            sets = synthesize_many(create("laplace"), curator, budget, 40, how=how, seed=index)
            shares = []
            for model, child in zip(sets.models, rng.spawn(40), strict=True):
                cells = model.marginal(("x",))
                shares.append(child.binomial(60, cells[1] / cells.sum()) / 60)
            q = np.array(shares)
            rule = "full" if how == "posterior" else "partial"
            missed[how] += misses(q[:, None], (q * (1 - q) / 60)[:, None], 0.4, rule)
    assert not too_many(missed["posterior"], repeats)
    assert too_many(missed["resampled"], repeats)
