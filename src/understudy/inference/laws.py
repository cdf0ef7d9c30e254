"""Exact quantiles of weighted sums of independent noise, Gaussian, Laplace or both."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtri

from understudy.errors import WorkloadError
from understudy.marginals import Measurement
from understudy.marginals.measurement import NoiseKind

# ----------------------------------------------------------------------------------------
# How large the noise of a measurement can be: tail bounds that hold for the integers we draw.
#
# Bounds are stated for continuous noise and carried over to integers by the *convex order*: ``X`` is
# below ``Y`` if ``E f(X) <= E f(Y)`` for every convex ``f``. The order survives sums of independent
# terms, and ``exp(s h)`` is convex for convex ``h >= 0``, so every exponential-moment (Chernoff) bound
# on ``sum_i h(e_i)`` that is proved for the larger law holds for the smaller one.
#
# **Rounded Gaussian** (``K = round(Z)``, ``Z`` normal with standard deviation ``sigma``). ``K`` is below
# ``N(0, sigma² + 1/4)``. Two symmetric laws are in convex order exactly if ``E(X - a)_+ <= E(Y - a)_+``
# for all ``a >= 0``. At whole ``a = j`` the left side is ``sum_{i >= j} P(Z > i + 1/2)``, the midpoint rule
# for ``E(Z - j)_+ = ∫_j^∞ P(Z > x) dx``; tails of a normal law are convex on ``x >= 0``, so the
# midpoint rule is too small and ``K`` is even below ``Z`` there. Between whole numbers the left side is linear
# and exceeds the convex right side of ``Z`` by at most an eighth of its curvature, ``φ(a)/8``, less the
# ``φ(a)/24`` of the midpoint rule, while adding variance ``v`` raises the right side by ``v φ(a)/2``: a sixth is
# enough to leading order, and a quarter was checked numerically for standard deviations from .05 to 100
# (a unit test repeats it). The discrete Gaussian is below the same law (same check).
#
# **Discrete Laplace** (``P(k) ∝ q^|k|``, ``q = exp(-x)``, ``x = 1/b``) is below the Laplace law of scale ``b``:
# at ``a = j + t`` the ratio of the two sides is ``(x / sinh x) (1 - t + t q) q^-t``. Over ``t`` in [0, 1]
# the second factor is largest at ``t = 1/(1-q) - 1/x``, where it is ``(1-q)/x exp(x/(1-q) - 1)``; that is
# at most ``sinh(x)/x`` for all ``x > 0`` (at small ``x`` the two agree to ``x²/8`` against ``x²/6``, at large
# ``x`` they approach ``exp(x)/(e x)`` against ``exp(x)/(2 x)``; the same test checks the range between).

ROUNDING_VARIANCE = 0.25
"""Added to the variance of Gaussian noise so that the continuous law dominates the rounded one."""


def require_beta(beta: float) -> float:
    """Return a failure probability, refusing what is not one."""
    if not 0 < beta < 1:
        raise WorkloadError(f"A failure probability ({beta}) must lie between 0 and 1.")
    return beta


def _smallest(bound: Callable[[float], float], low: float, high: float) -> float:
    """Minimise a Chernoff bound over its parameter; every parameter gives a valid bound."""
    found = minimize_scalar(
        lambda x: bound(math.exp(x)), bounds=(math.log(low), math.log(high)), method="bounded"
    )
    return float(found.fun)


@lru_cache(maxsize=4096)
def _gaussian_abs_sum(n: int, beta: float) -> float:
    """Bound ``sum |g_i|`` over ``n`` standard normals: ``E exp(s|g|) = 2 exp(s²/2) Φ(s)``."""
    extra = math.log(1 / beta)
    return _smallest(lambda s: (n * (math.log(2) + s * s / 2 + float(log_ndtr(s))) + extra) / s, 1e-4, 50.0)


@lru_cache(maxsize=4096)
def _gaussian_positive_sum(n: int, beta: float) -> float:
    """Bound ``sum (g_i)_+``: ``E exp(s g_+) = 1/2 + exp(s²/2) Φ(s)``."""
    extra = math.log(1 / beta)
    return _smallest(
        lambda s: (n * math.log(0.5 + math.exp(s * s / 2 + float(log_ndtr(s)))) + extra) / s, 1e-4, 30.0
    )


@lru_cache(maxsize=4096)
def _gaussian_positive_squares(n: int, beta: float) -> float:
    """Bound ``sum (g_i)_+²``: ``E exp(s g_+²) = 1/2 + 1/2 (1 - 2s)^(-1/2)``."""
    extra = math.log(1 / beta)
    return _smallest(lambda s: (n * math.log(0.5 + 0.5 / math.sqrt(1 - 2 * s)) + extra) / s, 1e-6, 0.5 - 1e-9)


@lru_cache(maxsize=4096)
def _laplace_sum(n: int, terms: int, beta: float, kind: str) -> float:
    """Bound sums over ``n`` cells of Laplace noise of scale one, each the sum of ``terms`` draws.

    For one draw ``E exp(s|e|) = 1/(1-s)``. For several, ``exp(s|x|) + exp(-s|x|) = exp(sx) + exp(-sx)``
    gives ``E exp(s|e|) <= 2 (1-s²)^-terms - exp(-s E|e|)``, the last term by Jensen's inequality, with
    ``E|e| = k C(2k, k) / 2^(2k-1)`` for ``k`` terms. By symmetry ``E exp(s e_+) = (1 + E exp(s|e|)) / 2``.
    """
    extra = math.log(1 / beta)
    mean = 2 * math.exp(
        math.log(terms) + math.lgamma(2 * terms + 1) - 2 * math.lgamma(terms + 1) - 2 * terms * math.log(2)
    )

    def log_moment(s: float) -> float:
        if kind == "signed":
            return -terms * math.log1p(-s * s)
        if terms == 1:
            absolute = 1 / (1 - s)
        else:
            absolute = 2 * math.exp(-terms * math.log1p(-s * s)) - math.exp(-s * mean)
        return math.log(absolute if kind == "absolute" else 0.5 + 0.5 * absolute)

    # beyond this the moments of sums overflow, and no useful bound lies there
    high = min(1 - 1e-9, math.sqrt(1 - math.exp(-600 / terms)))
    return _smallest(lambda s: (n * log_moment(s) + extra) / s, min(1e-5, high / 2), high)


@dataclass(frozen=True)
class CellNoise:
    """Independent noise in each cell of a table: the sum of ``terms`` draws of one law per cell.

    A measured marginal has one draw per cell. Summed to fewer columns, each remaining cell holds as many
    draws as cells were added up. A weighted average of Gaussian measurements is described by the scale
    that gives its variance, with ``rounding`` for what the rounding of its parts adds.

    Examples
    --------
    >>> noise = CellNoise("gaussian", 10.0)
    >>> round(noise.positive_sum(400, 0.05))      # the mean is 1596
    1893
    >>> CellNoise("laplace", 10.0, terms=4).variance
    800.0
    """

    kind: NoiseKind
    scale: float
    terms: int = 1
    rounding: float = ROUNDING_VARIANCE

    @classmethod
    def of(cls, measurement: Measurement, *, terms: int = 1) -> CellNoise:
        """Return the noise of a measurement summed to cells of ``terms`` of its own."""
        return cls(measurement.noise, measurement.scale, terms)

    @property
    def variance(self) -> float:
        """Variance of the dominating continuous law in each cell."""
        if self.kind == "gaussian":
            return self.terms * (self.scale**2 + self.rounding)
        return 2.0 * self.terms * self.scale**2

    @property
    def stddev(self) -> float:
        """Standard deviation of the dominating continuous law in each cell."""
        return math.sqrt(self.variance)

    def absolute_sum(self, n: int, beta: float) -> float:
        """Return a number that ``sum |e_i|`` over ``n`` cells exceeds with probability at most ``beta``.

        For Gaussian noise it is at most ``sd (n sqrt(2/π) + sqrt(2 n ln(1/beta)))`` (concentration of a
        Lipschitz function; the exponential moment used here is sharper). Theorem 3 of paper AIM has
        ``sqrt(2 ln 2) = 1.18`` in place of ``sqrt(2/π) = .80``.
        """
        require_beta(beta)
        if n == 0:
            return 0.0
        if self.kind == "gaussian":
            return self.stddev * _gaussian_abs_sum(n, beta)
        return self.scale * _laplace_sum(n, self.terms, beta, "absolute")

    def positive_sum(self, n: int, beta: float) -> float:
        """Return a number that the sum of the positive parts exceeds with probability at most ``beta``."""
        require_beta(beta)
        if n == 0:
            return 0.0
        if self.kind == "gaussian":
            return self.stddev * _gaussian_positive_sum(n, beta)
        return self.scale * _laplace_sum(n, self.terms, beta, "positive")

    def positive_squares(self, n: int, beta: float) -> float:
        """Return a bound on the sum of squared positive parts; infinite for Laplace noise (no such moments)."""
        require_beta(beta)
        if n == 0:
            return 0.0
        if self.kind == "gaussian":
            return self.variance * _gaussian_positive_squares(n, beta)
        return math.inf

    def signed_sum(self, n: int, beta: float) -> float:
        """Return a number that ``sum ±e_i``, with signs fixed in advance, exceeds with probability at most ``beta``."""
        require_beta(beta)
        if n == 0:
            return 0.0
        if self.kind == "gaussian":
            return math.sqrt(2 * n * self.variance * math.log(1 / beta))
        return self.scale * _laplace_sum(n, self.terms, beta, "signed")


Array = npt.NDArray[np.float64]

_PERIOD = 80.0
"""Period, in standard deviations, of the wrapped density that the Fourier series sums."""

_TERMS = 1 << 17
_NEGLIGIBLE = -25.0
_PRECISE = math.log(1e-6)
"""Logarithm of the error of a probability, relative to it, that quantiles may have."""


@dataclass(frozen=True, eq=False)
class WeightedNoise:
    """The error of an estimate ``sum_j a_j y_j``: noise of known laws with known weights.

    Attributes
    ----------
    gaussian
        Sum of ``a² σ²`` over the Gaussian terms.
    rounding
        Sum of ``a²`` over the Gaussian terms: what rounding them to integers can add to the variance.
    laplace
        Pairs of ``|a| b`` and how many Laplace terms have it.
    largest
        Largest ``|a|``.

    Examples
    --------
    >>> y = Measurement(("a",), np.array([5.0, 3.0]), "gaussian", 10.0)
    >>> noise = WeightedNoise.of([(y, np.array([1.0, 1.0]))])
    >>> round(noise.half_width(0.05), 2)
    28.23
    """

    gaussian: float
    rounding: float
    laplace: tuple[tuple[float, int], ...]
    largest: float

    @classmethod
    def of(cls, parts: Sequence[tuple[Measurement, Array]]) -> WeightedNoise:
        """Describe the error of ``sum over parts of <weights, values>``."""
        gaussian = rounding = largest = 0.0
        laplace: dict[float, int] = {}
        for item, weights in parts:
            sizes = np.abs(weights).ravel()
            largest = max(largest, float(sizes.max(initial=0.0)))
            if item.noise == "gaussian":
                square = float(np.square(sizes).sum())
                gaussian += square * item.scale**2
                rounding += square
                continue
            sizes = sizes[sizes > 1e-12 * max(largest, 1e-300)]
            kinds, counts = np.unique(np.round(sizes / largest, 12) if largest else sizes, return_counts=True)
            for kind, count in zip(kinds * (largest or 1.0), counts, strict=True):
                key = float(kind) * item.scale
                laplace[key] = laplace.get(key, 0) + int(count)
        return cls(gaussian, rounding, tuple(sorted(laplace.items())), largest)

    @property
    def variance(self) -> float:
        """Variance of the continuous law, with that of rounding (a twelfth per unit weight)."""
        return self.gaussian + self.rounding / 12 + sum(2 * count * size**2 for size, count in self.laplace)

    @property
    def proxy(self) -> float | None:
        """Variance ``v`` with ``E exp(s e) <= exp(s² v / 2)`` for all ``s``; ``None`` if there is Laplace noise."""
        return None if self.laplace else self.gaussian + self.rounding / 4

    def half_width(self, beta: float) -> float:
        """Return ``h`` such that the error is larger than ``h`` in absolute value with probability ``beta``.

        The quantile is that of the continuous law. Noise is whole: one rounded draw differs from its
        continuous original by at most a half, which is added (times the largest weight). For discrete
        Laplace noise the same margin suffices, since ``P(|K| >= k) = P(|L| > k - 1/2) / cosh(1/2b)``.
        For sums of draws the margin covers the lattice, and the variance includes a twelfth per
        rounded draw; the law of such sums differs from the continuous one by a relative
        ``exp(-2 π² σ²)``, which a unit test checks down to half a row.
        """
        require_beta(beta)
        margin = self.largest / 2
        if not self.laplace:
            return float(-ndtri(beta / 2)) * math.sqrt(self.variance) + margin
        if self.gaussian == 0 and len(self.laplace) == 1 and self.laplace[0][1] == 1:
            return self.laplace[0][0] * math.log(1 / beta) + margin
        return self._series_quantile(beta) + margin

    def _series_quantile(self, beta: float) -> float:
        """Invert the characteristic function: ``P(|X| <= h) = 2/π ∫ sin(th)/t φ(t) dt`` as a Fourier series."""
        sd = math.sqrt(self.variance)
        step = 2 * math.pi / (_PERIOD * sd)
        terms, negligible = 512, max(_NEGLIGIBLE, math.log(beta) + _PRECISE)
        while True:  # the characteristic function falls; go on until it is negligible
            grid = step * np.arange(1, terms + 1)
            exponent = -grid * grid * (self.gaussian + self.rounding / 12) / 2
            for size, count in self.laplace:
                exponent -= count * np.log1p((size * grid) ** 2)
            if exponent[-1] < negligible or terms >= _TERMS:
                break
            terms *= 4
        weight = np.exp(exponent) / np.arange(1, terms + 1)

        def outside(h: float) -> float:
            inside = step * h / math.pi + 2 / math.pi * float(np.dot(np.sin(grid * h), weight))
            return 1 - inside - beta

        high = sd
        while outside(high) > 0 and high < _PERIOD * sd / 2.1:
            high *= 1.5
        return float(brentq(outside, 0.0, min(high, _PERIOD * sd / 2.1), xtol=1e-6 * sd))
