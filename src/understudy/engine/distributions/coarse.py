"""Columns at several resolutions: public groups of codes, and domains that hold a column more than once.

A *view* is a column at a level: ``("age", 0)`` is the column itself, ``("age", 2)`` its groups two levels
up. A table over coarse views has fewer cells than one over the columns, so noise hurts it less. Models over
such tables are ordinary graphical models of an *extended* domain, which has one more column for every coarse
view in use, tied to the column it was made from by structural zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.graphical.model import GraphicalModel
from understudy.engine.graphical.targets import Zeros
from understudy.errors import ModelFileError, WorkloadError
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
"""The group of each code (or of each group of a finer level)."""

View = tuple[str, int]
"""A column at a level of its grouping; level 0 is the column itself."""


@dataclass(frozen=True, eq=False)
class Resolution:
    """A domain whose columns can also be seen more coarsely.

    Parameters
    ----------
    domain
        The columns.
    coarser
        For some columns, the group of each code at levels 1, 2, ...; every level merges groups of
        the level before. Public facts.

    Examples
    --------
    >>> resolution = Resolution(Domain(("a", "b"), (4, 2)), {"a": (np.array([0, 0, 1, 1]),)})
    >>> resolution.shape([("a", 1), ("b", 0)])
    (2, 2)
    >>> resolution.extended([("a", 1)]).domain.names
    ('a', 'b', 'a~1')
    """

    domain: Domain
    coarser: Mapping[str, Sequence[npt.ArrayLike]]

    def __post_init__(self) -> None:
        kept = {}
        for name, levels in self.coarser.items():
            rows = [np.arange(self.domain.size(name)), *(np.asarray(level) for level in levels)]
            for fine, coarse in pairwise(rows):
                if not _merges(fine, coarse):
                    raise WorkloadError(
                        f"Each level of {name!r} must number groups that merge those before it."
                    )
            kept[name] = tuple(np.asarray(row, dtype=np.int64) for row in rows)
        object.__setattr__(self, "coarser", {name: rows[1:] for name, rows in kept.items()})

    def labels(self, view: View) -> Labels:
        """Return the group of each code of the column."""
        name, level = view
        if level == 0:
            return np.arange(self.domain.size(name))
        levels = self.coarser.get(name, ())
        if not 0 < level <= len(levels):
            raise WorkloadError(f"Column {name!r} has no level {level}.")
        return np.asarray(levels[level - 1])

    def heights(self, name: str) -> int:
        """Return how many levels a column has, itself included."""
        return 1 + len(self.coarser.get(name, ()))

    def size(self, view: View) -> int:
        """Return the number of groups of a view."""
        return self.domain.size(view[0]) if view[1] == 0 else int(self.labels(view).max()) + 1

    def shape(self, views: Iterable[View]) -> tuple[int, ...]:
        """Return the number of groups of each view."""
        return tuple(self.size(view) for view in views)

    def cells(self, views: Iterable[View]) -> int:
        """Return the number of cells of a table over some views."""
        return math.prod(self.shape(views))

    def merging(self, name: str, fine: int, coarse: int) -> Labels:
        """Return the group at a coarse level of each group of a finer one."""
        result = np.zeros(self.size((name, fine)), dtype=np.int64)
        result[self.labels((name, fine))] = self.labels((name, coarse))
        return result

    def canonical(self, views: Iterable[View]) -> tuple[View, ...]:
        """Return views in the order of the domain, refusing a column that comes twice."""
        ordered = sorted(views, key=lambda view: self.domain.index(view[0]))
        self.domain.canonical(name for name, _ in ordered)
        return tuple(ordered)

    def summed(self, values: Array, views: Sequence[View], onto: Sequence[View]) -> Array:
        """Sum a table down to coarser views of some of its columns."""
        here = {name: (axis, level) for axis, (name, level) in enumerate(views)}
        kept = [here[name][0] for name, _ in onto]
        result = values.sum(axis=tuple(axis for axis in range(values.ndim) if axis not in kept))
        order = sorted(kept)
        result = result.transpose([order.index(axis) for axis in kept])
        for axis, (name, level) in enumerate(onto):
            if level != here[name][1]:
                result = _merged(result, axis, self.merging(name, here[name][1], level))
        return np.asarray(result)

    def spread(self, values: Array, views: Sequence[View], over: Sequence[View]) -> Array:
        """Repeat a table over coarse views along the axes of a finer table, ready to broadcast."""
        place = {name: (axis, level) for axis, (name, level) in enumerate(views)}
        result = values
        for name, level in over:
            if name in place and place[name][1] != level:
                axis, coarse = place[name]
                result = result.take(self.merging(name, level, coarse), axis=axis)
        kept = [place[name][0] for name, _ in over if name in place]
        result = result.transpose(kept)
        sizes = iter(result.shape)
        return result.reshape([next(sizes) if name in place else 1 for name, _ in over])

    def extended(self, views: Iterable[View]) -> Extended:
        """Return the domain with one more column for every coarse view."""
        return Extended(self, tuple(dict.fromkeys(view for view in sorted(views) if view[1] > 0)))


@dataclass(frozen=True, eq=False)
class Extended:
    """A domain with columns for coarse views, and the structural zeros that tie them to their columns."""

    resolution: Resolution
    views: tuple[View, ...]

    @cached_property
    def names(self) -> dict[View, str]:
        """Name of the column of each coarse view; no name of the domain is used twice."""
        taken = set(self.resolution.domain.names)
        found: dict[View, str] = {}
        for name, level in self.views:
            candidate = f"{name}~{level}"
            while candidate in taken:
                candidate += "~"
            taken.add(candidate)
            found[(name, level)] = candidate
        return found

    @cached_property
    def domain(self) -> Domain:
        """The columns, then the coarse views."""
        base = self.resolution.domain
        return Domain(
            (*base.names, *(self.names[view] for view in self.views)),
            (*base.sizes, *self.resolution.shape(self.views)),
        )

    def clique(self, views: Iterable[View]) -> Clique:
        """Return the columns of some views, in the order of the extended domain."""
        return self.domain.canonical(self.column(view) for view in views)

    def column(self, view: View) -> str:
        """Return the column of one view."""
        return view[0] if view[1] == 0 else self.names[view]

    def table(self, views: Sequence[View], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Reorder the axes of a table over views to those of its clique."""
        places = [self.domain.index(self.column(view)) for view in views]
        return values.transpose(np.argsort(places)) if len(places) > 1 else values

    @cached_property
    def links(self) -> list[Zeros]:
        """For every coarse view, the combinations of code and group that can occur."""
        links: list[Zeros] = []
        for view in self.views:
            labels = self.resolution.labels(view)
            links.append(((view[0], self.names[view]), labels[:, None] == np.arange(labels.max() + 1)))
        return links


