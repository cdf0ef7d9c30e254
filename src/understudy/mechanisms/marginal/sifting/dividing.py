"""Which marginals are worth their noise: distances without noise, and a cost divided between marginals by the error to expect.

Works on released numbers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.mechanisms.allocation import direct_weights
from understudy.mechanisms.graphs.privsyn import select_pairs, share_power
from understudy.privacy import Accounting
from understudy.schema import Clique

__all__ = ["Division", "divide", "importance", "without_noise"]

Array = npt.NDArray[np.float64]

_KINDS, _WEIGHINGS = 12, 300
"""Distances are a mixture of so many exponential distributions, whose weights are found in so many steps."""


@dataclass(frozen=True, eq=False)
class Division:
    """How a cost is divided between marginals, nothing for those that are not measured, and the error to expect."""

    shares: Array
    error: float


def divide(
    gaps: Array, cells: Array, weights: Array, *, one_cell: float, accounting: Accounting, worth: float = 1.0
) -> Division:
    """Divide a cost between marginals so that the error to expect is least.

    A marginal that is not measured has its gap ``g`` as error. One that is measured with noise ``v`` has ``g v / sqrt(g² + v²)``, since noise is taken out by what was expected of it.
    Where costs add up as precisions do, ``v = one_cell n / sqrt(x)`` for ``n`` cells and a share ``x``, the error ``g m / sqrt(g² x + m²)`` with ``m = one_cell n`` is convex in ``x``, and so the
    best shares are those at which the error falls equally fast everywhere, or that are zero. Under pure budgets it is not convex: marginals are chosen greedily as in PrivSyn.

    Parameters
    ----------
    gaps
        How far the marginals are from what is known of them, in rows.
    cells, weights
        Their cells, and how much they matter.
    one_cell
        Expected absolute noise of a cell that gets the whole cost, as far as it is felt.
    worth
        Marginals are left out that would keep more than this part of their gap as error. How far noise can be taken out is not known exactly, so that many poor measurements are worse than the formula says.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import GDP_ACCOUNTING
    >>> divide(np.array([900.0, 5.0, 400.0]), np.full(3, 4.0), np.ones(3), one_cell=2.0, accounting=GDP_ACCOUNTING).shares.round(2).tolist()
    [0.5, 0.0, 0.5]
    """
    if accounting.name == "pure":
        chosen, errors = select_pairs(
            (weights * cells).tolist(),
            (weights * gaps).tolist(),
            one_cell=one_cell,
            power=share_power(accounting.name),
        )
        shares = np.zeros(len(gaps))
        shares[chosen] = direct_weights(accounting, weights[chosen].tolist(), cells[chosen].tolist())
        return Division(shares, errors[-1])
    far, noise = np.maximum(gaps, 1e-9), one_cell * cells
    shares = np.zeros(len(gaps))
    hopeful = np.flatnonzero(weights > 0)
    while len(hopeful):
        found = _least_error(far[hopeful], noise[hopeful], weights[hopeful])
        kept = _error_kept(far[hopeful], noise[hopeful], found)
        poor = int((kept > worth).sum())
        if not poor:
            shares[hopeful] = found
            break
        hopeful = np.sort(hopeful[np.argsort(-kept, kind="stable")[(poor + 1) // 2 :]])
    return Division(shares, float(np.dot(weights, far * _error_kept(far, noise, shares))))


def _error_kept(far: Array, noise: Array, shares: Array) -> Array:
    """Return the part of its gap that is left of a marginal's error with a share of a cost."""
    return np.asarray(noise / np.sqrt(far**2 * shares + noise**2))


def _least_error(far: Array, noise: Array, weights: Array) -> Array:
    """Return the shares at which the errors of :func:`divide` fall equally fast, found by bisection on how fast."""
    steep = (
        np.log(weights) + 3 * np.log(far) - 2 * np.log(noise)
    )  # how fast an error falls at first, but for a factor
    later = steep.max() - steep

    def at(slower: float) -> Array:
        """Return the shares at which no error falls faster than the steepest at first, slowed down by so much on a logarithmic scale."""
        return np.asarray(np.square(noise / far) * np.expm1(np.maximum(0.0, 2 / 3 * (slower - later))))

    low, high = 0.0, float((later + 1.5 * np.log1p(np.square(far / noise))).min())  # one gets everything
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if float(at(middle).sum()) < 1 else (low, middle)
    found = at(high)
    return np.asarray(found / found.sum())


def without_noise(gaps: Array, noise: float) -> Array:
    """Return the posterior means of distances that were released with normal noise.

    Distances are thought to come from a mixture of exponential distributions, whose weights are those under which the released numbers are likeliest: of many columns most pairs
    are close to independent and a few are far from it. Distances below the noise are mostly noise: without this, the largest of many of them would look dependent.

    Examples
    --------
    >>> without_noise(np.array([-20.0, 5.0, 900.0]), 10.0).round().tolist()
    [1.0, 4.0, 900.0]
    """
    from scipy.stats import norm

    means = np.geomspace(0.05 * noise, max(float(gaps.max()), noise), _KINDS)[:, None]
    shifted = gaps - noise**2 / means
    scaled = shifted / noise
    positive_part = norm.logcdf(scaled)
    likely = noise**2 / (2 * means**2) - gaps / means - np.log(means) + positive_part
    posterior = shifted + noise * np.exp(norm.logpdf(scaled) - positive_part)
    weights = np.full((_KINDS, 1), 1 / _KINDS)
    for _ in range(_WEIGHINGS):
        own = np.log(weights) + likely
        own = np.exp(own - own.max(axis=0))
        own /= own.sum(axis=0)
        weights = (own.sum(axis=1, keepdims=True) + 0.5) / (len(gaps) + 0.5 * _KINDS)
    return np.asarray((own * posterior).sum(axis=0))


def importance(cliques: Sequence[Clique], weights: Mapping[Clique, float]) -> list[float]:
    """Return how much each marginal matters, one on average."""
    own = [weights[clique] for clique in cliques]
    usual = sum(own) / len(own)
    return [weight / usual if usual > 0 else 1.0 for weight in own]
