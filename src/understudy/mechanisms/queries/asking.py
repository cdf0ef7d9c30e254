"""What the query-driven mechanisms ask: all columns first, then the marginals or the queries that are answered worst."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.engine.graphical.targets import estimate_total
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Measurement, Predicate, Query, QuerySource, Statistic, read_queries
from understudy.mechanisms.allocation import noises_by_size, rows_noise
from understudy.mechanisms.options import refuse
from understudy.mechanisms.queries.look import choose_cells, measure_answers, seal_answers
from understudy.mechanisms.rounds import expected_absolute_noise, measure_worst
from understudy.privacy import Accounting, Noise, Unit, noise_for
from understudy.privacy.noise.noise import noise_within
from understudy.schema import Clique, Domain, Schema

# ----------------------------------------------------------------------------------------
# What the query-driven mechanisms share: the questions they may ask, and the number of rows.

TOTAL_SHARE = 0.02
"""Share of the budget that measures the number of rows when it is private."""


def own_queries(
    schema: Schema, source: QuerySource, too_few: Callable[[int], list[str]] = lambda _: []
) -> list[Query]:
    """Return the questions a user gave, checked against the schema; refuse those that no record can change.

    ``too_few`` says what is wrong with so many of them.
    """
    queries = read_queries(schema, source)
    if not any(query.reach > 0 for query in queries):
        raise BudgetError("Every query is zero for every record: there is nothing to learn from them.")
    refuse(too_few(len(queries)))
    return queries


def fewer_than(iterations: int | None, pool: int | None) -> list[str]:
    """Find fewer queries than iterations, which paper Births (4.7.2) excludes too; what is not known is not wrong."""
    if iterations is None or pool is None or iterations <= pool:
        return []
    return [
        f"num_query ({pool}) must not be smaller than num_iterations ({iterations}): some iterations would "
        "pay to ask again what is known already. Use more queries or fewer iterations."
    ]


def require_narrow(domain: Domain, allowed: int, *, does: str, option: str) -> None:
    """Refuse a column that has by itself more cells than a mechanism can hold."""
    for name, size in zip(domain.names, domain.sizes, strict=True):
        if size > allowed:
            raise DomainTooLarge(
                f"The column {name!r} alone has {size:,} codes; {does} at most {allowed:,} cells. Use coarser bins, or "
                f"raise {option}.",
                cells=size,
                allowed=allowed,
            )


def plain_queries(source: QuerySource | None) -> Any:
    """Return queries as plain values for a model file."""
    if source is None or isinstance(source, str | Path):
        return None if source is None else str(source)
    return [dict(item) if isinstance(item, Mapping) else item.to_plain() for item in source]


def query_count(source: QuerySource | None, otherwise: int) -> int | None:
    """Return how many queries there are, as far as it can be told without the schema."""
    if source is None:
        return otherwise
    if isinstance(source, str | Path) or any(isinstance(item, Mapping) for item in source):
        return None
    return len(source)


def answer_noise(accounting: Accounting, cost: float, sensitivity: float) -> Noise:
    """Return the noise on one answer that costs at most ``cost``: Laplace if pure, Gaussian otherwise."""
    return noise_within(accounting, cost, l1=sensitivity, l2=sensitivity)


def rows_of(curator: Curator) -> tuple[float, list[Statistic]]:
    """Return the number of rows to scale answers with: known, or measured with a small share of the budget.

    Privacy
    -------
    In: private. Out: releasable. One unit moves the number of rows by at most its ``max_rows``.
    """
    known = curator.rows.total
    if known is not None:
        return known, []
    noise = rows_noise(curator.accounting, curator.unit, curator.remaining * TOTAL_SHARE)
    rows_measured = curator.measure(curator.counts(()), noise=noise, purpose="measure the number of rows")
    return max(1.0, float(rows_measured.values)), [
        Statistic("number of rows", rows_measured.values, noise.kind, noise.scale)
    ]


def reach_of(queries: Sequence[Query], unit: Unit) -> float:
    """Return the most that one unit can move any of the answers, in rows."""
    return float(unit.max_rows * max(query.reach for query in queries))


def default_rounds(accounting: Accounting, unit: Unit, total: float, columns: int, rows: float | None) -> int:
    """Return how many marginals to measure: more the smaller the noise is beside the number of rows.

    One marginal measured with the whole cost would have noise of some scale. Rounds per column grow with the square root
    of rows over scale, or with the cube root for Laplace noise, whose scale grows faster with the number of rounds. The
    rule was found on tables that are not among the benchmarks of paper AIM. An unknown number of rows counts as 10,000.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import PURE
    >>> [default_rounds(PURE, Unit.add_remove(), epsilon, 10, 50_000.0) for epsilon in (0.01, 1.0, 100.0)]
    [5, 15, 60]
    """
    clear = (10_000.0 if rows is None else rows) / noise_for(accounting, unit, total).scale / 1_700
    per_column = 0.5 * clear ** (1 / 3) if accounting.name == "pure" else clear**0.5
    return max(1, round(columns * min(6.0, max(0.5, float(per_column)))))


Floats = npt.NDArray[np.float64]


def first_look(curator: Curator, cost: float) -> tuple[float, list[Measurement]]:
    """Measure every column; return the number of rows, estimated from that where it is private, and what was measured.

    Privacy
    -------
    In: private. Out: releasable. All one-way marginals are charged together, before the first is drawn.
    """
    domain = curator.domain
    measured = curator.measure_many(
        curator.counts_many([(name,) for name in domain.names]),
        noise=noises_by_size(curator.accounting, curator.unit, cost, domain.sizes),
        purpose=f"measure {len(domain)} one-way marginals",
    )
    rows = curator.rows.total
    return estimate_total(measured) if rows is None else rows, measured


def above_noise(domain: Domain, cliques: Sequence[Clique], noise: Noise, rows: float) -> list[Clique]:
    """Leave out marginals whose noise alone exceeds the largest possible error; by released values only.

    Examples
    --------
    >>> from understudy.privacy import Laplace
    >>> domain = Domain(("a", "b"), (2, 30))
    >>> above_noise(domain, [("a",), ("a", "b")], Laplace(10.0), 100.0)
    [('a',)]
    """
    limit = 2 * rows / expected_absolute_noise(noise)
    return [clique for clique in cliques if domain.cells(clique) <= limit]


def answer_variance(noise: Noise) -> float:
    """Return the variance of the noise of an answer, in rows; positive however small the scale is."""
    return noise.scale**2 * (2.0 if noise.kind == "laplace" else 1.0)


class Marginals:
    """Marginals under seal, chosen by the L1 error of a model, less the noise that a measurement would have if ``penalised``."""

    def __init__(
        self,
        curator: Curator,
        cliques: Sequence[Clique],
        noise: Noise,
        epsilon: float,
        *,
        weights: Mapping[Clique, float] | None = None,
        penalised: bool = True,
    ) -> None:
        self.curator, self.noise, self.epsilon, self.weights = curator, noise, epsilon, weights
        self.penalty = expected_absolute_noise(noise) if penalised else 0.0
        self.sealed = dict(zip(cliques, curator.counts_many(cliques), strict=True))

    def ask(self, candidates: Sequence[Clique], answers: Sequence[Floats]) -> Measurement:
        """Choose one of the candidates, given the model's answers to them, and measure it."""
        return measure_worst(
            self.curator,
            self.sealed,
            candidates,
            answers,
            noise=self.noise,
            epsilon=self.epsilon,
            penalty=self.penalty,
            weights=self.weights,
        ).measurement


