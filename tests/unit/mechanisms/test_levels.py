"""Columns with levels: which groups noisy counts give, and what choosing them costs."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable, read_table
from understudy.errors import BudgetError, BudgetExceeded, SchemaError, UnusableMethod
from understudy.marginals import all_kway
from understudy.mechanisms import Model, create
from understudy.mechanisms.levels import (
    STANDS_OUT,
    chosen_levels,
    groups_of_counts,
    open_columns,
    weights_of_counts,
    working_schema,
)
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Schema

VALUES = [f"{letter}{number:02d}" for letter in "ABC" for number in range(20)]
PATHS = [(value[:1], value[:2]) for value in VALUES]
UNIT = Unit.add_remove()


def schema_of(levels: str = "{prefix: [1, 2], most: 8}", rules: str = "[]") -> Schema:
    return Schema.parse(
        f"""
columns:
  - {{name: code, kind: categorical, values: [{", ".join(VALUES)}], levels: {levels}, missing: true}}
  - {{name: sex, kind: categorical, values: [f, m]}}
  - {{name: age, kind: integer, bins: {{edges: [0, 20, 40, 60, 100]}}}}
constraints: {rules}
"""
    )


SCHEMA = schema_of()


def codes_of(rows: int = 3_000, seed: int = 1) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    share = np.append(generator.exponential(size=60) ** 3, 0.5)
    return {
        "code": generator.choice(61, rows, p=share / share.sum()),
        "sex": generator.integers(0, 2, rows),
        "age": generator.integers(0, 4, rows),
    }


def curator_of(
    budget: Budget, *, schema: Schema = SCHEMA, rows: int = 3_000, unit: Unit = UNIT, seed: int = 2
) -> Curator:
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    table = LocalTable(
        schema, codes_of(rows), persons=None if unit.id_column is None else {"id": np.arange(rows) // 3}
    )
    return Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(seed))


# -- groups and weights from noisy counts ------------------------------------------------------------------


def test_groups_divide_the_values_and_keep_to_classes_and_number() -> None:
    """On 200 random and hostile counts: noise alone, nothing but noise below zero, equal counts, one huge count, tiny and huge noise."""
    generator = np.random.default_rng(4)
    hostile = [np.zeros(60), np.full(60, -50.0), np.full(60, 1e9), np.append(np.zeros(59), 1e12)]
    for trial in range(200):
        counts = (
            hostile[trial % 20] if trial % 20 < len(hostile) else generator.exponential(50, 60) ** 2 - 200.0
        )
        deviation, most = float(10 ** generator.uniform(-2, 5)), int(generator.integers(2, 70))
        known: dict[int, int] = {}
        drawn = generator.integers(0, 1 + trial % 3, 60).tolist()
        kinds = np.array([known.setdefault(number, len(known)) for number in drawn])
        groups = groups_of_counts(PATHS, counts, deviation, most=most, classes=kinds)
        assert groups.shape == (60,)
        assert set(groups.tolist()) == set(range(int(groups.max()) + 1))
        assert groups.max() < max(most, len(known))
        for group in range(int(groups.max()) + 1):
            assert len(set(kinds[groups == group].tolist())) == 1
        weights = weights_of_counts(groups, counts, deviation)
        assert (weights >= 0).all()
        assert (np.bincount(groups, weights=weights) > 0).all()
        again = groups_of_counts(PATHS, counts, deviation, most=most, classes=kinds)
        assert again.tolist() == groups.tolist()  # resumed work must find the same groups


def test_a_group_stands_out_unless_it_is_what_is_left_over() -> None:
    generator = np.random.default_rng(3)
    for _ in range(50):
        counts = generator.exponential(30, 60) ** 2 * (generator.random(60) < 0.5) + generator.normal(
            0, 20, 60
        )
        groups = groups_of_counts(PATHS, counts, 20.0, most=30)
        sums = np.bincount(groups, weights=counts)
        weak = sums < STANDS_OUT * 20.0 * np.sqrt(np.bincount(groups))
        assert weak.sum() <= 1


def test_large_values_large_groups_and_the_rest() -> None:
    counts = np.zeros(60)
    counts[0], counts[1:20] = 10_000, 50.0  # A00 stands out, the rest of A together
    counts[20:40] = 1.0  # B does not stand out, nor does C
    groups = groups_of_counts(PATHS, counts, 20.0, most=9)
    assert groups[0] == 0
    assert len(set(groups[1:20].tolist())) <= 2  # A0 without A00, and A1
    assert len(set(groups[20:].tolist())) == 1
    assert not set(groups[1:20].tolist()) & set(groups[20:].tolist())


def test_few_groups_are_the_largest_ones() -> None:
    counts = np.tile([400.0, 10.0, 10.0, 10.0], 15)
    groups = groups_of_counts(PATHS, counts, 1.0, most=3)
    assert groups.tolist() == [0] * 20 + [1] * 20 + [2] * 20  # A, B and C before any single value


# -- the look --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "budget",
    [PureDP(1.0), ZCDP(0.1), GDP(0.5), ApproxDP(1.0, 1e-6)],
    ids=lambda budget: type(budget).__name__,
)
def test_the_look_takes_its_share_and_the_fit_the_rest(budget: Budget) -> None:
    method = create("independent")
    curator = curator_of(budget)
    plan = method.prepare(SCHEMA, unit=UNIT, budget=budget)
    assert plan.budget == budget
    assert plan.measurements[0].clique == ("code",)
    assert plan.measurements[0].cells == 61
    model = method.fit(curator, budget)
    charges = [entry for entry in curator.ledger.entries() if entry.event is not None]
    assert charges[0].purpose == "measure the values of code to choose their groups"
    accounting = method.accounting(budget, working_schema(SCHEMA), UNIT)
    total = Fraction(accounting.total(budget))
    costs = [accounting.exact_cost(entry.event, parts=1) for entry in charges]
    assert sum(costs) <= total
    assert sum(costs) >= total * Fraction(999_999, 1_000_000)  # nothing is lost by the division
    assert math.isclose(costs[0] / total, 0.1, rel_tol=1e-6)
    # the planned noise is the noise that was drawn
    scales = [scale for entry in charges[:1] for scale in _scales(entry.event)]
    assert scales == [plan.measurements[0].noise.scale]
    assert model.schema.column("code").size <= 9
    assert not open_columns(model.schema)


def _scales(event: Any) -> list[float]:
    plain = event.to_dict() if hasattr(event, "to_dict") else vars(event)
    return [float(value) for key, value in plain.items() if key in ("scale", "sigma")]


def test_nothing_is_drawn_or_charged_if_the_fit_cannot_be_paid() -> None:
    curator = curator_of(PureDP(0.5))
    with pytest.raises(BudgetExceeded):
        create("independent").fit(curator, PureDP(1.0))
    assert curator.ledger.spent == 0


def test_a_method_that_spends_in_one_act_refuses_before_anything_is_charged() -> None:
    budget = ApproxDP(1.0, 1e-6)
    method = create("poisson")
    with pytest.raises(UnusableMethod, match=r"at: 1"):
        method.plan(SCHEMA, unit=UNIT, budget=budget)
    fixed = schema_of("{prefix: [1, 2], at: 1}")
    plan = method.plan(fixed, unit=UNIT, budget=budget)
    assert plan.model_cells == 4 * 2 * 4


def test_too_many_looks_are_refused_before_anything_is_charged() -> None:
    schema = schema_of("{prefix: [1], share: 0.3}")
    schema = Schema([*schema.columns, replace(schema.column("code"), name="second")])
    with pytest.raises(BudgetError, match="60% of the budget"):
        create("independent").plan(schema, unit=UNIT, budget=PureDP(1.0))


def test_fixed_levels_cost_nothing() -> None:
    schema = schema_of("{prefix: [1, 2], at: 2}")
    fine = codes_of()
    groups = schema.column("code").groups
    assert groups is not None
    table = {**fine, "code": np.append(groups, 6)[fine["code"]]}
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=UNIT, table="t")
    model = create("independent").fit(
        Curator(LocalTable(schema, table), unit=UNIT, ledger=ledger), PureDP(1.0)
    )
    assert [entry.purpose for entry in ledger.entries() if entry.event is not None] == [
        "measure 3 one-way marginals"
    ]
    frame = model.sample(500, seed=1)
    assert set(frame["code"].dropna()) <= set(VALUES)
    assert len(set(frame["code"].dropna())) > 6  # values, not groups


@pytest.mark.parametrize("unit", [Unit.replace_one(), Unit.add_remove_person("id", max_rows=2)])
def test_other_units_pay_for_what_they_can_change(unit: Unit) -> None:
    """The noise of the look is that of any histogram of the unit: twice the rows of a person, twice the scale."""
    budget = PureDP(1.0)
    plan = create("independent").plan(SCHEMA, unit=unit, budget=budget)
    assert math.isclose(plan.measurements[0].noise.scale, unit.histogram_l1 / 0.1, rel_tol=1e-6)
    curator = curator_of(budget, unit=unit)
    create("independent").fit(curator, budget)
    charges = [entry for entry in curator.ledger.entries() if entry.event is not None]
    assert _scales(charges[0].event) == [plan.measurements[0].noise.scale]
    assert curator.ledger.remaining < 1e-9


def test_groups_depend_on_released_numbers_alone() -> None:
    """Two tables with the same noisy counts get the same groups; they are computed again here from those counts."""
    curator = curator_of(PureDP(2.0))
    seen: list[Any] = []
    measure = curator.measure_many

    def watched(*given: Any, **words: Any) -> Any:
        found = measure(*given, **words)
        seen.append(found)
        return found

    from understudy.mechanisms.levels import measured_levels

    curator.measure_many = watched  # type: ignore[method-assign]
    inside = measured_levels(curator)
    ((released,),) = seen
    again = chosen_levels(SCHEMA, {"code": (released.values, math.sqrt(released.variance))})
    assert again == inside.schema
    assert inside.spent == curator.spent  # one allowance


def test_a_workload_follows_the_groups() -> None:
    method = create("aim", workload=all_kway(SCHEMA.domain, 2))
    budget = ApproxDP(1.0, 1e-6)
    model = method.fit(curator_of(budget), budget)
    assert model.workload is not None
    assert model.workload.domain == model.schema.domain
    assert set(model.sample(300, seed=1)["code"].dropna()) <= set(VALUES)


def test_a_model_file_holds_groups_and_weights_and_draws_the_same_rows(tmp_path: Path) -> None:
    model = create("mst").fit(curator_of(ZCDP(0.5)), ZCDP(0.5))
    model.save(tmp_path / "m.understudy")
    loaded = Model.load(tmp_path / "m.understudy")
    assert loaded.schema == model.schema
    assert loaded.sample(400, seed=5).equals(model.sample(400, seed=5))
    chunks = list(loaded.sample_chunks(400, rows_per_chunk=150, seed=5))
    assert [len(chunk) for chunk in chunks] == [150, 150, 100]
    assert {value for chunk in chunks for value in chunk["code"].dropna()} <= set(VALUES)
    assert loaded.schema.as_read() == SCHEMA


def test_rules_about_values_hold_in_every_row() -> None:
    rules = "[\"not (code in ['A00', 'B07'] and sex == 'm')\", \"code != 'C19'\"]"
    schema = schema_of("{prefix: [1, 2], most: 4}", rules)
    codes = codes_of()
    held = schema.holds_codes(codes)
    ledger = Ledger.in_memory(budget=ZCDP(0.5), unit=UNIT, table="t")
    table = LocalTable(schema, {name: column[held] for name, column in codes.items()})
    curator = Curator(table, unit=UNIT, ledger=ledger, randomness=SeededRandomness(1))
    model = create("mst").fit(curator, ZCDP(0.5))
    frame = model.sample(2_000, seed=2)
    assert schema.holds_raw(frame).all()
    assert not (frame["code"] == "C19").any()
    assert model.schema.column("code").size <= 5


def test_the_values_within_a_group_follow_the_look() -> None:
    """At epsilon 50 noise is small: the published counts of values are within 3 % of the real ones; even drawing is not."""
    budget = PureDP(50.0)
    real = np.bincount(codes_of()["code"], minlength=61)

    def error(levels: str) -> float:
        schema = schema_of(levels)
        model = create("independent").fit(curator_of(budget, schema=schema), budget)
        assert model.schema.column("code").size <= 6
        drawn = SCHEMA.column("code").encode(model.sample(3_000, seed=1)["code"])
        return float(np.abs(np.bincount(drawn, minlength=61) - real).sum() / 3_000)

    assert error("{prefix: [1, 2], most: 5}") < 0.03
    assert error("{prefix: [1, 2], most: 5, within: even}") > 0.3


def test_several_sets_each_choose_their_groups() -> None:
    from understudy.mechanisms.multiple import synthesize_many

    budget = ZCDP(0.5)
    curator = curator_of(budget)
    sets = synthesize_many(create("independent"), curator, budget, 2, how="independent")
    looks = [entry for entry in curator.ledger.entries() if "choose their groups" in entry.purpose]
    assert len(looks) == 2
    assert all(set(frame["code"].dropna()) <= set(VALUES) for frame in sets.frames(200, seed=1))


def test_the_look_is_the_same_on_every_road(tmp_path: Path) -> None:
    from understudy.workflow import synthesize

    frame = SCHEMA.decode(codes_of(), seed=1)
    ledger = Ledger.in_memory(budget=Budget.of(epsilon=1.0), unit=UNIT, table="t")
    made = synthesize(
        frame, schema=SCHEMA, unit="add-remove", epsilon=1.0, method="independent", rows=300, ledger=ledger
    )
    assert made.frame is not None
    assert set(made.frame["code"].dropna()) <= set(VALUES)
    assert ledger.remaining < 1e-9
    frame.to_csv(tmp_path / "t.csv", index=False)
    curator = Curator(
        read_table(tmp_path / "t.csv", SCHEMA),
        unit=UNIT,
        ledger=Ledger.in_memory(budget=PureDP(1.0), unit=UNIT, table="t"),
    )
    model = create("independent").fit(curator, PureDP(1.0))
    assert model.schema.as_read() == SCHEMA


DEPENDENT = """
columns:
  - {{name: code, kind: categorical, values: [{values}], levels: {{prefix: [1, 2], most: 4}}}}
  - {{name: kind, kind: categorical, values: [x, y]}}
