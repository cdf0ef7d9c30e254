"""Chunks made at the same time: what one wave leaves over the next makes up for."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from understudy.engine.record_fitting.lanes import LaneFitter, LaneResult, plan_waves
from understudy.errors import WorkloadError
from understudy.schema import Domain

DOMAIN = Domain(("a", "b", "c", "d"), (6, 5, 7, 4))
CLIQUES = list(combinations(DOMAIN.names, 2))
TRUTH = np.random.default_rng(0).dirichlet(np.full(6 * 5 * 7 * 4, 0.3)).reshape(DOMAIN.shape(DOMAIN.names))
TARGETS = [
    TRUTH.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique))
    for clique in CLIQUES
]


def draw(rows: int, generator: np.random.Generator) -> np.ndarray:
    cells = generator.choice(TRUTH.size, size=rows, p=TRUTH.ravel())
    return np.stack(np.unravel_index(cells, TRUTH.shape), axis=1).astype(np.uint8)


def make(
    chunks: int, size: int, lanes: int, *, carry: bool = True, fitted: bool = True
) -> tuple[LaneFitter, list[float], list[LaneResult], np.ndarray]:
    """Return the fitter, the records wrong after each wave, all fits, and all records."""
    fitter = LaneFitter(DOMAIN, CLIQUES, TARGETS)
    generator = np.random.default_rng(1)
    counts, rows, wrong, fits, codes = fitter.nothing(), 0, [], [], []
    for wave in plan_waves(chunks * size, rows_per_chunk=size, lanes=lanes):
        before = (rows, counts) if carry else (0, fitter.nothing())
        done = [
            fitter.fit(draw(n, generator), wave, lane, *before, seed=3, visits=None if fitted else 0)
            for lane, n in enumerate(wave.sizes)
        ]
        counts, rows = fitter.add(counts, [item.counts for item in done]), rows + wave.rows
        wrong.append(fitter.error(rows, counts) * rows)
        fits += done
        codes += [item.codes for item in done]
    return fitter, wrong, fits, np.concatenate(codes)


def test_waves_hold_all_rows_and_end_with_one_chunk() -> None:
    for rows, size, lanes in [(1, 5, 2), (10, 3, 2), (1_000_003, 1_000, 7), (12, 4, 1), (0, 3, 3)]:
        waves = plan_waves(rows, rows_per_chunk=size, lanes=lanes)
        assert sum(wave.rows for wave in waves) == rows
        assert all(len(wave.sizes) <= lanes and max(wave.sizes) <= size for wave in waves)
        assert not waves or len(waves[-1].sizes) == 1
        firsts = [wave.first for wave in waves]
        assert firsts == [sum(len(wave.sizes) for wave in waves[:place]) for place in range(len(waves))]
    for bad in ({"rows_per_chunk": 0}, {"rows_per_chunk": 3, "lanes": 0}):
        with pytest.raises(WorkloadError):
            plan_waves(5, **bad)


def test_the_counts_of_a_chunk_are_those_of_its_records() -> None:
    fitter, _, fits, codes = make(5, 400, 2)
    counts = fitter.add(fitter.nothing(), [item.counts for item in fits])
    for clique, total in zip(CLIQUES, counts, strict=False):
        columns = [DOMAIN.index(name) for name in clique]
        flat = np.ravel_multi_index(tuple(codes[:, column] for column in columns), DOMAIN.shape(clique))
        np.testing.assert_array_equal(total, np.bincount(flat, minlength=DOMAIN.cells(clique)))


def test_what_is_wrong_with_the_table_is_what_the_last_fit_left() -> None:
    """Telescoping: the identity on which the argument rests, to the accuracy of a sum of floats."""
    _, wrong, fits, _ = make(9, 300, 3)
    assert wrong[-1] == pytest.approx(fits[-1].end, rel=1e-9, abs=1e-6)


def test_no_fit_ends_above_its_start() -> None:
    _, _, fits, _ = make(13, 200, 4)
    assert all(item.end <= item.start for item in fits)


@pytest.mark.parametrize("lanes", [1, 4])
def test_the_error_in_records_does_not_grow_with_the_number_of_chunks(lanes: int) -> None:
    """Bounded with the carry; growing in proportion without it, and like a square root without any fit.

    The seeds are fixed. The bound is the one of the argument, q S / (1 - q) with q and S as they were measured.
    """
    _, wrong, fits, _ = make(41, 300, lanes)
    share = max(item.end / item.start for item in fits)
    samples = [item.start for item in make(41, 300, lanes, carry=False, fitted=False)[2]]
    bound = share * lanes * max(samples) / (1 - share)
    assert share < 0.9
    assert max(wrong) <= bound
    few = wrong[2] if lanes == 1 else wrong[0]
    assert wrong[-1] < 2 * few
    without = make(41, 300, lanes, carry=False)[1]
    assert without[-1] > 4 * wrong[-1]  # what happens when nothing is handed over


def test_constraints_hold_in_every_chunk() -> None:
    table = np.ones((6, 5), bool)
    table[0, 0] = False
    fitter = LaneFitter(DOMAIN, CLIQUES, TARGETS, allowed=[(("a", "b"), table)])
    wave = plan_waves(500, rows_per_chunk=500)[0]
    done = fitter.fit(draw(500, np.random.default_rng(4)), wave, 0, 0, fitter.nothing(), seed=1)
    assert done.violations == 0
    assert not ((done.codes[:, 0] == 0) & (done.codes[:, 1] == 0)).any()


def test_targets_out_of_reach_do_not_overflow() -> None:
    """A cell that can never be filled lacks ever more records as a table grows; the books hold 32 bits."""
    fitter = LaneFitter(DOMAIN, CLIQUES, TARGETS)
    wave = plan_waves(400, rows_per_chunk=200, lanes=1)[1]
    counts = fitter.nothing()
    for total in counts:
        total[0] = 10**12
    drawn = draw(200, np.random.default_rng(5))
    done = fitter.fit(drawn, wave, 0, 10**12, counts, seed=1)
    assert [int(part.sum()) for part in done.counts] == [200] * len(done.counts)
    assert done.end <= done.start


def test_a_chunk_of_another_size_is_refused() -> None:
    fitter = LaneFitter(DOMAIN, CLIQUES, TARGETS)
    wave = plan_waves(10, rows_per_chunk=10)[0]
    with pytest.raises(WorkloadError, match="10 records, not 3"):
        fitter.fit(draw(3, np.random.default_rng(0)), wave, 0, 0, fitter.nothing(), seed=1)
