"""Where the tables of a model lie in memory, and the programs that `_kernels.execute` runs over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from understudy.engine.factors import Columns, cells_of, shape_of, to_mask
from understudy.engine.junction import JunctionTree

Ints = npt.NDArray[np.int64]

BLOCK = 1024
"""Cells handled at a time: small enough to stay in the first-level cache between two operations."""

SHORT_RUN = 8
"""Runs shorter than this are addressed cell by cell."""

# Operations and patterns of `_kernels`, repeated here so that Numba is not imported with this module.
PASS, SEPARATE, COPY, STEP, RATIO, ADD, PEAK, EXP, MESSAGE, EVALUATE = range(10)
CELLS, KEPT, SUMMED = range(3)


class Maps:
    """Collects the maps from tables to smaller tables that some programs need."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._known: dict[tuple[Columns, Columns], int] = {}
        self._rows: list[tuple[int, ...]] = []
        self._pieces: list[npt.NDArray[np.int32]] = []
        self._length = 0

    def _append(self, values: Ints) -> int:
        start = self._length
        self._pieces.append(values.astype(np.int32))
        self._length += values.size
        return start

    def add(self, columns: Columns, target: Columns) -> int:
        """Return the number of the map that sums a table over ``columns`` down to ``target``."""
        key = (columns, target)
        if key in self._known:
            return self._known[key]
        shape = shape_of(self._sizes, columns)
        strides = dict(zip(target, _strides(shape_of(self._sizes, target)), strict=True))
        steps = [strides.get(column, 0) for column in columns]
        inner = len(shape)
        block = 1
        while inner > 0 and (block == 1 or block * shape[inner - 1] <= BLOCK):
            inner -= 1
            block *= shape[inner]
        offsets = _offsets(shape[:inner], steps[:inner])
        run, mode, cut = 1, CELLS, len(shape)
        if cut > inner:
            kept = steps[cut - 1] > 0 or shape[cut - 1] == 1 and columns[cut - 1] in strides
            while cut > inner and (columns[cut - 1] in strides) == kept:
                cut -= 1
                run *= shape[cut]
            mode = KEPT if kept else SUMMED
        if run < SHORT_RUN and run < block:
            run, mode, cut = 1, CELLS, len(shape)
        table = _offsets(shape[inner:cut], steps[inner:cut])
        row = (block, offsets.size, mode, run, self._append(offsets), self._append(table))
        self._known[key] = len(self._rows)
        self._rows.append(row)
        return self._known[key]

    def arrays(self) -> tuple[Ints, npt.NDArray[np.int32]]:
        """Return the matrix of maps and the flat array of indices they point into."""
        rows = np.array(self._rows, dtype=np.int64).reshape(-1, 6)
        return rows, np.concatenate(self._pieces) if self._pieces else np.zeros(0, dtype=np.int32)


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def _offsets(shape: Sequence[int], steps: Sequence[int]) -> Ints:
    offsets = np.zeros(1, dtype=np.int64)
    for size, step in zip(shape, steps, strict=True):
        offsets = (offsets[:, None] + step * np.arange(size, dtype=np.int64)).ravel()
    return offsets


