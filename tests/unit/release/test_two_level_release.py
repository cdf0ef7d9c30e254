"""Releases of entities with their events: criteria at both levels, the bundle with its keys, rehearsals, and what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linked_tables import write_patients
from understudy.cli.commands.bundle import verify
from understudy.data import read_table
from understudy.data.events import read_events
from understudy.data.linked import LinkedTables, read_linked
from understudy.datasets import (
    households,
    households_schema,
    patient_register,
    patient_register_schema,
    patient_stays,
    patient_stays_schema,
)
from understudy.errors import BundleError, SchemaError
from understudy.mechanisms import Model
from understudy.privacy import Unit
from understudy.release import RecordTypes, largest_moves
from understudy.release.bundle.bundle import manifest_text
from understudy.release.bundle.reporting import bundle_report
from understudy.release.bundle.verify import verify_bundle
from understudy.release.criteria.base import CriterionContext
from understudy.release.criteria.groups import Grouping
from understudy.release.criteria.levels import ChosenMarginals, EventRates
from understudy.release.criteria.registry import criterion_kind
from understudy.release.regressions.moments import RegressionMoments
from understudy.release.rehearsal.rehearsal import rehearse
from understudy.release.run.planning import plan_release
from understudy.release.run.run import run_release
from understudy.release.run.transform import neighbours
from understudy.release.series.compare import compare_sides, comparison_page, side_of
from understudy.release.series.refresh import plan_refresh
from understudy.release.spec.space import counted_schema
from understudy.release.spec.spec import Spec
from understudy.report import markdown
from understudy.schema import Domain, Schema
from understudy.schema.files.yaml import read_plain, write_plain
from understudy.workflow import publish

FEW = ("sex", "admitted", "ward", "readmitted")
CRITERIA = (
    {"name": "number", "kind": "mean-events", "threshold": 2.5, "by": ["everyone", "sex"]},
    {"name": "rate", "kind": "event-rates", "column": "readmitted", "values": ["true"], "threshold": 0.45, "by": ["everyone", "sex"]},
    {"name": "of each", "kind": "event-rates", "column": "readmitted", "values": ["true"], "threshold": 0.45, "per": "entity"},
    {"name": "steps", "kind": "transition-shares", "columns": ["ward"], "threshold": 0.2},
    {"name": "together", "kind": "entity-composition", "columns": ["ward"], "threshold": 0.2},
    {"name": "cells", "kind": "max-marginal-error", "orders": [1, 2], "threshold": 0.3},
)  # fmt: skip


def plain(schema: Schema | str, form: str = "pass-only", **changed: object) -> dict[str, object]:
    criteria = [dict(item) for item in CRITERIA]
    acceptance: dict[str, object] = {"form": form, "criteria": criteria}
    if form == "pass-only":
        acceptance["epsilon"] = 1.0
    else:
        for item in criteria:
            item["epsilon"] = 0.5
    return {
        "name": "register",
        "source": {"table": "register"},
        "schema": schema if isinstance(schema, str) else schema.to_dict(),
        "unit": {"relation": "add-remove", "id_column": "patient", "max_rows": 3},
        "synthesizers": [{"method": "mst"}],
        "acceptance": acceptance,
        "selection": {"rule": "single"},
        "budget": {"total": {"epsilon": 34.0}, "model": {"epsilon": 30.0}},
        "seed": 1,
        **changed,
    }


LINKED = patient_register_schema().select(FEW)
FLAT = patient_stays_schema().select(FEW)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of linked tables, published from files that the schema names."""
    folder = tmp_path_factory.mktemp("linked")
    write_patients(folder, 900, fixed=FEW[:1], moving=FEW[1:])
    described = plain("register.yaml", source={}, output={"formats": ["parquet"]})
    write_plain(described, folder / "spec.yaml")
    done = publish(folder / "spec.yaml", out=folder / "bundle", ledger=folder / "register.ledger")
    assert done.accepted
    return folder / "bundle"


# ---------------------------------------------------------------------- the bundle


