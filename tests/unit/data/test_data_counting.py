"""The counting kernel against plain loops, at every width of codes and every boundary."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from data_support import all_cliques, brute_force_counts, random_codes
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data.counting import counting as _counting
from understudy.data.counting import kernels as _kernels
from understudy.data.counting.counting import MAX_CELLS, MarginalCounter, code_dtype
from understudy.errors import DomainTooLarge, WorkloadError
from understudy.schema import Domain


def count(sizes, codes, cliques, chunks=1):
    counter = MarginalCounter(Domain.of(sizes), cliques)
    rows = len(next(iter(codes.values())))
    bounds = np.linspace(0, rows, chunks + 1).astype(int)
    typed = {name: codes[name].astype(code_dtype(size)) for name, size in sizes.items()}
    for start, stop in itertools.pairwise(bounds):
        counter.add({name: column[start:stop] for name, column in typed.items()}, rows=int(stop - start))
    return counter.counts()


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 3, 7, 255, 256, 257, 300]), min_size=1, max_size=4),
    rows=st.integers(0, 40),
    chunks=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_marginal_equals_brute_force(sizes, rows, chunks, seed):
    named = {f"c{i}": size for i, size in enumerate(sizes)}
    codes = random_codes(named, rows, seed)
    cliques = [c for c in all_cliques(named, 3) if np.prod([named[n] for n in c]) <= 10**6]
    for clique, counts in zip(cliques, count(named, codes, cliques, chunks), strict=True):
        assert counts.dtype == np.int64
        assert counts.shape == tuple(named[name] for name in clique)
        np.testing.assert_array_equal(counts, brute_force_counts(codes, named, clique, rows))


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 3, 256, 257]), min_size=1, max_size=4),
    rows=st.integers(0, 40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    seed=st.integers(0, 2**32 - 1),
)
def test_partial_counts_add_up_however_the_rows_are_divided(sizes, rows, cuts, seed):
    named = {f"c{i}": size for i, size in enumerate(sizes)}
    codes = random_codes(named, rows, seed)
    typed = {name: codes[name].astype(code_dtype(size)) for name, size in named.items()}
    cliques = [c for c in all_cliques(named, 3) if np.prod([named[n] for n in c]) <= 10**6]
    generator = np.random.default_rng(seed)
    bounds = [0, *sorted(min(cut, rows) for cut in cuts), rows]
    parts = []
    for start, stop in itertools.pairwise(bounds):
        parts.append(MarginalCounter(Domain.of(named), cliques))
        parts[-1].add({name: column[start:stop] for name, column in typed.items()}, rows=stop - start)
    whole = MarginalCounter(Domain.of(named), cliques)
    for place in generator.permutation(len(parts)):
        whole.merge(parts[place].rows, parts[place].state)
    assert whole.rows == rows
    for one, two in zip(whole.counts(), count(named, codes, cliques), strict=True):
        np.testing.assert_array_equal(one, two)


def test_counts_of_other_cliques_are_not_added():
    one = MarginalCounter(Domain.of({"a": 2, "b": 3}), [("a",)])
    two = MarginalCounter(Domain.of({"a": 2, "b": 3}), [("b",)])
    with pytest.raises(ValueError, match="other cliques"):
        one.merge(two.rows, two.state)


@pytest.mark.parametrize("size", [255, 256, 257, 65535, 65536, 65537])
def test_widths_of_codes_at_their_edges(size):
    sizes = {"wide": size, "narrow": 3}
    codes = {"wide": np.array([0, size - 1, size - 1, size // 2]), "narrow": np.array([2, 0, 1, 1])}
    one, both, swapped = count(sizes, codes, [("wide",), ("wide", "narrow"), ("narrow", "wide")])
    np.testing.assert_array_equal(one, brute_force_counts(codes, sizes, ("wide",), 4))
    np.testing.assert_array_equal(both, brute_force_counts(codes, sizes, ("wide", "narrow"), 4))
    np.testing.assert_array_equal(swapped, both.T)
    assert code_dtype(size).itemsize == (1 if size <= 256 else 2 if size <= 65536 else 4)


def test_axes_follow_the_order_asked_for():
    sizes = {"a": 2, "b": 3, "c": 4}
    codes = random_codes(sizes, 50)
    for order in itertools.permutations(sizes):
        (counts,) = count(sizes, codes, [order])
        np.testing.assert_array_equal(counts, brute_force_counts(codes, sizes, order, 50))
        assert counts.flags.c_contiguous


def test_repeated_cliques_get_answers_of_their_own():
    first, second = count({"a": 2}, {"a": np.array([0, 1])}, [("a",), ("a",)])
    first[0] = 99
    assert second.tolist() == [1, 1]


def test_sums_of_larger_cliques_are_used_and_right(monkeypatch):
    sizes = {"a": 4, "b": 5, "c": 6, "d": 2}
    codes = random_codes(sizes, 200)
    cliques = all_cliques(sizes, 3)
    summed = count(sizes, codes, cliques)
    monkeypatch.setattr(_counting, "_SUM_FROM_CELLS", 0)
    counted = count(sizes, codes, cliques)
    for left, right in zip(summed, counted, strict=True):
        np.testing.assert_array_equal(left, right)


def test_many_rows_cross_the_boundaries_of_calls_and_accumulators(monkeypatch):
    monkeypatch.setattr(_kernels, "MAX_ROWS_PER_CALL", 997)
    sizes = {"a": 3, "b": 5, "c": 40}
    codes = random_codes(sizes, 10_007)
    for clique, counts in zip(all_cliques(sizes), count(sizes, codes, all_cliques(sizes), 3), strict=True):
        flat = np.zeros(10_007, np.int64)
        for name in clique:
            flat = flat * sizes[name] + codes[name]
        expected = np.bincount(flat, minlength=counts.size).reshape(counts.shape)
        np.testing.assert_array_equal(counts, expected)


def test_marginal_larger_than_scratch_is_counted_in_place():
    sizes = {"a": 700, "b": 700}
    codes = random_codes(sizes, 5000)
    (counts,) = count(sizes, codes, [("a", "b")])
    expected = np.zeros((700, 700), np.int64)
    np.add.at(expected, (codes["a"], codes["b"]), 1)
    np.testing.assert_array_equal(counts, expected)


def test_wide_table_with_all_pairs():
    sizes = {f"c{i}": 2 + i % 3 for i in range(300)}
    codes = random_codes(sizes, 30)
    pairs = list(itertools.combinations(sizes, 2))
    results = dict(zip(pairs, count(sizes, codes, pairs), strict=True))
    assert len(results) == 44_850
    for clique in pairs[::997]:
        np.testing.assert_array_equal(results[clique], brute_force_counts(codes, sizes, clique, 30))


def test_marginals_that_do_not_fit_are_refused_before_allocating():
    side = 2**14 + 1
    with pytest.raises(DomainTooLarge, match="wider bins") as caught:
        MarginalCounter(Domain.of({"a": side, "b": side}), [("a", "b")])
    assert caught.value.cells == side**2
    assert caught.value.allowed == MAX_CELLS
    with pytest.raises(DomainTooLarge, match="smaller batches"):
        MarginalCounter(
            Domain.of({f"c{i}": 12_000 for i in range(4)}),
            itertools.combinations(["c0", "c1", "c2", "c3"], 2),
        )
    with pytest.raises(DomainTooLarge):
        code_dtype(2**32 + 1)


def test_unknown_and_repeated_columns_are_refused():
    domain = Domain.of({"a": 2})
    with pytest.raises(WorkloadError):
        MarginalCounter(domain, [("b",)])
    with pytest.raises(WorkloadError):
        MarginalCounter(domain, [("a", "a")])


def test_two_threads_count_the_same():
    sizes = {f"c{i}": 5 for i in range(6)}
    codes = random_codes(sizes, 50_000)
    cliques = all_cliques(sizes)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: count(sizes, codes, cliques), range(2))
    for left, right in zip(first, second, strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_record_with_a_weight_counts_as_that_many_rows(monkeypatch):
    monkeypatch.setattr(_kernels, "MAX_ROWS_PER_CALL", 7)
    sizes = {"a": 3, "b": 300, "c": 2}
    codes = random_codes(sizes, 40)
    weights = np.random.default_rng(1).integers(1, 5, 40)
    cliques = list(all_cliques(sizes, 3))
    counter = MarginalCounter(Domain.of(sizes), cliques)
    counter.add({name: codes[name].astype(code_dtype(size)) for name, size in sizes.items()}, weights=weights)
    repeated = {name: np.repeat(column, weights) for name, column in codes.items()}
    for one, two in zip(counter.counts(), count(sizes, repeated, cliques), strict=True):
        assert (one == two).all()