@dataclass
class Layout:
    """Positions of bags, separators and measured marginals, and the programs over them.

    Measured marginals hang under the smallest measured marginal that contains them, or else under
    the smallest bag: a step on a small table then costs nothing on the large one.
    """

    tree: JunctionTree
    measured: Sequence[Columns]
    maps: Maps = field(init=False)
    bag_start: list[int] = field(init=False)
    node_start: list[int] = field(init=False)
    n_cells: int = field(init=False)
    sep_old: list[int] = field(init=False)
    sep_new: list[int] = field(init=False)
    incoming: list[int] = field(init=False)
    theta: list[int] = field(init=False)
    target: list[int] = field(init=False)
    n_vectors: int = field(init=False)

    def __post_init__(self) -> None:
        sizes = self.tree.sizes
        self.maps = Maps(sizes)
        self.bag_start, at = [], 0
        for cells in self.tree.bag_cells:
            self.bag_start.append(at)
            at += cells
        self.node_start = []
        self._node_cells = [cells_of(sizes, columns) for columns in self.measured]
        for cells in self._node_cells:
            self.node_start.append(at)
            at += cells
        self.n_cells = at
        at = 0
        self.sep_old, self.sep_new = [], []
        self._sep_cells = [cells_of(sizes, separator) for separator in self.tree.separators]
        for cells in self._sep_cells:
            self.sep_old.append(at)
            self.sep_new.append(at + cells)
            at += 2 * cells
        self.incoming, self.theta, self.target = [], [], []
        for cells in self._node_cells:
            self.incoming.append(at)
            self.theta.append(at + cells)
            self.target.append(at + 2 * cells)
            at += 3 * cells
        self.n_vectors = at
        self._nest()

    def _nest(self) -> None:
        """Find the table under which each measured marginal hangs, and which subtrees are measured."""
        masks = [to_mask(columns) for columns in self.measured]
        self.under_bag: list[list[int]] = [[] for _ in self.tree.bags]
        self.under_node: list[list[int]] = [[] for _ in self.measured]
        for node, mask in enumerate(masks):
            best, best_cells = -1, math.inf
            for other, outer in enumerate(masks):
                inside = mask & outer == mask and (mask != outer or other < node)
                if inside and self._node_cells[other] < best_cells:
                    best, best_cells = other, self._node_cells[other]
            if best >= 0:
                self.under_node[best].append(node)
            else:
                self.under_bag[self.tree.home(self.measured[node])].append(node)
        self.active = [bool(nodes) for nodes in self.under_bag]
        for bag in reversed(range(1, len(self.tree.bags))):
            if self.active[bag]:
                self.active[self.tree.parents[bag]] = True

    # ---- operations -------------------------------------------------------------------------------

    def _pass(
        self,
        start: int,
        columns: Columns,
        pending: tuple[Columns, int] | None,
        out: tuple[Columns, int] | None,
    ) -> list[tuple[int, ...]]:
        """Multiply a table by what is pending and sum it down to ``out``, in one go over memory."""
        if pending is None and out is None:
            return []
        map_a, vec_a = (self.maps.add(columns, pending[0]), pending[1]) if pending else (-1, 0)
        map_b, vec_b = (self.maps.add(columns, out[0]), out[1]) if out else (-1, 0)
        size = cells_of(self.tree.sizes, out[0]) if out else 0
        return [(PASS, start, map_a, vec_a, map_b, vec_b, size, 0)]

    def _separate(self, bag: int) -> tuple[int, ...]:
        return (SEPARATE, 0, 0, self.sep_new[bag], 0, self.sep_old[bag], self._sep_cells[bag], 0)

    def upward(self) -> Ints:
        """Turn log potentials into conditional probabilities given the separator, leaves first.

        Every separator row is scaled by its own maximum, so that no row is lost to underflow.
        """
        ops: list[tuple[int, ...]] = []
        tree = self.tree
        for bag in reversed(range(len(tree.bags))):
            start, size = self.bag_start[bag], self._sep_cells[bag]
            number = self.maps.add(tree.bags[bag], tree.separators[bag])
            new, old = self.sep_new[bag], self.sep_old[bag]
            ops.append((PEAK, start, number, new, 0, 0, size, 0))
            ops.append((EXP, start, number, new, number, old, size, 0))
            ops.append((MESSAGE, 0, 0, new, 0, old, size, 0))
            ops.append((PASS, start, number, old, -1, 0, 0, 0))
            if bag:
                parent = tree.parents[bag]
                number = self.maps.add(tree.bags[parent], tree.separators[bag])
                ops.append((ADD, self.bag_start[parent], number, new, 0, 0, size, 0))
        return _program(ops)

    def downward(self) -> Ints:
        """Multiply conditionals by the marginals of their separators, root first."""
        ops: list[tuple[int, ...]] = []
        tree = self.tree
        for bag in range(1, len(tree.bags)):
            parent, separator = tree.parents[bag], tree.separators[bag]
            link = (separator, self.sep_old[bag])
            ops += self._pass(self.bag_start[parent], tree.bags[parent], None, link)
            ops += self._pass(self.bag_start[bag], tree.bags[bag], link, None)
        return _program(ops)

    def refresh(self) -> Ints:
        """Bring all bags into agreement with the root after a sweep."""
        ops: list[tuple[int, ...]] = []
        tree = self.tree
        for bag in range(1, len(tree.bags)):
            parent, separator = tree.parents[bag], tree.separators[bag]
            link = (separator, self.sep_new[bag])
            ops += self._pass(self.bag_start[parent], tree.bags[parent], None, link)
            ops.append(self._separate(bag))
            ops += self._pass(self.bag_start[bag], tree.bags[bag], link, None)
        return _program(ops)

    def sweep(self) -> Ints:
        """One epoch: a depth-first walk that takes the exact block step of every measured marginal."""
        ops: list[tuple[int, ...]] = []
        self._visit(0, None, ops)
        return _program(ops)

    def _visit(self, bag: int, pending: tuple[Columns, int] | None, ops: list[tuple[int, ...]]) -> None:
        tree = self.tree
        start, columns = self.bag_start[bag], tree.bags[bag]
        for node in self.under_bag[bag]:
            ops += self._pass(start, columns, pending, (self.measured[node], self.incoming[node]))
            self._measure(node, ops, step=True)
            pending = (self.measured[node], self.incoming[node])
        for child in tree.children[bag]:
            if self.active[child]:
                link = (tree.separators[child], self.sep_new[child])
                ops += self._pass(start, columns, pending, link)
                ops.append(self._separate(child))
                self._visit(child, link, ops)
                ops.append(self._separate(child))
                pending = link
        out = (tree.separators[bag], self.sep_new[bag]) if bag else None
        ops += self._pass(start, columns, pending, out)

    def _measure(self, node: int, ops: list[tuple[int, ...]], *, step: bool) -> None:
        """Handle a measured marginal whose current value is in ``incoming``; leave its ratio there."""
        start, size = self.node_start[node], self._node_cells[node]
        ops.append((COPY, start, 0, self.incoming[node], 0, 0, size, 0))
        pending: tuple[Columns, int] | None = None
        for inner in self.under_node[node]:
            link = (self.measured[inner], self.incoming[inner])
            ops += self._pass(start, self.measured[node], pending, link)
            self._measure(inner, ops, step=step)
            pending = link if step else None
        ops += self._pass(start, self.measured[node], pending, None)
        code = STEP if step else EVALUATE
        ops.append((code, start, 0, self.theta[node], 0, self.target[node], size, node))
        if step:
            ops.append((RATIO, start, 0, self.incoming[node], 0, 0, size, 0))

    def evaluate(self) -> Ints:
        """Compute all measured marginals and their losses without changing the bags."""
        ops: list[tuple[int, ...]] = []
        for bag, nodes in enumerate(self.under_bag):
            for node in nodes:
                link = (self.measured[node], self.incoming[node])
                ops += self._pass(self.bag_start[bag], self.tree.bags[bag], None, link)
                self._measure(node, ops, step=False)
        return _program(ops)


def _program(ops: list[tuple[int, ...]]) -> Ints:
    return np.array(ops, dtype=np.int64).reshape(-1, 8)
