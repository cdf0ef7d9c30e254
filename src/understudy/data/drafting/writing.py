"""How people write dates, numbers and missing entries: what a draft can say about text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.schema import read_date

_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%y", "%d/%m/%y",
         "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S")
_GROUPED = re.compile(r"\s*[-+]?[1-9]\d{0,2}(?:\.\d{3})+\s*", re.ASCII)
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+(?:,(\d+))?\s*", re.ASCII)
_SMALL = re.compile(r"\s*[-+]?\d{1,3}\s*", re.ASCII)
_SIGN = r"[$€£¥₹%]"
_PEOPLE = re.compile(
    rf"[-+]?\s*(?:{_SIGN}\s*|[A-Z]{{3}}\s+)?[-+]?\d+(?:[.,'’\s]\d{{3}})*(?:[.,]\d+)?(?:\s*{_SIGN}|\s+[A-Za-z]{{1,4}})?"
)
_LEADING_ZERO = re.compile(r"\s*[-+]?0\d")
_POINT = re.compile(r"\s*[-+]?\d*\.(\d*)\s*", re.ASCII)

NOT_KNOWN = frozenset(
    {"?", "na", "n/a", "n.a.", "#n/a", "nan", "nat", "null", "(null)", "<na>", "unknown", "not known", "missing",
     "not available", "not recorded", "-", "--", "."}
)  # fmt: skip
"""Spellings of a missing entry that are proposed wherever they occur, in lower case. ``none`` is often a value."""

MOST_DECIMALS = 6


def is_not_known(entry: Any) -> bool:
    """Whether an entry is a usual spelling of a missing one.

    Examples
    --------
    >>> is_not_known("?"), is_not_known(" Unknown "), is_not_known("none"), is_not_known(0)
    (True, True, False, False)
    """
    return isinstance(entry, str) and entry.strip().lower() in NOT_KNOWN


def has_leading_zeros(entries: Sequence[Any]) -> bool:
    """Whether some entry is text such as 007, which is a code and not a number."""
    return any(isinstance(entry, str) and _LEADING_ZERO.match(entry) is not None for entry in entries)


def date_formats(entries: Sequence[Any]) -> list[str]:
    """Return the usual formats in which every entry is a date.

    Examples
    --------
    >>> date_formats(["31.12.2019", "01.02.2020"]), date_formats(["1/2/2020"]), date_formats(["soon"])
    (['%d.%m.%Y'], ['%d/%m/%Y', '%m/%d/%Y'], [])
    >>> date_formats(["31.12.2019 23:15"])
    ['%d.%m.%Y %H:%M']
    """
    if not all(isinstance(entry, str) for entry in entries):
        return []
    formats = [day + time for day in _DAYS for time in _TIMES]
    return [
        format
        for format in formats
        if read_date(entries[0], format) and all(read_date(e, format) for e in entries)
    ]


def may_be_thousands(entries: Sequence[Any]) -> bool:
    """Whether the points in a column of numbers may separate thousands: then 10.000 would be read as ten.

    Examples
    --------
    >>> may_be_thousands(["10.000", "2.500", "900"]), may_be_thousands(["10.000", "2.5"]), may_be_thousands(["0.125"])
    (True, False, False)
    """
    if not all(isinstance(entry, str) for entry in entries):
        return False
    grouped = [bool(_GROUPED.fullmatch(entry)) for entry in entries]
    return any(grouped) and all(
        big or _SMALL.fullmatch(entry) for big, entry in zip(grouped, entries, strict=True)
    )


def has_decimal_commas(entries: Sequence[Any]) -> bool:
    """Whether entries are numbers whose commas are decimal ones: not where every comma is followed by three digits, which may be thousands.

    Examples
    --------
    >>> has_decimal_commas(["36,33", "60"]), has_decimal_commas(["0,125", "0,5"]), has_decimal_commas(["1,234", "900"])
    (True, True, False)
    >>> has_decimal_commas(["36.33", "60"]), has_decimal_commas(["1.234,50"]), has_decimal_commas(["1,5 kg"])
    (False, False, False)
    """
    if not all(isinstance(entry, str) for entry in entries):
        return False
    parts = [_DECIMAL_COMMA.fullmatch(entry) for entry in entries]
    fractions = [match[1] for match in parts if match is not None and match[1] is not None]
    return all(parts) and any(len(digits) != 3 for digits in fractions)


def written_for_people(entries: Sequence[Any]) -> bool:
    """Whether all entries are numbers with units, separators of thousands or decimal commas.

    Examples
    --------
    >>> written_for_people(["1.234,50 €", "17,00 €"]), written_for_people(["$1,200"]), written_for_people(["12 kg"])
    (True, True, True)
    >>> written_for_people(["north", "south"]), written_for_people(["V-1001", "A4"])
    (False, False)
    >>> written_for_people(["06032", "01792"])  # codes of digits, such as postal codes
    False
    """
    texts = [entry.strip() for entry in entries if isinstance(entry, str)]
    if len(texts) < len(entries) or all(text.isdigit() for text in texts):
        return False
    return all(_PEOPLE.fullmatch(text) for text in texts)


def decimals_of(entries: Sequence[Any], values: npt.NDArray[np.float64]) -> int | None:
    """Return how many digits follow the point in all entries, up to six; None if some have more.

    Examples
    --------
    >>> import numpy as np
    >>> decimals_of(["1.50", "2.25"], np.array([1.5, 2.25]))
    2
    >>> decimals_of([1.5, 1 / 3], np.array([1.5, 1 / 3])) is None
    True
    """
    if float(np.abs(values).max()) >= 1e8:  # digits beyond the fifteenth are not the table's
        return None
    if all(isinstance(entry, str) for entry in entries):
        if any("e" in entry.lower() for entry in entries):
            return None
        points = [_POINT.fullmatch(entry) for entry in entries]
        digits = max(0 if match is None else len(match[1]) for match in points)
        return digits if 1 <= digits <= MOST_DECIMALS else None
    for digits in range(1, MOST_DECIMALS + 1):
        if np.isclose(np.round(values, digits), values, rtol=1e-15, atol=0).all():
            return digits
    return None


def unit_of(decimals: int | None, values: npt.NDArray[np.float64]) -> float:
    """Return the smallest step between numbers: one in the last decimal, or a power of ten below every number but zero."""
    if decimals is not None:
        return float(f"1e-{decimals}")
    sizes = np.abs(values[values != 0])
    return 0.0 if not sizes.size else float(f"1e{max(-300, math.floor(math.log10(float(sizes.min()))))}")
