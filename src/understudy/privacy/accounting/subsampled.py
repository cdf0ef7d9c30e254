"""What noisy sums over random batches cost: the Gaussian mechanism on Poisson samples, many times over.

In each step every row enters a batch by a coin of its own that lands with probability ``q``; what the rows of the batch contribute, a
vector of norm at most 1 each, is added up, and Gaussian noise of standard deviation ``z`` (the *noise multiplier*) is added.

Privacy
-------
**One step.** Let neighbours differ by the rows ``R`` that one of them has and the rows ``R'`` that the other has: up to ``k`` rows
and none (add-remove), or up to ``k`` rows each (replace-one). Tell the adversary what all other rows contributed. What is left is
``P = sum over A of w_A N(v_A, z² I)`` against ``Q = sum over B of w_B N(u_B, z² I)``, where ``A`` runs over the subsets of ``R`` that may be
in the batch and ``|v_A| <= |A|``, the same for ``B``, ``u_B`` and ``R'``. Claim: ``(P, Q)`` is dominated by the same mixtures on a line, with
means ``|A|`` and ``-|B|``. Proof: relative to ``N(0, z² I)`` these have densities ``sum w_A Z_A`` and ``sum w_B Z_B`` with ``Z_A = exp(X_A - Var X_A / 2)``
for jointly Gaussian ``X`` with covariances ``<v_A, v_A'>/z²`` and so on. For convex ``F``, here ``F(t) = max(0, t)``, and constants ``c_i`` of
any sign, moving the covariances from ``S`` to ``S'`` along a straight line changes ``E F(sum c_i Z_i)`` at the rate
``1/2 sum c_i c_j (S'_ij - S_ij) E[Z_i Z_j F'']`` (Kahane 1985): larger covariances of terms of equal sign and smaller ones of terms of
opposite sign never lower it. In ``delta(epsilon) = E max(0, sum w_A Z_A - exp(epsilon) sum w_B Z_B)`` all three kinds are bounded by those
of the line, with ``|A||A'|``, ``|B||B'|`` and ``-|A||B|``. Fewer than ``k`` rows are ``k`` rows some of which contribute nothing.
The line is reached by rows that contribute ``1`` and ``-1``, so nothing tighter holds.

**Many steps.** Domination is kept by adaptive composition (Zhu, Dong and Wang 2022), so the privacy loss of the whole is at most the
sum of independent losses of the pairs on the line. A batch of Gaussian measurements whose squared ratios of sensitivity and noise add up
to ``mu²`` composes as one more pair, ``N(mu, 1)`` against ``N(0, 1)``.

**On a computer.** Losses are rounded up to a grid and convolved: :mod:`understudy.privacy.accounting.subsampled`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy.events import Approximated, GaussianEvent, SubsampledGaussianEvent
from understudy.privacy.exact_floats import probability

# ----------------------------------------------------------------------------------------
# Two mixtures of normal distributions on a line, and the law of their privacy loss on a grid.
#
# The likelihood ratio of a pair grows along the line, so ``loss in (ih, (i+1)h]`` is an interval with masses ``a`` and ``b``
# under ``P`` and ``Q``. It is replaced by two points, losses ``ih`` and ``(i+1)h``, that together have the same two masses. This spreads the
# likelihood ratio at equal mean, so the new pair dominates the old one (Blackwell; Doroshenko et al. 2022). What lies above the grid has
# infinite loss; what lies below it is moved up to it.

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


# ----------------------------------------------------------------------------------------
# The sum of many independent privacy losses: an upper bound on delta by fast Fourier transforms.
#
# Losses are on a grid (:mod:`understudy.privacy.accounting.subsampled`). Their sums are convolved *after* weighing each loss
# ``l`` with ``exp(t l)``, where ``t`` minimises ``K(t) - t epsilon`` for the logarithm ``K`` of the moment generating function. Rounding and
# wrap-around then err by a share of ``exp(K(t) - t epsilon)``, which is of the order of delta however small delta is; ``_SLACK`` of it is added.

_SLACK = 1e-8
"""Share of the moment bound added to delta: far above what rounding and wrap-around can amount to."""
_FINE = 0.02
"""Step of the grid in standard deviations of the average loss: raises the deviation of the sum by at most one part in 20,000."""
_MOST_CELLS = 1 << 17
"""Of one pair: rare batches have losses so uneven that the grid above would be far longer. Coarser is dearer, by less than 0.03 %."""
_MOST_POINTS = 1 << 23
_WRAPPED = 1e-11
_NOTHING = -150.0
"""Logarithm of a delta that is as good as none: no tilt beyond it is looked for."""
_COARSE = 16


def composed(pairs: tuple[Pair, ...], times: tuple[int, ...], epsilon: float) -> float:
    """Return an upper bound on delta at ``epsilon`` of independent pairs, each several times."""
    counted = list(zip(pairs, times, strict=False))
    variance = math.fsum(count * pair.spread**2 for pair, count in counted)
    finest = max(float(np.ptp(pair.loss(np.array(pair.ends)))) for pair in pairs) / _MOST_CELLS
    step = max(_FINE * math.sqrt(variance / sum(count for _, count in counted)), finest)
    while True:
        result = _convolved(pairs, times, epsilon, step)
        if result is not None:
            return min(1.0, result)
        step *= 2


def _convolved(pairs: tuple[Pair, ...], times: tuple[int, ...], epsilon: float, step: float) -> float | None:
    """Convolve on a grid of one step; nothing if that would take too many points."""
    parts = [(*discretised(pair, step), count) for pair, count in zip(pairs, times, strict=False)]
    grids: list[Floats] = [
        np.asarray((start + np.arange(len(mass))) * step, dtype=np.float64) for start, mass, _, _ in parts
    ]
    infinite = math.fsum(over * count for _, _, over, count in parts)
    largest = [float(losses[np.flatnonzero(part[1])[-1]]) for part, losses in zip(parts, grids, strict=True)]
    if math.fsum(loss * part[3] for loss, part in zip(largest, parts, strict=True)) <= epsilon:
        return infinite  # no sum of finite losses is above epsilon

    def cumulant(t: float, masses: Sequence[Floats], places: Sequence[Floats]) -> float:
        total = 0.0
        for (_, _, _, count), mass, losses in zip(parts, masses, places, strict=True):
            exponents = t * losses
            peak = float(exponents.max())
            moments = mass * np.exp(np.maximum(exponents - peak, -300.0))
            total += count * (peak + math.log(float(moments.sum())))
        return total

    exact = [mass for _, mass, _, _ in parts], grids
    runs = [_coarse(mass) for mass in exact[0]]
    rough = (
        runs,
        [_coarse(m * x) / np.maximum(r, 1e-300) for m, x, r in zip(*exact, runs, strict=True)],
    )
    tilt = _lowest(lambda t: cumulant(t, *rough) - t * epsilon)  # any tilt is valid
    level = cumulant(tilt, *exact)
    tilted, mean, variance = [], 0.0, 0.0
    for (_, mass, _, count), losses in zip(parts, grids, strict=True):
        exponents = tilt * losses
        weights = mass * np.exp(np.maximum(exponents - exponents.max(), -300.0))
        weights /= weights.sum()
        centre = float(weights @ losses)
        mean += count * centre
        variance += count * float(weights @ (losses - centre) ** 2)
        tilted.append(weights)

    def edge(sign: float) -> float:
        """Return how far from the mean the tilted mass on one side is below ``_WRAPPED``, by moments."""
        found = math.inf
        for share in (1.0, 2.5, 4.5, 7.0):
            t = share / math.sqrt(variance)
            moved = cumulant(tilt + sign * t, *exact) - level - sign * t * mean
            found = min(found, (moved - math.log(_WRAPPED)) / t)
        return found + 8 * step

    below, above = edge(-1.0), edge(1.0)
    if (below + above) / step > _MOST_POINTS:
        return None
    size = 1 << max(8, math.ceil(math.log2((below + above) / step + 2)))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for (start, _, _, count), weights in zip(parts, tilted, strict=True):
        folded = np.bincount((start + np.arange(len(weights))) % size, weights=weights, minlength=size)
        spectrum *= _power(np.fft.rfft(folded), count)
    law = np.maximum(np.fft.irfft(spectrum, size), 0.0)
    first = math.floor((mean - below) / step)
    places = first + np.arange(size)
    losses = np.asarray(places * step, dtype=np.float64)
    kept = losses > epsilon
    law = law[places[kept] % size]
    gaps = losses[kept] - epsilon
    bound = math.exp(min(700.0, level - tilt * epsilon))
    share = float(law @ (np.exp(-tilt * gaps) * -np.expm1(-gaps)))
    return bound * (share * (1 + 1e-12) + _SLACK + 2 * _WRAPPED) + infinite


def _coarse(mass: Floats) -> Floats:
    """Add up runs of neighbouring masses."""
    short = -len(mass) % _COARSE
    return np.asarray(np.concatenate([mass, np.zeros(short)]).reshape(-1, _COARSE).sum(axis=1))


def _power(values: npt.NDArray[np.complex128], exponent: int) -> npt.NDArray[np.complex128]:
    """Raise to a whole power by squaring."""
    result = np.ones_like(values)
    while exponent:
        if exponent & 1:
            result = result * values
        values, exponent = values * values, exponent >> 1
    return result


def _lowest(function: Callable[[float], float]) -> float:
    """Return where a convex function on the positive numbers is nearly lowest; anywhere would do, but less tightly."""
    high = 1.0
    while high < 1e5 and _NOTHING < function(high) > function(2 * high):
        high *= 2
    low, high = 0.0, 2 * high
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(40):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(right)
        if high - low < 1e-3 * high:
            break
    return (low + high) / 2


_LARGEST_NOISE = 1e4
_SMALLEST_NOISE = 0.05
_PRECISION = 1e-4
_MOST_ROWS = 1_000
"""Rows of one unit: beyond these the weights of a mixture leave the range of floating point."""


def approximated(
    events: tuple[GaussianEvent | SubsampledGaussianEvent, ...], *, delta: float
) -> Approximated:
    """Return several acts as one event with the epsilon they have together at ``delta``, rounded up.

    Examples
    --------
    >>> event = approximated((SubsampledGaussianEvent(0.05, 1.2, 200, 1, 1),), delta=1e-6)
    >>> 3.8 < event.epsilon < 3.9
    True
    """
    wanted = probability("delta", delta)
    low, high = 0.0, 1.0
    while approximated_delta(events, high) > wanted:
        low, high = high, 2 * high
        if high > 1e3:
            raise NoSuchGuarantee("So little noise has no epsilon below 1000 at this delta.")
    while high - low > _PRECISION / 10 * high and high > 1e-9:
        middle = (low + high) / 2
        if approximated_delta(events, middle) > wanted:
            low = middle
        else:
            high = middle
    return Approximated(high, wanted, events)


@lru_cache(maxsize=4096)
def approximated_delta(events: tuple[GaussianEvent | SubsampledGaussianEvent, ...], epsilon: float) -> float:
    """Return an upper bound on the delta that several acts have together at ``epsilon``.

    Examples
    --------
    >>> from understudy.privacy.accounting.conversions import gdp_delta
    >>> ratio = approximated_delta((GaussianEvent(1.0, 2.0),), 1.0) / gdp_delta(0.5, 1.0)
    >>> 1.0 <= ratio < 1.001
    True
    """
    squared = math.fsum((e.l2_sensitivity / e.sigma) ** 2 for e in events if isinstance(e, GaussianEvent))
    sampled = [event for event in events if isinstance(event, SubsampledGaussianEvent)]
    if len(sampled) > 1:
        raise BudgetError("At most one run of steps on random batches is accounted for at once.")
    if not events or not all(isinstance(event, (GaussianEvent, SubsampledGaussianEvent)) for event in events):
        raise BudgetError(
            "Gaussian noise and random batches are accounted for together, and nothing else with them."
        )
    if not sampled:
        pair = Pair(((1.0, 1.0),), ((1.0, 0.0),), 1.0 / math.sqrt(squared * (1 + 2.0**-40)))
        return composed((pair,), (1,), epsilon)
    event = sampled[0]
    if event.noise_multiplier < _SMALLEST_NOISE:
        return 1.0  # next to no noise: the bound that always holds
    steps, squared = int(event.steps), squared * (1 + 2.0**-40)
    return max(composed((pair, *_measured(squared)), (steps, 1), epsilon) for pair in _pairs(event))


def _measured(squared: float) -> tuple[Pair, ...]:
    return (Pair(((1.0, 1.0),), ((1.0, 0.0),), 1.0 / math.sqrt(squared)),) if squared else ()


def _pairs(event: SubsampledGaussianEvent) -> list[Pair]:
    """Return the pairs on the line that dominate one step, in the directions that differ."""
    k, q = int(event.rows), min(1.0, event.rate * (1 + 2.0**-50))
    if k > _MOST_ROWS:
        raise NoSuchGuarantee(
            f"Random batches are accounted for units of at most {_MOST_ROWS:,} rows, not {k:,}. Keep fewer rows of each person."
        )
    weights = [math.comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]
    ahead = tuple((w, float(j)) for j, w in enumerate(weights) if w > 0)
    behind = tuple((w, -mean) for w, mean in reversed(ahead))
    here = ((1.0, 0.0),)
    z = event.noise_multiplier
    if event.sides == 2:
        return [Pair(ahead, behind, z)]
    return [Pair(ahead, here, z), Pair(here, behind, z)]


@lru_cache(maxsize=256)
def subsampled_noise(
    epsilon: float,
    delta: float,
    *,
    rate: float,
    steps: int,
    rows: int = 1,
    sides: int = 1,
    measured: tuple[GaussianEvent, ...] = (),
) -> float:
    """Return the smallest noise multiplier (to one part in 10,000) with which all steps keep ``(epsilon, delta)``.

    Parameters
    ----------
    rate
        Probability with which a row enters a batch.
    steps
        Number of batches.
    rows, sides
        Largest number of rows by which neighbours differ, on one side (added or removed) or on two (replaced).
    measured
        Gaussian measurements that share the guarantee.

    Examples
    --------
    >>> 1.1 < subsampled_noise(1.0, 1e-5, rate=0.01, steps=1000) < 1.6
    True
    """

    def fits(noise: float) -> bool:
        event = SubsampledGaussianEvent(rate, noise, steps, rows, sides)
        return approximated_delta((*measured, event), epsilon) <= delta

    high = 1.0
    while not fits(high):
        high *= 2
        if high > _LARGEST_NOISE:
            raise NoSuchGuarantee(
                f"No noise on {steps:,} batches keeps epsilon={epsilon:.3g} at delta={delta:.3g} beside the other "
                "measurements. Use a larger budget or fewer epochs."
            )
    low = high / 2
    while low > _SMALLEST_NOISE and fits(low):
        low, high = low / 2, low
    while high / low > 1 + _PRECISION:
        middle = math.sqrt(low * high)
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=256)
def subsampled_steps(
    epsilon: float,
    delta: float,
    *,
    rate: float,
    noise_multiplier: float,
    most: int,
    rows: int = 1,
    sides: int = 1,
    measured: tuple[GaussianEvent, ...] = (),
) -> int:
    """Return how many steps with a given noise multiplier keep ``(epsilon, delta)``, up to ``most``; perhaps none.

    Examples
    --------
    >>> subsampled_steps(1.0, 1e-5, rate=0.01, noise_multiplier=0.01, most=1000)
    0
    """

    def fits(steps: int) -> bool:
        event = SubsampledGaussianEvent(rate, noise_multiplier, steps, rows, sides)
        return approximated_delta((*measured, event), epsilon) <= delta

    if fits(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
