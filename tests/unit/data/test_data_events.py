"""Event records: exactly so many of each entity, whatever it has, and no other entity notices."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data import LocalTable, read_table, records_digest
from understudy.data.events import EventsTable, in_order, mixed, shares
from understudy.errors import BudgetError, DataError
from understudy.mechanisms import create
from understudy.privacy import Ledger, PureDP, Unit
from understudy.schema import Schema
from understudy.schema.entities import EventColumns, event_schema, finest
from understudy.workflow.paid import paid_work, work_facts

SCHEMA = Schema.parse(
    """
columns:
  - {name: sex, kind: categorical, values: [f, m]}
  - {name: day, kind: integer, minimum: 0, maximum: 29, bins: 3}
  - {name: ward, kind: categorical, values: [a, b, c], missing: true}
entity: {id: who, fixed: [sex], order: day, max_events: 6}
"""
)
UNORDERED = Schema.parse(
    """
columns:
  - {name: ward, kind: categorical, values: [a, b, c]}
  - {name: died, kind: boolean}
entity: {id: who, max_events: 6}
"""
)


def key_of(seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(32)


def words_of(seed: int, rows: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64 - 1, rows, dtype=np.uint64, endpoint=True)


def events_of(ids: np.ndarray, seed: int) -> tuple[LocalTable, np.ndarray]:
    rng = np.random.default_rng(seed)
    day = rng.integers(0, 30, len(ids))
    table = LocalTable(
        SCHEMA,
        {"sex": rng.integers(0, 2, len(ids)), "day": day // 10, "ward": rng.integers(0, 4, len(ids))},
        persons={"who": ids},
    )
    return table, day


def part(table: LocalTable, day: np.ndarray, kept: np.ndarray, ids: np.ndarray) -> EventsTable:
    codes = next(table.chunks(), {name: np.zeros(0, np.int64) for name in SCHEMA.names})
    rows = LocalTable(SCHEMA, {name: codes[name][kept] for name in SCHEMA.names}, persons={"who": ids[kept]})
    return EventsTable(rows, order=day[kept])


PEOPLE = st.lists(st.integers(0, 4), max_size=40)


@settings(max_examples=200, deadline=None)
@given(people=PEOPLE, person=st.integers(0, 4), records=st.integers(1, 50), seed=st.integers(0, 2**32 - 1))
def test_a_person_with_all_their_rows_changes_exactly_so_many_records(people, person, records, seed):
    """Whatever the key, wherever the rows of the person stood. Add, remove, and rows far beyond or below ``records``."""
    ids = np.array(people, np.int64)
    table, day = events_of(ids, seed)
    key = key_of(seed)
    others = ids != person
    whole = part(table, day, np.ones(len(ids), bool), ids).truncated("who", records, key)
    without = part(table, day, others, ids).truncated("who", records, key)
    names = whole.schema.names
    for clique in ((), ("ward",), ("sex", "number_of_events"), ("ward", "ward_before"), names[:4], names[4:]):
        change = np.atleast_1d(whole.count(clique) - without.count(clique))
        assert (change >= 0).all()
        assert change.sum() == (0 if others.all() else records)


@settings(max_examples=100, deadline=None)
@given(
    people=PEOPLE,
    before=st.integers(1, 30),
    after=st.integers(1, 30),
    records=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_replaced_person_moves_marginals_by_no_more_than_the_unit_says(
    people, before, after, records, seed
):
    unit = Unit.replace_person("who", max_rows=records)
    found = []
    for number, salt in ((before, 1), (after, 2)):
        ids = np.array([*people, *[9] * number], np.int64)
        table, day = events_of(np.array(people, np.int64), seed)
        theirs, their_days = events_of(np.array([9] * number, np.int64), seed + salt)
        pieces = [next(item.chunks(), None) for item in (table, theirs)]
        codes = {
            name: np.concatenate([piece[name] for piece in pieces if piece is not None])
            for name in SCHEMA.names
        }
        rows = LocalTable(SCHEMA, codes, persons={"who": ids})
        found.append(
            EventsTable(rows, order=np.concatenate([day, their_days])).truncated("who", records, key_of(seed))
        )
    for clique in (
        ("ward", "ward_before"),
        ("sex", "number_of_events", "place_of_event"),
        found[0].schema.names,
    ):
        left, right = (
            dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))
            for codes, counts in (t.distinct(clique) for t in found)
        )
        change = np.array([left.get(key, 0) - right.get(key, 0) for key in {*left, *right}], float)
        assert np.abs(change).sum() <= unit.histogram_l1
        assert np.sqrt((change**2).sum()) <= unit.histogram_l2 * (1 + 1e-12)
        assert np.abs(change).max(initial=0) <= unit.histogram_linf
    assert found[0].exact_row_count() == found[1].exact_row_count()


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    records=st.integers(1, 40),
    seed=st.integers(0, 999),
)
def test_shares_are_as_equal_as_they_can_be(sizes, records, seed):
    who = np.repeat(np.arange(len(sizes)), sizes)
    found = shares(who, np.array(sizes), words_of(seed, len(who)), records)
    for person, size in enumerate(sizes):
        mine = found[who == person]
        assert mine.sum() == records
        assert mine.max() - mine.min() <= 1
        assert mine.min() == records // size


def test_every_row_is_as_likely_to_be_kept_wherever_it_stands():
    """Mean records of each of five rows under two records, 4,000 times: 0.4 each.

    False alarm below 1e-9 (seven deviations of 0.0077); catches words that decide both the order and the choice, which would keep first rows always.
    """
    table = LocalTable(UNORDERED, {"ward": [0] * 5, "died": [0] * 5}, persons={"who": np.zeros(5, int)})
    first = sum(
        int(EventsTable(table).truncated("who", 2, key_of(seed)).count(("place_of_event",))[0])
        for seed in range(4_000)
    )
    assert abs(first / 4_000 - 0.4) < 7 * np.sqrt(0.4 * 0.6 / 4_000)


def test_records_hold_the_row_before_the_number_and_what_is_fixed():
    frame = pd.DataFrame(
        {
            "who": ["x", "y", "x", "x"],
            "sex": ["m", "f", "f", "f"],
            "day": [25, 3, 1, 21],
            "ward": ["c", "b", "a", None],
        }
    )
    rows = read_table(frame, SCHEMA, id_column="who")
    records = EventsTable(rows, order=frame["day"].to_numpy()).truncated("who", 3, key_of(1))
    parts = EventColumns.of(SCHEMA)
    codes = {key: value.tolist() for key, value in next(records.chunks()).items()}
    assert codes["sex"] == [0, 0, 0, 0, 0, 0]  # of the first row in order, where they differ
    assert codes[parts.number] == [2, 2, 2, 0, 0, 0]
    assert codes["ward"] == [0, 3, 2, 1, 1, 1]
    assert codes[parts.before["ward"]] == [4, 0, 3, 4, 4, 4]
    assert codes[parts.place] == [0, 1, 1, 0, 0, 0]
    assert records.schema == event_schema(SCHEMA)
    assert records.schema.holds_codes(next(records.chunks())).all()


def test_an_entity_with_more_rows_than_the_cap_counts_as_one_with_so_many():
    table = LocalTable(UNORDERED, {"ward": [0] * 500, "died": [0] * 500}, persons={"who": np.zeros(500, int)})
    counts = EventsTable(table).truncated("who", 4, key_of(0)).count(("number_of_events",))
    assert counts.tolist() == [0] * (len(counts) - 1) + [4]


def test_no_rows_give_no_records():
    empty = LocalTable(UNORDERED, {"ward": [], "died": []}, persons={"who": np.zeros(0, int)})
    records = EventsTable(empty).truncated("who", 4, key_of(0))
    assert records.exact_row_count() == 0
    assert records.count(("ward", "ward_before")).sum() == 0


@pytest.mark.parametrize("records", [0, -1, 1.5, True])
def test_a_number_of_records_that_is_none_is_refused(records):
    table = LocalTable(UNORDERED, {"ward": [0], "died": [0]}, persons={"who": [0]})
    with pytest.raises(BudgetError, match="whole number"):
        EventsTable(table).truncated("who", records, key_of(0))


def test_what_does_not_fit_together_is_refused():
    table = LocalTable(UNORDERED, {"ward": [0], "died": [0]}, persons={"who": [0], "other": [0]})
    with pytest.raises(DataError, match="Name the same column"):
        EventsTable(table).truncated("other", 2, key_of(0))
    with pytest.raises(DataError, match="read_table"):
        EventsTable(table).truncated("patient", 2, key_of(0))
    with pytest.raises(DataError, match="in order"):
        EventsTable(table, order=[1])
    ordered, day = events_of(np.array([1, 1]), 0)
    with pytest.raises(DataError, match="changed while it was read"):
        EventsTable(ordered, order=day[:1])
    with pytest.raises(DataError, match="too many"):
        EventsTable(table).truncated("who", 2**40, key_of(0))


def test_missing_ids_are_refused():
    frame = pd.DataFrame({"who": ["x", None], "ward": ["a", "b"], "died": [True, False]})
    with pytest.raises(DataError, match="no value in the id column"):
        read_table(frame, UNORDERED, id_column="who")


def test_words_that_are_mixed_are_all_different():
    words = np.arange(10_000, dtype=np.uint64)
    assert len(np.unique(mixed(words))) == 10_000


def test_rows_with_equal_order_stay_as_they_stand():
    rows, starts, sizes = in_order(np.array([1, 0, 1, 0]), words_of(0, 4), np.array([5, 2, 5, 1]))
    assert rows.tolist() == [3, 1, 0, 2]
    assert (starts.tolist(), sizes.tolist()) == ([0, 2], [2, 2])


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_neighbours_through_every_source(tmp_path, kind, relation):
    """What the curator seals moves by no more than it says when a person with all their rows comes, goes or is exchanged.

    The marginal is one that does not depend on which rows are chosen, so that the two curators need not share their randomness.
    """
    from functools import partial

    from understudy.data.events import read_events

    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "who": rng.integers(0, 12, 60),
            "sex": rng.choice(["f", "m"], 60),
            "day": rng.integers(0, 30, 60),
            "ward": rng.choice(["a", "b", "c"], 60),
        }
    )
    unit = Unit(relation, 4, "who")
    for person in range(12):
        other = frame[frame["who"] != person]
        if relation == "replace-one":
            other = pd.concat(
                [other, pd.DataFrame({"who": [99] * 17, "sex": "m", "day": range(17), "ward": "c"})]
            )
        seals = []
        for number, table in enumerate((frame, other)):
            source = table
            if kind != "frame":
                source = tmp_path / f"{person}-{number}.{kind}"
                table.to_csv(source, index=False) if kind == "csv" else table.to_parquet(source)
            book = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t")
            events = read_events(partial(read_table, source), SCHEMA, SCHEMA.entity)
            curator = Curator(events, unit=unit, ledger=book)
            seals.append(curator.counts_many([("sex", "number_of_events"), ()]))
        for left, right in zip(*seals, strict=True):
            change = np.asarray(left._exact - right._exact, float)
            assert np.abs(change).sum() <= left.l1
            assert np.sqrt((change**2).sum()) <= left.l2
        assert int(np.abs(seals[0][1]._exact - seals[1][1]._exact)) == (4 if relation == "add-remove" else 0)


def test_the_finest_order_of_a_column_tells_days_apart():
    date = Schema.parse(
        "columns: [{name: d, kind: date, minimum: 2020-01-01, maximum: 2020-12-31, resolution: quarter}]"
    ).column("d")
    assert finest(date).encode(["2020-01-02"])[0] < finest(date).encode(["2020-01-03"])[0]
    assert finest(SCHEMA.column("day")).size == 30
    assert finest(SCHEMA.column("ward")) is SCHEMA.column("ward")


def digest(frame: pd.DataFrame, order: list[int] | None = None) -> str:
    schema = SCHEMA if order is not None else UNORDERED
    return records_digest([EventsTable(read_table(frame, schema, id_column="who"), order=order)], b"key")


def test_a_digest_notices_whose_rows_are_whose_and_in_which_order():
    """A fit that was interrupted must not go on with a table in which only ids or order changed: its records are others."""
    frame = pd.DataFrame({"ward": list("abca"), "died": [False, False, True, True], "who": [1, 1, 2, 2]})
    same = digest(frame)
    assert digest(frame.assign(who=["x", "x", "y", "y"])) == same  # other names for the same people
    assert digest(frame.iloc[[3, 0, 2, 1]]) == same  # stored otherwise
    assert digest(frame.assign(who=[1, 2, 1, 2])) != same
    assert digest(frame.assign(who=[1, 1, 1, 2])) != same
    ordered = frame.assign(sex="f", day=1)
    before = digest(ordered, [1, 2, 3, 4])
    assert digest(ordered.iloc[[3, 0, 2, 1]], [4, 1, 3, 2]) == before
    assert digest(ordered, [10, 20, 30, 40]) == before  # the same order
    assert digest(ordered, [2, 1, 3, 4]) != before


def test_an_interrupted_fit_of_people_does_not_go_on_with_other_people(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"ward": rng.choice(list("abc"), 60), "died": rng.random(60) < 0.5, "who": np.arange(60) // 3}
    )
    unit, budget, method = Unit.add_remove_person("who", max_rows=2), PureDP(1.0), create("independent")
    facts = work_facts(method, schema_fingerprint=UNORDERED.fingerprint(), unit=unit, budget=budget)
    ledger = Ledger.create(tmp_path / "t.ledger", budget=budget, unit=unit, table="t")

    def fit(rows: pd.DataFrame) -> None:
        with paid_work(ledger, facts) as work:  # never delivered, as if it were interrupted
            work.fit(
                method,
                EventsTable(read_table(rows, UNORDERED, id_column="who")),
                unit=unit,
                budget=budget,
            )

    fit(frame)
    fit(frame.sample(frac=1, random_state=2))
    with pytest.raises(DataError, match="not the one that the interrupted fit began with"):
        fit(frame.assign(who=np.arange(60) % 20))
    assert ledger.spent == pytest.approx(1.0)
