"""Cutting the text of a constraint into tokens, and pointing at the place where something is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NoReturn

from understudy.errors import ConstraintError
from understudy.schema.limits import MAX_RULE_LENGTH

__all__ = ["KEYWORDS", "Token", "complain", "tokenize"]

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
