"""A stand-in for predicting one column: does a workload around it help (``synth --target COLUMN``)?

Fits on four fifths of a public table, draws as many rows, trains boosted trees and a logistic regression on them and tests on the fifth that was kept:
area under the ROC curve, against that of the same trained on the real rows. Workloads: all triples alike, and the one that ``--target`` makes.
The tables on which the weight was chosen and those on which it is reported are disjoint. Resumable; the tables are
public, and nothing of this is a release.

Run ``python -m benchmarks.accuracy.for_column``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.accuracy._runner import THREADS

if __name__ == "__main__":  # before anything that starts threads is imported
    for _name in THREADS:
        os.environ.setdefault(_name, "1")

import numpy as np
import numpy.typing as npt

from benchmarks._kept import keep_table
from benchmarks._tables import find_data, load
from benchmarks.accuracy._cell import CpuLimit, cpu_limit, peak_mb
from benchmarks.accuracy._family_cell import split
from benchmarks.accuracy._forked import run_forked
from benchmarks.accuracy._runner import Record, read_records, run_all
from benchmarks.accuracy.aim import NOTICE
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.marginals import Workload, all_kway, target
from understudy.mechanisms import create
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.schema import Domain
from understudy.workflow.choice import TARGET_WEIGHT, predicting

TARGETS = {"adult15": "income>50K", "acs13": "incc", "nltcs": "laundry", "bank": "y", "hmeq": "BAD"}
DEVELOPMENT, REPORTED = ("adult15", "acs13", "nltcs"), ("bank", "hmeq")
DELTA, CPU_LIMIT = 1e-9, 120.0
FOR = f"weight:{TARGET_WEIGHT:g}"
"""The workload that ``--target`` makes."""
Codes = dict[str, npt.NDArray[Any]]


@cache
def halves(name: str, folder: Path) -> tuple[LocalTable, Codes]:
    """Return the rows to fit on and the ones to test on."""
    return split(load(name, folder))


def workload_of(domain: Domain, column: str, name: str) -> Workload:
    """Return all triples, those with the column, or all of them with a weight on those with the column (``weight:8``)."""
    if name == "all-3way":
        return all_kway(domain, 3)
    if name == "target":
        return target(domain, column)
    return predicting(domain, column, weight=float(name.partition(":")[2]))


def areas(train: Codes, test: Codes, column: str, sizes: Mapping[str, int], seed: int) -> tuple[float, float]:
    """Return the areas under the ROC curve of boosted trees and of logistic regression, trained on one table and tested on another.

    The regression sees an indicator of each code.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    def parts(codes: Codes) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        features = np.column_stack([values for name, values in codes.items() if name != column])
        return features.astype(np.float32), (codes[column] >= 1).astype(int)

    features, labels = parts({name: train[name] for name in test})
    unseen, truth = parts(test)
    if len(np.unique(labels)) < 2:
        return 0.5, 0.5
    codes = [np.arange(size) for name, size in sizes.items() if name != column and name in test]
    encoder = OneHotEncoder(categories=codes, handle_unknown="ignore")
    trees = HistGradientBoostingClassifier(max_iter=100, random_state=seed)
    regression = make_pipeline(encoder, LogisticRegression(max_iter=300))
    found = [
        float(roc_auc_score(truth, made.fit(features, labels).predict_proba(unseen)[:, 1]))
        for made in (trees, regression)
    ]
    return found[0], found[1]


def fit_cell(spec: Record) -> Record:
    """Fit, draw, train, test."""
    rows, test = halves(spec["table"], Path(spec["data"]))
    column, unit = TARGETS[spec["table"]], Unit.add_remove()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        with cpu_limit(spec["cpu_limit"]):
            if spec["method"] == "real":
                (train,) = rows.chunks(rows=rows.exact_row_count())
            else:
                budget = ApproxDP(spec["epsilon"], DELTA)
                ledger = Ledger.in_memory(budget=budget, unit=unit, table=spec["table"])
                curator = Curator(rows, unit=unit, ledger=ledger, randomness=SeededRandomness(spec["seed"]))
                workload = workload_of(rows.schema.domain, column, spec["workload"])
                model = create(spec["method"], workload=workload).fit(curator, budget)
                train = model.sample_codes(rows.exact_row_count(), seed=spec["seed"])
            used = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    except CpuLimit:
        return {"status": "timeout", "timeout": spec["cpu_limit"]}
    domain = rows.schema.domain
    sizes = dict(zip(domain.names, domain.sizes, strict=True))
    trees, regression = areas(dict(train), test, column, {name: sizes[name] for name in test}, spec["seed"])
    return {
        "status": "ok",
        "auc": trees,
        "auc_regression": regression,
        "error": 1 - trees,
        **used,
        "peak_mb": peak_mb(),
    }


def _run(spec: Record, *, timeout: float) -> Record:
    halves(spec["table"], Path(spec["data"]))
    found = run_forked(fit_cell, spec, wall=6 * timeout + 60)
    return {"status": "timeout", "timeout": timeout} if found["status"] == "stopped" else found


