"""Judging a candidate: acceptance criteria in both forms, and the private regressions behind them (paper Births, Algorithm 1).

An attempt looks at the private table twice: to fit the model, and to evaluate the acceptance criteria. Both looks
go through a curator, which charges first. Criteria about the candidate alone come before the second look: a
candidate that fails one of them is rejected without it. That an attempt then spends less than it may is
covered by adaptive composition, because the decision depends on what was paid for already.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.curator import GRID_WIDENING, Curator, to_float
from understudy.errors import BudgetError
from understudy.privacy import GDP, ApproxDP, Budget, Laplace, PureDP
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE
from understudy.privacy.events import PureEvent
from understudy.release.criteria.base import Criterion, Number, laplace_deviation
from understudy.release.criteria.fits import LinearFit, Regression
from understudy.release.criteria.marginals import RelativeMarginalError
from understudy.release.criteria.means import ConditionalMeans
from understudy.release.criteria.medians import ConditionalMedians
from understudy.release.criteria.moments import RegressionMoments
from understudy.release.criteria.prediction import PredictionError
from understudy.release.criteria.regression import RegressionCoefficients
from understudy.release.record_types import RecordTypes
from understudy.release.result import AcceptanceResult, CriterionResult
from understudy.release.run.candidate import Candidate
from understudy.release.run.transform import neighbours
from understudy.release.selection.slack import SlackTest
from understudy.schema import Column

if TYPE_CHECKING:
    from understudy.data import Table
    from understudy.release.result import Configuration
    from understudy.release.spec.spec import Spec

# ----------------------------------------------------------------------------------------
# Private regressions of the published form, which the regressions of candidates are compared with.
#
# A private regression is a function of the real table and of the columns it is about, as one transformation of the space makes them. Transformations that
# make the same columns share it, as do criteria about the same columns. :mod:`understudy.release.spec.budget` says whether it is fitted once
# before the selection or anew inside each attempt.

WIDER = 1 + GRID_WIDENING
"""The curator rounds to a grid and charges for it; scales are widened by this much to stay within the share."""

Baselines = Mapping[tuple[str, ...], LinearFit]

Alternatives = Mapping[str, Mapping[str, Column]]
"""By column, the transformations of a specification under their labels."""

_WORDS = ("description", "unit", "decode_by")
"""Facts of a column that no regression depends on."""


@dataclass(frozen=True)
class PrivateRegression:
    """One regression of a specification.

    Attributes
    ----------
    columns
        The target, then the features.
    epsilon
        What one fit costs: the largest epsilon of the criteria that share it.
    versions
        How many distinct versions of its columns the transformations make.
    """

    columns: tuple[str, ...]
    epsilon: float
    versions: int


def private_regressions(
    criteria: Sequence[Mapping[str, Any]], alternatives: Alternatives
) -> tuple[PrivateRegression, ...]:
    """Return the private regressions that the criteria of a specification in the published form need.

    Examples
    --------
    >>> from understudy.schema import Integer
    >>> line = {"kind": "regression-coefficients", "target": "y", "features": ["x"], "epsilon": 0.4}
    >>> fine, coarse = Integer("x", minimum=0, maximum=9), Integer("x", minimum=0, maximum=9, bins=2)
    >>> private_regressions([line], {"x": {"fine": fine, "coarse": coarse, "also fine": fine}})
    (PrivateRegression(columns=('y', 'x'), epsilon=0.4, versions=2),)
    """
    found: dict[tuple[str, ...], float] = {}
    for item in criteria:
        if item["kind"] == "regression-coefficients":
            columns = (item["target"], *item["features"])
            found[columns] = max(found.get(columns, 0.0), float(item.get("epsilon") or 0.0))
    return tuple(
        PrivateRegression(
            columns,
            epsilon,
            math.prod(len(set(_first_labels(name, alternatives).values()) or {""}) for name in columns),
        )
        for columns, epsilon in found.items()
        if epsilon > 0
    )


def _first_labels(column: str, alternatives: Alternatives) -> dict[str, str]:
    """Return for the label of each alternative that of the first one which makes the same column."""
    seen: list[tuple[dict[str, Any], str]] = []
    found = {}
    for label, made in alternatives.get(column, {}).items():
        facts = {key: value for key, value in made.to_dict().items() if key not in _WORDS}
        found[label] = next((first for known, first in seen if known == facts), label)
        seen.append((facts, label))
    return found


def baseline_key(
    plain: Mapping[str, Any], transformations: Mapping[str, str], alternatives: Alternatives
) -> tuple[str, ...]:
    """Return what a private regression depends on: its columns, and how they are transformed."""
    columns = (plain["target"], *plain["features"])
    labels = {
        name: _first_labels(name, alternatives).get(label, label) for name, label in transformations.items()
    }
    return tuple(f"{column}={labels.get(column, '')}" for column in columns)


def fit_baseline(
    spec: Spec, regression: Regression, curator: Curator, *, rows: int, epsilon: float
) -> LinearFit:
    """Fit a private regression from noisy moments, for ``epsilon`` in all.

    Privacy
    -------
    Each moment is a sum over records between public bounds (`RegressionMoments` proves the sensitivities), gets
    Laplace noise with an equal share of epsilon, and is charged before it is drawn. A moment that nobody can
    change is the public number of rows times the value every record has.
    """
    moments = RegressionMoments(regression)
    sensitivities = np.maximum.reduce([moments.sensitivities(unit) for unit in neighbours(spec)])
    moving = np.flatnonzero(sensitivities > 0)
    scales = sensitivities[moving] * len(moving) * WIDER / epsilon
    purse = curator.within(PureDP(epsilon), scope="regression")
    sealed = purse.statistics(
        lambda table: _chosen(moments.exact(RecordTypes.from_table(table, regression.columns)), moving),
        sensitivities=sensitivities[moving].tolist(),
    )
    values = rows * np.array(moments.exact(_one_record(regression, curator)), dtype=np.float64)
    values[moving] = purse.measure_scalars(
        sealed, noise=[Laplace(float(scale)) for scale in scales], purpose="fit a private regression"
    )
    return moments.fit(values, n=rows)


def fit_baselines(
    spec: Spec, configuration: Configuration, curator: Curator, *, rows: int
) -> dict[tuple[str, ...], LinearFit]:
    """Fit every private regression of a specification on the columns of one configuration, each once.

    Privacy
    -------
    Charges the epsilons of `private_regressions`, which do not depend on the configuration.
    """
    found: dict[tuple[str, ...], LinearFit] = {}
    for key, regression, epsilon in regressions_for(spec, configuration):
        found[key] = fit_baseline(spec, regression, curator, rows=rows, epsilon=epsilon)
    return found


def regressions_for(
    spec: Spec, configuration: Configuration
) -> list[tuple[tuple[str, ...], Regression, float]]:
    """Return key, regression and epsilon of each private regression on the columns of one configuration."""
    made = spec.criteria_for(spec.schema_for(configuration))
    found = []
    for needed in private_regressions(spec.criteria, spec.transformations):
        plain, criterion = next(
            (plain, criterion)
            for plain, criterion in zip(spec.criteria, made, strict=True)
            if isinstance(criterion, RegressionCoefficients)
            and (plain["target"], *plain["features"]) == needed.columns
        )
        key = baseline_key(plain, configuration.transformations, spec.transformations)
        found.append((key, criterion.regression, needed.epsilon))
    return found


def _chosen(moments: list[Fraction], which: npt.NDArray[np.intp]) -> list[Fraction]:
    return [moments[int(index)] for index in which]


def _one_record(regression: Regression, curator: Curator) -> RecordTypes:
    """Return a table of one record that has a value in every column of a regression."""
    domain = curator.domain.project(regression.columns)
    values = {item.column: item.values for item in (*regression.features, regression.target)}
    code = [next(i for i, value in enumerate(values[name]) if math.isfinite(value)) for name in domain.names]
    return RecordTypes.from_rows(domain, [code])


def with_baseline(
    spec: Spec, criterion: Criterion, plain: Mapping[str, Any], candidate: Candidate, baselines: Baselines
) -> Criterion:
    """Return a criterion that compares regressions with the private one that was fitted for it, if one was; others as they are."""
    if isinstance(criterion, RegressionCoefficients | PredictionError):
        key = baseline_key(plain, candidate.configuration.transformations, spec.transformations)
        return replace(criterion, baseline=baselines.get(key))
    return criterion


_LEAST = 2.0**-40
"""Taken for the sensitivity of an error that nobody can change, such as a share that is 1 for every possible record."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Whether a candidate is accepted, and what may be said about each criterion."""

    passed: bool
    acceptance: AcceptanceResult
    criteria: tuple[CriterionResult, ...]


