"""What the mechanisms that measure a fixed list of marginals share: the estimate, and words about it."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.curator import Curator, RareCounts
from understudy.engine import GraphicalModel, estimate, model_cells
from understudy.marginals import Measurement
from understudy.schema import Clique, Schema
from understudy.synthesizers._rare import with_rare
from understudy.synthesizers._smoothing import margins_of, smooth_pairs
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
    """Estimate a graphical model where it fits, and locally consistent marginals where not.

    A number of rows that was measured before is one more measurement.
    """
    rows = curator.rows_measurement
    return _estimate(
        curator,
        [*measurements, *([] if rows is None else [rows])],
        total=fixed_total(curator),
        max_model_mb=max_model_mb,
    )


def estimate_smoothed(
    curator: Curator,
    measurements: Sequence[Measurement],
    base: GraphicalModel,
    *,
    rare: RareCounts | None,
    max_model_mb: float,
) -> GraphicalModel:
    """Estimate again, with the noise taken out of pairs and rare values set to their own counts.

    The number of records with each value is what the measured tables say without bias. The first estimate knows that
    counts are not negative, which makes it overrate rare values: noise in their empty cells only adds.
    Overlaps of rare values are read off tables smoothed with these numbers, which are then smoothed again.
    """
    total = base.total
    unbiased = margins_of(curator.domain, measurements, total)
    margins = {name: values for name, (values, _) in unbiased.items()}
    support = support_of(curator.schema)
    targets = smooth_pairs(curator.schema, measurements, margins, support, total)
    if rare is not None:
        pairs: dict[Clique, Measurement] = {item.clique: item for item in targets if len(item.clique) == 2}
        margins = with_rare(pairs, margins, unbiased, rare, total)
        targets = smooth_pairs(curator.schema, measurements, margins, support, total)
    return _estimate(curator, targets, total=total, max_model_mb=max_model_mb)


def _estimate(
    curator: Curator, measurements: Sequence[Measurement], *, total: float | None, max_model_mb: float
) -> GraphicalModel:
    return estimate(
        curator.domain,
        measurements,
        total=total,
        zeros=support_of(curator.schema),
        max_cells=int(max_model_mb * 2**20 / 8),
        thorough=True,
        if_too_large="local-consistency",
    )
