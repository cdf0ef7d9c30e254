"""Linked tables as a source: no entity, with all its rows in both tables, moves the records by more than the unit says."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data import Database, LocalTable, read_table
from understudy.data.events import EventsTable, WithoutEvents
from understudy.data.holdout import HoldOut
from understudy.data.linked import LinkedTables, read_keys, read_linked, read_register
from understudy.errors import DataError
from understudy.privacy import Ledger, PureDP, Unit
from understudy.schema import Schema
from understudy.schema.files.yaml import parse_plain
from understudy.schema.linked import joined, register_of

TEXT = """
tables:
  - name: people
    key: who
    columns: [{name: sex, kind: categorical, values: [f, m]}]
  - name: visits
    belongs_to: people
    reference: person
    order: day
    max_events: 6
    columns:
      - {name: day, kind: integer, minimum: 0, maximum: 29, bins: 3}
      - {name: ward, kind: categorical, values: [a, b, c], missing: true}
"""
SCHEMA = Schema.parse(TEXT)
DROPPING = Schema.parse(TEXT.replace("max_events: 6", "max_events: 6\n    orphans: drop"))
KEYS_ONLY = Schema.parse(
    TEXT.replace("columns: [{name: sex, kind: categorical, values: [f, m]}]", "source: people.csv")
)
VIRTUAL = Schema.parse(
    TEXT.replace("    columns: [{name: sex, kind: categorical, values: [f, m]}]\n", "").replace(
        "    columns:",
        "    fixed: [sex]\n    columns:\n      - {name: sex, kind: categorical, values: [f, m]}",
    )
)


def tables(ids: list[int], events: list[int], seed: int) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    people = pd.DataFrame({"who": ids, "sex": rng.choice(["f", "m"], len(ids))})
    visits = pd.DataFrame(
        {
            "person": np.array(events, np.int64),
            "day": rng.integers(0, 30, len(events)),
            "ward": rng.choice(["a", "b", "c"], len(events)),
        }
    )
    return {"people": people, "visits": visits}


def records(given, schema=SCHEMA, most=3, key=bytes(32)):
    source = given if isinstance(given, LinkedTables) else LinkedTables(tables=given)
    table = read_linked(read_table, source, schema)
    return table.truncated("who", most, key)


def without(given: dict[str, pd.DataFrame], who: int) -> dict[str, pd.DataFrame]:
    return {
        "people": given["people"][given["people"]["who"] != who],
        "visits": given["visits"][given["visits"]["person"] != who],
    }


def in_duckdb(path: Path, given: dict[str, pd.DataFrame]) -> dict[str, Database]:
    duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
    pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")
    with duckdb.connect(str(path)) as database:
        for name, frame in given.items():
            database.register("given", frame.sample(frac=1, random_state=1))  # a database knows no order
            database.execute(f"CREATE TABLE {name} AS SELECT *, 1 AS unused FROM given")
            database.unregister("given")
    return {name: Database(url=str(path), table=name) for name in given}


PEOPLE = st.lists(st.integers(0, 9), max_size=8, unique=True)
EVENTS = st.lists(st.integers(0, 9), max_size=40)
CLIQUES = (
    (),
    ("sex", "number_of_events"),
    ("ward", "ward_before"),
    ("day", "place_of_event"),
)


@settings(max_examples=150, deadline=None)
@given(
    people=PEOPLE,
    events=EVENTS,
    who=st.integers(0, 9),
    most=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_an_entity_with_all_its_rows_in_both_tables_changes_exactly_so_many_records(
    people, events, who, most, seed
):
    """Whatever the key. With orphans left out, an entity without a row of its own changes nothing."""
    whole = tables(people, events, seed)
    key = np.random.default_rng(seed).bytes(32)
    left = records(whole, DROPPING, most, key)
    right = records(without(whole, who), DROPPING, most, key)
    for clique in (*CLIQUES, left.schema.names[:4], left.schema.names[4:]):
        change = np.atleast_1d(left.count(clique) - right.count(clique))
        assert (change >= 0).all()
        assert change.sum() == (most if who in people else 0)
    assert left.exact_row_count() == most * len(people)
    assert left.schema.holds_codes(next(left.chunks(), {name: [] for name in left.schema.names})).all()


@settings(max_examples=100, deadline=None)
@given(
    people=st.lists(st.integers(0, 9), max_size=6, unique=True),
    before=st.integers(0, 30),
    after=st.integers(0, 30),
    most=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_replaced_entity_moves_marginals_by_no_more_than_the_unit_says(people, before, after, most, seed):
    """From any number of events to any other, none included."""
    unit = Unit.replace_person("who", max_rows=most)
    events = [who for who in people for _ in range(who % 4)]
    rest = tables(people, events, seed)
    found = []
    for who, number in ((77, before), (88, after)):
        theirs = tables([who], [who] * number, seed + who)
        both = {name: pd.concat([rest[name], theirs[name]], ignore_index=True) for name in rest}
        found.append(records(both, SCHEMA, most, np.random.default_rng(seed).bytes(32)))
    for clique in (*CLIQUES[1:], found[0].schema.names):
        left, right = (
            dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))
            for codes, counts in (table.distinct(clique) for table in found)
        )
        change = np.array([left.get(key, 0) - right.get(key, 0) for key in {*left, *right}], float)
        assert np.abs(change).sum() <= unit.histogram_l1
        assert np.sqrt((change**2).sum()) <= unit.histogram_l2 * (1 + 1e-12)
        assert np.abs(change).max(initial=0) <= unit.histogram_linf
    assert found[0].exact_row_count() == found[1].exact_row_count() == most * (len(people) + 1)


@pytest.mark.parametrize("kind", ["frame", "polars", "csv", "parquet", "duckdb"])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_neighbours_through_every_source(tmp_path, kind, relation):
    """What the curator seals moves by no more than it says; the marginal does not depend on which events are chosen."""
    whole = tables(list(range(12)), [who for who in range(12) for _ in range(who)], 3)
    unit = Unit(relation, 4, "who")
    for who in (0, 1, 7, 11):
        other = without(whole, who)
        if relation == "replace-one":
            new = tables([99], [99] * (17 if who % 2 else 0), 5)
            other = {name: pd.concat([other[name], new[name]]) for name in other}
        seals = []
        for number, version in enumerate((whole, other)):
            sources = in_duckdb(tmp_path / f"{who}-{number}.duckdb", version) if kind == "duckdb" else {}
            for name, frame in version.items() if kind != "duckdb" else ():
                path = tmp_path / f"{who}-{number}-{name}.{kind}"
                if kind == "csv":
                    frame.to_csv(path, index=False)
                elif kind == "parquet":
                    frame.to_parquet(path)
                sources[name] = {"frame": frame, "polars": pl.from_pandas(frame)}.get(kind, path)
            table = read_linked(read_table, LinkedTables(tables=sources), SCHEMA)
            book = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t")
            seals.append(
                Curator(table, unit=unit, ledger=book).counts_many([("sex", "number_of_events"), ()])
            )
        for left, right in zip(*seals, strict=True):
            change = np.asarray(left._exact - right._exact, float)
            assert np.abs(change).sum() <= left.l1
            assert np.sqrt((change**2).sum()) <= left.l2 * (1 + 1e-12)
        assert int(np.abs(seals[0][1]._exact - seals[1][1]._exact)) == (4 if relation == "add-remove" else 0)


def test_records_hold_what_the_tables_say():
    given = {
        "people": pd.DataFrame({"sex": ["m", "f", "f"], "who": ["x", "y", "z"]}),
        "visits": pd.DataFrame({"person": ["z", "x", "z"], "day": [25, 3, 1], "ward": ["c", "b", None]}),
    }
    made = next(records(given, most=2).chunks())
    columns = {name: codes.tolist() for name, codes in made.items()}
    assert columns["sex"] == [1, 1, 0, 0, 0, 0]
    assert columns["number_of_events"] == [1, 1, 2, 2, 0, 0]  # the last is y, who has none
    assert columns["place_of_event"] == [0, 0, 0, 1, 2, 2]
    assert columns["ward"] == [1, 1, 3, 2, 3, 3]
    assert columns["day"] == [0, 0, 0, 2, 3, 3]
    assert columns["ward_before"] == [4, 4, 4, 3, 4, 4]


def test_the_same_records_whatever_holds_the_keys(tmp_path):
    """Text in a CSV file, whole numbers in Parquet, numbers with a point in a frame."""
    whole = tables([3, 1, 7], [7, 1, 1, 7, 7], 1)
    whole["people"].to_csv(tmp_path / "people.csv", index=False)
    whole["visits"].to_parquet(tmp_path / "visits.parquet")
    floats = whole | {"visits": whole["visits"].astype({"person": float})}
    mixed = {"people": tmp_path / "people.csv", "visits": tmp_path / "visits.parquet"}
    codes = [records(item).distinct(records(item).schema.names) for item in (whole, floats, mixed)]
    for other in codes[1:]:
        np.testing.assert_array_equal(codes[0][0], other[0])
        np.testing.assert_array_equal(codes[0][1], other[1])
    assert read_keys(tmp_path / "visits.parquet", "person").tolist() == ["7", "1", "1", "7", "7"]
    assert read_keys(pd.DataFrame({"k": pd.Categorical(["b", "a"])}), "k").tolist() == ["b", "a"]


def test_tables_of_a_database_are_read_as_files_are_through_one_snapshot(tmp_path, monkeypatch):
    """As many records of each event as of any other (60 is a multiple of every number here), so that nothing depends on which are chosen."""
    whole = tables([3, 1, 7, 8], [7, 1, 1, 7, 7, 3], 1)
    whole["visits"]["day"] = [3, 9, 27, 12, 1, 5]  # no ties
    stored = in_duckdb(tmp_path / "a.duckdb", whole)
    from understudy.data import sources

    opened = []
    connect = sources.connect
    monkeypatch.setattr(sources, "connect", lambda source: opened.append(source) or connect(source))
    found = [records(item, most=60) for item in (whole, stored, stored | {"people": whole["people"]})]
    assert len(opened) == 2, "one for both tables, one for one of them"
    for other in found[1:]:
        for left, right in zip(
            found[0].distinct(found[0].schema.names), other.distinct(found[0].schema.names), strict=True
        ):
            np.testing.assert_array_equal(left, right)
    with pytest.raises(DataError, match="missing columns: 'sex'"):
        records(in_duckdb(tmp_path / "b.duckdb", whole | {"people": whole["people"][["who"]]}))


def test_a_table_of_keys_alone_and_entities_known_by_their_events():
    whole = tables([1, 2, 3], [1, 1, 3], 0)
    keys = records({"people": whole["people"][["who"]], "visits": whole["visits"]}, KEYS_ONLY)
    assert keys.count(("number_of_events",)).tolist()[:3] == [3, 3, 3]
    flat = {"visits": whole["visits"].assign(sex="m")}
    seen = records(flat, VIRTUAL)
    assert seen.count(("sex", "number_of_events")).sum(axis=0).tolist()[:2] == [3, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["visits"].loc.__setitem__((0, "person"), 5), "orphans: drop"),
        (lambda t: t["people"].loc.__setitem__((0, "who"), 2), "more than one row"),
        (lambda t: t["people"].__setitem__("who", [1, None]), "no value in the id column"),
        (lambda t: t["visits"].__setitem__("person", [1, float("nan"), 2]), "no value in the id column"),
        (lambda t: t["visits"].__setitem__("person", ["1", "NA", "2"]), "such as NA"),
        (lambda t: t["visits"].drop(columns="person", inplace=True), "person"),
        (lambda t: t.__setitem__("visitors", 1), "no table 'visitors'"),
        (lambda t: t.pop("people"), "'people' has no source"),
        (lambda t: t.__setitem__("people", "people.duckdb"), "A database holds many tables"),
        (lambda t: t.__setitem__("people", pl.LazyFrame({"who": [1]})), "lazy frame"),
        (lambda t: t.__setitem__("people", 3), "type 'int'"),
    ],
)
def test_what_does_not_fit_is_refused_without_saying_how_much(change, message):
    given = tables([1, 2], [1, 2, 2], 0)
    change(given)
    with pytest.raises(DataError, match=message) as error:
        records(given)
    assert not any(digit in str(error.value).replace("'int'", "") for digit in "0123456789")


def test_orphans_that_are_dropped_leave_no_trace():
    whole = tables([1, 2], [1, 2, 5, 5], 0)
    few = whole | {"visits": whole["visits"].iloc[:2]}
    left, right = (records(item, DROPPING) for item in (whole, few))
    assert left.filtered
    assert not records(few).filtered
    np.testing.assert_array_equal(left.distinct(left.schema.names)[0], right.distinct(right.schema.names)[0])


def test_a_table_that_changes_while_it_is_read_is_refused(tmp_path):
    whole = tables([1, 2], [1, 2], 0)
    for name, frame in whole.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)

    def read(source, schema, **options):
        found = read_table(source, schema, **options)
        if "day" in schema.names:
            pd.concat([whole["visits"]] * 2).to_csv(tmp_path / "visits.csv", index=False)
        return found

    with pytest.raises(DataError, match="changed while they were read"):
        read_linked(read, LinkedTables(tables={name: tmp_path / f"{name}.csv" for name in whole}), SCHEMA)


def test_entities_without_events_are_known_exactly_where_the_schema_says():
    rows = LocalTable(SCHEMA, {"sex": [0], "day": [0], "ward": [0]}, persons={"who": [0]})
    with pytest.raises(DataError, match="min_events: 0"):
        EventsTable(rows, order=[1])
    with pytest.raises(DataError, match="exactly the columns that are fixed"):
        EventsTable(rows, order=[1], without=WithoutEvents(1, {"day": np.zeros(1, np.uint8)}))
    with pytest.raises(DataError, match="different lengths"):
        WithoutEvents(2, {"sex": np.zeros(1, np.uint8)})
    many = EventsTable(rows, order=[1], without=WithoutEvents(2**20, {"sex": np.zeros(2**20, np.uint8)}))
    with pytest.raises(DataError, match="too many"):
        many.truncated("who", 2**12, bytes(32))


def test_what_an_interrupted_fit_began_with_is_known_by_its_entities_too():
    from understudy.data import records_digest

    whole = tables([1, 2, 3], [1, 1, 2], 0)
    moved = whole | {"visits": whole["visits"].assign(person=[1, 2, 2])}
    more = whole | {"people": tables([1, 2, 3, 4], [], 0)["people"]}
    read = partial(read_linked, read_table)
    digests = {
        records_digest([read(LinkedTables(tables=item), SCHEMA)], bytes(32)) for item in (whole, moved, more)
    }
    assert len(digests) == 3


@pytest.mark.parametrize("schema", [SCHEMA, VIRTUAL], ids=["with a table", "by their events"])
def test_entities_are_held_out_with_all_their_rows(schema):
    """Both parts together are the whole, no entity is in both, and an entity more or less changes no other's side."""
    whole = tables(list(range(60)), [who for who in range(60) for _ in range(who % 5)], 4)
    given = whole if schema is SCHEMA else {"visits": whole["visits"].assign(sex="m")}
    division = HoldOut(0.4, key=bytes(range(32)), id_column="who")
    parts = [
        read_linked(read_table, LinkedTables(tables=given), schema, hold_out=item)
        for item in (division, division.set_aside)
    ]
    all_of_them = read_linked(read_table, LinkedTables(tables=given), schema)
    assert all(part.filtered for part in parts)
    assert not all_of_them.filtered
    counted = [
        table.truncated("who", 20, bytes(32)).count(("number_of_events",)) for table in (*parts, all_of_them)
    ]
    np.testing.assert_array_equal(counted[0] + counted[1], counted[2])
    assert all((item % 20 == 0).all() for item in counted), "all rows of an entity are on one side"
    assert 20 * 10 < counted[1].sum() < 20 * 40
    fewer = (
        without(whole, 17)
        if schema is SCHEMA
        else {"visits": given["visits"][given["visits"]["person"] != 17]}
    )
    read = read_linked(read_table, LinkedTables(tables=fewer), schema, hold_out=division)
    change = counted[0] - read.truncated("who", 20, bytes(32)).count(("number_of_events",))
    assert np.abs(change).sum() in (0, 20)


