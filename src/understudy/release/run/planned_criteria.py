"""Acceptance criteria before any data: their noise against their thresholds."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from understudy.release.criteria.base import (
    RARELY,
    Criterion,
    CriterionConfig,
    Outlook,
    PlanFacts,
    laplace_deviation,
)
from understudy.release.record_types import RecordTypes
from understudy.release.run.transform import neighbours
from understudy.release.selection.slack import SlackTest
from understudy.schema import Schema

if TYPE_CHECKING:
    from understudy.release.spec.spec import Spec

__all__ = ["CriterionPlan", "plan_criteria", "slack_test"]


@dataclass(frozen=True, kw_only=True)
class CriterionPlan:
    """One criterion before any data: its noise against its threshold.

    Attributes
    ----------
    noise_deviation
        Standard deviation of the noise: in the unit of the error (published), or in records (pass-only).
    room
        Pass-only: how many records a perfect candidate is away from violating the criterion, where that follows
        from public facts. None where it depends on the table.
    accepted_below, rejected_above
        Exact errors below the one are accepted, above the other rejected, with probability 95 % or more, as far as
        this criterion decides. None where they depend on the table.
    false_reject, false_accept
        Probability that a candidate half-way below the threshold is rejected, and that one half-way above it (one
        and a half times the threshold) is accepted, by this criterion alone.
    needs
        In words, what the table must have so that a perfect candidate is accepted with probability 95 %.
    noise_dominated
        Whether noise alone decides about good candidates.
    """

    name: str
    kind: str
    type: str
    metric: str
    threshold: float
    unit: str
    form: str
    epsilon: float | None = None
    sensitivity: float | None = None
    noise_deviation: float | None = None
    room: float | None = None
    accepted_below: float | None = None
    rejected_above: float | None = None
    false_reject: float | None = None
    false_accept: float | None = None
    recommended_threshold: float | None = None
    needs: str = ""
    noise_dominated: bool = False


def slack_test(spec: Spec, schema: Schema) -> SlackTest | None:
    """Return the one test of the pass-only form, or None."""
    real = tuple(criterion for criterion in spec.criteria_for(schema) if criterion.reads_real)
    return SlackTest(real) if spec.form == "pass-only" and real else None


def plan_criteria(
    spec: Spec, schema: Schema, n: int | None, smallest: int, example: RecordTypes | None = None
) -> tuple[CriterionPlan, ...]:
    """Plan every criterion for a public number of rows, if there is one.

    Parameters
    ----------
    smallest
        Rows that the rarest value is assumed to have where there is no example.
    example
        Records of a public table that stands in for candidates; group sizes and regressions are taken from it.
    """
    test = slack_test(spec, schema)
    found = []
    for criterion, item in zip(spec.criteria_for(schema), spec.criteria, strict=True):
        form, outlook = "public", Outlook()
        if criterion.reads_real and test is not None:
            form, outlook = "pass-only", _by_slack(spec, test, criterion, n)
        elif criterion.reads_real:
            form = "published"
            if item.epsilon is not None:
                facts = PlanFacts(
                    unit=spec.unit,
                    steps=neighbours(spec),
                    n=n,
                    smallest=smallest,
                    example=example,
                    regression_epsilon=_regression_epsilon(spec, item),
                )
                outlook = criterion.outlook(facts, item.epsilon)
        words = item.wording(schema)
        found.append(
            CriterionPlan(
                name=criterion.name,
                kind=item.kind,
                type=words.type,
                metric=words.metric,
                threshold=criterion.threshold,
                unit=words.unit,
                form=form,
                epsilon=item.epsilon if form == "published" else None,
                **asdict(outlook),
            )
        )
    return tuple(found)


def _regression_epsilon(spec: Spec, item: CriterionConfig) -> float | None:
    """Return what the private regression costs that a criterion compares with."""
    return max(
        (
            other.epsilon
            for other in spec.criteria
            if other.fits_regression
            and other.epsilon is not None
            and other.regression_columns == item.regression_columns
        ),
        default=None,
    )


def _by_slack(spec: Spec, test: SlackTest, criterion: Criterion, n: int | None) -> Outlook:
    """Plan a criterion of the one test: how much room does a perfect candidate have, in records?"""
    epsilon, unit = spec.shares.acceptance, spec.unit
    scale = test.noise_scale(epsilon, unit=unit)
    passing = test.threshold(epsilon=epsilon, false_accept=spec.false_accept, unit=unit)
    safe = passing - scale * math.log(2 * RARELY)  # slack at which 95 % of the candidates are accepted
    found = Outlook(
        sensitivity=test.sensitivity(unit),
        noise_deviation=laplace_deviation(scale),
        false_accept=spec.false_accept,
        needs=criterion.needs(safe, n),
    )
    room = None if n is None else criterion.room(n)
    if room is None or n is None:
        return found
    return replace(
        found,
        room=room,
        noise_dominated=room < safe,
        accepted_below=max(0.0, criterion.threshold - safe / n),
        rejected_above=criterion.threshold,
        false_reject=1 - test.acceptance(room / 2, threshold=passing, epsilon=epsilon, unit=unit),
    )
