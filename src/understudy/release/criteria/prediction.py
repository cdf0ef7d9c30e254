"""Error of predictions: train on synthetic, test on real (paper Births, section 4.5.4, predictive modelling)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from understudy.curator import to_float
from understudy.errors import BudgetError
from understudy.privacy.exact_floats import float_up
from understudy.release.criteria.base import Criterion, CriterionConfig, CriterionContext, Number, PlanFacts
from understudy.release.criteria.regression import RegressionConfig
from understudy.release.record_types import RecordTypes
from understudy.release.regressions.certificates import (
    Certificate,
    Conditions,
    applied,
    as_slack,
    smallest,
    whole_sums,
)
from understudy.release.regressions.fits import LinearFit, Regression, Scaling
from understudy.release.regressions.moments import RegressionMoments
from understudy.schema import Domain

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["PredictionConfig", "PredictionError"]

Floats = npt.NDArray[np.float64]

RADII = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
"""Multiples of the threshold tried as the L1 distance of coefficients; any public list is valid."""
_REGRESSIONS = 25
"""Private regressions that the sensitivity is planned from."""


class PredictionConfig(RegressionConfig):
    """Difference in mean absolute error on the real table between a real and a synthetic regression."""

    kind: Literal["prediction-error"]
    target: str = Field(description="The column that is predicted.")
    features: list[str] = Field(description="The columns that predict it.", min_length=1)

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return f"prediction of {self.target} (MAE)"

    def build(self, context: CriterionContext) -> PredictionError:
        """Return the criterion."""
        return PredictionError(name=self.name, threshold=self.threshold, regression=self.regression(context))

    def problems_beside(self, others: Sequence[CriterionConfig], *, published: bool) -> list[str]:
        """Ask for the criterion that pays for the private regression."""
        paid = any(
            other.fits_regression and other.regression_columns == self.regression_columns for other in others
        )
        if not published or paid:
            return []
        return [
            "the published form compares with a private regression: add a regression-coefficients "
            "criterion with the same target and features"
        ]


@dataclass(frozen=True, kw_only=True)
class PredictionError(Criterion):
    """The difference in mean absolute error on the real table between a real and a synthetic fit.

    ``|MAE_R(w_R) - MAE_R(w_S)|`` where predictions are clipped to the range ``[L, U]`` of the target and sums over
    real records are divided by the public ``n``.

    Parameters
    ----------
    threshold
        Largest difference, in the unit of the target (the paper: 5 grams).
    regression
        Target, features and possible records.
    baseline
        A released fit that plays the part of ``w_R``. Needed by the published form. Without one, ``w_R`` is the
        least-squares fit on the real table, which only the pass-only form can handle.

    Privacy
    -------
    *With a baseline* both fits are public and the error is ``|sum c| / n`` with
    ``c = |y - [w_R.x]| - |y - [w_S.x]|`` for each record. Since ``c`` lies between ``-(U - L)`` and ``U - L``, replacing
    a record changes the sum by at most ``2 (U - L)`` (paper Proposition 9; half of that was used by mistake in
    the 2014 release), adding or removing one by at most ``U - L``. The range of ``c`` over the possible
    records is known exactly and much smaller when the fits are close; it is what `sensitivity` returns, times
    ``k/n``. For fixed features ``c`` is monotone in ``y``, so its extremes are at the ends of the target. The
    slack is that of the two linear conditions ``sum c < n T`` and ``- sum c < n T``.

    *Without a baseline* the slack is that of a certificate. Let ``W`` be all coefficients within an L1 distance
    ``r`` of ``w_S``, in candidate units. Call features ``x`` inner if ``w.x`` stays within ``[L, U]`` for all of ``W``,
    which holds when ``w_S.x`` is at least ``r |x|_max`` away from both ends. Over inner records
    ``F(w) = sum |y - w.x|`` is convex, so for ``w`` in ``W`` it is at most its maximum over the corners
    ``w_S + r e_j`` and ``w_S - r e_j``; and ``F(w_S) - F(w) <= F(2 w_S - w) - F(w_S)`` by convexity, where ``2 w_S - w`` is
    in ``W`` too. So ``|F(w) - F(w_S)|`` is at most the largest ``F(corner) - F(w_S)``. Other records move by at most
    ``r |x|_max`` (and by ``U - L``), since clipping never widens a difference. Hence if ``w_R`` is in ``W`` and, for
    every corner, the sum over records of [inner: ``|y - corner.x| - |y - w_S.x|``; other:
    ``min(r |x|_max, U - L)``] is below ``n T``, the error is below ``T``. The first condition is certified as for
    `RegressionCoefficients`, the others are linear; the smallest slack of all has step sensitivity 1, and so has
    the largest over a public list of radii ``r``.

    Examples
    --------
    >>> from understudy.release.regressions.fits import Feature
    >>> domain = Domain(("x", "y"), (3, 3))
    >>> line = Regression(Feature("y", (0.0, 1.0, 2.0)), (Feature("x", (0.0, 1.0, 2.0)),))
    >>> real = RecordTypes(domain, [[0, 0], [1, 1], [2, 2]], [100, 100, 100])
    >>> synthetic = RecordTypes(domain, [[0, 0], [1, 1], [2, 1], [2, 2]], [100, 100, 10, 90])
    >>> criterion = PredictionError(name="mae", threshold=0.2, regression=line)
    >>> round(criterion.value(real, synthetic), 4)
    0.0444
    >>> from understudy.privacy import Unit
    >>> published = PredictionError(name="mae", threshold=0.2, regression=line, baseline=LinearFit(0.0, (1.0,)))
    >>> round(published.sensitivity(Unit.replace_one(), 300, synthetic) * 300, 4)
    0.1667
    """

    regression: Regression
    baseline: LinearFit | None = None

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        return self.regression.problems(domain)

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value of the target, to which predictions are clipped."""
        return self.regression.target.bounds

    @property
    def largest_error(self) -> float:
        """The range of the target."""
        low, high = self.bounds
        return high - low

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the difference of the mean absolute errors. Private."""
        self.require(real, synthetic)
        fitted = self._fitted(synthetic)
        if fitted is None:
            return math.inf
        scaling, (candidate, _) = fitted
        real = self.regression.possible(real)
        if self.baseline is not None:
            return to_float(self._difference(real, synthetic, scaling, candidate))
        fit = self.regression.fit(real, scaling)
        if fit is None:
            return math.inf
        reference = fit[0]
        x, y, counts = self.regression.rows(real)
        return (
            abs(float((counts * self._loss(scaling.design(x), y, reference, candidate)).sum()))
            / synthetic.rows
        )

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction | float:
        """Return the difference of the mean absolute errors from the baseline, exactly. Private."""
        self._require_baseline()
        self.require(real, synthetic)
        fitted = self._fitted(synthetic)
        if fitted is None:
            return math.inf
        scaling, (candidate, _) = fitted
        return self._difference(self.regression.possible(real), synthetic, scaling, candidate)

    def can_be_released(self, synthetic: RecordTypes) -> bool:
        """Say whether the candidate has a regression at all. Public."""
        return self._fitted(synthetic) is not None

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return the range of one record's contribution over the rows, times the rows per unit."""
        self._require_baseline()
        bottom, top = Fraction(self.bounds[0]), Fraction(self.bounds[1])
        low, high = bottom - top, top - bottom
        if synthetic is not None:
            self.require(synthetic)
            fitted = self._fitted(synthetic)
            if fitted is None:
                raise BudgetError(
                    f"{self.name!r}: the candidate's regression is singular; it cannot be released."
                )
            steps = self._loss_steps(*fitted)
            low, high = steps.low, steps.high
        if unit.relation == "add-remove":
            per_row = max(abs(low), abs(high))
        else:
            # zero is included where a replaced record may be one that does not count
            open_ended = unit.max_rows > 1 or self.regression.has_gaps or self.regression.support is not None
            zero = Fraction(0)
            per_row = max(zero, high) - min(zero, low) if open_ended else high - low
        return float_up(unit.max_rows * per_row / n)

    @property
    def private_regression(self) -> Regression | None:
        """The regression whose private fit plays the part of the real one."""
        return self.regression

    def with_baseline(self, baseline: LinearFit | None) -> Self:
        """Return the criterion with a private fit to compare with."""
        return replace(self, baseline=baseline)

    def known_error(self, synthetic: RecordTypes) -> float | None:
        """Return infinity for a candidate that has no regression, which is a public fact; None for others."""
        return None if self.baseline is None or self.can_be_released(synthetic) else math.inf

    def published_numbers(self, real: RecordTypes, synthetic: RecordTypes) -> list[Number]:
        """Return the difference from the baseline; nothing as long as there is none. Private."""
        return [] if self.baseline is None else [self.released_value(real, synthetic)]

    def published_sensitivities(self, unit: Unit, synthetic: RecordTypes) -> list[float]:
        """Return the sensitivity of the difference."""
        return [] if self.baseline is None else [self.sensitivity(unit, synthetic.rows, synthetic)]

    def planned_sensitivity(self, facts: PlanFacts) -> float | None:
        """Return the middle sensitivity over private regressions of the example, whose noise is most of what it depends on.

        Without an example that of paper Births, Proposition 9; the exact one is smaller.
        """
        n, example = facts.n, facts.example
        if n is None:
            return None
        low, high = self.bounds
        most = 2 * facts.unit.max_rows * (high - low) / n
        if example is None:
            return most
        moments = RegressionMoments(self.regression)
        exact = np.array([float(moment) for moment in moments.exact(example)])
        generator = np.random.default_rng(0)
        scales = np.zeros_like(exact)
        if facts.regression_epsilon is not None:
            scales = moments.noise_scales(facts.regression_epsilon, facts.unit)
        found = []
        for _ in range(_REGRESSIONS):
            baseline = moments.fit(exact + generator.laplace(0.0, scales), n=example.rows)
            fitted = self.with_baseline(baseline)
            found.append(max(fitted.sensitivity(unit, n, example) for unit in facts.steps))
        return min(most, float(np.median(found)))

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction | float:
        """Return how many records may change before the predictions are too wrong. Private."""
        self.require(real, synthetic)
        fitted = self._fitted(synthetic)
        if fitted is None:
            return -math.inf
        scaling, fit = fitted
        real, n = self.regression.possible(real), synthetic.rows
        if self.baseline is not None:
            x, y, counts = self.regression.rows(real)
            losses = self._loss(scaling.design(x), y, self.baseline.in_units(scaling), fit[0])
            low, high = self._loss_range(scaling, fit)
            conditions = Conditions.between([low, -high], [high, -low])
            totals = whole_sums(counts, conditions.steps(np.stack([losses, -losses], axis=1)))
            return as_slack(smallest(conditions.slacks(n * self.threshold, totals)))
        certificate = Certificate.build(self.regression, real, scaling, fit, n)
        corners = self._corners(real, scaling, fit[0])
        best = certificate.slack(self.threshold * RADII[0])
        best = min(best, corners.slack(self.threshold * RADII[0], n * self.threshold))
        for radius in (self.threshold * multiple for multiple in RADII[1:]):
            inside = certificate.slack(radius)
            if inside > best:
                best = max(best, min(inside, corners.slack(radius, n * self.threshold)))
        return as_slack(best)

    # ------------------------------------------------------------------ pieces

    def _require_baseline(self) -> None:
        if self.baseline is None:
            raise BudgetError(
                f"The published form of {self.name!r} needs a baseline: fit a private regression on the real "
                "table once (RegressionMoments), and give its result as the baseline."
            )

    def _fitted(self, synthetic: RecordTypes) -> tuple[Scaling, tuple[Floats, Floats]] | None:
        scaling = self.regression.scaling(synthetic)
        fit = None if scaling is None else self.regression.fit(synthetic, scaling)
        return None if scaling is None or fit is None else (scaling, fit)

    def _loss(self, design: Floats, y: Floats, reference: Floats, candidate: Floats) -> Floats:
        """Return how much larger the absolute error of the reference is than that of the candidate."""
        low, high = self.bounds
        errors = [np.abs(y - np.clip(applied(design, fit), low, high)) for fit in (reference, candidate)]
        return errors[0] - errors[1]

    def _difference(
        self, real: RecordTypes, synthetic: RecordTypes, scaling: Scaling, candidate: Floats
    ) -> Fraction:
        """Return the difference of the mean absolute errors from the baseline, of records that are possible. Private."""
        assert self.baseline is not None
        steps = self._loss_steps(scaling, (candidate, candidate))
        x, y, counts = self.regression.rows(real)
        losses = self._loss(scaling.design(x), y, self.baseline.in_units(scaling), candidate)
        return abs(steps.total(losses, counts)) / synthetic.rows

    def _loss_steps(self, scaling: Scaling, fit: tuple[Floats, Floats]) -> _LossSteps:
        return _LossSteps.between(*self._loss_range(scaling, fit))

    def _loss_range(self, scaling: Scaling, fit: tuple[Floats, Floats]) -> tuple[float, float]:
        points = self.regression.points
        low, high = self.bounds
        assert self.baseline is not None
        reference = self.baseline.in_units(scaling)
        if points.x is None:
            return low - high, high - low
        design = scaling.design(points.x)
        ends = [self._loss(design, end, reference, fit[0]) for end in (points.low, points.high)]
        return float(np.minimum(*ends).min()), float(np.maximum(*ends).max())

    def _corners(self, real: RecordTypes, scaling: Scaling, candidate: Floats) -> _Corners:
        x, y, counts = self.regression.rows(real)
        points = self.regression.points
        possible = None
        if points.x is not None:
            design = scaling.design(points.x)
            possible = _Residuals.of(np.concatenate([design] * 2), [points.low, points.high], candidate)
        return _Corners(_Residuals.of(scaling.design(x), [y], candidate), counts, possible, self.bounds)


