"""Triangulation: valid junction trees, and sizes that are known before the tree is built."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest
from engine_cases import cliques, domains
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.engine import candidate_sizes, model_cells, model_size
from understudy.engine.graphical.junction import build_tree, order_of, triangulate
from understudy.schema import Domain


@st.composite
def graphs(draw, max_columns=8):
    domain = draw(domains(max_columns=max_columns, max_size=5))
    return domain, draw(cliques(domain, max_cliques=10))


def is_junction_tree(tree):
    for column in range(len(tree.sizes)):
        holders = [bag for bag, columns in enumerate(tree.bags) if column in columns]
        links = [bag for bag in holders if bag and column in tree.separators[bag]]
        assert len(links) == len(holders) - 1, "the bags that hold a column must be connected"
    for bag, separator in enumerate(tree.separators):
        if bag:
            assert set(separator) == set(tree.bags[bag]) & set(tree.bags[tree.parents[bag]])
            assert tree.parents[bag] < bag


@given(graphs())
def test_tree_covers_the_cliques_and_is_a_junction_tree(case):
    domain, wanted = case
    order = order_of(domain)
    tree = build_tree(order.sizes, [order.columns(clique) for clique in wanted])
    is_junction_tree(tree)
    for clique in [*wanted, *((name,) for name in domain.names)]:
        assert tree.home(order.columns(clique)) >= 0
    for first, second in combinations(tree.bags, 2):
        assert not set(first) <= set(second)
        assert not set(second) <= set(first)
    assert tree.cells == model_cells(domain, wanted)


@given(graphs())
def test_candidate_sizes_are_the_sizes_of_the_trees_that_would_be_built(case):
    domain, wanted = case
    candidates = [clique for size in range(4) for clique in combinations(domain.names, size)]
    sizes = candidate_sizes(domain, wanted, candidates)
    assert sizes.tolist() == [model_size(domain, [*wanted, clique]) for clique in candidates]


@given(graphs(), st.integers(1, 200))
def test_a_limit_only_replaces_sizes_above_it(case, limit_cells):
    domain, wanted = case
    candidates = list(combinations(domain.names, 2)) or [()]
    limit = limit_cells * 8 / 2**20
    free = candidate_sizes(domain, wanted, candidates)
    limited = candidate_sizes(domain, wanted, candidates, limit_mb=limit)
    for size, other in zip(free, limited, strict=True):
        assert other == size or (math.isinf(other) and size > limit)


@settings(max_examples=30)
@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_chordal_graphs_are_left_alone(n, seed):
    generator = np.random.default_rng(seed)
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    for node in range(1, n):  # adding vertices next to a clique keeps a graph chordal
        base = max(nx.find_cliques(graph.subgraph(range(node))), key=lambda c: (len(c), generator.random()))
        keep = generator.permutation(base)[: generator.integers(0, len(base) + 1)]
        graph.add_edges_from((node, int(other)) for other in keep)
    assert nx.is_chordal(graph)
    found = triangulate([2] * n, [tuple(sorted(edge)) for edge in graph.edges]).bags
    assert set(found) == {tuple(sorted(clique)) for clique in nx.find_cliques(graph)}


def smallest_by_trying_every_order(sizes, edges):
    best = math.inf
    for order in permutations(range(len(sizes))):
        graph = {v: {w for e in edges for w in e if v in e and w != v} for v in range(len(sizes))}
        bags = []
        for v in order:
            bags.append(frozenset({v} | graph[v]))
            for a in graph[v]:
                graph[a] = (graph[a] | graph[v]) - {a, v}
            del graph[v]
        maximal = {bag for bag in bags if not any(bag < other for other in bags)}
        best = min(best, sum(math.prod(sizes[v] for v in bag) for bag in maximal))
    return best


@settings(max_examples=40)
@given(st.integers(3, 6), st.integers(0, 2**32 - 1))
def test_small_graphs_come_out_close_to_the_best_possible_tree(n, seed):
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 9, size=n).tolist()
    edges = [edge for edge in combinations(range(n), 2) if generator.random() < 0.5]
    best = smallest_by_trying_every_order(sizes, edges)
    assert best <= triangulate(sizes, edges).cells <= 1.25 * best


@pytest.mark.parametrize("n", [4, 63, 64, 65, 130])
def test_a_ring_of_any_width_becomes_triangles(n):
    domain = Domain(tuple(f"c{i}" for i in range(n)), (2,) * n)
    path = [(f"c{i}", f"c{i + 1}") for i in range(n - 1)]
    assert model_cells(domain, path) == 4 * (n - 1)
    assert model_cells(domain, [*path, ("c0", f"c{n - 1}")]) == 8 * (n - 2)
    assert candidate_sizes(domain, path, [("c0", f"c{n - 1}"), ("c0",)]).tolist() == [
        8 * (n - 2) * 8 / 2**20,
        4 * (n - 1) * 8 / 2**20,
    ]
