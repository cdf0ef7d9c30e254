"""Checked conditions: what remains of a constraint once its columns and types are known.

Every condition answers for arrays of pieces at once (see `logic` for what an answer is).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.schema.constraints.logic import ANY, UNKNOWN, Answers, both, can, either, opposite
from understudy.schema.constraints.pieces import Index, Pieces
from understudy.schema.constraints.syntax import ComparisonSign

__all__ = [
    "All",
    "AnyOf",
    "Condition",
    "Missing",
    "Not",
    "OneOf",
    "Relation",
    "Same",
    "Threshold",
    "Value",
    "View",
]


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
class Value:
    """A sum of products of columns: ``constant + sum of factor * product of columns``."""

    constant: int | float
    terms: tuple[tuple[int | float, tuple[str, ...]], ...]

    def bounds(self, view: View) -> tuple[Any, Any]:
        """Return the least and greatest value over each combination of pieces, by interval arithmetic."""
        low: Any = np.float64(self.constant)
        high: Any = np.float64(self.constant)
        for factor, columns in self.terms:
            a: Any = np.float64(factor)
            b: Any = np.float64(factor)
            for column in columns:
                pieces, index = view.pieces[column], view.index[column]
                c, d = _real_ends(pieces)
                a, b = _product(a, b, c[index], d[index])
            with np.errstate(invalid="ignore"):  # infinite raw entries of opposite signs
                low, high = low + a, high + b
        return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that occur."""
        return frozenset(column for _, columns in self.terms for column in columns)


def _real_ends(pieces: Pieces) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the ends as real numbers; the extremes that mark an open end become infinite."""
    assert pieces.low is not None
    assert pieces.high is not None
    low, high = pieces.low.astype(np.float64), pieces.high.astype(np.float64)
    extreme = 2.0**63 if pieces.low.dtype.kind == "i" else float(np.finfo(np.float64).max)
    return np.where(low <= -extreme, -np.inf, low), np.where(high >= extreme, np.inf, high)


def _product(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    with np.errstate(invalid="ignore"):
        corners = [
            np.nan_to_num(x * y, nan=0.0, posinf=np.inf, neginf=-np.inf) for x in (a, b) for y in (c, d)
        ]
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


Check: TypeAlias = OneOf | Threshold | Missing | Same | Relation | Not | All | AnyOf


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
