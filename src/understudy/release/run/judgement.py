"""Judging a candidate: acceptance criteria in both forms, and the private regressions behind them (paper Births, Algorithm 1).

An attempt looks at the private table twice: to fit the model, and to evaluate the acceptance criteria. Both looks
go through a curator, which charges first. Criteria about the candidate alone come before the second look: a
candidate that fails one of them is rejected without it. That an attempt then spends less than it may is
covered by adaptive composition, because the decision depends on what was paid for already.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from understudy.curator import GRID_WIDENING, Curator
from understudy.errors import BudgetError
from understudy.privacy import GDP, ApproxDP, Budget, Laplace, PureDP
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE
from understudy.privacy.events import PureEvent
from understudy.release.criteria.base import Criterion, CriterionConfig, laplace_deviation
from understudy.release.look import seal_numbers
from understudy.release.record_types import RecordTypes
from understudy.release.regressions.fits import LinearFit, Regression
from understudy.release.regressions.moments import RegressionMoments
from understudy.release.result import AcceptanceResult, CriterionResult
from understudy.release.run.candidate import Candidate
from understudy.release.run.transform import neighbours
from understudy.release.selection.slack import SlackTest
from understudy.schema import Column

if TYPE_CHECKING:
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
        How many versions of its columns the transformations make, by their labels.
    """

    columns: tuple[str, ...]
    epsilon: float
    versions: int


def private_regressions(
    criteria: Sequence[CriterionConfig], alternatives: Alternatives
) -> tuple[PrivateRegression, ...]:
    """Return the private regressions that the criteria of a specification in the published form need.

    Examples
    --------
    >>> from understudy.schema import Integer
    >>> from understudy.release.criteria.regression import CoefficientsConfig
    >>> line = CoefficientsConfig(
    ...     kind="regression-coefficients", name="line", threshold=1.0, target="y", features=["x"], epsilon=0.4
    ... )
    >>> fine, coarse = Integer("x", minimum=0, maximum=9), Integer("x", minimum=0, maximum=9, bins=2)
    >>> private_regressions([line], {"x": {"fine": fine, "coarse": coarse}})
    (PrivateRegression(columns=('y', 'x'), epsilon=0.4, versions=2),)
    """
    found: dict[tuple[str, ...], float] = {}
    for item in criteria:
        if item.fits_regression:
            columns = item.regression_columns
            found[columns] = max(found.get(columns, 0.0), item.epsilon or 0.0)
    return tuple(
        PrivateRegression(
            columns,
            epsilon,
            math.prod(len(alternatives.get(name, {})) or 1 for name in columns),
        )
        for columns, epsilon in found.items()
        if epsilon > 0
    )


