"""What methods that draw records from urns have in common: how many are drawn, and counting the rows first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from understudy.curator import Curator
from understudy.marginals import Measurement
from understudy.privacy import Accounting, Budget, Laplace, Unit
from understudy.schema import Schema
from understudy.synthesizers._allocation import total_is_public
from understudy.synthesizers._options import at_least, refuse, shares
from understudy.synthesizers.base import PlannedMeasurement, Synthesizer


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
        known, cost = curator.known_rows, curator.remaining
        measurements: list[Measurement] = []
        if known is None and self.records is None:
            first, cost = curator.split([self.rows_share, 1 - self.rows_share])
            noise = Laplace(curator.accounting.laplace_scale(first, curator.unit.max_rows))
            measurements = [curator.measure(curator.counts(()), noise=noise)]
            known = max(1, round(float(measurements[0].values)))
        records = max(1, self.records if self.records is not None else known or 0)
        return Drawing(records, float(records if known is None else max(1, known)), measurements, cost)
