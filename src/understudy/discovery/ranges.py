"""Ranges with round edges that follow the mass: which cells to refine next, and which to merge in the end.

Everything here is computed from released numbers and public rules: post-processing.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from understudy.schema.coding.reading import days_since_epoch

__all__ = [
    "BINS",
    "Ranges",
    "first_numbers",
    "first_years",
    "occupied",
    "refined",
    "settled",
    "split_days",
    "split_numbers",
    "tail_of_days",
    "tail_of_numbers",
]

Edge = TypeVar("Edge", Decimal, int)
Array = npt.NDArray[np.float64]

BINS = 32
"""Ranges that a column is cut into if its mass allows."""
MOST_CELLS = 4_000
"""More cells are not asked for in one round."""


@dataclass(frozen=True)
class Ranges:
    """Ranges of a column, after the last round.

    Attributes
    ----------
    edges
        Ascending; the first range begins at the first edge and the last one ends at the last edge.
    counts
        Noisy number of rows in each closed range.
    """

    edges: tuple[Decimal, ...] | tuple[int, ...]
    counts: tuple[float, ...]


def first_numbers(
    decades: Sequence[tuple[int, int, float]],
    *,
    sure: float,
    rows: float,
    whole: bool,
    unit: Decimal,
    zero: float,
) -> list[Decimal]:
    """Return the first edges of a column of numbers: two digits in the decades that hold much, decades elsewhere.

    Parameters
    ----------
    decades
        Sign, power of ten and noisy count of each decade, such as ``(1, 2, 140.0)`` for numbers from 100 to below 1000.
    sure
        A larger count is taken to be more than noise.
    rows
        About how many numbers there are.
    whole, unit
        Whether all numbers are whole, and the step between possible ones.
    zero
        Noisy number of zeros.
    """
    known = [(sign, power, many) for sign, power, many in decades if not whole or power >= 0]
    heavy = [(sign, power) for sign, power, many in known if many > max(sure, 0.01 * rows)]
    if not heavy and not zero > max(sure, 0.01 * rows):
        heavy = [max(known, key=lambda item: item[2])[:2]]
    found: set[Decimal] = {Decimal(0)}
    if zero > max(sure, 0.01 * rows) or whole:
        found.add(unit)
    for sign, power in heavy:
        # two digits, or as many as there are
        step = max(Decimal(10) ** (power - 1), unit)
        found |= {
            sign * (Decimal(10) ** power + k * step) for k in range(int(9 * Decimal(10) ** power / step) + 1)
        }
    for sign in {sign for sign, _ in heavy}:
        powers = [power for other, power in heavy if other == sign]
        for power in range(min(powers), max(powers) + 1):
            found.add(sign * Decimal(10) ** power)
    return sorted(found)


def split_numbers(low: Decimal, high: Decimal, *, unit: Decimal) -> list[Decimal]:
    """Return the edges inside a range of numbers that cut it into about ten parts of round widths.

    Examples
    --------
    >>> [str(edge) for edge in split_numbers(Decimal(20), Decimal(30), unit=Decimal(1))][:3]
    ['21', '22', '23']
    >>> split_numbers(Decimal(20), Decimal(21), unit=Decimal(1))
    []
    """
    width = high - low
    if width <= unit:
        return []
    step = max(
        Decimal(10) ** (width.adjusted() - (1 if width == Decimal(10) ** width.adjusted() else 0)), unit
    )
    first = (low / step).to_integral_value(rounding="ROUND_FLOOR") * step
    found = itertools.takewhile(lambda edge: edge < high, (first + k * step for k in itertools.count(1)))
    return [edge for edge in found if edge > low]


def tail_of_numbers(edge: Decimal, up: bool) -> list[Decimal]:
    """Return where the tail beyond an edge is cut, downwards or upwards: at 1, 2 and 5 times powers of ten, to the next power.

    Examples
    --------
    >>> [[int(cut) for cut in tail_of_numbers(Decimal(edge), up)] for edge, up in ((17, False), (390, True), (100, True), (-3, True))]
    [[10], [500, 1000], [], [-2, -1]]
    """
    if not edge:
        return []
    size = abs(edge)
    power = Decimal(1).scaleb(size.adjusted())
    steps = [power * digit for digit in (1, 2, 5, 10)]
    found = [step for step in steps if (step > size if up == (edge > 0) else step < size)]
    if size == power:  # the end of a decade already
        found = []
    return sorted(found if edge > 0 else [-step for step in found])


def tail_of_days(day: int, up: bool) -> list[int]:
    """Return the first day of the year that the tail beyond a day reaches to, unless the day is one."""
    year = np.array(day, dtype="datetime64[D]").astype("datetime64[Y]")
    start = int(year.astype("datetime64[D]").astype(np.int64))
    if start == day:
        return []
    return [int((year + 1).astype("datetime64[D]").astype(np.int64)) if up else start]


def first_years(first: int = 1900, last: int = 2100) -> list[int]:
    """Return the first day of each year as edges."""
    return [days_since_epoch(dt.date(year, 1, 1)) for year in range(first, last + 2)]


def split_days(low: int, high: int) -> list[int]:
    """Return the edges inside a range of days: years into months, months into weeks (of the month), weeks into days.

    Examples
    --------
    >>> split_days(0, 31), split_days(0, 7)
    ([7, 14, 21, 28], [1, 2, 3, 4, 5, 6])
    """
    if high - low > 31:
        begin = np.array([low, high - 1], dtype="datetime64[D]").astype("datetime64[M]")
        months = np.arange(begin[0] + 1, begin[1] + 1).astype("datetime64[D]").astype(np.int64)
        return [int(day) for day in months]
    step = 7 if high - low > 7 else 1
    return list(range(low + step, high, step))


def target_of(rows: float, sigma: float) -> float:
    """Return how many rows a range should hold: a part of all rows, and more than the noise."""
    return max(rows / BINS, 4 * sigma, 1.0)


def refined(
    edges: Sequence[Edge],
    counts: Array,
    *,
    sigma: float,
    sure: float,
    split: Callable[[Edge, Edge], list[Edge]],
) -> list[Edge]:
    """Return the edges for the next round: ranges that hold more than they should are split.

    ``counts`` has a cell below the first edge, one per range, one above the last edge, and one for what is in no range.
    """
    inside = counts[1 : len(edges)]
    target = target_of(_rows_in(inside, sigma, sure), sigma)
    found = list(edges)
    for place in np.argsort(-inside):
        if inside[place] <= 1.5 * target or len(found) > MOST_CELLS:
            break
        found += split(edges[place], edges[place + 1])
    return sorted(set(found))


def occupied(counts: Array, *, sigma: float, sure: float) -> npt.NDArray[np.bool_]:
    """Say of each cell whether it, or the 4, 16 or 64 neighbours that it is counted with, surely hold something.

    ``sure`` is what a single empty cell hardly ever exceeds. The sum of ``w`` cells varies by the root of ``w`` times as much.

    Examples
    --------
    >>> occupied(np.array([0.0, 9.0, 0, 0, 4, 4, 4, 4]), sigma=1.0, sure=5.0).astype(int).tolist()
    [0, 1, 0, 0, 1, 1, 1, 1]
    """
    found = counts > sure
    rest = np.where(found, 0.0, counts)  # what single cells do not explain
    for width in (4, 16, 64):
        if len(counts) < width:
            break
        full = np.concatenate([rest, np.zeros(-len(counts) % width)]).reshape(-1, width)
        found |= np.repeat(full.sum(axis=1) > sure * width**0.5, width)[: len(counts)]
    return found


def _rows_in(inside: Array, sigma: float, sure: float) -> float:
    return float(np.maximum(inside[occupied(inside, sigma=sigma, sure=sure)], 0.0).sum())


def settled(
    edges: Sequence[Edge],
    counts: Array,
    *,
    sigma: float,
    sure: float,
    alone: frozenset[Edge] = frozenset(),
    roundness: Callable[[Edge], int] = lambda edge: 0,
    tail: Callable[[Edge, bool], list[Edge]] = lambda edge, up: [],
) -> Ranges | None:
    """Merge ranges until each holds about as much as it should; None if nothing but noise was found.

    Stretches in which nothing was found stay ranges of their own, so that what lies beside them is not spread over them.

    Parameters
    ----------
    sigma, sure
        Standard deviation of the counts, and the number above which a count is taken to be more than noise.
    alone
        Edges at which a range of a frequent single value begins: it stays by itself.
    roundness
        How round an edge is; a range ends a little earlier at a rounder edge.
    tail
        Where the tails beyond the first and the last edge at which something was found are cut, downwards and upwards (True): they are
        ranges of their own, because what the noise hides there should not be put at the edge.
    """
    inside = counts[1 : len(edges)]
    held = occupied(inside, sigma=sigma, sure=sure)
    places = np.flatnonzero(held)
    if not len(places):
        return None
    first, last = int(places[0]), int(places[-1])
    first += _empty(inside[first : last + 1], sigma)
    last -= _empty(inside[first : last + 1][::-1], sigma)
    rows = _rows_in(inside, sigma, sure)
    single = np.array([edge in alone for edge in edges[:-1]]) & (inside > target_of(rows, sigma))
    single |= _spikes(edges, inside, sigma=sigma, sure=sure)
    target = target_of(rows - float(inside[single].sum()), sigma)
    cuts: list[Edge] = [edges[first]]
    mass: list[float] = [0.0]
    for place in range(first, last + 1):
        mass[-1] += float(inside[place])
        if place == last:
            break
        end, later = edges[place + 1], edges[place + 2]
        full = mass[-1] >= target or (mass[-1] >= 0.7 * target and roundness(end) > roundness(later))
        border = single[place] or single[place + 1] or _gap(held, place, first, last)
        if border or (full and held[place]):
            cuts.append(end)
            mass.append(0.0)
    cuts.append(edges[last + 1])
    below: list[Edge] = tail(cuts[0], False)
    above: list[Edge] = tail(cuts[-1], True)
    whole = [*below, *cuts, *above]
    return Ranges(tuple(whole), (*[0.0] * len(below), *mass, *[0.0] * len(above)))  # type: ignore[arg-type]


_SHORTEST_GAP = 3


def _spikes(edges: Sequence[Edge], inside: Array, *, sigma: float, sure: float) -> npt.NDArray[np.bool_]:
    """Say of each cell whether it surely holds more than both its neighbours, all three being of one width."""
    found = np.zeros(len(inside), dtype=bool)
    widths = [high - low for low, high in itertools.pairwise(edges)]
    for place in range(1, len(inside) - 1):
        around = max(inside[place - 1], inside[place + 1])
        alike = widths[place - 1] == widths[place] == widths[place + 1]
        found[place] = alike and inside[place] > sure and inside[place] - around > max(4 * sigma, around)
    return found


def _gap(held: npt.NDArray[np.bool_], place: int, first: int, last: int) -> bool:
    """Whether a stretch of at least `_SHORTEST_GAP` cells without anything begins or ends after a cell."""
    if held[place] == held[place + 1]:
        return False
    empty = range(place, first - 1, -1) if held[place + 1] else range(place + 1, last + 1)
    length = 0
    for cell in empty:
        if held[cell]:
            break
        length += 1
    return length >= _SHORTEST_GAP


def _empty(counts: Array, sigma: float) -> int:
    """Return how many cells from the first on hold, together, no more than noise; not all of them."""
    sums = np.cumsum(counts)
    noise = 2 * sigma * np.sqrt(np.arange(1, len(counts) + 1))
    full = np.flatnonzero(sums > noise)
    return int(full[0]) if len(full) else 0
