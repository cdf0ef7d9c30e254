"""Reading raw entries: numbers, truth values and days out of whatever a table holds.

Tables come from CSV files (all text), Parquet (typed), or frames with nullable, categorical, Arrow-backed
or mixed columns. Each reader returns plain arrays plus two marks: *missing* (nothing was entered) and
*unreadable* (something was entered that is not of the column's kind).

Privacy
-------
In and out: private. Nothing here raises an error that depends on an entry or shows one.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MISSING_TEXT",
    "Entries",
    "as_series",
    "distinct_entries",
    "is_nothing",
    "number_of",
    "numbers_of_text",
    "read_numbers",
    "real_of",
    "series_of_arrow",
    "truth_of",
]

Bools = npt.NDArray[np.bool_]

MISSING_TEXT = frozenset({"", "na", "n/a", "nan", "nat", "null", "none", "<na>"})
"""Spellings of a missing entry in columns of numbers, dates and truth values, in lower case."""

_INTEGER = re.compile(r"[-+]?\d+", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_PLAIN_INTEGER = r"^-?[0-9]{1,15}\z"
_PLAIN_NUMBER = r"^-?[0-9]{1,15}(\.[0-9]{0,15})?\z"
"""Text that Arrow's reader and ours read as the same number (RE2; fifteen digits are exact in double precision)."""
_DIGITS = 400
_BEYOND = 10**_DIGITS
"""Numbers with more digits are beyond every double, and Python writes the longest of them slowly or not at all."""
_INFINITE = re.compile(r"([-+]?)inf(?:inity)?", re.IGNORECASE)
_TRUE = frozenset({"true", "t", "yes", "y", "1", "1.0"})
_FALSE = frozenset({"false", "f", "no", "n", "0", "0.0"})


@dataclass(frozen=True, eq=False)
class Entries:
    """Numbers read from a column, with the places where there is none.

    ``numbers`` is ``int64`` or ``float64`` and holds an arbitrary value where ``missing`` is set.
    """

    numbers: npt.NDArray[Any]
    missing: Bools | None = None


def as_series(values: Any) -> pd.Series[Any]:
    """Return any column of values as a pandas Series."""
    import pandas as pd

    if isinstance(values, pd.Series):
        return values
    if hasattr(values, "to_arrow"):  # a Polars series
        values = values.to_arrow()
    if hasattr(values, "to_pandas"):
        return pd.Series(series_of_arrow(values))
    if isinstance(values, np.ndarray) and values.ndim != 1:
        values = values.reshape(-1)
    if (
        isinstance(values, Iterable)
        and not isinstance(values, Sequence | np.ndarray)
        and not hasattr(values, "dtype")
    ):
        values = list(values)
    # the entries of a list keep their own types: pandas would choose one for all of them
    return pd.Series(values) if hasattr(values, "dtype") else pd.Series(values, dtype=object)


def series_of_arrow(values: Any) -> Any:
    """Return an Arrow array as a pandas Series that keeps whole numbers exact beside missing values."""
    import pandas as pd
    import pyarrow as pa

    if pa.types.is_integer(values.type) and values.null_count:
        unsigned = pa.types.is_unsigned_integer(values.type)
        return values.to_pandas(types_mapper=lambda _: pd.UInt64Dtype() if unsigned else pd.Int64Dtype())
    return values.to_pandas(date_as_object=False)


def is_nothing(entry: Any) -> bool:
    """Whether an entry is one of the null objects: ``None``, NaN of any type, ``pd.NA`` or ``NaT``."""
    if entry is None:
        return True
    if isinstance(entry, float | np.floating):
        return math.isnan(entry)
    if isinstance(entry, Decimal):
        return entry.is_nan()
    if isinstance(entry, np.datetime64 | np.timedelta64):
        return bool(np.isnat(entry))
    if isinstance(entry, complex | np.complexfloating):
        return bool(entry != entry)
    return type(entry).__name__ in _NULL_TYPES


