"""Linked tables in the studio: described, divided, designed, rehearsed and signed, with where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from studio_forms import fields_of

from understudy.data import Database
from understudy.datasets import patient_register, patient_register_schema
from understudy.errors import SchemaError
from understudy.release.approvals import approve, specification_hash
from understudy.release.rehearsal.rehearsal import narrowed_plain, rehearse
from understudy.release.spec.spec import Spec
from understudy.schema import Schema
from understudy.schema.linked import joined, parted, register_of
from understudy.studio.background.rehearsals import Rehearsals, Table
from understudy.studio.background.worker import made_up_tables
from understudy.studio.desk import Desk
from understudy.workflow import publish

REGISTER = """
name: register
tables:
  - name: patients
    source: {url: "postgresql://clerk@db.example/registry", table: patients}
    key: patient
    count: stays
    columns:
      - {name: sex, kind: categorical, values: [f, m]}
  - name: stays
    source: stays.csv
    belongs_to: patients
    reference: who
    order: day
    max_events: 6
    link: [urgent]
    columns:
      - {name: day, kind: date, minimum: 2020-01-01, maximum: 2021-12-31, resolution: quarter}
      - {name: urgent, kind: boolean}
constraints: ["sex == 'f' or urgent"]
"""
SEVERAL = """
tables:
  - {name: people, key: person, source: people.csv, columns: [{name: sex, kind: boolean}]}
  - {name: visits, belongs_to: people, source: visits.csv, columns: [{name: urgent, kind: boolean}]}
  - {name: bills, belongs_to: people, source: bills.csv, columns: [{name: paid, kind: boolean}]}
"""


def taken(browser: Any, text: str) -> Any:
    return browser.post("/schema/import", {"version": browser.version("/schema"), "pasted": text})


def plain_of(desk: Desk) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(desk.folder.schema.read_text())
    return found


@pytest.fixture
def register(browser: Any, desk: Desk) -> Desk:
    assert taken(browser, REGISTER).status_code == 303
    return desk


def test_parted_is_the_reverse_of_joined() -> None:
    file = joined(yaml.safe_load(REGISTER))
    schema = Schema.from_dict(file.plain)
    again = joined(parted(schema.to_dict(), file.sources))
    assert Schema.from_dict(again.plain).to_dict() == schema.to_dict()
    assert again.sources == file.sources
    virtual = Schema.parse("""
tables:
  - {name: people, key: who}
  - {name: visits, belongs_to: people, fixed: [sex], columns: [{name: sex, kind: boolean}, {name: urgent, kind: boolean}]}
