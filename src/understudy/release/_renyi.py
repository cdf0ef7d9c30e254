"""What a selection costs by Rényi divergences, for a truncated negative binomial number of attempts."""

from __future__ import annotations

import math

import numpy as np

from understudy.errors import BudgetError
from understudy.privacy import GDP, ZCDP, Budget
from understudy.release._attempts import NegativeBinomialAttempts

__all__ = ["renyi_cost", "renyi_epsilon"]

_UP = 1 + 1e-9


def renyi_cost(rho: float, attempts: NegativeBinomialAttempts, *, order: float) -> float:
    """Return the Rényi divergence of order ``order`` of a selection whose attempts are ``rho``-zCDP.

    ``rho order + (1 + eta) min over b of [(1 - 1/b) rho b + ln(1/gamma)/b] + ln E[K]/(order - 1)``.

    Proof (Papernot and Steinke 2022, Theorem 2, here for pass or fail). With ``a = order`` and ``w`` as above,
    ``sum A^a A'^(1-a) = sum Q^a Q'^(1-a) w^a w'^(1-a) <= e^((a-1) rho a) max w^a w'^(1-a)``. ``w`` and ``w'`` are averages
    over ``u`` of ``f'(z)`` and ``f'(z')``, where ``1 - z`` and ``1 - z'`` are the probabilities of one and the same
    event of the attempt and a coin; ``x^a y^(1-a)`` is jointly convex, so by Jensen it is enough to bound
    ``f'(z)^a f'(z')^(1-a) = f'(z) (f'(z)/f'(z'))^(a-1)`` for each ``u``. Here ``f'(z) <= f'(1) = E[K]`` and
    ``f'(z)/f'(z') = (r'/r)^(1+eta)`` with ``r = gamma + (1-gamma)(1-z)``, again the probability of an event. By the
    divergence of order ``b``, ``r'^b r^(1-b) <= e^((b-1) rho b)``, so ``r'/r <= e^((1-1/b) rho b) r^(-1/b)`` and
    ``r >= gamma``. The minimum is at ``b = sqrt(ln(1/gamma)/rho)``, or at 1 if that is smaller.
    """
    if not order > 1:
        raise BudgetError(f"A Rényi order ({order}) must be above 1.")
    log_inverse = -math.log(attempts.gamma)
    b = max(1.0, math.sqrt(log_inverse / rho))
    spread = (b - 1) * rho + log_inverse / b
    return rho * order + (1 + attempts.eta) * spread + math.log(attempts.mean) / (order - 1)


def renyi_epsilon(attempt: Budget, attempts: NegativeBinomialAttempts, delta: float) -> float:
    """Return the epsilon at ``delta`` by the best order (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    rho = (
        attempt.rho
        if isinstance(attempt, ZCDP)
        else attempt.mu**2 / 2
        if isinstance(attempt, GDP)
        else math.inf
    )
    best = math.inf
    for order in 1 + np.geomspace(1e-2, 1e6, 2000):
        convert = math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        best = min(best, renyi_cost(rho, attempts, order=float(order)) + convert)
    return float(max(0.0, best)) * _UP
