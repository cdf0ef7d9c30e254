"""What a series of releases costs somebody who is in every table of it.

Each release has a ledger of its own, for its own table, and its promise is about that table. A person who is in all of them is protected by what the
promises add up to.

Privacy
-------
Let two series of tables differ in the records of one person, in each table by at most one step of its unit. Each release is a mechanism on its own
table, and may use the published outputs of earlier ones (as prior, as rehearsal, in its specification): this is adaptive composition. Of release ``i`` several
bounds hold (`Bound`): it is ``e_i``-DP composed with something ``mu_i``-GDP, ``rho_i``-zCDP or ``(e, d)``-DP. For one bound of each release the composition is

    ``sum e_i``-DP composed with ``sqrt(sum mu_i^2)``-GDP (or ``sum rho_i``-zCDP; GDP counts there as ``mu^2 / 2``), and deltas add up,

and so is ``(sum e_i + epsilon(delta - sum d_i), delta)``-DP, with ``epsilon()`` that of the Gaussian or concentrated part
(`understudy.release.selection.profiles.ComposedProfile` has the argument for the pure part, `understudy.privacy.accounting.filter` that for acts with a delta). Each choice of bounds
gives a number that holds; the smallest is taken.

The parts of every release must be fixed before the series, or at least not in the light of earlier answers: an office that looks at this
year's table and then decides how much to spend next year needs the largest total it would ever spend, fixed beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from understudy.errors import BudgetError
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.privacy.accounting.conversions import gdp_to_approx, zcdp_to_approx
from understudy.privacy.exact_floats import float_down, float_up, sqrt_up
from understudy.release.selection.profiles import Bound

__all__ = ["CONDITION", "composed"]

CONDITION = (
    "For somebody who is in every table of the series, by one step of the unit in each; the parts of each release were not chosen in the "
    "light of what earlier ones published."
)

_USUAL_DELTA = 1e-9
"""Where the promises of a series are of several kinds and none names a delta."""


def composed(releases: Sequence[Sequence[Bound]]) -> Budget:
    """Return the guarantee of several releases together; of each all bounds that are known, its promise first.

    In the terms of the promises where they are of one kind. Approximate ones keep the largest delta of a single release if
    an accounting can, and otherwise deltas add up.

    Examples
    --------
    >>> composed([[Bound(0.0, PureDP(0.5))]] * 4)
    PureDP(epsilon=2.0)
    >>> composed([[Bound(0.0, ApproxDP(1.0, 1e-6))]] * 2)
    ApproxDP(epsilon=2.0, delta=2e-06)
    >>> year = [Bound(0.0, ApproxDP(1.0, 1e-6)), Bound(0.0, GDP(0.25))]
    >>> round(composed([year] * 4).epsilon, 3)
    2.254
    """
    if not releases or not all(releases):
        raise BudgetError("A series has at least one release, and of each something is known.")
    promises = [bounds[0].budget for bounds in releases]
    if all(
        isinstance(item, PureDP) and bounds[0].epsilon == 0
        for item, bounds in zip(promises, releases, strict=True)
    ):
        return PureDP(
            float_up(
                sum((Fraction(item.epsilon) for item in promises if isinstance(item, PureDP)), Fraction(0))
            )
        )
    if all(isinstance(item, GDP) for item in promises):
        return GDP(_mu([item for item in promises if isinstance(item, GDP)]))
    if all(isinstance(item, ZCDP) for item in promises):
        return ZCDP(
            float_up(sum((Fraction(item.rho) for item in promises if isinstance(item, ZCDP)), Fraction(0)))
        )
    deltas = [item.delta for item in promises if isinstance(item, ApproxDP)] or [_USUAL_DELTA]
    for delta in (max(deltas), float_up(sum(map(Fraction, deltas), Fraction(0)))):
        found = [_epsilon(_chosen(releases, wanted), delta) for wanted in _WANTED]
        if math.isfinite(min(found)):
            return ApproxDP(min(found), delta)
    raise BudgetError("These releases have no common accounting: none can price all of them.")


def _plain(bound: Bound) -> bool:
    return isinstance(bound.budget, PureDP | ApproxDP)


def _all_gaussian(bound: Bound) -> bool:
    return isinstance(bound.budget, GDP) and bound.epsilon == 0


def _gaussian(bound: Bound) -> bool:
    return isinstance(bound.budget, GDP) and bound.epsilon > 0


def _concentrated(bound: Bound) -> bool:
    return isinstance(bound.budget, ZCDP)


_WANTED = (
    (_plain,),
    (_all_gaussian, _gaussian, _concentrated),
    (_gaussian, _all_gaussian, _concentrated),
    (_concentrated, _gaussian, _all_gaussian),
)
"""Which bound is taken of each release: the first kind that it has, and its promise if it has none of them."""


def _chosen(releases: Sequence[Sequence[Bound]], kinds: Sequence[Callable[[Bound], bool]]) -> list[Bound]:
    return [
        next((bound for kind in kinds for bound in bounds if kind(bound)), bounds[0]) for bounds in releases
    ]


def _epsilon(bounds: Sequence[Bound], delta: float) -> float:
    """Return what one bound of each release adds up to at a delta; infinity if the delta is not enough."""
    pure, own, rho = Fraction(0), Fraction(0), Fraction(0)
    gaussian = []
    for bound in bounds:
        pure += Fraction(bound.epsilon)
        budget = bound.budget
        if isinstance(budget, PureDP):
            pure += Fraction(budget.epsilon)
        elif isinstance(budget, ApproxDP):
            pure, own = pure + Fraction(budget.epsilon), own + Fraction(budget.delta)
        elif isinstance(budget, GDP):
            gaussian.append(budget)
        elif isinstance(budget, ZCDP):
            rho += Fraction(budget.rho)
    left = Fraction(delta) - own
    if left < 0 or (left == 0 and (gaussian or rho)):
        return math.inf
    more = 0.0
    if rho:
        rho += sum((Fraction(item.mu) ** 2 / 2 for item in gaussian), Fraction(0))
        more = zcdp_to_approx(float_up(rho), float_down(left))
    elif gaussian:
        more = gdp_to_approx(_mu(gaussian), float_down(left))
    return float_up(pure + Fraction(more))


def _mu(budgets: Sequence[GDP]) -> float:
    return float_up(sqrt_up(sum((Fraction(item.mu) ** 2 for item in budgets), Fraction(0)), bits=60))
