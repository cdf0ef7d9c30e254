"""``understudy bench dips``: what it writes, refuses and does not do twice."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.cli.commands.bench import _module
from understudy.errors import DataError, WorkloadError


@pytest.fixture
def dips() -> Any:
    return _module("papers.dips")


def small(dips: Any, out: Path, said: list[str], study: str, **options: Any) -> list[dict[str, Any]]:
    chosen = {"repetitions": 8, "epsilons": [1.0], "seed": 3, "processes": 1} | options
    return list(dips.run_study(study, out, say=said.append, **chosen))


@pytest.mark.parametrize("study", ["1", "2", "2-symmetric", "3", "4"])
def test_each_study_reports_every_measure_of_every_scenario(dips: Any, tmp_path: Path, study: str) -> None:
    said: list[str] = []
    if study.startswith("2"):  # long tables: one scenario is enough here
        job = dips.Job(study, "n=100 sigma2=4", 1.0, 8, 3)
        records = dips.STUDIES[study].run(job)
    else:
        records = small(dips, tmp_path, said, study)
        assert json.loads((tmp_path / f"study{study}.json").read_text()) == records
        assert {item["scenario"] for item in records} == set(dips.STUDIES[study].scenarios)
        assert list(tmp_path.glob(f"study{study}-*-misses.svg"))
        assert any("posterior, percentile *" in line for line in said)
    for record in records:
        assert 0 <= record["coverage"] <= 1
        assert all(np.isfinite(record[name]) for name in ("bias", "rmse", "width", "median_width"))
        assert record["rmse"] >= abs(record["bias"]) - 1e-12


def test_every_budget_of_a_scenario_is_told_when_asked(dips: Any) -> None:
    scenario = "n=100 pi=0.25"
    jobs = [dips.Job("1", scenario, epsilon, 8, 3) for epsilon in (0.5, 1.0)]
    records = [record for job in jobs for record in dips.STUDIES["1"].run(job)]
    lines = dips.budget_lines(records)
    assert any(line.startswith(f"{scenario}: coverage") for line in lines)
    row = next(line for line in lines if line.startswith(dips.RECOMMENDED))
    mine = [item for item in records if item["method"] == dips.RECOMMENDED]
    shown = [(f"{item['coverage']:.3f}", f"({item['median_width']:.2g})") for item in mine]
    assert row.split()[3:] == [word for pair in shown for word in pair]
    assert any(line.startswith(f"{scenario}: bias (RMSE)") for line in lines)
    second = [line for line in lines if line.startswith(dips.RECOMMENDED)][1]
    shown = [(f"{item['bias']:.2g}", f"({item['rmse']:.2g})") for item in mine]
    assert second.split()[3:] == [word for pair in shown for word in pair]


def test_kept_results_hold_every_record(dips: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import _kept

    monkeypatch.setattr(_kept, "DOCS", tmp_path)
    records = small(dips, tmp_path, [], "1", write=True)
    with (tmp_path / "measured" / "data" / "dips-study1.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        assert (row["study"], row["method"], row["quantity"]) == ("1", record["method"], record["parameter"])
        assert row["epsilon"] == ("none" if record["epsilon"] is None else "1")
        for name, key in (
            ("bias", "bias"),
            ("rmse", "rmse"),
            ("coverage", "coverage"),
            ("width", "median_width"),
        ):
            assert float(row[name]) == pytest.approx(record[key], rel=1e-3)
    assert (tmp_path / "assets" / "dips-study1.svg").read_text().startswith("<svg")


def test_biases_of_several_components_do_not_cancel(dips: Any) -> None:
    from benchmarks.papers._dips_common import summary

    job = dips.Job("3", "n=1000", 1.0, 2, 1)
    q = np.array([[1.0, -1.0], [1.0, -1.0]])
    found = summary(job, "a", "mu1", (q, q - 2, q + 2), np.zeros(2))
    assert found["bias"] == 1.0
    alone = summary(job, "a", "rho", (q[:, 1], q[:, 1] - 2, q[:, 1] + 2), 0.0)
    assert alone["bias"] == -1.0


def test_symmetric_bounds_take_the_bias_from_means(dips: Any) -> None:
    """Mean of 500 estimates of modips, 20 rows, epsilon e^-2.

    Values cut to [-3, 4] pull it up by .45 with a standard error of .06; cut to [-4, 4] it is 0 with the same one. Four of them
    are a false alarm with probability 6e-5 in the symmetric study, and the biased one misses them with probability 3e-4.
    """
    bias = {}
    for study in ("2", "2-symmetric"):
        job = dips.Job(study, "n=20 sigma2=1", 0.135, 500, 3)
        (found,) = [
            item
            for item in dips.STUDIES[study].run(job)
            if (item["method"], item["parameter"]) == ("modips", "mu")
        ]
        bias[study] = (found["bias"], found["rmse"] / 500**0.5)
    assert abs(bias["2-symmetric"][0]) < 4 * bias["2-symmetric"][1]
    assert bias["2"][0] > 4 * bias["2"][1]


def test_a_second_run_does_nothing_and_a_longer_one_only_the_rest(
    dips: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = small(dips, tmp_path, [], "1")
    kept = (tmp_path / "jobs.jsonl").read_text()
    with (tmp_path / "jobs.jsonl").open("a") as stream:
        stream.write('{"key": "cut off')
    ran: list[str] = []
    honest = dips.STUDIES["1"].run

    def spy(job: Any) -> Any:
        ran.append(job.key)
        return honest(job)

    monkeypatch.setitem(dips.STUDIES, "1", replace(dips.STUDIES["1"], run=spy))
    assert small(dips, tmp_path, [], "1") == first
    assert ran == []
    longer = small(dips, tmp_path, [], "1", epsilons=[1.0, 2.0])
    assert len(ran) == 9
    assert len(longer) > len(first)
    assert (tmp_path / "jobs.jsonl").read_text().startswith(kept)


def test_results_depend_on_the_seed_alone(dips: Any) -> None:
    job = dips.Job("1", "n=40 pi=0.1", 1.0, 20, 5)
    assert dips.STUDIES["1"].run(job) == dips.STUDIES["1"].run(job)
    other = dips.Job("1", "n=40 pi=0.1", 1.0, 20, 6)
    assert dips.STUDIES["1"].run(job) != dips.STUDIES["1"].run(other)


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
