"""What is fitted: a table with its schema, its mechanism, who is protected and what it may cost; all of it known before a record is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.data.holdout import HoldOut
from understudy.errors import UnderstudyError, UsageError, WorkloadError
from understudy.marginals import Workload
from understudy.mechanisms import (
    Synthesizer,
    create,
)
from understudy.mechanisms import method as method_named
from understudy.mechanisms.events import event_mechanism
from understudy.privacy import Budget, Unit
from understudy.schema import Schema
from understudy.schema.entities import Entity
from understudy.workflow.choice import AUTO, choose, workload_of
from understudy.workflow.cutting import CutLook
from understudy.workflow.events import (
    FOR_EVENTS,
    WHY_FOR_EVENTS,
    records_of,
)
from understudy.workflow.measuring import (
    SchemaStep,
    discovering,
)
from understudy.workflow.public_data import FOR_PRIORS, WHY_FOR_PRIORS, Prior, read_prior

if TYPE_CHECKING:
    pass

__all__ = [
    "Fit",
    "described_by",
    "mechanism_for",
    "reason_for",
]


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
