"""Maximum likelihood: from noisy marginals to a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.engine.calibration import Potential, Workspace
from understudy.engine.factors import to_columns
from understudy.engine.junction import build_tree
from understudy.engine.model import FitInfo, GraphicalModel, freeze_tables, named
from understudy.engine.support import Zeros, support_potentials
from understudy.engine.targets import collect_targets, estimate_total, reconcile, squared_scale
from understudy.errors import DomainTooLarge, WorkloadError
from understudy.marginals import Measurement
from understudy.schema import Domain

DEFAULT_MAX_CELLS = 40_000_000


def estimate(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    total: float | None = None,
    zeros: Sequence[Zeros] = (),
    warm_start: GraphicalModel | None = None,
    max_cells: int = DEFAULT_MAX_CELLS,
    tolerance: float = 1e-3,
    max_epochs: int = 200,
    thorough: bool = False,
    kappa: float = 5.0,
) -> GraphicalModel:
    """Return the maximum-likelihood model of noisy marginals."""
    if total is None:
        total = estimate_total(measurements)
    if not total > 0:
        raise WorkloadError(f"The total ({total}) must be positive.")
    support = support_potentials(domain, zeros)
    targets = reconcile(domain.sizes, collect_targets(domain, measurements), total)
    cliques = [target.columns for target in targets] + [columns for columns, _ in support]
    tree = build_tree(domain.sizes, cliques)
    if tree.cells > max_cells:
        raise DomainTooLarge(
            f"The model needs {tree.cells:,} cells; {max_cells:,} are allowed.",
            cells=tree.cells,
            allowed=max_cells,
        )
    workspace = Workspace(tree, [target.columns for target in targets], total)
    for node, target in enumerate(targets):
        workspace.target(node)[...] = target.values
        workspace.kinds[node] = target.kind
    extra = _start(workspace, warm_start)
    potentials = [*support, *extra]
    potentials += [(target.columns, workspace.theta(node)) for node, target in enumerate(targets)]
    workspace.load(potentials)
    info = _descend(workspace, targets, kappa, tolerance, max_epochs)
    final = [(columns, values) for columns, values in potentials]
    model = GraphicalModel(domain, total, named(domain, final), (), info)
    model.__dict__["tree"] = tree
    model.__dict__["tables"] = freeze_tables(workspace)
    return model


def _start(workspace: Workspace, warm_start: GraphicalModel | None) -> list[Potential]:
    """Copy the potentials of an earlier model into the workspace; return those without a place."""
    if warm_start is None:
        return []
    place = {columns: node for node, columns in reversed(list(enumerate(workspace.layout.measured)))}
    extra = []
    for clique, values in warm_start.potentials:
        columns = to_columns(warm_start.domain, clique)
        finite = np.where(np.isfinite(values), values, 0.0)
        if columns in place:
            workspace.theta(place[columns])[...] += finite
        elif workspace.tree.home(columns) >= 0:
            extra.append((columns, finite))
    return extra


def _descend(
    workspace: Workspace, targets: Sequence[object], kappa: float, tolerance: float, max_epochs: int
) -> FitInfo:
    if not targets:
        return FitInfo(0, 0.0, 0.0, tolerance, True)
    weights = np.array([target.weight for target in targets])  # type: ignore[attr-defined]
    halves = np.where(workspace.kinds[: len(targets)] == 0, 0.5, 1.0) * weights
    bar = tolerance * squared_scale(targets)  # type: ignore[arg-type]
    before = float(halves @ workspace.evaluate()[: len(targets)])
    gap = np.inf
    epoch = 0
    while epoch < max_epochs and gap > bar:
        workspace.sweep(kappa * weights, 0.0)
        epoch += 1
        workspace.refresh()
        loss = float(halves @ workspace.evaluate()[: len(targets)])
        gap = abs(before - loss)
        before = loss
    return FitInfo(epoch, before, gap, bar, gap <= bar)
