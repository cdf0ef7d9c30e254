"""An interrupt at any moment of the program's life ends it with code 130 and one sentence: no traceback, and never a hang.

The instants are chosen, not drawn: the import of a module, the end of the interpreter. ``python -m benchmarks.trust.faults --programs 300`` draws
them at random.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.trust._faults_program import SCRIPT, judge

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals as Unix has them")

AT_IMPORT = """
import os, signal, sys
def strike(event, words):
    if event == "import" and words[0] == TARGET:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(strike)
"""
AT_END = """
import atexit, os, signal
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
"""


def program(before: str, *words: str, ignore: bool = False) -> tuple[int, str]:
    run = subprocess.run(
        [sys.executable, "-c", before + SCRIPT, *words],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignore else None,
    )
    return run.returncode, run.stdout + run.stderr


@pytest.fixture
def schema(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "schema.yaml").write_text("columns: [{name: a, kind: boolean}]\n")
    (tmp_path / "t.csv").write_text("a\ntrue\nfalse\n")
    return str(tmp_path / "schema.yaml"), str(tmp_path / "t.csv")


@pytest.mark.parametrize(
    "target", ["understudy.cli.main", "typer", "understudy.cli.commands.schema", "numpy", "pandas"]
)
def test_an_interrupt_during_an_import(target: str, schema: tuple[str, str]) -> None:
    code, text = program(AT_IMPORT.replace("TARGET", repr(target)), "schema", "check", *schema)
    assert (code, judge(code, text, True)) == (130, None)


def test_an_interrupt_at_the_end_of_the_interpreter(schema: tuple[str, str]) -> None:
    code, text = program(AT_END, "schema", "check", *schema)
    assert (code, judge(code, text, True)) == (130, None)
    undisturbed = program("", "schema", "check", *schema)
    assert undisturbed[0] == 0
    assert undisturbed[1].strip() in text  # what was said before is not lost
    # to go on is no advice for a command that has ended: it would pay again
    assert "The command had ended before" in text
    assert "the same command goes on" not in text


def test_a_second_interrupt_while_the_first_is_answered() -> None:
    """The second comes while the first is on its way out of the command."""
    before = (
        "import os, signal, sys\n"
        "import understudy.cli.main as program\n"
        "def run():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        while True: pass\n"
        "    finally:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "program.run = run\n"
    )
    code, text = program(before, "methods")
    assert (code, judge(code, text, True)) == (130, None)


def test_an_interrupt_that_is_to_be_ignored_is_ignored(schema: tuple[str, str]) -> None:
    """As under nohup: the default handler is not installed, and nothing changes that."""
    code, text = program(AT_IMPORT.replace("TARGET", "'pandas'"), "schema", "check", *schema, ignore=True)
    assert (code, judge(code, text, False)) == (0, None)


def test_the_judge_sees_a_traceback() -> None:
    assert judge(130, "Traceback (most recent call last)", True)
    assert judge(1, "", True)
    assert judge(130, "", True)
    assert judge(130, "Interrupted. ...", True) is None
