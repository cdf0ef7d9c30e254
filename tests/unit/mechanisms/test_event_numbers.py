"""Entities by their exact number of events: noisy counts and bins, told together by a curve."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from understudy.mechanisms.events.numbers import entities_by_number

BINS = (1, 2, 3, 4, 5, 11, 13)
DEVIATION, BINS_DEVIATION = 22.0, 10.0


def sums(counts: np.ndarray, bins: tuple[int, ...] = BINS) -> np.ndarray:
    """Return the sums of bins."""
    return np.array([counts[low - 1 : high - 1].sum() for low, high in pairwise(bins)])


SHAPES = {
    "falls ever faster": np.array([5600, 6400, 3800, 2270, 1080, 540, 200, 61, 23, 13, 0, 0.0]),
    "falls evenly, with a heap at the end": np.array(
        [15460, 2800, 870, 350, 193, 111, 61, 34, 32, 15, 20, 52.0]
    ),
}


@pytest.mark.parametrize(("name", "most"), [*zip(SHAPES, (0.9, 0.6), strict=True)])
def test_the_curve_is_nearer_than_the_noisy_counts(name, most) -> None:
    """Over 20 fixed draws (no false alarms: the seed is fixed). Caught: a bin that is shared out evenly (3 and 21 times the error of the noisy counts), and a heap at the end that is smoothed away (.92 times instead of .43)."""
    true = SHAPES[name]
    rng = np.random.default_rng(1)
    found, raw = [], []
    for _ in range(20):
        noisy = true + rng.normal(0, DEVIATION, len(true))
        people = np.maximum(sums(true) + rng.normal(0, BINS_DEVIATION, len(BINS) - 1), 0)
        made = entities_by_number(noisy, DEVIATION**2, BINS, people, BINS_DEVIATION**2)
        found.append(np.abs(made - true)[4:].sum())
        raw.append(np.abs(np.maximum(noisy, 0) - true)[4:].sum())
    assert np.mean(found) < most * np.mean(raw)


def test_with_next_to_no_noise_counts_stay_as_they_were_measured() -> None:
    true = np.array([100, 900, 50, 700, 10, 10, 800, 10, 300, 5, 1, 40.0])
    found = entities_by_number(true, 1e-4, BINS, sums(true), 1e-4)
    assert np.abs(found - true).max() < 1


@pytest.mark.parametrize("most", [1, 2, 3, 40, 300, 100_000])
def test_nothing_but_noise_is_no_error(most) -> None:
    """Empty tables, one number, and many of them: finite, and never negative."""
    bins = (*range(1, min(most, 4) + 1), *([most + 1] if most < 5 else [5, most + 1]))
    noisy = np.random.default_rng(2).normal(0, DEVIATION, most)
    found = entities_by_number(noisy, DEVIATION**2, bins, np.zeros(len(bins) - 1), 100.0)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found.sum() < 6 * DEVIATION * np.sqrt(most)


def test_numbers_far_out_are_told_by_stretches_of_them() -> None:
    """Ten thousand numbers, most of them of nobody: no more than noise is made of them, and the heap at the end stays (no false alarms: the seed is fixed)."""
    most = 10_000
    true = np.rint(50_000 / np.arange(1.0, most + 1) ** 2)
    true[-1] = 900
    bins = (1, 2, 3, 4, 5, 11, 101, 1_001, most + 1)
    rng = np.random.default_rng(3)
    noisy = true + rng.normal(0, DEVIATION, most)
    found = entities_by_number(noisy, DEVIATION**2, bins, sums(true, bins), BINS_DEVIATION**2)
    assert np.abs(found - true).sum() < 0.02 * true.sum()
    assert abs(found[-1] - 900) < 4 * DEVIATION
