"""The durable record of everything that was ever asked of a table.

A ledger is made once per table with a privacy unit that can never change and a total budget that, once something was
charged, can only be raised, by an entry that says who decided it and why. Every private
act is *charged* before its noise is drawn, and ``charge`` returns only when the charge is on the disk. If the
process is killed at any instant, each act is either absent from the ledger, and then no noise was drawn for
it, or present, and then it counts as spent whether or not anybody saw the answer.
"""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, get_args

from understudy._html import html_table
from understudy.errors import BudgetError, LedgerCorrupted, LedgerError
from understudy.privacy.accounting.accounting import ACCOUNTINGS, Accounting, delta_of
from understudy.privacy.accounting.filter import Filter, Spending
from understudy.privacy.budget import Budget, budget_from_dict
from understudy.privacy.events import Event, InsideEvent
from understudy.privacy.exact_floats import float_up
from understudy.privacy.ledger.anchors import Anchor, require_no_rollback, require_own_anchor
from understudy.privacy.ledger.check import (
    Known,
    check_history,
    check_image,
    checked,
    must_match,
    price,
    read_lines,
    recorded_spending,
)
from understudy.privacy.ledger.format import Entry, Header, entry_text, read_entry, record_text
from understudy.privacy.ledger.kinds import (
    FactsRecord,
    Invariant,
    TotalChange,
    check_fields,
    public_text,
    raised,
    stated_facts,
    stated_invariant,
)
from understudy.privacy.ledger.operator import present_operator
from understudy.privacy.ledger.report import LedgerGuarantee, refusal
from understudy.privacy.ledger.store import Store, append, lines_from
from understudy.privacy.unit import Unit

__all__ = ["Entry", "FactsRecord", "Invariant", "Ledger", "LedgerGuarantee", "TotalChange"]

_LOG = logging.getLogger(__name__)
_PATIENCE = 60.0
_WRITER = int("{:d}{:03d}{:03d}".format(*sqlite3.sqlite_version_info))


