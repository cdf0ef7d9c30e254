"""One cell of the comparison of families: fit on four fifths of a public table, draw, compare, learn, test.

Reads a specification (JSON) from the command line and prints the result (JSON). A fifth of the rows, always the same, is
kept for testing classifiers. Everything that is compared reads the real table without noise: these tables are public.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks._tables import load, workload_of
from benchmarks.accuracy._cell import CpuLimit, cpu_limit, peak_mb
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import UnderstudyError
from understudy.evaluation import accuracy, predictions
from understudy.marginals import Workload, workload_error
from understudy.mechanisms import Model, create, method
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.schema import Domain

REAL = "real rows"
"""Name of the cell that trains on the real rows: what a perfect method would reach."""
TARGETS = {
    "adult": ("income>50K", 1),
    "nltcs": ("laundry", 1),
    "acs13": ("incc", 1),
    "natality": ("weight", 13),
}
"""Column to predict, and the first code of its upper class: above 50,000 dollars, help needed, above 3,250 grams."""
CLASSIFIERS = ("forest", "logistic")
_TRAIN, _TEST = 20_000, 10_000
Codes = dict[str, npt.NDArray[Any]]


def split(table: LocalTable) -> tuple[LocalTable, Codes]:
    """Keep every fifth row, in a fixed random order, for testing."""
    n = table.exact_row_count()
    (codes,) = table.chunks(rows=max(1, n))
    order = np.random.default_rng(20).permutation(n)
    test, train = order[: n // 5], np.sort(order[n // 5 :])
    kept = {name: np.ascontiguousarray(values[train]) for name, values in codes.items()}
    return LocalTable(table.schema, kept), {name: values[test] for name, values in codes.items()}


def classifier_accuracy(
    domain: Domain, train: Mapping[str, npt.NDArray[Any]], test: Mapping[str, npt.NDArray[Any]], table: str
) -> dict[str, float]:
    """Return the accuracy of classifiers trained on one table and tested on another, and of the commoner class."""
    target, first = TARGETS[table.partition("@")[0]]
    two = Domain(domain.names, tuple(2 if name == target else domain.size(name) for name in domain.names))
    generator = np.random.default_rng(5)

    def some(codes: Mapping[str, npt.NDArray[Any]], most: int) -> Codes:
        n = len(codes[target])
        chosen = generator.choice(n, min(n, most), replace=False)
        picked = {name: np.asarray(codes[name])[chosen].astype(np.int64) for name in domain.names}
        return picked | {target: (picked[target] >= first).astype(np.int64)}

    learn, judge = some(train, _TRAIN), some(test, _TEST)
    said = predictions(two, learn, judge, target=target, classifiers=CLASSIFIERS)
    right = accuracy(two, said, judge, target=target)
    share = float(judge[target].mean())
    found = {name: float(right.values[name]) for name in CLASSIFIERS}
    return found | {"commoner class": max(share, 1 - share)}


def compare(
    spec: dict[str, Any], table: LocalTable, test: Codes, workload: Workload, drawn: Codes
) -> dict[str, Any]:
    """Return workload error and accuracy of rows that were drawn."""
    cliques = list(workload.cliques)
    made = LocalTable(table.schema, {name: np.ascontiguousarray(column) for name, column in drawn.items()})
    error = workload_error(
        workload, table.count_many(cliques), made.count_many(cliques), n_rows=table.exact_row_count()
    )
    found = classifier_accuracy(table.schema.domain, drawn, test, spec["table"])
    return {
        "error": error,
        "accuracy": float(np.mean([found[name] for name in CLASSIFIERS])),
        "classifiers": found,
    }


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Fit one mechanism within the time it is given, and measure everything about it."""
    table, test = split(load(spec["table"], Path(spec["data"])))
    n = table.exact_row_count()
    workload = workload_of(table.schema.domain, spec["table"].partition("@")[0], spec["workload"])
    if spec["method"] == REAL:
        (codes,) = table.chunks(rows=n)
        idle = {"seconds": 0.0, "cpu_seconds": 0.0, "peak_mb": peak_mb()}
        return {"status": "ok", **idle, **compare(spec, table, test, workload, dict(codes))}
    options = dict(spec.get("options") or {})
    if method(spec["method"]).takes_workload:
        options["workload"] = workload
    budget, unit = ApproxDP(spec["epsilon"], spec["delta"]), Unit.add_remove()
    ledger: Ledger | None = None
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        with cpu_limit(spec["cpu_limit"]):
            synthesizer = create(spec["method"], **options)
            synthesizer.require(budget)
            reserve = synthesizer.reserve(table.schema, budget)
            ledger = Ledger.in_memory(
                budget=budget, unit=unit, table=spec["table"], approximate_delta=reserve
            )
            # A seed makes the numbers repeatable; production code never seeds privacy noise.
            curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(spec["seed"]))
            model: Model = synthesizer.fit(curator, budget)
            drawn = model.sample_codes(n, seed=spec["seed"])
    except CpuLimit:
        return {"status": "timeout", "timeout": spec["cpu_limit"]}
    except UnderstudyError as error:
        spent = ledger is not None and ledger.spent > 0
        return {"status": "failed" if spent else "refused", "message": " ".join(str(error).split())[:300]}
    result = {
        "status": "ok",
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mb": peak_mb(),
        "measurements": len(model.measurements),
        "kind": model.distribution.kind,
    }
    return result | compare(spec, table, test, workload, drawn)


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
