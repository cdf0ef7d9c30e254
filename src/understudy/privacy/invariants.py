"""Exact public numbers about a table: written into its ledger before they are used, and named by every guarantee.

A promise is about neighbouring tables. If the number of rows is published exactly, it is about neighbours *among the tables with
that number of rows*, and a guarantee that does not say so says too much. Two such numbers, counted after different rules, can be
subtracted, and "is it 158,495?" is a question about the records like any other. So an exact number is an entry of the ledger,
the first one costs nothing, and every further one needs the consent of the owner.

What is told, and to whom:

- A number that is declared as a value is written down first and compared with the table then. If it is wrong, that is written
  down too, the run is refused, and another number needs the owner's consent: whoever has no consent learns at most one answer.
- A number that is declared public whatever it is, or that the relation fixes, is written down as it is.
- A refusal for want of consent is given before the number is looked at, and shows nothing that the ledger does not hold already.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from dataclasses import dataclass

from understudy.errors import DataError, LedgerMismatch
from understudy.privacy.guarantee import ROWS, WRONG, key_of, phrase, refuted
from understudy.privacy.ledger.kinds import Invariant
from understudy.privacy.ledger.ledger import Ledger

__all__ = ["NO_CONSENT", "Consent", "check_rows", "copy_invariants", "declare_rows"]


@dataclass(frozen=True, slots=True)
class Consent:
    """What the owner of a table agrees to, and who that is.

    Attributes
    ----------
    facts
        Other facts about the table (schema, cleaning, derived columns, reading) than the ledger was opened for.
    invariant
        A further exact number about the table.
    by
        Who agrees, written into the ledger; by default the name of the user.

    Examples
    --------
    >>> Consent(facts=True, by="A. Owner").name
    'A. Owner'
    """

    facts: bool = False
    invariant: bool = False
    by: str = ""

    @property
    def name(self) -> str:
        """Who agrees."""
        if self.by.strip():
            return self.by.strip()
        try:
            return getpass.getuser()
        except (OSError, KeyError, ImportError):  # no such user, as in some containers
            return "a user without a name"


NO_CONSENT = Consent()
"""Nobody agreed to anything."""


def check_rows(ledger: Ledger, *, rule: str, value: int | None, consent: Consent = NO_CONSENT) -> None:
    """Refuse to look at an exact number of rows that the owner of the table has not agreed to.

    Parameters
    ----------
    ledger
        The ledger of the table.
    rule
        What the number is counted after: :func:`~understudy.privacy.guarantee.rows_rule`.
    value
        The number, or None for "whatever it is".
    consent
        What the owner agrees to.

    Raises
    ------
    LedgerMismatch
        If the ledger knows another number, or was opened without one, and the owner did not agree to this one.
    DataError
        If the number was declared before and is wrong.

    Privacy
    -------
    Looks at the ledger and at no record.
    """
    known = ledger.invariants()
    stated = [item for item in known if item.subject == ROWS]
    wrong = refuted(known)
    if value is not None and (rule, value) in wrong:
        raise _wrong_number(value, rule)
    valid = [item for item in stated if item.rule == rule and (item.rule, item.value) not in wrong]
    same = any(value is None or item.value is None or item.value == value for item in valid)
    if same or consent.invariant or not (stated or ledger.facts):
        return
    raise _not_agreed(ledger, rule, value)


def declare_rows(
    ledger: Ledger,
    *,
    rule: str,
    exact: int,
    declared: int | None = None,
    fixed: bool = False,
    consent: Consent = NO_CONSENT,
    scope: str = "",
) -> None:
    """Write an exact number of rows into the ledger before anything uses it.

    Parameters
    ----------
    ledger, rule, consent
        As for :func:`check_rows`.
    exact
        The exact number of rows.
    declared
        The number as it was declared, or None for "whatever it is".
    fixed
        Whether all neighbouring tables have equally many rows, so that nobody had to declare the number. It may change with
        the table while nothing was charged.
    scope
        Public words for the work it belongs to.

    Raises
    ------
    LedgerMismatch
        If this is another number than the ledger holds and the owner did not agree to it. The message does not show it.
    DataError
        If the declared number is wrong.

    Privacy
    -------
    In: private. Out: the exact number (``declared`` is None), or whether the declared one is right. Both are exact public facts, and the
    promise is about tables that agree on them (:func:`~understudy.privacy.guarantee.condition_of`). The declared number is on the disk before it is compared, so
    that a run that is stopped cannot ask once more for nothing; that it is wrong is an entry too.
    """
    by = consent.name if consent.invariant else ""
    if not fixed:
        check_rows(ledger, rule=rule, value=declared, consent=consent)
    value = exact if declared is None else declared
    try:
        _write(ledger, ROWS, rule, value, by, scope, shown=declared)
    except LedgerMismatch:
        if not fixed or declared is not None or any(entry.event is not None for entry in ledger.entries()):
            raise
        # the table may be corrected before its first use
        _write(ledger, ROWS, rule, value, "nobody had to: nothing was charged yet", scope, shown=None)
    if value != exact:
        _write(ledger, WRONG, rule, value, by, scope, shown=declared)
        raise _wrong_number(value, rule)


def copy_invariants(invariants: Iterable[Invariant], target: Ledger) -> None:
    """Give a ledger in memory, which one attempt of a loop is held to, the exact public numbers of the ledger that pays."""
    for item in invariants:
        target.record_invariant(
            subject=item.subject,
            rule=item.rule,
            value=item.value,
            accepted_by=item.accepted_by or "as recorded before",
        )


def _write(
    ledger: Ledger, subject: str, rule: str, value: int, by: str, scope: str, *, shown: int | None
) -> None:
    try:
        ledger.record_invariant(subject=subject, rule=rule, value=value, accepted_by=by, scope=scope)
    except LedgerMismatch:  # its message shows the number, which nobody agreed to
        raise _not_agreed(ledger, rule, shown) from None


def _wrong_number(value: int, rule: str) -> DataError:
    return DataError(
        f"row_count: the table does not have {phrase((rule, value))}. The ledger says so now, because it is an answer about the "
        "records. Another number needs the owner's consent (--accept-invariant, or Consent(invariant=True) in Python); measure it "
        "instead ({epsilon: ...}), or leave it out to keep it private. The owner can compare schema and table with "
        "`understudy schema check`."
    )


def _not_agreed(ledger: Ledger, rule: str, value: int | None) -> LedgerMismatch:
    asked = phrase((rule, value)) if value is not None else "the exact number of rows"
    asked += f" after rule {rule!r}" if value is None and rule else ""
    known, wrong = ledger.invariants(), refuted(ledger.invariants())
    held = [phrase(key_of(item)) for item in known if item.subject == ROWS and key_of(item) not in wrong]
    held += [f"that {phrase(key)} is wrong" for key in wrong]
    holds = f"holds {' and '.join(held)}" if held else "was opened without a public number of rows"
    more = "another exact fact" if held else "an exact fact"
    return LedgerMismatch(
        f"The ledger of {ledger.table!r} {holds}; this would make {more} public ({asked}), for nothing, and two of them "
        "can be subtracted. Nothing was looked at or charged. Measure the number of rows (row_count: {epsilon: ...}) or leave "
        "it out; or, as the owner of the table, agree to it with --accept-invariant (Consent(invariant=True) in Python), which "
        "the ledger and every guarantee will name."
    )
