"""Figures 1 and 2 of paper AIM: every mechanism on six tables, three workloads and eight budgets; AIM without its parts.

A grid of runs, one line each in ``results.jsonl``; an interrupted grid goes on where it stopped. Runs are copies of one
warm process (:mod:`benchmarks.accuracy._forked`) that may compute for ``--cpu-limit`` seconds. What does not finish is recorded as such,
and larger budgets of the same method on the same table and workload, which take longer, are then not tried. A second
seed is run when every run has had its first. Results become ``docs/measured/data/aim-figureN.csv`` and charts in
``docs/assets`` with ``--write``, and its page there. Computing errors reads the real tables without noise: they are public.

Run ``python -m benchmarks.accuracy.aim_figures --quick``.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.accuracy._runner import ROOT, THREADS, Record, describe, finished, key_of, read_records

if __name__ == "__main__":  # before anything that starts threads is imported
    for _name in THREADS:
        os.environ.setdefault(_name, "1")

from benchmarks._measured import RUNS, current_commit, write_page
from benchmarks._tables import WORKLOADS, find_data
from benchmarks.accuracy._aim_pages import figure_one, figure_two, write_data
from benchmarks.accuracy._cell import ANSWERS, warm
from benchmarks.accuracy._cell import run as run_cell
from benchmarks.accuracy._forked import run_forked
from benchmarks.accuracy.aim import DELTA, NOTICE
from understudy.errors import UnderstudyError

SMALL, LARGE = ("titanic", "nltcs", "adult"), ("salary", "fire", "msnbc")
Form = tuple[str, Mapping[str, Any] | None]
MECHANISMS: dict[str, Form] = {
    "aim": ("aim", None),
    "independent": ("independent", None),
    "gaussian": (ANSWERS, None),
    "mst": ("mst", None),
    "mwem-pgm": ("mwem-pgm", None),
    "privmrf": ("privmrf", None),
    "privsyn": ("privsyn", None),
    "privbayes-pgm": ("privbayes-pgm", None),
    "hdmm-pgm": ("hdmm-pgm", None),
    "gem": ("gem", None),
    "rap": ("rap", None),
    "gem, published": ("gem", {"form": "published", "drawing": "rounding"}),
    "rap, published": (
        "rap",
        {"form": "published", "per_round": 50, "relaxed_rows": 1000, "drawing": "rounding"},
    ),
}
"""Mechanisms of Figure 1, slow ones last; ``gaussian`` answers the workload and draws no rows, as there."""
_PAPER = {"column_noise": 0, "smooth": False}
ELEMENTS: dict[str, Form] = {
    "aim": ("aim", _PAPER),
    "A1": ("aim", {"initialise": False, "smooth": False}),
    "A2": ("aim", _PAPER | {"score": "error"}),
    "A3": ("aim", _PAPER | {"anneal": False, "rounds_per_column": 2}),
    "B1": ("aim", _PAPER | {"noise": "laplace"}),
    "B2": ("aim", _PAPER | {"unit": "replace"}),
    "B3": ("aim", _PAPER | {"measure_share": 0.5}),
    "O1": ("aim", _PAPER | {"estimation": "relaxed"}),
    "aim, zCDP": ("aim", _PAPER | {"accounting": "zcdp"}),
    "B1, zCDP": ("aim", _PAPER | {"accounting": "zcdp", "noise": "laplace"}),
}
"""AIM as in the paper, and without each element that Figure 2 takes out of it; Laplace noise also in the paper's accounting."""


@dataclass(frozen=True)
class Figure:
    """A grid of runs: which forms on which tables with which budgets, in stages: what tells most comes first."""

    name: str
    forms: Mapping[str, Form]
    stages: Sequence[tuple[Sequence[str], Sequence[float]]]
    workloads: Sequence[str] = WORKLOADS
    seeds: int = 5

    @property
    def epsilons(self) -> list[float]:
        """All budgets, smallest first."""
        return sorted({epsilon for _, some in self.stages for epsilon in some})

    def cells(self) -> Iterator[tuple[str, str, str, float, int]]:
        """Yield table, workload, form, epsilon and seed."""
        for seed, (tables, epsilons) in product(range(self.seeds), self.stages):
            for epsilon, form, table, workload in product(epsilons, self.forms, tables, self.workloads):
                yield table, workload, form, epsilon, seed

    def spec(self, cell: tuple[str, str, str, float, int], data: Path, cpu: float) -> Record:
        """Return what a process needs to know of a run."""
        table, workload, form, epsilon, seed = cell
        method, options = self.forms[form]
        return {
            "table": table, "workload": workload, "method": method, "epsilon": epsilon, "delta": DELTA,
            "seed": seed, "options": options, "data": str(data), "cpu_limit": cpu,
        }  # fmt: skip


