"""Error of the coefficients of a linear regression (paper Births, section 4.5.4, descriptive modelling)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from understudy.errors import BudgetError
from understudy.release.criteria.base import Criterion
from understudy.release.criteria.fits import LinearFit, Regression
from understudy.release.criteria.linear import Certificate, as_slack
from understudy.release.record_types import RecordTypes
from understudy.schema import Domain

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["RegressionCoefficients"]


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
        Published form only: a differentially private fit on the real table, made *once per distinct
        transformation* outside the selection loop (`RegressionMoments`), so that selection does not
        multiply its cost. The distance to it is then public and costs nothing more.

    Notes
    -----
    If the candidate's or the real design is singular (a constant feature, say) the error is infinite.

    Privacy
    -------
    *Slack.* A certificate instead of a private regression: see
    :class:`~understudy.release.criteria.linear.Certificate` for the proof that positive slack implies an error
    below the threshold and that the step sensitivity is 1. It is a sufficient condition; a candidate may be
    good without being certified. It needs no baseline.

    *Published form.* Given a released baseline the error is a function of two public tables of numbers:
    sensitivity 0. At 160,000 births and epsilon .43 the noise of the paper's private regression alone has an L1
    size of 14 to 50 against a threshold of 30, so look at `RegressionMoments.noise_quantiles` first.

    Examples
    --------
    >>> from understudy.release.criteria.fits import Feature
    >>> domain = Domain(("x", "y"), (3, 3))
    >>> line = Regression(Feature("y", (0.0, 1.0, 2.0)), (Feature("x", (0.0, 1.0, 2.0)),))
    >>> criterion = RegressionCoefficients(name="line", threshold=0.5, regression=line)
    >>> real = RecordTypes(domain, [[0, 0], [1, 1], [2, 2]], [100, 100, 100])
    >>> synthetic = RecordTypes(domain, [[0, 0], [1, 1], [2, 1], [2, 2]], [100, 100, 10, 90])
    >>> round(criterion.value(real, synthetic), 4), round(float(criterion.slack(real, synthetic)), 1)
    (0.0742, 18.5)
    """

    kind: ClassVar[str] = "regression-coefficients"
    family: ClassVar[str] = "Linear regression"
    mechanism: ClassVar[str] = "moments"

    regression: Regression
    baseline: LinearFit | None = None

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        return self.regression.problems(domain)

    @property
    def metric(self) -> str:
        """What is measured, in words."""
        return "L1 error of coefficients"

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
