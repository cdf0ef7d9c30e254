"""The page of the five papers: complete, without an empty cell, and every place, option and command it names exists."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import sys
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main
from benchmarks._measured import RUNS

from understudy.cli import main as commands
from understudy.cli.main import app
from understudy.mechanisms import method, methods
from understudy.mechanisms.source import Paper

ROOT = Path(__file__).resolve().parents[2]
NUMBERED = {
    Paper.BIRTHS: {"Algorithm": 5, "Table": 2, "Figure": 1},
    Paper.AIM: {"Algorithm": 4, "Table": 3, "Figure": 2},
    Paper.POISSON: {"Figure": 3, "Example": 3},
    Paper.DENIABILITY: {"Table": 5, "Figure": 6},
    Paper.DIPS: {"Table": 5, "Figure": 7},
}
"""How many algorithms, tables, figures and examples each paper has."""


def _docs(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


papers, kept_runs = _docs("papers"), _docs("kept_runs")
ROWS = [
    pytest.param(row, id=f"{paper.title}: {row.item}")
    for paper, rows in papers.TABLES.items()
    for row in rows
]


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "explanation" / "papers.md").read_text(encoding="utf-8")


def test_the_page_has_no_empty_cell(page: str) -> None:
    lines = [line for line in page.splitlines() if line.startswith("|") and not line.startswith("|---")]
    assert len(lines) > 80
    for line in lines:
        found = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        assert all(found), line
    with pytest.raises(SystemExit, match="empty cell"):
        papers.table(("a", "b"), [("1", " ")])


@pytest.mark.parametrize("paper", Paper)
def test_every_algorithm_table_and_figure_has_a_row(paper: Paper) -> None:
    items = " / ".join(row.item for row in papers.TABLES[paper])
    for kind, number in NUMBERED[paper].items():
        for index in range(1, number + 1):
            assert re.search(rf"{kind} {index}(?!\d)", items), f"{paper.title}, {kind} {index}"


@pytest.mark.parametrize(
    "item", [item for item in methods() if item.package is None], ids=lambda item: item.name
)
def test_every_method_stands_under_the_papers_it_cites(item: Any) -> None:
    source = item.load().source
    for paper in source.papers:
        named = {name for row in papers.TABLES[paper] for name in row.methods}
        assert item.name in named, f"{item.name} cites paper {paper.title}: add it to a row of docs/papers.py"


@pytest.mark.parametrize("row", ROWS)
def test_what_a_row_names_exists(row: Any) -> None:
    for name in row.methods:
        assert method(name).name == name
    for option in row.options:
        owner, _, name = option.partition(".")
        assert name in {field.name for field in fields(method(owner).load())}, option  # type: ignore[arg-type]
    for name in row.names:
        room, _, attribute = name.rpartition(".")
        module = importlib.import_module(room)
        assert attribute in vars(module), f"there is no {name}"
        assert attribute[0] != "_", f"{name} is not a public name"
        assert getattr(module, attribute) is not None
    for name in row.commands:
        assert name in _program().commands, name
    for name in row.files:
        assert (ROOT / name).is_file(), name


@pytest.mark.parametrize("row", [*ROWS, *(pytest.param(item, id=item.what[:30]) for item in papers.MENDED)])
def test_the_command_of_a_row_can_be_typed(row: Any) -> None:
    typed = re.fullmatch(r"`([^`]+)`(?: \(\[kept\]\(\.\./measured/([\w-]+)\.md\)\))?", row.command)
    assert typed is not None, row.command
    _check(typed[1])
    if typed[2]:
        assert (ROOT / "docs" / "measured" / f"{typed[2]}.md").is_file()


def test_a_command_that_cannot_be_typed_is_noticed() -> None:
    for wrong in (
        "understudy synth table.csv --methd aim",
        "understudy plan examples/births/nowhere.yaml",
        "python -m benchmarks.nothing",
        "python -m benchmarks.papers.wrong_numbers --part nothing",
        "python -m benchmarks.papers.wrong_numbers --parts delta",
        "python -m benchmarks --full nothing",
    ):
        with pytest.raises(BaseException):  # noqa: B017, PT011 - click, argparse and assertions all count
            _check(wrong)


def _program() -> Any:
    """The command line as a tree of commands."""
    commands.register(app)
    return typer.main.get_command(app)


def _check(line: str) -> None:
    """Fail if a command does not exist, does not take these options, or names a file that is not there."""
    words = shlex.split(line)
    if words[0] == "understudy":
        program = _program()
        name, command, rest = program.resolve_command(
            program.make_context("understudy", [], resilient_parsing=True), words[1:]
        )
        command.make_context(name, list(rest))  # parses, runs nothing
        for word in rest:
            assert not word.startswith("examples/") or (ROOT / word).exists(), word
        return
    assert words[:2] == ["python", "-m"], line
    if words[2] == "benchmarks":
        assert words[3] == "--full"
        assert set(words[4:]) <= {run.name for run in RUNS}, line
        return
    module = ROOT.joinpath(*words[2].split(".")).with_suffix(".py")
    options = _options(module)
    asked = words[3:]
    for index, word in enumerate(asked):
        if word.startswith("--"):
            assert word in options, f"{line}: no option {word}"
            choices = options[word]
            if choices is not None:
                assert asked[index + 1] in choices, f"{line}: {word} does not know {asked[index + 1]}"


def _options(module: Path) -> dict[str, list[str] | None]:
    """The options of a benchmark, with the values that each takes where they are limited."""
    found: dict[str, list[str] | None] = {}
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "add_argument"
        ):
            names = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
            choices = next((word.value for word in node.keywords if word.arg == "choices"), None)
            limited: list[str] | None = None
            if choices is not None:
                inside = vars(importlib.import_module(f"benchmarks.{module.parent.name}.{module.stem}"))
                limited = list(eval(compile(ast.Expression(choices), str(module), "eval"), dict(inside)))
            for name in names:
                found[name] = limited
    return found


# ---------------------------------------------------------------- readers of kept runs


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of ``docs/measured``."""
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(kept_runs, "MEASURED", tmp_path)
    return tmp_path


