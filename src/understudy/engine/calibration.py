"""Calibrated trees: every bag holds the expected counts of its columns under the model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from understudy.engine.factors import Array, Columns, shape_of, spread, to_mask
from understudy.engine.junction import JunctionTree
from understudy.engine.layout import Ints, Layout
from understudy.errors import ConstraintError

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
    total
        Expected number of records.
    """

    def __init__(self, tree: JunctionTree, measured: Sequence[Columns], total: float) -> None:
        self.tree = tree
        self.layout = Layout(tree, measured)
        self.total = total
        self.cells = np.zeros(self.layout.n_cells)
        self.vectors = np.zeros(max(1, self.layout.n_vectors))
        self._upward, self._downward = self.layout.upward(), self.layout.downward()
        self._sweep = self.layout.sweep() if measured else None
        self._refresh = self.layout.refresh() if measured else None
        self._evaluate = self.layout.evaluate() if measured else None
        self._maps, self._index = self.layout.maps.arrays()
        self._scratch = np.empty(max([1, *(self.theta(k).size for k in range(len(measured)))]))
        self.kinds = np.zeros(max(1, len(measured)), dtype=np.int64)
        self.losses = np.zeros(max(1, len(measured)))
        self._rates = np.ones(max(1, len(measured)))

    def bag(self, bag: int) -> Array:
        """Return the table of one bag: a view with one axis per column."""
        start = self.layout.bag_start[bag]
        cells = self.tree.bag_cells[bag]
        return self.cells[start : start + cells].reshape(shape_of(self.tree.sizes, self.tree.bags[bag]))

    def _view(self, starts: list[int], node: int) -> Array:
        shape = shape_of(self.tree.sizes, self.layout.measured[node])
        return self.vectors[starts[node] : starts[node] + math.prod(shape)].reshape(shape)

    def theta(self, node: int) -> Array:
        """Return the log potential of a measured clique: a view."""
        return self._view(self.layout.theta, node)

    def target(self, node: int) -> Array:
        """Return the values a measured clique is pulled towards: a view."""
        return self._view(self.layout.target, node)

    def marginal(self, node: int) -> Array:
        """Return the marginal of a measured clique as of its last visit: a view."""
        shape = shape_of(self.tree.sizes, self.layout.measured[node])
        start = self.layout.node_start[node]
        return self.cells[start : start + math.prod(shape)].reshape(shape)

    def _run(self, program: Ints, memory: float = 0.0) -> None:
        from understudy.engine import _kernels

        _kernels.execute(
            program, self._maps, self._index, self.cells, self.vectors, self._scratch,
            self.kinds, self._rates, memory, self.total, self.losses,
        )  # fmt: skip

    def load(self, potentials: Sequence[Potential]) -> float:
        """Calibrate the tree from log potentials; return the log partition function.

        Raises
        ------
        ConstraintError
            If no record at all is possible under the potentials.
        """
        for bag, table in enumerate(_gather(self.tree, potentials)):
            if table is None:
                self.bag(bag)[...] = 0.0
            else:
                self.bag(bag)[...] = table
        self._run(self._upward)
        log_partition = float(self.vectors[self.layout.sep_new[0]])
        if not math.isfinite(log_partition):
            raise ConstraintError(
                "The structural zeros and constraints leave no possible record: every combination of values"
                " is forbidden by at least one of them. Relax one of them."
            )
        self.bag(0)[...] *= self.total
        self._run(self._downward)
        return log_partition

    def sweep(self, rates: Array, memory: float) -> None:
        """Run one epoch of block steps."""
        self._rates = rates
        if self._sweep is not None:
            self._run(self._sweep, memory)

    def refresh(self) -> None:
        """Bring all bags into agreement with the root."""
        if self._refresh is not None:
            self._run(self._refresh)

    def evaluate(self) -> Array:
        """Recompute all measured marginals; return the raw loss of each (sum of squares or of sizes)."""
        if self._evaluate is not None:
            self._run(self._evaluate)
        return self.losses


def _gather(tree: JunctionTree, potentials: Sequence[Potential]) -> list[Array | None]:
    """Sum the potentials of each bag, small ones first into larger ones that contain them."""
    ordered = sorted(potentials, key=lambda item: (len(item[0]), item[0]))
    pending: list[tuple[int, Columns, Array]] = []
    for columns, values in ordered:
        pending.append((to_mask(columns), columns, values))
    tables: list[Array | None] = [None] * len(tree.bags)
    for place, (mask, columns, values) in enumerate(pending):
        for later in range(place + 1, len(pending)):
            other, outer, larger = pending[later]
            if mask & other == mask:
                pending[later] = (other, outer, larger + spread(values, columns, outer))
                break
        else:
            bag = tree.home(columns)
            term = spread(values, columns, tree.bags[bag])
            current = tables[bag]
            if current is None:
                tables[bag] = np.array(np.broadcast_to(term, shape_of(tree.sizes, tree.bags[bag])))
            else:
                current += term
    return tables
