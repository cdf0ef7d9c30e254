"""What was released: noisy marginals, and statistics that are none (moments, coefficients, redrawn counts, sums of signs)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError
from understudy.schema import Clique

# ----------------------------------------------------------------------------------------
# A noisy marginal with the noise it was given: the only thing engines learn from.

NoiseKind = Literal["gaussian", "laplace"]


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts over one clique.

    Parameters
    ----------
    clique
        The columns, in the order of the domain.
    values
        Noisy counts, one axis per column of the clique. A measurement of the total has the empty
        clique and a zero-dimensional array.
    noise
        Family of the noise: ``"gaussian"`` (rounded or discrete) or ``"laplace"`` (discrete).
    scale
        Its parameter per cell, in rows: ``sigma`` for Gaussian noise, ``b`` for Laplace noise.

    Examples
    --------
    >>> m = Measurement(("sex",), np.array([52, 47]), "laplace", 2.0)
    >>> m.variance
    8.0
    """

    clique: Clique
    values: npt.NDArray[np.float64]
    noise: NoiseKind
    scale: float

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        if values.ndim != len(self.clique):
            raise BudgetError(
                f"A measurement of {self.clique} needs {len(self.clique)} axes; its values have {values.ndim}."
            )
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise BudgetError(f"The noise scale ({self.scale}) of a measurement must be positive and finite.")

    @property
    def variance(self) -> float:
        """Variance of the noise in each cell, in rows squared (exact in the continuous limit)."""
        return self.scale**2 if self.noise == "gaussian" else 2.0 * self.scale**2

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise in each cell, in rows."""
        return math.sqrt(self.variance)

    def __repr__(self) -> str:
        return f"Measurement({self.clique}, {self.noise} scale {self.scale:.4g}, {self.values.size} cells)"


StatisticNoise = Literal["gaussian", "laplace", "mechanism"]


@dataclass(frozen=True, eq=False)
class Statistic:
    """Noisy numbers with the noise they were given, so that inference can take it into account.

    Parameters
    ----------
    name
        What the numbers are, from public facts alone.
    values
        The released numbers, of any shape.
    noise
        ``"gaussian"`` or ``"laplace"`` where independent noise of one scale was added to each number;
        ``"mechanism"`` where the numbers are the output of a mechanism of another form.
    scale
        Parameter of the noise of each number, in the units of the statistic; zero for ``"mechanism"``.

    Examples
    --------
    >>> Statistic("sum of age", np.array([412.0]), "laplace", 2.0).variance
    8.0
    """

    name: str
    values: npt.NDArray[np.float64]
    noise: StatisticNoise
    scale: float = 0.0

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        if self.noise not in ("gaussian", "laplace", "mechanism"):
            raise BudgetError(f"A statistic cannot have noise of kind {self.noise!r}.")
        if (
            not math.isfinite(self.scale)
            or self.scale < 0
            or (self.noise != "mechanism") == (self.scale == 0)
        ):
            raise BudgetError(
                f"The noise scale ({self.scale}) of {self.name!r} does not fit {self.noise} noise."
            )

    @property
    def variance(self) -> float:
        """Variance of the noise of each number; zero where there is no additive noise."""
        return self.scale**2 if self.noise == "gaussian" else 2.0 * self.scale**2

    def __repr__(self) -> str:
        return f"Statistic({self.name!r}, {self.noise} scale {self.scale:.4g}, {self.values.size} numbers)"


@dataclass(frozen=True, eq=False)
class SumsOfSigns(Statistic):
    """Noisy sums of signs: over the rows, the product of the signs of some columns of two values, + for the first value of a column and - for the second.

    Parameters
    ----------
    name, values, noise, scale
        As of any statistic. The numbers have Gaussian noise of a scale each, so ``noise`` is ``"mechanism"`` and ``scale`` zero.
    cliques
        The columns of each number.
    scales
        Standard deviation of the noise of each number, in rows.
    planned
        Whether which sums are measured, with which noise, follows from public facts alone; otherwise it may depend on what was released before.

    Examples
    --------
    >>> sums = SumsOfSigns("sums of signs", np.array([12.0]), "mechanism", cliques=(("smokes", "sex"),), scales=np.array([3.0]))
    >>> sums.places[("smokes", "sex")]
    0
    """

    cliques: tuple[Clique, ...] = ()
    scales: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    planned: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        scales = np.array(self.scales, dtype=np.float64)
        scales.flags.writeable = False
        object.__setattr__(self, "scales", scales)
        if (
            self.noise != "mechanism"
            or self.values.shape != scales.shape
            or scales.shape != (len(self.cliques),)
        ):
            raise BudgetError(f"{self.name!r} needs columns and a noise scale for each of its sums of signs.")
        if len(set(self.cliques)) != len(self.cliques) or not all(self.cliques):
            raise BudgetError(
                f"{self.name!r} must name some columns for each of its sums of signs, never the same twice."
            )
        if not (np.isfinite(scales).all() and (scales > 0).all() and np.isfinite(self.values).all()):
            raise BudgetError(
                f"The sums of signs of {self.name!r} and their noise scales must be finite, and these positive."
            )

    @cached_property
    def places(self) -> dict[Clique, int]:
        """Which number is that of which columns."""
        return {clique: place for place, clique in enumerate(self.cliques)}
