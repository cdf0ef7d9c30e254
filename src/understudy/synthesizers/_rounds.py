"""What the adaptive mechanisms share: the price of a round, and the record of one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.curator import Noise
from understudy.marginals import Measurement
from understudy.privacy import Accounting
from understudy.schema import Clique


@dataclass(frozen=True)
class RoundCost:
    """What one round may spend on measuring and on choosing, in the additive unit of an accounting."""

    measure: float
    select: float

    @property
    def total(self) -> float:
        """Cost of the whole round."""
        return self.measure + self.select

    def annealed(self, accounting: Accounting) -> RoundCost:
        """Halve the noise and double epsilon (Algorithm 4 of paper AIM).

        That doubles a pure cost and quadruples a cost that grows with the square of epsilon.
        """
        factor = 2.0 if accounting.name == "pure" else 4.0
        return RoundCost(self.measure * factor, self.select * factor)


@dataclass(frozen=True, eq=False)
class Round:
    """What one adaptive round released, and the public facts its error bounds need."""

    clique: Clique
    answer: npt.NDArray[np.float64]
    measurement: Measurement
    epsilon: float
    candidates: tuple[Clique, ...]
    largest_weight: float


def expected_absolute_noise(noise: Noise) -> float:
    """Return the expected absolute value of the noise in one cell, in rows."""
    return noise.scale if noise.kind == "laplace" else noise.scale * math.sqrt(2 / math.pi)
