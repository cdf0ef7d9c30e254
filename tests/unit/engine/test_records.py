"""Record fitting: exact books, honest errors, constraints, chunks, and the shapes that break loops."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.engine.record_fitting.goals import MAX_CLIQUES, Goal
from understudy.engine.record_fitting.records import Carry, FitResult, fit_chunk, fit_records, fitting_cliques
from understudy.engine.record_fitting.state import State
from understudy.errors import DataError, WorkloadError
from understudy.marginals import Workload, all_kway, workload_error
from understudy.schema import Clique, Domain

Codes = npt.NDArray[np.uint16]


def named(sizes: list[int]) -> Domain:
    return Domain(tuple(f"c{index}" for index in range(len(sizes))), tuple(sizes))


def draw(domain: Domain, n: int, seed: int) -> Codes:
    """Correlated records: every column is a noisy function of one hidden variable."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(n)
    columns = [
        np.minimum((np.clip(hidden + 0.2 * rng.normal(size=n), 0, 0.999) * size).astype(int), size - 1)
        for size in domain.sizes
    ]
    return np.stack(columns, axis=1).astype(np.uint16) if columns else np.zeros((n, 0), np.uint16)


def count(
    codes: npt.NDArray[np.unsignedinteger], domain: Domain, cliques: tuple[Clique, ...]
) -> list[np.ndarray]:
    """Brute force: one histogram per clique."""
    tables = []
    for clique in cliques:
        table = np.zeros(domain.shape(clique))
        np.add.at(table, tuple(codes[:, domain.index(name)] for name in clique), 1)
        tables.append(table)
    return tables


def distance(
    result: FitResult, domain: Domain, targets: list[np.ndarray], weights: list[float] | None = None
) -> float:
    cliques = result.fitted
    workload = Workload(domain, cliques, tuple(weights or [1.0] * len(cliques)))
    n = len(result.codes)
    scaled = [target * (n / target.sum()) for target in targets]
    return workload_error(workload, scaled, count(result.codes, domain, cliques), n_rows=n)


@pytest.fixture
def problem(seed: int) -> tuple[Domain, tuple[Clique, ...], Codes, list[np.ndarray]]:
    """A sample to move, and the exact marginals of the larger table it was drawn from."""
    domain = named([6, 2, 9, 3, 4])
    cliques = all_kway(domain, 3).cliques
    population = draw(domain, 4000, seed)
    codes = population[np.random.default_rng(seed + 100).integers(0, 4000, 500)]
    return domain, cliques, codes, count(population, domain, cliques)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("temperature", [0.0, 0.1])
def test_the_books_equal_a_recount(problem, norm, temperature, seed):
    domain, cliques, codes, targets = problem
    weights = np.linspace(1, 3, len(cliques))
    goals = [
        Goal(clique, tuple(map(domain.index, clique)), target, float(target.sum()), float(weight))
        for clique, target, weight in zip(cliques, targets, weights, strict=True)
    ]
    squared = norm == "l2"
    state = State(codes, domain.sizes, goals, [], squared=squared, seed=seed, n_rows=500, earlier=None)

    def cost() -> int:
        size = (
            state.books.residual.astype(object) ** 2
            if squared
            else np.abs(state.books.residual.astype(object))
        )
        weight = np.repeat(state._integer_weights(), [goal.values.size for goal in goals])
        return int((size * weight).sum())

    before, change = cost(), 0
    for _ in range(4):
        change += int(state.sweep(temperature, 10**9)[2])
    fresh = State(
        state.records(), domain.sizes, goals, [], squared=squared, seed=seed, n_rows=500, earlier=None
    )
    assert np.array_equal(state.books.residual, fresh.books.residual)
    assert np.array_equal(state.books.near, fresh.books.near)
    assert change != 0
    assert cost() - before == change * 2 * (state.books.unit if squared else 1)


