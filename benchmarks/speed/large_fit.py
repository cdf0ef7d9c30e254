"""AIM from Parquet files on disk to a fitted model: time per row and memory from 10^6 to 10^8 rows.

Run with ``python -m benchmarks.speed.large_fit [ROWS ...] [--folder FOLDER] [--out RESULTS.jsonl]``. Tables of ten columns
are simulated in chunks, counted in batches by a process of its own, and deleted again.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.speed._large import SCHEMA, write
from benchmarks.speed._watch import measured

ROWS = (1_000_000, 10_000_000)


def fit(folder: Path, model_path: Path) -> None:
    """Read, count, fit; print what each part took."""
    import understudy.data as data
    from understudy.curator import Curator
    from understudy.mechanisms import create
    from understudy.privacy import ApproxDP, Ledger, Unit

    marks = [(time.perf_counter(), time.process_time())]
    counted: list[tuple[float, float]] = []

    class Timed(data.ArrowTable):
        def count_many(self, cliques):  # type: ignore[no-untyped-def]
            start = time.perf_counter(), time.process_time()
            found = super().count_many(cliques)
            counted.append((time.perf_counter() - start[0], time.process_time() - start[1]))
            return found

    table = Timed(folder, SCHEMA)
    marks.append((time.perf_counter(), time.process_time()))
    budget, unit = ApproxDP(1.0, 1e-9), Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="simulated")
    model = create("aim").fit(Curator(table, unit=unit, ledger=ledger), budget)
    marks.append((time.perf_counter(), time.process_time()))
    model.save(model_path)
    counting = tuple(map(sum, zip(*counted, strict=True)))
    print(
        json.dumps(
            {
                "check_wall": marks[1][0] - marks[0][0],
                "check_cpu": marks[1][1] - marks[0][1],
                "count_wall": counting[0],
                "count_cpu": counting[1],
                "fit_wall": marks[2][0] - marks[1][0] - counting[0],
                "fit_cpu": marks[2][1] - marks[1][1] - counting[1],
                "measurements": len(model.measurements),
                "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=list(ROWS))
    parser.add_argument(
        "--folder", type=Path, default=None, help="where to simulate; needs 1.5 GB per 10^8 rows"
    )
    parser.add_argument(
        "--out", type=Path, default=None, help="append results here, one JSON document per line"
    )
    parser.add_argument("--model", type=Path, default=None, help="keep the last model")
    parser.add_argument("--fit", type=Path, default=None, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.fit is not None:
        fit(chosen.fit, chosen.model)
        return
    for rows in chosen.rows or ROWS:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as home:
            folder, model = Path(home) / "table", Path(home) / "model.understudy"
            start = time.process_time()
            write(folder, rows)
            simulated = time.process_time() - start
            size_mb = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
            command = [
                sys.executable,
                "-m",
                "benchmarks.speed.large_fit",
                "--fit",
                str(folder),
                "--model",
                str(model),
            ]
            found = {"rows": rows, "size_mb": size_mb, "simulate_cpu": simulated} | measured(command)
            if chosen.model is not None:
                shutil.copyfile(model, chosen.model)
        print(
            f"{rows:>13,} rows ({size_mb:,.0f} MB): {found['cpu']:.0f} s CPU, {found['wall']:.0f} s, "
            f"{found['max_rss_mb']:,.0f} MB; {1e6 * found['cpu'] / rows:.2f} microseconds per row "
            f"(check {found['check_cpu']:.1f}, count {found['count_cpu']:.1f}, fit {found['fit_cpu']:.1f} s CPU)",
            flush=True,
        )
        if chosen.out is not None:
            with chosen.out.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
