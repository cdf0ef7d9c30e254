"""A small interface for conjugate models of one's own, and the sampler that makes them noise-aware.

A conjugate model of some columns says which bounded numbers of a record are its sufficient statistics, how a parameter is
drawn given their exact sums, and what the probability of each combination of codes is at a parameter. The rest follows: the
mean and covariance of the statistics at a parameter are sums over codes, and the sampler moves between parameters and
exact sums given the noisy ones (Bernstein and Sheldon 2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from understudy.engine import Distribution, ProductModel
from understudy.engine.distributions.product import DrawnTables
from understudy.errors import WorkloadError
from understudy.marginals import Statistic
from understudy.mechanisms.parametric.features import ONE, Feature
from understudy.mechanisms.parametric.look import MomentBlock
from understudy.mechanisms.parametric.modips.models import (
    Ask,
    AskCounts,
    AskMoments,
    Multinomial,
    Setting,
    subdomain,
)
from understudy.schema import Clique, Schema

Floats = npt.NDArray[np.float64]

_BURN, _THIN, _DRAWS = 100, 5, 200


class ConjugateModel(Protocol):
    """A model of a few columns whose posterior given exact sums is known.

    Parameters are whatever the model likes: numbers, tuples, arrays.
    """

    @property
    def columns(self) -> Clique:
        """The columns it speaks of, in the order of the schema."""

    def features(self, schema: Schema) -> tuple[Feature, ...]:
        """Return the sufficient statistics of one record: numbers between -1 and 1 for each combination of codes."""

    def draw(self, schema: Schema, rows: float, sums: Floats, generator: np.random.Generator) -> Any:
        """Draw a parameter from its posterior given the number of records and the exact sums of the features."""

    def probabilities(self, schema: Schema, parameter: Any) -> Floats:
        """Return the probability of each combination of codes, of the shape of the columns' domain."""


@dataclass(frozen=True)
class GammaPoisson:
    """Counts of events: Poisson with a Gamma prior, for an integer column that starts at zero.

    Numbers above the maximum are counted to it.

    Examples
    --------
    >>> model = GammaPoisson("visits")
    >>> schema = Schema.parse("columns: [{name: visits, kind: integer, minimum: 0, maximum: 9}]")
    >>> model.probabilities(schema, 2.0).round(3)[:3]
    array([0.135, 0.271, 0.271])
    """

    column: str
    shape: float = 0.5
    rate: float = 0.01

    @property
    def columns(self) -> Clique:
        """The column."""
        return (self.column,)

    def features(self, schema: Schema) -> tuple[Feature, ...]:
        """Return the number itself, as a share of the maximum; missing entries count as zero."""
        values = np.zeros(schema.column(self.column).size)
        middles = getattr(schema.column(self.column), "midpoints", None)
        if middles is None or middles[0] != 0 or middles[-1] <= 0:
            raise WorkloadError(f"GammaPoisson needs an integer column from 0; {self.column!r} is not.")
        values[: len(middles)] = middles / middles[-1]
        return (Feature(self.column, (self.column,), values),)

    def draw(self, schema: Schema, rows: float, sums: Floats, generator: np.random.Generator) -> float:
        """Draw the rate."""
        largest = float(schema.column(self.column).midpoints[-1])  # type: ignore[attr-defined]
        total = max(0.0, float(sums[0])) * largest
        return float(generator.gamma(self.shape + total, 1.0 / (self.rate + rows)))

    def probabilities(self, schema: Schema, parameter: Any) -> Floats:
        """Return Poisson probabilities, the tail counted to the maximum."""
        from scipy.stats import poisson

        column = schema.column(self.column)
        edges = np.append(np.asarray(column.cells.low[1:]) - 1, np.inf)  # type: ignore[attr-defined]
        shares = np.zeros(column.size)
        shares[: column.value_count] = np.diff(poisson.cdf(edges, float(parameter)), prepend=0.0)
        return np.maximum(shares, 0.0)


