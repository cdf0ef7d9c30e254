"""The only door to the records: it seals exact values, charges the ledger, then opens them with noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from understudy.curator._grouped import count_grouped
from understudy.curator.sealed import SealedCounts, SealedScalar
from understudy.data import Table
from understudy.errors import BudgetError, BudgetExceeded, DataError, NoSuchGuarantee
from understudy.marginals import Measurement, NoiseKind
from understudy.privacy import (
    PURE,
    Accounting,
    ApproxDP,
    Budget,
    Composed,
    DiscreteGaussian,
    Event,
    Gaussian,
    GaussianEvent,
    Laplace,
    LaplaceEvent,
    Ledger,
    PureEvent,
    Randomness,
    SelectionEvent,
    SystemRandomness,
    Unit,
    ZcdpEvent,
    accounting_for,
    delta_of,
    exponential_mechanism,
    permute_and_flip,
)
from understudy.schema import Clique, Domain, Schema

Noise = Gaussian | DiscreteGaussian | Laplace

_GRID_BITS = 20
"""Sealed numbers are rounded to 2**-20 of their sensitivity before integer noise is added."""

GRID_WIDENING = 2.0 ** (3 - _GRID_BITS)
"""Rounding to the grid is charged for: a scale widened by this share of itself stays within its epsilon."""

_CELLS_PER_PASS = 100_000_000


class Curator:
    """Holds a private table, its ledger and the noise; hands out only what has been paid for.

    Parameters
    ----------
    table
        The private records, already encoded by their schema.
    unit
        Who is protected. A person-level unit truncates the table at once, at random, to its
        maximum number of rows per person.
    ledger
        Pays for every look. It must have been opened for the same unit.
    rows
        A public number of rows to work with where the exact one is private: measured and paid for before,
        or guessed. Models are scaled to it, but no sensitivity relies on it.
    exact_rows
        Whether ``rows`` is the exact number of rows, declared public: then sensitivities may rely on it.
    rows_scale
        Scale of the Laplace noise that ``rows`` was measured with, where it was.
    scope
        Public name of the work, written into the ledger with each charge.
    randomness
        Source of privacy noise. Production code leaves the default (the operating system's
        cryptographic generator, which takes no seed); tests may pass a seeded one.

    Privacy
    -------
    Every public method that returns something computed from the records first commits its cost to
    the ledger and only then draws noise. If the ledger or the allowance cannot pay, nothing is
    drawn and nothing is spent.
    """

    def __init__(
        self,
        table: Table,
        *,
        unit: Unit,
        ledger: Ledger,
        rows: int | None = None,
        exact_rows: bool = False,
        rows_scale: float | None = None,
        scope: str = "",
        randomness: Randomness | None = None,
    ) -> None:
        table.schema.require_public()
        if rows is not None and rows < 0:
            raise BudgetError(f"rows ({rows}) must not be negative.")
        if ledger.unit != unit:
            raise BudgetError(
                f"The ledger protects {ledger.unit.describe()}; the curator was asked to protect "
                f"{unit.describe()}. Use the same unit, or another ledger."
            )
        self._randomness: Randomness = SystemRandomness() if randomness is None else randomness
        if unit.id_column is not None:
            table = table.truncated(unit.id_column, unit.max_rows, self._randomness.words)
        declared = table.schema.row_count
        if declared is not None and declared != table.exact_row_count():
            raise DataError(
                f"The schema declares row_count {declared} public, but that is not how many rows the table has (after "
                "cleaning and truncation). Correct the declaration, or leave it out to keep the number private."
            )
        self._parent: Curator | None = None
        self._table = table
        self._rows = rows
        self._rows_are_exact = exact_rows
        self._rows_scale = rows_scale
        self._ledger = ledger
        self._unit = unit
        self._scope = scope
        self._accounting: Accounting = ledger.accounting
        self._allowed: Fraction | None = None
        self._used = Fraction(0)
        self._reserve = Fraction(ledger.rule.approximate_delta)
        self._delta_used = Fraction(0)
        self._budget: Budget = ledger.budget

    # ------------------------------------------------------------------ public facts

    @property
    def schema(self) -> Schema:
        """The public schema of the table."""
        return self._table.schema

    @property
    def domain(self) -> Domain:
        """The public domain of the table."""
        return self._table.schema.domain

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        return self._unit

    @property
    def ledger(self) -> Ledger:
        """The ledger that pays."""
        return self._ledger

    @property
    def known_rows(self) -> int | None:
        """The number of rows to work with where it is no secret: given, declared public, or fixed by the relation.

        Under replace-one with one row per unit all neighbours have equally many rows, so the number
        is released at no cost, unless records were left out by their values: a replaced record may then
        be one that is left out. Otherwise it is private unless the schema declares it.
        """
        return self._rows if self._rows is not None else self._exact_known_rows

    @property
    def rows_are_exact(self) -> bool:
        """Whether :attr:`known_rows` is the exact number of rows; a measured or guessed one is not."""
        return self._exact_known_rows is not None

    @property
    def rows_measurement(self) -> Measurement | None:
        """The earlier measurement that :attr:`known_rows` comes from, where there was one."""
        if self._rows is None or self._rows_scale is None or self._rows_are_exact:
            return None
        return Measurement((), np.array(float(self._rows)), "laplace", self._rows_scale)

    @property
    def _exact_known_rows(self) -> int | None:
        """The number of rows that sensitivities may rely on; an estimate of it is no such number."""
        if self._rows is not None:
            return self._rows if self._rows_are_exact else None
        if self.schema.row_count is not None:
            return self.schema.row_count
        fixed = self._unit.relation == "replace-one" and self._unit.max_rows == 1
        if fixed and not getattr(self._table, "filtered", False):
            return self._table.exact_row_count()
        return None

    # ------------------------------------------------------------------ budget

    @property
    def accounting(self) -> Accounting:
        """How costs add up here."""
        return self._accounting

    @property
    def budget(self) -> Budget:
        """The budget this curator works within."""
        return self._budget

    @property
    def remaining(self) -> float:
        """What may still be spent, in the additive unit of :attr:`accounting`, rounded down."""
        if self._allowed is None:
            return self._ledger.remaining
        return _round_down(self._allowed - self._used)

    @property
    def spent(self) -> float:
        """What has been spent within this allowance, in the additive unit of :attr:`accounting`."""
        return float(self._used)

    @property
    def reserve(self) -> float:
        """What is left of the delta set aside for events with a delta of their own, rounded down."""
        if self._allowed is None:
            left = self._reserve - self._ledger.spending.delta
        else:
            left = self._reserve - self._delta_used
        return _round_down(max(left, Fraction(0)))

    def within(
        self, budget: Budget, *, scope: str, accounting: Accounting | None = None, reserve: float = 0.0
    ) -> Curator:
        """Return a curator of the same table that can spend at most ``budget``.

        Every charge must fit both the allowance and the ledger. The allowance is checked against
        what remains on the ledger at once, so that a fit that cannot be paid fails before it starts.

        Parameters
        ----------
        budget
            The allowance.
        scope
            Public name of the work, written into the ledger with each charge.
        accounting
            How costs add up; by default the tightest valid accounting for the kind of budget.
        reserve
            The part of an ``ApproxDP`` budget's delta set aside for events with a delta of their own. It is
            taken from the reserve of the ledger.

        Privacy
        -------
        Charges of an allowance add up to at most its total for ``delta - reserve`` and their own deltas to at
        most ``reserve``, so they keep the promise of ``budget``: :mod:`understudy.privacy.filter`.
        """
        chosen = accounting_for(budget) if accounting is None else accounting
        allowed = Fraction(chosen.total(budget, approximate_delta=reserve))
        self._require_room(chosen, allowed, budget)
        self._require_reserve(reserve, budget)
        same = self._allowed is not None and chosen.name == self._accounting.name
        if same and allowed > Fraction(self.remaining):
            raise BudgetExceeded(
                f"An allowance of {budget.describe()} does not fit into the {self._budget.describe()} it is "
                f"taken from, of which {self.remaining:.6g} ({self._accounting.symbol}) remains.",
                requested=float(allowed),
                remaining=self.remaining,
                accounting=self._accounting.name,
            )
        child = object.__new__(Curator)
        child._parent = self
        child._table = self._table
        child._rows, child._rows_are_exact = self._rows, self._rows_are_exact
        child._rows_scale = self._rows_scale
        child._ledger = self._ledger
        child._unit = self._unit
        child._randomness = self._randomness
        child._scope = scope if not self._scope else f"{self._scope}/{scope}"
        child._accounting = chosen
        child._allowed = allowed
        child._used = Fraction(0)
        child._reserve = Fraction(reserve)
        child._delta_used = Fraction(0)
        child._budget = budget
        child._ledger.note(f"allowance of {budget.describe()} opened", scope=child._scope)
        return child

    def _require_room(self, accounting: Accounting, allowed: Fraction, budget: Budget) -> None:
        """Refuse an allowance that the ledger is sure not to be able to pay.

        Where the ledger adds up in another accounting than the allowance the two cannot be compared in
        advance; the ledger then judges each charge as it comes.
        """
        book = self._ledger
        comparable = accounting.name == book.accounting.name or (
            accounting.name == PURE.name and isinstance(book.budget, ApproxDP)
        )
        if comparable:
            left = book.rule.remaining(book.spending, accounting=accounting.name)
            if allowed > Fraction(left):
                raise BudgetExceeded(
                    f"An allowance of {budget.describe()} needs {accounting.describe(float(allowed))}; the ledger of "
                    f"{book.table!r} has {accounting.describe(left)} left of {book.budget.describe()}. "
                    "Ask for less, or agree on a larger total with the owner of the table.",
                    requested=float(allowed),
                    remaining=left,
                    accounting=accounting.name,
                )
        elif book.accounting.name == PURE.name:
            raise NoSuchGuarantee(
                f"The ledger of {book.table!r} promises {book.budget.describe()}, which Gaussian noise cannot keep. "
                "Ask for a pure budget (epsilon without delta)."
            )

    def _require_reserve(self, reserve: float, budget: Budget) -> None:
        """Refuse an allowance whose own deltas the ledger has set nothing aside for."""
        if Fraction(reserve) > Fraction(self.reserve):
            raise BudgetExceeded(
                f"This needs a delta of {reserve:.3g} of its own, out of {budget.describe()}; {self.reserve:.3g} is set "
                "aside for that. Use a ledger of its own, made with approximate_delta=... (from the command line: a "
                "new --ledger, which this method opens that way).",
                requested=reserve,
                remaining=self.reserve,
                accounting="delta",
            )

    def split(self, weights: Sequence[float]) -> list[float]:
        """Divide what remains in proportion to the weights; the parts never add up to more."""
        return list(self._accounting.split(self.remaining, weights))

    def _charge(self, event: Event, *, purpose: str) -> None:
        """Commit the cost of an event to the ledger; raise before anything is drawn if it cannot pay.

        The charge must fit this allowance and every one it was taken from, each in its own accounting.
        """
        purses: list[Curator] = []
        purse: Curator | None = self
        while purse is not None:
            purses.append(purse)
            purse = purse._parent
        costs = [item._affordable(event, purpose) for item in purses]
        delta = delta_of(event, parts=self._unit.parts_touched)
        self._ledger.charge(event, purpose=purpose, scope=self._scope)
        for item, cost in zip(purses, costs, strict=True):
            item._used += cost
            item._delta_used += delta

    def _affordable(self, event: Event, purpose: str) -> Fraction:
        """Return the cost of an event in this accounting, or refuse it.

        The event's own delta, if any, must fit the reserve; its epsilon is then a cost like any other.
        """
        parts = self._unit.parts_touched
        priced = self._accounting.exact_cost(event, parts=parts, reserve=True)
        exact = None if priced is None else Fraction(_round_up(priced))
        if self._allowed is None:  # the ledger itself decides
            return Fraction(0) if exact is None else exact
        delta = delta_of(event, parts=parts)
        if delta > self._reserve - self._delta_used:
            raise BudgetExceeded(
                f"{purpose} needs a delta of {float(delta):.3g} of its own; the allowance of "
                f"{self._budget.describe()} has {self.reserve:.3g} set aside for that.",
                requested=float(delta),
                remaining=self.reserve,
                accounting="delta",
            )
        if exact is None or exact > self._allowed - self._used:
            cost = math.inf if exact is None else float(exact)
            raise BudgetExceeded(
                f"{purpose} costs {cost:.6g} ({self._accounting.symbol}); {self.remaining:.6g} of the "
                f"allowance of {self._budget.describe()} remains. Use more noise, or a larger budget.",
                requested=cost,
                remaining=self.remaining,
                accounting=self._accounting.name,
            )
        return exact

    # ------------------------------------------------------------------ sealing

    def counts(self, clique: Sequence[str]) -> SealedCounts:
        """Seal the exact marginal of one clique; the empty clique is the number of rows."""
        return self.counts_many([clique])[0]

    def counts_many(self, cliques: Sequence[Sequence[str]]) -> list[SealedCounts]:
        """Seal the exact marginals of many cliques, counted in one pass."""
        canonical: list[Clique] = [self.domain.canonical(clique) for clique in cliques]
        exact = [
            counts for batch in _batches(self.domain, canonical) for counts in self._table.count_many(batch)
        ]
        known = self._exact_known_rows
        return [
            SealedCounts(counts, clique=clique, domain=self.domain, unit=self._unit, known_rows=known)
            for clique, counts in zip(canonical, exact, strict=True)
        ]

    def counts_grouped(self, wanted: Sequence[Mapping[str, npt.ArrayLike]]) -> list[SealedCounts]:
        """Seal marginals over public groups of codes, without building the finer marginals.

        ``wanted[i]`` gives, for each column of a clique, the group of each of its codes. The result is that of
        ``counts(clique).grouped(groups)``, at the cost of the coarse table. Every row lies in exactly one
        cell of the coarser public partition, so the sensitivities are those of any histogram.
        """
        unit, known = self._unit, self._exact_known_rows
        return [
            SealedCounts(exact, clique=shape.names, domain=shape, unit=unit, known_rows=known)
            for shape, exact in count_grouped(self._table, wanted)
        ]

    def statistic(self, function: Callable[[Table], float], *, sensitivity: float) -> SealedScalar:
        """Seal one number that trusted code computes from the records. See :meth:`statistics`."""
        return self.statistics(lambda table: [function(table)], sensitivities=[sensitivity])[0]

    def statistics(
        self, function: Callable[[Table], Sequence[float]], *, sensitivities: Sequence[float]
    ) -> list[SealedScalar]:
        """Seal several numbers that trusted code computes from the records in one look.

        Parameters
        ----------
        function
            Gets the private table, limited to the unit's rows per person, and returns one number per
            sensitivity. It runs here and keeps nothing: no reference to the table or to anything computed from
            it may outlive the call, and its errors must not depend on the records.
        sensitivities
            The most that one unit can change each number. Public.

        Privacy
        -------
        In: private. Out: under seal. **The function is trusted code**: that its numbers move by no more than
        claimed is proved where it is written (an acceptance criterion states its proof in its docstring) and
        tested on neighbouring tables there. The curator cannot check it.
        """
        exact = list(function(self._table))
        if len(exact) != len(sensitivities):
            raise BudgetError(
                f"A statistic returned {len(exact)} numbers; {len(sensitivities)} sensitivities were stated."
            )
        return [SealedScalar(x, sensitivity=s) for x, s in zip(exact, sensitivities, strict=True)]

    # ------------------------------------------------------------------ opening

    def measure(self, sealed: SealedCounts, *, noise: Noise, purpose: str | None = None) -> Measurement:
        """Add noise to one marginal and charge its cost first. See :meth:`measure_many`."""
        return self.measure_many([sealed], noise=[noise], purpose=purpose)[0]

    def measure_many(
        self, sealed: Sequence[SealedCounts], *, noise: Sequence[Noise], purpose: str | None = None
    ) -> list[Measurement]:
        """Add independent integer noise to several marginals and charge for all of them at once.

        Returns
        -------
        list of Measurement
            Noisy counts with the scale they were drawn with.

        Privacy
        -------
        In: private. Out: releasable. Each marginal is an integer vector that neighbours change by at
        most ``sealed.l1`` in L1 and ``sealed.l2`` in L2. Discrete Laplace noise of scale ``b`` is
        ``l1/b``-DP. The rounded Gaussian of scale ``sigma`` is the continuous Gaussian mechanism
        followed by rounding (the counts are integers), hence ``l2/sigma``-GDP and
        ``l2²/(2 sigma²)``-zCDP. The discrete Gaussian satisfies the same zCDP bound. The charge of
        the batch is the sum of its parts and is committed before the first draw.
        """
        if len(sealed) != len(noise):
            raise BudgetError(f"Need one noise per marginal; got {len(noise)} for {len(sealed)}.")
        if not sealed:
            return []
        events = [_noise_event(item, kind) for item, kind in zip(sealed, noise, strict=True)]
        event = events[0] if len(events) == 1 else Composed(tuple(events))
        self._charge(event, purpose=purpose or _measuring(sealed))
        measurements = []
        for item, kind in zip(sealed, noise, strict=True):
            drawn = kind.draw(item.shape, self._randomness)
            measurements.append(
                Measurement(item.clique, (item._exact + drawn).astype(np.float64), _kind(kind), kind.scale)
            )
        return measurements

    def measure_scalar(self, sealed: SealedScalar, *, noise: Noise, purpose: str) -> float:
        """Add noise to one sealed number and charge its cost first; see :meth:`measure_scalars`."""
        return self.measure_scalars([sealed], noise=[noise], purpose=purpose)[0]

    def measure_scalars(
        self, sealed: Sequence[SealedScalar], *, noise: Sequence[Noise], purpose: str
    ) -> list[float]:
        """Add noise to several sealed numbers and charge for all of them at once.

        Privacy
        -------
        In: private. Out: releasable. Each number is rounded to a public grid of step ``g``, a power
        of two near ``2**-20`` of its sensitivity ``s``. Two numbers at distance at most ``s`` round
        to integers at distance at most ``s/g + 1``. One step more is charged to cover the floating-point
        error of the two numbers themselves, which is far below half a step for every statistic offered
        here. Integer noise of the wanted scale divided by ``g`` is added on the grid. The charge is the sum.
        """
        if len(sealed) != len(noise):
            raise BudgetError(f"Need one noise per number; got {len(noise)} for {len(sealed)}.")
        if not sealed:
            return []
        if any(item.sensitivity == 0 for item in sealed):
            raise BudgetError("A number that nobody can change is public; compute it outside the curator.")
        grid = [2.0 ** (math.ceil(math.log2(item.sensitivity)) - _GRID_BITS) for item in sealed]
        on_grid = [type(kind)(kind.scale / step) for kind, step in zip(noise, grid, strict=True)]
        events = tuple(
            _scalar_event(math.ceil(item.sensitivity / step) + 2, kind)
            for item, kind, step in zip(sealed, on_grid, grid, strict=True)
        )
        self._charge(events[0] if len(events) == 1 else Composed(events), purpose=purpose)
        return [
            (round(item._exact / step) + int(kind.draw((), self._randomness))) * step
            for item, kind, step in zip(sealed, on_grid, grid, strict=True)
        ]

    def choose(
        self,
        scores: Sequence[SealedScalar],
        *,
        epsilon: float,
        purpose: str,
        mechanism: str = "exponential",
    ) -> int:
        """Choose the index of a high score and charge first.

        Parameters
        ----------
        scores
            One sealed score per candidate; larger is better.
        epsilon
            Privacy parameter of the choice: candidate ``i`` is chosen with probability proportional
            to ``exp(epsilon score_i / (2 sensitivity))``.
        mechanism
            ``"exponential"``, or ``"permute-and-flip"`` which is never worse in expected score but
            has no bounded-range discount under zCDP and GDP.

        Privacy
        -------
        In: private. Out: the chosen index. The sensitivity of the choice is the largest sensitivity
        of a score. The exponential mechanism is ``epsilon``-DP and ``epsilon``-bounded-range;
        permute-and-flip is ``epsilon``-DP.
        """
        if not scores:
            raise BudgetError("There is nothing to choose from.")
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise BudgetError(f"epsilon ({epsilon}) of a choice must be positive and finite.")
        sensitivity = max(score.sensitivity for score in scores)
        if sensitivity == 0:
            raise BudgetError("Scores that nobody can change are public; choose outside the curator.")
        if mechanism == "exponential":
            self._charge(SelectionEvent(epsilon), purpose=purpose)
            sampler = exponential_mechanism
        elif mechanism == "permute-and-flip":
            self._charge(PureEvent(epsilon), purpose=purpose)
            sampler = permute_and_flip
        else:
            raise BudgetError(f"No selection named {mechanism!r}. Known: exponential, permute-and-flip.")
        exact = np.array([score._exact for score in scores], dtype=np.float64)
        return sampler(exact, epsilon=epsilon, sensitivity=sensitivity, randomness=self._randomness)

    def test(self, sealed: SealedScalar, *, above: float, epsilon: float, purpose: str) -> bool:
        """Say whether a sealed number plus Laplace noise exceeds a public threshold; charge first.

        Privacy
        -------
        In: private. Out: one bit, a post-processing of the number measured with Laplace noise of
        scale ``sensitivity / epsilon``.
        """
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise BudgetError(f"epsilon ({epsilon}) of a test must be positive and finite.")
        # the grid adds at most three steps of 2**-19 of the sensitivity; the scale covers them
        scale = sealed.sensitivity * (1 + GRID_WIDENING) / epsilon
        return self.measure_scalar(sealed, noise=Laplace(scale), purpose=purpose) > above

    def __repr__(self) -> str:
        return f"Curator({len(self.domain)} columns, {self._unit.describe()}, {self._budget.describe()})"


def _batches(domain: Domain, cliques: Sequence[Clique]) -> Iterator[list[Clique]]:
    """Group cliques so that no single pass over the records holds too many cells at once."""
    batch: list[Clique] = []
    cells = 0
    for clique in cliques:
        more = domain.cells(clique)
        if batch and cells + more > _CELLS_PER_PASS:
            yield batch
            batch, cells = [], 0
        batch.append(clique)
        cells += more
    if batch:
        yield batch


def noise_for(accounting: Accounting, unit: Unit, cost: float) -> Noise:
    """Return the noise for one marginal that costs at most ``cost``, from public facts alone.

    Laplace noise under pure accounting, Gaussian noise otherwise.
    """
    if accounting.name == "pure":
        return Laplace(accounting.laplace_scale(cost, unit.histogram_l1))
    return Gaussian(accounting.gaussian_sigma(cost, unit.histogram_l2))


def _kind(noise: Noise) -> NoiseKind:
    """Name of the noise family, as measurements record it."""
    return "laplace" if isinstance(noise, Laplace) else "gaussian"


def _noise_event(sealed: SealedCounts, noise: Noise) -> Event:
    """Say what adding this noise to these counts means for privacy."""
    if isinstance(noise, Laplace):
        return LaplaceEvent(sealed.l1, noise.scale)
    if isinstance(noise, Gaussian):
        return GaussianEvent(sealed.l2, noise.sigma)
    return ZcdpEvent(_round_up(Fraction(sealed.l2) ** 2 / (2 * Fraction(noise.sigma) ** 2)))


def _scalar_event(steps: int, noise: Noise) -> Event:
    """Say what adding this noise to one integer of sensitivity ``steps`` means for privacy."""
    if isinstance(noise, Laplace):
        return LaplaceEvent(float(steps), noise.scale)
    if isinstance(noise, Gaussian):
        return GaussianEvent(float(steps), noise.sigma)
    return ZcdpEvent(_round_up(Fraction(steps) ** 2 / (2 * Fraction(noise.sigma) ** 2)))


def _measuring(sealed: Sequence[SealedCounts]) -> str:
    """Describe a batch of measurements from public facts alone."""
    if len(sealed) == 1:
        clique = sealed[0].clique
        return f"measure {', '.join(clique)}" if clique else "measure the number of rows"
    return f"measure {len(sealed)} marginals"


def _round_down(value: Fraction) -> float:
    """Return the largest float that is not above a non-negative fraction."""
    number = float(value)
    return number if Fraction(number) <= value else math.nextafter(number, 0.0)


def _round_up(value: Fraction) -> float:
    """Return the smallest float that is not below a non-negative fraction."""
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)
