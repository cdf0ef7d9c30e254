"""Count distributions wider than the Poisson: negative binomial, Poisson-inverse-Gaussian, Delaporte, Sichel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.privacy.count_models import Family
from understudy.synthesizers.counts._redrawn import RedrawnTable


@dataclass(frozen=True, kw_only=True)
class NegativeBinomialTable(RedrawnTable):
    """Replace every cell count ``a`` by a negative binomial draw: mean ``m = a + alpha``, variance ``m + sigma m^2``.

    Parameters
    ----------
    sigma
        Spread of the gamma factor of the rate.
    alpha, post_processing, max_cells
        As for :class:`~understudy.synthesizers.counts.poisson.PoissonTable`.

    Privacy
    -------
    See :class:`~understudy.synthesizers.counts._redrawn.RedrawnTable`; several rows per unit by the group argument.

    Examples
    --------
    >>> NegativeBinomialTable(sigma=0.1).name
    'negative-binomial'
    """

    name: ClassVar[str] = "negative-binomial"
    summary: ClassVar[str] = "every cell of the full table redrawn from a negative binomial distribution"
    family: ClassVar[Family] = "negative-binomial"

    sigma: float = 0.05


@dataclass(frozen=True, kw_only=True)
class PoissonInverseGaussianTable(RedrawnTable):
    """Replace every cell count by a Poisson-inverse-Gaussian draw: mean ``m = a + alpha``, variance ``m + sigma m^2``.

    Parameters
    ----------
    sigma
        Spread of the inverse Gaussian factor of the rate.
    alpha, post_processing, max_cells
        As for :class:`~understudy.synthesizers.counts.poisson.PoissonTable`.

    Privacy
    -------
    See :class:`~understudy.synthesizers.counts._redrawn.RedrawnTable`; several rows per unit by the group argument.

    Examples
    --------
    >>> PoissonInverseGaussianTable(sigma=0.1).name
    'poisson-inverse-gaussian'
    """

    name: ClassVar[str] = "poisson-inverse-gaussian"
    summary: ClassVar[str] = (
        "every cell of the full table redrawn from a Poisson-inverse-Gaussian distribution"
    )
    family: ClassVar[Family] = "poisson-inverse-gaussian"

    sigma: float = 0.05


@dataclass(frozen=True, kw_only=True)
class DelaporteTable(RedrawnTable):
    """Replace every cell count by a Delaporte draw: a Poisson part and a negative binomial part.

    Parameters
    ----------
    sigma
        Spread of the gamma factor, at most 1: beyond it the worst case is not known.
    nu
        Share of the mean that belongs to the Poisson part, between 0 and 1.
    alpha, post_processing, max_cells
        As for :class:`~understudy.synthesizers.counts.poisson.PoissonTable`.

    Privacy
    -------
    See :class:`~understudy.synthesizers.counts._redrawn.RedrawnTable`; several rows per unit by the group argument.

    Examples
    --------
    >>> DelaporteTable(sigma=0.1, nu=0.3).name
    'delaporte'
    """

    name: ClassVar[str] = "delaporte"
    summary: ClassVar[str] = "every cell of the full table redrawn from a Delaporte distribution"
    family: ClassVar[Family] = "delaporte"

    sigma: float = 0.05
    nu: float = 0.5


@dataclass(frozen=True, kw_only=True)
class SichelTable(RedrawnTable):
    """Replace every cell count by a Sichel draw: a Poisson rate times a generalised inverse Gaussian factor of mean one.

    Parameters
    ----------
    sigma
        Spread of the factor.
    nu
        Index of the factor, from -40 to 40; ``-0.5`` is the Poisson-inverse-Gaussian.
    alpha, post_processing, max_cells
        As for :class:`~understudy.synthesizers.counts.poisson.PoissonTable`.

    Privacy
    -------
    See :class:`~understudy.synthesizers.counts._redrawn.RedrawnTable`; several rows per unit by the group argument.

    Examples
    --------
    >>> SichelTable(sigma=0.1, nu=-1.0).name
    'sichel'
    """

    name: ClassVar[str] = "sichel"
    summary: ClassVar[str] = "every cell of the full table redrawn from a Sichel distribution"
    family: ClassVar[Family] = "sichel"

    sigma: float = 0.05
    nu: float = -1.0
