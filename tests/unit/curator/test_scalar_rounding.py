"""Sealed numbers as computed, in nearly the worst cases of rounding, move by no more than is charged for.

Neighbouring tables are opened through :meth:`Curator.measure_scalars` with noise that is always zero, so a number comes out as it
lies on the grid, and the ledger says how many steps it was charged for. Exact values are fractions. Every case is also hard: it moves by
more than a charge without the allowance for rounding, so a narrower one would be refuted.

The construction: around ``2**32`` doubles are ``u = 2**-20`` apart above and ``u/2`` below. Terms of ``3/2 u`` are added exactly below; above,
each is a tie that is rounded to the even neighbour, half a ``u`` too high. So two tables on either side drift apart by half a step for
every term that meets the large one.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from understudy.curator import Curator, SealedCounts, SealedScalar, as_computed
from understudy.curator.coefficients import contrasts, tail_norms
from understudy.curator.density import spread_error
from understudy.curator.rounding import charged_steps, grid_of
from understudy.data import LocalTable
from understudy.privacy import Laplace, LaplaceEvent, Ledger, PureDP, Randomness, SeededRandomness, Unit
from understudy.schema import Domain, Schema

SCHEMA = Schema.parse("columns: [{name: a, kind: boolean}]")
EDGE, TERM = 1 << 32, 1.5 * 2.0**-20
ONE_ROW = Unit.add_remove()


class Silent(Laplace):
    """Noise that is charged for and always zero."""

    def draw(self, shape: object, randomness: Randomness) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)


def opened(sealed: SealedScalar) -> tuple[int, int]:
    """Return the place of a number on its grid, and the steps it was charged for."""
    step = grid_of(sealed.sensitivity)
    with Ledger.in_memory(budget=PureDP(1.0), unit=ONE_ROW, table="t") as ledger:
        table = LocalTable(SCHEMA, {"a": np.zeros(1, dtype=np.uint8)})
        curator = Curator(table, unit=ONE_ROW, ledger=ledger, randomness=SeededRandomness(0))
        noise = Silent(max(2.0 * sealed.sensitivity, 2.0**-19))
        value = curator.measure_scalar(sealed, noise=noise, purpose="test")
        event = ledger.entries()[-1].event
    assert isinstance(event, LaplaceEvent)
    assert Fraction(event.scale) == Fraction(noise.scale) / Fraction(step)
    place = Fraction(value) / Fraction(step)
    assert place.denominator == 1
    return int(place), int(event.l1_sensitivity)


def moved(one: SealedScalar, other: SealedScalar) -> tuple[int, int]:
    """Return by how many steps two numbers differ on the grid, and how many are charged."""
    assert one.sensitivity == other.sensitivity
    (here, charged), (there, again) = opened(one), opened(other)
    assert charged == again
    return abs(there - here), charged


def without_allowance(sensitivity: float) -> int:
    """Return the steps that rounding to the grid alone makes of a sensitivity."""
    return math.ceil(sensitivity / grid_of(sensitivity)) + 1


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


def test_a_path_of_ties_moves_a_sum_further_than_its_sensitivity_and_not_further_than_is_charged() -> None:
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
    steps, charged = moved(*numbers)
    assert without_allowance(1.0) + 8 < steps <= charged
    for number, true in zip(numbers, exact, strict=True):  # the bound of the proof: 2**-47 of the sizes
        assert abs(Fraction(number._exact) - true) <= true / 2**47


@pytest.mark.parametrize("shape", [(1 << 18,), (1 << 9, 1 << 9), (1 << 6, 1 << 6, 1 << 6)])
@pytest.mark.parametrize("layout", ["rows first", "columns first", "middle"])
def test_sums_are_added_in_pairs_whatever_the_layout(shape: tuple[int, ...], layout: str) -> None:
    """All other cells hold a tie: a running sum is off by far more than is charged."""
    weights = np.full(shape, TERM)
    weights.flat[0] = 1.0
    tables = []
    for rows in (EDGE - 1, EDGE):
        counts = np.ones(shape, dtype=np.int64)
        counts.flat[0] = rows
        if layout == "columns first":
            counts = np.asfortranarray(counts)
        elif layout == "middle":
            counts = np.moveaxis(np.ascontiguousarray(np.moveaxis(counts, -1, 0)), 0, -1)
        tables.append(counts)
    steps, charged = moved(*(sealed_counts(table).sum(weights) for table in tables))
    assert steps <= charged
    running = [np.cumsum((table * weights).ravel())[-1] for table in tables]
    beyond = (running[1] - running[0] - 1.0) / grid_of(1.0)
    assert beyond > 100 * (charged - 1.0 / grid_of(1.0))


def test_random_ties_in_random_orders(seed: int) -> None:
    """Terms of odd multiples of half a rounding step, on cells that meet early or late, and both signs."""
    generator, hardest = np.random.default_rng(seed), 0
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
        hardest = max(hardest, steps)
    assert hardest > without_allowance(1.0)


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
    exact = [
        sum(
            (
                abs(count - Fraction(goal))
                for count, goal in zip(table.tolist(), public.tolist(), strict=True)
            ),
            Fraction(0),
        )
        for table in tables
    ]
    assert exact[1] - exact[0] == numbers[0].sensitivity == unit.histogram_l1
    steps, charged = moved(*numbers)
    # two steps of the larger sensitivity are one of the smaller
    assert without_allowance(unit.histogram_l1) + 8 // unit.histogram_l1 < steps <= charged


@pytest.mark.parametrize("rows", [1_000, 10**6, 10**9])
@pytest.mark.parametrize("of", ["sum", "mean"])
def test_weights_far_from_zero(rows: int, of: str) -> None:
    """A replaced row moves a sum or mean by little; the number itself is so large that doubles are further apart."""
    unit, low = Unit.replace_one(), 1e10 / 3
    weights = np.array([low, low + 2.0**-7])
    generator, pairs = np.random.default_rng(rows), []
    for ones in generator.integers(0, rows, 1_000).tolist():
        tables = [np.array([rows - many, many]) for many in (ones, ones + 1)]
        sealed = [sealed_counts(table, unit, known_rows=rows) for table in tables]
        if of == "sum":
            pairs.append([item.sum(weights) for item in sealed])
        else:
            pairs.append([item.mean(weights, low=low, high=float(weights[1])) for item in sealed])
    exact = float(weights[1] - weights[0])
    assert exact_sum(tables[1], weights) - exact_sum(tables[0], weights) == Fraction(exact)
    exact /= rows if of == "mean" else 1
    one, other = max(pairs, key=lambda pair: abs(pair[1]._exact - pair[0]._exact))
    jump = abs(Fraction(other._exact) - Fraction(one._exact))
    steps, charged = moved(one, other)
    assert steps <= charged
    # the sensitivity of the exact number, with its allowance, would not have been enough
    assert jump / Fraction(grid_of(exact)) > charged_steps(exact, grid_of(exact))
    assert one.sensitivity > exact


def test_a_constant_that_dwarfs_the_number_is_charged_for() -> None:
    constant = 2.0**60  # doubles are 256 apart there
    numbers = [SealedScalar(x, sensitivity=1.0).shifted(constant) for x in (127.75, 128.25)]
    assert numbers[1]._exact - numbers[0]._exact == 256
    steps, charged = moved(*numbers)
    assert steps <= charged
    assert numbers[0].sensitivity > 256
    assert SealedScalar(5.0, sensitivity=1.0).shifted(1e9).sensitivity == 1.0


def test_a_public_vector_that_dwarfs_the_counts_is_charged_for() -> None:
    public = np.array([2.0**60, 0.0])
    tables = [np.array([63, 0]), np.array([65, 0])]  # a person of two rows
    unit = Unit.add_remove_person("id", max_rows=2)
    numbers = [sealed_counts(table, unit).l1_distance(public) for table in tables]
    assert numbers[0]._exact - numbers[1]._exact >= 128
    steps, charged = moved(*numbers)
    assert steps <= charged


def test_ordinary_public_numbers_change_no_sensitivity() -> None:
    for sensitivity in (1e-6, 1.0, 2.0, 6.0):
        assert as_computed(sensitivity, size=2.0**30 * sensitivity) == sensitivity
        wider = as_computed(sensitivity, size=2.0**32 * sensitivity)
        assert sensitivity * (1 + 2.0**-15) < wider < sensitivity * 1.001
    assert as_computed(0.0, size=1e300) == 0.0


def test_neighbours_that_fall_on_either_side_of_the_grid() -> None:
    """Rounding to the grid alone: one step more than the exact change, and for some pairs that step is needed."""
    generator, needed = np.random.default_rng(5), 0
    for _ in range(150):
        sensitivity = float(generator.choice([1.0, 0.3, 7.0, 1e-3, 2.0**-30 * 1.7]))
        start = float(generator.uniform(-1000, 1000)) * sensitivity
        pair = [SealedScalar(x, sensitivity=sensitivity) for x in (start, start + sensitivity)]
        steps, charged = moved(*pair)
        exact = Fraction(sensitivity) / Fraction(grid_of(sensitivity))
        assert steps <= exact + 1 <= charged - 128
        needed += steps > exact
    assert needed > 0


# ------------------------------------------------------------------ numbers that are only chosen between

CHOICE = Fraction(1, 1 << 13)
"""What a choice allows each score to be off, as a share of the sensitivity."""


@pytest.mark.parametrize("rows", [1 << 20, 1 << 30])
def test_what_coarse_bins_misplace_is_computed_closely_enough(rows: int) -> None:
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
    assert abs(Fraction(found._exact) - exact) <= CHOICE * Fraction(found.sensitivity) / 100


@pytest.mark.parametrize("style", ["one cell", "even", "random"])
def test_what_is_lost_with_the_last_coefficients_is_computed_closely_enough(style: str) -> None:
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
        assert abs(Fraction(loss._exact) - exact) <= CHOICE * Fraction(loss.sensitivity) / 100
