"""What record fitting aims at: which marginals, with which targets and weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.schema import Clique, Domain

Array = npt.NDArray[Any]

MAX_CELLS = 48_000_000
"""Cells of all fitted marginals together. A cell of a 3-way marginal takes 7 bytes (L1) or 16 (L2)."""

MAX_CLIQUES = 5_000
"""Number of fitted marginals; the time of a move grows with the number of them that hold a column."""


@dataclass(frozen=True, eq=False)
class Goal:
    """One marginal to fit: any array proportional to the wanted counts, and its sum.

    A goal that was not asked for (a single column kept in place) steers the search but not the error.
    """

    clique: Clique
    columns: tuple[int, ...]
    values: Array
    total: float
    weight: float
    asked: bool = True

    def counts(self, n_rows: int, earlier: Array | None) -> npt.NDArray[np.float64]:
        """Return the wanted counts of ``n_rows`` rows, minus those of earlier chunks."""
        wanted = self.values.ravel() * np.float64(n_rows / self.total)
        return wanted if earlier is None else wanted - earlier


def fitting_cliques(
    domain: Domain, cliques: Sequence[Clique], *, max_cells: int = MAX_CELLS
) -> tuple[Clique, ...]:
    """Return the marginals that record fitting will use, given a limit on cells.

    Every move of a record looks at all marginals of a column. Where more than ``MAX_CLIQUES`` are asked for, as
    with all triples of fifty columns, the widest are replaced by their marginals over one column less, and as many of them as there is room for beside these are kept, spread evenly
    over the columns (:func:`spread_evenly`). Then marginals are kept from the smallest up while they fit. One that does not fit is replaced by its
    marginals over one column less, unless a kept marginal contains them, and so on. Ask this before
    computing targets: a marginal with many more cells than there are records says little that its
    smaller marginals do not.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c"), (10, 20, 500))
    >>> fitting_cliques(domain, [("a", "b", "c")], max_cells=20_000)
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    asked = [clique for clique in dict.fromkeys(map(domain.canonical, cliques)) if clique]
    asked = _fewer(domain, asked)
    kept: set[Clique] = set()
    room, waiting = max_cells, asked
    while waiting:
        dropped = []
        for clique in sorted(waiting, key=domain.cells):
            if domain.cells(clique) <= room:
                room -= domain.cells(clique)
                kept.add(clique)
            else:
                dropped.append(clique)
        covered = {
            part for clique in kept for size in range(len(clique)) for part in combinations(clique, size)
        }
        smaller = dict.fromkeys(part for clique in dropped for part in combinations(clique, len(clique) - 1))
        waiting = [part for part in smaller if part and part not in covered and part not in kept]
    order = {clique: index for index, clique in enumerate(asked)}
    return tuple(sorted(kept, key=lambda clique: (order.get(clique, len(order)), *map(domain.index, clique))))


def _fewer(domain: Domain, cliques: list[Clique]) -> list[Clique]:
    """Replace the widest cliques by their parts until there are at most ``MAX_CLIQUES``, or single columns; fill up with cliques of the width that was too much."""
    while len(cliques) > MAX_CLIQUES:
        width = max(map(len, cliques))
        if width == 1:
            break
        wide = [clique for clique in cliques if len(clique) == width]
        narrow = [clique for clique in cliques if len(clique) < width]
        parts = (part for clique in wide for part in combinations(clique, width - 1))
        cliques = list(dict.fromkeys([*narrow, *parts]))
        if len(cliques) < MAX_CLIQUES:
            return [*cliques, *spread_evenly(domain, wide, MAX_CLIQUES - len(cliques))]
    return cliques


def spread_evenly(domain: Domain, cliques: Sequence[Clique], number: int) -> list[Clique]:
    """Return so many of the cliques, so that every column, and every pair of columns, is in about as many as any other.

    Cliques are taken by the sum of the positions of their columns, modulo the number of columns: of all triples of ``d`` columns, those of one sum hold every pair of columns at most
    once. A choice of small ones, or of those that come first, would say nothing of most columns.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c", "d"), (2, 2, 2, 2))
    >>> spread_evenly(domain, list(combinations(domain.names, 2)), 3)
    [('a', 'b'), ('b', 'd'), ('c', 'd')]
    """
    position = {name: place for place, name in enumerate(domain.names)}
    turn = [sum(position[name] for name in clique) % len(domain) for clique in cliques]
    chosen = sorted(range(len(cliques)), key=turn.__getitem__)[:number]
    return [cliques[place] for place in sorted(chosen)]


def set_goals(
    domain: Domain,
    cliques: Sequence[Clique],
    targets: Sequence[npt.ArrayLike],
    weights: Sequence[float] | None,
    keep_columns: bool,
    max_cells: int,
) -> list[Goal]:
    """Check the targets, drop those without weight, replace those that are too large, add single columns."""
    if len(cliques) != len(targets):
        raise WorkloadError(f"Need one target per clique; got {len(targets)} for {len(cliques)} cliques.")
    if weights is not None and len(weights) != len(cliques):
        raise WorkloadError(f"Need one weight per clique; got {len(weights)} for {len(cliques)} cliques.")
    if len(set(map(frozenset, cliques))) != len(cliques):
        raise WorkloadError("Record fitting names each clique once; add the weights of repeated ones.")
    given: dict[Clique, tuple[npt.NDArray[Any], float]] = {}
    for index, (clique, target) in enumerate(zip(cliques, targets, strict=True)):
        key, shape, values = domain.canonical(clique), domain.shape(clique), np.asarray(target)
        weight = 1.0 if weights is None else float(weights[index])
        if not (math.isfinite(weight) and weight >= 0):
            raise WorkloadError(f"The weight of {key} ({weight}) must be finite and not negative.")
        if values.shape not in (shape, (math.prod(shape),)):
            raise WorkloadError(f"The target of {tuple(clique)} has shape {values.shape}; expected {shape}.")
        if key and weight > 0:
            axes = sorted(range(len(clique)), key=lambda axis: domain.index(clique[axis]))
            given[key] = (values.reshape(shape).transpose(axes), weight)
    fitted = fitting_cliques(domain, list(given), max_cells=max_cells)
    involved = domain.canonical({name for clique in given for name in clique}) if keep_columns else ()
    columns = tuple((name,) for name in involved if (name,) not in fitted)
    average = sum(weight for _, weight in given.values()) / max(1, len(given))
    for part, parents in _parents(domain, {*fitted, *columns} - given.keys(), list(given)).items():
        gone = tuple(axis for axis, name in enumerate(parents[0]) if name not in part)
        values = given[parents[0]][0].sum(axis=gone, dtype=np.float64)
        weight = average if part in columns else max(given[parent][1] for parent in parents)
        given[part] = (values, weight)
    goals = []
    for clique in (*fitted, *columns):
        values, weight = given[clique]
        total = float(values.sum(dtype=np.float64))
        if not (math.isfinite(total) and total > 0):
            raise WorkloadError(f"The target of {clique} must have a positive, finite total; it has {total}.")
        where = tuple(domain.index(name) for name in clique)
        goals.append(Goal(clique, where, values, total, weight, asked=clique not in columns))
    return goals


def _parents(domain: Domain, parts: set[Clique], cliques: Iterable[Clique]) -> dict[Clique, list[Clique]]:
    """Return, for each part, the cliques that contain it, the smallest first."""
    parents: dict[Clique, list[Clique]] = {}
    if parts:
        for clique in sorted(cliques, key=domain.cells):
            for size in range(1, len(clique)):
                for part in combinations(clique, size):
                    if part in parts:
                        parents.setdefault(part, []).append(clique)
    return parents
