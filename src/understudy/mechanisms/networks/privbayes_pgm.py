"""PrivBayes+PGM: the structure and tables of PrivBayes, estimated jointly as a graphical model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from understudy.curator import Curator
from understudy.engine import CoarseModel, Distribution, Resolution, View, candidate_sizes, estimate
from understudy.marginals import Measurement
from understudy.mechanisms.allocation import workload_for
from understudy.mechanisms.base import Fitted, Plan, Progress, support_of
from understudy.mechanisms.networks.conditionals import Learnt
from understudy.mechanisms.networks.network import Family, resolution_of
from understudy.mechanisms.networks.privbayes import PrivBayes
from understudy.mechanisms.options import positive, refuse
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Budget, Unit
from understudy.schema import Clique, Schema


@dataclass(frozen=True, kw_only=True)
class PrivBayesPGM(PrivBayes):
    """Measure what PrivBayes measures, and estimate the distribution from all tables together.

    PrivBayes takes each conditional distribution from one table. Here the model is the maximum-likelihood
    distribution given all noisy tables, so that what two tables say about the same columns is combined
    with the right weights everywhere. Families that would need too large a model are not considered.

    Parameters
    ----------
    max_model_mb
        Largest junction tree, in megabytes.

    Other Parameters
    ----------------
    Those of :class:`~understudy.mechanisms.networks.privbayes.PrivBayes`.

    Privacy
    -------
    The looks at the records are those of PrivBayes, one by one; candidates are also left out by the size of the
    model, which is a function of public sizes and earlier choices. Estimation is post-processing.

    Examples
    --------
    >>> PrivBayesPGM(flavour="degree", degree=3).name
    'privbayes-pgm'
    """

    name: ClassVar[str] = "privbayes-pgm"
    summary: ClassVar[str] = "tables of a privately chosen Bayesian network, graphical model"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on tables of families; exponential mechanism for choices",
        papers={Paper.AIM: "Table 2"},
        origin="Zhang et al. 2017; McKenna, Sheldon and Miklau 2019",
    )

    max_model_mb: float = 80.0

    def __post_init__(self) -> None:
        refuse(positive(self, "max_model_mb"))
        super().__post_init__()

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what PrivBayes would measure, and how large the model may become."""
        plan = super().plan(schema, unit=unit, budget=budget)
        cells = int(self.max_model_mb * 2**20 / 8)
        return Plan(
            method=plan.method,
            budget=plan.budget,
            unit=plan.unit,
            accounting=plan.accounting,
            measurements=plan.measurements,
            model_cells=cells,
            notes=(*plan.notes, f"Families that need a model beyond {self.max_model_mb:g} MB are left out."),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        resolution = resolution_of(curator.schema, generalise=self.generalise)
        support = [clique for clique, _ in support_of(curator.schema)]

        def admit(families: Sequence[Family], offered: Sequence[Family]) -> list[bool]:
            return self._small_enough(resolution, support, families, offered)

        learnt = self._learn(curator, resolution, admit, progress)
        progress("estimating", 0.7)
        distribution = self._estimate(curator, learnt)
        progress("done", 1.0)
        return Fitted(
            distribution,
            learnt.plain(),
            workload=workload_for(self.workload, curator.domain),
            history=learnt.history(),
        )

    def _small_enough(
        self,
        resolution: Resolution,
        support: Sequence[Clique],
        families: Sequence[Family],
        offered: Sequence[Family],
    ) -> list[bool]:
        """Say which candidates keep the junction tree within its size."""
        extended = resolution.extended(view for family in [*families, *offered] for view in family.parents)
        fixed = [extended.clique(family.views(resolution)) for family in families]
        fixed += [*support, *(tuple(clique) for clique, _ in extended.links)]
        sizes = candidate_sizes(
            extended.domain,
            fixed,
            [extended.clique(family.views(resolution)) for family in offered],
            limit_mb=self.max_model_mb,
        )
        return [bool(size <= self.max_model_mb) for size in sizes]

    def _estimate(self, curator: Curator, learnt: Learnt) -> Distribution:
        """Estimate a model over the columns and the coarse views of the tables."""
        resolution = learnt.resolution
        axes: list[tuple[View, ...]] = [family.views(resolution) for family in learnt.tables]
        extended = resolution.extended(view for views in axes for view in views)
        tables = [
            Measurement(extended.clique(views), extended.table(views, item.values), item.noise, item.scale)
            for views, item in zip(axes, learnt.released, strict=True)
        ]
        model = estimate(
            extended.domain,
            [*tables, *([] if learnt.rows is None else [learnt.rows])],
            total=curator.rows.total,
            zeros=[*support_of(curator.schema), *extended.links],
            max_cells=int(self.max_model_mb * 2**20 / 8),
            thorough=True,
            if_too_large="local-consistency",
        )
        return CoarseModel(resolution, extended.views, model) if extended.views else model
