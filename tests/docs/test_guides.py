"""Guides whose commands build on each other are run as a reader would, and what they say about the result holds."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from understudy.cli.main import app, prepare
from understudy.errors import LedgerError
from understudy.privacy import ApproxDP, accounting_for
from understudy.privacy.accounting.conversions import gdp_to_approx

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"
STEP = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _understudy(line: str) -> None:
    prepare()
    app(shlex.split(line.removeprefix("$ understudy ")), standalone_mode=False)


def test_fit_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = _page("fit-a-table")
    for language, block in STEP.findall(text):
        if language == "python":
            exec(compile(block, "fit-a-table.md", "exec"), {"__name__": "__main__"})
            continue
        for line in block.splitlines():
            assert line.startswith("$ understudy "), f"a reader cannot run {line!r}"
            _understudy(line)
    assert {"first.csv", "first.understudy", "second.parquet", "more.csv.gz"} <= {
        path.name for path in tmp_path.iterdir()
    }
    capsys.readouterr()
    _understudy("$ understudy ledger show stays.ledger --json")
    shown = json.loads(capsys.readouterr().out)
    each = accounting_for(ApproxDP(1.0, 1e-9)).total(ApproxDP(1.0, 1e-9))
    assert shown["spent"]["gdp"] == pytest.approx(2 * each, rel=1e-3)
    assert f"use {gdp_to_approx((2 * each) ** 0.5, 1e-9):.2f} of the 2" in text


def test_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from understudy.cli import logs

    monkeypatch.chdir(tmp_path)
    for language, block in STEP.findall(_page("operations")):
        if language == "python":
            exec(compile(block, "operations.md", "exec"), {"__name__": "__main__"})
            continue
        for line in block.splitlines():
            if line.startswith("$ cp "):
                shutil.copy(*line.removeprefix("$ cp ").split())
            elif line.startswith("$ understudy register . --against"):
                with pytest.raises(LedgerError):  # the backup beside it is a copy, as the page says
                    _understudy(line)
            else:
                _understudy(line)
                logs.close_log(0)
    said = capsys.readouterr().out
    assert "A. Example" in said
    assert "copy of the same ledger" in said
    assert {"log.jsonl", "register.csv", "stays.anchor"} <= {path.name for path in tmp_path.iterdir()}


def _inside(kind: str, factor: float) -> int:
    """Return how many of the 80 errors that the two pages report are within a factor of what was expected."""
    place = ("columns", "pairs", "triples").index(kind) + 5
    found = []
    for page in ("plan-errors", "plan-errors-sift"):
        for line in (GUIDES.parent / "measured" / f"{page}.md").read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == 9 and cells[3] in ("mst", "aim", "sift"):
                expected, reached = map(float, cells[place].split(", "))
                found.append(expected / factor <= reached <= min(1.0, factor * expected))
    assert len(found) == 80
    return sum(found)


def test_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from understudy.workflow import advice, rehearsing, wishes

    monkeypatch.chdir(tmp_path)
    text = _page("plan")
    for language, block in STEP.findall(text):
        if language == "python":
            exec(compile(block, "plan.md", "exec"), {"__name__": "__main__"})
            continue
        for line in block.splitlines():
            _understudy(line)
    said = capsys.readouterr().out
    assert "Expected error, as the share of rows in a wrong cell" in said
    assert "Columns within 2 %: an epsilon of about" in said
    assert Path("errors.svg").exists()
    assert f"within {100 * rehearsing.RELY:g} % of their count" in text
    assert f"more than {rehearsing.MOST_ROWS:,} rows" in text
    assert f"no epsilon below {wishes.LARGEST_EPSILON:g} is enough" in text
    for page in ("plan-errors", "plan-errors-sift"):
        measured = (GUIDES.parent / "measured" / f"{page}.md").read_text(encoding="utf-8")
        within = re.findall(r"^\| (?:pairs|triples|pairs and triples) \|.*\| ([\d.]+) \|$", measured, re.M)
        assert len(within) == 3
        assert max(map(float, within)) <= advice.TYPICAL_FACTOR  # what every plan says about real tables
    factors = rehearsing.NINE_OF_TEN
    assert (
        f"by {factors['columns']:g} for columns, {factors['pairs']:g} for pairs and {factors['triples']:g} for triples"
        in text
    )
    inside = {kind: _inside(kind, factor) for kind, factor in {**factors, "columns": 1.4}.items()}
    assert (
        f"{inside['pairs']} of 80 errors of pairs and {inside['triples']} of 80 of triples lie inside" in text
    )
    assert f"Of columns {inside['columns']} of 80 lay within the factor of 1.4" in text
    for wish in re.findall(r'--want "([^"]+)"', text):
        wishes.Wish.parse(wish)


def test_discover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise is real: that a column of 6,000 rows at epsilon 4 is not found has a probability below 1e-9."""
    from understudy.schema import Schema
    from understudy.schema.coding.profile import PROFILE

    monkeypatch.chdir(tmp_path)
    text = _page("discover")
    assert f"each of {len(PROFILE)} fixed cells" in text
    for language, block in STEP.findall(text):
        if language == "python":
            exec(compile(block, "discover.md", "exec"), {"__name__": "__main__"})
            continue
        for line in block.splitlines():
            _understudy(line)
    found = Schema.read(tmp_path / "standin.schema.yaml")
    assert (
        {"clinic", "smoker", "age"}
        <= set(found.names)
        <= set(Path("stays.csv").read_text().splitlines()[0].split(","))
    )
    assert {column.origin for column in found.columns} == {"measured"}
    assert "patient_nbr" not in Schema.read(tmp_path / "persons.yaml").names
    assert Path("standin.csv").exists()


