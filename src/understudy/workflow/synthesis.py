"""One fit: from a table to its model and its stand-in, paid for by the ledger of the table."""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from understudy._html import html_lines
from understudy.curator import require_measured, require_unmeasured, table_facts
from understudy.data import Database, Table, read_table
from understudy.data.events import read_events
from understudy.data.holdout import HoldOut
from understudy.data.identity import table_file
from understudy.data.linked import LinkedTables, read_linked
from understudy.data.output import require_writable
from understudy.discovery import Discovery
from understudy.errors import UnderstudyError, UsageError, WorkloadError
from understudy.inference.people import RowsPerPerson
from understudy.ledgers import LedgerPlace, find_ledger, ledger_name
from understudy.marginals import Workload, parse_workload
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
from understudy.mechanisms.events import RegisterModel, event_mechanism
from understudy.privacy import Budget, Ledger, Unit
from understudy.privacy.facts import Facts, check_facts
from understudy.privacy.guarantee import ALSO_MEASURED
from understudy.privacy.invariants import NO_CONSENT, Consent
from understudy.privacy.ledger.ledger import LedgerGuarantee
from understudy.progress import Phases
from understudy.schema import Column, Schema
from understudy.schema.entities import Entity, with_entity
from understudy.schema.spreadsheets import formula_warnings
from understudy.workflow.choice import AUTO, CHOICE_RULE, choose, predicting
from understudy.workflow.cutting import CutLook, rows_per_person, unit_with_look
from understudy.workflow.delivery import Delivery, check_apart, check_delivery, deliver
from understudy.workflow.events import (
    FOR_EVENTS,
    WHY_FOR_EVENTS,
    check_linked,
    check_two_levels,
    entity_of,
    file_endings,
    linked_source,
    records_of,
    refuse_for_register,
    register_source,
    synthesize_register,
)
from understudy.workflow.hold_out import describe_hold_out, divided, hold_out_file, keep_hold_out
from understudy.workflow.measuring import (
    SchemaStep,
    Steps,
    ask_about_people,
    discovering,
    require_one_accounting,
    run_steps,
    with_steps,
)
from understudy.workflow.paid import Unfinished, paid_work, work_facts
from understudy.workflow.public_data import FOR_PRIORS, WHY_FOR_PRIORS, Prior, read_prior, require_apart

if TYPE_CHECKING:
    import pandas as pd

    from understudy.bulk import WrittenSample

__all__ = [
    "ADVICE",
    "Fit",
    "Payment",
    "PlannedSynthesis",
    "Synthesis",
    "check_before_reading",
    "described_by",
    "mechanism_for",
    "name_of",
    "plan_synthesis",
    "reason_for",
    "synthesize",
]

_LOG = logging.getLogger(__name__)

