"""What ``auto`` reaches on ten tables beside ``aim`` and ``rap``, the two best methods of version 0.1.0: error and CPU.

Every cell is one fit on the whole table: rows as many as it has are drawn, and compared by the mean total variation over all triples of columns
(of a table with very many triples, over 1,200 that are always the same). No number of rows is declared, as when a user names no method. The tables are
reported ones: what ``sift`` does was chosen on others (covid_testing, mpls_stops, acs13, bank, adult with other bins, and columns of loans and of stroke that do not occur here), and
the rule of ``auto`` on the development tables of ``benchmarks.accuracy.auto``, of which adult (with other bins), nltcs, titanic, br2000 and acs are among these ten.
``aim`` and ``rap`` are those of this version, but that their cells of stroke50 are older than the fitting of rows of wide tables to triples, which they gain by as well. A cell says how many seeds it has where there are several; ratios are over the seeds that both methods have. An interrupted run goes on where it stopped. Computing errors reads the
tables without noise: they are public, and nothing of this is a release.

Run ``python -m benchmarks.accuracy.ten_tables`` (``--quick`` for the two smallest tables at epsilon 1).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.accuracy._runner import THREADS

if __name__ == "__main__":  # before anything that starts threads is imported
    for _name in THREADS:
        os.environ.setdefault(_name, "1")

import numpy as np

from benchmarks._tables import find_data
from benchmarks.accuracy._runner import Record, finished, key_of, read_records, run_all
from benchmarks.accuracy.aim import NOTICE
from benchmarks.accuracy.auto import DELTA, choice_for, keep_cells, recall, run_cell
from understudy.workflow import AUTO

TABLES = (
    "titanic",
    "nltcs",
    "br2000",
    "salary",
    "fire",
    "loans20",
    "adult",
    "msnbc",
    "acs",
    "stroke50",
)
EPSILONS = (0.1, 1.0, 10.0)
BEFORE = ("aim", "rap")
"""The methods that ``auto`` is measured against."""
CPU_LIMIT = 600.0

Cells = Mapping[tuple[str, float], Mapping[str, Sequence[Record]]]


def specs(
    tables: Sequence[str],
    *,
    data: Path,
    epsilons: Sequence[float] = EPSILONS,
    methods: Sequence[str] = (AUTO, *BEFORE),
    seeds: int = 1,
) -> Iterator[Record]:
    """Return the cells; ``auto`` stands for what it chooses."""
    for seed in range(seeds):
        for method in methods:
            for table in tables:
                for epsilon in epsilons:
                    common = {"table": table, "workload": "all-3way", "epsilon": epsilon, "delta": DELTA}
                    common |= {"seed": seed, "data": str(data), "cpu_limit": CPU_LIMIT}
                    if method == AUTO:
                        made = choice_for(table, epsilon, data, declared=False)
                        yield common | {"method": made.method, "options": dict(made.options) or None}
                    else:
                        yield common | {"method": method, "options": None}


def _mean(records: Iterable[Record], what: str) -> float | None:
    found = [record[what] for record in records if record["status"] == "ok"]
    return float(np.mean(found)) if found else None


def _shown(records: Sequence[Record]) -> str:
    """Say the mean error and CPU of some seeds, or why there is none."""
    error, cpu = _mean(records, "error"), _mean(records, "cpu_seconds")
    if error is None or cpu is None:
        return records[0]["status"] if records else "not run"
    done = sum(record["status"] == "ok" for record in records)
    return f"{error:.4f} ({cpu:.0f} s)" + (f", {done} seeds" if done > 1 else "")


def _common(first: Sequence[Record], second: Sequence[Record]) -> tuple[float, float] | None:
    """Return the mean errors of two methods over the seeds that both finished."""
    pairs = [
        (one["error"], other["error"])
        for one in first
        for other in second
        if one["seed"] == other["seed"] and one["status"] == other["status"] == "ok"
    ]
    return (
        None
        if not pairs
        else (float(np.mean([one for one, _ in pairs])), float(np.mean([x for _, x in pairs])))
    )


def report(records: Sequence[Record], tables: Sequence[str], data: Path, *, write: bool) -> None:
    """Print a line for each table and budget, and the geometric means."""
    cells: dict[tuple[str, float], dict[str, list[Record]]] = {}
    for record in records:
        name = record["method"] if not record["options"] else f"{record['method']} with options"
        cells.setdefault((record["table"], record["epsilon"]), {}).setdefault(name, []).append(record)
    print("\n| table | epsilon | auto takes | auto | aim | rap | auto / aim | auto / better of both |")
    print("|---|---|---|---|---|---|---|---|")
    against: dict[tuple[str, float], dict[str, float]] = {}
    for table in tables:
        for epsilon in EPSILONS:
            found = cells.get((table, epsilon), {})
            if not found:
                continue
            made = choice_for(table, epsilon, data, declared=False)
            name = made.method if not made.options else f"{made.method} with options"
            own = found.get(name, [])
            ratios = {}
            for other in BEFORE:
                both = _common(own, found.get(other, []))
                if both is not None:
                    ratios[other] = both[0] / both[1]
            if "aim" in ratios:
                ratios["better"] = max(ratios.values())
                against[table, epsilon] = ratios
            shown = [f"{ratios[key]:.3f}" if key in ratios else "" for key in ("aim", "better")]
            if "better" in ratios and "rap" not in ratios:
                shown[1] += " (aim alone)"
            said = [
                table,
                f"{epsilon:g}",
                name,
                _shown(own),
                *(_shown(found.get(item, [])) for item in BEFORE),
            ]
            print(f"| {' | '.join([*said, *shown])} |")
    print()
    for epsilon in EPSILONS:
        kept = {table: ratios for (table, at), ratios in against.items() if at == epsilon}
        if not kept:
            continue
        for key, what in (("better", "the better of aim and rap"), ("aim", "aim")):
            values = {table: ratios[key] for table, ratios in kept.items()}
            worst = max(values, key=lambda table: values[table])
            mean = float(np.exp(np.mean(np.log(list(values.values())))))
            print(
                f"epsilon {epsilon:g}, against {what}: geometric mean {mean:.3f} over {len(values)} tables, worst {values[worst]:.3f} ({worst})."
            )
    if write:
        print(f"Wrote {keep_cells('ten-tables', records).name}.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="auto beside aim and rap on ten tables.")
    parser.add_argument("--quick", action="store_true", help="the two smallest tables at epsilon 1")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/ten-tables"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--tables", type=lambda text: text.split(","), default=list(TABLES))
    parser.add_argument("--methods", type=lambda text: text.split(","), default=[AUTO, *BEFORE])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--until", type=float, help="start no cell after so many seconds; run it again to go on"
    )
    parser.add_argument(
        "--again",
        type=lambda text: text.split(","),
        default=[],
        help="run these methods again (those that auto takes, by their names)",
    )
    parser.add_argument("--write", action="store_true", help="keep the errors under docs/measured")
    given = parser.parse_args(arguments)
    data = find_data(given.data)
    print(NOTICE)
    tables = list(TABLES[:2]) if given.quick else given.tables
    cells = list(
        specs(
            tables,
            data=data,
            epsilons=(1.0,) if given.quick else EPSILONS,
            methods=given.methods,
            seeds=1 if given.quick else given.seeds,
        )
    )
    path = given.out / ("quick.jsonl" if given.quick else "results.jsonl")
    if not given.quick:
        every = specs(TABLES, data=data, epsilons=EPSILONS, methods=[AUTO, *BEFORE], seeds=given.seeds)
        recall("ten-tables", path, every, again=given.again)  # those that are not run are still reported
    stop = None if given.until is None else time.monotonic() + given.until
    for spec in cells:
        if stop is not None and time.monotonic() > stop:
            break
        if not finished(read_records(path).get(key_of(spec)), CPU_LIMIT):
            run_all([spec], path, timeout=CPU_LIMIT, run=run_cell)
    known = read_records(path)
    missing = [spec for spec in cells if not finished(known.get(key_of(spec)), CPU_LIMIT)]
    report(list(known.values()), tables, data, write=given.write)
    print(f"{len(known)} cells; {len(missing)} were not run.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
