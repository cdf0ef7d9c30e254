"""Bins written the way people write them: ``<18``, ``18-19``, ``44<``, ``[0, 10)``, ``45+``.

A label stands for a span of numbers. The forms are:

=====================  =======================================================================
``7``                  the single value 7
``18-19``, ``18 to 19``  from 18 to 19, both included (also ``18..19`` and a typographic dash)
``<18``, ``<=17``      below 18; up to 17 (also ``18>`` and ``17>=``, read from left to right)
``44<``, ``>44``       above 44, as paper Births writes its last bins (also ``44<=``, ``>=45``, ``45+``)
``[0, 10)``            0 included, 10 excluded; an end may be ``inf``, ``-inf`` or empty
``...``                in a list: continue with bins of the same width up to the next label
=====================  =======================================================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from understudy.schema.problems import MAX_DOTS

__all__ = ["Span", "expand_labels", "parse_label", "show_number"]

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_SINGLE = re.compile(rf"({_NUMBER})", re.ASCII)
_RANGE = re.compile(rf"({_NUMBER})\s*(?:-|–|—|\.\.|to)\s*({_NUMBER})", re.ASCII)
_BEFORE = re.compile(rf"(<=|>=|<|>|≤|≥)\s*({_NUMBER})", re.ASCII)
_AFTER = re.compile(rf"({_NUMBER})\s*(<=|>=|<|>|≤|≥|\+)", re.ASCII)
_BRACKET = re.compile(
    rf"([\[(])\s*({_NUMBER}|[-+]?(?:inf|∞))?\s*,\s*({_NUMBER}|[-+]?(?:inf|∞))?\s*([\])])", re.ASCII
)
_ELLIPSES = frozenset({"...", "…"})


@dataclass(frozen=True)
class Span:
    """An interval of numbers; ``None`` is an open end.

    Whole numbers stay Python integers, so that bounds beyond 2**53 are exact.
    """

    low: int | float | None
    high: int | float | None
    low_included: bool = True
    high_included: bool = True

    @property
    def single(self) -> bool:
        """Whether the span is one number."""
        return self.low is not None and self.low == self.high


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)


def show_number(value: int | float) -> str:
    """Return a number as a person would write it: no trailing ``.0``, no rounding.

    Examples
    --------
    >>> show_number(10.0), show_number(0.1), show_number(-3)
    ('10', '0.1', '-3')
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(int(value)) if isinstance(value, int) else repr(float(value))


def parse_label(text: str) -> Span:
    """Read one label.

    Parameters
    ----------
    text
        The label, in one of the forms listed at the head of this module.

    Returns
    -------
    Span
        The interval it stands for.

    Raises
    ------
    ValueError
        If the text has none of those forms, or its ends are the wrong way round.

    Examples
    --------
    >>> parse_label("18-19")
    Span(low=18, high=19, low_included=True, high_included=True)
    >>> parse_label("44<").low, parse_label("44<").low_included
    (44, False)
    >>> parse_label("[0, 10)").high_included
    False
    """
    label = text.strip()
    span = _match(label)
    if span is None:
        raise ValueError(
            f"{text!r} is not a bin label; write for example '<18', '18-19', '44<', '>=45' or '[0, 10)'"
        )
    for end in (span.low, span.high):
        if end is not None and not math.isfinite(end):
            raise ValueError(f"{text!r} holds a number too large to be a bin end")
    if span.low is not None and span.high is not None:
        empty = span.low == span.high and not (span.low_included and span.high_included)
        if span.low > span.high or empty:
            raise ValueError(f"{text!r} holds no value: its ends are the wrong way round or excluded")
    return span


