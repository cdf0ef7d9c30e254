"""The rule that says whether one more act still fits, for budgets spent as the answers come in.

A *filter* watches a fully adaptive analyst: each act, and how much it costs, may depend on every earlier
answer. It admits an act when the sum of costs stays within the total, and then the whole interaction keeps
the promise of the budget:

- ``PureDP``: ``sum of epsilon <= epsilon`` (Rogers, Roth, Ullman and Vadhan 2016).
- ``ZCDP``: ``sum of rho <= rho`` (Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023).
- ``GDP``: ``sum of mu^2 <= mu^2`` (Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2023).
- ``ApproxDP(epsilon, delta)``: the GDP filter with the largest ``mu`` that is ``(epsilon, delta)``-DP, or the
  zCDP filter with the largest such ``rho``; **or** the pure filter with ``epsilon``.
- ``ApproxDP(epsilon, delta)`` by ``"pure"`` accounting, which is *plain addition*: ``sum of epsilon <= epsilon`` and ``sum of
  delta <= delta``. Acts without an epsilon, such as Gaussian noise, go into allowances (below).

Which of them a ledger keeps is a public fact, decided before its first charge. It cannot be decided afterwards: see the end.

Privacy
-------
*Why the pure filter may stand beside the other one.* Let ``P`` and ``Q`` be the laws of the transcript on two
neighbours. An act is admitted if, counting it, the main sum or the pure sum (each over **all** acts so far)
is within its total. Split the transcripts in two sets.

``A``: those whose pure sum ends within ``epsilon``. There the likelihood ratio, a product of conditional
ratios, is at most ``exp(epsilon)``, so ``A`` adds nothing to ``delta = sum over y of max(0, P(y) -
exp(epsilon) Q(y))``.

``B``: the others. Their last admitted act, hence (costs being non-negative) every act, was within the main
total. Now run the same analyst under the main filter alone, with laws ``P'`` and ``Q'``. On a transcript of
``B`` both rules admit and refuse alike: an act that only the pure filter admits would leave the main sum
above its total for good, and an act that both refuse is refused in both runs. So ``P = P'`` and ``Q = Q'`` on
``B``, and its share of ``delta`` is at most that of the main filter.

A union of two filters that each need ``delta`` would cost ``2 delta``; this one is free because a pure filter
needs none.

*Why a reserve pays for events with a delta of their own.* On fixed neighbours an ``(e, d)``-DP act is a
post-processing of this: with probability ``d`` reveal which neighbour it is, otherwise answer by an ``e``-DP
act (Kairouz, Oh and Viswanath 2015). The chance that anything is ever revealed is at most the largest
possible sum of the ``d``, which the filter keeps within the reserve ``r``. Where nothing is revealed, a
transcript ``y`` has densities ``w(y) P0(y)`` and ``w(y) Q0(y)``, with the same weight ``w(y)``, the product
of the ``1 - d``, and with ``P0`` and ``Q0`` the laws when every such act is replaced by its ``e``-DP part.
Hence ``sum of max(0, w P0 - exp(epsilon) w Q0)`` is at most ``delta - r`` by the filter for ``delta - r``,
and in all at most ``delta``. With ``r = delta`` only the pure filter is left, which needs no delta: plain addition.

*Why an allowance is one act.* An `AllowanceEvent` ``(e, d)`` opens an interaction with a filter of its own, for ``e`` and ``d`` and an
accounting that are fixed by the event. Each act inside names it (`InsideEvent`) and is admitted only if that filter holds, so the answers
inside are those of an interactive mechanism that is ``(e, d)``-DP against every adaptive analyst, by all of the above. On fixed neighbours
every such mechanism is an interactive post-processing of the act described above, "with probability ``d`` reveal, otherwise answer by
randomised response with ``e``", drawn once when it is opened (Lyu 2022; Vadhan and Zhang 2023). So the whole is
an adaptive sequence of such acts in the order in which they were opened, however the acts of several allowances and loose acts follow each other
afterwards, and the argument for the reserve applies to it word for word. For one allowance with a ``d`` between acts that are pure it is elementary:
let ``H`` be the law when the acts inside are answered from the second table and all others from the first. ``P(E) <= exp(e) H(E) +
d``, because the others are the same in both, and ``H(E) <= exp(sum of the other epsilons) Q(E)`` act by act. An act that names an
allowance which was never opened counts as a loose one.

*Why the accounting is chosen once.* A ledger that admitted a history whenever *some* accounting holds would not keep its promise. Spend
all of the ``mu`` that is ``(1.5, delta)``-DP in an allowance, look at the answers, and go on by whichever of two ways does more harm: with randomised
response of epsilon 0.5, certified by plain addition, or with more Gaussian noise, certified by the ``mu`` of ``(2, delta)``. Each way alone reaches
``delta``; the choice in the light of the answers exceeds it (a test computes by how much). The pure filter above escapes because it adds nothing to
``delta``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from understudy.privacy.accounting.accounting import ACCOUNTINGS, PURE, Accounting, accounting_for, delta_of
from understudy.privacy.budget import ApproxDP, Budget, PureDP
from understudy.privacy.events import AllowanceEvent, Event, InsideEvent
from understudy.privacy.exact_floats import float_down, float_up, fraction_up, non_negative
from understudy.privacy.unit import Unit

__all__ = ["Filter", "Spending", "budget_for", "filter_of"]

_NOTHING: Mapping[str, Fraction | None] = MappingProxyType({name: Fraction(0) for name in ACCOUNTINGS})
_NO_ALLOWANCES: Mapping[str, tuple[AllowanceEvent, Spending]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Spending:
    """What a sequence of events has cost so far, in several accountings at once.

    ``sums[name]`` is None once an event has had no cost in that accounting; accountings that nobody asked
    for are absent. ``delta`` is what the events' own deltas add up to. ``allowances`` holds, by name, the
    allowances that were opened and what was spent inside; their own cost is in ``sums`` and ``delta``.

    Examples
    --------
    >>> from understudy.privacy.events import LaplaceEvent
    >>> Spending().plus(LaplaceEvent(1.0, 10.0)).spent("pure")
    0.1
    """

    sums: Mapping[str, Fraction | None] = field(default_factory=lambda: _NOTHING)
    delta: Fraction = Fraction(0)
    allowances: Mapping[str, tuple[AllowanceEvent, Spending]] = field(default_factory=lambda: _NO_ALLOWANCES)

    def plus(self, event: Event, *, parts: int = 1) -> Spending:
        """Return the spending after one more event."""
        allowances = self.allowances
        if isinstance(event, InsideEvent):
            if event.allowance not in allowances:
                return self.plus(event.event, parts=parts)
            opened, inside = allowances[event.allowance]
            after = (opened, inside.plus(event.event, parts=parts))
            return Spending(self.sums, self.delta, MappingProxyType({**allowances, event.allowance: after}))
        if isinstance(event, AllowanceEvent):
            allowances = MappingProxyType({**allowances, event.name: (event, filter_of(event).nothing())})
        sums: dict[str, Fraction | None] = {}
        for name, before in self.sums.items():
            cost = None
            if before is not None:
                cost = ACCOUNTINGS[name].exact_cost(event, parts=parts, reserve=True)
            sums[name] = None if before is None or cost is None else fraction_up(before + cost)
        delta = fraction_up(self.delta + delta_of(event, parts=parts))
        return Spending(MappingProxyType(sums), delta, allowances)

    def spent(self, name: str) -> float:
        """Return one sum, rounded up; infinity if it does not exist."""
        value = self.sums[name]
        return float("inf") if value is None else float_up(value)


@dataclass(frozen=True, slots=True)
class Filter:
    """Decides whether an event still fits a budget under a unit.

    Parameters
    ----------
    budget
        The promise to keep.
    unit
        Who is protected; says how many parts of a `Parallel` event are paid for.
    accounting
        Name of the main accounting; only ``ApproxDP`` leaves a choice.
    approximate_delta
        The part of an ``ApproxDP`` budget's ``delta`` set aside for `ApproxEvent` and `AllowanceEvent`; all of it by pure
        accounting, whatever is given.

    Examples
    --------
    >>> from understudy.privacy.events import LaplaceEvent
    >>> rule = Filter(PureDP(1.0), Unit.add_remove())
    >>> spending = Spending()
    >>> for _ in range(10):
    ...     spending = spending.plus(LaplaceEvent(1.0, 10.0))
    >>> rule.holds(spending), rule.holds(spending.plus(LaplaceEvent(1.0, 1e12)))
    (True, False)
    """

    budget: Budget
    unit: Unit
    accounting: str | None = None
    approximate_delta: float = 0.0
    main: Accounting = field(init=False, repr=False)
    total: Fraction = field(init=False, repr=False)

    def __post_init__(self) -> None:
        main = accounting_for(self.budget, name=self.accounting)
        reserve = non_negative("approximate_delta", self.approximate_delta)
        if isinstance(self.budget, ApproxDP) and not main.needs_delta:
            reserve = self.budget.delta
        object.__setattr__(self, "accounting", main.name)
        object.__setattr__(self, "approximate_delta", reserve)
        object.__setattr__(self, "main", main)
        object.__setattr__(self, "total", main.exact_total(self.budget, approximate_delta=reserve))

    def nothing(self) -> Spending:
        """Return the spending before the first event, in the accountings this filter looks at."""
        names = {self.main.name, PURE.name} if isinstance(self.budget, ApproxDP) else {self.main.name}
        return Spending(MappingProxyType({name: Fraction(0) for name in sorted(names)}))

    def plus(self, spending: Spending, event: Event) -> Spending:
        """Return the spending after ``event``, priced for this filter's unit."""
        return spending.plus(event, parts=self.unit.parts_touched)

    def holds(self, spending: Spending) -> bool:
        """Return whether a spending is within the budget, and what was spent in each allowance within that."""
        if not all(filter_of(opened).holds(inside) for opened, inside in spending.allowances.values()):
            return False
        if spending.delta > Fraction(self.approximate_delta):
            return False
        main = spending.sums.get(self.main.name)  # absent, as if without a cost, where another rule added up
        if main is not None and main <= self.total:
            return True
        if not isinstance(self.budget, ApproxDP):
            return False
        pure = spending.sums.get(PURE.name)
        return pure is not None and pure <= Fraction(self.budget.epsilon)

    def remaining(self, spending: Spending, *, accounting: str | None = None) -> float:
        """Return how much of an accounting's total is left, rounded down; zero if it is used up.

        By default that of the main accounting. ``accounting="pure"`` asks for the second filter
        of an ``ApproxDP`` budget; accountings that play no part have nothing left.
        """
        name = self.main.name if accounting is None else accounting
        if name == self.main.name:
            total = self.total
        elif name == PURE.name and isinstance(self.budget, ApproxDP):
            total = Fraction(self.budget.epsilon)
        else:
            return 0.0
        spent = spending.sums.get(name)
        return 0.0 if spent is None or spent >= total else float_down(total - spent)


