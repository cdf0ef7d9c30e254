"""For those who run Understudy for others: logs, who and where, a register of ledgers, memory, what killed writers leave."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import Result, understudy

from understudy.data.output import in_use, replacing, sweep_leftovers
from understudy.errors import LedgerError
from understudy.privacy import Ledger, PureDP, Unit
from understudy.privacy.ledger.operator import operated_by

SECRET = "Zyrphelia"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with a name in its path and a value that occur nowhere else."""
    folder = tmp_path / "ward"
    folder.mkdir()
    path = folder / f"{SECRET}.csv"
    path.write_text("a,b\n" + f"{SECRET},1\nother,0\n" * 611)
    (folder / "schema.yaml").write_text(
        f"columns: [{{name: a, kind: categorical, values: [{SECRET}, other]}}, {{name: b, kind: integer, minimum: 0, maximum: 1}}]\n"
    )
    return path


def synth(table: Path, *words: object, before: tuple[object, ...] = ()) -> Result:
    given = ("synth", table, "--schema", table.parent / "schema.yaml", "--unit", "add-remove", "--epsilon", 1)
    return understudy(*before, *given, "--method", "independent", "--out", table.parent / "out.csv", *words)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_log_tells_what_happens_and_nothing_private(table: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert synth(table, before=("--log-json", log)).code == 0
    said = lines(log)
    assert [said[0]["event"], said[-1]["event"], said[-1]["exit_code"]] == ["start", "end", 0]
    assert {"reading", "measuring", "drawing rows"} <= {line.get("stage") for line in said}
    assert "charged: measure 2 one-way marginals" in {line.get("message") for line in said}
    assert all({"time", "level", "event", "command"} <= set(line) for line in said)
    text = log.read_text()
    assert SECRET not in text, "neither values nor paths"
    assert "1222" not in text
    assert "1,222" not in text, "the number of rows"
    refused = synth(table, before=("--log-json", log))
    assert refused.code == 3, "the budget is spent"
    assert lines(log)[: len(said)] == said, "a log grows"
    error, end = lines(log)[-2:]
    assert (error["event"], error["level"], end["exit_code"]) == ("error", "error", 3)
    assert error["code"].startswith("US-")
    assert len(lines(log)) > len(said)


def test_a_fault_is_logged_by_its_kind_and_place_alone(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr("understudy.workflow.plan_synthesis", broken)
    log = tmp_path / "log.jsonl"
    assert synth(table, before=("--log-json", log)).code == 1
    fault = lines(log)[-2]
    assert (fault["event"], fault["kind"]) == ("fault", "ValueError")
    assert SECRET not in log.read_text()


def test_the_attempts_of_a_release_are_not_counted_by_its_log(tmp_path: Path) -> None:
    from understudy.cli import logs

    for command, expected in (("release", 0), ("synth", 2)):
        path = tmp_path / f"{command}.jsonl"
        logs.open_log(str(path), command)
        told = logs.watched(lambda stage, fraction: None)
        for stage in ("attempt 1", "fitting", "fitting"):
            told(stage, 0.5)
        logs.close_log(0)
        assert sum(line["event"] == "stage" for line in lines(path)) == expected
    assert lines(tmp_path / "synth.jsonl")[1]["stage"] == "attempt #"


def test_a_log_that_cannot_be_written_is_found_before_the_command_begins(table: Path) -> None:
    done = synth(table, before=("--log-json", table / "log.jsonl"))
    assert done.code == 6
    assert not table.with_suffix(".ledger").exists()


def test_who_and_where_stand_in_the_ledger_if_somebody_says_so(table: Path) -> None:
    ledger = table.with_suffix(".ledger")
    assert synth(table, before=("--operator", "A. Example", "--operator-host")).code == 0
    with Ledger.open(ledger) as opened:
        opened.verify()
        entries = list(opened.entries())
        assert {entry.operator for entry in entries} == {"A. Example"}
        assert all(entry.host for entry in entries)
        kinds = {entry.kind for entry in entries}
        later = opened.note("nobody is named")
        assert (later.operator, later.host) == ("", "")
        opened.verify()
    assert {"charge", "facts"} <= kinds
    shown = understudy("ledger", "show", ledger)
    assert "A. Example on " in shown.out


def test_neither_is_written_by_itself(table: Path) -> None:
    assert synth(table).code == 0
    with Ledger.open(table.with_suffix(".ledger")) as opened:
        assert all(not entry.operator and not entry.host for entry in opened.entries())
        assert all("operator" not in entry.to_dict() for entry in opened.entries())


@pytest.mark.parametrize("name", ["x" * 201, "two\nlines", "a\x1b[31m"])
def test_a_name_that_would_spoil_a_ledger_is_refused(name: str) -> None:
    with pytest.raises(LedgerError, match="operator"), operated_by(name):
        pass


def test_certificates_do_not_repeat_who_wrote_a_line() -> None:
    from understudy.release.bundle.bundle import _entry

    with Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove()) as ledger:
        with operated_by("A. Example", host=True):
            entry = ledger.note("a remark")
        assert {"operator", "host"} <= set(entry.to_dict())
        assert not {"operator", "host", "time"} & set(_entry(entry))


def test_a_register_shows_every_ledger_and_what_it_paid_for(table: Path, tmp_path: Path) -> None:
    assert synth(table, before=("--operator", "=A. Example")).code == 0
    ledger = table.with_suffix(".ledger")
    understudy(
        "ledger",
        "create",
        tmp_path / "b.ledger",
        "--table-name",
        "b.csv",
        "--unit",
        "replace-one",
        "--rho",
        0.5,
    )
    out = tmp_path / "register.csv"
    done = understudy("register", tmp_path, "--json", "--csv", out)
    assert done.code == 0, done.err
    found = {row["table"]: row for row in json.loads(done.out)["ledgers"]}
    assert set(found) == {table.name, "b.csv"}
    with Ledger.open(ledger) as opened:
        spent = found[table.name]
        assert (spent["head"], spent["spent"], spent["total"]) == (
            opened.head_hash,
            opened.spent,
            opened.total,
        )
        (release,) = spent["releases"]
        assert release["release"] == "independent"
        assert release["cost"] == pytest.approx(opened.spent)
    assert found["b.csv"]["releases"] == []
    assert found["b.csv"]["remaining"] == pytest.approx(0.5)
    with out.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["table"] for row in rows] == ["b.csv", table.name]
    assert rows[1]["operators"] == "'=A. Example", "no formula for a spreadsheet"
    assert float(rows[1]["release_cost"]) == pytest.approx(1.0)
    assert "Register" in understudy("register", tmp_path).out
    assert understudy("register", tmp_path / "absent").code == 2


