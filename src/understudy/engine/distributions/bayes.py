"""A Bayesian network of encoded columns: conditional tables, sampling and marginals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from understudy.engine.distributions.coarse import (
    CoarseModel,
    Extended,
    Resolution,
    View,
    levels_from_arrays,
    levels_to_arrays,
)
from understudy.engine.distributions.distribution import Simulated
from understudy.engine.graphical.junction import MAX_TREE_CELLS, model_cells
from understudy.engine.graphical.model import GraphicalModel
from understudy.errors import ModelFileError, WorkloadError
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Node:
    """One column of a network: its parents, and its distribution for each combination of their groups.

    Attributes
    ----------
    column
        The column.
    parents
        Columns that come before it, each at a level of its grouping.
    conditional
        Probabilities, one axis per parent and a last one for the column; every row sums to one.
    """

    column: str
    parents: tuple[View, ...]
    conditional: Array

    @property
    def views(self) -> tuple[View, ...]:
        """The axes of the conditional table."""
        return (*self.parents, (self.column, 0))


@dataclass(frozen=True, eq=False)
class BayesianNetwork(Simulated):
    """A distribution of records as a product of conditional tables, one per column.

    Parameters
    ----------
    resolution
        The columns and their coarser levels.
    total
        Expected number of rows.
    nodes
        One per column; parents come before their children.

    Examples
    --------
    >>> nodes = (
    ...     Node("a", (), np.array([0.25, 0.75])),
    ...     Node("b", (("a", 0),), np.array([[1.0, 0.0], [0.5, 0.5]])),
    ... )
    >>> network = BayesianNetwork(Resolution(Domain(("a", "b"), (2, 2)), {}), 8.0, nodes)
    >>> network.marginals([("b",)])[0]
    array([5., 3.])
    """

    simulated_rows: ClassVar[int] = 1 << 20

    resolution: Resolution
    total: float
    nodes: tuple[Node, ...]
    kind: str = "bayesian-network"

    def __post_init__(self) -> None:
        before: set[str] = set()
        checked = []
        for node in self.nodes:
            self.resolution.canonical(node.views)  # refuses unknown columns and columns that come twice
            if node.column in before or not {name for name, _ in node.parents} <= before:
                raise WorkloadError(f"In a network {node.column!r} must come once, and after its parents.")
            before.add(node.column)
            checked.append(Node(node.column, tuple(node.parents), self._checked(node)))
        if before != set(self.domain.names):
            raise WorkloadError("A network needs a node for every column.")
        if not (math.isfinite(self.total) and self.total > 0):
            raise WorkloadError(f"The total ({self.total}) must be positive and finite.")
        object.__setattr__(self, "nodes", tuple(checked))

    def _checked(self, node: Node) -> Array:
        """Return a read-only conditional table whose rows sum to one exactly."""
        table = np.array(node.conditional, dtype=np.float64)
        if table.shape != self.resolution.shape(node.views):
            raise WorkloadError(f"The conditional table of {node.column!r} does not fit its parents.")
        rows = table.sum(axis=-1, keepdims=True)
        if not np.isfinite(table).all() or (table < 0).any() or not np.allclose(rows, 1.0, rtol=0, atol=1e-6):
            raise WorkloadError(
                f"Every row of the conditional table of {node.column!r} must be a distribution."
            )
        table /= rows
        table.flags.writeable = False
        return table

    @property
    def domain(self) -> Domain:
        """The columns."""
        return self.resolution.domain

    @property
    def families(self) -> tuple[Clique, ...]:
        """Every column with its parents."""
        return tuple(self.domain.canonical(name for name, _ in node.views) for node in self.nodes)

    # ------------------------------------------------------------------ drawing

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records, parents before children, by randomised rounding.

        Among the records that agree on the parents of a column, its values are handed out in their
        expected numbers, rounded at random, so the tables of the network are met more closely than by
        independent draws.
        """
        if n < 0:
            raise WorkloadError(f"The number of records ({n}) must not be negative.")
        from understudy.engine.graphical import kernels

        codes = np.zeros((n, len(self.domain)), dtype=np.min_scalar_type(max(1, max(self.domain.sizes) - 1)))
        for node in self.nodes:
            group = np.zeros(n, dtype=np.int64)
            for view in node.parents:
                values = codes[:, self.domain.index(view[0])]
                labels = values if view[1] == 0 else self.resolution.labels(view)[values]
                group = group * self.resolution.size(view) + labels
            conditional = node.conditional.reshape(-1, node.conditional.shape[-1])
            order = kernels.order_by_group(group, generator.permutation(n), len(conditional))
            codes[:, self.domain.index(node.column)] = kernels.distribute(
                conditional, group, order, generator.random(n), True
            )
        return codes

    # ------------------------------------------------------------------ answering

    def marginals(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return expected counts over each clique.

        The network is turned into a graphical model, whose junction tree gives exact answers. Where the
        tree of the whole network is too large (``MAX_TREE_CELLS``), each clique is answered from the
        network of its ancestors, which is exact too. What is still too large is counted on
        ``simulated_rows`` records drawn with a fixed seed, and carries their sampling error.
        """
        wanted = [self.domain.canonical(clique) for clique in cliques]
        if self.exact:
            return self._graph.marginals(wanted)
        found: dict[Clique, Array] = {}
        by_ancestors: dict[Clique, list[Clique]] = {}
        for clique in dict.fromkeys(wanted):
            by_ancestors.setdefault(self._with_ancestors(clique), []).append(clique)
        for columns, questions in by_ancestors.items():
            if not columns:
                answers = [np.array(self.total)] * len(questions)
            elif len(columns) < len(self.domain) and (part := self._part(columns)).exact:
                answers = part._graph.marginals(questions)
            else:
                answers = [self._counted(clique) for clique in questions]
            found.update(zip(questions, answers, strict=True))
        return [found[clique].copy() for clique in wanted]

    @cached_property
    def _extended(self) -> Extended:
        return self.resolution.extended(view for node in self.nodes for view in node.parents)

    @cached_property
    def exact(self) -> bool:
        """Whether the junction tree of the whole network is small enough for exact marginals."""
        extended = self._extended
        cliques = [extended.clique(node.views) for node in self.nodes]
        cliques += [tuple(clique) for clique, _ in extended.links]
        return model_cells(extended.domain, cliques) <= MAX_TREE_CELLS

    @cached_property
    def _graph(self) -> GraphicalModel:
        """The network as a graphical model of the columns and the coarse views in use."""
        extended = self._extended
        potentials: dict[Clique, Array] = {}
        with np.errstate(divide="ignore"):
            factors = [
                (extended.clique(node.views), np.log(extended.table(node.views, node.conditional)))
                for node in self.nodes
            ]
            factors += [
                (tuple(clique), np.log(allowed.astype(np.float64))) for clique, allowed in extended.links
            ]
        for clique, logs in factors:
            potentials[clique] = potentials[clique] + logs if clique in potentials else logs
        return GraphicalModel(extended.domain, self.total, tuple(potentials.items()))

    def _seen(self) -> CoarseModel:
        """The network as a model that can be asked under conditions; only where it is `exact`."""
        return CoarseModel(self.resolution, self._extended.views, self._graph)

    def restricted(self, columns: Clique, allowed: npt.NDArray[np.bool_]) -> CoarseModel | None:
        """Return the distribution of records whose codes in some columns are allowed."""
        return self._seen().restricted(columns, allowed) if self.exact else None

    def sample_given(
        self, columns: Clique, codes: npt.NDArray[np.integer[Any]], generator: np.random.Generator
    ) -> tuple[Codes, npt.NDArray[np.bool_]] | None:
        """Draw one record for each row of codes of some columns, and say which rows can occur."""
        return self._seen().sample_given(columns, codes, generator) if self.exact else None

    def _with_ancestors(self, columns: Iterable[str]) -> Clique:
        """Return some columns with their parents, the parents of those, and so on."""
        needed = set(columns)
        for node in reversed(self.nodes):
            if node.column in needed:
                needed.update(name for name, _ in node.parents)
        return self.domain.canonical(needed)

    def _part(self, columns: Clique) -> BayesianNetwork:
        """Return the network of columns that hold all their parents."""
        coarser = {name: levels for name, levels in self.resolution.coarser.items() if name in columns}
        resolution = Resolution(self.domain.project(columns), coarser)
        return BayesianNetwork(
            resolution, self.total, tuple(node for node in self.nodes if node.column in columns)
        )

    # ------------------------------------------------------------------ files

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of the model file."""
        levels, arrays = levels_to_arrays(self.resolution, self._extended.views)
        for index, node in enumerate(self.nodes):
            arrays[f"conditional-{index}"] = node.conditional
        nodes = [
            {"column": node.column, "parents": [list(view) for view in node.parents]} for node in self.nodes
        ]
        return {"format": FORMAT, "total": self.total, "nodes": nodes, "levels": levels}, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> BayesianNetwork:
        """Rebuild a network from what `to_arrays` returned.

        Raises
        ------
        ModelFileError
            If the format is unknown, or a part is missing or does not fit.
        """
        if meta.get("format") != FORMAT:
            raise ModelFileError(
                f"Unknown network format {meta.get('format')!r}; this version reads {FORMAT}."
            )
        try:
            resolution = levels_from_arrays(domain, meta["levels"], arrays)
            nodes = tuple(
                Node(
                    str(item["column"]),
                    tuple((str(name), int(level)) for name, level in item["parents"]),
                    np.asarray(arrays[f"conditional-{index}"], dtype=np.float64),
                )
                for index, item in enumerate(meta["nodes"])
            )
            return cls(resolution, float(meta["total"]), nodes)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"The model file is incomplete or damaged: {error}.") from None