def test_the_reported_error_is_the_workload_error(problem, seed):
    domain, cliques, codes, targets = problem
    weights = [float(index % 3) + 0.5 for index in range(len(cliques))]
    result = fit_records(codes, domain, cliques, targets, weights=weights, seed=seed)
    unmoved = fit_records(codes, domain, cliques, targets, weights=weights, seed=seed, proposals=0)
    assert result.end_error == pytest.approx(distance(result, domain, targets, weights), rel=1e-9)
    assert unmoved.end_error == unmoved.start_error == result.start_error
    assert result.start_error == pytest.approx(distance(unmoved, domain, targets, weights), rel=1e-9)
    assert np.array_equal(unmoved.codes, codes)


def test_fitting_removes_most_of_the_sampling_error(problem, seed):
    domain, cliques, codes, targets = problem
    for temperature in (0.0, None):
        result = fit_records(codes, domain, cliques, targets, seed=seed, temperature=temperature)
        assert result.end_error < 0.5 * result.start_error
        assert 0 < result.accepted <= result.proposals_tried


def test_annealing_beats_descent_on_small_tables(seed):
    domain = named([7, 5, 8, 6])
    cliques = all_kway(domain, 3).cliques
    plain = annealed = 0.0
    for table in range(8):
        population = draw(domain, 4000, seed + table)
        targets = count(population, domain, cliques)
        start = population[:200]
        plain += fit_records(start, domain, cliques, targets, seed=seed, temperature=0.0).end_error
        annealed += fit_records(start, domain, cliques, targets, seed=seed).end_error
    assert annealed < 0.97 * plain


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    n=st.integers(0, 30),
    k=st.integers(1, 4),
    norm=st.sampled_from(["l1", "l2"]),
    seed=st.integers(-(2**63), 2**70),
    data=st.data(),
)
def test_descent_never_increases_the_error(sizes, n, k, norm, seed, data):
    domain = named(sizes)
    cliques = all_kway(domain, k).cliques
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1).astype(np.uint8)
    targets = [rng.gamma(0.3, size=domain.shape(clique)) + 1e-6 for clique in cliques]
    result = fit_records(
        codes, domain, cliques, targets, norm=norm, seed=seed, temperature=0.0, keep_columns=False
    )
    rounding = sum(target.size for target in targets) / 127  # targets are kept to 1/127 record
    assert result.end_error <= result.start_error + rounding / max(n, 1)
    assert result.codes.shape == codes.shape
    assert (result.codes < np.array(sizes)).all()


def test_the_same_seed_gives_the_same_records(problem):
    domain, cliques, codes, targets = problem
    one = fit_records(codes, domain, cliques, targets, seed=3)
    two = fit_records(codes, domain, cliques, targets, seed=3)
    other = fit_records(codes, domain, cliques, targets, seed=4)
    assert np.array_equal(one.codes, two.codes)
    assert not np.array_equal(one.codes, other.codes)


def test_the_input_is_left_alone_and_its_type_kept(problem, seed):
    domain, cliques, codes, targets = problem
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        given_codes = codes.astype(dtype)
        copies = [target.copy() for target in targets]
        result = fit_records(given_codes, domain, cliques, copies, seed=seed, proposals=2000)
        assert result.codes.dtype == dtype
        assert np.array_equal(given_codes, codes)
        assert all(np.array_equal(a, b) for a, b in zip(copies, targets, strict=True))


def test_a_table_that_fits_is_not_touched(problem, seed):
    domain, cliques, codes, _ = problem
    targets = count(codes, domain, cliques)
    for temperature in (0.0, None):
        result = fit_records(codes, domain, cliques, targets, seed=seed, temperature=temperature)
        assert result.end_error == 0.0
    plain = fit_records(codes, domain, cliques, targets, seed=seed, temperature=0.0)
    assert np.array_equal(plain.codes, codes)
    assert plain.accepted == 0


def test_proposals_are_a_limit(problem, seed):
    domain, cliques, codes, targets = problem
    for limit in (0, 1, 7, 600, 2600):
        result = fit_records(codes, domain, cliques, targets, seed=seed, proposals=limit, temperature=0.0)
        assert result.proposals_tried == limit
    many = fit_records(codes, domain, cliques, targets, seed=seed, proposals=10**8, temperature=0.0)
    assert many.proposals_tried < 10**7  # stops when nothing can improve


