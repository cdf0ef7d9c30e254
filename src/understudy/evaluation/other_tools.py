"""Headline scores of other tools, computed from their published definitions, so that people can compare.

They are not scores of this project: SDMetrics averages unlike things into one number, and the k-marginal score of SDNist depends on how columns are binned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from understudy.evaluation.comparison import Codes, Comparison, Floats
from understudy.evaluation.distances import total_variation
from understudy.evaluation.measures import correlation, cramers_v

Cells = Mapping[tuple[int, int], float]
"""Shares of the pairs of codes that occur."""

_BINS = 10
_CORRELATED, _ASSOCIATED = 0.5, 0.3
"""Pairs whose real correlation, or real Cramér's V, is not above this have no part in SDMetrics' pair trends, as of its version 0.32."""


@dataclass(frozen=True)
class OtherScores:
    """What other tools would say first.

    Attributes
    ----------
    column_shapes, pair_trends, quality
        SDMetrics' quality report: two properties between 0 and 1, and their average. ``pair_trends`` is None for a table without related columns.
    k_marginal
        SDNist's score with k = 2, between 0 and 1000.
    from_bins
        Columns of numbers that were compared by the middles of their bins because their values were not at hand.
    """

    column_shapes: float
    pair_trends: float | None
    quality: float
    k_marginal: float
    from_bins: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "sdmetrics": {
                "column_shapes": self.column_shapes,
                "column_pair_trends": self.pair_trends,
                "quality": self.quality,
            },
            "sdnist": {"k_marginal": self.k_marginal, "k": 2},
            "from_bins": list(self.from_bins),
        }


def other_scores(both: Comparison) -> OtherScores:
    """Compute the scores.

    Column shapes: the average over columns of ``1 - D``, where ``D`` is the largest difference of the two distribution functions for numbers and dates, and the
    total variation for all other columns; missing entries are left out. Column pair trends: the average over pairs that are related in the real table, of ``1 - |r - r'| / 2``
    for two columns of numbers (``r`` is the correlation), and of one minus the total variation for other pairs; there a column of numbers is cut into ten
    bins of equal width, in each table between its own extremes. k-marginal: ``1000 (1 - t)``, where ``t`` is the average total variation of all
    pairs of columns, binned as in the schema.
    """
    both.require_rows()
    numbers = {name: both.values(name) for name in both.numeric_columns}
    shapes = [
        1 - (_kolmogorov(*numbers[name]) if name in numbers else _entered(both, name))
        for name in both.domain.names
    ]
    shapes = [value for value in shapes if not np.isnan(value)]
    binned = {name: tuple(map(_ten_bins, sides)) for name, sides in numbers.items()}
    trends: list[float] = []
    pairs: list[float] = []
    for x, y in combinations(both.domain.names, 2):
        pairs.append(total_variation(*both.counts((x, y))))
        if x in numbers and y in numbers:
            trends += _correlations(numbers, x, y)
        elif x in numbers or y in numbers:
            real, made = (
                _cells(_side(both, binned, x, side), _side(both, binned, y, side)) for side in (0, 1)
            )
            trends += _trend(real, made)
        else:
            trends += _trend(*map(_shares, both.counts((x, y)), [both.domain.shape((x, y))] * 2))
    shape = float(np.mean(shapes))
    trend = float(np.mean(trends)) if trends else None
    single = total_variation(*both.counts(both.domain.names)) if not pairs else float(np.mean(pairs))
    return OtherScores(
        shape,
        trend,
        shape if trend is None else (shape + trend) / 2,
        1000 * (1 - single),
        tuple(name for name in both.numeric_columns if name not in both.known_values),
    )


def _kolmogorov(real: Floats, made: Floats) -> float:
    """Return the largest difference of two distribution functions; NaN if one has no number."""
    a, b = (np.sort(side[~np.isnan(side)]) for side in (real, made))
    if not len(a) or not len(b):
        return float("nan")
    places = np.concatenate([a, b])
    below = [np.searchsorted(side, places, side="right") / len(side) for side in (a, b)]
    return float(np.abs(below[0] - below[1]).max())


def _entered(both: Comparison, name: str) -> float:
    """Return the total variation of a column among its entries that are not missing; NaN if one table has none."""
    code = both.schema.column(name).missing_code
    real, made = (counts if code is None else np.delete(counts, code) for counts in both.counts((name,)))
    return total_variation(real, made) if real.sum() and made.sum() else float("nan")


def _correlations(numbers: Mapping[str, tuple[Floats, Floats]], x: str, y: str) -> list[float]:
    """Return the score of two columns of numbers, or nothing if they are not related or do not vary."""
    sides = list(zip(numbers[x], numbers[y], strict=True))
    for one, two in sides:
        there = ~(np.isnan(one) | np.isnan(two))
        if min(len(np.unique(one[there])), len(np.unique(two[there]))) < 2:
            return []
    real, made = (correlation(*side) for side in sides)
    return [1 - abs(real - made) / 2] if abs(real) > _CORRELATED else []


def _trend(real: Cells, made: Cells) -> list[float]:
    """Return the score of a pair of columns, or nothing if they are not related in the real table."""
    if _association(real) <= _ASSOCIATED:
        return []
    return [1 - sum(abs(real.get(cell, 0.0) - made.get(cell, 0.0)) for cell in {*real, *made}) / 2]


def _association(shares: Cells) -> float:
    """Return Cramér's V of the cells of two columns."""
    down, across = (sorted({cell[place] for cell in shares}) for place in (0, 1))
    table = np.zeros((len(down), len(across)))
    for (one, two), share in shares.items():
        table[down.index(one), across.index(two)] = share
    return cramers_v(table)


def _shares(counts: Codes, shape: tuple[int, ...]) -> Cells:
    table = counts.reshape(shape)
    rows = max(1, int(table.sum()))
    return {(int(a), int(b)): float(table[a, b]) / rows for a, b in zip(*np.nonzero(table), strict=True)}


def _ten_bins(values: Floats) -> Codes:
    """Return which of ten bins of equal width between the extremes each number is in; a bin of its own for the largest and for missing ones."""
    there = values[~np.isnan(values)]
    if not len(there):
        return np.zeros(len(values), np.int64)
    low, high = float(there.min()), float(there.max())
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    return np.digitize(values, np.linspace(low, high, _BINS + 1)).astype(np.int64)


def _side(both: Comparison, binned: Mapping[str, tuple[Codes, ...]], name: str, side: int) -> Codes:
    if name in binned:
        return binned[name][side]
    table = (both.real_codes, both.synthetic_codes)[side]
    return table[:, both.domain.index(name)]


def _cells(x: Codes, y: Codes) -> Cells:
    found, counts = np.unique(np.stack([x, y], axis=1), axis=0, return_counts=True)
    return {(int(a), int(b)): float(count) / len(x) for (a, b), count in zip(found, counts, strict=True)}
