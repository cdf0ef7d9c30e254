"""One table, one ledger: from any folder, under any name, as a copy; and an older copy of a ledger is not used."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import Result, understudy

from understudy.privacy import Ledger

SCHEMA = """
columns:
  - {name: grade, kind: ordinal, values: [a, b, c]}
  - {name: sex, kind: categorical, values: [f, m]}
"""
SPEC = """
name: staff
source: {path: data/staff.csv}
schema: schema.yaml
unit: add-remove
public: {row_count: {epsilon: 1}, expected_rows: 300}
synthesizers: [{method: laplace}]
acceptance: {form: pass-only, epsilon: 1, criteria: [{name: cells, kind: max-marginal-error, threshold: 0.9}]}
selection: {rule: single}
budget: {total: {epsilon: 3}, model: {epsilon: 1}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in a folder of its own, and a working directory elsewhere."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"grade": generator.choice(["a", "b", "c"], 300), "sex": generator.choice(["f", "m"], 300)}
    )
    (tmp_path / "data").mkdir()
    frame.to_csv(tmp_path / "data" / "staff.csv", index=False)
    (tmp_path / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "spec.yaml").write_text(SPEC, encoding="utf-8")
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def synth(
    folder: Path, *more: object, table: object = None, out: str = "here/out.csv", epsilon: float = 1
) -> Result:
    return understudy(
        "synth", table or folder / "data" / "staff.csv", "--schema", folder / "schema.yaml", "--method", "independent",
        "--epsilon", epsilon, "--unit", "add-remove", "--out", folder / out, *more,
    )  # fmt: skip


def refused(result: Result) -> bool:
    return result.code == 3 and "is used on" in result.err


# ------------------------------------------------------------------------------------ one table, one ledger


