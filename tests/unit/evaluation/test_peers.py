"""The benchmark of peers: processes that finish, run out of CPU or memory, crash or write nonsense; cells that are kept; what the page says."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.accuracy import peers as bench
from benchmarks.accuracy.auto import table_of, variation

from understudy.data import LocalTable

SIZES = {"a": 2, "b": 3, "c": 4, "d": 2}
ROWS = 300
PREAMBLE = """
import json, shutil, sys, time
task = json.load(open(sys.argv[1]))
json.dump({"versions": {"toy": "7"}}, open(task["told"], "w"))
"""
SAME = "shutil.copy(task['source'], task['result'])"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a made-up table in the place of the smallest one."""
    generator = np.random.default_rng(1)
    frame = pd.DataFrame({name: generator.integers(0, size, ROWS) for name, size in SIZES.items()})
    (tmp_path / "titanic").mkdir()
    frame.to_csv(tmp_path / "titanic" / "titanic_32bin.csv", index=False)
    (tmp_path / "titanic" / "titanic_32bin-domain.json").write_text(json.dumps(SIZES))
    return tmp_path


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> bench.Peer:
    peer = bench.Peer("toy", "toy", "method", ("toy",), "as it comes", {"steps": 3})
    monkeypatch.setattr(bench, "BY_NAME", {bench.OURS: bench.BY_NAME[bench.OURS], "toy": peer})
    return peer


def spec_of(data: Path, peer: str = "toy", **changed: Any) -> dict[str, Any]:
    made = bench.specs(["titanic"], [1.0], [peer], seeds=1, data=data, limit=30.0, memory=2000.0)
    return next(iter(made)) | changed


def run_toy(data: Path, body: str, **changed: Any) -> dict[str, Any]:
    script = data / "toy.py"
    script.write_text(PREAMBLE + body)
    return bench.run_cell(spec_of(data, **changed), Path(sys.executable), script=script)


def test_a_peer_that_finishes_is_judged_by_its_rows(data: Path, toy: bench.Peer) -> None:
    found = run_toy(data, SAME)
    assert found["status"] == "ok"
    assert found["error"] == 0.0
    assert (found["rows"], found["versions"]) == (ROWS, "toy 7")
    assert 0 < found["cpu_seconds"] < 30
    assert found["peak_mb"] > 1


def test_a_peer_gets_the_table_the_budget_and_its_options(data: Path, toy: bench.Peer) -> None:
    seen = data / "seen.json"
    run_toy(data, f"shutil.copy(sys.argv[1], {str(seen)!r})\n{SAME}")
    task = json.loads(seen.read_text())
    assert (task["names"], task["sizes"]) == (list(SIZES), list(SIZES.values()))
    assert (task["epsilon"], task["delta"], task["rows"]) == (1.0, 1e-9, ROWS)
    assert (task["peer"], task["method"], task["options"]) == ("toy", "method", {"steps": 3})
    assert len(task["workload"]) == 4, "all triples of four columns"
    assert 0 < task["rho"] < 0.1


def test_rows_of_another_number_are_compared_by_shares(data: Path, toy: bench.Peer) -> None:
    twice = (
        "import numpy as np\n"
        "with np.load(task['source']) as found:\n"
        "    np.savez(task['result'], **{name: np.tile(found[name], 2) for name in found})\n"
    )
    found = run_toy(data, twice)
    assert (found["rows"], found["error"]) == (2 * ROWS, pytest.approx(0.0))


def test_the_error_is_that_of_the_ten_tables(data: Path) -> None:
    table = table_of("titanic", data)
    generator = np.random.default_rng(2)
    codes = {
        name: generator.integers(0, size, ROWS).astype(np.min_scalar_type(size - 1))
        for name, size in SIZES.items()
    }
    drawn = LocalTable(table.schema, codes)
    found = bench.share_error("titanic", data, drawn)
    assert found == pytest.approx(variation("titanic", data, drawn, 3), rel=1e-6)
    assert found > 0.05


