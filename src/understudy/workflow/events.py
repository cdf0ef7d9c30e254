"""Fits of two levels: people with several rows, or households with their members, from one table with an id column.

What is counted is not the rows but event records (:mod:`understudy.data.events`), and what is drawn are entities with their rows
(:mod:`understudy.mechanisms.events`). Everything between is the same as for any table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data import Database, LocalTable, Table
from understudy.data.events import EventsTable
from understudy.errors import DataError, UsageError
from understudy.marginals import Workload
from understudy.mechanisms import Synthesizer, create
from understudy.mechanisms import method as method_named
from understudy.mechanisms.events import event_workload, require_conditional
from understudy.privacy import Unit
from understudy.schema import Schema
from understudy.schema.entities import Entity, EventColumns, event_schema, finest

__all__ = ["check_two_levels", "entity_of", "event_mechanism", "read_events", "records_of", "with_entity"]

FLAT = "fit the rows without their number and order (--flat, flat=True)"
FOR_EVENTS = "aim"
"""The method where nobody names one."""
WHY_FOR_EVENTS = (
    "Method aim, chosen because people have several rows: rows are drawn one after another, each given the one before, which models of a "
    "junction tree can be asked exactly, and aim is the one of them that chooses what to measure."
)
_MODEL_MB, _WIDE_MODEL_MB, _WIDE = 10.0, 2.0, 10
"""Model size of AIM, and that for more columns: the work of drawing an event given the one before grows with it."""
_FIRST_SHARE = 0.08
"""Of the budget, for the number of events of an entity: an error in it is multiplied by that number."""


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


def with_entity(schema: Schema, entity: Entity) -> Schema:
    """Return the schema of a table with whose its rows are, as far as its columns are known."""
    return replace(schema, entity=entity.within(set(schema.names)))


def records_of(schema: Schema, entity: Entity | None) -> Schema:
    """Return the schema of what is counted: event records, or the rows themselves."""
    return schema if entity is None else event_schema(with_entity(schema, entity))


def event_mechanism(
    method: str, schema: Schema, workload: Workload | None, options: dict[str, Any]
) -> Synthesizer:
    """Return a mechanism for the event records of a table, with the marginals that matter of them.

    Parameters
    ----------
    schema
        Of the event records.
    workload
        Marginals of the table that its owner asks for, or None.
    """
    given = dict(options)
    if method_named(method).takes_workload:
        given["workload"] = event_workload(schema, workload)
    if method == "aim":
        assert schema.events_of is not None
        wide = len(EventColumns.of(schema.events_of).events) > _WIDE
        given.setdefault("max_model_mb", _WIDE_MODEL_MB if wide else _MODEL_MB)
        given.setdefault("first", (((EventColumns.of(schema.events_of).number,), _FIRST_SHARE),))
    made = create(method, **given)
    require_conditional(made)
    return made


def check_two_levels(table: Any, schema: Schema, entity: Entity) -> tuple[str, ...]:
    """Refuse what a fit of two levels cannot do, before anything is read; return what a person should know about it."""
    if isinstance(table, Database):
        raise UsageError(
            f"A fit of people with several rows reads the rows into memory, which it does not do from a database. Export the table to Parquet, or {FLAT}."
        )
    if type(table).__name__ == "LazyFrame":
        raise UsageError(
            "A lazy frame may put its rows in another order each time it is computed, and a fit of people reads them twice. Pass frame.collect()."
        )
    if schema.row_count is not None:
        raise UsageError(
            "The schema declares row_count, and a fit of people with several rows counts records of people, not rows. Leave row_count out of the schema for "
            f"this fit, or {FLAT}."
        )
    complete = with_entity(schema, entity)
    for group in complete.joint_values:
        names = {column.name for column in group.columns}
        if names & set(entity.fixed) and names - set(entity.fixed):
            raise UsageError(
                f"A rule ties values of {', '.join(sorted(names))} together, of which some are fixed about an entity and some are not; fits of people with several "
                f"rows cannot keep it. Make it a constraint (on bins), or {FLAT}."
            )
    order = "in random order" if entity.order is None else f"in the order of {entity.order!r}"
    fixed = f", the same {', '.join(entity.fixed)} in all of them" if entity.fixed else ""
    return (
        f"Two levels: each {entity.id} is drawn with its number of rows (up to {entity.max_events}; more count as {entity.max_events}), {order}{fixed}, and fresh values of "
        f"{entity.id!r}. With --flat (flat=True) rows are fitted as if they were people. Noise is on event records, of which each {entity.id} has as many "
        "as the unit allows rows.",
    )


def read_events(
    read: Callable[..., Table], schema: Schema, entity: Entity, *, source: Any = None
) -> EventsTable:
    """Read a table whose rows belong to entities, and put them in order. Private.

    Parameters
    ----------
    read
        Reads the table by a schema, and with ``id_column`` if it is told one.
    source
        What it reads: files that change between the reading of rows and that of their order are refused, because an entity would get the order of others.
    """
    complete = with_entity(schema, entity)
    before = _stamp(source)
    rows = read(complete, id_column=entity.id)
    if not isinstance(rows, LocalTable):
        raise DataError(
            f"The table is too large for the memory that a fit of people with several rows may take. Leave columns out, or {FLAT}."
        )
    assert complete.entity is not None
    name = complete.entity.order
    if name is None:
        return EventsTable(rows)
    column = Schema([finest(complete.column(name))])
    pieces = [chunk[name] for chunk in read(column, id_column=None).chunks()]
    if _stamp(source) != before:
        raise DataError("The table changed while it was read. Run it again when nobody writes to it.")
    return EventsTable(rows, order=np.concatenate([np.zeros(0, np.int64), *pieces]))


def _stamp(source: Any) -> list[tuple[str, int, int, int]]:
    """Return what changes when files are written; nothing for frames."""
    given = (
        [source] if isinstance(source, str | PathLike) else source if isinstance(source, list | tuple) else []
    )
    paths = [Path(fspath(item)) for item in given if isinstance(item, str | PathLike)]
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    facts = [(str(file), file.stat()) for file in files]
    return [(name, found.st_ino, found.st_size, found.st_mtime_ns) for name, found in facts]
