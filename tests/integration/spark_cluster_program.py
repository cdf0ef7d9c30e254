"""Count tables on a small Spark cluster of its own, of two workers in processes of their own, and print what was found as JSON.

Run as ``python spark_cluster_program.py FOLDER ROWS``. One measurement is made while an executor is killed, and one over records whose tasks fail
at their first attempt.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from same_release import SPECS, bundle_of, typed

from understudy.curator import Curator
from understudy.data import Database, SparkTable, Table, read_table
from understudy.privacy import Laplace, Ledger, PureDP, Unit
from understudy.schema import Integer, Schema

MASTER = "local-cluster[2,1,1024]"
SCHEMA = Schema(
    columns=(
        Integer("a", minimum=0, maximum=9),
        Integer("b", minimum=0, maximum=299),
        Integer("c", minimum=0, maximum=6),
    )
)
CLIQUES = [clique for size in (0, 1, 2) for clique in combinations(SCHEMA.names, size)]
KEY = bytes(range(32))


def records(rows: int) -> pa.Table:
    generator = np.random.default_rng(rows)
    return pa.table(
        {
            "who": [f"p{number}" for number in generator.integers(0, rows // 3, rows)],
            "a": (generator.random(rows) ** 3 * 10).astype(np.int64),
            "b": generator.integers(0, 300, rows),
            "c": generator.integers(0, 7, rows),
        }
    )


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


def failing_once(marks: str, batches):
    """Pass on a partition; its task fails at the first attempt, after part of its batches."""
    from pyspark import TaskContext

    context = TaskContext.get()
    for place, batch in enumerate(batches):
        if place == 1 and context.attemptNumber() == 0:
            Path(marks, f"failed-{time.time_ns()}-{os.getpid()}").touch()
            raise RuntimeError("this attempt fails")
        yield batch


def slowly(seconds: float, batches):
    for batch in batches:
        time.sleep(seconds)
        yield batch


class Watched:
    """Counts the bytes that the driver receives."""

    def __init__(self) -> None:
        self.bytes = 0
        collected = SparkTable._collected

        def watching(table: SparkTable, job):
            found = collected(table, job)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, found.schema) as writer:
                writer.write_table(found.combine_chunks())
            self.bytes += sink.tell()
            return found

        SparkTable._collected = watching

    def spent(self, action):
        self.bytes = 0
        return action(), self.bytes


def told(table: Table) -> list:
    return [counts.tolist() for counts in table.count_many(CLIQUES)]


def measured(source: Database, purpose: str) -> dict:
    """Measure all cliques once; return what the ledger says."""
    ledger = Ledger.in_memory(budget=PureDP(10.0), unit=Unit.add_remove(), table="t")
    curator = Curator(read_table(source, SCHEMA), unit=Unit.add_remove(), ledger=ledger)
    asked = CLIQUES[1:]
    curator.measure_many(curator.counts_many(asked), noise=[Laplace(10.0)] * len(asked), purpose=purpose)
    return {
        "entries": sum(entry.event is not None for entry in ledger.entries()),
        "spent": float(ledger.spent),
    }


def main(folder: str, rows: int) -> None:
    from functools import partial

    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(MASTER)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "OFF")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
        .getOrCreate()
    )
    watched, found = Watched(), {}

    def view(name: str, frame) -> Database:
        frame.createOrReplaceTempView(name)
        return Database(url=MASTER, table=name, immutable=True)

    for size in (1000, rows):
        pq.write_table(records(size), f"{folder}/{size}.parquet")
    whole = spark.read.parquet(f"{folder}/{rows}.parquet")
    local = read_table(records(rows), SCHEMA, id_column="who")
    expected, cut = told(local), told(local.truncated("who", 2, KEY))

    found["partitions"] = [
        told(read_table(view(f"parts{number}", whole.repartition(number)), SCHEMA)) == expected
        for number in (1, 5)
    ]
    small = spark.read.parquet(f"{folder}/1000.parquet")
    tables = {
        size: read_table(view(f"of{size}", frame), SCHEMA) for size, frame in ((1000, small), (rows, whole))
    }
    found["bytes"] = {
        size: watched.spent(lambda table=table: told(table))[1] for size, table in tables.items()
    }
    by_person = read_table(view("persons", whole.repartition(3)), SCHEMA, id_column="who")
    truncated, found["bytes of a cut"] = watched.spent(lambda: by_person.truncated("who", 2, KEY))
    found["cut"] = told(truncated) == cut
    found["people"] = by_person.people_by_rows("who", 4).tolist() == local.people_by_rows("who", 4).tolist()

    marks = Path(folder, "marks")
    marks.mkdir()
    failing = whole.repartition(2).mapInArrow(partial(failing_once, str(marks)), whole.schema)
    source = view("failing", failing)
    found["repeated"] = told(read_table(source, SCHEMA)) == expected
    found["failures"] = len(list(marks.iterdir()))
    found["charged"] = measured(source, "while tasks fail")

    slow = view("slow", whole.repartition(4).mapInArrow(partial(slowly, 0.02), whole.schema))
    table = read_table(slow, SCHEMA)
    struck = executors()[:1]
    timer = threading.Timer(1.0, lambda: [os.kill(pid, signal.SIGKILL) for pid in struck])
    timer.start()
    found["killed"] = told(table) == expected
    timer.join()
    found["struck"] = len(struck)
    found["still the same"] = told(truncated) == cut  # what the dead executor kept is chosen again

    pq.write_table(typed(), f"{folder}/staff.parquet")
    for spec in SPECS:
        here = bundle_of(Path(folder, "staff.parquet"), Path(folder, "local", spec), spec=spec)
        there = bundle_of(
            Database(url=MASTER, table=f"{folder}/staff.parquet"), Path(folder, "there", spec), spec=spec
        )
        found[f"bundle by {spec}"] = sorted(name for name in here if here[name] == there.get(name))
        found[f"files by {spec}"] = sorted({*here, *there})
    sys.stdout.write(f"\n{json.dumps(found)}\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
