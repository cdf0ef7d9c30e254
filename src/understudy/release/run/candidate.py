"""One candidate: fit, draw rows that obey every rule, project (paper Births, Algorithm 1, lines 3 to 9)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.data.linked import LinkedTables
from understudy.data.persons import KEY_BYTES
from understudy.errors import ConstraintError
from understudy.mechanisms import Model, Progress, Provenance
from understudy.mechanisms.events import RegisterModel
from understudy.release.record_types import RecordTypes
from understudy.release.run.transform import pairs_of, read_source
from understudy.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

    from understudy.release.result import Configuration
    from understudy.release.spec.spec import Spec

__all__ = ["Candidate", "draw_candidate", "fit_model", "fit_models", "joined_tables", "register_model"]


_SAMPLING, _PROJECTING, _ORDER, _VALUES = range(4)
"""Independent streams of the public seed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A synthetic table before acceptance.

    Attributes
    ----------
    configuration
        How it was made.
    schema
        Its public schema, row count included.
    types
        Its records.
    provenance
        How its model was made.
    seconds
        Time of the steps after the fit. They depend on the records only through the model.
    tables
        Of a release of two levels: the tables that were drawn, by name; one without a name where there is one table with an id column.
    parts
        Of several tables of events: by table, the entities with that table alone. The other fields are then those of the first.

    Privacy
    -------
    A function of a fitted model and public randomness: paid for by the fit. Until it is accepted it is not
    published; in a loop of attempts a rejected candidate must be forgotten.
    """

    configuration: Configuration
    schema: Schema
    types: RecordTypes
    provenance: Provenance
    seconds: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict, repr=False)
    parts: Mapping[str, Candidate] = field(default_factory=dict, repr=False)

    def frame(self, seed: int, *, model: Model | None = None) -> pd.DataFrame:
        """Return the table as it will be published: rows in random order, values inside their bins.

        Columns with ``decode_by: smooth`` follow the counts of the model; without one, those of the candidate itself.
        """
        rows = self.types.expand(public_generator(seed, _ORDER))
        codes = {name: rows[:, index] for index, name in enumerate(self.schema.names)}
        return self.schema.decode(
            codes,
            seed=int(public_generator(seed, _VALUES).integers(1 << 62)),
            counts=None if model is None else model.bin_counts,
        )


def fit_model(spec: Spec, configuration: Configuration, curator: Curator, *, progress: Progress) -> Model:
    """Fit the model of a configuration, spending at most the model's share of the budget."""
    synthesizer = spec.synthesizer_for(configuration, curator.schema)
    return synthesizer.fit(curator, spec.shares.model, progress=progress)


def fit_models(
    spec: Spec, configuration: Configuration, curators: Sequence[Curator], *, progress: Progress
) -> Model | RegisterModel:
    """Fit the model of a configuration; of several tables of events a model for each, with an equal share of the model's budget."""
    if not spec.parts:
        return fit_model(spec, configuration, curators[0], progress=progress)
    return register_model(
        spec,
        {
            table: fit_model(part, configuration, curator, progress=progress)
            for (table, part), curator in zip(spec.parts.items(), curators, strict=True)
        },
    )


def register_model(spec: Spec, models: Mapping[str, Model]) -> RegisterModel:
    """Put the models of several tables of events together."""
    assert spec.register is not None
    return RegisterModel(models, spec.register.numbers)


def draw_candidate(
    spec: Spec, configuration: Configuration, model: Model | RegisterModel, *, rows: int, seed: int
) -> Candidate:
    """Draw exactly ``rows`` records that obey every rule from a model, and project them.

    Raises
    ------
    ConstraintError
        If the rules reject (nearly) everything the model draws; the number of draws is bounded.
    """
    if isinstance(model, RegisterModel):
        return _draw_register(spec, configuration, model, rows=rows, seed=seed)
    if spec.two_levels:
        return _draw_entities(spec, configuration, model, rows=rows, seed=seed)
    start = time.perf_counter()
    generator = public_generator(seed, _SAMPLING)
    codes = model.sample_codes(rows, seed=int(generator.integers(1 << 62)))
    codes = model.schema.codes_as_read(codes, seed=int(generator.integers(1 << 62)))
    drawn = time.perf_counter()
    schema = replace(model.schema.as_read(), row_count=rows if rows else None)
    types = RecordTypes.from_table(LocalTable(schema, codes))
    projected = spec.projection_for(configuration, schema).apply(types, public_generator(seed, _PROJECTING))
    columns = {name: projected.column(name) for name in schema.names}
    if not schema.holds_codes(columns).all():
        raise ConstraintError("A projection broke a constraint of the schema.")
    seconds = {"sampling": drawn - start, "projection": time.perf_counter() - drawn}
    return Candidate(
        configuration=configuration,
        schema=schema,
        types=projected,
        provenance=model.provenance,
        seconds={step: round(spent, 3) for step, spent in seconds.items()},
    )


