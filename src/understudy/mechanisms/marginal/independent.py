"""Independent columns: noisy one-way marginals, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.curator import Curator
from understudy.engine import estimate
from understudy.inference import History
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    Progress,
    Synthesizer,
    planned,
    total_deviation,
)
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Clique, Domain, Schema


@dataclass(frozen=True, kw_only=True)
class Independent(Synthesizer):
    """Measure every column once and treat the columns as independent.

    The budget is divided equally between the columns. Laplace noise under pure accounting, Gaussian
    noise otherwise. The estimate is the maximum-likelihood product distribution with a common total.

    Privacy
    -------
    One marginal per column, each measured once. Under pure accounting column ``i`` gets Laplace noise
    of scale ``l1 / epsilon_i`` with ``sum epsilon_i <= epsilon`` (sequential composition); otherwise
    Gaussian noise with ``sum mu_i² <= mu²`` or ``sum rho_i <= rho``. Everything after that is
    post-processing. Record constraints act on the released model only.

    Examples
    --------
    >>> Independent().name
    'independent'
    """

    name: ClassVar[str] = "independent"
    summary: ClassVar[str] = "noisy one-way marginals; columns independent"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on one-way marginals",
        papers={Paper.AIM: "Table 2 and section 6.1", Paper.DENIABILITY: "section 3.2"},
    )

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of the cells of all columns."""
        design = _design(schema.domain, unit, accounting, cost)
        return total_deviation((schema.domain.cells(clique), noise) for clique, noise in design)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what each column will be measured with."""
        accounting = self.accounting(budget, schema, unit)
        design = _design(schema.domain, unit, accounting, accounting.total(budget))
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(schema.domain, design),
            model_cells=sum(schema.domain.sizes),
            notes=(
                "Relations between columns are not kept: use it as a baseline, or for one-way statistics.",
            ),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        design = _design(curator.domain, curator.unit, curator.accounting, curator.remaining)
        progress("counting", 0.1)
        sealed = curator.counts_many([clique for clique, _ in design])
        progress("measuring", 0.5)
        measurements = curator.measure_many(
            sealed, noise=[noise for _, noise in design], purpose=f"measure {len(design)} one-way marginals"
        )
        progress("estimating", 0.8)
        distribution = estimate(curator.domain, measurements, total=curator.rows.total)
        progress("done", 1.0)
        return Fitted(distribution, measurements, history=History.planned(len(measurements)))


def _design(domain: Domain, unit: Unit, accounting: Accounting, total: float) -> list[tuple[Clique, Noise]]:
    """Divide a total cost equally over the columns."""
    costs = accounting.split(total, [1.0] * len(domain))
    return [
        ((name,), noise_for(accounting, unit, cost)) for name, cost in zip(domain.names, costs, strict=True)
    ]
