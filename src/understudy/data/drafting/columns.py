"""Drafting one column: which kind it is, by its entries and its name."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.data.drafting.found import Absent, Found
from understudy.data.drafting.hints import calendar_names, key_of
from understudy.data.drafting.numbers import (
    FEW_ROWS,
    NEARLY_EACH,
    draft_codes,
    draft_numbers,
    repeating_key,
)
from understudy.data.drafting.writing import (
    date_formats,
    has_decimal_commas,
    has_leading_zeros,
    is_not_known,
    may_be_thousands,
    written_for_people,
)
from understudy.schema import (
    Boolean,
    Categorical,
    Date,
    Integer,
    Ordinal,
    Real,
    Resolution,
    number_of,
    read_date,
    truth_of,
)
from understudy.schema.coding.reading import MISSING_TEXT, is_nothing

if TYPE_CHECKING:
    import pandas as pd

_LONGEST_VALUE = 200
_NEARLY_FREE = 0.5
_FEW_WORDS = 3
"""Words among many numbers that are taken to say why there is no number."""
_TRUTH = ({"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"})


def draft_column(
    name: str,
    series: pd.Series[Any],
    *,
    max_categories: int,
    labels: Mapping[Any, str] | None = None,
) -> Found:
    """Draft a column, or say why it is left out.

    Parameters
    ----------
    name, series
        The column.
    max_categories
        Most values of a column of named values.
    labels
        What its codes mean, where the file says so.
    """
    import pandas as pd
    from pandas.api import types

    rows = len(series)
    empty = int(series.isna().sum())
    present = series.dropna()
    if isinstance(series.dtype, pd.CategoricalDtype):
        return _from_category(name, series, Absent(empty), max_categories, labels)
    if len(present) == 0:
        return Found(reason="it has no entries")
    if types.is_bool_dtype(series.dtype):
        return Found(Boolean(name, origin="from-data", **Absent(empty).fields(named=False)))
    if types.is_numeric_dtype(series.dtype) and not types.is_complex_dtype(series.dtype):
        numbers, times = np.unique(present.to_numpy(dtype="float64"), return_counts=True)
        return draft_numbers(
            name,
            list(numbers),
            numbers,
            times.astype(np.int64),
            Absent(empty),
            rows=rows,
            max_categories=max_categories,
            labels=labels,
        )
    if types.is_datetime64_any_dtype(series.dtype) or isinstance(series.dtype, pd.PeriodDtype):
        return _from_dates(name, [present.min(), present.max()], Absent(empty))
    try:
        times_of = _counted(series, present)
    except TypeError:
        return Found(reason="its entries are neither text nor numbers nor dates")
    return _from_entries(name, times_of, empty, max_categories, rows=rows, labels=labels)


def _counted(series: pd.Series[Any], present: pd.Series[Any]) -> list[tuple[Any, int]]:
    """Return the different entries and how often each occurs, apart by type, since 0 and False are equal in Python."""
    import pandas as pd

    if series.dtype == object and pd.api.types.infer_dtype(present, skipna=True) != "string":
        counts = Counter((type(entry), entry) for entry in present)
        return [(entry, times) for (_, entry), times in counts.items()]
    counted = present.value_counts(sort=False)
    return [(entry, int(times)) for entry, times in zip(counted.index, counted.to_numpy(), strict=True)]


def _from_category(
    name: str,
    series: pd.Series[Any],
    absent: Absent,
    max_categories: int,
    labels: Mapping[Any, str] | None,
) -> Found:
    categories = list(series.cat.categories)
    if not categories:
        return Found(reason="it has no entries")
    if (
        series.cat.ordered
        and len(categories) <= max_categories
        and all(isinstance(c, str) for c in categories)
    ):
        return Found(Ordinal(name, values=tuple(categories), origin="from-data", **absent.fields(named=True)))
    counted = series.value_counts(sort=False)
    times_of = [(entry, int(counted.get(entry, 0))) for entry in categories if not is_nothing(entry)]
    return _from_entries(name, times_of, absent.empty, max_categories, rows=len(series), labels=labels)


def _from_entries(
    name: str,
    times_of: list[tuple[Any, int]],
    empty: int,
    max_categories: int,
    *,
    rows: int,
    labels: Mapping[Any, str] | None = None,
    words: Mapping[str, int] | None = None,
) -> Found:
    """Draft a column from its different entries: text, or a mixture of objects; ``words`` are further spellings of missing."""
    blank = {entry: times for entry, times in times_of if _is_blank(entry)}
    found = [(entry, times) for entry, times in times_of if not _is_blank(entry)]
    absent = Absent(empty, {**blank, **(words or {})})
    entries = [entry for entry, _ in found]
    if not entries:
        if any(text.strip() for text in blank) and len(blank) > 1:
            return _from_text(name, times_of, Absent(empty), max_categories, rows=rows)
        return Found(reason="it has no entries")
    if all(isinstance(entry, bool | np.bool_) for entry in entries):
        return Found(Boolean(name, origin="from-data", **absent.fields(named=False)))
    if _are_truth_words(entries):
        return _from_truth_words(name, found, absent, rows)
    if not has_leading_zeros(entries):
        numbers = [number_of(entry) for entry in entries if not isinstance(entry, bool | np.bool_)]
        if len(numbers) == len(entries) and None not in numbers:
            if may_be_thousands(entries):
                return Found(
                    reason="its points may separate thousands, and then 10.000 would be read as ten; write the numbers "
                    "without separators, or declare the column by hand if they are decimal points"
                )
            array = np.array([_real(number) for number in numbers if number is not None])
            return draft_numbers(
                name,
                entries,
                array,
                np.array([times for _, times in found], dtype=np.int64),
                absent,
                rows=rows,
                max_categories=max_categories,
                labels=labels,
            )
        texts = [entry for entry in entries if isinstance(entry, str) and number_of(entry) is None]
        if 1 <= len(texts) <= _FEW_WORDS and len(entries) - len(texts) > max_categories and not words:
            # a few words among many numbers say why there is no number: N for not applicable
            few = [(entry, times) for entry, times in times_of if _is_blank(entry) or entry not in texts]
            spelt = {str(entry): times for entry, times in found if entry in texts}
            return _from_entries(name, few, empty, max_categories, rows=rows, labels=labels, words=spelt)
        commas = _with_commas(name, found, absent, max_categories, rows=rows)
        if commas is not None:
            return commas
    days = [read_date(entry) for entry in entries]
    if None not in days:
        return _from_dates(name, days, absent)
    formats = date_formats(entries)
    if len(formats) == 1:
        return _from_dates(name, [read_date(entry, formats[0]) for entry in entries], absent, formats[0])
    if formats:
        return Found(
            reason=f"its dates can be read in several ways ({', '.join(formats)}); declare it by hand with its format"
        )
    return _from_text(name, *_named(found, absent), max_categories, rows=rows)


def _with_commas(
    name: str, found: list[tuple[Any, int]], absent: Absent, max_categories: int, *, rows: int
) -> Found | None:
    """Draft a column of numbers with decimal commas; None if it is none, or if its commas may separate thousands."""
    if not has_decimal_commas([entry for entry, _ in found]):
        return None
    entries = [entry.replace(",", ".") for entry, _ in found]
    drafted = draft_numbers(
        name,
        entries,
        np.array([float(entry) for entry in entries]),
        np.array([times for _, times in found], dtype=np.int64),
        absent,
        rows=rows,
        max_categories=max_categories,
    )
    if isinstance(drafted.column, Integer | Real):
        return replace(drafted, column=replace(drafted.column, decimal=","))
    return None


def _is_blank(entry: Any) -> bool:
    """Whether an entry is spelt as missing entries of numbers, dates and truth values are, or is usual for all kinds."""
    return isinstance(entry, str) and (entry.strip().lower() in MISSING_TEXT or is_not_known(entry))


def _named(found: list[tuple[Any, int]], absent: Absent) -> tuple[list[tuple[Any, int]], Absent]:
    """Return the values of a column of named values and its missing entries.

    *None* is a value there, and so is a spelling that looks like all other values: *NA* among codes of two capital letters
    is Namibia.
    """
    letters = {
        len(entry) if isinstance(entry, str) and entry.isalpha() and entry.isupper() else 0
        for entry, _ in found
    }
    values = {
        text: times
        for text, times in absent.spelt.items()
        if text != ""
        and (not is_not_known(text) or (len(found) > 5 and letters == {len(text)} and text.isalpha()))
    }
    values = {text: times for text, times in values.items() if text.strip()}
    spelt = {text: times for text, times in absent.spelt.items() if text not in values}
    return [*found, *values.items()], Absent(absent.empty, spelt)


def _real(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _are_truth_words(entries: Sequence[Any]) -> bool:
    words = {entry.strip().lower() for entry in entries if isinstance(entry, str)}
    return (
        all(isinstance(entry, str) and truth_of(entry) is not None for entry in entries) and words in _TRUTH
    )


def _from_truth_words(name: str, found: list[tuple[Any, int]], absent: Absent, rows: int) -> Found:
    """Draft a boolean that keeps the table's spelling, the most frequent one where there are several."""
    spelling = []
    for meant in (False, True):
        written = {entry: times for entry, times in found if truth_of(entry) is meant}
        spelling.append(max(sorted(written), key=lambda text: written[text]))
    several = len(found) > 2
    remarks = (
        ("its truth values are spelt in several ways; the most frequent one is written",) if several else ()
    )
    if any(text != text.strip() for text in spelling):
        spelling = [text.strip() for text in spelling]
    column = Boolean(name, spelling=tuple(spelling), origin="from-data", **absent.fields(named=False))
    return Found(column, remarks=tuple(filter(None, (*remarks, absent.remark(rows)))))


