"""Calendar arithmetic on day numbers (days since 1970-01-01), and reading dates."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.schema.coding.reading import Entries, days_since_epoch

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CALENDAR",
    "EARLIEST",
    "LATEST",
    "NAMES",
    "calendar_number",
    "day_of",
    "label_of_day",
    "periods",
    "read_date",
    "read_days",
    "show_day",
]

EARLIEST = dt.date(1, 1, 1)
LATEST = dt.date(9999, 12, 31)
Days = npt.NDArray[np.int64]


def read_date(entry: Any, format: str | None = None) -> dt.date | None:
    """Return an entry as a date, or ``None`` if it is not one.

    With a format, a plain ISO date that does not fit it is read too: synthetic tables are written so.

    Examples
    --------
    >>> read_date("2014-03-01T23:30:00+02:00"), read_date("1/3/2014", "%d/%m/%Y")
    (datetime.date(2014, 3, 1), datetime.date(2014, 3, 1))
    >>> read_date("2014-03-01", "%d/%m/%Y"), read_date("2014-03-01T23:30", "%d/%m/%Y")
    (datetime.date(2014, 3, 1), None)
    >>> read_date("2014-02-30") is None
    True
    """
    if isinstance(entry, dt.date | np.datetime64):
        return day_of(entry)
    if (
        format is not None
        and isinstance(entry, int | np.integer | Decimal)
        and not isinstance(entry, bool | np.timedelta64)
    ):
        entry = str(int(entry)) if -_MOST_AS_DATE < entry < _MOST_AS_DATE else None
    if not isinstance(entry, str) or len(entry) > 64:
        return None
    text = entry.strip()
    if format is not None:
        try:
            return dt.datetime.strptime(text, format).date()
        except ValueError:
            if len(text) != 10:
                return None
    try:
        if len(text) < 10 or text[4] != "-":  # 20140301 and 2014-W05 read too easily as something else
            return None
        return dt.datetime.fromisoformat(text).date()
    except ValueError:
        return None


_MOST_AS_DATE = 10**64
"""Whole numbers from here on are longer than any date, and some of them cannot be written out."""


def day_of(entry: dt.date | np.datetime64) -> dt.date | None:
    """Return the day of a date or a moment, of one with a time zone that in UTC; ``None`` beyond the years 1 to 9999.

    Databases and Parquet files keep moments and no zones. So the day in UTC is the only one that is the same wherever a table is.

    Examples
    --------
    >>> day_of(np.datetime64("2014-03-01T23:30")), day_of(np.datetime64("10000-01-01"))
    (datetime.date(2014, 3, 1), None)
    >>> day_of(dt.datetime(2014, 3, 1, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-5))))
    datetime.date(2014, 3, 2)
    """
    try:
        if isinstance(entry, dt.datetime):  # pandas timestamps are datetimes too, of more years
            return in_utc(entry).date()
        day = entry.astype("datetime64[D]").item() if isinstance(entry, np.datetime64) else entry
    except (ValueError, OverflowError, NotImplementedError):
        return None
    return day if isinstance(day, dt.date) else None


def in_utc(moment: dt.datetime) -> dt.datetime:
    """Return a moment without its time zone: one that has one as it is written in UTC."""
    return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)


def read_days(series: pd.Series[Any]) -> Entries | None:
    """Read a column that is stored as dates or times; ``None`` if it is stored in another way."""
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.PeriodDtype):
        absent = series.isna().to_numpy(dtype=bool)
        # days are counted from 1970, and hold more years than the moments that pandas would make of periods
        first = series.array.asfreq("D", how="start").asi8  # type: ignore[attr-defined]
        return Entries(np.where(absent, 0, first), absent) if absent.any() else Entries(first)
    if isinstance(dtype, pd.ArrowDtype):
        return _read_arrow(series)
    if isinstance(dtype, pd.DatetimeTZDtype):
        series = series.dt.tz_convert(None)  # in UTC
        dtype = series.dtype
    if getattr(dtype, "kind", "") != "M":
        return None
    missing = series.isna().to_numpy(dtype=bool)
    moments = series.to_numpy()
    days = _days_of(moments.astype(np.int64), np.datetime_data(moments.dtype)[0])
    if missing.any():
        return Entries(np.where(missing, 0, days), missing)
    return Entries(days)


def _read_arrow(series: pd.Series[Any]) -> Entries | None:
    import pyarrow as pa

    values = pa.array(series, from_pandas=True)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    moments = pa.types.is_timestamp(values.type)
    if not moments and not pa.types.is_date(values.type):
        return None
    # Arrow keeps moments with a time zone in UTC
    numbers = values.view(pa.int64()) if moments else values.cast(pa.date32()).cast(pa.int32())
    missing = np.asarray(numbers.is_null(), dtype=bool)
    plain = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return Entries(
        _days_of(plain, values.type.unit) if moments else plain, missing if missing.any() else None
    )


_IN_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _days_of(moments: Days, unit: str) -> Days:
    """Return the days of moments; those that NumPy and Arrow give are wrong near the first moment that 64 bits hold."""
    days: Days = moments // (86_400 * _IN_A_SECOND[unit])
    return days


def periods(first: int, last: int, resolution: str, *, most: int) -> Days:
    """Return the first day of each week, month, quarter or year that meets a range of days.

    Raises
    ------
    ValueError
        If there would be more than ``most``.

    Examples
    --------
    >>> [show_day(int(day)) for day in periods(0, 120, "quarter", most=10)]
    ['1970-01-01', '1970-04-01']
    """
    if resolution in ("day", "week"):
        step = 7 if resolution == "week" else 1
        start = first - (first + 3) % 7 if resolution == "week" else first  # 1970-01-01 was a Thursday
        count = (last - start) // step + 1
        if count > most:
            raise ValueError(
                f"there are more than {most:,} {resolution}s in the range; choose a coarser resolution"
            )
        return start + step * np.arange(count, dtype=np.int64)
    length = {"month": 1, "quarter": 3, "year": 12}[resolution]
    begin = np.array([first, last], dtype="datetime64[D]").astype("datetime64[M]").astype(np.int64)
    start_month = int(begin[0]) - int(begin[0]) % length
    count = (int(begin[1]) - start_month) // length + 1
    if count > most:
        raise ValueError(
            f"there are more than {most:,} {resolution}s in the range; choose a coarser resolution"
        )
    months = start_month + length * np.arange(count, dtype=np.int64)
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


# ----------------------------------------------------------------------------------------
# Numbers and names that a calendar gives to a day, for rules between columns and for derived columns.

CALENDAR: dict[str, tuple[int, int]] = {
    "year_of": (1, 9999),
    "quarter_of": (1, 4),
    "month_of": (1, 12),
    "week_of": (1, 53),
    "weekday_of": (1, 7),
    "day_of": (1, 31),
    "month_name_of": (1, 12),
    "weekday_name_of": (1, 7),
}
"""The calendar functions, with the smallest and largest number each gives."""

NAMES: dict[str, tuple[str, ...]] = {
    "month_name_of": (
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ),
    "weekday_name_of": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
}
"""What the functions that give a name call the numbers 1, 2, ..."""

_MARCH_FIRST = 719_468
"""Days from 1 March of the year 0 to 1 January 1970."""


def calendar_number(function: str, days: Any) -> Any:
    """Return the year, quarter, month, ISO week, weekday (1 for Monday) or day of month of day numbers.

    Sums, products and whole divisions alone, so that arrays and columns of a database are computed by the same lines.

    Examples
    --------
    >>> [int(calendar_number(name, np.int64(16_801))) for name in ("year_of", "month_of", "week_of", "day_of")]
    [2016, 1, 53, 1]
    """
    if function in ("weekday_of", "weekday_name_of"):
        return _since_monday(days) + 1
    if function == "week_of":  # the week belongs to the year of its Thursday
        thursday = days - _since_monday(days) + 3
        year, _, _ = _civil(thursday)
        return (thursday - _first_of_january(year)) // 7 + 1
    year, month, day = _civil(days)
    if function == "year_of":
        return year
    if function == "day_of":
        return day
    return (month + 2) // 3 if function == "quarter_of" else month


def _since_monday(days: Any) -> Any:
    """Return the days since the last Monday; the sum is not negative, as databases disagree about remainders of what is."""
    return (days + 3 + 7 * 200_000) % 7


def _civil(days: Any) -> tuple[Any, Any, Any]:
    """Return year, month and day of month; years begin in March here, so that the odd day comes last."""
    since = days + _MARCH_FIRST
    era = since // 146_097
    of_era = since - era * 146_097
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    late = (shifted + 2) // 12  # January and February: the next year has begun
    return era * 400 + year_of_era + late, shifted + 3 - 12 * late, day


def _first_of_january(year: Any) -> Any:
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + 306 - _MARCH_FIRST


def show_day(day: int) -> str:
    """Return a day number as an ISO date."""
    return dt.date.fromordinal(day - days_since_epoch(EARLIEST) + 1).isoformat()


def label_of_day(day: int, resolution: str) -> str:
    """Return the name of the period that holds a day.

    Examples
    --------
    >>> label_of_day(0, "week"), label_of_day(0, "quarter"), label_of_day(0, "year")
    ('1970-W01', '1970-Q1', '1970')
    """
    date = dt.date.fromordinal(day - days_since_epoch(EARLIEST) + 1)
    if resolution == "day":
        return date.isoformat()
    if resolution == "week":
        year, week, _ = date.isocalendar()
        return f"{year}-W{week:02d}"
    if resolution == "month":
        return f"{date.year:04d}-{date.month:02d}"
    if resolution == "quarter":
        return f"{date.year:04d}-Q{(date.month + 2) // 3}"
    return f"{date.year:04d}"
