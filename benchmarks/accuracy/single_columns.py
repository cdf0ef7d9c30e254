"""Histogram methods on single ordered columns of the development tables: shares of bins and of ranges."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks._tables import find_data, load
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.mechanisms import create
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Schema

METHODS = (
    "perturbed-histogram",
    "universal-histogram",
    "noise-first",
    "structure-first",
    "efpa",
    "p-hp",
    "dpcube",
    "sorted-histogram",
    "smoothed-histogram",
)
COLUMNS = (
    ("natality@10000", "age"),
    ("natality@10000", "week"),
    ("acs13@10000", "age"),
    ("acs13@10000", "hpw"),
)
EPSILONS = (0.01, 0.1, 1.0)
SEEDS, RANGES = 10, 500


def main() -> None:
    """Print a line per column, budget and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None, help="Folder of the public tables.")
    folder = find_data(parser.parse_args().data)
    print(
        "Reads real tables without noise to compute the error; the tables are public and the result is no release."
    )
    print(f"{'column':24s} {'bins':>5s} {'epsilon':>8s}  {'method':22s} {'bins: TV':>9s} {'ranges':>8s}")
    for table, column in COLUMNS:
        whole = load(table, folder)
        name = next(item for item in whole.schema.names if item.lower() == column)
        alone = LocalTable(
            Schema(columns=(whole.schema.column(name),), name=name), {name: _codes(whole, name)}
        )
        exact = alone.count((name,)) / alone.exact_row_count()
        generator = np.random.default_rng(0)
        ends = np.sort(generator.integers(0, len(exact) + 1, (RANGES, 2)), axis=1)
        for epsilon in EPSILONS:
            for method in METHODS:
                made = [_shares(method, alone, name, epsilon, seed) for seed in range(SEEDS)]
                bins = np.mean([np.abs(item - exact).sum() / 2 for item in made])
                ranges = np.mean([np.abs(_ranges(item, ends) - _ranges(exact, ends)).mean() for item in made])
                print(
                    f"{table + ' ' + column:24s} {len(exact):5d} {epsilon:8g}  {method:22s} {bins:9.4f} {ranges:8.4f}"
                )


def _codes(table: LocalTable, name: str) -> np.ndarray:
    (codes,) = table.chunks(rows=table.exact_row_count())
    return np.ascontiguousarray(codes[name])


def _shares(method: str, table: LocalTable, name: str, epsilon: float, seed: int) -> np.ndarray:
    unit, budget = Unit.add_remove(), PureDP(epsilon)
    book = Ledger.in_memory(budget=budget, unit=unit, table="benchmark")
    model = create(method).fit(
        Curator(table, unit=unit, ledger=book, randomness=SeededRandomness(seed)), budget
    )
    cells = np.maximum(model.marginal((name,)), 0.0)
    return np.asarray(cells / cells.sum()) if cells.sum() else np.full(cells.shape, 1 / cells.size)


def _ranges(shares: np.ndarray, ends: np.ndarray) -> np.ndarray:
    below = np.concatenate([[0.0], np.cumsum(shares)])
    return np.asarray(below[ends[:, 1]] - below[ends[:, 0]])


if __name__ == "__main__":
    main()
