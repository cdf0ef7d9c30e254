"""A criterion of your own: the average of any score per record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from understudy.curator import PublicNumbers, to_float
from understudy.errors import ConstraintError, WorkloadError
from understudy.privacy.exact_floats import float_up
from understudy.release.criteria.base import CriterionConfig, CriterionContext, ShareOfRows
from understudy.release.record_types import RecordTypes
from understudy.release.regressions.certificates import Conditions, as_slack, smallest, whole_sums
from understudy.schema import Constraint, Domain

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["AverageScore", "ShareConfig"]


class ShareConfig(CriterionConfig):
    """Error of the share of records that satisfy a rule of your own."""

    family: ClassVar[str] = "Share of records"
    measured_in: ClassVar[str] = "share of rows"

    kind: Literal["share"]
    rule: str = Field(description="A record constraint; it must not cut through a bin.", min_length=1)

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return self.rule

    def build(self, context: CriterionContext) -> AverageScore:
        """Return the criterion, whose score is 1 for records that satisfy the rule."""
        schema = context.schema
        readings = [Constraint.parse(self.rule, schema, straddle=word) for word in ("allow", "forbid")]
        loose, strict = (rule.allowed(schema.domain) for rule in readings)
        if not np.array_equal(loose, strict):
            raise ConstraintError(
                f"the rule {self.rule!r} cuts through a bin; choose its bounds at the ends of bins"
            )
        return AverageScore(
            name=self.name,
            threshold=self.threshold,
            columns=readings[0].columns,
            scores=strict.astype(np.float64),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class AverageScore(ShareOfRows):
    """The difference of the average of a score that every record has, real against synthetic.

    Shares of a subpopulation, means of anything that can be computed from one record, rates of an event:
    write the score of each combination of codes into a table. For a criterion that is not an average, subclass
    `Criterion` (three methods, each with its argument) and try it with
    :func:`~understudy.release.largest_moves`.

    Parameters
    ----------
    threshold
        Largest difference.
    columns
        The columns the score depends on, in the order of the axes of ``scores``.
    scores
        One finite number per combination of codes.

    Privacy
    -------
    The error is ``|sum over R of f - sum over S of f| / n`` with public ``n``. *Sensitivity*: a replaced row changes
    the sum by at most ``max f - min f``, an added or removed one by at most ``max |f|``; times ``k/n``.
    *Slack*: of the two linear conditions, each divided by ``max(0, max f) - min(0, min f)``. Scores are put on a public grid first, and
    sums of them are exact.

    Examples
    --------
    >>> domain = Domain(("week", "weight"), (2, 3))
    >>> light_at_term = AverageScore(
    ...     name="light at term", threshold=0.1, columns=("week", "weight"), scores=[[0, 0, 0], [1, 0, 0]]
    ... )
    >>> real = RecordTypes(domain, [[0, 0], [1, 0], [1, 2]], [1, 2, 17])
    >>> synthetic = RecordTypes(domain, [[1, 0], [1, 2]], [3, 17])
    >>> light_at_term.value(real, synthetic), float(light_at_term.slack(real, synthetic))
    (0.05, 1.0)
    """

    columns: tuple[str, ...]
    scores: npt.ArrayLike

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", tuple(self.columns))
        array = np.array(self.scores, dtype=np.float64)
        if array.size == 0 or not np.isfinite(array).all() or array.ndim != len(self.columns):
            raise WorkloadError(f"The scores of {self.name!r} need one axis per column and finite numbers.")
        if not math.isfinite(float(array.max()) - float(array.min())):
            raise WorkloadError(
                f"The scores of {self.name!r} lie further apart than the largest number a computer has. Use scores that lie closer."
            )
        array.flags.writeable = False
        object.__setattr__(self, "scores", array)

    @property
    def _scores(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.scores)

    @property
    def bounds(self) -> tuple[float, float]:
        """From zero to the range of the scores; shares of the rows where these are 0 and 1."""
        return 0.0, max(1.0, to_float(self._grid.high - self._grid.low))

    @property
    def largest_error(self) -> float:
        """The upper end of `bounds`."""
        return self.bounds[1]

    def room(self, n: int) -> float | None:
        """Return the threshold in records, of which each counts for the range of the scores at most."""
        return n * self.threshold / self.largest_error

    def needs(self, slack: float, n: int | None) -> str:
        """Say how many rows the table must have."""
        return "" if n is None else f"{math.ceil(slack * self.largest_error / self.threshold):,} rows"

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        found = [f"no column named {name!r}" for name in self.columns if name not in domain]
        if not found and domain.shape(self.columns) != self._scores.shape:
            found.append("the scores do not have one number per combination of codes")
        return found

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the difference of the averages. Private."""
        return to_float(self.released_value(real, synthetic))

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return the difference of the averages, exactly. Private."""
        self.require(real, synthetic)
        return abs(self._total(real) - self._total(synthetic)) / synthetic.rows

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return the range of the scores over the rows, times the rows per unit."""
        low, high = self._grid.low, self._grid.high
        if unit.relation == "add-remove":
            return float_up(unit.max_rows * max(abs(low), abs(high)) / n)
        if unit.max_rows > 1:
            low, high = min(Fraction(0), low), max(Fraction(0), high)
        return float_up(unit.max_rows * (high - low) / n)

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction | float:
        """Return how many records may change before the averages are too far apart. Private."""
        self.require(real, synthetic)
        scores = self._scores.ravel()
        both = np.stack([scores, -scores], axis=1)
        conditions = Conditions.between(both.min(axis=0), both.max(axis=0))
        totals = whole_sums(real.counts, conditions.steps(both[self._cells(real)]))
        offset = whole_sums(synthetic.counts, conditions.steps(both[self._cells(synthetic)], down=True))
        limit = synthetic.rows * self.threshold
        sign = np.array([1.0, -1.0])
        with np.errstate(over="ignore"):
            bound = limit + sign * to_float(self._total(synthetic))
        return as_slack(smallest(conditions.slacks(bound, totals, allowed=conditions.limits(limit) + offset)))

    @cached_property
    def _grid(self) -> PublicNumbers:
        """The scores on their public grid, in the order of the cells."""
        return PublicNumbers.of(self._scores.ravel())

    def _cells(self, types: RecordTypes) -> npt.NDArray[np.int64]:
        codes = tuple(types.column(name) for name in self.columns)
        return np.ravel_multi_index(codes, self._scores.shape).astype(np.int64)

    def _total(self, types: RecordTypes) -> Fraction:
        cells = self._cells(types)
        grid = self._grid
        return PublicNumbers(grid.base, grid.step, grid.upper[cells], grid.lower[cells]).dot(types.counts)