def test_a_register_finds_rollbacks_copies_and_damage(table: Path, tmp_path: Path) -> None:
    ledger, kept = table.with_suffix(".ledger"), tmp_path / "elsewhere"
    kept.mkdir()
    understudy("ledger", "create", ledger, "--table-name", table.name, "--unit", "add-remove", "--epsilon", 1)
    shutil.copy(ledger, tmp_path / "backup")
    assert synth(table).code == 0
    assert understudy("ledger", "anchor", ledger, "--out", kept / "one.anchor").code == 0
    done = understudy("register", ledger, "--against", kept, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["ledgers"][0]["anchors"] == 1
    newer = ledger.read_bytes()
    shutil.copy(tmp_path / "backup", ledger)  # restored from a backup that is too old
    assert understudy("register", ledger).code == 0, "a perfect chain: only an anchor shows it"
    rolled = understudy("register", ledger, "--against", kept, "--json")
    assert rolled.code == 5
    assert "rolled back" in json.loads(rolled.out)["ledgers"][0]["problem"]
    ledger.write_bytes(newer)
    shutil.copy(ledger, tmp_path / "copy.ledger")
    copied = understudy("register", tmp_path)
    assert copied.code == 5
    assert "copy of the same ledger" in copied.out
    (tmp_path / "copy.ledger").write_bytes(newer[: len(newer) // 2])
    damaged = understudy("register", tmp_path, "--json")
    assert damaged.code == 5
    problems = {Path(row["file"]).name: row["problem"] for row in json.loads(damaged.out)["ledgers"]}
    assert problems["copy.ledger"]
    assert not problems[ledger.name], "the others are shown all the same"


def _program(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    words = [sys.executable, "-c", script]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def test_a_memory_limit_is_told_as_such() -> None:
    """As under ``ulimit -v``: a number in the message, not a fault of the program."""
    script = """
import resource, sys
from unittest.mock import patch
from understudy.cli import main
from understudy.parallel import available_mb
import understudy.cli.commands.methods
limit = 4 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
assert available_mb() < 4096
def greedy(*_, **__):
    return bytearray(limit)
sys.argv = ["understudy", "methods"]
with patch("understudy.mechanisms.methods", greedy):
    main.run()
"""
    done = _program(script)
    assert done.returncode == 1, done.stderr
    assert "the memory ran out: this process may use 4,096 MB (ulimit -v)" in done.stderr
    assert "fault of Understudy" not in done.stderr


def test_a_folder_that_is_closed_to_this_user_is_told_as_such() -> None:
    """Whoever meets it first: some functions of Python raise when they only ask whether a file is there."""
    script = """
import sys
from unittest.mock import patch
from understudy.cli import main
import understudy.cli.commands.methods
def closed(*_, **__):
    raise PermissionError(13, "Permission denied", "/closed/table.csv")
sys.argv = ["understudy", "methods"]
with patch("understudy.mechanisms.methods", closed):
    main.run()
"""
    done = _program(script)
    assert done.returncode == 4, done.stderr
    assert "error: '/closed/table.csv' may not be reached by this user." in done.stderr
    assert "fault of Understudy" not in done.stderr


def test_what_killed_writers_left_is_swept_and_what_living_ones_hold_is_not(tmp_path: Path) -> None:
    old = (1.0, 1.0)
    left, held, young, other = (
        tmp_path / name
        for name in (
            ".out.csv.00112233.part",
            ".out.csv.aabbccddeeff.tmp",
            ".out.csv.99887766.part",
            ".else.csv.00112233.part",
        )
    )
    left.mkdir()
    (left / "half.csv").write_text("x")
    for path in (held, young, other):
        path.write_text("x")
    for path in (left, held, other):
        os.utime(path, old)
    with in_use(held):
        assert sweep_leftovers(tmp_path / "out.csv") == [left]
        assert held.exists()
    with replacing(tmp_path / "out.csv") as file:
        file.write(b"done")
        assert not held.exists(), "nobody holds it now"
    assert {path.name for path in tmp_path.iterdir()} == {"out.csv", young.name, other.name}
