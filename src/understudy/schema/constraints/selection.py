"""Conditions that pick records: ``age >= 70 and sex == 'F'``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.schema.columns.categorical import Categorical
from understudy.schema.columns.column import Column
from understudy.schema.constraints.conditions import FALSE, TRUE, UNKNOWN, All, Check, View
from understudy.schema.constraints.constraint import Constraint, _columns_in, _columns_of
from understudy.schema.problems import MAX_CELLS

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema.schema import Schema

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Part:
    """One of the conditions that must hold together, all about the same columns."""

    rule: Constraint
    groups: Mapping[str, npt.NDArray[np.intp]] = field(default_factory=dict)
    """For columns whose codes are groups of values, the group of each value; the rule speaks of values."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it is about, in the order of the schema."""
        return self.rule.columns

    @property
    def tabulated(self) -> bool:
        """Whether its columns have few enough combinations of codes to be held one by one."""
        return self.rule._grid(self.rule._pieces) <= MAX_CELLS

    @cached_property
    def _codes(self) -> tuple[Bools, Bools]:
        """Where the condition can be true, and where it is true for certain; one axis per column."""
        rule = self.rule
        axes = len(rule.over)
        index = {}
        for axis, column in enumerate(rule.over):
            shape = [1] * axes
            shape[axis] = -1
            index[column.name] = np.arange(len(rule._pieces[column.name]), dtype=np.intp).reshape(shape)
        answers = rule._answers(View(rule._pieces, index))
        possible, certain = np.asarray((answers & TRUE) != 0), np.asarray((answers & (FALSE | UNKNOWN)) == 0)
        for axis, column in enumerate(rule.over):
            starts = rule._pieces[column.name].start
            if starts is not None and len(starts) != possible.shape[axis]:
                possible = np.logical_or.reduceat(possible, starts, axis=axis)
                certain = np.logical_and.reduceat(certain, starts, axis=axis)
            if column.name in self.groups:
                which = _with_extras(self.groups[column.name], column)
                possible = _gathered(np.logical_or, possible, which, axis)
                certain = _gathered(np.logical_and, certain, which, axis)
        return possible, certain

    @property
    def possible(self) -> Bools:
        """Which combinations of codes hold records for which the condition is true."""
        return self._codes[0]

    @property
    def certain(self) -> bool:
        """Whether codes decide: no bin holds both records for which the condition is true and others."""
        return bool((self._codes[0] == self._codes[1]).all())

    def true(
        self, frame: pd.DataFrame | Mapping[str, Any], codes: Mapping[str, npt.NDArray[Any]] | None = None
    ) -> Bools:
        """Tell for which records the condition is true; with their codes, also where a bin is published by its label."""
        true = self.rule.true_raw(frame)
        if codes is not None and self.tabulated:
            true = true | self._codes[1][tuple(codes[name] for name in self.columns)]
        return true


@dataclass(frozen=True)
class Selection:
    """Picks the records for which a condition is true; a comparison with a missing entry is not.

    Parameters
    ----------
    text
        The condition, in the language of constraints.
    parts
        What must hold together, each about other columns.

    Examples
    --------
    >>> from understudy.schema import Categorical, Integer, Schema
    >>> schema = Schema([Integer("age", minimum=0, maximum=99), Categorical("sex", values=["F", "M"])])
    >>> chosen = Selection.parse("age >= 70 and sex == 'F'", schema)
    >>> [part.columns for part in chosen.parts]
    [('age',), ('sex',)]
    >>> chosen.true({"age": [71, 71, 20], "sex": ["F", "M", "F"]})
    array([ True, False, False])
    """

    text: str
    parts: tuple[Part, ...]

    @classmethod
    def parse(cls, text: str, schema: Schema | Iterable[Column]) -> Selection:
        """Read a condition and check it against the columns of a schema.

        Raises
        ------
        ConstraintError
            If it cannot be read, names an unknown column, or compares what cannot be compared.
        """
        columns = _columns_in(schema)
        grouped = {
            column.name: column.groups
            for column in columns
            if isinstance(column, Categorical) and column.groups is not None
        }
        rule = Constraint.parse(
            text, [column.finest if isinstance(column, Categorical) else column for column in columns]
        )
        assert rule.condition is not None
        position = {column.name: index for index, column in enumerate(rule.over)}

        def about(condition: Check) -> list[int]:
            return sorted(position[name] for name in _columns_of(condition))

        conjuncts = sorted(_flat(rule.condition), key=about)
        parts = []
        for places, same in groupby(conjuncts, key=about):
            together = tuple(same)
            condition = together[0] if len(together) == 1 else All(together)
            over = tuple(rule.over[index] for index in places)
            own = {column.name: grouped[column.name] for column in over if column.name in grouped}
            parts.append(Part(Constraint(rule.text, condition=condition, over=over), own))
        return cls(rule.text, tuple(parts))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it is about."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))

    def true(
        self, frame: pd.DataFrame | Mapping[str, Any], codes: Mapping[str, npt.NDArray[Any]] | None = None
    ) -> Bools:
        """Tell for which records the condition is true; with their codes, also where a bin is published by its label."""
        return np.asarray(np.logical_and.reduce([part.true(frame, codes) for part in self.parts]))


def _flat(condition: Check) -> list[Check]:
    """Return the conditions that an ``and`` joins, however it is nested."""
    if isinstance(condition, All):
        return [inner for part in condition.parts for inner in _flat(part)]
    return [condition]


def _with_extras(groups: npt.NDArray[np.intp], column: Column) -> npt.NDArray[np.intp]:
    """Return the group of each code of a column of values, with its codes for ``other`` and missing after the last group."""
    extra = column.size - column.value_count
    return np.append(groups, int(groups.max()) + 1 + np.arange(extra))


def _gathered(how: np.ufunc, table: Bools, which: npt.NDArray[np.intp], axis: int) -> Bools:
    """Join entries of one axis by their groups."""
    front = np.moveaxis(table, axis, 0)
    start = np.full((int(which.max()) + 1, *front.shape[1:]), how is np.logical_and)
    how.at(start, which, front)
    return np.moveaxis(start, 0, axis)