def real_of(number: int | float) -> float:
    """Return a number as a double; whole numbers beyond its range become infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def number_of(entry: Any) -> int | float | None:
    """Return an entry as a number, or ``None`` if it is not one. Text may hold a number.

    Examples
    --------
    >>> number_of(" 12 "), number_of("1e3"), number_of(True), number_of("twelve")
    (12, 1000.0, 1, None)
    """
    if isinstance(entry, np.timedelta64):  # numpy derives durations from whole numbers
        return None
    if isinstance(entry, bool | np.bool_ | int | np.integer):
        whole = int(entry)
        return whole if -_BEYOND < whole < _BEYOND else math.inf if whole > 0 else -math.inf
    if isinstance(entry, float | np.floating):
        return float(entry)
    if isinstance(entry, Decimal):
        if entry.is_finite() and entry.adjusted() > _DIGITS:
            return math.inf if entry > 0 else -math.inf
        return int(entry) if entry.is_finite() and entry == entry.to_integral_value() else float(entry)
    if isinstance(entry, str):
        return _number_of_text(entry.strip())
    return None


def _number_of_text(text: str) -> int | float | None:
    if len(text) > _DIGITS:  # no number needs that many digits, and int() of a long text is slow
        return None
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    infinite = _INFINITE.fullmatch(text)
    if infinite:
        return -math.inf if infinite[1] == "-" else math.inf
    return None


def truth_of(entry: Any) -> bool | None:
    """Return an entry as a truth value, or ``None`` if it is not one.

    Examples
    --------
    >>> truth_of("Yes"), truth_of(0.0), truth_of(" F "), truth_of(2)
    (True, False, False, None)
    """
    if isinstance(entry, bool | np.bool_):
        return bool(entry)
    if isinstance(entry, int | float | np.integer | np.floating | Decimal) and not isinstance(
        entry, np.timedelta64
    ):
        return True if entry == 1 else False if entry == 0 else None
    if isinstance(entry, str):
        word = entry.strip().lower()
        return True if word in _TRUE else False if word in _FALSE else None
    return None


def read_numbers(series: pd.Series[Any]) -> Entries | None:
    """Read a column that is stored as numbers; ``None`` if it is stored in another way."""
    from pandas.api import types

    dtype = series.dtype
    if types.is_bool_dtype(dtype) or types.is_integer_dtype(dtype):
        missing = series.isna().to_numpy(dtype=bool)
        absent = bool(missing.any())
        wide = str(dtype).lower().startswith("uint64")
        kind = "float64" if wide else "int64"
        if absent:
            numbers = series.to_numpy(dtype=kind, na_value=0)
        else:
            numbers = series.to_numpy(dtype=kind)
        return Entries(numbers, missing if absent else None)
    if types.is_float_dtype(dtype):
        numbers = series.to_numpy(dtype="float64", na_value=np.nan)
        missing = np.isnan(numbers)
        return Entries(numbers, missing if missing.any() else None)
    return None


def numbers_of_text(series: pd.Series[Any]) -> Entries | None:
    """Read a text column as numbers in one pass; ``None`` unless every entry is plainly a number.

    Privacy
    -------
    Which way a column is read depends on all its entries, so both ways must read each entry alike: otherwise one
    record could change the codes of others. Only entries of up to fifteen digits, with or without a point, are plain:
    they are the same number here and in `number_of`, as whole numbers or not.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pandas.api import types

    if not types.is_string_dtype(series.dtype):
        return None
    if series.dtype == object and not _types_of(series.to_numpy()) <= {str}:
        return None  # Arrow is not asked about other objects: some of them end the process
    try:
        text = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    if isinstance(text, pa.ChunkedArray):
        text = text.combine_chunks()
    if not (pa.types.is_string(text.type) or pa.types.is_large_string(text.type)):
        return None
    for pattern, kind, filler in ((_PLAIN_INTEGER, pa.int64(), 0), (_PLAIN_NUMBER, pa.float64(), 0.0)):
        if pc.all(pc.match_substring_regex(text, pattern)).as_py() is False:
            continue
        numbers = text.cast(kind)
        missing = np.asarray(numbers.is_null(), dtype=bool)
        plain = numbers.fill_null(filler).to_numpy(zero_copy_only=False)
        return Entries(plain, missing if missing.any() else None)
    return None


