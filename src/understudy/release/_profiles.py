"""Privacy profiles of one attempt: what is known about pairs of outcome distributions of neighbouring tables."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr, ndtri

from understudy.errors import BudgetError
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP

__all__ = ["ApproxProfile", "GaussianProfile", "Profile", "ZcdpProfile", "profile_of"]

Floats = npt.NDArray[np.float64]

_SAFETY = 1e-12  # relative allowance for rounding, always upwards


class Profile(ABC):
    """For every ``epsilon`` the smallest known ``delta`` of one attempt, valid in both directions."""

    @abstractmethod
    def delta(self, epsilon: Floats) -> Floats:
        """Return an upper bound on ``sup_E Q(E) - exp(epsilon) Q'(E)``, for any real ``epsilon``."""

    @abstractmethod
    def largest(self, p: Floats) -> Floats:
        """Return an upper bound on ``Q'(E)`` over events with ``Q(E) <= p``; it rises in ``p``."""


@dataclass(frozen=True)
class ApproxProfile(Profile):
    """``(epsilon, delta)``-DP; pure DP where ``delta`` is zero.

    Among all such pairs the worst is: with probability ``delta`` reveal the table, otherwise randomised response
    with odds ``exp(epsilon)`` (Kairouz, Oh, Viswanath 2015). Its profile is
    ``delta + (1 - delta) (e^eps - e^t)/(1 + e^eps)`` for ``0 <= t <= eps``, and ``delta`` beyond.
    """

    epsilon_one: float
    delta_one: float = 0.0

    def delta(self, epsilon: Floats) -> Floats:
        """Return the profile; for negative arguments by ``delta(-t) = 1 - e^-t + e^-t delta(t)``."""
        t = np.abs(epsilon)
        top = -np.expm1(t - self.epsilon_one) / (1 + math.exp(-self.epsilon_one))
        positive = self.delta_one + (1 - self.delta_one) * np.maximum(0.0, top)
        return _reflected(epsilon, positive)

    def largest(self, p: Floats) -> Floats:
        """Return ``min(1, e^eps p + delta, 1 - e^-eps (1 - p - delta))``."""
        up = math.exp(self.epsilon_one) * p + self.delta_one
        down = 1 - math.exp(-self.epsilon_one) * (1 - p - self.delta_one)
        return np.asarray(np.minimum(1.0, np.minimum(up, down) * (1 + _SAFETY)))


@dataclass(frozen=True)
class GaussianProfile(Profile):
    """``mu``-GDP: no easier to tell apart than N(0, 1) from N(mu, 1) (Dong, Roth, Su 2022)."""

    mu: float

    def delta(self, epsilon: Floats) -> Floats:
        """Return ``Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)``."""
        first = ndtr(-epsilon / self.mu + self.mu / 2)
        second = np.exp(np.minimum(epsilon + log_ndtr(-epsilon / self.mu - self.mu / 2), 0.0))
        # the difference of two nearly equal numbers: allow for the rounding of the larger one
        rounded = 8 * np.finfo(np.float64).eps * first
        return np.asarray(np.minimum(1.0, np.maximum(0.0, first - second) + rounded))

    def largest(self, p: Floats) -> Floats:
        """Return ``Phi(Phi^-1(p) + mu)``."""
        return np.asarray(np.minimum(1.0, ndtr(ndtri(p) + self.mu) * (1 + _SAFETY)))


@dataclass(frozen=True)
class ZcdpProfile(Profile):
    """``rho``-zCDP, through the conversion of Canonne, Kamath and Steinke (2020, Corollary 13)."""

    rho: float

    def delta(self, epsilon: Floats) -> Floats:
        """Return the smallest ``e^((a-1)(a rho - eps)) (1 - 1/a)^a / (a - 1)`` over a list of orders ``a``."""
        t = np.abs(np.atleast_1d(np.asarray(epsilon, dtype=np.float64)))[..., None]
        orders = 1 + np.geomspace(1e-3, 1e6, 600)
        exponent = (orders - 1) * (orders * self.rho - t)
        exponent = exponent + orders * np.log1p(-1 / orders) - np.log(orders - 1)
        # an event tells two tables apart by at most its total variation, sqrt(rho/2) by Pinsker
        bound = np.minimum(math.sqrt(self.rho / 2), np.exp(np.minimum(exponent.min(axis=-1), 0.0)))
        return _reflected(epsilon, bound.reshape(np.shape(epsilon)))

    def largest(self, p: Floats) -> Floats:
        """Return the smallest ``e^t p + delta(t)`` and ``1 - e^-t (1 - p - delta(t))`` over a list of ``t``."""
        steps = np.concatenate([[0.0], np.geomspace(1e-4, 60.0, 400)])
        delta = self.delta(steps)
        column = np.asarray(p, dtype=np.float64)[..., None]
        up = (np.exp(steps) * column + delta).min(axis=-1)
        down = (1 - np.exp(-steps) * (1 - column - delta)).min(axis=-1)
        return np.asarray(np.minimum(1.0, np.minimum(up, down) * (1 + _SAFETY)))


def profile_of(budget: Budget) -> Profile:
    """Return the profile of a mechanism that has the guarantee of a budget."""
    if isinstance(budget, PureDP):
        return ApproxProfile(budget.epsilon)
    if isinstance(budget, ApproxDP):
        return ApproxProfile(budget.epsilon, budget.delta)
    if isinstance(budget, ZCDP):
        return ZcdpProfile(budget.rho)
    if isinstance(budget, GDP):
        return GaussianProfile(budget.mu)
    raise BudgetError(f"No privacy profile is known for a budget of type {type(budget).__name__}.")


def _reflected(epsilon: Floats, positive: Floats) -> Floats:
    """Extend a symmetric profile to negative arguments.

    If both directions have the profile ``d``, then for ``t > 0`` ``Q(E) - e^-t Q'(E)``
    ``= 1 - e^-t + e^-t (Q'(E^c) - e^t Q(E^c)) <= 1 - e^-t + e^-t d(t)``.
    """
    e = np.asarray(epsilon, dtype=np.float64)
    reflected = -np.expm1(-np.abs(e)) + np.exp(-np.abs(e)) * positive
    return np.minimum(1.0, np.where(e >= 0, positive, reflected) * (1 + _SAFETY))
