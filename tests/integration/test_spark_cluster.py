"""A Spark cluster of two workers: exact counts under every partitioning, after tasks fail and after an executor is killed; constant bytes to the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from same_release import SPECS
from services import missing_spark

pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

PROGRAM = Path(__file__).with_name("spark_cluster_program.py")


@pytest.mark.slow
def test_a_cluster_counts_exactly_whatever_happens_to_its_tasks(tmp_path):
    """With UNDERSTUDY_CLUSTER=ROWS at that size; by default small."""
    reason = missing_spark()
    if reason:
        pytest.skip(reason)
    rows = int(os.environ.get("UNDERSTUDY_CLUSTER", "100000"))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), str(rows)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["partitions"] == [True, True]
    assert found["cut"]
    assert found["people"]
    assert found["repeated"]
    assert found["failures"] >= 2, "no task failed"
    assert found["struck"] == 1
    assert found["killed"]
    assert found["still the same"]
    for spec in SPECS:  # the release of `test_sql_release.py`, after an executor was lost
        assert found[f"bundle by {spec}"] == found[f"files by {spec}"] != []
    assert len(set(found["bytes"].values())) == 1, found["bytes"]
    assert 0 < found["bytes of a cut"] < 4000  # the number of rows
    # one entry for the marginals that were measured together, of Laplace noise of scale 10 on 6 of them
    assert found["charged"]["entries"] == 1
    assert found["charged"]["spent"] == pytest.approx(0.6)
