"""The loop that rap and gem share: choose what the mixture gets most wrong, measure it, fit the mixture again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from understudy.curator import Curator
from understudy.engine import ProductMixture
from understudy.errors import BudgetError
from understudy.marginals import Measurement, Query, QuerySource, Statistic, Workload
from understudy.mechanisms.allocation import noises_by_size, workload_for
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer, planned, total_deviation
from understudy.mechanisms.options import at_least, refuse
from understudy.mechanisms.options import shares as shares_of
from understudy.mechanisms.queries.asking import (
    Marginals,
    Queries,
    above_noise,
    answer_noise,
    default_rounds,
    first_look,
    own_queries,
    plain_queries,
    query_count,
    reach_of,
    require_narrow,
)
from understudy.mechanisms.queries.product import Layout, Singles, Target, shares, target_of_queries
from understudy.mechanisms.rounds import small_first
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Clique, Domain, Schema

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
        both = self.queries is not None and self.workload is not None
        pool = None if self.queries is None else query_count(self.queries, 0)
        refuse(
            at_least(self, 1, *self._counted(), optional=True),
            shares_of(self, "one_way_share", "measure_share"),
            at_least(self, 0, "calm"),
            ["Give queries or a workload of marginals, not both."] if both else [],
            [] if pool is None else self._too_few(pool),
        )

    def _counted(self) -> tuple[str, ...]:
        """Return the options that are numbers of something."""
        return ("rounds", "per_round", "max_cells", "steps")

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
            return [], own_queries(schema, self.queries, self._too_few)
        require_narrow(domain, self.max_cells, does=f"{self.name} measures marginals of", option="max_cells")
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

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of a cell, or answer, if two are measured for each column."""
        _, queries = self._candidates(schema)
        _, rest = accounting.split(cost, [self.one_way_share, 1 - self.one_way_share])
        rounds = self.rounds or max(1, 2 * len(schema.domain) // self.per_round)
        measure, _ = self._prices(accounting, rest, rounds)
        return total_deviation([(1, self._round_noise(accounting, unit, measure, queries))])

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what is measured at first and how each round is priced."""
        domain = schema.domain
        cliques, queries = self._candidates(schema)
        accounting = self.accounting(budget, schema, unit)
        columns, rest = accounting.split(
            accounting.total(budget), [self.one_way_share, 1 - self.one_way_share]
        )
        rows = None if schema.row_count is None else float(schema.row_count)
        number = self._rounds(accounting, unit, rest, domain, rows)
        measure, _ = self._prices(accounting, rest, number)
        noise = self._round_noise(accounting, unit, measure, queries)
        names = [(name,) for name in domain.names]
        first = noises_by_size(accounting, unit, columns, domain.sizes)
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
        rows, measured = first_look(curator, columns)
        state = _State(rows, [_target(item) for item in measured], measured)
        number = self._rounds(accounting, curator.unit, curator.remaining, domain, state.rows)
        measure, select = self._prices(accounting, curator.remaining, number)
        epsilon = accounting.selection_epsilon(select)
        noise = self._round_noise(accounting, curator.unit, measure, queries)
        calm = self.calm * state.rows / noise.scale
        layout = Layout(domain)
        learner = self._learner(layout, _column_shares(domain, state.measurements))
        learner.fit(state.targets, state.rows, calm=calm, steps=self.steps)
        asking: Marginals | Queries = (
            Queries(curator, queries, noise, epsilon)
            if queries
            else (self._marginals(curator, cliques, noise, epsilon, state.rows))
        )
        for turn in range(number):
            progress(f"round {turn + 1}", (turn + 1) / (number + _LAST_STEPS))
            self._look(asking, state, layout.split(learner.margins()))
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

    def _marginals(
        self, curator: Curator, cliques: list[Clique], noise: Noise, epsilon: float, rows: float
    ) -> Marginals:
        """Seal the marginals that noise does not drown, or the smallest if it drowns all."""
        domain = curator.domain
        kept = above_noise(domain, cliques, noise, rows) or [min(cliques, key=domain.cells)]
        weights = workload_for(self.workload, domain).closure_weights()
        return Marginals(curator, kept, noise, epsilon, weights=weights)

    def _look(self, asking: Marginals | Queries, state: _State, margins: dict[str, Singles]) -> None:
        """Choose and measure ``per_round`` marginals, or queries, none of them twice."""
        if isinstance(asking, Queries):
            tables = {clique: shares(margins, clique) for clique in {q.clique for q in asking.queries}}
            expected = [state.rows * query.answer(tables[query.clique]) for query in asking.queries]
            chosen, values = asking.ask(expected, number=self.per_round)
            told = [asking.queries[place] for place in chosen]
            state.targets += target_of_queries(told, values, asking.variance)
            state.statistics.append(asking.statistic(values))
            return
        answers = {clique: state.rows * shares(margins, clique) for clique in asking.sealed}
        for _ in range(min(self.per_round, len(answers))):
            measured = asking.ask(list(answers), list(answers.values()))
            state.measurements.append(measured)
            state.targets.append(_target(measured))
            del answers[measured.clique]


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
