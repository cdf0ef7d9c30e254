"""The loop that rap and gem share: choose what the mixture gets most wrong, measure it, fit the mixture again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from understudy.curator import (
    Curator,
    Noise,
    SealedAnswers,
    SealedCounts,
    SealedScalar,
    measure_answers,
    noise_for,
    seal_answers,
)
from understudy.engine import ProductMixture
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Measurement, Query, QuerySource, Statistic, Workload
from understudy.privacy import Accounting, Budget, Unit
from understudy.schema import Clique, Domain, Schema
from understudy.synthesizers._allocation import direct_weights, noises, workload_for
from understudy.synthesizers._rounds import expected_absolute_noise, small_first
from understudy.synthesizers.base import Fitted, Plan, Progress, Synthesizer, fixed_total, planned
from understudy.synthesizers.queries._pool import (
    answer_noise,
    default_rounds,
    noise_name,
    own_queries,
    plain_queries,
    query_count,
    reach_of,
)
from understudy.synthesizers.queries._product import Layout, Singles, Target, shares, target_of_queries

Floats = npt.NDArray[np.float64]

_LAST_STEPS = 4
"""The final fit makes this many times the steps of a round."""


class Learner(Protocol):
    """Parameters of a mixture that can be fitted to released answers."""

    def margins(self) -> Singles:
        """Return the margins of all parts, the columns side by side."""

    def fit(self, targets: Sequence[Target], rows: float, *, calm: float, steps: int) -> None:
        """Take some steps towards the released answers, ``calm`` times the information of the parts kept low."""


@dataclass
class _State:
    """What a fit has learnt so far; all of it released."""

    rows: float
    targets: list[Target]
    measurements: list[Measurement]
    statistics: list[Statistic] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class RelaxedProjection(Synthesizer):
    """Base of the mechanisms that fit a mixture of products to adaptively chosen answers.

    Options and privacy argument are told by the subclasses.
    """

    workload: Workload | None = None
    queries: QuerySource | None = None
    rounds: int | None = None
    per_round: int = 1
    one_way_share: float = 0.1
    measure_share: float = 0.9
    calm: float = 0.33
    max_cells: int = 20_000
    steps: int = 60
    public_seed: int = 0

    def __post_init__(self) -> None:
        problems = [
            f"{name} ({value}) must be at least 1."
            for name, value in self._counts().items()
            if value is not None and value < 1
        ]
        for name in ("one_way_share", "measure_share"):
            if not 0 < getattr(self, name) < 1:
                problems.append(f"{name} ({getattr(self, name)}) must lie between 0 and 1.")
        if not self.calm >= 0:
            problems.append(f"calm ({self.calm}) must not be negative.")
        if self.queries is not None and self.workload is not None:
            problems.append("Give queries or a workload of marginals, not both.")
        pool = query_count(self.queries, 0)
        if self.queries is not None and pool is not None:
            problems += self._too_few(pool)
        if problems:
            raise BudgetError(" ".join(problems))

    def _counts(self) -> dict[str, int | None]:
        return {
            "rounds": self.rounds,
            "per_round": self.per_round,
            "max_cells": self.max_cells,
            "steps": self.steps,
        }

    def options(self) -> dict[str, Any]:
        """Return the options as plain values."""
        return super().options() | {"queries": plain_queries(self.queries)}

    # ------------------------------------------------------------------ public facts

    @abstractmethod
    def _learner(self, layout: Layout, start: dict[str, Floats]) -> Learner:
        """Return a fresh mixture whose parts are near the given margins of the columns."""

    @abstractmethod
    def _parts(self) -> int:
        """Return how many parts the mixture has."""

    def _rounds(
        self, accounting: Accounting, unit: Unit, total: float, domain: Domain, rows: float | None
    ) -> int:
        """Return how many rounds there are: as told, or by :func:`default_rounds`."""
        if self.rounds is not None:
            return self.rounds
        return max(1, round(default_rounds(accounting, unit, total, len(domain), rows) / self.per_round))

    def _too_few(self, pool: int) -> list[str]:
        """Refuse more queries per round than there are: they are chosen without putting back."""
        if self.per_round <= pool:
            return []
        return [f"per_round ({self.per_round}) must not exceed the number of queries ({pool})."]

    def _candidates(self, schema: Schema) -> tuple[list[Clique], list[Query]]:
        """Return what may be measured: marginals of the workload's closure, or queries of one's own."""
        domain = schema.domain
        if self.queries is not None:
            own = own_queries(schema, self.queries)
            problems = self._too_few(len(own))
            if problems:
                raise BudgetError(problems[0])
            return [], own
        too_wide = [name for name in domain.names if domain.size(name) > self.max_cells]
        if too_wide:
            raise DomainTooLarge(
                f"The column {too_wide[0]!r} alone has {domain.size(too_wide[0]):,} codes; {self.name} measures "
                f"marginals of at most {self.max_cells:,} cells. Use coarser bins, or raise max_cells.",
                cells=domain.size(too_wide[0]),
                allowed=self.max_cells,
            )
        closure = workload_for(self.workload, domain).closure()
        found = small_first(domain, closure, limit=self.max_cells, most=20_000)
        if len(found) < self.per_round:
            raise BudgetError(
                f"per_round ({self.per_round}) must not exceed the number of marginals that may be measured "
                f"({len(found)}): those of the workload and their parts."
            )
        return found, []

    def _prices(self, accounting: Accounting, total: float, rounds: int) -> tuple[float, float]:
        """Return the cost of one measurement and of one choice."""
        each = accounting.split(total, [1.0] * (rounds * self.per_round))[0]
        measure, select = accounting.split(each, [self.measure_share, 1 - self.measure_share])
        return measure, select

    def _column_noises(self, accounting: Accounting, unit: Unit, cost: float, domain: Domain) -> list[Noise]:
        return noises(accounting, unit, cost, direct_weights(accounting, [1.0] * len(domain), domain.sizes))

    def _round_noise(
        self, accounting: Accounting, unit: Unit, cost: float, queries: Sequence[Query]
    ) -> Noise:
        """Return the noise of a measured marginal, or of the queries of one round."""
        if not queries:
            return noise_for(accounting, unit, cost)
        number = self.per_round
        power = 1.0 if accounting.name == "pure" else 0.5
        # the joint reach of several queries is at most that of as many unrelated ones
        return answer_noise(accounting, cost * number, reach_of(queries, unit) * number**power)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what is measured at first and how each round is priced."""
        domain = schema.domain
        cliques, queries = self._candidates(schema)
        accounting = self.accounting(budget)
        columns, rest = accounting.split(
            accounting.total(budget), [self.one_way_share, 1 - self.one_way_share]
        )
        rows = None if schema.row_count is None else float(schema.row_count)
        number = self._rounds(accounting, unit, rest, domain, rows)
        measure, _ = self._prices(accounting, rest, number)
        noise = self._round_noise(accounting, unit, measure, queries)
        names = [(name,) for name in domain.names]
        first = self._column_noises(accounting, unit, columns, domain)
        what = f"{len(queries)} queries" if queries else f"{len(cliques)} marginals"
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, list(zip(names, first, strict=True))),
            model_cells=self._parts() * sum(domain.sizes),
            notes=(
                f"Then {number} rounds that choose {self.per_round} of {what} each and measure with {noise.kind} noise "
                f"of scale {noise.scale:.4g} rows"
                + ("." if rows or self.rounds else "; more rounds on a table of more than 10,000 rows."),
                f"The model is a mixture of {self._parts()} parts with independent columns in each.",
            ),
        )

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        with threadpool_limits(1):  # the matrices are small: threads would mostly wait for each other
            return self._learn(curator, progress)

    def _learn(self, curator: Curator, progress: Progress) -> Fitted:
        domain, accounting = curator.domain, curator.accounting
        cliques, queries = self._candidates(curator.schema)
        progress("counting", 0.0)
        columns, _ = curator.split([self.one_way_share, 1 - self.one_way_share])
        state = self._first_look(curator, columns)
        number = self._rounds(accounting, curator.unit, curator.remaining, domain, state.rows)
        measure, select = self._prices(accounting, curator.remaining, number)
        epsilon = accounting.selection_epsilon(select)
        noise = self._round_noise(accounting, curator.unit, measure, queries)
        calm = self.calm * state.rows / noise.scale
        layout = Layout(domain)
        learner = self._learner(layout, _column_shares(domain, state.measurements))
        learner.fit(state.targets, state.rows, calm=calm, steps=self.steps)
        ask = (
            _Queries(curator, queries, noise, epsilon)
            if queries
            else _Marginals(
                curator, self._hopeful(domain, cliques, noise, state.rows), noise, epsilon, self.workload
            )
        )
        for turn in range(number):
            progress(f"round {turn + 1}", (turn + 1) / (number + _LAST_STEPS))
            ask.look(state, layout.split(learner.margins()), self.per_round)
            learner.fit(state.targets, state.rows, calm=calm, steps=self.steps)
        progress("final fit", number / (number + _LAST_STEPS))
        learner.fit(state.targets, state.rows, calm=calm, steps=_LAST_STEPS * self.steps)
        margins = layout.split(learner.margins())
        parts = np.full(self._parts(), state.rows / self._parts())
        model = ProductMixture(
            domain, parts, {name: np.asarray(m, np.float64) for name, m in margins.items()}
        )
        progress("done", 1.0)
        workload = None if queries else workload_for(self.workload, domain)
        return Fitted(model, state.measurements, workload=workload, statistics=state.statistics)

    def _first_look(self, curator: Curator, cost: float) -> _State:
        """Measure every column, and estimate the number of rows from that where it is private."""
        domain = curator.domain
        sealed = curator.counts_many([(name,) for name in domain.names])
        noise = self._column_noises(curator.accounting, curator.unit, cost, domain)
        measured = curator.measure_many(
            sealed, noise=noise, purpose=f"measure {len(domain)} one-way marginals"
        )
        rows = fixed_total(curator)
        if rows is None:
            weights = np.array([1.0 / (item.variance * item.values.size) for item in measured])
            sums = np.array([float(item.values.sum()) for item in measured])
            rows = max(1.0, float(np.dot(weights, sums) / weights.sum()))
        return _State(rows, [_target(item) for item in measured], list(measured))

    @staticmethod
    def _hopeful(domain: Domain, cliques: Sequence[Clique], noise: Noise, rows: float) -> list[Clique]:
        """Leave out marginals whose noise alone exceeds the largest possible error; by released values only."""
        limit = 2 * rows / expected_absolute_noise(noise)
        kept = [clique for clique in cliques if domain.cells(clique) <= limit]
        return kept or [min(cliques, key=domain.cells)]


