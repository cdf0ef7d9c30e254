"""The fitted model: an immutable distribution over the whole domain that answers marginals and draws records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from understudy.engine.graphical.answers import Answers
from understudy.engine.graphical.calibration import Potential, Workspace
from understudy.engine.graphical.factors import BYTES_PER_CELL, Array, Columns, from_mask, sum_to, to_mask
from understudy.engine.graphical.junction import (
    MAX_TREE_CELLS,
    MEGABYTE,
    ColumnOrder,
    JunctionTree,
    build_tree,
    model_cells,
    order_of,
    rooted_at,
)
from understudy.errors import ModelFileError, WorkloadError
from understudy.schema import Clique, Domain

Method = Literal["rounding", "independent"]


def sample_codes(
    model: GraphicalModel, n: int, generator: np.random.Generator, *, method: Method = "rounding"
) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Draw ``n`` records from a model as a matrix of codes, one column per column of the domain.

    Parameters
    ----------
    model
        A fitted model.
    n
        Number of records.
    generator
        Source of randomness; the same generator state gives the same records.
    method
        ``"rounding"`` (default): walk down the tree and, among the records that share the values of a
        separator, hand out each bag's values in their expected numbers, rounded at random. Marginals
        come out closer to the model's than those of independent draws. ``"independent"``: records are
        independent of each other.

    Returns
    -------
    numpy.ndarray
        Shape ``(n, len(domain))``, the smallest unsigned type that holds every code.

    Examples
    --------
    >>> model = GraphicalModel(Domain(("a", "b"), (2, 3)), 1.0)
    >>> codes = sample_codes(model, 6, np.random.default_rng(0))
    >>> np.bincount(codes[:, 1])
    array([2, 2, 2])
    """
    if n < 0:
        raise WorkloadError(f"The number of records ({n}) must not be negative.")
    if method not in ("rounding", "independent"):
        raise WorkloadError(f"No sampling method named {method!r}. Known: rounding, independent.")

    sizes = model.order.sizes
    codes = np.zeros((n, len(sizes)), dtype=np.min_scalar_type(max(1, max(sizes, default=1) - 1)))
    _walk(model.tree, model.tables, model.order, codes, (), generator, rounding=method == "rounding")
    return codes


def sample_given(
    model: GraphicalModel,
    given: Clique,
    values: npt.NDArray[np.integer[Any]],
    generator: np.random.Generator,
) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.bool_]]:
    """Draw a record for each row of codes of some columns, and say which rows can occur.

    The tree is built once more with the given columns in one bag, which becomes the root: from there on every row walks down as
    in :func:`sample_codes`. Rows with equal codes share out the rest in the expected numbers.

    Examples
    --------
    >>> potential = np.log(np.array([[0.5, 0.0], [0.25, 0.25]]), where=[[1, 0], [1, 1]], out=np.full((2, 2), -np.inf))
    >>> model = GraphicalModel(Domain(("a", "b"), (2, 2)), 1.0, ((("a", "b"), potential),))
    >>> codes, possible = sample_given(model, ("b",), np.array([[1], [1]]), np.random.default_rng(0))
    >>> codes.tolist(), possible.tolist()
    ([[1, 1], [1, 1]], [True, True])
    """
    order = model.order
    columns = order.columns(given)
    tree = build_tree(order.sizes, [*(order.columns(clique) for clique in model.cliques), columns])
    tree = rooted_at(tree, tree.home(columns))
    workspace = Workspace(tree, [], model.column_potentials(), model.total)
    workspace.load()
    codes = np.zeros((len(values), len(order.sizes)), dtype=np.min_scalar_type(max(1, max(order.sizes) - 1)))
    for place, name in enumerate(given):
        codes[:, model.domain.index(name)] = values[:, place]
    tables = freeze_tables(workspace)
    possible = _walk(tree, tables, order, codes, columns, generator, rounding=True)
    return codes, possible


