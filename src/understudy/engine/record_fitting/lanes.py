"""Record fitting of a table that is made in many chunks, several of them at the same time.

**What is wanted.** A model says which share ``p(x)`` of the records lies in a cell ``x`` of a fitted marginal.
After ``N`` rows the cell should hold ``N p(x)``; ``d_N(x) = N p(x) - counts_N(x)`` is what it lacks.

**How.** Rows are made in *waves* of at most ``lanes`` chunks. A wave of ``m`` rows aims at
``R = (N + m) p - counts_N = m p + d_N``: its own share and everything that earlier waves left over. ``R`` is
divided over the chunks of the wave by their sizes, and their records are fitted independently of each other. When
all are done their counts are added up, and the next wave begins. The last chunk is a wave of its own.

**Why the error of the table does not grow with the number of chunks.**

1. *Telescoping.* Let ``r_i = R_i - counts_i`` be what the fit of chunk ``i`` of a wave leaves over. The ``R_i`` add up
   to ``R``, so ``d_(N+m) = R - sum counts_i = sum r_i``. Nothing else remains of earlier waves: what is wrong
   with the whole table is what the *last* fit left over, ``d_n = r_last``, in records, not per chunk.
2. *No fit is worse than its start.* Fitting is plain descent in the weighted L1 norm of all fitted marginals (single
   columns that are fitted along included; targets in steps of 1/127 record). Chunk ``i`` starts from records drawn
   from the model, which satisfy the constraints, at a distance of ``s_i`` from their own share (sampling error), so
   from ``R_i`` they are at most ``m_i / m |d_N| + |s_i|`` away. Hence ``|d_(N+m)| <= |d_N| + sum |s_i|`` always: at worst the
   error of rows that were not fitted is added.
3. *Contraction.* If every fit removes at least a share ``1 - q`` of what it starts with, then
   ``|d_(N+m)| <= q (|d_N| + S)`` with ``S`` the largest ``sum |s_i|`` of a wave, and so, by induction,
   ``|d_N| <= q S / (1 - q)`` **after every wave**, whatever the number of waves. Visiting half the columns of
   each record had ``q`` between 0.3 and 0.7 on tables that were tried, a quarter of them up to 0.9; `LaneResult`
   reports both ends of every fit, so ``q`` is measured on each table instead of being believed.

So the error *per row*, the one workloads are judged by, falls like one over the number of chunks. Fitting chunks
without handing over what is left, each to ``m p``, repeats the rounding of rare cells in every chunk and its error
per row does not fall.

**Determinism.** Waves depend on the number of rows, rows per chunk and ``lanes``, never on how many processes
work: the records of chunk ``i`` are a function of the seed, ``i``, and the counts of earlier waves.

Everything here is post-processing of a released model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.record_fitting.goals import MAX_CELLS, Goal, set_goals
from understudy.engine.record_fitting.records import Allowed, Codes
from understudy.errors import WorkloadError
from understudy.schema import Clique, Domain

__all__ = ["LaneFitter", "LaneResult", "Wave", "plan_waves"]

Counts = npt.NDArray[np.int64]

LANES = 8
"""Chunks that are made between two exchanges of what is left over."""


@dataclass(frozen=True)
class Wave:
    """Chunks that are made at the same time: the number of the first, and the rows of each."""

    first: int
    sizes: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Rows of the wave."""
        return sum(self.sizes)


