"""Where the tables of a model lie in memory, and the programs that `_kernels.execute` runs over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.engine.factors import Columns, cells_of
from understudy.engine.hierarchy import Branch, build_branches
from understudy.engine.junction import JunctionTree
from understudy.engine.maps import Ints, Maps

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
