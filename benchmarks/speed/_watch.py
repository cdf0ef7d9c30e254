"""Time and memory of a command and everything it starts."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def _family(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    family = [root]
    for pid in family:
        family += [child for child, parent in parents.items() if parent == pid]
    return family


def _memory_mb(pids: Sequence[int]) -> float:
    """Memory of some processes; pages they share count once."""
    total = 0
    for pid in pids:
        try:
            text = (Path("/proc") / str(pid) / "smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def measured(command: Sequence[str], *, every: float = 1.0) -> dict[str, Any]:
    """Run a command that prints JSON on its last line; add wall seconds, CPU seconds and peak memory."""
    before = os.times()
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )
    peak = [0.0]
    over = threading.Event()

    def look() -> None:
        while not over.wait(every):
            peak[0] = max(peak[0], _memory_mb(_family(process.pid)))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    out, _ = process.communicate()
    over.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with exit code {process.returncode}")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found | {"wall": time.perf_counter() - start, "cpu": cpu, "peak_mb": peak[0]}
