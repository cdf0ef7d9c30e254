"""``understudy bench aim``: what it refuses, and how it goes on where it stopped."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from understudy.cli.commands.bench import _module, _numbers
from understudy.errors import DataError, UnknownMethod, UsageError, WorkloadError


@pytest.fixture
def quiet() -> list[str]:
    return []


def test_missing_tables_are_a_message_not_a_traceback(tmp_path: Path, quiet: list[str]) -> None:
    with pytest.raises(DataError, match="--data DIR"):
        _module("accuracy.aim").run(
            out=tmp_path / "out", data=tmp_path / "nowhere", quick=True, say=quiet.append
        )
    with pytest.raises(DataError, match="titanic needs"):
        _module("_tables").load("titanic", tmp_path)


def test_the_message_says_where_the_tables_come_from(tmp_path: Path) -> None:
    tables = _module("_tables")
    with pytest.raises(DataError, match="ryan112358/private-pgm"):
        tables.find_data(tmp_path / "no")
    with pytest.raises(DataError, match="ryan112358/private-pgm"):
        tables.load("titanic", tmp_path)


def test_a_quick_run_takes_what_else_is_chosen() -> None:
    """Before, --methods, --epsilons and --seeds were ignored beside --quick without a word."""
    cells = _module("accuracy.aim").wanted_cells
    assert cells(True, None, None, None, None) == _module("accuracy.aim").QUICK
    assert cells(True, ["nltcs"], None, ["aim"], [0.5, 2.0]) == [
        ("nltcs", "all-3way", "aim", 0.5),
        ("nltcs", "all-3way", "aim", 2.0),
    ]
    assert {cell[:1] + cell[2:] for cell in cells(True, None, None, ["mst"], None)} == {
        (table, "mst", 1.0) for table in ("nltcs", "titanic", "adult")
    }
    assert {cell[3] for cell in cells(True, ["fire"], None, None, [3.0])} == {3.0}
    assert len(cells(False, None, None, None, None)) == 6 * 3 * 6 * 3


def test_repetitions_of_a_quick_run_can_be_chosen(
    tmp_path: Path, quiet: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    aim = _module("accuracy.aim")
    asked: list[dict[str, Any]] = []

    def run_all(specs: list[dict[str, Any]], *_: Any, **__: Any) -> list[Any]:
        asked.extend(specs)
        return []

    monkeypatch.setattr(aim, "run_all", run_all)
    monkeypatch.setattr(aim, "markdown", lambda results: "")
    monkeypatch.setattr(aim, "picture", lambda results, title: "")
    for seeds, wanted in ((None, {0}), (2, {0, 1})):
        asked.clear()
        aim.run(out=tmp_path, data=tmp_path, quick=True, seeds=seeds, tables=["nltcs"], say=quiet.append)
        assert {spec["seed"] for spec in asked} == wanted


def test_unknown_words_are_refused_before_anything_runs(tmp_path: Path, quiet: list[str]) -> None:
    aim = _module("accuracy.aim")
    for words in ({"tables": ["titanik"]}, {"workloads": ["all-9way"]}):
        with pytest.raises(WorkloadError, match="does not know"):
            aim.run(out=tmp_path, data=tmp_path, say=quiet.append, **words)
    with pytest.raises(UnknownMethod, match="mst"):
        aim.run(out=tmp_path, data=tmp_path, methods=["mts"], say=quiet.append)
    with pytest.raises(UsageError, match="positive numbers"):
        _numbers("1,x")
    assert _numbers("0.1, 1") == [0.1, 1.0]
    assert not (tmp_path / "results.jsonl").exists()


def spec(seed: int) -> dict[str, object]:
    return {
        "table": "t", "workload": "all-3way", "method": "aim", "epsilon": 1.0, "delta": 1e-9, "seed": seed,
        "options": None, "data": "elsewhere",
    }  # fmt: skip


def outcome(**more: object) -> dict[str, object]:
    good = {"status": "ok", "error": 0.1, "cpu_seconds": 1.0, "seconds": 1.0, "peak_mb": 1.0}
    return good | more


def test_a_second_run_does_only_what_is_missing(tmp_path: Path, quiet: list[str]) -> None:
    runner = _module("accuracy._runner")
    path = tmp_path / "results.jsonl"
    ran: list[int] = []

    def run(cell: dict[str, object], *, timeout: float) -> dict[str, object]:
        ran.append(int(str(cell["seed"])))
        if cell["seed"] == 1:
            return {"status": "timeout", "timeout": timeout}
        return {"status": "failed", "message": "x"} if cell["seed"] == 2 else outcome()

    cells = [spec(seed) for seed in range(3)]
    runner.run_all(cells, path, timeout=5.0, run=run, say=quiet.append)
    runner.run_all(cells, path, timeout=5.0, run=run, say=quiet.append)
    assert ran == [0, 1, 2, 2], "finished and timed-out cells are kept, failed ones repeated"
    runner.run_all(cells[:2], path, timeout=9.0, run=run, say=quiet.append)
    assert ran[4:] == [1], "more time is another chance"


def test_a_line_cut_off_by_an_interruption_costs_no_other_line(tmp_path: Path, quiet: list[str]) -> None:
    runner = _module("accuracy._runner")
    path = tmp_path / "results.jsonl"
    path.write_text('{"table": "t", "cut')
    ran: list[object] = []

    def run(cell: dict[str, object], *, timeout: float) -> dict[str, object]:
        ran.append(cell["seed"])
        return outcome()

    for _ in range(2):
        runner.run_all([spec(0)], path, timeout=5.0, run=run, say=quiet.append)
    assert ran == [0]


def test_a_process_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    runner = _module("accuracy._runner")
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert runner.in_process(slow, timeout=0.5) == {"status": "timeout", "timeout": 0.5}
    broken = runner.in_process([sys.executable, "-c", "raise SystemExit('no such thing')"], timeout=30)
    assert (broken["status"], broken["message"]) == ("failed", "no such thing")
    fine = runner.in_process(
        [sys.executable, "-c", "print('noise'); print('{\"status\": \"ok\"}')"], timeout=30
    )
    assert fine["status"] == "ok"


def test_summary_and_picture_show_every_outcome() -> None:
    summary = _module("accuracy._summary")
    records = [
        spec(0) | outcome(error=0.2, model_error=0.19),
        spec(1) | outcome(error=0.4, model_error=0.21),
        spec(0) | {"method": "mbi-aim", "status": "timeout", "timeout": 60.0},
        spec(0) | {"method": "gaussian", "status": "refused", "message": "too large"},
    ]
    text = summary.markdown(records)
    assert "| aim | 2 | 0.3000 (0.2000 to 0.4000) | 0.2000 |" in text
    assert "did not finish in 60 s" in text
    assert "refused" in text
    svg = summary.picture(records, "Errors")
    assert "<polyline" in svg
    assert "mbi-aim" not in svg
    assert json.dumps(records)


def test_every_benchmark_is_listed_with_what_it_measures() -> None:
    listed = _module("__main__").benchmarks()
    assert {"aim", "ablation", "counting", "noise"} <= set(listed)
    assert all(listed.values())


@pytest.mark.parametrize("name", ["aim", "families", "dips"])
def test_results_as_json_with_the_lines_on_standard_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from understudy.cli.commands import bench

    class Fake:
        @staticmethod
        def run(*, say: Callable[[str], None], out: Path, **_: object) -> list[dict[str, object]]:
            say("[1/1] a line about a cell")
            return [{"table": "t", "error": 0.1}]

    monkeypatch.setattr(bench, "_module", lambda _: Fake)
    getattr(bench, name)(
        out=tmp_path,
        json=True,
        **(
            {"epsilons": "1", "studies": "1", "repetitions": 1, "jobs": 1, "seed": 1}
            if name == "dips"
            else {}
        ),
    )
    told = capsys.readouterr()
    assert json.loads(told.out) == {"out": str(tmp_path), "results": [{"table": "t", "error": 0.1}]}
    assert "[1/1] a line about a cell" in told.err
    getattr(bench, name)(out=tmp_path, **({"studies": "1", "jobs": 1} if name == "dips" else {}))
    assert "[1/1] a line about a cell" in capsys.readouterr().out
