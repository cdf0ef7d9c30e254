"""MWEM: multiplicative weights and the exponential mechanism (Hardt, Ligett and McSherry 2012)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.engine import DenseTable, ProductModel
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Query, QuerySource, random_boxes
from understudy.mechanisms.allocation import total_is_public
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer, total_deviation
from understudy.mechanisms.options import at_least, refuse, shares, unused
from understudy.mechanisms.queries.asking import (
    TOTAL_SHARE,
    Queries,
    answer_noise,
    fewer_than,
    own_queries,
    plain_queries,
    query_count,
    reach_of,
    require_narrow,
    rows_of,
)
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Unit
from understudy.schema import Clique, Domain, Schema

# ----------------------------------------------------------------------------------------
# Multiplicative weights over the cells of a few columns. Post-processing of released answers only.

Floats = npt.NDArray[np.float64]


class Factor:
    """A distribution over every cell of some columns, and the queries that speak of them.

    Weights are kept without normalisation: an update multiplies the cells of one query and changes their sum by
    a known amount, so that it costs as much as the query has cells.

    Parameters
    ----------
    domain
        The columns.
    queries
        Linear queries over them, counting or not.

    Examples
    --------
    >>> from understudy.marginals import prefix
    >>> domain = Domain(("a",), (4,))
    >>> part = Factor(domain, [prefix(domain, "a", 1)])
    >>> for _ in range(200):
    ...     part.learn(0, 0.9, updates=5)
    >>> bool(abs(part.answers()[0] - 0.9) < 0.01)
    True
    """

    def __init__(self, domain: Domain, queries: Sequence[Query]) -> None:
        self.domain = domain
        self.queries = list(queries)
        self._weights: Floats = np.full(domain.sizes, 1.0 / domain.cells())
        self._mass = 1.0
        self._sum = np.zeros(domain.sizes)
        self._learnt: dict[int, list[float]] = {}
        self._steps = 0
        self._groups = self._grouped()
        self._counting = [query.counting for query in self.queries]
        self._places: dict[int, tuple[slice, ...] | npt.NDArray[np.bool_]] = {}

    def _grouped(self) -> dict[Clique, tuple[npt.NDArray[np.int64], Floats]]:
        """Group queries by their columns: places, and one row of values each."""
        found: dict[Clique, list[int]] = {}
        for place, query in enumerate(self.queries):
            found.setdefault(query.clique, []).append(place)
        return {
            clique: (
                np.array(places, dtype=np.int64),
                np.stack([self.queries[place].values.ravel() for place in places]),
            )
            for clique, places in found.items()
        }

    def answers(self) -> Floats:
        """Return the answer of the distribution to each query, as a share of its mass."""
        estimates = np.zeros(len(self.queries))
        for clique, (places, rows) in self._groups.items():
            estimates[places] = rows @ self._marginal(clique).ravel()
        return estimates

    def _marginal(self, clique: Clique) -> Floats:
        keep = {self.domain.index(name) for name in clique}
        others = tuple(axis for axis in range(len(self.domain)) if axis not in keep)
        shares: Floats = self._weights.sum(axis=others) / self._mass
        return shares

    def learn(self, place: int, share: float, *, updates: int) -> None:
        """Take in a released answer and make some updates: this query first, then those that fit worst."""
        self._learnt.setdefault(place, []).append(share)
        self._update(place)
        known = list(self._learnt)
        estimates = np.array([float(np.mean(self._learnt[item])) for item in known])
        misfit = np.abs(self._answers_of(known) - estimates)
        for index in np.argsort(-misfit)[: updates - 1].tolist():
            if misfit[index] < 1e-4:
                break
            self._update(known[index])
        self._sum += self._weights / self._mass
        self._steps += 1

    def _answers_of(self, places: Sequence[int]) -> Floats:
        """Return the model's answers to a few queries; marginals they share are summed once."""
        tables: dict[Clique, Floats] = {}
        estimates = np.empty(len(places))
        for index, place in enumerate(places):
            query = self.queries[place]
            if query.clique not in tables:
                tables[query.clique] = self._marginal(query.clique)
            estimates[index] = query.answer(tables[query.clique])
        return estimates

    def _update(self, place: int) -> None:
        """Move the mass of one query half way towards its answer in log-odds: a damped multiplicative step."""
        target = float(np.mean(self._learnt[place]))
        if not self._counting[place]:
            self._tilt(place, target)
            return
        where = self._where(place)
        inside = float(self._weights[where].sum())
        share = min(1 - 1e-12, max(1e-12, inside / self._mass))
        wanted = min(1 - 1e-6, max(1e-6, target))
        step = 0.5 * (math.log(wanted / (1 - wanted)) - math.log(share / (1 - share)))
        factor = math.exp(min(4.0, max(-4.0, step)))
        self._weights[where] *= factor
        self._mass += inside * (factor - 1)
        self._rescale()

    def _tilt(self, place: int, target: float) -> None:
        """Make half a Newton step on the weight of a query whose values are not just 0 and 1."""
        query = self.queries[place]
        table = self._marginal(query.clique)
        share = query.answer(table)
        spread = float((table * np.square(query.values - share)).sum())
        step = min(4.0, max(-4.0, 0.5 * (target - share) / max(spread, 1e-6)))
        factors = np.exp(step * query.values)
        shape = [size if name in query.clique else 1 for name, size in _sides(self.domain)]
        self._weights *= factors.reshape(shape)
        self._mass *= float((table * factors).sum())
        self._rescale()

    def _rescale(self) -> None:
        if not 1e-100 < self._mass < 1e100:
            self._weights /= self._mass
            self._mass = 1.0

    def _where(self, place: int) -> tuple[slice, ...] | npt.NDArray[np.bool_]:
        """Return the cells of the whole factor that satisfy a query: a block where it is one, else a mask."""
        if place not in self._places:
            self._places[place] = _block(self.domain, self.queries[place])
        return self._places[place]

    def shares(self, *, average: bool) -> Floats:
        """Return the distribution: the last iterate, or the average of all of them."""
        if average and self._steps:
            return self._sum / self._steps
        last: Floats = self._weights / self._weights.sum()
        return last


