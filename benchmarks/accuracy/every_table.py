"""AIM through the command line on every integer table that comes with a domain file.

Runs ``understudy synth TABLE --method aim --workload all-3way --epsilon 1 --delta 1e-9`` for each of them, as a
user would, and notes time, memory and the error of the rows that were written. Resumable. Computing the
error reads the real tables without noise: they are public.

Run ``python -m benchmarks.accuracy.every_table`` (or name some tables).
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks._tables import find_data
from benchmarks.accuracy._runner import Record, run_all, run_command
from benchmarks.accuracy.aim import NOTICE
from understudy.data import LocalTable
from understudy.marginals import all_kway
from understudy.schema import Schema, import_schema

TABLES = {
    "titanic_32bin": ("titanic/titanic_32bin.csv", "titanic/titanic_32bin-domain.json"),
    "titanic": ("titanic/titanic.csv", "titanic/titanic-domain.json"),
    "nltcs": ("nltcs/nltcs.csv", "nltcs/nltcs-domain.json"),
    "adult": ("adult/adult.csv.gz", "adult/adult-domain.json"),
    "adult_aim15": ("adult/adult_aim15_derived.csv.gz", "adult/adult_aim15_derived-domain.json"),
    "br2000": ("privmrf_br2000/br2000.csv.gz", "privmrf_br2000/br2000-domain.json"),
    "acs": ("privmrf_acs/acs.csv.gz", "privmrf_acs/acs-domain.json"),
    "salary_32bin": ("salary/salary_32bin.csv.gz", "salary/salary_32bin-domain.json"),
    "salary": ("salary/salary.csv.gz", "salary/salary-domain.json"),
    "stroke": ("stroke/stroke.csv.gz", "stroke/stroke-domain.json"),
    "loans": ("loans/loans.csv.gz", "loans/loans-domain.json"),
    "fire_aim15": ("fire/fire.csv.gz", "fire/fire-aim15-domain.json"),
    "fire": ("fire/fire.csv.gz", "fire/fire-domain.json"),
    "msnbc": ("msnbc/msnbc.csv.gz", "msnbc/msnbc-domain.json"),
}
QUICK = ("titanic_32bin", "nltcs")
MOST_MARGINALS = 5_000


def run_cell(spec: Record, *, timeout: float, data: Path) -> Record:
    """Run the command on one table and look at what it wrote."""
    source, domain = (data / part for part in TABLES[spec["table"]])
    schema = import_schema(domain)
    with tempfile.TemporaryDirectory() as folder:
        described, out = Path(folder) / "schema.yaml", Path(folder) / "rows.csv"
        schema.write(described)
        words = [
            "synth", str(source), "--schema", str(described), "--method", spec["method"], "--workload", spec["workload"],
            "--epsilon", str(spec["epsilon"]), "--delta", str(spec["delta"]), "--unit", "add-remove", "--out", str(out),
            "--quiet", "--ledger", str(Path(folder) / "table.ledger"),
        ]  # fmt: skip
        own = os.environ | {"UNDERSTUDY_HOME": folder}  # each cell is a first use of the table
        facts = run_command(words, Path(folder), own, timeout)
        if facts["status"] != "ok":
            return facts
        rows = pd.read_csv(out)
    return facts | {"rows": len(rows), "error": error_of(schema, source, rows)}


def error_of(schema: Schema, source: Path, rows: pd.DataFrame) -> float:
    """Workload error over all 3-way marginals, each as a share of its own table's rows.

    Cells that are empty in both tables add nothing, so only combinations that occur are counted. Of more than
    ``MOST_MARGINALS`` that many are drawn, always the same.
    """
    names = list(schema.names)
    real = schema.encode_frame(pd.read_csv(source, usecols=names))
    drawn = schema.encode_frame(rows)
    domain = schema.domain
    distances = []
    cliques = all_kway(domain, 3).cliques
    if len(cliques) > MOST_MARGINALS:
        places = np.random.default_rng(0).choice(len(cliques), MOST_MARGINALS, replace=False)
        cliques = tuple(cliques[index] for index in sorted(places))
    for clique in cliques:
        shape = domain.shape(clique)
        if np.prod(shape, dtype=float) <= 1 << 22:
            tables = [LocalTable(schema, codes).count(clique).ravel() for codes in (real, drawn)]
        else:
            tables = _sparse([np.ravel_multi_index([c[n] for n in clique], shape) for c in (real, drawn)])
        shares = [table / max(1, table.sum()) for table in tables]
        distances.append(float(np.abs(shares[0] - shares[1]).sum()))
    return float(np.mean(distances))


def _sparse(keys: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Counts over the cells that occur in one of two tables."""
    values, where = np.unique(np.concatenate(keys), return_inverse=True)
    cut = len(keys[0])
    return [np.bincount(part, minlength=len(values)) for part in (where[:cut], where[cut:])]


def markdown(records: Sequence[Record]) -> str:
    """One line per table."""
    lines = ["| table | error | CPU s | wall s | peak MB | |", "|---|---|---|---|---|---|"]
    for record in records:
        shown = f"{record['error']:.4f}" if record["status"] == "ok" else record["status"]
        message = "" if record["status"] == "ok" else record.get("message", "").replace("\n", " ")
        lines.append(
            f"| {record['table']} | {shown} | {record['cpu_seconds']:.1f} | {record['seconds']:.0f} | "
            f"{record['peak_mb']:.0f} | {message} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="AIM on every integer table with a domain file.")
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(TABLES)}; default: all")
    parser.add_argument("--quick", action="store_true", help=f"only {' and '.join(QUICK)}")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/every_table"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds per table")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.tables if name not in TABLES]
    if unknown:
        parser.error(f"unknown tables: {', '.join(unknown)}")
    print(NOTICE)
    common = {
        "workload": "all-3way",
        "method": "aim",
        "epsilon": 1.0,
        "delta": 1e-9,
        "seed": 0,
        "options": None,
    }
    names = options.tables or (QUICK if options.quick else TABLES)
    results = run_all(
        [{"table": name, **common} for name in names],
        options.out / "results.jsonl",
        timeout=options.timeout,
        run=functools.partial(run_cell, data=find_data(options.data)),
    )
    print(markdown(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
