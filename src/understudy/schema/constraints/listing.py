"""Rules that say what a column is, and the list of everything that they leave.

``nights == departure - arrival`` makes one column a function of others (`Equation`). Where every column follows from a few, all values of
these few are gone through once, and the combinations of codes that come out are listed (`Listing`): a record obeys if its codes are in the list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.schema.columns.column import Column
from understudy.schema.constraints.conditions import All, Check, NamedPart, Part, Relation, Value

__all__ = ["Equation", "Listing", "equations_of", "find_sorted", "solving_order"]

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Index: TypeAlias = npt.NDArray[np.intp]
Likely: TypeAlias = Callable[[str, str | None, Index], Floats]
"""How likely each code of a column is, in each of some records, given the code of another column."""

_MOST_SETS = 4_096
_WEIGHTS = 1 << 22


@dataclass(frozen=True)
class Equation:
    """A column that is a function of others: a sum, or the name or number of a value of the calendar."""

    target: str
    value: Value | None = None
    part: Part | None = None
    numbers: tuple[int, ...] = ()

    @property
    def sources(self) -> frozenset[str]:
        """The columns it is computed from."""
        if self.value is not None:
            return self.value.columns
        assert self.part is not None
        return frozenset({self.part.column})


def equations_of(condition: Check | None, by_name: Mapping[str, Column]) -> list[Equation]:
    """Return the functions that a rule states, one for each column that it can be solved for."""
    if isinstance(condition, All):
        return [found for part in condition.parts for found in equations_of(part, by_name)]
    if isinstance(condition, NamedPart) and condition.sign == "==":
        known = [number for number in condition.numbers if number >= 0]
        if len(set(known)) < len(known) or by_name[condition.column].groups is not None:
            return []
        return [Equation(condition.column, part=condition.part, numbers=condition.numbers)]
    if not isinstance(condition, Relation) or condition.sign != "==":
        return []
    value = condition.value
    whole = all(float(number).is_integer() for number in (value.constant, *(f for f, _ in value.terms)))
    if not whole:
        return []
    found = []
    for factor, factors in value.terms:
        target = factors[0]
        rest = tuple(term for term in value.terms if term[1] != factors)
        if len(factors) == 1 and isinstance(target, str) and abs(factor) == 1 and rest:
            other = Value(value.constant, rest)
            if target not in other.columns:
                found.append(Equation(target, value=other if factor < 0 else -other))
    return found


@dataclass(frozen=True, eq=False)
class Listing:
    """Every combination of codes that some rules leave, with the values behind each.

    Parameters
    ----------
    columns
        Names of the columns, and how many codes each has.
    codes
        The combinations, one row each, in order.
    first
        Where the values of each combination begin, and where those of the last end.
    values
        Values of the columns of numbers and dates.
    values_of
        How many codes of each column stand for values; those after them are for missing entries and others.
    """

    columns: Mapping[str, int]
    codes: Index
    first: Index
    values: Mapping[str, npt.NDArray[np.int64]]
    values_of: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.codes)

    def key(self, names: Sequence[str], codes: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
        """Return one number for each combination of codes of some columns."""
        key = np.zeros(len(codes[0]), dtype=np.int64)
        for name, part in zip(names, codes, strict=True):
            key = key * self.columns[name] + part.astype(np.int64)
        return key

    def of(self, names: Sequence[str]) -> list[Index]:
        """Return the listed codes of some columns."""
        order = list(self.columns)
        return [self.codes[:, order.index(name)] for name in names]

    def find(self, codes: Mapping[str, Index]) -> tuple[Index, Bools]:
        """Return the place of each record in the list, and whether it has one."""
        return find_sorted(self._keys, self.key(tuple(self.columns), [codes[name] for name in self.columns]))

    @cached_property
    def _keys(self) -> npt.NDArray[np.int64]:
        return self.key(tuple(self.columns), list(self.codes.T))

    @cached_property
    def deciding(self) -> tuple[str, ...]:
        """The columns from whose codes those of all others follow: as few as there are, and of these the ones with the fewest codes."""
        return self._smallest(tuple(self.columns), len(self))

    def decide(self, name: str) -> tuple[str, ...]:
        """Return the deciding columns from which a column follows."""
        column = self.of([name])[0]

        def follows(names: Sequence[str]) -> bool:
            keys = self.key(names, self.of(names))
            both = keys * self.columns[name] + column
            return len(np.unique(both)) == len(np.unique(keys))

        for size in range(1, len(self.deciding)):
            for names in sorted(combinations(self.deciding, size), key=self._size):
                if follows(names):
                    return names
        return self.deciding

    def _size(self, names: Sequence[str]) -> int:
        return prod(self.columns[name] for name in names)

    def _smallest(self, columns: tuple[str, ...], wanted: int) -> tuple[str, ...]:
        tried = 0
        for size in range(1, len(columns)):
            for names in sorted(combinations(columns, size), key=self._size):
                if self._size(names) < wanted:
                    continue
                if len(np.unique(self.key(names, self.of(names)))) == wanted:
                    return names
                tried += 1
                if tried > _MOST_SETS:
                    return columns
        return columns

    def complete(
        self,
        codes: Mapping[str, Index],
        order: Sequence[str],
        likely: Likely,
        generator: np.random.Generator,
    ) -> dict[str, Index]:
        """Return records of the list: deciding columns as they are wherever the list has them, and the others as they follow.

        Where a deciding column does not go with those before it, it is drawn again from what does, by how likely the codes are.

        Parameters
        ----------
        codes
            Codes of all columns of the list.
        order
            The columns, those first that are to be kept first.
        likely
            How likely each code of a column is given that of another (or of none).
        generator
            For codes that are drawn again.
        """
        names = [name for name in order if name in self.deciding]
        made: dict[str, Index] = {}
        for place, name in enumerate(names):
            before = names[:place]
            known = np.unique(self.key([*before, name], self.of([*before, name])))
            made[name] = codes[name].copy()
            given = (
                self.key(before, [made[item] for item in before])
                if before
                else np.zeros(len(codes[name]), np.int64)
            )
            size = self.columns[name]
            bad = np.flatnonzero(~find_sorted(known, given * size + made[name])[1])
            for start in range(0, len(bad), max(1, _WEIGHTS // size)):
                here = bad[start : start + max(1, _WEIGHTS // size)]
                every = given[here, None] * size + np.arange(size)
                allowed = find_sorted(known, every.reshape(-1))[1].reshape(every.shape)
                anchor = names[0] if place else None
                weights = likely(name, anchor, made[names[0]][here]) * allowed
                empty = ~(weights.sum(axis=1) > 0)
                weights[empty] = (likely(name, None, here[empty]) + 1e-12) * allowed[empty]
                reached = np.cumsum(weights, axis=1)
                share = generator.random(len(here)) * reached[:, -1]
                made[name][here] = np.minimum((reached <= share[:, None]).sum(axis=1), size - 1)
        key = self.key(names, self.of(names))
        sorting = np.argsort(key, kind="stable")
        place_of = sorting[find_sorted(key[sorting], self.key(names, [made[name] for name in names]))[0]]
        return {name: self.codes[place_of, axis] for axis, name in enumerate(self.columns)}

    def tables(self, most: int) -> list[tuple[tuple[str, ...], Bools]]:
        """Return tables of the combinations of codes that may occur: of the deciding columns, and of each other with those that decide it.

        Tables of more than ``most`` cells are left out. Records with missing entries may have any codes by them.
        """
        others = [name for name in self.columns if name not in self.deciding]
        found = []
        for chosen in [self.deciding, *((*self.decide(name), name) for name in others)]:
            names = tuple(name for name in self.columns if name in chosen)
            if len(names) > 1 and self._size(names) <= most:
                sizes = tuple(self.columns[name] for name in names)
                table = np.zeros(sizes, dtype=bool)
                table[tuple(self.of(names))] = True
                for axis, name in enumerate(names):
                    np.moveaxis(table, axis, 0)[self.values_of[name] :] = True
                found.append((names, table))
        return found

    def draw(self, places: Index, generator: np.random.Generator) -> dict[str, npt.NDArray[np.int64]]:
        """Return values for combinations of the list, each of the possible ones with the same probability."""
        return self.at(places, generator.random(len(places)))

    def at(self, places: Index, shares: Floats) -> dict[str, npt.NDArray[np.int64]]:
        """Return values for combinations of the list: the first of each at a share of 0, the last at 1."""
        count = self.count(places)
        chosen = self.first[places] + np.minimum((shares * count).astype(np.intp), count - 1)
        return {name: part[chosen] for name, part in self.values.items()}

    def count(self, places: Index) -> Index:
        """Return how many values stand behind combinations of the list."""
        return self.first[places + 1] - self.first[places]


def find_sorted(keys: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> tuple[Index, Bools]:
    """Return where wanted numbers are among sorted ones, and whether they are."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.intp), np.zeros(len(wanted), dtype=bool)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return places, keys[places] == wanted


def solving_order(names: Collection[str], equations: Sequence[Equation]) -> list[Equation]:
    """Return the equations by which other columns follow from some, in an order in which they can be solved."""
    known, order = set(names), list[Equation]()
    again = True
    while again:
        again = False
        for equation in equations:
            if equation.target not in known and equation.sources <= known:
                known.add(equation.target)
                order.append(equation)
                again = True
    return order
