"""dp-accounting as a referee: what events cost, computed by somebody else's code from privacy loss distributions.

Every event is replaced by the worst act that it may describe (randomised response for pure ones, one biased bit for a selection, a
revealing act for ``(epsilon, delta)``), or by the very act (Gaussian noise); `dp_accounting.pld` composes their privacy losses
numerically and returns the smallest epsilon at a delta. No valid accounting can promise less, so ours must never be below it.

Losses are put on a grid of width `GRID`, rounded up. An act other than Gaussian noise, which is exact up to a tail of
``e^-50``, is therefore overstated by at most one step, and a composition by as many steps as it has such acts: `tolerance`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.common import DifferentialPrivacyParameters

from understudy.privacy import ApproxDP, Event, Ledger, guarantee_of
from understudy.privacy.accounting.accounting import ZCDP_ACCOUNTING
from understudy.privacy.accounting.filter import Spending
from understudy.privacy.events import (
    AllowanceEvent,
    ApproxEvent,
    Approximated,
    Composed,
    GaussianEvent,
    InsideEvent,
    LaplaceEvent,
    Parallel,
    PureEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
    Thresholded,
    ZcdpEvent,
)
from understudy.privacy.ledger.view import LedgerView

GRID = 2e-4
_LARGEST = 60.0  # losses beyond this are not worth a grid; nothing in the suite promises as little


@dataclass
class Acts:
    """What a list of events amounts to: the square of a Gaussian distance, and other acts with their number."""

    squares: float = 0.0
    pure: Counter[float] = field(default_factory=Counter)
    bits: Counter[float] = field(default_factory=Counter)
    approximate: Counter[tuple[float, float]] = field(default_factory=Counter)
    sampled: Counter[tuple[float, float]] = field(default_factory=Counter)

    @property
    def rounded(self) -> int:
        """Number of acts whose losses are rounded up to the grid."""
        return sum(sum(kind.values()) for kind in (self.pure, self.bits, self.approximate, self.sampled))

    def add(self, event: Event, parts: int) -> None:
        """Count one more event."""
        if isinstance(event, Composed):
            for inner in event.events:
                self.add(inner, parts)
        elif isinstance(event, Parallel):
            for inner in sorted(event.events, key=_size, reverse=True)[:parts]:
                self.add(inner, parts)
        elif isinstance(event, GaussianEvent):
            self.squares += (event.l2_sensitivity / event.sigma) ** 2
        elif isinstance(event, ZcdpEvent):
            self.squares += 2 * event.rho  # the Gaussian is one of the acts with that rho
        elif isinstance(event, LaplaceEvent):
            self.pure[event.l1_sensitivity / event.scale] += 1
        elif isinstance(event, PureEvent):
            self.pure[event.epsilon] += 1
        elif isinstance(event, SelectionEvent):
            self.bits[event.epsilon] += 1
        elif isinstance(event, AllowanceEvent) and not event.delta:
            self.pure[event.epsilon] += 1
        elif isinstance(event, ApproxEvent | Approximated | AllowanceEvent):
            self.approximate[event.epsilon, event.delta] += 1
        elif isinstance(event, Thresholded):
            self.approximate[0.0, event.delta] += 1
            for inner in event.events:
                self.add(inner, parts)
        elif isinstance(event, SubsampledGaussianEvent):
            # several rows, and replaced ones, reveal at least what one row does whose counterpart adds nothing
            self.sampled[event.rate, event.noise_multiplier] += int(event.steps)
        else:
            assert not isinstance(event, InsideEvent), "acts inside an allowance are recomputed by themselves"
            raise TypeError(type(event).__name__)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at a delta."""
        return self.curve([delta])[0]

    def curve(self, deltas: Iterable[float], *, selection: float = 0.5) -> list[float]:
        """Return the smallest epsilon at each of several deltas, by composing privacy losses.

        ``selection`` says which of the worst bits stands for a choice: the log-odds of its two errors add up to
        epsilon, and this is the share of the first.
        """
        losses = []
        if self.squares:
            losses.append(
                pld.from_gaussian_mechanism(1 / math.sqrt(self.squares), value_discretization_interval=GRID)
            )
        losses += [_response(e, e).self_compose(n) for e, n in self.pure.items()]
        losses += [
            _response(e * selection, e * (1 - selection)).self_compose(n) for e, n in self.bits.items()
        ]
        losses += [
            pld.from_privacy_parameters(
                DifferentialPrivacyParameters(e, d), value_discretization_interval=GRID
            ).self_compose(n)
            for (e, d), n in self.approximate.items()
        ]
        losses += [
            pld.from_gaussian_mechanism(
                sigma, sampling_prob=rate, value_discretization_interval=GRID
            ).self_compose(n)
            for (rate, sigma), n in self.sampled.items()
        ]
        if not losses:
            return [0.0 for _ in deltas]
        whole = losses[0]
        for loss in losses[1:]:
            whole = whole.compose(loss)
        return [float(whole.get_epsilon_for_delta(delta)) for delta in deltas]


