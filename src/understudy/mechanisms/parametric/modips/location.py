"""The general location model: a table of cells, and normal numbers within each cell.

Without numbers it is a multinomial table, with a single cell the normal model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from understudy.engine.distributions.distribution import Simulated
from understudy.engine.distributions.product import Codes, Floats, Mixed, numbers_in
from understudy.marginals import Statistic
from understudy.mechanisms.parametric.modips.gaussian import (
    GaussianEvidence,
    GaussianParameters,
    draw_gaussian,
    mean_gaussian,
    naive_gaussian,
)
from understudy.schema import Clique, Domain

# ----------------------------------------------------------------------------------------
# The posterior of a table of counts that was released with noise, and of the probabilities behind it.
#
# The model: cell ``k`` holds ``n_k ~ Poisson(lambda_k)`` records, ``lambda_k`` has a Gamma prior with shape ``alpha``, and
# the release is ``n_k`` plus noise of known law. Given the release the cells are independent,
#
#     p(n_k | release) proportional to  Gamma(n_k + alpha) / n_k!  *  p(noise = release_k - n_k),
#
# and given the counts the probabilities are Dirichlet with parameters ``alpha + n``. Where the number of records is known
# the same law is conditioned on it: that is the multinomial with a Dirichlet prior. Post-processing throughout.

Ints = npt.NDArray[np.int64]

_GRID = 512
_AT_ONCE = 1 << 21
_SWEEPS = 40
_FEW = 64
_REACH = {"laplace": 16.0, "gaussian": 8.0}


def plausible_counts(
    noisy: Statistic, *, alpha: float, total: int | None, generator: np.random.Generator
) -> Ints:
    """Draw the exact counts from their posterior.

    Parameters
    ----------
    noisy
        Released counts with their noise; NaN where a cell was not released.
    alpha
        Prior weight of each cell, in records.
    total
        The number of records where it is known.

    Notes
    -----
    With an unknown total the draw is exact (on a grid where the noise is wide). With a known total the cells are
    drawn with a common tilt that makes their expected sum right, then brought to the total, then renewed in pairs
    whose sum stays: a Gibbs sampler with the conditioned law as its equilibrium. Two cells need one step.

    Examples
    --------
    >>> noisy = Statistic("counts", np.array([30.0, -2.0, 12.0]), "laplace", 0.1)
    >>> plausible_counts(noisy, alpha=0.5, total=None, generator=np.random.default_rng(0))
    array([30,  0, 12])
    """
    y = np.asarray(noisy.values, dtype=np.float64).ravel()
    if total is None:
        n = _draw_cells(y, noisy, alpha, 0.0, None, generator)
    elif total == 0:
        n = np.zeros(len(y), dtype=np.int64)
    else:
        n = _draw_with_total(y, noisy, alpha, total, generator)
    return n.reshape(noisy.values.shape)


def naive_counts(noisy: Statistic, *, total: int | None) -> Floats:
    """Take the release at its word: cells below zero are set to zero and those above the total to the total.

    This is the boundary-inflated truncation of paper DIPS. A cell that was not released gets the rest.
    """
    upper = np.inf if total is None else float(total)
    values = np.clip(noisy.values, 0.0, upper)
    unknown = np.isnan(values)
    if unknown.any():
        rest = max(0.0, (0.0 if total is None else float(total)) - float(np.nansum(values)))
        values = np.where(unknown, rest / unknown.sum(), values)
    return np.asarray(values, dtype=np.float64)


def draw_probabilities(counts: npt.ArrayLike, alpha: float, generator: np.random.Generator) -> Floats:
    """Draw probabilities from the Dirichlet posterior given the counts."""
    shape = np.asarray(counts, dtype=np.float64) + alpha
    drawn = generator.standard_gamma(shape)
    mass = float(drawn.sum())
    return np.asarray(drawn / mass if mass > 0 else shape / shape.sum(), dtype=np.float64)


def _log_prior(n: Floats, alpha: float) -> Floats:
    return np.asarray(gammaln(n + alpha) - gammaln(n + 1.0), dtype=np.float64)


def _log_noise(gap: Floats, noisy: Statistic) -> Floats:
    """Logarithm of the density of the noise, up to a constant; a cell that was not released allows anything."""
    scaled = np.where(np.isnan(gap), 0.0, gap) / noisy.scale
    return -np.abs(scaled) if noisy.noise == "laplace" else -0.5 * scaled**2


def _pick(log_weights: Floats, generator: np.random.Generator) -> Ints:
    """Draw one place per row with probability proportional to the exponential of the entries."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    line = np.cumsum(weights, axis=1)
    point = generator.random(len(line)) * line[:, -1]
    return np.asarray(np.minimum((line < point[:, None]).sum(axis=1), line.shape[1] - 1), dtype=np.int64)


