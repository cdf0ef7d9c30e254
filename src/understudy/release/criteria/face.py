"""Face privacy: criteria about the candidate alone (paper Births, sections 3.5.2 and 4.6), free of cost."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from understudy.errors import WorkloadError
from understudy.release.criteria.base import Criterion, CriterionConfig, CriterionContext
from understudy.release.criteria.groups import ColumnSets
from understudy.release.projection import KAnonymity
from understudy.release.record_types import RecordTypes
from understudy.release.spec.parts import Positive, Whole
from understudy.schema import Domain

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["AnonymousCombinations", "CombinationsConfig", "RareConfig", "RareRecords"]


class _PublicConfig(CriterionConfig):
    """Configuration of criteria that do not look at the real table."""

    family: ClassVar[str] = "Face privacy"
    reads_real: ClassVar[bool] = False

    threshold: Positive = Field(1.0, description="There must be fewer of them than this; 1 allows none.")


class RareConfig(_PublicConfig):
    """Number of distinct records that occur too rarely; public, free of cost."""

    measured_in: ClassVar[str] = "records"

    kind: Literal["rare-records"]
    min_count: Whole = Field(2, description="Records that occur fewer times count.")

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return f"distinct records that occur fewer than {self.min_count} times"

    def build(self, context: CriterionContext) -> RareRecords:
        """Return the criterion."""
        return RareRecords(name=self.name, threshold=self.threshold, min_count=self.min_count)


class CombinationsConfig(ColumnSets, _PublicConfig):
    """Number of combinations of values that occur in fewer than k rows; public, free of cost."""

    measured_in: ClassVar[str] = "combinations"

    kind: Literal["k-anonymity"]

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return f"combinations that occur in fewer than {self.k} rows"

    def build(self, context: CriterionContext) -> AnonymousCombinations:
        """Return the criterion."""
        return AnonymousCombinations(
            name=self.name,
            threshold=self.threshold,
            k=self.k,
            column_sets=self.rule(context.schema).column_sets,
        )


@dataclass(frozen=True, kw_only=True)
class _Public(Criterion):
    """Criteria that do not look at the real table.

    Privacy
    -------
    A function of the candidate, which has been paid for: post-processing. Sensitivity 0; the slack is plus or
    minus infinity, and the same for all real tables.
    """

    mechanism: ClassVar[str] = "none"
    reads_real: ClassVar[bool] = False

    threshold: float = 1.0

    @abstractmethod
    def count(self, synthetic: RecordTypes) -> int:
        """Return how many violations the candidate has. Public."""

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return how many violations the candidate has. Public."""
        return float(self.count(synthetic))

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return zero."""
        return 0.0

    def slack_sensitivity(self, unit: Unit) -> float:
        """Return zero."""
        return 0.0

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return plus infinity if the candidate complies, minus infinity if not. Public."""
        return math.inf if self.met(self.count(synthetic)) else -math.inf


@dataclass(frozen=True, kw_only=True)
class RareRecords(_Public):
    """The number of distinct records that occur fewer than ``min_count`` times; none may, by default.

    With ``min_count=2`` these are the unique rows.

    Examples
    --------
    >>> types = RecordTypes(Domain(("a",), (4,)), [[0], [1], [2]], [1, 2, 7])
    >>> criterion = RareRecords(name="unique rows", min_count=2)
    >>> criterion.count(types), criterion.slack(types, types)
    (1, -inf)
    """

    min_count: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_count < 1:
            raise WorkloadError(f"min_count ({self.min_count}) of {self.name!r} must be at least 1.")

    def count(self, synthetic: RecordTypes) -> int:
        """Return how many distinct records are too rare. Public."""
        self.require(synthetic)
        return int(np.count_nonzero(synthetic.counts < self.min_count))


@dataclass(frozen=True, kw_only=True)
class AnonymousCombinations(_Public):
    """The number of combinations of values that occur, but in fewer than ``k`` rows, over sets of columns.

    Examples
    --------
    >>> types = RecordTypes(Domain(("a", "b"), (2, 3)), [[0, 0], [0, 1], [1, 2]], [3, 1, 4])
    >>> AnonymousCombinations(name="k", k=3, column_sets=(("a",), ("b",))).count(types)
    1
    """

    k: int
    column_sets: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "column_sets", self._rule.column_sets)

    @property
    def _rule(self) -> KAnonymity:
        return KAnonymity(k=self.k, column_sets=self.column_sets)

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        names = dict.fromkeys(name for columns in self.column_sets for name in columns)
        return [f"no column named {name!r}" for name in names if name not in domain]

    def count(self, synthetic: RecordTypes) -> int:
        """Return how many combinations are too rare. Public."""
        self.require(synthetic)
        return self._rule.violations(synthetic)
