"""From cliques to the bags of a small junction tree, and the size of a model before it is built.

A model whose measured cliques are joined in a graph needs a *chordal* supergraph; its maximal
cliques ("bags") are the tables the engine keeps in memory. Finding the smallest one is NP-hard, so
several greedy elimination rules are tried on every connected component (fewest fill-in edges,
smallest bag, fewest neighbours, smallest weighted fill-in, and two of them with other ties) and the
best is kept. The rules and their ties are fixed, so the size reported for a candidate is the size of
the tree that `understudy.engine.estimate` will build.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.engine.factors import BYTES_PER_CELL, Columns, cells_of
from understudy.engine.order import order_of
from understudy.schema import Clique, Domain

MEGABYTE = 2**20

# (heuristic, which row of ties): see the constants in `_elimination`.
_RULES = np.array([[0, 0], [1, 0], [2, 0], [3, 0], [0, 1], [1, 2]], dtype=np.int64)


@dataclass(frozen=True)
class Triangulation:
    """The bags of a junction tree and the order in which columns were eliminated.

    Attributes
    ----------
    bags
        Maximal cliques of the triangulated graph, as sorted column numbers.
    order
        Every column once, in order of elimination.
    cells
        Total cells of the bags, exact.
    """

    bags: tuple[Columns, ...]
    order: Columns
    cells: int


def _ties(d: int) -> npt.NDArray[np.float64]:
    """Return fixed tie-breaking keys: position, and two shuffles that depend only on the width."""
    generator = np.random.default_rng(d)
    return np.stack(
        [np.arange(d, dtype=np.float64), generator.permutation(d) * 1.0, generator.permutation(d) * 1.0]
    )


def _adjacency(d: int, cliques: Iterable[Columns]) -> npt.NDArray[np.uint64]:
    adjacency = np.zeros((d, (d + 63) // 64), dtype=np.uint64)
    for clique in cliques:
        mask = 0
        for column in clique:
            mask |= 1 << column
        words = [np.uint64((mask >> (64 * w)) & (2**64 - 1)) for w in range(adjacency.shape[1])]
        for column in clique:
            adjacency[column] |= np.array(words, dtype=np.uint64)
    for column in range(d):
        adjacency[column, column // 64] &= ~(np.uint64(1) << np.uint64(column % 64))
    return adjacency


def _unpack_row(row: npt.NDArray[np.uint64]) -> Columns:
    return tuple(
        64 * w + bit for w, word in enumerate(row.tolist()) for bit in range(64) if (int(word) >> bit) & 1
    )


def triangulate(sizes: Sequence[int], cliques: Iterable[Columns]) -> Triangulation:
    """Return the bags of the smallest junction tree the elimination rules find.

    Every clique is inside a bag, and every column of the domain is in one.

    Examples
    --------
    >>> triangulate((2, 3, 4), [(0, 1), (1, 2)]).bags
    ((0, 1), (1, 2))
    >>> triangulate((2, 3, 4, 5), [(0, 1), (1, 2), (2, 3), (0, 3)]).cells
    64
    """
    nothing = np.zeros((0, 1), dtype=np.int64)
    _, sequence, neighbours, cells = _analyse(sizes, cliques, nothing, np.zeros(0, dtype=np.int64), math.inf)
    bags = [
        tuple(sorted((vertex, *_unpack_row(row))))
        for vertex, row, size in zip(sequence.tolist(), neighbours, cells, strict=True)
        if size > 0
    ]
    bags.sort()
    return Triangulation(tuple(bags), tuple(sequence.tolist()), sum(cells_of(sizes, bag) for bag in bags))


def _analyse(
    sizes: Sequence[int],
    cliques: Iterable[Columns],
    candidates: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    limit: float,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
    """Return sizes with each candidate, and the elimination of the cliques themselves."""
    from understudy.engine import _elimination

    d = len(sizes)
    adjacency = _adjacency(d, cliques)
    sequence, neighbours, cells = np.zeros(d, dtype=np.int64), np.zeros_like(adjacency), np.zeros(d)
    with_candidates = _elimination.analyse(
        adjacency, np.array(sizes, dtype=np.float64), _RULES, _ties(d), candidates, counts, limit,
        sequence, neighbours, cells,
    )  # fmt: skip
    return with_candidates, sequence, neighbours, cells


def model_cells(domain: Domain, cliques: Iterable[Clique]) -> int:
    """Return how many cells a model over some cliques keeps in memory.

    Examples
    --------
    >>> model_cells(Domain(("a", "b", "c"), (2, 3, 4)), [("a", "b"), ("b", "c")])
    18
    """
    order = order_of(domain)
    return triangulate(order.sizes, [order.columns(clique) for clique in cliques]).cells


def model_size(domain: Domain, cliques: Iterable[Clique]) -> float:
    """Return the size in megabytes of a model over some cliques (JT-SIZE of paper AIM, section 2.3).

    Examples
    --------
    >>> domain = Domain(("a", "b", "c"), (1024, 128, 2))
    >>> model_size(domain, [("a", "b")])
    1.0000152587890625
    """
    return model_cells(domain, cliques) * BYTES_PER_CELL / MEGABYTE


def candidate_sizes(
    domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique], *, limit_mb: float = math.inf
) -> npt.NDArray[np.float64]:
    """Return the model size in megabytes if one candidate more were measured, for each candidate.

    Parameters
    ----------
    domain
        The columns.
    cliques
        What has been measured so far (structural zeros included).
    candidates
        Cliques that may be added, one at a time.
    limit_mb
        Candidates above this size may be reported as infinite; that saves time.

    Returns
    -------
    numpy.ndarray
        Entry ``i`` equals ``model_size(domain, [*cliques, candidates[i]])``.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c"), (1024, 128, 2))
    >>> candidate_sizes(domain, [("a", "b")], [("b", "c"), ("a",)]).round(3).tolist()
    [1.002, 1.0]
    """
    ranks = order_of(domain)
    columns = [ranks.columns(clique) for clique in candidates]
    counts = np.array([len(clique) for clique in columns], dtype=np.int64)
    padded = np.zeros((len(columns), int(counts.max(initial=1))), dtype=np.int64)
    for row, clique in enumerate(columns):
        padded[row, : len(clique)] = clique
    limit = limit_mb * MEGABYTE / BYTES_PER_CELL
    measured = [ranks.columns(clique) for clique in cliques]
    cells, *_ = _analyse(ranks.sizes, measured, padded, counts, limit)
    return np.asarray(cells * (BYTES_PER_CELL / MEGABYTE))
