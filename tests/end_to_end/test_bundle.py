"""A published bundle: complete, self-consistent, and broken by any touch."""

from __future__ import annotations

import json
import math
import re
import shutil
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from command import understudy

from understudy.errors import BundleError, OutputError
from understudy.privacy import Ledger
from understudy.release.bundle.bundle import MANIFEST, bundle_files, manifest_text, write_bundle
from understudy.release.bundle.verify import verify_bundle
from understudy.release.result import ReleaseResult
from understudy.release.run.run import Release
from understudy.release.spec.spec import Spec

SPEC = """
name: tiny
title: A tiny release
license: CC-BY-4.0
citation: Example Office, A tiny release.
source: {simulate: {table: toy, rows: 500}}
schema:
  columns:
    - {name: a, kind: categorical, values: [x, y, z], description: a letter}
    - {name: b, kind: boolean}
    - {name: c, kind: integer, bins: [0-9, 10-19, "19<"], unit: points}
unit: replace-one
synthesizers: [{method: laplace}]
acceptance:
  form: FORM
  EPSILON
  criteria:
    - {name: cells, kind: max-marginal-error, threshold: 0.4CRITERION}
selection: {rule: single}
budget: {total: {epsilon: 3}, model: {epsilon: 2}}
"""


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {"a": ["x", "x", "y", "z"] * 200, "b": [True, False, True, True] * 200, "c": [1, 15, 3, 30] * 200}
    )


def released(folder: Path, form: str = "pass-only") -> ReleaseResult:
    text = SPEC.replace("FORM", form)
    text = text.replace("  EPSILON\n", "  epsilon: 1\n" if form == "pass-only" else "")
    text = text.replace("CRITERION", "" if form == "pass-only" else ", epsilon: 1")
    with Release.open(Spec.parse(text), ledger=folder / "t.ledger", source=frame()) as running:
        outcome = running.run()
    assert isinstance(outcome, ReleaseResult), outcome
    return outcome


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    return write_bundle(released(folder), folder / "out")


def test_nothing_in_a_bundle_tells_when_the_selection_ended(tmp_path: Path) -> None:
    """How long a loop took says how many attempts it made, and nobody paid for that."""
    outcome = replace(released(tmp_path), started="2020-02-03", finished="2020-02-03")
    path = write_bundle(outcome, tmp_path / "out")
    day = datetime(2020, 2, 3, tzinfo=UTC).timestamp()
    assert {item.stat().st_mtime for item in (path, *path.rglob("*"))} == {day}
    with zipfile.ZipFile(path / "model.understudy") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    today = datetime.now(UTC).date().isoformat().encode("ascii")
    assert not [name for name in bundle_files(path) if today in (path / name).read_bytes()]


@pytest.mark.parametrize("form", ["pass-only", "published"])
def test_a_bundle_verifies_and_speaks(form: str, tmp_path: Path) -> None:
    outcome = released(tmp_path, form)
    path = write_bundle(outcome, tmp_path / "out")
    certificate = verify_bundle(path)
    assert certificate["rows"] == len(pd.read_csv(path / "data.csv")) == len(outcome.synthetic)
    assert certificate["ledger"]["head"] == Ledger.open(tmp_path / "t.ledger").head_hash
    readme = (path / "README.md").read_text()
    for words in ("For data subjects", "For data users", "Intended use", "Unintended use", "A tiny release"):
        assert words in readme
    told = (path / "README.html").read_text()
    assert all(words in told for words in ("For data subjects", "Licence: CC-BY-4.0", "Example Office"))
    values = (path / "dictionary.md").read_text()
    assert all(f"| {value} |" in values for value in ("x", "y", "z", "0-9", "10-19", "19<"))
    assert "19&lt;" in (path / "dictionary.html").read_text()  # labels are escaped, not markup
    package = json.loads((path / "datapackage.json").read_text())
    assert package["licenses"] == [{"name": "CC-BY-4.0"}]
    assert [field["name"] for field in package["resources"][0]["schema"]["fields"]] == ["a", "b", "c"]
    croissant = json.loads((path / "croissant.json").read_text())
    assert len(croissant["recordSet"][0]["field"]) == 3
    assert (croissant["license"], croissant["citeAs"]) == ("CC-BY-4.0", "Example Office, A tiny release.")
    row = pd.read_csv(path / "acceptance.csv", keep_default_na=False).iloc[0]
    assert (row["result"] == "passed") == (form == "pass-only")
    assert not list(tmp_path.glob(".*part*"))


