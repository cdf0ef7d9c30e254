"""What a ledger tells its reader: the promise kept, and why a charge was refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from typing import TYPE_CHECKING

from understudy.errors import BudgetError, BudgetExceeded, NoSuchGuarantee
from understudy.privacy.accounting.accounting import ACCOUNTINGS, PURE, Accounting, delta_of
from understudy.privacy.accounting.filter import Filter, Spending, filter_of
from understudy.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.privacy.events import (
    Event,
    GaussianEvent,
    InsideEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
)
from understudy.privacy.exact_floats import float_down, float_up
from understudy.privacy.guarantee import Condition, Guarantee, condition_of, guarantee_of
from understudy.privacy.ledger.kinds import Invariant
from understudy.privacy.unit import Unit

if TYPE_CHECKING:
    from understudy.privacy.ledger.ledger import Ledger

__all__ = ["LedgerGuarantee", "cannot_pay", "refusal"]


@dataclass(frozen=True, slots=True)
class LedgerGuarantee:
    """The promise a ledger keeps, and how much of it has been used.

    Attributes
    ----------
    table
        Public name of the table.
    rule
        The filter: budget, unit and accounting.
    spending
        Exact sums in every accounting.
    entries
        Number of entries.
    head_hash
        Hash of the last line.
    invariants
        Exact public facts about the table: the promise is about neighbours that agree on them.
    """

    table: str
    rule: Filter
    spending: Spending
    entries: int
    head_hash: str
    invariants: tuple[Invariant, ...] = ()

    @property
    def budget(self) -> Budget:
        """The promise, which holds for everything ever charged, however it was chosen."""
        return self.rule.budget

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        return self.rule.unit

    @property
    def condition(self) -> Condition:
        """What the promise presumes because exact numbers about the table are public."""
        return condition_of(self.unit, self.invariants)

    @property
    def _standing(self) -> Accounting:
        """The accounting whose total the entries are within: the filter's main one, or else the pure one."""
        main = self.spending.sums[self.rule.main.name]
        within = main is not None and main <= self.rule.total
        return self.rule.main if within or not isinstance(self.budget, ApproxDP) else PURE

    @property
    def accounting(self) -> str:
        """Name of the accounting by which the entries are within the promise."""
        return self._standing.name

    @property
    def symbol(self) -> str:
        """What that accounting adds up: epsilon, rho or mu^2."""
        return self._standing.symbol

    @property
    def total(self) -> float:
        """What may be spent, in the additive unit of ``accounting``."""
        if self._standing is self.rule.main or not isinstance(self.budget, ApproxDP):
            return float_down(self.rule.total)
        return self.budget.epsilon

    @property
    def remaining(self) -> float:
        """What is left of ``total``."""
        return self.rule.remaining(self.spending, accounting=self._standing.name)

    @property
    def spent(self) -> Mapping[str, float]:
        """What was charged, by every accounting that prices all entries."""
        return {
            name: self.spending.spent(name) for name in ACCOUNTINGS if self.spending.sums[name] is not None
        }

    def used(self, delta: float | None = None) -> Guarantee | None:
        """Return the tightest ``(epsilon, delta)`` of the entries so far, or None if there is none.

        A description of what was used: the promise about adaptively chosen entries is ``budget``.
        ``delta`` may be omitted if the budget has one.
        """
        if delta is None:
            if not isinstance(self.budget, ApproxDP):
                return None
            delta = self.budget.delta
        try:
            return guarantee_of(self.spending, delta)
        except NoSuchGuarantee:
            return None

    @property
    def _beside(self) -> str:
        """What entries with a delta of their own (unlisted keys, approximate acts) add to a cost in another unit."""
        own = float(self.spending.delta)
        return f", beside a delta of {own:.3g} that entries have of their own" if own > 0 else ""

    def describe(self) -> str:
        """Return promise and spending in a few lines."""
        main = self._standing
        lines = [
            f"Promise: {self.budget.describe()}, unit: {self.unit.describe()}.",
            f"Spent by {main.name} accounting: {main.symbol} "
            f"{self.spending.spent(main.name):.6g} of {self.total:.6g}; "
            f"{main.describe_left(self.remaining, self.total)} remains{self._beside}.",
        ]
        others = [
            ACCOUNTINGS[name].describe(value) + f" ({name})"
            for name, value in self.spent.items()
            if name != main.name
        ]
        if others:
            lines.append(f"The same entries by other accountings: {', '.join(others)}{self._beside}.")
        used = self.used()
        if used is not None:
            lines.append(f"Used so far: {used.describe()}.")
        if self.condition.text:
            lines.append(f"Condition: {self.condition.text}")
        return "\n".join(lines)


def cannot_pay(
    ledger: Ledger, budget: Budget, accounting: Accounting, wanted: float, left: float, *, mixed: bool
) -> str:
    """Say that a ledger cannot pay for a budget as a whole: what is used, in the words of its promise, and what to do next.

    ``mixed`` says that something is left, but not in the accounting that the budget would be spent in.
    """
    advice = "Ask"
    if mixed and not isinstance(budget, ApproxDP):
        advice = "Give a delta too: after Gaussian noise a pure epsilon cannot be paid. Or ask"
    elif mixed:
        advice = "This method spends a pure epsilon, which cannot be paid after Gaussian noise: choose another one. Or ask"
    words = {GDP: "--mu M", ZCDP: "--rho R", PureDP: "--epsilon E", ApproxDP: "--epsilon E --delta D"}
    return (
        f"{_used(ledger.guarantee())} is used on the ledger of {ledger.table!r}, and this needs {budget.describe()}. Nothing was spent. {advice} for less, or let "
        f"the owner of the table agree to a larger total: understudy ledger total {ledger.path or 'LEDGER'} {words[type(ledger.budget)]} --by NAME --why WORDS. "
        f"(It costs {accounting.describe(wanted)}; {accounting.describe_left(left, ledger.total)} is left.)"
    )


