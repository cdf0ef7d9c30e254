"""Summing a ledger up for programs; options about ledgers that commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from understudy.ledgers import LedgerPlace
from understudy.privacy import Consent, Facts, LedgerGuarantee, check_facts

AnotherLedger = Annotated[
    bool,
    typer.Option(
        "--another-ledger",
        help="Consent to a further ledger for a table that has one already. What the two promise adds up.",
    ),
]
ADVICE = "Use the ledger of this table (--ledger), name the table as the ledger does (--table-name), or, if this is another table, give it a ledger of its own (--ledger FILE)."
"""For those whose ledger is of another table or unit."""


def check_before_reading(place: LedgerPlace, facts: Facts, consent: Consent, **terms: Any) -> None:
    """Refuse facts that an existing ledger does not know, before a record is read: what does not fit is an answer too."""
    if place.path.exists():
        with place.opened(**terms) as book:
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
