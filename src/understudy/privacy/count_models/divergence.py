"""How much a redrawn table reveals: true ``(epsilon, delta)`` by hockey-stick divergence, and the paper's notion.

Notation: ``P_m`` is the law of a redrawn cell of mean ``m``; ``H(P, Q) = sum over b of max(0, P(b) - exp(epsilon) Q(b))``.
A mechanism is ``(epsilon, delta)``-DP exactly if ``H <= delta`` for all neighbours, both ways round.

Privacy
-------
**Monotone likelihood ratio.** ``Poisson(x)`` is totally positive of order two in ``(b, x)``. So is the law of ``x = m G`` in
``(x, m)`` if the density of ``ln G`` is log-concave; it is for the gamma (``k t - k exp(t)``), for the generalised inverse
Gaussian (``nu t - (psi exp(t) + chi exp(-t))/2``) and for ``nu`` plus a gamma variable with ``k >= 1``
(``(k-1) ln(exp(t) - nu)`` is concave, hence ``sigma <= 1``). The composition of the two is totally positive too, so
``r(b) = P_{m+s}(b) / P_m(b)`` rises with ``b``.

**The emptiest cell is the worst.** For ``s > 0`` and every ``epsilon >= 0`` both ``H(P_{m+s}, P_m)`` and ``H(P_m, P_{m+s})``
fall as ``m`` grows. *Proof.* From ``d p_m(b) / d m = (b p_m(b) - (b+1) p_m(b+1)) / m`` one has ``d P_m(b >= t) / d m =
t p_m(t) / m``. By the monotone ratio ``H(P_{m+s}, P_m)`` is the maximum over ``t`` of ``P_{m+s}(b >= t) - exp(epsilon) P_m(b >= t)``,
attained at the first ``t`` with ``r(t) > exp(epsilon)``. Its derivative in ``m`` there is
``t (p_{m+s}(t)/(m+s) - exp(epsilon) p_m(t)/m)``, which is not positive if ``r(t) <= exp(epsilon) (m+s)/m``. Now
``r(t-1) <= exp(epsilon)`` and ``r(t)/r(t-1) = ((m+s)/m) E_{m+s}[G | t-1] / E_m[G | t-1]``, where conditioning on ``b`` weights the law
of ``G`` by ``G^b exp(-m G)``: a larger ``m`` tilts it towards smaller values, so the last quotient is at most one. For the other
direction the set is ``b <= v`` and the derivative ``(v+1) (exp(epsilon) p_{m+s}(v+1)/(m+s) - p_m(v+1)/m)``, not positive if
``exp(epsilon) r(v+1) <= (m+s)/m``, which follows from ``exp(epsilon) r(v) < 1`` in the same way. A maximum of functions that
fall is a function that falls. For the Poisson family itself it is one line: adding an independent ``Poisson(c)`` to
``Poisson(m)`` and ``Poisson(m+s)`` gives ``Poisson(m+c)`` and ``Poisson(m+s+c)``, and post-processing cannot reveal more. So the
supremum over all counts is at ``a = 0`` against ``a = 1``: what the paper found on a grid and left unproved. (In its own,
probabilistic notion it is not true for ``epsilon < 1``.)

**Adding or removing one row** changes one cell: ``delta = max(H(P_{alpha+1}, P_alpha), H(P_alpha, P_{alpha+1}))``.

**Replacing one row** lowers one cell and raises another. The two cells are independent, and by the above the pair of laws of
each is dominated, for every ``epsilon`` and both ways round, by that of the emptiest cell; products of dominating pairs
dominate (Zhu, Dong and Wang 2022, theorem 10). So ``delta = H(P_{alpha+1} x P_alpha, P_alpha x P_{alpha+1})``, computed exactly
over both cells; it is its own reverse.

**Several rows per unit** (``k``). *Poisson*: a single cell that changes by ``k`` is the worst. Split its count ``Poisson(alpha + k x)``,
``x`` in {0, 1}, at random into parts with shares ``s_j / k``: independent ``Poisson(s_j alpha/k + s_j x)``; add
``Poisson(alpha - s_j alpha/k)`` to each, and there are the cells of a unit whose rows are spread over several. So the formulas
above hold with steps of ``k``. *Other families*: cells have factors of their own, and spreading can be worse; the group
argument is used: ``k`` single steps that are each ``(epsilon/k, d)``-DP are ``(epsilon, d (exp(epsilon)-1)/(exp(epsilon/k)-1))``-DP.

**Rounding.** Numbers are rounded up: the error of a computed ``H`` is at most twice the relative error of the
probabilities times the probability of the set, with all outputs that rounding could have put on the wrong side of it, plus
what lies outside the window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy.count_models.laws import Array, CountLaw
from understudy.privacy.exact_floats import non_negative, positive
from understudy.privacy.unit import Unit

# ----------------------------------------------------------------------------------------
# Probabilities of count laws over a window, with a proved bound on what lies outside and on rounding.
#
# Privacy
# -------
# Nothing here sees data. The bounds matter because a privacy parameter is computed from these numbers.
#
# *Window.* Above, the ratio of successive probabilities is at most ``r < 1`` from the last entry on (``step_bound``), so
# that less than ``p(last) r/(1-r)`` is left out. Below, Poisson and negative binomial windows start where
# ``P(b <= m - x) <= exp(-x^2 / (2 V))`` with ``V = m + sigma m^2`` is below ``exp(-80)``. That is Chernoff's bound: the function
# ``f(s) = ln E exp(-s b) + s m - s^2 V/2`` has ``f(0) = f'(0) = 0`` and, with ``D = 1 + sigma m (1 - exp(-s)) >= 1``,
# ``f''(s) = m exp(-s)/D + sigma m^2 exp(-2s)/D^2 - V <= 0``. The other families start at zero.
#
# *Normalisation.* Weights are products of ratios, from the mode outwards, divided by their sum: no special function of an
# extreme argument is needed. Dividing by the sum over the window makes each probability too large by at most the share
# left out.
#
# *Rounding.* With unit roundoff ``u = 2**-53`` a closed-form ratio is wrong by less than ``10 u`` and a product of ``N`` of
# them by less than ``11 N u``. In the recurrences of Delaporte and Sichel an error made at one step enters the next one with a
# factor of at most one (``d ln(w/(w+c)) / d ln w = c/(w+c)`` and ``d ln R(b) / d ln R(b-1) = -1/(R(b) R(b-1))`` times a share), so
# the ratio at step ``b`` is wrong by less than ``10 (b+1) u`` and the product by less than ``10 N^2 u``. Sichel adds the
# error of the Bessel functions it starts with, taken as ``1e-12`` each (they agree with quadrature to ``1e-13`` in the tests).

UNIT = 2.0**-53
LOWER_NATS = 80.0
LONGEST = 1 << 24
BESSEL_ERROR = 1e-12


@dataclass(frozen=True, eq=False)
class Probabilities:
    """Probabilities of ``first, first + 1, ...`` for several means on one window.

    Attributes
    ----------
    values
        One row per mean.
    outside
        Bound on the probability outside the window, under each mean.
    relative
        Bound on the relative error of each probability.
    """

    first: int
    values: Array
    outside: float
    relative: float


def first_count(law: CountLaw, mean: float) -> int:
    """Return a count below which a redrawn cell falls with probability less than ``exp(-80)``."""
    if law.kind > 1:
        return 0
    variance = mean + law.excess * mean * mean
    return max(0, math.floor(mean - math.sqrt(2 * LOWER_NATS * variance)))


def probabilities(law: CountLaw, means: Array) -> Probabilities:
    """Return the probabilities of redrawn cells with the given means on a window that holds nearly everything.

    Examples
    --------
    >>> found = probabilities(CountLaw("poisson", 1.0), np.array([1.0]))
    >>> found.first, round(float(found.values[0, 0]), 6)
    (0, 0.367879)
    """
    from understudy.privacy.count_models.kernels import step_bound, steps

    sigma, nu = law.sigma or 0.0, law.nu or 0.0
    psi = chi = 0.0
    if law.kind in (2, 4):
        nu, psi, chi = law.mixing
    first = min(first_count(law, float(mean)) for mean in means)
    last = max(_last(law, float(mean), sigma, nu, psi, chi) for mean in means)
    ratios = law.first_ratios(means)
    rows = []
    outside = math.exp(-LOWER_NATS)
    for mean, start in zip(means, ratios, strict=True):
        ratio = steps(law.kind, float(mean), sigma, nu, psi, chi, start, first, last)
        row = _from_ratios(ratio)
        bound = step_bound(law.kind, float(mean), sigma, nu, psi, chi, last)
        outside = max(outside, math.exp(-LOWER_NATS) + 2 * float(row[-1]) * bound / (1 - bound))
        rows.append(row)
    n = last - first + 1
    relative = 11 * n * UNIT if law.kind < 2 else 10 * n * n * UNIT
    if law.kind == 4:
        relative += 2 * n * BESSEL_ERROR
    return Probabilities(first, np.stack(rows), outside + 1e-290, relative + 2 * outside)


def _last(law: CountLaw, mean: float, sigma: float, nu: float, psi: float, chi: float) -> int:
    """Return a count beyond which the probability is below about 1e-33."""
    last = last_count(law, mean, (sigma, nu, psi, chi), nats=math.log(1e33))
    if last > LONGEST:
        raise NoSuchGuarantee(
            f"A redrawn cell under the law {law.describe()} spreads over more than {LONGEST:,} counts, too many to "
            "add up. Use a larger epsilon or delta, or a smaller sigma."
        )
    return last


def last_count(law: CountLaw, mean: float, numbers: tuple[float, float, float, float], *, nats: float) -> int:
    """Return a count beyond which less than ``exp(-nats)`` of the probability lies.

    From each of some points beyond the mean the ratio of successive probabilities is at most ``step_bound`` there, so the
    products of these bounds carry the weight at the mean, which is at most one, down to the end.
    """
    from understudy.privacy.count_models.kernels import step_bound

    sigma, nu, psi, chi = numbers
    width = 8 * math.sqrt(mean + law.excess * mean * mean) + 40
    while width < 1e15:
        last = math.ceil(mean + width)
        bound = step_bound(law.kind, mean, sigma, nu, psi, chi, last)
        if bound < 1:
            points = np.unique(np.linspace(math.ceil(mean), last, 65).astype(np.int64))
            logs = [
                math.log(min(1.0, step_bound(law.kind, mean, sigma, nu, psi, chi, int(b)))) for b in points
            ]
            weight = float(np.sum(np.diff(points) * np.array(logs[:-1])))
            if weight + math.log(bound / (1 - bound) + 1e-300) < -nats:
                return last
        width *= 1.25
    return 1 << 60


def _from_ratios(ratio: Array) -> Array:
    """Turn ratios of successive probabilities into probabilities, by products from the mode outwards."""
    peak = int(np.argmax(np.concatenate([[0.0], np.cumsum(np.log(ratio))])))
    with np.errstate(under="ignore"):
        up = np.cumprod(ratio[peak:])
        down = np.cumprod(1 / ratio[:peak][::-1])[::-1]
    weights = np.concatenate([down, [1.0], up])
    weights /= weights.sum()
    return weights


_MOST_COUNTS = 100_000
_TIE = 1e-9
LARGEST_EPSILON = 30.0


def hockey_stick(one: Array, other: Array, epsilon: float, *, outside: float, relative: float) -> float:
    """Return an upper bound on ``sum max(0, one - exp(epsilon) other)`` of two computed laws.

    Examples
    --------
    >>> hockey_stick(np.array([0.75, 0.25]), np.array([0.25, 0.75]), 0.0, outside=0.0, relative=0.0)
    0.5
    """
    gain = one - math.exp(epsilon) * other
    chosen = gain > 0
    at_risk = float(one[gain > -max(_TIE, 4 * relative) * one].sum())
    return min(1.0, float(gain[chosen].sum()) + 3 * relative * at_risk + outside)


def one_cell(law: CountLaw, epsilon: float, *, step: int = 1, count: int = 0) -> tuple[float, float]:
    """Return ``H`` for one cell that holds ``count + step`` or ``count`` records: (more against fewer, fewer against more)."""
    mean = float(count) + law.alpha
    found = probabilities(law, np.array([mean, mean + step]))
    fewer, more = found.values
    return (
        hockey_stick(more, fewer, epsilon, outside=found.outside, relative=found.relative),
        hockey_stick(fewer, more, epsilon, outside=found.outside, relative=found.relative),
    )


def two_cells(law: CountLaw, epsilon: float, *, step: int = 1) -> float:
    """Return ``H`` for two empty cells of which one gains and one loses ``step`` records."""
    found = probabilities(law, np.array([law.alpha, law.alpha + step]))
    return _joint(found, epsilon)


def _joint(found: Probabilities, epsilon: float) -> float:
    """Sum over the falling cell; for each of its values the rising cell's set is an upper tail."""
    fewer, more = found.values
    usable = (fewer > 1e-280) & (more > 1e-280)
    lost = 2 * float(fewer[~usable].sum() + more[~usable].sum())
    fewer, more = fewer[usable], more[usable]
    loss = np.maximum.accumulate(np.log(more) - np.log(fewer))
    tail_more = np.append(np.cumsum(more[::-1])[::-1], 0.0)
    tail_fewer = np.append(np.cumsum(fewer[::-1])[::-1], 0.0)
    where = np.searchsorted(loss, loss + epsilon, side="right")
    value = float(np.sum(fewer * tail_more[where]))
    value -= float(np.sum(math.exp(epsilon) * (more * tail_fewer[where])))
    relative = 2 * found.relative + 4 * len(fewer) * 2.0**-53
    near = np.searchsorted(loss, loss + epsilon - max(_TIE, 4 * relative), side="right")
    at_risk = float(np.sum(fewer * tail_more[near]))
    return min(1.0, max(0.0, value) + 4 * relative * at_risk + 2 * found.outside + lost)


