"""Keys of one unit alone stay unseen but for the stated probability, whatever the unit does, and the ledger pays for it."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import BudgetError, BudgetExceeded
from understudy.privacy import ApproxDP, DiscreteGaussian, Gaussian, Laplace, Ledger, PureDP, Unit
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE, ZCDP_ACCOUNTING, delta_of
from understudy.privacy.events import ApproxEvent, Composed, GaussianEvent, LaplaceEvent, Thresholded
from understudy.privacy.noise.thresholds import seen_alone, threshold_for, upper_tail

UNITS = [
    Unit.add_remove(),
    Unit.replace_one(),
    Unit.add_remove_person("id", max_rows=4),
    Unit.replace_person("id", max_rows=7),
]


def _partitions(rows: int) -> list[tuple[int, ...]]:
    """Every way in which at most ``rows`` rows are divided among keys."""
    found = [()]
    for total in range(1, rows + 1):
        found += [
            parts
            for size in range(1, total + 1)
            for parts in itertools.combinations_with_replacement(range(1, total + 1), size)
            if sum(parts) == total
        ]
    return found


@pytest.mark.parametrize("sigma", [0.5, 3.0, 40.0])
def test_the_gaussian_tail_is_that_of_the_rounded_normal(sigma: float) -> None:
    for least in (-5, 0, 1, 4, 30):
        exact = 0.5 * math.erfc((least - 0.5) / (sigma * math.sqrt(2)))
        found = upper_tail(Gaussian(sigma), least)
        assert found >= exact * (1 - 1e-12)
        assert found <= exact * (1 + 1e-9) + 2e-300


@pytest.mark.parametrize("scale", [0.5, 3.0, 40.0])
def test_the_laplace_tail_is_the_sum_of_its_probabilities(scale: float) -> None:
    q = math.exp(-1 / scale)
    for least in (-5, 0, 1, 4, 30):
        exact = math.fsum((1 - q) / (1 + q) * q ** abs(k) for k in range(least, least + int(80 * scale) + 80))
        assert upper_tail(Laplace(scale), least) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.describe())
@pytest.mark.parametrize("noise", [Gaussian(2.0), Gaussian(25.0), Laplace(1.5), Laplace(20.0)], ids=str)
def test_no_way_to_divide_rows_among_keys_is_seen_more_often(unit: Unit, noise: Gaussian | Laplace) -> None:
    """Exact: the union of all own keys, for every division of a unit's rows, stays within delta at the threshold."""
    for delta in (0.1, 1e-3, 1e-9):
        least = threshold_for(noise, unit, delta)
        for parts in _partitions(unit.max_rows):
            missed = Fraction(1)
            for count in parts:
                missed *= 1 - Fraction(min(1.0, upper_tail(noise, least - count)))
            assert 1 - missed <= Fraction(delta) * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.describe())
def test_the_threshold_is_the_smallest_one(unit: Unit) -> None:
    """One less, and the bound is beyond delta: the threshold wastes nothing but the union bound."""
    for noise in (Gaussian(12.0), Laplace(12.0)):
        least = threshold_for(noise, unit, 1e-6)
        assert seen_alone(noise, least, unit) <= 1e-6 < seen_alone(noise, least - 1, unit)


def test_many_rows_are_bounded_in_ranges_from_above() -> None:
    rows = 500
    unit, noise = Unit.add_remove_person("id", max_rows=rows), Gaussian(3_000.0)
    least = threshold_for(noise, unit, 1e-8)
    worst = max(j * upper_tail(noise, least - (rows - j + 1)) for j in range(1, rows + 1))
    assert worst <= seen_alone(noise, least, unit) <= 1e-8


@settings(max_examples=25, deadline=None)
@given(
    scale=st.floats(min_value=2.0**-10, max_value=1e9),
    delta=st.floats(min_value=1e-200, max_value=0.49),
    rows=st.integers(1, 40),
    laplace=st.booleans(),
)
def test_thresholds_hold_for_hostile_parameters(scale: float, delta: float, rows: int, laplace: bool) -> None:
    noise = Laplace(scale) if laplace else Gaussian(scale)
    unit = Unit.add_remove_person("id", max_rows=rows)
    least = threshold_for(noise, unit, delta)
    assert least > rows
    assert seen_alone(noise, least, unit) <= delta


