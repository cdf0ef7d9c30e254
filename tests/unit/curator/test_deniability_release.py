"""Parts, entropies, moments, lazy counts and seed-based release: what the curator does with records."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import ClassVar

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.curator.sealed import ENTROPY_WIDTH, entropy_of, entropy_sensitivity
from understudy.data import LocalTable
from understudy.errors import BudgetError, BudgetExceeded, NoSuchGuarantee
from understudy.mechanisms.deniability.bounds import SeedTest
from understudy.mechanisms.deniability.look import (
    counts_event,
    entropy_event,
    moments_event,
    open_parts,
    records_event,
    rows_event,
)
from understudy.mechanisms.deniability.network import (
    Conditional,
    NetworkSeedModel,
    _whole_numbers,
    omega_range,
    plausibly_deniable,
    scan_plausible,
)
from understudy.privacy import ApproxDP, Gaussian, Laplace, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.privacy.events import Composed, LaplaceEvent
from understudy.schema import Categorical, Domain, Schema

ADD, REPLACE = Unit.add_remove(), Unit.replace_one()


def schema(*sizes: int) -> Schema:
    return Schema(
        columns=tuple(
            Categorical(f"c{index}", values=tuple(str(value) for value in range(size)))
            for index, size in enumerate(sizes)
        )
    )


def curator(codes: np.ndarray, *sizes: int, unit: Unit = ADD, epsilon: float = 1e6) -> Curator:
    shape = schema(*sizes)
    table = LocalTable(shape, {name: codes[:, index] for index, name in enumerate(shape.names)})
    ledger = Ledger.in_memory(
        budget=ApproxDP(epsilon, 1e-2), unit=unit, table="t", approximate_delta=5e-3, accounting="gdp"
    )
    return Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(3))


def random_network(
    seed: int, omega: tuple[int, ...], sizes: tuple[int, ...] = (3, 4, 2, 3)
) -> NetworkSeedModel:
    """A random network in an order that is not the domain's, with coarse parents and impossible values."""
    generator = np.random.default_rng(seed)
    shape = schema(*sizes).domain
    order = generator.permutation(len(sizes))
    conditionals = []
    for position, column in enumerate(order):
        parents = [int(p) for p in order[:position] if generator.random() < 0.7]
        buckets = [generator.permutation(np.arange(sizes[p]) % max(1, sizes[p] - 1)) for p in parents]
        table = generator.dirichlet(
            np.ones(sizes[column]) * 0.5, size=tuple(int(b.max()) + 1 for b in buckets)
        )
        table = np.where(table < 0.05, 0.0, table)
        table = table / table.sum(axis=-1, keepdims=True)
        conditionals.append(
            Conditional(
                shape.names[column], tuple(shape.names[p] for p in parents), tuple(buckets), np.array(table)
            )
        )
    return NetworkSeedModel(shape, tuple(conditionals), omega)


# ---------------------------------------------------------------------------------------- networks


@pytest.mark.parametrize("omega", [(1,), (2, 3), (1, 2, 3, 4), (4,), (3,)])
@pytest.mark.parametrize("gamma", [1.3, 4.0])
def test_prefix_counts_equal_a_scan(omega: tuple[int, ...], gamma: float, seed: int) -> None:
    net = random_network(seed, omega)
    generator = np.random.default_rng(seed)
    seeds = np.stack([generator.integers(0, size, 300) for size in net.domain.sizes], axis=1)
    words = SeededRandomness(seed).words(300 * net.words_per_record).reshape(300, -1)
    candidates = net.propose(seeds, words)
    types, counts = np.unique(seeds, axis=0, return_counts=True)
    fast = net.plausible(candidates, seeds, types, counts, gamma)
    slow = scan_plausible(net.probability, candidates, seeds, types, counts, gamma)
    np.testing.assert_array_equal(fast, slow)
    assert (fast >= 1).all()  # a seed is plausible for its own candidate


def test_candidates_keep_the_first_columns_of_the_resampling_order() -> None:
    net = random_network(1, (2,))
    seeds = np.zeros((500, 4), dtype=np.int64)
    words = SeededRandomness(1).words(500 * 5).reshape(500, 5)
    made = net.propose(seeds, words)
    kept = [net.domain.index(name) for name in net.order[:2]]
    assert (made[:, kept] == 0).all()
    assert made.any()


