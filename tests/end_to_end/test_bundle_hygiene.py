"""A bundle whose words are hostile, a bundle that was judged by public criteria alone, and a release that was declined."""

from __future__ import annotations

import csv
import io
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command import Result, understudy

from understudy.privacy import Ledger
from understudy.release.bundle.bundle import write_bundle
from understudy.release.bundle.office import DOCUMENTS
from understudy.release.bundle.verify import verify_bundle
from understudy.release.result import ReleaseResult
from understudy.release.run.run import Release
from understudy.release.spec.spec import Spec

HTML = "<img src=x onerror=alert(1)><script>alert(2)</script>"
LINK = "![see](http://tracker.example/x.png) [here](javascript:alert(3))"
FORMULA = "=cmd|' /C calc'!A0"


def hostile() -> Spec:
    plain: dict[str, Any] = {
        "name": "tiny",
        "title": f"{HTML} title",
        "description": f"{HTML}\n\n# Another page\n\n```\n{LINK}",
        "license": f"{HTML} licence",
        "citation": f"{LINK} citation",
        "publisher": {"name": HTML, "contact": LINK, "region": f"{HTML} {LINK}"},
        "show": [{"column": "a", "values": [FORMULA], "text": f"{HTML} shown"}],
        "source": {"simulate": {"table": "toy", "rows": 400}},
        "schema": {
            "columns": [
                {"name": "a", "kind": "categorical", "values": [f"{HTML} label", FORMULA, "a | b"], "unit": HTML,
                 "description": f"{LINK} {HTML}"},
                {"name": f"b{HTML}", "kind": "boolean"},
            ]
        },
        "unit": "replace-one",
        "synthesizers": [{"method": "laplace"}],
        "acceptance": {
            "form": "pass-only",
            "epsilon": 1,
            "criteria": [{"name": f"=cells {HTML}", "kind": "max-marginal-error", "threshold": 0.9}],
        },
        "selection": {"rule": "single"},
        "budget": {"total": {"epsilon": 5}, "model": {"epsilon": 4}},
    }  # fmt: skip
    return Spec.from_dict(plain)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hostile")
    values = [f"{HTML} label", FORMULA, "a | b", "a | b"]
    frame = pd.DataFrame({"a": values * 100, f"b{HTML}": [True, False] * 200})
    with Release.open(hostile(), ledger=place / "t.ledger", source=frame) as running:
        outcome = running.run()
    assert isinstance(outcome, ReleaseResult), outcome
    return write_bundle(outcome, place / "bundle")


class Seen(HTMLParser):
    """The elements of a page, with the addresses they name."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]
        assert not any(name.startswith("on") for name, _ in attrs)


@pytest.mark.parametrize("name", ["README.md", "dictionary.md"])
def test_no_markup_of_a_specification_reaches_markdown(name: str, bundle: Path) -> None:
    """0.1.0 wrote titles and labels as they were."""
    text = (bundle / name).read_text("utf-8")
    assert "<" not in text
    assert "alert(2)" in text, "the words themselves are there"
    seen = Seen()
    seen.feed(text)
    assert seen.elements == []


@pytest.mark.parametrize("name", ["README.md", "dictionary.md"])
def test_rendered_markdown_holds_what_was_written_and_no_more(name: str, bundle: Path) -> None:
    markdown = pytest.importorskip("markdown", reason="renders the page")
    seen = Seen()
    seen.feed(markdown.markdown((bundle / name).read_text("utf-8"), extensions=["tables"]))
    allowed = {"h1", "h2", "h3", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "strong", "em"}
    assert set(seen.elements) <= allowed, set(seen.elements) - allowed
    assert seen.addresses == []
    assert seen.elements.count("h1") == 1


@pytest.mark.parametrize("name", ["report.html", "README.html", "dictionary.html", *DOCUMENTS])
def test_pages_carry_a_policy_that_allows_their_own_script_and_style_alone(name: str, bundle: Path) -> None:
    import base64
    import hashlib

    text = (bundle / name).read_text("utf-8")
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    assert policy is not None, "0.1.0 had none"
    assert text.index(policy[0]) < text.index("<title>"), "it holds for everything after it"
    rules = dict(part.strip().split(" ", 1) for part in policy[1].split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for element, rule in (("script", "script-src"), ("style", "style-src")):
        (inside,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode("utf-8")).digest()).decode("ascii")
        assert rules[rule] == f"'sha256-{digest}'"
    assert not re.search(r'\sstyle="', text), "an inline style would be refused"
    assert HTML not in text
    seen = Seen()
    seen.feed(text)
    assert "img" not in seen.elements
    assert all(address.startswith(("#", "data:")) for address in seen.addresses)


def test_no_markup_reaches_the_page_of_the_registry(bundle: Path) -> None:
    """It renders Markdown; and two backslashes would begin mathematics there."""
    import yaml

    text = (bundle / "documents" / "deployment.yaml").read_text("utf-8")
    said = str(yaml.safe_load(text))
    assert "<img" not in said
    assert "](" not in said
    assert "&lt;script>alert(2)" in said
    assert not re.search(r"\\\\[^()]", text)


def test_formulas_are_published_as_they_are_and_said_to_be_there(bundle: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((bundle / "data.csv").read_text("utf-8"))))
    assert FORMULA in {row["a"] for row in rows}, "never changed silently"
    (criterion,) = csv.DictReader(io.StringIO((bundle / "acceptance.csv").read_text("utf-8")))
    assert criterion["name"].startswith("'=cells"), "a document, which says so of itself"
    for name in ("README.md", "dictionary.md"):
        assert "preadsheets take for" in (bundle / name).read_text("utf-8"), name
    verify_bundle(bundle)


def test_formulas_are_named_before_anything_is_spent(tmp_path: Path) -> None:
    schema = tmp_path / "schema.yaml"
    hostile().schema.write(schema)
    for words in (
        ("schema", "check", schema),
        ("plan", "--schema", schema, "--method", "laplace", "--unit", "add-remove", "--epsilon", "1"),
    ):
        said = understudy(*words)
        assert said.code == 0
        assert "'a' has values that spreadsheets take for formulas" in " ".join(said.out.split())
    frame = pd.DataFrame({"a": ["a | b"] * 50, f"b{HTML}": [True, False] * 25})
    frame.to_csv(tmp_path / "table.csv", index=False)
    common = (
        "synth",
        tmp_path / "table.csv",
        "--schema",
        schema,
        "--method",
        "laplace",
        "--unit",
        "add-remove",
    )
    common += ("--epsilon", "1", "--ledger", tmp_path / "t.ledger")
    said = understudy(*common, "--out", "/proc/out.csv")
    assert said.code != 0
    said = understudy(*common, "--out", tmp_path / "out.csv")
    assert said.code == 0, said.err
    assert "spreadsheets take for formulas" in said.err


# ---------------------------------------------------------------------- public criteria alone

PUBLIC = """
name: staff
source: {path: staff.csv}
schema:
  columns:
    - {name: grade, kind: ordinal, values: [a, b, c]}
    - {name: sex, kind: categorical, values: [f, m]}
