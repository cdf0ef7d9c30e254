"""Sealed numbers move by no more than is charged for where doubles would move further, and the charge has nothing to spare.

Neighbouring tables are opened through :meth:`Curator.measure_scalars` with noise that is always zero, so a number comes out as it
lies on the grid, and the ledger says how many steps it was charged for. Exact values are fractions. Every case is hard: a sum of doubles moves by
more than is charged.

The construction: around ``2**32`` doubles are ``u = 2**-20`` apart above and ``u/2`` below. Terms of ``3/2 u`` are added exactly below; above,
each is a tie that is rounded to the even neighbour, half a ``u`` too high. So two tables on either side drift apart by half a step for
every term that meets the large one.
"""

from __future__ import annotations

import math
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest

from understudy.curator import Curator, SealedCounts, SealedScalar, to_float
from understudy.curator.exact import exact_distance
from understudy.curator.rounding import LIMIT, charged_steps, grid_of, on_grid
from understudy.data import LocalTable
from understudy.mechanisms.histograms.look import spread_error
from understudy.mechanisms.histograms.transforms.look import contrasts, tail_norms
from understudy.privacy import Laplace, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.events import LaplaceEvent
from understudy.privacy.noise.randomness import Randomness
from understudy.schema import Domain, Schema

SCHEMA = Schema.parse("columns: [{name: a, kind: boolean}]")
EDGE, TERM = 1 << 32, 1.5 * 2.0**-20
ONE_ROW = Unit.add_remove()


def _silent(self: Laplace, shape: int | tuple[int, ...], randomness: Randomness) -> np.ndarray:
    """Noise that is charged for and always zero."""
    return np.zeros(shape, dtype=np.int64)


def opened(sealed: SealedScalar) -> tuple[int, int]:
    """Return the place of a number on its grid, and the steps it was charged for."""
    step = grid_of(sealed.sensitivity)
    with (
        patch.object(Laplace, "draw", _silent),
        Ledger.in_memory(budget=PureDP(1.0), unit=ONE_ROW, table="t") as ledger,
    ):
        table = LocalTable(SCHEMA, {"a": np.zeros(1, dtype=np.uint8)})
        curator = Curator(table, unit=ONE_ROW, ledger=ledger, randomness=SeededRandomness(0))
        noise = Laplace(max(2.0 * sealed.sensitivity, 2.0**-19))
        value = curator.measure_scalar(sealed, noise=noise, purpose="test")
        event = ledger.entries()[-1].event
    assert isinstance(event, LaplaceEvent)
    assert Fraction(event.scale) == Fraction(noise.scale) / Fraction(step)
    place = on_grid(sealed._exact, step)
    assert value == to_float(place * Fraction(step)), "what comes out is the place on the grid, as a double"
    return place, int(event.l1_sensitivity)


def moved(one: SealedScalar, other: SealedScalar) -> tuple[int, int]:
    """Return by how many steps two numbers differ on the grid, and how many are charged."""
    assert one.sensitivity == other.sensitivity
    (here, charged), (there, again) = opened(one), opened(other)
    assert charged == again
    return abs(there - here), charged


def sealed_counts(counts: np.ndarray, unit: Unit = ONE_ROW, *, known_rows: int | None = None) -> SealedCounts:
    names = tuple(f"c{axis}" for axis in range(counts.ndim))
    domain = Domain(names, counts.shape)
    return SealedCounts(counts, clique=names, domain=domain, unit=unit, known_rows=known_rows)


def exact_sum(counts: np.ndarray, weights: np.ndarray) -> Fraction:
    where = np.flatnonzero(counts.ravel())
    terms = zip(counts.ravel()[where].tolist(), weights.ravel()[where].tolist(), strict=True)
    return sum((count * Fraction(weight) for count, weight in terms), Fraction(0))


