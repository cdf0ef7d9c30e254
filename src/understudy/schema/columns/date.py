"""Columns of dates: days grouped by a resolution, or by edges."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.schema.coding.bins import Bins, BinsLike, Layout, cells_of_spans, spans_of_edges
from understudy.schema.coding.calendar import (
    EARLIEST,
    LATEST,
    label_of_day,
    periods,
    read_date,
    read_days,
    show_day,
)
from understudy.schema.coding.cells import INT_MAX, INT_MIN, MISSING, Cells, Located
from understudy.schema.coding.reading import days_since_epoch, distinct_entries
from understudy.schema.columns.column import Kind, check_text
from understudy.schema.columns.numeric import Ordered
from understudy.schema.problems import MAX_CODES

__all__ = ["Date", "Resolution"]

Resolution: TypeAlias = Literal["day", "week", "month", "quarter", "year"]
RESOLUTIONS = ("day", "week", "month", "quarter", "year")
_SAMPLE = dt.date(2001, 2, 3)
"""Day, month and year differ, so a format that confuses them is found out."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Date(Ordered):
    """A column of calendar dates.

    A time of day is dropped; a time with a time zone counts at its own local date.

    Parameters
    ----------
    minimum, maximum
        First and last possible day, as ``YYYY-MM-DD``.
    resolution
        ``day``, ``week`` (Monday to Sunday), ``month``, ``quarter`` or ``year``: one code for each that
        meets the bounds.
    bins
        Instead of a resolution: ascending edges as ``YYYY-MM-DD``, each the first day of a bin; see `Bins`.
    format
        How text entries are written, in `strptime` codes such as ``%d/%m/%Y``. ISO dates need none and are
        read beside it, because synthetic tables have them.
    decode_by
        ``midpoint`` (the middle day), ``uniform`` (any day of the bin), ``smooth`` (drawn as the neighbouring bins
        say), ``edge`` (its first day), ``label``.

    Examples
    --------
    >>> born = Date("born", minimum="2014-01-01", maximum="2014-12-31", resolution="month")
    >>> born.labels[:2], born.size
    (('2014-01', '2014-02'), 12)
    >>> born.encode(["2014-02-28", "2014-12-31"])
    array([ 1, 11], dtype=uint8)
    """

    minimum: str | None = None
    maximum: str | None = None
    resolution: Resolution | None = None
    bins: BinsLike | None = None
    format: str | None = None

    kind: ClassVar[Kind] = "date"
    own_facts: ClassVar[tuple[str, ...]] = ("minimum", "maximum", "resolution", "bins")
    not_readable: ClassVar[str] = "entries that are not dates (YYYY-MM-DD, or as its format says)"
    decode_rules: ClassVar[tuple[str, ...]] = ("midpoint", "uniform", "smooth", "edge", "label")

    def _check(self) -> list[str]:
        problems = self._check_decode()
        days: dict[str, int | None] = {}
        for field in ("minimum", "maximum"):
            days[field], wrong = self._check_day(field)
            problems += wrong
        first, last = days["minimum"], days["maximum"]
        if first is not None and last is not None and first > last:
            problems.append(f"minimum ({self.minimum}) must not be after maximum ({self.maximum})")
        if self.resolution is not None and self.resolution not in RESOLUTIONS:
            problems.append(f"resolution: write one of {', '.join(RESOLUTIONS)}")
            self._set("resolution", None)
        if self.bins is not None:
            try:
                self._set("bins", Bins.of(self.bins, dates=True))
            except ValueError as error:
                problems.append(f"bins: {error}")
        if self.bins is not None and self.resolution is not None:
            problems.append("give a resolution or bins, not both")
        if self.format is not None:
            problems += check_text(self.format, "format", required=True, one_line=True)
            if not problems and not _names_a_year(self.format):
                problems.append(
                    "format: write it like '%d.%m.%Y', a % before each letter and the year (%Y, %y) among them"
                )
            elif not problems and read_date(_SAMPLE.isoformat(), self.format) != _SAMPLE:
                problems.append("format: it reads ISO dates, which synthetic tables have, as other dates")
        if problems:
            self._no_layout()
            return problems
        return self._check_layout("bins" if self.bins is not None else "domain")

    def _check_day(self, field: str) -> tuple[int | None, list[str]]:
        given = getattr(self, field)
        if given is None:
            return None, []
        day = read_date(given)
        if day is None:
            self._set(field, None)
            return None, [f"{field}: write a date as 'YYYY-MM-DD'"]
        self._set(field, day.isoformat())
        return days_since_epoch(day), []

    def _lay_out(self) -> Layout:
        bounds = [
            None if text is None else days_since_epoch(dt.date.fromisoformat(text))
            for text in (self.minimum, self.maximum)
        ]
        first, last = bounds
        if self.bins is not None:
            return Layout(self._cells_of_edges(Bins.of(self.bins, dates=True), first, last))
        if first is None or last is None:
            raise ValueError("a date column needs a minimum and a maximum, or bins by edges")
        starts = periods(first, last, self.resolution or "day", most=MAX_CODES)
        starts[0] = first
        ends = np.append(starts[1:] - 1, last)
        return Layout(Cells(starts, ends, (starts + ends) / 2.0))

    def _cells_of_edges(self, bins: Bins, first: int | None, last: int | None) -> Cells:
        if bins.edges is None:
            raise ValueError("dates are divided by edges or by a resolution")
        days = [read_date(edge) for edge in bins.edges]
        if any(day is None for day in days):
            raise ValueError("every edge must be a date written as 'YYYY-MM-DD'")
        edges = [days_since_epoch(day) for day in days if day is not None]
        spans = spans_of_edges(edges, bins.open, bins.closed)
        return cells_of_spans(spans, whole=True, minimum=first, maximum=last)

    @cached_property
    def value_labels(self) -> tuple[str, ...]:
        """The name of each period, or the first and last day of each bin."""
        if self.bins is None:
            resolution = self.resolution or "day"
            return tuple(label_of_day(day, resolution) for day in self.cells.low.tolist())
        return tuple(_span_label(self.cells, index) for index in range(len(self.cells)))

    # -- encoding ------------------------------------------------------------------------------

    def _locate(self, series: Any, *, nearest: bool) -> Located:
        entries = read_days(series)
        if entries is not None:
            return self._locate_numbers(entries, nearest=nearest)
        places, distinct = distinct_entries(series)
        return np.append(self._locate_distinct(distinct, nearest=nearest), np.int32(MISSING))[places]

    def _number_in(self, entry: Any) -> int | float | None:
        day = read_date(entry, self.format)
        return None if day is None else days_since_epoch(day)

    def _decode(self, codes: npt.NDArray[np.intp], generator: np.random.Generator) -> Any:
        values = super()._decode(codes, generator)
        return values if self.decode_by == "label" else _dates_of(values)

    def _decode_by_counts(
        self, codes: npt.NDArray[np.intp], counts: npt.NDArray[np.float64], generator: np.random.Generator
    ) -> Any:
        return _dates_of(super()._decode_by_counts(codes, counts, generator))


def _dates_of(days: npt.NDArray[Any]) -> npt.NDArray[Any]:
    # An open cell without any edge has no date of its own; keep within what calendars can write.
    known = np.clip(days, days_since_epoch(EARLIEST), days_since_epoch(LATEST))
    return np.asarray(known.astype("datetime64[D]").astype("datetime64[s]"))


def _span_label(cells: Cells, index: int) -> str:
    low, high = int(cells.low[index]), int(cells.high[index])
    if low == INT_MIN and high == INT_MAX:
        return "any"
    if low == INT_MIN:
        return f"<={show_day(high)}"
    if high == INT_MAX:
        return f">={show_day(low)}"
    return show_day(low) if low == high else f"{show_day(low)} to {show_day(high)}"


def _names_a_year(format: str) -> bool:
    """Say whether a format can tell years apart: ``dd.mm.yyyy``, without signs, cannot."""
    try:
        return dt.datetime.strptime(_SAMPLE.strftime(format), format).year == _SAMPLE.year
    except re.error:  # one letter twice
        return False
    except ValueError as error:  # a time zone, which a day has not, is no fault of the format
        return "directive" not in str(error) and "stray" not in str(error)
