"""Approvals: of one version of a specification, required before anything is spent, carried by the certificate."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from spec_examples import SMALL

from understudy.errors import ApprovalMissing, BundleError, SchemaError, SignatureError
from understudy.release.approvals import (
    approvals_beside,
    approve,
    check_approvals,
    require_approvals,
    specification_hash,
)
from understudy.release.bundle.bundle import manifest_text
from understudy.release.bundle.verify import verify_bundle
from understudy.release.signing import approvals_of, bundle_subject, check_statements, sign, subject_of
from understudy.release.spec.spec import Spec
from understudy.signatures import Keyring, Statement, open_keyring
from understudy.workflow import publish

GOLDEN = Path(__file__).parents[2] / "golden" / "0.1.0"


def _plain(**more: Any) -> dict[str, Any]:
    plain = copy.deepcopy(SMALL)
    del plain["projections"]
    plain["acceptance"]["criteria"] = [{"name": "cells", "kind": "max-marginal-error", "threshold": 0.9}]
    return plain | more


def _write(folder: Path, **more: Any) -> Path:
    path = folder / "small.json"
    path.write_text(json.dumps(_plain(**more)))
    return path


def _table() -> pd.DataFrame:
    return pd.DataFrame(
        {"sex": ["f", "m"] * 200, "age": [10, 30, 50, 70] * 100, "size": [1, 2, 3, 4, 5] * 80}
    )


def _publish(spec: Path, **more: Any) -> Path:
    done = publish(spec, source=_table(), ledger=spec.parent / "t.ledger", out=spec.parent / "bundle", **more)
    assert done.accepted
    return done.folder


# ---------------------------------------------------------------- what is approved


def test_the_hash_covers_every_published_word_and_no_local_path(tmp_path: Path) -> None:
    first = specification_hash(Spec.from_dict(_plain()))
    assert first == specification_hash(Spec.from_dict(_plain(ledger="elsewhere.ledger"), where=tmp_path))
    changes: list[dict[str, Any]] = [
        {"license": "CC0-1.0"},
        {"title": "Small"},
        {"description": "A table"},
        {"seed": 4},
        {"unit": "add-remove", "output": {"rows": 400}},
        {"budget": {"total": {"epsilon": 5.5}, "model": {"epsilon": 4}}},
        {"approvals": {"required": ["owner"]}},
    ]
    hashes = {specification_hash(Spec.from_dict(_plain(**change))) for change in changes}
    assert len(hashes | {first}) == len(changes) + 1


def test_a_specification_without_approvals_keeps_its_fingerprints() -> None:
    """Specifications of 0.1.0 have none; the golden tests hold their fingerprints, this one that the key counts where it stands."""
    plain, asked = Spec.from_dict(_plain()), Spec.from_dict(_plain(approvals={"required": ["owner"]}))
    assert plain.fingerprint() != asked.fingerprint()
    assert plain.choices_fingerprint() != asked.choices_fingerprint()
    assert plain.facts_fingerprint() == asked.facts_fingerprint()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"required": ["layer"]}, "approvals.required"),
        ({"required": ["owner"], "keys": {"lawyer": "0" * 32}}, "not among approvals.required"),
        ({"required": ["owner"], "keys": {"owner": "0" * 31}}, "approvals.keys"),
        ({"wanted": ["owner"]}, "wanted"),
    ],
)
def test_a_requirement_that_makes_no_sense_is_refused(part: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Spec.from_dict(_plain(approvals=part))


# ---------------------------------------------------------------- before anything is spent


def test_a_release_is_refused_before_a_ledger_is_made(tmp_path: Path) -> None:
    spec = _write(tmp_path, approvals={"required": ["owner", "lawyer"]})
    approve(spec, role="owner", name="Ada Berg")
    with pytest.raises(ApprovalMissing, match=r"lawyer: nobody approved it"):
        _publish(spec)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "small.json",
        "small.json.approval-owner.json",
    ]


def test_an_approval_of_another_version_does_not_count(tmp_path: Path) -> None:
    spec = _write(tmp_path, approvals={"required": ["owner"]})
    approve(spec, role="owner", name="Ada Berg")
    spec = _write(tmp_path, approvals={"required": ["owner"]}, license="CC0-1.0")
    with pytest.raises(
        ApprovalMissing, match=r"owner: Ada Berg approved another version \(hash [0-9a-f]{12}\)"
    ):
        _publish(spec)
    assert not (tmp_path / "t.ledger").exists()
    approve(spec, role="owner", name="Ada Berg")
    verify_bundle(_publish(spec))


def test_signed_approvals_may_be_required_and_the_key_named(tmp_path: Path) -> None:
    spec = _write(tmp_path, approvals={"required": ["owner"], "signed": True})
    approve(spec, role="owner", name="Ada Berg")
    read = Spec.read(spec)
    assert check_approvals(read, approvals_beside(spec)).missing == (
        "owner: the approval is typed, and a signed one is required",
    )
    abroad = Keyring(tmp_path / "abroad")
    key = abroad.new("ada", name="Ada Berg").public
    _, said = approve(spec, role="owner", name="Ada Berg", sign=True, keyring=abroad)
    (missing,) = check_approvals(read, [said]).missing
    assert "not trusted here" in missing
    open_keyring().trust(key)
    assert require_approvals(read, [said]).given == (said,)

    named = Spec.from_dict(_plain(approvals={"required": ["owner"], "keys": {"owner": key.fingerprint}}))
    other = Keyring(tmp_path / "other")
    other.new("eve", name="Ada Berg")
    about = replace(said.unsigned(), hash=specification_hash(named))
    assert check_approvals(named, [abroad.sign(about)]).missing == ()
    (missing,) = check_approvals(named, [other.sign(about)]).missing
    assert "another key than the specification names" in missing


def test_a_damaged_approval_is_not_passed_over(tmp_path: Path) -> None:
    """Even where none is required: somebody meddled, or a copy failed."""
    spec = _write(tmp_path)
    ring = open_keyring()
    ring.new("ada", name="Ada Berg")
    file, _ = approve(spec, role="owner", name="Ada Berg", sign=True)
    whole = file.read_text()
    file.write_text(whole[:-40])
    with pytest.raises(SignatureError, match="cut off"):
        _publish(spec)
    file.write_text(whole.replace("Ada Berg", "Eve Berg"))
    with pytest.raises(SignatureError, match="signature does not hold"):
        _publish(spec)
    assert not (tmp_path / "t.ledger").exists()


def test_a_statement_about_something_else_is_no_approval() -> None:
    spec = Spec.from_dict(_plain())
    said = Statement(
        meaning="signed",
        kind="file",
        hash=specification_hash(spec),
        subject="small",
        name="Ada",
        date="2026-11-16",
    )
    with pytest.raises(SignatureError, match="no approval of a specification"):
        check_approvals(spec, [said])


# ---------------------------------------------------------------- in the bundle


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A bundle with a typed and a signed approval, and the folder of the key."""
    folder = tmp_path_factory.mktemp("approved")
    spec = _write(folder, approvals={"required": ["owner", "lawyer"]})
    ring = Keyring(folder / "keys")
    ring.new("ada", name="Ada Berg")
    approve(spec, role="owner", name="Ada Berg", sign=True, keyring=ring, date="2026-11-16")
    approve(spec, role="lawyer", name="Bo Ek", date="2026-11-15")
    return _publish(spec), folder / "keys"