def test_the_bundle_of_linked_tables_has_its_keys_in_every_description(published: Path) -> None:
    document = verify_bundle(published)
    patients, stays = (pd.read_csv(published / "tables" / f"{name}.csv") for name in ("patients", "stays"))
    assert document["tables"] == {"patients": len(patients), "stays": len(stays)}
    assert patients["patient"].is_unique
    assert stays["patient"].isin(patients["patient"]).all()
    assert (patients["stays"] == patients["patient"].map(stays["patient"].value_counts()).fillna(0)).all()
    assert (patients["stays"] == 0).any(), "entities without events are published too"
    package = json.loads((published / "datapackage.json").read_text(encoding="utf-8"))
    resources = {item["path"]: item for item in package["resources"]}
    assert resources["tables/patients.csv"]["schema"]["primaryKey"] == ["patient"]
    assert resources["tables/stays.csv"]["schema"]["foreignKeys"] == [
        {"fields": ["patient"], "reference": {"resource": "patients", "fields": ["patient"]}}
    ]
    assert resources["tables/patients.csv"]["name"] == "patients"
    assert {"tables/patients.parquet", "tables/stays.parquet", "data.parquet"} <= set(resources)
    assert len({item["name"] for item in package["resources"]}) == len(resources)
    sets = {item["name"]: item for item in json.loads((published / "croissant.json").read_text(encoding="utf-8"))["recordSet"]}  # fmt: skip
    assert sets["patients"]["key"] == {"@id": "patients/patient"}
    field = next(item for item in sets["stays"]["field"] if item["name"] == "patient")
    assert field["references"] == {"field": {"@id": "patients/patient"}}
    for page in ("README.md", "dictionary.md"):
        text = (published / page).read_text(encoding="utf-8")
        assert "stays: patient is the patient of a row of patients (foreign key)" in text
    readme = (published / "README.md").read_text(encoding="utf-8")
    assert "tables/stays.csv" in readme
    assert "Entities with their events" in readme
    assert "Rows are cut" not in readme


_WHOM = "add or remove one patient with all rows, of which 3 event records are counted"


def test_documents_say_what_is_counted_of_real_entities_and_what_is_published(published: Path) -> None:
    for name in ("README.md", "report.html", "documents/nist-sp-800-226.html"):
        said = (published / name).read_text(encoding="utf-8")
        assert "of each real patient 3 event records are counted, with noise" in said, name
        assert "Each synthetic patient comes with all its synthetic rows of stays, in the order of" in said, (
            name
        )
        assert "is published with all its rows" not in said, name
    for path in (item for item in published.rglob("*") if item.suffix in (".md", ".html", ".json", ".yaml")):
        assert "at most 3 rows" not in path.read_text(encoding="utf-8"), path
    assert _WHOM in verify_bundle(published)["guarantee"]["words"]
    assert _WHOM in (published / "README.md").read_text(encoding="utf-8")


def test_one_text_tells_what_bounds_a_release_of_entities_has(published: Path) -> None:
    report, readme = ((published / name).read_text(encoding="utf-8") for name in ("report.html", "README.md"))
    assert "bounds and intervals (Model.error_bounds, Model.interval) are about event records" in report
    for untrue in ("This method gives no error bounds", "keeps no marginals", "whose bounds above"):
        assert untrue not in report
    assert "error bounds and intervals are about event records" in readme
    assert Model.load(published / "model.understudy").interval(("sex",)) is not None
    sheet, nist = (
        (published / "documents" / f"{name}.html").read_text(encoding="utf-8")
        for name in ("datasheet", "nist-sp-800-226")
    )
    assert "no bounds are known beyond the criteria" in sheet
    assert "within the bounds of the report" not in sheet
    assert "data dictionary names them" not in nist
    assert "which values that concerns is not known" in nist
    for said in (readme, report):
        assert "the rows of stays, each with the columns of its patient" in said
        assert "data.csv-metadata.json" in said


def test_bars_count_patients_once_and_stays_each(published: Path) -> None:
    patients, stays = (pd.read_csv(published / "tables" / f"{name}.csv") for name in ("patients", "stays"))
    bars = {panel.title: dict(zip(panel.labels, panel.bars, strict=True)) for panel in bundle_report(published).panels}  # fmt: skip
    assert set(bars) == {
        "stays (patients)",
        "sex (patients)",
        "admitted (stays)",
        "ward (stays)",
        "readmitted (stays)",
    }
    assert bars["sex (patients)"]["female"] == pytest.approx((patients["sex"] == "female").mean())
    assert bars["stays (patients)"]["0"] == pytest.approx((patients["stays"] == 0).mean())
    assert bars["ward (stays)"]["day"] == pytest.approx((stays["ward"] == "day").mean())
    for bar in bars.values():
        assert sum(bar.values()) == pytest.approx(1)
    assert "stays (patients)" in (published / "marginals.svg").read_text(encoding="utf-8")


def test_the_dictionary_says_how_values_are_written_and_lists_keys_and_counts(
    published: Path, summarised: Path
) -> None:
    dictionary = (published / "dictionary.md").read_text(encoding="utf-8")
    days = "ritten as a day, drawn evenly within the quarter: nothing finer than the quarter means anything"
    assert f"W{days}" in dictionary
    assert f"- admitted: w{days}." in (published / "README.md").read_text(encoding="utf-8")
    for entry in ("## patient\n", "## stays\n", "Number of rows in stays.", "Possible values: 0 to 40"):
        assert entry in dictionary, entry
    summaries = (summarised / "dictionary.md").read_text(encoding="utf-8")
    assert "## all_nights\n" in summaries
    assert "drawn as the neighbours say within the bin" in summaries