def test_orphans_of_nobody_are_dropped() -> None:
    """A table of entities without a row, and events that are left out."""
    plain = {
        "tables": [
            {
                "name": "people",
                "key": "who",
                "source": "p.csv",
                "columns": [{"name": "sex", "kind": "boolean"}],
            },
            {
                "name": "visits",
                "belongs_to": "people",
                "source": "v.csv",
                "orphans": "drop",
                "columns": [{"name": "late", "kind": "boolean"}],
            },
        ]
    }
    tables = {
        "people": pd.DataFrame({"who": pd.Series([], dtype="int64"), "sex": pd.Series([], dtype=bool)}),
        "visits": pd.DataFrame({"who": [1, 2], "late": [True, False]}),
    }
    found = read_linked(read_table, LinkedTables(tables=tables), Schema.from_dict(joined(plain).plain))
    assert found.truncated("who", 2, bytes(32)).exact_row_count() == 0


GAPS = Schema.parse(
    TEXT.replace("max_events: 6", "max_events: 6\n    orphans: drop\n    gaps: true").replace(
        "{name: day, kind: integer, minimum: 0, maximum: 29, bins: 3}",
        "{name: day, kind: date, minimum: 2020-01-01, maximum: 2020-12-31, resolution: month}",
    )
)


def _dated(ids: list[int], numbers: list[int], seed: int) -> dict[str, pd.DataFrame]:
    """Entities, of which those with a negative number of events have events and no row; everything about each follows from its key and the seed."""
    people, visits = [], []
    for who, number in zip(ids, numbers, strict=True):
        rng = np.random.default_rng([seed, who])
        if number >= 0:
            people.append({"who": who, "sex": rng.choice(["f", "m"])})
        days = np.datetime64("2020-01-01") + rng.integers(0, 300, abs(number))
        visits += [{"person": who, "day": str(day), "ward": rng.choice(["a", "b", "c"])} for day in days]
    return {
        "people": pd.DataFrame(people, columns=["who", "sex"]),
        "visits": pd.DataFrame(visits, columns=["person", "day", "ward"]),
    }


