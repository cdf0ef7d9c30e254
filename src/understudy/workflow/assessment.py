"""One evaluation: two tables read, the rows of a hold-out told apart, and every measure that applies computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.data import Table, read_frame, read_table
from understudy.data.events import EventsTable, read_events
from understudy.data.holdout import HoldOut
from understudy.data.linked import (
    LinkedTables,
    astray,
    joined_values,
    linked_in,
    read_linked,
    register_pairs,
)
from understudy.data.sources import in_memory
from understudy.errors import DataError, UsageError
from understudy.evaluation import Comparison, Evaluation, Options
from understudy.evaluation import evaluate as compare
from understudy.evaluation.comparison import Codes, known_numbers
from understudy.evaluation.levels import Levels
from understudy.mechanisms import Progress, no_progress
from understudy.schema import Schema
from understudy.schema.entities import EventColumns
from understudy.schema.problems import did_you_mean
from understudy.workflow.events import linked_source, register_source

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["evaluate", "evaluate_register"]


def evaluate(
    real: Any,
    synthetic: Any,
    *,
    schema: Schema | str | PathLike[str],
    target: str | None = None,
    exclude: Sequence[str] = (),
    hold_out: Any = None,
    identifiers: Sequence[str] | None = None,
    sensitive: str | None = None,
    sections: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    progress: Progress = no_progress,
) -> Evaluation:
    """Compare a synthetic table with the real one, without noise: ``understudy evaluate``, from Python.

    Parameters
    ----------
    real, synthetic
        Frames or files. Linked tables: the schema file that names them or the tables by name, and a folder, a DuckDB file or the tables by name.
    schema
        Of both. Where it says whose the rows are (``entity``, ``tables``), and both have the ids, entities and their events are compared too.
    target, exclude
        A column to predict after training on synthetic rows, and columns that must not help.
    hold_out
        Real rows that had no part in the synthesis: the `HoldOut` of a fit or the file that keeps it, which divide ``real``; or a table of such rows.
    identifiers, sensitive
        Columns an attacker knows, and the one he wants.
    sections
        Which sections to compute; by default all.
    separator, encoding, names
        Of CSV files with real rows; see `read_table`.
    progress
        Called with the name of a stage and a fraction.

    Returns
    -------
    Evaluation
        ``scores``, one per section and each of its own kind; ``overview``, the worst things first; ``learning``; ``others``; ``sections`` with every measure.

    Privacy
    -------
    In: private. Out: private, exact numbers about the real records. For the custodian's own eyes.

    Examples
    --------
    >>> from understudy import datasets
    >>> frame, schema = datasets.load("toy", 400, seed=1)
    >>> found = evaluate(frame, frame, schema=schema, sections=["marginals"])
    >>> found.score("columns").value
    0.0
    """
    described = Schema.of(schema)
    written: dict[str, Any] = {"separator": separator, "encoding": encoding, "names": names}
    progress("reading", 0.0)
    asked: dict[str, Any] = {
        "sections": sections,
        "target": target,
        "exclude": tuple(exclude),
        "identifiers": identifiers,
        "sensitive": sensitive,
    }
    if described.entity is not None and described.entity.tables is not None:
        part = _division(hold_out)
        if names is not None or (hold_out is not None and part is None):
            raise UsageError(
                "Linked tables have headers, and entities that a fit held out are told by its file (--hold-out-file): leave --hold-out-table, and --names, out."
            )
        if part is not None:
            own = described.entity.tables[1:] if described.entity.min_events else described.entity.tables
            part.require(_linked_tables(real, described, own))
        both, levels, aside = _linked(
            real, synthetic, described, separator=separator, encoding=encoding, hold_out=part
        )
        return compare(both, Options(**asked, holdout=aside, levels=levels), progress=progress)
    division = _division(hold_out)
    if division is not None:
        division.require(real)
    codes = _codes(real, described, hold_out=division, **written)
    held: Codes | None = None
    if division is not None:
        held = _codes(real, described, hold_out=division.set_aside, **written)
    elif hold_out is not None:
        held = _codes(hold_out, described, **written)
    sides = _values(real, division, **written), _values(synthetic, None)
    both = Comparison(
        described, codes, _codes(synthetic, described), known_values=known_numbers(described, *sides)
    )
    levels = None
    entity = described.entity
    if entity is not None and all(entity.id in map(str, side.columns) for side in sides):
        tables = [
            read_events(partial(read_table, source, **reading), described, entity)
            for source, reading in ((real, {"hold_out": division, **written}), (synthetic, {}))
        ]
        levels = _levels(described, tables[0], tables[1])
    return compare(both, Options(**asked, holdout=held, levels=levels), progress=progress)


def evaluate_register(
    real: Any,
    synthetic: Any,
    *,
    schema: str | PathLike[str] | None = None,
    target: str | None = None,
    exclude: Sequence[str] = (),
    identifiers: Sequence[str] | None = None,
    sensitive: str | None = None,
    sections: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    hold_out: Any = None,
    progress: Progress = no_progress,
) -> dict[str, Evaluation]:
    """Compare a table of entities with several tables of their events, without noise: an evaluation for each table of events with its entities.

    From the second on, entities have the numbers of their events in the tables before as columns, so that what goes with what across tables is compared too.

    Parameters
    ----------
    real
        The schema file that names the tables, or the tables by name.
    synthetic
        A folder, a DuckDB file, or the tables by name.
    schema
        The schema file, where ``real`` is not.
    target, exclude, identifiers, sensitive
        As for `evaluate`; each is used for the tables that have these columns.
    sections, separator, encoding, progress
        As for `evaluate`.
    hold_out
        Which entities the fit held out, with all their rows: the division, or the file that keeps it.

    Privacy
    -------
    In: private. Out: private, exact numbers about the real records. For the custodian's own eyes.
    """
    division = _division(hold_out)
    if hold_out is not None and division is None:
        raise UsageError(
            "Entities that a fit of several tables of events held out are told by its file (--hold-out-file, hold_out=)."
        )
    found = register_source(real, schema)
    if found is None:
        raise UsageError(
            "Give the schema file that names several tables of events, or the tables by name with it (schema=)."
        )
    tables, register, folder = found
    schemas = register.schemas(folder)
    wanted = (register.entities, *register.events)
    if isinstance(synthetic, str | PathLike):
        made = linked_in(synthetic, wanted)
    elif isinstance(synthetic, Mapping):
        made = LinkedTables(tables={name: synthetic[name] for name in wanted if name in synthetic})
    else:
        raise DataError("Linked tables are compared with a folder, a DuckDB file, or tables by name.")
    named = {*(exclude or ()), *(identifiers or ()), *filter(None, (target, sensitive))}
    known = {name for one in schemas for name in one.names}
    for name in sorted(named - known):
        raise UsageError(f"No table has a column {name!r}.{did_you_mean(name, sorted(known))}")
    if division is not None:
        division.require(tables)
    progress("reading", 0.0)
    written: dict[str, Any] = {"separator": separator, "encoding": encoding}
    sides = (
        register_pairs(tables, schemas, register.numbers, **written),
        register_pairs(made, schemas, register.numbers),
    )
    results: dict[str, Evaluation] = {}
    for place, (table, one) in enumerate(zip(register.events, schemas, strict=True)):

        def part(stage: str, fraction: float, place: int = place, table: str = table) -> None:
            progress(f"{table}: {stage}", (place + fraction) / len(schemas))

        both, levels, held = _linked(sides[0][table], sides[1][table], one, hold_out=division, **written)
        own = set(one.names)
        asked = Options(
            sections=sections,
            target=target if target in own else None,
            exclude=tuple(name for name in exclude if name in own),
            identifiers=None if identifiers is None or not own.issuperset(identifiers) else identifiers,
            sensitive=sensitive if sensitive in own else None,
            holdout=held,
            levels=levels,
        )
        results[table] = compare(both, asked, progress=part)
    return results


def _levels(
    schema: Schema, real: EventsTable, synthetic: EventsTable, astray: tuple[float, float] = (0.0, 0.0)
) -> Levels | None:
    """Put entities and events of two tables side by side; None where one of them has none."""
    parts = EventColumns.of(schema)
    (entities, events), (made_entities, made_events) = real.levels(), synthetic.levels()
    counts = [table.exact_row_count() for table in (entities, events, made_entities, made_events)]
    if not all(counts):
        return None
    of_entities = entities.schema.select((*parts.fixed, parts.number))
    return Levels(
        parts,
        Comparison(of_entities, *(_table_codes(table, of_entities) for table in (entities, made_entities))),
        Comparison(events.schema, *(_table_codes(table, events.schema) for table in (events, made_events))),
        (counts[1] / counts[0], counts[3] / counts[2]),
        astray,
    )


def _linked(
    real: Any,
    synthetic: Any,
    schema: Schema,
    *,
    separator: str | None,
    encoding: str | None,
    hold_out: HoldOut | None = None,
) -> tuple[Comparison, Levels | None, Codes | None]:
    """Read linked tables, and put their events with their entities side by side; and the events of entities that were held out."""
    entity = schema.entity
    assert entity is not None
    assert entity.tables is not None
    wanted = entity.tables[1:] if entity.min_events else entity.tables
    # events astray are a measure here and no reason to stop
    lenient = replace(schema, entity=replace(entity, orphans="drop"))
    sides = []
    readings: tuple[tuple[Any, dict[str, Any]], ...] = (
        (real, {"separator": separator, "encoding": encoding}),
        (synthetic, {}),
    )
    held: Codes | None = None
    for source, written in readings:
        tables = _linked_tables(source, schema, wanted).fetched(schema)
        part = hold_out if source is real else None
        read = partial(read_linked, partial(read_table, **written), tables, lenient, **written)
        if part is not None:
            held = _table_codes(read(hold_out=part.set_aside), schema)
        values_there = joined_values(tables, schema, hold_out=part, **written)
        sides.append((read(hold_out=part), values_there, astray(tables, schema, **written)))
    (first, values, lost), (second, made_values, made_lost) = sides
    both = Comparison(
        schema,
        _table_codes(first, schema),
        _table_codes(second, schema),
        known_values=known_numbers(schema, values, made_values),
    )
    return both, _levels(schema, first, second, (lost, made_lost)), held


def _linked_tables(source: Any, schema: Schema, wanted: Sequence[str]) -> LinkedTables:
    """Return linked tables from whatever names them."""
    if isinstance(source, str | PathLike):
        found = linked_source(source, None)
        return linked_in(source, wanted) if found is None else found[0]
    if isinstance(source, LinkedTables):
        return source
    found = linked_source(source, schema)
    if found is None:
        raise DataError(
            "Linked tables are compared from the schema file that names them, a folder, a DuckDB file, or tables by name."
        )
    tables = {name: table for name, table in found[0].tables.items() if name in wanted}
    return replace(found[0], tables=tables)


def _table_codes(table: Table, schema: Schema) -> Codes:
    chunks = [
        np.stack([chunk[name] for name in schema.names], axis=1).astype(np.int64)
        for chunk in table.chunks(schema.names)
    ]
    return np.concatenate(chunks) if chunks else np.zeros((0, len(schema.names)), np.int64)


def _division(hold_out: Any) -> HoldOut | None:
    """Return how the real rows are divided, if that is what was given."""
    if isinstance(hold_out, HoldOut):
        return hold_out
    if isinstance(hold_out, str | PathLike) and Path(fspath(hold_out)).suffix == ".hold-out":
        return HoldOut.read(hold_out)
    return None


def _codes(source: Any, schema: Schema, **reading: Any) -> Codes:
    return _table_codes(read_table(source, schema, **reading), schema)


def _values(source: Any, division: HoldOut | None, **written: Any) -> pd.DataFrame:
    """Return a table as a frame, for the measures that do not bin numbers. Private where the table is."""
    if isinstance(source, str | PathLike):
        frame = read_frame(source, **written)
    else:
        found = in_memory(source)
        if found is None:
            raise DataError("An evaluation compares frames or files.")
        frame = found if hasattr(found, "iloc") else found.to_pandas()
    return frame if division is None else division.frame(frame)
