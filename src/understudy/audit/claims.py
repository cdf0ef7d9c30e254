"""What a mechanism claims, in the unit in which an audit measures it."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, zcdp_to_approx

__all__ = ["Claim", "claim_of"]

_ZCDP_DELTA = 0.01
"""A claim of zCDP is held to the epsilon it implies at this delta."""


@dataclass(frozen=True)
class Claim:
    """A number that no test may demonstrate more than.

    Attributes
    ----------
    kind
        ``"epsilon"`` (at ``delta``) or ``"mu"``.
    value, delta
        The claim.
    words
        The budget it comes from.
    """

    kind: str
    value: float
    delta: float
    words: str


def claim_of(budget: Budget) -> Claim:
    """Return what a budget claims.

    Examples
    --------
    >>> claim_of(GDP(2.0)).kind, claim_of(ApproxDP(1.0, 0.01)).delta
    ('mu', 0.01)
    """
    words = budget.describe()
    match budget:
        case GDP(mu=mu):
            return Claim("mu", mu, 0.0, words)
        case ApproxDP(epsilon=epsilon, delta=delta):
            return Claim("epsilon", epsilon, delta, words)
        case ZCDP(rho=rho):
            return Claim("epsilon", zcdp_to_approx(rho, _ZCDP_DELTA), _ZCDP_DELTA, words)
        case PureDP(epsilon=epsilon):
            return Claim("epsilon", epsilon, 0.0, words)
