"""What single options contribute, as the pages of the methods say: one table and one seed per line.

Run ``python -m benchmarks.accuracy.options``. Errors are the average L1 error of all 3-way marginals at delta 1e-9 unless a
line says otherwise. The tables are public or simulated and are read without noise to compute the error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._tables import find_data
from benchmarks.accuracy._cell import run as run_cell
from benchmarks.accuracy.aim import DELTA, NOTICE
from understudy.curator import Curator
from understudy.data import LocalTable, Table, read_table
from understudy.datasets import births, births_schema
from understudy.marginals import all_kway, workload_error
from understudy.mechanisms import Model, create
from understudy.privacy import ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Schema

PAIRS: tuple[tuple[str, float, str, dict[str, Any], dict[str, Any]], ...] = (
    ("privsyn", 0.1, "adult", {}, {"column_noise": 0}),
    ("privsyn", 1.0, "adult", {}, {"records": "gum"}),
    ("rap", 1.0, "br2000", {}, {"calm": 0.0}),
    ("privmrf", 1.0, "adult", {}, {"theta": 6}),
    ("privmrf", 1.0, "nltcs", {}, {"theta": 6}),
    ("privmrf", 1.0, "br2000", {}, {"theta": 6}),
    ("privmrf", 1.0, "titanic", {}, {"theta": 6}),
)
"""Method, epsilon, table, the default and what is changed."""

MIXED = Schema.parse(
    """
name: mixed
columns:
  - {name: age, kind: real, minimum: -4, maximum: 4}
  - {name: height, kind: real, minimum: -4, maximum: 4}
  - {name: income, kind: real, minimum: 0, maximum: 30, missing: true}
  - {name: smokes, kind: boolean}
  - {name: health, kind: integer, minimum: 0, maximum: 4}
  - {name: region, kind: categorical, values: [north, middle, south]}
