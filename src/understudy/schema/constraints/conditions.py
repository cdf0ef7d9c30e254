"""Checked conditions: what remains of a constraint once its columns and types are known.

Every condition answers for arrays of pieces at once (see `logic` for what an answer is).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.schema.coding.calendar import calendar_number, read_days
from understudy.schema.coding.cells import INT_MAX, INT_MIN, MISSING, Cells
from understudy.schema.coding.reading import MISSING_TEXT, as_series, distinct_entries, read_numbers, real_of
from understudy.schema.columns.column import Column
from understudy.schema.columns.date import Date
from understudy.schema.columns.numeric import Ordered
from understudy.schema.constraints.syntax import ComparisonSign

# ----------------------------------------------------------------------------------------
# What a constraint says about a set of possible records.
#
# One record answers a condition with *true*, *false*, or *unknown* (when it compares a missing entry),
# combined by Kleene's rules. A code stands for many possible records, so a condition answers with the *set* of
# answers its records can give, kept as three bits.

TRUE, UNKNOWN, FALSE = 1, 2, 4
ANY = TRUE | UNKNOWN | FALSE
Answers: TypeAlias = npt.NDArray[np.uint8]


def _table(combine: dict[tuple[int, int], int]) -> Answers:
    table = np.zeros((8, 8), dtype=np.uint8)
    for left in range(8):
        for right in range(8):
            for (a, b), answer in combine.items():
                if left & a and right & b:
                    table[left, right] |= answer
    return table


def _smaller(a: int, b: int) -> int:
    return max(a, b)  # FALSE has the highest bit, so it wins over UNKNOWN and TRUE


def _larger(a: int, b: int) -> int:
    return min(a, b)


_ANSWERS = (TRUE, UNKNOWN, FALSE)
_AND = _table({(a, b): _smaller(a, b) for a in _ANSWERS for b in _ANSWERS})
_OR = _table({(a, b): _larger(a, b) for a in _ANSWERS for b in _ANSWERS})
_NOT = np.array(
    [(s & UNKNOWN) | (TRUE if s & FALSE else 0) | (FALSE if s & TRUE else 0) for s in range(8)],
    dtype=np.uint8,
)


def both(left: Answers, right: Answers) -> Answers:
    """Return the answers of ``and`` when the two sides vary independently."""
    return np.asarray(_AND[left, right])


def either(left: Answers, right: Answers) -> Answers:
    """Return the answers of ``or`` when the two sides vary independently."""
    return np.asarray(_OR[left, right])


def opposite(part: Answers) -> Answers:
    """Return the answers of ``not``.

    Examples
    --------
    >>> opposite(np.array([TRUE, UNKNOWN, TRUE | FALSE], dtype=np.uint8))
    array([4, 2, 5], dtype=uint8)
    """
    return np.asarray(_NOT[part])


def can(true: npt.NDArray[np.bool_], false: npt.NDArray[np.bool_]) -> Answers:
    """Return answers from where true is possible and where false is possible."""
    return np.asarray(true, dtype=np.uint8) * np.uint8(TRUE) + np.asarray(false, dtype=np.uint8) * np.uint8(
        FALSE
    )


# ----------------------------------------------------------------------------------------
# The possible values behind each code, cut finely enough for a constraint to have one answer on each piece.
#
# A bin of ages from 20 to 24 and a rule about ``mother_age < 23`` make two pieces, 20-22 and 23-24. Every
# comparison of a column with a constant is then certain on a piece, however often the column occurs.

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of one column.

    Parameters
    ----------
    code
        Value code of each piece, or -1 where the value has none (other, missing).
    missing
        Whether the entry is missing.
    other
        Whether the value is outside the declared domain, and so unknown.
    low, high
        Ends of the values of an ordered column, both included.
    start
        First piece of each code of the column, for codes; ``None`` for raw entries.
    """

    code: Index
    missing: npt.NDArray[np.bool_]
    other: npt.NDArray[np.bool_]
    low: npt.NDArray[Any] | None = None
    high: npt.NDArray[Any] | None = None
    start: Index | None = None

    def __len__(self) -> int:
        return len(self.code)


