"""Counting 175 marginals of Parquet files, by rows and by persons, on one core and on two: CPU, time, memory.

Run with ``python -m benchmarks.speed.large_count [ROWS ...] [--cores 1,2] [--folder FOLDER] [--out RESULTS.jsonl] [--units rows,persons] [--tenfold]``. Ten columns and an id are simulated, ten rows for each person on
average, of which three are kept. Every way is a process of its own, bound to its cores. CPU seconds count; the time on a machine that others use
too is as it came, and the load beside it says how busy the machine was: how much faster two cores are is worth something on an idle machine only.

With ``--tenfold`` the files are read ten times over, with other persons each time: ten times the rows and ten times the persons go through everything but the disk of the table. Every
marginal by rows must be ten times that of the files, and ten times as many rows stay by persons. Sorting by persons takes 24 to 33 bytes a row in the folder for temporary files.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed._large import SCHEMA, write
from benchmarks.speed._watch import measured
from understudy.data.files.dataset import DatasetStream

ROWS = (1_000_000, 10_000_000)
ROWS_OF_A_PERSON = 10
KEPT = 3
TIMES = 10


class SeveralTimes(DatasetStream):
    """The files read several times over, with other persons each time."""

    times = 1
    persons = 0

    def _parts(self) -> Iterator[tuple[int | None, Any]]:
        for number in range(self.times):
            for rows, part in super()._parts():
                yield rows, (number, part)

    def _patiently(self, part: Any, columns: list[str]) -> Iterator[Any]:
        import pyarrow.compute as pc

        number, inside = part
        for batch in super()._patiently(inside, columns):
            if number and "person" in columns:
                place = batch.schema.get_field_index("person")
                shifted = pc.add(batch.column(place), number * self.persons)
                batch = batch.set_column(place, "person", shifted)
            yield batch

    def count_rows(self) -> int:
        """Return the number of rows. Private."""
        return self.times * super().count_rows()


def several_times(folder: Path, times: int) -> SeveralTimes:
    """Return a stream of the files several times over."""
    stream = SeveralTimes.from_paths([folder], [*SCHEMA.names, "person"])
    assert isinstance(stream, SeveralTimes)
    stream.times = times
    stream.persons = max(1, stream.count_rows() // times // ROWS_OF_A_PERSON)
    return stream


def rows_that_stay(folder: Path) -> int:
    """Count them in another way: at most so many rows of each person, whichever."""
    import pyarrow.parquet as pq

    rows = np.zeros(0, np.int64)
    for file in sorted(folder.iterdir()):
        found = np.bincount(pq.read_table(file, columns=["person"])["person"].to_numpy())
        size = max(len(rows), len(found))
        rows = np.pad(rows, (0, size - len(rows))) + np.pad(found, (0, size - len(found)))
    return int(np.minimum(rows, KEPT).sum())


def count(folder: Path, unit: str, cores: int, times: int) -> None:
    """Check, cut where persons are the unit, and count; print what each part took."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    import understudy.data as data

    cliques = [clique for size in (1, 2, 3) for clique in combinations(SCHEMA.names, size)]
    load = os.getloadavg()[0]
    marks = [(time.perf_counter(), time.process_time())]

    def mark() -> None:
        marks.append((time.perf_counter(), time.process_time()))

    source = folder if times == 1 else several_times(folder, times)
    table: Any = data.ArrowTable(source, SCHEMA, id_column="person" if unit == "persons" else None)
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
    weights = np.random.default_rng(0)
    sums = [
        int((marginal * weights.integers(1, 1 << 20, marginal.shape)).sum()) for marginal in counts
    ]  # whoever has the sums of two tables can compare all their marginals
    print(
        json.dumps(
            {
                **found,
                "max_rss_mb": peak,
                "load": load,
                "sums": sums if unit == "rows" else [],
                "stay": table.exact_row_count(),
            }
        )
    )


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
    parser.add_argument("--units", default="rows,persons", help="rows, persons or both")
    parser.add_argument("--tenfold", action="store_true", help="read the files ten times over")
    parser.add_argument("--count", nargs=4, default=None, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.count is not None:
        folder, unit, cores, times = chosen.count
        count(Path(folder), unit, int(cores), int(times))
        return
    times, units = TIMES if chosen.tenfold else 1, chosen.units.split(",")
    if set(units) - {"rows", "persons"}:
        parser.error("--units takes rows, persons or both")
    for rows in chosen.rows or ROWS:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as home:
            folder = Path(home) / "table"
            write(folder, rows, persons=max(1, rows // ROWS_OF_A_PERSON))
            size_mb = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
            seen = f", read {times} times: {times * rows:,}" if times > 1 else ""
            print(f"{rows:,} rows, {size_mb:,.0f} MB{seen}", flush=True)
            expected: dict[str, Any] = {}
            if times > 1 and "rows" in units:
                command = [sys.executable, "-m", "benchmarks.speed.large_count", "--count", str(folder)]
                expected["sums"] = measured([*command, "rows", chosen.cores.split(",")[0], "1"])["sums"]
            if times > 1 and "persons" in units:
                expected["stay"] = rows_that_stay(folder)
            seconds: dict[tuple[str, int], tuple[float, float]] = {}
            for unit in units:
                for cores in map(int, chosen.cores.split(",")):
                    command = [sys.executable, "-m", "benchmarks.speed.large_count"]
                    found = measured([*command, "--count", str(folder), unit, str(cores), str(times)])
                    wanted, stay = found["sums"], found["stay"]
                    if expected and unit == "rows":
                        wanted = [times * item for item in expected["sums"]]
                    elif expected:
                        stay = times * expected["stay"]
                    if found.pop("sums") != wanted or found.pop("stay") != stay:
                        raise SystemExit(f"{unit} as units: not {times} times what the files hold")
                    if times > 1:
                        held = "every marginal is that" if unit == "rows" else "as many rows stay as those"
                        print(f"  {unit} as units: {held} of the files, {times} times", flush=True)
                    wall, cpu = (sum(found[step][at] for step in ("check", "cut", "count")) for at in (0, 1))
                    seconds[unit, cores] = wall, cpu
                    steps = ", ".join(f"{step} {found[step][1]:.1f}" for step in ("check", "cut", "count"))
                    print(
                        f"  {unit:7} as units, {cores} core{'s' if cores > 1 else ' '}: {cpu:7.1f} s CPU ({steps}), {1e6 * cpu / (times * rows):.2f} microseconds per row, "
                        f"{wall:7.1f} s, {found['max_rss_mb']:,.0f} MB (load {found['load']:.1f})",
                        flush=True,
                    )
                    if chosen.out is not None:
                        with chosen.out.open("a", encoding="utf-8") as stream:
                            stream.write(
                                json.dumps({"rows": times * rows, "unit": unit, "cores": cores, **found})
                                + "\n"
                            )
            for unit in ("rows", "persons"):
                if {(unit, 1), (unit, 2)} <= seconds.keys():
                    faster = seconds[unit, 1][0] / seconds[unit, 2][0]
                    print(f"  {unit:7} as units: two cores are {faster:.2f} times as fast as one")
            for cores in map(int, chosen.cores.split(",")):
                if len(units) < 2:
                    break
                ratio = seconds["persons", cores][1] / seconds["rows", cores][1]
                print(
                    f"  persons take {ratio:.2f} times the CPU of rows on {cores} core{'s' if cores > 1 else ''}"
                )


if __name__ == "__main__":
    main()
