"""The shape of a constraint before its columns are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "Arithmetic",
    "Comparison",
    "ComparisonSign",
    "Connective",
    "Expression",
    "Literal_",
    "Membership",
    "MissingTest",
    "Name",
    "Negation",
    "Negative",
]

ComparisonSign: TypeAlias = Literal["<", "<=", ">", ">=", "==", "!="]


@dataclass(frozen=True)
class Node:
    """Anything with a place in the text."""

    start: int
    end: int


@dataclass(frozen=True)
class Name(Node):
    """A column."""

    name: str


@dataclass(frozen=True)
class Literal_(Node):
    """A number, a text or a truth value."""

    value: int | float | str | bool


@dataclass(frozen=True)
class Negative(Node):
    """A minus sign before an expression."""

    part: Expression


@dataclass(frozen=True)
class Arithmetic(Node):
    """A sum, difference or product."""

    sign: Literal["+", "-", "*"]
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Comparison(Node):
    """A chain of comparisons: ``18 <= age < 65`` has three parts and two signs."""

    parts: tuple[Expression, ...]
    signs: tuple[ComparisonSign, ...]


@dataclass(frozen=True)
class Membership(Node):
    """``x in (...)`` or ``x not in (...)``."""

    part: Expression
    items: tuple[Literal_, ...]
    negated: bool


@dataclass(frozen=True)
class MissingTest(Node):
    """``x is missing`` or ``x is not missing``."""

    part: Expression
    negated: bool


@dataclass(frozen=True)
class Negation(Node):
    """``not x``."""

    part: Expression


@dataclass(frozen=True)
class Connective(Node):
    """``and``, ``or`` or ``implies`` between two or more parts."""

    word: Literal["and", "or", "implies"]
    parts: tuple[Expression, ...]


Expression: TypeAlias = (
    Name | Literal_ | Negative | Arithmetic | Comparison | Membership | MissingTest | Negation | Connective
)
