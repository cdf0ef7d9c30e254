"""One way to do each thing: exit codes on one page, renamed options, streams, and the same words in Python."""

from __future__ import annotations

import inspect
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import typer.main

sys.path.insert(0, str(Path(__file__).parents[2] / "end_to_end"))

from command import understudy as run

import understudy
from understudy import datasets, errors
from understudy.cli.exits import MEANINGS, Exit
from understudy.cli.main import app, exit_code, prepare
from understudy.workflow import advise, discover_schema, evaluate, publish, synthesize

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "reference"
BUDGET = ("--epsilon", 1, "--unit", "add-remove")


def table(folder: Path) -> tuple[Path, Path]:
    """Write a small table and its schema."""
    frame, schema = datasets.load("toy", 300, seed=1)
    frame.to_csv(folder / "t.csv", index=False)
    schema.write(folder / "s.yaml")
    return folder / "t.csv", folder / "s.yaml"


# ------------------------------------------------------------------ exit codes


def test_the_page_lists_the_exit_codes_of_the_program() -> None:
    text = (PAGES / "exit-codes.md").read_text(encoding="utf-8")
    listed = {
        int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| (.+) \|$", text, re.MULTILINE)
    }
    assert listed == {int(code): MEANINGS[code] for code in Exit}


def test_no_other_page_lists_them() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name not in ("exit-codes.md", "cli.md"):  # the second is generated
            codes = re.findall(
                r"\b\d\b [a-z]", " ".join(re.findall(r"Exit codes.*", page.read_text("utf-8")))
            )
            assert len(codes) < 3, page


def test_every_error_ends_with_a_listed_code() -> None:
    classes = [
        cls
        for cls in vars(errors).values()
        if isinstance(cls, type) and issubclass(cls, errors.UnderstudyError)
    ]
    assert {exit_code(cls.__new__(cls)) for cls in classes} == {
        Exit.USAGE,
        Exit.BUDGET,
        Exit.INPUT,
        Exit.LEDGER,
        Exit.OUTPUT,
    }


def test_commands_end_with_them(tmp_path: Path) -> None:
    data, schema = table(tmp_path)
    fit = ("synth", data, "--schema", schema, "--method", "independent", *BUDGET, "--out", tmp_path / "o.csv")
    assert run("synth", data).code == Exit.USAGE
    assert run(*fit).code == Exit.DONE
    assert run(*fit).code == Exit.BUDGET
    assert run("schema", "check", schema, tmp_path / "absent.csv").code == Exit.INPUT
    (tmp_path / "bad.ledger").write_bytes(b"no ledger")
    assert run("ledger", "verify", tmp_path / "bad.ledger").code == Exit.LEDGER
    assert run("schema", "declare", schema, "--out", tmp_path / "no" / "s.yaml").code == Exit.OUTPUT


# ------------------------------------------------------------------ renamed options


