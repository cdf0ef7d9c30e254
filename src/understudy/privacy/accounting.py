"""What an event costs, in three accountings whose costs add up.

===========  ============  ====================  ==================================  ==============
event        pure          zcdp                  gdp                                 argument
===========  ============  ====================  ==================================  ==============
Gaussian     none          ``l2^2/(2 sigma^2)``  ``(l2/sigma)^2``                    exact
Laplace      ``e = l1/b``  ``e tanh(e/2)``       ``(2 probit(1/(1+exp(-e))))^2``     pure DP
selection    ``e``         ``e^2/8``             ``(2 probit(1/(1+exp(-e/2))))^2``   bounded range
pure         ``e``         ``e tanh(e/2)``       ``(2 probit(1/(1+exp(-e))))^2``     pure DP
zCDP         none          ``rho``               none
composed     sum           sum                   sum
parallel     the parts that one unit can touch, the dearest ones (one part: the maximum)
===========  ============  ====================  ==================================  ==============

The unit of cost is chosen so that costs *add*: ``epsilon`` for pure, ``rho`` for zCDP, ``mu^2`` for GDP. That
makes spending fully adaptive: each act may be chosen in the light of all earlier answers, as long as the sum
stays within the total (:mod:`understudy.privacy.filter`). "None" is an infinite cost.

Costs are computed as exact fractions of the event's own floating-point numbers, or to forty digits where a
transcendental function is involved, and rounded up. The inverse maps (`Accounting.gaussian_sigma` and so on)
are rounded so that what they return never costs more than what was given.
"""

from __future__ import annotations

from fractions import Fraction

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy._accounting_base import Accounting, as_double, delta_of
from understudy.privacy._numbers import float_up, largest_double, sqrt_down, sqrt_up
from understudy.privacy._precise import decimal, logit_of_normal, working
from understudy.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.privacy.conversions import approx_to_gdp, approx_to_zcdp
from understudy.privacy.pure import bounded_range_to_zcdp_exact, pure_to_zcdp_exact, two_normal_from_logit

__all__ = [
    "ACCOUNTINGS",
    "GDP_ACCOUNTING",
    "PURE",
    "ZCDP_ACCOUNTING",
    "Accounting",
    "accounting_for",
    "accounting_named",
    "delta_of",
]


class _Pure(Accounting):
    """Basic composition: ``epsilon`` adds up."""

    name = "pure"
    symbol = "epsilon"
    needs_delta = False

    def _pure(self, epsilon: Fraction) -> Fraction:
        return epsilon

    def _selection(self, epsilon: Fraction) -> Fraction:
        return epsilon

    def _gaussian(self, ratio_squared: Fraction) -> None:
        return None

    def _zcdp(self, rho: Fraction) -> None:
        return None

    def _square_of_gaussian(self, share: Fraction) -> Fraction:
        raise NoSuchGuarantee(
            "Gaussian noise never gives pure differential privacy. Use Laplace noise, or an ApproxDP, ZCDP "
            "or GDP budget."
        )

    def _largest_pure(self, share: Fraction) -> Fraction:
        return share

    def _largest_selection(self, share: Fraction) -> Fraction:
        return share

    def _approx_total(self, epsilon: float, delta: float) -> Fraction:
        return Fraction(epsilon)  # pure epsilon implies (epsilon, delta) for every delta

    def _own_total(self, budget: Budget) -> Fraction:
        if isinstance(budget, PureDP):
            return Fraction(budget.epsilon)
        raise self._cannot_hold(budget)


