"""Noise taken out of measured pairs: what two columns say about each other is rarely rough.

A noisy table of two columns is compared with the product of its margins. The difference, their *interaction*, is
modelled as a random field: in each cell independent of all others or similar to that of neighbouring codes, larger
where more records are expected (in proportion to them, or to their root). How much of each kind there is (seven
variances) is what makes the noisy table most likely; noise has a known variance, so pairs that are independent are
recognised as such and get almost no interaction, while strong ones are left as they were measured. The posterior mean of
the field takes the place of the noise, and the nearest table without negative cells is taken: setting negative cells to
zero instead would leave what noise put into the other empty cells of a rare row, and pull its mean to the middle.

All of it is post-processing of released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from understudy.marginals import Measurement
from understudy.schema import Clique, Domain, Schema
from understudy.synthesizers._fields import field_posterior, shrunk_cells

__all__ = ["MAX_CELLS", "margins_of", "smooth_pairs"]

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MAX_CELLS = 1_000
"""Largest table that is smoothed; the work grows with the third power."""

_LEAST = 0.5
"""Smallest number of records that a value is thought to have."""
_STEPS = 15
_START = np.log([0.01, 0.01, 0.003, 0.003, 0.001, 0.01, 0.01])
_USUAL = -6.0
"""Logarithms of the variances to start from, and of a usual one."""
_REST = 0.2
"""Standard error of a smoothed cell, as a part of its noise's; larger, the estimate would fill empty cells again."""
_SEED = 1e-3
"""Part of the records expected by chance that is left in every cell: what is zero could not be scaled."""


def margins_of(
    domain: Domain, measurements: Sequence[Measurement], total: float
) -> dict[str, tuple[Array, float]]:
    """Return the best linear unbiased estimate of every single column, with the variance of a value.

    Each measured table that holds a column estimates it with the variance of a cell times the cells that are
    summed, after its sum was set to the total; independent estimates are averaged by precision. Columns
    that no table holds are left out.

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> table = Measurement(("a", "b"), np.array([[3.0, 4.0], [1.0, 2.0]]), "gaussian", 1.0)
    >>> values, variance = margins_of(domain, [table], 10.0)["a"]
    >>> values.tolist(), variance
    ([7.0, 3.0], 2.0)
    """
    sums: dict[str, tuple[Array, float]] = {}
    for item in measurements:
        for axis, name in enumerate(item.clique):
            others = tuple(other for other in range(len(item.clique)) if other != axis)
            values = item.values.sum(axis=others) if others else np.asarray(item.values)
            values = values + (total - values.sum()) / len(values)
            weight = len(values) / (item.variance * item.values.size)
            before, known = sums.get(name, (np.zeros(len(values)), 0.0))
            sums[name] = (before + weight * values, known + weight)
    return {
        name: (sums[name][0] / sums[name][1], 1.0 / sums[name][1]) for name in domain.names if name in sums
    }


def smooth_pairs(
    schema: Schema,
    measurements: Sequence[Measurement],
    margins: Mapping[str, Array],
    allowed: Sequence[tuple[Clique, Mask]],
    total: float,
) -> list[Measurement]:
    """Return targets for an estimate: margins, smoothed pairs that agree with them, other tables as measured.

    Parameters
    ----------
    schema
        The columns; codes of columns with an order are neighbours.
    measurements
        Noisy tables. Those over two columns and up to `MAX_CELLS` cells are smoothed.
    margins
        Number of records with each value, for each column of the pairs.
    allowed
        Combinations of values that may occur.
    total
        Number of records.
    """
    pairs: dict[Clique, tuple[Array, float]] = {}
    others: list[Measurement] = []
    for item in measurements:
        if len(item.clique) == 2 and item.values.size <= MAX_CELLS:
            values, known = pairs.get(item.clique, (np.zeros(item.values.shape), 0.0))
            pairs[item.clique] = (values + item.values / item.variance, known + 1.0 / item.variance)
        elif len(item.clique) != 1 or item.clique[0] not in margins:
            others.append(item)
    fixed = {name: _positive(values, total) for name, values in margins.items()}
    with threadpool_limits(
        1
    ):  # the matrices are small: threads of a loaded machine would wait for each other
        smoothed = [
            _smoothed(schema, clique, values / known, 1.0 / known, fixed, allowed, total)
            for clique, (values, known) in pairs.items()
        ]
    ones = [Measurement((name,), values, "gaussian", 1.0) for name, values in fixed.items()]
    return [*ones, *smoothed, *others]


