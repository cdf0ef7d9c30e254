"""Processes: back ends by name, memory and threads bounded, results as they come."""

from __future__ import annotations

import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

import joblib
import pytest
from joblib._parallel_backends import ThreadingBackend

from understudy import parallel
from understudy.errors import BudgetError, DomainTooLarge, MissingExtra
from understudy.parallel import Workers, available_mb, run, workers


def thread_limits() -> tuple[str | None, int, int]:
    import numba
    import pyarrow

    return os.environ.get("OMP_NUM_THREADS"), numba.get_num_threads(), pyarrow.cpu_count()


def test_every_task_runs_once_whatever_runs_it() -> None:
    for backend in ("sequential", "threading", "loky"):
        found = sorted(run(((pow, (k, 2)) for k in range(9)), workers(2, backend=backend)))
        assert found == [k * k for k in range(9)]


def test_processes_do_not_fight_for_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "cores", lambda: 4)
    how = workers(2, backend="loky")
    assert how.threads == 2
    capped = Workers("loky", 2, 1)
    for environment, numba_threads, arrow_threads in run(((thread_limits, ()) for _ in range(2)), capped):
        assert (environment, numba_threads, arrow_threads) == ("1", 1, 1)


def test_a_task_in_this_process_leaves_the_number_of_threads_as_it_was() -> None:
    import pyarrow

    before = pyarrow.cpu_count()
    pyarrow.set_cpu_count(3)
    try:
        assert list(run([(pyarrow.cpu_count, ())], Workers("sequential", 1, 1))) == [1]
        assert pyarrow.cpu_count() == 3
    finally:
        pyarrow.set_cpu_count(before)


def test_as_many_processes_as_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "available_mb", lambda: 1_000.0)
    monkeypatch.setattr(parallel, "cores", lambda: 8)
    assert workers(8, task_mb=200.0).jobs == 4  # a tenth of the memory is left alone
    assert workers(-1, task_mb=10.0).jobs == 8
    assert workers(-2).jobs == 7
    assert workers(8, task_mb=10.0, tasks=3).jobs == 3
    assert workers(None, task_mb=200.0).jobs is None
    with pytest.raises(DomainTooLarge, match="smaller chunks"):
        workers(2, task_mb=2_000.0)
    monkeypatch.setattr(parallel, "available_mb", lambda: None)
    assert workers(8, task_mb=1e9).jobs == 8


def test_the_free_memory_is_read_from_the_system(tmp_path: Path) -> None:
    free = available_mb()
    assert free is None or free > 10
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 2048 kB\n")
    assert parallel._meminfo(tmp_path / "meminfo") == 2.0
    assert parallel._meminfo(tmp_path / "absent") is None
    (tmp_path / "memory.max").write_text(f"{100 << 20}\n")
    (tmp_path / "memory.current").write_text(f"{40 << 20}\n")
    assert parallel._cgroup(tmp_path) == 60.0
    (tmp_path / "memory.max").write_text("max\n")
    assert parallel._cgroup(tmp_path) is None


@pytest.mark.parametrize(("backend", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_back_end_that_is_not_installed_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, backend: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("UNDERSTUDY_BACKEND", backend)
    with pytest.raises(MissingExtra, match=f"{backend}.*pip install"):
        workers(2)


def test_words_that_make_no_sense() -> None:
    with pytest.raises(BudgetError, match="condor"):
        workers(1, backend="condor")
    with pytest.raises(BudgetError, match="jobs"):
        workers(0)


class FakeCluster(ThreadingBackend):  # type: ignore[misc]
    """Stands for a cluster in a test of how one is reached."""


def test_dask_is_reached_at_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask is not needed to test what is asked of it: the client is a stand-in and threads do the work."""
    asked: list[Any] = []

    class Client:
        def __init__(self, address: str | None = None, *, n_workers: int | None = None) -> None:
            asked.append(address or n_workers)

        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_: object) -> None:
            asked.append("closed")

    monkeypatch.setitem(sys.modules, "distributed", types.SimpleNamespace(Client=Client))
    monkeypatch.setitem(joblib.parallel.BACKENDS, "dask", FakeCluster)
    monkeypatch.setenv("UNDERSTUDY_BACKEND", "dask")
    monkeypatch.setenv("UNDERSTUDY_BACKEND_ADDRESS", "tcp://scheduler:8786")
    how = workers(4, task_mb=1e9)  # the memory of this machine is not that of the cluster
    assert (how.backend, how.jobs, how.address) == ("dask", 4, "tcp://scheduler:8786")
    assert sorted(run(((abs, (-k,)) for k in range(5)), how)) == [0, 1, 2, 3, 4]
    assert asked == ["tcp://scheduler:8786", "closed"]
    monkeypatch.delenv("UNDERSTUDY_BACKEND_ADDRESS")
    assert list(run([(abs, (-1,))], workers(2))) == [1]
    assert asked[2:] == [2, "closed"]


def test_ray_is_started_registered_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ray = types.SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda **words: asked.append(f"init {words['address']} {words['num_cpus']}"),
        shutdown=lambda: asked.append("shutdown"),
    )

    def register() -> None:
        asked.append("registered")
        monkeypatch.setitem(joblib.parallel.BACKENDS, "ray", FakeCluster)

    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.util", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "ray.util.joblib", types.SimpleNamespace(register_ray=register))
    assert list(run([(abs, (-1,))], workers(2, backend="ray"))) == [1]
    assert asked == ["init None 2", "registered", "shutdown"]


def test_a_back_end_without_results_as_they_come_works_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(ThreadingBackend):  # type: ignore[misc]
        supports_return_generator = False

    monkeypatch.setitem(joblib.parallel.BACKENDS, "threading", Plain)
    found = list(run(((abs, (-k,)) for k in range(20)), workers(2, backend="threading")))
    assert found == list(range(20))


def test_tasks_run_at_the_same_time() -> None:
    met = threading.Barrier(2)
    assert sorted(run(((met.wait, (60.0,)) for _ in range(2)), workers(2, backend="threading"))) == [0, 1]


def test_cells_of_a_benchmark_run_several_at_a_time_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    try:
        from benchmarks.accuracy._runner import THREADS, run_all
    finally:
        sys.path.pop(0)
    for name in THREADS:  # which a cell sets for its process, here that of all tests: they are put back
        monkeypatch.setenv(name, "1")
    cells = [
        {"table": "t", "workload": "w", "method": name, "epsilon": 1.0, "delta": 0.1, "seed": 0}
        for name in "abc"
    ]
    ran: list[str] = []

    def one(spec: dict[str, Any], *, timeout: float) -> dict[str, Any]:
        ran.append(spec["method"])
        return {"status": "refused", "message": spec["method"]}

    words: dict[str, Any] = {"timeout": 9.0, "run": one, "say": lambda text: None}
    path = tmp_path / "results.jsonl"
    first = run_all(cells[:2], path, jobs=2, **words)
    assert [record["message"] for record in first] == ["a", "b"]
    again = run_all(cells, path, jobs=2, **words)
    assert [record["message"] for record in again] == ["a", "b", "c"]
    assert sorted(ran) == ["a", "b", "c"]
