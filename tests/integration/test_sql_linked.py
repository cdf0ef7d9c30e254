"""Linked tables in databases: the same event records as from files, and no entity moves them by more than the unit says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import Database, read_table
from understudy.data.linked import LinkedTables, read_linked
from understudy.privacy import Ledger, PureDP, Unit
from understudy.release import RecordTypes
from understudy.schema import Schema

pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

SCHEMA = Schema.parse(
    """
tables:
  - name: people
    key: who
    columns: [{name: sex, kind: categorical, values: [f, m]}]
  - name: visits
    belongs_to: people
    reference: person
    order: day
    max_events: 20
    columns:
      - {name: day, kind: date, minimum: 2020-01-01, maximum: 2020-12-31, resolution: quarter}
      - {name: ward, kind: categorical, values: [a, b, c], missing: true}
"""
)


def tables(people: list[int]) -> dict[str, pd.DataFrame]:
    """Entities with as many events as their number modulo seven, without ties in the order; all about each follows from its number."""
    rows = []
    for who in people:
        rng = np.random.default_rng(who)
        days = rng.choice(366, who % 7, replace=False)
        for day in days:
            ward = rng.choice(["a", "b", "c", ""])
            rows.append((who, pd.Timestamp("2020-01-01") + pd.Timedelta(days=int(day)), ward or None))
    sexes = ["fm"[who % 2] for who in people]
    visits = pd.DataFrame(rows, columns=["person", "day", "ward"])
    visits["day"] = pd.to_datetime(visits["day"]).dt.date
    return {"people": pd.DataFrame({"who": people, "sex": sexes}), "visits": visits}


@pytest.fixture(params=["duckdb", "postgres", "spark"])
def store(request, tmp_path):
    """Put tables into an engine, under names of their own, and say where they are."""
    kind = request.param
    server = None if kind == "duckdb" else request.getfixturevalue(kind)

    def put(given: dict[str, pd.DataFrame], label: str) -> dict[str, Database]:
        if kind == "spark":
            places = {}
            for name, frame in given.items():
                frame.to_parquet(tmp_path / f"{label}_{name}.parquet")
                places[name] = Database(url=server, table=str(tmp_path / f"{label}_{name}.parquet"))
            return places
        if kind == "duckdb":
            import duckdb

            with duckdb.connect(str(tmp_path / "register.duckdb")) as database:
                for name, frame in given.items():
                    database.register("given", frame)
                    database.execute(f"CREATE OR REPLACE TABLE {label}_{name} AS SELECT * FROM given")
            return {
                name: Database(url=str(tmp_path / "register.duckdb"), table=f"{label}_{name}")
                for name in given
            }
        import psycopg

        kinds = {"people": "who bigint, sex text", "visits": "person bigint, day date, ward text"}
        with psycopg.connect(server.url, autocommit=True) as connection:
            for name, frame in given.items():
                connection.execute(f"DROP TABLE IF EXISTS {label}_{name}")
                connection.execute(f"CREATE TABLE {label}_{name} ({kinds[name]})")
                with connection.cursor() as cursor:
                    marks = ", ".join(["%s"] * len(frame.columns))
                    rows = [
                        [
                            None if item is None else getattr(item, "item", lambda item=item: item)()
                            for item in row
                        ]
                        for row in frame.itertuples(index=False)
                    ]
                    cursor.executemany(f"INSERT INTO {label}_{name} VALUES ({marks})", rows)
        return {name: Database(url=server.url, table=f"{label}_{name}") for name in given}

    return put


def records(given, most: int = 60) -> RecordTypes:
    """Sixty records of each entity: as many of each of its events as of any other, whichever are chosen."""
    table = read_linked(read_table, LinkedTables(tables=given), SCHEMA)
    return RecordTypes.from_table(table.truncated("who", most, bytes(32)))


def same(left: RecordTypes, right: RecordTypes) -> bool:
    return np.array_equal(left.codes, right.codes) and np.array_equal(left.counts, right.counts)


def test_the_same_records_as_from_frames(store):
    whole = tables(list(range(1, 30)))
    stored = store(whole, "whole")
    assert same(records(stored), records(whole))
    more = {name: frame.copy() for name, frame in whole.items()}
    more["visits"] = pd.concat([more["visits"], more["visits"].iloc[:1]])
    assert not same(records(store(more, "more")), records(whole)), "one row more would have been seen"


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_neighbours_differ_by_no_more_than_the_unit_says(store, relation):
    unit = Unit(relation, 5, "who")
    seals = []
    for label, people in (
        ("one", [1, 2, 3, 20]),
        ("two", [1, 2, 3] if relation == "add-remove" else [1, 2, 3, 27]),
    ):
        table = read_linked(read_table, LinkedTables(tables=store(tables(people), label)), SCHEMA)
        book = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t")
        seals.append(Curator(table, unit=unit, ledger=book).counts_many([("sex", "number_of_events"), ()]))
    for left, right in zip(*seals, strict=True):
        change = np.asarray(left._exact - right._exact, float)
        assert np.abs(change).sum() <= left.l1
        assert np.sqrt((change**2).sum()) <= left.l2 * (1 + 1e-12)
    assert int(np.abs(seals[0][1]._exact - seals[1][1]._exact)) == (5 if relation == "add-remove" else 0)
