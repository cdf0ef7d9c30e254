"""How far a model's marginal can be from the real one, given a noisy measurement and that counts are not negative.

Write ``m`` for the real counts, ``p`` for the model's, ``y = m + e`` for a measurement. With
``N = sum m`` the L1 distance is

    |m - p|_1 = 2 sum_i (p_i - m_i)_+  +  N - sum_i p_i,

and ``0 <= (p_i - m_i)_+ <= p_i`` because ``m_i >= 0``. So only cells where the model puts records matter:
noise in the many empty cells of a sparse marginal, which dominates the triangle inequality
``|p - y|_1 + |e|_1``, drops out.

Let ``sum (e_i)_+ <= A`` and ``sum (e_i)_+² <= B``. Since ``m_i = y_i - e_i``, the distance is at most the
maximum of ``sum_i (p_i - y_i + e_i)_+`` over ``e_i <= y_i`` under those two constraints. For any multipliers
``u, v >= 0`` that maximum is at most (weak duality)

    u A + v B + sum_i  max over e_i <= y_i of  (p_i - y_i + e_i)_+ - u (e_i)_+ - v (e_i)_+²,

and each inner maximum has a closed form: with ``d = y - p``, negative ``e`` cost nothing, so the value is
``p`` where ``y < 0``; elsewhere it is the larger of ``(-d)_+`` (at ``e = 0``) and the value at the
stationary point ``(1 - u) / 2v`` clipped to ``[0, y]`` (the function is concave on ``e >= max(d, 0)`` and
not positive on ``[0, d]``). Every pair of multipliers gives a valid bound; a small search finds a good one.

**Groups.** The two constraints may be applied to groups of cells, if the grouping was known before the noise
was drawn. In an adaptive round the model's answer before the round is known: cells it expects to be empty
form one group, the others another. That keeps the adversary from moving the noise of thousands of empty
cells onto the few that matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from understudy.inference.covers import Cover
from understudy.inference.laws import CellNoise, require_beta

Array = npt.NDArray[np.float64]

EMPTY = 0.5
"""Cells expected to hold less than this many standard deviations of noise form the group of empty cells."""

_REACH = (0.3, 1.0, 3.0, 10.0)
_SHARE = (0.0, 0.3, 0.6, 0.9)


def positive_part(values: Array, answer: Array, *, first: float, second: float, unit: float) -> float:
    """Bound ``sum (answer - m)_+`` over all ``m >= 0`` with ``values - m`` inside two constraints.

    Parameters
    ----------
    values, answer
        The measurement ``y`` and the model's counts ``p``.
    first, second
        Bounds on ``sum (y - m)_+`` and on ``sum (y - m)_+²``; infinite for no constraint.
    unit
        Size of the noise in a cell, where the search for multipliers starts.

    Examples
    --------
    With an exact measurement the answer is the sum of the positive differences.

    >>> y, p = np.array([4.0, 6.0]), np.array([7.0, 3.0])
    >>> positive_part(y, p, first=0.0, second=0.0, unit=1.0)
    3.0
    """
    y, p = values.ravel(), answer.ravel()
    used = p > 0
    y, p = y[used], p[used]
    everything = float(p.sum())
    free = float(p[y < 0].sum())
    p, y = p[y >= 0], y[y >= 0]
    gap = p - y
    start = np.maximum(gap, 0.0)

    def value(share: float, reach: float) -> float:
        """Dual function at ``u = share`` and ``v = (1 - share) / (2 reach)``."""
        if not (0 <= share <= 1 and reach > 0):
            return math.inf
        slope = (1 - share) / (2 * reach)
        price = (share * first if share > 0 else 0.0) + (slope * second if slope > 0 else 0.0)
        if not math.isfinite(price):
            return math.inf
        point = np.minimum(y, reach) if slope > 0 else y
        there = np.maximum(gap + point, 0.0) - share * point - slope * point * point
        return price + free + float(np.maximum(start, there).sum())

    best = min(everything, value(1.0, 1.0))
    if math.isinf(second):  # only the first constraint: the inner maximum is at 0 or at y
        for share in np.linspace(0.02, 0.98, 49):
            point = gap + y - share * y
            best = min(best, share * first + free + float(np.maximum(start, point).sum()))
        return best
    shares = _SHARE if math.isfinite(first) else (0.0,)
    grid = [(value(share, reach * unit), share, reach) for share in shares for reach in _REACH]
    least, share, reach = min(grid)
    return min(best, _descend(value, least, share, reach, unit, fixed_share=math.isinf(first)))


def _descend(
    value: Callable[[float, float], float],
    least: float,
    share: float,
    reach: float,
    unit: float,
    *,
    fixed_share: bool,
) -> float:
    """Improve a pair of multipliers by trying neighbours at shrinking distance; the function is convex."""
    wide, far = 0.15, 1.7
    for _ in range(7):
        moves = [(share, reach * far), (share, reach / far)]
        if not fixed_share:
            moves += [(min(1.0, share + wide), reach), (max(0.0, share - wide), reach)]
        found, better, longer = min((value(s, r * unit), s, r) for s, r in moves)
        if found < least:
            least, share, reach = found, better, longer
        else:
            wide, far = wide / 2, math.sqrt(far)
    return least


def distance_bound(cover: Cover, answer: Array, *, total: float, beta: float) -> float:
    """Bound ``|m - answer|_1`` with failure probability ``beta``, given one measurement of ``m``.

    Parameters
    ----------
    cover
        The measurement; its reference, if there is one, groups the cells.
    answer
        Counts whose distance is bounded. They may depend on the noise in any way.
    total
        The number of rows, or an upper limit of it (whose own failure probability is the caller's).

    Notes
    -----
    The noise obeys ``sum (e)_+ <= A`` and ``sum (e)_+² <= B`` in every group at once with probability
    ``1 - beta``: each of the ``2 g`` constraints has failure probability ``beta / 2g``. What follows from
    them is arithmetic, so ``answer`` may be any function of the data. The groups depend on the reference
    alone, which was known before the noise was drawn.
    """
    require_beta(beta)
    noise = cover.noise
    if cover.reference is None:
        groups = [np.ones(cover.values.shape, dtype=bool)]
    else:
        empty = cover.reference < EMPTY * noise.stddev
        groups = [group for group in (empty, ~empty) if group.any()]
    part = sum(_group(cover.values[group], answer[group], noise, beta / len(groups)) for group in groups)
    return max(0.0, 2 * part + total - float(answer.sum()))


def _group(values: Array, answer: Array, noise: CellNoise, beta: float) -> float:
    n = values.size
    if noise.kind == "laplace":
        return positive_part(
            values, answer, first=noise.positive_sum(n, beta), second=math.inf, unit=noise.stddev
        )
    return positive_part(
        values,
        answer,
        first=noise.positive_sum(n, beta / 2),
        second=noise.positive_squares(n, beta / 2),
        unit=noise.stddev,
    )


def ball_bound(covers: Sequence[Cover], answer: Array, *, total: float, beta: float) -> float:
    """Bound ``|m - answer|_1`` from the weighted average of several Gaussian measurements.

    Which steps cover a marginal, and with how much noise, may have been decided after looking at earlier
    noise; then the average is not normal, and a bound that treats it so can fail. This one cannot. Let
    ``w_j`` be one over the variance of step ``j``, ``V = sum w_j`` and ``S = sum w_j e_j``. Each ``w_j`` is known
    before ``e_j`` is drawn, so for every fixed vector ``z`` the process ``exp(z·S - |z|² V / 2)`` is a
    supermartingale of mean at most one, also for rounded noise (its variance includes the rounding).
    Its mean over ``z ~ N(0, I/r)`` is ``(r / (V + r))^(n/2) exp(|S|² / 2(V + r))``, again a supermartingale;
    by Ville's inequality, with probability ``1 - beta``, at every step

        |S|² <= (V + r) (n ln((V + r) / r) + 2 ln(1 / beta)).

    Four values of ``r`` share ``beta``; they are tuned to a final precision of 1, 4, 16 and 64 times
    that of the first step. Since ``m = average - S / V``, this is a ball around the average, and
    :func:`positive_part` bounds the distance over it.
    """
    require_beta(beta)
    n = answer.size
    weights = np.array([1 / cover.noise.variance for cover in covers])
    precision = float(weights.sum())
    average = sum((w * cover.values for w, cover in zip(weights, covers, strict=True)), start=np.zeros(()))
    extra = 2 * math.log(4 / beta)
    best = _best_ratio(n, extra)
    radius = math.inf
    for power in range(4):
        prior = float(weights[0]) * 4**power / best
        square = (precision + prior) * (n * math.log1p(precision / prior) + extra) / precision**2
        radius = min(radius, square)
    part = positive_part(
        np.asarray(average) / precision,
        answer,
        first=math.inf,
        second=radius,
        unit=math.sqrt(1 / precision),
    )
    return max(0.0, 2 * part + total - float(answer.sum()))


def _best_ratio(n: int, extra: float) -> float:
    """Return about the ratio ``V / r`` that makes the mixture's ball smallest."""
    ratios = np.geomspace(1e-3, 100.0, 60)
    sizes = (1 + 1 / ratios) * (n * np.log1p(ratios) + extra)
    return float(ratios[int(np.argmin(sizes))])
