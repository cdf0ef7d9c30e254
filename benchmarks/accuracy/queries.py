"""Query-driven mechanisms beside aim and mst: workload error, CPU seconds and memory; mwem on the bins of paper Births.

Two parts. The first runs pep, rap, gem and dualquery on tables of paper AIM, every cell in a process of its own. The second runs
mwem with 1,000 iterations over the 230,400 cells of Table 1 of paper Births. Errors are computed from the real
tables without noise: they are public, and nothing of this is private.

Run ``python -m benchmarks.accuracy.queries`` (adult at epsilon 1) or ``python -m benchmarks.accuracy.queries --full``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks._tables import find_data
from benchmarks.accuracy._runner import Record, run_all, run_ours
from benchmarks.accuracy._summary import markdown
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import UnderstudyError
from understudy.marginals import all_kway, workload_error
from understudy.mechanisms import create
from understudy.privacy import Ledger, PureDP, Unit
from understudy.schema import Integer, Schema

METHODS = ("mst", "aim", "pep", "rap", "gem", "dualquery")
TABLES = ("adult", "nltcs", "titanic", "natality", "acs13")
EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-9
BIRTHS = {
    "month": [],
    "age": [18, 20, 25, 30, 35, 37, 40, 43, 45],
    "parity": [2, 4, 7, 11],
    "week": [29, 32, 34, 37, 42],
    "female": [],
    "weight": list(range(1500, 4501, 100)),
}
"""Where the bins of Table 1 of paper Births begin, below the first of which there is one more."""


def births_table(folder: Path) -> LocalTable:
    """Read births with the bins of Table 1: 12 x 10 x 5 x 6 x 2 x 32 = 230,400 cells."""
    raw = pd.read_csv(folder / "natality/birth_2019_nber_us_SINGLETON_SAMPLE160K.csv.gz")
    given = {
        "month": pd.to_datetime(raw.date_of_birth).dt.month.to_numpy() - 1,
        "age": raw.mother_age.to_numpy(),
        "parity": raw.parity.to_numpy(),
        "week": raw.gestation_week.to_numpy(),
        "female": raw.is_female.astype(int).to_numpy(),
        "weight": raw.birth_weight.to_numpy(),
    }
    codes = {
        name: np.searchsorted(edges, given[name], side="right") if edges else given[name]
        for name, edges in BIRTHS.items()
    }
    sizes = {
        name: len(edges) + 1 if edges else 12 if name == "month" else 2 for name, edges in BIRTHS.items()
    }
    columns = tuple(Integer(name=name, minimum=0, maximum=size - 1) for name, size in sizes.items())
    return LocalTable(Schema(columns=columns, name="births"), codes)


def time_mwem(folder: Path, say: Callable[[str], None]) -> float:
    """Fit mwem with 1,000 iterations on births; return its CPU seconds."""
    table = births_table(folder)
    budget, unit = PureDP(4.0), Unit.replace_one()
    curator = Curator(table, unit=unit, ledger=Ledger.in_memory(budget=budget, unit=unit, table="births"))
    start = time.process_time()
    model = create("mwem", num_query=1024, num_iterations=1000).fit(curator, budget)
    seconds = time.process_time() - start
    workload = all_kway(table.schema.domain, 3)
    exact = table.count_many(list(workload.cliques))
    error = workload_error(
        workload, exact, model.marginals(list(workload.cliques)), n_rows=table.exact_row_count()
    )
    say(
        f"mwem, 1,000 iterations, {table.schema.domain.cells():,} cells, epsilon 4: {seconds:.1f} s CPU, error {error:.3f}"
    )
    return seconds


def run(
    *,
    out: Path,
    data: Path | None = None,
    full: bool = False,
    seeds: int = 1,
    timeout: float = 1_800.0,
    say: Callable[[str], None] = print,
) -> list[Record]:
    """Run what is missing and write ``results.jsonl`` and ``summary.md`` into ``out``."""
    folder = find_data(data)
    say(
        "Reads real tables without noise to compute the error; the tables are public and the result is no release."
    )
    grid = product(TABLES, METHODS, EPSILONS) if full else product(("adult",), METHODS, (1.0,))
    specs = [
        {
            "table": table,
            "workload": "all-3way",
            "method": name,
            "epsilon": epsilon,
            "delta": DELTA,
            "seed": seed,
            "options": None,
            "data": str(folder),
        }
        for table, name, epsilon in grid
        for seed in range(seeds)
    ]
    results = run_all(specs, out / "results.jsonl", timeout=timeout, run=run_ours, say=say)
    (out / "summary.md").write_text(markdown(results), encoding="utf-8")
    say(markdown(results))
    time_mwem(folder, say)
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Benchmark of the query-driven mechanisms.")
    parser.add_argument("--full", action="store_true", help="all tables and budgets")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/queries"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=1_800.0, help="seconds per cell")
    try:
        run(**vars(parser.parse_args(arguments)))
    except UnderstudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
