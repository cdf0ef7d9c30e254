"""How long a few rows of a wide model take, with and without a condition.

    python -m benchmarks.speed.few_rows

A simulated table of 29 columns is fitted with AIM on all triples; then whole and small samples are drawn. CPU seconds of
this process, each after one call that compiles. The ratio to the whole sample is what to compare between machines.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Callable

import numpy as np
import pandas as pd

import understudy
from understudy.schema import Integer, Schema

COLUMNS, ROWS, FEW = 29, 60_000, 2_000


def table(seed: int = 0) -> tuple[pd.DataFrame, Schema]:
    """Return a chain of dependent columns with 3 to 23 codes each."""
    generator = np.random.default_rng(seed)
    values, columns, hidden = {}, [], generator.normal(size=ROWS)
    for index in range(COLUMNS):
        codes = int(generator.integers(3, 24))
        hidden = 0.7 * hidden + 0.7 * generator.normal(size=ROWS)
        values[f"c{index}"] = np.clip(((hidden + 2.5) / 5 * codes).astype(int), 0, codes - 1)
        columns.append(Integer(f"c{index}", minimum=0, maximum=codes - 1))
    return pd.DataFrame(values), Schema(columns)


def timed(call: Callable[[], object]) -> float:
    """Return the CPU seconds of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    """Fit, draw, print."""
    frame, schema = table()
    fitting = time.process_time()
    model = understudy.synthesize(
        frame,
        schema=schema,
        epsilon=1.0,
        delta=1e-6,
        unit="add-remove",
        method="aim",
        ledger="memory",
        rows=10,
    ).model
    print(
        f"{COLUMNS} columns, {ROWS:,} rows, AIM at epsilon 1: fitted in {time.process_time() - fitting:.1f} s of CPU\n"
    )
    given = pd.DataFrame({"c0": [1, 2] * (FEW // 2), "c28": [1] * FEW})
    asked: dict[str, Callable[[], object]] = {
        f"all {ROWS:,} rows": lambda: model.sample(ROWS, seed=1),
        f"{FEW:,} rows": lambda: model.sample(FEW, seed=1),
        f"{FEW:,} rows where c0 >= 3 and c5 == 2": lambda: model.sample(
            FEW, where="c0 >= 3 and c5 == 2", seed=1
        ),
        f"{FEW:,} rows where c1 < c2": lambda: model.sample(FEW, where="c1 < c2", seed=1),
        f"{FEW:,} rows given c0 and c28": lambda: model.sample(given=given, seed=1),
    }
    model.sample(100, seed=1)
    taken = {name: timed(call) for name, call in asked.items()}
    whole = next(iter(taken.values()))
    print("| rows | CPU s | share of a whole sample |")
    print("|---|---|---|")
    for name, seconds in taken.items():
        print(f"| {name} | {seconds:.2f} | {seconds / whole:.2f} |")


if __name__ == "__main__":
    main()
