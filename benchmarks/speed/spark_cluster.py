"""Counting on a standalone Spark cluster of worker processes on this machine: exact, constant bytes to the driver, a killed worker, one charge.

Run ``python -m benchmarks.speed.spark_cluster [ROWS ...] [--workers 4] [--memory 2g] [--folder FOLDER] [--tenfold]``. A master and its workers are started as processes of their own and
ended afterwards. For each number of rows the ten columns of `large_count` and an id are simulated, and 175 marginals of up to three columns are counted on the cluster: as the files lie, in
other partitions, by persons, and for a measurement of all marginals that is charged to a ledger: once while no worker is missing and once while one is killed with its executor. Each is
compared with the counts of the same files in this process, bit for bit. From ``LARGE`` rows on there is one other partitioning instead of two, and no measurement while nothing is killed. CPU seconds are those of the cluster and of this process together. With ``--tenfold`` the table of the cluster is
a view of ten times the files, with other ids each time: it is checked, and measured while a worker is killed, and every count must be ten times that of the files in this process. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from benchmarks.speed._large import SCHEMA, write
from benchmarks.speed.large_count import KEPT, ROWS_OF_A_PERSON
from benchmarks.speed.sql_counting import cpu, services
from understudy.curator import Curator
from understudy.data import ArrowTable, Database, SparkTable, Table, read_table
from understudy.data.counting.counting import Counts
from understudy.privacy import ZCDP, Gaussian, Ledger, Unit

T = TypeVar("T")
ROWS = (1_000_000, 10_000_000)
CLIQUES = [clique for size in (1, 2, 3) for clique in combinations(SCHEMA.names, size)]
LARGE = 50_000_000
EXECUTOR_SHARE = 0.6
"""Part of a worker's memory that its executor's Java gets; the rest is for Python."""


class Cluster:
    """A master and its workers, each the head of a process group of its own."""

    def __init__(self, workers: int, memory: str, folder: Path) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        self._class = str(home / "bin" / "spark-class")
        self._environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_DIRS": str(folder / "shuffles"),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        self._folder, self._memory = folder, memory
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        self._master = self._start("master.Master", "--port", str(port), name="master")
        self._wait_for_port(port)
        self.workers = [self.add_worker(number) for number in range(workers)]

    def add_worker(self, number: int) -> subprocess.Popen[bytes]:
        """Start a worker of one core."""
        place = self._folder / f"worker-{number}"
        return self._start(
            "worker.Worker", "--cores", "1", "--memory", self._memory, "--work-dir", str(place), self.url, name=place.name
        )  # fmt: skip

    def _start(self, what: str, *words: str, name: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            command = [
                self._class,
                f"org.apache.spark.deploy.{what}",
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
            ]
            return subprocess.Popen(
                [*command, *words], stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    @staticmethod
    def _wait_for_port(port: int) -> None:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.2)
        raise SystemExit("The master of Spark did not start.")

    def replace_worker(self) -> None:
        """Start one in the place of a worker that was killed."""
        self.workers.append(self.add_worker(len(list(self._folder.glob("worker-*.log")))))

    def kill_worker(self) -> None:
        """Kill the oldest worker with the executor that it started."""
        worker = self.workers.pop(0)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def stop(self) -> None:
        for process in (*self.workers, self._master):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def cluster_of(workers: int, memory: str, folder: Path) -> Iterator[Cluster]:
    cluster = Cluster(workers, memory, folder)
    try:
        yield cluster
    finally:
        cluster.stop()


class Driver:
    """Counts the bytes that the driver receives."""

    def __init__(self) -> None:
        self.bytes = 0
        collected = SparkTable._collected

        def watched(table: SparkTable, job: Callable[[], Any]) -> pa.Table:
            found = collected(table, job)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, found.schema) as writer:
                writer.write_table(found.combine_chunks())
            self.bytes += sink.tell()
            return found

        SparkTable._collected = watched  # type: ignore[method-assign]


class Seen:
    """A copy of a table that keeps what is counted, to be compared: records are simulated here."""

    def __init__(self, table: SparkTable) -> None:
        self.table = copy.copy(table)
        self.counts: list[Counts] = []

        def count_many(cliques: Iterable[Sequence[str]]) -> list[Counts]:
            found = table.count_many(cliques)
            self.counts += found
            return found

        self.table.count_many = count_many  # type: ignore[method-assign]


class Bench:
    """One table on the cluster and in this process: the files, or a view of them several times over."""

    def __init__(self, cluster: Cluster, spark: Any, folder: Path, driver: Driver, *, times: int = 1) -> None:
        self.cluster, self.spark, self.folder, self.driver, self.times = cluster, spark, folder, driver, times
        self.here = ArrowTable(folder, SCHEMA, id_column="person")
        self.rows = times * self.here.exact_row_count()
        self.expected = [times * counts for counts in self.here.count_many(CLIQUES)]
        self.wrong = 0

    def table(self, name: str, partitions: int | None = None) -> SparkTable:
        """The files as a table of the cluster, divided anew if a number is given."""
        frame = self.spark.read.parquet(str(self.folder))
        shifted = [frame.withColumn("person", frame.person + k * self.rows) for k in range(1, self.times)]
        frame = functools.reduce(lambda one, two: one.unionByName(two), shifted, frame)
        frame = frame if partitions is None else frame.repartition(partitions, "person")
        frame.createOrReplaceTempView(name)
        found = read_table(
            Database(url=self.cluster.url, table=name, immutable=True), SCHEMA, id_column="person"
        )
        assert isinstance(found, SparkTable)
        return found

    def told(
        self, what: str, action: Callable[[], T], *, same: Callable[[T], bool], killing: bool = False
    ) -> T:
        """Do something on the cluster, compare it, and print what it took."""
        self.driver.bytes, clock, before = 0, time.perf_counter(), cpu()
        found = action()
        seconds, right = time.perf_counter() - clock, same(found)
        # what a killed worker used is lost with it
        spent = "CPU not known" if killing else f"{cpu() - before:.1f} s of CPU"
        self.wrong += not right
        print(
            f"  {what}: {'as in this process' if right else 'DIFFERENT'}, {self.driver.bytes:,} bytes to the driver, {spent}, {seconds:.1f} s",
            flush=True,
        )
        return found

    def count(self, what: str, table: Table, expected: Sequence[Counts]) -> None:
        self.told(what, lambda: table.count_many(CLIQUES), same=lambda found: _equal(found, expected))

    @contextlib.contextmanager
    def killing(self) -> Iterator[None]:
        """Kill a worker while something runs; what ended before is an error of this program."""
        killed = threading.Event()

        def kill() -> None:
            self.cluster.kill_worker()
            killed.set()

        timer = threading.Timer(max(0.5, min(self.rows / 1e7, 60.0)), kill)
        timer.start()
        yield
        if not killed.is_set():
            raise SystemExit("The count ended before the worker was killed: use more rows.")

    def opened(self) -> SparkTable:
        """The whole table, with the time that opening takes."""
        return self.told(
            "open and check",
            lambda: self.table("whole"),
            same=lambda found: found.exact_row_count() == self.rows,
        )

    def all(self) -> int:
        """Do everything; return the bytes that one count sends to the driver."""
        table = self.opened()
        key = secrets.token_bytes(32)
        by_person = self.here.truncated("person", KEPT, key).count_many(CLIQUES)
        self.count("count, partitions as the files lie", table, self.expected)
        received = self.driver.bytes
        for number in (13,) if self.rows >= LARGE else (3, 13):
            self.count(f"count, {number} partitions", self.table("other", number), self.expected)
        cut = self.told(
            f"choose {KEPT} rows of a person",
            lambda: table.truncated("person", KEPT, key),
            same=lambda found: found.exact_row_count() == int(by_person[0].sum()),
        )
        self.count("count by persons", cut, by_person)
        if self.rows < LARGE:
            self.charged("measure", table, killing=False)
        self.charged("measure while a worker is killed", table, killing=True)
        self.count("count by persons without that worker", cut, by_person)
        self.cluster.replace_worker()
        return received

    def several_times(self) -> int:
        """Check and measure a view; return the bytes that the measurement sends to the driver."""
        self.charged("measure while a worker is killed", self.opened(), killing=True)
        self.cluster.replace_worker()
        return self.driver.bytes

    def charged(self, what: str, table: SparkTable, *, killing: bool) -> None:
        """Measure all marginals at once; compare what was counted, and look into the ledger: one entry, which costs what was measured."""
        unit, budget = Unit.add_remove(), ZCDP(1.0)
        seen = Seen(table)
        with Ledger.in_memory(budget=budget, unit=unit, table="t") as ledger:
            curator = Curator(seen.table, unit=unit, ledger=ledger)
            noise = Gaussian(float(np.sqrt(len(CLIQUES))))

            def action() -> None:
                with self.killing() if killing else contextlib.nullcontext():
                    sealed = curator.counts_many(CLIQUES)
                curator.measure_many(sealed, noise=[noise] * len(CLIQUES))

            def once(_: None) -> bool:
                entries = [entry for entry in ledger.entries() if entry.event is not None]
                charged_once = len(entries) == 1 and abs(float(ledger.spent) - 0.5) < 1e-9
                return charged_once and _equal(seen.counts, self.expected)

            self.told(f"{what}, one charge of rho 1/2", action, same=once, killing=killing)


def _equal(found: Sequence[Counts], expected: Sequence[Counts]) -> bool:
    return len(found) == len(expected) and all(
        one.dtype == two.dtype and np.array_equal(one, two) for one, two in zip(found, expected, strict=True)
    )


def run(cluster: Cluster, sizes: Sequence[int], place: Path, memory: str, *, times: int) -> int:
    from pyspark.sql import SparkSession

    megabytes = (
        int(memory.removesuffix("g")) * 1024 if memory.endswith("g") else int(memory.removesuffix("m"))
    )
    spark = (
        SparkSession.builder.master(cluster.url)
        .config("spark.executor.memory", f"{int(EXECUTOR_SHARE * megabytes)}m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(2 * len(cluster.workers)))
        .config("spark.deploy.maxExecutorRetries", "-1")
        .getOrCreate()
    )
    driver, wrong, received = Driver(), 0, []
    try:
        for rows in sizes:
            folder = place / f"table-{rows}"
            write(folder, rows, persons=max(1, rows // ROWS_OF_A_PERSON))
            seen = f", seen {times} times: {times * rows:,}" if times > 1 else ""
            print(f"{rows:,} rows{seen}, {len(cluster.workers)} workers of {memory}", flush=True)
            bench = Bench(cluster, spark, folder, driver, times=times)
            received.append(bench.all() if times == 1 else bench.several_times())
            wrong += bench.wrong
            for file in folder.iterdir():
                file.unlink()
    finally:
        spark.stop()
    constant = len(set(received)) == 1
    print(
        f"bytes to the driver: {'the same for all numbers of rows' if constant else f'not constant {received}'}"
    )
    print(f"all counts as in this process, one charge each: {'no' if wrong else 'yes'}")
    return int(wrong > 0 or not constant)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=list(ROWS))
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--memory", default="2g", help="of a worker, such as 2g or 1500m")
    parser.add_argument(
        "--folder", type=Path, default=None, help="where to simulate; needs 10 GB per 10^8 rows"
    )
    parser.add_argument("--tenfold", action="store_true", help="count a view of ten times the files instead")
    chosen = parser.parse_args(arguments)
    reason = services().missing_spark()
    if reason:
        raise SystemExit(reason)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(dir=chosen.folder) as home:
        place = Path(home)
        with cluster_of(chosen.workers, chosen.memory, place) as cluster:
            return run(cluster, chosen.rows or ROWS, place, chosen.memory, times=10 if chosen.tenfold else 1)


if __name__ == "__main__":
    sys.exit(main())
