"""Faithfulness as an acceptance criterion (paper Births, sections 3.5.1 and 4.5.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from understudy.errors import WorkloadError
from understudy.privacy.exact_floats import float_up
from understudy.release.criteria.base import CriterionConfig, CriterionContext, ShareOfRows
from understudy.release.criteria.groups import column_of, label_of
from understudy.release.criteria.marginals import beside_marginals
from understudy.release.faithfulness import Similarity, matched_records
from understudy.release.record_types import RecordTypes
from understudy.release.spec.parts import Whole
from understudy.schema import Column, Domain, Integer, Real

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["Faithfulness", "FaithfulnessConfig"]


class FaithfulnessConfig(CriterionConfig):
    """Share of synthetic records that cannot be paired one to one with a similar real one."""

    family: ClassVar[str] = "Faithfulness"
    measured_in: ClassVar[str] = "share of rows"

    kind: Literal["faithfulness"]
    exact: list[str] = Field([], description="Columns that must be equal.")
    near: dict[str, Whole] = Field({}, description="Columns that may differ, with the number of bins.")
    at_most: Annotated[int, Field(ge=0)] = Field(1, description="How many near columns may differ at once.")
    exceptions: dict[str, list[str | int | float]] = Field(
        {},
        description="Bins of near columns that must match exactly: labels, or numbers that lie inside a bin and not at one of its ends.",
    )
    ignored: list[str] = Field([], description="Columns that do not matter.")

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return "records without a similar partner"

    def build(self, context: CriterionContext) -> Faithfulness:
        """Return the criterion."""
        schema = context.schema
        for name in self.near:
            if column_of(schema, name).kind == "categorical":
                raise WorkloadError(
                    f"column {name!r} is categorical: its values have no neighbours; name it in exact"
                )
        exceptions = {
            name: [code for bin in bins for code in _exception(column_of(schema, name), bin)]
            for name, bins in self.exceptions.items()
        }
        for name in self.near:  # missing and other entries have no neighbours
            column = schema.column(name)
            extra = range(column.value_count, column.size)
            if extra:
                exceptions[name] = [*exceptions.get(name, []), *extra]
        similarity = Similarity(
            exact=tuple(self.exact),
            near=dict(self.near),
            at_most=self.at_most,
            exceptions=exceptions,
            ignored=tuple(self.ignored),
        )
        return Faithfulness(name=self.name, threshold=self.threshold, similarity=similarity)

    def warnings_beside(self, others: Sequence[CriterionConfig], *, published: bool) -> list[str]:
        """Warn where nothing bounds the sizes of groups."""
        return beside_marginals(others, published=published)


def _exception(column: Column, bin: str | float) -> list[int]:
    """Return the code of a label, or of the bin that has a number strictly between its ends; none if there is no such bin."""
    if isinstance(bin, str):
        return [label_of(column, bin)]
    if not isinstance(column, Integer | Real):
        raise WorkloadError(f"column {column.name!r} is not numeric; write the exception {bin:g} as a label")
    cells = column.cells
    return [int(code) for code in np.flatnonzero((cells.low < bin) & (bin < cells.high))]


@dataclass(frozen=True, kw_only=True)
class Faithfulness(ShareOfRows):
    """The share of synthetic records that cannot be paired one to one with a similar real record.

    Parameters
    ----------
    threshold
        Largest share of unpaired records (the paper: .05).
    similarity
        When two records count as similar.

    Privacy
    -------
    *Sensitivity* ``k/n`` and *slack* ``n T - (n - pairs)``, step sensitivity 1: a row that is added, removed or
    replaced changes the size of the largest pairing by at most one; the proof is with
    `matched_records`. The slack is positive exactly when the criterion is met.

    Examples
    --------
    >>> domain = Domain(("sex", "age"), (2, 5))
    >>> real = RecordTypes(domain, [[0, 1], [0, 2], [1, 4]], [4, 4, 2])
    >>> synthetic = RecordTypes(domain, [[0, 2], [0, 3], [1, 1]], [4, 4, 2])
    >>> similarity = Similarity(exact=("sex",), near={"age": 1})
    >>> criterion = Faithfulness(name="faithful", threshold=0.25, similarity=similarity)
    >>> round(criterion.value(real, synthetic), 3), float(criterion.slack(real, synthetic))
    (0.2, 0.5)
    """

    similarity: Similarity

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.threshold <= 1:
            raise WorkloadError(f"The threshold of {self.name!r} ({self.threshold}) is a share of the rows.")

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        return self.similarity.problems(domain)

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the share of synthetic records without a partner. Private."""
        return float(self.released_value(real, synthetic))

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return the share of synthetic records without a partner, exactly. Private."""
        return Fraction(self._unpaired(real, synthetic), synthetic.rows)

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return the rows per unit over the rows."""
        return float_up(Fraction(unit.max_rows, n))

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return how many records may change before too many have no partner. Private."""
        return Fraction(synthetic.rows * self.threshold) - self._unpaired(real, synthetic)

    def _unpaired(self, real: RecordTypes, synthetic: RecordTypes) -> int:
        self.require(real, synthetic)
        return synthetic.rows - matched_records(real, synthetic, self.similarity)
