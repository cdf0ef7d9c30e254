"""Private regressions of the published form: where they are fitted, how often they are charged, and what they depend on."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spec_examples import CRITERIA, people, published, small, small_spec

from understudy.errors import BudgetError, SchemaError, WorkloadError
from understudy.mechanisms import no_progress
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.release import ConditionalMeans, RegressionCoefficients, largest_moves
from understudy.release.bundle.bundle import write_bundle
from understudy.release.bundle.verify import verify_bundle
from understudy.release.criteria.groups import code_values
from understudy.release.neighbours import neighbouring_tables
from understudy.release.regressions.fits import LinearFit
from understudy.release.regressions.moments import RegressionMoments
from understudy.release.rehearsal.rehearsal import narrowed_plain
from understudy.release.result import ReleaseResult
from understudy.release.run import candidate
from understudy.release.run import run as running
from understudy.release.run.candidate import draw_candidate, fit_model
from understudy.release.run.judgement import baseline_key, judge, private_regressions, regressions_for
from understudy.release.run.planning import plan_release
from understudy.release.run.run import run_release
from understudy.release.run.transform import Transformed
from understudy.release.run.work import Work
from understudy.release.spec.spec import Spec
from understudy.schema import Integer, Real

PAPER = Path(__file__).parents[3] / "examples" / "births" / "paper.yaml"
ONE: dict[str, Any] = {"as it is": None}
TWO: dict[str, Any] = {**ONE, "halves": {"bins": ["<40", "39<"]}}
THREE: dict[str, Any] = {**TWO, "decades": {"bins": ["<20", "20-29", "30-39", "40-59", "59<"]}}
TWICE: dict[str, Any] = {
    **ONE,
    "the same": {"bins": ["<20", "20-39", "40-59", "59<"], "description": "again"},
}
LOOP = {"rule": "until-accepted", "gamma": 0}


def loop(alternatives: dict[str, Any], epsilon: float = 20.0, total: float | None = None) -> Spec:
    """The small specification with every criterion published, in a loop over some ways to bin the age."""
    plain = small(**published(epsilon), transformations={"age": alternatives}, selection=LOOP)
    plain["budget"] = {"total": {"epsilon": total or 10_000.0}, "model": {"epsilon": 4.0}}
    return Spec.from_dict(plain)


def epsilon(spec: Spec) -> float:
    assert isinstance(spec.shares.promise, PureDP)
    return spec.shares.promise.epsilon


def charged(path: Path) -> list[tuple[str, float]]:
    with Ledger.open(path) as book:
        return [
            (e.purpose.split(":")[0], e.costs.get("pure", 0.0)) for e in book.entries() if e.event is not None
        ]


# ---------------------------------------------------------------------- where and how often


@pytest.mark.parametrize(
    ("alternatives", "outside", "inside", "needed"),
    [
        (ONE, (20.0,), (), 2 * 184 + 20),
        (TWO, (20.0, 20.0), (), 2 * 184 + 40),
        (THREE, (), (20.0,), 2 * 204),
    ],
    ids=["one", "two", "three"],
)
def test_plan_and_ledger_charge_each_regression_where_it_costs_least(
    alternatives: dict[str, Any], outside: Any, inside: Any, needed: float, tmp_path: Path
) -> None:
    """Outside once per set of columns, or inside the attempts; 0.1.0 knew the former only."""
    spec = loop(alternatives)
    assert (spec.shares.baselines, spec.shares.regressions) == (outside, inside)
    assert epsilon(spec) == pytest.approx(needed)
    assert loop(alternatives, total=needed).shares.fits
    with pytest.raises(SchemaError, match=f"parts need epsilon={needed:g}"):
        loop(alternatives, total=needed - 0.1)
    plan = plan_release(spec, rows=600)
    assert plan.guarantee.startswith(f"epsilon={needed:g} ")
    assert ("Each attempt fits its own" in plan.acceptance) == bool(inside)
    assert (f"each distinct set of columns ({len(outside)})" in plan.acceptance) == bool(outside)

    ledger = tmp_path / "people.ledger"
    result = run_release(spec, ledger=ledger, source=people(), randomness=SeededRandomness(1))
    assert isinstance(result, ReleaseResult)
    entries = charged(ledger)
    fits = [cost for purpose, cost in entries if purpose == "fit a private regression"]
    assert fits == pytest.approx(list(outside), rel=1e-5)
    assert [purpose for purpose, _ in entries if purpose != "fit a private regression"] == [
        "private selection"
    ]
    assert sum(cost for _, cost in entries) == pytest.approx(needed, rel=1e-5)
    assert all(item.value is not None and item.passed for item in result.criteria)
    assert result.acceptance is not None
    assert result.acceptance.epsilon == pytest.approx(180.0 + sum(inside))
    assert verify_bundle(write_bundle(result, tmp_path / "bundle"))["guarantee"]["budget"] == (
        result.guarantee.budget.to_dict()
    )


def test_a_single_attempt_fits_the_one_version_it_drew(tmp_path: Path) -> None:
    plain = small(**published(20.0), transformations={"age": THREE})
    plain["budget"] = {"total": {"epsilon": 204.0}, "model": {"epsilon": 4.0}}
    spec, ledger = Spec.from_dict(plain), tmp_path / "people.ledger"
    assert (spec.shares.baselines, spec.shares.regressions) == ((20.0,), ())
    run_release(spec, ledger=ledger, source=people())
    assert [purpose for purpose, _ in charged(ledger)].count("fit a private regression") == 1


def test_criteria_about_the_same_columns_share_a_regression_and_its_charge(tmp_path: Path) -> None:
    """It is fitted for the largest of their epsilons; 0.1.0 reserved the sum and fitted for the first."""
    changes = published(20.0)
    criteria = copy.deepcopy(changes["acceptance"]["criteria"])
    line = next(item for item in criteria if item["kind"] == "regression-coefficients")
    criteria += [line | {"name": "line, strictly", "threshold": 2.0, "epsilon": 30.0}]
    changes["acceptance"]["criteria"] = criteria
    changes["budget"]["total"] = {"epsilon": 4 + 180 + 30}
    spec, ledger = small_spec(**changes), tmp_path / "people.ledger"
    assert spec.shares.baselines == (30.0,)
    result = run_release(spec, ledger=ledger, source=people())
    fits = [cost for purpose, cost in charged(ledger) if purpose == "fit a private regression"]
    assert fits == pytest.approx([30.0], rel=1e-5)
    values = {item.name: item.value for item in result.criteria}
    assert values["line"] == values["line, strictly"]


def test_regressions_are_distinct_by_labels_as_in_version_01() -> None:
    """0.1.0 charged for each label; a release that it began must find its fits, and promise no less than they cost."""
    spec = loop({**TWICE, **TWO})
    (needed,) = private_regressions(spec.criteria, spec.transformations)
    assert (needed.columns, needed.versions) == (("size", "age", "sex"), len({**TWICE, **TWO}))
    keys = {
        configuration.transformations["age"]: regressions_for(spec, configuration)[0][0]
        for configuration in spec.configurations
    }
    assert keys["the same"] == ("size=", "age=the same", "sex=")
    assert keys["halves"] == baseline_key(needed.columns, {"age": "halves"})
    assert len(set(keys.values())) == needed.versions


def test_labels_that_look_alike_when_joined_have_regressions_of_their_own(tmp_path: Path) -> None:
    """Fails on 0.1.0: joined by "; " two of these four are one text, and one version was judged by the regression of another."""
    plain = small(
        **published(20.0),
        transformations={"age": {"a": None, "a; sex=b": None}, "sex": {"c": None, "b; sex=c": None}},
        selection=LOOP,
    )
    plain["budget"] = {"total": {"epsilon": 10_000.0}, "model": {"epsilon": 4.0}}
    spec, ledger = Spec.from_dict(plain), tmp_path / "people.ledger"
    assert spec.shares.shared is not None
    outside = replace(spec, shares=spec.shares.shared)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running.Release, "_attempt", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_release(outside, ledger=ledger, source=people())
    assert [purpose for purpose, _ in charged(ledger)].count("fit a private regression") == 4


def test_a_narrowed_space_pays_for_the_regressions_it_has_left(tmp_path: Path) -> None:
    """Three versions cost 40 inside; of the one that is left, 20 are needed outside."""
    spec = loop(THREE, total=408.0)
    one = next(item for item in spec.configurations if item.transformations["age"] == "halves")
    plain, _ = narrowed_plain(spec, [(one, 1.0)], folder=tmp_path)
    assert plain["budget"]["total"]["epsilon"] == pytest.approx(388.0)
    assert Spec.from_dict(plain).shares.baselines == (20.0,)


# ---------------------------------------------------------------------- inside an attempt


def judged(spec: Spec, baselines: Any = None) -> tuple[Any, list[tuple[str, float]]]:
    """Judge one candidate of a specification; return the judgement and what it was charged for."""
    book = Ledger.in_memory(budget=spec.shares.attempt, unit=spec.unit)
    configuration = spec.configurations[0]
    curator = Transformed(spec, people()).curator(configuration, book, randomness=SeededRandomness(2))
    model = fit_model(spec, configuration, curator, progress=no_progress)
    candidate = draw_candidate(spec, configuration, model, rows=600, seed=1)
    before = len(book.entries())
    judgement = judge(spec, candidate, curator, baselines or {})
    return judgement, [(e.purpose, e.costs["pure"]) for e in book.entries()[before:] if e.event is not None]


def changed(spec: Spec, kind: str, **entries: Any) -> Spec:
    """The same specification with other entries in its criteria of one kind; its budget stays as it was divided."""
    acceptance = spec.file.acceptance
    criteria = [
        item.model_copy(update=entries) if item.kind == kind else item for item in acceptance.criteria
    ]
    parts = {"acceptance": acceptance.model_copy(update={"criteria": criteria})}
    return replace(spec, file=spec.file.model_copy(update=parts))


def test_an_attempt_charges_its_regression_first_and_all_within_its_share() -> None:
    spec = loop(THREE)
    judgement, charges = judged(spec)
    assert judgement.passed
    assert [purpose for purpose, _ in charges].index("fit a private regression") == 0
    assert len(charges) == 10
    assert sum(cost for _, cost in charges) <= spec.shares.judging == 200.0
    assert spec.shares.attempt == PureDP(204.0)


def test_a_candidate_that_fails_a_public_criterion_is_rejected_without_a_regression() -> None:
    spec = loop(THREE)
    judgement, charges = judged(changed(spec, "rare-records", min_count=400))
    assert not judgement.passed
    assert charges == []
    assert all(item.value is None for item in judgement.criteria if item.form != "public")


def test_a_bad_regression_rejects_before_more_than_itself_is_spent() -> None:
    spec = loop(THREE)
    judgement, charges = judged(changed(spec, "regression-coefficients", threshold=1e-9))
    assert not judgement.passed
    assert [purpose for purpose, _ in charges] == ["fit a private regression"]


def test_nothing_is_looked_at_if_nothing_is_set_aside_for_judging() -> None:
    """Fails on 0.1.0: criteria, those of other packages among them, were handed a curator without a limit."""
    spec = loop(ONE)
    free = replace(spec, shares=replace(spec.shares, acceptance=0.0))
    with pytest.raises(BudgetError, match="sets no epsilon aside"):
        judged(free, {("size=", "age=as it is", "sex="): LinearFit(1.0, (0.05, 0.0))})


# ---------------------------------------------------------------------- begun by version 0.1


def test_a_loop_that_version_01_began_goes_on_with_the_regressions_it_paid_for(tmp_path: Path) -> None:
    """It had fitted all three outside: they are neither fitted again nor charged again, inside or out."""

    def stopped(*args: Any, **words: Any) -> None:
        raise KeyboardInterrupt

    spec, ledger = loop(THREE, total=428.0), tmp_path / "people.ledger"
    assert spec.shares.shared is not None
    old = replace(spec, shares=spec.shares.shared)
    assert epsilon(old) == pytest.approx(2 * 184 + 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidate, "fit_model", stopped)
        with pytest.raises(KeyboardInterrupt):
            run_release(old, ledger=ledger, source=people(), randomness=SeededRandomness(1))
    before = charged(ledger)
    assert [purpose for purpose, _ in before] == ["fit a private regression"] * 3 + ["private selection"]
    result = run_release(spec, ledger=ledger, source=people(), randomness=SeededRandomness(3))
    assert isinstance(result, ReleaseResult)
    assert charged(ledger) == before
    assert result.guarantee.budget == old.shares.promise
    document = verify_bundle(write_bundle(result, tmp_path / "bundle"))
    assert document["guarantee"]["budget"]["epsilon"] == pytest.approx(428.0)


@pytest.mark.parametrize("begun", ["now", "by version 0.1"])
def test_an_approximate_loop_verifies_with_its_regressions_in_either_place(
    begun: str, tmp_path: Path
) -> None:
    """Bounds on the trade-off are proved from the parts as they were charged."""

    def stopped(*args: Any, **words: Any) -> None:
        raise KeyboardInterrupt

    ages = ONE | {f"at {age}": {"bins": [f"<{age}", f"{age - 1}<"]} for age in range(25, 55)}
    plain = small(**published(2.0), transformations={"age": ages})
    plain["selection"] = {"rule": "until-accepted", "gamma": 0.01}
    for item in plain["acceptance"]["criteria"]:
        item |= {"by": ["everyone"]} if item["kind"] == "conditional-means" else {}
        item |= {"threshold": 9.0} if item["kind"] == "regression-coefficients" else {}
    plain["budget"] = {"total": {"epsilon": 400, "delta": 1e-5}, "model": {"epsilon": 4, "delta": 1e-6}}
    spec, ledger = Spec.from_dict(plain), tmp_path / "people.ledger"
    assert spec.shares.regressions == (2.0,)
    assert spec.shares.shared is not None
    assert spec.shares.shared.baselines == (2.0,) * 31
    paid = spec if begun == "now" else replace(spec, shares=spec.shares.shared)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidate, "fit_model", stopped)
        with pytest.raises(KeyboardInterrupt):
            run_release(paid, ledger=ledger, source=people(), randomness=SeededRandomness(0))
    before = charged(ledger)
    assert len(before) == (1 if begun == "now" else 32)
    result = run_release(spec, ledger=ledger, source=people(), randomness=SeededRandomness(0))
    assert isinstance(result, ReleaseResult)
    assert len(charged(ledger)) == len(before)
    assert result.guarantee.budget == paid.shares.promise
    verify_bundle(write_bundle(result, tmp_path / "bundle"))


def test_a_loop_stopped_between_two_regressions_fits_only_the_other(tmp_path: Path) -> None:
    """What was paid for and journalled is reused; versions of two sets of columns are shared by attempts."""
    spec, ledger = loop(TWO), tmp_path / "people.ledger"
    original = Work._curator

    def second(self: Any, data: Any, configuration: Any, place: str) -> Any:
        if place == "baseline 1":
            raise KeyboardInterrupt
        return original(self, data, configuration, place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Work, "_curator", second)
        with pytest.raises(KeyboardInterrupt):
            run_release(spec, ledger=ledger, source=people())
    assert len(charged(ledger)) == 1
    run_release(spec, ledger=ledger, source=people())
    assert [purpose for purpose, _ in charged(ledger)].count("fit a private regression") == 2


# ---------------------------------------------------------------------- numbers of open bins


def test_open_bins_count_as_the_number_in_their_label_by_the_printed_rule() -> None:
    """Paper Births, 4.5.3: '>10' is 10. By default it is 11, the smallest value that the bin can hold."""
    parity = Integer("parity", bins=["1", "2-3", "4-6", "7-10", "10<"])
    assert parity.midpoints.tolist() == [1.0, 2.5, 5.0, 8.5, 11.0]
    assert parity.written_midpoints.tolist() == [1.0, 2.5, 5.0, 8.5, 10.0]
    week = Integer("week", bins=["<29", "29-31", "32-41", ">=42"])
    assert week.written_midpoints.tolist() == [29.0, 30.0, 36.5, 42.0]
    edges = Integer("age", bins={"edges": [20, 40], "open": "both"})
    assert edges.written_midpoints.tolist() == [20.0, 29.5, 40.0]
    real = Real("r", bins=["<0", "[0, 10)", "10<="])
    assert real.written_midpoints.tolist() == real.midpoints.tolist() == [0.0, 5.0, 10.0]
    bounded = Integer("age", minimum=12, maximum=60, bins=["<18", "18-50", "50<"])
    assert bounded.written_midpoints.tolist() == bounded.midpoints.tolist() == [14.5, 34.0, 55.5]
    plain = Integer("age", minimum=1, maximum=3)
    assert plain.written_midpoints.tolist() == [1.0, 2.0, 3.0]


def test_written_numbers_that_turn_the_order_round_are_refused() -> None:
    """``<40`` is 40 by the printed rule and ``39<`` is 39: the young would count as older than the old."""
    column = Integer("age", bins=("<40", "39<"))
    assert code_values(column) == (39.0, 40.0)
    with pytest.raises(WorkloadError, match="do not rise"):
        code_values(column, "written")


@pytest.mark.parametrize(
    "unit", [Unit.replace_one(), Unit.add_remove(), Unit.add_remove_person("id", max_rows=3)]
)
def test_no_unit_moves_written_numbers_further_than_claimed(unit: Unit, seed: int) -> None:
    """Moments and means, on random neighbouring tables; half of a claim would have been caught."""
    changes = published(1.0)
    changes["acceptance"]["criteria"][4] |= {"column": "age", "by": ["everyone", "sex"]}
    spec = small_spec(**changes, acceptance__open_bins="written")
    criteria = spec.criteria_for(spec.schema)
    line = next(item for item in criteria if isinstance(item, RegressionCoefficients))
    assert line.regression.features[0].values == (20.0, 29.5, 49.5, 59.0)
    moments = RegressionMoments(line.regression)
    claimed = moments.sensitivities(unit)
    worst = np.zeros(len(claimed))
    generator = np.random.default_rng(seed)
    for real, neighbour, _ in neighbouring_tables(
        spec.schema.domain, unit, rows=12, pairs=400, generator=generator
    ):
        moved = np.abs(
            np.array(
                [
                    float(one - two)
                    for one, two in zip(moments.exact(real), moments.exact(neighbour), strict=True)
                ]
            )
        )
        assert np.all(moved <= claimed)
        worst = np.maximum(worst, moved / np.where(claimed > 0, claimed, 1.0))
    assert np.all(worst[claimed > 0] > 0.5)
    mean = next(item for item in criteria if isinstance(item, ConditionalMeans))
    assert mean.values == (20.0, 29.5, 49.5, 59.0)
    assert largest_moves(mean, spec.schema.domain, unit=unit, pairs=200).value <= 1


def test_written_numbers_are_a_choice_with_a_fingerprint_of_its_own() -> None:
    usual, written = small_spec(), small_spec(acceptance__open_bins="written")
    stated = small_spec(acceptance__open_bins="nearest")
    assert usual.choices_fingerprint() == stated.choices_fingerprint() != written.choices_fingerprint()
    with pytest.raises(SchemaError, match="open_bins"):
        small_spec(acceptance__open_bins="middle")


def test_an_exception_may_name_a_number_inside_a_bin() -> None:
    """Paper Births, footnote 5: a bin that 37 divides must match, in whichever transformation there is one."""

    def exceptions(bins: list[str], given: list[Any]) -> Any:
        plain = small(schema__columns__1__bins=bins, acceptance__criteria=[dict(CRITERIA[8])])
        plain["acceptance"]["criteria"][0]["exceptions"] = {"age": given}
        (criterion,) = Spec.from_dict(plain).criteria_for(Spec.from_dict(plain).schema)
        return dict(criterion.similarity.exceptions)  # type: ignore[attr-defined]

    assert exceptions(["<20", "20-34", "35-39", "39<"], [37])["age"] == (2,)
    assert not exceptions(["<20", "20-36", "37-39", "39<"], [37]).get("age")
    assert not exceptions(["<20", "20-36", "37", "37<"], [37]).get("age")
    assert exceptions(["<20", "20-34", "35-39", "39<"], ["20-34", 37])["age"] == (1, 2)
    with pytest.raises(SchemaError, match="no value labelled '37'"):
        exceptions(["<20", "20-34", "35-39", "39<"], ["37"])


# ---------------------------------------------------------------------- the paper's specification


def test_the_papers_whole_space_is_paid_for_by_its_total() -> None:
    """0.1.0 charged a regression for each of the twelve transformations: 14.28."""
    spec = Spec.read(PAPER)
    assert len(spec.configurations) == 12 * 60 * 2
    assert len(spec.schemas()) == 12
    assert spec.left_out == ()
    assert spec.shares.promise == PureDP(9.98)
    assert spec.shares.regressions == (0.43,)
    assert isinstance(spec.shares.attempt, PureDP)
    assert spec.shares.attempt.epsilon == pytest.approx(4.99)
    assert sum(item.epsilon or 0.0 for item in spec.criteria) == pytest.approx(0.99)
    (regression,) = private_regressions(spec.criteria, spec.transformations)
    assert regression.versions == 12
    sizes = {
        name: sorted(len(c.labels) for c in made.values()) for name, made in spec.transformations.items()
    }
    assert sizes == {"mother_age": [9, 10, 29], "parity": [5, 11], "gestation_week": [6, 15]}
    last = spec.criteria_for(spec.schema)[2]
    assert isinstance(last, ConditionalMeans)
    assert last.values == (1.0, 2.5, 5.0, 8.5, 10.0)
