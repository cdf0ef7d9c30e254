"""The facts that the owner of a table answers for, and the ledger that remembers them.

What a table is read as (columns and their values, derived columns, cleaning rules, reading options, unit) decides which questions
its records answer for nothing: a value that does not fit is a refusal, and a refusal is an answer. So the facts are the owner's, the choices
(methods, criteria, budget) are the analyst's, and a ledger remembers the facts it was opened for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.errors import LedgerMismatch
from understudy.privacy.guarantee import ROWS
from understudy.privacy.invariants import NO_CONSENT, Consent, check_rows
from understudy.privacy.ledger.ledger import Entry, Ledger

__all__ = ["Facts", "bind_facts", "check_facts", "fingerprint_of", "remember_facts"]

_SHORT = 12


def fingerprint_of(content: Any) -> str:
    """Return a SHA-256 of plain values, whatever the order of keys.

    Examples
    --------
    >>> fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    True
    """
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(b"understudy facts\n" + text.encode("ascii")).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the owner of a table declares about it, as plain values by part.

    Attributes
    ----------
    parts
        The parts that decide which questions the records answer when they are read, each in a form in which equal
        meanings are equal values.
    others
        Facts that ask nothing of the records, such as the rules of the schema that synthetic records obey.
    declares_rows
        Whether an exact number of rows is declared public.
    rows
        The number, where it is declared as a value.
    rule
        What the number of rows is counted after, in words.

    Examples
    --------
    >>> one = Facts(parts={"columns": ["age"], "cleaning rules": []})
    >>> two = Facts(parts={"columns": ["age"], "cleaning rules": ["age > 1"]})
    >>> one.fingerprint() == two.fingerprint(), two.differences(one.summary())
    (False, ['cleaning rules'])
    """

    parts: Mapping[str, Any]
    others: Mapping[str, Any] = field(default_factory=dict)
    declares_rows: bool = False
    rows: int | None = None
    rule: str = ""

    def fingerprint(self) -> str:
        """Return a SHA-256 of all facts."""
        rows = [self.rows] if self.declares_rows else None
        return fingerprint_of({"parts": dict(self.parts), "others": dict(self.others), "rows": rows})

    def binding_fingerprint(self) -> str:
        """Return a SHA-256 of the parts that a ledger remembers: those that ask something of the records.

        The number of rows has entries of its own (:mod:`understudy.privacy.invariants`).
        """
        return fingerprint_of(dict(self.parts))

    def summary(self) -> str:
        """Return the parts with the beginning of the fingerprint of each, for the ledger."""
        return "; ".join(f"{name} {fingerprint_of(part)[:_SHORT]}" for name, part in self.parts.items())

    def differences(self, summary: str) -> list[str]:
        """Return the names of the parts that differ from those a summary speaks of."""
        other = dict(item.rsplit(" ", 1) for item in summary.split("; ") if " " in item)
        mine = dict(item.rsplit(" ", 1) for item in self.summary().split("; "))
        return [name for name in {**mine, **other} if mine.get(name) != other.get(name)]


def check_facts(ledger: Ledger, facts: Facts, consent: Consent = NO_CONSENT) -> None:
    """Refuse facts that a ledger does not know, unless the owner agrees; called before any record is read.

    Raises
    ------
    LedgerMismatch
        If the ledger was opened for other facts, or for another number of rows, and the owner did not agree to these.

    Privacy
    -------
    Looks at the ledger and at no record.

    Examples
    --------
    >>> from understudy.privacy import PureDP, Unit
    >>> ledger = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove())
    >>> remember_facts(ledger, Facts(parts={"columns": ["age"]}))
    >>> check_facts(ledger, Facts(parts={"columns": ["age"]}))
    >>> check_facts(ledger, Facts(parts={"columns": ["age", "sex"]}), Consent(facts=True, by="A. Owner"))
    >>> [record.accepted_by for record in ledger.facts]
    ['', 'A. Owner']
    """
    known, wanted = ledger.facts, facts.binding_fingerprint()
    others = bool(known) and wanted not in {record.fingerprint for record in known}
    if others and not consent.facts:
        closest = min((facts.differences(record.summary) for record in known), key=len)
        raise LedgerMismatch(
            f"The ledger of {ledger.table!r} was opened for other facts about the table. What differs: "
            f"{', '.join(closest) or 'the facts'}. Other facts ask other questions of the records, so they are the owner's to "
            "decide. No record was read and nothing was charged. Use the facts of the ledger, or, as the owner of the table, agree "
            "to these with --accept-facts (Consent(facts=True) in Python), which the ledger will name."
        )
    if facts.declares_rows:
        check_rows(ledger, rule=facts.rule, value=facts.rows, consent=consent)
    if others:
        ledger.record_facts(wanted, summary=facts.summary(), accepted_by=consent.name)


def remember_facts(ledger: Ledger, facts: Facts, consent: Consent = NO_CONSENT) -> None:
    """Write the facts into a ledger that knows none yet; called before its first charge."""
    if not ledger.facts:
        by = consent.name if consent.facts else ""
        ledger.record_facts(facts.binding_fingerprint(), summary=facts.summary(), accepted_by=by)


def bind_facts(ledger: Ledger, facts: Facts, by: str) -> Entry:
    """Write facts, and the number of rows they declare public, into a ledger in the name of the owner.

    Privacy
    -------
    Reads no record. A declared number is compared with the table when the table is read: :func:`~understudy.privacy.invariants.declare_rows`.
    """
    if facts.declares_rows:
        ledger.record_invariant(subject=ROWS, rule=facts.rule, value=facts.rows, accepted_by=by)
    return ledger.record_facts(facts.binding_fingerprint(), summary=facts.summary(), accepted_by=by)