def distinct_entries(series: pd.Series[Any]) -> tuple[npt.NDArray[np.intp], list[Any]]:
    """Return, for each row, the place of its entry in a list of distinct entries; -1 where there is nothing.

    Entries of different types stay apart (``1`` and ``True`` are two entries), and an entry that cannot be
    hashed is replaced by a mark that no column can read.

    Privacy
    -------
    One of several equal entries stands for all of them, and which one depends on the other records. So entries count
    as equal only where every column reads them alike: ``1``, ``1.0`` and ``True`` are three. One moment written in three time zones is
    three as well, though all are read in UTC. pandas finds equal entries faster than
    `_distinct_objects` but takes all of these for equal, and texts that are equal up to a NUL character (`_compared_whole`), so it is asked only about entries
    of one type in which those that it takes for equal read alike: both ways then give every entry the same reading, and which way is taken does not matter.
    """
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        codes = series.cat.codes.to_numpy().astype(np.intp)
        return codes, list(series.cat.categories)
    if isinstance(series.dtype, pd.DatetimeTZDtype):
        # in UTC; pandas ends the process when it makes objects of far moments with a zone
        series = series.dt.tz_convert(None)
    if isinstance(series.dtype, pd.StringDtype) and series.dtype.storage == "python":
        series = series.astype(object)
    if series.dtype == object:
        entries = series.to_numpy()
        if not _equal_read_alike(entries):
            return _distinct_objects(entries)
    try:
        codes, uniques = pd.factorize(series)
    except (TypeError, ValueError, NotImplementedError):  # nested storage such as Arrow lists
        return _distinct_objects(series.astype(object).to_numpy())
    return codes, list(uniques)


def _types_of(entries: npt.NDArray[Any]) -> set[type]:
    """Return the exact types of entries, without those of null objects."""
    types = {kind for kind in set(map(type, entries)) if kind.__name__ not in _NULL_TYPES}
    if len(types) > 1 and float in types and all(is_nothing(e) for e in entries if type(e) is float):
        types.discard(float)
    return types


def _equal_read_alike(entries: npt.NDArray[Any]) -> bool:
    """Whether all entries are of one type of which pandas takes for equal only what reads alike; types derived from it are others, as a moment is a date."""
    types = _types_of(entries)
    if types == {str}:
        return _compared_whole(entries)
    return len(types) <= 1 and types <= {str, int, float, bool, dt.date}


_TEXTS_AT_ONCE = 1 << 16


def _compared_whole(entries: npt.NDArray[Any]) -> bool:
    """Whether pandas compares all texts to their ends.

    Its table of texts reads them as C does, up to the first NUL character, and one with half of a surrogate pair as what Python prints for it. The first of two
    such texts would stand for both: one record with ``a``, NUL and ``b`` before all others would change every ``a``.

    Examples
    --------
    >>> [_compared_whole(np.array(texts, dtype=object)) for texts in (["a", "é"], ["a", "a\\x00b"], ["a", "\\ud800"])]
    [True, False, False]
    """
    for start in range(0, len(entries), _TEXTS_AT_ONCE):
        some = entries[start : start + _TEXTS_AT_ONCE].tolist()
        joined = "".join([entry for entry in some if type(entry) is str])
        if "\0" in joined:
            return False
        try:
            joined.encode("utf-8")
        except UnicodeEncodeError:
            return False
    return True


_NULL_TYPES = frozenset({"NoneType", "NAType", "NaTType"})


class _NotHashable:
    """Stands for an entry such as a list, which no column can hold."""


def _distinct_objects(entries: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], list[Any]]:
    places: dict[Any, int] = {}
    distinct: list[Any] = []
    found = np.empty(len(entries), dtype=np.intp)
    for row, entry in enumerate(entries):
        if is_nothing(entry):
            found[row] = -1
            continue
        try:
            place = places.setdefault((type(entry), entry, _apart(entry)), len(distinct))
        except (TypeError, ValueError, OverflowError):
            entry = _NotHashable()
            place = places.setdefault(_NotHashable, len(distinct))
        if place == len(distinct):
            distinct.append(entry)
        found[row] = place
    return found, distinct


def _apart(entry: Any) -> Any:
    """Return what keeps equal entries of one type apart: the offset of a zoned moment, the unit of numpy's."""
    if isinstance(entry, dt.datetime):
        return entry.utcoffset()
    return entry.dtype if isinstance(entry, np.datetime64) else None


def days_since_epoch(day: dt.date) -> int:
    """Return the number of days from 1970-01-01 to a date."""
    return day.toordinal() - _EPOCH


_EPOCH = dt.date(1970, 1, 1).toordinal()
