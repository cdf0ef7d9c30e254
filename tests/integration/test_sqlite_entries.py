"""SQLite gives every entry a type of its own: how one record is read never depends on another, whatever that one holds.

Neighbours are drawn at random from fixed seeds, and the assertions are exact: no false alarms.
"""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from understudy.data import Database, read_table
from understudy.data.linked import LinkedTables, read_linked
from understudy.data.sources import read_frame
from understudy.data.sql.engines import OtherSession
from understudy.errors import DataError
from understudy.schema import Boolean, Categorical, Date, Integer, Real, Schema

pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

HUGE = 2**60  # doubles are 256 apart here
DECLARED = (
    "INTEGER", "BIGINT", "", "TEXT", "REAL", "NUMERIC", "DECIMAL(30,2)", "BOOLEAN", "DATE", "TIMESTAMP", "TEXT COLLATE NOCASE", "anything",
)  # fmt: skip
ENTRIES = (
    None, "", "x", "X", "NA", "7", "007", "7.0", 7, 7.0, 2.5, 0, 1, -1, "true", HUGE, HUGE + 1, HUGE + 2, HUGE + 255, -HUGE - 1, 2**53, 2**53 + 1,
    2**63 - 1, -(2**63), 1e18, 1e300, float("inf"), str(HUGE + 1), "2020-02-29", "20200229", 20200229, "1e3", "9" * 30,
)  # fmt: skip
VALUES = (str(HUGE), str(HUGE + 1), str(HUGE + 2), "7", "007", "x", "X", "2.5")
LENIENT = {"missing": True, "out_of_domain": "to-other"}
COLUMNS = (
    lambda: Categorical("value", values=VALUES, **LENIENT),
    lambda: Integer("value", minimum=0, maximum=9, **LENIENT),
    lambda: Integer("value", minimum=HUGE, maximum=HUGE + 9, **LENIENT),
    lambda: Real("value", minimum=0, maximum=10, bins=5, **LENIENT),
    lambda: Boolean("value", **LENIENT),
    lambda: Date("value", minimum="2020-01-01", maximum="2020-12-31", resolution="month", **LENIENT),
)


def put(path, tables):
    """Write tables to a new SQLite file: for each name, the declared columns and the rows."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        for name, (declared, rows) in tables.items():
            listed = ", ".join(f'"{column}" {kind}' for column, kind in declared.items())
            connection.execute(f"CREATE TABLE {name} ({listed})")
            marks = ", ".join("?" * len(declared))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    connection.close()
    return {name: Database(url=f"sqlite://{path}", table=name, immutable=True) for name in tables}


def some(rng, many):
    """Entries, mostly whole numbers that only exact ones tell apart."""
    usual = [HUGE + int(place) for place in rng.integers(0, 4, many)]
    return [ENTRIES[rng.integers(len(ENTRIES))] if rng.random() < 0.2 else entry for entry in usual]


@pytest.mark.parametrize("memory", [1024, 0])
def test_one_record_changes_one_count_by_one(tmp_path, memory):
    rng = np.random.default_rng(1)
    for _ in range(150):
        declared = {"value": rng.choice(DECLARED), "size": "INTEGER"}
        schema = Schema([COLUMNS[rng.integers(len(COLUMNS))](), Integer("size", minimum=0, maximum=3)])
        rows = [(entry, int(rng.integers(4))) for entry in some(rng, int(rng.integers(0, 6)))]
        more = (ENTRIES[rng.integers(len(ENTRIES))], int(rng.integers(4)))
        place = int(rng.integers(len(rows) + 1))
        counts = []
        for table in (rows, [*rows[:place], more, *rows[place:]]):
            stored = put(tmp_path / "t.db", {"t": (declared, table)})["t"]
            read = read_table(stored, schema, max_memory_mb=memory)
            counts.append(read.count(("value", "size")))
            assert read.exact_row_count() == len(table)
        added = counts[1] - counts[0]
        assert np.abs(added).sum() == 1, (declared, more)


def test_persons_with_huge_ids_stay_apart(tmp_path):
    schema = Schema([Integer("size", minimum=0, maximum=3)])
    ids = [entry for entry in ENTRIES if entry is not None and str(entry).strip() not in ("", "NA")]
    rng = np.random.default_rng(2)
    for _ in range(100):
        declared = {"who": rng.choice(("INTEGER", "BIGINT", "", "NUMERIC", "TEXT")), "size": "INTEGER"}
        people = [HUGE + int(number) for number in rng.integers(0, 9, 5)]
        rows = [(who, int(rng.integers(4))) for who in people]
        other = ids[rng.integers(len(ids))]
        before, after = (
            read_table(put(tmp_path / "t.db", {"t": (declared, table)})["t"], schema, id_column="who")
            .truncated("who", 1, bytes(32))
            .count(("size",))
            for table in (rows, [*rows, (other, 0)])
        )
        assert before.sum() == len(set(people)), declared
        # the row of another person, or one more of the same of which one stays
        assert np.abs(after - before).sum() <= 2
        assert after.sum() - before.sum() in (0, 1)


LINKED = Schema.parse(
    """
