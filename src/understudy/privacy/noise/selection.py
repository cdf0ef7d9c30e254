"""Private selection: the exponential mechanism and permute-and-flip, drawn exactly.

**Grid.** Scores arrive as doubles, whole numbers or fractions. Each is divided by a *quantum*, a power of two at most ``2**-20`` of the
sensitivity, and rounded to an integer ``q``. Dividing by a power of two is exact (a double that would become smaller than any other
is rounded to zero either way), so only the rounding moves a score, by at most half a quantum. If true scores differ by at most ``sensitivity`` between
neighbours and each is computed with an error of at most ``score_error``, then computed scores differ by
at most ``D = sensitivity + 2 score_error``, and the integers by at most ``N = floor(D / quantum) + 1``,
since ``q - q' <= D / quantum + 1/2 + 1/2`` and both are integers. Saturating ``q`` at ``±2**61`` cannot
increase a difference.

**Privacy.** Let all ``q_i - q'_i`` lie in an interval of length ``R``; in general ``R = 2 N``. Both
mechanisms use the rate ``gamma = epsilon / R``, an exact fraction.

*Exponential mechanism*, weights ``exp(gamma q_i)``. The log-ratio of the two probabilities of candidate
``i`` is ``gamma (q_i - q'_i) - log(Z / Z')``, and ``log(Z / Z')`` lies in ``gamma`` times the same interval.
So it is at most ``gamma R = epsilon`` in absolute value, and so is its range over ``i``.

*Permute-and-flip* is report-noisy-max with exponential noise (Ding et al., arXiv:2105.07260). Adding a
constant to all scores changes nothing, so let the interval be ``[0, R]`` (or ``[-R, 0]``). Then no rival
gains more than ``gamma R`` on candidate ``i``, and an exponential deviate exceeds ``x + gamma R`` with at
least ``exp(-gamma R)`` times the probability that it exceeds ``x``.

*Monotone* scores move in one direction between any two neighbours. Rounding keeps the direction and
errors reverse it by at most ``2 score_error``, so ``R = N + floor(2 score_error / quantum) + 1``, or
``R = N`` when scores are computed without error.

**Exactness.** With ``d_i = max q - q_i`` the weights are ``exp(-gamma d_i)``, and ``2**-c_i`` dominates them
for any integer ``c_i <= gamma d_i / log 2``. Sampling proportionally to ``2**-c_i`` takes one uniform
integer; the remaining factor ``2**c_i exp(-gamma d_i)``, at least about one half unless ``c_i`` was capped,
is an exact coin. So a selection takes about two tries, however uneven the scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.errors import BudgetError, DataError
from understudy.privacy.noise import bigint as _noise_bigint
from understudy.privacy.noise.randomness import BitReader, Randomness

# ----------------------------------------------------------------------------------------
# Exact coins of probability ``exp(-x)``.
#
# Two ways to flip one without ever rounding its probability:
#
# * :func:`bernoulli_exp` needs only uniform integers (von Neumann's alternating series);
# * :func:`coin_scaled_exp` compares the binary digits of a uniform real with integer bounds on the
#   probability, and asks for more digits of both while the bounds leave the answer open. It also
#   handles ``2**c exp(-x)``, which the series does not.

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
    >>> from understudy.privacy.noise.randomness import SeededRandomness
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
        from understudy.privacy.noise import kernels

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
    >>> from understudy.privacy.noise.randomness import SeededRandomness
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


Scores = ArrayLike | Sequence[Fraction]

DEFAULT_SCORE_ERROR = 2.0**-13
"""Floating-point error allowed for in each score, unless stated: this fraction of the sensitivity."""

_QUANTUM_BITS = 20
_SATURATION = 2.0**61
_SATURATED = 1 << 61
# log2(e) rounded down, less a margin of 2**-50 for the four roundings made in `_dominating_powers`.
_LOG2_E_BELOW = Fraction(float.fromhex("0x1.71547652b82fep+0")) * (1 - Fraction(1, 1 << 50))


def exponential_mechanism(
    scores: Scores,
    *,
    epsilon: float,
    sensitivity: float,
    randomness: Randomness,
    monotone: bool = False,
    score_error: float | None = None,
) -> int:
    """Choose a candidate with probability proportional to ``exp(epsilon score / (2 sensitivity))``.

    Up to the grid described at the head of this module, which lowers the effective ``epsilon`` by about
    0.03 percent and never raises it.

    Parameters
    ----------
    scores
        One score per candidate, larger is better: doubles, or whole numbers and fractions, which are read exactly. Private. Finite.
    epsilon
        Cost of the choice.
    sensitivity
        Largest change of any one score between neighbouring tables.
    randomness
        Source of random bits; tests pass a seeded one.
    monotone
        True if between any two neighbours all scores rise (weakly) or all fall; the factor 2 is then
        not needed.
    score_error
        Bound on the floating-point error of each score as computed. By default ``2**-13`` times the
        sensitivity; 0 if the scores are exact.

    Returns
    -------
    int
        Index of the chosen candidate.

    Privacy
    -------
    In: private. Out: releasable. Cost: ``epsilon``-DP and ``epsilon``-bounded-range. Proof in the module
    docstring.

    Examples
    --------
    >>> from understudy.privacy.noise.randomness import SeededRandomness
    >>> exponential_mechanism([0.0, 90.0, 3.0], epsilon=2.0, sensitivity=1.0, randomness=SeededRandomness(1))
    1
    """
    grid = _Grid.of(scores, epsilon, sensitivity, monotone, score_error)
    # Integer weights 2**(top - c_i) whose sum stays under 2**63; c_i is capped at `top`.
    top = 62 - grid.distances.size.bit_length()
    powers = grid.dominating_powers(top)
    cumulative = np.cumsum(np.int64(1) << (top - powers))
    reader = BitReader(randomness)
    while True:
        ticket = reader.below(int(cumulative[-1]))
        i = int(np.searchsorted(cumulative, ticket, side="right"))
        if grid.coin(i, int(powers[i]), reader):
            return i


def exponential_law(
    scores: Scores,
    *,
    epsilon: float,
    sensitivity: float,
    monotone: bool = False,
    score_error: float | None = None,
) -> NDArray[np.float64]:
    """Return the probabilities with which :func:`exponential_mechanism` chooses each candidate.

    They are those of the integer grid on which the sampler works, ``exp(-gamma d_i)`` over their sum, computed in floating
    point to about fifteen digits. For auditing and for simulations; nothing is drawn.

    Parameters
    ----------
    scores, epsilon, sensitivity, monotone, score_error
        As for :func:`exponential_mechanism`.

    Privacy
    -------
    In: scores, private if they come from a table. Out: as private as the scores; only a draw from the law is releasable.

    Examples
    --------
    >>> exponential_law([0.0, 1.0], epsilon=2.0, sensitivity=1.0).round(3)
    array([0.269, 0.731])
    """
    grid = _Grid.of(scores, epsilon, sensitivity, monotone, score_error)
    weights = np.exp(-float(grid.gamma) * grid.distances.astype(np.float64))
    return np.asarray(weights / math.fsum(weights), dtype=np.float64)


def permute_and_flip(
    scores: Scores,
    *,
    epsilon: float,
    sensitivity: float,
    randomness: Randomness,
    monotone: bool = False,
    score_error: float | None = None,
) -> int:
    """Choose a candidate by permute-and-flip, never worse than the exponential mechanism in expectation.

    Visit the candidates in random order; accept each with probability
    ``exp(epsilon (score - best) / (2 sensitivity))``; return the first accepted (McKenna and Sheldon 2020).

    Each coin is the product of a coin of probability ``2**-c_i`` and an exact second coin. The first
    coins of all candidates are flipped at once; candidates that lose one can never be returned, and
    the order of the others is still uniformly random, so only they are visited, each next one drawn
    uniformly from those left. The best candidate wins both coins with certainty.

    Parameters
    ----------
    scores
        One score per candidate, larger is better: doubles, or whole numbers and fractions, which are read exactly. Private. Finite.
    epsilon
        Cost of the choice.
    sensitivity
        Largest change of any one score between neighbouring tables.
    randomness
        Source of random bits; tests pass a seeded one.
    monotone
        True if between any two neighbours all scores rise (weakly) or all fall.
    score_error
        Bound on the floating-point error of each score as computed; see :func:`exponential_mechanism`.

    Returns
    -------
    int
        Index of the chosen candidate.

    Privacy
    -------
    In: private. Out: releasable. Cost: ``epsilon``-DP (not ``epsilon``-bounded-range: record it as a pure
    event). Proof in the module docstring.

    Examples
    --------
    >>> from understudy.privacy.noise.randomness import SeededRandomness
    >>> permute_and_flip([0.0, 90.0, 3.0], epsilon=2.0, sensitivity=1.0, randomness=SeededRandomness(1))
    1
    """
    grid = _Grid.of(scores, epsilon, sensitivity, monotone, score_error)
    powers = grid.dominating_powers(63)
    # The first c bits of a uniform word are all zero; two shifts, since a shift by 64 is undefined.
    words = randomness.words(powers.size)
    won = (words >> (63 - powers).astype(np.uint64)) >> np.uint64(1) == 0
    left = [int(i) for i in np.flatnonzero(won)]
    reader = BitReader(randomness)
    while True:
        place = reader.below(len(left))
        left[place], left[-1] = left[-1], left[place]
        i = left.pop()
        if grid.coin(i, int(powers[i]), reader):
            return i


@dataclass(frozen=True)
class _Grid:
    """Scores on the integer grid: distances ``d_i >= 0`` below the best, and the exact rate ``gamma``."""

    distances: NDArray[np.int64]
    gamma: Fraction

    @classmethod
    def of(
        cls,
        scores: Scores,
        epsilon: float,
        sensitivity: float,
        monotone: bool,
        score_error: float | None,
    ) -> _Grid:
        epsilon = _checked("epsilon", epsilon, 1e-12, 1e6)
        sensitivity = _checked("sensitivity", sensitivity, 1e-100, 1e100)
        if score_error is None:
            score_error = sensitivity * DEFAULT_SCORE_ERROR
        else:
            score_error = _checked("score_error", score_error, 0.0, 1e100)
        array = np.asarray(scores)
        if array.ndim != 1 or array.size == 0:
            raise DataError("Selection needs a one-dimensional, non-empty array of scores.")
        whole = array.dtype.kind in "iuO"
        if whole and array.dtype.kind != "O" and int(array.min()) > -(1 << 53) and int(array.max()) < 1 << 53:
            whole = False  # doubles hold these exactly, and are quicker
        if not whole:
            array = array.astype(np.float64)
            if not np.isfinite(array).all():
                raise DataError("Selection needs finite scores; at least one is NaN or infinite.")

        exponent = math.frexp(sensitivity)[1] - 1 - _QUANTUM_BITS  # 2**exponent <= sensitivity * 2**-20
        quantum = Fraction(2) ** exponent
        error = Fraction(score_error)
        step = math.floor((Fraction(sensitivity) + 2 * error) / quantum) + 1
        if not monotone:
            spread = 2 * step
        elif error:
            spread = step + math.floor(2 * error / quantum) + 1
        else:
            spread = step
        if whole:
            try:
                units = np.array([_steps(score, exponent) for score in array.tolist()], dtype=np.int64)
            except (OverflowError, ValueError):
                raise DataError("Selection needs finite scores; at least one is NaN or infinite.") from None
        else:
            with np.errstate(over="ignore", under="ignore"):  # saturates, or rounds to zero, as intended
                scaled = np.rint(np.ldexp(array, -exponent))
            units = np.clip(scaled, -_SATURATION, _SATURATION).astype(np.int64)
        return cls(distances=units.max() - units, gamma=Fraction(epsilon) / spread)

    def dominating_powers(self, cap: int) -> NDArray[np.int64]:
        """Return integers ``0 <= c_i <= cap`` with ``exp(-gamma d_i) <= 2**-c_i``.

        ``floor(d_i * rate)`` in floating point. Four roundings are made (of the rate, of ``d_i``, of their
        product, and of ``log2(e)``, downwards), each within a relative ``2**-53`` by IEEE 754; the margin of
        ``2**-50`` in the rate outweighs them, so the result never exceeds ``gamma d_i log2(e)``.
        """
        rate = float(self.gamma * _LOG2_E_BELOW)
        powers: NDArray[np.int64] = np.minimum(np.floor(self.distances * rate), cap).astype(np.int64)
        return powers

    def coin(self, i: int, power: int, reader: BitReader) -> bool:
        """Return True with probability ``2**power exp(-gamma d_i)``."""
        exponent = self.gamma * int(self.distances[i])
        return coin_scaled_exp(exponent.numerator, exponent.denominator, power, reader)


def _steps(score: Fraction | float, exponent: int) -> int:
    """Return an exact score as the nearest whole number of quanta ``2**exponent``, saturated."""
    top, bottom = score.as_integer_ratio()
    if exponent < 0:
        top <<= -exponent
    else:
        bottom <<= exponent
    nearest = (2 * top + bottom) // (2 * bottom)
    return min(max(nearest, -_SATURATED), _SATURATED)


def _checked(name: str, value: float, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= value <= high:
        raise BudgetError(f"{name} ({value}) must be a number between {low:g} and {high:g}.")
    return float(value)
