"""Columns with levels: a paid look at their finest counts chooses the groups that a model is fitted to.

Every mechanism works with groups in the same way. Before it begins, each column whose groups are still open is counted by value, with
noise, for the stated share of the budget. From these noisy counts alone follow the groups: groups of the schema, and values, whose counts stand
out of the noise have codes of their own, and what is left of a group shares one. The
mechanism then spends the rest on the table of groups. A synthetic record gets its value within its group by the same noisy counts, made
smoother, or evenly.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError
from understudy.marginals import Workload
from understudy.privacy import GDP, ZCDP, Accounting, ApproxDP, Budget, Noise, PureDP, Unit, noise_for
from understudy.privacy.accounting.conversions import gdp_to_approx, zcdp_to_approx
from understudy.schema import Categorical, Domain, Schema
from understudy.schema.columns.levels import Levels, Tree, numbered
from understudy.schema.constraints.conditions import All, AnyOf, Check, Mapped, NamedPart, Not, OneOf, Same

if TYPE_CHECKING:
    from understudy.curator import Curator
    from understudy.mechanisms.base import Synthesizer

__all__ = [
    "chosen_levels",
    "groups_of_counts",
    "measured_levels",
    "on_domain",
    "open_columns",
    "planned_looks",
    "rest_of",
    "shares_of",
    "weights_of_counts",
    "working_schema",
]

Array = npt.NDArray[np.float64]

STANDS_OUT = 4.0
"""How many standard deviations of its noise a count must have to keep a code of its own."""

MOST_SHARE = 0.5
"""The most that all looks of a fit may take of its budget."""


def open_columns(schema: Schema) -> tuple[Categorical, ...]:
    """Return the columns whose groups are chosen by a fit."""
    return tuple(
        column
        for column in schema.columns
        if isinstance(column, Categorical) and isinstance(column.levels, Levels) and column.levels.open
    )


def _levels(column: Categorical) -> Levels:
    assert isinstance(column.levels, Levels)
    return column.levels


def _tree(column: Categorical) -> Tree:
    assert column.tree is not None
    return column.tree


def shares_of(columns: Sequence[Categorical]) -> list[float]:
    """Return what each look takes of the budget, or refuse when nothing worth having would be left."""
    shares = [float(_levels(column).share) for column in columns]
    if math.fsum(shares) > MOST_SHARE:
        raise BudgetError(
            f"The columns with levels ({', '.join(column.name for column in columns)}) would take {math.fsum(shares):.0%} of the budget to choose "
            f"their groups; at most {MOST_SHARE:.0%} may go there. Write a smaller share in their levels, or fix the groups of some with at. Nothing was "
            "spent."
        )
    return shares


# ----------------------------------------------------------------------------------------
# Planning, from public facts.


def working_schema(schema: Schema) -> Schema:
    """Return a schema with the most groups that a fit may choose: what can be done with it can be done with any choice."""
    columns = open_columns(schema)
    if not columns:
        return schema
    return schema.with_columns(
        replace(column, levels=_levels(column).with_cut(*_largest(schema, column))) for column in columns
    )


def _largest(schema: Schema, column: Categorical) -> tuple[npt.NDArray[np.intp], list[float]]:
    values = len(column.values)
    most = max(_levels(column).most, int(classes_of(schema, column).max()) + 1)
    return np.minimum(np.arange(values), most - 1), [1.0] * values


def on_domain(method: Synthesizer, domain: Domain) -> Synthesizer:
    """Return a mechanism whose workload speaks of a domain with the same columns."""
    given: dict[str, Workload] = {}
    for name in ("workload", "measured"):
        item = getattr(method, name, None)
        if isinstance(item, Workload) and item.domain != domain:
            given[name] = item
    if not given:
        return method
    moved = copy.copy(method)
    for name, item in given.items():
        object.__setattr__(moved, name, Workload(domain, item.cliques, item.weights))
    return moved


def rest_of(budget: Budget, accounting: Accounting, left: float) -> Budget:
    """Return a budget of the same kind that is worth ``left`` in an accounting, as near as plans need it.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import PURE
    >>> rest_of(PureDP(1.0), PURE, 0.9)
    PureDP(epsilon=0.9)
    """
    if isinstance(budget, ApproxDP):
        if accounting.name == "pure":
            return replace(budget, epsilon=left)
        epsilon = (
            gdp_to_approx(math.sqrt(left), budget.delta)
            if accounting.name == "gdp"
            else zcdp_to_approx(left, budget.delta)
        )
        return replace(budget, epsilon=min(epsilon, budget.epsilon))
    if isinstance(budget, PureDP):
        return PureDP(left)
    return ZCDP(left) if isinstance(budget, ZCDP) else GDP(math.sqrt(left))


def planned_looks(
    schema: Schema, *, unit: Unit, accounting: Accounting, total: float
) -> tuple[list[tuple[Categorical, Noise]], float]:
    """Return the noise of each look, and what is left of the total."""
    columns = open_columns(schema)
    shares = shares_of(columns)
    *costs, left = accounting.split(total, [*shares, 1.0 - math.fsum(shares)])
    return [
        (column, noise_for(accounting, unit, cost)) for column, cost in zip(columns, costs, strict=True)
    ], left


# ----------------------------------------------------------------------------------------
# The look.


def measured_levels(curator: Curator) -> Curator:
    """Measure the values of every column with open levels, and return a curator of the table in the groups that follow.

    Parameters
    ----------
    curator
        A curator limited to the budget of the fit. The shares of the columns are taken from what remains of it.

    Returns
    -------
    Curator
        Of the same records, with the same allowance, seen through a schema whose groups are chosen.

    Privacy
    -------
    In: private. Out: releasable groups and weights, and a curator. One look measures the one-way marginals of these columns, charged before
    noise is drawn (:meth:`~understudy.curator.Curator.measure_many`). A person changes each of them as any histogram, by at most
    ``unit.histogram_l1`` and ``unit.histogram_l2``; that they are measured before and not beside the others changes
    nothing. Groups and weights are functions of what was released and of the public schema. The regrouping maps each record by itself
    (:meth:`~understudy.curator.Curator.regrouped`), so neighbours stay neighbours, and what the mechanism asks afterwards composes with the look.
    """
    looks, _ = planned_looks(
        curator.schema, unit=curator.unit, accounting=curator.accounting, total=curator.remaining
    )
    names = ", ".join(column.name for column, _ in looks)
    measured = curator.measure_many(
        curator.counts_many([(column.name,) for column, _ in looks]),
        noise=[noise for _, noise in looks],
        purpose=f"measure the values of {names} to choose their groups",
    )
    schema = chosen_levels(
        curator.schema,
        {
            column.name: (answer.values, math.sqrt(answer.variance))
            for (column, _), answer in zip(looks, measured, strict=True)
        },
    )
    return curator.regrouped(schema)


def chosen_levels(schema: Schema, counts: dict[str, tuple[Array, float]]) -> Schema:
    """Return the schema with groups and weights chosen from noisy counts of values, given with the deviation of their noise.

    Post-processing: a function of released numbers and public facts, the same whenever it is called.
    """
    made = []
    for column in open_columns(schema):
        values, deviation = counts[column.name]
        levels, noisy = _levels(column), np.asarray(values, np.float64)[: len(column.values)]
        cut = groups_of_counts(
            _tree(column).paths, noisy, deviation, most=levels.most, classes=classes_of(schema, column)
        )
        weights = np.ones(len(noisy)) if levels.within == "even" else weights_of_counts(cut, noisy, deviation)
        made.append(replace(column, levels=levels.with_cut(cut, weights)))
    return schema.with_columns(made)


def groups_of_counts(
    paths: Sequence[tuple[str, ...]],
    noisy: Array,
    deviation: float,
    *,
    most: int,
    classes: npt.NDArray[np.intp] | None = None,
) -> npt.NDArray[np.intp]:
    """Choose groups whose noisy counts stand out of their noise.

    All values begin in one group. Parts of it get codes of their own: a group of the schema, or in the end a single value, whose noisy count is at least
    ``STANDS_OUT`` standard deviations (``sqrt(n)`` times that of one value for ``n`` values). Of all such parts the one is taken
    next that divides its surroundings most evenly: a part of ``s`` in ``g`` rows counts ``s (g - s) / g``, half as much with each
    level down. It goes on until there are ``most`` groups or nothing stands out. What is left of a group and does not stand out goes back
    to the next larger one.

    Parameters
    ----------
    paths
        The groups that hold each value, the largest first.
    noisy, deviation
        Released counts of the values, and the deviation of the noise in each.
    most
        The most codes.
    classes
        Values of different classes never share a code: rules tell them apart.

    Examples
    --------
    >>> paths = [("E", "E1")] * 3 + [("I", "I1")] * 2
    >>> groups_of_counts(paths, np.array([900.0, 60, 50, 3, -4]), 10.0, most=9).tolist()
    [0, 1, 2, 3, 3]
    >>> groups_of_counts(paths, np.array([900.0, 60, 50, 3, -4]), 10.0, most=2).tolist()
    [0, 0, 0, 1, 1]
    """
    classes = np.zeros(len(noisy), np.intp) if classes is None else classes
    counts = noisy.tolist()
    tops = [
        _Part(np.flatnonzero(classes == number).tolist(), 0, None) for number in range(int(classes.max()) + 1)
    ]
    parts = list(tops)

    def stands_out(places: list[int]) -> bool:
        return math.fsum(counts[place] for place in places) >= STANDS_OUT * deviation * math.sqrt(len(places))

    while True:
        while len(parts) < most:
            found = max(
                (split for part in parts for split in _splits(part, paths, counts) if stands_out(split[2])),
                key=lambda split: split[0],
                default=None,
            )
            if found is None:
                break
            _, part, inside = found
            taken = set(inside)
            part.places = [place for place in part.places if place not in taken]
            parts.append(_Part(inside, part.depth + 1, part))
        weak = [part for part in parts if part.above is not None and not stands_out(part.places)]
        if not weak:
            break
        for part in sorted(weak, key=lambda part: -part.depth):
            above = part.above
            while above is not None and above not in parts:
                above = above.above
            assert above is not None
            above.places = sorted([*above.places, *part.places])
            above.depth = min(above.depth, above.first)
            parts.remove(part)
    keys = np.zeros(len(noisy), np.intp)
    for number, part in enumerate(parts):
        keys[part.places] = number
    return numbered(keys.tolist())


@dataclass(eq=False)
class _Part:
    """Values that share a code: what is left of a group of the schema after parts of it were taken out."""

    places: list[int]
    depth: int
    above: _Part | None
    first: int = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.depth


def _splits(
    part: _Part, paths: Sequence[tuple[str, ...]], counts: Sequence[float]
) -> Iterator[tuple[float, _Part, list[int]]]:
    """Yield what could be taken out of a part, with how much it counts."""
    if len(part.places) < 2:
        return
    while True:
        inside: dict[Any, list[int]] = {}
        for place in part.places:
            path = paths[place]
            inside.setdefault(path[: part.depth + 1] if part.depth < len(path) else place, []).append(place)
        if len(inside) > 1:
            break
        part.depth += 1  # the only group at this level is the whole part
    whole = math.fsum(max(counts[place], 0.0) for place in part.places)
    for places in inside.values():
        count = min(max(math.fsum(counts[place] for place in places), 0.0), whole)
        yield count * (whole - count) / max(whole, 1e-300) * 0.5**part.depth, part, places


def weights_of_counts(groups: npt.NDArray[np.intp], noisy: Array, deviation: float) -> Array:
    """Estimate how often each value occurs within its group, from noisy counts.

    The weights of a group are the counts closest to the noisy ones, in the sum of squares, that are not negative and add up to the group's noisy
    sum: all counts are lowered alike, and what would be negative is nothing. Where the sum of a group of ``n`` values is below ``sqrt(n)`` deviations it
    says nothing about its values, and they are equally likely.

    Examples
    --------
    >>> weights_of_counts(np.array([0, 0, 0, 1, 1]), np.array([1000.0, -20, 10, 1, -5]), 10.0).tolist()
    [990.0, 0.0, 0.0, 1.0, 1.0]
    """
    weights = np.ones(len(noisy))
    for group in range(int(groups.max()) + 1):
        places = np.flatnonzero(groups == group)
        total = math.fsum(noisy[places])
        if len(places) > 1 and total >= deviation * math.sqrt(len(places)):
            weights[places] = _with_sum(noisy[places], total)
    return np.array([float(f"{weight:.6g}") for weight in weights])


def _with_sum(noisy: Array, total: float) -> Array:
    """Return the closest numbers that are not negative and add up to a positive total."""
    descending = np.sort(noisy)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(noisy) + 1)
    lowered = excess[np.flatnonzero(descending > excess)[-1]]
    return np.asarray(np.maximum(noisy - lowered, 0.0))


def classes_of(schema: Schema, column: Categorical) -> npt.NDArray[np.intp]:
    """Number the values of a column so that rules treat those with the same number alike.

    Values that decide the same value of another column are alike. A rule that compares the column with another one, or a column that it follows
    from, tells all its values apart.
    """
    apart = np.arange(len(column.values), dtype=np.intp)
    if any(item.target == column.name for item in schema.determines):  # what follows is a value, not a group
        return apart
    marks: list[list[Any]] = []
    for rule in schema.constraints:
        for part in _parts(rule.condition):
            if isinstance(part, OneOf) and part.column == column.name:
                marks.append([place in part.codes for place in apart.tolist()])
            elif isinstance(part, Mapped) and part.source == column.name:
                marks.append(list(part.codes))
            elif isinstance(part, NamedPart) and part.column == column.name:
                marks.append(list(part.numbers))
            elif isinstance(part, Same) and column.name in (part.left, part.right):
                return apart
    marks = [item for item in marks if len(item) == len(column.values)]
    return numbered(list(zip(*marks, strict=True))) if marks else np.zeros(len(column.values), np.intp)


def _parts(condition: Check | None) -> Iterator[Check]:
    if condition is None:
        return
    if isinstance(condition, All | AnyOf):
        for part in condition.parts:
            yield from _parts(part)
    elif isinstance(condition, Not):
        yield from _parts(condition.part)
    else:
        yield cast(Check, condition)
