"""Linear regression on record types: design, fits, and everything a possible record could contribute."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.release.record_types import RecordTypes
from understudy.schema import Domain

__all__ = ["Feature", "LinearFit", "Points", "Regression", "Scaling"]

Floats = npt.NDArray[np.float64]

_MOST_POINTS = 1 << 20
_MOST_FEATURES = 10
_WORST_CONDITION = 1e10


@dataclass(frozen=True)
class Feature:
    """A column used as a number: its name and the value of each code, NaN for codes without one."""

    column: str
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(float(value) for value in self.values))
        if not any(map(math.isfinite, self.values)) or any(map(math.isinf, self.values)):
            raise WorkloadError(
                f"The values of {self.column!r} must be finite, or NaN for codes without one."
            )
        if not math.isfinite(self.bounds[1] - self.bounds[0]):
            raise WorkloadError(
                f"The values of {self.column!r} lie further apart than the largest number a computer has. Use values that lie closer."
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value."""
        finite = [value for value in self.values if math.isfinite(value)]
        return min(finite), max(finite)


@dataclass(frozen=True, eq=False)
class Scaling:
    """A public change of units: ``(x - centre) / width`` for each feature."""

    centre: Floats
    width: Floats

    def design(self, x: Floats) -> Floats:
        """Return the rows ``(1, (x - centre) / width)``."""
        return np.concatenate([np.ones((len(x), 1)), (x - self.centre) / self.width], axis=1)


@dataclass(frozen=True)
class LinearFit:
    """A linear prediction in the units of the columns.

    Examples
    --------
    >>> fit = LinearFit(10.0, (2.0,))
    >>> fit.in_units(Scaling(np.array([3.0]), np.array([4.0]))).tolist()
    [16.0, 8.0]
    """

    intercept: float
    slopes: tuple[float, ...]

    def in_units(self, scaling: Scaling) -> Floats:
        """Return the coefficients for the design matrix of a scaling, intercept first."""
        slopes = np.asarray(self.slopes)
        return np.concatenate([[self.intercept + float(slopes @ scaling.centre)], slopes * scaling.width])

    @classmethod
    def from_units(cls, coefficients: Floats, scaling: Scaling) -> LinearFit:
        """Return the fit whose coefficients for the design matrix of a scaling are given."""
        slopes = coefficients[1:] / scaling.width
        return cls(float(coefficients[0] - slopes @ scaling.centre), tuple(map(float, slopes)))


@dataclass(frozen=True, eq=False)
class Points:
    """The public set of possible records, as far as a regression can see it.

    ``x`` holds the possible combinations of feature values and ``low``, ``high`` the smallest and largest target
    value possible with each. Where there are too many combinations ``x`` is None and only the box
    ``[x_low, x_high]`` and the overall bounds of the target are known: bounds computed from them are wider.
    """

    x: Floats | None
    low: Floats
    high: Floats
    x_low: Floats
    x_high: Floats


