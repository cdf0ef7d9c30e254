"""Measurements seen from one marginal: which of them cover it, and what they say together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.inference.history import History, Round
from understudy.inference.laws import ROUNDING_VARIANCE, CellNoise
from understudy.marginals import Measurement, SumsOfSigns
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]


def summed(values: npt.NDArray[np.floating], clique: Clique, onto: Clique) -> Array:
    """Sum a table over ``clique`` to the columns ``onto``, both in the order of the domain.

    Examples
    --------
    >>> summed(np.array([[1.0, 2.0], [3.0, 4.0]]), ("a", "b"), ("b",))
    array([4., 6.])
    """
    gone = tuple(axis for axis, name in enumerate(clique) if name not in onto)
    return np.asarray(values.sum(axis=gone, dtype=np.float64), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Cover:
    """An unbiased estimate of one marginal with independent noise of one law in every cell.

    Attributes
    ----------
    values
        The estimate.
    noise
        Its noise, given everything released before it was drawn.
    reference
        A guess of the marginal made before the noise was drawn, or ``None``.
    """

    values: Array
    noise: CellNoise
    reference: Array | None = None


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything released about a table, as the bounds and intervals use it.

    Parameters
    ----------
    domain
        The columns.
    measurements
        Noisy marginals, in the order in which they were made.
    history
        How they came about; by default nothing is assumed.
    total
        Number of rows of the real table where it is public, else ``None``.
    sums
        Sums of signs of columns of two values, released after the measurements, in the order in which they were.
    """

    domain: Domain
    measurements: tuple[Measurement, ...]
    history: History
    total: float | None = None
    sums: tuple[SumsOfSigns, ...] = ()

    def __post_init__(self) -> None:
        for item in self.sums:
            for clique in item.cliques:
                if self.domain.shape(self.domain.canonical(clique)) != (2,) * len(clique):
                    raise WorkloadError(f"A sum of signs of {clique} needs columns of two values.")
        if sum(self.history.batches) != len(self.measurements):
            raise WorkloadError(
                f"The history tells of {sum(self.history.batches)} measurements; there are "
                f"{len(self.measurements)}."
            )

    @cached_property
    def batches(self) -> tuple[tuple[Measurement, ...], ...]:
        """The measurements by step; each step was fixed by what earlier ones released."""
        result, start = [], 0
        for count in self.history.batches:
            result.append(self.measurements[start : start + count])
            start += count
        return tuple(result)

    @cached_property
    def _rounds(self) -> dict[int, Round]:
        """The round behind a measurement, by identity."""
        return {id(step.measurement): step for step in self.history.rounds}

    def supports(self, clique: Clique) -> bool:
        """Say whether some measurement covers the marginal, or sums of signs and measurements together tell all of it."""
        varied = [name for name in clique if self.domain.size(name) > 1]
        sizes = range(len(varied), 0, -1) if self.sums else ()
        return self._covered(clique) or (
            bool(self.sums)
            and all(
                any(part in sums.places for sums in self.sums) or self._covered(part)
                for size in sizes
                for part in combinations(varied, size)
            )
        )

    def _covered(self, clique: Clique) -> bool:
        wanted = set(clique)
        return any(wanted <= set(item.clique) for item in self.measurements)

    def covers(self, clique: Clique) -> list[Cover]:
        """Return one estimate of a marginal for each step that covers it, in order.

        Within a step the Gaussian measurements that cover it are averaged with weights ``1 / variance``
        (Theorem 2 of paper AIM; the weights are fixed before the noise is drawn). Of Laplace
        measurements the best is taken.
        """
        found = []
        for batch in self.batches:
            inside = [item for item in batch if set(clique) <= set(item.clique)]
            if not inside:
                continue
            gaussian = [item for item in inside if item.noise == "gaussian"]
            laplace = [item for item in inside if item.noise == "laplace"]
            choices = [_average(self.domain, clique, gaussian)] if gaussian else []
            choices += [_single(self.domain, clique, item) for item in laplace]
            best = min(choices, key=lambda cover: cover.noise.variance)
            step = self._rounds.get(id(batch[0])) if len(batch) == 1 else None
            if step is not None:
                best = Cover(best.values, best.noise, summed(step.answer, step.clique, clique))
            found.append(best)
        return found


def _single(domain: Domain, clique: Clique, item: Measurement) -> Cover:
    terms = domain.cells(item.clique) // domain.cells(clique)
    return Cover(summed(item.values, item.clique, clique), CellNoise.of(item, terms=terms))


def _average(domain: Domain, clique: Clique, items: Sequence[Measurement]) -> Cover:
    if len(items) == 1:
        return _single(domain, clique, items[0])
    parts = [_single(domain, clique, item) for item in items]
    weights = np.array([1 / part.noise.variance for part in parts])
    weights /= weights.sum()
    values = sum(
        (weight * part.values for weight, part in zip(weights, parts, strict=True)), start=np.zeros(())
    )
    square = sum(
        w**2 * part.noise.terms * part.noise.scale**2 for w, part in zip(weights, parts, strict=True)
    )
    rounding = sum(
        w**2 * part.noise.terms * ROUNDING_VARIANCE for w, part in zip(weights, parts, strict=True)
    )
    return Cover(np.asarray(values), CellNoise("gaussian", math.sqrt(square), 1, float(rounding)))


def weighted_average(
    domain: Domain, measurements: Sequence[Measurement], clique: Clique
) -> tuple[Array, float] | None:
    """Return the weighted average estimator of Theorem 2 and its standard deviation per cell.

    Every measurement that covers the marginal is summed to it; one with ``k`` cells per cell of the
    marginal has variance ``k`` times its own, and gets weight one over that. ``None`` if none covers it.

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> one = Measurement(("a",), np.array([10.0, 20.0]), "gaussian", 2.0)
    >>> two = Measurement(("a", "b"), np.array([[3.0, 3.0], [9.0, 9.0]]), "gaussian", 2.0)
    >>> values, sd = weighted_average(domain, [one, two], ("a",))
    >>> values.round(3).tolist(), round(sd**2, 3)
    ([8.667, 19.333], 2.667)
    """
    total: Array = np.zeros(domain.shape(clique))
    precision = 0.0
    for item in measurements:
        if set(clique) <= set(item.clique):
            terms = domain.cells(item.clique) // domain.cells(clique)
            weight = 1 / (terms * item.variance)
            total = total + weight * summed(item.values, item.clique, clique)
            precision += weight
    return None if precision == 0 else (total / precision, math.sqrt(1 / precision))
