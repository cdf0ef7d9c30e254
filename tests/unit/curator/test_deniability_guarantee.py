"""The law of a released record, enumerated on tiny domains, against the guarantee that is charged for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from understudy.errors import BudgetError
from understudy.mechanisms.deniability.bounds import RecordGuarantee, SeedTest, affordable_records
from understudy.mechanisms.deniability.network import Conditional, NetworkSeedModel, classes_of
from understudy.privacy.unit import Relation
from understudy.schema import Domain

DOMAIN = Domain(("a", "b"), (2, 2))
UNIVERSE = [tuple(item) for item in product(range(2), range(2))]
Table = tuple[tuple[int, ...], ...]


def model(omega: tuple[int, ...]) -> NetworkSeedModel:
    a = Conditional("a", (), (), np.array([0.7, 0.3]))
    b = Conditional("b", ("a",), (np.array([0, 1]),), np.array([[0.9, 0.1], [0.45, 0.55]]))
    return NetworkSeedModel(DOMAIN, (a, b), omega)


def law(
    net: NetworkSeedModel, test: SeedTest, seeds: Table, *, relation: str, subset: Sequence[int] | None = None
) -> np.ndarray:
    """Probability of every record of the universe, from the definition of the mechanism alone."""
    slots = max(len(seeds), test.min_seeds)
    floor = test.share(relation)  # type: ignore[arg-type]
    records = np.array(seeds, dtype=np.int64).reshape(len(seeds), 2)
    examined = records if subset is None else records[list(subset)]
    free = np.array(
        [net.conditionals[0].table[y[0]] * net.conditionals[1].table[y[0], y[1]] for y in UNIVERSE]
    )
    once = np.zeros(len(UNIVERSE))
    for index, y in enumerate(UNIVERSE):
        if not len(records):
            continue
        chance = net.probability(np.array(y), records)
        own = classes_of(chance, test.gamma)
        among = classes_of(net.probability(np.array(y), examined), test.gamma) if len(examined) else own[:0]
        for p, which in zip(chance, own, strict=True):
            if which >= 0:
                count = int((among == which).sum())
                once[index] += p * float(test.passing(count)) / slots
    fail = 1 - once.sum()
    tries = sum(fail**i for i in range(test.attempts))
    result = (1 - floor) * (tries * once + fail**test.attempts * free) + floor * free
    assert result.sum() == pytest.approx(1.0)
    return np.asarray(result)


def tables(most: int) -> Iterator[Table]:
    for rows in range(most + 1):
        yield from combinations_with_replacement(UNIVERSE, rows)


def neighbours(relation: str, most: int) -> Iterator[tuple[Table, Table]]:
    for table in tables(most):
        if relation == "add-remove":
            for new in UNIVERSE:
                yield table, tuple(sorted((*table, new)))
        else:
            for gone in range(len(table)):
                rest = table[:gone] + table[gone + 1 :]
                for new in UNIVERSE:
                    yield table, tuple(sorted((*rest, new)))


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def keeps(one: RecordGuarantee, p: np.ndarray, q: np.ndarray) -> bool:
    """Whether two laws are as close as a guarantee says, in both directions and in total variation."""
    return (
        hockey_stick(p, q, one.epsilon) <= one.delta + 1e-12
        and hockey_stick(q, p, one.epsilon) <= one.delta + 1e-12
        and hockey_stick(p, q, 0.0) <= one.distance + 1e-12
    )


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("omega", [(1,), (1, 2)])
@pytest.mark.parametrize(
    "options",
    [
        {"k": 2, "gamma": 2.0, "epsilon0": 1.0, "min_seeds": 3},
        {"k": 3, "gamma": 1.5, "epsilon0": 0.3, "min_seeds": 2, "attempts": 3},
        {"k": 1, "gamma": 4.0, "epsilon0": 2.0, "min_seeds": 1},
        {"k": 3, "gamma": 2.0, "epsilon0": 1.0, "min_seeds": 3, "max_plausible": 2},
        {"k": 3, "gamma": 2.0, "epsilon0": 0.7, "min_seeds": 4, "floor": 0.3, "attempts": 2},
    ],
)
def test_every_outcome_of_a_record_is_covered(
    relation: Relation, omega: tuple[int, ...], options: dict[str, Any]
) -> None:
    net, test = model(omega), SeedTest(**options)
    guarantees = [test.record(relation=relation, slack=math.log1p(test.gamma / t)) for t in (0.3, 1, 2, 8)]
    laws = {table: law(net, test, table, relation=relation) for table in tables(5)}
    pairs = 0
    for one, other in neighbours(relation, 4):
        pairs += 1
        for guarantee in guarantees:
            assert keeps(guarantee, laws[one], laws[other]), (one, other, guarantee)
    assert pairs > 200


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_looking_at_some_seeds_only_is_covered(relation: Relation) -> None:
    """The examined subset is the same for both tables but for one displaced seed: every coupling is checked."""
    net, test = model((1, 2)), SeedTest(k=2, gamma=2.0, epsilon0=1.0, min_seeds=3, max_check=2)
    guarantees = [test.record(relation=relation, slack=math.log1p(test.gamma / t)) for t in (0.5, 2, 8)]
    for one, other in neighbours(relation, 3):
        mixtures = []
        for table in (one, other):
            subsets = list(combinations(range(len(table)), min(2, len(table))))
            laws = [law(net, test, table, relation=relation, subset=subset) for subset in subsets]
            mixtures.append(np.mean(laws, axis=0))
        for guarantee in guarantees:
            assert hockey_stick(mixtures[0], mixtures[1], guarantee.epsilon) <= guarantee.delta + 1e-12
            assert hockey_stick(mixtures[1], mixtures[0], guarantee.epsilon) <= guarantee.delta + 1e-12


def test_displacement_lowers_the_count_of_a_class_the_new_seed_is_not_in() -> None:
    """The paper says that max_check does not affect privacy; its Lemma 4 (a) fails."""
    net, test = model((1,)), SeedTest(k=2, gamma=2.0, epsilon0=1.0, min_seeds=1, max_check=2)
    before, after = ((0, 0), (0, 0)), ((0, 0), (0, 0), (1, 0))
    y = UNIVERSE.index((0, 0))

    def chance(table: Table) -> float:
        subsets = list(combinations(range(len(table)), 2))
        values = []
        for subset in subsets:
            records = np.array(table)[list(subset)]
            same = classes_of(net.probability(np.array(UNIVERSE[y]), records), test.gamma)
            values.append(float(test.passing(int((same >= 0).sum()))))
        return float(np.mean(values))

    assert chance(after) < 0.9 * chance(before)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_composed_guarantee_of_two_and_three_records(relation: Relation) -> None:
    net, test = model((1, 2)), SeedTest(k=2, gamma=2.0, epsilon0=1.0, min_seeds=4)
    for records in (2, 3):
        for delta in (0.02, 0.1, 0.3):
            epsilon = test.composed(records, relation=relation, delta=delta)
            if math.isinf(epsilon):
                continue
            for one, other in neighbours(relation, 4):
                p, q = (law(net, test, table, relation=relation) for table in (one, other))
                joint_p, joint_q = p, q
                for _ in range(records - 1):
                    joint_p, joint_q = np.outer(joint_p, p).ravel(), np.outer(joint_q, q).ravel()
                assert hockey_stick(joint_p, joint_q, epsilon) <= delta
                assert hockey_stick(joint_q, joint_p, epsilon) <= delta


def test_composition_equals_the_sum_over_all_sequences_of_the_dominating_act() -> None:
    one = RecordGuarantee(epsilon=0.8, delta=0.001, distance=0.1)
    rate = one.distance / math.tanh(0.4)
    truth = 1 / (1 + math.exp(-0.8))
    steps = {1: rate * truth, 0: 1 - rate, -1: rate * (1 - truth)}
    for epsilon in (0.0, 0.5, 1.7):
        total = 0.0
        for path in product(steps, repeat=4):
            loss = 0.8 * sum(path)
            total += math.prod(steps[s] for s in path) * max(0.0, 1 - math.exp(epsilon - loss))
        expected = total + 1 - (1 - one.delta) ** 4
        assert one.composed_delta(4, epsilon) == pytest.approx(expected, rel=1e-5)
        assert one.composed_delta(4, epsilon) >= expected


def test_the_dominating_act_dominates() -> None:
    """Random pairs of laws with the stated epsilon, delta and distance lie below the piecewise linear curve."""
    generator = np.random.default_rng(5)
    for _ in range(200):
        p = generator.dirichlet(np.ones(6) * 0.3)
        q = 0.7 * p + 0.3 * generator.dirichlet(np.ones(6) * 0.3)
        epsilon = float(generator.uniform(0.1, 2))
        delta = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
        one = RecordGuarantee(epsilon, delta, min(1.0, hockey_stick(p, q, 0.0)))
        for x in (0.0, 0.3 * epsilon, 0.9 * epsilon, epsilon, 3 * epsilon):
            assert hockey_stick(p, q, x) <= one.composed_delta(1, x) + 1e-12


def test_theorem_one_of_the_paper_misses_the_failure() -> None:
    """n equal seeds and an outlier: the paper's delta is 4e-18, failing tells them apart with probability 1e-5."""
    n, k, epsilon0, t, gamma = 100_000, 50, 1.0, 10, 4.0
    claimed = math.exp(-epsilon0 * (k - t))
    assert claimed == pytest.approx(4.2e-18, rel=0.02)
    test = SeedTest(k=k, gamma=gamma, epsilon0=epsilon0, min_seeds=n)
    fail = 1 - float(test.passing(n))
    fail_with_outlier = (n * (1 - float(test.passing(n))) + 1 - float(test.passing(1))) / (n + 1)
    epsilon = epsilon0 + math.log1p(gamma / t)
    actual = fail_with_outlier - math.exp(epsilon) * fail
    assert actual == pytest.approx(1e-5, rel=0.01)
    assert actual > 1e12 * claimed
    ours = test.record(relation="add-remove", slack=math.log1p(gamma / t))
    assert ours.epsilon == pytest.approx(epsilon)
    assert ours.delta < claimed


