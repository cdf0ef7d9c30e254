"""Which parents a column may have in a network: generalisations from the schema, and maximal parent sets."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from understudy.engine import Resolution, View
from understudy.schema import Column, Schema

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
