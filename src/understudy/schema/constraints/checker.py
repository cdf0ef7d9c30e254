"""From syntax to checked conditions: names become columns, text becomes codes or dates, types must fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from understudy.schema.coding.calendar import CALENDAR, NAMES, read_date
from understudy.schema.coding.reading import days_since_epoch, number_of
from understudy.schema.columns.categorical import Boolean, Named, Ordinal
from understudy.schema.columns.column import Column
from understudy.schema.columns.date import Date
from understudy.schema.columns.numeric import Numeric
from understudy.schema.constraints.conditions import (
    All,
    AnyOf,
    Check,
    Factor,
    Missing,
    NamedPart,
    Not,
    OneOf,
    Part,
    Relation,
    Same,
    Threshold,
    Value,
)
from understudy.schema.constraints.syntax import (
    Arithmetic,
    Call,
    Comparison,
    ComparisonSign,
    Connective,
    Expression,
    Literal_,
    Membership,
    MissingTest,
    Name,
    Negation,
    Negative,
    complain,
)
from understudy.schema.problems import did_you_mean, listing

__all__ = ["Formula", "check", "check_value"]

_MIRROR: dict[ComparisonSign, ComparisonSign] = {
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
    "==": "==",
    "!=": "!=",
}
_MOST_TERMS = 64
_MOST_DAYS = 500_000
"""Length of a range of dates that calendar functions cut into pieces: a little less than 1,400 years."""


def check(rule: str, tree: Expression, columns: Mapping[str, Column]) -> Check:
    """Return the condition of a rule, or raise `ConstraintError` at the place that does not fit."""
    return _Checker(rule, columns).truth(tree)


@dataclass(frozen=True)
class Formula:
    """What a derived column holds: a value of arithmetic, the name of a calendar number, or a copy of a named column."""

    value: Value | None = None
    named: str | None = None
    name_of: Part | None = None
    date: bool = False

    @property
    def columns(self) -> frozenset[str]:
        """The columns it is computed from."""
        if self.name_of is not None:
            return frozenset({self.name_of.column})
        if self.named is not None:
            return frozenset({self.named})
        assert self.value is not None
        return self.value.columns


def check_value(text: str, tree: Expression, columns: Mapping[str, Column]) -> Formula:
    """Return the formula of a derived column, or raise `ConstraintError` at the place that does not fit."""
    checker = _Checker(text, columns)
    if isinstance(tree, Call) and tree.function in NAMES:
        return Formula(name_of=checker.part(tree))
    side = checker.term(tree)
    if side.named is not None:
        return Formula(named=side.named.name)
    if side.value is None or not side.value.terms:
        checker.wrong(tree, "A derived column must be computed from at least one column.")
    return Formula(value=side.value, date=side.sort == "date")


@dataclass(frozen=True)
class _Term:
    """A side of a comparison: a named column, a text, or arithmetic on numbers or dates."""

    node: Expression
    named: Column | None = None
    constant: int | float | str | bool | None = None
    value: Value | None = None
    dates: int = 0
    part: Part | None = None

    @property
    def sort(self) -> str:
        if self.named is not None:
            return self.named.kind
        if isinstance(self.constant, bool):
            return "truth value"
        if isinstance(self.constant, str):
            return "text"
        return "date" if self.dates else "number"


class _Checker:
    def __init__(self, rule: str, columns: Mapping[str, Column]) -> None:
        self.rule = rule
        self.columns = columns

    def wrong(self, node: Expression, message: str) -> NoReturn:
        complain(self.rule, node.start, node.end, message)

    def column(self, node: Name) -> Column:
        found = self.columns.get(node.name)
        if found is None:
            hint = did_you_mean(node.name, self.columns)
            self.wrong(node, f"No column named {node.name!r}.{hint} Columns: {listing(list(self.columns))}.")
        return found

    # -- truth ---------------------------------------------------------------------------------

    def truth(self, node: Expression) -> Check:
        if isinstance(node, Connective):
            parts = tuple(self.truth(part) for part in node.parts)
            if node.word == "implies":
                return AnyOf((Not(parts[0]), parts[1]))
            return All(parts) if node.word == "and" else AnyOf(parts)
        if isinstance(node, Negation):
            return Not(self.truth(node.part))
        if isinstance(node, MissingTest):
            if not isinstance(node.part, Name):
                self.wrong(node.part, "Only a column can be missing.")
            test = Missing(self.column(node.part).name)
            return Not(test) if node.negated else test
        if isinstance(node, Membership):
            return self.membership(node)
        if isinstance(node, Comparison):
            sides = [self.term(part) for part in node.parts]
            checks = [
                self.comparison(left, sign, right)
                for left, sign, right in zip(sides, node.signs, sides[1:], strict=False)
            ]
            return checks[0] if len(checks) == 1 else All(tuple(checks))
        if isinstance(node, Name):
            column = self.column(node)
            if isinstance(column, Boolean):
                return OneOf(column.name, frozenset({1}), ordered=True)
            self.wrong(
                node, f"Column {node.name!r} is {column.kind}, not a truth value; compare it with something."
            )
        self.wrong(node, "Expected a condition here, such as a comparison.")

    def membership(self, node: Membership) -> Check:
        left = self.term(node.part)
        checks = tuple(self.comparison(left, "==", self.term(item)) for item in node.items)
        if all(isinstance(one, OneOf) for one in checks):
            codes = frozenset().union(*(one.codes for one in checks if isinstance(one, OneOf)))
            ordered = any(one.ordered for one in checks if isinstance(one, OneOf))
            found: Check = OneOf(str(left.named.name) if left.named else "", codes, ordered)
        else:
            found = checks[0] if len(checks) == 1 else AnyOf(checks)
        return Not(found) if node.negated else found

    # -- comparisons ---------------------------------------------------------------------------

    def comparison(self, left: _Term, sign: ComparisonSign, right: _Term) -> Check:
        if _is_constant(left) and _is_constant(right):
            self.wrong(right.node, "This compares two constants; one side must hold a column.")
        if left.named is None and right.named is not None:
            return self.comparison(right, _MIRROR[sign], left)
        if left.named is not None and right.part is not None:
            return self.calendar_name(left, left.named, sign, right.part)
        if left.named is not None:
            return self.named(left, left.named, sign, right)
        for side in (left, right):
            if side.part is not None and side.part.function in NAMES:
                self.wrong(
                    side.node,
                    f"{side.part.function} gives a name; compare it by == or != with a column of named values.",
                )
        if left.sort == "text":
            left = self.as_date(left, right)
        elif right.sort == "text":
            right = self.as_date(right, left)
        if left.sort != right.sort or left.value is None or right.value is None:
            self.wrong(right.node, f"A {left.sort} cannot be compared with a {right.sort}.")
        difference = _add(left.value, _scale(right.value, -1))
        if not difference.terms:
            self.wrong(right.node, "Both sides are the same here, so this does not depend on the record.")
        return _relation(sign, difference)

    def named(self, left: _Term, column: Column, sign: ComparisonSign, right: _Term) -> Check:
        if right.named is not None:
            return self.pair(left, column, sign, right, right.named)
        code = self.code(column, right)
        if isinstance(column, Boolean) and sign not in ("==", "!="):
            self.wrong(left.node, f"Column {column.name!r} is boolean and has no order; use == or !=.")
        if sign in ("==", "!="):
            # Something other than the two truth values may still mean either of them.
            equal = OneOf(column.name, frozenset({code}), ordered=isinstance(column, Boolean))
            return equal if sign == "==" else Not(equal)
        if not isinstance(column, Ordinal):
            self.wrong(
                left.node,
                f"Column {column.name!r} is categorical and has no order; use ==, != or in, "
                "or declare it ordinal.",
            )
        tests = {
            "<": range(code),
            "<=": range(code + 1),
            ">": range(code + 1, column.value_count),
            ">=": range(code, column.value_count),
        }
        return OneOf(column.name, frozenset(tests[sign]), ordered=True)

    def calendar_name(self, left: _Term, column: Column, sign: ComparisonSign, part: Part) -> Check:
        """Compare a column of named values with a calendar number, whose names it may hold."""
        if sign not in ("==", "!="):
            self.wrong(left.node, "Named values can be compared with a calendar function by == and != only.")
        numbers = [_calendar_number_of(label, part.function) for label in column.value_labels]
        if isinstance(column, Boolean) or max(numbers) < 0:
            first, last = CALENDAR[part.function]
            names = _names_for(part.function)
            self.wrong(
                left.node,
                f"None of the values of column {column.name!r} is a number from {first} to {last}"
                + (f" or a name such as {names[0]!r}." if names else "."),
            )
        return NamedPart(sign, column.name, part, tuple(numbers))

    def code(self, column: Column, side: _Term) -> int:
        if isinstance(column, Boolean):
            if isinstance(side.constant, str) and side.constant in (column.spelling or ()):
                return column.code_of(side.constant)
            if not isinstance(side.constant, bool):
                own = "" if column.spelling is None else f", {column.spelling[0]!r} or {column.spelling[1]!r}"
                self.wrong(
                    side.node, f"Column {column.name!r} is boolean; compare it with true or false{own}."
                )
            return int(side.constant)
        assert isinstance(column, Named)
        constant = side.constant
        if side.value is not None and not side.value.terms:
            constant = side.value.constant
        if constant is None or isinstance(constant, bool):
            self.wrong(side.node, f"Column {column.name!r} holds named values; compare it with one of them.")
        code = column.code_of(constant)
        if code < 0:
            shown = str(constant)
            hint = did_you_mean(shown, column.value_labels)
            self.wrong(
                side.node,
                f"{shown!r} is not one of the values of column {column.name!r}.{hint} "
                f"Values: {listing(column.value_labels)}.",
            )
        return code

    def pair(self, left: _Term, a: Column, sign: ComparisonSign, right: _Term, b: Column) -> Check:
        ordered = sign not in ("==", "!=")
        if ordered and not (isinstance(a, Ordinal) and isinstance(b, Ordinal) and a.values == b.values):
            self.wrong(
                right.node,
                "Two columns can be ordered only if both are ordinal with the same list of values.",
            )
        if isinstance(a, Boolean) != isinstance(b, Boolean):
            self.wrong(right.node, f"A {a.kind} column cannot be compared with a {b.kind} column.")
        if a.name == b.name:
            self.wrong(right.node, "This compares a column with itself.")
        if isinstance(a, Boolean):  # whatever the two are spelled like
            return Same(sign, a.name, b.name, (0, 1), (0, 1))
        known = {label: rank for rank, label in enumerate(a.value_labels)}
        ranks = tuple(known.setdefault(label, len(known)) for label in b.value_labels)
        return Same(sign, a.name, b.name, tuple(range(a.value_count)), ranks)

    def as_date(self, side: _Term, other: _Term) -> _Term:
        if other.sort != "date":
            self.wrong(side.node, f"Text cannot be compared with a {other.sort}.")
        day = read_date(side.constant)
        if day is None:
            self.wrong(side.node, "Expected a date written as 'YYYY-MM-DD'.")
        return _Term(side.node, value=Value(days_since_epoch(day), ()), dates=1)

    # -- sides ---------------------------------------------------------------------------------

    def term(self, node: Expression) -> _Term:
        if isinstance(node, Literal_):
            if isinstance(node.value, str | bool):
                return _Term(node, constant=node.value)
            if abs(node.value) > 1e300:
                self.wrong(node, "This number is too large.")
            return _Term(node, constant=node.value, value=Value(node.value, ()))
        if isinstance(node, Name):
            column = self.column(node)
            if isinstance(column, Numeric | Date):
                return _Term(
                    node, value=Value(0, ((1, (column.name,)),)), dates=int(isinstance(column, Date))
                )
            return _Term(node, named=column)
        if isinstance(node, Negative):
            part = self.number(node.part)
            return _Term(node, value=_scale(part, -1))
        if isinstance(node, Arithmetic):
            return self.arithmetic(node)
        if isinstance(node, Call):
            called = self.part(node)
            return _Term(node, value=Value(0, ((1, (called,)),)), part=called)
        self.wrong(node, "Expected a column, a number or quoted text here, not a condition.")

    def part(self, node: Call) -> Part:
        if not isinstance(node.part, Name):
            self.wrong(node.part, f"{node.function} takes the name of a date column.")
        column = self.column(node.part)
        if not isinstance(column, Date):
            self.wrong(node.part, f"{node.function} needs a date column; {column.name!r} is {column.kind}.")
        cells = column.cells
        if cells.open_low or cells.open_high or int(cells.high[-1]) - int(cells.low[0]) > _MOST_DAYS:
            self.wrong(
                node.part,
                f"{node.function} needs a date column with a first and a last day, at most {_MOST_DAYS:,} days "
                f"apart. Give {column.name!r} a minimum and a maximum.",
            )
        return Part(node.function, column.name)

    def number(self, node: Expression) -> Value:
        side = self.term(node)
        if side.part is not None and side.part.function in NAMES:
            self.wrong(node, f"Arithmetic needs numbers, and {side.part.function} gives a name.")
        if side.sort != "number" or side.value is None:
            self.wrong(node, f"Arithmetic needs numbers, not a {side.sort}.")
        return side.value

    def arithmetic(self, node: Arithmetic) -> _Term:
        if node.sign == "*":
            left, right = self.number(node.left), self.number(node.right)
            products: list[tuple[int | float, tuple[Factor, ...]]] = [
                (f * g, (*a, *b))
                for f, a in ((left.constant, ()), *left.terms)
                for g, b in ((right.constant, ()), *right.terms)
            ]
            return _Term(node, value=self.total(node, products))
        sides = [self.term(part) for part in (node.left, node.right)]
        for side in sides:
            if side.part is not None and side.part.function in NAMES:
                self.wrong(side.node, f"Arithmetic needs numbers, and {side.part.function} gives a name.")
            if side.value is None:
                self.wrong(side.node, f"Arithmetic needs numbers or dates, not a {side.sort}.")
        dates = sides[0].dates + (sides[1].dates if node.sign == "+" else -sides[1].dates)
        if dates not in (0, 1):
            self.wrong(node, "Dates can be subtracted from each other, or moved by a number of days.")
        second = sides[1].value if node.sign == "+" or sides[1].value is None else _scale(sides[1].value, -1)
        terms = [
            term
            for value in (sides[0].value, second)
            if value is not None
            for term in ((value.constant, ()), *value.terms)
        ]
        return _Term(node, value=self.total(node, terms), dates=dates)

    def total(self, node: Expression, terms: list[tuple[int | float, tuple[Factor, ...]]]) -> Value:
        """Collect equal products, so that ``a - a`` is zero and not an interval around it."""
        sums: dict[tuple[Factor, ...], int | float] = {}
        for factor, columns in terms:
            key = tuple(sorted(columns, key=str))
            sums[key] = sums.get(key, 0) + factor
        constant = sums.pop((), 0)
        if len(sums) > _MOST_TERMS or any(len(key) > 4 for key in sums):
            self.wrong(node, "This arithmetic is too long for a constraint.")
        if not all(abs(number) < 1e300 for number in (constant, *sums.values())):
            self.wrong(node, "This arithmetic reaches numbers that are too large.")
        return Value(constant, tuple((factor, key) for key, factor in sums.items() if factor != 0))


def _names_for(function: str) -> tuple[str, ...]:
    """Return the names of the numbers of a function, where they have any."""
    kind = function.removesuffix("_name_of").removesuffix("_of")
    return NAMES.get(f"{kind}_name_of", ())


def _calendar_number_of(label: str, function: str) -> int:
    """Return the calendar number that a value stands for: a number, or a name or its first three letters; else -1."""
    number = number_of(label)
    if number is not None:
        return int(number) if 0 <= number < 10_000 and number == int(number) else -1
    spelled = label.strip().rstrip(".").lower()
    for place, name in enumerate(_names_for(function), start=1):
        if spelled in (name.lower(), name[:3].lower()):
            return place
    return -1


def _is_constant(side: _Term) -> bool:
    return side.named is None and (side.value is None or not side.value.terms)


def _scale(value: Value, factor: int) -> Value:
    return Value(
        value.constant * factor, tuple((number * factor, columns) for number, columns in value.terms)
    )


def _add(left: Value, right: Value) -> Value:
    sums = {columns: factor for factor, columns in left.terms}
    for factor, columns in right.terms:
        sums[columns] = sums.get(columns, 0) + factor
    terms = tuple((factor, columns) for columns, factor in sums.items() if factor != 0)
    return Value(left.constant + right.constant, terms)


def _relation(sign: ComparisonSign, difference: Value) -> Check:
    """Compare a difference with zero; a single column against a constant is compared exactly."""
    if len(difference.terms) == 1:
        factor, columns = difference.terms[0]
        if len(columns) == 1 and isinstance(columns[0], str) and abs(factor) == 1:
            constant = -difference.constant if factor > 0 else difference.constant
            exact = int(constant) if isinstance(constant, float) and constant.is_integer() else constant
            return Threshold(columns[0], sign if factor > 0 else _MIRROR[sign], exact)
    return Relation(sign, difference)
