"""The coins of private selection, from a cryptographic generator."""

from __future__ import annotations

from fractions import Fraction

from understudy.errors import BudgetError
from understudy.privacy import Randomness
from understudy.release.selection_accounting import (
    Attempts,
    GeometricAttempts,
    NegativeBinomialAttempts,
)

__all__ = ["bernoulli", "draw_attempts", "uniform_index"]

_DIGITS = 128
_MOST = 100_000_000


def uniform_index(count: int, randomness: Randomness) -> int:
    """Return a number below ``count``, each equally likely, by rejection: exact.

    Examples
    --------
    >>> from understudy.privacy import SeededRandomness
    >>> uniform_index(1, SeededRandomness(0))
    0
    """
    if count < 1:
        raise BudgetError("There is nothing to choose from.")
    bits = (count - 1).bit_length()
    while True:
        number = _bits(bits, randomness)
        if number < count:
            return number


def bernoulli(probability: float, randomness: Randomness) -> bool:
    """Return True with exactly the given probability.

    A double is a whole number of 2**-k, so that many random bits decide exactly.

    Examples
    --------
    >>> from understudy.privacy import SeededRandomness
    >>> bernoulli(0.0, SeededRandomness(0)), bernoulli(1.0, SeededRandomness(0))
    (False, True)
    """
    exact = Fraction(probability)
    return _bits(exact.denominator.bit_length() - 1, randomness) < exact.numerator


def draw_attempts(rule: Attempts, randomness: Randomness) -> int | None:
    """Return how many attempts a rule allows, or None if that is decided by coins along the way.

    The truncated negative binomial number is found by comparing a uniform number of 128 binary digits with
    sums of its probabilities. These are doubles, so each probability is off by some 1e-15 of itself.

    Examples
    --------
    >>> from understudy.privacy import SeededRandomness
    >>> draw_attempts(GeometricAttempts(0.1, most=30), SeededRandomness(0))
    30
    """
    if isinstance(rule, GeometricAttempts):
        return rule.most
    if not isinstance(rule, NegativeBinomialAttempts):
        return None
    target = _bits(_DIGITS, randomness) / 2.0**_DIGITS
    weight, below, k = rule.probability(1), 0.0, 1
    while k < _MOST:
        below += weight
        if target < below:
            return k
        weight *= (1 - rule.gamma) * (k + rule.eta) / (k + 1)
        if weight < 1e-300:
            return k
        k += 1
    return k


def _bits(count: int, randomness: Randomness) -> int:
    if count == 0:
        return 0
    size = (count + 7) // 8
    return int.from_bytes(randomness.bytes(size), "big") >> (8 * size - count)
