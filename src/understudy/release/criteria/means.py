"""Maximal error of conditional means (paper Births, section 4.5.3), with its sensitivity proof repaired."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from understudy.curator import PublicNumbers, to_float
from understudy.errors import WorkloadError
from understudy.privacy.exact_floats import float_up
from understudy.release.criteria.base import (
    Criterion,
    CriterionConfig,
    CriterionContext,
    Outlook,
    PlanFacts,
    laplace_deviation,
)
from understudy.release.criteria.groups import Grouping, GroupPart, code_values, groups_of, numeric_of
from understudy.release.criteria.marginals import beside_marginals
from understudy.release.record_types import RecordTypes
from understudy.release.regressions.certificates import Conditions, as_slack, group_sums, smallest
from understudy.schema import Domain, Schema

if TYPE_CHECKING:
    from understudy.privacy import Unit
    from understudy.schema.entities import Entity

__all__ = ["ConditionalMeans", "MeansConfig", "resized_mean"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class ConditionalConfig(CriterionConfig):
    """Configuration of criteria about the values of one column within groups."""

    column: str = Field(description="The column that is looked at.")
    by: list[str | GroupPart] = Field(
        ["everyone"],
        description="Groups: 'everyone', a column (one group per value), or a column with groups.",
    )

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return self.column

    def unit_in(self, schema: Schema) -> str:
        """Return the unit of the column."""
        return schema.column(self.column).unit if self.column in schema.names else ""


class MeansConfig(ConditionalConfig):
    """Largest error of the mean of a column in any group."""

    family: ClassVar[str] = "Maximal error of conditional means"

    kind: Literal["conditional-means"]
    column: str = Field(description="The column that is averaged.")
    marginal_threshold: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.01, description="Threshold of the marginal criterion beside it; sets the resize parameter."
    )

    @classmethod
    def subject(cls, given: Mapping[str, Any], entity: Entity | None) -> str:
        """Say what a criterion as it was written looks at, for people who know the table."""
        return f"Mean of {given.get('column')}"

    def build(self, context: CriterionContext) -> ConditionalMeans:
        """Return the criterion."""
        column = numeric_of(context.schema, self.column)
        return ConditionalMeans(
            name=self.name,
            threshold=self.threshold,
            column=column.name,
            values=code_values(column, context.open_bins),
            groups=groups_of(self.by, context.schema),
            marginal_threshold=self.marginal_threshold,
        )

    def warnings_beside(self, others: Sequence[CriterionConfig], *, published: bool) -> list[str]:
        """Warn where nothing bounds the sizes of groups."""
        return beside_marginals(others, published=published)


@dataclass(frozen=True, kw_only=True)
class _Conditional(Criterion):
    """Criteria about the values of one column within groups."""

    column: str
    values: tuple[float, ...]
    groups: tuple[Grouping, ...] = (Grouping.everyone(),)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "values", tuple(float(value) for value in self.values))
        object.__setattr__(self, "groups", tuple(self.groups))
        if not self.groups:
            raise WorkloadError(f"{self.name!r} needs at least one grouping.")
        if not any(map(math.isfinite, self.values)) or any(map(math.isinf, self.values)):
            raise WorkloadError(f"The values of {self.name!r} must be finite, or NaN for codes without one.")
        low, high = self.bounds
        if not math.isfinite(high - low):
            raise WorkloadError(
                f"The values of {self.name!r} lie further apart than the largest number a computer has. Use values that lie closer."
            )

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        found = [problem for grouping in self.groups for problem in grouping.problems(domain)]
        if self.column not in domain:
            found.append(f"no column named {self.column!r}")
        elif len(self.values) != domain.size(self.column):
            found.append(f"column {self.column!r} needs one value per code")
        return found

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value of the column."""
        numbers = [value for value in self.values if math.isfinite(value)]
        return min(numbers), max(numbers)

    @property
    def largest_error(self) -> float:
        """The range of the values."""
        low, high = self.bounds
        return high - low

    @property
    def _middle(self) -> float:
        low, high = self.bounds
        return low + (high - low) / 2

    def _numbers(self) -> tuple[Floats, npt.NDArray[np.bool_]]:
        values = np.asarray(self.values)
        usable = np.isfinite(values)
        return values[usable], usable

    def _tables(self, types: RecordTypes) -> Ints:
        """Return counts by group (all groupings stacked) and by the codes that have a value."""
        usable = self._numbers()[1]
        return np.concatenate([grouping.tabulate(types, self.column)[:, usable] for grouping in self.groups])


