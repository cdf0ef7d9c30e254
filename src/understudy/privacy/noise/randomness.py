"""Where privacy noise gets its random bits.

Everything that protects a record takes a :class:`Randomness`. In production that is
:class:`SystemRandomness`, which asks the operating system for every byte and keeps none of them, so
there is no seed to leak, no buffer that two forked processes could share, and no state to restore.
:class:`SeededRandomness` exists for tests.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.errors import BudgetError

__all__ = ["BitReader", "Randomness", "SeededRandomness", "SystemRandomness", "below_many"]


@runtime_checkable
class Randomness(Protocol):
    """A source of independent, uniformly distributed bytes.

    Implementations return fresh bytes on every call; nothing handed out is ever handed out again.
    """

    def bytes(self, n: int) -> bytes:
        """Return ``n`` fresh random bytes."""
        ...

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return ``n`` fresh random 64-bit words."""
        ...


class SystemRandomness:
    """The operating system's cryptographic generator. Takes no seed and keeps no state.

    Privacy
    -------
    The guarantees of the samplers hold for truly uniform bits. The system generator is
    computationally indistinguishable from one, so they hold against any adversary who cannot break
    it. Instances have no fields: copies, threads and forked children cannot repeat one another.

    Examples
    --------
    >>> randomness = SystemRandomness()
    >>> len(randomness.bytes(32))
    32
    >>> randomness.bytes(32) == randomness.bytes(32)
    False
    """

    __slots__ = ()

    def bytes(self, n: int) -> bytes:
        """Return ``n`` fresh bytes from the operating system."""
        return os.urandom(n)

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return ``n`` fresh 64-bit words from the operating system."""
        return _as_words(os.urandom(8 * n))

    def __repr__(self) -> str:
        return "SystemRandomness()"


class SeededRandomness:
    """A reproducible stream of bytes. **For tests only**: whoever knows the seed can remove the noise.

    Call number ``i`` returns the SHAKE-256 expansion of the seed and ``i``; equal seeds and equal
    sequences of calls give equal bytes on every machine.

    Parameters
    ----------
    seed
        A non-negative integer.

    Examples
    --------
    >>> SeededRandomness(7).words(2) == SeededRandomness(7).words(2)
    array([ True,  True])
    >>> stream = SeededRandomness(7)
    >>> stream.bytes(8) == stream.bytes(8)
    False
    """

    __slots__ = ("_calls", "_prefix")

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise BudgetError("A seeded test stream needs a non-negative integer seed.")
        self._prefix = f"understudy seeded stream {seed} ".encode()
        self._calls = 0

    def bytes(self, n: int) -> bytes:
        """Return the next ``n`` bytes of the stream."""
        call, self._calls = self._calls, self._calls + 1
        return hashlib.shake_256(self._prefix + str(call).encode()).digest(n)

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return the next ``n`` 64-bit words of the stream."""
        return _as_words(self.bytes(8 * n))

    def __repr__(self) -> str:
        return "SeededRandomness(<for tests only>)"


class BitReader:
    """Exact uniform integers of any size from a :class:`Randomness`.

    Reads blocks of bytes and hands out their bits once each. A reader lives as long as one draw, so
    its buffer is never shared between calls, threads or processes.

    Examples
    --------
    >>> reader = BitReader(SystemRandomness())
    >>> 0 <= reader.below(10**30) < 10**30
    True
    """

    __slots__ = ("_available", "_block_bytes", "_pool", "_randomness")

    def __init__(self, randomness: Randomness, *, block_bytes: int = 256) -> None:
        self._randomness = randomness
        self._block_bytes = block_bytes
        self._pool = 0
        self._available = 0

    def bits(self, n: int) -> int:
        """Return an integer uniform on ``0 .. 2**n - 1``."""
        while self._available < n:
            block = int.from_bytes(self._randomness.bytes(self._block_bytes), "little")
            self._pool |= block << self._available
            self._available += 8 * self._block_bytes
        value = self._pool & ((1 << n) - 1)
        self._pool >>= n
        self._available -= n
        return value

    def below(self, n: int) -> int:
        """Return an integer uniform on ``0 .. n - 1``.

        Draws as many bits as ``n - 1`` has and starts again when the result is too large. Given that
        it is not, every value is equally likely.
        """
        size = (n - 1).bit_length()
        while True:
            value = self.bits(size)
            if value < n:
                return value


def below_many(limit: int, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """Draw independent whole numbers, each uniform on ``0 .. limit - 1``, for a limit of at most ``2**63``.

    As :meth:`BitReader.below`: as many bits as are needed, and again where the result is too large.

    Examples
    --------
    >>> below_many(1, 3, SeededRandomness(1))
    array([0, 0, 0])
    """
    mask = np.uint64((1 << (limit - 1).bit_length()) - 1)
    kept: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    missing = count
    while missing:
        drawn = (randomness.words(2 * missing + 8) & mask).astype(np.int64)
        drawn = drawn[drawn < limit][:missing]
        kept.append(drawn)
        missing -= len(drawn)
    return np.concatenate(kept)


def _as_words(block: bytes) -> NDArray[np.uint64]:
    """Read bytes as little-endian 64-bit words, in native order and owned memory."""
    return np.frombuffer(block, dtype="<u8").astype(np.uint64)
