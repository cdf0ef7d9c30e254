"""The methods that ``auto`` chooses from, over tables, budgets and sizes of table: who is best, and how close ``auto`` comes.

Every cell is one fit: rows as many as the table has are drawn and compared with it, by the mean total variation over all pairs and
over all triples of columns. Triples decide. The choice of ``auto`` is a function of the schema and the budget, so its error in a cell is that of
the method that it names there. Results are appended to ``results.jsonl`` as they come: an interrupted run goes on where it
stopped, and a method whose work is a matter of cells alone, once it ran out of time on a table, is not tried on it again. Tables on which the rule was chosen and tables on which it is reported are disjoint; acs was meant to be reported, showed that triples of a
table too large for one model must not be measured under much noise, and counts as a development table since. Computing errors reads the
tables without noise: they are public, and nothing of this is a release.

Run ``python -m benchmarks.accuracy.auto`` (``--quick`` for two small tables).
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.accuracy._runner import THREADS

if __name__ == "__main__":  # before anything that starts threads is imported
    for _variable in THREADS:
        os.environ.setdefault(_variable, "1")

import numpy as np

from benchmarks._kept import DOCS, keep_table
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
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.schema import Clique
from understudy.workflow import AUTO, Choice, choose

SIX = ("independent", "mst", "privsyn", "aim", "rap", "gaussian")
"""The methods that the choice is measured against."""
METHODS = (*SIX, "sift")
PASSES = ((AUTO, "sift", "aim", "privsyn", "mst", "independent"), ("rap",), ("gaussian",))
"""The order in which methods run: those that tell most for their time first."""
BY_CELLS = ("gaussian",)
"""Methods that measure all marginals whatever the budget and the rows: too slow once on a table is too slow on it always."""
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
    "acs",
    "adult6",
    "adult8",
    "br6",
    "br9",
)
REPORTED = ("salary", "fire", "stroke20", "msnbc", "loans20")
EPSILONS = (1.0, 0.1, 10.0)
DELTA = 1e-9
CPU_LIMIT = 90.0
MOST_MARGINALS = 1_200


@cache
def table_of(name: str, folder: Path) -> LocalTable:
    """Return a table, by ``NAME@ROWS``."""
    return load(name, folder)


@lru_cache(maxsize=2)  # counts of wide tables take gigabytes
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


def run_cell(spec: Record, *, timeout: float) -> Record:
    """Run one cell in a copy of this process; the clock may show several times what it computes."""
    folder = Path(spec["data"])
    for k in (2, 3):
        exact(spec["table"], folder, k)
    table = table_of(spec["table"], folder)
    budget = ApproxDP(spec["epsilon"], spec["delta"])
    try:
        mechanism(spec, table).prepare(table.schema, unit=Unit.add_remove(), budget=budget)
    except DomainTooLarge as error:
        return {"status": "refused", "message": str(error)[:200]}
    found = run_forked(fit_cell, spec, wall=6 * timeout + 60)
    if found["status"] == "failed" and found["message"].endswith("exit code -9"):
        return {"status": "refused", "message": "ended by the system, for want of memory"}
    return {"status": "timeout", "timeout": timeout} if found["status"] == "stopped" else found


def slow_elsewhere(spec: Record, known: Iterable[Record]) -> bool:
    """Whether a method whose work is a matter of cells alone ran out of time on this table with other rows or another budget."""
    return spec["method"] in BY_CELLS and any(
        item["status"] == "timeout"
        and item["method"] == spec["method"]
        and item["options"] == spec["options"]
        and item["table"].partition("@")[0] == spec["table"].partition("@")[0]
        for item in known
    )


def _too_slow(spec: Record, *, timeout: float) -> Record:
    """Say that a cell ran out of time because one like it did."""
    return {"status": "timeout", "timeout": timeout}


def choice_for(table: str, epsilon: float, data: Path, *, declared: bool = True) -> Choice:
    """Return what ``auto`` chooses for a table: its schema with the number of rows, or without one."""
    found = table_of(table, data)
    schema = replace(found.schema, row_count=found.exact_row_count() if declared else None)
    return choose(schema, unit=Unit.add_remove(), budget=ApproxDP(epsilon, DELTA))


def specs(
    tables: Sequence[str],
    *,
    data: Path,
    epsilons: Sequence[float] = EPSILONS,
    sizes: Sequence[int] = (1, 2, 0),
    methods: Sequence[str] = METHODS,
    seeds: Sequence[int] = (0,),
    options: Mapping[str, Any] | None = None,
) -> Iterator[Record]:
    """Return the cells of some tables: quick methods first, small tables first; ``auto`` among the methods stands for what it chooses."""
    for seed, together, size, table, epsilon in product(seeds, PASSES, sizes, tables, epsilons):
        if size >= len(SIZES[table]):
            continue
        name = f"{table}@{SIZES[table][size]}"
        common = {"table": name, "workload": "all-3way", "epsilon": epsilon, "delta": DELTA, "seed": seed}
        common |= {"data": str(data), "cpu_limit": CPU_LIMIT}
        for method in (item for item in together if item in methods):
            if method != AUTO:
                yield common | {"method": method, "options": options}
                continue
            for declared in (True, False):
                made = choice_for(name, epsilon, data, declared=declared)
                yield common | {"method": made.method, "options": dict(made.options) or None}


def keys_of(records: Iterable[Record]) -> dict[tuple[str, float], dict[str, list[Record]]]:
    """Return finished cells by table and budget, then by method with its options."""
    found: dict[tuple[str, float], dict[str, list[Record]]] = {}
    for record in records:
        name = _name(record["method"], record["options"])
        found.setdefault((record["table"], record["epsilon"]), {}).setdefault(name, []).append(record)
    return found


def _name(method: str, options: Mapping[str, Any] | None) -> str:
    return method + (f" {json.dumps(options, sort_keys=True)}" if options else "")


@dataclass(frozen=True, eq=False)
class Line:
    """One line of the page: a table, a budget, the mean errors of the methods, and those of what ``auto`` chose."""

    table: str
    epsilon: float
    errors: Mapping[str, float]
    why_not: Mapping[str, str]
    chosen: Mapping[str, str]
    """With the number of rows ``declared``, and ``assumed``."""
    reached: Mapping[str, float]

    @property
    def best(self) -> float:
        """The least error of the six methods."""
        return min(error for name, error in self.errors.items() if name in SIX)

    def ratio(self, rows: str) -> float | None:
        """Return the error of the choice over the best of the six; None where the choice has not run."""
        return self.reached[rows] / self.best if rows in self.reached else None


def lines_of(records: Iterable[Record], measure: str, data: Path) -> list[Line]:
    """Return a line for every table and budget where ``aim`` and another of the six have run."""
    lines = []
    for (table, epsilon), cells in keys_of(records).items():
        mean = {
            name: float(np.mean([item[measure] for item in items if item["status"] == "ok"]))
            for name, items in cells.items()
            if any(item["status"] == "ok" for item in items)
        }
        errors = {name: mean[name] for name in METHODS if name in mean}
        if "aim" not in errors or len(errors.keys() & set(SIX)) < 2:
            continue
        ways = {"declared": True, "assumed": False}
        made = {rows: choice_for(table, epsilon, data, declared=known) for rows, known in ways.items()}
        names = {rows: _name(item.method, item.options) for rows, item in made.items()}
        lines.append(
            Line(
                table=table,
                epsilon=epsilon,
                errors=errors,
                why_not={
                    name: "too slow" if cells[name][0]["status"] == "timeout" else cells[name][0]["status"]
                    for name in METHODS
                    if name in cells and name not in mean
                },
                chosen={rows: item.method for rows, item in made.items()},
                reached={rows: mean[name] for rows, name in names.items() if name in mean},
            )
        )
    order = {name: place for place, name in enumerate((*DEVELOPMENT, *REPORTED))}
    return sorted(lines, key=lambda line: (order[_base(line)], -_rows(line), line.epsilon))


def _base(line: Line) -> str:
    return line.table.partition("@")[0]


def _rows(line: Line) -> int:
    return int(line.table.partition("@")[2])


def markdown(lines: Sequence[Line]) -> str:
    """Return the errors of every cell; the best of the six is marked by a star."""
    head = [
        "table",
        "rows",
        "epsilon",
        *METHODS,
        "auto (rows declared)",
        "ratio",
        "auto (rows unknown)",
        "ratio",
    ]
    text = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for line in lines:
        shown = [
            f"{line.errors[name]:.4f}{'*' if line.errors[name] == line.best else ''}"
            if name in line.errors
            else line.why_not.get(name, "")
            for name in METHODS
        ]
        own = []
        for rows in ("declared", "assumed"):
            ratio = line.ratio(rows)
            own += [line.chosen[rows], "not run" if ratio is None else f"{ratio:.2f}"]
        text.append(f"| {' | '.join([_base(line), f'{_rows(line):,}', f'{line.epsilon:g}', *shown, *own])} |")
    return "\n".join(text)


def summary(lines: Sequence[Line], tables: Sequence[str], what: str) -> list[str]:
    """Say how close the choice comes, the worst cell, and how close each single method would come."""
    kept = [line for line in lines if _base(line) in tables]
    said = [f"{what}: {len(kept)} cells of {', '.join(tables)}."]
    for rows, words in (("declared", "rows declared"), ("assumed", "rows unknown")):
        ratios = {line: ratio for line in kept if (ratio := line.ratio(rows)) is not None}
        if not ratios:
            continue
        worst = max(ratios, key=lambda line: ratios[line])
        within = np.mean([ratio <= 1.05 for ratio in ratios.values()])
        said.append(
            f"auto, {words}: mean ratio to the best of six {np.mean(list(ratios.values())):.3f} over {len(ratios)} cells, within 5 % in "
            f"{within:.0%} of them; worst {ratios[worst]:.2f} ({worst.table}, epsilon {worst.epsilon:g}, {worst.chosen[rows]})."
        )
    for name in METHODS:
        alone = [line.errors[name] / line.best for line in kept if name in line.errors]
        if alone:
            said.append(
                f"always {name}: {np.mean(alone):.3f} over {len(alone)} cells, worst {max(alone):.2f}."
            )
    return said


def keep_cells(name: str, records: Iterable[Record]) -> Path:
    """Keep the errors and times of cells as a table under ``docs/measured/data``."""
    columns = ("table", "epsilon", "seed", "method", "options", "status", "triples", "pairs", "cpu_seconds")
    rows = [
        [
            item["table"], item["epsilon"], item["seed"], item["method"], json.dumps(item["options"]) if item["options"] else "",
            item["status"], item.get("error", ""), item.get("pairs", ""), item.get("cpu_seconds", ""),
        ]
        for item in records
    ]  # fmt: skip
    return keep_table(name, columns, rows)


def recall(name: str, path: Path, specs: Iterable[Record], *, again: Sequence[str] = ()) -> int:
    """Put the cells that ``docs/measured/data/NAME.csv`` keeps into a store that does not exist yet, so that a checkout goes on where another stopped.

    Methods of ``again`` have changed since and are left out. Returns how many cells were put there.
    """
    kept = DOCS / "measured" / "data" / f"{name}.csv"
    if path.exists() or not kept.exists():
        return 0
    with kept.open(encoding="utf-8", newline="") as stream:
        rows = {_kept_key(row): row for row in csv.DictReader(stream) if row["method"] not in again}
    found = []
    for spec in specs:
        row = rows.get(_kept_key(spec | {"options": json.dumps(spec["options"]) if spec["options"] else ""}))
        if row is None:
            continue
        errors = {"error": row["triples"], "pairs": row["pairs"], "cpu_seconds": row["cpu_seconds"]}
        record = spec | {"status": row["status"]} | {key: float(text) for key, text in errors.items() if text}
        found.append(record | ({"timeout": spec["cpu_limit"]} if row["status"] == "timeout" else {}))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in found), encoding="utf-8")
    return len(found)


def _kept_key(row: Mapping[str, Any]) -> tuple[str, float, int, str, str]:
    return row["table"], float(row["epsilon"]), int(row["seed"]), row["method"], row["options"]


def report(records: Sequence[Record], data: Path, missing: Sequence[Record], *, write: bool) -> None:
    """Print the page; with ``write`` keep the errors as ``docs/measured/data/auto.csv``."""
    for measure, what in (("error", "triples"), ("pairs", "pairs")):
        lines = lines_of(records, measure, data)
        print(
            f"\n## Mean total variation over all {what} of columns"
            + (" (decides)" if what == "triples" else "")
        )
        kinds = (
            (DEVELOPMENT, "Development tables"),
            (REPORTED, "Reported tables"),
            ((*DEVELOPMENT, *REPORTED), "All tables"),
        )
        for tables, kind in kinds:
            print("\n" + "\n".join(summary(lines, tables, kind)))
        if what == "triples":
            print("\n" + markdown(lines))
    used = sum(record.get("cpu_seconds", 0.0) for record in records)
    print(f"\n{len(records)} cells, {used:.0f} s of CPU.")
    if missing:
        names = sorted({f"{item['table']} epsilon {item['epsilon']:g} {item['method']}" for item in missing})
        print(f"{len(names)} cells were not run: {'; '.join(names)}.")
    if write:
        print(f"Wrote {keep_cells('auto', records).name}.")


def _words(text: str) -> list[str]:
    return text.split(",")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="The methods that auto chooses from, and its choice.")
    parser.add_argument("--quick", action="store_true", help="two small tables of 500 rows at epsilon 1")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/auto"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--tables", type=_words, default=[*REPORTED, *DEVELOPMENT])
    parser.add_argument("--methods", type=_words, default=[AUTO, *METHODS])
    parser.add_argument(
        "--epsilons", type=lambda text: [float(word) for word in _words(text)], default=list(EPSILONS)
    )
    parser.add_argument("--sizes", type=lambda text: [int(word) for word in _words(text)], default=[1, 0, 2])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--options", type=json.loads, help="options of all methods, as JSON")
    parser.add_argument(
        "--until", type=float, help="start no cell after so many seconds; run it again to go on"
    )
    parser.add_argument(
        "--again", type=_words, default=[], help="methods whose kept cells no longer hold: run them again"
    )
    parser.add_argument("--write", action="store_true", help="keep the errors under docs/measured")
    given = parser.parse_args(arguments)
    data = find_data(given.data)
    print(NOTICE)
    cells = list(
        specs(
            ["titanic", "nltcs"] if given.quick else given.tables,
            data=data,
            epsilons=[1.0] if given.quick else given.epsilons,
            sizes=[1] if given.quick else given.sizes,
            methods=given.methods,
            seeds=range(given.seeds),
            options=given.options,
        )
    )
    path = given.out / "results.jsonl"
    recall("auto", path, cells, again=given.again)
    stop = None if given.until is None else time.monotonic() + given.until
    for number, spec in enumerate(cells, start=1):
        if finished(read_records(path).get(key_of(spec)), CPU_LIMIT):
            continue
        if stop is not None and time.monotonic() > stop:
            break
        said = functools.partial(_say, f"[{number}/{len(cells)}]")
        before = read_records(path).values()
        run_all(
            [spec],
            path,
            timeout=CPU_LIMIT,
            run=_too_slow if slow_elsewhere(spec, before) else run_cell,
            say=said,
        )
    known = read_records(path)
    missing = [spec for spec in cells if not finished(known.get(key_of(spec)), CPU_LIMIT)]
    asked = [
        item for item in known.values() if item["seed"] < given.seeds
    ]  # the choice runs with these alone
    report(asked, data, missing, write=given.write)
    return 0


def _say(place: str, text: str) -> None:
    print(f"{place} {text.partition('] ')[2]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
