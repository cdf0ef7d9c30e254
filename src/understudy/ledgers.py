"""The ledger that belongs to a table: where it lies, how it is found again, and that it was not put back in time.

A ledger is worth as much as the rule that one table has one. So its default place depends on the table alone: beside a
file, or in a folder of the user for databases, frames and places that cannot be written. A keyed digest of the table and
of its place is remembered in that folder (`KnownLedgers`), so that a copy, another working
directory or another output folder finds the same ledger.

A table is known by *marks*: keyed digests of its content and of its place. The key is secret, made once, and lies in the
same file as the marks, which only its owner can read: whoever has both can check a guess of a *whole* table, and nothing
else. Nothing of it is in a ledger, which may be published. The folder is ``$UNDERSTUDY_HOME`` or, without it,
``$XDG_STATE_HOME/understudy`` or ``~/.local/state/understudy``. Where none can be written, :func:`known_ledgers` returns None and copies of
a table cannot be recognised.

Nothing here can stop somebody who works on another machine, or removes what is remembered: it keeps honest people from
spending a budget twice by accident, which is how it happens.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shlex
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from understudy._system import take_lock
from understudy.data import digest_content, digest_place
from understudy.data.identity import parts_of, table_file
from understudy.errors import LedgerError, LedgerMismatch
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, Event, Ledger, PureDP, Unit
from understudy.privacy.accounting.filter import Filter
from understudy.privacy.events import GaussianEvent, PureEvent, ZcdpEvent
from understudy.privacy.ledger.anchors import Anchor, anchors_near

_FILE = "tables.sqlite"
_UNDER_WAY = "under-way"
_PATIENCE = 30.0
_TABLES = (
    "CREATE TABLE IF NOT EXISTS secret (only INTEGER PRIMARY KEY CHECK (only = 1), key BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ledger (id TEXT PRIMARY KEY, path TEXT NOT NULL, head TEXT NOT NULL, "
    "length INTEGER NOT NULL, charged INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS mark (mark BLOB NOT NULL, ledger TEXT NOT NULL, PRIMARY KEY (mark, ledger))",
)


@dataclass(frozen=True, slots=True)
class KnownLedger:
    """A ledger as it was seen last.

    Attributes
    ----------
    anchor
        Its name, head and length.
    path
        Where it was.
    charged
        Whether anything was charged to it, or may have been: while work is under way, and after work that was killed, it may.
    """

    anchor: Anchor
    path: Path
    charged: bool


class KnownLedgers:
    """The user's record of tables and their ledgers. Use :func:`known_ledgers`.

    Privacy
    -------
    In: marks, which depend on the records. Out: private, for the owner of the table. Nothing is derived from it but the
    choice of a ledger and a refusal to use one, both of which its owner sees and nobody publishes.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self.folder = folder
        if not self._path.exists():
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                if hasattr(os, "fchmod"):
                    os.fchmod(descriptor, 0o600)
                os.close(descriptor)
        with self._transaction() as connection:
            for text in _TABLES:
                connection.execute(text)
            connection.execute("INSERT OR IGNORE INTO secret VALUES (1, ?)", (secrets.token_bytes(32),))
            self._key = bytes(connection.execute("SELECT key FROM secret").fetchone()[0])

    def digester(self, kind: str) -> hashlib.blake2b:
        """Return a keyed digest to be fed with what marks a table; ``kind`` keeps the kinds of marks apart."""
        return hashlib.blake2b(key=self._key, digest_size=32, person=kind.encode("ascii")[:16])

    def of(self, marks: Iterable[bytes]) -> tuple[KnownLedger, ...]:
        """Return the ledgers of the tables that bear any of some marks."""
        found: dict[str, KnownLedger] = {}
        with self._transaction() as connection:
            for mark in marks:
                rows = connection.execute(
                    "SELECT id, path, head, length, charged FROM mark JOIN ledger ON mark.ledger = ledger.id "
                    "WHERE mark = ? ORDER BY id",
                    (mark,),
                )
                for row in rows.fetchall():
                    found.setdefault(row[0], _known(row))
        return tuple(found.values())

    def seen(self, ledger_id: str) -> KnownLedger | None:
        """Return a ledger as it was seen last, wherever it was."""
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT id, path, head, length, charged FROM ledger WHERE id = ?", (ledger_id,)
            ).fetchone()
        return None if row is None else _known(row)

    def remember(self, known: KnownLedger, marks: Iterable[bytes] = ()) -> tuple[bytes, ...]:
        """Write down where a ledger is and how long it has become, and which table it belongs to; return the marks that are new.

        A ledger never gets shorter here: of two processes that share it, the one that saw more wins.
        """
        anchor = known.anchor
        new = []
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO ledger VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET path = excluded.path, "
                "charged = CASE WHEN excluded.length >= length THEN excluded.charged ELSE charged END, "
                "head = CASE WHEN excluded.length >= length THEN excluded.head ELSE head END, "
                "length = max(length, excluded.length)",
                (anchor.ledger_id, str(known.path), anchor.head, anchor.length or 0, int(known.charged)),
            )
            for mark in marks:
                row = (mark, anchor.ledger_id)
                if connection.execute("INSERT OR IGNORE INTO mark VALUES (?, ?)", row).rowcount:
                    new.append(mark)
        return tuple(new)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep all other processes from deciding which ledger is a table's, until the end of the block."""
        with _open_lock(self.folder / _UNDER_WAY / "decision.lock") as descriptor:
            end = time.monotonic() + _PATIENCE
            while not take_lock(descriptor):
                if time.monotonic() > end:
                    raise LedgerError(
                        f"For {_PATIENCE:g} seconds another process has been choosing the ledger of a table. Nothing was charged; "
                        "try again."
                    )
                time.sleep(0.01)
            yield

    @contextlib.contextmanager
    def hold(self, ledger_id: str) -> Iterator[None]:
        """Show other processes, while they decide, that work with a ledger is under way; to be entered within `alone`.

        A lock ends with its process, so work that was killed holds nothing.
        """
        path = self.folder / _UNDER_WAY / f"{ledger_id}.{secrets.token_hex(8)}.lock"
        with _open_lock(path) as descriptor:
            try:
                take_lock(descriptor)
                yield
            finally:
                # the lock ends with the file; a name that stays is removed by whoever asks next, and no paid-for result is lost for it
                with contextlib.suppress(OSError):
                    path.unlink()

    def under_way(self, ledger_id: str) -> bool:
        """Say whether work with a ledger is under way, in any process; to be asked within `alone`."""
        busy = False
        for path in (self.folder / _UNDER_WAY).glob(f"{ledger_id}.*.lock"):
            with contextlib.suppress(FileNotFoundError), _open_lock(path, os.O_RDWR) as descriptor:
                if take_lock(descriptor):
                    path.unlink(missing_ok=True)  # whoever held it was killed
                else:
                    busy = True
        return busy

    def forget(self, marks: Iterable[bytes], ledger_id: str) -> None:
        """Take back that a table belongs to a ledger, after a refusal that wrote nothing to it."""
        with self._transaction() as connection:
            for mark in marks:
                connection.execute("DELETE FROM mark WHERE mark = ? AND ledger = ?", (mark, ledger_id))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            # mode=rw: a file that has vanished is an error; a fresh one would have forgotten every table
            address = f"{self._path.as_uri()}?mode=rw"
            with contextlib.closing(
                sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
            ) as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(
                f"The record of tables and their ledgers, {str(self._path)!r}, cannot be used ({error}), so a copy of this table "
                "would not be recognised. Nothing was charged. Restore the file or make room for it, or set UNDERSTUDY_HOME to "
                "another folder; if it is removed, copies of earlier tables get new budgets."
            ) from None


