"""A curator of made-up records, so that a mechanism can be tried before it is paid for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from understudy.curator.curator import Curator
from understudy.curator.facts import remember_measured
from understudy.data import LocalTable
from understudy.privacy import Budget, Ledger, SeededRandomness, Unit
from understudy.schema import Schema

__all__ = ["practice_curator"]


def practice_curator(
    schema: Schema,
    *,
    rows: int,
    unit: Unit,
    budget: Budget,
    approximate_delta: float = 0.0,
    codes: Mapping[str, npt.NDArray[Any]] | None = None,
    seed: int | None = None,
) -> Curator:
    """Return a curator of records that were made up from a schema, with a ledger in memory that can pay ``budget``.

    Every column runs through its codes in order, at a pace of its own, unless ``codes`` brings ``rows`` made-up records (such as
    :func:`understudy.datasets.schema_tables.simulated_codes`); records that break a rule of the schema are left out, and each is a person of its own. With
    a ``seed`` the noise is the same each time: nobody is protected here.

    Privacy
    -------
    In: public facts. No record of any table is involved, and nothing is charged to the ledger of one.

    Examples
    --------
    >>> from understudy.privacy import PureDP
    >>> schema = Schema.parse("columns: [{name: smokes, kind: boolean}, {name: age, kind: integer, bins: [0-17, 18-99]}]")
    >>> curator = practice_curator(schema, rows=40, unit=Unit.add_remove(), budget=PureDP(1.0))
    >>> curator.ledger.spent
    0.0
    """
    import numpy as np

    place = np.arange(rows)
    made_up = codes or {
        column.name: (place // (1 + index)) * (1 + 2 * index) % column.size
        for index, column in enumerate(schema.columns)
    }
    kept = schema.holds_codes(made_up)
    ledger = Ledger.in_memory(
        budget=budget, unit=unit, table="made-up records", approximate_delta=approximate_delta
    )
    remember_measured(ledger, schema.columns)  # made-up records have paid for nothing and reveal nothing
    alone = None if unit.id_column is None else {unit.id_column: np.arange(int(kept.sum()))}
    table = LocalTable(schema, {name: column[kept] for name, column in made_up.items()}, persons=alone)
    randomness = None if seed is None else SeededRandomness(seed)
    return Curator(table, unit=unit, ledger=ledger, randomness=randomness)
