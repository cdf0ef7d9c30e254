"""From noisy tables of families to conditional distributions. Everything here is post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.engine import BayesianNetwork, Node, Resolution, View
from understudy.errors import ConstraintError
from understudy.inference import History
from understudy.marginals import Measurement
from understudy.mechanisms.networks.network import Family
from understudy.mechanisms.rules import structural_rules
from understudy.schema import Schema

# ----------------------------------------------------------------------------------------
# Noisy tables that share columns, made to agree with each other and to be counts that can exist.
#
# The result is the tuple of tables closest to the noisy ones, in the weights of their noise, among those that
# are non-negative, respect structural zeros, have the same total and agree on every view that two of them
# share. It is found by Dykstra's alternating projections. Everything here is post-processing.
#
# **Agreement.** Two tables share the columns both have, each at the coarser of its two levels. Close these
# shared sets under sharing, and visit them from the coarsest to the finest: at each, replace the sums of
# all tables that hold it by their average with weights 1/variance, spreading the difference evenly over the
# cells that were summed. Tables that agree on a coarser set agree on its average too, so later visits keep what
# earlier ones settled. For tables at one resolution this is the orthogonal projection onto agreeing
# tables; where groups have different sizes the weights use their mean size.

Array = npt.NDArray[np.float64]
Views = tuple[View, ...]

_MAX_SHARED = 2_000
_ROUNDS = 100
_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Noisy counts over views.

    Attributes
    ----------
    views
        The axes, in the order of the domain.
    values
        Noisy counts.
    variance
        Variance of the noise in a cell.
    forbidden
        Cells that cannot hold a record, or ``None``.
    """

    views: Views
    values: Array
    variance: float
    forbidden: npt.NDArray[np.bool_] | None = None


def agreeing_tables(resolution: Resolution, tables: Sequence[NoisyTable], total: float) -> list[Array]:
    """Return non-negative tables with the given total that agree, as close to the noisy ones as can be.

    Stops when the negative and forbidden mass left after the last agreement is below one part in ten
    thousand of the total in every table; the last step makes every table legitimate by itself.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> resolution = Resolution(Domain(("a", "b"), (2, 2)), {})
    >>> one = NoisyTable((("a", 0),), np.array([4.0, 6.0]), 1.0)
    >>> two = NoisyTable((("a", 0), ("b", 0)), np.array([[1.0, 1.0], [4.0, 4.0]]), 1.0)
    >>> [table.round(3).tolist() for table in agreeing_tables(resolution, [one, two], 10.0)]
    [[3.333, 6.667], [[1.667, 1.667], [3.333, 3.333]]]
    """
    meetings = _meetings(resolution, tables)
    values = [np.array(table.values, dtype=np.float64) for table in tables]
    debts = [np.zeros_like(item) for item in values]
    for _ in range(_ROUNDS):
        _agree(resolution, tables, meetings, values, total)
        broken = 0.0
        for i, table in enumerate(tables):
            wanted = values[i] + debts[i]
            legal = _legal(wanted, table.forbidden)
            broken = max(broken, float(np.abs(values[i] - _legal(values[i], table.forbidden)).sum()))
            debts[i] = wanted - legal
            values[i] = legal
        if broken <= _TOLERANCE * total:
            break
    return [_scaled(item, table.forbidden, total) for item, table in zip(values, tables, strict=True)]


def shared_views(all_views: Sequence[Views]) -> list[Views]:
    """Return what tables share, pair by pair, closed under sharing (up to a limit).

    Examples
    --------
    >>> shared_views([(("a", 0), ("b", 0)), (("a", 1), ("c", 0))])
    [(('a', 1),)]
    """
    found: dict[Views, None] = {}
    fresh = list(dict.fromkeys(all_views))
    everything = list(fresh)
    while fresh and len(found) < _MAX_SHARED:
        new: dict[Views, None] = {}
        for one in fresh:
            for other in everything:
                if one is other:
                    continue
                levels = dict(other)
                common = tuple((name, max(level, levels[name])) for name, level in one if name in levels)
                if common and common not in found:
                    new[common] = None
        found.update(new)
        fresh = list(new)
        everything += fresh
    return list(found)


@dataclass(frozen=True, eq=False)
class _Holder:
    """One table at a meeting: which one, its weight, and how many of its cells each shared cell sums."""

    table: int
    weight: float
    sizes: Array


def _meetings(resolution: Resolution, tables: Sequence[NoisyTable]) -> list[tuple[Views, list[_Holder]]]:
    """List the shared sets from the coarsest to the finest, with the tables that hold each."""
    meetings = []
    shared = shared_views([table.views for table in tables])
    for common in sorted(shared, key=lambda item: (resolution.cells(item), len(item))):
        holders = []
        for i, table in enumerate(tables):
            levels = dict(table.views)
            if all(name in levels and levels[name] <= level for name, level in common):
                sizes = resolution.summed(np.ones(table.values.shape), table.views, common)
                holders.append(_Holder(i, 1.0 / (table.variance * float(sizes.mean())), sizes))
        if len(holders) > 1:
            meetings.append((common, holders))
    return meetings


def _agree(
    resolution: Resolution,
    tables: Sequence[NoisyTable],
    meetings: Sequence[tuple[Views, list[_Holder]]],
    values: list[Array],
    total: float,
) -> None:
    """Move tables, in place, to agreement on the total and on every shared set."""
    for item in values:
        item += (total - item.sum()) / item.size
    for common, holders in meetings:
        sums = [resolution.summed(values[h.table], tables[h.table].views, common) for h in holders]
        weight = sum(h.weight for h in holders)
        mean = sum((h.weight / weight) * item for h, item in zip(holders, sums, strict=True))
        for h, item in zip(holders, sums, strict=True):
            values[h.table] += resolution.spread((mean - item) / h.sizes, common, tables[h.table].views)


