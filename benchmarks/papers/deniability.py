"""Paper Deniability on the 100,000-row ACS13 sample: speed of Privacy Test 2, Tables 3 to 5 and Figures 1, 2 and 6 again.

    python -m benchmarks.papers.deniability                # speed, composition, Tables 3 and 5: a few minutes
    python -m benchmarks.papers.deniability --part speed   # only the speed of the test
    python -m benchmarks.papers.deniability --rows 5000    # smaller training tables
    python -m benchmarks.papers.deniability --part figure1 # or figure2, figure6, table4; --write keeps them under docs

Seed-based tables (omega below 11) are made here by the same generator and test as in the curator, but without
a ledger: a composed guarantee for tens of thousands of them would be empty, which is said beside the numbers.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks._acs13 import codes, load
from benchmarks._kept import keep_chart, keep_table
from benchmarks.papers._private_erm import (
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
    model_accuracy,
    pair_distances,
    predictions,
    random_accuracy,
    single_distances,
)
from understudy.evaluation.accuracy import marginal_accuracy
from understudy.evaluation.comparison import one_hot
from understudy.mechanisms import create
from understudy.mechanisms.deniability.bounds import SeedTest
from understudy.mechanisms.deniability.look import Seeds
from understudy.mechanisms.deniability.network import Conditional, NetworkSeedModel, scan_plausible
from understudy.privacy import ApproxDP, Laplace, Ledger, PureDP, SystemRandomness, Unit
from understudy.privacy.noise.randomness import below_many
from understudy.report.bars import Bar, bar_chart
from understudy.report.lines import LinePanel, line_chart
from understudy.schema import Schema

TARGET = "incc"
QUICK = ("speed", "composition", "utility")
PARTS = (*QUICK, "figure1", "figure2", "figure6", "table4")
K, GAMMA, EPSILON0 = 50, 4.0, 1.0
OMEGAS = {
    "omega=11": (11,),
    "omega=10": (10,),
    "omega=9": (9,),
    "omega in 9..11": (9, 10, 11),
    "omega in 5..11": tuple(range(5, 12)),
}
FIGURE6 = {f"omega={n}": (n,) for n in (7, 8, 9, 10)} | {
    name: OMEGAS[name] for name in ("omega in 9..11", "omega in 5..11")
}
KS = (10, 25, 50, 100, 150, 250)
GAMMAS = (2.0, 4.0)
CANDIDATES = 1 << 16
BUDGETS = {"none": PureDP(1e6), "1": ApproxDP(1.0, 2.0**-30), ".1": ApproxDP(0.1, 2.0**-30)}
"""Budgets of Figures 1, 2 and 6. The paper's model without noise is one with a budget of a million here."""
SAMPLED = 280_000 / 1_494_974
"""Share of its clean records that the paper drew for the structure, and again for the parameters."""


def inner(budget: PureDP | ApproxDP, share: float) -> PureDP | ApproxDP:
    """What may be spent on a secret random share of a table so that the table is protected by the budget (Theorem 4).

    Examples
    --------
    >>> round(inner(ApproxDP(0.1, 1e-9), 0.2).epsilon, 3)
    0.423
    """
    if isinstance(budget, PureDP):  # only the budget that stands for none
        return budget
    return ApproxDP(math.log1p(math.expm1(budget.epsilon) / share), budget.delta / share)


LEARNING = {
    "our learning": (1, 1.0, {}),
    "our learning, every row seven times": (7, 1.0, {}),
    "the paper's learning, every row seven times": (
        7,
        SAMPLED,
        {
            "disjoint": True,
            "shares": (0.35, 0.35, 0.3),
            "noise": "laplace",
            "truncation": "zero",
            "parameters": "draw",
            "fine_targets": True,
        },
    ),
}
"""How often each row is repeated, the share that the rows are of a larger table, and options.

Seven times 80,000 are the 280,000 records for the structure and as many for the parameters that the paper had: noise weighs as
much as there, sampling error as much as in our sample. The paper's learning may spend more on them because they were drawn secretly
from 1.5 million (Theorem 4)."""
NOTE = "relative to the marginals of the same budget; light: without noise; whiskers: smallest and largest of the networks; cut at 0"
TEST, TABLE4_TEST = 20_000, 25_000
STRENGTHS = (1e-3, 1e-4, 1e-5, 1e-6)
PAPER_TABLE4 = {
    "not private": {"LR": "79.9", "SVM": "78.5"},
    "output perturbation, best": {"LR": "69.7", "SVM": "76.2"},
    "objective perturbation, best": {"LR": "76.3", "SVM": "78.2"},
    "marginals": {"LR": "68.9", "SVM": "68.9"},
    "omega=11": {"LR": "77.6", "SVM": "77.2"},
    "omega=10": {"LR": "77.7", "SVM": "77.1"},
}
"""The rows of Table 4 that can be read; those below them say 77.5 or 77.7 and 77.1."""
Codes = np.ndarray
Groups = Mapping[str, Sequence[int]]