class Queries:
    """Linear queries under seal, chosen by the error of a model's answers."""

    def __init__(self, curator: Curator, queries: Sequence[Query], noise: Noise, epsilon: float) -> None:
        self.curator, self.noise, self.epsilon = curator, noise, epsilon
        self.queries = list(queries)
        self.sealed = seal_answers(curator, queries)

    def ask(
        self, expected: npt.ArrayLike, *, among: Sequence[int] | None = None, number: int = 1
    ) -> tuple[list[int], Floats]:
        """Choose some queries, none of them twice, given the model's answers to all of them, and measure them together.

        Parameters
        ----------
        among
            Places that may be chosen; all by default.

        Returns
        -------
        tuple
            The places that were chosen, and the noisy answers.
        """
        scores = self.sealed.distances(expected)
        left = list(range(len(scores)) if among is None else among)
        chosen = []
        for _ in range(number):
            index = self.curator.choose(
                [scores[place] for place in left], epsilon=self.epsilon, purpose="choose a query"
            )
            chosen.append(left.pop(index))
        what = "a query" if number == 1 else f"{number} queries"
        values = measure_answers(
            self.curator, self.sealed, chosen, noise=self.noise, purpose=f"measure {what}"
        )
        return chosen, values

    def statistic(self, values: npt.ArrayLike) -> Statistic:
        """Return answers as they are kept in a model file."""
        return Statistic("answers to chosen queries", np.asarray(values), self.noise.kind, self.noise.scale)


class Cells:
    """Single cells of marginals under seal, chosen by the error of a model, none of them twice in a fit."""

    def __init__(self, curator: Curator, cliques: Sequence[Clique], noise: Noise, epsilon: float) -> None:
        self.curator, self.noise, self.epsilon = curator, noise, epsilon
        self.cliques = list(cliques)
        self.sealed = curator.counts_many(self.cliques)
        self.chosen: list[tuple[int, int]] = []

    def ask(
        self, answers: Sequence[Floats], *, number: int
    ) -> tuple[list[tuple[Clique, tuple[int, ...]]], Floats]:
        """Choose some cells, given the model's counts for every marginal, and measure them together.

        Returns
        -------
        tuple
            Columns and codes of each cell, and the noisy counts.
        """
        found = choose_cells(
            self.curator,
            self.sealed,
            answers,
            epsilon=self.epsilon,
            number=number,
            without=self.chosen,
            purpose="choose a cell",
        )
        self.chosen += found
        cells: list[tuple[Clique, tuple[int, ...]]] = []
        queries: list[Query] = []
        for table, cell in found:
            clique = self.cliques[table]
            shape = self.curator.domain.shape(clique)
            inside = np.zeros(shape, dtype=bool)
            inside.flat[cell] = True
            cells.append((clique, tuple(int(code) for code in np.unravel_index(cell, shape))))
            queries.append(Predicate(clique, inside))
        if not queries:
            return [], np.zeros(0)
        values = measure_answers(
            self.curator,
            seal_answers(self.curator, queries),
            list(range(len(queries))),
            noise=self.noise,
            purpose=f"measure {len(queries)} cells",
        )
        return cells, values

    def statistic(self, values: npt.ArrayLike) -> Statistic:
        """Return answers as they are kept in a model file."""
        return Statistic("counts of chosen cells", np.asarray(values), self.noise.kind, self.noise.scale)
