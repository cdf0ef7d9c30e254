"""PrivSyn's own way from noisy marginals to records: consistency, and the gradual update of records.

Post-processing of released measurements only; the seed is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine import project_to_simplex
from understudy.marginals import Measurement
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger[Any]]


def make_consistent(
    domain: Domain, measurements: Sequence[Measurement], total: float, *, rounds: int = 20
) -> list[tuple[Clique, Array]]:
    """Make noisy marginals agree on what they share, and free them of negative counts (PrivSyn, section 3.4).

    For each set of columns that several marginals share, smaller sets first, each marginal says what the counts over the
    set are; these are averaged with weights ``1 / (cells summed up times the variance of a cell)``, which minimises
    the variance of the average, and each marginal is shifted, equally in the cells that were summed up, to what was
    found. Negative counts are then removed ("Norm-Sub": the projection on the simplex). Either step undoes a little of the
    other; they alternate.
    Repeated measurements of one clique are averaged first.

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> noisy = [
    ...     Measurement(("a",), np.array([4.0, 6.0]), "gaussian", 1.0),
    ...     Measurement(("a", "b"), np.array([[3.0, 3.0], [2.0, 2.0]]), "gaussian", 1.0),
    ... ]
    >>> tables = make_consistent(domain, noisy, 10.0)
    >>> tables[0][1].round(3), tables[1][1].sum(axis=1).round(3)
    (array([4.667, 5.333]), array([4.667, 5.333]))
    """
    tables, variances = _averaged(measurements)
    cliques = list(tables)
    shared = {
        tuple(sorted(set(one) & set(two), key=domain.index)) for one, two in combinations(cliques, 2)
    } | {()}
    order = sorted(shared, key=lambda part: (len(part), [domain.index(name) for name in part]))
    for _ in range(rounds):
        for part in order:
            _agree(domain, tables, variances, part, total)
        moved = 0.0
        for clique in cliques:
            cut = project_to_simplex(tables[clique], total)
            moved = max(moved, float(np.abs(cut - tables[clique]).sum()))
            tables[clique] = cut
        if moved <= 1e-6 * total:
            break
    return [(clique, tables[clique]) for clique in cliques]


def _averaged(measurements: Sequence[Measurement]) -> tuple[dict[Clique, Array], dict[Clique, float]]:
    """Return one table and one variance per measured clique."""
    sums: dict[Clique, Array] = {}
    weights: dict[Clique, float] = {}
    for item in measurements:
        if item.clique:
            weight = 1.0 / item.variance
            sums[item.clique] = sums.get(item.clique, np.zeros(item.values.shape)) + weight * item.values
            weights[item.clique] = weights.get(item.clique, 0.0) + weight
    return (
        {clique: values / weights[clique] for clique, values in sums.items()},
        {clique: 1.0 / weight for clique, weight in weights.items()},
    )


def _agree(
    domain: Domain, tables: dict[Clique, Array], variances: dict[Clique, float], part: Clique, total: float
) -> None:
    """Shift every table that contains ``part`` to the weighted average of what they say about it."""
    inside = [clique for clique in tables if set(part) <= set(clique)]
    if not inside or (part and len(inside) < 2):
        return
    axes = {clique: tuple(i for i, name in enumerate(clique) if name not in part) for clique in inside}
    spread = {clique: domain.cells(clique) / domain.cells(part) for clique in inside}
    said = {clique: tables[clique].sum(axis=axes[clique]) for clique in inside}
    if part:
        weights = {clique: 1.0 / (spread[clique] * variances[clique]) for clique in inside}
        mean = sum(weights[clique] * said[clique] for clique in inside) / sum(weights.values())
    else:
        mean = np.array(total)
    for clique in inside:
        shift = np.expand_dims((mean - said[clique]) / spread[clique], axes[clique])
        tables[clique] = tables[clique] + shift


@dataclass(frozen=True)
class Updates:
    """How records are updated: the settings of PrivSyn, section 4.

    Attributes
    ----------
    iterations
        Passes over all marginals.
    rate, decay, every
        A pass closes the share ``rate · decay^(pass // every)`` of each cell's gap at most.
    """

    iterations: int = 100
    rate: float = 1.0
    decay: float = 0.84
    every: int = 20

    def at(self, iteration: int) -> float:
        """Return the rate of one pass.

        Examples
        --------
        >>> [round(Updates().at(i), 3) for i in (0, 19, 20, 40)]
        [1.0, 1.0, 0.84, 0.706]
        """
        return self.rate * self.decay ** (iteration // self.every)


def synthesize_records(
    domain: Domain,
    tables: Sequence[tuple[Clique, Array]],
    rows: int,
    updates: Updates,
    generator: np.random.Generator,
) -> Codes:
    """Make records whose marginals approach the tables: GUM, group by group of connected columns.

    Columns that no chain of tables connects are synthesised apart and joined at random ("separate and join").

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> table = np.array([[5.0, 0.0], [0.0, 5.0]])
    >>> made = synthesize_records(domain, [(("a", "b"), table)], 10, Updates(), np.random.default_rng(0))
    >>> bool((made[:, 0] == made[:, 1]).mean() > 0.8)
    True
    """
    codes = np.zeros((rows, len(domain)), dtype=np.min_scalar_type(max(1, max(domain.sizes) - 1)))
    for group in _groups(domain, [clique for clique, _ in tables]):
        inside = [(clique, table) for clique, table in tables if clique and clique[0] in group]
        own = [domain.index(name) for name in group]
        codes[:, own] = generator.permutation(_gum(domain, group, inside, rows, updates, generator), axis=0)
    return codes


def _groups(domain: Domain, cliques: Sequence[Clique]) -> list[list[str]]:
    """Divide the columns into groups that cliques connect."""
    part = {name: index for index, name in enumerate(domain.names)}
    for clique in cliques:
        for name in clique[1:]:
            old, new = part[name], part[clique[0]]
            part = {key: new if value == old else value for key, value in part.items()}
    groups: dict[int, list[str]] = {}
    for name in domain.names:
        groups.setdefault(part[name], []).append(name)
    return list(groups.values())


def _gum(
    domain: Domain,
    names: Sequence[str],
    tables: Sequence[tuple[Clique, Array]],
    rows: int,
    updates: Updates,
    generator: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """Update the records of one group of columns."""
    place = {name: index for index, name in enumerate(names)}
    records = np.zeros((rows, len(names)), dtype=np.int64)
    for name in names:
        column = _column(domain, name, tables)
        records[:, place[name]] = generator.choice(len(column), size=rows, p=column)
    goals = [
        (np.array([place[name] for name in clique]), table.shape, rows * table.ravel() / max(table.sum(), 1e-300))
        for clique, table in tables
        if len(clique) > 1 or len(names) == 1
    ]  # fmt: skip
    for iteration in range(updates.iterations if rows else 0):
        rate = updates.at(iteration)
        for index in generator.permutation(len(goals)):
            columns, shape, goal = goals[index]
            _update(records, columns, shape, goal, rate, generator)
    return records


def _column(domain: Domain, name: str, tables: Sequence[tuple[Clique, Array]]) -> Array:
    """Return the shares of a column's values by the smallest table that has it."""
    having = [item for item in tables if name in item[0]]
    if not having:
        return np.full(domain.size(name), 1.0 / domain.size(name))
    clique, table = min(having, key=lambda item: item[1].size)
    counts = table.sum(axis=tuple(i for i, other in enumerate(clique) if other != name))
    total = counts.sum()
    return np.asarray(counts / total if total > 0 else np.full(len(counts), 1.0 / len(counts)))


def _update(
    records: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    shape: tuple[int, ...],
    goal: Array,
    rate: float,
    generator: np.random.Generator,
) -> None:
    """Move records from cells that have too many to cells that have too few, in place.

    A cell that lacks records gains at most ``rate`` times what it has, or what it lacks if it has none; what is taken away
    is limited to the share of the surplus that is needed. Half of the moved records become copies of a record
    in the cell (which keeps relations to other columns), the others keep their other columns.
    """
    cell = np.ravel_multi_index(tuple(records[:, column] for column in columns), shape)
    have = np.bincount(cell, minlength=math.prod(shape))
    lack = np.maximum(goal - have, 0.0)
    surplus = np.maximum(have - goal, 0.0)
    gain = _rounded(np.minimum(lack, np.where(have > 0, rate * have, rate * lack)), generator)
    most = int(_rounded(surplus, generator).sum())
    moved = min(int(gain.sum()), most)
    if moved == 0:
        return
    over = np.flatnonzero(surplus[cell] > 0)
    chance = surplus[cell[over]] / have[cell[over]]
    leaving = over[np.argsort(generator.exponential(size=len(over)) / chance)[:moved]]
    joining = generator.permutation(np.repeat(np.arange(len(gain)), gain))[: len(leaving)]
    leaving = leaving[: len(joining)]
    order = np.argsort(cell, kind="stable")
    start = np.cumsum(have) - have
    copied = (have[joining] > 0) & (generator.random(len(joining)) < 0.5)
    among = joining[copied]
    source = order[start[among] + (generator.random(len(among)) * have[among]).astype(np.int64)]
    fresh = records[source].copy()
    values = np.unravel_index(joining[~copied], shape)
    for column, codes in zip(columns, values, strict=True):
        records[leaving[~copied], column] = codes
    records[leaving[copied]] = fresh


def _rounded(values: Array, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Round each number up or down at random, so that it is right on average."""
    low = np.floor(values)
    return np.asarray(low + (generator.random(values.shape) < values - low), dtype=np.int64)
