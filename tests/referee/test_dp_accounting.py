"""Every kind of event, and compositions of them, against dp-accounting: it may never find more than we charge."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution as pld

from ledger_referee import GRID, Acts, acts_of, recompute, tolerance
from understudy.privacy import ApproxDP, Event, Ledger, Unit, event_from_dict
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE, ZCDP_ACCOUNTING
from understudy.privacy.accounting.conversions import gdp_to_approx, zcdp_to_approx
from understudy.privacy.accounting.subsampled import approximated
from understudy.privacy.events import (
    _GROUPS,
    _LEAVES,
    AllowanceEvent,
    ApproxEvent,
    Composed,
    GaussianEvent,
    InsideEvent,
    LaplaceEvent,
    Parallel,
    PureEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
    ZcdpEvent,
)
from understudy.privacy.guarantee import tightest

DELTAS = (1e-3, 1e-6, 1e-9)
KINDS: dict[str, list[Event]] = {
    "gaussian": [GaussianEvent(1.0, 0.7), GaussianEvent(1.0, 3.0), GaussianEvent(2.0, 40.0)],
    "laplace": [LaplaceEvent(1.0, 0.5), LaplaceEvent(2.0, 10.0)],
    "selection": [SelectionEvent(0.1), SelectionEvent(1.0), SelectionEvent(4.0)],
    "pure": [PureEvent(0.05), PureEvent(1.0), PureEvent(3.0)],
    "zcdp": [ZcdpEvent(0.005), ZcdpEvent(0.2)],
    "approx": [ApproxEvent(0.5, 1e-10), ApproxEvent(2.0, 5e-10)],
    "subsampled-gaussian": [
        SubsampledGaussianEvent(rate=0.05, noise_multiplier=1.5, steps=50, rows=1, sides=1),
        SubsampledGaussianEvent(rate=0.2, noise_multiplier=6.0, steps=10, rows=2, sides=2),
    ],
    "composed": [Composed((GaussianEvent(1.0, 5.0), PureEvent(0.1), SelectionEvent(0.2)))],
    "parallel": [Parallel((GaussianEvent(1.0, 5.0), GaussianEvent(1.0, 2.0), GaussianEvent(1.0, 9.0)))],
    "approximated": [
        approximated(
            (SubsampledGaussianEvent(rate=0.1, noise_multiplier=2.0, steps=20, rows=1, sides=1),), delta=5e-10
        )
    ],
    "allowance": [AllowanceEvent("a", 0.7, 5e-10, "gdp"), AllowanceEvent("b", 0.7, 0.0, "pure")],
    "inside": [InsideEvent("nowhere", PureEvent(0.3))],
}


def test_every_kind_of_event_is_refereed() -> None:
    assert set(KINDS) == {*_LEAVES, *_GROUPS, "approximated", "inside"}
    for events in KINDS.values():
        for event in events:
            assert event_from_dict(event.to_dict()) == event


def worst(acts: Acts, deltas: tuple[float, ...]) -> list[float]:
    """The largest epsilon over several of the bits that may stand for a choice."""
    shares = (0.5, 0.3, 0.05) if acts.bits else (0.5,)
    return [
        max(found) for found in zip(*(acts.curve(deltas, selection=share) for share in shares), strict=True)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_event_is_charged_too_little(kind: str) -> None:
    for event in KINDS[kind]:
        act = event.event if isinstance(event, InsideEvent) else event
        for parts in (1, 2):
            unit = Unit.add_remove() if parts == 1 else Unit.replace_one()
            assert unit.parts_touched == parts
            acts = acts_of([act], parts=parts)
            found = worst(acts, DELTAS)
            for delta, epsilon in zip(DELTAS, found, strict=True):
                ours = tightest([event], delta, unit=unit).epsilon
                assert epsilon <= ours * (1 + 1e-6) + tolerance(acts)


@pytest.mark.parametrize("scale", [0.5, 1.0, 5.0, 20.0])
def test_laplace_noise_itself_is_no_dearer_than_its_class(scale: float) -> None:
    """The very act, continuous and discrete, by dp-accounting's own distributions."""
    own = [
        pld.from_laplace_mechanism(scale, value_discretization_interval=GRID),
        pld.from_discrete_laplace_mechanism(1 / scale, 1, value_discretization_interval=GRID),
    ]
    for loss in own:
        for count in (1, 5):
            whole = loss.self_compose(count)
            for delta in DELTAS:
                ours = tightest([LaplaceEvent(1.0, scale)] * count, delta).epsilon
                assert whole.get_epsilon_for_delta(delta) <= ours * (1 + 1e-6) + GRID * (count + 1)


