"""The slack test: sensitivity of the minimum, false accepts, and one bit through the curator."""

from __future__ import annotations

import math

import numpy as np
import pytest
from release_examples import CRITERIA, DOMAIN, EVERY
from scipy.stats import binomtest

from understudy.curator import Curator, SealedScalar
from understudy.data import LocalTable
from understudy.errors import BudgetError, WorkloadError
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.release import MaxMarginalError, RareRecords, RecordTypes, SlackTest
from understudy.release.criteria.base import laplace_upper_tail
from understudy.release.look import seal_numbers
from understudy.release.neighbours import neighbouring_tables
from understudy.schema import Categorical, Ordinal, Schema

ALL = SlackTest(tuple(EVERY.values()))
MANY = SlackTest(tuple(CRITERIA.values()))
UNITS = {
    "add-remove": Unit.add_remove(),
    "replace-one": Unit.replace_one(),
    "person": Unit.add_remove_person("id", max_rows=3),
    "replaced person": Unit.replace_person("id", max_rows=2),
}


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_the_smallest_slack_moves_by_at_most_one_per_row(unit: Unit, seed: int) -> None:
    generator = np.random.default_rng(seed)
    worst, different = 0.0, set()
    for test, pairs in ((MANY, 80), (ALL, 12)):
        for rows in (8, 80):
            for real, neighbour, candidate in neighbouring_tables(
                DOMAIN, unit, rows=rows, pairs=pairs, generator=generator
            ):
                one, two = test.slack(real, candidate), test.slack(neighbour, candidate)
                worst = max(worst, abs(one - two))
                slacks = test.slacks(real, candidate)
                different.add(min(slacks, key=lambda name: slacks[name]))
    assert worst <= MANY.sensitivity(unit)
    assert MANY.sensitivity(unit) == pytest.approx(unit.max_rows)
    assert worst > 0.5 * unit.max_rows, "a halved claim would not have been caught"
    assert len(different) > 3, "the minimum is always the same criterion"


def test_public_criteria_are_public() -> None:
    test = SlackTest((*CRITERIA.values(), RareRecords(name="unique rows")))
    unique = RecordTypes.from_rows(DOMAIN, [(0, 0, 0), (0, 0, 0), (1, 1, 1)])
    doubled = RecordTypes.from_rows(DOMAIN, [(0, 0, 0), (0, 0, 0), (1, 1, 1), (1, 1, 1)])
    assert test.slack(unique, unique) == -3.0, "clipped to the number of rows"
    assert test.slack(doubled, doubled) == MANY.slack(doubled, doubled)
    assert test.sensitivity(Unit.replace_one()) == MANY.sensitivity(Unit.replace_one())


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("false_accept", [0.4, 0.05, 1e-6])
def test_the_threshold_bounds_false_accepts_on_the_curators_grid(epsilon: float, false_accept: float) -> None:
    """Exact tail of the discrete Laplace noise that ``Curator.test`` draws, at a slack of zero."""
    unit = Unit.replace_one()
    c = MANY.threshold(epsilon=epsilon, false_accept=false_accept, unit=unit)
    sensitivity = MANY.sensitivity(unit)
    step = 2.0 ** (math.ceil(math.log2(sensitivity)) - 20)
    scale = MANY.noise_scale(epsilon, unit=unit)
    k = math.floor(c / step) + 1  # the test accepts from k steps on
    tail = math.exp(-k * step / scale) / (1 + math.exp(-step / scale))
    assert tail <= false_accept
    assert tail > 0.99 * false_accept, "the threshold wastes power"
    assert MANY.acceptance(0.0, threshold=c, epsilon=epsilon, unit=unit) == pytest.approx(
        false_accept, rel=5e-3
    )


def test_epsilon_for_a_slack_hits_both_error_rates() -> None:
    unit = Unit.replace_one()
    epsilon = MANY.epsilon_for(45.0, false_accept=0.01, false_reject=0.1, unit=unit)
    c = MANY.threshold(epsilon=epsilon, false_accept=0.01, unit=unit)
    assert MANY.acceptance(45.0, threshold=c, epsilon=epsilon, unit=unit) == pytest.approx(0.9, abs=1e-4)
    assert laplace_upper_tail(-1.0, 1.0) == pytest.approx(1 - 0.5 * math.exp(-1))
    for bad in ({"slack": 0.0}, {"false_accept": 0.5}, {"false_reject": 0.0}):
        with pytest.raises(BudgetError):
            MANY.epsilon_for(**({"slack": 45.0, "false_accept": 0.01, "false_reject": 0.1} | bad), unit=unit)
    with pytest.raises(BudgetError):
        MANY.threshold(epsilon=1.0, false_accept=0.5, unit=unit)
    with pytest.raises(BudgetError):
        MANY.noise_scale(0.0, unit=unit)