ADVICE = (
    "Use the ledger of this table (--ledger), name the table as the ledger does (--table-name), or give it a ledger of its own (--ledger FILE, with "
    "--another-ledger if this table has one already: then what the two promise adds up)."
)
"""For those whose ledger is of another table or unit."""


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
    separator, encoding, names
        Of a CSV file; see `read_table`.
    checkpoint
        A private folder for exact counts of a table larger than memory; see `read_table`.
    files
        What else is read, by what it is: no output may replace the table or one of these.
    hold_out, hold_out_file
        A share of the rows (or people) to set aside, or an earlier division: neither the steps nor the fit read those rows, and the guarantee is about the whole
        table all the same (`HoldOut`). The file keeps share and key of a new division, or holds those of an earlier one; by default it lies beside the ledger,
        and there is none for a ledger in memory.
    steps, rebuild
        Steps that measure the schema under shares of the budget before the fit (:mod:`understudy.workflow.measuring`), and how the mechanism is made for the
        schema that they find. ``schema`` and ``synthesizer`` then stand in for those, to be checked in advance.
    reason
        Says why the mechanism was chosen for a schema, where nobody named one (:mod:`understudy.workflow.choice`).
    entity
        Whose the rows are, for a fit of two levels (:mod:`understudy.workflow.events`); None fits rows.
    cut
        A look at how many rows people have, where rows are cut by person (:mod:`understudy.workflow.cutting`).
    """

    table: Any = field(repr=False)
    schema: Schema
    synthesizer: Synthesizer
    unit: Unit
    budget: Budget
    separator: str | None = None
    encoding: str | None = None
    names: Sequence[str] | None = None
    checkpoint: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    hold_out: float | HoldOut | None = None
    hold_out_file: Path | None = None
    steps: tuple[SchemaStep, ...] = ()
    rebuild: Callable[[Schema], Synthesizer] | None = field(default=None, repr=False)
    reason: Callable[[Schema], str] | None = field(default=None, repr=False)
    entity: Entity | None = None
    cut: CutLook | None = None

    @property
    def planned_unit(self) -> Unit:
        """The unit to plan with: where the rows of a person are yet to be chosen, one with a usual number of them."""
        return self.unit if self.cut is None else self.cut.planned_unit(self.unit)

    @property
    def records(self) -> Schema:
        """The schema of what is counted and modelled: the rows of the table, or the event records of its entities."""
        return records_of(self.schema, self.entity)


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


def mechanism_for(
    method: str,
    schema: Schema,
    *,
    workload: str | Workload | None = None,
    target: str | None = None,
    options: Mapping[str, Any] | None = None,
    unit: Unit | None = None,
    budget: Budget | None = None,
    workload_name: str = "workload",
    error: type[UnderstudyError] = WorkloadError,
    entity: Entity | None = None,
    prior: Prior | None = None,
    time_limit: float | None = None,
) -> Synthesizer:
    """Return a mechanism by its name, with its options and, where it takes one, its workload.

    Parameters
    ----------
    method
        Name of a mechanism; see ``understudy methods``. ``"auto"`` chooses one: :func:`understudy.workflow.choice.choose`.
    schema
        The columns that a workload speaks of.
    workload
        As text (``"all-3way"``, ``"target:COLUMN"``, ``"skewed"``, a file) or ready made.
    target
        A column that will be predicted from the others, instead of a workload.
    options
        Further options of the mechanism.
    unit, budget
        Who is protected and what may be spent: ``"auto"`` chooses by them as well.
    workload_name, error
        What the workload is called where the user wrote it, and what to raise if the mechanism takes none.
    entity
        Whose the rows are, for a fit of two levels.
    prior
        Public data over the same columns; see :func:`understudy.workflow.public_data.read_prior`.
    time_limit
        Seconds that the rounds of the fit may take, by a cost model of public facts: :meth:`understudy.mechanisms.Synthesizer.limited_to`.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]")
    >>> mechanism_for("aim", schema, workload="all-2way").workload.cliques
    (('a', 'b'),)
    """
    if time_limit is not None:
        if not (math.isfinite(time_limit) and time_limit > 0):
            raise error(f"The time limit ({time_limit!r}) must be a positive number of seconds.")
        free = mechanism_for(
            method, schema, workload=workload, target=target, options=options, unit=unit, budget=budget,
            workload_name=workload_name, error=error, entity=entity, prior=prior,
        )  # fmt: skip
        return free.limited_to(time_limit, records_of(schema, entity))
    given = dict(options or {})
    wanted = workload_of(schema, workload, target, error)
    if prior is not None:
        if entity is not None:
            raise error(
                "A prior is for one table of rows; people with several rows are fitted without one (or with --flat)."
            )
        method = FOR_PRIORS if method == AUTO else method
        if method != FOR_PRIORS:
            raise error(f"{method} does not take a prior; leave it out, or use the method {FOR_PRIORS}.")
        given["prior"] = read_prior(prior, schema)
    if method == AUTO:
        if given:
            raise error(
                f"Options ({', '.join(given)}) belong to a method, and auto has none: name the method as well, or leave them out."
            )
        if unit is None or budget is None:
            raise error("The method auto is chosen by the unit and the budget; give both.")
        if entity is not None:
            return event_mechanism(FOR_EVENTS, records_of(schema, entity), wanted, {})
        return choose(schema, unit=unit, budget=budget, workload=wanted).mechanism()
    if wanted is not None:
        if not method_named(method).takes_workload:
            name = workload_name if target is None else "the column to predict (--target, target)"
            raise error(f"{method} does not take a workload; leave {name} out.")
        given["workload"] = wanted
    if entity is not None:
        return event_mechanism(method, records_of(schema, entity), given.pop("workload", None), given)
    return create(method, **given)


def reason_for(
    method: str,
    *,
    workload: str | Workload | None = None,
    target: str | None = None,
    unit: Unit,
    budget: Budget,
    entity: Entity | None = None,
    prior: Prior | None = None,
) -> Callable[[Schema], str] | None:
    """Return what says why :func:`mechanism_for` chose its mechanism for a schema; None where the mechanism was named."""
    if method != AUTO:
        return None
    if entity is not None:
        return lambda schema: WHY_FOR_EVENTS
    if prior is not None:
        return lambda schema: WHY_FOR_PRIORS
    return lambda schema: (
        choose(
            schema, unit=unit, budget=budget, workload=workload_of(schema, workload, target, WorkloadError)
        ).why
    )


def workload_of(
    schema: Schema, workload: str | Workload | None, target: str | None, error: type[UnderstudyError]
) -> Workload | None:
    """Return the marginals that matter, or None where nobody said."""
    if target is None:
        return parse_workload(schema.domain, workload) if isinstance(workload, str) else workload
    if workload is not None:
        raise error("Give a workload or a column to predict (--target, target), not both.")
    return predicting(schema.domain, target)


@dataclass(frozen=True, kw_only=True, eq=False)
class Synthesis:
    """A fitted model, what was made of it, and what it cost.

    Attributes
    ----------
    model
        The fitted model; of several sets, or several tables of events, the first one's.
    register
        Of several tables of events: their models together.
    frame
        The synthetic rows, unless they were written as a folder of parts or as several sets.
    tables
        The synthetic tables by name, of linked tables; then there is no ``frame``.
    many
        All sets, if several were asked for.
    rows
        Number of synthetic rows (of each set; of the tables of events of linked tables).
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
    discovery
        The schema that was measured before the fit, and what it leaves out, where that was asked for.
    hold_out, hold_out_file
        Which rows had no part in the fit, where some were set aside, and the file that keeps it. Private.
    why
        Why the mechanism was chosen, where nobody named one; empty otherwise.
    persons
        Of a fit of two levels: how many persons (or other entities) the synthetic rows are of.
    rows_per_person
        Of a fit of rows that are cut by person: how many rows of a person count and what the cut leaves out, where a look at that was paid for.
    """

    model: Model
    frame: pd.DataFrame | None = field(default=None, repr=False)
    tables: Mapping[str, pd.DataFrame] | None = field(default=None, repr=False)
    many: MultipleSynthesis | None = None
    rows: int
    written: tuple[Path, ...] = ()
    parts: WrittenSample | None = None
    guarantee: str
    standing: LedgerGuarantee = field(repr=False)
    ledger: Path | None
    new_ledger: bool
    repeated: int
    discovery: Discovery | None = field(default=None, repr=False)
    hold_out: HoldOut | None = field(default=None, repr=False)
    hold_out_file: Path | None = None
    why: str = ""
    persons: int | None = None
    rows_per_person: RowsPerPerson | None = None
    register: RegisterModel | None = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        made = (
            [f"{self.rows:,} synthetic rows."]
            if self.tables is None
            else [f"{len(table):,} synthetic rows of {name!r}." for name, table in self.tables.items()]
        )
        told = [*made, f"Guarantee: {self.guarantee}", self.why, self.standing.describe()]
        return html_lines(f"Stand-in made by {self.model.provenance.method}", filter(None, told))


def synthesize(
    table: Any,
    *,
    schema: Schema | str | PathLike[str] | None = None,
    unit: Unit | str | Mapping[str, Any] | None = None,
    method: str = AUTO,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    discover: float | str | None = None,
    numbers_only: bool = False,
    hold_out: float | HoldOut | None = None,
    workload: str | Workload | None = None,
    target: str | None = None,
    options: Mapping[str, Any] | None = None,
    prior: Prior | None = None,
    time_limit: float | None = None,
    flat: bool = False,
    rows_lost: bool = False,
    population: bool = False,
    rows: int | None = None,
    seed: int | None = None,
    out: str | PathLike[str] | None = None,
    model: str | PathLike[str] | None = None,
    ledger: str | PathLike[str] | Ledger | None = None,
    another_ledger: bool = False,
    table_name: str | None = None,
    consent: Consent | None = None,
    unfinished: Unfinished = "refuse",
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    progress: Progress = no_progress,
) -> Synthesis:
    """Fit one private model to a table and draw synthetic rows from it: ``understudy synth``, from Python.

    Everything that can be checked without the records is checked first. The ledger is charged before each draw of noise, and every
    answer is kept until the result is delivered: the same call after an interruption goes on and pays for nothing twice. A second call after
    that spends again, or is refused.

    Parameters
    ----------
    table
        A pandas or Polars frame, a CSV or Parquet file, a `Database`: anything that `read_table` takes. Linked tables are given by their names, as in
        ``{"patients": ..., "stays": ...}``, or as the schema file that names their files.
    schema
        What is public about the table, or the file that says it. With ``discover`` it may be left out, or declare some columns only.
    unit
        Who is protected: ``"add-remove"``, ``"replace-one"``, or a `Unit` (for people with several rows). As a mapping, its ``max_rows`` may be ``"auto"``: with ``flat`` a twentieth of
        the budget then measures how many rows people have, and the number with the least error is chosen from that.
    method
        Name of a mechanism; see ``understudy methods``. By default ``"auto"``, which chooses one from the schema, the unit and the budget, never from
        the records (:func:`understudy.workflow.choice.choose`); ``why`` of the result says what decided.
    epsilon, delta, rho, mu
        The budget, exactly one kind of it: epsilon (with or without delta), rho, or mu.
    discover
        A share of the budget, such as 0.1, for learning what is not declared: kinds, values, ranges. The column names are public; the rest is measured
        with noise and charged to the same ledger (:mod:`understudy.discovery`). ``"auto:1000"`` chooses the share for a table of about 1,000 rows (public, or your guess).
    numbers_only
        With ``discover`` and a budget without a delta, which finds no texts: say that numbers, dates and truth words are all that is wanted.
    hold_out
        A share of the rows (of the people, where the unit is a person), such as 0.2, that the fit does not read, so that what is learnt from the stand-in can
        be tested on them; or the division of an earlier fit. No held-out row is written anywhere: which ones they are is a key in the result and in a private
        file beside the ledger. The guarantee is about the whole table.
    workload, options
        Marginals that matter, for mechanisms that take them, and further options of the mechanism.
    time_limit
        About how many seconds the rounds of the fit may take: turned into a number of rounds by public facts before a record is read. No clock stops the fit.
    target
        A column that will be predicted from the others: marginals that hold it matter more. Instead of ``workload``.
    prior
        Public data with the same columns: the folder of a bundle, a model (file) or a public table. Of each pair of columns it is believed where the records are near to it, and costs nothing
        else. That it is public is your word: nothing of it is protected.
    flat
        Where the unit names people (``id_column``) they are fitted and drawn with all their rows, in order, with fresh ids; the section ``entity`` of the schema says more about them.
        True fits the rows instead: each person is cut to ``max_rows`` rows at random, and the result has rows without ids.
    rows_lost
        With ``flat``: spend a twentieth of the budget on an estimate of the rows that the cut leaves out (``rows_per_person`` of the result).
    population
        Where the schema declares survey weights: draw rows that all stand for equally many people, without a weight column. By default rows have weights, as those
        of the table do.
    rows, seed
        Number of synthetic rows, by default as many as the model estimates; and what makes their draw repeatable. Noise takes no seed.
    out, model
        Files for the rows and for the model; without ``out`` the rows are a frame of the result. For linked tables a folder, its name ending in a slash.
    ledger
        File of the ledger, one that is open already, or ``"memory"`` for one that lives as long as the call. By default the one that belongs to
        the table: beside a file, in a folder of yours for a frame, which is known again by its content. It is made with this budget as the total
        of the table if it is absent.
    another_ledger, table_name
        Consent to a further ledger for a table that has one already (what the two promise adds up), and the name of the table in the ledger.
    consent, unfinished
        What the owner of the table agrees to, and what to do about another fit on the ledger that was interrupted (``"refuse"``, ``"keep"`` or
        ``"drop"`` its paid answers).
    separator, encoding, names
        Of a CSV file; see `read_table`.
    progress
        Called with the name of a stage and the fraction of the whole call that is done; 1 when the rows are written.

    Several sets, folders of parts and checkpoints are fields of `Fit`, `Payment` and `Delivery`; plan with these and run:
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
    protected, cut = unit_with_look(unit, flat=flat, rows_lost=rows_lost)
    payment = Payment(
        ledger=_ledger_named(ledger),
        table_name=table_name,
        another=another_ledger,
        consent=consent or NO_CONSENT,
        unfinished=unfinished,
    )
    several = register_source(table, schema)
    if several is not None:
        refuse_for_register(
            flat=flat, discover=discover is not None, population=population, prior=prior is not None, rows_lost=rows_lost,
        )  # fmt: skip
        return synthesize_register(
            *several,
            hold_out=hold_out,
            unit=protected,
            budget=budget,
            method=method,
            options=options,
            workload=workload,
            target=target,
            time_limit=time_limit,
            payment=payment,
            out=None if out is None else os.fspath(out),
            model=None if model is None else Path(model),
            rows=rows,
            seed=seed,
            separator=separator,
            encoding=encoding,
            progress=progress,
        )
    given = None if schema is None else Schema.of(schema)
    linked = linked_source(table, given)
    if linked is not None:
        table, given = linked
    entity = entity_of(given, protected, flat=flat)
    planned_with = protected if cut is None else cut.planned_unit(protected)
    asked: dict[str, Any] = {
        "workload": workload, "target": target, "unit": planned_with, "budget": budget, "entity": entity, "prior": prior,
    }  # fmt: skip
    require_apart(prior, table)

    def mechanism(described: Schema) -> Synthesizer:
        return mechanism_for(method, described, options=options, time_limit=time_limit, **asked)

    described, steps = described_by(
        table,
        given,
        discover,
        unit=protected,
        separator=separator,
        encoding=encoding,
        names=names,
        numbers_only=numbers_only,
    )
    fit = Fit(
        table=table,
        schema=described,
        synthesizer=mechanism(described),
        unit=protected,
        budget=budget,
        separator=separator,
        encoding=encoding,
        names=names,
        files={} if schema is None or isinstance(schema, Schema) else {"schema": Path(schema)},
        hold_out=hold_out,
        steps=steps,
        rebuild=mechanism,
        reason=reason_for(method, **asked),
        entity=entity,
        cut=cut,
    )
    planned = plan_synthesis(
        fit,
        payment=payment,
        delivery=Delivery(
            out=None if out is None else os.fspath(out),
            model=None if model is None else Path(model),
            rows=rows,
            seed=seed,
            population=population,
            endings=file_endings(table),
        ),
    )
    if planned.why:
        _LOG.info(planned.why)
    for note in planned.notes:
        _LOG.warning(note)
    made = planned.run(progress=progress)
    if made.new_ledger:
        _LOG.warning("Made the ledger %s, with this budget as the total for the table.", made.ledger)
    return made


