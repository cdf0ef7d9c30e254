"""What noisy sums over random batches cost: the Gaussian mechanism on Poisson samples, many times over.

In each step every row enters a batch by a coin of its own that lands with probability ``q``; what the rows of the batch contribute, a
vector of norm at most 1 each, is added up, and Gaussian noise of standard deviation ``z`` (the *noise multiplier*) is added.

Privacy
-------
**One step.** Let neighbours differ by the rows ``R`` that one of them has and the rows ``R'`` that the other has: up to ``k`` rows
and none (add-remove), or up to ``k`` rows each (replace-one). Tell the adversary what all other rows contributed. What is left is
``P = sum over A of w_A N(v_A, z² I)`` against ``Q = sum over B of w_B N(u_B, z² I)``, where ``A`` runs over the subsets of ``R`` that may be
in the batch and ``|v_A| <= |A|``, the same for ``B``, ``u_B`` and ``R'``. Claim: ``(P, Q)`` is dominated by the same mixtures on a line, with
means ``|A|`` and ``-|B|``. Proof: relative to ``N(0, z² I)`` these have densities ``sum w_A Z_A`` and ``sum w_B Z_B`` with ``Z_A = exp(X_A - Var X_A / 2)``
for jointly Gaussian ``X`` with covariances ``<v_A, v_A'>/z²`` and so on. For convex ``F``, here ``F(t) = max(0, t)``, and constants ``c_i`` of
any sign, moving the covariances from ``S`` to ``S'`` along a straight line changes ``E F(sum c_i Z_i)`` at the rate
``1/2 sum c_i c_j (S'_ij - S_ij) E[Z_i Z_j F'']`` (Kahane 1985): larger covariances of terms of equal sign and smaller ones of terms of
opposite sign never lower it. In ``delta(epsilon) = E max(0, sum w_A Z_A - exp(epsilon) sum w_B Z_B)`` all three kinds are bounded by those
of the line, with ``|A||A'|``, ``|B||B'|`` and ``-|A||B|``. Fewer than ``k`` rows are ``k`` rows some of which contribute nothing.
The line is reached by rows that contribute ``1`` and ``-1``, so nothing tighter holds.

**Many steps.** Domination is kept by adaptive composition (Zhu, Dong and Wang 2022), so the privacy loss of the whole is at most the
sum of independent losses of the pairs on the line. A batch of Gaussian measurements whose squared ratios of sensitivity and noise add up
to ``mu²`` composes as one more pair, ``N(mu, 1)`` against ``N(0, 1)``.

**On a computer.** Losses are rounded up to a grid and convolved: :mod:`understudy.privacy._loss_sum`.
"""

from __future__ import annotations

import math
from functools import lru_cache

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy._loss_pair import Pair
from understudy.privacy._loss_sum import composed
from understudy.privacy._numbers import probability
from understudy.privacy.events import Approximated, GaussianEvent, SubsampledGaussianEvent

__all__ = ["approximated", "approximated_delta", "subsampled_noise", "subsampled_steps"]

_LARGEST_NOISE = 1e4
_SMALLEST_NOISE = 0.05
_PRECISION = 1e-4
_MOST_ROWS = 1_000
"""Rows of one unit: beyond these the weights of a mixture leave the range of floating point."""


def approximated(
    events: tuple[GaussianEvent | SubsampledGaussianEvent, ...], *, delta: float
) -> Approximated:
    """Return several acts as one event with the epsilon they have together at ``delta``, rounded up.

    Examples
    --------
    >>> event = approximated((SubsampledGaussianEvent(0.05, 1.2, 200, 1, 1),), delta=1e-6)
    >>> 3.8 < event.epsilon < 3.9
    True
    """
    wanted = probability("delta", delta)
    low, high = 0.0, 1.0
    while approximated_delta(events, high) > wanted:
        low, high = high, 2 * high
        if high > 1e3:
            raise NoSuchGuarantee("So little noise has no epsilon below 1000 at this delta.")
    while high - low > _PRECISION / 10 * high and high > 1e-9:
        middle = (low + high) / 2
        if approximated_delta(events, middle) > wanted:
            low = middle
        else:
            high = middle
    return Approximated(high, wanted, events)


