"""An executor of Spark that is killed in the middle of counting: its tasks are repeated, the counts are exact."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services import missing_spark

pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

PROGRAM = Path(__file__).with_name("spark_executor_program.py")


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("UNDERSTUDY_CLUSTER"),
    reason="starts a Spark cluster of four processes: UNDERSTUDY_CLUSTER=1",
)
def test_an_executor_that_is_killed_leaves_the_counts_exact(tmp_path):
    reason = missing_spark()
    if reason:
        pytest.skip(reason)
    rows = 400
    records = pa.table({"a": [i % 10 for i in range(rows)], "b": [i % 7 for i in range(rows)]})
    pq.write_table(records, tmp_path / "t.parquet", row_group_size=50)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "t.parquet")],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )
    struck, _, counts = done.stdout.strip().splitlines()[-1].partition(" ")
    assert struck == "1"
    expected = [[sum(i % 10 == a and i % 7 == b for i in range(rows)) for b in range(10)] for a in range(10)]
    assert ast.literal_eval(counts) == expected