class _Marginals:
    """Choices among marginals by the L1 error of the mixture less the noise a measurement would have."""

    def __init__(
        self,
        curator: Curator,
        cliques: Sequence[Clique],
        noise: Noise,
        epsilon: float,
        workload: Workload | None,
    ) -> None:
        self.curator, self.noise, self.epsilon = curator, noise, epsilon
        weights = workload_for(workload, curator.domain).closure_weights()
        self.sealed: dict[Clique, SealedCounts] = dict(
            zip(cliques, curator.counts_many(cliques), strict=True)
        )
        self.weights = {clique: weights[clique] for clique in cliques}

    def look(self, state: _State, margins: dict[str, Singles], number: int) -> None:
        """Choose and measure some marginals, none of them twice."""
        left = list(self.sealed)
        penalty = expected_absolute_noise(self.noise)
        answers = {clique: state.rows * shares(margins, clique) for clique in left}
        for _ in range(min(number, len(left))):
            scores: list[SealedScalar] = [
                self.sealed[clique]
                .l1_distance(answers[clique])
                .shifted(-penalty * answers[clique].size)
                .scaled(self.weights[clique])
                for clique in left
            ]
            index = self.curator.choose(scores, epsilon=self.epsilon, purpose="choose a marginal to measure")
            measured = self.curator.measure(self.sealed[left[index]], noise=self.noise)
            state.measurements.append(measured)
            state.targets.append(_target(measured))
            del left[index]


