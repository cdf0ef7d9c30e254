"""How the budget of a release is made up, and whether its parts add up to the total.

*Outside the selection*, once: the number of rows if it is measured. *Inside*, per attempt: the model and the acceptance
criteria. The selection turns the guarantee of an attempt into that of the whole (`selection_accounting`), and the
outside parts are added to it.

*Private regressions* of the published form do not depend on the candidate and may be in either place. Outside, each is fitted once for
every distinct version of its columns that the transformations make: paper Births, section 4.14.1, which has one version in mind. Inside, as
in the release of that paper, an attempt fits only the version that it drew, and the selection multiplies the cost, by 2 if it is
pure. With one version the former is cheaper; in a pure selection, with three or more the latter. `divide` prices both and takes the cheaper one; that is a public
fact of the specification.

Parts fit a total if *one* accounting says so: for ``ApproxDP`` the Gaussian one, concentrated privacy, or plain addition of epsilons
and deltas, tried in this order. Which one is a public fact of the specification and becomes that of a new ledger.

Privacy
-------
*What a release may promise.* The parts are fixed before any record is read, and each is held to its own budget while it is spent
(`Allowance.within`), however adaptively. So each accounting gives a bound for all of them together that is also fixed beforehand, and the
smallest of these bounds holds (`Shares.promise`), whether or not the total of the ledger is larger. What was *charged* in the end may be less
than the parts allowed; for acts chosen in the light of answers that number is no promise, and is not used as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from functools import lru_cache
from typing import Any

from understudy.errors import BudgetError, UnderstudyError
from understudy.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Budget,
    Event,
    PureDP,
    Unit,
    accounting_for,
    budget_from_dict,
)
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, ZCDP_ACCOUNTING, delta_of
from understudy.privacy.accounting.conversions import gdp_to_approx, zcdp_to_approx
from understudy.privacy.accounting.filter import Filter, Spending
from understudy.privacy.events import (
    AllowanceEvent,
    ApproxEvent,
    Composed,
    GaussianEvent,
    PureEvent,
    ZcdpEvent,
)
from understudy.privacy.exact_floats import float_down, float_up, sqrt_up
from understudy.release.selection.accounting import (
    Attempts,
    SelectionGuarantee,
    SingleAttempt,
    selection_guarantee,
    selection_profile,
)
from understudy.release.selection.profiles import Bound

__all__ = ["MethodKind", "Shares", "attempt_budget", "divide", "short"]

_TOLERANCE = 1e-9
_ROUNDED = 1e-6  # parts that come as close to a total as this were meant to make it up


_NAMES = {"gdp": "by gdp accounting", "zcdp": "by zcdp accounting", "pure": "by plain addition"}
_PROFILE_POINTS = 8

MethodKind = tuple[str, float]
"""How a kind of method spends the model's budget: its accounting, and the delta that its own events need."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The parts of a budget that add up to its total.

    Attributes
    ----------
    total, unit
        The promise, and who is protected.
    model, acceptance, regressions
        Per attempt: the model's budget, the epsilon of all acceptance criteria together, and that of each private regression that an
        attempt fits for itself.
    rows, people, baselines
        Once, outside the selection: epsilon of the number of rows, of the counts of people by their number of rows, and of each private regression that all attempts share.
    attempts, attempt
        The rule for the number of attempts, and the guarantee of one.
    selection
        The guarantee of the whole selection; None for a single attempt that is not pure, whose parts the ledger
        adds up in its own accounting.
    reserve
        Delta that the ledger sets aside: for the selection, for the model of a single attempt, or all of it where epsilons and
        deltas are added up.
    kinds
        Single attempts: how each kind of method in the space spends the model's budget.
    shared
        The same parts with every private regression outside the selection, if it is inside here and they would fit the total too. Version
        0.1 knew no other way: a release that it began goes on in this one.
    """

    total: Budget
    unit: Unit
    model: Budget
    acceptance: float
    regressions: tuple[float, ...] = ()
    rows: float = 0.0
    people: float = 0.0
    baselines: tuple[float, ...] = ()
    attempts: Attempts
    attempt: Budget
    selection: SelectionGuarantee | None = None
    reserve: float = 0.0
    kinds: tuple[MethodKind, ...] = ()
    shared: Shares | None = None

    @property
    def judging(self) -> float:
        """Epsilon of judging one candidate, private regressions of the attempt included, rounded up."""
        return _sum(self.acceptance, *self.regressions)

    @property
    def single(self) -> bool:
        """Whether there is one attempt, whose charges go to the ledger as they happen."""
        return isinstance(self.attempts, SingleAttempt)

    @property
    def outside(self) -> float:
        """Epsilon spent outside the selection, rounded up."""
        return _sum(self.rows, self.people, *self.baselines)

    def cases(self, accounting: str) -> tuple[tuple[Event, ...], ...]:
        """What will be charged at most to a ledger of an accounting, for each kind of method that may be drawn."""
        once: list[Event] = [
            PureEvent(epsilon) for epsilon in (self.rows, self.people, *self.baselines) if epsilon > 0
        ]
        if self.single:
            acceptance = [PureEvent(self.judging)] if self.judging > 0 else []
            return tuple(
                (*once, self._model_event(kind, accounting), *acceptance)
                for kind in self.kinds or (("", 0.0),)
            )
        return ((*once, self.selection_event),)

    def _model_event(self, kind: MethodKind, accounting: str) -> Event:
        """Return an event that costs as much as the model's budget allows.

        Where epsilons and deltas are added up the ledger is charged for the whole of a model that is not pure (`AllowanceEvent`);
        otherwise for each of its acts, which together cost at most the total of its accounting. Acts with a delta of their own beside
        others that are not pure are only known to keep the budget as a whole, all of its delta included.
        """
        model, (own, delta) = self.model, kind
        own = own or accounting_for(model).name
        if isinstance(model, PureDP) or (own == "pure" and delta == 0 and isinstance(model, ApproxDP)):
            return PureEvent(model.epsilon)
        if isinstance(self.total, ApproxDP) and accounting == "pure":
            if isinstance(model, ApproxDP):
                return AllowanceEvent("model", model.epsilon, model.delta, own, delta)
            if isinstance(model, GDP):
                epsilon = gdp_to_approx(model.mu, self.total.delta)
            else:
                assert isinstance(model, ZCDP)
                epsilon = zcdp_to_approx(model.rho, self.total.delta)
            return AllowanceEvent("model", epsilon, self.total.delta, own, 0.0)
        if delta > 0 and isinstance(model, ApproxDP):
            return ApproxEvent(model.epsilon, delta if own == "pure" else model.delta)
        if isinstance(model, ZCDP):
            return ZcdpEvent(model.rho)
        if own == "zcdp":
            return ZcdpEvent(ZCDP_ACCOUNTING.total(model))
        return GaussianEvent(math.sqrt(GDP_ACCOUNTING.total(model)), 1.0)

    @property
    def selection_event(self) -> Event:
        """The one event that pays for a whole loop of attempts."""
        if self.selection is None:
            raise BudgetError("A single attempt is charged step by step.")
        if self.selection.delta == 0:
            return PureEvent(self.selection.epsilon)
        return ApproxEvent(self.selection.epsilon, self.selection.delta)

    # ------------------------------------------------------------------ do they fit?

    @property
    def _accountings(self) -> tuple[str, ...]:
        """Names of the accountings that can keep the total, in the order in which they are tried."""
        return tuple(_NAMES) if isinstance(self.total, ApproxDP) else (accounting_for(self.total).name,)

    def _rule(self, accounting: str) -> Filter | None:
        """The filter of a ledger for this release alone; None if the reserve leaves the accounting no delta."""
        try:
            return Filter(self.total, self.unit, accounting, approximate_delta=self.reserve)
        except BudgetError:
            return None

    @property
    def accounting(self) -> str:
        """The first accounting by which the parts fit the total, or else the one that needs least."""
        for name in self._accountings:
            rule = self._rule(name)
            if rule is not None and all(self.admitted(rule, rule.nothing())):
                return name
        needed = self.needed
        return min(self._accountings, key=lambda name: needed.get(name, math.inf))

    @property
    def rule(self) -> Filter:
        """The filter a ledger for this release alone would have."""
        return Filter(self.total, self.unit, self.accounting, approximate_delta=self.reserve)

    @property
    def fits(self) -> bool:
        """Whether the filter of a ledger for this release would admit all parts."""
        rule = self._rule(self.accounting)
        return rule is not None and all(self.admitted(rule, rule.nothing()))

    def admitted(self, rule: Filter, spent: Spending) -> list[bool]:
        """Say for each case whether a ledger that has spent something already would pay for it."""
        found = []
        for events in self.cases(rule.main.name):
            spending = spent
            for event in events:
                spending = rule.plus(spending, event)
            found.append(rule.holds(spending))
        return found

    @property
    def needed(self) -> dict[str, float]:
        """What the parts need by each accounting that prices them: epsilon at the total's delta, or rho, or mu."""
        delta = Fraction(self.total.delta if isinstance(self.total, ApproxDP) else 0.0)
        found: dict[str, float] = {}
        for name in self._accountings:
            worst = 0.0
            for events in self.cases(name):
                spending = Spending()
                for event in events:
                    spending = spending.plus(event, parts=self.unit.parts_touched)
                worst = max(worst, _amount(self.total, name, spending, delta - spending.delta))
            if math.isfinite(worst):
                found[name] = worst
        return found

    @property
    def used(self) -> float:
        """Share of the total that the parts need, by the accounting that needs least."""
        whole = next(value for value in self.total.to_dict().values() if isinstance(value, float))
        return min(self.needed.values(), default=math.inf) / whole

    # ------------------------------------------------------------------ what is promised

    @property
    def promise(self) -> Budget:
        """The tightest guarantee of the parts together; at most the total. See the head of this module."""
        total, needed = self.total, self.needed
        least, whole = min(needed.values(), default=math.inf), float(getattr(total, _symbol_of(total)))
        if least >= whole * (1 - _ROUNDED):
            least = whole
        if isinstance(total, PureDP):
            return PureDP(least)
        if isinstance(total, ZCDP):
            return ZCDP(least)
        if isinstance(total, GDP):
            return GDP(least)
        pure = all(delta_of(event) == 0 for events in self.cases("pure") for event in events)
        plainly = max(least, needed.get("pure", math.inf))
        if pure and plainly <= min(whole, least * (1 + _ROUNDED)):
            return PureDP(plainly)
        assert isinstance(total, ApproxDP)
        return ApproxDP(least, total.delta)

    @property
    def trade_off(self) -> tuple[Bound, ...]:
        """Everything that is known about how well neighbours can be told apart; each bound holds.

        Privacy
        -------
        The parts beside the model are pure and add up to ``e``; the model is ``mu``-GDP or ``rho``-zCDP, or a selection has an upper
        bound on its delta at every epsilon. So the whole is ``e``-DP composed with that (`understudy.release.selection.profiles`), and by
        the Gaussian accounting of all parts also ``mu``-GDP.
        """
        bounds = [Bound(0.0, self.promise)]
        if isinstance(self.promise, PureDP):
            return tuple(bounds)
        if not self.single:
            assert self.selection is not None
            bounds += [
                Bound(self.outside, ApproxDP(epsilon, delta))
                for epsilon, delta in selection_profile(
                    self.attempt, self.attempts, up_to=self.selection.epsilon, points=_PROFILE_POINTS
                )
            ]
            return tuple(bounds)
        if len(self.kinds) <= 1:
            others = _sum(self.rows, self.people, *self.baselines, self.judging)
            event = self._model_event(self.kinds[0] if self.kinds else ("", 0.0), "gdp")
            if isinstance(event, ZcdpEvent):
                bounds.append(Bound(others, ZCDP(event.rho)))
            if isinstance(event, GaussianEvent):
                bounds.append(Bound(others, GDP(event.l2_sensitivity)))
                squares = GDP_ACCOUNTING.exact_cost(
                    Composed(self.cases("gdp")[0]), parts=self.unit.parts_touched
                )
                if squares is not None:
                    bounds.append(Bound(0.0, GDP(float_up(sqrt_up(squares, bits=60)))))
        return tuple(bounds)

    def describe(self) -> str:
        """Say how the parts make up the total."""
        parts = []
        if self.rows:
            parts.append(f"number of rows epsilon={self.rows:g}")
        if self.people:
            parts.append(f"people by their number of rows epsilon={self.people:g}")
        if self.baselines:
            parts.append(f"{_counted(self.baselines)} epsilon={math.fsum(self.baselines):g}")
        attempt = f"model {short(self.model)}, acceptance epsilon={self.judging:g}"
        if self.regressions:
            attempt += f" with {_counted(self.regressions)} of epsilon={math.fsum(self.regressions):g}"
        if self.single:
            parts.append(attempt)
        elif self.selection is not None:
            budget = short(self.selection.budget)
            parts.append(f"selection {budget} (per attempt: {attempt}; {self.attempts.describe()})")
        return " + ".join(parts)