def judge(spec: Spec, candidate: Candidate, curator: Curator, baselines: Baselines) -> Judgement:
    """Evaluate the acceptance criteria of a candidate.

    Privacy
    -------
    Pass-only: the smallest slack of all criteria is one sealed statistic (`SlackTest` proves its sensitivity),
    tested once with Laplace noise; the bit is released. Published: each error is a sealed statistic with the
    sensitivity its criterion proves, measured with its own epsilon; comparing the noisy errors with the
    thresholds is post-processing. Private regressions that attempts do not share (`Shares.regressions`) are fitted here, after the
    criteria about the candidate alone and before those about the table; all of it is held to `Shares.judging`.
    """
    criteria = spec.criteria_for(candidate.schema)
    public = {c.name: c.value(candidate.types, candidate.types) for c in criteria if not c.reads_real}
    ready = all(c.met(public[c.name]) for c in criteria if not c.reads_real)
    if spec.form == "published":
        return _published(spec, candidate, curator, criteria, public, ready, baselines)
    return _pass_only(spec, candidate, curator, criteria, public, ready)


def acceptance_purse(spec: Spec, curator: Curator, epsilon: float) -> Curator:
    """Return a curator limited to what the acceptance criteria may cost.

    A ledger with an ``(epsilon, delta)`` promise whose model had Gaussian noise has nothing left by pure accounting; there
    the limit is stated in Gaussian DP, as what an ``epsilon``-DP act costs in it.
    """
    limit: Budget = PureDP(epsilon)
    book = curator.ledger
    if isinstance(book.budget, ApproxDP) and not isinstance(spec.shares.model, PureDP):
        if book.rule.remaining(book.spending, accounting=PURE.name) >= epsilon:
            return curator.within(limit, scope="acceptance")  # the model's epsilon was spent beside its delta
        limit = GDP(math.sqrt(GDP_ACCOUNTING.cost(PureEvent(epsilon))) * (1 + 2.0**-50))
    return curator.within(limit, scope="acceptance")


