"""What a choice says about everything that was not chosen (paper AIM, Theorem 4, sharpened).

In a round the exponential mechanism chose ``s`` from the candidates ``C`` by the scores
``q_r = w_r (|M_r(D) - M_r(p)|_1 - c n_r)``, where ``p`` is the model before the round, ``n_r`` the number
of cells and ``c`` the penalty per cell. With sensitivity ``Δ = l1 max w`` candidate ``r`` is chosen with
probability proportional to ``exp(ε q_r / 2Δ)``. Those that score more than ``x`` below the best have, all together,
probability at most ``|C| exp(-ε x / 2Δ)``, so with probability ``1 - β``

    q_r <= q_s + (2Δ/ε) (ln |C| + ln(1/β))   for all r in C at once.

``C`` may have been thinned in any way that depends on released values only: the argument is made given those.
The score of ``s`` is private, but ``s`` was then measured: ``y = M_s(D) + e``. Two bounds on
``E = |M_s(D) - M_s(p)|_1``, both given what was released before ``e`` was drawn:

1. With ``b = M_s(D) - M_s(p)`` fixed, ``|b_i + e_i| >= |b_i| + sign(b_i) e_i``, hence
   ``E <= |y - M_s(p)|_1 - sum sign(b_i) e_i``: a sum of noise with signs fixed in advance. (The paper reaches
   ``λ σ sqrt(n)`` by concentration; this argument covers every noise with exponential moments.)
2. ``E = 2 sum (-b_i)_+ + N - sum p_i`` with ``N`` the number of rows, and ``(-b_i)_+ <= p_i`` as counts are not
   negative. Use that in the cells ``G`` where ``p`` is small against the noise. In the others, as above,
   ``(p_i - y_i)_+ >= (-b_i)_+ - e_i`` where ``b_i < 0``, and those cells are fixed in advance. So
   ``E <= 2 (sum_G p_i + sum_others (p_i - y_i)_+ + noise) + N - sum p_i``: the noise in cells that are
   expected to be empty no longer counts.

So ``|M_r(D) - M_r(p)|_1 <= c n_r + (q_s + ...) / w_r``, and the triangle inequality carries it to any other
table: ``|M_r(D) - M_r(D')|_1`` is larger by at most ``|M_r(D') - M_r(p)|_1``, which is public.

**Which round.** The last round in which ``r`` could be chosen is known only afterwards, and later rounds depend on
earlier noise; a bound that holds with probability ``1 - β`` in each single round need not hold in a round picked
that way. The failure probability is therefore spread over all rounds: half of it on the round that was known
beforehand to be the last, half on the others, in proportion to ``1 / (t (t + 1))``. The cost is logarithmic.
"""

from __future__ import annotations

import math

import numpy as np

from understudy.inference.history import Round
from understudy.inference.laws import CellNoise, require_beta

EMPTY = 0.4
"""Cells expected to hold less than this many standard deviations count as empty; noise alone would cost as much."""

GRID = 1 + 2.0**-10
"""Scores are put on a fine grid before a choice, at the price of a slightly larger sensitivity."""


def round_share(step: Round, index: int) -> float:
    """Return the part of the failure probability that round ``index`` (from 0) gets; all parts add up to at most one.

    Examples
    --------
    >>> sum(0.5 / ((t + 1) * (t + 2)) for t in range(1000)) + 0.5 <= 1
    True
    """
    return 0.5 if step.last else 0.5 / ((index + 1) * (index + 2))


def chosen_distance(step: Round, *, total: float, beta: float) -> float:
    """Bound the distance between the real counts of the chosen marginal and the model's before the round.

    Parameters
    ----------
    step
        The round.
    total
        The number of rows, or an upper limit of it.
    beta
        Failure probability; each of the two arguments gets half.
    """
    require_beta(beta)
    noise = CellNoise.of(step.measurement)
    answer = step.answer.astype(np.float64)
    values = step.measurement.values
    plain = float(np.abs(values - answer).sum()) + noise.signed_sum(values.size, beta / 2)
    filled = answer >= EMPTY * noise.stddev
    below = float(np.maximum(answer - values, 0.0)[filled].sum()) + noise.signed_sum(
        int(np.count_nonzero(filled)), beta / 2
    )
    sparse = 2 * (below + float(answer[~filled].sum())) + total - float(answer.sum())
    return max(0.0, min(plain, sparse))


def score_bound(step: Round, *, total: float, beta: float) -> float:
    """Bound the scores of all candidates of a round at once, chosen or not.

    Parameters
    ----------
    total
        The number of rows, or an upper limit of it.
    beta
        Failure probability: two thirds for the chosen marginal's own distance, one third for the choice.
    """
    distance = chosen_distance(step, total=total, beta=beta * 2 / 3)
    score = step.weight * (distance - step.penalty * step.measurement.values.size)
    scale = 2 * step.l1 * step.largest_weight * GRID / step.epsilon
    return score + scale * (math.log(len(step.candidates)) + math.log(3 / beta))


def candidate_distance(step: Round, score: float, *, weight: float, cells: int) -> float:
    """Turn a bound on a candidate's score into one on its distance from the model before the round."""
    return max(0.0, step.penalty * cells + score / weight)
