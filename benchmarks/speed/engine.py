"""Time the parts of the graphical-model engine on real domains with simulated noise.

    python benchmarks/speed/engine.py --data ../shared/data [--quick] [--json results.json]

Nothing here is private or a mechanism: the marginals of a public benchmark table get floating-point
noise, so that trees, weights and negative counts look as they do inside AIM. Times are CPU seconds of
this process; kernels are compiled before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from understudy.engine import GraphicalModel, candidate_sizes, estimate, model_size, sample_codes
from understudy.engine.graphical.calibration import Workspace
from understudy.marginals import Measurement
from understudy.schema import Domain

ADULT_TREES = {"small": (0.6, 40, 100.0), "large": (42.0, 60, 5.0)}  # megabytes, cliques, noise


def read(folder: Path, name: str) -> tuple[Domain, np.ndarray]:
    domain = Domain.of(json.loads((folder / name / f"{name}-domain.json").read_text()))
    path = next(path for path in (folder / name).glob(f"{name}.csv*"))
    return domain, pd.read_csv(path)[list(domain.names)].to_numpy()


def count(domain: Domain, rows: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    shape = domain.shape(clique)
    cells = np.zeros(len(rows), dtype=np.int64)
    for name, size in zip(clique, shape, strict=True):
        cells = cells * size + rows[:, domain.index(name)]
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape)


def choose_cliques(domain: Domain, limit_mb: float, wanted: int, seed: int) -> list[tuple[str, ...]]:
    """Pick random two- and three-way cliques of at most 20,000 cells as long as the tree fits."""
    generator = np.random.default_rng(seed)
    candidates = [c for k in (2, 3) for c in combinations(domain.names, k) if domain.cells(c) <= 20_000]
    chosen: list[tuple[str, ...]] = [(name,) for name in domain.names]
    for round_ in range(wanted):
        limit = limit_mb * (0.05 + 0.95 * (round_ + 1) / wanted)
        sizes = candidate_sizes(domain, chosen, candidates, limit_mb=limit)
        fitting = [c for c, size in zip(candidates, sizes, strict=True) if size <= limit and c not in chosen]
        if fitting:
            chosen.append(fitting[int(generator.integers(len(fitting)))])
    return chosen


def clock(action: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the shortest CPU time of some calls, and the last result."""
    best, result = math.inf, None
    for _ in range(repeats):
        start = time.process_time()
        result = action()
        best = min(best, time.process_time() - start)
    return best, result


def bench_adult(folder: Path, tree: str, repeats: int) -> dict[str, float]:
    domain, rows = read(folder, "adult")
    limit_mb, wanted, scale = ADULT_TREES[tree]
    cliques = choose_cliques(domain, limit_mb, wanted, seed=1)
    generator = np.random.default_rng(0)
    measurements = [
        Measurement(
            c, count(domain, rows, c) + scale * generator.normal(size=domain.shape(c)), "gaussian", scale
        )
        for c in cliques
    ]
    candidates = [c for k in (1, 2, 3) for c in combinations(domain.names, k)]
    sizes, _ = clock(lambda: candidate_sizes(domain, cliques, candidates), repeats)
    cold, model = clock(lambda: estimate(domain, measurements))
    warm, _ = clock(lambda: estimate(domain, measurements, warm_start=model), repeats)
    final, _ = clock(lambda: estimate(domain, measurements, warm_start=model, thorough=True))
    order = model.order
    workspace = Workspace(model.tree, [order.columns(c) for c in cliques], [], model.total)
    calibrate, _ = clock(workspace.load, repeats)
    rates = np.full(len(cliques), 100.0 / scale**2)
    for node, measurement in enumerate(measurements):
        workspace.target(node)[...] = order.inward(measurement.clique, measurement.values)
    epoch, _ = clock(lambda: workspace.sweep(rates), max(3, repeats))
    answers, tables = clock(lambda: model.marginals(candidates), repeats)
    sample, _ = clock(lambda: sample_codes(model, len(rows), np.random.default_rng(0)), repeats)
    triples = [(c, t) for c, t in zip(candidates, tables, strict=True) if len(c) == 3]
    error = float(np.mean([np.abs(t - count(domain, rows, c)).sum() for c, t in triples])) / len(rows)
    return {
        "tree_mb": model.size_mb,
        "measured_cliques": len(cliques),
        "measured_cells": sum(m.values.size for m in measurements),
        "469_size_checks_s": sizes,
        "calibrate_s": calibrate,
        "epoch_s": epoch,
        "estimate_cold_s": cold,
        "epochs_cold": model.info.epochs,
        "estimate_warm_s": warm,
        "estimate_thorough_s": final,
        "469_marginals_s": answers,
        "sample_rows_s": sample,
        "mean_3way_l1_error": error,
        "loss_over_bound": model.info.loss / model.info.bound,
    }


def bench_sizes(folder: Path, name: str, candidates: int, repeats: int) -> dict[str, float]:
    domain = Domain.of(json.loads((folder / name / f"{name}-domain.json").read_text()))
    generator = np.random.default_rng(0)
    triples = list(combinations(domain.names, 3))
    picked = [
        triples[i] for i in generator.choice(len(triples), size=min(candidates, len(triples)), replace=False)
    ]
    chain = [
        (a, b) for a, b in zip(domain.names, domain.names[1:], strict=False) if domain.cells((a, b)) < 20_000
    ]
    spent, _ = clock(lambda: candidate_sizes(domain, chain, picked, limit_mb=80.0), repeats)
    return {
        "columns": len(domain),
        "tree_mb": model_size(domain, chain),
        f"{len(picked)}_size_checks_s": spent,
    }


def warm_up() -> None:
    """Compile every kernel once."""
    domain = Domain(("a", "b", "c"), (30, 40, 30))
    measurements = [
        Measurement(c, np.ones(domain.shape(c)), "gaussian", 1.0) for c in [("a", "b"), ("b", "c")]
    ]
    model = estimate(domain, measurements)
    candidate_sizes(domain, [("a", "b")], [("b", "c")])
    model.marginals([("a", "c"), ("b",)])
    sample_codes(model, 10, np.random.default_rng(0))
    GraphicalModel(domain, 1.0, model.potentials).marginal(("a",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared" / "data")
    parser.add_argument("--quick", action="store_true", help="small tree only")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    compile_s, _ = clock(warm_up)
    results: dict[str, dict[str, float]] = {"compile or load kernels": {"s": compile_s}}
    results["adult, small tree"] = bench_adult(arguments.data, "small", 5)
    if not arguments.quick:
        results["adult, large tree"] = bench_adult(arguments.data, "large", 2)
    results["stroke, size checks"] = bench_sizes(arguments.data, "stroke", 5000, 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    results["peak memory"] = {"rss_mb": peak}
    for title, values in results.items():
        print(f"\n{title}")
        for key, value in values.items():
            print(f"  {key:24} {value:.4g}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
