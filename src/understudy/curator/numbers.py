"""Vectors of whole numbers under seal that are no marginals, and the one way to open them.

Moments, coefficients and correlations are sealed where they are computed, with a proof of how far one unit moves them;
from then on they are the same thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.curator.curator import Curator
from understudy.curator.sealed import Sealed
from understudy.errors import BudgetError
from understudy.marginals import Statistic
from understudy.privacy import Accounting, Noise
from understudy.privacy.noise.noise import noise_within

__all__ = ["Reach", "SealedNumbers", "measure_numbers"]


@dataclass(frozen=True)
class Reach:
    """The most that one unit can move a vector of numbers, in L1 and in L2; public."""

    l1: float
    l2: float

    def noise(self, accounting: Accounting, cost: float) -> Noise:
        """Return the noise of each number at a cost: Laplace under pure accounting, else Gaussian."""
        return noise_within(accounting, cost, l1=self.l1, l2=self.l2)


class SealedNumbers(Sealed):
    """Numbers on a grid, and how far one unit moves them.

    Attributes
    ----------
    name, size, step, reach
        What they are, how many, the step of the grid, the sensitivities (in the unit of the numbers, not in steps). Public.
    """

    __slots__ = ("_exact", "name", "reach", "size", "step")

    def __init__(self, exact: npt.NDArray[np.int64], *, name: str, reach: Reach, step: float = 1.0) -> None:
        self._exact = exact  # in steps
        self.name, self.size, self.step, self.reach = name, int(exact.size), step, reach

    def __repr__(self) -> str:
        return f"SealedNumbers({self.name!r}, {self.size} numbers, l1={self.reach.l1:g})"


def measure_numbers(
    curator: Curator, sealed: Sequence[SealedNumbers], *, noise: Sequence[Noise], purpose: str
) -> list[Statistic]:
    """Add independent noise to every number of some vectors and charge for all of them first.

    Returns
    -------
    list of Statistic
        One per vector, in its shape and unit.

    Privacy
    -------
    In: private. Out: releasable. In steps each vector holds whole numbers that neighbours change by at most ``l1 / step`` in L1 and
    ``l2 / step`` in L2, as proved where it was sealed:
    :func:`~understudy.mechanisms.parametric.look.seal_moments` (a row adds its products, each between -1 and 1, to the sums of one cell),
    :func:`~understudy.mechanisms.parametric.copula.look.seal_concordance`, :func:`~understudy.mechanisms.histograms.transforms.look.linear_coefficients`,
    :func:`~understudy.mechanisms.histograms.transforms.look.fourier_coefficients`, :func:`~understudy.mechanisms.histograms.transforms.look.kernel_sums`. Discrete Laplace noise of scale
    ``b / step`` on each number is ``l1/b``-DP. The rounded Gaussian of scale ``sigma / step`` is the Gaussian mechanism followed by
    rounding, so ``l2/sigma``-GDP; the discrete Gaussian has its zCDP bound. A step is a power of two, so scales and sensitivities have the
    same ratio in steps and in the unit of the numbers, and the ledger records them in that unit. Vectors compose; the charge of their
    sum is committed before the first draw.
    """
    if len(sealed) != len(noise):
        raise BudgetError(f"Need one noise per vector of numbers; got {len(noise)} for {len(sealed)}.")
    if not sealed:
        return []
    pairs = list(zip(sealed, noise, strict=True))
    # in whole steps; a scale divided by a power of two is exact
    scaled = [type(kind)(kind.scale / item.step) for item, kind in pairs]
    drawn = curator._answer(
        *(kind.event(l1=item.reach.l1, l2=item.reach.l2) for item, kind in pairs),
        purpose=purpose,
        about=[[item.name, item.size, item.step] for item, _ in pairs],
        draw=lambda: [
            item._exact + kind.draw(item._exact.shape, curator._randomness)
            for item, kind in zip(sealed, scaled, strict=True)
        ],
    )
    return [
        Statistic(item.name, np.asarray(steps, dtype=np.float64) * item.step, kind.kind, kind.scale)
        for (item, kind), steps in zip(pairs, drawn, strict=True)
    ]
