"""Work that is paid for from a ledger and can be interrupted: what is kept of a fit until its result is handed over.

The answers that a fit has paid for are journalled in a folder beside the ledger (:mod:`understudy.curator.journal`), and the fitted model is kept there until
whoever asked for it has it. The same work begun again goes on from there: it repeats the journalled answers, or takes the model, and
is charged for what is new alone. Work is the same if method, options, budget, unit, schema and records are.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from understudy.curator import Curator, Journal
from understudy.data import LocalTable, Table, records_digest
from understudy.data.private_files import FolderInUse, is_in_use, private_folder, write_private
from understudy.discovery import Discovery, DiscoveryPlan, discover
from understudy.errors import BudgetError, BudgetExceeded, DataError, LedgerError, LookFailed, OutputError
from understudy.mechanisms import (
    Model,
    MultipleSynthesis,
    Progress,
    Synthesizer,
    no_progress,
    synthesize_many,
)
from understudy.privacy import Budget, Ledger, Unit
from understudy.privacy.facts import Facts, check_facts, remember_facts
from understudy.privacy.invariants import NO_CONSENT, Consent
from understudy.schema import Schema

if TYPE_CHECKING:
    from understudy.workflow.cutting import CutLook

__all__ = ["PaidWork", "Unfinished", "paid_work", "work_facts"]

Unfinished = Literal["refuse", "keep", "drop"]
"""What to do about other work on the same ledger that was interrupted: refuse to begin, leave it for later, forget it."""

_JOURNAL, _MODEL, _RECORDS, _ENTRIES, _LOCK = (
    "journal",
    "model.understudy",
    "records.json",
    "entries.json",
    "lock",
)
_MODELS = "model*.understudy"


class PaidWork:
    """One fit on a ledger, with what an earlier run of it has left.

    Attributes
    ----------
    journal
        Keeps the answers; None for a ledger in memory.
    repeated
        How many answers an earlier run has left.
    """

    def __init__(
        self,
        ledger: Ledger,
        folder: Path | None,
        facts: Mapping[str, Any],
        *,
        owner: Facts | None = None,
        consent: Consent = NO_CONSENT,
    ) -> None:
        self.ledger = ledger
        self._owner = owner
        self._consent = consent
        self._folder = folder
        self.journal = None if folder is None else Journal(folder / _JOURNAL, ledger=ledger, work=facts)
        self.repeated = 0 if self.journal is None else self.journal.left

    @property
    def model_path(self) -> Path | None:
        """Where the fitted model is kept, once it is."""
        path = None if self._folder is None else self._folder / _MODEL
        return path if path is not None and path.exists() else None

    def discover(
        self,
        table: Table,
        plan: DiscoveryPlan,
        *,
        given: Schema | None = None,
        progress: Progress = no_progress,
    ) -> Discovery:
        """Learn a schema from raw entries; answers that an earlier run has left are repeated.

        Privacy
        -------
        See :func:`understudy.discovery.discover`.
        """
        self._same_records(table, _ENTRIES)
        with self._advice("discover"):
            return discover(self._curator(table, plan.unit), plan, given=given, progress=progress)

    def fit(
        self,
        synthesizer: Synthesizer,
        table: Table,
        *,
        unit: Unit,
        budget: Budget,
        cut: CutLook | None = None,
        progress: Progress = no_progress,
    ) -> Model:
        """Fit a model, or take the one that an earlier run has left; it is kept until :meth:`done`.

        Parameters
        ----------
        cut
            A look at how many rows people have that is paid for first, by a share of the budget.

        Privacy
        -------
        See :meth:`understudy.mechanisms.Synthesizer.fit`. A model that is taken was paid for when it was fitted.
        """
        self._same_records(table)
        if self.model_path is not None:
            return Model.load(self.model_path)
        with self._advice(synthesizer.name):
            curator = self._curator(table, unit)
            if cut is None:
                model = synthesizer.fit(curator, budget, progress=progress)
            else:
                parts = cut.shares(budget)
                curator, people = cut.run(curator, self.ledger, parts.measuring, parts.rest)
                model = synthesizer.fit(curator, parts.rest, progress=progress)
                model = replace(model, statistics=(*model.statistics, people))
        self._keep(model, _MODEL)
        return model

    def fit_many(
        self,
        synthesizer: Synthesizer,
        table: Table,
        *,
        unit: Unit,
        budget: Budget,
        sets: int,
        how: str,
        seed: int | None,
        progress: Progress = no_progress,
    ) -> MultipleSynthesis:
        """Fit models for several sets; see :func:`understudy.mechanisms.synthesize_many`. Each is kept until :meth:`done`."""
        self._same_records(table)
        numbers = itertools.count(1)

        def fit(curator: Curator, share: Budget, *, progress: Progress) -> Model:
            start = f"model-{next(numbers)}-after-"  # so many answers
            kept = [] if self._folder is None else list(self._folder.glob(f"{start}*.understudy"))
            if kept and self.journal is not None:
                self.journal.skip_to(int(kept[0].name.removeprefix(start).removesuffix(".understudy")))
                return Model.load(kept[0])
            model = synthesizer.fit(curator, share, progress=progress)
            self._keep(model, f"{start}{0 if self.journal is None else self.journal.place}.understudy")
            return model

        with self._advice(synthesizer.name):
            curator = self._curator(table, unit)
            return synthesize_many(
                synthesizer, curator, budget, sets, how=how, seed=seed, progress=progress, fit=fit
            )

    def fit_each(
        self,
        parts: Mapping[str, tuple[Synthesizer, Table]],
        *,
        unit: Unit,
        share: Budget,
        progress: Progress = no_progress,
    ) -> dict[str, Model]:
        """Fit a model to each of several tables of the same people, for an equal share of the budget each. Each is kept until :meth:`done`.

        Privacy
        -------
        The fits compose: each is charged to the one ledger. See :meth:`understudy.mechanisms.Synthesizer.fit`.
        """
        found: dict[str, Model] = {}
        for number, (name, (synthesizer, table)) in enumerate(parts.items(), start=1):
            self._same_records(table, f"records-{number}.json")
            start = f"model-{number}-after-"  # so many answers
            kept = [] if self._folder is None else list(self._folder.glob(f"{start}*.understudy"))
            if kept and self.journal is not None:
                self.journal.skip_to(int(kept[0].name.removeprefix(start).removesuffix(".understudy")))
                found[name] = Model.load(kept[0])
                continue
            with self._advice(synthesizer.name):
                found[name] = synthesizer.fit(self._curator(table, unit, name), share, progress=progress)
            self._keep(found[name], f"{start}{0 if self.journal is None else self.journal.place}.understudy")
        return found

    def done(self) -> None:
        """Forget what was kept: whoever asked for the result has it."""
        if self._folder is not None:
            _forget(self._folder)
            self._folder = None  # another process may make it anew from here on

    def leave(self) -> None:
        """Remove the folder if nothing is kept in it."""
        if self._folder is not None and not _holds_something(self._folder):
            _forget(self._folder)

    def _keep(self, model: Model, name: str) -> None:
        """Keep a model; where that fails an output elsewhere may still work, and the journal has the answers."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                model.save(self._folder / name)
                (self._folder / name).chmod(0o600)

    def _curator(self, table: Table, unit: Unit, scope: str = "") -> Curator:
        """Return the curator of the table; exact public numbers and the owner's facts are in the ledger before it is charged."""
        curator = Curator(
            table, unit=unit, ledger=self.ledger, scope=scope, journal=self.journal, consent=self._consent
        )
        if self._owner is not None:
            remember_facts(self.ledger, self._owner, self._consent)
        return curator

    def _same_records(self, table: Table, name: str = _RECORDS) -> None:
        """Refuse to mix answers about two versions of a table; tables that are not in memory are not compared.

        Privacy
        -------
        Mixing them would cost no more than was charged: every answer was paid for. It would make a model of no table at all. The digest and its
        key are for the owner alone, as the table is, and are forgotten with the work.
        """
        if self._folder is None or not isinstance(table, LocalTable):
            return
        path = self._folder / name
        begun = bool(self.repeated) or _holds_something(self._folder)
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() and begun else None
        key = secrets.token_bytes(32) if known is None else bytes.fromhex(known["key"])
        found = {"key": key.hex(), "digest": records_digest([table], key)}
        if known is None:
            write_private(path, json.dumps(found).encode("ascii"))
        elif found != known:
            raise DataError(
                "The table is not the one that the interrupted fit began with: records were added, removed or changed since. "
                "Nothing was drawn from it. Put the table back, or forget the interrupted fit (unfinished='drop', --unfinished drop), whose answers "
                "stay paid for."
            )

    @contextlib.contextmanager
    def _advice(self, scope: str) -> Iterator[None]:
        """Say what is kept when the ledger cannot pay for the answer that an interruption lost, or when a look has failed."""
        try:
            yield
        except LookFailed as error:
            if self._folder is None:
                raise
            raise LookFailed(
                f"{error} The fit cannot go on, and ends the same way when it is tried again. To begin anew, which is charged anew, "
                "forget it (unfinished='drop', --unfinished drop)."
            ) from None
        except BudgetExceeded as error:
            if not self.repeated:
                raise
            assert self.journal is not None
            raise self.journal.with_advice(error, self.ledger, scope, shared=True) from None


