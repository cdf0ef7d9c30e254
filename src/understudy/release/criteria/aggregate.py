"""Average and tail errors of marginals: the kinds of bound paper Births asks for in its discussion."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from understudy.errors import WorkloadError
from understudy.privacy.exact_floats import float_up
from understudy.release.criteria.base import CriterionContext
from understudy.release.criteria.marginals import MarginalsConfig, _Marginals, differences
from understudy.release.record_types import RecordTypes

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["AverageMarginalConfig", "AverageMarginalError", "TailMarginalConfig", "TailMarginalError"]


class AverageMarginalConfig(MarginalsConfig):
    """Average total variation distance over marginals."""

    family: ClassVar[str] = "Average error of marginals"

    kind: Literal["average-marginal-error"]

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return f"total variation, {self.ways}"

    def build(self, context: CriterionContext) -> AverageMarginalError:
        """Return the criterion."""
        return AverageMarginalError(name=self.name, threshold=self.threshold, orders=self._orders)


class TailMarginalConfig(MarginalsConfig):
    """Error that only a small share of the cells of all marginals exceeds."""

    family: ClassVar[str] = "Tail error of marginals"

    kind: Literal["tail-marginal-error"]
    share: Annotated[float, Field(ge=0, lt=1)] = Field(description="Share of cells that may be further off.")

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return f"exceeded by {self.share:.3g} of the cells, {self.ways}"

    def build(self, context: CriterionContext) -> TailMarginalError:
        """Return the criterion."""
        return TailMarginalError(
            name=self.name, threshold=self.threshold, share=self.share, orders=self._orders
        )


@dataclass(frozen=True, kw_only=True)
class AverageMarginalError(_Marginals):
    """The average over all marginals of the total variation distance.

    For one marginal that is half the sum of ``|q(R) - q(S)|`` over its cells, divided by ``n``.

    Privacy
    -------
    *Sensitivity.* Replacing a row changes the counts of one marginal by 1 in two cells at most, so half the L1
    distance by at most 1; adding or removing a row changes it by at most one half. The average over marginals
    moves no more. So ``k/n`` for replace-one and ``k/(2n)`` for add-remove (a replaced unit of several
    rows is at most ``k`` replacements, additions or removals).

    *Slack* ``n T`` minus the average of the half L1 distances: positive exactly when the criterion is met,
    step sensitivity 1.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> real = RecordTypes.from_rows(domain, [[0, 0], [1, 1]])
    >>> synthetic = RecordTypes.from_rows(domain, [[0, 1], [1, 0]])
    >>> AverageMarginalError(name="tv", threshold=0.5, orders=(1, 2)).value(real, synthetic)
    0.3333333333333333
    """

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the average total variation distance. Private."""
        return float(self.released_value(real, synthetic))

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return the average total variation distance exactly. Private."""
        return self._average(real, synthetic) / synthetic.rows

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return the rows per unit over the rows, half of it for add-remove."""
        return float_up(Fraction(unit.max_rows, 2 * n if unit.relation == "add-remove" else n))

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return how many records may move before the average is too large. Private."""
        return Fraction(synthetic.rows * self.threshold) - self._average(real, synthetic)

    def _average(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        self.require(real, synthetic)
        cliques = self._cliques(real.domain)
        total = sum(int(np.abs(difference).sum()) for _, difference in differences(real, synthetic, cliques))
        return Fraction(total, 2 * len(cliques))


@dataclass(frozen=True, kw_only=True)
class TailMarginalError(_Marginals):
    """The error that only a small share of the cells of all marginals exceeds, as a share of the rows.

    The ``m``-th largest ``|q(R) - q(S)| / n`` over all cells of the declared domain, where ``m - 1`` is the
    given share of the number of cells, rounded down. With a share of zero it is the maximal error.

    Parameters
    ----------
    share
        Share of the cells, at least 0 and below 1, that may be further off.

    Privacy
    -------
    *Sensitivity* ``k/n`` and *slack* ``n T`` minus the ``m``-th largest difference, step sensitivity 1. A step
    moves every ``|q(R) - q(S)|`` by at most one, and order statistics follow: if at least ``m`` of the
    numbers are ``x`` or more before, at least ``m`` are ``x - 1`` or more after, and the other way round. The
    number of cells, and so ``m``, is public.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> domain = Domain(("a",), (4,))
    >>> real, synthetic = RecordTypes(domain, [[0], [1]], [6, 4]), RecordTypes(domain, [[0], [2]], [9, 1])
    >>> [TailMarginalError(name="t", threshold=0.5, share=s).value(real, synthetic) for s in (0.0, 0.25, 0.5)]
    [0.4, 0.3, 0.1]
    """

    share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.share < 1:
            raise WorkloadError(f"The share of {self.name!r} ({self.share}) must be at least 0 and below 1.")

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the error that only the given share of cells exceeds. Private."""
        return float(self.released_value(real, synthetic))

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return the error that only the given share of cells exceeds, exactly. Private."""
        return Fraction(self._tail(real, synthetic), synthetic.rows)

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return the rows per unit over the rows."""
        return float_up(Fraction(unit.max_rows, n))

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return how many records may move before too many cells are too wrong. Private."""
        return Fraction(synthetic.rows * self.threshold) - self._tail(real, synthetic)

    def _tail(self, real: RecordTypes, synthetic: RecordTypes) -> int:
        self.require(real, synthetic)
        domain = real.domain
        cliques = self._cliques(domain)
        rank = int(self.share * sum(domain.cells(clique) for clique in cliques))
        errors = [np.abs(difference) for _, difference in differences(real, synthetic, cliques)]
        nonzero = np.concatenate([error[error > 0] for error in errors])
        if rank >= len(nonzero):
            return 0
        return int(np.partition(nonzero, len(nonzero) - 1 - rank)[len(nonzero) - 1 - rank])
