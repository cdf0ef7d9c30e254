"""DPCube: noisy cells, a kd-tree over them, and noisy counts of its boxes (Xiao et al. 2010, 2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.errors import BudgetError
from understudy.inference import History
from understudy.marginals import Measurement, Statistic
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.mechanisms.histograms.bins import Grid, check_post_processing, legitimate, planned_grids
from understudy.mechanisms.histograms.partitions.look import merged_cells
from understudy.mechanisms.histograms.partitions.partition import noise_of, possible_cells
from understudy.mechanisms.options import at_least, one_of, refuse, shares
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Schema

# ----------------------------------------------------------------------------------------
# Boxes of a noisy table, cut until what is left inside looks like noise. Post-processing only.

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Cut:
    """Where a box is cut in two: the axis and the first entry of the upper half."""

    axis: int
    at: int


@dataclass(frozen=True, eq=False)
class KdTree:
    """How a noisy table is cut into boxes.

    Parameters
    ----------
    values
        Noisy counts.
    allowed
        Cells that can hold records; the others belong to boxes but count for nothing.
    variance, spread
        Variance of the noise of a cell, and the variance of its square in units of ``variance²`` (2 for
        Gaussian noise, 5 for Laplace noise).
    rule
        ``"variance"``: the cut that leaves the least squared error. ``"median"``: across the longest side, where half
        of the box's count lies on either side.
    threshold
        A box is cut if its squared error exceeds what noise alone would give by this many standard deviations; with
        ``rule="variance"`` also if the best cut explains more than the best of that many cuts of pure noise would.

    Examples
    --------
    >>> values = np.array([[9.0, 9.0, 0.0], [9.0, 9.0, 0.0]])
    >>> KdTree(values, np.ones((2, 3), dtype=bool), 0.5, 2.0, "variance", 2.0).labels()
    array([[0, 0, 1],
           [0, 0, 1]])
    """

    values: Array
    allowed: npt.NDArray[np.bool_]
    variance: float
    spread: float
    rule: str
    threshold: float

    def labels(self) -> Labels:
        """Return the box of each cell, numbered from zero."""
        which = np.zeros(self.values.shape, dtype=np.int64)
        pending: list[Box] = [tuple((0, size) for size in self.values.shape)]
        found = 0
        while pending:
            box = pending.pop()
            cut = self._cut(box)
            if cut is None:
                which[_slices(box)] = found
                found += 1
                continue
            (low, high), rest = box[cut.axis], list(box)
            rest[cut.axis] = (cut.at, high)
            pending.append(tuple(rest))
            rest[cut.axis] = (low, cut.at)
            pending.append(tuple(rest))
        return which

    def _cut(self, box: Box) -> Cut | None:
        """Return where to cut a box, or ``None`` where it looks flat."""
        place = _slices(box)
        kept, values = self.allowed[place], self.values[place]
        cells = int(kept.sum())
        if cells < 2:
            return None
        if cells == values.size:
            apart = values - values.sum() / cells
        else:
            apart = np.where(kept, values - values[kept].sum() / cells, 0.0)
        error = float(np.square(apart).sum())
        usual = (cells - 1) * self.variance
        deviation = self.variance * math.sqrt(self.spread * (cells - 1))
        rough = error > usual + self.threshold * deviation
        if self.rule == "median":
            return self._median(box, kept, values) if rough else None
        cut, explained, tried = self._best(box, kept, apart)
        if cut is None:
            return None
        # the largest of `tried` correlated chi-squared variables with one degree of freedom, and some more
        luck = self.variance * (2 * math.log(tried + 1) + self.threshold)
        return cut if rough or explained > luck else None

    def _best(self, box: Box, kept: npt.NDArray[np.bool_], apart: Array) -> tuple[Cut | None, float, int]:
        """Return the cut that explains most of the squared error, how much, and out of how many."""
        best, most, tried = None, -1.0, 0
        total = int(kept.sum())
        whole = total == apart.size
        for axis, length in enumerate(apart.shape):
            if length < 2:
                continue
            others = tuple(i for i in range(apart.ndim) if i != axis)
            sums = np.cumsum(apart.sum(axis=others))[:-1]
            if whole:
                below = np.arange(1, length) * (total // length)
            else:
                below = np.cumsum(kept.sum(axis=others))[:-1]
                useful = (below > 0) & (below < total)
                sums, below = np.where(useful, sums, 0.0), np.where(useful, below, 1)
            tried += length - 1
            # deviations add up to zero, so the upper half holds minus the sum of the lower one
            gains = np.square(sums) * (total / (below * (total - below)))
            at = int(np.argmax(gains))
            if gains[at] > most:
                best, most = Cut(axis, box[axis][0] + at + 1), float(gains[at])
        return best, most, tried

    def _median(self, box: Box, kept: npt.NDArray[np.bool_], values: Array) -> Cut | None:
        """Return the cut across the longest side that leaves half of the (positive) count on either side."""
        lengths = [high - low for low, high in box]
        axis = int(np.argmax(lengths))
        others = tuple(i for i in range(values.ndim) if i != axis)
        mass = np.where(kept, np.maximum(values, 0.0), 0.0).sum(axis=others)
        total = float(mass.sum())
        if lengths[axis] < 2:
            return None
        line = np.cumsum(mass)[:-1]
        at = int(np.argmin(np.abs(line - total / 2))) if total > 0 else (lengths[axis] - 1) // 2
        return Cut(axis, box[axis][0] + at + 1)


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(low, high) for low, high in box)


RULES = ("variance", "median")
INSIDE = ("uniform", "cells")


@dataclass(frozen=True, kw_only=True)
class DPCube(Synthesizer):
    """Measure all cells, find boxes of like cells among the noisy counts, and measure the boxes.

    Phase one adds noise to every cell of the cross-tabulation. A kd-tree cuts the noisy table into boxes until the
    counts inside a box differ no more than noise does. Phase two measures the count of every box. A box count is
    estimated from both phases, each in proportion to its precision, and shared out inside the box.

    Parameters
    ----------
    cell_share
        Share of the budget for phase one.
    rule
        Where boxes are cut. ``"variance"`` (default): the cut that leaves the least squared error. ``"median"``: across
        the longest side at the median of the noisy counts, as in the first version of the paper.
    threshold
        How many standard deviations of noise a box must exceed to be cut.
    inside
        ``"uniform"`` (default): the cells of a box share its count evenly. ``"cells"``: they keep their noisy
        differences, the least-squares estimate without any assumption.
    bins
        ``"schema"``, or a number of bins that adjacent values of ordered columns are merged into first.
    max_cells
        Largest table that will be enumerated.
    post_processing
        How negative counts are removed, as for ``perturbed-histogram``.

    Privacy
    -------
    (1) The cells partition the records: one measurement with ``cell_share`` of the budget. The boxes are computed from
    its noisy counts, so they are public. (2) They partition the records too: a second measurement with the rest.
    Both compose; estimation is post-processing. Cells that the schema's constraints exclude hold no records and are
    left out of the estimates.

    Examples
    --------
    >>> DPCube(rule="median").name
    'dpcube'
    """

    name: ClassVar[str] = "dpcube"
    summary: ClassVar[str] = "noisy cells, merged into boxes of like cells by a kd-tree, and noisy boxes"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on cells, then on boxes",
        papers={Paper.DIPS: "section 3.1.3"},
        origin="Xiao, Gardner and Xiong 2012",
    )

    cell_share: float = 0.5
    rule: str = "variance"
    threshold: float = 2.0
    inside: str = "uniform"
    bins: int | str = "schema"
    max_cells: int = 100_000
    post_processing: str = "simplex"

    def __post_init__(self) -> None:
        refuse(
            one_of(self, "rule", RULES),
            one_of(self, "inside", INSIDE),
            at_least(self, 0, "threshold"),
            at_least(self, 1, "max_cells"),
            shares(self, "cell_share"),
        )
        if isinstance(self.bins, bool) or not (
            self.bins == "schema" or (isinstance(self.bins, int) and self.bins >= 1)
        ):
            raise BudgetError(
                f"bins ({self.bins!r}) must be 'schema' or a number of bins; boxes are found among them."
            )
        check_post_processing(self.post_processing)

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of a cell and of a box."""
        return total_deviation((1, noise) for noise in self._noises(accounting, unit, cost))

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how noisy cells and boxes will be, or how much too large the table is."""
        grid = self._grid(schema)
        accounting = self.accounting(budget, schema, unit)
        cells, boxes = self._noises(accounting, unit, accounting.total(budget))
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(PlannedMeasurement(schema.domain.names, grid.cells, cells),),
            model_cells=grid.cells,
            notes=(
                f"Then the counts of boxes found among {grid.cells:,} noisy cells are measured with {boxes.kind} noise "
                f"of scale {boxes.scale:.4g} rows.",
            ),
        )

    def _grid(self, schema: Schema) -> Grid:
        return planned_grids(schema, bins=self.bins, max_cells=self.max_cells, method=self.name)[0]

    def _noises(self, accounting: Accounting, unit: Unit, total: float) -> tuple[Noise, Noise]:
        cells, boxes = accounting.split(total, [self.cell_share, 1 - self.cell_share])
        return noise_for(accounting, unit, cells), noise_for(accounting, unit, boxes)

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        grid = self._grid(curator.schema)
        first, _ = self._noises(curator.accounting, curator.unit, curator.remaining)
        progress("counting", 0.1)
        sealed = grid.seal(curator)
        progress("measuring cells", 0.3)
        cells = curator.measure(sealed, noise=first, purpose=f"measure {grid.cells} cells")
        progress("cutting boxes", 0.5)
        allowed = possible_cells(curator.schema, grid)
        tree = KdTree(
            cells.values,
            allowed,
            cells.variance,
            5.0 if cells.noise == "laplace" else 2.0,
            self.rule,
            self.threshold,
        )
        labels = tree.labels()
        progress("measuring boxes", 0.8)
        grouped = merged_cells(sealed, labels)
        second = noise_of(curator.accounting, grouped, curator.remaining)
        boxes = curator.measure(grouped, noise=second, purpose=f"measure {grouped.shape[0]} boxes of cells")
        estimate = self._estimate(cells, boxes, labels, allowed)
        table = np.zeros(estimate.shape)
        known = None if curator.rows.number is None else float(curator.rows.number)
        table[allowed] = legitimate(estimate[allowed], known, how=self.post_processing)
        measurements, statistics = grid.released(cells)
        statistics.append(
            Statistic(
                f"counts of {grouped.shape[0]} boxes of like cells", boxes.values, boxes.noise, boxes.scale
            )
        )
        progress("done", 1.0)
        return Fitted(
            grid.distribution(table),
            measurements,
            history=History.planned(len(measurements)),
            statistics=statistics,
        )

    def _estimate(
        self,
        cells: Measurement,
        boxes: Measurement,
        labels: npt.NDArray[np.int64],
        allowed: npt.NDArray[np.bool_],
    ) -> Array:
        """Combine both phases by their precision and share box counts out over the cells that can occur."""
        flat, which = cells.values.ravel(), labels.ravel()
        kept = allowed.ravel().astype(np.float64)
        number = np.bincount(which, weights=kept)
        sums = np.bincount(which, weights=flat * kept)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.where(number > 0, boxes.variance / (boxes.variance + number * cells.variance), 0.0)
            total = weight * sums + (1 - weight) * boxes.values
            if self.inside == "uniform":
                estimate = (total / number)[which]
            else:
                estimate = flat + ((total - sums) / number)[which]
        return np.where(kept > 0, estimate, 0.0).reshape(labels.shape)
