"""A generator network as a distribution: latent numbers and a condition in, independent columns out.

The condition names a mode of one column. That column takes it; the others follow from the network.

Given its latent numbers a record's columns are independent, so the network is a mixture of products over infinitely many
parts. It is held as plain matrices and evaluated with NumPy: reading and sampling a model needs no deep-learning library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.distributions.distribution import Simulated
from understudy.errors import ModelFileError, WorkloadError
from understudy.schema import Clique, Domain

__all__ = ["NeuralGenerator"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

FORMAT = 1
_LATENTS = 4_096
_BLOCK = 16_384
_MOST_TERMS = 20_000_000


@dataclass(frozen=True, eq=False)
class NeuralGenerator(Simulated):
    """Layers that turn latent numbers and a condition into probabilities of each column.

    Parameters
    ----------
    domain
        The columns.
    total
        Number of rows it stands for.
    latent
        Number of latent numbers, each standard normal.
    layers
        Matrix and constants of each layer. Hidden layers are rectified and put before their own input; the last one is linear.
    starts
        First code of each mode, by column: one output per mode, then one output for each column whose modes
        have several codes, whose hyperbolic tangent says where in the mode the code lies.
    conditions
        Probability with which each mode of each column is the condition.

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> out = np.concatenate([np.zeros((1, 4)), 3 * np.eye(4)])
    >>> model = NeuralGenerator(domain, 10.0, 1, ((out, np.zeros(4)),), (np.arange(2), np.arange(2)), np.array([0.5, 0, 0, 0.5]))
    >>> model.marginals([("a",)])[0].round()
    array([7., 3.])
    >>> model.sample_codes(3, np.random.default_rng(0)).shape
    (3, 2)
    """

    domain: Domain
    total: float
    latent: int
    layers: tuple[tuple[Floats, Floats], ...]
    starts: tuple[npt.NDArray[np.int64], ...]
    conditions: Floats
    kind: str = "neural-generator"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.total) and self.total > 0):
            raise WorkloadError(f"The total ({self.total}) must be positive and finite.")
        if self.latent < 1 or not self.layers or len(self.starts) != len(self.domain):
            raise WorkloadError("A generator needs latent numbers, layers and the modes of every column.")
        starts = tuple(np.array(first, dtype=np.int64) for first in self.starts)
        for first, size in zip(starts, self.domain.sizes, strict=True):
            good = first.ndim == 1 and len(first) and first[0] == 0 and (np.diff(first) > 0).all()
            if not good or first[-1] >= size:
                raise WorkloadError("The modes of a column must be rising runs of its codes.")
        conditions = np.array(self.conditions, dtype=np.float64)
        modes = sum(len(first) for first in starts)
        if conditions.shape != (modes,) or not np.isfinite(conditions).all() or (conditions < 0).any():
            raise WorkloadError("A generator needs a probability for each condition.")
        if not conditions.sum() > 0:
            raise WorkloadError("Some condition must be possible.")
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "conditions", conditions / conditions.sum())
        layers, width = [], self.latent + modes
        for place, (matrix, constants) in enumerate(self.layers):
            pair = (np.array(matrix, dtype=np.float64), np.array(constants, dtype=np.float64))
            if pair[0].ndim != 2 or pair[0].shape[0] != width or pair[1].shape != pair[0].shape[1:]:
                raise WorkloadError("The layers of a generator do not fit each other.")
            if not all(np.isfinite(part).all() for part in pair):
                raise WorkloadError("The weights of a generator must be finite.")
            last = place + 1 == len(self.layers)
            width = pair[0].shape[1] + (0 if last else width)
            layers.append(pair)
        if width != modes + len(self._spread):
            raise WorkloadError("The last layer of a generator does not fit the columns.")
        object.__setattr__(self, "layers", tuple(layers))

    @cached_property
    def _spread(self) -> tuple[int, ...]:
        """Columns whose modes have several codes."""
        return tuple(
            i
            for i, (first, size) in enumerate(zip(self.starts, self.domain.sizes, strict=True))
            if len(first) < size
        )

    def outputs(self, latent: Floats, conditions: npt.NDArray[np.int64]) -> Floats:
        """Return the outputs of the last layer for latent numbers and the place of the condition of each record."""
        condition = np.zeros((len(latent), len(self.conditions)))
        condition[np.arange(len(latent)), conditions] = 1
        reached = np.concatenate([latent, condition], axis=1)
        for matrix, constants in self.layers[:-1]:
            reached = np.concatenate([np.maximum(reached @ matrix + constants, 0), reached], axis=1)
        matrix, constants = self.layers[-1]
        return np.asarray(reached @ matrix + constants)

    def draw_inputs(self, n: int, generator: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Draw latent numbers and conditions."""
        latent = generator.standard_normal((n, self.latent))
        return latent, np.searchsorted(np.cumsum(self.conditions)[:-1], generator.random(n), side="right")

    def _columns(
        self, outputs: Floats, conditions: npt.NDArray[np.int64]
    ) -> list[tuple[Floats, npt.NDArray[np.int64]]]:
        """Return, by column, the probability of each mode and the code that each mode would give."""
        found = []
        modes = len(self.conditions)
        begin = 0
        for column, first in enumerate(self.starts):
            logits = outputs[:, begin : begin + len(first)]
            logits = np.exp(logits - logits.max(axis=1, keepdims=True))
            shares = logits / logits.sum(axis=1, keepdims=True)
            condition = (conditions >= begin) & (conditions < begin + len(first))
            shares[condition] = np.eye(len(first))[conditions[condition] - begin]
            codes = np.broadcast_to(first, shares.shape)
            if column in self._spread:
                lengths = np.diff(np.append(first, self.domain.sizes[column]))
                place = (np.tanh(outputs[:, modes + self._spread.index(column)]) + 1) / 2
                codes = first + np.minimum((place[:, None] * lengths).astype(np.int64), lengths - 1)
            found.append((shares, codes))
            begin += len(first)
        return found

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw ``n`` encoded records as an ``[n, columns]`` array."""
        kind = np.min_scalar_type(max(1, max(self.domain.sizes) - 1))
        drawn = np.zeros((n, len(self.domain)), dtype=kind)
        for start in range(0, n, _BLOCK):
            part = slice(start, min(n, start + _BLOCK))
            count = part.stop - start
            latent, conditions = self.draw_inputs(count, generator)
            columns = self._columns(self.outputs(latent, conditions), conditions)
            for column, (shares, codes) in enumerate(columns):
                chance = generator.random(count)[:, None]
                mode = (np.cumsum(shares, axis=1)[:, :-1] <= chance).sum(axis=1)
                drawn[part, column] = codes[np.arange(count), mode]
        return drawn

    @cached_property
    def _mixture(self) -> list[Floats]:
        """Probabilities of the codes of each column at fixed latent numbers, shared by all marginals."""
        generator = np.random.default_rng(0)
        found = []
        latent, conditions = self.draw_inputs(_LATENTS, generator)
        columns = self._columns(self.outputs(latent, conditions), conditions)
        for column, (shares, codes) in enumerate(columns):
            table = np.zeros((_LATENTS, self.domain.sizes[column]))
            table[np.arange(_LATENTS)[:, None], codes] = shares
            found.append(table)
        return found

    def marginals(self, cliques: Sequence[Clique]) -> list[Floats]:
        """Return expected counts over each clique: averages over fixed latent numbers, or over fixed records if it is large."""
        return [self._marginal(clique) for clique in cliques]

    def _marginal(self, clique: Clique) -> Floats:
        if not clique:
            return np.array(self.total)
        shape = self.domain.shape(clique)
        if math.prod(shape) > _MOST_TERMS // 64:
            return self._counted(clique)
        tables = [self._mixture[self.domain.index(name)] for name in clique]
        result = np.zeros(math.prod(shape)).reshape(-1, shape[-1])
        rows = max(1, _MOST_TERMS // max(1, len(result)))
        for start in range(0, _LATENTS, rows):
            product = np.ones((min(rows, _LATENTS - start), 1))
            for table in tables[:-1]:
                piece = table[start : start + rows]
                product = (product[:, :, None] * piece[:, None, :]).reshape(len(piece), -1)
            result += product.T @ tables[-1][start : start + rows]
        return np.asarray(result.reshape(shape) * (self.total / _LATENTS))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of the model file."""
        arrays: dict[str, npt.NDArray[Any]] = {"conditions": self.conditions}
        for place, (matrix, constants) in enumerate(self.layers):
            arrays[f"matrix-{place}"], arrays[f"constants-{place}"] = matrix, constants
        for place, first in enumerate(self.starts):
            arrays[f"starts-{place}"] = first
        meta = {"format": FORMAT, "total": self.total, "latent": self.latent, "layers": len(self.layers)}
        return meta, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> NeuralGenerator:
        """Rebuild from the description and arrays of a model file."""
        if meta.get("format") != FORMAT:
            raise ModelFileError("This version of Understudy does not know how the generator is stored.")
        layers = tuple(
            (arrays[f"matrix-{place}"], arrays[f"constants-{place}"]) for place in range(int(meta["layers"]))
        )
        starts = tuple(arrays[f"starts-{place}"] for place in range(len(domain)))
        return cls(domain, float(meta["total"]), int(meta["latent"]), layers, starts, arrays["conditions"])