def _match(label: str) -> Span | None:
    if found := _SINGLE.fullmatch(label):
        value = _number(found[1])
        return Span(value, value)
    if found := _RANGE.fullmatch(label):
        return Span(_number(found[1]), _number(found[2]))
    if found := _BEFORE.fullmatch(label):
        return _one_sided(found[1], _number(found[2]))
    if found := _AFTER.fullmatch(label):
        mirrored = {"<": ">", "<=": ">=", "≤": ">=", ">": "<", ">=": "<=", "≥": "<=", "+": ">="}
        return _one_sided(mirrored[found[2]], _number(found[1]))
    if found := _BRACKET.fullmatch(label):
        low, high = _end(found[2], below=True), _end(found[3], below=False)
        if low is _WRONG or high is _WRONG:
            return None
        return Span(low, high, low_included=found[1] == "[", high_included=found[4] == "]")
    return None


_WRONG = math.nan


def _end(text: str | None, *, below: bool) -> int | float | None:
    if not text:
        return None
    if text[-1].isdigit() or text[-1] == ".":
        return _number(text)
    negative = text.startswith("-")
    return None if negative == below else _WRONG


def _one_sided(sign: str, value: int | float) -> Span:
    included = sign in {"<=", ">=", "≤", "≥"}
    if sign in {"<", "<=", "≤"}:
        return Span(None, value, high_included=included)
    return Span(value, None, low_included=included)


def expand_labels(labels: Sequence[str], *, whole: bool) -> tuple[list[str], list[Span]]:
    """Read a list of labels and write out every ``...`` in it.

    ``["<1500", "1500-1599", "...", "4400-4499", "4499<"]`` stands for 32 bins: the dots continue
    with bins as wide as the one before them, until they meet the one after them.

    Parameters
    ----------
    labels
        Labels in ascending order.
    whole
        Whether the values are whole numbers, so that ``18-19`` is followed by 20.

    Returns
    -------
    tuple of list
        The labels without dots, and their spans.

    Raises
    ------
    ValueError
        If a label cannot be read, or the dots do not meet the next label.

    Examples
    --------
    >>> expand_labels(["<18", "18", "...", "21", "21<"], whole=True)[0]
    ['<18', '18', '19', '20', '21', '21<']
    """
    texts: list[str] = []
    spans: list[Span] = []
    for position, label in enumerate(labels):
        if label.strip() not in _ELLIPSES:
            texts.append(label.strip())
            spans.append(parse_label(label))
            continue
        following = labels[position + 1] if position + 1 < len(labels) else "..."
        if not spans or following.strip() in _ELLIPSES:
            raise ValueError("'...' needs a bin before it and a bin after it")
        _continue(texts, spans, following, whole=whole)
    return texts, spans


def _continue(texts: list[str], spans: list[Span], following: str, *, whole: bool) -> None:
    before, after = spans[-1], parse_label(following)
    style = _style(texts[-1])
    if style is None or before.low is None or before.high is None or after.low is None:
        raise ValueError(
            "'...' can continue bins such as '7', '18-19' or '[0, 10)', "
            f"not {texts[-1]!r} up to {following!r}"
        )
    inclusive = whole and style in {"7", "7-8"}
    width = before.high - before.low + (1 if inclusive else 0)
    steps = (after.low - before.low) / width if width > 0 else 0.0
    count = round(steps)
    if width <= 0 or count < 1 or abs(steps - count) > 1e-9:
        raise ValueError(f"'...' does not lead from {texts[-1]!r} to {following!r} in equal steps")
    if count > MAX_DOTS:
        raise ValueError(
            f"'...' before {following!r} stands for more than {MAX_DOTS:,} bins; use edges or a count"
        )
    first, last = texts[-1][:1], texts[-1][-1:]
    for step in range(1, count):
        low = before.low + step * width
        high = before.high + step * width
        if style == "7":
            texts.append(show_number(low))
        elif style == "7-8":
            texts.append(f"{show_number(low)}-{show_number(high)}" if low >= 0 else f"{low} to {high}")
        else:
            texts.append(f"{first}{show_number(low)}, {show_number(high)}{last}")
        spans.append(Span(low, high, before.low_included, before.high_included))


def _style(label: str) -> str | None:
    if _SINGLE.fullmatch(label):
        return "7"
    if _RANGE.fullmatch(label):
        return "7-8"
    return "[7, 8)" if _BRACKET.fullmatch(label) else None
