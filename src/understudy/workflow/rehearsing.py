"""Expected errors of a fit: a mechanism is rehearsed on made-up tables of its schema. No record is read.

A mechanism is fitted to made-up tables of the schema, of weak, middling and strong dependence (:mod:`understudy.datasets.schema_tables`), with the
budget and the number of rows in question, and the rows that it draws are compared with those it was fitted to. Real tables differ from made-up ones; by how
much was measured (``docs/measured/plan-errors.md``).

What counts for the error is the noise relative to the number of rows. So a large table is rehearsed with fewer rows and a budget that is larger by the
same factor, and a person with ``k`` rows is rehearsed as a row under a ``k``-th of the budget.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import practice_curator
from understudy.datasets.schema_tables import simulated_codes
from understudy.errors import UsageError
from understudy.mechanisms import Progress, Synthesizer, no_progress
from understudy.privacy import GDP, ZCDP, Budget, PureDP, Unit
from understudy.schema import Domain, Schema

__all__ = [
    "KINDS",
    "NINE_OF_TEN",
    "CellErrors",
    "Expected",
    "ExpectedErrors",
    "Rehearsal",
    "expected_errors",
    "likely_range",
    "table_errors",
]

KINDS = {"columns": 1, "pairs": 2, "triples": 3}
"""What errors are said of: marginals of one, two and three columns."""

DEPENDENCES = (0.6, 1.0, 1.6)
"""Of the made-up tables."""
MIDDLE = 1.0
"""As the tables they were chosen by."""

RELY = 0.2
"""A cell that one can rely on is within this share of its count ..."""
SURE = 0.9
"""... in so many of all cases."""

MOST_ROWS = 40_000
_MOST_SETS = 100
"""Marginals of each kind that are compared."""
_MOST_CELLS = 2_000_000
_STEP = 1.5
_FEW_CELLS = 20
"""Cells are taken together whose shares of the rows differ by less than this factor, and at least so many."""
_NANOSECONDS_PER_VALUE = 50.0
"""Of reading a table."""

NINE_OF_TEN = {"columns": 1.6, "pairs": 2.3, "triples": 2.2}
"""Errors of nine of ten tables are within these factors of those that are expected: chosen on the tables in ``RANGES`` of ``benchmarks.accuracy.plan_errors`` and checked on others, where columns needed
more than the 1.4 that was found first."""

Codes = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Expected:
    """An error that is expected, and its range over made-up tables of weak and strong dependence."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class CellErrors:
    """How large the relative errors of cells are by their share of the rows: the one that nine of ten stay below."""

    shares: tuple[float, ...]
    errors: tuple[float, ...]

    def at(self, share: float) -> float:
        """Return the relative error of cells with a share of the rows."""
        if not self.shares:
            return math.inf
        return float(np.exp(np.interp(math.log(share), np.log(self.shares), np.log(self.errors))))

    def smallest(self, within: float = RELY) -> float | None:
        """Return the smallest share of the rows from which on cells are within an error; None if none is."""
        good = None
        for share, error in zip(reversed(self.shares), reversed(self.errors), strict=True):
            if error > within:
                break
            good = share
        return good


@dataclass(frozen=True, kw_only=True)
class ExpectedErrors:
    """What a rehearsal of a fit found.

    Attributes
    ----------
    budget, rows
        What was rehearsed.
    columns, pairs, triples
        The share of the rows that lie in a wrong cell of a marginal (half of the sum of absolute differences of shares), on average over marginals of
        one, two and three columns. None where the table has fewer columns.
    cells
        The errors of single cells, by ``columns``, ``pairs`` and ``triples``.
    seconds
        CPU time of the fit and of drawing as many rows as the table has, on this machine.
    tables
        Number of made-up tables.
    """

    budget: Budget
    rows: int
    columns: Expected
    pairs: Expected | None
    triples: Expected | None
    cells: Mapping[str, CellErrors]
    seconds: float
    tables: int

    def of(self, kind: str) -> Expected | None:
        """Return the error of columns, pairs or triples."""
        found: Expected | None = getattr(self, kind)
        return found

    def likely(self, kind: str) -> tuple[float, float] | None:
        """Return between which limits the error of columns, pairs or triples lies on nine of ten tables (:func:`likely_range`)."""
        found = self.of(kind)
        return None if found is None else likely_range(kind, found.middle)

    def smallest_cell(self, kind: str) -> int | None:
        """Return how many rows a cell needs to be relied on: within 20 % in nine of ten cases; None if no cell is."""
        share = self.cells[kind].smallest() if kind in self.cells else None
        return None if share is None else max(1, math.ceil(share * self.rows))


