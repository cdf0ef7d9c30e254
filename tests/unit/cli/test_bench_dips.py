"""``understudy bench dips``: what it writes, refuses and does not do twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.cli.commands.bench import _module
from understudy.errors import DataError, WorkloadError


@pytest.fixture
def dips() -> Any:
    return _module("dips")


def small(dips: Any, out: Path, said: list[str], study: int, **options: Any) -> list[dict[str, Any]]:
    chosen = {"repetitions": 8, "epsilons": [1.0], "seed": 3, "processes": 1} | options
    return list(dips.run_study(study, out, say=said.append, **chosen))


@pytest.mark.parametrize("study", [1, 2, 3, 4])
def test_each_study_reports_every_measure_of_every_scenario(dips: Any, tmp_path: Path, study: int) -> None:
    said: list[str] = []
    if study == 2:  # long tables: one scenario is enough here
        job = dips.Job(2, "n=100 sigma2=4", 1.0, 8, 3)
        records = dips.STUDIES[2].run(job)
    else:
        records = small(dips, tmp_path, said, study)
        assert json.loads((tmp_path / f"study{study}.json").read_text()) == records
        assert {item["scenario"] for item in records} == set(dips.STUDIES[study].SCENARIOS)
        assert list(tmp_path.glob(f"study{study}-*-misses.svg"))
        assert any("posterior, percentile *" in line for line in said)
    for record in records:
        assert 0 <= record["coverage"] <= 1
        assert all(np.isfinite(record[name]) for name in ("bias", "rmse", "width", "median_width"))
        assert record["rmse"] >= abs(record["bias"]) - 1e-12


def test_every_budget_of_a_scenario_is_told_when_asked(dips: Any) -> None:
    scenario = "n=100 pi=0.25"
    jobs = [dips.Job(1, scenario, epsilon, 8, 3) for epsilon in (0.5, 1.0)]
    records = [record for job in jobs for record in dips.STUDIES[1].run(job)]
    lines = dips.budget_lines(records)
    assert any(line.startswith(f"{scenario}: coverage") for line in lines)
    row = next(line for line in lines if line.startswith(dips.RECOMMENDED))
    mine = [item for item in records if item["method"] == dips.RECOMMENDED]
    shown = [(f"{item['coverage']:.3f}", f"({item['median_width']:.2g})") for item in mine]
    assert row.split()[3:] == [word for pair in shown for word in pair]


def test_a_second_run_does_nothing_and_a_longer_one_only_the_rest(
    dips: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = small(dips, tmp_path, [], 1)
    kept = (tmp_path / "jobs.jsonl").read_text()
    with (tmp_path / "jobs.jsonl").open("a") as stream:
        stream.write('{"key": "cut off')
    ran: list[str] = []
    honest = dips.STUDIES[1].run

    def spy(job: Any) -> Any:
        ran.append(job.key)
        return honest(job)

    monkeypatch.setattr(dips.STUDIES[1], "run", spy)
    assert small(dips, tmp_path, [], 1) == first
    assert ran == []
    longer = small(dips, tmp_path, [], 1, epsilons=[1.0, 2.0])
    assert len(ran) == 9
    assert len(longer) > len(first)
    assert (tmp_path / "jobs.jsonl").read_text().startswith(kept)


def test_results_depend_on_the_seed_alone(dips: Any) -> None:
    job = dips.Job(1, "n=40 pi=0.1", 1.0, 20, 5)
    assert dips.STUDIES[1].run(job) == dips.STUDIES[1].run(job)
    other = dips.Job(1, "n=40 pi=0.1", 1.0, 20, 6)
    assert dips.STUDIES[1].run(job) != dips.STUDIES[1].run(other)


def test_unknown_studies_and_missing_tables_are_refused(dips: Any, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="No study named 5"):
        dips.run(out=tmp_path, parts=["1", "5"], say=print)
    (tmp_path / "tables").mkdir()
    with pytest.raises(DataError, match="fertility"):
        dips.run(out=tmp_path, data=tmp_path / "tables", parts=["fertility"], repetitions=1, say=print)


@pytest.mark.shared_data
def test_the_case_study_runs(dips: Any, tmp_path: Path, shared_data: Path) -> None:
    pytest.importorskip("sklearn")
    dips.run(out=tmp_path, data=shared_data, parts=["fertility"], repetitions=1, say=lambda text: None)
    rows = json.loads((tmp_path / "fertility.json").read_text())
    found = {row["method"]: row for row in rows}
    assert found["original"]["8-way"] == 0
    assert found["laplace"]["8-way"] > found["laplace on occupied cells (not private)"]["8-way"] > 0
    assert all(0 <= row["consistency"] <= 1 for row in rows)
