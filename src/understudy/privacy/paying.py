"""The ledger of a table, opened to pay for one more piece of work."""

from __future__ import annotations

from pathlib import Path

from understudy.errors import LedgerMismatch
from understudy.privacy.budget import Budget
from understudy.privacy.ledger import Ledger
from understudy.privacy.unit import Unit

__all__ = ["paying_ledger"]


def paying_ledger(
    path: Path,
    *,
    budget: Budget,
    unit: Unit,
    table: str,
    accounting: str | None = None,
    approximate_delta: float,
    advice: str,
) -> Ledger:
    """Open the ledger of a table, or make it with ``budget`` as its total if there is none.

    An existing ledger keeps its own total, which may be larger than what is about to be spent (:meth:`Ledger.open_or_create`
    insists on an equal one); it must belong to the same table and protect the same unit.

    Parameters
    ----------
    path
        Where it is, or will be.
    budget, unit, table
        What is about to be spent, who is protected, and the public name of the table.
    accounting
        How a new ledger adds up; by default as its kind of budget usually does.
    approximate_delta
        What a new ledger sets aside for events with a delta of their own.
    advice
        A sentence for those whose ledger is of another table or unit: what to do about it.

    Raises
    ------
    LedgerMismatch
        If the ledger belongs to another table or protects another unit.

    Examples
    --------
    >>> import tempfile
    >>> from understudy.privacy import PureDP
    >>> terms = {"unit": Unit.add_remove(), "table": "births", "approximate_delta": 0.0, "advice": "Use another."}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder) / "births.ledger"
    ...     paying_ledger(place, budget=PureDP(3.0), **terms).close()
    ...     with paying_ledger(place, budget=PureDP(1.0), **terms) as book:
    ...         book.budget
    PureDP(epsilon=3.0)
    """
    if not path.exists():
        return Ledger.create(
            path,
            budget=budget,
            unit=unit,
            table=table,
            accounting=accounting,
            approximate_delta=approximate_delta,
        )
    book = Ledger.open(path)
    wrong = []
    if book.table != table:
        wrong.append(f"it belongs to the table {book.table!r}, not {table!r}")
    if book.unit != unit:
        wrong.append(f"it protects {book.unit.describe()!r}, not {unit.describe()!r}")
    if wrong:
        book.close()
        raise LedgerMismatch(f"The ledger {str(path)!r} cannot pay for this: {' and '.join(wrong)}. {advice}")
    return book
