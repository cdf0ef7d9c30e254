"""Every cell of the full table redrawn from a count distribution (paper Poisson): the Poisson one, and wider ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from understudy.curator import Curator
from understudy.engine import DenseTable
from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.marginals import Statistic
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer
from understudy.mechanisms.counts.look import redraw, redraw_event
from understudy.mechanisms.counts.table import MAX_CELLS, check_table_options, legitimate, require_enumerable
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, ApproxDP, Budget, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.privacy.count_models.divergence import probabilistic_delta
from understudy.privacy.count_models.laws import PARAMETERS, CountLaw, Family
from understudy.privacy.count_models.solving import largest_count, solve_alpha, solve_law
from understudy.schema import Schema

_SHARE_OF_DELTA = 1 - 1e-6
"""A ledger keeps a sliver of delta for its main accounting; the release gets the rest."""
_LAST = "section 4, last paragraph"
_JACKSON = "Jackson, Mitra, Francis and Dove 2022"
_RIGBY = "Rigby and Stasinopoulos for the distribution"


@dataclass(frozen=True, kw_only=True)
class RedrawnTable(Synthesizer):
    """Redraw every cell of the full table from a count distribution with mean ``a + alpha``.

    Subclasses name the family, which is also the name of the method, and its distribution, and add its extra parameters.

    Privacy
    -------
    One :func:`~understudy.mechanisms.counts.look.redraw` of the full table, charged as ``(epsilon, delta)`` with the true delta of the law that
    is drawn from; proofs in :mod:`understudy.privacy.count_models.divergence` (worst case over all counts, both directions, both
    relations, several rows per unit) and :mod:`understudy.privacy.count_models.solving` (exact draws). With ``alpha=None`` the
    smallest pseudocount that keeps the budget is solved for; a given ``alpha`` is refused if its delta is above the budget's.
    Recentring, projection and constraints see redrawn counts only.
    """

    family: ClassVar[Family]
    budgets: ClassVar[tuple[type, ...]] = (ApproxDP,)
    spends_remainder: ClassVar[bool] = False

    alpha: float | None = None
    post_processing: str = "simplex"
    max_cells: int = MAX_CELLS

    def __init_subclass__(
        cls, *, family: Family | None = None, drawn: str = "", place: str = "", origin: str = "", **rest: Any
    ) -> None:
        """Name a family: ``drawn`` is its distribution, ``place`` where the paper speaks of it, ``origin`` whose it is."""
        super().__init_subclass__(**rest)
        if family is None:  # a variant of one that is named
            return
        cls.name, cls.family = family, family
        cls.summary = f"every cell of the full table redrawn from a {drawn} distribution"
        cls.source = Source(law=f"{drawn} draw of every cell", papers={Paper.POISSON: place}, origin=origin)

    def __post_init__(self) -> None:
        check_table_options(self.post_processing, self.max_cells)
        CountLaw(self.family, 1.0 if self.alpha is None else self.alpha, **self._extra)

    @property
    def _extra(self) -> dict[str, float]:
        return {name: float(getattr(self, name)) for name in PARAMETERS[self.family]}

    def accountings(self, budget: Budget) -> tuple[Accounting, ...]:
        """One event with an epsilon and a delta: epsilon is spent as pure, delta from the reserve."""
        return (PURE,)

    def reserve(self, schema: Schema, budget: Budget) -> float:
        """Nearly all of the delta belongs to the one event of the release."""
        return budget.delta * _SHARE_OF_DELTA if isinstance(budget, ApproxDP) else 0.0

    def law(self, budget: Budget, unit: Unit) -> CountLaw:
        """Return the law that cells will be redrawn from under a budget, or refuse one that cannot be kept."""
        if not isinstance(budget, ApproxDP):
            raise NoSuchGuarantee(
                f"{self.name} cannot give a {type(budget).__name__} guarantee; it needs a delta."
            )
        delta = budget.delta * _SHARE_OF_DELTA
        if self.alpha is None:
            return solve_alpha(self.family, epsilon=budget.epsilon, delta=delta, unit=unit, **self._extra)
        law, _, reached = solve_law(
            self.family, unit=unit, epsilon=budget.epsilon, alpha=float(self.alpha), **self._extra
        )
        if reached > delta:
            raise NoSuchGuarantee(
                f"{law.describe()} has a true delta of {reached:.3g} at epsilon={budget.epsilon:g}, above the {budget.delta:g} "
                "given. Raise alpha, epsilon or delta, or leave alpha out to have it solved for."
            )
        return law

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say which pseudocount the budget needs and how noisy cells will be."""
        cells = require_enumerable(schema.domain, self.max_cells, method=self.name)
        self.require(budget)
        law = self.law(budget, unit)
        assert isinstance(budget, ApproxDP)
        event = redraw_event(law, epsilon=budget.epsilon, unit=unit)
        noise = ", ".join(f"{law.variance(count) ** 0.5:.3g} at {count}" for count in (0, 10, 100, 1000))
        notes = [
            f"Every one of {cells:,} cells is redrawn: {law.describe()}.",
            f"True delta {event.delta:.3g} at epsilon={event.epsilon:g}. Standard deviation of a redrawn cell by its count: {noise}.",
        ]
        if unit.max_rows == 1 and law.alpha < 300:
            notes.append(
                f"In the paper's probabilistic notion (add or remove one row) delta would be "
                f"{probabilistic_delta(law, budget.epsilon):.3g}; the ledger charges the true one."
            )
        rows = schema.row_count
        if rows is not None and rows > largest_count(law):
            notes.append(f"Cells fuller than {largest_count(law):,} are redrawn as if they held that many.")
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=self.accounting(budget).name,
            measurements=(),
            model_cells=cells,
            notes=tuple(notes),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        budget = curator.budget
        if not isinstance(budget, ApproxDP):
            raise BudgetError(f"{self.name} needs an approximate budget.")
        law = self.law(budget, curator.unit)
        names = curator.domain.names
        progress("counting", 0.1)
        sealed = curator.counts(names)
        progress("redrawing", 0.5)
        drawn = redraw(
            curator,
            sealed,
            law=law,
            epsilon=budget.epsilon,
            purpose=f"redraw the full cross-tabulation ({law.describe()})",
        ).astype(np.float64)
        progress("post-processing", 0.8)
        if self.post_processing == "none":
            table = DenseTable(curator.domain, drawn)
        else:
            centred = drawn - law.alpha
            known = curator.rows.number
            total = float(known) if known is not None else max(0.0, float(centred.sum()))
            table = legitimate(curator.schema, centred, total)
        progress("done", 1.0)
        shown = Statistic(f"redrawn counts of {' x '.join(names)} ({law.describe()})", drawn, "mechanism")
        return Fitted(table, (), statistics=(shown,))