def test_targets_may_have_any_total_and_be_flat(problem, seed):
    domain, cliques, codes, targets = problem
    base = fit_records(codes, domain, cliques, targets, seed=seed, proposals=5000)
    scaled = [(target / 4096).astype(np.float64) for target in targets]
    flat = [target.ravel() for target in targets]
    backwards = [clique[::-1] for clique in cliques]
    turned = [target.transpose(range(target.ndim)[::-1]) for target in targets]
    for others in ((cliques, scaled), (cliques, flat), (backwards, turned)):
        result = fit_records(codes, domain, *others, seed=seed, proposals=5000)
        assert np.array_equal(result.codes, base.codes)
        assert result.fitted == cliques


def test_weights_decide_who_wins(seed):
    domain = named([2, 2, 2])
    codes = np.zeros((100, 3), np.uint8)
    pairs = (("c0", "c1"), ("c0", "c2"))  # they disagree about c0
    targets = [np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [0.5, 0.5]])]
    for weights, want in (([5.0, 1.0], 0), ([1.0, 5.0], 100)):
        result = fit_records(codes, domain, pairs, targets, weights=weights, keep_columns=False, seed=seed)
        assert int(result.codes[:, 0].sum()) == want
    ignored = fit_records(codes, domain, pairs, targets, weights=[1.0, 0.0], seed=seed)
    assert ignored.fitted == pairs[:1]
    assert ignored.end_error == 0.0


def test_constraints_hold_and_are_repaired(seed):
    domain = named([6, 6, 4, 3])
    codes = draw(domain, 400, seed)
    ordered = np.triu(np.ones((6, 6), bool))  # c0 <= c1
    parity = np.indices((6, 4)).sum(axis=0) % 2 == 0  # c1 + c2 even
    allowed = [(("c0", "c1"), ordered), (("c2", "c1"), parity.T)]
    cliques = all_kway(domain, 2).cliques
    targets = count(draw(domain, 4000, seed + 1), domain, cliques)  # the target itself breaks them
    for norm in ("l1", "l2"):
        result = fit_records(codes, domain, cliques, targets, allowed=allowed, norm=norm, seed=seed)
        fitted = result.codes.astype(int)
        assert result.violations == 0
        assert (fitted[:, 0] <= fitted[:, 1]).all()
        assert ((fitted[:, 1] + fitted[:, 2]) % 2 == 0).all()
        free = fit_records(codes, domain, cliques, targets, norm=norm, seed=seed)
        repaired = fit_records(
            codes, domain, cliques, targets, allowed=allowed, norm=norm, seed=seed, proposals=0
        )
        assert repaired.violations == 0
        assert free.end_error < result.end_error < repaired.end_error


def test_records_no_single_value_can_save_are_still_repaired(seed):
    domain = named([3, 3, 2])
    diagonal = np.zeros((3, 3), bool)
    diagonal[1, 1] = True
    target = [np.ones((3, 2))]
    stuck = np.zeros((5, 3), np.uint8)
    result = fit_records(stuck, domain, [("c0", "c2")], target, allowed=[(("c0", "c1"), diagonal)], seed=seed)
    assert result.violations == 0
    assert (result.codes[:, :2] == 1).all()
    nothing = np.zeros((3, 3), bool)
    result = fit_records(stuck, domain, [("c0", "c2")], target, allowed=[(("c0", "c1"), nothing)], seed=seed)
    assert result.violations == 5


def test_no_records_one_record_one_column_one_value(seed):
    domain = named([4, 1])
    empty = fit_records(np.zeros((0, 2), np.uint8), domain, [("c0", "c1")], [[1, 2, 3, 4]], seed=seed)
    assert empty.codes.shape == (0, 2)
    assert (empty.start_error, empty.end_error, empty.proposals_tried) == (0.0, 0.0, 0)
    one = fit_records(np.zeros((1, 2), np.uint8), domain, [("c0",)], [[0, 0, 1, 0]], seed=seed)
    assert one.codes.tolist() == [[2, 0]]
    assert (one.start_error, one.end_error) == (2.0, 0.0)
    single = fit_records(np.zeros((8, 1), np.uint8), named([4]), [("c0",)], [[1, 1, 1, 1]], seed=seed)
    assert np.bincount(single.codes[:, 0]).tolist() == [2, 2, 2, 2]
    constant = fit_records(np.zeros((3, 2), np.uint8), domain, [("c1",)], [[1]], seed=seed)
    assert constant.proposals_tried == 0
    nothing = fit_records(np.zeros((3, 2), np.uint8), domain, [], [], seed=seed)
    assert (nothing.fitted, nothing.end_error) == ((), 0.0)
    total = fit_records(np.zeros((3, 2), np.uint8), domain, [()], [np.array(7.0)], seed=seed)
    assert total.fitted == ()