def _walk(
    tree: JunctionTree,
    tables: Sequence[Array],
    order: ColumnOrder,
    codes: npt.NDArray[np.unsignedinteger[Any]],
    given: Columns,
    generator: np.random.Generator,
    *,
    rounding: bool,
) -> npt.NDArray[np.bool_]:
    """Fill in the columns that are not given, bag by bag from the root; return which records can occur."""
    from understudy.engine.graphical.kernels import distribute, order_by_group

    n = len(codes)
    possible = np.ones(n, dtype=bool)
    for bag, columns in enumerate(tree.bags):
        known = tree.separators[bag] if bag else given
        fresh = from_mask(to_mask(columns) & ~to_mask(known))
        axes = [columns.index(column) for column in (*known, *fresh)]
        rows = int(np.prod([tree.sizes[column] for column in known], dtype=np.int64))
        conditional = np.ascontiguousarray(tables[bag].transpose(axes)).reshape(rows, -1)
        group = np.zeros(n, dtype=np.int64)
        for column in known:
            group = group * tree.sizes[column] + codes[:, order.ranked[column]]
        if bag == 0 and given:
            possible = conditional.sum(axis=1)[group] > 0
        shuffled = order_by_group(group, generator.permutation(n), rows)
        values = distribute(conditional, group, shuffled, generator.random(n), rounding)
        for column in reversed(fresh):
            codes[:, order.ranked[column]] = values % tree.sizes[column]
            values //= tree.sizes[column]
    return possible


def sample_chunks(
    model: GraphicalModel,
    n: int,
    generator: np.random.Generator,
    *,
    rows: int = 1_000_000,
    method: Method = "rounding",
) -> Iterator[npt.NDArray[np.unsignedinteger[Any]]]:
    """Draw ``n`` records in pieces of at most ``rows``, for tables larger than memory."""
    if rows < 1:
        raise WorkloadError(f"A chunk needs at least one row, not {rows}.")
    for start in range(0, n, rows):
        yield sample_codes(model, min(rows, n - start), generator, method=method)


FORMAT = 1