tables:
  - name: people
    key: who
    columns: [{name: sex, kind: categorical, values: [f, m], missing: true, out_of_domain: to-missing}]
  - name: visits
    belongs_to: people
    reference: person
    max_events: 5
    columns:
      - {name: ward, kind: categorical, values: ["1152921504606846976", "1152921504606846977", x], missing: true, out_of_domain: to-missing}
"""
)


def test_one_entity_changes_its_own_records_in_linked_tables(tmp_path):
    rng = np.random.default_rng(3)
    hostile = [None, "x", 2.5, HUGE, HUGE + 1, "NA", b"7".decode(), 1e300]
    for _ in range(60):
        key, ward = rng.choice(("INTEGER", "BIGINT", "", "NUMERIC")), rng.choice(DECLARED)
        who = [HUGE + 1, HUGE + 2, HUGE + 3, 7]
        people = [(name, "fm"[place % 2]) for place, name in enumerate(who)]
        visits = [(name, HUGE + int(rng.integers(2))) for name in who for _ in range(rng.integers(3))]
        newcomer = ("somebody", 8, 2.5, HUGE + 250)[rng.integers(4)]
        own = [(newcomer, hostile[rng.integers(len(hostile))]) for _ in range(rng.integers(1, 3))]
        counts = []
        for rows, events in (
            (people, visits),
            ([*people, (newcomer, hostile[rng.integers(len(hostile))])], [*own, *visits]),
        ):
            stored = put(
                tmp_path / "t.db",
                {
                    "people": ({"who": key, "sex": "TEXT"}, rows),
                    "visits": ({"person": key, "ward": ward}, events),
                },
            )
            table = read_linked(read_table, LinkedTables(tables=stored), LINKED)
            records = table.truncated("who", 4, bytes(32))
            counts.append(records.count(("sex", "ward")))
        assert counts[0].sum() == 4 * len(who)
        assert (counts[1] - counts[0]).min() >= 0
        assert (counts[1] - counts[0]).sum() == 4


def test_entries_are_read_as_a_csv_file_would_have_them(tmp_path):
    stored = put(
        tmp_path / "t.db", {"t": ({"value": ""}, [(entry,) for entry in (HUGE + 1, None, 7.0, "007", 2.5)])}
    )
    assert read_frame(stored["t"])["value"].tolist() == [str(HUGE + 1), None, "7", "007", "2.5"]


def test_whole_numbers_of_other_engines_stay_exact_beside_missing_ones(tmp_path):
    """Ibis hands the rows of some engines through pandas, as it does those of SQLite, which stands for them here."""
    stored = put(tmp_path / "t.db", {"t": ({"value": "BIGINT"}, [(HUGE + 1,), (None,)])})["t"]
    session = OtherSession(stored)
    (batch,) = session.batches(session.relation)
    session.close()
    assert batch.column(0).to_pylist() == [str(HUGE + 1), None]


def test_what_no_column_takes_is_refused_without_being_shown(tmp_path):
    schema = Schema([Categorical("value", values=["a"], **LENIENT)])
    stored = put(tmp_path / "t.db", {"t": ({"value": ""}, [(b"SECRET",)])})["t"]
    with pytest.raises(DataError, match="'value' of 't' holds bytes") as raised:
        read_table(stored, schema)
    assert "SECRET" not in str(raised.value)
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("DELETE FROM t")
        connection.execute("INSERT INTO t VALUES (CAST(x'53ff' AS TEXT))")
    connection.close()
    with pytest.raises(DataError, match="not UTF-8") as raised:
        read_table(stored, schema)
    assert raised.value.__context__ is None
    missing = Database(url=f"sqlite://{tmp_path / 't.db'}", table="absent", immutable=True)
    with pytest.raises(DataError, match="no table of that name"):
        read_table(missing, schema)


def test_generated_columns_views_and_odd_names_are_read(tmp_path):
    path = tmp_path / "t.db"
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE "od""d" ("va""lue" INTEGER, twice INTEGER AS ("va""lue" * 2))')
        connection.execute('INSERT INTO "od""d" VALUES (3)')
        connection.execute('CREATE VIEW seen AS SELECT twice FROM "od""d"')
    connection.close()
    for name, columns in {
        'main."od""d"': {'va"lue': ["3"], "twice": ["6"]},
        "seen": {"twice": ["6"]},
    }.items():
        frame = read_frame(Database(url=f"sqlite://{path}", table=name, immutable=True))
        assert frame.to_dict("list") == columns