def test_a_quoted_line_that_is_gone_is_an_error(measured: Path) -> None:
    (measured / "one.md").write_text("| aim | 0.5 |\nerror 0.25\n", encoding="utf-8")
    assert kept_runs.found("one", r"^error (\S+)$", "{0}") == "0.25"
    assert kept_runs.cells("one", "aim") == ["0.5"]
    with pytest.raises(SystemExit):
        kept_runs.found("one", "^loss", "{0}")
    with pytest.raises(SystemExit):
        kept_runs.cells("one", "mst")
    with pytest.raises(kept_runs.NotKept):
        kept_runs.page("two")


def test_figures_of_aim_are_computed_from_their_data(measured: Path) -> None:
    """Errors are averaged over seeds first; cells that one of the two did not finish are left out."""
    head = "table,workload,method,epsilon,seed,error,cpu_seconds,outcome\n"
    lines = [
        "a,target,aim,1,0,0.1,1,ok", "a,target,aim,1,1,0.3,1,ok", "a,target,aim,10,0,0.1,1,ok",
        "a,target,mst,1,0,0.4,1,ok", "a,target,mst,10,0,0.8,1,ok", "a,skewed,mst,10,0,9,1,ok",
        "b,target,mst,1,0,,,did not finish in 60 s",
        '"a",target,"rap, published",1,0,0.1,1,ok',
    ]  # fmt: skip
    (measured / "data" / "aim-figure1.csv").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    found = kept_runs.ratios("aim-figure1", "target")
    assert found["mst"] == (pytest.approx(4.0), pytest.approx(8.0), 2)
    assert found["rap, published"] == (pytest.approx(0.5), pytest.approx(0.5), 1)
    assert (
        kept_runs.aim_is_best("target", ("mst", "gem"))
        == "2 of 2 settings, 2 of 2 with epsilon of at least 1"
    )
    assert kept_runs.aim_is_best("target", ("rap, published",)).startswith("0 of 1 settings")
    assert kept_runs.spoken(found, ("rap", "mst")).startswith("rap, published 0.50 (0.5), mst 4.00")
    assert "mst 4.00 (8.0)" in papers.figure_one("target")()


