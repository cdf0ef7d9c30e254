"""What repeating a private attempt until it passes costs (paper Births, sections 3.7 and 4.9).

One *attempt* ``Q`` is the whole chain on the private table: draw a configuration, fit, sample, project, test. Its
outcome is a candidate and "pass", or "fail". *Selection* ``A`` repeats attempts until one passes or a number ``K`` of
attempts, drawn without looking at the data, is used up; it releases the passing candidate, or says that it failed.
The number of attempts made is withheld.

Let ``p`` be the probability that an attempt passes. Then ``A(x) = Q(x) g(p)`` for passing outcomes and
``A(fail) = (1 - p) h(p)`` with the functions of :class:`Attempts`. Everything below follows from these two lines.

**Pure DP, any rule.** If ``Q`` is ``eps``-DP then ``A(x)/A'(x) <= e^eps g(p)/g(p')`` and
``A(fail)/A'(fail) = (1-p)/(1-p') h(p)/h(p') <= e^eps h(p)/h(p')``, where ``p' <= P(p) = min(e^eps p, 1 - e^-eps (1-p))``
and, since ``g`` and ``h`` fall, the worst ``p'`` is ``P(p)``. So ``A`` is at most ``eps + ln M`` with
``M = sup over p of max(g(p)/g(P(p)), h(p)/h(P(p)))`` (`pure_cost` does not bound ``(1-p)/(1-p')`` by ``e^eps`` where it is
smaller). Closed forms:

- *Single attempt*: ``g = h = 1``, so ``eps``.
- *Unlimited*: ``g = 1/p`` and no failure, so ``M = e^eps`` and the cost is ``2 eps``. In fact ``g(p)/g(p') <= p'/p`` for
  every rule, because the probability of success rises in ``p``: only the failure outcome can cost more than ``2 eps``.
- *Known threshold without a limit*: ``g = 1/z`` and ``h = gamma/z`` with ``z = gamma + (1 - gamma) p``. The ratio
  ``z(P(p))/z(p)`` rises in ``p`` up to ``p = 1/(1 + e^eps)``, where the two branches of ``P`` meet, and falls after, so
  ``M = (e^eps + gamma)/(1 + gamma e^eps)``: cheaper than ``2 eps`` for every ``gamma > 0``, and attained.
- *Known threshold, at most T attempts*: ``g`` has the extra factor ``1 - q^T`` with ``q = (1-gamma)(1-p)``, which rises
  in ``p`` and so only helps. ``h`` becomes ``(gamma + p (1-gamma)^T (1-p)^(T-1))/z``. Bounding its denominator
  from below by ``gamma/z'`` gives ``h(p)/h(p') <= (z'/z) (1 + p (1-p)^(T-1) (1-gamma)^T / gamma)``, and
  ``p (1-p)^(T-1) <= 1/(e (T-1))``. With ``T >= 1 + 1/(e gamma)`` and ``T >= ln(2/eps0)/gamma`` the last factor is
  at most ``1 + eps0/2``: this is Theorem 3, ``2 eps + eps0`` (whose printed
  condition ``1 + 1/(eps gamma)`` is to be read with Euler's number).
- *Truncated negative binomial*: ``f'(x) = C (1 - (1-gamma) x)^(-1-eta)``, and ``g(p)`` is the average of
  ``f'(1 - p u)`` over ``u`` in ``[0, 1]``, ``h(p)`` that of ``f'((1-p) u)``. For either argument ``z`` the number
  ``r = 1 - (1-gamma) z`` is the probability of an event of the attempt and two coins, so ``r'/r <= e^eps``; the
  integrands differ by a factor of at most ``(r'/r)^(1+eta)``, hence ``M <= e^((1+eta) eps)`` and the cost is
  ``(2 + eta) eps`` (Papernot and Steinke 2022, for the best of ``K``; here for pass or fail).

**Any privacy profile.** For a test function ``0 <= phi <= 1`` on outcomes let ``w`` be ``g`` on passing outcomes and ``h``
on failures. Then ``A(phi) - e^t A'(phi) = sum phi (w Q - e^t w' Q') <= g(p) sum phi (w/g)(Q - (e^t/M) Q')``
``<= g(p) delta_Q(t - ln M)`` with ``M = max(g(p)/g(p'), h(p)/h(p'))``, because ``phi w/g`` is again a test function. So

``delta_A(t) <= sup over p of g(p) delta_Q(t - ln M(p))``,

with ``p' = P(p)``, the largest value the profile allows. The failure outcome is a single point whose probability
``F(p) = (1 - p) h(p)`` is known, so it may also be taken apart:
``delta_A(t) <= g(p) delta_Q(t - ln(g(p)/g(p'))) + max(0, F(p) - e^t F(p'))``; the smaller of the two is used. For the known threshold ``g(p) <= 1/gamma`` and
``P(p) <= e^e p + delta_Q(e)`` give the simpler
``delta_A(t) <= delta_Q(t - ln(e^e + ((1-gamma)/gamma) delta_Q(e))) / gamma`` for every ``e >= 0`` (`profile_bound`).

The supremum over ``p`` is found by branch and bound: on ``[a, b]`` it is at most the expression with ``g(a)``, ``h(a)`` and
``P(b)``, because ``g``, ``h`` and ``F`` fall and ``P`` rises. The result is an upper bound, not a search result.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.privacy.exact_floats import float_up
from understudy.release.selection.profiles import profile_of

# ----------------------------------------------------------------------------------------
# What a selection costs by Rényi divergences, for a truncated negative binomial number of attempts.

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


# ----------------------------------------------------------------------------------------
# How many attempts a private selection may make: distributions that are drawn without looking at the data.

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


_STEPS = 40
_MOST_CELLS = 100_000


@dataclass(frozen=True)
class SelectionGuarantee:
    """The guarantee of a selection and where it comes from.

    Attributes
    ----------
    epsilon, delta
        The selection as a whole is ``(epsilon, delta)``-DP; pure if ``delta`` is zero.
    argument
        Name of the accounting that gave the smallest epsilon.
    attempt
        Guarantee of one attempt.
    attempts
        The rule for the number of attempts.
    considered
        Epsilon by every accounting that applies, the chosen one included.
    """

    epsilon: float
    delta: float
    argument: str
    attempt: Budget
    attempts: Attempts
    considered: dict[str, float]

    @property
    def budget(self) -> Budget:
        """The guarantee as a budget, for the ledger."""
        return PureDP(self.epsilon) if self.delta == 0 else ApproxDP(self.epsilon, self.delta)


def selection_guarantee(attempt: Budget, attempts: Attempts, *, delta: float = 0.0) -> SelectionGuarantee:
    """Return the cheapest valid guarantee of a selection.

    Parameters
    ----------
    attempt
        Guarantee of one attempt: fitting, projection and tests together.
    attempts
        Rule for the number of attempts.
    delta
        Delta the selection may have. Zero asks for pure DP, which only a pure attempt can give.

    Examples
    --------
    >>> guarantee = selection_guarantee(PureDP(1.1), SingleAttempt())
    >>> guarantee.epsilon, guarantee.argument
    (1.1, 'post-processing of one attempt')
    >>> round(selection_guarantee(PureDP(4.99), UnlimitedAttempts()).epsilon, 9)
    9.98
    >>> round(selection_guarantee(PureDP(1.0), GeometricAttempts(0.1)).epsilon, 4)
    1.7957
    >>> chosen = selection_guarantee(GDP(0.25), GeometricAttempts(0.1), delta=1e-6)
    >>> round(chosen.epsilon, 3), chosen.argument
    (1.367, 'privacy profile')
    """
    if not 0 <= delta < 1:
        raise BudgetError(f"delta ({delta}) of a selection must be at least 0 and below 1.")
    pure = _pure_arguments(attempt.epsilon, attempts) if isinstance(attempt, PureDP) else {}
    approximate: dict[str, float] = {}
    if delta > 0:
        if isinstance(attempts, SingleAttempt):
            approximate["privacy profile of one attempt"] = _smallest_epsilon(
                profile_of(attempt).delta, delta
            )
        elif not isinstance(attempts, UnlimitedAttempts):
            approximate["privacy profile"] = selection_epsilon(attempt, attempts, delta=delta)
        if isinstance(attempt, ZCDP | GDP) and isinstance(attempts, NegativeBinomialAttempts):
            approximate["Rényi divergences"] = renyi_epsilon(attempt, attempts, delta)
    considered = pure | approximate
    if not considered:
        raise NoSuchGuarantee(
            f"An attempt with {attempt.describe()} and {attempts.describe()} has no known guarantee with "
            f"delta={delta:g}. Allow a delta, make one attempt, or use pure mechanisms."
        )
    argument = min(considered, key=lambda name: considered[name])
    return SelectionGuarantee(
        considered[argument], 0.0 if argument in pure else delta, argument, attempt, attempts, considered
    )


# ---------------------------------------------------------------------- pure


def _pure_arguments(epsilon: float, attempts: Attempts) -> dict[str, float]:
    if isinstance(attempts, SingleAttempt):
        return {"post-processing of one attempt": epsilon}
    if isinstance(attempts, UnlimitedAttempts):
        return {"repeat until success (Liu and Talwar)": 2 * epsilon}
    found = {"worst case over the probability of passing": pure_cost(epsilon, attempts)}
    if isinstance(attempts, GeometricAttempts) and attempts.most is None:
        gamma = attempts.gamma
        exact = epsilon + math.log((math.exp(epsilon) + gamma) / (1 + gamma * math.exp(epsilon)))
        found["known threshold, closed form"] = exact * (1 + 1e-12)
    if isinstance(attempts, NegativeBinomialAttempts):
        found["truncated negative binomial"] = float_up((2 + Fraction(attempts.eta)) * Fraction(epsilon))
    return found


def pure_cost(epsilon: float, attempts: Attempts) -> float:
    """Return the pure cost of a selection by any rule with finitely many attempts.

    Examples
    --------
    >>> round(pure_cost(0.5, GeometricAttempts(0.05)), 4)
    0.9507
    >>> round(pure_cost(0.5, GeometricAttempts(0.05, most=1)), 4)
    0.5
    """
    profile = profile_of(PureDP(epsilon))

    def bound(low: Floats, high: Floats) -> Floats:
        other = profile.largest(high)
        passes = attempts.weight_of_pass(low) / attempts.weight_of_pass(other)
        failures = attempts.weight_of_failure(low) / attempts.weight_of_failure(other)
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.where(other < 1, (1 - low) / (1 - other), np.inf)
        failures = failures * np.minimum(math.exp(epsilon), odds)
        return np.log(np.maximum(1.0, np.maximum(math.exp(epsilon) * passes, failures)))

    return max(epsilon, _supremum(bound, tolerance=1e-6)) * _UP


def attempts_needed(gamma: float, epsilon0: float) -> int:
    """Return the smallest ``T`` for Theorem 3: ``T >= ln(2/eps0)/gamma`` and ``T >= 1 + 1/(e gamma)``.

    Examples
    --------
    >>> attempts_needed(0.01, 0.1)
    300
    """
    if not (0 < gamma < 1 and 0 < epsilon0 <= 1):
        raise BudgetError(
            f"gamma ({gamma}) must lie between 0 and 1, epsilon0 ({epsilon0}) above 0 and up to 1."
        )
    return math.ceil(max(math.log(2 / epsilon0) / gamma, 1 + 1 / (math.e * gamma)))


def theorem_3(epsilon: float, *, gamma: float, epsilon0: float, most: int) -> float:
    """Return ``2 epsilon + epsilon0``, the cost by paper Births, Theorem 3; refuse too few attempts.

    Kept for comparison: `pure_cost` of ``GeometricAttempts(gamma, most)`` is never larger.
    """
    needed = attempts_needed(gamma, epsilon0)
    if most < needed:
        raise BudgetError(
            f"Theorem 3 needs at least {needed} attempts for gamma={gamma:g}, epsilon0={epsilon0:g}."
        )
    return 2 * epsilon + epsilon0


# ---------------------------------------------------------------------- privacy profiles


def selection_delta(attempt: Budget, attempts: Attempts, *, epsilon: float) -> float:
    """Return an upper bound on the delta of a selection at a given epsilon."""
    if isinstance(attempts, UnlimitedAttempts):
        raise NoSuchGuarantee("Unlimited attempts need a pure attempt: their delta is not bounded.")
    profile = profile_of(attempt)

    def bound(low: Floats, high: Floats) -> Floats:
        other, weight = profile.largest(high), attempts.weight_of_pass(low)
        passes = np.maximum(1.0, weight / attempts.weight_of_pass(other))
        failures = attempts.weight_of_failure(low) / attempts.weight_of_failure(other)
        together = weight * profile.delta(epsilon - np.log(np.maximum(passes, failures)))
        failed = [(1 - p) * attempts.weight_of_failure(p) for p in (low, other)]
        apart = weight * profile.delta(epsilon - np.log(passes))
        apart = apart + np.maximum(0.0, failed[0] - math.exp(epsilon) * failed[1])
        return np.log(np.maximum(np.minimum(together, apart), 1e-300))

    return min(1.0, math.exp(_supremum(bound, tolerance=1e-3)) * _UP)


def selection_epsilon(attempt: Budget, attempts: Attempts, *, delta: float) -> float:
    """Return the smallest epsilon at which `selection_delta` is at most ``delta``.

    Examples
    --------
    >>> round(selection_epsilon(GDP(0.25), GeometricAttempts(0.1), delta=1e-6), 3)
    1.367
    """
    return _smallest_epsilon(
        lambda e: np.array([selection_delta(attempt, attempts, epsilon=float(e[0]))]), delta
    )


def selection_profile(
    attempt: Budget, attempts: Attempts, *, up_to: float, points: int
) -> list[tuple[float, float]]:
    """Return pairs of epsilon and delta, all of which a selection keeps at once, from near 0 up to an epsilon.

    Empty where no bound but the pure one is known. Pairs with a delta of 1 say nothing and are left out.
    """
    if isinstance(attempts, UnlimitedAttempts):
        return []
    found = [
        (epsilon, selection_delta(attempt, attempts, epsilon=epsilon))
        for epsilon in (up_to * (step + 1) / points for step in range(points))
    ]
    return [(epsilon, delta) for epsilon, delta in found if 0 < delta < 1]


def profile_bound(attempt: Budget, *, gamma: float, epsilon: float) -> float:
    """Return the simple bound on the delta of a known-threshold selection, optimised over ``e``.

    ``delta_Q(epsilon - ln(exp(e) + ((1 - gamma)/gamma) delta_Q(e))) / gamma``, minimised over ``e`` between 0 and
    ``epsilon``. `selection_delta` is never larger, up to its tolerance.
    """
    profile = profile_of(attempt)
    e = np.linspace(0.0, max(epsilon, 0.0), 2001)
    ratio = np.exp(e) + (1 - gamma) / gamma * profile.delta(e)
    return min(1.0, float((profile.delta(epsilon - np.log(ratio)) / gamma).min()))


def _supremum(bound: Callable[[Floats, Floats], Floats], *, tolerance: float) -> float:
    """Return an upper bound on the supremum over ``p`` in ``[0, 1]``, by branch and bound.

    ``bound(low, high)`` bounds the function over intervals from above, and ``bound(p, p)`` is the function.
    """
    inner = 1 / (1 + np.exp(-np.linspace(-32.0, 32.0, 257)))
    edges = np.concatenate([[0.0], inner, [1.0]])
    low, high = edges[:-1], edges[1:]
    best = float(bound(edges, edges).max())
    settled = -math.inf
    for _ in range(_STEPS):
        upper = bound(low, high)
        open_cells = upper > best + tolerance
        settled = max(settled, float(upper[~open_cells].max(initial=-math.inf)))
        low, high = low[open_cells], high[open_cells]
        if len(low) == 0:
            return max(settled, best)
        if len(low) > _MOST_CELLS:
            break
        cuts = np.linspace(low, high, 9)
        best = max(best, float(bound(cuts.ravel(), cuts.ravel()).max()))
        low, high = cuts[:-1].ravel(), cuts[1:].ravel()
    return max(settled, best, float(bound(low, high).max()))


def _smallest_epsilon(delta_at: Callable[[Floats], Floats], delta: float) -> float:
    """Return the smallest epsilon with at most that delta, rounded up, by bisection of a falling curve."""
    low, high = 0.0, 1.0
    if float(delta_at(np.array([low]))[0]) <= delta:
        return 0.0
    while float(delta_at(np.array([high]))[0]) > delta:
        low, high = high, 2 * high
        if high > 1e6:
            raise NoSuchGuarantee(f"No epsilon below a million reaches delta={delta:g}.")
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        if float(delta_at(np.array([middle]))[0]) <= delta:
            high = middle
        else:
            low = middle
    return high
