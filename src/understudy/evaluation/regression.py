"""Does a regression on the synthetic table say what it says on the real one? (Coefficients and interval overlap.)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.errors import WorkloadError
from understudy.evaluation.codes import Codes, Floats
from understudy.evaluation.comparison import Comparison, numbers_of
from understudy.evaluation.result import Result

_NORMAL_95 = 1.959963984540054


@dataclass(frozen=True)
class LinearFit:
    """Coefficients of a least-squares fit with their standard errors; the intercept comes first."""

    names: tuple[str, ...]
    coefficients: Floats
    errors: Floats


def coefficient_differences(both: Comparison, target: str) -> Result:
    """Return how many real standard errors each coefficient of the regression of the target is off."""
    real, made = _both_fits(both, target)
    values = {
        name: abs(a - b) / error
        for name, a, b, error in zip(
            real.names, real.coefficients, made.coefficients, real.errors, strict=True
        )
        if error > 0
    }
    return Result(f"coefficients of {target}, in standard errors", values, better="lower")


def interval_overlaps(both: Comparison, target: str) -> Result:
    """Return how much the 95 % intervals of each coefficient overlap (Karr et al. 2006): 1 if they are the same.

    The average of the share of either interval that lies in the other; negative where they are apart.
    """
    real, made = _both_fits(both, target)
    values = {}
    for index, name in enumerate(real.names):
        if not (real.errors[index] > 0 and made.errors[index] > 0):
            continue
        (a, b), (c, d) = (
            (
                fit.coefficients[index] - _NORMAL_95 * fit.errors[index],
                fit.coefficients[index] + _NORMAL_95 * fit.errors[index],
            )
            for fit in (real, made)
        )
        shared = min(b, d) - max(a, c)
        values[name] = 0.5 * (shared / (b - a) + shared / (d - c))
    return Result(f"overlap of the intervals of the coefficients of {target}", values, better="higher")


def _both_fits(both: Comparison, target: str) -> tuple[LinearFit, LinearFit]:
    return fit_line(both, both.real_codes, target), fit_line(both, both.synthetic_codes, target)


def fit_line(both: Comparison, codes: Codes, target: str) -> LinearFit:
    """Fit the target to all other columns by least squares.

    Numeric and ordinal columns enter as numbers, categorical ones as indicators of every value but the first;
    records that lack the target or a number are left out. Directions that do not vary get coefficient zero.
    """
    meaning = numbers_of(both.schema.column(target))
    if meaning is None:
        raise WorkloadError(f"A regression of {target!r} needs numbers, and it is a categorical column.")
    names, pieces = _design(both, codes, [name for name in both.domain.names if name != target])
    y = meaning[codes[:, both.domain.index(target)]]
    x = np.column_stack([np.ones(len(codes)), *pieces]) if pieces else np.ones((len(codes), 1))
    there = ~(np.isnan(y) | np.isnan(x).any(axis=1))
    x, y = x[there], y[there]
    if len(y) <= x.shape[1]:
        raise WorkloadError(f"A regression of {target!r} needs more than {x.shape[1]} complete records.")
    gram = x.T @ x
    inverse = np.linalg.pinv(gram, hermitian=True)
    coefficients = inverse @ (x.T @ y)
    variance = float(((y - x @ coefficients) ** 2).sum()) / (len(y) - x.shape[1])
    errors = np.sqrt(np.maximum(0.0, variance * np.diag(inverse)))
    return LinearFit(("intercept", *names), coefficients, errors)


def _design(both: Comparison, codes: Codes, columns: Sequence[str]) -> tuple[list[str], list[Floats]]:
    names: list[str] = []
    pieces: list[Floats] = []
    for name in columns:
        own = codes[:, both.domain.index(name)]
        meaning = numbers_of(both.schema.column(name))
        if meaning is not None:
            names.append(name)
            pieces.append(meaning[own])
            continue
        for code, label in list(enumerate(both.schema.column(name).labels))[1:]:
            names.append(f"{name}={label}")
            pieces.append((own == code).astype(np.float64))
    return names, pieces


def typical(result: Result) -> float:
    """Return the median of the finite values of a result; zero if there are none."""
    finite = [value for value in result.values.values() if math.isfinite(value)]
    return float(np.median(finite)) if finite else 0.0
