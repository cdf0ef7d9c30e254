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

A criterion is one file. It holds two classes: the configuration (:class:`CriterionConfig`), which is what a specification file says, and the
criterion over the codes of one transformation (:class:`Criterion`), which the configuration builds. Planning, judging, rehearsing and the
documents ask these two and know no kind of criterion by name (:mod:`understudy.release.criteria.registry`).

**No rounding.** The numbers that noise is added to are exact. Counts are whole; public numbers that they meet are rounded to a public grid first
(:class:`~understudy.curator.PublicNumbers`, :mod:`understudy.release.regressions.certificates`), and the sensitivity is that of the rounded
ones. So the bounds hold for values far from zero, for steps of any size, and for tables of any number of rows.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field

from understudy.curator import GRID_WIDENING, Curator, SealedScalar, to_float
from understudy.errors import BudgetError, UnderstudyError, WorkloadError
from understudy.privacy import Laplace, Unit
from understudy.release.criteria.groups import OpenBins
from understudy.release.look import seal_numbers
from understudy.release.record_types import RecordTypes
from understudy.release.spec.parts import Part, Positive
from understudy.schema import Constraint, Domain, Schema

if TYPE_CHECKING:
    import pandas as pd

    from understudy.release.regressions.fits import LinearFit, Regression
    from understudy.schema.entities import Entity

__all__ = [
    "Criterion",
    "CriterionConfig",
    "CriterionContext",
    "Number",
    "Outlook",
    "PlanFacts",
    "Released",
    "ShareOfRows",
    "Wording",
    "conservative_threshold",
    "laplace_deviation",
    "laplace_upper_tail",
]

Number = int | float | Fraction
"""An error or a slack: whole, a fraction, or a double."""

RARELY = 0.05
"""Plans name the errors that are accepted, or rejected, with a probability of one minus this."""
_WIDER = 1 + GRID_WIDENING
"""The curator rounds to a grid and charges for it; scales are widened by this much to stay within the share."""
_ONE = Fraction(1)
_LEAST = 2.0**-40
"""Taken for the sensitivity of an error that nobody can change, such as a share that is 1 for every possible record."""

# ----------------------------------------------------------------------------------------
# The configuration of a criterion, as a specification file has it.


@dataclass(frozen=True)
class Wording:
    """What a criterion is called in documents: the first two columns of paper Births, Table 2, and the unit of its error."""

    type: str
    metric: str
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class CriterionContext:
    """What a criterion is built for.

    Attributes
    ----------
    schema
        The schema of a transformation.
    cleaning
        The cleaning rules that every record of the table obeys; they narrow the records a regression must
        reckon with.
    open_bins
        What open bins count for in means, medians and regressions.
    """

    schema: Schema
    cleaning: tuple[Constraint, ...] = ()
    open_bins: OpenBins = "nearest"


class CriterionConfig(Part):
    """One acceptance criterion in a specification file; the base of every kind.

    A subclass narrows `kind` to its own word (``kind: Literal["my-error"]``), adds its keys as fields, and implements `build`.
    """

    family: ClassVar[str]
    """What kind of error it is, for people."""
    measured_in: ClassVar[str] = ""
    """Unit of the error, where it is the same for every schema."""
    reads_real: ClassVar[bool] = True
    """Whether the real table matters. If not, the criterion is public and costs nothing."""
    fits_regression: ClassVar[bool] = False
    """Whether its epsilon pays for the private regression of `regression_columns` and for nothing else."""

    kind: str
    name: str = Field(description="Public name, unique within the release.", min_length=1, max_length=80)
    description: str = Field("", description="What it means, for people.")
    epsilon: Positive | None = Field(
        None, description="Published form only: what releasing the error may cost."
    )
    threshold: Positive = Field(description="The error must be smaller than this.")
    table: str | None = Field(
        None,
        description="Of linked tables with several tables of events: the table of events that it is about.",
    )

    @abstractmethod
    def build(self, context: CriterionContext) -> Criterion:
        """Return the criterion over the codes of a schema, or raise an `UnderstudyError` that says in one sentence what does not fit."""

    @property
    def metric(self) -> str:
        """What is measured, for people, where the file has no description of its own."""
        return self.name

    def unit_in(self, schema: Schema) -> str:
        """Return the unit of the error."""
        return self.measured_in

    def wording(self, schema: Schema) -> Wording:
        """Return what the criterion is called in documents."""
        return Wording(self.family, self.description or self.metric, self.unit_in(schema))

    @classmethod
    def subject(cls, given: Mapping[str, Any], entity: Entity | None) -> str:
        """Say what a criterion as it was written looks at, for people who know the table; empty for kinds without words of their own."""
        return ""

    @classmethod
    def published_value(
        cls, given: Mapping[str, Any], *, schema: Schema, events: pd.DataFrame, key: str, entities: int
    ) -> str:
        """Return the number that a criterion of a release of entities is about as the published events have it; empty where it is about many.

        ``key`` is the column of ``events`` that says whose they are, ``entities`` the number of entities, with those that have no event.
        """
        return ""

    @property
    def regression_columns(self) -> tuple[str, ...]:
        """Target and features of the private regression that the published form compares with; none for most criteria."""
        return ()

    def problems(self, context: CriterionContext) -> list[str]:
        """Return what is wrong with the criterion for a schema, one sentence each."""
        try:
            criterion = self.build(context)
        except UnderstudyError as error:
            return [str(error).replace("\n", " ")]
        found = criterion.problems(context.schema.domain)
        if criterion.reads_real and criterion.threshold > criterion.largest_error:
            found.append(
                f"the threshold {criterion.threshold:g} lies outside the range of the error, which is at most "
                f"{criterion.largest_error:g}: it could never be violated"
            )
        return found

    def problems_beside(self, others: Sequence[CriterionConfig], *, published: bool) -> list[str]:
        """Return what is wrong with the criterion among all criteria of a specification, one sentence each."""
        return []

    def warnings_beside(self, others: Sequence[CriterionConfig], *, published: bool) -> list[str]:
        """Return what a plan should warn of, given all criteria of a specification."""
        return []


