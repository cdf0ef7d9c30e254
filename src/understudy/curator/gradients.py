"""Noisy gradients on random batches: the private part of training a network (DP-SGD, Abadi et al. 2016).

The curator holds the records. In each step it flips a coin of its own for every record (Poisson sampling, really done), adds up the
clipped gradients of those that came up, and adds whole-number Gaussian noise. The network is given with each step; it is public, because it is
a function of earlier noisy gradients. What is charged is all steps together, and the one-way marginals that
are measured beside them, once, before the first coin.

Privacy
-------
In: private. Out: releasable. With public ``rate`` and noise multiplier ``z``:

- *Coins.* Gaps between the records of a batch are independent geometric numbers, drawn exactly, which is the same as independent coins. Their
  probability is at most ``rate``. Coins do not depend on what the records hold, nor on a condition.
- *Contributions.* A record contributes a vector of whole numbers of norm at most ``reach`` that depends on nothing but the
  record, its coins and the public network (:mod:`understudy.curator._exact_network`). The condition shown beside a record repeats one of its own columns,
  chosen by a coin: records are not chosen to fit a condition.
- *Noise.* The rounded Gaussian with ``sigma = z reach`` on a vector of whole numbers is a post-processing of the continuous Gaussian mechanism.

So one step is the mechanism that :mod:`understudy.privacy.subsampled` analyses, with ``rows = max_rows`` of the unit and one or two sides. Steps are
adaptive in the network only; rate, noise and number are fixed when they are charged. Marginals are histograms with Gaussian noise and
compose with them in the same analysis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator._exact_network import Critic, Weights
from understudy.curator._paid import Paid, check_fit, check_noises, read_codes
from understudy.curator.curator import Curator
from understudy.errors import BudgetError
from understudy.privacy import (
    Approximated,
    Gaussian,
    GaussianEvent,
    Geometric,
    Randomness,
    SubsampledGaussianEvent,
    Unit,
    approximated,
    approximated_delta,
)

__all__ = ["Training", "TrainingPlan", "open_training"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_LARGEST_MULTIPLIER = 2_000.0


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """What will be drawn: noisy gradients, and marginals beside them. Public.

    Attributes
    ----------
    critic
        The network, without its weights.
    rate
        Probability with which a record enters a batch.
    noise_multiplier
        Standard deviation of the noise, in largest contributions of one record.
    steps
        Number of batches.
    marginals
        Noise of the one-way marginals, one per column, or nothing.

    Examples
    --------
    >>> from understudy.curator.encoding import Layout
    >>> critic = Critic(Layout((2, 3), (np.arange(2), np.arange(3))), (4,), "cross_entropy", 1.0)
    >>> plan = TrainingPlan(critic, 0.05, 4.0, 100, ())
    >>> round(plan.event(Unit.add_remove(), delta=1e-6).epsilon, 2)
    0.54
    """

    critic: Critic
    rate: float
    noise_multiplier: float
    steps: int
    marginals: tuple[Gaussian, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise BudgetError(f"The rate of a batch ({self.rate}) must lie between 0 and 1.")
        if not 0 < self.noise_multiplier <= _LARGEST_MULTIPLIER:
            raise BudgetError(
                f"noise_multiplier ({self.noise_multiplier:.4g}) must be positive and at most {_LARGEST_MULTIPLIER:g}: more "
                "noise than that leaves nothing to learn from. Use a larger budget or fewer epochs."
            )
        if self.steps < 1:
            raise BudgetError(f"Training needs at least one step, not {self.steps}.")
        check_noises(self.critic.layout, self.marginals)
        if not all(isinstance(noise, Gaussian) for noise in self.marginals):
            raise BudgetError(
                "Marginals beside a training have Gaussian noise: the accountant composes nothing else with it."
            )

    def measured(self, unit: Unit) -> tuple[GaussianEvent, ...]:
        """Return what the marginals are, as events."""
        return tuple(noise.event(l1=unit.histogram_l1, l2=unit.histogram_l2) for noise in self.marginals)

    def sampled(self, unit: Unit) -> SubsampledGaussianEvent:
        """Return what the steps are, as an event."""
        sides = 1 if unit.relation == "add-remove" else 2
        return SubsampledGaussianEvent(self.rate, self.noise_multiplier, self.steps, unit.max_rows, sides)

    def drawn(self, unit: Unit) -> tuple[GaussianEvent | SubsampledGaussianEvent, ...]:
        """Return all that will be drawn, as events."""
        return (*self.measured(unit), self.sampled(unit))

    def event(self, unit: Unit, *, delta: float) -> Approximated:
        """Return everything as one event, with the epsilon that the accountant finds at ``delta``."""
        return approximated(self.drawn(unit), delta=delta)


def open_training(curator: Curator, plan: TrainingPlan, *, event: Approximated, purpose: str) -> Training:
    """Charge for a whole training and return the door to its steps.

    Parameters
    ----------
    event
        What ``plan.event`` returned for the curator's unit, or the same acts with a larger epsilon or delta.

    Privacy
    -------
    In: private. Out: under seal; see the head of this module. The two numbers that are charged are not taken on trust: the
    accountant must find that the acts keep them.
    """
    drawn = plan.drawn(curator.unit)
    if event.events != drawn:
        raise BudgetError("The event to be charged is not the one of this plan and unit.")
    check_fit(curator, plan.critic.layout)
    if approximated_delta(drawn, event.epsilon) > event.delta:
        raise BudgetError(
            f"This training does not keep epsilon={event.epsilon:.6g} at delta={event.delta:.3g}, which was to be charged for it."
        )
    curator._pay(event, purpose=purpose)
    return Training(curator, plan)


class Training(Paid):
    """A training that has been paid for: so many steps and no more. Holds records, so it can be neither copied nor shown.

    Privacy
    -------
    In: private. Out: noisy marginals and noisy sums of gradients, as charged by :func:`open_training`.
    """

    __slots__ = ("_codes", "_left", "_plan")

    def __init__(self, curator: Curator, plan: TrainingPlan) -> None:
        super().__init__(curator, plan.marginals)
        self._plan = plan
        self._codes: npt.NDArray[Any] | None = None
        self._left = plan.steps

    @property
    def steps_left(self) -> int:
        """How many steps have been paid for and not taken."""
        return self._left

    def step(self, weights: Weights) -> list[Floats]:
        """Return the noisy sum of the gradients of one random batch, by layer, the constants last.

        Privacy
        -------
        In: private. Out: releasable, one of the steps that :func:`open_training` charged for (head of this module): fresh coins choose
        the batch, each record of it adds a vector of whole numbers of norm at most ``reach``, and every component gets fresh rounded
        Gaussian noise of ``noise_multiplier`` times ``reach``. The network is public.
        """
        if self._left < 1:
            raise BudgetError(f"All {self._plan.steps} steps that were paid for have been taken.")
        self._left -= 1
        if self._codes is None:
            self._codes = read_codes(self._table)
        critic = self._plan.critic
        batch = poisson_batch(len(self._codes), self._plan.rate, self._randomness)
        codes = self._codes[batch]
        columns = np.uint64(len(critic.layout.sizes))
        shown = (self._randomness.words(len(batch)) % columns).astype(np.int64)
        exact = critic.gradients(weights, codes, shown, real=True)
        noise = Gaussian(self._plan.noise_multiplier * critic.reach)
        drawn = noise.draw((critic.parameters,), self._randomness)
        found, start = [], 0
        for layer in exact:
            part = drawn[start : start + layer.size].reshape(layer.shape)
            found.append((layer + part).astype(np.float64) * critic.unit)
            start += layer.size
        return found


def poisson_batch(rows: int, rate: float, randomness: Randomness) -> Ints:
    """Return the places of the rows whose coin came up, each with probability at most ``rate`` and independently.

    Where gaps are geometric with ``P(gap >= k) = exp(-k/s)``, coins are independent with probability ``1 - exp(-1/s)``. The
    scale ``s`` is chosen so that this is ``rate`` less one part in 2^40, which covers how ``s`` itself is rounded.

    Examples
    --------
    >>> from understudy.privacy import SeededRandomness
    >>> poisson_batch(5, 1.0, SeededRandomness(1))
    array([0, 1, 2, 3, 4])
    """
    if rate >= 1:
        return np.arange(rows, dtype=np.int64)
    gaps = Geometric(-1.0 / math.log1p(-rate * (1 - 2.0**-40)))
    pieces: list[Sequence[int] | Ints] = []
    last = -1
    while last < rows:
        expected = rate * (rows - last)
        drawn = last + np.cumsum(gaps.draw(int(expected + 4 * math.sqrt(expected)) + 8, randomness) + 1)
        pieces.append(drawn)
        last = int(drawn[-1])
    places = np.concatenate(pieces).astype(np.int64)
    return places[places < rows]
