"""How people write dates and numbers: what a draft can say about text that is neither plain nor a category."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from understudy.schema import read_date

__all__ = ["date_formats", "may_be_thousands", "written_for_people"]

_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%y", "%d/%m/%y",
         "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S")
_GROUPED = re.compile(r"\s*[-+]?[1-9]\d{0,2}(?:\.\d{3})+\s*", re.ASCII)
_SMALL = re.compile(r"\s*[-+]?\d{1,3}\s*", re.ASCII)
_SIGN = r"[$€£¥₹%]"
_PEOPLE = re.compile(
    rf"[-+]?\s*(?:{_SIGN}\s*|[A-Z]{{3}}\s+)?[-+]?\d+(?:[.,'’\s]\d{{3}})*(?:[.,]\d+)?(?:\s*{_SIGN}|\s+[A-Za-z]{{1,4}})?"
)


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
