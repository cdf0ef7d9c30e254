"""Every general-purpose method on four public tables: workload error, classifier accuracy, time and memory.

Each cell (table, method, epsilon, seed) runs in a process of its own, within a limit on its computing time. Results are
appended to ``results.jsonl`` as they come, so that an interrupted run goes on where it stopped; a method that refuses a
table, fails or takes too long is recorded with its reason. Computing errors reads the real tables without noise: they
are public, and nothing of this is a release.

Run ``understudy bench families --quick`` or ``python -m benchmarks.accuracy.families --quick``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

from benchmarks._tables import find_data
from benchmarks.accuracy._family_cell import REAL, TARGETS
from benchmarks.accuracy._family_summary import markdown, picture, table_rows
from benchmarks.accuracy._runner import Record, finished, in_process, key_of, read_records, run_all
from understudy.errors import UnderstudyError, WorkloadError
from understudy.mechanisms import method
from understudy.mechanisms import methods as registered

TABLES = ("adult", "nltcs", "natality", "acs13")
EPSILONS = (1.0, 10.0, 0.1)
DELTA = 1e-9
WORKLOAD = "all-3way"
QUICK_METHODS = ("independent", "mst", "aim", "privsyn", "privmrf", "privbayes", "gaussian", "hdmm-pgm")
SPECIAL = ("counts", "histograms")
"""Families for contingency tables of few cells, or for single columns: not general-purpose."""
SPECIAL_METHODS = ("laplace",)
SLOW = ("dpctgan", "patectgan")
"""Run last: they are expected to use all the time they get."""
NOTICE = (
    "Reads real tables without noise to compute errors; the tables are public and the result is no release."
)


def general_purpose() -> list[str]:
    """Return the methods of the registry that take any table of several columns, slow ones last."""
    names = [
        item.name
        for item in registered()
        if item.module.split(".")[2] not in SPECIAL and item.name not in SPECIAL_METHODS
    ]
    return sorted(names, key=lambda name: name in SLOW)


def specs(
    tables: Sequence[str],
    methods: Sequence[str],
    epsilons: Sequence[float],
    *,
    seeds: int,
    data: Path,
    cpu: float,
) -> list[Record]:
    """Return the cells in the order they run, after checking every word: all tables at one epsilon, then the next."""
    for name in tables:
        if name.partition("@")[0] not in TARGETS:
            raise WorkloadError(f"The benchmark does not know {name!r}. Known: {', '.join(TABLES)}.")
    for name in methods:
        method(name)
    common = {"workload": WORKLOAD, "delta": DELTA, "options": None, "data": str(data), "cpu_limit": cpu}
    grid = [(table, REAL, 1.0, 0) for table in tables]
    grid += [(t, m, e, s) for e, s, t, m in product(epsilons, range(seeds), tables, methods)]
    return [{"table": t, "method": m, "epsilon": e, "seed": s, **common} for t, m, e, s in grid]


def run(
    *,
    out: Path,
    data: Path | None = None,
    quick: bool = False,
    tables: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    epsilons: Sequence[float] | None = None,
    seeds: int = 1,
    cpu_limit: float = 240.0,
    until: float | None = None,
    say: Callable[[str], None] = print,
) -> list[Record]:
    """Run what is missing; write ``results.jsonl``, ``families.json``, ``summary.md`` and ``families.svg`` into ``out``.

    ``until`` stops after so many seconds; the rest is listed as not run, and a second run goes on there.
    """
    folder = find_data(data)
    if quick:  # what was not chosen otherwise
        tables, methods, epsilons = tables or ("nltcs", "adult"), methods or QUICK_METHODS, epsilons or (1.0,)
        cpu_limit = min(cpu_limit, 30.0)
    tables, epsilons = tables or TABLES, epsilons or EPSILONS
    chosen = general_purpose() if methods is None else methods
    cells = specs(tables, chosen, epsilons, seeds=seeds, data=folder, cpu=cpu_limit)
    say(NOTICE)
    stop = None if until is None else time.monotonic() + until
    path = out / "results.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    records: list[Record] = []
    not_run: list[Record] = []
    known = read_records(path)
    for index, spec in enumerate(cells, start=1):
        ended = finished(known.get(key_of(spec)), cpu_limit)
        if stop is not None and time.monotonic() > stop and not ended:
            not_run.append(spec)
            continue
        if not ended:
            say(f"[{index}/{len(cells)}]")
        records += run_all([spec], path, timeout=cpu_limit, run=_run_cell, say=say)
        if not ended:
            _write(out, records, cells[index:])
    _write(out, records, not_run)
    say(markdown(records, not_run=not_run))
    say(f"Wrote results.jsonl, families.json, summary.md and families.svg to {out}.")
    return records


def _run_cell(spec: Record, *, timeout: float) -> Record:
    """Run one cell; the wall clock may show several times what it may compute, since others use the machine too."""
    command = [sys.executable, "-m", "benchmarks.accuracy._family_cell", json.dumps(spec)]
    found = in_process(command, timeout=8 * timeout + 120)
    return found | {"timeout": timeout} if found["status"] == "timeout" else found


def _write(out: Path, records: Sequence[Record], not_run: Sequence[Record]) -> None:
    document = {"delta": DELTA, "workload": WORKLOAD, "unit": "add-remove", "rows": table_rows(records)}
    (out / "families.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (out / "summary.md").write_text(markdown(records, not_run=not_run), encoding="utf-8")
    if any(record["status"] == "ok" and record["error"] > 0 for record in records):
        chart = picture(records, "Error on all 3-way marginals, by method and epsilon")
        (out / "families.svg").write_text(chart, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Comparison of all general-purpose methods.")
    parser.add_argument("--quick", action="store_true", help="a subset that takes less than 3 minutes")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/families"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--tables", type=_names)
    parser.add_argument("--methods", type=_names, default=None)
    parser.add_argument("--epsilons", type=lambda text: [float(token) for token in _names(text)])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--cpu-limit", type=float, default=240.0, help="seconds of computing per cell")
    parser.add_argument("--until", type=float, help="start no cell after so many seconds")
    try:
        run(**vars(parser.parse_args(arguments)))
    except UnderstudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _names(text: str) -> list[str]:
    return [token.strip() for token in text.split(",") if token.strip()]


if __name__ == "__main__":
    sys.exit(main())
