"""Check a ledger's lines: the chain, the costs, the bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from understudy.errors import LedgerCorrupted, LedgerMismatch
from understudy.privacy._accounting_base import sum_up
from understudy.privacy._ledger_format import GENESIS, Entry, Header, link, read_entry, read_header
from understudy.privacy._ledger_image import ImageError, Line, read_image
from understudy.privacy._numbers import float_up
from understudy.privacy.accounting import ACCOUNTINGS, Accounting
from understudy.privacy.events import Event
from understudy.privacy.filter import Spending

__all__ = [
    "Known",
    "check_costs",
    "check_image",
    "checked",
    "must_match",
    "price",
    "read_lines",
    "recorded_spending",
]


@dataclass(frozen=True, slots=True)
class Known:
    """How far a ledger has been read: the number of lines, the last hash, and the sums."""

    lines: int
    head: bytes
    spending: Spending


def read_lines(lines: list[Line]) -> tuple[Header, Known, list[Entry]]:
    """Check the chain of all lines and add up what they cost."""
    if lines[0][0] != 0 or lines[0][2] != link(GENESIS, 0, lines[0][1]):
        raise LedgerCorrupted("The hash chain of the ledger is broken at its header.")
    header = read_header(lines[0][1])
    head, spending, entries = lines[0][2], header.rule.nothing(), []
    for expected, line in enumerate(lines[1:], start=1):
        entry = checked(line, head, expected)
        head = line[2]
        entries.append(entry)
        if entry.event is not None:
            spending = header.rule.plus(spending, entry.event)
    return header, Known(len(lines), head, spending), entries


def checked(line: Line, previous: bytes, expected: int) -> Entry:
    """Return the entry of one line whose number and hash are what they should be."""
    sequence, text, digest = line
    if sequence != expected or digest != link(previous, sequence, text):
        raise LedgerCorrupted(f"The hash chain of the ledger is broken at line {expected}.")
    return read_entry(sequence, text, digest)


def check_image(image: bytes, lines: list[Line], writer: int) -> None:
    """Check that a file's bytes are exactly those that its lines imply."""
    try:
        found = read_image(image)
    except ImageError as error:
        raise LedgerCorrupted(f"The ledger file was changed: {error}.") from None
    if found.lines != lines:
        raise LedgerCorrupted("The ledger file was changed: its lines read differently byte by byte.")
    if found.writer != writer:
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


def must_match(path: Path | None, mine: Header, wanted: Header) -> None:
    """Refuse a ledger that was made for another table, unit, budget or accounting."""
    sides = [
        ("table", mine.table, wanted.table),
        ("privacy unit", mine.unit.describe(), wanted.unit.describe()),
        ("budget", mine.budget.to_dict(), wanted.budget.to_dict()),
        ("accounting", mine.rule.main.name, wanted.rule.main.name),
        ("approximate_delta", mine.rule.approximate_delta, wanted.rule.approximate_delta),
    ]
    different = [f"{name}: the ledger has {a!r}, asked for {b!r}" for name, a, b in sides if a != b]
    if different:
        raise LedgerMismatch(
            f"The ledger {path} was made for something else:\n  - "
            + "\n  - ".join(different)
            + "\nUse the ledger's own values, or another ledger file for another table."
        )
