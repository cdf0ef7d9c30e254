"""Maximal error of conditional medians: what the stakeholders of paper Births preferred and the paper left out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from understudy.release.criteria.base import CriterionContext, Number, Outlook, PlanFacts, Released
from understudy.release.criteria.groups import GroupPart, code_values, groups_of, numeric_of
from understudy.release.criteria.means import ConditionalConfig, _Conditional
from understudy.release.record_types import RecordTypes

if TYPE_CHECKING:
    from understudy.curator import Curator
    from understudy.privacy import Unit
    from understudy.schema.entities import Entity

__all__ = ["ConditionalMedians", "MediansConfig"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class MediansConfig(ConditionalConfig):
    """Largest error of the median of a column in any group."""

    family: ClassVar[str] = "Maximal error of conditional medians"

    kind: Literal["conditional-medians"]
    column: str = Field(description="The column whose median is taken.")
    by: list[str | GroupPart] = Field(["everyone"], description="Groups, as for conditional-means.")

    @classmethod
    def subject(cls, given: Mapping[str, Any], entity: Entity | None) -> str:
        """Say what a criterion as it was written looks at, for people who know the table."""
        return f"Median of {given.get('column')}"

    def build(self, context: CriterionContext) -> ConditionalMedians:
        """Return the criterion."""
        column = numeric_of(context.schema, self.column)
        return ConditionalMedians(
            name=self.name,
            threshold=self.threshold,
            column=column.name,
            values=code_values(column, context.open_bins),
            groups=groups_of(self.by, context.schema),
        )


@dataclass(frozen=True, kw_only=True)
class ConditionalMedians(_Conditional):
    """The largest difference of the median of a column in any group of records.

    The median is the lower median: the smallest value that at least half of the group's records do not exceed.

    Parameters
    ----------
    threshold
        Largest difference, in the unit of the column.
    column, values, groups
        As for `ConditionalMeans`.

    Notes
    -----
    The median of a group that is empty in the candidate is taken to be the middle of the range of values. A
    group that is empty in the real table has no error and no slack.

    Privacy
    -------
    *Slack.* Of the ``c`` real records of a group let ``b`` have values at ``a - T`` or below and ``u`` at ``a + T``
    or above, where ``a`` is the candidate's median. The lower median is at ``a - T`` or below exactly when
    ``b >= c/2``, and at ``a + T`` or above exactly when fewer than half of the records are below that,
    ``c - u < c/2``. So the criterion holds in the group exactly when ``c/2 - b > 0`` and ``c/2 - u >= 0``; as these
    are multiples of one half, the second is ``c/2 - u + 1/2 > 0``. A record adds 1/2, -1/2 or 0 to
    each sum, so a step moves it by at most 1, and the smallest over groups by at most 1: the number of
    records that must be replaced before the median leaves the allowed interval. A side of the interval with
    no possible value beyond it cannot be violated.

    *Published form: the exponential mechanism.* There are finitely many possible errors ``e_0 < e_1 < ...``, all
    public: the distances of the possible values from the candidate's medians. Let ``F_j`` be the slack of "the
    error is at most ``e_j``" as above. The score of ``e_j`` is ``min(F_j, -F_(j-1))``: not negative for
    the true error alone (up to ties), otherwise minus the number of records that would have to change. As a
    minimum of numbers of step sensitivity 1 it has step sensitivity 1, so choosing an error by
    the exponential mechanism with these scores and sensitivity ``k`` costs ``epsilon`` once, however many groups
    there are. `scores` returns the candidates and their scores; `sensitivity` is that of the scores.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> domain = Domain(("size",), (3,))
    >>> real = RecordTypes(domain, [[0], [1], [2]], [6, 3, 11])
    >>> synthetic = RecordTypes(domain, [[0], [1], [2]], [6, 8, 6])
    >>> criterion = ConditionalMedians(name="size", threshold=2.0, column="size", values=(0.0, 1.0, 3.0))
    >>> criterion.value(real, synthetic), float(criterion.slack(real, synthetic))
    (2.0, -0.5)
    >>> errors, scores = criterion.scores(real, synthetic)
    >>> errors.tolist(), scores.tolist()
    ([0.0, 1.0, 2.0], [-0.5, -0.5, 0.5])
    """

    mechanism: ClassVar[str] = "exponential"

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the largest error of a group's median. Private."""
        self.require(real, synthetic)
        counts, values = self._sorted(real)
        target = self._medians(synthetic)
        medians = np.where(counts.sum(axis=1) > 0, _lower_median(counts, values), target)
        return float(np.abs(medians - target).max())

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return the most that one unit can change a score of the exponential mechanism."""
        return float(unit.max_rows)

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Number:
        """Return how many records must be replaced before a group's median is too wrong. Private."""
        self.require(real, synthetic)
        counts, values = self._sorted(real)
        apart = values[None, :] - self._medians(synthetic)[:, None]
        least = float(_half_slack(counts, apart <= -self.threshold, apart >= self.threshold).min())
        return Fraction(least) if math.isfinite(least) else least  # halves of records are exact

    def scores(self, real: RecordTypes, synthetic: RecordTypes) -> tuple[Floats, Floats]:
        """Return the possible errors (public) and the score of each (private)."""
        self.require(real, synthetic)
        counts, values = self._sorted(real)
        apart = values[None, :] - self._medians(synthetic)[:, None]
        errors = np.unique(np.append(np.abs(apart), 0.0))
        within = np.array(
            [_half_slack(counts, apart < -error, apart > error).min(initial=math.inf) for error in errors]
        )
        scores = within.copy()
        scores[1:] = np.minimum(scores[1:], -within[:-1])
        # the largest error has infinite slack; when it is the only one its score is a constant
        return errors, np.where(np.isfinite(scores), scores, 0.0)

    def release(
        self, curator: Curator, synthetic: RecordTypes, *, epsilon: float, sensitivity: float
    ) -> Released:
        """Choose the error among the possible ones, charged before it is drawn.

        Privacy
        -------
        In: private. Out: releasable, for ``epsilon``. The exponential mechanism over `scores`; which errors are possible depends on the
        candidate alone. If only one is, nothing is asked.
        """
        errors = self.scores(synthetic, synthetic)[0]
        value = float(errors[0])
        if len(errors) > 1:
            scores = self.sealed(curator, synthetic, sensitivities=[sensitivity] * len(errors))
            value = float(errors[curator.choose(scores, epsilon=epsilon, purpose=self._purpose)])
        return Released(value=value, sensitivity=sensitivity)

    def published_numbers(self, real: RecordTypes, synthetic: RecordTypes) -> list[Number]:
        """Return the scores of the possible errors. Private."""
        return [float(score) for score in self.scores(real, synthetic)[1]]

    def published_sensitivities(self, unit: Unit, synthetic: RecordTypes) -> list[float]:
        """Return the sensitivity of a score for each of them."""
        return [self.sensitivity(unit, synthetic.rows)] * len(self.scores(synthetic, synthetic)[0])

    def chance(
        self, real: RecordTypes, synthetic: RecordTypes, *, epsilon: float, sensitivity: float
    ) -> float:
        """Return the probability that an error below the threshold is chosen. For rehearsals on public tables."""
        errors, scores = self.scores(real, synthetic)
        weights = np.exp(epsilon * (scores - scores.max()) / (2 * sensitivity))
        good = np.array([self.met(float(error)) for error in errors])
        return float(weights[good].sum() / weights.sum())

    def needs(self, slack: float, n: int | None) -> str:
        """Say how many rows the smallest group must have."""
        return f"{math.ceil(2 * slack):,} rows in the smallest group"

    def outlook(self, facts: PlanFacts, epsilon: float) -> Outlook:
        """Plan the published form: there is no noise in the unit of the error, since scores move by records."""
        sensitivity = self.planned_sensitivity(facts)
        if sensitivity is None:
            return Outlook()
        return Outlook(sensitivity=sensitivity, needs="error chosen by the exponential mechanism; rehearse")

    def _sorted(self, types: RecordTypes) -> tuple[Ints, Floats]:
        values = self._numbers()[0]
        order = np.argsort(values, kind="stable")
        return self._tables(types)[:, order], values[order]

    def _medians(self, synthetic: RecordTypes) -> Floats:
        counts, values = self._sorted(synthetic)
        return np.where(counts.sum(axis=1) > 0, _lower_median(counts, values), self._middle)


def _lower_median(counts: Ints, values: Floats) -> Floats:
    """Return the lower median of each row of counts; the first value for a row of zeros."""
    reached = 2 * np.cumsum(counts, axis=1) >= counts.sum(axis=1, keepdims=True)
    return np.asarray(values[np.argmax(reached, axis=1)])


def _half_slack(counts: Ints, below: npt.NDArray[np.bool_], above: npt.NDArray[np.bool_]) -> Floats:
    """Return ``min(c/2 - b, c/2 - u + 1/2)`` of each group; a side nobody can be on does not count."""
    half = counts.sum(axis=1) / 2
    low = np.where(below.any(axis=1), half - (counts * below).sum(axis=1), math.inf)
    high = np.where(above.any(axis=1), half - (counts * above).sum(axis=1) + 0.5, math.inf)
    return np.minimum(low, high)
