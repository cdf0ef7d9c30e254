"""The entry for the registry of differentially private deployments that the OpenDP project keeps.

The registry (`opendp/deployments-registry-data`) takes one YAML file per deployment and checks it against a schema. What the schema asks for is
kept as facts with the tests; the entry has its keys and no others. What a release does not know stands in brackets, to be
replaced by the office.
"""

from __future__ import annotations

import re
from typing import Any

from understudy.privacy import ZCDP, ApproxDP, Budget, PureDP
from understudy.release.bundle.reporting import epsilon_delta, fixed
from understudy.release.result import ReleaseResult
from understudy.report import inline_markdown

__all__ = ["deployment_entry", "deployment_text", "slug"]

ASKED = "[fill in: {}]"
"""What stands where the office has to write something."""

_HEAD = """\
# Entry for the registry of differentially private deployments (github.com/opendp/deployments-registry-data), as a draft.
# Replace what stands in brackets, then url_slug by the name, the curators and the year, and send it as deployments/NAME.yaml.
"""


def slug(name: str, curators: str, year: str) -> str:
    """Return the end of the entry's address, by the registry's rule: name, curators and year, in small letters with hyphens.

    Examples
    --------
    >>> slug("Live births (2014)", "Ministry of Health", "2024")
    'live-births-2014--ministry-of-health-2024'
    """
    return "-".join(re.sub(r"\W+", "-", part.lower()).replace("_", "-") for part in (name, curators, year))


def deployment_entry(result: ReleaseResult) -> dict[str, Any]:
    """Return the entry of a release.

    Privacy
    -------
    In: a `ReleaseResult`, all of which may be published. Out: published.
    """
    spec, guarantee = result.spec, result.guarantee
    office = spec.publisher
    name = _plain(spec.title or spec.name)
    curator = _plain(office.name) or ASKED.format("who publishes it")
    facts = [f"{key}: {_listed(fact)}" for key, fact in result.public_facts.items() if fact]
    charges = [entry for entry in result.ledger_entries if entry.event is not None]
    basic = {
        "name": name,
        "data_curators": [curator],
        "intended_use": "Statistics that the acceptance criteria cover, from published microdata.",
        "data_product_type": "Synthetic data",
        "data_product_region": _plain(office.region)
        or ASKED.format("the region it describes, or whose law applies"),
        "description": _plain(spec.description) or name,
        "publication_date": result.finished[:10],
        **({"data_product_sector": office.sector} if office.sector else {}),
    }
    return {
        "url_slug": slug(name, curator, result.finished[:4]),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": {
                "variant_name": _variant(guarantee.budget),
                "data_domain": f"Tables with {len(result.schema.names)} columns, whose possible values the published schema lists.",
                "unprotected_quantities": _plain("Treated as public, or measured instead: " + "; ".join(facts)) if facts else "None.",
            },
            "privacy_loss": {
                "privacy_unit": _unit(result),
                "privacy_unit_details": _plain(f"Neighbouring tables {guarantee.neighbours}. {guarantee.condition}"),
                "privacy_parameters": _parameters(guarantee.budget),
                "privacy_parameters_details": _plain(guarantee.describe()),
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "A trusted curator holds the records; only what the ledger was charged for leaves it.",
                "actors": ASKED.format("who may see the records, and why they are trusted"),
                "release_type": "One release",
                "release_type_details": ASKED.format("plans for further releases of the same records"),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Estimation, drawing of rows, rules of synthetic records, projection.",
                "composition": f"{len(charges)} charges, each made before its noise was drawn, add up by {guarantee.accounting} accounting; "
                f"{guarantee.selection} ({guarantee.argument}).",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": f"The specification, with cleaning rules, methods and criteria, {fixed(guarantee.condition)}; "
                "choices between methods in the light of the records are part of the guarantee.",
                "mechanisms": _plain(
                    f"{result.configuration.name}; {result.software}. Noise is whole numbers, drawn exactly from a cryptographic generator without a seed."
                ),
                "justification": ASKED.format("how the privacy budget and the criteria were chosen, and by whom"),
            },
            "administrative": {
                "sources": _plain(spec.citation) or ASKED.format("address of the data and of papers about them"),
                "notes": "The bundle holds the certificate with every charge; anybody can check it with: understudy verify FOLDER",
                "registry_authors": [ASKED.format("who wrote this entry")],
            },
        },
    }  # fmt: skip


def deployment_text(result: ReleaseResult) -> str:
    """Return the entry as the registry reads it: YAML, each text on one line."""
    import yaml

    body = yaml.safe_dump(deployment_entry(result), sort_keys=False, allow_unicode=True, width=1_000_000)
    return _HEAD + body


def _variant(budget: Budget) -> str:
    """Return the registry's name for a kind of guarantee; it has none for Gaussian differential privacy."""
    if isinstance(budget, PureDP):
        return "Pure DP"
    if isinstance(budget, ApproxDP):
        return "Approximate DP"
    return "Zero-concentrated DP" if isinstance(budget, ZCDP) else "Custom"


def _parameters(budget: Budget) -> dict[str, float]:
    """Return the numbers of a guarantee; of a Gaussian one an epsilon with its delta, as the registry has no mu."""
    if isinstance(budget, ZCDP):
        return {"rho": budget.rho}
    epsilon, delta = epsilon_delta(budget)
    return {"epsilon": epsilon} | ({"delta": delta} if delta else {})


def _unit(result: ReleaseResult) -> str:
    unit = result.guarantee.unit
    return "One row" if unit.id_column is None else "One person"


def _listed(fact: object) -> str:
    return "; ".join(map(str, fact)) if isinstance(fact, list | tuple) else str(fact)


def _plain(words: str) -> str:
    """Return words that the registry's page, which renders Markdown and mathematics, shows as they are.

    It refuses two backslashes in a row, which would begin mathematics, so a backslash becomes a slash.
    """
    return inline_markdown(words.replace("\\", "/")).replace("\\]", "]").replace("](", "] (")