def _from_text(
    name: str, found: list[tuple[Any, int]], absent: Absent, max_categories: int, *, rows: int
) -> Found:
    entries = [entry for entry, _ in found]
    if not entries:
        return Found(reason="it has no entries")
    if not all(isinstance(entry, str | int | float | np.integer | np.floating) for entry in entries):
        return Found(reason="its entries are neither text nor numbers nor dates")
    times: Counter[str] = Counter()
    for entry, often in found:
        times[_text_of(entry)] += often
    absent = Absent(absent.empty, {text: n for text, n in absent.spelt.items() if text not in times})
    if any(len(value) > _LONGEST_VALUE for value in times):
        return Found(reason="it holds long text; group it into categories first")
    missing = absent.fields(named=True)
    remarks = [absent.remark(rows)]
    ordered = calendar_names(list(times)) or _intervals(list(times))
    if ordered is not None and len(ordered) <= max_categories:
        column = Ordinal(name, values=ordered, origin="from-data", **missing)
        return Found(column, remarks=tuple(filter(None, remarks)))
    in_order = _in_order_of_numbers(list(times))
    if in_order is not None:
        unit, ordered = in_order
        if len(ordered) <= max_categories:
            remarks.append(
                f"its values are numbers with {unit!r}, so they are an ordinal in the order of the numbers; to measure them as numbers, "
                "write them without it in a copy of the table"
            )
            column = Ordinal(name, values=ordered, origin="from-data", **missing)
            return Found(column, remarks=tuple(filter(None, remarks)))
    if len({value.strip().casefold() for value in times}) < len({value.strip() for value in times}):
        remarks.append(
            "some of its values differ only in capital letters, and each counts as a value of its own"
        )
    if any(value != value.strip() for value in times):
        remarks.append("some of its values begin or end with a blank, which counts")
    distinct, present = len(times), sum(times.values())
    if distinct <= max_categories:
        if key_of(name) and distinct > NEARLY_EACH * present and rows >= FEW_ROWS:
            return Found(reason="it looks like an identifier: almost every row has its own entry")
        values = tuple(sorted(times))
        return Found(
            Categorical(name, values=values, origin="from-data", **missing),
            remarks=tuple(filter(None, remarks)),
        )
    if written_for_people(entries):
        return Found(
            reason="its numbers have units, separators of thousands or decimal commas; write them like 1234.5 in a copy of "
            "the table"
        )
    if distinct > NEARLY_EACH * present:
        return Found(reason="it looks like an identifier or free text: almost every row has its own entry")
    if key_of(name):
        return repeating_key(max(times.values()))
    if distinct > _NEARLY_FREE * present:
        return Found(
            reason="it looks like free text: most of its entries occur only once or twice; group it into categories first"
        )
    return draft_codes(name, times, missing, remarks, max_categories)


