"""Exact quantiles of weighted sums of independent noise, Gaussian, Laplace or both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtri

from understudy.inference.laws import require_beta
from understudy.marginals import Measurement

Array = npt.NDArray[np.float64]

_PERIOD = 80.0
"""Period, in standard deviations, of the wrapped density that the Fourier series sums."""

_TERMS = 1 << 17
_NEGLIGIBLE = -25.0


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
        terms = 512
        while True:  # the characteristic function falls; go on until it is negligible
            grid = step * np.arange(1, terms + 1)
            exponent = -grid * grid * (self.gaussian + self.rounding / 12) / 2
            for size, count in self.laplace:
                exponent -= count * np.log1p((size * grid) ** 2)
            if exponent[-1] < _NEGLIGIBLE or terms >= _TERMS:
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
