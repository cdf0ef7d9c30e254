"""Junction trees: bags joined along a maximum spanning tree over their separators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.graphical.factors import BYTES_PER_CELL, Array, Columns, cells_of, from_mask, to_mask
from understudy.schema import Clique, Domain

# ----------------------------------------------------------------------------------------
# The order in which the engine lays out columns: narrow ones first.
#
# Inside the engine a column is its rank by size, and a clique is a sorted tuple of ranks. Tables then
# have their widest column last, next to each other in memory, which is what makes sums over them
# fast. Names, and the order of the domain, exist only at the front door.


@dataclass(frozen=True)
class ColumnOrder:
    """Translates between names in the order of a domain and the engine's ranks.

    Examples
    --------
    >>> order = ColumnOrder(Domain(("a", "b", "c"), (9, 2, 5)))
    >>> order.sizes
    (2, 5, 9)
    >>> order.columns(("a", "b"))
    (0, 2)
    >>> order.clique((0, 2))
    ('a', 'b')
    >>> order.inward(("a", "b"), np.ones((9, 2))).shape
    (2, 9)
    """

    domain: Domain

    @cached_property
    def ranked(self) -> tuple[int, ...]:
        """Positions in the domain, narrow columns first."""
        return tuple(sorted(range(len(self.domain)), key=lambda index: (self.domain.sizes[index], index)))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each rank."""
        return tuple(self.domain.sizes[index] for index in self.ranked)

    @cached_property
    def _rank(self) -> dict[str, int]:
        return {self.domain.names[index]: rank for rank, index in enumerate(self.ranked)}

    @cached_property
    def _columns(self) -> dict[tuple[str, ...], Columns]:
        return {}

    @cached_property
    def _axes(self) -> dict[Columns, tuple[int, ...]]:
        return {}

    def columns(self, clique: Iterable[str]) -> Columns:
        """Return the sorted ranks of the columns of a clique, refusing unknown and repeated names."""
        key = tuple(clique)
        known = self._columns.get(key)
        if known is None:
            known = tuple(sorted(self._rank[name] for name in self.domain.canonical(key)))
            self._columns[key] = known
        return known

    def clique(self, columns: Iterable[int]) -> Clique:
        """Return the names of some ranks in the order of the domain."""
        return tuple(self.domain.names[index] for index in sorted(self.ranked[rank] for rank in columns))

    def inward(self, clique: Sequence[str], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Reorder the axes of a table over ``clique`` (in the order given) for the engine."""
        return np.asarray(values.transpose(np.argsort([self._rank[name] for name in clique])), order="C")

    def outward(self, columns: Columns, values: Array) -> Array:
        """Reorder the axes of an engine table into the order of the domain."""
        axes = self._axes.get(columns)
        if axes is None:
            axes = tuple(np.argsort([self.ranked[rank] for rank in columns]).tolist())
            self._axes[columns] = axes
        return np.asarray(values.transpose(axes), order="C")


@lru_cache(maxsize=64)
def order_of(domain: Domain) -> ColumnOrder:
    """Return the column order of a domain, remembered."""
    return ColumnOrder(domain)


# ----------------------------------------------------------------------------------------
# From cliques to the bags of a small junction tree, and the size of a model before it is built.
#
# A model whose measured cliques are joined in a graph needs a *chordal* supergraph; its maximal
# cliques ("bags") are the tables the engine keeps in memory. Finding the smallest one is NP-hard, so
# several greedy elimination rules are tried on every connected component (fewest fill-in edges,
# smallest bag, fewest neighbours, smallest weighted fill-in, and two of them with other ties) and the
# best is kept. The rules and their ties are fixed, so the size reported for a candidate is the size of
# the tree that `understudy.engine.estimate` will build.

MEGABYTE = 2**20
MAX_TREE_CELLS = 16_000_000
"""Largest junction tree that is built to answer a question a model was not fitted for: 128 MB."""

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
    from understudy.engine.graphical import elimination as _elimination

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


@dataclass(frozen=True)
class JunctionTree:
    """A rooted tree of bags with the running intersection property.

    Bags are listed so that a parent precedes its children. Components that share no column are
    joined by empty separators, so there is always exactly one root.

    Attributes
    ----------
    sizes
        Number of codes of every column of the domain.
    bags
        Sorted column positions of each bag; bag 0 is the root.
    parents
        Index of the parent of each bag; -1 for the root.
    separators
        Columns shared with the parent; empty for the root.

    Examples
    --------
    >>> tree = build_tree((2, 3, 4, 5), [(0, 1), (1, 2), (2, 3)])
    >>> tree.bags
    ((2, 3), (1, 2), (0, 1))
    >>> tree.separators
    ((), (2,), (1,))
    """

    sizes: tuple[int, ...]
    bags: tuple[Columns, ...]
    parents: tuple[int, ...]
    separators: tuple[Columns, ...]

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """Bit mask of each bag."""
        return tuple(to_mask(bag) for bag in self.bags)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of each bag, in the order of the bags."""
        lists: list[list[int]] = [[] for _ in self.bags]
        for bag, parent in enumerate(self.parents):
            if parent >= 0:
                lists[parent].append(bag)
        return tuple(tuple(items) for items in lists)

    @cached_property
    def cells(self) -> int:
        """Total cells of all bags."""
        return sum(cells_of(self.sizes, bag) for bag in self.bags)

    @cached_property
    def bag_cells(self) -> tuple[int, ...]:
        """Cells of each bag."""
        return tuple(cells_of(self.sizes, bag) for bag in self.bags)

    def home(self, columns: Iterable[int]) -> int:
        """Return the smallest bag that holds all the columns, or -1 if none does."""
        wanted = tuple(columns)
        mask, masks, cells = to_mask(wanted), self.masks, self.bag_cells
        places = [self._holding.get(column, ()) for column in wanted]
        best = -1
        for bag in min(places, key=len, default=range(len(masks))):
            if mask & masks[bag] == mask and (best < 0 or cells[bag] < cells[best]):
                best = bag
        return best

    @cached_property
    def _holding(self) -> dict[int, list[int]]:
        """The bags of each column, in their order."""
        found: dict[int, list[int]] = {}
        for place, bag in enumerate(self.bags):
            for column in bag:
                found.setdefault(column, []).append(place)
        return found


def build_tree(sizes: Sequence[int], cliques: Iterable[Columns]) -> JunctionTree:
    """Triangulate the cliques and join the bags into a junction tree rooted at the largest bag."""
    return join_bags(tuple(sizes), triangulate(sizes, cliques).bags)


def join_bags(sizes: tuple[int, ...], bags: Sequence[Columns]) -> JunctionTree:
    """Join the maximal cliques of a chordal graph into a junction tree.

    A spanning tree of largest total separator size over such cliques has the running intersection
    property. Among equally large separators the one with more cells is preferred: it leaves less to
    be conditioned on. The root is the largest bag, which the estimator visits once less than others.
    """
    masks = [to_mask(bag) for bag in bags]
    cells = [cells_of(sizes, bag) for bag in bags]
    root = max(range(len(bags)), key=lambda bag: (cells[bag], -bag))
    order, links = [root], {root: (-1, 0)}
    best = {bag: ((masks[bag] & masks[root]).bit_count(), root) for bag in range(len(bags)) if bag != root}
    while best:
        chosen = max(
            best,
            key=lambda bag: (
                best[bag][0],
                cells_of(sizes, from_mask(masks[bag] & masks[best[bag][1]])),
                -bag,
            ),
        )
        _, parent = best.pop(chosen)
        order.append(chosen)
        links[chosen] = (parent, masks[chosen] & masks[parent])
        for bag in best:
            shared = (masks[bag] & masks[chosen]).bit_count()
            if shared > best[bag][0]:
                best[bag] = (shared, chosen)
    place = {bag: index for index, bag in enumerate(order)}
    return JunctionTree(
        sizes,
        tuple(bags[bag] for bag in order),
        tuple(place.get(links[bag][0], -1) for bag in order),
        tuple(from_mask(links[bag][1]) for bag in order),
    )


def rooted_at(tree: JunctionTree, root: int) -> JunctionTree:
    """Return the same tree with another bag as its root.

    Examples
    --------
    >>> tree = build_tree((2, 3, 4, 5), [(0, 1), (1, 2), (2, 3)])
    >>> turned = rooted_at(tree, tree.bags.index((0, 1)))
    >>> turned.bags, turned.separators
    (((0, 1), (1, 2), (2, 3)), ((), (1,), (2,)))
    """
    beside: list[list[int]] = [[] for _ in tree.bags]
    for bag, parent in enumerate(tree.parents):
        if parent >= 0:
            beside[bag].append(parent)
            beside[parent].append(bag)
    order, above = [root], {root: -1}
    for bag in order:  # grows while it is walked through
        for other in beside[bag]:
            if other not in above:
                above[other] = bag
                order.append(other)
    place = {bag: index for index, bag in enumerate(order)}
    shared = [tree.masks[bag] & (tree.masks[above[bag]] if above[bag] >= 0 else 0) for bag in order]
    return JunctionTree(
        tree.sizes,
        tuple(tree.bags[bag] for bag in order),
        tuple(place.get(above[bag], -1) for bag in order),
        tuple(from_mask(mask) for mask in shared),
    )