FIGURES = {
    "1": Figure(
        "aim-figure1",
        MECHANISMS,
        (
            (SMALL, (1.0,)),
            (LARGE, (1.0,)),
            (SMALL, (10.0, 0.1)),
            (LARGE, (10.0,)),
            (SMALL, (100.0,)),
            (SMALL, (0.31, 3.16, 31.6, 0.01)),
            (LARGE, (0.1, 100.0, 0.31, 3.16, 31.6, 0.01)),
        ),
    ),
    "2": Figure(
        "aim-figure2",
        ELEMENTS,
        (
            (("titanic", "nltcs"), (1.0, 10.0, 0.1)),
            (("adult",), (1.0, 10.0, 0.1)),
            (("titanic", "nltcs"), (100.0,)),
            (LARGE, (1.0, 10.0, 0.1)),
            (SMALL, (0.31, 3.16, 31.6, 0.01)),
            (("adult", *LARGE), (100.0,)),
            (LARGE, (0.31, 3.16, 31.6, 0.01)),
        ),
    ),
}


class Store:
    """Runs that are done, one line each in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.known = read_records(path)
        if path.exists() and not path.read_bytes().endswith(b"\n"):
            with path.open("a", encoding="utf-8") as stream:
                stream.write("\n")  # an interruption cut the last line; start a fresh one

    def get(self, spec: Record) -> Record | None:
        """Return what is known of a run."""
        return self.known.get(key_of(spec))

    def add(self, record: Record) -> None:
        """Remember a run at once."""
        self.known[key_of(record)] = record
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")


def outcomes(figure: Figure, store: Store, data: Path, cpu: float) -> list[Record]:
    """Return every run of a figure that is done or need not be tried, in order, with the name of its form.

    A run with a larger budget than one of the same method, table and workload that did not finish is ``not tried``.
    """
    found: list[Record] = []
    for cell in figure.cells():
        record = store.get(figure.spec(cell, data, cpu))
        if record is None:
            slow = given_up(figure, store, cell, data, 0.0)  # however much time that run had
            if slow is None or cell[4] > 0:
                continue
            record = figure.spec(cell, data, cpu) | {
                "status": "not tried",
                "message": f"did not finish in {slow['timeout']:g} s at epsilon {slow['epsilon']:g}",
            }
        if record["status"] != "stopped":
            found.append(record | {"form": cell[2]})
    return found


def given_up(
    figure: Figure, store: Store, cell: tuple[str, str, str, float, int], data: Path, cpu: float
) -> Record | None:
    """Return a run of a smaller budget, or of the first seed, that did not finish within the limit."""
    table, workload, form, epsilon, seed = cell
    for other in figure.epsilons:
        if other > epsilon or (other == epsilon and seed == 0):
            continue
        record = store.get(figure.spec((table, workload, form, other, 0), data, cpu))
        if record is not None and record["status"] == "timeout" and finished(record, cpu):
            return record
    return None


def recall(figure: Figure, store: Store, data: Path, cpu: float, kept: Path) -> int:
    """Put runs of the kept data into a store that has none, so that a checkout goes on where another stopped; return how many."""
    if store.known or not kept.exists():
        return 0
    with kept.open(encoding="utf-8", newline="") as stream:
        rows = {
            (row["table"], row["workload"], row["method"], float(row["epsilon"]), int(row["seed"])): row
            for row in csv.DictReader(stream)
        }
    for cell in figure.cells():
        row = rows.get(cell)
        late = re.fullmatch(r"did not finish in ([\d.]+) s", row["outcome"]) if row else None
        if row is None or not (row["outcome"] == "ok" or late):
            continue
        spec = {k: v for k, v in figure.spec(cell, data, cpu).items() if k not in ("data", "cpu_limit")}
        result: Record = (
            {"status": "timeout", "timeout": float(late[1])}
            if late
            else {"status": "ok", "error": float(row["error"]), "cpu_seconds": float(row["cpu_seconds"])}
        )
        store.add(spec | result)
    return len(store.known)


def run(
    figure: Figure,
    *,
    out: Path,
    data: Path,
    cpu: float,
    until: float | None = None,
    tables: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> Store:
    """Run what is missing, of some tables or all, until ``until`` seconds are over, and return all that is known."""
    store = Store(out / "results.jsonl")
    end = None if until is None else time.monotonic() + until
    cells = [cell for cell in figure.cells() if not tables or cell[0] in tables]
    commit = current_commit()
    for index, cell in enumerate(cells, start=1):
        spec = figure.spec(cell, data, cpu)
        left = 3600.0 * 24 if end is None else end - time.monotonic()
        if left <= 0:
            say(f"The time is over before run {index} of {len(cells)}.")
            break
        if finished(store.get(spec), cpu) or given_up(figure, store, cell, data, cpu) is not None:
            continue
        first = store.get(figure.spec((*cell[:4], 0), data, cpu))
        if cell[4] > 0 and (first is None or first["status"] != "ok"):
            continue  # one refusal or failure is enough
        with suppress(UnderstudyError):  # the run itself says why it is refused
            warm(spec)
        allowed = 8 * cpu + 120  # others use the machine too
        record = run_forked(run_cell, spec, wall=min(allowed, left))
        if record["status"] == "stopped" and left > allowed:
            record = {"status": "timeout", "timeout": cpu}
        if record["status"] != "stopped":
            kept = {key: value for key, value in spec.items() if key not in ("data", "cpu_limit")}
            store.add(kept | record | {"commit": commit})
        name = " ".join(str(part) for part in cell)
        say(f"[{index}/{len(cells)}] {name}: {describe(record)}")
    return store


def write(figure: Figure, store: Store, records: Sequence[Record], printed: str) -> None:
    """Write data and page of a figure into the documentation; time is that of all runs together."""
    write_data(records, ROOT / "docs" / "measured" / "data", figure.name)
    run = next(item for item in RUNS if item.name == figure.name)
    done = list(store.known.values())
    wall, cpu = (math.fsum(item.get(name, 0.0) for item in done) for name in ("seconds", "cpu_seconds"))
    commits = [item["commit"] for item in done if item.get("commit")] or [current_commit()]
    write_page(run, [NOTICE, *printed.splitlines()], commit=commits[-1], wall=wall, cpu=cpu)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Figures 1 and 2 of paper AIM.")
    parser.add_argument("--figure", choices=list(FIGURES), default="1")
    parser.add_argument("--quick", action="store_true", help="two small tables, one budget, one seed")
    parser.add_argument("--out", type=Path, help="folder of results; default .benchmarks/aim-figureN")
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--cpu-limit", type=float, default=60.0, help="seconds of computing per run")
    parser.add_argument("--until", type=float, help="stop after so many seconds; 0 runs nothing")
    parser.add_argument(
        "--tables",
        nargs="+",
        default=[],
        choices=[*SMALL, *LARGE],
        help="run only these; processes with different tables may share a folder of results",
    )
    parser.add_argument("--write", action="store_true", help="write page, data and charts into docs")
    chosen = parser.parse_args(arguments)
    if chosen.quick and chosen.write:
        parser.error("--quick is a trial: it is not written into the documentation.")
    figure = FIGURES[chosen.figure]
    if chosen.quick:
        figure = Figure(figure.name, figure.forms, ((("titanic", "nltcs"), (1.0,)),), ("target",), 1)
    out = chosen.out or Path(f".benchmarks/{figure.name}{'-quick' if chosen.quick else ''}")
    try:
        data = find_data(chosen.data)
        print(NOTICE)
        if not chosen.quick:
            kept = ROOT / "docs" / "measured" / "data" / f"{figure.name}.csv"
            recall(figure, Store(out / "results.jsonl"), data, chosen.cpu_limit, kept)
        limits = {"cpu": chosen.cpu_limit, "until": chosen.until}
        store = run(figure, out=out, data=data, tables=chosen.tables, **limits)
        records = outcomes(figure, store, data, chosen.cpu_limit)
        page = figure_one if chosen.figure == "1" else figure_two
        printed = page(
            records,
            planned=len(list(figure.cells())),
            assets=ROOT / "docs" / "assets" if chosen.write else out,
        )
        print(printed)
        write_data(records, out, figure.name)
        if chosen.write:
            write(figure, store, records, printed)
    except UnderstudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
