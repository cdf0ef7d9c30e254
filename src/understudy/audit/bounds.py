"""How much privacy loss a test demonstrates: lower confidence bounds from its hits and false alarms.

A mechanism that is ``(epsilon, delta)``-DP allows no test with ``TPR > e^epsilon FPR + delta``; one that is ``mu``-GDP none with
``Phi^-1(TPR) - Phi^-1(FPR) > mu``. So a test whose true-positive rate is surely above ``p`` and whose false-positive rate is
surely below ``q`` shows that the loss is at least that much. *Surely* is meant at a stated confidence: Clopper-Pearson bounds
for both rates at half the error each. The test must have been fixed without looking at the trials it is judged by.
"""

from __future__ import annotations

import math

from scipy.special import betaincinv, ndtri

__all__ = ["demonstrated_epsilon", "demonstrated_mu", "lower_rate", "upper_rate"]


def lower_rate(hits: int, trials: int, alpha: float) -> float:
    """Return a rate that the true one is below with probability at most ``alpha`` (Clopper and Pearson 1934).

    Examples
    --------
    >>> round(lower_rate(50, 100, 0.025), 4)
    0.3983
    """
    return 0.0 if hits <= 0 else float(betaincinv(hits, trials - hits + 1, alpha))


def upper_rate(hits: int, trials: int, alpha: float) -> float:
    """Return a rate that the true one is above with probability at most ``alpha``."""
    return 1.0 - lower_rate(trials - hits, trials, alpha)


def demonstrated_epsilon(
    hits: int, trials: int, alarms: int, other_trials: int, *, delta: float, confidence: float
) -> float:
    """Return the epsilon a test demonstrates at a given delta; zero if it shows nothing.

    Parameters
    ----------
    hits, trials
        How often the test fired on the one table.
    alarms, other_trials
        How often it fired on its neighbour.

    Examples
    --------
    >>> round(demonstrated_epsilon(7311, 10000, 2689, 10000, delta=0.0, confidence=0.95), 2)
    0.96
    """
    alpha = (1 - confidence) / 2
    least, most = lower_rate(hits, trials, alpha), upper_rate(alarms, other_trials, alpha)
    return max(0.0, math.log((least - delta) / most)) if least > delta and most > 0 else 0.0


def demonstrated_mu(hits: int, trials: int, alarms: int, other_trials: int, *, confidence: float) -> float:
    """Return the mu of Gaussian differential privacy that a test demonstrates; zero if it shows nothing.

    Examples
    --------
    >>> round(demonstrated_mu(8413, 10000, 5000, 10000, confidence=0.95), 2)
    0.95
    """
    alpha = (1 - confidence) / 2
    least, most = lower_rate(hits, trials, alpha), upper_rate(alarms, other_trials, alpha)
    if not 0 < least < 1 or not 0 < most < 1:
        return 0.0
    return max(0.0, float(ndtri(least) - ndtri(most)))
