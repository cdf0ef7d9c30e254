"""Count a table on a small Spark cluster of its own while one of its executors is killed; print the counts."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path


def executors() -> list[int]:
    """Process ids of the executors that this program started, directly or through others."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
    mine = {os.getpid()}
    for _ in range(8):
        mine |= {pid for pid, parent in parents.items() if parent in mine}
    return sorted(pid for pid in mine if b"CoarseGrainedExecutorBackend" in commands.get(pid, b""))


def strike(struck: list[int], seconds: float) -> None:
    """Kill one executor some time after the first query began."""
    time.sleep(seconds)
    struck.extend(executors()[:1])
    for pid in struck:
        os.kill(pid, signal.SIGKILL)


def main(path: str) -> None:
    from pyspark.sql import SparkSession

    from understudy.data import Database, read_table
    from understudy.schema import Integer, Schema

    spark = (
        SparkSession.builder.master("local-cluster[2,1,600]")
        .config("spark.executor.memory", "600m")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "OFF")
        .config("spark.sql.files.maxPartitionBytes", "2000")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.codegen.wholeStage", "false")
        .getOrCreate()
    )
    spark.read.parquet(path).createOrReplaceTempView("stable")
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW slow AS SELECT a, b FROM stable "
        "WHERE reflect('java.lang.Thread', 'sleep', 5L) IS NULL OR a >= 0"
    )
    spark.range(100).count()  # the executors are up
    struck: list[int] = []
    killer = threading.Thread(target=strike, args=(struck, 2.0))
    killer.start()
    columns = (Integer("a", minimum=0, maximum=9), Integer("b", minimum=0, maximum=9))
    table = read_table(
        Database(url="local-cluster[2,1,600]", table="slow", immutable=True), Schema(columns=columns)
    )
    killer.join()
    sys.stdout.write(f"{len(struck)} {table.count(('a', 'b')).tolist()}\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
