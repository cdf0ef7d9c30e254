"""What a first run compiles: CPU seconds of every kernel and set of types, and of a first fit as a whole.

Run ``python -m benchmarks.speed.compilation [METHOD ...]``. Each method is prepared for a small table and an approximate budget in a
process of its own, with an empty cache: that is what a first ``synth`` compiles. The target is for the method that
``synth`` takes where nobody names one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

TARGET = 12.0
CHOSEN = "auto"
SHOWN = 12
_SCHEMA = "columns: [{name: a, kind: categorical, values: [x, y, z]}, {name: b, kind: boolean}, {name: c, kind: boolean}]"


def watched(method: str) -> dict[str, Any]:
    """Prepare a method in this process, whose cache is empty, and return what was compiled."""
    from numba.core import event

    from understudy.privacy import ApproxDP, Unit
    from understudy.schema import Schema
    from understudy.workflow.synthesis import mechanism_for

    open_at: list[list[float]] = []
    kernels: list[tuple[float, str, str]] = []

    class Watch(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            open_at.append([time.process_time(), 0.0])

        def on_end(self, event: Any) -> None:
            begun, inside = open_at.pop()
            whole = time.process_time() - begun
            if open_at:
                open_at[-1][1] += whole
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__.removeprefix('understudy.')}.{function.__name__}"
            kernels.append((whole - inside, name, str(event.data["args"])))

    event.register("numba:compile", Watch())  # type: ignore[no-untyped-call]
    schema, unit, budget = Schema.parse(_SCHEMA), Unit.add_remove(), ApproxDP(1.0, 1e-6)
    begun = time.process_time()
    made = mechanism_for(method, schema, unit=unit, budget=budget)
    made.prepare(schema, unit=unit, budget=budget)
    return {"method": made.name, "seconds": time.process_time() - begun, "kernels": kernels}


def measured(method: str) -> dict[str, Any]:
    """Return what a new process compiles for a method."""
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.speed.compilation", "--watched", method],
            env=dict(os.environ, NUMBA_CACHE_DIR=empty),
            capture_output=True,
            text=True,
            check=True,
        )
    return dict(json.loads(done.stdout))


def main(words: list[str]) -> int:
    if words[:1] == ["--watched"]:
        print(json.dumps(watched(words[1])))
        return 0
    slow = 0
    for method in words or [CHOSEN, "mst"]:
        found = measured(method)
        kernels = sorted(found["kernels"], reverse=True)
        types: dict[str, int] = {}
        for _, name, _ in kernels:
            types[name] = types.get(name, 0) + 1
        total = sum(seconds for seconds, _, _ in kernels)
        shown = found["method"] if method == found["method"] else f"{method} ({found['method']})"
        print(
            f"{shown}: {found['seconds']:.1f} s of CPU to prepare, {total:.1f} s of it to compile {len(kernels)} functions"
        )
        for seconds, name, _ in kernels[:SHOWN]:
            print(f"  {seconds:5.2f} s  {name}")
        own = {name: number for name, number in types.items() if number > 1 and not name.startswith("numba.")}
        print(
            f"  for more than one set of types: {', '.join(f'{name} ({number})' for name, number in own.items()) or 'none'}"
        )
        slow += method == CHOSEN and total > TARGET
    print(f"target: {TARGET:g} s for {CHOSEN}: {'missed' if slow else 'met'}")
    return slow


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