def true_delta(law: CountLaw, epsilon: float, unit: Unit) -> float:
    """Return the smallest ``delta``, rounded up, for which redrawing every cell is ``(epsilon, delta)``-DP.

    Parameters
    ----------
    law
        How cells are redrawn.
    epsilon
        At least zero.
    unit
        Who is protected.

    Examples
    --------
    >>> round(true_delta(CountLaw("poisson", 0.1), 3.0, Unit.add_remove()), 3)
    0.207
    >>> round(true_delta(CountLaw("poisson", 1.0), 2.0, Unit.add_remove()), 4)
    0.0256
    """
    epsilon = non_negative("epsilon", epsilon)
    if epsilon > LARGEST_EPSILON:
        raise BudgetError(f"epsilon ({epsilon:g}) must be at most {LARGEST_EPSILON:g} for a count mechanism.")
    return _true_delta(law, epsilon, unit.relation == "replace-one", unit.max_rows)


@lru_cache(maxsize=512)
def _true_delta(law: CountLaw, epsilon: float, replace: bool, rows: int) -> float:
    if law.family == "poisson" or rows == 1:
        if replace:
            return two_cells(law, epsilon, step=rows)
        return max(one_cell(law, epsilon, step=rows))
    single = _true_delta(law, epsilon / rows, replace, 1)
    factor = math.fsum(math.exp(step * epsilon / rows) for step in range(rows))
    return min(1.0, single * factor * (1 + 1e-12))


