"""What the table mechanisms share: tables small enough to enumerate, and counts turned into a distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.engine import DenseTable, project_to_simplex
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Measurement
from understudy.mechanisms.allocation import total_is_public
from understudy.mechanisms.base import PlannedMeasurement, Synthesizer, support_of
from understudy.mechanisms.options import at_least, refuse, shares
from understudy.privacy import Accounting, Budget, Laplace, Unit
from understudy.schema import Domain, Schema

# ----------------------------------------------------------------------------------------
# What methods that draw records from urns have in common: how many are drawn, and counting the rows first.


class Drawing(NamedTuple):
    """How many records are drawn, the number of rows they stand for, what was measured for it, and what is left."""

    records: int
    total: float
    measurements: list[Measurement]
    cost: float


@dataclass(frozen=True, kw_only=True)
class UrnSynthesizer(Synthesizer):
    """A method that draws ``records`` records from urns, and measures the number of rows first where it has to."""

    records: int | None = None
    rows_share: float = 0.05

    def __post_init__(self) -> None:
        refuse(at_least(self, 1, "records", optional=True), shares(self, "rows_share"))

    def accountings(self, budget: Budget) -> tuple[Accounting, ...]:
        """Pure first: nothing here is Gaussian, so a delta is of little use."""
        return super().accountings(budget)[::-1]

    def _planned(
        self, schema: Schema, unit: Unit, accounting: Accounting, cost: float
    ) -> tuple[list[PlannedMeasurement], float]:
        """Return the measurement of the number of rows, if there will be one, and what is left for the urns."""
        if self.records is not None or total_is_public(schema, unit):
            return [], cost
        first, cost = accounting.split(cost, [self.rows_share, 1 - self.rows_share])
        return [PlannedMeasurement((), 1, Laplace(accounting.laplace_scale(first, unit.max_rows)))], cost

    def _drawing(self, curator: Curator) -> Drawing:
        """Say how many records to draw; the number of rows is measured where nobody says it."""
        known, cost = curator.rows.number, curator.remaining
        measurements: list[Measurement] = []
        if known is None and self.records is None:
            first, cost = curator.split([self.rows_share, 1 - self.rows_share])
            noise = Laplace(curator.accounting.laplace_scale(first, curator.unit.max_rows))
            measurements = [curator.measure(curator.counts(()), noise=noise)]
            known = max(1, round(float(measurements[0].values)))
        records = max(1, self.records if self.records is not None else known or 0)
        return Drawing(records, float(records if known is None else max(1, known)), measurements, cost)


Array = npt.NDArray[np.float64]

MAX_CELLS = 50_000_000
POST_PROCESSING = ("simplex", "none")


def require_enumerable(domain: Domain, max_cells: int, *, method: str) -> int:
    """Return the number of cells of the full table, or say how much too large it is."""
    cells = domain.cells()
    if cells > max_cells:
        widest = sorted(domain.names, key=domain.size, reverse=True)[:3]
        size = f"{cells:,}" if cells < 10**12 else "over 1e12"
        raise DomainTooLarge(
            f"The full table has {size} cells; {method} redraws every one of them and takes at most {max_cells:,}. Use "
            f"coarser bins (the widest columns are {', '.join(widest)}), fewer columns, or a method that works with "
            "marginals, such as independent.",
            cells=cells,
            allowed=max_cells,
        )
    return cells


def check_table_options(post_processing: str, max_cells: int) -> None:
    """Refuse options that make no sense."""
    if post_processing not in POST_PROCESSING:
        raise BudgetError(
            f"post_processing ({post_processing!r}) must be one of {', '.join(POST_PROCESSING)}."
        )
    if max_cells < 1:
        raise BudgetError(f"max_cells ({max_cells}) must be at least 1.")


def legitimate(schema: Schema, estimate: Array, total: float) -> DenseTable:
    """Return the closest table without negative cells that has the right total and keeps the constraints.

    Cells that the record constraints rule out are set to zero first. Post-processing.
    """
    domain = schema.domain
    possible = possible_cells(schema)
    if possible is not None:
        estimate = np.where(possible, estimate, -np.inf)
    values = estimate[np.isfinite(estimate)]
    cells = np.zeros(domain.sizes)
    if values.size:
        cells[np.isfinite(estimate)] = project_to_simplex(values, total)
    return DenseTable(domain, cells)


def possible_cells(schema: Schema) -> npt.NDArray[np.bool_] | None:
    """Say which cells of the full table keep all record constraints; None if there are no constraints."""
    domain = schema.domain
    possible: npt.NDArray[np.bool_] | None = None
    for columns, allowed in support_of(schema):
        order = sorted(range(len(columns)), key=lambda place: domain.index(columns[place]))
        shape = [1] * len(domain)
        for place in order:
            shape[domain.index(columns[place])] = allowed.shape[place]
        spread = np.transpose(allowed, order).reshape(shape)
        possible = spread if possible is None else possible & spread
    return None if possible is None else np.broadcast_to(possible, domain.sizes)