@pytest.mark.parametrize(("size", "dtype"), [(256, np.uint8), (65536, np.uint16), (70000, np.uint32)])
def test_codes_at_the_edge_of_their_type(size, dtype, seed):
    domain = named([size, 2])
    target = np.zeros((size, 2))
    target[size - 1, 1] = target[size - 2, 0] = 1.0
    codes = np.zeros((10, 2), dtype)
    codes[:5] = [size - 1, 1]
    result = fit_records(codes, domain, [("c0", "c1")], [target], seed=seed, temperature=0.3, proposals=4000)
    assert result.end_error == 0.0
    assert sorted(result.codes[:, 0].tolist()) == [size - 2] * 5 + [size - 1] * 5


def test_many_columns(seed):
    domain = named([2, 3] * 150)
    codes = np.random.default_rng(seed).integers(0, 2, (60, 300)).astype(np.uint8)
    pairs = tuple(combinations(domain.names, 2))
    share = [np.array([0.7, 0.3]), np.array([0.5, 0.3, 0.2])]
    targets = [np.outer(share[domain.index(a) % 2], share[domain.index(b) % 2]) for a, b in pairs]
    result = fit_records(codes, domain, pairs, targets, seed=seed, proposals=36_000)
    assert result.end_error < 0.5 * result.start_error


def test_an_independent_model_keeps_columns_independent(seed):
    """Fitting pairs of an independent model must not plant structure in triples."""
    domain = named([5, 6, 4, 7])
    rng = np.random.default_rng(seed)
    shares = [rng.dirichlet(np.ones(size)) for size in domain.sizes]
    n = 3000
    codes = np.stack([rng.choice(size, n, p=p) for size, p in zip(domain.sizes, shares, strict=True)], axis=1)
    pairs, triples = all_kway(domain, 2), all_kway(domain, 3)

    def truth(clique: Clique) -> np.ndarray:
        table = np.array(float(n))
        for name in clique:
            table = np.multiply.outer(table, shares[domain.index(name)])
        return table

    result = fit_records(
        codes.astype(np.uint8), domain, pairs.cliques, [truth(c) for c in pairs.cliques], seed=seed
    )
    expected = [truth(clique) for clique in triples.cliques]
    before = workload_error(triples, expected, count(codes, domain, triples.cliques), n_rows=n)
    after = workload_error(triples, expected, count(result.codes, domain, triples.cliques), n_rows=n)
    assert result.end_error < 0.2 * result.start_error
    assert after < before


def test_sparse_marginals_do_not_crowd_records_into_the_likeliest_cells(seed):
    """All cells expect less than half a record: L1 alone would fill the most likely ones."""
    domain = named([30, 30, 30])
    shares = [np.linspace(2, 0.5, 30) / np.linspace(2, 0.5, 30).sum() for _ in range(3)]
    target = np.einsum("a,b,c->abc", *shares)
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.choice(30, 600, p=share) for share in shares], axis=1).astype(np.uint8)
    columns = all_kway(domain, 1)
    wanted = [600 * share for share in shares]

    def column_error(keep: bool) -> float:
        result = fit_records(codes, domain, [domain.names], [target], seed=seed, keep_columns=keep)
        assert result.fitted == (domain.names,)
        assert result.end_error < result.start_error
        return workload_error(columns, wanted, count(result.codes, domain, columns.cliques), n_rows=600)

    start = workload_error(columns, wanted, count(codes, domain, columns.cliques), n_rows=600)
    assert column_error(True) < start < column_error(False)


