"""Gaussian: every workload marginal measured once, with the best division of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.curator import Curator, Noise
from understudy.errors import BudgetError
from understudy.inference import History
from understudy.marginals import Workload
from understudy.privacy import Accounting, Budget, Unit
from understudy.schema import Clique, Domain, Schema
from understudy.synthesizers._allocation import direct_weights, noises, require_cells, workload_for
from understudy.synthesizers._fixed import estimate_fixed, model_note
from understudy.synthesizers.base import Fitted, Plan, Progress, Synthesizer, planned


@dataclass(frozen=True, kw_only=True)
class GaussianWorkload(Synthesizer):
    """Measure every marginal of the workload once; large and heavy ones get more of the budget.

    The share of a marginal with ``n`` cells and weight ``w`` is proportional to ``(w n)^(2/3)`` for Gaussian
    noise and to ``(w n)^(1/2)`` for Laplace noise (pure budgets), which minimises the expected
    weighted L1 error of the noise. The measurements are then made consistent: by a graphical model
    where its junction tree fits, otherwise by local consistency.

    Parameters
    ----------
    workload
        The marginals that matter; all 3-way marginals by default.
    max_model_mb
        Largest junction tree, in megabytes; beyond it the marginals are only made to agree with each other.
    max_cells
        Most cells that all measured marginals may have together.

    Privacy
    -------
    Nothing is chosen from the data. Marginal ``r`` gets noise that costs at most its share of the
    budget, the shares come from public sizes and weights, and they add up to the budget
    (sequential composition in each accounting). The rest is post-processing.

    Examples
    --------
    >>> GaussianWorkload().name
    'gaussian'
    """

    name: ClassVar[str] = "gaussian"
    summary: ClassVar[str] = "every workload marginal measured once, budget divided by size"

    workload: Workload | None = None
    max_model_mb: float = 80.0
    max_cells: int = 4_000_000

    def __post_init__(self) -> None:
        if not self.max_model_mb > 0:
            raise BudgetError(f"max_model_mb ({self.max_model_mb}) must be positive.")
        if self.max_cells < 1:
            raise BudgetError(f"max_cells ({self.max_cells}) must be at least 1.")

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what every marginal of the workload will be measured with."""
        domain = schema.domain
        accounting = self.accounting(budget)
        design = self._design(domain, unit, accounting, accounting.total(budget))
        cells, note = model_note(schema, [clique for clique, _ in design], max_model_mb=self.max_model_mb)
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, design),
            model_cells=cells,
            notes=(note,),
        )

    def _design(
        self, domain: Domain, unit: Unit, accounting: Accounting, total: float
    ) -> list[tuple[Clique, Noise]]:
        """Divide a cost over the marginals that have a weight."""
        workload = workload_for(self.workload, domain)
        heavy = [(clique, weight) for clique, weight in workload if weight > 0]
        cliques = [clique for clique, _ in heavy]
        require_cells(domain, cliques, self.max_cells, method=self.name)
        shares = direct_weights(
            accounting, [weight for _, weight in heavy], [domain.cells(clique) for clique in cliques]
        )
        return list(zip(cliques, noises(accounting, unit, total, shares), strict=True))

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        design = self._design(curator.domain, curator.unit, curator.accounting, curator.remaining)
        progress("counting", 0.1)
        sealed = curator.counts_many([clique for clique, _ in design])
        progress("measuring", 0.3)
        measurements = curator.measure_many(
            sealed, noise=[noise for _, noise in design], purpose=f"measure {len(design)} workload marginals"
        )
        progress("estimating", 0.5)
        model = estimate_fixed(curator, measurements, max_model_mb=self.max_model_mb)
        progress("done", 1.0)
        return Fitted(
            model,
            measurements,
            workload=workload_for(self.workload, curator.domain),
            history=History.planned(len(measurements)),
        )
