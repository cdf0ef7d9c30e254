"""Advice before spending: how large the errors of a fit will be, what it takes, and which epsilon reaches a wish.

No record is read. A mechanism is *rehearsed*: fitted to made-up tables of the schema, of weak, middling and strong dependence
(:mod:`understudy.datasets.schema_tables`), with the budget and the number of rows in question, and the rows that it draws are compared with
those it was fitted to. Real tables differ from made-up ones; by how much was measured (``docs/measured/plan-errors.md``).

What counts for the error is the noise relative to the number of rows. So a large table is rehearsed with fewer rows and a budget that is larger by the
same factor, and a person with ``k`` rows is rehearsed as a row under a ``k``-th of the budget.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import practice_curator
from understudy.datasets.schema_tables import simulated_codes
from understudy.errors import UsageError
from understudy.marginals import Workload
from understudy.mechanisms import Progress, Synthesizer, no_progress
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, Unit
from understudy.progress import Phases
from understudy.schema import Domain, Schema
from understudy.workflow.synthesis import mechanism_for

__all__ = [
    "KINDS",
    "TYPICAL_FACTOR",
    "Advice",
    "Answer",
    "CellErrors",
    "Expected",
    "ExpectedErrors",
    "Rehearsal",
    "Wish",
    "advise",
    "answer",
    "expected_errors",
    "table_errors",
]

KINDS = {"columns": 1, "pairs": 2, "triples": 3}
"""What errors are said of: marginals of one, two and three columns."""

TYPICAL_FACTOR = 2.1
"""Errors of pairs and triples on real tables are within this factor of those expected in nine of ten cases (``docs/measured/plan-errors.md``)."""

DEPENDENCES = (0.6, 1.0, 1.6)
"""Of the made-up tables."""
_MIDDLE = 1.0
"""As the tables they were chosen by."""

RELY = 0.2
"""A cell that one can rely on is within this share of its count ..."""
SURE = 0.9
"""... in so many of all cases."""

LARGEST_EPSILON = 100.0
MOST_SECONDS = 300.0
"""CPU time of a rehearsal, beyond its first fit."""
_SMALLEST_EPSILON = 1e-3
_SMALL_DELTA = 1e-6
_WORTH = 0.9
"""A delta that leaves more than this part of the error is not worth its explanation."""
_OTHER = 3.0
"""Also rehearsed: this many times the budget, and as many times less."""
_MOST_ROWS = 40_000
_MOST_SETS = 100
"""Marginals of each kind that are compared."""
_MOST_CELLS = 2_000_000
_STEP = 1.5
_FEW_CELLS = 20
"""Cells are taken together whose shares of the rows differ by less than this factor, and at least so many."""
_NANOSECONDS_PER_VALUE = 50.0
_BYTES_PER_VALUE = 40
"""Of reading a table, and of holding it with its stand-in."""
_BEYOND = 1.2
_MOST_FITS = 7
"""Fits to one table in search of an epsilon, at most."""

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

    def smallest_cell(self, kind: str) -> int | None:
        """Return how many rows a cell needs to be relied on: within 20 % in nine of ten cases; None if no cell is."""
        share = self.cells[kind].smallest() if kind in self.cells else None
        return None if share is None else max(1, math.ceil(share * self.rows))


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
        most_rows: int = _MOST_ROWS,
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
        drawn = model.schema.codes_as_read(model.sample_codes(rows, seed=self.seed), seed=self.seed)
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
    most_rows: int = _MOST_ROWS,
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


@dataclass(frozen=True)
class Wish:
    """What is wanted of a stand-in: an average error of columns, pairs or triples, or of cells of a size.

    Attributes
    ----------
    kind
        ``columns``, ``pairs`` or ``triples``.
    within
        The error, as a share.
    cell
        The number of rows of the cells that are meant; None for the average error of marginals.
    """

    kind: str
    within: float
    cell: int | None = None

    _FORMS = 'Write "pairs within 2 %" (also columns, triples), or "cell of 500 rows within 10 %" (also: cell of 500 rows in triples within 10 %).'

    @classmethod
    def parse(cls, text: str) -> Wish:
        """Read a wish.

        Examples
        --------
        >>> Wish.parse("pairs within 2 %")
        Wish(kind='pairs', within=0.02, cell=None)
        >>> Wish.parse("cell of 500 rows in columns within 10%").cell
        500
        >>> Wish.parse("pairs within 2")
        Traceback (most recent call last):
        ...
        understudy.errors.UsageError: The wish 'pairs within 2' is not understood: a number without % is not an error. Write "pairs within 2 %" (also columns, triples), or "cell of 500 rows within 10 %" (also: cell of 500 rows in triples within 10 %).
        """

        def refuse(why: str) -> UsageError:
            return UsageError(f"The wish {text!r} is not understood: {why}. {cls._FORMS}")

        words = " ".join(text.lower().split())
        found = re.fullmatch(
            r"(?:(columns|pairs|triples)|cells? of ([\d,_]+)(?: rows?)?(?: in (columns|pairs|triples))?) within ([\d.]+) ?(%?)",
            words,
        )
        if found is None:
            raise refuse("it is neither about marginals nor about cells")
        kind, rows, of, number, percent = found.groups()
        if not percent:
            raise refuse("a number without % is not an error")
        try:
            within = float(number) / 100
        except ValueError:
            raise refuse(f"{number!r} is not a number") from None
        if not 0 < within < 1:
            raise refuse("an error lies between 0 % and 100 %")
        if kind is not None:
            return cls(kind, within)
        cell = int(rows.replace(",", "").replace("_", "") or 0)
        if cell < 1:
            raise refuse("a cell has at least one row")
        return cls(of or "pairs", within, cell)

    def describe(self) -> str:
        """Return the wish in words."""
        if self.cell is None:
            return f"{self.kind} within {100 * self.within:.3g} %"
        return f"cells of {self.cell:,} rows in {self.kind} within {100 * self.within:.3g} %"

    def of(self, errors: ExpectedErrors) -> float:
        """Return the error that the wish is about."""
        if self.cell is not None:
            if self.cell > errors.rows:
                raise UsageError(
                    f"A cell of {self.cell:,} rows is larger than the table of {errors.rows:,} rows."
                )
            return (
                errors.cells[self.kind].at(self.cell / errors.rows) if self.kind in errors.cells else math.inf
            )
        found = errors.of(self.kind)
        if found is None:
            raise UsageError(f"The table has too few columns for {self.kind}.")
        return found.middle


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Which epsilon reaches a wish.

    Attributes
    ----------
    wish
        What was wanted.
    epsilon, delta
        The budget that reaches it on made-up tables; ``epsilon`` is None if none up to 100 does.
    error
        The error that is expected there, or at the largest epsilon tried.
    tried
        Every epsilon that was rehearsed, with its error on the table of middling dependence.
    """

    wish: Wish
    epsilon: float | None
    delta: float | None
    error: float
    tried: tuple[tuple[float, float], ...]

    def describe(self) -> str:
        """Say it in a sentence or two."""
        delta = "" if self.delta is None else f" with a delta of {self.delta:g}"
        if self.epsilon is not None:
            return f"{_capital(self.wish.describe())}: an epsilon of about {self.epsilon:.2g}{delta} (expected error {_percent(self.error)})."
        largest = max(epsilon for epsilon, _ in self.tried)
        return (
            f"{_capital(self.wish.describe())}: no epsilon below {LARGEST_EPSILON:g}{delta} reaches it. At {largest:.3g} the expected error is "
            f"{_percent(self.error)}: what is left comes from what the method cannot model and from drawing whole rows, not from noise. Use another method "
            "(understudy methods), coarser bins, a workload of what matters, or more rows."
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _percent(value: float) -> str:
    return f"{100 * value:.2g} %" if value < 0.995 else f"{100 * value:.0f} %"


def _with_epsilon(epsilon: float, delta: float | None) -> Budget:
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)