def test_chunks_make_up_for_each_other(problem, seed):
    domain, cliques, codes, targets = problem
    parts = np.array_split(codes, 5)
    alone = [fit_records(part, domain, cliques, targets, seed=seed).codes for part in parts]
    carry: Carry | None = None
    together = []
    for index, part in enumerate(parts):
        result, carry = fit_chunk(part, domain, cliques, targets, carry=carry, seed=seed + index)
        together.append(result.codes)
    assert carry is not None
    assert carry.rows == 500
    whole = np.concatenate(together)
    scaled = [target * (500 / target.sum()) for target in targets]
    workload = Workload.uniform(domain, cliques)
    chunked = workload_error(workload, scaled, count(whole, domain, cliques), n_rows=500)
    apart = workload_error(workload, scaled, count(np.concatenate(alone), domain, cliques), n_rows=500)
    at_once = fit_records(codes, domain, cliques, targets, seed=seed).end_error
    assert result.end_error == pytest.approx(chunked, rel=1e-9)
    assert at_once < chunked < apart
    assert chunked < 1.6 * at_once
    for held, table in zip(carry.counts, count(whole, domain, carry.fitted), strict=True):
        assert np.array_equal(held, table.ravel())


def test_large_marginals_give_way_to_smaller_ones(problem, seed):
    domain, cliques, codes, targets = problem
    assert fitting_cliques(domain, cliques) == cliques
    few = fitting_cliques(domain, cliques, max_cells=200)
    assert sum(map(domain.cells, few)) <= 200
    assert {len(clique) for clique in few} == {2, 3}
    for name in domain.names:
        assert any(name in clique for clique in few)
    result = fit_records(codes, domain, cliques, targets, max_cells=200, seed=seed)
    assert result.fitted == few
    exact = dict(zip(few, count(draw(domain, 4000, seed), domain, few), strict=True))
    assert result.end_error == pytest.approx(distance(result, domain, [exact[c] for c in few]), rel=1e-9)
    assert fitting_cliques(domain, cliques, max_cells=1) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": []}, "one target per clique"),
        ({"targets": [np.ones((2, 2))]}, "expected \\(2, 3\\)"),
        ({"targets": [np.zeros((2, 3))]}, "positive, finite total"),
        ({"targets": [np.full((2, 3), np.nan)]}, "positive, finite total"),
        ({"cliques": [("c0", "zz")]}, "No column named 'zz'"),
        ({"cliques": [("c0", "c1"), ("c1", "c0")], "targets": [np.ones((2, 3)), np.ones((3, 2))]}, "once"),
        ({"weights": [1.0, 2.0]}, "one weight per clique"),
        ({"weights": [-1.0]}, "not negative"),
        ({"norm": "max"}, "Known: l1, l2"),
        ({"proposals": -1}, "must not be negative"),
        ({"temperature": -0.1}, "must be finite and not negative"),
        ({"allowed": [(("c0",), np.ones(3, bool))]}, "expected \\(2,\\)"),
    ],
)
def test_bad_arguments_are_refused(change, message, seed):
    arguments = {"cliques": [("c0", "c1")], "targets": [np.ones((2, 3))], "seed": seed, **change}
    with pytest.raises(WorkloadError, match=message):
        fit_records(np.zeros((4, 2), np.uint8), named([2, 3]), **arguments)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((4, 3), np.uint8), "one column per column of the domain"),
        (np.zeros((4, 2), np.int64), "unsigned integer codes"),
        (np.full((4, 2), 2, np.uint8), "Columns 'c0' hold codes outside"),
    ],
)
def test_bad_records_are_refused(codes, message, seed):
    with pytest.raises(DataError, match=message):
        fit_records(codes, named([2, 3]), [("c0", "c1")], [np.ones((2, 3))], seed=seed)


def test_a_carry_from_elsewhere_is_refused(seed):
    codes, domain = np.zeros((4, 2), np.uint8), named([2, 3])
    _, carry = fit_chunk(codes, domain, [("c0",)], [[1, 1]], seed=seed)
    with pytest.raises(WorkloadError, match="other cliques"):
        fit_chunk(codes, domain, [("c1",)], [[1, 1, 1]], carry=carry, seed=seed)


