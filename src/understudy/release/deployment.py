"""A draft entry for public registries of differentially private deployments."""

from __future__ import annotations

from typing import Any

from understudy.release.result import ReleaseResult

__all__ = ["deployment_entry"]


def deployment_entry(result: ReleaseResult) -> dict[str, Any]:
    """Return what registries ask for, as far as a release knows it; the custodian fills in the empty fields.

    Privacy
    -------
    In: a `ReleaseResult`, all of which may be published. Out: published.
    """
    guarantee = result.guarantee
    charges = [entry for entry in result.ledger_entries if entry.event is not None]
    return {
        "status": "draft: fill in the empty fields before you submit it",
        "name": result.spec.title or result.spec.name,
        "description": result.spec.description.strip(),
        "data_curator": "",
        "intended_use": "published microdata",
        "contact": "",
        "publication": "",
        "date": result.finished,
        "data_product": {
            "kind": "synthetic table",
            "rows": len(result.synthetic),
            "columns": list(result.schema.names),
            "method": result.configuration.name,
        },
        "privacy_model": "central (a trusted curator holds the records)",
        "privacy_unit": guarantee.unit.describe(),
        "neighbouring_tables": guarantee.unit.to_dict(),
        "privacy_loss": guarantee.budget.to_dict(),
        "privacy_loss_in_words": guarantee.describe(),
        "condition": guarantee.condition,
        "accounting": guarantee.accounting,
        "composition": f"{len(charges)} charges, fully adaptive filter",
        "post_processing": "estimation, sampling, constraints, projection",
        "public_facts": dict(result.public_facts),
        "noise": "exact integer noise from a cryptographic generator without a seed",
        "software": result.software,
        "verification": "understudy verify FOLDER",
    }
