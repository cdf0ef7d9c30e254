"""Measure record fitting: error before and after, on fitted and on other marginals, and CPU time.

    python -m benchmarks.speed.records adult nltcs titanic_32bin salary_32bin msnbc --chunks 5 --crowded --json records.json

Three targets per table. *perfect*: the table's own 3-way marginals, from a bootstrap of its rows; what
is left is pure sampling error. *tree*: a graphical model of noisy pairs, rows drawn by randomised rounding.
*independent*: a product model, rows drawn independently. "to target" is the workload error against what was
fitted, "to real" against the real table, "4-way" against 40 of its 4-way marginals, which are never fitted.
The tables are public, so exact errors may be shown.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from understudy.engine import GraphicalModel, estimate, sample_codes
from understudy.engine.record_fitting.records import fit_records, fitting_cliques
from understudy.marginals import Measurement, Workload, all_kway, workload_error
from understudy.schema import Clique, Domain

DATA = Path(__file__).parents[3] / "shared" / "data"
TABLES = {
    "adult": ("adult/adult.csv.gz", "adult/adult-domain.json"),
    "nltcs": ("nltcs/nltcs.csv", "nltcs/nltcs-domain.json"),
    "titanic_32bin": ("titanic/titanic_32bin.csv", "titanic/titanic_32bin-domain.json"),
    "salary_32bin": ("salary/salary_32bin.csv.gz", "salary/salary_32bin-domain.json"),
    "salary": ("salary/salary.csv.gz", "salary/salary-domain.json"),
    "fire": ("fire/fire.csv.gz", "fire/fire-aim15-domain.json"),
    "msnbc": ("msnbc/msnbc.csv.gz", "msnbc/msnbc-domain.json"),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "one sweep": {"sweeps": 1, "temperature": 0.0},
    "default": {},
    "pairs, l2": {"norm": "l2", "k": 2},
}


def read(name: str, folder: Path) -> tuple[npt.NDArray[np.uint16], Domain]:
    table, sizes = TABLES[name]
    domain = Domain.of(json.loads((folder / sizes).read_text()))
    return pd.read_csv(folder / table)[list(domain)].to_numpy().astype(np.uint16), domain


def count(codes: npt.NDArray[Any], domain: Domain, cliques: tuple[Clique, ...]) -> list[npt.NDArray[Any]]:
    tables = []
    for clique in cliques:
        shape = domain.shape(clique)
        cell = np.zeros(len(codes), dtype=np.int64)
        for name, size in zip(clique, shape, strict=True):
            cell = cell * size + codes[:, domain.index(name)]
        tables.append(np.bincount(cell, minlength=int(np.prod(shape))).astype(np.int32).reshape(shape))
    return tables


def tree_model(codes: npt.NDArray[Any], domain: Domain, generator: np.random.Generator) -> GraphicalModel:
    """Measure all columns and a spanning tree of informative pairs with noise, and estimate."""
    pairs = tuple(combinations(domain.names, 2))
    information = {}
    for pair, table in zip(pairs, count(codes, domain, pairs), strict=True):
        joint = table / len(codes)
        product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
        filled = joint > 0
        information[pair] = float((joint[filled] * np.log(joint[filled] / product[filled])).sum())
    group = {name: name for name in domain.names}
    chosen: list[Clique] = [(name,) for name in domain.names]
    for a, b in sorted(pairs, key=information.__getitem__, reverse=True):
        if group[a] != group[b]:
            chosen.append((a, b))
            old = group[a]
            group = {name: group[b] if label == old else label for name, label in group.items()}
    sigma = 20.0
    noisy = [
        Measurement(clique, exact + generator.normal(0, sigma, exact.shape), "gaussian", sigma)
        for clique, exact in zip(chosen, count(codes, domain, tuple(chosen)), strict=True)
    ]
    return estimate(domain, noisy, total=float(len(codes)))


def bench(name: str, folder: Path, seed: int) -> list[dict[str, Any]]:
    real, domain = read(name, folder)
    n = len(real)
    generator = np.random.default_rng(seed)
    asked = all_kway(domain, 3)
    cliques = {3: fitting_cliques(domain, asked.cliques), 2: all_kway(domain, 2).cliques}
    workload = Workload.uniform(domain, cliques[3])
    exact = count(real, domain, cliques[3])
    four = [clique for clique in combinations(domain.names, 4) if domain.cells(clique) <= 2_000_000]
    others = Workload.uniform(domain, four[:: max(1, len(four) // 40)])
    exact_others = count(real, domain, others.cliques)

    tree = tree_model(real, domain, generator)
    columns = [
        Measurement(clique, table, "gaussian", 1.0)
        for clique, table in zip(
            ((c,) for c in domain.names), count(real, domain, tuple((c,) for c in domain.names)), strict=True
        )
    ]
    product = estimate(domain, columns, total=float(n))
    problems = {
        "perfect": (real[generator.integers(0, n, n)], None),
        "tree": (sample_codes(tree, n, generator), tree),
        "independent": (sample_codes(product, n, generator, method="independent"), product),
    }
    rows = []
    for target, (start, model) in problems.items():
        wanted = {
            k: count(real, domain, group) if model is None else model.marginals(group)
            for k, group in cliques.items()
        }
        if model is not None:
            own, others_own = model.marginals(cliques[3]), model.marginals(others.cliques)
            print(
                f"{name:14s} {target:12s} the model itself          "
                f"  to real {workload_error(workload, exact, own, n_rows=n):.4f}"
                f"  4-way {workload_error(others, exact_others, others_own, n_rows=n):.4f}",
                flush=True,
            )
        for setting, options in {"start": {"proposals": 0}, **SETTINGS}.items():
            options = dict(options)
            k = options.pop("k", 3)
            if "sweeps" in options:
                options["proposals"] = options.pop("sweeps") * start.size
            began = time.process_time()
            result = fit_records(start, domain, cliques[k], wanted[k], seed=seed, **options)
            seconds = time.process_time() - began
            triples = count(result.codes, domain, cliques[3])
            row = {
                "table": name,
                "target": target,
                "setting": setting,
                "to_target": workload_error(workload, wanted[3], triples, n_rows=n),
                "to_real": workload_error(workload, exact, triples, n_rows=n),
                "four_way": workload_error(
                    others, exact_others, count(result.codes, domain, others.cliques), n_rows=n
                ),
                "proposals": result.proposals_tried,
                "accepted": result.accepted,
                "cpu_seconds": seconds,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
            rows.append(row)
            print(
                f"{name:14s} {target:12s} {setting:10s} to target {row['to_target']:.4f}  to real {row['to_real']:.4f}"
                f"  4-way {row['four_way']:.4f}  {result.proposals_tried / 1e6:6.2f} M proposals  {seconds:6.2f} s",
                flush=True,
            )
    return rows


def chunks(name: str, folder: Path, seed: int, parts: int) -> list[dict[str, Any]]:
    """Fit a bootstrap in chunks that carry their residual, and in chunks that do not."""
    from understudy.engine.record_fitting.records import fit_chunk

    real, domain = read(name, folder)
    n = len(real)
    workload = Workload.uniform(domain, fitting_cliques(domain, all_kway(domain, 3).cliques))
    exact = count(real, domain, workload.cliques)
    start = real[np.random.default_rng(seed).integers(0, n, n)]
    rows = []
    for carried in (True, False):
        began, carry, done = time.process_time(), None, []
        for index, part in enumerate(np.array_split(start, parts)):
            result, now = fit_chunk(part, domain, workload.cliques, exact, carry=carry, seed=seed + index)
            carry = now if carried else None
            done.append(result.codes)
        seconds = time.process_time() - began
        error = workload_error(
            workload, exact, count(np.concatenate(done), domain, workload.cliques), n_rows=n
        )
        rows.append(
            {"table": name, "chunks": parts, "carried": carried, "error": error, "cpu_seconds": seconds}
        )
        print(f"{name:14s} {parts} chunks, carry {carried}: error {error:.4f}  {seconds:.2f} s", flush=True)
    return rows


def crowded(folder: Path, seed: int, records: int = 1_000) -> None:
    """Fit a single marginal of far more cells than records, with and without the marginals of its columns."""
    real, domain = read("salary", folder)
    clique = max(combinations(domain.names, 3), key=domain.cells)
    columns = tuple((name,) for name in clique)
    workload = Workload.uniform(domain, columns)
    share = records / len(real)
    target, exact = (
        count(real, domain, (clique,))[0] * share,
        [c * share for c in count(real, domain, columns)],
    )
    start = real[np.random.default_rng(seed).integers(0, len(real), records)]
    print(
        f"salary, one marginal of {' x '.join(map(str, domain.shape(clique)))} cells, {records:,} records, columns:"
    )
    for variant, options in {
        "start": {"proposals": 0},
        "marginal alone": {"keep_columns": False},
        "default": {},
    }.items():
        result = fit_records(start, domain, (clique,), [target], seed=seed, **options)
        error = workload_error(workload, exact, count(result.codes, domain, columns), n_rows=records)
        print(f"  {variant:16} error of the columns {error:.3f}", flush=True)
    triples = all_kway(domain, 3).cliques
    asked, fitted = (
        sum(domain.cells(item) for item in group) / 1e6
        for group in (triples, fitting_cliques(domain, triples))
    )
    print(f"  all triples of the table have {asked:.1f} million cells; {fitted:.1f} million are fitted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "tables", nargs="*", default=["titanic_32bin", "nltcs", "adult"], help=", ".join(TABLES)
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chunks", type=int, default=0, help="also fit in this many chunks")
    parser.add_argument(
        "--crowded", action="store_true", help="also fit one marginal with few records per cell"
    )
    parser.add_argument("--json", type=Path, help="write all numbers here")
    arguments = parser.parse_args()
    warm = Domain(("a", "b"), (2, 2))
    for norm in ("l1", "l2"):  # compile outside the measurements
        fit_records(np.zeros((4, 2), np.uint8), warm, [("a", "b")], [np.ones(4)], norm=norm, seed=0)
    rows = []
    for name in arguments.tables:
        rows += bench(name, arguments.data, arguments.seed)
        if arguments.chunks:
            rows += chunks(name, arguments.data, arguments.seed, arguments.chunks)
    if arguments.crowded:
        crowded(arguments.data, arguments.seed)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
