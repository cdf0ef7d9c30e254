"""What AIM's options contribute, on tables that the other benchmark does not report.

Every variant changes one thing. Cells run and resume as in the `aim` benchmark. The tables are
those in ``DEVELOPMENT``: defaults may be chosen on them without touching the reported ones.

Run ``python -m benchmarks.accuracy.ablation --quick``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks._tables import find_data
from benchmarks.accuracy._cell import run as run_cell
from benchmarks.accuracy._runner import Record, run_all
from benchmarks.accuracy.aim import DELTA, NOTICE
from understudy.errors import UnderstudyError

VARIANTS: dict[str, Mapping[str, Any] | None] = {
    "default": None,
    "columns measured once, as in the paper": {"column_noise": 0},
    "zero-concentrated accounting, as in the paper": {"accounting": "zcdp"},
    "rows as drawn, no record fitting": {"drawing": "rounding"},
    "all three as in the paper": {"column_noise": 0, "accounting": "zcdp", "drawing": "rounding"},
    "no smoothing of ordered columns": {"smooth": False},
    "4 rounds per column": {"rounds_per_column": 4},
    "8 rounds per column": {"rounds_per_column": 8},
    "measuring share .8": {"measure_share": 0.8},
    "measuring share .95": {"measure_share": 0.95},
    "model of 20 MB": {"max_model_mb": 20},
}
SEEDS = {
    "natality@1300": 5, "br2000@1300": 5, "acs13@1300": 5,
    "natality@8000": 3, "br2000@8000": 2, "acs13@8000": 2,
    "natality": 2, "br2000": 2,
}  # fmt: skip
"""Repetitions per table; ``@ROWS`` are that many rows of it."""


def in_this_process(spec: Record, *, timeout: float) -> Record:
    """Run one cell here: its memory is of no interest, and a process would cost more than most cells."""
    del timeout
    return run_cell(spec)


def run(
    *,
    out: Path,
    data: Path | None,
    quick: bool,
    timeout: float,
    variants: Sequence[str],
    tables: Sequence[str],
) -> None:
    """Run what is missing and print one row per variant."""
    folder = find_data(data)
    tables = ("natality@1300",) if quick else tables
    epsilons = (1.0,) if quick else (1.0, 10.0)
    print(NOTICE)
    results: dict[str, list[Record]] = {}
    for name in variants[:5] if quick else variants:
        specs = [
            {
                "table": table,
                "workload": "all-3way",
                "method": "aim",
                "epsilon": epsilon,
                "delta": DELTA,
                "seed": seed,
                "options": VARIANTS[name],
                "data": str(folder),
            }
            for table in tables
            for epsilon in epsilons
            for seed in range(2 if quick else SEEDS[table])
        ]
        results[name] = run_all(specs, out / "results.jsonl", timeout=timeout, run=in_this_process)
    print(table_of(results))


def table_of(results: Mapping[str, Sequence[Record]]) -> str:
    """Mean error by table and epsilon, and the geometric mean of its ratio to the first variant's."""
    cells = list(
        dict.fromkeys((item["table"], item["epsilon"]) for items in results.values() for item in items)
    )
    means = {name: {cell: _mean(items, cell) for cell in cells} for name, items in results.items()}
    first = means[next(iter(means))]
    lines = [
        "| variant | " + " | ".join(f"{table} {epsilon:g}" for table, epsilon in cells) + " | ratio |",
        "|---" * (len(cells) + 2) + "|",
    ]
    for name, row in means.items():
        logs = [
            math.log(row[cell] / first[cell]) for cell in cells if not math.isnan(row[cell] + first[cell])
        ]
        shown = " | ".join("" if math.isnan(row[cell]) else f"{row[cell]:.4f}" for cell in cells)
        lines.append(f"| {name} | {shown} | {math.exp(fmean(logs)) if logs else math.nan:.3f} |")
    return "\n".join(lines)


def _mean(items: Sequence[Record], cell: tuple[str, float]) -> float:
    errors = [
        item["error"] for item in items if (item["table"], item["epsilon"]) == cell and item["status"] == "ok"
    ]
    return fmean(errors) if errors else math.nan


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Ablation of AIM's options.")
    parser.add_argument("--quick", action="store_true", help="one table, five variants, two seeds")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/ablation"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds per cell")
    parser.add_argument("--tables", nargs="+", choices=list(SEEDS), default=list(SEEDS))
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    try:
        run(**vars(parser.parse_args(arguments)))
    except UnderstudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
