"""From released answers about a column to the column of a schema, or to the reason why there is none.

Everything here is computed from released numbers and texts, the header and public rules: post-processing.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, ReleasedKeys, SealedCounts
from understudy.discovery.profiles import SOME, UNSEEN, Profile, deviation
from understudy.discovery.public_lists import (
    OLDEST,
    completed,
    in_order,
    names_an_age,
    public_order,
    with_its_partner,
)
from understudy.discovery.ranges import Ranges, by_month, marked_day, months_of, settled
from understudy.schema import Boolean, Categorical, Column, Date, Integer, Ordinal, Real
from understudy.schema.coding.calendar import show_day
from understudy.schema.coding.names import calendar_range, calendar_ranges
from understudy.schema.coding.profile import (
    DECADES,
    MISSING_SPELLINGS,
    PROFILE,
    canonical_number,
    number_in,
    profile_of,
)

__all__ = [
    "LEAST_HELD",
    "Descent",
    "Found",
    "column_of",
    "holds_all",
    "holds_numbers",
    "missing_number",
    "number_counts",
    "suspected_numbers",
    "word_counts",
]

Array = npt.NDArray[np.float64]

_ALL = 0.98
"""The share of a column's numbers that frequent values have to hold for the column to be those values."""
LEAST_HELD = 0.1
"""A column of text whose frequent values hold less than this share of its entries is left out."""
_MOST_WORDS = 3
"""How many frequent words a column of numbers has at most; one with more is text."""
_EXPLAINED = 0.8
"""The share of the entries that are no numbers which frequent words have to hold, as far as can be told from noise."""
_CODES = 24
"""Where frequent texts hold nearly all of a column, and so many of them or fewer are numbers, it loses nothing as text."""
_CYCLES = ((1, 7), (1, 12), (0, 23), (1, 31), (1, 53), (0, 59))
"""Ranges of whole numbers that calendars and clocks have."""
_IDLE, _HIDDEN, _NOTHING = 0.25, 0.1, 0.005
"""A calendar of more than 31 parts of which more than the first share holds nothing is not what the numbers of a column are, whatever its name says, if no more than the second share of the rows can be
hidden there; so few of the rows are nothing."""
_SENTINELS = (-9.0, -99.0, -999.0, -9999.0)
"""Numbers that stand for a missing entry where no other number is negative."""
_CHILD = 10
"""Ages that seem to begin here or below may begin at 0: what lies below gets a range of its own."""
_NEARLY_ALL = 0.9
"""A range of several values that holds more than this share of a column resolves nothing."""
_WIDE, _WIDE_VALUES = 0.3, 4
"""A last range that is more than this share of the whole reach (half of it in a heavy tail), and more than so many whole numbers, is said to be wide."""
_HEAVY = 3.0
"""Where ranges end above so many times their middle edge, the tail is said to be heavy."""
_NEAR_ZERO = 5
"""Where whole numbers begin with a range of so many values from 1 on, it has room for 0, which the noise may hide."""


@dataclass(frozen=True)
class Found:
    """A column that was found, and what a person should know about it: computed from released numbers, as the column is.

    Attributes
    ----------
    missing
        The share of the rows without an entry, in words; *none* where there is no place for them.
    others
        What becomes of every other entry, and how many there are where that is known.
    remarks
        What the column does not show, and what can be done about it.
    """

    column: Column
    missing: str
    others: str
    remarks: tuple[str, ...] = ()


@dataclass(eq=False)
class Descent:
    """One column whose ranges are being refined.

    Attributes
    ----------
    rounds, cost
        How many rounds there are, and what each costs.
    suspected
        Numbers that may stand for a missing entry: each has a range of its own, so that the rounds count it. With the edge where that range ends.
    finest
        The step between possible whole numbers.
    unit
        The step between possible numbers.
    counts, sigma, sure
        Of the last round, in its cells: below the first edge, ranges, above the last edge, nothing.
    """

    name: str
    edges: list[Any]
    rounds: int
    cost: float
    seal: Callable[[Curator, Sequence[Any]], SealedCounts]
    split: Callable[[Any, Any, float], list[Any]]
    alone: frozenset[Any] = frozenset()
    roundness: Callable[[Any], int] = lambda edge: 0
    tails: Callable[[Any, Any], tuple[Any, Any]] = lambda low, high: (None, None)
    suspected: Mapping[Any, Any] = field(default_factory=dict)
    finest: Any = None
    unit: Any = None
    asked: list[Any] = field(default_factory=list)
    counts: Array = field(default_factory=lambda: np.zeros(0))
    sigma: Array = field(default_factory=lambda: np.zeros(0))
    sure: float = 0.0


