"""Buckets, bisections and coefficients: exact against brute force, sealed, charged first, and fussy about input."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest

from understudy.curator import Curator, SealedCounts, measure_numbers
from understudy.data import LocalTable
from understudy.errors import BudgetError, BudgetExceeded
from understudy.mechanisms.histograms.partitions.look import SealedBuckets, bisect_ranges, merged_cells
from understudy.mechanisms.histograms.transforms.look import (
    contrasts,
    fourier_coefficients,
    fourier_reach,
    grid_step,
    interaction_basis,
    linear_coefficients,
    linear_reach,
    tail_norms,
)
from understudy.privacy import DiscreteGaussian, Laplace, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Domain, Schema


def seal(counts: object, unit: Unit | None = None) -> SealedCounts:
    table = np.asarray(counts, dtype=np.int64)
    names = tuple("abcdef"[: table.ndim])
    return SealedCounts(
        table,
        clique=names,
        domain=Domain(names, table.shape),
        unit=unit or Unit.add_remove(),
        known_rows=None,
    )


def brute_error(counts: np.ndarray, buckets: int) -> float:
    """Least squared error over every partition into a number of buckets."""
    best = math.inf
    for cuts in itertools.combinations(range(1, len(counts)), buckets - 1):
        pieces = np.split(counts.astype(float), cuts)
        best = min(best, sum(float(((piece - piece.mean()) ** 2).sum()) for piece in pieces))
    return best


@pytest.mark.parametrize("seed_of_counts", range(6))
def test_the_dynamic_programme_is_brute_force(seed_of_counts: int) -> None:
    generator = np.random.default_rng(seed_of_counts)
    counts = generator.integers(0, 30, 9)
    buckets = SealedBuckets(seal(counts), cells=9, buckets=5)
    for number, error in zip(range(1, 6), buckets.totals([1, 2, 3, 4, 5]), strict=True):
        assert error._exact == pytest.approx(math.sqrt(brute_error(counts, number)), abs=1e-9)
    for end, number in ((9, 3), (7, 4), (3, 2)):
        found = buckets.last_bucket(end=end, buckets=number)
        assert len(found) == end - number + 1
        for start, error in zip(range(number - 1, end), found, strict=True):
            last = counts[start:end].astype(float)
            wanted = brute_error(counts[:start], number - 1) + ((last - last.mean()) ** 2).sum()
            assert error._exact == pytest.approx(math.sqrt(wanted), abs=1e-9)


def test_counts_are_capped_before_squared_errors() -> None:
    counts = np.array([3, 100, 7, 0])
    capped = SealedBuckets(seal(counts), cells=4, buckets=2, max_count=10)
    assert capped.totals([1])[0]._exact == pytest.approx(brute_error(np.minimum(counts, 10), 1))
    assert capped.sensitivity == pytest.approx(19 * 0.75)
    assert capped.totals([4])[0]._exact == 0


def test_large_counts_lose_no_digits() -> None:
    """Squared errors near 1 among counts near 2**30, where sums of squares would cancel to nothing."""
    counts = np.full(50, 2**30)
    counts[7] += 1
    found = SealedBuckets(seal(counts), cells=50, buckets=2).totals([1])[0]._exact
    assert found == pytest.approx(math.sqrt(1 - 1 / 50), rel=1e-9)


def test_only_the_ordered_cells_are_cut() -> None:
    with_missing = SealedBuckets(seal([5, 5, 1, 1, 999]), cells=4, buckets=2)
    assert with_missing.totals([2])[0]._exact == 0


def curator_of(counts: list[int], epsilon: float = 1.0) -> Curator:
    schema = Schema.parse(
        f"name: t\ncolumns: [{{name: a, kind: integer, minimum: 0, maximum: {len(counts) - 1}}}]"
    )
    table = LocalTable(schema, {"a": np.repeat(np.arange(len(counts)), counts).astype(np.uint16)})
    unit = Unit.add_remove()
    book = Ledger.in_memory(budget=PureDP(epsilon), unit=unit, table="t")
    return Curator(table, unit=unit, ledger=book, randomness=SeededRandomness(0))


def test_bisections_charge_once_for_all_ranges() -> None:
    curator = curator_of([50, 50, 0, 0, 9, 9, 9, 9], epsilon=40.0)
    sealed = curator.counts(("a",))
    cuts = bisect_ranges(curator, sealed, [(0, 4), (4, 8)], price=5.0, epsilon=30.0, purpose="cut")
    assert cuts == [[2], []]
    assert curator.spent == pytest.approx(30.0)
    with pytest.raises(BudgetExceeded):
        bisect_ranges(curator, sealed, [(0, 4)], price=5.0, epsilon=30.0, purpose="cut")


@pytest.mark.parametrize("parts", [[], [(0, 1)], [(0, 3), (2, 4)], [(0, 9)], [(-1, 3)]])
def test_bisections_refuse_ranges_that_are_none(parts: list[tuple[int, int]]) -> None:
    curator = curator_of([1, 2, 3, 4])
    with pytest.raises(BudgetError):
        bisect_ranges(curator, curator.counts(("a",)), parts, price=1.0, epsilon=0.1, purpose="cut")
    assert curator.spent == 0


@pytest.mark.parametrize(("price", "epsilon"), [(-1.0, 0.1), (math.nan, 0.1), (1.0, 0.0), (1.0, math.inf)])
def test_bisections_refuse_numbers_that_make_no_sense(price: float, epsilon: float) -> None:
    curator = curator_of([1, 2, 3, 4])
    with pytest.raises(BudgetError):
        bisect_ranges(curator, curator.counts(("a",)), [(0, 4)], price=price, epsilon=epsilon, purpose="cut")
    assert curator.spent == 0


def test_merged_cells_sum_and_must_be_numbered_without_gaps() -> None:
    sealed = seal([[1, 2], [3, 4]], Unit.replace_one())
    merged = merged_cells(sealed, [[0, 1], [1, 0]])
    assert merged._exact.tolist() == [5, 5]
    assert (merged.l1, merged.shape) == (2.0, (2,))
    assert merged_cells(sealed, np.zeros((2, 2))).l1 == 1.0
    for wrong in ([[0, 2], [2, 0]], [0, 1, 1, 0], [[-1, 0], [0, 0]]):
        with pytest.raises(BudgetError, match="without gaps"):
            merged_cells(sealed, wrong)


@pytest.mark.parametrize(("cells", "buckets"), [(0, 1), (5, 1), (4, 5), (4, 0)])
def test_buckets_refuse_what_cannot_be_cut(cells: int, buckets: int) -> None:
    with pytest.raises(BudgetError):
        SealedBuckets(seal([1, 2, 3, 4]), cells=cells, buckets=buckets)


def test_bucket_errors_refuse_questions_out_of_range() -> None:
    buckets = SealedBuckets(seal([1, 2, 3, 4, 5]), cells=5, buckets=3)
    for end, number in ((2, 3), (5, 4), (5, 1), (6, 2)):
        with pytest.raises(BudgetError):
            buckets.last_bucket(end=end, buckets=number)
    with pytest.raises(BudgetError):
        buckets.totals([4])
    with pytest.raises(BudgetError):
        SealedBuckets(seal([[1, 2]]), cells=1, buckets=1)
    with pytest.raises(BudgetError):
        SealedBuckets(seal([1, 2]), cells=2, buckets=1, max_count=0)


def test_nothing_can_be_read_from_a_seal() -> None:
    coefficients = linear_coefficients(seal([7, 0]), np.eye(2), name="c", step=2.0**-20)
    buckets = SealedBuckets(seal([7, 123456]), cells=2, buckets=2)
    for sealed in (coefficients, buckets):
        assert "7" not in repr(sealed).replace("l1=", "")
        with pytest.raises(TypeError):
            pickle.dumps(sealed)
    for read in (np.asarray, bool, lambda item: item == 1):
        with pytest.raises(TypeError):
            read(coefficients)


@pytest.mark.parametrize("size", [2, 3, 4, 7, 10])
def test_contrasts_are_orthogonal_and_every_column_weighs_the_same(size: int) -> None:
    made = contrasts(size)
    np.testing.assert_allclose(made @ made.T, size * np.eye(size - 1), atol=1e-12)
    np.testing.assert_allclose(made.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.square(made).sum(axis=0), size - 1, atol=1e-12)


def test_one_value_has_no_contrast() -> None:
    assert contrasts(1).shape == (0, 1)
    assert interaction_basis(Domain(("a", "b"), (1, 3)), ("a", "b")).shape == (0, 3)


def test_coefficients_are_whole_steps_and_exact() -> None:
    counts = np.array([3, 1, 4])
    basis = np.vstack([np.ones(3), contrasts(3)])
    sealed = linear_coefficients(seal(counts), basis, name="c", step=2.0**-20)
    np.testing.assert_allclose(sealed._exact * sealed.step, basis @ counts, atol=3 * 8 * 2.0**-20)
    assert sealed._exact.dtype == np.int64


def test_walsh_hadamard_coefficients_of_binary_columns() -> None:
    domain = Domain(("a", "b"), (2, 2))
    table = np.array([[5, 1], [2, 9]])
    parts = [(), ("a",), ("b",), ("a", "b")]
    marginals = [
        SealedCounts(np.asarray(counts), clique=part, domain=domain, unit=Unit.add_remove(), known_rows=None)
        for part, counts in zip(parts, [table.sum(), table.sum(1), table.sum(0), table], strict=True)
    ]
    sealed = fourier_coefficients(marginals, domain, [1.0] * 4, unit=Unit.add_remove(), step=2.0**-20)
    assert (sealed._exact * sealed.step).tolist() == [17, -5, -3, 11]
    assert sealed.reach.l1 == pytest.approx(4, rel=1e-5)
    with pytest.raises(BudgetError):
        fourier_coefficients(marginals, domain, [1.0, 0.0, 1.0, 1.0], unit=Unit.add_remove(), step=2.0**-20)


def test_many_columns_fall_back_to_a_coarser_bound() -> None:
    """Beyond 14 columns the patterns of agreement are not enumerated; the bound is still a bound."""
    names = tuple(f"c{i:02d}" for i in range(16))
    domain = Domain(names, (2,) * 16)
    parts = [(name,) for name in names]
    wide = fourier_reach(domain, parts, [1.0] * 16, Unit.replace_one())
    narrow = fourier_reach(domain, parts[:14], [1.0] * 14, Unit.replace_one())
    assert wide.l1 == pytest.approx(32, rel=1e-4)
    assert narrow.l1 == pytest.approx(28, rel=1e-4)
    assert wide.l2 == pytest.approx(8, rel=1e-4)


def test_many_cells_fall_back_to_twice_the_largest_column() -> None:
    basis = np.ones((9_000, 60)) / 100
    exact = linear_reach(basis[:10], Unit.replace_one())
    assert exact.l1 == pytest.approx(0.1, rel=1e-3), (
        "constant columns cannot be told apart: single rows are worst"
    )
    assert linear_reach(basis, Unit.replace_one()).l1 == pytest.approx(2 * 90, rel=1e-2)


def test_the_grid_is_coarser_only_under_enormous_noise() -> None:
    assert grid_step(1.0) == 2.0**-20
    assert grid_step(2.0**18) == 2.0**-20
    assert grid_step(2.0**30) == 2.0**-8


def test_tails_need_an_orthonormal_basis() -> None:
    sealed = seal([3, 4])
    assert [item._exact for item in tail_norms(sealed, np.eye(2), [0, 1, 2])] == [5.0, 4.0, 0.0]
    for wrong in (np.ones((2, 2)), np.eye(3), 2 * np.eye(2)):
        with pytest.raises(BudgetError, match="orthonormal"):
            tail_norms(sealed, wrong, [1])


def test_coefficients_are_charged_before_they_are_drawn() -> None:
    curator = curator_of([3, 1, 4], epsilon=1.0)
    sealed = linear_coefficients(curator.counts(("a",)), np.eye(3), name="c", step=2.0**-20)
    with pytest.raises(BudgetExceeded):
        measure_numbers(curator, [sealed], noise=[Laplace(0.5)], purpose="measure")[0]
    assert curator.spent == 0
    with pytest.raises(BudgetError, match="no cost in the pure accounting"):
        measure_numbers(curator, [sealed], noise=[DiscreteGaussian(5.0)], purpose="measure")[0]
    released = measure_numbers(curator, [sealed], noise=[Laplace(1.001)], purpose="measure")[0]
    assert released.noise == "laplace"
    assert 0.99 < curator.spent <= 1
    with pytest.raises(BudgetError):
        linear_coefficients(curator.counts(("a",)), np.full((1, 3), np.nan), name="c", step=2.0**-20)