""")
    assert (
        Schema.from_dict(joined(parted(virtual.to_dict())).plain).fingerprint()
        == virtual.fingerprint()
        == Schema.from_dict(virtual.to_dict()).fingerprint()
    )


def test_a_file_of_linked_tables_keeps_its_tables_and_places(browser: Any, register: Desk) -> None:
    patients, stays = plain_of(register)["tables"]
    assert patients["source"] == {"url": "postgresql://clerk@db.example/registry", "table": "patients"}
    assert [stays[key] for key in ("source", "reference", "order", "link")] == ["stays.csv", "who", "day", ["urgent"]]  # fmt: skip
    page = browser.get("/schema").text
    assert "belongs to patients by who" in page
    assert "table patients of a database" in page
    assert "db.example" not in page


def test_several_tables_of_events_are_refused_with_a_way_to_go_on(browser: Any, desk: Desk) -> None:
    answer = taken(browser, SEVERAL)
    assert answer.status_code == 422
    assert "from the command line" in answer.text
    assert not desk.folder.schema.exists()
    desk.folder.schema.write_text(SEVERAL)
    assert "from the command line" in browser.get("/schema").text


def test_a_column_is_renamed_moved_and_removed(browser: Any, register: Desk) -> None:
    def saved(index: int | str, **fields: str) -> Any:
        path = f"/schema/columns/{index}"
        given = fields_of(browser.get(path).text) | {"version": browser.version("/schema")}
        return browser.post(path, given | fields)

    assert saved(1, name="arrived").status_code == 303  # it orders the stays
    assert plain_of(register)["tables"][1]["order"] == "arrived"
    assert saved("new", name="region", values="n\ns", table="patients").status_code == 303
    patients, stays = plain_of(register)["tables"]
    assert [item["name"] for item in patients["columns"]] == ["sex", "region"]
    assert saved(1, table="stays").status_code == 303
    patients, stays = plain_of(register)["tables"]
    assert [item["name"] for item in patients["columns"]] == ["sex"]
    assert "region" in [item["name"] for item in stays["columns"]]
    assert patients["source"]["table"] == "patients"
    place = [item["name"] for item in (*patients["columns"], *stays["columns"])].index("region")
    assert saved(place, action="remove").status_code == 303
    assert "region" not in register.folder.schema.read_text()


def test_one_table_is_divided_and_joined_again(browser: Any, desk: Desk) -> None:
    desk.folder.schema.write_text(
        "columns: [{name: sex, kind: boolean}, {name: ward, kind: categorical, values: [a, b]}]"
    )
    assert "Divide into linked tables" in browser.get("/schema").text
    form = {"version": browser.version("/schema/tables"), "action": "save", "owned": "sex"}
    answer = browser.post("/schema/tables", form | {"entities": "patients", "events": "stays"})
    assert answer.status_code == 422  # no key
    assert 'id="key-complaints"' in answer.text
    whole = form | {"entities": "patients", "events": "stays", "key": "patient", "max_events": "9"}
    wrong = browser.post("/schema/tables", whole | {"events_source": "{url: x"})
    assert wrong.status_code == 422
    assert 'id="events_source-complaints"' in wrong.text
    taken_name = browser.post("/schema/tables", whole | {"count": "sex"})
    assert taken_name.status_code == 422
    assert 'id="count-complaints"' in taken_name.text
    assert "tables" not in plain_of(desk)
    place = {"events_source": '{url: "postgresql://db.example/r", table: stays}'}
    assert browser.post("/schema/tables", whole | place).status_code == 303
    patients, stays = plain_of(desk)["tables"]
    assert [item["name"] for item in patients["columns"]] == ["sex"]
    assert stays["source"]["table"] == "stays"
    assert stays["max_events"] == 9
    again = {"version": browser.version("/schema/tables"), "action": "one"}
    assert browser.post("/schema/tables", again).status_code == 303
    assert [item["name"] for item in plain_of(desk)["columns"]] == ["sex", "ward"]


def test_facts_of_a_draft_of_linked_tables_are_declared(browser: Any, desk: Desk) -> None:
    text = REGISTER.replace("values: [f, m]", "values: [f, m], origin: from-data")
    assert taken(browser, text).status_code == 303
    assert "not public yet" in browser.get("/schema").text
    assert desk.folder.schema.read_text().startswith("# Understudy schema, not public yet")
    form = {"version": browser.version("/schema"), "promise": "yes"}
    assert browser.post("/schema/declare", form).status_code == 303
    assert "from-data" not in desk.folder.schema.read_text()
    assert plain_of(desk)["tables"][1]["source"] == "stays.csv"


def made(browser: Any, name: str = "first") -> Any:
    return browser.post("/designs", {"name": name, "start": ""})


def test_a_design_protects_the_entity_and_its_form_keeps_it(browser: Any, register: Desk) -> None:
    assert made(browser).status_code == 303
    page = browser.get("/designs/first").text
    assert "one of patients is added or removed, with all rows" in page
    assert "Rules that raw records must obey" not in page  # not with entities
    assert ">dualquery<" not in page  # nor methods that cannot fit them
    assert "event records of 20,000 entities" in page
    before = Spec.read(register.folder.design("first"))
    assert before.unit.id_column == "patient"
    assert before.source.linked is not None
    assert isinstance(before.source.linked.tables["patients"], Database)
    fields = fields_of(page) | {"version": browser.version("/designs/first"), "max_rows": "auto"}
    assert browser.post("/designs/first", fields).status_code == 303
    assert Spec.read(register.folder.design("first")).plain["unit"]["max_rows"] == "auto"


def test_the_signed_specification_says_where_the_tables_are(browser: Any, register: Desk) -> None:
    made(browser)
    path = register.folder.design("first")
    approve(path, role="owner", name="Ada Berg")
    answer = browser.post("/designs/first/sign", {"version": browser.version("/designs/first/agree")})
    assert answer.status_code == 303
    (place,) = register.folder.signed.iterdir()
    signed = Spec.read(place / "spec.yaml")
    assert signed.source.linked is not None
    stays = signed.source.linked.tables["stays"]
    assert Path(stays).resolve() == register.folder.root.resolve() / "stays.csv"
    assert signed.source.linked.tables["patients"].table == "patients"
    assert specification_hash(signed) == specification_hash(Spec.read(path))
    assert "db.example" not in str(signed.to_dict())
    command = browser.get("/designs/first/agree").text
    assert "--source" not in command


def test_the_tables_in_force_are_shown_and_a_copy_of_a_design_is_about_the_same_table(
    browser: Any, register: Desk
) -> None:
    made(browser)
    page = browser.get("/designs/first").text
    assert "Where they are is part of the" in page
    assert "patients in postgresql://clerk@db.example/registry" in page
    assert "about the same table" not in page
    assert browser.post("/designs", {"name": "second", "start": "copy:first"}).status_code == 303
    for name, other in (("first", "second"), ("second", "first")):
        for part in ("", "/agree"):
            assert f'The design <a href="/designs/{other}">{other}</a> is about the same table, first.' in (
                " ".join(browser.get(f"/designs/{name}{part}").text.replace("\n", " ").split())
            )
    # the tables of the design itself count, and the ledger is that of the table that it names
    file = register.folder.design("second")
    plain = yaml.safe_load(file.read_text())
    place = {"url": "postgresql://clerk@db.example/registry", "table": "health.patients_2024"}
    plain["source"] = {"table": "year-2024", "tables": {"patients": place, "stays": "stays_2024.csv"}}
    file.write_text(yaml.safe_dump(plain))
    page, agree = browser.get("/designs/second").text, browser.get("/designs/second/agree").text
    assert "Where they are is part of the" not in page
    for text in (page, agree):
        assert "health.patients_2024 in postgresql://clerk@db.example/registry" in text
        assert "stays_2024.csv" in text
        assert "about the same table" not in text
    assert "<strong>year-2024</strong>" in agree
    assert "is not part of it" in agree
    approve(file, role="owner", name="Ada Berg")
    version = {"version": browser.version("/designs/second/agree")}
    assert browser.post("/designs/second/sign", version).status_code == 303
    assert "--ledger year-2024.ledger" in browser.get("/designs/second/agree").text


SECRETS = [
    "postgresql://clerk:swordfish@db.example/registry",
    "postgresql%3A%2F%2Fclerk%3Aswordfish%40db.example/registry",
    "{url: 'postgresql://clerk:swordfish@db.example/registry', table: patients}",
    "{url: 'postgresql://db.example/registry?password=swordfish', table: patients}",
]


@pytest.mark.parametrize("source", SECRETS)
def test_an_address_with_a_password_is_written_to_no_schema(
    browser: Any, register: Desk, source: str
) -> None:
    before = register.folder.schema.read_text()
    fields = fields_of(browser.get("/schema/tables").text) | {"entities_source": source}
    answer = browser.post("/schema/tables", fields | {"version": browser.version("/schema/tables")})
    assert answer.status_code == 422
    assert "The address of the database holds" in answer.text
    assert register.folder.schema.read_text() == before
    changed = yaml.safe_load(REGISTER)
    changed["tables"][0]["source"] = yaml.safe_load(source) if source[0] == "{" else source
    with pytest.raises(SchemaError, match="The address of the database holds") as raised:
        Schema.from_dict(changed)
    assert "swordfish" not in str(raised.value)
    several = yaml.safe_load(SEVERAL)
    several["tables"][2]["source"] = changed["tables"][0]["source"]
    with pytest.raises(SchemaError, match="The address of the database holds"):
        register_of(several)
    assert taken(browser, yaml.safe_dump(changed)).status_code == 422
    assert register.folder.schema.read_text() == before


def test_an_address_with_a_password_is_refused_where_a_specification_wants_a_file() -> None:
    for source in ({"path": SECRETS[0]}, {"table": SECRETS[0]}, {"tables": {"patients": SECRETS[0]}}):
        with pytest.raises(SchemaError, match="holds a password") as raised:
            Spec.from_dict(
                {
                    "name": "first",
                    "schema": {"columns": [{"name": "sex", "kind": "boolean"}]},
                    "source": source,
                }
            )
        assert "swordfish" not in str(raised.value)


def test_approvals_leave_a_rehearsal_what_it_is(browser: Any, register: Desk) -> None:
    made(browser)
    plain = yaml.safe_load(register.folder.design("first").read_text())
    one = Spec.from_dict(plain, where=register.folder.designs)
    two = Spec.from_dict(
        plain | {"approvals": {"required": ["owner"]}, "title": "T"}, where=register.folder.designs
    )
    table = Table("made-up", "", 100, linked=True)
    assert Rehearsals.key(one, table) == Rehearsals.key(two, table)


def test_the_simulated_register_is_described_and_rehearsed(browser: Any, desk: Desk) -> None:
    form = {"version": browser.version("/schema"), "table": "patient_register"}
    assert browser.post("/schema/start", form).status_code == 303
    assert [item["name"] for item in plain_of(desk)["tables"]] == ["patients", "stays"]
    made(browser)
    assert "simulated:patient_register" in browser.get("/designs/first").text
    (desk.folder.public / "old").mkdir(parents=True)
    for name in ("patients", "stays"):
        (desk.folder.public / "old" / f"{name}.csv").write_text("x\n")
    (desk.folder.public / "half").mkdir()
    page = browser.get("/designs/first").text
    assert "public:old" in page
    assert "public:half" not in page


def test_made_up_tables_have_keys_that_join() -> None:
    schema = patient_register_schema()
    tables = made_up_tables(schema, 400)
    assert tables["patients"]["patient"].is_unique
    assert tables["stays"]["patient"].isin(tables["patients"]["patient"]).all()
    assert set(tables["patients"].columns) == {"patient", "sex", "age_group", "region"}
    never = ~tables["patients"]["patient"].isin(tables["stays"]["patient"])
    assert 0.2 < never.mean() < 0.5
    events = Schema.parse("""