determines: {{code: {table}}}
derived: {{letter: {{value: code, values: {letters}}}}}
"""


@pytest.mark.parametrize("table", ["declared", "learnt"])
def test_what_follows_from_a_value_follows_from_it_in_every_row(table: str) -> None:
    """Even and odd codes decide ``kind``: values that decide differently never share a code, though they share a group."""
    declared = "{" + ", ".join(f"{value}: {'xy'[place % 2]}" for place, value in enumerate(VALUES)) + "}"
    schema = Schema.parse(
        DEPENDENT.format(
            values=", ".join(VALUES),
            table="[kind]" if table == "learnt" else f"{{kind: {declared}}}",
            letters="{" + ", ".join(f"{value}: {value[0]}" for value in VALUES) + "}",
        )
    )
    code = codes_of()["code"] % 60
    ledger = Ledger.in_memory(budget=ZCDP(0.5), unit=UNIT, table="t")
    curator = Curator(
        LocalTable(schema, {"code": code, "kind": code % 2}),
        unit=UNIT,
        ledger=ledger,
        randomness=SeededRandomness(1),
    )
    model = create("mst").fit(curator, ZCDP(0.5))
    assert 2 <= model.schema.column("code").size <= 4
    frame = model.sample(2_000, seed=2)
    assert set(frame["code"]) <= set(VALUES)
    assert frame.groupby("code")["kind"].nunique().max() == 1
    assert (frame["letter"] == frame["code"].str[0]).all()
    if table == "declared":
        assert (frame["kind"] == [("x", "y")[VALUES.index(value) % 2] for value in frame["code"]]).all()


def test_a_column_that_follows_from_another_keeps_its_values_apart() -> None:
    schema = Schema.parse(
        f"""
columns:
  - {{name: sex, kind: categorical, values: [f, m]}}
  - {{name: code, kind: categorical, values: [{", ".join(VALUES)}], levels: {{prefix: [1]}}}}
determines: {{sex: [code]}}
"""
    )
    assert working_schema(schema).column("code").size == 60
    with pytest.raises(SchemaError, match="what follows must be a value"):
        Schema.parse(schema.to_yaml().replace("prefix: [1]", "prefix: [1]\n      at: 1"))
