"""Cleaning rules narrow what a regression reckons with: records that get past them must not break its sensitivity."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from release_examples import BASELINE, DOMAIN, LINE

from understudy.privacy import Unit
from understudy.release import Criterion, PredictionError, RecordTypes, RegressionCoefficients
from understudy.release.neighbours import neighbouring_tables
from understudy.release.regressions.fits import Regression
from understudy.release.run.transform import Transformed
from understudy.release.spec.spec import Spec

SUPPORT = np.ones((2, 4, 5), dtype=bool)
SUPPORT[:, 0, 2:] = SUPPORT[:, 3, :2] = False
NARROW = Regression(LINE.target, LINE.features, support=SUPPORT)
CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        RegressionCoefficients(name="coefficients", threshold=2.0, regression=NARROW),
        PredictionError(name="prediction", threshold=1.0, regression=NARROW),
        PredictionError(name="baseline prediction", threshold=1.0, regression=NARROW, baseline=BASELINE),
    )
}
UNITS = {
    "add-remove": Unit.add_remove(),
    "replace-one": Unit.replace_one(),
    "replaced person": Unit.replace_person("id", max_rows=2),
}
PLAIN: dict[str, Any] = {
    "name": "tiny",
    "source": {"table": "t"},
    "schema": {
        "columns": [
            {"name": "age", "kind": "integer", "bins": ["0-9", "10-19", "20-39", "39<"]},
            {"name": "size", "kind": "integer", "minimum": 0, "maximum": 5},
        ]
    },
    "unit": "replace-one",
    "public": {"row_count": "declared"},
    "cleaning": ["age < 20"],
    "synthesizers": [{"method": "independent"}],
    "acceptance": {
        "form": "pass-only",
        "epsilon": 0.5,
        "criteria": [
            {"name": "line", "kind": "regression-coefficients", "threshold": 2, "target": "size", "features": ["age"]}
        ],
    },
    "selection": {"rule": "single"},
    "budget": {"total": {"epsilon": 1.5}, "model": {"epsilon": 1}},
    "seed": 1,
}  # fmt: skip


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("name", sorted(CRITERIA))
def test_records_outside_the_support_move_nothing_further_than_claimed(
    name: str, unit: Unit, seed: int
) -> None:
    criterion = CRITERIA[name]
    worst = 0.0
    generator = np.random.default_rng(seed)
    for real, neighbour, candidate in neighbouring_tables(
        DOMAIN, unit, rows=40, pairs=150, generator=generator
    ):
        one, two = criterion.slack(real, candidate), criterion.slack(neighbour, candidate)
        if math.isinf(one) or math.isinf(two):
            assert one == two
            continue
        worst = max(worst, abs(one - two) / criterion.slack_sensitivity(unit))
        if isinstance(criterion, PredictionError) and criterion.baseline is not None:
            claimed = criterion.sensitivity(unit, candidate.rows, candidate)
            moved = criterion.released_value(real, candidate) - criterion.released_value(neighbour, candidate)
            assert abs(moved) <= claimed * (1 + 1e-12)
    assert worst <= 1
    assert worst > 0.25, "the pairs are too easy"


def test_a_record_outside_the_support_counts_for_nothing() -> None:
    inside = np.argwhere(SUPPORT)[np.random.default_rng(0).integers(0, int(SUPPORT.sum()), 300)]
    candidate = RecordTypes.from_rows(DOMAIN, inside)
    more = RecordTypes.from_rows(DOMAIN, np.concatenate([inside, [[0, 0, 4], [1, 3, 0]] * 30]))
    for criterion in CRITERIA.values():
        assert criterion.slack(more, candidate) == criterion.slack(candidate, candidate)
        assert criterion.value(more, candidate) == criterion.value(candidate, candidate)
    wide = dataclasses.replace(CRITERIA["coefficients"], regression=LINE)
    assert wide.slack(more, candidate) != wide.slack(candidate, candidate)


def test_the_label_of_a_bin_gets_past_a_cleaning_rule_but_not_into_a_sum() -> None:
    """Text like ``39<`` is no number, so no rule about numbers is false for it; its code is that of the bin."""
    spec = Spec.from_dict(PLAIN)
    generator = np.random.default_rng(0)
    ages, sizes = generator.integers(0, 20, 200), generator.integers(0, 6, 200)
    frame = pd.DataFrame({"age": ages.astype(str), "size": sizes.astype(str)})
    assert _largest_move(spec, frame, {"age": "39<", "size": "5"}) <= 1


def test_an_alternative_may_read_an_entry_that_the_rules_take_for_missing() -> None:
    age = {
        "name": "age",
        "kind": "integer",
        "minimum": 0,
        "maximum": 19,
        "missing": True,
        "missing_values": [99],
    }
    plain = PLAIN | {
        "schema": {"columns": [age, PLAIN["schema"]["columns"][1]]},
        "transformations": {
            "age": {"wide": {"minimum": 0, "maximum": 99, "missing": False, "missing_values": []}}
        },
    }  # fmt: skip
    spec = Spec.from_dict(plain)
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"age": generator.integers(0, 20, 200), "size": generator.integers(0, 6, 200)})
    assert _largest_move(spec, frame, {"age": 99, "size": 5}) <= 1


def _largest_move(spec: Spec, frame: pd.DataFrame, record: dict[str, Any]) -> float:
    """Replace a record by one that the rules do not exclude and whose codes they would; return what it does."""
    other = frame.copy()
    for name, entry in record.items():
        other.loc[0, name] = entry
    configuration = spec.configurations[0]
    one, two = (
        RecordTypes.from_table(Transformed(spec, table)._table(configuration)) for table in (frame, other)
    )
    assert one.rows == two.rows == len(frame)
    (criterion,) = spec.criteria_for(spec.schema_for(configuration))
    assert isinstance(criterion, RegressionCoefficients)
    support = criterion.regression.support
    assert support is not None
    assert not support[tuple(two.column(name) for name in criterion.regression.columns)].all()
    return abs(criterion.slack(one, one) - criterion.slack(two, one)) / criterion.slack_sensitivity(spec.unit)
