"""What a ledger file says: its tables, its lines as canonical text, and the hash that chains them.

Line 0 is the header (what the ledger is for), every later line an entry. The hash of a line covers the hash
of the line before it, its own number and its text, so no line can be changed, dropped, inserted or moved
without changing every hash after it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from understudy.errors import BudgetError, LedgerCorrupted, LedgerError
from understudy.privacy.accounting.accounting import ACCOUNTINGS
from understudy.privacy.accounting.filter import Filter
from understudy.privacy.budget import Budget, budget_from_dict
from understudy.privacy.events import Event, event_from_dict
from understudy.privacy.ledger.kinds import FIELDS, check_fields, purpose_of
from understudy.privacy.unit import Unit

__all__ = [
    "APPLICATION_ID",
    "FORMAT",
    "FORMATS",
    "GENESIS",
    "PAGE_SIZE",
    "SCHEMA",
    "Entry",
    "Header",
    "entry_text",
    "link",
    "read_entry",
    "read_header",
    "record_text",
]

APPLICATION_ID = 0x554E4453  # "UNDS"
FORMAT = 2
FORMATS = (1, 2)
"""Formats that are read. Format 1 (version 0.1.0) promised charges and notes only. It may be continued with the other
kinds: version 0.1.0 refuses a line of a kind it does not know."""
PAGE_SIZE = 16384
GENESIS = bytes(32)

SCHEMA: tuple[tuple[str, str, str, int, str], ...] = (
    (
        "table",
        "line",
        "line",
        2,
        "CREATE TABLE line (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, hash BLOB NOT NULL)",
    ),
    (
        "trigger",
        "never_change",
        "line",
        0,
        "CREATE TRIGGER never_change BEFORE UPDATE ON line "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    ),
    (
        "trigger",
        "never_delete",
        "line",
        0,
        "CREATE TRIGGER never_delete BEFORE DELETE ON line "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    ),
    (
        "trigger",
        "only_append",
        "line",
        0,
        "CREATE TRIGGER only_append BEFORE INSERT ON line "
        "WHEN NEW.sequence IS NOT (SELECT COALESCE(MAX(sequence) + 1, 0) FROM line) "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    ),
)
"""Rows of ``sqlite_schema``: type, name, table, root page, SQL text."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a ledger is for: what may not change during its life, and the total it was made with."""

    ledger_id: str
    table: str
    rule: Filter
    created: str
    writer: int
    format: int = FORMAT
    provisional: bool = False

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        return self.rule.unit

    @property
    def budget(self) -> Budget:
        """The total it was made with."""
        return self.rule.budget

    def text(self) -> str:
        """Return the header as the text of line 0."""
        provisional = {"provisional": True} if self.provisional else {}
        return _canonical(
            provisional
            | {
                "kind": "header",
                "format": self.format,
                "ledger": self.ledger_id,
                "table": self.table,
                "unit": self.rule.unit.to_dict(),
                "budget": self.rule.budget.to_dict(),
                "accounting": self.rule.main.name,
                "approximate_delta": self.rule.approximate_delta,
                "created": self.created,
                "writer": self.writer,
            }
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a ledger after its header.

    Attributes
    ----------
    sequence
        1 for the first entry.
    time
        When it was written (UTC, ISO 8601).
    kind
        ``"charge"``, or one of the kinds that cost nothing: ``"note"``, ``"invariant"``, ``"facts"``, ``"total"``.
    purpose, scope
        Public words: what the act was for, and which release or step it belongs to.
    event
        What was done; None for anything but a charge.
    costs
        Its cost in each accounting, rounded up; infinity where it has none.
    delta
        The event's own failure probability.
    writer
        Version number of the SQLite library that wrote the line.
    hash
        The line's link in the chain, as hexadecimal text.
    fields
        What an invariant, facts or a total say, by name; empty for charges and notes.
    operator, host
        Who ran the program that wrote the line, and on which machine; empty unless that was asked for (:func:`~understudy.privacy.ledger.operator.operated_by`).
    """

    sequence: int
    time: str
    kind: str
    purpose: str
    scope: str
    event: Event | None
    costs: Mapping[str, float]
    delta: float
    writer: int
    hash: str
    fields: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    operator: str = ""
    host: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the line as plain values; a cost that does not exist is left out."""
        return {
            "sequence": self.sequence,
            "time": self.time,
            "kind": self.kind,
            "purpose": self.purpose,
            "scope": self.scope,
            "event": None if self.event is None else self.event.to_dict(),
            "costs": {name: cost for name, cost in self.costs.items() if math.isfinite(cost)},
            "delta": self.delta,
            "hash": self.hash,
            **({"operator": self.operator} if self.operator else {}),
            **({"host": self.host} if self.host else {}),
        } | ({"fields": dict(self.fields)} if self.fields else {})


def link(previous: bytes, sequence: int, text: bytes) -> bytes:
    """Return the hash of one line, given the hash of the line before it."""
    digest = hashlib.sha256(b"understudy-ledger-1\0")
    digest.update(previous)
    digest.update(sequence.to_bytes(8, "big"))
    digest.update(text)
    return digest.digest()


def entry_text(
    *,
    time: str,
    purpose: str,
    scope: str,
    writer: int,
    event: Event | None = None,
    costs: Mapping[str, float] | None = None,
    delta: float = 0.0,
    by: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the text of an entry; a note if there is no event."""
    values: dict[str, Any] = {"time": time, "purpose": purpose, "scope": scope, "writer": writer, **by}
    if event is None:
        return _canonical(values | {"kind": "note"})
    prices = {name: None if math.isinf(cost) else cost for name, cost in (costs or {}).items()}
    return _canonical(values | {"kind": "charge", "event": event.to_dict(), "costs": prices, "delta": delta})


def record_text(
    kind: str,
    fields: Mapping[str, Any],
    *,
    time: str,
    scope: str,
    writer: int,
    by: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the text of an invariant, facts or a total."""
    values = {"time": time, "scope": scope, "writer": writer, "kind": kind, **by}
    return _canonical(values | {"fields": dict(check_fields(kind, fields))})


def read_header(text: bytes) -> Header:
    """Return the header that line 0 holds."""
    values = _parse(text, 0)
    if values.get("kind") != "header":
        raise LedgerCorrupted("Line 0 of the ledger is not a header.")
    if values.get("format") not in FORMATS:
        raise LedgerError(
            f"The ledger has format {values.get('format')!r}; this version reads formats "
            f"{' and '.join(map(str, FORMATS))}. Use the version of Understudy that wrote it, or a newer one."
        )
    _require(values, {"kind", "format", "ledger", "table", "unit", "budget", "accounting"}, 0)
    _require(values, {"approximate_delta", "created", "writer"}, 0)
    try:
        unit, budget = Unit.from_dict(values["unit"]), budget_from_dict(values["budget"])
        rule = Filter(budget, unit, values["accounting"], values["approximate_delta"])
    except (BudgetError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise LedgerCorrupted(f"Line 0 of the ledger cannot be understood: {error}") from None
    return Header(
        _text(values, "ledger", 0),
        _text(values, "table", 0),
        rule,
        _text(values, "created", 0),
        _writer(values, 0),
        int(values["format"]),
        values.get("provisional") is True,
    )


def read_entry(sequence: int, text: bytes, digest: bytes) -> Entry:
    """Return the entry that a later line holds; the hash is the caller's to check."""
    values = _parse(text, sequence)
    kind = values.get("kind")
    if kind not in ("charge", "note", *FIELDS):
        raise LedgerCorrupted(
            f"Line {sequence} of the ledger is of a kind that this version does not know: it was changed, or written by a "
            "newer version of Understudy."
        )
    if kind in FIELDS:
        return _read_record(sequence, str(kind), values, digest)
    _require(values, {"time", "purpose", "scope", "writer"}, sequence)
    event, costs, delta = None, {}, 0.0
    if kind == "charge":
        _require(values, {"event", "costs", "delta"}, sequence)
        try:
            event = event_from_dict(values["event"])
            given = values["costs"]
            costs = {n: math.inf if given[n] is None else float(given[n]) for n in ACCOUNTINGS}
            delta = float(values["delta"])
            if not all(cost >= 0 for cost in (*costs.values(), delta)):
                raise ValueError("a cost is not a number, or below zero")
        except (BudgetError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise LedgerCorrupted(f"Line {sequence} of the ledger cannot be understood: {error}") from None
    return Entry(
        sequence,
        _text(values, "time", sequence),
        str(kind),
        _text(values, "purpose", sequence),
        _text(values, "scope", sequence),
        event,
        MappingProxyType(costs),
        delta,
        _writer(values, sequence),
        digest.hex(),
        **_by(values, sequence),
    )


def _read_record(sequence: int, kind: str, values: Mapping[str, Any], digest: bytes) -> Entry:
    _require(values, {"time", "scope", "writer", "fields"}, sequence)
    try:
        fields = check_fields(kind, values["fields"])
        purpose = purpose_of(kind, fields)
    except (LedgerError, BudgetError, TypeError, ValueError) as error:
        raise LedgerCorrupted(f"Line {sequence} of the ledger cannot be understood: {error}") from None
    return Entry(
        sequence,
        _text(values, "time", sequence),
        kind,
        purpose,
        _text(values, "scope", sequence),
        None,
        MappingProxyType({}),
        0.0,
        _writer(values, sequence),
        digest.hex(),
        fields,
        **_by(values, sequence),
    )


def _by(values: Mapping[str, Any], sequence: int) -> dict[str, Any]:
    """Return who wrote a line and where, as far as it says so."""
    return {name: _text(values, name, sequence) for name in ("operator", "host") if name in values}


def _canonical(values: Mapping[str, Any]) -> str:
    """One text per value: sorted keys, no spaces, plain ASCII, shortest exact floats."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _parse(text: bytes, sequence: int) -> dict[str, Any]:
    try:
        values = json.loads(text)
        same = isinstance(values, dict) and _canonical(values).encode("ascii") == text
    except (ValueError, RecursionError):
        same = False
    if not same:
        raise LedgerCorrupted(f"Line {sequence} of the ledger is not in canonical form.")
    return dict(values)


def _require(values: Mapping[str, Any], names: set[str], sequence: int) -> None:
    missing = sorted(names - set(values))
    if missing:
        raise LedgerCorrupted(f"Line {sequence} of the ledger lacks {', '.join(missing)}.")


def _text(values: Mapping[str, Any], name: str, sequence: int) -> str:
    if not isinstance(values[name], str):
        raise LedgerCorrupted(f"Line {sequence} of the ledger: {name} is not text.")
    return str(values[name])


def _writer(values: Mapping[str, Any], sequence: int) -> int:
    if type(values["writer"]) is not int:
        raise LedgerCorrupted(f"Line {sequence} of the ledger has no writer.")
    return int(values["writer"])
