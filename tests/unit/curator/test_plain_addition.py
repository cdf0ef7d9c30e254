"""Allowances from a ledger that adds up epsilons and deltas: what is not pure is paid for when it is opened."""

from __future__ import annotations

import pytest

from understudy.curator.allowance import Allowance
from understudy.errors import BudgetExceeded, NoSuchGuarantee
from understudy.privacy import (
    GDP,
    GDP_ACCOUNTING,
    PURE,
    ZCDP,
    AllowanceEvent,
    ApproxDP,
    ApproxEvent,
    Budget,
    GaussianEvent,
    InsideEvent,
    LaplaceEvent,
    Ledger,
    PureDP,
    Unit,
)


def plain(epsilon: float = 2.0, delta: float = 1e-6) -> Ledger:
    return Ledger.in_memory(budget=ApproxDP(epsilon, delta), unit=Unit.add_remove(), accounting="pure")


def events(ledger: Ledger) -> list[object]:
    return [entry.event for entry in ledger.entries() if entry.event is not None]


@pytest.mark.parametrize("budget", [ApproxDP(1.5, 1e-6), GDP(0.2), ZCDP(0.02)])
def test_a_part_that_is_not_pure_is_paid_for_as_a_whole_and_spent_to_the_end(budget: Budget) -> None:
    ledger = plain()
    part = Allowance(ledger, scope="work").within(budget, scope="model")
    before = ledger.spent
    assert 0 < before <= 1.5
    sigma = part.accounting.gaussian_sigma(part.remaining / 4, 1.0)
    for _ in range(4):
        part.charge(GaussianEvent(1.0, sigma), purpose="measure")
    assert ledger.spent == before
    with pytest.raises(BudgetExceeded):
        part.charge(GaussianEvent(1.0, sigma), purpose="measure")
    kinds = [type(event) for event in events(ledger)]
    assert kinds == [AllowanceEvent, *[InsideEvent] * 4]
    ledger.verify()


def test_pure_parts_are_charged_as_they_come() -> None:
    ledger = plain()
    whole = Allowance(ledger, scope="work")
    whole.within(PureDP(0.5), scope="rows").charge(LaplaceEvent(1.0, 4.0), purpose="count")
    whole.within(ApproxDP(0.5, 1e-6), scope="noise", accounting=PURE).charge(
        LaplaceEvent(1.0, 4.0), purpose="count"
    )
    assert ledger.spent == 0.5
    assert all(isinstance(event, LaplaceEvent) for event in events(ledger))


def test_smaller_parts_belong_to_the_allowance_they_are_taken_from() -> None:
    ledger = plain()
    part = Allowance(ledger, scope="work").within(ApproxDP(1.5, 1e-6), scope="model")
    inner = part.within(GDP(0.1), scope="step")
    inner.charge(GaussianEvent(1.0, 20.0), purpose="measure")
    assert [type(event) for event in events(ledger)] == [AllowanceEvent, InsideEvent]
    assert part.spent == inner.spent == 0.0025


def test_a_reserve_is_part_of_the_allowance() -> None:
    ledger = plain()
    part = Allowance(ledger, scope="work").within(
        ApproxDP(1.0, 1e-6), scope="model", accounting=PURE, reserve=1e-6
    )
    part.charge(ApproxEvent(1.0, 1e-6), purpose="draw")
    assert ledger.spent == 1.0
    with pytest.raises(BudgetExceeded):
        part.charge(ApproxEvent(0.1, 1e-7), purpose="draw")


def test_what_does_not_fit_is_refused_before_it_is_opened() -> None:
    ledger = plain()
    whole = Allowance(ledger, scope="work")
    with pytest.raises(BudgetExceeded, match="Nothing was spent"):
        whole.within(ApproxDP(2.1, 1e-6), scope="model")
    with pytest.raises(BudgetExceeded, match="Nothing was spent"):
        whole.within(ApproxDP(1.0, 1.1e-6), scope="model")
    whole.within(ApproxDP(1.0, 1e-6), scope="model")
    with pytest.raises(BudgetExceeded, match="no delta left"):
        whole.within(GDP(0.1), scope="more")
    with pytest.raises(NoSuchGuarantee):
        whole.within(PureDP(0.5), scope="pure").within(GDP(0.1), scope="inside")
    assert ledger.spent == 1.0


def test_an_untouched_allowance_is_used_again_by_the_same_work_only() -> None:
    ledger = plain(4.0)
    first = Allowance(ledger, scope="work").within(ApproxDP(1.0, 1e-7), scope="model")
    again = Allowance(ledger, scope="work").within(ApproxDP(1.0, 1e-7), scope="model")
    assert ledger.spent == 1.0
    again.charge(GaussianEvent(1.0, GDP_ACCOUNTING.gaussian_sigma(again.remaining, 1.0)), purpose="measure")
    Allowance(ledger, scope="work").within(ApproxDP(1.0, 1e-7), scope="model")
    Allowance(ledger, scope="other").within(ApproxDP(1.0, 1e-7), scope="model")
    assert ledger.spent == 3.0
    with pytest.raises(BudgetExceeded):  # the two first are one, and it is used up
        first.charge(GaussianEvent(1.0, 100.0), purpose="measure")
    ledger.verify()


def test_two_fits_without_a_scope_do_not_share_an_allowance() -> None:
    ledger = plain(4.0)
    for _ in range(2):
        Allowance(ledger, scope="").within(ApproxDP(1.0, 1e-7), scope="aim")
    assert ledger.spent == 2.0
