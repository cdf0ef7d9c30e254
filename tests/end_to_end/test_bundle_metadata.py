"""The descriptions of a bundle, read by the tools they are written for."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from command import understudy

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
