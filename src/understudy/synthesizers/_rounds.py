"""What the adaptive mechanisms share: the price of a round, and errors measured after the last one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Noise, SealedCounts
from understudy.inference import Certificate
from understudy.privacy import Accounting, Gaussian, Laplace
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


def expected_absolute_noise(noise: Noise) -> float:
    """Return the expected absolute value of the noise in one cell, in rows."""
    return noise.scale if noise.kind == "laplace" else noise.scale * math.sqrt(2 / math.pi)


def certify(
    curator: Curator,
    sealed: Mapping[Clique, SealedCounts],
    cliques: Sequence[Clique],
    answers: Sequence[npt.NDArray[np.float64]],
    cost: float,
) -> Certificate:
    """Measure how far a finished model is from the records, marginal by marginal.

    Privacy
    -------
    One number per clique: its L1 distance to the model's public answer, which one unit changes by at most
    ``l1``. The numbers share ``cost`` equally and are charged one by one, before each is drawn.
    """
    if not cliques:
        return Certificate((), np.zeros(0), "gaussian", 1.0)
    # a scalar is rounded to a grid of 2**-20 of its sensitivity, which adds that much to what is charged
    share = curator.accounting.split(cost * (1 - 2.0**-16), [1.0] * len(cliques))[0]
    l1 = float(curator.unit.histogram_l1)
    pure = curator.accounting.name == "pure"
    noise: Noise
    if pure:
        noise = Laplace(curator.accounting.laplace_scale(share, l1))
    else:
        noise = Gaussian(curator.accounting.gaussian_sigma(share, l1))
    values = [
        curator.measure_scalar(
            sealed[clique].l1_distance(answer), noise=noise, purpose="certify the error of a marginal"
        )
        for clique, answer in zip(cliques, answers, strict=True)
    ]
    return Certificate(tuple(cliques), np.array(values), "laplace" if pure else "gaussian", noise.scale)
