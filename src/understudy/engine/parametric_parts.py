"""Distributions made of others: independent parts side by side, and several models of the same table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.distribution import Distribution, distribution_from_arrays
from understudy.engine.parametric_mixed import Codes, Floats
from understudy.schema import Clique, Domain


@dataclass(frozen=True, eq=False)
class ProductModel:
    """Parts over disjoint columns that know nothing of each other.

    Examples
    --------
    >>> from understudy.engine.dense import DenseTable
    >>> a, b = (DenseTable(Domain((name,), (2,)), np.array([3.0, 1.0])) for name in "ab")
    >>> ProductModel(Domain(("a", "b"), (2, 2)), (a, b), 8.0).marginals([("a", "b")])[0]
    array([[4.5, 1.5],
           [1.5, 0.5]])
    """

    domain: Domain
    parts: tuple[Distribution, ...]
    total: float
    kind: str = "parametric-product"

    def posterior(self, generator: np.random.Generator) -> ProductModel:
        """Return the model with the parameters of every part drawn anew."""
        return replace(self, parts=tuple(drawn_again(part, generator) for part in self.parts))

    def marginals(self, cliques: Sequence[Clique]) -> list[Floats]:
        """Return expected counts over each clique: products of those of the parts."""
        answers = []
        for clique in cliques:
            table = np.array(self.total)
            names: list[str] = []
            for part in self.parts:
                inside = tuple(name for name in clique if name in part.domain.names)
                if inside:
                    share = part.marginals([inside])[0] / part.total
                    table = np.multiply.outer(table, share)
                    names += inside
            answers.append(np.transpose(table, [names.index(name) for name in clique]))
        return answers

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw the parts of each record independently."""
        made = np.zeros((n, len(self.domain)), dtype=np.min_scalar_type(max(self.domain.sizes) - 1))
        for part in self.parts:
            drawn = part.sample_codes(n, generator)
            for place, name in enumerate(part.domain.names):
                made[:, self.domain.index(name)] = drawn[:, place]
        return made

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of a model file."""
        meta, arrays = _pack(self.parts)
        return meta | {"total": self.total}, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> ProductModel:
        """Rebuild from the description and arrays of a model file."""
        return cls(domain, _unpack(domain, meta, arrays), float(meta["total"]))


@dataclass(frozen=True, eq=False)
class AveragedModel:
    """Several models of the same table with plausibility weights (paper DIPS, section 3.2.2).

    As a distribution it is their mixture. A draw of its parameters is a draw from one of them, chosen with its
    weight, so that sets made of such draws carry the uncertainty between models.
    """

    domain: Domain
    models: tuple[Distribution, ...]
    weights: tuple[float, ...]
    kind: str = "parametric-average"

    @property
    def total(self) -> float:
        """Expected number of records."""
        return float(sum(w * model.total for w, model in zip(self.weights, self.models, strict=True)))

    def posterior(self, generator: np.random.Generator) -> Distribution:
        """Choose a model with its weight and return it with parameters of a new draw."""
        which = int(generator.choice(len(self.models), p=np.array(self.weights) / sum(self.weights)))
        return drawn_again(self.models[which], generator)

    def marginals(self, cliques: Sequence[Clique]) -> list[Floats]:
        """Return the expected counts of the mixture."""
        told = [model.marginals(cliques) for model in self.models]
        scales = [self.total * w / model.total for w, model in zip(self.weights, self.models, strict=True)]
        return [
            np.asarray(sum(x * table for x, table in zip(scales, tables, strict=True)), dtype=np.float64)
            for tables in zip(*told, strict=True)
        ]

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records from the mixture, in random order."""
        share = generator.multinomial(n, np.array(self.weights) / sum(self.weights))
        drawn = [
            model.sample_codes(int(rows), generator) for model, rows in zip(self.models, share, strict=True)
        ]
        made: Codes = np.concatenate(drawn).astype(np.min_scalar_type(max(self.domain.sizes) - 1))
        return made[generator.permutation(n)]

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of a model file."""
        meta, arrays = _pack(self.models)
        return meta | {"weights": list(self.weights)}, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> AveragedModel:
        """Rebuild from the description and arrays of a model file."""
        return cls(domain, _unpack(domain, meta, arrays), tuple(float(w) for w in meta["weights"]))


@dataclass(frozen=True, eq=False)
class DrawnTables:
    """One table of probabilities and a store of posterior draws of it, for models whose sampler is not in the file.

    ``draws`` has one table per draw; a new draw of the parameters is one of them, taken at random.
    """

    domain: Domain
    cells: Floats
    draws: Floats
    total: float
    kind: str = "parametric-draws"

    def posterior(self, generator: np.random.Generator) -> DrawnTables:
        """Return the model at one of the stored draws."""
        return replace(self, cells=self.draws[int(generator.integers(len(self.draws)))])

    def marginals(self, cliques: Sequence[Clique]) -> list[Floats]:
        """Return expected counts over each clique."""
        table = self.total * self.cells.reshape(self.domain.sizes)
        names = self.domain.names
        return [
            np.asarray(table.sum(axis=tuple(i for i, name in enumerate(names) if name not in clique)))
            for clique in cliques
        ]

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records, each independent of the others."""
        flat = self.cells.ravel()
        line = np.cumsum(flat)
        cell = np.minimum(np.searchsorted(line, generator.random(n) * line[-1], side="right"), len(flat) - 1)
        dtype = np.min_scalar_type(max(self.domain.sizes) - 1)
        made: Codes = np.stack(np.unravel_index(cell, self.domain.sizes), axis=1).astype(dtype)
        return made

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of a model file."""
        return {"total": self.total}, {"cells": self.cells, "draws": self.draws}

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> DrawnTables:
        """Rebuild from the description and arrays of a model file."""
        return cls(domain, arrays["cells"], arrays["draws"], float(meta["total"]))


def drawn_again(distribution: Distribution, generator: np.random.Generator) -> Distribution:
    """Return a distribution with parameters of a new draw, if it can draw them."""
    posterior = getattr(distribution, "posterior", None)
    drawn: Distribution = distribution if posterior is None else posterior(generator)
    return drawn


def _pack(parts: Sequence[Distribution]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    described, arrays = [], {}
    for index, part in enumerate(parts):
        meta, own = part.to_arrays()
        described.append({"kind": part.kind, "columns": list(part.domain.names), "meta": meta})
        arrays.update({f"part-{index}-{name}": array for name, array in own.items()})
    return {"parts": described}, arrays


def _unpack(
    domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> tuple[Distribution, ...]:
    parts = []
    for index, told in enumerate(meta["parts"]):
        prefix = f"part-{index}-"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        columns = tuple(told["columns"])
        inside = Domain(columns, domain.shape(columns))
        parts.append(distribution_from_arrays(told["kind"], inside, dict(told["meta"]), own))
    return tuple(parts)
