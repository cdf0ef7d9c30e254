"""Opening the right ledger, and summing it up for programs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from understudy.errors import LedgerMismatch
from understudy.privacy import Budget, Entry, Ledger, LedgerGuarantee, Unit


def open_ledger(
    path: Path, *, budget: Budget, unit: Unit, table: str, approximate_delta: float = 0.0
) -> Ledger:
    """Open the ledger of a table, or create it with ``budget`` as the total if there is none.

    A new one sets ``approximate_delta`` aside for events with a delta of their own.

    An existing ledger keeps its own total, which may be larger than what is about to be spent; it must
    belong to the same table and protect the same unit.
    """
    if not path.exists():
        return Ledger.create(path, budget=budget, unit=unit, table=table, approximate_delta=approximate_delta)
    book = Ledger.open(path)
    wrong = []
    if book.table != table:
        wrong.append(f"it belongs to the table {book.table!r}, not {table!r}")
    if book.unit != unit:
        wrong.append(f"it protects {book.unit.describe()!r}, not {unit.describe()!r}")
    if wrong:
        book.close()
        raise LedgerMismatch(
            f"The ledger {str(path)!r} cannot pay for this: {' and '.join(wrong)}. "
            "Use the ledger of this table (--ledger), name the table as the ledger does (--table-name), or start "
            "another ledger."
        )
    return book


def summary(standing: LedgerGuarantee) -> dict[str, Any]:
    """Return the standing of a ledger as plain values."""
    return {
        "table": standing.table,
        "unit": standing.unit.to_dict(),
        "budget": standing.budget.to_dict(),
        "accounting": standing.accounting,
        "total": standing.total,
        "spent": dict(standing.spent),
        "remaining": standing.remaining,
        "entries": standing.entries,
        "head_hash": standing.head_hash,
    }


def entry_dict(entry: Entry) -> dict[str, Any]:
    """Return one entry of a ledger as plain values; a cost that does not exist is left out."""
    return {
        "sequence": entry.sequence,
        "time": entry.time,
        "kind": entry.kind,
        "scope": entry.scope,
        "purpose": entry.purpose,
        "event": None if entry.event is None else entry.event.to_dict(),
        "costs": {name: cost for name, cost in entry.costs.items() if math.isfinite(cost)},
        "delta": entry.delta,
        "hash": entry.hash,
    }
