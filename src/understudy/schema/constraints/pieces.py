"""The possible values behind each code, cut finely enough for a constraint to have one answer on each piece.

A bin of ages from 20 to 24 and a rule about ``mother_age < 23`` make two pieces, 20-22 and 23-24. Every
comparison of a column with a constant is then certain on a piece, however often the column occurs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.schema.calendar import read_days
from understudy.schema.cells import INT_MAX, INT_MIN, MISSING, Cells
from understudy.schema.column import Column
from understudy.schema.date import Date
from understudy.schema.ordered import Ordered
from understudy.schema.reading import (
    MISSING_TEXT,
    as_series,
    distinct_entries,
    read_numbers,
    real_of,
)

__all__ = ["Pieces", "pieces_of_codes", "pieces_of_edges", "pieces_of_raw"]

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of one column.

    Parameters
    ----------
    code
        Value code of each piece, or -1 where the value has none (other, missing).
    missing
        Whether the entry is missing.
    other
        Whether the value is outside the declared domain, and so unknown.
    low, high
        Ends of the values of an ordered column, both included.
    start
        First piece of each code of the column, for codes; ``None`` for raw entries.
    """

    code: Index
    missing: npt.NDArray[np.bool_]
    other: npt.NDArray[np.bool_]
    low: npt.NDArray[Any] | None = None
    high: npt.NDArray[Any] | None = None
    start: Index | None = None

    def __len__(self) -> int:
        return len(self.code)


def pieces_of_codes(column: Column, constants: Sequence[int | float]) -> Pieces:
    """Return the pieces of every code of a column, cut at the constants a rule compares it with."""
    if not isinstance(column, Ordered):
        return _with_extras(column, np.arange(column.value_count, dtype=np.intp), None, None)
    cells = column.cells
    cuts = _cuts(cells, constants)
    inside = cuts[(np.searchsorted(cells.low, cuts, side="right") > 0)]
    owner = np.searchsorted(cells.low, inside, side="right") - 1
    inside = inside[inside <= cells.high[owner]]
    low = np.union1d(cells.low, inside)
    code = (np.searchsorted(cells.low, low, side="right") - 1).astype(np.intp)
    high = cells.high[code].copy()
    before = low[1:] - 1 if cells.whole else np.nextafter(low[1:], -np.inf)
    same = code[1:] == code[:-1]
    high[:-1][same] = before[same]
    return _with_extras(column, code, low, high)


def pieces_of_edges(column: Column) -> Pieces:
    """Return one piece per code, each bin reduced to its edge: the rule of paper Births."""
    codes = np.arange(column.value_count, dtype=np.intp)
    if not isinstance(column, Ordered):
        return _with_extras(column, codes, None, None)
    return _with_extras(column, codes, column.cells.edge, column.cells.edge)


def _cuts(cells: Cells, constants: Sequence[int | float]) -> npt.NDArray[Any]:
    """Return the smallest lattice values not below, and above, each constant."""
    if cells.whole:
        cuts = [cut for value in constants for cut in (math.ceil(value), math.floor(value) + 1)]
        return np.array([cut for cut in cuts if INT_MIN <= cut <= INT_MAX], dtype=np.int64)
    reals = [float(value) + 0.0 for value in constants if abs(value) < 1e308]
    return np.array(
        [cut for value in reals for cut in (value, math.nextafter(value, math.inf))], dtype=np.float64
    )


def _with_extras(column: Column, code: Index, low: Any, high: Any) -> Pieces:
    extra = column.size - column.value_count
    total = len(code) + extra
    missing = np.zeros(total, dtype=bool)
    other = np.zeros(total, dtype=bool)
    if column.missing:
        missing[-1] = True
    if column.other_code is not None:
        other[len(code)] = True
    owner = np.append(code, column.value_count + np.arange(extra))
    start = np.searchsorted(owner, np.arange(column.size)).astype(np.intp)
    codes = np.append(code, np.full(extra, -1, dtype=np.intp))
    if low is not None:
        filler = np.zeros(extra, dtype=low.dtype)
        low, high = np.append(low, filler), np.append(high, filler)
    return Pieces(codes, missing, other, low, high, start)


def pieces_of_raw(column: Column, values: Any) -> Pieces:
    """Return one piece per raw entry. Numbers and dates count as they are, even outside the domain.

    Privacy
    -------
    In and out: private.
    """
    series = as_series(values)
    if isinstance(column, Ordered):
        numbers, missing, unread = _raw_numbers(column, series)
        code = np.full(len(series), -1, dtype=np.intp)
        return Pieces(code, missing, unread & ~missing, numbers, numbers)
    located = column._locate(series, nearest=False)
    missing = located == MISSING
    other = (located < 0) & ~missing
    return Pieces(np.maximum(located, -1).astype(np.intp), missing, other)


def _raw_numbers(column: Ordered, series: Any) -> tuple[Any, Any, Any]:
    """Return numbers (or day numbers), where they are missing, and where an entry is not one."""
    entries = read_days(series) if isinstance(column, Date) else read_numbers(series)
    if entries is not None:
        missing = entries.missing if entries.missing is not None else np.zeros(len(series), dtype=bool)
        if column.missing_numbers:
            missing = missing | np.isin(entries.numbers, column.missing_numbers)
        return entries.numbers, missing, np.zeros(len(series), dtype=bool)
    places, distinct = distinct_entries(series)
    numbers = [column._number_in(entry) for entry in distinct]
    absent = np.array([_is_missing(column, entry) for entry in distinct] + [True], dtype=bool)
    unread = np.array([number is None for number in numbers] + [True], dtype=bool)
    # the type of the array must not depend on the entries: one of them would decide how exactly the others compare
    kept = [0 if number is None else number for number in numbers] + [0]
    array = np.array(kept, np.int64) if isinstance(column, Date) else np.array([real_of(n) for n in kept])
    return array[places], absent[places], unread[places]


def _is_missing(column: Ordered, entry: Any) -> bool:
    if isinstance(entry, str) and entry.strip().lower() in MISSING_TEXT:
        return True
    return entry in column.missing_values or column._number_in(entry) in column.missing_numbers
