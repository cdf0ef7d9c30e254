"""Counting 175 marginals of Parquet files, by rows and by persons, on one core and on two: CPU, time, memory.

Run with ``python -m benchmarks.speed.large_count [ROWS ...] [--cores 1,2] [--folder FOLDER] [--out RESULTS.jsonl]``. Ten columns and an id are simulated, ten rows for each person on
average, of which three are kept. Every way is a process of its own, bound to its cores. CPU seconds count; the time on a machine that others use
too is as it came, and the load beside it says how busy the machine was: how much faster two cores are is worth something on an idle machine only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.speed._large import SCHEMA, write
from benchmarks.speed._watch import measured

ROWS = (1_000_000, 10_000_000)
ROWS_OF_A_PERSON = 10
KEPT = 3


def count(folder: Path, unit: str, cores: int) -> None:
    """Check, cut where persons are the unit, and count; print what each part took."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    import understudy.data as data

    cliques = [clique for size in (1, 2, 3) for clique in combinations(SCHEMA.names, size)]
    load = os.getloadavg()[0]
    marks = [(time.perf_counter(), time.process_time())]

    def mark() -> None:
        marks.append((time.perf_counter(), time.process_time()))

    table: Any = data.ArrowTable(folder, SCHEMA, id_column="person" if unit == "persons" else None)
    mark()
    rows = table.exact_row_count()
    if unit == "persons":
        table = table.truncated("person", KEPT, os.urandom(32))
    mark()
    counts = table.count_many(cliques)
    mark()
    assert all(int(marginal.sum()) == table.exact_row_count() for marginal in counts)
    assert unit != "persons" or table.exact_row_count() < rows
    found = {
        name: [two - one for one, two in zip(marks[place], marks[place + 1], strict=True)]
        for place, name in enumerate(("check", "cut", "count"))
    }
    status = Path("/proc/self/status").read_text(encoding="ascii")  # getrusage counts what the parent held
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps({**found, "max_rss_mb": peak, "load": load}))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=list(ROWS))
    parser.add_argument(
        "--folder", type=Path, default=None, help="where to simulate; needs 5 GB per 10^8 rows"
    )
    parser.add_argument(
        "--out", type=Path, default=None, help="append results here, one JSON document per line"
    )
    parser.add_argument("--cores", default="1,2", help="how many, with commas between")
    parser.add_argument("--count", nargs=3, default=None, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.count is not None:
        folder, unit, cores = chosen.count
        count(Path(folder), unit, int(cores))
        return
    for rows in chosen.rows or ROWS:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as home:
            folder = Path(home) / "table"
            write(folder, rows, persons=max(1, rows // ROWS_OF_A_PERSON))
            size_mb = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
            print(f"{rows:,} rows, {size_mb:,.0f} MB", flush=True)
            seconds: dict[tuple[str, int], tuple[float, float]] = {}
            for unit in ("rows", "persons"):
                for cores in map(int, chosen.cores.split(",")):
                    command = [sys.executable, "-m", "benchmarks.speed.large_count"]
                    found = measured([*command, "--count", str(folder), unit, str(cores)])
                    wall, cpu = (sum(found[step][at] for step in ("check", "cut", "count")) for at in (0, 1))
                    seconds[unit, cores] = wall, cpu
                    steps = ", ".join(f"{step} {found[step][1]:.1f}" for step in ("check", "cut", "count"))
                    print(
                        f"  {unit:7} as units, {cores} core{'s' if cores > 1 else ' '}: {cpu:7.1f} s CPU ({steps}), {1e6 * cpu / rows:.2f} microseconds per row, "
                        f"{wall:7.1f} s, {found['max_rss_mb']:,.0f} MB (load {found['load']:.1f})",
                        flush=True,
                    )
                    if chosen.out is not None:
                        with chosen.out.open("a", encoding="utf-8") as stream:
                            stream.write(
                                json.dumps({"rows": rows, "unit": unit, "cores": cores, **found}) + "\n"
                            )
            for unit in ("rows", "persons"):
                if {(unit, 1), (unit, 2)} <= seconds.keys():
                    faster = seconds[unit, 1][0] / seconds[unit, 2][0]
                    print(f"  {unit:7} as units: two cores are {faster:.2f} times as fast as one")
            for cores in map(int, chosen.cores.split(",")):
                ratio = seconds["persons", cores][1] / seconds["rows", cores][1]
                print(
                    f"  persons take {ratio:.2f} times the CPU of rows on {cores} core{'s' if cores > 1 else ''}"
                )


if __name__ == "__main__":
    main()
