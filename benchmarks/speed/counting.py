"""Counting every 3-way marginal of msnbc: the kernel beside numpy.bincount, in CPU seconds.

Run with ``python benchmarks/speed/counting.py``. The table comes from ``../shared/data/msnbc`` relative to the
repository; without it, a random table of the same shape is counted instead.
"""

from __future__ import annotations

import json
import time
from itertools import combinations
from pathlib import Path

import numpy as np

from understudy.data import LocalTable, read_table
from understudy.schema import Integer, Schema

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "msnbc"
REPEATS = 3


def load() -> LocalTable:
    if not (FOLDER / "msnbc.csv.gz").exists():
        print(f"No table in {FOLDER}; counting a random one of the same shape (989,818 x 16, 18 values).")
        schema = schema_of({f"site_{i}": 18 for i in range(16)})
        generator = np.random.default_rng(0)
        return LocalTable(
            schema, {name: generator.integers(0, 18, 989_818, np.uint8) for name in schema.names}
        )
    sizes = json.loads((FOLDER / "msnbc-domain.json").read_text())
    start = time.process_time()
    table = read_table(FOLDER / "msnbc.csv.gz", schema_of(sizes))
    print(f"reading and encoding   {time.process_time() - start:8.2f} s CPU")
    return table


def schema_of(sizes: dict[str, int]) -> Schema:
    return Schema(columns=tuple(Integer(name, minimum=0, maximum=size - 1) for name, size in sizes.items()))


def by_bincount(codes: dict[str, np.ndarray], sizes: dict[str, int], clique: tuple[str, ...]) -> np.ndarray:
    index = codes[clique[0]].astype(np.int64)
    for name in clique[1:]:
        index = index * sizes[name] + codes[name]
    shape = [sizes[name] for name in clique]
    return np.bincount(index, minlength=int(np.prod(shape))).reshape(shape)


def main() -> None:
    table = load()
    domain = table.schema.domain
    sizes = dict(zip(domain.names, domain.sizes, strict=True))
    (codes,) = table.chunks(rows=1 << 30)
    cliques = list(combinations(domain.names, 3))
    start = time.perf_counter()
    table.count_many(cliques[:2])
    print(
        f"first call             {time.perf_counter() - start:8.2f} s (compiles, or loads what was compiled)"
    )
    ours, peers = [], []
    for _ in range(REPEATS):
        start = time.process_time()
        counts = table.count_many(cliques)
        ours.append(time.process_time() - start)
        start = time.process_time()
        expected = [by_bincount(codes, sizes, clique) for clique in cliques]
        peers.append(time.process_time() - start)
    assert all(np.array_equal(left, right) for left, right in zip(counts, expected, strict=True))
    fastest, peer = min(ours), min(peers)
    print(f"{len(cliques)} marginals, kernel  {fastest:8.2f} s CPU  (target: at most 1.50)")
    print(f"{len(cliques)} marginals, bincount{peer:8.2f} s CPU")
    print(f"ratio                  {peer / fastest:8.2f} x      (target: at least 3; best of {REPEATS} each)")


if __name__ == "__main__":
    main()