class _Zcdp(Accounting):
    """Concentrated composition: ``rho`` adds up (Bun and Steinke 2016)."""

    name = "zcdp"
    symbol = "rho"

    def _pure(self, epsilon: Fraction) -> Fraction | None:
        return as_double(pure_to_zcdp_exact(epsilon))

    def _selection(self, epsilon: Fraction) -> Fraction | None:
        cost = bounded_range_to_zcdp_exact(epsilon)
        return cost if cost == epsilon * epsilon / 8 else as_double(cost)

    def _gaussian(self, ratio_squared: Fraction) -> Fraction:
        return ratio_squared / 2

    def _zcdp(self, rho: Fraction) -> Fraction:
        return rho

    def _square_of_gaussian(self, share: Fraction) -> Fraction:
        return 2 * share

    def _largest_pure(self, share: Fraction) -> Fraction:
        def fits(epsilon: float) -> bool:
            return not epsilon or pure_to_zcdp_exact(Fraction(epsilon)) <= share

        # epsilon tanh(epsilon/2) lies between min(epsilon, epsilon^2)/3 and epsilon^2/2
        guess = float_up(sqrt_up(2 * share))
        return Fraction(largest_double(fits, 0.0, min(3 * (guess + float_up(share)), 1e308)))

    def _largest_selection(self, share: Fraction) -> Fraction:
        root = sqrt_down(8 * share)
        return root if root <= 7 else max(root, self._largest_pure(share))

    def _approx_total(self, epsilon: float, delta: float) -> Fraction:
        return Fraction(approx_to_zcdp(epsilon, delta))

    def _own_total(self, budget: Budget) -> Fraction:
        if isinstance(budget, ZCDP):
            return Fraction(budget.rho)
        raise self._cannot_hold(budget)


class _Gdp(Accounting):
    """Gaussian composition: ``mu^2`` adds up (Dong, Roth and Su 2019)."""

    name = "gdp"
    symbol = "mu^2"

    def _pure(self, epsilon: Fraction) -> Fraction | None:
        return as_double(two_normal_from_logit(epsilon) ** 2)

    def _selection(self, epsilon: Fraction) -> Fraction | None:
        return as_double(two_normal_from_logit(epsilon / 2) ** 2)

    def _gaussian(self, ratio_squared: Fraction) -> Fraction:
        return ratio_squared

    def _zcdp(self, rho: Fraction) -> None:
        return None

    def _square_of_gaussian(self, share: Fraction) -> Fraction:
        return share

    def _largest_pure(self, share: Fraction) -> Fraction:
        with working():
            # mu = 2 z and ln(Phi(z)/Phi(-z)) = epsilon
            return Fraction(logit_of_normal(decimal(share).sqrt() / 2) * (1 - decimal(1e-20)))

    def _largest_selection(self, share: Fraction) -> Fraction:
        return 2 * self._largest_pure(share)

    def _approx_total(self, epsilon: float, delta: float) -> Fraction:
        return Fraction(approx_to_gdp(epsilon, delta)) ** 2

    def _own_total(self, budget: Budget) -> Fraction:
        if isinstance(budget, GDP):
            return Fraction(budget.mu) ** 2
        raise self._cannot_hold(budget)


PURE: Accounting = _Pure()
ZCDP_ACCOUNTING: Accounting = _Zcdp()
GDP_ACCOUNTING: Accounting = _Gdp()
ACCOUNTINGS: dict[str, Accounting] = {a.name: a for a in (PURE, ZCDP_ACCOUNTING, GDP_ACCOUNTING)}


def accounting_named(name: str) -> Accounting:
    """Return the accounting called ``name``."""
    if name not in ACCOUNTINGS:
        raise BudgetError(f"No accounting named {name!r}. Known: {', '.join(ACCOUNTINGS)}.")
    return ACCOUNTINGS[name]


def accounting_for(budget: Budget, *, name: str | None = None) -> Accounting:
    """Return the accounting a budget is spent in.

    ``PureDP`` is spent as pure, ``ZCDP`` as zcdp, ``GDP`` as gdp. ``ApproxDP`` is spent as gdp, whose curve
    is exact for Gaussian noise, unless ``name="zcdp"`` (needed for events only known to be zCDP) or ``name="pure"``, plain
    addition of epsilons and deltas (:mod:`understudy.privacy.filter`).

    Examples
    --------
    >>> accounting_for(ApproxDP(1.0, 1e-9)).name
    'gdp'
    """
    choices = {PureDP: ("pure",), ApproxDP: ("gdp", "zcdp", "pure"), ZCDP: ("zcdp",), GDP: ("gdp",)}
    if type(budget) not in choices:
        raise BudgetError("A budget is one of PureDP, ApproxDP, ZCDP and GDP.")
    allowed = choices[type(budget)]
    chosen = accounting_named(allowed[0] if name is None else name)
    if chosen.name not in allowed:
        raise chosen._cannot_hold(budget)
    return chosen
