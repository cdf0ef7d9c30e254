"""Conditions on drawn rows: what they mean, and what is refused with which words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy import Curator, Ledger, PureDP, Unit, create, read_table
from understudy.errors import ConstraintError, DataError, WorkloadError
from understudy.mechanisms.conditional import RareRows
from understudy.privacy import SeededRandomness
from understudy.schema import Schema, Selection

SCHEMA = Schema.parse(
    """
columns:
  - {name: sex, kind: categorical, values: [F, M], missing: true}
  - {name: age, kind: integer, bins: ["<18", "18-39", "40-64", "64<"], decode_by: label}
  - {name: visits, kind: integer, minimum: 0, maximum: 5}
"""
)


def fitted(frame: pd.DataFrame, method: str = "aim", schema: Schema = SCHEMA, epsilon: float = 1000.0):
    unit, budget = Unit.replace_one(), PureDP(epsilon)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(read_table(frame, schema), unit=unit, ledger=ledger, randomness=SeededRandomness(1))
    return create(method).fit(curator, budget)


@pytest.fixture(scope="module")
def model():
    generator = np.random.default_rng(0)
    sex = np.array(["F", "M", None], dtype=object)[generator.integers(0, 3, 900)]
    visits = generator.integers(0, 5, 900)
    visits[:3] = 5
    return fitted(pd.DataFrame({"sex": sex, "age": generator.integers(0, 90, 900), "visits": visits}))


def test_a_comparison_with_a_missing_entry_is_not_true(model):
    assert set(model.sample(200, where="sex != 'F'", seed=1)["sex"]) == {"M"}
    assert model.sample(50, where="sex is missing", seed=1)["sex"].isna().all()


def test_bins_published_by_their_label_count_where_they_are_certain(model):
    assert set(model.sample(100, where="age >= 40", seed=1)["age"]) == {"40-64", "64<"}
    assert set(model.sample(100, where="age >= 50", seed=1)["age"]) == {"64<"}


def test_the_number_of_rows_is_by_default_what_the_model_expects(model):
    drawn = model.sample(where="visits >= 2", seed=1)
    assert len(drawn) == round(model.default_rows() * model.share("visits >= 2"))
    assert model.share("visits >= 0") == pytest.approx(1.0)
    assert model.share("visits >= 2") + model.share("visits < 2") == pytest.approx(1.0)


def test_the_same_seed_gives_the_same_rows(model):
    for options in ({"where": "sex == 'F'"}, {"given": {"sex": ["F", "M"]}}):
        pd.testing.assert_frame_equal(model.sample(seed=4, **options), model.sample(seed=4, **options))


def test_fixed_columns_may_be_joined_with_a_condition(model):
    drawn = model.sample(given={"sex": ["F", None, "M"]}, where="visits == 2", seed=1)
    assert drawn["visits"].tolist() == [2, 2, 2]
    assert drawn["sex"].tolist()[0] == "F"
    assert drawn["sex"].isna().tolist() == [False, True, False]


def test_rows_of_which_there_are_hardly_any_are_announced(model):
    with pytest.warns(RareRows, match="mostly noise"):
        model.sample(5, where="visits == 5", seed=1)


def test_what_cannot_be_is_refused_with_the_way_out(model):
    with pytest.raises(ConstraintError, match="inside the declared domain"):
        model.sample(5, where="visits == 9")
    with pytest.raises(ConstraintError, match="Did you mean 'visits'"):
        model.sample(5, where="vists == 2")
    with pytest.raises(WorkloadError, match="zero or more"):
        model.sample(-1, where="visits == 2")
    with pytest.raises(WorkloadError, match="leave n out"):
        model.sample(3, given={"sex": ["F"]})
    with pytest.raises(DataError, match="Did you mean 'sex'"):
        model.sample(given={"sexx": ["F"]})
    with pytest.raises(DataError, match="outside the declared domain"):
        model.sample(given={"sex": ["X"]})
    with pytest.raises(DataError, match="at least one column"):
        model.sample(given=pd.DataFrame())


def test_evidence_without_mass_is_refused():
    schema = Schema.parse(
        "columns: [{name: a, kind: integer, minimum: 0, maximum: 2}, {name: b, kind: boolean}]\n"
        "constraints: [not (a == 2 and b == true)]"
    )
    frame = pd.DataFrame({"a": [0, 1, 2] * 30, "b": [True, False, False] * 30})
    model = fitted(frame, schema=schema)
    with pytest.raises(ConstraintError, match=r"probability is zero\. Loosen"):
        model.sample(5, where="a == 2 and b == true")
    with pytest.raises(ConstraintError, match=r"no record for 1 of the 2 rows.*Leave them out"):
        model.sample(given={"a": [2, 0], "b": [True, True]})


def test_a_condition_that_the_values_of_a_bin_never_meet_ends_with_an_explanation(monkeypatch):
    monkeypatch.setattr("understudy.mechanisms.conditional._MOST_DRAWN", 1 << 12)
    schema = Schema.parse(
        "columns: [{name: age, kind: integer, bins: {edges: [0, 50, 100]}}, {name: b, kind: boolean}]"
    )
    frame = pd.DataFrame({"age": [10, 60] * 50, "b": [True, False] * 50})
    with pytest.raises(ConstraintError, match="whole bins"):
        fitted(frame, schema=schema).sample(5, where="age == 3")  # the bin's midpoint is another value


def test_parts_of_a_condition_are_joined_by_their_columns():
    chosen = Selection.parse(
        "visits > 1 and (sex == 'F' and visits < 4) and (age < 30 or visits == 2)", SCHEMA
    )
    assert [part.columns for part in chosen.parts] == [("sex",), ("age", "visits"), ("visits",)]
    assert [part.certain for part in chosen.parts] == [True, False, True]


def test_a_part_of_the_rows_is_fitted_with_less_effort(model, monkeypatch):
    seen = []

    def fit_chunk(codes, *arguments, **options):
        seen.append((len(codes), options["temperature"], options["proposals"]))
        return real(codes, *arguments, **options)

    from understudy.mechanisms import drawing

    real = drawing.fit_chunk
    monkeypatch.setattr(drawing, "fit_chunk", fit_chunk)
    model.sample(100, seed=1)
    model.sample(seed=1)
    assert seen == [(100, 0.0, 2 * 100 * 3), (model.default_rows(), None, None)]


def test_a_condition_speaks_of_values_where_the_model_holds_groups_of_them():
    schema = Schema.parse(
        "columns: [{name: code, kind: categorical, values: [A1, A2, A3, B1, B2], missing: true, levels: {prefix: [1], at: 1}},"
        " {name: b, kind: boolean}]"
    )
    frame = pd.DataFrame({"code": ["A1", "A2", "A3", "B1", "B2", None] * 40, "b": [True, False] * 120})
    model = fitted(frame, schema=schema)
    assert set(model.sample(60, where="code == 'A2'", seed=1)["code"]) == {"A2"}
    assert set(model.sample(200, where="code in ['A1', 'A2', 'A3']", seed=1)["code"]) == {"A1", "A2", "A3"}
    assert set(model.sample(200, where="code != 'A2'", seed=1)["code"]) == {"A1", "A3", "B1", "B2"}
    assert model.sample(given={"code": ["B2", "A1", None]}, seed=1)["code"].tolist() == ["B2", "A1", None]
    chosen = Selection.parse("code in ['A1', 'A2', 'A3']", model.schema)
    assert [part.certain for part in chosen.parts] == [True]
