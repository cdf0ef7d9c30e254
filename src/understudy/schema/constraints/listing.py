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
from understudy.schema.columns.numeric import Ordered
from understudy.schema.constraints.conditions import (
    All,
    Check,
    NamedPart,
    Part,
    Pieces,
    Relation,
    Value,
    View,
)
from understudy.schema.constraints.constraint import Constraint
from understudy.schema.constraints.tied import TiedColumns

__all__ = [
    "Equation",
    "Listing",
    "equations_of",
    "find_sorted",
    "listing_of",
    "solving_order",
    "usable_equations",
]

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Index: TypeAlias = npt.NDArray[np.intp]
Likely: TypeAlias = Callable[[str, str | None, Index], Floats]
"""How likely each code of a column is, in each of some records, given the code of another column."""

_MOST_LISTED = 1 << 21
"""Most combinations of values that are gone through for a list."""
_LISTED_AT_ONCE = 1 << 18
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


def usable_equations(rule: Constraint, by_name: Mapping[str, Column]) -> list[Equation]:
    """Return the functions that a rule states about columns whose values can be gone through."""
    over = [by_name[name] for name in rule.columns]
    if not all(_is_listed(column) for column in over if isinstance(column, Ordered)):
        return []
    return [
        found
        for found in equations_of(rule.condition, by_name)
        if all(isinstance(by_name[name], Ordered) for name in found.sources)
        and (found.value is None or isinstance(by_name[found.target], Ordered))
    ]


def _is_listed(column: Ordered) -> bool:
    """Whether the values of a column are whole numbers or days between two ends."""
    cells = column.cells
    return cells.whole and not cells.open_low and not cells.open_high


def listing_of(tied: TiedColumns) -> Listing | None:
    """Return the list of what the rules leave, if they say what some of the columns are and it is not too long."""
    if len(tied.columns) > 12 or prod(column.size for column in tied.columns) >= 2**62:
        return None
    if not all(_is_listed(column) for column in tied.ordered):
        return None
    equations = [found for rule in tied.rules for found in usable_equations(rule, tied.by_name)]
    free = _free(tied, equations)
    if free is None:
        return None
    grid = {name: _all_values(tied, name) for name in free}
    shape = [len(part) for part in grid.values()]
    codes: list[Index] = []
    values: list[npt.NDArray[np.int64]] = []
    for start in range(0, prod(shape), _LISTED_AT_ONCE):
        flat = np.arange(start, min(start + _LISTED_AT_ONCE, prod(shape)))
        places = np.unravel_index(flat, shape)
        made = {name: part[place] for (name, part), place in zip(grid.items(), places, strict=True)}
        some_codes, some_values = _follow(tied, made, equations)
        codes.append(some_codes)
        values.append(some_values)
    every, behind = np.concatenate(codes), np.concatenate(values)
    sizes = {column.name: column.size for column in tied.columns}
    key = np.zeros(len(every), dtype=np.int64)
    for axis, size in enumerate(sizes.values()):
        key = key * size + every[:, axis]
    order = np.argsort(key, kind="stable")
    _, first = np.unique(key[order], return_index=True)
    return Listing(
        sizes,
        every[order][first],
        np.append(first, len(order)).astype(np.intp),
        {column.name: behind[order, axis] for axis, column in enumerate(tied.ordered)},
        {column.name: column.value_count for column in tied.columns},
    )


def _all_values(tied: TiedColumns, name: str) -> npt.NDArray[np.int64]:
    """Return every value of a column of whole numbers or dates, or every code of another."""
    column = tied.by_name[name]
    if isinstance(column, Ordered):
        return np.arange(int(column.cells.low[0]), int(column.cells.high[-1]) + 1, dtype=np.int64)
    return np.arange(column.value_count, dtype=np.int64)


def _free(tied: TiedColumns, equations: Sequence[Equation]) -> tuple[str, ...] | None:
    """Return the columns with the fewest values from which all others can be computed, if they are few enough."""
    names = [column.name for column in tied.columns]
    count = {
        column.name: int(column.cells.high[-1]) - int(column.cells.low[0]) + 1
        if isinstance(column, Ordered)
        else column.value_count
        for column in tied.columns
    }
    best: tuple[int, tuple[str, ...]] | None = None
    for size in range(1, len(names)):
        for some in combinations(names, size):
            values = prod(count[name] for name in some)
            if values > _MOST_LISTED or (best is not None and values >= best[0]):
                continue
            if len(some) + len(solving_order(some, equations)) == len(names):
                best = (values, some)
    return None if best is None else best[1]


def _follow(
    tied: TiedColumns, made: dict[str, npt.NDArray[np.int64]], equations: Sequence[Equation]
) -> tuple[Index, npt.NDArray[np.int64]]:
    """Compute all columns from some, and return codes and values of the records that obey."""
    rows = len(next(iter(made.values())))
    everyone, fits = np.arange(rows, dtype=np.intp), np.ones(rows, dtype=bool)
    none = np.zeros(rows, dtype=bool)
    for equation in solving_order(made, equations):
        pieces = {
            name: Pieces(np.full(rows, -1), none, none, made[name], made[name]) for name in equation.sources
        }
        if equation.value is not None:
            made[equation.target] = equation.value.whole(View(pieces, dict.fromkeys(pieces, everyone)))
        else:
            assert equation.part is not None
            numbers = equation.part.numbers(pieces[equation.part.column])
            table = np.full(max(int(numbers.max(initial=0)), *equation.numbers, 0) + 1, -1, dtype=np.int64)
            for code, number in enumerate(equation.numbers):
                if number >= 0:
                    table[number] = code
            made[equation.target] = table[numbers]
    codes: dict[str, Index] = {}
    for column in tied.columns:
        found = made[column.name]
        if isinstance(column, Ordered):
            place = np.clip(np.searchsorted(column.cells.low, found, side="right") - 1, 0, None)
            fits &= (found >= column.cells.low[place]) & (found <= column.cells.high[place])
            codes[column.name] = place.astype(np.intp)
        else:
            fits &= (found >= 0) & (found < column.value_count)
            codes[column.name] = np.clip(found, 0, column.value_count - 1).astype(np.intp)
    kept = np.flatnonzero(fits)
    codes = {name: part[kept] for name, part in codes.items()}
    values = {column.name: made[column.name][kept] for column in tied.ordered}
    obey = tied.obey(codes, {name: part.astype(np.float64) for name, part in values.items()})
    listed = np.stack([codes[column.name][obey] for column in tied.columns], axis=1)
    behind = [part[obey] for part in values.values()]
    return listed, np.stack(behind, axis=1) if behind else np.zeros((len(listed), 0), np.int64)