@dataclass(frozen=True, eq=False)
class CoarseModel:
    """A graphical model of columns and their coarse views, seen through the columns alone.

    Parameters
    ----------
    resolution
        The columns and their levels.
    views
        The coarse views that the inner model has columns for.
    inner
        A model over ``resolution.extended(views).domain``.
    """

    resolution: Resolution
    views: tuple[View, ...]
    inner: GraphicalModel
    kind: str = "coarse-views"

    @property
    def domain(self) -> Domain:
        """The columns."""
        return self.resolution.domain

    @property
    def total(self) -> float:
        """Expected number of rows."""
        return self.inner.total

    def marginals(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return expected counts over each clique."""
        return self.inner.marginals(cliques)

    def sample_codes(self, n: int, generator: np.random.Generator) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Draw records by randomised rounding along the tree, and leave the coarse views out."""
        return self._without_views(self.inner.sample_codes(n, generator))

    def _without_views(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.unsignedinteger[Any]]:
        narrow = codes[:, : len(self.domain)].astype(np.min_scalar_type(max(self.domain.sizes) - 1))
        return np.ascontiguousarray(narrow)

    def restricted(self, columns: Clique, allowed: npt.NDArray[np.bool_]) -> CoarseModel | None:
        """Return the distribution of records whose codes in some columns are allowed."""
        inner = self.inner.restricted(columns, allowed)
        return None if inner is None else CoarseModel(self.resolution, self.views, inner)

    def sample_given(
        self, columns: Clique, codes: npt.NDArray[np.integer[Any]], generator: np.random.Generator
    ) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.bool_]] | None:
        """Draw one record for each row of codes of some columns, and say which rows can occur."""
        drawn = self.inner.sample_given(columns, codes, generator)
        return None if drawn is None else (self._without_views(drawn[0]), drawn[1])

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of the model file."""
        meta, arrays = self.inner.to_arrays()
        levels, groups = levels_to_arrays(self.resolution, self.views)
        return {"inner": meta, "levels": levels, "views": [list(view) for view in self.views]}, {
            **arrays,
            **groups,
        }

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> CoarseModel:
        """Rebuild from the description and arrays of a model file."""
        try:
            resolution = levels_from_arrays(domain, meta["levels"], arrays)
            views = tuple((str(name), int(level)) for name, level in meta["views"])
            extended = resolution.extended(views)
            inner = GraphicalModel.from_arrays(extended.domain, meta["inner"], arrays)
            return cls(resolution, extended.views, inner)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"The model file is incomplete or damaged: {error}.") from None


def levels_to_arrays(
    resolution: Resolution, views: Iterable[View]
) -> tuple[dict[str, int], dict[str, npt.NDArray[Any]]]:
    """Return how many levels each column needs for some views, and their groups."""
    needed: dict[str, int] = {}
    for name, level in views:
        if level > 0:
            needed[name] = max(level, needed.get(name, 0))
    arrays = {
        f"level-{resolution.domain.index(name)}-{level}": resolution.labels((name, level))
        for name, height in needed.items()
        for level in range(1, height + 1)
    }
    return needed, arrays


def levels_from_arrays(
    domain: Domain, levels: Mapping[str, int], arrays: Mapping[str, npt.NDArray[Any]]
) -> Resolution:
    """Rebuild the levels that :func:`levels_to_arrays` described."""
    coarser = {
        name: [arrays[f"level-{domain.index(name)}-{level}"] for level in range(1, int(height) + 1)]
        for name, height in levels.items()
    }
    return Resolution(domain, coarser)


def _merges(fine: npt.NDArray[Any], coarse: npt.NDArray[Any]) -> bool:
    """Say whether a level numbers its groups 0, 1, ... without gaps and splits no group of the one before."""
    if coarse.shape != fine.shape or coarse.dtype.kind not in "iu" or coarse.size == 0:
        return False
    groups = np.unique(coarse)
    if int(groups[0]) != 0 or int(groups[-1]) != len(groups) - 1:
        return False
    return len(np.unique(np.stack([fine, coarse]), axis=1).T) == len(np.unique(fine))


def _merged(values: Array, axis: int, groups: Labels) -> Array:
    """Sum groups of entries along one axis."""
    front = np.moveaxis(values, axis, 0)
    result = np.zeros((int(groups.max()) + 1, *front.shape[1:]))
    np.add.at(result, groups, front)
    return np.moveaxis(result, 0, axis)
