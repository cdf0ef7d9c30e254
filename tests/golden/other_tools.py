"""Headline scores of SDMetrics and SDNist on two simulated tables, computed by those tools themselves.

The test beside the evaluation compares ours with these numbers. To renew them, in an environment of its own::

    python -m venv /tmp/other && /tmp/other/bin/pip install sdmetrics
    git clone --depth 1 https://github.com/usnistgov/SDNist /tmp/SDNist
    /tmp/other/bin/python tests/golden/other_tools.py /tmp/SDNist > tests/golden/other_tools.json

Without the second argument the score of SDNist is left out. Nothing of this project is imported here.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd

SCHEMA = """
columns:
  - {name: age, kind: integer, minimum: 0, maximum: 90, missing: true}
  - {name: income, kind: real, bins: {edges: [-1000, 0, 500, 1000, 2000, 5000, 100000]}}
  - {name: visits, kind: integer, minimum: 0, maximum: 40}
  - {name: ward, kind: categorical, values: [north, south, east, west], missing: true}
  - {name: grade, kind: ordinal, values: [low, middle, high]}
  - {name: smokes, kind: boolean}
  - {name: admitted, kind: date, minimum: 2019-01-01, maximum: 2021-12-31}
"""

KINDS = {
    "age": "numerical",
    "income": "numerical",
    "visits": "numerical",
    "ward": "categorical",
    "grade": "categorical",
    "smokes": "boolean",
    "admitted": "datetime",
}


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a real and a synthetic table: the second has other shapes, weaker relations and another length."""
    return _table(1200, 1, 1.0), _table(900, 2, 0.4)


def _table(rows: int, seed: int, relation: float) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    age = generator.integers(0, 91, rows)
    income = np.round(relation * 20 * age + generator.normal(800, 300, rows), 2)
    visits = generator.poisson(3 + relation * age / 30, rows).clip(0, 40)
    ward = generator.choice(["north", "south", "east", "west"], rows, p=[0.4, 0.3, 0.2, 0.1])
    ward = np.where(age > 60, np.where(generator.random(rows) < relation, "north", ward), ward)
    grade = np.array(["low", "middle", "high"])[
        (age // 31) if relation > 0.5 else generator.integers(0, 3, rows)
    ]
    day = pd.Timestamp("2019-01-01") + pd.to_timedelta(
        generator.integers(0, int(1095 * (0.5 + relation / 2)), rows), "D"
    )
    frame = pd.DataFrame(
        {
            "age": age.astype(float),
            "income": income,
            "visits": visits,
            "ward": ward.astype(object),
            "grade": grade.astype(object),
            "smokes": generator.random(rows) < 0.2 + 0.1 * relation,
            "admitted": day,
        }
    )
    frame.loc[generator.random(rows) < 0.05 * (2 - relation), "age"] = np.nan
    frame.loc[generator.random(rows) < 0.08 * (2 - relation), "ward"] = None
    return frame


def _sdmetrics(real: pd.DataFrame, made: pd.DataFrame) -> dict[str, Any]:
    version = importlib.metadata.version("sdmetrics")
    with warnings.catch_warnings():  # the report for one table is to be replaced by one for many
        warnings.simplefilter("ignore", FutureWarning)
        report = importlib.import_module("sdmetrics.reports.single_table").QualityReport()
    columns = {name: {"sdtype": kind} for name, kind in KINDS.items()}
    report.generate(real, made, {"columns": columns}, verbose=False)
    found = report.get_properties().set_index("Property")["Score"]
    return {
        "version": version,
        "column_shapes": float(found["Column Shapes"]),
        "column_pair_trends": float(found["Column Pair Trends"]),
        "quality": float(report.get_score()),
        "columns": {
            row["Column"]: float(row["Score"]) for _, row in report.get_details("Column Shapes").iterrows()
        },
        "pairs": {
            f"{row['Column 1']} {row['Column 2']}": None if np.isnan(row["Score"]) else float(row["Score"])
            for _, row in report.get_details("Column Pair Trends").iterrows()
        },
    }


def _sdnist(folder: str, real: pd.DataFrame, made: pd.DataFrame) -> dict[str, Any]:
    """SDNist scores columns that are binned already, without missing entries: those of the tables that are so."""
    sys.path.insert(0, f"{folder}/sdnist/metrics")
    metric = importlib.import_module("kmarginal").KMarginal

    chosen = ["visits", "grade", "smokes"]
    return {"columns": chosen, "k_marginal": float(metric(real[chosen], made[chosen]).compute_score())}


if __name__ == "__main__":
    one, two = tables()
    found = {"sdmetrics": _sdmetrics(one, two)}
    if len(sys.argv) > 1:
        found["sdnist"] = _sdnist(sys.argv[1], one, two)
    print(json.dumps(found, indent=1))