def _sum(*epsilons: float) -> float:
    """Return a sum, rounded up; one number stays as it is."""
    return float_up(sum(map(Fraction, epsilons), Fraction(0)))


def _counted(regressions: Sequence[float]) -> str:
    return f"{len(regressions)} regression{'s' if len(regressions) > 1 else ''}"


def _amount(total: Budget, name: str, spending: Spending, delta: Fraction) -> float:
    """Return what one accounting makes of a spending in the terms of the total, rounded up; infinity if it has no price."""
    cost, left = spending.sums[name], float_down(max(delta, Fraction(0)))
    if cost is None or delta < 0:
        return math.inf
    if isinstance(total, GDP):
        return float_up(sqrt_up(cost, bits=60)) if cost else 0.0
    if isinstance(total, PureDP | ZCDP) or name == "pure" or not cost:
        return float_up(cost)
    if left <= 0:
        return math.inf
    if name == "zcdp":
        return zcdp_to_approx(float_up(cost), left)
    return gdp_to_approx(float_up(sqrt_up(cost, bits=60)), left)


def divide(
    *,
    total: Budget,
    unit: Unit,
    model: Budget,
    acceptance: float,
    attempts: Attempts,
    rows: float = 0.0,
    people: float = 0.0,
    regressions: Sequence[tuple[float, int]] = (),
    kinds: tuple[MethodKind, ...] = (),
) -> tuple[Shares | None, list[str]]:
    """Put the parts of a budget together and say what does not add up.

    Parameters
    ----------
    acceptance
        Epsilon of all criteria of one attempt, private regressions left out.
    regressions
        For each private regression its epsilon and how many distinct versions of its columns there are. They are fitted inside the
        attempts or outside, whichever needs less.

    Returns
    -------
    shares, problems
        The shares (None if they cannot be had), with the model's part lowered by a hair where the decimal
        numbers of a file add up to the total and their binary ones to a little more; and one sentence per
        problem.

    Examples
    --------
    >>> from understudy.release.selection.accounting import UnlimitedAttempts
    >>> parts = dict(unit=Unit.replace_one(), model=PureDP(4.0), acceptance=0.99)
    >>> shares, problems = divide(total=PureDP(9.98), attempts=UnlimitedAttempts(), **parts)
    >>> shares.fits, problems
    (True, [])
    >>> divide(total=PureDP(4.5), attempts=SingleAttempt(), **parts)[1]
    ['budget.total: the parts need epsilon=4.99, more than epsilon=4.5: model epsilon=4, acceptance epsilon=0.99. A total of epsilon=4.99 would do, or a model of epsilon=3.51']

    Private regressions: twelve versions of the columns are cheaper inside the attempts (outside they would cost 5.16), one is cheaper outside.

    >>> parts["acceptance"] = 0.56
    >>> for versions in (12, 1):
    ...     shares, _ = divide(
    ...         total=PureDP(9.98), attempts=UnlimitedAttempts(), regressions=[(0.43, versions)], **parts
    ...     )
    ...     print(short(shares.promise), shares.regressions, shares.baselines)
    epsilon=9.98 (0.43,) ()
    epsilon=9.55 () (0.43,)
    """
    single = isinstance(attempts, SingleAttempt)
    facts: dict[str, Any] = {
        "total": total,
        "unit": unit,
        "model": model,
        "acceptance": acceptance,
        "rows": rows,
        "people": people,
    }
    facts |= {"attempts": attempts, "kinds": kinds}
    # a single attempt fits the one version that it drew
    shared = [epsilon for epsilon, versions in regressions for _ in range(1 if single else versions)]
    outside, problems = _divided(**facts, baselines=tuple(shared))
    if single or not regressions:
        return outside, problems
    inside, others = _divided(**facts, regressions=tuple(epsilon for epsilon, _ in regressions))
    if inside is None:
        return outside, problems
    cheaper = outside is not None and outside.used <= inside.used * (1 + _ROUNDED)
    if cheaper and (others or not problems):  # one that fits is better than one that does not
        return outside, problems
    return replace(inside, shared=None if problems else outside), others


