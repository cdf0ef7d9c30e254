"""Time and values of the eight acceptance criteria of paper Births, Table 2, on the public natality sample.

Run ``python benchmarks/releases/criteria.py`` beside a folder with the benchmark tables, or pass the CSV file. The table is
public, so exact values are printed.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import pandas as pd

from understudy.data import read_table
from understudy.datasets import births_schema
from understudy.privacy import Unit
from understudy.release import (
    ConditionalMeans,
    ConditionalMedians,
    Criterion,
    Faithfulness,
    Grouping,
    KAnonymity,
    MaxMarginalError,
    MinimalOccurrence,
    PredictionError,
    RecordTypes,
    RegressionCoefficients,
    RelativeMarginalError,
    Similarity,
    SlackTest,
)
from understudy.release.criteria.groups import code_values
from understudy.release.regressions.fits import Feature, Regression
from understudy.release.regressions.moments import RegressionMoments
from understudy.schema import Schema

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "natality"
SAMPLE = "birth_2019_nber_us_SINGLETON_SAMPLE160K.csv.gz"
# what the paper spent on each published value
PAPER_EPSILON = {
    "marginals": 0.01,
    "ratios": 0.3,
    "parity": 0.01,
    "weight": 0.17,
    "week": 0.02,
    "faithful": 0.01,
}


def natality(path: Path) -> pd.DataFrame:
    """Read the sample under the names and in the year of the births schema."""
    table = pd.read_csv(path)
    table["birth_sex"] = np.where(table.pop("is_female"), "F", "M")
    table["date_of_birth"] = pd.to_datetime(table["date_of_birth"].str.replace("2019", "2014"))
    return table


def record_types(frame: pd.DataFrame, schema: Schema) -> RecordTypes:
    return RecordTypes.from_table(read_table(frame, schema))


def births_criteria(schema: Schema) -> tuple[Criterion, ...]:
    """The criteria of Table 2 with their thresholds, groups (4.5.3) and cost function (4.5.5)."""
    values = {column.name: code_values(column) for column in schema.columns}
    age = Grouping("mother_age", (0, 0, 0, 1, 2, 3, 3, 3, 3, 3))  # up to 24, 25-29, 30-34, from 35
    parity = Grouping("parity", (0, 1, 2, 2, 2))  # 1, 2-3, from 4
    week = Grouping("gestation_week", (0, 0, 0, 0, 1, 1))  # before 37, from 37
    sex, everyone = Grouping.each("birth_sex", 2), Grouping.everyone()
    line = Regression(
        Feature("birth_weight", values["birth_weight"]),
        tuple(Feature(name, values[name]) for name in schema.domain.names if name != "birth_weight"),
    )

    def means(name: str, threshold: float, column: str, *groups: Grouping) -> ConditionalMeans:
        return ConditionalMeans(
            name=name, threshold=threshold, column=column, values=values[column], groups=(*groups, everyone)
        )

    return (
        MaxMarginalError(name="marginals", threshold=0.01),
        RelativeMarginalError(name="ratios", threshold=1.4, clip=2.0),
        means("parity", 0.3, "parity", age),
        means("weight", 100.0, "birth_weight", sex, parity, week, age),
        means("week", 1.0, "gestation_week", parity, age),
        RegressionCoefficients(name="coefficients", threshold=30.0, regression=line),
        PredictionError(name="prediction", threshold=5.0, regression=line),
        Faithfulness(
            name="faithful",
            threshold=0.05,
            similarity=Similarity(
                exact=("date_of_birth", "parity", "birth_sex"),
                near={"mother_age": 1, "gestation_week": 1, "birth_weight": 1},
            ),
        ),
    )


def median_criterion(schema: Schema) -> ConditionalMedians:
    """Medians of the birth weight, which the paper left out."""
    sex = Grouping.each("birth_sex", 2)
    values = code_values(schema.column("birth_weight"))
    return ConditionalMedians(
        name="median weight",
        threshold=150.0,
        column="birth_weight",
        values=values,
        groups=(sex, Grouping.everyone()),
    )


def candidates(real: RecordTypes, seed: int) -> dict[str, RecordTypes]:
    """A bootstrap copy, a copy with some rows redrawn column by column, and independent columns."""
    generator = np.random.default_rng(seed)
    rows = real.expand()
    n = len(rows)
    shuffled = np.stack([generator.permutation(column) for column in rows.T], axis=1)
    perturbed = np.where(generator.random((n, 1)) < 0.02, shuffled, rows)
    kinds = {
        "bootstrap": rows[generator.integers(0, n, n)],
        "2 % redrawn": perturbed,
        "independent": shuffled,
    }
    return {name: RecordTypes.from_rows(real.domain, table) for name, table in kinds.items()}


def report(criteria: tuple[Criterion, ...], real: RecordTypes, candidate: RecordTypes) -> float:
    """Print one line per criterion; return the CPU seconds of all slacks together."""
    unit, n = Unit.replace_one(), candidate.rows
    print(
        f"  {'criterion':14} {'error':>10} {'threshold':>9} {'slack':>9} {'noise sd':>9} {'value s':>8} {'slack s':>8}"
    )
    total = 0.0
    for criterion in criteria:
        start = time.process_time()
        value = criterion.value(real, candidate)
        middle = time.process_time()
        slack = criterion.slack(real, candidate)
        end = time.process_time()
        epsilon = PAPER_EPSILON.get(criterion.name)
        noise = (
            criterion.noise_deviation(epsilon, unit=unit, n=n, synthetic=candidate) if epsilon else math.nan
        )
        total += end - middle
        print(
            f"  {criterion.name:14} {value:10.5g} {criterion.threshold:9g} {slack:9.1f} {noise:9.3g} "
            f"{middle - start:8.3f} {end - middle:8.3f}"
        )
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", nargs="?", type=Path, default=FOLDER / SAMPLE)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    schema = births_schema()
    start = time.process_time()
    real = record_types(natality(options.table), schema)
    print(f"{real.rows} rows, {len(real)} record types, {time.process_time() - start:.2f} s to read")
    criteria = births_criteria(schema)
    test, unit = SlackTest(criteria), Unit.replace_one()
    for name, candidate in candidates(real, options.seed).items():
        print(f"\n{name}")
        seconds = report((*criteria, median_criterion(schema)), real, candidate)
        smallest = test.slack(real, candidate)
        print(f"  smallest slack {smallest:.1f}; all slacks {seconds:.2f} s CPU")
        if smallest > 1:
            epsilon = test.epsilon_for(smallest, false_accept=0.05, false_reject=0.1, unit=unit)
            print(f"  one slack test with 5 % false accepts and 10 % false rejects: epsilon {epsilon:.3f}")
        for projection in (
            MinimalOccurrence(min_count=2),
            MinimalOccurrence(min_count=3, algorithm="stepwise"),
            KAnonymity.every(schema.domain.names, of=5, k=5),
        ):
            start = time.process_time()
            projected = projection.apply(candidate, np.random.default_rng(options.seed))
            seconds = time.process_time() - start
            print(
                f"  {projection.describe()}: {seconds:.3f} s, smallest slack {test.slack(real, projected):.1f}"
            )
    coefficients = next(c for c in criteria if isinstance(c, RegressionCoefficients))
    quantiles = RegressionMoments(coefficients.regression).noise_quantiles(real, epsilon=0.43, unit=unit)
    print(f"\nL1 noise of a private regression at epsilon .43 (10 %, 50 %, 90 %): {np.round(quantiles, 1)}")


if __name__ == "__main__":
    main()
