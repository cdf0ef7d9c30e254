"""Numba kernels for vertex elimination on bit masks. Import on first use only: Numba is slow to load.

One file on purpose: Numba's cache notices changes of the file a kernel is defined in, not of the files it calls into.

A graph over ``d`` columns is a matrix of 64-bit words, one row per column, with bit ``j`` of row
``i`` set when columns ``i`` and ``j`` are joined. Any number of columns works.

A vertex is *simplicial* when its neighbours are all joined. Removing simplicial vertices, one after
the other as they appear, adds no edge, their neighbourhoods are bags of every triangulation, and the
graph that is left in the end does not depend on the order. So they go first; the greedy rules only
see what is left. For a candidate clique even that part is mostly known beforehand: a vertex that was
removed stays removable unless it is a member, or a later neighbour of a vertex that is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from understudy._compile import compiled, inner

ONE = np.uint64(1)
ZERO = np.int64(0)  # a plain 0 would have a type of its own, and everything would be compiled twice
M1 = np.uint64(0x5555555555555555)
M2 = np.uint64(0x3333333333333333)
M4 = np.uint64(0x0F0F0F0F0F0F0F0F)
H01 = np.uint64(0x0101010101010101)
S1, S2, S4, S56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)

FILL, WEIGHT, NEIGHBOURS, WEIGHTED_FILL = 0, 1, 2, 3


class Log(NamedTuple):
    """An elimination, step by step.

    Attributes
    ----------
    vertex
        The vertex that was removed.
    bag
        Its neighbours at that time, as words.
    degree
        How many there were.
    open
        Whether a later bag may still lie inside this one.
    cells
        Size of the bag, 0 if it lies inside another.
    """

    vertex: npt.NDArray[np.int64]
    bag: npt.NDArray[np.uint64]
    degree: npt.NDArray[np.int64]
    open: npt.NDArray[np.bool_]
    cells: npt.NDArray[np.float64]


@inner()
def _new_log(steps, words):  # type: ignore[no-untyped-def]
    """Return an empty log."""
    return Log(
        np.empty(steps, np.int64),
        np.empty((steps, words), np.uint64),
        np.empty(steps, np.int64),
        np.empty(steps, np.bool_),
        np.empty(steps, np.float64),
    )


@inner()
def _has(row, v):  # type: ignore[no-untyped-def]
    """Tell whether a bit of a row of words is set."""
    return (row[v // 64] >> np.uint64(v % 64)) & ONE != 0


@inner()
def _set(row, v):  # type: ignore[no-untyped-def]
    """Set a bit of a row of words."""
    row[v // 64] |= ONE << np.uint64(v % 64)


@inner()
def popcount(word):  # type: ignore[no-untyped-def]
    """Return the number of bits set in a 64-bit word."""
    word = word - ((word >> S1) & M1)
    word = (word & M2) + ((word >> S2) & M2)
    word = (word + (word >> S4)) & M4
    return np.int64((word * H01) >> S56)


@inner()
def lowest(word):  # type: ignore[no-untyped-def]
    """Return the position of the lowest bit set in a non-zero 64-bit word."""
    return popcount((word & (~word + ONE)) - ONE)


@inner()
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


@inner()
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


@inner()
def _is_simplicial(v, graph):  # type: ignore[no-untyped-def]
    """Tell whether all neighbours of a vertex are joined."""
    words = graph.shape[1]
    for w in range(words):
        word = graph[v, w]
        while word != 0:
            a = 64 * w + lowest(word)
            for x in range(words):
                other = graph[v, x] & ~graph[a, x]
                if x == w:
                    other &= ~(word & (~word + ONE))
                if other != 0:
                    return False
            word &= word - ONE
    return True


@inner()
def _take(v, graph, sizes, step, log, neighbours):  # type: ignore[no-untyped-def]
    """Remove a vertex whose neighbours are joined; return the cells of its bag, 0 if it is not maximal.

    The bag is inside an earlier one exactly when an earlier bag, without its own vertex, has this
    vertex as its first member to go and as many members.
    """
    words = graph.shape[1]
    place, bit = v // 64, ONE << np.uint64(v % 64)
    count = _unpack(graph[v], neighbours)
    maximal = True
    for k in range(step):
        if log.open[k] and (log.bag[k, place] & bit) != 0:
            log.open[k] = False
            if log.degree[k] == count + 1:
                maximal = False
    log.open[step] = count > 0
    log.degree[step] = count
    for w in range(words):
        log.bag[step, w] = graph[v, w]
    weight = sizes[v]
    for k in range(count):
        weight *= sizes[neighbours[k]]
        graph[neighbours[k], place] &= ~bit
    return weight if maximal else 0.0


@inner()
def _reduce(graph, alive, vertices, n, sizes, step, log):  # type: ignore[no-untyped-def]
    """Remove simplicial vertices until there are none; return the number of vertices removed so far."""
    d = graph.shape[0]
    neighbours = np.empty(d, np.int64)
    stack = np.empty(d, np.int64)
    waiting = np.empty(d, np.bool_)
    for v in range(d):
        waiting[v] = False
    depth = 0
    for k in range(n - 1, -1, -1):
        stack[depth] = vertices[k]
        waiting[vertices[k]] = True
        depth += 1
    while depth:
        depth -= 1
        v = stack[depth]
        waiting[v] = False
        if not alive[v] or not _is_simplicial(v, graph):
            continue
        count = _unpack(graph[v], neighbours)
        log.vertex[step] = v
        log.cells[step] = _take(v, graph, sizes, step, log, neighbours)
        alive[v] = False
        step += 1
        for k in range(count):
            a = neighbours[k]
            if not waiting[a]:
                waiting[a] = True
                stack[depth] = a
                depth += 1
    return step


@inner()
def _greedy(graph, alive, vertices, n, sizes, heuristic, ties, limit, step, log):  # type: ignore[no-untyped-def]
    """Eliminate all living vertices by one rule; return the cells of their bags, or inf beyond the limit."""
    d, words = graph.shape
    neighbours = np.empty(d, np.int64)
    around = np.empty(d, np.int64)
    scratch = np.empty(d, np.int64)
    scores = np.empty((d, 4), np.float64)
    dirty = np.empty(words, np.uint64)
    total = 0.0
    left = 0
    for k in range(n):
        if alive[vertices[k]]:
            left += 1
            _score(vertices[k], graph, sizes, heuristic, scratch, scores)
    while left:
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
        simplicial = scores[v, 0] == 0.0
        count = _unpack(graph[v], neighbours)
        for w in range(words):
            dirty[w] = graph[v, w]
        if not simplicial:
            for k in range(count):
                a = neighbours[k]
                for w in range(words):
                    graph[a, w] |= graph[v, w]
                graph[a, a // 64] &= ~(ONE << np.uint64(a % 64))
                for w in range(words):
                    dirty[w] |= graph[a, w]
        log.vertex[step] = v
        log.cells[step] = _take(v, graph, sizes, step, log, scratch)
        total += log.cells[step]
        if total > limit:
            return np.inf
        step += 1
        alive[v] = False
        left -= 1
        dirty[v // 64] &= ~(ONE << np.uint64(v % 64))
        touched = _unpack(dirty, around)
        for k in range(touched):
            _score(around[k], graph, sizes, heuristic, scratch, scores)
    return total


@inner()
def _connect(graph, members, count):  # type: ignore[no-untyped-def]
    """Join all pairs of the first ``count`` members."""
    for i in range(count):
        a = members[i]
        for j in range(count):
            b = members[j]
            if a != b:
                _set(graph[a], b)


@inner()
def _solve(graph, alive, vertices, n, sizes, rules, ties, limit, step, log):  # type: ignore[no-untyped-def]
    """Reduce a graph, then try every rule on what is left; the log holds the best elimination.

    Returns the cells of the bags of these vertices and the number of vertices in the log.
    """
    d, words = graph.shape
    first = step
    step = _reduce(graph, alive, vertices, n, sizes, step, log)
    fixed = 0.0
    for k in range(first, step):
        fixed += log.cells[k]
    left = np.empty(n, np.int64)
    n_left = ZERO
    for k in range(n):
        if alive[vertices[k]]:
            left[n_left] = vertices[k]
            n_left += 1
    if n_left == 0 or fixed > limit:
        return (fixed if fixed <= limit else np.inf), step
    end = step + n_left
    trial_graph = np.empty((d, words), np.uint64)
    trial_alive = np.empty(d, np.bool_)
    trial = _new_log(end, words)
    best_bag = np.empty((end, words), np.uint64)
    best = np.inf
    for r in range(rules.shape[0]):
        for k in range(n_left):
            v = left[k]
            trial_alive[v] = True
            for w in range(words):
                trial_graph[v, w] = graph[v, w]
        for k in range(step):
            trial.open[k] = log.open[k]
            trial.degree[k] = log.degree[k]
            for w in range(words):
                trial.bag[k, w] = log.bag[k, w]
        cells = _greedy(
            trial_graph, trial_alive, left, n_left, sizes, rules[r, 0], ties[rules[r, 1]],
            min(limit - fixed, best), step, trial,
        )  # fmt: skip
        if cells < best:
            best = cells
            for k in range(step, end):
                log.vertex[k] = trial.vertex[k]
                log.cells[k] = trial.cells[k]
                for w in range(words):
                    best_bag[k, w] = trial.bag[k, w]
    for k in range(step, end):
        for w in range(words):
            log.bag[k, w] = best_bag[k, w]
    return fixed + best, end


@inner()
def _components(adjacency, label):  # type: ignore[no-untyped-def]
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


@inner()
def _candidates(adjacency, sizes, rules, ties, label, base, candidates, counts, limit):  # type: ignore[no-untyped-def]
    """Return the model size in cells after adding each candidate clique to a graph.

    ``label`` and ``base`` hold the component of every column and the size of every component, so that
    only the components a candidate touches are looked at again.
    """
    d, words = adjacency.shape
    n_components = base.shape[0]
    graph = np.empty((d, words), np.uint64)
    alive = np.empty(d, np.bool_)
    every = np.empty(d, np.int64)
    for v in range(d):
        alive[v] = True
        every[v] = v
        for w in range(words):
            graph[v, w] = adjacency[v, w]
    # What the graph reduces to without any candidate.
    gone = _new_log(d, words)
    n_gone = _reduce(graph, alive, every, d, sizes, ZERO, gone)
    place = np.empty(d, np.int64)
    for v in range(d):
        place[v] = -1
    for k in range(n_gone):
        place[gone.vertex[k]] = k
    base_total = 0.0
    for k in range(n_components):
        base_total += base[k]

    result = np.empty(candidates.shape[0], np.float64)
    log = _new_log(d, words)
    vertices = np.empty(d, np.int64)
    stack = np.empty(d, np.int64)
    neighbours = np.empty(d, np.int64)
    keep = np.empty(words, np.uint64)
    touched = np.empty(n_components, np.bool_)
    for c in range(candidates.shape[0]):
        count = counts[c]
        members = candidates[c]
        if not _is_new(adjacency, members, count):
            result[c] = base_total
            continue
        for k in range(n_components):
            touched[k] = False
        for j in range(count):
            touched[label[members[j]]] = True
        rest = 0.0
        for k in range(n_components):
            if not touched[k]:
                rest += base[k]
        _keep(members, count, touched, label, place, gone, stack, neighbours, keep)
        step = ZERO
        for k in range(n_gone):
            v = gone.vertex[k]
            if not touched[label[v]] or _has(keep, v):
                continue
            rest += gone.cells[k]
            inside = gone.degree[k] > 0
            for w in range(words):
                if gone.bag[k, w] & ~keep[w] != 0:
                    inside = False
            if inside:  # its bag may yet contain that of a vertex we keep
                log.open[step] = True
                log.degree[step] = gone.degree[k]
                for w in range(words):
                    log.bag[step, w] = gone.bag[k, w]
                step += 1
        n = _unpack(keep, vertices)
        for k in range(n):
            v = vertices[k]
            alive[v] = True
            for w in range(words):
                graph[v, w] = adjacency[v, w] & keep[w]
        _connect(graph, members, count)
        cells, _ = _solve(graph, alive, vertices, n, sizes, rules, ties, limit - rest, step, log)
        result[c] = rest + cells
    return result


@inner()
def _keep(members, count, touched, label, place, gone, stack, neighbours, keep):  # type: ignore[no-untyped-def]
    """Keep what was never removed, the members of a candidate, and everything above a member that was removed."""
    for w in range(keep.shape[0]):
        keep[w] = 0
    for v in range(label.shape[0]):
        if touched[label[v]] and place[v] < 0:
            _set(keep, v)
    depth = 0
    for j in range(count):
        v = members[j]
        if place[v] >= 0:
            _set(keep, v)
            stack[depth] = v
            depth += 1
    while depth:
        depth -= 1
        n = _unpack(gone.bag[place[stack[depth]]], neighbours)
        for k in range(n):
            v = neighbours[k]
            if not _has(keep, v):
                _set(keep, v)
                stack[depth] = v
                depth += 1


@inner()
def _is_new(adjacency, members, count):  # type: ignore[no-untyped-def]
    """Tell whether a clique joins any pair that was not joined."""
    for i in range(count):
        for j in range(i):
            a, b = members[i], members[j]
            if not _has(adjacency[a], b):
                return True
    return False


@compiled()
def analyse(  # type: ignore[no-untyped-def]
    adjacency, sizes, rules, ties, candidates, counts, limit, log_vertex, log_bag, log_cells
):
    """Triangulate a graph, then size it up with each of some candidate cliques added.

    Step ``k`` of the elimination removes ``log_vertex[k]`` with the neighbours in ``log_bag[k]``;
    ``log_cells[k]`` is the size of that bag, or 0 if it lies inside another. Returns the model size in
    cells with each candidate. One entry point for both uses: it is compiled once.
    """
    d, words = adjacency.shape
    label = np.empty(d, np.int64)
    n_components = _components(adjacency, label)
    graph = np.empty((d, words), np.uint64)
    alive = np.empty(d, np.bool_)
    for v in range(d):
        alive[v] = True
        for w in range(words):
            graph[v, w] = adjacency[v, w]
    log = Log(log_vertex, log_bag, np.empty(d, np.int64), np.empty(d, np.bool_), log_cells)
    vertices = np.empty(d, np.int64)
    base = np.empty(n_components, np.float64)
    step = ZERO
    for component in range(n_components):
        n = ZERO
        for v in range(d):
            if label[v] == component:
                vertices[n] = v
                n += 1
        base[component], step = _solve(graph, alive, vertices, n, sizes, rules, ties, np.inf, step, log)
        for k in range(step):
            log.open[k] = False
    return _candidates(adjacency, sizes, rules, ties, label, base, candidates, counts, limit)