def test_repeating_until_something_passes_has_no_such_guarantee() -> None:
    """Given that something passes, seeds of which none is plausible reveal a new one with probability 1/n."""
    test = SeedTest(k=50, gamma=4.0, epsilon0=1.0, min_seeds=1)
    n = 1000  # all different, each resampled into itself: every candidate has one plausible seed
    released = np.full(n + 1, float(test.passing(1)) / (n + 1))
    conditional = released / released.sum()
    claimed = math.exp(-1.0 * (50 - 10))
    assert conditional[-1] == pytest.approx(1 / (n + 1))  # impossible without the new seed
    assert conditional[-1] > 1e10 * claimed


def test_guarantees_get_better_with_more_seeds_and_fewer_records() -> None:
    def epsilon(records: int, seeds: int) -> float:
        return SeedTest(k=100, gamma=4.0, epsilon0=0.3, min_seeds=seeds).composed(
            records, relation="add-remove", delta=1e-6
        )

    assert epsilon(1, 20_000) < epsilon(100, 20_000) < epsilon(1000, 20_000)
    assert epsilon(1000, 700_000) < epsilon(1000, 20_000) < 10
    test = SeedTest(k=100, gamma=4.0, epsilon0=0.3, min_seeds=20_000)
    most = affordable_records(test, relation="add-remove", epsilon=4.0, delta=1e-6)
    assert test.composed(most, relation="add-remove", delta=1e-6) <= 4.0
    assert test.composed(most + 1, relation="add-remove", delta=1e-6) > 4.0
    weak = SeedTest(k=2, gamma=4.0, epsilon0=0.1, min_seeds=10)
    assert affordable_records(weak, relation="add-remove", epsilon=4.0, delta=1e-9) == 0