def test_four_ways_to_a_second_budget_are_closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these spent a whole budget again in version 0.1.0, without a word."""
    assert synth(folder).code == 0
    assert (folder / "data" / "staff.ledger").exists()  # beside the table, not beside the output
    assert refused(synth(folder, out="there/out.csv"))  # another output folder
    monkeypatch.chdir(folder / "there")
    assert refused(
        synth(folder, table=Path("..") / "data" / "staff.csv", out="there/out.csv")
    )  # from elsewhere
    shutil.copy(folder / "data" / "staff.csv", folder / "there" / "renamed.csv")
    copy = synth(folder, table=folder / "there" / "renamed.csv")
    assert refused(copy)  # a renamed copy
    assert "data/staff.ledger: it was used for it, or for a copy of it, before" in copy.err
    released = understudy("release", folder / "spec.yaml", "--out", folder / "bundle")
    assert released.code == 3  # another command, another working directory
    assert [path.name for path in folder.rglob("*.ledger")] == ["staff.ledger"]


def test_a_ledger_that_was_named_is_remembered_and_another_one_needs_consent(folder: Path) -> None:
    named = folder / "there" / "mine.ledger"
    assert synth(folder, "--ledger", named).code == 0
    assert refused(synth(folder))  # found again although it lies elsewhere
    other = synth(folder, "--ledger", folder / "there" / "other.ledger")
    assert other.code == 5
    assert str(named) in other.err
    assert "--another-ledger" in other.err
    assert not (folder / "there" / "other.ledger").exists()
    consented = synth(folder, "--ledger", folder / "there" / "other.ledger", "--another-ledger")
    assert consented.code == 0, consented.err
    with Ledger.open(folder / "there" / "other.ledger") as book, Ledger.open(named) as first:
        assert first.ledger_id in book.entries()[0].purpose
    both = synth(folder)
    assert both.code == 5
    assert "has 2 ledgers" in both.err


def test_a_release_that_failed_while_reading_is_no_way_to_a_second_budget(folder: Path) -> None:
    table, there = folder / "data" / "staff.csv", folder / "there"
    good = table.read_text(encoding="utf-8")

    def release(name: str, *more: object) -> Result:
        return understudy(
            "release",
            folder / "spec.yaml",
            "--ledger",
            there / f"{name}.ledger",
            "--out",
            there / name,
            *more,
        )

    table.write_text(good + "z,f\n", encoding="utf-8")
    assert release("a").code == 4
    table.write_text(good, encoding="utf-8")
    paid = release("b")
    assert paid.code in (0, 1), paid.err  # accepted or not: charged
    with Ledger.open(there / "b.ledger") as book:
        assert book.charged
    again = release("a")
    assert again.code == 5
    assert str(there / "b.ledger") in again.err
    assert not (there / "a").exists()
    with Ledger.open(there / "a.ledger") as book:
        assert not book.charged
    assert release("a", "--another-ledger").code in (0, 1)


def test_a_release_from_one_of_several_ledgers_says_so_everywhere(folder: Path) -> None:
    said = "the table has other ledgers, whose promises add up"
    spec = SPEC.replace("path: data/staff.csv", "path: data/staff.csv, table: staff")
    (folder / "spec.yaml").write_text(spec, encoding="utf-8")
    for name, more in (("first", ()), ("second", ("--another-ledger",))):
        place = folder / "there" / f"{name}.ledger"
        done = understudy(
            "release", folder / "spec.yaml", "--ledger", place, "--out", folder / name, "--restart", *more
        )
        assert done.code == 0, done.err
    before, after = (
        json.loads((folder / name / "certificate.json").read_text()) for name in ("first", "second")
    )
    with Ledger.open(folder / "there" / "first.ledger") as book:
        earlier = book.ledger_id
    assert before["guarantee"]["other_ledgers"] == []
    assert after["guarantee"]["other_ledgers"] == [earlier]
    assert said not in before["guarantee"]["words"]
    assert said in after["guarantee"]["words"]
    for name, expected in (("first", False), ("second", True)):
        bundle = folder / name
        texts = [item.read_text(encoding="utf-8") for item in bundle.rglob("*.html")]
        assert any(said in text for text in texts) is expected
        report = (bundle / "report.html").read_text(encoding="utf-8")
        assert (
            f"epsilon=3 from this ledger; {said}" in report or f"ε = 3 from this ledger; {said}" in report
        ) is expected
        checked = understudy("verify", bundle)
        assert checked.code == 0, checked.err
        assert (said in checked.out + checked.err) is expected
    listed = understudy("register", folder / "there", "--json")
    assert all(len(row["other_ledgers"]) == 1 for row in json.loads(listed.out)["ledgers"]), (
        "each of the other"
    )
    shown = understudy("register", folder / "there")
    assert (shown.out + shown.err).count(said) == 2


@pytest.mark.parametrize("command", ["synth", "discover"])
def test_work_that_was_stopped_before_its_first_charge_is_no_way_to_a_second_budget(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    charge = Ledger.charge

    def stopped(ledger: Ledger, *given: object, **named: object) -> object:
        if ledger.path is None:  # what it would cost is tried in memory first
            return charge(ledger, *given, **named)
        raise KeyboardInterrupt

    def work(ledger: Path) -> Result:
        if command == "synth":
            return synth(folder, "--ledger", ledger)
        return understudy(
            "discover", folder / "data" / "staff.csv", "--epsilon", 1, "--delta", 1e-6, "--unit", "add-remove", "--ledger", ledger,
            "--out", folder / "here" / "learnt.yaml",
        )  # fmt: skip

    one, two = folder / "there" / "one.ledger", folder / "there" / "two.ledger"
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "charge", stopped)
        interrupted = work(one)
    assert interrupted.code != 0
    assert one.exists(), interrupted.err
    paid = synth(folder, "--ledger", two, out="here/paid.csv")
    assert paid.code == 0, paid.err
    again = work(one)
    assert again.code == 5, again.err
    assert str(two) in again.err
    with Ledger.open(one) as book:
        assert not book.charged


def test_a_table_that_grew_keeps_its_ledger_and_a_copy_of_either_state_finds_it(folder: Path) -> None:
    table = folder / "data" / "staff.csv"
    assert synth(folder).code == 0
    shutil.copy(table, folder / "there" / "before.csv")
    with table.open("a", encoding="utf-8") as stream:
        stream.write("a,f\n")
    assert refused(synth(folder))
    shutil.copy(table, folder / "there" / "after.csv")
    for name in ("before.csv", "after.csv"):
        assert refused(synth(folder, table=folder / "there" / name)), name


def test_a_ledger_may_move_with_its_table_and_is_missed_when_it_is_gone(folder: Path) -> None:
    assert synth(folder).code == 0
    (folder / "data").rename(folder / "moved")
    assert refused(synth(folder, table=folder / "moved" / "staff.csv"))
    (folder / "moved" / "staff.ledger").rename(folder / "there" / "x.ledger")
    gone = synth(folder, table=folder / "moved" / "staff.csv")
    assert gone.code == 5
    assert "not there any more" in gone.err
    found = synth(folder, "--ledger", folder / "there" / "x.ledger", table=folder / "moved" / "staff.csv")
    assert refused(found)
    assert refused(synth(folder, table=folder / "moved" / "staff.csv"))  # its new place is remembered


def test_a_ledger_that_never_paid_for_anything_can_be_removed(folder: Path) -> None:
    broken = (folder / "schema.yaml").read_text().replace("values: [f, m]", "values: [x, y]")
    good = (folder / "schema.yaml").read_text()
    created = understudy(
        "ledger", "create", folder / "data" / "staff.ledger", "--table-name", "staff.csv", "--unit", "add-remove",
        "--epsilon", 1,
    )  # fmt: skip
    assert created.code == 0, created.err
    (folder / "schema.yaml").write_text(broken)
    assert synth(folder).code == 4
    (folder / "schema.yaml").write_text(good)
    (folder / "data" / "staff.ledger").unlink()
    assert synth(folder).code == 0


def test_ledgers_of_version_0_1_0_beside_the_output_are_used(folder: Path) -> None:
    place = folder / "here" / "staff.ledger"
    created = understudy(
        "ledger", "create", place, "--table-name", "staff.csv", "--unit", "add-remove", "--epsilon", 1
    )
    assert created.code == 0, created.err
    result = synth(folder)
    assert result.code == 0, result.err
    assert "where version 0.1.0 kept it" in result.err
    assert not (folder / "data" / "staff.ledger").exists()
    assert refused(synth(folder, out="there/out.csv"))


def test_a_database_has_its_ledger_in_the_folder_of_the_user(folder: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("ibis")
    file = folder / "data" / "registry.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"CREATE TABLE staff AS SELECT * FROM '{folder}/data/staff.csv'")
    first = synth(folder, "--table", "staff", "--json", table=f"duckdb://{file}")
    assert first.code == 0, first.err
    ledger = Path(json.loads(first.out)["ledger"])
    assert ledger.parent == Path(os.environ["UNDERSTUDY_HOME"]) / "ledgers"
    for address, table in ((file, "staff"), (f"duckdb:///{file}?threads=1", "main.staff")):
        again = synth(folder, "--table", table, "--table-name", "staff", table=address, out="there/out.csv")
        assert refused(again), again.err


def test_the_table_is_nowhere_in_clear(folder: Path) -> None:
    assert synth(folder).code == 0
    record = Path(os.environ["UNDERSTUDY_HOME"]) / "tables.sqlite"
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    content = record.read_bytes()
    import hashlib

    plain = (folder / "data" / "staff.csv").read_bytes()
    for kind in ("sha256", "blake2b", "md5"):
        digest = hashlib.new(kind, plain).digest()
        assert digest not in content
        assert digest.hex().encode() not in content
        assert digest not in (folder / "data" / "staff.ledger").read_bytes()


HARDENED = """
import os, sys
os.environ.pop("UNDERSTUDY_HOME", None); os.environ.pop("XDG_STATE_HOME", None)
os.environ["HOME"] = "/proc/nowhere"
from understudy.cli.main import run
sys.argv = ["understudy", *sys.argv[1:]]
run()
"""


def hardened(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the command line where no folder of the user can be made."""
    command = [sys.executable, "-c", HARDENED, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_without_a_folder_of_the_user_the_ledger_lies_beside_the_table_and_the_loss_is_told(
    folder: Path,
) -> None:
    words = (
        "synth", folder / "data" / "staff.csv", "--schema", folder / "schema.yaml", "--method", "independent",
        "--epsilon", 1, "--unit", "add-remove", "--out", folder / "here" / "out.csv",
    )  # fmt: skip
    done = hardened(*words)
    assert done.returncode == 0, done.stderr
    assert "copies of this table cannot be recognised" in done.stderr
    assert (folder / "data" / "staff.ledger").exists()
    assert hardened(*words).returncode == 3
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("ibis")
    with duckdb.connect(str(folder / "registry.duckdb")) as connection:
        connection.execute(f"CREATE TABLE staff AS SELECT * FROM '{folder}/data/staff.csv'")
    nowhere = hardened("synth", f"duckdb://{folder}/registry.duckdb", "--table", "staff", *words[2:])
    assert nowhere.returncode == 5
    assert "Name one with --ledger" in nowhere.stderr


# --------------------------------------------------------------------------------------------- rollbacks


def test_synth_refuses_a_ledger_that_was_rolled_back(folder: Path) -> None:
    """By the record in the folder of the user alone: nothing else is left beside it."""
    ledger = folder / "data" / "staff.ledger"
    understudy(
        "ledger", "create", ledger, "--table-name", "staff.csv", "--unit", "add-remove", "--epsilon", 2
    )
    assert synth(folder).code == 0
    shutil.copy(ledger, folder / "older")
    assert synth(folder, out="there/out.csv").code == 0
    shutil.copy(folder / "older", ledger)
    result = synth(folder)
    assert result.code == 5
    assert "was rolled back" in result.err
    assert "Put the newer file back" in result.err
    assert understudy("ledger", "verify", ledger).code == 0  # by itself it is a perfect chain


@pytest.mark.parametrize("evidence", ["model", "bundle"])
def test_what_lies_beside_shows_a_rollback_even_to_another_user(
    folder: Path, evidence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 10: the ledger of before was put back, and the release and the model know a later head."""
    ledger, out = folder / "data" / "staff.ledger", folder / "here"
    understudy(
        "ledger", "create", ledger, "--table-name", "staff.csv", "--unit", "add-remove", "--epsilon", 20
    )
    shutil.copy(ledger, folder / "older")
    if evidence == "model":
        assert synth(folder, "--model", out / "m.understudy").code == 0
        kept = out / "m.understudy"
    else:
        assert understudy("release", folder / "spec.yaml", "--out", out / "bundle").code == 0
        kept = out / "bundle"
    monkeypatch.setenv("UNDERSTUDY_HOME", str(folder / "another user"))
    assert understudy("ledger", "verify", ledger, "--against", kept).code == 0
    newer = ledger.read_bytes()
    shutil.copy(folder / "older", ledger)
    against = understudy("ledger", "verify", ledger, "--against", kept)
    assert against.code == 5
    assert "was rolled back" in against.err
    again = synth(folder, out="here/more.csv")
    assert again.code == 5, again.out
    assert str(kept) in again.err
    restart = understudy("release", folder / "spec.yaml", "--restart", "--out", out / "next")
    assert restart.code == 5, restart.out
    assert not (out / "next").exists()
    with Ledger.open(ledger) as book:
        assert book.spent == 0
    ledger.write_bytes(newer)
    assert synth(folder, out="here/more.csv").code == 0


def test_anchors_are_written_once_and_find_rollbacks_and_strangers(folder: Path) -> None:
    assert synth(folder).code == 0
    ledger, anchor = folder / "data" / "staff.ledger", folder / "here" / "a.anchor"
    assert understudy("ledger", "anchor", ledger, "--out", anchor).code == 0
    assert understudy("ledger", "anchor", ledger, "--out", anchor).code == 6
    result = json.loads(understudy("ledger", "verify", ledger, "--against", anchor, "--json").out)
    assert result["verified"] is True
    assert result["against"][0]["length"] == result["entries"]
    other = folder / "there" / "o.ledger"
    understudy("ledger", "create", other, "--table-name", "o", "--unit", "add-remove", "--epsilon", 1)
    stranger = understudy("ledger", "verify", other, "--against", anchor)
    assert stranger.code == 5
    assert "another ledger" in stranger.err
    assert understudy("ledger", "verify", ledger, "--against", folder / "schema.yaml").code == 5


# ------------------------------------------------------------------------------- totals, modes and first runs


def test_a_total_can_be_changed_before_the_first_charge_and_the_refusal_says_how(folder: Path) -> None:
    ledger = folder / "data" / "staff.ledger"
    understudy(
        "ledger", "create", ledger, "--table-name", "staff.csv", "--unit", "add-remove", "--epsilon", 1
    )
    result = synth(folder, epsilon=2)
    assert result.code == 5
    command = result.err[result.err.index("understudy ledger total") :].split("\n")[0].split()
    assert command[:4] == ["understudy", "ledger", "total", str(ledger)]
    assert understudy(*command[1:]).code == 0
    assert synth(folder, epsilon=2).code == 0
    silent = understudy("ledger", "total", ledger, "--epsilon", 3)
    assert silent.code == 2
    assert "--by" in silent.err
    assert "--why" in silent.err
    words = ("--by", "the data protection officer", "--why", "a second wave")
    assert understudy("ledger", "total", ledger, "--epsilon", 1, *words).code == 5
    assert understudy("ledger", "total", ledger, "--epsilon", 3, *words).code == 0
    assert synth(folder).code == 0
    shown = understudy("ledger", "show", ledger)
    assert "decided by the data protection officer: a second wave" in shown.out
    assert [
        entry["kind"] for entry in json.loads(understudy("ledger", "show", ledger, "--json").out)["entries"]
    ].count("total") == 2
    assert understudy("ledger", "verify", ledger).code == 0


def test_a_total_that_was_only_the_budget_of_a_first_use_follows_the_next_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 7: a run that stopped after making the ledger fixed its total for good."""
    with monkeypatch.context() as patch:
        patch.setattr("understudy.mechanisms.base.Synthesizer.fit", _stop)
        assert synth(folder, epsilon=10).code != 0
    with Ledger.open(folder / "data" / "staff.ledger") as book:
        assert book.budget.epsilon == 10
        assert book.spent == 0
    assert synth(folder, epsilon=2).code == 0
    with Ledger.open(folder / "data" / "staff.ledger") as book:
        assert book.budget.epsilon == 2
        book.verify()


def _stop(*args: object, **words: object) -> None:
    raise KeyboardInterrupt


def test_ledgers_are_for_their_owner_alone_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        assert synth(folder).code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "data" / "staff.ledger").stat().st_mode) == 0o600


def test_two_first_runs_at_once_share_the_ledger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loser of the race was told that the ledger already exists. Here a rival makes it at the worst moment."""
    create = Ledger.create.__func__  # type: ignore[attr-defined]

    def slow(cls: type[Ledger], path: Path, **words: object) -> Ledger:
        create(cls, path, **words).close()
        return create(cls, path, **words)

    monkeypatch.setattr(Ledger, "create", classmethod(slow))
    result = synth(folder)
    assert result.code == 0, result.err
    with Ledger.open(folder / "data" / "staff.ledger") as book:
        assert book.spent == pytest.approx(1.0)
        book.verify()
