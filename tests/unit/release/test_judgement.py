"""One attempt: candidates, both forms of acceptance, private regressions, and what reaches the ledger."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from spec_examples import CRITERIA, people, published, small_spec

from understudy.curator import Curator
from understudy.errors import ConstraintError, DataError
from understudy.mechanisms import no_progress
from understudy.privacy import Ledger, PureDP, Unit
from understudy.release import RegressionCoefficients
from understudy.release.look import seal_numbers
from understudy.release.regressions.fits import LinearFit
from understudy.release.result import Configuration
from understudy.release.run.candidate import Candidate, draw_candidate, fit_model
from understudy.release.run.judgement import baseline_key, fit_baseline, judge
from understudy.release.run.transform import Transformed, neighbours
from understudy.release.spec.spec import Spec

LINE = (CRITERIA[6]["target"], *CRITERIA[6]["features"])
"""The columns of the private regression."""


def attempt(
    spec: Spec, source: Any = None, budget: float = 1000.0, baselines: Any = None
) -> tuple[Candidate, Curator]:
    ledger = Ledger.in_memory(budget=PureDP(budget), unit=spec.unit)
    data = Transformed(spec, people() if source is None else source)
    configuration = spec.configurations[0]
    if spec.row_count.kind == "measured":
        data.rows = 600
    curator = data.curator(configuration, ledger, scope="test")
    model = fit_model(spec, configuration, curator, progress=no_progress)
    return draw_candidate(spec, configuration, model, rows=600, seed=1), curator


# ---------------------------------------------------------------------- candidates


def test_a_candidate_has_the_rows_the_rules_and_the_projection() -> None:
    spec = small_spec(constraints=["not (age < 20 and size == 5)", "size < 5 or sex == 'f'"])
    candidate, _ = attempt(spec)
    assert candidate.types.rows == 600
    assert candidate.types.counts.min() >= 2
    columns = {name: candidate.types.column(name) for name in candidate.schema.names}
    assert candidate.schema.holds_codes(columns).all()
    frame = candidate.frame(seed=5)
    assert frame.shape == (600, 3)
    assert set(frame["age"]) <= {"<20", "20-39", "40-59", "59<"}
    assert frame.equals(candidate.frame(seed=5))
    assert candidate.schema.row_count == 600


def test_the_public_seed_fixes_everything_after_the_fit() -> None:
    spec = small_spec()
    ledger = Ledger.in_memory(budget=PureDP(9.0), unit=spec.unit)
    configuration = spec.configurations[0]
    curator = Transformed(spec, people()).curator(configuration, ledger)
    model = fit_model(spec, configuration, curator, progress=no_progress)
    first, second = (draw_candidate(spec, configuration, model, rows=600, seed=7) for _ in range(2))
    assert np.array_equal(first.types.codes, second.types.codes)
    other = draw_candidate(spec, configuration, model, rows=600, seed=8)
    assert first.types.codes.shape != other.types.codes.shape or not np.array_equal(
        first.types.counts, other.types.counts
    )


def test_rules_that_reject_what_the_model_draws_end_in_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.mechanisms import drawing as _drawing

    monkeypatch.setattr(_drawing, "_MAX_ATTEMPTS", 2)
    spec = small_spec(
        constraints=["age < 20 and size == 5 and sex == 'f'"],
        synthesizers=[{"method": "independent"}],
    )
    source = people()
    source["age"], source["size"] = 70, 1
    with pytest.raises(ConstraintError, match="reject nearly every record"):
        attempt(spec, source)


# ---------------------------------------------------------------------- the pass-only form


def test_one_bit_is_released_for_all_criteria_and_charged_once() -> None:
    spec = small_spec(acceptance__criteria=CRITERIA)
    candidate, curator = attempt(spec)
    before = len(curator.ledger.entries())
    judgement = judge(spec, candidate, curator, {})
    charges = [entry for entry in curator.ledger.entries()[before:] if entry.event is not None]
    assert [entry.purpose for entry in charges] == ["test all acceptance criteria at once"]
    assert charges[0].scope == "test/acceptance"
    assert charges[0].costs["pure"] <= 1.0
    assert charges[0].costs["pure"] == pytest.approx(1.0, rel=1e-3)
    assert len(judgement.criteria) == len(CRITERIA)
    for result in judgement.criteria:
        if result.form == "public":
            assert result.value is not None
        else:
            assert (result.value, result.mechanism, result.epsilon) == (None, "slack test", None)
            assert result.sensitivity == pytest.approx(1.0, abs=1e-5)
            assert result.passed == judgement.passed
    assert judgement.acceptance.slack_threshold == pytest.approx(math.log(10), rel=1e-3)


def test_the_test_decides_by_slack() -> None:
    """With much budget a good candidate always passes and a bad one never does."""
    good = small_spec(acceptance__epsilon=96.0, budget__total={"epsilon": 100})
    bad = small_spec(
        acceptance__epsilon=96.0,
        budget__total={"epsilon": 100},
        synthesizers=[{"method": "independent"}],
        acceptance__criteria__0__threshold=0.001,
    )
    for spec, wanted in ((good, True), (bad, False)):
        candidate, curator = attempt(spec)
        assert judge(spec, candidate, curator, {}).passed is wanted


def test_a_candidate_that_fails_a_public_criterion_costs_no_second_look() -> None:
    spec = small_spec(
        projections=[{"kind": "none"}],
        acceptance__criteria=[
            {"name": "cells", "kind": "max-marginal-error", "threshold": 0.2},
            {"name": "all common", "kind": "rare-records", "min_count": 500},
        ],
    )
    candidate, curator = attempt(spec)
    before = curator.ledger.spent
    judgement = judge(spec, candidate, curator, {})
    assert not judgement.passed
    assert curator.ledger.spent == before
    public = next(result for result in judgement.criteria if result.form == "public")
    assert public.value is not None
    assert not public.passed


def test_public_criteria_alone_cost_nothing() -> None:
    spec = small_spec(
        acceptance={"form": "pass-only", "criteria": [{"name": "rare", "kind": "rare-records"}]},
        budget__total={"epsilon": 4},
    )
    candidate, curator = attempt(spec)
    before = curator.ledger.spent
    assert judge(spec, candidate, curator, {}).passed
    assert curator.ledger.spent == before


# ---------------------------------------------------------------------- the published form


def test_published_errors_are_close_to_the_exact_ones_when_much_is_spent() -> None:
    spec = small_spec(**published(1000.0))
    candidate, curator = attempt(spec, budget=50_000.0)
    item = next(item for item in spec.criteria if item.kind == "regression-coefficients")
    criteria = spec.criteria_for(candidate.schema)
    line = next(item for item in criteria if isinstance(item, RegressionCoefficients))
    baseline = fit_baseline(spec, line.regression, curator, rows=600, epsilon=1000.0)
    key = baseline_key(item.regression_columns, candidate.configuration.transformations)
    judgement = judge(spec, candidate, curator, {key: baseline})
    assert judgement.passed
    from understudy.release import RecordTypes

    exact: dict[str, float] = {}

    def peek(table: Any) -> list[float]:
        real = RecordTypes.from_table(table)
        exact.update({item.name: item.value(real, candidate.types) for item in criteria})
        return [0.0]

    seal_numbers(curator, peek, sensitivities=[1.0])
    mechanisms = {result.name: result.mechanism for result in judgement.criteria}
    assert mechanisms["median size"] == "exponential"
    assert mechanisms["line"] == "functional"
    assert mechanisms["cells"] == "laplace"
    assert mechanisms["rare"] == "none"
    for result in judgement.criteria:
        assert result.value is not None
        if result.kind != "conditional-means":  # resized means differ from plain ones
            assert result.value == pytest.approx(exact[result.name], abs=0.02), result.name


def test_published_errors_are_charged_one_by_one_within_their_share() -> None:
    spec = small_spec(**published(0.25))
    candidate, curator = attempt(spec)
    key = baseline_key(LINE, {})
    before = len(curator.ledger.entries())
    judgement = judge(spec, candidate, curator, {key: LinearFit(1.0, (0.05, 0.0))})
    charges = [entry for entry in curator.ledger.entries()[before:] if entry.event is not None]
    if all(
        result.passed
        for result in judgement.criteria
        if result.form == "public" or result.kind.startswith("reg")
    ):
        assert len(charges) == 9
        assert all(entry.costs["pure"] <= 0.25 for entry in charges)
        assert judgement.acceptance.epsilon == pytest.approx(2.25)


def test_a_bad_regression_rejects_before_anything_more_is_spent() -> None:
    spec = small_spec(**published(0.25))
    candidate, curator = attempt(spec)
    before = curator.ledger.spent
    key = baseline_key(LINE, {})
    judgement = judge(spec, candidate, curator, {key: LinearFit(100.0, (9.0, 9.0))})
    assert not judgement.passed
    assert curator.ledger.spent == before


def test_a_private_regression_costs_its_share_and_not_more() -> None:
    spec = small_spec(**published(0.25))
    candidate, curator = attempt(spec)
    criteria = spec.criteria_for(candidate.schema)
    line = next(item for item in criteria if isinstance(item, RegressionCoefficients))
    before = curator.ledger.spent
    fit_baseline(spec, line.regression, curator, rows=600, epsilon=0.25)
    spent = curator.ledger.spent - before
    assert 0.2499 < spent <= 0.25


# ---------------------------------------------------------------------- neighbours and rows


def test_a_cleaned_table_of_unknown_size_reckons_with_additions_and_removals() -> None:
    measured = {"public": {"row_count": {"epsilon": 0.5}}, "budget__total": {"epsilon": 5.5}}
    assert neighbours(small_spec()) == (Unit.replace_one(),)
    assert neighbours(small_spec(**measured)) == (Unit.replace_one(),)
    cleaned = small_spec(cleaning=["age >= 5"], **measured)
    assert neighbours(cleaned) == (Unit.replace_one(), Unit.add_remove())
    declared = small_spec(cleaning=["age >= 5"], public={"row_count": "declared"})
    assert neighbours(declared) == (Unit.replace_one(),)


def test_a_share_may_change_by_a_record_that_is_left_out() -> None:
    """All scores are 1 for the records that are left: replacing changes nothing, leaving one out does."""
    spec = small_spec(
        cleaning=["age >= 5"],
        acceptance={
            "form": "published",
            "criteria": [
                {"name": "all", "kind": "share", "rule": "size >= 1", "threshold": 0.5, "epsilon": 1.0}
            ],
        },
        public={"row_count": {"epsilon": 0.5}},
        budget={"total": {"epsilon": 5.5}, "model": {"epsilon": 4}},
    )
    candidate, curator = attempt(spec)
    judgement = judge(spec, candidate, curator, {})
    assert judgement.criteria[0].sensitivity == pytest.approx(1 / 600, rel=1e-4)


def test_a_share_that_nobody_can_change_is_released_all_the_same() -> None:
    """Every possible record obeys the rule and the number of rows is public: the sensitivity is zero."""
    rule = {"name": "all", "kind": "share", "rule": "size >= 1", "threshold": 0.5, "epsilon": 1.0}
    spec = small_spec(
        acceptance={"form": "published", "criteria": [rule]},
        budget={"total": {"epsilon": 5}, "model": {"epsilon": 4}},
    )
    candidate, curator = attempt(spec)
    (criterion,) = spec.criteria_for(candidate.schema)
    assert criterion.sensitivity(spec.unit, 600, candidate.types) == 0
    before = curator.spent
    judgement = judge(spec, candidate, curator, {})
    assert judgement.passed
    assert judgement.criteria[0].value == pytest.approx(0.0, abs=1e-9)
    assert curator.spent - before <= 1.0 + 1e-9


def test_a_declared_number_of_rows_must_be_the_right_one() -> None:
    configuration = Configuration(method="gaussian")
    right = small_spec(cleaning=["age >= 20"], public={"row_count": "declared"})
    data = Transformed(right, people())
    ledger = Ledger.in_memory(budget=PureDP(9.0), unit=right.unit)
    known = data.curator(configuration, ledger).rows.number
    assert known is not None
    assert known < 600
    wrong = small_spec(cleaning=["age >= 20"], public={"row_count": 600})
    anew = Ledger.in_memory(budget=PureDP(9.0), unit=right.unit)
    with pytest.raises(DataError, match="row_count") as caught:
        Transformed(wrong, people()).curator(configuration, anew)
    assert str(known) not in str(caught.value)


def test_a_specification_without_a_source_needs_one() -> None:
    spec = small_spec(source={"table": "people"})
    with pytest.raises(DataError, match="names no file"):
        Transformed(spec)
    assert "records not shown" in repr(Transformed(spec, people()))


def test_each_transformation_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.release.run import transform

    reads = []
    original = transform.read_table

    def counting(*args: Any, **words: Any) -> Any:
        reads.append(1)
        return original(*args, **words)

    monkeypatch.setattr(transform, "read_table", counting)
    spec = small_spec(transformations={"age": {"a": None, "b": {"bins": ["<40", "39<"]}}})
    data = Transformed(spec, people())
    ledger = Ledger.in_memory(budget=PureDP(9.0), unit=spec.unit)
    for configuration in (*spec.configurations, *spec.configurations):
        data.curator(configuration, ledger)
    assert len(reads) == 2
