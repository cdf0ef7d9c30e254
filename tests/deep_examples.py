"""A small table on which networks, their gradients and teachers are tried, and a curator of it."""

from __future__ import annotations

import numpy as np

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.mechanisms.deep.encoding import Layout
from understudy.privacy import Budget, Ledger, SeededRandomness, Unit
from understudy.privacy.noise.randomness import Randomness
from understudy.schema import Categorical, Integer, Schema

SCHEMA = Schema(
    [
        Categorical("colour", values=["red", "green", "blue"], missing=True),
        Integer("age", minimum=0, maximum=99, bins=20),
        Categorical("sex", values=["f", "m"]),
    ]
)
SIZES = SCHEMA.domain.sizes
LAYOUT = Layout.of(SCHEMA, max_modes=6)
NOBODY = np.zeros((0, len(SIZES)), dtype=np.int64)


def random_codes(generator: np.random.Generator, rows: int) -> np.ndarray:
    """Return so many records, each code equally likely."""
    return np.stack([generator.integers(0, size, rows) for size in SIZES], axis=1)


def curator_of(
    codes: np.ndarray,
    *,
    budget: Budget,
    unit: Unit | None = None,
    randomness: int | Randomness = 1,
    reserve: float = 0.0,
    schema: Schema = SCHEMA,
) -> Curator:
    """Return a curator of these records with a ledger in memory; a whole number is the seed of its randomness."""
    unit = unit or Unit.add_remove()
    table = LocalTable(schema, dict(zip(schema.names, codes.T, strict=True)))
    book = Ledger.in_memory(budget=budget, unit=unit, table="t", approximate_delta=reserve)
    source = SeededRandomness(randomness) if isinstance(randomness, int) else randomness
    return Curator(table, unit=unit, ledger=book, randomness=source)