def met_by_the_first(cells: int) -> list[int]:
    """Return cells whose terms meet the first one alone, if NumPy adds blocks of 128 in eight lanes and then in pairs."""
    doublings = [128 << level for level in range(max(0, (cells - 1).bit_length() - 7))]
    return [at for at in (*range(8, 128, 8), 1, 2, 4, *doublings) if at < cells]


def test_a_path_of_ties_moves_a_sum_of_doubles_further_than_is_charged_and_not_a_sealed_sum() -> None:
    cells = 1 << 20
    small = met_by_the_first(cells)
    weights, counts = np.ones(cells), np.zeros(cells, dtype=np.int64)
    weights[small], counts[small] = TERM, 1
    tables = []
    for rows in (EDGE - 1, EDGE):
        counts[0] = rows
        tables.append(counts.copy())
    exact = [exact_sum(table, weights) for table in tables]
    assert exact[1] - exact[0] == 1
    numbers = [sealed_counts(table).sum(weights) for table in tables]
    assert [number.sensitivity for number in numbers] == [1.0, 1.0]
    assert [number._exact for number in numbers] == exact
    steps, charged = moved(*numbers)
    assert steps <= charged == 2**20 + 1
    doubles = [float((table * weights).sum()) for table in tables]
    assert (doubles[1] - doubles[0]) / grid_of(1.0) > charged + 4


def test_random_ties_in_random_orders(seed: int) -> None:
    """Terms of odd multiples of half a rounding step, on cells that meet early or late, and both signs."""
    generator, hardest = np.random.default_rng(seed), 0.0
    for _ in range(100):
        cells = int(generator.integers(2, 1 << 12))
        weights = generator.choice([1.0, -1.0, 3.0, -3.0], cells) * 2.0**-21
        counts = generator.integers(0, 2, cells) * generator.choice([1, 3, 5], cells)
        first = int(generator.integers(cells)) if generator.random() < 0.5 else 0
        favourite = [at for at in met_by_the_first(cells) if at != first]
        weights[favourite] = TERM if generator.random() < 0.7 else -TERM
        counts[favourite] = 1
        weights[first] = 1.0
        tables = []
        for rows in (EDGE - 1, EDGE):
            counts[first] = rows
            tables.append(counts.copy())
        assert exact_sum(tables[1], weights) - exact_sum(tables[0], weights) == 1
        steps, charged = moved(*(sealed_counts(table).sum(weights) for table in tables))
        assert steps <= charged
        doubles = [float((table * weights).sum()) for table in tables]
        hardest = max(hardest, (doubles[1] - doubles[0]) / grid_of(1.0))
    assert hardest > charged


@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=["add", "replace"])
def test_distances_to_a_public_vector(unit: Unit) -> None:
    cells = 1 << 16
    small = met_by_the_first(cells)
    public = np.zeros(cells)
    public[small] = -TERM
    tables = [np.zeros(cells, dtype=np.int64) for _ in range(2)]
    tables[0][0], tables[1][0] = EDGE - 1, EDGE
    if unit.relation == "replace-one":
        free = next(at for at in range(3, cells) if at not in small)
        public[free] = 1.0
        tables[0][free] = 1  # its row moves to the first cell: the distance grows by two
    numbers = [sealed_counts(table, unit).l1_distance(public) for table in tables]
    assert numbers[0].sensitivity == unit.histogram_l1
    assert numbers[1]._exact - numbers[0]._exact == unit.histogram_l1
    steps, charged = moved(*numbers)
    assert steps <= charged
    doubles = [float(np.abs(table - public).sum()) for table in tables]
    assert (doubles[1] - doubles[0]) / grid_of(numbers[0].sensitivity) > charged


