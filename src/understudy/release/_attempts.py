"""How many attempts a private selection may make: distributions that are drawn without looking at the data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError

__all__ = ["Attempts", "GeometricAttempts", "NegativeBinomialAttempts", "SingleAttempt", "UnlimitedAttempts"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Attempts(ABC):
    """The largest number of attempts ``K >= 1``, random or fixed, independent of the data.

    Attempts are made until one passes or ``K`` have failed; in the latter case the outcome is a failure. If an
    attempt passes with probability ``p``, a passing outcome ``x`` is released with probability ``Q(x) g(p)`` and
    failure with probability ``(1 - p) h(p)``, where with the generating function ``f(x) = E[x^K]``

    ``g(p) = (1 - f(1 - p)) / p`` and ``h(p) = f(1 - p) / (1 - p)``.

    ``g(p) = E[1 + (1-p) + ... + (1-p)^(K-1)]`` is also the expected number of attempts made. Both functions fall
    in ``p``, because each power of ``1 - p`` does, and ``h <= g``.
    """

    name: ClassVar[str]

    @abstractmethod
    def weight_of_pass(self, p: Floats) -> Floats:
        """Return ``g(p)`` for ``0 <= p <= 1``."""

    @abstractmethod
    def weight_of_failure(self, p: Floats) -> Floats:
        """Return ``h(p)`` for ``0 <= p <= 1``."""

    @abstractmethod
    def describe(self) -> str:
        """Return the rule in words."""

    def expected(self, p: float) -> float:
        """Return the expected number of attempts if each passes with probability ``p``."""
        return float(self.weight_of_pass(np.array([p]))[0])

    def success(self, p: float) -> float:
        """Return the probability that some attempt passes."""
        return p * self.expected(p) if p > 0 else 0.0


@dataclass(frozen=True)
class SingleAttempt(Attempts):
    """One attempt: publish or fail. Selection then costs nothing."""

    name: ClassVar[str] = "single"

    def weight_of_pass(self, p: Floats) -> Floats:
        """Return 1."""
        return np.ones_like(p)

    def weight_of_failure(self, p: Floats) -> Floats:
        """Return 1."""
        return np.ones_like(p)

    def describe(self) -> str:
        """Return the rule in words."""
        return "a single attempt, published if it passes"


@dataclass(frozen=True)
class UnlimitedAttempts(Attempts):
    """Attempts until one passes, as in paper Births (gamma 0, T infinite). It may never end."""

    name: ClassVar[str] = "unlimited"

    def weight_of_pass(self, p: Floats) -> Floats:
        """Return ``1/p``."""
        with np.errstate(divide="ignore"):
            return 1.0 / p

    def weight_of_failure(self, p: Floats) -> Floats:
        """Return 0: there is no failure."""
        return np.zeros_like(p)

    def describe(self) -> str:
        """Return the rule in words."""
        return "attempts until one passes"


@dataclass(frozen=True)
class GeometricAttempts(Attempts):
    """After each failed attempt stop with probability ``gamma``; at most ``most`` attempts.

    Liu and Talwar's selection with a known threshold (paper Births, Algorithm 2).

    Parameters
    ----------
    gamma
        Probability of stopping after a failure, above 0 and below 1. The failure outcome has probability at most
        ``gamma (1 - p) / p``.
    most
        Largest number of attempts (the paper's ``T``), or None for no limit.

    Examples
    --------
    >>> round(GeometricAttempts(0.1).expected(0.9), 3)
    1.099
    """

    gamma: float
    most: int | None = None
    name: ClassVar[str] = "known-threshold"

    def __post_init__(self) -> None:
        if not 0 < self.gamma < 1:
            raise BudgetError(f"gamma ({self.gamma}) must lie between 0 and 1.")
        if self.most is not None and self.most < 1:
            raise BudgetError(f"The largest number of attempts ({self.most}) must be at least 1.")

    def weight_of_pass(self, p: Floats) -> Floats:
        """Return ``(1 - q^T) / (1 - q)`` with ``q = (1 - gamma)(1 - p)``, the chance to fail and go on."""
        stop = self.gamma + (1 - self.gamma) * p
        if self.most is None:
            return 1.0 / stop
        with np.errstate(divide="ignore"):
            used_up = self.most * (math.log1p(-self.gamma) + np.log1p(-p))
        return -np.expm1(used_up) / stop

    def weight_of_failure(self, p: Floats) -> Floats:
        """Return ``(gamma + p/(1-p) q^T) / (1 - q)``."""
        stop = self.gamma + (1 - self.gamma) * p
        if self.most is None:
            return self.gamma / stop
        last = (1 - self.gamma) ** self.most * (1 - p) ** (self.most - 1)
        return (self.gamma + p * last) / stop

    def describe(self) -> str:
        """Return the rule in words."""
        limit = "" if self.most is None else f", at most {self.most} attempts"
        return f"stop with probability {self.gamma:g} after each failure{limit}"


@dataclass(frozen=True)
class NegativeBinomialAttempts(Attempts):
    """A number of attempts from the truncated negative binomial distribution (Papernot and Steinke 2022).

    ``P(K = k)`` is proportional to ``(1 - gamma)^k`` times the product of ``(l + eta)/(l + 1)`` for ``l < k``. With
    ``eta = 1`` it is the geometric distribution, with ``eta = 0`` the logarithmic one; towards ``eta = -1`` it tends
    to a single attempt. Its generating function has ``f'(x)`` proportional to ``(1 - (1 - gamma) x)^(-1-eta)``.

    Parameters
    ----------
    eta
        Shape, above -1.
    gamma
        Above 0 and below 1; smaller means more attempts.

    Examples
    --------
    >>> round(NegativeBinomialAttempts(0.0, 0.01).mean, 2)
    21.5
    """

    eta: float
    gamma: float
    name: ClassVar[str] = "truncated-negative-binomial"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.eta) and self.eta > -1):
            raise BudgetError(f"eta ({self.eta}) must be above -1.")
        if not 0 < self.gamma < 1:
            raise BudgetError(f"gamma ({self.gamma}) must lie between 0 and 1.")

    @property
    def mean(self) -> float:
        """Expected largest number of attempts."""
        return self.expected(0.0)

    def probability(self, k: int) -> float:
        """Return ``P(K = k)``."""
        product = math.prod((step + self.eta) / (step + 1) for step in range(1, k))
        # the factor eta of l = 0 and the normalising constant tend to 1/ln(1/gamma) together as eta tends to 0
        first = (
            -1 / math.log(self.gamma)
            if self.eta == 0
            else self.eta / math.expm1(-self.eta * math.log(self.gamma))
        )
        return first * product * (1 - self.gamma) ** k

    def weight_of_pass(self, p: Floats) -> Floats:
        """Return ``g(p)``, without cancellation for small ``p``."""
        p = np.asarray(p, dtype=np.float64)
        more = np.log1p((1 - self.gamma) / self.gamma * p)
        tiny = p < 1e-14
        if self.eta == 0:
            gained = more / -math.log(self.gamma)
        else:
            scale = -math.expm1(self.eta * math.log(self.gamma))
            gained = -np.expm1(-self.eta * more) / scale
        limit = (1 - self.gamma) / self.gamma
        limit *= -1 / math.log(self.gamma) if self.eta == 0 else self.eta / scale
        return np.where(tiny, limit, gained / np.where(tiny, 1.0, p))

    def weight_of_failure(self, p: Floats) -> Floats:
        """Return ``h(p)``, without cancellation for large ``p``."""
        p = np.asarray(p, dtype=np.float64)
        x = 1.0 - p
        tiny = x < 1e-14
        inner = np.log1p(-(1 - self.gamma) * x)
        if self.eta == 0:
            failed = inner / math.log(self.gamma)
        else:
            failed = np.expm1(-self.eta * inner) / math.expm1(-self.eta * math.log(self.gamma))
        return np.where(tiny, self.probability(1), failed / np.where(tiny, 1.0, x))

    def describe(self) -> str:
        """Return the rule in words."""
        return f"a truncated negative binomial number of attempts (eta {self.eta:g}, gamma {self.gamma:g})"
