"""Every mechanism on a table with levels: it publishes listed values, spends what it was given, and goes on after an interruption."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from contract_cases import Case, case_of, made
from test_resume import Run, Stopped
from test_synthesizers import METHODS, UNITS, accepts

from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import UnderstudyError, UnusableMethod
from understudy.privacy import ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Categorical, Schema

VALUES = [f"{letter}{number:02d}" for letter in "ABC" for number in range(12)]
SHARE = 0.1
LOOK = "measure the values of ward to choose their groups"
NOT_NAMED = {"binomial-beta", "mcclure-reiter", "ecdf", "noise-first", "structure-first", "efpa", "p-hp"}
"""Mechanisms for columns with two values, or for one column of ordered values: no column of theirs can have levels."""


def _wards(generator: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    share = np.arange(36, 0, -1) ** 2.0
    return {
        "ward": generator.choice(np.array(VALUES, dtype=object), n, p=share / share.sum()),
        "sex": generator.choice(np.array(["f", "m"], dtype=object), n),
        "age": generator.integers(0, 100, n),
    }


WARDS = Case(
    f"""
name: contract levels
columns:
  - {{name: ward, kind: categorical, values: [{", ".join(VALUES)}], levels: {{prefix: [1, 2], most: 6}}}}
  - {{name: sex, kind: categorical, values: [f, m]}}
  - {{name: age, kind: integer, bins: {{edges: [0, 18, 40, 65, 100]}}}}
""",
    _wards,
)


@cache
def budget_of(name: str) -> Budget:
    return next(budget for budget in (ApproxDP(2.0, 1e-6), PureDP(2.0)) if accepts(name, budget))


def reading_of(name: str, unit: Unit) -> tuple[Schema, Ledger]:
    """Return the schema and a ledger for a mechanism."""
    schema, budget = WARDS.schema, budget_of(name)
    reserve = made(name).reserve(schema, budget)
    return schema, Ledger.in_memory(budget=budget, unit=unit, table="t", approximate_delta=reserve)


@pytest.mark.parametrize("name", sorted(NOT_NAMED))
def test_a_mechanism_for_other_columns_refuses_the_plan(name: str) -> None:
    with pytest.raises(UnderstudyError):
        made(name).plan(WARDS.schema, unit=UNITS["add-remove"], budget=budget_of(name))


@pytest.mark.parametrize("unit", ["add-remove", "person"])
@pytest.mark.parametrize("name", [item for item in METHODS if item.values[0] not in NOT_NAMED])
def test_a_table_with_levels_is_fitted_within_the_budget_and_published_with_its_values(
    name: str, unit: str
) -> None:
    who, budget = UNITS[unit], budget_of(name)
    schema, ledger = reading_of(name, who)
    table = read_table(WARDS.frame(600, seed=1), schema, id_column=who.id_column)
    curator = Curator(table, unit=who, ledger=ledger, randomness=SeededRandomness(1))
    if not made(name).spends_remainder:
        with pytest.raises(UnusableMethod, match="at: 1"):
            made(name).fit(curator, budget)
        assert ledger.spent == 0
        assert not [entry for entry in ledger.entries() if entry.event is not None]
        schema = schema.with_columns([Categorical("ward", values=VALUES, levels={"prefix": [1, 2], "at": 2})])
        table = read_table(WARDS.frame(600, seed=1), schema, id_column=who.id_column)
        curator = Curator(table, unit=who, ledger=ledger, randomness=SeededRandomness(1))
    model = made(name).fit(curator, budget)
    charges = [entry for entry in ledger.entries() if entry.event is not None]
    assert (charges[0].purpose == LOOK) == made(name).spends_remainder
    assert sum(entry.purpose == LOOK for entry in charges) <= 1
    assert ledger.remaining >= 0
    ward = model.schema.column("ward")
    assert ward.size <= 6
    rows = model.sample(300, seed=2)
    assert isinstance(rows, pd.DataFrame)
    assert set(rows["ward"]) <= set(VALUES)
    assert len(set(rows["ward"])) > ward.size  # values of a group, not one for each group
    assert model.schema.encode_frame(rows).keys() == set(schema.names)


@pytest.mark.parametrize(
    "name", ["independent", "aim", "mst", "privsyn", "privbayes", "laplace", "modips", "gem"]
)
def test_an_interrupted_fit_finds_the_same_groups_and_pays_for_nothing_twice(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert case_of(name) is not WARDS
    monkeypatch.setattr("test_resume.case_of", lambda name: WARDS)
    whole = Run(_folder(tmp_path, "whole"), name)
    model = whole.fit()
    charges = whole.charges()
    assert charges[0][1] == LOOK
    for number, (place, in_flight) in enumerate([(1, True), (1, False), (2, False)]):
        run = Run(_folder(tmp_path, str(number)), name)
        with pytest.raises(Stopped):
            run.fit(stop=(place, in_flight))
        resumed = run.fit()
        assert Counter(run.charges()) - Counter(charges) == (
            Counter([charges[place - 1]]) if in_flight else Counter()
        )
        if not in_flight:
            assert resumed.schema == model.schema
            assert resumed.sample(40, seed=1).equals(model.sample(40, seed=1))


def _folder(above: Path, name: str) -> Path:
    (above / name).mkdir()
    return above / name


def test_the_schema_of_the_contract_is_open() -> None:
    ward = WARDS.schema.column("ward")
    assert isinstance(ward, Categorical)
    assert replace(ward, levels=None).size == ward.size == 36