def split(records: Codes, test: int, *, seed: int = 1) -> tuple[Codes, Codes]:
    """Test records and the others, in random order."""
    mixed = records[np.random.default_rng(seed).permutation(len(records))]
    return mixed[:test], mixed[test:]


def linear(schema: Schema, records: Codes) -> tuple[np.ndarray, np.ndarray]:
    """Indicator features of norm one and labels -1 and 1 of the income."""
    labels = np.where(records[:, schema.domain.index(TARGET)] == 1, 1.0, -1.0)
    return one_hot(schema.domain, records, without=TARGET), labels


def mode_accuracy(schema: Schema, model, test: Codes) -> dict[str, float]:
    """How often each column has the most likely value of a model's own marginal."""
    return {
        name: float((test[:, i] == np.argmax(model.marginal((name,)))).mean())
        for i, name in enumerate(schema.domain.names)
    }


def improvement(network: np.ndarray, marginals: np.ndarray) -> np.ndarray:
    """Share of the errors of the marginals that the network does not make; negative where it makes more.

    Examples
    --------
    >>> float(improvement(np.array(0.7), np.array(0.4)))
    0.5
    """
    return np.asarray((network - marginals) / (1 - marginals))


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


def figure1(schema: Schema, records: Codes, groups: Groups, models: int, write: bool) -> None:
    """Relative improvement of the network over marginals per column, for three budgets and three ways to learn it."""
    domain = schema.domain
    test, learn = split(records, TEST)
    rows: list[tuple[object, ...]] = []
    print(
        f"{models} networks per budget, {len(test):,} test records; mean (smallest to largest), in percent of the"
    )
    print("errors that the marginals of the same budget make; epsilon none: a million")
    for form, (times, share, options) in LEARNING.items():
        table = np.repeat(learn, times, axis=0)
        found = {}
        for label, budget in BUDGETS.items():
            pairs = []
            for _ in range(models):
                model = fitted(schema, table, "deniability", inner(budget, share), groups=groups, **options)
                marginals = fitted(schema, table, "independent", budget)
                pairs.append(
                    (
                        model_accuracy(domain, log_density(model), test).values,
                        mode_accuracy(schema, marginals, test),
                    )
                )
            for name in domain.names:
                network, base = (np.array([pair[i][name] for pair in pairs]) for i in range(2))
                better = improvement(network, base)
                found[name, label] = (better.mean(), better.min(), better.max())
                values = (network.mean(), base.mean(), *found[name, label])
                rows.append((form, len(table), label, name, models, *map(float, values)))
        print(f"\n{form}, {len(table):,} rows")
        print(f"  {'':5}" + "".join(f"{'epsilon ' + label:>26}" for label in BUDGETS))
        for name in domain.names:
            cells = (
                f"{100 * mean:.1f} ({100 * low:.1f} to {100 * high:.1f})"
                for mean, low, high in (found[name, label] for label in BUDGETS)
            )
            print(f"  {name:5}" + "".join(f"{cell:>26}" for cell in cells))
        means = [np.mean([found[name, label][0] for name in domain.names]) for label in BUDGETS]
        print(f"  {'mean':5}" + "".join(f"{100 * mean:>26.1f}" for mean in means))
        if write:
            bars = [
                Bar(f"{name}, epsilon {label}", *found[name, label], strong=label != "none")
                for name in domain.names
                for label in BUDGETS
            ]
            title = f"Errors of the marginals that the network avoids: {form}, {len(table):,} rows"
            keep_chart(
                f"deniability-figure1-{list(LEARNING).index(form) + 1}", bar_chart(title, bars, note=NOTE)
            )
    if write:
        columns = (
            "learning", "rows", "epsilon", "column", "models", "accuracy", "marginals", "improvement", "smallest",
            "largest",
        )  # fmt: skip
        keep_table("deniability-figure1", columns, rows)


