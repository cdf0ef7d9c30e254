"""Every option of the two adversarial mechanisms does what it says, and nonsense is refused before anything is spent.

Fits are repeated with equal seeds for the noise and for the networks, so two that differ in nothing end in the same numbers, and an option
that were accepted and ignored would too.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from deep_examples import SCHEMA, curator_of, random_codes
from understudy.errors import BudgetError
from understudy.mechanisms import Model, create
from understudy.mechanisms.deep import dpctgan, patectgan
from understudy.mechanisms.deep.base import Adversarial
from understudy.mechanisms.deep.encoding import Layout
from understudy.mechanisms.deep.look import Panel, PanelPlan
from understudy.privacy import ApproxDP, Unit
from understudy.schema import Schema

pytest.importorskip("torch", reason="deep mechanisms need torch: pip install 'understudy[deep]'")

ROWS = 120
PUBLIC = Schema([*SCHEMA.columns], row_count=ROWS)
BUDGET = ApproxDP(2.0, 1e-5)
SMALL: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 12,
    "embedding_dim": 2,
    "generator_dim": (3,),
    "discriminator_dim": (3,),
    "generator_lr": 0.05,
    "discriminator_lr": 0.05,
    "max_modes": 6,
}
STEPS = 20
"""Two epochs of ten batches."""
BOTH: dict[str, Any] = {
    "epochs": 3,
    "batch_size": 15,
    "generator_lr": 0.01,
    "discriminator_lr": 0.01,
    "generator_decay": 1.0,
    "discriminator_decay": 1.0,
    "embedding_dim": 3,
    "generator_dim": (4,),
    "discriminator_dim": (4,),
    "noise_multiplier": 30.0,
    "marginal_share": 0.3,
    "marginal_weight": 5.0,
    "calibrate": False,
    "max_modes": 4,
    "public_seed": 1,
}
OTHERS: dict[str, dict[str, Any]] = {
    "dpctgan": {**BOTH, "loss": "wasserstein", "max_per_sample_grad_norm": 0.1, "generator_every": 2},
    "patectgan": {
        **BOTH,
        "regularization": "dragan",
        "sample_per_teacher": 20,
        "teachers": 4,
        "teacher_dim": 5,
        "teacher_lr": 0.1,
        "teacher_iters": 3,
        "student_iters": 3,
        "questions": 5,
    },
}
WITHOUT_EFFECT = {"device": "where to compute, not what", "loss": "teachers know one loss only"}
CASES = [(name, option) for name, options in OTHERS.items() for option in options]


@pytest.fixture(autouse=True)
def _given_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the search for the noise of a training, which has its own tests and takes longer than all else here."""
    monkeypatch.setattr(dpctgan, "subsampled_noise", lambda *_, **__: 6.0)


def fitted(name: str, **options: Any) -> Model:
    method = create(name, **{**SMALL, **options})
    codes = random_codes(np.random.default_rng(3), ROWS) // 2  # so that columns are far from even
    reserve = method.reserve(PUBLIC, BUDGET)
    return method.fit(curator_of(codes, budget=BUDGET, reserve=reserve, schema=PUBLIC), BUDGET)


def numbers(model: Model) -> dict[str, np.ndarray]:
    return dict(model.distribution.to_arrays()[1])


def alike(one: Model, other: Model) -> bool:
    here, there = numbers(one), numbers(other)
    return here.keys() == there.keys() and all(np.array_equal(here[key], there[key]) for key in here)


@pytest.fixture(scope="module")
def usual() -> dict[str, Model]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpctgan, "subsampled_noise", lambda *_, **__: 6.0)
        return {name: fitted(name) for name in OTHERS}


def test_no_option_is_left_out() -> None:
    for name, others in OTHERS.items():
        assert {field.name for field in fields(type(create(name)))} == {*others, *WITHOUT_EFFECT}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OTHERS)
def test_equal_options_and_seeds_give_equal_models(name: str, usual: dict[str, Model]) -> None:
    assert alike(usual[name], fitted(name))


@pytest.mark.parametrize(("name", "option"), CASES)
def test_no_option_is_ignored(name: str, option: str, usual: dict[str, Model]) -> None:
    assert not alike(usual[name], fitted(name, **{option: OTHERS[name][option]}))


# ------------------------------------------------------------------ what each of them does


def size_of_weights(model: Model) -> float:
    return math.sqrt(sum(float(np.square(matrix).sum()) for matrix, _ in model.distribution.layers[-1:]))


def off_marginals(model: Model) -> float:
    """Return how far the columns of a generator are from the noisy shares that it was given, in total variation."""
    layout = Layout.of(PUBLIC, max_modes=6)
    wanted = Adversarial._shares(layout, [item for item in model.measurements if item.clique])
    codes = model.distribution.sample_codes(20_000, np.random.default_rng(0))
    found = 0.0
    for column, share in enumerate(wanted):
        modes = layout.mode_of(column)[codes[:, column]]
        found += float(np.abs(np.bincount(modes, minlength=len(share)) / len(modes) - share).sum()) / 2
    return found


@pytest.mark.parametrize("name", OTHERS)
def test_generator_decay_shrinks_the_weights(name: str) -> None:
    options = {"calibrate": False, "marginal_weight": 0.0}
    free, held = (fitted(name, generator_decay=decay, **options) for decay in (0.0, 1_000.0))
    assert size_of_weights(held) < 0.5 * size_of_weights(free)


@pytest.mark.parametrize("name", OTHERS)
def test_marginal_weight_and_calibrate_hold_columns_to_their_shares(name: str) -> None:
    wild = {"generator_lr": 0.5}
    loose = off_marginals(fitted(name, marginal_weight=0.0, calibrate=False, **wild))
    weighted = off_marginals(fitted(name, marginal_weight=1_000.0, calibrate=False, **wild))
    calibrated = off_marginals(fitted(name, marginal_weight=0.0, calibrate=True, **wild))
    assert weighted < 0.3 * loose
    assert calibrated < 0.05 < loose


