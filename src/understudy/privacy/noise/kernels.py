"""Numba kernels of the exact samplers, and the ChaCha20 keystream that feeds them.

Imported on the first draw, so that importing the package costs neither Numba nor a compilation. The
generator and the samplers share one file on purpose: Numba's cache notices changes of the file a
kernel is defined in, not of the files it calls into.

**Stream.** A stream is one array of 32-bit words: the ChaCha20 state (constants, 256-bit key, 64-bit
block counter, 64-bit nonce), a read position, and a buffer of 64 keystream blocks. When the buffer has
been read the next 64 blocks replace it, inside the kernel: a draw is never interrupted for want of
randomness, so there is no half-finished draw whose restart could favour some results.

**Integers.** Words are ``uint64`` throughout and every bound that keeps them from wrapping is stated
where it is used. A draw that would pass such a bound stops the kernel, which returns its index; the
caller finishes that draw with Python integers (see ``_noise_bigint``) and calls the kernel again.

Notation: *coin(p)* is an independent event of probability ``p``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy._compile import compiled, inner

Stream = NDArray[np.uint32]
Out = NDArray[np.int64]
Lazy = NDArray[np.uint64]

LANES = 64
POSITION = 16
HEADER = 32
STREAM_SIZE = HEADER + 16 * LANES

STEP_CAP = 512  # unit steps of a geometric draw: passed with probability exp(-512)
LEVEL_CAP = 256  # levels of a Gaussian proposal: passed with probability exp(-128)

_U32 = np.uint32
_U64 = np.uint64
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_FIRST = np.int64(0)  # a plain 0 would have a type of its own, and what takes it would be compiled twice
_SECOND = np.int64(1)


# --------------------------------------------------------------------------------------------------
# ChaCha20 (RFC 8439, with the 64-bit counter of the original design)


def new_stream(key: bytes) -> Stream:
    """Return a stream that starts at block 0 of the keystream of a 256-bit ``key``."""
    stream = np.zeros(STREAM_SIZE, np.uint32)
    stream[:4] = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
    stream[4:12] = np.frombuffer(key, dtype="<u4")
    stream[POSITION] = 16 * LANES
    return stream


@inner(nogil=True)
def _quarter(a: _U32, b: _U32, c: _U32, d: _U32) -> tuple[_U32, _U32, _U32, _U32]:
    a = _U32(a + b)
    d = _U32(d ^ a)
    d = _U32((d << _U32(16)) | (d >> _U32(16)))
    c = _U32(c + d)
    b = _U32(b ^ c)
    b = _U32((b << _U32(12)) | (b >> _U32(20)))
    a = _U32(a + b)
    d = _U32(d ^ a)
    d = _U32((d << _U32(8)) | (d >> _U32(24)))
    c = _U32(c + d)
    b = _U32(b ^ c)
    b = _U32((b << _U32(7)) | (b >> _U32(25)))
    return a, b, c, d


@inner(nogil=True)
def refill(stream: Stream) -> None:
    """Replace the buffer by the next 64 blocks.

    Word ``r`` of block ``b`` is stored at ``64 * r + b``, so that the rounds run over 64 blocks at a
    time and the compiler turns them into vector instructions. The counter starts at 0 and grows by 64,
    so its low word never wraps inside a group of blocks.
    """
    s = stream[:16]
    w = stream[HEADER:].reshape((16, LANES))
    for r in range(16):
        for b in range(LANES):
            w[r, b] = s[r]
    for b in range(LANES):
        w[12, b] = s[12] + _U32(b)
    for turn in range(20):  # a column round, then a diagonal one, ten times
        d = turn & 1
        for q in range(
            4
        ):  # one quarter round after the other: a short loop compiles in a fraction of the time
            i, j, k = 4 + ((q + d) & 3), 8 + ((q + 2 * d) & 3), 12 + ((q + 3 * d) & 3)
            for b in range(LANES):
                w[q, b], w[i, b], w[j, b], w[k, b] = _quarter(w[q, b], w[i, b], w[j, b], w[k, b])
    for r in range(16):
        for b in range(LANES):
            w[r, b] += s[r]
    for b in range(LANES):
        w[12, b] += _U32(b)
    s[12] += _U32(LANES)
    if s[12] == 0:
        s[13] += _U32(1)
    stream[POSITION] = 0


# --------------------------------------------------------------------------------------------------
# Uniform integers


@inner(nogil=True)
def _word32(stream: Stream) -> _U64:
    """Next 32 bits, as uint64."""
    position = stream[POSITION]
    if position == 16 * LANES:
        refill(stream)
        position = _U32(0)
    stream[POSITION] = position + _U32(1)
    return _U64(stream[_U32(HEADER) + position])


@inner(nogil=True)
def _word64(stream: Stream) -> _U64:
    low = _word32(stream)
    return low | (_word32(stream) << _HALF)  # type: ignore[no-any-return]


@inner(nogil=True)
def _product(a: _U64, b: _U64) -> tuple[_U64, _U64]:
    """High and low word of the 128-bit product ``a * b``, from 32-bit halves.

    No partial sum wraps: ``(2**32 - 1)**2 + 2 * (2**32 - 1) = 2**64 - 1``.
    """
    a1, a0 = a >> _HALF, a & _LOW
    b1, b0 = b >> _HALF, b & _LOW
    low = a0 * b0
    mid = a1 * b0 + (low >> _HALF)
    cross = a0 * b1 + (mid & _LOW)
    high = a1 * b1 + (mid >> _HALF) + (cross >> _HALF)
    return high, (cross << _HALF) | (low & _LOW)


@inner(nogil=True)
def below(stream: Stream, n: _U64) -> _U64:
    """Uniform integer on ``0 .. n - 1``, for any ``1 <= n < 2**64``.

    Multiply a uniform ``w``-bit word by ``n`` and keep the high part ``h``. The words with a given ``h``
    are those whose product lies in ``[h 2**w, (h + 1) 2**w)``, a multiple of ``n`` apart; rejecting the
    products whose low part is under ``2**w mod n`` leaves exactly ``floor(2**w / n)`` words for every
    ``h``. The division is needed only when the low part is under ``n``. (Lemire, arXiv:1805.10941.)
    """
    if n <= _LOW:
        p = _word32(stream) * n
        if (p & _LOW) < n:
            floor = (_LOW + _ONE) % n
            while (p & _LOW) < floor:
                p = _word32(stream) * n
        return p >> _HALF  # type: ignore[no-any-return]
    high, low = _product(_word64(stream), n)
    if low < n:
        floor = (_ZERO - n) % n
        while low < floor:
            high, low = _product(_word64(stream), n)
    return high  # type: ignore[no-any-return]


# --------------------------------------------------------------------------------------------------
# Coins of probability exp(-x)
#
# All rest on one fact (von Neumann; Canonne, Kamath and Steinke 2020, Algorithm 1): for 0 <= g <= 1 let
# K be the first n = 1, 2, ... whose coin(g / n) fails. P(K > n) = g**n / n!, so P(K is odd) = exp(-g).


@inner(nogil=True)
def _coin_exp_one(stream: Stream) -> bool:
    """coin(exp(-1)); the first coin(1 / 1) always succeeds."""
    n = _TWO
    while below(stream, n) == _ZERO:
        n += _ONE
    return bool(n & _ONE == _ONE)


@inner(nogil=True)
def _coin_exp_half(stream: Stream) -> bool:
    """coin(exp(-1/2))."""
    n = _ONE
    while below(stream, n + n) == _ZERO:
        n += _ONE
    return bool(n & _ONE == _ONE)


@inner(nogil=True)
def _coin_exp_fraction(stream: Stream, p: _U64, q: _U64) -> bool:
    """coin(exp(-p / q)) for ``p <= q``; coin(p / (q n)) is coin(1 / n) and coin(p / q) together."""
    if below(stream, q) >= p:
        return True
    n = _TWO
    while below(stream, n) == _ZERO and below(stream, q) < p:
        n += _ONE
    return bool(n & _ONE == _ONE)


@compiled(nogil=True)
def coins_exp(out: NDArray[np.bool_], stream: Stream, whole: _U64, p: _U64, q: _U64) -> None:
    """Fill ``out`` with coin(exp(-(whole + p / q))), ``0 <= p < q``."""
    for i in range(out.size):
        heads = _coin_exp_fraction(stream, p, q)
        step = _ZERO
        while heads and step < whole:
            heads = _coin_exp_one(stream)
            step += _ONE
        out[i] = heads


# --------------------------------------------------------------------------------------------------
# Geometric and discrete Laplace


@compiled(nogil=True)
def geometric(
    out: Out, start: int, stream: Stream, t: _U64, shift: _U64, whole: _U64, rest: _U64, two_sided: bool
) -> int:
    """Fill ``out[start:]`` with geometric or discrete Laplace draws of scale ``t / 2**shift``.

    The magnitude ``Y`` has ``P(Y >= y) = exp(-y / scale)``.

    *Scale above 1* (``whole == 0``; Canonne, Kamath and Steinke 2020, Algorithm 2). ``V`` counts
    successes of coin(exp(-1)), ``U`` is uniform on ``0 .. t - 1`` kept with coin(exp(-U / t)); then
    ``X = U + t V`` has ``P(X = x)`` proportional to ``exp(-x / t)``, hence ``P(X >= x) = exp(-x / t)`` and
    ``floor(X / 2**shift)`` is ``Y``. With ``t < 2**53`` and ``V < 512``, ``X < 2**62``.

    *Scale at most 1.* ``Y`` counts successes of coin(exp(-1 / scale)), where
    ``1 / scale = whole + rest / t``.

    *Two sides.* A fair sign, starting again on minus zero, gives every ``y != 0`` half the probability
    ``P(Y = |y|)`` and zero the same half: the discrete Laplace distribution.
    """
    for i in range(start, out.size):
        while True:
            steps = 0
            if whole == _ZERO:
                while _coin_exp_one(stream):
                    steps += 1
                    if steps == STEP_CAP:
                        return i
                u = below(stream, t)
                while not _coin_exp_fraction(stream, u, t):
                    u = below(stream, t)
                value = np.int64((u + t * _U64(steps)) >> shift)
            else:
                heads = True
                while heads:
                    heads = _coin_exp_fraction(stream, rest, t)
                    step = _ZERO
                    while heads and step < whole:
                        heads = _coin_exp_one(stream)
                        step += _ONE
                    if heads:
                        steps += 1
                        if steps == STEP_CAP:
                            return i
                value = np.int64(steps)
            if two_sided and _word32(stream) & _ONE == _ONE:
                if value == 0:
                    continue
                value = -value
            out[i] = value
            break
    return out.size


# --------------------------------------------------------------------------------------------------
# Gaussians (Karney, "Sampling exactly from the normal distribution", arXiv:1303.6257)
#
# Both samplers propose a level k >= 0 with probability proportional to exp(-k**2 / 2): count successes
# of coin(exp(-1/2)), then keep the count with k (k - 1) further such coins. An offset x in [0, 1) is
# then kept with probability exp(-x (2 k + x) / 2), as k + 1 coins of exp(-x (2 k + x) / (2 k + 2)).
# Together that is exp(-(k + x)**2 / 2): the half-normal density at y = k + x. In the coins,
# g = x (2 k + x) / (2 k + 2) < 1 and coin(g / n) is coin((2 k + x) / (n (2 k + 2))) and coin(x)
# together. The first of them is uniform on n (2 k + 2) tickets: 2 k win, one wins with coin(x).


@inner(nogil=True)
def _level(stream: Stream) -> int:
    """Return a level ``k``, or ``LEVEL_CAP`` as soon as the count reaches it."""
    while True:
        k = 0
        while _coin_exp_half(stream):
            k += 1
            if k == LEVEL_CAP:
                return k
        trials = k * (k - 1)
        while trials > 0 and _coin_exp_half(stream):
            trials -= 1
        if trials == 0:
            return k


@inner(nogil=True)
def _keep_rational(stream: Stream, k: int, r: _U64, m: _U64) -> bool:
    """coin(exp(-x (2 k + x) / 2)) for ``x = r / m``."""
    sure = _U64(2 * k)
    for _ in range(k + 1):
        n = _ONE
        while True:
            ticket = below(stream, n * (sure + _TWO))
            if ticket > sure or below(stream, m) >= r or (ticket == sure and below(stream, m) >= r):
                break
            n += _ONE
        if n & _ONE == _ZERO:
            return False
    return True


@compiled(nogil=True)
def discrete_gaussian(out: Out, start: int, stream: Stream, m: _U64, shift: _U64, width: _U64) -> int:
    """Fill ``out[start:]`` with ``P(i)`` proportional to ``exp(-i**2 / (2 sigma**2))``.

    ``sigma = m / 2**shift`` and ``width = ceil(sigma)``. Every integer ``i >= 0`` lies in exactly one
    interval ``[k sigma, (k + 1) sigma)``, which holds at most ``width`` integers, the first of them
    ``ceil(k sigma)``. Given the level ``k`` an integer ``i`` is proposed uniformly from ``width``
    candidates; with ``x = i / sigma - k = (i 2**shift - k m) / m`` it is kept if ``x < 1`` and then with
    probability ``exp(-x (2 k + x) / 2)``. So ``i`` has weight ``exp(-(k + x)**2 / 2) / width``, and
    ``k + x = i / sigma``. A fair sign, refusing minus zero, completes the distribution.

    With ``m < 2**53``, ``shift <= 61`` and ``k < 256`` the largest intermediate value is
    ``k m + m + 2 * 2**shift < 2**63``.
    """
    up = (_ONE << shift) - _ONE
    for i in range(start, out.size):
        while True:
            k = _level(stream)
            if k == LEVEL_CAP:
                return i
            km = _U64(k) * m
            value = ((km + up) >> shift) + below(stream, width)
            r = (value << shift) - km
            if r >= m or not _keep_rational(stream, k, r, m):
                continue
            if _word32(stream) & _ONE == _ZERO:
                out[i] = np.int64(value)
                break
            if value > _ZERO:
                out[i] = -np.int64(value)
                break
    return out.size


@inner(nogil=True)
def _with_digit(x: Lazy, j: int, stream: Stream) -> Lazy:
    """Make digit ``j`` of the lazy real known; returns ``x``, or a larger copy when it was full."""
    while x[0] <= j:
        known = np.int64(x[0])
        if known + 1 == x.size:
            larger = np.empty(2 * x.size, np.uint64)
            for i in range(x.size):
                larger[i] = x[i]
            x = larger
        x[known + 1] = _word64(stream)
        x[0] = known + 1
    return x


@inner(nogil=True)
def _coin_lazy(stream: Stream, x: Lazy) -> tuple[bool, Lazy]:
    """coin(x): a fresh uniform is below ``x``, by comparing base-2**64 digits until two differ."""
    j = _FIRST
    while True:
        x = _with_digit(x, j, stream)
        u = _word64(stream)
        if u != x[j + 1]:
            return u < x[j + 1], x
        j += 1


@inner(nogil=True)
def _keep_lazy(stream: Stream, k: int, x: Lazy) -> tuple[bool, Lazy]:
    """coin(exp(-x (2 k + x) / 2)) for a lazy real ``x``."""
    sure = _U64(2 * k)
    for _ in range(k + 1):
        n = _ONE
        while True:
            ticket = below(stream, n * (sure + _TWO))
            if ticket > sure:
                break
            heads, x = _coin_lazy(stream, x)
            if heads and ticket == sure:
                heads, x = _coin_lazy(stream, x)
            if not heads:
                break
            n += _ONE
        if n & _ONE == _ZERO:
            return False, x
    return True, x


@inner(nogil=True)
def _rounded(stream: Stream, k: int, x: Lazy, m: _U64, shift: _U64) -> tuple[np.int64, Lazy]:
    """``floor(sigma (k + x) + 1/2)`` for ``sigma = m / 2**shift``, exactly.

    With ``x = (x1 + z) / 2**64``, ``x1`` its first digit and ``z`` in [0, 1) the rest, and
    ``m x1 = high 2**64 + low``, the value is ``floor((a + (low + m z) / 2**64) / 2**shift)`` with the
    integer ``a = k m + 2**(shift - 1) + high``. As ``low + m z < 2**65`` the numerator's integer part is
    ``a`` or ``a + 1``, and it is ``a`` for certain if ``low + m <= 2**64``. If either part gives the same
    answer, that is the answer. Otherwise it hangs on whether ``m z >= d`` with ``d = 2**64 - low``:
    the same question one digit further on. It stays open with probability below ``2**-10`` per digit,
    and it is answered, never approximated.
    """
    high, low = _product(m, x[1])
    a = _U64(k) * m + (_ONE << (shift - _ONE)) + high
    if low + m >= low or (a + _ONE) & ((_ONE << shift) - _ONE) != _ZERO:
        return np.int64(a >> shift), x
    j = _SECOND
    while True:
        d = _ZERO - low
        x = _with_digit(x, j, stream)
        high, low = _product(m, x[j + 1])
        if high >= d:
            return np.int64((a + _ONE) >> shift), x
        if high + _ONE < d or low + m >= low:
            return np.int64(a >> shift), x
        j += 1


@compiled(nogil=True)
def rounded_gaussian(out: Out, start: int, stream: Stream, m: _U64, shift: _U64) -> int:
    """Fill ``out[start:]`` with a normal deviate of deviation ``sigma = m / 2**shift`` rounded to an integer.

    ``y = k + x`` is a half-normal deviate whose offset ``x`` is uniform before it is kept, with digits
    drawn when they are first needed: the coins and the rounding look at the same digits. The sign
    is fair and rounding is symmetric (ties have probability zero), so
    ``P(i) = Phi((i + 1/2) / sigma) - Phi((i - 1/2) / sigma)``.

    With ``m < 2**54``, ``1 <= shift <= 62`` and ``k < 256``, ``a < 2**62 + 2**61 + 2**54 < 2**63``.
    """
    x = np.zeros(4, np.uint64)
    for i in range(start, out.size):
        while True:
            k = _level(stream)
            if k == LEVEL_CAP:
                return i
            x[0] = _ZERO
            kept, x = _keep_lazy(stream, k, x)
            if kept:
                break
        x = _with_digit(x, _FIRST, stream)
        value, x = _rounded(stream, k, x, m, shift)
        out[i] = value if _word32(stream) & _ONE == _ZERO else -value
    return out.size