def baseline_key(columns: Sequence[str], transformations: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a private regression depends on: its columns, and the labels of their transformations.

    Labels and not what they make: version 0.1.0 fitted and charged one regression per label, and goes on so.
    """
    return tuple(f"{column}={transformations.get(column, '')}" for column in columns)


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
    limited = curator.within(PureDP(epsilon), scope="regression")
    sealed = seal_numbers(
        limited,
        lambda table: _chosen(moments.exact(RecordTypes.from_table(table, regression.columns)), moving),
        sensitivities=sensitivities[moving].tolist(),
    )
    values = rows * np.array(moments.exact(_one_record(regression, curator)), dtype=np.float64)
    values[moving] = limited.measure_scalars(
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
        regression = next(
            criterion.private_regression
            for item, criterion in zip(spec.criteria, made, strict=True)
            if item.fits_regression and item.regression_columns == needed.columns
        )
        if regression is None:
            raise BudgetError("A criterion pays for a private regression that it does not have.")
        key = baseline_key(needed.columns, configuration.transformations)
        found.append((key, regression, needed.epsilon))
    return found


def _chosen(moments: list[Fraction], which: npt.NDArray[np.intp]) -> list[Fraction]:
    return [moments[int(index)] for index in which]


def _one_record(regression: Regression, curator: Curator) -> RecordTypes:
    """Return a table of one record that has a value in every column of a regression."""
    domain = curator.domain.project(regression.columns)
    values = {item.column: item.values for item in (*regression.features, regression.target)}
    code = [next(i for i, value in enumerate(values[name]) if math.isfinite(value)) for name in domain.names]
    return RecordTypes.from_rows(domain, [code])


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Whether a candidate is accepted, and what may be said about each criterion; of several tables of events also table by table."""

    passed: bool
    acceptance: AcceptanceResult
    criteria: tuple[CriterionResult, ...]
    parts: Mapping[str, Judgement] = field(default_factory=dict)


def judge_all(
    spec: Spec, candidate: Candidate, curators: Sequence[Curator], baselines: Baselines
) -> Judgement:
    """Evaluate the acceptance criteria of a candidate; of several tables of events those of each table, by its curator.

    Privacy
    -------
    As for `judge`, whose costs add up over the tables: in the pass-only form each table has its own test, with an equal share of the epsilon. A candidate that violates a criterion has to
    pass the test of that criterion's table, so it is accepted with a probability of at most ``false_accept``, however many tables there are.
    """
    if not spec.parts:
        return judge(spec, candidate, curators[0], baselines)
    found = {
        table: judge(part, candidate.parts[table], curator, {})
        for (table, part), curator in zip(spec.parts.items(), curators, strict=True)
    }
    passed = all(item.passed for item in found.values())
    results = {result.name: result for item in found.values() for result in item.criteria}
    costs = any(item.acceptance.epsilon for item in found.values())
    return Judgement(
        passed=passed,
        acceptance=AcceptanceResult(
            form=spec.form,
            epsilon=spec.shares.judging,
            passed=passed,
            false_accept=spec.false_accept if spec.form == "pass-only" and costs else None,
        ),
        criteria=tuple(results[item.name] for item in spec.criteria),
        parts=found,
    )


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


def acceptance_curator(spec: Spec, curator: Curator, epsilon: float) -> Curator:
    """Return a curator limited to what the acceptance criteria may cost.

    A ledger with an ``(epsilon, delta)`` promise whose model had Gaussian noise has nothing left by pure accounting; there
    the limit is stated in Gaussian DP, as what an ``epsilon``-DP act costs in it.
    """
    limit: Budget = PureDP(epsilon)
    ledger = curator.ledger
    if isinstance(ledger.budget, ApproxDP) and not isinstance(spec.shares.model, PureDP):
        if ledger.rule.remaining(ledger.spending, accounting=PURE.name) >= epsilon:
            return curator.within(limit, scope="acceptance")  # the model's epsilon was spent beside its delta
        limit = GDP(math.sqrt(GDP_ACCOUNTING.cost(PureEvent(epsilon))) * (1 + 2.0**-50))
    return curator.within(limit, scope="acceptance")


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
        limited = acceptance_curator(spec, curator, epsilon)
        for criterion in real:
            criterion.require(candidate.types)  # whatever does not fit is refused before the table is read
        (sealed,) = seal_numbers(
            limited,
            lambda table: [test.slack(RecordTypes.from_table(table), candidate.types)],
            sensitivities=[test.sensitivity(spec.unit)],
        )
        passed = limited.test(
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
    limited = acceptance_curator(spec, curator, spec.shares.judging) if spec.shares.judging else None
    if spec.shares.regressions and ready and limited is not None:
        baselines = fit_baselines(spec, candidate.configuration, limited, rows=candidate.types.rows)
    changes = candidate.configuration.transformations
    criteria = [
        criterion.with_baseline(baselines.get(baseline_key(item.regression_columns, changes)))
        for criterion, item in zip(criteria, spec.criteria, strict=True)
    ]
    known = dict(public)
    for criterion in criteria:
        error = criterion.known_error(candidate.types)
        if error is not None:
            known[criterion.name] = error
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
        epsilon = spec.criteria[index].epsilon
        if criterion.name in known or epsilon is None or not ready:
            how = criterion.known_mechanism
            passed = criterion.name in known and criterion.met(known[criterion.name])
            results.append(
                _result(
                    spec, index, criterion, candidate, known, mechanism=how, passed=passed, epsilon=epsilon
                )
            )
            continue
        if limited is None:
            raise BudgetError(
                f"The criterion {criterion.name!r} looks at the records, and the specification sets no epsilon aside for judging. Give "
                "the criterion an epsilon in the acceptance part of the specification."
            )
        released = criterion.release(
            limited, candidate.types, epsilon=epsilon, sensitivity=reaches[criterion.name]
        )
        results.append(
            _result(
                spec,
                index,
                criterion,
                candidate,
                {criterion.name: released.value},
                mechanism=criterion.mechanism,
                epsilon=epsilon,
                sensitivity=released.sensitivity,
                deviation=released.deviation,
                passed=criterion.met(released.value),
            )
        )
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
    item = spec.criteria[index]
    phrases = item.wording(candidate.schema)
    value = values.get(criterion.name)
    if not criterion.reads_real:
        passed = value is not None and criterion.met(value)
    return CriterionResult(
        name=criterion.name,
        kind=item.kind,
        type=phrases.type,
        metric=phrases.metric,
        threshold=criterion.threshold,
        unit=phrases.unit,
        form="public" if not criterion.reads_real else spec.form,
        value=float(value) if value is not None and math.isfinite(value) else None,
        epsilon=epsilon,
        mechanism=mechanism,
        bounds=criterion.bounds,
        sensitivity=sensitivity,
        noise_deviation=deviation,
        passed=bool(passed),
    )
