"""Lists that everybody knows, series with gaps, and names that say what numbers are: which values there are beside those that were released.

Everything here is computed from released texts, the names of columns and public rules: post-processing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from functools import cache

from understudy.schema.coding.names import words_of
from understudy.schema.coding.profile import TRUTH_WORDS, number_in
from understudy.schema.hierarchies.shipped import shipped_list

__all__ = [
    "OLDEST",
    "YEARS",
    "completed",
    "in_order",
    "known_list",
    "names_a_year",
    "names_an_age",
    "public_order",
    "with_its_partner",
]

OLDEST = 120
"""Nobody is known to have lived longer, but for two or three: years."""
YEARS = (1900, 2100)
"""The first and the last calendar year that a column named after years is asked about one by one."""

_ORDERS = (
    (
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
)
"""Words whose order and number are public knowledge."""
_STATES = (
    "AL AK AZ AR CA CO CT DE DC FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR PA RI SC SD TN TX UT VT VA "
    "WA WV WI WY"
)
"""Postal codes of the states of the United States."""
_LEAST_KNOWN = 3
"""Fewer released texts do not tell which list they are of."""
_LEAST_ORDERED = 2
"""Of months and weekdays fewer do: two of them are hardly anything else, and one is not where the column is named after them."""
_NAMED_AFTER = frozenset({"month", "months", "weekday", "dow", "wday", "day", "monat", "wochentag"})
_WORTH = 0.5
"""Standard deviations of the noise per added value that the rest has to hold: a value that is empty gains about so much from noise."""
_NUMBER = r"-?\d+(?:\.\d+)?"
_BETWEEN = re.compile(
    rf"\s*(?:[\[(]\s*(?P<start>{_NUMBER})\s*(?:-|–|to|,)\s*{_NUMBER}\s*[\])]|(?P<least>{_NUMBER})\s*(?:-|–|to)\s*{_NUMBER})\s*"
)
"""An interval between two numbers, such as ``[0-25)`` or ``18-64``."""
_BEYOND = re.compile(rf"\s*(?:[<>≤≥]=?\s*(?P<start>{_NUMBER})|(?P<least>{_NUMBER})\s*\+)\s*")
"""An interval without an end, such as ``<18``, ``>=65`` or ``65+``."""
_NUMBERED = re.compile(r"(.*?)(?<!\d)(\d{1,4})(\D*)", re.ASCII | re.DOTALL)


def public_order(values: Collection[str], name: str = "") -> tuple[str, ...] | None:
    """Return months or weekdays in their order and complete, spelled as the ones that were found are; one is enough where the column is named after them.

    Examples
    --------
    >>> public_order(["Sun", "Mon", "Fri"])
    ('Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun')
    >>> public_order(["April"]), len(public_order(["April"], "arrival_month")), len(public_order(["May", "June"]))
    (None, 12, 12)
    """
    least = 1 if _NAMED_AFTER.intersection(words_of(name)) else _LEAST_ORDERED
    for words in _ORDERS:
        found = _spelled(values, words) if len(values) >= least else None
        if found is not None:
            return found
    return None


def in_order(values: Collection[str]) -> tuple[str, ...] | None:
    """Return intervals by the numbers that they begin with; None unless all values are intervals, and none begins where another does.

    Examples
    --------
    >>> in_order(["[0-25)", "[100-125)", "[25-50)"]), in_order(["18-64", "65+", "<18"])
    (('[0-25)', '[25-50)', '[100-125)'), ('<18', '18-64', '65+'))
    >>> in_order(["12-24", "V-3"]), in_order(["1", "2", "3"]), in_order(["3-4", "3-5"]), in_order(["1,000", "10-20"])
    (None, None, None, None)
    """
    begins: dict[tuple[float, bool], str] = {}
    between = 0
    for text in values:
        closed = _BETWEEN.fullmatch(text)
        match = closed or _BEYOND.fullmatch(text)
        if match is None:
            return None
        between += closed is not None
        start = match["start"] or match["least"]
        begins[float(start), not text.strip().startswith(("<", "≤"))] = text
    if len(values) < 2 or not between or len(begins) < len(values):
        return None
    return tuple(begins[place] for place in sorted(begins))


def names_a_year(name: str) -> bool:
    """Say whether a column is named after years of the calendar; its numbers may say otherwise.

    Examples
    --------
    >>> [names_a_year(name) for name in ("arrival_year", "YearBuilt", "year of birth", "visits_per_year", "years", "income last year")]
    [True, True, True, False, False, False]
    """
    words = words_of(name)
    if not words or (len(words) > 1 and words[-2] in ("per", "in", "a", "last", "this", "next", "of")):
        words = words[:1] * (words[-1:] != ["year"])
    return "year" in (words[:1] + words[-1:])


def names_an_age(name: str) -> bool:
    """Say whether a column is named after the age of people, in years; its numbers may say otherwise.

    Examples
    --------
    >>> [names_an_age(name) for name in ("age", "PatientAge", "age_at_admission", "age_in_months", "mortgage", "age_group")]
    [True, True, True, False, False, False]
    """
    words = words_of(name)
    return words[-1:] == ["age"] or words[:2] == ["age", "at"] or words[-2:] == ["age", "years"]


def with_its_partner(values: Collection[str]) -> tuple[str, str] | None:
    """Return both truth words of a pair, false first, where the one that was found is all there is; None where it is no truth word.

    The partner is spelled as the one that was found: in capitals, in small letters, or with a capital first.

    Examples
    --------
    >>> with_its_partner(["FALSE"]), with_its_partner(["yes"]), with_its_partner(["T"]), with_its_partner(["day"])
    (('FALSE', 'TRUE'), ('no', 'yes'), ('F', 'T'), None)
    """
    if len(values) != 1:
        return None
    (found,) = values
    for false, true in TRUTH_WORDS:
        for spell in (str.lower, str.upper, str.title):
            if found in (spell(false), spell(true)):
                return spell(false), spell(true)
    return None


def completed(values: Sequence[str], *, rest: float, noise: float, threshold: float) -> list[str]:
    """Return released values in their order, with those that a public list or a series of numbered names adds, if that is worth it.

    Parameters
    ----------
    values
        Released texts.
    rest
        About how many rows hold other texts.
    noise
        Standard deviation of the noise that a count of a fit has, about: each added value that is empty takes a part of it.
    threshold
        Rows that a text needed to be released: so the rest are at least so many values.

    Examples
    --------
    >>> completed(["Q1", "Q2", "Q4"], rest=900, noise=50, threshold=300)
    ['Q1', 'Q2', 'Q3', 'Q4', 'Q5', 'Q6']
    >>> completed(["R1", "R3", "S2", "S3", "T3"], rest=900, noise=50, threshold=300)
    ['R1', 'R2', 'R3', 'S1', 'S2', 'S3', 'T1', 'T2', 'T3']
    >>> completed(["Q1", "Q2", "Q4"], rest=0, noise=50, threshold=300)
    ['Q1', 'Q2', 'Q4']
    >>> len(completed(["CA", "TX", "NY"], rest=9000, noise=50, threshold=300))
    51
    """
    known = list(values)
    for candidates in (
        *(_spelled(known, words) for words in _lists()),
        _series(known, math.ceil(rest / threshold)),
    ):
        if candidates is None or len(known) < _LEAST_KNOWN:
            continue
        added = [text for text in candidates if text not in known]
        if added and rest > _WORTH * len(added) * noise:
            known += added
            break
    return sorted(known, key=_by_number)


def known_list(values: Collection[str]) -> bool:
    """Say whether values are all of one list that everybody knows: months, weekdays, states, countries, grades, a pair of truth words.

    Examples
    --------
    >>> known_list(["CA", "TX", "NY"]), known_list(["no", "yes"]), known_list(["Sales", "Self"])
    (True, True, False)
    """
    lists = (*_ORDERS, *_lists(), *TRUTH_WORDS)
    return any(_spelled(values, words) is not None for words in lists)


@cache
def _lists() -> tuple[tuple[str, ...], ...]:
    """Return lists without an order, the shortest first: texts of several lists are taken to be of the shortest."""
    grades = tuple(letter + digit for letter in "abcdefg" for digit in "12345")
    found = [grades, tuple(_STATES.lower().split())]
    found += [
        tuple(code.lower() for code in shipped_list(name))
        for name in ("iso-3166-alpha-2", "iso-3166-alpha-3")
    ]
    return tuple(sorted(found, key=len))


def _spelled(values: Collection[str], words: Sequence[str]) -> tuple[str, ...] | None:
    """Return a list of words in the spelling of the values, if all of them are of it."""
    if not all(text.strip().lower() in words for text in values):
        return None
    for spell in (str.title, str.upper, str.lower):
        for left in ("", " "):
            whole = tuple(left + spell(word) for word in words)
            if all(text in whole for text in values):
                return whole
    return None


def _series(values: Sequence[str], unseen: int) -> list[str] | None:
    """Return numbered names without gaps, such as ``emp_1`` to ``emp_9``; names that end in letters from the first to the last, such as ``R1`` to ``T3``.

    ``unseen`` values more are there, at least: a series that begins with 0 or 1 goes on that far. At most twice as many as were released: a sparse series is not one.
    """
    parts = [match for match in map(_NUMBERED.fullmatch, values) if match]
    names = sorted({part[1] for part in parts})
    if len(names) > 1 and len({name[:-1] for name in names}) > 1:  # the largest group of one name
        name = max(names, key=lambda name: sum(part[1] == name for part in parts))
        parts, names = [part for part in parts if part[1] == name], [name]
    widths = {len(part[2]) for part in parts}
    padded = any(part[2].startswith("0") and len(part[2]) > 1 for part in parts)
    if len(parts) < _LEAST_KNOWN or len({part[3] for part in parts}) > 1 or (padded and len(widths) > 1):
        return None
    if len(names) > 1:
        letters = [name[-1:] for name in names]
        if not all(letter.isascii() and letter.isalpha() for letter in letters):
            return None
        names = [names[0][:-1] + chr(code) for code in range(ord(letters[0]), ord(letters[-1]) + 1)]
    numbers = [int(part[2]) for part in parts]
    first, last = min(numbers), max(numbers)
    if len(names) == 1 and first <= 1:
        last += max(0, unseen - (last - first + 1 - len(numbers)))
    if len(names) * (last - first + 1) > 2 * len(parts):
        return None
    width = widths.pop() if padded else 1
    return [f"{name}{number:0{width}d}{parts[0][3]}" for name in names for number in range(first, last + 1)]


def _by_number(text: str) -> tuple[bool, float, str]:
    number = number_in(text)
    return number is None, 0.0 if number is None else number, text