# ----------------------------------------------------------------------------------------
# The criterion itself.


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """What is known about a release before any data.

    Attributes
    ----------
    unit, steps
        Who is protected, and the units whose sensitivities together cover every step between neighbours.
    n
        Public number of rows, if there is one.
    smallest
        Rows that the rarest value is assumed to have where there is no example.
    example
        Records of a public table that stands in for candidates.
    regression_epsilon
        What the private regression that the criterion compares with costs, if it has one.
    """

    unit: Unit
    steps: tuple[Unit, ...]
    n: int | None = None
    smallest: int = 1
    example: RecordTypes | None = None
    regression_epsilon: float | None = None


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The noise of a criterion against its threshold; fields are None where they depend on the table.

    Attributes
    ----------
    noise_deviation
        Standard deviation of the noise: in the unit of the error (published), or in records (pass-only).
    room
        Pass-only: how many records a perfect candidate is away from violating the criterion, where that follows
        from public facts. None where it depends on the table.
    accepted_below, rejected_above
        Exact errors below the one are accepted, above the other rejected, with probability 95 % or more, as far as
        this criterion decides. None where they depend on the table.
    false_reject, false_accept
        Probability that a candidate half-way below the threshold is rejected, and that one half-way above it (one
        and a half times the threshold) is accepted, by this criterion alone.
    needs
        What the table must have so that a perfect candidate is accepted with probability 95 %.
    noise_dominated
        Whether noise alone decides about good candidates.
    """

    sensitivity: float | None = None
    noise_deviation: float | None = None
    room: float | None = None
    accepted_below: float | None = None
    rejected_above: float | None = None
    false_reject: float | None = None
    false_accept: float | None = None
    recommended_threshold: float | None = None
    needs: str = ""
    noise_dominated: bool = False


@dataclass(frozen=True, kw_only=True)
class Released:
    """A published error: its noisy value, the sensitivity it was charged for, and the deviation of its noise where it has one."""

    value: float
    sensitivity: float
    deviation: float | None = None


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

    mechanism: ClassVar[str] = "laplace"
    """How the published form is released: ``laplace``, ``exponential``, ``functional`` (by a private regression) or ``none``."""
    known_mechanism: ClassVar[str] = "none"
    """How an error came by its noise if it is known before the table is looked at; see `known_error`."""
    reads_real: ClassVar[bool] = True
    """Whether the real table matters. If not, the criterion is public and costs nothing."""
    least_error: ClassVar[float] = 0.0
    """The error of a perfect candidate."""

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
    def largest_error(self) -> float:
        """The largest value the error can have, or infinity. A threshold above it could never be violated."""
        return math.inf

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

    # ------------------------------------------------------------------ the published form

    @property
    def private_regression(self) -> Regression | None:
        """The regression that the published form compares with, if it does."""
        return None

    def with_baseline(self, baseline: LinearFit | None) -> Self:
        """Return the criterion with the private fit of its `private_regression`, if one was made; as it is if it has none."""
        return self

    def known_error(self, synthetic: RecordTypes) -> float | None:
        """Return the published error where it is a function of the candidate and of what was released before; None where it must be measured."""
        return None if self.reads_real else self.value(synthetic, synthetic)

    def can_be_released(self, synthetic: RecordTypes) -> bool:
        """Say whether the candidate has an error at all. Public."""
        return True

    def published_numbers(self, real: RecordTypes, synthetic: RecordTypes) -> Sequence[Number]:
        """Return the numbers behind the published form that noise is added to or that a choice is made by, exactly. Private."""
        return [self.released_value(real, synthetic)]

    def published_sensitivities(self, unit: Unit, synthetic: RecordTypes) -> Sequence[float]:
        """Return the most that one unit can change each of the `published_numbers`."""
        return [self.sensitivity(unit, synthetic.rows, synthetic)]

    def release(
        self, curator: Curator, synthetic: RecordTypes, *, epsilon: float, sensitivity: float
    ) -> Released:
        """Release the error of a candidate with noise, charged before it is drawn.

        Privacy
        -------
        In: private. Out: releasable, for ``epsilon``. The one of the `published_numbers` is sealed with the given sensitivity, which is the largest
        over all steps between neighbours, and gets Laplace noise of scale ``sensitivity / epsilon``.
        """
        sensitivity = max(sensitivity, _LEAST)
        # shares of the rows are tiny: measure them in units in which one record counts for about one
        unit = Fraction(2) ** math.frexp(sensitivity)[1]
        reach = float(Fraction(sensitivity) / unit)
        (sealed,) = self.sealed(curator, synthetic, sensitivities=[reach], unit=unit)
        noise = Laplace(reach * _WIDER / epsilon)
        scale = to_float(Fraction(noise.scale) * unit)
        measured = curator.measure_scalar(sealed, noise=noise, purpose=self._purpose)
        return Released(
            value=to_float(Fraction(measured) * unit),
            sensitivity=sensitivity,
            deviation=min(laplace_deviation(scale), sys.float_info.max),
        )

    def sealed(
        self,
        curator: Curator,
        synthetic: RecordTypes,
        *,
        sensitivities: Sequence[float],
        unit: Fraction = _ONE,
    ) -> list[SealedScalar]:
        """Seal the `published_numbers` of the real table, in some unit: what :func:`~understudy.release.largest_moves` tries, and nothing else.

        What does not fit is refused before the table is read.

        Privacy
        -------
        In: private. Out: under seal (:func:`~understudy.release.look.seal_numbers`). Each sensitivity is the most that one unit can change
        the number, in that unit; the proof is the criterion's. It is at least the one of `published_sensitivities`, which neighbours were tried with.
        """
        self.require(synthetic)
        claims = self.published_sensitivities(curator.unit, synthetic)
        if len(claims) != len(sensitivities) or any(
            Fraction(reach) * unit < Fraction(claim)
            for reach, claim in zip(sensitivities, claims, strict=True)
        ):
            raise BudgetError(
                f"What criterion {self.name!r} would be charged for is less than the published_sensitivities that it claims. Nothing was charged."
            )
        return seal_numbers(
            curator,
            lambda table: [
                _in_units(number, unit)
                for number in self.published_numbers(RecordTypes.from_table(table), synthetic)
            ],
            sensitivities=sensitivities,
        )

    @property
    def _purpose(self) -> str:
        return f"release the error of {self.name}"

    def chance(
        self, real: RecordTypes, synthetic: RecordTypes, *, epsilon: float, sensitivity: float
    ) -> float:
        """Return the probability that the error is met after its noise. For rehearsals on public tables."""
        value = self.released_value(real, synthetic)
        if sensitivity <= 0:
            return float(self.met(value))
        return laplace_upper_tail(value - self.threshold, sensitivity / epsilon)

    # ------------------------------------------------------------------ planning

    def room(self, n: int) -> float | None:
        """Return how many records a perfect candidate is away from violating the criterion, where that follows from ``n``."""
        return None

    def needs(self, slack: float, n: int | None) -> str:
        """Say what the table must have so that a perfect candidate has this slack."""
        return "depends on the table; rehearse"

    def planned_sensitivity(self, facts: PlanFacts) -> float | None:
        """Return the sensitivity that a candidate like the example would have, or any of ``n`` rows; None if neither is known."""
        rows = facts.n or (None if facts.example is None else facts.example.rows)
        if rows is None:
            return None
        return max(self.sensitivity(unit, rows, facts.example) for unit in facts.steps)

    def outlook(self, facts: PlanFacts, epsilon: float) -> Outlook:
        """Plan the published form: its noise against its threshold."""
        sensitivity = self.planned_sensitivity(facts)
        if sensitivity is None:
            return Outlook()
        scale = sensitivity / epsilon
        half = (self.threshold - self.least_error) / 2
        wrong = 0.5 * math.exp(-half / scale) if scale > 0 else 0.0
        spread = -scale * math.log(2 * RARELY)
        return Outlook(
            sensitivity=sensitivity,
            noise_deviation=laplace_deviation(scale),
            accepted_below=max(self.least_error, self.threshold - spread),
            rejected_above=self.threshold + spread,
            false_reject=wrong,
            false_accept=wrong,
            recommended_threshold=conservative_threshold(self.threshold, scale, RARELY),
            noise_dominated=self.threshold - spread <= self.least_error,
        )

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


@dataclass(frozen=True, kw_only=True)
class ShareOfRows(Criterion):
    """Criteria whose error is a number of records over the rows, from 0 to 1, and whose slack is ``n T`` minus that number."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Shares of the rows."""
        return 0.0, 1.0

    @property
    def largest_error(self) -> float:
        """All rows."""
        return 1.0

    def room(self, n: int) -> float | None:
        """Return the threshold in records."""
        return n * self.threshold

    def needs(self, slack: float, n: int | None) -> str:
        """Say how many rows the table must have."""
        return "" if n is None else f"{math.ceil(slack / self.threshold):,} rows"


def _in_units(value: Number, unit: Fraction) -> Number:
    """Return an error in other units, exactly where it is finite."""
    return Fraction(value) / unit if math.isfinite(value) else value


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
