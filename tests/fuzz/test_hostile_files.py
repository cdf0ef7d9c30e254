"""Files made to harm: code in models and specifications, paths that climb, archives that grow, links and queries."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import sqlite3
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.trust._fuzz_mutate import make_zip, unzip
from benchmarks.trust._fuzz_readers import SCHEMA, SPEC, BundleReader, LedgerReader, ModelReader
from benchmarks.trust.fuzz import lay_out

from understudy.errors import BundleError, LedgerError, ModelFileError, SchemaError, WorkloadError
from understudy.marginals import parse_workload
from understudy.mechanisms import Model
from understudy.privacy import Ledger
from understudy.release.bundle.reporting import bundle_report
from understudy.release.bundle.verify import verify_bundle
from understudy.release.spec.space import workload_of
from understudy.release.spec.spec import Spec
from understudy.report import release_page
from understudy.schema import Domain, Schema


@pytest.fixture(scope="module")
def model() -> bytes:
    reader = ModelReader.__new__(ModelReader)
    reader.methods = ("independent",)  # type: ignore[misc]
    return reader.good()[0]["m.understudy"]


@pytest.fixture(scope="module")
def bundle() -> dict[str, bytes]:
    return BundleReader().seeds[0]


class _Bomb:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


# ---------------------------------------------------------------------- code


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.mkdir", "!!python/name:os.mkdir", "!x"])
def test_tags_in_schemas_and_specifications_run_nothing(tmp_path: Path, tag: str) -> None:
    mark = tmp_path / "mark"
    for name, text, read in (("schema.yaml", SCHEMA, Schema.read), ("spec.yaml", SPEC, Spec.read)):
        (tmp_path / name).write_text(text + f"\ndescription: {tag} ['{mark}']\n")
        with pytest.raises(SchemaError):
            read(tmp_path / name)
    assert not mark.exists()


def test_pickles_in_models_run_nothing(tmp_path: Path, model: bytes) -> None:
    mark = tmp_path / "mark"
    members = unzip(model)
    array = next(name for name in members if name.endswith(".npy"))
    buffer = io.BytesIO()
    np.save(buffer, np.array([_Bomb(mark)], dtype=object), allow_pickle=True)
    for content in (buffer.getvalue(), pickle.dumps(_Bomb(mark))):
        (tmp_path / "m").write_bytes(make_zip(members | {array: content}))
        with pytest.raises(ModelFileError):
            Model.load(tmp_path / "m")
    (tmp_path / "m").write_bytes(pickle.dumps(_Bomb(mark)))
    with pytest.raises(ModelFileError):
        Model.load(tmp_path / "m")
    assert not mark.exists()


def test_templates_in_a_specification_are_text(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC.replace("title: Staff", "title: '{{ 7 * 7 }} <script>'"))
    assert Spec.read(tmp_path / "spec.yaml").title == "{{ 7 * 7 }} <script>"


# ---------------------------------------------------------------------- paths


@pytest.mark.parametrize("name", ["../../climbed", "/tmp/understudy-climbed", "..\\climbed"])
def test_names_that_climb_are_never_written_to(tmp_path: Path, model: bytes, name: str) -> None:
    members = unzip(model)
    document = json.loads(members["model.json"])
    document["arrays"] = [*document["arrays"], name]
    extra = {"model.json": json.dumps(document).encode(), f"arrays/{name}.npy": members["model.json"]}
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "m").write_bytes(make_zip(members | extra))
    with pytest.raises(ModelFileError):
        Model.load(inner / "m")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["m"]
    assert not Path("/tmp/understudy-climbed").exists()


def test_a_manifest_that_climbs_is_refused(tmp_path: Path, bundle: dict[str, bytes]) -> None:
    (tmp_path / "secret").write_text("x")
    reader = BundleReader.__new__(BundleReader)
    for name in ("../secret", str(tmp_path / "secret"), "a/../../secret", "."):
        lay_out(bundle, tmp_path / "bundle")
        hashes = reader._manifest(bundle | {name: b"x"})
        (tmp_path / "bundle" / "MANIFEST.json").write_bytes(hashes)
        with pytest.raises(BundleError, match="missing"):
            verify_bundle(tmp_path / "bundle")


def test_links_in_a_bundle_are_refused(tmp_path: Path, bundle: dict[str, bytes]) -> None:
    lay_out(bundle, tmp_path / "bundle")
    shutil.move(tmp_path / "bundle" / "data.csv", tmp_path / "elsewhere.csv")
    (tmp_path / "bundle" / "data.csv").symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(BundleError, match=r"data\.csv is missing"):
        verify_bundle(tmp_path / "bundle")


def test_a_pipe_in_the_place_of_a_file_does_not_hang(tmp_path: Path, bundle: dict[str, bytes]) -> None:
    lay_out(bundle, tmp_path / "bundle")
    for name in ("data.csv", "MANIFEST.json"):
        (tmp_path / "bundle" / name).unlink()
        os.mkfifo(tmp_path / "bundle" / name)
        with pytest.raises(BundleError):
            verify_bundle(tmp_path / "bundle")


# ---------------------------------------------------------------------- bombs


def test_an_archive_that_grows_out_of_proportion_is_refused_unread(tmp_path: Path, model: bytes) -> None:
    members = unzip(model)
    array = next(name for name in members if name.endswith(".npy"))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (40 << 20,)}
    )
    path = tmp_path / "m"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            if name != array:
                archive.writestr(name, content)
        with archive.open(array, "w") as stream:
            stream.write(header.getvalue())
            for _ in range(320):
                stream.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ModelFileError, match="more than a model file may hold"):
        Model.load(path)


def test_an_archive_that_lies_about_its_sizes_is_refused(tmp_path: Path, model: bytes) -> None:
    spoilt = bytearray(model)
    place = spoilt.rindex(b"PK\x01\x02")
    spoilt[place + 24 : place + 28] = struct.pack("<I", 0xFFFFFFF0)
    (tmp_path / "m").write_bytes(spoilt)
    with pytest.raises(ModelFileError):
        Model.load(tmp_path / "m")


def test_an_array_that_claims_more_than_it_holds_is_refused(tmp_path: Path, model: bytes) -> None:
    members = unzip(model)
    array = next(name for name in members if name.endswith(".npy"))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
    )
    (tmp_path / "m").write_bytes(make_zip(members | {array: header.getvalue()}))
    with pytest.raises(ModelFileError, match="shorter than it says"):
        Model.load(tmp_path / "m")


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    (tmp_path / "schema.yaml").write_text("\n".join(lines))
    with pytest.raises(SchemaError, match=r"anchor|alias"):
        Schema.read(tmp_path / "schema.yaml")


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_packings_are_refused(tmp_path: Path, model: bytes, packing: int) -> None:
    with zipfile.ZipFile(tmp_path / "m", "w", packing) as archive:
        for name, content in unzip(model).items():
            archive.writestr(name, content)
    with pytest.raises(ModelFileError, match="packed in a way"):
        Model.load(tmp_path / "m")


@pytest.mark.parametrize("where", ["MANIFEST.json", "certificate.json"])
def test_documents_too_deep_or_with_endless_numbers_are_refused(
    tmp_path: Path, bundle: dict[str, bytes], where: str
) -> None:
    reader = BundleReader.__new__(BundleReader)
    for content in (b"[" * 100_000, b'{"guarantee": ' + b"9" * 5000 + b"}", b'{"rows": 1e999}'):
        case = bundle | {where: content}
        if where != "MANIFEST.json":
            case["MANIFEST.json"] = reader._manifest(case)
        lay_out(case, tmp_path / "bundle")
        with pytest.raises(BundleError):
            verify_bundle(tmp_path / "bundle")


# ---------------------------------------------------------------------- ledgers


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON line BEGIN DELETE FROM line WHERE sequence > 0; END",
        "CREATE VIEW v AS SELECT * FROM line",
        "CREATE TABLE more (x)",
    ],
)
def test_a_ledger_with_more_than_its_table_is_refused(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "a.ledger"
    path.write_bytes(LedgerReader().seeds[0]["a.ledger"])
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError):
        Ledger.open(path)


# ---------------------------------------------------------------------- found by the fuzzer


@pytest.mark.parametrize("field", ["values: [1, HUGE]", "values: [1, 2]\n    missing_labels: [HUGE]"])
def test_numbers_beyond_every_float_are_refused(tmp_path: Path, field: str) -> None:
    text = f"columns:\n  - name: a\n    kind: categorical\n    {field}\n".replace("HUGE", "1" + "0" * 400)
    (tmp_path / "schema.yaml").write_text(text)
    with pytest.raises(SchemaError):
        Schema.read(tmp_path / "schema.yaml")
    (tmp_path / "schema.yaml").write_text(f"columns: [{{name: a, kind: integer, bins: [0, 1{'0' * 400}]}}]\n")
    with pytest.raises(SchemaError):
        Schema.read(tmp_path / "schema.yaml")


@pytest.mark.parametrize("weight", [10**400, -(10**400), 1e301, float("nan")])
def test_weights_beyond_every_use_are_refused(tmp_path: Path, weight: float) -> None:
    schema = Schema.parse("{columns: [{name: a, kind: boolean}]}")
    with pytest.raises(WorkloadError, match="must be a number"):
        workload_of({"a": weight}, schema, tmp_path)


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(SchemaError, match="can be no file"):
        Schema.read("a\0b")


@pytest.mark.parametrize(
    "words", ["x" * 5000, "all-²way", "all-" + "9" * 5000 + "way", "skewed:" + "9" * 5000, "a\0b"]
)
def test_odd_names_of_workloads_are_refused(words: str) -> None:
    with pytest.raises(WorkloadError):
        parse_workload(Domain(("a", "b"), (2, 2)), words)


def test_a_report_of_a_forged_bundle_is_refused(tmp_path: Path, bundle: dict[str, bytes]) -> None:
    document = json.loads(bundle["certificate.json"])
    for entry in document["ledger"]["entries"]:
        entry.pop("costs")
    lay_out(bundle | {"certificate.json": json.dumps(document).encode()}, tmp_path / "bundle")
    with pytest.raises(BundleError, match="cannot be interpreted"):
        bundle_report(tmp_path / "bundle")


@pytest.mark.parametrize("field", ["type", "metric", "mechanism"])
def test_words_of_a_certificate_that_are_no_words_are_shown_as_text(
    tmp_path: Path, bundle: dict[str, bytes], field: str
) -> None:
    document = json.loads(bundle["certificate.json"])
    document["criteria"][0][field] = ["<b>", None]
    lay_out(bundle | {"certificate.json": json.dumps(document).encode()}, tmp_path / "bundle")
    page = release_page(bundle_report(tmp_path / "bundle"))
    assert "[&#x27;&lt;b&gt;&#x27;, None]" in page


@pytest.mark.parametrize("value", [["gdp"], {}, 5, "x"])
def test_a_ledger_with_a_forged_header_under_a_perfect_chain_is_refused(
    tmp_path: Path, value: object
) -> None:
    reader = LedgerReader()
    lines = reader._lines(reader.seeds[0]["a.ledger"])
    for field in ("accounting", "approximate_delta", "unit", "budget"):
        header = json.loads(lines[0]) | {field: value if field != "approximate_delta" or value != 5 else "5"}
        text = json.dumps(header, sort_keys=True, separators=(",", ":"))
        image = reader._rebuilt([text, *lines[1:]])
        assert image is not None
        (tmp_path / "a.ledger").write_bytes(image)
        with pytest.raises(LedgerError):
            Ledger.open(tmp_path / "a.ledger")


@pytest.mark.parametrize("cost", ["nan", "-1", -1.0, [], "x"])
def test_a_charge_with_an_impossible_cost_is_refused(tmp_path: Path, cost: object) -> None:
    reader = LedgerReader()
    lines = reader._lines(reader.seeds[0]["a.ledger"])
    for field in ("zcdp", "delta"):
        entry = json.loads(lines[2])
        (entry if field == "delta" else entry["costs"])[field] = cost
        forged = json.dumps(entry, sort_keys=True, separators=(",", ":"))
        image = reader._rebuilt([*lines[:2], forged, *lines[3:]])
        assert image is not None
        (tmp_path / "a.ledger").write_bytes(image)
        with pytest.raises(LedgerError):
            Ledger.open(tmp_path / "a.ledger")
