"""Paper DIPS: bias, error, coverage and width of intervals from synthetic tables (simulation studies 1 to 4), and the fertility case study.

    python -m benchmarks.papers.dips --studies 1,2 --repetitions 1000 --out .benchmarks/dips

Every study is a list of jobs, one per scenario and budget. Finished jobs are kept in ``jobs.jsonl`` and not run again.
Results are JSON (``study1.json``), tables and pictures. Everything is simulated or public. ``2-symmetric`` is study 2 with
bounds that are symmetric about the mean. ``--write`` keeps the results of a study in ``docs/measured/data`` and an overview of
them in ``docs/assets``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._kept import keep_chart, keep_table
from benchmarks._tables import find_data
from benchmarks.papers import _dips_fertility, _dips_study1, _dips_study2, _dips_study3, _dips_study4
from benchmarks.papers._dips_common import (
    COLUMNS,
    EPSILONS,
    RECOMMENDED,
    Job,
    Record,
    overview,
    pictures,
    result_rows,
    run_jobs,
)
from understudy.errors import WorkloadError


@dataclass(frozen=True)
class Study:
    """A simulation study: scenarios, what runs a job, repetitions (the paper's, and few), and what its overview shows."""

    scenarios: Mapping[str, Any]
    run: Callable[[Job], list[Record]]
    charted: tuple[str, ...]
    repetitions: int
    quick: int
    shown: str
    parameters: tuple[str, ...]


STUDIES = {
    "1": Study(
        _dips_study1.SCENARIOS, _dips_study1.run, _dips_study1.CHARTED, 5000, 200, "n=100 pi=0.25", ("pi",)
    ),
    **{
        form: Study(
            _dips_study2.SCENARIOS,
            _dips_study2.run,
            _dips_study2.CHARTED,
            5000,
            100,
            "n=100 sigma2=1",
            ("mu", "sigma2"),
        )
        for form in _dips_study2.BOUNDS
    },
    "3": Study(
        _dips_study3.SCENARIOS,
        _dips_study3.run,
        _dips_study3.CHARTED,
        5000,
        40,
        "n=1000",
        ("pi", "mu1", "sigma2", "rho"),
    ),
    "4": Study(
        _dips_study4.SCENARIOS,
        _dips_study4.run,
        _dips_study4.CHARTED,
        1000,
        20,
        "n=1000",
        ("beta2", "beta3", "sigma2", "rho"),
    ),
}
PARTS = (*STUDIES, "fertility")


def jobs_of(study: str, *, repetitions: int, epsilons: Sequence[float], seed: int) -> list[Job]:
    """Every scenario under every budget, and once without one."""
    budgets: list[float | None] = [None, *epsilons]
    return [
        Job(study, scenario, epsilon, repetitions, seed)
        for scenario in STUDIES[study].scenarios
        for epsilon in budgets
    ]


def run_study(
    study: str,
    out: Path,
    *,
    repetitions: int,
    epsilons: Sequence[float],
    seed: int,
    processes: int,
    by_budget: bool = False,
    write: bool = False,
    say: Callable[[str], None],
) -> list[Record]:
    """Run one simulation study and write its results."""
    start = time.perf_counter()
    chosen = STUDIES[study]
    jobs = jobs_of(study, repetitions=repetitions, epsilons=epsilons, seed=seed)
    records = run_jobs(jobs, chosen.run, out / "jobs.jsonl", processes=processes, say=say)
    (out / f"study{study}.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
    if any(record["epsilon"] is not None for record in records):
        pictures(records, out, study, chosen.charted)
    if write:
        keep_table(f"dips-study{study}", COLUMNS, result_rows(records))
        chart = overview(records, study, chosen.charted, chosen.shown, chosen.parameters)
        keep_chart(f"dips-study{study}", chart)
    say(f"study {study}: {len(jobs)} jobs of {repetitions} repetitions, {time.perf_counter() - start:.0f} s")
    for line in summary_lines(records) + (budget_lines(records) if by_budget else []):
        say(line)
    return records


def summary_lines(records: Sequence[Record]) -> list[str]:
    """Smallest and largest coverage, bias and error of each method over the scenarios.

    Coverage for budgets of at least one, below, and without a budget; the mean of the median widths, and the ranges of absolute
    bias and RMSE, at epsilon 1, or without a budget for what needs none.
    """
    lines = [
        f"{'':30} {'':8} {'without':>15} {'epsilon < 1':>15} {'epsilon >= 1':>15} {'width at 1':>11} "
        f"{'|bias| at 1':>20} {'RMSE at 1':>18}"
    ]
    for method, parameter in dict.fromkeys((item["method"], item["parameter"]) for item in records):
        mine = [item for item in records if (item["method"], item["parameter"]) == (method, parameter)]
        parts = [
            [item["coverage"] for item in mine if item["epsilon"] is None],
            [item["coverage"] for item in mine if item["epsilon"] is not None and item["epsilon"] < 0.999],
            [item["coverage"] for item in mine if item["epsilon"] is not None and item["epsilon"] >= 0.999],
        ]
        shown = [f"{min(part):.3f} to {max(part):.3f}" if part else "" for part in parts]
        at_one = [item for item in mine if item["epsilon"] is None or abs(item["epsilon"] - 1) < 1e-6]
        width = bias = error = ""
        if at_one:
            width = f"{sum(item['median_width'] for item in at_one) / len(at_one):.3g}"
            bias = _range([abs(item["bias"]) for item in at_one])
            error = _range([item["rmse"] for item in at_one])
        mark = " *" if method == RECOMMENDED else ""
        lines.append(
            f"{method + mark:30} {parameter:8} {shown[0]:>15} {shown[1]:>15} {shown[2]:>15} {width:>11} "
            f"{bias:>20} {error:>18}"
        )
    return lines


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if len(values) == 1 else f"{low} to {high}"


CELLS: dict[str, Callable[[Record], str]] = {
    "coverage (median width)": lambda item: f"{item['coverage']:.3f} ({item['median_width']:.2g})",
    "bias (RMSE)": lambda item: f"{item['bias']:.2g} ({item['rmse']:.2g})",
}


def budget_lines(records: Sequence[Record]) -> list[str]:
    """Coverage, median width, bias and RMSE of each method in each scenario without a budget and under each."""
    budgets = [None, *sorted({item["epsilon"] for item in records if item["epsilon"] is not None})]
    heads = "".join(f"{'none' if budget is None else f'{budget:.3g}':>20}" for budget in budgets)
    lines = []
    for scenario in dict.fromkeys(item["scenario"] for item in records):
        here = [item for item in records if item["scenario"] == scenario]
        for what, cell_of in CELLS.items():
            lines += ["", f"{f'{scenario}: {what} at epsilon':48}{heads}"]
            for method, parameter in dict.fromkeys((item["method"], item["parameter"]) for item in here):
                cells = {
                    item["epsilon"]: cell_of(item)
                    for item in here
                    if (item["method"], item["parameter"]) == (method, parameter)
                }
                shown = "".join(f"{cells.get(budget, ''):>20}" for budget in budgets)
                lines.append(f"{method:36}{parameter:12}{shown}".rstrip())
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
    write: bool = False,
    say: Callable[[str], None] = print,
) -> list[Record]:
    """Run the wanted studies and return what they found."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise WorkloadError(f"No study named {', '.join(unknown)}. Known: {', '.join(PARTS)}.")
    out.mkdir(parents=True, exist_ok=True)
    found: list[Record] = []
    for part in parts:
        if part == "fertility":
            folder = find_data(data)
            times = repetitions or (5 if quick else 100)
            rows = _dips_fertility.run(folder, repetitions=times, seed=seed, say=say)
            (out / "fertility.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
            for row in rows:
                numbers = [f"{name} {value:.3f}" for name, value in row.items() if isinstance(value, float)]
                say(f"{row['method']}: {', '.join(numbers)}")
            found += [{"study": part, **row} for row in rows]
            continue
        records = run_study(
            part,
            out,
            repetitions=repetitions or (STUDIES[part].quick if quick else STUDIES[part].repetitions),
            epsilons=epsilons,
            seed=seed,
            processes=processes,
            by_budget=by_budget,
            write=write,
            say=say,
        )
        found += [{"study": part, **record} for record in records]
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--studies", default=",".join(PARTS))
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--epsilons", help="Budgets, comma-separated; default e^-4 to e^4.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--by-budget", action="store_true", help="Print every scenario and budget as well.")
    parser.add_argument(
        "--write", action="store_true", help="Keep results in docs/measured/data and docs/assets."
    )
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
        write=chosen.write,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