def pieces_of_codes(
    column: Column, constants: Sequence[int | float], functions: Sequence[str] = ()
) -> Pieces:
    """Return the pieces of every code of a column, cut at the constants a rule compares it with.

    Dates are also cut where one of some calendar functions changes, so that each has one number on a piece.
    """
    if not isinstance(column, Ordered):
        return _pieces_of_named(column)
    cells = column.cells
    cuts = _cuts(cells, constants)
    if functions:
        days = np.arange(int(cells.low[0]), int(cells.high[-1]) + 1, dtype=np.int64)
        changes = np.zeros(len(days), dtype=bool)
        for function in functions:
            numbers = calendar_number(function, days)
            changes[1:] |= numbers[1:] != numbers[:-1]
        cuts = np.union1d(cuts, days[changes])
    inside = cuts[(np.searchsorted(cells.low, cuts, side="right") > 0)]
    owner = np.searchsorted(cells.low, inside, side="right") - 1
    inside = inside[inside <= cells.high[owner]]
    low = np.union1d(cells.low, inside)
    code = (np.searchsorted(cells.low, low, side="right") - 1).astype(np.intp)
    high = cells.high[code].copy()
    before = low[1:] - 1 if cells.whole else np.nextafter(low[1:], -np.inf)
    same = code[1:] == code[:-1]
    high[:-1][same] = before[same]
    return _with_extras(column, code, low, high)


def pieces_of_edges(column: Column) -> Pieces:
    """Return one piece per code, each bin reduced to its edge: the rule of paper Births."""
    if not isinstance(column, Ordered):
        return _pieces_of_named(column)
    codes = np.arange(column.value_count, dtype=np.intp)
    return _with_extras(column, codes, column.cells.edge, column.cells.edge)


def _pieces_of_named(column: Column) -> Pieces:
    """Return one piece per value; where values share codes, those of a code follow each other."""
    if column.groups is None:
        return _with_extras(column, np.arange(column.value_count, dtype=np.intp), None, None)
    order = np.argsort(column.groups, kind="stable").astype(np.intp)
    grouped = _with_extras(column, column.groups[order], None, None)
    extra = column.size - column.value_count
    return replace(grouped, code=np.append(order, np.full(extra, -1, dtype=np.intp)))


def _cuts(cells: Cells, constants: Sequence[int | float]) -> npt.NDArray[Any]:
    """Return the smallest lattice values not below, and above, each constant."""
    if cells.whole:
        cuts = [cut for value in constants for cut in (math.ceil(value), math.floor(value) + 1)]
        return np.array([cut for cut in cuts if INT_MIN <= cut <= INT_MAX], dtype=np.int64)
    reals = [float(value) + 0.0 for value in constants if abs(value) < 1e308]
    return np.array(
        [cut for value in reals for cut in (value, math.nextafter(value, math.inf))], dtype=np.float64
    )


def _with_extras(column: Column, code: Index, low: Any, high: Any) -> Pieces:
    extra = column.size - column.value_count
    total = len(code) + extra
    missing = np.zeros(total, dtype=bool)
    other = np.zeros(total, dtype=bool)
    if column.missing:
        missing[-1] = True
    if column.other_code is not None:
        other[len(code)] = True
    owner = np.append(code, column.value_count + np.arange(extra))
    start = np.searchsorted(owner, np.arange(column.size)).astype(np.intp)
    codes = np.append(code, np.full(extra, -1, dtype=np.intp))
    if low is not None:
        filler = np.zeros(extra, dtype=low.dtype)
        low, high = np.append(low, filler), np.append(high, filler)
    return Pieces(codes, missing, other, low, high, start)


