"""Run the cells of a benchmark, one process each, and remember what is done."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.parallel import run as parallel_run
from understudy.parallel import workers

ROOT = Path(__file__).resolve().parents[2]
KEY = ("table", "workload", "method", "epsilon", "delta", "seed", "options")
DONE = ("ok", "refused")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
Record = dict[str, Any]


def key_of(record: Record) -> str:
    """What makes a cell the same cell."""
    return json.dumps([record.get(name) for name in KEY], sort_keys=True)


def read_records(path: Path) -> dict[str, Record]:
    """Read finished cells; a line cut off by an interruption is ignored, a later line wins."""
    found: dict[str, Record] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[key_of(record)] = record
    return found


def finished(record: Record | None, timeout: float) -> bool:
    """Whether a cell need not run again: it ended, or it was given at least as much time before."""
    if record is None:
        return False
    return record["status"] in DONE or (record["status"] == "timeout" and record["timeout"] >= timeout)


def in_process(command: Sequence[str], *, timeout: float, env: dict[str, str] | None = None) -> Record:
    """Run a command that prints JSON on its last line; a timeout ends it and everything it started."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | (env or {})
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException as stop:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(stop, subprocess.TimeoutExpired):
            return {"status": "timeout", "timeout": timeout}
        raise
    lines = out.strip().splitlines()
    if process.returncode == 0 and lines:
        result: Record = json.loads(lines[-1])
    else:
        tail = err.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        result = {"status": "failed", "message": tail[0][:300]}
    return result | {"process_seconds": time.perf_counter() - start}


def wait_for(
    process: subprocess.Popen[bytes], timeout: float
) -> tuple[int, int | None, resource.struct_rusage]:
    """Wait for a process and return its usage; end it after the timeout."""
    end = time.monotonic() + timeout
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return pid, process.returncode, usage
        if time.monotonic() > end:
            process.kill()
            pid, _, usage = os.wait4(process.pid, 0)
            process.returncode = -9
            return pid, None, usage
        time.sleep(0.2)


def run_command(words: Sequence[str], folder: Path, env: Mapping[str, str], timeout: float) -> Record:
    """Run ``understudy`` with words; a message without a traceback is a refusal."""
    start = time.perf_counter()
    with (folder / "said.txt").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "understudy", *words], stdout=said, stderr=said, env=dict(env)
        )
        _, status, usage = wait_for(process, timeout)
        said.seek(0)
        text = said.read().strip()
    facts: Record = {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,
    }
    if status is None:
        return facts | {"status": "timeout", "timeout": timeout}
    if status:
        return facts | {"status": "failed" if "Traceback" in text else "refused", "message": text[-600:]}
    return facts | {"status": "ok"}


def run_ours(spec: Record, *, timeout: float) -> Record:
    """Run one cell of one of our mechanisms."""
    return in_process([sys.executable, "-m", "benchmarks.accuracy._cell", json.dumps(spec)], timeout=timeout)


def run_all(
    specs: Iterable[Record],
    path: Path,
    *,
    timeout: float,
    run: Callable[..., Record],
    say: Callable[[str], None] = print,
    jobs: int = 1,
    backend: str | None = None,
) -> list[Record]:
    """Run what is not finished, append each result at once, and return all results in order.

    ``jobs`` cells run at a time; each is a process of its own with an equal part of the cores, so a thread that
    waits for it is enough here. ``backend`` (dask, ray) takes them to other machines.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    known = read_records(path)
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        with path.open("a", encoding="utf-8") as stream:
            stream.write("\n")  # an interruption cut the last line; start a fresh one
    cells = list(specs)
    missing = [spec for spec in cells if not finished(known.get(key_of(spec)), timeout)]
    chosen = backend or os.environ.get("UNDERSTUDY_BACKEND") or ("threading" if jobs != 1 else "sequential")
    how = workers(jobs, backend=chosen, tasks=max(1, len(missing)))
    threads = None if how.jobs == 1 else how.threads
    tasks = ((_one, (run, spec, timeout, threads)) for spec in missing)
    for number, record in enumerate(parallel_run(tasks, how), start=1):
        known[key_of(record)] = record
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")
        name = " ".join(str(record[part]) for part in ("table", "workload", "method", "epsilon", "seed"))
        say(f"[{number}/{len(missing)}] {name}: {describe(record)}")
    return [known[key_of(spec)] for spec in cells]


def _one(run: Callable[..., Record], spec: Record, timeout: float, threads: int | None) -> Record:
    """Run one cell; where several run at a time its process gets so many threads."""
    for name in THREADS if threads else ():
        os.environ.setdefault(name, str(threads))
    return {part: spec.get(part) for part in KEY} | run(spec, timeout=timeout)


def describe(record: Record) -> str:
    """Say in a few words how a cell went."""
    if record["status"] == "ok":
        return (
            f"error {record['error']:.4f}, {record['cpu_seconds']:.1f} s CPU, "
            f"{record['seconds']:.1f} s, {record['peak_mb']:.0f} MB"
        )
    if record["status"] == "timeout":
        return f"did not finish in {record['timeout']:g} s"
    return f"{record['status']}: {record.get('message', '')}"