def test_noise_whose_tail_is_not_computed_is_refused() -> None:
    with pytest.raises(BudgetError, match="Gaussian or Laplace"):
        threshold_for(DiscreteGaussian(3.0), Unit.add_remove(), 1e-6)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- what it costs


def test_it_is_priced_as_its_noise_and_its_delta() -> None:
    inner = GaussianEvent(2.0, 10.0)
    event = Thresholded(1e-9, 60, (inner,))
    for accounting in (GDP_ACCOUNTING, ZCDP_ACCOUNTING):
        assert accounting.exact_cost(event, reserve=True) == accounting.exact_cost(inner)
        assert accounting.exact_cost(event) is None, "without a reserve it has no cost"
    assert PURE.exact_cost(event, reserve=True) is None
    assert PURE.exact_cost(Thresholded(1e-9, 60, (LaplaceEvent(1.0, 4.0),)), reserve=True) == Fraction(1, 4)
    assert delta_of(event) == Fraction(1e-9)
    assert delta_of(Composed((event, event))) >= 2 * Fraction(1e-9)


def test_a_ledger_takes_it_from_its_reserve_and_refuses_more() -> None:
    unit = Unit.add_remove()
    event = Thresholded(4e-8, 60, (GaussianEvent(1.0, 100.0),))
    with Ledger.in_memory(budget=ApproxDP(1.0, 1e-6), unit=unit, approximate_delta=1e-7) as ledger:
        for _ in range(2):
            ledger.charge(event, purpose="keys")
        assert ledger.spending.delta == pytest.approx(8e-8)
        with pytest.raises(BudgetExceeded):
            ledger.charge(event, purpose="keys")
    for budget in (PureDP(1.0), ApproxDP(1.0, 1e-6)):
        with Ledger.in_memory(budget=budget, unit=unit) as ledger, pytest.raises(BudgetExceeded):
            ledger.charge(event, purpose="keys")


def test_it_adds_up_beside_other_acts_as_an_event_with_a_delta_does() -> None:
    noise = GaussianEvent(1.0, 50.0)
    as_one = Composed((Thresholded(1e-8, 60, (noise,)), noise))
    apart = Composed((ApproxEvent(0.0, 1e-8), noise, noise))
    assert GDP_ACCOUNTING.exact_cost(as_one, reserve=True) == GDP_ACCOUNTING.exact_cost(apart, reserve=True)
    assert delta_of(as_one) == delta_of(apart)


@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-9, math.nan])
def test_a_delta_is_a_probability(bad: float) -> None:
    with pytest.raises(BudgetError):
        Thresholded(bad, 60, (GaussianEvent(1.0, 1.0),))


def test_it_holds_noise_and_nothing_else() -> None:
    with pytest.raises(BudgetError, match="noise"):
        Thresholded(1e-9, 60, (ApproxEvent(1.0, 1e-9),))


# ---------------------------------------------------------------------- the law of the whole act, on one key


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("scale", [0.7, 4.0])
def test_the_law_of_one_key_keeps_epsilon_and_delta(rows: int, scale: float) -> None:
    """Exact, both ways, for a key of one unit alone, a shared key, and no key: what is beyond exp(epsilon) is at most delta.

    A threshold that is two lower refutes the delta (the second half), so the check is sharp.
    """
    unit, noise = Unit.add_remove_person("id", max_rows=rows), Laplace(scale)
    epsilon, delta = rows / scale, 0.01
    least = threshold_for(noise, unit, delta)

    def law(count: int, threshold: int) -> dict[int | None, float]:
        if not count:
            return {None: 1.0}
        q = math.exp(-1 / scale)
        span = range(threshold, threshold + int(60 * scale) + 60)
        out: dict[int | None, float] = {k: (1 - q) / (1 + q) * q ** abs(k - count) for k in span}
        out[None] = 1 - upper_tail(noise, threshold - count)
        return out

    def beyond(one: dict[int | None, float], other: dict[int | None, float]) -> float:
        return math.fsum(max(0.0, p - math.exp(epsilon) * other.get(k, 0.0)) for k, p in one.items())

    worst = 0.0
    for shared in (0, 1, 2, 10):
        one, other = law(shared + rows, least), law(shared, least)
        worst = max(worst, beyond(one, other), beyond(other, one))
    assert worst <= delta * (1 + 1e-9)
    wrong = least - max(2, int(3 * scale))
    assert beyond(law(rows, wrong), law(0, wrong)) > delta
