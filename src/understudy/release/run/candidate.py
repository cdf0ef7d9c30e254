"""One candidate: fit, draw rows that obey every rule, project (paper Births, Algorithm 1, lines 3 to 9)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import ConstraintError
from understudy.mechanisms import Model, Progress, Provenance
from understudy.release.record_types import RecordTypes
from understudy.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

    from understudy.release.result import Configuration
    from understudy.release.spec.spec import Spec

__all__ = ["Candidate", "draw_candidate", "fit_model"]


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


def public_generator(seed: int, stream: int) -> np.random.Generator:
    """Return one of the independent generators of the public side."""
    return np.random.default_rng(np.random.SeedSequence([seed, stream]))
