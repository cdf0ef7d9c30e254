"""PEP: private entropy projection (Liu, Vietri and Wu 2021), on a junction tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.engine import EntropyProjection, candidate_sizes
from understudy.errors import DomainTooLarge
from understudy.marginals import Measurement, Query, QuerySource, Statistic, all_kway, random_boxes
from understudy.mechanisms.allocation import cells_of, noises_by_size
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    Progress,
    Synthesizer,
    planned,
    support_of,
    total_deviation,
)
from understudy.mechanisms.options import at_least, one_of, positive, refuse, shares, unused
from understudy.mechanisms.queries.asking import (
    Marginals,
    Queries,
    above_noise,
    answer_noise,
    answer_variance,
    default_rounds,
    fewer_than,
    first_look,
    own_queries,
    plain_queries,
    query_count,
    reach_of,
    require_narrow,
)
from understudy.mechanisms.rounds import require_fixed, small_first
from understudy.mechanisms.rules import structural_rules
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Clique, Domain, Schema

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
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on marginals; exponential mechanism for choices",
        papers={Paper.BIRTHS: "section 4.7.2"},
        origin="Liu, Vietri and Wu 2021",
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
        refuse(
            at_least(self, 1, "num_query", "num_iterations", "num_inner_updates", "marginal", optional=True),
            shares(self, "one_way_share", "measure_share"),
            positive(self, "slack", "max_model_mb"),
            one_of(self, "ask", ("marginals", "queries")),
            self._too_few(query_count(self.queries, self.num_query)),
            []
            if self.queries is None
            else unused(self, "num_query", "marginal", "public_seed", "ask", because="queries are given"),
        )

    def _too_few(self, pool: int | None) -> list[str]:
        return fewer_than(self.num_iterations, pool)

    def options(self) -> dict[str, Any]:
        """Return the options as plain values."""
        return super().options() | {"queries": plain_queries(self.queries)}

    # ------------------------------------------------------------------ public facts

    def _pool(self, schema: Schema) -> tuple[list[Clique], list[Query]]:
        """Return the marginals that may be measured, or the queries that may be asked."""
        domain = schema.domain
        limit = cells_of(self.max_model_mb)
        generator = np.random.default_rng(self.public_seed)
        require_narrow(domain, limit, does="the model of pep has", option="max_model_mb")
        if self.queries is not None:
            return [], own_queries(schema, self.queries, self._too_few)
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

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of a cell, or answer, if two are measured for each column."""
        _, queries = self._pool(schema)
        _, rest = accounting.split(cost, [self.one_way_share, 1 - self.one_way_share])
        each = rest / (self.num_iterations or 2 * len(schema.domain)) * self.measure_share
        return total_deviation([(1, self._noise(accounting, unit, each, queries))])

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what is measured at first and how each iteration is priced."""
        domain = schema.domain
        require_fixed(schema, [], self.max_model_mb)
        cliques, queries = self._pool(schema)
        held = [constraint.columns for constraint in structural_rules(schema)]
        smallest = candidate_sizes(domain, held, [query.clique for query in queries] or cliques).min()
        if smallest > self.max_model_mb:
            raise DomainTooLarge(
                f"Beside the constraints no query fits into a model of {self.max_model_mb:g} MB. Use coarser bins or "
                "raise max_model_mb.",
                cells=cells_of(smallest),
                allowed=cells_of(self.max_model_mb),
            )
        accounting = self.accounting(budget, schema, unit)
        columns, rest = accounting.split(
            accounting.total(budget), [self.one_way_share, 1 - self.one_way_share]
        )
        rows = None if schema.row_count is None else float(schema.row_count)
        number = self._iterations(accounting, unit, rest, domain, rows, len(queries))
        noise = self._noise(accounting, unit, rest / number * self.measure_share, queries)
        first = noises_by_size(accounting, unit, columns, domain.sizes)
        what = f"{len(queries)} queries" if queries else f"{len(cliques)} marginals"
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, [((n,), k) for n, k in zip(domain.names, first, strict=True)]),
            model_cells=cells_of(self.max_model_mb),
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
        rows, measured = first_look(curator, cost)
        support = support_of(curator.schema)
        held = EntropyProjection(domain, rows, zeros=support, max_cells=cells_of(4 * self.max_model_mb))
        for item in measured:
            self.agree(held, item)
        held.sweep(2)
        number = self._iterations(accounting, unit, curator.remaining, domain, rows, len(queries))
        price = accounting.split(curator.remaining, [1.0] * number)[0]
        measure, select = accounting.split(price, [self.measure_share, 1 - self.measure_share])
        noise = self._noise(accounting, unit, measure, queries)
        epsilon = accounting.selection_epsilon(select)
        look = _Look(self, curator.domain, [clique for clique, _ in support])
        asking: Marginals | Queries = (
            Queries(curator, queries, noise, epsilon)
            if queries
            else Marginals(curator, cliques, noise, epsilon)
        )
        for turn in range(number):
            progress("projecting", (turn + 1) / (number + 1))
            look.at(asking, held)
            held.project(updates=self.num_inner_updates, tolerance=1e-3 * noise.scale)
        held.sweep(_SWEEPS)
        progress("done", 1.0)
        workload = None if queries else all_kway(domain, min(self.marginal, len(domain)))
        return Fitted(
            held.model(),
            [*measured, *look.measurements],
            workload=workload,
            statistics=look.statistics,
        )

    def agree(self, held: EntropyProjection, item: Measurement) -> None:
        """Ask the model to agree with a measurement up to the slack."""
        reach = self.slack * item.stddev
        held.bound_cells(item.clique, item.values - reach, item.values + reach)


class _Look:
    """What may still be asked within the size of the model, and what was released."""

    def __init__(self, method: PEP, domain: Domain, fixed: Sequence[Clique]) -> None:
        self.method, self.domain, self.held = method, domain, list(fixed)
        self.measurements: list[Measurement] = []
        self.statistics: list[Statistic] = []

    def at(self, asking: Marginals | Queries, held: EntropyProjection) -> None:
        """Choose and measure one marginal or one query, and ask the model to agree with the answer."""
        if isinstance(asking, Queries):
            self._at_query(asking, held)
        else:
            self._at_marginal(asking, held)

    def _fitting(self, cliques: Sequence[Clique]) -> list[Clique]:
        """Return what fits into the model beside what was measured; by public sizes and earlier choices."""
        limit = self.method.max_model_mb
        sizes = candidate_sizes(self.domain, self.held, cliques, limit_mb=limit)
        return [clique for clique, size in zip(cliques, sizes, strict=True) if size <= limit]

    def _at_marginal(self, asking: Marginals, held: EntropyProjection) -> None:
        fitting = self._fitting(list(asking.sealed))
        fitting = above_noise(self.domain, fitting, asking.noise, held.total) or fitting
        measured = asking.ask(fitting, held.model().marginals(fitting))
        self.measurements.append(measured)
        self.held.append(measured.clique)
        self.method.agree(held, measured)

    def _at_query(self, asking: Queries, held: EntropyProjection) -> None:
        fitting = self._fitting(list(dict.fromkeys(query.clique for query in asking.queries)))
        tables = dict(zip(fitting, held.model().marginals(fitting), strict=True))
        among = [place for place, query in enumerate(asking.queries) if query.clique in tables]
        expected = np.zeros(len(asking.queries))
        for place in among:
            expected[place] = asking.queries[place].answer(tables[asking.queries[place].clique])
        (chosen,), values = asking.ask(expected, among=among)
        query, value = asking.queries[chosen], float(values[0])
        self.statistics.append(asking.statistic(values))
        self.held.append(query.clique)
        reach = self.method.slack * answer_variance(asking.noise) ** 0.5
        held.bound_query(query.clique, query.values, value - reach, value + reach)