_INTERVAL = re.compile(r"[\[(<>≥≤]?=?\s*(-?\d+(?:\.\d+)?)\s*(?:(?:-|–|to|,)\s*(\d+(?:\.\d+)?))?\s*[\])+<]?")


def _intervals(entries: list[str]) -> tuple[str, ...] | None:
    """Return intervals such as [0-25) in their order; None unless nearly all entries are some, and none begins where another does.

    Examples
    --------
    >>> _intervals(["[100-125)", "[25-50)", "[50-75)"]), _intervals(["65+", "18-64", "<18"])
    (('[25-50)', '[50-75)', '[100-125)'), ('<18', '18-64', '65+'))
    >>> _intervals(["12-24", "V-3"]) is None
    True
    """
    matches = [_INTERVAL.fullmatch(entry) for entry in entries]
    if (
        len(entries) < 3
        or not all(matches)
        or sum(m is not None and m[2] is not None for m in matches) < 2 / 3 * len(entries) - 1
    ):
        return None
    begins = [
        (float(match[1]) - (0.5 if entry[0] in "<≤" else 0.0), entry)
        for match, entry in zip(matches, entries, strict=True)
        if match is not None
    ]
    if len({begin for begin, _ in begins}) < len(begins):
        return None
    return tuple(entry for _, entry in sorted(begins))