def test_any_touch_is_found(bundle: Path, tmp_path: Path) -> None:
    for name in (MANIFEST, *bundle_files(bundle)):
        for how in ("flip", "append", "remove"):
            copy = tmp_path / f"{name.replace('/', '-')}-{how}"
            shutil.copytree(bundle, copy)
            target = copy / name
            content = bytearray(target.read_bytes())
            if how == "flip":
                content[len(content) // 2] ^= 1
                target.write_bytes(content)
            elif how == "append":
                target.write_bytes(content + b"\n")
            else:
                target.unlink()
            with pytest.raises(BundleError):
                verify_bundle(copy)
    for odd in ("link", "documents/link", "hollow"):
        copy = tmp_path / f"with {odd.replace('/', ' ')}"
        shutil.copytree(bundle, copy)
        if odd == "hollow":
            (copy / odd).mkdir()
        else:
            (copy / odd).symlink_to(tmp_path)
        with pytest.raises(BundleError, match=f"{odd} is not part of the bundle"):
            verify_bundle(copy)
    copy = tmp_path / "extra"
    shutil.copytree(bundle, copy)
    (copy / "note.txt").write_text("hello")
    result = understudy("verify", copy)
    assert result.code == 4
    assert "not part of the bundle" in result.err


def _reseal(folder: Path) -> None:
    """Recompute the manifest, as a clever forger would."""
    import hashlib

    (folder / "MANIFEST.json").unlink()
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in bundle_files(folder)}
    (folder / "MANIFEST.json").write_text(manifest_text(hashes))


@pytest.mark.parametrize("what", ["budget", "charge", "rows", "domain", "criterion"])
def test_a_resealed_lie_is_found(bundle: Path, tmp_path: Path, what: str) -> None:
    copy = tmp_path / "lie"
    shutil.copytree(bundle, copy)
    certificate = json.loads((copy / "certificate.json").read_text())
    if what == "budget":
        certificate["guarantee"]["budget"]["epsilon"] = 0.5
    elif what == "charge":
        certificate["ledger"]["entries"] = []
    elif what == "rows":
        certificate["rows"] += 1
    elif what == "criterion":
        certificate["criteria"][0]["passed"] = False
    else:
        text = (copy / "data.csv").read_text().splitlines()
        text[1] = "q" + text[1][1:]
        (copy / "data.csv").write_text("\n".join(text) + "\n")
    (copy / "certificate.json").write_text(json.dumps(certificate))
    _reseal(copy)
    with pytest.raises(BundleError):
        verify_bundle(copy)


def test_a_bundle_is_never_replaced_and_never_half_written(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = released(tmp_path)
    with pytest.raises(OutputError, match="exists already"):
        write_bundle(outcome, bundle)

    def full(*args: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("understudy.release.bundle.bundle._picture", full)
    with pytest.raises(OutputError, match="No space left"):
        write_bundle(outcome, tmp_path / "half")
    assert not (tmp_path / "half").exists()
    assert not list(tmp_path.glob(".half*"))


def test_no_bundle_there(tmp_path: Path) -> None:
    assert understudy("verify", tmp_path / "nothing").code == 4
    (tmp_path / "empty").mkdir()
    assert understudy("verify", tmp_path / "empty").code == 4


def test_values_that_may_not_occur_are_marked_with_their_bounds(tmp_path: Path) -> None:
    """Ten values that nobody has: that the noise lifts all ten intervals above zero has a chance below 0.025 ** 10."""
    absent = [f"never{number}" for number in range(10)]
    text = SPEC.replace("FORM", "pass-only").replace("  EPSILON\n", "  epsilon: 1\n").replace("CRITERION", "")
    text = text.replace("[x, y, z]", f"[x, y, z, {', '.join(absent)}]").replace("laplace", "independent")
    with Release.open(Spec.parse(text), ledger=tmp_path / "t.ledger", source=frame()) as running:
        outcome = running.run()
    assert isinstance(outcome, ReleaseResult), outcome
    assert outcome.model is not None
    path = write_bundle(outcome, tmp_path / "out")
    verify_bundle(path)
    rare = outcome.model.unresolved(numbers=False)
    assert set(rare["value"]) & set(absent)
    written, page, report = (
        (path / name).read_text() for name in ("dictionary.md", "dictionary.html", "report.html")
    )
    for value, most in zip(rare["value"], rare["at_most"], strict=True):
        words = f"between 0 and {math.ceil(most):,} of the real rows that were counted: do not read this as a fact"
        assert f"| {value} | {words} |" in written
        assert words in page
        assert re.search(f"<td[^>]*>{value}</td><td[^>]*>{words}</td>", report)
    assert "| x |  |" in written  # 400 rows are a fact
    assert "Nothing here was learnt" not in written


# ---------------------------------------------------------------------- opening the report


@pytest.mark.parametrize("there", [True, False])
def test_open_shows_the_report_and_says_where_it_is(
    bundle: Path, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def browser(address: str) -> bool:
        asked.append(address)
        return there

    monkeypatch.setattr("webbrowser.open", browser)
    page = (bundle / "report.html").resolve()
    opened = understudy("open", bundle)
    assert opened.code == 0, opened.err
    assert asked == [page.as_uri()]
    assert opened.out.strip() == str(page)
    assert ("No browser could be started" in opened.err) == (not there)
    told = understudy("open", bundle, "--no-browser", "--json")
    assert json.loads(told.out) == {"report": str(page), "opened": False}
    assert len(asked) == 1


def test_a_page_that_somebody_changed_is_not_opened(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def browser(address: str) -> bool:
        raise AssertionError(address)

    monkeypatch.setattr("webbrowser.open", browser)
    copy = tmp_path / "copy"
    shutil.copytree(bundle, copy)
    with (copy / "report.html").open("a") as page:
        page.write("<script>alert(1)</script>")
    refused = understudy("open", copy)
    assert refused.code == 4
    assert "report.html was changed" in refused.err
    assert understudy("open", tmp_path / "nothing").code == 4
