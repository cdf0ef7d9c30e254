"""Tests, attackers and hunts on made-up mechanisms whose loss is known."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from understudy.audit import Audit, Claim, Effort, Subject, Tally, Test, hunt, judge
from understudy.audit.hunt import ATTACKERS, Runs, best_attack
from understudy.audit.observers import NARROW, WIDE, Observation, failure, lowest_bit, pairs_for
from understudy.audit.releases import LOOP, neighbour_frames
from understudy.audit.trials import choose_test, claim_of
from understudy.errors import DataError, WorkloadError
from understudy.privacy import GDP, ZCDP, ApproxDP, PureDP
from understudy.privacy.accounting.conversions import zcdp_to_approx
from understudy.release.spec.spec import Spec

CLAIM = Claim("epsilon", 1.0, 0.0, "")


def observation(value: float, **more: Any) -> Observation:
    return Observation(values_seen=np.array([value]), scales=np.array([-1.0]), **more)


def subject(shift: float, seed: int = 1) -> Subject:
    generator = np.random.default_rng(seed)

    def play(first: bool, _: int, parts: Collection[str]) -> Observation:
        return observation(float(generator.laplace() + shift * first))

    return Subject("made up", "a pair", "a unit", CLAIM, play)


@pytest.mark.parametrize("sign", [1, -1])
def test_either_sign_of_a_score_is_found(sign: int) -> None:
    generator = np.random.default_rng(0)
    firsts = generator.random(2_000) < 0.5
    scores = sign * (generator.laplace(size=2_000) + firsts)
    test, value = choose_test(scores, firsts, CLAIM)
    assert test.sign == sign
    assert 0.6 < value < 1.3


def test_a_test_abstains_between_its_thresholds() -> None:
    guesses = Test(2.0, -1.0).guesses(np.array([2.0, 1.9, -0.9, -1.0]))
    assert guesses.tolist() == [1, 0, 0, -1]
    assert Test(2.0, -1.0, -1).guesses(np.array([-2.0, 1.0])).tolist() == [1, -1]


def test_a_choice_needs_runs() -> None:
    with pytest.raises(WorkloadError):
        choose_test(np.zeros(4), np.zeros(4, dtype=bool), CLAIM)


def test_scores_that_never_vary_show_nothing() -> None:
    firsts = np.arange(100) % 2 == 0
    for claim in (CLAIM, Claim("mu", 1.0, 0.0, "")):
        test, _ = choose_test(np.zeros(100), firsts, claim)
        assert judge(test, np.zeros(100), firsts).bound(claim, confidence=0.95) == 0


def test_claims_in_the_unit_of_the_audit() -> None:
    assert claim_of(PureDP(2.0)) == Claim("epsilon", 2.0, 0.0, PureDP(2.0).describe())
    assert claim_of(GDP(2.0)).kind == "mu"
    assert claim_of(ApproxDP(1.0, 0.25)).delta == 0.25
    assert claim_of(ZCDP(0.5)).value == zcdp_to_approx(0.5, 0.01)


def test_a_right_mechanism_is_kept_and_a_broken_one_is_not() -> None:
    """The broken one loses 3 where it claims 1."""
    effort = Effort(200, 100, 1_500, 10.0, 10.0)
    for shift, violated in ((1.0, False), (3.0, True)):
        audits = hunt([subject(shift)], effort, generator=np.random.default_rng(5))
        assert [audit.focus for audit in audits] == [False, True]
        assert any(audit.violates(len(audits), alpha=1e-9) for audit in audits) == violated
        assert audits[-1].tally.runs == 1_500
    assert audits[-1].demonstrated > 2.0
    plain = audits[-1].to_dict()
    assert plain["claimed"] == 1.0
    assert plain["counts"]["runs"] == 1_500


def test_the_pair_that_shows_most_gets_the_runs() -> None:
    audits = hunt(
        [subject(0.0), subject(1.0), subject(0.1)],
        Effort(200, 24, 300, 10.0, 10.0),
        generator=np.random.default_rng(5),
    )
    assert len(audits) == 4
    assert audits[-1].focus
    assert audits[-1].demonstrated > 0.3


@pytest.mark.parametrize(
    ("attacker", "tell"),
    [
        ("odds of the choices made", lambda first: Observation(key=("a" if first else "b",))),
        ("learnt on low bits", lambda first: Observation(low_bits=np.array([-60.0 if first else -40.0]))),
        ("number of rows", lambda first: Observation(totals=np.array([21.0 if first else 20.0]))),
        ("rows: share like the outlier", lambda first: Observation(corner=float(first))),
        (
            "learnt on differences of released numbers",
            lambda first: Observation(gaps=np.array([float(first)])),
        ),
        (
            "likelihood ratio around learnt centres",
            lambda first: Observation(values_seen=np.array([5.0 * first]), scales=np.array([1.0])),
        ),
    ],
)
def test_every_attacker_sees_what_it_looks_at(attacker: str, tell) -> None:  # type: ignore[no-untyped-def]
    firsts = np.random.default_rng(2).random(200) < 0.5
    runs = Runs([tell(bool(first)) for first in firsts], firsts)
    only = [item for item in ATTACKERS if item.name == attacker]
    chosen = best_attack(runs, CLAIM, only)
    assert judge(chosen.test, chosen.score(runs.seen), firsts).correct == 200


def test_a_failure_is_an_outcome() -> None:
    one, two = failure(DataError("a")), failure(DataError("b"))
    assert one.key != two.key


def test_lowest_bits() -> None:
    assert lowest_bit(0.0) == 64
    assert lowest_bit(float("nan")) == 64
    assert lowest_bit(-12.0) == 2
    assert lowest_bit(1 + 2**-52) == -52


@pytest.mark.parametrize("text", [*NARROW, *WIDE])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 3])
def test_pairs_are_neighbours(text: str, relation: str, rows: int) -> None:
    pairs = list(pairs_for(text, relation, max_rows=rows))
    assert len(pairs) == (3 if rows == 1 else 1)
    for pair in pairs:
        one, two = pair.counts(pair.first.schema.names)
        moved = np.abs(one - two).sum()
        assert 0 < moved <= pair.unit.histogram_l1
        assert (one.sum() == two.sum()) == (relation == "replace-one")
        if rows > 1:
            assert moved == pair.unit.histogram_l1, "it moves as far as it may"
            assert pair.first.exact_row_count() > one.sum(), "more rows than count"


def test_a_specification_that_adds_a_person_to_an_empty_table_is_audited() -> None:
    text = LOOP.replace("2.5191", "3").replace(
        "unit: replace-one", "unit: {relation: add-remove, id_column: who, max_rows: 2}"
    )
    spec = Spec.parse(text)
    first, second = neighbour_frames(spec, rows=2, generator=np.random.default_rng(0))
    assert (len(first), len(second)) == (10, 0)
    assert list(second) == list(first)


def test_exact_audits_carry_no_confidence() -> None:
    audit = Audit("x", "y", "z", CLAIM, "exact", Tally(0, 0, 0, 0, 0, 0), True, 0.0, exact=1.0)
    assert not audit.violates()
    worse = Audit("x", "y", "z", CLAIM, "exact", Tally(0, 0, 0, 0, 0, 0), True, 0.0, exact=1.01)
    assert worse.violates(1000)
    assert worse.to_dict()["confidence"] == 1.0