def _response(first: float, second: float) -> pld.PrivacyLossDistribution:
    """One bit whose two errors have these log-odds; equal ones are randomised response, seen from either side."""
    if first == second:
        flipped = 2 / (1 + math.exp(first))
        return pld.from_randomized_response(flipped, 2, value_discretization_interval=GRID)
    upper = {0: -math.log1p(math.exp(-first)), 1: -math.log1p(math.exp(first))}
    lower = {1: -math.log1p(math.exp(-second)), 0: -math.log1p(math.exp(second))}
    return pld.from_two_probability_mass_functions(
        lower, upper, value_discretization_interval=GRID, symmetric=False
    )


def _size(event: Event) -> float:
    """How dear a part is; any order that finds the dearest will do."""
    cost = ZCDP_ACCOUNTING.exact_cost(event, reserve=True)
    assert cost is not None
    return float(cost)


def acts_of(events: Iterable[Event], *, parts: int = 1) -> Acts:
    """Count events; allowances by their two numbers, and what is inside them not at all."""
    found = Acts()
    for event in events:
        if not isinstance(event, InsideEvent):
            found.add(event, parts)
    return found


def tolerance(acts: Acts) -> float:
    """How far the referee may overstate: a step of the grid for each rounded act, and one for the last interpolation."""
    return GRID * (acts.rounded + 1)


def recompute(ledger: Ledger | LedgerView) -> int:
    """Hold a ledger to the referee and return how many charges were recomputed.

    The referee's epsilon for all charges is at most ours, whichever accounting is the tightest, and within the promise if that has an
    epsilon; and so for the acts inside each allowance, and for those an `Approximated` event lists.
    """
    events = [entry.event for entry in ledger.entries() if entry.event is not None]
    parts, budget = ledger.unit.parts_touched, ledger.budget
    delta = budget.delta if isinstance(budget, ApproxDP) else 1e-6
    _hold(events, delta, parts=parts, promised=budget.epsilon if isinstance(budget, ApproxDP) else math.inf)
    for event in events:
        if isinstance(event, AllowanceEvent):
            inside = [
                item.event
                for item in events
                if isinstance(item, InsideEvent) and item.allowance == event.name
            ]
            _hold(inside, event.delta or 1e-12, parts=parts, promised=event.epsilon)
        if isinstance(event, Approximated):
            _hold(list(event.events), event.delta, parts=parts, promised=event.epsilon, priced=False)
    return len(events)


def _hold(
    events: list[Event], delta: float, *, parts: int, promised: float = math.inf, priced: bool = True
) -> None:
    acts = acts_of(events, parts=parts)
    ours = math.inf
    if priced and events:
        spending = Spending()
        for event in events:
            spending = spending.plus(event, parts=parts)
        ours = guarantee_of(spending, delta).epsilon
    limit = min(ours, promised)
    if acts.squares > _LARGEST or limit > _LARGEST:
        return
    found = acts.epsilon(delta)
    assert found <= limit * (1 + 1e-6) + tolerance(acts), (
        f"dp-accounting finds epsilon={found:.6g} at delta={delta:g} where {limit:.6g} is promised"
    )
