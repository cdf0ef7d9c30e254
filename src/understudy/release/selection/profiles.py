"""Privacy profiles: what is known about pairs of outcome distributions of neighbouring tables.

Of one attempt, for the accounting of selections; and of a whole release, for what its documents say about attackers.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr, ndtri

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, budget_from_dict, group_privacy
from understudy.privacy.exact_floats import float_up

__all__ = [
    "ApproxProfile",
    "BestProfile",
    "Bound",
    "ComposedProfile",
    "GaussianProfile",
    "Profile",
    "ZcdpProfile",
    "best_profile",
    "profile_of",
]

Floats = npt.NDArray[np.float64]

_NOTHING = 1e6  # an epsilon that promises nothing
_TINY = np.finfo(np.float64).tiny  # a chance that is too small for a double is not none
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
        top = -np.expm1(np.minimum(t - self.epsilon_one, 0.0)) / (1 + math.exp(-self.epsilon_one))
        positive = self.delta_one + (1 - self.delta_one) * top
        return _reflected(epsilon, positive)

    def largest(self, p: Floats) -> Floats:
        """Return ``min(1, e^eps p + delta, 1 - e^-eps (1 - p - delta))``."""
        rise = math.exp(min(self.epsilon_one, 700.0))
        up = rise * p + self.delta_one
        down = 1 - (1 - p - self.delta_one) / rise
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


@dataclass(frozen=True)
class ComposedProfile(Profile):
    """Acts that are ``epsilon``-DP together, and others with a profile of their own, in any order.

    Privacy
    -------
    Let ``H`` be the law of all answers when the pure acts are answered from the first table and the others from the second.
    ``P`` and ``H`` differ in the others only, ``H`` and ``Q`` in the pure acts only. So ``P(E) - e^t Q(E) <= P(E) - e^(t - epsilon) H(E)``,
    which the other acts' profile bounds at ``t - epsilon``; and with ``G`` and ``R`` the largest probabilities that the two allow,
    ``P(E) <= G(H(E)) <= G(R(Q(E)))``. With the two changed in the other order, ``P(E) <= R(G(Q(E)))``.
    """

    epsilon: float
    others: Profile

    def delta(self, epsilon: Floats) -> Floats:
        """Return the profile of the others, ``self.epsilon`` further to the left."""
        return self.others.delta(np.asarray(epsilon, dtype=np.float64) - self.epsilon)

    def largest(self, p: Floats) -> Floats:
        """Return the smaller of ``G(R(p))`` and ``R(G(p))``."""
        pure = ApproxProfile(self.epsilon)
        return np.asarray(
            np.minimum(self.others.largest(pure.largest(p)), pure.largest(self.others.largest(p)))
        )


@dataclass(frozen=True)
class BestProfile(Profile):
    """Several profiles of the same thing: each is an upper bound, so the smallest is, at every point."""

    profiles: tuple[Profile, ...]

    def delta(self, epsilon: Floats) -> Floats:
        """Return the smallest."""
        return np.asarray(np.min([profile.delta(epsilon) for profile in self.profiles], axis=0))

    def largest(self, p: Floats) -> Floats:
        """Return the smallest."""
        return np.asarray(np.min([profile.largest(p) for profile in self.profiles], axis=0))

    def right_guess(self) -> float:
        """Return the largest chance of telling right which of two equally likely neighbours it was.

        That is ``(1 + d)/2`` with ``d`` the total variation distance, the profile at 0: for ``epsilon``-DP ``1/(1 + e^-epsilon)``, for
        ``mu``-GDP ``Phi(mu/2)``.
        """
        return min(1.0, (1 + float(self.delta(np.zeros(1))[0])) / 2)

    def exceeded(self, epsilon: float) -> float:
        """Return an upper bound on the chance that the odds move by more than ``e^epsilon``, in either direction.

        Privacy
        -------
        Let ``L`` be the logarithm of the ratio of the two likelihoods. For ``s < epsilon`` the profile at ``s`` is the mean under ``P`` of
        ``max(0, 1 - e^(s - L))``, which is at least ``(1 - e^(s - epsilon)) P(L > epsilon)``. In the other direction ``P(L < -epsilon) <=
        e^-epsilon Q(-L > epsilon)``, for which the same holds. Note that this exceeds ``delta`` at ``epsilon``: what
        ``(epsilon, delta)`` limits is a difference of probabilities, not the chance of a larger loss.
        """
        for item in self.profiles:
            if isinstance(item, ApproxProfile) and not item.delta_one and item.epsilon_one <= epsilon:
                return 0.0
        if epsilon <= 0:
            return 1.0
        steps = epsilon * (1 - np.geomspace(1e-6, 1.0, 2000))
        bound = float((self.delta(steps) / -np.expm1(steps - epsilon)).min())
        return min(1.0, max(bound, _TINY) * (1 + math.exp(-epsilon)))

    def moved(self, chance: float) -> float:
        """Return the smallest epsilon, to a thousandth of it, that is exceeded with at most a given chance."""
        high = 1e-3
        while self.exceeded(high) > chance:
            high *= 2
            if high > 1e6:
                return math.inf
        low = high / 2 if high > 1e-3 else 0.0
        while high - low > 1e-3 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.exceeded(middle) > chance else (low, middle)
        return high


@dataclass(frozen=True)
class Bound:
    """One thing that is known about a release: acts that are ``epsilon``-DP together, beside others that keep a budget."""

    epsilon: float
    budget: Budget

    def __post_init__(self) -> None:
        epsilon = self.epsilon
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < math.inf:
            raise BudgetError("The epsilon of a bound must be a number that is not negative.")

    @property
    def profile(self) -> Profile:
        """The profile of the whole."""
        others = profile_of(self.budget)
        return ComposedProfile(self.epsilon, others) if self.epsilon > 0 else others

    def of_group(self, size: int) -> Bound:
        """Return what is known about tables that differ in so many units: each kind of act has its own group privacy."""
        return Bound(float_up(size * Fraction(self.epsilon)), group_privacy(self.budget, size))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"epsilon": self.epsilon, "beside": self.budget.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Bound:
        """Return the bound that :meth:`to_dict` described; anything else is refused."""
        if not isinstance(values, Mapping) or set(values) != {"epsilon", "beside"}:
            raise BudgetError("A bound has the fields epsilon and beside.")
        return cls(values["epsilon"], budget_from_dict(values["beside"]))


def best_profile(bounds: Iterable[Bound], *, steps: int = 1) -> BestProfile:
    """Return everything that several bounds on the same release imply together, for tables so many neighbouring steps apart.

    Examples
    --------
    >>> known = best_profile([Bound(0.0, PureDP(1.0))])
    >>> round(known.right_guess(), 4), known.exceeded(1.0)
    (0.7311, 0.0)
    >>> round(best_profile([Bound(0.0, GDP(0.5))]).right_guess(), 4)
    0.5987
    """
    found = []
    for bound in bounds:
        with contextlib.suppress(NoSuchGuarantee):
            found.append((bound if steps == 1 else bound.of_group(steps)).profile)
    return BestProfile(tuple(found) or (ApproxProfile(_NOTHING),))


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
