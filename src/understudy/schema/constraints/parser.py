"""From tokens to syntax. Nothing is ever evaluated as Python.

::

    rule         any [ "implies" rule ]
    any          all { "or" all }
    all          one { "and" one }
    one          "not" one | comparison
    comparison   sum [ { sign sum } | ["not"] "in" list | "is" ["not"] "missing" ]
    sum          product { ("+" | "-") product }
    product      factor { "*" factor }
    factor       "-" factor | number | text | "true" | "false" | name | "(" rule ")"
    list         "(" item { "," item } ")" | "[" item { "," item } "]"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NoReturn

from understudy.schema.constraints.syntax import (
    Arithmetic,
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
)
from understudy.schema.constraints.tokens import Token, complain, tokenize
from understudy.schema.limits import MAX_RULE_DEPTH
from understudy.schema.problems import did_you_mean

__all__ = ["parse"]

_COMPARISONS: dict[str, ComparisonSign] = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "==", "!=": "!="}


def parse(rule: str) -> Expression:
    """Read the text of a constraint.

    Raises
    ------
    ConstraintError
        With the place of the first mistake.

    Examples
    --------
    >>> parse("18 <= age < 65").signs
    ('<=', '<')
    """
    return _Parser(rule).whole()


class _Parser:
    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.tokens = tokenize(rule)
        self.place = 0
        self.depth = 0

    # -- tokens --------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> Token:
        token = self.token
        self.place += 1
        return token

    def accept(self, *texts: str) -> Token | None:
        token = self.token
        return self.take() if token.kind in ("word", "sign") and token.text in texts else None

    def wrong(self, token: Token, message: str) -> NoReturn:
        complain(self.rule, token.start, token.end, message)

    def deeper(self, read: Callable[[], Expression]) -> Expression:
        self.depth += 1
        if self.depth > MAX_RULE_DEPTH:
            self.wrong(self.token, f"The rule is nested more than {MAX_RULE_DEPTH} levels deep here.")
        part = read()
        self.depth -= 1
        return part

    # -- grammar -------------------------------------------------------------------------------

    def whole(self) -> Expression:
        if self.token.kind == "end":
            self.wrong(self.token, "The constraint is empty.")
        tree = self.rule_()
        token = self.token
        if token.kind != "end":
            hint = did_you_mean(token.text, ("and", "or", "not", "in", "is", "missing", "implies"))
            self.wrong(token, f"Expected 'and', 'or', 'implies' or the end, not {token.text!r}.{hint}")
        return tree

    def rule_(self) -> Expression:
        left = self.joined("or", lambda: self.joined("and", self.one))
        if self.accept("implies"):
            right = self.deeper(self.rule_)
            return Connective(left.start, right.end, "implies", (left, right))
        return left

    def joined(self, word: Literal["and", "or"], read: Callable[[], Expression]) -> Expression:
        parts = [read()]
        while self.accept(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else Connective(parts[0].start, parts[-1].end, word, tuple(parts))

    def one(self) -> Expression:
        token = self.accept("not")
        if token:
            part = self.deeper(self.one)
            return Negation(token.start, part.end, part)
        return self.comparison()

    def comparison(self) -> Expression:
        first = self.sum()
        if self.accept("is"):
            negated = self.accept("not") is not None
            token = self.take()
            if token.text != "missing" or token.kind != "word":
                self.wrong(token, "Expected 'missing' after 'is'.")
            return MissingTest(first.start, token.end, first, negated)
        after = self.tokens[self.place + 1] if self.token.kind != "end" else self.token
        if self.token.text == "not" and self.token.kind == "word" and after.text == "in":
            self.take()
            self.take()
            return self.membership(first, negated=True)
        if self.accept("in"):
            return self.membership(first, negated=False)
        parts, signs = [first], []
        while self.token.kind == "sign" and self.token.text in _COMPARISONS:
            signs.append(_COMPARISONS[self.take().text])
            parts.append(self.sum())
        return Comparison(first.start, parts[-1].end, tuple(parts), tuple(signs)) if signs else first

    def membership(self, part: Expression, *, negated: bool) -> Expression:
        opening = self.take()
        closing = {"(": ")", "[": "]"}.get(opening.text)
        if closing is None or opening.kind != "sign":
            self.wrong(opening, "Expected a list such as ('a', 'b') or [1, 2] after 'in'.")
        items = [self.item()]
        while self.accept(","):
            items.append(self.item())
        end = self.take()
        if end.text != closing or end.kind != "sign":
            self.wrong(end, f"Expected ',' or {closing!r} here.")
        return Membership(part.start, end.end, part, tuple(items), negated)

    def item(self) -> Literal_:
        minus = self.accept("-")
        token = self.take()
        value = _constant(token)
        if value is None or (minus and (isinstance(value, str | bool))):
            self.wrong(token, "A list may hold numbers, quoted text, true and false.")
        start = minus.start if minus else token.start
        return Literal_(start, token.end, -value if minus and not isinstance(value, str) else value)

    def sum(self) -> Expression:
        left = self.product()
        while sign := self.accept("+", "-"):
            right = self.product()
            left = Arithmetic(left.start, right.end, "+" if sign.text == "+" else "-", left, right)
        return left

    def product(self) -> Expression:
        left = self.factor()
        while self.accept("*"):
            right = self.factor()
            left = Arithmetic(left.start, right.end, "*", left, right)
        return left

    def factor(self) -> Expression:
        token = self.take()
        if token.kind == "sign" and token.text == "-":
            part = self.deeper(self.factor)
            if (
                isinstance(part, Literal_)
                and isinstance(part.value, int | float)
                and not isinstance(part.value, bool)
            ):
                return Literal_(token.start, part.end, -part.value)
            return Negative(token.start, part.end, part)
        if token.kind == "sign" and token.text == "(":
            inside = self.deeper(self.rule_)
            if not self.accept(")"):
                self.wrong(self.token, "Expected ')' here.")
            return inside
        if token.kind == "name":
            return Name(token.start, token.end, str(token.value))
        value = _constant(token)
        if value is not None:
            return Literal_(token.start, token.end, value)
        found = "the end of the rule" if token.kind == "end" else repr(token.text)
        self.wrong(token, f"Expected a column, a number or quoted text, not {found}.")


def _constant(token: Token) -> int | float | str | bool | None:
    if token.kind == "word" and token.text in ("true", "false"):
        return token.text == "true"
    return token.value if token.kind in ("number", "text") else None
