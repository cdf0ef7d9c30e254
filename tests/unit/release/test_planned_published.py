"""The plan of published criteria against a release: the births example with its criteria in the published form."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml

from understudy import datasets
from understudy.curator import Curator
from understudy.data import LocalTable, read_table
from understudy.privacy import Ledger, PureDP, SeededRandomness
from understudy.privacy.rows import PublicRows
from understudy.release import PredictionError, RecordTypes, RegressionCoefficients
from understudy.release.regressions.moments import RegressionMoments
from understudy.release.run.candidate import draw_candidate, fit_model
from understudy.release.run.judgement import fit_baseline
from understudy.release.run.planning import plan_release
from understudy.release.spec.spec import Spec

BIRTHS = Path(__file__).parents[3] / "examples" / "births"
ROWS, EPSILON = 20_000, 0.43


def births() -> Spec:
    plain = yaml.safe_load((BIRTHS / "spec.yaml").read_text(encoding="utf-8"))
    plain = copy.deepcopy(plain)
    plain["schema"] = str(BIRTHS / "schema.yaml")
    plain["source"]["simulate"]["rows"] = ROWS
    plain["public"]["expected_rows"] = ROWS
    criteria = plain["acceptance"]["criteria"]
    for item in criteria:
        if item["kind"] != "rare-records":
            item["epsilon"] = EPSILON
    plain["acceptance"] = {"form": "published", "criteria": criteria}
    plain["budget"] = {"total": {"epsilon": 7.46}, "model": {"epsilon": 4.0}}
    return Spec.from_dict(plain)


def test_planned_noise_is_that_of_a_release_on_the_births_example() -> None:
    """Within a factor of 1.5, criterion by criterion; the old plan was 300 times too pessimistic about means."""
    spec = births()
    table = datasets.load("births", ROWS, 7)[
        0
    ]  # another table of the same kind than the one that is planned with
    planned = {
        item.name: item for item in plan_release(spec, example=datasets.load("births", ROWS, 1)[0]).criteria
    }
    configuration = spec.configurations[0]
    private = read_table(table, spec.schema_for(configuration), prepare=spec.preparation)
    rows = private.exact_row_count()
    book = Ledger.in_memory(budget=PureDP(100.0), unit=spec.unit)
    curator = Curator(
        private, unit=spec.unit, ledger=book, rows=PublicRows.exactly(rows), randomness=SeededRandomness(5)
    )
    model = fit_model(spec, configuration, curator, progress=lambda stage, fraction: None)
    candidate = draw_candidate(spec, configuration, model, rows=rows, seed=3)
    compared = 0
    for criterion in spec.criteria_for(candidate.schema):
        plan = planned[criterion.name]
        if isinstance(criterion, RegressionCoefficients):
            moments = RegressionMoments(criterion.regression)
            released = moments.noise_quantiles(candidate.types, epsilon=EPSILON, unit=spec.unit, seed=9)[1]
        elif isinstance(criterion, PredictionError):
            released = np.median(
                [deviation(spec, criterion, private, candidate.types, seed) for seed in range(15)]
            )
        elif plan.noise_deviation is None:
            continue
        else:
            scale = criterion.sensitivity(spec.unit, rows, candidate.types) / EPSILON
            released = 2**0.5 * scale
        compared += 1
        assert plan.noise_deviation is not None
        assert 1 / 1.5 < plan.noise_deviation / released < 1.5, criterion.name
    assert compared == 8


def deviation(
    spec: Spec, criterion: PredictionError, private: LocalTable, types: RecordTypes, seed: int
) -> float:
    """Return the noise of a published prediction error, after a private regression of the real table."""
    rows = private.exact_row_count()
    book = Ledger.in_memory(budget=PureDP(EPSILON), unit=spec.unit)
    curator = Curator(
        private, unit=spec.unit, ledger=book, rows=PublicRows.exactly(rows), randomness=SeededRandomness(seed)
    )
    baseline = fit_baseline(spec, criterion.regression, curator, rows=rows, epsilon=EPSILON)
    return 2**0.5 * replace(criterion, baseline=baseline).sensitivity(spec.unit, rows, types) / EPSILON
