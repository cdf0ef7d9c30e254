"""Faithfulness as an acceptance criterion (paper Births, sections 3.5.1 and 4.5.5)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from understudy.errors import WorkloadError
from understudy.privacy.exact_floats import float_up
from understudy.release.criteria.base import Criterion
from understudy.release.faithfulness import Similarity, matched_records
from understudy.release.record_types import RecordTypes
from understudy.schema import Domain

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["Faithfulness"]


@dataclass(frozen=True, kw_only=True)
class Faithfulness(Criterion):
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

    kind: ClassVar[str] = "faithfulness"
    family: ClassVar[str] = "Faithfulness"

    similarity: Similarity

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.threshold <= 1:
            raise WorkloadError(f"The threshold of {self.name!r} ({self.threshold}) is a share of the rows.")

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        return self.similarity.problems(domain)

    @property
    def metric(self) -> str:
        """What is measured, in words."""
        return "Record-level matching error"

    @property
    def bounds(self) -> tuple[float, float]:
        """Shares of the rows."""
        return 0.0, 1.0

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
