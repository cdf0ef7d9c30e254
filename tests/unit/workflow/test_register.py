"""A table of entities with several tables of events: one entity with all its rows in all of them is the unit, and all tables join."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linked_tables import REGISTER, SCHEMAS, TEXT, files, joins, tables
from understudy.data import Database, read_table
from understudy.data.holdout import HoldOut
from understudy.data.linked import LinkedTables, read_register
from understudy.errors import (
    DataError,
    LedgerError,
    LedgerMismatch,
    ModelFileError,
    SchemaError,
    UsageError,
    WorkloadError,
)
from understudy.mechanisms.events import EventDrawer, RegisterModel
from understudy.privacy import ApproxDP, Budget, Ledger, SeededRandomness, Unit
from understudy.privacy.events import AllowanceEvent
from understudy.schema import Schema
from understudy.schema.files.yaml import parse_plain
from understudy.schema.linked import register_of
from understudy.workflow import events, synthesize
from understudy.workflow.assessment import evaluate_register

PERSON = Unit.add_remove_person("who", max_rows=3)


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
    assert set(made.register.models) == {"visits", "claims"}
    package = json.loads((tmp_path / "out" / "datapackage.json").read_text(encoding="utf-8"))
    keys = {item["name"]: item["schema"].get("foreignKeys") for item in package["resources"]}
    assert keys["people"] is None
    assert keys["claims"][0] == {"fields": ["person"], "reference": {"resource": "people", "fields": ["who"]}}
    assert keys["visits"][0]["reference"]["resource"] == "people"


def test_the_fits_share_the_budget_and_an_interruption_costs_nothing(tmp_path, monkeypatch):
    path = files(tmp_path, tables(list(range(60)), 2))
    asked = {"unit": PERSON, "epsilon": 2.0, "method": "mst", "seed": 1, "ledger": tmp_path / "a.ledger"}
    with monkeypatch.context() as patch:
        patch.setattr(events.RegisterModel, "sample_tables", lambda *given, **named: 1 / 0)
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


def test_every_fit_has_a_delta_of_its_own_where_the_ledger_adds_up_plainly(tmp_path):
    """Before, the first fit took all of the delta of the ledger, more than was asked for, and the second could not be paid for."""
    schema = files(tmp_path, tables(list(range(40)), 3))
    ledger = Ledger.in_memory(
        budget=ApproxDP(2.0, 2e-6), unit=PERSON, table="register", accounting="pure", approximate_delta=2e-6
    )
    synthesize(schema, unit=PERSON, epsilon=1.0, delta=1e-6, method="mst", ledger=ledger, seed=1)
    opened = [entry.event for entry in ledger.entries() if isinstance(entry.event, AllowanceEvent)]
    assert [(event.epsilon, event.delta) for event in opened] == [(0.5, 5e-7)] * 2


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
        ({"discover": 0.1}, UsageError, "leave discover out"),
        ({"prior": "a.csv"}, UsageError, "leave prior out"),
        ({"rows": -5}, UsageError, "zero or more"),
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
    "changed",
    [("reference: person", "reference: payer"), ("max_events: ", "orphans: drop\n    max_events: ")],
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


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A register with its model, its tables and their folder; noise is seeded, so that no bound is a matter of chance."""
    folder = tmp_path_factory.mktemp("fitted")
    real = tables(list(range(400)), 6, most=6)
    path = files(folder, real)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.curator.curator.SystemRandomness", lambda: SeededRandomness(11))
        made = synthesize(
            path, unit=PERSON, epsilon=50.0, method="mst", seed=1, out=f"{folder}/out/", model=folder / "models", rows=900, ledger="memory"
        )  # fmt: skip
    return folder, real, made


