"""Entropy projection: the distribution nearest to uniform whose answers lie within given bounds.

Minimise ``KL(p || uniform on the support)`` over distributions ``p`` whose answers to some linear queries lie in
intervals. The solution is a graphical model: ``p(x)`` proportional to ``exp(sum_i lambda_i(x))`` with one table
``lambda_i`` over the columns of each constraint, zero wherever its interval is not binding. The dual is solved block by
block. With all other tables fixed the best table for one constraint follows from the marginal over its columns alone:

- cells of a marginal, ``low <= m <= high``: divide the marginal by ``exp(lambda)``, giving ``b``; the new marginal is
  ``clip(t b, low, high)`` with ``t`` such that the total is right, and ``lambda`` its logarithm less that of ``t b``;
- one linear query with values ``v``: ``lambda = s v`` with the smallest ``|s|`` for which the answer lies in the interval.

Each such step is the information projection onto one constraint, so that repeating them converges to the solution where
there is one (Csiszár 1975; Dykstra's method for inequalities, Bregman 1967). The distribution is held on a junction
tree: nothing over the whole domain is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.engine.graphical.calibration import Workspace
from understudy.engine.graphical.factors import Columns, sum_to
from understudy.engine.graphical.junction import build_tree, order_of
from understudy.engine.graphical.model import GraphicalModel, named
from understudy.engine.graphical.targets import Zeros, support_potentials
from understudy.errors import DomainTooLarge, WorkloadError
from understudy.schema import Clique, Domain

__all__ = ["EntropyProjection"]

Array = npt.NDArray[np.float64]

_LEAST = 1e-6
"""Least upper bound of a cell, in records: a cell is never ruled out by noise alone."""
_STEEPEST = 40.0
"""Largest absolute tilt of a query."""


@dataclass(eq=False)
class _Bound:
    """One constraint: bounds on the cells of a clique, or on one query over it; axes as the engine orders them."""

    columns: Columns
    low: Array
    high: Array
    query: Array | None
    theta: Array

    def violation(self, marginal: Array) -> float:
        """Return by how many records the bounds are missed."""
        predicted = marginal if self.query is None else np.array((marginal * self.query).sum())
        return float(np.maximum(self.low - predicted, 0).sum() + np.maximum(predicted - self.high, 0).sum())


class EntropyProjection:
    """A distribution on a junction tree, projected onto one constraint after another.

    Parameters
    ----------
    domain
        The columns.
    total
        Number of records.
    zeros
        Cliques with boolean tables: ``True`` where a combination may occur.
    max_cells
        Largest junction tree, in cells.

    Examples
    --------
    >>> held = EntropyProjection(Domain(("a", "b"), (2, 2)), 100.0)
    >>> held.bound_cells(("a", "b"), np.array([[40.0, 0.0], [0.0, 40.0]]), np.array([[60.0, 5.0], [5.0, 60.0]]))
    >>> held.project(updates=20) < 1e-6
    True
    >>> held.model().marginal(("a", "b")).round(3)
    array([[45.,  5.],
           [ 5., 45.]])
    """

    def __init__(
        self, domain: Domain, total: float, *, zeros: Sequence[Zeros] = (), max_cells: int = 64_000_000
    ) -> None:
        self.domain = domain
        self.total = float(total)
        self.max_cells = max_cells
        self._order = order_of(domain)
        self._support = support_potentials(domain, zeros)
        self._bounds: list[_Bound] = []
        self._held: Workspace | None = None
        self._nodes: dict[Columns, int] = {}

    def bound_cells(self, clique: Clique, low: Array, high: Array) -> None:
        """Ask that every cell of a marginal lies between two numbers of records.

        Bounds that no table with the right total can keep are moved apart, all cells alike, until one can.
        """
        if low.shape != self.domain.shape(clique) or high.shape != low.shape or (high < low).any():
            raise WorkloadError(f"The bounds on {', '.join(clique)} do not fit its cells.")
        low, high = np.maximum(low, 0.0), np.maximum(high, _LEAST)
        room = max(1.0, 1e-3 * self.total / low.size)
        while low.sum() > self.total or high.sum() < self.total:
            low, high = np.maximum(low - room, 0.0), high + room
            room *= 1.5
        columns = self._order.columns(clique)
        inward = [self._order.inward(clique, side) for side in (low, high)]
        self._bounds.append(_Bound(columns, inward[0], inward[1], None, np.zeros_like(inward[0])))
        self._held = None

    def bound_query(self, clique: Clique, values: Array, low: float, high: float) -> None:
        """Ask that the sum of a value per record lies between two numbers."""
        if values.shape != self.domain.shape(clique) or not low <= high:
            raise WorkloadError(f"The query over {', '.join(clique)} does not fit its cells, or its bounds.")
        least, most = self.total * float(values.min()), self.total * float(values.max())
        low, high = min(max(low, least), most), min(max(high, least), most)
        columns, query = self._order.columns(clique), self._order.inward(clique, values)
        self._bounds.append(_Bound(columns, np.array(low), np.array(high), query, np.zeros_like(query)))
        self._held = None

    def project(self, *, updates: int, tolerance: float = 0.0) -> float:
        """Project onto the newest constraint, then onto the one that is missed by most, some times.

        Returns
        -------
        float
            The largest number of records by which a constraint is still missed.
        """
        if not self._bounds:
            return 0.0
        place = len(self._bounds) - 1
        worst = np.inf
        for _ in range(max(1, updates)):
            self._update(self._bounds[place])
            missed = [item.violation(self._marginal(item.columns)) for item in self._bounds]
            place = int(np.argmax(missed))
            worst = missed[place]
            if worst <= tolerance:
                break
        return float(worst)

    def sweep(self, times: int) -> None:
        """Project onto every constraint in turn, which also loosens those that no longer bind."""
        for _ in range(times):
            for item in self._bounds:
                self._update(item)

    def model(self) -> GraphicalModel:
        """Return the distribution as it is now."""
        self._workspace()
        sums = {columns: self._theta(columns) for columns in self._nodes}
        kept = [(columns, values - values.mean()) for columns, values in sums.items()]
        return GraphicalModel(self.domain, self.total, named(self.domain, [*kept, *self._support]))

    # ------------------------------------------------------------------ one step

    def _update(self, item: _Bound) -> None:
        marginal = self._marginal(item.columns)
        if item.violation(marginal) == 0 and not item.theta.any():
            return
        base = marginal * np.exp(-item.theta)
        item.theta = self._cells(item, base) if item.query is None else self._tilt(item, base)
        workspace = self._workspace()
        workspace.theta(self._nodes[item.columns])[...] = self._theta(item.columns)
        workspace.load()

    def _cells(self, item: _Bound, base: Array) -> Array:
        possible = base > 0
        b, low, high = base[possible], item.low[possible], item.high[possible]
        if not b.size or high.sum() <= self.total or low.sum() >= self.total:
            return (
                item.theta
            )  # what the support leaves cannot meet the total; leave it to the other constraints
        small, large = -60.0, 60.0
        middle = float(np.log(self.total / b.sum()))
        for _ in range(60):
            step = 0.5 * (small + large)
            if np.clip(np.exp(middle + step) * b, low, high).sum() < self.total:
                small = step
            else:
                large = step
        scaled = np.exp(middle + 0.5 * (small + large)) * b
        theta = np.zeros_like(base)
        theta[possible] = np.log(np.clip(scaled, np.maximum(low, 1e-30), high) / scaled)
        return np.clip(theta, -_STEEPEST, _STEEPEST)

    def _tilt(self, item: _Bound, base: Array) -> Array:
        assert item.query is not None
        values = item.query

        def answer(slope: float) -> float:
            grown = base * np.exp(slope * values - max(0.0, slope))
            return float(self.total * (grown * values).sum() / grown.sum())

        now = answer(0.0)
        if item.low <= now <= item.high:
            return np.zeros_like(base)
        wanted = float(item.low if now < item.low else item.high)
        small, large = (0.0, _STEEPEST) if now < wanted else (-_STEEPEST, 0.0)
        for _ in range(60):
            middle = 0.5 * (small + large)
            small, large = (middle, large) if answer(middle) < wanted else (small, middle)
        tilted: Array = 0.5 * (small + large) * values
        return tilted

    # ------------------------------------------------------------------ the tree

    def _theta(self, columns: Columns) -> Array:
        tables = [item.theta for item in self._bounds if item.columns == columns]
        return np.asarray(sum(tables), dtype=np.float64)

    def _workspace(self) -> Workspace:
        """Return the calibrated tree of all constraints, built again when there is a new one."""
        if self._held is None:
            cliques = list(dict.fromkeys(item.columns for item in self._bounds))
            fixed = [*((columns, self._theta(columns)) for columns in cliques), *self._support]
            tree = build_tree(self._order.sizes, [columns for columns, _ in fixed])
            if tree.cells > self.max_cells:
                raise DomainTooLarge(
                    f"The junction tree of the constraints needs {tree.cells:,} cells; {self.max_cells:,} are allowed.",
                    cells=tree.cells,
                    allowed=self.max_cells,
                )
            self._held = Workspace(tree, [], fixed, self.total)
            self._held.load()
            self._nodes = {columns: node for node, columns in enumerate(cliques)}
        return self._held

    def _marginal(self, columns: Columns) -> Array:
        workspace = self._workspace()
        home = workspace.tree.home(columns)
        return np.array(sum_to(workspace.bag(home), workspace.tree.bags[home], columns))
