"""How the budget of a release is made up, and whether its parts add up to the total.

*Outside the selection*, once: the number of rows if it is measured, and private regressions of the published
form, one per distinct transformation of their columns. *Inside*, per attempt: the model and the acceptance
criteria. The selection turns the guarantee of an attempt into that of the whole (`selection_accounting`), and the
outside parts are added to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from understudy.errors import BudgetError, UnderstudyError
from understudy.privacy import (
    GDP,
    GDP_ACCOUNTING,
    PURE,
    ZCDP,
    ZCDP_ACCOUNTING,
    Accounting,
    ApproxDP,
    ApproxEvent,
    Budget,
    Composed,
    Event,
    Filter,
    GaussianEvent,
    PureDP,
    PureEvent,
    Spending,
    Unit,
    ZcdpEvent,
    accounting_for,
    float_up,
)
from understudy.release.selection_accounting import (
    Attempts,
    SelectionGuarantee,
    SingleAttempt,
    selection_guarantee,
)

__all__ = ["Shares", "attempt_budget", "divide", "short"]

_TOLERANCE = 1e-9
_UNUSED = 0.01


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The parts of a budget that add up to its total.

    Attributes
    ----------
    total, unit
        The promise, and who is protected.
    model, acceptance
        Per attempt: the model's budget and the epsilon of all acceptance criteria together.
    rows, baselines
        Once, outside the selection: epsilon of the number of rows, and of each private regression.
    attempts, attempt
        The rule for the number of attempts, and the guarantee of one.
    selection
        The guarantee of the whole selection; None for a single attempt that is not pure, whose parts the ledger
        adds up in its own accounting.
    reserve
        Delta that the ledger sets aside: for the selection, or for the model of a single attempt.
    model_deltas
        Single attempts: for each kind of method in the space, the part of the model's delta that belongs to
        events with a delta of their own (0 for methods with additive noise).
    """

    total: Budget
    unit: Unit
    model: Budget
    acceptance: float
    rows: float = 0.0
    baselines: tuple[float, ...] = ()
    attempts: Attempts
    attempt: Budget
    selection: SelectionGuarantee | None = None
    reserve: float = 0.0
    model_deltas: tuple[float, ...] = (0.0,)

    @property
    def single(self) -> bool:
        """Whether there is one attempt, whose charges go to the ledger as they happen."""
        return isinstance(self.attempts, SingleAttempt)

    @property
    def outside(self) -> float:
        """Epsilon spent outside the selection."""
        return self.rows + math.fsum(self.baselines)

    @property
    def cases(self) -> tuple[tuple[Event, ...], ...]:
        """What will be charged to the ledger at most, for each kind of method that may be drawn."""
        once: list[Event] = [PureEvent(epsilon) for epsilon in (self.rows, *self.baselines) if epsilon > 0]
        if self.single:
            acceptance = [PureEvent(self.acceptance)] if self.acceptance > 0 else []
            return tuple((*once, _allowance(self.model, delta), *acceptance) for delta in self.model_deltas)
        return ((*once, self.selection_event),)

    @property
    def selection_event(self) -> Event:
        """The one event that pays for a whole loop of attempts."""
        if self.selection is None:
            raise BudgetError("A single attempt is charged step by step.")
        if self.selection.delta == 0:
            return PureEvent(self.selection.epsilon)
        return ApproxEvent(self.selection.epsilon, self.selection.delta)

    @property
    def rule(self) -> Filter:
        """The filter a ledger for this release alone would have."""
        return Filter(self.total, self.unit, approximate_delta=self.reserve)

    @property
    def used(self) -> float:
        """Share of the total that the parts use, by the accounting that uses least."""
        largest = 0.0
        for events in self.cases:
            shares = [math.inf]
            for accounting, total in self._accountings():
                cost = accounting.exact_cost(Composed(events), parts=self.unit.parts_touched, reserve=True)
                if cost is not None:
                    shares.append(float(cost / total))
            largest = max(largest, min(shares))
        return largest

    @property
    def fits(self) -> bool:
        """Whether the filter of a ledger for this release would admit all parts."""
        return all(self.admitted(self.rule, self.rule.nothing()))

    def admitted(self, rule: Filter, spent: Spending) -> list[bool]:
        """Say for each of `cases` whether a ledger that has spent something already would pay for it."""
        found = []
        for events in self.cases:
            spending = spent
            for event in events:
                spending = rule.plus(spending, event)
            found.append(rule.holds(spending))
        return found

    def _accountings(self) -> list[tuple[Accounting, Fraction]]:
        rule = self.rule
        found: list[tuple[Accounting, Fraction]] = [(rule.main, rule.total)]
        if isinstance(self.total, ApproxDP):
            found.append((PURE, Fraction(self.total.epsilon)))
        return found

    def words(self) -> str:
        """Say how the parts make up the total."""
        parts = []
        if self.rows:
            parts.append(f"number of rows epsilon={self.rows:g}")
        if self.baselines:
            parts.append(f"{len(self.baselines)} regressions epsilon={math.fsum(self.baselines):g}")
        attempt = f"model {short(self.model)}, acceptance epsilon={self.acceptance:g}"
        if self.single:
            parts.append(attempt)
        elif self.selection is not None:
            budget = short(self.selection.budget)
            parts.append(f"selection {budget} (per attempt: {attempt}; {self.attempts.describe()})")
        return " + ".join(parts)