def test_models_of_a_folder_draw_the_same_tables_again(fitted, tmp_path):
    folder, _, made = fitted
    assert {path.name for path in (folder / "models").iterdir()} == {
        "register.json",
        "visits.understudy",
        "claims.understudy",
    }
    again = RegisterModel.load(folder / "models").sample_tables(900, seed=1)
    for name, table in made.tables.items():
        pd.testing.assert_frame_equal(again[name], table)
    events = sum(len(made.tables[name]) for name in ("visits", "claims"))
    assert made.rows == events
    assert 900 - 14 < events <= 900, "whole people"
    few = made.register.sample_tables(entities=7, seed=2)
    assert len(few["people"]) == 7
    assert {len(table) for table in made.register.sample_tables(0, seed=2).values()} == {0}
    with pytest.raises(WorkloadError, match="zero or more"):
        made.register.sample_tables(-1)
    made.register.save(tmp_path / "other")
    made.register.save(tmp_path / "other")  # over an older one
    assert RegisterModel.load(tmp_path / "other").entities == "people"


def test_folders_that_are_no_models_are_refused(fitted, tmp_path):
    folder, _, made = fitted
    made.register.save(tmp_path / "a")
    listed = json.loads((tmp_path / "a" / "register.json").read_text(encoding="utf-8"))

    def spoilt(change):
        document = json.loads(json.dumps(listed))
        change(document)
        (tmp_path / "a" / "register.json").write_text(json.dumps(document), encoding="utf-8")
        with pytest.raises(ModelFileError) as caught:
            RegisterModel.load(tmp_path / "a")
        return str(caught.value)

    assert "another version" in spoilt(lambda plain: plain.update(version=2))
    assert "cannot be files" in spoilt(lambda plain: plain["tables"][0].update(name="../visits"))
    assert "not the model" in spoilt(lambda plain: plain["tables"][0].update(sha256="0" * 64))
    assert "belong together" in spoilt(lambda plain: plain["tables"].reverse())
    assert "belong together" in spoilt(lambda plain: plain["tables"].pop())
    assert "belong together" in spoilt(lambda plain: plain["tables"][1].update(numbers={"visits": "sex2"}))
    assert "not a usable list" in spoilt(lambda plain: plain.update(tables=3))
    assert "not a usable list" in spoilt(lambda plain: plain["tables"][0].update(numbers=None))
    (tmp_path / "a" / "register.json").write_text("{" * 100, encoding="utf-8")
    with pytest.raises(ModelFileError, match="not a usable list"):
        RegisterModel.load(tmp_path / "a")
    (tmp_path / "a" / "register.json").unlink()
    with pytest.raises(ModelFileError, match="missing"):
        RegisterModel.load(tmp_path / "a")
    book = Ledger.in_memory(budget=Budget.of(epsilon=1.0), unit=PERSON, table="register")
    for place in (folder / "register.yaml", folder):
        with pytest.raises(UsageError, match="--model"):
            synthesize(folder / "register.yaml", unit=PERSON, epsilon=1.0, model=place, ledger=book)
    assert book.spent == 0


def test_the_number_of_events_in_a_later_table_is_fitted_given_what_is_known(fitted, monkeypatch):
    """The number of claims given that of visits is nearer to the model's than what is drawn at random, and the visits stay as they are."""
    _, _, made = fitted
    model = made.register.models["claims"]
    domain, number = model.schema.domain, model.events.parts.number
    pair = domain.canonical(("number_of_visits", number))
    axis = pair.index(number)
    share = model.marginal(pair) / model.marginal(pair).sum(axis=axis, keepdims=True)

    def distance():
        people, _ = made.register._entities(made.register._drawers, 3_000, np.random.default_rng(3))
        first = made.register._drawers[0]
        own = people[0][:, first._place(first.parts.number)]
        assert (people[1][:, domain.index("number_of_visits")] == own).all()
        drawn = np.zeros(domain.shape(pair))
        np.add.at(drawn, tuple(people[1][:, domain.index(name)].astype(int) for name in pair), 1)
        return np.abs(drawn - share * drawn.sum(axis=axis, keepdims=True)).sum() / 2 / 3_000

    fits = distance()
    monkeypatch.setattr(EventDrawer, "_fitted_people", lambda self, codes, *more, **named: codes)
    assert fits < 0.7 * distance()


