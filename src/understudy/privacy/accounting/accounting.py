"""What an event costs, in three accountings whose costs add up.

===========  ============  ====================  ==================================  ==============
event        pure          zcdp                  gdp                                 argument
===========  ============  ====================  ==================================  ==============
Gaussian     none          ``l2^2/(2 sigma^2)``  ``(l2/sigma)^2``                    exact
Laplace      ``e = l1/b``  ``e tanh(e/2)``       ``(2 probit(1/(1+exp(-e))))^2``     pure DP
selection    ``e``         ``e^2/8``             ``(2 probit(1/(1+exp(-e/2))))^2``   bounded range
pure         ``e``         ``e tanh(e/2)``       ``(2 probit(1/(1+exp(-e))))^2``     pure DP
zCDP         none          ``rho``               none
thresholded  that of its noise; its delta is paid from a reserve
composed     sum           sum                   sum
parallel     the parts that one unit can touch, the dearest ones (one part: the maximum)
===========  ============  ====================  ==================================  ==============

The unit of cost is chosen so that costs *add*: ``epsilon`` for pure, ``rho`` for zCDP, ``mu^2`` for GDP. That
makes spending fully adaptive: each act may be chosen in the light of all earlier answers, as long as the sum
stays within the total (:mod:`understudy.privacy.accounting.filter`). "None" is an infinite cost.

Costs are computed as exact fractions of the event's own floating-point numbers, or to forty digits where a
transcendental function is involved, and rounded up. The inverse maps (`Accounting.gaussian_sigma` and so on)
are rounded so that what they return never costs more than what was given.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy.accounting.conversions import approx_to_gdp, approx_to_zcdp
from understudy.privacy.accounting.precise import decimal, logit_of_normal, working
from understudy.privacy.accounting.pure import (
    bounded_range_to_zcdp_exact,
    pure_to_zcdp_exact,
    two_normal_from_logit,
)
from understudy.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.privacy.events import (
    AllowanceEvent,
    ApproxEvent,
    Approximated,
    Composed,
    Event,
    GaussianEvent,
    InsideEvent,
    LaplaceEvent,
    Parallel,
    PureEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
    Thresholded,
    ZcdpEvent,
)
from understudy.privacy.exact_floats import (
    SCALE_BITS,
    ceil_bits,
    float_down,
    float_up,
    floor_bits,
    fraction_up,
    largest_double,
    non_negative,
    positive,
    sqrt_down,
    sqrt_up,
)

# ----------------------------------------------------------------------------------------
# The contract of an accounting: prices in, noise scales out, rounded on the safe side.


class Accounting(ABC):
    """One way to price events; costs of successive events add up.

    Attributes
    ----------
    name
        ``"pure"``, ``"zcdp"`` or ``"gdp"``; what error messages, ledgers and guarantees call it.
    symbol
        The quantity that adds up: ``"epsilon"``, ``"rho"`` or ``"mu^2"``.
    needs_delta
        Whether its total within an ``ApproxDP`` budget takes a part of the delta, as all but ``"pure"`` do.
    """

    name: ClassVar[str]
    symbol: ClassVar[str]
    needs_delta: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"<accounting {self.name}: {self.symbol} adds up>"

    def __reduce__(self) -> tuple[object, ...]:

        return accounting_named, (self.name,)

    def cost(self, event: Event, *, parts: int = 1) -> float:
        """Return what ``event`` costs, rounded up; infinity if it has no cost in this accounting.

        Parameters
        ----------
        event
            What is about to be done.
        parts
            How many parts of a `Parallel` event one unit can touch (`Unit.parts_touched`).

        Examples
        --------
        >>> from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE
        >>> GDP_ACCOUNTING.cost(GaussianEvent(l2_sensitivity=1, sigma=2))
        0.25
        >>> PURE.cost(GaussianEvent(l2_sensitivity=1, sigma=2))
        inf
        """
        exact = self.exact_cost(event, parts=parts)
        return math.inf if exact is None else float_up(exact)

    def exact_cost(self, event: Event, *, parts: int = 1, reserve: bool = False) -> Fraction | None:
        """Return the cost as a fraction, or None if there is none.

        With ``reserve`` an `ApproxEvent` is priced by its ``epsilon`` alone, and a `Thresholded` one by its noise, because the ``delta`` is
        paid elsewhere (:func:`delta_of`); without, it has no cost in any accounting. An `InsideEvent` was paid with its allowance.
        """
        if isinstance(event, (Composed, Parallel)):
            priced: list[tuple[Fraction, int]] = []
            for inner, times in Counter(event.events).items():  # batches repeat themselves
                cost = self.exact_cost(inner, parts=parts, reserve=reserve)
                if cost is None:
                    return None
                priced.append((cost, times))
            if isinstance(event, Composed):
                return sum_up([times * cost for cost, times in priced])
            dearest = sorted(priced, reverse=True)[:parts]
            return sum_up([cost for cost, times in dearest for _ in range(min(times, parts))][:parts])
        if isinstance(event, Thresholded):
            return self.exact_cost(Composed(event.events), parts=parts) if reserve else None
        if isinstance(event, (ApproxEvent, Approximated, AllowanceEvent)):
            if event.delta and not reserve:
                return None
            return self._pure(Fraction(event.epsilon)) if event.epsilon else Fraction(0)
        if isinstance(event, InsideEvent):
            return Fraction(0)  # paid when its allowance was opened; the filter counts it there
        if isinstance(event, LaplaceEvent):
            return self._pure(Fraction(event.l1_sensitivity) / Fraction(event.scale))
        if isinstance(event, PureEvent):
            return self._pure(Fraction(event.epsilon))
        if isinstance(event, SelectionEvent):
            return self._selection(Fraction(event.epsilon))
        if isinstance(event, GaussianEvent):
            return self._gaussian((Fraction(event.l2_sensitivity) / Fraction(event.sigma)) ** 2)
        if isinstance(event, ZcdpEvent):
            return self._zcdp(Fraction(event.rho))
        if isinstance(event, SubsampledGaussianEvent):
            ratio = Fraction(event.sides) * Fraction(event.rows) / Fraction(event.noise_multiplier)
            return self._gaussian(Fraction(event.steps) * ratio**2)
        raise BudgetError(f"{type(event).__name__} is not a privacy event.")

    def gaussian_sigma(self, cost: float, l2: float) -> float:
        """Return the smallest noise ``sigma`` (to 40 bits) whose cost is at most ``cost``.

        Examples
        --------
        >>> from understudy.privacy.accounting.accounting import ZCDP_ACCOUNTING
        >>> ZCDP_ACCOUNTING.gaussian_sigma(0.125, 1.0)
        2.0
        """
        share, sensitivity = Fraction(positive("cost", cost)), Fraction(positive("l2", l2))
        sigma = float_up(sqrt_up(sensitivity**2 / self._square_of_gaussian(share)))
        return self._usable(sigma, "sigma")

    def laplace_scale(self, cost: float, l1: float) -> float:
        """Return the smallest Laplace scale (to 40 bits) whose cost is at most ``cost``.

        Examples
        --------
        >>> from understudy.privacy.accounting.accounting import PURE
        >>> PURE.laplace_scale(0.1, 1.0)
        10.0
        """
        share, sensitivity = Fraction(positive("cost", cost)), Fraction(positive("l1", l1))
        scale = self._usable(float_up(ceil_bits(sensitivity / self._largest_pure(share))), "scale")
        while not self._within(LaplaceEvent(l1, scale), share):
            scale = self._usable(_larger(scale), "scale")
        return scale

    def selection_epsilon(self, cost: float) -> float:
        """Return the largest ``epsilon`` (to 40 bits) of a `SelectionEvent` that costs at most ``cost``.

        Examples
        --------
        >>> from understudy.privacy.accounting.accounting import ZCDP_ACCOUNTING
        >>> ZCDP_ACCOUNTING.selection_epsilon(0.125)
        1.0
        """
        share = Fraction(positive("cost", cost))
        epsilon = self._usable(float_down(floor_bits(self._largest_selection(share))), "epsilon")
        while not self._within(SelectionEvent(epsilon), share):
            epsilon = self._usable(_smaller(epsilon), "epsilon")
        return epsilon

    def pure_epsilon(self, cost: float) -> float:
        """Return the largest ``epsilon`` (to 40 bits) of a `PureEvent` that costs at most ``cost``.

        Examples
        --------
        >>> from understudy.privacy.accounting.accounting import PURE
        >>> PURE.pure_epsilon(0.5)
        0.5
        """
        share = Fraction(positive("cost", cost))
        epsilon = self._usable(float_down(floor_bits(self._largest_pure(share))), "epsilon")
        while not self._within(PureEvent(epsilon), share):
            epsilon = self._usable(_smaller(epsilon), "epsilon")
        return epsilon

    def total(self, budget: Budget, *, approximate_delta: float = 0.0) -> float:
        """Return how much of this accounting's unit a budget is worth, rounded down.

        ``approximate_delta`` is the part of an `ApproxDP` budget's ``delta`` set aside for `ApproxEvent`.

        Examples
        --------
        >>> from understudy.privacy import GDP
        >>> from understudy.privacy.accounting.accounting import GDP_ACCOUNTING
        >>> GDP_ACCOUNTING.total(GDP(0.5))
        0.25
        >>> round(GDP_ACCOUNTING.total(ApproxDP(1.0, 1e-9)), 6)
        0.033115
        """
        return float_down(self.exact_total(budget, approximate_delta=approximate_delta))

    def exact_total(self, budget: Budget, *, approximate_delta: float = 0.0) -> Fraction:
        """Return :meth:`total` as a fraction."""
        reserve = non_negative("approximate_delta", approximate_delta)
        if reserve and not isinstance(budget, ApproxDP):
            raise NoSuchGuarantee("Only an ApproxDP budget can set a part of its delta aside.")
        if isinstance(budget, ApproxDP):
            if not self.needs_delta and reserve == budget.delta:
                return Fraction(budget.epsilon)
            delta = float_down(Fraction(budget.delta) - Fraction(reserve))
            if delta <= 0:
                raise BudgetError(
                    f"approximate_delta ({reserve}) must be smaller than the budget's delta ({budget.delta})."
                )
            return self._approx_total(budget.epsilon, delta)
        return self._own_total(budget)

    def split(self, cost: float, weights: Sequence[float]) -> tuple[float, ...]:
        """Divide a cost in proportion to ``weights``, so that the parts add up to at most the whole.

        Examples
        --------
        >>> from understudy.privacy.accounting.accounting import PURE
        >>> sum(PURE.split(1.0, [1, 1, 1])) <= 1.0
        True
        """
        whole = Fraction(positive("cost", cost))
        exact = [Fraction(positive("weight", weight)) for weight in weights]
        if not exact:
            raise BudgetError("split needs at least one weight.")
        together = sum(exact)
        return tuple(float_down(whole * weight / together) for weight in exact)

    def describe(self, cost: float) -> str:
        """Return a cost in words, such as ``rho=0.125``."""
        return f"{self.symbol}={cost:.6g}"

    def describe_left(self, cost: float, total: float) -> str:
        """Return what is left of a total in words; what rounding leaves over is next to nothing.

        Examples
        --------
        >>> from understudy.privacy.accounting.accounting import ZCDP_ACCOUNTING
        >>> ZCDP_ACCOUNTING.describe_left(0.1, 0.5), ZCDP_ACCOUNTING.describe_left(4e-14, 0.5)
        ('rho=0.1', 'next to nothing')
        """
        return self.describe(cost) if cost > 1e-5 * total else "next to nothing"

    def _within(self, event: Event, share: Fraction) -> bool:
        cost = self.exact_cost(event)
        return cost is not None and cost <= share

    def _usable(self, number: float, what: str) -> float:
        if not 0 < number < math.inf:
            raise BudgetError(
                f"No finite, positive {what} gives that cost in the {self.name} accounting: ask for a less "
                "extreme share of the budget."
            )
        return number

    @abstractmethod
    def _pure(self, epsilon: Fraction) -> Fraction | None: ...

    @abstractmethod
    def _selection(self, epsilon: Fraction) -> Fraction | None: ...

    @abstractmethod
    def _gaussian(self, ratio_squared: Fraction) -> Fraction | None: ...

    @abstractmethod
    def _zcdp(self, rho: Fraction) -> Fraction | None: ...

    @abstractmethod
    def _square_of_gaussian(self, share: Fraction) -> Fraction: ...

    @abstractmethod
    def _largest_pure(self, share: Fraction) -> Fraction: ...

    @abstractmethod
    def _largest_selection(self, share: Fraction) -> Fraction: ...

    @abstractmethod
    def _approx_total(self, epsilon: float, delta: float) -> Fraction: ...

    @abstractmethod
    def _own_total(self, budget: Budget) -> Fraction: ...

    def _cannot_hold(self, budget: Budget) -> NoSuchGuarantee:
        return NoSuchGuarantee(
            f"The {self.name} accounting cannot promise {budget.describe()}. "
            "PureDP uses pure, ZCDP uses zcdp, GDP uses gdp, ApproxDP uses gdp, zcdp or pure."
        )


def delta_of(event: Event, *, parts: int = 1) -> Fraction:
    """Return the ``delta`` of every `ApproxEvent` inside an event, combined the way costs are."""
    if isinstance(event, (ApproxEvent, Approximated, AllowanceEvent, Thresholded)):
        return Fraction(event.delta)
    if isinstance(event, (Composed, Parallel)):
        deltas = [delta_of(inner, parts=parts) for inner in event.events]
        return sum_up(sorted(deltas, reverse=True)[:parts] if isinstance(event, Parallel) else deltas)
    return Fraction(0)


def sum_up(costs: Sequence[Fraction]) -> Fraction:
    """Add costs, rounding each partial sum up to a float."""
    total = Fraction(0)
    for cost in costs:
        total = fraction_up(total + cost)
    return total


def as_double(value: Fraction) -> Fraction | None:
    """Round up to a double: the same cost on every machine, whatever the digits carried."""
    number = float_up(value)
    return None if math.isinf(number) else Fraction(number)


def _larger(number: float) -> float:
    exact = Fraction(number)
    return max(math.nextafter(number, math.inf), float_up(exact + exact / (1 << SCALE_BITS)))


def _smaller(number: float) -> float:
    exact = Fraction(number)
    return min(math.nextafter(number, 0.0), float_down(exact - exact / (1 << SCALE_BITS)))


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
    addition of epsilons and deltas (:mod:`understudy.privacy.accounting.filter`).

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