@pytest.mark.parametrize("form", ["apart", "joined"])
def test_an_old_name_of_an_option_works_and_says_what_to_use(tmp_path: Path, form: str) -> None:
    words = ["--table", "t"] if form == "apart" else ["--table=t"]
    done = run("ledger", "create", tmp_path / "t.ledger", *words, *BUDGET, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["table"] == "t"
    assert (
        "ledger create --table is deprecated since Understudy 0.2 and goes away in 0.4. Use --table-name."
        in done.err
    )


def test_the_other_old_names(tmp_path: Path) -> None:
    data, schema = table(tmp_path)
    planned = run(
        "plan",
        "--schema",
        schema,
        "--method",
        "independent",
        *BUDGET,
        "--rows",
        300,
        "--no-rehearsal",
        "--json",
    )
    assert planned.code == 0, planned.err
    assert json.loads(planned.out)["measurements"][0]["expected_l1_share"] > 0
    assert "Use --rows-about." in planned.err
    held = ("--sections", "marginals")
    for name in ("--holdout", "--hold-out-table"):
        compared = run("evaluate", data, data, "--schema", schema, *held, name, data, "--json")
        assert compared.code == 0, compared.err
        assert json.loads(compared.out)["compared"]["held_out_rows"] == 300
        assert ("deprecated" in compared.err) == (name == "--holdout")
    assert "Use --jobs." in run("bench", "dips", "--processes", 1, "--studies", "nothing").err


def test_old_names_are_on_the_page_and_not_in_the_help() -> None:
    prepare()
    table_of_names = (ROOT / "docs" / "explanation" / "stability.md").read_text(encoding="utf-8")
    root: Any = typer.main.get_command(app)
    for path, old, new in (
        (("evaluate",), "--holdout", "--hold-out-table"),
        (("plan",), "--rows", "--rows-about"),
        (("ledger", "create"), "--table", "--table-name"),
        (("bench", "dips"), "--processes", "--jobs"),
    ):
        command: Any = root
        for word in path:
            command = command.commands[word]
        shown = {option for parameter in command.params for option in parameter.opts}
        assert old not in shown
        assert new in shown
        assert f"| `{' '.join(path)} {old}` | `0.2` | `0.4` | `{new}` |" in table_of_names


def test_a_chart_is_svg_in_every_command(tmp_path: Path) -> None:
    """Found before anything is computed."""
    _, schema = table(tmp_path)
    fit = ("plan", "--schema", schema, "--method", "independent", *BUDGET, "--rows-about", 300)
    for words in (fit, ("audit", "laplace", "--quick")):
        done = run(*words, "--chart", tmp_path / "picture.png")
        assert done.code == Exit.USAGE
        assert "does not end in .svg" in done.err
    assert run(*fit, "--chart", tmp_path / "picture.svg").code == Exit.DONE
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8").startswith("<svg")


# ------------------------------------------------------------------ streams


def test_a_bundle_that_nobody_trusted_signed_is_not_called_verified(tmp_path: Path) -> None:
    kept = ROOT / "tests" / "golden" / "0.1.0" / "release-published" / "bundle.zip"
    published = tmp_path / "bundle"
    zipfile.ZipFile(kept).extractall(published)
    assert json.loads(run("verify", published, "--json").out)["verified"] is True
    done = run("verify", published, "--trusted", "--json")
    told = json.loads(done.out)
    assert done.code == Exit.INPUT
    assert told["verified"] is False
    assert "No key that is trusted here" in told["problem"]
    assert "No key that is trusted here" in done.err
    (published / "data.csv").write_text("changed", encoding="utf-8")
    spoilt = run("verify", published, "--json")
    assert spoilt.code == Exit.INPUT
    assert json.loads(spoilt.out)["verified"] is False


def test_a_statement_that_does_not_hold_is_told_in_json(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("as it was signed", encoding="utf-8")
    assert run("keys", "new", "mine", "--name", "A. Owner").code == 0
    assert run("sign", note).code == 0
    assert json.loads(run("verify", note, "--trusted", "--json").out)["verified"] is True
    note.write_text("as somebody changed it", encoding="utf-8")
    done = run("verify", note, "--json")
    assert done.code == Exit.INPUT
    assert json.loads(done.out)["verified"] is False


def test_notices_of_a_run_go_to_standard_error(tmp_path: Path) -> None:
    data, schema = table(tmp_path)
    done = run("synth", data, "--schema", schema, *BUDGET, "--out", tmp_path / "o.csv", "--json")
    assert done.code == 0
    assert json.loads(done.out)["chosen"] in done.err.replace("\n", " ")


# ------------------------------------------------------------------ Python


def test_the_page_of_commands_and_functions_names_what_there_is() -> None:
    prepare()
    text = (PAGES / "commands-and-functions.md").read_text(encoding="utf-8")
    root: Any = typer.main.get_command(app)
    known: set[str] = set()

    def walk(command: Any) -> None:
        known.update(option for parameter in command.params for option in parameter.opts)
        for child in getattr(command, "commands", {}).values():
            walk(child)

    walk(root)
    for command in re.findall(r"`understudy ([a-z ]+?)(?: --\w+)?`", text):
        found = root
        for word in command.split():
            found = found.commands[word]
    options = set(re.findall(r"`(--[a-z-]+)`", text))
    assert len(options) > 30
    assert options <= known


def test_functions_take_the_same_words_with_the_same_defaults() -> None:
    functions = (synthesize, discover_schema, publish, evaluate, advise, understudy.TableSynthesizer)
    defaults: dict[str, set[Any]] = {}
    for function in functions:
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.default is not inspect.Parameter.empty:
                defaults.setdefault(name, set()).add(parameter.default)
    different = {name: values for name, values in defaults.items() if len(values) > 1}
    assert set(different) <= {"seed"}  # of made-up tables it is fixed, of synthetic rows it is not