@dataclass(frozen=True)
class _LossSteps:
    """Contributions between public ends as whole steps above the lower one, ``2**30`` steps or fewer."""

    low: Fraction
    step: Fraction
    most: int

    @classmethod
    def between(cls, low: float, high: float) -> _LossSteps:
        width = Fraction(high) - Fraction(low)
        step = Fraction(2) ** (math.frexp(to_float(width))[1] - 30) if width else Fraction(1)
        return cls(Fraction(low), step, round(width / step))

    @property
    def high(self) -> Fraction:
        """The upper end on the grid."""
        return self.low + self.most * self.step

    def total(self, losses: Floats, counts: npt.NDArray[np.int64]) -> Fraction:
        """Return the sum over records of what each contributes. As private as the counts."""
        with np.errstate(over="ignore", invalid="ignore"):
            above = np.rint((losses - to_float(self.low)) / to_float(self.step))
        steps = np.clip(np.nan_to_num(above), 0, self.most).astype(np.int64)
        return self.low * int(counts.sum()) + self.step * int(whole_sums(counts, steps))


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Records seen from the candidate's fit: design, prediction, target minus prediction, largest entry."""

    design: Floats
    predicted: Floats
    residual: Floats
    largest: Floats

    @classmethod
    def of(cls, design: Floats, targets: list[Floats], candidate: Floats) -> _Residuals:
        predicted = applied(design, candidate)
        return cls(design, predicted, np.concatenate(targets) - predicted, np.abs(design).max(axis=1))