def _legal(values: Array, forbidden: npt.NDArray[np.bool_] | None) -> Array:
    kept: Array = np.maximum(values, 0.0)
    if forbidden is not None:
        kept[forbidden] = 0.0
    return kept


def _scaled(values: Array, forbidden: npt.NDArray[np.bool_] | None, total: float) -> Array:
    """Scale a table to the total; one without any mass is uniform over what can occur."""
    if not values.any():
        values = np.ones(values.shape) if forbidden is None else (~forbidden).astype(np.float64)
    result: Array = values * (total / float(values.sum()))
    return result


@dataclass(frozen=True, eq=False)
class Learnt:
    """What the private part of PrivBayes releases: a structure, and noisy tables of its families.

    Attributes
    ----------
    families
        Every column with its parents, in an order in which parents come first.
    tables
        The families that were measured.
    released
        Their noisy tables, coarse where parents are.
    rows
        The noisy number of rows, where it was measured.
    """

    resolution: Resolution
    families: list[Family]
    tables: list[Family]
    released: list[Measurement]
    rows: Measurement | None

    def total(self, known: float | None) -> float:
        """Return the number of rows: as known, or else the best linear combination of what was released."""
        if known is not None:
            return known
        items = [*self.released, *([] if self.rows is None else [self.rows])]
        weights = np.array([1.0 / (item.variance * item.values.size) for item in items])
        sums = np.array([float(item.values.sum()) for item in items])
        return max(1.0, float(np.dot(weights, sums) / weights.sum()))

    def plain(self) -> list[Measurement]:
        """Return the measurements of plain columns, which other parts of the library can read."""
        domain = self.resolution.domain
        items = [*([] if self.rows is None else [self.rows]), *self.released]
        return [item for item in items if item.values.shape == domain.shape(item.clique)]

    def history(self) -> History:
        """Say how :meth:`plain` came about: the number of rows first, then all tables at once.

        Which tables those are was chosen before any of their noise was drawn.
        """
        rows = 0 if self.rows is None else 1
        return History(tuple(count for count in (rows, len(self.plain()) - rows) if count))


def network_of(schema: Schema, learnt: Learnt, total: float) -> BayesianNetwork:
    """Turn noisy tables into conditional tables. Post-processing."""
    resolution = learnt.resolution
    tables = [
        NoisyTable(views, item.values, item.variance, forbidden_cells(schema, resolution, views))
        for family, item in zip(learnt.tables, learnt.released, strict=True)
        for views in [family.views(resolution)]
    ]
    agreed = agreeing_tables(resolution, tables, total)
    nodes = []
    for family in learnt.families:
        axes: tuple[View, ...] = (*family.parents, (family.child, 0))
        holder = next(i for i, table in enumerate(tables) if _holds(table.views, axes))
        joint = resolution.summed(agreed[holder], tables[holder].views, axes)
        forbidden = tables[holder].forbidden
        possible = np.ones(joint.shape)
        if forbidden is not None:
            kept = resolution.summed((~forbidden).astype(np.float64), tables[holder].views, axes)
            possible = (kept > 0).astype(np.float64)
        nodes.append(Node(family.child, family.parents, _conditional(joint, possible)))
    return BayesianNetwork(resolution, total, tuple(nodes))


def forbidden_cells(
    schema: Schema, resolution: Resolution, views: Sequence[View]
) -> npt.NDArray[np.bool_] | None:
    """Return the cells of a table in which no record can satisfy the constraints, if there are any."""
    levels = dict(views)
    forbidden: npt.NDArray[np.bool_] = np.zeros(resolution.shape(views), dtype=bool)
    for constraint in structural_rules(schema):
        if set(constraint.columns) <= set(levels):
            coarse = [(name, levels[name]) for name in constraint.columns]
            fine = [(name, 0) for name in constraint.columns]
            allowed = constraint.allowed(schema.domain).astype(np.float64)
            possible = resolution.summed(allowed, fine, coarse) > 0
            forbidden |= ~resolution.spread(possible.astype(np.float64), coarse, views).astype(bool)
    if forbidden.all():
        raise ConstraintError("The constraints leave no possible record.")
    return forbidden if forbidden.any() else None


def _holds(views: Sequence[View], wanted: Sequence[View]) -> bool:
    levels = dict(views)
    return all(name in levels and levels[name] <= level for name, level in wanted)


def _conditional(joint: Array, possible: Array) -> Array:
    """Return the distribution of the last axis for each combination of the others.

    A zero in a noisy table does not mean that a combination cannot occur, and constraints may rule out what
    the noise left over. So one row's worth of mass is added to the table: spread evenly over the parents, and
    within them as the column is distributed overall, itself with one more row spread evenly. Combinations
    of the parents that cannot occur get the column's overall distribution.
    """
    size = joint.shape[-1]
    overall = joint.reshape(-1, size).sum(axis=0) + 1.0 / size
    overall /= overall.sum()
    smooth = (joint + overall * (size / joint.size)) * possible
    filled = np.where(smooth.sum(axis=-1, keepdims=True) > 0, smooth, overall)
    return np.asarray(filled / filled.sum(axis=-1, keepdims=True))
