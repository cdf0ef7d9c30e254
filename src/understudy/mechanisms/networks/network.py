"""Learning the structure of a Bayesian network: one column and its parents at a time, each a private choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.curator import Curator, SealedCounts, SealedScalar
from understudy.engine import Resolution, View
from understudy.marginals import in_batches
from understudy.schema import Column, Schema

# ----------------------------------------------------------------------------------------
# Which parents a column may have in a network: generalisations from the schema, and maximal parent sets.

ParentSet = tuple[View, ...]
"""Columns at levels, in the order of the domain."""

_ORDERED = frozenset({"ordinal", "integer", "real", "date"})


def resolution_of(schema: Schema, *, generalise: bool = True) -> Resolution:
    """Build the levels of every column from the order the schema declares.

    Neighbouring values or bins are merged in pairs, again and again, until two groups are left. The
    codes of missing and other entries are never merged with anything; where a column has them, the
    values may shrink to one group. Columns without an order have one level only.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: age, kind: integer, minimum: 0, maximum: 4, missing: true}]")
    >>> [list(map(int, level)) for level in resolution_of(schema).coarser["age"]]
    [[0, 0, 1, 1, 2, 3], [0, 0, 0, 0, 1, 2], [0, 0, 0, 0, 0, 1]]
    """
    coarser = {}
    if generalise:
        for column in schema.columns:
            levels = _levels(column)
            if levels:
                coarser[column.name] = levels
    return Resolution(schema.domain, coarser)


def _levels(column: Column) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the groups of each code at levels 1, 2, ..."""
    if column.kind not in _ORDERED:
        return []
    extras = np.arange(column.size - column.value_count)
    groups, width = column.value_count, 1
    levels = []
    while groups > (1 if len(extras) else 2):
        groups, width = -(-groups // 2), width * 2
        values = np.arange(column.value_count) // width
        levels.append(np.concatenate([values, groups + extras]).astype(np.int64))
    return levels


class TooMany(Exception):
    """There are more parent sets than were asked for (internal)."""


def maximal_parent_sets(
    resolution: Resolution, columns: Sequence[str], cells: int, *, degree: int | None = None, most: int
) -> list[ParentSet]:
    """List the parent sets that cannot be enlarged or refined within limits (Algorithm 6 of PrivBayes).

    A set is feasible if its table has at most ``cells`` cells and it has at most ``degree`` columns. It is
    maximal if no column can be added, at any level, and none can be taken at a finer level.

    The recursion takes one column ``X`` at a time: with ``X`` at level ``i`` the others may have
    ``cells / |X at i|`` cells. A maximal set of the others that is met at a finer level of ``X`` is not
    combined with a coarser one. Its results only grow on the way up, so it stops as soon as a part has
    more than ``most``.

    Raises
    ------
    TooMany
        If there are more than ``most``; no recursion can list them all.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> resolution = Resolution(Domain(("a", "b", "c"), (2, 3, 2)), {})
    >>> maximal_parent_sets(resolution, ["a", "b", "c"], 6, most=10)
    [(('a', 0), ('b', 0)), (('a', 0), ('c', 0)), (('b', 0), ('c', 0))]
    """
    names = sorted(columns, key=resolution.domain.index)
    sizes = [[resolution.size((name, level)) for level in range(resolution.heights(name))] for name in names]
    known: dict[tuple[int, int, int], tuple[ParentSet, ...]] = {}

    def search(first: int, room: int, more: int) -> tuple[ParentSet, ...]:
        if room < 1:
            return ()
        if first == len(names) or more == 0:
            return ((),)
        key = (first, room, more)
        if key not in known:
            used: set[ParentSet] = set()
            found: list[ParentSet] = []
            for level, size in enumerate(sizes[first]):
                for rest in search(first + 1, room // size, more - 1):
                    if rest not in used:
                        used.add(rest)
                        found.append(((names[first], level), *rest))
            found += [rest for rest in search(first + 1, room, more) if rest not in used]
            if len(found) > most:
                raise TooMany
            known[key] = tuple(found)
        return known[key]

    return list(search(0, cells, len(names) if degree is None else degree))


def random_parent_sets(
    resolution: Resolution,
    columns: Sequence[str],
    cells: int,
    *,
    degree: int | None = None,
    most: int,
    generator: np.random.Generator,
) -> list[ParentSet]:
    """Draw different maximal parent sets by a public rule, where there are too many to list.

    Columns are visited in random order and each is taken at a random level that fits. Then the set is made
    maximal: its columns are refined, and others added at the finest level that fits. The generator is
    public, so the draw tells nothing about the records.
    """
    sizes = [
        [resolution.size((name, level)) for level in range(resolution.heights(name))] for name in columns
    ]
    limit = len(columns) if degree is None else degree
    found: dict[ParentSet, None] = {}
    for _ in range(4 * most):
        if len(found) == most or cells < 1:
            break
        order = generator.permutation(len(columns)).tolist()
        chosen: dict[int, int] = {}
        room = cells
        for column in order:
            fitting = [level for level, size in enumerate(sizes[column]) if size <= room]
            if fitting and len(chosen) < limit:
                level = fitting[int(generator.integers(len(fitting)))] if len(fitting) > 1 else fitting[0]
                chosen[column] = level
                room //= sizes[column][level]
        _make_maximal(chosen, sizes, cells, limit, order[::-1])
        found[resolution.canonical((columns[column], level) for column, level in chosen.items())] = None
    return list(found)


def _make_maximal(
    chosen: dict[int, int], sizes: Sequence[Sequence[int]], cells: int, limit: int, order: Sequence[int]
) -> None:
    """Take every column at the finest level that the others leave room for, in the order given."""
    used = math.prod(sizes[column][level] for column, level in chosen.items())
    for column in order:
        if column in chosen:
            used //= sizes[column][chosen[column]]
        elif len(chosen) == limit:
            continue
        for level, size in enumerate(sizes[column]):
            if used * size <= cells:
                chosen[column] = level
                used *= size
                break


SCORES = ("mutual-information", "F", "R", "R-net")

_CELLS_PER_BATCH = 8_000_000


@dataclass(frozen=True)
class Family:
    """A column and the parents it was given."""

    child: str
    parents: ParentSet

    def views(self, resolution: Resolution) -> tuple[View, ...]:
        """Return the axes of the family's table, in the order of the domain."""
        return resolution.canonical([(self.child, 0), *self.parents])


@dataclass(frozen=True)
class Limits:
    """What a family may be; public, or computed from what was released.

    Attributes
    ----------
    cells
        Most cells of the table of a family.
    degree
        Most parents; ``None`` for no limit.
    candidates
        Most candidates of one step, divided equally between the columns that are left.
    seed
        Public seed of the rule that thins them out beyond that.
    noise
        Expected absolute noise in a cell of a measured table, in rows; the score R-net needs it.
    """

    cells: int
    degree: int | None
    candidates: int
    seed: int
    noise: float


Admit = Callable[[Sequence[Family], Sequence[Family]], Sequence[bool]]
"""Given the families so far and the candidates, say which candidates may follow. Public."""


def seal_families(curator: Curator, resolution: Resolution, families: Sequence[Family]) -> list[SealedCounts]:
    """Seal the exact table of every family, at the resolution of its parents."""
    views = [family.views(resolution) for family in families]
    plain = [i for i, item in enumerate(views) if all(level == 0 for _, level in item)]
    coarse = [i for i, item in enumerate(views) if any(level > 0 for _, level in item)]
    sealed: dict[int, SealedCounts] = {}
    if plain:
        counted = curator.counts_many([[name for name, _ in views[i]] for i in plain])
        sealed.update(zip(plain, counted, strict=True))
    if coarse:
        counted = curator.counts_grouped(
            [{view[0]: resolution.labels(view) for view in views[i]} for i in coarse]
        )
        sealed.update(zip(coarse, counted, strict=True))
    return [sealed[i] for i in range(len(families))]


def family_score(sealed: SealedCounts, family: Family, score: str, *, noise: float = 0.0) -> SealedScalar:
    """Return how much the parents tell about the child, in the chosen score; larger is better.

    ``"R"`` is the number of rows that independence would put into wrong cells; ``"R-net"`` takes off how many
    rows the noise of the table will, half its expected L1 norm. That is a public number, so the sensitivity
    is that of R. Without parents there is nothing to tell: dependence and mutual information are zero for
    every table.
    """
    if score == "F":
        return sealed.determination(family.child)
    if not family.parents:
        return SealedScalar(0.0, sensitivity=0.0)
    if score == "mutual-information":
        return sealed.mutual_information([family.child])
    dependence = sealed.dependence([family.child])
    return dependence if score == "R" else dependence.shifted(-0.5 * noise * math.prod(sealed.shape))


def candidates(
    resolution: Resolution, placed: Sequence[str], limits: Limits, generator: np.random.Generator
) -> list[Family]:
    """List every column not yet placed with every maximal set of parents among those that are.

    A column whose own codes leave no room for any parent is a candidate without parents. Where a column has
    too many parent sets, a public random choice of them is considered.
    """
    left = [name for name in resolution.domain.names if name not in set(placed)]
    most = max(1, limits.candidates // max(1, len(left)))
    listed: dict[int, list[ParentSet] | None] = {}
    found: list[Family] = []
    for child in left:
        room = limits.cells // resolution.domain.size(child)
        if room not in listed:
            try:
                listed[room] = maximal_parent_sets(resolution, placed, room, degree=limits.degree, most=most)
            except TooMany:
                listed[room] = None
        sets = listed[room]
        if sets is None:
            sets = random_parent_sets(
                resolution, placed, room, degree=limits.degree, most=most, generator=generator
            )
        found += [Family(child, parents) for parents in sets or [()]]
    return found


def learn_network(
    curator: Curator,
    resolution: Resolution,
    *,
    root: str,
    score: str,
    limits: Limits,
    cost: float,
    admit: Admit | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> list[Family]:
    """Grow a network from a root: each step places the column and parents that depend most on each other.

    Parameters
    ----------
    curator
        Pays for the choices.
    root
        The first column. Public.
    score
        One of ``SCORES``.
    limits
        Which families are considered.
    cost
        What all choices together may cost, in the additive unit of the curator's accounting.
    admit
        A further public condition on candidates. A column of which no candidate is admitted is
        considered without parents.

    Privacy
    -------
    The candidates of a step are a function of the public schema, the limits and the earlier choices. Each
    of at most ``d - 1`` steps is one run of the exponential mechanism at ``cost / (d - 1)``, with the
    largest sensitivity of its scores (:class:`~understudy.curator.SealedCounts` proves them under both
    neighbour relations). A step with one candidate, or whose scores nobody can change, has a public
    outcome and costs nothing. The steps compose adaptively.
    """
    names = resolution.domain.names
    families = [Family(root, ())]
    generator = np.random.default_rng(limits.seed)
    known: dict[Family, SealedScalar] = {}
    steps = len(names) - 1
    shares = curator.accounting.split(cost, [1.0] * steps) if steps else ()
    for step, share in enumerate(shares):
        progress(step / steps)
        offered = candidates(resolution, [family.child for family in families], limits, generator)
        if admit is not None:
            offered = _admitted(offered, admit(families, offered))
        index = 0
        if len(offered) > 1:
            scores = _scored(curator, resolution, offered, score, limits.noise, known)
            if max(item.sensitivity for item in scores) > 0:
                index = curator.choose(
                    scores,
                    epsilon=curator.accounting.selection_epsilon(share),
                    purpose="choose a column and its parents",
                )
        families.append(offered[index])
        known = {family: item for family, item in known.items() if family.child != offered[index].child}
    return families


def _admitted(offered: Sequence[Family], allowed: Sequence[bool]) -> list[Family]:
    """Keep the admitted candidates, and one without parents for every column that has none left."""
    kept = [family for family, fine in zip(offered, allowed, strict=True) if fine]
    served = {family.child for family in kept}
    bare = dict.fromkeys(family.child for family in offered if family.child not in served)
    return kept + [Family(child, ()) for child in bare]


def _scored(
    curator: Curator,
    resolution: Resolution,
    offered: Sequence[Family],
    score: str,
    noise: float,
    known: dict[Family, SealedScalar],
) -> list[SealedScalar]:
    """Score candidates, counting only those that are new; exact tables are dropped batch by batch."""
    new = [family for family in offered if family not in known]
    for batch in in_batches(
        new, lambda family: resolution.cells(family.views(resolution)), most=_CELLS_PER_BATCH
    ):
        for family, sealed in zip(batch, seal_families(curator, resolution, batch), strict=True):
            known[family] = family_score(sealed, family, score, noise=noise)
    return [known[family] for family in offered]


def measured_families(resolution: Resolution, families: Sequence[Family]) -> list[Family]:
    """Leave out families whose table is a sum of another family's table.

    In a network of degree ``k`` without size limits the first ``k + 1`` columns form one clique, so that
    their ``k + 1`` families need one table: ``d - k`` tables in all, as in the paper. If only tables over
    coarse views are left, the root's own table is kept beside them.
    """
    levels = [dict(family.views(resolution)) for family in families]

    def inside(small: dict[str, int], large: dict[str, int]) -> bool:
        return all(name in large and large[name] <= level for name, level in small.items())

    kept = [
        family
        for i, family in enumerate(families)
        if not any(inside(levels[i], levels[j]) for j in range(len(families)) if j != i)
    ]
    if all(
        level > 0 for family in kept for level in [max((level for _, level in family.parents), default=0)]
    ):
        kept.insert(0, families[0])
    return kept
