"""Three yearly releases of simulated registries: each afresh, or each from the bundle before it (``understudy refresh``).

A registry is a simulated table of which later years are drawn with other weights, so that columns and their relations drift. Both series spend the same
each year. Afresh, AIM pays every year for finding out which marginals are worth measuring; refreshed, the list and the prior come from the bundle
before. Printed is the mean error of the published rows on all pairs of columns (share of records in a wrong cell), and the epsilon that
AIM afresh would need for the error of the refreshed release, from two releases of the last year at larger budgets.

``python -m benchmarks.releases.series`` takes about two minutes of one processor.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from understudy import datasets
from understudy.data import read_frame
from understudy.release.bundle.verify import verify_bundle
from understudy.release.series.refresh import plan_refresh
from understudy.schema import Schema
from understudy.workflow import publish

YEARS = (2023, 2024, 2025)
CASES = (
    ("births", 0.5, 0.0),
    ("births", 0.5, 0.15),
    ("births", 0.5, 0.5),
    ("survey", 1.0, 0.15),
)
"""Registry, epsilon of a year, and how much the logarithm of a record's weight moves each year."""
ACCEPTANCE = 0.02
DELTA = 1e-6


def year_table(name: str, rows: int, year: int, drift: float, seed: int) -> tuple[pd.DataFrame, Schema]:
    """Draw the registry of a year: of twice as many simulated records, those with large values more often each year."""
    frame, schema = datasets.load(name, 2 * rows, seed=100 * seed + year)
    codes = schema.encode_frame(frame)
    score = sum(codes[column.name] / max(1, column.size - 1) - 0.5 for column in schema.columns[:3])
    weights = np.exp(drift * year * np.asarray(score))
    chosen = np.random.default_rng([seed, year]).choice(
        2 * rows, rows, replace=False, p=weights / weights.sum()
    )
    return frame.iloc[chosen].reset_index(drop=True), schema


def specification(name: str, table: Path, schema: Schema, epsilon: float) -> dict[str, Any]:
    """Say how a year is released afresh."""
    return {
        "name": name,
        "source": {"path": str(table)},
        "schema": schema.to_dict(),
        "unit": "replace-one",
        "synthesizers": [{"method": "aim", "options": {"workload": "all-2way"}}],
        "acceptance": {
            "form": "pass-only",
            "epsilon": ACCEPTANCE,
            "criteria": [{"name": "cells", "kind": "max-marginal-error", "threshold": 0.9, "orders": [1]}],
        },
        "selection": {"rule": "single"},
        "budget": {
            "total": {"epsilon": round(epsilon + ACCEPTANCE, 6), "delta": DELTA},
            "model": {"epsilon": epsilon, "delta": DELTA},
        },
    }


def released(spec: Path, out: Path) -> Path:
    """Release a year and return its bundle; each as if by another office, which knows nothing of the others' ledgers."""
    os.environ["UNDERSTUDY_HOME"] = f"{out}.home"
    done = publish(spec, out=out, ledger=out.with_suffix(".ledger"))
    if not done.accepted:
        raise SystemExit(f"{spec.name} was not accepted")
    return done.folder


def error(bundle: Path, frame: pd.DataFrame, schema: Schema) -> float:
    """Mean total variation distance between published and real pairs of columns."""
    made, real = schema.encode_frame(read_frame(bundle / "data.csv")), schema.encode_frame(frame)
    found = []
    for left, right in combinations(schema.names, 2):
        size = schema.column(right).size
        cells = schema.column(left).size * size
        shares = [
            np.bincount(codes[left].astype(np.int64) * size + codes[right], minlength=cells)
            / len(codes[left])
            for codes in (made, real)
        ]
        found.append(0.5 * np.abs(shares[0] - shares[1]).sum())
    return float(np.mean(found))


def series(
    folder: Path, name: str, rows: int, epsilon: float, drift: float, seed: int
) -> tuple[list[float], list[float], list[tuple[float, float]], dict[str, Any]]:
    """Return the errors of both series by year, those of the last year afresh at larger budgets, and the last certificate."""
    fresh, refreshed, larger = [], [], []
    bundle = None
    for index, year in enumerate(YEARS):
        frame, schema = year_table(name, rows, index, drift, seed)
        table = folder / f"{name}-{year}.csv"
        frame.to_csv(table, index=False)

        def afresh(budget: float, label: str, table: Path = table, schema: Schema = schema) -> Path:
            spec = folder / f"{label}.json"
            spec.write_text(json.dumps(specification(label, table, schema, budget)))
            return released(spec, folder / label)

        own = afresh(epsilon, f"afresh-{year}")
        fresh.append(error(own, frame, schema))
        if bundle is None:
            bundle = own
        else:
            planned = plan_refresh(bundle, source=table, name=f"refreshed-{year}")
            spec = planned.write(folder / f"refreshed-{year}.yaml")
            bundle = released(spec, folder / f"refreshed-{year}")
        refreshed.append(error(bundle, frame, schema))
        if year == YEARS[-1]:
            larger = [
                (factor, error(afresh(factor * epsilon, f"larger-{round(100 * factor)}"), frame, schema))
                for factor in (1.25, 1.5)
            ]
    return fresh, refreshed, larger, verify_bundle(bundle)


def needed(points: list[tuple[float, float]], wanted: float) -> str:
    """Return the factor of epsilon at which a line through logarithms of errors reaches an error."""
    factors, errors = np.log(np.array(points)).T
    slope, start = np.polyfit(factors, errors, 1)
    if slope >= 0:
        return "-"
    return f"{float(np.exp((np.log(wanted) - start) / slope)):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    print(
        f"{options.rows:,} rows a year, {options.seeds} series each; error: share of records in a wrong cell, mean over pairs of columns\n"
    )
    print(
        "| registry | epsilon a year | drift | afresh, by year | refreshed, by year | error saved in years 2 and 3 | epsilon that afresh needs for it | three years together |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, epsilon, drift in CASES:
        runs = []
        for seed in range(options.seeds):
            with tempfile.TemporaryDirectory() as folder:
                runs.append(series(Path(folder), name, options.rows, epsilon, drift, seed))
        fresh, refreshed = (np.mean([run[part] for run in runs], axis=0) for part in (0, 1))
        saved = 1 - refreshed[1:].sum() / fresh[1:].sum()
        last = [(1.0, float(fresh[-1]))]
        last += [
            (factor, float(np.mean([run[2][place][1] for run in runs])))
            for place, factor in enumerate((1.25, 1.5))
        ]
        one, three = (runs[0][3][part] for part in ("guarantee", "series"))
        print(
            f"| {name} | {one['budget']['epsilon']:g} | {drift:g} | {', '.join(f'{x:.4f}' for x in fresh)} | "
            f"{', '.join(f'{x:.4f}' for x in refreshed)} | {saved:.0%} | {needed(last, float(refreshed[-1]))} times | "
            f"epsilon {three['composed']['epsilon']:.3g} (plainly added {3 * one['budget']['epsilon']:.3g}) |",
            flush=True,
        )


if __name__ == "__main__":
    main()
