"""Decisions and origins as plain values, for the state of a release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.privacy import Unit, budget_from_dict
from understudy.release.criteria import LinearFit
from understudy.release.judgement import Judgement
from understudy.release.result import AcceptanceResult, CriterionResult
from understudy.synthesizers import Provenance

__all__ = [
    "fit_from_plain",
    "judgement_from_plain",
    "judgement_to_plain",
    "provenance_from_plain",
    "provenance_to_plain",
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


def provenance_to_plain(provenance: Provenance) -> dict[str, Any]:
    """Return how a model was made as plain values."""
    return {
        "method": provenance.method,
        "options": dict(provenance.options),
        "unit": provenance.unit.to_dict(),
        "budget": provenance.budget.to_dict(),
        "accounting": provenance.accounting,
        "spent": provenance.spent,
        "rows_exact": provenance.rows_exact,
    }


def provenance_from_plain(plain: Mapping[str, Any], *, ledger_id: str) -> Provenance:
    """Return how a model was made; the ledger is that of the release, also for attempts on ledgers in memory."""
    return Provenance(
        method=str(plain["method"]),
        options=dict(plain["options"]),
        unit=Unit.from_dict(plain["unit"]),
        budget=budget_from_dict(plain["budget"]),
        accounting=str(plain["accounting"]),
        spent=float(plain["spent"]),
        ledger_id=ledger_id,
        rows_exact=bool(plain.get("rows_exact", True)),
    )


def fit_from_plain(plain: Mapping[str, Any]) -> LinearFit:
    """Return a regression that was recorded."""
    return LinearFit(float(plain["intercept"]), tuple(float(slope) for slope in plain["slopes"]))
