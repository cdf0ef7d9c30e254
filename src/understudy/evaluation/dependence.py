"""Relations between two columns: correlations of numbers, mutual information and Cramér's V of any columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np

from understudy.evaluation.codes import Codes, Floats
from understudy.evaluation.comparison import Comparison
from understudy.evaluation.result import Result


def correlation_differences(both: Comparison, *, ranks: bool = False) -> Result:
    """Return how far the correlation of every two numeric columns is off: Pearson's, or Spearman's by ranks.

    Records that lack one of the two numbers are left out of that pair. A column that does not vary has
    correlation zero.
    """
    sides = {name: both.numbers(name) for name in both.numeric_columns}
    ready = {  # columns without gaps are ranked once, not once per pair
        name: [None if np.isnan(side).any() else _ranks(side) if ranks else side for side in told or ()]
        for name, told in sides.items()
    }
    values = {}
    for x, y in combinations(both.numeric_columns, 2):
        one, two = sides[x], sides[y]
        assert one is not None
        assert two is not None
        real, made = (
            correlation(a, b, ranks=ranks) if left is None or right is None else correlation(left, right)
            for a, b, left, right in zip(one, two, ready[x], ready[y], strict=True)
        )
        values[f"{x} {y}"] = abs(real - made)
    kind = "rank correlations" if ranks else "correlations"
    return Result(f"absolute difference of {kind}", values, better="lower")


def correlation(x: Floats, y: Floats, *, ranks: bool = False) -> float:
    """Return the correlation of two columns of numbers, by ranks if wanted; zero where one does not vary.

    Examples
    --------
    >>> round(correlation(np.array([1.0, 2, 3, np.nan]), np.array([1.0, 4, 9, 0])), 3)
    0.99
    """
    there = ~(np.isnan(x) | np.isnan(y))
    a, b = x[there], y[there]
    if ranks:
        a, b = _ranks(a), _ranks(b)
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Floats) -> Floats:
    """Return ranks, ties sharing the average one."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    average: Floats = (ends - (counts - 1) / 2).astype(np.float64)
    return average[places.ravel()]


def mutual_information_differences(both: Comparison) -> Result:
    """Return how far the mutual information of every pair of columns is off, in bits."""
    return _pair_differences(both, mutual_information, "mutual information (bits)")


def _pair_differences(both: Comparison, measure: Callable[[Codes], float], title: str) -> Result:
    values = {}
    for x, y in combinations(both.domain.names, 2):
        shape = both.domain.shape((x, y))
        real, made = (measure(counts.reshape(shape)) for counts in both.counts((x, y)))
        values[f"{x} {y}"] = abs(real - made)
    return Result(f"absolute difference of {title}", values, better="lower")


def mutual_information(counts: Codes) -> float:
    """Return the mutual information of a table of counts over two columns, in bits.

    Examples
    --------
    >>> mutual_information(np.array([[5, 0], [0, 5]])), mutual_information(np.array([[1, 1], [1, 1]]))
    (1.0, 0.0)
    """
    total = counts.sum()
    if not total:
        return 0.0
    joint = counts / total
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    there = joint > 0
    return max(0.0, float((joint[there] * np.log2(joint[there] / product[there])).sum()))


def cramers_v_differences(both: Comparison) -> Result:
    """Return how far Cramér's V of every pair of columns is off."""
    return _pair_differences(both, cramers_v, "Cramér's V")


def cramers_v(counts: Codes) -> float:
    """Return Cramér's V of a table of counts, over the rows and columns that occur.

    Examples
    --------
    >>> cramers_v(np.array([[5, 0], [0, 5]]))
    1.0
    """
    table = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    if min(table.shape, default=0) < 2:
        return 0.0
    total = table.sum()
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / total
    chi_squared = float(((table - expected) ** 2 / expected).sum())
    return math.sqrt(chi_squared / (total * (min(table.shape) - 1)))
