"""Lower bounds on privacy loss: exact values, monotone, and zero where nothing is shown."""

from __future__ import annotations

import math

import pytest
from scipy.stats import binom

from understudy.audit.trials import (
    demonstrated_epsilon,
    demonstrated_mu,
    guessed_epsilon,
    guessed_mu,
    lower_rate,
    upper_rate,
)


@pytest.mark.parametrize(("hits", "trials"), [(1, 10), (50, 100), (99, 100), (100, 100)])
def test_the_lower_rate_is_where_the_tail_is_alpha(hits: int, trials: int) -> None:
    rate = lower_rate(hits, trials, 0.03)
    assert binom.sf(hits - 1, trials, rate) == pytest.approx(0.03)
    assert upper_rate(trials - hits, trials, 0.03) == pytest.approx(1 - rate)


def test_guesses_at_the_claim_are_covered() -> None:
    """Of all outcomes of 200 guesses at epsilon 2, those that demonstrate more than 2 have probability at most 5 %."""
    right = 1 / (1 + math.exp(-2.0))
    over = sum(
        float(binom.pmf(k, 200, right))
        for k in range(201)
        if guessed_epsilon(k, 200, 200, delta=0.0, confidence=0.95) > 2.0
    )
    assert 0.01 < over <= 0.05


def test_guesses_at_the_gaussian_claim_are_covered() -> None:
    right = 0.5 * math.erfc(-1 / math.sqrt(2))
    over = sum(
        float(binom.pmf(k, 200, right)) for k in range(201) if guessed_mu(k, 200, confidence=0.95) > 2.0
    )
    assert 0.01 < over <= 0.05


def test_delta_is_taken_off() -> None:
    without = guessed_epsilon(180, 200, 400, delta=0.0, confidence=0.95)
    with_delta = guessed_epsilon(180, 200, 400, delta=0.05, confidence=0.95)
    all_guessed = guessed_epsilon(360, 400, 400, delta=0.05, confidence=0.95)
    assert 0 < with_delta < without
    assert with_delta < all_guessed


def test_a_mechanism_that_fails_with_probability_delta_is_covered() -> None:
    """The release of the record itself with probability delta is (0, delta)-DP, and so it must look: all guesses are right."""
    runs, delta = 1_000, 0.05
    over = 0.0
    for shown in range(200):
        guesses = shown
        if guessed_epsilon(guesses, guesses, runs, delta=delta, confidence=0.95) > 0.0:
            over += float(binom.pmf(shown, runs, delta))
    assert over <= 0.05


def test_nothing_shown_is_zero() -> None:
    assert guessed_epsilon(0, 0, 100, delta=0.0, confidence=0.95) == 0
    assert guessed_epsilon(50, 100, 100, delta=0.0, confidence=0.95) == 0
    assert guessed_mu(0, 100, confidence=0.95) == 0
    assert demonstrated_epsilon(10, 100, 10, 100, delta=0.0, confidence=0.95) == 0
    assert demonstrated_mu(0, 100, 0, 100, confidence=0.95) == 0


def test_more_confidence_demonstrates_less() -> None:
    values = [guessed_epsilon(900, 1000, 1000, delta=0.0, confidence=c) for c in (0.9, 0.99, 1 - 1e-9)]
    assert values == sorted(values, reverse=True)
    assert values[-1] > 0