def test_probabilities_of_all_candidates_add_up_to_one() -> None:
    net = random_network(2, (1, 3, 4))
    cells = np.stack(np.unravel_index(np.arange(net.domain.cells()), net.domain.sizes), axis=1)
    for seed in cells[::7]:
        assert sum(net.probability(y, seed[None])[0] for y in cells) == pytest.approx(1.0)


def test_resampling_everything_is_recognised_as_free() -> None:
    assert random_network(0, (4,)).seed_free
    assert not random_network(0, (3, 4)).seed_free


def test_whole_number_probabilities() -> None:
    table = np.array([[0.1, 0.2, 0.7], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    whole = _whole_numbers(table)
    assert (whole.sum(axis=1) == 1 << 53).all()
    assert (whole >= 0).all()
    np.testing.assert_allclose(whole[0] / 2**53, table[0], atol=1e-15)


def test_networks_that_make_no_sense() -> None:
    domain = Domain(("a", "b"), (2, 2))
    a = Conditional("a", ("b",), (np.arange(2),), np.full((2, 2), 0.5))
    b = Conditional("b", (), (), np.full(2, 0.5))
    with pytest.raises(BudgetError, match="cycle"):
        NetworkSeedModel(domain, (a, b), (1,))
    with pytest.raises(BudgetError, match="one conditional"):
        NetworkSeedModel(domain, (b,), (1,))
    for omega in ((), (0,), (3,), (1, 1)):
        with pytest.raises(BudgetError, match="omega"):
            NetworkSeedModel(domain, (b, Conditional("a", (), (), np.full(2, 0.5))), omega)
    with pytest.raises(BudgetError, match="omega"):
        omega_range((3, 2), 4)
    with pytest.raises(BudgetError, match="omega"):
        omega_range(5, 4)


# ---------------------------------------------------------------------------------------- parts


def test_every_row_is_in_exactly_one_part_and_parts_do_not_look_at_rows() -> None:
    codes = np.stack([np.arange(3000) % 50, np.arange(3000) // 60], axis=1)
    box = curator(codes, 50, 50)
    noise = Laplace(1.0)
    event = counts_event(ADD, noise)
    parts = open_parts(box, [[event]] * 3, shares=(0.2, 0.3, 0.5), purpose="split")
    total = sum(part._table.count(("c0", "c1")) for part in parts)
    np.testing.assert_array_equal(total, box._table.count(("c0", "c1")))
    sizes = [part._table.exact_row_count() for part in parts]
    # binomial with standard deviations up to 27.4; seven of them are passed once in 4e11 splits
    assert abs(sizes[0] - 600) < 160
    assert abs(sizes[1] - 900) < 190
    rows_of_first_column = parts[2]._table.count(("c0",))
    assert (rows_of_first_column > 0).all()


def test_disjoint_parts_pay_the_dearest_under_add_remove_and_two_under_replacement() -> None:
    codes = np.zeros((10, 2), dtype=np.int64)
    for unit, expected in ((ADD, 0.7), (REPLACE, 0.7 + 0.5)):
        box = curator(codes, 2, 2, unit=unit)
        cheap = counts_event(unit, Laplace(unit.histogram_l1 / 0.5))
        dear = counts_event(unit, Laplace(unit.histogram_l1 / 0.7))
        open_parts(box, [[cheap], [dear], [cheap]], shares=(0.3, 0.3, 0.4), purpose="split")
        assert float(box.ledger.spending.sums["pure"] or 0) == pytest.approx(expected)
    box = curator(codes, 2, 2)
    open_parts(box, [[cheap], [dear]], shares=None, purpose="whole")
    assert float(box.ledger.spending.sums["pure"] or 0) > 1.0


def test_an_act_that_was_not_paid_for_is_refused() -> None:
    box = curator(np.zeros((20, 2), dtype=np.int64), 2, 3)
    noise = Laplace(2.0)
    (part,) = open_parts(box, [[counts_event(ADD, noise)]], shares=None, purpose="one marginal")
    everything = {"c0": np.arange(2), "c1": np.arange(3)}
    assert part.measure([everything], noise=noise)[0].shape == (2, 3)
    for act in (
        lambda: part.measure([everything], noise=noise),
        lambda: part.measure([everything], noise=Laplace(3.0)),
        lambda: part.entropies([everything], noise=noise, at_least=10),
        lambda: part.row_count(noise),
        lambda: part.moments({"c0": np.arange(2)}, "c1", [0, 0.5, 1], noise=noise),
    ):
        with pytest.raises(BudgetError, match="not paid for"):
            act()
    assert "20" not in repr(part)


def test_a_split_that_cannot_be_paid_reads_nothing() -> None:
    box = curator(np.zeros((20, 2), dtype=np.int64), 2, 3, epsilon=0.1)
    with pytest.raises(BudgetExceeded):
        open_parts(box, [[counts_event(ADD, Laplace(1.0))]], shares=None, purpose="too dear")
    assert box.ledger.spent == 0
    for shares in ((0.5,), (0.5, 0.6), (1.0, 0.0)):
        with pytest.raises(BudgetError):
            open_parts(box, [[counts_event(ADD, Laplace(1e3))]] * 2, shares=shares, purpose="bad shares")


# ---------------------------------------------------------------------------------------- entropies


def padded_entropy(counts: np.ndarray, at_least: int) -> float:
    return entropy_of(np.append(counts, max(0, at_least - int(counts.sum()))))


@pytest.mark.parametrize("at_least", [1, 2, 5, 9])
def test_entropy_of_a_filled_up_table_has_the_sensitivity_charged(at_least: int) -> None:
    """All tables of up to 9 rows in 3 cells, and every row that could join them."""
    bound = entropy_sensitivity(ADD, cells=4, known_rows=at_least)
    worst = 0.0
    for rows in range(10):
        for table in combinations_with_replacement(range(3), rows):
            counts = np.bincount(np.array(table, dtype=np.int64), minlength=3)
            for cell in range(3):
                more = counts.copy()
                more[cell] += 1
                change = abs(padded_entropy(more, at_least) - padded_entropy(counts, at_least))
                worst = max(worst, change)
                assert change <= bound + 1e-12
    assert worst > 0.3 * bound  # the bound is not idle


def test_a_noisy_number_of_rows_in_the_sensitivity_is_wrong() -> None:
    """The paper's sensitivity at a number of rows that noise made too large is below the true change."""
    n, noisy = 10, 40
    paper = math.log(2) * (2 + 1 / math.log(2) + 2 * math.log2(noisy)) / noisy
    spread, lumped = np.array([n, 0]), np.array([n - 1, 1])
    ours = entropy_sensitivity(REPLACE, cells=2, known_rows=n)
    assert abs(entropy_of(spread) - entropy_of(lumped)) <= ours + 1e-12
    assert entropy_sensitivity(REPLACE, cells=100, known_rows=2) > paper


def test_entropies_are_close_when_the_noise_is_small() -> None:
    codes = np.stack([np.arange(4000) % 4, np.arange(4000) % 2], axis=1)
    for unit in (ADD, REPLACE):
        box = curator(codes, 4, 2, unit=unit)
        noise = Laplace(0.01)
        plan = [entropy_event(noise)] * 2
        (part,) = open_parts(box, [plan], shares=None, purpose="entropies")
        one, two = part.entropies(
            [{"c0": np.array([0, 0, 1, 1])}, {"c0": np.arange(4), "c1": np.arange(2)}],
            noise=noise,
            at_least=3900,
        )
        assert one == pytest.approx(math.log(2), abs=1e-3)
        assert two == pytest.approx(math.log(4), abs=1e-3)


@pytest.mark.parametrize("rows", [2, 1000, 10**6])
def test_an_entropy_moves_by_no_more_than_is_charged(rows: int) -> None:
    """The table of one kind of record and its neighbour attain the bound; the steps of the grid are compared with those of the event.

    0.1.0 charged two steps more than the sensitivity where its own proof needed 129.
    """
    noise = Laplace(2.0)
    event = entropy_event(noise)
    assert isinstance(event, LaplaceEvent)
    reach = Fraction(entropy_sensitivity(REPLACE, cells=2, known_rows=rows) + 2 * ENTROPY_WIDTH)
    step = reach / 2**20
    places = [round(Fraction(entropy_of(np.array(counts))) / step) for counts in ([rows, 0], [rows - 1, 1])]
    moved = abs(places[0] - places[1])
    assert 0.99 * 2**20 < moved <= event.l1_sensitivity == 2**20 + 1


def test_a_wrong_guess_of_the_rows_costs_utility_not_privacy() -> None:
    box = curator(np.zeros((10, 2), dtype=np.int64), 4, 2)
    noise = Laplace(0.01)
    (part,) = open_parts(box, [[entropy_event(noise)]], shares=None, purpose="entropy")
    (value,) = part.entropies([{"c0": np.arange(4)}], noise=noise, at_least=1000)
    assert value == pytest.approx(entropy_of(np.array([10, 990])), abs=1e-2)  # the imaginary rows show


# ---------------------------------------------------------------------------------------- moments, lazy counts


@pytest.mark.parametrize("unit", [ADD, REPLACE])
def test_moments_and_their_sensitivity(unit: Unit, seed: int) -> None:
    generator = np.random.default_rng(seed)
    positions = np.linspace(0, 1, 5)
    noise = Laplace(1e-4)
    previous: tuple[np.ndarray, np.ndarray] | None = None
    for codes in (generator.integers(0, 2, (40, 2)), None):
        if codes is None:
            assert previous is not None
            codes = previous[0].copy()
            codes[0] = 1 - codes[0] if unit is REPLACE else codes[0]
            codes = codes if unit is REPLACE else codes[1:]
        box = curator(codes, 2, 5, unit=unit)
        (part,) = open_parts(box, [[moments_event(unit, noise)]], shares=None, purpose="moments")
        values = part.moments({"c0": np.arange(2)}, "c1", positions, noise=noise)
        expected = np.zeros((2, 3))
        for row in codes:
            u = positions[row[1]]
            expected[row[0]] += (1, u, u * u)
        np.testing.assert_allclose(values, expected, atol=0.01)
        if previous is not None:
            assert np.abs(expected - previous[1]).sum() <= 3 * unit.histogram_l1 + 1e-9
            assert np.sqrt(((expected - previous[1]) ** 2).sum()) <= math.sqrt(3) * unit.histogram_l2 + 1e-9
        previous = (codes, expected)
    event = moments_event(unit, Laplace(6.0))
    assert PURE.cost(event) == pytest.approx(3 * unit.histogram_l1 / 6)


def test_lazy_rows_are_drawn_once_and_never_travel() -> None:
    codes = np.stack([np.arange(600) % 3, np.arange(600) % 4, np.arange(600) % 2], axis=1)
    box = curator(codes, 3, 4, 2)
    noise = Gaussian(5.0)
    groups = {"c0": np.arange(3), "c1": np.array([0, 0, 1, 1]), "c2": np.arange(2)}
    plan = [counts_event(ADD, noise)] * 2
    (part,) = open_parts(box, [plan], shares=None, purpose="lazily drawn tables")
    lazy, other = part.lazy_counts(groups, "c2", noise=noise), part.lazy_counts(groups, "c2", noise=noise)
    assert lazy.shape == (3, 2)
    first = {(a, b): lazy.row((a, b)) for a in range(3) for b in range(2)}
    for key in reversed(list(first)):
        np.testing.assert_array_equal(lazy.row(key), first[key])  # same noise, whatever the order
    drawn = np.array([first[key] for key in first])
    assert not np.array_equal(drawn, np.array([other.row(key) for key in first]))  # another key
    exact = box._table.count(("c0", "c1", "c2"))
    assert np.abs(drawn.sum() - exact.sum()) < 8 * 5 * math.sqrt(12)
    with pytest.raises(TypeError):
        pickle.dumps(lazy)
    with pytest.raises(BudgetError, match="no such"):
        lazy.row((3, 0))
    assert "key" not in repr(lazy)


def test_lazy_rows_without_noise_are_the_marginal() -> None:
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 3, (500, 2))
    box = curator(codes, 3, 3)
    noise = Laplace(0.02)
    (part,) = open_parts(box, [[counts_event(ADD, noise)]], shares=None, purpose="lazy")
    lazy = part.lazy_counts({"c0": np.arange(3), "c1": np.arange(3)}, "c1", noise=noise)
    exact = box._table.count(("c0", "c1"))
    for value in range(3):
        np.testing.assert_array_equal(lazy.row((value,)), exact[value])


# ---------------------------------------------------------------------------------------- release


class Keeps(NetworkSeedModel):
    """A generator that keeps the seeds it is handed."""

    seen: ClassVar[list[np.ndarray]] = []

    def propose(self, seeds: np.ndarray, words: np.ndarray) -> np.ndarray:
        self.seen.append(seeds)
        return seeds


def test_a_generator_from_outside_is_refused_before_it_is_handed_a_seed() -> None:
    """Any object with the methods was taken until 0.1, and was handed the seeds."""
    box = curator(np.repeat(np.arange(3)[:, None], 2, axis=1).repeat(100, axis=0), 3, 3)
    test = SeedTest(k=20, gamma=2.0, epsilon0=1.0, min_seeds=200)
    event = records_event(test, unit=ADD, records=10, delta=1e-3)
    (part,) = open_parts(box, [[event]], shares=None, purpose="records")
    laws = tuple(Conditional(name, (), (), np.ones(3) / 3) for name in box.domain.names)
    with pytest.raises(BudgetError, match="not Keeps"):
        part.release(Keeps(box.domain, laws, omega=(1,)), test, records=10, event=event)
    assert not Keeps.seen
    net = NetworkSeedModel(box.domain, laws, omega=(1,))
    object.__setattr__(net, "propose", Keeps.propose.__get__(Keeps(box.domain, laws, omega=(1,))))
    assert part.release(net, test, records=10, event=event).shape == (10, 2)
    assert not Keeps.seen  # what was put on the object is not asked


def test_rare_seeds_leave_no_trace() -> None:
    """Each seed stands alone, far below k: everything that comes out is seed-free."""
    domain = Domain(("c0", "c1"), (200, 2))
    first = Conditional("c0", (), (), np.eye(200)[0])
    second = Conditional("c1", (), (), np.array([0.5, 0.5]))
    net = NetworkSeedModel(domain, (first, second), (1,))
    codes = np.stack([np.arange(1, 200), np.zeros(199, dtype=np.int64)], axis=1)
    box = curator(codes, 200, 2)
    test = SeedTest(k=50, gamma=4.0, epsilon0=1.0, min_seeds=100)
    event = records_event(test, unit=ADD, records=500, delta=1e-3)
    (part,) = open_parts(box, [[event]], shares=None, purpose="records")
    made = part.release(net, test, records=500, event=event)
    assert (made[:, 0] == 0).all()  # a seed would pass with probability exp(-49)


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("attempts", [1, 3])
def test_small_seed_tables_are_filled_up(rows: int, attempts: int) -> None:
    net = random_network(3, (2, 4))
    codes = np.zeros((rows, 4), dtype=np.int64)
    box = curator(codes, 3, 4, 2, 3)
    test = SeedTest(k=30, gamma=4.0, epsilon0=1.0, min_seeds=50, attempts=attempts)
    event = records_event(test, unit=ADD, records=40, delta=4e-3)
    (part,) = open_parts(box, [[event]], shares=None, purpose="records")
    released = part.release(net, test, records=40, event=event)
    assert released.shape == (40, 4)
    assert (released >= 0).all()
    assert (released < np.array([3, 4, 2, 3])).all()


def test_a_release_must_be_the_one_that_was_charged() -> None:
    net = random_network(3, (2, 4))
    box = curator(np.zeros((50, 4), dtype=np.int64), 3, 4, 2, 3)
    test = SeedTest(k=30, gamma=4.0, epsilon0=1.0, min_seeds=50)
    event = records_event(test, unit=ADD, records=10, delta=1e-3)
    (part,) = open_parts(box, [[event]], shares=None, purpose="records")
    with pytest.raises(BudgetError, match="does not describe"):
        part.release(net, test, records=11, event=event)
    looser = SeedTest(k=29, gamma=4.0, epsilon0=1.0, min_seeds=50)
    with pytest.raises(BudgetError, match="does not describe"):
        part.release(net, looser, records=10, event=event)
    part.release(net, test, records=10, event=event)
    with pytest.raises(BudgetError, match="not paid for"):
        part.release(net, test, records=10, event=event)


def test_max_check_examines_that_many_seeds() -> None:
    net = random_network(3, (2, 4))
    box = curator(np.zeros((500, 4), dtype=np.int64), 3, 4, 2, 3)
    test = SeedTest(k=30, gamma=4.0, epsilon0=1.0, min_seeds=50, max_check=60, max_plausible=40)
    event = records_event(test, unit=ADD, records=3, delta=4e-3)
    (part,) = open_parts(box, [[event]], shares=None, purpose="records")
    assert part.release(net, test, records=3, event=event).shape == (3, 4)


def test_refusals() -> None:
    test = SeedTest(k=3, gamma=4.0, epsilon0=0.1, min_seeds=50)
    with pytest.raises(NoSuchGuarantee, match="Raise k"):
        records_event(test, unit=ADD, records=100, delta=1e-9)
    with pytest.raises(NoSuchGuarantee, match="single rows"):
        records_event(test, unit=Unit.add_remove_person("id", max_rows=2), records=1, delta=1e-3)
    pure = Ledger.in_memory(budget=PureDP(100.0), unit=ADD, table="t")
    shape = schema(2, 2)
    box = Curator(LocalTable(shape, {"c0": np.zeros(5, int), "c1": np.zeros(5, int)}), unit=ADD, ledger=pure)
    good = SeedTest(k=50, gamma=4.0, epsilon0=1.0, min_seeds=1000)
    event = records_event(good, unit=ADD, records=1, delta=1e-6)
    with pytest.raises(BudgetExceeded):  # a pure ledger has no delta to spend
        open_parts(box, [[event]], shares=None, purpose="records")
    assert rows_event(ADD, Laplace(2.0)) == rows_event(ADD, Laplace(2.0))
    assert isinstance(Composed((event,)).events[0], type(event))


# ---------------------------------------------------------------------------------------- Privacy Test 1


@pytest.mark.parametrize("number", range(6))
def test_privacy_test_one_is_the_definition(number: int) -> None:
    """Passing means: k records, the seed among them, generate the candidate within a factor gamma of it."""
    generator = np.random.default_rng(number)
    net = random_network(number, (1, 4))
    table = np.stack([generator.integers(0, size, 80) for size in (3, 4, 2, 3)], axis=1)
    seeds = table[generator.integers(0, 80, 60)]
    words = generator.integers(0, 2**64, (60, net.words_per_record), dtype=np.uint64)
    candidates = net.propose(seeds, words)
    k, gamma = 5, 3.0
    passed = plausibly_deniable(net, candidates, seeds, table=table, k=k, gamma=gamma)
    assert passed.any()
    assert not passed.all()
    for y, own, ok in zip(candidates, seeds, passed, strict=True):
        chances = net.probability(y, table)
        mine = net.probability(y, own[None, :])[0]
        level = np.floor(-np.log(mine) / np.log(gamma))
        low, high = gamma ** (-level - 1), gamma**-level
        plausible = ((chances > low) & (chances <= high)).sum()
        assert ok == (plausible >= k)
        if ok:
            within = (chances > 0) & (chances < gamma * mine) & (chances * gamma > mine)
            assert within.sum() >= k


def test_privacy_test_one_is_not_differentially_private() -> None:
    """Without one of exactly k plausible seeds the same candidate can no longer come out."""
    net = random_network(0, (2,))
    table = np.tile(np.array([[1, 2, 0, 1]]), (5, 1))
    candidate = table[:1]
    assert plausibly_deniable(net, candidate, table[:1], table=table, k=5, gamma=4.0).all()
    assert not plausibly_deniable(net, candidate, table[:1], table=table[:4], k=5, gamma=4.0).any()


def test_privacy_test_one_refuses_parameters_without_meaning() -> None:
    net = random_network(0, (2,))
    one = np.zeros((1, 4), dtype=np.int64)
    for k, gamma in ((0, 4.0), (5, 1.0), (5, float("nan"))):
        with pytest.raises(BudgetError, match="Privacy Test 1"):
            plausibly_deniable(net, one, one, table=one, k=k, gamma=gamma)


def test_rows_of_a_cleaned_table_are_a_secret_even_under_replacement() -> None:
    """A replaced record may be one that cleaning leaves out, so parts must not know their size."""
    shape = schema(2, 2)
    columns = {"c0": np.zeros(20, dtype=np.int64), "c1": np.ones(20, dtype=np.int64)}
    for filtered, known in ((False, 20), (True, None)):
        records = LocalTable(shape, columns)._marked(filtered=filtered)
        unit = Unit.replace_one()
        ledger = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t")
        box = Curator(records, unit=unit, ledger=ledger, randomness=SeededRandomness(1))
        event = rows_event(unit, Laplace(10.0))
        (part,) = open_parts(box, [[event]], shares=None, purpose="rows")
        assert part.known_rows == known
