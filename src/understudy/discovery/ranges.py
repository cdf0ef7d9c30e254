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
    "Ranges",
    "first_numbers",
    "first_years",
    "reach_of",
    "refined",
    "settled",
    "split_days",
    "split_numbers",
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
    """Return the first edges of a column of numbers: digits of the decades that hold much, decades elsewhere.

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
        step = Decimal(10) ** power
        found |= {sign * digit * step for digit in range(1, 11)}
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
    steps: Sequence[int] = (1,),
) -> list[Edge]:
    """Return the edges for the next round: ranges that hold more than they should are split.

    ``counts`` has a cell below the first edge, one per range, one above the last edge, and one for what is in no range.
    """
    inside = counts[1 : len(edges)]
    target = target_of(_rows_in(counts[: len(edges) + 1], sure), sigma)
    found = list(edges)
    by_mass = np.argsort(-inside)
    for place in by_mass:
        if inside[place] <= 1.5 * target or len(found) > MOST_CELLS:
            break
        found += _coarser(split(edges[place], edges[place + 1]), steps, float(inside[place]) / (3 * sigma))
    return sorted(set(found))


def _coarser(edges: list[Edge], steps: Sequence[int], parts: float) -> list[Edge]:
    """Return every first, second, ... of the edges, as ``steps`` allow, so that not more than so many parts come about; none if that cannot be."""
    step = next((step for step in steps if (len(edges) + 1) / step <= parts), None)
    return [] if step is None else edges[step - 1 :: step]


def _rows_in(counts: Array, sure: float) -> float:
    return float(counts[counts > sure].sum())


def reach_of(edges: Sequence[Edge], counts: Array, *, sigma: float, sure: float) -> tuple[Edge, Edge]:
    """Return the ends of the ranges outside of which there is no more than noise."""
    inside = counts[1 : len(edges)]
    return edges[_empty(inside, sigma, sure)], edges[len(edges) - 1 - _empty(inside[::-1], sigma, sure)]


def settled(
    edges: Sequence[Edge],
    counts: Array,
    *,
    sigma: float,
    sure: float,
    reach: tuple[Edge, Edge],
    alone: frozenset[Edge] = frozenset(),
    roundness: Callable[[Edge], int] = lambda edge: 0,
    whole: bool = False,
) -> Ranges:
    """Merge ranges until each holds about as much as it should.

    Parameters
    ----------
    sigma, sure
        Standard deviation of the counts, and the number above which a count is taken to be more than noise.
    reach
        The ends between which something surely is, as found in any round. From there, ranges at either end that hold no more
        than noise together are left out.
    alone
        Edges at which a range of a frequent single value begins: it stays by itself.
    roundness
        How round an edge is; a range ends a little earlier at a rounder edge.
    """
    inside = counts[1 : len(edges)]
    target = target_of(_rows_in(counts[: len(edges) + 1], sure), sigma)
    first, last = edges.index(reach[0]), edges.index(reach[1]) - 1
    first += _empty(inside[first : last + 1], sigma, sure)
    last -= _empty(inside[first : last + 1][::-1], sigma, sure)
    cuts, mass, held = [edges[first]], [], 0.0
    for place in range(first, last + 1):
        single = edges[place] in alone and inside[place] > target
        if single and edges[place] != cuts[-1]:  # what came before ends here
            cuts.append(edges[place])
            mass.append(held)
            held = 0.0
        held += float(inside[place])
        end = edges[place + 1]
        later = edges[place + 2] if place < last else end
        early = held >= 0.7 * target and roundness(end) > roundness(later)
        if single or held >= target or early or place == last:
            cuts.append(end)
            mass.append(held)
            held = 0.0
    if len(mass) > 1 and mass[-1] < target / 3 and edges[last] not in alone:
        del cuts[-2]
        mass[-2:] = [mass[-2] + mass[-1]]
    if whole:  # what lies between here and the ends, if anything, is drawn in a range and not on an edge
        below, above = edges[0] < cuts[0], cuts[-1] < edges[-1]
        cuts = [*([edges[0]] if below else []), *cuts, *([edges[-1]] if above else [])]
        mass = [
            *([float(inside[:first].sum())] if below else []),
            *mass,
            *([float(inside[last + 1 :].sum())] if above else []),
        ]
    return Ranges(tuple(cuts), tuple(mass))  # type: ignore[arg-type]


def _empty(counts: Array, sigma: float, sure: float) -> int:
    """Return how many cells from the first on hold no more than noise, each by itself and all together; not all of them."""
    noise = 2 * sigma * np.sqrt(np.arange(1, len(counts) + 1))
    held = np.flatnonzero((np.cumsum(counts) > noise) | (counts > sure))
    return int(held[0]) if len(held) else 0
