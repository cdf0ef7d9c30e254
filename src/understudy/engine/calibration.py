"""Calibrated trees: every bag holds the expected counts of its columns under the model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from understudy.engine.factors import Array, Columns, shape_of
from understudy.engine.junction import JunctionTree
from understudy.engine.layout import Layout
from understudy.engine.maps import Ints
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
        from understudy.engine import _kernels

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
        duality gap, see `understudy.engine.estimation`.
        """
        self._rates = rates
        self._run(self._evaluate)
        return self._losses[: self.n_measured, 0].copy(), self._losses[: self.n_measured, 1].copy()
