"""PEP: private entropy projection (Liu, Vietri and Wu 2021), on a junction tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Noise, measure_answer, noise_for, seal_answers
from understudy.engine import EntropyProjection, candidate_sizes
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Measurement, Query, QuerySource, Statistic, all_kway, random_boxes
from understudy.privacy import Accounting, Budget, Unit
from understudy.schema import Clique, Domain, Schema
from understudy.synthesizers._allocation import direct_weights, noises
from understudy.synthesizers._rounds import expected_absolute_noise, require_fixed, small_first
from understudy.synthesizers.base import Fitted, Plan, Progress, Synthesizer, fixed_total, planned, support_of
from understudy.synthesizers.queries._pool import (
    answer_noise,
    default_rounds,
    noise_name,
    own_queries,
    plain_queries,
    query_count,
    reach_of,
)

Floats = npt.NDArray[np.float64]

_SWEEPS = 3
"""Passes over all constraints at the end, which loosen those that no longer bind."""


@dataclass(frozen=True, kw_only=True)
class PEP(Synthesizer):
    """Measure what the model gets most wrong; then take the most random distribution that agrees with all answers.

    All columns are measured first. Each iteration chooses a marginal (or a counting query), measures it, and makes some
    projections: onto the newest answer, then again and again onto the answer that is missed by most. "Agrees" means
    within ``slack`` standard deviations of the noise, so that the distribution does not follow the noise; inside these
    bounds nothing is claimed that was not measured. The distribution is a graphical model on a junction tree: the domain
    is never enumerated.

    Parameters
    ----------
    ask
        ``marginals`` measures whole marginals, each at the price of one count. ``queries`` draws a pool of random
        counting queries and measures one at a time, as paper Births describes.
    num_query
        Size of the pool. There are never more marginals than the table has; where there are more, a random choice of
        them, which is public.
    num_iterations
        How many are chosen and measured; by default by the budget and the number of rows.
    num_inner_updates
        Projections after each measurement.
    marginal
        Order: how many columns a query speaks of. Marginals of fewer columns may be chosen too.
    queries
        Linear queries of your own instead of a pool.
    slack
        Half width of the interval around a released answer, in standard deviations of its noise.
    one_way_share
        Share of the budget that measures all columns first.
    measure_share
        Share of each iteration's cost that measures; the rest chooses.
    max_model_mb
        Largest junction tree; what does not fit beside what was measured before is not a candidate any more.
    public_seed
        Seed of the pool, which is public; privacy noise takes no seed.

    Privacy
    -------
    Looks: (1) every one-way marginal, once; (2) in each iteration a choice by the exponential mechanism, with score
    ``|M_r(D) - M_r(model)|_1 - penalty`` for a marginal, which moves by at most ``l1`` between neighbours, or
    ``|q(D) - q(model)|`` for a query, which moves by at most the sensitivity of an answer; model and penalty are public;
    (3) a measurement of what was chosen. Candidates depend on public sizes and on earlier choices. All prices are fixed
    before the first iteration and add up to the budget. The projections are post-processing.

    Examples
    --------
    >>> PEP(num_query=512, num_iterations=100, marginal=2).name
    'pep'
    """

    name: ClassVar[str] = "pep"
    summary: ClassVar[str] = (
        "most random distribution that agrees with the worst-answered marginals or queries"
    )

    ask: Literal["marginals", "queries"] = "marginals"
    num_query: int = 4096
    num_iterations: int | None = None
    num_inner_updates: int = 25
    marginal: int = 3
    queries: QuerySource | None = None
    slack: float = 0.5
    one_way_share: float = 0.1
    measure_share: float = 0.9
    max_model_mb: float = 20.0
    public_seed: int = 0

    def __post_init__(self) -> None:
        problems = [
            f"{name} ({getattr(self, name)}) must be at least 1."
            for name in ("num_query", "num_iterations", "num_inner_updates", "marginal")
            if getattr(self, name) is not None and getattr(self, name) < 1
        ]
        for name in ("one_way_share", "measure_share"):
            if not 0 < getattr(self, name) < 1:
                problems.append(f"{name} ({getattr(self, name)}) must lie between 0 and 1.")
        for name in ("slack", "max_model_mb"):
            if not getattr(self, name) > 0:
                problems.append(f"{name} ({getattr(self, name)}) must be positive.")
        if self.ask not in ("marginals", "queries"):
            problems.append(f"ask ({self.ask!r}) must be marginals or queries.")
        pool = query_count(self.queries, self.num_query)
        if pool is not None:
            problems += self._too_few(pool)
        if problems:
            raise BudgetError(" ".join(problems))

    def _too_few(self, pool: int) -> list[str]:
        """Refuse fewer queries than iterations, which paper Births (4.7.2) excludes too."""
        if self.num_iterations is None or self.num_iterations <= pool:
            return []
        return [
            f"num_query ({pool}) must not be smaller than num_iterations ({self.num_iterations}): some iterations would "
            "pay to ask again what is known already. Use more queries or fewer iterations."
        ]

    def options(self) -> dict[str, Any]:
        """Return the options as plain values."""
        return super().options() | {"queries": plain_queries(self.queries)}

    # ------------------------------------------------------------------ public facts

    def _pool(self, schema: Schema) -> tuple[list[Clique], list[Query]]:
        """Return the marginals that may be measured, or the queries that may be asked."""
        domain = schema.domain
        limit = int(self.max_model_mb * 2**20 / 8)
        generator = np.random.default_rng(self.public_seed)
        wide = [name for name in domain.names if domain.size(name) > limit]
        if wide:
            raise DomainTooLarge(
                f"The column {wide[0]!r} alone does not fit into a model of {self.max_model_mb:g} MB. Use coarser bins "
                "or raise max_model_mb.",
                cells=domain.size(wide[0]),
                allowed=limit,
            )
        if self.queries is not None:
            own = own_queries(schema, self.queries)
            problems = self._too_few(len(own))
            if problems:
                raise BudgetError(problems[0])
            return [], own
        if self.ask == "queries":
            return [], list(random_boxes(domain, self.num_query, order=self.marginal, generator=generator))
        closure = all_kway(domain, min(self.marginal, len(domain))).closure()
        found = small_first(domain, closure, limit=limit, most=len(closure))
        if len(found) > self.num_query:
            kept = generator.choice(len(found), self.num_query, replace=False)
            found = [found[place] for place in sorted(kept.tolist())]
        return found, []

    def _iterations(
        self,
        accounting: Accounting,
        unit: Unit,
        cost: float,
        domain: Domain,
        rows: float | None,
        queries: int,
    ) -> int:
        """Return how many iterations there are: as told, or by the budget; single queries teach less, so more."""
        if self.num_iterations is not None:
            return self.num_iterations
        number = default_rounds(accounting, unit, cost, len(domain), rows)
        return min(4 * number, queries) if queries else number

    def _noise(self, accounting: Accounting, unit: Unit, cost: float, queries: Sequence[Query]) -> Noise:
        if queries:
            return answer_noise(accounting, cost, reach_of(queries, unit))
        return noise_for(accounting, unit, cost)

    def _columns(self, domain: Domain, accounting: Accounting, unit: Unit, cost: float) -> list[Noise]:
        return noises(accounting, unit, cost, direct_weights(accounting, [1.0] * len(domain), domain.sizes))

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what is measured at first and how each iteration is priced."""
        domain = schema.domain
        require_fixed(schema, [], self.max_model_mb)
        cliques, queries = self._pool(schema)
        held = [constraint.columns for constraint in schema.constraints]
        smallest = candidate_sizes(domain, held, [query.clique for query in queries] or cliques).min()
        if smallest > self.max_model_mb:
            raise DomainTooLarge(
                f"Beside the constraints no query fits into a model of {self.max_model_mb:g} MB. Use coarser bins or "
                "raise max_model_mb.",
                cells=int(smallest * 2**20 / 8),
                allowed=int(self.max_model_mb * 2**20 / 8),
            )
        accounting = self.accounting(budget)
        columns, rest = accounting.split(
            accounting.total(budget), [self.one_way_share, 1 - self.one_way_share]
        )
        rows = None if schema.row_count is None else float(schema.row_count)
        number = self._iterations(accounting, unit, rest, domain, rows, len(queries))
        noise = self._noise(accounting, unit, rest / number * self.measure_share, queries)
        first = self._columns(domain, accounting, unit, columns)
        what = f"{len(queries)} queries" if queries else f"{len(cliques)} marginals"
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, [((n,), k) for n, k in zip(domain.names, first, strict=True)]),
            model_cells=int(self.max_model_mb * 2**20 / 8),
            notes=(
                f"Then {number} of {what} are chosen and measured with {noise.kind} noise of scale {noise.scale:.4g} rows"
                + ("." if rows or self.num_iterations else "; more on a table of more than 10,000 rows."),
            ),
        )

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        domain, accounting, unit = curator.domain, curator.accounting, curator.unit
        cliques, queries = self._pool(curator.schema)
        progress("counting", 0.0)
        cost = curator.split([self.one_way_share, 1 - self.one_way_share])[0]
        measured = curator.measure_many(
            curator.counts_many([(name,) for name in domain.names]),
            noise=self._columns(domain, accounting, unit, cost),
            purpose=f"measure {len(domain)} one-way marginals",
        )
        rows = fixed_total(curator)
        if rows is None:
            weights = [1.0 / (item.variance * item.values.size) for item in measured]
            rows = max(1.0, float(np.average([item.values.sum() for item in measured], weights=weights)))
        support = support_of(curator.schema)
        held = EntropyProjection(
            domain, rows, zeros=support, max_cells=int(4 * self.max_model_mb * 2**20 / 8)
        )
        for item in measured:
            self._agree(held, item)
        held.sweep(2)
        number = self._iterations(accounting, unit, curator.remaining, domain, rows, len(queries))
        price = accounting.split(curator.remaining, [1.0] * number)[0]
        measure, select = accounting.split(price, [self.measure_share, 1 - self.measure_share])
        noise = self._noise(accounting, unit, measure, queries)
        epsilon = accounting.selection_epsilon(select)
        look = _Queries if queries else _Marginals
        source = look(self, curator, queries or cliques, noise, epsilon, [c for c, _ in support])  # type: ignore[arg-type]
        for turn in range(number):
            progress("projecting", (turn + 1) / (number + 1))
            source.ask(held)
            held.project(updates=self.num_inner_updates, tolerance=1e-3 * noise.scale)
        held.sweep(_SWEEPS)
        progress("done", 1.0)
        workload = None if queries else all_kway(domain, min(self.marginal, len(domain)))
        return Fitted(
            held.model(),
            [*measured, *source.measurements],
            workload=workload,
            statistics=source.statistics,
        )

    def _agree(self, held: EntropyProjection, item: Measurement) -> None:
        """Ask the model to agree with a measurement up to the slack."""
        reach = self.slack * item.stddev
        held.bound_cells(item.clique, item.values - reach, item.values + reach)


