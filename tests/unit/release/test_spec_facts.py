"""The owner's facts and the analyst's choices in a specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from spec_examples import small, small_spec

from understudy.curator import table_facts
from understudy.errors import SchemaError
from understudy.privacy import GDP, ZCDP, ApproxDP, PureDP
from understudy.release.spec.source import rows_share
from understudy.release.spec.spec import Spec, read_facts
from understudy.schema import Schema


def prints(**changes: Any) -> tuple[str, str]:
    spec = small_spec(**changes)
    return spec.facts_fingerprint(), spec.choices_fingerprint()


FACTS, CHOICES = prints()


@pytest.mark.parametrize(
    "changes",
    [
        {"cleaning": ["age > 10"], "public": {"row_count": "declared"}},
        {"unit": "add-remove", "public": {"row_count": "declared"}},
        {"public": {"row_count": 500}},
        {"source__separator": ";"},
        {"source__encoding": "latin-1"},
        {"source__derive": {"age": {"from": "born", "values": {"x": "1"}}}},
        {"transformations": {"age": {"coarse": {"bins": ["<40", "39<"]}}}},
    ],
)
def test_facts_change_the_fingerprint_of_the_facts(changes: dict[str, Any]) -> None:
    facts, choices = prints(**changes)
    assert facts != FACTS
    assert choices == CHOICES


@pytest.mark.parametrize(
    "changes",
    [
        {"synthesizers": [{"method": "independent"}]},
        {"acceptance__false_accept": 0.01},
        {"acceptance__criteria__0__threshold": 0.5},
        {"acceptance__epsilon": 2, "budget__total": {"epsilon": 6}},
        {"selection": {"rule": "until-accepted", "gamma": 0.2}, "budget__total": {"epsilon": 6.58}},
        {"budget__model": {"epsilon": 3}, "budget__total": {"epsilon": 4}},
        {"output": {"formats": ["parquet"]}},
        {"seed": 99},
        {"constraints": ["not (age < 20 and sex == 'f')"]},
    ],
)
def test_choices_change_the_fingerprint_of_the_choices(changes: dict[str, Any]) -> None:
    facts, choices = prints(**changes)
    assert facts == FACTS
    assert choices != CHOICES


def test_fingerprints_are_of_the_meaning() -> None:
    plain = small()
    columns = list(reversed(plain["schema"]["columns"]))
    columns[0] = {**columns[0], "description": "for people"}
    changes: dict[str, Any] = {
        "title": "Another title",
        "description": "Other words",
        "schema": {**plain["schema"], "columns": columns, "name": "a name"},
        "unit": {"relation": "replace-one", "max_rows": 1},
        "cleaning": [],
        "source__encoding": "UTF8",
        "acceptance__criteria__0__threshold": float(plain["acceptance"]["criteria"][0]["threshold"]),
        "budget__total": {key: float(value) for key, value in plain["budget"]["total"].items()},
    }
    assert prints(**changes) == (FACTS, CHOICES)


def test_reformatted_rules_are_the_same_rules() -> None:
    roomy: dict[str, Any] = {"public": {"row_count": "declared"}}
    one = prints(cleaning=["age > 10", "sex == 'f' or age<90"], **roomy)
    two = prints(cleaning=['sex == "f"  or age < 90', {"rule": "age>10"}], **roomy)
    assert one == two


def test_how_a_number_of_rows_is_measured_is_a_choice() -> None:
    cheap = prints(unit="add-remove", public={"row_count": {"epsilon": 0.5}}, budget__total={"epsilon": 5.5})
    dear = prints(unit="add-remove", public={"row_count": {"epsilon": 1}}, budget__total={"epsilon": 6})
    assert cheap[0] == dear[0]
    assert cheap[1] != dear[1]


def test_one_fit_and_a_release_of_one_table_have_the_same_facts() -> None:
    spec = small_spec()
    facts = table_facts(spec.schema, unit=spec.unit)
    assert facts.fingerprint() == spec.facts_fingerprint()
    assert facts.binding_fingerprint() == spec.facts.binding_fingerprint()


def test_the_number_of_rows_of_the_schema_is_the_declared_one() -> None:
    plain = small()
    spec = small_spec(schema={**plain["schema"], "row_count": 500})
    facts = table_facts(Schema.from_dict({**plain["schema"], "row_count": 500}), unit=spec.unit)
    assert spec.facts == facts
    assert (facts.declares_rows, facts.rows) == (True, 500)


# ---------------------------------------------------------------------- two files


def two_files(folder: Path, **changes: Any) -> Path:
    plain = small(**changes)
    keys = ("source", "schema", "unit", "public", "cleaning", "transformations")
    (folder / "owner").mkdir()
    facts = {key: plain.pop(key) for key in keys if key in plain}
    facts["source"] = {"path": "people.csv"}
    (folder / "owner" / "schema.yaml").write_text(yaml.safe_dump(facts["schema"]), encoding="utf-8")
    facts["schema"] = "schema.yaml"
    (folder / "owner" / "facts.yaml").write_text(yaml.safe_dump(facts), encoding="utf-8")
    (folder / "choices.json").write_text(json.dumps({"facts": "owner/facts.yaml", **plain}), encoding="utf-8")
    return folder / "choices.json"


def test_facts_may_have_a_file_of_their_own(tmp_path: Path) -> None:
    spec = Spec.read(two_files(tmp_path))
    assert spec.source.path == tmp_path / "owner" / "people.csv"
    assert (spec.facts_fingerprint(), spec.choices_fingerprint()) == (FACTS, CHOICES)
    assert "facts" not in spec.to_dict()  # what is published is whole
    assert (
        read_facts(tmp_path / "owner" / "facts.yaml") == spec.facts == read_facts(tmp_path / "choices.json")
    )


def test_what_is_said_twice_or_in_the_wrong_file_is_refused(tmp_path: Path) -> None:
    file = two_files(tmp_path)
    choices = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**choices, "unit": "add-remove"}), encoding="utf-8")
    with pytest.raises(SchemaError, match=r"unit: the file of facts \(owner/facts\.yaml\) says it already"):
        Spec.read(file)
    file.write_text(json.dumps(choices), encoding="utf-8")
    facts = tmp_path / "owner" / "facts.yaml"
    facts.write_text(
        facts.read_text(encoding="utf-8") + "\nbudget: {total: {epsilon: 900}}\n", encoding="utf-8"
    )
    with pytest.raises(SchemaError, match="'budget' is a choice and no fact"):
        Spec.read(file)
    facts.unlink()
    with pytest.raises((SchemaError, OSError), match=r"facts\.yaml"):
        Spec.read(file)
    with pytest.raises(SchemaError, match="must be the path"):
        Spec.from_dict({**choices, "facts": 5}, where=tmp_path)


def test_a_file_of_facts_lists_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("unit: sideways\nschema: {columns: [{name: a, kind: booleen}]}\n")
    with pytest.raises(SchemaError) as caught:
        read_facts(tmp_path / "f.yaml")
    assert "unit" in str(caught.value)
    assert "schema" in str(caught.value)
    assert "budget" not in str(caught.value)


# ---------------------------------------------------------------------- the default measurement


def test_a_private_number_of_rows_is_measured_by_default() -> None:
    spec = small_spec(unit="add-remove", budget__total={"epsilon": 5.02})
    assert (spec.row_count.kind, spec.shares.rows) == ("measured", 0.02)
    said = small_spec(unit="add-remove", public={"row_count": "measured"}, budget__total={"epsilon": 5.02})
    assert said.row_count == spec.row_count
    assert "measured with epsilon=0.02" in spec.row_count.words()


def test_the_default_share_follows_the_total() -> None:
    totals = [PureDP(0.5), ApproxDP(0.5, 1e-6), GDP(0.5), ZCDP(0.125)]
    assert [rows_share(total) for total in totals] == pytest.approx([0.01] * 4)
    assert rows_share(PureDP(100.0)) == 0.02


@pytest.mark.parametrize(
    ("changes", "fingerprint"),
    [
        ({}, "c2cf8cb6c7f6befadb2da39ba7bdc2923c84ccd0d3f6ad959f81cde17648fecf"),
        (
            {"unit": "add-remove", "public": {"row_count": "declared"}},
            "8556c5a30a1cdab993e868651139de22de588e8099a0fdf26136b97403d91fe2",
        ),
        (
            {
                "cleaning": ["age > 10"],
                "public": {"row_count": {"epsilon": 0.5}},
                "budget__total": {"epsilon": 5.5},
            },
            "bb03610e449a8f230977fa1673c07522da7b124fb30d3413e92b669259003b65",
        ),
    ],
)
def test_fingerprints_of_version_0_1_stay(changes: dict[str, Any], fingerprint: str) -> None:
    """Computed with version 0.1.0; an interrupted release is found again by it."""
    assert small_spec(**changes).fingerprint() == fingerprint


def test_a_release_of_a_measured_schema_says_that_more_was_paid_before() -> None:
    assert "measured" not in small_spec().condition().text
    plain = small()
    plain["schema"]["columns"][0]["origin"] = "measured"
    assert "measured from the same table before" in Spec.from_dict(plain).condition().text
