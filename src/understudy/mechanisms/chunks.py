"""Rows of a model in chunks that can be made at the same time, and still fit together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.distributions.released import ReleasedRecords
from understudy.engine.record_fitting.lanes import LANES, Counts, LaneFitter, Wave, plan_waves
from understudy.errors import ConstraintError, WorkloadError
from understudy.mechanisms.drawing import Codes, Drawer
from understudy.mechanisms.model import Model
from understudy.schema import Schema

__all__ = ["ChunkedSample", "DrawnChunk", "usual_chunk_rows"]

_CODES_PER_CHUNK = 5_000_000
_CHUNK_ROWS = (1_000, 500_000)
_LOOKS_PER_RECORD = 400.0
_MANY_CHUNKS = 32


def usual_chunk_rows(schema: Schema) -> int:
    """Return how many rows a chunk has when nobody says: five million codes, at most half a million rows.

    Examples
    --------
    >>> from understudy.schema import Boolean, Schema
    >>> usual_chunk_rows(Schema([Boolean("smokes")]))
    500000
    """
    return int(np.clip(_CODES_PER_CHUNK // max(1, len(schema.names)), *_CHUNK_ROWS))


@dataclass(frozen=True, eq=False)
class DrawnChunk:
    """Encoded records of one chunk and the counts they add; ``start`` and ``end`` are distances in records."""

    codes: Codes
    counts: tuple[npt.NDArray[np.int32], ...]
    start: float
    end: float


@dataclass(frozen=True, eq=False)
class ChunkedSample:
    """A sample of any number of rows as chunks in waves; the chunks of a wave do not wait for each other.

    Chunk ``i`` is a function of the model, the arguments below and the counts of earlier waves. So the same rows
    come out however many processes make them, and a chunk that was lost can be made again. Rows satisfy
    every constraint of the schema. See `understudy.engine.record_fitting.lanes` for why the marginals of all rows are as close
    to the model's as those of one chunk.

    Parameters
    ----------
    model
        The fitted model.
    rows
        How many rows in all.
    seed
        Makes the draw repeatable. Safe: the model is already public.
    rows_per_chunk
        How many rows are in memory at a time; by default `usual_chunk_rows`.
    lanes
        Chunks per wave: how many processes can be busy.
    targets
        The model's marginals as `goals` names them, if they were computed before.

    Privacy
    -------
    In: a released model. Out: releasable. Cost: none (post-processing).

    Examples
    --------
    >>> import pandas as pd
    >>> from understudy import Curator, Ledger, PureDP, Unit, create, read_table
    >>> from understudy.schema import Boolean, Schema
    >>> table = read_table(pd.DataFrame({"smokes": [True, False] * 50}), Schema([Boolean("smokes")]))
    >>> ledger = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.replace_one(), table="t")
    >>> curator = Curator(table, unit=Unit.replace_one(), ledger=ledger)
    >>> model = create("independent").fit(curator, PureDP(1.0))
    >>> sample = ChunkedSample(model, 10, seed=1, rows_per_chunk=4, lanes=2)
    >>> counts, made = sample.nothing(), 0
    >>> for wave in sample.waves:
    ...     chunks = [sample.draw(wave, lane, made, counts) for lane in range(len(wave.sizes))]
    ...     counts, made = sample.add(counts, chunks), made + wave.rows
    >>> made
    10
    """

    model: Model
    rows: int
    seed: int
    rows_per_chunk: int | None = None
    lanes: int = LANES
    targets: Sequence[npt.NDArray[np.float64]] | None = None

    def __post_init__(self) -> None:
        if self.model.events is not None:
            raise WorkloadError(
                "The model is of people with several rows, which are drawn as a whole: write one file (--out in .csv or .parquet), not a folder of parts."
            )

    @cached_property
    def waves(self) -> tuple[Wave, ...]:
        """All chunks, in waves."""
        size = self.rows_per_chunk
        if size is None:
            size = usual_chunk_rows(self.model.schema)
        return plan_waves(self.rows, rows_per_chunk=size, lanes=self.lanes)

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return self.waves[-1].first + 1 if self.waves else 0

    @cached_property
    def _drawer(self) -> Drawer:
        return self.model._drawer

    @cached_property
    def goals(self) -> list[npt.NDArray[np.float64]]:
        """The model's answers for the marginals that records are fitted to; none without a workload."""
        if self.model.workload is None:
            return []
        return self._drawer._goals[2] if self.targets is None else list(self.targets)

    @cached_property
    def goal_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of `goals`, without computing them."""
        if self.model.workload is None:
            return []
        return [self.model.schema.domain.shape(clique) for clique in self._drawer.fitted[0]]

    @cached_property
    def fitter(self) -> LaneFitter | None:
        """Fits the records of chunks; None where the model has no workload to fit to."""
        if not self.goal_shapes:
            return None
        cliques, weights = self._drawer.fitted
        return LaneFitter(
            self.model.schema.domain, cliques, self.goals, weights=weights, allowed=self._drawer._allowed
        )

    @cached_property
    def visits(self) -> float:
        """How many columns of each record are visited in all chunks but the last.

        Half of them, or a quarter where there are many chunks, but no more than look at some four hundred
        marginals: what a chunk leaves over is handed to the next ones, so that no chunk needs to be fitted to the
        end but the last, and what the last one leaves is the smaller per row the more chunks there are.
        """
        share = 0.5 if self.chunks <= _MANY_CHUNKS else 0.25
        most = max(1.0, share * len(self.model.schema.names))
        if self.fitter is None:
            return most
        per_column = sum(len(goal.columns) for goal in self.fitter.goals) / len(self.model.schema.names)
        return float(np.clip(_LOOKS_PER_RECORD / max(1.0, per_column), 1.0, most))

    @property
    def task_mb(self) -> float:
        """Megabytes that making one chunk takes, roughly: records in several forms, books of the fit, libraries."""
        largest = max((max(wave.sizes) for wave in self.waves), default=0)
        cells = sum(int(np.prod(shape, dtype=np.int64)) for shape in self.goal_shapes)
        return 300 + (40 * largest * len(self.model.schema.names) + 24 * cells) / 2**20

    def nothing(self) -> tuple[Counts, ...]:
        """Return the counts before the first wave."""
        return () if self.fitter is None else self.fitter.nothing()

    def add(self, counts: Sequence[Counts], chunks: Sequence[DrawnChunk]) -> tuple[Counts, ...]:
        """Return counts with those of some chunks added."""
        return () if self.fitter is None else self.fitter.add(counts, [chunk.counts for chunk in chunks])

    def error(self, counts: Sequence[Counts], made: int) -> float | None:
        """Return how far the marginals of all rows are from the model's: average L1 distance as a share of rows."""
        return None if self.fitter is None else self.fitter.error(made, counts)

    def draw(self, wave: Wave, lane: int, made: int, counts: Sequence[Counts]) -> DrawnChunk:
        """Draw and fit one chunk, given the rows made in earlier waves and their counts."""
        if wave not in self.waves or not 0 <= lane < len(wave.sizes):
            raise WorkloadError("There is no such chunk in this sample.")
        number, size = wave.first + lane, wave.sizes[lane]
        generator = np.random.default_rng([self.seed, number])
        if isinstance(self.model.distribution, ReleasedRecords):
            start = made + sum(wave.sizes[:lane])
            return DrawnChunk(self._released(start, size), (), 0.0, 0.0)
        drawn = self._drawer.valid(size, generator)
        if self.fitter is None:
            return DrawnChunk(drawn, (), 0.0, 0.0)
        last = number == self.chunks - 1
        visits = None if last else self.visits
        fitted = self.fitter.fit(drawn, wave, lane, made, counts, seed=self.seed, visits=visits)
        cliques = [goal.clique for goal in self.fitter.goals]
        codes, own = self._drawer.put_back(drawn, fitted.codes, cliques, fitted.counts)
        return DrawnChunk(codes, own, fitted.start, fitted.end)

    def _released(self, start: int, size: int) -> npt.NDArray[Any]:
        """Return a run of records from a random order that is gone through as often as it takes."""
        codes = self._obeying
        order = np.random.default_rng(self.seed).permutation(len(codes))
        return np.asarray(codes[order[np.arange(start, start + size) % len(order)]])

    @cached_property
    def _obeying(self) -> Codes:
        """The released records, with those that break a rule moved or, where that fails, left out."""
        records = self.model.distribution
        assert isinstance(records, ReleasedRecords)
        drawer = self._drawer
        if not drawer.rules:
            return records.codes
        codes = drawer.repaired(records.codes, np.random.default_rng([self.seed, len(records.codes)]))
        kept = codes[drawer.obey(codes)]
        if not len(kept):
            raise ConstraintError(
                "None of the released records obeys the rules of the schema. Loosen the rules."
            )
        return kept

    def decode_seed(self, number: int) -> int:
        """Return the seed with which the codes of a chunk become values."""
        return int(np.random.SeedSequence([self.seed, number, 1]).generate_state(1, np.uint64)[0] >> 1)