def number_counts(keys: ReleasedKeys | None) -> list[tuple[float, int]]:
    """Return the numbers among frequent texts, with their noisy counts; spellings of one number are added up."""
    found: dict[float, int] = {}
    for text, many in () if keys is None else keys.counts.items():
        number = number_in(text)
        if number is not None and abs(number) < 10.0**DECADES.stop:
            found[number] = found.get(number, 0) + many
    return sorted(found.items())


def word_counts(keys: ReleasedKeys | None) -> dict[str, int]:
    """Return the words among frequent texts, with their noisy counts: texts that are neither numbers, codes of digits, dates, nor spellings of missing entries.

    Texts of digits and marks without a letter, such as ``1,234``, ``<5`` or ``10-20``, are no words: they are amounts that no rule reads.
    """
    return {
        text: many
        for text, many in ({} if keys is None else keys.counts).items()
        if PROFILE[profile_of(text)].startswith(("text", "truth "))
        and (any(map(str.isalpha, text)) or not any(map(str.isdigit, text)))
    }


def holds_numbers(profile: Profile, keys: ReleasedKeys) -> bool:
    """Whether a column of numbers and words is one of numbers, whose few frequent words stand for missing entries.

    It is text where frequent texts hold nearly all of it and few of them are numbers; where its words are many, as codes are; and where the rows of words that
    would become one with the most frequent of them matter beside those of numbers.
    """
    numbers, words = number_counts(keys), word_counts(keys)
    # beside one word, which is written as it is, ranges find rarer numbers of one or two digits
    enough = _ALL if len(words) == 1 and profile.small else 0.9
    if len(numbers) <= _CODES and sum(keys.counts.values()) >= enough * (profile.entries + profile.missing):
        return False
    if not words:  # none that is frequent enough to be released can be there
        return profile.words < keys.threshold and profile.numbers > 0.5 * profile.entries
    held = sum(words.values())
    noise = math.hypot(deviation(keys.noise) * len(words) ** 0.5, profile.sigma)
    hidden = profile.words - held
    return (
        len(words) <= _MOST_WORDS
        and hidden <= max((1 - _EXPLAINED) * profile.words, 2 * noise)
        and hidden <= 0.5 * profile.words
        and held - max(words.values()) <= 0.5 * profile.numbers
    )


def holds_all(profile: Profile, keys: ReleasedKeys | None) -> bool:
    """Whether the frequent values of a column of numbers are nearly all of it."""
    return sum(many for _, many in number_counts(keys)) >= _ALL * max(profile.numbers, 1.0)


def column_of(
    name: str,
    profile: Profile,
    kind: str,
    keys: ReleasedKeys | None,
    descent: Descent | None,
    rows: float,
) -> Found | str:
    """Return a column and what is to be said of it, or the reason why it is left out."""
    if kind == "nothing" and _mostly_missing(profile, rows):
        bare = _bare_column(name, profile, keys)
        return Found(bare, _missing_share(bare, profile, keys, rows), "other")
    if kind == "nothing":
        return "too few entries stand out of the noise; ask for a larger share of the budget, or declare the column"
    if kind == "unusable":
        return "most entries are long texts, have control characters, or are neither text nor numbers"
    if kind == "truth":
        column = Boolean(name, missing=True, out_of_domain="to-missing", origin="measured")
        return Found(column, _missing_share(column, profile, keys, rows), "missing")
    if kind == "text" and keys is None:
        return "its entries are text, and finding texts takes a delta; give one, or declare the values of the column"
    if kind in ("text", "code"):
        assert keys is not None
        profile = profile.beside(keys)
        made = _text_column(name, profile, keys, rows)
        return made if isinstance(made, str) else _of_texts(made, profile, keys, rows)
    if descent is None:
        made = _values_column(name, profile, keys, rows)
        if isinstance(made, str):
            return made
        return Found(made, _missing_share(made, profile, keys, rows), "nearest")
    return _ranges_found(name, profile, kind, keys, descent, rows)