def divide(
    *,
    total: Budget,
    unit: Unit,
    model: Budget,
    acceptance: float,
    attempts: Attempts,
    rows: float = 0.0,
    baselines: tuple[float, ...] = (),
    model_deltas: tuple[float, ...] = (0.0,),
) -> tuple[Shares | None, list[str]]:
    """Put the parts of a budget together and say what does not add up.

    Returns
    -------
    shares, problems
        The shares (None if they cannot be had), with the model's part lowered by a hair where the decimal
        numbers of a file add up to the total and their binary ones to a little more; and one sentence per
        problem.

    Examples
    --------
    >>> from understudy.release.selection_accounting import UnlimitedAttempts
    >>> parts = dict(unit=Unit.replace_one(), model=PureDP(4.0), acceptance=0.99)
    >>> shares, problems = divide(total=PureDP(9.98), attempts=UnlimitedAttempts(), **parts)
    >>> shares.fits, problems
    (True, [])
    >>> divide(total=PureDP(9.98), attempts=SingleAttempt(), **parts)[1]
    ['budget.total: the parts add up to epsilon=4.99, not to epsilon=9.98: model epsilon=4, acceptance epsilon=0.99']
    """
    single = isinstance(attempts, SingleAttempt)
    if not single and not isinstance(total, PureDP | ApproxDP):
        return None, [
            "budget.total: a loop of attempts ends in a guarantee with epsilon (and delta); write total: "
            "{epsilon: ..., delta: ...}"
        ]
    if isinstance(total, PureDP) and not isinstance(model, PureDP):
        return None, [
            f"budget.model: {short(model)} has no pure guarantee; give it an epsilon alone, or a delta to the total"
        ]
    delta = total.delta if isinstance(total, ApproxDP) else 0.0
    own = max(model_deltas, default=0.0) if single else 0.0
    if own > 0 and not own < delta:
        return None, [
            f"budget.total: the model needs a delta of {own:.6g} for itself, and the total must have a larger one"
        ]
    reserve = own if single else delta * (1 - 2.0**-10)
    given = model
    for _ in range(4):
        try:
            attempt = attempt_budget(model, acceptance)
            selection = None
            if isinstance(attempt, PureDP) or not single:
                pure = isinstance(attempt, PureDP)
                selection = selection_guarantee(attempt, attempts, delta=0.0 if pure else reserve)
        except UnderstudyError as error:
            return None, [f"selection: {error}"]
        shares = Shares(
            total=total,
            unit=unit,
            model=model,
            acceptance=acceptance,
            rows=rows,
            baselines=baselines,
            attempts=attempts,
            attempt=attempt,
            selection=selection,
            reserve=reserve,
            model_deltas=model_deltas or (0.0,),
        )
        if shares.fits or shares.used > 1 + _TOLERANCE or not isinstance(model, PureDP):
            break
        model = PureDP(model.epsilon * (1 - _TOLERANCE))
    return shares, _problems(replace(shares, model=given), shares)


def _problems(shown: Shares, shares: Shares) -> list[str]:
    """Say whether the parts exceed the total, or leave a part of a pure total unused."""
    total = shares.total
    whole = shares.used * total.epsilon if isinstance(total, PureDP | ApproxDP) else math.nan
    if not shares.fits:
        size = f"epsilon={whole:.6g}" if isinstance(total, PureDP) else f"{shares.used:.4g} times it"
        return [f"budget.total: the parts add up to {size}, more than {short(total)}: {shown.words()}"]
    if isinstance(total, PureDP) and shares.used < 1 - _UNUSED:
        return [
            f"budget.total: the parts add up to epsilon={whole:.6g}, not to {short(total)}: {shown.words()}"
        ]
    return []


def attempt_budget(model: Budget, acceptance: float) -> Budget:
    """Return the guarantee of one attempt: its model followed by its acceptance criteria.

    Costs add up in each accounting. A model with an ``(epsilon, delta)`` budget is fitted in the
    GDP accounting, so that its attempt has a GDP guarantee.

    Examples
    --------
    >>> attempt_budget(PureDP(1.0), 0.1)
    PureDP(epsilon=1.1)
    >>> round(attempt_budget(ZCDP(0.5), 0.2).rho, 4)
    0.5199
    """
    if isinstance(model, PureDP):
        return PureDP(float_up(Fraction(model.epsilon) + Fraction(acceptance)))
    if isinstance(model, ZCDP):
        more = ZCDP_ACCOUNTING.cost(PureEvent(acceptance)) if acceptance > 0 else 0.0
        return ZCDP(float_up(Fraction(model.rho) + Fraction(more)))
    accounting = GDP_ACCOUNTING
    squares = Fraction(accounting.total(model)) + Fraction(
        accounting.cost(PureEvent(acceptance)) if acceptance > 0 else 0.0
    )
    return GDP(float_up(Fraction(math.sqrt(squares) * (1 + 2.0**-50))))


def short(budget: Budget) -> str:
    """Return a budget in few words.

    Examples
    --------
    >>> short(ApproxDP(1.0, 1e-6))
    'epsilon=1, delta=1e-06'
    """
    values = {key: value for key, value in budget.to_dict().items() if isinstance(value, int | float)}
    return ", ".join(f"{key}={value:g}" for key, value in values.items())


def _allowance(budget: Budget, delta: float = 0.0) -> Event:
    """Return an event that costs as much as a budget allows, where ``delta`` of it belongs to events with their own."""
    if delta > 0 and isinstance(budget, ApproxDP):
        return ApproxEvent(budget.epsilon, delta)
    if isinstance(budget, PureDP):
        return PureEvent(budget.epsilon)
    if isinstance(budget, ZCDP):
        return ZcdpEvent(budget.rho)
    return GaussianEvent(math.sqrt(accounting_for(budget).total(budget)), 1.0)
