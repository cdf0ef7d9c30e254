"""The loop that rap and gem share: choose what the mixture gets most wrong, measure it, fit the mixture again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from understudy.curator import Curator
from understudy.engine import ProductMixture
from understudy.errors import BudgetError
from understudy.marginals import Measurement, Query, QuerySource, Statistic, Workload
from understudy.mechanisms.allocation import (
    noises_by_size,
    require_cells,
    rows_noise,
    total_is_public,
    workload_for,
)
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer, planned, total_deviation
from understudy.mechanisms.options import at_least, one_of, refuse, unused
from understudy.mechanisms.options import shares as shares_of
from understudy.mechanisms.queries.asking import (
    TOTAL_SHARE,
    Cells,
    Marginals,
    Queries,
    above_noise,
    answer_noise,
    answer_variance,
    default_rounds,
    first_look,
    own_queries,
    plain_queries,
    query_count,
    reach_of,
    require_narrow,
    rows_of,
)
from understudy.mechanisms.queries.product import (
    CellTarget,
    Layout,
    Singles,
    Target,
    shares,
    target_of_cells,
    target_of_queries,
)
from understudy.mechanisms.rounds import MAX_CANDIDATE_CELLS, small_first
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Clique, Domain, Schema

Floats = npt.NDArray[np.float64]

LAST_STEPS = 4
"""The final fit makes this many times the steps of a round."""
PUBLISHED_ROUNDS, PUBLISHED_SHARE = 10, 0.5
"""Rounds of the published programs where none are asked for, and the share of a round that measures in their papers."""


class Learner(Protocol):
    """Parameters of a mixture that can be fitted to released answers."""

    def margins(self) -> Singles:
        """Return the margins of all parts, the columns side by side."""

    def fit(self, targets: Sequence[Target | CellTarget], rows: float, *, calm: float, steps: int) -> None:
        """Take some steps towards the released answers, ``calm`` times the information of the parts kept low."""


@dataclass
class _State:
    """What a fit has learnt so far; all of it released."""

    rows: float
    targets: list[Target | CellTarget]
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
    form: Literal["improved", "published"] = "improved"

    improvements: ClassVar[tuple[str, ...]] = (
        "queries",
        "one_way_share",
        "measure_share",
        "calm",
        "max_cells",
    )
    """Options that the published form has not."""
    _single_cells: ClassVar[bool] = False
    """Whether the published form measures cells by themselves instead of marginals."""

    def __post_init__(self) -> None:
        both = self.queries is not None and self.workload is not None
        pool = None if self.queries is None else query_count(self.queries, 0)
        refuse(
            at_least(self, 1, *self._counted(), optional=True),
            shares_of(self, "one_way_share", "measure_share"),
            at_least(self, 0, "calm"),
            one_of(self, "form", ("improved", "published")),
            unused(self, *self.improvements, because="form is published") if self._published else [],
            ["Give queries or a workload of marginals, not both."] if both else [],
            [] if pool is None else self._too_few(pool),
        )

    @property
    def _published(self) -> bool:
        return self.form == "published"

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
        if self._published:
            return PUBLISHED_ROUNDS
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
        if self._published:
            return self._published_candidates(domain), []
        require_narrow(domain, self.max_cells, does=f"{self.name} measures marginals of", option="max_cells")
        closure = workload_for(self.workload, domain).closure()
        found = small_first(domain, closure, limit=self.max_cells, most=20_000)
        if len(found) < self.per_round:
            raise BudgetError(
                f"per_round ({self.per_round}) must not exceed the number of marginals that may be measured "
                f"({len(found)}): those of the workload and their parts."
            )
        return found, []

    def _published_candidates(self, domain: Domain) -> list[Clique]:
        """Return the marginals of the workload, all of them and none of their parts."""
        found = [clique for clique, weight in workload_for(self.workload, domain) if weight > 0 and clique]
        cells = require_cells(domain, found, MAX_CANDIDATE_CELLS, method=self.name)
        most = cells if self._single_cells else len(found)
        if self.per_round > most:
            what = "cells of the workload" if self._single_cells else "marginals of the workload"
            raise BudgetError(f"per_round ({self.per_round}) must not exceed the number of {what} ({most}).")
        return found

    def _first_costs(
        self, schema: Schema, unit: Unit, accounting: Accounting, total: float
    ) -> tuple[float, float]:
        """Divide a cost between what comes first (columns, or the number of rows where it is private) and all rounds."""
        if not self._published:
            columns, rest = accounting.split(total, [self.one_way_share, 1 - self.one_way_share])
            return columns, rest
        if total_is_public(schema, unit):
            return 0.0, total
        return TOTAL_SHARE * total, (1 - TOTAL_SHARE) * total

    def _prices(self, accounting: Accounting, total: float, rounds: int) -> tuple[float, float]:
        """Return the cost of one measurement and of one choice."""
        share = PUBLISHED_SHARE if self._published else self.measure_share
        each = accounting.split(total, [1.0] * (rounds * self.per_round))[0]
        measure, select = accounting.split(each, [share, 1 - share])
        if self._published and self._single_cells:
            # the cells of a round are charged together, for a joint distance that is rounded up
            measure *= 1 - 2.0**-40
        return measure, select

    def _round_noise(
        self, accounting: Accounting, unit: Unit, cost: float, queries: Sequence[Query]
    ) -> Noise:
        """Return the noise of a measured marginal, of a cell, or of the queries of one round."""
        if self._published and self._single_cells:
            return answer_noise(accounting, cost, float(unit.max_rows))
        if not queries:
            return noise_for(accounting, unit, cost)
        number = self.per_round
        power = 1.0 if accounting.name == "pure" else 0.5
        # the joint reach of several queries is at most that of as many unrelated ones
        return answer_noise(accounting, cost * number, reach_of(queries, unit) * number**power)

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of a cell, or answer, if two are measured for each column."""
        _, queries = self._candidates(schema)
        _, rest = self._first_costs(schema, unit, accounting, cost)
        rounds = (
            self.rounds
            or (PUBLISHED_ROUNDS if self._published else 0)
            or max(1, 2 * len(schema.domain) // self.per_round)
        )
        measure, _ = self._prices(accounting, rest, rounds)
        return total_deviation([(1, self._round_noise(accounting, unit, measure, queries))])

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what is measured at first and how each round is priced."""
        domain = schema.domain
        cliques, queries = self._candidates(schema)
        accounting = self.accounting(budget, schema, unit)
        first, rest = self._first_costs(schema, unit, accounting, accounting.total(budget))
        rows = None if schema.row_count is None else float(schema.row_count)
        number = self._rounds(accounting, unit, rest, domain, rows)
        measure, _ = self._prices(accounting, rest, number)
        noise = self._round_noise(accounting, unit, measure, queries)
        design: list[tuple[Clique, Noise]] = []
        if self._published:
            design = [] if first == 0 else [((), rows_noise(accounting, unit, first))]
        else:
            noises = noises_by_size(accounting, unit, first, domain.sizes)
            design = [((name,), own) for name, own in zip(domain.names, noises, strict=True)]
        what = f"{len(queries)} queries" if queries else f"{len(cliques)} marginals"
        if self._published and self._single_cells:
            what = f"{sum(domain.cells(clique) for clique in cliques):,} cells of {what}"
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, design),
            model_cells=self._parts() * sum(domain.sizes),
            notes=(
                f"Then {number} rounds that choose {self.per_round} of {what} each and measure with {noise.kind} noise "
                f"of scale {noise.scale:.4g} rows"
                + (
                    "."
                    if rows or self.rounds or self._published
                    else "; more rounds on a table of more than 10,000 rows."
                ),
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
        state = self._first_look(curator)
        number = self._rounds(accounting, curator.unit, curator.remaining, domain, state.rows)
        measure, select = self._prices(accounting, curator.remaining, number)
        epsilon = accounting.selection_epsilon(select)
        noise = self._round_noise(accounting, curator.unit, measure, queries)
        calm = 0.0 if self._published else self.calm * state.rows / noise.scale
        layout = Layout(domain)
        learner = self._learner(layout, column_shares(domain, state.measurements))
        if state.targets:
            learner.fit(state.targets, state.rows, calm=calm, steps=self.steps)
        asking: Marginals | Queries | Cells
        if self._published and self._single_cells:
            asking = Cells(curator, cliques, noise, epsilon)
        elif self._published:
            asking = Marginals(curator, cliques, noise, epsilon, penalised=False)
        elif queries:
            asking = Queries(curator, queries, noise, epsilon)
        else:
            asking = self._marginals(curator, cliques, noise, epsilon, state.rows)
        for turn in range(number):
            progress(f"round {turn + 1}", (turn + 1) / (number + LAST_STEPS))
            self._look(asking, state, layout, learner.margins())
            learner.fit(state.targets, state.rows, calm=calm, steps=self.steps)
        progress("final fit", number / (number + LAST_STEPS))
        learner.fit(state.targets, state.rows, calm=calm, steps=LAST_STEPS * self.steps)
        model = mixture_of(domain, layout.split(learner.margins()), state.rows)
        progress("done", 1.0)
        workload = None if queries else workload_for(self.workload, domain)
        return Fitted(model, state.measurements, workload=workload, statistics=state.statistics)

    def _first_look(self, curator: Curator) -> _State:
        """Measure what comes before the first round: all columns, or in the published form the number of rows where it is private."""
        if self._published:
            rows, row_statistics = rows_of(curator)
            return _State(rows, [], [], row_statistics)
        columns, _ = curator.split([self.one_way_share, 1 - self.one_way_share])
        rows, measured = first_look(curator, columns)
        return _State(rows, [target_of(item) for item in measured], measured)

    def _marginals(
        self, curator: Curator, cliques: list[Clique], noise: Noise, epsilon: float, rows: float
    ) -> Marginals:
        """Seal the marginals that noise does not drown, or the smallest if it drowns all."""
        domain = curator.domain
        kept = above_noise(domain, cliques, noise, rows) or [min(cliques, key=domain.cells)]
        weights = workload_for(self.workload, domain).closure_weights()
        return Marginals(curator, kept, noise, epsilon, weights=weights)

    def _look(
        self, asking: Marginals | Queries | Cells, state: _State, layout: Layout, matrix: Singles
    ) -> None:
        """Choose and measure ``per_round`` marginals, queries or cells, none of them twice."""
        margins = layout.split(matrix)
        if isinstance(asking, Cells):
            counts = [state.rows * shares(margins, clique) for clique in asking.cliques]
            cells, values = asking.ask(counts, number=self.per_round)
            state.targets += target_of_cells(layout, cells, values, answer_variance(asking.noise))
            state.statistics.append(asking.statistic(values))
            return
        if isinstance(asking, Queries):
            tables = {clique: shares(margins, clique) for clique in {q.clique for q in asking.queries}}
            expected = [state.rows * query.answer(tables[query.clique]) for query in asking.queries]
            chosen, values = asking.ask(expected, number=self.per_round)
            asked = [asking.queries[place] for place in chosen]
            state.targets += target_of_queries(asked, values, answer_variance(asking.noise))
            state.statistics.append(asking.statistic(values))
            return
        answers = {clique: state.rows * shares(margins, clique) for clique in asking.sealed}
        for _ in range(min(self.per_round, len(answers))):
            measured = asking.ask(list(answers), list(answers.values()))
            state.measurements.append(measured)
            state.targets.append(target_of(measured))
            del answers[measured.clique]


def mixture_of(domain: Domain, margins: dict[str, Singles], rows: float) -> ProductMixture:
    """Return parts of equal weight as a distribution over so many rows."""
    number = len(next(iter(margins.values())))
    parts = np.full(number, rows / number)
    return ProductMixture(domain, parts, {name: np.asarray(m, np.float64) for name, m in margins.items()})


def target_of(measurement: Measurement) -> Target:
    """Return a measurement as what a mixture is fitted to."""
    return Target(measurement.clique, measurement.values.ravel(), measurement.variance)


def column_shares(domain: Domain, measurements: Sequence[Measurement]) -> dict[str, Floats]:
    """Return the margins of all columns as shares, cleaned of negative noise."""
    found = {name: np.full(size, 1.0 / size) for name, size in zip(domain.names, domain.sizes, strict=True)}
    for item in measurements:
        if len(item.clique) == 1:
            positive = np.maximum(item.values, 0.0) + 1e-3 * item.stddev
            found[item.clique[0]] = positive / positive.sum()
    return found
