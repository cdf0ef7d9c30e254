"""The record of an agreement: bound to the specification, read before anything is spent, carried by the certificate, checked by verify."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from spec_examples import SMALL

from understudy.errors import BundleError, SignatureError
from understudy.release.agreement import Agreement, Comment, agreement_of
from understudy.release.approvals import approve, specification_hash
from understudy.release.bundle.bundle import manifest_text
from understudy.release.bundle.verify import verify_bundle
from understudy.release.series.refresh import plan_refresh
from understudy.release.spec.spec import Spec
from understudy.workflow import publish

SCRIPT = "<script>alert('x')</script>"
TABLE = pd.DataFrame({"sex": ["m", "f"] * 200, "age": [70, 50, 30, 10] * 100, "size": [5, 4, 4, 2, 1] * 80})


def _sign(folder: Path, *, published: bool) -> Path:
    """Write a specification with the record of an agreement, as the studio does, but for the approval beside it."""
    plain = copy.deepcopy(SMALL)
    del plain["projections"]
    plain["acceptance"]["criteria"] = [{"name": "cells", "kind": "max-marginal-error", "threshold": 0.9}]
    plain["approvals"] = {"required": ["owner"]}
    path = folder / "spec.json"
    path.write_text(json.dumps(plain))
    file, said = approve(path, role="owner", name="Ada Berg")
    file.unlink()
    made = specification_hash(Spec.read(path))
    comments = [Comment("lawyer", f"Bo {SCRIPT}", f"Why 5? {SCRIPT}", "2026-11-16 10:00 UTC", made[:12])]
    record = Agreement.make(made, [said], comments, published=published)
    (folder / "agreement.json").write_text(json.dumps(record.to_dict(), indent=2))
    plain["agreement"] = {"file": "agreement.json", "sha256": record.hash}
    path.write_text(json.dumps(plain))
    return path


def _release(spec: Path) -> Path:
    out = spec.parent / "bundle"
    assert publish(spec, source=TABLE, ledger=spec.parent / "t.ledger", out=out).accepted
    return out


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _release(_sign(tmp_path_factory.mktemp("agreed"), published=True))


def test_approvals_are_of_the_specification_and_the_record_is_named_beside_it(tmp_path: Path) -> None:
    path = _sign(tmp_path, published=False)
    spec = Spec.read(path)
    bare = json.loads(path.read_text())
    del bare["agreement"]
    assert specification_hash(spec) == specification_hash(Spec.from_dict(bare))
    assert spec.fingerprint() == Spec.from_dict(bare).fingerprint()  # it decides nothing that a release does
    assert "file" not in spec.to_dict()["agreement"]
    found = agreement_of(spec)
    assert found is not None
    assert found.hash == spec.to_dict()["agreement"]["sha256"]


def test_every_byte_of_the_record_is_held_before_a_ledger_is_made(tmp_path: Path) -> None:
    """Change each character in turn: either the release is refused, or what is read is the very same record."""
    path = _sign(tmp_path, published=False)
    spec, file = Spec.read(path), tmp_path / "agreement.json"
    text, before = file.read_text(), agreement_of(Spec.read(path))
    refused = 0
    for place in range(0, len(text), 7):
        file.write_text(text[:place] + ("0" if text[place] != "0" else "1") + text[place + 1 :])
        try:
            assert agreement_of(spec) == before  # white space between the words
        except SignatureError:
            refused += 1
    assert refused > len(text) / 7 / 2
    file.write_text(text.replace("Why 5?", "Why 6?"))
    with pytest.raises(SignatureError, match=r"agreement\.json.*Nothing was spent"):
        _release(path)
    file.unlink()
    with pytest.raises(SignatureError, match="not beside the specification"):
        _release(path)
    assert not (tmp_path / "t.ledger").exists()


def test_a_record_of_another_version_is_refused(tmp_path: Path) -> None:
    path = _sign(tmp_path, published=False)
    plain = json.loads(path.read_text())
    path.write_text(json.dumps(plain | {"title": "Another"}))
    with pytest.raises(SignatureError, match="another version"):
        agreement_of(Spec.read(path))
    path.write_text(json.dumps(plain | {"agreement": {"sha256": plain["agreement"]["sha256"]}}))
    with pytest.raises(SignatureError, match="no file"):
        agreement_of(Spec.read(path))
    for place in ("../agreement.json", "/etc/passwd", str(tmp_path / "agreement.json")):
        path.write_text(json.dumps(plain | {"agreement": plain["agreement"] | {"file": place}}))
        with pytest.raises(SignatureError, match="lie beside"):
            agreement_of(Spec.read(path))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"record": {}}', "\udcff", "[" * 100_000])
def test_what_is_no_record_is_refused_in_words(tmp_path: Path, text: str) -> None:
    path = _sign(tmp_path, published=False)
    (tmp_path / "agreement.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SignatureError, match="cannot be used"):
        agreement_of(Spec.read(path))


def test_the_certificate_carries_it_and_documents_show_it_as_text(bundle: Path) -> None:
    certificate = verify_bundle(bundle)
    found = Agreement.from_dict(certificate["agreement"])
    assert found.comments is not None
    assert found.comments[0].text.startswith("Why 5?")
    assert [item.name for item in found.approvals] == [
        "Ada Berg"
    ]  # nothing lay beside the file but the record
    assert certificate["approvals"] == [item.to_dict() for item in found.approvals]
    shown = 0
    for page in (*bundle.glob("*.html"), *bundle.glob("documents/*.html")):
        text = page.read_text()
        assert SCRIPT not in text, page.name
        shown += "Why 5?" in text
    assert shown


def test_comments_that_are_not_published_stay_home(tmp_path: Path) -> None:
    bundle = _release(_sign(tmp_path, published=False))
    found = Agreement.from_dict(verify_bundle(bundle)["agreement"])
    assert (found.number, found.comments, found.salt) == (1, None, None)
    for file in bundle.rglob("*"):
        assert not file.is_file() or b"Why 5?" not in file.read_bytes(), file


def _forge(bundle: Path, place: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """Change certificate and specification of a bundle, with a manifest that fits."""
    shutil.copytree(bundle, place)
    files = [place / "certificate.json", place / "spec.json"]
    plain = [json.loads(file.read_text()) for file in files]
    change(*plain)
    for file, content in zip(files, plain, strict=True):
        file.write_text(json.dumps(content))
    hashes = json.loads((place / "MANIFEST.json").read_text())["files"]
    hashes |= {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    (place / "MANIFEST.json").write_text(manifest_text(hashes))
    return place


FORGERIES: list[tuple[str, Callable[[dict[str, Any], dict[str, Any]], Any]]] = [
    ("their hash is another one", lambda c, s: c["agreement"]["comments"][0].update(text="Fine.")),
    ("their hash is another one", lambda c, s: c["agreement"].update(salt="0" * 32)),
    ("comments are missing", lambda c, s: (c["agreement"].pop("comments"), c["agreement"].pop("salt"))),
    ("not the one that the specification names", lambda c, s: c["agreement"]["record"]["comments"].update(published=False)),
    ("not the one that the specification names", lambda c, s: c["agreement"]["record"]["approvals"].clear()),
    ("not the one that the specification names", lambda c, s: s["agreement"].update(sha256="0" * 64)),
    ("about another specification", lambda c, s: s.update(title="Another")),
    ("the specification names an agreement", lambda c, s: c.pop("agreement")),
    ("the certificate names an agreement", lambda c, s: s.pop("agreement")),
    ("missing in the certificate", lambda c, s: c["approvals"].clear()),
]  # fmt: skip


@pytest.mark.parametrize(("message", "change"), FORGERIES)
def test_verify_finds_every_change_although_the_manifest_fits(
    bundle: Path, tmp_path: Path, message: str, change: Callable[[dict[str, Any], dict[str, Any]], None]
) -> None:
    with pytest.raises(BundleError, match=message):
        verify_bundle(_forge(bundle, tmp_path / "forged", change))


def test_the_release_after_it_needs_an_agreement_of_its_own(bundle: Path, tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "next.csv", index=False)
    assert "agreement" not in plan_refresh(bundle, source=tmp_path / "next.csv").spec.plain