def _copy(bundle: Path, folder: Path) -> Path:
    return Path(shutil.copytree(bundle, folder / "copy"))


def _change(bundle: Path, name: str, change: Any) -> None:
    """Change a document of a bundle and write the manifest anew, as somebody with time would."""
    plain = json.loads((bundle / name).read_text())
    change(plain)
    (bundle / name).write_text(json.dumps(plain, indent=2) + "\n")
    hashes = {
        path.relative_to(bundle).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in bundle.rglob("*")
        if path.is_file() and path.name != "MANIFEST.json"
    }
    (bundle / "MANIFEST.json").write_text(manifest_text(hashes))


def test_approvals_travel_in_the_certificate(approved: tuple[Path, Path]) -> None:
    bundle, keys = approved
    certificate = verify_bundle(bundle)
    checked = approvals_of(certificate, keyring=Keyring(keys))
    said = {item.statement.role: item for item in checked if item.statement is not None}
    assert said["owner"].trusted is not None
    assert said["lawyer"].trusted is None
    assert "Anybody can have typed it" in said["lawyer"].describe()
    spec = json.loads((bundle / "spec.json").read_text())
    assert {item.statement.hash for item in said.values() if item.statement} == {specification_hash(spec)}
    assert {item["statement"]["name"] for item in certificate["approvals"]} == {"Ada Berg", "Bo Ek"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plain: plain["approvals"].pop(0), "a required approval is missing: "),
        (lambda plain: plain.pop("approvals"), "a required approval is missing: lawyer: nobody approved it"),
        (lambda plain: plain["approvals"][1]["statement"].update(name="Eve"), "does not hold"),
        (lambda plain: plain["approvals"][1]["statement"].update(hash="0" * 64), "is of something else"),
        (lambda plain: plain["approvals"][1].pop("signature"), "cannot be used"),
        (lambda plain: plain["approvals"][1]["signature"].update(signature="0" * 127), "cannot be used"),
        (lambda plain: plain.update(approvals=[5]), "cannot be used"),
        (lambda plain: plain.update(approvals={"a": 1}), "cannot be used"),
    ],
)
def test_a_certificate_with_other_approvals_does_not_verify(
    approved: tuple[Path, Path], tmp_path: Path, change: Any, message: str
) -> None:
    bundle = _copy(approved[0], tmp_path)
    roles = [item["statement"]["role"] for item in verify_bundle(bundle)["approvals"]]
    assert roles == ["lawyer", "owner"]
    _change(bundle, "certificate.json", change)
    with pytest.raises(BundleError, match=message):
        verify_bundle(bundle)


