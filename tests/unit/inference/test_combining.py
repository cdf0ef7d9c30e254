"""Combining rules: hand-computed values, pairings that are refused, fits that are drop-in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from understudy.errors import WorkloadError, WrongPairing
from understudy.inference import RULES, combine, combine_fits
from understudy.inference.combining import SYNTHESES

Q = np.array([1.0, 2.0, 3.0, 6.0])
V = np.array([1.0, 2.0, 1.0, 2.0])
M, W, B = 4, 1.5, np.var(Q, ddof=1)


def variance(rule: str, **options: Any) -> tuple[float, float]:
    found = combine(Q, V, rule=rule, unchecked=True, **options)
    return float(found.variance), float(found.df)


def test_each_rule_is_its_formula() -> None:
    assert np.isclose(4.0, B * 6 / 7)  # sample variance of 1, 2, 3, 6 is 14/3
    assert np.allclose(variance("partial"), (W + B / M, (M - 1) * (1 + M * W / B) ** 2))
    assert np.allclose(variance("full"), (1.25 * B - W, (M - 1) * (1 - W / (1.25 * B)) ** 2))
    assert np.allclose(variance("full-reiter"), (1.25 * B - W, max(1, (M - 1) * (1 - W / (1.25 * B)) ** 2)))
    assert np.allclose(variance("raab-proper"), (W * 1.5, np.inf))
    assert np.allclose(variance("raab-fitted"), (W * 1.25, np.inf))
    assert np.allclose(variance("imputation"), (W + 1.25 * B, (M - 1) * (1 + W / (1.25 * B)) ** 2))


def test_larger_sets_report_smaller_variances_and_the_rules_know() -> None:
    """Sets of r times as many rows report V / r; r W is what the real data would report."""
    assert np.isclose(variance("partial", size_ratio=3)[0], 3 * W + B / M)
    assert np.isclose(variance("raab-proper", size_ratio=3)[0], W * (3 + 4 / M))
    assert np.isclose(variance("raab-fitted", size_ratio=3)[0], W * (3 + 1 / M))
    assert np.isclose(variance("imputation", size_ratio=3)[0], 3 * W + 1.25 * B)
    assert np.isclose(variance("full", size_ratio=2)[0], 1.25 * B - W)
    assert np.isclose(variance("full", size_ratio=4)[0], 4 * W)  # the floor


def test_a_negative_difference_is_replaced() -> None:
    close = combine([1.0, 1.01, 0.99], [1.0, 1.0, 1.0], synthesis="posterior")
    assert float(close.variance) == 1.0
    assert np.isinf(close.df)
    published = combine([1.0, 1.01, 0.99], [1.0, 1.0, 1.0], synthesis="posterior", rule="full-reiter")
    assert float(published.variance) == 1.0
    assert float(published.df) == 2.0


def test_identical_estimates_leave_only_the_within_variance() -> None:
    same = combine([2.0, 2.0], [1.0, 1.0], synthesis="independent")
    assert float(same.variance) == 1.0
    assert np.isinf(same.df)
    assert float(same.p_value(2.0)) == 1.0
    sure = combine([2.0, 2.0], [0.0, 0.0], synthesis="independent")
    assert (float(sure.p_value(2.0)), float(sure.p_value(0.0))) == (1.0, 0.0)


@pytest.mark.parametrize("synthesis", SYNTHESES)
@pytest.mark.parametrize("rule", RULES)
def test_only_valid_pairings_are_combined(synthesis: str, rule: str) -> None:
    valid = synthesis in RULES[rule].valid_for
    if valid:
        assert combine(Q * 100, V, synthesis=synthesis, rule=rule).rule == rule
    else:
        with pytest.raises(WrongPairing):
            combine(Q * 100, V, synthesis=synthesis, rule=rule)
    assert combine(Q, V, synthesis=synthesis, rule=rule, unchecked=True).synthesis == synthesis


def test_the_default_rule_follows_the_synthesis() -> None:
    assert combine(Q, V, synthesis="independent").rule == "partial"
    assert combine(Q, V, synthesis="posterior").rule == "full"
    assert combine(Q, V, synthesis=SimpleNamespace(kind="posterior")).rule == "full"
    with pytest.raises(WrongPairing, match="repeat the same privacy noise"):
        combine(Q, V, synthesis="resampled")
    with pytest.raises(WrongPairing, match="how the sets were made"):
        combine(Q, V)
    with pytest.raises(WrongPairing, match="unchecked=True"):
        combine(Q, V, synthesis="independent", rule="full")


def test_intervals_and_p_values_are_those_of_student() -> None:
    found = combine(np.stack([Q, -Q], axis=1), np.stack([V, V], axis=1), synthesis="independent")
    interval = found.interval(confidence=0.9)
    half = stats.t.ppf(0.95, found.df) * found.stderr
    assert np.allclose(interval.low, found.estimate - half)
    assert np.allclose(interval.high, found.estimate + half)
    assert np.allclose(
        found.p_value(1.0), 2 * stats.t.sf(np.abs(found.estimate - 1) / found.stderr, found.df)
    )
    for end in (interval.low, interval.high):
        assert np.allclose(found.p_value(end), 0.1)


def test_percentiles_are_order_statistics() -> None:
    draws = np.random.default_rng(0).permutation(np.arange(1.0, 200.0))
    found = combine(draws, np.zeros(199), synthesis="posterior", rule="percentile")
    interval = found.interval()
    assert (float(interval.low), float(interval.high), float(found.estimate)) == (5.0, 195.0, 100.0)
    assert np.isclose(found.p_value(0.0), 2 / 200)
    assert float(found.p_value(100.0)) == 1.0
    with pytest.raises(WorkloadError, match="at least 39 sets"):
        combine(draws[:30], np.zeros(30), synthesis="posterior", rule="percentile").interval()


def test_percentiles_need_large_sets_and_lose_their_sampling_variance() -> None:
    draws = np.arange(1.0, 200.0)
    spread = float(np.var(draws, ddof=1))
    with pytest.raises(WrongPairing, match="20 times"):
        combine(draws, np.full(199, 0.2 * spread), synthesis="posterior", rule="percentile")
    small = combine(draws, np.full(199, 0.05 * spread), synthesis="posterior", rule="percentile")
    assert small.draws is not None
    assert np.isclose(np.var(small.draws, ddof=1), 0.95 * spread)
    assert np.isclose(small.variance, 0.95 * spread)


def test_covariance_matrices_give_the_same_variances_and_a_matrix(seed: int) -> None:
    generator = np.random.default_rng(seed)
    q = generator.normal(size=(6, 3))
    root = generator.normal(size=(6, 3, 3))
    v = root @ np.swapaxes(root, 1, 2)
    plain = np.diagonal(v, axis1=1, axis2=2)
    for rule in RULES:
        whole = combine(q, v, rule=rule, unchecked=True)
        assert np.allclose(whole.variance, combine(q, plain, rule=rule, unchecked=True).variance)
        assert whole.covariance is not None
        assert np.allclose(np.diagonal(whole.covariance), whole.variance)
        assert np.linalg.eigvalsh(whole.covariance).min() > -1e-9
    expected = v.mean(axis=0) + np.cov(q.T) / 6
    covariance = combine(q, v, synthesis="independent").covariance
    assert covariance is not None
    assert np.allclose(covariance, expected)


def test_fits_are_combined_as_statsmodels_gives_them() -> None:
    import pandas as pd

    def fit(shift: float) -> SimpleNamespace:
        return SimpleNamespace(
            params=pd.Series({"const": 1.0 + shift, "x": 2.0 - shift}),
            cov_params=lambda: pd.DataFrame([[0.04, 0.01], [0.01, 0.09]]),
            bse=None,
        )

    found = combine_fits([fit(0.0), fit(0.2), fit(-0.2)], synthesis="independent")
    assert found.names == ("const", "x")
    table = found.table()
    assert list(table.index) == ["const", "x"]
    assert np.allclose(table["estimate"], [1.0, 2.0])
    assert np.allclose(table["stderr"] ** 2, [0.04 + 0.04 / 3, 0.09 + 0.04 / 3])
    plain = [SimpleNamespace(params=[1.0, b], bse=[0.2, 0.3]) for b in (2.0, 2.4)]
    assert combine_fits(plain, synthesis="independent").names is None
    with pytest.raises(WorkloadError, match="different numbers"):
        combine_fits([plain[0], SimpleNamespace(params=[1.0], bse=[1.0])], synthesis="independent")
    other = SimpleNamespace(params=pd.Series({"const": 1.0, "z": 1.0}), bse=[1.0, 1.0])
    with pytest.raises(WorkloadError, match="name their parameters differently"):
        combine_fits([fit(0.0), other], synthesis="independent")
    with pytest.raises(WorkloadError, match="cov_params"):
        combine_fits([SimpleNamespace(params=[1.0])], synthesis="independent")
    with pytest.raises(WorkloadError, match="at least one"):
        combine_fits([], synthesis="independent")


def test_statsmodels_results_are_drop_in() -> None:
    api = pytest.importorskip("statsmodels.api", reason="statsmodels is a referee that is not installed")
    generator = np.random.default_rng(3)
    fits = []
    for _ in range(3):
        x = generator.normal(size=(200, 1))
        y = 1 + 2 * x[:, 0] + generator.normal(size=200)
        fits.append(api.OLS(y, api.add_constant(x)).fit())
    found = combine_fits(fits, synthesis="independent")
    assert found.names == ("const", "x1")
    assert np.allclose(found.within, np.mean([fit.bse**2 for fit in fits], axis=0))


@pytest.mark.parametrize(
    ("estimates", "variances", "options", "message"),
    [
        ([1.0], [1.0], {}, "at least 2 sets"),
        (1.0, 1.0, {}, "at least 2 sets"),
        ([1.0, 2.0], [1.0], {}, "same shape"),
        ([1.0, np.nan], [1.0, 1.0], {}, "did not converge"),
        ([1.0, 2.0], [1.0, -1.0], {}, "negative"),
        ([1.0, 2.0], [1.0, 1.0], {"size_ratio": 0.0}, "size_ratio"),
        ([1.0, 2.0], [1.0, 1.0], {"rule": "parcial"}, "No combining rule"),
        ([1.0, 2.0], [1.0, 1.0], {"synthesis": "magic"}, "No synthesis of kind"),
        ([[1.0], [2.0]], [[1.0], [1.0]], {"names": ["a", "b"]}, "names"),
    ],
)
def test_what_cannot_be_combined_is_refused(
    estimates: object, variances: object, options: dict[str, object], message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        combine(estimates, variances, **{"synthesis": "independent", **options})  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="confidence"):
        combine([1.0, 2.0], [1.0, 1.0], synthesis="independent").interval(confidence=1.0)