def answer(
    rehearsal: Rehearsal,
    wish: Wish,
    *,
    delta: float | None = None,
    start: float = 1.0,
    most_seconds: float = MOST_SECONDS,
    progress: Progress = no_progress,
) -> Answer:
    """Find the smallest epsilon that reaches a wish on made-up tables.

    Errors fall with epsilon, in expectation. The search goes along the table of middling dependence, by the line through the nearest
    two points on logarithmic scales; what the other tables differ by is taken into account at its start and at its end, unless a fit takes long. No
    further fit is begun after ``most_seconds`` of CPU time, but two are made.
    """
    begun = time.process_time()
    seen: dict[float, float] = {}

    def error(epsilon: float, dependences: Sequence[float] = (_MIDDLE,)) -> float:
        return wish.of(rehearsal.at(_with_epsilon(epsilon, delta), dependences))

    def one(epsilon: float) -> float:
        progress(f"trying an epsilon of {epsilon:.3g}", len(seen) / (_MOST_FITS + 1))
        seen[epsilon] = max(error(epsilon), 1e-9)
        return seen[epsilon]

    start = min(LARGEST_EPSILON, max(_SMALLEST_EPSILON, start))
    first = one(start)
    quick = (_MOST_FITS + len(DEPENDENCES)) * (time.process_time() - begun) < most_seconds
    tables = DEPENDENCES if quick else (_MIDDLE,)
    ratio = max(error(start, tables), 1e-9) / first
    target = wish.within / ratio
    while len(seen) < _MOST_FITS:
        if len(seen) > 1 and time.process_time() - begun > most_seconds:
            break
        guess = _guess(seen, target)
        if guess is None or any(abs(math.log(guess / known)) < 0.08 for known in seen):
            break
        one(guess)
    best = _crossing(seen, target)
    tried = tuple(sorted(seen.items()))
    if best is None:  # all are larger, if only by a little
        largest = max(seen)
        best = largest * (seen[largest] / target) ** (1 / _slope(seen, largest))
        if best > LARGEST_EPSILON:
            return Answer(wish=wish, epsilon=None, delta=delta, error=ratio * seen[largest], tried=tried)
    if not quick:
        return Answer(wish=wish, epsilon=best, delta=delta, error=wish.within, tried=tried)
    progress("checking on all tables", _MOST_FITS / (_MOST_FITS + 1))
    reached = max(error(best, tables), 1e-9)
    slope = _slope(seen, best)
    final = best * (reached / wish.within) ** (1 / slope)
    final = min(LARGEST_EPSILON, max(_SMALLEST_EPSILON, min(3 * best, max(best / 3, final))))
    expected = reached * (final / best) ** -slope
    return Answer(wish=wish, epsilon=final, delta=delta, error=expected, tried=tried)


