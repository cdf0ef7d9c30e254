"""Error of the coefficients of a linear regression (paper Births, section 4.5.4, descriptive modelling)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from understudy.errors import BudgetError
from understudy.release.criteria.base import (
    Criterion,
    CriterionConfig,
    CriterionContext,
    Number,
    Outlook,
    PlanFacts,
)
from understudy.release.criteria.groups import code_values, numeric_of, possible_codes
from understudy.release.record_types import RecordTypes
from understudy.release.regressions.certificates import Certificate, as_slack
from understudy.release.regressions.fits import Feature, LinearFit, Regression
from understudy.release.regressions.moments import RegressionMoments
from understudy.schema import Domain, Schema

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["CoefficientsConfig", "RegressionCoefficients", "RegressionConfig"]

_MOST_CELLS = 200_000
"""Combinations of values that an evenly spread table may have."""


class RegressionConfig(CriterionConfig):
    """Configuration of criteria about a linear regression."""

    family: ClassVar[str] = "Linear regression"

    target: str = Field(description="The column that is explained.")
    features: list[str] = Field(description="The columns that explain it.", min_length=1)

    @property
    def regression_columns(self) -> tuple[str, ...]:
        """The target, then the features."""
        return (self.target, *self.features)

    def unit_in(self, schema: Schema) -> str:
        """Return the unit of the target."""
        return schema.column(self.target).unit if self.target in schema.names else ""

    def regression(self, context: CriterionContext) -> Regression:
        """Return the regression over the codes of a schema, and the records that the cleaning leaves possible."""

        def feature(name: str) -> Feature:
            column = numeric_of(context.schema, name)
            return Feature(column.name, code_values(column, context.open_bins))

        target, features = feature(self.target), tuple(feature(name) for name in self.features)
        columns = [item.column for item in (*features, target)]
        return Regression(target, features, support=possible_codes(columns, context.schema, context.cleaning))


class CoefficientsConfig(RegressionConfig):
    """L1 distance of the standardised coefficients of a linear regression."""

    fits_regression: ClassVar[bool] = True

    kind: Literal["regression-coefficients"]

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return f"coefficients for {self.target} (L1)"

    def build(self, context: CriterionContext) -> RegressionCoefficients:
        """Return the criterion."""
        return RegressionCoefficients(
            name=self.name, threshold=self.threshold, regression=self.regression(context)
        )


@dataclass(frozen=True, kw_only=True)
class RegressionCoefficients(Criterion):
    """The L1 distance of the coefficients of a linear regression, real against synthetic.

    Features are standardised by the mean and deviation of the *candidate*, so that no budget is spent on
    scaling and coefficients are comparable; the intercept counts like any other coefficient.

    Parameters
    ----------
    threshold
        Largest L1 distance, in the unit of the target (the paper: 30 grams).
    regression
        Target, features and possible records.
    baseline
        Published form only: a differentially private fit on the real table (`RegressionMoments`). It does not depend on the candidate, so
        attempts may share one, and fit it before the selection, which would multiply its cost, or each may fit its own:
        :mod:`understudy.release.run.judgement`. The distance to it is then public and costs nothing more.

    Notes
    -----
    If the candidate's or the real design is singular (a constant feature, say) the error is infinite.

    Privacy
    -------
    *Slack.* A certificate instead of a private regression: see
    :class:`~understudy.release.regressions.certificates.Certificate` for the proof that positive slack implies an error
    below the threshold and that the step sensitivity is 1. It is a sufficient condition; a candidate may be
    good without being certified. It needs no baseline.

    *Published form.* Given a released baseline the error is a function of two public tables of numbers:
    sensitivity 0. At 160,000 births and epsilon .43 the noise of the paper's private regression alone has an L1
    size of 14 to 50 against a threshold of 30, so look at `RegressionMoments.noise_quantiles` first.

    Examples
    --------
    >>> from understudy.release.regressions.fits import Feature
    >>> domain = Domain(("x", "y"), (3, 3))
    >>> line = Regression(Feature("y", (0.0, 1.0, 2.0)), (Feature("x", (0.0, 1.0, 2.0)),))
    >>> criterion = RegressionCoefficients(name="line", threshold=0.5, regression=line)
    >>> real = RecordTypes(domain, [[0, 0], [1, 1], [2, 2]], [100, 100, 100])
    >>> synthetic = RecordTypes(domain, [[0, 0], [1, 1], [2, 1], [2, 2]], [100, 100, 10, 90])
    >>> round(criterion.value(real, synthetic), 4), round(float(criterion.slack(real, synthetic)), 1)
    (0.0742, 26.0)
    """

    mechanism: ClassVar[str] = "functional"
    known_mechanism: ClassVar[str] = "functional"

    regression: Regression
    baseline: LinearFit | None = None

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        return self.regression.problems(domain)

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the L1 distance of the least-squares coefficients. Private."""
        self.require(real, synthetic)
        scaling = self.regression.scaling(synthetic)
        if scaling is None:
            return math.inf
        fits = [self.regression.fit(table, scaling) for table in (self.regression.possible(real), synthetic)]
        if fits[0] is None or fits[1] is None:
            return math.inf
        return float(np.abs(fits[0][0] - fits[1][0]).sum())

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the L1 distance of the candidate's coefficients from the released baseline. Public."""
        if self.baseline is None:
            raise BudgetError(
                f"The published form of {self.name!r} needs a baseline: fit a private regression on the real "
                "table once (RegressionMoments), and give its result as the baseline."
            )
        self.require(synthetic)
        scaling = self.regression.scaling(synthetic)
        fit = None if scaling is None else self.regression.fit(synthetic, scaling)
        if scaling is None or fit is None:
            return math.inf
        return float(np.abs(self.baseline.in_units(scaling) - fit[0]).sum())

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return zero: with a released baseline the published error is public."""
        if self.baseline is None:
            raise BudgetError(
                f"The published form of {self.name!r} has no sensitivity of its own: its cost is that of the "
                "baseline (RegressionMoments)."
            )
        return 0.0

    @property
    def private_regression(self) -> Regression | None:
        """The regression that is fitted to the real table, once."""
        return self.regression

    def with_baseline(self, baseline: LinearFit | None) -> Self:
        """Return the criterion with a private fit to compare with."""
        return replace(self, baseline=baseline)

    def known_error(self, synthetic: RecordTypes) -> float | None:
        """Return the distance from the baseline; None as long as there is none."""
        return None if self.baseline is None else float(self.released_value(synthetic, synthetic))

    def published_numbers(self, real: RecordTypes, synthetic: RecordTypes) -> list[Number]:
        """Return the moments that the private regression is fitted to. Private."""
        return [*RegressionMoments(self.regression).exact(real)]

    def published_sensitivities(self, unit: Unit, synthetic: RecordTypes) -> list[float]:
        """Return the most that one unit can change each moment."""
        return [float(bound) for bound in RegressionMoments(self.regression).sensitivities(unit)]

    def outlook(self, facts: PlanFacts, epsilon: float) -> Outlook:
        """Plan a private regression: the error its noise alone causes on the example, or on evenly spread records."""
        if facts.n is None and facts.example is None:
            return Outlook()
        public = facts.example if facts.example is not None else self._even_records(facts.n or 0)
        if public is None:
            return Outlook(needs="too many combinations to plan; rehearse")
        low, middle, high = RegressionMoments(self.regression).noise_quantiles(
            public, epsilon=epsilon, unit=facts.unit, draws=100
        )
        where = (
            "evenly spread records, which vary more than real ones"
            if facts.example is None
            else "the example"
        )
        return Outlook(
            noise_deviation=float(middle),
            needs=f"noise alone: L1 error {low:.3g} / {middle:.3g} / {high:.3g} (10, 50, 90 %) on {where}",
            noise_dominated=bool(high > self.threshold / 2),
        )

    def _even_records(self, n: int) -> RecordTypes | None:
        """Return a table with every combination of the regression's values equally often."""
        parts = (*self.regression.features, self.regression.target)
        sizes = tuple(len(part.values) for part in parts)
        cells = math.prod(sizes)
        if cells > _MOST_CELLS:
            return None
        codes = np.stack([axis.ravel() for axis in np.indices(sizes)], axis=1)
        return RecordTypes(
            Domain(tuple(part.column for part in parts), sizes),
            codes,
            np.full(cells, max(1, round(n / cells)), dtype=np.int64),
        )

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction | float:
        """Return how many records the certificate is away from failing. Private."""
        self.require(real, synthetic)
        scaling = self.regression.scaling(synthetic)
        fit = None if scaling is None else self.regression.fit(synthetic, scaling)
        if scaling is None or fit is None:
            return -math.inf
        possible = self.regression.possible(real)
        certificate = Certificate.build(self.regression, possible, scaling, fit, synthetic.rows)
        return as_slack(certificate.slack(self.threshold))
