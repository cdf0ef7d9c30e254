"""Noise taken out of how many entities of a group have how many events: the numbers of a group go smoothly, and few entities have many.

A noisy table of the number of events by a column is taken to be independent but for a power of the number in each group (`sloped`), and modelled as a random field around that: each group
has a further slope over the logarithm of the number, strays from it smoothly, and by chance in each cell. How much of each there is, is what makes the noisy table likeliest; noise has a known variance. In the far ranges of the
number, where noise is as large as the counts, a group is told by its slope; where counts are large they stay as they were measured. All of it is post-processing of released numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from understudy.marginals import Measurement, Statistic
from understudy.mechanisms.events.numbers import entities_by_number
from understudy.mechanisms.marginal.fields import field_posterior
from understudy.schema import Clique, Schema
from understudy.schema.entities import EventColumns

__all__ = ["MOST_CELLS", "NumberSmoother", "nearer_in_order", "sloped"]

Array = npt.NDArray[np.float64]

MOST_CELLS = 256
"""Largest table that is smoothed; the work grows with the third power."""
_REACH = 0.8
"""How far apart, in logarithms of the number, what strays from the slope is still alike."""
_LEAST = 0.05
"""Least count that is expected in a cell, as a share of the deviation of the noise: no cell is held at nothing."""
_LEAST_NOISE = 0.0015
"""Tables whose noise adds up to less than this share of the records are left alone."""
_STEPS = 40
_FREE = np.array([1e-6, 1e-3])
"""Precision with which the level and the slope of a group are held near none, so that a group of nothing has them."""
_CLOSE = 1e-8
_NOTHING_KNOWN = 1e18
"""Variance of counts that say nothing."""


class NumberSmoother:
    """Replaces measured tables of the number of events by a column by what they say together with the order of the numbers.

    Results are kept: a table is smoothed again only after something was measured that tells more of it.

    Parameters
    ----------
    schema
        Of event records.
    records
        How many of them an entity gives.
    counted
        Noisy counts of entities by their exact number of events, from one on, if there are such.
    """

    def __init__(self, schema: Schema, records: int, counted: Statistic | None = None) -> None:
        assert schema.events_of is not None
        assert schema.events_of.entity is not None
        self._number = EventColumns.of(schema.events_of).number
        self._records = float(records)
        self._bins = schema.events_of.entity.bins
        self._counted = counted
        self._place: Array | None = None
        self._known: dict[tuple[Clique, int, int], Measurement] = {}

    def targets(self, measurements: Sequence[Measurement]) -> list[Measurement]:
        """Return what an estimate should be fitted to; other measurements are passed on as they are."""
        number = self._number
        told = [item for item in measurements if number in item.clique]
        if self._place is None and told:
            self._place = self._places(*_sums(told, number))
        tables: dict[Clique, list[Measurement]] = {}
        rest = []
        for item in measurements:
            if len(item.clique) == 2 and number in item.clique and item.values.size <= MOST_CELLS:
                tables.setdefault(item.clique, []).append(item)
            else:
                rest.append(item)
        for clique, items in tables.items():
            key = (clique, len(items), len(told))
            if key not in self._known:
                precision = sum(1.0 / item.variance for item in items)
                noisy = np.asarray(sum(item.values / item.variance for item in items) / precision, np.float64)
                self._known[key] = self._smoothed(clique, noisy, 1.0 / precision, _sums(told, number)[0])
            rest.append(self._known[key])
        return rest

    def _places(self, sums: Array, variance: float) -> Array:
        """Return where bins of the number lie, from how many records are in each: at the mean logarithm of the numbers in it, told by one curve.

        Few entities have many events, so that those in a far bin are at its near end: a slope that reached for its middle would make too much of it.
        """
        start = int(self._bins[0] == 0)
        bins = self._bins[start:]
        most = bins[-1] - 1
        if self._counted is None:  # as if they were, with noise that drowns them
            noisy, noise = np.zeros(most), _NOTHING_KNOWN
        else:
            noisy, noise = self._counted.values.astype(np.float64), self._counted.variance
        size = self._records**2
        people = entities_by_number(
            noisy, noise, bins, sums[start:] / self._records, max(1.0, variance / size)
        )
        starts = np.asarray(bins[:-1]) - 1
        logs = np.log1p(np.arange(1.0, most + 1.0))
        found = np.add.reduceat(people * logs, starts) / np.add.reduceat(people, starts)
        return np.concatenate([np.zeros(start), found])

    def _smoothed(self, clique: Clique, noisy: Array, variance: float, numbers: Array) -> Measurement:
        assert self._place is not None
        axis = clique.index(self._number)
        table = noisy if axis == 0 else noisy.T
        deviation = float(np.sqrt(variance))
        if table.size * deviation < _LEAST_NOISE * float(numbers.sum()):
            return Measurement(clique, noisy, "gaussian", deviation)
        groups = np.maximum(table.sum(axis=0), deviation)
        expected = np.maximum(np.outer(numbers, groups / groups.sum()), _LEAST * deviation)
        expected = sloped(table, expected, variance, self._place, chance=self._records)
        expected = np.maximum(expected, _LEAST * deviation)
        found = nearer_in_order(table, expected, variance, self._place, chance=self._records)
        return Measurement(
            clique, found if axis == 0 else np.ascontiguousarray(found.T), "gaussian", deviation
        )


def sloped(noisy: Array, expected: Array, variance: float, place: Array, *, chance: float) -> Array:
    """Return expected counts in which each group is told by a slope of its own: its logarithm is off by so much for each step of the place of the number.

    Slopes are drawn towards none by as much as they are found to differ no more than the noise makes them. The sum over numbers stays that of the noisy counts of the group.

    Parameters
    ----------
    noisy, expected, variance, place, chance
        As for `nearer_in_order`.

    Examples
    --------
    >>> even = 1000.0 * np.outer(0.5 ** np.arange(6), [1.0, 1.0])
    >>> place = np.log(np.arange(1, 7.0))
    >>> true = even * np.exp(np.outer(place - place.mean(), [-0.8, 0.8]))
    >>> found = sloped(true, even, 1.0, place, chance=1.0)
    >>> bool(np.abs(found / true - 1.0).max() < 0.01)
    True
    """
    middle = place - np.average(place, weights=expected.sum(axis=1))
    weights = 1.0 / (variance + chance * expected)
    groups = expected.shape[1]
    slopes, uncertain = np.zeros(groups), np.zeros(groups)
    for group in range(groups):
        level_and_slope = np.zeros(2)
        for _ in range(_STEPS):
            counts = expected[:, group] * np.exp(level_and_slope[0] + level_and_slope[1] * middle)
            turn = np.column_stack([counts, counts * middle])
            bent = turn.T @ (turn * weights[:, group, None]) + np.diag(_FREE)
            pull = turn.T @ (weights[:, group] * (noisy[:, group] - counts)) - _FREE * level_and_slope
            step = np.linalg.solve(bent, pull)
            level_and_slope += step * min(1.0, 1.0 / max(float(np.abs(step).max()), _CLOSE))
            if np.abs(step).max() < _CLOSE:
                break
        slopes[group], uncertain[group] = level_and_slope[1], np.linalg.inv(bent)[1, 1]
    spread = max(0.0, float(np.mean(slopes**2 - uncertain)))
    for _ in range(_STEPS):
        known = 1.0 / (spread + uncertain)
        spread *= float((known**2 * slopes**2).sum() / known.sum())
    found = expected * np.exp(np.outer(middle, slopes * spread / (spread + uncertain)))
    wanted = np.maximum(noisy.sum(axis=0), 0.0)
    return np.asarray(found * (wanted / found.sum(axis=0)))


def nearer_in_order(noisy: Array, expected: Array, variance: float, place: Array, *, chance: float) -> Array:
    """Return the posterior mean of counts by number (rows) and group (columns) that differ from expected ones by a slope, smoothly, and by chance.

    Parameters
    ----------
    noisy, expected
        Counts by number and group.
    variance
        Of the noise.
    place
        Where each number lies; numbers near one another differ alike.
    chance
        How much of a count one entity is: chance in the number of entities has a variance of so many times what is expected.

    Examples
    --------
    >>> true = 1000.0 * 0.7 ** np.arange(12)[:, None]
    >>> noisy = true * 1.1 + np.random.default_rng(0).normal(0, 30, (12, 1))
    >>> found = nearer_in_order(noisy, true, 900.0, np.log(np.arange(1, 13.0)), chance=1.0)
    >>> bool(np.abs(found - 1.1 * true).sum() < 0.6 * np.abs(noisy - 1.1 * true).sum())
    True
    """
    weights = expected.sum(axis=1)
    middle = place - np.average(place, weights=weights)
    alone = np.eye(expected.shape[1])
    alike = np.exp(-0.5 * np.square(np.subtract.outer(place, place) / _REACH))
    scale = np.outer(expected.ravel(), expected.ravel())
    parts = [
        chance * np.diag(expected.ravel()),
        scale * np.kron(np.outer(middle, middle), alone),
        scale * np.kron(alike, alone),
    ]
    with threadpool_limits(1):  # the matrices are small
        mean, _ = field_posterior(
            (noisy - expected).ravel(),
            parts,
            variance,
            start=np.array([-1.0, -3.0, -4.0]),
            usual=-2.0,
            bounds=(-12.0, 12.0),
            steps=_STEPS,
        )
    return np.asarray(np.maximum(expected + mean.reshape(expected.shape), 0.0))


def _sums(told: Sequence[Measurement], number: str) -> tuple[Array, float]:
    """Return how many records have each number, from all measurements that tell it, and how uncertain that is."""
    sizes = [item.values.shape[item.clique.index(number)] for item in told]
    total, precision = np.zeros(sizes[0]), 0.0
    for item in told:
        axes = tuple(axis for axis, name in enumerate(item.clique) if name != number)
        cells = item.values.size / item.values.shape[item.clique.index(number)]
        total = total + item.values.sum(axis=axes) / (cells * item.variance)
        precision += 1.0 / (cells * item.variance)
    return np.asarray(np.maximum(total / precision, 0.0)), 1.0 / precision
