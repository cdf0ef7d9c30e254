"""Margins of columns with many codes: a ladder of groupings, each step as fine as the noise allows.

A column with an order is counted in a few wide groups, then in narrower ones inside them, down to its codes. The
estimate goes down the ladder: the codes inside a group share its count in the proportions that were measured, as
far as these stand out from the noise, and otherwise in proportions that are known already: those of all parts
together, or equal ones. A real column with 1,024 cells then costs three noisy looks, and the noise of its empty or
sparse cells is averaged away instead of being kept.

Everything here works on public facts and noisy counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.privacy import Noise
from understudy.schema import Column

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

ORDERED = frozenset({"ordinal", "integer", "real", "date"})
FIRST = 16
"""Most groups of values on the first step of a ladder; a column with no more codes has that step only."""
BRANCH = 8
"""Most groups that a group is divided into on the next step."""


@dataclass(frozen=True, eq=False)
class Ladder:
    """Groupings of the codes of one column, from coarse to fine; the last one is the codes themselves.

    Examples
    --------
    >>> from understudy.schema import Real
    >>> [int(step.max()) + 1 for step in ladder_of(Real("x", minimum=0, maximum=1)).steps]
    [16, 128, 1024]
    """

    column: str
    steps: tuple[Labels, ...]

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.steps[0])


def ladder_of(column: Column) -> Ladder:
    """Return the ladder of a column; the codes of other and missing entries are never grouped with anything."""
    size, values = column.size, column.value_count
    steps: list[Labels] = [np.arange(size, dtype=np.int64)]
    if column.kind in ORDERED:
        groups = values
        while groups > FIRST:
            groups = max(FIRST, -(-groups // BRANCH))
            inside = np.arange(values, dtype=np.int64) * groups // values
            steps.append(np.concatenate([inside, groups + np.arange(size - values)]))
    return Ladder(column.name, tuple(_nested(steps)))


def _nested(fine_first: list[Labels]) -> list[Labels]:
    """Make every grouping a merging of the next finer one, and return them coarse first."""
    nested = [fine_first[0]]
    for coarse in fine_first[1:]:
        finer = nested[-1]
        first_code = np.unique(finer, return_index=True)[1]  # a finer group goes where its first code goes
        merged = coarse[first_code][finer]
        nested.append(np.unique(merged, return_inverse=True)[1].astype(np.int64))
    return nested[::-1]


def refine(
    ladder: Ladder, noisy: Sequence[npt.ArrayLike], variances: Sequence[float], totals: npt.ArrayLike
) -> Array:
    """Estimate the counts of every code in every part from noisy counts of the steps of a ladder.

    Parameters
    ----------
    ladder
        The groupings.
    noisy
        For each step an array of shape (parts, groups).
    variances
        Variance of the noise of one count, for each step.
    totals
        Number of rows of each part, as far as known; not negative.

    Returns
    -------
    array of shape (parts, codes)
        Not negative; each part adds up to its total.
    """
    counts = [np.atleast_2d(np.asarray(step, dtype=np.float64)) for step in noisy]
    rows = np.atleast_1d(np.asarray(totals, dtype=np.float64))
    pooled = _descend(
        ladder, [step.sum(axis=0, keepdims=True) for step in counts],
        [variance * len(rows) for variance in variances], np.array([rows.sum()]), np.ones((1, ladder.size)),
    )  # fmt: skip
    if len(rows) == 1:
        return pooled
    return _descend(ladder, counts, list(variances), rows, pooled)


def _descend(
    ladder: Ladder, counts: list[Array], variances: list[float], totals: Array, fallback: Array
) -> Array:
    """Divide totals among groups, groups among smaller ones, and so on."""
    parts = len(totals)
    outer = np.zeros(ladder.size, dtype=np.int64)  # the group of each code on the step above
    given = totals[:, None]
    for step, noisy, variance in zip(ladder.steps, counts, variances, strict=True):
        first_code = np.unique(step, return_index=True)[1]
        parent = outer[first_code]  # of each group of this step; ascending only for ordered ladders
        weights = np.stack([np.bincount(step, row, noisy.shape[1]) for row in fallback])
        place, width = _places(parent)
        nodes = given.shape[1]
        values = np.full((parts, nodes, width), -np.inf)
        values[:, parent, place] = noisy
        usual = np.zeros((parts, nodes, width))
        usual[:, parent, place] = np.broadcast_to(weights, noisy.shape)
        shared = _share(values, usual, given, variance)
        given = shared[:, parent, place]
        outer = step
    return np.asarray(given)


def _places(parent: Labels) -> tuple[Labels, int]:
    """Number the children of each parent from zero, and return the largest number of children."""
    order = np.argsort(parent, kind="stable")
    ranks = np.empty(len(parent), dtype=np.int64)
    sorted_parents = parent[order]
    starts = np.searchsorted(sorted_parents, sorted_parents, side="left")
    ranks[order] = np.arange(len(parent)) - starts
    return ranks, int(ranks.max()) + 1


def _share(noisy: Array, usual: Array, totals: Array, variance: float) -> Array:
    """Divide totals among children: measured proportions where they stand out, the usual ones otherwise.

    The measured counts are shrunk towards the usual division by the positive-part James-Stein factor, whose
    expected squared error is smaller than that of either, and projected to the simplex of the total.
    """
    there = np.isfinite(noisy)
    number = there.sum(axis=-1, keepdims=True)
    mass = usual.sum(axis=-1, keepdims=True)
    equal = there / np.maximum(number, 1)
    proportions = np.where(mass > 0, usual / np.where(mass > 0, mass, 1.0), equal)
    expected = proportions * totals[..., None]
    measured = np.where(there, noisy, 0.0)
    # counts are known to add up to the total: remove the part of the noise that contradicts it
    excess = (measured.sum(axis=-1) - totals)[..., None] / np.maximum(number, 1)
    deviation = np.where(there, measured - excess - expected, 0.0)
    squares = (deviation**2).sum(axis=-1, keepdims=True)
    noise = np.maximum(number - 3, 1) * variance
    factor = np.clip(1.0 - noise / np.where(squares > 0, squares, np.inf), 0.0, 1.0)
    return project_rows(np.where(there, expected + factor * deviation, -np.inf), totals)


def project_rows(values: Array, totals: Array) -> Array:
    """Project each last axis to the non-negative vectors with the given sum; ``-inf`` marks absent entries.

    Examples
    --------
    >>> project_rows(np.array([[3.0, 1.0, -2.0], [1.0, 1.0, -np.inf]]), np.array([3.0, 4.0]))
    array([[2.5, 0.5, 0. ],
           [2. , 2. , 0. ]])
    """
    ordered = -np.sort(-values, axis=-1)
    there = np.isfinite(ordered)
    running = np.cumsum(np.where(there, ordered, 0.0), axis=-1) - totals[..., None]
    candidates = running / np.arange(1, values.shape[-1] + 1)
    above = there & (ordered > candidates)
    last = np.maximum(above.sum(axis=-1) - 1, 0)
    threshold = np.take_along_axis(candidates, last[..., None], axis=-1)
    kept = np.where(np.isfinite(values), np.maximum(values - threshold, 0.0), 0.0)
    total = kept.sum(axis=-1, keepdims=True)
    wanted = totals[..., None]
    return np.where(
        wanted > 0, kept * np.divide(wanted, total, out=np.ones_like(total), where=total > 0), 0.0
    )


def noise_variance(noise: Noise) -> float:
    """Variance of one noisy count."""
    return max(noise.variance, 1e-12)


def proportions_of(counts: Array) -> Array:
    """Turn counts into proportions along the last axis; equal ones where there are no counts.

    Examples
    --------
    >>> proportions_of(np.array([[1.0, 3.0], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    total = counts.sum(axis=-1, keepdims=True)
    equal = np.full_like(counts, 1.0 / counts.shape[-1])
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), equal)


def combined_total(estimates: Sequence[tuple[float, float]]) -> float:
    """Combine estimates of one number by the inverse of their variances; at least one row.

    Examples
    --------
    >>> combined_total([(90.0, 1.0), (110.0, 1.0)])
    100.0
    """
    weights = [1.0 / max(variance, 1e-12) for _, variance in estimates]
    mean = math.fsum(value * weight for (value, _), weight in zip(estimates, weights, strict=True))
    return max(1.0, mean / math.fsum(weights))