def test_a_peer_that_computes_too_long_is_ended(data: Path, toy: bench.Peer) -> None:
    found = run_toy(data, "while True: pass", limit=1.0)
    assert found["status"] == "timeout"
    assert 0.5 < found["cpu_seconds"] < 3
    assert found["versions"] == "toy 7", "known before the fit"
    assert bench.describe(found | {"limit": 1.0}) == "did not finish in 1 s of CPU"


def test_a_peer_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    code = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    command = [sys.executable, "-c", code]
    found = bench.limited(command, cpu=1, memory=1000, wall=120, log=tmp_path / "log", grace=1)
    assert found["status"] == "timeout"


def test_a_peer_that_sleeps_is_ended_by_the_clock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    start = time.monotonic()
    found = bench.limited(command, cpu=100, memory=1000, wall=1, log=tmp_path / "log")
    assert found["status"] == "clock", "no claim about CPU that it was not given"
    assert found["cpu_seconds"] < 50
    assert not bench.finished(found | {"limit": 100.0}, 100.0), "another run tries it again"
    assert time.monotonic() - start < 120


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_peer_that_takes_too_much_memory_is_ended(data: Path, toy: bench.Peer) -> None:
    found = run_toy(data, "held = bytearray(b'x') * (300 << 20)\ntime.sleep(600)", memory=150.0)
    assert found["status"] == "memory"
    assert found["peak_mb"] > 150
    assert "ended at" in bench.describe(found)


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("raise RuntimeError('out of luck')", "RuntimeError: out of luck"),
        ("sys.exit(3)", "exit code 3"),
        ("", "it ended without writing rows"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "ended by the system"),
        (
            "import numpy as np\nwith np.load(task['source']) as found:\n"
            "    np.savez(task['result'], **{name: found[name] + 1 for name in found})",
            "values outside the domain in a",
        ),
        (
            "import numpy as np\nwith np.load(task['source']) as found:\n"
            "    np.savez(task['result'], **{name: found[name][:i] for i, name in enumerate(found, 1)})",
            "columns of different lengths",
        ),
        (
            "import numpy as np\nwith np.load(task['source']) as found:\n"
            "    np.savez(task['result'], **{name: found[name][:0] for name in found})",
            "no rows",
        ),
    ],
)
def test_a_peer_that_fails_says_why(data: Path, toy: bench.Peer, body: str, note: str) -> None:
    found = run_toy(data, body)
    assert found["status"] == "failed"
    assert note in found["note"]
    assert "error" not in found


def test_nothing_that_a_peer_started_stays_behind(tmp_path: Path) -> None:
    code = "import subprocess, sys\nprint(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid)"
    log = tmp_path / "log"
    found = bench.limited([sys.executable, "-c", code], cpu=60, memory=1000, wall=120, log=log)
    assert found["status"] == "ok"
    child = int(log.read_text())
    for _ in range(100):
        if not _runs(child):
            return
        time.sleep(0.1)
    pytest.fail("the process that the peer started still runs")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"  # ended, and nobody has asked how


def test_understudy_itself_runs_as_a_peer_does(data: Path) -> None:
    found = bench.run_cell(spec_of(data, bench.OURS, epsilon=100.0, limit=200.0), Path(sys.executable))
    assert found["status"] == "ok", found
    assert found["rows"] == ROWS
    assert found["error"] < 0.05
    assert found["versions"].startswith("understudy ")
    assert found["fit_cpu_seconds"] < found["cpu_seconds"]


def record(peer: str, status: str = "ok", **more: Any) -> dict[str, Any]:
    made = {"table": "titanic", "epsilon": 1.0, "seed": 0, "peer": peer, "status": status, "limit": 30.0}
    return made | {"cpu_seconds": 2.0, "peak_mb": 100.0} | more


