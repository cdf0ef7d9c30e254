"""Decisions and origins as plain values, for the state of a release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.release.criteria import LinearFit
from understudy.release.judgement import Judgement
from understudy.release.result import AcceptanceResult, CriterionResult

__all__ = [
    "fit_from_plain",
    "judgement_from_plain",
    "judgement_to_plain",
]


def judgement_to_plain(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as plain values."""
    return {
        "passed": judgement.passed,
        "acceptance": judgement.acceptance.to_dict(),
        "criteria": [criterion.to_dict() for criterion in judgement.criteria],
    }


def judgement_from_plain(plain: Mapping[str, Any]) -> Judgement:
    """Return the judgement that was recorded."""
    criteria = [dict(item) for item in plain["criteria"]]
    for item in criteria:
        item["bounds"] = None if item["bounds"] is None else tuple(item["bounds"])
    return Judgement(
        passed=bool(plain["passed"]),
        acceptance=AcceptanceResult(**plain["acceptance"]),
        criteria=tuple(CriterionResult(**item) for item in criteria),
    )


def fit_from_plain(plain: Mapping[str, Any]) -> LinearFit:
    """Return a regression that was recorded."""
    return LinearFit(float(plain["intercept"]), tuple(float(slope) for slope in plain["slopes"]))