def _pairs(spec: Spec, criteria: Sequence[Criterion]) -> list[tuple[Criterion, Mapping[str, Any]]]:
    return list(zip(criteria, spec.criteria, strict=True))


# ---------------------------------------------------------------------- pass-only


def _pass_only(
    spec: Spec,
    candidate: Candidate,
    curator: Curator,
    criteria: Sequence[Criterion],
    public: Mapping[str, float],
    ready: bool,
) -> Judgement:
    real = tuple(c for c in criteria if c.reads_real)
    epsilon = spec.shares.acceptance
    test = SlackTest(real) if real else None
    sensitivity = scale = threshold = None
    passed = ready
    if test is not None:
        sensitivity = test.sensitivity(spec.unit)
        scale = test.noise_scale(epsilon, unit=spec.unit)
        threshold = test.threshold(epsilon=epsilon, false_accept=spec.false_accept, unit=spec.unit)
    if test is not None and ready:
        purse = acceptance_purse(spec, curator, epsilon)
        sealed = purse.statistic(
            _on_types(lambda r: test.slack(r, candidate.types)), sensitivity=test.sensitivity(spec.unit)
        )
        passed = purse.test(
            sealed, above=threshold or 0.0, epsilon=epsilon, purpose="test all acceptance criteria at once"
        )
    results = [
        _result(spec, index, criterion, candidate, public)
        if not criterion.reads_real
        else _result(
            spec,
            index,
            criterion,
            candidate,
            public,
            mechanism="slack test",
            sensitivity=sensitivity,
            deviation=None if scale is None else laplace_deviation(scale),
            passed=passed,
        )
        for index, criterion in enumerate(criteria)
    ]
    acceptance = AcceptanceResult(
        form="pass-only",
        epsilon=epsilon if real else 0.0,
        passed=passed,
        slack_threshold=threshold,
        noise_scale=scale,
        sensitivity=sensitivity,
        false_accept=spec.false_accept if real else None,
    )
    return Judgement(passed=passed, acceptance=acceptance, criteria=tuple(results))


