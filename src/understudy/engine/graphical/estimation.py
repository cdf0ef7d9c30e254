"""Maximum likelihood: from noisy marginals to a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from understudy.engine.graphical.calibration import Potential, Workspace
from understudy.engine.graphical.consistency import Consistency
from understudy.engine.graphical.factors import Array, Columns, spread, sum_to
from understudy.engine.graphical.junction import JunctionTree, build_tree, order_of, triangulate
from understudy.engine.graphical.model import FitInfo, GraphicalModel, freeze_tables, named
from understudy.engine.graphical.targets import (
    GAUSSIAN,
    LAPLACE,
    Target,
    Zeros,
    collect_targets,
    constant_loss,
    estimate_total,
    forbidden_cells,
    squared_scale,
    support_potentials,
    untangle,
)
from understudy.errors import DomainTooLarge, WorkloadError
from understudy.marginals import Measurement
from understudy.schema import Domain

# ----------------------------------------------------------------------------------------
# Exact block steps over a tree, until an explicit duality gap is small.
#
# The loss f(p) = sum_i L_i(M_i p) is minimised by a proximal-point method: around a reference ``r``
#
#     minimise   f(p) + KL(p || r) / kappa        over tables p >= 0 with the given total,
#
# then ``r`` moves to the solution. Its solution has the form p = r exp(sum_i theta_i) with one
# potential per measured marginal, and for one marginal ``m`` at a time, the others kept, it is known
# in closed form. With squared loss of weight ``w`` and q the marginal without its own potential,
#
#     m = c q exp(kappa w (y - m)),   so   kappa w m = omega(log(kappa w c q) + kappa w y),
#
# omega being the Wright function and c the factor that keeps the total. With absolute loss of weight
# ``w`` the solution is ``y`` clipped to c q exp(-kappa w) and c q exp(kappa w). A sweep takes these
# steps one after the other in a depth-first walk over the tree. Each is an exact ascent step of the
# dual, so there is no step size to choose and the dual never decreases.
#
# At any potentials the distance of primal and dual is explicit. With squared loss it is
#
#     gap = sum_i  w_i / 2 |m_i - y_i + theta_i / (kappa w_i)|^2,
#
# and for every table q:  f(p) <= f(q) + gap + (KL(q || r) - KL(p || r)) / kappa. The descent ends when
# both the gap and KL(p || r) / kappa are below the tolerance: the loss then can be improved noticeably
# only by tables that are far away.

_LARGEST_RATE = 1e11
"""Bound on kappa times weight times total: beyond it doubles cannot tell neighbouring steps apart."""

_LARGEST_ABSOLUTE_RATE = 20.0
"""With absolute loss a potential may move by kappa times weight either way: exp(20) is far enough."""


@dataclass(frozen=True)
class Outcome:
    """How a descent ended: epochs run, loss, gap and whether the gap is below the tolerance."""

    epochs: int
    loss: float
    gap: float
    converged: bool


class Descent:
    """Block steps on a workspace whose tree is calibrated at a reference.

    Parameters
    ----------
    workspace
        Calibrated; its log potentials are those of the reference.
    targets
        One per measured node of the workspace.
    kappa
        How far a proximal problem may lead from its reference.
    """

    def __init__(self, workspace: Workspace, targets: list[Target], kappa: float) -> None:
        self._workspace = workspace
        weights = np.array([target.weight for target in targets])
        self._factors = np.array([0.5 if target.kind == GAUSSIAN else 1.0 for target in targets]) * weights
        self._kappa = min(kappa, _LARGEST_RATE / (float(weights.max()) * workspace.total))
        absolute = [target.weight for target in targets if target.kind == LAPLACE]
        if absolute:
            self._kappa = min(self._kappa, _LARGEST_ABSOLUTE_RATE / max(absolute))
        self._rates = self._kappa * weights
        self._reference = [workspace.theta(node).copy() for node in range(len(targets))]
        self._restart()

    def _restart(self) -> None:
        for node in range(self._workspace.n_measured):
            self._workspace.theta(node)[...] = 0.0
        self._workspace.shift[0] = 0.0

    def _recentre(self) -> None:
        for node, reference in enumerate(self._reference):
            reference += self._workspace.theta(node)
        self._restart()

    def _moved(self) -> float:
        """Return KL(p || reference) / kappa, with marginals as of their last visit."""
        space = self._workspace
        inner = sum(
            float((space.theta(node) * space.marginal(node)).sum()) for node in range(space.n_measured)
        )
        return max(0.0, (inner + space.total * float(space.shift[0])) / self._kappa)

    def run(self, bar: float, max_epochs: int) -> Outcome:
        """Sweep until gap and distance are below ``bar``; the tree is calibrated afterwards."""
        space = self._workspace
        epochs = 0
        while True:
            if epochs < max_epochs:
                _, shares = space.sweep(self._rates)
                epochs += 1
                gap = float(shares.sum()) / self._kappa
            if epochs >= max_epochs or gap <= 2.0 * bar:
                raw, shares = space.evaluate(self._rates)
                gap = float(shares.sum()) / self._kappa
                moved = self._moved()
                if epochs >= max_epochs or (gap <= bar and moved <= bar):
                    return Outcome(
                        epochs, float((self._factors * raw).sum()), gap, gap <= bar and moved <= bar
                    )
            if gap <= self._moved():
                self._recentre()

    def potentials(self) -> list[Array]:
        """Return the log potential of every measured node, reference included."""
        return [reference + self._workspace.theta(node) for node, reference in enumerate(self._reference)]


# ----------------------------------------------------------------------------------------
# A fallback for marginals whose junction tree does not fit: local consistency.
#
# The measured tables are replaced by the nearest tables (in the weights of their noise) that are
# non-negative, have the same total and agree on every shared set of columns. They need not be the
# marginals of any joint table, which is what a junction tree would guarantee, but they use every
# measurement and cost no more memory than the measurements. Questions inside a measured clique are
# answered from them. Everything else, and sampling, uses a *backbone*: an exact model of as many of
# these tables as fit, the most informative first.

_ITERATIONS = 5000
_TOLERANCE = 1e-9


def consistent_tables(
    sizes: Sequence[int], targets: Sequence[Target], support: Sequence[Potential], total: float
) -> list[Target]:
    """Return the targets with their values replaced by agreeing non-negative tables.

    Measurements are weighted by their precision whatever their kind of loss. Support restrictions are
    applied where a measured clique contains their columns.
    """
    values = np.concatenate([target.values.ravel() for target in targets])
    agree = Consistency(
        sizes, [target.columns for target in targets], [_precision(item) for item in targets], total
    )
    forbidden = np.concatenate(
        [forbidden_cells(target.columns, target.values.shape, support).ravel() for target in targets]
    )
    _, nearest, _ = agree.untangle(
        values, forbidden=forbidden if forbidden.any() else None, tolerance=_TOLERANCE, iterations=_ITERATIONS
    )
    nearest = np.where(forbidden, 0.0, np.maximum(nearest, 0.0))
    tables = []
    for target, start, end in zip(targets, agree.starts, agree.starts[1:], strict=False):
        table = nearest[start:end].reshape(target.values.shape)
        tables.append(Target(target.columns, table * (total / table.sum()), target.weight, target.kind))
    return tables


def _precision(target: Target) -> float:
    """Return the inverse variance: that of Laplace noise of scale b is 1 / (2 b^2)."""
    return target.weight if target.kind == 0 else 0.5 * target.weight**2


def backbone(
    sizes: Sequence[int], tables: Sequence[Target], support: Sequence[Potential], max_cells: int
) -> list[int]:
    """Choose tables whose junction tree fits, by how much they say beyond their one-way tables."""
    cliques: list[Columns] = [columns for columns, _ in support]
    chosen: list[int] = []
    ranking = sorted(range(len(tables)), key=lambda index: (-_information(tables[index]), index))
    for index in ranking:
        if triangulate(sizes, [*cliques, tables[index].columns]).cells <= max_cells:
            cliques.append(tables[index].columns)
            chosen.append(index)
    return sorted(chosen)


def _information(table: Target) -> float:
    """Return the divergence of a table from the product of its one-way tables, in nats times records."""
    total = float(table.values.sum())
    product: Array = np.full(table.values.shape, total)
    for column in table.columns:
        share = sum_to(table.values, table.columns, (column,)) / total
        product = product * spread(share, (column,), table.columns)
    positive = table.values > 0
    return float(np.sum(table.values[positive] * np.log(table.values[positive] / product[positive])))


DEFAULT_MAX_CELLS = 64_000_000
LEAST_KAPPA = 100.0
DEFAULT_TOLERANCE = 0.1
THOROUGH_TOLERANCE = 0.02
DEFAULT_MAX_EPOCHS = 30
THOROUGH_MAX_EPOCHS = 100


def estimate(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    total: float | None = None,
    zeros: Sequence[Zeros] = (),
    warm_start: GraphicalModel | None = None,
    keep_start: bool = False,
    max_cells: int = DEFAULT_MAX_CELLS,
    thorough: bool = False,
    tolerance: float | None = None,
    max_epochs: int | None = None,
    kappa: float | None = None,
    laplace: Literal["variance", "likelihood"] = "variance",
    if_too_large: Literal["refuse", "local-consistency"] = "refuse",
) -> GraphicalModel:
    """Return the maximum-likelihood model of noisy marginals.

    Minimises ``sum_i 1 / (2 variance_i) |M_i p - y_i|^2`` over all tables p with the given total and
    support. Among the minimisers it returns the one that is a graphical model over the measured
    cliques.

    Parameters
    ----------
    domain
        The columns.
    measurements
        Noisy marginals. Repeated and nested ones are welcome.
    total
        The number of records if it is public. Otherwise it is estimated from the measurements, as
        their minimum-variance unbiased combination.
    zeros
        Cliques with boolean tables: ``True`` where a combination of values may occur.
    warm_start
        An earlier model over the same domain to start from: its potentials are kept where they fit.
    keep_start
        Make the tree hold all cliques of the warm start. What was not measured then keeps the relations it
        had there: the warm start serves as a prior.
    max_cells
        Largest junction tree, in cells of 8 bytes.
    thorough
        Use the tighter of the two default tolerances, for a final estimate.
    tolerance
        The descent stops when its duality gap is below ``tolerance`` times half the number of measured
        cells, which is the loss to expect of the true table.
    max_epochs
        Cap on sweeps over all measurements; ``model.info.converged`` tells whether it was hit.
    kappa
        Width of a proximal step. Results do not depend on it and speed only a little; by default it
        grows with the number of records per measured cell.
    laplace
        How Laplace measurements count: by their variance, as if Gaussian (default), or by their own
        likelihood, which is absolute loss. Where noise exceeds counts absolute loss hardly tells large
        cells from small ones (taking a record off any cell with a positive value costs the same), and
        the error came out a third larger; at little noise there was no difference.
    if_too_large
        What to do when the junction tree of the measured cliques has more than ``max_cells``: refuse,
        or return a model of kind ``"local-consistency"`` (see `understudy.engine.graphical.estimation`).

    Returns
    -------
    GraphicalModel
        With ``model.info`` holding loss, gap and a lower bound on the loss of any table.

    Raises
    ------
    DomainTooLarge
        If the junction tree is too large and no fallback is wanted, or if the support restrictions or
        single columns alone are too large.
    ConstraintError
        If the support restrictions leave no possible record.

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> noisy = Measurement(("a", "b"), np.array([[5.0, -1.0], [2.0, 4.0]]), "gaussian", 1.0)
    >>> model = estimate(domain, [noisy], total=10.0, tolerance=1e-9, max_epochs=1000)
    >>> model.marginal(("a",)).round(3)
    array([4.667, 5.333])
    """
    if total is None:
        total = estimate_total(measurements)
    if not (math.isfinite(total) and total > 0):
        raise WorkloadError(f"The total ({total}) must be positive and finite.")
    if tolerance is None:
        tolerance = THOROUGH_TOLERANCE if thorough else DEFAULT_TOLERANCE
    if max_epochs is None:
        max_epochs = THOROUGH_MAX_EPOCHS if thorough else DEFAULT_MAX_EPOCHS
    order = order_of(domain)
    support = support_potentials(domain, zeros)
    targets = collect_targets(domain, measurements, absolute_laplace=laplace == "likelihood")
    kept: Sequence[Potential] = ()
    if keep_start and warm_start is not None:
        kept = warm_start.column_potentials()
    tree = _tree(order.sizes, targets, [*support, *kept])
    local: list[Potential] = []
    if tree.cells > max_cells and if_too_large == "local-consistency" and targets:
        tables = consistent_tables(order.sizes, targets, support, total)
        local = [(table.columns, table.values) for table in tables]
        pinned = [*support, *kept]
        targets = [tables[index] for index in backbone(order.sizes, tables, pinned, max_cells)]
        tree = _tree(order.sizes, targets, pinned)
    _check_size(tree, max_cells)
    constant = 0.0 if local else constant_loss(domain, measurements, targets, total)
    targets, bound, shift = untangle(order.sizes, targets, total, support=support, tolerance=0.01 * tolerance)
    earlier = _earlier_potentials(tree, warm_start, domain)
    measured = {target.columns for target in targets}
    fixed = [*support, *((columns, values) for columns, values in earlier.items() if columns not in measured)]
    workspace = Workspace(tree, [target.columns for target in targets], fixed, total)
    _fill(workspace, targets, earlier)
    workspace.load()
    potentials: list[Potential] = []
    info = FitInfo(loss=constant, bound=constant)
    if targets:
        bar = tolerance * squared_scale(targets)
        if kappa is None:
            kappa = max(LEAST_KAPPA, 4.0 * total / squared_scale(targets))
        descent = Descent(workspace, targets, kappa)
        outcome = descent.run(bar, max_epochs)
        potentials = [
            (target.columns, values) for target, values in zip(targets, descent.potentials(), strict=True)
        ]
        loss = outcome.loss + shift + constant
        info = FitInfo(outcome.epochs, loss, outcome.gap, bound + constant, bar, outcome.converged)
    model = GraphicalModel(
        domain, total, named(domain, _merged([*potentials, *fixed])), named(domain, local), info
    )
    model.__dict__["tree"] = tree  # already built and calibrated: spare the cached properties the work
    model.__dict__["tables"] = freeze_tables(workspace)
    return model


def _tree(sizes: Sequence[int], targets: Sequence[Target], support: Sequence[Potential]) -> JunctionTree:
    return build_tree(sizes, [*(target.columns for target in targets), *(columns for columns, _ in support)])


def _check_size(tree: JunctionTree, max_cells: int) -> None:
    if tree.cells > max_cells:
        raise DomainTooLarge(
            f"The junction tree of the measured marginals needs {tree.cells:,} cells; {max_cells:,} are allowed."
            " Measure fewer or smaller marginals, use coarser bins, or raise max_cells.",
            cells=tree.cells,
            allowed=max_cells,
        )


def _earlier_potentials(
    tree: JunctionTree, warm_start: GraphicalModel | None, domain: Domain
) -> dict[Columns, Array]:
    """Return the finite parts of an earlier model's potentials, by columns, where they fit into the tree."""
    if warm_start is None:
        return {}
    if warm_start.domain != domain:
        raise WorkloadError("A warm start must be a model over the same columns.")
    return {
        columns: np.where(np.isfinite(values), values, 0.0)
        for columns, values in warm_start.column_potentials()
        if tree.home(columns) >= 0 and np.isfinite(values).all()
    }


def _fill(workspace: Workspace, targets: Sequence[Target], earlier: dict[Columns, Array]) -> None:
    """Write targets and starting potentials into a workspace."""
    used: set[Columns] = set()
    for node, target in enumerate(targets):
        workspace.target(node)[...] = target.values
        workspace.kinds[node] = target.kind
        if target.columns in earlier and target.columns not in used:
            workspace.theta(node)[...] = earlier[target.columns]
            used.add(target.columns)


def _merged(potentials: Sequence[Potential]) -> list[Potential]:
    """Add up potentials over the same columns and remove the constants, which mean nothing."""
    sums: dict[Columns, Array] = {}
    for columns, values in potentials:
        sums[columns] = sums[columns] + values if columns in sums else values
    result = []
    for columns, values in sums.items():
        finite = values[np.isfinite(values)]
        result.append((columns, values - finite.mean()))
    return result
