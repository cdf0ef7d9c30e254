"""Drafting a schema from a table, for its owner to correct and to declare public."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import DataError, SchemaError
from understudy.schema import (
    Boolean,
    Categorical,
    Column,
    Date,
    Integer,
    Ordinal,
    Real,
    Resolution,
    Schema,
    number_of,
    read_date,
    truth_of,
)
from understudy.schema.coding.reading import MISSING_TEXT
from understudy.schema.problems import MAX_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

# ----------------------------------------------------------------------------------------
# How people write dates and numbers: what a draft can say about text that is neither plain nor a category.

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


_ID_NAME = re.compile(
    r"(?:^|[_\W])(?:(?i:id|uuid|guid|ssn|key))$|^(?i:id|uuid|guid|ssn)(?:[_\W]|$)|[a-z](?:ID|Id)$"
)
_LEADING_ZERO = re.compile(r"\s*[-+]?0\d")
_BINS = 20
_PLAIN_RANGE = 100
_EXACT_RANGE = 25
_FEW_ROWS = 20
_LONGEST_VALUE = 200


def draft_schema(
    frame: Any, *, name: str = "", max_categories: int = 100, declare_public: bool = False
) -> Schema:
    """Draft a schema from a table, marking every fact as read from the data.

    Kinds are guessed from the entries; bounds are rounded outwards (short ranges stay as they are), wide ranges
    are divided into about twenty bins with round edges. Text columns with more than ``max_categories`` different
    entries, columns that look like identifiers, and numbers or dates that can be read in two ways are left out, and
    the draft says why.

    Parameters
    ----------
    frame
        A pandas frame (or anything with ``to_pandas``).
    name
        Name for the schema.
    max_categories
        Most categories a text column may have.
    declare_public
        Declare every fact public at once. This is the owner's promise that the domain is public knowledge or
        may be published as it is.

    Returns
    -------
    Schema
        A draft. Unless ``declare_public``, fitting refuses it until its facts are declared public. The number
        of rows is never drafted.

    Raises
    ------
    DataError
        If the table has no rows, no columns, or two columns with the same name.
    SchemaError
        If every column would be left out.

    Privacy
    -------
    In: private. Out: private too, because categories and bounds are those of the records; that is what the
    ``from-data`` marks mean. No privacy budget is charged and none could be: this is exact.

    Examples
    --------
    >>> import pandas as pd
    >>> drafted = draft_schema(pd.DataFrame({"sex": ["M", "F", "F"], "age": [31, 40, 58]}), name="toy")
    >>> drafted.names
    ('sex', 'age')
    >>> drafted.column("age").facts_from_data
    ('kind', 'minimum', 'maximum', 'missing')
    """
    table = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    if isinstance(max_categories, bool) or not isinstance(max_categories, int) or max_categories < 1:
        raise SchemaError(f"max_categories ({max_categories}) must be a positive whole number.")
    names = [str(column) for column in table.columns]
    if not names:
        raise DataError("The table has no columns, so no schema can be drafted from it.")
    if len(names) > MAX_COLUMNS:
        raise DataError(
            f"The table has {len(names):,} columns; a schema holds at most {MAX_COLUMNS:,}. Draft one for those you need."
        )
    if len(set(names)) != len(names):
        repeated = sorted(column for column, times in Counter(names).items() if times > 1)
        raise DataError(f"Columns must have different names; repeated: {', '.join(map(repr, repeated))}.")
    if len(table) == 0:
        raise DataError("The table has no rows, so no schema can be drafted from it.")
    columns: list[Column] = []
    left_out: dict[str, str] = {}
    for place, column in enumerate(names):
        drafted = _draft_column(column, table.iloc[:, place], max_categories)
        if isinstance(drafted, str):
            left_out[column] = drafted
        else:
            columns.append(drafted)
    if not columns:
        reasons = "; ".join(f"{column!r}: {reason}" for column, reason in left_out.items())
        raise SchemaError(f"No column could be drafted. {reasons}.")
    schema = Schema(
        tuple(columns),
        name=name,
        description="Drafted from a table: check every fact before declaring it public.",
        left_out=tuple(left_out.items()),
        origin="from-data" if left_out else "public",
    )
    return schema.declare_public() if declare_public else schema


def _draft_column(name: str, series: pd.Series[Any], max_categories: int) -> Column | str:
    """Return a column, or the reason for leaving it out. Reasons say nothing about single entries."""
    import pandas as pd
    from pandas.api import types

    missing = bool(series.isna().any())
    present = series.dropna()
    if isinstance(series.dtype, pd.CategoricalDtype):
        return _from_category(name, series, missing, max_categories)
    if len(present) == 0:
        return "it has no entries"
    if types.is_bool_dtype(series.dtype):
        return Boolean(name, missing=missing, origin="from-data")
    if types.is_numeric_dtype(series.dtype) and not types.is_complex_dtype(series.dtype):
        return _from_numbers(name, present.to_numpy(dtype="float64"), missing, rows=len(series))
    if types.is_datetime64_any_dtype(series.dtype) or isinstance(series.dtype, pd.PeriodDtype):
        return _from_dates(name, [present.min(), present.max()], missing)
    try:
        if series.dtype == object:  # apart by type, since 0 and False are equal in Python
            distinct = list({(type(entry), entry): entry for entry in present}.values())
        else:
            distinct = list(present.drop_duplicates())
    except TypeError:
        return "its entries are neither text nor numbers nor dates"
    return _from_entries(name, distinct, missing, max_categories, rows=len(series))


def _from_category(name: str, series: pd.Series[Any], missing: bool, max_categories: int) -> Column | str:
    categories = list(series.cat.categories)
    if not categories:
        return "it has no entries"
    if (
        series.cat.ordered
        and len(categories) <= max_categories
        and all(isinstance(c, str) for c in categories)
    ):
        return Ordinal(name, values=tuple(categories), missing=missing, origin="from-data")
    return _from_entries(name, categories, missing, max_categories, rows=len(series))


def _from_entries(
    name: str, distinct: list[Any], missing: bool, max_categories: int, *, rows: int
) -> Column | str:
    """Draft a column from its different entries: text, or a mixture of objects."""
    blank = [entry for entry in distinct if isinstance(entry, str) and entry.strip().lower() in MISSING_TEXT]
    entries = [entry for entry in distinct if entry not in blank] if blank else distinct
    if not entries:
        return "it has no entries"
    if all(isinstance(entry, bool | np.bool_) for entry in entries) or _are_truth_words(entries):
        return Boolean(name, missing=missing or bool(blank), origin="from-data")
    if not any(isinstance(entry, str) and _LEADING_ZERO.match(entry) for entry in entries):
        numbers = [number_of(entry) for entry in entries if not isinstance(entry, bool | np.bool_)]
        if len(numbers) == len(entries) and None not in numbers:
            if may_be_thousands(entries):
                return (
                    "its points may separate thousands, and then 10.000 would be read as ten; write the numbers without "
                    "separators, or declare the column by hand if they are decimal points"
                )
            array = np.array([float(number) for number in numbers if number is not None])
            return _from_numbers(name, array, missing or bool(blank), rows=rows)
    days = [read_date(entry) for entry in entries]
    if None not in days:
        return _from_dates(name, days, missing or bool(blank))
    formats = date_formats(entries)
    if len(formats) == 1:
        days = [read_date(entry, formats[0]) for entry in entries]
        return _from_dates(name, days, missing or bool(blank), format=formats[0])
    if formats:
        return f"its dates can be read in several ways ({', '.join(formats)}); declare it by hand with its format"
    return _from_text(
        name,
        [*entries, *(entry for entry in blank if entry != "")],
        missing or "" in blank,
        max_categories,
        rows=rows,
    )


def _are_truth_words(entries: list[Any]) -> bool:
    words = {entry.strip().lower() for entry in entries if isinstance(entry, str)}
    pairs = ({"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"})
    return all(isinstance(entry, str) and truth_of(entry) is not None for entry in entries) and words in pairs


def _from_text(
    name: str, entries: list[Any], missing: bool, max_categories: int, *, rows: int
) -> Column | str:
    if not all(isinstance(entry, str | int | float | np.integer | np.floating) for entry in entries):
        return "its entries are neither text nor numbers nor dates"
    values = sorted({_text_of(entry) for entry in entries})
    if any(len(value) > _LONGEST_VALUE for value in values):
        return "it holds long text; group it into categories first"
    if len(values) <= max_categories:
        return Categorical(name, values=tuple(values), missing=missing, origin="from-data")
    if written_for_people(entries):
        return (
            "its numbers have units, separators of thousands or decimal commas; write them like 1234.5 in a copy of "
            "the table"
        )
    if _looks_like_id(name, len(values), rows):
        return "it looks like an identifier or free text: almost every row has its own entry"
    return (
        "it has more different entries than max_categories allows (--max-categories); list its values from public "
        "knowledge, group them, or raise the limit; leave it out if it is free text"
    )


def _text_of(entry: Any) -> str:
    """Return an entry as the text by which a categorical column knows it: 2.0 is 2."""
    if isinstance(entry, float | np.floating):
        number = float(entry)
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    return str(entry)


def _looks_like_id(name: str, distinct: int, rows: int) -> bool:
    if rows < _FEW_ROWS:
        return bool(_ID_NAME.search(name))
    return distinct > 0.9 * rows


def _from_numbers(name: str, numbers: Any, missing: bool, *, rows: int) -> Column | str:
    finite = numbers[np.isfinite(numbers)]
    if len(finite) == 0:
        return "it has no finite numbers"
    low, high = float(finite.min()), float(finite.max())
    whole = bool((np.floor(finite) == finite).all()) and max(abs(low), abs(high)) < 2.0**53
    distinct = len(np.unique(finite))
    consecutive = whole and distinct == rows >= _FEW_ROWS and high - low == distinct - 1
    if consecutive or (_ID_NAME.search(name) and rows >= _FEW_ROWS and distinct > 0.9 * rows):
        return "it looks like an identifier: almost every row has its own number"
    if max(abs(low), abs(high)) > 1e300:
        return "its numbers are too far apart to divide; give it bins by hand"
    policy: Any = "clamp" if len(finite) < len(numbers) else "refuse"
    shared: dict[str, Any] = {"missing": missing, "origin": "from-data", "out_of_domain": policy}
    if low == high:
        value = int(low) if whole else low
        return (
            Integer(name, values=(int(value),), **shared) if whole else Real(name, values=(value,), **shared)
        )
    if whole and high - low < _PLAIN_RANGE:
        if high - low >= _EXACT_RANGE:
            low, high = 5 * math.floor(low / 5), 5 * math.ceil(high / 5)
        return Integer(name, minimum=int(low), maximum=int(high), **shared)
    edges = _round_edges(low, high, whole=whole)
    return Integer(name, bins=edges, **shared) if whole else Real(name, bins=edges, **shared)


def _round_edges(low: float, high: float, *, whole: bool) -> tuple[int | float, ...]:
    """Return about twenty edges, multiples of 1, 2 or 5 times a power of ten, that enclose the range."""
    exponent = math.floor(math.log10((high - low) / _BINS))
    mantissa = next(m for m in (1, 2, 5, 10) if m * 10.0**exponent >= (high - low) / _BINS * 0.999)
    first = math.floor(low / (mantissa * 10.0**exponent))
    last = math.ceil(high / (mantissa * 10.0**exponent))
    # Built from whole numbers and one power of ten, so that edges read 0.3 and not 0.30000000000000004.
    edges = [float(f"{step * mantissa}e{exponent}") for step in range(first, last + 1)]
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    rising = [edges[0], *(later for earlier, later in pairwise(edges) if later > earlier)]
    return tuple(int(edge) for edge in rising) if whole else tuple(rising)


def _from_dates(name: str, days: Sequence[Any], missing: bool, *, format: str | None = None) -> Column | str:
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
    return Date(
        name,
        minimum=first.isoformat(),
        maximum=last.isoformat(),
        resolution=resolution,
        format=format,
        missing=missing,
        origin="from-data",
    )


def _period(day: Any) -> dt.date:
    start: dt.date = day.to_timestamp().date()
    return start


def _end_of_month(day: dt.date) -> dt.date:
    following = dt.date(day.year + day.month // 12, day.month % 12 + 1, 1) if day.year < 9999 else None
    return following - dt.timedelta(days=1) if following else dt.date(day.year, 12, 31)