@settings(max_examples=120, deadline=None)
@given(
    numbers=st.lists(st.integers(-2, 7), max_size=7),
    one=st.integers(-3, 9),
    two=st.one_of(st.none(), st.integers(-3, 9)),
    most=st.integers(1, 6),
    share=st.sampled_from([None, 0.3, 0.7]),
    seed=st.integers(0, 2**32 - 1),
)
def test_neighbours_with_days_between_events_orphans_and_entities_that_are_set_aside(
    numbers, one, two, most, share, seed
):
    """An entity is added or removed (``two`` is None) or replaced by one with another key; whether it is read is decided by its key alone."""
    part = None if share is None else HoldOut(share, np.random.default_rng(seed).bytes(32), id_column="who")
    unit = Unit("add-remove" if two is None else "replace-one", most, "who")
    others, found = list(range(len(numbers))), []
    for key, number in ((77, one), (88, two)):
        own = ([], []) if number is None else ([key], [number])
        given = _dated([*others, *own[0]], [*numbers, *own[1]], seed)
        table = read_linked(read_table, LinkedTables(tables=given), GAPS, hold_out=part)
        assert table.filtered
        found.append(table.truncated("who", most, np.random.default_rng(seed).bytes(32)))
    left, right = (
        dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))
        for codes, counts in (table.distinct(table.schema.names) for table in found)
    )
    assert "days_since_before" in found[0].schema.names
    change = np.array([left.get(key, 0) - right.get(key, 0) for key in {*left, *right}], float)
    assert np.abs(change).sum() <= unit.histogram_l1
    assert np.sqrt((change**2).sum()) <= unit.histogram_l2 * (1 + 1e-12)
    assert found[0].exact_row_count() % most == found[1].exact_row_count() % most == 0


