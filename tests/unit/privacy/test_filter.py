"""Filters keep their promise against analysts who choose each act in the light of the answers so far.

The referee enumerates all transcripts of small adaptive interactions and computes the exact hockey-stick
divergence between the two neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy import GDP, ZCDP, ApproxDP, Event, Ledger, PureDP, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.privacy.accounting.conversions import approx_to_gdp, gdp_delta
from understudy.privacy.accounting.filter import Filter, Spending, filter_of
from understudy.privacy.events import (
    AllowanceEvent,
    ApproxEvent,
    GaussianEvent,
    InsideEvent,
    LaplaceEvent,
    Parallel,
    PureEvent,
    ZcdpEvent,
)
from understudy.privacy.guarantee import tightest

ROW = Unit.add_remove()
NORMAL = NormalDist()

Act = tuple[Event, list[tuple[float, float]]]
"""An event and, per outcome, its probability on the two neighbours."""


def response(epsilon: float) -> Act:
    """Randomised response: the worst pure act."""
    p = 1 / (1 + math.exp(-epsilon))
    return PureEvent(epsilon), [(p, 1 - p), (1 - p, p)]


def gaussian(mu: float, bins: int = 9) -> Act:
    """A Gaussian measurement, cut into bins: a post-processing of a GaussianEvent."""
    edges = [-math.inf, *np.linspace(-3.0, 3.0 + mu, bins - 1).tolist(), math.inf]
    cdf = NORMAL.cdf
    law = [(cdf(b - mu) - cdf(a - mu), cdf(b) - cdf(a)) for a, b in pairwise(edges)]
    return GaussianEvent(1.0, 1 / mu), law


def revealing(epsilon: float, delta: float) -> Act:
    """The worst (epsilon, delta) act: reveals the neighbour with probability delta."""
    p = 1 / (1 + math.exp(-epsilon))
    keep = 1 - delta
    return ApproxEvent(epsilon, delta), [
        (delta, 0),
        (0, delta),
        (keep * p, keep * (1 - p)),
        (keep * (1 - p), keep * p),
    ]


Analyst = Callable[[tuple[int, ...]], Act | None]


def transcripts(
    analyst: Analyst, admits: Callable[[Spending], bool], rule: Filter, depth: int
) -> Iterator[tuple[float, float]]:
    """Probabilities of every full transcript on the two neighbours."""
    pending: list[tuple[tuple[int, ...], Spending, float, float]] = [((), Spending(), 1.0, 1.0)]
    while pending:
        history, spending, p, q = pending.pop()
        act = analyst(history) if len(history) < depth else None
        if act is None:
            yield p, q
            continue
        event, law = act
        after = rule.plus(spending, event)
        if not admits(after):  # refused: nothing is drawn, the analyst goes on
            pending.append(((*history, -1), spending, p, q))
            continue
        pending.extend(((*history, i), after, p * a, q * b) for i, (a, b) in enumerate(law) if a > 0 or b > 0)


def divergence(pairs: list[tuple[float, float]], epsilon: float) -> float:
    factor = math.exp(epsilon)
    return max(
        sum(max(0.0, p - factor * q) for p, q in pairs), sum(max(0.0, q - factor * p) for p, q in pairs)
    )


def random_analyst(seed: int, acts: list[Act]) -> Analyst:
    """A fixed but haphazard choice of act for each history."""

    def choose(history: tuple[int, ...]) -> Act:
        generator = np.random.default_rng([seed, *(2 + step for step in history)])
        return acts[int(generator.integers(len(acts)))]

    return choose


@pytest.mark.parametrize("accounting", ["gdp", "zcdp"])
def test_mixed_adaptive_spending_keeps_an_approximate_budget(accounting):
    epsilon, delta = 1.0, 0.02
    rule = Filter(ApproxDP(epsilon, delta), ROW, accounting)
    acts = [response(e) for e in (0.1, 0.33, 0.5)] + [gaussian(m) for m in (0.1, 0.25, 0.4)]
    used = 0.0
    for seed in range(60):
        pairs = list(transcripts(random_analyst(seed, acts), rule.holds, rule, depth=4))
        assert math.isclose(sum(p for p, _ in pairs), 1.0, rel_tol=1e-9)
        used = max(used, divergence(pairs, epsilon))
    assert used <= delta
    assert used > 0.02 * delta  # the analysts do press against the budget


def test_spending_to_the_brim_of_the_pure_filter_adds_no_delta():
    rule = Filter(ApproxDP(1.0, 1e-6), ROW)
    thirds = response(1 / 3)

    def analyst(history: tuple[int, ...]) -> Act:
        return thirds

    pairs = list(transcripts(analyst, rule.holds, rule, depth=5))
    assert len(pairs) == 8  # three are admitted, although the GDP filter stops at the first
    assert divergence(pairs, 1.0) <= 1e-15


def test_the_referee_catches_two_filters_that_each_watch_only_their_own_acts():
    """The tempting mistake: pure acts against epsilon, Gaussian acts against mu, separately."""
    epsilon, delta = 1.0, 0.02
    rule = Filter(ApproxDP(epsilon, delta), ROW)
    brim = math.sqrt(float(rule.total)) * 0.999
    acts = [response(0.999), gaussian(brim)]

    def analyst(history: tuple[int, ...]) -> Act | None:
        return acts[len(history)] if len(history) < 2 else None

    wrong = list(transcripts(analyst, lambda spending: True, rule, depth=2))
    assert divergence(wrong, epsilon) > 2 * delta
    right = list(transcripts(analyst, rule.holds, rule, depth=2))
    assert divergence(right, epsilon) <= delta


def test_a_reserve_pays_for_acts_that_may_reveal_everything():
    epsilon, delta, reserve = 1.0, 0.05, 0.03
    rule = Filter(ApproxDP(epsilon, delta), ROW, approximate_delta=reserve)
    acts = [revealing(0.2, 0.01), revealing(0.0, 0.014), response(0.4), gaussian(0.2, bins=6)]
    used = 0.0
    for seed in range(40):
        pairs = list(transcripts(random_analyst(seed, acts), rule.holds, rule, depth=4))
        used = max(used, divergence(pairs, epsilon))
    assert 0.5 * reserve < used <= delta


@pytest.mark.parametrize(
    ("budget", "event", "fits"),
    [
        (PureDP(1.0), PureEvent(0.1), 9),  # ten doubles 0.1 add up to a little more than one
        (PureDP(1.0), LaplaceEvent(1.0, 10.0), 10),
        (ZCDP(0.5), GaussianEvent(1.0, 2.0), 4),
        (GDP(0.5), GaussianEvent(1.0, 4.0), 4),
        (GDP(0.5), ZcdpEvent(1e-9), 0),
        (PureDP(1.0), GaussianEvent(1.0, 1e9), 0),
        (ZCDP(0.5), ApproxEvent(1e-9, 1e-30), 0),
    ],
)
def test_how_often_an_event_fits(budget, event, fits):
    rule, spending, count = Filter(budget, ROW), Spending(), 0
    while rule.holds(rule.plus(spending, event)):
        spending, count = rule.plus(spending, event), count + 1
    assert count == fits


def test_a_full_gaussian_budget_is_exactly_the_curve():
    budget = ApproxDP(1.0, 1e-9)
    rule = Filter(budget, ROW)
    sigma = rule.main.gaussian_sigma(rule.main.total(budget), 1.0)
    assert rule.holds(rule.plus(Spending(), GaussianEvent(1.0, sigma)))
    assert not rule.holds(rule.plus(Spending(), GaussianEvent(1.0, sigma * (1 - 1e-9))))
    assert gdp_delta(1 / sigma, 1.0) == pytest.approx(1e-9, rel=1e-6)


def test_what_remains_is_rounded_down_and_never_negative():
    rule = Filter(ApproxDP(1.0, 1e-9), ROW)
    spending = rule.plus(Spending(), LaplaceEvent(1.0, 3.0))
    assert rule.remaining(spending) == 0.0  # only the pure filter still holds
    assert rule.holds(spending)
    left = rule.remaining(spending, accounting="pure")
    assert Fraction(left) <= 1 - Fraction(1, 3) < Fraction(math.nextafter(left, 2))
    assert rule.remaining(spending, accounting="zcdp") == 0.0
    pure = Filter(PureDP(1.0), ROW)
    assert pure.remaining(Spending(), accounting="gdp") == 0.0


def test_sums_that_do_not_exist_are_infinite():
    spending = Spending().plus(GaussianEvent(1.0, 1.0)).plus(PureEvent(1.0))
    assert spending.spent("pure") == math.inf
    assert spending.spent("zcdp") < math.inf


def test_parallel_parts_are_paid_for_by_unit():
    event = Parallel([PureEvent(0.4)] * 3)
    assert Filter(PureDP(1.0), ROW).plus(Spending(), event).spent("pure") == 0.4
    assert Filter(PureDP(1.0), Unit.replace_one()).plus(Spending(), event).spent("pure") == 0.8
    person = Unit.add_remove_person("id", max_rows=5)
    assert Filter(PureDP(2.0), person).plus(Spending(), event).spent("pure") == pytest.approx(1.2)


def test_filters_that_make_no_sense_are_refused():
    with pytest.raises(NoSuchGuarantee):
        Filter(PureDP(1.0), ROW, "gdp")
    with pytest.raises(NoSuchGuarantee):
        Filter(PureDP(1.0), ROW, approximate_delta=0.1)
    with pytest.raises(BudgetError):
        Filter(ApproxDP(1.0, 1e-6), ROW, approximate_delta=1e-6)


# ---------------------------------------------------------------------- plain addition and allowances


def inside(name: str, act: Act) -> Act:
    """An act in an allowance."""
    event, law = act
    return InsideEvent(name, event), law


def opening(name: str, epsilon: float, delta: float, accounting: str = "gdp", reserve: float = 0.0) -> Act:
    """An allowance is opened: nothing is drawn."""
    return AllowanceEvent(name, epsilon, delta, accounting, reserve), [(1.0, 1.0)]


def test_parts_that_people_can_add():
    """Finding 8: (1.5, 1e-9) and 0.3 in (2, 1e-9)."""
    rule = Filter(ApproxDP(2.0, 1e-9), ROW, "pure")
    mu = approx_to_gdp(1.5, 1e-9)
    spending = rule.plus(rule.nothing(), AllowanceEvent("model", 1.5, 1e-9, "gdp"))
    spending = rule.plus(spending, InsideEvent("model", GaussianEvent(1.0, 1 / (mu * 0.999999))))
    spending = rule.plus(spending, PureEvent(0.3))
    assert rule.holds(spending)
    assert rule.remaining(spending) == pytest.approx(0.2)
    assert not rule.holds(rule.plus(spending, PureEvent(0.21)))
    assert not rule.holds(rule.plus(spending, InsideEvent("model", GaussianEvent(1.0, 100.0))))
    assert not rule.holds(rule.plus(spending, AllowanceEvent("more", 0.1, 1e-12, "gdp")))
    assert not rule.holds(rule.plus(spending, GaussianEvent(1.0, 1e6)))  # loose Gaussian noise has no epsilon


@pytest.mark.parametrize("accounting", ["gdp", "zcdp"])
def test_plain_addition_keeps_the_budget_whoever_goes_on_where(accounting):
    """Two allowances with a delta and loose acts, in any order that the answers suggest."""
    epsilon, delta = 1.5, 0.05
    rule = Filter(ApproxDP(epsilon, delta), ROW, "pure")
    steps = (0.15, 0.3, 0.45)
    acts = [response(e) for e in (0.1, 0.3)]
    acts += [inside(name, gaussian(mu, bins=5)) for name in ("a", "b") for mu in steps]
    acts += [inside(name, response(e)) for name in ("a", "b") for e in (0.1, 0.35)]
    acts += [revealing(0.1, 0.01), opening("c", 0.2, 0.005), inside("c", gaussian(0.1, bins=3))]
    used = 0.0
    for seed in range(60):
        choose = random_analyst(seed, acts)

        def analyst(history: tuple[int, ...], choose: Analyst = choose) -> Act | None:
            first = (opening("a", 0.5, 0.02, accounting), opening("b", 0.4, 0.02, accounting))
            return first[len(history)] if len(history) < 2 else choose(history)

        pairs = list(transcripts(analyst, rule.holds, rule, depth=6))
        assert math.isclose(sum(p for p, _ in pairs), 1.0, rel_tol=1e-9)
        used = max(used, divergence(pairs, epsilon))
    assert used <= delta


def test_plain_addition_is_reached_by_the_worst_acts():
    """The bound is not idle: the worst parts, added up, reach it."""
    rule = Filter(ApproxDP(1.5, 0.05), ROW, "pure")
    plan = [opening("a", 1.0, 0.04, "pure", 0.04), inside("a", revealing(1.0, 0.04)), response(0.5)]
    pairs = list(
        transcripts(lambda history: plan[len(history)] if len(history) < 3 else None, rule.holds, rule, 3)
    )
    assert 0.04 * 0.999999 <= divergence(pairs, 1.5) <= 0.05


def test_a_choice_of_accounting_in_the_light_of_the_answers_is_not_free():
    """Why a ledger keeps one accounting: each way alone keeps delta, the better of both after a look exceeds it."""
    epsilon, delta, before = 2.0, 0.02, 1.5
    first, whole = approx_to_gdp(before, delta), approx_to_gdp(epsilon, delta)
    more = math.sqrt(whole**2 - first**2)
    edges = [-math.inf, *np.linspace(-6.0, 6.0 + first, 4001).tolist(), math.inf]
    law = [
        (NORMAL.cdf(b - first) - NORMAL.cdf(a - first), NORMAL.cdf(b) - NORMAL.cdf(a))
        for a, b in pairwise(edges)
    ]
    bit = response(epsilon - before)[1]
    sums = {"plain": 0.0, "gdp": 0.0, "either": 0.0}
    for p, q in law:
        plain = sum(max(0.0, p * a - math.exp(epsilon) * q * b) for a, b in bit)
        level = epsilon - math.log(p / q) if p > 0 and q > 0 else (-math.inf if p > 0 else math.inf)
        gauss = 0.0
        if math.isfinite(level):
            shift = level / more
            gauss = p * NORMAL.cdf(more / 2 - shift) - p * math.exp(level) * NORMAL.cdf(-more / 2 - shift)
        sums["plain"] += plain
        sums["gdp"] += gauss
        sums["either"] += max(plain, gauss)
    assert sums["plain"] <= delta
    assert sums["gdp"] <= delta * (1 + 1e-6)
    assert sums["either"] > 1.01 * delta


def test_an_act_in_an_allowance_that_was_never_opened_is_a_loose_one():
    rule = Filter(ApproxDP(1.0, 1e-6), ROW, "pure")
    spending = rule.plus(rule.nothing(), InsideEvent("nowhere", PureEvent(0.4)))
    assert spending.sums["pure"] == Fraction(0.4)
    assert not rule.holds(rule.plus(spending, InsideEvent("nowhere", GaussianEvent(1.0, 1e9))))


def test_opening_a_name_again_is_another_allowance():
    rule = Filter(ApproxDP(1.0, 1e-6), ROW, "pure")
    spending = rule.nothing()
    for _ in range(2):
        spending = rule.plus(spending, AllowanceEvent("same", 0.4, 4e-7, "gdp"))
        spending = rule.plus(spending, InsideEvent("same", PureEvent(0.4)))
    assert rule.holds(spending)
    assert not rule.holds(rule.plus(spending, AllowanceEvent("same", 0.4, 1e-8, "gdp")))


def test_a_pure_allowance_takes_no_delta():
    rule = Filter(PureDP(1.0), ROW)
    spending = rule.plus(rule.nothing(), AllowanceEvent("pure", 0.6, 0.0, "pure"))
    assert rule.holds(rule.plus(spending, InsideEvent("pure", PureEvent(0.6))))
    assert not rule.holds(rule.plus(spending, InsideEvent("pure", PureEvent(0.61))))
    assert not rule.holds(rule.plus(spending, PureEvent(0.41)))


def test_an_allowance_in_a_ledger_of_another_accounting_costs_as_its_two_numbers():
    rule = Filter(ApproxDP(2.0, 1e-6), ROW, approximate_delta=1e-7)
    event, same = AllowanceEvent("a", 0.5, 1e-7, "gdp"), ApproxEvent(0.5, 1e-7)
    assert rule.plus(rule.nothing(), event).sums == rule.plus(rule.nothing(), same).sums
    assert not rule.holds(rule.plus(rule.nothing(), AllowanceEvent("a", 0.5, 2e-7, "gdp")))


@pytest.mark.parametrize(
    ("epsilon", "delta", "accounting", "reserve"),
    [(0.0, 1e-9, "gdp", 0.0), (1.0, 0.0, "gdp", 0.0), (1.0, 1e-9, "renyi", 0.0), (1.0, 1e-9, "gdp", 1e-9)],
)
def test_allowances_that_promise_nothing_are_refused(epsilon, delta, accounting, reserve):
    with pytest.raises(BudgetError):
        AllowanceEvent("a", epsilon, delta, accounting, reserve)


def test_plain_addition_sets_all_of_delta_aside():
    assert Filter(ApproxDP(1.0, 1e-6), ROW, "pure").approximate_delta == 1e-6
    assert filter_of(AllowanceEvent("a", 1.0, 1e-9, "pure", 1e-9)).main is PURE


def test_a_ledger_by_plain_addition_opens_again_and_verifies(tmp_path):
    place = tmp_path / "t.ledger"
    terms = {"budget": ApproxDP(2.0, 1e-9), "unit": ROW, "table": "t", "accounting": "pure"}
    with Ledger.create(place, **terms) as ledger:
        ledger.charge(AllowanceEvent("model", 1.5, 1e-9, "gdp"), purpose="allowance")
        ledger.charge(InsideEvent("model", GaussianEvent(1.0, 10.0)), purpose="measure")
        ledger.charge(PureEvent(0.3), purpose="test")
    with Ledger.open_or_create(place, **terms) as ledger:
        ledger.verify()
        assert ledger.spent == pytest.approx(1.8)
        assert ledger.guarantee().used().epsilon == pytest.approx(1.8)
        assert tightest(ledger.entries(), 1e-9).epsilon == pytest.approx(1.8)
        with pytest.raises(BudgetError, match=r"costs mu\^2=1"):
            ledger.charge(InsideEvent("model", GaussianEvent(1.0, 1.0)), purpose="measure")
        with pytest.raises(BudgetError, match="allowance"):
            ledger.charge(GaussianEvent(1.0, 1.0), purpose="measure")
        with pytest.raises(BudgetError, match="never opened"):
            ledger.charge(InsideEvent("other", PureEvent(0.1)), purpose="measure")
