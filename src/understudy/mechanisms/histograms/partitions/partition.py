"""What histograms with buckets of their own choosing share: the ordered column, cuts, and evening out.

A *cell* is a bin of the schema (or of a public coarser grid); a *bucket* is a range of adjacent cells that get
the same count each. Codes of other and missing entries have no neighbours and are buckets of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, SealedCounts
from understudy.engine import Distribution
from understudy.errors import BudgetError
from understudy.marginals import Statistic
from understudy.mechanisms.base import Fitted, Progress
from understudy.mechanisms.histograms.bins import Grid, legitimate, planned_grids, require_ordered
from understudy.mechanisms.histograms.partitions.look import merged_cells
from understudy.privacy import Accounting, Noise
from understudy.privacy.noise.noise import noise_within
from understudy.schema import Schema

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Line:
    """The cells of one ordered column.

    Attributes
    ----------
    grid
        Which codes each cell holds.
    ordered
        How many cells, from the first, are neighbours of each other; the others are other and missing entries.

    Examples
    --------
    >>> schema = Schema.parse("name: t\\ncolumns: [{name: a, kind: integer, minimum: 0, maximum: 4, missing: true}]")
    >>> line = line_of(schema, bins="schema", max_bins=10, method="noise-first")
    >>> line.cells, line.ordered
    (6, 5)
    >>> line.labels([0, 2])
    array([0, 0, 1, 1, 1, 2])
    >>> line.even([0, 2], np.array([4.0, 3.0, 7.0]))
    array([2., 2., 1., 1., 1., 7.])
    """

    grid: Grid
    ordered: int

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.grid.cells

    def labels(self, starts: Sequence[int]) -> Labels:
        """Return the bucket of each cell, given the first cell of each bucket."""
        marks = np.zeros(self.cells, dtype=np.int64)
        marks[list(starts)] = 1
        marks[self.ordered :] = 1
        return np.cumsum(marks) - 1

    def even(self, starts: Sequence[int], sums: Array) -> Array:
        """Spread the sum of each bucket evenly over its cells."""
        which = self.labels(starts)
        spread: Array = (sums / np.bincount(which))[which]
        return spread

    def distribution(self, curator: Curator, cells: Array, *, how: str) -> Distribution:
        """Make noisy cells legitimate and return them as a distribution of the column."""
        known = None if curator.rows.number is None else float(curator.rows.number)
        return self.grid.distribution(legitimate(cells, known, how=how))


def line_of(schema: Schema, *, bins: int | str, max_bins: int, method: str) -> Line:
    """Return the cells of a table with one ordered column, or refuse with a reason."""
    require_ordered(schema, method=method, most=1)
    grid = planned_grids(schema, bins=bins, max_cells=max_bins, method=method)[0]
    column = schema.columns[0]
    return Line(grid, grid.cells - (column.size - column.value_count))


def check_cells(bins: int | str, max_bins: int) -> None:
    """Refuse options that name neither the schema's bins nor a number of them."""
    if isinstance(bins, bool) or not (bins == "schema" or (isinstance(bins, int) and bins >= 1)):
        raise BudgetError(
            f"bins ({bins!r}) must be 'schema' or a number of bins; buckets are chosen among them."
        )
    if max_bins < 1:
        raise BudgetError(f"max_bins ({max_bins}) must be at least 1.")


def best_buckets(values: Array, penalty: float) -> list[int]:
    """Return the first cells of the buckets that minimise squared error plus a penalty per bucket.

    Over all numbers of buckets at once: the best penalised cost of the first ``e`` cells is the smallest, over the
    start ``s`` of the last bucket, of the best cost of the first ``s`` cells plus the squared error of the bucket plus
    the penalty. That takes a time proportional to the square of the number of cells, and its minimum is the
    minimum over k of the best squared error with k buckets plus k times the penalty.

    Examples
    --------
    >>> best_buckets(np.array([5.0, 5.1, 0.0, 0.2, 0.1]), 1.0)
    [0, 2]
    """

    from understudy.mechanisms.histograms.kernels import last_starts

    centred = np.asarray(values, dtype=np.float64) - float(np.mean(values))
    before = last_starts(centred, float(penalty))
    starts: list[int] = []
    end = len(centred)
    while end > 0:
        end = int(before[end])
        starts.append(end)
    return starts[::-1]


def noise_of(accounting: Accounting, sealed: SealedCounts, cost: float) -> Noise:
    """Return the noise that measuring some sealed counts at this cost allows."""
    return noise_within(accounting, cost, l1=sealed.l1, l2=sealed.l2)


def fit_buckets(
    curator: Curator, line: Line, sealed: SealedCounts, starts: Sequence[int], *, how: str, progress: Progress
) -> Fitted:
    """Measure the sums of all buckets with everything that remains, and spread them evenly over their cells.

    Parameters
    ----------
    starts
        The first cell of every bucket, chosen before.
    how
        What is done about negative counts.

    Privacy
    -------
    In: private, through the curator. Out: releasable. Buckets are a partition of the records, so one unit moves their
    counts as it moves any histogram.
    """
    progress("measuring", 0.8)
    grouped = merged_cells(sealed, line.labels(starts))
    noise = noise_of(curator.accounting, grouped, curator.remaining)
    measured = curator.measure(grouped, noise=noise, purpose=f"measure {len(starts)} buckets")
    name = f"counts of {grouped.shape[0]} buckets starting at {', '.join(map(str, starts))}"
    released = Statistic(name, measured.values, measured.noise, measured.scale)
    distribution = line.distribution(curator, line.even(starts, measured.values), how=how)
    progress("done", 1.0)
    return Fitted(distribution, [], statistics=[released])


def possible_cells(schema: Schema, grid: Grid) -> npt.NDArray[np.bool_]:
    """Return which cells can hold a record: all of them unless every code is a cell of its own."""
    allowed = np.ones(grid.coarse.sizes, dtype=bool)
    if grid.is_fine:
        for constraint in schema.constraints:
            shape = [
                size if name in constraint.columns else 1
                for name, size in zip(schema.domain.names, schema.domain.sizes, strict=True)
            ]
            allowed &= constraint.allowed(schema.domain).reshape(shape)
    return allowed
