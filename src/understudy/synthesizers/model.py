"""A fitted model: a public distribution with the schema it speaks and the story of how it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.engine import Distribution
from understudy.errors import WorkloadError
from understudy.marginals import Measurement, Workload
from understudy.privacy import Budget, Unit
from understudy.schema import Schema
from understudy.synthesizers._drawing import Drawer
from understudy.synthesizers._rounds import Round

if TYPE_CHECKING:
    import pandas as pd

Codes = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Provenance:
    """How a model was made. All of it is public."""

    method: str
    options: Mapping[str, Any]
    unit: Unit
    budget: Budget
    accounting: str
    spent: float
    ledger_id: str

    def guarantee(self) -> str:
        """Say the privacy promise in one sentence."""
        return (
            f"{self.budget.describe()}; neighbouring tables: {self.unit.describe()}; "
            f"{self.accounting} accounting."
        )


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted distribution that can be asked, sampled, saved and published.

    Everything in a model is a function of released measurements and public facts, so any use of it
    is post-processing and costs nothing. Sampling may take a seed for the same reason.
    """

    schema: Schema
    distribution: Distribution
    measurements: tuple[Measurement, ...]
    provenance: Provenance
    workload: Workload | None = None
    rounds: tuple[Round, ...] = ()

    @property
    def total(self) -> float:
        """Estimated number of rows of the table the model stands for."""
        return self.distribution.total

    def marginal(self, clique: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the model's expected counts over one clique."""
        return self.marginals([clique])[0]

    def marginals(self, cliques: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
        """Return the model's expected counts over many cliques."""
        return self.distribution.marginals([self.schema.domain.canonical(clique) for clique in cliques])

    def default_rows(self) -> int:
        """Return how many rows a sample has when nobody says: the declared or estimated number."""
        if self.schema.row_count is not None:
            return self.schema.row_count
        return max(0, round(self.total))

    def sample_codes(self, n: int | None = None, *, seed: int | None = None) -> dict[str, Codes]:
        """Draw encoded records that satisfy every constraint of the schema.

        Parameters
        ----------
        n
            Number of rows; by default the declared row count, or else the model's estimate.
        seed
            Makes the draw repeatable. Safe: the model is already public.
        """
        rows = self._rows(n)
        generator = np.random.default_rng(seed)
        pieces = list(self._drawer.chunks(rows, rows_per_chunk=max(1, rows), generator=generator))
        width = len(self.schema.names)
        drawn = pieces[0] if pieces else np.zeros((0, width), dtype=np.uint8)
        return {name: drawn[:, index] for index, name in enumerate(self.schema.names)}

    @cached_property
    def _drawer(self) -> Drawer:
        return Drawer(self.schema, self.distribution, self.workload)

    def _rows(self, n: int | None) -> int:
        rows = self.default_rows() if n is None else n
        if rows < 0:
            raise WorkloadError(f"Cannot draw {rows} rows; ask for zero or more.")
        return rows

    def sample(self, n: int | None = None, *, seed: int | None = None) -> pd.DataFrame:
        """Draw rows as a pandas frame with the columns and types of the schema."""
        return self.schema.decode(self.sample_codes(n, seed=seed), seed=seed)

    def sample_chunks(
        self, n: int | None = None, *, rows_per_chunk: int = 1_000_000, seed: int | None = None
    ) -> Iterator[pd.DataFrame]:
        """Draw rows in frames of at most ``rows_per_chunk``, so that any number fits in memory."""
        if rows_per_chunk < 1:
            raise WorkloadError(f"rows_per_chunk ({rows_per_chunk}) must be at least 1.")
        generator = np.random.default_rng(seed)
        for drawn in self._drawer.chunks(self._rows(n), rows_per_chunk=rows_per_chunk, generator=generator):
            codes = {name: drawn[:, index] for index, name in enumerate(self.schema.names)}
            yield self.schema.decode(codes, seed=int(generator.integers(1 << 62)))

    def save(self, path: str | Path) -> None:
        """Write the model to a file: a zip of JSON and plain arrays, without any record."""
        from understudy.synthesizers.modelfile import save_model

        save_model(self, path)

    @staticmethod
    def load(path: str | Path) -> Model:
        """Read a model file. Nothing in it can run code."""
        from understudy.synthesizers.modelfile import load_model

        return load_model(path)

    def __repr__(self) -> str:
        return (
            f"Model({self.provenance.method}, {len(self.schema.names)} columns, "
            f"{len(self.measurements)} measurements, {self.provenance.budget.describe()})"
        )