def _smoothed(
    schema: Schema,
    clique: Clique,
    noisy: Array,
    variance: float,
    margins: Mapping[str, Array],
    allowed: Sequence[tuple[Clique, Mask]],
    total: float,
) -> Measurement:
    """Return one pair without most of its noise, with the given margins and without forbidden cells."""
    left, right = (margins[name] for name in clique)
    mask = np.ones(noisy.shape, dtype=bool)
    for columns, cells in allowed:
        if columns == clique:
            mask &= cells
    expected = _rake(np.where(mask, np.outer(left, right) / total, 0.0), left, right)
    kernels = [_kernels(schema, name) for name in clique]
    table = expected + _interaction(noisy, expected, mask, variance, kernels)
    table = _nearest(table, mask, left, right) + _SEED * expected + 1e-9
    table = _rake(np.where(mask, table, 0.0), left, right)
    return Measurement(clique, table, "gaussian", _REST * math.sqrt(variance))


def _positive(values: Array, total: float) -> Array:
    kept = np.maximum(values, _LEAST)
    return np.asarray(kept * (total / kept.sum()))


def _rake(table: Array, left: Array, right: Array, rounds: int = 50) -> Array:
    """Scale rows and columns in turn until their sums are those wanted."""
    for _ in range(rounds):
        for axis, wanted in ((1, left), (0, right)):
            sums = table.sum(axis=axis)
            factor = np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
            table = table * (factor[:, None] if axis == 1 else factor[None, :])
    return table


def _nearest(table: Array, mask: Mask, left: Array, right: Array, rounds: int = 100) -> Array:
    """Return nearly the closest table (least squares) with given margins, no negative and no forbidden cell.

    Dykstra's algorithm: margins are corrected by equal amounts in all cells of a row or column that may hold
    records, and what cutting off negative numbers took is given back before the next correction.
    """
    found, cut = np.where(mask, table, 0.0), np.zeros_like(table)
    cells = [np.maximum(mask.sum(axis=axis, keepdims=True), 1) for axis in (1, 0)]
    for _ in range(rounds):
        found = found + mask * (left[:, None] - found.sum(axis=1, keepdims=True)) / cells[0]
        found = found + mask * (right[None, :] - found.sum(axis=0, keepdims=True)) / cells[1]
        before = found + cut
        found = np.maximum(before, 0.0)
        cut = before - found
    return np.asarray(found)


def _interaction(
    noisy: Array, expected: Array, mask: Mask, variance: float, kernels: Sequence[tuple[Array, ...]]
) -> Array:
    """Return the posterior mean of a table's difference from the expected one."""
    gap = noisy - expected
    gap = gap - gap.mean(axis=0) - gap.mean(axis=1, keepdims=True) + gap.mean()
    variance *= math.prod(1.0 - 1.0 / size for size in noisy.shape) or 1.0
    spots = shrunk_cells(gap, np.maximum(expected, 1e-9), variance)
    # records that are likely in a cell set the size of its interaction; the root keeps rare rows movable
    likely = np.maximum(expected, expected + spots)
    root = np.where(mask, np.sqrt(likely * likely.mean()), 1e-6)
    return _field(gap, root, np.where(mask, likely, 1e-6), variance, kernels)


def _kernels(schema: Schema, name: str) -> tuple[Array, Array, Array]:
    """Return how alike the codes of a column are: by a trend, as neighbours, and not at all."""
    column = schema.column(name)
    alone = np.eye(column.size)
    trend, near = np.zeros_like(alone), alone.copy()
    count = column.value_count
    if column.kind != "categorical" and count > 1:
        place = np.arange(count, dtype=np.float64)
        near[:count, :count] = np.exp(-0.5 * np.square(np.subtract.outer(place, place) / max(1.0, count / 4)))
        line = (place - place.mean()) / place.std()
        trend[:count, :count] = np.outer(line, line)
    return trend, near, alone


def _field(
    gap: Array, root: Array, likely: Array, variance: float, kernels: Sequence[tuple[Array, ...]]
) -> Array:
    """Fit the variances of the seven kinds of interaction, and return the posterior mean of their sum."""
    (trend, near, alone), (trend_, near_, alone_) = kernels
    trends, areas = np.kron(trend, trend_), np.kron(near, near_)
    rough, even = (np.outer(size.ravel(), size.ravel()) for size in (root, likely))
    parts = [
        rough * trends,
        rough * areas,
        rough * np.kron(alone, near_),
        rough * np.kron(near, alone_),
        rough * np.kron(alone, alone_),
        even * trends,
        even * areas,
    ]
    mean, _ = field_posterior(
        gap.ravel(), parts, variance, start=_START, usual=_USUAL, bounds=(-16.0, 8.0), steps=_STEPS
    )
    return mean.reshape(gap.shape)