@dataclass(frozen=True, kw_only=True)
class ConditionalMeans(_Conditional):
    """The largest difference of the mean of a column in any group of records.

    Parameters
    ----------
    threshold
        Largest difference, in the unit of the column.
    column, values
        The column that is averaged and the number each of its codes stands for (`code_values` follows the
        paper's midpoint rule). Records whose code has the value NaN are left out.
    groups
        The group-by columns with their coarse bins; everybody by default.
    marginal_threshold
        Threshold of the marginal criterion that holds beside this one. It sets the resize parameter of the
        published form, ``m = max(1, count_S - ceil(n * marginal_threshold))``, from public numbers only.

    Notes
    -----
    The mean of a group that is empty in the candidate is taken to be the middle of the range of values. A
    group that is empty in the real table has no error, but no slack either: one record could make it
    wrong. Choose coarse groups.

    Privacy
    -------
    *Published form.* The paper draws ``m`` of the ``c`` real records of a group (or fills up with a constant
    ``w`` if ``c < m``) and argues that "for every fixed randomness" one record changes one drawn value. That
    fails: when a record leaves, the group size changes and the same randomness draws other rows. It is repaired
    by a coupling. Give every record its own random priority and keep the ``m`` smallest of a group. If a
    record leaves, at most its own place among the kept is taken over, by the next record or by ``w``; a record
    that arrives displaces at most one; a replaced record inherits the priority. So at most one kept value
    changes, by at most ``U - L``, and the resized mean by at most ``(U - L)/m``: see `resized_mean`.

    Here the randomness is averaged out as well. The *expected* resized mean is
    ``(sum of values + max(0, m - c) w) / max(c, m)``: all subsets of size ``m`` are equally likely, so its
    expectation is the plain mean of the group when ``c >= m``. Two numbers that are coupled within ``(U - L)/m``
    have expectations within ``(U - L)/m``, so the bound carries over, without any sampling error and without
    randomness to protect. A step touches at most two groups of a grouping, and each of them by at most this
    much; the maximum over groups moves by at most the largest, ``k (U - L) / min m``, and never by more
    than ``U - L``. Rows that only come or go move a mean less: by ``|x - w|/m <= (U - L)/(2m)`` while ``c < m`` and by
    ``|x - mean|/(c + 1) <= (U - L)/(m + 1)`` from ``c >= m`` rows on, so under add-remove ``m + 1`` takes the place of
    ``m``. ``n`` and ``count_S`` are public in both relations.

    *Slack.* With ``a`` the candidate's mean of the group, the real mean is within ``T`` of it exactly when
    ``sum (x - a - T) < 0`` and ``sum (a - x - T) < 0`` over the group's records. Each record adds a number
    between the extremes of that expression over all possible values, or zero outside the group; a step changes
    the sum by at most the width of that range with zero included. Divided by the width, the slack has step
    sensitivity 1, and no resizing is needed.

    *No rounding.* Values are put on a public grid and entered relative to the lowest of them; sums and means are exact fractions. For the
    slack every contribution is a whole number of steps within its range (:class:`~understudy.release.regressions.certificates.Conditions`).

    Examples
    --------
    >>> domain = Domain(("sex", "size"), (2, 3))
    >>> real = RecordTypes(domain, [[0, 0], [0, 2], [1, 1]], [10, 10, 20])
    >>> synthetic = RecordTypes(domain, [[0, 0], [0, 2], [1, 1]], [12, 8, 20])
    >>> criterion = ConditionalMeans(
    ...     name="size", threshold=2.0, column="size", values=(0.0, 5.0, 10.0), groups=(Grouping.each("sex", 2),)
    ... )
    >>> criterion.value(real, synthetic)
    1.0
    >>> round(float(criterion.slack(real, synthetic)), 3)
    2.0
    """

    marginal_threshold: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.marginal_threshold < 1:
            raise WorkloadError(
                f"marginal_threshold ({self.marginal_threshold}) of {self.name!r} is a share of the rows, below 1."
            )

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the largest error of a group's mean, without resizing. Private."""
        self.require(real, synthetic)
        counts = self._tables(real)
        there = counts.sum(axis=1) > 0
        ones = np.ones(int(there.sum()), dtype=np.int64)
        return to_float(self._largest(counts[there], self._tables(synthetic)[there], ones))

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return the largest error of a group's expected resized mean, exactly. Private."""
        self.require(real, synthetic)
        return self._largest(self._tables(real), self._tables(synthetic), self.resize_parameters(synthetic))

    def _largest(self, real: Ints, synthetic: Ints, kept: Ints) -> Fraction:
        """Return the largest error of a resized mean over groups, exactly.

        Doubles find the groups that may have it: values as shares of their range, whose means are off by far less than ``2**-40``. Fractions
        decide between these.
        """
        if not len(real):
            return Fraction(0)
        size = real.sum(axis=1)
        filled = real @ self._shares + np.maximum(0, kept - size) * 0.5
        errors = np.abs(filled / np.maximum(size, kept) - self._mean_shares(synthetic))
        near = np.flatnonzero(errors >= errors.max() - 2.0**-30)
        middle = (self._grid.low + self._grid.high) / 2
        found = Fraction(0)
        for total, group, other in zip(
            self._grid.dots(real[near]), near, self._grid.dots(synthetic[near]), strict=True
        ):
            here, many, there = int(size[group]), int(kept[group]), int(synthetic[group].sum())
            goal = other / there if there else middle
            found = max(found, abs((total + max(0, many - here) * middle) / max(here, many) - goal))
        return found

    def resize_parameters(self, synthetic: RecordTypes) -> Ints:
        """Return ``m`` for every group, from the candidate alone."""
        size = self._tables(synthetic).sum(axis=1)
        return np.asarray(np.maximum(1, size - math.ceil(synthetic.rows * self.marginal_threshold)))

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return the range of values over the smallest resize parameter, times the rows per unit; at most the range."""
        width = self._grid.high - self._grid.low
        smallest = 1
        if synthetic is not None:
            self.require(synthetic)
            smallest = int(self.resize_parameters(synthetic).min())
        if unit.relation == "add-remove":
            smallest += 1
        return float_up(min(width, unit.max_rows * width / smallest))

    def needs(self, slack: float, n: int | None) -> str:
        """Say how many rows the smallest group must have."""
        low, high = self.bounds
        return f"{math.ceil(slack * (high - low + self.threshold) / self.threshold):,} rows in the smallest group"

    def planned_sensitivity(self, facts: PlanFacts) -> float | None:
        """Return the sensitivity for groups like those of the example, or for groups of equal size."""
        if facts.example is not None or facts.n is None:
            return super().planned_sensitivity(facts)
        low, high = self.bounds
        size = facts.n / max(grouping.count for grouping in self.groups)
        kept = max(1.0, math.floor(size) - math.ceil(facts.n * self.marginal_threshold))
        return min(high - low, facts.unit.max_rows * (high - low) / kept)

    def outlook(self, facts: PlanFacts, epsilon: float) -> Outlook:
        """Plan the published form; the noise depends on the sizes of the candidate's groups."""
        found = super().outlook(facts, epsilon)
        if found.sensitivity is None:
            return found
        worst = max(self.sensitivity(unit, max(1, facts.n or 1)) for unit in facts.steps)
        size = "of the example" if facts.example is not None else "of groups of equal size"
        return replace(
            found,
            needs=f"groups like those {size}; at worst, with an empty group in the candidate, the noise has a deviation of "
            f"{laplace_deviation(worst / epsilon):.3g}",
        )

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction | float:
        """Return how many records may change before a group's mean is too wrong. Private."""
        self.require(real, synthetic)
        numbers = self._numbers()[0]
        counts = self._tables(real)
        target = self._means(synthetic)
        found = []
        for sign in (1.0, -1.0):
            with np.errstate(over="ignore"):
                excess = (sign * (numbers[None, :] - target[:, None]) - self.threshold).T
            conditions = Conditions.between(excess.min(axis=0), excess.max(axis=0))
            totals = group_sums(counts, conditions.steps(excess).T)
            found.append(conditions.slacks(0.0, totals))
        return as_slack(smallest(*found))

    @cached_property
    def _grid(self) -> PublicNumbers:
        """The values on their public grid, those of codes without one left out."""
        return PublicNumbers.of(self._numbers()[0])

    @cached_property
    def _shares(self) -> Floats:
        """The values as shares of their range, from 0 to 1."""
        width = self._grid.high - self._grid.low
        steps = self._grid.steps.astype(np.float64)
        return steps / float(width / self._grid.step) if width else np.full(len(steps), 0.5)

    def _mean_shares(self, counts: Ints) -> Floats:
        """The mean of every group as a share of the range; one half for an empty one."""
        size = counts.sum(axis=1)
        return np.where(size > 0, counts @ self._shares / np.maximum(size, 1), 0.5)

    def _means(self, synthetic: RecordTypes) -> Floats:
        """Return the mean of every group of the candidate; the middle of the range of values for an empty one. Public."""
        low, width = to_float(self._grid.low), to_float(self._grid.high - self._grid.low)
        return np.asarray(low + self._mean_shares(self._tables(synthetic)) * width)


def resized_mean(values: npt.ArrayLike, priorities: npt.ArrayLike, *, size: int, fill: float) -> float:
    """Return the mean of the ``size`` values with the smallest priorities, filled up with a constant.

    Paper Births, Algorithm 3, with the randomness given per record so that neighbouring tables share it.
    `ConditionalMeans` uses its expectation; this function is the object of the proof.

    Examples
    --------
    >>> resized_mean([10.0, 20.0, 60.0], [0.3, 0.9, 0.1], size=2, fill=0.0)
    35.0
    >>> resized_mean([10.0, 20.0], [0.3, 0.9], size=3, fill=15.0)
    15.0
    """
    array, order = np.asarray(values, dtype=np.float64), np.argsort(np.asarray(priorities), kind="stable")
    kept = array[order[:size]]
    return float((kept.sum() + (size - len(kept)) * fill) / size)
