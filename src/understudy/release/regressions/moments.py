"""A private linear regression from noisy moments, for the published form of criteria about regressions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError
from understudy.release.record_types import RecordTypes
from understudy.release.regressions.certificates import STEPS, whole_sums
from understudy.release.regressions.fits import LinearFit, Regression, Scaling

if TYPE_CHECKING:
    from understudy.privacy import Unit

__all__ = ["RegressionMoments"]

Floats = npt.NDArray[np.float64]

_SMALLEST_EIGENVALUE = 1e-4  # of the Gram matrix per row, in units where features lie in [-1, 1]


@dataclass(frozen=True, eq=False)
class RegressionMoments:
    """The sums that determine a least-squares fit, each bounded, to be measured with Laplace noise.

    Features and target are brought to ``[-1, 1]`` by their public ranges. The squared loss is a polynomial in
    the coefficients whose own coefficients are the sums over records of ``z_i z_j`` and ``z_i y``, with
    ``z = (1, features)``; perturbing these and minimising is the functional mechanism of Zhang et al. (2012),
    which paper Births uses. Unlike there, every sum has its own exact range instead of a common bound.

    Privacy
    -------
    `exact` is private, `fit` is post-processing of noisy moments. A moment is a sum over records of a number
    between public bounds, so replacing a row changes it by at most their difference and adding or removing a
    row by at most the larger absolute value; ``k`` rows change it ``k`` times as much (with zero included where
    a replaced row may be one that does not count). Products are rounded to whole multiples of ``2**-30`` before they are multiplied by a count, and
    the bounds are those of the rounded products, so sums are exact. Laplace noise of scale ``sensitivity * count / epsilon``
    on each of the ``count`` moments costs ``epsilon`` in total. The number of rows enters as a public
    constant unless some codes have no value, in which case the number of rows that count is a moment too.

    Examples
    --------
    >>> from understudy.release.regressions.fits import Feature
    >>> from understudy.schema import Domain
    >>> line = Regression(Feature("y", (0.0, 1.0, 2.0)), (Feature("x", (0.0, 1.0, 2.0)),))
    >>> moments = RegressionMoments(line)
    >>> real = RecordTypes(Domain(("x", "y"), (3, 3)), [[0, 0], [1, 1], [2, 2]], [100, 100, 100])
    >>> moments.names
    ('x', 'x * x', 'y', 'x * y')
    >>> fit = moments.fit(moments.exact(real), n=300)
    >>> round(fit.intercept, 9) + 0.0, round(fit.slopes[0], 9)
    (0.0, 1.0)
    """

    regression: Regression

    @property
    def scaling(self) -> Scaling:
        """The public scaling of the features to ``[-1, 1]``."""
        low, high = np.transpose([feature.bounds for feature in self.regression.features])
        return Scaling(low / 2 + high / 2, np.where(high > low, high / 2 - low / 2, 1.0))

    @property
    def _target_scaling(self) -> tuple[float, float]:
        low, high = self.regression.target.bounds
        return low / 2 + high / 2, high / 2 - low / 2 if high > low else 1.0

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """Index pairs of the Gram matrix that are moments; the target is the last index."""
        p = len(self.regression.features) + 1
        gram = [(i, j) for i in range(p) for j in range(i, p)]
        first = 0 if self.regression.has_gaps else 1
        return gram[first:] + [(i, p) for i in range(p)]

    @property
    def names(self) -> tuple[str, ...]:
        """A public name for each moment."""
        labels = ["", *self.regression.columns]
        return tuple(
            " * ".join(part for part in (labels[i], labels[j]) if part) or "rows" for i, j in self._pairs
        )

    def exact(self, real: RecordTypes) -> list[Fraction]:
        """Return the moments of a table. Private."""
        x, y, counts = self.regression.rows(real)
        middle, width = self._target_scaling
        z = np.concatenate([self.scaling.design(x), (y[:, None] - middle) / width], axis=1)
        products = np.stack([_whole(z[:, i] * z[:, j]) for i, j in self._pairs], axis=1)
        return [Fraction(total, STEPS) for total in whole_sums(counts, products).tolist()]

    def sensitivities(self, unit: Unit) -> Floats:
        """Return the most that one unit can change each moment."""
        sizes = [feature.values for feature in (*self.regression.features, self.regression.target)]
        middle, width = self._target_scaling
        scaling = self.scaling
        levels = [np.ones(1)]
        for index, values in enumerate(sizes):
            array = np.asarray(values)[np.isfinite(values)]
            centre = middle if index == len(sizes) - 1 else scaling.centre[index]
            spread = width if index == len(sizes) - 1 else scaling.width[index]
            levels.append((array - centre) / spread)
        bounds = []
        for i, j in self._pairs:
            products = _whole(levels[i] * levels[i] if i == j else np.multiply.outer(levels[i], levels[j]))
            low, high = int(products.min()), int(products.max())
            if unit.relation == "add-remove":
                bounds.append(max(abs(low), abs(high)))
            elif unit.max_rows > 1 or self.regression.has_gaps:
                bounds.append(max(0, high) - min(0, low))
            else:
                bounds.append(high - low)
        return unit.max_rows * np.array(bounds) / STEPS  # whole numbers below 2**53, so this is exact

    def noise_scales(self, epsilon: float, unit: Unit) -> Floats:
        """Return the Laplace scale of each moment for a total cost of ``epsilon``.

        Equal shares; a moment that nobody can change (the square of a feature with two values) needs none.
        """
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise BudgetError(f"epsilon ({epsilon}) of a regression must be positive and finite.")
        sensitivities = self.sensitivities(unit)
        return sensitivities * np.count_nonzero(sensitivities) / epsilon

    def fit(self, moments: npt.ArrayLike, *, n: int) -> LinearFit:
        """Return the fit to noisy moments. Post-processing.

        Noise may make the Gram matrix indefinite; its eigenvalues are raised to a small positive number.
        """
        values = np.asarray(moments, dtype=np.float64)
        p = len(self.regression.features) + 1
        products = np.zeros((p + 1, p + 1))
        products[0, 0] = n
        for (i, j), value in zip(self._pairs, values, strict=True):
            products[i, j] = products[j, i] = value
        eigenvalues, vectors = np.linalg.eigh(products[:p, :p])
        eigenvalues = np.maximum(eigenvalues, _SMALLEST_EIGENVALUE * n)
        coefficients = vectors @ ((vectors.T @ products[:p, p]) / eigenvalues)
        middle, width = self._target_scaling
        coefficients = coefficients * width
        coefficients[0] += middle
        return LinearFit.from_units(coefficients, self.scaling)

    def noise_quantiles(
        self,
        public: RecordTypes,
        *,
        epsilon: float,
        unit: Unit,
        draws: int = 200,
        quantiles: tuple[float, ...] = (0.1, 0.5, 0.9),
        seed: int = 0,
    ) -> Floats:
        """Return quantiles of the L1 error of standardised coefficients that the noise alone would cause.

        A rehearsal on a public table (a candidate, or simulated data): it says before any budget is spent
        whether a threshold on the coefficients can be told from noise.
        """
        scaling = self.regression.scaling(public)
        if scaling is None:
            raise BudgetError(
                "The public table has a feature that does not vary; no regression can be rehearsed."
            )
        generator = np.random.default_rng(seed)
        exact, scales = np.array(self.exact(public), dtype=np.float64), self.noise_scales(epsilon, unit)
        truth = self.fit(exact, n=public.rows).in_units(scaling)
        errors = [
            np.abs(
                self.fit(exact + generator.laplace(0.0, scales), n=public.rows).in_units(scaling) - truth
            ).sum()
            for _ in range(draws)
        ]
        return np.asarray(np.quantile(errors, quantiles))


def _whole(products: Floats) -> npt.NDArray[np.int64]:
    """Return numbers of at most one in size as whole steps."""
    return np.rint(np.clip(np.nan_to_num(products), -1.0, 1.0) * STEPS).astype(np.int64)
