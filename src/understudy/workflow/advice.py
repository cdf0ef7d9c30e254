"""Advice before spending: how large the errors of a fit will be, what it takes, and which epsilon reaches a wish. No record is read."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from understudy._html import html_lines
from understudy.errors import UsageError
from understudy.marginals import Workload
from understudy.mechanisms import Progress, Synthesizer, no_progress
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, Unit
from understudy.progress import Phases
from understudy.schema import Schema
from understudy.workflow.choice import AUTO
from understudy.workflow.public_data import Prior
from understudy.workflow.rehearsing import (
    DEPENDENCES,
    KINDS,
    MIDDLE,
    MOST_ROWS,
    RELY,
    Expected,
    ExpectedErrors,
    Rehearsal,
)
from understudy.workflow.synthesis.fits import mechanism_for
from understudy.workflow.wishes import MOST_SECONDS, Answer, Wish, answer, percent, with_epsilon

__all__ = ["TYPICAL_FACTOR", "Advice", "advise"]

TYPICAL_FACTOR = 2.1
"""Errors of pairs and triples on real tables are within this factor of those expected in nine of ten cases (``docs/measured/plan-errors.md``)."""
_SMALL_DELTA = 1e-6
_WORTH = 0.9
"""A delta that leaves more than this part of the error is not worth its explanation."""
_OTHER = 3.0
"""Also rehearsed: this many times the budget, and as many times less."""
_WORTH_SAYING = 5.0
"""Seconds of CPU that a rehearsal must still take for its duration to be announced."""
_BYTES_PER_VALUE = 40
"""Of holding a table with its stand-in."""


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
                parts.append(f"{kind} {percent(found.middle)} ({_between(errors, kind)})")
        said.append(f"Expected error, as the share of rows in a wrong cell: {', '.join(parts)}.")
        said.append(
            "The ranges in brackets hold for nine of ten tables: how skewed the columns of yours are and how they depend on one another is not public."
        )
        for kind in KINDS:
            if errors.of(kind) is None:
                continue
            cell = errors.smallest_cell(kind)
            name = {"columns": "a column", "pairs": "a pair", "triples": "a triple"}[kind]
            said.append(
                f"No cell of {name} can be relied on: none is within {100 * RELY:g} % in nine of ten cases."
                if cell is None
                else f"Cells of {name} can be relied on (within {100 * RELY:g} % in nine of ten cases) from about {cell:,} rows on, {percent(cell / self.rows)} of the table."
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
            change = f"{words} would bring the error of {kind} from {percent(here.middle)} to {percent(there.middle)}"
            useless = name == "delta" and there.middle > _WORTH * here.middle
            said.append(f"{change}: it buys little here." if useless else f"{change}.")
            if name == "delta" and not useless:
                said.append(self.delta_note)
        if self.seconds is not None and self.megabytes is not None:
            said.append(
                f"About {_duration(self.seconds)} of CPU on this machine and {self.megabytes:,.0f} MB of memory."
            )
        return said

    def _repr_html_(self) -> str:
        guarantee = f": {self.guarantee}" if self.guarantee else ""
        return html_lines(f"{self.method} on {self.rows:,} rows{guarantee}", self.sentences())

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
                "nine_of_ten": None if self.answer.likely is None else list(self.answer.likely),
                "tried": [{"epsilon": epsilon, "error": error} for epsilon, error in self.answer.tried],
            },
            "typical_factor": TYPICAL_FACTOR,
            "sentences": self.sentences(),
        }


def _between(errors: ExpectedErrors, kind: str) -> str:
    """Say in which range the errors of nine of ten tables are."""
    likely = errors.likely(kind)
    assert likely is not None
    return f"{percent(likely[0])} to {percent(likely[1])}"


def _plain(errors: ExpectedErrors) -> dict[str, Any]:
    plain: dict[str, Any] = {"budget": errors.budget.to_dict(), "tables": errors.tables}
    for kind in KINDS:
        found = errors.of(kind)
        cell = errors.smallest_cell(kind)
        plain[kind] = None if found is None else {
            "low": found.low,
            "expected": found.middle,
            "high": found.high,
            "nine_of_ten": list(errors.likely(kind) or ()),
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
    method: str | Synthesizer = AUTO,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    rows: int | None = None,
    workload: str | Workload | None = None,
    target: str | None = None,
    options: Mapping[str, Any] | None = None,
    prior: Prior | None = None,
    time_limit: float | None = None,
    want: str | None = None,
    seed: int = 0,
    most_seconds: float = MOST_SECONDS,
    progress: Progress = no_progress,
    announce: Callable[[str], None] | None = None,
) -> Advice:
    """Say what to expect of a fit before anything is read or paid for: ``understudy plan``, from Python.

    Parameters
    ----------
    schema, unit, method, epsilon, delta, rho, mu, workload, target, options, prior, time_limit
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
    announce
        Called with a sentence once the first fit has shown how long the others will take.

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
    described = Schema.of(schema)
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
    budget = None
    if wish is None or epsilon is not None:
        budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, mu=mu)
    begun_with = budget or with_epsilon(1.0, delta)
    synthesizer = (
        method
        if isinstance(method, Synthesizer)
        else mechanism_for(
            method,
            described,
            workload=workload,
            target=target,
            options=options,
            unit=protected,
            budget=begun_with,
            prior=prior,
            time_limit=time_limit,
        )
    )
    synthesizer.require(begun_with)
    rehearsal = Rehearsal(described, number, synthesizer, unit=protected, seed=seed)
    phases = Phases(progress, {"errors": 5.0, "want": 0.0 if wish is None else 9.0})
    found: dict[str, Any] = {}
    if budget is not None:
        found = _around(rehearsal, budget, phases.part("errors"), most_seconds, announce)
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


def _around(
    rehearsal: Rehearsal,
    budget: Budget,
    progress: Progress,
    most_seconds: float,
    announce: Callable[[str], None] | None = None,
) -> dict[str, Any]:
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
    here = rehearsal.at(budget, [MIDDLE])
    one_fit = time.process_time() - start
    rest = min((len(DEPENDENCES) - 1 + len(wanted)) * one_fit, max(0.0, most_seconds - one_fit))
    if announce is not None and rest >= _WORTH_SAYING:
        announce(
            f"The first fit and its rows took {_duration(one_fit)} of CPU; the rest of the rehearsal takes about {_duration(rest)}."
        )

    def affordable() -> bool:
        return time.process_time() - start + one_fit <= most_seconds

    tables = [MIDDLE]
    for dependence in DEPENDENCES:
        if dependence != MIDDLE and affordable():
            tell("rehearsing", len(tables) / len(DEPENDENCES))
            rehearsal.at(budget, [dependence])
            tables.append(dependence)
    errors = rehearsal.at(budget, sorted(tables))
    others = {}
    for name, other in wanted.items():
        if affordable():
            phases.part(name)(f"rehearsing {other.describe()}", 0.0)
            others[name] = _like(errors, here, rehearsal.at(other, [MIDDLE]))
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
    return peak + max(0, rows - MOST_ROWS) * columns * _BYTES_PER_VALUE / 2**20
