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
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, float_up
from understudy.release._attempts import (
    Attempts,
    GeometricAttempts,
    NegativeBinomialAttempts,
    SingleAttempt,
    UnlimitedAttempts,
)
from understudy.release._profiles import profile_of
from understudy.release._renyi import renyi_cost, renyi_epsilon

__all__ = [
    "Attempts",
    "GeometricAttempts",
    "NegativeBinomialAttempts",
    "SelectionGuarantee",
    "SingleAttempt",
    "UnlimitedAttempts",
    "attempts_needed",
    "profile_bound",
    "pure_cost",
    "renyi_cost",
    "selection_delta",
    "selection_epsilon",
    "selection_guarantee",
    "selection_profile",
    "theorem_3",
]

Floats = npt.NDArray[np.float64]

_UP = 1 + 1e-9
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
