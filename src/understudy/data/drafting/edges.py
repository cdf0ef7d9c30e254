"""Round edges of bins that follow the quantiles of a column, with a bin of its own for a dominant value."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

BINS = 20
_DOMINANT = 0.05
"""Share from which one value among many has a bin of its own."""
_DOMINANT_ZERO = 0.01
"""Share from which zero has one: it stands for *nothing* where all other numbers say how much."""
_MOST_DOMINANT = 5
_TAILS = (0.002, 0.01)
"""Further quantiles at both ends, so that the tails of a heavy-tailed column get bins too: their steps are then like those of
a logarithmic scale."""
_FEWEST_IN_TAIL = 5
_OUTLIER_JUMP = 5.0
_OUTLIER_SHARE = 0.0005
_FEWEST_ROWS = 100


def round_number(low: float, high: float) -> float:
    """Return the roundest number between two: a multiple of the largest step of the form 1, 2 or 5 times a power of ten.

    Examples
    --------
    >>> round_number(37.2, 44.0), round_number(96, 131), round_number(-3, 8), round_number(0.0123, 0.0129)
    (40.0, 100.0, 0.0, 0.0125)
    """
    if low <= 0 <= high:
        return 0.0
    if low >= high:
        return low
    top = math.ceil(math.log10(max(abs(low), abs(high)))) + 1
    middle = (low + high) / 2
    for exponent in range(top, math.floor(math.log10(high - low)) - 2, -1):
        for mantissa in (5, 2, 1):
            step = float(f"{mantissa}e{exponent}")
            if step == 0.0 or not math.isfinite(low / step):
                return low
            near = min(max(round(middle / step), math.ceil(low / step)), math.floor(high / step))
            # Built from a whole number and a power of ten, so that edges read 0.3 and not 0.30000000000000004.
            found = float(f"{near * mantissa}e{exponent}")
            if low <= found <= high:
                return found
    return low


def dominant_values(values: Values, counts: Counts) -> list[float]:
    """Return the values that deserve a bin of their own, because many entries are equal to them, in ascending order.

    Examples
    --------
    >>> dominant_values(np.array([0.0, 1.0, 2.0, 3.0]), np.array([90, 3, 4, 3]))
    [0.0]
    """
    share = counts / counts.sum()
    often = np.flatnonzero(share >= np.where(values == 0, _DOMINANT_ZERO, _DOMINANT))
    often = often[np.argsort(-counts[often], kind="stable")][:_MOST_DOMINANT]
    return sorted(float(values[place]) for place in often)


def without_outliers(values: Values, counts: Counts) -> tuple[float, float]:
    """Return the range of a column without the few entries that lie far from all others.

    From the middle outwards, an entry that is five times as far away as the one before it, with at most one in
    two thousand entries (or one) beyond, begins the outliers of its side.

    Examples
    --------
    >>> values = np.append(np.arange(0.0, 400.0), 54_000.0)
    >>> without_outliers(values, np.ones(401, dtype=np.int64))
    (0.0, 399.0)
    """
    rows = int(counts.sum())
    low, high = float(values[0]), float(values[-1])
    if rows < _FEWEST_ROWS or len(values) < 20:
        return low, high
    few = max(1, int(_OUTLIER_SHARE * rows))
    middle = float(values[np.searchsorted(np.cumsum(counts), rows / 2)])
    for side in (1, -1):
        ordered, times = values[::side], counts[::side]
        beyond = 0
        for place in range(len(ordered) - 1, 0, -1):
            beyond += int(times[place])
            inner = abs(float(ordered[place - 1]) - middle)
            if beyond > few or inner == 0:
                break
            if abs(float(ordered[place]) - middle) > _OUTLIER_JUMP * inner:
                if side == 1:
                    high = float(ordered[place - 1])
                else:
                    low = float(ordered[place - 1])
                break
    return low, high


def equal_edges(low: float, high: float, *, unit: float = 0.0) -> list[float]:
    """Return about twenty edges, multiples of 1, 2 or 5 times a power of ten and of the unit, that enclose the range.

    Examples
    --------
    >>> equal_edges(0.013, 0.98)[:3]
    [0.0, 0.05, 0.1]
    """
    width = max((high - low) / BINS, unit)
    exponent = math.floor(math.log10(width))
    mantissa = next(m for m in (1, 2, 5, 10) if m * 10.0**exponent >= width * 0.999)
    first = math.floor(low / (mantissa * 10.0**exponent))
    last = math.ceil(high / (mantissa * 10.0**exponent))
    edges = [float(f"{step * mantissa}e{exponent}") for step in range(first, last + 1)]
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    return [edges[0], *(later for earlier, later in pairwise(edges) if later > earlier)]


def following_edges(values: Values, counts: Counts, *, unit: float, whole: bool) -> list[float]:
    """Return round edges between which there are about equally many entries.

    Each edge is the roundest number near its quantile: near in terms of entries, so that edges are rounder where there are few.
    A dominant value has a bin of its own, from the value to one ``unit`` above it.

    Parameters
    ----------
    values, counts
        The different entries, ascending, and how often each occurs.
    unit
        Smallest step between two entries, 0 if there is none.
    whole
        Whether entries are whole numbers.

    Examples
    --------
    >>> following_edges(np.arange(0.0, 1000.0), np.ones(1000, dtype=np.int64), unit=1, whole=True)[:6]
    [0.0, 10.0, 50.0, 100.0, 150.0, 200.0]
    """
    step = 1.0 if whole else unit
    own = [value for value in dominant_values(values, counts) if step > 0 or value == 0]
    rest = ~np.isin(values, own)
    edges: set[float] = set()
    if rest.any():
        edges |= set(_quantile_edges(values[rest], counts[rest]))
    if step > 0:
        for value in own:
            above = _stepped(value, step)
            edges = {edge for edge in edges if not value < edge < above} | {value, above}
    low, high = float(values[0]), float(values[-1])
    inner = sorted(edge for edge in edges if low < edge < high)
    first = _bound(low, inner[0] - low if inner else high - low, below=True, whole=whole)
    last = _bound(high, high - inner[-1] if inner else high - low, below=False, whole=whole)
    if low in own:
        first = low
    if high in own and step > 0:
        last = _stepped(high, step)
        inner = sorted({*inner, high})
    return [first, *(edge for edge in inner if first < edge < last), last]


def _stepped(value: float, step: float) -> float:
    """Return a value plus one step, without the noise of adding floats."""
    exponent = math.floor(math.log10(step))
    return float(f"{round(value / 10.0**exponent) + round(step / 10.0**exponent)}e{exponent}")


def _quantile_edges(values: Values, counts: Counts) -> list[float]:
    rows = int(counts.sum())
    below = np.cumsum(counts)

    def quantile(share: float) -> float:
        return float(values[min(len(values) - 1, int(np.searchsorted(below, max(0.0, share) * rows)))])

    targets = [(place / BINS, 0.4 / BINS) for place in range(1, BINS)]
    for share in _TAILS:
        if share * rows >= _FEWEST_IN_TAIL:
            targets += [(share, 0.5 * share), (1 - share, 0.5 * share)]
    return [round_number(quantile(share - near), quantile(share + near)) for share, near in targets]


def _bound(end: float, width: float, *, below: bool, whole: bool) -> float:
    """Return a round number just outside of one end of the range, and on its side of zero."""
    reach = max(width / 2, 1.0 if whole else 0.0)
    low, high = (end - reach, end) if below else (end, end + reach)
    if whole:
        low, high = math.ceil(low), math.floor(high)
    if below and end >= 0:
        low = max(0.0, low)
    if not below and end <= 0:
        high = min(0.0, high)
    return float(end) if not low < high else round_number(float(low), float(high))
