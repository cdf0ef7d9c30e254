"""What is under seal and is no marginal: vectors of whole numbers, and counts of keys that nobody listed; and the one way to open each.

Moments, coefficients and correlations are sealed where they are computed, with a proof of how far one unit moves them;
from then on they are the same thing. Keys are private until they are released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.curator.curator import Curator
from understudy.curator.sealed import Sealed, require_seals
from understudy.errors import BudgetError
from understudy.marginals import Statistic
from understudy.privacy import Accounting, Gaussian, Laplace, Noise, Unit
from understudy.privacy.events import Thresholded
from understudy.privacy.noise.noise import noise_within
from understudy.privacy.noise.thresholds import seen_alone, threshold_for
from understudy.privacy.own import own, own_noise

__all__ = [
    "LONGEST_KEY",
    "Reach",
    "ReleasedKeys",
    "SealedKeys",
    "SealedNumbers",
    "measure_numbers",
    "release_keys",
    "usable_key",
]

LONGEST_KEY = 60
"""Longer texts are never released as keys."""


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
        self.name, self.size, self.step, self.reach = name, int(exact.size), step, own(reach, Reach)

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
    sealed, noise = list(sealed), [own_noise(kind) for kind in noise]
    if len(sealed) != len(noise):
        raise BudgetError(f"Need one noise per vector of numbers; got {len(noise)} for {len(sealed)}.")
    if not sealed:
        return []
    require_seals(sealed, SealedNumbers)
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


def usable_key(text: str) -> bool:
    """Whether a text may be a key: by a public rule about this text alone, its length and its characters.

    Examples
    --------
    >>> usable_key("north"), usable_key("a\\tb"), usable_key("x" * 61), usable_key("")
    (True, False, False, False)
    """
    return 0 < len(text) <= LONGEST_KEY and text.isprintable()


class SealedKeys(Sealed):
    """How many rows hold each of some texts; which texts there are is private too.

    Parameters
    ----------
    exact
        Rows per text, each row counted under one text at most; texts that are no keys (`usable_key`) and texts without rows are left out. Private.
    name, unit
        What the texts are, and who is protected. The rows are limited to the unit's rows per person. Public.

    Privacy
    -------
    In: private. Out: nothing. A row is counted under one key or none, by its own text alone. So the counts over any fixed set of keys are cells of a
    histogram, which a unit moves by at most `Unit.histogram_l1` in L1 and `Unit.histogram_l2` in L2; and a unit alone holds at most as many keys as it has rows.
    """

    __slots__ = ("_exact", "name", "unit")

    def __init__(self, exact: Mapping[str, int], *, name: str, unit: Unit) -> None:
        self._exact = {text: int(many) for text, many in exact.items() if many > 0 and usable_key(text)}
        self.name, self.unit = name, unit

    def __repr__(self) -> str:
        return f"SealedKeys({self.name!r})"


@dataclass(frozen=True)
class ReleasedKeys:
    """Keys whose noisy counts reached a threshold. Released.

    Attributes
    ----------
    name
        What the keys are.
    counts
        The noisy count of each, in the order of the keys.
    threshold, noise
        What a noisy count had to reach, and the noise.
    """

    name: str
    counts: Mapping[str, int]
    threshold: int
    noise: Noise


def release_keys(
    curator: Curator,
    sealed: Sequence[SealedKeys],
    *,
    noise: Sequence[Noise],
    deltas: Sequence[float],
    purpose: str,
) -> list[ReleasedKeys]:
    """Release the keys whose noisy counts reach a threshold, for several sets of keys, and charge for all of them first.

    Parameters
    ----------
    sealed
        Rows per key. Private.
    noise
        Of each set: `Gaussian` or `Laplace`.
    deltas
        The most probable it may be, for each set, that a key of one unit alone is released. Paid from the reserve.

    Privacy
    -------
    In: private. Out: keys and whole numbers. The thresholds are computed from public facts before anything is drawn; the proof of what they are worth is at the head of
    :mod:`understudy.privacy.noise.thresholds`, and :class:`~understudy.privacy.events.Thresholded` says it to the ledger. Every key that occurs gets its own noise, whatever
    its count is, and the keys are listed in their own order, not that of the records.
    """
    sealed, noise, deltas = list(sealed), list(noise), [float(delta) for delta in deltas]
    require_seals(sealed, SealedKeys)
    if not len(sealed) == len(noise) == len(deltas):
        raise BudgetError(
            f"Need one noise and one delta per set of keys; got {len(noise)} and {len(deltas)} for {len(sealed)}."
        )
    if not sealed:
        return []
    unit = curator.unit
    if any(item.unit != unit for item in sealed):
        raise BudgetError("The keys were sealed for another unit than the curator protects.")
    kinds: list[Gaussian | Laplace] = []
    for kind in noise:
        if not isinstance(kind, Gaussian | Laplace):
            raise BudgetError("Keys are released with Gaussian or Laplace noise.")
        kinds.append(own(kind, Gaussian, Laplace))
    thresholds = [threshold_for(kind, unit, delta) for kind, delta in zip(kinds, deltas, strict=True)]
    events = [
        Thresholded(
            seen_alone(kind, least, unit), least, (kind.event(l1=unit.histogram_l1, l2=unit.histogram_l2),)
        )
        for kind, least in zip(kinds, thresholds, strict=True)
    ]

    def draw() -> list[list[list[object]]]:
        found: list[list[list[object]]] = []
        for item, kind, least in zip(sealed, kinds, thresholds, strict=True):
            keys = sorted(item._exact)
            exact = np.array([item._exact[key] for key in keys], dtype=np.int64)
            noisy = exact + kind.draw(exact.shape, curator._randomness)
            found.append([[key, int(many)] for key, many in zip(keys, noisy, strict=True) if many >= least])
        return found

    drawn = curator._answer(
        *events, purpose=purpose, about=[[item.name, "keys"] for item in sealed], draw=draw
    )
    return [
        ReleasedKeys(item.name, {str(key): int(many) for key, many in pairs}, least, kind)
        for item, kind, least, pairs in zip(sealed, kinds, thresholds, drawn, strict=True)
    ]
