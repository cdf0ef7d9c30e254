"""How many entities have each number of events: noisy counts of exact numbers and of bins of them, told together by one curve.

All of it is post-processing of released numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from threadpoolctl import threadpool_limits

Floats = npt.NDArray[np.float64]

_BENDS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""How much the curve may bend, over logarithms of the number: the one that makes the noisy counts likeliest is taken."""
_JUMP = 2.0
"""How far, in logarithms, the last number may be off the curve: it stands for all entities with so many events or more."""
_LEAST = 0.05
"""Least number of entities from which the search for a curve begins."""
_ANCHOR = 1e-4
"""Precision with which logarithms are held near zero, so that a curve of nothing has an end."""
_SINGLY = 64
"""Largest number that the curve tells by itself; further out it tells stretches, each a part of so many longer than where it begins, and of equal counts."""
_STEPS, _LONGEST, _CLOSE = 60, 3.0, 1e-6
"""Steps of the search, the largest of them in logarithms, and the gain that ends it."""


def entities_by_number(
    noisy: Floats, variance: float, bins: Sequence[int], people: Floats, bins_variance: float
) -> Floats:
    """Return how many entities have 1, 2, 3, ... events, from noisy counts of each number and from estimates of bins of them.

    The logarithm of the count is a curve over the logarithm of the number that bends little; the last number may be off it. Where counts are large they are as they were measured, and where noise is as large as they are
    the curve tells them. Few entities have many events: a straight share of a bin would give too many of them to its far end.

    Parameters
    ----------
    noisy, variance
        Counts of entities by their exact number of events, from one on, and the variance of their noise.
    bins
        Where bins of numbers begin, from one on; the last number is one past the end.
    people, bins_variance
        Entities in each bin, and about how uncertain that is.

    Examples
    --------
    >>> true = np.rint(900 * 0.6 ** np.arange(12))
    >>> noisy = true + np.random.default_rng(0).normal(0, 20, 12)
    >>> bins = (1, 2, 3, 4, 5, 11, 13)
    >>> found = entities_by_number(noisy, 400.0, bins, np.add.reduceat(true, np.array(bins[:-1]) - 1), 100.0)
    >>> bool(np.abs(found - true).sum() < 0.5 * np.abs(noisy - true).sum())
    True
    """
    starts = _stretches(len(noisy), bins)
    widths = np.diff([*starts, len(noisy)]).astype(np.float64)
    seen = _Seen(
        widths=widths,
        noisy=np.add.reduceat(noisy, starts),
        variances=variance * widths,
        inside=np.array([(starts >= low - 1) & (starts < high - 1) for low, high in pairwise(bins)], float),
        people=people,
        bins_variance=bins_variance,
    )
    even = seen.inside.T @ (np.maximum(people, 0.0) / np.diff(bins))
    start = np.log(np.maximum(even, _LEAST))
    bending = _second_differences(np.log1p(starts + (widths + 1.0) / 2.0))
    best, likeliest = start, -np.inf
    with threadpool_limits(1):  # the matrices are small
        for bend in _BENDS:
            spread = np.full(len(bending), bend**2)
            if len(bending):
                spread[-1] += (bending[-1, -1] * _JUMP) ** 2
            stiff = (bending.T / spread) @ bending + _ANCHOR * np.eye(len(starts))
            found, likely = _curve(start, seen, stiff)
            likely -= 0.5 * float(np.log(spread).sum())
            if likely > likeliest:
                best, likeliest = found, likely
    return np.repeat(np.exp(best), widths.astype(np.int64))


@dataclass(frozen=True)
class _Seen:
    """What is known of stretches of numbers: how long they are, their noisy counts with variances, and the bins that they lie in with the entities of each."""

    widths: Floats
    noisy: Floats
    variances: Floats
    inside: Floats
    people: Floats
    bins_variance: float


def _stretches(count: int, bins: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return where stretches of the numbers from 1 to a largest one begin, from 0: the last number is by itself, and no stretch lies in two bins."""
    starts = {count - 1, *(low - 1 for low in bins[:-1])}
    place = 0
    while place < count:
        starts.add(place)
        place += max(1, place * 2 // _SINGLY)
    return np.array(sorted(starts))


def _second_differences(place: Floats) -> Floats:
    """Return the matrix of second differences over unequal steps: with a white noise of one size they make a curve of even roughness."""
    rows = np.zeros((max(0, len(place) - 2), len(place)))
    for row, (before, after) in enumerate(pairwise(np.diff(place))):
        rows[row, row : row + 3] = (1.0 / before, -1.0 / before - 1.0 / after, 1.0 / after)
        rows[row] /= np.sqrt((before + after) / 2.0)
    return rows


def _curve(start: Floats, seen: _Seen, stiff: Floats) -> tuple[Floats, float]:
    """Return the likeliest logarithms of counts, and how likely the noisy counts are (Laplace's approximation, up to the size of the prior)."""

    def loss(logs: Floats) -> float:
        counts = seen.widths * np.exp(logs)
        apart, bins = seen.noisy - counts, seen.people - seen.inside @ counts
        far = (apart**2 / seen.variances).sum() + bins @ bins / seen.bins_variance
        return float(0.5 * (far + logs @ stiff @ logs))

    logs, now = start, loss(start)
    factor = None
    for _ in range(_STEPS):
        counts = seen.widths * np.exp(logs)
        held = seen.inside * counts
        apart, bins = seen.noisy - counts, seen.people - seen.inside @ counts
        slope = stiff @ logs - counts * apart / seen.variances - held.T @ bins / seen.bins_variance
        bent = np.diag(counts**2 / seen.variances) + held.T @ held / seen.bins_variance + stiff
        try:
            factor = cho_factor(bent)
        except LinAlgError:  # too stiff for doubles: another bend is likelier
            break
        step = -cho_solve(factor, slope)
        step *= min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-300))
        then = loss(logs + step)
        while then > now and np.abs(step).max() > _CLOSE:
            step = step / 2.0
            then = loss(logs + step)
        if not then <= now:
            break
        logs, gained, now = logs + step, now - then, then
        if gained < _CLOSE:
            break
    if factor is None:
        return start, -np.inf
    return logs, -now - float(np.log(np.diag(factor[0])).sum())
