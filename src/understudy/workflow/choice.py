"""Choosing a mechanism where nobody names one: what ``--method auto`` does.

The choice is a function of public facts: the schema (columns, values, and the number of rows where its owner declares it), the unit, the budget and
the marginals that matter. The table is no argument, so neighbouring tables get the same choice and it costs nothing. What is recorded (ledger, model,
work that was interrupted) names the mechanism that was chosen, with its options.

The rule was made on the development tables of ``benchmarks/accuracy/auto.py`` and is measured there on others as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from understudy.errors import UnderstudyError
from understudy.marginals import Workload, all_kway, parse_workload
from understudy.mechanisms import Synthesizer, create
from understudy.mechanisms.graphs.privsyn import share_power
from understudy.mechanisms.levels import working_schema
from understudy.mechanisms.marginal.sift import Sift
from understudy.mechanisms.rounds import expected_absolute_noise
from understudy.privacy import Accounting, Budget, Unit, noise_for
from understudy.schema import Domain, Schema

__all__ = ["AUTO", "CHOICE_RULE", "Choice", "Facts", "choose", "predicting", "workload_of"]

AUTO = "auto"
"""What users type for a mechanism that is to be chosen."""
CHOICE_RULE = 5
"""Number of the rule: another one, which may choose otherwise for the same facts, gets another number."""

USUAL_ROWS = 20_000
"""Number of rows that is assumed where none is public."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The public facts that decide, and nothing else.

    Three of them are of one kind: the share of the rows that noise would move, on average, in a marginal of one, two or three columns, if all such marginals
    were measured with the whole budget, divided so that their errors add up to the least. They speak of the budget, the unit, the accounting, the sizes of the
    columns and the number of rows at once.

    Attributes
    ----------
    columns
        How many columns the table has.
    cells
        Combinations of values of all columns.
    triple_cells
        Cells of a marginal of three columns, on average; of all columns where there are fewer.
    column_noise, pair_noise, triple_noise
        The shares described above.
    rows, declared
        Number of rows, and whether it was declared in the schema; otherwise it is assumed.
    signs
        Whether `sift` would measure sums of signs: all columns have two values, and noise is small enough and not Laplace.
    """

    columns: int
    cells: float
    triple_cells: float
    column_noise: float
    pair_noise: float
    triple_noise: float
    rows: int
    declared: bool
    signs: bool = False

    @classmethod
    def of(cls, schema: Schema, *, unit: Unit, budget: Budget) -> Facts:
        """Gather the facts of a fit.

        Examples
        --------
        >>> from understudy.privacy import PureDP
        >>> yes_no = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]")
        >>> facts = Facts.of(yes_no, unit=Unit.add_remove(), budget=PureDP(1.0))
        >>> facts.columns, facts.triple_cells, round(facts.pair_noise * facts.rows, 1)
        (2, 4.0, 2.0)
        """
        sizes = working_schema(schema).domain.sizes
        rows = USUAL_ROWS if schema.row_count is None else schema.row_count
        ways = create("gaussian").accountings(budget)
        column, pair, triple = (
            min(_noise(sizes, k, way, unit, way.total(budget)) for way in ways) / rows for k in (1, 2, 3)
        )
        return cls(
            columns=len(sizes),
            cells=math.prod(map(float, sizes)),
            triple_cells=_mean_cells(sizes, 3),
            column_noise=column,
            pair_noise=pair,
            triple_noise=triple,
            rows=rows,
            declared=schema.row_count is not None,
            signs=Sift().measures_signs(working_schema(schema), unit=unit, budget=budget, rows=rows),
        )

    def describe(self) -> str:
        """Say the facts in a sentence."""
        how = "declared" if self.declared else "assumed, since no number is public"
        return (
            f"{self.columns} {'column' if self.columns == 1 else 'columns'}{' of two values' if self.signs else ''}, {self.rows:,} rows ({how}), {_about(self.cells)} combinations of values, {_about(self.triple_cells)} cells in a marginal of three "
            f"columns; if all were measured, noise would move {_share(self.column_noise)} of the rows in a column, {_share(self.pair_noise)} in a pair of columns and "
            f"{_share(self.triple_noise)} in three columns"
        )


def _noise(sizes: Sequence[int], k: int, way: Accounting, unit: Unit, cost: float) -> float:
    """Return half the expected L1 noise, in rows, of a marginal of ``k`` columns if all are measured for a cost.

    The cost is divided as in :func:`understudy.mechanisms.allocation.direct_weights`: marginals of ``n`` cells get shares ``n^p``, and their errors add up to
    ``(sum n^p)^(1/p)`` times the noise of a cell that gets the whole cost. Sums over all sets of k columns are elementary symmetric sums.
    """
    k = min(k, len(sizes))
    power = share_power(way.name)
    together = float(_symmetric([float(size) ** power for size in sizes], k) ** (1 / power))
    return together * expected_absolute_noise(noise_for(way, unit, cost)) / (2 * math.comb(len(sizes), k))


def _mean_cells(sizes: Sequence[int], k: int) -> float:
    k = min(k, len(sizes))
    return _symmetric(list(map(float, sizes)), k) / math.comb(len(sizes), k)


def _symmetric(values: Sequence[float], k: int) -> float:
    """Return the sum, over all sets of k of the values, of their product."""
    sums = [1.0] + [0.0] * k
    for value in values:
        for order in range(k, 0, -1):
            sums[order] += value * sums[order - 1]
    return sums[k]


def _about(number: float) -> str:
    return f"{number:,.0f}" if number < 1e6 else f"{number:.1e}"


def _share(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else "more than all"


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
        Marginals that matter, if some matter more than others: then only mechanisms that measure by a workload are considered.

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
    facts = Facts.of(schema, unit=unit, budget=budget)
    refused: list[str] = []
    preferences = [item for item in preferred(facts) if workload is None or item[0] in _BY_WORKLOAD]
    for place, (name, own, because) in enumerate(preferences, start=1):
        options = dict(own) if workload is None else {**own, "workload": workload}
        made = create(name, **options)
        try:
            made.require(budget)
            made.plan(schema, unit=unit, budget=budget)
        except UnderstudyError:
            if place == len(preferences):
                raise
            refused.append(name)
            continue
        return Choice(method=name, options=options, why=_paragraph(name, because, facts, refused))
    raise AssertionError("the last preference is returned or raises")


def _paragraph(name: str, because: str, facts: Facts, refused: list[str]) -> str:
    """Say what was chosen, by which facts, and what would change it."""
    parts = [f"Chosen by auto: {name}, {because}. The facts: {facts.describe()}."]
    if refused:
        parts.append(f"{' and '.join(refused)} would come first and cannot fit a table like this.")
    if not facts.declared:
        parts.append(
            "If the number of rows is public anyway, row_count in the schema lets the choice rest on it."
        )
    parts.append("Name another with --method (method=); `understudy methods` lists them.")
    return " ".join(parts)


Preference = tuple[str, Mapping[str, Any], str]
"""A mechanism, options, and the reason in words that follow its name."""

_BY_WORKLOAD = ("gaussian", "sift", "aim")
"""Mechanisms that measure what a workload asks for; others take one for their error bounds alone, or none."""
_DROWNED = 0.3
"""Above this noise in single columns nothing else is worth measuring."""
_DROWNED_FOR_CERTAIN = 0.6
"""The same where the number of rows is only assumed: `sift` measures the columns first, and what it does then follows from the number of rows that they tell."""
_FEW_CELLS, _FEW_CELLS_NOISE = 64, 2.0
"""Triples of so few cells are measured up to this noise, where a model of all columns fits: the many that share columns correct one another."""
_PRECISE = 0.05
"""Below this noise triples are measured whatever their cells, where a model of all columns fits."""
_VERY_PRECISE = 0.02
"""The same where none fits, and tables are only made to agree."""
_MOST_COLUMNS = 32
"""Most columns whose triples are all measured: beyond that their number makes the estimate slow."""
_SMALL_MODEL = 2.0
"""Megabytes of the model of `gaussian`: a larger one takes long, and with little noise local consistency is as good."""


def preferred(facts: Facts) -> tuple[Preference, ...]:
    """Return the mechanisms for such a table, the best first; one that cannot fit gives way to the next.

    Examples
    --------
    >>> facts = Facts(
    ...     columns=16, cells=65536, triple_cells=8.0, column_noise=0.001, pair_noise=0.004, triple_noise=0.02, rows=20_000, declared=True
    ... )
    >>> [name for name, _, _ in preferred(facts)]
    ['gaussian', 'sift', 'aim', 'privsyn', 'independent']
    """
    sift: Preference = (
        "sift",
        {},
        "which measures the pairs of columns that are worth their noise at once, and then the triples that its model gets wrong",
    )
    aim: Preference = ("aim", {}, "which measures what its model gets most wrong, round by round")
    privsyn: Preference = ("privsyn", {}, "which measures the pairs of columns that depend most, all at once")
    independent: Preference = ("independent", {}, "which measures single columns only")
    if facts.column_noise > (_DROWNED if facts.declared else _DROWNED_FOR_CERTAIN):
        why = "since single columns are as much as the noise leaves to be seen: it measures nothing else"
        return (("independent", {}, why), aim)
    order: list[Preference] = []
    if facts.signs:
        why = "which measures the sums of signs of pairs and triples of columns, each for all marginals that hold it"
        sift = ("sift", {}, why)
        order.append(sift)
    whole = facts.cells * 8 <= _SMALL_MODEL * 2**20
    few = whole and facts.triple_cells <= _FEW_CELLS and facts.triple_noise <= _FEW_CELLS_NOISE
    precise = _PRECISE if whole else _VERY_PRECISE
    if facts.columns <= _MOST_COLUMNS and (few or facts.triple_noise <= precise):
        why = "which measures every marginal of three columns once (or of the workload): all can be afforded, so that none has to be chosen"
        order.append(("gaussian", {"max_model_mb": _SMALL_MODEL}, why))
    order += [*([] if facts.signs else [sift]), aim, privsyn, independent]
    return tuple(order)


TARGET_WEIGHT = 8.0
"""How much more a marginal matters that holds the column to predict."""


def predicting(domain: Domain, column: str, *, weight: float = TARGET_WEIGHT) -> Workload:
    """Return a workload for tables from which a column will be predicted: all triples, those that hold it with more weight.

    Examples
    --------
    >>> predicting(Domain(("a", "b", "c", "d"), (2, 2, 2, 2)), "d").weights
    (1.0, 8.0, 8.0, 8.0)
    """
    domain.index(column)
    cliques = all_kway(domain, 3).cliques
    return Workload(domain, cliques, tuple(weight if column in clique else 1.0 for clique in cliques))


def workload_of(
    schema: Schema, workload: str | Workload | None, target: str | None, error: type[UnderstudyError]
) -> Workload | None:
    """Return the marginals that matter, or None where nobody said."""
    if target is None:
        return parse_workload(schema.domain, workload) if isinstance(workload, str) else workload
    if workload is not None:
        raise error("Give a workload or a column to predict (--target, target), not both.")
    return predicting(schema.domain, target)
