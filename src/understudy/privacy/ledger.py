"""The durable record of everything that was ever asked of a table.

A ledger is made once per table with a total budget and a privacy unit that can never change. Every private
act is *charged* before its noise is drawn, and ``charge`` returns only when the charge is on the disk. If the
process is killed at any instant, each act is either absent from the ledger, and then no noise was drawn for
it, or present, and then it counts as spent whether or not anybody saw the answer.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import weakref
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from understudy._html import html_table
from understudy.errors import BudgetError, LedgerCorrupted, LedgerError
from understudy.privacy._ledger_check import (
    Known,
    check_costs,
    check_image,
    checked,
    must_match,
    price,
    read_lines,
    recorded_spending,
)
from understudy.privacy._ledger_format import Entry, Header, entry_text, public_text, read_entry
from understudy.privacy._ledger_report import LedgerGuarantee, refusal
from understudy.privacy._ledger_store import Store, append, lines_from
from understudy.privacy._numbers import float_up
from understudy.privacy.accounting import ACCOUNTINGS, Accounting, delta_of
from understudy.privacy.budget import Budget
from understudy.privacy.events import Event
from understudy.privacy.filter import Filter, Spending
from understudy.privacy.unit import Unit

__all__ = ["Entry", "Ledger", "LedgerGuarantee"]

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
    its proof are in :mod:`understudy.privacy.filter`. Nothing private is ever written: entries hold
    parameters of mechanisms and public words.

    Examples
    --------
    >>> from understudy.privacy import GaussianEvent, ZCDP
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
        timeout: float = _PATIENCE,
    ) -> Ledger:
        """Make a new ledger file.

        Parameters
        ----------
        path
            Where; must not exist yet.
        budget, unit
            The promise and whom it protects. Neither can be changed later.
        table
            Public name of the table, so that the ledger is not used for another one.
        accounting
            ``"gdp"`` (default) or ``"zcdp"`` for an ``ApproxDP`` budget; the other budgets have one choice.
        approximate_delta
            The part of an ``ApproxDP`` budget's ``delta`` set aside for events with a ``delta`` of their own.
        timeout
            Seconds to wait for another process to finish its transaction.
        """
        header = _new_header(budget, unit, table, accounting, approximate_delta)
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
        must_match(ledger.path, ledger._header, wanted)
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
        """The promise about everything that is ever charged here."""
        return self._header.budget

    @property
    def rule(self) -> Filter:
        """The filter that admits or refuses charges."""
        return self._header.rule

    @property
    def accounting(self) -> Accounting:
        """The accounting that ``spent``, ``remaining`` and ``total`` are in."""
        return self._header.rule.main

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
        return self.accounting.total(self.budget, approximate_delta=self.rule.approximate_delta)

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
            after = self.rule.plus(known.spending, event)
            if not self.rule.holds(after):
                raise refusal(self.rule, known.spending, event, purpose)
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
            )
            head = append(connection, known.lines, text, known.head)
        self._known = Known(known.lines + 1, head, after)
        return read_entry(known.lines, text.encode("ascii"), head)

    def note(self, purpose: str, *, scope: str = "") -> Entry:
        """Write a line that costs nothing, such as which release the next charges belong to."""
        purpose, scope = public_text("purpose", purpose, required=True), public_text("scope", scope)
        with self._store.transaction(write=True) as connection:
            known = self._caught_up(connection)
            text = entry_text(time=_now(), purpose=purpose, scope=scope, writer=_WRITER)
            head = append(connection, known.lines, text, known.head)
        self._known = Known(known.lines + 1, head, known.spending)
        return read_entry(known.lines, text.encode("ascii"), head)

    def can_afford(self, event: Event) -> bool:
        """Return whether ``event`` would be admitted now; another process may be quicker."""
        _must_be_event(event)
        return self.rule.holds(self.rule.plus(self._current().spending, event))

    @property
    def spent(self) -> float:
        """What has been charged, in the additive unit of ``accounting``, rounded up."""
        return self._current().spending.spent(self.accounting.name)

    @property
    def remaining(self) -> float:
        """What is left of ``total``, rounded down."""
        return self.rule.remaining(self._current().spending)

    @property
    def spending(self) -> Spending:
        """What has been charged, exactly, in the accountings that the filter looks at."""
        return self._current().spending

    # --------------------------------------------------------------------------------------- reading

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries in order, having checked the chain."""
        with self._store.transaction() as connection:
            self._caught_up(connection)
            lines = lines_from(connection, 0)
        return tuple(read_lines(lines)[2])

    @property
    def head_hash(self) -> str:
        """Hash of the last line. Published with a release, it pins everything before it."""
        return self._current().head.hex()

    def guarantee(self) -> LedgerGuarantee:
        """Return what the ledger promises and how much of it has been used, by every valid accounting."""
        with self._store.transaction() as connection:
            lines = lines_from(connection, 0)
        _, known, entries = read_lines(lines)
        return LedgerGuarantee(
            table=self.table,
            rule=self.rule,
            spending=recorded_spending(entries, known.spending),
            entries=known.lines - 1,
            head_hash=known.head.hex(),
        )

    def verify(self, *, head: str | None = None) -> str:
        """Check the whole file and return its head hash.

        Recomputes every link of the chain, reads every event again, checks that no recorded cost is below the
        recomputed one and that their sum keeps the budget, and accounts for every byte of the file.

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
            check_image(image, lines, entries[-1].writer if entries else header.writer)
        for entry in entries:
            if entry.event is not None:
                check_costs(entry, self.unit.parts_touched)
        if not self.rule.holds(known.spending):
            raise LedgerCorrupted("The charges of the ledger add up to more than its budget.")
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
        name = self.accounting.name
        rows = [
            (entry.sequence, entry.time, entry.scope, entry.purpose, f"{entry.costs[name]:.6g}")
            for entry in self.entries()
            if entry.event is not None
        ]
        head = ("entry", "time", "scope", "purpose", f"cost ({self.accounting.symbol})")
        return html_table(repr(self), head, rows, note=self.guarantee().describe())

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
        count, head, spending = known.lines, known.head, known.spending
        for line in lines[1:]:
            entry = checked(line, head, count)
            count, head = count + 1, line[2]
            if entry.event is not None:
                spending = self.rule.plus(spending, entry.event)
        return Known(count, head, spending)


def _new_header(
    budget: Budget, unit: Unit, table: str, accounting: str | None, approximate_delta: float
) -> Header:
    if not isinstance(unit, Unit):
        raise BudgetError("A ledger needs a privacy unit, such as Unit.add_remove().")
    rule = Filter(budget, unit, accounting, approximate_delta)
    label = public_text("table", table, required=True)
    return Header(secrets.token_hex(16), label, rule, _now(), _WRITER)


def _must_be_event(event: object) -> None:
    if not isinstance(event, Event):
        raise BudgetError(f"A ledger is charged with events, not {type(event).__name__}.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _resolved(path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError):
        raise LedgerError(
            "The path of the ledger cannot be followed (a loop of links, or an odd name)."
        ) from None