def test_cells_are_kept_and_only_what_is_missing_runs(tmp_path: Path, toy: bench.Peer) -> None:
    path, folder = tmp_path / "cells.csv", tmp_path / "environments"
    (folder / "toy" / "bin").mkdir(parents=True)
    (folder / "toy" / "bin" / "python").touch()
    asked = []

    def run(spec: dict[str, Any], python: Path) -> dict[str, Any]:
        asked.append((spec["epsilon"], spec["peer"], python.parent.parent.name))
        status = "timeout" if spec["epsilon"] == 10 else "ok"
        return {"status": status, "cpu_seconds": 1.5, "peak_mb": 10.0} | (
            {"error": 0.125, "rows": 9} if status == "ok" else {}
        )

    def cells(limit: float) -> list[dict[str, Any]]:
        return list(
            bench.specs(["titanic"], [1.0, 10.0], ["toy"], seeds=1, data=tmp_path, limit=limit, memory=1.0)
        )

    said: list[str] = []
    bench.run_all(cells(30.0), path, folder, run=run, say=said.append)
    assert asked == [(1.0, "toy", "toy"), (10.0, "toy", "toy")]
    assert said[1] == "titanic epsilon 10 toy: did not finish in 30 s of CPU"
    bench.run_all(cells(20.0), path, folder, run=run, say=said.append)
    assert len(asked) == 2, "the one that ran out of time had more before"
    known = bench.run_all(cells(40.0), path, folder, run=run, say=said.append)
    assert asked[2:] == [(10.0, "toy", "toy")]
    assert {key[1]: kept["status"] for key, kept in known.items()} == {1.0: "ok", 10.0: "timeout"}
    assert bench.read_cells(path)["titanic", 1.0, 0, "toy"]["error"] == 0.125
    path.write_text(path.read_text() + "titanic,100.0,0,to")
    assert len(bench.read_cells(path)) == 2, "a line that was cut off does not count"


def test_a_peer_that_is_not_there_is_not_run(tmp_path: Path, toy: bench.Peer) -> None:
    def run(spec: dict[str, Any], python: Path) -> dict[str, Any]:
        raise AssertionError("nothing to run it with")

    cells = list(bench.specs(["titanic"], [1.0], ["toy"], seeds=1, data=tmp_path, limit=1.0, memory=1.0))
    assert bench.run_all(cells, tmp_path / "cells.csv", tmp_path, run=run) == {}
    said: list[str] = []
    bench.report({}, cells, tmp_path, said.append)
    assert "| toy | not installed |" in said
    assert said[-1].endswith("1 were not run; 0 s of CPU.")


def test_the_page_compares_with_the_best_peer_that_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {name: bench.Peer(name, "toy") for name in ("quick", "good", "slow")}
    monkeypatch.setattr(bench, "BY_NAME", {bench.OURS: bench.BY_NAME[bench.OURS], **names})
    found = [
        record(bench.OURS, error=0.08, note="sift"),
        record("quick", error=0.2, versions="toy 7"),
        record("good", error=0.1),
        record("slow", "timeout"),
    ]
    known = {bench.key_of(item): item for item in found}
    cells = [
        spec
        for peer in bench.BY_NAME
        for spec in bench.specs(["titanic"], [1.0], [peer], seeds=1, data=tmp_path, limit=30.0, memory=1.0)
    ]
    said: list[str] = []
    bench.report(known, cells, tmp_path, said.append)
    text = "\n".join(said)
    assert "| titanic | 1 | 0.0800 | 2 | good | 0.1000 | 2 | 0.800 | 3 | 2 |" in text
    assert "at most 0.85 of the best finished peer's error in 1 of 1 cells; largest ratio 0.800" in text
    assert "| slow | did not finish in 30 s of CPU |" in text
    assert "| quick |  | toy 7 |" in text
    assert "Note on titanic, epsilon 1: understudy auto took sift." in said
    assert bench.best_peer([record("slow", "timeout"), record(bench.OURS, error=0.1)]) is None


def test_an_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--peers", "nobody"])
    assert "no peer named nobody" in capsys.readouterr().err
