"""Two mixtures of normal distributions on a line, and the law of their privacy loss on a grid.

The likelihood ratio of a pair grows along the line, so ``loss in (ih, (i+1)h]`` is an interval with masses ``a`` and ``b``
under ``P`` and ``Q``. It is replaced by two points, losses ``ih`` and ``(i+1)h``, that together have the same two masses. This spreads the
likelihood ratio at equal mean, so the new pair dominates the old one (Blackwell; Doroshenko et al. 2022). What lies above the grid has
infinite loss; what lies below it is moved up to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["Mixture", "Pair", "discretised"]

Floats = npt.NDArray[np.float64]
Mixture = tuple[tuple[float, float], ...]
"""Weights and means."""

_REACH = 9.5
"""Standard deviations kept on each side of a pair; what lies beyond has probability 1e-21 and counts as a failure."""


@dataclass(frozen=True)
class Pair:
    """Two mixtures of normals on a line, as (weight, mean), the first ahead of the second, with one deviation."""

    first: Mixture
    second: Mixture
    deviation: float

    def loss(self, x: Floats) -> Floats:
        """Return the logarithm of the likelihood ratio; it grows along the line."""
        return self._log_density(self.first, x) - self._log_density(self.second, x)

    def _log_density(self, mixture: Mixture, x: Floats) -> Floats:
        twice = 2 * self.deviation**2
        if len(mixture) == 1:
            weight, m = mixture[0]
            return np.asarray(math.log(weight) + (2 * m * x - m * m) / twice)
        terms = np.stack([math.log(w) + (2 * m * x - m * m) / twice for w, m in mixture])
        peak = terms.max(axis=0)
        return np.asarray(peak + np.log(np.exp(terms - peak).sum(axis=0)))

    def masses(self, mixture: Mixture, x: Floats) -> Floats:
        """Return the mass between neighbouring points, without cancellation in either tail."""
        from scipy.special import ndtr

        total = np.zeros(len(x) - 1)
        for weight, mean in mixture:
            u = (x - mean) / self.deviation
            below, above = ndtr(u), ndtr(-u)
            total += weight * np.where(u[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
        return np.asarray(np.maximum(total, 0.0))

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The part of the line that is kept."""
        means = [mean for _, mean in (*self.first, *self.second)]
        return min(means) - _REACH * self.deviation, max(means) + _REACH * self.deviation

    @cached_property
    def spread(self) -> float:
        """Standard deviation of the loss under the first."""
        x = np.linspace(*self.ends, 4097)
        mass = self.masses(self.first, x)
        values = self.loss((x[1:] + x[:-1]) / 2)
        mean = float(mass @ values)
        return math.sqrt(max(float(mass @ (values - mean) ** 2), 1e-30))

    def points(self, losses: Floats, *, close: float) -> Floats:
        """Return where the loss takes given values between its ends, to within ``close`` in the loss."""
        x = np.linspace(*self.ends, 8193)
        values = self.loss(x)
        place = np.clip(np.searchsorted(values, losses), 1, len(x) - 1)
        low, high = x[place - 1], x[place]
        rise = np.maximum(values[place] - values[place - 1], 1e-300)
        found = np.clip(low + (high - low) * (losses - values[place - 1]) / rise, low, high)
        for _ in range(2):
            slope = np.maximum(self._slope(self.first, found) - self._slope(self.second, found), 1e-300)
            found = np.clip(found - (self.loss(found) - losses) / slope, low, high)
        rest = np.flatnonzero(np.abs(self.loss(found) - losses) > close)
        low, high, wanted = low[rest], high[rest], losses[rest]
        for _ in range(60 if len(rest) else 0):
            middle = (low + high) / 2
            over = self.loss(middle) > wanted
            low, high = np.where(over, low, middle), np.where(over, middle, high)
        found[rest] = low
        return found

    def _slope(self, mixture: Mixture, x: Floats) -> Floats:
        """Return the derivative of the logarithm of a density relative to the normal in the middle."""
        if len(mixture) == 1:
            return np.full(len(x), mixture[0][1] / self.deviation**2)
        density = self._log_density(mixture, x)
        twice = 2 * self.deviation**2
        shares = [np.exp(math.log(w) + (2 * m * x - m * m) / twice - density) * m for w, m in mixture]
        return np.asarray(np.sum(shares, axis=0) / self.deviation**2)


@lru_cache(maxsize=64)
def discretised(pair: Pair, step: float) -> tuple[int, Floats, float]:
    """Return the first grid point, the masses on the grid from there, and the mass with infinite loss."""
    from scipy.special import ndtr

    bottom, top = (float(value) for value in pair.loss(np.array(pair.ends)))
    start, stop = math.floor(bottom / step), math.ceil(top / step)
    grid = np.arange(start, stop + 1)
    inner = np.asarray(grid[1:-1] * step, dtype=np.float64)
    edges = np.concatenate([[pair.ends[0]], pair.points(inner, close=1e-7 * step), [pair.ends[1]]])
    edges = np.maximum.accumulate(edges)
    a, b = pair.masses(pair.first, edges), pair.masses(pair.second, edges)
    upper = (a - b * np.exp(np.minimum(grid[:-1] * step, 700.0))) / -math.expm1(-step)
    # rounding moves mass between neighbouring points only; 1e-13/step is above what it can amount to
    upper = np.clip(upper + a * min(1.0, 1e-13 / step), 0.0, a)
    mass = np.zeros(len(grid))
    mass[1:] += upper
    mass[:-1] += a - upper
    tail = math.fsum(w * float(ndtr((pair.ends[0] - m) / pair.deviation)) for w, m in pair.first)
    mass[min(1, len(mass) - 1)] += tail
    over = math.fsum(w * float(ndtr((m - pair.ends[1]) / pair.deviation)) for w, m in pair.first)
    return start, mass, over
