"""One cell of a benchmark in a process of its own: fit, draw as many rows as the table has, compare.

Reads a specification (JSON) from the command line and prints the result (JSON). The comparison reads the
real table without noise: these are public tables, and the numbers are for people who choose a method.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._tables import load, workload_of
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import DomainTooLarge
from understudy.marginals import Workload, workload_error
from understudy.mechanisms import create, method
from understudy.mechanisms.allocation import direct_weights, noises
from understudy.privacy import ZCDP, ApproxDP, Budget, Ledger, SeededRandomness, Unit, accounting_for
from understudy.privacy.accounting.conversions import approx_to_zcdp
from understudy.schema import Clique

ANSWERS = "answers"
"""The baseline that answers the workload and draws no rows."""


class CpuLimit(BaseException):
    """The time that a cell may compute is over; no error of what was interrupted, so nothing there may catch it."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`CpuLimit` inside the block after so many seconds of computing, as soon as Python gets to it."""

    def stop(*_: object) -> None:
        raise CpuLimit

    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    before = signal.signal(signal.SIGXCPU, stop)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
        signal.signal(signal.SIGXCPU, before)


def peak_mb() -> float:
    """Return the most memory this process has held, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Fit one mechanism and measure everything about it.

    Three options are not the mechanism's: ``accounting: zcdp`` adds up costs as paper AIM does, ``drawing: rounding``
    leaves rows as they were drawn, without record fitting, and ``unit: replace`` protects the change of a record instead
    of its presence. The method ``answers`` is the baseline Gaussian of that paper, which answers the workload and
    draws no rows. A specification with ``cpu_limit`` is given up after so many seconds of computing.
    """
    table = _table(spec["table"], Path(spec["data"]))
    cell_options = spec.get("options") or {}
    unit = Unit.replace_one() if cell_options.get("unit") == "replace" else Unit.add_remove()
    budget: Budget = ApproxDP(spec["epsilon"], spec["delta"])
    if cell_options.get("accounting") == "zcdp":
        budget = ZCDP(approx_to_zcdp(spec["epsilon"], spec["delta"]))
    ledger = Ledger.in_memory(budget=budget, unit=unit, table=spec["table"])
    # A seed makes the numbers repeatable; production code never seeds privacy noise.
    curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(spec["seed"]))
    fit = _answer if spec["method"] == ANSWERS else _fit_and_draw
    before = peak_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        with cpu_limit(spec["cpu_limit"]) if "cpu_limit" in spec else nullcontext():
            compare, found = fit(spec, curator, budget)
            used = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    except DomainTooLarge as error:
        return {"status": "refused", "message": str(error)}
    except CpuLimit:
        return {"status": "timeout", "timeout": spec["cpu_limit"]}
    peak = peak_mb()
    return {"status": "ok", **compare(), **used, "peak_mb": peak, "table_mb": before, **found}


def warm(spec: dict[str, Any]) -> None:
    """Do what several runs share before this process is copied: read the table, count it, try the mechanism out."""
    table = _table(spec["table"], Path(spec["data"]))
    _exact(spec["table"], Path(spec["data"]), spec["workload"])
    if spec["method"] != ANSWERS:
        budget = ApproxDP(spec["epsilon"], spec["delta"])
        with suppress(DomainTooLarge):  # the run itself says so
            create(spec["method"], **_own(spec)).prepare(table.schema, unit=Unit.add_remove(), budget=budget)


def _own(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are the mechanism's."""
    return {
        name: value
        for name, value in (spec.get("options") or {}).items()
        if name not in ("accounting", "drawing", "unit")
    }


@cache
def _table(name: str, folder: Path) -> LocalTable:
    return load(name, folder)


@cache
def _exact(name: str, folder: Path, workload: str) -> tuple[Workload, list[Any]]:
    """Return a workload and its exact counts."""
    table = _table(name, folder)
    made = workload_of(table.schema.domain, name, workload)
    return made, list(table.count_many(list(made.cliques)))


def _error(spec: dict[str, Any], answers: Callable[[list[Clique]], Sequence[Any]]) -> float:
    workload, exact = _exact(spec["table"], Path(spec["data"]), spec["workload"])
    rows = _table(spec["table"], Path(spec["data"])).exact_row_count()
    return workload_error(workload, exact, answers(list(workload.cliques)), n_rows=rows)


def _answer(
    spec: dict[str, Any], curator: Curator, budget: Budget
) -> tuple[Callable[[], dict[str, Any]], dict[str, Any]]:
    """Answer every marginal of the workload directly, the budget divided by the number of cells."""
    workload = workload_of(curator.domain, spec["table"], spec["workload"])
    cliques = list(workload.cliques)
    inside = curator.within(budget, scope=ANSWERS, accounting=accounting_for(budget))
    weights = direct_weights(
        inside.accounting, workload.weights, [curator.domain.cells(clique) for clique in cliques]
    )
    split = noises(inside.accounting, curator.unit, inside.remaining, weights)
    measured = inside.measure_many(inside.counts_many(cliques), noise=split, purpose="answer the workload")
    found = {"measurements": len(measured), "rounds": 0, "kind": "answers"}
    return lambda: {"error": _error(spec, lambda _: [item.values for item in measured])}, found


def _fit_and_draw(
    spec: dict[str, Any], curator: Curator, budget: Budget
) -> tuple[Callable[[], dict[str, Any]], dict[str, Any]]:
    """Fit a registered mechanism and draw as many rows as the table has."""
    table, domain = _table(spec["table"], Path(spec["data"])), curator.domain
    options = _own(spec)
    if method(spec["method"]).takes_workload:
        options["workload"] = workload_of(domain, spec["table"], spec["workload"])
    cpu = time.process_time()
    model = create(spec["method"], **options).fit(curator, budget)
    fit_cpu = time.process_time() - cpu
    n = table.exact_row_count()
    if (spec.get("options") or {}).get("drawing") == "rounding":
        rows = model.distribution.sample_codes(n, np.random.default_rng(spec["seed"]))
        codes = {name: rows[:, index] for index, name in enumerate(domain.names)}
    else:
        codes = model.sample_codes(n, seed=spec["seed"])

    def compare() -> dict[str, Any]:
        kept = {name: np.ascontiguousarray(column) for name, column in codes.items()}
        drawn = LocalTable(table.schema, kept)
        return {"error": _error(spec, drawn.count_many), "model_error": _error(spec, model.marginals)}

    return compare, {
        "fit_cpu_seconds": fit_cpu,
        "measurements": len(model.measurements),
        "rounds": len(model.rounds),
        "kind": model.distribution.kind,
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
