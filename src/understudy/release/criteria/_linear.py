"""Sums over records of public numbers, in whole steps, and how many records away they are from a limit.

What a record contributes to a condition is a public function of the record alone. It is rounded to whole steps of a public grid and
clipped to a public range *before* it is multiplied by a count, so sums are whole numbers and one record moves them by no more
than the range, whatever floating point did to the function. Only that it gives a record the same number wherever the record stands in the table
is needed: so contributions are computed element by element, and never by a matrix product, whose rounding depends on its neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

STEPS = 1 << 30
"""A record is so many steps: slacks are whole numbers of them."""

_ENDLESS = 1 << 62
"""A slack that no table changes, in steps; sums of contributions end here too."""


def applied(design: Floats, weights: Floats) -> Floats:
    """Return ``design @ weights``, each entry from its own row alone, so that it does not depend on where the row stands.

    Examples
    --------
    >>> applied(np.array([[1.0, 2.0], [1.0, 3.0]]), np.array([10.0, 1.0])).tolist()
    [12.0, 13.0]
    """
    columns = weights if weights.ndim == 2 else weights[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        total = design[:, :1] * columns[:1]
        for j in range(1, design.shape[1]):
            total = total + design[:, j : j + 1] * columns[j : j + 1]
    return np.asarray(total if weights.ndim == 2 else total[:, 0])


def whole_sums(counts: Ints, steps: Ints) -> Ints:
    """Return the sums over records (the first axis) of count times steps, cut where 64 bits end.

    Steps are at most ``2**30`` in size, so up to ``2**32`` rows fit; beyond, Python's whole numbers are added.

    Examples
    --------
    >>> whole_sums(np.array([2, 3]), np.array([[1], [5]])).tolist(), whole_sums(np.array([2**40]), np.array([2**30])).tolist()
    ([17], 4611686018427387904)
    """
    if int(counts.sum()) < 1 << 32:
        return np.asarray(np.tensordot(counts.astype(np.int64), steps, axes=(0, 0)))
    endless = np.tensordot(counts.astype(object), steps.astype(object), axes=(0, 0))
    return _cut(endless)


def _cut(endless: Any) -> Ints:
    """Return whole numbers without an end as numbers of 64 bits, cut where a slack ends."""
    numbers = np.asarray(endless, dtype=object)
    cut = [min(max(number, -_ENDLESS), _ENDLESS) for number in numbers.ravel().tolist()]
    return np.array(cut, dtype=np.int64).reshape(numbers.shape)


def group_sums(counts: Ints, steps: Ints) -> Ints:
    """Return the sums over codes (the last axis) of count times steps, for each group, cut where 64 bits end."""
    if int(counts.sum(axis=-1).max(initial=0)) < 1 << 32:
        return np.asarray((counts * steps).sum(axis=-1))
    endless = (counts.astype(object) * steps.astype(object)).sum(axis=-1)
    return _cut(endless)


@dataclass(frozen=True, eq=False)
class Conditions:
    """Conditions ``sum over records of c(record) < limit``, from the extremes of each ``c`` over all possible records.

    The steps of a condition are ``2**-30`` of ``width = max(0, highest) - min(0, lowest)``. A record contributes a whole number of them
    between ``bottom`` and ``bottom + 2**30``, which includes 0: a record that is added, removed or replaced moves the sum by at
    most ``2**30`` steps, one record. So the slack, ``(limit - sum) / width``, has step sensitivity 1, exactly.
    """

    lowest: Floats
    highest: Floats
    width: Floats
    bottom: Ints

    @classmethod
    def between(cls, lowest: npt.ArrayLike, highest: npt.ArrayLike) -> Conditions:
        """Build the conditions from the extremes of their contributions."""
        low, high = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (lowest, highest)))
        with np.errstate(over="ignore", invalid="ignore"):
            width = np.maximum(0.0, high) - np.minimum(0.0, low)
            share = np.minimum(0.0, low) / np.where((width > 0) & np.isfinite(width), width, 1.0)
        bottom = np.clip(np.floor(np.nan_to_num(share, nan=-1.0) * STEPS), -STEPS, 0)
        return cls(low, high, width, bottom.astype(np.int64))

    @property
    def _usable(self) -> npt.NDArray[np.bool_]:
        return (self.width > 0) & np.isfinite(self.width)

    def steps(self, contributions: Floats, *, down: bool = False) -> Ints:
        """Return contributions of records (the first axis) as whole steps within their range, rounded up unless told otherwise."""
        with np.errstate(over="ignore", invalid="ignore"):
            shares = contributions / np.where(self._usable, self.width, 1.0) * STEPS
        rounded = np.nan_to_num(np.floor(shares) if down else np.ceil(shares), nan=float(STEPS))
        bottom = self.bottom.astype(np.float64)
        return np.asarray(np.clip(rounded, bottom, bottom + STEPS).astype(np.int64))

    def limits(self, limit: npt.ArrayLike) -> Ints:
        """Return public limits in steps, rounded down."""
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.asarray(limit, dtype=np.float64) / np.where(self._usable, self.width, 1.0) * STEPS
        steps = np.nan_to_num(np.floor(steps), nan=-math.inf)
        return np.asarray(np.clip(steps, -0.5 * _ENDLESS, 0.5 * _ENDLESS).astype(np.int64))

    def slacks(self, limit: npt.ArrayLike, totals: Ints, *, allowed: Ints | None = None) -> Ints:
        """Return the slack of each condition in steps.

        Parameters
        ----------
        limit
            Public limit of each condition.
        totals
            The sums over the real table, in steps.
        allowed
            The limits in steps where they are known better than by dividing; public.

        Notes
        -----
        The slack is positive only if the condition holds. A condition whose contributions are all negative cannot be violated by any
        record if the limit is not negative; its slack has no end. Where all contributions are zero the sum is zero, a public
        fact. Where contributions are so large that their range is no finite number, the condition counts as violated by
        every table.

        Examples
        --------
        >>> conditions = Conditions.between([-1.0], [2.0])
        >>> totals = whole_sums(np.array([4]), conditions.steps(np.array([[1.0]])))
        >>> round(float(as_slack(conditions.slacks(10.0, totals)[0])), 6)
        2.0
        """
        bound = np.asarray(limit, dtype=np.float64)
        steps = self.limits(bound) if allowed is None else np.clip(allowed, -(_ENDLESS // 2), _ENDLESS // 2)
        slack = np.clip(steps - totals, 1 - _ENDLESS, _ENDLESS - 1)
        slack = np.where(self._usable, slack, -_ENDLESS)
        slack = np.where(self.width == 0, np.where(bound > 0, _ENDLESS, -_ENDLESS), slack)
        safe = ((self.highest < 0) & (bound >= 0)) | ((self.highest <= 0) & (bound > 0))
        return np.asarray(np.where(safe, _ENDLESS, slack))


def as_slack(steps: int | np.integer[Any]) -> Fraction | float:
    """Return a slack in records from one in steps; infinite where it has no end.

    Examples
    --------
    >>> as_slack(STEPS // 4), as_slack(_ENDLESS)
    (Fraction(1, 4), inf)
    """
    if abs(int(steps)) >= _ENDLESS:
        return math.inf if steps > 0 else -math.inf
    return Fraction(int(steps), STEPS)


def smallest(*slacks: Ints) -> int:
    """Return the least of some slacks in steps; without an end if there are none."""
    return min((int(part.min(initial=_ENDLESS)) for part in slacks), default=_ENDLESS)
