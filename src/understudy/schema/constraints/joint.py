"""Values that obey rules together: one value in the bin of each column, for the columns that rules tie to each other.

A code stands for a bin, and two values drawn in their bins may break ``check_out >= check_in`` although others in the
same bins obey it. Values are therefore drawn again, together, where they break a rule: first by chance, which keeps the
law of the draw given that the rules hold, and then by solving for them.

Rules that say what a column is (``nights == departure - arrival``, ``month == month_of(arrival)``) are not searched: every value of the
columns that decide the others is gone through once, and the combinations of codes behind them are listed (`Listing`). A record obeys if its
codes are in the list, and its values are taken from there. Where that list would be too long, because of a column that is only compared
with others (``booked <= arrival``), each set of columns that such rules tie has a list of its own (`JointValues.listed`), and the solver
looks for values of the other columns given those of the lists.

The solver is for all other rules (:mod:`understudy.schema.constraints.solving`). It is exact for differences of whole numbers and dates. Other
arithmetic, and rules with more than a thousand alternatives together (every ``or`` and ``!=`` makes two of one), are searched by chance from a fixed
seed. In any case a record passes only if values were *found*: what is published obeys, and codes without such values are not drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.schema.columns.column import Column
from understudy.schema.columns.date import Date
from understudy.schema.columns.numeric import Ordered
from understudy.schema.constraints.alternatives import Atom, Hard, all_of, alternatives_of
from understudy.schema.constraints.conditions import (
    AnyOf,
    Check,
    NamedPart,
    Not,
    Relation,
    Same,
    Threshold,
    pieces_of_raw,
)
from understudy.schema.constraints.constraint import Constraint
from understudy.schema.constraints.listing import Listing, find_sorted, listing_of, usable_equations
from understudy.schema.constraints.solving import Solver, value_at
from understudy.schema.constraints.tied import TiedColumns, take

__all__ = ["JointValues", "joint_values"]

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Index: TypeAlias = npt.NDArray[np.intp]
Redraw: TypeAlias = Callable[[Column, Index, np.random.Generator], Any]

_TRIES = 24
_SEARCHES = 64
_FEW = 4
"""How many values of a list are tried where the search goes through many others for each of them."""
_MOST_CORNERS = 6
_MOST_REMEMBERED = 1 << 21
_DRAWN_BY_CHANCE = ("uniform", "integer-uniform", "smooth")


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
class JointValues(TiedColumns):
    """Values of some columns that obey some rules together: which codes leave any, and how they are drawn.

    Parameters
    ----------
    columns
        The columns of the rules, in the order of the schema.
    rules
        The rules; together they tie all of the columns to each other.
    """

    @cached_property
    def alternatives(self) -> list[tuple[Atom, ...]]:
        """Lists of comparisons; a record obeys all rules if it obeys all comparisons of one list."""
        conditions = [rule.condition for rule in self.rules]
        return all_of([alternatives_of(part) for part in conditions if part is not None])

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
        return listing_of(self)

    @cached_property
    def listed(self) -> tuple[JointValues, ...]:
        """The groups that have a list: this one or, where its list would be too long, each set of its columns that equations tie."""
        if self.listing is not None:
            return (self,)
        equal = [rule for rule in self.rules if usable_equations(rule, self.by_name)]
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
    def _all(self) -> Solver:
        """Solves all rules."""
        return Solver(self, self.alternatives, self.unlisted)

    @cached_property
    def _rest(self) -> Solver:
        """Solves the rules that no list keeps, given values of the lists."""
        conditions = [rule.condition for rule in self.unlisted]
        options = all_of([alternatives_of(part) for part in conditions if part is not None])
        return Solver(self, options, self.unlisted)

    def _places(self, codes: Mapping[str, Index]) -> tuple[list[tuple[Listing, Index]], Bools]:
        """Return the lists, each with the place of every record in it, and which records have a place in all of them."""
        found, inside = [], np.ones(len(codes[self.columns[0].name]), dtype=bool)
        for group in self.listed:
            assert group.listing is not None
            place, here = group.listing.find(codes)
            found.append((group.listing, place))
            inside &= here
        return found, inside

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
                    column.name: value_at(column, some[column.name], share)
                    for column, share in zip(self.ordered, shares, strict=True)
                }
                more, hit = self._solve(some, wanted, None)
                take(values, rest[hit], more, hit)
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
        hard = any(isinstance(atom, Hard) for option in self._rest.options for atom in option)
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
                    else value_at(column, some[column.name], places[axis])
                    for axis, column in enumerate(self.ordered)
                }
                solved, hit = self._solve(some, wanted, None, pinned)
                take(values, rest[hit], solved, hit)
                found[rest[hit]] = True
        if any(isinstance(atom, Hard) for option in self.alternatives for atom in option):
            return values, found
        rest = np.flatnonzero(inside & ~found & several & ((len(lists) > 1) | (choices > many)))
        if len(rest):  # not all values of the lists were tried, and the solver is exact
            part = {name: codes[name][rest] for name in codes}
            solved, hit = self._solve(part, {name: near[rest] for name, near in middle.items()}, None)
            take(values, rest[hit], solved, hit)
            found[rest[hit]] = True
        return values, found

    @cached_property
    def _places_to_try(self) -> list[tuple[float, ...]]:
        """Where in their bins values are looked for, the same for every record: corners, and places chosen once by chance."""
        sides = len(self.ordered)
        corners = list(product((0.0, 1.0), repeat=sides)) if sides <= _MOST_CORNERS else []
        chance = np.random.default_rng(0).random((_SEARCHES, sides))
        return [*corners, *map(tuple, chance.tolist())]

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
        bad = np.flatnonzero(~self.obey(index, numbers))
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
        bad = np.flatnonzero(~self.obey(index, numbers))
        listing = self.listing if self.present(index).all() else None
        places, listed = np.zeros(0, np.intp), np.zeros(0, dtype=bool)
        if listing is not None and not len(listing):
            return
        if listing is not None:
            places, listed = listing.find(index)
            only = np.flatnonzero(listed & (np.diff(listing.first)[places] == 1))  # nothing is left to chance
            only = np.intersect1d(only, bad, assume_unique=True)
            take(numbers, only, _real(listing.draw(places[only], generator)), np.ones(len(only), dtype=bool))
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
            good = self.obey(some, drawn)
            take(numbers, bad[good], drawn, good)
            bad = bad[~good]
        if listing is not None:
            bad = bad[listed[bad]]
            take(numbers, bad, _real(listing.draw(places[bad], generator)), np.ones(len(bad), dtype=bool))
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
            take(numbers, bad[good], solved, good)
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
            take(numbers, bad[good], solved, good)
            bad = bad[~good]

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
        return (self._rest if pinned else self._all).solve(codes, wanted, generator, pinned or {})


def _real(values: Mapping[str, npt.NDArray[np.int64]]) -> dict[str, Floats]:
    return {name: part.astype(np.float64) for name, part in values.items()}


def _only_compares(condition: Check | None) -> bool:
    """Whether a rule is a comparison, or says that one of some holds: then it is not false where an entry is missing."""
    if isinstance(condition, Not):
        return isinstance(condition.part, Relation | Threshold | NamedPart | Same)
    if isinstance(condition, AnyOf):
        return all(isinstance(part, Relation | Threshold | NamedPart | Same) for part in condition.parts)
    return isinstance(condition, Relation | Threshold | NamedPart | Same)


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