@pytest.mark.parametrize("rows", [0, 5, 10**6, 1 << 40, 1 << 55])
@pytest.mark.parametrize("size", [0.0, 1e-300, 1.0, 3e6, 1e18, 1e300])
def test_distances_are_exact_for_any_sizes(rows: int, size: float) -> None:
    """The number is the distance to a public vector on a public grid: the same vector for every table."""
    generator = np.random.default_rng(rows % 1000)
    public = generator.uniform(-1, 1, 40) * size
    counts = generator.multinomial(rows, np.full(40, 1 / 40)) if rows < 2**31 else np.full(40, rows // 40)
    empty = exact_distance(np.zeros(40, dtype=np.int64), public, rows=0)
    for place in range(0, 40, 7):
        more = counts.copy()
        more[place] += 1
        here, there = (exact_distance(table, public, rows=int(table.sum())) for table in (counts, more))
        assert abs(here - there) <= 1
        exact = sum(
            (abs(int(c) - Fraction(p)) for c, p in zip(counts.tolist(), public.tolist(), strict=True)),
            Fraction(0),
        )
        assert abs(here - exact) <= 40 * max(Fraction(1, 2), Fraction(abs(public).max()) / 2**20)
    assert abs(float(empty) - np.abs(public).sum()) <= 20 + 1e-9 * np.abs(public).sum()


@pytest.mark.parametrize("rows", [1_000, 10**6, 10**9])
@pytest.mark.parametrize("of", ["sum", "mean"])
@pytest.mark.parametrize(
    ("low", "step"), [(1e10 / 3, 2.0**-7), (1e16, 2.0), (1.7e9, 0.001), (1e18, 128.0), (-1e12, 1.0)]
)
def test_weights_far_from_zero(rows: int, of: str, low: float, step: float) -> None:
    """A replaced row moves a sum or mean by little; a double of its size would move further, or not at all."""
    unit = Unit.replace_one()
    weights = np.array([low, low + step])
    exact = Fraction(float(weights[1])) - Fraction(low)
    generator = np.random.default_rng(rows)
    for ones in generator.integers(0, rows, 50).tolist():
        tables = [np.array([rows - many, many]) for many in (ones, ones + 1)]
        sealed = [sealed_counts(table, unit, known_rows=rows) for table in tables]
        if of == "sum":
            one, other = (item.sum(weights) for item in sealed)
            assert other._exact - one._exact == exact
        else:
            one, other = (item.mean(weights, low=low, high=float(weights[1])) for item in sealed)
            assert other._exact - one._exact == exact / rows
        assert (
            0
            <= Fraction(one.sensitivity) - abs(other._exact - one._exact)
            <= Fraction(one.sensitivity) / 2**50
        )
        steps, charged = moved(one, other)
        assert charged - 2 <= steps <= charged


def test_a_constant_that_dwarfs_the_number_changes_nothing() -> None:
    constant = 2.0**60  # doubles are 256 apart there
    numbers = [SealedScalar(x, sensitivity=1.0).shifted(constant) for x in (127.75, 128.25)]
    assert numbers[1]._exact - numbers[0]._exact == Fraction(1, 2)
    assert numbers[0].sensitivity == 1.0
    scaled = [number.scaled(1 / 3) for number in numbers]
    assert scaled[1]._exact - scaled[0]._exact <= Fraction(scaled[0].sensitivity)


def test_a_public_vector_that_dwarfs_the_counts_changes_nothing() -> None:
    public = np.array([2.0**60, 0.0])
    tables = [np.array([63, 0]), np.array([65, 0])]  # a person of two rows
    unit = Unit.add_remove_person("id", max_rows=2)
    numbers = [sealed_counts(table, unit).l1_distance(public) for table in tables]
    assert numbers[0]._exact - numbers[1]._exact == 2 == numbers[0].sensitivity


def test_neighbours_that_fall_on_either_side_of_the_grid() -> None:
    """Rounding to the grid: one step more than the exact change, and for some pairs that step is needed."""
    generator, needed = np.random.default_rng(5), 0
    for _ in range(150):
        sensitivity = float(generator.choice([1.0, 0.3, 7.0, 1e-3, 2.0**-30 * 1.7]))
        start = Fraction(float(generator.uniform(-1000, 1000))) * Fraction(sensitivity)
        pair = [SealedScalar(x, sensitivity=sensitivity) for x in (start, start + Fraction(sensitivity))]
        steps, charged = moved(*pair)
        assert steps <= charged
        needed += steps == charged
    assert needed > 0


@pytest.mark.parametrize(
    ("value", "end"), [(math.nan, -1), (math.inf, 1), (-math.inf, -1), (10**400, 1), (-(10**400), -1)]
)
def test_what_is_not_finite_is_one_end_of_the_range(value: float, end: int) -> None:
    sealed = SealedScalar(value, sensitivity=1.0)
    assert sealed._exact == end * Fraction(LIMIT)
    with Ledger.in_memory(budget=PureDP(1.0), unit=ONE_ROW, table="t") as ledger:
        table = LocalTable(SCHEMA, {"a": np.zeros(1, dtype=np.uint8)})
        curator = Curator(table, unit=ONE_ROW, ledger=ledger, randomness=SeededRandomness(0))
        assert curator.measure_scalar(sealed, noise=Laplace(4.0), purpose="test") == end * LIMIT
        assert curator.choose(
            [sealed, SealedScalar(0.0, sensitivity=1.0)], epsilon=0.1, purpose="choose"
        ) == (end < 0)


@pytest.mark.parametrize("sensitivity", [5e-324, 1e-300, 1e-30, 1e30, 1e300])
def test_sensitivities_at_the_ends_of_the_doubles(sensitivity: float) -> None:
    step = grid_of(sensitivity)
    assert step > 0
    assert math.isfinite(step)
    assert charged_steps(sensitivity, step) <= 2**20 + 1
    pair = [SealedScalar(Fraction(sensitivity) * x, sensitivity=sensitivity) for x in (17, 18)]
    places = [on_grid(item._exact, step) for item in pair]
    assert abs(places[0] - places[1]) <= charged_steps(sensitivity, step)


# ------------------------------------------------------------------ numbers that are only chosen between


@pytest.mark.parametrize("rows", [1 << 20, 1 << 30])
def test_what_coarse_bins_misplace_is_exact(rows: int) -> None:
    """Bins of 7 and of 3 by 13 cells, whose means are no doubles."""
    generator = np.random.default_rng(rows)
    counts = generator.multinomial(rows, generator.dirichlet(np.full(21 * 39, 0.1))).reshape(21, 39)
    labels = [np.arange(21) // 7, np.arange(39) // 13]
    found = spread_error(sealed_counts(counts), labels)
    exact = Fraction(0)
    for a in range(3):
        for b in range(3):
            part = counts[7 * a : 7 * a + 7, 13 * b : 13 * b + 13].ravel().tolist()
            mean = Fraction(sum(part), len(part))
            exact += sum((abs(count - mean) for count in part), Fraction(0))
    assert found._exact == exact


@pytest.mark.parametrize("style", ["one cell", "even", "random"])
def test_what_is_lost_with_the_last_coefficients_is_computed_from_a_rounded_basis(style: str) -> None:
    """A table that is even has no tail: all that is left is rounding."""
    cells, rows = 96, 1 << 30
    basis = np.vstack([np.ones(cells), contrasts(cells)]) / math.sqrt(cells)
    counts = np.zeros(cells, dtype=np.int64)
    if style == "one cell":
        counts[7] = rows
    elif style == "even":
        counts[:] = rows // cells
    else:
        counts[:] = np.random.default_rng(0).multinomial(
            rows, np.random.default_rng(1).dirichlet(np.ones(cells))
        )
    kept = [0, 1, 2, 50, cells - 1]
    found = tail_norms(sealed_counts(counts), basis, kept)
    whole = [
        sum(Fraction(x) * c for x, c in zip(row, counts.tolist(), strict=True)) for row in basis.tolist()
    ]
    for number, loss in zip(kept, found, strict=True):
        squares = sum((x * x for x in whole[number:]), Fraction(0))
        exact = Fraction(math.isqrt(math.floor(squares * 4**60)), 2**60)
        # the basis is rounded to 2**-30 before it meets the counts
        assert abs(loss._exact - exact) <= Fraction(rows, 2**28)
