"""Noise taken out of ordered columns: less error where neighbours are alike, none added where they are not."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.marginals import Measurement
from understudy.mechanisms.marginal.aim import ColumnSmoother
from understudy.schema import Categorical, Integer, Schema

VALUES = 60
ORDERED = Schema([Integer("x", minimum=0, maximum=VALUES - 1)])
BELL = 2_000 * np.exp(-0.5 * np.square((np.arange(VALUES) - 25) / 10)) / 25
SPIKES = np.where(np.arange(VALUES) % 7 == 0, 2_000 / 9, 0.0)


def mean_errors(true: np.ndarray, sigma: float) -> tuple[float, float]:
    """Mean distance of the smoothed and of the noisy column from the true one, over fixed seeds."""
    smoothed, noisy = [], []
    for number in range(10):
        values = true + np.random.default_rng(number).normal(0, sigma, VALUES)
        (item,) = ColumnSmoother(ORDERED).targets(
            [Measurement(("x",), values, "gaussian", sigma)], rows=float(true.sum())
        )
        assert item.values.min() >= 0
        assert item.values.sum() == pytest.approx(true.sum())
        smoothed.append(np.abs(item.values - true).sum())
        noisy.append(np.abs(values - true).sum())
    return float(np.mean(smoothed)), float(np.mean(noisy))


def test_a_smooth_column_loses_most_of_its_noise() -> None:
    """Deterministic seeds; kernels that did not link neighbours would leave seven tenths of the noise."""
    smoothed, noisy = mean_errors(BELL, 40.0)
    assert smoothed < 0.4 * noisy


def test_a_rough_column_is_not_blurred() -> None:
    """Spikes seven values apart; a smoother with a fixed range would spread each over its neighbours."""
    smoothed, noisy = mean_errors(SPIKES, 15.0)
    assert smoothed < noisy


def test_measurements_of_one_column_are_taken_together_and_others_passed_on() -> None:
    schema = Schema([Integer("x", minimum=0, maximum=VALUES - 1), Categorical("y", values=["a", "b"])])
    first = Measurement(("x",), BELL + 30, "gaussian", 60.0)
    second = Measurement(("x",), BELL, "laplace", 20.0)
    other = Measurement(("y",), np.array([10.0, 20.0]), "gaussian", 60.0)
    pair = Measurement(("x", "y"), np.zeros((VALUES, 2)), "gaussian", 60.0)
    smoother = ColumnSmoother(schema)
    targets = smoother.targets([first, other, second, pair], rows=float(BELL.sum()))
    assert targets[:2] == [other, pair]
    assert [item.clique for item in targets[2:]] == [("x",)]
    assert targets[2].scale < 20.0
    assert smoother.targets([first, second], rows=1.0)[0] is targets[2]  # kept until it is measured again


def test_columns_with_little_noise_or_few_values_stay_as_measured() -> None:
    quiet = Measurement(("x",), BELL * 1_000, "gaussian", 1.0)
    (item,) = ColumnSmoother(ORDERED).targets([quiet], rows=float(BELL.sum() * 1_000))
    np.testing.assert_allclose(item.values, quiet.values)
    few = Schema([Integer("x", minimum=0, maximum=4)])
    small = Measurement(("x",), np.arange(5.0), "gaussian", 30.0)
    assert ColumnSmoother(few).targets([small], rows=10.0) == [small]
