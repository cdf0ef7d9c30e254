"""Peers in a virtual environment of their own: installed once, run as processes, judged by the same code."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._tables import load, workload_of
from benchmarks.accuracy._runner import Record, in_process
from understudy.data import LocalTable
from understudy.errors import OutputError
from understudy.marginals import workload_error
from understudy.privacy.accounting.conversions import approx_to_zcdp

REQUIREMENTS = ("mbi==2.0.0",)
PEERS = ("mbi-mst", "mbi-aim")
SCRIPT = Path(__file__).resolve().parent / "_peer_mbi.py"


def install(folder: Path, say: Callable[[str], None]) -> Path:
    """Make the environment if it is not there, and return its Python."""
    python = folder / "bin" / "python"
    stamp = folder / "installed.txt"
    wanted = "\n".join(REQUIREMENTS)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    say(f"Installing {', '.join(REQUIREMENTS)} into {folder} ...")
    venv.create(folder, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["unknown reason"]
        raise OutputError(f"The peers could not be installed: {last[0]}. Run without --peers.")
    stamp.write_text(wanted)
    return python


def run_peer(spec: Record, *, timeout: float, python: Path) -> Record:
    """Give a peer the table and a budget, and compare the rows it draws with the real ones.

    Peers add up zero-concentrated costs, as their authors publish them.
    """
    table = load(spec["table"], Path(spec["data"]))
    domain = table.schema.domain
    workload = workload_of(domain, spec["table"], spec["workload"])
    n = table.exact_row_count()
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "table.npz", Path(folder) / "rows.npz"
        (codes,) = table.chunks(rows=max(1, n))
        np.savez(source, **{f"c{i}": codes[name] for i, name in enumerate(domain.names)})
        task: dict[str, Any] = {
            "mechanism": spec["method"].removeprefix("mbi-"),
            "names": list(domain.names),
            "sizes": list(domain.sizes),
            "workload": [[list(clique), weight] for clique, weight in workload],
            "rho": approx_to_zcdp(spec["epsilon"], spec["delta"]),
            "seed": spec["seed"],
            "rows": n,
            "source": str(source),
            "result": str(result),
        }
        facts = in_process([str(python), str(SCRIPT), json.dumps(task)], timeout=timeout)
        if facts["status"] != "ok":
            return facts
        with np.load(result) as rows:
            drawn = {
                name: rows[f"c{i}"].astype(np.min_scalar_type(domain.sizes[i] - 1))
                for i, name in enumerate(domain.names)
            }
    cliques = list(workload.cliques)
    counted = LocalTable(table.schema, drawn).count_many(cliques)
    return facts | {"error": workload_error(workload, table.count_many(cliques), counted, n_rows=n)}


if __name__ == "__main__":
    print(install(Path(sys.argv[1]), print))
