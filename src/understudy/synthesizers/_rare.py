"""Rare values: found in released numbers, counted once more in disjoint classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, RareCounts, count_rare
from understudy.marginals import Measurement
from understudy.schema import Clique
from understudy.synthesizers._smoothing import margins_of

__all__ = ["measure_rare", "with_rare"]

Array = npt.NDArray[np.float64]

_MOST = 64
"""Most rare values that are counted."""
_DOUBT = 0.15
"""Relative error of an estimated number of records with two rare values, beside that of the smoothed tables."""
_FIT = 6.0
"""Variance of single smoothed cells, in units of that with which they enter the estimate."""


def measure_rare(
    curator: Curator, measurements: Sequence[Measurement], *, total: float, below: float, cost: float
) -> RareCounts | None:
    """Count the values that noisy tables show in fewer than a share ``below`` of the records.

    The rarest come first and get the least noise: precision is inverse to the count that the tables show (or to its
    standard deviation, where that is larger), so that the *relative* errors of all are alike. Returns None, and
    spends nothing, if no value is that rare.

    Privacy
    -------
    The values are chosen from released tables; `count_rare` proves the cost, which is at most ``cost`` in
    the accounting of the curator.
    """
    found = []
    for name, (values, variance) in margins_of(curator.domain, measurements, total).items():
        seen = np.maximum(values, math.sqrt(variance))
        found += [(float(seen[code]), name, int(code)) for code in np.flatnonzero(seen < below * total)]
    found = sorted(found)[:_MOST]
    if not found:
        return None
    return count_rare(
        curator,
        [(name, code) for _, name, code in found],
        weights=[1.0 / count for count, _, _ in found],
        epsilon=curator.accounting.pure_epsilon(cost),
        purpose=f"count {len(found)} rare values",
    )


def with_rare(
    pairs: Mapping[Clique, Measurement],
    margins: Mapping[str, Array],
    unbiased: Mapping[str, tuple[Array, float]],
    rare: RareCounts,
    total: float,
) -> dict[str, Array]:
    """Return margins in which rare values have their own counts, averaged with what the tables say.

    A class leaves out the records of earlier classes. How many of those have the value is taken from ``pairs``,
    smoothed tables of two columns, or is as many as chance would have it; the more there are, the less the class is
    trusted, since records with three of the values are left out more than once and the tables err. The
    other values of a column are scaled so that its sum stays.
    """
    result = {name: values.copy() for name, values in margins.items()}
    seen: list[tuple[str, int, float]] = []
    for place, (name, code) in enumerate(rare.values):
        own = max(0.0, float(rare.counts[place]))
        shared = [_both(pairs, (name, code, own), other, total) for other in seen if other[0] != name]
        both = sum(number for number, _ in shared)
        noise = 2.0 * float(rare.scales[place]) ** 2 + both + (_DOUBT * both) ** 2
        noise += sum(doubt for _, doubt in shared)
        values, variance = unbiased[name]
        count = ((own + both) / noise + values[code] / variance) / (1.0 / noise + 1.0 / variance)
        result[name][code] = max(0.0, count)
        seen.append((name, code, max(0.0, count)))
    for name in {name for name, _, _ in seen}:
        codes = [code for column, code, _ in seen if column == name]
        rest = np.ones(len(result[name]), dtype=bool)
        rest[codes] = False
        common = float(result[name][rest].sum())
        if common > 0:
            result[name][rest] *= max(0.0, total - float(result[name][codes].sum())) / common
    return result


def _both(
    pairs: Mapping[Clique, Measurement],
    first: tuple[str, int, float],
    second: tuple[str, int, float],
    total: float,
) -> tuple[float, float]:
    """Return about how many records have both values, and the variance of that; at most its square and itself."""
    for (name, code, _), (other, match, _) in ((first, second), (second, first)):
        table = pairs.get((name, other))
        if table is not None:
            found = float(table.values[code, match])
            return found, min(_FIT * table.variance, found * found + found)
    return first[2] * second[2] / max(total, 1.0), 0.0