def test_the_workload_file_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy import datasets

    text = _page("fit-a-table")
    monkeypatch.chdir(tmp_path)
    Path("workload.yaml").write_text(
        re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)[0], encoding="utf-8"
    )
    datasets.load("toy", 10, seed=1)[1].write("schema.yaml")
    for word in ("all-2way", "all-3way", "target:ward", "target:ward:2", "skewed", "workload.yaml"):
        assert f"`{word}`" in text
        _understudy(
            f"$ understudy plan -s schema.yaml -m aim --epsilon 1 --unit add-remove --workload {word} --json"
        )


def test_what_an_evaluation_under_a_budget_costs_in_accuracy() -> None:
    from understudy import Curator, Ledger, PureDP, Unit, datasets, read_table
    from understudy.release.accounted import accounted_measures

    frame, schema = datasets.load("toy", 3_000, seed=1)
    ledger = Ledger.in_memory(budget=PureDP(0.1), unit=Unit.add_remove(), table="toy")
    curator = Curator(read_table(frame, schema), unit=Unit.add_remove(), ledger=ledger)
    rows, average, largest, *_ = accounted_measures(curator, schema.encode_frame(frame), PureDP(0.1))
    told = re.findall(r"standard deviation of (\d+) rows for an average and of (\d+)\s", _page("evaluate"))[0]
    assert [float(number) for number in told] == pytest.approx(
        [average.deviation * rows.value, largest.deviation * rows.value], abs=0.6
    )
    for number, share in zip(told, re.findall(r"([\d.]+) % (?:and|of)", _page("evaluate"))[-2:], strict=True):
        assert float(share) == pytest.approx(100 * float(number) / 3_000, abs=0.06)


def _page(name: str) -> str:
    return (GUIDES / f"{name}.md").read_text(encoding="utf-8")


def test_sign_and_approve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At epsilon 1.5 a cell of 2,000 rows is off by 0.1 with a probability far below 1e-9, so the release is accepted."""
    said = _run_guide("sign-and-approve", tmp_path, monkeypatch, capsys)
    assert "approved by Ada Berg as owner" in said
    assert "approved by Bo Ek as lawyer" in said
    assert "is your own" in said
    assert {"spec.yaml.approval-owner.json", "smoking-release.signature-owner.json"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_next_year(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A threshold of half of the records is met with certainty, for all that matters: both releases are accepted."""
    said = _run_guide("next-year", tmp_path, monkeypatch, capsys)
    assert "What the series costs" in said
    assert "release 2 of the series" in said
    assert "changes.md" in {path.name for path in (tmp_path / "stays-2025-release").iterdir()}
    assert "differs by at least" in said


def _run_guide(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Run the blocks of a page one after the other and return what was printed."""
    monkeypatch.chdir(folder)
    names: dict[str, object] = {"__name__": "__main__"}
    for language, block in STEP.findall(_page(name)):
        if language == "python":
            exec(compile(block, f"{name}.md", "exec"), names)
            continue
        for line in block.splitlines():
            _understudy(line)
    return capsys.readouterr().out