def figure2(schema: Schema, records: Codes, groups: Groups, models: int, trees: int, write: bool) -> None:
    """Accuracy per column of the network, of marginals, of guessing and of a forest."""
    domain = schema.domain
    test, learn = split(records, TEST)
    said: dict[str, dict[str, float]] = {}
    for label, budget in BUDGETS.items():
        made = [
            model_accuracy(
                domain, log_density(fitted(schema, learn, "deniability", budget, groups=groups)), test
            ).values
            for _ in range(1 if label == "none" else models)
        ]
        said[f"network, {label}"] = {
            name: float(np.mean([item[name] for item in made])) for name in domain.names
        }
    said["marginals, none"] = dict(marginal_accuracy(domain, learn, test).values)
    said["random"] = dict(random_accuracy(domain).values)
    said["forest"] = dict(forest_accuracy(domain, learn, test, trees=trees).values)
    print(
        f"accuracy on {len(test):,} test records, learnt from {len(learn):,}: {models} networks per budget,"
    )
    print(f"a forest of {trees} trees; epsilon none: a million")
    print(f"  {'':5}" + "".join(f"{what:>18}" for what in said))
    for name in domain.names:
        print(f"  {name:5}" + "".join(f"{values[name]:>18.3f}" for values in said.values()))
    print(f"  {'mean':5}" + "".join(f"{np.mean(list(values.values())):>18.3f}" for values in said.values()))
    if write:
        rows = [(name, what, values[name]) for what, values in said.items() for name in domain.names]
        keep_table("deniability-figure2", ("column", "what", "accuracy"), rows)
        shown = ("network, none", "marginals, none", "random", "forest")
        bars = [
            Bar(
                f"{name}, {what.partition(',')[0]}",
                *[said[what][name]] * 3,
                strong=what.startswith("network"),
            )
            for name in domain.names
            for what in shown
        ]
        title = f"How often the most likely value is the right one: {len(learn):,} rows, no noise"
        keep_chart(
            "deniability-figure2", bar_chart(title, bars, note="network, marginals, random guess, forest")
        )


def passing(
    model: NetworkSeedModel, schema: Schema, seeds: Codes, gamma: float, candidates: int
) -> dict[int, float]:
    """Share of candidates that pass Privacy Test 2, by k."""
    test = SeedTest(k=K, gamma=gamma, epsilon0=EPSILON0, min_seeds=len(seeds))
    randomness = SystemRandomness()
    box = Seeds(table_of(schema, seeds), model, test, randomness)
    chosen = seeds[below_many(len(seeds), candidates, randomness)]
    words = randomness.words(candidates * model.words_per_record).reshape(candidates, -1)
    counts = box.plausible(model.propose(chosen, words), chosen)
    noise = Laplace(1 / EPSILON0).draw((candidates,), randomness)
    return {k: float((counts >= k + noise).mean()) for k in KS}


def figure6(schema: Schema, records: Codes, groups: Groups, models: int, write: bool) -> None:
    """Share of candidates that pass, over epsilon, gamma, omega and k."""
    print(
        f"candidates in percent that pass Privacy Test 2 (epsilon0=1) against {len(records):,} seeds, {CANDIDATES:,} from each"
    )
    print(
        f"of {models} networks: mean over networks; epsilon none: a million. Paper: k=100, gamma=2, omega in 5..11: over 50"
    )
    rows: list[tuple[object, ...]] = []
    panels = []
    for label, budget in BUDGETS.items():
        networks = [fitted(schema, records, "deniability", budget, groups=groups) for _ in range(models)]
        for gamma in GAMMAS:
            print(f"\nepsilon {label}, gamma={gamma:g}")
            print(f"  {'':16}" + "".join(f"{f'k={k}':>9}" for k in KS))
            series: dict[str, list[tuple[float, float, float, float]]] = {}
            for name, omega in FIGURE6.items():
                made = [passing(seed_model(m, omega), schema, records, gamma, CANDIDATES) for m in networks]
                for k in KS:
                    shares = np.array([item[k] for item in made])
                    low, mean, high = float(shares.min()), float(shares.mean()), float(shares.max())
                    rows.append((label, gamma, name, k, models, CANDIDATES, mean, low, high))
                    shown = max(mean, 1e-3)  # the axis is logarithmic
                    series.setdefault(name, []).append((float(k), shown, shown, shown))
                cells = (np.mean([item[k] for item in made]) for k in KS)
                print(f"  {name:16}" + "".join(f"{100 * cell:>9.1f}" for cell in cells))
            panels.append(LinePanel(f"epsilon {label}, gamma={gamma:g}", series))
    if write:
        columns = (
            "epsilon", "gamma", "omega", "k", "models", "candidates", "share", "smallest", "largest",
        )  # fmt: skip
        keep_table("deniability-figure6", columns, rows)
        title = "Share of candidates that pass Privacy Test 2, mean of the networks"
        keep_chart("deniability-figure6", line_chart(title, panels, x_label="k", y_label="share that passes"))