@lru_cache(maxsize=256)
def filter_of(allowance: AllowanceEvent) -> Filter:
    """Return the filter that acts inside an allowance are held to.

    Examples
    --------
    >>> filter_of(AllowanceEvent("9f3c", 1.5, 1e-9, "gdp")).budget
    ApproxDP(epsilon=1.5, delta=1e-09)
    """
    if not allowance.delta:
        return Filter(
            PureDP(allowance.epsilon), Unit.add_remove()
        )  # parts of `Parallel` events are counted by the outer one
    budget = ApproxDP(allowance.epsilon, allowance.delta)
    return Filter(budget, Unit.add_remove(), allowance.accounting, allowance.reserve)


def budget_for(rule: Filter, wanted: Fraction) -> Budget:
    """Return a budget of the same kind and delta whose total, in the accounting of a filter, is at least ``wanted``; rounded up to three digits.

    Examples
    --------
    >>> rule = Filter(ApproxDP(1.0, 1e-6), Unit.add_remove(), None, 0.0)
    >>> budget_for(rule, 2 * rule.total)
    ApproxDP(epsilon=1.46, delta=1e-06)
    """
    budget = rule.budget
    (name, value), *_ = ((item.name, float(getattr(budget, item.name))) for item in fields(budget))

    def raised(number: float) -> Budget:
        return replace(budget, **{name: number})

    def enough(number: float) -> bool:
        return rule.main.exact_total(raised(number), approximate_delta=rule.approximate_delta) >= wanted

    low, high = value, value
    while not enough(high):
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    places = 2 - math.floor(math.log10(high))
    return raised(max(value, math.ceil(high * 10.0**places) / 10.0**places))
