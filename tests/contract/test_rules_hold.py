"""Rules hold in every row of every registered mechanism, in the values that are published, on every road to them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from contract_cases import VARIANTS, Case, made

from understudy.bulk import write_sample
from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import ConstraintError, UnderstudyError
from understudy.mechanisms import Model, load_model, methods
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.schema import Schema

NO_TORCH = importlib.util.find_spec("torch") is None
METHODS = [
    pytest.param(
        item.name,
        marks=[pytest.mark.skip(reason=f"{item.name} needs torch: pip install 'understudy[deep]'")]
        if NO_TORCH and item.extra == "deep"
        else [],
    )
    for item in methods()
]
BUDGET = ApproxDP(1.0, 1e-6)


def _stays(generator: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Guests who stay up to twenty nights; the week and the country follow from the rest."""
    arrival = np.datetime64("2015-01-01") + generator.integers(0, 90, n)
    city = generator.choice(["Lyon", "Lille", "Porto"], n, p=[0.5, 0.3, 0.2])
    return {
        "arrival": arrival,
        "departure": arrival + generator.integers(1, 21, n),
        "week": pd.Series(pd.to_datetime(arrival)).dt.isocalendar().week.to_numpy(dtype=np.int64),
        "city": city.astype(object),
        "country": np.where(city == "Porto", "Portugal", "France").astype(object),
    }


STAYS = Case(
    """
name: stays
columns:
  - {name: arrival, kind: date, minimum: 2015-01-01, maximum: 2015-03-31, resolution: month, decode_by: uniform}
  - {name: departure, kind: date, minimum: 2015-01-01, maximum: 2015-04-30, resolution: month}
  - {name: week, kind: integer, minimum: 1, maximum: 14}
  - {name: city, kind: categorical, values: [Lyon, Lille, Porto]}
  - {name: country, kind: categorical, values: [France, Portugal]}
rules:
  - departure >= arrival + 1
  - departure - arrival <= 20
  - week == week_of(arrival)
determines:
  city: {country: {Lyon: France, Lille: France, Porto: Portugal}}
derived:
  nights: {value: departure - arrival, after: departure}
  month: month_name_of(arrival)
""",
    _stays,
)


def _answers(generator: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    home = generator.random(n) < 0.6
    return {"owns_home": home, "pays_rent": ~home, "has_car": home | (generator.random(n) < 0.4)}


ANSWERS = Case(
    """
name: answers
columns:
  - {name: owns_home, kind: boolean}
  - {name: pays_rent, kind: boolean}
  - {name: has_car, kind: boolean}
rules:
  - owns_home implies has_car
determines:
  owns_home: {pays_rent: {"true": "false", "false": "true"}}
derived:
  home: {value: owns_home, values: {"true": own, "false": rented}, before: owns_home}
""",
    _answers,
)


def _waits(generator: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    return {"wait": np.clip(generator.gamma(2.0, 6.0, n), 0.75, 63)}


WAITS = Case(
    """
name: waits
columns:
  - {name: wait, kind: real, minimum: 0, maximum: 64, bins: 16, decode_by: uniform}
rules:
  - wait >= 0.75 and wait < 63.5
derived:
  twice: wait + wait
""",
    _waits,
)


@cache
def _case(name: str) -> Case:
    method = made(name)
    for case in (STAYS, ANSWERS, WAITS):
        try:
            method.plan(case.schema, unit=Unit.add_remove(), budget=BUDGET)
        except UnderstudyError:
            continue
        return case
    raise AssertionError(f"{name} refuses every table with rules; add one that it serves.")


def _fitted(name: str, schema: Schema, frame: pd.DataFrame) -> tuple[Model, Ledger]:
    method, unit = made(name), Unit.add_remove()
    reserve = method.reserve(schema, BUDGET)
    ledger = Ledger.in_memory(budget=BUDGET, unit=unit, table="rules", approximate_delta=reserve)
    curator = Curator(read_table(frame, schema), unit=unit, ledger=ledger, randomness=SeededRandomness(1))
    return method.fit(curator, BUDGET), ledger


def _roads(model: Model, folder: Path) -> Iterator[pd.DataFrame]:
    yield model.sample(600, seed=3)
    yield from model.sample_chunks(300, rows_per_chunk=100, seed=4)
    model.save(folder / "model.understudy")
    yield load_model(folder / "model.understudy").sample(200, seed=5)
    written = write_sample(model, folder / "written.parquet", rows=300, seed=6, rows_per_chunk=100, lanes=2)
    yield pd.read_parquet(written.path)


def _check(rows: pd.DataFrame, case: Case) -> None:
    """Check the rules by pandas alone, without the code that keeps them."""
    if case is STAYS:
        arrival, departure = pd.to_datetime(rows["arrival"]), pd.to_datetime(rows["departure"])
        nights = (departure - arrival).dt.days
        assert nights.between(1, 20).all()
        assert (arrival.dt.isocalendar().week == rows["week"]).all()
        assert (
            rows["country"] == rows["city"].map({"Lyon": "France", "Lille": "France", "Porto": "Portugal"})
        ).all()
        assert (rows["nights"] == nights).all()
        assert (rows["month"] == arrival.dt.month_name()).all()
    elif case is ANSWERS:
        assert (rows["has_car"] | ~rows["owns_home"]).all()
        assert (rows["pays_rent"] != rows["owns_home"]).all()
        assert (rows["home"] == rows["owns_home"].map({True: "own", False: "rented"})).all()
    else:
        assert rows["wait"].between(0.75, 63.5, inclusive="left").all()
        assert np.allclose(rows["twice"], 2 * rows["wait"], atol=1e-9)


@pytest.mark.parametrize("name", [*METHODS, *VARIANTS])
def test_rules_hold_in_every_row_of_every_road(name: str, tmp_path: Path) -> None:
    case = _case(name)
    model, _ = _fitted(name, case.schema, case.frame(400))
    order = {
        "stays": ["arrival", "departure", "nights", "week", "city", "country", "month"],
        "answers": ["home", "owns_home", "pays_rent", "has_car"],
        "waits": ["wait", "twice"],
    }[case.schema.name]
    for rows in _roads(model, tmp_path):
        assert list(rows.columns) == order
        _check(rows, case)
        assert case.schema.holds_raw(rows).all()
        assert case.schema.holds_codes(case.schema.encode_frame(rows)).all()


@pytest.mark.parametrize("name", METHODS)
def test_rules_that_nobody_can_obey_cost_nothing(name: str) -> None:
    case = _case(name)
    hostile = {
        "stays": ["arrival >= departure + 1", "departure >= arrival"],
        "answers": ["owns_home and not has_car", "has_car"],
        "waits": ["wait < 10", "wait > 20"],
    }[case.schema.name]
    plain = case.schema.to_dict()
    schema = Schema.from_dict({**plain, "rules": hostile})
    method, unit = made(name), Unit.add_remove()
    ledger = Ledger.in_memory(
        budget=BUDGET, unit=unit, table="rules", approximate_delta=method.reserve(schema, BUDGET)
    )
    curator = Curator(read_table(case.frame(100), schema), unit=unit, ledger=ledger)
    with pytest.raises(ConstraintError, match=r"Nothing was charged"):
        method.fit(curator, BUDGET)
    assert ledger.spent == 0
