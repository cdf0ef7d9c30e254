"""Released records have exactly the law that the guarantee was proved for."""

from __future__ import annotations

import numpy as np
from alpha import ALPHA
from scipy import stats

from understudy.data import LocalTable
from understudy.mechanisms.deniability.bounds import SeedTest
from understudy.mechanisms.deniability.look import Seeds
from understudy.mechanisms.deniability.network import Conditional, NetworkSeedModel
from understudy.privacy import SeededRandomness
from understudy.schema import Categorical, Domain, Schema

SEEDS = np.array([[1, 0]] * 3 + [[1, 1]] * 2 + [[0, 1]])
RECORDS = 60_000
UNIVERSE = [(a, b) for a in range(2) for b in range(2)]


def network() -> NetworkSeedModel:
    a = Conditional("a", (), (), np.array([0.7, 0.3]))
    b = Conditional("b", ("a",), (np.array([0, 1]),), np.array([[0.9, 0.1], [0.45, 0.55]]))
    return NetworkSeedModel(Domain(("a", "b"), (2, 2)), (a, b), (1,))


def expected(net: NetworkSeedModel, test: SeedTest, *, k: int) -> np.ndarray:
    """The law from its definition, for a threshold that may be another than the test's."""
    moved = SeedTest(**{**test.__dict__, "k": k})
    slots, floor = max(len(SEEDS), test.min_seeds), test.share("add-remove")
    once = np.zeros(4)
    for index, y in enumerate(UNIVERSE):
        chance = net.probability(np.array(y), SEEDS)
        classes = np.floor(-np.log(np.maximum(chance, 1e-300)) / np.log(test.gamma))
        for p, own in zip(chance, classes, strict=True):
            once[index] += p * float(moved.passing(int((classes == own).sum()))) / slots if p > 0 else 0.0
    free = np.array([net.conditionals[0].table[a] * net.conditionals[1].table[a, b] for a, b in UNIVERSE])
    fail = 1 - once.sum()
    tries = sum(fail**i for i in range(test.attempts))
    return np.asarray((1 - floor) * (tries * once + fail**test.attempts * free) + floor * free)


def test_released_records_follow_the_enumerated_law(seed: int) -> None:
    """Chi-square at 1e-9. A threshold that is off by one moves some record by 3 % at least and is caught."""
    test = SeedTest(k=5, gamma=2.0, epsilon0=1.0, min_seeds=8, attempts=2, floor=0.1)
    schema = Schema(columns=tuple(Categorical(name, values=("0", "1")) for name in ("a", "b")))
    table = LocalTable(schema, {"a": SEEDS[:, 0], "b": SEEDS[:, 1]})
    net = network()
    # so few seeds protect nobody and no ledger would pay for that many records: ask the inner part directly
    seeds = Seeds(table, net, test, SeededRandomness(seed))
    made = seeds.batch(RECORDS, test.share("add-remove"))
    counts = np.bincount(made[:, 0] * 2 + made[:, 1], minlength=4)
    right, wrong = expected(net, test, k=5), expected(net, test, k=6)
    assert stats.chisquare(counts, right * RECORDS).pvalue > ALPHA
    assert stats.chisquare(counts, wrong * RECORDS).pvalue < ALPHA
