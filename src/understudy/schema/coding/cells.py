"""The cells of an ordered column: one interval of possible values per code.

Numbers and dates are kept on a *lattice* on which every interval can be written with both ends
included: whole numbers (a date is its day number), or the finite double-precision numbers, where the
number after ``x`` is ``nextafter(x, inf)``. ``[0, 10)`` is then the closed interval from 0 to the largest
double below 10, and locating a value is one binary search whatever the brackets were.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Cells", "DecodeRule", "Located"]

DecodeRule: TypeAlias = Literal["midpoint", "uniform", "integer-uniform", "smooth", "edge", "label"]
Located: TypeAlias = npt.NDArray[np.int32]
"""Codes, with the three negative marks below where a value has no code of its own."""

OUTSIDE = -1
MISSING = -2
UNREADABLE = -3

_TABLE_SPAN = 1 << 18
INT_MIN, INT_MAX = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


@dataclass(frozen=True, eq=False)
class Cells:
    """Ascending, disjoint, closed intervals on a lattice.

    Parameters
    ----------
    low, high
        Ends of each cell, both included. ``int64`` for whole numbers and days, ``float64`` for real
        numbers. An open end is the extreme value of the type.
    open_low, open_high
        Whether the first cell has no lower end, and the last no upper end.
    centre
        The middle of each cell by the rule of paper Births: a single value is itself, a bounded cell the
        mean of its ends as declared, an open cell its edge.

    Examples
    --------
    >>> import numpy as np
    >>> cells = Cells(low=np.array([0, 18]), high=np.array([17, 64]), centre=np.array([8.5, 41.0]))
    >>> cells.locate(np.array([3, 18, 70]))
    array([ 0,  1, -1], dtype=int32)
    """

    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    centre: npt.NDArray[np.float64]
    open_low: bool = False
    open_high: bool = False

    def __len__(self) -> int:
        return len(self.low)

    @property
    def whole(self) -> bool:
        """Whether the lattice is the whole numbers."""
        return self.low.dtype.kind == "i"

    @cached_property
    def _table(self) -> tuple[int, int, Located] | None:
        """Code of each whole number between the bounded ends, when that span is short."""
        if not self.whole:
            return None
        first = int(self.high[0]) if self.open_low else int(self.low[0])
        last = int(self.low[-1]) if self.open_high else int(self.high[-1])
        if not 0 <= last - first < _TABLE_SPAN:
            return None
        return first, last, self._search(np.arange(first, last + 1, dtype=np.int64))

    def _search(self, values: npt.NDArray[Any]) -> Located:
        found = np.searchsorted(self.low, values, side="right").astype(np.int32) - np.int32(1)
        outside = (found < 0) | (values > self.high[np.maximum(found, 0)])
        found[outside] = OUTSIDE
        return np.asarray(found, dtype=np.int32)

    def locate(self, values: npt.NDArray[Any]) -> Located:
        """Return the code of each value, or ``OUTSIDE``.

        ``values`` are on the lattice of the cells, except that real numbers may be given to
        whole-number cells: those with a fraction are outside. Infinities and NaN are always outside.
        """
        if values.dtype.kind == "f":
            if self.whole:
                return self._locate_floats(values)
            found = self._search(values)
            unusable = ~np.isfinite(values)
            if unusable.any():
                found[unusable] = OUTSIDE
            return found
        if not self.whole:
            return self._search(values.astype(np.float64))
        table = self._table
        if table is None:
            return self._search(values)
        first, last, codes = table
        clipped = np.clip(values, first, last)
        found = np.asarray(codes[clipped - first])
        beyond = np.zeros(values.shape, dtype=bool)
        if not self.open_low:
            beyond |= values < first
        if not self.open_high:
            beyond |= values > last
        if beyond.any():
            found[beyond] = OUTSIDE
        return found

    def _locate_floats(self, values: npt.NDArray[Any]) -> Located:
        usable = np.isfinite(values) & (np.floor(values) == values) & (np.abs(values) < 2.0**63)
        found = self.locate(np.where(usable, values, 0.0).astype(np.int64))
        found[~usable] = OUTSIDE
        return found

    def nearest(self, values: npt.NDArray[Any]) -> Located:
        """Return the code of the possible value nearest to each number; ties go down. NaN is outside."""
        number = values.astype(np.float64)
        after = np.clip(np.searchsorted(self.low, number, side="right"), 1, len(self)) - 1
        following = np.minimum(after + 1, len(self) - 1)
        with np.errstate(over="ignore"):
            below = number - self.high[after].astype(np.float64)
            above = self.low[following].astype(np.float64) - number
        found = np.where((following > after) & (below > 0) & (above < below), following, after)
        return np.where(np.isnan(number), OUTSIDE, found).astype(np.int32)

    @cached_property
    def edge(self) -> npt.NDArray[Any]:
        """The end of each cell that decoding by ``edge`` gives: the lower one, or the only one there is."""
        ends = self.low.copy()
        if self.open_low:
            ends[0] = self.high[0] if not (self.open_high and len(self) == 1) else 0
        return ends

    @cached_property
    def middle(self) -> npt.NDArray[Any]:
        """The centre of each cell moved onto the lattice and inside the cell; halves go down."""
        if not self.whole:
            return np.clip(self.centre, self.low, self.high)
        edges = self.edge
        bounded = ~self.opened
        # Python integers, since the difference of two 64-bit ends may not fit in 64 bits.
        halves = [int(a) + (int(b) - int(a)) // 2 for a, b in zip(self.low, self.high, strict=True)]
        return np.where(bounded, np.array(halves, dtype=np.int64), edges)

    @cached_property
    def opened(self) -> npt.NDArray[np.bool_]:
        """Which cells have no lower or no upper end."""
        flags = np.zeros(len(self), dtype=bool)
        flags[0] |= self.open_low
        flags[-1] |= self.open_high
        return flags

    def is_open(self, code: int) -> bool:
        """Whether a cell has no lower or no upper end."""
        return bool(self.opened[code])

    def hold_whole_numbers(self) -> bool:
        """Whether every bounded cell of real numbers holds a whole number that a double can count."""
        low, high = self.low[~self.opened], self.high[~self.opened]
        exact = np.maximum(np.abs(low), np.abs(high)) < 2.0**53
        return bool((exact & (np.ceil(low) <= np.floor(high))).all())

    def values(
        self, codes: npt.NDArray[Any], rule: DecodeRule, generator: np.random.Generator
    ) -> npt.NDArray[Any]:
        """Return a value inside the cell of each code; an open cell always gives its edge."""
        if rule == "midpoint":
            return np.asarray(self.middle[codes])
        if rule == "edge":
            return np.asarray(self.edge[codes])
        low, high = np.where(self.opened, self.edge, self.low), np.where(self.opened, self.edge, self.high)
        if self.whole:
            return np.asarray(generator.integers(low[codes], high[codes], endpoint=True))
        if rule == "integer-uniform":
            first = np.where(self.opened, 0.0, np.ceil(low)).astype(np.int64)
            last = np.where(self.opened, 0.0, np.floor(high)).astype(np.int64)
            drawn = generator.integers(first[codes], last[codes], endpoint=True).astype(np.float64)
            return np.asarray(np.where(self.opened[codes], self.edge[codes], drawn))
        share = generator.random(len(codes))
        # The weighted mean cannot overflow where the width of the cell would.
        drawn_real = low[codes] * (1.0 - share) + high[codes] * share
        return np.asarray(np.clip(drawn_real, low[codes], high[codes]))