def _slope(seen: Mapping[float, float], near: float) -> float:
    """Return how steeply errors fall about an epsilon, on logarithmic scales: from .2 to 1.5."""
    points = sorted(seen, key=lambda epsilon: abs(math.log(epsilon / near)))[:2]
    if len(points) < 2:
        return 0.7
    low, high = sorted(points)
    fall = math.log(seen[low] / seen[high]) / math.log(high / low)
    return min(1.5, max(0.2, fall))


def _guess(seen: Mapping[float, float], target: float) -> float | None:
    """Return the epsilon to try next; None if the ends are reached."""
    best = _crossing(seen, target)
    if best is not None and len(seen) > 1 and min(seen) < best < max(seen):
        return best
    edge = max(seen) if min(seen.values()) > target else min(seen)
    step = (seen[edge] / target) ** (1 / _slope(seen, edge))
    step *= _BEYOND if step > 1 else 1 / _BEYOND  # a little too far, so that the wish lies between two points
    guess = min(LARGEST_EPSILON, max(_SMALLEST_EPSILON, edge * min(12.0, max(1 / 12, step))))
    return None if guess == edge else guess


def _crossing(seen: Mapping[float, float], target: float) -> float | None:
    """Return where errors cross the target, on the line between the nearest two points; None if all are larger."""
    ordered = sorted(seen)
    falling = np.minimum.accumulate([seen[epsilon] for epsilon in ordered])
    if falling[-1] > target:
        return None
    place = int(np.argmax(falling <= target))
    if place == 0:
        return ordered[0]
    low, high = ordered[place - 1], ordered[place]
    above, below = math.log(falling[place - 1] / target), math.log(max(falling[place], 1e-12) / target)
    return float(math.exp(math.log(low) + (math.log(high) - math.log(low)) * above / (above - below)))


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to expect of a fit before it is paid for.

    Attributes
    ----------
    method, rows, guarantee
        What was rehearsed.
    errors
        At the budget in question; None if only a wish was asked about.
    others
        At a third of the budget and at three times of it; at the same epsilon with a small delta where the budget is pure and that helps.
    seconds, megabytes
        CPU time and memory of a fit, of reading the table and of drawing as many rows.
    answer
        Which epsilon reaches the wish, if there was one.
    delta_note
        What a small delta would buy, in words.
    """

    method: str
    rows: int
    guarantee: str
    errors: ExpectedErrors | None
    others: Mapping[str, ExpectedErrors] = field(default_factory=dict)
    seconds: float | None = None
    megabytes: float | None = None
    answer: Answer | None = None
    delta_note: str = ""

    def sentences(self) -> list[str]:
        """Return the advice in words."""
        said = []
        if self.errors is not None:
            said += self._said_of_errors(self.errors)
        if self.answer is not None:
            said.append(self.answer.describe())
        said.append(
            f"All of this is of made-up tables of this shape. Real tables differ: on ten that were measured, in nine of ten cases by less than a factor of {TYPICAL_FACTOR:g}."
        )
        return said

    def _said_of_errors(self, errors: ExpectedErrors) -> list[str]:
        said = []
        parts = []
        for kind in KINDS:
            found = errors.of(kind)
            if found is not None:
                reach = f" ({_percent(found.low)} to {_percent(found.high)})" if errors.tables > 1 else ""
                parts.append(f"{kind} {_percent(found.middle)}{reach}")
        said.append(f"Expected error, as the share of rows in a wrong cell: {', '.join(parts)}.")
        for kind in KINDS:
            if errors.of(kind) is None:
                continue
            cell = errors.smallest_cell(kind)
            name = {"columns": "a column", "pairs": "a pair", "triples": "a triple"}[kind]
            said.append(
                f"No cell of {name} can be relied on: none is within {100 * RELY:g} % in nine of ten cases."
                if cell is None
                else f"Cells of {name} can be relied on (within {100 * RELY:g} % in nine of ten cases) from about {cell:,} rows on, {_percent(cell / self.rows)} of the table."
            )
        kind = next(kind for kind in reversed(KINDS) if errors.of(kind) is not None and kind != "triples")
        here = errors.of(kind)
        assert here is not None
        for name, other in self.others.items():
            there = other.of(kind)
            assert there is not None
            words = {
                "more": f"Three times the budget ({other.budget.describe()})",
                "less": f"A third of the budget ({other.budget.describe()})",
                "delta": f"A delta of {_SMALL_DELTA:g} beside the same epsilon",
            }[name]
            change = f"{words} would bring the error of {kind} from {_percent(here.middle)} to {_percent(there.middle)}"
            useless = name == "delta" and there.middle > _WORTH * here.middle
            said.append(f"{change}: it buys little here." if useless else f"{change}.")
            if name == "delta" and not useless:
                said.append(self.delta_note)
        if self.seconds is not None and self.megabytes is not None:
            said.append(
                f"About {_duration(self.seconds)} of CPU on this machine and {self.megabytes:,.0f} MB of memory."
            )
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "method": self.method,
            "rows": self.rows,
            "guarantee": self.guarantee,
            "errors": None if self.errors is None else _plain(self.errors),
            "others": {name: _plain(errors) for name, errors in self.others.items()},
            "cpu_seconds": None if self.seconds is None else round(self.seconds, 1),
            "memory_megabytes": None if self.megabytes is None else round(self.megabytes),
            "want": None
            if self.answer is None
            else {
                "wish": self.answer.wish.describe(),
                "epsilon": self.answer.epsilon,
                "delta": self.answer.delta,
                "expected_error": self.answer.error,
                "tried": [{"epsilon": epsilon, "error": error} for epsilon, error in self.answer.tried],
            },
            "typical_factor": TYPICAL_FACTOR,
            "sentences": self.sentences(),
        }


def _plain(errors: ExpectedErrors) -> dict[str, Any]:
    plain: dict[str, Any] = {"budget": errors.budget.to_dict(), "tables": errors.tables}
    for kind in KINDS:
        found = errors.of(kind)
        cell = errors.smallest_cell(kind)
        plain[kind] = None if found is None else {
            "low": found.low,
            "expected": found.middle,
            "high": found.high,
            "smallest_cell_rows": cell,
            "smallest_cell_share": None if cell is None else cell / errors.rows,
        }  # fmt: skip
    return plain


def _duration(seconds: float) -> str:
    """Write a time with few digits.

    Examples
    --------
    >>> _duration(3.42), _duration(184.0), _duration(9000.0)
    ('4 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{max(1, math.ceil(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.2g} h"


def advise(
    schema: Schema | str | PathLike[str],
    *,
    unit: Unit | str | Mapping[str, Any],
    method: str | Synthesizer = "aim",
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    rows: int | None = None,
    workload: str | Workload | None = None,
    options: Mapping[str, Any] | None = None,
    want: str | None = None,
    seed: int = 0,
    most_seconds: float = MOST_SECONDS,
    progress: Progress = no_progress,
) -> Advice:
    """Say what to expect of a fit before anything is read or paid for: ``understudy plan``, from Python.

    Parameters
    ----------
    schema, unit, method, epsilon, delta, rho, mu, workload, options
        As `understudy.workflow.synthesize` takes them; the method may also be made already. With ``want`` the budget may be left out, except for delta.
    rows
        The number of rows, public or a guess of the owner's; by default what the schema declares.
    want
        A wish, such as ``"pairs within 2 %"`` or ``"cell of 500 rows within 10 %"``, to be answered with an epsilon.
    seed
        Of the made-up tables.
    most_seconds
        CPU time after which no further fit is begun: where a fit takes long there are fewer made-up tables and fewer other budgets. At least one fit is made.
    progress
        Called with the name of a stage and a fraction.

    Privacy
    -------
    In: public facts. Out: public. Nothing is charged.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: smokes, kind: boolean}, {name: sex, kind: categorical, values: [f, m]}]")
    >>> advice = advise(schema, unit="add-remove", method="independent", epsilon=1.0, rows=1000)
    >>> advice.errors.columns.middle < 0.02
    True
    """
    described = schema if isinstance(schema, Schema) else Schema.read(schema)
    wish = None if want is None else Wish.parse(want)
    number = described.row_count if rows is None else rows
    if number is None:
        raise UsageError(
            "Errors depend on the number of rows. Give one that is public, or a guess (--rows-about, rows=): the table is not read."
        )
    if wish is not None and (rho is not None or mu is not None):
        raise UsageError(
            "A wish (--want) is answered with an epsilon: leave rho and mu out, and give a delta if there is one."
        )
    protected = Unit.of(unit)
    synthesizer = (
        method
        if isinstance(method, Synthesizer)
        else mechanism_for(method, described, workload=workload, options=options)
    )
    budget = None
    if wish is None or epsilon is not None:
        budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, mu=mu)
        synthesizer.require(budget)
    else:
        synthesizer.require(_with_epsilon(1.0, delta))
    rehearsal = Rehearsal(described, number, synthesizer, unit=protected, seed=seed)
    phases = Phases(progress, {"errors": 5.0, "want": 0.0 if wish is None else 9.0})
    found: dict[str, Any] = {}
    if budget is not None:
        found = _around(rehearsal, budget, phases.part("errors"), most_seconds)
    if wish is not None:
        start = 1.0 if epsilon is None else epsilon
        found["answer"] = answer(
            rehearsal,
            wish,
            delta=delta,
            start=start,
            most_seconds=most_seconds,
            progress=phases.part("want"),
        )
    phases.done()
    names = f"for {protected.describe()}"
    return Advice(
        method=synthesizer.name,
        rows=number,
        guarantee=names if budget is None else f"{budget.describe()} {names}",
        errors=found.pop("errors", None),
        megabytes=_megabytes(number, len(described.names)),
        **found,
    )


