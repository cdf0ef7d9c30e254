"""Junction trees: bags joined along a maximum spanning tree over their separators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from understudy.engine.factors import Columns, cells_of, from_mask, to_mask
from understudy.engine.triangulation import triangulate


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
        mask = to_mask(columns)
        best = -1
        for bag, other in enumerate(self.masks):
            if mask & other == mask and (best < 0 or self.bag_cells[bag] < self.bag_cells[best]):
                best = bag
        return best


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
