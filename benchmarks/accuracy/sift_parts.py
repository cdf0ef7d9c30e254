"""What each idea in sift brings: its error with one of them left out at a time, on tables that no benchmark reports.

Ideas are no options of the method, so each variant replaces a constant or a function of its modules. The error is the mean total variation of the rows drawn over all triples of
columns. Tables of columns with more values are development tables of ``benchmarks.accuracy.auto``; tables of columns with two values, where sums of signs are measured, are such tables with every column cut to two values, and a made-up one.
The tables are public and read without noise to compute the error, and nothing of this is a release.

Run ``python -m benchmarks.accuracy.sift_parts`` (``--quick`` for one table of each kind and one seed).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

from benchmarks.accuracy._runner import THREADS

if __name__ == "__main__":  # before anything that starts threads is imported
    for _name in THREADS:
        os.environ.setdefault(_name, "1")

import numpy as np

from benchmarks._tables import find_data
from benchmarks.accuracy._runner import Record, finished, key_of, read_records, run_all
from benchmarks.accuracy.ablation import table_of
from benchmarks.accuracy.aim import NOTICE
from benchmarks.accuracy.auto import DELTA, fit_cell
from understudy.mechanisms.allocation import direct_weights
from understudy.mechanisms.base import total_deviation
from understudy.mechanisms.graphs.privsyn import select_pairs
from understudy.mechanisms.marginal import sift
from understudy.mechanisms.marginal.sifting import learner, signs
from understudy.mechanisms.marginal.sifting.dividing import Division
from understudy.privacy import Accounting, Unit, noise_for
from understudy.schema import Schema

TABLES = ("natality@10000", "adult8@4884", "acs13@5000")
TWO_VALUED = ("simulated@10000", "acs13-two@5000", "adult8-two@4884")
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


def _no_signs(*_: object) -> bool:
    return False


def _signs_as_measured(gaps: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, ...]:
    """Take differences from what is expected for what they are measured as."""
    return gaps, variance, np.square(gaps) + variance


def _evenly(self: signs.SignSums, cost: float) -> np.ndarray:
    """Give every sum of signs that was measured the same part of a cost."""
    open_ = self._precision > 0
    return np.asarray(cost * open_ / open_.sum())


Replaced = Sequence[tuple[object, str, Any]]
OF_TABLES: Mapping[str, Replaced] = {
    "default": (),
    "rounds instead of triples at once": ((sift.Sift, "_triples", _no_triples),),
    "pairs measured once, before triples": ((sift, "_FIRST", 0.6), (sift, "_PARTS", (1.0,))),
    "chosen as in PrivSyn": ((sift, "divide", _greedily),),
    "pairs however poor": ((sift, "_WORTH", 1.0),),
    "noise left in": ((learner, "nearer", _as_measured),),
    "accounting for two measurements a column": ((sift.Sift, "expected_noise", _two_for_each_column),),
}
"""What is replaced in each variant: an object, the name of a part of it, and the other part."""
OF_SIGNS: Mapping[str, Replaced] = {
    "default": (),
    "tables instead of sums of signs": ((sift.Sift, "_by_signs", _no_signs),),
    "noise left in": ((signs, "_without_noise", _signs_as_measured),),
    "second look shared evenly": ((signs.SignSums, "divide", _evenly),),
    "triples never": ((signs, "_HOPELESS", -1.0),),
}
"""The same where sums of signs are measured."""


def run_without(replaced: Replaced, spec: Record, *, timeout: float) -> Record:
    """Run one cell here with something replaced."""
    with ExitStack() as stack:
        for owner, name, other in replaced:
            stack.enter_context(patch.object(owner, name, other))
        return fit_cell(spec | {"cpu_limit": timeout})


def run_variants(
    variants: Mapping[str, Replaced], tables: Sequence[str], *, out: Path, folder: Path, seeds: int
) -> dict[str, list[Record]]:
    """Run what is missing of some variants on some tables."""
    results = {}
    for name, replaced in variants.items():
        specs = [
            {
                "table": table, "workload": "all-3way", "method": "sift", "epsilon": epsilon,
                "delta": DELTA, "seed": seed, "options": None, "data": str(folder),
            }
            for table in tables
            for epsilon in EPSILONS
            for seed in range(seeds)
        ]  # fmt: skip
        cells: Callable[..., Record] = partial(run_without, replaced)
        place = out / f"{name.replace(' ', '-').replace(',', '')}.jsonl"
        kept = sum(finished(cell, CPU_LIMIT) for cell in _known(place, specs))
        if kept:
            print(f"{name}: {kept} of {len(specs)} cells were kept from an earlier run.")
        results[name] = run_all(specs, place, timeout=CPU_LIMIT, run=cells, say=_aside)
    return results


def _known(place: Path, specs: Sequence[Record]) -> list[Record | None]:
    """Return what a file of results has of some cells."""
    known = read_records(place)
    return [known.get(key_of(spec)) for spec in specs]


def _aside(line: str) -> None:
    """Show a cell as it comes, on the other stream: pages keep the tables alone."""
    print(line, file=sys.stderr, flush=True)


def report(results: Mapping[str, Sequence[Record]], what: str) -> None:
    """Print a row for each variant at each budget: its errors, the geometric mean of their ratios to the default, and the mean CPU of a cell."""
    for epsilon in EPSILONS:
        print(f"\n{what}, epsilon {epsilon:g}\n")
        some = {
            name: [cell for cell in cells if cell["epsilon"] == epsilon] for name, cells in results.items()
        }
        print(table_of(some))
    print(f"\n{what}, CPU seconds of a fit with its rows, on average")
    for name, cells in results.items():
        spent = [cell["cpu_seconds"] for cell in cells if cell["status"] == "ok"]
        print(f"{name}: {fmean(spent):.1f}" if spent else f"{name}: none")


def run(
    *,
    out: Path,
    data: Path | None,
    quick: bool,
    tables: Sequence[str],
    two_valued: Sequence[str],
    seeds: int,
) -> None:
    """Run what is missing and print both tables."""
    folder = find_data(data)
    print(NOTICE)
    kinds = (
        ("Tables", OF_TABLES, tables, "adult6@4884"),
        ("Sums of signs", OF_SIGNS, two_valued, "simulated@2000"),
    )
    for what, variants, wanted, small in kinds:
        found = run_variants(
            variants,
            (small,) if quick else wanted,
            out=out / what.replace(" ", "-").lower(),
            folder=folder,
            seeds=1 if quick else seeds,
        )
        report(found, what)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Ablation of sift.")
    parser.add_argument("--quick", action="store_true", help="one table of each kind, one seed")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/sift-parts"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--two-valued", nargs="+", default=list(TWO_VALUED))
    parser.add_argument("--seeds", type=int, default=3)
    run(**vars(parser.parse_args(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
