"""The ledger of a table, opened to pay for one more piece of work."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path

from understudy.errors import LedgerError, LedgerMismatch
from understudy.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.privacy.events import Event, GaussianEvent, PureEvent, ZcdpEvent
from understudy.privacy.filter import Filter
from understudy.privacy.ledger import Ledger
from understudy.privacy.unit import Unit

__all__ = ["paying_ledger"]

_FIRST_USE = "the budget of the first use, before anything was charged"


def paying_ledger(
    path: Path,
    *,
    budget: Budget,
    unit: Unit,
    table: str | None,
    accounting: str | None = None,
    approximate_delta: float,
    advice: str,
) -> Ledger:
    """Open the ledger of a table, or make it with ``budget`` as its total if there is none.

    An existing ledger keeps its own total, which may be larger than what is about to be spent (:meth:`Ledger.open_or_create`
    insists on an equal one); it must belong to the same table and protect the same unit. Where nothing was charged yet, and
    the total is that of an earlier first use, the new budget becomes the total. Where somebody decided on a smaller total,
    the refusal says how to change it.

    Parameters
    ----------
    path
        Where it is, or will be.
    budget, unit
        What is about to be spent, and who is protected.
    table
        The public name of the table; None if the ledger that is there is known to be that of the table.
    accounting
        How a new ledger adds up; by default as its kind of budget usually does.
    approximate_delta
        What a new ledger sets aside for events with a delta of their own.
    advice
        A sentence for those whose ledger is of another table or unit: what to do about it.

    Raises
    ------
    LedgerMismatch
        If the ledger belongs to another table, protects another unit, or has a smaller total that nothing was charged to.

    Examples
    --------
    >>> import tempfile
    >>> from understudy.privacy import PureDP, PureEvent
    >>> terms = {"unit": Unit.add_remove(), "table": "births", "approximate_delta": 0.0, "advice": "Use another."}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder) / "births.ledger"
    ...     first = paying_ledger(place, budget=PureDP(3.0), **terms)
    ...     _ = first.charge(PureEvent(1.0), purpose="count")
    ...     with paying_ledger(place, budget=PureDP(1.0), **terms) as book:
    ...         book.budget
    PureDP(epsilon=3.0)
    """
    if not path.exists() and table is not None:
        try:
            return Ledger.create(
                path,
                budget=budget,
                unit=unit,
                table=table,
                accounting=accounting,
                approximate_delta=approximate_delta,
                provisional=True,
            )
        except LedgerError:
            if not path.exists():
                raise
            # another process was quicker: its ledger is that of the table
    book = Ledger.open(path)
    wrong = []
    if table is not None and book.table != table:
        wrong.append(f"it belongs to the table {book.table!r}, not {table!r}")
    if book.unit != unit:
        wrong.append(f"it protects {book.unit.describe()!r}, not {unit.describe()!r}")
    if wrong:
        book.close()
        raise LedgerMismatch(f"The ledger {str(path)!r} cannot pay for this: {' and '.join(wrong)}. {advice}")
    if not book.charged:
        _fit_total(book, budget, accounting, approximate_delta)
    return book


def _fit_total(book: Ledger, budget: Budget, accounting: str | None, approximate_delta: float) -> None:
    """Give a ledger that nothing was charged to the total that is asked for, or say how somebody can."""
    rule, wanted = book.rule, Filter(budget, book.unit, accounting, approximate_delta)
    if (rule.budget, rule.main, rule.approximate_delta) == (budget, wanted.main, wanted.approximate_delta):
        return
    if book.provisional and all(change.why == _FIRST_USE for change in book.totals()):
        book.change_total(
            budget, why=_FIRST_USE, accounting=wanted.main.name, approximate_delta=approximate_delta
        )
        return
    if isinstance(budget, ApproxDP):
        short = isinstance(book.budget, ApproxDP) and any(
            getattr(budget, item.name) > getattr(book.budget, item.name) for item in fields(budget)
        )
    else:
        short = not book.can_afford(_whole(budget))
    if not short:
        return
    options = " ".join(f"--{item.name} {getattr(budget, item.name):g}" for item in fields(budget))
    if approximate_delta:
        options += f" --approximate-delta {approximate_delta:g}"
    raise LedgerMismatch(
        f"The ledger {str(book.path)!r} has a total of {book.budget.describe()}, and {budget.describe()} is asked for. "
        f"Nothing was charged to it yet, so its total can be changed:\n"
        f"  understudy ledger total {shlex.quote(str(book.path))} {options}"
    )


def _whole(budget: PureDP | ZCDP | GDP) -> Event:
    """Return the event that spends a whole budget at once."""
    if isinstance(budget, PureDP):
        return PureEvent(budget.epsilon)
    return ZcdpEvent(budget.rho) if isinstance(budget, ZCDP) else GaussianEvent(budget.mu, 1.0)
