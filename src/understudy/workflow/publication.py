"""One release, from its specification to its bundle; and errors of a synthetic table that are measured under a budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from understudy.curator import Curator, table_facts
from understudy.data import Database, read_frame, read_table
from understudy.data.linked import LinkedTables
from understudy.errors import UsageError
from understudy.ledgers import LedgerPlace, find_ledger, ledger_name
from understudy.mechanisms import Progress, no_progress
from understudy.privacy import Budget, Ledger, Unit
from understudy.privacy.facts import remember_facts
from understudy.privacy.invariants import NO_CONSENT, Consent
from understudy.privacy.ledger.ledger import LedgerGuarantee
from understudy.schema import Schema
from understudy.schema.spreadsheets import formula_warnings
from understudy.workflow.payment import PayingLedger, Payment

if TYPE_CHECKING:
    from understudy.release.accounted import AccountedMeasure
    from understudy.release.result import ReleaseFailure, ReleaseResult
    from understudy.release.spec.spec import Spec
    from understudy.signatures import Statement

__all__ = [
    "Measured",
    "PlannedPublication",
    "Publication",
    "is_accepted",
    "measure_errors",
    "plan_publication",
    "publish",
]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class Publication:
    """How a release ended.

    Attributes
    ----------
    outcome
        The accepted table with its documents, or why there is none; None if an earlier run had published it, and nothing was done now.
    folder
        Where it was published, or would have been.
    ledger, standing
        The file of the ledger, and how it stands.
    decided_before
        Whether an earlier run had decided it: nothing was read or charged now.
    """

    outcome: ReleaseResult | ReleaseFailure | None
    folder: Path
    ledger: Path
    standing: LedgerGuarantee = field(repr=False)
    decided_before: bool = False

    @property
    def accepted(self) -> bool:
        """Whether a table was accepted and lies in the folder."""
        return self.outcome is None or is_accepted(self.outcome)


def is_accepted(outcome: ReleaseResult | ReleaseFailure | None) -> TypeGuard[ReleaseResult]:
    """Say whether a release ended in an accepted table."""
    from understudy.release.result import ReleaseResult

    return isinstance(outcome, ReleaseResult)


def publish(
    spec: Spec | str | PathLike[str],
    *,
    source: Any = None,
    out: str | PathLike[str] | None = None,
    ledger: str | PathLike[str] | None = None,
    another_ledger: bool = False,
    restart: bool = False,
    consent: Consent | None = None,
    approvals: Sequence[Statement] | None = None,
    progress: Progress = no_progress,
) -> Publication:
    """Make, test and publish a stand-in as a specification says: ``understudy release``, from Python.

    Everything that can be checked without the records is checked first. An interrupted release goes on where it stopped when the same call
    is made again, and never looks twice for one payment.

    Parameters
    ----------
    spec
        The specification, or its file.
    source
        The private table, if it is not the one that the specification names: anything that `read_table` takes.
    out
        Folder to publish to; must not exist yet. By default as specified, or ``NAME-release``.
    ledger
        File of the ledger of the table; made with the specification's total if absent. By default as specified, or the one that belongs to the table.
    another_ledger
        Consent to a further ledger for a table that has one already. What the two promise adds up.
    restart
        Forget an interrupted or finished run. What it spent stays spent.
    consent
        What the owner of the table agrees to: other facts, or another exact number, than the ledger knows.
    approvals
        Who approved the specification; by default what lies beside its file.
    progress
        Called with the name of a stage and a fraction.

    Privacy
    -------
    In: private. Out: public; see `understudy.release.run.run.Release`.

    Examples
    --------
    >>> import tempfile
    >>> from understudy.release.spec.spec import Spec
    >>> spec = Spec.parse('''
    ... name: tiny
    ... source: {simulate: {table: toy, rows: 2000}}
    ... schema: {columns: [{name: smokes, kind: boolean}, {name: exercises, kind: boolean}]}
    ... unit: replace-one
    ... synthesizers: [{method: gaussian, options: {workload: all-2way}}]
    ... acceptance:
    ...   form: pass-only
    ...   epsilon: 0.5
    ...   criteria: [{name: cells, kind: max-marginal-error, threshold: 0.1}]
    ... selection: {rule: single}
    ... budget: {total: {epsilon: 1.5}, model: {epsilon: 1}}
    ... seed: 1
    ... ''')
    >>> import pandas as pd
    >>> table = pd.DataFrame({"smokes": [True, False] * 1000, "exercises": [True, True, False, False] * 500})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder)
    ...     done = publish(spec, source=table, ledger=place / "toy.ledger", out=place / "bundle")
    ...     done.accepted, (place / "bundle" / "certificate.json").exists()
    (True, True)
    """
    from understudy.release.approvals import approvals_beside
    from understudy.release.spec.spec import Spec

    if approvals is None:
        approvals = () if isinstance(spec, Spec) else approvals_beside(spec)
    planned = plan_publication(
        spec if isinstance(spec, Spec) else Spec.read(spec),
        source=source,
        out=None if out is None else Path(out),
        payment=Payment(
            ledger=None if ledger is None else Path(ledger),
            another=another_ledger,
            consent=consent or NO_CONSENT,
        ),
        restart=restart,
        approvals=approvals,
    )
    for note in planned.notes:
        _LOG.warning(note)
    return planned.run(progress=progress)


def plan_publication(
    spec: Spec,
    *,
    source: Any = None,
    out: Path | None = None,
    payment: Payment | None = None,
    restart: bool = False,
    approvals: Sequence[Statement] = (),
) -> PlannedPublication:
    """Check everything about a release that can be checked without the records, and find its ledger; see :func:`publish`."""
    from understudy.release.agreement import agreed
    from understudy.release.run.run import require_free
    from understudy.release.run.state import State
    from understudy.release.series.refresh import require_previous

    payment = payment or Payment()
    if isinstance(source, str | PathLike | Database):
        spec, source = spec.with_source(source), None
    if isinstance(source, Mapping):
        source = LinkedTables(tables=source, name=spec.source.table or spec.schema.name or "tables")
    approved, _ = agreed(spec, approvals)
    require_previous(spec)
    given_here = private = source  # what the ledger belongs to; a simulated table is public
    if source is None:
        private = spec.source.private
        if spec.source.simulated is not None:
            from understudy import datasets

            wanted = spec.source.simulated
            source = datasets.load(wanted.table, wanted.rows, wanted.seed)[0]
    folder = out or spec.folder or Path(f"{spec.name.replace(' ', '-')}-release")
    given = payment.ledger or spec.ledger
    if isinstance(given, Ledger) or given == "memory":
        raise UsageError("A release keeps its state beside its ledger, so the ledger must be a file.")
    table = spec.source.table or spec.name
    place = (
        given
        if isinstance(given, LedgerPlace)
        else find_ledger(
            private,
            name=table,
            ledger=given,
            # a frame that is handed over is known by its content alone
            earlier=Path(f"{ledger_name(table)}.ledger") if given_here is None else None,
            evidence=[folder, folder.absolute().parent],
            another=payment.another,
        )
    )
    earlier = State.recorded(State.folder_for(place.path.absolute(), spec.name)) or {}
    decided = earlier.get("outcome") is not None and not restart
    # refused, it leaves everything as it was: no ledger is made, and the earlier run is not forgotten
    if not decided and (restart or not earlier):
        require_free(folder)
    warnings = () if decided else tuple(f"Warning: {text}" for text in formula_warnings(spec.schema))
    outdated = tuple(
        f"Another version was {said.describe()}; this approval does not travel." for said in approved.outdated
    )
    return PlannedPublication(
        spec=spec,
        source=source,
        folder=folder,
        place=place,
        consent=payment.consent,
        restart=restart,
        decided_before=decided,
        notes=(*place.notes, *outdated, *warnings),
        approvals=approved.given,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedPublication:
    """A release that was checked and can be run; make one with :func:`plan_publication`.

    Attributes
    ----------
    spec, source, folder, restart, consent
        What was asked for.
    place
        Where the ledger is or will be.
    decided_before
        Whether an earlier run has decided it, so that nothing will be read or charged.
    notes
        What a person should read before it is run.
    approvals
        Who approved this very specification.
    """

    spec: Spec
    source: Any = field(repr=False)
    folder: Path
    place: LedgerPlace
    consent: Consent
    restart: bool
    decided_before: bool
    notes: tuple[str, ...] = ()
    approvals: tuple[Statement, ...] = ()

    def run(self, *, progress: Progress = no_progress) -> Publication:
        """Run the release to its outcome, going on where an earlier run stopped, and publish it if it was accepted.

        Privacy
        -------
        See `understudy.release.run.run.Release`.
        """
        from understudy.release.bundle.bundle import write_bundle
        from understudy.release.run.run import Release, require_free

        with Release.open(
            self.spec,
            ledger=self.place,
            source=self.source,
            restart=self.restart,
            consent=self.consent,
            approvals=self.approvals,
        ) as running:
            common: dict[str, Any] = {"ledger": self.place.path, "decided_before": self.decided_before}
            if running.published is None and _is_bundle_of(running.state.release_id, self.folder):
                running.mark_published(self.folder)  # an earlier run was stopped after its last step
            if running.published is not None:
                standing = running.ledger.guarantee()
                return Publication(outcome=None, folder=running.published, standing=standing, **common)
            require_free(self.folder)
            outcome = running.run(progress=progress)
            if is_accepted(outcome):
                write_bundle(outcome, self.folder)
                running.mark_published(self.folder)
            standing = running.ledger.guarantee()
        return Publication(outcome=outcome, folder=self.folder, standing=standing, **common)


def _is_bundle_of(release_id: str, folder: Path) -> bool:
    """Say whether a folder is the bundle of this very release. A bundle appears complete or not at all."""
    from json import JSONDecodeError, loads

    try:
        document = loads((folder / "certificate.json").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, JSONDecodeError):
        return False
    return isinstance(document, dict) and document.get("release") == release_id


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Errors that were released with noise, and how the ledger stands."""

    errors: tuple[AccountedMeasure, ...]
    standing: LedgerGuarantee
    ledger: Path


