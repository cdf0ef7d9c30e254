"""Count distributions that redraw a cell: each is a Poisson distribution with a random rate of mean ``a + alpha``.

A cell that holds ``a`` records is replaced by a draw ``b`` from ``Poisson((a + alpha) G)``, where ``alpha > 0`` is the
pseudocount and ``G`` is a positive random factor of mean one, drawn afresh for every cell:

=========================  ==============================================================  ====================
family                     factor ``G``                                                    variance, mean ``m``
=========================  ==============================================================  ====================
poisson                    1                                                               ``m``
negative-binomial          gamma with variance ``sigma``                                   ``m + sigma m^2``
poisson-inverse-gaussian   inverse Gaussian with variance ``sigma``                        ``m + sigma m^2``
delaporte                  ``nu + (1 - nu)`` times a gamma variable of variance ``sigma``  ``m + sigma (1-nu)^2 m^2``
sichel                     generalised inverse Gaussian of index ``nu``, mean one          ``m + v(sigma, nu) m^2``
=========================  ==============================================================  ====================

These are the parameters of the saturated count models that paper Poisson builds on (Jackson et al. 2022, after Rigby and
Stasinopoulos): NBI, PIG, DEL and SICHEL.

**One recurrence.** For a mixed Poisson law with rate ``x = m G`` one has ``(b + 1) p(b + 1) = t(b) p(b)`` with
``t(b) = E[x | b]``, the posterior mean of the rate. With ``theta = sigma m / (1 + sigma m)`` and ``k = 1 / sigma``:

- Poisson: ``t(b) = m``;
- negative binomial: ``t(b) = (b + k) theta``;
- Delaporte (there ``theta`` has ``m (1 - nu)`` in place of ``m``, and ``c = m nu``): ``t(b) = c + w(b)``,
  ``w(0) = k theta``, ``w(b) = k theta + theta b w(b-1) / (w(b-1) + c)``;
- Sichel (mixing density proportional to ``g^(nu-1) exp(-(psi g + chi/g)/2)``, ``z = sqrt(chi (psi + 2m))``):
  ``t(b) = m sqrt(chi / (psi + 2m)) R(b)`` with the Bessel ratio ``R(b) = K_{b+nu+1}(z) / K_{b+nu}(z)``, and
  ``R(b) = 2 (b + nu)/z + 1/R(b-1)``; the inverse Gaussian is ``nu = -1/2``, where ``R(0) = 1``.

Every term is positive (for Sichel once ``b + nu >= 0``; earlier ratios come from the Bessel functions themselves), so
nothing cancels and rounding errors stay relative. The Delaporte form follows from the generating function
``exp(c (s-1)) ((1 - theta)/(1 - theta s))^k``, whose logarithmic derivative gives ``(b+1) p(b+1) = (theta b + c + k theta)
p(b) - c theta p(b-1)``; put ``t = c + w``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError, NoSuchGuarantee

Family = Literal["poisson", "negative-binomial", "poisson-inverse-gaussian", "delaporte", "sichel"]
FAMILIES: tuple[Family, ...] = (
    "poisson",
    "negative-binomial",
    "poisson-inverse-gaussian",
    "delaporte",
    "sichel",
)
KINDS: dict[str, int] = {name: index for index, name in enumerate(FAMILIES)}
PARAMETERS: dict[str, tuple[str, ...]] = {
    "poisson": (),
    "negative-binomial": ("sigma",),
    "poisson-inverse-gaussian": ("sigma",),
    "delaporte": ("sigma", "nu"),
    "sichel": ("sigma", "nu"),
}

Array = npt.NDArray[np.float64]

_LARGEST_NU = 40.0
_SIGMA_RANGE = (1e-6, 1e3)


@dataclass(frozen=True)
class CountLaw:
    """The law of a redrawn cell: a family, the pseudocount and the family's extra parameters.

    Parameters
    ----------
    family
        One of ``FAMILIES``.
    alpha
        Pseudocount added to every cell, positive. It need not be whole.
    sigma
        Spread of the random factor; all families but Poisson.
    nu
        Delaporte: the share of the rate that is not random, between 0 and 1. Sichel: the index, any number up to 40
        in size (``-0.5`` is the Poisson-inverse-Gaussian).

    Examples
    --------
    >>> CountLaw("negative-binomial", alpha=2.0, sigma=0.5).variance(3)
    17.5
    """

    family: Family
    alpha: float
    sigma: float | None = None
    nu: float | None = None

    def __post_init__(self) -> None:
        if self.family not in PARAMETERS:
            raise BudgetError(f"family ({self.family!r}) must be one of {', '.join(FAMILIES)}.")
        if not (math.isfinite(self.alpha) and 1e-9 <= self.alpha <= 1e12):
            raise BudgetError(f"alpha ({self.alpha}) must lie between 1e-9 and 1e12.")
        wanted = PARAMETERS[self.family]
        for name in ("sigma", "nu"):
            value = getattr(self, name)
            if (value is None) == (name in wanted):
                needs = " and ".join(wanted) or "no extra parameter"
                raise BudgetError(f"{self.family} takes {needs}; {name} is {value}.")
        if self.sigma is not None and not _SIGMA_RANGE[0] <= self.sigma <= _SIGMA_RANGE[1]:
            raise BudgetError(f"sigma ({self.sigma}) must lie between 1e-6 and 1000.")
        if self.nu is not None:
            self._check_nu(self.nu)

    def _check_nu(self, nu: float) -> None:
        if self.family == "delaporte":
            if not 0 < nu < 1:
                raise BudgetError(f"nu ({nu}) of a Delaporte distribution must lie between 0 and 1.")
            assert self.sigma is not None
            if self.sigma > 1:
                raise NoSuchGuarantee(
                    f"sigma ({self.sigma}) of a Delaporte mechanism must be at most 1: beyond it the likelihood ratio is "
                    "not monotone and the worst case is not known. Use negative-binomial for a wider spread."
                )
        elif not abs(nu) <= _LARGEST_NU:
            raise BudgetError(f"nu ({nu}) must lie between -{_LARGEST_NU:g} and {_LARGEST_NU:g}.")

    @property
    def kind(self) -> int:
        """Number of the family, for compiled code."""
        return KINDS[self.family]

    @property
    def excess(self) -> float:
        """Variance of the random factor: the variance of a draw is ``m + excess m^2``."""
        if self.family == "poisson":
            return 0.0
        assert self.sigma is not None
        if self.family == "delaporte":
            assert self.nu is not None
            return self.sigma * (1 - self.nu) ** 2
        if self.family != "sichel":
            return self.sigma
        assert self.nu is not None
        ratio = _bessel_ratio(self.nu, 1 / self.sigma)
        return 1 / ratio**2 + 2 * self.sigma * (self.nu + 1) / ratio - 1

    def mean(self, count: float) -> float:
        """Return the mean of the redrawn cell."""
        return count + self.alpha

    def variance(self, count: float) -> float:
        """Return the variance of the redrawn cell."""
        mean = count + self.alpha
        return mean + self.excess * mean**2

    @property
    def mixing(self) -> tuple[float, float, float]:
        """Index, ``psi`` and ``chi`` of the generalised inverse Gaussian factor (Sichel and PIG)."""
        assert self.sigma is not None
        if self.family == "poisson-inverse-gaussian":
            return -0.5, 1 / self.sigma, 1 / self.sigma
        assert self.nu is not None
        ratio = _bessel_ratio(self.nu, 1 / self.sigma)
        return self.nu, ratio / self.sigma, 1 / (self.sigma * ratio)

    def first_ratios(self, means: Array) -> Array:
        """Return the Bessel ratios ``R(0), R(1), ...`` that the recurrence cannot start without; one row per mean."""
        if self.family != "sichel":
            return np.ones((len(means), 1))
        index, psi, chi = self.mixing
        z = np.sqrt(chi * (psi + 2 * np.asarray(means, dtype=np.float64)))
        orders = index + np.arange(max(1, math.ceil(-index) + 1))
        return np.stack([bessel_ratio(order, z) for order in orders], axis=1)

    def describe(self) -> str:
        """Return the law in words."""
        extra = "".join(f", {name}={getattr(self, name):g}" for name in PARAMETERS[self.family])
        return f"{self.family} with pseudocount alpha={self.alpha:.6g}{extra}"


def bessel_ratio(order: float, z: Array) -> Array:
    """Return ``K_{order+1}(z) / K_order(z)``; the Bessel functions are even in their order."""
    from scipy.special import kve

    ratio = np.asarray(kve(abs(order + 1), z) / kve(abs(order), z), dtype=np.float64)
    if not (np.isfinite(ratio).all() and (ratio > 0).all()):
        raise NoSuchGuarantee(
            "These Sichel parameters are too extreme for the Bessel functions. Use a smaller nu, or a smaller sigma."
        )
    return ratio


def _bessel_ratio(order: float, z: float) -> float:
    return float(bessel_ratio(order, np.array([z]))[0])