def _of_texts(column: Column, profile: Profile, keys: ReleasedKeys, rows: float) -> Found:
    """Return what is to be said of a column of texts: what becomes of other texts, and how many rows have one."""
    kept = {text: many for text, many in keys.counts.items() if text.strip().lower() not in MISSING_SPELLINGS}
    noise = math.hypot(deviation(keys.noise) * max(1, len(kept)) ** 0.5, profile.sigma)
    rest = rows - profile.missing - sum(kept.values())
    # of values that a public list has brought nobody knows how many rows hold them
    listed = not set(column.labels[: column.value_count]) <= set(kept)
    hidden = _share(rest, noise, rows)
    remarks: list[str] = []
    if column.out_of_domain == "to-nearest":
        label = column.labels[column.stray_code]
        most = kept and label == max(kept, key=lambda text: kept[text])
        others = f"counted as {label!r}{' (the most frequent)' if most else ''}"
    else:
        others = column.out_of_domain.removeprefix("to-")
        if not listed and rest > max(0.5 * rows, 2 * noise):
            remarks.append(
                f"most of its rows ({hidden}) have a text that is too rare to be released; where a classification is public, declare the column with it "
                "(docs/how-to/hierarchies.md), or draft and declare its values (docs/how-to/draft-a-schema.md)"
            )
    if not listed and rest + 2 * noise > 0:
        others += f", {hidden}"
    return Found(column, _missing_share(column, profile, keys, rows), others, tuple(remarks))


def _share(many: float, noise: float, rows: float) -> str:
    """Say which share of the rows a noisy count is, or at most may be where it does not stand out of its noise.

    Examples
    --------
    >>> _share(300.0, 20.0, 1000.0), _share(10.0, 20.0, 1000.0), _share(-10.0, 1.0, 1000.0)
    ('about 30 %', 'up to 5 %', 'up to 0.1 %')
    """
    clear = many > 2 * noise
    share = many / rows if clear else max(2 * noise + many, noise) / rows
    return f"{'about' if clear else 'up to'} {100 * min(share, 1.0):.2g} %".replace("1e+02", "100")


def _missing_share(
    column: Column,
    profile: Profile,
    keys: ReleasedKeys | None,
    rows: float,
    counted: tuple[float, float] | None = None,
) -> str:
    """Say which share of the rows has no entry; some ranges counted them, with a standard deviation."""
    if not column.missing:
        return "none"
    if counted is not None:
        return _share(*counted, rows)
    many = profile.missing
    if keys is not None:
        spelled = {str(value) for value in column.missing_values}
        many += sum(
            n
            for text, n in keys.counts.items()
            if text in spelled and text.strip().lower() not in MISSING_SPELLINGS
        )
    empty = float(profile.counts[PROFILE.index("missing ")])
    return _share(many if many else empty, profile.sigma, rows)


