"""The descriptions of a bundle, read by the tools they are written for."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import warnings
from pathlib import Path

import pandas as pd
import pytest
import yaml
from command import understudy

from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.release.bundle import registry

frictionless = pytest.importorskip("frictionless", reason="frictionless referees the data package")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    result = understudy("demo", "--out", folder / "out")
    assert result.code == 0, result.err
    return folder / "out" / "bundle"


def test_the_data_package_is_valid(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bundle)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = frictionless.Package("datapackage.json")
        found = package.validate()
    assert found.valid, found.flatten(["type", "note"])
    assert found.stats["tasks"] == 2
    rows = len((bundle / "data.csv").read_text().splitlines()) - 1
    assert found.tasks[0].stats["rows"] == rows


def test_a_changed_cell_is_noticed(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package says what values may stand in a column; one that may not is an error."""
    for name in ("datapackage.json", "data.csv", "data.parquet"):
        (tmp_path / name).write_bytes((bundle / name).read_bytes())
    lines = (tmp_path / "data.csv").read_text().splitlines()
    cells = lines[1].split(",")
    cells[lines[0].split(",").index("birth_sex")] = "Q"
    (tmp_path / "data.csv").write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = frictionless.Package("datapackage.json").get_resource("data-csv").validate()
    assert "constraint-error" in {row[0] for row in found.flatten(["type"])}


def test_croissant_is_valid_and_yields_the_rows(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bundle)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant referees the Croissant file")
        dataset = mlcroissant.Dataset(jsonld="croissant.json")
        assert not dataset.metadata.issues.errors
        first = next(iter(dataset.records(record_set="rows")))
    header = (bundle / "data.csv").read_text().splitlines()[0].split(",")
    assert set(first) == {f"rows/{name}" for name in header}


def test_a_table_as_offices_write_it_becomes_a_bundle_that_every_tool_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Semicolons, a byte order mark, blanks and umlauts in names, dates in a format of their own, packed output."""
    lines = [f"{1 + n % 28:02d}.{1 + n % 12:02d}.2023 10:30;{'ja' if n % 3 else 'nein'}" for n in range(2000)]
    header = "Letzte Änderung;Raucher"
    (tmp_path / "table.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8-sig")
    (tmp_path / "spec.yaml").write_text(
        """
name: office
source: {path: table.csv}
schema:
  columns:
    - {name: Letzte Änderung, kind: date, minimum: 2023-01-01, maximum: 2023-12-31, resolution: month,
       format: "%d.%m.%Y %H:%M"}
    - {name: Raucher, kind: categorical, values: [ja, nein]}