@contextlib.contextmanager
def paid_work(
    ledger: Ledger,
    facts: Mapping[str, Any],
    *,
    unfinished: Unfinished = "refuse",
    owner: Facts | None = None,
    consent: Consent = NO_CONSENT,
) -> Iterator[PaidWork]:
    """Begin a piece of work on a ledger, or go on with it if an earlier run was interrupted.

    Parameters
    ----------
    ledger
        Pays. Work on a ledger in memory keeps nothing.
    facts
        Public facts that identify the work, as :func:`work_facts` returns them.
    unfinished
        What to do about *other* work on this ledger that was interrupted.
    owner, consent
        The owner's facts about the table, which the ledger has to know, and what else the owner agrees to.

    Raises
    ------
    LedgerMismatch
        If the ledger was opened for other facts. Begin the work before the table is read: a refusal to read it is an answer.
    LedgerError
        If other work was interrupted and ``unfinished`` is ``"refuse"``. A second process that does the same work at the same time pays
        for itself.

    Examples
    --------
    >>> import tempfile
    >>> from understudy import datasets
    >>> from understudy.data import read_table
    >>> from understudy.privacy import PureDP
    >>> from understudy.mechanisms import create
    >>> frame, schema = datasets.load("toy", 200, seed=1)
    >>> unit, budget, method = Unit.add_remove(), PureDP(1.0), create("independent")
    >>> facts = work_facts(method, schema_fingerprint=schema.fingerprint(), unit=unit, budget=budget)
    >>> with tempfile.TemporaryDirectory() as here:
    ...     ledger = Ledger.create(Path(here) / "toy.ledger", budget=budget, unit=unit, table="toy")
    ...     for _ in range(2):  # the first is interrupted before its model was handed over
    ...         with paid_work(ledger, facts) as work:
    ...             model = work.fit(method, read_table(frame, schema), unit=unit, budget=budget)
    ...     round(ledger.spent, 6)
    1.0
    """
    if unfinished not in ("refuse", "keep", "drop"):
        raise BudgetError(f"unfinished ({unfinished!r}) must be refuse, keep or drop.")
    if owner is not None:
        check_facts(ledger, owner, consent)
    if ledger.path is None:
        yield PaidWork(ledger, None, facts, owner=owner, consent=consent)
        return
    plain = json.dumps(facts, sort_keys=True, default=str).encode("utf-8")
    stem = f"{ledger.path.name}.fit-{hashlib.sha256(plain).hexdigest()[:16]}"
    _others(ledger.path, stem, unfinished)
    with contextlib.ExitStack() as stack:
        folder = _own_folder(ledger.path, stem, stack)
        if unfinished == "drop":
            _forget(folder, keep_lock=True)
        work = PaidWork(ledger, folder, facts, owner=owner, consent=consent)
        try:
            yield work
        finally:
            work.leave()


