"""The application layer: everything that happens around one fit or one release, for the command line, the estimator and notebooks alike.

:func:`synthesize` does what ``understudy synth`` does, :func:`publish` what ``understudy release`` does. (The second is not called
``release`` because that is the package with the parts of a release: one name for both would depend on what was imported before.)

Both go in two steps. *Planning* checks everything that can be checked without the records, makes the plan of the fit once and finds the ledger;
no ledger is made and nothing is spent. *Running* compares the owner's facts with the ledger, reads the table, fits, and delivers. What was paid for is
kept beside the ledger until it is delivered (:mod:`understudy.paid_work`, :mod:`understudy.release.run.state`): the same call after an interruption
goes on and pays for nothing twice, and where the output cannot be written the error says where the fitted model is kept.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from understudy.curator import Curator, table_facts
from understudy.data import Database, check_output_format, read_frame, read_table, write_frame
from understudy.data.identity import table_file
from understudy.data.output import is_folder, require_apart, require_writable
from understudy.errors import OutputError, UnderstudyError, UsageError, WorkloadError
from understudy.ledgers import LedgerPlace, find_ledger, ledger_name
from understudy.marginals.workload import Workload, parse_workload
from understudy.mechanisms import (
    Model,
    MultipleSynthesis,
    Plan,
    Progress,
    Synthesizer,
    create,
    no_progress,
)
from understudy.mechanisms import method as method_named
from understudy.mechanisms.multiple import check_sets, share_of
from understudy.paid_work import PaidWork, Unfinished, paid_work, work_facts
from understudy.parallel import available_mb
from understudy.privacy import Budget, Ledger, Unit
from understudy.privacy.facts import Facts, check_facts, remember_facts
from understudy.privacy.invariants import NO_CONSENT, Consent
from understudy.privacy.ledger.ledger import LedgerGuarantee
from understudy.schema import Schema
from understudy.schema.spreadsheets import formula_warnings

if TYPE_CHECKING:
    import pandas as pd

    from understudy.bulk import WrittenSample
    from understudy.release.accounted import AccountedMeasure
    from understudy.release.result import ReleaseFailure, ReleaseResult
    from understudy.release.spec.spec import Spec

__all__ = [
    "Delivery",
    "Fit",
    "Measured",
    "Payment",
    "PlannedPublication",
    "PlannedSynthesis",
    "Publication",
    "Synthesis",
    "check_memory",
    "is_accepted",
    "measure_errors",
    "mechanism_for",
    "plan_publication",
    "plan_synthesis",
    "publish",
    "synthesize",
]

_LOG = logging.getLogger(__name__)

_ADVICE = "Use the ledger of this table (--ledger), name the table as the ledger does (--table-name), or, if this is another table, give it a ledger of its own (--ledger FILE)."
"""For those whose ledger is of another table or unit."""

_ENDINGS = (".csv.gz", ".csv", ".parquet")
_BYTES_PER_VALUE = 40
"""Codes, decoded values and what the writer makes of them, at once."""


# ----------------------------------------------------------------------------------------
# What is asked for.


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What is fitted: a table, the mechanism, who is protected and what it may cost.

    Attributes
    ----------
    table
        The private table: anything that `read_table` takes.
    schema
        What is public about it.
    synthesizer, unit, budget
        The mechanism, who is protected, and what may be spent.
    separator, encoding
        Of a CSV file.
    checkpoint
        A private folder for exact counts of a table larger than memory; see `read_table`.
    files
        What else is read, by what it is: no output may replace the table or one of these.
    """

    table: Any = field(repr=False)
    schema: Schema
    synthesizer: Synthesizer
    unit: Unit
    budget: Budget
    separator: str | None = None
    encoding: str | None = None
    checkpoint: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Payment:
    """Which ledger pays, and what the owner of the table agrees to.

    Attributes
    ----------
    ledger
        The file of the ledger, its place, a ledger that is open already, ``"memory"`` for one that lives as long as the call, or None for
        the ledger that belongs to the table: beside a file, in a folder of the user for databases and frames.
    table_name
        What the table is called in its ledger, if otherwise than its file.
    another
        Consent to a second ledger for a table that has one; their budgets add up.
    consent
        Other facts, or another exact number of rows, than the ledger knows.
    unfinished
        What to do about another fit on the ledger that was interrupted.
    """

    ledger: Path | LedgerPlace | Ledger | Literal["memory"] | None = None
    table_name: str | None = None
    another: bool = False
    consent: Consent = NO_CONSENT
    unfinished: Unfinished = "refuse"


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What is made of the fitted model.

    Attributes
    ----------
    out
        The synthetic table: a file (``.csv``, ``.csv.gz``, ``.parquet``), a folder of parts if the name ends in a slash, or None for
        a frame in memory.
    model
        File for the fitted model.
    rows, seed
        Number of rows, by default as many as the model estimates; and what makes their draw repeatable.
    sets, how
        So many tables under the one budget, made this way; see `understudy.mechanisms.synthesize_many`.
    chunk_rows, partition_by, jobs
        Of a folder of parts; see `understudy.bulk.write_sample`.
    """

    out: str | None = None
    model: Path | None = None
    rows: int | None = None
    seed: int | None = None
    sets: int | None = None
    how: str = "posterior"
    chunk_rows: int | None = None
    partition_by: tuple[str, ...] = ()
    jobs: int = 1

    @property
    def in_parts(self) -> bool:
        """Whether a folder of parts is asked for."""
        return self.out is not None and is_folder(self.out)

    def tables(self) -> list[Path]:
        """Return the files or the folder that will hold the rows."""
        if self.out is None:
            return []
        target = Path(self.out)
        return [target] if self.sets is None else [_numbered(target, i + 1) for i in range(self.sets)]

    def models(self) -> list[Path]:
        """Return the files that will hold the models: one for each set that is fitted by itself."""
        if self.model is None:
            return []
        if self.sets is None or self.how != "independent" or self.sets == 1:
            return [self.model]
        return [_numbered(self.model, i + 1) for i in range(self.sets)]


def _numbered(path: Path, number: int) -> Path:
    """Return the path of one of several files.

    Examples
    --------
    >>> _numbered(Path("out/births.csv.gz"), 3).name
    'births-3.csv.gz'
    """
    ending = next((text for text in _ENDINGS if path.name.endswith(text)), path.suffix)
    stem = path.name[: len(path.name) - len(ending)]
    return path.with_name(f"{stem}-{number}{ending}")


def mechanism_for(
    method: str,
    schema: Schema,
    *,
    workload: str | Workload | None = None,
    options: Mapping[str, Any] | None = None,
    workload_name: str = "workload",
    error: type[UnderstudyError] = WorkloadError,
) -> Synthesizer:
    """Return a mechanism by its name, with its options and, where it takes one, its workload.

    Parameters
    ----------
    method
        Name of a mechanism; see ``understudy methods``.
    schema
        The columns that a workload speaks of.
    workload
        As text (``"all-3way"``, ``"target:COLUMN"``, ``"skewed"``, a file) or ready made.
    options
        Further options of the mechanism.
    workload_name, error
        What the workload is called where the user wrote it, and what to raise if the mechanism takes none.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]")
    >>> mechanism_for("aim", schema, workload="all-2way").workload.cliques
    (('a', 'b'),)
    """
    given = dict(options or {})
    if workload is not None:
        if not method_named(method).takes_workload:
            raise error(f"{method} does not take a workload; leave {workload_name} out.")
        given["workload"] = parse_workload(schema.domain, workload) if isinstance(workload, str) else workload
    return create(method, **given)


# ----------------------------------------------------------------------------------------
# One fit.


@dataclass(frozen=True, kw_only=True, eq=False)
class Synthesis:
    """A fitted model, what was made of it, and what it cost.

    Attributes
    ----------
    model
        The fitted model; of several sets the first one's.
    frame
        The synthetic rows, unless they were written as a folder of parts or as several sets.
    many
        All sets, if several were asked for.
    rows
        Number of synthetic rows (of each set).
    written
        The files or the folder that hold them.
    parts
        How a folder of parts was written.
    guarantee
        What is promised, in a sentence.
    standing
        How the ledger stands now.
    ledger, new_ledger
        Its file, if it is one, and whether it was made for this fit.
    repeated
        Answers of an interrupted run that were repeated at no cost.
    """

    model: Model
    frame: pd.DataFrame | None = field(default=None, repr=False)
    many: MultipleSynthesis | None = None
    rows: int
    written: tuple[Path, ...] = ()
    parts: WrittenSample | None = None
    guarantee: str
    standing: LedgerGuarantee = field(repr=False)
    ledger: Path | None
    new_ledger: bool
    repeated: int


def synthesize(
    table: Any,
    *,
    schema: Schema | str | PathLike[str],
    unit: Unit | str | Mapping[str, Any],
    method: str = "aim",
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    workload: str | Workload | None = None,
    options: Mapping[str, Any] | None = None,
    rows: int | None = None,
    seed: int | None = None,
    out: str | PathLike[str] | None = None,
    model: str | PathLike[str] | None = None,
    ledger: str | PathLike[str] | Ledger | None = None,
    consent: Consent | None = None,
    unfinished: Unfinished = "refuse",
    progress: Progress = no_progress,
) -> Synthesis:
    """Fit one private model to a table and draw synthetic rows from it: ``understudy synth``, from Python.

    Everything that can be checked without the records is checked first. The ledger is charged before each draw of noise, and every
    answer is kept until the result is delivered: the same call after an interruption goes on and pays for nothing twice. A second call after
    that spends again, or is refused.

    Parameters
    ----------
    table
        A pandas or Polars frame, a CSV or Parquet file, a `Database`: anything that `read_table` takes.
    schema
        What is public about the table, or the file that says it.
    unit
        Who is protected: ``"add-remove"``, ``"replace-one"``, or a `Unit` (for people with several rows).
    method
        Name of a mechanism; see ``understudy methods``.
    epsilon, delta, rho, mu
        The budget, exactly one kind of it: epsilon (with or without delta), rho, or mu.
    workload, options
        Marginals that matter, for mechanisms that take them, and further options of the mechanism.
    rows, seed
        Number of synthetic rows, by default as many as the model estimates; and what makes their draw repeatable. Noise takes no seed.
    out, model
        Files for the rows and for the model; without ``out`` the rows are a frame of the result.
    ledger
        File of the ledger, or one that is open already. By default the one that belongs to the table: beside a file, in a folder of yours for a frame,
        which is known again by its content. It is made with this budget as the total of the table if it is absent.
    consent, unfinished
        What the owner of the table agrees to, and what to do about another fit on the ledger that was interrupted (``"refuse"``, ``"keep"`` or
        ``"drop"`` its paid answers).
    progress
        Called with the name of a stage and a fraction.

    Several sets, folders of parts, separators and further names are fields of `Fit`, `Payment` and `Delivery`; plan with these and run:
    ``plan_synthesis(fit, payment=..., delivery=...).run()``.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot pay. Nothing was drawn.
    OutputError
        If the result cannot be written. Before anything is spent, where that can be known; otherwise the message says where the model is kept.

    Privacy
    -------
    In: private. Out: public; see :meth:`understudy.mechanisms.Synthesizer.fit`.

    Examples
    --------
    >>> from understudy import datasets
    >>> frame, schema = datasets.load("toy", 500, seed=1)
    >>> ledger = Ledger.in_memory(budget=Budget.of(epsilon=1.0), unit=Unit.add_remove(), table="toy")
    >>> made = synthesize(
    ...     frame, schema=schema, unit="add-remove", epsilon=1.0, method="independent", rows=3, ledger=ledger
    ... )
    >>> made.frame.shape
    (3, 4)
    """
    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, mu=mu)
    protected = Unit.of(unit)
    described = schema if isinstance(schema, Schema) else Schema.read(schema)
    fit = Fit(
        table=table,
        schema=described,
        synthesizer=mechanism_for(method, described, workload=workload, options=options),
        unit=protected,
        budget=budget,
        files={} if isinstance(schema, Schema) else {"schema": Path(schema)},
    )
    planned = plan_synthesis(
        fit,
        payment=Payment(
            ledger=ledger if ledger is None or isinstance(ledger, Ledger) else Path(ledger),
            consent=consent or NO_CONSENT,
            unfinished=unfinished,
        ),
        delivery=Delivery(
            out=None if out is None else os.fspath(out),
            model=None if model is None else Path(model),
            rows=rows,
            seed=seed,
        ),
    )
    for note in planned.notes:
        _LOG.warning(note)
    return planned.run(progress=progress)


def plan_synthesis(
    fit: Fit, *, payment: Payment | None = None, delivery: Delivery | None = None
) -> PlannedSynthesis:
    """Check everything about a fit that can be checked without the records, and find its ledger.

    Parameters
    ----------
    fit
        What is fitted.
    payment
        Which ledger pays; by default that of the table.
    delivery
        What is made of the model; None if the model itself is all that is wanted.

    Raises
    ------
    UnderstudyError
        Of many kinds: a schema that is not public, a guarantee that the mechanism cannot give, an output that cannot be written, a ledger that cannot
        be found. No ledger was made and nothing was spent.

    Privacy
    -------
    In: private; the content of the table is digested with a secret key of the user, to find its ledger again (`understudy.ledgers.find_ledger`). Out: for
    the owner of the table.
    """
    fit.schema.require_public()
    payment = payment or Payment()
    fit.synthesizer.require(fit.budget)
    plan = fit.synthesizer.plan(fit.schema, unit=fit.unit, budget=fit.budget)
    reserve = _check_delivery(fit, delivery)
    place = _place(fit, payment, delivery)
    if place is not None:
        require_writable(place.path, what="ledger")
    _check_apart(fit, delivery, place)
    notes = () if place is None else place.notes
    as_text = delivery is not None and delivery.out is not None and not _is_parquet(Path(delivery.out))
    warnings = formula_warnings(fit.schema) if as_text else ()
    return PlannedSynthesis(
        fit=fit,
        payment=payment,
        delivery=delivery,
        plan=plan,
        reserve=reserve,
        place=place,
        notes=(*notes, *(f"Warning: {warning}" for warning in warnings)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedSynthesis:
    """A fit that was checked and can be run; make one with :func:`plan_synthesis`.

    Attributes
    ----------
    fit, payment, delivery
        What was asked for.
    plan
        What the fit will do.
    reserve
        Delta that a new ledger sets aside for events with a delta of their own.
    place
        Where the ledger is or will be; None for one in memory or one that was handed over.
    notes
        What a person should read before the fit is run.
    """

    fit: Fit
    payment: Payment
    delivery: Delivery | None
    plan: Plan
    reserve: float
    place: LedgerPlace | None
    notes: tuple[str, ...] = ()

    def run(self, *, progress: Progress = no_progress) -> Synthesis:
        """Read the table, fit, deliver; go on where an earlier run was interrupted.

        Raises
        ------
        LedgerMismatch
            If the ledger is of another table or unit, or knows other facts and the owner did not agree. No record was read.
        OutputError
            If the result was not written. It says where the fitted model is kept.

        Privacy
        -------
        See :meth:`understudy.mechanisms.Synthesizer.fit`.
        """
        fit, payment, delivery = self.fit, self.payment, self.delivery
        owner = table_facts(fit.schema, unit=fit.unit, separator=fit.separator, encoding=fit.encoding)
        new = self.place is not None and not self.place.path.exists()
        if self.place is not None:
            _check_before_reading(self.place, owner, payment.consent, **self._terms)
        progress("preparing", 0.0)
        fit.synthesizer.prepare(fit.schema, unit=fit.unit, budget=fit.budget, plan=self.plan)
        progress("reading", 0.0)
        records = read_table(
            fit.table,
            fit.schema,
            id_column=fit.unit.id_column,
            separator=fit.separator,
            encoding=fit.encoding,
            watch=progress,
            checkpoint=fit.checkpoint,
        )
        sets = None if delivery is None else delivery.sets
        facts = work_facts(
            fit.synthesizer,
            schema_fingerprint=fit.schema.fingerprint(),
            unit=fit.unit,
            budget=fit.budget,
            **({} if delivery is None or sets is None else {"sets": sets, "how": delivery.how}),
        )
        asked: dict[str, Any] = {"unit": fit.unit, "budget": fit.budget, "progress": progress}
        many = None
        with (
            self._ledger() as book,
            paid_work(
                book, facts, unfinished=payment.unfinished, owner=owner, consent=payment.consent
            ) as work,
        ):
            if delivery is None or sets is None:
                model = work.fit(fit.synthesizer, records, **asked)
            else:
                many = work.fit_many(
                    fit.synthesizer, records, sets=sets, how=delivery.how, seed=delivery.seed, **asked
                )
                model = many.models[0]
            standing = book.guarantee()
            made: dict[str, Any] = {"rows": 0}
            if delivery is not None:
                progress("sampling", 1.0)
                made = _deliver(delivery, model, many, work, progress=progress)
            repeated = work.repeated
            work.done()
        return Synthesis(
            model=model,
            many=many,
            guarantee=replace(model.provenance, budget=fit.budget).guarantee(),
            standing=standing,
            ledger=book.path,
            new_ledger=new,
            repeated=repeated,
            **made,
        )

    @property
    def _terms(self) -> dict[str, Any]:
        """On which terms the ledger is opened."""
        name = self.payment.table_name
        return {
            "budget": self.fit.budget,
            "unit": self.fit.unit,
            "table": name or _name_of(self.fit.table),
            "named": name is not None,
            "approximate_delta": self.reserve,
            "advice": _ADVICE,
        }

    @contextlib.contextmanager
    def _ledger(self) -> Iterator[Ledger]:
        """Open the ledger that pays; one that was handed over stays open."""
        given = self.payment.ledger
        if self.place is not None:
            with self.place.opened(**self._terms) as book:
                yield book
        elif isinstance(given, Ledger):
            yield given
        else:
            name = _name_of(self.fit.table)
            with Ledger.in_memory(
                budget=self.fit.budget, unit=self.fit.unit, table=name, approximate_delta=self.reserve
            ) as book:
                yield book


def _name_of(table: Any) -> str:
    """Return the public name of a table: that of its file, or of the table of its database."""
    if isinstance(table, Database):
        return table.label
    if isinstance(table, str | PathLike):
        return Path(table).name
    file = table_file(table)
    return "table" if file is None else file.name


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith((".parquet", ".pq"))


def _place(fit: Fit, payment: Payment, delivery: Delivery | None) -> LedgerPlace | None:
    """Return where the ledger is or will be; None for one in memory or one that is open already."""
    given = payment.ledger
    if given == "memory" or isinstance(given, Ledger):
        return None
    if isinstance(given, LedgerPlace):
        return given
    name = _name_of(fit.table)
    out = None if delivery is None or delivery.out is None else Path(delivery.out)
    model = None if delivery is None else delivery.model
    return find_ledger(
        fit.table,
        name=name,
        label=payment.table_name or name,
        ledger=given,
        earlier=None if out is None else out.parent / f"{ledger_name(name)}.ledger",
        evidence=[path for path in (out, None if out is None else out.parent, model) if path is not None],
        another=payment.another,
    )


def _check_before_reading(place: LedgerPlace, facts: Facts, consent: Consent, **terms: Any) -> None:
    """Refuse facts that an existing ledger does not know, before a record is read: what does not fit is an answer too."""
    if place.path.exists():
        with place.opened(**terms) as book:
            check_facts(book, facts, consent)


# ------------------------------------------------------------------ delivering


def _check_delivery(fit: Fit, delivery: Delivery | None) -> float:
    """Check everything about the output that can be checked in advance; return the delta that the ledger must set aside."""
    synthesizer, schema = fit.synthesizer, fit.schema
    if delivery is None:
        return synthesizer.reserve(schema, fit.budget)
    if delivery.out is not None:
        check_output_format(delivery.out)
    reserve = synthesizer.reserve(schema, fit.budget)
    if delivery.sets is not None:
        check_sets(synthesizer, how=delivery.how, m=delivery.sets)
        if delivery.how == "independent":
            share = share_of(fit.budget, delivery.sets, synthesizer, schema=schema, unit=fit.unit)
            synthesizer.require(share)
            synthesizer.plan(schema, unit=fit.unit, budget=share)
            reserve = delivery.sets * synthesizer.reserve(schema, share)
    if delivery.in_parts:
        _check_parts(delivery, schema)
    else:
        if delivery.chunk_rows is not None or delivery.partition_by:
            raise UsageError(
                "--chunk-rows and --partition-by (chunk_rows, partition_by) go with a folder of parts: end the name of the output (--out) in /."
            )
        if delivery.out is not None:
            check_memory(delivery.rows, schema, delivery.out)
            require_writable(delivery.tables()[0], what="output")
    if delivery.model is not None:
        require_writable(delivery.model, what="model file")
    return reserve


def _check_parts(delivery: Delivery, schema: Schema) -> None:
    """Refuse a folder that is in the way, an unfinished one, or one that cannot be made that way."""
    from understudy.bulk import check_partitions, unfinished
    from understudy.bulk.staging import Staging

    assert delivery.out is not None
    if delivery.sets is not None:
        raise UsageError(
            "Several sets (--sets) are files, not folders; leave the final slash of the output (--out) away."
        )
    Staging(delivery.out).require_free()
    waiting = unfinished(delivery.out)
    if waiting is not None:
        raise OutputError(
            f"An unfinished sample, with the model it is drawn from, is in {str(waiting)!r}. Finish it with: "
            f"understudy sample {waiting / 'model.understudy'} --out {delivery.out} (and the options it was begun with), or "
            "remove that folder."
        )
    check_partitions(schema, delivery.partition_by, delivery.out)


def check_memory(rows: int | None, schema: Schema, out: str) -> None:
    """Refuse a single file of more rows than the memory holds, before anything is spent."""
    free = available_mb()
    need = (rows or 0) * len(schema.names) * _BYTES_PER_VALUE / 2**20
    if free is not None and need > free:
        raise OutputError(
            f"{rows:,} rows in one file need about {need:,.0f} MB of memory and {free:,.0f} MB are free. End the name "
            f"with a slash ({out}/) to write a folder of files, chunk by chunk."
        )


def _check_apart(fit: Fit, delivery: Delivery | None, place: LedgerPlace | None) -> None:
    """Refuse outputs that would replace what is read, the ledger, or one another."""
    ledger = None if place is None else place.path
    tables: Sequence[Path] = () if delivery is None else delivery.tables()
    models: Sequence[Path] = () if delivery is None else delivery.models()
    for number in range(max(1, len(tables), len(models))):
        require_apart(
            {
                "output": tables[number] if number < len(tables) else None,
                "model file": models[min(number, len(models) - 1)] if models else None,
                "ledger": ledger,
            },
            _files_of(fit.table) | dict(fit.files),
        )


def _files_of(table: Any) -> dict[str, Path]:
    """Return the files that a table is read from, as far as it is read from files."""
    if isinstance(table, Database):
        return {"database": Path(table.url.split("://", 1)[-1]), "table": Path(table.table)}
    if isinstance(table, str | PathLike):
        return {"table": Path(table)}
    if isinstance(table, Sequence) and all(isinstance(item, str | PathLike) for item in table):
        return {f"part {number} of the table": Path(item) for number, item in enumerate(table, start=1)}
    return {}


def _deliver(
    delivery: Delivery, model: Model, many: MultipleSynthesis | None, work: PaidWork, *, progress: Progress
) -> dict[str, Any]:
    """Write models and rows; if that fails, keep what was paid for somewhere and say where."""
    if many is not None:
        return _deliver_sets(delivery, many)
    if delivery.in_parts:
        return _deliver_parts(delivery, model, work, progress)
    try:
        if delivery.model is not None:
            model.save(delivery.model)
        frame = model.sample(delivery.rows, seed=delivery.seed)
        if delivery.out is not None:
            write_frame(frame, delivery.out)
    except Exception as error:
        kept = work.model_path or _rescue(model)
        note = (
            f" The fitted model, already paid for, is kept in {kept} and taken up by the same command or call."
            if kept
            else ""
        )
        raise OutputError(f"The synthetic table was not written: {error}{note}") from None
    return {"frame": frame, "rows": len(frame), "written": tuple(delivery.tables())}


def _deliver_sets(delivery: Delivery, many: MultipleSynthesis) -> dict[str, Any]:
    """Write every set, and the models."""
    distinct = many.models if many.kind == "independent" else many.models[:1]
    rows = delivery.rows if delivery.rows is not None else many.rows
    try:
        for model, path in zip(distinct, delivery.models(), strict=False):
            model.save(path)
        if delivery.out is not None:
            for frame, path in zip(
                many.frames(delivery.rows, seed=delivery.seed), delivery.tables(), strict=True
            ):
                write_frame(frame, path)
                rows = len(frame)
    except Exception as error:
        kept = [str(saved) for saved in map(_rescue, distinct) if saved is not None]
        note = f" The fitted models, already paid for, are kept in {', '.join(kept)}." if kept else ""
        raise OutputError(f"The synthetic tables were not all written: {error}{note}") from None
    return {"rows": rows, "written": tuple(delivery.tables())}


def _deliver_parts(delivery: Delivery, model: Model, work: PaidWork, progress: Progress) -> dict[str, Any]:
    """Write model and folder; what an interruption leaves is named, and holds the paid-for model."""
    from understudy.bulk import unfinished, write_sample

    assert delivery.out is not None
    try:
        if delivery.model is not None:
            model.save(delivery.model)
        done = write_sample(
            model,
            delivery.out,
            rows=delivery.rows,
            seed=delivery.seed,
            rows_per_chunk=delivery.chunk_rows,
            partition_by=delivery.partition_by,
            jobs=delivery.jobs,
            progress=progress,
        )
    except Exception as error:
        waiting = unfinished(delivery.out)
        kept = None if waiting is None else waiting / "model.understudy"
        kept = kept if kept is not None and kept.exists() else work.model_path or _rescue(model)
        note = (
            f" The fitted model, already paid for, is kept in {kept}; go on with: understudy sample {kept} --out {delivery.out}"
            if kept
            else ""
        )
        raise OutputError(f"The synthetic table is not complete: {error}{note}") from None
    return {"rows": done.rows, "written": (done.path,), "parts": done}


def _rescue(model: Model) -> Path | None:
    """Try to save the model into a fresh file of the temporary folder."""
    import tempfile

    try:
        path = Path(tempfile.mkdtemp(prefix="understudy-")) / "model.understudy"
        model.save(path)
    except OSError:
        return None
    return path


# ----------------------------------------------------------------------------------------
# One release.


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
    restart: bool = False,
    consent: Consent | None = None,
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
    restart
        Forget an interrupted or finished run. What it spent stays spent.
    consent
        What the owner of the table agrees to: other facts, or another exact number, than the ledger knows.
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
    from understudy.release.spec.spec import Spec

    planned = plan_publication(
        spec if isinstance(spec, Spec) else Spec.read(spec),
        source=source,
        out=None if out is None else Path(out),
        payment=Payment(ledger=None if ledger is None else Path(ledger), consent=consent or NO_CONSENT),
        restart=restart,
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
) -> PlannedPublication:
    """Check everything about a release that can be checked without the records, and find its ledger; see :func:`publish`."""
    from understudy.release.run.run import require_free
    from understudy.release.run.state import State

    payment = payment or Payment()
    if isinstance(source, str | PathLike | Database):
        spec, source = spec.with_source(source), None
    private = source  # what the ledger belongs to; a simulated table is public
    if source is None:
        private = spec.source.path or spec.source.database
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
            earlier=Path(f"{ledger_name(table)}.ledger"),
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
    return PlannedPublication(
        spec=spec,
        source=source,
        folder=folder,
        place=place,
        consent=payment.consent,
        restart=restart,
        decided_before=decided,
        notes=(*place.notes, *warnings),
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
    """

    spec: Spec
    source: Any = field(repr=False)
    folder: Path
    place: LedgerPlace
    consent: Consent
    restart: bool
    decided_before: bool
    notes: tuple[str, ...] = ()

    def run(self, *, progress: Progress = no_progress) -> Publication:
        """Run the release to its outcome, going on where an earlier run stopped, and publish it if it was accepted.

        Privacy
        -------
        See `understudy.release.run.run.Release`.
        """
        from understudy.release.bundle.bundle import write_bundle
        from understudy.release.run.run import Release, require_free

        with Release.open(
            self.spec, ledger=self.place, source=self.source, restart=self.restart, consent=self.consent
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


# ----------------------------------------------------------------------------------------
# Errors of a synthetic table, measured under a budget.


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
    notify: Callable[[str], None] = _LOG.warning,
) -> Measured:
    """Measure, under a budget, how far the marginals of a synthetic table are from those of the real one.

    Parameters
    ----------
    real, synthetic
        The files of the two tables.
    schema, unit, budget, separator, encoding
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
    facts = table_facts(schema, unit=unit, separator=separator, encoding=encoding)
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
    terms: dict[str, Any] = {
        "budget": budget,
        "unit": unit,
        "table": payment.table_name or real.name,
        "named": payment.table_name is not None,
        "approximate_delta": 0.0,
        "advice": _ADVICE,
    }
    _check_before_reading(place, facts, payment.consent, **terms)
    records = read_table(real, schema, id_column=unit.id_column, separator=separator, encoding=encoding)
    with place.opened(**terms) as book:
        curator = Curator(records, unit=unit, ledger=book, consent=payment.consent)
        remember_facts(book, facts, payment.consent)
        errors = tuple(accounted_measures(curator, made, budget))
        standing = book.guarantee()
    return Measured(errors=errors, standing=standing, ledger=place.path)
