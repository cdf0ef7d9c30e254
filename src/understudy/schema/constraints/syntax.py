"""The shape of a constraint before its columns are known."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from understudy.errors import ConstraintError
from understudy.schema.coding.calendar import CALENDAR
from understudy.schema.problems import MAX_RULE_DEPTH, MAX_RULE_LENGTH, did_you_mean

# ----------------------------------------------------------------------------------------
# Cutting the text of a constraint into tokens, and pointing at the place where something is wrong.

KEYWORDS = frozenset({"and", "or", "not", "in", "is", "missing", "true", "false", "implies"})

TokenKind = Literal["name", "number", "text", "word", "sign", "end"]

_SPACE = re.compile(r"\s+")
_NUMBER = re.compile(r"(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_NAME = re.compile(r"[^\W\d]\w*")
_QUOTED_NAME = re.compile(r"`([^`]+)`")
_SIGNS = ("<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "(", ")", "[", "]", ",")
_MISTAKES = {
    "<>": "write != for 'differs from'",
    "&&": "write 'and'",
    "||": "write 'or'",
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not', or != for 'differs from'",
    "~": "write 'not'",
    "=": "write == for 'equals'",
    "/": "division is not part of the language; multiply the other side instead",
    "^": "powers are not part of the language",
    "%": "remainders are not part of the language",
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
}


@dataclass(frozen=True)
class Token:
    """One piece of the text, with its place."""

    kind: TokenKind
    text: str
    start: int
    end: int
    value: str | int | float | None = None


def complain(rule: str, start: int, end: int, message: str) -> NoReturn:
    """Raise a `ConstraintError` that shows the rule with carets under the place in question."""
    line_start = rule.rfind("\n", 0, start) + 1
    line_end = rule.find("\n", start)
    line = rule[line_start : line_end if line_end >= 0 else len(rule)].replace("\t", " ")
    offset = start - line_start
    width = max(1, min(end, line_start + len(line)) - start)
    if len(line) > 100:  # show the neighbourhood only
        cut = max(0, offset - 40)
        line, offset = line[cut : cut + 100], offset - cut
        width = min(width, 100 - offset)
    raise ConstraintError(f"{message}\n    {line}\n    {' ' * offset}{'^' * max(1, width)}")


def tokenize(rule: str) -> list[Token]:
    """Cut a rule into tokens.

    Raises
    ------
    ConstraintError
        If a character cannot begin a token, or a quotation does not end.

    Examples
    --------
    >>> [token.text for token in tokenize("mother_age<23 and `birth place` in ('x')")]
    ['mother_age', '<', '23', 'and', '`birth place`', 'in', '(', "'x'", ')', '']
    """
    if len(rule) > MAX_RULE_LENGTH:
        raise ConstraintError(f"A constraint may be {MAX_RULE_LENGTH:,} characters long; this one is longer.")
    tokens: list[Token] = []
    place = 0
    while place < len(rule):
        space = _SPACE.match(rule, place)
        if space:
            place = space.end()
            continue
        token = _next(rule, place)
        tokens.append(token)
        place = token.end
    tokens.append(Token("end", "", len(rule), len(rule)))
    return tokens


def _next(rule: str, place: int) -> Token:
    letter = rule[place]
    if letter in "'\"":
        return _quoted(rule, place)
    if letter == "`":
        found = _QUOTED_NAME.match(rule, place)
        if not found:
            complain(rule, place, place + 1, "This name in backticks does not end.")
        return Token("name", found[0], place, found.end(), found[1])
    if found := _NUMBER.match(rule, place):
        end = found.end()
        if (word := _NAME.match(rule, end)) or (end < len(rule) and rule[end] == "."):
            stop = word.end() if word else end + 1
            complain(rule, place, stop, "This is neither a number nor a name; put such a name in backticks.")
        text = found[0]
        value: int | float = int(text) if text.isdigit() and len(text) <= 400 else float(text)
        if value in (float("inf"), float("-inf")):
            complain(rule, place, end, "This number is too large.")
        return Token("number", text, place, end, value)
    if found := _NAME.match(rule, place):
        word_text = found[0]
        if word_text.lower() in KEYWORDS:
            return Token("word", word_text.lower(), place, found.end())
        return Token("name", word_text, place, found.end(), word_text)
    for mistake, advice in _MISTAKES.items():
        if rule.startswith(mistake, place) and not rule.startswith(("==", "!="), place):
            complain(rule, place, place + len(mistake), f"{mistake!r} is not part of the language: {advice}.")
    for sign in _SIGNS:
        if rule.startswith(sign, place):
            return Token("sign", sign, place, place + len(sign))
    complain(rule, place, place + 1, f"{letter!r} has no meaning here.")


def _quoted(rule: str, place: int) -> Token:
    quote = rule[place]
    letters: list[str] = []
    at = place + 1
    while at < len(rule):
        letter = rule[at]
        if letter == "\\" and at + 1 < len(rule):
            letters.append(rule[at + 1])
            at += 2
            continue
        if letter == quote:
            return Token("text", rule[place : at + 1], place, at + 1, "".join(letters))
        letters.append(letter)
        at += 1
    complain(rule, place, place + 1, "This quotation does not end.")


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
class Call(Node):
    """A calendar function of a column: ``week_of(arrival)``."""

    function: str
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
    Name
    | Literal_
    | Negative
    | Call
    | Arithmetic
    | Comparison
    | Membership
    | MissingTest
    | Negation
    | Connective
)


# ----------------------------------------------------------------------------------------
# From tokens to syntax. Nothing is ever evaluated as Python.
#
# ::
#
#     rule         any [ "implies" rule ]
#     any          all { "or" all }
#     all          one { "and" one }
#     one          "not" one | comparison
#     comparison   sum [ { sign sum } | ["not"] "in" list | "is" ["not"] "missing" ]
#     sum          product { ("+" | "-") product }
#     product      factor { "*" factor }
#     factor       "-" factor | number | text | "true" | "false" | name | function "(" sum ")" | "(" rule ")"
#     function     "year_of" | "quarter_of" | "month_of" | "week_of" | "weekday_of" | "day_of"
#                  | "month_name_of" | "weekday_name_of"
#     list         "(" item { "," item } ")" | "[" item { "," item } "]"

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


def parse_value(text: str) -> Expression:
    """Read the text of a derived column: a sum, as rules compare them.

    Examples
    --------
    >>> parse_value("check_out - check_in").sign
    '-'
    """
    return _Parser(text).value()


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

    def value(self) -> Expression:
        if self.token.kind == "end":
            self.wrong(self.token, "The derived column is empty.")
        tree = self.sum()
        token = self.token
        if token.text:
            self.wrong(token, f"Expected '+', '-', '*' or the end, not {token.text!r}.")
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
        if token.kind == "name" and not token.text.startswith("`") and self.token.text == "(":
            return self.call(token)
        if token.kind == "name":
            return Name(token.start, token.end, str(token.value))
        value = _constant(token)
        if value is not None:
            return Literal_(token.start, token.end, value)
        found = "the end of the rule" if token.kind == "end" else repr(token.text)
        self.wrong(token, f"Expected a column, a number or quoted text, not {found}.")

    def call(self, name: Token) -> Expression:
        function = str(name.value)
        if function not in CALENDAR:
            hint = did_you_mean(function, CALENDAR)
            self.wrong(name, f"No function named {function!r}.{hint} Functions: {', '.join(CALENDAR)}.")
        self.take()
        inside = self.deeper(self.sum)
        end = self.accept(")")
        if not end:
            self.wrong(self.token, "Expected ')' here.")
        return Call(name.start, end.end, function, inside)


def _constant(token: Token) -> int | float | str | bool | None:
    if token.kind == "word" and token.text in ("true", "false"):
        return token.text == "true"
    return token.value if token.kind in ("number", "text") else None
