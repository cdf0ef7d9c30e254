"""What holds between columns in every row of a table: orders of dates, parts of dates, columns that follow from others.

Found in the records, so it is private, and no rule yet: a rule is what holds by the meaning of the columns. It is proposed to the
owner, who knows, and written into no draft.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data.drafting.hints import MONTHS, WEEKDAYS
from understudy.schema import Categorical, Column, Date, Integer, Ordinal, read_date
from understudy.schema.coding.reading import distinct_entries, number_of

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]
_WORD = re.compile(r"[^\W\d]\w*")
_NOTHING = np.iinfo(np.int64).min
_ENOUGH_ROWS = 50
_FIRST = 2_000
"""Rows on which most of what does not hold is recognised."""
_MOST_VALUES = 5_000
_ROWS_PER_VALUE = 5
_LARGEST_SHARE = 0.9
_MOST_PROPOSALS = 30


def proposals(table: pd.DataFrame, columns: Sequence[Column]) -> tuple[str, ...]:
    """Return what holds in every row and may be a rule, as the keys ``rules`` and ``determines`` of a schema take it.

    Privacy
    -------
    In and out: private.

    Examples
    --------
    >>> import pandas as pd
    >>> days = pd.date_range("2020-01-01", periods=90).astype(str)
    >>> frame = pd.DataFrame({"begin": days[:60], "end": days[30:], "week": pd.to_datetime(days[:60]).isocalendar().week.values})
    >>> from understudy.data import draft_schema
    >>> proposals(frame, draft_schema(frame).columns)
    ('rules: end >= begin', 'rules: week == week_of(begin)')
    """
    if len(table) < _ENOUGH_ROWS:
        return ()
    series = {
        column.name: table.iloc[:, list(map(str, table.columns)).index(column.name)] for column in columns
    }
    days = {column.name: _days(series[column.name], column) for column in columns if isinstance(column, Date)}
    numbers = {
        column.name: _numbers(series[column.name], column)
        for column in columns
        if isinstance(column, Integer | Ordinal)
    }
    found = [*_orders(days), *_parts(days, numbers), *_differences(days, numbers)]
    named = {
        column.name: distinct_entries(series[column.name])[0].astype(np.int64)
        for column in columns
        if isinstance(column, Categorical | Ordinal)
    }
    return tuple([*found, *_dependencies(named)][:_MOST_PROPOSALS])


def _orders(days: dict[str, Ints]) -> list[str]:
    """Return the pairs of dates of which one is never before the other."""
    return [
        f"rules: {_quoted(later)} >= {_quoted(earlier)}"
        for earlier, later in permutations(days, 2)
        if _always(days[earlier], days[later], lambda a, b: a <= b)
        and not _always(days[earlier], days[later], np.equal)
    ]


def _parts(days: dict[str, Ints], numbers: dict[str, Ints]) -> list[str]:
    """Return the columns that hold a part of a date."""
    found = []
    for date, day in days.items():
        for function, part in _PARTS.items():
            made = _applied(part, day)
            found += [
                f"rules: {_quoted(column)} == {function}({_quoted(date)})"
                for column, given in numbers.items()
                if _always(made, given, np.equal) and len(np.unique(given)) > 1
            ]
    return found


def _differences(days: dict[str, Ints], numbers: dict[str, Ints]) -> list[str]:
    """Return the columns that hold the number of days between two dates."""
    found = []
    for first, second in permutations(days, 2):
        known = (days[first] != _NOTHING) & (days[second] != _NOTHING)
        between = np.where(known, days[second] - days[first], _NOTHING)
        found += [
            f"rules: {_quoted(column)} == {_quoted(second)} - {_quoted(first)}"
            for column, given in numbers.items()
            if _always(between, given, np.equal) and len(np.unique(given)) > 1
        ]
    return found


def _dependencies(named: dict[str, Ints]) -> list[str]:
    """Return the columns that follow from another one, where so many rows agree that it is no accident."""
    counts = {name: np.bincount(codes[codes >= 0]) for name, codes in named.items()}
    found = []
    for source, target in permutations(named, 2):
        many, few = len(counts[source]), len(counts[target])
        if not 2 <= few < many <= _MOST_VALUES or len(named[source]) < _ROWS_PER_VALUE * many:
            continue
        if counts[target].max() > _LARGEST_SHARE * counts[target].sum():
            continue
        if all(
            _follows(named[source][:rows], named[target][:rows], few) for rows in (_FIRST, len(named[source]))
        ):
            found.append(f"determines: {{{_in_yaml(source)}: [{_in_yaml(target)}]}}")
    return found


def _quoted(name: str) -> str:
    """Return a name as rules write it: in backticks unless it is one word."""
    return name if _WORD.fullmatch(name) else f"`{name}`"


def _in_yaml(name: str) -> str:
    return name if _WORD.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _follows(source: Ints, target: Ints, size: int) -> bool:
    known = (source >= 0) & (target >= 0)
    if not known.any():
        return False
    pairs = np.unique(source[known] * size + target[known])
    return len(pairs) == len(np.unique(source[known]))


def _always(first: Ints, second: Ints, holds: Callable[[Ints, Ints], Any]) -> bool:
    for rows in (_FIRST, len(first)):
        a, b = first[:rows], second[:rows]
        known = (a != _NOTHING) & (b != _NOTHING)
        if not known.any() or not bool(np.all(holds(a[known], b[known]))):
            return False
    return int(((first != _NOTHING) & (second != _NOTHING)).sum()) >= _ENOUGH_ROWS


def _looked_up(series: pd.Series[Any], value: Callable[[Any], int | None]) -> Ints:
    places, entries = distinct_entries(series)
    read = [value(entry) for entry in entries]
    return np.array([*(_NOTHING if item is None else item for item in read), _NOTHING], dtype=np.int64)[
        places
    ]


def _days(series: pd.Series[Any], column: Date) -> Ints:
    def day(entry: Any) -> int | None:
        found = read_date(entry, column.format) if column.format else read_date(entry)
        return None if found is None else found.toordinal()

    return _looked_up(series, day)


def _numbers(series: pd.Series[Any], column: Column) -> Ints:
    names = {
        name: place for listed in (*MONTHS, *WEEKDAYS) for place, name in enumerate(listed, start=1)
    } if isinstance(column, Ordinal) else {}  # fmt: skip

    def number(entry: Any) -> int | None:
        if isinstance(entry, str) and entry.strip().lower() in names:
            return names[entry.strip().lower()]
        found = number_of(entry)
        whole = isinstance(found, int) or (isinstance(found, float) and found.is_integer())
        return int(found) if whole and found is not None and abs(found) < 2**53 else None

    return _looked_up(series, number)


def _applied(part: Callable[[Any], int], days: Ints) -> Ints:
    import datetime as dt

    different, places = np.unique(days, return_inverse=True)
    made = [_NOTHING if day == _NOTHING else part(dt.date.fromordinal(int(day))) for day in different]
    return np.array(made, dtype=np.int64)[places]


_PARTS: dict[str, Callable[[Any], int]] = {
    "year_of": lambda day: int(day.year),
    "month_of": lambda day: int(day.month),
    "week_of": lambda day: int(day.isocalendar()[1]),
    "day_of": lambda day: int(day.day),
    "weekday_of": lambda day: int(day.isoweekday()),
}