def test_classes_are_half_open() -> None:
    assert classes_of(np.array([1.0, 0.5, 0.25]), 2.0).tolist() == [0, 1, 2]  # p = γ^-i belongs to class i
    assert classes_of(np.array([0.50001, 0.49999]), 2.0).tolist() == [0, 1]


def test_options_that_make_no_sense() -> None:
    with pytest.raises(BudgetError, match="k"):
        SeedTest(k=0, gamma=0.5, epsilon0=-1, min_seeds=0, attempts=0, floor=2, max_plausible=0)
    with pytest.raises(BudgetError, match="attempts=1"):
        SeedTest(k=2, gamma=2.0, epsilon0=1.0, min_seeds=3, attempts=2, max_check=5)
    with pytest.raises(BudgetError, match="slack"):
        SeedTest(k=2, gamma=2.0, epsilon0=1.0, min_seeds=3).record(relation="add-remove", slack=0.0)


def test_the_enumeration_would_notice_a_test_that_is_not_run() -> None:
    """Releasing every candidate (k=1, hardly any noise) breaks the guarantee that the real test keeps."""
    a = Conditional("a", (), (), np.array([0.999, 0.001]))
    net = NetworkSeedModel(DOMAIN, (a, model((1,)).conditionals[1]), (1,))
    honest = SeedTest(k=20, gamma=1.2, epsilon0=1.0, min_seeds=40, floor=0.05)
    broken = SeedTest(k=1, gamma=1.2, epsilon0=50.0, min_seeds=40, floor=0.05)
    guarantee = honest.record(relation="add-remove", slack=0.5)
    without: Table = ((0, 0),) * 40
    with_one: Table = (*without, (1, 0))
    for test, right in ((honest, True), (broken, False)):
        p, q = (law(net, test, table, relation="add-remove") for table in (with_one, without))
        assert (hockey_stick(p, q, guarantee.epsilon) <= guarantee.delta) is right
