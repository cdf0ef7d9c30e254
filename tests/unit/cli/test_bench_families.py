"""``understudy bench families``: which methods it runs, what it refuses, how it goes on, and what it shows."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.cli.commands.bench import _module
from understudy.data import LocalTable
from understudy.errors import DataError, UnknownMethod, WorkloadError
from understudy.mechanisms import methods
from understudy.schema import Integer, Schema


@pytest.fixture
def quiet() -> list[str]:
    return []


def test_every_method_for_whole_tables_is_in_the_comparison() -> None:
    names = _module("accuracy.families").general_purpose()
    assert {"independent", "aim", "mst", "privsyn", "privmrf", "privbayes", "mwem", "deniability"} <= set(
        names
    )
    assert not {"efpa", "kde", "poisson", "laplace"} & set(names)
    assert set(names) < {item.name for item in methods()}
    assert len(names) == len(set(names))


def test_unknown_words_are_refused_before_anything_runs(tmp_path: Path, quiet: list[str]) -> None:
    families = _module("accuracy.families")
    with pytest.raises(WorkloadError, match="does not know 'adlut'"):
        families.run(out=tmp_path, data=tmp_path, tables=["adlut"], say=quiet.append)
    with pytest.raises(UnknownMethod, match="privsyn"):
        families.run(out=tmp_path, data=tmp_path, methods=["privsin"], say=quiet.append)
    with pytest.raises(DataError, match="--data DIR"):
        families.run(out=tmp_path, data=tmp_path / "nowhere", quick=True, say=quiet.append)
    assert not list(tmp_path.iterdir())


def _answers(monkeypatch: pytest.MonkeyPatch, ran: list[str]) -> None:
    """Cells that answer at once: one refused, one that takes too long, the others fine."""

    def cell(spec: dict[str, Any], *, timeout: float) -> dict[str, Any]:
        ran.append(f"{spec['table']} {spec['method']} {spec['epsilon']:g}")
        if spec["method"] == "gaussian":
            return {"status": "refused", "message": "too many cells"}
        if spec["method"] == "aim":
            return {"status": "timeout", "timeout": timeout}
        error = 0.0 if spec["method"] == "real rows" else 0.2 / spec["epsilon"]
        return {
            "status": "ok", "error": error, "accuracy": 0.8, "cpu_seconds": 1.0, "seconds": 1.0, "peak_mb": 100.0,
        }  # fmt: skip

    monkeypatch.setattr(_module("accuracy.families"), "_run_cell", cell)


def test_a_second_run_does_only_what_is_missing(
    tmp_path: Path, quiet: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    families = _module("accuracy.families")
    ran: list[str] = []
    _answers(monkeypatch, ran)
    options: dict[str, Any] = {
        "out": tmp_path / "out", "data": tmp_path, "tables": ["adult", "nltcs"], "epsilons": [1.0, 10.0],
        "methods": ["mst", "gaussian", "aim"], "cpu_limit": 5.0, "say": quiet.append,
    }  # fmt: skip
    families.run(**options, until=0.0)
    assert ran == [], "no time, no cell"
    assert "Not run: adult/real rows/1" in (tmp_path / "out" / "summary.md").read_text()
    families.run(**options)
    assert len(ran) == 2 + 2 * 2 * 3
    assert ran[2:5] == ["adult mst 1", "adult gaussian 1", "adult aim 1"], (
        "all tables at one epsilon come first"
    )
    families.run(**options)
    assert len(ran) == 14, "what ended is not repeated"
    families.run(**options | {"cpu_limit": 9.0})
    assert len(ran) == 18, "those that took too long get another chance with more time"
    document = json.loads((tmp_path / "out" / "families.json").read_text())
    assert {row["status"] for row in document["rows"]} == {"ok", "refused", "timeout"}
    text = (tmp_path / "out" / "summary.md").read_text()
    assert "adult, epsilon 1, gaussian: refused: too many cells" in text
    assert "adult, epsilon 1, aim: timeout: not finished after 9 s of computing" in text
    assert "| mst | 0.2 | 0.02 | 0.8 | 0.8 | 1.0 | 100 |" in text
    svg = (tmp_path / "out" / "families.svg").read_text()
    assert svg.count("<circle") == 2 + 2 * 2, "a dot per finished cell and one per epsilon in the legend"
    assert "aim" not in svg


def _table(n: int) -> LocalTable:
    generator = np.random.default_rng(1)
    cause = generator.integers(0, 4, n)
    income = (cause + (generator.random(n) < 0.1)) % 4 >= 2
    columns = (Integer("cause", minimum=0, maximum=3), Integer("noise", minimum=0, maximum=2), Integer("income>50K", minimum=0, maximum=1))  # fmt: skip
    codes = [cause, generator.integers(0, 3, n), income]
    return LocalTable(
        Schema(columns=columns, name="t"),
        {column.name: values.astype(np.uint8) for column, values in zip(columns, codes, strict=True)},
    )


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = _module("accuracy._family_cell")
    monkeypatch.setattr(module, "load", lambda name, folder: _table(2_000))
    return module


def spec(method: str, epsilon: float, cpu: float = 60.0) -> dict[str, Any]:
    return {
        "table": "adult", "workload": "all-3way", "method": method, "epsilon": epsilon, "delta": 1e-6, "seed": 0,
        "options": None, "data": "elsewhere", "cpu_limit": cpu,
    }  # fmt: skip


def test_a_cell_measures_error_accuracy_time_and_memory(cell: Any) -> None:
    """Real rows have no error. A method that knows no relations learns nothing; one with a large budget learns them."""
    pytest.importorskip("sklearn", reason="classifiers need scikit-learn")
    real, good, poor = (cell.run(spec(name, 20.0)) for name in (cell.REAL, "mst", "independent"))
    assert real["error"] == 0
    assert real["accuracy"] > 0.9 > 0.7 > poor["accuracy"]
    assert abs(good["accuracy"] - real["accuracy"]) < 0.03
    assert good["error"] < 0.1 < poor["error"]
    assert good["cpu_seconds"] > 0
    assert good["peak_mb"] > 50


def test_a_refusal_is_told_from_a_failure(cell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = cell.run(spec("structure-first", 1.0))
    assert refused["status"] == "refused"
    assert refused["message"]

    def broken(self: object, n: int, *, seed: int) -> None:
        raise WorkloadError("spent, then lost")

    monkeypatch.setattr("understudy.mechanisms.Model.sample_codes", broken)
    failed = cell.run(spec("independent", 1.0))
    assert (failed["status"], failed["message"]) == ("failed", "spent, then lost")


def test_a_limit_on_computing_ends_a_cell(cell: Any) -> None:
    started, limits = time.process_time(), resource.getrlimit(resource.RLIMIT_CPU)

    def work() -> None:
        with cell.cpu_limit(1):
            while time.process_time() - started < 30:
                pass

    with pytest.raises(cell.CpuLimit):
        work()
    assert time.process_time() - started < 29, "the limit ended it, not the loop itself"
    assert resource.getrlimit(resource.RLIMIT_CPU) == limits, "the process goes on as before"


def test_rows_for_testing_are_not_rows_for_fitting() -> None:
    module = _module("accuracy._family_cell")
    train, test = module.split(_table(1_000))
    assert train.exact_row_count() == 800
    assert {len(values) for values in test.values()} == {200}
    again, _ = module.split(_table(1_000))
    np.testing.assert_array_equal(train.count(("cause",)), again.count(("cause",)))
