"""Neighbouring tables on which a broken mechanism shows most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from understudy.data import LocalTable
from understudy.privacy import Unit
from understudy.schema import Schema

__all__ = ["NARROW", "WIDE", "Pair", "pairs_for"]

NARROW = (
    "{name: audit bit, columns: [{name: a, kind: boolean}]}",
    "{name: audit line, columns: [{name: w, kind: real, minimum: 0, maximum: 4, bins: 4}]}",
)
"""The smallest schemas: a mechanism is audited on the first one it takes, where a fit takes milliseconds."""

WIDE = (
    "{name: audit bits, columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]}",
    "{name: audit bins, columns: [{name: w, kind: real, minimum: 0, maximum: 16, bins: 16}]}",
)
"""Schemas with something to choose: columns to relate, or bins to merge."""

_CROWD = 20
_OTHERS = 3


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring tables under a unit; made up, so nothing private.

    Examples
    --------
    >>> pair = next(pairs_for(NARROW[0], "add-remove"))
    >>> pair.name, [int(x.sum()) for x in pair.counts(("a",))]
    ('one record or none', [1, 0])
    """

    name: str
    unit: Unit
    first: LocalTable
    second: LocalTable
    _seen: dict[tuple[str, ...], tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = field(
        default_factory=dict, repr=False
    )

    def counts(self, clique: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the exact marginals of both tables."""
        if clique not in self._seen:
            self._seen[clique] = (self.first.count(clique), self.second.count(clique))
        return self._seen[clique]


def pairs_for(text: str, relation: str, *, max_rows: int = 1) -> Iterator[Pair]:
    """Yield worst cases: one record or none, an outlier beside a constant crowd, opposite corners, a whole person.

    Parameters
    ----------
    text
        A schema, as YAML. The outlier lies at the upper edge of every column, the crowd at the lower.
    relation
        ``"add-remove"`` or ``"replace-one"``.
    max_rows
        Above one: the unit is a person with that many rows.
    """
    schema = Schema.parse(text)
    sizes = schema.domain.sizes
    low, high = [0] * len(sizes), [size - 1 for size in sizes]
    partly = [high[0], *low[1:]]
    crowd = [low] * _CROWD
    if max_rows > 1:
        yield _people(schema, relation, low, high, max_rows)
    elif relation == "add-remove":
        unit = Unit.add_remove()
        yield Pair("one record or none", unit, _table(schema, [high]), _table(schema, []))
        yield Pair("an outlier or none", unit, _table(schema, [*crowd, high]), _table(schema, crowd))
        name = "an outlier in one column" if len(sizes) > 1 else "one more of a crowd"
        other = partly if len(sizes) > 1 else low
        yield Pair(name, unit, _table(schema, [*crowd, other]), _table(schema, crowd))
    else:
        unit = Unit.replace_one()
        yield Pair("opposite corners", unit, _table(schema, [high]), _table(schema, [low]))
        yield Pair(
            "an outlier in a crowd", unit, _table(schema, [*crowd, high]), _table(schema, [*crowd, low])
        )
        other = partly if len(sizes) > 1 else [(size - 1) // 2 for size in sizes]
        yield Pair("two outliers", unit, _table(schema, [*crowd, high]), _table(schema, [*crowd, other]))


def _people(schema: Schema, relation: str, low: list[int], high: list[int], max_rows: int) -> Pair:
    others = [low] * _OTHERS
    ids = [1 + index for index in range(len(others))]
    mine, me = [high] * max_rows, [0] * max_rows
    if relation == "add-remove":
        unit = Unit.add_remove_person("person", max_rows=max_rows)
        second = _table(schema, others, ids)
    else:
        unit = Unit.replace_person("person", max_rows=max_rows)
        second = _table(schema, others + [low] * max_rows, ids + me)
    return Pair(f"a person with {max_rows} rows", unit, _table(schema, others + mine, ids + me), second)


def _table(schema: Schema, rows: list[list[int]], persons: list[int] | None = None) -> LocalTable:
    codes = np.array(rows, dtype=np.int64).reshape(len(rows), len(schema.names))
    columns = {name: codes[:, index] for index, name in enumerate(schema.names)}
    return LocalTable(schema, columns, persons=None if persons is None else {"person": np.array(persons)})
