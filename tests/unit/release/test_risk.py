"""Bounds on singling out, linking and inferring: never below what the best attacker reaches, and reached where they should be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.release.bundle.risk import CHANCES, PEOPLE, picked, risks
from understudy.release.selection.profiles import BestProfile, Bound, best_profile

BUDGETS = (PureDP(0.3), PureDP(2.2), ApproxDP(1.0, 1e-3), GDP(0.7), ZCDP(0.2))


def known(*budgets: Budget, epsilon: float = 0.0) -> BestProfile:
    return best_profile([Bound(epsilon, budget) for budget in budgets])


def random_channel(epsilon: float, inputs: int, outputs: int, generator: np.random.Generator) -> np.ndarray:
    """Laws of the outcome by input, any two of which are within a factor of ``e^epsilon``: the law of each outcome times e^u, u within half of it."""
    while True:
        base = generator.dirichlet(np.ones(outputs))
        tilt = generator.choice([0.0, epsilon / 2], (inputs, outputs))
        laws = base * np.exp(tilt)
        laws /= laws.sum(axis=1, keepdims=True)
        if np.log(laws.max(axis=0) / laws.min(axis=0)).max() <= epsilon:
            return laws


def best_power(null: np.ndarray, other: np.ndarray, size: float) -> float:
    """Largest chance under ``other`` of an event, decided by coins if need be, whose chance under ``null`` is ``size`` (Neyman and Pearson)."""
    order = np.argsort(-(other / null))
    left, power = size, 0.0
    for outcome in order:
        taken = min(1.0, left / null[outcome])
        power, left = power + taken * other[outcome], left - taken * null[outcome]
        if left <= 0:
            break
    return power


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_no_attacker_on_a_private_channel_beats_the_bounds(epsilon: float) -> None:
    """The best attacker is computed exactly, by sorting likelihood ratios; 300 random channels each."""
    generator = np.random.default_rng(round(10 * epsilon))
    profile = known(PureDP(epsilon))
    found = risks(profile, rows=1000, mutual=True)
    for _ in range(300):
        inputs, outputs = int(generator.integers(2, 12)), int(generator.integers(2, 12))
        laws = random_channel(epsilon, inputs, outputs, generator)
        says_right = laws.max(axis=0).sum() / inputs  # for each outcome the likeliest person
        assert says_right <= picked(profile, inputs, mutual=True) + 1e-12
        assert says_right <= picked(profile, inputs, mutual=False) + 1e-12
        for (before, _), (_, most) in zip(CHANCES, found.chances, strict=True):
            assert best_power(laws[0], laws[1], before) <= most + 1e-12
        advantage = np.maximum(laws[0] - laws[1], 0).sum()
        assert advantage <= found.advantage + 1e-12


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("people", PEOPLE)
def test_randomised_response_reaches_the_bound_on_picking(epsilon: float, people: int) -> None:
    """It says the truth e^epsilon times as often as each of the other answers: nothing sharper is true."""
    truth = math.exp(epsilon) / (math.exp(epsilon) + people - 1)
    assert picked(known(PureDP(epsilon)), people, mutual=True) == pytest.approx(truth, rel=1e-9)


def test_two_people_are_a_coin() -> None:
    for budget in BUDGETS:
        profile = known(budget)
        two = picked(profile, 2, mutual=True)
        assert two >= profile.right_guess() - 1e-9
        if not isinstance(budget, ZCDP):  # of which only a hull of statements is known
            assert two == pytest.approx(profile.right_guess(), rel=1e-6)
    assert picked(known(GDP(0.7)), 2, mutual=True) == pytest.approx(norm.cdf(0.35), rel=1e-9)


@pytest.mark.parametrize("people", [3, 50, 4000])
def test_a_rule_made_from_a_noisy_answer_singles_out_no_more_than_the_bound(people: int) -> None:
    """Randomised response about a person's value among many; the rule is "has the value that was released"."""
    epsilon = 1.3
    fits = math.exp(epsilon) / (math.exp(epsilon) + people - 1)
    most = float(known(PureDP(epsilon)).largest(np.array([1 / people]))[0])
    assert fits <= most
    if people > 1000:
        assert fits == pytest.approx(most, rel=0.01), "and hardly less where the rule fits few"


def test_the_largest_chance_is_concave_as_the_proofs_need() -> None:
    """For every kind of guarantee, for pure acts beside others, and for several things that are known at once."""
    grid = np.linspace(0.0, 1.0, 401)
    profiles = [known(budget) for budget in BUDGETS]
    profiles += [known(GDP(0.7), epsilon=0.4), known(ApproxDP(1.0, 1e-3), epsilon=0.2), known(*BUDGETS)]
    profiles.append(best_profile([Bound(0.0, PureDP(0.5))], steps=2))
    for profile in profiles:
        most = np.asarray(profile.largest(grid))
        middles = (most[:-2] + most[2:]) / 2
        assert (most[1:-1] >= middles - 1e-9).all()
        assert (np.diff(most) >= -1e-12).all()


def test_the_bounds_say_more_where_the_promise_is_better() -> None:
    """A wrong order, or a bound that ignores delta, would show here."""
    weak, strong = (risks(known(PureDP(e)), rows=10_000, mutual=True) for e in (2.0, 0.1))
    for (_, more), (_, less) in zip(weak.chances, strong.chances, strict=True):
        assert less < more
    assert strong.isolated == pytest.approx(math.exp(0.1) / 1000, rel=1e-6)
    leaky = risks(known(ApproxDP(0.1, 1e-4)), rows=10_000, mutual=True)
    assert leaky.isolated == pytest.approx(min(1.0, math.exp(0.1) / 1000 + 10_000 * 1e-4), rel=1e-6)
    nothing = risks(best_profile([]), rows=10, mutual=False)
    assert nothing.right_guess == nothing.isolated == 1.0