@contextlib.contextmanager
def _open_lock(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[int]:
    """Open a file for its lock, which closing it releases."""
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not flags & os.O_CREAT:
            raise  # whoever held it has just ended
        raise LedgerError(
            f"The lock {str(path)!r}, which keeps a table from being charged to two ledgers at once, cannot be used ({error}). "
            "Nothing was charged. Make room for it, or set UNDERSTUDY_HOME to another folder."
        ) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _known(row: tuple[str, str, str, int, int]) -> KnownLedger:
    return KnownLedger(Anchor(row[0], row[2], row[3]), Path(row[1]), bool(row[4]))


def user_folder() -> Path | None:
    """Return the folder of the user for ledgers and what is known of them, made if absent; None if there can be none."""
    home = os.environ.get("UNDERSTUDY_HOME")
    state = os.environ.get("XDG_STATE_HOME")
    try:
        if home:
            folder = Path(home).absolute()
        elif state and Path(state).is_absolute():
            folder = Path(state) / "understudy"
        else:
            folder = Path.home() / ".local" / "state" / "understudy"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def known_ledgers() -> KnownLedgers | None:
    """Return the user's record of tables and their ledgers; None where no folder of the user can be written.

    Raises
    ------
    LedgerError
        If the record is there and cannot be read: without it a copy of a table would get a second budget.
    """
    folder = user_folder()
    if folder is None:
        return None
    there = (folder / _FILE).exists()
    try:
        return KnownLedgers(folder)
    except (OSError, LedgerError):
        if there:
            raise
        return None


_ANOTHER = "another ledger of a table that has one already, as its owner accepted"
_LATER = "a table of this ledger has been charged to another one too"


def other_ledgers(ledger: Ledger) -> frozenset[str]:
    """Return the names of the other ledgers of its table that the entries of a ledger tell of: the promises of all of them add up.

    A ledger tells of earlier ones from its first use on, and of a later one from its next use on.

    Examples
    --------
    >>> from understudy.privacy import PureDP
    >>> with Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="births") as ledger:
    ...     other_ledgers(ledger)
    frozenset()
    """
    return frozenset(
        name
        for entry in ledger.entries()
        if entry.event is None and entry.purpose.startswith((_ANOTHER, _LATER))
        for name in entry.purpose.rpartition(": ")[2].split(", ")
    )


_FIRST_USE = "the budget of the first use, before anything was charged"


def paying_ledger(
    path: Path,
    *,
    budget: Budget,
    unit: Unit,
    table: str | None,
    accounting: str | None = None,
    approximate_delta: float,
    advice: str,
) -> Ledger:
    """Open the ledger of a table, or make it with ``budget`` as its total if there is none.

    An existing ledger keeps its own total, which may be larger than what is about to be spent (:meth:`Ledger.open_or_create`
    insists on an equal one); it must belong to the same table and protect the same unit. Where nothing was charged yet, and
    the total is that of an earlier first use, the new budget becomes the total. Where somebody decided on a smaller total,
    the refusal says how to change it.

    Parameters
    ----------
    path
        Where it is, or will be.
    budget, unit
        What is about to be spent, and who is protected.
    table
        The public name of the table; None if the ledger that is there is known to be that of the table.
    accounting
        How a new ledger adds up; by default as its kind of budget usually does.
    approximate_delta
        What a new ledger sets aside for events with a delta of their own.
    advice
        A sentence for those whose ledger is of another table or unit: what to do about it.

    Raises
    ------
    LedgerMismatch
        If the ledger belongs to another table, protects another unit, or has a smaller total that nothing was charged to.

    Examples
    --------
    >>> import tempfile
    >>> from understudy.privacy import PureDP
    >>> from understudy.privacy.events import PureEvent
    >>> terms = {"unit": Unit.add_remove(), "table": "births", "approximate_delta": 0.0, "advice": "Use another."}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder) / "births.ledger"
    ...     first = paying_ledger(place, budget=PureDP(3.0), **terms)
    ...     _ = first.charge(PureEvent(1.0), purpose="count")
    ...     with paying_ledger(place, budget=PureDP(1.0), **terms) as ledger:
    ...         ledger.budget
    PureDP(epsilon=3.0)
    """
    if not path.exists() and table is not None:
        try:
            return Ledger.create(
                path,
                budget=budget,
                unit=unit,
                table=table,
                accounting=accounting,
                approximate_delta=approximate_delta,
                provisional=True,
            )
        except LedgerError:
            if not path.exists():
                raise
            # another process was quicker: its ledger is that of the table
    ledger = Ledger.open(path)
    wrong = []
    if table is not None and ledger.table != table:
        wrong.append(f"it belongs to the table {ledger.table!r}, not {table!r}")
    if ledger.unit != unit:
        wrong.append(f"it protects {ledger.unit.describe()!r}, not {unit.describe()!r}")
    if wrong:
        ledger.close()
        raise LedgerMismatch(f"The ledger {str(path)!r} cannot pay for this: {' and '.join(wrong)}. {advice}")
    if not ledger.charged:
        _fit_total(ledger, budget, accounting, approximate_delta)
    return ledger


def _fit_total(ledger: Ledger, budget: Budget, accounting: str | None, approximate_delta: float) -> None:
    """Give a ledger that nothing was charged to the total that is asked for, or say how somebody can."""
    rule, wanted = ledger.rule, Filter(budget, ledger.unit, accounting, approximate_delta)
    if (rule.budget, rule.main, rule.approximate_delta) == (budget, wanted.main, wanted.approximate_delta):
        return
    if ledger.provisional and all(change.why == _FIRST_USE for change in ledger.totals()):
        ledger.change_total(
            budget, why=_FIRST_USE, accounting=wanted.main.name, approximate_delta=approximate_delta
        )
        return
    if isinstance(budget, ApproxDP):
        short = isinstance(ledger.budget, ApproxDP) and any(
            getattr(budget, item.name) > getattr(ledger.budget, item.name) for item in fields(budget)
        )
    else:
        short = not ledger.can_afford(_whole(budget))
    if not short:
        return
    options = " ".join(f"--{item.name} {getattr(budget, item.name):g}" for item in fields(budget))
    if approximate_delta:
        options += f" --approximate-delta {approximate_delta:g}"
    raise LedgerMismatch(
        f"The ledger {str(ledger.path)!r} has a total of {ledger.budget.describe()}, and {budget.describe()} is asked for. "
        f"Nothing was charged to it yet, so its total can be changed:\n"
        f"  understudy ledger total {shlex.quote(str(ledger.path))} {options}"
    )


def _whole(budget: Budget) -> Event:
    """Return the event that spends a whole budget at once."""
    if isinstance(budget, PureDP):
        return PureEvent(budget.epsilon)
    if isinstance(budget, ZCDP):
        return ZcdpEvent(budget.rho)
    assert isinstance(budget, GDP)
    return GaussianEvent(budget.mu, 1.0)


@dataclass(frozen=True)
class LedgerPlace:
    """Where the ledger of a table is or will be, and what is known about it.

    Make one with :func:`find_ledger`, or from a path alone: then the ledger is taken as it is, and only a rollback that
    shows in files beside it is noticed.

    Attributes
    ----------
    path
        The file, with all links followed.
    notes
        What a person should be told about the choice.
    evidence
        Files and folders that may carry anchors of the ledger: bundles, models, certificates.
    """

    path: Path
    notes: tuple[str, ...] = ()
    evidence: tuple[Path, ...] = ()
    _same_table: bool = False
    _record: KnownLedgers | None = field(default=None, repr=False)
    _marks: tuple[bytes, ...] = field(default=(), repr=False)
    _tables: tuple[tuple[bytes, ...], ...] = field(default=(), repr=False)
    _others: tuple[KnownLedger, ...] = field(default=(), repr=False)
    _another: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        # what is kept beside a ledger is found again under every name that leads to it
        object.__setattr__(self, "path", self.path.resolve())

    @contextlib.contextmanager
    def opened(
        self,
        *,
        budget: Budget,
        unit: Unit,
        table: str,
        approximate_delta: float,
        advice: str,
        named: bool = True,
        accounting: str | None = None,
    ) -> Iterator[Ledger]:
        """Open the ledger to pay for one more piece of work, or make it; see `paying_ledger`.

        ``named=False`` says that ``table`` is the name of a file and nobody's word: the ledger of a table that is known by
        its content may bear another. What is known of the table is written down before anything can be charged, and how far the ledger got when the
        work has ended, however it ended. Where the work was refused and wrote nothing, a ledger that was not the table's before is not afterwards.

        Raises
        ------
        LedgerMismatch
            If it is the ledger of another table, unit or total.
        LedgerCorrupted
            If it is an older copy: a bundle, a model, an anchor or the record of the user knows a later head.
        """
        name = None if self._same_table and not named else table
        before = None
        if self.path.exists():  # before anything is written to it
            with Ledger.open(self.path) as ledger:
                self.check(ledger)
                before = ledger.anchor()
        with contextlib.ExitStack() as held:
            with contextlib.nullcontext() if self._record is None else self._record.alone():
                others = self._found_since()
                ledger = held.enter_context(
                    paying_ledger(
                        self.path,
                        budget=budget,
                        unit=unit,
                        table=name,
                        accounting=accounting,
                        approximate_delta=approximate_delta,
                        advice=advice,
                    )
                )
                self._note_others(ledger, others)
                # from now on it may be charged, and nobody hears of it if this process is killed
                new = self._remember(ledger, charged=True)
                if self._record is not None:
                    held.enter_context(self._record.hold(ledger.ledger_id))
            try:
                yield ledger
            finally:
                # a full disk must not take a paid-for result with it
                with contextlib.suppress(LedgerError):
                    self._remember(ledger, charged=ledger.charged)
                    if self._record is not None and not self._same_table and ledger.anchor() == before:
                        # perhaps it was named by mistake; nothing of this table is in it
                        self._record.forget(new, ledger.ledger_id)

    def _found_since(self) -> tuple[KnownLedger, ...]:
        """Return the other ledgers of the table as they are now; refuse those that its owner did not consent to.

        Since this place was found, work on the table may have begun with another ledger, or even have been paid for by it.
        """
        if self._record is None:
            return self._others
        found = _unshared(self._record, self._tables, self.path, under_way=True)
        if found and not self._another:
            raise _has_another(found)
        known = {item.anchor.ledger_id: item for item in (*self._others, *found)}
        return tuple(known.values())

    def check(self, ledger: Ledger) -> None:
        """Refuse a ledger that is an older copy of itself, by the record of the user and by what lies beside it."""
        if self._record is not None:
            seen = self._record.seen(ledger.ledger_id)
            if seen is not None:
                ledger.check_anchor(seen.anchor, source="the record of your ledgers")
        for path, anchor in anchors_near((*self.evidence, self.path.parent)):
            if anchor.ledger_id == ledger.ledger_id:
                ledger.check_anchor(anchor, source=str(path))

    def _note_others(self, ledger: Ledger, others: Sequence[KnownLedger]) -> None:
        """Say in a ledger, once, that its table has others too: earlier ones, and those that were accepted beside it since."""
        if others:
            earlier = ", ".join(sorted(other.anchor.ledger_id for other in others))
            remark = f"{_ANOTHER}: their budgets add up. Earlier: {earlier}"
            if all(entry.purpose != remark for entry in ledger.entries()):
                ledger.note(remark)
        if self._record is not None and self._same_table:
            told = other_ledgers(ledger) | {ledger.ledger_id}
            found = [item for item in self._record.of(self._marks) if item.anchor.ledger_id not in told]
            later = sorted(item.anchor.ledger_id for item in found if _paid(item))
            if later:
                ledger.note(f"{_LATER}: their budgets add up. Later: {', '.join(later)}")

    def _remember(self, ledger: Ledger, *, charged: bool) -> tuple[bytes, ...]:
        """Write down what the ledger is and how far it got; return the marks that are new."""
        if self._record is None:
            return ()
        return self._record.remember(KnownLedger(ledger.anchor(), self.path, charged), self._marks)


def ledger_at(path: Path) -> LedgerPlace:
    """Return the place of a ledger that is taken as it is, whatever it calls its table; nothing else is asked about the table."""
    return LedgerPlace(path.absolute(), _same_table=path.exists())


def find_ledger(
    source: Any,
    *,
    name: str,
    label: str | None = None,
    ledger: Path | None = None,
    earlier: Path | None = None,
    evidence: Sequence[Path] = (),
    another: bool = False,
) -> LedgerPlace:
    """Return the place of the ledger that belongs to a table. Nothing is made or opened for writing.

    Parameters
    ----------
    source
        The private table: anything that `read_table` takes. None for a table that is public, such as a simulated one: its
        ledger lies in the working directory, and nothing is remembered.
    name
        Public name of the table, from which the file name of a new ledger is made.
    label
        What the table is called in its ledger, if it is called otherwise.
    ledger
        The ledger that was asked for by name, if one was.
    earlier
        Where version 0.1.0 would have kept it; used if a ledger is there and none at the place of this version.
    evidence
        Where bundles and models may lie that carry anchors.
    another
        Consent to a second ledger for a table that has one; their budgets add up.

    Raises
    ------
    LedgerMismatch
        If the table is known to have another ledger.
    LedgerError
        If the ledger that the table is known to have is gone, or there is no place for a new one.

    Privacy
    -------
    In: private; the content of the table is digested with the user's secret key. Out: the path of a ledger, or a refusal,
    for the owner of the table.
    """
    file = f"{ledger_name(name)}.ledger"
    record = None if source is None else known_ledgers()
    if source is None:
        return LedgerPlace(Path(ledger or file).absolute(), evidence=tuple(evidence))
    marks: tuple[bytes, ...] = ()
    tables: list[tuple[bytes, ...]] = []  # what marks each table that the source is
    known: tuple[KnownLedger, ...] = ()
    notes = []
    if record is None:
        notes.append(
            "No folder of yours can be written (UNDERSTUDY_HOME, XDG_STATE_HOME, home), so copies of this table cannot be "
            "recognised: see to it yourself that it has one ledger."
        )
    else:
        place = digest_place(source, record.digester("place"))
        content = digest_content(source, record.digester("content"))
        # linked tables are one table and several: whoever fits one of them alone spends from the same budget
        each = [
            (digest_place(part, record.digester("place")), digest_content(part, record.digester("content")))
            for part in parts_of(source).values()
        ]
        parts = [mark for pair in each for mark in pair]
        tables = [
            tuple(mark for mark in group if mark is not None)
            for group in ([*each, (content,)] if each else [(place, content)])
        ]
        marks = tuple(mark for mark in (place, content, *parts) if mark is not None)
        known = _worth_knowing(record.of(marks))
        # a table whose content changed in its place keeps its ledger; linked tables are not where the file is that names them: it may come to name others
        sure = [*parts, content] if parts else [place]
        if ledger is None:
            known = _worth_knowing(record.of(mark for mark in sure if mark is not None)) or known
    common: dict[str, Any] = {
        "evidence": tuple(evidence), "_record": record, "_marks": marks, "_tables": tuple(tables), "_another": another,
    }  # fmt: skip
    if ledger is not None:
        beside = None if (table := table_file(source)) is None else table.parent / file
        return _asked_for(
            Path(ledger).absolute(), known, tables, beside, {name, label or name}, another, notes, common
        )
    default = _default(source, file, record)
    places = [default, *([] if earlier is None else [earlier.absolute()])]
    present = {item.path for item in known if _ledger_at(item.path) == item.anchor.ledger_id}
    if known and not present:  # perhaps it moved together with its table
        names = {item.anchor.ledger_id for item in known}
        present = {path for path in places if _ledger_at(path) in names}
    if record is not None and len(present) > 1:  # one that paid for nothing gives way to the one that did
        present = {path for path in present if not _unshared(record, tables, path)} or present
    if len(present) > 1 and default in present:
        present = {default}
    if len(present) > 1:
        listed = ", ".join(sorted(map(str, present)))
        raise LedgerMismatch(
            f"This table has {len(present)} ledgers: {listed}. Name the one to use (--ledger, ledger=)."
        )
    if present:
        (path,) = present
        others = () if record is None else _unshared(record, tables, path)
        if others and not another:
            raise _has_another(others)
        if path != default:
            notes.append(
                f"The ledger of this table is {path}: it was used for it, or for a copy of it, before."
            )
        return LedgerPlace(path, tuple(notes), _same_table=True, _others=others, **common)
    if known and not another:
        gone = known[0]
        now = "another one is in its place" if gone.path.exists() else "it is not there any more"
        raise LedgerError(
            f"This table had a ledger, {gone.path}, with {gone.anchor.length} entries, and {now}. Put it back, or say where it is now (--ledger). If it is lost, what was spent from this table is not known any more: "
            "--another-ledger starts a new one all the same, and the two budgets add up."
        )
    path = next((path for path in places if path.exists()), default)
    if path != default:
        notes.append(
            f"Using the ledger {path}, where version 0.1.0 kept it. You may move it to its new place, {default}."
        )
    return LedgerPlace(path, tuple(notes), _others=known, **common)


def _worth_knowing(ledgers: tuple[KnownLedger, ...]) -> tuple[KnownLedger, ...]:
    """Leave out those that are gone and never paid for anything: they hold no budget that could be spent twice."""
    return tuple(item for item in ledgers if item.charged or _ledger_at(item.path) == item.anchor.ledger_id)


def ledger_name(name: str) -> str:
    """Return a file name, without its ending, for the ledger of a table.

    Examples
    --------
    >>> ledger_name("births.csv.gz"), ledger_name("health.births")
    ('births', 'health-births')
    """
    lowered = name.lower()
    for ending in (".gz", ".csv", ".tsv", ".parquet", ".pq"):
        lowered = lowered.removesuffix(ending)
    kept = name[: len(lowered)]
    return (
        "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in kept).strip("-")
        or "table"
    )


def _asked_for(
    path: Path,
    known: tuple[KnownLedger, ...],
    tables: Sequence[tuple[bytes, ...]],
    beside: Path | None,
    names: set[str],
    another: bool,
    notes: list[str],
    common: dict[str, Any],
) -> LedgerPlace:
    """Return the place of a ledger that was named; refuse it if the table is known to have another one that paid."""
    record: KnownLedgers | None = common["_record"]
    its_own = _ledger_at(path)
    same = its_own is not None and its_own in {
        item.anchor.ledger_id for item in known
    }  # perhaps it was moved
    others = _unshared(record, tables, path) if same and record is not None else tuple(filter(_paid, known))
    standing = _standing(path) if same else None
    if (
        (standing is None or not standing.charged)
        and beside is not None
        and beside != path.resolve()
        and _table_of(beside) in names
    ):  # a new user, or an emptied folder
        with Ledger.open(beside) as ledger:
            found = KnownLedger(ledger.anchor(), beside, ledger.charged)
        passed = {item.anchor.ledger_id for item in known} | (standing.accepted if standing else frozenset())
        if found.charged and found.anchor.ledger_id not in passed:
            others = (*others, found)
    if others and not another:
        raise _has_another(others, asked=True)
    return LedgerPlace(path, tuple(notes), _same_table=same, _others=others, **common)


def _has_another(others: Sequence[KnownLedger], *, asked: bool = False) -> LedgerMismatch:
    listed = ", ".join(str(item.path) for item in others)
    left_out = ", or leave --ledger out" if asked else ""
    busy = "" if any(map(_paid, others)) else " that work under way is about to charge"
    return LedgerMismatch(
        f"This table, or a copy of it, has another ledger{busy}: {listed}. Use that one (--ledger {others[0].path}{left_out}). "
        "Two ledgers are two budgets, and what they promise adds up; if you mean it, consent with --another-ledger."
    )


@dataclass(frozen=True)
class _Standing:
    """A ledger as it stands: its name, whether it paid for anything, and the earlier ledgers that its owner accepted beside it."""

    ledger_id: str
    charged: bool
    accepted: frozenset[str]


def _standing(path: Path) -> _Standing | None:
    """Return how the ledger at a path stands; None if nothing is there."""
    if not path.exists():
        return None
    with Ledger.open(path) as ledger:
        return _Standing(ledger.ledger_id, ledger.charged, other_ledgers(ledger))


def _unshared(
    record: KnownLedgers, tables: Iterable[tuple[bytes, ...]], path: Path, *, under_way: bool = False
) -> tuple[KnownLedger, ...]:
    """Return the ledgers that paid for a table, where the one at ``path`` did not and nobody consented to have it beside them.

    That a ledger was once opened for a table, by a release that failed or was stopped before its first charge, makes it no ledger
    of the table: another may have paid in the meantime. One that paid for a table is its ledger from then on. Of linked tables each is asked about.
    ``under_way`` counts those with which work is under way among those that paid.
    """
    standing = _standing(path)
    found: dict[str, KnownLedger] = {}
    for marks in tables:
        of_table = record.of(marks)
        paid_by_it = standing is not None and any(
            item.anchor.ledger_id == standing.ledger_id for item in of_table
        )
        if standing is not None and standing.charged and paid_by_it:
            continue
        for item in of_table:
            name = item.anchor.ledger_id
            if standing is not None and (name == standing.ledger_id or name in standing.accepted):
                continue
            if _paid(item) or (under_way and record.under_way(name)):
                found.setdefault(name, item)
    return tuple(found.values())


def _paid(known: KnownLedger) -> bool:
    """Say whether anything was charged to a ledger: by the ledger itself where it is there."""
    if _ledger_at(known.path) != known.anchor.ledger_id:
        return known.charged
    with Ledger.open(known.path) as ledger:
        return ledger.charged


def _ledger_at(path: Path) -> str | None:
    """Return the name of the ledger at a path; None if nothing is there. Damage is an error, never a reason for a new one."""
    if not path.exists():
        return None
    with Ledger.open(path) as ledger:
        return ledger.ledger_id


def _table_of(path: Path) -> str | None:
    """Return the name of the table that the ledger at a path belongs to; None if nothing is there."""
    if not path.exists():
        return None
    with Ledger.open(path) as ledger:
        return ledger.table


def _default(source: Any, file: str, record: KnownLedgers | None) -> Path:
    """Return where the ledger of a table lies that nothing is known of yet."""
    table = table_file(source)
    if table is not None:
        beside = table.parent / file
        if beside.exists() or _writable(table.parent):
            return beside
    if record is None:
        raise LedgerError(
            "There is no place for the ledger of this table: not beside it, and no folder of yours can be written "
            "(UNDERSTUDY_HOME, XDG_STATE_HOME, home). Name one with --ledger. Nothing was read or spent."
        )
    home = record.folder.resolve() / "ledgers"
    home.mkdir(mode=0o700, exist_ok=True)
    mark = digest_place(source, record.digester("name")) or digest_content(source, record.digester("name"))
    suffix = "" if mark is None else f"-{mark.hex()[:12]}"
    return home / f"{file.removesuffix('.ledger')}{suffix}.ledger"


def _writable(folder: Path) -> bool:
    """Say whether files can be made in a folder; asking the system about permissions is not enough for read-only disks."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