def probabilistic_delta(law: CountLaw, epsilon: float) -> float:
    """Return the ``delta`` of the paper's probabilistic notion, for adding or removing one row.

    The largest probability, over all counts ``a >= 1`` and over draws from either neighbour, that the likelihood ratio of
    ``a`` against ``a - 1`` leaves ``[exp(-epsilon), exp(epsilon)]``. For ``epsilon >= 1`` the lower end is never left, as the
    ratio is at least ``exp(-1)``; below, both ends count, the case the paper leaves open.

    **Supremum.** Counts are tried one by one up to some ``A``. For larger ones: if ``S`` is the set where the ratio of ``P`` to ``Q``
    exceeds ``exp(epsilon)`` then, for any ``e < epsilon``, ``P(S) (1 - exp(e - epsilon)) <= P(S) - exp(e) Q(S) <= H_e(P, Q)``, and
    ``H_e`` falls with the count (see the module). So ``H_e`` at ``A`` bounds what all larger counts can do, and the
    search ends once the bound is no larger than the maximum found.

    This is *not* what a ledger charges: it is implied by nothing weaker and does not survive post-processing.

    Examples
    --------
    >>> round(probabilistic_delta(CountLaw("poisson", 0.1), 3.0), 3)
    0.301
    >>> round(probabilistic_delta(CountLaw("poisson", 1.0), 2.0), 4)
    0.0527
    """
    epsilon = positive("epsilon", epsilon)
    largest = 0.0
    check = 1
    for count in range(1, _MOST_COUNTS):
        found = probabilities(law, np.array([count - 1 + law.alpha, count + law.alpha]))
        fewer, more = found.values
        largest = max(largest, *_leaving(fewer, more, epsilon))
        if count == check:
            beyond = _beyond(law, epsilon, count)
            if beyond <= largest:
                return min(1.0, largest * (1 + found.relative))
            if beyond < 1e-30:  # as small as the window can tell
                return max(beyond, largest)
            check = max(check + 1, check * 5 // 4)
    raise NoSuchGuarantee(
        f"The probabilistic delta of {law.describe()} at epsilon={epsilon:g} was not found within {_MOST_COUNTS:,} counts."
    )


def _leaving(fewer: Array, more: Array, epsilon: float) -> tuple[float, float]:
    """Return the probability that the ratio leaves the band, under either law."""
    usable = (fewer > 1e-280) & (more > 1e-280)
    loss = np.abs(np.log(more[usable]) - np.log(fewer[usable]))
    bad = loss > epsilon * (1 + 1e-10) + 1e-12  # ties belong to the band
    return float(more[usable][bad].sum()), float(fewer[usable][bad].sum())


def _beyond(law: CountLaw, epsilon: float, count: int) -> float:
    """Bound the probability of leaving the band for all counts above ``count``."""
    best = math.inf
    for share in (0.5, 0.7, 0.85):
        up, down = one_cell(law, share * epsilon, count=count - 1)
        best = min(best, (up + down) / (1 - math.exp((share - 1) * epsilon)))
    return best
