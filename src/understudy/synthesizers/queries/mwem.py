"""MWEM: multiplicative weights and the exponential mechanism (Hardt, Ligett and McSherry 2012)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Noise, measure_answer, seal_answers
from understudy.engine import DenseTable, ProductModel
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Predicate, Statistic, StatisticNoise, random_boxes
from understudy.privacy import Accounting, Budget, Gaussian, Laplace, Unit
from understudy.schema import Domain, Schema
from understudy.synthesizers._allocation import total_is_public
from understudy.synthesizers.base import Fitted, Plan, Progress, Synthesizer, fixed_total
from understudy.synthesizers.queries._weights import Factor

Floats = npt.NDArray[np.float64]

_TOTAL_SHARE = 0.02
"""Share of the budget that measures the number of rows when it is private."""


@dataclass(frozen=True, kw_only=True)
class MWEM(Synthesizer):
    """Ask random counting queries; measure the one the model gets most wrong; reweigh the cells; repeat.

    Parameters
    ----------
    num_query
        Size of the pool of random queries: boxes over ``marginal`` columns with a random run of codes each.
    num_iterations
        How many queries are chosen and measured; by default as many as leave each answer noise of at most a
        hundredth of the rows, at least 10 and at most the size of the pool.
    num_inner_updates
        Multiplicative updates after each measurement: the newest one, then those that fit worst.
    marginal
        How many columns a query speaks of.
    queries
        Questions of your own instead of a random pool.
    measure_share
        Share of each iteration's cost that measures; the rest chooses.
    max_cells
        Most cells of one factor. Larger domains are divided into factors, runs of columns treated as independent
        of each other, and queries stay within a factor.
    average
        Return the average of all iterates, as in the paper, instead of the last one.
    public_seed
        Seed of the pool of queries, which is public; privacy noise takes no seed.

    Privacy
    -------
    Queries do not depend on the records. Each iteration chooses one by the exponential mechanism with score
    ``|answer - model's answer|``, whose sensitivity is that of an answer (:mod:`understudy.curator.predicates`), and
    measures it with whole-number noise. The same query may be chosen again: it is paid for again. The number of
    rows, where private, is measured first. Iterations have equal prices fixed in advance that add up to the
    budget; the weights are updated from released answers only.

    Examples
    --------
    >>> MWEM(num_query=512, num_iterations=100).name
    'mwem'
    """

    name: ClassVar[str] = "mwem"
    summary: ClassVar[str] = "multiplicative weights on random counting queries, worst first"

    num_query: int = 512
    num_iterations: int | None = None
    num_inner_updates: int = 25
    marginal: int = 3
    queries: Sequence[Predicate] | None = None
    measure_share: float = 0.5
    max_cells: int = 4_000_000
    average: bool = False
    public_seed: int = 0

    def __post_init__(self) -> None:
        problems = [
            f"{name} ({value}) must be at least 1."
            for name, value in (
                ("num_query", self.num_query),
                ("num_inner_updates", self.num_inner_updates),
                ("marginal", self.marginal),
                ("max_cells", self.max_cells),
            )
            if value < 1
        ]
        if self.num_iterations is not None and self.num_iterations < 1:
            problems.append(f"num_iterations ({self.num_iterations}) must be at least 1.")
        if self.num_iterations is not None and self.num_iterations > self._pool:
            problems.append(
                f"num_query ({self._pool}) must not be smaller than num_iterations ({self.num_iterations}): most "
                "iterations would ask again what is known already."
            )
        if not 0 < self.measure_share < 1:
            problems.append(f"measure_share ({self.measure_share}) must lie between 0 and 1.")
        if problems:
            raise BudgetError(" ".join(problems))

    @property
    def _pool(self) -> int:
        return self.num_query if self.queries is None else len(self.queries)

    # ------------------------------------------------------------------ public facts

    def _factors(self, domain: Domain) -> list[Domain]:
        """Divide the columns into runs whose cells can be enumerated."""
        runs: list[list[str]] = []
        cells = self.max_cells + 1
        for name in domain.names:
            if domain.size(name) > self.max_cells:
                raise DomainTooLarge(
                    f"The column {name!r} alone has {domain.size(name):,} codes; mwem enumerates at most "
                    f"{self.max_cells:,} cells. Use coarser bins, or raise max_cells.",
                    cells=domain.size(name),
                    allowed=self.max_cells,
                )
            if cells * domain.size(name) > self.max_cells:
                runs.append([])
                cells = 1
            runs[-1].append(name)
            cells *= domain.size(name)
        return [Domain(tuple(run), tuple(domain.size(name) for name in run)) for run in runs]

    def _questions(self, domain: Domain) -> list[Predicate]:
        """Return the pool: given, or random boxes, as many in a factor as it has columns of all."""
        factors = self._factors(domain)
        if self.queries is not None:
            for query in self.queries:
                query.check(domain)
                if not any(set(query.clique) <= set(part.names) for part in factors):
                    raise DomainTooLarge(
                        f"A query over {', '.join(query.clique)} crosses factors of {self.max_cells:,} cells. Put its "
                        "columns side by side in the schema, or raise max_cells.",
                        cells=domain.cells(query.clique),
                        allowed=self.max_cells,
                    )
            return list(self.queries)
        generator = np.random.default_rng(self.public_seed)
        shares = np.array([len(part) for part in factors]) / len(domain)
        numbers = np.diff(np.round(np.concatenate([[0], np.cumsum(shares)]) * self.num_query)).astype(int)
        return [
            query
            for part, number in zip(factors, numbers.tolist(), strict=True)
            for query in random_boxes(part, number, order=self.marginal, generator=generator)
        ]

    def _iterations(self, accounting: Accounting, unit: Unit, total: float, rows: float | None) -> int:
        """Return how many iterations there are: as told, or as many as leave little noise on each answer."""
        if self.num_iterations is not None:
            return self.num_iterations
        best = 10
        for number in (10, 20, 50, 100, 200, 500, 1000):
            noise = self._noise(accounting, unit, total / number * self.measure_share)
            if rows is not None and noise.scale <= 0.01 * rows:
                best = number
        return min(best, self._pool)

    @staticmethod
    def _noise(accounting: Accounting, unit: Unit, cost: float) -> Noise:
        if accounting.name == "pure":
            return Laplace(accounting.laplace_scale(cost, float(unit.max_rows)))
        return Gaussian(accounting.gaussian_sigma(cost, float(unit.max_rows)))

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how many queries will be measured, with which noise."""
        factors = self._factors(schema.domain)
        self._questions(schema.domain)
        accounting = self.accounting(budget)
        known = total_is_public(schema, unit)
        total = accounting.total(budget) * (1.0 if known else 1 - _TOTAL_SHARE)
        rows = None if schema.row_count is None else float(schema.row_count)
        number = self._iterations(accounting, unit, total, rows)
        noise = self._noise(accounting, unit, total / number * self.measure_share)
        notes = [
            f"{number} of {self._pool} counting queries are measured with {noise.kind} noise of scale "
            f"{noise.scale:.4g} rows each"
            + ("." if rows or self.num_iterations else "; more if the table is long.")
        ]
        if len(factors) > 1:
            notes.append(
                f"The domain is divided into {len(factors)} factors that are treated as independent of each other: "
                + "; ".join(", ".join(part.names) for part in factors)
            )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(),
            model_cells=sum(part.cells() for part in factors),
            notes=tuple(notes),
        )

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        domain, unit, accounting = curator.domain, curator.unit, curator.accounting
        pool = self._questions(domain)
        progress("counting", 0.02)
        sealed = seal_answers(curator, pool)
        released: list[Statistic] = []
        rows = fixed_total(curator)
        if rows is None:
            noise = self._noise(accounting, unit, curator.remaining * _TOTAL_SHARE)
            told = curator.measure(curator.counts(()), noise=noise, purpose="measure the number of rows")
            rows = max(1.0, float(told.values))
            released.append(Statistic("number of rows", told.values, _kind(noise), noise.scale))
        number = self._iterations(accounting, unit, curator.remaining, rows)
        price = accounting.split(curator.remaining, [1.0] * number)[0]
        measure, select = accounting.split(price, [self.measure_share, 1 - self.measure_share])
        noise = self._noise(accounting, unit, measure)
        epsilon = accounting.selection_epsilon(select)
        parts = [
            Factor(part, [q for q in pool if set(q.clique) <= set(part.names)])
            for part in self._factors(domain)
        ]
        order = _places(pool, parts)
        answers: list[float] = []
        for iteration in range(number):
            progress("querying", 0.05 + 0.9 * iteration / number)
            expected = rows * np.concatenate([part.answers() for part in parts])[order]
            chosen = curator.choose(sealed.distances(expected), epsilon=epsilon, purpose="choose a query")
            value = measure_answer(curator, sealed, chosen, noise=noise, purpose="measure a query")
            answers.append(value)
            which, place = _home(chosen, order, parts)
            parts[which].learn(place, min(1.0, max(0.0, value / rows)), updates=self.num_inner_updates)
        released.append(Statistic("answers to chosen queries", np.array(answers), _kind(noise), noise.scale))
        tables = [DenseTable(part.domain, rows * part.shares(average=self.average)) for part in parts]
        progress("done", 1.0)
        model = tables[0] if len(tables) == 1 else ProductModel(domain, tuple(tables), rows)
        return Fitted(model, (), statistics=released)


def _kind(noise: Noise) -> StatisticNoise:
    return "laplace" if isinstance(noise, Laplace) else "gaussian"


def _places(pool: Sequence[Predicate], parts: Sequence[Factor]) -> npt.NDArray[np.int64]:
    """Return where each query of the pool stands in the answers of all factors, one after another."""
    at = {id(query): place for place, query in enumerate(q for part in parts for q in part.queries)}
    return np.array([at[id(query)] for query in pool], dtype=np.int64)


def _home(chosen: int, order: npt.NDArray[np.int64], parts: Sequence[Factor]) -> tuple[int, int]:
    """Return the factor of a query of the pool, and its place there."""
    place = int(order[chosen])
    for which, part in enumerate(parts):
        if place < len(part.queries):
            return which, place
        place -= len(part.queries)
    raise BudgetError("There is no such query.")
