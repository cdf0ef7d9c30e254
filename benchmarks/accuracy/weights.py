"""Survey weights at epsilon 1: as a column in bins, or as sums of weights in each cell.

The table is simulated (`understudy.datasets.weighted_survey`). *Column* is what ``understudy synth`` does: a row has one more column, and one person changes counts by one.
*Sums* adds the weights of rows up, rounded to a public step: a row counts as often as its weight holds steps, up to the cap, and one person changes a sum by the cap. It is
run as a table in which each row is repeated so often, under a unit of persons with so many rows, which has the same sensitivities.

Errors are distances of weighted marginals (half the sum of absolute differences of shares) from those of the real survey, and the error of the sum of all weights.

Run ``python -m benchmarks.accuracy.weights``; ``--quick`` for a small table.
"""

from __future__ import annotations

import argparse
import logging
from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from understudy.datasets import weighted_survey, weighted_survey_schema
from understudy.privacy import Unit
from understudy.schema import Schema
from understudy.schema.weights import Weight
from understudy.workflow import synthesize

DELTA = 1e-6
STEPS = 100
"""The cap, in steps of the sums."""
Floats = npt.NDArray[np.float64]


def marginals(frame: pd.DataFrame, weights: Floats, schema: Schema, k: int) -> list[Floats]:
    """Return the weighted shares of every set of ``k`` columns."""
    codes = {name: part.astype(np.int64) for name, part in schema.encode_frame(frame).items()}
    found = []
    for clique in combinations(schema.names, k):
        shape = schema.domain.shape(clique)
        cell = np.ravel_multi_index([codes[name] for name in clique], shape)
        sums = np.bincount(cell, weights, minlength=int(np.prod(shape)))
        found.append(sums / sums.sum())
    return found


def errors(real: pd.DataFrame, made: pd.DataFrame, weights: Floats, schema: Schema) -> list[float]:
    """Return the mean distances of columns and pairs of columns, and the error of the sum of all weights in percent."""
    truth = real["weight"].to_numpy(np.float64)
    distances = [
        float(
            np.mean(
                [
                    np.abs(left - right).sum() / 2
                    for left, right in zip(
                        marginals(real, truth, schema, k), marginals(made, weights, schema, k), strict=True
                    )
                ]
            )
        )
        for k in (1, 2)
    ]
    return [*distances, 100 * abs(float(weights.sum() / truth.sum()) - 1)]


def compare(n: int, epsilon: float, shrink: float, seeds: int) -> None:
    """Print one block: tables of ``n`` rows whose weights are taken to the power ``shrink``."""
    found: dict[str, list[list[float]]] = {}
    ratios = []
    for seed in range(seeds):
        real = weighted_survey(n, seed=seed)
        real["weight"] **= shrink
        schema = weighted_survey_schema()
        cap = 25.0**shrink
        plain = schema.select(name for name in schema.names if name != "weight")
        schema = replace(plain, weight=Weight("weight", cap=cap, lowest=1.0))
        ratios.append(cap / float(real["weight"].mean()))
        found.setdefault("rows, without weights", []).append(errors(real, real, np.ones(n), plain))
        asked = {"epsilon": epsilon, "delta": DELTA, "method": "aim", "ledger": "memory", "seed": seed}
        made = synthesize(real, schema=schema, unit="add-remove", **asked)
        assert made.frame is not None
        drawn = np.nan_to_num(made.frame["weight"].to_numpy(np.float64))
        found.setdefault("column", []).append(errors(real, made.frame, drawn, plain))
        people = made.model.population(n, seed=seed)
        found.setdefault("column, population", []).append(
            [*errors(real, people, np.ones(n), plain)[:2], float("nan")]
        )
        step = cap / STEPS
        row = np.repeat(np.arange(n), np.floor(real["weight"].to_numpy() / step + 0.5).astype(np.int64))
        unit = Unit.add_remove_person("row", max_rows=STEPS)
        sums = synthesize(
            real[list(plain.names)].iloc[row].assign(row=row), schema=plain, unit=unit, flat=True, **asked
        )
        assert sums.frame is not None
        found.setdefault("sums", []).append(errors(real, sums.frame, np.full(len(sums.frame), step), plain))
    print(
        f"{n:,} rows, epsilon {epsilon:g}, delta {DELTA:g}, cap {np.mean(ratios):.1f} times the mean weight, {seeds} tables"
    )
    print(f"{'':28}{'columns':>10}{'pairs':>10}{'sum of weights, %':>20}")
    for name, runs in found.items():
        mean = np.mean(runs, axis=0)
        total = "" if np.isnan(mean[2]) else f"{mean[2]:.2f}"
        print(f"{name:28}{mean[0]:>10.4f}{mean[1]:>10.4f}{total:>20}", flush=True)
    print()


def main() -> None:
    """Print the blocks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    rows, seeds = (1_000, 1) if given.quick else (given.rows, given.seeds)
    for epsilon, shrink in ((1.0, 1.0), (0.2, 1.0), (1.0, 0.4)):
        compare(rows, epsilon, shrink, seeds)


if __name__ == "__main__":
    main()
