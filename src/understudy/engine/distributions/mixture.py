"""A mixture of products: several parts of a table, in each of which the columns are independent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.distributions.dense import systematic_counts
from understudy.errors import ModelFileError, WorkloadError
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

FORMAT = 1
_ENTRIES = 4_000_000
"""Probabilities that are in memory at a time."""


def _draw(weights: Array, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw a place in each row of weights; the last one where all are zero."""
    line = np.cumsum(weights, axis=1)
    point = generator.random(len(line)) * line[:, -1]
    return np.asarray(np.minimum((line <= point[:, None]).sum(axis=1), line.shape[1] - 1))


@dataclass(frozen=True, eq=False)
class ProductMixture:
    """Parts with expected counts, and in each part independent columns.

    Parameters
    ----------
    domain
        The columns.
    parts
        Expected number of rows of each part.
    margins
        Probabilities of the codes of each column, of shape (parts, codes).

    Examples
    --------
    >>> mixture = ProductMixture(
    ...     Domain(("a", "b"), (2, 2)), np.array([3.0, 1.0]), {"a": np.eye(2), "b": np.array([[1.0, 0.0], [0.5, 0.5]])}
    ... )
    >>> mixture.marginals([("a", "b")])[0]
    array([[3. , 0. ],
           [0.5, 0.5]])
    """

    domain: Domain
    parts: Array
    margins: Mapping[str, Array]
    kind: str = "product-mixture"

    def __post_init__(self) -> None:
        parts = np.array(self.parts, dtype=np.float64)
        if parts.ndim != 1 or not np.isfinite(parts).all() or (parts < 0).any() or not parts.sum() > 0:
            raise WorkloadError("A mixture needs an expected count, not negative, for each of its parts.")
        parts.flags.writeable = False
        margins = {}
        for name in self.domain.names:
            margin = np.array(self.margins[name], dtype=np.float64)
            rows = margin.sum(axis=-1, keepdims=True)
            if (
                margin.shape != (len(parts), self.domain.size(name))
                or (margin < 0).any()
                or not (rows > 0).all()
            ):
                raise WorkloadError(f"The margins of {name!r} do not fit the parts of the mixture.")
            margin /= rows
            margin.flags.writeable = False
            margins[name] = margin
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "margins", margins)

    @property
    def total(self) -> float:
        """Expected number of rows."""
        return float(self.parts.sum())

    def marginals(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return expected counts over each clique: sums over parts of products of margins."""
        answers = []
        for clique in cliques:
            wanted = self.domain.canonical(clique)
            table = self.parts[:, None]
            for name in wanted[:-1]:
                table = (table[:, :, None] * self.margins[name][:, None, :]).reshape(len(self.parts), -1)
            if wanted:
                flat = table.T @ self.margins[wanted[-1]]
            else:
                flat = np.asarray(self.parts.sum())
            answers.append(np.asarray(flat, dtype=np.float64).reshape(self.domain.shape(wanted)))
        return answers

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records part by part; in each part every column meets its margin up to one record per code."""
        if n < 0:
            raise WorkloadError(f"The number of records ({n}) must not be negative.")
        codes = np.zeros((n, len(self.domain)), dtype=np.min_scalar_type(max(1, max(self.domain.sizes) - 1)))
        start = 0
        for part, rows in enumerate(systematic_counts(self.parts, n, generator).tolist()):
            if rows:
                for index, name in enumerate(self.domain.names):
                    counts = systematic_counts(self.margins[name][part], rows, generator)
                    drawn = np.repeat(np.arange(len(counts)), counts)
                    codes[start : start + rows, index] = generator.permutation(drawn)
                start += rows
        generator.shuffle(codes, axis=0)
        return codes

    def restricted(self, columns: Clique, allowed: npt.NDArray[np.bool_]) -> ProductMixture | None:
        """Return the mixture of records whose code in one column is allowed; a condition on several is beyond a product."""
        if len(columns) != 1:
            return None
        (name,) = columns
        left = self.margins[name] * allowed
        share = left.sum(axis=1)
        kept = share > 0
        margins = {other: margin[kept] for other, margin in self.margins.items()} | {name: left[kept]}
        return ProductMixture(self.domain, (self.parts * share)[kept], margins)

    def sample_given(
        self, columns: Clique, codes: npt.NDArray[np.integer[Any]], generator: np.random.Generator
    ) -> tuple[Codes, npt.NDArray[np.bool_]]:
        """Draw one record for each row of codes of some columns, and say which rows can occur.

        Each row draws its part by Bayes' rule, and the other columns in that part.
        """
        made = np.zeros(
            (len(codes), len(self.domain)), dtype=np.min_scalar_type(max(1, max(self.domain.sizes) - 1))
        )
        for place, name in enumerate(columns):
            made[:, self.domain.index(name)] = codes[:, place]
        possible = np.zeros(len(codes), dtype=bool)
        step = max(1, _ENTRIES // len(self.parts))
        for start in range(0, len(codes), step):
            rows = slice(start, start + step)
            with np.errstate(divide="ignore"):
                logs = np.log(self.parts)[None, :] + sum(
                    np.log(self.margins[name].T[codes[rows, place]]) for place, name in enumerate(columns)
                )
            peak = logs.max(axis=1, keepdims=True)
            possible[rows] = np.isfinite(peak[:, 0])
            weights = np.exp(logs - np.where(np.isfinite(peak), peak, 0.0))
            part = _draw(weights, generator)
            for index, name in enumerate(self.domain.names):
                if name not in columns:
                    made[rows, index] = _draw(self.margins[name][part], generator)
        return made, possible

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of the model file."""
        arrays: dict[str, npt.NDArray[Any]] = {"parts": self.parts}
        arrays |= {f"margin-{index}": self.margins[name] for index, name in enumerate(self.domain.names)}
        return {"format": FORMAT}, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> ProductMixture:
        """Rebuild from the description and arrays of a model file."""
        if meta.get("format") != FORMAT:
            raise ModelFileError(
                f"Unknown mixture format {meta.get('format')!r}; this version reads {FORMAT}."
            )
        try:
            margins = {name: arrays[f"margin-{index}"] for index, name in enumerate(domain.names)}
            return cls(domain, arrays["parts"], margins)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"The model file is incomplete or damaged: {error}.") from None
