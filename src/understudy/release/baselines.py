"""Private regressions: fitted once, outside the selection, and compared with those of every candidate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.curator import GRID_WIDENING, Curator
from understudy.privacy import Laplace, PureDP
from understudy.release.candidate import Candidate
from understudy.release.criteria import (
    Criterion,
    LinearFit,
    PredictionError,
    Regression,
    RegressionCoefficients,
    RegressionMoments,
)
from understudy.release.transform import neighbours
from understudy.release.types import RecordTypes

if TYPE_CHECKING:
    from understudy.release.spec import Spec

__all__ = ["Baselines", "baseline_key", "fit_baseline", "with_baseline"]

WIDER = 1 + GRID_WIDENING
"""The curator rounds to a grid and charges for it; scales are widened by this much to stay within the share."""

Baselines = Mapping[tuple[str, ...], LinearFit]


def baseline_key(plain: Mapping[str, Any], transformations: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a private regression depends on: its columns, and how they are transformed."""
    columns = (plain["target"], *plain["features"])
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


def _chosen(moments: list[Fraction], which: npt.NDArray[np.intp]) -> list[Fraction]:
    return [moments[int(index)] for index in which]


def _one_record(regression: Regression, curator: Curator) -> RecordTypes:
    """Return a table of one record that has a value in every column of a regression."""
    domain = curator.domain.project(regression.columns)
    values = {item.column: item.values for item in (*regression.features, regression.target)}
    code = [next(i for i, value in enumerate(values[name]) if math.isfinite(value)) for name in domain.names]
    return RecordTypes.from_rows(domain, [code])


def with_baseline(
    criterion: Criterion, plain: Mapping[str, Any], candidate: Candidate, baselines: Baselines
) -> Criterion:
    """Return a criterion that compares regressions with the private one that was fitted for it; others as they are."""
    if isinstance(criterion, RegressionCoefficients | PredictionError):
        key = baseline_key(plain, candidate.configuration.transformations)
        return replace(criterion, baseline=baselines[key])
    return criterion
