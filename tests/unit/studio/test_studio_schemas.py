"""The schema in forms: complaints beside fields, nothing lost, nothing written that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from understudy.datasets import load, names
from understudy.schema import Schema
from understudy.studio.desk import Desk
from understudy.studio.folder import MAX_TEXT_BYTES
from understudy.studio.schemas import entry_of, placed, shown

ROOT = Path(__file__).parents[3]
SCRIPT = "<script>alert('x')</script>"


def added(browser: Any, **fields: str) -> Any:
    return browser.post(
        "/schema/columns/new", {"version": browser.version("/schema"), "kind": "categorical", **fields}
    )


@pytest.mark.parametrize("name", [*names(), "example"])
def test_a_column_through_its_form_stays_what_it_is(name: str) -> None:
    schema = Schema.read(ROOT / "examples/births/schema.yaml") if name == "example" else load(name, 0)[1]
    for entry in schema.to_dict()["columns"]:
        made, complaints = entry_of(shown(entry))
        assert not complaints
        assert made == entry


def test_values_that_look_like_numbers_stay_text() -> None:
    entry = {"name": "code", "kind": "categorical", "values": ["01", "1", "no", "x: y", "# a", "true"]}
    assert entry_of(shown(entry))[0] == entry


def test_a_schema_from_nothing(browser: Any, desk: Desk) -> None:
    assert "Add a column" in browser.get("/schema").text
    assert added(browser, name="sex", values="f\nm").status_code == 303
    assert added(browser, name="age", kind="integer", bins="<18\n18-44\n44<").status_code == 303
    form = {"version": browser.version("/schema/rules"), "constraints": "not (sex == 'm' and age < 18)"}
    assert browser.post("/schema/rules", form).status_code == 303
    schema = Schema.read(desk.folder.schema)
    assert [column.size for column in schema.columns] == [2, 3]
    assert len(schema.constraints) == 1
    page = browser.get("/schema").text
    assert "<b>6</b> combinations" in page
    assert "noise would move" in page


BROKEN = [
    ("name", {"name": "", "values": "a"}),
    ("values", {"name": "a", "values": "x\nx"}),
    ("values", {"name": "a", "values": ""}),
    ("kind", {"name": "a", "kind": "oops", "values": "x"}),
    ("minimum", {"name": "a", "kind": "integer", "minimum": "5", "maximum": "1"}),
    ("minimum", {"name": "a", "kind": "integer", "minimum": "x", "maximum": "1"}),
    ("maximum", {"name": "a", "kind": "integer", "minimum": "1", "maximum": "x"}),
    ("bins", {"name": "a", "kind": "integer", "bins": "nonsense"}),
    ("bins", {"name": "a", "kind": "real", "bins": "{edges: [1, oops"}),
    (
        "resolution",
        {"name": "a", "kind": "date", "minimum": "2020-01-01", "maximum": "2020-02-01", "resolution": "eon"},
    ),
    ("decode_by", {"name": "a", "kind": "integer", "minimum": "1", "maximum": "2", "decode_by": "magic"}),
    (
        "decimals",
        {"name": "a", "kind": "real", "minimum": "1", "maximum": "2", "bins": "2", "decimals": "many"},
    ),
    ("out_of_domain", {"name": "a", "values": "x", "out_of_domain": "explode"}),
    ("spelling", {"name": "a", "kind": "boolean", "values": "", "spelling": "one"}),
    ("more", {"name": "a", "values": "x", "more": "- a list"}),
    ("more", {"name": "a", "values": "x", "more": "a: ["}),
]


@pytest.mark.parametrize(("field", "given"), BROKEN)
def test_every_broken_field_is_complained_about_where_it_is(
    browser: Any, desk: Desk, field: str, given: dict[str, str]
) -> None:
    answer = added(browser, **given)
    assert answer.status_code == 422
    assert f'id="{field}-complaints"' in answer.text, answer.text
    assert not desk.folder.schema.exists()
    for text in given.values():  # what was typed is still there
        assert (
            text in ("eon", "magic", "explode", "") or text.split("\n")[0].replace("<", "&lt;") in answer.text
        )


def test_a_column_is_moved_removed_and_a_schema_never_left_empty(browser: Any, desk: Desk) -> None:
    for name in ("a", "b"):
        added(browser, name=name, values="x\ny")
    browser.post("/schema/columns/1", {"version": browser.version("/schema"), "action": "up"})
    assert Schema.read(desk.folder.schema).names == ("b", "a")
    browser.post("/schema/columns/0", {"version": browser.version("/schema"), "action": "remove"})
    assert Schema.read(desk.folder.schema).names == ("a",)
    last = browser.post("/schema/columns/0", {"version": browser.version("/schema"), "action": "remove"})
    assert last.status_code == 422
    assert Schema.read(desk.folder.schema).names == ("a",)


def test_two_tabs_do_not_overwrite_each_other(browser: Any, desk: Desk) -> None:
    early = browser.version("/schema")
    added(browser, name="a", values="x\ny")
    late = browser.post("/schema/columns/new", {"version": early, "kind": "boolean", "name": "b"})
    assert late.status_code == 409
    assert "changed meanwhile" in late.text
    assert Schema.read(desk.folder.schema).names == ("a",)


def test_script_in_every_text_field_stays_text(browser: Any, desk: Desk) -> None:
    fields = dict.fromkeys(("name", "description", "unit", "values", "missing_text"), SCRIPT)
    fields |= {"missing": "yes", "missing_values": f"{SCRIPT} 2", "missing_text": f"{SCRIPT} 3"}
    assert added(browser, **fields).status_code == 303
    form = {"version": browser.version("/schema/rules"), "name": SCRIPT, "description": SCRIPT}
    assert browser.post("/schema/rules", form).status_code == 303
    for page in ("/schema", "/schema/columns/0", "/schema/rules", "/schema/file"):
        text = browser.get(page).text
        assert SCRIPT not in text, page
        assert "&lt;script&gt;" in text


def test_schemas_drafts_and_other_tools_files_are_taken(browser: Any, desk: Desk) -> None:
    mbi = {"file": ("domain.json", b'{"age": 85, "sex": 2}', "application/json")}
    assert (
        browser.post("/schema/import", {"version": browser.version("/schema")}, files=mbi).status_code == 303
    )
    assert Schema.read(desk.folder.schema).column("age").size == 85
    draft = {"version": browser.version("/schema"), "pasted": (
        "columns: [{name: a, kind: categorical, values: [x, y], origin: from-data}]"
    )}  # fmt: skip
    assert browser.post("/schema/import", draft).status_code == 422  # there is one already
    assert browser.post("/schema/import", {**draft, "replace": "yes"}).status_code == 303
    assert "not public yet" in browser.get("/schema").text
    promise = {"version": browser.version("/schema")}
    assert browser.post("/schema/declare", promise).status_code == 422
    assert browser.post("/schema/declare", {**promise, "promise": "yes"}).status_code == 303
    assert not Schema.read(desk.folder.schema).facts_from_data()


@pytest.mark.parametrize("text", ["", "[1", "columns: x", "a: &x [*x]", "just words", "columns: []"])
def test_what_is_no_schema_is_not_taken(browser: Any, desk: Desk, text: str) -> None:
    answer = browser.post("/schema/import", {"version": browser.version("/schema"), "pasted": text})
    assert answer.status_code == 422
    assert "pasted-complaints" in answer.text
    assert not desk.folder.schema.exists()


def test_a_file_that_is_too_large_or_no_text_is_refused(browser: Any, desk: Desk) -> None:
    for content, why in ((b"a" * (MAX_TEXT_BYTES + 1), "larger than 5 MB"), (b"\xff\xfe\xfd", "not UTF-8")):
        sent = {"file": ("schema.yaml", content, "text/yaml")}
        answer = browser.post("/schema/import", {"version": browser.version("/schema")}, files=sent)
        assert answer.status_code == 422
        assert why in answer.text
    assert not desk.folder.schema.exists()


def test_a_yaml_of_almost_5_mb_is_read(browser: Any, desk: Desk) -> None:
    comment = "# a comment of some length that fills the file\n"
    text = "columns: [{name: a, kind: boolean}]\n" + comment * (4_900_000 // len(comment))
    fields = {"version": browser.version("/schema"), "text": text}
    assert browser.post("/schema/file", fields, files={"none": ("", b"")}).status_code == 303
    assert Schema.read(desk.folder.schema).names == ("a",)


def test_a_schema_of_500_columns_works(browser: Any, desk: Desk) -> None:
    columns = "".join(f"- {{name: c{i}, kind: integer, minimum: 0, maximum: 9}}\n" for i in range(500))
    form = {"version": browser.version("/schema/file"), "text": f"columns:\n{columns}"}
    assert browser.post("/schema/file", form).status_code == 303
    page = browser.get("/schema").text
    assert "<b>500</b> columns" in page
    assert "about 10 to the power of 500" in page
    assert added(browser, name="one_more", kind="boolean").status_code == 303
    assert "one_more" in browser.get("/schema/columns/500").text
    assert browser.get("/schema/columns/501").status_code == 404


def test_a_file_that_somebody_broke_can_be_mended(browser: Any, desk: Desk) -> None:
    desk.folder.schema.write_text("columns: [{name: a, kind: oops}]")
    page = browser.get("/schema").text
    assert "cannot be used as it is" in page
    assert "no kind named" in page
    form = {"version": browser.version("/schema/file"), "text": "columns: [{name: a, kind: oops2}]"}
    answer = browser.post("/schema/file", form)
    assert answer.status_code == 422
    assert "oops2" in answer.text
    form["text"] = "columns: [{name: a, kind: boolean}]"
    assert browser.post("/schema/file", form).status_code == 303


def test_a_simulated_table_lends_its_schema(browser: Any, desk: Desk) -> None:
    form = {"version": browser.version("/schema"), "table": "births"}
    assert browser.post("/schema/start", form).status_code == 303
    assert "mother_age" in Schema.read(desk.folder.schema).names
    again = {"version": browser.version("/schema"), "table": "toy"}
    assert browser.post("/schema/start", again).status_code == 422
    assert browser.post("/schema/start", again | {"table": "nothing", "replace": "1"}).status_code == 404


def test_problems_without_a_column_stand_on_top() -> None:
    assert placed("columns: must hold at least one entry") == (
        None,
        "",
        "columns: must hold at least one entry",
    )
