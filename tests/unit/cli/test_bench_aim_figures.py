"""The figures of paper AIM: what is run and what is not, what is kept of it, and what the tables say."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import pytest

from understudy.cli.commands.bench import _module

Record = dict[str, Any]


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, list[Record], dict[str, Record]]:
    """A grid of two tables, three budgets and two seeds whose runs answer from a list; slow ones do not finish."""
    module = _module("accuracy.aim_figures")
    ran: list[Record] = []
    answers: dict[str, Record] = {}
    good = {"status": "ok", "error": 0.5, "cpu_seconds": 1.0, "seconds": 2.0, "peak_mb": 1.0}

    def forked(work: object, spec: Record, *, wall: float) -> Record:
        ran.append(spec)
        return dict(answers.get(f"{spec['table']} {spec['method']} {spec['epsilon']:g}", good))

    monkeypatch.setattr(module, "run_forked", forked)
    monkeypatch.setattr(module, "warm", lambda spec: None)
    tables = ("one", "two")
    forms = {"aim": ("aim", None), "mst": ("mst", None)}
    figure = module.Figure("t", forms, ((tables, (1.0, 10.0)), (tables, (100.0,))), ("w",), 2)
    return module, figure, ran, answers


def test_one_seed_of_everything_comes_before_the_second(grid: Any, tmp_path: Path) -> None:
    module, figure, ran, _ = grid
    module.run(figure, out=tmp_path, data=tmp_path, cpu=9.0, say=lambda _: None)
    assert [spec["seed"] for spec in ran] == [0] * 12 + [1] * 12
    assert [spec["epsilon"] for spec in ran[:12]] == [1.0] * 4 + [10.0] * 4 + [100.0] * 4
    again = len(ran)
    module.run(figure, out=tmp_path, data=tmp_path, cpu=9.0, say=lambda _: None)
    assert len(ran) == again, "what is in the store is not run again"


def test_a_killed_run_goes_on_where_it_stopped(grid: Any, tmp_path: Path) -> None:
    module, figure, ran, _ = grid
    path = tmp_path / "results.jsonl"
    module.run(figure, out=tmp_path, data=tmp_path, cpu=9.0, say=lambda _: None)
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines()[:5]) + '{"table": "o')
    ran.clear()
    module.run(figure, out=tmp_path, data=tmp_path, cpu=9.0, say=lambda _: None)
    assert len(ran) == 24 - 5
    module.run(figure, out=tmp_path, data=tmp_path, cpu=9.0, say=lambda _: None)
    assert len(ran) == 24 - 5


def test_an_empty_store_goes_on_from_the_kept_data(grid: Any, tmp_path: Path) -> None:
    module, figure, ran, answers = grid
    answers["two aim 10"] = {"status": "timeout", "timeout": 9.0}
    store = module.run(figure, out=tmp_path / "a", data=tmp_path, cpu=9.0, say=lambda _: None)
    module.write_data(module.outcomes(figure, store, tmp_path, 9.0), tmp_path, "t")
    ran.clear()
    again = module.Store(tmp_path / "b" / "results.jsonl")
    assert module.recall(figure, again, tmp_path, 9.0, tmp_path / "t.csv") == len(store.known)
    found = module.run(figure, out=tmp_path / "b", data=tmp_path, cpu=9.0, say=lambda _: None)
    assert not ran
    assert module.outcomes(figure, found, tmp_path, 9.0)[0]["error"] == 0.5
    assert module.recall(figure, found, tmp_path, 9.0, tmp_path / "t.csv") == 0, "what was run here counts"


def test_what_cannot_finish_is_tried_once_and_said(grid: Any, tmp_path: Path) -> None:
    module, figure, ran, answers = grid
    answers["two aim 10"] = {"status": "timeout", "timeout": 9.0}
    answers["one mst 1"] = {"status": "refused", "message": "too large. Use less."}
    store = module.run(figure, out=tmp_path, data=tmp_path, cpu=9.0, say=lambda _: None)
    tried = [(spec["table"], spec["method"], spec["epsilon"], spec["seed"]) for spec in ran]
    assert ("two", "aim", 10.0, 0) in tried
    assert ("two", "aim", 100.0, 0) not in tried, "a larger budget takes longer"
    assert ("two", "aim", 10.0, 1) not in tried
    assert ("two", "aim", 1.0, 1) in tried
    assert ("one", "mst", 1.0, 1) not in tried, "one refusal is enough"
    records = module.outcomes(figure, store, tmp_path, 9.0)
    pages = _module("accuracy._aim_pages")
    pages.write_data(records, tmp_path, "t")
    with (tmp_path / "t.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    told = {(row["table"], row["method"], row["epsilon"], row["seed"]): row["outcome"] for row in rows}
    assert told["two", "aim", "10", "0"] == "did not finish in 9 s"
    assert told["two", "aim", "100", "0"] == "not tried: did not finish in 9 s at epsilon 10"
    assert told["one", "mst", "1", "0"] == "refused: too large"
    assert told["one", "aim", "1", "1"] == "ok"
    ran.clear()
    module.run(figure, out=tmp_path, data=tmp_path, cpu=20.0, say=lambda _: None)
    assert ("two", "aim", 10.0, 0) in [(s["table"], s["method"], s["epsilon"], s["seed"]) for s in ran]


def test_a_run_that_the_clock_cut_off_is_not_kept(grid: Any, tmp_path: Path) -> None:
    module, figure, ran, answers = grid
    answers["one aim 1"] = {"status": "stopped", "message": "ended"}
    store = module.run(figure, out=tmp_path, data=tmp_path, cpu=9.0, until=100.0, say=lambda _: None)
    assert not [record for record in store.known.values() if record["status"] == "stopped"]
    ran.clear()
    module.run(figure, out=tmp_path, data=tmp_path, cpu=9.0, until=0.0, say=lambda _: None)
    assert not ran


def record(form: str, epsilon: float, error: float | None, **more: object) -> Record:
    base = {"table": "t", "workload": "all-3way", "form": form, "epsilon": epsilon, "seed": 0}
    if error is None:
        return base | {"status": "timeout", "timeout": 60.0} | more
    return base | {"status": "ok", "error": error, "cpu_seconds": 1.0} | more


def test_ratios_are_means_over_settings_that_both_finished(tmp_path: Path) -> None:
    pages = _module("accuracy._aim_pages")
    records = [
        record("aim", 1.0, 0.1), record("aim", 1.0, 0.3, seed=1), record("aim", 10.0, 0.1), record("aim", 100.0, None),
        record("mst", 1.0, 0.4), record("mst", 10.0, 0.8), record("mst", 100.0, 0.01),
        record("rap, published", 1.0, 0.4), record("gem, published", 1.0, 0.1), record("mwem-pgm", 1.0, 0.5),
    ]  # fmt: skip
    text = pages.figure_one(records, planned=20, assets=tmp_path)
    assert text.startswith("10 of 20 runs: 9 ok, 1 did not finish.")
    assert "| mst | 4.00, 8.0 (2) | 2.6, 118 |" in text
    assert "| aim | 0.2000 | 0.1000 | slow |" in text
    assert "| all-3way | 1 | 0 % | 0 % | 100 % | 0 % | 1 | 0 % |" in text
    svg = (tmp_path / "aim-figure1-all-3way.svg").read_text()
    assert "aim, 100: no number" in svg
    assert svg.count("<polyline") == 5


def test_elements_are_compared_with_aim_in_the_same_accounting(tmp_path: Path) -> None:
    pages = _module("accuracy._aim_pages")
    records = [
        record("aim", 1.0, 0.1), record("aim", 10.0, 0.1), record("A1", 1.0, 0.2), record("A1", 10.0, 0.8),
        record("aim, zCDP", 1.0, 0.2), record("B1, zCDP", 1.0, 0.3), record("O1", 1.0, None),
    ]  # fmt: skip
    text = pages.figure_two(records, planned=20, assets=tmp_path)
    assert "| A1 | columns first; without: from a uniform start | 1.03 | 4.00 | 2 | 2.00 |" in text
    assert "| B1, zCDP | the same in the accounting of the paper | 1.18 | 1.50 | 1 |" in text
    assert "| A1 | 2.00 (1) | 8.00 (1) |" in text
    assert "paper: 1.03" in (tmp_path / "aim-figure2.svg").read_text()


def test_copies_of_the_process_answer_fail_and_are_ended() -> None:
    forked = _module("accuracy._forked").run_forked

    def work(spec: Record) -> Record:
        if spec["how"] == "raise":
            raise ValueError("no such thing")
        if spec["how"] == "sleep":
            time.sleep(60)
        if spec["how"] == "exit":
            raise SystemExit(3)
        return {"status": "ok"}

    assert forked(work, {"how": "fine"}, wall=30.0) == {"status": "ok"}
    assert forked(work, {"how": "raise"}, wall=30.0)["message"] == "ValueError: no such thing"
    assert forked(work, {"how": "exit"}, wall=30.0)["status"] == "failed"
    assert forked(work, {"how": "sleep"}, wall=0.3)["status"] == "stopped"


def test_forms_of_the_figures_are_methods_that_exist() -> None:
    module, cell = _module("accuracy.aim_figures"), _module("accuracy._cell")
    from understudy.mechanisms import create

    for figure in module.FIGURES.values():
        for method, options in figure.forms.values():
            if method != cell.ANSWERS:
                assert create(method, **cell._own({"options": options})).name == method
