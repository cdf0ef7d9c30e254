"""Values of entities that are known before their events are drawn, where rules tie them to values of events: no visit after death.

A code stands for a bin. A patient who died in the spring and a visit in the spring obey a rule on bins, and the day of the visit may lie after that of the death all the same. So what is fixed about an
entity gets its values first, and an event is only drawn where it has values that go with them. All of it is post-processing of a released model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.schema import Schema
from understudy.schema.entities import settled_first, with_single_values

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SettledValues:
    """Values of what is fixed about entities, a row each.

    Parameters
    ----------
    schema
        Of what is fixed.
    codes
        Codes of the entities.
    frame
        Their values.
    """

    schema: Schema
    codes: Mapping[str, npt.NDArray[Any]]
    frame: pd.DataFrame

    @classmethod
    def of(
        cls, schema: Schema, codes: Mapping[str, npt.NDArray[Any]], generator: np.random.Generator
    ) -> SettledValues:
        """Draw values for codes of entities."""
        return cls(schema, codes, schema.decode(codes, seed=int(generator.integers(1 << 62))))

    def of_rows(self, rows: Ints) -> SettledValues:
        """Return those of some entities."""
        return SettledValues(
            self.schema,
            {name: codes[rows] for name, codes in self.codes.items()},
            self.frame.take(rows).reset_index(drop=True),
        )

    def again(self, rows: Ints, generator: np.random.Generator) -> SettledValues:
        """Return the same with other values of some entities, in the same bins."""
        counts = {name: np.bincount(codes, minlength=self.schema.domain.size(name)) for name, codes in self.codes.items()}  # fmt: skip
        some = {name: codes[rows] for name, codes in self.codes.items()}
        drawn = self.schema.decode(some, seed=int(generator.integers(1 << 62)), counts=counts)
        frame = self.frame.copy()
        for name in frame:
            column = frame[name].array.copy()
            column[rows] = drawn[name].array
            frame[name] = column
        return SettledValues(self.schema, self.codes, frame)


@dataclass(frozen=True, eq=False)
class ExactRules:
    """The rules of a table that tie values of entities to those of their events.

    Parameters
    ----------
    schema
        Of the table: entities and their events.
    fine
        The same with a code for each value of the columns in ``names``.
    names
        The columns fixed about an entity that the rules are about.
    """

    schema: Schema
    fine: Schema
    names: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema) -> ExactRules | None:
        """Return the rules of a table, or None where it has no such rule."""
        names = settled_first(schema)
        return cls(schema, with_single_values(schema), names) if names else None

    def codes(self, values: SettledValues) -> dict[str, npt.NDArray[Any]]:
        """Return a code for each value of the columns that the rules are about."""
        known = Schema([self.fine.column(name) for name in self.names])
        return known.encode_frame(values.frame[list(self.names)])

    def allow(self, columns: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
        """Say which events have values in their bins that go with the known values of their entity.

        Parameters
        ----------
        columns
            Codes of events, those of `codes` for the columns that the rules are about.
        """
        holds = np.ones(len(columns[self.schema.names[0]]), dtype=bool)
        for group in self.fine.tied_values:  # those too in which every code stands for one value by now
            if any(column.name in self.names for column in group.columns):
                holds &= group.possible({column.name: columns[column.name] for column in group.columns})
        return holds
