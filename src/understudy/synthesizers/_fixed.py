"""What the mechanisms that measure a fixed list of marginals share: the estimate, and words about it."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.curator import Curator
from understudy.engine import GraphicalModel, estimate, model_cells
from understudy.marginals import Measurement
from understudy.schema import Clique, Schema
from understudy.synthesizers.base import fixed_total, support_of


def model_note(schema: Schema, cliques: Sequence[Clique], *, max_model_mb: float) -> tuple[int, str]:
    """Return how many cells the model will hold, and a sentence that says what kind of model it is."""
    needed = model_cells(schema.domain, [*cliques, *(clique for clique, _ in support_of(schema))])
    allowed = int(max_model_mb * 2**20 / 8)
    if needed <= allowed:
        return needed, "All measured marginals fit into one graphical model."
    local = sum(schema.domain.cells(clique) for clique in cliques)
    return (
        local + allowed,
        f"One graphical model of all measured marginals does not fit into {max_model_mb:g} MB. They are made to "
        "agree with each other, and rows are drawn from a smaller model.",
    )


def estimate_fixed(
    curator: Curator, measurements: Sequence[Measurement], *, max_model_mb: float
) -> GraphicalModel:
    """Estimate a graphical model where it fits, and locally consistent marginals where not."""
    return estimate(
        curator.domain,
        measurements,
        total=fixed_total(curator),
        zeros=support_of(curator.schema),
        max_cells=int(max_model_mb * 2**20 / 8),
        thorough=True,
        if_too_large="local-consistency",
    )
