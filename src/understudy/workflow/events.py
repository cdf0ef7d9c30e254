"""Fits of two levels: people with several rows, or households with their members, from one table with an id column.

What is counted is not the rows but event records (:mod:`understudy.data.events`), and what is drawn are entities with their rows
(:mod:`understudy.mechanisms.events`). Everything between is the same as for any table.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.data.linked import LinkedTables
from understudy.data.output import table_ending
from understudy.errors import UsageError
from understudy.privacy import Unit
from understudy.schema import Schema
from understudy.schema.entities import Entity, event_schema, level_problems, with_entity
from understudy.schema.linked import read_linked_file

if TYPE_CHECKING:
    from understudy.workflow.synthesis import Fit

__all__ = [
    "check_linked",
    "check_two_levels",
    "entity_of",
    "file_endings",
    "linked_source",
    "records_of",
]

FLAT = "fit the rows without their number and order (--flat, flat=True)"
FOR_EVENTS = "aim"
"""The method where nobody names one."""
WHY_FOR_EVENTS = (
    "Method aim, chosen because people have several rows: rows are drawn one after another, each given the one before, which models of a "
    "junction tree can be asked exactly, and aim is the one of them that chooses what to measure."
)


def entity_of(schema: Schema | None, unit: Unit, *, flat: bool) -> Entity | None:
    """Return whose the rows are, for a fit of two levels; None for a fit of rows."""
    if unit.id_column is None or flat:
        return None
    declared = None if schema is None else schema.entity
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
    if fit.steps or fit.hold_out is not None or fit.names is not None or fit.checkpoint is not None:
        raise UsageError(
            "Linked tables are fitted with a schema that is complete, as a whole: leave --discover, --hold-out, --names and --checkpoint out."
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
        return (_describe_linked(entity),)
    order = "in random order" if entity.order is None else f"in the order of {entity.order!r}"
    fixed = f", the same {', '.join(entity.fixed)} in all of them" if entity.fixed else ""
    return (
        f"Two levels: each {entity.id} is drawn with its number of rows (up to {entity.max_events}; more count as {entity.max_events}), {order}{fixed}, and fresh values of "
        f"{entity.id!r}. With --flat (flat=True) rows are fitted as if they were people. Noise is on event records, of which each {entity.id} has as many "
        "as the unit allows rows.",
    )


def _describe_linked(entity: Entity) -> str:
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
