"""Draws that know the noise: shapes, limits and refusals (their coverage is a statistical test)."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.errors import WorkloadError
from understudy.inference import normal_draws, proportion_draws, redraw, regression_draws
from understudy.marginals import Measurement, Statistic


def generator() -> np.random.Generator:
    return np.random.default_rng(11)


def test_without_noise_the_draws_are_the_ordinary_posterior() -> None:
    measured = Measurement(("a",), np.array([300, 100]), "laplace", 1e-3)
    drawn = proportion_draws(measured, draws=20_000, generator=generator(), rows=400)[:, 0]
    assert abs(drawn.mean() - 300.5 / 401) < 5 * drawn.std() / np.sqrt(20_000)
    assert abs(drawn.std() / np.sqrt(0.75 * 0.25 / 402) - 1) < 0.03
    mu, var = normal_draws(
        Statistic("mean", np.array(1.0), "laplace", 1e-9),
        Statistic("variance", np.array(4.0), "laplace", 1e-9),
        rows=50,
        bounds=(-20.0, 20.0),
        draws=20_000,
        generator=generator(),
    )
    assert abs(mu.mean() - 1) < 0.01
    assert abs(mu.std() / np.sqrt(4 / 50 * 49 / 47) - 1) < 0.03  # Student with 49 degrees of freedom
    assert abs(var.mean() / (4 * 49 / 47) - 1) < 0.02


def test_noise_widens_the_draws_by_its_own_variance() -> None:
    measured = Measurement(("a",), np.array([5000, 5000]), "laplace", 200.0)
    drawn = proportion_draws(measured, draws=20_000, generator=generator())[:, 0]
    # each cell has variance 2 * 200², and the share moves by half the difference over the total
    expected = np.sqrt(0.25 / 10_000 + 2 * 2 * 200.0**2 / (2 * 10_000) ** 2)
    assert abs(drawn.std() / expected - 1) < 0.05


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_redrawing_subtracts_noise_of_the_same_law(noise: str) -> None:
    counts = Measurement(("a",), np.zeros(1), noise, 3.0)  # type: ignore[arg-type]
    numbers = Statistic("sum", np.zeros(1), noise, 3.0)  # type: ignore[arg-type]
    whole = redraw(counts, draws=40_000, generator=generator())
    real = redraw(numbers, draws=40_000, generator=generator())
    assert (whole == np.rint(whole)).all()
    assert not (real == np.rint(real)).any()
    for drawn in (whole, real):
        assert abs(drawn.std() / np.sqrt(numbers.variance) - 1) < 0.04


def test_regression_recovers_least_squares_without_noise() -> None:
    rng = generator()
    x = np.column_stack([np.ones(400), rng.uniform(-1, 1, (400, 2))])
    y = x @ [0.5, 1.0, -2.0] + rng.normal(0, 0.5, 400)
    z = np.column_stack([x, y])
    beta, sigma2 = regression_draws(
        Statistic("moments", z.T @ z, "gaussian", 1e-9), rows=400, draws=5000, generator=rng
    )
    exact, rss = np.linalg.lstsq(x, y, rcond=None)[:2]
    errors = np.sqrt(rss[0] / 397 * np.diagonal(np.linalg.inv(x.T @ x)))
    assert np.allclose(beta.mean(axis=0), exact, atol=5 * errors.max() / np.sqrt(5000) * 3)
    assert np.allclose(beta.std(axis=0) / errors, 1, atol=0.05)
    assert abs(sigma2.mean() / (rss[0] / 395) - 1) < 0.02


def test_hopeless_noise_still_gives_possible_parameters() -> None:
    rng = generator()
    mu, var = normal_draws(
        Statistic("mean", np.array(90.0), "laplace", 50.0),
        Statistic("variance", np.array(-300.0), "laplace", 100.0),
        rows=10,
        bounds=(0.0, 1.0),
        draws=500,
        generator=rng,
    )
    assert mu.min() >= 0
    assert mu.max() <= 1
    assert var.min() > 0
    assert var.max() <= 0.25
    beta, sigma2 = regression_draws(
        Statistic("moments", -np.eye(3), "laplace", 1e3), rows=20, draws=200, generator=rng
    )
    assert np.isfinite(beta).all()
    assert (sigma2 > 0).all()
    shares = proportion_draws(
        Measurement(("a",), np.array([-50, -60, -70]), "laplace", 30.0), draws=50, generator=rng, rows=10
    )
    assert np.allclose(shares.sum(axis=1), 1)


def test_what_cannot_be_redrawn_is_refused() -> None:
    rng = generator()
    counts = Measurement(("a",), np.array([1, 2]), "laplace", 1.0)
    with pytest.raises(WorkloadError, match="cannot be redrawn"):
        redraw(Statistic("counts", np.zeros(2), "mechanism"), draws=1, generator=rng)
    with pytest.raises(WorkloadError, match="at least 1"):
        redraw(counts, draws=0, generator=rng)
    with pytest.raises(WorkloadError, match="prior"):
        proportion_draws(counts, draws=1, generator=rng, prior=0.0)
    number = Statistic("x", np.array(0.0), "laplace", 1.0)
    with pytest.raises(WorkloadError, match="two rows"):
        normal_draws(number, number, rows=1, bounds=(0, 1), draws=1, generator=rng)
    with pytest.raises(WorkloadError, match="symmetric"):
        regression_draws(
            Statistic("m", np.arange(4.0).reshape(2, 2), "laplace", 1.0), rows=9, draws=1, generator=rng
        )
    with pytest.raises(WorkloadError, match="more than 2 rows"):
        regression_draws(Statistic("m", np.eye(3), "laplace", 1.0), rows=2, draws=1, generator=rng)
