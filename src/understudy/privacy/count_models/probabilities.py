"""Probabilities of count laws over a window, with a proved bound on what lies outside and on rounding.

Privacy
-------
Nothing here sees data. The bounds matter because a privacy parameter is computed from these numbers.

*Window.* Above, the ratio of successive probabilities is at most ``r < 1`` from the last entry on (``step_bound``), so
that less than ``p(last) r/(1-r)`` is left out. Below, Poisson and negative binomial windows start where
``P(b <= m - x) <= exp(-x^2 / (2 V))`` with ``V = m + sigma m^2`` is below ``exp(-80)``. That is Chernoff's bound: the function
``f(s) = ln E exp(-s b) + s m - s^2 V/2`` has ``f(0) = f'(0) = 0`` and, with ``D = 1 + sigma m (1 - exp(-s)) >= 1``,
``f''(s) = m exp(-s)/D + sigma m^2 exp(-2s)/D^2 - V <= 0``. The other families start at zero.

*Normalisation.* Weights are products of ratios, from the mode outwards, divided by their sum: no special function of an
extreme argument is needed. Dividing by the sum over the window makes each probability too large by at most the share
left out.

*Rounding.* With unit roundoff ``u = 2**-53`` a closed-form ratio is wrong by less than ``10 u`` and a product of ``N`` of
them by less than ``11 N u``. In the recurrences of Delaporte and Sichel an error made at one step enters the next one with a
factor of at most one (``d ln(w/(w+c)) / d ln w = c/(w+c)`` and ``d ln R(b) / d ln R(b-1) = -1/(R(b) R(b-1))`` times a share), so
the ratio at step ``b`` is wrong by less than ``10 (b+1) u`` and the product by less than ``10 N^2 u``. Sichel adds the
error of the Bessel functions it starts with, taken as ``1e-12`` each (they agree with quadrature to ``1e-13`` in the tests).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from understudy.errors import NoSuchGuarantee
from understudy.privacy.count_models.laws import Array, CountLaw

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
    from understudy.privacy.count_models._dd_kernels import step_bound, steps

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
    from understudy.privacy.count_models._dd_kernels import step_bound

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
