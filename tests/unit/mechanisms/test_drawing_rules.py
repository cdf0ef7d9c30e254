"""Records that obey: columns of broken rules drawn again, dependencies learnt from a model, zeros that fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from understudy.curator import Curator
from understudy.data import read_table
from understudy.engine.distributions.dense import DenseTable
from understudy.engine.distributions.released import ReleasedRecords
from understudy.errors import ConstraintError, DomainTooLarge
from understudy.marginals import Workload
from understudy.mechanisms import create
from understudy.mechanisms.drawing import Drawer
from understudy.mechanisms.rules import Repair, learnt_rules, require_possible, structural_rules
from understudy.privacy import ApproxDP, Ledger, Unit
from understudy.schema import Categorical, Date, Integer, Schema

ALPHA = 1e-9


def table(schema: Schema, seed: int = 0) -> DenseTable:
    cells = np.random.default_rng(seed).random(schema.domain.sizes)
    return DenseTable(schema.domain, 1000 * cells / cells.sum())


def test_a_redrawn_column_follows_the_model_given_the_others() -> None:
    """b given a has the model's law limited to what the rule allows, and a keeps its own.

    Chi-square of the pairs with 35 - 1 degrees of freedom at most, false alarms once in 10^9; drawing b from its own marginal, or
    throwing broken records away, is off by more than a tenth of the records here and is caught.
    """
    schema = Schema(
        [Integer("a", minimum=0, maximum=9), Integer("b", minimum=0, maximum=9)], rules=["b >= a + 4"]
    )
    generator = np.random.default_rng(0)
    cells = generator.random((10, 10)) * np.linspace(1, 3, 10)[:, None]
    cells[6:] = 0  # an a that leaves room for some b
    model = DenseTable(schema.domain, cells)
    start = np.stack([generator.choice(6, 60_000, p=cells[:6].sum(1) / cells.sum()), np.zeros(60_000)], 1)
    moved = Repair(schema, schema.constraints, model.marginals).apply(start.astype(np.uint8), generator)
    assert (moved[:, 0] == start[:, 0]).all()
    assert (moved[:, 1] >= moved[:, 0] + 4).all()
    allowed = np.arange(10)[None, :] >= np.arange(10)[:, None] + 4
    given = cells * allowed
    expected = (
        np.bincount(moved[:, 0], minlength=10)[:, None]
        * given
        / np.maximum(given.sum(1, keepdims=True), 1e-300)
    )
    counts = np.bincount(moved[:, 0].astype(int) * 10 + moved[:, 1], minlength=100).reshape(10, 10)
    used = expected > 0
    assert counts[~used].sum() == 0
    statistic = ((counts[used] - expected[used]) ** 2 / expected[used]).sum()
    assert statistic < chi2.isf(ALPHA, int(used.sum()) - 6)


def test_a_rule_that_rejects_nearly_everything_is_obeyed() -> None:
    schema = Schema(
        [
            Date("day", minimum="2020-01-01", maximum="2021-12-31"),
            Integer("week", minimum=1, maximum=53),
            Integer("month", minimum=1, maximum=12),
            Integer("weekday", minimum=1, maximum=7),
        ],
        rules=["week == week_of(day)", "month == month_of(day)", "weekday == weekday_of(day)"],
    )
    generator = np.random.default_rng(1)
    codes = np.stack([generator.integers(0, size, 4_000) for size in schema.domain.sizes], axis=1)
    moved = Repair(schema, schema.constraints).apply(codes.astype(np.uint16), generator)
    assert schema.holds_codes({name: moved[:, i] for i, name in enumerate(schema.names)}).all()
    assert (moved[:, 0] == codes[:, 0]).all()


def test_what_follows_is_learnt_from_the_model() -> None:
    schema = Schema(
        [
            Categorical("country", values=["F", "P"]),
            Categorical("city", values=["Lyon", "Lille", "Porto"], missing=True),
            Integer("age", minimum=0, maximum=2),
        ],
        determines={"city": ["country"]},
    )
    cells = np.zeros((2, 4, 3))
    cells[0, :2], cells[1, 2], cells[:, 3] = 5, 5, 2
    cells += 0.3
    model = DenseTable(schema.domain, cells)
    (rule,) = learnt_rules(schema, model.marginals)
    assert rule.condition is not None
    assert rule.condition.codes == (0, 0, 1)  # type: ignore[union-attr]
    for workload in (None, Workload(schema.domain, (("country", "age"), ("city",)), (1.0, 1.0))):
        drawer = Drawer(schema, model, workload)
        pieces = drawer.chunks(3_000, rows_per_chunk=1_000, generator=np.random.default_rng(2))
        codes = np.concatenate(list(pieces))
        known = codes[codes[:, 1] < 3]
        assert (known[:, 0] == np.array([0, 0, 1])[known[:, 1]]).all()
        assert set(codes[codes[:, 1] == 3][:, 0]) == {0, 1}  # a missing city decides nothing


def test_fitting_puts_back_what_only_all_rules_together_exclude() -> None:
    """Each pair of bins passes each rule, some triples leave no values; counts follow the records."""
    columns = [Integer(name, bins=["0-4", "5-9", "10-14"], decode_by="uniform") for name in "abc"]
    schema = Schema(columns, rules=["a < b", "b < c", "c <= a + 6"])
    pairs = (("a", "b"), ("b", "c"), ("a", "c"))
    drawer = Drawer(schema, table(schema), Workload(schema.domain, pairs, (1.0, 1.0, 1.0)))
    generator = np.random.default_rng(3)
    carry = None
    drawn = []
    for _ in range(3):
        codes, carry = drawer._piece(400, generator, carry, whole=False)
        drawn.append(codes)
    codes = np.concatenate(drawn)
    assert drawer.obey(codes).all()
    assert carry is not None
    for clique, count in zip(carry.fitted, carry.counts, strict=True):
        places = [codes[:, schema.domain.index(name)].astype(int) for name in clique]
        cells = np.ravel_multi_index(places, schema.domain.shape(clique))
        assert np.array_equal(np.ravel(count), np.bincount(cells, minlength=np.size(count)))
    frame = schema.decode({name: codes[:, i] for i, name in enumerate("abc")}, seed=1)
    assert ((frame["a"] < frame["b"]) & (frame["b"] < frame["c"]) & (frame["c"] <= frame["a"] + 6)).all()


def test_released_records_obey_too() -> None:
    schema = Schema([Integer("a", minimum=0, maximum=9), Integer("b", minimum=0, maximum=9)], rules=["a < b"])
    generator = np.random.default_rng(4)
    records = ReleasedRecords(schema.domain, 500.0, generator.integers(0, 10, (500, 2)))
    drawn = Drawer(schema, records, None).valid(700, generator)
    assert (drawn[:, 0] < drawn[:, 1]).all()


def test_constraints_alone_draw_as_before() -> None:
    """Drawing with constraints of version 0.1.0 is rejection, draw for draw."""
    schema = Schema([Integer("a", minimum=0, maximum=9), Integer("b", minimum=0, maximum=9)], ["a <= b"])
    model = table(schema)
    drawer = Drawer(schema, model, None)
    got = drawer.valid(50, np.random.default_rng(5))
    generator = np.random.default_rng(5)
    first = model.sample_codes(50, generator)
    kept = [first[first[:, 0] <= first[:, 1]]]
    missing, request = 50 - len(kept[0]), max(50 - len(kept[0]), 64)
    while missing:
        more = model.sample_codes(request, generator)
        kept.append(more[more[:, 0] <= more[:, 1]][:missing])
        missing -= len(kept[-1])
    joined = np.concatenate(kept)
    generator.shuffle(joined, axis=0)
    assert np.array_equal(got, joined)


def test_zeros_are_held_while_they_fit() -> None:
    day = {"minimum": "2015-01-01", "maximum": "2017-12-31"}
    columns = [
        Date("a", **day),
        Date("b", **day),
        Integer("week", minimum=1, maximum=53),
        Categorical("city", values=["x", "y"]),
        Categorical("land", values=["p", "q"]),
    ]
    schema = Schema(
        columns,
        rules=["a <= b", "week == week_of(a)"],
        determines={"city": {"land": {"x": "p", "y": "q"}}},
    )
    held = [rule.text for rule in structural_rules(schema)]
    assert held == ["week == week_of(a)", "city determines land"]  # a by b has 1.2 million cells
    old = Schema(columns, ["a <= b"])
    assert structural_rules(old) == old.constraints


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        (["a > 99"], "No record obeys 'a > 99'"),
        (["a < b", "b < a"], "The rules contradict each other"),
        (["a < b", "b < c", "c < a"], "The rules contradict each other"),
        (["a + b > 1000"], "No record obeys"),
        (["a is missing"], "No record obeys"),
    ],
)
def test_rules_that_leave_no_record_are_refused(rules: list[str], complaint: str) -> None:
    columns = [Integer(name, bins=["0-9", "10-19"]) for name in "abc"]
    with pytest.raises(ConstraintError, match=complaint):
        require_possible(Schema(columns, rules=rules))
    require_possible(Schema(columns, rules=["a < b", "b < c"]))
    require_possible(Schema(columns))


def test_a_dependency_that_is_too_large_to_learn_is_refused() -> None:
    wide = [Integer(name, minimum=0, maximum=9_999) for name in ("a", "b")]
    with pytest.raises(DomainTooLarge, match="Declare the table of values"):
        require_possible(Schema(wide, determines={"a": ["b"]}))


@pytest.mark.parametrize("declared", [True, False])
def test_what_follows_from_a_column_with_levels_follows_from_its_values(declared: bool) -> None:
    """A fit puts diagnoses into groups; every diagnosis still has one chapter, the declared one if there is one."""
    codes = [f"{letter}{number:02d}" for letter in "ABC" for number in range(20)]
    chapters = {code: code[0] for code in codes}
    schema = Schema(
        [
            Categorical("diagnosis", values=codes, levels={"prefix": [1, 2]}),
            Categorical("chapter", values=["C", "B", "A"]),
        ],
        determines={"diagnosis": {"chapter": chapters} if declared else ["chapter"]},
        derived={"first": {"value": "diagnosis", "values": chapters}},
    )
    generator = np.random.default_rng(0)
    diagnosis = generator.choice(codes, 800)
    frame = pd.DataFrame({"diagnosis": diagnosis, "chapter": [code[0] for code in diagnosis]})
    budget, unit = ApproxDP(2.0, 1e-6), Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    curator = Curator(read_table(frame, schema), unit=unit, ledger=ledger)
    model = create("independent").fit(curator, budget)
    assert model.schema.domain.size("diagnosis") < len(codes)
    rows = model.sample(1_000, seed=1)
    assert (rows["first"] == rows["diagnosis"].str[0]).all()
    assert (rows.groupby("diagnosis")["chapter"].nunique() == 1).all()
    if declared:
        assert (rows["chapter"] == rows["first"]).all()


def test_tables_too_large_to_look_at_are_obeyed_by_trying() -> None:
    """A century of days by a century of days: 1.3 thousand million cells are never built."""
    century = {"minimum": "1920-01-01", "maximum": "2019-12-31"}
    schema = Schema(
        [Date("born", **century), Date("died", **century, missing=True)],
        rules=["died >= born", "died - born <= 40000"],
    )
    assert structural_rules(schema) == ()
    generator = np.random.default_rng(0)
    codes = np.stack([generator.integers(0, 36_000, 300) for _ in range(2)], axis=1).astype(np.uint32)
    moved = Repair(schema, schema.constraints).apply(codes, generator)
    assert (moved[:, 0] == codes[:, 0]).all()
    assert schema.holds_codes({"born": moved[:, 0], "died": moved[:, 1]}).all()
    require_possible(schema)
