"""Values inside bins: the points that output may show, and how often each of them is drawn.

A bin says how many records it holds, not where in it they lie. Two rules that need more than its ends are here.

*Decimals.* A column with ``decimals: 2`` shows the numbers ``k / 100`` that lie in its bins, for whole numbers ``k``. The
division is correctly rounded, so each is the double nearest to the decimal number, and written and read again it is the same.

*Smooth.* The cumulative counts at the edges of the bins are interpolated by a curve that never falls, and values are drawn by
inverting it. The curve meets the cumulative count at every edge, so each bin keeps its records; inside a bin the density leans
towards the neighbour that is denser. A bin is given one of two curves:

- a cubic (Fritsch and Carlson, 1980, with the three-point slopes of Fritsch and Butland, 1984). Its density at an end is at most
  three times the mean density of the bin, so it cannot follow the tail of a price inside a wide last bin;
- where the neighbours say that the density changes more than fourfold from one end of the bin to the other, the density is
  exponential, with a rate interpolated between the logarithms of the mean densities by the same harmonic rule. At a peak or a
  trough that rate is zero, and the cubic stays.

Three kinds of bins stand apart:

- a bin of one value is that value. Where it stands alone between wider bins it is a spike (zero, a round number): it says nothing
  about the values around it, and its neighbours are interpolated as if it were not there;
- an open bin gives its edge, as by every other rule, and its records take no part;
- an empty bin has no shape: if a value is asked for all the same, every point of the bin is equally likely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.schema.coding.cells import Cells, DecodeRule

__all__ = [
    "MAX_DECIMALS",
    "Points",
    "cubic_slopes",
    "exponential_rates",
    "invert_cubic",
    "invert_exponential",
]

MAX_DECIMALS = 15
_MOST = 10**15
"""Decimal numbers of up to fifteen digits are different doubles, and doubles show them."""
_HALVINGS = 16
_STEEP = math.log(4.0)
_STEEPEST = 20.0
"""Rates beyond which a bin is exponential, and beyond which none goes; over a whole bin."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Points:
    """The points of the cells of a column: whole numbers divided by ``scale``, or all doubles.

    Attributes
    ----------
    cells
        The cells.
    scale
        10 to the number of decimals, 1 for whole numbers, 0 where every double of a cell may be shown.
    first, last
        The first and the last point of each cell, times ``scale``; an open cell has its edge only.
    """

    cells: Cells
    scale: int
    first: npt.NDArray[Any]
    last: npt.NDArray[Any]

    @classmethod
    def of(cls, cells: Cells, decimals: int | None = None) -> Points:
        """Return the points of cells.

        Raises
        ------
        ValueError
            With one sentence, if a cell holds no number with so few decimals or numbers are too large for them.

        Examples
        --------
        >>> import numpy as np
        >>> cells = Cells(np.array([0.0, 0.5]), np.array([np.nextafter(0.5, 0), 2.0]), np.array([0.25, 1.25]))
        >>> points = Points.of(cells, 1)
        >>> points.first.tolist(), points.last.tolist()
        ([0, 5], [4, 20])
        """
        if cells.whole or decimals is None:
            low, high = _closed_ends(cells)
            return cls(cells, 1 if cells.whole else 0, low, high)
        scale = 10**decimals
        ends = [
            cells.low[1:] if cells.open_low else cells.low,
            cells.high[:-1] if cells.open_high else cells.high,
        ]
        if any(end.size and float(np.abs(end).max()) * scale > _MOST for end in ends):
            raise ValueError(f"numbers of that size have no {decimals} decimals in double precision")
        if cells.open_low and cells.open_high and len(cells) == 1:
            return cls(cells, scale, np.zeros(1, np.int64), np.zeros(1, np.int64))
        low, high = cells.low.copy(), cells.high.copy()
        low[:1], high[-1:] = (0.0 if cells.open_low else low[0]), (0.0 if cells.open_high else high[-1])
        first, last = _first_at_least(low, scale), -_first_at_least(-high, scale)
        if cells.open_low:
            first[0] = last[0]
        if cells.open_high:
            last[-1] = first[-1]
        empty = np.flatnonzero(first > last)
        if empty.size:
            raise ValueError(
                f"{'the bin' if empty.size == 1 else f'{empty.size:,} bins, the first'} from "
                f"{cells.low[empty[0]]:.12g} to {cells.high[empty[0]]:.12g} "
                f"{'holds' if empty.size == 1 else 'among them, hold'} no number with {decimals} decimals; use wider or "
                "fewer bins, or more decimals"
            )
        return cls(cells, scale, first, last)

    def edge(self, code: int) -> Any:
        """Return the point that decoding by ``edge`` gives, and every rule for an open cell."""
        return self._shown(self.first[[code]])[0]

    def values(
        self, codes: npt.NDArray[np.intp], rule: DecodeRule, generator: np.random.Generator
    ) -> npt.NDArray[Any]:
        """Return a point of the cell of each code by a rule that looks at no counts."""
        if self.cells.whole or self.scale == 0:
            return self.cells.values(codes, rule, generator)
        if rule == "edge":
            return self._shown(self.first[codes])
        if rule == "uniform":
            return self._shown(generator.integers(self.first[codes], self.last[codes], endpoint=True))
        # The other rules choose a number of the cell; the nearest point of the cell is shown.
        first, last = self.first[codes], self.last[codes]
        chosen = np.clip(self.cells.values(codes, rule, generator), first / self.scale, last / self.scale)
        return self._shown(np.clip(np.rint(chosen * self.scale).astype(np.int64), first, last))

    def smooth(
        self, codes: npt.NDArray[np.intp], counts: npt.ArrayLike, generator: np.random.Generator
    ) -> npt.NDArray[Any]:
        """Return points drawn from the interpolated cumulative counts, each in the cell of its code.

        Parameters
        ----------
        codes
            Codes of cells.
        counts
            Records of each cell, as a model expects them; negative numbers count as none.
        generator
            Randomness. One number is drawn for each code, whatever its cell.
        """
        share = self._places(codes, np.maximum(np.asarray(counts, dtype=np.float64), 0.0), generator)
        first, last = self.first[codes], self.last[codes]
        if self.scale == 0:
            return np.asarray(np.clip(first * (1.0 - share) + last * share, first, last))
        # Doubles cannot count the points of cells wider than 2**53; their last point is never passed all the same.
        span = last.astype(np.float64) - first.astype(np.float64) + 1.0
        ahead = np.minimum(np.floor(share * span), 2.0**62).astype(np.int64)
        room = last.astype(np.uint64) - first.astype(np.uint64)  # modulo 2**64: exact, whatever the signs
        ahead = np.minimum(ahead.astype(np.uint64), room)
        return self._shown((first.astype(np.uint64) + ahead).astype(np.int64))

    def _places(self, codes: npt.NDArray[np.intp], counts: Floats, generator: np.random.Generator) -> Floats:
        """Draw where in its cell, from 0 to 1, each value lies."""
        widths = self._widths()
        left, right = cubic_slopes(widths, counts)
        rates = exponential_rates(widths, counts)
        places = generator.random(len(codes))
        steep = np.abs(rates)[codes] > _STEEP
        places[steep] = invert_exponential(places[steep], rates[codes[steep]])
        even = (left == 1.0) & (right == 1.0)
        rest = ~steep & ~even[codes]
        places[rest] = invert_cubic(places[rest], left[codes[rest]], right[codes[rest]])
        return places

    def _widths(self) -> Floats:
        """Return the width of each cell as the interpolation sees it; 0 for cells that take no part."""
        if self.scale == 0:
            widths = np.asarray(self.last / 2.0 - self.first / 2.0, dtype=np.float64)
        else:
            widths = self.last.astype(np.float64) - self.first.astype(np.float64) + 1.0
            wider = widths > 1.0
            alone = np.append(wider[1:], True) & np.append(True, wider[:-1])
            widths[~wider & alone] = 0.0
        widths[self.cells.opened] = 0.0
        return widths

    def _shown(self, points: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(points if self.cells.whole or self.scale == 0 else points / self.scale)


def cubic_slopes(widths: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return the density at the left and right end of each cell, as multiples of its mean density.

    The densities are the derivatives of the monotone cubic interpolant of the cumulative counts over the cells that have a
    width. Multiples lie between 0 and 3, which is what keeps the cubic from falling. Cells without width or records get 1.

    Examples
    --------
    >>> import numpy as np
    >>> left, right = cubic_slopes(np.array([1.0, 1.0, 2.0]), np.array([8.0, 4.0, 2.0]))
    >>> left.round(2).tolist(), right.round(2).tolist()
    ([1.25, 1.33, 1.71], [0.67, 0.43, 0.0])
    """
    left, right = np.ones(len(widths)), np.ones(len(widths))
    used = np.flatnonzero(widths > 0)
    if len(used) < 2:
        return left, right
    width = widths[used] / widths[used].max()
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        density = counts[used] / width
        before, after = density[:-1], density[1:]
        heavy, light = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
        inner = (heavy + light) / (heavy / before + light / after)  # nothing where one of them is empty
        slopes = np.concatenate(
            [
                [_end_slope(width[0], width[1], density[0], density[1])],
                inner,
                [_end_slope(width[-1], width[-2], density[-1], density[-2])],
            ]
        )
        starts, ends = slopes[:-1] / density, slopes[1:] / density
    usable = np.isfinite(starts) & np.isfinite(ends) & (density > 0)
    left[used[usable]] = np.clip(starts[usable], 0.0, 3.0)
    right[used[usable]] = np.clip(ends[usable], 0.0, 3.0)
    return left, right


def _end_slope(width: float, next_width: float, density: float, next_density: float) -> float:
    """Return the three-point derivative at an outer edge, kept between 0 and 3 times the density of its cell."""
    slope = ((2 * width + next_width) * density - width * next_density) / (width + next_width)
    return float(np.clip(slope, 0.0, 3.0 * density))


def exponential_rates(widths: Floats, counts: Floats) -> Floats:
    """Return the logarithm of how many times denser each cell is at its right end than at its left, as its neighbours say.

    The slope of the logarithm of the mean densities from neighbour to neighbour, by the harmonic rule of the cubic: zero
    at a peak, a trough or beside an empty cell. The outermost cells have one neighbour and take its slope.

    Examples
    --------
    >>> import numpy as np
    >>> exponential_rates(np.array([1.0, 1.0, 1.0]), np.array([100.0, 10.0, 1.0])).round(2).tolist()
    [-2.3, -2.3, -2.3]
    """
    rates = np.zeros(len(widths))
    used = np.flatnonzero(widths > 0)
    if len(used) < 2:
        return rates
    width = widths[used] / widths[used].max()
    gaps = (width[1:] + width[:-1]) / 2
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        steps = np.diff(np.log(counts[used] / width)) / gaps  # not finite beside an empty cell
        before, after = steps[:-1], steps[1:]
        heavy, light = 2 * gaps[1:] + gaps[:-1], gaps[1:] + 2 * gaps[:-1]
        inner = (heavy + light) / (heavy / before + light / after)
        inner[~(np.isfinite(before * after) & (before * after > 0))] = 0.0
        found = np.concatenate([steps[:1], inner, steps[-1:]]) * width
    finite = np.isfinite(found)
    rates[used[finite]] = np.clip(found[finite], -_STEEPEST, _STEEPEST)
    return rates


def invert_exponential(shares: Floats, rates: Floats) -> Floats:
    """Return where in its cell a share of its records is reached, for a density that is exponential and not even.

    Examples
    --------
    >>> import numpy as np
    >>> invert_exponential(np.array([0.5]), np.array([-2.0])).round(3).tolist()
    [0.283]
    """
    return np.clip(np.log1p(shares * np.expm1(rates)) / rates, 0.0, 1.0)


def invert_cubic(shares: Floats, left: Floats, right: Floats) -> Floats:
    """Return where in its cell, from 0 to 1, a share of the records of the cell is reached.

    The cubic rises from 0 to 1 with the given slopes at its ends. The cell is halved sixteen times, and in the last piece,
    2**-16 of its width, the cubic is taken for a straight line.

    Examples
    --------
    >>> import numpy as np
    >>> invert_cubic(np.array([0.5]), np.array([1.0]), np.array([1.0])).tolist()
    [0.5]
    """
    cube, square = left + right - 2.0, 3.0 - 2.0 * left - right

    def reached(tried: Floats) -> Floats:
        found = cube * tried
        found += square
        found *= tried
        found += left
        found *= tried
        return np.asarray(found)

    place, step = np.zeros(len(shares)), 0.5
    for _ in range(_HALVINGS):
        tried = place + step
        place += step * (reached(tried) <= shares)
        step /= 2
    start, step = reached(place), 2 * step
    room = reached(place + step) - start
    within = np.divide(shares - start, room, out=np.zeros(len(shares)), where=room > 0)
    return place + step * np.clip(within, 0.0, 1.0)


def _first_at_least(numbers: Floats, scale: int) -> npt.NDArray[np.int64]:
    """Return the smallest whole ``k`` with ``k / scale`` not below each number."""
    found = np.ceil(numbers * scale)
    found = np.where((found - 1) / scale >= numbers, found - 1, found)
    return np.where(found / scale < numbers, found + 1, found).astype(np.int64)


def _closed_ends(cells: Cells) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the ends of cells, an open one shrunk to its edge."""
    return np.where(cells.opened, cells.edge, cells.low), np.where(cells.opened, cells.edge, cells.high)
