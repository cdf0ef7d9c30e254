"""What a row costs: reading and encoding by kind of column, counting by number and size of marginals, drawing, fitting.

Run with ``python -m benchmarks.speed.cost_model [--rows 1000000] [--out RESULTS.json]``. CPU seconds of one thread, the
smallest of three runs; tables are simulated. `docs/explanation/scale.md` extrapolates from these numbers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data import ArrowTable, LocalTable
from understudy.engine import GraphicalModel, sample_codes
from understudy.engine.record_fitting.lanes import LaneFitter, plan_waves
from understudy.marginals import all_kway
from understudy.schema import Boolean, Categorical, Domain, Integer, Real, Schema


def smallest(action: Callable[[], Any], times: int = 3) -> float:
    """Return the least CPU time of some runs, in seconds."""
    action()  # compiled and warm
    found = []
    for _ in range(times):
        start = time.process_time()
        action()
        found.append(time.process_time() - start)
    return min(found)


def reading(rows: int, folder: Path) -> dict[str, float]:
    """Nanoseconds per value to read from zstd Parquet and encode, by kind of column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(0)
    labels = tuple(f"value {k:02d}" for k in range(16))
    text = pa.DictionaryArray.from_arrays(
        pa.array(generator.integers(0, 16, rows, np.int8)), pa.array(labels)
    )
    columns: dict[str, tuple[Any, Any]] = {
        "text": (text.cast(pa.string()), Categorical("x", values=labels)),
        "whole number": (
            generator.integers(0, 100, rows, np.int32),
            Integer("x", minimum=0, maximum=99, bins=20),
        ),
        "real number": (generator.random(rows), Real("x", minimum=0, maximum=1, bins=20)),
        "truth value": (generator.random(rows) < 0.3, Boolean("x")),
    }
    found = {}
    for name, (values, column) in columns.items():
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table({"x": values}), path, compression="zstd", row_group_size=1 << 18)
        schema = Schema(columns=(column,))
        found[name] = 1e9 * smallest(lambda path=path, schema=schema: ArrowTable(path, schema)) / rows
    return found


def counting(rows: int) -> list[dict[str, float]]:
    """Nanoseconds per row and marginal, by columns, codes per column and order."""
    generator = np.random.default_rng(0)
    found = []
    for columns, size, order in [
        (5, 16, 3), (10, 16, 3), (20, 16, 3), (40, 16, 2), (10, 2, 3), (10, 64, 2), (10, 64, 3), (10, 250, 2),
    ]:  # fmt: skip
        schema = Schema(columns=tuple(Integer(f"x{j}", minimum=0, maximum=size - 1) for j in range(columns)))
        table = LocalTable(schema, {name: generator.integers(0, size, rows) for name in schema.names})
        cliques = list(all_kway(schema.domain, order).cliques)
        seconds = smallest(lambda table=table, cliques=cliques: table.count_many(cliques), 2)
        found.append(
            {
                "columns": columns,
                "codes": size,
                "order": order,
                "marginals": len(cliques),
                "ns": 1e9 * seconds / rows / len(cliques),
            }
        )
    return found


def making(rows: int) -> list[dict[str, float]]:
    """Microseconds per row to draw from a chain of pairs and to fit half the columns of each record."""
    found = []
    for columns, size, order in [(5, 16, 3), (10, 16, 3), (20, 16, 3), (20, 16, 2)]:
        domain = Domain(tuple(f"x{j}" for j in range(columns)), (size,) * columns)
        model = GraphicalModel(domain, 1.0)
        generator = np.random.default_rng(0)
        cliques = list(all_kway(domain, order).cliques)
        fitter = LaneFitter(domain, cliques, model.marginals(cliques))
        wave = plan_waves(rows, rows_per_chunk=rows)[0]
        drawn = sample_codes(model, rows, generator)
        draw = smallest(lambda model=model, generator=generator: sample_codes(model, rows, generator))
        nothing = fitter.nothing()
        fit = smallest(
            lambda fitter=fitter, drawn=drawn, wave=wave, nothing=nothing, columns=columns: fitter.fit(
                drawn, wave, 0, 0, nothing, seed=1, visits=columns / 2
            ),
            1,
        )
        found.append(
            {
                "columns": columns,
                "codes": size,
                "marginals": len(cliques),
                "draw_us": 1e6 * draw / rows,
                "fit_us": 1e6 * fit / rows,
            }
        )
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {"reading": reading(chosen.rows, Path(folder))}
    for name, ns in found["reading"].items():
        print(f"read and encode a {name:12} {ns:7.1f} ns per value")
    found["counting"] = counting(chosen.rows)
    for item in found["counting"]:
        print(
            f"count {item['marginals']:5} marginals of {item['order']} columns with {item['codes']:3} codes "
            f"({item['columns']} columns) {item['ns']:6.2f} ns per row and marginal"
        )
    found["making"] = making(min(chosen.rows, 250_000))
    for item in found["making"]:
        print(
            f"make rows of {item['columns']:2} columns fitted to {item['marginals']:5} marginals: "
            f"draw {item['draw_us']:.2f}, fit {item['fit_us']:.2f} microseconds per row"
        )
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