def test_the_first_screen_says_in_words_what_was_checked_beside_the_value(published: Path) -> None:
    patients, stays = (pd.read_csv(published / "tables" / f"{name}.csv") for name in ("patients", "stays"))
    figures = [(item.value, item.what) for item in bundle_report(published).figures]
    again = stays["readmitted"].astype(str).str.lower() == "true"
    assert figures == [
        (
            f"{len(stays) / len(patients):.2f}",
            "Mean number of stays of a patient: off by less than 2.5, in every group (everyone; sex)",
        ),
        (
            f"{100 * again.mean():.1f} %",
            "Share of stays with readmitted = true: off by less than 45 points, in every group (everyone; sex)",
        ),
        (
            f"{100 * again.groupby(stays['patient']).mean().mean():.1f} %",
            "Share of the stays of a patient with readmitted = true, on average: off by less than 45 points",
        ),
    ]


def test_the_chance_of_a_statement_is_one_number_everywhere(tmp_path: Path) -> None:
    """That of the first screen; rounding it to a tenth of a per cent on other pages made it another one."""
    write_patients(tmp_path, 500, fixed=FEW[:1], moving=FEW[1:])
    described = plain(
        "register.yaml",
        source={},
        budget={"total": {"epsilon": 34.0, "delta": 1e-6}, "model": {"epsilon": 30.0, "delta": 1e-6}},
        acceptance={
            "form": "pass-only",
            "epsilon": 1.0,
            "criteria": [{"name": "cells", "kind": "max-marginal-error", "orders": [1], "threshold": 0.9}],
        },
    )
    write_plain(described, tmp_path / "spec.yaml")
    done = publish(tmp_path / "spec.yaml", out=tmp_path / "bundle", ledger=tmp_path / "register.ledger")
    assert done.accepted
    certainty = bundle_report(tmp_path / "bundle").certainty
    assert certainty
    for name in ("report.html", "documents/anonymisation.html", "documents/nist-sp-800-226.html"):
        assert certainty in (tmp_path / "bundle" / name).read_text(encoding="utf-8"), name
    readme = (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")
    assert certainty.replace("%", " %") in readme


def test_verify_counts_the_rows_of_both_tables(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verify(published, json=False, signature=None, trusted=False)
    tables = json.loads((published / "certificate.json").read_text(encoding="utf-8"))["tables"]
    said = " ".join(capsys.readouterr().out.split())
    assert (
        f"patients with {tables['patients']:,} rows, stays with {tables['stays']:,} rows, all files" in said
    )


def _with_certificate(published: Path, folder: Path, change) -> Path:
    """Return a copy of a bundle with another certificate, whose hash the manifest has."""
    copy = folder / "other"
    shutil.copytree(published, copy)
    said = change((copy / "certificate.json").read_text(encoding="utf-8"))
    (copy / "certificate.json").write_text(said, encoding="utf-8")
    listed = json.loads((copy / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    listed["certificate.json"] = hashlib.sha256(said.encode()).hexdigest()
    (copy / "MANIFEST.json").write_text(manifest_text(listed), encoding="utf-8")
    return copy


def test_the_words_of_earlier_bundles_go_on_to_hold_and_others_do_not(
    published: Path, tmp_path: Path
) -> None:
    rows = Unit.add_remove_person("patient", max_rows=3).describe()
    old = "add or remove one person (column 'patient', at most 3 rows each)"  # as version 0.1 wrote it
    for number, said in enumerate((rows, old)):
        verify_bundle(
            _with_certificate(
                published, tmp_path / str(number), lambda text, to=said: text.replace(_WHOM, to)
            )
        )
    for other in (_WHOM.replace("3", "2"), rows.replace("3", "2"), old.replace("3", "2")):
        with pytest.raises(BundleError, match="the words of the guarantee"):
            verify_bundle(
                _with_certificate(
                    published, tmp_path / str(len(other)), lambda text, to=other: text.replace(_WHOM, to)
                )
            )


@pytest.fixture(scope="module")
def summarised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of linked tables whose patients are written with what follows from their stays."""
    folder = tmp_path_factory.mktemp("summaries")
    write_patients(folder, 500, fixed=FEW[:1], moving=(*FEW[1:], "nights"))
    described = read_plain(folder / "register.yaml")
    described["tables"][1]["summaries"] = [
        {"name": "all_nights", "of": "nights", "by": "sum", "bins": [0, 1, 4, 16, 1000]},
        {"name": "longest", "of": "nights", "by": "max"},
        {"name": "ever_readmitted", "of": "readmitted", "by": "any", "value": "true"},
        {"name": "last_stay", "of": "admitted", "by": "last"},
        {"name": "last_ward", "of": "ward", "by": "last"},
    ]
    write_plain(described, folder / "register.yaml")
    criteria = [{"name": "number", "kind": "mean-events", "threshold": 2.5}]
    spec = plain(
        "register.yaml", source={}, acceptance={"form": "pass-only", "epsilon": 1.0, "criteria": criteria}
    )
    write_plain(spec, folder / "spec.yaml")
    done = publish(folder / "spec.yaml", out=folder / "bundle", ledger=folder / "register.ledger")
    assert done.accepted
    return folder / "bundle"


def test_summaries_are_published_as_the_rows_have_them(summarised: Path) -> None:
    verify_bundle(summarised)
    patients, stays = (pd.read_csv(summarised / "tables" / f"{name}.csv") for name in ("patients", "stays"))
    patients = patients.set_index("patient")
    rows = stays.groupby("patient")
    assert (patients["all_nights"] == rows["nights"].sum().reindex(patients.index, fill_value=0)).all()
    longest = rows["nights"].max()
    assert (patients["longest"].dropna() == longest).all()
    assert (
        patients["ever_readmitted"] == rows["readmitted"].any().reindex(patients.index, fill_value=False)
    ).all()
    assert (patients["last_stay"].dropna() == rows["admitted"].last()).all()
    assert "all_nights" not in pd.read_csv(summarised / "data.csv").columns
    readme = (summarised / "README.md").read_text(encoding="utf-8")
    assert "all_nights follows from its rows in stays: sum of nights." in readme
    package = json.loads((summarised / "datapackage.json").read_text(encoding="utf-8"))
    (found,) = (item for item in package["resources"] if item["path"] == "tables/patients.csv")
    about = {item["name"]: item["description"] for item in found["schema"]["fields"]}
    assert about["longest"] == "Computed: max of nights."
    assert about["stays"] == "Computed: number of rows in stays."


@pytest.mark.parametrize("name", ["all_nights", "longest", "ever_readmitted", "last_stay", "last_ward"])
def test_a_summary_that_does_not_follow_from_the_rows_is_found(summarised, tmp_path, name) -> None:
    def changed(table: pd.DataFrame) -> None:
        row = table[name].notna().idxmax()
        value = table.loc[row, name]
        if isinstance(value, str):
            others = table[name].dropna()
            value = others[others != value].iloc[0]
        else:
            value = not value if table[name].dtype == bool else value + 1
        table.loc[row, name] = value

    with pytest.raises(BundleError, match=f"'{name}' of tables/patients.csv does not follow"):
        verify_bundle(_tampered(summarised, tmp_path, "tables/patients.csv", changed))
    verify_bundle(_tampered(summarised, tmp_path / "control", "tables/patients.csv", lambda table: None))


def _tampered(published: Path, folder: Path, name: str, change) -> Path:
    """Return a copy of the bundle in which a table was changed and the hashes made to agree."""
    copy = folder / "copy"
    folder.mkdir(exist_ok=True)
    shutil.copytree(published, copy)
    table = pd.read_csv(copy / name)
    changed = change(table)
    (table if changed is None else changed).to_csv(copy / name, index=False)
    listed = json.loads((copy / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    listed[name] = hashlib.sha256((copy / name).read_bytes()).hexdigest()
    (copy / "MANIFEST.json").write_text(manifest_text(listed), encoding="utf-8")
    return copy


def _twice(table: pd.DataFrame) -> None:
    table.loc[1, "patient"] = table.loc[0, "patient"]


def _orphan(table: pd.DataFrame) -> None:
    table.loc[0, "patient"] = 10**6


def _count(table: pd.DataFrame) -> None:
    table.loc[0, "stays"] += 1


def _values(table: pd.DataFrame) -> None:
    table.loc[0, "sex"] = "male" if table.loc[0, "sex"] == "female" else "female"


def _backwards(table: pd.DataFrame) -> pd.DataFrame:
    return table.iloc[::-1]


def _mixed(table: pd.DataFrame) -> None:
    several = table["patient"].duplicated(keep="first").to_numpy().nonzero()[0][0]
    table.loc[several, "sex"] = "male" if table.loc[several, "sex"] == "female" else "female"


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("tables/patients.csv", _twice, "is no key of"),
        ("tables/stays.csv", _orphan, "is no 'patient' of"),
        ("tables/patients.csv", _count, "not the number of events"),
        ("tables/patients.csv", _values, "joining the linked tables"),
        ("data.csv", _backwards, "not in the order of 'admitted'"),
        ("data.csv", _mixed, "differ in what is fixed"),
    ],
)
def test_keys_that_do_not_hold_are_found(published, tmp_path, name, change, said) -> None:
    with pytest.raises(BundleError, match=said):
        verify_bundle(_tampered(published, tmp_path, name, change))


@pytest.mark.parametrize("source", ["stays.csv", "another.yaml"])
def test_next_year_is_a_release_of_its_own(published: Path, tmp_path: Path, source: str) -> None:
    """There is no series of entities; whatever source is named, the refusal says what to do instead, and the road it names works."""
    with pytest.raises(BundleError, match=r"source\.tables"):
        plan_refresh(published, source=tmp_path / source)
    folder = published.parent
    for name in ("patients", "stays"):
        shutil.copy(folder / f"{name}.csv", folder / f"{name}-2025.csv")
    tables = {name: f"{name}-2025.csv" for name in ("patients", "stays")}
    described = plain(
        "register.yaml", name="register-2025", source={"table": "register-2025", "tables": tables}
    )
    write_plain(described, folder / "next.yaml")
    done = publish(
        folder / "next.yaml", out=folder / "next", ledger=folder / "next.ledger", another_ledger=True
    )
    assert done.accepted
    verify_bundle(folder / "next")


def test_bundles_of_entities_are_compared_without_claims_about_the_real_tables(
    published: Path, tmp_path: Path
) -> None:
    """Both are of the same real tables, whose difference is 0: whatever is said to be certain would be false."""
    folder = published.parent
    described = plain("register.yaml", source={}, name="register-again", seed=2)
    write_plain(described, folder / "again.yaml")
    done = publish(
        folder / "again.yaml", out=tmp_path / "again", ledger=tmp_path / "again.ledger", another_ledger=True
    )
    assert done.accepted
    found = compare_sides(side_of(published), side_of(tmp_path / "again"))
    changes = (*found.columns, *found.pairs)
    assert max(item.difference for item in changes) > 0, "noise makes them differ"
    assert all(item.at_least is None and item.noise is None for item in changes)
    page = markdown(comparison_page(found))
    assert "at least" not in page
    assert "for certain" not in page
    assert "a patient counts once for each of its rows" in page
    json.dumps(found.to_dict())


def test_an_unchanged_copy_is_fine(published, tmp_path) -> None:
    """The control of the test above."""
    verify_bundle(_tampered(published, tmp_path, "tables/stays.csv", lambda table: None))


def test_a_table_with_an_id_column_is_released_as_entities_and_comes_back_the_same(tmp_path) -> None:
    spec = Spec.from_dict(plain(FLAT, form="published"))
    table = patient_stays(900, seed=2)
    first = run_release(spec, ledger=tmp_path / "a.ledger", source=table)
    again = run_release(spec, ledger=tmp_path / "a.ledger", source=table)
    assert list(first.synthetic) == ["patient", *FEW]
    assert first.synthetic.groupby("patient")["sex"].nunique().max() == 1
    assert first.synthetic["patient"].duplicated().any()
    assert not first.tables
    assert first.schema == FLAT
    assert {item.name for item in first.criteria} == {item["name"] for item in CRITERIA}
    assert all(item.value is not None for item in first.criteria)
    pd.testing.assert_frame_equal(first.synthetic, again.synthetic)
    assert again.ledger_length == first.ledger_length, "an outcome that is shown again costs nothing"


def test_a_specification_that_cannot_be_met_is_not_accepted(tmp_path) -> None:
    """The criteria decide: a candidate of a model of independent columns fails where steps between events are asked for."""
    asked = plain(LINKED, synthesizers=[{"method": "independent"}])
    strict = {"name": "who", "kind": "transition-shares", "columns": ["ward"], "threshold": 1e-4}
    asked["acceptance"] = {"form": "pass-only", "epsilon": 1.0, "criteria": [strict]}
    outcome = run_release(
        Spec.from_dict(asked), ledger=tmp_path / "a.ledger", source=patient_register(600, seed=3)
    )
    assert type(outcome).__name__ == "ReleaseFailure"


def test_a_rehearsal_of_two_levels_tells_good_configurations_from_bad_ones() -> None:
    asked = plain(
        households_schema().select(("relation", "sex")),
        synthesizers=[{"method": "mst"}, {"method": "independent"}],
        unit={"relation": "add-remove", "id_column": "household", "max_rows": 3},
        budget={"total": {"epsilon": 43.0}, "model": {"epsilon": 40.0}},
    )
    steps = {"name": "steps", "kind": "transition-shares", "columns": ["relation"], "threshold": 0.08}
    asked["acceptance"] = {"form": "pass-only", "epsilon": 2.0, "criteria": [steps]}
    found = rehearse(Spec.from_dict(asked), households(1500, seed=4), trials=2, jobs=1)
    chances = {item.configuration.method: item.acceptance for item in found.results}
    assert chances["mst"] > 0.9
    assert chances["independent"] < 0.1
    assert not any(item.failures for item in found.results)


def test_a_plan_reckons_with_entities(tmp_path) -> None:
    spec = Spec.from_dict(plain(LINKED, public={"expected_rows": 5000}))
    planned = plan_release(spec)
    assert planned.rows == 15_000, "three records of each entity"
    assert any("Entities with their events" in text for text in planned.warnings)


# ---------------------------------------------------------------------- what does not go together


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"unit": "add-remove"}, "unit: linked tables protect entities"),
        ({"unit": {"relation": "add-remove", "id_column": "who", "max_rows": 2}}, "id_column: patient"),
        ({"output": {"rows": 50}}, "output.rows: does not go with entities"),
        ({"public": {"row_count": "declared"}}, "public.row_count: does not go with entities"),
        ({"projections": [{"kind": "minimal-occurrence", "min_count": 2}]}, "projections: does not go with entities"),
        ({"cleaning": ["sex == 'female'"]}, "cleaning: does not go with entities"),
        ({"source": {"path": "a.csv"}}, "name each of them under source.tables"),
        ({"source": {"tables": {"patients": "a.csv"}}}, "The table 'stays' has no source"),
        ({"synthesizers": [{"method": "privbayes"}]}, "the configuration space is empty"),
        ({"budget": {"model": {"epsilon": 1.0}}}, "budget"),
    ],
)  # fmt: skip
def test_what_a_release_of_entities_cannot_do_is_said_before_anything_is_read(changed, said) -> None:
    with pytest.raises(SchemaError, match=said):
        Spec.from_dict(plain(LINKED, **changed))


@pytest.mark.parametrize(
    ("criterion", "said"),
    [
        ({"kind": "mean-events", "by": ["ward"]}, "'ward' is not fixed about an entity"),
        ({"kind": "event-rates", "column": "sex", "values": ["female"]}, "'sex' is no column of the events"),
        ({"kind": "event-rates", "column": "ward", "values": ["dey"]}, "has no value labelled 'dey'"),
        ({"kind": "transition-shares", "columns": ["sex"]}, "'sex' is not linked to the event before"),
        ({"kind": "entity-composition", "columns": ["wart"]}, "no column named 'wart'"),
    ],
)
def test_criteria_that_do_not_fit_are_refused(criterion, said) -> None:
    asked = plain(LINKED)
    asked["acceptance"] = {
        "form": "pass-only", "epsilon": 1.0, "criteria": [{"name": "one", "threshold": 0.1, **criterion}],
    }  # fmt: skip
    with pytest.raises(SchemaError, match=said):
        Spec.from_dict(asked)


def test_a_unit_of_rows_where_the_schema_speaks_of_entities_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"unit: the schema says that rows belong to 'patient'"):
        Spec.from_dict(plain(FLAT, unit="add-remove"))


def test_criteria_of_entities_are_refused_for_plain_rows() -> None:
    asked = plain(Schema.parse("columns: [{name: died, kind: boolean}]"), unit="add-remove")
    asked["acceptance"] = {
        "form": "pass-only",
        "epsilon": 1.0,
        "criteria": [dict(CRITERIA[0], by=["everyone"])],
    }
    with pytest.raises(SchemaError, match="is about entities with their events"):
        Spec.from_dict(asked)


def test_the_number_of_records_may_be_left_open() -> None:
    unit = {"relation": "add-remove", "id_column": "patient", "max_rows": "auto"}
    assert Spec.from_dict(plain(LINKED, unit=unit)).unit == Unit.add_remove_person("patient", max_rows=10)
    with pytest.raises(SchemaError, match="auto is for entities with their events"):
        Spec.from_dict(plain(Schema(FLAT.columns), unit=unit))


def test_a_schema_without_entities_keeps_the_flat_cut() -> None:
    """What a specification of 0.1.0 with a person as unit means does not change."""
    asked = plain(
        Schema(FLAT.columns),
        acceptance={"form": "pass-only", "epsilon": 1.0, "criteria": [dict(CRITERIA[5])]},
    )
    spec = Spec.from_dict(asked)
    assert not spec.two_levels
    assert spec.schema_for(spec.configurations[0]).names == FEW


# ---------------------------------------------------------------------- sensitivities

SCHEMA = Schema.parse(
    """
tables:
  - name: people
    key: who
    columns: [{name: sex, kind: categorical, values: [f, m]}]
  - name: visits
    belongs_to: people
    order: day
    max_events: 6
    columns:
      - {name: day, kind: integer, minimum: 0, maximum: 29, bins: 3}
      - {name: ward, kind: categorical, values: [a, b, c]}
"""
)
WORDED = (
    {"kind": "mean-events", "threshold": 0.7, "by": ["everyone", "sex"]},
    {"kind": "event-rates", "column": "ward", "values": ["a"], "threshold": 0.2, "by": ["everyone", "sex", "day"]},
    {"kind": "event-rates", "column": "ward", "values": ["a", "b"], "threshold": 0.2, "per": "entity"},
    {"kind": "transition-shares", "columns": ["ward", "day"], "threshold": 0.2},
    {"kind": "entity-composition", "columns": ["ward"], "threshold": 0.2},
)  # fmt: skip


def _drawn(ids: list[int], seed: int, *, most: int = 7) -> dict[str, pd.DataFrame]:
    """Entities with 0 to ``most`` events, everything about each decided by its own number and the seed."""
    people, visits = [], []
    for who in ids:
        rng = np.random.default_rng([seed, who])
        people.append({"who": who, "sex": rng.choice(["f", "m"])})
        extreme = rng.random() < 0.5
        for _ in range(int(rng.integers(0, most + 1))):
            visits.append(
                {
                    "who": who,
                    "day": int(rng.integers(30)),
                    "ward": "a" if extreme else rng.choice(list("abc")),
                }
            )
    columns = ["who", "day", "ward"]
    return {
        "people": pd.DataFrame(people, columns=["who", "sex"]),
        "visits": pd.DataFrame(visits, columns=columns),
    }


def _records(tables: dict[str, pd.DataFrame], most: int) -> RecordTypes:
    """Event records, by one key."""
    table = read_linked(read_table, LinkedTables(tables=tables), SCHEMA)
    return RecordTypes.from_table(table.truncated("who", most, bytes(32)))


@settings(max_examples=60, deadline=None)
@given(
    others=st.lists(st.integers(0, 30), min_size=1, max_size=8, unique=True),
    before=st.integers(40, 60),
    after=st.one_of(st.none(), st.integers(61, 80)),
    most=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
    candidate=st.lists(st.integers(0, 80), min_size=1, max_size=10, unique=True),
)
def test_no_entity_moves_a_criterion_further_than_claimed(
    others, before, after, most, seed, candidate
) -> None:
    """Add, remove (``after`` is None) or replace a whole entity with all its rows in both tables."""
    unit = Unit("add-remove" if after is None else "replace-one", most, "who")
    real = _records(_drawn([*others, before], seed), most)
    other = _records(_drawn(others if after is None else [*others, after], seed), most)
    synthetic = _records(_drawn(candidate, seed + 1), most)
    assert real.rows - other.rows == (most if after is None else 0)
    context = CriterionContext(schema=counted_schema(SCHEMA, unit))
    for worded in WORDED:
        criterion = criterion_kind(worded["kind"])(name="one", **worded).build(context)
        moved = abs(criterion.slack(real, synthetic) - criterion.slack(other, synthetic))
        assert not moved > criterion.slack_sensitivity(unit)
        claimed = criterion.sensitivity(unit, synthetic.rows, synthetic)
        assert (
            abs(criterion.released_value(real, synthetic) - criterion.released_value(other, synthetic))
            <= claimed
        )
        assert claimed <= criterion.sensitivity(unit, synthetic.rows) * (1 + 1e-12)


DOMAIN = Domain(("number", "ward", "before", "sex"), (3, 2, 3, 2))
BY_EVENT = EventRates(
    name="rate", threshold=0.2, column="ward", values=(0.0, 1.0), number="number", weights=(0.0, 1.0, 7.5),
    groups=(Grouping.everyone(), Grouping.each("sex", 2)),
)  # fmt: skip


@pytest.mark.parametrize(
    "unit",
    [Unit.add_remove(), Unit.replace_one(), Unit.add_remove_person("id", max_rows=3), Unit.replace_person("id", max_rows=2)],
    ids=["add-remove", "replace-one", "person", "replaced person"],
)  # fmt: skip
def test_the_claims_are_held_and_nearly_attained(unit) -> None:
    """Random records that no entity would give are worse than any that one gives; a claim of half the size is refuted."""
    marginals = ChosenMarginals(name="steps", threshold=0.1, cliques=(("before", "ward"),))
    for criterion in (BY_EVENT, marginals):
        found = largest_moves(criterion, DOMAIN, unit=unit, rows=24, pairs=400, seed=5)
        assert 0.5 < found.slack <= 1
        assert 0.5 < found.value <= 1


def test_rates_per_event_are_those_of_all_events() -> None:
    """With as many records as events in every entity the criterion finds the true rates, whatever they are by number."""
    schema = Schema.parse(
        "columns: [{name: ward, kind: categorical, values: [a, b]}]\nentity: {id: who, max_events: 4}"
    )
    unit = Unit.add_remove_person("who", max_rows=12)
    many = pd.DataFrame({"who": [1] * 4 + [2, 3], "ward": [*"aaab", "b", "b"]})
    none = pd.DataFrame({"who": [1, 2, 3], "ward": ["b", "b", "b"]})

    def records(frame: pd.DataFrame) -> RecordTypes:
        table = read_events(
            lambda schema, id_column: read_table(frame, schema, id_column=id_column), schema, schema.entity
        )
        return RecordTypes.from_table(table.truncated("who", 12, bytes(32)))

    context = CriterionContext(schema=counted_schema(schema, unit))
    worded = {"kind": "event-rates", "name": "a", "column": "ward", "values": ["a"], "threshold": 0.1}
    per_event = criterion_kind("event-rates")(**worded).build(context)
    per_entity = criterion_kind("event-rates")(**worded, per="entity").build(context)
    assert per_event.value(records(many), records(none)) == pytest.approx(3 / 6)
    assert per_entity.value(records(many), records(none)) == pytest.approx((3 / 4) / 3)


# ---------------------------------------------------------------------- entities that give no records

LOSING = """
tables:
  - name: people
    key: who
    columns:
      - {name: sex, kind: categorical, values: [f, m]}
      - {name: age, kind: integer, minimum: 50, maximum: 52}
      - {name: pay, kind: integer, minimum: 70, maximum: 73}
  - name: visits
    belongs_to: people
    orphans: ORPHANS
    max_events: 3
    columns: [{name: ward, kind: categorical, values: [a, b]}]
"""
ANY_KIND = (
    {"kind": "share", "rule": "number_of_events >= 0", "threshold": 0.5},
    {"kind": "share", "rule": "sex == 'f'", "threshold": 0.5},
    {"kind": "conditional-means", "column": "age", "threshold": 1.5, "by": ["everyone", "sex"]},
    {"kind": "conditional-medians", "column": "pay", "threshold": 1.5},
    {"kind": "prediction-error", "target": "pay", "features": ["age"], "threshold": 1.0},
    {"kind": "regression-coefficients", "target": "pay", "features": ["age"], "threshold": 1.0},
    {"kind": "max-marginal-error", "orders": [1, 2], "threshold": 0.5},
    {"kind": "average-marginal-error", "orders": [1, 2], "threshold": 0.5},
    {"kind": "relative-marginal-error", "threshold": 2, "clip": 3},
    {
        "kind": "faithfulness",
        "exact": ["sex"],
        "near": {"age": 1},
        "ignored": ["pay", "ward", "number_of_events", "place_of_event", "ward_before"],
        "threshold": 0.5,
    },
    {"kind": "mean-events", "threshold": 0.5, "by": ["everyone", "sex"]},
    {"kind": "event-rates", "column": "ward", "values": ["a"], "threshold": 0.5},
)


def _losing(relation: str, most: int, orphans: str) -> Spec:
    schema = Schema.parse(LOSING.replace("ORPHANS", orphans))
    criteria = [{"name": str(place), "epsilon": 0.1, **item} for place, item in enumerate(ANY_KIND)]
    unit = {"relation": relation, "id_column": "who", "max_rows": most}
    return Spec.from_dict(plain(schema, unit=unit, acceptance={"form": "published", "criteria": criteria}))


def _entity(who: int, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """A row in the table of entities, and up to four events; without a row, events of nobody."""
    rows = pd.DataFrame(
        {"who": [who], "sex": [rng.choice(["f", "m"])], "age": [rng.integers(50, 53)], "pay": [rng.integers(70, 74)]}
    )  # fmt: skip
    many = int(rng.integers(0, 5))
    return {
        "people": rows,
        "visits": pd.DataFrame({"who": [who] * many, "ward": rng.choice(["a", "b"], many)}),
    }


def _read_all(spec: Spec, entities: list[dict[str, pd.DataFrame]]) -> RecordTypes:
    tables = {name: pd.concat([item[name] for item in entities]) for name in ("people", "visits")}
    table = read_linked(read_table, LinkedTables(tables=tables), spec.schema)
    return RecordTypes.from_table(table.truncated("who", spec.unit.max_rows, bytes(32)))


@pytest.mark.parametrize("orphans", ["refuse", "drop"])
@pytest.mark.parametrize(("relation", "most"), [("replace-one", 1), ("replace-one", 2), ("add-remove", 1), ("add-remove", 3)])  # fmt: skip
def test_an_entity_that_gives_no_records_moves_no_published_number_further_than_is_charged(
    relation: str, most: int, orphans: str
) -> None:
    """Where events of nobody are left out an entity may give no records, so that replacing one adds or removes records."""
    spec = _losing(relation, most, orphans)
    schema = spec.schema_for(spec.configurations[0])
    moved = 0.0
    for seed in range(25):
        rng = np.random.default_rng([seed, most])
        others = [_entity(who, rng) for who in range(1, 7)]
        synthetic = _read_all(spec, [_entity(who, rng) for who in range(1, 9)])
        one, two = _entity(8, rng), _entity(9, rng)
        if orphans == "drop":  # the entity that comes has no row, and its events are left out
            two = {"people": two["people"].iloc[:0], "visits": two["visits"]}
        real = _read_all(spec, [*others, one])
        other = _read_all(spec, [*others, two] if relation == "replace-one" else others)
        for criterion in spec.criteria_for(schema):
            if not criterion.can_be_released(synthetic):
                continue
            if criterion.private_regression is not None:
                moments = RegressionMoments(criterion.private_regression)
                claims = np.maximum.reduce([moments.sensitivities(unit) for unit in neighbours(spec)])
                pairs = zip(moments.exact(real), moments.exact(other), claims.tolist(), strict=True)
                criterion = criterion.with_baseline(
                    moments.fit(np.array(moments.exact(real), float), n=real.rows)
                )
            else:
                pairs = zip((), (), (), strict=True)
            if criterion.mechanism == "laplace":
                claim = max(
                    criterion.sensitivity(unit, synthetic.rows, synthetic) for unit in neighbours(spec)
                )
                numbers = [criterion.released_value(table, synthetic) for table in (real, other)]
                pairs = [*pairs, (*numbers, claim)]
            for here, there, claim in pairs:
                assert abs(here - there) <= claim, (criterion.name, ANY_KIND[int(criterion.name)])
                moved = max(moved, abs(float(here) - float(there)) / claim if claim else 0.0)
    assert moved > 0.4