# ---------------------------------------------------------------------- published


def _published(
    spec: Spec,
    candidate: Candidate,
    curator: Curator,
    criteria: Sequence[Criterion],
    public: Mapping[str, float],
    ready: bool,
    baselines: Baselines,
) -> Judgement:
    purse = acceptance_purse(spec, curator, spec.shares.judging) if spec.shares.judging else curator
    if spec.shares.regressions and ready:
        baselines = fit_baselines(spec, candidate.configuration, purse, rows=candidate.types.rows)
    criteria = [
        with_baseline(spec, criterion, plain, candidate, baselines)
        for criterion, plain in _pairs(spec, criteria)
    ]
    known = dict(public)
    for criterion in criteria:
        if isinstance(criterion, RegressionCoefficients | PredictionError) and criterion.baseline is None:
            continue  # rejected before a regression was fitted
        if isinstance(criterion, RegressionCoefficients):  # a function of the baseline and the candidate
            known[criterion.name] = float(criterion.released_value(candidate.types, candidate.types))
        elif isinstance(criterion, PredictionError) and not criterion.can_be_released(candidate.types):
            known[criterion.name] = math.inf  # a candidate without a regression, a public fact
    ready = ready and all(
        criterion.met(known[criterion.name]) for criterion in criteria if criterion.name in known
    )
    reaches = {
        criterion.name: _reach(spec, criterion, candidate.types)
        for criterion in criteria
        if ready and criterion.name not in known
    }
    results = []
    for index, criterion in enumerate(criteria):
        epsilon = spec.epsilons()[index]
        if criterion.name in known or epsilon is None or not ready:
            passed = criterion.name in known and criterion.met(known[criterion.name])
            results.append(_result(spec, index, criterion, candidate, known, passed=passed, epsilon=epsilon))
        elif isinstance(criterion, ConditionalMedians):
            reach = reaches[criterion.name]
            results.append(_by_exponential(spec, index, criterion, candidate, purse, epsilon, reach))
        else:
            reach = reaches[criterion.name]
            results.append(_by_laplace(spec, index, criterion, candidate, purse, epsilon, reach))
    passed = all(result.passed for result in results)
    acceptance = AcceptanceResult(form="published", epsilon=spec.shares.judging, passed=passed)
    return Judgement(passed=passed, acceptance=acceptance, criteria=tuple(results))


def _reach(spec: Spec, criterion: Criterion, types: RecordTypes) -> float:
    """Return the most that one unit can move what a criterion releases; refused, before anything is charged, if that has no end."""
    largest = max(criterion.sensitivity(unit, types.rows, types) for unit in neighbours(spec))
    if not math.isfinite(largest):
        raise BudgetError(
            f"One record can move the error of {criterion.name!r} by more than the largest number a computer has: it cannot be "
            "released. Use smaller values."
        )
    return largest