_WITH_UNIT = re.compile(r"([^\d.,+-]*)([+-]?\d+(?:\.\d+)?)([^\d.,]*)")


def _in_order_of_numbers(entries: Sequence[Any]) -> tuple[str, tuple[str, ...]] | None:
    """Return a unit and the values that have it in the order of their numbers; None unless all have it, and different numbers.

    Examples
    --------
    >>> _in_order_of_numbers(["5 %", "12 %", "0 %"])
    ('%', ('0 %', '5 %', '12 %'))
    >>> _in_order_of_numbers(["5 %", "12 kg"]), _in_order_of_numbers(["A5", "A12"]), _in_order_of_numbers(["5 %", "5.0 %"])
    (None, None, None)
    """
    if len(entries) < 2 or not written_for_people(entries):
        return None
    matches = [_WITH_UNIT.fullmatch(entry.strip()) for entry in entries]
    found = [(float(match[2]), entry) for match, entry in zip(matches, entries, strict=True) if match]
    units = {(match[1].strip(), match[3].strip()) for match in matches if match}
    if len(found) < len(entries) or len(units) > 1 or len({number for number, _ in found}) < len(found):
        return None
    ((before, after),) = units
    return before or after, tuple(entry for _, entry in sorted(found))


def _text_of(entry: Any) -> str:
    """Return an entry as the text by which a categorical column knows it: 2.0 is 2."""
    if isinstance(entry, float | np.floating):
        number = float(entry)
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    return str(entry)


def _from_dates(name: str, days: Sequence[Any], absent: Absent, format: str | None = None) -> Found:
    dates = [
        day if type(day) is dt.date else day.date() if hasattr(day, "date") else _period(day) for day in days
    ]
    low, high = min(dates), max(dates)
    span = (high - low).days
    resolution: Resolution
    if span <= 60:
        resolution = "day"
    elif span <= 366:
        resolution = "week"
    elif span <= 3_653:
        resolution = "month"
    else:
        resolution = "quarter" if span <= 14_610 else "year"
    first, last = low.replace(day=1), _end_of_month(high)
    if resolution == "year":
        first, last = low.replace(month=1, day=1), high.replace(month=12, day=31)
    column = Date(
        name,
        minimum=first.isoformat(),
        maximum=last.isoformat(),
        resolution=resolution,
        format=format,
        decode_by="midpoint" if resolution == "day" else "smooth",
        origin="from-data",
        **absent.fields(named=False),
    )
    return Found(column)


def _period(day: Any) -> dt.date:
    start: dt.date = day.to_timestamp().date()
    return start


def _end_of_month(day: dt.date) -> dt.date:
    following = dt.date(day.year + day.month // 12, day.month % 12 + 1, 1) if day.year < 9999 else None
    return following - dt.timedelta(days=1) if following else dt.date(day.year, 12, 31)
