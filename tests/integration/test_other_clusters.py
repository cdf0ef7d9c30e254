"""Rows made on a real Dask and a real Ray, of processes of their own: the files of the local way, byte for byte. Neither is needed otherwise."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from understudy import ZCDP, Curator, Ledger, Unit, create, read_table
from understudy.marginals import all_kway
from understudy.schema import Boolean, Categorical, Integer, Schema

PROGRAM = """
import hashlib, json, sys
from pathlib import Path

from understudy.mechanisms import load_model
from understudy.bulk import write_sample

def main(model, place, backend):
    done = write_sample(load_model(model), Path(place) / "t.parquet", rows=703, rows_per_chunk=100, lanes=3, seed=5, jobs=2, backend=backend)
    files = sorted(path for path in done.path.rglob("*") if path.is_file())
    print(json.dumps({str(path.relative_to(done.path)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}))

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model with a workload: its rows are fitted, and each wave needs what the waves before it left over."""
    schema = Schema(
        columns=(
            Categorical("ward", values=("north", "south")),
            Integer("age", minimum=0, maximum=9),
            Boolean("smokes"),
        )
    )
    generator = np.random.default_rng(0)
    age = generator.integers(0, 10, 2_000)
    frame = pd.DataFrame(
        {
            "ward": generator.choice(["north", "south"], 2_000),
            "age": age,
            "smokes": generator.random(2_000) < age / 20,
        }
    )
    unit, budget = Unit.add_remove(), ZCDP(0.5)
    path = tmp_path_factory.mktemp("model") / "m.understudy"
    with Ledger.in_memory(budget=budget, unit=unit, table="t") as ledger:
        curator = Curator(read_table(frame, schema), unit=unit, ledger=ledger)
        create("gaussian", workload=all_kway(schema.domain, 2)).fit(curator, budget).save(path)
    return path


def written(model: Path, folder: Path, backend: str) -> dict[str, str]:
    folder.mkdir()
    program = folder / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), str(model), str(folder), backend],
        cwd=folder,
        env={**os.environ, "RAY_AUTH_MODE": "disabled"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_another_cluster_writes_the_files_of_the_local_way(model, tmp_path, backend, module):
    """Caught: a chunk with another seed, and a wave that is fitted without what the one before left over."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    here = written(model, tmp_path / "here", "loky")
    assert len([name for name in here if name.endswith(".parquet")]) == 8
    assert written(model, tmp_path / "there", backend) == here