def pieces_of_raw(column: Column, values: Any) -> Pieces:
    """Return one piece per raw entry. Numbers and dates count as they are, even outside the domain.

    Privacy
    -------
    In and out: private.
    """
    series = as_series(values)
    if isinstance(column, Ordered):
        numbers, missing, unread = _raw_numbers(column, series)
        code = np.full(len(series), -1, dtype=np.intp)
        return Pieces(code, missing, unread & ~missing, numbers, numbers)
    located = column.finest._locate(series, nearest=False)
    missing = located == MISSING
    other = (located < 0) & ~missing
    return Pieces(np.maximum(located, -1).astype(np.intp), missing, other)


def _raw_numbers(column: Ordered, series: Any) -> tuple[Any, Any, Any]:
    """Return numbers (or day numbers), where they are missing, and where an entry is not one."""
    entries = read_days(series) if isinstance(column, Date) else read_numbers(series)
    if entries is not None:
        missing = entries.missing if entries.missing is not None else np.zeros(len(series), dtype=bool)
        if column.missing_numbers:
            missing = missing | np.isin(entries.numbers, column.missing_numbers)
        return entries.numbers, missing, np.zeros(len(series), dtype=bool)
    places, distinct = distinct_entries(series)
    numbers = [column._number_in(entry) for entry in distinct]
    absent = np.array([_is_missing(column, entry) for entry in distinct] + [True], dtype=bool)
    unread = np.array([number is None for number in numbers] + [True], dtype=bool)
    # the type of the array must not depend on the entries: one of them would decide how exactly the others compare
    kept = [0 if number is None else number for number in numbers] + [0]
    array = np.array(kept, np.int64) if isinstance(column, Date) else np.array([real_of(n) for n in kept])
    return array[places], absent[places], unread[places]


def _is_missing(column: Ordered, entry: Any) -> bool:
    if isinstance(entry, str) and entry.strip().lower() in MISSING_TEXT:
        return True
    return entry in column.missing_values or column._number_in(entry) in column.missing_numbers


@dataclass(frozen=True, eq=False)
class View:
    """Pieces of each column, and which of them each answer is about. Index arrays broadcast together."""

    pieces: Mapping[str, Pieces]
    index: Mapping[str, Index]


class Condition(Protocol):
    """Something that answers true, false or unknown for a record."""

    def answers(self, view: View) -> Answers:
        """Return the set of possible answers for each combination of pieces."""
        ...


# -- one column against constants ------------------------------------------------------------------


@dataclass(frozen=True)
class OneOf:
    """A named value is one of some codes.

    ``ordered`` marks a comparison by order, which tells nothing about ``other``.
    """

    column: str
    codes: frozenset[int]
    ordered: bool = False

    def answers(self, view: View) -> Answers:
        """Answer for each piece."""
        pieces = view.pieces[self.column]
        inside = np.isin(pieces.code, list(self.codes))
        table = can(inside, ~inside)
        if self.ordered:
            table[pieces.other] = ANY
        table[pieces.missing] = UNKNOWN
        return table[view.index[self.column]]


@dataclass(frozen=True)
class Threshold:
    """A number or date compared with a constant."""

    column: str
    sign: ComparisonSign
    constant: int | float

    def answers(self, view: View) -> Answers:
        """Answer for each piece."""
        pieces = view.pieces[self.column]
        table = _compare(self.sign, pieces.low, pieces.high, self.constant, self.constant)
        table[pieces.other] = ANY
        table[pieces.missing] = UNKNOWN
        return table[view.index[self.column]]


@dataclass(frozen=True)
class Missing:
    """An entry is missing. Always certain."""

    column: str

    def answers(self, view: View) -> Answers:
        """Answer for each piece."""
        missing = view.pieces[self.column].missing
        return can(missing, ~missing)[view.index[self.column]]


# -- several columns -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Same:
    """Two named columns compared by value or, for the same list of ordered values, by position."""

    sign: ComparisonSign
    left: str
    right: str
    left_rank: tuple[int, ...]
    right_rank: tuple[int, ...]

    def answers(self, view: View) -> Answers:
        """Answer for each pair of pieces."""
        a, a_missing, a_other = _ranks(view, self.left, self.left_rank)
        b, b_missing, b_other = _ranks(view, self.right, self.right_rank)
        table = _compare(self.sign, a, a, b, b)
        table[np.broadcast_to(a_other | b_other, table.shape)] = ANY
        table[np.broadcast_to(a_missing | b_missing, table.shape)] = UNKNOWN
        return table


