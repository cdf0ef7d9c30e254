"""What AIM's options contribute, on tables that the other benchmark does not report.

Every variant changes one option of AIM. Cells run and resume as in the `aim` benchmark. The tables are
those in ``DEVELOPMENT``: defaults may be chosen on them without touching the reported ones.

Run ``python -m benchmarks.ablation --quick``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks._runner import Record, run_all, run_ours
from benchmarks._tables import DEVELOPMENT, find_data
from benchmarks.aim import DELTA, EPSILONS, NOTICE
from understudy.errors import UnderstudyError

VARIANTS: dict[str, Mapping[str, Any] | None] = {
    "default": None,
    "2 rounds per column": {"rounds_per_column": 2},
    "4 rounds per column": {"rounds_per_column": 4},
    "8 rounds per column": {"rounds_per_column": 8},
    "16 rounds per column": {"rounds_per_column": 16},
    "measure .8": {"measure_share": 0.8},
    "measure .95": {"measure_share": 0.95},
    "model of 20 MB": {"max_model_mb": 20},
}
SEEDS = {"natality": 6, "br2000": 4, "acs13": 4, "acs": 2}


def run(*, out: Path, data: Path | None, quick: bool, timeout: float, variants: Sequence[str]) -> None:
    """Run what is missing and print one row per variant."""
    folder = find_data(data)
    tables = ("natality",) if quick else tuple(DEVELOPMENT)
    epsilons = (1.0,) if quick else EPSILONS
    print(NOTICE)
    results: dict[str, list[Record]] = {}
    for name in variants[:3] if quick else variants:
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
        results[name] = run_all(specs, out / "results.jsonl", timeout=timeout, run=run_ours)
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
    parser.add_argument("--quick", action="store_true", help="one table, three variants, two seeds")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/ablation"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds per cell")
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    try:
        run(**vars(parser.parse_args(arguments)))
    except UnderstudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