def _ledger_named(
    ledger: str | PathLike[str] | Ledger | None,
) -> Path | Ledger | Literal["memory"] | None:
    """Return a ledger as `Payment` takes it; the word ``memory`` is not a file."""
    if ledger is None or isinstance(ledger, Ledger):
        return ledger
    return "memory" if ledger == "memory" else Path(ledger)


def described_by(
    table: Any, given: Schema | None, discover: float | str | None, *, unit: Unit, **reading: Any
) -> tuple[Schema, tuple[SchemaStep, ...]]:
    """Return the schema of a table as it is known before its records are read, and the steps that will measure the rest of it.

    Parameters
    ----------
    given
        What is declared; None for nothing.
    discover
        A share of the budget for what is not declared, or ``"auto:ROWS"``; None to rely on ``given`` alone.
    reading
        How the header of a CSV file is read: ``separator``, ``encoding``, ``names``, and ``header`` where its owner says that there is one; ``numbers_only`` where no texts are wanted.
    """
    if discover is None:
        if given is None:
            raise UsageError(
                "Give a schema of the table (--schema, schema=), or a share of the budget to learn one with (--discover 0.1, discover=0.1)."
            )
        return given, ()
    step, standing_in = discovering(table, given, discover, unit=unit, **reading)
    return standing_in, (step,)


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
    if any(column.measured_facts for column in fit.schema.columns):
        # the ledger holds the measurements too, so the fit is paid for in the accounting that adds up with them
        fit = replace(fit, synthesizer=fit.synthesizer.with_fixed_accounting())
    if fit.cut is not None:  # the look and the fit are paid for in one accounting
        fit = replace(fit, synthesizer=fit.synthesizer.with_fixed_accounting())
    steps = with_steps(fit)
    rest = fit if steps.rest is None else replace(fit, budget=steps.rest)
    rest = rest if fit.cut is None else replace(rest, budget=fit.cut.shares(rest.budget).rest)
    fit.synthesizer.require(rest.budget)
    if fit.steps or fit.cut is not None:
        require_one_accounting(fit.synthesizer, rest.budget)
    check_linked(fit)
    two_levels = () if fit.entity is None else check_two_levels(fit.table, fit.schema, fit.entity)
    plan = fit.synthesizer.plan(fit.records, unit=fit.planned_unit, budget=rest.budget)
    reserve = check_delivery(rest, delivery)
    if fit.cut is not None:
        alone = not fit.steps and (delivery is None or delivery.sets is None)
        fit.cut.check(fit.schema, fit.unit, two_levels=fit.entity is not None, alone=alone, reserve=reserve)
    if fit.steps:
        _check_steps(fit, delivery, reserve)
        reserve = steps.reserve
    place = _place(fit, payment, delivery)
    if place is not None:
        require_writable(place.path, what="ledger")
    paid_from = payment.ledger.path if isinstance(payment.ledger, Ledger) else None
    kept_at = hold_out_file(fit.hold_out, fit.hold_out_file, paid_from if place is None else place.path)
    hold_out = divided(fit.hold_out, fit.table, fit.unit, kept_at, row_count=fit.schema.row_count)
    kept = {} if kept_at is None else {"hold-out file": kept_at}
    check_apart(replace(fit, files={**fit.files, **kept}), delivery, place)
    said = (
        *two_levels,
        fit.unit.describe_cut() if fit.entity is None and not (fit.cut and fit.cut.choose) else "",
        "" if fit.cut is None else fit.cut.describe(),
        fit.synthesizer.delta_note(fit.budget, fit.records, fit.planned_unit),
        "" if hold_out is None else describe_hold_out(hold_out, kept_at),
    )
    asked = (
        () if fit.entity is not None else ask_about_people(_columns_named(fit), fit.unit, fit.schema.columns)
    )
    notes = (*(() if place is None else place.notes), *(note for note in said if note))
    as_text = delivery is not None and delivery.out is not None and not _is_parquet(Path(delivery.out))
    warnings = formula_warnings(fit.schema) if as_text else ()
    return PlannedSynthesis(
        fit=fit,
        payment=payment,
        delivery=delivery,
        plan=plan,
        reserve=reserve,
        place=place,
        steps=steps,
        hold_out=hold_out,
        hold_out_file=kept_at,
        why=_reason(fit),
        notes=(*notes, *steps.notes, *asked, *(f"Warning: {warning}" for warning in warnings)),
    )