def _around(rehearsal: Rehearsal, budget: Budget, progress: Progress, most_seconds: float) -> dict[str, Any]:
    """Rehearse a budget, and what lies about it on the table of middling dependence, as far as the time goes."""
    start = time.process_time()
    method, schema, unit = rehearsal.synthesizer, rehearsal.schema, rehearsal.unit
    wanted: dict[str, Budget] = {"less": _times(budget, 1 / _OTHER), "more": _times(budget, _OTHER)}
    note = method.delta_note(budget, schema, unit)
    if note and isinstance(budget, PureDP):
        wanted["delta"] = ApproxDP(budget.epsilon, _SMALL_DELTA)
    phases = Phases(progress, {"here": 3.0, **dict.fromkeys(wanted, 1.0)})
    tell = phases.part("here")
    tell("rehearsing", 0.0)
    here = rehearsal.at(budget, [_MIDDLE])
    one_fit = time.process_time() - start

    def affordable() -> bool:
        return time.process_time() - start + one_fit <= most_seconds

    tables = [_MIDDLE]
    for dependence in DEPENDENCES:
        if dependence != _MIDDLE and affordable():
            tell("rehearsing", len(tables) / len(DEPENDENCES))
            rehearsal.at(budget, [dependence])
            tables.append(dependence)
    errors = rehearsal.at(budget, sorted(tables))
    others = {}
    for name, other in wanted.items():
        if affordable():
            phases.part(name)(f"rehearsing {other.describe()}", 0.0)
            others[name] = _like(errors, here, rehearsal.at(other, [_MIDDLE]))
    return {"errors": errors, "others": others, "seconds": errors.seconds, "delta_note": note}