class _Asking:
    """What is left to ask within the size of the model."""

    def __init__(
        self,
        method: PEP,
        curator: Curator,
        cliques: Sequence[Clique],
        noise: Noise,
        epsilon: float,
        fixed: Sequence[Clique],
    ) -> None:
        self.method, self.curator, self.noise, self.epsilon = method, curator, noise, epsilon
        self.cliques = list(cliques)
        self.held = list(fixed)
        self.measurements: list[Measurement] = []
        self.statistics: list[Statistic] = []

    def fitting(self) -> list[int]:
        """Return which candidates fit into the model beside what was measured; by public sizes and earlier choices."""
        limit = self.method.max_model_mb
        known = list(dict.fromkeys(self.cliques))
        sizes = candidate_sizes(self.curator.domain, self.held, known, limit_mb=limit)
        kept = {clique for clique, size in zip(known, sizes, strict=True) if size <= limit}
        return [place for place, clique in enumerate(self.cliques) if clique in kept]


class _Marginals(_Asking):
    """Whole marginals, chosen by their L1 error less the noise that a measurement would have."""

    def __init__(
        self,
        method: PEP,
        curator: Curator,
        candidates: Sequence[Clique],
        noise: Noise,
        epsilon: float,
        fixed: Sequence[Clique],
    ) -> None:
        super().__init__(method, curator, candidates, noise, epsilon, fixed)
        self._sealed = dict(zip(candidates, curator.counts_many(candidates), strict=True))

    def ask(self, held: EntropyProjection) -> None:
        penalty = expected_absolute_noise(self.noise)
        limit = 2 * held.total / penalty
        fitting = [self.cliques[place] for place in self.fitting()]
        # noise beyond every possible error: left out by released values, unless that leaves nothing
        fitting = [c for c in fitting if self.curator.domain.cells(c) <= limit] or fitting
        answers = held.model().marginals(fitting)
        scores = [
            self._sealed[clique].l1_distance(answer).shifted(-penalty * answer.size)
            for clique, answer in zip(fitting, answers, strict=True)
        ]
        index = self.curator.choose(scores, epsilon=self.epsilon, purpose="choose a marginal to measure")
        measured = self.curator.measure(self._sealed[fitting[index]], noise=self.noise)
        self.measurements.append(measured)
        self.held.append(fitting[index])
        self.method._agree(held, measured)