def test_of_very_many_marginals_as_many_are_fitted_as_there_is_room_for() -> None:
    """All triples of 110 columns would make every move look at thousands of marginals."""
    domain = Domain(tuple(f"c{i}" for i in range(40)), (2,) * 40)
    few = domain.names[:30]
    assert len(fitting_cliques(domain, list(combinations(few, 3)))) == 4_060
    fitted = fitting_cliques(domain, list(combinations(domain.names, 3)))
    assert len(set(fitted)) == len(fitted) == MAX_CLIQUES
    assert set(combinations(domain.names, 2)) < set(fitted)
    assert fitting_cliques(domain, fitted) == fitted  # those who ask for targets first get the same again
    codes = np.random.default_rng(0).integers(0, 2, (50, 40)).astype(np.uint8)
    triples = list(combinations(domain.names, 3))
    result = fit_records(codes, domain, triples, [np.ones((2, 2, 2))] * len(triples), seed=1, proposals=4_000)
    assert result.end_error < result.start_error
    assert {len(clique) for clique in result.fitted} == {2, 3}


@pytest.mark.parametrize("columns", [35, 50, 64, 110])
def test_marginals_that_are_kept_are_spread_evenly(columns: int) -> None:
    domain = Domain(tuple(f"c{i}" for i in range(columns)), (2,) * columns)
    fitted = fitting_cliques(domain, list(combinations(domain.names, 3)))
    assert len(fitted) == MAX_CLIQUES
    width = 3 if math.comb(columns, 2) < MAX_CLIQUES else 2
    assert {len(clique) for clique in fitted} == {width - 1, width}
    wide = [clique for clique in fitted if len(clique) == width]
    held = Counter(name for clique in wide for name in clique)
    assert max(held.values()) <= 1.25 * min(held[name] for name in domain.names)
    if width == 3:
        pairs = Counter(pair for clique in wide for pair in combinations(clique, 2))
        usual = 3 * len(wide) / math.comb(columns, 2)
        assert max(pairs.values()) <= math.ceil(usual) + 1
        assert len(pairs) >= min(1.0, 0.9 * usual) * math.comb(columns, 2)


def test_triples_of_wide_tables_gain_by_the_triples_that_are_fitted() -> None:
    """Of 33 columns not all triples are fitted: those that are not must lose less of their sampling error, but lose some."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 3, 4_000)
    table = np.stack([(hidden + rng.integers(0, 3, 4_000)) % 4 for _ in range(33)], axis=1).astype(np.uint8)
    domain = Domain(tuple(f"c{i}" for i in range(33)), (4,) * 33)
    triples = list(combinations(domain.names, 3))
    fitted = fitting_cliques(domain, triples)
    targets = count(table, domain, fitted)
    start = table[rng.integers(0, len(table), len(table))].astype(np.uint16)
    pairs = [clique for clique in fitted if len(clique) == 2]
    own = [target for clique, target in zip(fitted, targets, strict=True) if len(clique) == 2]
    by_pairs = fit_records(start, domain, pairs, own, seed=1).codes
    by_all = fit_records(start, domain, fitted, targets, seed=1).codes
    left = tuple(clique for clique in triples if clique not in set(fitted))[::5]
    wanted = count(table, domain, left)

    def off(codes: Codes) -> float:
        both = zip(count(codes, domain, left), wanted, strict=True)
        return float(sum(np.abs(found - real).sum() for found, real in both))

    assert off(by_all) < 0.98 * off(by_pairs) < 0.98 * off(start)


def test_frozen_columns_stay_as_they_are():
    domain = named([3, 3, 2])
    codes = draw(domain, 400, 1)
    target = np.full((3, 3), 1.0)
    result = fit_records(codes, domain, [("c0", "c1")], [target], frozen=["c0"], temperature=0.0, seed=1)
    np.testing.assert_array_equal(result.codes[:, 0], codes[:, 0])
    assert (result.codes[:, 1] != codes[:, 1]).any()
    assert result.end_error < result.start_error
