"""How much privacy loss a test demonstrates: exact lower confidence bounds from what it got right and wrong.

A table is chosen by a fair coin, a mechanism runs on it, and a test that sees the output guesses the coin or abstains. If
the mechanism is ``epsilon``-DP the odds of the coin given any output are at most ``e^epsilon``, so of the guesses made at
most a share ``e^epsilon / (1 + e^epsilon)`` is right in expectation; with ``(epsilon, delta)`` the chance of a right
guess is at most ``e^epsilon`` times that of a wrong one plus ``delta``; if it is ``mu``-GDP a test that never abstains is
right with probability at most ``Phi(mu / 2)``. Clopper and Pearson's bound turns counts into probabilities at a stated
confidence. The test must have been fixed without looking at the runs it is judged by.
"""

from __future__ import annotations

import math

from scipy.special import betaincinv, ndtri

__all__ = [
    "demonstrated_epsilon",
    "demonstrated_mu",
    "guessed_epsilon",
    "guessed_mu",
    "lower_rate",
    "upper_rate",
]

_SHARE_OF_GUESS_RATE = 0.2
"""Part of the allowed error that is spent on how often a test guesses, where delta makes that matter."""


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


def guessed_epsilon(correct: int, guesses: int, runs: int, *, delta: float, confidence: float) -> float:
    """Return the epsilon that guesses of a fair coin demonstrate at a given delta; zero if they show nothing.

    Parameters
    ----------
    correct, guesses, runs
        Right guesses, guesses made, and runs of the mechanism; in the others the test abstained.

    Notes
    -----
    With ``C`` and ``W`` the chances of a right and a wrong guess, ``C <= e^epsilon W + delta``. Given that a guess is made
    it is right with probability ``r = C / (C + W)``, so ``e^epsilon >= (r - delta / (C + W)) / (1 - r)``. Both ``r`` and, if
    delta is positive and the test may abstain, ``C + W`` are bounded from below.

    Examples
    --------
    >>> round(guessed_epsilon(7311, 10_000, 10_000, delta=0.0, confidence=0.95), 2)
    0.96
    """
    if guesses <= 0:
        return 0.0
    alpha = 1.0 - confidence
    rate = 1.0
    if delta > 0 and guesses < runs:
        rate = lower_rate(guesses, runs, _SHARE_OF_GUESS_RATE * alpha)
        alpha *= 1.0 - _SHARE_OF_GUESS_RATE
    right = lower_rate(correct, guesses, alpha)
    gain = right - (delta / rate if delta > 0 else 0.0)
    return max(0.0, math.log(gain / (1.0 - right))) if gain > 0 else 0.0


def guessed_mu(correct: int, runs: int, *, confidence: float) -> float:
    """Return the mu of Gaussian differential privacy that guesses in every run demonstrate.

    Examples
    --------
    >>> round(guessed_mu(6915, 10_000, confidence=0.95), 2)
    0.96
    """
    right = lower_rate(correct, runs, 1.0 - confidence)
    return max(0.0, 2.0 * float(ndtri(right))) if right > 0 else 0.0


def demonstrated_epsilon(
    hits: int, trials: int, alarms: int, other_trials: int, *, delta: float, confidence: float
) -> float:
    """Return the epsilon that a test with these hits and false alarms demonstrates; zero if it shows nothing.

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
    """Return the mu that a test with these hits and false alarms demonstrates; zero if it shows nothing.

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
