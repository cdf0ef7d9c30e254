"""Values that obey rules together: one value in the bin of each column, for the columns that rules tie to each other.

A code stands for a bin, and two values drawn in their bins may break ``check_out >= check_in`` although others in the
same bins obey it. Values are therefore drawn again, together, where they break a rule: first by chance, which keeps the
law of the draw given that the rules hold, and then by solving for them.

Rules that say what a column is (``nights == departure - arrival``, ``month == month_of(arrival)``) are not searched: every value of the
columns that decide the others is gone through once, and the combinations of codes behind them are listed (`Listing`). A record obeys if its
codes are in the list, and its values are taken from there. Where that list would be too long, because of a column that is only compared
with others (``booked <= arrival``), each set of columns that such rules tie has a list of its own (`JointValues.listed`), and the solver
looks for values of the other columns given those of the lists.

The solver is for all other rules. It is exact for *difference rules*, in which every comparison is of the form ``x - y <= c`` or ``x <= c`` with whole
numbers and dates (also behind ``and``, ``or``, ``not`` and ``implies``, and with calendar functions of dates). Their bounds
are closed under addition (Floyd and Warshall), after which every value between the bounds of one column can be completed by
values of the others; a negative circle says that there are none. Other arithmetic, and rules with more than a thousand alternatives
together (every ``or`` and ``!=`` makes two of one), are searched by chance from a fixed seed. In any
case a record passes only if values were *found*: what is published obeys, and codes without such values are not drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.errors import ConstraintError
from understudy.schema.columns.column import Column
from understudy.schema.columns.date import Date
from understudy.schema.columns.numeric import Ordered
from understudy.schema.constraints.alternatives import Atom, Bound, Decided, Hard, all_of, alternatives_of
from understudy.schema.constraints.conditions import (
    TRUE,
    UNKNOWN,
    AnyOf,
    Check,
    Factor,
    NamedPart,
    Not,
    Part,
    Pieces,
    Relation,
    Same,
    Threshold,
    View,
    pieces_of_codes,
    pieces_of_raw,
)
from understudy.schema.constraints.constraint import Constraint
from understudy.schema.constraints.listing import Equation, Listing, equations_of, find_sorted, solving_order

__all__ = ["JointValues", "SearchEffort", "effort_counted", "joint_values"]

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Index: TypeAlias = npt.NDArray[np.intp]
Redraw: TypeAlias = Callable[[Column, Index, np.random.Generator], Any]

_MOST_STEPS = 4_096
_TRIES = 24
_SEARCHES = 64
_FEW = 4
"""How many values of a list are tried where the search goes through many others for each of them."""
_MOST_CORNERS = 6
_ROWS = 20_000
_MOST_LISTED = 1 << 21
"""Most combinations of values that are gone through for a list."""
_LISTED_AT_ONCE = 1 << 18
_MOST_REMEMBERED = 1 << 21
_SLACK = 2.0**-40
_DRAWN_BY_CHANCE = ("uniform", "integer-uniform", "smooth")


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


def joint_values(
    constraints: Sequence[Constraint], columns: Sequence[Column], *, all_groups: bool = False
) -> tuple[JointValues, ...]:
    """Return the groups of columns whose values must be drawn together: tied by rules, and with bins of several values.

    ``all_groups`` also returns those in which every code stands for one value.
    """
    groups: list[tuple[set[str], list[Constraint]]] = []
    for rule in constraints:
        if rule.straddle != "values":
            continue
        mine: tuple[set[str], list[Constraint]] = (set(rule.columns), [rule])
        apart = []
        for group in groups:
            if group[0] & mine[0]:
                mine = (group[0] | mine[0], [*group[1], *mine[1]])
            else:
                apart.append(group)
        groups = [*apart, mine]
    made = []
    for names, rules in groups:
        over = tuple(column for column in columns if column.name in names)
        if all_groups or any(isinstance(column, Ordered) and _has_bins(column) for column in over):
            made.append(JointValues(over, tuple(rules)))
    return tuple(made)


def _has_bins(column: Ordered) -> bool:
    return bool((column.cells.low != column.cells.high).any())


@dataclass(frozen=True, eq=False)
class JointValues:
    """Values of some columns that obey some rules together.

    Parameters
    ----------
    columns
        The columns of the rules, in the order of the schema.
    rules
        The rules; together they tie all of the columns to each other.
    """

    columns: tuple[Column, ...]
    rules: tuple[Constraint, ...]

    @cached_property
    def alternatives(self) -> list[tuple[Atom, ...]]:
        """Lists of comparisons; a record obeys all rules if it obeys all comparisons of one list."""
        conditions = [rule.condition for rule in self.rules]
        return all_of([alternatives_of(part) for part in conditions if part is not None])

    @cached_property
    def ordered(self) -> tuple[Ordered, ...]:
        """The columns of numbers and dates; whole numbers come first, so that real ones can adapt to them."""
        found = [column for column in self.columns if isinstance(column, Ordered)]
        return tuple(sorted(found, key=lambda column: not column.cells.whole))

    @cached_property
    def _codes(self) -> dict[str, Pieces]:
        return {column.name: pieces_of_codes(column, ()) for column in self.columns}

    def _values(self, name: str, codes: Index) -> Index:
        """Return a value behind each code, or -1; values that share a code are alike to every rule."""
        pieces = self._codes[name]
        return pieces.code[_start(pieces)[codes]]

    @cached_property
    def _drawn(self) -> dict[str, Ordered]:
        """The columns as they are drawn by chance, whatever rule they decode by."""
        return {
            column.name: column
            if column.decode_by in _DRAWN_BY_CHANCE
            else replace(
                column,
                decode_by="uniform",
                missing=False,
                missing_values=(),
                missing_text="",
                out_of_domain="refuse",
            )
            for column in self.ordered
        }

    # -- codes ---------------------------------------------------------------------------------

    def possible(self, codes: Mapping[str, npt.ArrayLike]) -> Bools:
        """Tell for which records values were found that obey all rules, each in the bin of its code."""
        index = {column.name: np.asarray(codes[column.name]).astype(np.intp) for column in self.columns}
        holds = np.ones(len(index[self.columns[0].name]), dtype=bool)
        for rows, groups in self.by_absence(index):
            for group in groups:
                holds[rows] &= group._possible(
                    {column.name: index[column.name][rows] for column in group.columns}
                )
        return holds

    def _possible(self, codes: Mapping[str, Index]) -> Bools:
        """Tell the same without a look at entries that are missing; each combination of codes is solved once."""
        if self.listing is not None and self.present(codes).all():
            return self.listing.find(codes)[1]
        found, places = self._distinct(codes)
        keys = self._key([found[column.name] for column in self.columns])
        if keys is None:
            return self._witness(found)[1][places]
        known, answers = vars(self).setdefault(
            "_remembered", (np.zeros(0, np.int64), np.zeros(0, dtype=bool))
        )
        place, old = find_sorted(known, keys)
        holds = old.copy()
        holds[old] = answers[place[old]]
        new = np.flatnonzero(~old)
        if len(new):
            holds[new] = self._witness({name: part[new] for name, part in found.items()})[1]
            if len(known) + len(new) <= _MOST_REMEMBERED:
                joined = np.concatenate([known, keys[new]])
                order = np.argsort(joined, kind="stable")
                vars(self)["_remembered"] = (joined[order], np.concatenate([answers, holds[new]])[order])
        return holds[places]

    def present(self, codes: Mapping[str, Index]) -> Bools:
        """Tell which records have a value in every column."""
        present = [codes[column.name] < column.value_count for column in self.columns]
        return np.asarray(np.logical_and.reduce(present))

    def by_absence(self, codes: Mapping[str, Index]) -> list[tuple[Index, tuple[JointValues, ...]]]:
        """Return records by which of their entries are missing, with the groups that the rules on the others leave.

        A comparison with a missing entry, or with one outside the domain, is not false. So rules that are comparisons of such a
        column say nothing about the others, which may fall apart.
        """
        pattern = np.zeros(len(codes[self.columns[0].name]), dtype=np.int64)
        if not len(pattern):
            return []
        if len(self.columns) > 62:
            return [(np.arange(len(pattern)), (self,))]
        for place, column in enumerate(self.columns):
            pattern |= (codes[column.name] >= column.value_count).astype(np.int64) << place
        kinds, which = np.unique(pattern, return_inverse=True)
        order = np.argsort(which.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(which.reshape(-1), minlength=len(kinds)))
        return [
            (np.sort(rows), self._without(int(kind)))
            for kind, rows in zip(kinds, np.split(order, ends[:-1]), strict=True)
        ]

    def _without(self, pattern: int) -> tuple[JointValues, ...]:
        """Return the groups of columns that are left where some columns are missing; this one where rules speak of missing entries."""
        known: dict[int, tuple[JointValues, ...]] = vars(self).setdefault("_groups", {0: (self,)})
        if pattern not in known:
            absent = {column.name for place, column in enumerate(self.columns) if pattern >> place & 1}
            silent = [rule for rule in self.rules if absent & set(rule.columns)]
            if all(_only_compares(rule.condition) for rule in silent):
                left = [rule for rule in self.rules if rule not in silent]
                known[pattern] = joint_values(left, self.columns, all_groups=True)
            else:
                known[pattern] = (self,)
        return known[pattern]

    @cached_property
    def listing(self) -> Listing | None:
        """The list of what the rules leave, if they say what some of the columns are and it is not too long."""
        by_name = self._by_name
        if len(self.columns) > 12 or prod(column.size for column in self.columns) >= 2**62:
            return None
        if not all(_is_listed(column) for column in self.ordered):
            return None
        equations = [found for rule in self.rules for found in _usable_equations(rule, by_name)]
        free = self._free(equations)
        if free is None:
            return None
        grid = {name: self._all_values(name) for name in free}
        shape = [len(part) for part in grid.values()]
        codes: list[Index] = []
        values: list[npt.NDArray[np.int64]] = []
        for start in range(0, prod(shape), _LISTED_AT_ONCE):
            flat = np.arange(start, min(start + _LISTED_AT_ONCE, prod(shape)))
            places = np.unravel_index(flat, shape)
            made = {name: part[place] for (name, part), place in zip(grid.items(), places, strict=True)}
            some_codes, some_values = self._follow(made, equations)
            codes.append(some_codes)
            values.append(some_values)
        every, behind = np.concatenate(codes), np.concatenate(values)
        sizes = {column.name: column.size for column in self.columns}
        key = np.zeros(len(every), dtype=np.int64)
        for axis, size in enumerate(sizes.values()):
            key = key * size + every[:, axis]
        order = np.argsort(key, kind="stable")
        _, first = np.unique(key[order], return_index=True)
        return Listing(
            sizes,
            every[order][first],
            np.append(first, len(order)).astype(np.intp),
            {column.name: behind[order, axis] for axis, column in enumerate(self.ordered)},
            {column.name: column.value_count for column in self.columns},
        )

    @cached_property
    def listed(self) -> tuple[JointValues, ...]:
        """The groups that have a list: this one or, where its list would be too long, each set of its columns that equations tie."""
        if self.listing is not None:
            return (self,)
        equal = [rule for rule in self.rules if _usable_equations(rule, self._by_name)]
        found = []
        for tied in joint_values(equal, self.columns, all_groups=True):
            names = {column.name for column in tied.columns}
            rules = tuple(rule for rule in self.rules if names.issuperset(rule.columns))
            group = JointValues(tied.columns, rules)
            if len(tied.columns) < len(self.columns) and group.listing is not None:
                found.append(group)
        return tuple(found)

    @cached_property
    def unlisted(self) -> tuple[Constraint, ...]:
        """The rules that no list keeps."""
        kept = {id(rule) for group in self.listed for rule in group.rules}
        return tuple(rule for rule in self.rules if id(rule) not in kept)

    @cached_property
    def _links(self) -> list[tuple[Atom, ...]]:
        """The alternatives of the rules that no list keeps."""
        conditions = [rule.condition for rule in self.unlisted]
        return all_of([alternatives_of(part) for part in conditions if part is not None])

    def _places(self, codes: Mapping[str, Index]) -> tuple[list[tuple[Listing, Index]], Bools]:
        """Return the lists, each with the place of every record in it, and which records have a place in all of them."""
        found, inside = [], np.ones(len(codes[self.columns[0].name]), dtype=bool)
        for group in self.listed:
            assert group.listing is not None
            place, here = group.listing.find(codes)
            found.append((group.listing, place))
            inside &= here
        return found, inside

    def _all_values(self, name: str) -> npt.NDArray[np.int64]:
        """Return every value of a column of whole numbers or dates, or every code of another."""
        column = self._by_name[name]
        if isinstance(column, Ordered):
            return np.arange(int(column.cells.low[0]), int(column.cells.high[-1]) + 1, dtype=np.int64)
        return np.arange(column.value_count, dtype=np.int64)

    def _free(self, equations: Sequence[Equation]) -> tuple[str, ...] | None:
        """Return the columns with the fewest values from which all others can be computed, if they are few enough."""
        names = [column.name for column in self.columns]
        count = {
            column.name: int(column.cells.high[-1]) - int(column.cells.low[0]) + 1
            if isinstance(column, Ordered)
            else column.value_count
            for column in self.columns
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
        self, made: dict[str, npt.NDArray[np.int64]], equations: Sequence[Equation]
    ) -> tuple[Index, npt.NDArray[np.int64]]:
        """Compute all columns from some, and return codes and values of the records that obey."""
        rows = len(next(iter(made.values())))
        everyone, fits = np.arange(rows, dtype=np.intp), np.ones(rows, dtype=bool)
        none = np.zeros(rows, dtype=bool)
        for equation in solving_order(made, equations):
            pieces = {
                name: Pieces(np.full(rows, -1), none, none, made[name], made[name])
                for name in equation.sources
            }
            if equation.value is not None:
                made[equation.target] = equation.value.whole(View(pieces, dict.fromkeys(pieces, everyone)))
            else:
                assert equation.part is not None
                numbers = equation.part.numbers(pieces[equation.part.column])
                table = np.full(
                    max(int(numbers.max(initial=0)), *equation.numbers, 0) + 1, -1, dtype=np.int64
                )
                for code, number in enumerate(equation.numbers):
                    if number >= 0:
                        table[number] = code
                made[equation.target] = table[numbers]
        codes: dict[str, Index] = {}
        for column in self.columns:
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
        values = {column.name: made[column.name][kept] for column in self.ordered}
        obey = self._obey(codes, {name: part.astype(np.float64) for name, part in values.items()})
        listed = np.stack([codes[column.name][obey] for column in self.columns], axis=1)
        behind = [part[obey] for part in values.values()]
        return listed, np.stack(behind, axis=1) if behind else np.zeros((len(listed), 0), np.int64)

    def _distinct(self, codes: Mapping[str, npt.ArrayLike]) -> tuple[dict[str, Index], Index]:
        """Return the different combinations of codes, and which one each record has."""
        arrays = [np.asarray(codes[column.name]).astype(np.int64) for column in self.columns]
        key = self._key(arrays)
        if key is not None:
            _, first, places = np.unique(key, return_index=True, return_inverse=True)
        else:
            _, first, places = np.unique(np.stack(arrays, 1), axis=0, return_index=True, return_inverse=True)
        distinct = {
            column.name: array[first].astype(np.intp)
            for column, array in zip(self.columns, arrays, strict=True)
        }
        return distinct, places.reshape(-1)

    def _key(self, arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64] | None:
        """Return one number for each combination of codes, where 64 bits hold it."""
        sizes = [column.size for column in self.columns]
        if prod(sizes) >= 2**62:
            return None
        key = np.zeros(len(arrays[0]), dtype=np.int64)
        for array, size in zip(arrays, sizes, strict=True):
            key = key * size + array
        return key

    def _witness(self, codes: Mapping[str, Index]) -> tuple[dict[str, Floats], Bools]:
        """Return obeying values for combinations of codes, and where there are any: a function of the codes alone."""
        middle = {
            column.name: column.cells.middle[np.minimum(codes[column.name], column.value_count - 1)].astype(
                np.float64
            )
            for column in self.ordered
        }
        if self.listed and self.listing is None and self.present(codes).all():
            return self._witness_of_lists(codes, middle)
        values, found = self._solve(codes, middle, None)
        if any(isinstance(atom, Hard) for option in self.alternatives for atom in option):
            for shares in self._places_to_try:
                rest = np.flatnonzero(~found)
                if not len(rest):
                    break
                some = {name: part[rest] for name, part in codes.items()}
                wanted = {
                    column.name: _at(column, some[column.name], share)
                    for column, share in zip(self.ordered, shares, strict=True)
                }
                more, hit = self._solve(some, wanted, None)
                self._take(values, rest[hit], more, hit)
                found[rest[hit]] = True
        return values, found

    def _witness_of_lists(
        self, codes: Mapping[str, Index], middle: dict[str, Floats]
    ) -> tuple[dict[str, Floats], Bools]:
        """Return the same by values of the lists, and what the solver finds for the other columns given them."""
        lists, inside = self._places(codes)
        values, found = middle, np.zeros(len(inside), dtype=bool)
        if not inside.any():
            return values, found
        choices = np.prod([listing.count(place).astype(np.float64) for listing, place in lists], axis=0)
        several = choices > 1
        hard = any(isinstance(atom, Hard) for option in self._links for atom in option)
        corners = list(product((0.0, 1.0), repeat=len(lists))) if len(lists) <= _MOST_CORNERS else []
        many = _FEW if hard else _SEARCHES
        spread = np.linspace(0.0, 1.0, many)[:, None]
        if len(lists) > 1:
            spread = np.random.default_rng(0).random((many, len(lists)))
        for number, shares in enumerate([*corners, *spread.tolist()]):
            for places in [None, *(self._places_to_try if hard else ())]:
                rest = np.flatnonzero(inside & ~found & (several if number else True))
                if not len(rest):
                    break
                some = {name: part[rest] for name, part in codes.items()}
                pinned: dict[str, Floats] = {}
                for (listing, place), share in zip(lists, shares, strict=True):
                    pinned |= _real(listing.at(place[rest], np.full(len(rest), share)))
                wanted = {
                    column.name: middle[column.name][rest]
                    if places is None
                    else _at(column, some[column.name], places[axis])
                    for axis, column in enumerate(self.ordered)
                }
                solved, hit = self._solve(some, wanted, None, pinned)
                self._take(values, rest[hit], solved, hit)
                found[rest[hit]] = True
        if any(isinstance(atom, Hard) for option in self.alternatives for atom in option):
            return values, found
        rest = np.flatnonzero(inside & ~found & several & ((len(lists) > 1) | (choices > many)))
        if len(rest):  # not all values of the lists were tried, and the solver is exact
            part = {name: codes[name][rest] for name in codes}
            solved, hit = self._solve(part, {name: near[rest] for name, near in middle.items()}, None)
            self._take(values, rest[hit], solved, hit)
            found[rest[hit]] = True
        return values, found

    @cached_property
    def _places_to_try(self) -> list[tuple[float, ...]]:
        """Where in their bins values are looked for, the same for every record: corners, and places chosen once by chance."""
        sides = len(self.ordered)
        corners = list(product((0.0, 1.0), repeat=sides)) if sides <= _MOST_CORNERS else []
        chance = np.random.default_rng(0).random((_SEARCHES, sides))
        return [*corners, *map(tuple, chance.tolist())]

    # -- values --------------------------------------------------------------------------------

    def settle(
        self,
        codes: Mapping[str, npt.ArrayLike],
        decoded: dict[str, Any],
        generator: np.random.Generator,
        redraw: Redraw | None = None,
    ) -> None:
        """Change decoded values in place, each inside the bin of its code, until the rules hold.

        Records whose codes leave no such values keep what they have.

        Parameters
        ----------
        codes
            Codes of every column.
        decoded
            Values of every column, as the columns decode them.
        generator
            For values that are drawn again.
        redraw
            How a column decodes codes by chance; by its own rule if not given.
        """
        index = {column.name: column.check_codes(codes[column.name]) for column in self.columns}
        if not len(index[self.columns[0].name]):
            return
        hidden = [column for column in self.ordered if column.decode_by == "label"]
        numbers = self._by_chance(index, generator, redraw, only=hidden)
        for column in self.ordered:
            if column not in hidden:
                low = pieces_of_raw(column, decoded[column.name]).low
                assert low is not None
                numbers[column.name] = low.astype(np.float64)
        before = {name: part.copy() for name, part in numbers.items()}
        bad = np.flatnonzero(~self._obey(index, numbers))
        for rows, groups in self.by_absence({name: part[bad] for name, part in index.items()}):
            for group in groups:
                here = bad[rows]
                some = {column.name: index[column.name][here] for column in group.columns}
                mended = {column.name: numbers[column.name][here] for column in group.ordered}
                group._mend(some, mended, generator, redraw)
                for name, part in mended.items():
                    numbers[name][here] = part
        for column in self.ordered:
            if column not in hidden:
                inside = index[column.name] < column.value_count
                moved = np.flatnonzero((numbers[column.name] != before[column.name]) & inside)
                if len(moved):
                    decoded[column.name] = _put(
                        column, decoded[column.name], moved, numbers[column.name][moved]
                    )

    def _mend(
        self,
        index: Mapping[str, Index],
        numbers: dict[str, Floats],
        generator: np.random.Generator,
        redraw: Redraw | None,
    ) -> None:
        """Change numbers in place until the rules hold."""
        bad = np.flatnonzero(~self._obey(index, numbers))
        listing = self.listing if self.present(index).all() else None
        places, listed = np.zeros(0, np.intp), np.zeros(0, dtype=bool)
        if listing is not None and not len(listing):
            return
        if listing is not None:
            places, listed = listing.find(index)
            only = np.flatnonzero(listed & (np.diff(listing.first)[places] == 1))  # nothing is left to chance
            only = np.intersect1d(only, bad, assume_unique=True)
            self._take(
                numbers, only, _real(listing.draw(places[only], generator)), np.ones(len(only), dtype=bool)
            )
            bad = np.setdiff1d(bad, only, assume_unique=True)
        lists: list[tuple[Listing, Index]] = []
        if self.listed and listing is None and self.present(index).all():
            lists, inside = self._places(index)
            bad = bad[inside[bad]]
        for _ in range(_TRIES):
            if not len(bad):
                break
            some = {name: part[bad] for name, part in index.items()}
            drawn = self._by_chance(some, generator, redraw)
            for part, place in lists:
                only = np.flatnonzero(part.count(place[bad]) == 1)
                for name, chosen in part.draw(place[bad[only]], generator).items():
                    drawn[name][only] = chosen
            good = self._obey(some, drawn)
            self._take(numbers, bad[good], drawn, good)
            bad = bad[~good]
        if listing is not None:
            bad = bad[listed[bad]]
            self._take(
                numbers, bad, _real(listing.draw(places[bad], generator)), np.ones(len(bad), dtype=bool)
            )
            return
        for _ in range(_TRIES if lists else 0):
            if not len(bad):
                break
            some = {name: part[bad] for name, part in index.items()}
            pinned: dict[str, Floats] = {}
            for part, place in lists:
                pinned |= _real(part.draw(place[bad], generator))
            near = {name: part[bad] for name, part in numbers.items()}
            solved, good = self._solve(some, near, generator, pinned)
            self._take(numbers, bad[good], solved, good)
            bad = bad[~good]
        for random in (None,) if lists else (generator, None):
            if not len(bad):
                break
            some = {name: part[bad] for name, part in index.items()}
            if random is not None:
                solved, good = self._solve(some, {name: part[bad] for name, part in numbers.items()}, random)
            else:
                distinct, where = self._distinct(some)
                found, possible = self._witness(distinct)
                solved, good = {name: part[where] for name, part in found.items()}, possible[where]
            self._take(numbers, bad[good], solved, good)
            bad = bad[~good]

    @staticmethod
    def _take(numbers: dict[str, Floats], rows: Index, drawn: Mapping[str, Floats], good: Bools) -> None:
        for name, part in drawn.items():
            numbers[name][rows] = part[good]

    def _by_chance(
        self,
        codes: Mapping[str, Index],
        generator: np.random.Generator,
        redraw: Redraw | None,
        only: Sequence[Ordered] | None = None,
    ) -> dict[str, Floats]:
        """Draw a value in the bin of each code."""
        drawn = {}
        for column in self.ordered if only is None else only:
            inside = np.minimum(codes[column.name], column.value_count - 1)
            way = self._drawn[column.name]
            values = way.decode(inside, generator) if redraw is None else redraw(way, inside, generator)
            low = pieces_of_raw(way, values).low
            assert low is not None
            drawn[column.name] = low.astype(np.float64)
        return drawn

    def _obey(self, codes: Mapping[str, Index], numbers: Mapping[str, Floats]) -> Bools:
        """Tell which records obey every rule with these values, as `Constraint.holds_raw` would."""
        rows = np.arange(len(codes[self.columns[0].name]), dtype=np.intp)
        pieces, unfit = {}, np.zeros(len(rows), dtype=bool)
        for column in self.columns:
            code = codes[column.name]
            missing = code == (-1 if column.missing_code is None else column.missing_code)
            other = code == (-1 if column.other_code is None else column.other_code)
            own = self._values(column.name, code)
            if isinstance(column, Ordered):
                number: npt.NDArray[Any] = numbers[column.name]
                if column.cells.whole:
                    number = number.astype(np.int64)
                if column.missing_numbers:  # a value that reads as missing is none
                    unfit |= np.isin(number, column.missing_numbers) & (own >= 0)
                pieces[column.name] = Pieces(own, missing, other, number, number)
            else:
                pieces[column.name] = Pieces(own, missing, other)
        view = View(pieces, dict.fromkeys(pieces, rows))
        for rule in self.rules:
            assert rule.condition is not None
            unfit |= (np.broadcast_to(rule.condition.answers(view), rows.shape) & (TRUE | UNKNOWN)) == 0
        return ~unfit

    # -- solving -------------------------------------------------------------------------------

    def _solve(
        self,
        codes: Mapping[str, Index],
        wanted: Mapping[str, Floats],
        generator: np.random.Generator | None,
        pinned: Mapping[str, Floats] | None = None,
    ) -> tuple[dict[str, Floats], Bools]:
        """Return obeying values near the wanted ones (or drawn, with a generator), and where there are any.

        With values of the columns that have lists, ``pinned``, only the rules that no list keeps are left to solve.
        """
        rows = len(codes[self.columns[0].name])
        pinned = {} if pinned is None else pinned
        values = {name: pinned.get(name, part).copy() for name, part in wanted.items()}
        found = np.zeros(rows, dtype=bool)
        for option in self._links if pinned else self.alternatives:
            rest = np.flatnonzero(~found)
            rest = rest[self._decided(option, {name: part[rest] for name, part in codes.items()})]
            for start in range(0, len(rest), _ROWS):
                here = rest[start : start + _ROWS]
                self._solve_option(option, codes, values, found, here, generator, frozenset(pinned))
        return values, found

    def _decided(self, option: tuple[Atom, ...], codes: Mapping[str, Index]) -> Bools:
        """Tell for which records every comparison of an option that codes decide is not false."""
        holds = np.ones(len(codes[self.columns[0].name]), dtype=bool)
        for atom in option:
            if isinstance(atom, Decided):
                index = {
                    name: self._codes[name].start[part]  # type: ignore[index]
                    for name, part in codes.items()
                }
                condition = Not(atom.condition) if atom.negated else atom.condition
                answers = np.broadcast_to(condition.answers(View(self._codes, index)), holds.shape)
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
                self._by_name[name], (), sorted({part.function for part in parts if part.column == name})
            )
            for name in dates
        }
        first = {name: _start(cut[name])[codes[name]] for name in dates}
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
            feasible &= self._obey(some, solved)
            self._take(values, here[feasible], solved, feasible)
            found[here[feasible]] = True

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

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
        ordered = [column for column in self.ordered if not pinned or column.name in bounded]
        nodes: list[Factor | None] = [None, *(column.name for column in ordered), *parts]
        place = {node: number for number, node in enumerate(nodes)}
        rows, size = len(codes[self.columns[0].name]), len(nodes)
        whole = np.array([True, *(column.cells.whole for column in ordered), *(True for _ in parts)])
        effort = _effort.get()
        if effort is not None:
            effort.add(self.unlisted, rows * size**3)
        both_whole = whole[:, None] & whole[None, :]
        most = np.full((rows, size, size), np.inf)
        most[:, range(size), range(size)] = 0.0
        real = {column.name: codes[column.name] < column.value_count for column in self.columns}
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
                limit = limit + direction * np.array([*table, 0])[self._values(name, codes[name])]
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
        solved = {column.name: solved.get(column.name, wanted[column.name]) for column in self.ordered}
        return {name: np.nan_to_num(part) for name, part in solved.items()}, feasible

    def _step(self, atom: Bound) -> float:
        """Return the distance between neighbouring values of the columns of a bound that have decimals."""
        stated = [getattr(self._by_name[name], "decimals", None) for name in atom.columns]
        return max((10.0**-count for count in stated if count is not None), default=0.0)


def _real(values: Mapping[str, npt.NDArray[np.int64]]) -> dict[str, Floats]:
    return {name: part.astype(np.float64) for name, part in values.items()}


def _usable_equations(rule: Constraint, by_name: Mapping[str, Column]) -> list[Equation]:
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


def _only_compares(condition: Check | None) -> bool:
    """Whether a rule is a comparison, or says that one of some holds: then it is not false where an entry is missing."""
    if isinstance(condition, Not):
        return isinstance(condition.part, Relation | Threshold | NamedPart | Same)
    if isinstance(condition, AnyOf):
        return all(isinstance(part, Relation | Threshold | NamedPart | Same) for part in condition.parts)
    return isinstance(condition, Relation | Threshold | NamedPart | Same)


def _start(pieces: Pieces) -> Index:
    assert pieces.start is not None
    return pieces.start


def _count(pieces: Pieces) -> Index:
    return np.diff(np.append(_start(pieces), len(pieces)))


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


def _at(column: Ordered, codes: Index, share: float) -> Floats:
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


def _put(column: Ordered, values: Any, rows: Index, numbers: Floats) -> Any:
    """Write numbers into decoded values, in the type they have."""
    changed = values.copy()
    new: npt.NDArray[Any] = numbers
    if isinstance(column, Date):
        new = numbers.astype(np.int64).astype("datetime64[D]").astype("datetime64[s]")
    elif column.cells.whole:
        new = numbers.astype(np.int64)
    changed[rows] = new.astype(object) if changed.dtype.kind == "O" else new
    return changed
