"""The distance bound: never below what the constraints allow, and close to it on small tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.inference.covers import Cover
from understudy.inference.dual import ball_bound, distance_bound, positive_part
from understudy.inference.laws import CellNoise


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cells=st.integers(1, 40), sparse=st.floats(0, 1))
def test_every_table_that_meets_the_constraints_is_within_the_bound(
    seed: int, cells: int, sparse: float
) -> None:
    generator = np.random.default_rng(seed)
    real = np.where(generator.random(cells) < sparse, 0.0, generator.gamma(0.5, 40, cells))
    noise = generator.normal(0, 8, cells)
    measured = real + noise
    answer = np.where(generator.random(cells) < 0.5, np.maximum(measured, 0), generator.gamma(0.5, 40, cells))
    first, second = np.maximum(noise, 0).sum(), (np.maximum(noise, 0) ** 2).sum()
    truth = np.maximum(answer - real, 0).sum()
    for a, b in ((first, second), (first, math.inf), (math.inf, second)):
        bound = positive_part(measured, answer, first=a, second=b, unit=8.0)
        assert truth <= bound + 1e-9
        assert bound <= answer.sum() + 1e-9


def worst(measured: np.ndarray, answer: np.ndarray, first: float, second: float) -> float:
    """Search two cells for the largest distance the constraints allow."""
    axes = [np.linspace(0, max(0.0, y) + 40, 801) for y in measured]
    left, right = np.meshgrid(*axes, indexing="ij")
    gaps = [np.maximum(measured[0] - left, 0), np.maximum(measured[1] - right, 0)]
    allowed = (gaps[0] + gaps[1] <= first) & (gaps[0] ** 2 + gaps[1] ** 2 <= second)
    value = np.maximum(answer[0] - left, 0) + np.maximum(answer[1] - right, 0)
    return float(value[allowed].max())


@pytest.mark.parametrize(
    ("measured", "answer", "first", "second"),
    [
        ([30.0, 20.0], [30.0, 20.0], 10.0, 60.0),
        ([30.0, 20.0], [30.0, 20.0], 4.0, 60.0),
        ([5.0, 50.0], [8.0, 45.0], 10.0, 50.0),
        ([-3.0, 50.0], [2.0, 50.0], 6.0, 100.0),
        ([30.0, 20.0], [10.0, 5.0], 8.0, 40.0),
    ],
)
def test_bound_is_tight_on_two_cells(
    measured: list[float], answer: list[float], first: float, second: float
) -> None:
    y, p = np.array(measured), np.array(answer)
    bound = positive_part(y, p, first=first, second=second, unit=5.0)
    exact = worst(y, p, first, second)
    # what concave envelopes lose where a cell first has to fall below the answer
    assert exact - 0.1 <= bound <= exact + 0.35 * max(exact, 3.0)


def test_empty_cells_of_a_sparse_table_do_not_count() -> None:
    generator = np.random.default_rng(0)
    real = np.zeros(2000)
    real[:20] = 500.0
    noise = CellNoise("gaussian", 10.0)
    measured = real + np.rint(generator.normal(0, 10, 2000))
    answer = real.copy()
    bound = distance_bound(Cover(measured, noise), answer, total=10_000.0, beta=0.05)
    grouped = distance_bound(Cover(measured, noise, real), answer, total=10_000.0, beta=0.05)
    triangle = np.abs(measured - answer).sum() + noise.absolute_sum(2000, 0.05)
    assert grouped < 0.6 * bound < 0.3 * triangle


def test_laplace_needs_no_second_moment() -> None:
    noise = CellNoise("laplace", 5.0)
    measured = np.array([100.0, 80.0, -4.0, 3.0])
    bound = distance_bound(Cover(measured, noise), np.array([98.0, 82.0, 0.0, 0.0]), total=180.0, beta=0.1)
    assert 10 < bound < 120


def test_the_total_shifts_the_bound() -> None:
    noise = CellNoise("gaussian", 1.0)
    cover = Cover(np.array([10.0, 10.0]), noise)
    answer = np.array([10.0, 10.0])
    known = distance_bound(cover, answer, total=20.0, beta=0.05)
    assert distance_bound(cover, answer, total=23.0, beta=0.05) == pytest.approx(known + 3)


def test_several_measurements_beat_one() -> None:
    generator = np.random.default_rng(1)
    real = generator.gamma(2.0, 200.0, 60)
    noise = CellNoise("gaussian", 20.0)
    covers = [Cover(real + generator.normal(0, 20, 60), noise) for _ in range(12)]
    answer = real + generator.normal(0, 4, 60)
    one = distance_bound(covers[0], answer, total=real.sum(), beta=0.05)
    many = ball_bound(covers, answer, total=real.sum(), beta=0.05)
    assert np.abs(real - answer).sum() < many < 0.8 * one
