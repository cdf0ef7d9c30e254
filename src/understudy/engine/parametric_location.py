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

from understudy.engine.counted import Simulated
from understudy.engine.parametric_counts import draw_probabilities, naive_counts, plausible_counts
from understudy.engine.parametric_gaussian import (
    GaussianEvidence,
    GaussianParameters,
    draw_gaussian,
    mean_gaussian,
    naive_gaussian,
)
from understudy.engine.parametric_mixed import Codes, Floats, Mixed, numbers_in
from understudy.marginals import Statistic
from understudy.schema import Clique, Domain

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
    >>> from understudy.engine.parametric_mixed import Factor
    >>> mixed = Mixed(Domain(("a",), (2,)), (Factor("a", np.arange(2)),), ())
    >>> noisy = Statistic("counts", np.array([30.0, 10.0]), "laplace", 1.0)
    >>> told = LocationEvidence(noisy, None, 0.5, None, True)
    >>> model = LocationModel.learn(mixed, told, np.random.default_rng(0), parameters="mean")
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
        told = self.evidence
        meta |= {
            "total": self.total,
            "bounds": self.bounds,
            "known_total": told.total,
            "alpha": told.alpha,
            "aware": told.aware,
        }
        arrays["shares"] = self.shares
        if told.counts is not None:
            meta["counts"] = _told(told.counts)
            arrays["counts"] = told.counts.values
        if told.gaussian is not None and self.parameters is not None:
            arrays |= {
                "means": self.parameters.means,
                "covariance": self.parameters.covariance,
                "sums": told.gaussian.sums.values,
                "second": told.gaussian.second.values,
            }
            meta["sums"], meta["second"] = _told(told.gaussian.sums), _told(told.gaussian.second)
            meta["prior"] = [told.gaussian.prior_weight, told.gaussian.prior_variance]
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
        told = LocationEvidence(counts, meta["known_total"], meta["alpha"], gaussian, meta["aware"])
        return cls(mixed, arrays["shares"], learnt, float(meta["total"]), told, meta["bounds"])


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


def _told(statistic: Statistic) -> list[Any]:
    return [statistic.name, statistic.noise, statistic.scale]


def _statistic(told: Sequence[Any], values: npt.NDArray[Any]) -> Statistic:
    name, noise, scale = told
    if not math.isfinite(float(scale)):
        scale = 0.0
    return Statistic(str(name), values, noise, float(scale))