@dataclass(frozen=True, eq=False)
class _Corners:
    """Sums over records that bound the error of all coefficients within a radius of the candidate's."""

    real: _Residuals
    counts: npt.NDArray[np.int64]
    possible: _Residuals | None
    bounds: tuple[float, float]

    def slack(self, radius: float, limit: float) -> int:
        """Return how many steps of a record the sums of all corners are away from the limit."""
        if self.possible is None:
            width = self.bounds[1] - self.bounds[0]
            ends = [(-width, width)] * 2
        else:
            ends = [(term.min(axis=0), term.max(axis=0)) for term in self._terms(self.possible, radius)]
        found = []
        for (low, high), term in zip(ends, self._terms(self.real, radius), strict=True):
            conditions = Conditions.between(low, high)
            found.append(conditions.slacks(limit, whole_sums(self.counts, conditions.steps(term))))
        return smallest(*found)

    def _terms(self, records: _Residuals, radius: float) -> list[Floats]:
        """Return the contribution of every record to each corner, for the two directions."""
        low, high = self.bounds
        reach = radius * records.largest
        inner = (records.predicted - reach >= low) & (records.predicted + reach <= high)
        other = np.minimum(reach, high - low)[:, None]
        before, step = np.abs(records.residual)[:, None], radius * records.design
        residual = records.residual[:, None]
        return [
            np.where(inner[:, None], np.abs(residual - step) - before, other),
            np.where(inner[:, None], np.abs(residual + step) - before, other),
        ]