class _Queries(_Asking):
    """Single queries, chosen by the error of their answers."""

    def __init__(
        self,
        method: PEP,
        curator: Curator,
        candidates: Sequence[Query],
        noise: Noise,
        epsilon: float,
        fixed: Sequence[Clique],
    ) -> None:
        super().__init__(method, curator, [query.clique for query in candidates], noise, epsilon, fixed)
        self._queries = list(candidates)
        self._sealed = seal_answers(curator, self._queries)

    def ask(self, held: EntropyProjection) -> None:
        fitting = self.fitting()
        known = list(dict.fromkeys(self.cliques[place] for place in fitting))
        tables = dict(zip(known, held.model().marginals(known), strict=True))
        expected = np.zeros(len(self._queries))
        for place in fitting:
            expected[place] = self._queries[place].answer(tables[self.cliques[place]])
        distances = self._sealed.distances(expected)
        chosen = fitting[
            self.curator.choose(
                [distances[place] for place in fitting], epsilon=self.epsilon, purpose="choose a query"
            )
        ]
        value = measure_answer(
            self.curator, self._sealed, chosen, noise=self.noise, purpose="measure a query"
        )
        self.statistics.append(
            Statistic("answer to a chosen query", np.array([value]), noise_name(self.noise), self.noise.scale)
        )
        spread = self.noise.scale * (2**0.5 if self.noise.kind == "laplace" else 1.0)
        query = self._queries[chosen]
        self.held.append(query.clique)
        reach = self.method.slack * spread
        held.bound_query(query.clique, query.values, value - reach, value + reach)
