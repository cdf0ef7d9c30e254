"""Exact block steps over a tree, until an explicit duality gap is small.

The loss f(p) = sum_i L_i(M_i p) is minimised by a proximal-point method: around a reference ``r``

    minimise   f(p) + KL(p || r) / kappa        over tables p >= 0 with the given total,

then ``r`` moves to the solution. Its solution has the form p = r exp(sum_i theta_i) with one
potential per measured marginal, and for one marginal ``m`` at a time, the others kept, it is known
in closed form. With squared loss of weight ``w`` and q the marginal without its own potential,

    m = c q exp(kappa w (y - m)),   so   kappa w m = omega(log(kappa w c q) + kappa w y),

omega being the Wright function and c the factor that keeps the total. With absolute loss of weight
``w`` the solution is ``y`` clipped to c q exp(-kappa w) and c q exp(kappa w). A sweep takes these
steps one after the other in a depth-first walk over the tree. Each is an exact ascent step of the
dual, so there is no step size to choose and the dual never decreases.

At any potentials the distance of primal and dual is explicit. With squared loss it is

    gap = sum_i  w_i / 2 |m_i - y_i + theta_i / (kappa w_i)|^2,

and for every table q:  f(p) <= f(q) + gap + (KL(q || r) - KL(p || r)) / kappa. The descent ends when
both the gap and KL(p || r) / kappa are below the tolerance: the loss then can be improved noticeably
only by tables that are far away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.engine.calibration import Workspace
from understudy.engine.factors import Array
from understudy.engine.targets import GAUSSIAN, LAPLACE, Target

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
