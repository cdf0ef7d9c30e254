"""The attribute graph of PrivMRF, its maximal cliques, and the marginals to start from. Public inputs only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from understudy.engine.order import order_of
from understudy.engine.triangulation import triangulate
from understudy.schema import Clique, Domain
from understudy.synthesizers._rounds import small_first

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
