"""What every acceptance criterion is: an error, a threshold, and proved bounds on what one person can change.

A criterion compares the private real table with a public synthetic candidate, both as record types. Tables of
counts are compared count by count, so the candidate should have as many rows as the real table is publicly
known to have: ``n`` is the number of rows of the *candidate*, never the private number of rows.

Two forms exist side by side.

*Published.* The error itself is released with noise, as in paper Births: ``released_value`` is a variant of the error
(clipped, resized) whose ``sensitivity`` is known, and Laplace noise of scale ``sensitivity / epsilon`` is added.

*Pass-only.* ``slack`` says how many records the real table is away from violating the criterion. One record
moves it by at most one, so the smallest slack of many criteria also moves by at most one, and one noisy
comparison decides about all of them at once: see :mod:`understudy.release.selection.slack`.

Sensitivities are proved for one *step*: a row is added, removed, or replaced by another. A unit of up to ``k`` rows
is at most ``k`` steps away from its neighbour (pair the rows that leave with rows that come; the unpaired
rest is added or removed), so everything scales with ``k``.

**No rounding.** The numbers that noise is added to are exact. Counts are whole; public numbers that they meet are rounded to a public grid first
(:class:`~understudy.curator.PublicNumbers`, :mod:`understudy.release.criteria.linear`), and the sensitivity is that of the rounded
ones. So the bounds hold for values far from zero, for steps of any size, and for tables of any number of rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from understudy.errors import BudgetError, WorkloadError
from understudy.release.record_types import RecordTypes
from understudy.schema import Domain

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["Criterion", "Number", "conservative_threshold", "laplace_deviation", "laplace_upper_tail"]

Number = int | float | Fraction
"""An error or a slack: whole, a fraction, or a double."""


@dataclass(frozen=True, kw_only=True)
class Criterion(ABC):
    """An acceptance criterion: met if its error is smaller than its threshold.

    Subclasses are frozen dataclasses. They implement `value`, `sensitivity` and `slack`, with the proofs in
    their docstrings, and override `released_value` where the published form differs from the plain error.

    Parameters
    ----------
    name
        Public name, unique within a release.
    threshold
        The error must be smaller than this.
    """

    kind: ClassVar[str]
    """Name of the class of criterion in a specification."""
    mechanism: ClassVar[str] = "laplace"
    """How the published form is released: ``laplace``, ``exponential``, ``moments`` or ``none``."""
    reads_real: ClassVar[bool] = True
    """Whether the real table matters. If not, the criterion is public and costs nothing."""
    family: ClassVar[str] = "Other"
    """Words for a table of criteria, as in the first column of paper Births, Table 2."""

    name: str
    threshold: float

    def __post_init__(self) -> None:
        if not self.name:
            raise WorkloadError("A criterion needs a name.")
        if not (math.isfinite(self.threshold) and self.threshold > 0):
            raise WorkloadError(
                f"The threshold of {self.name!r} ({self.threshold}) must be positive and finite."
            )

    # ------------------------------------------------------------------ to implement

    @abstractmethod
    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the exact error. Private."""

    @abstractmethod
    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return the most that one unit can change `released_value`.

        Parameters
        ----------
        unit
            Who is protected.
        n
            Public number of rows, that of the candidate.
        synthetic
            The candidate. Without one, the largest sensitivity over all candidates of ``n`` rows.
        """

    @abstractmethod
    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Number:
        """Return how many records the real table is away from violating the criterion. Private.

        Positive slack implies that the criterion is met. ``inf`` (``-inf``) where no real table could
        violate (meet) it with this candidate, which is a public fact. Exact: what `slack_sensitivity` bounds is this number, not one near it.
        """

    # ------------------------------------------------------------------ shared

    @property
    def metric(self) -> str:
        """What is measured, in words, as in the second column of paper Births, Table 2."""
        return self.name

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Public range of the error, or of the values behind it, where there is one."""
        return None

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> Number:
        """Return the low-sensitivity variant of the error to which noise may be added, exactly. Private."""
        return self.value(real, synthetic)

    def slack_sensitivity(self, unit: Unit) -> float:
        """Return the most that one unit can change `slack`: one per row."""
        return float(unit.max_rows)

    def met(self, value: Number) -> bool:
        """Say whether an error (exact or noisy) is small enough."""
        return value < self.threshold

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each; empty if the criterion can be used."""
        return []

    def require(self, *tables: RecordTypes) -> None:
        """Refuse tables that differ in domain or do not fit the criterion, and an empty candidate (the last)."""
        domain = tables[0].domain
        if tables[-1].rows == 0:
            raise WorkloadError(f"Criterion {self.name!r} needs a candidate that has rows.")
        if any(table.domain != domain for table in tables):
            raise WorkloadError(f"Criterion {self.name!r} compares tables of the same domain.")
        problems = self.problems(domain)
        if problems:
            raise WorkloadError(f"Criterion {self.name!r} does not fit the table: {'; '.join(problems)}.")

    # ------------------------------------------------------------------ planning

    def noise_scale(
        self, epsilon: float, *, unit: Unit, n: int, synthetic: RecordTypes | None = None
    ) -> float:
        """Return the scale of the Laplace noise of the published form at a cost of ``epsilon``."""
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise BudgetError(f"epsilon ({epsilon}) of criterion {self.name!r} must be positive and finite.")
        return self.sensitivity(unit, n, synthetic) / epsilon

    def noise_deviation(
        self, epsilon: float, *, unit: Unit, n: int, synthetic: RecordTypes | None = None
    ) -> float:
        """Return the standard deviation of the noise of the published form."""
        return laplace_deviation(self.noise_scale(epsilon, unit=unit, n=n, synthetic=synthetic))

    def recommended_threshold(
        self,
        false_accept: float,
        *,
        epsilon: float,
        unit: Unit,
        n: int,
        synthetic: RecordTypes | None = None,
        wanted: float | None = None,
    ) -> float:
        """Return the threshold for the *noisy* error that lets a bad candidate through rarely enough.

        A candidate whose exact error is ``wanted`` or more (the threshold, by default) then passes with
        probability at most ``false_accept``: paper Births, Proposition 6.
        """
        scale = self.noise_scale(epsilon, unit=unit, n=n, synthetic=synthetic)
        return conservative_threshold(self.threshold if wanted is None else wanted, scale, false_accept)


def conservative_threshold(wanted: float, scale: float, false_accept: float) -> float:
    """Return ``T'`` with ``P(wanted + Laplace(scale) <= T') = false_accept`` (paper Births, Proposition 6).

    For ``false_accept`` up to one half, ``T' = wanted + scale ln(2 false_accept)``.

    Examples
    --------
    The paper's own numbers: clipped at 2, sensitivity .077, epsilon .3, five percent.

    >>> round(conservative_threshold(2.0, 0.077 / 0.3, 0.05), 2)
    1.41
    """
    if not 0 < false_accept <= 0.5:
        raise BudgetError(f"false_accept ({false_accept}) must lie above 0 and not above one half.")
    return wanted + scale * math.log(2 * false_accept)


def laplace_deviation(scale: float) -> float:
    """Return the standard deviation of Laplace noise."""
    return math.sqrt(2.0) * scale


def laplace_upper_tail(x: float, scale: float) -> float:
    """Return ``P(Laplace(scale) > x)``.

    Examples
    --------
    >>> laplace_upper_tail(0.0, 3.0)
    0.5
    """
    return 0.5 * math.exp(-x / scale) if x >= 0 else 1.0 - 0.5 * math.exp(x / scale)
