"""AIM: an adaptive and iterative mechanism for workloads of marginals (paper AIM, Algorithms 2 to 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Noise, SealedCounts, noise_for
from understudy.engine import GraphicalModel, candidate_sizes, estimate
from understudy.errors import BudgetError, DomainTooLarge
from understudy.inference import Round, RoundLog, answer_each
from understudy.marginals import Measurement, Workload, all_kway
from understudy.privacy import Accounting, Budget, Unit
from understudy.schema import Clique, Domain, Schema
from understudy.synthesizers._rounds import RoundCost, certify, expected_absolute_noise
from understudy.synthesizers.base import Fitted, Plan, Progress, Synthesizer, fixed_total, planned, support_of

Array = npt.NDArray[np.float64]

_NEGLIGIBLE = math.log(1e9)
"""Candidates whose best possible score is this many exponential-mechanism scales below another's are left out."""

MAX_CANDIDATE_CELLS = 60_000_000
"""Cells of all candidate marginals together; their exact counts stay in memory during the fit."""


@dataclass(frozen=True, kw_only=True)
class AIM(Synthesizer):
    """Measure what the current model gets most wrong, again and again, until the budget is spent.

    Each round chooses a marginal from the downward closure of the workload by the exponential
    mechanism, measures it, and refits a graphical model. When a round teaches less than its noise,
    the following rounds get more budget. The last round spends what is left.

    Parameters
    ----------
    workload
        The marginals that matter; all 3-way marginals by default.
    max_model_mb
        Largest junction tree the model may need, in megabytes.
    rounds_per_column
        The first rounds are priced as if there were this many rounds per column (16 in the paper).
    measure_share
        Share of each round's cost that is spent on measuring; the rest pays for choosing.
    max_candidates
        Most marginals that are looked at in a round; one-way marginals first, then by number of cells.
    certify
        Share of the budget that measures the finished model's error on every workload marginal. A
        hundredth makes :meth:`Model.error_bounds` several times tighter on large tables. Of little use
        under pure differential privacy, where hundreds of numbers share it linearly.

    Privacy
    -------
    Three kinds of looks, and a fourth with ``certify``: (1) all one-way marginals of the closure,
    measured once; (2) in each round a choice by the exponential mechanism among candidates fixed by
    what was released before, with score ``w_r (|M_r(D) - M_r(model)|_1 - penalty_r)``: the distance moves by at most ``l1`` between
    neighbours and the penalty is public, so the sensitivity is ``l1 max w_r`` over the candidates;
    (3) in each round a measurement of the chosen marginal; (4) the L1 distance of each workload marginal
    from the finished model, which moves by at most ``l1``. Costs depend on earlier outputs, so the
    loop runs inside a filter: the curator refuses any charge beyond the allowance. Fully adaptive
    composition holds for each accounting (sums of epsilon, of rho, of squared mu). Candidates are
    left out only by model size and by bounds computed from released values. The rest is
    post-processing.

    Examples
    --------
    >>> AIM(max_model_mb=20).name
    'aim'
    """

    name: ClassVar[str] = "aim"
    summary: ClassVar[str] = "adaptive choice of marginals for a workload, graphical model"

    workload: Workload | None = None
    max_model_mb: float = 80.0
    rounds_per_column: float = 16.0
    measure_share: float = 0.9
    max_candidates: int = 5_000
    certify: float = 0.0

    def __post_init__(self) -> None:
        if not self.max_model_mb > 0:
            raise BudgetError(f"max_model_mb ({self.max_model_mb}) must be positive.")
        if not self.rounds_per_column >= 1:
            raise BudgetError(f"rounds_per_column ({self.rounds_per_column}) must be at least 1.")
        if self.max_candidates < 1:
            raise BudgetError(f"max_candidates ({self.max_candidates}) must be at least 1.")
        if not 0 < self.measure_share < 1:
            raise BudgetError(f"measure_share ({self.measure_share}) must lie between 0 and 1.")
        if not 0 <= self.certify < 1:
            raise BudgetError(f"certify ({self.certify}) must be at least 0 and less than 1.")

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how the first rounds are priced, or which columns are too wide for any model."""
        domain = schema.domain
        workload = self._workload(domain)
        candidates = self._candidates(domain, workload)
        accounting = self.accounting(budget)
        price = self._first_price(domain, accounting, accounting.total(budget))
        noise = noise_for(accounting, unit, price.measure)
        design: list[tuple[Clique, Noise]] = [(clique, noise) for clique in candidates if len(clique) == 1]
        left_out = len(workload.closure()) - len(candidates)
        notes = [
            f"Then between {len(domain)} and {round(self.rounds_per_column * len(domain))} adaptive rounds over "
            f"{len(candidates)} candidate marginals; noise per round falls as the model stops learning."
        ]
        if left_out:
            notes.append(
                f"{left_out} larger marginals of the workload's closure are only estimated, never measured: they have "
                f"too many cells for a model of {self.max_model_mb:g} MB, or there are more than "
                f"{self.max_candidates} candidates. Use coarser bins, fewer columns or a smaller workload "
                "(such as target:COLUMN or all-2way), or raise max_model_mb or max_candidates."
            )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, design),
            model_cells=int(self.max_model_mb * 2**20 / 8),
            notes=tuple(notes),
        )

    def _workload(self, domain: Domain) -> Workload:
        """Return the workload, checked against the domain of the table."""
        if self.workload is None:
            return all_kway(domain, 3)
        if self.workload.domain != domain:
            raise BudgetError("The workload was made for other columns than the table has.")
        return self.workload

    def _candidates(self, domain: Domain, workload: Workload) -> list[Clique]:
        """Return the marginals of the closure that may be chosen.

        Each must fit into the model by itself; all together must fit into memory, small ones first. The
        rule looks at public sizes only.
        """
        limit = self.max_model_mb * 2**20 / 8
        too_wide = [name for name in domain.names if domain.size(name) > limit]
        if too_wide:
            raise DomainTooLarge(
                f"The columns {', '.join(too_wide)} alone do not fit into a model of {self.max_model_mb:g} MB. "
                "Use coarser bins or raise max_model_mb.",
                cells=max(domain.size(name) for name in too_wide),
                allowed=int(limit),
            )
        kept: list[Clique] = []
        room = MAX_CANDIDATE_CELLS
        closure = workload.closure()
        for clique in sorted(closure, key=lambda item: (len(item), domain.cells(item))):
            cells = domain.cells(clique)
            if cells > limit or cells > room or (len(kept) >= self.max_candidates and len(clique) > 1):
                continue
            kept.append(clique)
            room -= cells
        order = {clique: index for index, clique in enumerate(closure)}
        return sorted(kept, key=order.__getitem__)

    def _first_price(self, domain: Domain, accounting: Accounting, total: float) -> RoundCost:
        """Price of the first rounds, in the additive unit of the accounting."""
        per_round = total / (self.rounds_per_column * len(domain))
        return RoundCost(self.measure_share * per_round, (1 - self.measure_share) * per_round)

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        domain = curator.domain
        workload = self._workload(domain)
        weights = workload.closure_weights()
        progress("counting", 0.0)
        candidates = self._candidates(domain, workload)
        sealed = dict(zip(candidates, curator.counts_many(candidates), strict=True))
        reserve = self.certify * curator.remaining
        total_cost = curator.remaining - reserve
        price = self._first_price(domain, curator.accounting, total_cost)
        support = support_of(curator.schema)

        one_way = [clique for clique in candidates if len(clique) == 1]
        noise = noise_for(curator.accounting, curator.unit, price.measure)
        measurements = curator.measure_many(
            [sealed[clique] for clique in one_way],
            noise=[noise] * len(one_way),
            purpose=f"measure {len(one_way)} one-way marginals",
        )
        model = estimate(domain, measurements, total=fixed_total(curator), zeros=support)
        log = RoundLog(planned=len(measurements))
        while True:
            remaining = curator.remaining - reserve
            last = remaining <= 2 * price.total
            if last:
                price = RoundCost(self.measure_share * remaining, (1 - self.measure_share) * remaining)
            used = 1 - remaining / total_cost
            progress(f"round {len(log.rounds) + 1}", used)
            noise = noise_for(curator.accounting, curator.unit, price.measure)
            share = min(1.0, used + price.total / total_cost)
            step, answers = self._round(
                curator, sealed, weights, measurements, model, noise, price, share, last=last
            )
            log.add(step, answers, [weights[clique] for clique in step.candidates])
            measurements.append(step.measurement)
            before = step.answer.astype(np.float64)
            model = estimate(
                domain,
                measurements,
                total=fixed_total(curator),
                zeros=support,
                warm_start=model,
            )
            if last:
                break
            after = model.marginals([step.clique])[0]
            if np.abs(after - before).sum() <= expected_absolute_noise(noise) * after.size:
                price = price.annealed(curator.accounting)
        progress("final estimate", 1.0)
        model = estimate(
            domain, measurements, total=fixed_total(curator), zeros=support, warm_start=model, thorough=True
        )
        known = answer_each(model.marginals, candidates)
        certificate = None
        if reserve > 0:
            progress("certifying", 1.0)
            asked = [clique for clique in workload.cliques if clique in known]
            certificate = certify(
                curator, sealed, asked, [known[clique] for clique in asked], curator.remaining
            )
        history = log.close(known, certificate=certificate)
        return Fitted(model, measurements, workload=workload, history=history)

    def _round(
        self,
        curator: Curator,
        sealed: dict[Clique, SealedCounts],
        weights: dict[Clique, float],
        measurements: list[Measurement],
        model: GraphicalModel,
        noise: Noise,
        price: RoundCost,
        share: float,
        *,
        last: bool,
    ) -> tuple[Round, list[Array]]:
        """Choose one marginal and measure it; return the model's answers to all candidates as well."""
        domain = curator.domain
        epsilon = curator.accounting.selection_epsilon(price.select)
        penalty = expected_absolute_noise(noise)
        names = list(sealed)
        measured = list(dict.fromkeys(item.clique for item in measurements))
        limit = share * self.max_model_mb
        sizes = candidate_sizes(domain, measured, names, limit_mb=limit)
        fitting = [clique for clique, size in zip(names, sizes, strict=True) if size <= limit]
        if not fitting:  # the model cannot grow; measure again what it already holds
            fitting = measured
        eligible = _hopeful(domain, fitting, weights, model.total, penalty, epsilon, curator.unit)
        answers = model.marginals(eligible)
        scores = [
            sealed[clique].l1_distance(answer).shifted(-penalty * answer.size).scaled(weights[clique])
            for clique, answer in zip(eligible, answers, strict=True)
        ]
        index = curator.choose(scores, epsilon=epsilon, purpose="choose a marginal to measure")
        clique = eligible[index]
        measurement = curator.measure(sealed[clique], noise=noise)
        step = Round(
            clique=clique,
            answer=answers[index],
            measurement=measurement,
            epsilon=epsilon,
            candidates=tuple(eligible),
            weight=weights[clique],
            largest_weight=max(weights[item] for item in eligible),
            penalty=penalty,
            l1=float(curator.unit.histogram_l1),
            last=last,
        )
        return step, answers


def _hopeful(
    domain: Domain,
    cliques: list[Clique],
    weights: dict[Clique, float],
    total: float,
    penalty: float,
    epsilon: float,
    unit: Unit,
) -> list[Clique]:
    """Leave out candidates that cannot win, judging by released values only.

    A distance lies between 0 and about ``2 total``, so a score lies between ``-w penalty n`` and
    ``w (2 total - penalty n)``. A candidate whose upper bound is far below the best lower bound would
    be chosen with negligible probability; leaving it out changes the mechanism's outputs hardly at
    all and its privacy not at all, since the candidate set is a function of released values.
    """
    cells = np.array([domain.cells(clique) for clique in cliques], dtype=float)
    weight = np.array([weights[clique] for clique in cliques])
    lower = -weight * penalty * cells
    upper = weight * (2 * max(total, 1.0) - penalty * cells)
    scale = 2 * unit.histogram_l1 * float(weight.max()) / epsilon
    floor = float(lower.max()) - scale * (_NEGLIGIBLE + math.log(len(cliques)))
    return [clique for clique, best in zip(cliques, upper, strict=True) if best >= floor]
