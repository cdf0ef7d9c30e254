"""Workload error, time and memory of the marginal-based mechanisms on the tables of paper AIM, section 6.

Every cell (table, workload, mechanism, epsilon, seed) runs in a process of its own. Results are appended
to ``results.jsonl`` as they come, so that an interrupted run goes on where it stopped. The error is that of
Definition 2 of the paper, with as many synthetic rows as real ones. Computing it reads the real tables
without noise: they are public, and nothing of this is private.

Run ``understudy bench aim --quick`` or ``python -m benchmarks.accuracy.aim --quick``.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

from benchmarks._tables import ALL, TABLES, WORKLOADS, find_data
from benchmarks.accuracy._peers import PEERS, install, run_peer
from benchmarks.accuracy._runner import Record, run_all, run_ours
from benchmarks.accuracy._summary import markdown, picture
from understudy.errors import UnderstudyError, WorkloadError
from understudy.mechanisms import method

METHODS = ("aim", "mst", "mwem-pgm", "gaussian", "hdmm-pgm", "independent")
EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-9
QUICK = [
    *product(("nltcs",), ("all-3way",), METHODS, (1.0,)),
    *product(("titanic", "adult"), ("all-3way",), ("aim", "mst", "mwem-pgm", "independent"), (1.0,)),
]
NOTICE = "Reads real tables without noise to compute the error; the tables are public and the result is no release."


def cells(
    tables: Sequence[str],
    workloads: Sequence[str],
    methods: Sequence[str],
    epsilons: Sequence[float],
) -> list[tuple[str, str, str, float]]:
    """Return the full grid, after checking every word."""
    for token, known in (*((name, ALL) for name in tables), *((name, WORKLOADS) for name in workloads)):
        if token not in known:
            raise WorkloadError(f"The benchmark does not know {token!r}. Known: {', '.join(known)}.")
    for name in methods:
        if name not in PEERS:
            method(name)
    return list(product(tables, workloads, methods, epsilons))


def wanted_cells(
    quick: bool,
    tables: Sequence[str] | None,
    workloads: Sequence[str] | None,
    methods: Sequence[str] | None,
    epsilons: Sequence[float] | None,
) -> list[tuple[str, str, str, float]]:
    """Return the cells of a choice; what was not chosen is that of the quick run, or everything.

    Examples
    --------
    >>> wanted_cells(True, ["nltcs"], None, ["aim", "mst"], None)
    [('nltcs', 'all-3way', 'aim', 1.0), ('nltcs', 'all-3way', 'mst', 1.0)]
    """
    if not quick:
        return cells(
            tables or tuple(TABLES), workloads or WORKLOADS, methods or METHODS, epsilons or EPSILONS
        )
    if methods is not None:
        return cells(
            tables or tuple(dict.fromkeys(cell[0] for cell in QUICK)),
            workloads or ("all-3way",),
            methods,
            epsilons or (1.0,),
        )
    found = []
    for table in tables or dict.fromkeys(cell[0] for cell in QUICK):
        usual = [cell[2] for cell in QUICK if cell[0] == table] or METHODS
        found += cells((table,), workloads or ("all-3way",), usual, epsilons or (1.0,))
    return found


def run(
    *,
    out: Path,
    data: Path | None = None,
    quick: bool = False,
    tables: Sequence[str] | None = None,
    workloads: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    epsilons: Sequence[float] | None = None,
    seeds: int | None = None,
    timeout: float = 900.0,
    peers: bool = False,
    say: Callable[[str], None] = print,
) -> list[Record]:
    """Run what is missing and write ``results.jsonl``, ``summary.md`` and ``errors.svg`` into ``out``.

    What is not chosen is all there is, or, if ``quick``, that of `QUICK`.
    """
    folder = find_data(data)
    grid = wanted_cells(quick, tables, workloads, methods, epsilons)
    seeds = (1 if quick else 3) if seeds is None else seeds
    if peers:
        places = dict.fromkeys((table, workload, epsilon) for table, workload, _, epsilon in grid)
        grid = [
            *grid,
            *((table, workload, peer, epsilon) for (table, workload, epsilon) in places for peer in PEERS),
        ]
    wanted = {name for _, _, name, _ in grid if name in PEERS}
    python = install(out / "peers", say) if wanted else None
    say(NOTICE)
    specs = [
        {
            "table": table,
            "workload": workload,
            "method": name,
            "epsilon": epsilon,
            "delta": DELTA,
            "seed": seed,
            "options": None,
            "data": str(folder),
        }
        for table, workload, name, epsilon in dict.fromkeys(grid)
        for seed in range(seeds)
    ]
    results = run_all(
        specs,
        out / "results.jsonl",
        timeout=timeout,
        run=functools.partial(_run_cell, python=python),
        say=say,
    )
    (out / "summary.md").write_text(markdown(results), encoding="utf-8")
    (out / "errors.svg").write_text(picture(results, "Workload error by epsilon"), encoding="utf-8")
    say(markdown(results))
    say(f"Wrote results.jsonl, summary.md and errors.svg to {out}.")
    return results


def _run_cell(spec: Record, *, timeout: float, python: Path | None) -> Record:
    if spec["method"] in PEERS:
        assert python is not None
        return run_peer(spec, timeout=timeout, python=python)
    return run_ours(spec, timeout=timeout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Benchmark of the marginal-based mechanisms.")
    parser.add_argument("--quick", action="store_true", help="a subset that takes less than 3 minutes")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/aim"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--tables", type=_names)
    parser.add_argument("--workloads", type=_names)
    parser.add_argument("--methods", type=_names)
    parser.add_argument("--epsilons", type=_numbers)
    parser.add_argument("--seeds", type=int, help="repetitions of each cell; 3, or 1 if quick")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds per cell")
    parser.add_argument("--peers", action="store_true", help="also run mbi, installed into OUT/peers")
    try:
        run(**vars(parser.parse_args(arguments)))
    except UnderstudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _names(text: str) -> list[str]:
    return [token.strip() for token in text.split(",") if token.strip()]


def _numbers(text: str) -> list[float]:
    return [float(token) for token in _names(text)]


if __name__ == "__main__":
    sys.exit(main())