class Ledger:
    """Append-only, hash-chained account of one table's privacy budget.

    Make one with :meth:`create`, :meth:`open`, :meth:`open_or_create` or, for tests and examples,
    :meth:`in_memory`.

    Privacy
    -------
    The sum of all charges never exceeds the total of the budget, whatever processes share the file and
    however they end: reading the sum, deciding and appending are one exclusive transaction. The rule and
    its proof are in :mod:`understudy.privacy.accounting.filter`. Nothing private is ever written: entries hold
    parameters of mechanisms and public words.

    Examples
    --------
    >>> from understudy.privacy.events import GaussianEvent
    >>> from understudy.privacy import ZCDP
    >>> ledger = Ledger.in_memory(budget=ZCDP(0.5), unit=Unit.add_remove(), table="births 2023")
    >>> entry = ledger.charge(GaussianEvent(l2_sensitivity=1, sigma=2), purpose="count by sex")
    >>> entry.costs["zcdp"], ledger.spent, ledger.remaining
    (0.125, 0.125, 0.375)
    """

    def __init__(self, store: Store, header: Header, known: Known) -> None:
        self._store = store
        self._header = header
        self._known = known
        self._finalizer = weakref.finalize(self, store.close)

    # ------------------------------------------------------------------------------ making and opening

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        budget: Budget,
        unit: Unit,
        table: str,
        accounting: str | None = None,
        approximate_delta: float = 0.0,
        provisional: bool = False,
        timeout: float = _PATIENCE,
    ) -> Ledger:
        """Make a new ledger file.

        Parameters
        ----------
        path
            Where; must not exist yet.
        budget, unit
            The promise and whom it protects. The unit can never be changed; the total can while nothing is charged, and
            be raised later (:meth:`change_total`).
        table
            Public name of the table, so that the ledger is not used for another one.
        accounting
            ``"gdp"`` (default) or ``"zcdp"`` for an ``ApproxDP`` budget; the other budgets have one choice.
        approximate_delta
            The part of an ``ApproxDP`` budget's ``delta`` set aside for events with a ``delta`` of their own.
        provisional
            Says that nobody decided on the total: it is the budget of the first use, which `paying_ledger` may replace by
            that of a later one while nothing is charged.
        timeout
            Seconds to wait for another process to finish its transaction.
        """
        header = _new_header(budget, unit, table, accounting, approximate_delta)
        header = replace(header, provisional=provisional)
        place = _resolved(path)
        try:
            return cls._opened(Store.create(place, header.text(), timeout=timeout))
        except FileExistsError:
            raise LedgerError(f"{place} already exists. Open it, or choose another name.") from None

    @classmethod
    def in_memory(
        cls,
        *,
        budget: Budget,
        unit: Unit,
        table: str = "in memory",
        accounting: str | None = None,
        approximate_delta: float = 0.0,
    ) -> Ledger:
        """Make a ledger that is forgotten with the process: for tests, examples and public data."""
        return cls._opened(
            Store.in_memory(_new_header(budget, unit, table, accounting, approximate_delta).text())
        )

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, timeout: float = _PATIENCE) -> Ledger:
        """Open an existing ledger, checking its chain from the first line to the last."""
        store = Store(_resolved(path), timeout=timeout)
        store.check_file()
        return cls._opened(store)

    @classmethod
    def open_or_create(
        cls,
        path: str | os.PathLike[str],
        *,
        budget: Budget,
        unit: Unit,
        table: str,
        accounting: str | None = None,
        approximate_delta: float = 0.0,
        timeout: float = _PATIENCE,
    ) -> Ledger:
        """Open the ledger at ``path``, or make it; refuse one made for anything else.

        Raises
        ------
        LedgerMismatch
            If the ledger at ``path`` has another table, unit, budget or accounting.
        """
        wanted = _new_header(budget, unit, table, accounting, approximate_delta)
        if not os.path.lexists(_resolved(path)):
            try:
                return cls._opened(Store.create(_resolved(path), wanted.text(), timeout=timeout))
            except FileExistsError:
                pass  # another process was quicker
        ledger = cls.open(path, timeout=timeout)
        must_match(ledger.path, ledger._header, ledger.rule, wanted)
        return ledger

    @classmethod
    def _opened(cls, store: Store) -> Ledger:
        with store.transaction() as connection:
            lines = lines_from(connection, 0)
        if not lines:
            raise LedgerCorrupted("The ledger has no header.")
        header, known, _ = read_lines(lines)
        return cls(store, header, known)

    # --------------------------------------------------------------------------------- what it is for

    @property
    def path(self) -> Path | None:
        """The file, or None for a ledger in memory."""
        return self._store.path

    @property
    def table(self) -> str:
        """Public name of the table."""
        return self._header.table

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        return self._header.unit

    @property
    def budget(self) -> Budget:
        """The promise about everything that is ever charged here, as of the last look at the ledger.

        Every charge, and every reading of ``spent``, ``remaining`` or the entries, looks again.
        """
        return self._known.rule.budget

    @property
    def provisional(self) -> bool:
        """Whether the total is that of a first use and nobody's decision, as long as nothing was charged."""
        return self._header.provisional and not self._known.charges

    @property
    def charged(self) -> bool:
        """Whether anything was ever charged."""
        return self._current().charges > 0

    @property
    def first_budget(self) -> Budget:
        """The total that the ledger was made with."""
        return self._header.budget

    @property
    def rule(self) -> Filter:
        """The filter that admits or refuses charges, as of the last look at the ledger."""
        return self._known.rule

    @property
    def accounting(self) -> Accounting:
        """The accounting that ``spent``, ``remaining`` and ``total`` are in."""
        return self._known.rule.main

    @property
    def ledger_id(self) -> str:
        """Random name given at creation."""
        return self._header.ledger_id

    @property
    def created(self) -> str:
        """When the ledger was made (UTC, ISO 8601)."""
        return self._header.created

    @property
    def total(self) -> float:
        """What may be spent, in the additive unit of ``accounting``, rounded down."""
        rule = self._known.rule
        return rule.main.total(rule.budget, approximate_delta=rule.approximate_delta)

    def totals(self) -> tuple[TotalChange, ...]:
        """Return every change of the total, in order."""
        return tuple(
            TotalChange(
                budget_from_dict(entry.fields["budget"]),
                entry.fields["accounting"],
                entry.fields["approximate_delta"],
                entry.fields["who"],
                entry.fields["why"],
                entry.sequence,
            )
            for entry in self.entries()
            if entry.kind == "total"
        )

    # -------------------------------------------------------------------------------------- spending

    def charge(self, event: Event, *, purpose: str, scope: str = "") -> Entry:
        """Pay for an event; return once the charge is safely on the disk.

        Parameters
        ----------
        event
            What is about to be done. Use one `Composed` event for a batch: it is one write.
        purpose
            Public words for what it is done for, written by the mechanism. Never anything read from the data.
        scope
            Public words for the release, fit or step it belongs to.

        Raises
        ------
        BudgetExceeded
            If the event does not fit in what remains. Nothing was spent.
        LedgerError
            If the charge cannot be written. No noise may be drawn.
        """
        _must_be_event(event)
        purpose, scope = public_text("purpose", purpose, required=True), public_text("scope", scope)
        with self._store.transaction(write=True) as connection:
            known = self._caught_up(connection)
            rule = known.rule
            if isinstance(event, InsideEvent) and event.allowance not in known.spending.allowances:
                raise BudgetError(
                    "The allowance that the event is to be charged to was never opened in this ledger."
                )
            after = rule.plus(known.spending, event)
            if not rule.holds(after):
                raise refusal(rule, known.spending, event, purpose)
            parts = self.unit.parts_touched
            costs = {name: price(accounting, event, parts) for name, accounting in ACCOUNTINGS.items()}
            text = entry_text(
                time=_now(),
                purpose=purpose,
                scope=scope,
                writer=_WRITER,
                event=event,
                costs=costs,
                delta=float_up(delta_of(event, parts=parts)),
                by=present_operator(),
            )
            head = append(connection, known.lines, text, known.head)
        self._known = replace(
            known, lines=known.lines + 1, head=head, spending=after, charges=known.charges + 1
        )
        if (
            self.path is not None
        ):  # how often a ledger in memory is charged may be secret: attempts of a selection
            _LOG.info("charged: %s", purpose)
        return read_entry(known.lines, text.encode("ascii"), head)

    def note(self, purpose: str, *, scope: str = "", as_of: Entry | None = None) -> Entry:
        """Write a line that costs nothing, such as which release the next charges belong to.

        With ``as_of`` it carries the time of that entry: for work whose length must not be known.
        """
        purpose, scope = public_text("purpose", purpose, required=True), public_text("scope", scope)
        with self._store.transaction(write=True) as connection:
            known = self._caught_up(connection)
            time = _now() if as_of is None else as_of.time
            text = entry_text(time=time, purpose=purpose, scope=scope, writer=_WRITER, by=present_operator())
            return self._appended(connection, known, text)

    def _appended(self, connection: sqlite3.Connection, known: Known, text: str) -> Entry:
        """Add a line that costs nothing and return it."""
        head = append(connection, known.lines, text, known.head)
        return read_entry(known.lines, text.encode("ascii"), head)

    def _record(
        self, connection: sqlite3.Connection, known: Known, kind: str, fields: Mapping[str, Any], scope: str
    ) -> Entry:
        """Add an entry that has fields and return it."""
        text = record_text(
            kind,
            fields,
            time=_now(),
            scope=public_text("scope", scope),
            writer=_WRITER,
            by=present_operator(),
        )
        return self._appended(connection, known, text)

    # ---------------------------------------------------------------- what the promise is conditioned on

    def record_invariant(
        self,
        *,
        subject: str,
        rule: str = "",
        value: int | str | None = None,
        accepted_by: str = "",
        scope: str = "",
    ) -> Entry:
        """Write down an exact public fact about the table that neighbours are taken to agree on.

        The same fact is written once. Deciding and writing are one transaction, so two processes cannot both be the first.

        Parameters
        ----------
        subject
            What it is about, such as ``"number of rows"``.
        rule
            The cleaning rule, condition or transformation it belongs to; empty for the table as it is.
        value
            The fact, or None where only *that* it is public is known yet. The value may follow in a second entry.
        accepted_by
            Who consented. Needed for a second, different fact about one subject: the two may be subtracted.
        scope
            Public words for the release, fit or step it belongs to.

        Raises
        ------
        LedgerMismatch
            If the ledger holds another fact about this subject and nobody accepted this one. Nothing was written.

        Examples
        --------
        >>> from understudy.privacy import PureDP
        >>> ledger = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.replace_one())
        >>> ledger.record_invariant(subject="number of rows", value=1000).purpose
        'invariant: number of rows = 1000'
        >>> [fact.value for fact in ledger.invariants()]
        [1000]
        """
        fields = {"subject": subject, "rule": rule, "value": value, "accepted_by": accepted_by}
        check_fields("invariant", fields)
        with self._store.transaction(write=True) as connection:
            known = self._caught_up(connection)
            same = stated_invariant(read_lines(lines_from(connection, 0))[2], fields, table=self.table)
            if same is not None:
                return same
            return self._record(connection, known, "invariant", fields, scope)

    def invariants(self) -> tuple[Invariant, ...]:
        """Return the exact public facts that the promise is conditioned on, in the order they were written."""
        return _invariants(self.entries())

    def record_facts(
        self, fingerprint: str, *, summary: str = "", accepted_by: str = "", scope: str = ""
    ) -> Entry:
        """Write down the fingerprint of what the owner declared about the table; the same one is written once.

        Parameters
        ----------
        fingerprint
            Hexadecimal, in lower case.
        summary
            Public words about them.
        accepted_by
            Who consented. Needed unless these are the ledger's first facts.
        scope
            Public words for the release, fit or step it belongs to.

        Raises
        ------
        LedgerMismatch
            If the ledger holds other facts and nobody accepted these. Nothing was written.
        """
        fields = {"fingerprint": fingerprint, "summary": summary, "accepted_by": accepted_by}
        check_fields("facts", fields)
        with self._store.transaction(write=True) as connection:
            known = self._caught_up(connection)
            same = stated_facts(read_lines(lines_from(connection, 0))[2], fields, table=self.table)
            if same is not None:
                return same
            return self._record(connection, known, "facts", fields, scope)

    @property
    def facts(self) -> tuple[FactsRecord, ...]:
        """What the owner declared about the table, as fingerprints, in the order they were accepted."""
        return tuple(
            FactsRecord(sequence=entry.sequence, **entry.fields)
            for entry in self.entries()
            if entry.kind == "facts"
        )

    def change_total(
        self,
        budget: Budget,
        *,
        who: str = "",
        why: str = "",
        approximate_delta: float | None = None,
        accounting: str | None = None,
    ) -> Entry:
        """Put another total in force: any while nothing is charged, afterwards only a larger one of the same kind.

        Parameters
        ----------
        budget
            The new total.
        who, why
            Public words: who decided it, and why. Needed once something was charged.
        approximate_delta
            What is set aside for events with a delta of their own; as it was if None.
        accounting
            Name of the accounting; as it was if None and the kind of budget stays.

        Raises
        ------
        LedgerMismatch
            If something was charged and the new total does not admit everything the old one admits.
        LedgerError
            If something was charged and ``who`` or ``why`` is missing.

        Privacy
        -------
        The rule and its proof: :mod:`understudy.privacy.ledger.kinds`.

        Examples
        --------
        >>> from understudy.privacy import PureDP
        >>> from understudy.privacy.events import PureEvent
        >>> ledger = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove())
        >>> _ = ledger.change_total(PureDP(0.5))
        >>> _ = ledger.charge(PureEvent(0.5), purpose="count")
        >>> _ = ledger.change_total(PureDP(2.0), who="the owner", why="second wave of the survey")
        >>> ledger.remaining
        1.5
        """
        public_text("who", who), public_text("why", why)
        with self._store.transaction(write=True) as connection:
            known = self._caught_up(connection)
            if known.charges:
                public_text("name of who raised the total", who, required=True)
                public_text("reason why the total was raised", why, required=True)
            before, same = known.rule, type(known.rule.budget) is type(budget)
            if accounting is None and same:
                accounting = before.main.name
            if approximate_delta is None:
                approximate_delta = before.approximate_delta if same else 0.0
            after = Filter(budget, self.unit, accounting, approximate_delta)
            if known.charges:
                raised(before, after)
            fields = {
                "budget": budget.to_dict(),
                "accounting": after.main.name,
                "approximate_delta": after.approximate_delta,
                "who": who,
                "why": why,
            }
            entry = self._record(connection, known, "total", fields, "")
        self._known = known.after(entry)
        return entry

    # ---------------------------------------------------------------------------------- what is left

    def can_afford(self, event: Event) -> bool:
        """Return whether ``event`` would be admitted now; another process may be quicker."""
        _must_be_event(event)
        known = self._current()
        return known.rule.holds(known.rule.plus(known.spending, event))

    @property
    def spent(self) -> float:
        """What has been charged, in the additive unit of ``accounting``, rounded up."""
        known = self._current()
        return known.spending.spent(known.rule.main.name)

    @property
    def remaining(self) -> float:
        """What is left of ``total``, rounded down."""
        known = self._current()
        return known.rule.remaining(known.spending)

    @property
    def spending(self) -> Spending:
        """What has been charged, exactly, in the accountings that the filter looks at."""
        return self._current().spending

    # --------------------------------------------------------------------------------------- reading

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries in order, having checked the chain."""
        with self._store.transaction() as connection:
            self._known = self._caught_up(connection)
            lines = lines_from(connection, 0)
        return tuple(read_lines(lines)[2])

    @property
    def head_hash(self) -> str:
        """Hash of the last line. Published with a release, it pins everything before it."""
        return self._current().head.hex()

    @property
    def length(self) -> int:
        """Number of entries."""
        return self._current().lines - 1

    def anchor(self) -> Anchor:
        """Return the ledger's name, head and length, to keep somewhere else: a later rollback is found by it."""
        known = self._current()
        return Anchor(self.ledger_id, known.head.hex(), known.lines - 1)

    def check_anchor(self, anchor: Anchor, *, source: str = "the anchor") -> None:
        """Refuse a ledger that an anchor shows to be an older copy, or to have gone another way since.

        Parameters
        ----------
        anchor
            A head that was kept elsewhere.
        source
            Where it was found, for the message.

        Raises
        ------
        LedgerMismatch
            If the anchor is that of another ledger.
        LedgerCorrupted
            If the ledger is shorter than it was, or its entry of that number is another one.
        """
        require_own_anchor(anchor, self.ledger_id, self.table, source)
        with self._store.transaction() as connection:
            known = self._caught_up(connection)
            lines = lines_from(connection, 0 if anchor.length is None else anchor.length)
        heads = {line[2].hex() for line in (lines if anchor.length is None else lines[:1])}
        require_no_rollback(
            anchor,
            heads,
            entries=known.lines - 1,
            where="in memory" if self.path is None else str(self.path),
            source=source,
        )

    def guarantee(self) -> LedgerGuarantee:
        """Return what the ledger promises and how much of it has been used, by every valid accounting."""
        with self._store.transaction() as connection:
            lines = lines_from(connection, 0)
        _, known, entries = read_lines(lines)
        return LedgerGuarantee(
            table=self.table,
            rule=known.rule,
            spending=recorded_spending(entries, known.spending),
            entries=known.lines - 1,
            head_hash=known.head.hex(),
            invariants=_invariants(entries),
        )

    def verify(self, *, head: str | None = None) -> str:
        """Check the whole file and return its head hash.

        Recomputes every link of the chain, reads every event again, checks that no recorded cost is below the
        recomputed one, that each charge was within the total in force at the time and no total was lowered after a
        charge, and accounts for every byte of the file.

        Parameters
        ----------
        head
            A head hash that was published earlier. It must still be in the chain, or the ledger was cut back.

        Raises
        ------
        LedgerCorrupted
            If anything does not hold.
        """
        self._store.check_file()
        lines, image = self._store.snapshot()
        header, known, entries = read_lines(lines)
        if header != self._header:
            raise LedgerCorrupted("The ledger is not the one that was opened.")
        if image is not None:
            check_image(image, lines, entries[-1].writer if entries else header.writer, header.format)
        check_history(header, entries)
        if head is not None and head not in {line[2].hex() for line in lines}:
            raise LedgerCorrupted(
                "The ledger does not contain the published head hash: entries were removed or replaced since."
            )
        return known.head.hex()

    def close(self) -> None:
        """Forget a ledger in memory. A ledger on disk holds nothing open, so closing it changes nothing."""
        self._finalizer()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _repr_html_(self) -> str:
        standing = self.guarantee()
        rows = [
            (
                entry.sequence,
                entry.time,
                entry.scope,
                entry.purpose,
                f"{entry.costs[standing.accounting]:.6g}",
            )
            for entry in self.entries()
            if entry.event is not None
        ]
        head = ("entry", "time", "scope", "purpose", f"cost ({standing.symbol})")
        return html_table(repr(self), head, rows, note=standing.describe())

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else str(self.path)
        return f"<Ledger of {self.table!r}, {self.budget.describe()}, {where}>"

    def _current(self) -> Known:
        with self._store.transaction() as connection:
            self._known = self._caught_up(connection)
        return self._known

    def _caught_up(self, connection: sqlite3.Connection) -> Known:
        """Read only what other processes have appended since the last look."""
        known = self._known
        lines = lines_from(connection, known.lines - 1)
        if not lines or lines[0][2] != known.head:
            raise LedgerCorrupted(
                "The ledger was cut back or replaced while it was in use. Restore the file that was there."
            )
        for line in lines[1:]:
            known = known.after(checked(line, known))
        return known


def _new_header(
    budget: Budget, unit: Unit, table: str, accounting: str | None, approximate_delta: float
) -> Header:
    if not isinstance(unit, Unit):
        raise BudgetError("A ledger needs a privacy unit, such as Unit.add_remove().")
    rule = Filter(budget, unit, accounting, approximate_delta)
    label = public_text("table", table, required=True)
    return Header(secrets.token_hex(16), label, rule, _now(), _WRITER)


def _invariants(entries: Iterable[Entry]) -> tuple[Invariant, ...]:
    return tuple(
        Invariant(sequence=entry.sequence, **entry.fields) for entry in entries if entry.kind == "invariant"
    )


_EVENTS = frozenset(get_args(Event))


def _must_be_event(event: object) -> None:
    """Refuse what is no event, and subclasses of events: what they cost must be what the package says."""
    if type(event) not in _EVENTS:
        raise BudgetError(f"A ledger is charged with events, not {type(event).__name__}.")
    inside = (event.event,) if isinstance(event, InsideEvent) else getattr(event, "events", ())
    for part in inside:
        _must_be_event(part)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _resolved(path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError):
        raise LedgerError(
            "The path of the ledger cannot be followed (a loop of links, or an odd name)."
        ) from None
