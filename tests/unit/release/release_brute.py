"""Row-level references: slow, plain, and written from the definitions rather than from the code under test."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import networkx as nx
import numpy as np

from understudy.release import RecordTypes
from understudy.schema import Domain

Rows = list[tuple[int, ...]]


def rows_of(types: RecordTypes) -> Rows:
    return [tuple(int(code) for code in row) for row in types.expand()]


def cells(domain: Domain, clique: tuple[str, ...]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(size) for size in domain.shape(clique))))


def marginal(rows: Rows, domain: Domain, clique: tuple[str, ...]) -> Counter[tuple[int, ...]]:
    axes = [domain.names.index(name) for name in clique]
    return Counter(tuple(row[axis] for axis in axes) for row in rows)


def cliques(domain: Domain, orders: tuple[int, ...] | None) -> list[tuple[str, ...]]:
    wanted = range(1, len(domain) + 1) if orders is None else orders
    return [clique for k in wanted for clique in itertools.combinations(domain.names, k)]


def cell_errors(real: Rows, synthetic: Rows, domain: Domain, orders: tuple[int, ...] | None) -> list[int]:
    errors = []
    for clique in cliques(domain, orders):
        left, right = marginal(real, domain, clique), marginal(synthetic, domain, clique)
        errors += [abs(left[cell] - right[cell]) for cell in cells(domain, clique)]
    return errors


def relative_error(real: Rows, synthetic: Rows, domain: Domain) -> float:
    worst = 1.0
    for name in domain.names:
        left, right = marginal(real, domain, (name,)), marginal(synthetic, domain, (name,))
        for cell in cells(domain, (name,)):
            ratio = (left[cell] + 1) / (right[cell] + 1)
            worst = max(worst, ratio, 1 / ratio)
    return worst


def group_values(rows: Rows, domain: Domain, column: str, values, by: str | None, members) -> list[float]:
    at = domain.names.index(column)
    kept = rows if by is None else [row for row in rows if row[domain.names.index(by)] in members]
    return sorted(values[row[at]] for row in kept if math.isfinite(values[row[at]]))


def lower_median(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def least_squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(np.column_stack([np.ones(len(x)), x]), y, rcond=None)[0]


def largest_matching(real: Rows, synthetic: Rows, similar) -> int:
    graph = nx.Graph()
    left = [("s", i) for i in range(len(synthetic))]
    graph.add_nodes_from(left)
    for i, one in enumerate(synthetic):
        for j, other in enumerate(real):
            if similar(one, other):
                graph.add_edge(("s", i), ("r", j))
    return len(nx.bipartite.hopcroft_karp_matching(graph, top_nodes=left)) // 2
