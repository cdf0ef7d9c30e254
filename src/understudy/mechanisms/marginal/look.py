"""A proved primitive for rare values: one histogram of disjoint classes, with little noise on the rarest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.errors import BudgetError
from understudy.privacy import Laplace, Unit
from understudy.privacy.events import PureEvent

__all__ = ["RareCounts", "count_rare", "rare_epsilon"]

Array = npt.NDArray[np.float64]
Value = tuple[str, int]
"""A column and one of its codes."""


@dataclass(frozen=True, eq=False)
class RareCounts:
    """Noisy counts of classes of records.

    Attributes
    ----------
    values
        The value that defines each class; records that have the value of an earlier class are not counted again.
    counts
        Noisy number of records of each class.
    scales
        Scale of the discrete Laplace noise of each count.
    epsilon
        What the counts cost together.
    """

    values: tuple[Value, ...]
    counts: Array
    scales: Array
    epsilon: float


def rare_epsilon(scales: npt.ArrayLike, unit: Unit) -> float:
    """Return the epsilon of Laplace noise with a scale of its own on each class of a partition.

    One record changes one count by one when it comes or goes, and two counts by one when it is replaced. So one
    record costs at most the largest ``1/scale``, or the sum of the two largest, and a unit of ``k`` rows ``k`` times
    that (``k`` steps of one record each, all in the worst classes).

    Examples
    --------
    >>> rare_epsilon([4.0, 8.0, 8.0], Unit.add_remove()), rare_epsilon([4.0, 8.0, 8.0], Unit.replace_one())
    (0.25, 0.375)
    """
    precisions = np.sort(1.0 / np.asarray(scales, dtype=np.float64))[::-1]
    touched = 1 if unit.relation == "add-remove" else 2
    return float(unit.max_rows * math.fsum(precisions[:touched]))


def count_rare(
    curator: Curator, values: Sequence[Value], *, weights: Sequence[float], epsilon: float, purpose: str
) -> RareCounts:
    """Count records with rare values, each record once, for one epsilon in all.

    A record belongs to the class of the first listed value it has, and to none if it has none of them.

    Parameters
    ----------
    curator
        Pays and draws.
    values
        Columns and codes that are public or were chosen from released numbers. List the rarest first.
    weights
        Precision wanted for each class, relative to the others: ``1/scale`` is proportional to it.
    epsilon
        Cost of all counts together; the smallest noise with this cost is used.
    purpose
        Public words for the ledger.

    Privacy
    -------
    In: private. Out: releasable. The classes are disjoint, whatever the records are, so a record changes the
    counts of at most one class (add-remove) or two (replace-one) by one; `rare_epsilon` adds up what independent
    discrete Laplace noise then costs. It is charged as a pure event before the first draw. Which values are
    listed must not depend on the records otherwise than through released numbers.
    """
    chosen = tuple((str(name), int(code)) for name, code in values)
    wanted, epsilon = np.asarray(weights, dtype=np.float64), float(epsilon)
    if not chosen or len(set(chosen)) != len(chosen) or wanted.shape != (len(chosen),):
        raise BudgetError("Rare values need at least one value, each once, with one weight each.")
    if not (np.isfinite(wanted).all() and (wanted > 0).all() and math.isfinite(epsilon) and epsilon > 0):
        raise BudgetError("The weights of rare values and their epsilon must be positive and finite.")
    for name, code in chosen:
        if name not in curator.domain or not 0 <= code < curator.domain.size(name):
            raise BudgetError("A rare value lies outside the domain.")
    scales = (1.0 / wanted) * (rare_epsilon(1.0 / wanted, curator.unit) / epsilon) * (1 + 2.0**-40)
    noise = [Laplace(float(scale)) for scale in scales]
    exact = _classes(curator, chosen)
    noisy = curator._answer(
        PureEvent(epsilon),
        purpose=purpose,
        about=[chosen, scales],
        draw=lambda: exact + np.array([int(kind.draw((), curator._randomness)) for kind in noise]),
    )
    return RareCounts(chosen, noisy.astype(np.float64), scales, epsilon)


def _classes(curator: Curator, values: Sequence[Value]) -> npt.NDArray[np.int64]:
    """Return the exact number of records of each class. Private."""
    columns = curator.domain.canonical({name for name, _ in values})
    found = np.zeros(len(values), dtype=np.int64)
    for chunk in curator._table.chunks(columns):
        left = np.ones(len(chunk[columns[0]]), dtype=bool)
        for index, (name, code) in enumerate(values):
            hit = left & (chunk[name] == code)
            found[index] += int(np.count_nonzero(hit))
            left &= ~hit
    return found
