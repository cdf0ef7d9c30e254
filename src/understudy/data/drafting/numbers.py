"""Columns of numbers: what stands for missing, what is a key or a code, and which bins the rest gets."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from understudy.data.drafting.edges import (
    Counts,
    Values,
    equal_edges,
    following_edges,
    without_outliers,
)
from understudy.data.drafting.found import Absent, Found, percent
from understudy.data.drafting.hints import are_codes, is_code_name, is_somebody, is_year, key_of
from understudy.data.drafting.writing import decimals_of, unit_of
from understudy.schema import Categorical, Integer, Real
from understudy.schema.coding.names import calendar_range

FEW_ROWS = 20
NEARLY_EACH = 0.9
"""Share of different entries from which a column is taken to tell rows apart."""
_PLAIN_RANGE = 100
_EXACT_RANGE = 25
_FEW_VALUES = 30
_ENOUGH_ROWS = 100
"""Rows from which quantiles say something."""
_SENTINELS = (-9, -99, -999, -9999, -99999, 99, 999, 9999, 99999, 999999)
_COVERED = 0.25
"""Share of the entries that the most frequent codes must have, so that *other* is not all that is left."""
_LABELLED = 0.8
"""Share of the different numbers that must have labels, so that all of them are codes: scales label their ends alone."""
_NO_ANSWER = re.compile(
    r"(?i)refus|don.?t know|not applicable|no answer|missing|not asked|unknown|inapplicable|not stated"
)
_CODE = re.compile(r"[A-Za-z]{0,3}-?[0-9][0-9A-Za-z.-]*")
_CODES_PER_CATEGORY = 10
"""How many more codes a column with levels may list than one without."""
RARE_ROWS = 10
"""Values with fewer rows are marked as rare; where a column has too many different entries they are not listed at all."""
_NEARLY_ALL = 0.98
"""The share of the entries that codes beyond the usual number of categories are listed for."""
_ROWS_OF_A_THING = 50
"""Rows per entry from which a key is more likely to name things (shops, products) than people."""


def sentinels(values: Values, counts: Counts) -> dict[int, int]:
    """Return numbers that stand for a missing entry: -9, -99, 999 and the like, where they lie apart from all others.

    Examples
    --------
    >>> sentinels(np.array([-99.0, 10.0, 20.0, 35.0]), np.array([4, 1, 1, 1]))
    {-99: 4}
    >>> sentinels(np.array([3.0, 20.0, 999.0]), np.array([5, 5, 2])), sentinels(np.array([0.0, 98.0, 99.0]), np.array([5, 5, 5]))
    ({999: 2}, {})
    """
    others = values[~np.isin(values, _SENTINELS)]
    if len(others) < 2:
        return {}
    low, high = float(others[0]), float(others[-1])
    found: dict[int, int] = {}
    for number in _SENTINELS:
        place = int(np.searchsorted(values, number))
        if place >= len(values) or values[place] != number or counts[place] < 2:
            continue
        below = number < 0 <= low
        above = number > 0 <= low and number >= 3 * high and number - high >= 2 * (high - low)
        if below or above:
            found[number] = int(counts[place])
    return found


def draft_numbers(
    name: str,
    entries: Sequence[Any],
    numbers: Values,
    times: Counts,
    absent: Absent,
    *,
    rows: int,
    max_categories: int,
    labels: Mapping[Any, str] | None = None,
) -> Found:
    """Draft a column from its different entries, all of them numbers.

    Parameters
    ----------
    name
        Name of the column.
    entries, numbers, times
        The different entries as the table has them, as numbers, and how often each occurs.
    absent
        Its missing entries.
    rows
        Number of rows of the table.
    max_categories
        Most values of a column of codes.
    labels
        What codes mean, where the file says so.
    """
    finite = np.isfinite(numbers)
    if not finite.any():
        return Found(reason="it has no finite numbers")
    infinite = not finite.all()
    kept = [entry for entry, fine in zip(entries, finite, strict=True) if fine]
    values, inverse = np.unique(numbers[finite], return_inverse=True)
    counts = np.bincount(inverse, weights=times[finite]).astype(np.int64)
    whole = bool((np.floor(values) == values).all()) and max(abs(values[0]), abs(values[-1])) < 2.0**53
    named = {float(code) for code in labels or {} if isinstance(code, int | float)}
    if whole and named and float(np.isin(values, list(named)).mean()) >= _LABELLED:
        return _labelled(name, values, absent, labels or {})
    code = whole and not infinite and _is_code(name, values, counts)
    apart = sentinels(values, counts)
    if code:  # codes have no order, so that none lies apart: 999 is one of them
        apart = {number: often for number, often in apart.items() if number < 0}
    apart |= _labelled_missing(values, counts, labels or {})
    remarks = [absent.remark(rows)]
    if apart:
        one = len(apart) == 1
        remarks.append(
            f"{' and '.join(map(str, apart))} ({percent(sum(apart.values()) / rows)} of the entries) {'lies' if one else 'lie'} apart from all other "
            f"numbers and {'is' if one else 'are'} proposed as missing; list {'it' if one else 'them'} among the values if {'it is one' if one else 'they are some'}"
        )
        inside = ~np.isin(values, list(apart))
        values, counts = values[inside], counts[inside]
    missing = absent.fields(named=False, numbers=apart)
    key = _key(name, values, counts, whole=whole, max_categories=max_categories)
    if key is not None:
        return key
    if code and len(values) > 2:
        fields = absent.fields(named=True, numbers=apart)
        return draft_codes(
            name,
            {int(v): int(c) for v, c in zip(values, counts, strict=True)},
            fields,
            remarks,
            max_categories,
        )
    if max(abs(values[0]), abs(values[-1])) > 1e300:
        return Found(reason="its numbers are too far apart to divide; give it bins by hand")
    shared: dict[str, Any] = {
        **missing,
        "origin": "from-data",
        "out_of_domain": "clamp" if infinite else "refuse",
    }
    decimals = None if whole else decimals_of(kept, numbers[finite])
    if infinite:
        remarks.append("it holds infinite numbers, which are moved to the ends of its range")
    column = _ranged(name, values, counts, shared, remarks, whole=whole, decimals=decimals)
    return Found(column, remarks=tuple(filter(None, remarks)))


def _labelled_missing(values: Values, counts: Counts, labels: Mapping[Any, str]) -> dict[int, int]:
    """Return the codes among numbers whose label says that there is no number: refused, not asked."""
    says = {
        float(code)
        for code, text in labels.items()
        if isinstance(code, int | float) and _NO_ANSWER.search(text)
    }
    return {
        int(value): int(times)
        for value, times in zip(values, counts, strict=True)
        if value in says and float(value).is_integer()
    }


def _labelled(name: str, values: Values, absent: Absent, labels: Mapping[Any, str]) -> Found:
    """Draft codes whose meanings the file lists: every listed code is a value, whether it occurs or not."""
    listed = {
        int(code): str(text)
        for code, text in labels.items()
        if isinstance(code, int | float) and float(code).is_integer()
    }
    codes = sorted({*listed, *map(int, values)})
    meaning = "; ".join(f"{code}: {listed[code]}" for code in codes if code in listed)
    unlisted = sum(code not in listed for code in codes)
    remark = f"{unlisted} of its codes have no label" if unlisted else ""
    column = Categorical(
        name,
        values=tuple(codes),
        description=meaning if len(meaning) <= 1_000 else meaning[:997] + "...",
        origin="from-data",
        **absent.fields(named=True),
    )
    return Found(column, remarks=tuple(filter(None, (remark,))))


def _key(name: str, values: Values, counts: Counts, *, whole: bool, max_categories: int) -> Found | None:
    """Return why numbers are left out as a key of rows or of somebody; None if they are not."""
    rows, distinct = int(counts.sum()), len(values)
    if rows < FEW_ROWS or not whole:
        return None
    consecutive = distinct == rows and values[-1] - values[0] == distinct - 1
    hint = key_of(name)
    if consecutive or (hint and distinct > NEARLY_EACH * rows):
        return Found(reason="it looks like an identifier: almost every row has its own number")
    spread = hint == "key" or is_somebody(name) or values[-1] - values[0] > 5 * distinct
    if hint and spread and distinct > max_categories and rows < _ROWS_OF_A_THING * distinct:
        return repeating_key(int(counts.max()))
    return None


def repeating_key(most: int) -> Found:
    """Leave a key out that several rows share, and ask what that means for the guarantee."""
    return Found(
        reason="it looks like the number of somebody who may have several rows; an identifier is not a statistic",
        rows_of_one=most,
    )


def _is_code(name: str, values: Values, counts: Counts) -> bool:
    if len(values) < 3 or int(counts.sum()) < FEW_ROWS:
        return False
    if is_code_name(name) or key_of(name) == "key":
        return True
    if is_year(name, int(values[0]), int(values[-1])):
        return False
    return are_codes(values, counts)


def draft_codes(
    name: str, times: Mapping[Any, int], missing: dict[str, Any], remarks: Sequence[str], max_categories: int
) -> Found:
    """Draft a column of codes: every value, or the most frequent ones where there are too many."""
    rows = sum(times.values())
    if len(times) > NEARLY_EACH * rows and rows >= FEW_ROWS:
        return Found(reason="it looks like an identifier: almost every row has its own entry")
    ordered = sorted(times, key=lambda value: (-times[value], str(value)))
    kept = ordered[:max_categories]
    found = [*remarks]
    policy: dict[str, Any] = {}
    lengths = prefixes(ordered) if len(times) > max_categories else ()
    if len(times) > max_categories and not lengths:
        codes = is_code_name(name) or all(isinstance(value, int) for value in ordered)
        listed = _most_of(ordered, times, max_categories) if codes else kept
        kept = [value for value in listed if times[value] >= RARE_ROWS]
        if not kept:
            return Found(
                reason="it looks like free text: hardly any of its entries occur more than a few times; group it into categories first"
            )
    if lengths:
        kept = ordered[: _CODES_PER_CATEGORY * max_categories]
        policy["levels"] = {"prefix": list(lengths)}
        found.append(
            f"it has {len(times):,} different codes and is modelled in groups of codes that begin alike (levels). List the codes from "
            "public knowledge, or use the levels of a public classification"
        )
    advice = (
        ""
        if lengths
        else ". List the codes from public knowledge, give them levels, or raise --max-categories"
    )
    if len(times) > len(kept):
        kept = [value for value in kept if value != "other"]
        policy["out_of_domain"] = "to-other"
        covered = sum(times[value] for value in kept) / rows
        if covered < _COVERED:
            return Found(
                reason="it has far more different entries than max_categories allows (--max-categories), none of them frequent; list "
                "them from public knowledge, group them, or leave them out"
            )
        found.append(
            f"{'' if lengths else f'it has {len(times):,} different entries; '}the {len(kept):,} most frequent ones are kept ({percent(covered)} of the "
            f"entries) and the rest becomes other{advice}"
        )
    column = Categorical(name, values=tuple(sorted(kept)), origin="from-data", **missing, **policy)
    return Found(column, remarks=tuple(filter(None, found)))


def _most_of(ordered: Sequence[Any], times: Mapping[Any, int], max_categories: int) -> Sequence[Any]:
    """Return the most frequent codes: so many as a column may have, and more where that is needed for nearly all entries."""
    needed, rows = 0, sum(times.values())
    for number, value in enumerate(ordered, start=1):
        needed += times[value]
        enough = number >= max_categories and needed >= _NEARLY_ALL * rows
        if enough or number == _CODES_PER_CATEGORY * max_categories:
            return ordered[:number]
    return ordered


def prefixes(values: Sequence[Any]) -> tuple[int, ...]:
    """Return lengths of beginnings that group codes such as E11.9: at most three, none if they are not such codes.

    Examples
    --------
    >>> prefixes([f"{letter}{number:02d}" for letter in "ABC" for number in range(40)])
    (1, 2)
    >>> prefixes([f"name {number}" for number in range(40)]), prefixes(list(range(1000)))
    ((), ())
    """
    texts = [value for value in values if isinstance(value, str) and _CODE.fullmatch(value)]
    if len(texts) < 0.95 * len(values):
        return ()
    found: list[int] = []
    groups = 1
    for length in range(1, 6):
        count = len({text[:length] for text in texts})
        if 1.5 * groups <= count <= 0.7 * len(texts) and len(found) < 3:
            found.append(length)
            groups = count
    return tuple(found)


def _ranged(
    name: str,
    values: Values,
    counts: Counts,
    shared: dict[str, Any],
    remarks: list[str],
    *,
    whole: bool,
    decimals: int | None,
) -> Integer | Real:
    """Draft a range, a list of values, or bins."""
    kind: Any = Integer if whole else Real
    if not whole and decimals is not None:
        shared = shared | {"decimals": decimals}
    low, high = float(values[0]), float(values[-1])
    plain = (lambda number: int(number)) if whole else float
    if low == high:
        return kind(name, values=(plain(low),), **shared)  # type: ignore[no-any-return]
    if whole:
        calendar = calendar_range(name, int(low), int(high))
        if calendar is not None:
            return Integer(name, minimum=calendar[0], maximum=calendar[1], **shared)
        sparse = 3 * len(values) <= high - low and int(counts.sum()) >= _FEW_VALUES * len(values)
        if sparse and 10 <= high - low < _EXACT_RANGE:
            return Integer(name, values=tuple(map(int, values)), **shared)
        if high - low < _EXACT_RANGE or is_year(name, int(low), int(high)):
            return Integer(name, minimum=int(low), maximum=int(high), **shared)
        if high - low < _PLAIN_RANGE and _is_spread(values, counts):
            first, last = 5 * math.floor(low / 5), 5 * math.ceil(high / 5)
            return Integer(name, minimum=first, maximum=last, **shared)
    rows = int(counts.sum())
    few = len(values) <= _FEW_VALUES and rows >= 10 * len(values) and rows >= _ENOUGH_ROWS
    if few and (not whole or high - low >= _PLAIN_RANGE):
        return kind(name, values=tuple(map(plain, values)), **shared)  # type: ignore[no-any-return]
    inner_low, inner_high = without_outliers(values, counts)
    inside = (values >= inner_low) & (values <= inner_high)
    if not inside.all():
        beyond = int(counts[~inside].sum())
        remarks.append(
            f"{beyond:,} of its entries ({percent(beyond / rows)}) lie far from all others; they do not decide the bins and are moved to "
            "the ends of the range (out_of_domain: clamp). Widen the bins if they are right, or correct them"
        )
        shared = shared | {"out_of_domain": "clamp"}
    values, counts = values[inside], counts[inside]
    if len(values) < (2 if whole else 10) or rows < _ENOUGH_ROWS:
        unit = 0.0 if decimals is None else unit_of(decimals, values)
        edges = equal_edges(float(values[0]), float(values[-1]), unit=unit)
    else:
        edges = following_edges(values, counts, unit=unit_of(decimals, values), whole=whole)
        if edges[-2] == values[-1]:  # the largest value has a bin of its own, which ends there
            shared = shared | {"maximum": plain(values[-1])}
    return kind(name, bins=tuple(map(plain, edges)), decode_by="smooth", **shared)  # type: ignore[no-any-return]


def _is_spread(values: Values, counts: Counts) -> bool:
    """Whether the entries use the range: all but one in a hundred of them cover at least half of it."""
    rows = int(counts.sum())
    if rows < 10 * FEW_ROWS:
        return True
    below = np.cumsum(counts)
    low = float(values[int(np.searchsorted(below, 0.005 * rows))])
    high = float(values[min(len(values) - 1, int(np.searchsorted(below, 0.995 * rows)))])
    return bool(high - low >= 0.5 * (values[-1] - values[0]))
