"""Maximum likelihood: from noisy marginals to a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from understudy.engine.calibration import Potential, Workspace
from understudy.engine.descent import Descent
from understudy.engine.factors import Array, Columns
from understudy.engine.junction import JunctionTree, build_tree
from understudy.engine.local import backbone, consistent_tables
from understudy.engine.model import FitInfo, GraphicalModel, freeze_tables, named
from understudy.engine.order import order_of
from understudy.engine.support import Zeros, support_potentials
from understudy.engine.targets import (
    Target,
    collect_targets,
    constant_loss,
    estimate_total,
    squared_scale,
    untangle,
)
from understudy.errors import DomainTooLarge, WorkloadError
from understudy.marginals import Measurement
from understudy.schema import Domain

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
        or return a model of kind ``"local-consistency"`` (see `understudy.engine.local`).

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