def _divided(**facts: Any) -> tuple[Shares | None, list[str]]:
    """Put the parts together as :func:`_divide` does, once for the same parts: several attempts take long to price."""
    shares, problems = _divide(**facts)
    return shares, list(problems)


@lru_cache(maxsize=64)
def _divide(
    *,
    total: Budget,
    unit: Unit,
    model: Budget,
    acceptance: float,
    attempts: Attempts,
    rows: float,
    people: float,
    kinds: tuple[MethodKind, ...],
    regressions: tuple[float, ...] = (),
    baselines: tuple[float, ...] = (),
) -> tuple[Shares | None, list[str]]:
    """Put the parts together with every private regression in its place."""
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
    own = max((needs for _, needs in kinds), default=0.0) if single else 0.0
    if own > delta:
        return None, [
            f"budget.total: the model needs a delta of {own:.6g} for itself, and the total has {delta:g}"
        ]
    reserve = own if single else delta * (1 - 2.0**-10)
    given = model
    for _ in range(4):
        try:
            attempt = attempt_budget(model, _sum(acceptance, *regressions))
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
            regressions=regressions,
            rows=rows,
            people=people,
            baselines=baselines,
            attempts=attempts,
            attempt=attempt,
            selection=selection,
            reserve=reserve,
            kinds=kinds,
        )
        if shares.fits or shares.used > 1 + _TOLERANCE or not isinstance(model, PureDP | ApproxDP):
            break
        model = replace(model, epsilon=model.epsilon * (1 - _TOLERANCE))
    if shares.fits:
        if isinstance(total, ApproxDP) and shares.accounting == "pure":
            shares = replace(shares, reserve=total.delta)
        return shares, []
    return shares, [_too_much(replace(shares, model=given))]


