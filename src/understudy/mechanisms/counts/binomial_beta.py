"""Binary columns drawn from a binomial with a beta prior, by two different laws (paper DIPS, section 3.2.1).

*Binomial-beta*, the binary case of Abowd and Vilhuber's multinomial-Dirichlet synthesizer, draws the share of ones from
its posterior and then the records from that share. *McClure and Reiter* do not draw the share: every record is drawn with the
posterior mean, and the prior is the one that makes ``m`` independent records differentially private.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, SealedCounts
from understudy.engine import BayesianNetwork, Node, Resolution
from understudy.errors import WorkloadError
from understudy.inference import History
from understudy.marginals import Statistic
from understudy.mechanisms.base import Fitted, Plan, Progress
from understudy.mechanisms.counts.look import draw_from_urns
from understudy.mechanisms.counts.table import UrnSynthesizer
from understudy.mechanisms.histograms.look import MAX_SMOOTHED, Smoothing, smoothed_records
from understudy.mechanisms.options import between, refuse
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Unit
from understudy.privacy.count_models.urn import UrnPrior
from understudy.schema import Domain, Schema

_TYPICAL = 1_000
"""Records that two ways to spend a budget are compared for when neither the schema nor an option says how many."""


@dataclass(frozen=True, kw_only=True)
class BinarySynthesizer(UrnSynthesizer):
    """Every column has two values and is drawn on its own, with an equal share of the budget."""

    @abstractmethod
    def _pseudocount(
        self, unit: Unit, accounting: Accounting, cost: float, *, records: int, fixed: bool
    ) -> float:
        """Return what is added to both values of a column that may cost so much."""

    @abstractmethod
    def _drawn(
        self, curator: Curator, sealed: Sequence[SealedCounts], costs: Sequence[float], records: int
    ) -> list[tuple[npt.NDArray[np.int64], float]]:
        """Return synthetic counts of each column with the pseudocount they were drawn with."""

    def _records(self, records: int) -> int:
        """Return how many records are drawn, given how many are wanted."""
        return records

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the pseudocount: what pulls every share towards one half."""
        each = accounting.split(cost, [1.0] * len(schema.domain))[0]
        records = self._records(self.records or schema.row_count or _TYPICAL)
        return self._pseudocount(unit, accounting, each, records=records, fixed=unit.keeps_rows)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how large the prior must be, or refuse columns with more than two values."""
        _require_binary(schema.domain, self.name)
        accounting = self.accounting(budget, schema, unit)
        measured, cost = self._planned(schema, unit, accounting, accounting.total(budget))
        each = accounting.split(cost, [1.0] * len(schema.domain))[0]
        known = self.records or schema.row_count
        records = self._records(known or _TYPICAL)
        alpha = self._pseudocount(unit, accounting, each, records=records, fixed=unit.keeps_rows)
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=tuple(measured),
            model_cells=2 * len(schema.domain),
            notes=(
                f"{'If ' if known is None else ''}{records:,} records are drawn{', both' if known is None else '. Both'} values of every "
                f"column get a pseudocount of {alpha:.4g}.",
                "Relations between columns are not kept.",
            ),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        domain = curator.domain
        wanted, total, measurements, cost = self._drawing(curator)
        records = self._records(wanted)
        costs = curator.accounting.split(cost, [1.0] * len(domain))
        progress("counting", 0.2)
        sealed = curator.counts_many([(name,) for name in domain.names])
        progress("drawing", 0.5)
        drawn = self._drawn(curator, sealed, costs, records)
        nodes = tuple(
            Node(name, (), counts / float(records))
            for name, (counts, _) in zip(domain.names, drawn, strict=True)
        )
        progress("done", 1.0)
        shown = [
            Statistic(
                f"synthetic counts of {name} (pseudocount {alpha:.6g})",
                counts.astype(np.float64),
                "mechanism",
            )
            for name, (counts, alpha) in zip(domain.names, drawn, strict=True)
        ]
        network = BayesianNetwork(Resolution(domain, {}), total, nodes)
        return Fitted(network, measurements, history=History.planned(len(measurements)), statistics=shown)


@dataclass(frozen=True, kw_only=True)
class BinomialBeta(BinarySynthesizer):
    """For each column of two values, draw a share from its beta posterior and synthetic counts from the binomial.

    The binary case of the multinomial-Dirichlet synthesizer (Abowd and Vilhuber). Several columns are treated as
    independent, each with an equal share of the budget.

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
    summary: ClassVar[str] = (
        "binary columns drawn from a binomial whose share is drawn from a beta posterior; columns independent"
    )
    source: ClassVar[Source] = Source(
        law="beta-binomial draw of records; Laplace on a private number of rows",
        papers={Paper.DIPS: "section 3.2.1"},
        origin="Abowd and Vilhuber 2008",
    )

    def _pseudocount(
        self, unit: Unit, accounting: Accounting, cost: float, *, records: int, fixed: bool
    ) -> float:
        return UrnPrior.for_epsilon(accounting.pure_epsilon(cost), rows=records, unit=unit).alpha

    def _drawn(
        self, curator: Curator, sealed: Sequence[SealedCounts], costs: Sequence[float], records: int
    ) -> list[tuple[npt.NDArray[np.int64], float]]:
        accounting, unit = curator.accounting, curator.unit
        priors = [
            UrnPrior.for_epsilon(accounting.pure_epsilon(cost), rows=records, unit=unit) for cost in costs
        ]
        drawn = draw_from_urns(
            curator, sealed, priors=priors, purpose="draw binary columns from binomials with beta priors"
        )
        return [(counts, prior.alpha) for counts, prior in zip(drawn, priors, strict=True)]


