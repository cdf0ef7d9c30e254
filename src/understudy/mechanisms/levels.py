"""Columns with levels: a paid look at their finest counts chooses the groups that a model is fitted to.

Every mechanism works with groups in the same way. Before it begins, each column whose groups are still open is counted by value, with
noise, for the stated share of the budget. From these noisy counts alone follow the groups: values whose counts stand
out of the noise keep a code of their own, the others are added up to smaller and then larger groups until the sum stands out. The
mechanism then spends the rest on the table of groups. A synthetic record gets its value within its group by the same noisy counts, made
smoother, or evenly.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from understudy.errors import BudgetError
from understudy.marginals import Workload
from understudy.privacy import GDP, ZCDP, Accounting, ApproxDP, Budget, Noise, PureDP, Unit, noise_for
from understudy.privacy.accounting.conversions import gdp_to_approx, zcdp_to_approx
from understudy.schema import Categorical, Domain, Schema
from understudy.schema.columns.levels import Levels, Tree, numbered
from understudy.schema.constraints.conditions import All, AnyOf, Check, Not, OneOf, Same

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
    workload = getattr(method, "workload", None)
    if not isinstance(workload, Workload) or workload.domain == domain:
        return method
    moved = copy.copy(method)
    object.__setattr__(moved, "workload", Workload(domain, workload.cliques, workload.weights))
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

    A value whose count is at least ``STANDS_OUT`` deviations keeps a code of its own. What is left over in a group is added up, smallest
    groups first; if the sum of ``n`` values is at least as many times ``sqrt(n)`` deviations, they share a code, otherwise they are left over to the next
    larger group. What is left over at the end shares the last code. If there are more than ``most`` codes, the threshold
    is raised until there are not.

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
    >>> groups_of_counts(paths, np.array([900.0, 30, 35, 30, 35]), 10.0, most=9).tolist()
    [0, 1, 1, 2, 2]
    """
    classes = np.zeros(len(noisy), np.intp) if classes is None else classes
    least = int(classes.max()) + 1
    factor = STANDS_OUT
    while True:
        keys = _settled(paths, noisy, deviation * factor, classes)
        groups = numbered(keys)
        if groups.max() < max(most, least) or factor > 1e12:
            return groups
        factor *= 1.1


def _settled(
    paths: Sequence[tuple[str, ...]], noisy: Array, threshold: float, classes: npt.NDArray[np.intp]
) -> list[Any]:
    """Return a key for each value; values with the same key share a code."""
    keys: list[Any] = [place if count >= threshold else None for place, count in enumerate(noisy.tolist())]
    for depth in range(max(map(len, paths)), -1, -1):
        waiting: dict[tuple[int, tuple[str, ...]], list[int]] = {}
        for place, key in enumerate(keys):
            if key is None:
                waiting.setdefault((int(classes[place]), paths[place][:depth]), []).append(place)
        for group, places in waiting.items():
            if depth == 0 or math.fsum(noisy[places]) >= threshold * math.sqrt(len(places)):
                for place in places:
                    keys[place] = group
    return keys


def weights_of_counts(groups: npt.NDArray[np.intp], noisy: Array, deviation: float) -> Array:
    """Estimate how often each value occurs within its group, from noisy counts.

    Within a group of ``n`` values that add up to ``n m``, a count is taken to be exponentially distributed with mean ``m`` before it was
    measured. Given its noisy value ``y`` with deviation ``s`` it is then a normal variable of mean ``y - s² / m`` and deviation ``s``, cut off at
    zero, and its expectation is the weight. Large counts stay what they are, counts within the noise shrink towards ``m``, and
    none is negative or nothing.

    Examples
    --------
    >>> weights_of_counts(np.array([0, 0, 0]), np.array([1000.0, -20.0, 10.0]), 10.0).round().tolist()
    [1000.0, 3.0, 14.0]
    """
    totals = np.bincount(groups, weights=noisy)
    sizes = np.bincount(groups)
    mean = np.maximum(totals / sizes, deviation / (8 * np.sqrt(sizes)))[groups]
    centre = noisy - deviation**2 / mean
    z = centre / deviation
    # the mean of a normal variable above zero: centre + s * density / probability, both in logarithms
    expected = centre + deviation * np.exp(-(z**2) / 2 - math.log(2 * math.pi) / 2 - log_ndtr(z))
    far = z < -30  # where the two terms cancel
    expected[far] = -deviation / z[far]
    return np.array([float(f"{weight:.6g}") for weight in np.maximum(expected, 1e-9)])


def classes_of(schema: Schema, column: Categorical) -> npt.NDArray[np.intp]:
    """Number the values of a column so that rules treat those with the same number alike.

    A rule that compares the column with another one tells all values apart.
    """
    sets: list[frozenset[int]] = []
    for rule in schema.constraints:
        for part in _parts(rule.condition):
            if isinstance(part, OneOf) and part.column == column.name:
                sets.append(part.codes)
            elif isinstance(part, Same) and column.name in (part.left, part.right):
                return np.arange(len(column.values), dtype=np.intp)
    return numbered([tuple(place in codes for codes in sets) for place in range(len(column.values))])


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
