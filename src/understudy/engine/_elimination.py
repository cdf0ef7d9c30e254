"""Numba kernels for vertex elimination on bit masks. Import on first use only: Numba is slow to load.

A graph over ``d`` columns is a matrix of 64-bit words, one row per column, with bit ``j`` of row
``i`` set when columns ``i`` and ``j`` are joined. Any number of columns works.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

ONE = np.uint64(1)
M1 = np.uint64(0x5555555555555555)
M2 = np.uint64(0x3333333333333333)
M4 = np.uint64(0x0F0F0F0F0F0F0F0F)
H01 = np.uint64(0x0101010101010101)
S1, S2, S4, S56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)

FILL, WEIGHT, NEIGHBOURS, WEIGHTED_FILL = 0, 1, 2, 3

_BARE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner = njit(**_BARE)
"""Decorator of functions that only other kernels call: half the compilation time."""


@inner
def popcount(word):  # type: ignore[no-untyped-def]
    """Return the number of bits set in a 64-bit word."""
    word = word - ((word >> S1) & M1)
    word = (word & M2) + ((word >> S2) & M2)
    word = (word + (word >> S4)) & M4
    return np.int64((word * H01) >> S56)


@inner
def lowest(word):  # type: ignore[no-untyped-def]
    """Return the position of the lowest bit set in a non-zero 64-bit word."""
    return popcount((word & (~word + ONE)) - ONE)


@inner
def _unpack(row, out):  # type: ignore[no-untyped-def]
    """List the bits of a row of words in ``out``; return how many there are."""
    count = 0
    for w in range(row.shape[0]):
        word = row[w]
        while word != 0:
            out[count] = 64 * w + lowest(word)
            count += 1
            word &= word - ONE
    return count


@inner
def _score(v, adjacency, sizes, heuristic, neighbours, scores):  # type: ignore[no-untyped-def]
    """Fill in fill-in, clique weight and the heuristic's own score of one vertex."""
    words = adjacency.shape[1]
    count = _unpack(adjacency[v], neighbours)
    missing = 0
    weight = sizes[v]
    special = 0.0
    for k in range(count):
        a = neighbours[k]
        weight *= sizes[a]
        for w in range(words):
            word = adjacency[v, w] & ~adjacency[a, w]
            missing += popcount(word)
            if heuristic == WEIGHTED_FILL:
                while word != 0:
                    b = 64 * w + lowest(word)
                    if b != a:
                        special += sizes[a] * sizes[b]
                    word &= word - ONE
    fill = np.float64(missing - count) / 2.0
    scores[v, 0] = fill
    if heuristic == FILL:
        scores[v, 1] = fill
        scores[v, 2] = weight
    elif heuristic == WEIGHT:
        scores[v, 1] = weight
        scores[v, 2] = fill
    elif heuristic == NEIGHBOURS:
        scores[v, 1] = count
        scores[v, 2] = weight
    else:
        scores[v, 1] = special
        scores[v, 2] = weight
    scores[v, 3] = weight


