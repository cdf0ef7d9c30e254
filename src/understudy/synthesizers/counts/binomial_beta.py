"""The binomial-beta synthesizer for binary columns (McClure and Reiter 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.curator import Curator, draw_from_urns
from understudy.engine import BayesianNetwork, Node, Resolution
from understudy.errors import WorkloadError
from understudy.inference import History
from understudy.marginals import Statistic
from understudy.privacy import Budget, Unit, UrnPrior
from understudy.schema import Domain, Schema
from understudy.synthesizers.base import Fitted, Plan, Progress
from understudy.synthesizers.counts._urns import UrnSynthesizer


@dataclass(frozen=True, kw_only=True)
class BinomialBeta(UrnSynthesizer):
    """For each column of two values, draw synthetic counts from a binomial with a beta prior.

    McClure and Reiter treat one binary column; several are treated as independent, each with an equal share of the budget.

    Parameters
    ----------
    records
        Number of records drawn from each posterior. ``None`` (default): the number of rows, or a noisy one where it is private.
    rows_share
        Share of the budget spent on the number of rows, where it is private and ``records`` is not given.

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

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how large the prior must be, or refuse columns with more than two values."""
        _require_binary(schema.domain)
        accounting = self.accounting(budget)
        measured, cost = self._planned(schema, unit, budget)
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
        records, total, measurements, cost = self._drawing(curator)
        priors = [
            UrnPrior.for_epsilon(curator.accounting.pure_epsilon(share), rows=records, unit=curator.unit)
            for share in curator.accounting.split(cost, [1.0] * len(domain))
        ]
        progress("counting", 0.2)
        sealed = curator.counts_many([(name,) for name in domain.names])
        progress("drawing", 0.5)
        drawn = draw_from_urns(
            curator, sealed, priors=priors, purpose="draw binary columns from binomials with beta priors"
        )
        nodes = tuple(
            Node(name, (), counts / float(records)) for name, counts in zip(domain.names, drawn, strict=True)
        )
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
