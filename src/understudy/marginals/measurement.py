"""A noisy marginal with the noise it was given: the only thing engines learn from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError
from understudy.schema import Clique

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