def _own_folder(ledger: Path, stem: str, stack: contextlib.ExitStack) -> Path:
    """Take the folder of this work that an interrupted run has left, or a new one; one that a living process is in stays its own."""
    left = [folder for folder in sorted(ledger.parent.glob(f"{stem}.*state")) if _holds_something(folder)]
    new = (ledger.with_name(f"{stem}.{number}.state") for number in itertools.count(1))
    for folder in itertools.chain(left, new):
        with contextlib.suppress(FolderInUse):
            return stack.enter_context(private_folder(folder, what="fit"))
    raise AssertionError("numbers do not end")


def work_facts(
    synthesizer: Synthesizer, *, schema_fingerprint: str, unit: Unit, budget: Budget, **more: Any
) -> dict[str, Any]:
    """Return what tells one fit on a table from another: public facts alone."""
    return {
        "method": synthesizer.name,
        "options": synthesizer.options(),
        "schema": schema_fingerprint,
        "unit": unit.to_dict(),
        "budget": budget.to_dict(),
        **more,
    }


def _others(ledger: Path, stem: str, unfinished: Unfinished) -> None:
    """Look for other work on the ledger that was interrupted, and do about it what was asked for."""
    if unfinished == "keep":
        return
    for other in sorted(ledger.parent.glob(f"{ledger.name}.fit-*.state")):
        if other.name.startswith(f"{stem}.") or is_in_use(other):
            continue
        if unfinished == "drop":  # whatever it holds, and if it cannot be read
            _forget(other)
            continue
        if not _holds_something(other):
            continue
        method = Journal.work_of(other / _JOURNAL).get("method")
        which = "" if method is None else f" ({method})"
        raise LedgerError(
            f"Another fit on this ledger was interrupted{which}, and its paid answers are kept in {str(other)!r}. Nothing was spent now. "
            "Repeat the command or call that began it to go on with it, with the method named if it was chosen by another version; or begin this one and keep the other for later (unfinished='keep', --unfinished keep), "
            "or forget it (unfinished='drop', --unfinished drop). What it has cost stays spent."
        )


def _holds_something(folder: Path) -> bool:
    return any(folder.glob(_MODELS)) or Journal.has_answers(folder / _JOURNAL)


def _forget(folder: Path, *, keep_lock: bool = False) -> None:
    """Remove what is kept in a folder, and the folder with it."""
    try:
        for path in (
            *folder.glob(_MODELS),
            *folder.glob("records-*.json"),
            *folder.glob(".*.part"),
        ):  # parts are of a write that was interrupted
            path.unlink(missing_ok=True)
        for name in (_JOURNAL, _RECORDS, _ENTRIES):
            (folder / name).unlink(missing_ok=True)
        if not keep_lock:
            (folder / _LOCK).unlink(missing_ok=True)
            _remove_folder(folder)
    except OSError as error:
        raise OutputError(
            f"What was kept of a fit in {str(folder)!r} cannot be removed: {error.strerror or error}."
        ) from None


def _remove_folder(folder: Path) -> None:
    """Remove a folder, unless another process has taken it over since its lock was removed, or has removed it too."""
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise
