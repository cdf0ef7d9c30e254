"""What the commands do, from Python: the ledger is found, an interrupted fit goes on, what was paid for is not lost."""

from __future__ import annotations

import inspect
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import understudy.workflow
from understudy import datasets, publish, synthesize
from understudy.cli.main import app, prepare
from understudy.curator import Journal
from understudy.data import Database
from understudy.errors import (
    BudgetError,
    BudgetExceeded,
    LedgerError,
    LedgerMismatch,
    OutputError,
    UsageError,
    WorkloadError,
)
from understudy.mechanisms import Model, Synthesizer
from understudy.mechanisms.marginal.independent import Independent
from understudy.privacy import Budget, Ledger, PureDP, Unit
from understudy.privacy.invariants import Consent
from understudy.release.result import ReleaseFailure, ReleaseResult
from understudy.release.spec.spec import Spec
from understudy.workflow import Delivery, Fit, Payment, mechanism_for, plan_publication, plan_synthesis

FRAME, SCHEMA = datasets.load("toy", 400, seed=1)


class Stopped(BaseException):
    """Stands for a process that is killed."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "stays.csv"
    FRAME.to_csv(path, index=False)
    return path


def made(table: Any, **changes: Any) -> understudy.workflow.Synthesis:
    given: dict[str, Any] = {"schema": SCHEMA, "unit": "add-remove", "method": "independent", "epsilon": 1.0}
    return synthesize(table, **(given | changes))


def charges(path: Path) -> int:
    with Ledger.open(path) as book:
        return sum(entry.event is not None for entry in book.entries())


def states(folder: Path) -> list[Path]:
    return list(folder.glob("*.state"))


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process end when the second answer has been journalled."""
    keep, kept = Journal.keep, 0

    def around(journal: Journal, *given: Any, **rest: Any) -> None:
        nonlocal kept
        keep(journal, *given, **rest)
        kept += 1
        if kept == 2:
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "keep", around)
        yield


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(28, "No space left on device")


# ------------------------------------------------------------------------------------ one fit


def test_a_frame_in_a_frame_out() -> None:
    result = made(FRAME, rows=30, seed=1)
    assert result.frame is not None
    assert list(result.frame.columns) == list(SCHEMA.names)
    assert result.rows == len(result.frame) == 30
    assert not result.written
    assert "epsilon=1" in result.guarantee
    assert result.ledger is not None
    assert result.new_ledger
    assert result.model.sample(30, seed=1).equals(result.frame)
    with pytest.raises(BudgetExceeded):  # the frame is known by its content
        made(FRAME.sample(frac=1.0, random_state=0))


def test_the_word_memory_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = made(FRAME, rows=30, seed=1, ledger="memory")
    assert result.ledger is None
    assert list(tmp_path.iterdir()) == []
    made(FRAME, rows=30, seed=1, ledger="memory")  # nothing is remembered