@pytest.mark.parametrize(("every", "learnt"), [(1, STEPS), (3, STEPS // 3), (STEPS + 1, 0)])
def test_generator_every_counts_steps_of_the_discriminator(
    every: int, learnt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.mechanisms.deep.generator import Generator

    lessons, original = [], Generator.learn
    monkeypatch.setattr(Generator, "learn", lambda self, *told: lessons.append(1) or original(self, *told))
    fitted("dpctgan", generator_every=every)
    assert len(lessons) == learnt


@pytest.mark.parametrize(("each", "teachers"), [(10, 12), (40, 3), (1_000, 2)])
def test_sample_per_teacher_says_how_many_teachers_there_are(each: int, teachers: int) -> None:
    method = create("patectgan", **SMALL, sample_per_teacher=each)
    plan = method.plan(PUBLIC, unit=Unit.add_remove(), budget=BUDGET)
    assert plan.notes[0].startswith(f"{teachers} teachers with about {ROWS / teachers:.0f} rows each")
    panels = opened(sample_per_teacher=each)
    assert panels == [(teachers, 32)]
    with pytest.raises(BudgetError, match="would have no effect"):
        create("patectgan", **SMALL, sample_per_teacher=each, teachers=7)


def test_teacher_dim_is_the_width_of_a_teacher() -> None:
    assert [opened(teachers=2, teacher_dim=units) for units in (1, 9)] == [[(2, 1)], [(2, 9)]]


def opened(**options: Any) -> list[tuple[int, int]]:
    """Fit, and return how many teachers were dealt records and how many units each has."""
    seen: list[tuple[int, int]] = []
    original = patectgan.open_panel

    def watched(curator: Any, plan: PanelPlan, **rest: Any) -> Panel:
        panel = original(curator, plan, **rest)
        matrix = panel._parameters[0]
        assert len(panel._sizes) == matrix.shape[0]
        seen.append((matrix.shape[0], matrix.shape[2]))
        return panel

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patectgan, "open_panel", watched)
        fitted("patectgan", **options)
    return seen


@pytest.mark.parametrize(("lessons", "steps"), [(1, 1), (3, 2), (2, 5)])
def test_teacher_iters_and_student_iters_count_within_a_round(
    lessons: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.mechanisms.deep.networks import Student

    taught, learnt, teach, learn = [], [], Panel.teach, Student.learn
    monkeypatch.setattr(Panel, "teach", lambda self, *told: taught.append(1) or teach(self, *told))
    monkeypatch.setattr(Student, "learn", lambda self, rows: learnt.append(1) or learn(self, rows))
    fitted("patectgan", teacher_iters=lessons, student_iters=steps)
    assert (len(taught), len(learnt)) == (lessons * STEPS, steps * STEPS)


# ------------------------------------------------------------------ nonsense

NO_NUMBERS = (math.nan, math.inf, -1, "3", None, True, [1])
WRONG: dict[str, dict[str, tuple[Any, ...]]] = {
    "dpctgan": {"generator_every": (0, 1.5, *NO_NUMBERS), "max_per_sample_grad_norm": (0, "1", math.nan)},
    "patectgan": {
        "sample_per_teacher": (0, 0.5, *NO_NUMBERS),
        "teacher_dim": (0, 3.5, 10**9, *NO_NUMBERS),
        "teacher_iters": (0, 1.5, *NO_NUMBERS),
        "student_iters": (0, 2.5, *NO_NUMBERS),
        "questions": (0, 2.5, *NO_NUMBERS),
        "teachers": (0, 2.5, math.nan, -1, "3", True),
        "teacher_lr": (0, 1.5, *NO_NUMBERS[:-2]),
    },
}
WRONG_IN_BOTH: dict[str, tuple[Any, ...]] = {
    "generator_decay": NO_NUMBERS,
    "discriminator_decay": NO_NUMBERS,
    "marginal_weight": NO_NUMBERS,
    "calibrate": ("no", None, 0.5, math.nan),
    "epochs": (0, 1.5, *NO_NUMBERS),
    "embedding_dim": (0, 1.5, *NO_NUMBERS),
    "generator_lr": (0, 2, *NO_NUMBERS[:-2]),
    "generator_dim": ((), (2.5,), "16", (0,), (10**9,), 1.5, (True,)),
    "public_seed": (-1, 1.5, "3"),
    "device": (None, 3),
}


@pytest.mark.parametrize("name", OTHERS)
def test_nonsense_is_refused_when_a_method_is_made(name: str) -> None:
    for option, values in (*WRONG_IN_BOTH.items(), *WRONG[name].items()):
        for value in values:
            with pytest.raises(BudgetError, match=option):
                create(name, **{option: value})


@pytest.mark.parametrize("name", OTHERS)
def test_whole_numbers_may_be_written_as_floats(name: str, usual: dict[str, Model]) -> None:
    written = {"epochs": 2.0, "batch_size": 12.0, "embedding_dim": np.int64(2), "generator_dim": [3.0]}
    written |= {"generator_every": 1.0} if name == "dpctgan" else {"teacher_iters": 1.0, "student_iters": 1.0}
    assert alike(usual[name], fitted(name, **written))


def test_more_teachers_than_can_be_trained_are_refused_before_anything_is_spent() -> None:
    door = curator_of(random_codes(np.random.default_rng(0), 50), budget=BUDGET)
    with pytest.raises(BudgetError, match="teachers"):
        create("patectgan", **SMALL, teachers=10**7).fit(door, BUDGET)
    assert door.ledger.spent == 0