def table4(schema: Schema, records: Codes, groups: Groups, splits: int, write: bool) -> None:
    """Table 4: linear classifiers, private ones of real records and plain ones of synthetic tables."""
    found: dict[tuple[str, str], list[float]] = {}
    chosen: dict[str, list[float]] = {}
    for number in range(splits):
        test, train = split(records, TABLE4_TEST, seed=number)
        generator = np.random.default_rng(number)
        model = fitted(schema, train, "deniability", BUDGETS["1"], groups=groups)
        marginals = fitted(schema, train, "independent", PureDP(1.0)).sample_codes(len(train), seed=number)
        tables = {"marginals": np.stack([marginals[n] for n in schema.names], axis=1).astype(np.int64)}
        for name, omega in OMEGAS.items():
            tables[name], _ = released(seed_model(model, omega), schema, train, len(train))
        unseen, truth = linear(schema, test)
        features = {name: linear(schema, made) for name, made in {"real": train, **tables}.items()}
        for label, loss in (("LR", LOGISTIC), ("SVM", HUBER)):
            exact = {
                strength: minimiser(*features["real"], loss=loss, regularisation=strength)
                for strength in STRENGTHS
            }
            scores = {strength: linear_accuracy(w, unseen, truth) for strength, w in exact.items()}
            best = max(scores, key=lambda strength: scores[strength])
            strong = max(strength for strength, score in scores.items() if score >= scores[best] - 0.01)
            found.setdefault(("not private", label), []).append(scores[best])
            for rule, strength in (("best", best), ("strong", strong)):
                chosen.setdefault(f"{label}, {rule}", []).append(strength)
                options = {"loss": loss, "regularisation": strength, "epsilon": 1.0, "generator": generator}
                for way, method in (("output", output_perturbation), ("objective", objective_perturbation)):
                    weights = method(*features["real"], **options)
                    name = f"{way} perturbation, {rule}"
                    found.setdefault((name, label), []).append(linear_accuracy(weights, unseen, truth))
            for name in tables:
                weights = minimiser(*features[name], loss=loss, regularisation=best)
                found.setdefault((name, label), []).append(linear_accuracy(weights, unseen, truth))
    print(
        f"accuracy in percent on {TABLE4_TEST:,} test records, epsilon=1, trained on {len(train):,} records, real or synthetic:"
    )
    print(f"mean (smallest to largest) of {splits} random splits; paper: at least 100,000 training records.")
    print(
        "best: the regularisation that is best without privacy, as in the paper; strong: the strongest within a point of it."
    )
    print("regularisation chosen:", {rule: sorted(set(values)) for rule, values in chosen.items()})
    print(f"\n  {'':32}{'LR':>22}{'paper':>8}{'SVM':>22}{'paper':>8}")
    rows: list[tuple[object, ...]] = []
    for name in dict.fromkeys(name for name, _ in found):
        line = f"  {name:32}"
        for label in ("LR", "SVM"):
            values = 100 * np.array(found[name, label])
            paper = PAPER_TABLE4.get(name, {}).get(label, "")
            line += f"{f'{values.mean():.1f} ({values.min():.1f} to {values.max():.1f})':>22}{paper:>8}"
            numbers = (float(values.mean()), float(values.min()), float(values.max()))
            rows.append((name, label, len(train), splits, *numbers, paper))
        print(line)
    if write:
        columns = ("trained", "classifier", "rows", "splits", "accuracy", "smallest", "largest", "paper")
        keep_table("deniability-table4", columns, rows)


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
    parser.add_argument(
        "--rows", type=int, default=20_000, help="rows of each training table of the utility part"
    )
    parser.add_argument("--models", type=int, default=20, help="networks per budget in the figures")
    parser.add_argument("--trees", type=int, default=50, help="trees of the forest of Figure 2")
    parser.add_argument("--splits", type=int, default=5, help="random splits of Table 4")
    parser.add_argument(
        "--write", action="store_true", help="keep figures and tables in docs/assets and docs/measured/data"
    )
    options = parser.parse_args()
    frame, schema, groups = load()
    read_table(frame, schema)  # the table fits its schema
    records = codes(frame, schema)
    parts = options.part or QUICK
    if "speed" in parts:
        speed(schema, records, fitted(schema, records, "deniability", BUDGETS["1"], groups=groups))
    if "composition" in parts:
        composition(len(records))
    if "utility" in parts:
        utility(schema, records, groups, options.rows)
    if "figure1" in parts:
        figure1(schema, records, groups, options.models, options.write)
    if "figure2" in parts:
        figure2(schema, records, groups, options.models, options.trees, options.write)
    if "figure6" in parts:
        figure6(schema, records, groups, options.models, options.write)
    if "table4" in parts:
        table4(schema, records, groups, options.splits, options.write)


if __name__ == "__main__":
    main()
