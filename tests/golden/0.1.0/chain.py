"""Each column with its neighbour: pairs that are measured once and joined into a chain."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from understudy.curator import Curator, Noise, noise_for
from understudy.engine import estimate, model_cells
from understudy.errors import DomainTooLarge
from understudy.inference import History
from understudy.privacy import Accounting, Budget, Unit
from understudy.schema import Clique, Domain, Schema
from understudy.synthesizers import Fitted, Plan, Progress, Synthesizer, fixed_total, planned, support_of


@dataclass(frozen=True, kw_only=True)
class Chain(Synthesizer):
    """Measure the marginal of every column and the one after it.

    Parameters
    ----------
    max_cells
        Most cells that the model may have.

    Privacy
    -------
    The schema alone fixes the marginals. Each is measured once, with an equal share of the budget; the shares add up
    to the budget (sequential composition). All else is post-processing.
    """

    name: ClassVar[str] = "neighbour-chain"  # what users type
    summary: ClassVar[str] = "noisy pairs of neighbouring columns, joined into a chain"
    max_cells: int = 4_000_000

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what will be measured, or refuse: from public facts, before anything is spent."""
        accounting = self.accounting(budget)  # pure, zcdp or gdp, by the kind of budget
        design = _design(schema.domain, unit, accounting, accounting.total(budget))
        cliques = [clique for clique, _ in (*design, *support_of(schema))]
        cells = model_cells(schema.domain, cliques)
        if cells > self.max_cells:
            raise DomainTooLarge(
                f"A chain has {cells:.3g} cells here; {self.max_cells:,} are allowed. Use coarser bins.",
                cells=cells,
                allowed=self.max_cells,
            )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(schema.domain, design),
            model_cells=cells,
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        """Spend what the curator has left: it can spend no more than the budget of this fit."""
        design = _design(curator.domain, curator.unit, curator.accounting, curator.remaining)
        progress("counting", 0.1)
        sealed = curator.counts_many([clique for clique, _ in design])  # exact, and not to be read
        # charged first, then noisy
        measurements = curator.measure_many(sealed, noise=[noise for _, noise in design])
        progress("estimating", 0.6)
        distribution = estimate(
            curator.domain,
            measurements,
            total=fixed_total(curator),  # the number of rows where it is public
            zeros=support_of(curator.schema),  # the record constraints
        )
        return Fitted(distribution, measurements, history=History.planned(len(measurements)))


def _design(domain: Domain, unit: Unit, accounting: Accounting, total: float) -> list[tuple[Clique, Noise]]:
    """Divide a total cost equally over the pairs."""
    cliques: list[Clique] = list(pairwise(domain.names)) or [domain.names]
    costs = accounting.split(total, [1.0] * len(cliques))
    return [(clique, noise_for(accounting, unit, cost)) for clique, cost in zip(cliques, costs, strict=True)]
