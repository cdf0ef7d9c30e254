"""Rules as alternatives: lists of comparisons, of which one list must hold as a whole.

A record obeys a rule unless it is false for it. With Kleene's logic "not false" goes through ``and`` and ``or`` as it
is, and ``not`` can be moved to the comparisons, so that it is enough that every comparison of one list is not false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

from understudy.schema.constraints.conditions import (
    All,
    AnyOf,
    Check,
    Factor,
    Mapped,
    Missing,
    NamedPart,
    Not,
    OneOf,
    Relation,
    Same,
    Threshold,
    Value,
    column_of,
)
from understudy.schema.constraints.syntax import ComparisonSign

__all__ = ["Atom", "Bound", "Decided", "Hard", "all_of", "alternatives_of"]

_MOST_ALTERNATIVES = 1_024


@dataclass(frozen=True)
class Bound:
    """``plus - minus <= limit`` (``<`` if strict); ``None`` is zero. ``named`` has a limit for each code of a column."""

    plus: Factor | None
    minus: Factor | None
    limit: float
    strict: bool
    named: tuple[str, tuple[int, ...], int] | None = None

    @property
    def columns(self) -> set[str]:
        """The columns that are compared."""
        found = {column_of(side) for side in (self.plus, self.minus) if side is not None}
        return found | ({self.named[0]} if self.named is not None else set())


@dataclass(frozen=True)
class Decided:
    """A condition that codes decide."""

    condition: OneOf | Missing | Same | Mapped
    negated: bool


@dataclass(frozen=True)
class Hard:
    """Something that is only checked: arithmetic that is not a difference, or too many alternatives to go through."""


Atom: TypeAlias = Bound | Decided | Hard
_OPPOSITE: dict[ComparisonSign, ComparisonSign] = {
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
    "==": "!=",
    "!=": "==",
}


def alternatives_of(condition: Check, negated: bool = False) -> list[tuple[Atom, ...]]:
    """Return lists of comparisons, of which one holds as a whole where a condition (or its opposite) is not false."""
    if isinstance(condition, Not):
        return alternatives_of(condition.part, not negated)
    if isinstance(condition, All | AnyOf):
        parts = [alternatives_of(part, negated) for part in condition.parts]
        if isinstance(condition, All) == negated:  # one of the parts is enough
            return [option for part in parts for option in part]
        return all_of(parts)
    if isinstance(condition, NamedPart):
        sign = _OPPOSITE[condition.sign] if negated else condition.sign
        below = Bound(condition.part, None, 0.0, sign == "!=", (condition.column, condition.numbers, 1))
        above = Bound(None, condition.part, 0.0, sign == "!=", (condition.column, condition.numbers, -1))
        return [(below, above)] if sign == "==" else [(below,), (above,)]
    if isinstance(condition, Threshold):
        value = Value(-condition.constant, ((1, (condition.column,)),))
        return _compared(_OPPOSITE[condition.sign] if negated else condition.sign, value)
    if isinstance(condition, Relation):
        return _compared(_OPPOSITE[condition.sign] if negated else condition.sign, condition.value)
    return [(Decided(condition, negated),)]


def all_of(parts: Sequence[list[tuple[Atom, ...]]]) -> list[tuple[Atom, ...]]:
    """Return the alternatives of several conditions together; of too many, one that is only checked."""
    if prod(map(len, parts)) > _MOST_ALTERNATIVES:
        return [(Hard(),)]
    return [sum(choice, ()) for choice in product(*parts)]


def _compared(sign: ComparisonSign, value: Value) -> list[tuple[Atom, ...]]:
    """Compare a value with zero."""
    if sign == "==":
        return [(_at_most(value, strict=False), _at_most(-value, strict=False))]
    if sign == "!=":
        return [(_at_most(value, strict=True),), (_at_most(-value, strict=True),)]
    upwards = sign in (">", ">=")
    return [(_at_most(-value if upwards else value, strict=sign in ("<", ">")),)]


def _at_most(value: Value, *, strict: bool) -> Atom:
    terms = value.terms
    if all(len(columns) == 1 for _, columns in terms) and len(terms) <= 2:
        factors = [factor for factor, _ in terms]
        names = [columns[0] for _, columns in terms]
        if len(terms) == 1:
            limit = -value.constant / abs(factors[0])
            plus, minus = (names[0], None) if factors[0] > 0 else (None, names[0])
            return Bound(plus, minus, limit, strict)
        if factors[0] == -factors[1]:
            first = factors[0] > 0
            return Bound(
                names[0 if first else 1],
                names[1 if first else 0],
                -value.constant / abs(factors[0]),
                strict,
            )
    return Hard()
