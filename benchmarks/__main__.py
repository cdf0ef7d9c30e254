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
from pathlib import Path

from benchmarks._measured import RUNS, measure

FOLDER = Path(__file__).resolve().parent
QUICK = {
    "aim": ["--quick"],
    "ablation": ["--quick"],
    "every_table": ["--quick"],
    "families": ["--quick"],
    "dips": ["--quick"],
    "faults": ["--quick"],
    "fuzz": ["--quick"],
    "large_parquet": ["1000000"],
    "large_fit": ["1000000"],
    "large_output": ["1000000"],
    "cost_model": ["--rows", "200000"],
}
"""Arguments of the quick form; benchmarks that are not named here are quick by themselves."""


def benchmarks() -> dict[str, str]:
    """Every module here that has a main(), with the first line of its documentation."""
    found = {}
    for path in sorted(FOLDER.glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def full(names: list[str]) -> int:
    """Run the documented forms and write their pages."""
    known = {run.name: run for run in RUNS}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"No documented run named {', '.join(unknown)}. Known: {', '.join(known)}.")
        return 2
    failed = []
    for name in names or known:
        print(f"\n== {name}: {known[name].shown}", flush=True)
        if measure(known[name]):
            failed.append(name)
    if failed:
        print(f"\nNot passed: {', '.join(failed)}")
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    known = benchmarks()
    if "--list" in arguments:
        for name, summary in known.items():
            print(f"{name:16} {summary}")
        return 0
    if "--full" in arguments:
        return full([name for name in arguments if name != "--full"])
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"No benchmark named {', '.join(unknown)}. Known: {', '.join(known)}.")
        return 2
    failed = []
    for name in arguments or known:
        print(f"\n== {name}: {known[name]}", flush=True)
        start = time.perf_counter()
        command = [sys.executable, "-m", f"benchmarks.{name}", *QUICK.get(name, [])]
        code = subprocess.run(command, cwd=FOLDER.parent, check=False).returncode
        print(f"-- {name}: {time.perf_counter() - start:.0f} s, exit code {code}", flush=True)
        if code:
            failed.append(name)
    if failed:
        print(f"\nNot passed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