def _ranges_found(
    name: str, profile: Profile, kind: str, keys: ReleasedKeys | None, descent: Descent, rows: float
) -> Found | str:
    """Return a column of ranges of numbers or dates, or the reason why it is left out."""
    absent = missing_number(profile, keys) or _missing_in(descent)
    nothing = [(float(descent.counts[-1]), float(descent.sigma[-1]))]
    alone = 0.0
    if absent is not None:
        alone = _count_of(descent, keys, absent)
        nothing.append((alone, float(descent.sigma[-1])))
    hinted = absent is None and _hints(descent, rows)
    is_age = kind == "number" and names_an_age(name)
    below = range(descent.edges.index(Decimal(0)) + 1) if is_age else range(0)
    marks = {descent.edges.index(number) + 1 for number in descent.suspected}
    if absent is not None or (is_age and not _stand_out(descent, [k for k in below if k not in marks])):
        descent = _from_zero(descent)
    else:
        descent = _unsuspecting(descent)
    if is_age:
        descent = _like_ages(descent)
    mark = marked_day(descent.edges, descent.counts, descent.sigma) if kind == "date" else None
    if mark is not None:
        edges, counts, sigma = by_month(descent.edges, descent.counts, descent.sigma)
        descent = replace(descent, edges=edges, counts=counts, sigma=sigma)
    ranges = settled(
        descent.edges,
        descent.counts,
        sigma=descent.sigma,
        sure=descent.sure,
        alone=descent.alone,
        roundness=descent.roundness,
        tails=descent.tails,
        finest=descent.finest,
        split=descent.split if kind == "number" else None,
    )
    if ranges is None and kind == "number":
        ranges = _of_decades(profile)
    if ranges is None:
        return "no range stands out of the noise; ask for a larger share of the budget, or declare the column"
    if kind == "date":
        months = None if mark is None else months_of(ranges, mark)
        column: Column = _date_column(
            name, profile, months or ranges, rows, _beside(descent), exact=months is not None
        )
    else:
        shared = _of_numbers(profile, rows, keys, absent=absent, many=alone, rest=_beside(descent))
        if (
            is_age
            and (hinted or ("missing" in shared and absent is None))
            and ranges.edges[0] >= 0
            and not ranges.below
        ):
            # nobody is -99 years old, whether or not the noise hides that some are said to be
            shared = {"missing_text": ""} | shared | {"missing": True}
            shared["missing_values"] = (*shared.get("missing_values", ()), *map(int, _SENTINELS))
        if is_age and 0 < ranges.edges[0] <= _CHILD and not ranges.below:
            ranges = replace(ranges, edges=(Decimal(0), *ranges.edges))
        if is_age and not ranges.above and ranges.edges[-2] < 100 < ranges.edges[-1]:
            ranges = replace(ranges, edges=(*ranges.edges[:-1], Decimal(100), ranges.edges[-1]))
        column = _cycle_column(name, profile, descent, ranges, shared, rows) or _number_column(
            name, profile, ranges, shared
        )
    many, spread = (sum(item[0] for item in nothing), math.hypot(*(item[1] for item in nothing)))
    return Found(
        column,
        _missing_share(column, profile, keys, rows, (many, spread)),
        "nearest",
        tuple(_about_ranges(column, profile, kind, descent, ranges, rows)),
    )