def _used(standing: LedgerGuarantee) -> str:
    """Say how much of the total of a ledger is used, in the words of its budget."""
    budget = standing.budget
    if isinstance(budget, ApproxDP):
        used = standing.used()
        spent = "A part of epsilon" if used is None else f"Epsilon {used.epsilon:.3g} of"
        return f"{spent} {budget.epsilon:g} (delta {budget.delta:g})"
    if isinstance(budget, GDP):
        return f"Mu {standing.spent['gdp'] ** 0.5:.3g} of {budget.mu:g}"
    if isinstance(budget, ZCDP):
        return f"Rho {standing.spent['zcdp']:.3g} of {budget.rho:g}"
    assert isinstance(budget, PureDP)
    return f"Epsilon {standing.spent['pure']:.3g} of {budget.epsilon:g}"


def refusal(rule: Filter, spending: Spending, event: Event, purpose: str) -> BudgetExceeded:
    """Return the error that says what was asked, what remains and what to do next."""
    if isinstance(event, InsideEvent) and event.allowance in spending.allowances:
        opened, inside = spending.allowances[event.allowance]
        return refusal(replace(filter_of(opened), unit=rule.unit), inside, event.event, purpose)
    parts = rule.unit.parts_touched
    accounting = rule.main
    if accounting.exact_cost(event, parts=parts, reserve=True) is None and isinstance(rule.budget, ApproxDP):
        accounting = PURE if PURE.exact_cost(event, parts=parts, reserve=True) is not None else rule.main
    exact = accounting.exact_cost(event, parts=parts, reserve=True)
    requested = math.inf if exact is None else float_up(exact)
    remaining = rule.remaining(spending, accounting=accounting.name)

    def error(message: str) -> BudgetExceeded:
        return BudgetExceeded(
            f"{purpose}: {message} Nothing was spent.",
            requested=requested,
            remaining=remaining,
            accounting=accounting.name,
        )

    delta = delta_of(event, parts=parts)
    if delta and spending.delta + delta > Fraction(rule.approximate_delta):
        left = abs(float_down(Fraction(rule.approximate_delta) - spending.delta))
        return error(
            f"the event has a delta of {float_up(delta):g} of its own and the ledger's approximate_delta has "
            f"{left:g} left. Such events need a larger one "
            "(`understudy ledger create` or `understudy ledger total`, --approximate-delta)."
        )
    if exact is None:
        return error(f"the event has no cost in the {rule.main.name} accounting. {_other_budget(rule)}")
    whole = float_down(rule.total if accounting is rule.main else Fraction(rule.budget.epsilon))  # type: ignore[attr-defined]
    symbol = accounting.symbol
    price = f"costs {symbol}={requested:.6g}; {symbol}={remaining:.6g} of {whole:.6g} remains."
    if remaining and requested <= remaining * (1 + 1e-9):
        return error(
            f"{price} They differ by floating-point rounding alone: divide budgets with Accounting.split, or "
            "leave a hair of room."
        )
    return error(f"{price} {_advice(accounting, event, remaining)}")


def _advice(accounting: Accounting, event: Event, remaining: float) -> str:
    if remaining:
        try:
            if isinstance(event, GaussianEvent):
                sigma = accounting.gaussian_sigma(remaining, event.l2_sensitivity)
                return f"Raise sigma to at least {_up(sigma)}, ask for less, or stop here."
            if isinstance(event, LaplaceEvent):
                scale = accounting.laplace_scale(remaining, event.l1_sensitivity)
                return f"Raise the scale to at least {_up(scale)}, ask for less, or stop here."
            if isinstance(event, SelectionEvent):
                epsilon = accounting.selection_epsilon(remaining)
                return f"Lower epsilon to at most {_down(epsilon)}, or stop here."
            if isinstance(event, PureEvent):
                epsilon = accounting.pure_epsilon(remaining)
                return f"Lower epsilon to at most {_down(epsilon)}, or stop here."
        except BudgetError:
            pass
    return (
        "Ask for less, or stop here. The owner of the table can raise the total (`understudy ledger total`), which "
        "weakens the promise about everything released so far."
    )


def _other_budget(rule: Filter) -> str:
    if isinstance(rule.budget, ApproxDP) and rule.main.name == "gdp":
        return "A ledger made with accounting='zcdp' would admit it if it is zCDP."
    if isinstance(rule.budget, ApproxDP) and not rule.main.needs_delta:
        return "Where epsilons and deltas are added up, such noise goes into an allowance (Curator.within)."
    return "It needs a ledger with another kind of budget."


def _up(number: float) -> str:
    """Four digits, never below the number."""
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(number)):g}"


def _down(number: float) -> str:
    """Four digits, never above the number."""
    return f"{float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal(number)):g}"
