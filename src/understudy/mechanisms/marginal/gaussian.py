"""Gaussian: every workload marginal measured once, with the best division of the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from understudy.curator import Curator
from understudy.engine import GraphicalModel, model_cells
from understudy.errors import BudgetError
from understudy.inference import History
from understudy.marginals import Statistic, Workload
from understudy.mechanisms.allocation import direct_weights, noises, require_cells, workload_for
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer, planned, total_deviation
from understudy.mechanisms.marginal.fixed import (
    Association,
    estimate_fixed,
    estimate_smoothed,
    measure_associations,
    measure_rare,
    model_note,
)
from understudy.mechanisms.marginal.look import RareCounts
from understudy.mechanisms.options import at_least, positive, refuse, shares, unused
from understudy.mechanisms.rounds import require_fixed
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit
from understudy.schema import Clique, Domain, Schema


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
    smooth
        Take noise out of marginals of two columns before the final estimate: their interaction is estimated as a
        field over the codes whose roughness and size are learnt from the noisy table itself
        (:mod:`understudy.mechanisms.marginal.fixed`). Lowers the error of weak interactions most.
    rare_share
        Share of the budget for the counts of rare values, after the marginals; needs ``smooth``. Values that the
        marginals show in fewer than ``rare_below`` of the records are counted once more, in disjoint classes.
    rare_below
        The share of records below which a value is rare.
    association_share
        Share of the budget for how the columns of each measured pair go together; needs ``smooth``. The sum over the records of the
        product of both places, in deviations from their column's mean, is measured by itself and kept by the smoothed pair: covariances, and so the
        coefficients of regressions, get several times less noise than from the tables.
    measured
        Marginals that are measured instead of the workload's, for those who know which ones say most; the workload is then what drawn rows are fitted to.
    prior
        A model of public data over the same columns, such as last year's release. Noisy marginals are moved towards it where they
        differ from it by no more than noise would make them (:func:`~understudy.mechanisms.marginal.fixed.towards_prior`), and what is not measured keeps its relations.

    Privacy
    -------
    Nothing is chosen from the data, and ``prior`` is public. Marginal ``r`` gets noise that costs at most its share of the
    budget, the shares come from public sizes and weights, and they add up to the budget
    (sequential composition in each accounting). Rare values are chosen from the noisy marginals and
    counted for their share of the budget (`understudy.mechanisms.marginal.look.count_rare`), and the places whose products are summed
    follow from the noisy marginals (`understudy.mechanisms.marginal.fixed.measure_associations`; adaptive composition within the
    curator's filter). The rest is post-processing.

    Examples
    --------
    >>> GaussianWorkload().name
    'gaussian'
    """

    name: ClassVar[str] = "gaussian"
    summary: ClassVar[str] = "every workload marginal measured once, budget divided by size"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on marginals",
        papers={Paper.AIM: "Table 2 and section 6.1"},
        origin="Zhang et al. 2021 for the division of the budget",
    )

    workload: Workload | None = None
    max_model_mb: float = 80.0
    max_cells: int = 4_000_000
    smooth: bool = False
    rare_share: float = 0.0
    rare_below: float = 0.005
    association_share: float = 0.0
    measured: Workload | None = None
    prior: GraphicalModel | None = None

    def __post_init__(self) -> None:
        refuse(
            shares(self, "rare_share", "association_share", zero=True),
            shares(self, "rare_below"),
            positive(self, "max_model_mb"),
            at_least(self, 1, "max_cells"),
            [] if self.rare_share else unused(self, "rare_below", because="rare_share is 0"),
            unused(self, "prior", because="smooth is true") if self.smooth else [],
        )
        if self.rare_share and not self.smooth:
            raise BudgetError("rare_share needs smooth: counts of rare values enter the smoothed estimate.")
        if self.association_share and not self.smooth:
            raise BudgetError("association_share needs smooth: associations are kept by the smoothed pairs.")
        if not self.rare_share + self.association_share < 1:
            raise BudgetError(
                "rare_share and association_share together must be less than 1: marginals are measured first."
            )

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of the cells of all marginals."""
        design = self._design(schema.domain, unit, accounting, self._parts(accounting, cost)[0])
        return total_deviation((schema.domain.cells(clique), noise) for clique, noise in design)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what every marginal of the workload will be measured with."""
        domain = schema.domain
        accounting = self.accounting(budget, schema, unit)
        design = self._design(domain, unit, accounting, self._parts(accounting, accounting.total(budget))[0])
        cells, note = model_note(schema, [clique for clique, _ in design], max_model_mb=self.max_model_mb)
        if self.prior is not None:
            if self.prior.domain != domain:
                raise BudgetError("The prior was made for other columns than the table has.")
            held = [*(clique for clique, _ in design), *self.prior.cliques]
            require_fixed(schema, held, self.max_model_mb)
            cells, note = (
                model_cells(domain, held),
                "All marginals and the prior fit into one graphical model.",
            )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, design),
            model_cells=cells,
            notes=(note, *self._notes()),
        )

    def options(self) -> dict[str, Any]:
        """Return the options as plain values: of a prior only the cliques."""
        plain = super().options()
        plain["prior"] = None if self.prior is None else [list(item) for item in self.prior.cliques]
        return plain

    def _notes(self) -> list[str]:
        """Say what happens beyond the measured marginals."""
        notes = ["Noise is taken out of marginals of two columns."] if self.smooth else []
        if self.prior is not None:
            notes.append("Marginals are moved towards the prior as far as noise explains the difference.")
        if self.rare_share:
            notes.append(
                f"{self.rare_share:.3g} of the budget counts values found in fewer than {self.rare_below:.3g} of the "
                "rows once more."
            )
        if self.association_share:
            notes.append(
                f"{self.association_share:.3g} of the budget measures how the columns of each pair go together."
            )
        return notes

    def _parts(self, accounting: Accounting, total: float) -> tuple[float, float, float]:
        """Divide a cost between the marginals, the counts of rare values and the associations."""
        shares = [1.0 - self.rare_share - self.association_share, self.rare_share, self.association_share]
        parts = iter(accounting.split(total, [share for share in shares if share]))
        tables, rare, associations = (next(parts) if share else 0.0 for share in shares)
        return tables, rare, associations

    @property
    def _wanted(self) -> Workload | None:
        """The marginals that are measured."""
        return self.workload if self.measured is None else self.measured

    def _design(
        self, domain: Domain, unit: Unit, accounting: Accounting, total: float
    ) -> list[tuple[Clique, Noise]]:
        """Divide a cost over the marginals that have a weight."""
        workload = workload_for(self._wanted, domain)
        heavy = [(clique, weight) for clique, weight in workload if weight > 0]
        cliques = [clique for clique, _ in heavy]
        require_cells(domain, cliques, self.max_cells, method=self.name)
        shares = direct_weights(
            accounting, [weight for _, weight in heavy], [domain.cells(clique) for clique in cliques]
        )
        return list(zip(cliques, noises(accounting, unit, total, shares), strict=True))

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        tables, rest, linear = self._parts(curator.accounting, curator.remaining)
        design = self._design(curator.domain, curator.unit, curator.accounting, tables)
        progress("counting", 0.1)
        sealed = curator.counts_many([clique for clique, _ in design])
        progress("measuring", 0.3)
        measurements = curator.measure_many(
            sealed, noise=[noise for _, noise in design], purpose=f"measure {len(design)} workload marginals"
        )
        progress("estimating", 0.5)
        model = estimate_fixed(curator, measurements, max_model_mb=self.max_model_mb, prior=self.prior)
        rare: RareCounts | None = None
        associations: dict[Clique, Association] = {}
        if self.smooth:
            progress("smoothing", 0.7)
            if rest:
                rare = measure_rare(
                    curator, measurements, total=model.total, below=self.rare_below, cost=rest
                )
            if linear:
                associations = measure_associations(
                    curator,
                    measurements,
                    importance=dict(workload_for(self._wanted, curator.domain)),
                    total=model.total,
                    cost=linear,
                )
            model = estimate_smoothed(
                curator,
                measurements,
                model,
                rare=rare,
                associations=associations,
                max_model_mb=self.max_model_mb,
            )
        progress("done", 1.0)
        return Fitted(
            model,
            measurements,
            workload=workload_for(self.workload, curator.domain),
            history=History.planned(len(measurements)),
            statistics=(*([] if rare is None else _released(rare)), *_sums(associations)),
        )


def _released(rare: RareCounts) -> list[Statistic]:
    """Return the counts of rare values as they are kept in the model, each with its noise."""
    return [
        Statistic(
            f"records with {name} code {code}, less earlier rare values", np.array([count]), "laplace", scale
        )
        for (name, code), count, scale in zip(rare.values, rare.counts, rare.scales.tolist(), strict=True)
    ]


def _sums(associations: Mapping[Clique, Association]) -> list[Statistic]:
    """Return the measured associations as they are kept in the model, each with its noise."""
    return [
        Statistic(
            f"sum of the products of {left} and {right}, in deviations",
            np.array([item.value]),
            item.noise.kind,
            item.noise.scale,
        )
        for (left, right), item in associations.items()
    ]