def _about_ranges(
    column: Column, profile: Profile, kind: str, descent: Descent, ranges: Ranges[Any], rows: float
) -> list[str]:
    """Say what the ranges of a column do not show: a range that resolves nothing, a wide last one and what lies above it, times of day."""
    said: list[str] = []
    if kind == "date" and float(profile.counts[PROFILE.index("date Y-m-d time")]) > profile.least:
        said.append("times of day are not kept: synthetic entries are days")
    bins = column.to_dict().get("bins")
    if bins is None:
        return said
    shown = bins["edges"] if isinstance(bins, dict) else bins
    edges, held = list(ranges.edges), [0.0] * (len(ranges.edges) - 1)
    for start, many in zip(descent.edges, descent.counts[1:], strict=False):
        place = bisect.bisect_right(edges, start) - 1
        if 0 <= place < len(held):
            held[place] += max(0.0, float(many))
    fullest = max(range(len(held)), key=lambda place: held[place])
    step = 1 if kind == "date" or profile.whole else 0
    if held[fullest] > _NEARLY_ALL * sum(held) and edges[fullest + 1] - edges[fullest] > step:
        said.append(
            f"one bin, {shown[fullest]} to {shown[fullest + 1]}, holds nearly all rows: values inside it are not resolved; declare the column, or allow a larger share"
        )
    wide = float(edges[-1] - edges[-2])
    heavy = edges[0] >= 0 and edges[-1] > _HEAVY * float(edges[len(edges) // 2])
    share = _WIDE / 2 if heavy else _WIDE
    if kind == "date" or wide <= max(share * float(edges[-1] - edges[0]), _WIDE_VALUES * step):
        return said
    above = [k + 1 for k, edge in enumerate(descent.edges) if edge >= edges[-1]]
    many, noise = float(descent.counts[above].sum()), float((descent.sigma[above] ** 2).sum()) ** 0.5
    seen = f" ({_share(many, noise, rows)} of the rows)" if many > 2 * noise else ""
    said.append(
        f"the last bin, {shown[-2]} to {shown[-1]}, is wide: its rows are spread over all of it, and what lies above {shown[-1]}{seen} counts in it"
        f"{', so that means of heavy tails come out low' if heavy else ''}; declare a maximum, or bins, if they are public"
    )
    return said


def _count_of(descent: Descent, keys: ReleasedKeys | None, number: float) -> float:
    """Return the noisy count of a number that stands for a missing entry: of its texts, or of the range that holds it alone."""
    many = dict(number_counts(keys)).get(number)
    if many is not None:
        return float(many)
    return float(descent.counts[descent.edges.index(Decimal(int(number))) + 1])


def _hints(descent: Descent, rows: float) -> bool:
    """Whether one of the suspected numbers may occur: it holds more than noise usually does, or the noise may hide a share of the rows that matters."""
    places = [descent.edges.index(number) + 1 for number in descent.suspected]
    return any(
        descent.counts[k] > SOME[bool(descent.sigma[k] > UNSEEN * rows)] * descent.sigma[k] for k in places
    )


def _like_ages(descent: Descent) -> Descent:
    """Return ranges from 0 to what people live to be at most, where nothing outside of that stands out: that much is public of a column called age."""
    zero = descent.edges.index(Decimal(0))
    if not _stand_out(descent, range(zero + 1)):
        descent = _from_zero(descent)
    end = next((edge for edge in descent.edges if edge >= OLDEST), None)
    if end is None:
        return descent
    place = descent.edges.index(end)
    if _stand_out(descent, range(place + 1, len(descent.counts) - 1)):
        return descent
    known, tails = end, descent.tails

    def ends(low: Any, high: Any) -> tuple[Any, Any]:
        below, above = tails(low, high)
        return below, None if high >= known or above is None else min(above, known)

    return replace(
        descent,
        edges=descent.edges[: place + 1],
        counts=np.concatenate([descent.counts[: place + 1], [0.0], descent.counts[-1:]]),
        sigma=np.concatenate([descent.sigma[: place + 2], descent.sigma[-1:]]),
        tails=ends,
    )


def _stand_out(descent: Descent, cells: Sequence[int]) -> bool:
    """Whether some cells, one by one or together, hold more than noise."""
    counts, sigma = descent.counts[list(cells)], descent.sigma[list(cells)]
    return (
        bool((counts > descent.sure * sigma).any())
        or float(counts.sum()) > 3 * float((sigma**2).sum()) ** 0.5
    )


def _of_decades(profile: Profile) -> Ranges[Decimal] | None:
    """Return the decades that the first question saw, for a column of which no range stands out; the digits where numbers have one; None if it saw none of positive numbers."""
    edges: set[Decimal] = set()
    for sign, power, many in profile.decades():
        if sign > 0 and many > 0:
            edges |= {Decimal(10) ** power, Decimal(10) ** (power + 1)}
    if not edges:
        return None
    if profile.whole and Decimal(1) in edges:
        edges |= {Decimal(digit) for digit in range(10)}
    return Ranges(tuple(sorted(edges | {Decimal(0)})), False, False)


def _cycle_column(
    name: str, profile: Profile, descent: Descent, ranges: Ranges[Any], shared: Mapping[str, Any], rows: float
) -> Column | None:
    """Return a column of the calendar or clock that its name says, which is public, unless the counts say that there is more, or that most of it is empty: weeks of a pregnancy."""
    if not profile.whole:
        return None
    sigma = float(descent.sigma.max())
    found: list[tuple[float, tuple[int, int]]] = []
    for first, last in calendar_ranges(name):
        beyond = [
            float(many)
            for edge, many in zip(descent.edges, descent.counts[1:], strict=False)
            if edge > last or edge < min(first, 0)
        ]
        beyond.append(float(descent.counts[0]))
        if max(beyond) <= descent.sure * sigma and sum(beyond) <= 3 * sigma * len(beyond) ** 0.5:
            outside = [
                float(many)
                for edge, many in zip(descent.edges, descent.counts[1:], strict=False)
                if not first <= edge <= last
            ]
            found.append((sum(outside), (first, last)))
    if not found:
        return None
    low, high = min(found)[1]
    idle = [
        k + 1
        for k, edge in enumerate(descent.edges[:-1])
        if low <= edge <= high and not ranges.edges[0] <= edge < ranges.edges[-1]
    ]
    hidden = 2 * float((descent.sigma[idle] ** 2).sum()) ** 0.5
    held = float(descent.counts[idle].sum())
    if (
        high - low >= 31
        and len(idle) > _IDLE * (high - low + 1)
        and hidden <= _HIDDEN * rows
        and held <= max(hidden, _NOTHING * rows)
    ):
        return None
    return Integer(name, minimum=low, maximum=high, **shared)


def _missing(profile: Profile, keys: ReleasedKeys | None) -> list[str]:
    """Return spellings of missing entries: as found among frequent texts, or in the usual forms."""
    found = (
        [] if keys is None else [text for text in keys.counts if text.strip().lower() in MISSING_SPELLINGS]
    )
    spelled = {text.strip().lower() for text in found}
    for word in profile.missing_spellings():
        if word not in spelled:
            found += [word, word.upper()]
    return [text for text in dict.fromkeys(found) if text]


def _text_column(name: str, profile: Profile, keys: ReleasedKeys, rows: float) -> Column | str:
    missing = _missing(profile, keys)
    values = {text: many for text, many in keys.counts.items() if text not in missing and text != "other"}
    values = {text: many for text, many in values.items() if text.strip().lower() not in MISSING_SPELLINGS}
    if not values and _mostly_missing(profile, rows):
        return _bare_column(name, profile, keys)
    if not values:
        return (
            f"no text occurs often enough to be released (at least {keys.threshold:,} rows, noise included)"
        )
    if sum(values.values()) < LEAST_HELD * (profile.entries or rows):
        return "frequent texts hold next to nothing of the column: most entries are unique or rare"
    shared: dict[str, Any] = {"out_of_domain": "to-other", "origin": "measured"}
    order = public_order(values, name)
    rest = max(0.0, rows - profile.missing - sum(values.values()))
    truth = None if profile.numbers else with_its_partner(values)
    if missing or profile.missing > 0 or profile.may_be_missing(rows):
        shared |= {"missing": True, "missing_values": tuple(missing), "missing_text": _written(keys)}
        if order is not None or rest < 2 * profile.sigma:  # one cell for what is nowhere else is enough
            shared["out_of_domain"] = "to-missing"
    elif _holds_texts(profile, values, keys, rows, rest):
        shared["out_of_domain"] = "to-nearest"
    order = order or in_order(values)
    if order is not None:
        return Ordinal(name, values=order, **shared)
    if truth is not None:
        return Categorical(name, values=truth, **shared)
    whole = completed(list(values), rest=rest, noise=deviation(keys.noise), threshold=keys.threshold)
    if shared["out_of_domain"] == "to-nearest":  # a stray entry counts with the first value
        whole = sorted(whole, key=lambda text: text != max(values, key=lambda known: values[known]))
    return Categorical(name, values=whole, **shared)


def _mostly_missing(profile: Profile, rows: float) -> bool:
    """Whether missing entries are surely most of a column: then it is worth keeping although nothing is known of the others."""
    return profile.missing > 0.5 * rows


def _bare_column(name: str, profile: Profile, keys: ReleasedKeys | None) -> Column:
    """Return a column that says of an entry only whether it is there: every entry is *other*, beside a word that a list of values needs."""
    return Categorical(
        name,
        values=["present"],
        missing=True,
        missing_values=tuple(_missing(profile, keys)),
        missing_text=_written(keys),
        out_of_domain="to-other",
        origin="measured",
    )


def _holds_texts(
    profile: Profile, values: Mapping[str, int], keys: ReleasedKeys, rows: float, rest: float
) -> bool:
    """Whether the released texts of a column are all of it, as far as can be told from noise, and the noise hides nothing that matters."""
    noise = math.hypot(deviation(keys.noise) * len(values) ** 0.5, profile.sigma)
    return rest <= noise and max(rest, 0.0) + noise <= UNSEEN * rows


def _values_column(name: str, profile: Profile, keys: ReleasedKeys | None, rows: float) -> Column | str:
    absent = missing_number(profile, keys)
    numbers = [number for number, _ in number_counts(keys) if number != absent]
    if not numbers:
        return "its only frequent number is one that stands for a missing entry; declare the column"
    many = 0.0 if absent is None else float(dict(number_counts(keys))[absent])
    shared = _of_numbers(profile, rows, keys, absent=absent, many=many)
    if not all(number == int(number) for number in numbers):
        return Real(name, values=tuple(numbers), decimal=",", **shared)
    whole = [int(number) for number in numbers]
    low, high = whole[0], whole[-1]
    named = calendar_range(name, low, high)
    if named is not None:
        return Integer(name, minimum=named[0], maximum=named[1], **shared)
    for first, last in _CYCLES:
        if first <= low and high <= last and len(whole) >= 0.7 * (last - first + 1):
            return Integer(name, minimum=first, maximum=last, **shared)
    if len(whole) == high - low + 1 and sum(many for _, many in number_counts(keys)) > 0.99 * profile.numbers:
        return Integer(name, minimum=low, maximum=high, **shared)
    if len(whole) >= 0.8 * (high - low + 1):
        edges = list(range(low, high + 2))
        return Integer(name, bins={"edges": edges, "open": "both"}, decode_by="smooth", **shared)
    return Integer(name, values=tuple(whole), **shared)


def _of_numbers(
    profile: Profile,
    rows: float,
    keys: ReleasedKeys | None = None,
    *,
    absent: float | None = None,
    many: float = 0.0,
    start: str = "number ",
    rest: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Return what every measured column of numbers or dates says: a number goes to the nearest range, and what is no number is missing, whatever it is.

    Where no missing entry stands out of the noise there is no place for one, so that noise alone puts none into synthetic rows; a stray entry then counts with the middle range.
    A number that stands for a missing entry, in so many rows, is written in the synthetic rows if it is the most frequent spelling, empty fields among them.
    """
    spelled: list[str | int | float] = [text for text in _missing(profile, keys) if number_in(text) is None]
    words = word_counts(keys)
    spelled += [text for text in sorted(words, key=lambda text: -words[text]) if text not in spelled]
    if absent is not None:
        spelled.append(int(absent))
    shared: dict[str, Any] = {"out_of_domain": "to-nearest", "origin": "measured"}
    if absent is None and not spelled and profile.lacks(rows, start, rest):
        return shared
    written = _written(keys, words)
    most = max(
        words.get(written, 0),
        0 if keys is None else keys.counts.get(written, 0),
        float(profile.counts[PROFILE.index("missing ")]),
    )
    if absent is not None and many > most:
        written = _spelling_of(keys, absent)
    return shared | {"missing": True, "missing_values": tuple(spelled), "missing_text": written}


def _spelling_of(keys: ReleasedKeys | None, number: float) -> str:
    """Return how a number is most often written among released texts; as plain digits where none was released."""
    texts = {} if keys is None else {text: n for text, n in keys.counts.items() if number_in(text) == number}
    return max(texts, key=lambda text: texts[text]) if texts else canonical_number(number)


def _written(keys: ReleasedKeys | None, words: Mapping[str, int] = MappingProxyType({})) -> str:
    """Return how missing entries are written: the most frequent spelling that was released, or word that stands for one; nothing where none was."""
    spelled = dict(words)
    for text, many in ({} if keys is None else keys.counts).items():
        if text.strip().lower() in MISSING_SPELLINGS:
            spelled[text] = many
    return max(spelled, key=lambda text: spelled[text]) if spelled else ""


def _number_column(name: str, profile: Profile, ranges: Ranges[Decimal], found: Mapping[str, Any]) -> Column:
    shared = dict(found)
    edges = [int(edge) if profile.whole else float(edge) for edge in ranges.edges]
    single = (
        profile.whole and not ranges.below and not ranges.above and edges[-1] - edges[0] == len(edges) - 1
    )
    if single and len(edges) > 2:
        return Integer(name, minimum=int(edges[0]), maximum=int(edges[-1]) - 1, **shared)
    if profile.whole and edges[0] == 1 and not ranges.below and edges[1] > _NEAR_ZERO:
        edges[0] = 0
    shared |= {"bins": _bins(edges, ranges, whole=profile.whole), "decode_by": "smooth"}
    if profile.whole:
        return Integer(name, **shared)
    # both a comma and a point are read as decimal marks, entry by entry, as they were counted
    return Real(name, decimals=profile.decimals, decimal=",", **shared)


def _bins(edges: Sequence[Any], ranges: Ranges[Any], *, whole: bool) -> dict[str, Any]:
    """Return bins with an open one on each side where something was found; a last range of several whole numbers has no end, or ends with its last number."""
    above = ranges.above or (whole and edges[-1] - edges[-2] == 1)
    last = edges[-1] - (1 if whole and not above else 0)
    open = {(False, False): "none", (True, False): "low", (False, True): "high", (True, True): "both"}
    return {"edges": [*edges[:-1], last], "open": open[ranges.below, above]}


def missing_number(profile: Profile, keys: ReleasedKeys | None) -> float | None:
    """Return the number that stands for a missing entry: a frequent one of the usual ones, if there are hardly any other negative ones."""
    found = [(number, many) for number, many in number_counts(keys) if number in _SENTINELS]
    if len(found) != 1:
        return None
    negative = sum(many for sign, _, many in profile.decades() if sign < 0)
    number, many = found[0]
    return number if negative - many <= 3 * profile.sigma else None


def suspected_numbers(profile: Profile) -> list[Decimal]:
    """Return the numbers that may stand for a missing entry: the usual one of the size that negative numbers have, or all usual ones where none was seen.

    The ranges that are asked for next then have one that holds each alone, which costs nothing.
    """
    sizes = [power for sign, power, many in profile.decades() if sign < 0 and many > 0]
    likely = [number for number in _SENTINELS if sizes in ([], [len(str(int(-number))) - 1])]
    return [Decimal(int(number)) for number in likely]


def _missing_in(descent: Descent) -> float | None:
    """Return the suspected number that surely occurs, where no other negative number does as far as can be told from noise."""
    zero = next((place for place, edge in enumerate(descent.edges) if edge >= 0), 0)
    counts, sigma = descent.counts, descent.sigma
    found = [
        number
        for number in descent.suspected
        if counts[descent.edges.index(number) + 1] > descent.sure * sigma[descent.edges.index(number) + 1]
    ]
    if len(found) != 1:
        return None
    many = float(counts[descent.edges.index(found[0]) + 1])
    others = float(counts[: zero + 1].sum()) - many
    noise = float((sigma[: zero + 1] ** 2).sum()) ** 0.5
    return float(found[0]) if others <= min(2.5 * noise, many) else None


def _beside(descent: Descent) -> tuple[float, float]:
    """Return how many entries are of no range, missing ones among them, and the standard deviation of that count."""
    return float(descent.counts[-1]), float(descent.sigma[-1])


def _from_zero(descent: Descent) -> Descent:
    """Return the ranges from zero on, as if what lies below them had not been asked about."""
    first = next(place for place, edge in enumerate(descent.edges) if edge >= 0)
    return replace(
        descent,
        edges=descent.edges[first:],
        counts=np.concatenate([[0.0], descent.counts[first + 1 :]]),
        sigma=descent.sigma[first:],
    )


def _unsuspecting(descent: Descent) -> Descent:
    """Return the ranges without those that hold a suspected number alone, which goes back to its neighbours."""
    edges, counts, sigma = list(descent.edges), descent.counts, descent.sigma
    for edge in sorted({*descent.suspected, *descent.suspected.values()}):
        place = edges.index(edge)  # between two cells that become one
        counts = np.concatenate([counts[:place], [counts[place] + counts[place + 1]], counts[place + 2 :]])
        both = math.hypot(sigma[place], sigma[place + 1])
        sigma = np.concatenate([sigma[:place], [both], sigma[place + 2 :]])
        del edges[place]
    return replace(descent, edges=edges, counts=counts, sigma=sigma)


def _date_column(
    name: str, profile: Profile, ranges: Ranges[int], rows: float, rest: tuple[float, float], *, exact: bool
) -> Column:
    """Return a column of dates; if they are exact, each range stands for its first day."""
    bins = _bins(ranges.edges, ranges, whole=True)
    return Date(
        name,
        bins=bins | {"edges": [show_day(int(day)) for day in bins["edges"]]},
        format=profile.date_format,
        decode_by="edge" if exact else "smooth",
        **_of_numbers(profile, rows, start="date ", rest=rest),
    )
