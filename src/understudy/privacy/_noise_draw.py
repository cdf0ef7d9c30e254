"""From a float scale to integers: choose the sampler, key it, and finish what a kernel leaves open.

A float is a rational number ``m / 2**shift`` with ``m < 2**53``; that number, not an approximation, is the
scale. The 64-bit kernels serve every scale whose ``shift`` their stated bounds allow: all of them for
geometric noise, and Gaussians of ``sigma`` from ``2**-9`` up (smaller ones too when the float has few
digits). The others are drawn in Python integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy import _noise_bigint
from understudy.privacy.randomness import BitReader, Randomness

__all__ = ["discrete_gaussian", "dyadic", "geometric", "rounded_gaussian"]

Shape = int | tuple[int, ...]

MAX_DISCRETE_SHIFT = 61
MAX_ROUNDED_SHIFT = 62


def rounded_gaussian(sigma: float, shape: Shape, randomness: Randomness) -> NDArray[np.int64]:
    """Draw normal deviates of standard deviation ``sigma``, rounded to integers."""
    m, shift = dyadic(sigma)
    if shift == 0:
        m, shift = 2 * m, 1  # the kernel adds half a unit, 2**(shift - 1)

    def resume(reader: BitReader, start: int) -> int:
        return _noise_bigint.rounded_gaussian(m, shift, reader, start=start)

    if shift > MAX_ROUNDED_SHIFT:
        return _in_bigint(resume, shape, randomness)
    from understudy.privacy import _noise_kernels as kernels

    words = np.uint64(m), np.uint64(shift)
    return _in_kernel(kernels.rounded_gaussian, words, kernels.LEVEL_CAP, resume, shape, randomness)


def discrete_gaussian(sigma: float, shape: Shape, randomness: Randomness) -> NDArray[np.int64]:
    """Draw integers with ``P(k)`` proportional to ``exp(-k**2 / (2 sigma**2))``."""
    m, shift = dyadic(sigma)

    def resume(reader: BitReader, start: int) -> int:
        return _noise_bigint.discrete_gaussian(m, shift, reader, start=start)

    if shift > MAX_DISCRETE_SHIFT:
        return _in_bigint(resume, shape, randomness)
    from understudy.privacy import _noise_kernels as kernels

    words = np.uint64(m), np.uint64(shift), np.uint64(-(-m >> shift))
    return _in_kernel(kernels.discrete_gaussian, words, kernels.LEVEL_CAP, resume, shape, randomness)


def geometric(scale: float, shape: Shape, randomness: Randomness, *, two_sided: bool) -> NDArray[np.int64]:
    """Draw one- or two-sided geometric integers. The kernel serves every admissible scale.

    A scale above 1 has at most 52 fractional bits; for the others the kernel only needs
    ``1 / scale = whole + rest / t`` with ``whole <= 2**20`` and ``rest < t < 2**53``.
    """
    from understudy.privacy import _noise_kernels as kernels

    t, shift = dyadic(scale)
    sampler = _noise_bigint.discrete_laplace if two_sided else _noise_bigint.geometric

    def resume(reader: BitReader, start: int) -> int:
        return sampler(t, 1 << shift, reader, start=start)

    whole, rest = divmod(1 << shift, t) if t <= 1 << shift else (0, 0)
    words = np.uint64(t), np.uint64(shift if whole == 0 else 0), np.uint64(whole), np.uint64(rest), two_sided
    return _in_kernel(kernels.geometric, words, kernels.STEP_CAP, resume, shape, randomness)


def _in_kernel(
    kernel: Callable[..., int],
    words: tuple[Any, ...],
    cap: int,
    resume: Callable[[BitReader, int], int],
    shape: Shape,
    randomness: Randomness,
) -> NDArray[np.int64]:
    """Run a kernel under a fresh key; finish in Python integers the draws at which it stops."""
    from understudy.privacy import _noise_kernels as kernels

    out = np.empty(shape, np.int64)
    flat = out.reshape(-1)
    stream = kernels.new_stream(randomness.bytes(32))
    done = kernel(flat, 0, stream, *words)
    while done < flat.size:
        flat[done] = resume(BitReader(randomness), cap)
        done = kernel(flat, done + 1, stream, *words)
    stream.fill(0)  # the key must not outlive the draw
    return out


def _in_bigint(
    resume: Callable[[BitReader, int], int], shape: Shape, randomness: Randomness
) -> NDArray[np.int64]:
    """Draw every value in Python integers."""
    reader = BitReader(randomness, block_bytes=4096)
    out = np.empty(shape, np.int64)
    flat = out.reshape(-1)
    for i in range(flat.size):
        flat[i] = resume(reader, 0)
    return out


def dyadic(value: float) -> tuple[int, int]:
    """Return ``(m, shift)`` with ``value = m / 2**shift`` exactly, ``m < 2**53``."""
    m, power = value.as_integer_ratio()
    return m, power.bit_length() - 1
