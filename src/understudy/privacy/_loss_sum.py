"""The sum of many independent privacy losses: an upper bound on delta by fast Fourier transforms.

Losses are on a grid (:mod:`understudy.privacy._loss_pair`). Their sums are convolved *after* weighing each loss
``l`` with ``exp(t l)``, where ``t`` minimises ``K(t) - t epsilon`` for the logarithm ``K`` of the moment generating function. Rounding and
wrap-around then err by a share of ``exp(K(t) - t epsilon)``, which is of the order of delta however small delta is; ``_SLACK`` of it is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from understudy.privacy._loss_pair import Pair, discretised

__all__ = ["composed"]

Floats = npt.NDArray[np.float64]

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
