"""Records that have been released, as a distribution: what a seed-based mechanism hands out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.marginals import count_codes
from understudy.schema import Clique, Domain


@dataclass(frozen=True, eq=False)
class ReleasedRecords:
    """Synthetic records that were drawn once and for all, and the number of rows they stand for.

    Drawing at most as many as there are returns different ones of them, in random order; drawing more
    returns all of them as often as it takes.

    Examples
    --------
    >>> records = ReleasedRecords(Domain(("a", "b"), (2, 3)), 10.0, np.array([[0, 2], [1, 1]]))
    >>> records.marginals([("a",)])[0]
    array([5., 5.])
    >>> len(records.sample_codes(5, np.random.default_rng(0)))
    5
    """

    domain: Domain
    total: float
    codes: npt.NDArray[Any]
    kind: str = "released-records"

    def __post_init__(self) -> None:
        codes = np.array(self.codes)
        if codes.ndim != 2 or codes.shape[1] != len(self.domain) or len(codes) < 1:
            raise WorkloadError("Released records need one code per column, and at least one record.")
        if codes.dtype.kind not in "iu" or (codes < 0).any() or (codes >= np.array(self.domain.sizes)).any():
            raise WorkloadError("Released records must hold codes of the domain.")
        if not (math.isfinite(self.total) and self.total > 0):
            raise WorkloadError(f"The total ({self.total}) must be positive and finite.")
        codes = codes.astype(np.min_scalar_type(max(1, max(self.domain.sizes) - 1)))
        codes.flags.writeable = False
        object.__setattr__(self, "codes", codes)

    def marginals(self, cliques: Sequence[Clique]) -> list[npt.NDArray[np.float64]]:
        """Return counts of the records over each clique, scaled to the total."""
        scale = self.total / len(self.codes)
        return [count_codes(self.domain, self.codes, clique) * scale for clique in cliques]

    def sample_codes(self, n: int, generator: np.random.Generator) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return records in random order, each used equally often but for one."""
        rounds, rest = divmod(n, len(self.codes))
        which = np.concatenate(
            [
                np.tile(np.arange(len(self.codes)), rounds),
                generator.choice(len(self.codes), rest, replace=False),
            ]
        )
        return np.asarray(self.codes[generator.permutation(which)])

    def restricted(self, columns: Clique, allowed: npt.NDArray[np.bool_]) -> ReleasedRecords:
        """Return the records whose codes in some columns are allowed."""
        kept = allowed[tuple(self.codes[:, self.domain.index(name)] for name in columns)]
        return ReleasedRecords(self.domain, self.total * float(kept.mean()), self.codes[kept])

    def sample_given(
        self, columns: Clique, codes: npt.NDArray[np.integer[Any]], generator: np.random.Generator
    ) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.bool_]]:
        """Return for each row of codes of some columns a record that has them, and say for which rows there is one."""
        own = self.codes[:, [self.domain.index(name) for name in columns]].astype(np.int64)
        _, label = np.unique(np.concatenate([own, codes.astype(np.int64)]), axis=0, return_inverse=True)
        label = label.reshape(-1)
        order = np.argsort(label[: len(own)], kind="stable")
        sizes = np.bincount(label[: len(own)], minlength=int(label.max()) + 1)
        wanted = label[len(own) :]
        place = (np.cumsum(sizes) - sizes)[wanted] + (generator.random(len(codes)) * sizes[wanted]).astype(
            np.int64
        )
        possible = sizes[wanted] > 0
        return np.asarray(self.codes[order[np.where(possible, place, 0)]]), possible

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of the model file."""
        return {"total": self.total}, {"codes": self.codes}

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> ReleasedRecords:
        """Rebuild from the description and arrays of a model file."""
        return cls(domain, float(meta["total"]), arrays["codes"])
