"""The only door to the records: it seals exact values, charges the ledger, then opens them with noise."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator.allowance import Allowance
from understudy.curator.exact import to_float
from understudy.curator.facts import require_measured
from understudy.curator.journal import Journal, Question
from understudy.curator.rounding import GRID_WIDENING, charged_steps, grid_of, on_grid
from understudy.curator.sealed import LOOK_FAILED, NO_MEMORY, SealedCounts, SealedScalar, require_seals
from understudy.data import Table
from understudy.data.persons import KEY_BYTES
from understudy.data.regrouped import regrouped
from understudy.errors import BudgetError, DataError, LookFailed, SchemaError
from understudy.marginals import Measurement, in_batches
from understudy.privacy import Accounting, Budget, Event, Laplace, Ledger, Noise, SystemRandomness, Unit
from understudy.privacy.events import Composed, PureEvent, SelectionEvent
from understudy.privacy.guarantee import rows_rule
from understudy.privacy.invariants import NO_CONSENT, Consent, declare_rows
from understudy.privacy.ledger.ledger import Entry
from understudy.privacy.ledger.view import LedgerView
from understudy.privacy.noise.randomness import Randomness
from understudy.privacy.noise.selection import exponential_mechanism, permute_and_flip
from understudy.privacy.own import own, own_noise
from understudy.privacy.rows import PublicRows
from understudy.schema import Clique, Domain, Schema

# ----------------------------------------------------------------------------------------
# Counting over public groups of codes. Exact and private: only the curator calls this, and seals the result.

IntArray = npt.NDArray[np.int64]


def count_grouped(
    table: Table, wanted: Sequence[Mapping[str, npt.ArrayLike]]
) -> list[tuple[Domain, IntArray]]:
    """Return the exact marginal over some groups of codes, with the coarse domain it speaks of.

    Each column is regrouped once per pass, however many marginals use it.
    """
    domain = table.schema.domain
    shapes: list[Domain] = []
    keys: list[list[tuple[str, bytes]]] = []
    labels: dict[tuple[str, bytes], IntArray] = {}
    for groups in wanted:
        clique = domain.canonical(groups)
        arrays = [_checked(name, groups[name], domain.size(name)) for name in clique]
        if not arrays:
            raise BudgetError("A marginal over groups of codes needs at least one column.")
        shapes.append(Domain(clique, tuple(int(which.max()) + 1 for which in arrays)))
        keys.append([(name, which.tobytes()) for name, which in zip(clique, arrays, strict=True)])
        labels.update(zip(keys[-1], arrays, strict=True))
    exact = [np.zeros(shape.cells(), dtype=np.int64) for shape in shapes]
    columns = domain.canonical({name for shape in shapes for name in shape.names})
    for chunk in table.chunks(columns):
        coarse = {key: which[chunk[key[0]]] for key, which in labels.items()}
        for counts, shape, key in zip(exact, shapes, keys, strict=True):
            cell = coarse[key[0]]
            for item, size in zip(key[1:], shape.sizes[1:], strict=True):
                cell = cell * size + coarse[item]
            counts += np.bincount(cell, minlength=counts.size)
    return [(shape, counts.reshape(shape.sizes)) for shape, counts in zip(shapes, exact, strict=True)]


def _checked(name: str, groups: npt.ArrayLike, size: int) -> IntArray:
    which = np.asarray(groups, dtype=np.int64)
    if which.shape != (size,) or which.min() < 0:
        raise BudgetError(f"The groups of {name!r} must be {size} numbers, not negative.")
    return which


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
        What is public about the number of rows, where the schema and the unit do not say it. A whole number is an estimate: models are
        scaled to it, but no sensitivity relies on it.
    scope
        Public name of the work, written into the ledger with each charge.
    cleaning
        Public words: the rules that the table was read with, which its number of rows is counted after.
    consent
        What the owner of the table agrees to, where the ledger holds another exact number of rows.
    journal
        Keeps every answer that was paid for until the work is done, so that interrupted work goes on without asking again.
    randomness
        Source of privacy noise. Production code leaves the default (the operating system's
        cryptographic generator, which takes no seed); tests may pass a seeded one.

    Privacy
    -------
    Every public method that returns something computed from the records first commits its cost to
    the ledger and only then draws noise. If the ledger or the allowance cannot pay, nothing is
    drawn and nothing is spent. An exact number of rows that is public (declared, or fixed by the relation) is written into
    the ledger before it is used, as a condition of every promise: :func:`~understudy.privacy.invariants.declare_rows`.
    """

    def __init__(
        self,
        table: Table,
        *,
        unit: Unit,
        ledger: Ledger,
        rows: PublicRows | int | None = None,
        scope: str = "",
        cleaning: Sequence[str] = (),
        consent: Consent = NO_CONSENT,
        journal: Journal | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        if not isinstance(getattr(table, "schema", None), Schema):
            raise DataError(
                f"The curator takes a table that was read with its schema, not a {type(table).__name__}: "
                "Curator(read_table(source, schema), ...)."
            )
        table.schema.require_public()
        if any(column.uncut is not column for column in table.schema.columns):
            raise SchemaError(
                "The schema holds groups and weights of values that a fit has measured (levels with a cut). Give the schema as tables are read: "
                "Schema.as_read(), or the file that the fit was given."
            )
        require_measured(ledger, table.schema.columns)
        unit = own(unit, Unit)
        if ledger.unit != unit:
            raise BudgetError(
                f"The ledger protects {ledger.unit.describe()}; the curator was asked to protect "
                f"{unit.describe()}. Use the same unit, or another ledger."
            )
        self._randomness: Randomness = SystemRandomness() if randomness is None else randomness
        self._whole = table
        if unit.id_column is not None:
            table = table.truncated(unit.id_column, unit.max_rows, self._randomness.bytes(KEY_BYTES))
        if not isinstance(getattr(table, "filtered", None), bool):
            raise DataError(
                f"A {type(table).__name__} does not say whether records were left out of it by their values. Give it a property "
                "filtered: False if every record of the source is in it, True otherwise (see understudy.data.Table)."
            )
        self._table = table
        self._cleaning, self._consent = tuple(cleaning), consent
        self._rows = rows if isinstance(rows, PublicRows) else PublicRows(rows)
        self._unit = unit
        self._journal = journal
        self._allowance = Allowance(ledger, scope=scope, journal=journal)
        self._state_rows(scope)

    def _state_rows(self, scope: str) -> None:
        """Write an exact number of rows that is public into the ledger, before anything relies on it."""
        filtered, given = self._table.filtered, self._rows
        declared = self.schema.row_count if self.schema.row_count is not None else given.number
        if self.schema.row_count is None and not given.exact:
            # a number that is measured takes the place of the one that the relation fixes
            if given.number is not None or given.scale is not None or self._exact_rows is None:
                return
            declared = None
        rules = self._cleaning or (("rules that were not named",) if filtered else ())
        exact = self._table.exact_row_count()
        declare_rows(
            self._allowance.ledger,
            rule=rows_rule(self._unit, rules),
            exact=exact,
            declared=declared,
            fixed=self._unit.keeps_rows and not filtered,
            consent=self._consent,
            scope=scope,
        )
        if given.exact:
            self._rows = PublicRows.exactly(exact)

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
    def ledger(self) -> LedgerView:
        """The ledger that pays, to be read: nothing can be written to it from here."""
        return LedgerView(self._allowance.ledger)

    @property
    def rows(self) -> PublicRows:
        """What is public about the number of rows: given, declared public, or fixed by the relation.

        Under replace-one with one row per unit all neighbours have equally many rows, so the number
        is released at no cost, unless records were left out by their values: a replaced record may then
        be one that is left out. Otherwise it is private unless the schema declares it.
        """
        given, exact = self._rows, self._exact_rows
        number = exact if given.number is None else given.number
        scale = None if exact is not None or given.number is None else given.scale
        return PublicRows(
            number, exact=exact is not None, scale=scale, fixed=self._unit.keeps_rows and exact is not None
        )

    @property
    def rows_measurement(self) -> Measurement | None:
        """The earlier measurement that the number of rows comes from, where there was one."""
        rows = self.rows
        if rows.number is None or rows.scale is None:
            return None
        return Measurement((), np.array(float(rows.number)), "laplace", rows.scale)

    @property
    def _exact_rows(self) -> int | None:
        """The number of rows that sensitivities may rely on; an estimate of it is no such number."""
        if self._rows.number is not None:
            return self._rows.number if self._rows.exact else None
        if (
            self._rows.scale is not None
        ):  # about to be measured: nothing stands in the ledger that would allow to use it
            return None
        if self.schema.row_count is not None:
            return self.schema.row_count
        if self._unit.keeps_rows and not self._table.filtered:
            return self._table.exact_row_count()
        return None

    # ------------------------------------------------------------------ budget

    @property
    def accounting(self) -> Accounting:
        """How costs add up here."""
        return self._allowance.accounting

    @property
    def budget(self) -> Budget:
        """The budget this curator works within."""
        return self._allowance.budget

    @property
    def remaining(self) -> float:
        """What may still be spent, in the additive unit of :attr:`accounting`, rounded down."""
        return self._allowance.remaining

    @property
    def spent(self) -> float:
        """What has been spent within this allowance, in the additive unit of :attr:`accounting`."""
        return self._allowance.spent

    @property
    def reserve(self) -> float:
        """What is left of the delta set aside for events with a delta of their own, rounded down."""
        return self._allowance.reserve

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
        See :meth:`understudy.curator.allowance.Allowance.within`.
        """
        child = copy.copy(self)
        child._allowance = self._allowance.within(budget, scope=scope, accounting=accounting, reserve=reserve)
        return child

    def regrouped(self, schema: Schema) -> Curator:
        """Return a curator of the same records and the same allowance, whose columns have the codes of another schema.

        ``schema`` has the same columns; values of a column with levels may share codes there. Nothing but its columns is used.

        Privacy
        -------
        In: private. Out: a curator. Which codes become one is a function of public facts and released answers, and each record is mapped by
        itself: tables that differ in the rows of one unit are mapped to tables that differ in as many rows of that unit. So every sensitivity stays
        what it was, and what is asked afterwards composes with what was asked before.
        """
        columns = tuple(schema.columns)  # read once
        if [(c.name, type(c)) for c in columns] != [(c.name, type(c)) for c in self.schema.columns]:
            raise DataError("A table can be regrouped by a schema with the same columns only.")
        child = copy.copy(self)
        # all other facts stay those of the table: sensitivities rely on its number of rows
        child._table = regrouped(self._table, self.schema.with_columns(columns))
        return child

    def cut_to(self, max_rows: int) -> Curator:
        """Return a curator of the same table and allowance that counts at most ``max_rows`` rows of a person, fewer than its unit allows.

        The whole table is cut anew, with a fresh key.

        Raises
        ------
        BudgetError
            If the unit is no person, allows fewer rows, or the columns were regrouped.

        Privacy
        -------
        In: private. Out: a curator. ``max_rows`` is public or was released. A table cut to ``k`` rows of each person changes by at most ``k`` rows when a person is added or
        removed, and by ``k`` that go and ``k`` that come when one is replaced (:meth:`understudy.data.Table.truncated`), so the bounds of a unit with ``k`` rows hold for all that the new
        curator seals. Neighbours are the same tables under both units: those that differ in one person with all their rows. What it asks composes with what was
        asked before; the ledger, whose unit allows more rows, holds events with the smaller bounds, and where it counts parts that a person touches, more of them than there are.
        """
        unit = self._unit
        if unit.id_column is None:
            raise BudgetError("Rows are cut where the unit is a person (id_column).")
        if not isinstance(max_rows, int) or isinstance(max_rows, bool) or not 1 <= max_rows <= unit.max_rows:
            raise BudgetError(f"The rows of a person must be a whole number from 1 to {unit.max_rows}.")
        if self._table.schema != self._whole.schema:
            raise BudgetError("Cut the rows of persons before columns are regrouped.")
        child = copy.copy(self)
        child._table = self._whole.truncated(unit.id_column, max_rows, self._randomness.bytes(KEY_BYTES))
        child._unit = replace(unit, max_rows=max_rows)
        child._state_rows(self._allowance.scope)
        return child

    def begun_accounting(self, scope: str) -> str | None:
        """Return the name of the accounting in which interrupted work of a scope was paid for, if it is about to be repeated."""
        if self._journal is None:
            return None
        whole = self._allowance.scope
        return self._journal.next_accounting(f"{whole}/{scope}" if whole else scope)

    def split(self, weights: Sequence[float]) -> list[float]:
        """Divide what remains in proportion to the weights; the parts never add up to more."""
        return list(self.accounting.split(self.remaining, weights))

    def _charge(self, *events: Event, purpose: str) -> Entry:
        """Commit the cost of one or more events in one entry; raise before anything is drawn if they cannot be paid."""
        return self._allowance.charge(_one(events), purpose=purpose)

    def _answer(self, *events: Event, purpose: str, draw: Callable[[], Any], about: Any = None) -> Any:
        """Pay for one look and return its answer: the one way from what is sealed to what is released.

        Parameters
        ----------
        events
            What the look costs; several of them are charged in one entry.
        purpose
            Public text for the ledger.
        draw
            Opens what is sealed and adds the noise. It is called after the charge is on the disk, and at most once. It
            returns arrays, numbers, or lists of them.
        about
            Public facts that tell this question from others of the same purpose and cost, such as columns and shapes.

        Raises
        ------
        LookFailed
            If ``draw`` ends in an error. What was charged is spent, and what went wrong is not shown.

        Privacy
        -------
        The charge is committed before ``draw`` is called, and the answer is in the journal, where there is one, before it is returned. A question
        that the journal holds is answered from it: post-processing. An error in ``draw`` is an outcome of the mechanism like any other;
        its text and traceback could tell neighbours apart by more than what was charged, so they are not handed on.
        """
        question = Question(self._allowance.scope, purpose, _one(events), about, self.accounting.name)
        kept = None if self._journal is None else self._journal.repeat(question)
        if kept is not None:
            self._allowance.repeat(question.event, purpose=purpose)
            if kept.failed:
                raise LookFailed(LOOK_FAILED)
            return kept.value
        entry = self._charge(*events, purpose=purpose)
        failed, full, answer = False, False, None
        try:
            answer = draw()
        except MemoryError:  # NumPy's says how large the array was
            full = True
        except Exception:
            failed = True
        if full:  # outside the handler: the error does not carry the other one as its context
            raise MemoryError(NO_MEMORY)
        if self._journal is not None:
            self._journal.keep(question, entry, answer, failed=failed)
        if failed:
            raise LookFailed(LOOK_FAILED)
        return answer

    def _pay(self, *events: Event, purpose: str) -> None:
        """Pay at once for a conversation, whose answers are drawn later and are not journalled one by one.

        Privacy
        -------
        An interrupted conversation cannot go on: it holds records, and choices that were made at random about them. It is paid for
        anew.
        """
        question = Question(self._allowance.scope, purpose, _one(events), accounting=self.accounting.name)
        if self._journal is not None:
            self._journal.repeat(question)
        entry = self._charge(*events, purpose=purpose)
        if self._journal is not None:
            self._journal.open_conversation(question, entry)

    # ------------------------------------------------------------------ sealing

    def counts(self, clique: Sequence[str]) -> SealedCounts:
        """Seal the exact marginal of one clique; the empty clique is the number of rows."""
        return self.counts_many([clique])[0]

    def counts_many(self, cliques: Sequence[Sequence[str]]) -> list[SealedCounts]:
        """Seal the exact marginals of many cliques, counted in one pass."""
        canonical: list[Clique] = [self.domain.canonical(clique) for clique in cliques]
        exact = [
            counts
            for batch in in_batches(canonical, self.domain.cells, most=_CELLS_PER_PASS)
            for counts in self._table.count_many(batch)
        ]
        known = self._exact_rows
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
        unit, known = self._unit, self._exact_rows
        return [
            SealedCounts(exact, clique=shape.names, domain=shape, unit=unit, known_rows=known)
            for shape, exact in count_grouped(self._table, wanted)
        ]

    def people_by_rows(self, starts: Sequence[int]) -> SealedCounts:
        """Seal how many people have how many rows, in public bins.

        Parameters
        ----------
        starts
            Where the bins begin, ascending from 1; the last holds everybody with so many rows or more.

        Privacy
        -------
        In: private. Out: under seal. Every person is in exactly one bin, by the number of all their rows, which is theirs alone; the table is not cut for this. Adding or removing
        a person changes one bin by one: 1 in L1 and L2. Replacing one takes one from a bin and adds one to a bin: 2 in L1, the root of 2 in L2. These are the bounds of a
        unit with one row, whatever ``max_rows`` is.
        """
        unit = self._unit
        edges = [int(start) for start in starts]
        if unit.id_column is None:
            raise BudgetError("People are counted where the unit is a person (id_column).")
        if not edges or edges[0] != 1 or any(high <= low for low, high in pairwise(edges)):
            raise BudgetError("Bins of the number of rows begin at 1 and ascend.")
        exact = self._whole.people_by_rows(unit.id_column, edges[-1])
        counts = np.add.reduceat(exact, np.asarray(edges) - 1)
        shape = Domain(("rows of a person",), (len(edges),))
        return SealedCounts(
            counts,
            clique=shape.names,
            domain=shape,
            unit=replace(unit, max_rows=1),
            known_rows=None,
            cells=f"from {', '.join(map(str, edges))}",
        )

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
        sealed, noise = list(sealed), [own_noise(kind) for kind in noise]
        if len(sealed) != len(noise):
            raise BudgetError(f"Need one noise per marginal; got {len(noise)} for {len(sealed)}.")
        if not sealed:
            return []
        require_seals(sealed, SealedCounts)
        events = [kind.event(l1=item.l1, l2=item.l2) for item, kind in zip(sealed, noise, strict=True)]
        drawn = self._answer(
            *events,
            purpose=purpose or _measuring(sealed),
            about=[[item.clique, item.shape, *filter(None, [item.cells])] for item in sealed],
            draw=lambda: [
                item._exact + kind.draw(item._exact.shape, self._randomness)
                for item, kind in zip(sealed, noise, strict=True)
            ],
        )
        return [
            Measurement(item.clique, np.asarray(noisy, dtype=np.float64), kind.kind, kind.scale)
            for item, kind, noisy in zip(sealed, noise, drawn, strict=True)
        ]

    def measure_scalar(self, sealed: SealedScalar, *, noise: Noise, purpose: str) -> float:
        """Add noise to one sealed number and charge its cost first; see :meth:`measure_scalars`."""
        return self.measure_scalars([sealed], noise=[noise], purpose=purpose)[0]

    def measure_scalars(
        self, sealed: Sequence[SealedScalar], *, noise: Sequence[Noise], purpose: str
    ) -> list[float]:
        """Add noise to several sealed numbers and charge for all of them at once.

        Privacy
        -------
        In: private. Out: releasable. Each number is exact and rounded once, to a public grid whose step ``g`` is a power of two, at least
        ``2**-20`` and less than ``2**-19`` of its sensitivity ``s``. Two numbers at distance at most ``s`` round to whole numbers of
        steps at distance at most ``floor(s/g) + 1`` (:mod:`understudy.curator.rounding`): that is charged. Whole noise of the wanted scale
        divided by ``g`` is added on the grid. The charge is the sum. Turning the result into a double, the largest one where it has no
        end, is post-processing.
        """
        sealed, noise = list(sealed), [own_noise(kind) for kind in noise]
        if len(sealed) != len(noise):
            raise BudgetError(f"Need one noise per number; got {len(noise)} for {len(sealed)}.")
        if not sealed:
            return []
        require_seals(sealed, SealedScalar)
        if any(item.sensitivity == 0 for item in sealed):
            raise BudgetError("A number that nobody can change is public; compute it outside the curator.")
        grid = [grid_of(item.sensitivity) for item in sealed]
        scaled = [type(kind)(kind.scale / step) for kind, step in zip(noise, grid, strict=True)]
        steps = [charged_steps(item.sensitivity, step) for item, step in zip(sealed, grid, strict=True)]
        events = [kind.event(l1=many, l2=many) for kind, many in zip(scaled, steps, strict=True)]
        places = [on_grid(item._exact, step) for item, step in zip(sealed, grid, strict=True)]
        drawn = self._answer(
            *events,
            purpose=purpose,
            about=grid,
            draw=lambda: [
                place + int(kind.draw((), self._randomness))
                for place, kind in zip(places, scaled, strict=True)
            ],
        )
        return [to_float(steps * Fraction(step)) for steps, step in zip(drawn, grid, strict=True)]

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
        purpose
            Public words for the ledger.
        mechanism
            ``"exponential"``, or ``"permute-and-flip"`` which is never worse in expected score but
            has no bounded-range discount under zCDP and GDP.

        Privacy
        -------
        In: private. Out: the chosen index. Let ``D`` be the largest sensitivity of a score. Between neighbours the exponent
        ``epsilon score_i / (2 D)`` moves by at most ``epsilon/2`` either way, and the logarithm of the sum of all weights
        by no more than its terms. So every log-ratio is at most ``epsilon``, and any two of them differ by at most
        ``epsilon`` because the sum is the same for both: ``epsilon``-DP and ``epsilon``-bounded-range. Permute-and-flip is
        ``epsilon``-DP. Scores are exact and put on a grid of at most ``2**-20 D``; the sampler enlarges ``D`` by one step of it
        and draws with exact probabilities (proofs in :mod:`understudy.privacy.noise.selection`).
        """
        scores, epsilon = list(scores), float(epsilon)
        if not scores:
            raise BudgetError("There is nothing to choose from.")
        require_seals(scores, SealedScalar)
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise BudgetError(f"epsilon ({epsilon}) of a choice must be positive and finite.")
        sensitivity = max(score.sensitivity for score in scores)
        if sensitivity == 0:
            raise BudgetError("Scores that nobody can change are public; choose outside the curator.")
        if not (1e-12 <= epsilon <= 1e6 and 1e-100 <= sensitivity <= 1e100):
            raise BudgetError(
                f"A choice takes an epsilon from 1e-12 to 1e6 ({epsilon:g}) and scores with a sensitivity from 1e-100 to 1e100 "
                f"({float(sensitivity):g}): scale the scores."
            )
        if mechanism not in ("exponential", "permute-and-flip"):
            raise BudgetError(f"No selection named {mechanism!r}. Known: exponential, permute-and-flip.")
        bounded = mechanism == "exponential"
        exact = [score._exact for score in scores]
        chosen = self._answer(
            SelectionEvent(epsilon) if bounded else PureEvent(epsilon),
            purpose=purpose,
            about=[len(scores), sensitivity],
            draw=lambda: (exponential_mechanism if bounded else permute_and_flip)(
                exact, epsilon=epsilon, sensitivity=sensitivity, score_error=0.0, randomness=self._randomness
            ),
        )
        return int(chosen)

    def test(self, sealed: SealedScalar, *, above: float, epsilon: float, purpose: str) -> bool:
        """Say whether a sealed number plus Laplace noise exceeds a public threshold; charge first.

        Privacy
        -------
        In: private. Out: one bit, a post-processing of the number measured with Laplace noise of
        scale ``sensitivity / epsilon``.
        """
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise BudgetError(f"epsilon ({epsilon}) of a test must be positive and finite.")
        # the grid adds at most one step, less than 2**-19 of the sensitivity; the scale covers it
        scale = sealed.sensitivity * (1 + GRID_WIDENING) / epsilon
        return self.measure_scalar(sealed, noise=Laplace(scale), purpose=purpose) > above

    def __repr__(self) -> str:
        return f"Curator({len(self.domain)} columns, {self._unit.describe()}, {self.budget.describe()})"


def _one(events: Sequence[Event]) -> Event:
    return events[0] if len(events) == 1 else Composed(tuple(events))


def _measuring(sealed: Sequence[SealedCounts]) -> str:
    """Describe a batch of measurements from public facts alone."""
    if len(sealed) == 1:
        clique = sealed[0].clique
        return f"measure {', '.join(clique)}" if clique else "measure the number of rows"
    return f"measure {len(sealed)} marginals"
