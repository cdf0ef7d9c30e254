"""Which table hangs under which: so that small tables are summed from small tables.

In a sweep every measured marginal, and every message to a neighbouring bag, costs a pass over the
table it is summed from. Measured marginals therefore hang under measured marginals that contain
them, and several small tables of one large bag are first gathered into a *group*, an intermediate
table over the union of their columns: one pass over the bag then serves all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from understudy.engine.factors import Columns, cells_of, from_mask, to_mask
from understudy.engine.junction import JunctionTree

_WORTH_GROUPING = 256
"""Bags with fewer cells than this are not worth an intermediate table."""


@dataclass
class Branch:
    """A table that is summed from the one above it.

    Attributes
    ----------
    mask
        Its columns, as bits.
    node
        Its number among the nodes of the layout; -1 for a link to another bag.
    bag
        The child bag a link leads to; -1 otherwise.
    below
        Tables summed from this one.
    """

    mask: int
    node: int = -1
    bag: int = -1
    below: list[Branch] = field(default_factory=list)


def build_branches(tree: JunctionTree, nodes: Sequence[Columns]) -> tuple[list[list[Branch]], list[Columns]]:
    """Return the branches under every bag, and the columns of the groups that were added as nodes."""
    masks = [to_mask(columns) for columns in nodes]
    cells = [cells_of(tree.sizes, columns) for columns in nodes]
    branches = [Branch(mask, node) for node, mask in enumerate(masks)]
    roots: list[list[Branch]] = [[] for _ in tree.bags]

    def holder(mask: int, node: int, bag: int) -> int:
        """Return the smallest node that may hold a table, in a given bag if one is given, or -1."""
        best = -1
        for other, outer in enumerate(masks):
            inside = mask & outer == mask and (mask != outer or (other < node or node < 0))
            fits = bag < 0 or homes[other] == bag
            if inside and other != node and fits and (best < 0 or cells[other] < cells[best]):
                best = other
        return best

    homes = [-1] * len(nodes)
    holders = [holder(mask, node, -1) for node, mask in enumerate(masks)]
    for node in range(len(nodes)):
        top = node
        while holders[top] >= 0:
            top = holders[top]
        homes[node] = tree.home(nodes[top])
        if holders[node] >= 0:
            branches[holders[node]].below.append(branches[node])
        else:
            roots[homes[node]].append(branches[node])
    for bag in range(1, len(tree.bags)):
        parent = tree.parents[bag]
        link = Branch(to_mask(tree.separators[bag]), bag=bag)
        above = holder(link.mask, -1, parent)
        (branches[above].below if above >= 0 else roots[parent]).append(link)
    groups: list[Columns] = []
    for bag, items in enumerate(roots):
        if tree.bag_cells[bag] >= _WORTH_GROUPING:
            roots[bag] = _group(tree, tree.masks[bag], items, len(nodes), groups)
    return roots, groups


def _group(
    tree: JunctionTree, bag: int, items: list[Branch], first: int, groups: list[Columns]
) -> list[Branch]:
    """Gather branches of one bag into groups, greedily, as long as that saves work.

    A pass costs the cells it reads. Putting ``k`` branches under a group of ``c`` cells saves
    ``k - 1`` passes over the bag and costs ``k + 1`` passes over the group.
    """
    columns = from_mask(bag)
    if len(columns) > 63:  # only columns of one value make a bag so wide
        return items
    whole = cells_of(tree.sizes, columns)
    while len(items) > 1:
        bits = np.array([_compress(item.mask, columns) for item in items], dtype=np.uint64)
        left, right = np.triu_indices(len(items), k=1)
        union = bits[left] | bits[right]
        cells = np.ones(len(union))
        for place, column in enumerate(columns):
            cells[(union >> np.uint64(place)) & np.uint64(1) > 0] *= tree.sizes[column]
        count = (bits & ~union[:, None] == 0).sum(axis=1)
        gain = (count - 1) * float(whole) - (count + 1) * cells
        best = int(np.argmax(gain))
        if gain[best] <= 0:
            break
        mask = items[left[best]].mask | items[right[best]].mask
        inside = [item for item in items if item.mask & mask == item.mask]
        items = [item for item in items if item.mask & mask != item.mask]
        items.append(Branch(mask, node=first + len(groups), below=inside))
        groups.append(from_mask(mask))
    return items


def _compress(mask: int, columns: Columns) -> int:
    """Renumber the bits of a mask by their place in a bag."""
    return sum(((mask >> column) & 1) << place for place, column in enumerate(columns))
