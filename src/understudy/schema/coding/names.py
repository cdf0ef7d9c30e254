"""What the name of a column says by itself: its words, and the part of the calendar that it is named after. Names are public."""

from __future__ import annotations

import re

__all__ = ["NUMBER_WORDS", "calendar_range", "calendar_ranges", "words_of"]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
NUMBER_WORDS = frozenset({"nbr", "nr", "no", "num", "number", "nummer"})
"""Words for a number that tells things apart."""

_RANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "minute": ((0, 59),),
    "hour": ((0, 23), (1, 24)),
    "weekday": ((0, 6), (1, 7)),
    "day": ((1, 31),),
    "week": ((1, 53),),
    "month": ((1, 12),),
    "quarter": ((1, 4),),
}
_OTHER_WORDS = {
    "dow": "weekday",
    "wday": "weekday",
    "mday": "day",
    "dom": "day",
    "isoweek": "week",
    "hr": "hour",
}
_PHRASES: dict[tuple[str, ...], str] = {
    ("day", "of", "month"): "day",
    ("day", "of", "week"): "weekday",
    ("hour", "of", "day"): "hour",
    ("week", "of", "year"): "week",
    ("month", "of", "year"): "month",
}


def words_of(name: str) -> list[str]:
    """Return the words of a column's name in lower case, without trailing numbers.

    Examples
    --------
    >>> words_of("patient_nbr"), words_of("customerId"), words_of("diag_1"), words_of("ZIP code")
    (['patient', 'nbr'], ['customer', 'id'], ['diag'], ['zip', 'code'])
    """
    words = [word.lower() for word in _WORD.findall(name)]
    while words and words[-1].isdigit():
        words.pop()
    return words


def calendar_range(name: str, low: int, high: int) -> tuple[int, int] | None:
    """Return the range of a part of the calendar that a column is named after, if its numbers lie in it.

    Examples
    --------
    >>> calendar_range("arrival_day", 1, 30), calendar_range("arrival_date_week_number", 2, 53)
    ((1, 31), (1, 53))
    >>> calendar_range("hours_per_week", 1, 40), calendar_range("month", 0, 11), calendar_range("hour", 0, 22)
    (None, None, (0, 23))
    """
    return next(
        ((first, last) for first, last in calendar_ranges(name) if first <= low and high <= last), None
    )


def calendar_ranges(name: str) -> tuple[tuple[int, int], ...]:
    """Return the ranges that the part of the calendar or clock may have that a column is named after; none where it is not.

    Examples
    --------
    >>> calendar_ranges("arrival_day_of_month"), calendar_ranges("weekday"), calendar_ranges("hours_per_week")
    (((1, 31),), ((0, 6), (1, 7)), ())
    """
    words = words_of(name)
    while words and words[-1] in NUMBER_WORDS:
        words.pop()
    if not words or (len(words) > 1 and words[-2] in ("per", "in", "a", "last")):
        return ()
    part = _PHRASES.get(tuple(words[-3:]), _OTHER_WORDS.get(words[-1], words[-1]))
    if words[-2:-1] == ["of"] and tuple(words[-3:]) not in _PHRASES:
        return ()
    return _RANGES.get(part, ())
