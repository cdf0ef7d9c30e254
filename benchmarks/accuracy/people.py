"""People with several rows: a hospital register, households and a panel at epsilon 2, fitted as people and as rows.

The tables are simulated (`understudy.datasets.patient_stays`, `households`, `work_panel`). Distances are half the sum of absolute differences of shares; 0 is perfect and
1 the worst. *Rates* are in percentage points: of readmissions in all stays, and the worst over sexes, age groups, regions and diagnoses.
How the worst group is spread over further tables is printed by itself: a mean hides the table that is over a point.

Run ``python -m benchmarks.accuracy.people``; ``--quick`` for small tables.
"""

from __future__ import annotations

import argparse
import logging
import resource
import time
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from understudy.datasets import (
    households,
    households_schema,
    patient_stays,
    patient_stays_schema,
    work_panel,
    work_panel_schema,
)
from understudy.privacy import Unit
from understudy.schema import Schema
from understudy.workflow import synthesize

EPSILON, DELTA = 2.0, 1e-6
GROUPS = ("sex", "age_group", "region", "diagnosis")
Shares = npt.NDArray[np.float64]


def shares(codes: npt.NDArray[np.int64], cells: int) -> Shares:
    """Return the share of each cell."""
    return np.bincount(codes, minlength=cells) / max(1, len(codes))


def distance(left: Shares, right: Shares) -> float:
    """Return half the sum of absolute differences."""
    return float(np.abs(left - right).sum() / 2)


def pairs_of_columns(frame: pd.DataFrame, schema: Schema) -> list[Shares]:
    """Return the marginals of all pairs of columns of the rows."""
    codes = {name: part.astype(np.int64) for name, part in schema.encode_frame(frame).items()}
    size = schema.domain.size
    return [
        shares(codes[a] * size(b) + codes[b], size(a) * size(b)) for a, b in combinations(schema.names, 2)
    ]


def successive(frame: pd.DataFrame, schema: Schema) -> list[Shares]:
    """Return, for each column that is not fixed, the marginal of its codes in two successive rows of an entity."""
    assert schema.entity is not None
    codes = {name: part.astype(np.int64) for name, part in schema.encode_frame(frame).items()}
    ids = frame[schema.entity.id].to_numpy()
    same = ids[1:] == ids[:-1]
    found = []
    for name in schema.names:
        if name not in schema.entity.fixed:
            size = schema.domain.size(name)
            found.append(shares((codes[name][:-1] * size + codes[name][1:])[same], size * size))
    return found


def mean_distance(left: list[Shares], right: list[Shares]) -> float:
    """Return the mean distance of two lists of marginals."""
    return float(np.mean([distance(a, b) for a, b in zip(left, right, strict=True)]))


def rates(frame: pd.DataFrame) -> tuple[float, pd.Series]:
    """Return the rate of readmissions in all rows, and in each group."""
    outcome = frame["readmitted"].astype(bool)
    return float(outcome.mean()), pd.concat(
        [outcome.groupby(frame[name], observed=True).mean() for name in GROUPS]
    )


