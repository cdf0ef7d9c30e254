"""Parts of STEPS: groups of codes to divide by, counts in subsets, margins that keep to their subset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Noise, Subsets, seal_subset_counts
from understudy.marginals import Measurement, Statistic
from understudy.schema import Column, Schema
from understudy.synthesizers.parametric._margins import ORDERED, proportions_of

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shares:
    """Shares of the budget: each histogram, the elections and the sizes of each layer, all margins."""

    histograms: list[float]
    elections: list[float]
    sizes: list[float]
    margins: float


def coarse_groups(column: Column, most: int, weights: Array | None = None) -> Labels:
    """Group the codes of a column for a division; a single group if it cannot be divided into at most so many.

    Extra codes are groups of their own. The values of an ordered column are divided into runs of about equal weight.

    Examples
    --------
    >>> from understudy.schema import Integer
    >>> coarse_groups(Integer("i", minimum=0, maximum=7, missing=True), 4).tolist()
    [0, 0, 0, 1, 1, 1, 2, 2, 3]
    """
    values, extra = column.value_count, column.size - column.value_count
    room = most - extra
    if room < 1 or (column.kind not in ORDERED and values > room):
        return np.zeros(column.size, dtype=np.int64)
    number = min(values, room)
    inside = np.arange(values, dtype=np.int64) * number // values
    if weights is not None and number < values:
        share = proportions_of(np.asarray(weights[:values], dtype=np.float64))
        middle = np.cumsum(share) - share / 2
        found = np.minimum((middle * number).astype(np.int64), number - 1)
        if found[-1] > found[0]:
            inside = np.unique(found, return_inverse=True)[1].astype(np.int64)
    return np.concatenate([inside, inside[-1] + 1 + np.arange(extra)])


def all_groups(schema: Schema, branches: int) -> dict[str, Labels]:
    """Groups of every column, so that a single column that can divide has others to depend on."""
    made = {}
    for column in schema.columns:
        labels = coarse_groups(column, branches)
        made[column.name] = labels if labels.max() > 0 else np.arange(column.size)
    return made


def released_counts(
    curator: Curator, subsets: Subsets, wanted: list[dict[str, Labels]], noise: list[Noise], what: str
) -> tuple[list[Measurement], list[Statistic]]:
    """Measure counts in the subsets and keep them as statistics of the model."""
    sealed = seal_subset_counts(curator, subsets, wanted)
    released = curator.measure_many(
        sealed, noise=noise, purpose=f"measure {what} in {subsets.number} subsets"
    )
    statistics = [
        Statistic(
            f"{', '.join(item.clique[1:]) or 'rows'} in {subsets.number} subsets",
            item.values,
            item.noise,
            item.scale,
        )
        for item in released
    ]
    return released, statistics


def inside(margins: Array, subsets: Subsets, column: str) -> Array:
    """Keep only codes that a subset allows; equal shares where nothing is left."""
    made = margins.copy()
    for leaf in range(len(made)):
        allowed = subsets.path(leaf).get(column)
        if allowed is not None:
            made[leaf] = np.where(allowed, made[leaf], 0.0)
            if not made[leaf].sum() > 0:
                made[leaf] = allowed / allowed.sum()
    return made