@dataclass(frozen=True)
class Conjugate:
    """Conjugate models of disjoint columns side by side; other columns get a multinomial each."""

    parts: tuple[ConjugateModel, ...]
    name: str = "conjugate"

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the number of rows where it is private, the sums of every part, and counts of the other columns."""
        named = [name for part in self.parts for name in part.columns]
        if not self.parts or len(set(named)) < len(named):
            raise WorkloadError("The model conjugate needs models of disjoint columns (option conjugate).")
        asked: list[Ask] = [] if setting.rows is not None else [AskCounts((), 0.5)]
        for part in self.parts:
            features = part.features(setting.schema)
            pairs = tuple((0, place + 1) for place in range(len(features)))
            label = f"sufficient statistics of {', '.join(part.columns)}"
            asked.append(AskMoments(MomentBlock(label, (ONE, *features), pairs), float(len(features))))
        return (*asked, *(AskCounts((name,), 1.0) for name in self._others(setting)))

    def _others(self, setting: Setting) -> list[str]:
        named = {name for part in self.parts for name in part.columns}
        return [name for name in setting.domain.names if name not in named]

    def cells(self, setting: Setting) -> int:
        """Return the number of probabilities."""
        own = sum(setting.domain.cells(part.columns) for part in self.parts)
        return own + sum(setting.domain.size(name) for name in self._others(setting))

    def learn(
        self, setting: Setting, statistics: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the parts side by side, each with a store of posterior draws."""
        heard = list(statistics)
        if setting.rows is not None:
            rows = float(max(1, setting.rows))
        else:
            rows = max(1.0, float(heard.pop(0).values.ravel()[0]))
        made: list[Distribution] = []
        for part in self.parts:
            draws = conjugate_draws(part, setting, heard.pop(0), rows, generator)
            now = draws.mean(axis=0) if setting.parameters == "mean" else draws[-1]
            made.append(DrawnTables(subdomain(setting.domain, part.columns), now, draws, rows))
        others = self._others(setting)
        if others:
            inside = replace(
                setting, schema=Schema([setting.schema.column(name) for name in others]), continuous=()
            )
            rest = Multinomial().learn(inside, heard, generator)
            made += list(rest.parts)  # type: ignore[attr-defined]
        return ProductModel(setting.domain, tuple(made), rows)


def conjugate_draws(
    model: ConjugateModel,
    setting: Setting,
    statistics: Statistic,
    rows: float,
    generator: np.random.Generator,
) -> Floats:
    """Draw tables of probabilities from the posterior of a conjugate model given noisy sums.

    Given a parameter the exact sums are normal with mean and covariance ``rows`` times those of one record (central
    limit theorem); given the sums the parameter is drawn by the model. Laplace noise is normal with an exponential
    variance. Without noise-awareness the released sums are taken as exact.
    """
    shape = setting.domain.shape(model.columns)
    features = [feature.values.ravel() for feature in _over(model, setting)]
    values = np.stack(features, axis=1)
    noisy = statistics.values.ravel()
    low, high = rows * values.min(axis=0), rows * values.max(axis=0)
    sums = np.clip(noisy, low, high)
    variance = np.full(len(noisy), statistics.variance)
    kept = []
    for turn in range(_BURN + _THIN * _DRAWS):
        parameter = model.draw(setting.schema, rows, sums, generator)
        shares = model.probabilities(setting.schema, parameter).reshape(shape).ravel()
        if turn >= _BURN and (turn - _BURN) % _THIN == 0:
            kept.append(shares.reshape(shape))
        if not setting.aware:
            continue
        mean = rows * (shares @ values)
        spread = rows * ((values * shares[:, None]).T @ values) - np.outer(mean, mean) / rows
        if statistics.noise == "laplace":
            gap = np.maximum(np.abs(noisy - sums), 1e-9 * statistics.scale)
            variance = 1.0 / np.maximum(
                generator.wald(1.0 / (statistics.scale * gap), statistics.scale**-2), 1e-300
            )
        gain = np.linalg.solve(spread + np.diag(variance), spread).T
        left = spread - gain @ spread
        weights, vectors = np.linalg.eigh((left + left.T) / 2)
        white = np.sqrt(np.maximum(weights, 0.0)) * generator.standard_normal(len(weights))
        sums = np.clip(mean + gain @ (noisy - mean) + vectors @ white, low, high)
    return np.stack(kept)


def _over(model: ConjugateModel, setting: Setting) -> tuple[Feature, ...]:
    """Return the features of a model spread over all combinations of its columns' codes."""
    shape = setting.domain.shape(model.columns)
    spread = []
    for feature in model.features(setting.schema):
        axes = [model.columns.index(name) for name in feature.columns]
        sizes = [1] * len(shape)
        for axis in axes:
            sizes[axis] = shape[axis]
        values = np.broadcast_to(feature.values.reshape(sizes), shape)
        if math.prod(shape) != values.size:
            raise WorkloadError(f"Feature {feature.name!r} does not fit the columns of its model.")
        spread.append(Feature(feature.name, model.columns, values))
    return tuple(spread)