def test_a_test_needs_criteria_with_different_names() -> None:
    with pytest.raises(WorkloadError):
        SlackTest(())
    with pytest.raises(WorkloadError):
        SlackTest((EVERY["max"], EVERY["max"]))
    assert MANY.problems(DOMAIN) == []
    assert MANY.problems(DOMAIN.project(["sex", "age"])) != []


# ---------------------------------------------------------------------- through the curator

ALPHA = 1e-9


def _curator(budget: PureDP, rows: np.ndarray) -> tuple[Curator, RecordTypes]:
    schema = Schema(
        columns=(
            Categorical(name="sex", values=("f", "m")),
            Ordinal(name="age", values=("a", "b", "c", "d")),
            Ordinal(name="size", values=("0", "1", "2", "3", "4")),
        )
    )
    table = LocalTable(schema, {name: rows[:, i] for i, name in enumerate(schema.names)})
    ledger = Ledger.in_memory(budget=budget, unit=Unit.replace_one(), table="test")
    curator = Curator(table, unit=Unit.replace_one(), ledger=ledger, randomness=SeededRandomness(3))
    return curator, RecordTypes.from_table(table)


def _sealed(test: SlackTest, curator: Curator, candidate: RecordTypes) -> SealedScalar:
    """Seal the smallest slack as a release does."""
    (sealed,) = seal_numbers(
        curator,
        lambda table: [test.slack(RecordTypes.from_table(table), candidate)],
        sensitivities=[test.sensitivity(curator.unit)],
    )
    return sealed


def test_the_curator_opens_a_slack_test_for_its_epsilon() -> None:
    rows = np.random.default_rng(1).integers(0, DOMAIN.sizes, (4000, 3))
    curator, real = _curator(PureDP(1.0), rows)
    assert real.domain == DOMAIN
    test = SlackTest((EVERY["max"], EVERY["relative"], EVERY["coefficients"]))
    candidate = RecordTypes.from_rows(DOMAIN, rows[np.random.default_rng(2).integers(0, 4000, 4000)])
    sealed = _sealed(test, curator, candidate)
    c = test.threshold(epsilon=0.4, false_accept=1e-6, unit=curator.unit)
    assert curator.test(sealed, above=c, epsilon=0.4, purpose="acceptance")
    assert curator.spent == pytest.approx(0.4, rel=1e-3)
    assert curator.spent <= 0.4 * (1 + 1e-5)
    bad = RecordTypes.from_rows(DOMAIN, np.zeros((4000, 3), dtype=int))
    assert not curator.test(
        _sealed(test, curator, bad), above=c, epsilon=0.4, purpose="acceptance of a bad candidate"
    )


def test_a_violated_criterion_is_accepted_as_rarely_as_promised() -> None:
    """At a slack of exactly zero. Alarm rate ALPHA; half the noise (rate 1/8 instead of 1/4) must be caught."""
    rows = np.repeat(np.array([[0, 0, 0], [1, 1, 1]]), [60, 40], axis=0)
    draws, epsilon = 1500, 0.5
    curator, real = _curator(PureDP(2 * draws * epsilon), rows)
    candidate = RecordTypes(DOMAIN, [[0, 0, 0], [1, 1, 1]], [80, 20])
    test = SlackTest((MaxMarginalError(name="max", threshold=0.2),))
    assert test.slack(real, candidate) == 0.0
    sealed = _sealed(test, curator, candidate)
    c = test.threshold(epsilon=epsilon, false_accept=0.25, unit=curator.unit)
    accepted = sum(curator.test(sealed, above=c, epsilon=epsilon, purpose="trial") for _ in range(draws))
    assert binomtest(accepted, draws, 0.25).pvalue > ALPHA
    assert binomtest(accepted, draws, 0.125).pvalue < ALPHA