def likely_range(kind: str, expected: float) -> tuple[float, float]:
    """Return between which limits an error lies on nine of ten tables.

    How skewed the columns of a table are and how they depend on one another is not public, and errors depend on it, however often a fit is rehearsed.

    Examples
    --------
    >>> low, high = likely_range("pairs", 0.02)
    >>> round(low, 4), round(high, 4), likely_range("triples", 0.7)[1]
    (0.0087, 0.046, 1.0)
    """
    factor = NINE_OF_TEN[kind]
    return expected / factor, min(1.0, factor * expected)


class Rehearsal:
    """A mechanism on made-up tables of a schema; asks nothing of any real table.

    Parameters
    ----------
    schema
        Public facts. A draft whose facts were read from the data is refused, as a fit would.
    rows
        The number of rows, public or a guess of the owner's.
    synthesizer, unit
        The mechanism, and who is protected.
    seed
        Of the made-up tables and of the noise on them.
    most_rows
        Larger tables are rehearsed with so many rows.
    """

    def __init__(
        self,
        schema: Schema,
        rows: int,
        synthesizer: Synthesizer,
        *,
        unit: Unit,
        seed: int = 0,
        most_rows: int = MOST_ROWS,
    ) -> None:
        if rows < 1:
            raise UsageError(f"The number of rows ({rows}) must be at least 1.")
        schema.require_public()
        self.schema, self.rows, self.synthesizer, self.unit, self.seed = (
            schema,
            rows,
            synthesizer,
            unit,
            seed,
        )
        self._most_rows = most_rows
        self._made: dict[tuple[float, int], Codes] = {}
        self._found: dict[tuple[Budget, float], _Run] = {}

    def at(
        self,
        budget: Budget,
        dependences: Sequence[float] = DEPENDENCES,
        *,
        progress: Progress = no_progress,
    ) -> ExpectedErrors:
        """Rehearse a budget on tables of some strengths of dependence."""
        runs = []
        for number, dependence in enumerate(dependences):
            progress("rehearsing", number / len(dependences))
            runs.append(self._run(budget, dependence))
        return _summary(budget, self.rows, runs)

    def _run(self, budget: Budget, dependence: float) -> _Run:
        """Fit to one made-up table and draw from the result, unless that was done before."""
        if (budget, dependence) in self._found:
            return self._found[budget, dependence]
        rows, spent = self._to_scale(budget)
        codes = self._table(dependence, rows)
        schema = self.schema if self.schema.row_count is None else replace(self.schema, row_count=rows)
        unit = replace(self.unit, max_rows=1, id_column=None)
        self.synthesizer.prepare(schema, unit=unit, budget=spent)
        curator = practice_curator(
            schema,
            rows=rows,
            unit=unit,
            budget=spent,
            approximate_delta=self.synthesizer.reserve(schema, spent),
            codes=codes,
            seed=self.seed + round(1000 * dependence),
        )
        start = time.process_time()
        model = self.synthesizer.fit(curator, spent)
        fitted = time.process_time()
        sampled = model.sample_codes(rows, seed=self.seed)
        if schema.rules:  # values that obey together are a part of drawing that may take long
            model.decode(sampled, seed=self.seed)
        drawn = model.schema.codes_as_read(sampled, seed=self.seed)
        drawing = (time.process_time() - fitted) * self.rows / rows
        seconds = fitted - start + drawing + 1e-9 * _NANOSECONDS_PER_VALUE * self.rows * len(schema.names)
        run = _Run(_compared(codes, drawn, schema.domain, self.seed), seconds)
        self._found[budget, dependence] = run
        return run

    def _table(self, dependence: float, rows: int) -> Codes:
        if (dependence, rows) not in self._made:
            self._made[dependence, rows] = simulated_codes(
                self.schema, rows, dependence=dependence, seed=self.seed
            )
        return self._made[dependence, rows]

    def _to_scale(self, budget: Budget) -> tuple[int, Budget]:
        """Return the rows and the budget of the rehearsal: the same noise relative to the number of rows.

        A delta that is spent by itself, and mechanisms that take nothing but an approximate budget, cannot be scaled.
        """
        if self.rows <= self._most_rows and self.unit.max_rows == 1:
            return self.rows, budget
        rows = min(self.rows, self._most_rows)
        scaled = self._scaled(budget, self.rows / rows / self.unit.max_rows)
        if scaled is not None and isinstance(scaled, self.synthesizer.budgets):
            return rows, scaled
        if self.unit.max_rows == 1:
            return self.rows, budget
        raise UsageError(
            f"{self.synthesizer.name} cannot be rehearsed for persons with several rows under this kind of budget. Plan without a rehearsal "
            "(--no-rehearsal)."
        )

    def _scaled(self, budget: Budget, factor: float) -> Budget | None:
        """Return a budget under which noise is smaller by a factor; None where that cannot be said."""
        if isinstance(budget, PureDP):
            return PureDP(factor * budget.epsilon)
        if isinstance(budget, ZCDP):
            return ZCDP(factor**2 * budget.rho)
        if isinstance(budget, GDP):
            return GDP(factor * budget.mu)
        if self.synthesizer.reserve(self.schema, budget):
            return None
        accounting = self.synthesizer.accounting(budget, self.schema, self.unit)
        total = accounting.total(budget)
        if accounting.name == "pure":
            return PureDP(factor * total)
        if accounting.name == "zcdp":
            return ZCDP(factor**2 * total)
        return GDP(factor * math.sqrt(total)) if accounting.name == "gdp" else None


