"""All 560 three-way marginals of msnbc, or of a larger table like it, where the table is: DuckDB, PostgreSQL and Spark beside Parquet.

Run with ``python -m benchmarks.speed.sql_counting [--rows N] [ENGINE ...]``: ``duckdb``, ``parquet-by-duckdb``, ``postgres`` (a server of its own, started as the integration tests start
one), ``postgresql://...`` (a server that is running, where a table named ``understudy_msnbc`` is made and dropped afterwards), ``spark`` (a local one of two threads), or the master of a
cluster (``local-cluster[4,1,2048]``, ``spark://...``); the first two by default.

For every engine: CPU seconds of opening the table (every record is encoded and checked), of counting when the codes are held here, of counting when every question is streamed,
and of the driver alone, which hands over the same batches to nobody. CPU seconds are those of this process and of its children (Spark's Java and Python); those of a PostgreSQL server
stand beside them. Every count is compared with that of the table in memory. DuckDB and PostgreSQL are also asked to count some marginals by themselves (``GROUP BY``), which is what
pushing the encoding down would save at best: those queries read plain numbers and clean nothing. The same marginals are streamed for comparison. Where ``adbc-driver-postgresql`` is
installed, what it takes to hand over the rows stands beside our driver.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from understudy.data import ArrowTable, Database, SparkTable, Table, connect, read_table
from understudy.data.sql.session import Session
from understudy.schema import Integer, Schema

SOME = 56
"""Of every so many marginals one is also counted by the engine itself."""

FILE = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "msnbc" / "msnbc.csv.gz"


def cpu(root: int | None = None) -> float:
    """CPU seconds of this process, or of another one, and all its descendants so far, ended ones included."""
    ticks, mine = 0, {os.getpid() if root is None else root}
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            stats[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    grown = True
    while grown:
        found = {pid for pid, (parent, _) in stats.items() if parent in mine} | mine
        grown, mine = found != mine, found
    ticks = sum(stats[pid][1] for pid in mine if pid in stats)
    return ticks / os.sysconf("SC_CLK_TCK")


def records(rows: int | None) -> pa.Table:
    """Msnbc, or as many rows as asked for, drawn from a skewed distribution over columns of the same shape."""
    if rows is None and FILE.exists():
        return csv.read_csv(pa.input_stream(FILE))
    generator = np.random.default_rng(0)
    rows = 989_818 if rows is None else rows
    return pa.table(
        {f"site_{i}": (generator.random(rows, np.float32) ** 4 * 18).astype(np.int16) for i in range(16)}
    )


class Bench:
    """One table and its exact counts."""

    def __init__(self, table: pa.Table) -> None:
        self.rows = table.num_rows
        self.server: int | None = None
        """The process of a server whose CPU seconds are told as well."""
        self.schema = Schema(
            columns=tuple(Integer(name, minimum=0, maximum=17) for name in table.column_names)
        )
        self.cliques = list(combinations(self.schema.names, 3))
        local = read_table(table, self.schema)
        local.count_many(self.cliques[:2])  # compile
        before = cpu()
        self.expected = local.count_many(self.cliques)
        self.say("table in memory", "count", cpu() - before)

    def say(self, label: str, what: str, seconds: float, told: str = "") -> None:
        print(
            f"{label:28} {what:34} {seconds:7.2f} s CPU {seconds / self.rows * 1e6:7.3f} us per row  {told}",
            flush=True,
        )

    def count(self, label: str, what: str, table: Table, step: int = 1) -> None:
        cliques, expected = self.cliques[::step], self.expected[::step]
        before, at_server, wall = cpu(), self.of_server(), time.perf_counter()
        counts = table.count_many(cliques)
        seconds, clock = cpu() - before, time.perf_counter() - wall
        same = all((one == two).all() for one, two in zip(counts, expected, strict=True))
        told = f"equal: {same}  ({clock:.1f} s by the clock)"
        self.say(label, what, seconds, told + self.and_server(at_server))

    def of_server(self) -> float:
        return 0.0 if self.server is None else cpu(self.server)

    def and_server(self, before: float) -> str:
        return "" if self.server is None else f"  and {cpu(self.server) - before:.2f} s CPU of the server"

    def parquet(self, path: Path) -> None:
        before = cpu()
        table = ArrowTable(path, self.schema)
        self.say("Parquet file", "open", cpu() - before)
        self.count("Parquet file", "count, streamed", table)

    def engine(self, label: str, source: Database) -> None:
        session = connect(source)
        if source.kind == "spark":
            table = SparkTable(session, self.schema)  # workers start, kernels compile
            table.count_many(self.cliques[:2])
            before = cpu()
            table = SparkTable(session, self.schema)
            self.say(label, "open", cpu() - before)
            self.count(label, "count on executors", table)
            session.close()
            return
        query = session.relation.select(*self.schema.names)
        before, at_server = cpu(), self.of_server()
        assert sum(batch.num_rows for batch in session.batches(query)) == self.rows
        self.say(label, "driver alone", cpu() - before, self.and_server(at_server))
        before = cpu()
        table = read_table(session, self.schema)
        self.say(label, "open, codes held", cpu() - before)
        self.count(label, "count, codes held", table)
        table = read_table(session, self.schema, max_memory_mb=0)
        self.count(label, "count, streamed", table)
        if source.kind in ("duckdb", "postgresql"):
            self.count(label, f"count, streamed, {len(self.cliques[::SOME])} marginals", table, SOME)
            self.pushed_down(label, session)
        session.close()

    def pushed_down(self, label: str, session: Session) -> None:
        """Let the engine count some of the marginals by itself, one query each."""
        relation, some = session.relation, self.cliques[::SOME]
        before, at_server, wall = cpu(), self.of_server(), time.perf_counter()
        for clique in some:
            list(session.batches(relation.group_by(list(clique)).aggregate(n=relation.count())))
        told = f"({time.perf_counter() - wall:.1f} s by the clock)" + self.and_server(at_server)
        self.say(label, f"GROUP BY, {len(some)} marginals of {len(self.cliques)}", cpu() - before, told)

    def by_adbc(self, label: str, url: str) -> None:
        """Receive the rows by ADBC, if its driver is installed."""
        if importlib.util.find_spec("adbc_driver_postgresql") is None:
            return
        dbapi = importlib.import_module("adbc_driver_postgresql.dbapi")
        with dbapi.connect(url) as connection, connection.cursor() as cursor:
            before, at_server = cpu(), self.of_server()
            cursor.execute(f"SELECT {', '.join(self.schema.names)} FROM understudy_msnbc")
            assert sum(batch.num_rows for batch in cursor.fetch_record_batch()) == self.rows
            self.say(label, "ADBC alone, instead of our driver", cpu() - before, self.and_server(at_server))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("engines", nargs="*", default=["duckdb", "parquet-by-duckdb"])
    parser.add_argument("--rows", type=int)
    asked = parser.parse_args()
    table = records(asked.rows)
    print(f"{table.num_rows:,} rows, {table.num_columns} columns, 560 marginals of 5,832 cells")
    bench = Bench(table)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "msnbc.parquet"
        pq.write_table(table, path, row_group_size=1 << 18)
        names = table.column_names
        if any(engine.startswith("postgres") for engine in asked.engines):
            written = pa.BufferOutputStream()
            csv.write_csv(table, written, csv.WriteOptions(include_header=False))
        del table
        bench.parquet(path)
        for engine in asked.engines:
            if engine == "duckdb":
                import duckdb

                with duckdb.connect(f"{folder}/msnbc.duckdb") as connection:
                    connection.execute(f"CREATE TABLE t AS SELECT * FROM '{path}'")
                bench.engine("DuckDB file", Database(url=f"{folder}/msnbc.duckdb", table="t"))
            elif engine == "parquet-by-duckdb":
                bench.engine("Parquet by DuckDB", Database(url="duckdb://", table=str(path)))
            elif engine == "postgres":
                with services().postgres_server() as server:
                    os.environ["PGPASSFILE"] = str(server.passfile)
                    bench.server = server.pid
                    on_postgres(bench, server.url, names, written.getvalue().to_pybytes())
                    bench.server = None
            elif engine.startswith("postgresql://"):
                on_postgres(bench, engine, names, written.getvalue().to_pybytes())
            else:
                services().missing_spark()  # finds Java
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
                master = "local[2]" if engine == "spark" else engine
                bench.engine(f"Spark {master}", Database(url=master, table=str(path)))


def services() -> ModuleType:
    """Return what the integration tests start servers with."""
    file = Path(__file__).resolve().parents[2] / "tests" / "integration" / "services.py"
    spec = importlib.util.spec_from_file_location("services", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["services"] = module
    spec.loader.exec_module(module)
    return module


def on_postgres(bench: Bench, url: str, names: list[str], written: bytes) -> None:
    import psycopg

    columns = ", ".join(f"{name} smallint" for name in names)
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE understudy_msnbc ({columns})")
        with cursor.copy("COPY understudy_msnbc FROM STDIN (FORMAT csv)") as copy:
            copy.write(written)
        try:
            bench.engine("PostgreSQL", Database(url=url, table="understudy_msnbc"))
            bench.by_adbc("PostgreSQL", url)
        finally:
            cursor.execute("DROP TABLE understudy_msnbc")


if __name__ == "__main__":
    main()