def test_files_are_written_beside_the_ledger_that_the_command_uses(table: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.yaml"
    SCHEMA.write(schema)
    result = made(
        table, schema=schema, out=tmp_path / "out.csv", model=tmp_path / "m.understudy", rows=20, seed=3
    )
    assert result.written == (tmp_path / "out.csv",)
    assert result.ledger == tmp_path / "stays.ledger"
    assert len(pd.read_csv(tmp_path / "out.csv")) == 20
    assert Model.load(tmp_path / "m.understudy").sample(5, seed=1).equals(result.model.sample(5, seed=1))
    assert not states(tmp_path)
    prepare()
    words = ["synth", str(table), "--schema", str(schema), "--method", "independent", "--epsilon", "1"]
    with pytest.raises(BudgetExceeded):
        app([*words, "--unit", "add-remove", "--out", str(tmp_path / "b.csv")], standalone_mode=False)


def test_an_interrupted_call_goes_on_and_repeats_its_answers(
    table: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    wanted: dict[str, Any] = {"method": "mst", "delta": 1e-6, "out": tmp_path / "out.csv"}
    whole = tmp_path / "whole"
    whole.mkdir()
    other = shutil.copy(table, whole / "other.csv")
    ledger = Ledger.in_memory(
        budget=Budget.of(epsilon=1.0, delta=1e-6), unit=Unit.add_remove(), table="other"
    )
    made(other, ledger=ledger, **wanted | {"out": None})
    undisturbed = sum(entry.event is not None for entry in ledger.entries())
    request.getfixturevalue("stopping")
    with pytest.raises(Stopped):
        made(table, **wanted)
    assert charges(tmp_path / "stays.ledger") == 2 < undisturbed
    assert len(states(tmp_path)) == 1
    assert not (tmp_path / "out.csv").exists()
    result = made(table, **wanted)
    assert result.repeated == 2
    assert charges(tmp_path / "stays.ledger") == undisturbed
    assert (tmp_path / "out.csv").exists()
    assert not states(tmp_path)


@pytest.mark.usefixtures("stopping")
def test_another_call_is_refused_until_somebody_says_what_to_do_about_the_interrupted_one(
    table: Path, tmp_path: Path
) -> None:
    total = Budget.of(epsilon=20.0, delta=1e-5)
    Ledger.create(tmp_path / "stays.ledger", budget=total, unit=Unit.add_remove(), table="stays.csv").close()
    with pytest.raises(Stopped):
        made(table, method="mst", delta=1e-6)
    with pytest.raises(LedgerError, match="unfinished='keep'"):
        made(table, delta=1e-6)
    made(table, delta=1e-6, unfinished="keep")
    assert len(states(tmp_path)) == 1
    made(table, delta=1e-6, unfinished="drop")
    assert not states(tmp_path)


def test_a_failed_write_leaves_the_model_and_says_where(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("understudy.workflow.delivery.write_frame", refuse)
        with pytest.raises(OutputError, match="already paid for") as error:
            made(table, out=tmp_path / "out.csv")
    found = re.search(r"is kept in (\S+) and taken up by the same", str(error.value))
    assert found is not None
    kept = Path(found[1])
    assert kept.is_relative_to(tmp_path)
    saved = Model.load(kept).sample(10, seed=1)
    before = charges(tmp_path / "stays.ledger")
    result = made(table, out=tmp_path / "out.csv")
    assert charges(tmp_path / "stays.ledger") == before
    assert result.model.sample(10, seed=1).equals(saved)
    assert not kept.exists()
    with pytest.raises(BudgetExceeded):  # now it was delivered
        made(table, out=tmp_path / "out.csv")


def test_with_a_ledger_in_memory_the_model_is_rescued_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="t")
    monkeypatch.setattr("understudy.workflow.delivery.write_frame", refuse)
    with pytest.raises(OutputError, match="already paid for") as error:
        made(FRAME, ledger=ledger, out=tmp_path / "out.csv")
    found = re.search(r"is kept in (\S+) and", str(error.value))
    assert found is not None
    assert Model.load(Path(found[1])).schema == SCHEMA


def test_outputs_never_replace_what_is_read(table: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.csv"
    SCHEMA.write(tmp_path / "schema.yaml")
    shutil.move(tmp_path / "schema.yaml", schema)
    before = table.read_bytes()
    for changes, words in (
        ({"out": table}, "replace the table"),
        ({"out": tmp_path / "out.csv", "model": table}, "replace the table"),
        ({"out": tmp_path / "out.csv", "model": tmp_path / "out.csv"}, "would be one file"),
        ({"out": tmp_path / "out.csv", "ledger": tmp_path / "out.csv"}, "would be one file"),
        ({"out": tmp_path / "out.xlsx"}, "does not say how"),
        ({"out": tmp_path / "no" / "out.csv"}, "does not exist"),
    ):
        with pytest.raises(OutputError, match=words):
            made(table, **changes)
    assert table.read_bytes() == before
    assert not list(tmp_path.glob("*.ledger"))


def test_no_output_replaces_a_part_of_the_table_or_its_database(tmp_path: Path) -> None:
    parts = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for part in parts:
        FRAME.to_parquet(part)
    with pytest.raises(OutputError, match="replace the part 2 of the table"):
        made(parts, out=parts[1])
    place = tmp_path / "t.csv"  # the name of an output, and of a database all the same
    for url in (f"duckdb:///{place}", str(place.with_suffix(".duckdb"))):
        file = Path(url.removeprefix("duckdb:///"))
        file.touch()
        source = Database(url=url, table="stays")
        with pytest.raises(OutputError, match="replace the database"):
            made(source, out=place, model=None if file == place else file)


def test_nothing_that_can_be_printed_shows_a_record() -> None:
    fit = Fit(
        table=pd.DataFrame({"name": ["zzcanaryzz"]}),
        schema=SCHEMA,
        synthesizer=Independent(),
        unit=Unit.add_remove(),
        budget=PureDP(1.0),
    )
    assert "zzcanaryzz" not in repr(fit)
    assert "zzcanaryzz" not in repr(plan_synthesis(fit, payment=Payment(ledger="memory")))
    planned = plan_publication(
        Spec.parse(SPEC), source=fit.table, payment=Payment(ledger=Path("t.ledger")), out=Path("none")
    )
    assert "zzcanaryzz" not in repr(planned)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"epsilon": None}, BudgetError, "exactly one budget; got none"),
        ({"rho": 1.0}, BudgetError, "exactly one budget; got epsilon and rho"),
        ({"unit": "person"}, BudgetError, "must be add-remove or replace-one"),
        ({"workload": "all-2way"}, WorkloadError, "does not take a workload; leave workload out"),
        ({"unfinished": "perhaps"}, BudgetError, "refuse, keep or drop"),
    ],
)
def test_refusals_spend_nothing(
    table: Path, tmp_path: Path, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        made(table, **changes)
    if (tmp_path / "stays.ledger").exists():
        assert not charges(tmp_path / "stays.ledger")


def test_other_facts_need_the_consent_of_the_owner_before_the_table_is_read(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.create(
        tmp_path / "stays.ledger", budget=PureDP(5.0), unit=Unit.add_remove(), table="stays.csv"
    ).close()
    made(table)
    smaller = type(SCHEMA)(columns=SCHEMA.columns[:2])
    with monkeypatch.context() as patch:
        patch.setattr(
            "understudy.workflow.synthesis.running.read_table",
            lambda *_, **__: pytest.fail("a record was read"),
        )
        with pytest.raises(LedgerMismatch):
            made(table, schema=smaller)
    assert made(table, schema=smaller, consent=Consent(facts=True, by="owner")).rows


def test_a_ledger_that_is_handed_over_is_asked_before_the_table_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = Ledger.in_memory(budget=PureDP(5.0), unit=Unit.add_remove(), table="t")
    made(FRAME, ledger=ledger)
    monkeypatch.setattr(
        "understudy.workflow.synthesis.running.read_table", lambda *_, **__: pytest.fail("a record was read")
    )
    with pytest.raises(LedgerMismatch):
        made(FRAME, ledger=ledger, schema=type(SCHEMA)(columns=SCHEMA.columns[:2]))


def test_two_frames_never_share_a_ledger(tmp_path: Path) -> None:
    """Both are called 'table'; a ledger of that name beside the output belongs to neither."""
    stray = tmp_path / "table.ledger"
    Ledger.create(stray, budget=PureDP(9.0), unit=Unit.add_remove(), table="table").close()
    one = made(FRAME, out=tmp_path / "one.csv")
    other = made(FRAME.iloc[:-1], out=tmp_path / "other.csv")
    assert len({one.ledger, other.ledger, stray}) == 3
    assert not charges(stray)


def test_what_a_person_should_know_is_logged(
    table: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made(table)
    copy = shutil.copy(table, tmp_path / "copy.csv")
    with caplog.at_level(logging.WARNING, logger="understudy.workflow"), pytest.raises(BudgetExceeded):
        made(copy)
    assert "it was used for it, or for a copy of it, before" in caplog.text


def test_a_plan_is_made_once_and_once_more_by_the_fit_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    plan = Independent.plan

    def counted(self: Independent, schema: Any, **rest: Any) -> Any:
        if schema == SCHEMA:  # not the made-up tables of the trial
            calls.append(inspect.stack()[1].function)
        return plan(self, schema, **rest)

    monkeypatch.setattr(Independent, "plan", counted)
    made(FRAME)
    assert calls.count("plan_synthesis") == 1
    assert calls.count("prepare") == 1  # by the fit, which must not trust its caller
    assert len(calls) == 2, calls


def test_a_plan_that_is_handed_over_does_not_replace_the_check_of_memory_and_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Synthesizer] = []
    monkeypatch.setattr("understudy.mechanisms.base.try_out", lambda method, *_: tried.append(method))
    method, budget = Independent(), PureDP(1.0)
    plan = method.plan(SCHEMA, unit=Unit.add_remove(), budget=budget)
    assert method.prepare(SCHEMA, unit=Unit.add_remove(), budget=budget, plan=plan) is plan
    assert tried == [method]


def test_sets_and_folders_are_there_for_programs_too(table: Path, tmp_path: Path) -> None:
    fit = Fit(
        table=table,
        schema=SCHEMA,
        synthesizer=mechanism_for("independent", SCHEMA),
        unit=Unit.of("add-remove"),
        budget=PureDP(1.0),
    )

    def ledger() -> Payment:
        return Payment(ledger="memory")

    sets = Delivery(
        out=str(tmp_path / "s.csv"), model=tmp_path / "m.understudy", sets=2, how="independent", rows=7
    )
    result = plan_synthesis(fit, payment=ledger(), delivery=sets).run()
    assert [path.name for path in result.written] == ["s-1.csv", "s-2.csv"]
    assert all(path.exists() for path in (*result.written, *sets.models()))
    assert result.many is not None
    assert result.many.sets == 2
    assert result.rows == 7
    parts = Delivery(out=f"{tmp_path}/rows.parquet/", rows=50, chunk_rows=20, seed=1)
    folder = plan_synthesis(fit, payment=ledger(), delivery=parts).run()
    assert folder.parts is not None
    assert folder.parts.rows == folder.rows == 50
    assert len(pd.read_parquet(tmp_path / "rows.parquet")) == 50
    for wrong, error, words in (
        (Delivery(out=str(tmp_path / "a.csv"), chunk_rows=5), UsageError, "folder of parts"),
        (Delivery(out=f"{tmp_path}/b.parquet/", sets=2, how="independent"), UsageError, "files, not folders"),
        (parts, OutputError, "exists already"),
    ):
        with pytest.raises(error, match=words):
            plan_synthesis(fit, payment=ledger(), delivery=wrong)


# ------------------------------------------------------------------------------------ one release

SPEC = """
name: tiny
source: {table: habits}
schema: {columns: [{name: smokes, kind: boolean}, {name: exercises, kind: boolean}]}
unit: replace-one
synthesizers: [{method: gaussian, options: {workload: all-2way}}]
acceptance: {form: pass-only, epsilon: 0.5, criteria: [{name: cells, kind: max-marginal-error, threshold: 0.2}]}
selection: {rule: single}
budget: {total: {epsilon: 1.5}, model: {epsilon: 1}}
seed: 1
"""
HABITS = pd.DataFrame({"smokes": [True, False] * 1000, "exercises": [True, True, False, False] * 500})


def published(tmp_path: Path, **changes: Any) -> understudy.workflow.Publication:
    given: dict[str, Any] = {
        "source": HABITS,
        "out": tmp_path / "bundle",
        "ledger": tmp_path / "habits.ledger",
    }
    return publish(Spec.parse(SPEC), **(given | changes))


def test_a_release_is_published_once(tmp_path: Path) -> None:
    first = published(tmp_path)
    assert isinstance(first.outcome, ReleaseResult)
    assert first.accepted
    assert (tmp_path / "bundle" / "certificate.json").exists()
    before = charges(tmp_path / "habits.ledger")
    again = published(tmp_path)
    assert again.outcome is None
    assert again.accepted
    assert again.folder == tmp_path / "bundle"
    assert charges(tmp_path / "habits.ledger") == before
    with pytest.raises(BudgetExceeded):
        published(tmp_path, out=tmp_path / "other", restart=True)


def test_a_bundle_that_could_not_be_written_is_written_later_at_no_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("understudy.release.bundle.bundle.write_bundle", refuse)
        with pytest.raises(OSError, match="No space"):
            published(tmp_path)
    before = charges(tmp_path / "habits.ledger")
    later = published(tmp_path)
    assert later.accepted
    assert later.decided_before
    assert charges(tmp_path / "habits.ledger") == before


@pytest.mark.usefixtures("stopping")
def test_an_interrupted_release_goes_on(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        published(tmp_path)
    before = charges(tmp_path / "habits.ledger")
    assert before
    done = published(tmp_path)
    assert done.outcome is not None
    assert not done.decided_before
    assert charges(tmp_path / "habits.ledger") == before


def test_a_release_that_is_not_accepted_leaves_no_folder(tmp_path: Path) -> None:
    hopeless = Spec.parse(SPEC.replace("threshold: 0.2", "threshold: 0.000001"))
    done = publish(hopeless, source=HABITS, out=tmp_path / "bundle", ledger=tmp_path / "h.ledger")
    assert isinstance(done.outcome, ReleaseFailure)
    assert not done.accepted
    assert not (tmp_path / "bundle").exists()


def test_a_specification_file_and_a_table_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    HABITS.to_csv("habits.csv", index=False)
    Path("spec.yaml").write_text(SPEC, encoding="utf-8")
    done = publish("spec.yaml", source="habits.csv")
    assert done.folder == Path("tiny-release")
    assert done.folder.exists()
    assert done.ledger == tmp_path / "habits.ledger"
    with pytest.raises(OutputError, match="exists already"):
        publish(
            Spec.parse(SPEC.replace("name: tiny", "name: other")), source="habits.csv", out="tiny-release"
        )


def test_a_folder_that_the_next_process_takes_over_is_left_to_it(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the removal of the lock and that of the folder another process has put its own lock there."""
    remove, taken = Path.unlink, []

    def unlink(self: Path, missing_ok: bool = False) -> None:
        remove(self, missing_ok=missing_ok)
        if self.name == "lock":
            self.touch()
            taken.append(self)

    monkeypatch.setattr(Path, "unlink", unlink)
    made(table)
    assert taken
    assert all(lock.exists() for lock in taken)
