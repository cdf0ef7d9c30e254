"""The samplers again, in Python integers: no bound on any intermediate value.

They serve where the 64-bit kernels do not reach: scales with too many fractional bits, and the rare
draw that leaves a kernel's range. ``start`` resumes such a draw: it is the count the kernel had reached
when it stopped. Counting successes of independent coins has no memory, so going on from there with
fresh coins is the same draw. The arguments of exactness are those of ``_noise_kernels``.
"""

from __future__ import annotations

from understudy.privacy.noise.randomness import BitReader

__all__ = ["coin_exp", "discrete_gaussian", "discrete_laplace", "geometric", "rounded_gaussian"]

_DIGIT_BITS = 64


def coin_exp(p: int, q: int, reader: BitReader) -> bool:
    """Return True with probability ``exp(-p / q)``, for integers ``p >= 0`` and ``q >= 1``.

    ``exp(-p / q)`` is a product of factors ``exp(-1)``, one per whole unit, and one factor ``exp(-f)``
    with ``f < 1``. Each is decided by von Neumann's series: the first ``n`` whose coin of probability
    ``f / n`` fails is odd with probability ``exp(-f)``. It stops at the first factor that fails.
    """
    whole, rest = divmod(p, q)
    if not _coin_exp_unit(rest, q, reader):
        return False
    return all(_coin_exp_unit(1, 1, reader) for _ in range(whole))


def _coin_exp_unit(p: int, q: int, reader: BitReader) -> bool:
    n = 1
    while reader.below(q * n) < p:
        n += 1
    return n % 2 == 1


def geometric(t: int, s: int, reader: BitReader, *, start: int = 0) -> int:
    """Draw ``Y >= 0`` with ``P(Y >= y) = exp(-y s / t)``: scale ``t / s``.

    Above scale 1, ``start`` counts whole multiples of ``t``; at most 1, it counts units of ``Y``.
    """
    steps = start
    if t <= s:
        while coin_exp(s, t, reader):
            steps += 1
        return steps
    while coin_exp(1, 1, reader):
        steps += 1
    u = reader.below(t)
    while not coin_exp(u, t, reader):
        u = reader.below(t)
    return (u + t * steps) // s


def discrete_laplace(t: int, s: int, reader: BitReader, *, start: int = 0) -> int:
    """Draw ``Y`` with ``P(y)`` proportional to ``exp(-|y| s / t)``: scale ``t / s``."""
    while True:
        magnitude = geometric(t, s, reader, start=start)
        negative = reader.bits(1)
        if magnitude or not negative:
            return -magnitude if negative else magnitude
        start = 0


def discrete_gaussian(m: int, shift: int, reader: BitReader, *, start: int = 0) -> int:
    """Draw ``i`` with ``P(i)`` proportional to ``exp(-i**2 / (2 sigma**2))``, ``sigma = m / 2**shift``."""
    width = -(-m >> shift)
    while True:
        k = _level(reader, start)
        start = 0
        value = -(-k * m >> shift) + reader.below(width)
        r = (value << shift) - k * m
        if r >= m or not _keep(k, _Rational(r, m, reader), reader):
            continue
        negative = reader.bits(1)
        if value or not negative:
            return -value if negative else value


def rounded_gaussian(m: int, shift: int, reader: BitReader, *, start: int = 0) -> int:
    """Draw a normal deviate of standard deviation ``m / 2**shift`` rounded to the nearest integer.

    The offset is known to lie in ``[x, x + 1) / 2**bits``. Bits are added until both ends of that
    interval round to the same integer.
    """
    while True:
        k = _level(reader, start)
        start = 0
        offset = _Lazy(reader)
        if _keep(k, offset, reader):
            break
    while True:
        # floor(sigma (k + x) + 1/2) at the lower end, and just below the upper end.
        unit = 1 << (shift + 1 + offset.bits)
        low = 2 * m * ((k << offset.bits) + offset.x) + (unit >> 1)
        floor, ceiling = low // unit, (low + 2 * m - 1) // unit
        if floor == ceiling:
            return -floor if reader.bits(1) else floor
        offset.extend()


class _Rational:
    """A coin of probability ``r / m``."""

    def __init__(self, r: int, m: int, reader: BitReader) -> None:
        self.r, self.m, self.reader = r, m, reader

    def coin(self) -> bool:
        return self.reader.below(self.m) < self.r


class _Lazy:
    """A uniform real in [0, 1) of which the first ``bits`` binary digits, ``x``, are known; and its coin."""

    def __init__(self, reader: BitReader) -> None:
        self.reader = reader
        self.x = reader.bits(_DIGIT_BITS)
        self.bits = _DIGIT_BITS

    def extend(self) -> None:
        self.x = (self.x << _DIGIT_BITS) | self.reader.bits(_DIGIT_BITS)
        self.bits += _DIGIT_BITS

    def coin(self) -> bool:
        u, known = self.reader.bits(_DIGIT_BITS), _DIGIT_BITS
        while u == self.x >> (self.bits - known):
            if known == self.bits:
                self.extend()
            u = (u << _DIGIT_BITS) | self.reader.bits(_DIGIT_BITS)
            known += _DIGIT_BITS
        return u < self.x >> (self.bits - known)


def _level(reader: BitReader, start: int) -> int:
    """Draw ``k >= 0`` with ``P(k)`` proportional to ``exp(-k**2 / 2)``, having counted to ``start``."""
    while True:
        k = start
        while _coin_exp_unit(1, 2, reader):
            k += 1
        if all(_coin_exp_unit(1, 2, reader) for _ in range(k * (k - 1))):
            return k
        start = 0


def _keep(k: int, offset: _Rational | _Lazy, reader: BitReader) -> bool:
    """Return True with probability ``exp(-x (2 k + x) / 2)`` for an offset ``x`` in [0, 1)."""
    for _ in range(k + 1):
        n = 1
        while True:
            ticket = reader.below(n * (2 * k + 2))
            if ticket > 2 * k or not offset.coin() or (ticket == 2 * k and not offset.coin()):
                break
            n += 1
        if n % 2 == 0:
            return False
    return True