def test_an_approved_specification_cannot_be_exchanged(approved: tuple[Path, Path], tmp_path: Path) -> None:
    """The licence is no part of the fingerprint of the release, and still part of what was approved."""
    bundle = _copy(approved[0], tmp_path)
    _change(bundle, "spec.json", lambda plain: plain.update(license="CC0-1.0"))
    with pytest.raises(BundleError, match="an approval in the certificate is of something else"):
        verify_bundle(bundle)


@pytest.mark.parametrize("trick", ["twice", "unreadable"])
def test_an_approval_cannot_be_given_to_another_release(
    approved: tuple[Path, Path], tmp_path: Path, trick: str
) -> None:
    """The approved specification in a bundle of another one, written so that it is no specification and has the hash all the same."""
    bundle = _copy(approved[0], tmp_path)
    spec = json.loads((bundle / "spec.json").read_text())
    said = json.loads((bundle / "certificate.json").read_text())["approvals"]

    def other(plain: dict[str, Any]) -> None:
        plain["guarantee"]["budget"]["epsilon"] = 40.0
        plain["spec_fingerprint"] = "0" * 64
        plain["approvals"] = said

    if trick == "twice":
        text = json.dumps(spec).replace("{", '{"name": "x", ', 1)
        assert specification_hash(json.loads(text)) == specification_hash(spec)
        (bundle / "spec.json").write_text(text)
        message = "spec.json"
    else:  # as one that refers to a file that is not here; its owner approved that
        spec["synthesizers"] = [{"method": "aim", "options": {"workload": "w.yaml"}}]
        (bundle / "spec.json").write_text(json.dumps(spec))
        for item in said:
            item["statement"]["hash"] = specification_hash(spec)
            item["signature"] = None
        message = "nothing shows that the certificate is about the one that was approved"
    _change(bundle, "certificate.json", other)
    with pytest.raises(BundleError, match=message):
        verify_bundle(bundle)


