"""What each idea in sift brings: its error with one of them left out at a time, on tables that no benchmark reports.

Ideas are no options of the method, so each variant replaces a constant or a function of its module. The error is the mean total variation of the rows drawn over all triples of
columns. The tables are development tables of ``benchmarks.accuracy.auto``; they are public and read without noise to compute the error, and nothing of this is a release.

Run ``python -m benchmarks.accuracy.sift_parts`` (``--quick`` for one table and one seed).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.accuracy._runner import THREADS

if __name__ == "__main__":  # before anything that starts threads is imported
    for _name in THREADS:
        os.environ.setdefault(_name, "1")

import numpy as np

from benchmarks._tables import find_data
from benchmarks.accuracy._runner import Record, run_all
from benchmarks.accuracy.ablation import table_of
from benchmarks.accuracy.aim import NOTICE
from benchmarks.accuracy.auto import DELTA, fit_cell
from understudy.mechanisms.allocation import direct_weights
from understudy.mechanisms.base import total_deviation
from understudy.mechanisms.graphs.privsyn import select_pairs
from understudy.mechanisms.marginal import learner, sift
from understudy.mechanisms.marginal.dividing import Division
from understudy.privacy import Accounting, Unit, noise_for
from understudy.schema import Schema

TABLES = (
    "adult6@48842", "adult6@4884", "br6@38000", "br6@3800", "adult8@48842", "br9@3800",
    "adult15@48842", "acs13@50000", "bank@45211", "br2000@38000",
)  # fmt: skip
EPSILONS = (0.1, 1.0, 10.0)
CPU_LIMIT = 300.0


def _no_triples(*_: object) -> list[object]:
    return []


def _as_measured(noisy: np.ndarray, expected: np.ndarray, variance: float) -> np.ndarray:
    return noisy


def _greedily(
    gaps: np.ndarray,
    cells: np.ndarray,
    weights: np.ndarray,
    *,
    one_cell: float,
    accounting: Accounting,
    worth: float = 1.0,
) -> Division:
    """Choose marginals as PrivSyn does: a measured one has its noise as error, whatever its gap."""
    chosen, errors = select_pairs(
        (weights * cells).tolist(), (weights * gaps).tolist(), one_cell=one_cell, power=2 / 3
    )
    shares = np.zeros(len(gaps))
    shares[chosen] = direct_weights(accounting, weights[chosen].tolist(), cells[chosen].tolist())
    return Division(shares, errors[-1])


def _two_for_each_column(
    self: sift.Sift, schema: Schema, unit: Unit, accounting: Accounting, cost: float
) -> float:
    """Expect two measurements for each column, so that few columns are measured with Laplace noise."""
    parts = accounting.split(cost, [1.0] * (2 * len(schema.domain)))
    return total_deviation([(1, noise_for(accounting, unit, parts[0]))])


Replaced = Sequence[tuple[object, str, Any]]
VARIANTS: Mapping[str, Replaced] = {
    "default": (),
    "rounds instead of triples at once": ((sift.Sift, "_triples", _no_triples),),
    "pairs measured once, before triples": ((sift, "_FIRST", 0.6), (sift, "_PARTS", (1.0,))),
    "chosen as in PrivSyn": ((sift, "divide", _greedily),),
    "pairs however poor": ((sift, "_WORTH", 1.0),),
    "noise left in": ((learner, "nearer", _as_measured),),
    "accounting for two measurements a column": ((sift.Sift, "expected_noise", _two_for_each_column),),
}
"""What is replaced in each variant: an object, the name of a part of it, and the other part."""


def run_without(replaced: Replaced, spec: Record, *, timeout: float) -> Record:
    """Run one cell here with something replaced."""
    with ExitStack() as stack:
        for owner, name, other in replaced:
            stack.enter_context(patch.object(owner, name, other))
        return fit_cell(spec | {"cpu_limit": timeout})


def run(
    *, out: Path, data: Path | None, quick: bool, tables: Sequence[str], variants: Sequence[str], seeds: int
) -> None:
    """Run what is missing and print a row for each variant."""
    folder = find_data(data)
    print(NOTICE)
    results: dict[str, list[Record]] = {}
    for name in variants:
        specs = [
            {
                "table": table, "workload": "all-3way", "method": "sift", "epsilon": epsilon,
                "delta": DELTA, "seed": seed, "options": None, "data": str(folder),
            }
            for table in (("adult6@4884",) if quick else tables)
            for epsilon in EPSILONS
            for seed in range(1 if quick else seeds)
        ]  # fmt: skip
        cells: Callable[..., Record] = partial(run_without, VARIANTS[name])
        place = out / f"{name.replace(' ', '-').replace(',', '')}.jsonl"
        results[name] = run_all(specs, place, timeout=CPU_LIMIT, run=cells)
    print(table_of(results))
    for epsilon in EPSILONS:
        print(f"\nEpsilon {epsilon:g}\n")
        some = {
            name: [cell for cell in cells if cell["epsilon"] == epsilon] for name, cells in results.items()
        }
        print(table_of(some))


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Ablation of sift.")
    parser.add_argument("--quick", action="store_true", help="one table, one seed")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/sift-parts"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, default=2)
    run(**vars(parser.parse_args(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
