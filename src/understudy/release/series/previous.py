"""The bundle of an earlier release as a specification refers to it: which one exactly, its model, and what the series has cost."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.engine import GraphicalModel
from understudy.errors import BundleError
from understudy.mechanisms import Model
from understudy.privacy import budget_from_dict
from understudy.release.bundle.bundle import MANIFEST
from understudy.release.selection.profiles import Bound
from understudy.release.series.cost import CONDITION, composed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from understudy.release.spec.spec import Spec

__all__ = ["bounds_of", "manifest_hash", "prior_of", "series_of"]

_MODEL = "model.understudy"


def manifest_hash(folder: Path) -> str:
    """Return the SHA-256 of the manifest of a bundle, which names it exactly."""
    try:
        return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    except OSError:
        raise BundleError(f"There is no bundle {str(folder)!r}: it has no {MANIFEST}.") from None


def prior_of(folder: Path, manifest: str) -> GraphicalModel:
    """Return the distribution of the model in a bundle, after checking that it is the bundle that is meant.

    Raises
    ------
    BundleError
        If it is another bundle, its model was changed, or it has none that can serve as a prior.
    """
    if manifest_hash(folder) != manifest:
        raise BundleError(
            f"{str(folder)!r} is not the bundle that the specification names (previous.manifest): it was changed, or is another one."
        )
    listed = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"].get(_MODEL)
    file = folder / _MODEL
    if listed is None or not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != listed:
        raise BundleError(f"The bundle {str(folder)!r} holds no model, or its model was changed.")
    model = Model.load(file)
    if not isinstance(model.distribution, GraphicalModel):
        raise BundleError(
            f"The model of the bundle {str(folder)!r} ({model.provenance.method}) cannot serve as a prior: it is no graphical model. Set previous.prior: false."
        )
    return model.distribution


def bounds_of(certificate: Mapping[str, Any]) -> list[Bound]:
    """Return everything that a certificate says is known about its release, the promise first."""
    promised = certificate["guarantee"]
    promise = Bound(0.0, budget_from_dict(promised["budget"]))
    others = [Bound.from_dict(item) for item in promised.get("trade_off") or ()]
    return [promise, *(bound for bound in others if bound != promise)]


def series_of(spec: Spec, bounds: Sequence[Bound]) -> dict[str, Any] | None:
    """Return the place of a release in its series and the guarantee up to now, as plain values; None if it is in none."""
    previous = spec.file.previous
    if previous is None:
        return None
    earlier = [[Bound.from_dict(item) for item in release.bounds] for release in previous.releases]
    total = composed([*earlier, list(bounds)])
    return {
        "number": len(earlier) + 1,
        "releases": [{"name": item.name, "manifest": item.manifest} for item in previous.releases],
        "prior": previous.prior,
        "composed": total.to_dict(),
        "words": f"{len(earlier) + 1} releases of the series together: {total.describe()}. {CONDITION}",
    }