# ---------------------------------------------------------------------- one entity does not change how others are read

REGISTER = """
tables:
  - name: people
    key: who
    columns:
      - {name: account, kind: categorical, values: [1152921504606846976, 1152921504606846977, 5], missing: true, out_of_domain: to-other}
      - {name: insured, kind: boolean, missing: true}
  - name: visits
    belongs_to: people
    max_events: 3
    columns: [{name: ward, kind: categorical, values: [a, b]}]
  - name: claims
    belongs_to: people
    max_events: 3
    columns: [{name: paid, kind: boolean}]
"""


def _register_records(
    people: pa.Table, kind: str, folder: Path, plain: str = REGISTER
) -> dict[str, Counter[tuple[int, ...]]]:
    """Return the event records of each table, for people who have one visit and one claim each."""
    tables: dict[str, Any] = {
        "people": people,
        "visits": pa.table({"who": people["who"], "ward": ["a"] * len(people)}),
        "claims": pa.table({"who": people["who"], "paid": [True] * len(people)}),
    }
    if kind == "polars":
        tables = {name: pl.from_arrow(table) for name, table in tables.items()}
    elif kind == "pandas":
        tables = {name: table.to_pandas(types_mapper=pd.ArrowDtype) for name, table in tables.items()}
    elif kind == "parquet":
        for name, table in tables.items():
            pq.write_table(table, folder / f"{name}.parquet")
        tables = {name: folder / f"{name}.parquet" for name in tables}
    elif kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(str(folder / "t.duckdb")) as database:
            for name, table in tables.items():
                database.register("given", table)
                database.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
        tables = {name: Database(url=str(folder / "t.duckdb"), table=name) for name in tables}
    register = register_of(parse_plain(plain))
    assert register is not None
    read = read_register(read_table, LinkedTables(tables=tables), register.schemas(folder), register.numbers)
    found = {}
    for name, table in read.items():
        codes, counts = table.truncated("who", 2, bytes(32)).distinct(("account", "insured"))
        found[name] = Counter(
            {tuple(map(int, row)): int(many) for row, many in zip(codes, counts, strict=True)}
        )
    return found


