"""The sorted histogram: constrained inference on ordered counts (Hay et al. 2010; paper DIPS, section 3.1.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.errors import BudgetError, SchemaError
from understudy.inference import History
from understudy.marginals import Statistic
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.mechanisms.histograms.bins import Grid, check_bins, large, legitimate, planned_grids
from understudy.mechanisms.histograms.look import sorted_counts
from understudy.mechanisms.options import at_least, refuse, shares, unused
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Schema

Array = npt.NDArray[np.float64]

_ORDERS = ("measured", "increasing", "decreasing")


@dataclass(frozen=True, kw_only=True)
class SortedHistogram(Synthesizer):
    """Measure the counts in ascending order, where noise can be averaged away, and give them back to the bins.

    What the sorted counts estimate is the *unattributed* histogram: how many bins have how many rows. The
    closest ascending sequence to the noisy one (isotonic regression) averages over runs of equal counts, so
    its error depends on the number of different counts rather than on the number of bins. It does not say which
    bin has which count. That comes from a public order where there is one, or from a second, ordinary noisy
    histogram that is paid for.

    Parameters
    ----------
    order
        ``"measured"`` (default): bins are ranked by a noisy histogram that takes ``order_share`` of the budget, and
        the bin of rank ``r`` gets the ``r``-th estimated count. ``"increasing"`` or ``"decreasing"``: it is *public*
        that counts rise (fall) along the codes of the single column; the whole budget goes into one noisy
        histogram, which is made to rise (fall). A list of bin numbers: the public order of the bins (flat), from
        the smallest count to the largest.
    order_share
        Share of the budget for the ranking, with ``order="measured"``.
    bins
        ``"schema"`` (default) or a number of bins per ordered column.
    max_cells
        Largest histogram that will be enumerated.

    Privacy
    -------
    Sorting brings counts of neighbours no further apart, so the sorted counts have the sensitivities of the
    histogram (:func:`~understudy.mechanisms.histograms.look.sorted_counts`). Ranking and sorted counts are two measurements, each
    charged. With a public order nothing is sorted: one histogram is measured and the order constrains it
    afterwards. Isotonic regression, matching and cutting at zero are post-processing. An order that was seen in the
    data is not public; declaring it so would break the promise.

    Examples
    --------
    >>> SortedHistogram(order="decreasing").name
    'sorted-histogram'
    """

    name: ClassVar[str] = "sorted-histogram"
    summary: ClassVar[str] = (
        "noisy counts in sorted order, smoothed by isotonic regression and given back to the bins"
    )
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on sorted counts and on their order",
        papers={Paper.DIPS: "section 3.1.3"},
        origin="Hay, Rastogi, Miklau and Suciu 2010",
    )

    order: str | Sequence[int] = "measured"
    order_share: float = 0.5
    bins: int | str = "schema"
    max_cells: int = 4_000_000

    def __post_init__(self) -> None:
        refuse(
            shares(self, "order_share"),
            at_least(self, 1, "max_cells"),
            [] if self.order == "measured" else unused(self, "order_share", because="the order is public"),
        )
        check_bins(self.bins)
        if self.bins == "private":
            raise BudgetError("sorted-histogram takes bins from the schema or a number of them.")
        if isinstance(self.order, str):
            if self.order not in _ORDERS:
                raise BudgetError(
                    f"order ({self.order!r}) must be one of {', '.join(_ORDERS)}, or a list of bins."
                )
        else:
            object.__setattr__(self, "order", tuple(int(place) for place in self.order))

    def _grid(self, schema: Schema) -> Grid:
        """Return the bins, having checked that a public order fits them."""
        grid = planned_grids(schema, bins=self.bins, max_cells=self.max_cells, method=self.name)[0]
        self._public_order(grid)
        return grid

    def _public_order(self, grid: Grid) -> npt.NDArray[np.int64] | None:
        """Return the bins from smallest to largest where that is public."""
        if self.order == "measured":
            return None
        if isinstance(self.order, str):
            if len(grid.domain) != 1:
                raise SchemaError(
                    f"Counts that are {self.order} along a column need a table of one column; this schema has "
                    f"{len(grid.domain)}. Use order='measured', or list the bins in their public order."
                )
            forward = np.arange(grid.cells)
            return forward if self.order == "increasing" else forward[::-1]
        places = np.asarray(self.order, dtype=np.int64)
        if not np.array_equal(np.sort(places), np.arange(grid.cells)):
            raise SchemaError(f"The order must name each of the {grid.cells} bins (from 0) once.")
        return places

    def _design(self, unit: Unit, accounting: Accounting, total: float) -> list[Noise]:
        """Return the noise of the histogram and, unless the order is public, of the sorted counts."""
        if self.order != "measured":
            return [noise_for(accounting, unit, total)]
        costs = accounting.split(total, [self.order_share, 1 - self.order_share])
        return [noise_for(accounting, unit, cost) for cost in costs]

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of a bin and of a sorted count."""
        return total_deviation((1, noise) for noise in self._design(unit, accounting, cost))

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what is measured with which noise, or that there are too many bins."""
        accounting = self.accounting(budget, schema, unit)
        grid = self._grid(schema)
        design = self._design(unit, accounting, accounting.total(budget))
        ranked = (
            f"Bins whose counts differ by less than about {3 * design[0].scale:.0f} rows may change places."
        )
        stated = "The order of the bins is declared public; it must not come from the data."
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=tuple(
                PlannedMeasurement(schema.domain.names, grid.cells, noise) for noise in design
            ),
            model_cells=grid.cells,
            notes=(ranked if len(design) == 2 else stated,),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        grid = self._grid(curator.schema)
        design = self._design(curator.unit, curator.accounting, curator.remaining)
        order = self._public_order(grid)
        progress("counting", 0.1)
        counts = grid.seal(curator)
        progress("measuring", 0.4)
        if order is None:
            ranking, ascending = curator.measure_many(
                [counts, sorted_counts(counts)],
                noise=design,
                purpose=f"measure {large(grid.cells)} bins, and their counts in ascending order",
            )
            order = np.argsort(ranking.values, axis=None, kind="stable")
            fitted = isotonic(ascending.values)
        else:
            ranking = curator.measure(counts, noise=design[0], purpose=f"measure {large(grid.cells)} bins")
            ascending = None
            fitted = isotonic(ranking.values.ravel()[order])
        progress("post-processing", 0.8)
        cells = np.empty(grid.cells)
        cells[order] = np.maximum(fitted, 0.0)
        if curator.rows.number is not None:
            cells = legitimate(cells, float(curator.rows.number), how="simplex")
        measurements, statistics = grid.released(ranking)
        if ascending is not None:
            statistics = [
                *statistics,
                Statistic("counts in ascending order", ascending.values, ascending.noise, ascending.scale),
            ]
        progress("done", 1.0)
        return Fitted(
            grid.distribution(cells),
            measurements,
            history=History.planned(len(measurements)),
            statistics=statistics,
        )


def isotonic(values: Array) -> Array:
    """Return the closest ascending sequence, in the Euclidean sense.

    Examples
    --------
    >>> isotonic(np.array([1.0, 4.0, 2.0, 3.0, 5.0]))
    array([1., 3., 3., 3., 5.])
    """
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(values).x, dtype=np.float64)
