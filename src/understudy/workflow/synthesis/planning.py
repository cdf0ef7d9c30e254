"""Planning a fit: all that can be checked without the records, and the one call that plans and runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from understudy.data import Database
from understudy.data.holdout import HoldOut
from understudy.data.output import require_writable
from understudy.errors import UsageError
from understudy.ledgers import LedgerPlace, ledger_name
from understudy.marginals import Workload
from understudy.mechanisms import (
    Progress,
    Synthesizer,
    no_progress,
)
from understudy.privacy import Budget, Ledger, Unit
from understudy.privacy.invariants import NO_CONSENT, Consent
from understudy.schema import Schema
from understudy.schema.spreadsheets import formula_warnings
from understudy.workflow.choice import AUTO
from understudy.workflow.cutting import unit_with_look
from understudy.workflow.delivery import Delivery, check_apart, check_delivery
from understudy.workflow.events import (
    check_linked,
    check_two_levels,
    entity_of,
    file_endings,
    linked_source,
    refuse_for_register,
    register_source,
    synthesize_register,
)
from understudy.workflow.hold_out import describe_hold_out, divided, hold_out_file
from understudy.workflow.measuring import (
    ask_about_people,
    require_one_accounting,
    with_steps,
)
from understudy.workflow.paid import Unfinished
from understudy.workflow.payment import Payment, name_of
from understudy.workflow.public_data import Prior, require_apart
from understudy.workflow.synthesis.fits import Fit, described_by, mechanism_for, reason_for
from understudy.workflow.synthesis.running import PlannedSynthesis, Synthesis

if TYPE_CHECKING:
    pass

__all__ = [
    "plan_synthesis",
    "synthesize",
]

_LOG = logging.getLogger(__name__)


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


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith((".parquet", ".pq"))


def _place(fit: Fit, payment: Payment, delivery: Delivery | None) -> LedgerPlace | None:
    """Return where the ledger is or will be; None for one in memory or one that is open already."""
    out = None if delivery is None or delivery.out is None else Path(delivery.out)
    model = None if delivery is None else delivery.model
    in_place = isinstance(fit.table, str | PathLike | Database)  # frames have no name to tell them apart by
    return payment.place(
        fit.table,
        earlier=out.parent / f"{ledger_name(name_of(fit.table))}.ledger"
        if out is not None and in_place
        else None,
        evidence=[path for path in (out, None if out is None else out.parent, model) if path is not None],
    )
