"""The methods that ``auto`` chooses from, over tables, budgets and sizes of table: who is best, and how close ``auto`` comes.

Every cell is one fit: rows as many as the table has are drawn and compared with it, by the mean total variation over all pairs and
over all triples of columns. Triples decide. The choice of ``auto`` is a function of the schema and the budget, so its error in a cell is that of
the method that it names there. Results are appended to ``results.jsonl`` as they come: an interrupted run goes on where it
stopped. Tables on which the rule was chosen and tables on which it is reported are disjoint. Computing errors reads the
tables without noise: they are public, and nothing of this is a release.

Run ``python -m benchmarks.accuracy.auto`` (``--quick`` for two small tables).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.accuracy._runner import THREADS

if __name__ == "__main__":  # before anything that starts threads is imported
    for _name in THREADS:
        os.environ.setdefault(_name, "1")

import numpy as np

from benchmarks._tables import find_data, load
from benchmarks.accuracy._cell import CpuLimit, cpu_limit, peak_mb
from benchmarks.accuracy._forked import run_forked
from benchmarks.accuracy._runner import Record, finished, key_of, read_records, run_all
from benchmarks.accuracy.aim import NOTICE
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import DomainTooLarge
from understudy.marginals import all_kway, parse_workload
from understudy.mechanisms import Synthesizer, create
from understudy.mechanisms.base import try_out
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.schema import Clique

METHODS = ("independent", "mst", "privsyn", "aim", "rap", "gaussian")
SIZES = {
    "titanic": (1304, 500),
    "nltcs": (21574, 2157, 500),
    "adult15": (48842, 4884, 500),
    "adult6": (48842, 4884, 500),
    "adult8": (48842, 4884, 500),
    "br6": (38000, 3800, 500),
    "bank": (45211, 4521, 500),
    "acs13": (50000, 5000, 500),
    "br9": (38000, 3800, 500),
    "br2000": (38000, 3800, 500),
    "natality": (100000, 10000, 1000),
    "acs": (47461, 4746, 500),
    "salary": (100000, 10000, 1000),
    "fire": (50000, 5000, 500),
    "loans20": (42535, 4253, 500),
    "stroke20": (19434, 1943, 500),
    "stroke50": (19434, 1943, 500),
    "msnbc": (50000, 5000, 500),
}
"""Tables and their numbers of rows: all (at most 100,000; 50,000 of the wide ones), a tenth, a hundredth, at least 500."""
DEVELOPMENT = (
    "adult15",
    "nltcs",
    "br2000",
    "natality",
    "titanic",
    "bank",
    "acs13",
    "adult6",
    "adult8",
    "br6",
    "br9",
)
REPORTED = ("acs", "salary", "loans20", "fire", "stroke20", "msnbc")
EPSILONS = (1.0, 10.0, 0.1)
DELTA = 1e-9
CPU_LIMIT = 90.0
MOST_MARGINALS = 1_200


@cache
def table_of(name: str, folder: Path) -> LocalTable:
    """Return a table, by ``NAME@ROWS``."""
    return load(name, folder)


@cache
def exact(name: str, folder: Path, k: int) -> tuple[list[Clique], list[Any]]:
    """Return marginals of so many columns and their exact counts; of very many, some that are always the same."""
    table = table_of(name, folder)
    cliques = list(all_kway(table.schema.domain, k).cliques)
    if len(cliques) > MOST_MARGINALS:
        places = np.random.default_rng(0).choice(len(cliques), MOST_MARGINALS, replace=False)
        cliques = [cliques[place] for place in sorted(places)]
    return cliques, [counts.astype(np.float32) for counts in table.count_many(cliques)]


def variation(name: str, folder: Path, drawn: LocalTable, k: int) -> float:
    """Return the mean total variation of the marginals of so many columns."""
    cliques, counts = exact(name, folder, k)
    rows = table_of(name, folder).exact_row_count()
    distances = [
        np.abs(real - drawn.count(clique)).sum() / (2 * rows)
        for clique, real in zip(cliques, counts, strict=True)
    ]
    return float(np.mean(distances))


def mechanism(spec: Record, table: LocalTable) -> Synthesizer:
    """Return the method of a cell with its options; a workload among them is a text."""
    options = dict(spec["options"] or {})
    if "workload" in options:
        options["workload"] = parse_workload(table.schema.domain, options["workload"])
    return create(spec["method"], **options)


def fit_cell(spec: Record) -> Record:
    """Fit one method and compare the rows drawn from it."""
    folder = Path(spec["data"])
    table, unit = table_of(spec["table"], folder), Unit.add_remove()
    budget = ApproxDP(spec["epsilon"], spec["delta"])
    ledger = Ledger.in_memory(budget=budget, unit=unit, table=spec["table"])
    # A seed makes the numbers repeatable; production code never seeds privacy noise.
    curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(spec["seed"]))
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        with cpu_limit(spec["cpu_limit"]):
            model = mechanism(spec, table).fit(curator, budget)
            fitted = time.process_time() - cpu
            codes = model.sample_codes(table.exact_row_count(), seed=spec["seed"])
            used = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    except DomainTooLarge as error:
        return {"status": "refused", "message": str(error)[:200]}
    except CpuLimit:
        return {"status": "timeout", "timeout": spec["cpu_limit"]}
    drawn = LocalTable(table.schema, {name: np.ascontiguousarray(column) for name, column in codes.items()})
    return {
        "status": "ok",
        "error": variation(spec["table"], folder, drawn, 3),
        "pairs": variation(spec["table"], folder, drawn, 2),
        "fit_cpu_seconds": fitted,
        "measurements": len(model.measurements),
        **used,
        "peak_mb": peak_mb(),
    }


def _run(spec: Record, *, timeout: float) -> Record:
    """Run one cell in a copy of this process; the clock may show several times what it computes."""
    folder = Path(spec["data"])
    for k in (2, 3):
        exact(spec["table"], folder, k)
    table = table_of(spec["table"], folder)
    try_out(mechanism(spec, table), table.schema, ApproxDP(spec["epsilon"], spec["delta"]))
    found = run_forked(fit_cell, spec, wall=6 * timeout + 60)
    return {"status": "timeout", "timeout": timeout} if found["status"] == "stopped" else found


def specs(
    tables: Iterable[str],
    *,
    data: Path,
    epsilons: Sequence[float] = EPSILONS,
    sizes: Sequence[int] = (0, 1, 2),
    methods: Sequence[str] = METHODS,
    seeds: Sequence[int] = (0,),
    limit: float = CPU_LIMIT,
    options: dict[str, Any] | None = None,
) -> list[Record]:
    """Return the cells of some tables, by table, size, budget and method."""
    return [
        {
            "table": f"{table}@{SIZES[table][size]}",
            "workload": "all-3way",
            "method": method,
            "epsilon": epsilon,
            "delta": DELTA,
            "seed": seed,
            "options": options,
            "data": str(data),
            "cpu_limit": limit,
        }
        for seed in seeds
        for table in tables
        for size in sizes
        if size < len(SIZES[table])
        for epsilon in epsilons
        for method in methods
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="The methods that auto chooses from, and its choice.")
    parser.add_argument("--quick", action="store_true", help="two small tables, the small sizes")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/auto"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--tables", type=lambda text: text.split(","), default=[*DEVELOPMENT, *REPORTED])
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS))
    parser.add_argument(
        "--epsilons", type=lambda text: [float(word) for word in text.split(",")], default=list(EPSILONS)
    )
    parser.add_argument(
        "--sizes", type=lambda text: [int(word) for word in text.split(",")], default=[0, 1, 2]
    )
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[0])
    parser.add_argument("--options", type=json.loads, help="options of all methods, as JSON")
    parser.add_argument("--until", type=float, help="start no cell after so many seconds")
    given = parser.parse_args(arguments)
    data = find_data(given.data)
    print(NOTICE)
    cells = specs(
        ["titanic", "nltcs"] if given.quick else given.tables,
        data=data,
        epsilons=[1.0] if given.quick else given.epsilons,
        sizes=[1] if given.quick else given.sizes,
        methods=given.methods,
        seeds=given.seeds,
        options=given.options,
    )
    path = given.out / "results.jsonl"
    stop = None if given.until is None else time.monotonic() + given.until
    known = read_records(path)
    for number, spec in enumerate(cells, start=1):
        if finished(known.get(key_of(spec)), CPU_LIMIT):
            continue
        if stop is not None and time.monotonic() > stop:
            break
        run_all(
            [spec],
            path,
            timeout=CPU_LIMIT,
            run=_run,
            say=lambda text, at=number: print(f"[{at}/{len(cells)}] {text}", flush=True),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
