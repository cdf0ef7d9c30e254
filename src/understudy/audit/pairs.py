"""Neighbouring tables on which a broken mechanism shows most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from understudy.data import LocalTable
from understudy.privacy import Unit
from understudy.schema import Schema

__all__ = ["Pair", "pairs_for"]

_MIXED = """
name: audit
columns:
  - {name: colour, kind: categorical, values: [red, green, blue]}
  - {name: size, kind: ordinal, values: [s, m, l, xl]}
  - {name: flag, kind: boolean}
"""
_NUMBERS = """
name: audit numbers
columns:
  - {name: height, kind: real, minimum: 0, maximum: 1, bins: 16}
  - {name: weight, kind: real, minimum: 0, maximum: 1, bins: 16}
  - {name: flag, kind: boolean}
"""
_SINGLE = """
name: audit column
columns:
  - {name: wait, kind: real, minimum: 0, maximum: 16, bins: 16}
"""
_BINARY = """
name: audit bits
columns:
  - {name: a, kind: boolean}
  - {name: b, kind: boolean}
"""
KINDS = {"mixed": _MIXED, "numbers": _NUMBERS, "single": _SINGLE, "binary": _BINARY}
"""Schemas to audit on, from the one most mechanisms take to special ones."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring tables under a unit; made up, so nothing private."""

    name: str
    unit: Unit
    first: LocalTable
    second: LocalTable


def pairs_for(kind: str, relation: str, *, max_rows: int = 1) -> Iterator[Pair]:
    """Yield worst cases: one record or none, an outlier beside a crowd, opposite corners, a whole person.

    Parameters
    ----------
    kind
        A schema out of :data:`KINDS`.
    relation
        ``"add-remove"`` or ``"replace-one"``.
    max_rows
        Above one: the unit is a person with that many rows.
    """
    schema = Schema.parse(KINDS[kind])
    sizes = schema.domain.sizes
    low, high = [0] * len(sizes), [size - 1 for size in sizes]
    crowd = [low] * 20
    if max_rows > 1:
        yield from _people(schema, relation, low, high, max_rows)
        return
    unit = Unit.add_remove() if relation == "add-remove" else Unit.replace_one()
    if relation == "add-remove":
        yield Pair("one record or none", unit, _table(schema, [high]), _table(schema, []))
        yield Pair("an outlier or none", unit, _table(schema, [*crowd, high]), _table(schema, crowd))
        yield Pair("one more of a crowd", unit, _table(schema, [*crowd, low]), _table(schema, crowd))
    else:
        yield Pair("opposite corners", unit, _table(schema, [high]), _table(schema, [low]))
        yield Pair(
            "an outlier in a crowd", unit, _table(schema, [*crowd, high]), _table(schema, [*crowd, low])
        )


def _people(schema: Schema, relation: str, low: list[int], high: list[int], max_rows: int) -> Iterator[Pair]:
    others = [low] * 6
    ids = [1 + index for index in range(len(others))]
    mine = [high] * max_rows
    if relation == "add-remove":
        unit = Unit.add_remove_person("person", max_rows=max_rows)
        second = _table(schema, others, ids)
    else:
        unit = Unit.replace_person("person", max_rows=max_rows)
        second = _table(schema, others + [low] * max_rows, ids + [0] * max_rows)
    yield Pair("a person with all rows", unit, _table(schema, others + mine, ids + [0] * max_rows), second)


def _table(schema: Schema, rows: list[list[int]], persons: list[int] | None = None) -> LocalTable:
    codes = np.array(rows, dtype=np.int64).reshape(len(rows), len(schema.names))
    columns = {name: codes[:, index] for index, name in enumerate(schema.names)}
    return LocalTable(schema, columns, persons=None if persons is None else {"person": np.array(persons)})
