"""Running a fit that was planned: the table is read, the ledger charged, the result delivered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy._html import html_lines
from understudy.curator import table_facts
from understudy.data import Table, read_table
from understudy.data.events import read_events
from understudy.data.holdout import HoldOut
from understudy.data.linked import LinkedTables, read_linked
from understudy.discovery import Discovery
from understudy.inference.people import RowsPerPerson
from understudy.ledgers import LedgerPlace
from understudy.mechanisms import (
    Model,
    MultipleSynthesis,
    Plan,
    Progress,
    no_progress,
)
from understudy.mechanisms.events import RegisterModel
from understudy.privacy.guarantee import ALSO_MEASURED
from understudy.privacy.ledger.ledger import LedgerGuarantee
from understudy.progress import Phases
from understudy.schema import Column
from understudy.schema.entities import with_entity
from understudy.workflow.choice import CHOICE_RULE
from understudy.workflow.cutting import rows_per_person
from understudy.workflow.delivery import Delivery, deliver
from understudy.workflow.hold_out import keep_hold_out
from understudy.workflow.measuring import (
    Steps,
    run_steps,
)
from understudy.workflow.paid import paid_work, work_facts
from understudy.workflow.payment import PayingLedger, Payment, name_of
from understudy.workflow.synthesis.fits import Fit

if TYPE_CHECKING:
    import pandas as pd

    from understudy.bulk import WrittenSample

__all__ = [
    "PlannedSynthesis",
    "Synthesis",
]


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
        paying = PayingLedger(
            payment=payment,
            place=self.place,
            table=name_of(fit.table),
            budget=fit.budget,
            unit=fit.unit,
            reserve=self.reserve,
        )
        new = paying.is_new
        paying.check(owner, measured=self._declared)
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
            paying.opened() as ledger,
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
