"""Measure PrivBayes beside other methods: workload error of drawn rows, seconds to fit and to draw.

    python benchmarks/papers/privbayes.py natality adult --repeats 3 --json privbayes.json

*natality*: 160,000 births in the bins of paper Births, Table 1 (230,400 cells), pure epsilon .5, 1 and 4,
replace-one. *adult*: 48,842 rows, 14 columns, epsilon 1 with delta 1e-9, add-remove. Errors are the average L1
distance of all 2-way and all 3-way marginals, divided by the number of rows (paper AIM, Definition 2), of
as many drawn rows as there are real ones. "paper" is PrivBayes as published: score R, equal shares. The tables
are public, so exact errors may be shown.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from understudy.curator import Curator
from understudy.data import LocalTable, Table, read_table
from understudy.marginals import all_kway, workload_error
from understudy.mechanisms import create
from understudy.privacy import ApproxDP, Budget, Ledger, PureDP, Unit
from understudy.schema import Categorical, Integer, Schema

DATA = Path(__file__).parents[3] / "shared" / "data"
NATALITY = """
name: natality
columns:
  - name: mother_age
    kind: integer
    bins: ["<18", 18-19, 20-24, 25-29, 30-34, 35-36, 37-39, 40-42, 43-44, "44<"]
  - {name: parity, kind: integer, bins: ["1", 2-3, 4-6, 7-10, "10<"]}
  - {name: gestation_week, kind: integer, bins: ["<29", 29-31, 32-33, 34-36, 37-41, "41<"]}
  - {name: is_female, kind: boolean}
  - {name: birth_weight, kind: integer, bins: ["<1500", 1500-1599, "...", 4400-4499, "4499<"]}
  - {name: date_of_birth, kind: date, minimum: 2019-01-01, maximum: 2019-12-31, resolution: month}
"""
ORDERED = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
PAPER = {"score": "R", "allocation": "equal"}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "independent": ("independent", {}),
    "privbayes theta 4, paper": ("privbayes", PAPER),
    "privbayes degree 2, paper": ("privbayes", {"flavour": "degree", "degree": 2, **PAPER}),
    "privbayes degree 3, paper": ("privbayes", {"flavour": "degree", "degree": 3, **PAPER}),
    "privbayes theta 4": ("privbayes", {}),
    "privbayes degree 2": ("privbayes", {"flavour": "degree", "degree": 2}),
    "privbayes degree 3": ("privbayes", {"flavour": "degree", "degree": 3}),
    "privbayes-pgm theta 4": ("privbayes-pgm", {}),
    "privbayes-pgm degree 2": ("privbayes-pgm", {"flavour": "degree", "degree": 2}),
    "privbayes-pgm degree 3": ("privbayes-pgm", {"flavour": "degree", "degree": 3}),
    "mst": ("mst", {}),
    "aim": ("aim", {}),
    "laplace": ("laplace", {}),
}
TOO_WIDE = {"adult": {"laplace", "privbayes degree 2, paper", "privbayes degree 3, paper"}}


def natality(folder: Path) -> Table:
    source = folder / "natality" / "birth_2019_nber_us_SINGLETON_SAMPLE160K.csv.gz"
    return read_table(source, Schema.parse(NATALITY))


def adult(folder: Path) -> Table:
    sizes = json.loads((folder / "adult" / "adult-domain.json").read_text())
    columns = tuple(
        Integer(name, minimum=0, maximum=size - 1)
        if name in ORDERED
        else Categorical(name, values=list(range(size)))
        for name, size in sizes.items()
    )
    frame = pd.read_csv(folder / "adult" / "adult.csv.gz")
    return LocalTable(Schema(columns=columns), {name: frame[name].to_numpy() for name in sizes})


def cases(name: str, folder: Path) -> Iterator[tuple[Table, Unit, Budget]]:
    if name == "natality":
        table = natality(folder)
        for epsilon in (0.5, 1.0, 4.0):
            yield table, Unit.replace_one(), PureDP(epsilon)
    else:
        yield adult(folder), Unit.add_remove(), ApproxDP(1.0, 1e-9)


def run(table: Table, unit: Unit, budget: Budget, method: str, options: dict[str, Any]) -> dict[str, float]:
    """Fit, draw as many rows as there are, and compare all 2-way and 3-way marginals."""
    rows = table.exact_row_count()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="benchmark")
    curator = Curator(table, unit=unit, ledger=ledger)
    start, cpu = time.perf_counter(), time.process_time()
    model = create(method, **options).fit(curator, budget)
    fitted, fitted_cpu = time.perf_counter(), time.process_time()
    drawn = LocalTable(table.schema, model.sample_codes(rows, seed=1))
    result = {
        "fit": fitted - start,
        "draw": time.perf_counter() - fitted,
        "fit cpu": fitted_cpu - cpu,
        "draw cpu": time.process_time() - fitted_cpu,
    }
    for k in (2, 3):
        workload = all_kway(table.schema.domain, k)
        real, made = (item.count_many(workload.cliques) for item in (table, drawn))
        result[f"{k}-way"] = workload_error(workload, real, made, n_rows=rows)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("tables", nargs="*", default=["natality", "adult"])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    print("table, budget, method: 2-way error, 3-way error; seconds (CPU) to fit, to draw")
    for name in options.tables:
        for table, unit, budget in cases(name, options.data):
            for label in options.methods:
                if label in TOO_WIDE.get(name, ()):
                    continue
                method, settings = METHODS[label]
                runs = [run(table, unit, budget, method, settings) for _ in range(options.repeats)]
                mean = {key: float(np.mean([item[key] for item in runs])) for key in runs[0]}
                results.append({"table": name, "budget": budget.to_dict(), "method": label, **mean})
                print(
                    f"{name}, {budget.describe()}, {label}: {mean['2-way']:.4f}, {mean['3-way']:.4f}; "
                    f"{mean['fit']:.2f} ({mean['fit cpu']:.2f}), {mean['draw']:.2f} ({mean['draw cpu']:.2f})",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