@dataclass(frozen=True, kw_only=True)
class PoissonTable(RedrawnTable, family="poisson", drawn="Poisson", place="section 4", origin=_JACKSON):
    """Replace every cell count ``a`` of the full table by a draw from ``Poisson(a + alpha)``.

    Parameters
    ----------
    alpha
        Pseudocount. ``None`` (default): the smallest one that keeps the budget.
    post_processing
        ``"simplex"`` (default): the pseudocount is subtracted again and the closest non-negative table with the right
        total is kept. ``"none"``: the redrawn counts themselves, as in the paper; they add up to about ``alpha`` more rows
        per cell than the table has.
    max_cells
        Largest table that will be enumerated.

    Privacy
    -------
    See :class:`~understudy.mechanisms.counts.poisson.RedrawnTable`. For this family the worst case is exact for every unit:
    the emptiest cell, changed by all rows of the unit.

    Examples
    --------
    >>> from understudy.privacy import ApproxDP, Unit
    >>> round(PoissonTable().law(ApproxDP(3.0, 0.21), Unit.add_remove()).alpha, 3)
    0.098
    """


@dataclass(frozen=True, kw_only=True)
class NegativeBinomialTable(
    RedrawnTable, family="negative-binomial", drawn="negative binomial", place=_LAST, origin=_JACKSON
):
    """Replace every cell count ``a`` by a negative binomial draw: mean ``m = a + alpha``, variance ``m + sigma m^2``.

    Parameters
    ----------
    sigma
        Spread of the gamma factor of the rate.
    alpha, post_processing, max_cells
        As for :class:`~understudy.mechanisms.counts.poisson.PoissonTable`.

    Privacy
    -------
    See :class:`~understudy.mechanisms.counts.poisson.RedrawnTable`; several rows per unit by the group argument.

    Examples
    --------
    >>> NegativeBinomialTable(sigma=0.1).name
    'negative-binomial'
    """

    sigma: float = 0.05


@dataclass(frozen=True, kw_only=True)
class PoissonInverseGaussianTable(
    RedrawnTable,
    family="poisson-inverse-gaussian",
    drawn="Poisson-inverse-Gaussian",
    place=_LAST,
    origin=_RIGBY,
):
    """Replace every cell count by a Poisson-inverse-Gaussian draw: mean ``m = a + alpha``, variance ``m + sigma m^2``.

    Parameters
    ----------
    sigma
        Spread of the inverse Gaussian factor of the rate.
    alpha, post_processing, max_cells
        As for :class:`~understudy.mechanisms.counts.poisson.PoissonTable`.

    Privacy
    -------
    See :class:`~understudy.mechanisms.counts.poisson.RedrawnTable`; several rows per unit by the group argument.

    Examples
    --------
    >>> PoissonInverseGaussianTable(sigma=0.1).name
    'poisson-inverse-gaussian'
    """

    sigma: float = 0.05


@dataclass(frozen=True, kw_only=True)
class DelaporteTable(RedrawnTable, family="delaporte", drawn="Delaporte", place=_LAST, origin=_RIGBY):
    """Replace every cell count by a Delaporte draw: a Poisson part and a negative binomial part.

    Parameters
    ----------
    sigma
        Spread of the gamma factor, at most 1: beyond it the worst case is not known.
    nu
        Share of the mean that belongs to the Poisson part, between 0 and 1.
    alpha, post_processing, max_cells
        As for :class:`~understudy.mechanisms.counts.poisson.PoissonTable`.

    Privacy
    -------
    See :class:`~understudy.mechanisms.counts.poisson.RedrawnTable`; several rows per unit by the group argument.

    Examples
    --------
    >>> DelaporteTable(sigma=0.1, nu=0.3).name
    'delaporte'
    """

    sigma: float = 0.05
    nu: float = 0.5


@dataclass(frozen=True, kw_only=True)
class SichelTable(RedrawnTable, family="sichel", drawn="Sichel", place=_LAST, origin=_RIGBY):
    """Replace every cell count by a Sichel draw: a Poisson rate times a generalised inverse Gaussian factor of mean one.

    Parameters
    ----------
    sigma
        Spread of the factor.
    nu
        Index of the factor, from -40 to 40; ``-0.5`` is the Poisson-inverse-Gaussian.
    alpha, post_processing, max_cells
        As for :class:`~understudy.mechanisms.counts.poisson.PoissonTable`.

    Privacy
    -------
    See :class:`~understudy.mechanisms.counts.poisson.RedrawnTable`; several rows per unit by the group argument.

    Examples
    --------
    >>> SichelTable(sigma=0.1, nu=-1.0).name
    'sichel'
    """

    sigma: float = 0.05
    nu: float = -1.0
