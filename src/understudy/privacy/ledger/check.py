"""Check a ledger's lines: the chain, the costs, the bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from understudy.errors import LedgerCorrupted, LedgerError, LedgerMismatch
from understudy.privacy.accounting.accounting import ACCOUNTINGS, Accounting, sum_up
from understudy.privacy.accounting.filter import Filter, Spending
from understudy.privacy.events import Event
from understudy.privacy.exact_floats import float_up
from understudy.privacy.ledger.format import GENESIS, Entry, Header, link, read_entry, read_header
from understudy.privacy.ledger.image import ImageError, Line, read_image
from understudy.privacy.ledger.kinds import raised, total_rule

__all__ = [
    "Known",
    "check_history",
    "check_image",
    "checked",
    "must_match",
    "price",
    "read_lines",
    "recorded_spending",
]


@dataclass(frozen=True, slots=True)
class Known:
    """How far a ledger has been read: the number of lines, the last hash, the rule in force, and the sums."""

    lines: int
    head: bytes
    rule: Filter
    spending: Spending
    charges: int = 0

    def after(self, entry: Entry) -> Known:
        """Return what is known once one more line is read."""
        seen = replace(self, lines=self.lines + 1, head=bytes.fromhex(entry.hash))
        if entry.event is not None:
            return replace(
                seen, spending=self.rule.plus(self.spending, entry.event), charges=self.charges + 1
            )
        if entry.kind == "total":
            rule = rule_after(self.rule, entry, charged=self.charges > 0)
            # a total keeps its kind, hence its sums, once something was charged
            return replace(seen, rule=rule, spending=self.spending if self.charges else rule.nothing())
        return seen


def read_lines(lines: list[Line]) -> tuple[Header, Known, list[Entry]]:
    """Check the chain of all lines and add up what they cost under the total in force."""
    if lines[0][0] != 0 or lines[0][2] != link(GENESIS, 0, lines[0][1]):
        raise LedgerCorrupted("The hash chain of the ledger is broken at its header.")
    header = read_header(lines[0][1])
    known, entries = beginning(header, lines[0][2]), []
    for line in lines[1:]:
        entry = checked(line, known)
        known = known.after(entry)
        entries.append(entry)
    return header, known, entries


def beginning(header: Header, head: bytes) -> Known:
    """Return what is known of a ledger when its header is read."""
    return Known(1, head, header.rule, header.rule.nothing())


def rule_after(rule: Filter, entry: Entry, *, charged: bool) -> Filter:
    """Return the rule that an entry of kind ``total`` puts in force; refuse one that could not have been written."""
    try:
        new = total_rule(rule, entry.fields)
        if charged:
            raised(rule, new)
    except LedgerError as error:
        raise LedgerCorrupted(
            f"Line {entry.sequence} of the ledger changes the total wrongly: {error}"
        ) from None
    return new


def check_history(header: Header, entries: list[Entry]) -> None:
    """Check that each charge was within the total that was in force when it was made, and records its whole cost."""
    known = beginning(header, b"")
    for entry in entries:
        known = known.after(entry)
        if entry.event is not None:
            check_costs(entry, header.unit.parts_touched)
            if not known.rule.holds(known.spending):
                raise LedgerCorrupted("The charges of the ledger add up to more than its budget.")


def checked(line: Line, known: Known) -> Entry:
    """Return the entry of the line after those that are known, if its number and hash are what they should be."""
    sequence, text, digest = line
    if sequence != known.lines or digest != link(known.head, sequence, text):
        raise LedgerCorrupted(f"The hash chain of the ledger is broken at line {known.lines}.")
    return read_entry(sequence, text, digest)


def check_image(image: bytes, lines: list[Line], writer: int, format_number: int) -> None:
    """Check that a file's bytes are exactly those that its lines imply."""
    try:
        found = read_image(image)
    except ImageError as error:
        raise LedgerCorrupted(f"The ledger file was changed: {error}.") from None
    if found.lines != lines:
        raise LedgerCorrupted("The ledger file was changed: its lines read differently byte by byte.")
    if found.writer != writer or found.format != format_number:
        raise LedgerCorrupted("The ledger file was changed: its header and its last line disagree.")


def recorded_spending(entries: list[Entry], tracked: Spending) -> Spending:
    """Add the accountings that the filter does not track, by the costs that were written down."""
    sums: dict[str, Fraction | None] = {}
    for name in ACCOUNTINGS:
        costs = [entry.costs[name] for entry in entries if entry.event is not None]
        if name in tracked.sums:
            sums[name] = tracked.sums[name]
        else:
            sums[name] = None if any(map(math.isinf, costs)) else sum_up(list(map(Fraction, costs)))
    return Spending(sums, tracked.delta)


def check_costs(entry: Entry, parts: int) -> None:
    """Check that an entry does not record less than its event costs."""
    assert entry.event is not None
    for name, accounting in ACCOUNTINGS.items():
        if entry.costs.get(name, -1.0) < price(accounting, entry.event, parts):
            raise LedgerCorrupted(f"Line {entry.sequence} of the ledger records less than its event costs.")


def price(accounting: Accounting, event: Event, parts: int) -> float:
    """Return what is written down as an event's cost: rounded up, infinity if there is none."""
    exact = accounting.exact_cost(event, parts=parts, reserve=True)
    return float("inf") if exact is None else float_up(exact)


def must_match(path: Path | None, mine: Header, rule: Filter, wanted: Header) -> None:
    """Refuse a ledger that was made for another table, unit, budget or accounting."""
    sides = [
        ("table", mine.table, wanted.table),
        ("privacy unit", mine.unit.describe(), wanted.unit.describe()),
        ("budget", rule.budget.to_dict(), wanted.budget.to_dict()),
        ("accounting", rule.main.name, wanted.rule.main.name),
        ("approximate_delta", rule.approximate_delta, wanted.rule.approximate_delta),
    ]
    different = [f"{name}: the ledger has {a!r}, asked for {b!r}" for name, a, b in sides if a != b]
    if different:
        raise LedgerMismatch(
            f"The ledger {path} was made for something else:\n  - "
            + "\n  - ".join(different)
            + "\nUse the ledger's own values, or another ledger file for another table. The total of a ledger can be changed "
            "while nothing is charged to it, and raised later: Ledger.change_total, or `understudy ledger total`."
        )
