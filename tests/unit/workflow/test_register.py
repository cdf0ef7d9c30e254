"""A table of entities with several tables of events: one entity with all its rows in all of them is the unit, and all tables join."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import Database, read_table
from understudy.data.linked import LinkedTables, read_register
from understudy.errors import DataError, LedgerMismatch, SchemaError, UsageError
from understudy.privacy import Budget, Ledger, Unit
from understudy.schema import Schema
from understudy.schema.files.yaml import parse_plain
from understudy.schema.linked import register_of
from understudy.workflow import events, synthesize

TEXT = """
name: register
tables:
  - name: people
    source: people.csv
    key: who
    columns: [{name: sex, kind: categorical, values: [f, m]}]
  - name: visits
    source: visits.csv
    belongs_to: people
    order: day
    max_events: 6
    count: visits
    columns:
      - {name: day, kind: integer, minimum: 0, maximum: 29, bins: 3}
      - {name: ward, kind: categorical, values: [a, b, c]}
  - name: claims
    source: claims.csv
    belongs_to: people
    reference: person
    max_events: 9
    count: claims
    columns: [{name: paid, kind: boolean}]
"""
REGISTER = register_of(parse_plain(TEXT))
SCHEMAS = [Schema.from_dict(pair.plain) for pair in REGISTER.pairs]
PERSON = Unit.add_remove_person("who", max_rows=3)


def tables(people: list[int], seed: int, *, most: int = 8) -> dict[str, pd.DataFrame]:
    """Entities with 0 to ``most`` rows in each table, all about each decided by its own number and the seed; more visits go with more claims."""
    rows: dict[str, list[tuple[object, ...]]] = {"people": [], "visits": [], "claims": []}
    for who in people:
        rng = np.random.default_rng([seed, who])
        rows["people"].append((who, rng.choice(["f", "m"])))
        visits = int(rng.integers(0, most + 1))
        for _ in range(visits):
            rows["visits"].append((who, int(rng.integers(30)), rng.choice(["a", "b", "c"])))
        for _ in range(visits + int(rng.integers(0, 2))):
            rows["claims"].append((who, bool(rng.random() < 0.8)))
    columns = {"people": ["who", "sex"], "visits": ["who", "day", "ward"], "claims": ["person", "paid"]}
    return {name: pd.DataFrame(found, columns=columns[name]) for name, found in rows.items()}


def records(given: dict[str, pd.DataFrame], most: int) -> dict[str, object]:
    """Event records of each table, by one key."""
    found = {}
    for name, table in read_register(
        read_table, LinkedTables(tables=given), SCHEMAS, REGISTER.numbers
    ).items():
        found[name] = table.truncated("who", most, bytes(32))
    return found


@settings(max_examples=50, deadline=None)
@given(
    others=st.lists(st.integers(0, 30), max_size=6, unique=True),
    after=st.one_of(st.none(), st.integers(61, 80)),
    most=st.integers(1, 7),
    seed=st.integers(0, 2**32 - 1),
)
def test_an_entity_changes_the_records_of_every_table_by_no_more_than_the_unit_says(
    others, after, most, seed
):
    """Added or removed (``after`` is None), or replaced, with all its rows in all three tables."""
    unit = Unit("add-remove" if after is None else "replace-one", most, "who")
    left = records(tables([*others, 50], seed), most)
    right = records(tables(others if after is None else [*others, after], seed), most)
    assert set(left) == {"visits", "claims"}
    for name, table in left.items():
        other = right[name]
        for clique in (table.schema.names, table.schema.names[:3], ("sex", "number_of_events")):
            counted = [
                dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))
                for codes, counts in (item.distinct(clique) for item in (table, other))
            ]
            change = np.array([counted[0].get(cell, 0) - counted[1].get(cell, 0) for cell in {*counted[0], *counted[1]}], float)  # fmt: skip
            assert np.abs(change).sum() <= unit.histogram_l1
            assert np.sqrt((change**2).sum()) <= unit.histogram_l2 * (1 + 1e-12)
            if after is None:
                assert change.sum() == most, "exactly so many records of each table"
    assert "number_of_visits" in left["claims"].schema.names
    assert "number_of_visits" not in left["visits"].schema.names


def test_records_know_the_numbers_of_the_tables_before():
    given = {
        "people": pd.DataFrame({"who": [1, 2], "sex": ["f", "m"]}),
        "visits": pd.DataFrame({"who": [2] * 8, "day": range(8), "ward": ["a"] * 8}),
        "claims": pd.DataFrame({"person": [1, 2], "paid": [True, False]}),
    }
    counted = records(given, 2)["claims"].count(("sex", "number_of_visits"))
    assert counted[0].tolist() == [2, 0, 0, 0, 0, 0], "none"
    assert counted[1].tolist() == [0, 0, 0, 0, 0, 2], "eight, which counts as the most there are: six"


def files(folder: Path, given: dict[str, pd.DataFrame]) -> Path:
    for name, table in given.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    (folder / "register.yaml").write_text(TEXT, encoding="utf-8")
    return folder / "register.yaml"


def joins(made: dict[str, pd.DataFrame]) -> None:
    people = made["people"]
    assert people["who"].is_unique
    for name, key in (("visits", "who"), ("claims", "person")):
        assert made[name][key].isin(people["who"]).all()
        assert (people[name] == people["who"].map(made[name][key].value_counts()).fillna(0)).all()


def test_all_tables_come_out_and_join_and_go_together(tmp_path):
    real = tables(list(range(800)), 1, most=6)
    path = files(tmp_path, real)
    out = f"{tmp_path}/out/"
    made = synthesize(
        path, unit=PERSON, epsilon=100.0, method="aim", seed=1, out=out, ledger=tmp_path / "a.ledger"
    )
    joins(made.tables)
    assert {path.name for path in made.written} == {"people.csv", "visits.csv", "claims.csv"}
    assert list(made.tables["people"]) == ["who", "sex", "visits", "claims"]
    assert list(made.tables["claims"]) == ["person", "paid"]
    assert made.tables["visits"].groupby("who")["day"].is_monotonic_increasing.all()
    together = np.corrcoef(made.tables["people"]["visits"], made.tables["people"]["claims"])[0, 1]
    assert together > 0.8, "in the real tables it is .98; drawn without the numbers before it would be 0"
    assert set(made.models) == {"visits", "claims"}
    package = json.loads((tmp_path / "out" / "datapackage.json").read_text(encoding="utf-8"))
    keys = {item["name"]: item["schema"].get("foreignKeys") for item in package["resources"]}
    assert keys["people"] is None
    assert keys["claims"][0] == {"fields": ["person"], "reference": {"resource": "people", "fields": ["who"]}}
    assert keys["visits"][0]["reference"]["resource"] == "people"


def test_the_fits_share_the_budget_and_an_interruption_costs_nothing(tmp_path, monkeypatch):
    path = files(tmp_path, tables(list(range(60)), 2))
    asked = {"unit": PERSON, "epsilon": 2.0, "method": "mst", "seed": 1, "ledger": tmp_path / "a.ledger"}
    with monkeypatch.context() as patch:
        patch.setattr(events, "register_tables", lambda *given, **named: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            synthesize(path, **asked)
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        first = ledger.spent
        assert 1.9 < first <= 2.0
        scopes = {entry.scope.split("/")[0] for entry in ledger.entries() if entry.event is not None}
    assert scopes == {"visits", "claims"}
    assert list(tmp_path.glob("a.ledger.fit-*")), "what was paid for is kept"
    made = synthesize(path, **asked)
    joins(made.tables)
    assert made.repeated
    assert not list(tmp_path.glob("a.ledger.fit-*")), "and forgotten once it is handed over"
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        assert ledger.spent == first
    book = Ledger.in_memory(budget=Budget.of(epsilon=1.0), unit=PERSON, table="register")
    with pytest.raises(Exception, match="epsilon"):
        synthesize(path, **(asked | {"ledger": book}))
    assert book.spent <= 1.0


def test_tables_by_name_and_a_database_out(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
    real = tables(list(range(50)), 3)
    files(tmp_path, real)
    out = tmp_path / "out.duckdb"
    made = synthesize(
        real, schema=tmp_path / "register.yaml", unit=PERSON, epsilon=4.0, method="independent", seed=1, out=out, ledger="memory"
    )  # fmt: skip
    joins(made.tables)
    with duckdb.connect(str(out), read_only=True) as database:
        keys = database.execute(
            "SELECT table_name, constraint_type FROM duckdb_constraints() WHERE constraint_type LIKE '% KEY' ORDER BY 1"
        ).fetchall()
    assert keys == [("claims", "FOREIGN KEY"), ("people", "PRIMARY KEY"), ("visits", "FOREIGN KEY")]


def test_the_same_records_from_a_database(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
    pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")
    real = tables(list(range(20)), 4, most=3)
    real["visits"] = real["visits"].drop_duplicates(["who", "day"])  # no ties
    with duckdb.connect(str(tmp_path / "a.duckdb")) as database:
        for name, frame in real.items():
            database.register("given", frame)
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            database.unregister("given")
    stored = {name: Database(url=str(tmp_path / "a.duckdb"), table=name) for name in real}

    def counted(given):
        """As many records of each row as of any other: twelve is a multiple of every number of rows here."""
        source = LinkedTables(tables=given)
        found = read_register(read_table, source, SCHEMAS, REGISTER.numbers)
        tables = {name: table.truncated("who", 12, bytes(32)) for name, table in found.items()}  # fmt: skip
        return [table.count(("sex", "number_of_events", "place_of_event")) for table in tables.values()]

    for left, right in zip(counted(real), counted(stored), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("{name: paid", "{name: ward"), "'ward' is a column of 'visits' and of 'claims'"),
        (lambda text: text.replace("    count: claims\n", "").replace("    key: who\n", "    key: who\n    count: all\n"), "belongs to the table whose rows it counts"),
        (lambda text: text.replace("    source: people.csv\n", "").replace("    columns: [{name: sex, kind: categorical, values: [f, m]}]\n", ""), "need a table of their own"),
        (lambda text: text + "rules: ['sex == \"f\"']\n", "rules: with several tables of events it belongs to a table"),
        (lambda text: text.replace("max_events: 9", "max_events: 0"), "'claims'.max_events"),
        (lambda text: text.replace("belongs_to: people\n    reference", "belongs_to: peple\n    reference"), "no table named 'peple'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_tables_is_said(change, said):
    with pytest.raises(SchemaError, match=said):
        register_of(parse_plain(change(TEXT)))


def test_refusals_spend_nothing(tmp_path):
    real = tables(list(range(30)), 5)
    path = files(tmp_path, real)
    book = Ledger.in_memory(budget=Budget.of(epsilon=1.0), unit=PERSON, table="register")
    asked = {"unit": PERSON, "epsilon": 1.0, "ledger": book}
    for more, error, said in (
        ({"flat": True}, UsageError, "leave flat out"),
        ({"rows": 5}, UsageError, "leave rows out"),
        ({"unit": Unit.add_remove_person("person", max_rows=2)}, UsageError, "name their key"),
    ):
        with pytest.raises(error, match=said):
            synthesize(path, **(asked | more))
    (tmp_path / "claims.csv").write_text("person,paid\n999,true\n", encoding="utf-8")
    with pytest.raises(DataError, match="orphans: drop"):
        synthesize(path, **asked)
    assert book.spent == 0
    with pytest.raises(SchemaError, match="several are synthesized together"):
        Schema.parse(TEXT)


@pytest.mark.parametrize(
    "changed", [("reference: person", "reference: payer"), ("count: claims", "orphans: drop")]
)
def test_a_ledger_remembers_how_every_table_is_joined(tmp_path, changed) -> None:
    """Another way to join asks other questions of the records for nothing; it is refused before a record is read, with a ledger of any kind."""
    file = tmp_path / "register.yaml"
    file.write_text(TEXT, encoding="utf-8")
    asked = {"schema": file, "unit": PERSON, "epsilon": 1.0, "method": "independent", "seed": 1}
    synthesize(tables(list(range(40)), 1), ledger=tmp_path / "a.ledger", **asked)
    before = (tmp_path / "a.ledger").read_bytes()
    file.write_text(TEXT.replace(*changed), encoding="utf-8")
    nothing = dict.fromkeys(("people", "visits", "claims"), pd.DataFrame({"nothing": []}))
    for ledger in (tmp_path / "a.ledger", Ledger.open(tmp_path / "a.ledger")):
        with pytest.raises(LedgerMismatch, match="What differs: linked tables"):
            synthesize(nothing, ledger=ledger, **asked)
    assert (tmp_path / "a.ledger").read_bytes() == before
