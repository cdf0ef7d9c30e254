"""What a curator may spend: an allowance, taken from another allowance, taken from the ledger.

Nothing here sees records or noise. A look at the records hands its event to :meth:`Allowance.charge`, which returns once the
cost fits every allowance on the way to the ledger and the ledger has written it down.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from understudy.errors import BudgetExceeded, NoSuchGuarantee
from understudy.privacy import GDP, ZCDP, Accounting, ApproxDP, Budget, Event, Ledger, PureDP, accounting_for
from understudy.privacy.accounting.accounting import PURE, accounting_named, delta_of
from understudy.privacy.accounting.conversions import gdp_to_approx, zcdp_to_approx
from understudy.privacy.accounting.filter import Spending, filter_of
from understudy.privacy.events import AllowanceEvent, InsideEvent
from understudy.privacy.exact_floats import float_down, float_up, sqrt_up
from understudy.privacy.ledger.ledger import Entry
from understudy.privacy.ledger.report import cannot_pay
from understudy.privacy.ledger.view import LedgerView
from understudy.privacy.own import own

if TYPE_CHECKING:
    from understudy.curator.journal import Journal

__all__ = ["Allowance"]

_LEAST = 2.0**-1000
"""An allowance needs some epsilon, if only for acts that have a delta and nothing else."""


class Allowance:
    """A share of a ledger's budget, with what has been spent of it.

    Parameters
    ----------
    ledger
        Pays. An allowance made here is the whole ledger; :meth:`within` takes smaller ones from it.
    scope
        Public name of the work, written into the ledger with each charge.
    journal
        Answers of interrupted work that are about to be repeated, if there are any.

    Attributes
    ----------
    budget
        What may be spent.
    accounting
        How costs add up.

    Privacy
    -------
    A charge must fit this allowance and every one it was taken from, each in its own accounting, and is then committed to
    the ledger; only then does :meth:`charge` return. If one of them cannot pay nothing is spent anywhere.

    Examples
    --------
    >>> from understudy.privacy.events import LaplaceEvent
    >>> from understudy.privacy import PureDP, Unit
    >>> ledger = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove())
    >>> half = Allowance(ledger, scope="births").within(PureDP(0.5), scope="model")
    >>> entry = half.charge(LaplaceEvent(1.0, 4.0), purpose="count by sex")
    >>> half.spent, half.remaining, ledger.remaining
    (0.25, 0.25, 0.75)
    """

    def __init__(self, ledger: Ledger, *, scope: str, journal: Journal | None = None) -> None:
        self.ledger = ledger
        self.journal = journal
        self.scope = scope
        self.budget: Budget = ledger.budget
        self.accounting: Accounting = ledger.accounting
        self._parent: Allowance | None = None
        self._total: Fraction | None = None  # the ledger itself decides
        self._used = Fraction(0)
        self._delta = Fraction(ledger.rule.approximate_delta)
        self._delta_used = Fraction(0)
        self._inside: _Opened | None = None  # what the ledger was charged for as a whole

    @property
    def remaining(self) -> float:
        """What may still be spent, in the additive unit of the accounting, rounded down."""
        return self.ledger.remaining if self._total is None else float_down(self._total - self._used)

    @property
    def spent(self) -> float:
        """What has been spent within this allowance, in the additive unit of the accounting."""
        return float(self._used)

    @property
    def reserve(self) -> float:
        """What is left of the delta set aside for events with a delta of their own, rounded down."""
        used = self.ledger.spending.delta if self._total is None else self._delta_used
        return float_down(max(self._delta - used, Fraction(0)))

    def within(
        self, budget: Budget, *, scope: str, accounting: Accounting | None = None, reserve: float = 0.0
    ) -> Allowance:
        """Take a smaller allowance from this one, or refuse at once what could never be paid.

        Parameters
        ----------
        budget
            What the smaller one may spend.
        scope
            Public name of the work.
        accounting
            How its costs add up; by default the tightest valid accounting for the kind of budget.
        reserve
            The part of an ``ApproxDP`` budget's delta set aside for events with a delta of their own.

        Privacy
        -------
        Charges of an allowance add up to at most its total for ``delta - reserve`` and their own deltas to at
        most ``reserve``, so they keep the promise of ``budget``: :mod:`understudy.privacy.accounting.filter`. A ledger that adds up
        epsilons and deltas plainly is charged for the whole of an allowance that is not pure when it is opened.
        """
        budget = own(budget, PureDP, ApproxDP, ZCDP, GDP)
        chosen = accounting_for(budget) if accounting is None else accounting_named(accounting.name)
        total = Fraction(chosen.total(budget, approximate_delta=reserve))
        child = Allowance(
            self.ledger, scope=f"{self.scope}/{scope}" if self.scope else scope, journal=self.journal
        )
        child.budget, child.accounting, child._inside = budget, chosen, self._inside
        child._parent, child._total, child._delta = self, total, Fraction(reserve)
        if self._total is None and plain_addition(self.ledger) and (chosen is not PURE or reserve):
            child._inside = self._opened(child)
            return child
        if self.journal is None or not self.journal.left:
            # what is repeated was paid for, and each new charge is judged as it comes
            self._require_room(chosen, total, budget)
            self._require_reserve(reserve, budget)
        self.ledger.note(f"allowance of {budget.describe()} opened", scope=child.scope)
        return child

    def _opened(self, child: Allowance) -> _Opened:
        """Charge the ledger for a whole allowance, or find an equal one which an interruption left behind.

        If its acts are about to be repeated from a journal, that is the one that the next of them was charged to. Else it is the last one
        where the work has a scope of its own and a journal that holds none of its answers: all were lost. Else it is one
        that is still untouched: looked for only where the work has a journal or a scope of its own, so that two fits do not share it.
        """
        kind, reserve = child.accounting.name, float(child._delta)
        journal = self.journal
        repeating = journal is not None and journal.left > 0
        kept = [] if journal is None else journal.allowances(self.ledger)
        before = kept[journal.place] if journal is not None and repeating else None
        if before is not None and before.startswith(f"{child._key}-"):
            return _Opened(child, before, begun=True, again=True)
        for name, (opened, inside) in reversed(tuple(self.ledger.spending.allowances.items())):
            same = (opened.accounting, opened.reserve) == (kind, reserve) and name.startswith(
                f"{child._key}-"
            )
            room = same and filter_of(opened).total >= (child._total or 0)
            again = repeating or bool(self.scope and journal is not None and name not in kept)
            if room and (again or (_untouched(inside) and (self.scope or journal is not None))):
                return _Opened(child, name, begun=again, again=again)
        return _Opened(child, child._open_whole(), begun=False, again=False)

    @property
    def _key(self) -> str:
        """What the names of the allowances of this work begin with."""
        return hashlib.sha256(self.scope.encode()).hexdigest()[:16]

    def _open_whole(self) -> str:
        """Open all of this allowance."""
        budget, reserve = self.budget, float(self._delta)
        if isinstance(budget, ApproxDP):
            epsilon, delta = budget.epsilon, budget.delta
        else:
            delta = self._delta_left(budget.describe())
            if isinstance(budget, GDP):
                epsilon = gdp_to_approx(budget.mu, delta)
            else:
                assert isinstance(budget, ZCDP)
                epsilon = zcdp_to_approx(budget.rho, delta)
        return self._open(epsilon, delta, self.accounting.name, reserve, f"allowance of {budget.describe()}")

    def _open_for(self, event: Event, most: float) -> str:
        """Open an allowance that holds one act, with at most so much delta."""
        parts, purpose = self.ledger.unit.parts_touched, "allowance for an act in place of one that was lost"
        pure, own = PURE.exact_cost(event, parts=parts, reserve=True), float_up(delta_of(event, parts=parts))
        if pure is not None:
            return self._open(max(float_up(pure), _LEAST), own, PURE.name, own, purpose)
        cost = self.accounting.exact_cost(event, parts=parts, reserve=True)
        assert cost is not None  # it was affordable here
        left = self._delta_left("Noise that is not pure, in place of an answer that was lost,")
        delta = min(most, left) - own  # what the act has of its own is set aside
        if delta <= 0:
            raise BudgetExceeded(
                f"An answer that was lost has to be paid for again, which needs a delta above {own:.3g}; {left:.3g} is left on the ledger of "
                f"{self.ledger.table!r}. Agree on a total with a larger delta with the owner of the table.",
                requested=own,
                remaining=left,
                accounting="delta",
            )
        if self.accounting.name == "gdp":
            epsilon = gdp_to_approx(float_up(sqrt_up(cost, bits=60)), delta)
        else:
            epsilon = zcdp_to_approx(float_up(cost), delta)
        while self.accounting.exact_total(ApproxDP(epsilon, delta)) < cost:
            epsilon *= 1 + 1e-9  # conversions there and back are rounded on the safe side
        return self._open(
            epsilon, float_up(Fraction(delta) + Fraction(own)), self.accounting.name, own, purpose
        )

    def _open(self, epsilon: float, delta: float, kind: str, reserve: float, purpose: str) -> str:
        """Charge the ledger for an allowance, and return the name under which acts are charged to it."""
        event = AllowanceEvent(f"{self._key}-{secrets.token_hex(8)}", epsilon, delta, kind, reserve)
        self.ledger.charge(event, purpose=purpose, scope=self.scope)
        return event.name

    def _delta_left(self, what: str) -> float:
        """Return what is left of the delta of a ledger that adds up plainly, or refuse what needs some."""
        ledger = self.ledger
        delta = float_down(max(Fraction(ledger.rule.approximate_delta) - ledger.spending.delta, Fraction(0)))
        if delta <= 0:
            raise BudgetExceeded(
                f"This needs {what}, which is not pure; the ledger of {ledger.table!r} has no delta left of its "
                f"{ledger.budget.describe()}. Nothing was spent. Ask for a pure epsilon, or agree on a total with a larger delta with the "
                "owner of the table.",
                requested=0.0,
                remaining=0.0,
                accounting="delta",
            )
        return delta

    def _paid_by(self, event: Event, inside: _Opened) -> str:
        """Return the name of the allowance of the ledger that an act is charged to.

        That is the one that was opened for the work, with two exceptions. Another process with the same work may have been quicker to use
        one that both found untouched: then this one opens its own. And the charge of an answer that an interruption lost stays in
        its allowance, which may then have no room for an act that the work can still afford: the ledger is charged for that act
        beside it.

        Privacy
        -------
        Whatever is chosen here, the ledger is charged for each allowance as a whole, and holds the acts that name it to its filter.
        """
        held, spent = self.ledger.spending.allowances[inside.name]
        if not inside.begun and not _untouched(spent):
            inside.name = inside.owner._open_whole()
            held, spent = self.ledger.spending.allowances[inside.name]
        full = not filter_of(held).holds(spent.plus(event, parts=self.ledger.unit.parts_touched))
        if full and inside.again:
            return inside.owner._open_for(event, held.delta)
        return inside.name

    def charge(self, event: Event, *, purpose: str) -> Entry:
        """Commit the cost of an event to the ledger; raise before anything is drawn if it cannot be paid."""
        costs = [(allowance, allowance._affordable(event, purpose)) for allowance in self._allowances()]
        inside = self._inside
        paid = event if inside is None else InsideEvent(self._paid_by(event, inside), event)
        entry = self.ledger.charge(paid, purpose=purpose, scope=self.scope)
        if inside is not None:
            inside.begun = True
        self._use(event, costs)
        return entry

    def repeat(self, event: Event, *, purpose: str) -> None:
        """Count an event that the ledger was charged for before, in work that is being repeated from its journal."""
        self._use(
            event, [(allowance, allowance._affordable(event, purpose)) for allowance in self._allowances()]
        )

    def _use(self, event: Event, costs: Sequence[tuple[Allowance, Fraction]]) -> None:
        delta = delta_of(event, parts=self.ledger.unit.parts_touched)
        for allowance, cost in costs:
            allowance._used += cost
            allowance._delta_used += delta

    def _allowances(self) -> Iterator[Allowance]:
        """Go through this allowance and every one it was taken from."""
        allowance: Allowance | None = self
        while allowance is not None:
            yield allowance
            allowance = allowance._parent

    def _affordable(self, event: Event, purpose: str) -> Fraction:
        """Return the cost of an event in this accounting, or refuse it.

        The event's own delta, if any, must fit the reserve; its epsilon is then a cost like any other.
        """
        parts = self.ledger.unit.parts_touched
        priced = self.accounting.exact_cost(event, parts=parts, reserve=True)
        exact = None if priced is None else Fraction(float_up(priced))
        if self._total is None:
            return Fraction(0) if exact is None else exact
        delta = delta_of(event, parts=parts)
        if delta > self._delta - self._delta_used:
            raise BudgetExceeded(
                f"{purpose} needs a delta of {float(delta):.3g} of its own; the allowance of "
                f"{self.budget.describe()} has {self.reserve:.3g} set aside for that.",
                requested=float(delta),
                remaining=self.reserve,
                accounting="delta",
            )
        if exact is None or exact > self._total - self._used:
            cost = math.inf if exact is None else float(exact)
            raise BudgetExceeded(
                f"{purpose} costs {cost:.6g} ({self.accounting.symbol}); {self.remaining:.6g} of the "
                f"allowance of {self.budget.describe()} remains. Use more noise, or a larger budget.",
                requested=cost,
                remaining=self.remaining,
                accounting=self.accounting.name,
            )
        return exact

    def _require_room(self, accounting: Accounting, wanted: Fraction, budget: Budget) -> None:
        """Refuse a smaller allowance that the ledger or this allowance is sure not to be able to pay.

        Where two accountings differ they cannot be compared in advance; each charge is then judged as it comes.
        """
        ledger = self.ledger
        if self._inside is not None:
            pass  # the ledger was paid for all of this allowance
        elif accounting.name == ledger.accounting.name or (
            accounting.name == PURE.name and isinstance(ledger.budget, ApproxDP)
        ):
            left = ledger.rule.remaining(ledger.spending, accounting=accounting.name)
            if wanted > Fraction(left):
                mixed = accounting.name != ledger.accounting.name and ledger.remaining > 0
                raise BudgetExceeded(
                    cannot_pay(ledger, budget, accounting, float(wanted), left, mixed=mixed),
                    requested=float(wanted),
                    remaining=left,
                    accounting=accounting.name,
                )
        elif ledger.accounting.name == PURE.name:
            raise NoSuchGuarantee(
                f"The ledger of {ledger.table!r} promises {ledger.budget.describe()}, which Gaussian noise cannot keep. "
                "Ask for a pure budget (epsilon without delta)."
            )
        comparable = self._total is not None and accounting.name == self.accounting.name
        if comparable and wanted > Fraction(self.remaining):
            raise BudgetExceeded(
                f"An allowance of {budget.describe()} does not fit into the {self.budget.describe()} it is "
                f"taken from, of which {self.remaining:.6g} ({self.accounting.symbol}) remains.",
                requested=float(wanted),
                remaining=self.remaining,
                accounting=self.accounting.name,
            )

    def _require_reserve(self, reserve: float, budget: Budget) -> None:
        """Refuse a smaller allowance whose own deltas nothing has been set aside for."""
        if Fraction(reserve) > Fraction(self.reserve):
            raise BudgetExceeded(
                f"This needs a delta of {reserve:.3g} of its own, out of {budget.describe()}; "
                f"{max(self.reserve, 0.0):.3g} is set aside for that. Make the ledger with approximate_delta=... "
                "before the first charge (understudy ledger create --approximate-delta).",
                requested=reserve,
                remaining=self.reserve,
                accounting="delta",
            )


@dataclass
class _Opened:
    """An allowance that the ledger was charged for as a whole, shared by all that were taken from it.

    Attributes
    ----------
    owner
        The allowance it was opened for.
    name
        Its name in the ledger.
    begun
        Whether an act of this work was charged to it.
    again
        Whether that was before an interruption, which may have lost an answer.
    """

    owner: Allowance
    name: str
    begun: bool
    again: bool


def _untouched(inside: Spending) -> bool:
    """Say whether nothing was charged to an allowance yet."""
    return not inside.delta and not any(inside.sums.values())


def plain_addition(ledger: Ledger | LedgerView) -> bool:
    """Return whether a ledger adds up epsilons and deltas plainly, so that what is not pure is paid for as a whole."""
    return isinstance(ledger.budget, ApproxDP) and not ledger.accounting.needs_delta