def _ranks(view: View, column: str, ranks: tuple[int, ...]) -> tuple[Any, Any, Any]:
    pieces, index = view.pieces[column], view.index[column]
    rank = np.array([*ranks, -1])[pieces.code]
    return rank[index], pieces.missing[index], pieces.other[index]


@dataclass(frozen=True)
class Part:
    """A number that the calendar gives to a date: ``week_of(arrival)``."""

    function: str
    column: str

    def __str__(self) -> str:
        return f"{self.function}({self.column})"

    def numbers(self, pieces: Pieces) -> npt.NDArray[np.int64]:
        """Return the number of each piece; pieces are cut where it changes."""
        assert pieces.low is not None
        return np.asarray(calendar_number(self.function, pieces.low), dtype=np.int64)


Factor: TypeAlias = str | Part
"""A column, or a calendar function of one."""


def column_of(factor: Factor) -> str:
    """Return the column behind a factor."""
    return factor.column if isinstance(factor, Part) else factor


@dataclass(frozen=True)
class NamedPart:
    """A named value is, or is not, the one that stands for a calendar number; ``numbers`` are those of its codes."""

    sign: ComparisonSign
    column: str
    part: Part
    numbers: tuple[int, ...]

    def answers(self, view: View) -> Answers:
        """Answer for each pair of pieces."""
        a, a_missing, a_other = _ranks(view, self.column, self.numbers)
        pieces, index = view.pieces[self.part.column], view.index[self.part.column]
        b = self.part.numbers(pieces)[index]
        table = np.atleast_1d(_compare(self.sign, a, a, b, b))
        table = _overwrite(table, a_other | pieces.other[index], ANY)
        return _overwrite(table, a_missing | pieces.missing[index], UNKNOWN)


@dataclass(frozen=True)
class Mapped:
    """A value of one column goes with one value of another: ``codes`` has its place for each value, or -1 for any."""

    source: str
    target: str
    codes: tuple[int, ...]

    def answers(self, view: View) -> Answers:
        """Answer for each pair of pieces."""
        wanted, missing, other = _ranks(view, self.source, self.codes)
        pieces, index = view.pieces[self.target], view.index[self.target]
        same = wanted == pieces.code[index]
        table = np.atleast_1d(can(same, ~same))
        table = _overwrite(table, (wanted < 0) | other | pieces.other[index], ANY)
        return _overwrite(table, missing | pieces.missing[index], UNKNOWN)


