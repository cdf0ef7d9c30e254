"""Costs of events: the formulas, their validity on exact pairs of distributions, and their rounding."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy import GDP, ZCDP, ApproxDP, PureDP, Unit, accounting_for
from understudy.privacy.accounting.accounting import (
    ACCOUNTINGS,
    GDP_ACCOUNTING,
    PURE,
    ZCDP_ACCOUNTING,
    delta_of,
)
from understudy.privacy.events import (
    ApproxEvent,
    Composed,
    GaussianEvent,
    LaplaceEvent,
    Parallel,
    PureEvent,
    SelectionEvent,
    ZcdpEvent,
)

ALL = [PURE, ZCDP_ACCOUNTING, GDP_ACCOUNTING]
NORMAL = NormalDist()


def mu_of_pair(p: np.ndarray, q: np.ndarray) -> float:
    """Smallest mu for which a pair of discrete distributions is mu-GDP (vertices of its trade-off curve)."""
    order = np.argsort(-p / q)
    upper, lower = np.cumsum(p[order])[:-1], np.cumsum(q[order])[:-1]
    inside = (upper < 1 - 1e-12) & (lower > 1e-300)
    values = [
        NORMAL.inv_cdf(a) - NORMAL.inv_cdf(b) for a, b in zip(upper[inside], lower[inside], strict=True)
    ]
    return max(values, default=0.0)


def rho_of_pair(p: np.ndarray, q: np.ndarray) -> float:
    """Largest Rényi divergence over its order, on a grid of orders; good to about 1e-7."""
    orders = 1 + np.geomspace(1e-3, 200, 60)
    ratio = np.log(p) - np.log(q)
    top = ratio.max()

    def divergence(a: float) -> float:
        return (math.log(float(np.sum(q * np.exp(a * (ratio - top))))) + a * top) / (a - 1)

    return max(divergence(a) / a for a in orders)


def test_the_table_of_costs():
    gaussian, laplace = GaussianEvent(3.0, 2.0), LaplaceEvent(1.0, 2.0)
    assert [a.cost(gaussian) for a in ALL] == [math.inf, 1.125, 2.25]
    assert PURE.cost(laplace) == 0.5
    assert ZCDP_ACCOUNTING.cost(laplace) == pytest.approx(0.5 * math.tanh(0.25), rel=1e-14)
    pure = 2 * NORMAL.inv_cdf(1 / (1 + math.exp(-0.5)))
    assert GDP_ACCOUNTING.cost(laplace) == pytest.approx(pure**2, rel=1e-12)
    assert [a.cost(PureEvent(0.5)) for a in ALL] == [a.cost(laplace) for a in ALL]
    assert [a.cost(SelectionEvent(1.0)) for a in ALL[:2]] == [1.0, 0.125]
    assert GDP_ACCOUNTING.cost(SelectionEvent(1.0)) == pytest.approx(pure**2, rel=1e-12)
    assert [a.cost(ZcdpEvent(0.3)) for a in ALL] == [math.inf, 0.3, math.inf]
    assert [a.cost(ApproxEvent(0.3, 1e-9)) for a in ALL] == [math.inf] * 3


def test_small_selections_cost_less_than_two_thirds_of_epsilon_in_mu():
    assert math.sqrt(GDP_ACCOUNTING.cost(SelectionEvent(1e-3))) == pytest.approx(0.62666e-3, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 8.0, 20.0])
def test_randomised_response_attains_the_cost_of_a_pure_event(epsilon):
    p = np.array([1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))])
    for accounting, truth in ((ZCDP_ACCOUNTING, rho_of_pair), (GDP_ACCOUNTING, mu_of_pair)):
        cost = accounting.cost(PureEvent(epsilon))
        exact = truth(p, p[::-1]) ** (2 if accounting is GDP_ACCOUNTING else 1)
        assert exact <= cost * (1 + 1e-6)
        assert exact >= cost * 0.99  # a cost that is one per cent too low would be caught


def test_discrete_laplace_noise_is_covered_although_continuous_noise_would_be_cheaper():
    scale = 2.0
    support = np.arange(-200, 201)
    p, q = np.exp(-np.abs(support) / scale), np.exp(-np.abs(support - 1) / scale)
    p, q = p / p.sum(), q / q.sum()
    exact = rho_of_pair(p, q)
    epsilon = 1 / scale
    continuous = epsilon + math.exp(-epsilon) - 1
    assert continuous * 1.05 < exact <= ZCDP_ACCOUNTING.cost(LaplaceEvent(1.0, scale)) * (1 + 1e-9)
    assert mu_of_pair(p, q) ** 2 <= GDP_ACCOUNTING.cost(LaplaceEvent(1.0, scale)) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0, 12.0, 30.0])
def test_no_bounded_range_pair_of_two_outcomes_costs_more_than_a_selection(epsilon):
    """A dense grid over where the range lies; its middle attains the GDP cost."""
    exact = 0.0
    for t in np.linspace(0, epsilon, 2001)[1:-1]:
        p = math.expm1(t - epsilon) / math.expm1(-epsilon)
        q = math.exp(-t) * p
        tail = math.expm1(t) / math.expm1(epsilon)  # 1 - p, of which nothing is lost near zero
        exact = max(exact, -NORMAL.inv_cdf(tail) - NORMAL.inv_cdf(q))
    cost = math.sqrt(GDP_ACCOUNTING.cost(SelectionEvent(epsilon)))
    assert exact <= cost * (1 + 1e-9)
    assert exact >= cost * (1 - 1e-6)


def test_the_exponential_mechanism_never_costs_more_than_its_event(seed):
    generator = np.random.default_rng(seed)
    worst = dict.fromkeys(("pure", "zcdp", "gdp"), 0.0)
    for _ in range(1500):
        epsilon = float(generator.choice([0.2, 1.0, 3.0]))
        candidates = int(generator.integers(2, 8))
        scores = generator.normal(size=candidates) * generator.choice([0.1, 1, 10])
        extreme = generator.random() < 0.5
        shift = generator.choice([-1.0, 1.0], candidates) if extreme else generator.uniform(-1, 1, candidates)

        def chances(values: np.ndarray, epsilon: float = epsilon) -> np.ndarray:
            weights = np.exp(epsilon * (values - values.max()) / 2)
            return weights / weights.sum()

        p, q = chances(scores), chances(scores + shift)
        event = SelectionEvent(epsilon)
        exact = {
            "pure": float(np.abs(np.log(p / q)).max()),
            "zcdp": rho_of_pair(p, q),
            "gdp": max(mu_of_pair(p, q), mu_of_pair(q, p)) ** 2,
        }
        for name, value in exact.items():
            worst[name] = max(worst[name], value / ACCOUNTINGS[name].cost(event))
    assert max(worst.values()) <= 1 + 1e-6
    # half the price in any accounting would be noticed
    assert min(worst.values()) > 0.5


@pytest.mark.parametrize("accounting", ALL, ids=lambda a: a.name)
def test_composed_events_cost_their_sum_and_parallel_ones_their_dearest_parts(accounting):
    events = [PureEvent(0.1), PureEvent(0.3), PureEvent(0.2), PureEvent(0.3)]
    single = [accounting.exact_cost(event) for event in events]
    assert accounting.exact_cost(Composed(events)) == sum(single)
    assert accounting.exact_cost(Parallel(events)) == max(single)
    assert accounting.exact_cost(Parallel(events), parts=2) == 2 * max(single)
    assert accounting.exact_cost(Parallel(events), parts=3) == sum(sorted(single)[1:])
    assert accounting.exact_cost(Parallel(events), parts=99) == sum(single)
    nested = Composed([Parallel(events), Composed(events[:2])])
    assert accounting.exact_cost(nested, parts=2) == 2 * max(single) + single[0] + single[1]


def test_one_event_without_a_price_leaves_the_whole_without_one():
    assert PURE.cost(Composed([PureEvent(0.1), GaussianEvent(1, 1)])) == math.inf
    assert PURE.cost(Parallel([PureEvent(0.1), GaussianEvent(1, 1)])) == math.inf


def test_replacing_a_row_may_touch_two_parts():
    """Counts of two parts, each with discrete Laplace noise: a row that moves costs both, not the maximum."""
    scale = 1.0
    event = Parallel([LaplaceEvent(1.0, scale), LaplaceEvent(1.0, scale)])
    assert PURE.cost(event, parts=Unit.add_remove().parts_touched) == 1.0
    moved = Unit.replace_one().parts_touched
    # noisy counts (0, 0) from true counts (0, 1) against (1, 0)
    weight = math.exp(-1 / scale)
    ratio = abs(math.log((1 * weight) / (weight * 1)))
    worst = abs(math.log(math.exp(-(0 + 0) / scale) / math.exp(-(1 + 1) / scale)))
    assert ratio <= worst == 2.0 == PURE.cost(event, parts=moved)


def test_deltas_combine_like_costs():
    events = [ApproxEvent(0.1, 1e-9), ApproxEvent(0.1, 3e-9), PureEvent(1.0)]
    assert delta_of(Composed(events)) == Fraction(1e-9) + Fraction(3e-9)
    assert delta_of(Parallel(events)) == Fraction(3e-9)
    assert delta_of(Parallel(events), parts=2) == Fraction(1e-9) + Fraction(3e-9)
    assert delta_of(PureEvent(1.0)) == 0


MAGNITUDES = st.floats(min_value=-250, max_value=250).map(lambda exponent: 10.0**exponent)
COSTS = st.floats(min_value=-60, max_value=60).map(lambda exponent: 10.0**exponent)
ORDINARY = st.floats(min_value=1e-9, max_value=1e6)


@pytest.mark.parametrize("accounting", ALL, ids=lambda a: a.name)
@settings(max_examples=150, deadline=None)
@given(cost=st.one_of(COSTS, ORDINARY), sensitivity=st.one_of(COSTS, ORDINARY, st.just(1.0)))
def test_what_an_inverse_map_returns_never_costs_more_than_what_was_given(accounting, cost, sensitivity):
    events = [
        lambda: LaplaceEvent(sensitivity, accounting.laplace_scale(cost, sensitivity)),
        lambda: SelectionEvent(accounting.selection_epsilon(cost)),
        lambda: PureEvent(accounting.pure_epsilon(cost)),
    ]
    if accounting is not PURE:
        events.append(lambda: GaussianEvent(sensitivity, accounting.gaussian_sigma(cost, sensitivity)))
    for make in events:
        price = accounting.cost(make())
        assert price <= cost
        assert price >= cost * (1 - 1e-10)  # and next to nothing is wasted


@settings(max_examples=100, deadline=None)
@given(MAGNITUDES)
def test_inverse_maps_hold_at_absurd_magnitudes_or_say_that_they_cannot(cost):
    for accounting in ALL:
        for make in (
            lambda a: SelectionEvent(a.selection_epsilon(cost)),
            lambda a: LaplaceEvent(1.0, a.laplace_scale(cost, 1.0)),
            lambda a: GaussianEvent(1.0, a.gaussian_sigma(cost, 1.0)),
        ):
            try:
                event = make(accounting)
            except (BudgetError, NoSuchGuarantee):
                continue
            assert accounting.cost(event) <= cost


@pytest.mark.parametrize("accounting", ALL, ids=lambda a: a.name)
@pytest.mark.parametrize("n", [3, 7, 10, 49, 1000])
def test_a_budget_divided_with_plain_floats_can_be_spent_to_the_last_share(accounting, n):
    total = Fraction(0.7)
    epsilon = accounting.selection_epsilon(0.7 / n)
    assert n * accounting.exact_cost(SelectionEvent(epsilon)) <= total
    scale = accounting.laplace_scale(0.7 / n, 1.0)
    assert n * accounting.exact_cost(LaplaceEvent(1.0, scale)) <= total


@given(ORDINARY, st.lists(ORDINARY, min_size=1, max_size=40))
def test_split_parts_add_up_to_at_most_the_whole_exactly(cost, weights):
    parts = PURE.split(cost, weights)
    assert sum(map(Fraction, parts)) <= Fraction(cost)
    assert sum(parts) == pytest.approx(cost, rel=1e-12)


@pytest.mark.parametrize("weights", [[], [0.0], [-1.0, 2.0], [math.nan]])
def test_weights_that_make_no_sense_are_refused(weights):
    with pytest.raises(BudgetError):
        PURE.split(1.0, weights)


def test_nice_costs_give_nice_scales():
    assert PURE.laplace_scale(0.1, 1) == 10.0
    assert ZCDP_ACCOUNTING.gaussian_sigma(0.125, 1) == 2.0
    assert GDP_ACCOUNTING.gaussian_sigma(0.25, 1) == 2.0


def test_ten_tenths_are_one():
    assert PURE.exact_cost(Composed([LaplaceEvent(1.0, 10.0)] * 10)) == 1


def test_long_sums_stay_exact_enough_and_quick():
    events = [GaussianEvent(1.0, 100 + i / 7) for i in range(3000)]
    exact = GDP_ACCOUNTING.exact_cost(Composed(events))
    assert exact.denominator.bit_length() < 4096
    assert float(exact) == pytest.approx(sum((1 / e.sigma) ** 2 for e in events), rel=1e-12)
    assert exact >= sum((Fraction(1) / Fraction(e.sigma) ** 2 for e in events[:40]), Fraction(0))


@pytest.mark.parametrize(
    ("budget", "name", "value"),
    [(PureDP(0.3), "pure", 0.3), (ZCDP(0.3), "zcdp", 0.3), (GDP(0.5), "gdp", 0.25)],
)
def test_each_budget_has_its_accounting_and_total(budget, name, value):
    accounting = accounting_for(budget)
    assert accounting.name == name
    assert accounting.total(budget) == value
    for other in ALL:
        if other is not accounting:
            with pytest.raises(NoSuchGuarantee, match="cannot promise"):
                other.total(budget)
            with pytest.raises(NoSuchGuarantee):
                accounting_for(budget, name=other.name)


def test_approximate_budgets_choose_between_gdp_zcdp_and_plain_addition():
    budget = ApproxDP(1.0, 1e-9)
    assert accounting_for(budget) is GDP_ACCOUNTING
    assert accounting_for(budget, name="zcdp") is ZCDP_ACCOUNTING
    assert accounting_for(budget, name="pure") is PURE
    with pytest.raises(NoSuchGuarantee):
        accounting_for(PureDP(1.0), name="gdp")
    with pytest.raises(BudgetError, match="Known: pure, zcdp, gdp"):
        accounting_for(budget, name="renyi")
    with pytest.raises(BudgetError):
        accounting_for(1.0)
    # Gaussian noise needs 4 to 8 percent less noise by the exact curve
    saving = ZCDP_ACCOUNTING.gaussian_sigma(ZCDP_ACCOUNTING.total(budget), 1) / GDP_ACCOUNTING.gaussian_sigma(
        GDP_ACCOUNTING.total(budget), 1
    )
    assert 1.03 < saving < 1.08


def test_a_reserve_lowers_the_total_and_must_leave_something():
    budget = ApproxDP(1.0, 1e-6)
    assert GDP_ACCOUNTING.total(budget, approximate_delta=5e-7) < GDP_ACCOUNTING.total(budget)
    for reserve in (1e-6, 1e-3, -1e-9, math.nan):
        with pytest.raises(BudgetError):
            GDP_ACCOUNTING.total(budget, approximate_delta=reserve)
    with pytest.raises(NoSuchGuarantee):
        PURE.total(PureDP(1.0), approximate_delta=1e-9)


def test_gaussian_noise_is_never_pure():
    with pytest.raises(NoSuchGuarantee, match="Laplace"):
        PURE.gaussian_sigma(1.0, 1.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_shares_that_make_no_sense_are_refused(bad):
    for accounting in ALL:
        with pytest.raises(BudgetError):
            accounting.selection_epsilon(bad)
        with pytest.raises(BudgetError):
            accounting.laplace_scale(1.0, bad)


def test_things_that_are_no_events_are_refused():
    with pytest.raises(BudgetError, match="not a privacy event"):
        PURE.cost("gaussian")


def test_accountings_are_single_objects_even_after_pickling():
    for accounting in ALL:
        assert pickle.loads(pickle.dumps(accounting)) is accounting
        assert accounting.symbol in repr(accounting)
        assert accounting.describe(0.125) == f"{accounting.symbol}=0.125"
