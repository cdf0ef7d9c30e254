"""Conditional tables too large to hold: noisy rows on demand, from a keyed pseudo-random function."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from understudy.curator._deniability_network import Ints
from understudy.data import Table
from understudy.errors import BudgetError
from understudy.privacy import Noise

Groups = Mapping[str, npt.ArrayLike]
Floats = npt.NDArray[np.float64]


class LazyCounts:
    """Noisy rows of one conditional table, each drawn when first asked for and the same ever after.

    The noise of a row comes from a keyed hash of the row's number, so that rows need neither be stored
    nor drawn in any order, and two copies agree. The key is drawn from the curator's generator, never
    leaves the process and is not shown.

    Privacy
    -------
    All rows together are one marginal with independent noise, which was paid for as a whole; rows shown on
    demand are a post-processing of it. That holds for noise from a keyed pseudo-random function against
    everybody who cannot tell it from chance. With a hash of the row's number alone, as published, anybody
    could compute the noise and subtract it.
    """

    def __init__(self, table: Table, columns: Groups, target: str, noise: Noise, key: bytes) -> None:
        domain = table.schema.domain
        self._target, self._noise, self._key = target, noise, key
        self._parents = [name for name in domain.canonical(columns) if name != target]
        groups = {name: np.asarray(which, dtype=np.int64) for name, which in columns.items()}
        self._size = int(groups[target].max()) + 1
        self.shape = tuple(int(groups[name].max()) + 1 for name in self._parents)
        rows: list[Ints] = []
        values: list[Ints] = []
        for chunk in table.chunks(tuple(domain.canonical(columns))):
            row = np.zeros(len(chunk[target]), dtype=np.int64)
            for name, size in zip(self._parents, self.shape, strict=True):
                row = row * size + groups[name][chunk[name]]
            rows.append(row)
            values.append(groups[target][chunk[target]])
        joined = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        order = np.argsort(joined, kind="stable")
        self._rows = joined[order]
        self._values = (np.concatenate(values) if values else np.zeros(0, np.int64))[order]

    def __repr__(self) -> str:
        return f"LazyCounts({self._target!r} given {len(self._parents)} columns)"

    def __reduce__(self) -> str:
        raise TypeError("Lazily drawn counts hold a secret key and records; they stay in their process.")

    def row(self, groups: Sequence[int]) -> Floats:
        """Return the noisy counts of the target for one combination of the parents' groups."""
        if len(groups) != len(self.shape) or any(
            not 0 <= g < size for g, size in zip(groups, self.shape, strict=False)
        ):
            raise BudgetError("There is no such combination of groups.")
        number = int(np.ravel_multi_index(tuple(groups), self.shape)) if self.shape else 0
        low, high = np.searchsorted(self._rows, [number, number + 1])
        exact = np.bincount(self._values[low:high], minlength=self._size)
        noise = self._noise.draw((self._size,), _Keyed(self._key, number))
        return (exact + noise).astype(np.float64)


class _Keyed:
    """A stream of bytes that is a pseudo-random function of a secret key and a public number."""

    def __init__(self, key: bytes, number: int) -> None:
        self._seed = hashlib.blake2b(number.to_bytes(16, "little"), key=key, digest_size=32).digest()
        self._calls = 0

    def bytes(self, n: int) -> bytes:
        """Return the next bytes."""
        self._calls += 1
        return hashlib.shake_256(self._seed + self._calls.to_bytes(8, "little")).digest(n)

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        """Return the next 64-bit words."""
        return np.frombuffer(self.bytes(8 * n), dtype="<u8").astype(np.uint64)
