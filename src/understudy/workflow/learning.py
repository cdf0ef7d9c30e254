"""Learning a schema by itself, paid for by the ledger of the table; a later fit goes on with what is left."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from understudy.curator import remember_measured, table_facts
from understudy.data.output import require_apart, require_writable
from understudy.discovery import Discovery, DiscoveryPlan, NothingDiscovered
from understudy.errors import UsageError
from understudy.ledgers import LedgerPlace
from understudy.mechanisms import Progress, no_progress
from understudy.privacy import Budget, Ledger, Unit
from understudy.privacy.invariants import NO_CONSENT, Consent
from understudy.privacy.ledger.ledger import LedgerGuarantee
from understudy.schema import Schema
from understudy.workflow.measuring import Discover, ask_about_people, discovering
from understudy.workflow.paid import Unfinished, paid_work
from understudy.workflow.payment import PayingLedger, Payment, name_of

__all__ = ["Learnt", "PlannedDiscovery", "discover_schema", "plan_discover"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Learnt:
    """A measured schema, and how the ledger stands.

    Attributes
    ----------
    discovery
        The schema, the columns that were left out, and about how many rows there are.
    rest
        What is left of the budget for a fit on the same ledger, if nothing else was charged to it.
    standing
        How the ledger stands now.
    ledger, new_ledger
        Its file, if it is one, and whether it was made for this.
    repeated
        Answers of an interrupted run that were repeated at no cost.
    """

    discovery: Discovery
    rest: Budget
    standing: LedgerGuarantee = field(repr=False)
    ledger: Path | None
    new_ledger: bool
    repeated: int

    @property
    def schema(self) -> Schema:
        """The measured schema."""
        return self.discovery.schema


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedDiscovery:
    """Discovery that was checked and can be run; make one with :func:`plan_discover`.

    Attributes
    ----------
    plan
        What will be asked, and what it may cost.
    rest
        What will be left of the budget for a fit.
    notes, details
        What a person should read before, and the numbers behind it.
    """

    table: Any = field(repr=False)
    step: Discover
    stand_in: Schema
    unit: Unit
    budget: Budget
    rest: Budget
    reserve: float
    plan: DiscoveryPlan
    payment: Payment
    place: LedgerPlace | None
    reading: Mapping[str, Any]
    out: Path | None
    notes: tuple[str, ...]
    details: tuple[str, ...] = ()

    def run(self, *, progress: Progress = no_progress) -> Learnt:
        """Read the raw entries, ask, and write the schema; go on where an earlier run was interrupted.

        Privacy
        -------
        See :func:`understudy.discovery.discover`.
        """
        payment = self.payment
        owner = table_facts(self.stand_in, unit=self.unit, **self.reading)
        paying = PayingLedger(
            payment=payment,
            place=self.place,
            table=name_of(self.table),
            budget=self.budget,
            unit=self.unit,
            reserve=self.reserve,
        )
        new = paying.is_new
        paying.check(owner, measured=self.step.given_columns)
        progress("reading", 0.0)
        entries = self.step.read(self)
        facts = {
            "method": "discover",
            "steps": [self.step.facts()],
            "schema": self.stand_in.fingerprint(),
            "unit": self.unit.to_dict(),
            "budget": self.budget.to_dict(),
        }
        with (
            paying.opened() as ledger,
            paid_work(
                ledger, facts, unfinished=payment.unfinished, owner=owner, consent=payment.consent
            ) as work,
        ):
            try:
                found = work.discover(entries, self.plan, given=self.step.given, progress=progress)
            except NothingDiscovered:  # an answer, too: there is nothing to go on with
                work.done()
                raise
            remember_measured(ledger, self.step.measured(found.schema))
            if self.out is not None:
                found.schema.write(self.out)
            standing, repeated = ledger.guarantee(), work.repeated
            work.done()
        return Learnt(
            discovery=found,
            rest=self.rest,
            standing=standing,
            ledger=ledger.path,
            new_ledger=new,
            repeated=repeated,
        )

    # what a step asks of whatever it is a step of

    @property
    def separator(self) -> str | None:
        """Of a CSV file."""
        return self.reading["separator"]  # type: ignore[no-any-return]

    @property
    def encoding(self) -> str | None:
        """Of a CSV file."""
        return self.reading["encoding"]  # type: ignore[no-any-return]

    @property
    def names(self) -> Sequence[str] | None:
        """Of the columns of a CSV file without a header."""
        return self.reading["names"]  # type: ignore[no-any-return]


def plan_discover(
    table: Any,
    *,
    unit: Unit,
    budget: Budget,
    share: float | str,
    schema: Schema | None = None,
    payment: Payment | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    header: bool = False,
    numbers_only: bool = False,
    out: Path | None = None,
) -> PlannedDiscovery:
    """Check everything about a discovery that can be checked without the records, and find its ledger.

    Raises
    ------
    UnderstudyError
        Of many kinds: a header that cannot be read, a declared fact that is not public, a ledger that cannot be found. No ledger was made and nothing was spent.
    """
    payment = payment or Payment()
    reading = {"separator": separator, "encoding": encoding, "names": names}
    step, stand_in = discovering(
        table,
        schema,
        share,
        unit=unit,
        separator=separator,
        encoding=encoding,
        names=names,
        header=header,
        numbers_only=numbers_only,
    )
    shares = step.shares(budget)
    plan = step.plan(unit, shares)
    assert payment.ledger != "memory"
    place = payment.place(table, evidence=[] if out is None else [out.parent])
    if place is not None:
        require_writable(place.path, what="ledger")
    if out is not None:
        require_writable(out, what="schema file")
        files = {"table": Path(table)} if isinstance(table, str | PathLike) else {}
        require_apart({"schema file": out, "ledger": None if place is None else place.path}, files)
    return PlannedDiscovery(
        table=table,
        step=step,
        stand_in=stand_in,
        unit=unit,
        budget=budget,
        rest=shares.rest,
        reserve=shares.reserve,
        plan=plan,
        payment=payment,
        place=place,
        reading=reading,
        out=out,
        notes=(
            *(() if place is None else place.notes),
            *step.chosen(shares),
            *plan.describe(),
            *ask_about_people(step.header, unit, step.given_columns),
        ),
        details=tuple(plan.details()),
    )


def discover_schema(
    table: Any,
    *,
    unit: Unit | str | Mapping[str, Any] | None = None,
    share: float | str = 0.1,
    schema: Schema | str | PathLike[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    numbers_only: bool = False,
    out: str | PathLike[str] | None = None,
    ledger: str | PathLike[str] | Ledger | None = None,
    another_ledger: bool = False,
    table_name: str | None = None,
    consent: Consent | None = None,
    unfinished: Unfinished = "refuse",
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    progress: Progress = no_progress,
) -> Learnt:
    """Learn what no schema declares about a table with a share of a budget: ``understudy discover``, from Python.

    Parameters
    ----------
    table
        A pandas or Polars frame, a CSV or Parquet file. Its column names are public.
    unit
        Who is protected: ``"add-remove"``, ``"replace-one"``, or a `Unit` (for people with several rows).
    share
        Of the budget, for discovery, or ``"auto:1000"`` to choose it for a table of about 1,000 rows (public, or your guess). The rest is left on the ledger for a fit: `Learnt.rest`.
    schema
        Columns that are declared public, if there are any: nothing is spent on them.
    epsilon, delta, rho, mu
        The budget for discovery and the fit together; a new ledger gets it as the total of the table.
    numbers_only
        Without a delta no text can be found: say that numbers, dates and truth words are all that is wanted.
    out
        File for the schema.
    ledger
        File of the ledger, or one that is open already; by default that of the table. A ledger in memory would forget what it paid for, and nobody
        could use the schema.
    another_ledger, table_name, consent, unfinished, separator, encoding, names
        As `understudy.workflow.synthesize` takes them.
    progress
        Called with the name of a stage and a fraction.

    Privacy
    -------
    In: private. Out: released. See :func:`understudy.discovery.discover`.

    Examples
    --------
    >>> from understudy import datasets
    >>> from understudy.discovery import shares_of
    >>> frame, _ = datasets.load("toy", 5_000, seed=1)
    >>> budget, unit = Budget.of(epsilon=4.0, delta=1e-6), Unit.add_remove()
    >>> ledger = Ledger.in_memory(budget=budget, unit=unit, approximate_delta=shares_of(budget, 0.5).reserve)
    >>> learnt = discover_schema(frame, unit=unit, share=0.5, epsilon=4.0, delta=1e-6, ledger=ledger)
    >>> set(learnt.schema.names) <= set(frame.columns)
    True
    """
    if ledger == "memory":
        raise UsageError(
            "A measured schema is good for the ledger that paid for it, so discovery needs one that lasts: give a file (ledger=), or leave it out. To try things "
            "out in memory, discover and fit in one go: synthesize(table, discover=0.1, ledger='memory', ...)."
        )
    planned = plan_discover(
        table,
        unit=Unit.of(unit),
        budget=Budget.of(epsilon=epsilon, delta=delta, rho=rho, mu=mu),
        share=share,
        schema=None if schema is None else Schema.of(schema),
        payment=Payment(
            ledger=ledger if ledger is None or isinstance(ledger, Ledger) else Path(ledger),
            table_name=table_name,
            another=another_ledger,
            consent=consent or NO_CONSENT,
            unfinished=unfinished,
        ),
        separator=separator,
        encoding=encoding,
        names=names,
        numbers_only=numbers_only,
        out=None if out is None else Path(os.fspath(out)),
    )
    return planned.run(progress=progress)
