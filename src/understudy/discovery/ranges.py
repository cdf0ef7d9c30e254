"""Ranges with round edges that follow the mass: which cells to refine next, and which to merge in the end.

Everything here is computed from released numbers and public rules: post-processing.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from understudy.schema.coding.reading import days_since_epoch

__all__ = [
    "BINS",
    "MARKED_DAYS",
    "MOST_CELLS",
    "SEEN",
    "Ranges",
    "bins_for",
    "by_month",
    "combined",
    "day_of_month",
    "extended",
    "first_numbers",
    "first_years",
    "marked_day",
    "months_of",
    "occupied",
    "refined",
    "round_day",
    "round_number",
    "settled",
    "split_days",
    "split_numbers",
    "tails_of_days",
    "tails_of_numbers",
    "tails_of_years",
    "year_edges",
]

Edge = TypeVar("Edge", Decimal, int)
Array = npt.NDArray[np.float64]

BINS, MOST_BINS = 16, 24
"""Ranges that a column is cut into if its mass allows, and the most in a table of many rows: each further one adds noise to every pair of columns that a fit measures."""
AMPLE = 128.0
"""Rows, in standard deviations of the noise, from which on there are more ranges: as the fourth root of the rows."""
SINGLES = 24
"""Up to so many possible values are not put together, where the noise allows."""
MOST_SINGLES, COUNTED = 64, 20.0
"""Where values hold so many standard deviations of the noise each, on average, more of them are not put together, at most so many."""
SINGLY = 40
"""Up to so many cells, most of them single values, are merged for the sake of the noise alone."""
FEW = 4
"""So few cells are taken to be all there are."""
SEEN = 2.0
"""Standard deviations of the noise that a cell should hold on average to be worth asking for."""
UNEVEN = 5.0
"""Standard deviations of the noise by which a range has to differ from an even one to be cut although a side holds little."""
UNDIVIDED = 2.0
"""A range that holds so many times what it should is cut evenly, because the noise kept it wide."""
LEAST = 3.0
"""Standard deviations of the noise that a range should hold."""
TAIL = 0.005
"""Share of the rows that a tail beside few or frequent values has to hold."""
WORTH = 0.5
"""Standard deviations of the noise that a single value beside those that were found has to hold to be kept: about what an empty cell costs in a fit. Ranges have to hold one."""
ALONE, DENSE = 250, 3.0
"""A range that holds so many times as much for its width as both its neighbours is split into single values, if it has at most the first number of them."""
SHORT = 15
"""A range in which numbers end, and which has at most so many possible values, is split into these."""
MARKED_DAYS = (1, 15, -1)
"""Days on which dates are put that are known by the month alone: its first, its 15th, its last."""
ASKED_BY_DAY = (3, 9)
"""Months of a year in which these days are counted apart: enough to tell, and the others keep one cell."""
MOST_MONTHS = 60
"""Dates that are all on one day of the month have a value for each month if these are so many at most."""
MOST_CELLS = 4_000
"""More cells are not asked for in one round."""


@dataclass(frozen=True)
class Ranges(Generic[Edge]):
    """Ranges of a column, after the last round.

    Attributes
    ----------
    edges
        Ascending; the first range begins at the first edge and the last one ends at the last edge.
    below, above
        Whether something was found below the first and above the last edge.
    """

    edges: tuple[Edge, ...]
    below: bool
    above: bool


def first_numbers(
    decades: Sequence[tuple[int, int, float]],
    *,
    sure: float,
    sigma: float,
    rows: float,
    whole: bool,
    unit: Decimal,
    zero: float,
) -> list[Decimal]:
    """Return the first edges of a column of numbers: as many in the decades that hold much as the noise allows, decades elsewhere.

    Parameters
    ----------
    decades
        Sign, power of ten and noisy count of each decade, such as ``(1, 2, 140.0)`` for numbers from 100 to below 1000.
    sure
        A larger count is taken to be more than noise.
    sigma
        Standard deviation of the counts that will be asked for.
    rows
        About how many numbers there are.
    whole, unit
        Whether all numbers are whole, and the step between possible ones.
    zero
        Noisy number of zeros.
    """
    known = [(sign, power, many) for sign, power, many in decades if not whole or power >= 0]
    heavy = [item for item in known if item[2] > max(sure, 0.01 * rows)]
    has_zero = zero > max(sure, 0.01 * rows)
    if not heavy and not has_zero:
        heavy = [max(known, key=lambda item: item[2])]
    found: set[Decimal] = {Decimal(0)}
    if has_zero or whole:
        found.add(unit)
    if whole and max((power for _, power, _ in heavy), default=0) <= 1:
        # each digit by itself, and the numbers after them where none of two digits stands out: cells cost nothing
        one = has_zero or (1, 0) in [item[:2] for item in heavy]
        found |= {unit * k for k in range(1, 11 if (1, 1) in [item[:2] for item in heavy] or not one else 21)}
    for sign, power, many in heavy:
        low = Decimal(10) ** power
        parts = 9.0 if whole and not power else min(many / (SEEN * sigma), 90)
        inside = split_numbers(low, 10 * low, parts, unit=unit)
        found |= {sign * edge for edge in (low, *inside, 10 * low)}
    powers = [power for _, power, _ in heavy] or [0]
    least, most = min(power for _, power, _ in known), max(power for _, power, _ in known)
    for power in range(max(min(powers) - 2, least), min(max(powers) + 2, most + 1) + 1):
        found |= {Decimal(10) ** power, -(Decimal(10) ** power)}
        if (1, power) not in [item[:2] for item in heavy] and any(sign > 0 for sign, _, _ in heavy):
            found |= {digit * Decimal(10) ** power for digit in (2, 5)}
    return sorted(
        edge for edge in found if not edge % unit
    )  # a range between two possible numbers holds nothing


def _step(width: Decimal, parts: float, unit: Decimal) -> Decimal | None:
    """Return the smallest of 1, 2.5 and 5 times the powers of ten (2 for 2.5 where numbers have no such digits) that cuts a width into at most so many parts."""
    if parts < 2 or width <= unit:
        return None
    power = Decimal(1).scaleb(max((width / Decimal(repr(parts))).adjusted(), unit.adjusted()))
    quarter = power * Decimal("2.5")
    for step in (power, quarter if not quarter % unit else 2 * power, 5 * power, 10 * power):
        if step >= unit and step * Decimal(repr(parts)) >= width:
            return step if step < width else None
    return None


def split_numbers(low: Decimal, high: Decimal, parts: float, *, unit: Decimal) -> list[Decimal]:
    """Return the edges inside a range of numbers that cut it into at most so many parts of a round width.

    Examples
    --------
    >>> [str(edge) for edge in split_numbers(Decimal(20), Decimal(30), 10, unit=Decimal(1))][:3]
    ['21', '22', '23']
    >>> [str(edge) for edge in split_numbers(Decimal(20), Decimal(30), 4, unit=Decimal("0.1"))]
    ['22.5', '25.0', '27.5']
    >>> split_numbers(Decimal(20), Decimal(21), 10, unit=Decimal(1))
    []
    """
    step = _step(high - low, parts, unit)
    if step is None:
        return []
    first = (low / step).to_integral_value(rounding="ROUND_FLOOR") * step
    found = itertools.takewhile(lambda edge: edge < high, (first + k * step for k in itertools.count(1)))
    return [edge for edge in found if edge > low]


def round_number(edge: Decimal) -> int:
    """Return how round a number is: multiples of 100 before those of 50, of 25, of 10, of 5, and so on.

    Examples
    --------
    >>> [round_number(Decimal(edge)) for edge in ("300", "50", "75", "20", "15", "3", "2.5")]
    [8, 7, 6, 4, 3, 0, 2]
    """
    if not edge:
        return 999
    _, digits, exponent = edge.normalize().as_tuple()
    assert isinstance(exponent, int)
    last = int("".join(map(str, digits[-2:])))
    return 4 * exponent + (6 if last % 25 == 0 else 3 if last % 5 == 0 else 0)


def round_day(day: int) -> int:
    """Return how round a day is: the first of a year, of a quarter, of a month."""
    shown = np.array(day, dtype="datetime64[D]").item()
    if shown.day != 1:
        return 0
    return 3 if shown.month == 1 else 2 if shown.month % 3 == 1 else 1


def tails_of_numbers(
    low: Decimal, high: Decimal, *, least: Decimal, unit: Decimal
) -> tuple[Decimal | None, Decimal | None]:
    """Return where the tails beyond a reach of numbers end: at round numbers, above about as far out as the reach is wide, below half as far; positive ones end at ``least``.

    Examples
    --------
    >>> def ends(low: int, high: int, least: int = 0) -> list[str]:
    ...     found = tails_of_numbers(Decimal(low), Decimal(high), least=Decimal(least), unit=Decimal(1))
    ...     return [f"{end:f}" if end is not None else "none" for end in found]
    >>> ends(1987, 2013), ends(17, 64, 1), ends(0, 2), ends(-500, 9000)
    (['1975', '2025'], ['1', '100'], ['none', '3'], ['-2000', '15000'])
    """
    width = high - low
    above = _roundest(high + width / 4, high + width, unit)
    if 0 <= low <= least:
        return None, above
    if low > 0:
        return (
            least if low - width / 2 <= least else _roundest(low - width / 2, low - width / 4, unit)
        ), above
    far = min(width, -3 * low)
    below = _roundest(-low + far / 2, -low + far, unit)
    return (None if below is None else -below), above


def _roundest(low: Decimal, high: Decimal, unit: Decimal) -> Decimal | None:
    """Return the roundest number of an interval that is a multiple of a unit; None if there is none."""
    power = max(low.copy_abs(), high.copy_abs(), high - low).adjusted() + 1
    while Decimal(1).scaleb(power) >= unit:
        for digit in ("1", "0.5", "0.25"):
            step = Decimal(digit).scaleb(power)
            found = (low / step).to_integral_value(rounding="ROUND_CEILING") * step
            if found <= high and not found % unit:
                return found
        power -= 1
    return None


def year_edges(first: int, last: int) -> list[Decimal]:
    """Return the edges of a column of years of the calendar: one at each year from the first to the last, coarse ones elsewhere.

    Examples
    --------
    >>> [str(edge) for edge in year_edges(2020, 2021)][:6], len(year_edges(1900, 2100))
    (['0', '1', '10', '100', '1000', '1100'], 221)
    """
    coarse = (0, 1, 10, 100, 2200, 2300, 2500, 3000, 5000, 10_000)
    outside = {edge for edge in (*coarse, *range(1000, 1901, 100)) if not first <= edge <= last + 1}
    return [Decimal(edge) for edge in sorted({*outside, *range(first, last + 2)})]


def tails_of_years(low: Decimal, high: Decimal) -> tuple[Decimal | None, Decimal | None]:
    """Return where the tails beyond a reach of calendar years end: with the decades that it begins and ends in.

    Examples
    --------
    >>> [str(edge) for edge in tails_of_years(Decimal(1931), Decimal(2006))], tails_of_years(Decimal(1930), Decimal(2000))
    (['1930', '2010'], (None, None))
    """
    below, above = low - low % 10, high + (10 - high % 10) % 10
    return (below if below < low else None), (above if above > high else None)


def tails_of_days(low: int, high: int) -> tuple[int | None, int | None]:
    """Return where the tails beyond a reach of days end: with its first and its last year."""
    first, last = np.array([low, high - 1], dtype="datetime64[D]").astype("datetime64[Y]")
    start, end = (int(year.astype("datetime64[D]").astype(np.int64)) for year in (first, last + 1))
    return (start if start < low else None), (end if end > high else None)


def first_years(first: int = 1900, last: int = 2100) -> list[int]:
    """Return the first day of each year as edges."""
    return [days_since_epoch(dt.date(year, 1, 1)) for year in range(first, last + 2)]


def split_days(low: int, high: int, parts: float) -> list[int]:
    """Return the edges inside a range of days, at most so many parts (nearly): days, weeks of the month, months, quarters.

    Where it is cut into months, two of a year are cut around the `MARKED_DAYS` too.

    Examples
    --------
    >>> split_days(0, 31, 5), split_days(0, 7, 8), len(split_days(0, 365, 30))
    ([7, 14, 21, 28], [1, 2, 3, 4, 5, 6], 19)
    """
    if parts >= high - low:
        return list(range(low + 1, high))
    if high - low <= 31:
        return list(range(low + 7, high, 7)) if parts >= 4 and high - low > 7 else []
    begin = np.array([low, high - 1], dtype="datetime64[D]").astype("datetime64[M]")
    months = np.arange(begin[0] + 1, begin[1] + 1)
    if parts < 8:
        months = months[months.astype(np.int64) % 3 == 0] if parts >= 3 else months[:0]
    found = {int(day) for day in months.astype("datetime64[D]").astype(np.int64)}
    if parts >= 8:
        for month in np.arange(begin[0], begin[1] + 1):
            if int(month.astype(np.int64)) % 12 + 1 in ASKED_BY_DAY:
                found |= {
                    edge + k for day in MARKED_DAYS for edge in [day_of_month(month, day)] for k in (0, 1)
                }
    return sorted(edge for edge in found if low < edge < high)


def day_of_month(month: np.datetime64, day: int) -> int:
    """Return a day of a month, counted from 1, or from its end by -1; in days since 1970.

    Examples
    --------
    >>> [day_of_month(np.datetime64("1970-02"), day) for day in (1, 15, -1)]
    [31, 45, 58]
    """
    start = month.astype("datetime64[M]") + (1 if day < 0 else 0)
    return int(start.astype("datetime64[D]").astype(np.int64)) + (day if day < 0 else day - 1)


def marked_day(edges: Sequence[int], counts: Array, sigma: Array) -> int | None:
    """Return the day of the month that all dates have, one of `MARKED_DAYS`, as far as can be told from the months that were counted day by day or around it; None if they differ.

    Examples
    --------
    >>> edges = [0, 1, 14, 15, 30, 31]  # January 1970, around its first, 15th and last day
    >>> [marked_day(edges, np.array([0.0, *held, 0, 0]), np.full(8, 5.0)) for held in ([0, 0, 900, 4, 0], [0, 300, 400, 200, 0])]
    [15, None]
    """
    for day in MARKED_DAYS:
        on, beside, cells = 0.0, 0.0, 0
        places = {edge: k for k, edge in enumerate(edges)}
        months = np.unique(np.array(edges, dtype="datetime64[D]").astype("datetime64[M]"))
        for month in months:
            start, mark = day_of_month(month, 1), day_of_month(month, day)
            end = day_of_month(month, -1) + 1
            if not {start, mark, mark + 1, end} <= places.keys() or places[mark + 1] != places[mark] + 1:
                continue
            cells += places[end] - places[start] - 1
            many = float(counts[places[mark] + 1])
            on += many
            beside += float(counts[places[start] + 1 : places[end] + 1].sum()) - many
        noise = float(np.median(sigma)) * max(1, cells) ** 0.5
        if cells and on > 4 * noise and beside < min(2 * noise, 0.1 * on):
            return day
    return None


def by_month(edges: Sequence[int], counts: Array, sigma: Array) -> tuple[list[int], Array, Array]:
    """Return cells of days with the edges inside of months taken out.

    Examples
    --------
    >>> edges, counts, sigma = by_month([0, 14, 15, 31], np.array([1.0, 2, 900, 3, 4, 5]), np.full(6, 2.0))
    >>> edges, counts.tolist(), sigma.round(2).tolist()
    ([0, 31], [1.0, 905.0, 4.0, 5.0], [2.0, 3.46, 2.0, 2.0])
    """
    days = np.array(edges, dtype="datetime64[D]")
    kept = np.flatnonzero(days == days.astype("datetime64[M]").astype("datetime64[D]"))
    starts = np.array([0, *(kept + 1), len(counts) - 1])
    return (
        [edges[int(k)] for k in kept],
        np.add.reduceat(counts, starts),
        np.sqrt(np.add.reduceat(sigma**2, starts)),
    )


def months_of(ranges: Ranges[int], day: int) -> Ranges[int] | None:
    """Return ranges of months each of which begins with one day of its month; None where a range is not one month, or something lies outside of them."""
    days = np.array(ranges.edges, dtype="datetime64[D]").astype("datetime64[M]")
    if ranges.below or ranges.above or int((days[-1] - days[0]).astype(np.int64)) > MOST_MONTHS:
        return None
    months = np.arange(days[0], days[-1])
    edges = [day_of_month(month, day) for month in months]
    return Ranges((*edges, day_of_month(months[-1], -1) + 1), False, False)


def refined(
    edges: Sequence[Edge],
    counts: Array,
    *,
    sigma: float,
    split: Callable[[Edge, Edge, float], list[Edge]],
    unit: Edge | None = None,
) -> list[Edge]:
    """Return the edges for the next round: ranges are split into as many parts as the noise of that round allows.

    A range that holds far more than both its neighbours, and a short one in which the numbers end, is split into single values (``unit`` is the step between them): a frequent value may be in it, and cells cost nothing.

    ``counts`` has a cell below the first edge, one per range, one above the last edge, and one for what is in no range.
    """
    inside = counts[1 : len(edges)]
    found = list(edges)
    for place in np.argsort(-inside):
        parts = float(inside[place]) / (SEEN * sigma)
        if parts < 2 or len(found) > MOST_CELLS:
            break
        if unit is not None and (
            _dense(edges, inside, place, unit) or _ends(edges, inside, place, unit, sigma)
        ):
            parts = max(parts, float((edges[place + 1] - edges[place]) / unit))
        found += split(edges[place], edges[place + 1], min(parts, float(MOST_CELLS)))
    return sorted(set(found))


def _dense(edges: Sequence[Edge], inside: Array, place: int, unit: Edge) -> bool:
    """Whether a range of not too many values holds far more for its width than each of its neighbours."""
    if (edges[place + 1] - edges[place]) / unit > ALONE:
        return False

    def density(k: int) -> float:
        return float(inside[k]) / float(edges[k + 1] - edges[k]) if 0 <= k < len(inside) else 0.0

    return density(place) > DENSE * max(0.0, density(place - 1), density(place + 1))


def _ends(edges: Sequence[Edge], inside: Array, place: int, unit: Edge, sigma: float) -> bool:
    """Whether a range of few possible values is where the numbers end, as far as can be told from noise: the last answers of a scale, such as 10 to 12."""
    beyond = inside[place + 1 :]
    few = (edges[place + 1] - edges[place]) / unit <= SHORT
    return bool(few and float(beyond.sum()) <= 2 * sigma * max(1, len(beyond)) ** 0.5)


def combined(
    old_edges: Sequence[Edge],
    old: Array,
    old_sigma: float,
    edges: Sequence[Edge],
    counts: Array,
    sigma: float,
) -> tuple[Array, Array]:
    """Return the counts of the finer ranges and their standard deviations, made to agree with the earlier counts of the coarser ones.

    The best estimate, linear in both answers, of counts whose sums were measured too: the difference between a coarse count and the sum of its parts is given to
    the parts in equal shares, as far as the noise of the sum explains it. The finer edges hold the coarser ones.
    """
    place: dict[Edge, int] = {edge: k for k, edge in enumerate(edges)}
    starts: list[int] = [0, *(place[edge] + 1 for edge in old_edges), len(counts) - 1]
    made, spread = counts.copy(), np.full(len(counts), sigma)
    # cells: below the first edge, ranges, above the last edge, nothing
    for k, (begin, end) in enumerate(itertools.pairwise([*starts, len(counts)])):
        many = end - begin
        weight = sigma**2 / (old_sigma**2 + many * sigma**2)
        made[begin:end] += weight * (float(old[k]) - float(counts[begin:end].sum()))
        spread[begin:end] = sigma * (1 - weight) ** 0.5
    return made, spread


def occupied(counts: Array, *, sure: Array) -> npt.NDArray[np.bool_]:
    """Say of each cell whether it, or the 4, 16 or 64 neighbours that it is counted with, surely hold something.

    ``sure`` is what each cell, if it is empty, hardly ever exceeds. Sums of cells vary as the root of the sum of its squares.

    Examples
    --------
    >>> occupied(np.array([0.0, 9.0, 0, 0, 4, 4, 4, 4]), sure=np.full(8, 5.0)).astype(int).tolist()
    [0, 1, 0, 0, 1, 1, 1, 1]
    """
    found = counts > sure
    rest = np.where(found, 0.0, counts)  # what single cells do not explain
    for width in (4, 16, 64):
        if len(counts) < width:
            break
        pad = np.zeros(-len(counts) % width)
        held = np.concatenate([rest, pad]).reshape(-1, width).sum(axis=1)
        noise = np.concatenate([sure, pad]).reshape(-1, width)
        found |= np.repeat(held > np.sqrt((noise**2).sum(axis=1)), width)[: len(counts)]
    return found


def settled(
    edges: Sequence[Edge],
    counts: Array,
    *,
    sigma: Array,
    sure: float,
    alone: frozenset[Edge] = frozenset(),
    roundness: Callable[[Edge], int] = lambda edge: 0,
    tails: Callable[[Edge, Edge], tuple[Edge | None, Edge | None]] = lambda low, high: (None, None),
    finest: Edge | None = None,
    split: Callable[[Edge, Edge, float], list[Edge]] | None = None,
) -> Ranges[Edge] | None:
    """Merge ranges until each holds about as much as it should; None if nothing but noise was found.

    Ranges are cut at the roundest edges first, as long as both sides hold enough.
    Stretches in which nothing was found stay ranges of their own, so that what lies beside them is not spread over them.

    Parameters
    ----------
    sigma, sure
        Standard deviation of each count, and how many of them a count has to exceed to be taken for more than noise.
    alone
        Edges at which a range of a frequent single value begins: it stays by itself.
    roundness
        How round an edge is.
    tails
        Where the tails beyond the first and the last edge at which something was found end: each is a range of its own, because what the noise hides there
        should not be put at the edge.
    finest
        The step between possible values, where it is known: `FEW` cells are taken to be all there are only if each is one value, not if noise kept them wide.
    split
        Cuts a range evenly into at most so many parts: for ranges that hold far more than others because the noise kept them wide.
    """
    inside, noise = counts[1 : len(edges)], sigma[1 : len(edges)]
    held = occupied(inside, sure=sure * noise)
    reach = _reach(inside, noise, held)
    if reach is None:
        return None
    first, last = extended(edges, inside, noise, reach, finest, tails)
    rows = float(inside[first : last + 1].sum())
    wanted = bins_for(rows, float(np.median(noise[first : last + 1])))
    enough = max(rows / wanted, 1.0)
    single = np.array([edge in alone for edge in edges[:-1]]) & (inside > np.maximum(enough, 4 * noise))
    single |= _spikes(edges, inside, noise, sure=sure, enough=enough / 2)
    enough = 0.0
    values = finest is not None and 2 * sum(
        edges[k + 1] - edges[k] == finest for k in range(first, last + 1)
    ) > (last + 1 - first)
    if last + 1 - first > (SINGLY if values else wanted):
        enough = max((rows - float(inside[single].sum())) / wanted, 1.0)
    borders: list[int] = [
        place + 1
        for place in range(first, last)
        if single[place] or single[place + 1] or _gap(held, place, first, last)
    ]
    cuts = {first, last + 1, *borders}
    for begin, end in itertools.pairwise([first, *borders, last + 1]):
        _cut(edges, inside, noise, begin, end, 0.7 * enough, roundness, cuts)
    made: list[Edge] = [edges[place] for place in sorted(cuts)]
    if finest is not None:
        made = _one_by_one(made, finest, rows=rows, sigma=float(np.median(noise[first : last + 1])))
    if split is not None:
        made = _evenly(made, edges, inside, noise, rows / wanted, split)
    low, high = tails(made[0], made[-1])
    below = list(range(first + 1))  # cells of the counts
    above = list(range(last + 2, len(edges) + 1))
    few = last + 1 - first <= FEW and (
        finest is None or all(edges[k + 1] - edges[k] == finest for k in range(first, last + 1))
    )
    if low is not None:
        near = [k for k in below if edges[k] > low]
        if _hides(counts, sigma, near, few or bool(single[first]), rows):
            made.insert(0, low)
            below = below[: len(below) - len(near)]
    if high is not None:
        near = [k for k in above if edges[k - 1] < high]
        if _hides(counts, sigma, near, few or bool(single[last]), rows):
            above = above[len(near) :]
            # a tail that thins out goes on as long as its next cell holds something
            while above and above[0] < len(edges) and _stands_out(counts, sigma, above[:1], 1.0):
                high = edges[above.pop(0)]
            made.append(high)
    return Ranges(tuple(made), _stands_out(counts, sigma, below, 2.0), _stands_out(counts, sigma, above, 2.0))


def extended(
    edges: Sequence[Edge],
    inside: Array,
    noise: Array,
    reach: tuple[int, int],
    step: Edge | None,
    tails: Callable[[Edge, Edge], tuple[Edge | None, Edge | None]],
) -> tuple[int, int]:
    """Return a reach with the cells beside it that hold more, together, than they cost: single values, and ranges where the tails are; none below zero beside others.

    What a cell holds that is left out is lost in every pair of columns, or drawn where it is not; one that is empty takes a little noise.

    Examples
    --------
    >>> edges, noise = [0, 1, 2, 3, 4, 5, 10], np.full(6, 20.0)
    >>> extended(edges, np.array([30.0, 0, 500, 5, 40, 90]), noise, (2, 2), 1, lambda low, high: (None, None))
    (0, 4)
    >>> extended(edges, np.array([30.0, 0, 500, 5, 40, 90]), noise, (2, 2), 1, lambda low, high: (None, 10))
    (0, 5)
    """
    first, last = reach
    while True:
        low, high = tails(edges[first], edges[last + 1])
        more = []
        for places in (range(first - 1, -1, -1), range(last + 1, len(inside))):
            gains = [0.0]
            for k in places:
                single = edges[k + 1] - edges[k] == step and (edges[k] >= 0 or edges[first] < 0)
                near = (low is not None and low <= edges[k] < edges[first]) or (
                    high is not None and edges[last] < edges[k + 1] <= high
                )
                if not (single or near):
                    break
                gains.append(gains[-1] + float(inside[k] - (WORTH if single else 1.0) * noise[k]))
            more.append(int(np.argmax(gains)))
        if more == [0, 0]:
            return first, last
        first, last = first - more[0], last + more[1]


def bins_for(rows: float, sigma: float) -> float:
    """Return about how many ranges a column of so many rows should have, at most.

    Examples
    --------
    >>> [round(bins_for(rows, 60.0)) for rows in (500, 5_000, 20_000, 200_000)]
    [16, 16, 20, 24]
    """
    return float(min(MOST_BINS, max(BINS, BINS * (max(rows, 1.0) / (AMPLE * sigma)) ** 0.25)))


def _evenly(
    made: list[Edge],
    edges: Sequence[Edge],
    inside: Array,
    noise: Array,
    enough: float,
    split: Callable[[Edge, Edge, float], list[Edge]],
) -> list[Edge]:
    """Return edges with those that cut a range evenly which surely holds far more than others.

    Discovery could not tell what lies where inside of it; the fit, which has most of the budget, can.
    """
    place = {edge: k for k, edge in enumerate(edges)}
    found = list(made)
    for low, high in itertools.pairwise(made):
        if low not in place or high not in place:
            continue
        cells = slice(place[low], place[high])
        many, spread = float(inside[cells].sum()), float((noise[cells] ** 2).sum()) ** 0.5
        if many > max(UNDIVIDED * enough, LEAST * spread):
            found += split(low, high, many / enough)
    return sorted(set(found))


def _one_by_one(edges: list[Edge], step: Edge, *, rows: float, sigma: float) -> list[Edge]:
    """Return an edge at each possible value of a short range whose values hold a standard deviation each, on average, or of a longer one whose values hold `COUNTED`.

    The fit has most of the budget: it can tell values from each other that were put into one range because of the noise of discovery.

    Examples
    --------
    >>> _one_by_one([5, 8, 10], 1, rows=800, sigma=40.0), _one_by_one([5, 8, 10], 1, rows=100, sigma=40.0)
    ([5, 6, 7, 8, 9, 10], [5, 8, 10])
    >>> [len(_one_by_one([0, 20, 53], 1, rows=rows, sigma=40.0)) for rows in (10_000, 100_000)]
    [3, 54]
    """
    values = int((edges[-1] - edges[0]) / step)
    if values > MOST_SINGLES or rows < values * sigma * (1.0 if values <= SINGLES else COUNTED):
        return edges
    return [edges[0] + place * step for place in range(values + 1)]


def _hides(counts: Array, sigma: Array, cells: Sequence[int], likely_empty: bool, rows: float) -> bool:
    """Whether a tail is worth a range: it may hold what could not be seen in its cells; one that is surely empty is none.

    Beside few or frequent values a tail is probably empty, so it has to hold more than nothing, and a share of the rows that matters.
    """
    if not cells:
        return False
    if not likely_empty:
        return _stands_out(counts, sigma, cells, -1.0)
    return _stands_out(counts, sigma, cells, 0.5) and float(counts[cells].sum()) > TAIL * rows


def _stands_out(counts: Array, sigma: Array, cells: Sequence[int], times: float) -> bool:
    """Whether some cells together hold more than so many standard deviations of their noise."""
    noise: float = float((sigma[cells] ** 2).sum()) ** 0.5
    return float(counts[cells].sum()) > times * noise


def _cut(
    edges: Sequence[Edge],
    inside: Array,
    noise: Array,
    begin: int,
    end: int,
    enough: float,
    roundness: Callable[[Edge], int],
    cuts: set[int],
) -> None:
    """Cut a stretch of cells at its roundest edge that leaves enough on both sides, the one in the middle of several, and go on with both sides."""
    waiting = [(begin, end)]
    while waiting:
        begin, end = waiting.pop()
        left, spread = np.cumsum(inside[begin:end])[:-1], np.cumsum(noise[begin:end] ** 2)
        if not len(left):
            continue
        right = float(inside[begin:end].sum()) - left
        fits = left > np.maximum(enough, LEAST * np.sqrt(spread[:-1]))
        fits &= right > np.maximum(enough, LEAST * np.sqrt(np.maximum(spread[-1] - spread[:-1], 0.0)))
        places = [begin + 1 + int(k) for k in np.flatnonzero(fits)]
        if places:
            best = max(
                places,
                key=lambda place: (
                    roundness(edges[place]),
                    -abs(float(left[place - begin - 1] - right[place - begin - 1])),
                ),
            )
        else:
            uneven = _uneven(edges, left, right, spread, begin, end, enough)
            if uneven is None:
                continue
            best = uneven
        cuts.add(best)
        waiting += [(begin, best), (best, end)]


_SHORTEST_GAP = 3


def _uneven(
    edges: Sequence[Edge], left: Array, right: Array, spread: Array, begin: int, end: int, enough: float
) -> int | None:
    """Return where a stretch of cells is surely far from even, so that drawing from it as a whole would put many rows where there are none; None if nowhere."""
    widths = np.array([float(edges[k + 1] - edges[k]) for k in range(begin, end)])
    part = np.cumsum(widths)[:-1] / widths.sum()
    moved = np.abs(left - part * (left + right))
    noise = np.sqrt((1 - part) ** 2 * spread[:-1] + part**2 * np.maximum(spread[-1] - spread[:-1], 0.0))
    excess = moved - np.maximum(UNEVEN * noise, enough)
    best = int(np.argmax(excess))
    return begin + 1 + best if excess[best] > 0 else None


def _reach(inside: Array, noise: Array, held: npt.NDArray[np.bool_]) -> tuple[int, int] | None:
    """Return the first and the last cell of what was found: what is further out is, cell by cell and together, no more than noise."""
    spread = np.sqrt(np.cumsum(noise**2)), np.sqrt(np.cumsum(noise[::-1] ** 2))
    left = np.flatnonzero(np.cumsum(inside) > 3.5 * spread[0])
    right = np.flatnonzero(np.cumsum(inside[::-1]) > 3.5 * spread[1])
    places = np.flatnonzero(held)
    ends = [*places[[0, -1] if len(places) else []], *left[:1], *(len(inside) - 1 - right[:1])]
    if not ends:
        return None
    first, last = int(min(ends)), int(max(ends))
    first += _empty(inside[first : last + 1], noise[first : last + 1])
    last -= _empty(inside[first : last + 1][::-1], noise[first : last + 1][::-1])
    return first, last


def _spikes(
    edges: Sequence[Edge], inside: Array, noise: Array, *, sure: float, enough: float
) -> npt.NDArray[np.bool_]:
    """Say of each cell whether it surely holds more than both its neighbours, all three being of one width."""
    found = np.zeros(len(inside), dtype=bool)
    widths = [high - low for low, high in itertools.pairwise(edges)]
    for place in range(1, len(inside) - 1):
        around = max(inside[place - 1], inside[place + 1])
        alike = widths[place - 1] == widths[place] == widths[place + 1]
        least = max(sure * noise[place], enough)
        found[place] = (
            alike and inside[place] > least and inside[place] - around > max(4 * noise[place], around)
        )
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


def _empty(counts: Array, noise: Array) -> int:
    """Return how many cells from the first on hold, together, no more than noise; not all of them."""
    sums = np.cumsum(counts)
    full = np.flatnonzero(sums > 2.5 * np.sqrt(np.cumsum(noise**2)))
    return int(full[0]) if len(full) else 0
