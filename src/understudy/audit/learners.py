"""Attacks on the two paid conversations: noisy gradients of random batches, and noisy votes of teachers.

Methods built on them keep little of what they heard, so attacks on whole models see next to nothing. Here every released number is seen.
The network is public, so an attacker knows what each record contributes and reads the noisy sum along that direction, which is the
likelihood ratio. Teachers are taught until they surely know the record from made-up ones; what is left is the noise on one vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from understudy.curator import (
    Critic,
    Curator,
    Layout,
    PanelPlan,
    TrainingPlan,
    open_panel,
    open_training,
)
from understudy.data import LocalTable
from understudy.privacy import (
    GDP,
    ApproxDP,
    Budget,
    Ledger,
    Noise,
    PureDP,
    Unit,
    subsampled_noise,
)
from understudy.schema import Schema

__all__ = ["draw_gradients", "draw_votes"]

Draws = npt.NDArray[np.float64]

_SCHEMA = Schema.parse("{name: audit, columns: [{name: a, kind: boolean}]}")
_LAYOUT = Layout.of(_SCHEMA, max_modes=2)
_CRITIC = Critic(_LAYOUT, (2,), "wasserstein", 2.0**-8)
"""So small a largest norm that every contribution has it."""
_APART = np.array([[-8.0, 8.0], [8.0, -8.0]])
_WEIGHTS = [(np.concatenate([_APART, _APART]), np.zeros(2)), (np.ones((2, 1)), np.zeros(1))]
"""One hidden unit for each value of the column: gradients of unlike records point away from each other."""
_STEPS, _QUESTIONS = 20, 1_000
"""Released numbers of one training and of one panel; each is audited for its own claim."""
_TEACHERS, _LESSONS = 32, 60
_LARGE = ApproxDP(900.0, 0.5)
"""Of ledgers that pay for many steps at once."""


def _curator(rows: Sequence[int], unit: Unit, budget: Budget, *, reserve: float = 0.0) -> Curator:
    persons = {} if unit.id_column is None else {unit.id_column: np.zeros(len(rows), dtype=np.int64)}
    table = LocalTable(_SCHEMA, {"a": np.array(rows, dtype=np.int64)}, persons=persons)
    book = Ledger.in_memory(budget=budget, unit=unit, table="audit", approximate_delta=reserve)
    return Curator(table, unit=unit, ledger=book)


@lru_cache(maxsize=16)
def _training(unit: Unit, budget: Budget, rate: float) -> TrainingPlan:
    """Return a training each step of which claims a budget: mu where every row is in every batch, else epsilon at delta."""
    sides = 1 if unit.relation == "add-remove" else 2
    if isinstance(budget, GDP):
        return TrainingPlan(_CRITIC, 1.0, sides * unit.max_rows / budget.mu, _STEPS)
    assert isinstance(budget, ApproxDP)
    noise = subsampled_noise(
        budget.epsilon, budget.delta, rate=rate, steps=1, rows=unit.max_rows, sides=sides
    )
    return TrainingPlan(_CRITIC, rate, noise, _STEPS)


def _contribution(rows: Sequence[int]) -> Draws:
    codes = np.array(rows, dtype=np.int64).reshape(-1, 1)
    sums = _CRITIC.gradients(_WEIGHTS, codes, np.zeros(len(codes), dtype=np.int64), real=True)
    return np.concatenate([layer.ravel() * _CRITIC.unit for layer in sums])


def draw_gradients(
    which: int, runs: int, *, tables: Sequence[Sequence[int]], unit: Unit, budget: Budget, rate: float = 1.0
) -> Draws:
    """Return noisy gradients of one of two tables, along the direction in which their exact gradients differ.

    Examples
    --------
    >>> draw_gradients(0, 3, tables=([1], []), unit=Unit.add_remove(), budget=GDP(2.0)).shape
    (3,)
    """
    plan = _training(unit, budget, rate)
    event = plan.event(unit, delta=1e-3)
    towards = _contribution(tables[0]) - _contribution(tables[1])
    towards /= np.linalg.norm(towards)
    found: list[float] = []
    while len(found) < runs:
        training = open_training(
            _curator(tables[which], unit, _LARGE, reserve=0.4), plan, event=event, purpose="audit"
        )
        while training.steps_left and len(found) < runs:
            told = training.step(_WEIGHTS)
            found.append(float(np.concatenate([layer.ravel() for layer in told]) @ towards))
    return np.array(found)


def draw_votes(which: int, runs: int, *, tables: Sequence[Sequence[int]], unit: Unit, noise: Noise) -> Draws:
    """Return noisy numbers of teachers that take a record of the first table for real.

    Examples
    --------
    >>> from understudy.privacy import Laplace
    >>> draw_votes(1, 2, tables=([1], []), unit=Unit.add_remove(), noise=Laplace(1.0)).shape
    (2,)
    """
    large: Budget = PureDP(2.0**30) if noise.kind == "laplace" else GDP(2.0**30)
    fakes = np.arange(_TEACHERS * 4).reshape(-1, 1) % 2
    found: list[Draws] = []
    for start in range(0, runs, _QUESTIONS):
        many = min(_QUESTIONS, runs - start)
        plan = PanelPlan(_LAYOUT, _TEACHERS, 4, 4, 0.1, many, noise)
        panel = open_panel(
            _curator(tables[which], unit, large), plan, generator=np.random.default_rng(0), purpose="audit"
        )
        for _ in range(_LESSONS):
            panel.teach(fakes, np.zeros(len(fakes), dtype=np.int64))
        asked = np.full((many, 1), tables[0][0], dtype=np.int64)
        found.append(panel.ask(asked, np.zeros(many, dtype=np.int64)))
    return np.concatenate(found)