@dataclass(frozen=True)
class _Run:
    """Errors of one fit to one made-up table: of each marginal, and of cells (share of the rows, relative error)."""

    found: Mapping[str, tuple[float, npt.NDArray[np.float64]]]
    seconds: float


def _compared(
    real: Codes, drawn: Codes, domain: Domain, seed: int
) -> dict[str, tuple[float, npt.NDArray[np.float64]]]:
    """Compare two tables by marginals of one, two and three columns."""
    rng = np.random.default_rng(seed)
    found = {}
    for kind, width in KINDS.items():
        sets = [
            names
            for names in itertools.combinations(domain.names, width)
            if domain.cells(names) <= _MOST_CELLS
        ]
        if not sets:
            continue
        chosen = rng.choice(len(sets), size=min(len(sets), _MOST_SETS), replace=False)
        distances, cells = [], []
        for place in sorted(chosen.tolist()):
            there, made = (_shares(codes, sets[place], domain) for codes in (real, drawn))
            distances.append(float(np.abs(there - made).sum()) / 2)
            held = there > 0
            cells.append(np.stack([there[held], np.abs(made[held] / there[held] - 1)]))
        found[kind] = (float(np.mean(distances)), np.concatenate(cells, axis=1))
    return found


def table_errors(
    real: Codes, drawn: Codes, domain: Domain, *, budget: Budget, seconds: float, seed: int = 0
) -> ExpectedErrors:
    """Return the errors of rows against those they stand for, as a rehearsal computes them.

    Privacy
    -------
    Exact: for tables that are public or made up.
    """
    rows = len(next(iter(real.values())))
    return _summary(budget, rows, [_Run(_compared(real, drawn, domain, seed), seconds)])