def _grid(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return start and whole-number step of a grid with at most ``_GRID`` points from low to high, per row."""
    step = np.maximum(1.0, np.ceil((high - low + 1.0) / _GRID))
    return np.floor(low), step


def _windows(y: Floats, noisy: Statistic, total: int | None) -> tuple[Floats, Floats]:
    """Where the counts can be, short of a probability that does not matter."""
    reach = np.ceil(_REACH[noisy.noise] * noisy.scale) + 2.0
    upper = np.inf if total is None else float(total)
    known = np.where(np.isnan(y), 0.0, y)
    low = np.clip(np.floor(known - reach), 0.0, upper)
    high = np.clip(np.maximum(np.ceil(known), 0.0) + reach, 0.0, upper)
    high = np.where(np.isnan(y), upper if total is not None else 0.0, high)
    return np.where(np.isnan(y), 0.0, low), high


def _cell_weights(
    y: Floats, low: Floats, high: Floats, noisy: Statistic, alpha: float, tilt: float
) -> tuple[Floats, Floats, Floats]:
    """Return log weights on a grid of counts for each cell, with start and step of the grid."""
    start, step = _grid(low, high)
    width = int(np.ceil((high - start + 1.0) / step).max())
    points = start[:, None] + step[:, None] * np.arange(width)
    middle = points + (step[:, None] - 1.0) / 2
    weights = _log_noise(y[:, None] - middle, noisy) - tilt * middle
    coarse = step > 1
    weights += _log_prior(points if not coarse.any() else np.where(coarse[:, None], middle, points), alpha)
    # the prior rises steeply towards zero: sum it over the first step instead of taking its middle
    first = coarse & (start == 0)
    if first.any():
        whole = gammaln(step[first] + alpha) - gammaln(step[first]) - np.log(alpha) - np.log(step[first])
        weights[first, 0] += whole - _log_prior(middle[first, 0], alpha)
    weights[points > high[:, None]] = -np.inf
    return weights, start, step


def _draw_cells(
    y: Floats, noisy: Statistic, alpha: float, tilt: float, total: int | None, generator: np.random.Generator
) -> Ints:
    low, high = _windows(y, noisy, total)
    drawn = np.zeros(len(y), dtype=np.int64)
    for part in _parts(len(y)):
        weights, start, step = _cell_weights(y[part], low[part], high[part], noisy, alpha, tilt)
        value = start + step * _pick(weights, generator) + np.floor(generator.random(len(start)) * step)
        drawn[part] = np.clip(value, low[part], high[part]).astype(np.int64)
    return drawn


def _expected_sum(y: Floats, noisy: Statistic, alpha: float, tilt: float, total: int | None) -> float:
    low, high = _windows(y, noisy, total)
    whole = 0.0
    for part in _parts(len(y)):
        weights, start, step = _cell_weights(y[part], low[part], high[part], noisy, alpha, tilt)
        shares = np.exp(weights - weights.max(axis=1, keepdims=True))
        places = start[:, None] + step[:, None] * np.arange(shares.shape[1]) + (step[:, None] - 1.0) / 2
        whole += float(((shares * places).sum(axis=1) / shares.sum(axis=1)).sum())
    return whole


def _parts(cells: int) -> list[slice]:
    size = max(1, _AT_ONCE // _GRID)
    return [slice(first, first + size) for first in range(0, cells, size)]


def _draw_with_total(
    y: Floats, noisy: Statistic, alpha: float, total: int, generator: np.random.Generator
) -> Ints:
    cells = len(y)
    tilt = 0.0
    if cells > _FEW:  # with fewer cells the sweeps forget where they began
        low, high = -4.0 / noisy.scale, 4.0 / noisy.scale
        for _ in range(12):
            tilt = (low + high) / 2
            above = _expected_sum(y, noisy, alpha, tilt, total) > total
            low, high = (tilt, high) if above else (low, tilt)
    n = _to_total(_draw_cells(y, noisy, alpha, tilt, total, generator), total, generator)
    if cells == 1:
        return n
    sweeps = 1 if cells == 2 else int(np.clip(_AT_ONCE * 4 // (cells * _GRID), 3, _SWEEPS))
    for _ in range(sweeps):
        order = generator.permutation(cells)
        half = cells // 2
        for part in _parts(half):
            left, right = order[:half][part], order[half : 2 * half][part]
            _renew_pairs(n, left, right, y, noisy, alpha, generator)
    return n


def _to_total(n: Ints, total: int, generator: np.random.Generator) -> Ints:
    """Add or take away records at random until the sum is right."""
    gap = total - int(n.sum())
    if gap > 0:
        weights = (n + 1.0) / float((n + 1.0).sum())
        return np.asarray(n + generator.multinomial(gap, weights), dtype=np.int64)
    if gap < 0:
        return np.asarray(
            n - generator.multivariate_hypergeometric(n, -gap, method="marginals"), dtype=np.int64
        )
    return n


def _renew_pairs(
    n: Ints,
    left: Ints,
    right: Ints,
    y: Floats,
    noisy: Statistic,
    alpha: float,
    generator: np.random.Generator,
) -> None:
    """Draw each pair of cells anew given its sum."""
    both = (n[left] + n[right]).astype(np.float64)
    reach = np.ceil(_REACH[noisy.noise] * noisy.scale) + 2.0
    one, two = y[left], both - y[right]
    near = np.clip(np.fmin(one, two), 0.0, both)
    far = np.clip(np.fmax(one, two), 0.0, both)
    unknown = np.isnan(near)
    low = np.where(unknown, 0.0, np.maximum(near - reach, 0.0))
    high = np.where(unknown, both, np.minimum(far + reach, both))
    start, step = _grid(low, high)
    width = int(np.ceil((high - start + 1.0) / step).max())
    points = np.minimum(start[:, None] + step[:, None] * np.arange(width), both[:, None])
    middle = np.minimum(points + np.floor((step[:, None] - 1.0) / 2), both[:, None])
    rest = both[:, None] - middle
    weights = _log_prior(middle, alpha) + _log_prior(rest, alpha)
    weights += _log_noise(y[left][:, None] - middle, noisy) + _log_noise(y[right][:, None] - rest, noisy)
    outside = start[:, None] + step[:, None] * np.arange(width) > high[:, None]
    weights[outside] = -np.inf
    chosen = start + step * _pick(weights, generator) + np.floor(generator.random(len(left)) * step)
    value = np.clip(chosen, low, high).astype(np.int64)
    n[left], n[right] = value, (both - value).astype(np.int64)


Bounds = Literal["clip", "redraw"]

"""Rows of the fixed sample that answers marginals with several numbers."""
_TRIES = 50
_MEAN_DRAWS = 40


@dataclass(frozen=True, eq=False)
class LocationEvidence:
    """The released statistics behind a location model, and how to read them.

    Parameters
    ----------
    counts
        Noisy counts of the cells; ``None`` for a single cell whose number of records is known.
    total
        The number of records where it is known.
    alpha
        Prior weight of each cell in records.
    gaussian
        Noisy sums and second moments, where there are numbers.
    aware
        Whether draws take the noise into account; otherwise the release is taken at its word, as in paper DIPS.
    """

    counts: Statistic | None
    total: int | None
    alpha: float
    gaussian: GaussianEvidence | None
    aware: bool

    def counts_drawn(self, cells: int, generator: np.random.Generator) -> Floats:
        """Return counts of the cells: a draw, or the release itself."""
        if self.counts is None:
            return np.full(cells, float(self.total or 0))
        if not self.aware:
            return naive_counts(self.counts, total=self.total)
        drawn = plausible_counts(self.counts, alpha=self.alpha, total=self.total, generator=generator)
        return drawn.astype(np.float64)


@dataclass(frozen=True, eq=False)
class LocationModel(Simulated):
    """Probabilities of the cells, and normal numbers within each.

    Parameters
    ----------
    mixed
        Which columns are cells and which numbers.
    shares
        Probability of each cell, flat.
    parameters
        Means and covariance of the numbers, if there are any.
    total
        Expected number of records.
    evidence
        What the parameters were learnt from, so that they can be drawn again.
    bounds
        What happens to a number beyond the ends of its column: ``"clip"`` to the end, or ``"redraw"`` the numbers of
        the record.

    Examples
    --------
    >>> from understudy.engine.distributions.product import Factor
    >>> mixed = Mixed(Domain(("a",), (2,)), (Factor("a", np.arange(2)),), ())
    >>> noisy = Statistic("counts", np.array([30.0, 10.0]), "laplace", 1.0)
    >>> statistics = LocationEvidence(noisy, None, 0.5, None, True)
    >>> model = LocationModel.learn(mixed, statistics, np.random.default_rng(0), parameters="mean")
    >>> model.marginals([("a",)])[0].round()
    array([30., 10.])
    """

    mixed: Mixed
    shares: Floats
    parameters: GaussianParameters | None
    total: float
    evidence: LocationEvidence
    bounds: Bounds = "clip"
    kind: str = "parametric-location"

    @property
    def domain(self) -> Domain:
        """The columns it speaks of."""
        return self.mixed.domain

    @classmethod
    def learn(
        cls,
        mixed: Mixed,
        evidence: LocationEvidence,
        generator: np.random.Generator,
        *,
        parameters: Literal["draw", "mean"],
        bounds: Bounds = "clip",
    ) -> LocationModel:
        """Return the model with parameters drawn from their posterior, or at their posterior means."""
        cells = mixed.cells
        draws = _MEAN_DRAWS if parameters == "mean" and evidence.aware else 1
        counts = [evidence.counts_drawn(cells, generator) for _ in range(draws)]
        average = np.mean(counts, axis=0).ravel()
        rows = float(average.sum()) if evidence.total is None else float(evidence.total)
        if evidence.counts is None:
            shares = np.ones(1)
        elif parameters == "mean":
            shares = (average + evidence.alpha) / (average.sum() + evidence.alpha * cells)
        else:
            shares = draw_probabilities(average, evidence.alpha, generator)
        learnt = None
        if evidence.gaussian is not None:
            if not evidence.aware:
                learnt = naive_gaussian(evidence.gaussian, average, generator)
            elif parameters == "mean":
                learnt = mean_gaussian(evidence.gaussian, average, generator)
            else:
                learnt = draw_gaussian(evidence.gaussian, average, generator)
        return cls(mixed, shares.ravel(), learnt, max(1.0, rows), evidence, bounds)

    def posterior(self, generator: np.random.Generator) -> LocationModel:
        """Return the model with parameters of a new draw from the posterior, given the same release."""
        drawn = LocationModel.learn(
            self.mixed, self.evidence, generator, parameters="draw", bounds=self.bounds
        )
        return replace(drawn, total=self.total)

    def marginals(self, cliques: Sequence[Clique]) -> list[Floats]:
        """Return expected counts over each clique.

        Exact for cliques with at most one column of numbers; from one fixed sample of records for others,
        and wherever numbers beyond the ends are drawn again.
        """
        means, covariance = self._gaussian
        most = 1 if self.bounds == "clip" else 0
        return [
            self._counted(clique)
            if numbers_in(self.mixed, clique) > most
            else self.total * self.mixed.marginal(clique, self.shares, means, covariance)
            for clique in cliques
        ]

    @property
    def _gaussian(self) -> tuple[Floats, Floats]:
        if self.parameters is None:
            return np.zeros((self.mixed.cells, 0)), np.zeros((0, 0))
        return self.parameters.means, self.parameters.covariance

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records, each independent of the others."""
        cell = draw_cells(self.shares, n, generator)
        means, covariance = self._gaussian
        t = draw_numbers(means[cell], covariance, self.bounds, generator)
        return self.mixed.assemble(cell, t)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of a model file."""
        meta, arrays = self.mixed.to_arrays()
        statistics = self.evidence
        meta |= {
            "total": self.total,
            "bounds": self.bounds,
            "known_total": statistics.total,
            "alpha": statistics.alpha,
            "aware": statistics.aware,
        }
        arrays["shares"] = self.shares
        if statistics.counts is not None:
            meta["counts"] = _plain_facts(statistics.counts)
            arrays["counts"] = statistics.counts.values
        if statistics.gaussian is not None and self.parameters is not None:
            arrays |= {
                "means": self.parameters.means,
                "covariance": self.parameters.covariance,
                "sums": statistics.gaussian.sums.values,
                "second": statistics.gaussian.second.values,
            }
            meta["sums"], meta["second"] = (
                _plain_facts(statistics.gaussian.sums),
                _plain_facts(statistics.gaussian.second),
            )
            meta["prior"] = [statistics.gaussian.prior_weight, statistics.gaussian.prior_variance]
        return meta, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> LocationModel:
        """Rebuild from the description and arrays of a model file."""
        mixed = Mixed.from_arrays(domain, meta, arrays)
        counts = _statistic(meta["counts"], arrays["counts"]) if "counts" in meta else None
        gaussian, learnt = None, None
        if "sums" in meta:
            weight, variance = meta["prior"]
            gaussian = GaussianEvidence(
                _statistic(meta["sums"], arrays["sums"]),
                _statistic(meta["second"], arrays["second"]),
                mixed.present,
                weight,
                variance,
            )
            learnt = GaussianParameters(arrays["means"], arrays["covariance"])
        statistics = LocationEvidence(counts, meta["known_total"], meta["alpha"], gaussian, meta["aware"])
        return cls(mixed, arrays["shares"], learnt, float(meta["total"]), statistics, meta["bounds"])


def draw_cells(shares: Floats, n: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw cells with the given probabilities, independently."""
    line = np.cumsum(shares)
    point = generator.random(n) * line[-1]
    found = np.minimum(np.searchsorted(line, point, side="right"), len(line) - 1)
    return np.asarray(found, dtype=np.int64)


def draw_numbers(means: Floats, covariance: Floats, bounds: Bounds, generator: np.random.Generator) -> Floats:
    """Draw normal numbers around the given means; with ``"redraw"``, again while one of a record is beyond 1."""
    if covariance.size == 0:
        return np.zeros(means.shape)
    root = np.linalg.cholesky(covariance)
    t = means + generator.standard_normal(means.shape) @ root.T
    if bounds == "redraw":
        for _ in range(_TRIES):
            beyond = np.flatnonzero((np.abs(t) > 1.0).any(axis=1))
            if len(beyond) == 0:
                break
            t[beyond] = means[beyond] + generator.standard_normal((len(beyond), t.shape[1])) @ root.T
    return np.asarray(t, dtype=np.float64)


def _plain_facts(statistic: Statistic) -> list[Any]:
    return [statistic.name, statistic.noise, statistic.scale]


def _statistic(plain: Sequence[Any], values: npt.NDArray[Any]) -> Statistic:
    name, noise, scale = plain
    if not math.isfinite(float(scale)):
        scale = 0.0
    return Statistic(str(name), values, noise, float(scale))