def _too_much(shares: Shares) -> str:
    """Say what the parts need, by each accounting that prices them, and which total or model would do."""
    total, needed = shares.total, shares.needed
    if not needed:
        return (
            f"budget.total: no accounting prices all parts within {short(total)}: {shares.describe()}. Give the total and the model "
            "an epsilon and a delta"
        )
    symbol = _symbol_of(total)
    least = min(needed, key=lambda name: needed[name])
    ways = ""
    if isinstance(total, ApproxDP):
        others = [f"{needed[name]:.6g} {_NAMES[name]}" for name in needed if name != least]
        ways = f" at delta={total.delta:g} {_NAMES[least]}" + (f" ({', '.join(others)})" if others else "")
    hair = (
        _TOLERANCE / 2 if isinstance(shares.model, PureDP | ApproxDP) else 0.0
    )  # which `divide` takes off again
    advice = f"A total of {symbol}={_digits(needed[least] * (1 - hair), ROUND_CEILING)} would do"
    model = _largest_model(shares)
    if model is not None:
        advice += f", or a model of {_symbol_of(shares.model)}={_digits(model * (1 + hair), ROUND_FLOOR)}"
    return f"budget.total: the parts need {symbol}={needed[least]:.6g}{ways}, more than {short(total)}: {shares.describe()}. {advice}"


def _largest_model(shares: Shares) -> float | None:
    """Return the largest first number of the model's budget with which the parts of a single attempt would fit."""
    if not shares.single:
        return None  # a loop has to be priced anew for each, which takes long
    name = _symbol_of(shares.model)
    low, high = 0.0, float(getattr(shares.model, name))
    for _ in range(34):
        middle = (low + high) / 2
        smaller = budget_from_dict(shares.model.to_dict() | {name: middle})
        low, high = (middle, high) if replace(shares, model=smaller).fits else (low, middle)
    return low if low > 1e-3 * high else None


def _symbol_of(budget: Budget) -> str:
    """Return the name of a budget's first number."""
    return {PureDP: "epsilon", ApproxDP: "epsilon", ZCDP: "rho", GDP: "mu"}[type(budget)]


def _digits(number: float, rounding: str) -> str:
    """Four digits, rounded so that they are still true."""
    return f"{float(Context(prec=4, rounding=rounding).create_decimal(number)):g}"


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
