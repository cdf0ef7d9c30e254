"""PrivMRF: a Markov random field on a graph learnt from noisy dependences (Cai et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from understudy.curator import Curator, SealedCounts
from understudy.engine import GraphicalModel, estimate
from understudy.engine.graphical.junction import order_of, triangulate
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
from understudy.mechanisms.graphs.look import gap_noises, measure_gaps
from understudy.mechanisms.options import at_least, positive, refuse
from understudy.mechanisms.rounds import measure_worst, require_columns, small_first
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Clique, Domain, Schema

# ----------------------------------------------------------------------------------------
# The attribute graph of PrivMRF, its maximal cliques, and the marginals to start from. Public inputs only.

Scores = Mapping[frozenset[str], float]
"""Noisy dependence of pairs of columns: total variation distance from independence, by pair."""


@dataclass(frozen=True)
class AttributeGraph:
    """A chordal graph of columns, given by its maximal cliques.

    Attributes
    ----------
    domain
        The columns.
    cliques
        The maximal cliques, in the order of the domain.
    """

    domain: Domain
    cliques: tuple[Clique, ...]

    @property
    def cells(self) -> int:
        """Cells of all maximal cliques together: the largest model that marginals inside them can need."""
        return sum(self.domain.cells(clique) for clique in self.cliques)

    def joined(self, left: str, right: str) -> bool:
        """Say whether an edge joins two columns."""
        return any(left in clique and right in clique for clique in self.cliques)


def build_graph(
    domain: Domain,
    scores: Scores,
    *,
    fixed: Sequence[Clique] = (),
    max_clique_cells: int,
    max_cells: int,
) -> AttributeGraph:
    """Add edges between columns, strongest dependence first, while the triangulated graph stays small.

    After each edge the graph is triangulated. The edge stays if no maximal clique has more than ``max_clique_cells`` cells
    and all of them have at most ``max_cells`` together; edges that triangulation adds come with it. Pairs whose
    noisy dependence is not positive are never added for their own sake.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c"), (2, 3, 4))
    >>> scores = {frozenset("ab"): 0.5, frozenset("bc"): 0.4, frozenset("ac"): 0.1}
    >>> build_graph(domain, scores, max_clique_cells=12, max_cells=100).cliques
    (('a', 'b'), ('b', 'c'))
    >>> build_graph(domain, scores, max_clique_cells=100, max_cells=100).cliques
    (('a', 'b', 'c'),)
    """
    graph = _triangulated(domain, list(fixed))
    for pair in sorted(scores, key=lambda item: (-scores[item], sorted(item))):
        if not scores[pair] > 0:
            break
        left, right = domain.canonical(pair)
        if graph.joined(left, right):
            continue
        larger = _triangulated(domain, [*graph.cliques, (left, right)])
        widest = max(domain.cells(clique) for clique in larger.cliques)
        if larger.cells <= max_cells and widest <= max(max_clique_cells, _widest(domain, fixed)):
            graph = larger
    return graph


def _widest(domain: Domain, fixed: Sequence[Clique]) -> int:
    return max([*domain.sizes, *(domain.cells(clique) for clique in fixed)])


def _triangulated(domain: Domain, cliques: Sequence[Clique]) -> AttributeGraph:
    order = order_of(domain)
    bags = triangulate(order.sizes, [order.columns(clique) for clique in cliques]).bags
    found = [order.clique(bag) for bag in bags]
    return AttributeGraph(
        domain, tuple(sorted(found, key=lambda clique: [domain.index(name) for name in clique]))
    )


def starting_marginals(
    graph: AttributeGraph, scores: Scores, *, useful_cells: float, max_order: int
) -> list[Clique]:
    """Return marginals that cover all columns: each column with the columns that tell most about it.

    A column's companions come from one maximal clique, are added one by one while the merit
    ``sum r(column, companion) / sqrt(number + sum r(companions))`` grows (correlation-based feature selection: companions
    that say the same are worth less), and the marginal keeps at most ``useful_cells`` cells. Marginals inside others
    are left out. A column without such a marginal stands alone, whatever its size.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c"), (2, 3, 40))
    >>> scores = {frozenset("ab"): 0.5, frozenset("bc"): 0.4, frozenset("ac"): 0.1}
    >>> graph = AttributeGraph(domain, (("a", "b", "c"),))
    >>> starting_marginals(graph, scores, useful_cells=50, max_order=3)
    [('a', 'b'), ('c',)]
    """
    domain = graph.domain
    best: dict[Clique, None] = {}
    for name in domain.names:
        merit = 0.0
        chosen: Clique = (name,)
        for clique in graph.cliques:
            if name in clique:
                value, found = _companions(domain, name, clique, scores, useful_cells, max_order)
                if value > merit:
                    merit, chosen = value, found
        best[domain.canonical(chosen)] = None
    kept = [
        clique for clique in best if not any(set(clique) < set(other) for other in best if other != clique)
    ]
    return sorted(kept, key=lambda clique: [domain.index(name) for name in clique])


def _companions(
    domain: Domain, name: str, clique: Clique, scores: Scores, useful_cells: float, max_order: int
) -> tuple[float, Clique]:
    """Grow the best set of companions for a column inside one maximal clique."""
    chosen: list[str] = []
    merit = 0.0
    while len(chosen) + 1 < max_order:
        options = [
            (_merit(name, [*chosen, other], scores), other)
            for other in clique
            if other != name and other not in chosen and domain.cells((name, *chosen, other)) <= useful_cells
        ]
        if not options:
            break
        value, other = max(options, key=lambda item: (item[0], -domain.index(item[1])))
        if value <= merit:
            break
        merit = value
        chosen.append(other)
    return merit, (name, *chosen)


def _merit(name: str, companions: Sequence[str], scores: Scores) -> float:
    gain = sum(scores.get(frozenset((name, other)), 0.0) for other in companions)
    overlap = sum(scores.get(frozenset(pair), 0.0) for pair in combinations(companions, 2))
    return float(gain / np.sqrt(max(1.0, len(companions) + overlap)))


def candidate_marginals(
    graph: AttributeGraph, *, useful_cells: float, max_order: int, most: int
) -> list[Clique]:
    """Return the marginals inside maximal cliques that noise does not drown: few columns and few cells first.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c"), (2, 3, 4))
    >>> graph = AttributeGraph(domain, (("a", "b"), ("b", "c")))
    >>> candidate_marginals(graph, useful_cells=6, max_order=2, most=9)
    [('a',), ('b',), ('c',), ('a', 'b')]
    """
    domain = graph.domain
    found: dict[Clique, None] = {(name,): None for name in domain.names}
    for order in range(2, max_order + 1):
        for clique in graph.cliques:
            for part in combinations(clique, order):
                if len(found) > 20 * most:
                    break
                if domain.cells(part) <= useful_cells:
                    found[part] = None
    limit = max(useful_cells, max(domain.sizes))
    return small_first(domain, list(found), limit=limit, most=most)


@dataclass(frozen=True)
class _Prices:
    """How a cost is divided: the number of rows, dependences, choices together, and each marginal."""

    rows: float
    gaps: float
    choose: float
    marginal: float


@dataclass(frozen=True, kw_only=True)
class PrivMRF(Synthesizer):
    """Learn which columns depend on each other, and measure marginals inside the cliques of that graph.

    Noisy pairwise dependences (the R-score) give an attribute graph, edge by edge, that is triangulated after each
    edge and kept within size limits. Each column is measured together with the columns that tell most about it. Then
    rounds choose, by the exponential mechanism, the marginal inside a maximal clique that the model gets most wrong,
    measure it and refit. Only *useful* marginals count: those whose average cell is ``theta`` times larger than its
    noise.

    Parameters
    ----------
    workload
        Marginals that drawn rows are fitted to; all 3-way marginals by default. It changes neither what is measured nor
        the model.
    theta
        How many times larger than its noise the average cell of a marginal must be for it to be measured.
    rounds_per_column
        Marginals measured in rounds, per column of the table (``t`` in the authors' program), beside those measured first.
    gap_share
        Share of the budget that measures dependences.
    choose_share
        Share of the budget that pays for the choices of all rounds.
    max_order
        Most columns in a measured marginal.
    max_clique_cells
        Most cells of a maximal clique of the triangulated graph.
    max_model_mb
        Most megabytes of all maximal cliques together.
    max_candidates
        Most marginals that a round chooses from; few columns and few cells first.

    Privacy
    -------
    Costs are fixed in advance and add up to the budget. (1) The number of rows, where private, is measured. (2) The distance
    from independence of each pair is measured once: one row moves it by at most 4, a replaced one by at most 6
    (:mod:`understudy.mechanisms.graphs.look`). Graph, cliques, first marginals and candidates are functions of these numbers and
    of public sizes. (3) The first marginals are measured. (4) Each round chooses by the exponential mechanism with score
    ``|M_r(D) - M_r(model)|_1``, which moves by at most ``l1`` between neighbours since the model is public, and measures what
    it chose. Adaptive composition within the curator's filter; the rest is post-processing.

    Examples
    --------
    >>> PrivMRF(theta=4).name
    'privmrf'
    """

    name: ClassVar[str] = "privmrf"
    summary: ClassVar[str] = "Markov random field on a graph of noisy dependences, refined in rounds"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on distances from independence and on marginals; exponential mechanism for choices",
        papers={Paper.AIM: "Table 2"},
        origin="Cai, Lei, Wei and Xiao 2021",
    )

    workload: Workload | None = None
    theta: float = 3.0
    rounds_per_column: float = 0.8
    gap_share: float = 0.1
    choose_share: float = 0.1
    max_order: int = 6
    max_clique_cells: int = 10_000_000
    max_model_mb: float = 80.0
    max_candidates: int = 2_000

    def __post_init__(self) -> None:
        together = []
        if not self.gap_share + self.choose_share + TOTAL_SHARE < 1:
            together.append("gap_share and choose_share together must leave a share for the marginals.")
        refuse(
            positive(self, "theta", "gap_share", "choose_share", "max_model_mb"),
            at_least(self, 1, "max_order", "max_clique_cells", "max_candidates"),
            at_least(self, 0, "rounds_per_column"),
            together,
        )

    # ------------------------------------------------------------------ public facts

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of a cell of a measured marginal."""
        known = total_is_public(schema, unit)
        prices = self._prices(accounting, cost, schema.domain, total_known=known)
        return total_deviation([(1, noise_for(accounting, unit, prices.marginal))])

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how dependences and marginals will be measured."""
        domain = schema.domain
        workload_for(self.workload, domain)
        require_columns(schema, max_cells=self._cells(), max_model_mb=self.max_model_mb, method=self.name)
        accounting = self.accounting(budget, schema, unit)
        prices = self._prices(
            accounting, accounting.total(budget), domain, total_known=total_is_public(schema, unit)
        )
        noise = noise_for(accounting, unit, prices.marginal)
        design: list[tuple[Clique, Noise]] = []
        if prices.rows:
            design.append(((), rows_noise(accounting, unit, prices.rows)))
        notes = [
            f"{self._number(domain)} marginals with {noise.kind} noise of scale {noise.scale:.4g} rows per cell, at most "
            f"{self.max_order} columns each; a marginal of c cells is measured if there are more than "
            f"{self.theta * _deviation(noise):.4g} c rows."
        ]
        pairs = self._pairs(domain)
        if pairs:
            scale = gap_noises(accounting, unit, prices.gaps, len(pairs)).scale
            notes.append(f"The dependence of {len(pairs)} pairs gets noise of scale {scale:.4g} rows.")
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, design),
            model_cells=self._cells(),
            notes=tuple(notes),
        )

    def _cells(self) -> int:
        return cells_of(self.max_model_mb)

    def _pairs(self, domain: Domain) -> list[Clique]:
        """Return the pairs that a clique can hold. Columns of one value depend on nothing."""
        names = [name for name in domain.names if domain.size(name) > 1]
        limit = min(self.max_clique_cells, self._cells())
        return [pair for pair in combinations(names, 2) if domain.cells(pair) <= limit]

    def _number(self, domain: Domain) -> int:
        """Return how many marginals are measured in all: one per column, and those of the rounds."""
        return len(domain) + round(self.rounds_per_column * len(domain))

    def _prices(self, accounting: Accounting, total: float, domain: Domain, *, total_known: bool) -> _Prices:
        rows = 0.0 if total_known else TOTAL_SHARE
        pairs = bool(self._pairs(domain))
        gaps = self.gap_share if pairs else 0.0
        choose = self.choose_share if self._number(domain) > 1 else 0.0
        parts = accounting.split(
            total, [max(rows, 1e-300), max(gaps, 1e-300), max(choose, 1e-300), 1 - rows - gaps - choose]
        )
        each = accounting.split(parts[3], [1.0] * self._number(domain))[0]
        return _Prices(
            parts[0] if rows else 0.0, parts[1] if gaps else 0.0, parts[2] if choose else 0.0, each
        )

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        domain, accounting, unit = curator.domain, curator.accounting, curator.unit
        support = support_of(curator.schema)
        total = curator.rows.total
        prices = self._prices(accounting, curator.remaining, domain, total_known=total is not None)
        noise = noise_for(accounting, unit, prices.marginal)
        measurements: list[Measurement] = []
        if prices.rows:
            measurements.append(
                curator.measure(curator.counts(()), noise=rows_noise(accounting, unit, prices.rows))
            )
        rows = max(1.0, float(measurements[0].values)) if total is None else total
        useful = rows / (self.theta * _deviation(noise))
        progress("dependences", 0.05)
        pairs = self._pairs(domain)
        gaps = measure_gaps(curator, pairs, prices.gaps) if pairs else None
        scores: Scores = {}
        if gaps is not None:
            scores = {
                frozenset(pair): value / (2 * rows) for pair, value in zip(pairs, gaps.values, strict=True)
            }
        graph = self._graph(domain, scores, [clique for clique, _ in support], useful)
        first = starting_marginals(graph, scores, useful_cells=useful, max_order=self.max_order)
        progress("first marginals", 0.2)
        measurements += curator.measure_many(
            curator.counts_many(first),
            noise=[noise] * len(first),
            purpose=f"measure {len(first)} first marginals",
        )
        batches = [1] * bool(prices.rows) + [len(first)]
        model = estimate(domain, measurements, total=total, zeros=support)
        log = RoundLog(planned=batches)
        candidates = candidate_marginals(
            graph, useful_cells=useful, max_order=self.max_order, most=self.max_candidates
        )
        model = self._rounds(
            curator, candidates, measurements, model, log, noise, prices.choose, progress=progress
        )
        progress("final estimate", 0.95)
        model = estimate(domain, measurements, total=total, zeros=support, warm_start=model, thorough=True)
        progress("done", 1.0)
        return Fitted(
            model,
            measurements,
            workload=workload_for(self.workload, domain),
            history=log.close(answer_each(model.marginals, candidates)),
            statistics=() if gaps is None else (gaps.statistic,),
        )

    def _graph(
        self, domain: Domain, scores: Scores, fixed: Sequence[Clique], useful: float
    ) -> AttributeGraph:
        """Build the graph from pairs that can be measured: an edge that no marginal can use only costs room."""
        usable = {pair: score for pair, score in scores.items() if domain.cells(tuple(pair)) <= useful}
        return build_graph(
            domain,
            usable,
            fixed=fixed,
            max_clique_cells=self.max_clique_cells,
            max_cells=self._cells(),
        )

    def _rounds(
        self,
        curator: Curator,
        candidates: list[Clique],
        measurements: list[Measurement],
        model: GraphicalModel,
        log: RoundLog,
        noise: Noise,
        choose: float,
        *,
        progress: Progress,
    ) -> GraphicalModel:
        """Choose, measure and refit until all marginals are measured; appends to ``measurements``."""
        domain, accounting = curator.domain, curator.accounting
        total, support = curator.rows.total, support_of(curator.schema)
        number = self._number(domain) - sum(1 for item in measurements if item.clique)
        if number < 1:
            return model
        sealed: dict[Clique, SealedCounts] = dict(
            zip(candidates, curator.counts_many(candidates), strict=True)
        )
        epsilon = accounting.selection_epsilon(accounting.split(choose, [1.0] * number)[0])
        for index in range(number):
            progress(f"round {index + 1}", 0.25 + 0.7 * index / number)
            measured = {item.clique for item in measurements}
            fresh = [clique for clique in candidates if clique not in measured] or candidates
            answers = model.marginals(fresh)
            step = measure_worst(
                curator, sealed, fresh, answers, noise=noise, epsilon=epsilon, last=index + 1 == number
            )
            measurements.append(step.measurement)
            log.add(step, answers, [1.0] * len(fresh))
            model = estimate(domain, measurements, total=total, zeros=support, warm_start=model)
        return model


def _deviation(noise: Noise) -> float:
    """Return the standard deviation of the noise of a cell, in rows."""
    return noise.scale * (math.sqrt(2) if noise.kind == "laplace" else 1.0)