def measure_errors(
    real: Path,
    synthetic: Path,
    *,
    schema: Schema,
    unit: Unit,
    budget: Budget,
    payment: Payment | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    notify: Callable[[str], None] = _LOG.warning,
) -> Measured:
    """Measure, under a budget, how far the marginals of a synthetic table are from those of the real one.

    Parameters
    ----------
    real, synthetic
        The files of the two tables.
    schema, unit, budget, separator, encoding, names
        What is public about the real one, who is protected, what may be spent, and how a CSV file is read.
    payment
        Which ledger pays: that of the real table, or the file that is named.
    notify
        Called with what a person should know about the choice of the ledger.

    Privacy
    -------
    See `understudy.release.accounted.accounted_measures`.
    """
    from understudy.release.accounted import accounted_measures

    payment = payment or Payment()
    if payment.ledger is not None and not isinstance(payment.ledger, Path):
        raise UsageError("An evaluation is paid for by the ledger of the table, or by a file that is named.")
    schema.require_public()
    made = schema.encode_frame(read_frame(synthetic))
    facts = table_facts(schema, unit=unit, separator=separator, encoding=encoding, names=names)
    place = find_ledger(
        real,
        name=real.name,
        label=payment.table_name,
        ledger=payment.ledger,
        evidence=[synthetic.parent],
        another=payment.another,
    )
    for note in place.notes:
        notify(note)
    paying = PayingLedger(payment=payment, place=place, table=real.name, budget=budget, unit=unit)
    paying.check(facts, measured=schema.columns)
    records = read_table(
        real, schema, id_column=unit.id_column, separator=separator, encoding=encoding, names=names
    )
    with paying.opened() as ledger:
        curator = Curator(records, unit=unit, ledger=ledger, consent=payment.consent)
        remember_facts(ledger, facts, payment.consent)
        errors = tuple(accounted_measures(curator, made, budget))
        standing = ledger.guarantee()
    return Measured(errors=errors, standing=standing, ledger=place.path)
