"""Integer noise, described by frozen values and drawn exactly.

A description such as ``Gaussian(sigma=3.0)`` is public: it can be planned with, recorded and compared.
``draw`` turns it into integers with exactly the stated probabilities: the scale is read as the rational
number a float is, all arithmetic is on integers, and no probability is ever rounded. The samplers and
their proofs are in ``_noise_kernels`` (64-bit) and ``_noise_bigint`` (unbounded).

Adding these integers to integer counts is a mechanism in itself: floating-point noise, whose gaps
betray the value it was added to, never occurs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from understudy.errors import BudgetError
from understudy.privacy.accounting.accounting import Accounting
from understudy.privacy.events import GaussianEvent, LaplaceEvent, ZcdpEvent
from understudy.privacy.exact_floats import float_up
from understudy.privacy.noise import bigint as _noise_bigint
from understudy.privacy.noise.opendp import OpenDPRandomness
from understudy.privacy.noise.randomness import BitReader, Randomness
from understudy.privacy.unit import Unit

# ----------------------------------------------------------------------------------------
# From a float scale to integers: choose the sampler, key it, and finish what a kernel leaves open.
#
# A float is a rational number ``m / 2**shift`` with ``m < 2**53``; that number, not an approximation, is the
# scale. The 64-bit kernels serve every scale whose ``shift`` their stated bounds allow: all of them for
# geometric noise, and Gaussians of ``sigma`` from ``2**-9`` up (smaller ones too when the float has few
# digits). The others are drawn in Python integers.

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
    from understudy.privacy.noise import kernels

    parameters = np.uint64(m), np.uint64(shift)
    return _in_kernel(kernels.rounded_gaussian, parameters, kernels.LEVEL_CAP, resume, shape, randomness)


def discrete_gaussian(sigma: float, shape: Shape, randomness: Randomness) -> NDArray[np.int64]:
    """Draw integers with ``P(k)`` proportional to ``exp(-k**2 / (2 sigma**2))``."""
    m, shift = dyadic(sigma)

    def resume(reader: BitReader, start: int) -> int:
        return _noise_bigint.discrete_gaussian(m, shift, reader, start=start)

    if shift > MAX_DISCRETE_SHIFT:
        return _in_bigint(resume, shape, randomness)
    from understudy.privacy.noise import kernels

    parameters = np.uint64(m), np.uint64(shift), np.uint64(-(-m >> shift))
    return _in_kernel(kernels.discrete_gaussian, parameters, kernels.LEVEL_CAP, resume, shape, randomness)


def geometric(scale: float, shape: Shape, randomness: Randomness, *, two_sided: bool) -> NDArray[np.int64]:
    """Draw one- or two-sided geometric integers. The kernel serves every admissible scale.

    A scale above 1 has at most 52 fractional bits; for the others the kernel only needs
    ``1 / scale = whole + rest / t`` with ``whole <= 2**20`` and ``rest < t < 2**53``.
    """
    from understudy.privacy.noise import kernels

    t, shift = dyadic(scale)
    sampler = _noise_bigint.discrete_laplace if two_sided else _noise_bigint.geometric

    def resume(reader: BitReader, start: int) -> int:
        return sampler(t, 1 << shift, reader, start=start)

    whole, rest = divmod(1 << shift, t) if t <= 1 << shift else (0, 0)
    parameters = (
        np.uint64(t),
        np.uint64(shift if whole == 0 else 0),
        np.uint64(whole),
        np.uint64(rest),
        two_sided,
    )
    return _in_kernel(kernels.geometric, parameters, kernels.STEP_CAP, resume, shape, randomness)


def _in_kernel(
    kernel: Callable[..., int],
    parameters: tuple[Any, ...],
    cap: int,
    resume: Callable[[BitReader, int], int],
    shape: Shape,
    randomness: Randomness,
) -> NDArray[np.int64]:
    """Run a kernel under a fresh key; finish in Python integers the draws at which it stops."""
    from understudy.privacy.noise import kernels

    out = np.empty(shape, np.int64)
    flat = out.reshape(-1)
    stream = kernels.new_stream(randomness.bytes(32))
    done = kernel(flat, 0, stream, *parameters)
    while done < flat.size:
        flat[done] = resume(BitReader(randomness), cap)
        done = kernel(flat, done + 1, stream, *parameters)
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


MIN_SCALE = 2.0**-20
"""Smallest admissible scale. Noise this small is zero in every practical sense."""

MAX_SCALE = 2.0**40
"""Largest admissible scale, so that no draw a program will ever see leaves 64 bits."""


@dataclass(frozen=True)
class Gaussian:
    """A continuous Gaussian rounded to the nearest integer.

    ``P(k) = Phi((k + 1/2) / sigma) - Phi((k - 1/2) / sigma)``.

    Parameters
    ----------
    sigma
        Standard deviation before rounding, between ``2**-20`` and ``2**40``.

    Privacy
    -------
    For an integer statistic ``x`` and real noise ``Z``, ``x + round(Z) = round(x + Z)``: adding this noise is
    post-processing of the continuous Gaussian mechanism. Hence exactly ``mu``-GDP with
    ``mu = sensitivity / sigma`` and ``mu**2 / 2``-zCDP, for any L2 sensitivity and any number of cells.
    It is drawn without rounding errors by Karney's algorithm with lazily extended digits.

    Examples
    --------
    >>> from understudy.privacy.noise.randomness import SystemRandomness
    >>> noise = Gaussian(sigma=3.0)
    >>> noise.draw((2, 2), SystemRandomness()).shape
    (2, 2)
    >>> round(noise.variance, 4), noise.quantile(0.975)
    (9.0833, 6)
    """

    sigma: float
    kind: ClassVar[Literal["gaussian"]] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _checked("sigma", self.sigma))

    @property
    def scale(self) -> float:
        """The standard deviation before rounding, ``sigma``."""
        return self.sigma

    @property
    def variance(self) -> float:
        """Variance of one draw: ``sigma**2 + 1/12`` but for very small ``sigma``."""
        if self.sigma > 3.0:
            return self.sigma**2 + 1.0 / 12.0
        k = np.arange(int(40 * self.sigma) + 2)
        tail = np.array([math.erfc(float(a)) for a in (k + 0.5) / (self.sigma * math.sqrt(2.0))])
        return float(np.sum((2 * k + 1) * tail))

    def quantile(self, p: float) -> int:
        """Return the smallest integer ``k`` with ``P(X <= k) >= p``."""
        return math.ceil(self.sigma * NormalDist().inv_cdf(_checked_probability(p)) - 0.5)

    def event(self, *, l1: float, l2: float) -> GaussianEvent:
        """Say what adding independent draws to whole numbers means, where neighbours change them by ``l1`` and ``l2``."""
        return GaussianEvent(l2, self.sigma)

    def draw(self, shape: Shape, randomness: Randomness) -> NDArray[np.int64]:
        """Draw independent integers of this shape; tests pass a seeded source of bits."""
        if isinstance(randomness, OpenDPRandomness):
            raise BudgetError(
                "OpenDP has no rounded Gaussian on integers. "
                "Use DiscreteGaussian(sigma), or SystemRandomness()."
            )
        return rounded_gaussian(self.sigma, shape, randomness)


@dataclass(frozen=True)
class DiscreteGaussian:
    """The discrete Gaussian distribution: ``P(k)`` proportional to ``exp(-k**2 / (2 sigma**2))``.

    Parameters
    ----------
    sigma
        Scale, between ``2**-20`` and ``2**40``.

    Privacy
    -------
    Adding it to an integer statistic, cell by cell, is ``sensitivity**2 / (2 sigma**2)``-zCDP for the L2
    sensitivity (Canonne, Kamath and Steinke, arXiv:2004.00010). It is *not* exactly
    ``sensitivity / sigma``-GDP; where the GDP curve is used, draw :class:`Gaussian` instead.

    Examples
    --------
    >>> from understudy.privacy.noise.randomness import SystemRandomness
    >>> noise = DiscreteGaussian(sigma=100.0)
    >>> noise.draw(4, SystemRandomness()).dtype
    dtype('int64')
    >>> round(noise.variance, 6)
    10000.0
    """

    sigma: float
    kind: ClassVar[Literal["gaussian"]] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _checked("sigma", self.sigma))

    @property
    def scale(self) -> float:
        """The scale ``sigma``."""
        return self.sigma

    @property
    def variance(self) -> float:
        """Variance of one draw: ``sigma**2`` but for small ``sigma``, where it is less."""
        if self.sigma > 3.0:
            return self.sigma**2  # short by a factor 1 - O(exp(-2 pi**2 sigma**2)) < 1e-70
        k, mass = self._positive_side()
        return float(np.sum(k**2 * mass) / (mass.sum() + 0.5))

    def quantile(self, p: float) -> int:
        """Return the smallest integer ``k`` with ``P(X <= k) >= p``, up to 1e-5 in probability."""
        p = _checked_probability(p)
        if self.sigma > 50.0:  # the rounded Gaussian differs by less than 1 / (24 sigma**2) in distribution
            return math.ceil(self.sigma * NormalDist().inv_cdf(p) - 0.5)
        mass = self._positive_side()[1]
        total = 2.0 * mass.sum() + 1.0
        above = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]]) / total  # above[j] = P(X > j)
        if p > 0.5:
            return int(np.argmax(above <= 1.0 - p))
        return -int(np.count_nonzero(above >= p))  # P(X <= -j) = P(X > j - 1)

    def _positive_side(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        k = np.arange(1.0, int(40 * self.sigma) + 3)
        return k, np.exp(-((k / self.sigma) ** 2) / 2.0)

    def event(self, *, l1: float, l2: float) -> ZcdpEvent:
        """Say what adding independent draws to whole numbers means, where neighbours change them by ``l1`` and ``l2``."""
        return ZcdpEvent(float_up(Fraction(l2) ** 2 / (2 * Fraction(self.sigma) ** 2)))

    def draw(self, shape: Shape, randomness: Randomness) -> NDArray[np.int64]:
        """Draw independent integers of this shape; tests pass a seeded source of bits."""
        if isinstance(randomness, OpenDPRandomness):
            return randomness.discrete_gaussian(self.sigma, _size(shape)).reshape(shape)
        return discrete_gaussian(self.sigma, shape, randomness)


@dataclass(frozen=True)
class Laplace:
    """The discrete Laplace distribution: ``P(k)`` proportional to ``exp(-|k| / scale)``.

    Parameters
    ----------
    scale
        Scale, between ``2**-20`` and ``2**40``.

    Privacy
    -------
    Adding it to an integer statistic is ``sensitivity / scale``-DP for the L1 sensitivity: moving the centre
    by an integer ``d`` changes ``exp(-|k| / scale)`` by a factor of at most ``exp(|d| / scale)``.

    Examples
    --------
    >>> from understudy.privacy.noise.randomness import SystemRandomness
    >>> noise = Laplace(scale=1.0)
    >>> noise.draw(3, SystemRandomness()).shape
    (3,)
    >>> round(noise.variance, 4), noise.quantile(0.975), noise.quantile(0.025)
    (1.8413, 3, -3)
    """

    scale: float
    kind: ClassVar[Literal["laplace"]] = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _checked("scale", self.scale))

    @property
    def variance(self) -> float:
        """Variance of one draw, ``1 / (2 sinh(1 / (2 scale))**2)``."""
        half = 0.5 / self.scale
        return 0.5 / math.sinh(half) ** 2 if half < 300.0 else 0.0

    def quantile(self, p: float) -> int:
        """Return the smallest integer ``k`` with ``P(X <= k) >= p``."""
        p = _checked_probability(p)
        # P(X > k) = q**(k + 1) / (1 + q) and P(X <= -k) = q**k / (1 + q) for k >= 0, q = exp(-1 / scale).
        log_norm = math.log1p(math.exp(-1.0 / self.scale))
        if p > 0.5:
            return max(0, math.ceil(-self.scale * (math.log(1.0 - p) + log_norm)) - 1)
        return -max(0, math.floor(-self.scale * (math.log(p) + log_norm)))

    def event(self, *, l1: float, l2: float) -> LaplaceEvent:
        """Say what adding independent draws to whole numbers means, where neighbours change them by ``l1`` and ``l2``."""
        return LaplaceEvent(l1, self.scale)

    def draw(self, shape: Shape, randomness: Randomness) -> NDArray[np.int64]:
        """Draw independent integers of this shape; tests pass a seeded source of bits."""
        if isinstance(randomness, OpenDPRandomness):
            return randomness.discrete_laplace(self.scale, _size(shape)).reshape(shape)
        return geometric(self.scale, shape, randomness, two_sided=True)


@dataclass(frozen=True)
class Geometric:
    """One-sided noise: ``P(k)`` proportional to ``exp(-k / scale)`` for ``k >= 0``.

    For randomised thresholds: for a count ``x`` and a public threshold ``T``, ``x + X >= T`` happens with
    probability ``min(1, exp(-(T - x) / scale))``.

    Parameters
    ----------
    scale
        Scale, between ``2**-20`` and ``2**40``.

    Privacy
    -------
    When ``x`` moves by at most ``d`` between neighbours the probability of *passing* that test changes by a
    factor of at most ``exp(d / scale)``. The probability of failing it can drop to zero: one-sided noise
    protects one side only, and the mechanism that uses it must say why that is enough.

    Examples
    --------
    >>> from understudy.privacy.noise.randomness import SystemRandomness
    >>> bool((Geometric(scale=5.0).draw(1000, SystemRandomness()) >= 0).all())
    True
    """

    scale: float
    kind: ClassVar[str] = "geometric"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _checked("scale", self.scale))

    @property
    def variance(self) -> float:
        """Variance of one draw, ``1 / (4 sinh(1 / (2 scale))**2)``."""
        return Laplace(self.scale).variance / 2.0

    def quantile(self, p: float) -> int:
        """Return the smallest integer ``k`` with ``P(X <= k) >= p``."""
        return max(0, math.ceil(-self.scale * math.log(1.0 - _checked_probability(p))) - 1)

    def draw(self, shape: Shape, randomness: Randomness) -> NDArray[np.int64]:
        """Draw independent non-negative integers of this shape; tests pass a seeded source of bits."""
        if isinstance(randomness, OpenDPRandomness):
            raise BudgetError("OpenDP has no one-sided geometric sampler. Use SystemRandomness().")
        return geometric(self.scale, shape, randomness, two_sided=False)


Noise = Gaussian | DiscreteGaussian | Laplace
"""Noise that protects both sides: what may be added to whole numbers."""


def noise_for(accounting: Accounting, unit: Unit, cost: float) -> Noise:
    """Return the noise for one marginal that costs at most ``cost``, from public facts alone.

    See :func:`noise_within`; one unit changes a marginal as it changes any histogram.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import PURE
    >>> noise_for(PURE, Unit.add_remove(), 0.5)
    Laplace(scale=2.0)
    """
    return noise_within(accounting, cost, l1=unit.histogram_l1, l2=unit.histogram_l2)


def noise_within(accounting: Accounting, cost: float, *, l1: float, l2: float) -> Noise:
    """Return the noise on whole numbers that neighbours change by at most ``l1`` and ``l2``, for at most ``cost``.

    Laplace noise under pure accounting, Gaussian noise otherwise.
    """
    if accounting.name == "pure":
        return Laplace(accounting.laplace_scale(cost, l1))
    return Gaussian(accounting.gaussian_sigma(cost, l2))


def _size(shape: Shape) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)


def _checked(name: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BudgetError(f"{name} must be a number.") from None
    if isinstance(value, bool) or not MIN_SCALE <= number <= MAX_SCALE:
        raise BudgetError(f"{name} ({value}) must be between 2**-20 and 2**40.")
    return number


def _checked_probability(p: float) -> float:
    if not 0.0 < p < 1.0:
        raise BudgetError(f"A quantile needs a probability strictly between 0 and 1, not {p}.")
    return p