def test_studies_of_dips_are_computed_from_their_data(measured: Path) -> None:
    head = "study,scenario,method,epsilon,quantity,repetitions,bias,rmse,coverage,width\n"
    lines = [
        "1,n=40,original,none,pi,5000,0,0.05,0.91,0.2",
        "1,n=40,modips,0.1,pi,5000,0.3,0.4,0.75,1", "1,n=100,modips,0.1,pi,5000,0.3,0.4,0.85,1",
        "1,n=40,modips,1,pi,5000,-0.02,0.1,0.93,1", "1,n=100,modips,7,pi,5000,0.3,0.4,0.95,1",
    ]  # fmt: skip
    (measured / "data" / "dips-study1.csv").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    told = kept_runs.dips("1", "modips", "pi")
    assert (
        told
        == "covers 0.750 to 0.850 below epsilon 1, 0.930 to 0.950 from 1 on (largest bias at 1: 0.02, RMSE 0.1)"
    )
    with pytest.raises(SystemExit):
        kept_runs.dips("1", "laplace", "pi")


def test_newer_runs_come_first(measured: Path) -> None:
    def older() -> str:
        return "older"

    def newer() -> str:
        return str(len(kept_runs.records("new")))

    assert kept_runs.first(newer, older) == "older"
    (measured / "data" / "new.csv").write_text("a\n1\n", encoding="utf-8")
    assert kept_runs.first(newer, older) == "1"


def test_the_table_of_births_is_read_from_its_release(measured: Path) -> None:
    text = (
        "accepted: privbayes degree=2; 158,500 rows\n\n"
        "criterion                threshold     paper      ours     exact  epsilon  paper sd    our sd  met\n"
        "mean birth weight              100     28.63     31.25     30.01     0.17     3.821     1.651  yes\n"
        "regression coefficients         30     27.18     19.73     15.82     0.43         -         -  yes\n"
        "guarantee: epsilon=9.98 (pure differential privacy) for one row replaced by another\n"
    )
    (measured / f"{papers.births_run()}.md").write_text(text, encoding="utf-8")
    assert (
        papers.births_criterion("mean birth weight", "weight") == "31.25 published, 30.01 exact, noise 1.651"
    )
    (measured / "criteria.md").write_text("L1 noise (10 %, 50 %, 90 %): [ 9.6 20.1 34.2]\n", encoding="utf-8")
    told = papers.births_criterion("regression coefficients", "coefficients")
    assert told == "19.73 published, 15.82 exact, noise 20.1 (9.6 to 34.2 in eight of ten cases)"
    assert "epsilon=9.98" in papers.births_release()
    assert "accepted: privbayes degree=2" in papers.births_release()


def test_the_figures_of_deniability_are_read_from_their_data(measured: Path) -> None:
    kept = {
        "deniability-figure1": "learning,rows,epsilon,column,models,accuracy,marginals,improvement,smallest,largest\n"
        "whole table,80000,none,age,20,.1,.1,0.1,0,1\nwhole table,80000,none,sex,20,.1,.1,0.3,0,1\n"
        "whole table,80000,1,age,20,.1,.1,0.05,0,1\n",
        "deniability-figure2": "column,what,accuracy\nage,forest,0.2\nsex,forest,0.4\nage,random,0.1\n",
        "deniability-figure6": "epsilon,gamma,omega,k,models,candidates,share,smallest,largest\n"
        "1,2,omega in 5..11,100,10,65536,0.61,0,1\n1,4,omega in 5..11,100,10,65536,0.7,0,1\n1,2,omega=9,100,10,65536,0.8,0,1\n",
        "deniability-table4": "trained,classifier,rows,splits,accuracy,smallest,largest,paper\n"
        "not private,LR,80000,5,81.53,81,82,79.9\nnot private,SVM,80000,5,81.0,80,82,78.5\n",
    }
    for name, text in kept.items():
        (measured / "data" / f"{name}.csv").write_text(text, encoding="utf-8")
    assert papers.improvement() == "epsilon none: 20.0 % whole table; epsilon 1: 5.0 % whole table"
    assert papers.model_accuracies() == "mean over columns: forest 0.300, random 0.100"
    assert papers.passing() == "epsilon 1: 61.0 %"
    assert papers.table_four() == "not private 81.5/81.0"