def _times(budget: Budget, factor: float) -> Budget:
    """Return so many times a budget, in the number that people write, with two digits."""

    def times(number: float) -> float:
        return float(f"{factor * number:.2g}")

    if isinstance(budget, PureDP):
        return PureDP(times(budget.epsilon))
    if isinstance(budget, ApproxDP):
        return ApproxDP(times(budget.epsilon), budget.delta)
    if isinstance(budget, ZCDP):
        return ZCDP(times(budget.rho))
    assert isinstance(budget, GDP)
    return GDP(times(budget.mu))


def _like(errors: ExpectedErrors, here: ExpectedErrors, there: ExpectedErrors) -> ExpectedErrors:
    """Carry what one table says about another budget over to the range of all tables."""

    def carried(kind: str) -> Expected | None:
        all_tables, one, other = errors.of(kind), here.of(kind), there.of(kind)
        if all_tables is None or one is None or other is None:
            return None
        ratio = other.middle / one.middle
        return Expected(ratio * all_tables.low, ratio * all_tables.middle, ratio * all_tables.high)

    columns = carried("columns")
    assert columns is not None
    return replace(there, columns=columns, pairs=carried("pairs"), triples=carried("triples"))


def _megabytes(rows: int, columns: int) -> float:
    """Return the most memory that this process has held, and what the rest of a larger table needs."""
    import resource  # not on every system

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return peak + max(0, rows - _MOST_ROWS) * columns * _BYTES_PER_VALUE / 2**20
