"""Selection: the grid's arithmetic, its sensitivity, and refusals. Probabilities: see tests/statistical."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import BudgetError, DataError
from understudy.privacy import SeededRandomness, SystemRandomness
from understudy.privacy.noise.selection import _Grid, exponential_law, exponential_mechanism, permute_and_flip

MECHANISMS = (exponential_mechanism, permute_and_flip)


def grid_of(scores: object, **options: object) -> _Grid:
    defaults = {"epsilon": 1.0, "sensitivity": 1.0, "monotone": False, "score_error": None}
    return _Grid.of(scores, **(defaults | options))  # type: ignore[arg-type]


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6),
    st.floats(1e-3, 1e3),
    st.floats(1e-2, 10),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_privacy_loss_never_exceeds_epsilon(
    scores: list[float], sensitivity: float, epsilon: float, monotone: bool, exact: bool, data: st.DataObject
) -> None:
    # Neighbouring scores at the extremes of what sensitivity and floating-point error allow.
    error = 0.0 if exact else sensitivity * 2.0**-13
    low = 0.0 if monotone else -sensitivity
    moves = data.draw(
        st.lists(st.sampled_from([low, sensitivity]), min_size=len(scores), max_size=len(scores))
    )
    slips = data.draw(st.lists(st.sampled_from([-2.0, 0.0, 2.0]), min_size=len(scores), max_size=len(scores)))
    # Keep the scores on a grid where adding the moves is exact, so that the claimed distances hold.
    unit = math.ldexp(1.0, math.frexp(sensitivity)[1] - 30)
    before = np.array([round(s / unit) * unit for s in scores])
    after = before + np.trunc(np.array(moves) / unit) * unit + np.trunc(np.array(slips) * error / unit) * unit
    options = {"epsilon": epsilon, "sensitivity": sensitivity, "monotone": monotone, "score_error": error}
    a, b = grid_of(before, **options), grid_of(after, **options)
    assert a.gamma == b.gamma
    # The log-ratio of probabilities is gamma (d'_i - d_i) plus a constant between its extremes: its range,
    # and hence its absolute value, is at most this exact number.
    assert a.gamma * int(np.ptp(a.distances - b.distances)) <= Fraction(epsilon)


@settings(deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=6), st.floats(0.01, 5.0), st.booleans())
def test_the_law_of_the_exponential_mechanism(scores: list[float], epsilon: float, monotone: bool) -> None:
    law = exponential_law(scores, epsilon=epsilon, sensitivity=2.0, monotone=monotone, score_error=0.0)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    rate = epsilon / 2.0 / (1 if monotone else 2)
    wanted = np.exp(rate * (np.array(scores) - max(scores)))
    assert law == pytest.approx(
        wanted / wanted.sum(), rel=1e-3, abs=1e-12
    )  # the grid moves exponents by 1e-6
    # it is the law of the coins that are flipped: the same distances, the same exact rate
    grid = grid_of(scores, epsilon=epsilon, sensitivity=2.0, monotone=monotone, score_error=0.0)
    for i, distance in enumerate(grid.distances):
        assert law[i] / law.max() == pytest.approx(math.exp(-float(grid.gamma * int(distance))), rel=1e-9)


def test_a_grid_without_its_allowance_would_break_the_promise() -> None:
    # Rounding alone can move two scores apart by one quantum more than the sensitivity.
    quantum = 2.0**-20
    options = {"sensitivity": 1.5 * quantum * 2**20, "score_error": 0.0, "epsilon": 1.0}
    before = np.array([0.49 * quantum, 0.51 * quantum])
    after = before + np.array([1.0, -1.0]) * options["sensitivity"]
    a, b = grid_of(before, **options), grid_of(after, **options)
    moved = int((a.distances - b.distances)[0]) - int((a.distances - b.distances)[1])
    assert abs(moved) * a.gamma <= 1
    naive = Fraction(options["epsilon"]) / (2 * Fraction(options["sensitivity"]) / Fraction(quantum))
    assert a.gamma < naive


def test_the_effective_epsilon_is_nearly_the_one_paid_for() -> None:
    for sensitivity in (1.0, 1.999, 2.0, 1e-5, 12345.678):
        for monotone, factor in ((False, 2), (True, 1)):
            grid = grid_of([0.0, -sensitivity], sensitivity=sensitivity, monotone=monotone)
            effective = float(grid.gamma) * int(grid.distances[1]) * factor
            assert 0.999 < effective < 1.0


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=20),
    st.floats(1e-12, 1e6),
    st.floats(1e-20, 1e20),
    st.integers(1, 63),
)
def test_dominating_powers_dominate(
    scores: list[float], epsilon: float, sensitivity: float, cap: int
) -> None:
    grid = grid_of(scores, epsilon=epsilon, sensitivity=sensitivity)
    log2_e = Fraction(14426950408889634073599246810018921374266459541529859341354494069, 10**64)
    for d, c in zip(grid.distances.tolist(), grid.dominating_powers(cap).tolist(), strict=True):
        exact = grid.gamma * d * log2_e
        assert 0 <= c <= exact
        assert c == cap or exact < (c + 1) * (1 + Fraction(1, 2**40)) + Fraction(1, 2**40)


def test_scores_beyond_the_grid_saturate() -> None:
    grid = grid_of([1e300, -1e300, 0.0, 5e-324])
    assert grid.distances.tolist() == [0, 2**62, 2**61, 2**61]
    for mechanism in MECHANISMS:
        chosen = mechanism([1e300, -1e300], epsilon=1.0, sensitivity=1.0, randomness=SystemRandomness())
        assert chosen == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_one_candidate_and_equal_candidates(mechanism: Callable[..., int]) -> None:
    options = {"epsilon": 1.0, "sensitivity": 1.0, "randomness": SystemRandomness()}
    assert mechanism([3.0], **options) == 0
    assert {mechanism(np.zeros(3), **options) for _ in range(200)} == {0, 1, 2}  # misses one: 1e-35
    assert type(mechanism(np.zeros(3), **options)) is int


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_seed_decides_and_calls_differ(mechanism: Callable[..., int]) -> None:
    def chosen(seed: int) -> list[int]:
        source = SeededRandomness(seed)
        return [mechanism(np.zeros(10**4), epsilon=1.0, sensitivity=1.0, randomness=source) for _ in range(5)]

    assert chosen(1) == chosen(1)
    assert chosen(1) != chosen(2)
    assert len(set(chosen(1))) > 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("scores", [[], [[1.0, 2.0]], [1.0, float("nan")], [float("inf"), 0.0]], ids=str)
def test_unusable_scores_are_refused_without_showing_them(
    mechanism: Callable[..., int], scores: list[float]
) -> None:
    with pytest.raises(DataError) as caught:
        mechanism(scores, epsilon=1.0, sensitivity=1.0, randomness=SystemRandomness())
    assert not any(character.isdigit() for character in str(caught.value))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": True},
        {"epsilon": "1"},
        {"sensitivity": 0.0},
        {"sensitivity": float("inf")},
        {"score_error": -1e-9},
        {"score_error": float("nan")},
    ],
    ids=str,
)
def test_impossible_parameters_are_refused(mechanism: Callable[..., int], options: dict[str, object]) -> None:
    valid = {"epsilon": 1.0, "sensitivity": 1.0, "randomness": SystemRandomness()}
    with pytest.raises(BudgetError):
        mechanism([1.0, 2.0], **(valid | options))
