"""One cell of a benchmark in a process of its own: fit, draw as many rows as the table has, compare.

Reads a specification (JSON) from the command line and prints the result (JSON). The comparison reads the
real table without noise: these are public tables, and the numbers are for people who choose a method.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._tables import load, workload_of
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import DomainTooLarge
from understudy.marginals import workload_error
from understudy.mechanisms import create, method
from understudy.privacy import ZCDP, ApproxDP, Budget, Ledger, SeededRandomness, Unit
from understudy.privacy.accounting.conversions import approx_to_zcdp


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Fit one mechanism and measure everything about it.

    Two options are not the mechanism's: ``accounting: zcdp`` adds up costs as paper AIM does, and
    ``drawing: rounding`` leaves rows as they were drawn, without record fitting.
    """
    table = load(spec["table"], Path(spec["data"]))
    domain = table.schema.domain
    workload = workload_of(domain, spec["table"], spec["workload"])
    options = dict(spec.get("options") or {})
    accounting, drawing = options.pop("accounting", None), options.pop("drawing", None)
    if method(spec["method"]).takes_workload:
        options["workload"] = workload
    synthesizer = create(spec["method"], **options)
    budget: Budget = ApproxDP(spec["epsilon"], spec["delta"])
    if accounting == "zcdp":
        budget = ZCDP(approx_to_zcdp(spec["epsilon"], spec["delta"]))
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table=spec["table"])
    # A seed makes the numbers repeatable; production code never seeds privacy noise.
    curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(spec["seed"]))
    before = peak_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        model = synthesizer.fit(curator, budget)
    except DomainTooLarge as error:
        return {"status": "refused", "message": str(error)}
    fit_cpu = time.process_time() - cpu
    n = table.exact_row_count()
    if drawing == "rounding":
        rows = model.distribution.sample_codes(n, np.random.default_rng(spec["seed"]))
        codes = {name: rows[:, index] for index, name in enumerate(domain.names)}
    else:
        codes = model.sample_codes(n, seed=spec["seed"])
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    peak = peak_mb()
    exact = table.count_many(list(workload.cliques))
    drawn = LocalTable(table.schema, {name: np.ascontiguousarray(column) for name, column in codes.items()})
    return {
        "status": "ok",
        "error": workload_error(workload, exact, drawn.count_many(list(workload.cliques)), n_rows=n),
        "model_error": workload_error(workload, exact, model.marginals(list(workload.cliques)), n_rows=n),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "fit_cpu_seconds": fit_cpu,
        "peak_mb": peak,
        "table_mb": before,
        "measurements": len(model.measurements),
        "rounds": len(model.rounds),
        "kind": model.distribution.kind,
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
