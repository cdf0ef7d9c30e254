"""Choosing a mechanism where nobody names one: what ``--method auto`` does.

The choice is a function of public facts: the schema (columns, values, and the number of rows where its owner declares it), the unit, the budget and
the marginals that matter. The table is no argument, so neighbouring tables get the same choice and it costs nothing. What is recorded (ledger, model,
work that was interrupted) names the mechanism that was chosen, with its options.

The rule was made on the development tables of ``benchmarks/accuracy/auto.py`` and is measured there on others as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.errors import UnderstudyError
from understudy.marginals import Workload, all_kway
from understudy.mechanisms import Synthesizer, create, method
from understudy.mechanisms.levels import working_schema
from understudy.privacy import Budget, Unit
from understudy.schema import Domain, Schema

__all__ = ["AUTO", "CHOICE_RULE", "Choice", "Facts", "choose", "predicting"]

AUTO = "auto"
"""What users type for a mechanism that is to be chosen."""
CHOICE_RULE = 1
"""Number of the rule: another one, which may choose otherwise for the same facts, gets another number."""

USUAL_ROWS = 20_000
"""Number of rows that is assumed where none is public."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The public facts that decide, and nothing else.

    Attributes
    ----------
    columns
        How many columns the table has.
    cells
        Combinations of values of all columns.
    triple_cells
        Cells of a marginal of three columns, on average.
    noise
        Standard deviation, in rows, of the noise that each cell of a marginal gets in an early round of AIM: it speaks of the budget, the unit and the
        accounting at once.
    rows
        Number of rows: declared in the schema, or assumed.
    declared
        Whether the number of rows was declared.
    """

    columns: int
    cells: float
    triple_cells: float
    noise: float
    rows: int
    declared: bool

    @classmethod
    def of(cls, schema: Schema, *, unit: Unit, budget: Budget) -> Facts:
        """Gather the facts of a fit."""
        domain = schema.domain
        aim = create("aim")
        accounting = aim.least_noisy_accounting(budget, schema, unit)
        return cls(
            columns=len(domain),
            cells=math.prod(map(float, domain.sizes)),
            triple_cells=_mean_cells(domain.sizes, min(3, len(domain))),
            noise=aim.expected_noise(schema, unit, accounting, accounting.total(budget)),
            rows=USUAL_ROWS if schema.row_count is None else schema.row_count,
            declared=schema.row_count is not None,
        )

    @property
    def resolution(self) -> float:
        """Rows of the table for each row of noise: what can be learnt grows with it."""
        return self.rows / self.noise

    def describe(self) -> str:
        """Say the facts in a sentence."""
        rows = f"{self.rows:,} rows (declared)" if self.declared else f"{self.rows:,} rows (assumed: no number is public)"
        return (
            f"{self.columns} {'column' if self.columns == 1 else 'columns'}, {_about(self.cells)} combinations of values, {_about(self.triple_cells)} cells in a marginal of up to three columns on average, "
            f"{rows}, noise of about {self.noise:,.2g} rows per cell"
        )


def _mean_cells(sizes: tuple[int, ...], k: int) -> float:
    """Return the mean number of cells of a marginal of k columns, from elementary symmetric sums."""
    sums = [1.0] + [0.0] * k
    for size in sizes:
        for order in range(k, 0, -1):
            sums[order] += size * sums[order - 1]
    return sums[k] / math.comb(len(sizes), k)


def _about(number: float) -> str:
    return f"{number:,.0f}" if number < 1e6 else f"{number:.1e}"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A mechanism with its options, and why it was chosen.

    Attributes
    ----------
    method, options
        As :func:`understudy.mechanisms.create` takes them.
    why
        One paragraph: the facts, what they decide, and what else would change it.
    """

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    why: str

    def mechanism(self) -> Synthesizer:
        """Return the mechanism."""
        return create(self.method, **self.options)


def choose(schema: Schema, *, unit: Unit, budget: Budget, workload: Workload | None = None) -> Choice:
    """Choose a mechanism for a table that is described by public facts.

    Parameters
    ----------
    schema, unit, budget
        What is public about the table, who is protected, what may be spent.
    workload
        Marginals that matter, if some matter more than others: then only mechanisms that take a workload are considered.

    Raises
    ------
    UnderstudyError
        If no mechanism can fit such a table; the reason is that of the simplest one.

    Privacy
    -------
    In: public facts; the table is no argument. Out: public.

    Examples
    --------
    >>> from understudy.privacy import ApproxDP
    >>> yes_no = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]")
    >>> choice = choose(yes_no, unit=Unit.add_remove(), budget=ApproxDP(1.0, 1e-9))
    >>> choice.method, choice.why.startswith("Chosen by auto: gaussian")
    ('gaussian', True)
    """
    facts = Facts.of(working_schema(schema), unit=unit, budget=budget)
    refused: list[str] = []
    preferences = [
        item for item in preferred(facts) if workload is None or method(item[0]).takes_workload
    ]
    for place, (name, because) in enumerate(preferences, start=1):
        options = {} if workload is None else {"workload": workload}
        made = create(name, **options)
        try:
            made.require(budget)
            made.plan(schema, unit=unit, budget=budget)
        except UnderstudyError:
            if place == len(preferences):
                raise
            refused.append(name)
            continue
        return Choice(method=name, options=options, why=_paragraph(name, because, facts, refused, budget))
    raise AssertionError("the last preference is returned or raises")


def _paragraph(name: str, because: str, facts: Facts, refused: list[str], budget: Budget) -> str:
    """Say what was chosen, by which facts, and what would change it."""
    parts = [f"Chosen by auto: {name}, {because}. The facts: {facts.describe()}."]
    if refused:
        parts.append(f"{' and '.join(refused)} would come first and cannot fit a table like this.")
    if not facts.declared:
        parts.append("A number of rows that may be public (row_count in the schema) makes the choice better.")
    parts.append("Name another with --method (method=); `understudy methods` lists them.")
    return " ".join(parts)


def preferred(facts: Facts) -> tuple[tuple[str, str], ...]:
    """Return the mechanisms for such a table, the best first, each with the reason; one that cannot fit gives way to the next.

    Examples
    --------
    >>> [name for name, _ in preferred(Facts(columns=16, cells=2.0**16, triple_cells=8, noise=90, rows=20_000, declared=True))]
    ['gaussian', 'aim', 'privsyn', 'independent']
    """
    order = []
    if facts.cells <= _MOST_CELLS and facts.triple_cells <= _MOST_TRIPLE_CELLS:
        order.append(
            (
                "gaussian",
                "which measures every marginal of three columns once: they have few cells, and none needs to be chosen",
            )
        )
    order += [
        ("aim", "which measures what its model gets most wrong, round by round"),
        ("privsyn", "which measures the pairs that depend most, all at once"),
        ("independent", "which measures single columns only"),
    ]
    return tuple(order)


_MOST_CELLS = 2**20
_MOST_TRIPLE_CELLS = 64
TARGET_WEIGHT = 8.0
"""How much more a marginal matters that holds the column to predict."""


def predicting(domain: Domain, column: str) -> Workload:
    """Return a workload for tables from which a column will be predicted: all triples, those that hold it with more weight.

    Examples
    --------
    >>> predicting(Domain(("a", "b", "c", "d"), (2, 2, 2, 2)), "d").weights
    (1.0, 8.0, 8.0, 8.0)
    """
    domain.index(column)
    cliques = all_kway(domain, 3).cliques
    return Workload(domain, cliques, tuple(TARGET_WEIGHT if column in clique else 1.0 for clique in cliques))