@lru_cache(maxsize=4096)
def approximated_delta(events: tuple[GaussianEvent | SubsampledGaussianEvent, ...], epsilon: float) -> float:
    """Return an upper bound on the delta that several acts have together at ``epsilon``.

    Examples
    --------
    >>> from understudy.privacy import gdp_delta
    >>> ratio = approximated_delta((GaussianEvent(1.0, 2.0),), 1.0) / gdp_delta(0.5, 1.0)
    >>> 1.0 <= ratio < 1.001
    True
    """
    squared = math.fsum((e.l2_sensitivity / e.sigma) ** 2 for e in events if isinstance(e, GaussianEvent))
    sampled = [event for event in events if isinstance(event, SubsampledGaussianEvent)]
    if len(sampled) > 1:
        raise BudgetError("At most one run of steps on random batches is accounted for at once.")
    if not events or not all(isinstance(event, (GaussianEvent, SubsampledGaussianEvent)) for event in events):
        raise BudgetError(
            "Gaussian noise and random batches are accounted for together, and nothing else with them."
        )
    if not sampled:
        pair = Pair(((1.0, 1.0),), ((1.0, 0.0),), 1.0 / math.sqrt(squared * (1 + 2.0**-40)))
        return composed((pair,), (1,), epsilon)
    event = sampled[0]
    if event.noise_multiplier < _SMALLEST_NOISE:
        return 1.0  # next to no noise: the bound that always holds
    steps, squared = int(event.steps), squared * (1 + 2.0**-40)
    return max(composed((pair, *_measured(squared)), (steps, 1), epsilon) for pair in _pairs(event))


def _measured(squared: float) -> tuple[Pair, ...]:
    return (Pair(((1.0, 1.0),), ((1.0, 0.0),), 1.0 / math.sqrt(squared)),) if squared else ()


def _pairs(event: SubsampledGaussianEvent) -> list[Pair]:
    """Return the pairs on the line that dominate one step, in the directions that differ."""
    k, q = int(event.rows), min(1.0, event.rate * (1 + 2.0**-50))
    if k > _MOST_ROWS:
        raise NoSuchGuarantee(
            f"Random batches are accounted for units of at most {_MOST_ROWS:,} rows, not {k:,}. Keep fewer rows of each person."
        )
    weights = [math.comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]
    ahead = tuple((w, float(j)) for j, w in enumerate(weights) if w > 0)
    behind = tuple((w, -mean) for w, mean in reversed(ahead))
    here = ((1.0, 0.0),)
    z = event.noise_multiplier
    if event.sides == 2:
        return [Pair(ahead, behind, z)]
    return [Pair(ahead, here, z), Pair(here, behind, z)]


@lru_cache(maxsize=256)
def subsampled_noise(
    epsilon: float,
    delta: float,
    *,
    rate: float,
    steps: int,
    rows: int = 1,
    sides: int = 1,
    measured: tuple[GaussianEvent, ...] = (),
) -> float:
    """Return the smallest noise multiplier (to one part in 10,000) with which all steps keep ``(epsilon, delta)``.

    Parameters
    ----------
    rate
        Probability with which a row enters a batch.
    steps
        Number of batches.
    rows, sides
        Largest number of rows by which neighbours differ, on one side (added or removed) or on two (replaced).
    measured
        Gaussian measurements that share the guarantee.

    Examples
    --------
    >>> 1.1 < subsampled_noise(1.0, 1e-5, rate=0.01, steps=1000) < 1.6
    True
    """

    def fits(noise: float) -> bool:
        event = SubsampledGaussianEvent(rate, noise, steps, rows, sides)
        return approximated_delta((*measured, event), epsilon) <= delta

    high = 1.0
    while not fits(high):
        high *= 2
        if high > _LARGEST_NOISE:
            raise NoSuchGuarantee(
                f"No noise on {steps:,} batches keeps epsilon={epsilon:.3g} at delta={delta:.3g} beside the other "
                "measurements. Use a larger budget or fewer epochs."
            )
    low = high / 2
    while low > _SMALLEST_NOISE and fits(low):
        low, high = low / 2, low
    while high / low > 1 + _PRECISION:
        middle = math.sqrt(low * high)
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=256)
def subsampled_steps(
    epsilon: float,
    delta: float,
    *,
    rate: float,
    noise_multiplier: float,
    most: int,
    rows: int = 1,
    sides: int = 1,
    measured: tuple[GaussianEvent, ...] = (),
) -> int:
    """Return how many steps with a given noise multiplier keep ``(epsilon, delta)``, up to ``most``; perhaps none.

    Examples
    --------
    >>> subsampled_steps(1.0, 1e-5, rate=0.01, noise_multiplier=0.01, most=1000)
    0
    """

    def fits(steps: int) -> bool:
        event = SubsampledGaussianEvent(rate, noise_multiplier, steps, rows, sides)
        return approximated_delta((*measured, event), epsilon) <= delta

    if fits(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