def test_a_specification_that_needs_another_file_is_not_approved(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("- [sex, age]\n")
    methods = [{"method": "aim", "options": {"workload": "w.yaml"}}]
    spec = _write(tmp_path, synthesizers=methods)
    with pytest.raises(ApprovalMissing, match=r"from the file 'w.yaml'"):
        approve(spec, role="owner", name="Ada Berg")
    said = Statement(
        meaning="approved",
        kind="specification",
        hash=specification_hash(Spec.read(spec)),
        subject="small",
        role="owner",
        name="Ada Berg",
        date="2026-11-16",
    )
    with pytest.raises(ApprovalMissing, match=r"from the file 'w.yaml'"):
        require_approvals(Spec.read(spec), [said])
    require_approvals(Spec.read(spec), [])


# ---------------------------------------------------------------- signatures of things


def test_verify_says_who_signed_a_bundle_and_what_is_wrong(
    approved: tuple[Path, Path], tmp_path: Path
) -> None:
    bundle, keys = _copy(approved[0], tmp_path), approved[1]
    ring = Keyring(keys)
    file, said = sign(bundle, keyring=ring, role="owner", date="2026-11-16")
    assert file.parent == bundle.parent  # the bundle itself stays what its manifest says
    assert said.kind == "bundle"
    (item,) = check_statements(bundle, keyring=ring)
    assert item.problems == ()
    assert item.trusted is not None
    # a foreign key: it holds, and is said to be foreign
    (item,) = check_statements(bundle, keyring=Keyring(tmp_path / "empty"))
    assert item.problems == ()
    assert item.trusted is None
    assert "NOT trusted here" in item.describe()
    # the same signature beside another bundle
    (tmp_path / "moved").mkdir()
    other = _copy(approved[0], tmp_path / "moved")
    _change(other, "datapackage.json", lambda plain: plain.update(title="Another"))
    (item,) = check_statements(other, files=[file], keyring=ring)
    assert item.problems == ("it is about another bundle than this one",)
    # a signature over another kind of thing
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear reader")
    about_letter, _ = sign(letter, keyring=ring)
    (item,) = (
        x for x in check_statements(bundle, files=[about_letter], keyring=ring) if x.file == about_letter
    )
    assert item.problems == ("it is about a file, and this is a bundle",)
    # one byte changed, at every tenth place of the statement
    whole = file.read_bytes()
    for place in range(0, len(whole), 10):
        changed = bytes([whole[place] ^ 1])
        file.write_bytes(whole[:place] + changed + whole[place + 1 :])
        (item,) = check_statements(bundle, keyring=ring, about=bundle_subject(bundle, {"name": "small"}))
        assert item.problems or whole[place : place + 1].isspace(), (place, changed)
    # cut off
    file.write_bytes(whole[: len(whole) // 2])
    (item,) = check_statements(bundle, keyring=ring)
    assert "cut off" in item.problems[0]


def test_a_bundle_that_does_not_hold_is_not_signed(approved: tuple[Path, Path], tmp_path: Path) -> None:
    bundle = _copy(approved[0], tmp_path)
    (bundle / "data.csv").write_bytes((bundle / "data.csv").read_bytes() + b"\n")
    with pytest.raises(BundleError, match=r"data.csv was changed"):
        sign(bundle, keyring=Keyring(approved[1]))


def test_the_head_of_a_ledger_is_signed_and_a_rollback_shows(
    approved: tuple[Path, Path], tmp_path: Path
) -> None:
    from understudy.privacy import Ledger, PureDP, Unit
    from understudy.privacy.events import PureEvent

    ring, path = Keyring(approved[1]), tmp_path / "a.ledger"
    with Ledger.create(path, budget=PureDP(3.0), unit=Unit.add_remove(), table="a") as ledger:
        ledger.charge(PureEvent(1.0), purpose="one")
    before = path.read_bytes()
    sign(path, keyring=ring)
    with Ledger.open(path) as ledger:
        ledger.charge(PureEvent(1.0), purpose="two")
    (item,) = check_statements(path, keyring=ring)
    assert item.problems == ()  # it grew, and what was signed is in it
    file, said = sign(path, keyring=ring)
    assert said.entries == 2
    path.write_bytes(before)
    (item,) = check_statements(path, keyring=ring)
    assert item.file == file
    assert "rolled back" in item.problems[0]


def test_a_specification_that_cannot_be_read_is_not_signed_as_a_plain_file(tmp_path: Path) -> None:
    broken = tmp_path / "spec.yaml"
    broken.write_text("name: [")
    with pytest.raises(SchemaError):
        subject_of(broken)
    broken.write_text(json.dumps(_plain(unit="everybody")))
    with pytest.raises(SchemaError):
        subject_of(broken)


def test_a_bundle_of_the_first_version_verifies_and_can_be_signed(tmp_path: Path) -> None:
    with zipfile.ZipFile(GOLDEN / "release-single" / "bundle.zip") as archive:
        archive.extractall(tmp_path / "bundle")
    assert approvals_of(verify_bundle(tmp_path / "bundle")) == ()
    assert check_statements(tmp_path / "bundle") == ()
    open_keyring().new("ada", name="Ada Berg")
    sign(tmp_path / "bundle")
    (item,) = check_statements(tmp_path / "bundle")
    assert item.problems == ()
