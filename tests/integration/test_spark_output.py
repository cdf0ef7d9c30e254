"""Rows drawn on executors of Spark: the files of the local way, whatever runs them, resumed or not."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from services import missing_spark

from understudy import ZCDP, Curator, Ledger, Unit, create, read_table
from understudy.bulk import unfinished, write_sample
from understudy.bulk import writing as chunks
from understudy.errors import DomainTooLarge, MissingExtra, OutputError, UsageError
from understudy.marginals import all_kway
from understudy.parallel import _fitting, _lost, run, workers
from understudy.schema import Boolean, Categorical, Integer, Real, Schema

SCHEMA = Schema(
    columns=(
        Categorical("ward", values=("north", "south", "west/end")),
        Integer("age", minimum=0, maximum=9),
        Boolean("smokes"),
        Real("income", minimum=0, maximum=10, bins=4),
    ),
    constraints=("age >= 2 or not smokes",),
)
WORDS = {"rows": 1_003, "rows_per_chunk": 100, "lanes": 3, "seed": 5}


@pytest.fixture(scope="module")
def model():
    """A model with a workload: its rows are fitted, and each wave needs what the waves before it left over."""
    generator = np.random.default_rng(0)
    age = generator.integers(0, 10, 4_000)
    frame = pd.DataFrame(
        {
            "ward": generator.choice(["north", "south", "west/end"], 4_000, p=[0.6, 0.3, 0.1]),
            "age": age,
            "smokes": (generator.random(4_000) < 0.3) & (age >= 2),
            "income": generator.random(4_000) * age,
        }
    )
    unit, budget = Unit.add_remove(), ZCDP(0.5)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    synthesizer = create("gaussian", workload=all_kway(SCHEMA.domain, 2))
    return synthesizer.fit(Curator(read_table(frame, SCHEMA), unit=unit, ledger=ledger), budget)


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    return write_sample(model, tmp_path_factory.mktemp("whole") / "t.parquet", **WORDS)


def files(folder: Path) -> dict[str, str]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


@pytest.mark.parametrize("jobs", [1, 4, -1])
def test_executors_write_the_files_of_the_local_way(spark, model, whole, tmp_path, jobs):
    """Caught: a chunk with another seed, and a wave that is fitted without what the one before left over."""
    done = write_sample(model, tmp_path / "t.parquet", jobs=jobs, backend="spark", **WORDS)
    assert files(done.path) == files(whole.path)
    assert (done.error, done.leftover) == (whole.error, whole.leftover)


def test_folders_by_value_are_written_there_too(spark, model, tmp_path):
    words = WORDS | {"partition_by": ["ward"]}
    here = write_sample(model, tmp_path / "here.parquet", **words)
    there = write_sample(model, tmp_path / "there.parquet", jobs=2, backend="spark", **words)
    assert files(here.path) == files(there.path)
    assert any(name.startswith("ward=west%2Fend/") for name in files(there.path))


def test_what_was_begun_here_is_finished_on_executors(spark, model, whole, tmp_path, monkeypatch):
    """And the other way round would be the same: the plan in the folder knows nothing of what runs it."""
    made, original = [], chunks.make_chunk

    def make(*arguments):
        if len(made) == 4:
            raise KeyboardInterrupt
        made.append(original(*arguments))
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(chunks, "make_chunk", make)
        with pytest.raises(KeyboardInterrupt):
            write_sample(model, tmp_path / "t.parquet", **WORDS)
    assert unfinished(tmp_path / "t.parquet") is not None
    done = write_sample(model, tmp_path / "t.parquet", jobs=2, backend="spark", **WORDS)
    assert files(done.path) == files(whole.path)


def test_errors_of_executors_arrive_as_what_they_are(spark, model, tmp_path, monkeypatch):
    how = workers(2, backend="spark")
    with pytest.raises(DomainTooLarge, match="One task needs") as raised:  # with its numbers
        list(run([(_fitting, (1, 1e12))], how))
    assert raised.value.cells > raised.value.allowed > 0
    with pytest.raises(OutputError, match="does not see"):  # a machine with a disk of its own
        list(run([(chunks.make_chunk, (str(tmp_path / "absent.parquet"), "digest", 0, 0, 0))], how))
    with pytest.raises(RuntimeError, match="Spark gave up a task"):
        list(run([(int, ("broken",))], how))
    monkeypatch.setattr("understudy.parallel._version", lambda: "0.0.1")
    with pytest.raises(UsageError, match=r"the driver 0\.0\.1"):
        list(run([(abs, (-1,))], how))


def test_executors_without_understudy_are_told_of():
    assert isinstance(_lost(Exception("ModuleNotFoundError: No module named 'understudy'")), MissingExtra)


def test_the_command_writes_on_a_cluster_of_processes(model, whole, tmp_path):
    """Two executors in processes of their own, reached by the setting of the environment."""
    reason = missing_spark()
    if reason:
        pytest.skip(reason)
    model.save(tmp_path / "m.understudy")
    words = [
        "--rows",
        "1003",
        "--chunk-rows",
        "100",
        "--lanes",
        "3",
        "--seed",
        "5",
        "--jobs",
        "-1",
        "--backend",
        "spark",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "understudy", "sample", "m.understudy", "--out", "t.parquet/", *words],
        cwd=tmp_path,
        env={
            **os.environ,
            "UNDERSTUDY_BACKEND_ADDRESS": "local-cluster[2,1,1024]",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["rows"] == 1_003
    parts = {name: digest for name, digest in files(tmp_path / "t.parquet").items() if "part-" in name}
    assert parts == {name: digest for name, digest in files(whole.path).items() if "part-" in name}