@pytest.mark.parametrize("kind", ["arrow", "polars", "pandas", "parquet", "duckdb"])
def test_a_missing_entry_does_not_change_how_the_others_are_read(kind: str, tmp_path: Path) -> None:
    """Before, a missing whole number made all of its column doubles in Arrow tables, Polars frames and databases, and 2**60 + 1 became 2**60."""
    account = [2**60 + 1, 2**60 + 1, 5, 2**60 + 1]
    insured = [True, False, True, None]
    for missing in (None, 5):
        made = [
            pa.table(
                {
                    "who": pa.array(range(many), pa.int64()),
                    "account": pa.array([*account, missing][:many], pa.int64()),
                    "insured": pa.array([*insured, None][:many], pa.bool_()),
                }
            )
            for many in (4, 5)
        ]
        one, two = (_register_records(table, kind, tmp_path) for table in made)
        for name in one:
            assert not one[name] - two[name]  # nothing of the others has gone
            assert (two[name] - one[name]).total() == 2  # and the fifth has two records


@pytest.mark.parametrize("key", [b"z", 9.5, "x", 2**63 + 5, True])
def test_keys_are_read_entry_by_entry(key: object) -> None:
    """Before, one key of bytes among texts made all of them bytes: no event found its entity any more."""
    for others in (["7", "008"], [7, 8], [2**53 + 1, 7.0]):
        alone, together = (
            read_keys(pd.DataFrame({"who": pd.Series(keys, dtype=object)}), "who").tolist()
            for keys in (others, [*others, key])
        )
        assert together[:2] == alone
    assert (
        read_keys(pd.DataFrame({"who": pd.Series([7, "7", 7.0], dtype=object)}), "who").tolist() == ["7"] * 3
    )
    for nothing in (None, float("nan"), pd.NA):
        with pytest.raises(DataError, match="who"):
            read_keys(pd.DataFrame({"who": pd.Series(["7", nothing], dtype=object)}), "who")
