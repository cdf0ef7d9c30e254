"""Intervals for counts of columns of two values from sums of signs, measured in several looks.

A query splits into effects, one for each subset of its columns (:func:`~understudy.inference.intervals.effects`). Of columns of two values the effect of a subset is a multiple of the product of their signs, so
that the sum of signs of these columns says it, as every table that holds them does. The effects of a query may come from different looks: the number of rows and columns from tables, pairs and triples from sums of
signs. A *reading* takes one look for each effect, so that the error of the query is the sum of the errors of the looks,

    e = e_1 + ... + e_k,

each with a normal law of known variance, given everything released before that look. There are two readings: the first look at every effect, and the second one, where each
effect has one (the number of rows, where it is private, is that of the first look in both). Which effects a look tells of for the first or the second time is fixed before its noise is drawn.

**Looks that were planned.** Where columns and noise of a look follow from public facts, the law of its error is the same whatever was released before. Whether the look was taken at all may depend on that:
draw its noise in any case, and what goes wrong where it was taken is a part of what goes wrong then. So the errors of all planned looks of a reading are independent, and their sum has one exact law.

**Looks that were not.** A later look may be more precise where earlier noise was large, so that the sum of both errors is not normal. But with the half width ``h_j`` of the law of ``e_j`` at failure
probability ``β_j`` given the past, ``|e_j| > h_j`` has probability at most ``β_j`` whatever the past was; so ``|e| > sum h_j`` has at most ``sum β_j``. Planned looks get a tenth of the failure probability of a reading then: they tell of little more than the
number of rows.

The second reading gets three quarters of the failure probability, the first one the rest, whether there is a second or not, and the interval is the intersection. Average and difference of both readings are not used: how precise the second is may depend on the noise of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from understudy.inference.covers import Evidence
from understudy.inference.laws import WeightedNoise, require_beta
from understudy.marginals import SumsOfSigns
from understudy.schema import Clique

__all__ = ["combined", "readings", "say_effects", "told_by_sums"]

Array = npt.NDArray[np.float64]
Looks = Mapping[int, Sequence[Clique]]
"""The effects of a query that a reading takes from each look."""

_FIRST_READING = 0.25
"""Part of the failure probability of the first reading; the second has the rest."""
_PLANNED = 0.1
"""Part of a reading's failure probability for its planned looks, where others are added to them."""


def told_by_sums(sums: SumsOfSigns, parts: Mapping[Clique, Array]) -> tuple[float, WeightedNoise]:
    """Return what a look at sums of signs says of some effects, and the law of its error.

    Noise lies on a grid far finer than a row; its law is taken for that of noise rounded to whole rows, which is wider.
    """
    value = square = largest = 0.0
    weights = 0.0
    for columns, part in parts.items():
        place, weight = sums.places[columns], float(part.reshape(-1)[0])
        value += weight * float(sums.values[place])
        square += (weight * float(sums.scales[place])) ** 2
        weights += weight**2
        largest = max(largest, abs(weight))
    return value, WeightedNoise(square, weights, (), largest)


def say_effects(evidence: Evidence, columns: Clique) -> list[int]:
    """Return the looks that tell of the effect of some columns: batches of measurements by their place, then sums of signs."""
    wanted = set(columns)
    found = [
        place
        for place, batch in enumerate(evidence.batches)
        if any(wanted <= set(item.clique) for item in batch)
    ]
    later = len(evidence.batches)
    return found + [
        later + place for place, sums in enumerate(evidence.sums) if columns and columns in sums.places
    ]


def readings(evidence: Evidence, effects: Sequence[Clique]) -> list[tuple[float, Looks]]:
    """Return the readings of some effects with the part of the failure probability that each has; none where an effect was never measured."""
    told = {columns: say_effects(evidence, columns) for columns in effects}
    if not all(told.values()):
        return []
    found = [(_FIRST_READING, _by_look({columns: looks[0] for columns, looks in told.items()}))]
    if all(len(looks) > 1 for columns, looks in told.items() if columns):
        second = {columns: looks[1] if columns else looks[0] for columns, looks in told.items()}
        found.append((1 - _FIRST_READING, _by_look(second)))
    return found


def _by_look(taken: Mapping[Clique, int]) -> Looks:
    return {look: [columns for columns, own in taken.items() if own == look] for look in set(taken.values())}


def combined(told: Sequence[tuple[WeightedNoise, bool]], beta: float) -> float:
    """Return a half width for the sum of the errors of some looks, each with whether it was planned.

    Examples
    --------
    >>> one = WeightedNoise(100.0, 0.0, (), 0.0)
    >>> [round(combined([(one, True), (one, planned)], 0.05), 1) for planned in (True, False)]
    [27.7, 48.1]
    """
    require_beta(beta)
    planned = [noise for noise, known in told if known]
    others = [noise for noise, known in told if not known]
    if not others:
        return _together(planned).half_width(beta)
    share = _PLANNED if planned else 0.0
    width = sum(noise.half_width(beta * (1 - share) / len(others)) for noise in others)
    return width + (_together(planned).half_width(beta * share) if planned else 0.0)


def _together(noise: Sequence[WeightedNoise]) -> WeightedNoise:
    """Return the law of the sum of independent errors."""
    laplace: dict[float, int] = {}
    for size, count in (pair for item in noise for pair in item.laplace):
        laplace[size] = laplace.get(size, 0) + count
    return WeightedNoise(
        sum(item.gaussian for item in noise),
        sum(item.rounding for item in noise),
        tuple(sorted(laplace.items())),
        max(item.largest for item in noise),
    )
