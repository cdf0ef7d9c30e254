"""A Gaussian copula of encoded columns, with margins of its own in each part of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.distributions.dense import systematic_counts
from understudy.engine.distributions.distribution import Simulated
from understudy.errors import ModelFileError, WorkloadError
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

FORMAT = 1
"""Records drawn to answer marginals of two or more columns of the copula."""


@dataclass(frozen=True)
class Latent:
    """One dimension of the copula: the values of a column, or which of its extra codes it has.

    Attributes
    ----------
    column
        The column.
    role
        ``"value"``: where among the ordinary codes the entry lies, if it has one of them. ``"state"``: whether
        it has an ordinary code, or one of the codes of other and missing entries.
    """

    column: str
    role: str


@dataclass(frozen=True, eq=False)
class GaussianCopula(Simulated):
    """Parts of a table, margins of the other columns in each part, and a Gaussian copula between them.

    Parameters
    ----------
    domain
        All columns.
    partition
        The columns whose combinations of codes are the parts; the others belong to the copula.
    parts
        Expected number of rows of each part, flattened in the order of the domain.
    latents
        The dimensions of the copula, in any order: one ``"value"`` per column of the copula, and one ``"state"``
        for each of them that has extra codes.
    values
        Number of ordinary codes of each column of the copula; the codes after them are extra.
    margins
        Probabilities of the codes of each column of the copula, of shape (parts, codes).
    correlations
        Correlation matrices of the dimensions, of shape (parts, d, d), or (1, d, d) for one that all parts share.

    Examples
    --------
    >>> copula = GaussianCopula(
    ...     Domain(("x", "y"), (2, 2)), (), np.array([8.0]), (Latent("x", "value"), Latent("y", "value")),
    ...     {"x": 2, "y": 2}, {"x": np.array([[0.5, 0.5]]), "y": np.array([[0.25, 0.75]])},
    ...     np.array([[[1.0, 0.9], [0.9, 1.0]]]),
    ... )
    >>> copula.marginals([("y",)])[0]
    array([2., 6.])
    """

    domain: Domain
    partition: Clique
    parts: Array
    latents: tuple[Latent, ...]
    values: Mapping[str, int]
    margins: Mapping[str, Array]
    correlations: Array
    kind: str = "gaussian-copula"

    def __post_init__(self) -> None:
        partition = self.domain.canonical(self.partition)
        others = tuple(name for name in self.domain.names if name not in partition)
        parts = _frozen(self.parts)
        cells = self.domain.cells(partition) if partition else 1
        if (
            parts.shape != (cells,)
            or not np.isfinite(parts).all()
            or (parts < 0).any()
            or not parts.sum() > 0
        ):
            raise WorkloadError("A copula needs an expected count, not negative, for each of its parts.")
        margins = {}
        for name in others:
            margin = np.array(self.margins[name], dtype=np.float64)
            rows = margin.sum(axis=-1, keepdims=True)
            if margin.shape != (cells, self.domain.size(name)) or (margin < 0).any() or not (rows > 0).all():
                raise WorkloadError(f"The margins of {name!r} do not fit the parts of the copula.")
            if not 1 <= self.values[name] <= self.domain.size(name):
                raise WorkloadError(f"The number of ordinary codes of {name!r} does not fit its size.")
            margins[name] = _frozen(margin / rows)
        wanted = {Latent(name, "value") for name in others}
        wanted |= {Latent(name, "state") for name in others if self.values[name] < self.domain.size(name)}
        if set(self.latents) != wanted or len(self.latents) != len(wanted):
            raise WorkloadError("The dimensions of a copula must be those of its columns.")
        matrices = _frozen(self.correlations)
        d = len(self.latents)
        if matrices.shape not in {(1, d, d), (cells, d, d)} or not np.isfinite(matrices).all():
            raise WorkloadError("A copula needs one correlation matrix, or one for each part.")
        object.__setattr__(self, "partition", partition)
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "margins", margins)
        object.__setattr__(self, "values", {name: int(self.values[name]) for name in others})
        object.__setattr__(self, "correlations", matrices)
        _ = self._roots  # refuses matrices that are not positive definite

    @property
    def total(self) -> float:
        """Expected number of rows."""
        return float(self.parts.sum())

    @cached_property
    def _roots(self) -> Array:
        """Lower-triangular roots of the correlation matrices."""
        if not self.latents:
            return np.zeros((1, 0, 0))
        try:
            return np.asarray(np.linalg.cholesky(self.correlations))
        except np.linalg.LinAlgError:
            raise WorkloadError("The correlations of a copula must be positive definite.") from None

    # ------------------------------------------------------------------ drawing

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records: parts by randomised rounding, then correlated normal numbers turned into codes.

        Within a part the normal numbers of each dimension are replaced by evenly spread ones of the same ranks,
        so that the margins of the drawn records are those of the model up to one record per code.
        """
        if n < 0:
            raise WorkloadError(f"The number of records ({n}) must not be negative.")
        codes = np.zeros((n, len(self.domain)), dtype=np.min_scalar_type(max(1, max(self.domain.sizes) - 1)))
        counts = systematic_counts(self.parts, n, generator)
        start = 0
        shape = self.domain.shape(self.partition)
        for part in np.flatnonzero(counts):
            rows = slice(start, start + int(counts[part]))
            start = rows.stop
            if self.partition:
                for name, code in zip(self.partition, np.unravel_index(part, shape), strict=True):
                    codes[rows, self.domain.index(name)] = code
            self._fill(codes[rows], int(part), generator)
        generator.shuffle(codes, axis=0)
        return codes

    def _fill(self, codes: Codes, part: int, generator: np.random.Generator) -> None:
        """Draw the columns of the copula for the records of one part."""
        n = len(codes)
        root = self._roots[part if len(self._roots) > 1 else 0]
        normal = generator.standard_normal((n, len(self.latents))) @ root.T
        spread = {}
        for place, latent in enumerate(self.latents):
            ranks = np.empty(n)
            ranks[np.argsort(normal[:, place])] = np.arange(n)
            spread[latent] = (ranks + generator.random(n)) / n
        for name, values in self.values.items():
            margin = self.margins[name][part]
            inside = _inverse(margin[:values], spread[Latent(name, "value")])
            if values < len(margin):
                state = np.concatenate([[margin[:values].sum()], margin[values:]])
                extra = _inverse(state, spread[Latent(name, "state")])
                inside = np.where(extra == 0, inside, values + extra - 1)
            codes[:, self.domain.index(name)] = inside

    # ------------------------------------------------------------------ answering

    def marginals(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return expected counts over each clique.

        Exact for columns of the partition with at most one column of the copula. Others are counted on
        ``simulated_rows`` records drawn with a fixed seed, and carry their sampling error.
        """
        answers = []
        for clique in cliques:
            wanted = self.domain.canonical(clique)
            inside = [name for name in wanted if name not in self.partition]
            answers.append(self._counted(wanted) if len(inside) > 1 else self._exact(wanted, inside))
        return answers

    def _exact(self, clique: Clique, inside: list[str]) -> Array:
        """Sum the parts, divided among the codes of one column of the copula if there is one."""
        shape = self.domain.shape(self.partition)
        table = self.parts.reshape(shape)
        names = [*self.partition, *inside]
        if inside:
            table = (self.parts[:, None] * self.margins[inside[0]]).reshape(*shape, -1)
        keep = [names.index(name) for name in clique]
        summed = table.sum(axis=tuple(i for i in range(len(names)) if i not in keep))
        left = [name for name in names if name in clique]
        return np.asarray(np.transpose(summed, [left.index(name) for name in clique]), dtype=np.float64)

    # ------------------------------------------------------------------ files

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of the model file."""
        names = list(self.values)
        arrays: dict[str, npt.NDArray[Any]] = {"parts": self.parts, "correlations": self.correlations}
        arrays |= {f"margin-{index}": self.margins[name] for index, name in enumerate(names)}
        meta = {
            "format": FORMAT,
            "partition": list(self.partition),
            "latents": [[latent.column, latent.role] for latent in self.latents],
            "columns": [[name, self.values[name]] for name in names],
        }
        return meta, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> GaussianCopula:
        """Rebuild from the description and arrays of a model file."""
        if meta.get("format") != FORMAT:
            raise ModelFileError(
                f"Unknown copula format {meta.get('format')!r}; this version reads {FORMAT}."
            )
        try:
            columns = [(str(name), int(values)) for name, values in meta["columns"]]
            return cls(
                domain,
                tuple(str(name) for name in meta["partition"]),
                arrays["parts"],
                tuple(Latent(str(column), str(role)) for column, role in meta["latents"]),
                dict(columns),
                {name: arrays[f"margin-{index}"] for index, (name, _) in enumerate(columns)},
                arrays["correlations"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"The model file is incomplete or damaged: {error}.") from None


def _frozen(values: npt.ArrayLike) -> Array:
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


def _inverse(weights: Array, uniform: Array) -> npt.NDArray[np.intp]:
    """Return the code at which the running share of the weights passes each number in [0, 1)."""
    total = float(weights.sum())
    running = np.cumsum(weights) / total if total > 0 else np.arange(1, len(weights) + 1) / len(weights)
    last = int(np.flatnonzero(weights)[-1]) if total > 0 else len(weights) - 1
    return np.minimum(np.searchsorted(running, uniform, side="right"), last)


# ---------------------------------------------------------------------- what correlations look like through margins


def orthant_tables(left: Array, right: Array, angles: Array) -> Array:
    """Return the joint probabilities of two binned normal numbers for correlations ``sin(angle)``.

    Parameters
    ----------
    left, right
        Probabilities of the bins of each number, in order.
    angles
        Ascending from ``-pi/2`` to ``pi/2``, exclusive, with zero among them.

    Notes
    -----
    ``d/d(angle) P(X <= h, Y <= k) = exp(-(h² + k² - 2 h k sin) / (2 cos²)) / (2 pi)`` (Plackett 1954), summed from
    independence by Simpson's rule.

    Examples
    --------
    >>> half = np.array([0.5, 0.5])
    >>> orthant_tables(half, half, np.array([0.0, np.pi / 6]))[1].round(4)
    array([[0.3333, 0.1667],
           [0.1667, 0.3333]])
    """
    from scipy.special import ndtr, ndtri

    h = ndtri(np.clip(np.cumsum(left)[:-1], 1e-12, 1 - 1e-12))[:, None]
    k = ndtri(np.clip(np.cumsum(right)[:-1], 1e-12, 1 - 1e-12))[None, :]

    def slope(angle: Array) -> Array:
        sine, square = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None] ** 2
        return np.asarray(np.exp(-(h**2 + k**2 - 2 * h * k * sine) / (2 * square)) / (2 * np.pi))

    middle = (angles[1:] + angles[:-1]) / 2
    at, between = slope(angles), slope(middle)
    steps = np.diff(angles)[:, None, None] * (at[:-1] + 4 * between + at[1:]) / 6
    running = np.concatenate([np.zeros((1, *steps.shape[1:])), np.cumsum(steps, axis=0)])
    zero = int(np.argmin(np.abs(angles)))
    below = ndtr(h) * ndtr(k) + running - running[zero]
    padded = np.zeros((len(angles), len(left) + 1, len(right) + 1))
    padded[:, 1:-1, 1:-1] = below
    padded[:, -1, 1:] = np.cumsum(right)
    padded[:, 1:, -1] = np.cumsum(left)
    return np.maximum(np.diff(np.diff(padded, axis=1), axis=2), 0.0)
