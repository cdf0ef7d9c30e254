"""MWEM+PGM: measure the worst workload marginal, a fixed number of times (paper AIM, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from understudy.curator import Curator
from understudy.engine import candidate_sizes, estimate
from understudy.errors import DomainTooLarge
from understudy.inference import RoundLog, answer_each
from understudy.marginals import Measurement, Workload
from understudy.mechanisms.allocation import TOTAL_SHARE, cells_of, rows_noise, total_is_public, workload_for
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    Progress,
    Synthesizer,
    planned,
    support_of,
    total_deviation,
)
from understudy.mechanisms.options import at_least, positive, refuse, shares
from understudy.mechanisms.rounds import RoundCost, measure_worst, require_fixed
from understudy.mechanisms.rules import structural_rules
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Clique, Domain, Schema


@dataclass(frozen=True, kw_only=True)
class MWEMPGM(Synthesizer):
    """Choose the workload marginal the model gets most wrong, measure it, refit; repeat.

    Every round has the same price. The model starts uniform.

    Parameters
    ----------
    workload
        The marginals that matter; all 3-way marginals by default.
    rounds
        Number of rounds; by default as many as there are columns.
    measure_share
        Share of each round's cost that is spent on measuring; the rest pays for choosing.
    max_model_mb
        Largest junction tree the model may need, in megabytes. Marginals that would exceed it are not
        candidates; workload marginals that exceed it by themselves are replaced by their parts.

    Privacy
    -------
    Each round chooses by the exponential mechanism with score ``|M_r(D) - M_r(model)|_1 - n_r``; the
    distance moves by at most ``l1`` between neighbours and the number of cells ``n_r`` is public, so the
    sensitivity is ``l1``. Then it measures the chosen marginal. The number of rows, where it is
    private, is measured first with a hundredth of the budget. All costs are fixed in advance and add
    up to the budget; what is chosen depends on earlier outputs, which sequential composition
    allows. Candidates are limited by the size of the model, a function of what was measured before.

    Examples
    --------
    >>> MWEMPGM(rounds=10).name
    'mwem-pgm'
    """

    name: ClassVar[str] = "mwem-pgm"
    summary: ClassVar[str] = "a fixed number of rounds on the worst workload marginal, graphical model"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on marginals; exponential mechanism for choices",
        papers={Paper.AIM: "Algorithm 1"},
        origin="Hardt, Ligett and McSherry 2012; McKenna, Sheldon and Miklau 2019",
    )

    workload: Workload | None = None
    rounds: int | None = None
    measure_share: float = 0.9
    max_model_mb: float = 80.0

    def __post_init__(self) -> None:
        refuse(
            at_least(self, 1, "rounds", optional=True),
            shares(self, "measure_share"),
            positive(self, "max_model_mb"),
        )

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of a cell measured in one round."""
        known = total_is_public(schema, unit)
        _, price = self._prices(schema.domain, accounting, cost, total_known=known)
        return total_deviation([(1, noise_for(accounting, unit, price.measure))])

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how each round is priced."""
        domain = schema.domain
        candidates = self._candidates(domain)
        fixed = [constraint.columns for constraint in structural_rules(schema)]
        require_fixed(schema, [], self.max_model_mb)
        if candidate_sizes(domain, fixed, candidates).min() > self.max_model_mb:
            raise DomainTooLarge(
                f"Together with the constraints no marginal of the workload fits into a model of {self.max_model_mb:g} "
                "MB. Use coarser bins, constraints over fewer columns, or raise max_model_mb.",
                cells=min(domain.cells(clique) for clique in candidates),
                allowed=cells_of(self.max_model_mb),
            )
        accounting = self.accounting(budget, schema, unit)
        rows, price = self._prices(
            domain, accounting, accounting.total(budget), total_known=total_is_public(schema, unit)
        )
        design: list[tuple[Clique, Noise]] = [] if rows == 0 else [((), rows_noise(accounting, unit, rows))]
        noise = noise_for(accounting, unit, price.measure)
        cells = sorted(domain.cells(clique) for clique in candidates)
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, design),
            model_cells=cells_of(self.max_model_mb),
            notes=(
                f"{self._rounds(domain)} rounds over {len(candidates)} candidate marginals ({cells[0]:,} to "
                f"{cells[-1]:,} cells), each measured with {noise.kind} noise of scale {noise.scale:.4g} rows per cell.",
            ),
        )

    def _rounds(self, domain: Domain) -> int:
        return len(domain) if self.rounds is None else int(self.rounds)

    def _candidates(self, domain: Domain) -> list[Clique]:
        """Return the workload marginals, those that cannot fit replaced by their largest parts that can."""
        limit = cells_of(self.max_model_mb) - sum(domain.sizes)
        workload = workload_for(self.workload, domain)
        found: dict[Clique, None] = {}
        waiting = [clique for clique, weight in workload if weight > 0 and clique]
        while waiting:
            smaller: dict[Clique, None] = {}
            for clique in waiting:
                if domain.cells(clique) <= limit:
                    found[clique] = None
                elif len(clique) > 1:
                    smaller.update(dict.fromkeys(combinations(clique, len(clique) - 1)))
            waiting = list(smaller)
        if not found:
            raise DomainTooLarge(
                f"No marginal of the workload fits into a model of {self.max_model_mb:g} MB. "
                "Use coarser bins or raise max_model_mb.",
                cells=min(domain.cells(clique) for clique in workload.cliques),
                allowed=int(max(0.0, limit)),
            )
        return list(found)

    def _prices(
        self, domain: Domain, accounting: Accounting, total: float, *, total_known: bool
    ) -> tuple[float, RoundCost]:
        """Divide a cost between the number of rows, where it is private, and equal rounds."""
        share = 0.0 if total_known else TOTAL_SHARE
        rows = share * total
        per_round = accounting.split((1 - share) * total, [1.0] * self._rounds(domain))[0]
        measure, select = accounting.split(per_round, [self.measure_share, 1 - self.measure_share])
        return rows, RoundCost(measure, select)

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        domain, accounting = curator.domain, curator.accounting
        support = support_of(curator.schema)
        candidates = self._candidates(domain)
        total = curator.rows.total
        rows, price = self._prices(domain, accounting, curator.remaining, total_known=total is not None)
        progress("counting", 0.0)
        sealed = dict(zip(candidates, curator.counts_many(candidates), strict=True))
        measurements: list[Measurement] = []
        if rows > 0:
            noise = rows_noise(accounting, curator.unit, rows)
            measurements.append(curator.measure(curator.counts(()), noise=noise))
        model = estimate(domain, measurements, total=total, zeros=support)
        noise = noise_for(accounting, curator.unit, price.measure)
        epsilon = accounting.selection_epsilon(price.select)
        log = RoundLog(planned=len(measurements))
        for number in range(self._rounds(domain)):
            progress(f"round {number + 1}", 0.9 * number / self._rounds(domain))
            held = [*dict.fromkeys(item.clique for item in measurements), *(clique for clique, _ in support)]
            sizes = candidate_sizes(domain, held, candidates, limit_mb=self.max_model_mb)
            fitting = [
                clique for clique, size in zip(candidates, sizes, strict=True) if size <= self.max_model_mb
            ]
            answers = model.marginals(fitting)
            last = number + 1 == self._rounds(domain)
            step = measure_worst(
                curator, sealed, fitting, answers, noise=noise, epsilon=epsilon, penalty=1.0, last=last
            )
            measurements.append(step.measurement)
            log.add(step, answers, [1.0] * len(fitting))
            model = estimate(domain, measurements, total=total, zeros=support, warm_start=model)
        progress("final estimate", 0.9)
        model = estimate(domain, measurements, total=total, zeros=support, warm_start=model, thorough=True)
        return Fitted(
            model,
            measurements,
            workload=workload_for(self.workload, domain),
            history=log.close(answer_each(model.marginals, candidates)),
        )
