"""Wide tables: plan, MST and AIM on 300 columns, in CPU seconds and memory.

Run ``python -m benchmarks.speed.wide [COLUMNS ROWS SECONDS EPSILON]``. The table is made of simulated surveys side by side, so that columns depend on
each other within a survey. AIM is asked for all pairs, with ``--time-limit SECONDS`` unless that is ``none``, the default. Each step is a process of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

PLAN_TARGET = 10.0


def wide_table(columns: int, rows: int) -> tuple[Any, Any]:
    """Return a frame of so many columns and its schema."""
    import pandas as pd

    from understudy import datasets
    from understudy.schema import Schema

    frames, described, seed = [], [], 0
    while len(described) < columns:
        frame, schema = datasets.load("survey", rows, seed=seed)
        plain = schema.to_dict()["columns"][: columns - len(described)]
        frames.append(frame[[item["name"] for item in plain]].add_prefix(f"s{seed}_").reset_index(drop=True))
        described += [item | {"name": f"s{seed}_{item['name']}"} for item in plain]
        seed += 1
    return pd.concat(frames, axis=1), Schema.from_dict({"columns": described})


def step(
    method: str, columns: int, rows: int, seconds: float | None, epsilon: float, fits: bool
) -> dict[str, Any]:
    """Plan a method in this process, or fit it and draw as many rows."""
    from understudy.curator import Curator
    from understudy.data import read_table
    from understudy.privacy import ApproxDP, Ledger, Unit
    from understudy.workflow.synthesis import mechanism_for

    frame, schema = wide_table(columns, rows if fits else 10)
    unit, budget = Unit.add_remove(), ApproxDP(epsilon, 1e-9)
    begun, clock = time.process_time(), time.perf_counter()
    limit: dict[str, Any] = (
        {"workload": "all-2way", "time_limit": seconds} if fits and method == "aim" else {}
    )
    made = mechanism_for(method, schema, unit=unit, budget=budget, **limit)
    found: dict[str, Any] = {}
    if fits:
        with Ledger.in_memory(budget=budget, unit=unit) as ledger:
            model = made.fit(Curator(read_table(frame, schema), unit=unit, ledger=ledger), budget)
            found = {"measurements": len(model.measurements), "spent": round(ledger.spent / ledger.total, 4)}
        found["fit"] = time.process_time() - begun
        model.sample(rows, seed=1)
    else:
        made.plan(schema, unit=unit, budget=budget)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found | {"cpu": time.process_time() - begun, "wall": time.perf_counter() - clock, "mb": megabytes}


def main(words: list[str]) -> int:
    if words[:1] == ["--step"]:
        method, columns, rows, seconds, epsilon, fits = words[1:]
        limit = None if seconds == "none" else float(seconds)
        print(json.dumps(step(method, int(columns), int(rows), limit, float(epsilon), fits == "fit")))
        return 0
    usual = ("300", "100000", "none", "1")
    columns, rows, seconds, epsilon = (*words, *usual[len(words) :])
    slow = 0
    for method, what in (("aim", "plan"), ("mst", "plan"), ("auto", "plan"), ("mst", "fit"), ("aim", "fit")):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "benchmarks.speed.wide",
                "--step",
                method,
                columns,
                rows,
                seconds,
                epsilon,
                what,
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
        more = (
            f", fit alone {found['fit']:.1f} s, {found['measurements']} measurements, {found['spent']:.0%} of the budget spent"
            if "fit" in found
            else ""
        )
        print(
            f"{method} {what}, {columns} columns: {found['cpu']:.1f} s of CPU, {found['wall']:.1f} s, {found['mb']:.0f} MB{more}",
            flush=True,
        )
        slow += what == "plan" and found["cpu"] > PLAN_TARGET
    print(f"plan within {PLAN_TARGET:g} s: {'missed' if slow else 'met'}")
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
