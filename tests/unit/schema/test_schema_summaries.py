"""Summaries of an entity: computed from its own rows, by codes as by hand, and declared or refused with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import LocalTable
from understudy.data.events import EventsTable, WithoutEvents
from understudy.errors import SchemaError
from understudy.privacy import Unit
from understudy.schema import Schema
from understudy.schema.entities import EventColumns, event_schema
from understudy.schema.summaries import WAYS, Summary

COLUMNS = [
    {"name": "day", "kind": "integer", "minimum": 0, "maximum": 29, "bins": 6},
    {"name": "nights", "kind": "integer", "minimum": 0, "maximum": 4, "missing": True},
    {"name": "ward", "kind": "categorical", "values": ["a", "b", "c"]},
    {"name": "grade", "kind": "ordinal", "values": ["low", "middle", "high"]},
]
SUMMARIES: list[dict[str, Any]] = [
    {"name": "all_nights", "of": "nights", "by": "sum", "bins": [0, 2, 6, 12]},
    {"name": "usual_nights", "of": "nights", "by": "mean", "bins": {"edges": [0, 1, 2, 5]}},
    {"name": "longest", "of": "nights", "by": "max"},
    {"name": "worst", "of": "grade", "by": "min"},
    {"name": "ever_b", "of": "ward", "by": "any", "value": "b"},
    {"name": "came_to", "of": "ward", "by": "first"},
    {"name": "left_from", "of": "nights", "by": "last"},
]


def schema_of(*, empty: bool = False, summaries: Any = SUMMARIES) -> Schema:
    entity = {"id": "who", "order": "day", "max_events": 6, "summaries": summaries}
    more = {"min_events": 0, "tables": ["people", "stays"]} if empty else {}
    return Schema.from_dict({"columns": COLUMNS, "entity": entity | more})


def table_of(people: list[int], seed: int, *, empty: bool) -> EventsTable:
    """Rows of entities, all about each decided by its own number and the seed."""
    found: list[tuple[int, ...]] = []
    alone = 0
    for who in people:
        rng = np.random.default_rng([seed, who])
        many = int(rng.integers(0 if empty else 1, 9))
        alone += many == 0
        days = np.sort(rng.choice(30, many, replace=False))
        found += [(who, int(day), *(int(rng.integers(size)) for size in (6, 3, 3))) for day in days]
    codes = np.array(found, dtype=np.int64).reshape(-1, 5)
    schema = schema_of(empty=empty)
    columns = {
        "day": codes[:, 1] // 5, "nights": codes[:, 2], "ward": codes[:, 3], "grade": codes[:, 4],
    }  # fmt: skip
    rows = LocalTable(schema, columns, persons={"who": codes[:, 0]})
    return EventsTable(rows, order=codes[:, 1], without=WithoutEvents(alone, {}) if empty else None)


def records(people: list[int], seed: int, most: int, *, empty: bool) -> dict[tuple[int, ...], int]:
    table = table_of(people, seed, empty=empty)
    made = table.truncated("who", most, np.random.default_rng(seed).bytes(32))
    codes, counts = made.distinct(made.schema.names)
    return dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))


@settings(max_examples=80, deadline=None)
@given(
    others=st.lists(st.integers(0, 30), max_size=6, unique=True),
    after=st.one_of(st.none(), st.integers(61, 80)),
    most=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
    empty=st.booleans(),
)
def test_an_entity_changes_its_own_records_alone(
    others: list[int], after: int | None, most: int, seed: int, empty: bool
) -> None:
    """Added or removed (``after`` is None), or replaced, with all its rows; the marginal of all columns, summaries included, moves by no more than the unit says."""
    unit = Unit("add-remove" if after is None else "replace-one", most, "who")
    left = records([*others, 50], seed, most, empty=empty)
    right = records(others if after is None else [*others, after], seed, most, empty=empty)
    change = np.array([left.get(cell, 0) - right.get(cell, 0) for cell in {*left, *right}], float)
    assert np.abs(change).sum() <= unit.histogram_l1
    assert np.sqrt((change**2).sum()) <= unit.histogram_l2 * (1 + 1e-12)
    if after is None:
        assert change.sum() == most


def test_a_summary_of_other_people_too_breaks_the_bound_that_the_test_above_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = Summary.codes

    def broken(self: Summary, of: Any, codes: Any, who: Any, entities: int, **more: Any) -> Any:
        return honest(self, of, codes, np.maximum(who - 1, 0), entities, **more)

    monkeypatch.setattr(Summary, "codes", broken)
    worst = 0.0
    for seed in range(5):
        left, right = (records(people, seed, 2, empty=False) for people in ([50, 1, 2, 3], [1, 2, 3]))
        worst = max(worst, sum(abs(left.get(cell, 0) - right.get(cell, 0)) for cell in {*left, *right}))
    assert worst > 2


@pytest.mark.parametrize("empty", [False, True])
def test_codes_are_those_of_a_computation_by_hand(empty: bool) -> None:
    table = table_of(list(range(40)), 3, empty=empty)
    entities, _ = table.levels()
    (codes,) = (chunk for chunk in entities.chunks())
    frame = pd.DataFrame(
        {name: np.asarray(table._columns[name]).astype(int) for name in ("nights", "ward", "grade")}
    )
    frame["nights"] = frame["nights"].where(frame["nights"] < 5).astype(float)
    frame["who"], frame["day"] = table._persons["who"].numbers, table._order
    groups = frame.sort_values(["who", "day"]).groupby("who")
    total, mean = groups["nights"].sum(), groups["nights"].mean()
    absent = total.index[groups["nights"].count() == 0]

    def or_missing(series: Any, size: int) -> Any:
        return series.where(~series.index.isin(absent), size - 1).astype(int).tolist()

    alone = 0 if table._without is None else table._without.number
    expected = {
        "all_nights": pd.cut(total, [-1, 1, 5, 99], labels=False).tolist() + [0] * alone,
        "usual_nights": or_missing(np.searchsorted([0, 1, 2, 5], mean, side="right") - pd.Series(1, mean.index), 4) + [3] * alone,
        "longest": or_missing(groups["nights"].max(), 6) + [5] * alone,
        "worst": groups["grade"].min().tolist() + [3] * alone,
        "ever_b": groups["ward"].agg(lambda codes: int((codes == 1).any())).tolist() + [0] * alone,
        "came_to": groups["ward"].first().tolist() + [3] * alone,
        "left_from": or_missing(groups["nights"].last(), 6) + [5] * alone,
    }  # fmt: skip
    for name, wanted in expected.items():
        assert codes[name].tolist() == wanted, name


def test_summaries_are_columns_of_entities_and_rules_of_records() -> None:
    schema = schema_of()
    parts = EventColumns.of(schema)
    assert parts.summaries == tuple(item["name"] for item in SUMMARIES)
    assert parts.fixed == parts.summaries
    assert not set(parts.summaries) & set(parts.events)
    counted = event_schema(schema)
    assert set(parts.summaries) < set(counted.names)
    (rule,) = (item for item in counted.constraints if set(item.columns) == {"nights", "longest"})
    allowed = rule.allowed(counted.domain)
    assert not allowed[3, 2]
    assert allowed[2, 3]
    assert allowed[5].all(), "a missing entry says nothing"
    (rule,) = (item for item in counted.constraints if set(item.columns) == {"ward", "ever_b"})
    assert rule.allowed(counted.domain).tolist() == [[True, True], [False, True], [True, True]]
    assert Schema.from_dict(schema.to_dict()) == schema
    assert schema.to_dict()["entity"]["summaries"][2] == {"name": "longest", "of": "nights", "by": "max"}
    few = schema.select(["day", "ward"])
    assert few.entity is not None
    assert schema.entity is not None
    assert few.entity.summaries == schema.entity.summaries[4:6]


def test_values_beside_rows() -> None:
    schema = schema_of(empty=True)
    rows = pd.DataFrame(
        {"nights": [3, None, 1, 4], "ward": ["a", "b", "c", "a"], "grade": ["low", "high", "high", "middle"]}
    )
    who = np.array([0, 0, 0, 2])
    assert schema.entity is not None
    found = {
        item.name: item.values(schema.column(item.of), rows[item.of], who, 3).tolist()
        for item in schema.entity.summaries
    }
    assert found["all_nights"] == [4, 0, 4]
    assert found["usual_nights"][::2] == [2.0, 4.0]
    assert found["longest"][::2] == [3, 4]
    assert found["worst"][::2] == ["low", "middle"]
    assert found["ever_b"] == [True, False, False]
    assert found["came_to"][::2] == ["a", "a"]
    assert found["left_from"][::2] == [1, 4]
    assert all(
        pd.isna(found[name][1]) for name in ("usual_nights", "longest", "worst", "came_to", "left_from")
    )


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"name": "x", "of": "nothing", "by": "max"}, "no column named 'nothing'"),
        ({"name": "ward", "of": "nights", "by": "max"}, "name of another column"),
        ({"name": "who", "of": "nights", "by": "max"}, "name of another column"),
        ({"name": "x", "of": "ward", "by": "max"}, "numbers, dates and ordinal"),
        ({"name": "x", "of": "ward", "by": "sum", "bins": [0, 1]}, "a column of numbers"),
        ({"name": "x", "of": "nights", "by": "sum"}, "edges, ascending"),
        ({"name": "x", "of": "nights", "by": "sum", "bins": [0, 2, 2]}, "edges, ascending"),
        ({"name": "x", "of": "nights", "by": "sum", "bins": [0, float("nan")]}, "edges, ascending"),
        ({"name": "x", "of": "nights", "by": "max", "bins": [0, 1]}, "goes with by: sum and mean"),
        ({"name": "x", "of": "ward", "by": "any"}, "name the value"),
        ({"name": "x", "of": "ward", "by": "any", "value": "d"}, "no value 'd'"),
        ({"name": "x", "of": "nights", "by": "any", "value": "1"}, "columns of values"),
        ({"name": "x", "of": "ward", "by": "last", "value": "a"}, "goes with by: any"),
        ({"name": "x", "of": "nights", "by": "median"}, "one of sum, mean"),
        ({"name": "x", "of": "nights", "by": "max", "how": 1}, "unknown key 'how'"),
        ("longest", "must be a mapping"),
    ],
)
def test_what_is_wrong_with_a_summary_is_said(item: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        schema_of(summaries=[item])


def test_what_is_wrong_with_summaries_together_is_said() -> None:
    with pytest.raises(SchemaError, match="needs rows in order"):
        Schema.from_dict({"columns": COLUMNS, "entity": {"id": "who", "summaries": [SUMMARIES[5]]}})
    with pytest.raises(SchemaError, match="is fixed about an entity"):
        Schema.from_dict({"columns": COLUMNS, "entity": {"id": "who", "fixed": ["ward"], "summaries": [SUMMARIES[4]]}})  # fmt: skip
    with pytest.raises(SchemaError, match="another column"):
        schema_of(summaries=[SUMMARIES[2], SUMMARIES[2]])
    with pytest.raises(SchemaError, match="must be a list"):
        schema_of(summaries="longest")
    assert set(WAYS) == {item["by"] for item in SUMMARIES}
