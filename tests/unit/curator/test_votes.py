"""Panels of teachers: what they are charged for, what they see, what they hand out and what they refuse."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from deep_examples import LAYOUT, SCHEMA, SIZES, curator_of, random_codes
from understudy.curator import Curator
from understudy.errors import BudgetError, BudgetExceeded
from understudy.mechanisms.deep.encoding import Layout
from understudy.mechanisms.deep.look import (
    MAX_TEACHERS,
    Panel,
    PanelPlan,
    deal,
    dense_inputs,
    open_panel,
    votes_l2,
)
from understudy.privacy import (
    GDP,
    ZCDP,
    Budget,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Noise,
    PureDP,
    SeededRandomness,
    Unit,
)
from understudy.privacy.events import Composed, GaussianEvent, LaplaceEvent, ZcdpEvent

SOME, BUDGET = Laplace(40.0), PureDP(2.0)
UNITS = (
    Unit.add_remove(),
    Unit.replace_one(),
    Unit.add_remove_person("id", max_rows=7),
    Unit.replace_person("id", max_rows=3),
)


def plan(*, teachers: int = 4, questions: int = 10, noise: Noise = SOME, marginals: int = 0) -> PanelPlan:
    return PanelPlan(LAYOUT, teachers, 5, 3, 0.05, questions, noise, (Laplace(60.0),) * marginals)


def records(n: int, seed: int = 0) -> np.ndarray:
    return random_codes(np.random.default_rng(seed), n)


def curator(
    codes: np.ndarray, *, budget: Budget = BUDGET, unit: Unit | None = None, seed: int = 1
) -> Curator:
    return curator_of(codes, budget=budget, unit=unit, randomness=seed)


def opened(codes: np.ndarray, panel: PanelPlan, **options: object) -> Panel:
    door = curator(codes, **options)  # type: ignore[arg-type]
    return open_panel(door, panel, generator=np.random.default_rng(0), purpose="ask")


def lesson(panel: Panel, seed: int = 3) -> None:
    many = panel._plan.teachers * panel._plan.batch
    panel.teach(records(many, seed), np.random.default_rng(seed).integers(0, len(SIZES), many))


# ------------------------------------------------------------------ what is charged


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.describe())
def test_every_family_of_noise_is_charged_as_what_it_is(unit: Unit) -> None:
    """The discrete Gaussian has no Gaussian curve: as a Gaussian event it was charged too little under GDP."""
    k, m = unit.max_rows, 10
    assert plan(noise=Laplace(40.0)).event(unit) == LaplaceEvent(k * m, 40.0)
    gaussian = plan(noise=Gaussian(40.0)).event(unit)
    assert gaussian == GaussianEvent(votes_l2(k, m), 40.0)
    discrete = plan(noise=DiscreteGaussian(40.0)).event(unit)
    assert isinstance(discrete, ZcdpEvent)
    assert Fraction(discrete.rho) >= Fraction(k * k * m, 2 * 1600)
    assert discrete.rho == pytest.approx(k * k * m / 3200)
    beside = plan(marginals=3).event(unit)
    assert beside == Composed((LaplaceEvent(unit.histogram_l1, 60.0),) * 3 + (LaplaceEvent(k * m, 40.0),))


def test_a_person_who_is_dealt_as_a_whole_is_charged_for_one_teacher() -> None:
    whole = dataclasses.replace(plan(noise=Laplace(40.0)), whole=True)
    for unit in UNITS[2:]:
        assert whole.event(unit) == LaplaceEvent(10, 40.0)
    with pytest.raises(BudgetError, match="where the unit is a person"):
        opened(records(20), whole)


def test_a_discrete_gaussian_is_refused_where_only_gaussian_curves_count() -> None:
    door = curator(records(20), budget=GDP(1.0))
    with pytest.raises(BudgetExceeded):
        open_panel(
            door, plan(noise=DiscreteGaussian(40.0)), generator=np.random.default_rng(0), purpose="ask"
        )
    assert door.ledger.spent == 0
    opened(records(20), plan(noise=DiscreteGaussian(40.0)), budget=ZCDP(1.0))


def test_the_change_of_many_answers_is_rounded_up() -> None:
    for k in (1, 2, 3, 7, 1000):
        for questions in (1, 2, 3, 4, 99, 12_345, 10**9 + 7):
            found = votes_l2(k, questions)
            assert Fraction(found) ** 2 >= k * k * questions
            assert found <= math.sqrt(k * k * questions) * (1 + 1e-15)


def test_all_questions_are_charged_before_the_first_and_none_is_free() -> None:
    door = curator(records(30))
    panel = open_panel(door, plan(marginals=3), generator=np.random.default_rng(0), purpose="ask")
    charged = [entry.event for entry in door.ledger.entries() if entry.event is not None]
    assert charged == [plan(marginals=3).event(door.unit)]
    assert panel.questions_left == 10
    panel.ask(records(4), np.zeros(4, dtype=np.int64))
    panel.ask(records(6), np.zeros(6, dtype=np.int64))
    assert panel.questions_left == 0
    with pytest.raises(BudgetError, match="0 of the 10 questions"):
        panel.ask(records(1), np.zeros(1, dtype=np.int64))
    assert [item.clique for item in panel.marginals()] == [(name,) for name in SCHEMA.names]
    with pytest.raises(BudgetError, match="already"):
        panel.marginals()
    assert [entry.event for entry in door.ledger.entries() if entry.event is not None] == charged


def test_too_many_questions_at_once_are_refused_and_not_counted() -> None:
    panel = opened(records(30), plan())
    with pytest.raises(BudgetError, match="10 of the 10"):
        panel.ask(records(11), np.zeros(11, dtype=np.int64))
    assert panel.questions_left == 10


def test_what_cannot_be_paid_is_not_opened() -> None:
    door = curator(records(30))
    with pytest.raises(BudgetExceeded):
        open_panel(door, plan(noise=Laplace(1.0)), generator=np.random.default_rng(0), purpose="ask")
    assert door.ledger.spent == 0


def test_plans_without_a_meaning_are_refused() -> None:
    for wrong in ({"teachers": 0}, {"teachers": MAX_TEACHERS + 1}, {"questions": 0}, {"marginals": 2}):
        with pytest.raises(BudgetError):
            plan(**wrong)  # type: ignore[arg-type]
    other = Layout((2, 2), (np.arange(2), np.arange(2)))
    with pytest.raises(BudgetError, match="does not fit"):
        opened(records(5), PanelPlan(other, 2, 2, 2, 0.1, 1, Laplace(40.0)))


# ------------------------------------------------------------------ what is seen


@pytest.mark.parametrize("rows", [0, 1, 2, 30])
def test_answers_are_whole_numbers_however_few_rows_there_are(rows: int) -> None:
    """More teachers than rows leave some without any; they learn from made-up records alone."""
    panel = opened(records(rows), plan(teachers=8), seed=4)
    lesson(panel)
    answers = panel.ask(records(10), np.zeros(10, dtype=np.int64))
    np.testing.assert_array_equal(answers, np.round(answers))
    assert not np.array_equal(answers, panel._votes(records(10), np.zeros(10, dtype=np.int64)).sum(axis=0))


def test_every_row_has_one_teacher_and_a_teacher_sees_no_other_rows() -> None:
    """A lesson of one teacher is the same to the last bit whatever the rows of all others are."""
    codes = records(40)
    words = SeededRandomness(1).words(40)
    dealt = deal(40, 4, words)
    others = codes.copy()
    others[dealt != 2] = 0
    panels = [opened(table, plan()) for table in (codes, others)]
    assert panels[0]._sizes.sum() == 40
    assert sorted(panels[0]._order.tolist()) == list(range(40))
    for panel in panels:
        for turn in range(4):
            lesson(panel, turn)
    for one, two in zip(panels[0]._parameters, panels[1]._parameters, strict=True):
        np.testing.assert_array_equal(one[2], two[2])
        assert any(not np.array_equal(one[place], two[place]) for place in (0, 1, 3))


class _DealtApart:
    """Rows are dealt by words of their own; everything after that comes from one stream."""

    def __init__(self, rows: int) -> None:
        self._dealt, self._stream = [np.full(rows, 3, dtype=np.uint64)], SeededRandomness(8)

    def words(self, n: int) -> np.ndarray:
        return self._dealt.pop() if self._dealt else self._stream.words(n)

    def bytes(self, n: int) -> bytes:
        return self._stream.bytes(n)


def test_a_teacher_without_rows_learns_as_on_an_empty_table() -> None:
    panels = []
    for rows in (0, 5):
        door = curator(records(rows))
        door._randomness = _DealtApart(rows)
        panels.append(open_panel(door, plan(), generator=np.random.default_rng(0), purpose="ask"))
        lesson(panels[-1])
    assert panels[1]._sizes.tolist() == [0, 0, 0, 5]
    for one, two in zip(panels[0]._parameters, panels[1]._parameters, strict=True):
        np.testing.assert_array_equal(one[:3], two[:3])
    assert not np.array_equal(panels[0]._parameters[0][3], panels[1]._parameters[0][3])


def test_a_row_less_changes_nobody_elses_teacher() -> None:
    words = SeededRandomness(5).words(100)
    np.testing.assert_array_equal(deal(99, 7, words[1:]), deal(100, 7, words)[1:])
    with pytest.raises(BudgetError):
        deal(100, 7, words[:50])


def test_teachers_tell_their_records_from_made_up_ones() -> None:
    """Not privacy but purpose: all rows alike, all made-up records unlike them; every teacher learns it."""
    codes = np.tile([1, 3, 0], (200, 1))
    panel = opened(codes, PanelPlan(LAYOUT, 5, 8, 8, 0.05, 2, Laplace(40.0)))
    unlike = np.tile([2, 15, 1], (40, 1))
    for _ in range(40):
        panel.teach(unlike, np.zeros(40, dtype=np.int64))
    votes = panel._votes(np.array([[1, 3, 0], [2, 15, 1]]), np.zeros(2, dtype=np.int64))
    np.testing.assert_array_equal(votes.sum(axis=0), [5, 0])


def test_inputs_are_modes_positions_and_the_condition() -> None:
    codes = records(50)
    conditions = np.random.default_rng(1).integers(0, 3, 50)
    inputs = dense_inputs(LAYOUT, codes, conditions)
    assert inputs.shape == (50, LAYOUT.width + LAYOUT.conditions)
    np.testing.assert_array_equal(inputs[:, : LAYOUT.conditions].sum(axis=1), 3)
    np.testing.assert_allclose(
        inputs[:, LAYOUT.conditions : LAYOUT.width], LAYOUT.positions(codes), atol=1e-7
    )
    told = inputs[:, LAYOUT.width :]
    np.testing.assert_array_equal(told.sum(axis=1), 1)
    places = LAYOUT.places(codes)
    np.testing.assert_array_equal(told.argmax(axis=1), places[np.arange(50), conditions])


def test_a_panel_can_be_neither_copied_nor_shown() -> None:
    panel = opened(records(5), plan())
    for copied in (
        lambda: copy.copy(panel),
        lambda: pickle.dumps(panel),
        lambda: bool(panel),
        lambda: panel == 1,
    ):
        with pytest.raises(TypeError):
            copied()
    assert repr(panel) == "Panel(...)"
    assert not hasattr(panel, "__dict__")