def plan_waves(rows: int, *, rows_per_chunk: int, lanes: int = LANES) -> tuple[Wave, ...]:
    """Divide rows into chunks of nearly equal size, and chunks into waves; the last chunk is alone.

    Examples
    --------
    >>> [wave.sizes for wave in plan_waves(10, rows_per_chunk=2, lanes=3)]
    [(2, 2, 2), (2,), (2,)]
    >>> plan_waves(0, rows_per_chunk=2)
    ()
    """
    if rows < 0 or rows_per_chunk < 1 or lanes < 1:
        raise WorkloadError(
            f"rows ({rows}) must not be negative; rows_per_chunk ({rows_per_chunk}) and lanes ({lanes}) must be at "
            "least 1."
        )
    chunks = -(-rows // rows_per_chunk)
    sizes = [rows // chunks + (index < rows % chunks) for index in range(chunks)]
    starts = [*range(0, chunks - 1, lanes)]
    waves = [Wave(start, tuple(sizes[start : min(start + lanes, chunks - 1)])) for start in starts]
    return (*waves, Wave(chunks - 1, (sizes[-1],))) if chunks else ()


@dataclass(frozen=True, eq=False)
class LaneResult:
    """One fitted chunk: its records, their counts, and the L1 distance from its targets at both ends of the fit.

    Distances are averages over marginals, in records.
    """

    codes: Codes
    counts: tuple[npt.NDArray[np.int32], ...]
    start: float
    end: float
    violations: int


class LaneFitter:
    """Fits chunks of one table to the marginals of a model.

    Parameters
    ----------
    domain, cliques, targets, weights, allowed
        As in :func:`understudy.engine.record_fitting.records.fit_records`; the same for every chunk.

    Examples
    --------
    >>> domain = Domain(("a",), (3,))
    >>> fitter = LaneFitter(domain, [("a",)], [np.ones(3)])
    >>> codes = np.zeros((2, 1), np.uint8)
    >>> counts, rows = fitter.nothing(), 0
    >>> for wave in plan_waves(6, rows_per_chunk=2, lanes=2):
    ...     done = [fitter.fit(codes, wave, lane, rows, counts, seed=1) for lane in range(len(wave.sizes))]
    ...     counts, rows = fitter.add(counts, [item.counts for item in done]), rows + wave.rows
    >>> counts[0].tolist()
    [2, 2, 2]
    """

    def __init__(
        self,
        domain: Domain,
        cliques: Sequence[Clique],
        targets: Sequence[npt.ArrayLike],
        *,
        weights: Sequence[float] | None = None,
        allowed: Sequence[Allowed] = (),
        max_cells: int = MAX_CELLS,
    ) -> None:
        self.domain = domain
        self.goals: list[Goal] = set_goals(domain, cliques, targets, weights, True, max_cells)
        self.rules = [
            (tuple(domain.index(name) for name in columns), np.asarray(table, dtype=bool))
            for columns, table in allowed
            if columns
        ]

    @property
    def cells(self) -> int:
        """Cells of all fitted marginals."""
        return sum(goal.values.size for goal in self.goals)

    def nothing(self) -> tuple[Counts, ...]:
        """Return the counts before the first wave."""
        return tuple(np.zeros(goal.values.size, np.int64) for goal in self.goals)

    def add(self, counts: Sequence[Counts], more: Sequence[Sequence[npt.NDArray[Any]]]) -> tuple[Counts, ...]:
        """Return counts with those of some chunks added."""
        return tuple(
            np.asarray(sum((chunk[c] for chunk in more), start=total)) for c, total in enumerate(counts)
        )

    def error(self, rows: int, counts: Sequence[Counts]) -> float:
        """Return the weighted average L1 distance of counts from the model's, as a share of the rows."""
        asked = [c for c, goal in enumerate(self.goals) if goal.asked]
        gaps = [self.goals[c].weight * np.abs(self.goals[c].counts(rows, counts[c])).sum() for c in asked]
        return float(np.mean(gaps)) / rows if rows and asked else 0.0

    def fit(
        self,
        codes: Codes,
        wave: Wave,
        lane: int,
        rows: int,
        counts: Sequence[Counts],
        *,
        seed: int,
        visits: float | None = None,
    ) -> LaneResult:
        """Fit one chunk to its part of what a wave is to hold.

        Parameters
        ----------
        codes
            Records drawn from the model, ``wave.sizes[lane]`` of them.
        wave, lane
            Which chunk.
        rows, counts
            Rows made in earlier waves, and their counts.
        seed
            Of the table; each chunk makes its own from it.
        visits
            How many columns of each record are visited, on average; by default until it no longer pays.
        """
        from understudy.engine.record_fitting.state import State

        size = wave.sizes[lane]
        if len(codes) != size:
            raise WorkloadError(f"This chunk has {size} records, not {len(codes)}.")
        share = size / wave.rows

        def wanted(c: int) -> npt.NDArray[np.float64]:
            # beyond these limits a target is out of reach (cells that constraints forbid) and pulls no harder
            return np.clip(share * self.goals[c].counts(rows + wave.rows, counts[c]), -size, 2.0 * size)

        state = State(
            codes,
            self.domain.sizes,
            self.goals,
            self.rules,
            squared=False,
            seed=int(np.random.SeedSequence([seed, wave.first + lane]).generate_state(1, np.uint64)[0]),
            n_rows=size,
            earlier=None,
            wanted=wanted,
        )
        start = state.error() * size
        violations = state.repair()
        state.run(None if visits is None else int(visits * size), 0.0)
        return LaneResult(
            state.records().astype(codes.dtype),
            tuple(state.own_counts()),
            start,
            state.error() * size,
            violations,
        )
