"""The structure of paper Deniability, section 3.3: parents by CFS merit on symmetrical uncertainty.

Everything here is post-processing of noisy entropies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.engine import Resolution, View
from understudy.errors import BudgetError
from understudy.schema import Date, Domain, Integer, Ordinal, Real, Schema

Key = frozenset[View]
"""Which columns an entropy is about, each at a level."""


def buckets_of(
    schema: Schema, *, at_most: int, groups: Mapping[str, Sequence[int]] | None = None
) -> Resolution:
    """Return the schema's domain with a coarse level for parents.

    Ordered columns with more than ``at_most`` values are cut into that many runs of neighbouring values;
    *other* and *missing* keep groups of their own. ``groups`` overrides this column by column.

    Examples
    --------
    >>> schema = Schema(columns=(Ordinal("a", values=("1", "2", "3", "4")),))
    >>> buckets_of(schema, at_most=2).labels(("a", 1)).tolist()
    [0, 0, 1, 1]
    """
    coarser: dict[str, tuple[npt.NDArray[np.int64], ...]] = {}
    given = dict(groups or {})
    unknown = sorted(set(given) - set(schema.names))
    if unknown:
        raise BudgetError(f"groups names columns that the schema does not have: {', '.join(unknown)}.")
    for column in schema.columns:
        if column.name in given:
            labels = np.unique(np.asarray(given[column.name]), return_inverse=True)[1].astype(np.int64)
            if labels.shape != (column.size,):
                raise BudgetError(
                    f"groups of {column.name!r} must give a group for each of its {column.size} codes."
                )
            if int(labels.max()) + 1 < column.size:
                coarser[column.name] = (labels,)
        elif isinstance(column, Ordinal | Integer | Real | Date) and column.value_count > at_most:
            values = np.arange(column.value_count) * at_most // column.value_count
            extra = at_most + np.arange(column.size - column.value_count)
            coarser[column.name] = (np.concatenate([values, extra]).astype(np.int64),)
    return Resolution(schema.domain, coarser)


def coarse(resolution: Resolution, name: str) -> View:
    """Return the view of a column as a parent."""
    return (name, resolution.heights(name) - 1)


def needed_entropies(resolution: Resolution, *, fine_targets: bool) -> list[Key]:
    """List the entropies that all correlations are made of, each once.

    A target is seen at full resolution (``fine_targets``, as in the paper) or as coarsely as a parent;
    the second needs half as many entropies.
    """
    names = resolution.domain.names
    keys: dict[Key, None] = {}
    for name in names:
        keys[frozenset([coarse(resolution, name)])] = None
    for a, b in combinations(names, 2):
        keys[frozenset([coarse(resolution, a), coarse(resolution, b)])] = None
    if fine_targets:
        for name in names:
            keys[frozenset([(name, 0)])] = None
            for other in names:
                if other != name:
                    keys[frozenset([(name, 0), coarse(resolution, other)])] = None
    return list(keys)


def groups_of(resolution: Resolution, key: Key) -> dict[str, npt.NDArray[np.int64]]:
    """Return the columns of an entropy with the group of each code."""
    return {view[0]: resolution.labels(view) for view in key}


@dataclass(frozen=True, eq=False)
class Correlations:
    """Symmetrical uncertainty ``2 - 2 H(x, y) / (H(x) + H(y))`` from noisy entropies, cut to [0, 1]."""

    resolution: Resolution
    entropies: Mapping[Key, float]

    def between(self, a: View, b: View) -> float:
        """Return the correlation of two views.

        Noise can make the entropies impossible (negative, or a joint one below a single one); what comes
        out is cut to [0, 1], and nothing is learnt from columns whose entropies add up to nothing.
        """
        alone = max(0.0, self.entropies[frozenset([a])]) + max(0.0, self.entropies[frozenset([b])])
        if alone <= 0:
            return 0.0
        return min(1.0, max(0.0, 2 - 2 * self.entropies[frozenset([a, b])] / alone))


def merit(to_target: Sequence[float], among: Sequence[float]) -> float:
    """Return the CFS score of a parent set (equation 4): ``among`` lists each pair of parents once.

    Examples
    --------
    >>> merit([0.5], [])
    0.5
    >>> round(merit([0.5, 0.5], [1.0]), 6)  # a copy of a parent adds nothing
    0.5
    """
    if not to_target:
        return 0.0
    return sum(to_target) / math.sqrt(len(to_target) + 2 * sum(among))


def learn_parents(
    correlations: Correlations,
    *,
    fine_targets: bool,
    affordable: Callable[[str, Sequence[View]], bool],
    least_gain: float,
) -> dict[str, tuple[View, ...]]:
    """Return parents for each column: greedily, over all columns at once, without cycles.

    Each step adds the parent that raises some column's merit most. It stops when no parent that is
    affordable and keeps the graph acyclic raises one by ``least_gain``.
    """
    resolution = correlations.resolution
    names = resolution.domain.names
    chosen: dict[str, list[str]] = {name: [] for name in names}

    def score(target: str, parents: Sequence[str]) -> float:
        view = (target, 0) if fine_targets else coarse(resolution, target)
        views = [coarse(resolution, name) for name in parents]
        return merit(
            [correlations.between(view, other) for other in views],
            [correlations.between(a, b) for a, b in combinations(views, 2)],
        )

    while True:
        best: tuple[float, str, str] | None = None
        for target in names:
            now = score(target, chosen[target])
            for parent in names:
                if parent == target or parent in chosen[target] or _reaches(chosen, parent, target):
                    continue
                wanted = [*chosen[target], parent]
                if not affordable(target, [coarse(resolution, name) for name in wanted]):
                    continue
                gain = score(target, wanted) - now
                if gain > least_gain and (best is None or gain > best[0]):
                    best = (gain, target, parent)
        if best is None:
            break
        chosen[best[1]].append(best[2])
    return {name: tuple(coarse(resolution, parent) for parent in parents) for name, parents in chosen.items()}


def _reaches(parents: Mapping[str, Sequence[str]], start: str, ancestor: str) -> bool:
    """Say whether ``ancestor`` is among the ancestors of ``start``: an edge back would close a cycle."""
    seen, waiting = {start}, [start]
    while waiting:
        for parent in parents[waiting.pop()]:
            if parent == ancestor:
                return True
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return False


def dependency_order(domain: Domain, parents: Mapping[str, Sequence[View]]) -> tuple[str, ...]:
    """Return the columns with parents before children; otherwise in the order of the domain.

    Examples
    --------
    >>> dependency_order(Domain(("a", "b"), (2, 2)), {"a": [("b", 0)], "b": []})
    ('b', 'a')
    """
    done: list[str] = []
    while len(done) < len(domain):
        done.append(
            next(
                name
                for name in domain.names
                if name not in done and all(parent in done for parent, _ in parents[name])
            )
        )
    return tuple(done)
