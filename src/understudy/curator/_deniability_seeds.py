"""Candidates from seeds and Privacy Test 2, record by record. Private: only a release holds this."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from understudy.curator._deniability_bounds import SeedTest
from understudy.curator._deniability_network import Ints, NetworkSeedModel, SeedModel
from understudy.data import Table
from understudy.privacy import Laplace, Randomness, below_many


class Seeds:
    """The seeds during one release. Private; lives inside :meth:`Part.release` only.

    Privacy
    -------
    In: private. Out: records, at the cost of the event of :meth:`Part.release`. Each has the same number of attempts. An attempt draws
    a slot, of which there are at least ``min_seeds``, a candidate from its seed, and passes if the exact number of plausible
    seeds reaches ``k`` plus Laplace noise of its own; with probability ``floor``, or if no attempt passes, the record comes from the
    network alone. What :mod:`understudy.curator._deniability_bounds` proves is the law of this procedure.
    """

    def __init__(self, table: Table, model: SeedModel, test: SeedTest, randomness: Randomness) -> None:
        names = table.schema.domain.names
        codes = [np.stack([chunk[name] for name in names], axis=1) for chunk in table.chunks()]
        self._seeds: Ints = (
            np.concatenate(codes).astype(np.int64) if codes else np.zeros((0, len(names)), np.int64)
        )
        self._model, self._test, self._randomness = model, test, randomness
        self._slots = max(len(self._seeds), test.min_seeds)
        examined = self._seeds
        if test.max_check is not None and test.max_check < len(examined):
            # the rows with the smallest random priorities: a new row displaces at most one of them
            priority = np.argsort(randomness.words(len(examined)), kind="stable")
            examined = examined[priority[: test.max_check]]
        self._types, self._counts = np.unique(examined, axis=0, return_counts=True)
        self._index = model.index(self._types, self._counts) if isinstance(model, NetworkSeedModel) else None

    def batch(self, records: int, floor: float) -> Ints:
        """Return records, each with its fixed number of attempts."""
        result = self._model.free(self._words(records))
        open_ = self._randomness.words(records) >= np.uint64(min(2**64 - 1, math.ceil(floor * 2.0**64)))
        for _ in range(self._test.attempts):
            candidate, passed = self.attempt(records)
            taken = open_ & passed
            result[taken] = candidate[taken]
            open_ &= ~passed
        return result

    def attempt(self, records: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return one candidate per record and whether it passes Privacy Test 2."""
        slot = below_many(self._slots, records, self._randomness)
        filled = slot < len(self._seeds)
        seeds = (
            self._seeds[np.where(filled, slot, 0)]
            if len(self._seeds)
            else np.zeros((records, self._seeds.shape[1]), np.int64)
        )
        candidates = self._model.propose(seeds, self._words(records))
        counts = self.plausible(candidates, seeds)
        if self._test.max_plausible is not None:
            counts = np.minimum(counts, self._test.max_plausible)
        noise = Laplace(1 / self._test.epsilon0).draw((records,), self._randomness)
        return candidates, filled & (counts >= self._test.k + noise)

    def plausible(self, candidates: Ints, seeds: Ints) -> Ints:
        """Return the exact number of plausible seeds of each candidate."""
        gamma = self._test.gamma
        if isinstance(self._model, NetworkSeedModel):
            assert self._index is not None
            return self._model.plausible_in(self._index, candidates, seeds, gamma)
        return self._model.plausible(candidates, seeds, self._types, self._counts, gamma)

    def _words(self, records: int) -> npt.NDArray[np.uint64]:
        width = self._model.words_per_record
        return self._randomness.words(records * width).reshape(records, width)
