"""Acceptance criteria before any data: their noise against their thresholds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.release.criteria.base import Criterion, conservative_threshold, laplace_deviation
from understudy.release.criteria.marginals import RelativeMarginalError, clipped_ratio_sensitivity
from understudy.release.criteria.means import ConditionalMeans
from understudy.release.criteria.medians import ConditionalMedians
from understudy.release.criteria.moments import RegressionMoments
from understudy.release.criteria.prediction import PredictionError
from understudy.release.criteria.regression import RegressionCoefficients
from understudy.release.record_types import RecordTypes
from understudy.release.run.transform import neighbours
from understudy.release.selection.slack import SlackTest
from understudy.schema import Domain, Schema

if TYPE_CHECKING:
    from understudy.release.spec.spec import Spec

__all__ = ["CriterionPlan", "plan_criteria", "slack_test"]

_RARELY = 0.05
_REGRESSIONS = 25
"""Private regressions that the sensitivity of a prediction error is planned from."""


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
    for criterion, plain, words in zip(
        spec.criteria_for(schema), spec.criteria, spec.words_for(schema), strict=True
    ):
        facts: dict[str, Any] = {
            "name": criterion.name,
            "kind": plain["kind"],
            "type": words.type,
            "metric": words.metric,
            "threshold": criterion.threshold,
            "unit": words.unit,
        }
        if not criterion.reads_real:
            found.append(CriterionPlan(form="public", **facts))
        elif test is not None:
            found.append(CriterionPlan(form="pass-only", **facts, **_by_slack(spec, test, criterion, n)))
        else:
            values = _by_noise(spec, criterion, plain, n, smallest, example)
            found.append(CriterionPlan(form="published", epsilon=plain.get("epsilon"), **facts, **values))
    return tuple(found)


def _by_slack(spec: Spec, test: SlackTest, criterion: Criterion, n: int | None) -> dict[str, Any]:
    """Plan a criterion of the one test: how much room does a perfect candidate have, in records?"""
    epsilon, unit = spec.shares.acceptance, spec.unit
    scale = test.noise_scale(epsilon, unit=unit)
    passing = test.threshold(epsilon=epsilon, false_accept=spec.false_accept, unit=unit)
    safe = passing - scale * math.log(2 * _RARELY)  # slack at which 95 % of the candidates are accepted
    facts: dict[str, Any] = {
        "sensitivity": test.sensitivity(unit),
        "noise_deviation": laplace_deviation(scale),
        "false_accept": spec.false_accept,
    }
    threshold = criterion.threshold
    if isinstance(criterion, RelativeMarginalError):
        facts["needs"] = f"{math.ceil(safe / (1 - 1 / threshold)):,} rows in the rarest value"
    elif isinstance(criterion, ConditionalMeans):
        low, high = criterion.bounds
        facts["needs"] = (
            f"{math.ceil(safe * (high - low + threshold) / threshold):,} rows in the smallest group"
        )
    elif isinstance(criterion, ConditionalMedians):
        facts["needs"] = f"{math.ceil(2 * safe):,} rows in the smallest group"
    elif isinstance(criterion, RegressionCoefficients | PredictionError):
        facts["needs"] = "depends on the table; rehearse"
    elif n is not None:
        room = n * threshold
        facts["room"] = room
        facts["needs"] = f"{math.ceil(safe / threshold):,} rows"
        facts["noise_dominated"] = room < safe
        facts["accepted_below"] = max(0.0, threshold - safe / n)
        facts["rejected_above"] = threshold
        facts["false_reject"] = 1 - test.acceptance(room / 2, threshold=passing, epsilon=epsilon, unit=unit)
    return facts


def _by_noise(
    spec: Spec,
    criterion: Criterion,
    plain: Mapping[str, Any],
    n: int | None,
    smallest: int,
    example: RecordTypes | None,
) -> dict[str, Any]:
    """Plan a published error: its noise against its threshold."""
    epsilon = plain.get("epsilon")
    if epsilon is None:
        return {}
    if isinstance(criterion, RegressionCoefficients):
        return _by_moments(spec, criterion, float(epsilon), n, example)
    sensitivity = _planned_sensitivity(spec, criterion, plain, n, smallest, example)
    if sensitivity is None:
        return {}
    scale = sensitivity / epsilon
    needs = ""
    if isinstance(criterion, ConditionalMeans):
        worst = max(criterion.sensitivity(unit, max(1, n or 1)) for unit in neighbours(spec))
        size = "of the example" if example is not None else "of groups of equal size"
        needs = (
            f"groups like those {size}; at worst, with an empty group in the candidate, the noise has a deviation of "
            f"{laplace_deviation(worst / epsilon):.3g}"
        )
    base = 1.0 if isinstance(criterion, RelativeMarginalError) else 0.0
    half = (criterion.threshold - base) / 2
    wrong = 0.5 * math.exp(-half / scale) if scale > 0 else 0.0
    spread = -scale * math.log(2 * _RARELY)
    if isinstance(criterion, ConditionalMedians):  # no noise in the unit of the error: scores move by records
        return {"sensitivity": sensitivity, "needs": "error chosen by the exponential mechanism; rehearse"}
    return {
        "sensitivity": sensitivity,
        "noise_deviation": laplace_deviation(scale),
        "accepted_below": max(base, criterion.threshold - spread),
        "rejected_above": criterion.threshold + spread,
        "false_reject": wrong,
        "false_accept": wrong,
        "recommended_threshold": conservative_threshold(criterion.threshold, scale, _RARELY),
        "needs": needs,
        "noise_dominated": criterion.threshold - spread <= base,
    }


def _planned_sensitivity(
    spec: Spec,
    criterion: Criterion,
    plain: Mapping[str, Any],
    n: int | None,
    smallest: int,
    example: RecordTypes | None,
) -> float | None:
    """Return the sensitivity that a candidate like the example would have, or one with groups of equal size."""
    units = neighbours(spec)
    if isinstance(criterion, PredictionError):
        if n is None:
            return None
        low, high = criterion.bounds
        most = 2 * spec.unit.max_rows * (high - low) / n  # paper Proposition 9; the exact one is smaller
        return most if example is None else min(most, _fitted_sensitivity(spec, criterion, plain, n, example))
    if example is not None:
        return max(criterion.sensitivity(unit, n or example.rows, example) for unit in units)
    if isinstance(criterion, RelativeMarginalError):
        return clipped_ratio_sensitivity([smallest], clip=criterion.clip, rows_per_unit=spec.unit.max_rows)
    if n is None:
        return None
    if isinstance(criterion, ConditionalMeans):
        low, high = criterion.bounds
        size = n / max(grouping.count for grouping in criterion.groups)
        kept = max(1.0, math.floor(size) - math.ceil(n * criterion.marginal_threshold))
        return min(high - low, spec.unit.max_rows * (high - low) / kept)
    return max(criterion.sensitivity(unit, n) for unit in units)


def _fitted_sensitivity(
    spec: Spec, criterion: PredictionError, plain: Mapping[str, Any], n: int, example: RecordTypes
) -> float:
    """Return the middle sensitivity over private regressions of the example, whose noise is most of what it depends on."""
    columns = (plain["target"], *plain["features"])
    spent = [
        float(item["epsilon"])
        for item in spec.criteria
        if item["kind"] == "regression-coefficients" and (item["target"], *item["features"]) == columns
    ]
    moments = RegressionMoments(criterion.regression)
    exact = np.array([float(moment) for moment in moments.exact(example)])
    generator = np.random.default_rng(0)
    scales = moments.noise_scales(max(spent), spec.unit) if spent else np.zeros_like(exact)
    found = []
    for _ in range(_REGRESSIONS):
        baseline = moments.fit(exact + generator.laplace(0.0, scales), n=example.rows)
        fitted = replace(criterion, baseline=baseline)
        found.append(max(fitted.sensitivity(unit, n, example) for unit in neighbours(spec)))
    return float(np.median(found))


def _by_moments(
    spec: Spec, criterion: RegressionCoefficients, epsilon: float, n: int | None, example: RecordTypes | None
) -> dict[str, Any]:
    """Plan a private regression: the error its noise alone causes on the example, or on evenly spread records."""
    if n is None and example is None:
        return {}
    public = example if example is not None else _even_records(criterion, n or 0)
    if public is None:
        return {"needs": "too many combinations to plan; rehearse"}
    low, middle, high = RegressionMoments(criterion.regression).noise_quantiles(
        public, epsilon=epsilon, unit=spec.unit, draws=100
    )
    where = "evenly spread records, which vary more than real ones" if example is None else "the example"
    return {
        "noise_deviation": float(middle),
        "needs": f"noise alone: L1 error {low:.3g} / {middle:.3g} / {high:.3g} (10, 50, 90 %) on {where}",
        "noise_dominated": bool(high > criterion.threshold / 2),
    }


def _even_records(criterion: RegressionCoefficients, n: int) -> RecordTypes | None:
    """Return a table with every combination of the regression's values equally often."""
    parts = (*criterion.regression.features, criterion.regression.target)
    sizes = tuple(len(part.values) for part in parts)
    cells = math.prod(sizes)
    if cells > 200_000:
        return None
    codes = np.stack([axis.ravel() for axis in np.indices(sizes)], axis=1)
    return RecordTypes(
        Domain(tuple(part.column for part in parts), sizes),
        codes,
        np.full(cells, max(1, round(n / cells)), dtype=np.int64),
    )
