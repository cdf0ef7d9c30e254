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
from understudy.schema import Schema
from understudy.synthesizers._agreement import NoisyTable, agreeing_tables
from understudy.synthesizers._network import Family

Array = npt.NDArray[np.float64]


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
    for constraint in schema.constraints:
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
