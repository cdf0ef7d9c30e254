"""Exact coins of probability ``exp(-x)``.

Two ways to flip one without ever rounding its probability:

* :func:`bernoulli_exp` needs only uniform integers (von Neumann's alternating series);
* :func:`coin_scaled_exp` compares the binary digits of a uniform real with integer bounds on the
  probability, and asks for more digits of both while the bounds leave the answer open. It also
  handles ``2**c exp(-x)``, which the series does not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.errors import BudgetError
from understudy.privacy import _noise_bigint
from understudy.privacy.randomness import BitReader, Randomness

__all__ = ["bernoulli_exp", "coin_scaled_exp", "exp_bounds"]

_KERNEL_LIMIT = 1 << 63
_DIGIT_BITS = 64


def bernoulli_exp(
    numerator: int, denominator: int, shape: int | tuple[int, ...], randomness: Randomness
) -> NDArray[np.bool_]:
    """Flip coins that are True with probability exactly ``exp(-numerator / denominator)``.

    Parameters
    ----------
    numerator, denominator
        Integers, ``numerator >= 0`` and ``denominator >= 1``, of any size.
    shape
        How many coins, as a NumPy shape.
    randomness
        Source of random bits.

    Returns
    -------
    numpy.ndarray
        Independent coins.

    Notes
    -----
    For ``0 <= g <= 1`` flip coins of probability ``g / n`` for ``n = 1, 2, ...`` until one fails, at
    ``n = K``. Then ``P(K > n) = g**n / n!`` and ``P(K odd) = 1 - g + g**2 / 2! - ... = exp(-g)``. A larger
    exponent is a product of such factors. Each ``g / n`` is rational and its coin compares a uniform
    integer with an integer (Canonne, Kamath and Steinke 2020, Algorithm 1).

    Examples
    --------
    >>> from understudy.privacy.randomness import SeededRandomness
    >>> bernoulli_exp(0, 1, 3, SeededRandomness(1))
    array([ True,  True,  True])
    >>> bool(0.35 < bernoulli_exp(1, 1, 100_000, SeededRandomness(1)).mean() < 0.39)
    True
    """
    if numerator < 0 or denominator < 1:
        raise BudgetError(f"exp(-{numerator}/{denominator}) needs numerator >= 0 and denominator >= 1.")
    out = np.empty(shape, np.bool_)
    flat = out.reshape(-1)
    whole, rest = divmod(int(numerator), int(denominator))
    if whole < _KERNEL_LIMIT and denominator < _KERNEL_LIMIT:
        from understudy.privacy import _noise_kernels as kernels

        stream = kernels.new_stream(randomness.bytes(32))
        kernels.coins_exp(flat, stream, np.uint64(whole), np.uint64(rest), np.uint64(denominator))
        stream.fill(0)
    else:
        reader = BitReader(randomness)
        for i in range(flat.size):
            flat[i] = _noise_bigint.coin_exp(numerator, denominator, reader)
    return out


def coin_scaled_exp(p: int, q: int, doublings: int, reader: BitReader) -> bool:
    """Return True with probability exactly ``2**doublings * exp(-p / q)``, which must be at most 1.

    A uniform real ``u`` is read 64 binary digits at a time; after ``b`` of them it is known to lie in
    ``[r, r + 1) / 2**b``. Integers ``low <= 2**(b + doublings) exp(-p / q) <= high`` decide ``u`` below the
    probability if ``r + 1 <= low`` and above it if ``r >= high``. Otherwise both are refined. The
    probability is irrational unless ``p = 0``, and ``u`` equals it with probability zero, so enough digits
    settle it. The first 64 do, except about once in ``2**63`` coins.

    Examples
    --------
    >>> from understudy.privacy.randomness import SeededRandomness
    >>> reader = BitReader(SeededRandomness(3))
    >>> heads = sum(coin_scaled_exp(1, 1, 1, reader) for _ in range(2000))  # 2 / e = 0.736
    >>> 1350 < heads < 1600
    True
    """
    if p == 0:
        return True  # 2**0 * exp(0); a positive number of doublings would exceed 1
    bits, r = 0, 0
    while True:
        bits += _DIGIT_BITS
        r = (r << _DIGIT_BITS) | reader.bits(_DIGIT_BITS)
        low, high = exp_bounds(p, q, bits + doublings)
        if r < low:
            return True
        if r >= high:
            return False


def exp_bounds(p: int, q: int, bits: int) -> tuple[int, int]:
    """Return integers ``low <= 2**bits * exp(-p / q) <= high``, a few units apart at most.

    With ``y = p / (q 2**j) <= 1/2``, the Taylor series of ``exp(y)`` has positive terms: rounding every
    term down and stopping bounds it from below; rounding up and adding the last term once more bounds
    it from above, as each term is at most half the one before. The reciprocals bound ``exp(-y)`` and
    ``j`` squarings, rounded outwards, bound ``exp(-p / q)``. All in integers.

    Examples
    --------
    >>> exp_bounds(1, 1, 20)  # 2**20 / e = 385749.6
    (385749, 385750)
    """
    if p > bits * q:
        return 0, 1  # exp(-x) < 2**-x
    halvings = max(0, (2 * p // q).bit_length())
    guard = bits + 2 * halvings + 32
    one = 1 << guard
    scaled, divisor = p << guard, q << halvings
    y_low, y_high = scaled // divisor, -(-scaled // divisor)
    sum_low = sum_high = term_low = term_high = one
    n = 0
    while term_high > 1:
        n += 1
        term_low = term_low * y_low // (n << guard)
        term_high = -(-term_high * y_high // (n << guard))
        sum_low += term_low
        sum_high += term_high
    sum_high += term_high
    low, high = (one << guard) // sum_high, -((-one << guard) // sum_low)
    for _ in range(halvings):
        low, high = low * low >> guard, -(-high * high >> guard)
    excess = guard - bits
    return low >> excess, -(-high >> excess)