def _columns_named(fit: Fit) -> list[str]:
    """Return the names of the columns of a table that are public: those of the schema, and those that it leaves out by name."""
    return [*fit.schema.names, *(name for name, _ in fit.schema.left_out)]


def _reason(fit: Fit) -> str:
    """Say why the mechanism was chosen, or that it will be: a schema that is not known yet decides nothing."""
    if fit.reason is None:
        return ""
    return "The method is chosen when the schema has been measured." if fit.steps else fit.reason(fit.schema)


def _check_steps(fit: Fit, delivery: Delivery | None, reserve: float) -> None:
    """Refuse fits that cannot share one budget with steps that measure their schema."""
    advice = "Learn the schema first (understudy discover) and give it to this fit (--schema, schema=)."
    if fit.rebuild is None:
        raise UsageError("A fit whose schema is measured says how its mechanism is made for it (rebuild).")
    if delivery is not None and delivery.sets is not None:
        raise UsageError(f"Several sets cannot be made in one go with discovery. {advice}")
    if reserve:
        raise UsageError(
            f"{fit.synthesizer.name} needs a part of the delta for itself, so it cannot share the budget with discovery. {advice}"
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
    steps
        What the steps before the fit may spend, and what is left for the fit.
    hold_out, hold_out_file
        Which rows are set aside, and where share and key are kept. Private.
    why
        Why the mechanism was chosen, where nobody named one; empty otherwise.
    notes
        What else a person should read before the fit is run.
    """

    fit: Fit
    payment: Payment
    delivery: Delivery | None
    plan: Plan
    reserve: float
    place: LedgerPlace | None
    steps: Steps = field(default_factory=Steps)
    hold_out: HoldOut | None = field(default=None, repr=False)
    hold_out_file: Path | None = None
    why: str = ""
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
        owner = table_facts(
            fit.schema, unit=fit.unit, separator=fit.separator, encoding=fit.encoding, names=fit.names
        )
        new = self.place is not None and not self.place.path.exists()
        if self.place is not None:
            check_before_reading(self.place, owner, payment.consent, measured=self._declared, **self._terms)
        elif isinstance(payment.ledger, Ledger):
            check_facts(payment.ledger, owner, payment.consent)
            require_measured(payment.ledger, self._declared)
        phases = Phases(
            progress, {"reading": 1.0, "fitting": 6.0, **({} if delivery is None else {"rows": 4.0})}
        )
        learning = Phases(phases.part("fitting"), {"schema": 1.0 if fit.steps else 0.0, "model": 4.0})
        reading = phases.part("reading")
        reading("preparing", 0.0)
        if not fit.steps:
            fit.synthesizer.prepare(fit.records, unit=fit.planned_unit, budget=fit.budget, plan=self.plan)
        if self.hold_out is not None:
            if self.hold_out_file is not None:
                keep_hold_out(self.hold_out, self.hold_out_file)
            self.hold_out.require(fit.table)
        reading("reading", 0.0)
        entries = [step.read(fit, self.hold_out) for step in fit.steps]
        records = None if fit.steps else self._records(fit, reading)
        sets = None if delivery is None else delivery.sets
        facts = work_facts(
            fit.synthesizer,
            schema_fingerprint=fit.schema.fingerprint(),
            unit=fit.unit,
            budget=fit.budget,
            **({} if delivery is None or sets is None else {"sets": sets, "how": delivery.how}),
            **({"steps": [step.facts() for step in fit.steps]} if fit.steps else {}),
            **({} if self.hold_out is None else {"hold_out": self.hold_out.fingerprint()}),
            **({} if fit.entity is None else {"entity": fit.entity.to_plain()}),
            **({} if fit.cut is None else {"cut": fit.cut.facts()}),
        )
        if (
            fit.steps and fit.reason is not None
        ):  # what another rule would choose for the measured schema is other work
            facts |= {"method": f"chosen by rule {CHOICE_RULE} for the measured schema", "options": {}}
        many = None
        with (
            self._ledger() as ledger,
            paid_work(
                ledger, facts, unfinished=payment.unfinished, owner=owner, consent=payment.consent
            ) as work,
        ):
            learnt = run_steps(fit, self.steps, work, entries, learning.part("schema"))
            if learnt.found is not None and delivery is not None and delivery.schema is not None:
                learnt.found.schema.write(delivery.schema)
            if records is None:
                plan = learnt.fit.synthesizer.plan(
                    learnt.fit.records, unit=fit.unit, budget=learnt.fit.budget
                )
                learnt.fit.synthesizer.prepare(
                    learnt.fit.records, unit=fit.unit, budget=learnt.fit.budget, plan=plan
                )
                records = self._records(learnt.fit, learning.part("schema"))
            asked: dict[str, Any] = {
                "unit": fit.unit,
                "budget": learnt.fit.budget,
                "progress": learning.part("model"),
            }
            if delivery is None or sets is None:
                model = self._whole(work.fit(learnt.fit.synthesizer, records, cut=fit.cut, **asked))
            else:
                many = work.fit_many(
                    learnt.fit.synthesizer, records, sets=sets, how=delivery.how, seed=delivery.seed, **asked
                )
                many = replace(many, models=tuple(map(self._whole, many.models)))
                model = many.models[0]
            standing = ledger.guarantee()
            made: dict[str, Any] = {"rows": 0}
            if delivery is not None:
                made = deliver(delivery, model, many, work, progress=phases.part("rows"))
            repeated = work.repeated
            work.done()
        phases.done()
        return Synthesis(
            model=model,
            many=many,
            guarantee=replace(model.provenance, budget=fit.budget).guarantee(),
            standing=standing,
            ledger=ledger.path,
            new_ledger=new,
            repeated=repeated,
            discovery=learnt.found,
            hold_out=self.hold_out,
            hold_out_file=self.hold_out_file,
            why="" if fit.reason is None else fit.reason(learnt.fit.schema),
            rows_per_person=rows_per_person(model),
            **made,
        )

    def _records(self, fit: Fit, progress: Progress) -> Table:
        """Read the table by the schema of a fit. Private."""
        read = partial(
            read_table,
            fit.table,
            separator=fit.separator,
            encoding=fit.encoding,
            names=fit.names,
            watch=progress,
            checkpoint=fit.checkpoint,
            hold_out=self.hold_out,
        )
        if isinstance(fit.table, LinkedTables):
            assert fit.entity is not None
            return read_linked(
                partial(read_table, separator=fit.separator, encoding=fit.encoding, watch=progress),
                fit.table,
                with_entity(fit.schema, fit.entity),
                separator=fit.separator,
                encoding=fit.encoding,
                hold_out=self.hold_out,
            )
        if fit.entity is not None:
            return read_events(read, fit.schema, fit.entity, source=fit.table)
        return read(fit.schema, id_column=fit.unit.id_column)

    @property
    def _declared(self) -> tuple[Column, ...]:
        """The columns that the ledger has to know already if they were measured; those that will be measured are marks so far."""
        if not self.fit.steps:
            return tuple(self.fit.schema.columns)
        return tuple(column for step in self.fit.steps for column in step.given_columns)

    def _whole(self, model: Model) -> Model:
        """Return a model that says what it cost in all: its schema was learnt from the same records."""
        if not self.fit.steps and self.fit.cut is None:
            return model
        condition = model.provenance.condition.replace(ALSO_MEASURED, "").strip()
        return replace(
            model, provenance=replace(model.provenance, budget=self.fit.budget, condition=condition)
        )

    @property
    def _terms(self) -> dict[str, Any]:
        """On which terms the ledger is opened."""
        name = self.payment.table_name
        return {
            "budget": self.fit.budget,
            "unit": self.fit.unit,
            "table": name or name_of(self.fit.table),
            "named": name is not None,
            "approximate_delta": self.reserve,
            "advice": ADVICE,
        }

    @contextlib.contextmanager
    def _ledger(self) -> Iterator[Ledger]:
        """Open the ledger that pays; one that was handed over stays open."""
        given = self.payment.ledger
        if self.place is not None:
            with self.place.opened(**self._terms) as ledger:
                yield ledger
        elif isinstance(given, Ledger):
            yield given
        else:
            name = name_of(self.fit.table)
            with Ledger.in_memory(
                budget=self.fit.budget, unit=self.fit.unit, table=name, approximate_delta=self.reserve
            ) as ledger:
                yield ledger


def name_of(table: Any) -> str:
    """Return the public name of a table: that of its file, or of the table of its database."""
    if isinstance(table, Database):
        return table.label
    if isinstance(table, LinkedTables):
        return table.name
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
    name = name_of(fit.table)
    out = None if delivery is None or delivery.out is None else Path(delivery.out)
    model = None if delivery is None else delivery.model
    in_place = isinstance(fit.table, str | PathLike | Database)  # frames have no name to tell them apart by
    return find_ledger(
        fit.table,
        name=name,
        label=payment.table_name or name,
        ledger=given,
        earlier=out.parent / f"{ledger_name(name)}.ledger" if out is not None and in_place else None,
        evidence=[path for path in (out, None if out is None else out.parent, model) if path is not None],
        another=payment.another,
    )


def check_before_reading(
    place: LedgerPlace, facts: Facts, consent: Consent, *, measured: Sequence[Column] = (), **terms: Any
) -> None:
    """Refuse facts that an existing ledger does not know, before a record is read: what does not fit is an answer too."""
    if place.path.exists():
        with place.opened(**terms) as ledger:
            check_facts(ledger, facts, consent)
            require_measured(ledger, measured)
    else:
        require_unmeasured(measured)