def _draw_entities(
    spec: Spec, configuration: Configuration, model: Model, *, rows: int, seed: int
) -> Candidate:
    """Draw entities with their events, and make event records of them exactly as of the private table, with a public random key.

    An entity gives as many records as the unit allows, so ``rows`` records are those of so many entities.
    """
    start = time.perf_counter()
    drawer = model.events
    assert drawer is not None
    chosen = _entities_of(spec, rows, seed)
    tables = {"": drawer.frame(**chosen)} if drawer.linked is None else drawer.tables(**chosen)
    drawn = time.perf_counter()
    types = _records_of(spec, configuration, tables.get("", tables), seed)
    seconds = {"sampling": drawn - start, "projection": time.perf_counter() - drawn}
    return Candidate(
        configuration=configuration,
        schema=spec.schema_for(configuration),
        types=types,
        provenance=model.provenance,
        seconds={step: round(spent, 3) for step, spent in seconds.items()},
        tables=tables,
    )


def _draw_register(
    spec: Spec, configuration: Configuration, model: RegisterModel, *, rows: int, seed: int
) -> Candidate:
    """Draw entities with their events in all tables, and make event records of each table exactly as of the private ones."""
    start = time.perf_counter()
    tables = model.sample_tables(**_entities_of(spec, rows, seed))
    drawn = time.perf_counter()
    found = {}
    for table, pair in pairs_of(spec, LinkedTables(tables=tables)).items():
        part = spec.parts[table]
        found[table] = Candidate(
            configuration=configuration,
            schema=part.schema_for(configuration),
            types=_records_of(part, configuration, pair, seed),
            provenance=model.models[table].provenance,
            tables=pair.tables,
        )
    seconds = {"sampling": drawn - start, "projection": time.perf_counter() - drawn}
    first = next(iter(found.values()))
    return replace(
        first,
        provenance=replace(first.provenance, budget=spec.shares.model),
        seconds={step: round(spent, 3) for step, spent in seconds.items()},
        tables=tables,
        parts=found,
    )


def _entities_of(spec: Spec, rows: int, seed: int) -> dict[str, int]:
    """Return how many entities give so many records, and the seed that they are drawn by."""
    return {
        "entities": max(1, round(rows / spec.unit.max_rows)),
        "seed": int(public_generator(seed, _SAMPLING).integers(1 << 62)),
    }


def _records_of(spec: Spec, configuration: Configuration, tables: Any, seed: int) -> RecordTypes:
    """Return the event records of entities that were drawn, by a public random key; refused if they break a rule."""
    assert spec.unit.id_column is not None
    table = read_source(spec, configuration, tables)
    if not all(table.schema.holds_codes(chunk).all() for chunk in table.chunks()):
        raise ConstraintError("The rows that were drawn break a constraint of the schema.")
    key = public_generator(seed, _ORDER).bytes(KEY_BYTES)
    return RecordTypes.from_table(table.truncated(spec.unit.id_column, spec.unit.max_rows, key))


def joined_tables(schema: Schema, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return synthetic events with the columns of their entity beside them: the key, then the columns of the schema."""
    import pandas as pd

    entity = schema.entity
    assert entity is not None
    if entity.tables is None or entity.tables[0] not in tables:
        return next(iter(tables.values()))
    entities, events = (tables[name] for name in entity.tables)
    key = entity.reference or entity.id
    beside = entities.set_index(entity.id).loc[events[key]].reset_index(drop=True)
    whole = pd.concat([events.reset_index(drop=True), beside], axis=1)
    return whole[[key, *schema.output_names]]


def public_generator(seed: int, stream: int) -> np.random.Generator:
    """Return one of the independent generators of the public side."""
    return np.random.default_rng(np.random.SeedSequence([seed, stream]))
