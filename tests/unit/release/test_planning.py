"""Plans: noise against thresholds before any data, and warnings where noise decides."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from spec_examples import CRITERIA, fitting_spec, published, small_spec

from understudy.release.run.planning import ReleasePlan, plan_release


def planned(**changes: Any) -> ReleasePlan:
    return plan_release(small_spec(**changes), rows=100_000)


def by_name(plan: ReleasePlan) -> dict[str, Any]:
    return {item.name: item for item in plan.criteria}


def test_a_plan_opens_no_data_and_is_plain() -> None:
    plan = planned(acceptance__criteria=CRITERIA)
    document = json.loads(json.dumps(plan.to_dict()))
    assert document["configurations"] == 1
    assert document["budget"] == "epsilon=5 = model epsilon=4, acceptance epsilon=1"
    assert document["slack_threshold"] == pytest.approx(math.log(10), rel=1e-3)
    assert document["attempts"][0] == {"acceptance": 0.1, "expected_attempts": 1.0, "success": 0.1}
    assert plan.single
    assert plan.seconds_per_attempt is not None
    assert plan.memory_megabytes is not None


def test_the_pass_only_form_is_planned_in_records() -> None:
    plan = by_name(planned(acceptance__criteria=CRITERIA))
    cells = plan["cells"]
    assert cells.noise_deviation == pytest.approx(math.sqrt(2), rel=1e-3)
    assert cells.room == pytest.approx(30_000)
    assert cells.accepted_below == pytest.approx(0.3 - 2 * math.log(10) / 100_000, rel=1e-3)
    assert cells.false_reject < 1e-9
    assert plan["factor"].needs == "7 rows in the rarest value"
    assert "smallest group" in plan["mean size"].needs
    assert plan["line"].needs == "depends on the table; rehearse"
    assert plan["rare"].form == "public"
    assert not any(item.noise_dominated for item in plan.values())


def test_a_table_that_is_too_small_for_the_test_is_warned_about() -> None:
    spec = small_spec(acceptance__epsilon=0.01, budget__total={"epsilon": 4.01})
    plan = plan_release(spec, rows=600)
    assert by_name(plan)["cells"].noise_dominated
    assert any("cells: noise dominates" in warning for warning in plan.warnings)


def test_published_errors_are_planned_in_their_own_units() -> None:
    plan = by_name(planned(**published(0.01)))
    cells = plan["cells"]
    assert cells.sensitivity == pytest.approx(1e-5)
    assert cells.noise_deviation == pytest.approx(math.sqrt(2) * 1e-3)
    assert cells.false_accept == cells.false_reject == pytest.approx(0.5 * math.exp(-150))
    assert cells.recommended_threshold == pytest.approx(0.3 - 1e-3 * math.log(10), rel=1e-6)
    assert plan["factor"].noise_dominated  # paper Births, section 4.5.2: a rare value moves it much
    assert "exponential" in plan["median size"].needs
    assert "noise alone" in plan["line"].needs
    assert plan["prediction"].sensitivity == pytest.approx(2 * 4 / 100_000)


def test_noise_of_a_private_regression_is_shown_before_it_is_paid_for() -> None:
    changes = published(0.001)
    warned = plan_release(small_spec(**changes), rows=500)
    assert by_name(warned)["line"].noise_dominated
    assert not by_name(planned(**published(1.0)))["line"].noise_dominated


def test_without_a_number_of_rows_the_plan_says_so() -> None:
    plan = plan_release(small_spec())
    assert plan.rows is None
    assert any("give --rows" in warning for warning in plan.warnings)
    assert by_name(plan)["cells"].room is None
    assert plan_release(small_spec(public={"expected_rows": 700})).rows == 700
    simulated = {"simulate": {"table": "toy", "rows": 300}}
    assert plan_release(small_spec(source=simulated)).rows == 300


def test_loops_are_planned_with_their_price_and_their_risk() -> None:
    spec = fitting_spec(selection={"rule": "until-accepted", "gamma": 0})
    plan = plan_release(spec, rows=1000)
    assert plan.argument == "repeat until success (Liu and Talwar)"
    assert any("never ends" in warning for warning in plan.warnings)
    assert plan.attempts[0][1] == pytest.approx(10.0)
    assert not plan.single


def test_configurations_that_are_left_out_come_with_reasons() -> None:
    plan = planned(
        synthesizers=[
            {"method": "gaussian", "options": {"workload": "all-2way", "max_cells": [3, 1000]}},
            {"method": "hdmm-pgm", "options": {"norm": ["l1", "l9"], "workload": "all-1way"}},
        ]
    )
    assert plan.configurations == 2
    assert len(plan.left_out) == 2
    assert len(plan.models) == 2
    assert all(model.model_megabytes > 0 for model in plan.models)


def test_declarations_are_pointed_out() -> None:
    cleaned = plan_release(small_spec(cleaning=["age > 3"], public={"row_count": "declared"}), rows=10)
    assert any("declared public" in warning for warning in cleaned.warnings)
    chosen = plan_release(small_spec(cleaning=["age > 3"], output={"rows": 90}))
    assert any("is a guess" in warning for warning in chosen.warnings)