def _by_laplace(
    spec: Spec,
    index: int,
    criterion: Criterion,
    candidate: Candidate,
    purse: Curator,
    epsilon: float,
    largest: float,
) -> CriterionResult:
    types = candidate.types
    sensitivity = max(largest, _LEAST)
    # shares of the rows are tiny: measure them in units in which one record counts for about one
    unit = Fraction(2) ** math.frexp(sensitivity)[1]
    reach = float(Fraction(sensitivity) / unit)
    sealed = purse.statistic(
        _on_types(lambda real: _in_units(criterion.released_value(real, types), unit)), sensitivity=reach
    )
    noise = Laplace(reach * WIDER / epsilon)
    scale = to_float(Fraction(noise.scale) * unit)
    measured = purse.measure_scalar(sealed, noise=noise, purpose=f"release the error of {criterion.name}")
    value = to_float(Fraction(measured) * unit)
    return _result(
        spec,
        index,
        criterion,
        candidate,
        {criterion.name: value},
        mechanism="laplace",
        epsilon=epsilon,
        sensitivity=sensitivity,
        deviation=min(laplace_deviation(scale), sys.float_info.max),
        passed=criterion.met(value),
    )


def _by_exponential(
    spec: Spec,
    index: int,
    criterion: ConditionalMedians,
    candidate: Candidate,
    purse: Curator,
    epsilon: float,
    sensitivity: float,
) -> CriterionResult:
    types = candidate.types
    errors = criterion.scores(types, types)[0]  # the possible errors depend on the candidate alone
    value = float(errors[0])
    if len(errors) > 1:
        scores = purse.statistics(
            lambda table: [
                float(score) for score in criterion.scores(RecordTypes.from_table(table), types)[1]
            ],
            sensitivities=[sensitivity] * len(errors),
        )
        value = float(
            errors[purse.choose(scores, epsilon=epsilon, purpose=f"release the error of {criterion.name}")]
        )
    return _result(
        spec,
        index,
        criterion,
        candidate,
        {criterion.name: value},
        mechanism="exponential",
        epsilon=epsilon,
        sensitivity=sensitivity,
        passed=criterion.met(value),
    )


# ---------------------------------------------------------------------- results


def _in_units(value: Number, unit: Fraction) -> Number:
    """Return an error in other units, exactly where it is finite."""
    return Fraction(value) / unit if math.isfinite(value) else value


def _on_types(function: Callable[[RecordTypes], Number]) -> Callable[[Table], Number]:
    """Turn a function of record types into one of a table; the types do not outlive the call."""
    return lambda table: function(RecordTypes.from_table(table))


def _result(
    spec: Spec,
    index: int,
    criterion: Criterion,
    candidate: Candidate,
    values: Mapping[str, float],
    *,
    mechanism: str = "none",
    epsilon: float | None = None,
    sensitivity: float | None = None,
    deviation: float | None = None,
    passed: bool | None = None,
) -> CriterionResult:
    plain, words = spec.criteria[index], spec.words_for(candidate.schema)[index]
    value = values.get(criterion.name)
    if not criterion.reads_real:
        passed = value is not None and criterion.met(value)
    if spec.form == "published" and isinstance(criterion, RegressionCoefficients):
        mechanism = "functional"
    return CriterionResult(
        name=criterion.name,
        kind=plain["kind"],
        type=words.type,
        metric=words.metric,
        threshold=criterion.threshold,
        unit=words.unit,
        form="public" if not criterion.reads_real else spec.form,
        value=float(value) if value is not None and math.isfinite(value) else None,
        epsilon=epsilon,
        mechanism=mechanism,
        bounds=bounds_of(criterion),
        sensitivity=sensitivity,
        noise_deviation=deviation,
        passed=bool(passed),
    )


def bounds_of(criterion: Criterion) -> tuple[float, float] | None:
    """Return the range that errors, or the values behind them, lie in."""
    if isinstance(criterion, RelativeMarginalError):
        return 1.0, criterion.clip
    if isinstance(criterion, ConditionalMeans | ConditionalMedians | PredictionError):
        return criterion.bounds
    if not criterion.reads_real or isinstance(criterion, RegressionCoefficients):
        return None
    return 0.0, 1.0