def _sides(domain: Domain) -> list[tuple[str, int]]:
    return list(zip(domain.names, domain.sizes, strict=True))


def _block(domain: Domain, query: Query) -> tuple[slice, ...] | npt.NDArray[np.bool_]:
    """Return a query as slices if it is a box of runs, which is quick to read and write; else as a mask."""
    cells = query.values > 0
    runs: dict[str, slice] = {}
    product = np.ones((), dtype=np.bool_)
    for axis, name in enumerate(query.clique):
        others = tuple(other for other in range(cells.ndim) if other != axis)
        mask = cells.any(axis=others)
        product = np.logical_and.outer(product, mask)
        found = np.flatnonzero(mask)
        if len(found) and found[-1] - found[0] + 1 == len(found):
            runs[name] = slice(int(found[0]), int(found[-1]) + 1)
    if len(runs) == len(query.clique) and bool((product == cells).all()):
        return tuple(runs.get(name, slice(None)) for name in domain.names)
    shape = [size if name in query.clique else 1 for name, size in _sides(domain)]
    mask_all: npt.NDArray[np.bool_] = np.broadcast_to(cells.reshape(shape), domain.sizes).copy()
    return mask_all


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
        Questions of your own instead of a random pool: linear queries (:class:`~understudy.marginals.query.Query`), their
        plain descriptions (:func:`~understudy.marginals.query.read_queries`), or the name of a file of descriptions.
    measure_share
        Share of each iteration's cost that measures; the rest chooses.
    max_cells
        Most cells of one factor. Larger domains are divided into factors, runs of columns treated as independent
        of each other, and queries stay within a factor. With queries of your own the columns that they join form a
        factor.
    average
        Return the average of all iterates, as in the paper, instead of the last one.
    public_seed
        Seed of the pool of queries, which is public; privacy noise takes no seed.

    Privacy
    -------
    Queries do not depend on the records. Every record answers each with a number between 0 and 1. Each iteration chooses one by the exponential mechanism with score
    ``|answer - model's answer|``, whose sensitivity is that of an answer (:mod:`understudy.mechanisms.queries.look`), and
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
    source: ClassVar[Source] = Source(
        law="exponential mechanism for queries; Laplace or Gaussian on answers",
        papers={Paper.BIRTHS: "section 4.7.2", Paper.DIPS: "section 3.1.1"},
        origin="Hardt, Ligett and McSherry 2012",
    )

    num_query: int = 512
    num_iterations: int | None = None
    num_inner_updates: int = 25
    marginal: int = 3
    queries: QuerySource | None = None
    measure_share: float = 0.5
    max_cells: int = 4_000_000
    average: bool = False
    public_seed: int = 0

    def __post_init__(self) -> None:
        refuse(
            at_least(self, 1, "num_query", "num_inner_updates", "marginal", "max_cells"),
            at_least(self, 1, "num_iterations", optional=True),
            self._too_few(query_count(self.queries, self.num_query)),
            shares(self, "measure_share"),
            []
            if self.queries is None
            else unused(self, "num_query", "marginal", "public_seed", because="queries are given"),
        )

    def _too_few(self, pool: int | None) -> list[str]:
        return fewer_than(self.num_iterations, pool)

    def options(self) -> dict[str, Any]:
        """Return the options as plain values."""
        return super().options() | {"queries": plain_queries(self.queries)}

    # ------------------------------------------------------------------ public facts

    def _factors(self, domain: Domain, queries: Sequence[Query] = ()) -> list[Domain]:
        """Divide the columns into parts whose cells can be enumerated: joined by queries, or in runs."""
        require_narrow(domain, self.max_cells, does="mwem enumerates", option="max_cells")
        if queries:
            return self._joined(domain, queries)
        runs: list[list[str]] = []
        cells = self.max_cells + 1
        for name in domain.names:
            if cells * domain.size(name) > self.max_cells:
                runs.append([])
                cells = 1
            runs[-1].append(name)
            cells *= domain.size(name)
        return [domain.project(run) for run in runs]

    def _joined(self, domain: Domain, queries: Sequence[Query]) -> list[Domain]:
        """Return the sets of columns that queries join, each small enough to enumerate."""
        parts: list[set[str]] = [{name} for name in domain.names]
        for query in queries:
            touched = [part for part in parts if part & set(query.clique)]
            parts = [part for part in parts if part not in touched] + [set().union(*touched)]
        found = [domain.project(part) for part in parts]
        largest = max(found, key=lambda part: part.cells())
        if largest.cells() > self.max_cells:
            raise DomainTooLarge(
                f"Together the queries join {', '.join(largest.names)} into {float(largest.cells()):.3g} cells; mwem "
                f"enumerates at most {self.max_cells:,}. Ask about fewer columns, use coarser bins or raise max_cells, "
                "or use pep, rap or gem, which do not enumerate.",
                cells=largest.cells(),
                allowed=self.max_cells,
            )
        return sorted(found, key=lambda part: domain.index(part.names[0]))

    def _questions(self, schema: Schema) -> tuple[list[Domain], list[Query]]:
        """Return the factors and the pool: given, or random boxes, as many in a factor as it has columns of all."""
        domain = schema.domain
        if self.queries is not None:
            own = own_queries(schema, self.queries, self._too_few)
            return self._factors(domain, own), own
        factors = self._factors(domain)
        generator = np.random.default_rng(self.public_seed)
        shares = np.array([len(part) for part in factors]) / len(domain)
        numbers = np.diff(np.round(np.concatenate([[0], np.cumsum(shares)]) * self.num_query)).astype(int)
        return factors, [
            query
            for part, number in zip(factors, numbers.tolist(), strict=True)
            for query in random_boxes(part, number, order=self.marginal, generator=generator)
        ]

    def _iterations(
        self, accounting: Accounting, reach: float, total: float, rows: float | None, pool: int
    ) -> int:
        """Return how many iterations there are: as told, or as many as leave little noise on each answer."""
        if self.num_iterations is not None:
            return self.num_iterations
        best = 10
        for number in (10, 20, 50, 100, 200, 500, 1000):
            noise = answer_noise(accounting, total / number * self.measure_share, reach)
            if rows is not None and noise.scale <= 0.01 * rows:
                best = number
        return min(best, pool)

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of an answer, if as many are measured as there are columns."""
        _, pool = self._questions(schema)
        each = cost / (self.num_iterations or len(schema.domain)) * self.measure_share
        return total_deviation([(1, answer_noise(accounting, each, reach_of(pool, unit)))])

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how many queries will be measured, with which noise."""
        factors, pool = self._questions(schema)
        reach = reach_of(pool, unit)
        accounting = self.accounting(budget, schema, unit)
        known = total_is_public(schema, unit)
        total = accounting.total(budget) * (1.0 if known else 1 - TOTAL_SHARE)
        rows = None if schema.row_count is None else float(schema.row_count)
        number = self._iterations(accounting, reach, total, rows, len(pool))
        noise = answer_noise(accounting, total / number * self.measure_share, reach)
        notes = [
            f"{number} of {len(pool)} queries are measured with {noise.kind} noise of scale {noise.scale:.4g} rows each"
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
        domain, accounting = curator.domain, curator.accounting
        factors, pool = self._questions(curator.schema)
        progress("counting", 0.02)
        reach = reach_of(pool, curator.unit)
        rows, released = rows_of(curator)
        number = self._iterations(accounting, reach, curator.remaining, rows, len(pool))
        price = accounting.split(curator.remaining, [1.0] * number)[0]
        measure, select = accounting.split(price, [self.measure_share, 1 - self.measure_share])
        noise = answer_noise(accounting, measure, reach)
        asking = Queries(curator, pool, noise, accounting.selection_epsilon(select))
        parts = [Factor(part, [q for q in pool if set(q.clique) <= set(part.names)]) for part in factors]
        order = _places(pool, parts)
        answers: list[float] = []
        for iteration in range(number):
            progress("querying", 0.05 + 0.9 * iteration / number)
            expected = rows * np.concatenate([part.answers() for part in parts])[order]
            (chosen,), values = asking.ask(expected)
            value = float(values[0])
            answers.append(value)
            which, place = _home(chosen, order, parts)
            parts[which].learn(place, min(1.0, max(0.0, value / rows)), updates=self.num_inner_updates)
        released.append(asking.statistic(answers))
        tables = [DenseTable(part.domain, rows * part.shares(average=self.average)) for part in parts]
        progress("done", 1.0)
        model = tables[0] if len(tables) == 1 else ProductModel(domain, tuple(tables), rows)
        return Fitted(model, (), statistics=released)


def _places(pool: Sequence[Query], parts: Sequence[Factor]) -> npt.NDArray[np.int64]:
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