@dataclass(frozen=True)
class Value:
    """A sum of products of columns: ``constant + sum of factor * product of columns``."""

    constant: int | float
    terms: tuple[tuple[int | float, tuple[Factor, ...]], ...]

    def __neg__(self) -> Value:
        return Value(-self.constant, tuple((-factor, columns) for factor, columns in self.terms))

    def bounds(self, view: View) -> tuple[Any, Any]:
        """Return the least and greatest value over each combination of pieces, by interval arithmetic."""
        low: Any = np.float64(self.constant)
        high: Any = np.float64(self.constant)
        for factor, columns in self.terms:
            a: Any = np.float64(factor)
            b: Any = a
            for column in columns:
                pieces, index = view.pieces[column_of(column)], view.index[column_of(column)]
                c, d = _ends(column, pieces)
                a, b = _product(a, b, c[index], d[index])
            with np.errstate(invalid="ignore"):  # infinite raw entries of opposite signs
                low, high = low + a, high + b
        return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)

    def whole(self, view: View) -> npt.NDArray[np.int64]:
        """Return the exact value of whole numbers and days; what 64 bits cannot hold wraps around."""
        total: Any = np.int64(int(self.constant))
        with np.errstate(over="ignore"):
            for factor, columns in self.terms:
                term: Any = np.int64(int(factor))
                for column in columns:
                    pieces, index = view.pieces[column_of(column)], view.index[column_of(column)]
                    numbers = column.numbers(pieces) if isinstance(column, Part) else pieces.low
                    term = term * np.asarray(numbers).astype(np.int64)[index]
                total = total + term
        return np.asarray(total)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that occur."""
        return frozenset(column_of(column) for _, columns in self.terms for column in columns)

    @property
    def parts(self) -> frozenset[Part]:
        """The calendar functions that occur."""
        return frozenset(
            column for _, columns in self.terms for column in columns if isinstance(column, Part)
        )


def _ends(factor: Factor, pieces: Pieces) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    if isinstance(factor, Part):
        numbers = factor.numbers(pieces).astype(np.float64)
        return numbers, numbers
    return _real_ends(pieces)


def _real_ends(pieces: Pieces) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the ends as real numbers; the extremes that mark an open end become infinite."""
    assert pieces.low is not None
    assert pieces.high is not None
    low, high = pieces.low.astype(np.float64), pieces.high.astype(np.float64)
    extreme = 2.0**63 if pieces.low.dtype.kind == "i" else float(np.finfo(np.float64).max)
    return np.where(low <= -extreme, -np.inf, low), np.where(high >= extreme, np.inf, high)


def _product(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    with np.errstate(invalid="ignore"):
        corners = [x * y for x in ((a,) if a is b else (a, b)) for y in (c, d)]
    corners = [np.where(np.isnan(corner), 0.0, corner) for corner in corners]  # none times infinity is none
    return np.minimum.reduce(np.broadcast_arrays(*corners)), np.maximum.reduce(np.broadcast_arrays(*corners))


@dataclass(frozen=True)
class Relation:
    """An arithmetic value compared with zero."""

    sign: ComparisonSign
    value: Value

    def answers(self, view: View) -> Answers:
        """Answer for each combination of pieces."""
        low, high = self.value.bounds(view)
        table = np.atleast_1d(_compare(self.sign, low, high, 0.0, 0.0))
        for column in self.value.columns:
            table = _overwrite(table, view.pieces[column].other[view.index[column]], ANY)
        for column in self.value.columns:
            table = _overwrite(table, view.pieces[column].missing[view.index[column]], UNKNOWN)
        return table


def _overwrite(table: Answers, where: npt.NDArray[np.bool_], answer: int) -> Answers:
    return np.where(where, np.uint8(answer), table)


# -- combinations ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Not:
    """The opposite of a condition."""

    part: Check

    def answers(self, view: View) -> Answers:
        """Answer for each combination of pieces."""
        return opposite(self.part.answers(view))


@dataclass(frozen=True)
class All:
    """Every part holds."""

    parts: tuple[Check, ...]

    def answers(self, view: View) -> Answers:
        """Answer for each combination of pieces."""
        answer = self.parts[0].answers(view)
        for part in self.parts[1:]:
            answer = both(answer, part.answers(view))
        return answer


@dataclass(frozen=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[Check, ...]

    def answers(self, view: View) -> Answers:
        """Answer for each combination of pieces."""
        answer = self.parts[0].answers(view)
        for part in self.parts[1:]:
            answer = either(answer, part.answers(view))
        return answer


Check: TypeAlias = OneOf | Threshold | Missing | Same | NamedPart | Mapped | Relation | Not | All | AnyOf


def _compare(sign: ComparisonSign, a: Any, b: Any, c: Any, d: Any) -> Answers:
    """Compare any value from ``[a, b]`` with any value from ``[c, d]``."""
    if sign == "<":
        return can(a < d, b >= c)
    if sign == "<=":
        return can(a <= d, b > c)
    if sign == ">":
        return can(b > c, a <= d)
    if sign == ">=":
        return can(b >= c, a < d)
    overlap = (a <= d) & (c <= b)
    certain = (a == b) & (c == d) & (a == c)
    return can(overlap, ~certain) if sign == "==" else can(~certain, overlap)
