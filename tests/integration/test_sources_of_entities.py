"""An entity with all its rows comes, goes or is replaced in every kind of source and both shapes: one table with ids, and linked tables.

The same key is used for both tables of a pair, so that whole event records can be compared: what differs is exactly what the entity gives. The records must also be those that frames give.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from understudy.curator import Curator
from understudy.data import Database, read_table
from understudy.data.events import read_events
from understudy.data.linked import LinkedTables, read_linked
from understudy.privacy import Ledger, PureDP, Unit
from understudy.release import RecordTypes
from understudy.schema import Schema

pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

COLUMNS = """
      - {name: day, kind: integer, minimum: 0, maximum: 59, bins: 4}
      - {name: ward, kind: categorical, values: [a, b, c], missing: true}
"""
SEX = "{name: sex, kind: categorical, values: [f, m]}"
LINKED = Schema.parse(
    f"""
tables:
  - {{name: people, key: who, columns: [{SEX}]}}
  - name: visits
    belongs_to: people
    reference: person
    order: day
    max_events: 20
    columns:{COLUMNS}"""
)
FLAT = Schema.parse(
    f"""
columns:
      - {SEX}{COLUMNS}
entity: {{id: who, fixed: [sex], order: day, max_events: 20}}
"""
)
KEY, MOST = bytes(range(32)), 5
SHAPES = ("flat", "linked")
ENGINES = ("frame", "polars", "csv", "parquet", "duckdb", "sqlite", "postgres", "spark")
Tables = dict[str, pd.DataFrame]


def tables(people: dict[int, int], shape: str) -> Tables:
    """People by their id, with the number that decides everything about each: up to twelve visits, never two on a day."""
    rows = []
    for who, number in people.items():
        rng = np.random.default_rng(number)
        for day in rng.choice(60, number % 13, replace=False):
            rows.append((who, "fm"[number % 2], int(day), rng.choice(["a", "b", "c", ""]) or None))
    visits = pd.DataFrame(rows, columns=["who", "sex", "day", "ward"])
    if shape == "flat":
        return {"visits": visits}
    own = pd.DataFrame({"who": list(people), "sex": ["fm"[number % 2] for number in people.values()]})
    return {"people": own, "visits": visits.drop(columns="sex").rename(columns={"who": "person"})}


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Tables, str, str], dict[str, Any]]:
    """Put tables into files or an engine and say where they are."""

    def put(given: Tables, engine: str, label: str) -> dict[str, Any]:
        if engine == "frame":
            return dict(given)
        if engine == "polars":
            return {name: pl.from_pandas(frame) for name, frame in given.items()}
        whole = {name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in given.items()}
        if engine == "postgres":
            server = request.getfixturevalue("postgres")
            for name, table in whole.items():
                server.fill(f"{label}_{name}", table)
            return {name: Database(url=server.url, table=f"{label}_{name}") for name in whole}
        if engine == "spark":
            url, places = request.getfixturevalue("spark"), {}
            for name, frame in given.items():
                frame.to_parquet(tmp_path / f"{label}_{name}.parquet")
                places[name] = Database(url=url, table=str(tmp_path / f"{label}_{name}.parquet"))
            return places
        if engine == "sqlite":
            path = tmp_path / f"{label}.db"
            with sqlite3.connect(path) as connection:
                for name, frame in given.items():
                    frame.to_sql(name, connection, index=False)
            return {name: Database(url=f"sqlite://{path}", table=name, immutable=True) for name in given}
        if engine == "duckdb":
            duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
            with duckdb.connect(str(tmp_path / f"{label}.duckdb")) as connection:
                for name, table in whole.items():
                    connection.register("given", table)
                    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given ORDER BY random()")
            return {name: Database(url=str(tmp_path / f"{label}.duckdb"), table=name) for name in given}
        for name, frame in given.items():
            path = tmp_path / f"{label}_{name}.{engine}"
            frame.to_csv(path, index=False) if engine == "csv" else frame.to_parquet(path)
        return {name: tmp_path / f"{label}_{name}.{engine}" for name in given}

    return put


def read(source: dict[str, Any], shape: str) -> Any:
    if shape == "linked":
        return read_linked(read_table, LinkedTables(tables=source), LINKED)
    return read_events(partial(read_table, source["visits"]), FLAT, FLAT.entity, source=source["visits"])


def counted(table: Any) -> dict[tuple[int, ...], int]:
    """Return the event records with how often each is there."""
    found = RecordTypes.from_table(table.truncated("who", MOST, KEY))
    return dict(zip(map(tuple, found.codes.tolist()), found.counts.tolist(), strict=True))


WHOLE = {1: 5, 2: 14, 3: 12, 4: 10, 5: 40, 6: 24}
OTHERS = {who: number for who, number in WHOLE.items() if who != 6}
CHANGES = {
    "removed": OTHERS,
    "replaced": OTHERS | {6: 29},
    "replaced by another key": OTHERS | {77: 3},
    "replaced by one with few rows": OTHERS | {6: 27},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_entity_with_all_its_rows_changes_its_own_records_alone(store, engine, shape):
    """Caught: a record of another entity that changes, one record too many of somebody with eleven rows, and an engine that reads a row otherwise."""
    whole = read(store(tables(WHOLE, shape), engine, f"{shape}_whole"), shape)
    before = counted(whole)
    assert before == counted(read(tables(WHOLE, shape), shape)), "not the records that frames give"
    for number, (name, people) in enumerate(CHANGES.items()):
        other = read(store(tables(people, shape), engine, f"{shape}_other{number}"), shape)
        after = counted(other)
        gone = {key: max(0, before.get(key, 0) - after.get(key, 0)) for key in {*before, *after}}
        come = {key: max(0, after.get(key, 0) - before.get(key, 0)) for key in {*before, *after}}
        assert sum(gone.values()) == MOST, name
        assert sum(come.values()) == (0 if name == "removed" else MOST), name
        unit = Unit("add-remove" if name == "removed" else "replace-one", MOST, "who")
        names = whole.truncated("who", MOST, KEY).schema.names
        cliques = [(), *itertools.combinations(names, 1), *itertools.combinations(names, 2)]
        one, two = (table.truncated("who", MOST, KEY).count_many(cliques) for table in (whole, other))
        book = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t")
        sealed = Curator(whole, unit=unit, ledger=book).counts_many(cliques)
        for left, right, seal in zip(one, two, sealed, strict=True):
            change = np.asarray(left, float) - np.asarray(right, float)
            assert np.abs(change).sum() <= seal.l1
            assert np.sqrt((change**2).sum()) <= seal.l2 * (1 + 1e-12)


def test_the_comparison_sees_one_row_more(store):
    """The test above can fail: a second entity with a row more changes records that are not the first one's."""
    before = counted(read(store(tables(WHOLE, "linked"), "csv", "one"), "linked"))
    after = counted(read(store(tables(OTHERS | {5: 41}, "linked"), "csv", "two"), "linked"))
    gone = sum(max(0, count - after.get(key, 0)) for key, count in before.items())
    assert gone > MOST
