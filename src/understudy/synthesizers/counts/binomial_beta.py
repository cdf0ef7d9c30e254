"""The binomial-beta synthesizer for binary columns (McClure and Reiter 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.curator import Curator, draw_from_urns
from understudy.engine import BayesianNetwork, Node, Resolution
from understudy.errors import WorkloadError
from understudy.inference import History
from understudy.marginals import Measurement, Statistic
from understudy.privacy import PURE, Accounting, ApproxDP, Budget, Laplace, Unit, UrnPrior, accounting_for
from understudy.schema import Domain, Schema
from understudy.synthesizers._allocation import total_is_public
from understudy.synthesizers._options import at_least, refuse, shares
from understudy.synthesizers.base import Fitted, Plan, PlannedMeasurement, Progress, Synthesizer


@dataclass(frozen=True, kw_only=True)
class BinomialBeta(Synthesizer):
    """For each column of two values, draw synthetic counts from a binomial with a beta prior.

    McClure and Reiter treat one binary column; several are treated as independent, each with an equal share of the budget.

    Parameters
    ----------
    rows
        Number of records drawn from each posterior. ``None`` (default): the number of rows, or a noisy one where it is private.
    total_share
        Share of the budget spent on the number of rows, where it is private and ``rows`` is not given.

    Privacy
    -------
    The multinomial-Dirichlet mechanism with two cells, one per column: ``max_rows ln(1 + m/alpha)`` each, with the same ``alpha`` for
    both values (:mod:`understudy.privacy.count_models.urn`); the columns compose sequentially.

    Examples
    --------
    >>> BinomialBeta().name
    'binomial-beta'
    """

    name: ClassVar[str] = "binomial-beta"
    summary: ClassVar[str] = "binary columns drawn from a binomial with a beta prior; columns independent"

    rows: int | None = None
    total_share: float = 0.05

    def __post_init__(self) -> None:
        refuse(
            at_least(self, 1, "rows", optional=True),
            shares(self, "total_share"),
        )

    def accounting(self, budget: Budget) -> Accounting:
        """Pure mechanisms need no delta, so an approximate budget is spent as a pure one."""
        return PURE if isinstance(budget, ApproxDP) else accounting_for(budget)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how large the prior must be, or refuse columns with more than two values."""
        _require_binary(schema.domain)
        accounting = self.accounting(budget)
        known = total_is_public(schema, unit)
        cost = accounting.total(budget)
        measured = []
        if not known and self.rows is None:
            first, cost = accounting.split(cost, [self.total_share, 1 - self.total_share])
            measured = [PlannedMeasurement((), 1, Laplace(accounting.laplace_scale(first, unit.max_rows)))]
        each = accounting.split(cost, [1.0] * len(schema.domain))[0]
        one = UrnPrior.for_epsilon(accounting.pure_epsilon(each), rows=1, unit=unit)
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=tuple(measured),
            model_cells=2 * len(schema.domain),
            notes=(
                f"Both values of every column get a pseudocount of {one.alpha:.4g} per record drawn.",
                "Relations between columns are not kept.",
            ),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        domain = curator.domain
        known = curator.known_rows
        cost = curator.remaining
        measurements: list[Measurement] = []
        if known is None and self.rows is None:
            first, cost = curator.split([self.total_share, 1 - self.total_share])
            noise = Laplace(curator.accounting.laplace_scale(first, curator.unit.max_rows))
            measurements = curator.measure_many(
                [curator.counts(())], noise=[noise], purpose="measure the number of rows"
            )
            known = max(1, round(float(measurements[0].values)))
        rows = max(1, self.rows if self.rows is not None else known or 0)
        priors = [
            UrnPrior.for_epsilon(curator.accounting.pure_epsilon(share), rows=rows, unit=curator.unit)
            for share in curator.accounting.split(cost, [1.0] * len(domain))
        ]
        progress("counting", 0.2)
        sealed = curator.counts_many([(name,) for name in domain.names])
        progress("drawing", 0.5)
        drawn = draw_from_urns(
            curator, sealed, priors=priors, purpose="draw binary columns from binomials with beta priors"
        )
        nodes = tuple(
            Node(name, (), counts / float(rows)) for name, counts in zip(domain.names, drawn, strict=True)
        )
        total = float(rows if known is None else max(1, known))
        progress("done", 1.0)
        shown = [
            Statistic(
                f"synthetic counts of {name} (pseudocount {prior.alpha:.6g})",
                counts.astype(np.float64),
                "mechanism",
            )
            for name, counts, prior in zip(domain.names, drawn, priors, strict=True)
        ]
        network = BayesianNetwork(Resolution(domain, {}), total, nodes)
        return Fitted(network, measurements, history=History.planned(len(measurements)), statistics=shown)


def _require_binary(domain: Domain) -> None:
    wide = [name for name in domain.names if domain.size(name) != 2]
    if wide:
        raise WorkloadError(
            f"binomial-beta takes columns with exactly two values (missing counts as one); {', '.join(wide[:5])} "
            f"{'has' if len(wide) == 1 else 'have'} another number. Use multinomial-dirichlet for them."
        )
