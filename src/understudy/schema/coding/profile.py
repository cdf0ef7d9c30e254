"""What one raw entry looks like, by fixed public rules: a cell of a partition of everything that an entry can be.

The partition and the rules are the same for every table, and an entry is put into its cell by itself, whatever the other entries are. So
counts over the cells are a histogram, and nothing about a table decides how it is read.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np

from understudy.schema.coding.calendar import day_of, in_utc, read_date
from understudy.schema.coding.reading import days_since_epoch, is_nothing, number_of, real_of

__all__ = [
    "DATE_FORMATS",
    "DECADES",
    "MISSING_SPELLINGS",
    "MOST_DECIMALS",
    "PROFILE",
    "TRUTH_WORDS",
    "canonical_number",
    "day_in",
    "number_in",
    "profile_of",
    "text_of_entry",
]

MISSING_SPELLINGS = ("", "?", "na", "n/a", "#n/a", "nan", "nat", "null", "<na>", "-", "--", ".")
"""Spellings of a missing entry in every kind of column, in lower case and without blanks around them."""
TRUTH_WORDS = (("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"))
"""Pairs of truth words, false first. The numbers 0 and 1 are numbers."""
DECADES = range(-6, 15)
"""Powers of ten that have cells of their own; smaller and larger numbers have one cell on each side."""
MOST_DECIMALS = 4
"""Numbers with so many decimals or more share cells."""
_SMALL, _LARGE = 10.0**DECADES.start, 10.0**DECADES.stop
_DATES = {
    "Y-m-d": None,
    "Y-m-d time": None,
    "d.m.Y": "%d.%m.%Y",
    "d/m/Y": "%d/%m/%Y",
    "m/d/Y": "%m/%d/%Y",
    "d or m/Y": None,
    "Y/m/d": "%Y/%m/%d",
    "d-m-Y": "%d-%m-%Y",
}
DATE_FORMATS: tuple[tuple[str, str | None], ...] = tuple(
    (name, pattern) for name, pattern in _DATES.items() if name != "d or m/Y"
)
"""Ways to write a date, with the format that a date column reads each by (ISO dates need none)."""


def _labels() -> tuple[str, ...]:
    numbers = [
        f"number {sign}{size} {decimals}"
        for sign in "-+"
        for size in ("small", *(f"1e{power}" for power in DECADES), "large")
        for decimals in range(MOST_DECIMALS + 1)
    ]
    return (
        *(f"missing {word}" for word in MISSING_SPELLINGS),
        *(f"truth {word}" for pair in TRUTH_WORDS for word in pair),
        *(f"date {name}" for name in _DATES),
        "number 0",
        *numbers,
        "code",
        "text",
        "unusable",
    )


PROFILE = _labels()
"""The cells. Every entry is in exactly one of them."""
_PLACE = {label: place for place, label in enumerate(PROFILE)}

_COMMA = re.compile(r"[-+]?(?!\d{1,3},\d{3}$)\d+,\d+", re.ASCII)
"""A number with a decimal comma. Three digits after a comma, and at most three before it, may be thousands as well: such a text is no number."""
_DIGITS = re.compile(r"0\d+|\d{16,}", re.ASCII)
_DATE = re.compile(r"(\d{1,4})([./-])(\d{1,2})([./-])(\d{1,4})(?:[T ].*)?", re.ASCII | re.DOTALL)
_LONGEST = 400


def text_of_entry(entry: Any) -> str | None:
    """Return an entry as text, or None if there is nothing; every entry by itself, however the column is stored.

    Every object has an answer: what is neither a text, a truth value, a number nor a date of the years 1 to 9999 is one text that no column can read.

    A whole number reads alike whether its column is stored as whole numbers or, for the sake of another row, as doubles.

    Examples
    --------
    >>> text_of_entry(7), text_of_entry(7.0), text_of_entry("007"), text_of_entry(float("nan")), text_of_entry(True)
    ('7', '7', '007', None, 'True')
    """
    if isinstance(entry, str):
        return entry
    if is_nothing(entry):
        return None
    if isinstance(entry, bool | np.bool_):
        return str(bool(entry))
    if isinstance(entry, dt.date | np.datetime64):
        day = day_of(entry)
        if day is None:
            return "\0"
        moment = in_utc(entry) if isinstance(entry, dt.datetime) else None
        return day.isoformat() if moment is None or moment.time() == dt.time() else moment.isoformat(sep=" ")
    number = number_of(entry)
    if number is not None:
        return canonical_number(real_of(number))
    return "\0"  # not usable


def canonical_number(number: float) -> str:
    """Return the one text of a double.

    Examples
    --------
    >>> canonical_number(5.0), canonical_number(-0.0), canonical_number(0.25), canonical_number(1e300)
    ('5', '0', '0.25', '1e+300')
    """
    if number == 0:
        return "0"
    if math.isfinite(number) and abs(number) < _LARGE and number == int(number):
        return str(int(number))
    return repr(number)


def number_in(text: str) -> float | None:
    """Return the number that a text is, as a double, or None; digits that begin with zero, and very long ones, are codes.

    A decimal comma is read as a point. ``1,234`` may be a thousand or one and a bit, so it is no number.

    Examples
    --------
    >>> number_in(" 12.50"), number_in("007"), number_in("twelve"), number_in("0"), number_in("36,33"), number_in("1,234")
    (12.5, None, None, 0.0, 36.33, None)
    """
    plain = text.strip()
    if len(plain) > _LONGEST or _DIGITS.fullmatch(plain):
        return None
    if _COMMA.fullmatch(plain):
        plain = plain.replace(",", ".")
    number = number_of(plain)
    return None if number is None else real_of(number)


def day_in(text: str, format: str | None) -> int | None:
    """Return the day (since 1970) that a text is in a way of writing dates, or None."""
    day = read_date(text.strip(), format)
    return None if day is None else days_since_epoch(day)


@lru_cache(maxsize=1)
def _formats() -> dict[str, str | None]:
    return dict(DATE_FORMATS)


def profile_of(text: str | None) -> int:
    """Return the cell of `PROFILE` that an entry is in.

    Examples
    --------
    >>> [PROFILE[profile_of(text)] for text in (None, " ?", "Yes", "31/12/2020", "0", "-12.50", "007", "north")]
    ['missing ', 'missing ?', 'truth yes', 'date d/m/Y', 'number 0', 'number -1e1 1', 'code', 'text']
    """
    if text is None:
        return _PLACE["missing "]
    if len(text) > _LONGEST:
        return _PLACE["unusable"]
    plain = text.strip()
    lower = plain.lower()
    if lower in MISSING_SPELLINGS:
        return _PLACE[f"missing {lower}"]
    if any(lower in pair for pair in TRUTH_WORDS):
        return _PLACE[f"truth {lower}"]
    if _DIGITS.fullmatch(plain):
        return _PLACE["code"]
    number = number_in(plain)
    if number is not None:
        return _PLACE[_number_cell(number)]
    found = _DATE.fullmatch(plain)
    if found and found[2] == found[4]:
        name = _date_cell(plain, found)
        if name is not None:
            return _PLACE[f"date {name}"]
    return _PLACE["text" if plain.isprintable() else "unusable"]


def _number_cell(number: float) -> str:
    if number == 0:
        return "number 0"
    size, sign = abs(number), "-" if number < 0 else "+"
    if size < _SMALL or size >= _LARGE:
        return (
            f"number {sign}{'small' if size < _SMALL else 'large'} {0 if size >= _LARGE else MOST_DECIMALS}"
        )
    power = math.floor(math.log10(size))
    power += (size >= 10.0 ** (power + 1)) - (
        size < 10.0**power
    )  # a logarithm may be rounded to its neighbour
    exponent = Decimal(repr(size)).normalize().as_tuple().exponent
    decimals = min(MOST_DECIMALS, max(0, -exponent if isinstance(exponent, int) else 0))
    return f"number {sign}1e{min(max(power, DECADES.start), DECADES.stop - 1)} {decimals}"


def _date_cell(plain: str, found: re.Match[str]) -> str | None:
    """Return how a date is written; None if it is none."""
    first, mark, second = found[1], found[2], found[3]
    if mark == "-" and len(first) == 4:
        if day_in(plain, None) is None:
            return None
        return "Y-m-d" if len(plain) == 10 else "Y-m-d time"
    if mark == "/" and len(first) < 4:
        ways = [name for name in ("d/m/Y", "m/d/Y") if day_in(plain, _DATES[name]) is not None]
        return None if not ways else ways[0] if len(ways) == 1 else "d or m/Y"
    name = {".": "d.m.Y", "-": "d-m-Y", "/": "Y/m/d"}[mark]
    return name if day_in(plain, _DATES[name]) is not None and second else None
