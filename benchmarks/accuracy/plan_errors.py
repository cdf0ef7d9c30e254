"""Errors that ``understudy plan`` expects against those that fits reach, whether these lie in the range that it names, and whether
the epsilon it names fulfils a wish.

The made-up tables of the rehearsal (``understudy.datasets.schema_tables``) were chosen to resemble the tables in ``DEVELOPMENT``, and the range that nine of
ten tables keep to by what fits to the tables in ``RANGES`` reach (``--ranges``); everything reported is of the others. ``plan`` knows the schema, the number of rows, the budget and the method of each. Errors are total
variation distances, on average over up to a hundred columns, pairs and triples. A wish is answered by ``plan`` with an epsilon, and the method is then
fitted to the real table with that epsilon.

Reads real tables without noise to compute the error: they are public. Resumable. Run ``python -m benchmarks.accuracy.plan_errors``;
``--quick`` takes two small tables and methods that are fast.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._tables import find_data, load
from benchmarks.accuracy.real_tables import SCHEMAS
from benchmarks.accuracy.real_tables import TABLES as RAW
from understudy.curator import Curator
from understudy.data import LocalTable, read_table
from understudy.mechanisms import create
from understudy.privacy import ApproxDP, Budget, Ledger, SeededRandomness, Unit
from understudy.report.lines import LinePanel, line_chart
from understudy.schema import Schema
from understudy.workflow.rehearsing import (
    KINDS,
    NINE_OF_TEN,
    ExpectedErrors,
    Rehearsal,
    expected_errors,
    likely_range,
    table_errors,
)
from understudy.workflow.wishes import Wish, answer

DEVELOPMENT = ("br2000", "acs", "acs13")
"""What the made-up tables were chosen by; not reported."""
RANGES = (
    "br2000", "acs", "acs13@40000", "covid_testing", "lending_club", "military@40000", "mpls_stops@40000", "nist_ma",
    "penguins", "pums", "workplace_2018",
)  # fmt: skip
"""What the ranges for nine of ten tables were chosen by; not reported."""
RANGE_CELLS = {"mst": (1.0,), "sift": (1.0,)}
TABLES = (
    "titanic", "flchain", "nltcs", "gss_wages", "natality", "aer_fertility@50000", "adult", "salary", "edad_2020",
    "fire@50000",
)  # fmt: skip
CELLS = {"mst": (0.1, 1.0, 10.0), "aim": (0.1, 1.0), "sift": (0.1, 1.0, 10.0)}
METHODS = ("mst", "aim")
"""What runs by default; ``sift``, which ``auto`` takes for most tables, has a page of its own."""
WISHES = (
    ("titanic", "mst", "columns within 3 %"),
    ("flchain", "aim", "pairs within 5 %"),
    ("nltcs", "aim", "triples within 2 %"),
    ("natality", "aim", "cell of 1000 rows within 20 %"),
    ("adult", "mst", "pairs within 6 %"),
    ("gss_wages", "mst", "pairs within 1 %"),
)
"""Written down before the first was answered."""
DELTA = 1e-9
CHART = Path("docs/assets/plan-errors.svg")
NOTICE = "Reads real tables without noise to compute the error; the tables are public and the result is no release."


def table_of(name: str, data: Path) -> LocalTable:
    """Read a table: coded ones with their published domain, raw ones by the schema in ``benchmarks/accuracy/real``."""
    stem, _, rows = name.partition("@")
    if stem not in RAW:
        return load(name, data)
    source = RAW[stem]
    schema = Schema.read(SCHEMAS / f"{source.schema}.yaml")
    whole = read_table(data / source.path, schema, separator=source.separator, names=source.names or None)
    (codes,) = whole.chunks(rows=max(1, whole.exact_row_count()))
    number = whole.exact_row_count()
    chosen = np.random.default_rng(0).choice(number, int(rows) if rows else number, replace=False)
    return LocalTable(schema, {key: np.ascontiguousarray(codes[key][chosen]) for key in codes})


def reached(table: LocalTable, method: str, budget: Budget, seed: int) -> ExpectedErrors:
    """Fit to the real table and compare; the noise is seeded, which production code never does."""
    unit = Unit.add_remove()
    rows = table.exact_row_count()
    (codes,) = table.chunks(rows=max(1, rows))
    synthesizer = create(method)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="benchmark")
    curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(seed))
    start = time.process_time()
    model = synthesizer.fit(curator, budget)
    drawn = model.schema.codes_as_read(model.sample_codes(rows, seed=seed), seed=seed)
    seconds = time.process_time() - start
    return table_errors(codes, drawn, table.schema.domain, budget=budget, seconds=seconds)


def plain(errors: ExpectedErrors) -> dict[str, Any]:
    """Return the numbers that are kept."""
    kinds = {kind: found.middle for kind in KINDS if (found := errors.of(kind)) is not None}
    return {**kinds, "seconds": errors.seconds}


def run(
    out: Path, data: Path, tables: tuple[str, ...], cells: dict[str, tuple[float, ...]]
) -> list[dict[str, Any]]:
    """Predict and reach; what the file has already is not done again."""
    known = {tuple(item["key"]): item for item in _read(out)}
    found = []
    for name in tables:
        table = None
        for method, epsilons in cells.items():
            for epsilon in epsilons:
                key = (name, method, epsilon)
                if key not in known:
                    table = table or table_of(name, data)
                    budget = ApproxDP(epsilon, DELTA)
                    rows = table.exact_row_count()
                    predicted = expected_errors(table.schema, rows, budget, create(method))
                    known[key] = {
                        "key": key,
                        "rows": rows,
                        "columns": len(table.schema.names),
                        "predicted": plain(predicted),
                        "reached": plain(reached(table, method, budget, seed=1)),
                    }
                    _keep(out, known[key])
                found.append(known[key])
    return found


def run_wishes(out: Path, data: Path, wishes: tuple[tuple[str, str, str], ...]) -> list[dict[str, Any]]:
    """Let each wish be answered, and fit with the epsilon that is named."""
    known = {tuple(item["key"]): item for item in _read(out)}
    found = []
    for name, method, text in wishes:
        key = (name, method, text)
        if key not in known:
            table = table_of(name, data)
            wish = Wish.parse(text)
            rehearsal = Rehearsal(
                table.schema, table.exact_row_count(), create(method), unit=Unit.add_remove()
            )
            named = answer(rehearsal, wish, delta=DELTA)
            fitted = None
            if named.epsilon is not None:
                fitted = wish.of(reached(table, method, ApproxDP(named.epsilon, DELTA), seed=1))
            known[key] = {
                "key": key,
                "epsilon": named.epsilon,
                "expected": named.error,
                "reached": fitted,
                "wanted": wish.within,
                "fits": len(named.tried),
            }
            _keep(out, known[key])
        found.append(known[key])
    return found


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _keep(path: Path, item: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(item) + "\n")


def report(found: list[dict[str, Any]], wishes: list[dict[str, Any]]) -> None:
    """Print expected and reached errors, how far apart they are, and what became of the wishes."""
    print(
        "| table | rows | columns | method | epsilon | columns: expected, reached | pairs | triples | CPU s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    ratios: dict[str, list[float]] = {kind: [] for kind in (*KINDS, "seconds")}
    inside: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for item in found:
        name, method, epsilon = item["key"]
        shown = []
        for kind in KINDS:
            if kind not in item["reached"]:
                shown.append("")
                continue
            expected, real = item["predicted"][kind], item["reached"][kind]
            ratios[kind].append(expected / real)
            low, high = likely_range(kind, expected)
            inside[kind].append(low <= real <= high)
            shown.append(f"{expected:.4f}, {real:.4f}")
        times = item["predicted"]["seconds"], item["reached"]["seconds"]
        ratios["seconds"].append(times[0] / times[1])
        print(
            f"| {name} | {item['rows']} | {item['columns']} | {method} | {epsilon:g} | {' | '.join(shown)} | {times[0]:.1f}, {times[1]:.1f} |"
        )
    print()
    print(
        "| expected / reached | median | smallest | largest | within 1.25 | within 1.5 | within 2 | nine of ten within |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for kind, each in ratios.items():
        _summary(kind, each)
    _summary("pairs and triples", ratios["pairs"] + ratios["triples"])
    print()
    print("| said of nine of ten tables | within a factor of | inside |")
    print("|---|---|---|")
    for kind, held in inside.items():
        print(f"| {kind}, range | {NINE_OF_TEN[kind]:g} | {sum(held)} of {len(held)}, {np.mean(held):.0%} |")
    if wishes:
        print()
        print("| table | method | wish | epsilon named | expected | reached | reached / wanted |")
        print("|---|---|---|---|---|---|---|")
    for item in wishes:
        name, method, text = item["key"]
        if item["epsilon"] is None:
            print(f"| {name} | {method} | {text} | none below 100 | {item['expected']:.4f} | | |")
        else:
            print(
                f"| {name} | {method} | {text} | {item['epsilon']:.3g} | {item['expected']:.4f} | {item['reached']:.4f} | "
                f"{item['reached'] / item['wanted']:.2f} |"
            )


def _summary(name: str, ratios: list[float]) -> None:
    off = np.exp(np.abs(np.log(ratios)))
    inside = " | ".join(f"{np.mean(off <= limit):.0%}" for limit in (1.25, 1.5, 2.0))
    print(
        f"| {name} | {np.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} | {inside} | {np.quantile(off, 0.9):.2f} |"
    )


def chart(found: list[dict[str, Any]]) -> str:
    """Draw reached against expected errors."""
    panels = []
    for kind in KINDS:
        series: dict[str, list[tuple[float, float, float, float]]] = {}
        for item in found:
            if kind in item["reached"]:
                real = item["reached"][kind]
                series.setdefault(item["key"][1], []).append((item["predicted"][kind], real, real, real))
        methods = frozenset(series)
        points = [point for each in series.values() for point in each]
        ends = (min(min(point[:2]) for point in points), max(max(point[:2]) for point in points))
        for factor, name in ((1.0, "as expected"), (2.0, "twice as large"), (0.5, "half as large")):
            series[name] = [(end, factor * end, factor * end, factor * end) for end in ends]
        panels.append(LinePanel(kind, series, scattered=methods))
    return line_chart(
        "Errors that plan expects and fits reach", panels, x_label="expected error", y_label="reached error"
    )


def main() -> None:
    """Run, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None, help="folder of the tables")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/plan_errors"))
    parser.add_argument("--quick", action="store_true", help="two small tables")
    parser.add_argument("--methods", nargs="+", choices=list(CELLS), default=list(METHODS))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--ranges", action="store_true", help="the tables that ranges were chosen by")
    parser.add_argument("--write", action="store_true", help=f"draw {CHART}")
    given = parser.parse_args()
    data = find_data(given.data)
    print(NOTICE)
    if given.quick:
        out = given.out.with_name("plan_errors_quick")
        found = run(out / "cells.jsonl", data, ("titanic", "flchain"), {"mst": (1.0,)})
        report(found, run_wishes(out / "wishes.jsonl", data, WISHES[:1]))
        return
    if given.ranges:
        print("The ranges were chosen by these tables: nothing here is a test of them.\n")
        report(run(given.out.with_name("plan_errors_ranges") / "cells.jsonl", data, RANGES, RANGE_CELLS), [])
        return
    print(f"Development tables: {', '.join(DEVELOPMENT)}; none of them is below. Delta {DELTA:g}.")
    kept = len(_read(given.out / "cells.jsonl")) + len(_read(given.out / "wishes.jsonl"))
    if kept:
        print(f"{kept} results were kept from an earlier run.")
    print()
    cells = {method: CELLS[method] for method in given.methods}
    found = run(given.out / "cells.jsonl", data, tuple(given.tables), cells)
    wishes = tuple(wish for wish in WISHES if wish[0] in given.tables and wish[1] in given.methods)
    report(found, run_wishes(given.out / "wishes.jsonl", data, wishes))
    if given.write:
        CHART.write_text(chart(found), encoding="utf-8")


if __name__ == "__main__":
    main()