def test_marginals_that_matter_go_to_the_tables_that_hold_them(tmp_path):
    (tmp_path / "register.yaml").write_text(TEXT, encoding="utf-8")
    asked = {"unit": PERSON, "budget": Budget.of(epsilon=1.0), "method": "aim"}

    def wanted(**more):
        planned = events.plan_register(REGISTER, tmp_path, **asked, **more)
        return [
            {
                clique
                for clique, _ in fit.workload
                if not any(name.startswith(("number", "place")) or name.endswith("before") for name in clique)
            }
            for fit in planned.fits
        ]

    assert wanted() == [{("sex", "day"), ("sex", "ward"), ("day", "ward")}, {("sex", "paid")}]
    assert wanted(workload="all-3way") == [{("sex", "day", "ward")}, {("sex", "paid")}]
    assert wanted(workload="target:ward:2") == [{("sex", "ward"), ("day", "ward")}, {("sex", "paid")}]
    assert wanted(target="paid") == [{("sex", "day"), ("sex", "ward"), ("day", "ward")}, {("sex", "paid")}]
    (tmp_path / "w.yaml").write_text("workload:\n  - [sex, ward]\n", encoding="utf-8")
    assert wanted(workload=str(tmp_path / "w.yaml"))[0] == {("sex", "ward")}
    (tmp_path / "w.yaml").write_text("workload:\n  - [paid, ward]\n", encoding="utf-8")
    with pytest.raises(UsageError, match="two tables of events"):
        wanted(workload=str(tmp_path / "w.yaml"))
    with pytest.raises(WorkloadError):
        wanted(target="nothing")
    with pytest.raises(UsageError, match="does not take a workload"):
        events.plan_register(REGISTER, tmp_path, **(asked | {"method": "independent", "target": "paid"}))
    with pytest.raises(UsageError, match="auto has none"):
        events.plan_register(
            REGISTER, tmp_path, **(asked | {"method": "auto", "options": {"max_model_mb": 1.0}})
        )