unit: replace-one
public: {row_count: declared}
synthesizers: [{method: laplace}]
acceptance:
  form: FORM
  criteria: [{name: unique rows, kind: rare-records, min_count: 2}]
selection: SELECTION
budget: {total: {epsilon: TOTAL}, model: {epsilon: 4}}
"""
SELECTIONS = {"single": ("{rule: single}", 4), "loop": ("{rule: until-accepted, gamma: 0.1}", 6.13624)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"grade": generator.choice(list("abc"), 600), "sex": generator.choice(["f", "m"], 600)}
    )
    frame.to_csv(tmp_path / "staff.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, form: str = "pass-only", selection: str = "single") -> None:
    rule, total = SELECTIONS[selection]
    text = PUBLIC.replace("FORM", form).replace("SELECTION", rule).replace("TOTAL", str(total))
    (folder / "spec.yaml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("selection", ["single", "loop"])
@pytest.mark.parametrize("form", ["pass-only", "published"])
def test_public_criteria_alone_are_enough_to_publish(form: str, selection: str, folder: Path) -> None:
    """In the pass-only form 0.1.0 charged, accepted, and ended in a TypeError whenever it was called again.

    A loop ends without a candidate with a chance of less than 1e-9: 600 rows in six cells leave no cell with one row.
    """
    write(folder, form, selection)
    done = understudy("release", "spec.yaml", "--out", "bundle")
    assert done.code == 0, done.err
    checked = understudy("verify", "bundle")
    assert checked.code == 0, checked.err
    page = (folder / "bundle" / "README.md").read_text("utf-8")
    assert "without another look at the real one" in page
    assert "Results are noisy" not in page
    report = (folder / "bundle" / "report.html").read_text("utf-8")
    assert "single bit" not in report


# ---------------------------------------------------------------------- declining


class Terminal(io.StringIO):
    """Somebody at a keyboard."""

    def isatty(self) -> bool:
        return True


def answering(answer: str, *words: object, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setattr(sys, "stdin", Terminal(answer + "\n"))
    return understudy("release", "spec.yaml", *words)


def test_saying_no_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0.1.0 left a ledger with a total that could no longer be changed, and a state."""
    write(folder)
    before = sorted(path.name for path in folder.iterdir())
    declined = answering("n", monkeypatch=monkeypatch)
    assert declined.code != 0
    assert "Go on?" in declined.err
    assert sorted(path.name for path in folder.iterdir()) == before
    text = (folder / "spec.yaml").read_text("utf-8").replace("epsilon: 4}", "epsilon: 3}")
    (folder / "spec.yaml").write_text(text, encoding="utf-8")
    accepted = answering("y", "--out", "bundle", monkeypatch=monkeypatch)
    assert accepted.code == 0, accepted.err
    with Ledger.open(folder / "staff.ledger") as ledger:
        assert ledger.budget.describe().startswith("epsilon=3")


def test_saying_no_to_a_restart_keeps_what_there_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0.1.0 forgot the earlier run before it asked."""
    write(folder)
    assert answering("y", "--out", "bundle", monkeypatch=monkeypatch).code == 0

    def content() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = content()
    declined = answering("n", "--restart", "--out", "other", monkeypatch=monkeypatch)
    assert declined.code != 0
    assert content() == before
    again = answering("n", "--out", "other", monkeypatch=monkeypatch)
    assert "Go on?" not in again.err, "a finished release asks nothing"
    assert "is complete and was published" in again.out


def test_a_release_folder_that_cannot_be_made_is_found_before_spending(folder: Path) -> None:
    write(folder)
    for out in ("/proc/bundle", "/proc/deeper/bundle", "staff.csv/bundle"):
        refused = understudy("release", "spec.yaml", "--out", out)
        assert refused.code != 0
        assert "release" in refused.err
        assert not (folder / "staff.ledger").exists()
