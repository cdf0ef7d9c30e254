"""Values inside bins: midpoints, even draws and smooth draws from the same noisy counts, held against the real values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._tables import find_data
from understudy.errors import DataError
from understudy.schema import Real

RULES = ("midpoint", "uniform", "smooth")
EPSILONS = (0.1, 1.0)
ROWS, SEEDS = 20_000, 3
STEPS = [step * 10.0**power for power in range(-3, 9) for step in (1, 2, 5)]
TABLES: dict[str, tuple[str, dict[str, Any], tuple[Any, ...]]] = {
    "adult": ("adult/adult.data.gz", {"header": None, "skipinitialspace": True}, (0, 2, 12)),
    "hmeq": ("hmeq/hmeq.csv", {}, ("LOAN", "MORTDUE", "VALUE", "CLAGE", "DEBTINC")),
    "loans": (
        "loans_full_schema/loans_full_schema.csv.gz",
        {},
        ("annual_income", "debt_to_income", "total_credit_limit", "total_credit_utilized"),
    ),
    "lending": ("lending_club/lending_club.csv", {}, ("annual_inc", "int_rate", "revol_util")),
    "flchain": ("flchain/flchain.csv", {}, ("kappa", "lambda", "futime")),
    "flights": ("nycflights13/flights.csv.gz", {}, ("dep_delay", "air_time", "distance")),
}
ADULT = {0: "age", 2: "fnlwgt", 12: "hours"}

Floats = np.ndarray[Any, np.dtype[np.float64]]


def main() -> None:
    """Print the error of each rule by column and binning, and the mean ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None, help="Folder of the public tables.")
    print(
        "Reads real tables without noise to compute the error; the tables are public and the result is no release."
    )
    print("Error: distance between the quantiles of drawn and real values (Wasserstein), in percent of the")
    print(
        f"interquartile range; counts with Laplace noise, mean of {SEEDS} draws; bins: see the last lines.\n"
    )
    print(f"{'column':28s} {'bins':9s} {'epsilon':>7s} " + " ".join(f"{rule:>9s}" for rule in RULES))
    ratios: dict[tuple[str, str], list[Floats]] = {}
    for group, name, values in _columns(parser.parse_args().data):
        for how, edges in _binnings(values):
            for epsilon in EPSILONS:
                errors = np.mean([_errors(values, edges, epsilon, seed) for seed in range(SEEDS)], axis=0)
                print(f"{name:28s} {how:9s} {epsilon:7g} " + " ".join(f"{error:9.2f}" for error in errors))
                ratios.setdefault((group, how), []).append(np.log(errors / errors[1]))
    print("\nGeometric mean of the error, as a multiple of that of even draws:")
    print(f"{'columns':12s} {'bins':9s} {'cases':>5s} " + " ".join(f"{rule:>9s}" for rule in RULES))
    for (group, how), found in sorted(ratios.items()):
        mean = np.exp(np.mean(found, axis=0))
        print(f"{group:12s} {how:9s} {len(found):5d} " + " ".join(f"{ratio:9.2f}" for ratio in mean))
    whole = np.exp(np.mean([item for found in ratios.values() for item in found], axis=0))
    cases = sum(map(len, ratios.values()))
    print(f"{'all':12s} {'':9s} {cases:5d} " + " ".join(f"{ratio:9.2f}" for ratio in whole))
    print(
        "\nequal: 20 bins of equal width; quantile: 10 bins that hold a tenth of the records each; 1-2-5: edges"
    )
    print("1, 2, 5, 10, 20, ... from the second percentile on.")


def _columns(folder: Path | None) -> Iterator[tuple[str, str, Floats]]:
    """Yield the group, the name and the values of each column."""
    generator = np.random.default_rng(0)
    simulated = {
        "normal": generator.normal(50, 10, ROWS),
        "exponential": generator.exponential(10, ROWS),
        "gamma": generator.gamma(2, 5, ROWS),
        "lognormal": generator.lognormal(3.9, 0.7, ROWS),
        "wide lognormal": generator.lognormal(3, 1.5, ROWS),
        "pareto": generator.pareto(2, ROWS) * 10,
        "two normals": np.where(
            generator.random(ROWS) < 0.5, generator.normal(20, 4, ROWS), generator.normal(60, 8, ROWS)
        ),
        "even": generator.random(ROWS) * 100,
    }
    for name, values in simulated.items():
        yield "simulated", name, values
    try:
        tables = find_data(folder)
    except DataError as error:
        print(f"(real tables left out: {error})")
        return
    for table, (path, options, columns) in TABLES.items():
        if not (tables / path).exists():
            print(f"({table} left out: there is no {path})")
            continue
        frame = pd.read_csv(tables / path, **options)
        for column in columns:
            numbers = pd.to_numeric(frame[column], errors="coerce").dropna().to_numpy(np.float64)
            shown = ADULT.get(column, column) if table == "adult" else column
            yield "real", f"{table} {shown}", numbers[generator.permutation(len(numbers))[:ROWS]]


def _binnings(values: Floats) -> Iterator[tuple[str, Floats]]:
    low, high = float(values.min()), float(values.max())
    yield "equal", np.linspace(low, high, 21)
    yield "quantile", np.unique(np.quantile(values, np.linspace(0, 1, 11)))
    if low >= 0:
        start = np.quantile(values, 0.02)
        yield "1-2-5", np.unique([low, *(step for step in STEPS if max(start, low) < step < high), high])


def _errors(values: Floats, edges: Floats, epsilon: float, seed: int) -> Floats:
    """Return the error of each rule with the same noisy counts."""
    generator = np.random.default_rng(seed)
    exact = np.histogram(values, edges)[0]
    counts = np.maximum(np.rint(exact + generator.laplace(0, 1 / epsilon, len(exact))), 0.0)
    codes = np.repeat(np.arange(len(counts)), counts.astype(int))
    shares = (np.arange(2_000) + 0.5) / 2_000
    spread = np.subtract(*np.quantile(values, [0.75, 0.25]))
    found = []
    for rule in RULES:
        column = Real("x", bins=edges.tolist(), decode_by=rule)  # type: ignore[arg-type]
        drawn = column.decode(codes, np.random.default_rng(seed), counts=counts)
        found.append(np.abs(np.quantile(drawn, shares) - np.quantile(values, shares)).mean() / spread * 100)
    return np.array(found)


if __name__ == "__main__":
    main()
