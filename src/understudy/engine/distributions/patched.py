"""A graphical model with patches: tables of a few columns that it does not hold, and that its answers are brought to agree with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.graphical.model import GraphicalModel
from understudy.engine.record_fitting.records import Allowed, fit_records
from understudy.errors import ModelFileError
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

FORMAT = 1
_MOST_CELLS = 4_000_000
"""Largest table that is made to put a condition on a patch."""
_SWEEPS = 8
"""How often a table is scaled to each of the smaller ones that it should agree with."""


def rake(table: Array, parts: Sequence[tuple[tuple[int, ...], Array]], *, sweeps: int = _SWEEPS) -> Array:
    """Scale a table until its marginals are those given (iterative proportional fitting).

    What the given marginals leave open stays as it was in the table, as far as that is possible: of all tables that have them, the result is the closest in relative entropy.
    Cells that are zero stay zero. Where the marginals contradict each other the last one given wins.

    Parameters
    ----------
    table
        Counts, not negative.
    parts
        Axes of the table and the wanted sums over all others, axes in ascending order.
    sweeps
        How often each of them is fitted.

    Examples
    --------
    >>> rake(np.ones((2, 2)), [((0,), np.array([3.0, 1.0])), ((1,), np.array([2.0, 2.0]))])
    array([[1.5, 1.5],
           [0.5, 0.5]])
    """
    made = np.array(table, dtype=np.float64)
    for _ in range(sweeps):
        for axes, wanted in parts:
            others = tuple(axis for axis in range(made.ndim) if axis not in axes)
            sums = made.sum(axis=others)
            factor = np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
            made *= np.expand_dims(factor, others)
    return made


@dataclass(frozen=True, eq=False)
class PatchedModel:
    """A graphical model, and tables of two or three columns for what its junction tree has no room for.

    The answer over some columns is that of the graphical model, scaled (`rake`) to agree with every patch over some of these columns, and otherwise
    with its own pairs of columns. Patches have the columns' margins of the graphical model. They need not come from one distribution over all columns: records are
    drawn from the graphical model and moved until their marginals are close to these answers (:mod:`understudy.engine.record_fitting.records`).

    Parameters
    ----------
    domain
        The columns.
    tree
        The graphical model.
    patches
        Columns with their expected counts; the first of several over the same columns counts.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c"), (2, 2, 2))
    >>> tree = GraphicalModel(domain, 8.0)
    >>> model = PatchedModel(domain, tree, ((("a", "b"), np.array([[4.0, 0.0], [0.0, 4.0]])),))
    >>> model.marginals([("a", "b", "c")])[0][:, :, 0].round(6).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """

    domain: Domain
    tree: GraphicalModel
    patches: tuple[tuple[Clique, Array], ...] = ()

    @property
    def kind(self) -> str:
        """Name in the model file."""
        return "patched-tree"

    @property
    def total(self) -> float:
        """Expected number of rows."""
        return self.tree.total

    @cached_property
    def _by_clique(self) -> dict[Clique, Array]:
        return dict(reversed(self.patches))

    def marginals(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return expected counts over each clique."""
        asked = [self.domain.canonical(clique) for clique in cliques]
        return [
            self.patched(clique, table)
            for clique, table in zip(asked, self.tree.marginals(asked), strict=True)
        ]

    def patched(self, clique: Clique, table: Array) -> Array:
        """Return what the patches make of a table of the graphical model over some columns."""
        own = self._by_clique.get(clique)
        if own is not None:
            return own.copy()
        inside = self._inside(clique)
        if not inside:
            return table
        place = {name: axis for axis, name in enumerate(clique)}
        covered = {pair for part in inside for pair in combinations(part, 2)}
        pairs = [pair for pair in combinations(clique, 2) if pair not in covered]
        parts = [(tuple(place[name] for name in pair), self._sums(table, place, pair)) for pair in pairs]
        parts += [(tuple(place[name] for name in part), self._by_clique[part]) for part in inside]
        return rake(table, parts)

    @staticmethod
    def _sums(table: Array, place: Mapping[str, int], clique: Clique) -> Array:
        kept = {place[name] for name in clique}
        return np.asarray(table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in kept)))

    def _inside(self, clique: Clique) -> list[Clique]:
        """Return the patches over some of these columns, small ones first, so that large ones are met best."""
        if 2 ** len(clique) <= len(self._by_clique):
            sizes = range(2, len(clique))
            found = [part for size in sizes for part in combinations(clique, size) if part in self._by_clique]
        else:
            within = set(clique)
            found = sorted(
                (part for part in self._by_clique if within.issuperset(part)),
                key=lambda part: (len(part), part),
            )
        return found

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records from the graphical model, and move them until all pairs of columns and all patches are met."""
        drawn = self.tree.sample_codes(n, generator)
        seed = int(generator.integers(1 << 62))
        if not self.patches or n == 0:
            return drawn
        pairs = list(combinations(self.domain.names, 2))
        larger = [clique for clique in self._by_clique if len(clique) > 2]
        cliques = [self.domain.canonical(clique) for clique in (*pairs, *larger)]
        fitted = fit_records(
            drawn,
            self.domain,
            cliques,
            self.marginals(cliques),
            seed=seed,
            allowed=self._allowed,
            temperature=0.0,
        )
        return fitted.codes

    @cached_property
    def _allowed(self) -> list[Allowed]:
        """Which combinations the graphical model holds possible, where it forbids some."""
        return [
            (clique, potential > -np.inf)
            for clique, potential in self.tree.potentials
            if np.isneginf(potential).any()
        ]

    def restricted(self, columns: Clique, allowed: npt.NDArray[np.bool_]) -> PatchedModel | None:
        """Return the distribution of records whose codes in some columns are allowed, or None where that takes too much memory.

        Every patch becomes what the model says of it among these records: its table with the columns of the condition beside it, of which those that are not allowed
        are left out.
        """
        tree = self.tree.restricted(columns, allowed)
        wider = [self.domain.canonical({*clique, *columns}) for clique in (columns, *self._by_clique)]
        if tree is None or max(map(self.domain.cells, wider)) > _MOST_CELLS:
            return None
        left, *tables = (
            table * np.expand_dims(allowed, tuple(i for i, name in enumerate(clique) if name not in columns))
            for clique, table in zip(wider, self.marginals(wider), strict=True)
        )
        tree = replace(tree, total=float(left.sum()))
        patches = [
            (clique, self._sums(table, {name: axis for axis, name in enumerate(outer)}, clique))
            for clique, outer, table in zip(self._by_clique, wider[1:], tables, strict=True)
        ]
        return PatchedModel(self.domain, tree, tuple(patches))

    def sample_given(
        self, columns: Clique, codes: npt.NDArray[np.integer[Any]], generator: np.random.Generator
    ) -> None:
        """Return None: records for given codes are found by drawing and keeping those that have them."""

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of the model file."""
        meta, arrays = self.tree.to_arrays()
        description = {
            "format": FORMAT,
            "tree": meta,
            "patches": [list(clique) for clique, _ in self.patches],
        }
        return description, {
            **arrays,
            **{f"patch-{index}": table for index, (_, table) in enumerate(self.patches)},
        }

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> PatchedModel:
        """Rebuild from the description and arrays of a model file."""
        if meta.get("format") != FORMAT:
            raise ModelFileError(
                f"Unknown format of a patched model {meta.get('format')!r}; this version reads {FORMAT}."
            )
        try:
            tree = GraphicalModel.from_arrays(domain, meta["tree"], arrays)
            patches = []
            for index, names in enumerate(meta["patches"]):
                clique = domain.canonical(names)
                table = np.asarray(arrays[f"patch-{index}"], dtype=np.float64)
                if table.shape != domain.shape(clique) or not np.isfinite(table).all() or (table < 0).any():
                    raise ModelFileError(
                        f"Patch {index} of the model is no table of counts over {', '.join(clique)}."
                    )
                patches.append((clique, table))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(f"The model file is incomplete or damaged: {error}.") from None
        return cls(domain, tree, tuple(patches))