tables:
  - {name: people, key: who}
  - {name: visits, belongs_to: people, fixed: [sex], columns: [{name: sex, kind: boolean}, {name: urgent, kind: boolean}]}
""")
    visits = made_up_tables(events, 300)["visits"]
    assert visits["who"].nunique() == 300
    assert (visits.groupby("who")["sex"].nunique() == 1).all()


SMALL = {
    "name": "register",
    "source": {"tables": {"patients": "patients.csv", "stays": "stays.csv"}},
    "unit": {"relation": "add-remove", "id_column": "patient", "max_rows": 3},
    "public": {"expected_rows": 500},
    "synthesizers": [{"method": "independent"}],
    "acceptance": {
        "form": "pass-only",
        "epsilon": 20.0,
        "criteria": [{"name": "number", "kind": "mean-events", "threshold": 5}],
    },
    "selection": {"rule": "single"},
    "budget": {"total": {"epsilon": 80.0}, "model": {"epsilon": 50.0}},
    "seed": 1,
}


def small_spec(folder: Path) -> Spec:
    for name, table in patient_register(500, seed=1).items():
        table.to_csv(folder / f"{name}.csv", index=False)
    (folder / "register.yaml").write_text(yaml.safe_dump(parted(patient_register_schema().to_dict())))
    return Spec.from_dict(SMALL | {"schema": "register.yaml"}, where=folder)


def test_a_rehearsal_counts_entities_and_its_narrowed_file_finds_the_tables(tmp_path: Path) -> None:
    spec = small_spec(tmp_path)
    found = rehearse(spec, patient_register(500, seed=2), trials=1, jobs=1)
    assert found.rows == 500
    assert not any(
        "expects" in note for note in found.notes
    )  # 500 patients, as expected, whatever their stays
    (tmp_path / "out").mkdir()
    plain, _ = narrowed_plain(spec, [(spec.configurations[0], 1.0)], folder=tmp_path / "out")
    assert plain["source"]["tables"]["stays"] == "../stays.csv"


def test_the_documents_say_what_linked_tables_hold_and_who_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "home"))
    done = publish(small_spec(tmp_path), out=tmp_path / "bundle", ledger=tmp_path / "a.ledger")
    assert done.accepted
    report = (tmp_path / "bundle" / "report.html").read_text()
    annex = (tmp_path / "bundle" / "documents" / "dpia-annex.html").read_text()
    assert "each patient, with all rows" in report
    assert "with up to 3 rows" not in report
    assert "patients with" in report
    assert "What spans three rows of one patient" in report
    assert "one patient with all rows, of which 3 event records are counted" in annex
    assert "synthetic tables (patients with" in annex
