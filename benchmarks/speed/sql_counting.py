"""All 560 three-way marginals of msnbc where the table is: DuckDB, PostgreSQL and Spark beside the local kernel.

Run with ``python benchmarks/speed/sql_counting.py [duckdb] [parquet] [spark] [postgresql://...]`` (the first two by default).
A PostgreSQL server must be running; a table named ``understudy_msnbc`` is made there and dropped afterwards. CPU
seconds are those of this process and of its children (Spark's Java); for PostgreSQL the server's are not included.
Every count is compared with the local kernel.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from understudy.data import Database, SqlTable, connect, read_table
from understudy.data.sql import table as sql_table
from understudy.schema import Integer, Schema

FILE = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "msnbc" / "msnbc.csv.gz"


def cpu() -> float:
    """CPU seconds of this process and all its descendants so far."""
    ticks, mine = 0, {os.getpid()}
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            stats[int(entry.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    grown = True
    while grown:
        found = {pid for pid, (parent, _) in stats.items() if parent in mine} | mine
        grown, mine = found != mine, found
    ticks = sum(stats[pid][1] for pid in mine if pid in stats)
    return ticks / os.sysconf("SC_CLK_TCK")


def records() -> pa.Table:
    if FILE.exists():
        return csv.read_csv(pa.input_stream(FILE))
    print(f"No {FILE}; counting a random table of the same shape.")
    generator = np.random.default_rng(0)
    return pa.table({f"site_{i}": (generator.random(989_818) ** 4 * 18).astype(np.int64) for i in range(16)})


def measure(label: str, source: Database, schema: Schema, cliques: list, expected: list) -> None:
    connected = connect(source)
    list(connected.batches("SELECT 1 AS one"))
    before, wall = cpu(), time.perf_counter()
    table = read_table(connected, schema)
    opened = cpu()
    counts = table.count_many(cliques)
    done = cpu()
    same = all((one == two).all() for one, two in zip(counts, expected, strict=True))
    print(
        f"{label:28} open {opened - before:6.2f} s  count {done - opened:6.2f} s  together {done - before:6.2f} s CPU"
        f"  ({time.perf_counter() - wall:.1f} s by the clock)  equal: {same}"
    )
    if source.kind == "duckdb":
        kept, sql_table._RECORDS_AT_LEAST = sql_table._RECORDS_AT_LEAST, 0
        for sets in (True, False):
            before = cpu()
            sql_table.prefers_sets = lambda chosen=sets, **_: chosen  # type: ignore[attr-defined]
            there = SqlTable(connected, schema, max_memory_mb=0)
            counts = there.count_many(cliques)
            same = all((one == two).all() for one, two in zip(counts, expected, strict=True))
            how = "grouping sets" if sets else "streamed records"
            print(f"{label:28} {how}, nothing held: {cpu() - before:6.2f} s CPU  equal: {same}")
        sql_table._RECORDS_AT_LEAST = kept
    connected.close()


def main(asked: list[str]) -> None:
    table = records()
    schema = Schema(columns=tuple(Integer(name, minimum=0, maximum=17) for name in table.column_names))
    cliques = list(combinations(schema.names, 3))
    local = read_table(table, schema)
    local.count_many(cliques[:2])  # compile
    before = cpu()
    expected = local.count_many(cliques)
    print(
        f"{'local kernel':28} {cpu() - before:6.2f} s CPU for {len(cliques)} marginals of {table.num_rows:,} rows"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "msnbc.parquet"
        pq.write_table(table, path)
        for engine in asked or ["duckdb", "parquet"]:
            if engine == "duckdb":
                import duckdb

                with duckdb.connect(f"{folder}/msnbc.duckdb") as connection:
                    connection.execute(f"CREATE TABLE t AS SELECT * FROM '{path}'")
                measure(
                    "DuckDB file",
                    Database(url=f"{folder}/msnbc.duckdb", table="t"),
                    schema,
                    cliques,
                    expected,
                )
            elif engine == "parquet":
                source = Database(url="duckdb://", table=str(path))
                measure("DuckDB over Parquet", source, schema, cliques, expected)
            elif engine == "spark":
                source = Database(url="local[2]", table=str(path))
                measure("Spark local[2]", source, schema, cliques, expected)
            else:
                on_postgres(engine, table, schema, cliques, expected)


def on_postgres(url: str, table: pa.Table, schema: Schema, cliques: list, expected: list) -> None:
    import psycopg

    columns = ", ".join(f"{name} smallint" for name in table.column_names)
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE understudy_msnbc ({columns})")
        with cursor.copy("COPY understudy_msnbc FROM STDIN (FORMAT csv)") as copy:
            sink = pa.BufferOutputStream()
            csv.write_csv(table, sink, csv.WriteOptions(include_header=False))
            copy.write(sink.getvalue().to_pybytes())
        try:
            measure("PostgreSQL", Database(url=url, table="understudy_msnbc"), schema, cliques, expected)
        finally:
            cursor.execute("DROP TABLE understudy_msnbc")


if __name__ == "__main__":
    main(sys.argv[1:])