def cut(frame: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the real rows, at most so many of each patient at random."""
    words = np.random.default_rng(0).random(len(frame))
    return frame.assign(word=words).sort_values("word").groupby("patient").head(most).drop(columns="word")


def widened(frame: pd.DataFrame, schema: Schema, columns: int, seed: int) -> tuple[pd.DataFrame, Schema]:
    """Return the register with further columns, 2 to 6 values each, that follow the diagnosis and the ward."""
    rng = np.random.default_rng(seed)
    plain = schema.to_dict()
    made = frame.copy()
    group = frame["diagnosis"].cat.codes.to_numpy() * 4 + frame["ward"].cat.codes.to_numpy()
    for number in range(columns - len(schema.names)):
        size = int(rng.integers(2, 7))
        ends = np.cumsum(rng.dirichlet(np.ones(size), 24), axis=1)[group]
        made[f"x{number}"] = np.minimum((rng.random(len(frame))[:, None] > ends).sum(axis=1), size - 1)
        plain["columns"].append({"name": f"x{number}", "kind": "integer", "minimum": 0, "maximum": size - 1})
    return made, Schema.from_dict(plain)


def fitted(
    frame: pd.DataFrame,
    schema: Schema,
    unit: Unit,
    *,
    epsilon: float = EPSILON,
    method: str = "aim",
    flat: bool = False,
) -> tuple[pd.DataFrame, float]:
    """Return a synthetic table and the CPU seconds that it took."""
    start = time.process_time()
    made = synthesize(
        frame,
        schema=schema,
        unit=unit,
        method=method,
        epsilon=epsilon,
        delta=DELTA,
        flat=flat,
        ledger="memory",
        seed=1,
    )
    assert made.frame is not None
    return made.frame, time.process_time() - start


def stays(patients: int, records: int, columns: int, seeds: int) -> None:
    """Print the table of the hospital register."""
    schema = patient_stays_schema()
    found: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        real = patient_stays(patients, seed=seed)
        whole, grouped = rates(real)
        columns_real, steps_real = pairs_of_columns(real, schema), successive(real, schema)

        def judged(
            name: str,
            frame: pd.DataFrame,
            seconds: float,
            *,
            linked: bool,
            told: tuple[float, pd.Series] = (whole, grouped),
            pairs: list[Shares] = columns_real,
            steps: list[Shares] = steps_real,
        ) -> None:
            rate, by_group = rates(frame)
            found.setdefault(name, []).append(
                [
                    100 * (rate - told[0]),
                    100 * float((by_group - told[1]).abs().max()),
                    mean_distance(pairs, pairs_of_columns(frame, schema)),
                    mean_distance(steps, successive(frame, schema)) if linked else float("nan"),
                    seconds,
                ]
            )

        person = Unit.add_remove_person("patient", max_rows=records)
        two = Unit.add_remove_person("patient", max_rows=2)
        shuffled = real.copy()
        moving = [name for name in schema.names if name not in GROUPS[:3]]
        shuffled[moving] = real[moving].sample(frac=1, random_state=seed).to_numpy()
        judged("real rows, dealt out at random", shuffled.astype(real.dtypes), 0.0, linked=True)
        judged("real rows, cut to 2", cut(real, 2), 0.0, linked=False)
        judged("rows, cut to 2", *fitted(real, schema, two, flat=True), linked=False)
        for factor in (2, 40):  # of a group of so many rows
            made = fitted(real, schema, Unit.add_remove(), epsilon=EPSILON / factor, flat=True)
            judged(f"rows as people, epsilon / {factor}", *made, linked=False)
        judged("people, 2 records each", *fitted(real, schema, two), linked=True)
        judged(f"people, {records} records each", *fitted(real, schema, person), linked=True)
    print(
        f"{patients:,} patients, epsilon {EPSILON:g}, delta {DELTA:g}, {seeds} tables; readmissions in {100 * whole:.1f} % of stays"
    )
    print(f"{'':34}{'all rates':>10}{'worst rate':>12}{'pairs':>8}{'successive':>12}{'CPU s':>8}")
    for name, runs in found.items():
        mean = np.mean(np.abs(runs), axis=0)
        step = "" if np.isnan(mean[3]) else f"{mean[3]:.4f}"
        print(
            f"{name:34}{mean[0]:>10.2f}{mean[1]:>12.2f}{mean[2]:>8.4f}{step:>12}{mean[4]:>8.0f}", flush=True
        )
    real, wide = widened(patient_stays(patients, seed=0), schema, columns, 0)
    made, seconds = fitted(real, wide, Unit.add_remove_person("patient", max_rows=records))
    error = mean_distance(pairs_of_columns(real, wide), pairs_of_columns(made, wide))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{columns} columns, {len(real):,} rows: pairs {error:.4f}, {seconds:.0f} s of CPU, {peak:.2f} GB at most in this process"
    )


def spread(patients: int, limits: tuple[int, ...], tables: int) -> None:
    """Print the errors of rates on further tables, one fit each."""
    schema = patient_stays_schema()
    found: dict[int, list[tuple[float, float]]] = {records: [] for records in limits}
    for seed in range(tables):
        real = patient_stays(patients, seed=seed)
        whole, grouped = rates(real)
        for records in limits:
            made, _ = fitted(real, schema, Unit.add_remove_person("patient", max_rows=records))
            rate, by_group = rates(made)
            worst = 100 * float((by_group - grouped).abs().max())
            found[records].append((100 * abs(rate - whole), worst))
    print(f"\nrates on {tables} tables, one fit each: worst of {len(grouped)} groups")
    for records, runs in found.items():
        everyone, worst = np.array(runs).T
        print(
            f"people, {records} records each: mean {worst.mean():.2f}, median {np.median(worst):.2f}, nine of ten {np.quantile(worst, 0.9):.2f}, largest {worst.max():.2f}; "
            f"within 1 point in {(worst <= 1).sum()} of {tables}; "
            f"all stays {everyone.mean():.2f}, at most {everyone.max():.2f}",
            flush=True,
        )


def composition(frame: pd.DataFrame, schema: Schema) -> Shares:
    """Return size by ages of the first two members, over households with two or more."""
    ids = frame["household"].to_numpy()
    ages = schema.encode_frame(frame)["age"].astype(np.int64)
    first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    size = np.diff(np.append(first, len(ids)))
    several = size > 1
    head, cells = first[several], schema.domain.size("age")
    code = (np.minimum(size[several], 6) * cells + ages[head]) * cells + ages[head + 1]
    return shares(code, 7 * cells * cells)


def members(number: int, records: int, seeds: int) -> None:
    """Print the table of households."""
    schema = households_schema()
    found: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        real = households(number, seed=seed)
        again = households(number, seed=seed + 1_000)
        unit = Unit.add_remove_person("household", max_rows=records)
        tables = {
            "another draw of the simulation": (again, 0.0),
            "aim": fitted(real, schema, unit),
            "independent": fitted(real, schema, unit, method="independent"),
        }
        for name, (frame, seconds) in tables.items():
            found.setdefault(name, []).append(
                [
                    distance(composition(real, schema), composition(frame, schema)),
                    mean_distance(pairs_of_columns(real, schema), pairs_of_columns(frame, schema)),
                    mean_distance(successive(real, schema), successive(frame, schema)),
                    seconds,
                ]
            )
    print(
        f"\n{number:,} households, {records} records each, epsilon {EPSILON:g}, delta {DELTA:g}, {seeds} tables"
    )
    print(f"{'':34}{'composition':>12}{'pairs':>8}{'successive':>12}{'CPU s':>8}")
    for name, runs in found.items():
        mean = np.mean(runs, axis=0)
        print(f"{name:34}{mean[0]:>12.4f}{mean[1]:>8.4f}{mean[2]:>12.4f}{mean[3]:>8.0f}", flush=True)


def years(number: int, records: int, seeds: int) -> None:
    """Print the table of the panel."""
    schema = work_panel_schema()
    unit = Unit.add_remove_person("person", max_rows=records)
    found: dict[str, list[list[float]]] = {}

    def poor(frame: pd.DataFrame) -> tuple[float, pd.Series]:
        waves = frame.groupby("person")["year"].transform("size")
        outcome = frame["health"].astype(str) == "poor"
        groups = [*(frame[name] for name in ("sex", "born", "education", "year")), waves]
        return float(outcome.mean()), pd.concat(
            [outcome.groupby(group, observed=True).mean() for group in groups]
        )

    for seed in range(seeds):
        real = work_panel(number, seed=seed)
        whole, grouped = poor(real)
        told = pairs_of_columns(real, schema), successive(real, schema)

        def judged(
            name: str,
            frame: pd.DataFrame,
            seconds: float,
            *,
            told: tuple[list[Shares], list[Shares]] = told,
            rate: tuple[float, pd.Series] = (whole, grouped),
        ) -> None:
            made, by_group = poor(frame)
            twice = frame.duplicated(["person", "year"]).mean()
            found.setdefault(name, []).append(
                [
                    100 * abs(made - rate[0]),
                    100 * float((by_group - rate[1]).abs().max()),
                    mean_distance(told[0], pairs_of_columns(frame, schema)),
                    mean_distance(told[1], successive(frame, schema)),
                    100 * float(twice),
                    seconds,
                ]
            )

        shuffled = real.copy()
        moving = ["year", "work", "income", "health"]
        shuffled[moving] = real[moving].sample(frac=1, random_state=seed).to_numpy()
        judged("real rows, dealt out at random", shuffled.astype(real.dtypes), 0.0)
        judged("another draw of the simulation", work_panel(number, seed=seed + 1000), 0.0)
        judged(f"people, {records} records each", *fitted(real, schema, unit))
    print(
        f"\n{number:,} people asked for up to five years, {records} records each, epsilon {EPSILON:g}, delta {DELTA:g}, {seeds} tables; in poor health {100 * whole:.1f} % of answers"
    )
    print(
        f"{'':34}{'all rates':>10}{'worst rate':>12}{'pairs':>8}{'successive':>12}{'a year twice %':>16}{'CPU s':>8}"
    )
    for name, runs in found.items():
        mean = np.mean(runs, axis=0)
        print(
            f"{name:34}{mean[0]:>10.2f}{mean[1]:>12.2f}{mean[2]:>8.4f}{mean[3]:>12.4f}{mean[4]:>16.2f}{mean[5]:>8.0f}",
            flush=True,
        )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=70_000)
    parser.add_argument("--records", type=int, default=10)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--tables", type=int, default=36, help="tables over which the spread of rates is shown"
    )
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    number, seeds = (1_000, 1) if given.quick else (given.entities, given.seeds)
    stays(number, given.records, 10 if given.quick else given.columns, seeds)
    spread(number, (2, given.records), 1 if given.quick else given.tables)
    members(number, given.records, seeds)
    years(number, given.records, seeds)


if __name__ == "__main__":
    main()