@dataclass(frozen=True)
class FitInfo:
    """How an estimate ended.

    Attributes
    ----------
    epochs
        Passes over all measurements.
    loss
        Negative log likelihood at the estimate, up to a constant (``sum w/2 |Mp - y|^2`` for squares).
    gap
        Duality gap at the end, in the unit of the loss (see `understudy.engine.graphical.estimation`).
    bound
        A lower bound on the loss of any table whatever; ``loss - bound`` is a certificate.
    tolerance
        The gap at which the estimator stops.
    converged
        Whether the gap was reached before the cap on epochs.
    """

    epochs: int = 0
    loss: float = 0.0
    gap: float = 0.0
    bound: float = 0.0
    tolerance: float = 0.0
    converged: bool = True


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """A distribution of records, as a product of potentials over cliques.

    Models are made by `understudy.engine.estimate`, not by hand. They hold nothing but noisy
    measurements turned into parameters, so everything they answer may be published.

    Parameters
    ----------
    domain
        The columns.
    total
        Expected number of records; marginals are expected counts.
    potentials
        Cliques with log potentials; ``-inf`` marks cells that cannot occur.
    local
        Locally consistent tables, for a model of kind ``"local-consistency"``: cliques that were
        measured but do not fit into a junction tree together. Empty otherwise.
    info
        How the estimate ended.

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 3))
    >>> model = GraphicalModel(domain, 12.0)
    >>> model.marginal(("b",))
    array([4., 4., 4.])
    >>> model.kind
    'junction-tree'
    """

    domain: Domain
    total: float
    potentials: tuple[tuple[Clique, Array], ...] = ()
    local: tuple[tuple[Clique, Array], ...] = ()
    info: FitInfo = field(default_factory=FitInfo)

    @property
    def kind(self) -> str:
        """Either ``"junction-tree"`` (exact) or ``"local-consistency"`` (pseudo-marginals, see ``local``)."""
        return "local-consistency" if self.local else "junction-tree"

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the potentials."""
        return tuple(clique for clique, _ in self.potentials)

    @property
    def order(self) -> ColumnOrder:
        """How the engine numbers the columns (internal)."""
        return order_of(self.domain)

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree the model is calibrated on (internal: column numbers, not names)."""
        return build_tree(self.order.sizes, [self.order.columns(clique) for clique in self.cliques])

    @cached_property
    def size_mb(self) -> float:
        """Size of the calibrated tree in megabytes."""
        return self.tree.cells * BYTES_PER_CELL / MEGABYTE

    @cached_property
    def tables(self) -> tuple[Array, ...]:
        """Expected counts of every bag of the tree, read-only (internal)."""
        workspace = Workspace(self.tree, [], self.column_potentials(), self.total)
        workspace.load()
        return freeze_tables(workspace)

    def column_potentials(self) -> list[Potential]:
        """Return the potentials with column numbers (internal)."""
        return [
            (self.order.columns(clique), self.order.inward(clique, values))
            for clique, values in self.potentials
        ]

    @cached_property
    def _local(self) -> list[tuple[Columns, Array]]:
        return [
            (self.order.columns(clique), self.order.inward(clique, values)) for clique, values in self.local
        ]

    def marginal(self, clique: Iterable[str]) -> Array:
        """Return the expected counts over a clique, axes in the order of the domain."""
        return self.marginals([tuple(clique)])[0]

    def marginals(self, cliques: Sequence[Iterable[str]]) -> list[Array]:
        """Return the expected counts over many cliques, sharing the work between them.

        Parameters
        ----------
        cliques
            Any cliques, also across the tree; column order does not matter.

        Returns
        -------
        list of numpy.ndarray
            One table per clique, axes in the order of the domain, summing to ``total``.
        """
        results: list[Array | None] = [None] * len(cliques)
        for position, table in self.each_marginal(cliques):
            results[position] = table
        return [table for table in results if table is not None]

    def each_marginal(self, cliques: Sequence[Iterable[str]]) -> Iterator[tuple[int, Array]]:
        """Yield ``(position, expected counts)`` for many cliques, one table in memory at a time.

        Same answers as `marginals`, in the order that is cheapest to compute. Use it when the tables
        together would not fit, as for all three-way marginals of a wide table.

        Examples
        --------
        >>> model = GraphicalModel(Domain(("a", "b"), (2, 3)), 12.0)
        >>> sorted((position, table.shape) for position, table in model.each_marginal([("b",), ("a", "b")]))
        [(0, (3,)), (1, (2, 3))]
        """
        places: dict[Columns, list[int]] = {}
        for position, clique in enumerate(cliques):
            places.setdefault(self.order.columns(clique), []).append(position)
        rest = []
        for columns, positions in places.items():
            table = self._from_local(columns) if self.local else None
            if table is None:
                rest.append(columns)
            else:
                yield from ((position, self._own(columns, table)) for position in positions)
        for columns, answer in Answers(self.tree, self.tables, self.total).each(rest):
            yield from ((position, self._own(columns, answer)) for position in places[columns])

    def _own(self, columns: Columns, values: Array) -> Array:
        """Return a table in the order of the domain that the caller may change."""
        result = self.order.outward(columns, values)
        return result.copy() if np.may_share_memory(result, values) else result

    def _from_local(self, columns: Columns) -> Array | None:
        wanted = set(columns)
        holders = [(values.size, outer, values) for outer, values in self._local if wanted <= set(outer)]
        if not holders:
            return None
        _, outer, values = min(holders, key=lambda item: (item[0], item[1]))
        return sum_to(values, outer, columns)

    def sample_codes(self, n: int, generator: np.random.Generator) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Draw records by randomised rounding along the tree (see `understudy.engine.sample_codes`)."""
        from understudy.engine.graphical.model import sample_codes

        return sample_codes(self, n, generator)

    def restricted(self, columns: Clique, allowed: npt.NDArray[np.bool_]) -> GraphicalModel | None:
        """Return the distribution of records whose codes in some columns are allowed: one more potential.

        Tables that are only locally consistent do not outlive a condition: the result is what records are drawn from.
        """
        cliques = [*self.cliques, columns]
        if model_cells(self.domain, cliques) > max(MAX_TREE_CELLS, self.tree.cells):
            return None
        drawn_from = replace(self, local=())
        left = float((drawn_from.marginal(columns) * allowed).sum())
        with np.errstate(divide="ignore"):
            evidence = np.log(allowed.astype(np.float64))
        return replace(drawn_from, total=left, potentials=(*self.potentials, (columns, evidence)))

    def sample_given(
        self, columns: Clique, codes: npt.NDArray[np.integer[Any]], generator: np.random.Generator
    ) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.bool_]] | None:
        """Draw one record for each row of codes of some columns, and say which rows can occur."""
        if model_cells(self.domain, [*self.cliques, columns]) > max(MAX_TREE_CELLS, self.tree.cells):
            return None
        return sample_given(self, columns, codes, generator)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the model as a JSON-able dictionary and named arrays, for a model file.

        Examples
        --------
        >>> model = GraphicalModel(Domain(("a",), (2,)), 3.0, ((("a",), np.array([0.0, 1.0])),))
        >>> meta, arrays = model.to_arrays()
        >>> sorted(arrays)
        ['potential-0']
        >>> GraphicalModel.from_arrays(model.domain, meta, arrays).total
        3.0
        """
        meta = {
            "format": FORMAT,
            "kind": self.kind,
            "total": self.total,
            "potentials": [list(clique) for clique, _ in self.potentials],
            "local": [list(clique) for clique, _ in self.local],
            "fit": {
                "epochs": self.info.epochs,
                "loss": self.info.loss,
                "gap": self.info.gap,
                "bound": self.info.bound,
                "tolerance": self.info.tolerance,
                "converged": self.info.converged,
            },
        }
        arrays = {f"potential-{i}": values for i, (_, values) in enumerate(self.potentials)}
        arrays.update({f"local-{i}": values for i, (_, values) in enumerate(self.local)})
        return meta, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> GraphicalModel:
        """Rebuild a model from what `to_arrays` returned.

        Raises
        ------
        ModelFileError
            If the format is unknown or a part is missing or has the wrong shape.
        """
        if meta.get("format") != FORMAT:
            raise ModelFileError(
                f"Unknown engine format {meta.get('format')!r}; this version reads {FORMAT}."
            )
        try:
            tables = []
            for group, prefix in (("potentials", "potential"), ("local", "local")):
                items = []
                for i, names in enumerate(meta[group]):
                    clique = domain.canonical(names)
                    values = np.asarray(arrays[f"{prefix}-{i}"], dtype=np.float64)
                    if values.shape != domain.shape(clique):
                        raise ModelFileError(
                            f"Part {prefix}-{i} of the model does not have the shape of {clique}."
                        )
                    if np.isnan(values).any() or np.isposinf(values).any():
                        raise ModelFileError(
                            f"Part {prefix}-{i} of the model holds values that are not numbers."
                        )
                    items.append((clique, values))
                tables.append(tuple(items))
            total = float(meta["total"])
            if not (math.isfinite(total) and total > 0):
                raise ModelFileError(f"The total of the model ({total}) must be positive.")
            return cls(domain, total, tables[0], tables[1], FitInfo(**meta["fit"]))
        except (KeyError, TypeError, WorkloadError) as error:
            raise ModelFileError(f"The model file is incomplete or damaged: {error}.") from None


def freeze_tables(workspace: Workspace) -> tuple[Array, ...]:
    """Return read-only views of the bags of a workspace."""
    workspace.cells.flags.writeable = False
    return tuple(workspace.bag(bag) for bag in range(len(workspace.tree.bags)))


def named(domain: Domain, potentials: Iterable[Potential]) -> tuple[tuple[Clique, Array], ...]:
    """Give tables over column numbers their names back, as read-only copies."""
    order = order_of(domain)
    result = []
    for columns, values in potentials:
        copy = np.array(order.outward(columns, values))
        copy.flags.writeable = False
        result.append((order.clique(columns), copy))
    return tuple(result)