"""
)
ORDERED = ("age", "height", "income", "smokes", "health")
BUDGETS: dict[str, Budget] = {
    "1, delta 1e-6": ApproxDP(1.0, 1e-6),
    "1, pure": PureDP(1.0),
    "100, pure": PureDP(100.0),
}
REPEATS = 5


def mixed(rows: int, seed: int) -> pd.DataFrame:
    """Simulate three numbers, one of them skewed and sometimes missing, a binary, an ordinal and a three-valued column."""
    generator = np.random.default_rng(seed)
    age, height, latent = generator.multivariate_normal(
        np.zeros(3), [[1, 0.6, 0.5], [0.6, 1, 0.3], [0.5, 0.3, 1]], rows
    ).T
    income = np.clip(np.exp(0.8 * latent), 0, 30)
    smokes = generator.random(rows) < 1 / (1 + np.exp(1 - 1.2 * age))
    health = np.clip(np.round(2 - 0.7 * age + 0.7 * smokes + generator.normal(size=rows)), 0, 4).astype(int)
    score = np.stack([np.zeros(rows), 0.8 * height, 0.8 * latent]) + generator.gumbel(size=(3, rows))
    return pd.DataFrame(
        {
            "age": np.clip(age, -4, 4),
            "height": np.clip(height, -4, 4),
            "income": np.where(generator.random(rows) < 0.08, np.nan, income),
            "smokes": smokes,
            "health": health,
            "region": np.array(["north", "middle", "south"])[score.argmax(axis=0)],
        }
    )


def fit(method: str, table: Table, budget: Budget, seed: int, **options: Any) -> Model:
    """Fit once; a seed makes the numbers repeatable, production code never seeds privacy noise."""
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(seed))
    return create(method, **options).fit(curator, budget)


def spearman(frame: pd.DataFrame) -> np.ndarray:
    """Rank correlations of the ordered columns, pairs with missing entries left out."""
    return frame[list(ORDERED)].astype(float).corr(method="spearman").to_numpy()


def correlations(method: str, rows: int, **options: Any) -> None:
    """Print the largest error of a rank correlation, a mean over fits, by budget."""
    found, start = {}, time.process_time()
    for name, budget in BUDGETS.items():
        errors = []
        for seed in range(REPEATS):
            real = mixed(rows, seed)
            model = fit(method, read_table(real, MIXED), budget, seed, **options)
            drawn = MIXED.decode(model.sample_codes(rows, seed=seed), seed=seed)
            errors.append(float(np.abs(spearman(drawn) - spearman(real)).max()))
        found[name] = float(np.mean(errors))
    seconds = time.process_time() - start
    chosen = ", ".join(f"{key}={value}" for key, value in options.items()) or "default"
    shown = "".join(f"{value:17.2f}" for value in found.values())
    print(f"{method:22} {chosen:24} {rows:8,}{shown} {seconds:9.1f}", flush=True)


def smoothing(rows: int = 160_000) -> None:
    """Print what smoothing takes out of all 2-way marginals of simulated births."""
    schema = births_schema()
    table = read_table(births(rows), schema)
    (codes,) = table.chunks(rows=rows)
    real = LocalTable(schema, codes)
    print(f"\ngaussian, {rows:,} simulated births, all 2-way marginals, epsilon 1, delta {DELTA:g}:")
    print("average total variation distance of the model's marginals")
    for smooth in (False, True):
        start = time.process_time()
        workload = all_kway(schema.domain, 2)
        model = fit("gaussian", table, ApproxDP(1.0, DELTA), 0, workload=workload, smooth=smooth)
        distances = []
        for k in (2, 3):
            asked = all_kway(schema.domain, k)
            exact, answers = real.count_many(list(asked.cliques)), model.marginals(list(asked.cliques))
            distances.append(workload_error(asked, exact, answers, n_rows=rows) / 2)
        print(
            f"smooth={smooth!s:6} 2-way {distances[0]:.4f}  3-way {distances[1]:.4f}"
            f"  {time.process_time() - start:.1f} s"
        )


def buckets(repeats: int = 20) -> None:
    """Print how much of the noise merging takes out of a flat histogram, and what it adds to a smooth one."""
    print(f"\nnoise-first, squared error beside that of the plain noisy histogram, mean of {repeats} fits")
    flat = {bins: np.full(bins, 1_000) for bins in (64, 256)}
    for bins, exact in flat.items():
        for penalty in ("search", "paper"):
            ratio = _bucket_ratio(exact, PureDP(1.0), repeats, penalty=penalty)
            print(f"flat, {bins:3} bins, epsilon 1, penalty={penalty}: {ratio:.2f}", flush=True)
    middle = np.arange(256) - 127.5
    smooth = np.round(100_000 * np.exp(-((middle / 50) ** 2) / 2) / np.exp(-((middle / 50) ** 2) / 2).sum())
    for epsilon in (0.01, 0.1, 1.0):
        for penalty in ("search", "paper"):
            ratio = _bucket_ratio(smooth.astype(int), PureDP(epsilon), repeats, penalty=penalty)
            print(f"smooth, 256 bins, 100,000 rows, epsilon {epsilon:g}, penalty={penalty}: {ratio:.2f}")


def _bucket_ratio(exact: np.ndarray, budget: Budget, repeats: int, **options: Any) -> float:
    schema = Schema.parse(f"columns: [{{name: x, kind: integer, minimum: 0, maximum: {exact.size - 1}}}]")
    table = LocalTable(schema, {"x": np.repeat(np.arange(exact.size, dtype=np.uint16), exact)})
    merged = plain = 0.0
    for seed in range(repeats):
        model = fit("noise-first", table, budget, seed, **options)
        merged += float(np.square(model.marginal(["x"]) - exact).sum())
        plain += float(np.square(model.measurements[-1].values - exact).sum())
    return merged / plain


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    folder = find_data(parser.parse_args(arguments).data)
    print(NOTICE)
    print(f"{'method':10} {'table':10} {'epsilon':>7}  {'option':18} {'error':>8} {'CPU s':>7}")
    for method, epsilon, table, *variants in PAIRS:
        for options in variants:
            spec = {
                "table": table,
                "workload": "all-3way",
                "method": method,
                "epsilon": epsilon,
                "delta": DELTA,
                "seed": 0,
                "options": options,
                "data": str(folder),
            }
            result = run_cell(spec)
            chosen = ", ".join(f"{key}={value}" for key, value in options.items()) or "default"
            shown = f"{result['error']:8.4f} {result['cpu_seconds']:7.1f}"
            print(f"{method:10} {table:10} {epsilon:7g}  {chosen:18} {shown}", flush=True)
    smoothing()
    buckets()
    print(f"\nSimulated mixed table, largest error of a rank correlation, mean of {REPEATS} fits, by epsilon")
    print(
        f"{'method':22} {'option':24} {'rows':>8}" + "".join(f"{name:>17}" for name in BUDGETS) + "     CPU s"
    )
    correlations("sequential-regression", 5_000)
    correlations("sequential-regression", 5_000, classifier="objective")
    correlations("dpcopula", 5_000)
    correlations("steps", 5_000)
    correlations("steps", 50_000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