@dataclass(frozen=True, kw_only=True)
class McClureReiter(BinarySynthesizer):
    """For each column of two values, draw records with the posterior mean of a beta prior.

    McClure and Reiter treat one binary column; several are treated as independent, each with an equal share of the budget.

    Parameters
    ----------
    records
        Number ``m`` of records drawn for each column, at most 20,000. ``None`` (default): the number of rows, or a noisy one
        where it is private, and 20,000 if there are more.
    rows_share
        Share of the budget spent on the number of rows, where it is private and ``records`` is not given.

    Privacy
    -------
    A record is a one with probability ``(n_1 + alpha) / (n + 2 alpha)``: the smoothed histogram of two bins, whose proof is in
    :class:`~understudy.mechanisms.histograms.look.Smoothing`. With ``alpha = 1/(exp(e) - 1)`` one record costs ``e``, and ``m``
    records compose. Under a pure budget ``e = epsilon/m``, which for ``m = n`` is the paper's prior
    ``(exp(epsilon/n) - 1)^-1``. The columns compose sequentially.

    Examples
    --------
    >>> McClureReiter(records=500).name
    'mcclure-reiter'
    """

    name: ClassVar[str] = "mcclure-reiter"
    summary: ClassVar[str] = (
        "binary columns drawn from a binomial with the posterior mean of a beta prior; columns independent"
    )
    source: ClassVar[Source] = Source(
        law="binomial draw of records; Laplace on a private number of rows",
        papers={Paper.DIPS: "section 3.2.1"},
        origin="McClure and Reiter 2012",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.records is not None:
            refuse(between(self, 1, MAX_SMOOTHED, "records"))

    def _records(self, records: int) -> int:
        return min(records, MAX_SMOOTHED)

    def _pseudocount(
        self, unit: Unit, accounting: Accounting, cost: float, *, records: int, fixed: bool
    ) -> float:
        return Smoothing.affordable(unit, accounting, cost, records=records, rows_fixed=fixed).pseudo

    def _drawn(
        self, curator: Curator, sealed: Sequence[SealedCounts], costs: Sequence[float], records: int
    ) -> list[tuple[npt.NDArray[np.int64], float]]:
        fixed, found = curator.rows.fixed, []
        for item, cost in zip(sealed, costs, strict=True):
            smoothing = Smoothing.affordable(
                curator.unit, curator.accounting, cost, records=records, rows_fixed=fixed
            )
            ones = smoothed_records(
                curator,
                item,
                smoothing,
                records=records,
                purpose=f"draw {records} records of {', '.join(item.clique)} with the posterior mean of a beta prior",
            )
            found.append((np.bincount(ones, minlength=2).astype(np.int64), smoothing.pseudo))
        return found


def _require_binary(domain: Domain, method: str) -> None:
    wide = [name for name in domain.names if domain.size(name) != 2]
    if wide:
        raise WorkloadError(
            f"{method} takes columns with exactly two values (missing counts as one); {', '.join(wide[:5])} "
            f"{'has' if len(wide) == 1 else 'have'} another number. Use multinomial-dirichlet for them."
        )
