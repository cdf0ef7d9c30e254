"""Fits of two levels: people with several rows, or households with their members, from one table with an id column.

What is counted is not the rows but event records (:mod:`understudy.data.events`), and what is drawn are entities with their rows
(:mod:`understudy.mechanisms.events`). Everything between is the same as for any table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.curator.allowance import plain_addition
from understudy.data import read_table
from understudy.data.holdout import HoldOut
from understudy.data.linked import LinkedTables
from understudy.data.linked import read_register as read_register_tables
from understudy.data.output import (
    Relation,
    check_tables_output,
    require_apart,
    require_writable,
    table_ending,
    write_tables,
)
from understudy.errors import UsageError
from understudy.ledgers import find_ledger
from understudy.marginals import Workload
from understudy.mechanisms import Plan, Progress, Synthesizer, no_progress
from understudy.mechanisms.events import RegisterModel, event_mechanism, is_register_model
from understudy.mechanisms.multiple import share_of
from understudy.mechanisms.registry import method as method_named
from understudy.privacy import Budget, Ledger, Unit
from understudy.schema import Schema
from understudy.schema.entities import Entity, event_schema, level_problems, with_entity
from understudy.schema.linked import Register, read_linked_file, read_register, register_package
from understudy.workflow.choice import workload_of
from understudy.workflow.hold_out import divided, keep_hold_out
from understudy.workflow.hold_out import hold_out_file as where_kept
from understudy.workflow.paid import paid_work, work_facts
from understudy.workflow.payment import PayingLedger, Payment

if TYPE_CHECKING:
    import pandas as pd

    from understudy.workflow.synthesis import Fit, Synthesis

__all__ = [
    "PlannedRegister",
    "check_linked",
    "check_two_levels",
    "describe_linked",
    "entity_of",
    "file_endings",
    "linked_source",
    "plan_register",
    "records_of",
    "refuse_for_register",
    "register_source",
    "synthesize_register",
    "write_register",
]

FLAT = "fit the rows without their number and order (--flat, flat=True)"
FOR_EVENTS = "aim"
"""The method where nobody names one."""
WHY_FOR_EVENTS = (
    "Method aim, chosen because people have several rows: rows are drawn one after another, each given the one before, which models of a "
    "junction tree can be asked exactly, and aim is the one of them that chooses what to measure."
)


def entity_of(schema: Schema | None, unit: Unit, *, flat: bool) -> Entity | None:
    """Return whose the rows are, for a fit of two levels; None for a fit of rows.

    A unit of single rows does not protect the entities that the schema speaks of, so that somebody has to say that rows are meant.
    """
    declared = None if schema is None else schema.entity
    if unit.id_column is None and not flat and declared is not None and declared.tables is None:
        raise UsageError(
            f"The schema says that rows belong to {declared.id!r} (entity.id), and the unit protects single rows, not {declared.id!r} with all its rows. Name it in the unit "
            f"(--id-column {declared.id} --max-rows-per-person 10, Unit.add_remove_person), or say that single rows are meant (--flat, flat=True)."
        )
    if unit.id_column is None or flat:
        return None
    if declared is None:
        return Entity(unit.id_column)
    if declared.id != unit.id_column:
        raise UsageError(
            f"The schema says that rows belong to {declared.id!r} (entity.id) and the unit that they belong to {unit.id_column!r} (id_column). "
            "Name the same column."
        )
    return declared


def linked_source(table: Any, schema: Schema | None) -> tuple[LinkedTables, Schema] | None:
    """Return linked tables and the schema of both as one, where that is what was given; otherwise None.

    Parameters
    ----------
    table
        A schema file with linked tables, which names their files, or the tables by name.
    schema
        What is public about them, where the tables are given by name.
    """
    if isinstance(table, LinkedTables | Mapping):
        if schema is None:
            raise UsageError("Give the schema that describes the tables and their keys (schema=).")
        made = (
            table
            if isinstance(table, LinkedTables)
            else LinkedTables(tables=table, name=schema.name or "tables")
        )
        return made, schema
    if not isinstance(table, str | PathLike) or Path(table).suffix.lower() not in (".yaml", ".yml", ".json"):
        return None
    file = read_linked_file(table)
    if file is None:
        raise UsageError(
            f"{str(table)!r} is the schema of one table; give the table, and the schema behind --schema (schema=)."
        )
    if schema is not None:
        raise UsageError(
            "Linked tables are described by the file that names them; leave --schema (schema=) out."
        )
    path = Path(table)
    made = LinkedTables.of_file(file, path)
    return made, Schema.from_dict(file.plain, folder=path.parent)


def register_source(table: Any, schema: Any) -> tuple[LinkedTables, Register, Path] | None:
    """Return a table of entities with several tables of events, where that is what was given; otherwise None.

    Parameters
    ----------
    table
        A schema file that names all of them, or the tables by name.
    schema
        The schema file that describes them, where they are given by name.
    """
    by_name = isinstance(table, Mapping)
    file = schema if by_name else table
    if not isinstance(file, str | PathLike) or Path(file).suffix.lower() not in (".yaml", ".yml", ".json"):
        return None
    register = read_register(file)
    if register is None:
        return None
    path = Path(file)
    if by_name:
        return LinkedTables(tables=table, name=path.stem), register, path.parent
    if schema is not None:
        raise UsageError(
            "Linked tables are described by the file that names them; leave --schema (schema=) out."
        )
    return LinkedTables.of_file(register.whole, path), register, path.parent


def refuse_for_register(**asked: bool) -> None:
    """Refuse what several tables of events cannot have yet, by the names of what was asked for."""
    found = [name.replace("_", "-") for name, given in asked.items() if given]
    if found:
        raise UsageError(
            f"Several tables of events are fitted with a complete schema and drawn as a whole, once: leave {', '.join(found)} out."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedRegister:
    """What a fit of several tables of events would do, by public facts alone.

    Attributes
    ----------
    whole
        The schema of all columns of all tables as those of one.
    schemas, records
        For each table of events, the schema of the entities with it, and that of their event records.
    fits, plans
        How each is fitted, and what that measures.
    budget, share
        What all of them may spend, and what each may.
    reserve
        Of the delta, what the fits spend other than through the accounting.
    """

    whole: Schema
    schemas: tuple[Schema, ...]
    records: tuple[Schema, ...]
    fits: tuple[Synthesizer, ...]
    plans: tuple[Plan, ...]
    budget: Budget
    share: Budget
    reserve: float


def plan_register(
    register: Register,
    folder: Path,
    *,
    unit: Unit,
    budget: Budget,
    method: str = "auto",
    options: Mapping[str, Any] | None = None,
    workload: str | Workload | None = None,
    target: str | None = None,
    time_limit: float | None = None,
) -> PlannedRegister:
    """Plan the fits of several tables of events, or refuse: nothing is read and nothing is spent.

    Parameters
    ----------
    register, folder
        As `register_source` returns them.
    unit
        The entity, and how many records of it count in each table of events.
    method, options
        Of every table. Options go with a method that is named.
    workload, target
        Marginals that matter, over the columns of all tables, or a column to predict. Each table is fitted to those that lie within it and the entities.
    time_limit
        Seconds that the rounds of all fits may take together, divided equally.
    """
    schemas = register.schemas(folder)
    whole = Schema.from_dict(register.whole.plain, folder=folder)
    entity = schemas[0].entity
    assert entity is not None
    if unit.id_column != entity.id:
        raise UsageError(
            f"Linked tables protect entities with all their rows: name their key ({entity.id!r}) and how many rows one counts for (--max-rows-per-person, Unit.add_remove_person)."
        )
    if method == "auto" and options:
        raise UsageError(
            f"Options ({', '.join(options)}) belong to a method, and auto has none: name the method as well, or leave them out."
        )
    named = FOR_EVENTS if method == "auto" else method
    for schema in schemas:
        schema.require_public()
        for problem in level_problems(schema):
            raise UsageError(problem)
        if any(getattr(column, "levels", None) is not None for column in schema.columns):
            raise UsageError(
                "Columns whose groups a fit chooses (levels) are not possible with several tables of events. Declare their values."
            )
    wanted = _workloads(register, schemas, whole, workload, target)
    if any(item is not None for item in wanted) and not method_named(named).takes_workload:
        raise UsageError(f"{named} does not take a workload; leave it out.")
    records = tuple(event_schema(schema) for schema in schemas)
    fits = [
        event_mechanism(named, item, asked, dict(options or {}), numbers=tuple(beside.values()))
        for item, asked, beside in zip(records, wanted, register.numbers, strict=True)
    ]
    if time_limit is not None:
        fits = [fit.limited_to(time_limit / len(fits), item) for fit, item in zip(fits, records, strict=True)]
    share = share_of(budget, len(fits), fits[0], schema=records[0], unit=unit, alone=False)
    for fit in fits:
        fit.require(share)
    return PlannedRegister(
        whole=whole,
        schemas=schemas,
        records=records,
        fits=tuple(fits),
        plans=tuple(fit.plan(item, unit=unit, budget=share) for fit, item in zip(fits, records, strict=True)),
        budget=budget,
        share=share,
        reserve=sum(fit.reserve(item, share) for fit, item in zip(fits, records, strict=True)),
    )


def _workloads(
    register: Register,
    schemas: Sequence[Schema],
    whole: Schema,
    workload: str | Workload | None,
    target: str | None,
) -> list[Workload | None]:
    """Return the marginals that matter of each table of events with the entities; None for a table of which none was named.

    A rule (all pairs, or all that hold a column) is applied to each table. Marginals that are listed one by one and span two tables of events are refused: what goes with what within an
    entity is not known across tables.
    """
    own = [
        schema.select([name for name in schema.names if name not in beside.values()])
        for schema, beside in zip(schemas, register.numbers, strict=True)
    ]
    if isinstance(workload, str) and not Path(workload).exists() and target is None:
        kind, _, rest = workload.partition(":")
        target_of = rest.partition(":")[0] if kind == "target" else None
    else:
        target_of = target
    if target_of is not None:
        whole.domain.index(target_of)
    if target is not None or (isinstance(workload, str) and not Path(workload).exists()):
        return [
            workload_of(schema, workload, target, UsageError)
            if target_of is None or target_of in schema.domain
            else None
            for schema in own
        ]
    asked = workload_of(whole, workload, None, UsageError)
    if asked is None:
        return [None] * len(schemas)
    for clique in asked.cliques:
        if not any(set(clique) <= set(schema.names) for schema in own):
            raise UsageError(
                f"The workload names {', '.join(clique)} together, which are columns of two tables of events; no marginal over both is measured."
            )
    found: list[Workload | None] = []
    for schema in own:
        within = [(clique, weight) for clique, weight in asked if set(clique) <= set(schema.names)]
        cliques = tuple(schema.domain.canonical(clique) for clique, _ in within)
        found.append(
            Workload(schema.domain, cliques, tuple(weight for _, weight in within)) if within else None
        )
    return found


def synthesize_register(
    tables: LinkedTables,
    register: Register,
    folder: Path,
    *,
    unit: Unit,
    budget: Budget,
    method: str = "auto",
    options: Mapping[str, Any] | None = None,
    workload: str | Workload | None = None,
    target: str | None = None,
    time_limit: float | None = None,
    hold_out: float | HoldOut | None = None,
    hold_out_file: Path | None = None,
    payment: Payment | None = None,
    out: str | None = None,
    model: Path | None = None,
    rows: int | None = None,
    seed: int | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    progress: Progress = no_progress,
) -> Synthesis:
    """Fit the entities with each of several tables of their events, for an equal share of the budget each, and draw all tables together.

    Parameters
    ----------
    tables, register, folder
        As `register_source` returns them.
    unit
        The entity, and how many records of it count in each table of events.
    method, options, workload, target, time_limit
        As for `plan_register`.
    hold_out, hold_out_file
        A share of the entities that the fits do not read, with all their rows in all tables, or an earlier division; and where share and key are kept, by default beside the ledger.
    model
        A folder for the models, one for each table of events.
    rows
        So many events at most in all tables together; by default those of as many entities as the models stand for.

    Privacy
    -------
    In: private. Out: public. :mod:`understudy.data.linked` says why one entity changes the records of each table by no more than the unit says; the fits are charged one after the other.
    """
    from understudy.release.spec.facts import register_facts
    from understudy.workflow.synthesis.running import Synthesis

    payment = payment or Payment()
    planned = plan_register(
        register, folder, unit=unit, budget=budget, method=method, options=options, workload=workload, target=target, time_limit=time_limit,
    )  # fmt: skip
    for fit, item, plan in zip(planned.fits, planned.records, planned.plans, strict=True):
        fit.prepare(item, unit=unit, budget=planned.share, plan=plan)
    if rows is not None and rows < 0:
        raise UsageError(f"Cannot draw {rows} rows; ask for zero or more.")
    if out is not None:
        check_tables_output(out)
    if model is not None:
        _check_models_folder(model)
    owner = register_facts(
        planned.whole, planned.schemas, register.numbers, unit=unit, separator=separator, encoding=encoding
    )
    name = payment.table_name or tables.name
    given, place = payment.ledger, None
    if not isinstance(given, Ledger) and given != "memory":
        evidence = [] if out is None else [Path(out), Path(out).absolute().parent]
        place = find_ledger(tables, name=name, ledger=given, evidence=evidence, another=payment.another)  # type: ignore[arg-type]
    if place is not None:
        require_writable(place.path, what="ledger")
    paying = PayingLedger(
        payment=payment, place=place, table=tables.name, budget=budget, unit=unit, reserve=planned.reserve
    )
    new = paying.is_new
    paying.check(owner)
    paid_from = given.path if isinstance(given, Ledger) else None
    kept_at = where_kept(hold_out, hold_out_file, paid_from if place is None else place.path)
    division = divided(hold_out, tables, unit, kept_at)
    if division is not None:
        if kept_at is not None:
            require_apart(
                {"hold-out file": kept_at},
                {**tables.files(), "ledger": None if place is None else place.path, "model": model, "output": None if out is None else Path(out)},
            )  # fmt: skip
            keep_hold_out(division, kept_at)
        division.require(tables)
    progress("reading", 0.0)
    read = read_register_tables(
        partial(read_table, separator=separator, encoding=encoding),
        tables,
        planned.schemas,
        register.numbers,
        separator=separator,
        encoding=encoding,
        hold_out=division,
    )
    facts = work_facts(
        planned.fits[0],
        schema_fingerprint=planned.whole.fingerprint(),
        unit=unit,
        budget=budget,
        register=[schema.fingerprint() for schema in planned.schemas],
        later=[fit.options() for fit in planned.fits[1:]],
        **({} if division is None else {"hold_out": division.fingerprint()}),
    )
    with (
        paying.opened() as ledger,
        paid_work(ledger, facts, unfinished=payment.unfinished, owner=owner, consent=payment.consent) as work,
    ):
        parts = {table: (fit, read[table]) for table, fit in zip(register.events, planned.fits, strict=True)}
        share = planned.share
        if plain_addition(ledger):
            share = share_of(
                budget,
                len(parts),
                planned.fits[0],
                schema=planned.records[0],
                unit=unit,
                alone=False,
                plainly=True,
            )
            for fit in planned.fits:
                fit.require(share)
        models = work.fit_each(parts, unit=unit, share=share, progress=progress)
        standing = ledger.guarantee()
        fitted = RegisterModel(models, register.numbers)
        if model is not None:
            fitted.save(model)
        progress("drawing", 1.0)
        made = fitted.sample_tables(rows, seed=seed)
        written = () if out is None else write_register(fitted, made, out, file_endings(tables))
        repeated = work.repeated
        work.done()
    first = next(iter(models.values()))
    return Synthesis(
        model=first,
        register=fitted,
        guarantee=replace(first.provenance, budget=budget).guarantee(),
        standing=standing,
        ledger=ledger.path,
        new_ledger=new,
        repeated=repeated,
        tables=made,
        rows=sum(len(made[table]) for table in register.events),
        persons=len(made[register.entities]),
        written=written,
        hold_out=division,
        hold_out_file=kept_at,
        why=WHY_FOR_EVENTS if method == "auto" else "",
    )


def _check_models_folder(place: Path) -> None:
    """Refuse a place for the models of several tables before anything is spent: a file of that name, a folder with something else, or one that cannot be written."""
    if place.exists() and not place.is_dir():
        raise UsageError(
            f"Several tables of events have a model each: name a folder for them (--model). {str(place)!r} is a file."
        )
    if place.is_dir() and not is_register_model(place) and any(place.iterdir()):
        raise UsageError(
            f"The folder {str(place)!r} holds something else than models of several tables. Name another one (--model)."
        )
    require_writable(place / "register.json" if place.is_dir() else place, what="model folder")


def write_register(
    fitted: RegisterModel,
    made: Mapping[str, pd.DataFrame],
    out: str,
    endings: Mapping[str, str] | None = None,
) -> tuple[Path, ...]:
    """Write all tables that were drawn from a model of several tables of events, with their keys."""
    links = []
    for schema in fitted.schemas:
        entity = schema.entity
        assert entity is not None
        assert entity.tables is not None
        links.append(Relation(entity.tables[1], entity.reference or entity.id, entity.tables[0], entity.id))

    def described(files: Mapping[str, str]) -> str:
        return json.dumps(register_package(fitted.schemas, made, files), indent=2) + "\n"

    columns = {column.name: column for schema in fitted.schemas for column in schema.columns}
    whole = Schema(tuple(columns.values()))
    return write_tables(made, out, schema=whole, endings=endings, relations=links, describe=described)


def file_endings(table: Any) -> dict[str, str]:
    """Return how linked tables are written unless somebody says: as they are stored."""
    if not isinstance(table, LinkedTables):
        return {}
    return {
        name: table_ending(source)
        for name, source in table.tables.items()
        if isinstance(source, str | PathLike)
    }


def check_linked(fit: Fit) -> None:
    """Refuse what a fit of linked tables cannot do, and a schema of linked tables for one table."""
    linked = isinstance(fit.table, LinkedTables)
    said = None if fit.schema.entity is None else fit.schema.entity.tables
    if not linked and said is not None:
        raise UsageError(
            f"The schema describes linked tables ({', '.join(said)}), and this is one. Give the schema file with their sources as the table, or the tables by name."
        )
    if not linked:
        return
    if said is None:
        raise UsageError("Several tables need a schema with tables and keys (tables:).")
    if fit.entity is None:
        raise UsageError(
            "Linked tables protect entities with all their rows: name the key of the entities and how many rows one counts for (--max-rows-per-person, "
            "Unit.add_remove_person), without --flat."
        )
    if fit.steps or fit.names is not None or fit.checkpoint is not None:
        raise UsageError(
            "Linked tables are fitted with a schema that is complete: leave --discover, --names and --checkpoint out."
        )


def records_of(schema: Schema, entity: Entity | None) -> Schema:
    """Return the schema of what is counted: event records, or the rows themselves."""
    return schema if entity is None else event_schema(with_entity(schema, entity))


def check_two_levels(table: Any, schema: Schema, entity: Entity) -> tuple[str, ...]:
    """Refuse what a fit of two levels cannot do, before anything is read; return what a person should know about it."""
    if type(table).__name__ == "LazyFrame":
        raise UsageError(
            "A lazy frame may put its rows in another order each time it is computed, and a fit of people reads them twice. Pass frame.collect()."
        )
    if isinstance(table, LinkedTables):
        table.check(with_entity(schema, entity))
    if schema.row_count is not None:
        raise UsageError(
            "The schema declares row_count, and a fit of people with several rows counts records of people, not rows. Leave row_count out of the schema for "
            f"this fit, or {FLAT}."
        )
    for problem in level_problems(with_entity(schema, entity)):
        raise UsageError(problem)
    if entity.tables is not None:
        return (describe_linked(entity),)
    order = "in random order" if entity.order is None else f"in the order of {entity.order!r}"
    fixed = f", the same {', '.join(entity.fixed)} in all of them" if entity.fixed else ""
    return (
        f"Two levels: each {entity.id} is drawn with its number of rows (up to {entity.max_events}; more count as {entity.max_events}), {order}{fixed}, and fresh values of "
        f"{entity.id!r}. With --flat (flat=True) rows are fitted as if they were people. Noise is on event records, of which each {entity.id} has as many "
        "as the unit allows rows.",
    )


def describe_linked(entity: Entity) -> str:
    """Say in public words what is fitted and drawn of linked tables."""
    assert entity.tables is not None
    entities, events = entity.tables
    order = "in random order" if entity.order is None else f"in the order of {entity.order!r}"
    least = "none to" if entity.min_events == 0 else "one to"
    return (
        f"Linked tables: each row of {entities!r} is drawn with {least} {entity.max_events} rows of {events!r} (more count as {entity.max_events}), {order}, and with fresh keys that "
        "join. Noise is on event records, of which each entity has as many as the unit allows rows, with all its rows in both tables."
        if entity.min_events == 0
        else f"Linked tables: entities of {entities!r} are known by their rows of {events!r}, {least} {entity.max_events} each (more count as {entity.max_events}), {order}, "
        "with fresh keys. Noise is on event records, of which each entity has as many as the unit allows rows."
    )
