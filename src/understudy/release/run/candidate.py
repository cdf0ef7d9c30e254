"""One candidate: fit, draw rows that obey every rule, project (paper Births, Algorithm 1, lines 3 to 9)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.data.persons import KEY_BYTES
from understudy.errors import ConstraintError
from understudy.mechanisms import Model, Progress, Provenance
from understudy.release.record_types import RecordTypes
from understudy.release.run.transform import read_source
from understudy.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

    from understudy.release.result import Configuration
    from understudy.release.spec.spec import Spec

__all__ = ["Candidate", "draw_candidate", "fit_model", "joined_tables"]


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


def draw_candidate(
    spec: Spec, configuration: Configuration, model: Model, *, rows: int, seed: int
) -> Candidate:
    """Draw exactly ``rows`` records that obey every rule from a model, and project them.

    Raises
    ------
    ConstraintError
        If the rules reject (nearly) everything the model draws; the number of draws is bounded.
    """
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
    unit, drawer = spec.unit, model.events
    assert unit.id_column is not None
    assert drawer is not None
    entities = max(1, round(rows / unit.max_rows))
    chosen = {"entities": entities, "seed": int(public_generator(seed, _SAMPLING).integers(1 << 62))}
    tables = {"": drawer.frame(**chosen)} if drawer.linked is None else drawer.tables(**chosen)
    drawn = time.perf_counter()
    table = read_source(spec, configuration, tables.get("", tables))
    if not all(table.schema.holds_codes(chunk).all() for chunk in table.chunks()):
        raise ConstraintError("The rows that were drawn break a constraint of the schema.")
    key = public_generator(seed, _ORDER).bytes(KEY_BYTES)
    records = table.truncated(unit.id_column, unit.max_rows, key)
    seconds = {"sampling": drawn - start, "projection": time.perf_counter() - drawn}
    return Candidate(
        configuration=configuration,
        schema=spec.schema_for(configuration),
        types=RecordTypes.from_table(records),
        provenance=model.provenance,
        seconds={step: round(spent, 3) for step, spent in seconds.items()},
        tables=tables,
    )


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