@dataclass(frozen=True, eq=False)
class Regression:
    """Which column is explained by which others, and the records that are possible.

    Parameters
    ----------
    target
        The column that is predicted.
    features
        The columns it is predicted from; an intercept is always included.
    support
        Which combinations of codes of the features and the target (in this order) are possible, as an array of
        truth values, if a public rule excludes some. All by default. A smaller support means smaller
        sensitivities. Real records outside it count for nothing, so these hold for every table, also one that holds
        what the rule should have kept out.
    """

    target: Feature
    features: tuple[Feature, ...]
    support: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        names = self.columns
        if not self.features or len(set(names)) != len(names):
            raise WorkloadError("A regression needs at least one feature, and each column once.")
        if len(self.features) > _MOST_FEATURES:
            raise WorkloadError(f"A regression criterion takes up to {_MOST_FEATURES} features.")
        if self.support is not None:
            support = np.asarray(self.support, dtype=bool)
            if support.shape != tuple(len(feature.values) for feature in (*self.features, self.target)):
                raise WorkloadError("The support needs one axis per feature and a last one for the target.")
            object.__setattr__(self, "support", support)
        if self.points.x is not None and len(self.points.x) == 0:
            raise WorkloadError("The support of a regression excludes every record.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns used, target last."""
        return (*(feature.column for feature in self.features), self.target.column)

    @property
    def has_gaps(self) -> bool:
        """Whether some records are left out because a code has no value."""
        return any(math.isnan(value) for feature in (*self.features, self.target) for value in feature.values)

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        found = []
        for feature in (*self.features, self.target):
            if feature.column not in domain:
                found.append(f"no column named {feature.column!r}")
            elif len(feature.values) != domain.size(feature.column):
                found.append(f"column {feature.column!r} needs one value per code")
        return found

    # ------------------------------------------------------------------ tables

    def possible(self, real: RecordTypes) -> RecordTypes:
        """Return the records that the support allows.

        Privacy
        -------
        In and out: private. Whether a record is left out depends on that record and a public rule, so neighbours
        stay neighbours, and what a step does to a sum over records is bounded by the range over the support with
        zero included.
        """
        if self.support is None:
            return real
        inside = self.support[tuple(real.column(name) for name in self.columns)]
        return RecordTypes(real.domain, real.codes[inside], real.counts[inside])

    def rows(self, types: RecordTypes) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
        """Return feature values, target values and counts of the types that have all of them."""
        if set(types.domain.names) != set(self.columns):
            types = types.project(self.columns)
        x = np.stack([np.asarray(f.values)[types.column(f.column)] for f in self.features], axis=1)
        y = np.asarray(self.target.values)[types.column(self.target.column)]
        usable = np.isfinite(x).all(axis=1) & np.isfinite(y)
        return x[usable], y[usable], types.counts[usable]

    def scaling(self, synthetic: RecordTypes) -> Scaling | None:
        """Return the scaling by the candidate's means and deviations; None if a feature does not vary."""
        x, _, counts = self.rows(synthetic)
        total = counts.sum()
        if total == 0:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            centre = counts @ x / total
            deviation = np.sqrt(counts @ (x - centre) ** 2 / total)
        if not np.all((deviation > 1e-9 * np.abs(x).max(axis=0)) & np.isfinite(deviation)):
            return None
        return Scaling(centre, deviation)

    def fit(self, types: RecordTypes, scaling: Scaling) -> tuple[Floats, Floats] | None:
        """Return the least-squares coefficients and the Gram matrix (a sum over rows); None if singular."""
        x, y, counts = self.rows(types)
        design = scaling.design(x)
        weighted = design * counts[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            gram, products = design.T @ weighted, weighted.T @ y
        if len(x) == 0 or not np.isfinite(gram).all() or not np.isfinite(products).all():
            return None
        if not np.linalg.cond(gram) < _WORST_CONDITION:
            return None
        return np.asarray(np.linalg.solve(gram, products), dtype=np.float64), gram

    # ------------------------------------------------------------------ possible records

    @cached_property
    def points(self) -> Points:
        """The possible records."""
        levels = [np.asarray(feature.values) for feature in self.features]
        x_low, x_high = np.transpose([feature.bounds for feature in self.features])
        y = np.asarray(self.target.values)
        cells = math.prod(len(level) for level in levels)
        if cells > _MOST_POINTS:
            low, high = self.target.bounds
            return Points(None, np.array([low]), np.array([high]), x_low, x_high)
        x = np.stack([grid.ravel() for grid in np.meshgrid(*levels, indexing="ij")], axis=1)
        usable = np.isfinite(y)
        allowed = np.broadcast_to(usable, (cells, len(y)))
        if self.support is not None:
            allowed = allowed & self.support.reshape(cells, len(y))
        possible = np.isfinite(x).all(axis=1) & allowed.any(axis=1)
        low = np.where(allowed, np.where(usable, y, 0.0), math.inf).min(axis=1)
        high = np.where(allowed, np.where(usable, y, 0.0), -math.inf).max(axis=1)
        return Points(x[possible], low[possible], high[possible], x_low, x_high)