def test_concentrated_events_against_the_renyi_accountant() -> None:
    """Optimal over more orders than theirs, ours may be smaller, but not below the Gaussian that has the same rho."""
    for rho in (0.001, 0.05, 0.5):
        for delta in DELTAS:
            accountant = rdp.RdpAccountant(orders=[1 + x for x in np.geomspace(1e-3, 1e4, 4000)])
            accountant.compose(dp_accounting.ZCDpEvent(rho))
            ours = zcdp_to_approx(rho, delta)
            assert ours == pytest.approx(accountant.get_epsilon(delta), rel=1e-3)
            assert gdp_to_approx(math.sqrt(2 * rho), delta) <= ours


def test_gaussian_charges_are_exact() -> None:
    """Not only never too little: the referee finds the same, so that a price that is too low by half a per cent is caught."""
    for sigma in (0.8, 2.0, 10.0):
        for delta in DELTAS:
            acts = acts_of([GaussianEvent(1.0, sigma)])
            found = acts.epsilon(delta)
            assert found == pytest.approx(tightest([GaussianEvent(1.0, sigma)], delta).epsilon, rel=2e-3)
            low = tightest([GaussianEvent(1.0, sigma * 1.005)], delta).epsilon
            assert found > low + tolerance(acts) or low < 0.05


def test_a_pure_price_that_is_too_low_is_caught() -> None:
    for epsilon in (0.2, 1.0):
        acts = acts_of([PureEvent(epsilon)] * 3)
        assert acts.epsilon(1e-9) > 3 * epsilon * 0.99 + tolerance(acts)


@pytest.mark.parametrize("draw", range(25))
def test_random_compositions_are_never_charged_too_little(draw: int) -> None:
    generator = np.random.default_rng(draw)
    kinds = [
        "gaussian",
        "laplace",
        "selection",
        "pure",
        "zcdp",
        "approx",
        "composed",
        "parallel",
        "allowance",
    ]
    events: list[Event] = []
    for _ in range(int(generator.integers(2, 9))):
        choices = KINDS[kinds[int(generator.integers(len(kinds)))]]
        events += [choices[int(generator.integers(len(choices)))]] * int(generator.integers(1, 4))
    delta = float(10.0 ** -generator.integers(3, 8))
    acts = acts_of(events)
    ours = tightest(events, delta)
    (found,) = worst(acts, (delta,))
    assert found <= ours.epsilon * (1 + 1e-6) + tolerance(acts)
    for accounting in (PURE, GDP_ACCOUNTING, ZCDP_ACCOUNTING):
        priced = ours.alternatives.get(accounting.name)
        assert priced is None or found <= priced * (1 + 1e-6) + tolerance(acts)


def test_a_ledger_with_allowances_is_recomputed_inside_and_outside() -> None:
    ledger = Ledger.in_memory(budget=ApproxDP(2.0, 1e-6), unit=Unit.add_remove(), accounting="pure")
    ledger.charge(AllowanceEvent("model", 1.5, 1e-6, "gdp"), purpose="allowance")
    sigma = GDP_ACCOUNTING.gaussian_sigma(GDP_ACCOUNTING.total(ApproxDP(1.5, 1e-6)) / 2, 1.0)
    for _ in range(2):
        ledger.charge(InsideEvent("model", GaussianEvent(1.0, sigma)), purpose="measure")
    ledger.charge(PureEvent(0.5), purpose="test")
    assert recompute(ledger) == 4
    # the acts themselves, all together, keep the promise too: that is what the allowance is for
    together = Acts()
    for event in (GaussianEvent(1.0, sigma), GaussianEvent(1.0, sigma), PureEvent(0.5)):
        together.add(event, 1)
    assert together.epsilon(1e-6) <= 2.0 + tolerance(together)


def test_the_referee_refuses_a_ledger_whose_prices_are_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it catches: Gaussian noise priced one per cent below what it costs."""
    ledger = Ledger.in_memory(budget=ApproxDP(1.0, 1e-6), unit=Unit.add_remove())
    sigma = GDP_ACCOUNTING.gaussian_sigma(ledger.total, 1.0)
    ledger.charge(GaussianEvent(1.0, sigma), purpose="measure")
    recompute(ledger)
    exact = type(GDP_ACCOUNTING)._gaussian
    monkeypatch.setattr(type(GDP_ACCOUNTING), "_gaussian", lambda self, ratio: exact(self, ratio) * 98 / 100)
    monkeypatch.setattr(type(ZCDP_ACCOUNTING), "_gaussian", lambda self, ratio: ratio * 49 / 100)
    with pytest.raises(AssertionError, match="dp-accounting finds"):
        recompute(ledger)
