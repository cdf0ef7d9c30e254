"""Files that 0.1.0 wrote are read, verified and gone on with: ledgers, models, specifications, bundles, states of releases.

``make.py`` beside this file says how they were made. Recorded events never change meaning, so what a ledger says it has spent is compared to
the last digit; so are fingerprints. Rows of models are compared in counts, with room for another machine's last bits.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from understudy.mechanisms import Model
from understudy.privacy import Ledger
from understudy.release.bundle.reporting import bundle_report
from understudy.release.bundle.verify import verify_bundle
from understudy.release.result import ReleaseFailure, ReleaseResult
from understudy.release.run.run import run_release
from understudy.release.spec.spec import Spec
from understudy.report import release_page
from understudy.schema import Schema

GOLDEN = Path(__file__).parent / "0.1.0"
FACTS: dict[str, Any] = json.loads((GOLDEN / "facts.json").read_text(encoding="utf-8"))


def test_the_files_are_those_of_the_version_they_claim() -> None:
    assert FACTS["version"] == "0.1.0"
    assert len(FACTS["models"]) >= 13
    assert len(FACTS["ledgers"]) == 4


def test_a_schema_keeps_its_fingerprint() -> None:
    assert Schema.read(GOLDEN / "toy.yaml").fingerprint() == FACTS["schema"]


@pytest.mark.parametrize("name", sorted(FACTS["ledgers"]))
def test_a_ledger_opens_verifies_and_says_what_it_said(name: str, tmp_path: Path) -> None:
    path = tmp_path / "toy.ledger"
    shutil.copy(GOLDEN / f"{name}.ledger", path)
    wanted = FACTS["ledgers"][name]
    with Ledger.open(path) as ledger:
        assert ledger.verify(head=wanted["head"]) == wanted["head"]
        assert (ledger.spent, ledger.remaining, ledger.total) == (
            wanted["spent"],
            wanted["remaining"],
            wanted["total"],
        )
        found = [entry.to_dict() for entry in ledger.entries()]
        for entry, before in zip(found, wanted["entries"], strict=True):
            assert {key: entry[key] for key in before} == before
        ledger.note("opened by a later version")
        assert ledger.verify(head=wanted["head"])


@pytest.mark.parametrize("name", sorted(FACTS["models"]))
def test_a_model_opens_and_draws_the_rows_it_drew(name: str) -> None:
    model, wanted = Model.load(GOLDEN / f"{name}.understudy"), FACTS["models"][name]
    assert model.default_rows() == wanted["rows"]
    rows = model.sample(1000, seed=3)
    for column, counts in wanted["counts"].items():
        found = {str(value): int(number) for value, number in rows[column].value_counts().items()}
        off = sum(abs(found.get(value, 0) - counts.get(value, 0)) for value in {*found, *counts})
        assert off <= 20, f"{name}, {column}: {off} of 1,000 rows moved"


@pytest.mark.parametrize("name", sorted(FACTS["specs"]))
def test_a_specification_keeps_its_fingerprint(name: str) -> None:
    assert Spec.read(GOLDEN / name).fingerprint() == FACTS["specs"][name]["fingerprint"]


@pytest.mark.parametrize("name", ["single", "published", "loop"])
def test_a_release_and_its_bundle_are_still_there(name: str, tmp_path: Path) -> None:
    place = _copy(name, tmp_path)
    with zipfile.ZipFile(place / "bundle.zip") as archive:
        archive.extractall(place / "bundle")
    verify_bundle(place / "bundle")
    page = release_page(bundle_report(place / "bundle"))  # in the form of today
    assert "Privacy label" in page
    spec = Spec.read(place / "spec.yaml")
    assert spec.fingerprint() == FACTS["releases"][name]["fingerprint"]
    with Ledger.open(place / "toy.ledger") as ledger:
        before = ledger.spent
    outcome = run_release(spec, ledger=place / "toy.ledger", source=pd.read_csv(GOLDEN / "toy.csv"))
    assert isinstance(outcome, ReleaseResult)
    assert len(outcome.synthetic) == FACTS["releases"][name]["rows"]
    with Ledger.open(place / "toy.ledger") as ledger:
        assert ledger.spent == before


def test_a_release_that_0_1_0_began_is_finished(tmp_path: Path) -> None:
    """It had measured the number of rows, and recorded it in its state: that is not charged again."""
    place = _copy("interrupted", tmp_path)
    spec = Spec.read(place / "spec.yaml")
    outcome = run_release(spec, ledger=place / "toy.ledger", source=pd.read_csv(GOLDEN / "toy.csv"))
    assert isinstance(outcome, ReleaseResult | ReleaseFailure)
    with Ledger.open(place / "toy.ledger") as ledger:
        purposes = [entry.purpose for entry in ledger.entries() if entry.event is not None]
        assert purposes.count("measure the number of rows") == 1
        assert len(purposes) == len(set(purposes)) == 3


def _copy(name: str, target: Path) -> Path:
    """Copy a release where it may be gone on with; its specification names the schema in the folder above."""
    shutil.copy(GOLDEN / "toy.yaml", target)
    shutil.copytree(GOLDEN / f"release-{name}", target / f"release-{name}")
    return target / f"release-{name}"
