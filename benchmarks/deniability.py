"""Paper Deniability on the 100,000-row ACS13 sample: speed of Privacy Test 2, and Tables 3 to 5 again.

    python -m benchmarks.deniability              # speed and utility, a few minutes
    python -m benchmarks.deniability --part speed # only the speed of the test
    python -m benchmarks.deniability --rows 5000  # smaller training tables

Seed-based tables (omega below 11) are made here by the same generator and test as in the curator, but without
a ledger: a composed guarantee for tens of thousands of them would be empty, which is said beside the numbers.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks._acs13 import codes, load
from benchmarks._private_erm import (
    HUBER,
    LOGISTIC,
    linear_accuracy,
    minimiser,
    objective_perturbation,
    output_perturbation,
)
from understudy.curator import Curator
from understudy.data import LocalTable, read_table
from understudy.evaluation import (
    accuracy,
    agreement,
    distinguishing_game,
    forest_accuracy,
    marginal_accuracy,
    model_accuracy,
    one_hot,
    pair_distances,
    predictions,
    single_distances,
)
from understudy.mechanisms import create
from understudy.mechanisms.deniability.bounds import SeedTest
from understudy.mechanisms.deniability.look import Seeds
from understudy.mechanisms.deniability.network import Conditional, NetworkSeedModel, scan_plausible
from understudy.privacy import ApproxDP, Ledger, PureDP, SystemRandomness, Unit
from understudy.schema import Schema

TARGET = "incc"
PARTS = ("speed", "composition", "utility", "classifiers")
K, GAMMA, EPSILON0 = 50, 4.0, 1.0
OMEGAS = {"omega=11": (11,), "omega=10": (10,), "omega=9": (9,), "omega in 5..11": tuple(range(5, 12))}
Codes = np.ndarray


def table_of(schema: Schema, records: Codes) -> LocalTable:
    return LocalTable(schema, {name: records[:, i] for i, name in enumerate(schema.names)})


def fitted(schema: Schema, records: Codes, name: str, budget, **options):
    unit = Unit.replace_one()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="acs13")
    curator = Curator(table_of(schema, records), unit=unit, ledger=ledger)
    return create(name, **options).fit(curator, budget)


def seed_model(model, omega: tuple[int, ...]) -> NetworkSeedModel:
    network = model.distribution
    return NetworkSeedModel(
        network.domain,
        tuple(
            Conditional(
                node.column,
                tuple(name for name, _ in node.parents),
                tuple(network.resolution.labels(view) for view in node.parents),
                node.conditional,
            )
            for node in network.nodes
        ),
        omega,
    )


def released(model: NetworkSeedModel, schema: Schema, seeds: Codes, rows: int) -> tuple[Codes, float]:
    """Passed candidates only, and the share that passed."""
    if model.seed_free:
        words = SystemRandomness().words(rows * model.words_per_record).reshape(rows, -1)
        return model.free(words), 1.0
    test = SeedTest(k=K, gamma=GAMMA, epsilon0=EPSILON0, min_seeds=len(seeds))
    box = Seeds(table_of(schema, seeds), model, test, SystemRandomness())
    kept, tried = [], 0
    while sum(map(len, kept)) < rows:
        candidates, passed = box.attempt(1 << 14)
        kept.append(candidates[passed])
        tried += len(passed)
    made = np.concatenate(kept)
    return made[:rows], len(made) / tried


def speed(schema: Schema, records: Codes, model) -> None:
    net = seed_model(model, tuple(range(5, 12)))
    test = SeedTest(k=K, gamma=GAMMA, epsilon0=EPSILON0, min_seeds=1)
    start = time.perf_counter()
    box = Seeds(table_of(schema, records), net, test, SystemRandomness())
    indexed = time.perf_counter() - start
    box.attempt(1000)  # compiles
    start, tried = time.perf_counter(), 0
    while time.perf_counter() - start < 5:
        box.attempt(1 << 15)
        tried += 1 << 15
    rate = tried / (time.perf_counter() - start) * 60
    print(f"index of {len(records):,} seeds: {indexed:.2f} s")
    print(f"Privacy Test 2, omega in 5..11, k={K}, gamma={GAMMA:g}: {rate:,.0f} candidates a minute")
    chosen = records[np.random.default_rng(0).integers(0, len(records), 100)]
    words = SystemRandomness().words(100 * net.words_per_record).reshape(100, -1)
    made = net.propose(chosen, words)
    types, counts = np.unique(records, axis=0, return_counts=True)
    slow = scan_plausible(net.probability, made, chosen, types, counts, GAMMA)
    same = np.array_equal(box.plausible(made, chosen), slow)
    print(f"plausible seeds of 100 candidates equal to a scan of all records: {same}")


def log_density(model):
    """Log probability of records under the fitted network."""
    network = model.distribution

    def score(records: Codes) -> np.ndarray:
        total = np.zeros(len(records))
        for node in network.nodes:
            where = tuple(
                network.resolution.labels(view)[records[:, network.domain.index(view[0])]]
                for view in node.parents
            )
            with np.errstate(divide="ignore"):
                total += np.log(node.conditional)[(*where, records[:, network.domain.index(node.column)])]
        return total

    return score


def utility(schema: Schema, records: Codes, groups: dict[str, list[int]], rows: int) -> None:
    domain = schema.domain
    generator = np.random.default_rng(1)
    records = records[generator.permutation(len(records))]
    test, train, other = records[:20_000], records[20_000 : 20_000 + rows], records[-rows:]
    budget = ApproxDP(1.0, 2.0**-30)
    learn = records[20_000:]
    model = fitted(schema, learn, "deniability", budget, groups=groups)
    marginals = fitted(schema, learn, "independent", PureDP(1.0))
    baseline = marginals.sample_codes(rows, seed=3)
    tables = {"reals": other, "marginals": np.stack([baseline[n] for n in domain.names], axis=1).astype(int)}
    shares = {}
    for name, omega in OMEGAS.items():
        tables[name], shares[name] = released(seed_model(model, omega), schema, learn, rows)
    print("\nparents:", {n.column: [p for p, _ in n.parents] for n in model.distribution.nodes})
    print("share of candidates that pass:", {name: round(value, 3) for name, value in shares.items()})

    print("\naccuracy per column (test records): network, marginals, forest")
    sample = test[:5_000]
    by_model = model_accuracy(domain, log_density(model), sample)
    by_marginal = marginal_accuracy(domain, train, sample)
    by_forest = forest_accuracy(domain, train[:10_000], sample, trees=20)
    for name in domain.names:
        print(
            f"  {name:5s} {by_model.values[name]:.3f} {by_marginal.values[name]:.3f} {by_forest.values[name]:.3f}"
        )

    print(
        "\ntable              TV single  TV pairs   tree   RF     Ada    LR     SVM   agree tree RF Ada   game RF  tree"
    )
    real_said = predictions(domain, train, test, target=TARGET)
    rows_of = {"train (reals)": (train, real_said)}
    rows_of |= {name: (made, predictions(domain, made, test, target=TARGET)) for name, made in tables.items()}
    for name, (made, said) in rows_of.items():
        right, same = accuracy(domain, said, test, target=TARGET), agreement(said, real_said)
        single, pairs = single_distances(domain, train, made).mean, pair_distances(domain, train, made).mean
        game = distinguishing_game(domain, test if name == "train (reals)" else train, made)
        print(
            f"{name:18s} {single:.4f}     {pairs:.4f}     "
            + " ".join(f"{100 * value:5.1f}%" for value in right.values.values())
            + "   "
            + " ".join(f"{100 * same.values[c]:5.1f}%" for c in ("tree", "forest", "adaboost"))
            + "   "
            + " ".join(f"{100 * value:5.1f}%" for value in game.values.values())
        )


def private_classifiers(schema: Schema, records: Codes, rows: int) -> None:
    """Table 4: private linear classifiers trained on real records."""
    domain = schema.domain
    generator = np.random.default_rng(1)
    records = records[generator.permutation(len(records))]
    test, train = records[:20_000], records[20_000 : 20_000 + rows]
    print(
        "\nprivate classifiers on real records at epsilon=1 (strongest regularisation within a point of the best): LR, SVM"
    )
    x, y = one_hot(domain, train, without=TARGET), np.where(train[:, domain.index(TARGET)] == 1, 1.0, -1.0)
    unseen = one_hot(domain, test, without=TARGET)
    truth = np.where(test[:, domain.index(TARGET)] == 1, 1.0, -1.0)
    for label, loss in (("LR", LOGISTIC), ("SVM", HUBER)):
        scores = {}
        for strength in (1e-3, 1e-4, 1e-5, 1e-6):
            weights = minimiser(x, y, loss=loss, regularisation=strength)
            scores[strength] = linear_accuracy(weights, unseen, truth)
        best = max(strength for strength, score in scores.items() if score >= max(scores.values()) - 0.01)
        options = {"loss": loss, "regularisation": best, "epsilon": 1.0, "generator": generator}
        output = np.mean(
            [linear_accuracy(output_perturbation(x, y, **options), unseen, truth) for _ in range(3)]
        )
        objective = np.mean(
            [linear_accuracy(objective_perturbation(x, y, **options), unseen, truth) for _ in range(3)]
        )
        print(f"  {label}: not private {scores[best]:.3f}, output {output:.3f}, objective {objective:.3f}")


def composition(seeds: int) -> None:
    """What seed-based records cost together, for the paper's parameters and for more careful ones."""
    print("\ncomposed epsilon at delta=1e-6 of seed-based records (k=50, gamma=4, epsilon0=1):")
    usual = SeedTest(k=K, gamma=GAMMA, epsilon0=EPSILON0, min_seeds=seeds)
    careful = SeedTest(k=150, gamma=GAMMA, epsilon0=0.15, min_seeds=seeds)
    for count in (1, 100, 1000, 10_000):
        values = [s.composed(count, relation="add-remove", delta=1e-6) for s in (usual, careful)]
        print(f"  {count:6d} records: {values[0]:.2f}; with k=150, epsilon0=.15: {values[1]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, action="append", help="run only this part; may be repeated")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of each training table")
    options = parser.parse_args()
    frame, schema, groups = load()
    read_table(frame, schema)  # the table fits its schema
    records = codes(frame, schema)
    parts = options.part or PARTS
    if "speed" in parts:
        speed(schema, records, fitted(schema, records, "deniability", ApproxDP(1.0, 2.0**-30), groups=groups))
    if "composition" in parts:
        composition(len(records))
    if "utility" in parts:
        utility(schema, records, groups, options.rows)
    if "classifiers" in parts:
        private_classifiers(schema, records, options.rows)


if __name__ == "__main__":
    main()
