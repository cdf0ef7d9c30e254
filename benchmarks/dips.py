"""Paper DIPS: coverage of intervals from synthetic tables (simulation studies 1 to 4), and the fertility case study.

    python -m benchmarks.dips --studies 1,2 --repetitions 1000 --out .benchmarks/dips

Every study is a list of jobs, one per scenario and budget. Finished jobs are kept in ``jobs.jsonl`` and not run again.
Results are JSON (``study1.json``), a table of coverages and pictures. Everything is simulated or public.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import _dips_fertility, _dips_study1, _dips_study2, _dips_study3, _dips_study4
from benchmarks._dips_common import EPSILONS, RECOMMENDED, Job, Record, pictures, run_jobs
from benchmarks._tables import find_data
from understudy.errors import WorkloadError

STUDIES: dict[int, Any] = {1: _dips_study1, 2: _dips_study2, 3: _dips_study3, 4: _dips_study4}
REPETITIONS = {1: 1000, 2: 1000, 3: 1000, 4: 200}
QUICK = {1: 200, 2: 100, 3: 40, 4: 20}
PARTS = ("1", "2", "3", "4", "fertility")


def jobs_of(study: int, *, repetitions: int, epsilons: Sequence[float], seed: int) -> list[Job]:
    """Every scenario under every budget, and once without one."""
    budgets: list[float | None] = [None, *epsilons]
    return [
        Job(study, scenario, epsilon, repetitions, seed)
        for scenario in STUDIES[study].SCENARIOS
        for epsilon in budgets
    ]


def run_study(
    study: int,
    out: Path,
    *,
    repetitions: int,
    epsilons: Sequence[float],
    seed: int,
    processes: int,
    by_budget: bool = False,
    say: Callable[[str], None],
) -> list[Record]:
    """Run one simulation study and write its results."""
    start = time.perf_counter()
    jobs = jobs_of(study, repetitions=repetitions, epsilons=epsilons, seed=seed)
    records = run_jobs(jobs, STUDIES[study].run, out / "jobs.jsonl", processes=processes, say=say)
    (out / f"study{study}.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
    if any(record["epsilon"] is not None for record in records):
        pictures(records, out, study, STUDIES[study].CHARTED)
    say(f"study {study}: {len(jobs)} jobs of {repetitions} repetitions, {time.perf_counter() - start:.0f} s")
    for line in coverage_lines(records) + (budget_lines(records) if by_budget else []):
        say(line)
    return records


def coverage_lines(records: Sequence[Record]) -> list[str]:
    """Smallest and largest coverage of each method over the scenarios, for budgets of at least one and below."""
    lines = [f"{'':30} {'':8} {'without':>15} {'epsilon < 1':>15} {'epsilon >= 1':>15} {'width at 1':>11}"]
    for method, parameter in dict.fromkeys((item["method"], item["parameter"]) for item in records):
        mine = [item for item in records if (item["method"], item["parameter"]) == (method, parameter)]
        parts = [
            [item["coverage"] for item in mine if item["epsilon"] is None],
            [item["coverage"] for item in mine if item["epsilon"] is not None and item["epsilon"] < 0.999],
            [item["coverage"] for item in mine if item["epsilon"] is not None and item["epsilon"] >= 0.999],
        ]
        shown = [f"{min(part):.3f} to {max(part):.3f}" if part else "" for part in parts]
        widths = [
            item["median_width"]
            for item in mine
            if item["epsilon"] is not None and abs(item["epsilon"] - 1) < 1e-6
        ]
        width = f"{sum(widths) / len(widths):.3g}" if widths else ""
        mark = " *" if method == RECOMMENDED else ""
        lines.append(
            f"{method + mark:30} {parameter:8} {shown[0]:>15} {shown[1]:>15} {shown[2]:>15} {width:>11}"
        )
    return lines


def budget_lines(records: Sequence[Record]) -> list[str]:
    """Coverage and median width of each method in each scenario under each budget."""
    budgets = sorted({item["epsilon"] for item in records if item["epsilon"] is not None})
    lines = []
    for scenario in dict.fromkeys(item["scenario"] for item in records):
        here = [item for item in records if item["scenario"] == scenario and item["epsilon"] is not None]
        heads = "".join(f"{budget:>16.3g}" for budget in budgets)
        lines += ["", f"{scenario + ': coverage (median width) at epsilon':48}{heads}"]
        for method, parameter in dict.fromkeys((item["method"], item["parameter"]) for item in here):
            cells = {
                item["epsilon"]: f"{item['coverage']:.3f} ({item['median_width']:.2g})"
                for item in here
                if (item["method"], item["parameter"]) == (method, parameter)
            }
            shown = "".join(f"{cells.get(budget, ''):>16}" for budget in budgets)
            lines.append(f"{method:36}{parameter:12}{shown}")
    return lines


def run(
    *,
    out: Path = Path(".benchmarks/dips"),
    data: Path | None = None,
    parts: Sequence[str] = PARTS,
    repetitions: int | None = None,
    epsilons: Sequence[float] = EPSILONS,
    seed: int = 1,
    processes: int = 2,
    quick: bool = False,
    by_budget: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Run the wanted studies."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise WorkloadError(f"No study named {', '.join(unknown)}. Known: {', '.join(PARTS)}.")
    out.mkdir(parents=True, exist_ok=True)
    for part in parts:
        if part == "fertility":
            folder = find_data(data)
            times = repetitions or (5 if quick else 100)
            rows = _dips_fertility.run(folder, repetitions=times, seed=seed, say=say)
            (out / "fertility.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
            for row in rows:
                numbers = [f"{name} {value:.3f}" for name, value in row.items() if isinstance(value, float)]
                say(f"{row['method']}: {', '.join(numbers)}")
            continue
        study = int(part)
        run_study(
            study,
            out,
            repetitions=repetitions or (QUICK if quick else REPETITIONS)[study],
            epsilons=epsilons,
            seed=seed,
            processes=processes,
            by_budget=by_budget,
            say=say,
        )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--studies", default=",".join(PARTS))
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--epsilons", help="Budgets, comma-separated; default e^-4 to e^4.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--by-budget", action="store_true", help="Print every scenario and budget as well.")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/dips"))
    chosen = parser.parse_args(list(arguments))
    run(
        out=chosen.out,
        data=chosen.data,
        parts=chosen.studies.split(","),
        repetitions=chosen.repetitions,
        epsilons=EPSILONS
        if chosen.epsilons is None
        else [float(word) for word in chosen.epsilons.split(",")],
        seed=chosen.seed,
        processes=chosen.processes,
        quick=chosen.quick,
        by_budget=chosen.by_budget,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