def _shares(codes: Codes, names: tuple[str, ...], domain: Domain) -> npt.NDArray[np.float64]:
    """Return the share of the rows in each cell of a marginal."""
    places = np.ravel_multi_index([codes[name].astype(np.int64) for name in names], domain.shape(names))
    return np.bincount(places, minlength=domain.cells(names)) / max(1, len(places))


def _summary(budget: Budget, rows: int, runs: Sequence[_Run]) -> ExpectedErrors:
    """Put runs together: errors by their geometric mean, cells of all tables in one heap."""
    errors: dict[str, Expected | None] = dict.fromkeys(KINDS)
    cells = {}
    for kind in runs[0].found:
        each = [max(run.found[kind][0], 1e-9) for run in runs]
        errors[kind] = Expected(min(each), math.exp(float(np.mean(np.log(each)))), max(each))
        cells[kind] = _by_share(np.concatenate([run.found[kind][1] for run in runs], axis=1))
    columns = errors["columns"]
    if columns is None:
        raise UsageError(
            "No column is small enough to be rehearsed. Use coarser bins, or plan without a rehearsal."
        )
    return ExpectedErrors(
        budget=budget,
        rows=rows,
        columns=columns,
        pairs=errors["pairs"],
        triples=errors["triples"],
        cells=cells,
        seconds=float(np.median([run.seconds for run in runs])),
        tables=len(runs),
    )


def _by_share(cells: npt.NDArray[np.float64]) -> CellErrors:
    """Group cells by their share of the rows, from the largest down; a group is no better than the groups of larger cells."""
    order = np.argsort(-cells[0], kind="stable")
    shares, relative = cells[0][order], cells[1][order]
    groups: list[tuple[float, float]] = []
    start = 0
    while start < len(shares):
        end = max(start + _FEW_CELLS, int(np.searchsorted(-shares, -shares[start] / _STEP, side="right")))
        if end + _FEW_CELLS > len(shares):  # too few would be left
            end = len(shares)
        error = max(float(np.quantile(relative[start:end], SURE)), groups[-1][1] if groups else 1e-9)
        groups.append((float(np.median(shares[start:end])), error))
        start = end
    groups.reverse()
    return CellErrors(tuple(share for share, _ in groups), tuple(error for _, error in groups))


def expected_errors(
    schema: Schema,
    rows: int,
    budget: Budget,
    synthesizer: Synthesizer,
    *,
    unit: Unit | None = None,
    dependences: Sequence[float] = DEPENDENCES,
    seed: int = 0,
    most_rows: int = MOST_ROWS,
    progress: Progress = no_progress,
) -> ExpectedErrors:
    """Return the errors to expect of a fit, from public facts alone.

    Parameters
    ----------
    schema, rows, unit
        The columns, the number of rows (public or a guess) and who is protected (by default one row, added or removed).
    budget, synthesizer
        What is spent, and how.
    dependences, seed, most_rows
        Strengths of the dependences of the made-up tables, one fit each; what makes them repeatable; and the largest number of rows of one.
    progress
        Called with the name of a stage and a fraction.

    Privacy
    -------
    In: public facts. Out: public. Nothing is charged.

    Examples
    --------
    >>> from understudy.mechanisms import create
    >>> schema = Schema.parse("columns: [{name: smokes, kind: boolean}, {name: sex, kind: categorical, values: [f, m]}]")
    >>> errors = expected_errors(schema, 1000, PureDP(1.0), create("independent"))
    >>> errors.columns.middle < 0.02, errors.triples is None
    (True, True)
    """
    rehearsal = Rehearsal(
        schema, rows, synthesizer, unit=unit or Unit.add_remove(), seed=seed, most_rows=most_rows
    )
    return rehearsal.at(budget, dependences, progress=progress)