def _words(text: str) -> list[str]:
    return text.split(",")


def markdown(records: Sequence[Record]) -> str:
    """Return the mean area under the curve of every table, method and workload."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for record in records:
        if record["status"] == "ok":
            found.setdefault((record["table"], record["method"], record["workload"]), []).append(
                record["auc"]
            )
    text = ["| table | rows from | workload | AUC | seeds |", "|---|---|---|---|---|"]
    for table in TARGETS:
        for (name, method, workload), values in found.items():
            if name == table:
                shown = "" if method == "real" else workload
                text.append(f"| {table} | {method} | {shown} | {np.mean(values):.4f} | {len(values)} |")
    return "\n".join(text)


JUDGES = {"auc": "boosted trees", "auc_regression": "logistic regression"}


def distances(records: Sequence[Record], judge: str) -> str:
    """Return how far each method is from training on real rows, with the workload of ``--for``, and its mean if it finished on all tables."""
    found: dict[str, dict[str, list[float]]] = {}
    for record in records:
        if record["status"] == "ok" and (record["method"] == "real" or record["workload"] == FOR):
            found.setdefault(record["method"], {}).setdefault(record["table"], []).append(record[judge])
    real = {name: float(np.mean(values)) for name, values in found.pop("real", {}).items()}
    tables = [name for name in TARGETS if name in real and any(name in own for own in found.values())]
    text = [
        f"| rows from ({JUDGES[judge]}) | {' | '.join(tables)} | mean AUC |",
        "|---|" + "---|" * (len(tables) + 1),
    ]
    whole = np.mean([real[name] for name in tables]) if tables else float("nan")
    text.append(f"| real | {' | '.join(f'{real[name]:.4f}' for name in tables)} | {whole:.4f} |")
    for method, own in found.items():
        means = {name: float(np.mean(values)) for name, values in own.items()}
        cells = [
            f"{means[name]:.4f} ({means[name] - real[name]:+.4f})" if name in means else "did not finish"
            for name in tables
        ]
        mean = f"{np.mean([means[name] for name in tables]):.4f}" if len(means) == len(tables) else "-"
        text.append(f"| {method} | {' | '.join(cells)} | {mean} |")
    return "\n".join(text)


def report(records: Sequence[Record], *, write: bool) -> None:
    """Print the table and what ``--target`` gains; with ``write`` keep the runs as ``docs/measured/data/for-column.csv``."""
    print("\n" + markdown(records))
    for judge in JUDGES:
        if all(judge in record for record in records if record["status"] == "ok"):
            print("\n" + distances(records, judge))
    for tables, what in ((DEVELOPMENT, "development"), (REPORTED, "reported")):
        gains = []
        for table in tables:
            by_seed = {
                (item["workload"], item["seed"]): item["auc"]
                for item in records
                if item["table"] == table and item["method"] == "aim" and item["status"] == "ok"
            }
            gains += [
                by_seed[FOR, seed] - by_seed["all-3way", seed]
                for workload, seed in by_seed
                if workload == FOR and ("all-3way", seed) in by_seed
            ]
        if gains:
            print(
                f"Gain of --target on {what} tables ({', '.join(tables)}): {np.mean(gains):+.4f} on average over {len(gains)} fits, "
                f"from {min(gains):+.4f} to {max(gains):+.4f}."
            )
    if write:
        columns = (
            "table",
            "method",
            "workload",
            "epsilon",
            "seed",
            "status",
            "auc",
            "auc_regression",
            "cpu_seconds",
        )
        rows = [[item.get(name, "") for name in columns] for item in records]
        print(f"Wrote {keep_table('for-column', columns, rows).name}.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Workloads around a column that will be predicted.")
    parser.add_argument("--quick", action="store_true", help="one small table, one seed")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/for_column"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--tables", type=_words, default=[*DEVELOPMENT, *REPORTED])
    parser.add_argument("--methods", type=_words, default=["aim"])
    parser.add_argument("--workloads", type=_words, default=["all-3way", FOR])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--cpu-limit", type=float, default=CPU_LIMIT, help="seconds of CPU that a fit may take"
    )
    parser.add_argument("--write", action="store_true", help="keep the runs under docs/measured")
    given = parser.parse_args(arguments)
    data = find_data(given.data)
    print(NOTICE)
    common = {"delta": DELTA, "options": None, "data": str(data), "cpu_limit": given.cpu_limit}
    tables = ["hmeq"] if given.quick else given.tables
    grid = [(table, "real", "all-3way", 0) for table in tables]
    grid += list(product(tables, given.methods, given.workloads, range(1 if given.quick else given.seeds)))
    cells = [
        {"table": t, "method": m, "workload": w, "epsilon": given.epsilon, "seed": s, **common}
        for t, m, w, s in grid
    ]
    path = given.out / "results.jsonl"
    run_all(cells, path, timeout=given.cpu_limit, run=_run)
    report(list(read_records(path).values()), write=given.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
