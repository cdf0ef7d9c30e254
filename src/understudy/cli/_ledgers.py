"""Opening the right ledger, and summing it up for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from understudy.privacy import (
    Budget,
    Consent,
    Facts,
    Ledger,
    LedgerGuarantee,
    Unit,
    check_facts,
    paying_ledger,
)


def open_ledger(
    path: Path, *, budget: Budget, unit: Unit, table: str, approximate_delta: float = 0.0
) -> Ledger:
    """Open or make the ledger that a command named; see :func:`~understudy.privacy.paying_ledger`."""
    return paying_ledger(
        path,
        budget=budget,
        unit=unit,
        table=table,
        approximate_delta=approximate_delta,
        advice="Use the ledger of this table (--ledger), name the table as the ledger does (--table-name), or start "
        "another ledger.",
    )


def check_before_reading(path: Path, facts: Facts, consent: Consent, **terms: Any) -> None:
    """Refuse facts that an existing ledger does not know, before a record is read: what does not fit is an answer too."""
    if path.exists():
        with open_ledger(path, **terms) as book:
            check_facts(book, facts, consent)


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
        "condition": standing.condition.text,
        "invariants": [
            {"subject": fact.subject, "rule": fact.rule, "value": fact.value, "accepted_by": fact.accepted_by}
            for fact in standing.invariants
        ],
    }
