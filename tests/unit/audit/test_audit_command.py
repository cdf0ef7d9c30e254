"""``understudy audit`` from the command line's side: arguments, files, exit codes, pictures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import understudy.audit
from understudy.audit import Audit, AuditReport, Claim, Effort, Tally, audit_markdown
from understudy.audit.releases import LOOP
from understudy.cli.exits import Exit
from understudy.cli.main import app, register
from understudy.errors import OutputError, UnknownMethod, UsageError
from understudy.report import Verdict, audit_chart

RIGHT, WRONG = Tally(500, 500, 430, 250, 215, 35), Tally(500, 500, 498, 250, 249, 1)


def report(tally: Tally) -> AuditReport:
    claim = Claim("epsilon", 2.0, 0.0, "epsilon=2")
    audit = Audit("laplace", "a pair", "a unit (words)", claim, "an attacker", tally, True, 0.1, tally)
    return AuditReport((audit,), 3, Effort.quick(), 1.0)


def run(*words: str) -> object:
    register(app)
    return CliRunner().invoke(app, ["audit", *words], catch_exceptions=True)


@pytest.mark.parametrize(("tally", "code"), [(RIGHT, 0), (WRONG, Exit.VIOLATION)])
def test_the_exit_code_tells_of_a_violation(
    tally: Tally, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(understudy.audit, "audit_many", lambda *_, **__: report(tally))
    files = {"--out": tmp_path / "a.json", "--markdown": tmp_path / "a.md", "--chart": tmp_path / "a.svg"}
    result = run("laplace", "--quick", *(str(word) for pair in files.items() for word in pair))
    assert result.exit_code == code  # type: ignore[attr-defined]
    assert ("VIOLATED" in result.output) == bool(code)  # type: ignore[attr-defined]
    document = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert document["seed"] == 3
    assert document["audits"][0]["violated"] == bool(code)
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg")
    page = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert page == audit_markdown(document)  # the file of numbers is enough to make the tables again
    assert ("VIOLATED" in page) == bool(code)
    row = next(line for line in page.splitlines() if line.startswith("| laplace |"))
    share = row.split("|")[6].strip()
    assert re.search(rf"│ {share} +│", result.output)  # type: ignore[attr-defined]


def test_json_alone_on_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(understudy.audit, "audit_all", lambda **_: report(RIGHT))
    assert json.loads(run("--all", "--json").output)["violations"] == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), UsageError),
        (("laplace", "--all"), UsageError),
        (("no-such-method",), UnknownMethod),
        (("laplace", "--out", "/no/such/folder/a.json"), OutputError),
        (("laplace", "--markdown", "/no/such/folder/a.md"), OutputError),
        (("laplace", "--option", "nonsense"), UsageError),
    ],
)
def test_what_cannot_be_asked(words: tuple[str, ...], error: type[Exception]) -> None:
    assert isinstance(run(*words).exception, error)  # type: ignore[attr-defined]


def test_a_method_with_options_and_a_specification(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[object, dict[str, object]]] = []

    def fake(names: object, **words: object) -> AuditReport:
        asked.append((names, words))
        return report(RIGHT)

    monkeypatch.setattr(understudy.audit, "audit_many", fake)
    assert run("laplace", "--runs", "400", "--option", "post-processing=simplex").exit_code == 0  # type: ignore[attr-defined]
    (tmp_path / "spec.yaml").write_text(LOOP, encoding="utf-8")
    assert run(str(tmp_path / "spec.yaml"), "--quick").exit_code == 0  # type: ignore[attr-defined]
    assert asked[0][1]["options"] == {"post_processing": "simplex"}
    assert asked[0][1]["effort"].focus == 400  # type: ignore[attr-defined]
    assert asked[1][1]["specs"][0].name == "audit loop"  # type: ignore[index]


def test_the_chart_marks_violations() -> None:
    svg = audit_chart("t", [Verdict("<a>", 0.5), Verdict("b" * 200, 9.0, violated=True)])
    assert "&lt;a&gt;" in svg
    assert svg.count("#b3261e") == 1
    assert "900%" in svg