def test_other_marginals_for_a_later_table_are_other_work(tmp_path, monkeypatch):
    """The journal of a fit whose second table was to be fitted to something else is not gone on with."""
    path = files(tmp_path, tables(list(range(60)), 2))
    (tmp_path / "w.yaml").write_text("workload: [[paid]]\n", encoding="utf-8")
    asked = {"unit": PERSON, "epsilon": 2.0, "method": "aim", "seed": 1, "ledger": tmp_path / "a.ledger"}
    with monkeypatch.context() as patch:
        patch.setattr(events.RegisterModel, "sample_tables", lambda *given, **named: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            synthesize(path, **asked)
    with pytest.raises(LedgerError, match="interrupted"):
        synthesize(path, **asked, workload=str(tmp_path / "w.yaml"))


def test_every_table_of_events_is_compared_with_the_numbers_of_those_before(fitted):
    folder, real, made = fitted
    found = evaluate_register(folder / "register.yaml", folder / "out", sections=["marginals", "entities"])
    assert list(found) == ["visits", "claims"]
    alike = evaluate_register(real, real, schema=folder / "register.yaml", sections=["marginals", "entities"])
    assert {alike[name].score("columns").value for name in alike} == {0.0}
    assert 0 < found["claims"].score("columns").value < 0.1

    apart = dict(made.tables)
    apart["claims"] = made.tables["claims"].assign(
        person=np.random.default_rng(1).permutation(made.tables["claims"]["person"].to_numpy())
    )
    shuffled = apart["claims"]["person"].map(dict(zip(made.tables["people"]["who"], np.random.default_rng(2).permutation(made.tables["people"]["who"]), strict=True)))  # fmt: skip
    apart["claims"] = apart["claims"].assign(person=shuffled)
    worse = evaluate_register(real, apart, schema=folder / "register.yaml", sections=["entities"])
    closer = evaluate_register(real, made.tables, schema=folder / "register.yaml", sections=["entities"])

    def of_entities(each):
        (section,) = each["claims"].sections
        return max(
            value
            for result in section.results
            for name, value in result.values.items()
            if "number_of_visits" in str(name) and "number_of_events" in str(name)
        )

    assert of_entities(worse) > 3 * of_entities(closer), "claims that were dealt out to other people"
    with pytest.raises(UsageError, match="No table has a column 'wart'"):
        evaluate_register(real, real, schema=folder / "register.yaml", target="wart")


def test_a_share_of_the_entities_is_held_out_of_all_tables(tmp_path) -> None:
    """The same entities in every table, with all their rows; the division is kept, used again, and told apart from that of other tables."""
    real = tables(list(range(300)), 6)
    path = files(tmp_path, real)
    asked = {"unit": PERSON, "epsilon": 40.0, "method": "independent", "seed": 1, "hold_out": 0.3}
    done = synthesize(path, ledger=tmp_path / "a.ledger", **asked)
    kept = HoldOut.read(tmp_path / "a.hold-out")
    assert done.hold_out_file == tmp_path / "a.hold-out"
    assert done.hold_out.fingerprint() == kept.fingerprint()
    parts = [
        read_register(read_table, LinkedTables(tables=real), SCHEMAS, REGISTER.numbers, hold_out=part)
        for part in (kept, kept.set_aside)
    ]
    chosen = set(np.asarray(real["people"]["who"])[kept.chosen_persons(real["people"]["who"].tolist())])
    for name, key in (("visits", "who"), ("claims", "person")):
        read, aside = (part[name].truncated("who", 2, bytes(32)) for part in parts)
        assert read.exact_row_count() == 2 * len(chosen)
        assert aside.exact_row_count() == 2 * (300 - len(chosen))
        assert read.filtered, "how many are read is private under every unit"
        events = [sum(len(chunk["sex"]) for chunk in part[name].levels()[1].chunks()) for part in parts]
        inside = real[name][key].isin(chosen)
        assert events == [int(inside.sum()), int((~inside).sum())]
    assert abs(len(done.tables["people"]) - len(chosen)) < 10, "as many as were read, with little noise"
    found = evaluate_register(path, done.tables, hold_out=tmp_path / "a.hold-out", sections=["disclosure"])
    assert set(found) == {"visits", "claims"}
    assert "membership" in repr(found["claims"].sections)
    plain = evaluate_register(path, done.tables, sections=["disclosure"])
    assert "membership" not in repr(plain["claims"].sections)
    with pytest.raises(UsageError, match="was asked for"):
        synthesize(path, ledger=tmp_path / "a.ledger", **(asked | {"hold_out": 0.2}))
    with pytest.raises(UsageError, match="told by its file"):
        evaluate_register(path, done.tables, hold_out=tmp_path / "claims.csv")
    real["claims"].iloc[:-1].to_csv(tmp_path / "claims.csv", index=False)
    with pytest.raises(DataError, match="made for another table"):
        evaluate_register(path, done.tables, hold_out=tmp_path / "a.hold-out")


@settings(max_examples=30, deadline=None)
@given(
    others=st.lists(st.integers(0, 30), max_size=6, unique=True),
    most=st.integers(1, 5),
    share=st.floats(0.05, 0.95),
    seed=st.integers(0, 2**32 - 1),
)
def test_an_entity_that_is_held_out_or_not_changes_no_other_entity(others, most, share, seed) -> None:
    """Under one key: the records of every table change by those of the entity, or not at all."""
    part = HoldOut(share, np.random.default_rng(seed).bytes(32), id_column="who")
    sides = [
        read_register(
            read_table, LinkedTables(tables=tables(people, seed)), SCHEMAS, REGISTER.numbers, hold_out=part
        )
        for people in ([*others, 50], others)
    ]
    read = bool(part.chosen_persons([50])[0])
    for name in ("visits", "claims"):
        left, right = (side[name].truncated("who", most, bytes(32)) for side in sides)
        for clique in (left.schema.names[:3], ("sex", "number_of_events")):
            change = left.count(clique) - right.count(clique)
            assert (change >= 0).all()
            assert change.sum() == (most if read else 0)
