"""Calibrated trees: every bag holds the expected counts of its columns under the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from understudy.engine.graphical.factors import (
    Array,
    Columns,
    Ints,
    Maps,
    cells_of,
    from_mask,
    shape_of,
    to_mask,
)
from understudy.engine.graphical.junction import JunctionTree
from understudy.errors import ConstraintError

# ----------------------------------------------------------------------------------------
# Which table hangs under which: so that small tables are summed from small tables.
#
# In a sweep every measured marginal, and every message to a neighbouring bag, costs a pass over the
# table it is summed from. Measured marginals therefore hang under measured marginals that contain
# them, and several small tables of one large bag are first gathered into a *group*, an intermediate
# table over the union of their columns: one pass over the bag then serves all of them.

_WORTH_GROUPING = 256
"""Bags with fewer cells than this are not worth an intermediate table."""

_PAIRS_AT_ONCE = 1 << 20
"""How many tables are compared with how many unions at a time: eight bytes each."""


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
        union, first_pair = np.unique(bits[left] | bits[right], return_index=True)
        cells = np.ones(len(union))
        for place, column in enumerate(columns):
            cells[(union >> np.uint64(place)) & np.uint64(1) > 0] *= tree.sizes[column]
        count = _contained(bits, union)
        gain = (count - 1) * float(whole) - (count + 1) * cells
        if gain.max() <= 0:
            break
        best = int(first_pair[gain == gain.max()].min())
        mask = items[left[best]].mask | items[right[best]].mask
        inside = [item for item in items if item.mask & mask == item.mask]
        items = [item for item in items if item.mask & mask != item.mask]
        items.append(Branch(mask, node=first + len(groups), below=inside))
        groups.append(from_mask(mask))
    return items


def _contained(bits: npt.NDArray[np.uint64], unions: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Count, for every union, the tables whose columns it holds; a slice of unions at a time, so that memory stays small."""
    count = np.empty(len(unions), dtype=np.int64)
    step = max(1, _PAIRS_AT_ONCE // len(bits))
    for start in range(0, len(unions), step):
        part = ~unions[start : start + step, None]
        count[start : start + step] = (bits & part == 0).sum(axis=1)
    return count


def _compress(mask: int, columns: Columns) -> int:
    """Renumber the bits of a mask by their place in a bag."""
    return sum(((mask >> column) & 1) << place for place, column in enumerate(columns))


# ----------------------------------------------------------------------------------------
# Where the tables of a model lie in memory, and the programs that `_kernels.execute` runs over them.

# Operations of `_kernels`, repeated here so that Numba is not imported with this module.
PASS, SEPARATE, COPY, STEP, RATIO, ADD, PEAK, EXP, MESSAGE, EVALUATE, LOAD, STORE, COMBINE = range(13)

Link = tuple[Columns, int]
"""A small table: its columns and where it starts in the vectors."""


class Layout:
    """Positions of all tables of a model, and the programs over them.

    Parameters
    ----------
    tree
        The junction tree.
    nodes
        Cliques with a log potential. The first ``n_measured`` of them are measured: sweeps take a
        step on them. The others only take part when potentials are loaded.
    n_measured
        How many nodes are measured.

    Notes
    -----
    ``cells`` holds the bags, then a table for every node and group. ``vectors`` holds two tables per
    separator (``sep_old``, ``sep_new``) and, per node, its incoming marginal or outgoing ratio
    (``incoming``), its log potential (``theta``) and its noisy values (``target``).
    """

    def __init__(self, tree: JunctionTree, nodes: Sequence[Columns], n_measured: int) -> None:
        self.tree = tree
        self.maps = Maps(tree.sizes)
        self.n_measured = n_measured
        self.roots, groups = build_branches(tree, nodes)
        self.nodes = [*nodes, *groups]
        self.n_potentials = len(nodes)
        self.node_cells = [cells_of(tree.sizes, columns) for columns in self.nodes]
        self.sep_cells = [cells_of(tree.sizes, separator) for separator in tree.separators]
        starts = np.concatenate([[0], np.cumsum([*tree.bag_cells, *self.node_cells])]).astype(int).tolist()
        self.bag_start, self.node_start = starts[: len(tree.bags)], starts[len(tree.bags) : -1]
        self.n_cells: int = starts[-1]
        self.sep_old: list[int] = []
        self.sep_new: list[int] = []
        at = 0
        for cells in self.sep_cells:
            self.sep_old.append(at)
            self.sep_new.append(at + cells)
            at += 2 * cells
        self.incoming: list[int] = []
        self.theta: list[int] = []
        self.target: list[int] = []
        for node, cells in enumerate(self.node_cells):
            self.incoming.append(at)
            at += cells
            self.theta.append(at)
            at += cells if node < self.n_potentials else 0
            self.target.append(at)
            at += cells if node < n_measured else 0
        self.n_vectors = at
        self._active = [False] * len(tree.bags)
        for bag in reversed(range(len(tree.bags))):
            self._active[bag] = any(self._is_active(branch) for branch in self.roots[bag])

    def _is_active(self, branch: Branch) -> bool:
        """Tell whether a sweep has anything to do below a branch."""
        if branch.bag >= 0:
            return self._active[branch.bag]
        return branch.node < self.n_measured or any(self._is_active(item) for item in branch.below)

    def _link(self, branch: Branch) -> Link:
        """Return the vector a branch is summed into."""
        if branch.bag >= 0:
            return self.tree.separators[branch.bag], self.sep_new[branch.bag]
        return self.nodes[branch.node], self.incoming[branch.node]

    # ---- operations -------------------------------------------------------------------------------

    def _pass(
        self, start: int, columns: Columns, pending: Link | None, out: Link | None
    ) -> list[tuple[int, ...]]:
        """Multiply a table by what is pending and sum it down to ``out``, in one go over memory."""
        if pending is None and out is None:
            return []
        map_a, vec_a = (self.maps.add(columns, pending[0]), pending[1]) if pending else (-1, 0)
        map_b, vec_b = (self.maps.add(columns, out[0]), out[1]) if out else (-1, 0)
        size = cells_of(self.tree.sizes, out[0]) if out else 0
        return [(PASS, start, map_a, vec_a, map_b, vec_b, size, 0)]

    def _separator(self, code: int, bag: int) -> tuple[int, ...]:
        return (code, 0, 0, self.sep_new[bag], 0, self.sep_old[bag], self.sep_cells[bag], 0)

    def _node(self, code: int, node: int, first: int = 0, second: int = 0) -> tuple[int, ...]:
        return (code, self.node_start[node], 0, first, 0, second, self.node_cells[node], node)

    # ---- calibration from potentials --------------------------------------------------------------

    def upward(self) -> Ints:
        """Turn log potentials into unnormalised conditionals given the separator, leaves first.

        Every separator row is scaled by its own maximum, so that no row is lost to underflow.
        """
        ops: list[tuple[int, ...]] = []
        tree = self.tree
        for bag in reversed(range(len(tree.bags))):
            start = self.bag_start[bag]
            self._gather(start, tree.bags[bag], self.roots[bag], ops)
            number = self.maps.add(tree.bags[bag], tree.separators[bag])
            new, old, size = self.sep_new[bag], self.sep_old[bag], self.sep_cells[bag]
            ops.append((PEAK, start, number, new, 0, 0, size, 0))
            ops.append((EXP, start, number, new, number, old, size, 0))
            ops.append(self._separator(MESSAGE, bag))
        return program(ops)

    def _gather(
        self, start: int, columns: Columns, branches: list[Branch], ops: list[tuple[int, ...]]
    ) -> None:
        """Add the potentials, and the messages of child bags, to a table of logarithms."""
        for branch in branches:
            inner, vector = self._link(branch)
            if branch.node >= 0:
                own = branch.node < self.n_potentials
                if branch.below:
                    ops.append(self._node(LOAD, branch.node, self.theta[branch.node] if own else -1))
                    self._gather(self.node_start[branch.node], inner, branch.below, ops)
                    ops.append(self._node(STORE, branch.node, vector))
                else:
                    vector = self.theta[branch.node]
            ops.append((ADD, start, self.maps.add(columns, inner), vector, 0, 0, 0, 0))

    def downward(self) -> Ints:
        """Multiply conditionals by the marginals of their separators, root first."""
        ops: list[tuple[int, ...]] = [self._separator(COMBINE, 0)]
        self._settle(ops, COMBINE, evaluate=False)
        return program(ops)

    def settle(self, *, evaluate: bool) -> Ints:
        """Bring all bags into agreement with the root after a sweep; recompute measured marginals."""
        ops: list[tuple[int, ...]] = []
        self._settle(ops, SEPARATE, evaluate=evaluate)
        return program(ops)

    def _settle(self, ops: list[tuple[int, ...]], code: int, *, evaluate: bool) -> None:
        tree = self.tree
        for bag, columns in enumerate(tree.bags):
            pending = (tree.separators[bag], self.sep_new[bag]) if bag or code == COMBINE else None
            pending = self._sums(self.bag_start[bag], columns, self.roots[bag], pending, ops, code, evaluate)
            ops += self._pass(self.bag_start[bag], columns, pending, None)

    def _sums(
        self,
        start: int,
        columns: Columns,
        branches: list[Branch],
        pending: Link | None,
        ops: list[tuple[int, ...]],
        code: int,
        evaluate: bool,
    ) -> Link | None:
        """Sum a table down to its branches; return what is still to be multiplied in."""
        for branch in branches:
            if not self._wanted(branch, evaluate):
                continue
            link = self._link(branch)
            ops += self._pass(start, columns, pending, link)
            pending = None
            if branch.bag >= 0:
                ops.append(self._separator(code, branch.bag))
                continue
            node = branch.node
            ops.append(self._node(COPY, node, link[1]))
            self._sums(self.node_start[node], link[0], branch.below, None, ops, code, evaluate)
            if evaluate and node < self.n_measured:
                ops.append(self._node(EVALUATE, node, self.theta[node], self.target[node]))
        return pending

    def _wanted(self, branch: Branch, evaluate: bool) -> bool:
        if branch.bag >= 0:
            return True
        if evaluate and branch.node < self.n_measured:
            return True
        return any(self._wanted(item, evaluate) for item in branch.below)

    # ---- sweeps -----------------------------------------------------------------------------------

    def sweep(self) -> Ints:
        """One epoch: a depth-first walk that takes the exact block step of every measured marginal."""
        ops: list[tuple[int, ...]] = []
        self._visit_bag(0, None, ops)
        return program(ops)

    def _visit_bag(self, bag: int, pending: Link | None, ops: list[tuple[int, ...]]) -> None:
        start, columns = self.bag_start[bag], self.tree.bags[bag]
        pending = self._visit(start, columns, self.roots[bag], pending, ops)
        out = (self.tree.separators[bag], self.sep_new[bag]) if bag else None
        ops += self._pass(start, columns, pending, out)

    def _visit(
        self,
        start: int,
        columns: Columns,
        branches: list[Branch],
        pending: Link | None,
        ops: list[tuple[int, ...]],
    ) -> Link | None:
        """Visit the branches of a table in turn; return the last ratio, still to be multiplied in."""
        for branch in branches:
            if not self._is_active(branch):
                continue
            link = self._link(branch)
            ops += self._pass(start, columns, pending, link)
            pending = link
            if branch.bag >= 0:
                ops.append(self._separator(SEPARATE, branch.bag))
                self._visit_bag(branch.bag, link, ops)
                ops.append(self._separator(SEPARATE, branch.bag))
                continue
            node = branch.node
            ops.append(self._node(COPY, node, link[1]))
            inner = self._visit(self.node_start[node], link[0], branch.below, None, ops)
            ops += self._pass(self.node_start[node], link[0], inner, None)
            if node < self.n_measured:
                ops.append(self._node(STEP, node, self.theta[node], self.target[node]))
            ops.append(self._node(RATIO, node, link[1]))
        return pending


def program(ops: list[tuple[int, ...]]) -> Ints:
    """Return operations as the integer matrix the interpreter reads."""
    return np.array(ops, dtype=np.int64).reshape(-1, 8)


Potential = tuple[Columns, Array]
"""A table of logarithms over some columns, one factor of a model. ``-inf`` forbids a cell."""


class Workspace:
    """The flat tables of one model while it is being calibrated or estimated.

    Parameters
    ----------
    tree
        The junction tree; every measured clique and every potential must fit in a bag.
    measured
        Cliques whose marginals the estimator steps on; none for plain calibration.
    fixed
        Other log potentials, which stay as they are.
    total
        Expected number of records.
    """

    def __init__(
        self, tree: JunctionTree, measured: Sequence[Columns], fixed: Sequence[Potential], total: float
    ) -> None:
        self.tree = tree
        self.n_measured = len(measured)
        self.layout = Layout(tree, [*measured, *(columns for columns, _ in fixed)], len(measured))
        self.total = total
        self.cells = np.zeros(self.layout.n_cells)
        self.vectors = np.zeros(max(1, self.layout.n_vectors))
        self._upward, self._downward = self.layout.upward(), self.layout.downward()
        if measured:
            self._sweep = self.layout.sweep()
            self._settle = self.layout.settle(evaluate=False)
            self._evaluate = self.layout.settle(evaluate=True)
        self._maps, self._index = self.layout.maps.arrays()
        self._scratch = np.empty(max([1, *self.layout.node_cells]))
        size = max(1, len(measured))
        self.kinds = np.zeros(size, dtype=np.int64)
        self._rates = np.ones(size)
        self._losses = np.zeros((size, 2))
        self.shift = np.zeros(1)
        for node, (_, values) in enumerate(fixed, start=len(measured)):
            self.theta(node)[...] = values

    def bag(self, bag: int) -> Array:
        """Return the table of one bag: a view with one axis per column."""
        start = self.layout.bag_start[bag]
        cells = self.tree.bag_cells[bag]
        return self.cells[start : start + cells].reshape(shape_of(self.tree.sizes, self.tree.bags[bag]))

    def _view(self, values: Array, starts: list[int], node: int) -> Array:
        shape = shape_of(self.tree.sizes, self.layout.nodes[node])
        return values[starts[node] : starts[node] + math.prod(shape)].reshape(shape)

    def theta(self, node: int) -> Array:
        """Return the log potential of a clique: a view."""
        return self._view(self.vectors, self.layout.theta, node)

    def target(self, node: int) -> Array:
        """Return the values a measured clique is pulled towards: a view."""
        return self._view(self.vectors, self.layout.target, node)

    def marginal(self, node: int) -> Array:
        """Return the marginal of a measured clique as of its last visit: a view."""
        return self._view(self.cells, self.layout.node_start, node)

    def _run(self, program: Ints) -> None:
        from understudy.engine.graphical import kernels as _kernels

        _kernels.execute(
            program, self._maps, self._index, self.cells, self.vectors, self._scratch,
            self.kinds, self._rates, self.total, self._losses, self.shift,
        )  # fmt: skip

    def load(self) -> float:
        """Calibrate the tree from the log potentials; return the log partition function.

        Raises
        ------
        ConstraintError
            If no record at all is possible under the potentials.
        """
        bags = self.layout.bag_start[-1] + self.tree.bag_cells[-1]
        self.cells[:bags] = 0.0
        self._run(self._upward)
        log_partition = float(self.vectors[self.layout.sep_new[0]])
        if not math.isfinite(log_partition):
            raise ConstraintError(
                "The structural zeros and constraints leave no possible record: every combination of values"
                " is forbidden by at least one of them. Relax one of them."
            )
        self.vectors[self.layout.sep_new[0]] = self.total
        self._run(self._downward)
        return log_partition

    def sweep(self, rates: Array) -> tuple[Array, Array]:
        """Run one epoch of block steps; bags agree again only after `settle` or `evaluate`.

        Returns what `evaluate` returns, with every marginal taken just before its own step.
        """
        self._rates = rates
        self._run(self._sweep)
        return self._losses[: self.n_measured, 0].copy(), self._losses[: self.n_measured, 1].copy()

    def settle(self) -> None:
        """Bring all bags into agreement."""
        self._run(self._settle)

    def evaluate(self, rates: Array) -> tuple[Array, Array]:
        """Bring all bags into agreement and recompute all measured marginals.

        Returns the raw loss of each (sum of squares, or of absolute values) and its share of the
        duality gap, see `understudy.engine.graphical.estimation`.
        """
        self._rates = rates
        self._run(self._evaluate)
        return self._losses[: self.n_measured, 0].copy(), self._losses[: self.n_measured, 1].copy()
