"""A small table and a small specification that the tests of releases change in one place each."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd

from understudy.privacy import PureDP
from understudy.release.spec.spec import Spec

SMALL: dict[str, Any] = {
    "name": "small",
    "source": {"path": "people.csv"},
    "schema": {
        "columns": [
            {"name": "sex", "kind": "categorical", "values": ["f", "m"]},
            {
                "name": "age",
                "kind": "integer",
                "unit": "years",
                "bins": ["<20", "20-39", "40-59", "59<"],
                "decode_by": "label",
            },
            {"name": "size", "kind": "integer", "unit": "cm", "minimum": 1, "maximum": 5},
        ]
    },
    "unit": "replace-one",
    "synthesizers": [{"method": "gaussian", "options": {"workload": "all-2way"}}],
    "projections": [{"kind": "minimal-occurrence", "min_count": 2}],
    "acceptance": {
        "form": "pass-only",
        "epsilon": 1.0,
        "criteria": [
            {"name": "cells", "kind": "max-marginal-error", "threshold": 0.2},
            {"name": "rare", "kind": "rare-records"},
        ],
    },
    "selection": {"rule": "single"},
    "budget": {"total": {"epsilon": 5}, "model": {"epsilon": 4}},
    "seed": 3,
}

CRITERIA: list[dict[str, Any]] = [
    {"name": "cells", "kind": "max-marginal-error", "threshold": 0.3},
    {"name": "average", "kind": "average-marginal-error", "threshold": 0.3, "orders": [1, 2]},
    {"name": "tail", "kind": "tail-marginal-error", "threshold": 0.3, "share": 0.1},
    {"name": "factor", "kind": "relative-marginal-error", "threshold": 3, "clip": 4},
    {
        "name": "mean size",
        "kind": "conditional-means",
        "column": "size",
        "threshold": 2,
        "by": ["everyone", "sex", {"column": "age", "bins": ["<40", "40<="]}],
    },
    {"name": "median size", "kind": "conditional-medians", "column": "size", "threshold": 3},
    {
        "name": "line",
        "kind": "regression-coefficients",
        "target": "size",
        "features": ["age", "sex"],
        "threshold": 3,
    },
    {
        "name": "prediction",
        "kind": "prediction-error",
        "target": "size",
        "features": ["age", "sex"],
        "threshold": 2,
    },
    {
        "name": "faithful",
        "kind": "faithfulness",
        "exact": ["sex"],
        "near": {"age": 1, "size": 1},
        "threshold": 0.4,
    },
    {"name": "tall", "kind": "share", "rule": "size >= 4", "threshold": 0.3},
    {"name": "rare", "kind": "rare-records", "min_count": 2},
    {"name": "groups", "kind": "k-anonymity", "k": 2, "every": 1},
]


def people(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    """A table that fits `SMALL`."""
    generator = np.random.default_rng(seed)
    age = generator.integers(5, 80, rows)
    return pd.DataFrame(
        {
            "sex": generator.choice(["f", "m"], rows),
            "age": age,
            "size": np.clip(1 + age // 25 + generator.integers(-1, 3, rows), 1, 5),
        }
    )


def small(**changes: Any) -> dict[str, Any]:
    """The plain specification with some keys replaced; a dotted key reaches inside."""
    plain = copy.deepcopy(SMALL)
    for key, value in changes.items():
        place: Any = plain
        *path, last = key.split("__")
        for part in path:
            place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
        if value is None:
            place.pop(last, None)
        else:
            place[int(last) if last.isdigit() else last] = value
    return plain


def small_spec(**changes: Any) -> Spec:
    return Spec.from_dict(small(**changes))


def fitting_spec(**changes: Any) -> Spec:
    """A specification whose total is what its parts add up to."""
    plain = small(**changes)
    plain["budget"]["total"] = {"epsilon": 1000.0}
    promise = Spec.from_dict(plain).shares.promise
    assert isinstance(promise, PureDP)
    plain["budget"]["total"] = {"epsilon": promise.epsilon * 1.00001}
    return Spec.from_dict(plain)


def published(epsilon: float = 0.5) -> dict[str, Any]:
    """All kinds of criteria in the published form, as changes for `small`."""
    criteria = [dict(item) for item in CRITERIA]
    for item in criteria:
        if item["kind"] not in ("rare-records", "k-anonymity"):
            item["epsilon"] = epsilon
    spent = epsilon * (len(criteria) - 2)
    return {
        "acceptance": {"form": "published", "criteria": criteria},
        "budget": {"total": {"epsilon": 4 + spent}, "model": {"epsilon": 4}},
    }
