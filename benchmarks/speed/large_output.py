"""Synthetic rows from a model to a folder of Parquet files: time per row, memory and fit.

Run with ``python -m benchmarks.speed.large_output [ROWS ...] [--jobs 2] [--model MODEL] [--out RESULTS.jsonl]``. Without a
model one is fitted to a million simulated rows. What is written is deleted again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.speed import large_fit
from benchmarks.speed._watch import measured

ROWS = (1_000_000, 10_000_000)


def write(model: Path, folder: Path, rows: int, jobs: int) -> None:
    """Write a sample and print how it went."""
    from understudy.bulk import write_sample

    done = write_sample(model, folder, rows=rows, jobs=jobs, seed=1)
    print(
        json.dumps({"rows": done.rows, "files": done.files, "error": done.error, "leftover": done.leftover})
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=list(ROWS))
    parser.add_argument("--folder", type=Path, default=None, help="where to write; needs 2 GB per 10^8 rows")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument(
        "--out", type=Path, default=None, help="append results here, one JSON document per line"
    )
    parser.add_argument("--write", type=Path, default=None, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.write is not None:
        write(chosen.model, chosen.write, chosen.rows[0], chosen.jobs)
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as home:
        model = chosen.model
        if model is None:
            model = Path(home) / "model.understudy"
            large_fit.main(["1000000", "--model", str(model)])
        for rows in chosen.rows or ROWS:
            target = Path(home) / f"rows-{rows}.parquet"
            command = [
                sys.executable,
                "-m",
                "benchmarks.speed.large_output",
                str(rows),
                "--jobs",
                str(chosen.jobs),
            ]
            command += ["--model", str(model), "--write", str(target)]
            found = {"rows": rows, "jobs": chosen.jobs} | measured(command)
            found["size_mb"] = sum(path.stat().st_size for path in target.iterdir()) / 2**20
            print(
                f"{rows:>13,} rows: {found['cpu']:.0f} s CPU, {found['wall']:.0f} s with {chosen.jobs} processes, "
                f"{found['peak_mb']:,.0f} MB in all; {1e6 * found['cpu'] / rows:.2f} microseconds CPU per row; "
                f"distance from the model {found['error']:.2e}; {found['size_mb']:,.0f} MB on disk",
                flush=True,
            )
            if chosen.out is not None:
                with chosen.out.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
