"""Ten 3-way marginals of a 50-million-row Parquet file in constant memory.

Run with ``python benchmarks/speed/large_parquet.py [ROWS]``. The file is written to a temporary folder; counting
runs in a process of its own, whose peak memory is what the system reports for it.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np

ROWS = 50_000_000
CHUNK = 1_000_000
WARDS = [f"ward {i:03d}" for i in range(100)]
NUMBERS = {"age": 100, "month": 12, "parity": 15, "score": 200}
PERSONS = 10_000_000


def write(path: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, CHUNK):
        n = min(CHUNK, rows - start)
        columns = {name: generator.integers(0, size, n, np.int32) for name, size in NUMBERS.items()}
        ward = pa.DictionaryArray.from_arrays(generator.integers(0, len(WARDS), n, np.int32), pa.array(WARDS))
        columns["ward"] = ward.cast(pa.string())
        columns["income"] = generator.gamma(2.0, 20_000.0, n)
        columns["person"] = generator.integers(0, PERSONS, n)
        batch = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, batch.schema)
        writer.write_table(batch)
    if writer is not None:
        writer.close()


def count(path: Path) -> None:
    import understudy.data as data
    from understudy.schema import Categorical, Integer, Real, Schema

    numbers = tuple(Integer(name, minimum=0, maximum=size - 1) for name, size in NUMBERS.items())
    income = Real("income", minimum=0, maximum=200_000, bins=20, out_of_domain="clamp")
    schema = Schema(columns=(*numbers, Categorical("ward", values=tuple(WARDS)), income))
    start = time.perf_counter()
    table = data.ArrowTable(path, schema, id_column="person")
    checked = time.perf_counter()
    counts = table.count_many(list(combinations(schema.names, 3))[:10])
    counted = time.perf_counter()
    after_counting = peak_mb()
    source = np.random.default_rng(0)
    table.truncated("person", 3, source.bytes(32))
    truncated = time.perf_counter()
    assert all(int(marginal.sum()) == table.exact_row_count() for marginal in counts)
    facts = [checked - start, counted - checked, after_counting, truncated - counted, peak_mb()]
    print(json.dumps(facts))


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.parquet"
        start = time.perf_counter()
        write(path, rows)
        size_mb = path.stat().st_size / 2**20
        print(f"wrote {rows:,} rows, {size_mb:,.0f} MB, in {time.perf_counter() - start:.0f} s")
        command = [sys.executable, __file__, "--count", str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    checking, counting, counting_mb, truncating, truncating_mb = json.loads(done.stdout)
    print(f"checking every record     {checking:8.1f} s")
    print(
        f"ten 3-way marginals       {counting:8.1f} s   peak {counting_mb:6,.0f} MB (target: under 1,536 MB)"
    )
    print(f"truncating to 3 per person{truncating:8.1f} s   peak {truncating_mb:6,.0f} MB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--count"]:
        count(Path(sys.argv[2]))
    else:
        main()