class _Queries:
    """Choices among linear queries by the error of the mixture."""

    def __init__(self, curator: Curator, queries: Sequence[Query], noise: Noise, epsilon: float) -> None:
        self.curator, self.noise, self.epsilon = curator, noise, epsilon
        self.queries = list(queries)
        self.sealed: SealedAnswers = seal_answers(curator, queries)

    def look(self, state: _State, margins: dict[str, Singles], number: int) -> None:
        """Choose some queries, none of them twice, and measure them together."""
        tables = {clique: shares(margins, clique) for clique in {query.clique for query in self.queries}}
        expected = [state.rows * query.answer(tables[query.clique]) for query in self.queries]
        scores = self.sealed.distances(expected)
        left, chosen = list(range(len(scores))), []
        for _ in range(number):
            index = self.curator.choose(
                [scores[place] for place in left], epsilon=self.epsilon, purpose="choose a query"
            )
            chosen.append(left.pop(index))
        values = measure_answers(
            self.curator, self.sealed, chosen, noise=self.noise, purpose=f"measure {len(chosen)} queries"
        )
        variance = self.noise.scale**2 * (2.0 if self.noise.kind == "laplace" else 1.0)
        state.targets += target_of_queries([self.queries[place] for place in chosen], values, variance)
        state.statistics.append(
            Statistic("answers to chosen queries", values, noise_name(self.noise), self.noise.scale)
        )


def _target(measurement: Measurement) -> Target:
    return Target(measurement.clique, measurement.values.ravel(), measurement.variance)


def _column_shares(domain: Domain, measurements: Sequence[Measurement]) -> dict[str, Floats]:
    """Return the margins of all columns as shares, cleaned of negative noise."""
    found = {name: np.full(size, 1.0 / size) for name, size in zip(domain.names, domain.sizes, strict=True)}
    for item in measurements:
        if len(item.clique) == 1:
            positive = np.maximum(item.values, 0.0) + 1e-3 * item.stddev
            found[item.clique[0]] = positive / positive.sum()
    return found
