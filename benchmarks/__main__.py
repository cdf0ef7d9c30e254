"""List every benchmark and run its quick form, each in a process of its own.

``python -m benchmarks`` runs all of them, ``python -m benchmarks aim noise`` some, ``--list`` none.
``--full`` runs the documented forms instead (hours) and keeps what they print, with machine and versions, as
``docs/measured/NAME.md``: the source of every number in the documentation. ``--full families noise`` runs some.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks._measured import RUNS, measure

FOLDER = Path(__file__).resolve().parent
QUICK = {
    "aim": ["--quick"],
    "ablation": ["--quick"],
    "auto": ["--quick"],
    "sift_parts": ["--quick"],
    "for_column": ["--quick"],
    "aim_figures": ["--quick"],
    "every_table": ["--quick"],
    "families": ["--quick"],
    "dips": ["--quick"],
    "faults": ["--quick"],
    "fuzz": ["--quick"],
    "neighbours": ["--quick"],
    "levels": ["--quick"],
    "people": ["--quick"],
    "peers": ["--quick"],
    "plan_errors": ["--quick"],
    "real_tables": ["--quick"],
    "refits": ["--quick"],
    "series": ["--rows", "4000", "--seeds", "1"],
    "weights": ["--quick"],
    "large_parquet": ["1000000"],
    "large_count": ["1000000"],
    "large_fit": ["1000000"],
    "large_output": ["1000000"],
    "cost_model": ["--rows", "200000"],
    "spark_cluster": ["300000", "1000000", "--workers", "2", "--memory", "1g"],
    "wide": ["60", "2000", "10"],
}
"""Arguments of the quick form; benchmarks that are not named here are quick by themselves."""


def benchmarks() -> dict[str, str]:
    """Every module in the folders here that has a main(), with the first line of its documentation."""
    found = {}
    for path in _programs().values():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def _programs() -> dict[str, Path]:
    """Return where each benchmark lies; a name occurs in one folder only."""
    return {path.stem: path for path in sorted(FOLDER.glob("*/[!_]*.py"))}


def quick(name: str) -> int:
    """Run the quick form of a benchmark and return its exit code."""
    start = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        f"benchmarks.{_programs()[name].parent.name}.{name}",
        *QUICK.get(name, []),
    ]
    code = subprocess.run(command, cwd=FOLDER.parent, check=False).returncode
    print(f"-- {name}: {time.perf_counter() - start:.0f} s, exit code {code}", flush=True)
    return code


def run_each(known: dict[str, str], names: list[str], run: Callable[[str], int]) -> int:
    """Run the named ones, or all, one after another; 1 if any failed, 2 if a name is unknown."""
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"No benchmark named {', '.join(unknown)}. Known: {', '.join(known)}.")
        return 2
    failed = []
    for name in names or known:
        print(f"\n== {name}: {known[name]}", flush=True)
        if run(name):
            failed.append(name)
    if failed:
        print(f"\nNot passed: {', '.join(failed)}")
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    documented = {run.name: run for run in RUNS}
    names = [word for word in arguments if word not in ("--full", "--list")]
    if "--full" in arguments:
        shown = {name: run.shown for name, run in documented.items()}
        if "--list" not in arguments:
            return run_each(shown, names, lambda name: measure(documented[name]))
    else:
        shown = benchmarks()
        if "--list" not in arguments:
            return run_each(shown, names, quick)
    for name, summary in shown.items():
        print(f"{name:16} {summary}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