@inner
def eliminate(adjacency, vertices, n, sizes, heuristic, ties, limit, order, bags):  # type: ignore[no-untyped-def]
    """Eliminate the first ``n`` vertices; return total cells of the maximal bags and how many there are.

    ``adjacency`` is consumed. Simplicial vertices go first: their neighbourhood is a bag of every
    triangulation. Ties are broken by a second score, then by ``ties``. Stops with ``inf`` as soon as
    the running total passes ``limit``. Writes the elimination order and one row of words per bag.
    """
    d, words = adjacency.shape
    neighbours = np.empty(d, np.int64)
    around = np.empty(d, np.int64)
    scratch = np.empty(d, np.int64)
    scores = np.zeros((d, 4))
    alive = np.zeros(d, np.bool_)
    is_open = np.zeros(n, np.bool_)
    closed_bag = np.zeros((n, words), np.uint64)
    closed_count = np.zeros(n, np.int64)
    dirty = np.zeros(words, np.uint64)
    for k in range(n):
        v = vertices[k]
        alive[v] = True
        _score(v, adjacency, sizes, heuristic, scratch, scores)
    total = 0.0
    n_bags = 0
    for step in range(n):
        best = -1
        for k in range(n):
            v = vertices[k]
            if not alive[v]:
                continue
            if scores[v, 0] == 0.0:
                best = v
                break
            if best < 0:
                best = v
            elif scores[v, 1] != scores[best, 1]:
                if scores[v, 1] < scores[best, 1]:
                    best = v
            elif scores[v, 2] != scores[best, 2]:
                if scores[v, 2] < scores[best, 2]:
                    best = v
            elif ties[v] < ties[best]:
                best = v
        v = best
        order[step] = v
        word_v, bit_v = v // 64, ONE << np.uint64(v % 64)
        count = _unpack(adjacency[v], neighbours)
        # The bag of v is inside an earlier one exactly when an earlier bag, without its own vertex,
        # has v as its first vertex to go and as many members.
        maximal = True
        for k in range(step):
            if is_open[k] and (closed_bag[k, word_v] & bit_v) != 0:
                is_open[k] = False
                if closed_count[k] == count + 1:
                    maximal = False
        if maximal:
            total += scores[v, 3]
            if total > limit:
                return np.inf, 0
            for w in range(words):
                bags[n_bags, w] = adjacency[v, w]
            bags[n_bags, word_v] |= bit_v
            n_bags += 1
        is_open[step] = count > 0
        closed_count[step] = count
        for w in range(words):
            closed_bag[step, w] = adjacency[v, w]
        alive[v] = False
        simplicial = scores[v, 0] == 0.0
        for w in range(words):
            dirty[w] = adjacency[v, w]
        for k in range(count):
            a = neighbours[k]
            if not simplicial:
                for w in range(words):
                    adjacency[a, w] |= adjacency[v, w]
                adjacency[a, a // 64] &= ~(ONE << np.uint64(a % 64))
                for w in range(words):
                    dirty[w] |= adjacency[a, w]
            adjacency[a, word_v] &= ~bit_v
        dirty[word_v] &= ~bit_v
        touched = _unpack(dirty, around)
        for k in range(touched):
            _score(around[k], adjacency, sizes, heuristic, scratch, scores)
    return total, n_bags


@inner
def connect(adjacency, members, count):  # type: ignore[no-untyped-def]
    """Join all pairs of the first ``count`` members; return whether any edge is new."""
    fresh = False
    for i in range(count):
        a = members[i]
        for j in range(count):
            b = members[j]
            if a != b:
                bit = ONE << np.uint64(b % 64)
                if (adjacency[a, b // 64] & bit) == 0:
                    adjacency[a, b // 64] |= bit
                    fresh = True
    return fresh


@njit(cache=True)
def components(adjacency, label):  # type: ignore[no-untyped-def]
    """Label the connected components of a graph; return how many there are."""
    d = adjacency.shape[0]
    stack = np.empty(d, np.int64)
    neighbours = np.empty(d, np.int64)
    for v in range(d):
        label[v] = -1
    count = 0
    for start in range(d):
        if label[start] >= 0:
            continue
        label[start] = count
        stack[0] = start
        depth = 1
        while depth:
            depth -= 1
            n = _unpack(adjacency[stack[depth]], neighbours)
            for k in range(n):
                if label[neighbours[k]] < 0:
                    label[neighbours[k]] = count
                    stack[depth] = neighbours[k]
                    depth += 1
        count += 1
    return count


@njit(cache=True)
def best_elimination(adjacency, vertices, n, sizes, rules, ties, limit, order, bags):  # type: ignore[no-untyped-def]
    """Try every rule on the first ``n`` vertices, a connected set; keep the smallest tree found."""
    d, words = adjacency.shape
    graph = np.empty((d, words), np.uint64)
    trial_order = np.empty(n, np.int64)
    trial_bags = np.empty((n, words), np.uint64)
    best = np.inf
    best_bags = 0
    for r in range(rules.shape[0]):
        for v in range(d):
            for w in range(words):
                graph[v, w] = adjacency[v, w]
        cells, n_bags = eliminate(
            graph,
            vertices,
            n,
            sizes,
            rules[r, 0],
            ties[rules[r, 1]],
            min(limit, best),
            trial_order,
            trial_bags,
        )
        if cells < best:
            best = cells
            best_bags = n_bags
            for k in range(n):
                order[k] = trial_order[k]
            for k in range(n_bags):
                for w in range(words):
                    bags[k, w] = trial_bags[k, w]
    return best, best_bags


@njit(cache=True)
def candidate_cells(adjacency, sizes, rules, ties, label, base, candidates, counts, limit):  # type: ignore[no-untyped-def]
    """Return the model size in cells after adding each candidate clique to a graph.

    ``label`` and ``base`` hold the component of every column and the size of every component, so
    that only the components a candidate touches are eliminated again.
    """
    d, words = adjacency.shape
    n_candidates = candidates.shape[0]
    result = np.empty(n_candidates)
    graph = np.empty((d, words), np.uint64)
    order = np.empty(d, np.int64)
    bags = np.empty((d, words), np.uint64)
    vertices = np.empty(d, np.int64)
    touched = np.empty(base.shape[0], np.bool_)
    base_total = 0.0
    for k in range(base.shape[0]):
        base_total += base[k]
    for c in range(n_candidates):
        count = counts[c]
        for v in range(d):
            for w in range(words):
                graph[v, w] = adjacency[v, w]
        if not connect(graph, candidates[c], count):
            result[c] = base_total
            continue
        for k in range(base.shape[0]):
            touched[k] = False
        for j in range(count):
            touched[label[candidates[c, j]]] = True
        rest = 0.0
        for k in range(base.shape[0]):
            if not touched[k]:
                rest += base[k]
        n = 0
        for v in range(d):
            if touched[label[v]]:
                vertices[n] = v
                n += 1
        cells, _ = best_elimination(graph, vertices, n, sizes, rules, ties, limit - rest, order, bags)
        result[c] = rest + cells
    return result