unit: replace-one
synthesizers: [{method: gaussian, options: {workload: all-2way}}]
acceptance: {form: pass-only, epsilon: 20, criteria: [{name: c, kind: max-marginal-error, threshold: 0.3}]}
selection: {rule: single}
budget: {total: {epsilon: 40}, model: {epsilon: 20}}
output: {formats: [csv.gz, parquet]}
""",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    released = understudy("release", "spec.yaml", "--out", "bundle", "--yes")
    assert released.code == 0, released.err
    assert understudy("verify", "bundle").code == 0
    monkeypatch.chdir(tmp_path / "bundle")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = frictionless.Package("datapackage.json")
        assert package.validate().valid
        packed = package.get_resource("data-csv-gz").read_rows()
        assert len(packed) == 2000
        mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant referees the Croissant file")
        first = next(iter(mlcroissant.Dataset(jsonld="croissant.json").records(record_set="rows")))
    assert set(first) == {"rows/Letzte_Änderung", "rows/Raucher"}


# ---------------------------------------------------------------------- the registry of deployments, and the plain flag


def registry_problems(text: str) -> list[str]:
    """What the registry's own check would find: keys, types and lists of values, and how texts are written."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema checks the entry")
    facts = json.loads((Path(__file__).parent / "registry_facts.json").read_text("utf-8"))
    checker = jsonschema.Draft7Validator(facts, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
    problems = [f"{list(error.path)}: {error.message}" for error in checker.iter_errors(yaml.safe_load(text))]
    problems += [
        f"a text is folded: {token.value!r}"
        for token in yaml.scan(text)
        if getattr(token, "style", None) not in (None, "|", '"', "'")
    ]
    return problems + re.findall(r"\\\\[^()]", text)


def test_the_registry_takes_the_entry(bundle: Path) -> None:
    """0.1.0's had other keys, a status that does not exist, and no url_slug, tier or deployment."""
    text = (bundle / "documents" / "deployment.yaml").read_text("utf-8")
    assert registry_problems(text) == []
    entry = yaml.safe_load(text)["deployment"]
    certificate = json.loads((bundle / "certificate.json").read_text())
    assert entry["privacy_loss"]["privacy_parameters"] == {
        "epsilon": certificate["guarantee"]["budget"]["epsilon"]
    }
    assert entry["basic"]["publication_date"] == certificate["finished"][:10]
    old = {"status": "draft: fill in the empty fields before you submit it", "name": "x", "privacy_unit": "y"}
    found = " ".join(registry_problems(yaml.safe_dump(old)))
    assert all(
        word in found for word in ("'url_slug'", "'tier'", "'deployment'", "status", "were unexpected")
    )


@pytest.mark.parametrize(
    "budget",
    [PureDP(1.2), ApproxDP(1.0, 1e-6), ZCDP(0.3), GDP(0.8)],
    ids=lambda budget: type(budget).__name__,
)
def test_the_registry_takes_every_kind_of_guarantee(bundle: Path, budget: Budget) -> None:
    entry = yaml.safe_load((bundle / "documents" / "deployment.yaml").read_text("utf-8"))
    entry["deployment"]["dp_variant"]["variant_name"] = registry._variant(budget)
    entry["deployment"]["privacy_loss"]["privacy_parameters"] = registry._parameters(budget)
    assert registry_problems(yaml.safe_dump(entry, width=1_000_000)) == []
    entry["deployment"]["dp_variant"]["variant_name"] = "Some DP"
    assert registry_problems(yaml.safe_dump(entry, width=1_000_000)) != []


def test_every_description_of_the_rows_says_that_they_are_synthetic(bundle: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="reads the metadata")
    assert parquet.read_schema(bundle / "data.parquet").metadata[b"synthetic"] == b"true"
    companion = json.loads((bundle / "data.csv-metadata.json").read_text())
    assert companion["url"] == "data.csv"
    assert companion["notes"][0]["synthetic"] is True
    header = (bundle / "data.csv").read_text().splitlines()[0].split(",")
    assert [column["titles"] for column in companion["tableSchema"]["columns"]] == header
    package = json.loads((bundle / "datapackage.json").read_text())
    assert package["synthetic"] is True
    croissant = json.loads((bundle / "croissant.json").read_text())
    assert "synthetic" in package["keywords"]
    assert "synthetic" in croissant["keywords"]
    for described in (companion["dc:description"], package["description"], croissant["description"]):
        assert described.startswith("Synthetic data: no row is the record of a person.")


@pytest.fixture
def database(bundle: Path, tmp_path: Path) -> Path:
    """The CSV as the table `data` of `data.db`, as the guide has it."""
    place = tmp_path / "data.db"
    opened = sqlite3.connect(place)
    pd.read_csv(bundle / "data.csv").to_sql("data", opened, index=False)
    opened.close()
    return place


def test_the_metadata_for_datasette_describes_the_table_and_the_columns_there_are(
    bundle: Path, database: Path
) -> None:
    metadata = json.loads((bundle / "datasette.json").read_text())
    opened = sqlite3.connect(database)
    columns = [row[1] for row in opened.execute("pragma table_info(data)")]
    opened.close()
    table = metadata["databases"]["data"]["tables"]["data"]
    assert list(table["columns"]) == columns
    assert "(grams)" in table["columns"]["birth_weight"]
    # the keys that Datasette documents, at each level; it shows other ones nowhere
    known = {"title", "description", "license", "license_url", "source", "source_url"}
    assert set(metadata) <= known | {"databases"}
    assert set(table) <= known | {"columns"}
    assert "synthetic" in metadata["title"]


def test_datasette_shows_that_the_rows_are_synthetic(bundle: Path, database: Path) -> None:
    app = pytest.importorskip("datasette.app", reason="Datasette shows the table")
    metadata = json.loads((bundle / "datasette.json").read_text())
    shown = app.Datasette([str(database)], metadata=metadata)
    page = asyncio.run(shown.client.get("/data/data"))
    assert page.status_code == 200
    assert "Synthetic data: no row is the record of a person." in page.text
