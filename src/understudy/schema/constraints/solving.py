"""Values near wanted ones that obey comparisons, found for each record by closing the bounds on differences.

The solver is exact for *difference rules*, in which every comparison is of the form ``x - y <= c`` or ``x <= c`` with whole
numbers and dates (also behind ``and``, ``or``, ``not`` and ``implies``, and with calendar functions of dates). Their bounds
are closed under addition (Floyd and Warshall), after which every value between the bounds of one column can be completed by
values of the others; a negative circle says that there are none. For other rules it is a search: values are *found*, or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.errors import ConstraintError
from understudy.schema.columns.numeric import Ordered
from understudy.schema.constraints.alternatives import Atom, Bound, Decided
from understudy.schema.constraints.conditions import (
    TRUE,
    UNKNOWN,
    Factor,
    Not,
    Part,
    Pieces,
    View,
    pieces_of_codes,
)
from understudy.schema.constraints.constraint import Constraint
from understudy.schema.constraints.tied import TiedColumns, first_pieces, take

__all__ = ["SearchEffort", "Solver", "effort_counted", "value_at"]

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Index: TypeAlias = npt.NDArray[np.intp]

_MOST_STEPS = 4_096
_ROWS = 20_000
_SLACK = 2.0**-40


@dataclass(frozen=True, eq=False)
class SearchEffort:
    """How much the solver did: cells of the tables of bounds that were closed, for each set of rules. A number that no clock decides.

    Parameters
    ----------
    most
        More than so many end the search with an error.
    """

    most: float
    cells: Counter[tuple[str, ...]] = field(default_factory=Counter)

    @property
    def spent(self) -> int:
        """The cells of all rules together."""
        return self.cells.total()

    def add(self, rules: Sequence[Constraint], cells: int) -> None:
        """Count cells, and refuse to go on beyond the limit."""
        self.cells[tuple(rule.text for rule in rules)] += cells
        if self.spent > self.most:
            raise self.too_long()

    def too_long(self) -> ConstraintError:
        """Return an error that names the rules that took most of the search."""
        ((rules, _),) = self.cells.most_common(1)
        return ConstraintError(
            f"Values that obey {', '.join(map(repr, rules))} together would take too long to find, so that rows could not be drawn. "
            "Leave out a rule that follows from the others or is not needed, derive a column (derived in the schema) instead of "
            "comparing it, or give the columns finer bins."
        )


_effort: ContextVar[SearchEffort | None] = ContextVar("effort", default=None)


@contextmanager
def effort_counted(most: float) -> Iterator[SearchEffort]:
    """Count what the solver does meanwhile, and raise `ConstraintError` beyond a limit."""
    effort = SearchEffort(most)
    token = _effort.set(effort)
    try:
        yield effort
    finally:
        _effort.reset(token)


@dataclass(frozen=True, eq=False)
class Solver:
    """Finds values of columns that are tied.

    Parameters
    ----------
    tied
        The columns, with all their rules: values that break one are not found.
    options
        Lists of comparisons; the values obey all comparisons of one list.
    counted
        The rules behind the comparisons, for which the effort is counted.
    """

    tied: TiedColumns
    options: Sequence[tuple[Atom, ...]]
    counted: tuple[Constraint, ...]

    def solve(
        self,
        codes: Mapping[str, Index],
        wanted: Mapping[str, Floats],
        generator: np.random.Generator | None,
        pinned: Mapping[str, Floats],
    ) -> tuple[dict[str, Floats], Bools]:
        """Return obeying values near the wanted ones (or drawn, with a generator), and where there are any; those of ``pinned`` stay."""
        rows = len(codes[self.tied.columns[0].name])
        values = {name: pinned.get(name, part).copy() for name, part in wanted.items()}
        found = np.zeros(rows, dtype=bool)
        for option in self.options:
            rest = np.flatnonzero(~found)
            rest = rest[self._decided(option, {name: part[rest] for name, part in codes.items()})]
            for start in range(0, len(rest), _ROWS):
                here = rest[start : start + _ROWS]
                self._solve_option(option, codes, values, found, here, generator, frozenset(pinned))
        return values, found

    def _decided(self, option: tuple[Atom, ...], codes: Mapping[str, Index]) -> Bools:
        """Tell for which records every comparison of an option that codes decide is not false."""
        holds = np.ones(len(codes[self.tied.columns[0].name]), dtype=bool)
        for atom in option:
            if isinstance(atom, Decided):
                index = {
                    name: self.tied.pieces[name].start[part]  # type: ignore[index]
                    for name, part in codes.items()
                }
                condition = Not(atom.condition) if atom.negated else atom.condition
                answers = np.broadcast_to(condition.answers(View(self.tied.pieces, index)), holds.shape)
                holds &= (answers & (TRUE | UNKNOWN)) != 0
        return holds

    def _solve_option(
        self,
        option: tuple[Atom, ...],
        codes: Mapping[str, Index],
        values: dict[str, Floats],
        found: Bools,
        rows: Index,
        generator: np.random.Generator | None,
        pinned: frozenset[str],
    ) -> None:
        bounds = [atom for atom in option if isinstance(atom, Bound)]
        parts = sorted(
            {side for atom in bounds for side in (atom.plus, atom.minus) if isinstance(side, Part)}, key=str
        )
        dates = sorted({part.column for part in parts})
        cut = {
            name: pieces_of_codes(
                self.tied.by_name[name], (), sorted({part.function for part in parts if part.column == name})
            )
            for name in dates
        }
        first = {name: first_pieces(cut[name])[codes[name]] for name in dates}
        many = {name: _count(cut[name])[codes[name]] for name in dates}
        for name in pinned & set(dates):  # the piece that the value lies in
            low = cut[name].low
            assert low is not None
            first[name] = np.searchsorted(low[cut[name].code >= 0], values[name], side="right") - 1
            many[name] = np.ones(len(first[name]), dtype=np.intp)
        most = [int(many[name][rows].max(initial=1)) for name in dates]
        if prod(most) > _MOST_STEPS:
            raise ConstraintError(
                f"The calendar functions in rules on columns {', '.join(map(repr, dates))} divide their bins into too "
                "many pieces. Use finer bins."
            )
        shift = {
            name: many[name] // 2
            if generator is None
            else (generator.random(len(many[name])) * many[name]).astype(np.intp)
            for name in dates
        }
        for steps in product(*map(range, most)):
            here = rows[~found[rows]]
            if not len(here):
                return
            chosen = {
                name: first[name][here] + (shift[name][here] + step) % many[name][here]
                for name, step in zip(dates, steps, strict=True)
            }
            some = {name: part[here] for name, part in codes.items()}
            close = {name: part[here] for name, part in values.items()}
            solved, feasible = self._differences(bounds, parts, cut, chosen, some, close, generator, pinned)
            feasible &= self.tied.obey(some, solved)
            take(values, here[feasible], solved, feasible)
            found[here[feasible]] = True

    def _differences(
        self,
        bounds: Sequence[Bound],
        parts: Sequence[Part],
        cut: Mapping[str, Pieces],
        chosen: Mapping[str, Index],
        codes: Mapping[str, Index],
        wanted: Mapping[str, Floats],
        generator: np.random.Generator | None,
        pinned: frozenset[str],
    ) -> tuple[dict[str, Floats], Bools]:
        """Solve bounds on differences for each record: close them, then choose one column after another."""
        bounded = set().union(*(atom.columns for atom in bounds))
        ordered = [column for column in self.tied.ordered if not pinned or column.name in bounded]
        nodes: list[Factor | None] = [None, *(column.name for column in ordered), *parts]
        place = {node: number for number, node in enumerate(nodes)}
        rows, size = len(codes[self.tied.columns[0].name]), len(nodes)
        whole = np.array([True, *(column.cells.whole for column in ordered), *(True for _ in parts)])
        effort = _effort.get()
        if effort is not None:
            effort.add(self.counted, rows * size**3)
        both_whole = whole[:, None] & whole[None, :]
        most = np.full((rows, size, size), np.inf)
        most[:, range(size), range(size)] = 0.0
        real = {column.name: codes[column.name] < column.value_count for column in self.tied.columns}
        for column in ordered:
            low, high = _ends(column, codes[column.name])
            if column.name in pinned:
                low = high = wanted[column.name]
            elif column.name in chosen:
                piece = cut[column.name]
                assert piece.low is not None
                assert piece.high is not None
                inside = real[column.name]
                low = np.where(inside, piece.low[chosen[column.name]], low)
                high = np.where(inside, piece.high[chosen[column.name]], high)
            number = place[column.name]
            most[:, number, 0], most[:, 0, number] = high, -low
        for part in parts:
            numbers = part.numbers(cut[part.column])[chosen[part.column]].astype(np.float64)
            most[:, place[part], 0], most[:, 0, place[part]] = numbers, -numbers
        for atom in bounds:
            active = np.logical_and.reduce([real[name] for name in sorted(atom.columns)])
            limit: Any = np.full(rows, atom.limit)
            if atom.named is not None:
                name, table, direction = atom.named
                limit = limit + direction * np.array([*table, 0])[self.tied.values_behind(name, codes[name])]
            a, b = place[atom.plus], place[atom.minus]
            if both_whole[a, b]:
                limit = np.ceil(limit) - 1 if atom.strict else np.floor(limit)
            elif atom.strict:
                limit = limit - np.maximum(np.abs(limit), 1.0) * max(_SLACK, self._step(atom))
            most[:, a, b] = np.where(active, np.minimum(most[:, a, b], limit), most[:, a, b])
        for _ in range(1 if whole.all() else 2):
            for middle in range(size):
                np.minimum(most, most[:, :, middle, None] + most[:, None, middle, :], out=most)
            most[:, both_whole] = np.floor(most[:, both_whole])
        feasible: Bools = np.asarray((most[:, range(size), range(size)] >= 0).all(axis=1))
        solved: dict[str, Floats] = {}
        for column in ordered:
            number = place[column.name]
            low, high = -most[:, 0, number], most[:, number, 0].copy()
            for other, value in solved.items():
                low = np.maximum(low, value - most[:, place[other], number])
                high = np.minimum(high, value + most[:, number, place[other]])
            chosen_values = _between(column, low, high, wanted[column.name], generator)
            inside = real[column.name]
            solved[column.name] = np.where(inside, chosen_values, wanted[column.name])
            feasible &= (low <= high) | ~inside
        solved = {column.name: solved.get(column.name, wanted[column.name]) for column in self.tied.ordered}
        return {name: np.nan_to_num(part) for name, part in solved.items()}, feasible

    def _step(self, atom: Bound) -> float:
        """Return the distance between neighbouring values of the columns of a bound that have decimals."""
        stated = [getattr(self.tied.by_name[name], "decimals", None) for name in atom.columns]
        return max((10.0**-count for count in stated if count is not None), default=0.0)


def _count(pieces: Pieces) -> Index:
    return np.diff(np.append(first_pieces(pieces), len(pieces)))


def _ends(column: Ordered, codes: Index) -> tuple[Floats, Floats]:
    """Return the ends of the bin of each code; infinite where it is open or there is none."""
    cells = column.cells
    inside = codes < column.value_count
    safe = np.where(inside, codes, 0)
    low, high = cells.low[safe].astype(np.float64), cells.high[safe].astype(np.float64)
    if cells.open_low:
        low[safe == 0] = -np.inf
    if cells.open_high:
        high[safe == len(cells) - 1] = np.inf
    return np.where(inside, low, -np.inf), np.where(inside, high, np.inf)


def value_at(column: Ordered, codes: Index, share: float) -> Floats:
    """Return the value at a share of the way through the bin of each code; an open bin gives its edge."""
    cells = column.cells
    safe = np.minimum(codes, column.value_count - 1)
    low, high = _ends(column, safe)
    edge = cells.edge[safe].astype(np.float64)
    low, high = np.where(np.isinf(low), edge, low), np.where(np.isinf(high), edge, high)
    place = low * (1 - share) + high * share
    return _between(column, low, high, place, None)


def _between(
    column: Ordered, low: Floats, high: Floats, wanted: Floats, generator: np.random.Generator | None
) -> Floats:
    """Return the wanted value where it lies between the bounds, and otherwise one that does, on the column's grid."""
    decimals = 0 if column.cells.whole else getattr(column, "decimals", None)
    if generator is None:
        nearest = np.clip(wanted, low, high)
    else:
        share = generator.random(len(low))
        with np.errstate(invalid="ignore"):
            drawn = low * (1 - share) + high * share
            if decimals is not None:
                step = 10.0**-decimals
                drawn = np.minimum(low + np.floor(share * ((high - low) / step + 1)) * step, high)
        drawn = np.where(np.isinf(high) | np.isinf(low), np.clip(wanted, low, high), drawn)
        nearest = np.where((wanted >= low) & (wanted <= high), wanted, drawn)
    if decimals is None:
        return nearest
    scale = 10.0**decimals
    with np.errstate(invalid="ignore"):
        least, largest = np.ceil(np.round(low * scale, 6)), np.floor(np.round(high * scale, 6))
        return np.clip(np.rint(nearest * scale), least, largest) / scale
