"""Understudy's ``auto`` beside other projects on the same tables: error, CPU and memory, each peer in a process of its own under a limit of CPU time.

Every cell gets the same table of codes with its declared domain, the same epsilon with delta 1e-9 for a record that comes or goes, and writes rows. The error is that of
``ten_tables``: the mean total variation over all triples of columns (of a table with very many triples, over 1,200 that are always the same), here of shares, as some peers draw a noisy number of rows.
CPU is that of the whole process, with the loading of libraries and what they compile (Understudy keeps what Numba compiled for the next process; jax does not here). A cell that reaches ``--cpu-limit`` (or the memory limit) is ended and says so. Peers run with
the settings that the page lists, their defaults unless it says otherwise. Cells are kept as they come: an interrupted run goes on where it stopped, and a cell
that ran out of time is tried again under a higher limit only. Computing errors reads the tables without noise: they are public, and nothing of this is a release.

A peer lives in a virtual environment ``FOLDER/NAME`` (``--environments FOLDER``); one that is not there is reported as not installed. NAME and what to install:

- ``dpsynth`` (Python 3.12): https://github.com/google/dpsynth at the commit of the page, with the mbi, jax and dp_accounting (from its repository: the published 0.6.0 cannot calibrate) that its pyproject names
- ``mbi`` (from 3.11): ``mbi==2.0.0``, which publishes an engine; MST and AIM on it are drivers written from the papers (``_peer_mbi.py``)
- ``dpmm`` (3.11): ``dpmm==0.1.9``
- ``smartnoise`` (3.11): ``smartnoise-synth==1.0.8``
- ``gsd``: https://github.com/giusevtr/private_gsd, with its extra ``cpu``

Run ``python -m benchmarks.accuracy.peers`` (``--quick`` for Understudy alone on the smallest table).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.accuracy._runner import ROOT, THREADS

if __name__ == "__main__":  # before anything that starts threads is imported
    for _name in THREADS:
        os.environ.setdefault(_name, "1")

import numpy as np

from benchmarks._kept import DOCS
from benchmarks._tables import find_data, workload_of
from benchmarks.accuracy._runner import Record
from benchmarks.accuracy.aim import NOTICE
from benchmarks.accuracy.auto import DELTA, exact, table_of
from understudy.data import LocalTable
from understudy.privacy.accounting.conversions import approx_to_zcdp

SCRIPT = Path(__file__).resolve().parent / "_peer_task.py"
TABLES = ("titanic", "nltcs", "br2000", "adult")
EPSILONS = (1.0, 10.0)
CPU_LIMIT = 1800.0
MEMORY_LIMIT = 8000.0
AHEAD = 0.85
"""What is aimed at: at most this part of the best peer's error."""
OURS = "understudy auto"


@dataclass(frozen=True)
class Peer:
    """A project's mechanism, what its runner is told, and what a reader should know about the settings."""

    name: str
    environment: str
    method: str = ""
    packages: tuple[str, ...] = ()
    settings: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def python(self, environments: Path) -> Path | None:
        """Return its interpreter; None where it is not installed."""
        if self.name == OURS:
            return Path(sys.executable)
        found = environments / self.environment / "bin" / "python"
        return found if found.exists() else None


DPSYNTH = "`TabularConfig` with declared categories and its defaults (a tenth of the budget for columns)"
PEERS = (
    Peer(
        OURS,
        "understudy",
        packages=("understudy",),
        settings="no method named and no number of rows declared; Gaussian accounting; the workload of `auto`",
    ),
    Peer(
        "dpsynth MST",
        "dpsynth",
        "mst",
        ("dpsynth", "mbi", "jax", "dp-accounting"),
        f"{DPSYNTH}; `MSTConfig()`: 5,000 iterations",
    ),
    Peer(
        "mbi MST",
        "mbi",
        "mst",
        ("mbi", "jax"),
        "driver of ours on its engine, from the paper; zCDP; values below three sigma merged; 5,000 iterations, the number of rows measured",
    ),
    Peer(
        "dpmm MST",
        "dpmm",
        "mst",
        ("dpmm",),
        "`MSTPipeline` on codes (`disable_processing`), one job; otherwise defaults: compression, 5,000 iterations; zCDP",
    ),
    Peer(
        "dpsynth SWIFT",
        "dpsynth",
        "swift",
        ("dpsynth", "mbi", "jax", "dp-accounting"),
        f"{DPSYNTH}; `SWIFTConfig()`: all triples, cliques of up to 1e7 cells, 10,000 iterations",
    ),
    Peer(
        "dpsynth SWIFT, 1,000 iterations",
        "dpsynth",
        "swift",
        ("dpsynth", "mbi", "jax", "dp-accounting"),
        "as before with `pgm_iters=1000`, not its default",
        {"pgm_iters": 1000},
    ),
    Peer(
        "dpsynth AIM-GDP",
        "dpsynth",
        "aim-gdp",
        ("dpsynth", "mbi", "jax", "dp-accounting"),
        f"{DPSYNTH}; `AIMGDPConfig()`: all triples, models of 80 MB, 1,000 iterations a round",
    ),
    Peer(
        "mbi AIM",
        "mbi",
        "aim",
        ("mbi", "jax"),
        "driver of ours on its engine, from the paper; all triples; zCDP; models of 80 MB, 1,000 iterations a round",
    ),
    Peer(
        "dpmm AIM",
        "dpmm",
        "aim",
        ("dpmm",),
        "`AIMPipeline` on codes (`disable_processing`), one job; otherwise defaults: all pairs of up to 10,000 cells, no limit of the model, 1,000 iterations a round; zCDP",
    ),
    Peer(
        "dpmm AIM, triples",
        "dpmm",
        "aim",
        ("dpmm",),
        "as before with `degree=3`, `max_cells=1000000`: the workload that is measured, not its default",
        {"degree": 3, "max_cells": 1_000_000},
    ),
    Peer(
        "SmartNoise AIM",
        "smartnoise",
        "aim",
        ("smartnoise-synth", "mbi", "jax"),
        "`AIMSynthesizer` with a transformer of the declared codes; otherwise defaults: all pairs of up to 10,000 cells, models of 80 MB; zCDP",
    ),
    Peer(
        "SmartNoise AIM, triples",
        "smartnoise",
        "aim",
        ("smartnoise-synth", "mbi", "jax"),
        "as before with `degree=3`, `max_cells=1000000`: the workload that is measured, not its default",
        {"degree": 3, "max_cells": 1_000_000},
    ),
    Peer(
        "private-gsd",
        "gsd",
        "",
        ("genetic_sd", "smartnoise-synth", "jax"),
        "`GSDSynthesizer` with a transformer of the declared codes, all columns categorical; otherwise defaults: all pairs; zCDP",
    ),
)
BY_NAME = {peer.name: peer for peer in PEERS}
PROMISE = (
    "What is protected: (epsilon, delta) for a record that is added or removed; private-gsd protects a record that is replaced and takes the number of rows as public. "
    "Understudy accounts by Gaussian trade-off curves, dpsynth by the tightest of its accountants, the others add up zCDP. "
    "Noise of measurements is of integers in Understudy, by OpenDP's samplers in dpmm and SmartNoise, floating-point in dpsynth, mbi and private-gsd. "
    "dpsynth draws as many rows as it estimates, private-gsd as many as there are; the others are told the number of rows to draw."
)


# -- a process under limits ------------------------------------------------------------------------


def limited(
    command: Sequence[str],
    *,
    cpu: float,
    memory: float,
    wall: float,
    log: Path,
    env: Mapping[str, str] | None = None,
    every: float = 0.2,
    grace: int = 5,
) -> Record:
    """Run a command and say how it ended: ``ok``, ``timeout`` (of CPU), ``clock`` (which may show twenty times as much on a busy machine), ``memory`` or ``failed``, with CPU seconds and the most memory.

    The kernel counts the CPU of the process with all its threads (``RLIMIT_CPU``), and kills one that ignores its signal ``grace`` seconds later; of processes that it starts, each has the same limit, and what they
    used is added up where they were waited for. Memory is that of the process, looked at as it runs.
    """

    def limit() -> None:
        seconds = max(1, round(cpu))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + grace))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    start, peak, ended = time.monotonic(), 0.0, ""
    with log.open("wb") as said:
        process = subprocess.Popen(
            list(command),
            stdout=said,
            stderr=said,
            stdin=subprocess.DEVNULL,
            env=None if env is None else dict(env),
            start_new_session=True,
            preexec_fn=limit,
        )
        try:
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                peak = max(peak, _resident(process.pid))
                if not ended and time.monotonic() - start > wall:
                    ended = "clock"
                elif not ended and peak > memory:
                    ended = "memory"
                if ended:
                    os.killpg(process.pid, signal.SIGKILL)
                time.sleep(every)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            os.wait4(process.pid, 0)
            raise
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    _end_others(process.pid)
    used = usage.ru_utime + usage.ru_stime
    facts: Record = {"cpu_seconds": used, "peak_mb": max(peak, usage.ru_maxrss / 1024)}
    if ended:
        return facts | {"status": ended}
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and used >= cpu - 1):
        return facts | {"status": "timeout"}
    if code == -signal.SIGKILL:
        return facts | {"status": "failed", "note": "ended by the system, perhaps for want of memory"}
    if code:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return facts | {"status": "failed", "note": (lines[-1] if lines else f"exit code {code}")[:160]}
    return facts | {"status": "ok"}


def _resident(pid: int) -> float:
    """Return the memory of a process in megabytes; nothing where the system does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _end_others(group: int) -> None:
    """End what a process left behind."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


# -- one cell --------------------------------------------------------------------------------------


def share_error(table: str, folder: Path, drawn: LocalTable) -> float:
    """Return the mean total variation over triples of columns between shares of the rows."""
    cliques, counts = exact(table, folder, 3)
    rows, other = table_of(table, folder).exact_row_count(), drawn.exact_row_count()
    return float(
        np.mean(
            [
                np.abs(real.astype(np.float64) / rows - drawn.count(clique) / other).sum() / 2
                for clique, real in zip(cliques, counts, strict=True)
            ]
        )
    )


def read_rows(path: Path, table: LocalTable) -> LocalTable | str:
    """Return the rows that a peer wrote, or what is wrong with them."""
    domain = table.schema.domain
    codes = {}
    if not path.exists():
        return "it ended without writing rows"
    with np.load(path) as arrays:
        for place, (name, size) in enumerate(zip(domain.names, domain.sizes, strict=True)):
            column = arrays[f"c{place}"]
            if not len(column):
                return "no rows"
            if column.min() < 0 or column.max() >= size:
                return f"values outside the domain in {name}"
            codes[name] = np.ascontiguousarray(column, dtype=np.min_scalar_type(size - 1))
    if len({len(column) for column in codes.values()}) > 1:
        return "columns of different lengths"
    return LocalTable(table.schema, codes)


def environment(ours: bool) -> dict[str, str]:
    """Return the variables of a peer's process: one thread each; what is ours is seen by ours alone."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    threads = dict.fromkeys(THREADS, "1")
    if ours:
        paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return kept | threads | {"PYTHONPATH": os.pathsep.join(paths)}
    return kept | threads | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}


def run_cell(spec: Record, python: Path, *, script: Path = SCRIPT) -> Record:
    """Give a peer the table and the budget, and compare the rows it writes with the real ones."""
    peer, data = BY_NAME[spec["peer"]], Path(spec["data"])
    table = table_of(spec["table"], data)
    domain, rows = table.schema.domain, table.exact_row_count()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (codes,) = table.chunks(rows=max(1, rows))
        np.savez(place / "table.npz", **{f"c{i}": codes[name] for i, name in enumerate(domain.names)})
        task: Record = {
            "peer": peer.environment,
            "method": peer.method,
            "options": dict(peer.options),
            "packages": list(peer.packages),
            "names": list(domain.names),
            "sizes": list(domain.sizes),
            "workload": [
                [list(clique), weight] for clique, weight in workload_of(domain, spec["table"], "all-3way")
            ],
            "epsilon": spec["epsilon"],
            "delta": DELTA,
            "rho": approx_to_zcdp(spec["epsilon"], DELTA),
            "seed": spec["seed"],
            "rows": rows,
            "source": str(place / "table.npz"),
            "result": str(place / "rows.npz"),
            "told": str(place / "told.json"),
        }
        (place / "task.json").write_text(json.dumps(task), encoding="utf-8")
        found = limited(
            [str(python), str(script), str(place / "task.json")],
            cpu=spec["limit"],
            memory=spec["memory"],
            wall=20 * spec["limit"] + 60,
            log=place / "said.txt",
            env=environment(peer.name == OURS),
        )
        if (place / "told.json").exists():
            told = json.loads((place / "told.json").read_text(encoding="utf-8"))
            versions = ", ".join(f"{name} {version}" for name, version in told.pop("versions").items())
            found = told | {"versions": versions} | found
        if found["status"] != "ok":
            return found
        drawn = read_rows(place / "rows.npz", table)
    if isinstance(drawn, str):
        return found | {"status": "failed", "note": drawn}
    return found | {"error": share_error(spec["table"], data, drawn), "rows": drawn.exact_row_count()}


# -- cells that are kept ---------------------------------------------------------------------------

KEY = ("table", "epsilon", "seed", "peer")
COLUMNS = (
    *KEY,
    "status",
    "error",
    "rows",
    "cpu_seconds",
    "fit_cpu_seconds",
    "peak_mb",
    "limit",
    "versions",
    "note",
)
NUMBERS = ("error", "cpu_seconds", "fit_cpu_seconds", "peak_mb", "limit")
KEPT = DOCS / "measured" / "data" / "peers.csv"
Key = tuple[str, float, int, str]


def key_of(record: Mapping[str, Any]) -> Key:
    """Return what makes a cell the same cell."""
    return str(record["table"]), float(record["epsilon"]), int(record["seed"]), str(record["peer"])


def read_cells(path: Path) -> dict[Key, Record]:
    """Read kept cells; a later line wins, a line that was cut off is ignored."""
    found: dict[Key, Record] = {}
    if not path.exists():
        return found
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if any(row.get(name) is None for name in COLUMNS):
                continue
            record: Record = {name: text for name, text in row.items() if text != ""}
            record |= {name: float(row[name]) for name in NUMBERS if row[name]}
            record |= {"epsilon": float(row["epsilon"]), "seed": int(row["seed"])}
            found[key_of(record)] = record
    return found


def write_cells(path: Path, records: Iterable[Record]) -> None:
    """Write kept cells in the order of tables, budgets, seeds and peers."""
    order = {name: place for place, name in enumerate(BY_NAME)}
    tables = {name: place for place, name in enumerate(TABLES)}

    def place(record: Record) -> tuple[int, str, float, int, int]:
        table, epsilon, seed, peer = key_of(record)
        return tables.get(table, len(tables)), table, epsilon, seed, order.get(peer, len(order))

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for record in sorted(records, key=place):
            cells = [record.get(name, "") for name in COLUMNS]
            writer.writerow([f"{cell:.5g}" if isinstance(cell, float) else cell for cell in cells])


def finished(record: Record | None, limit: float) -> bool:
    """Whether a cell need not run again: it ended by itself, or was given at least as much CPU before."""
    if record is None:
        return False
    return record["status"] != "clock" and (record["status"] != "timeout" or record["limit"] >= limit)


def specs(
    tables: Sequence[str],
    epsilons: Sequence[float],
    peers: Sequence[str],
    *,
    seeds: int,
    data: Path,
    limit: float,
    memory: float,
) -> Iterator[Record]:
    """Return the cells: ours first, then peer by peer, so that a run that is cut off has whole lines."""
    for seed, epsilon, peer, table in product(range(seeds), epsilons, peers, tables):
        yield {
            "table": table,
            "epsilon": epsilon,
            "seed": seed,
            "peer": peer,
            "data": str(data),
            "limit": limit,
            "memory": memory,
        }


def run_all(
    cells: Iterable[Record],
    path: Path,
    environments: Path,
    *,
    until: float | None = None,
    run: Callable[[Record, Path], Record] = run_cell,
    say: Callable[[str], None] = print,
) -> dict[Key, Record]:
    """Run what is not finished, keep each result at once, and return all that are kept."""
    known = read_cells(path)
    stop = None if until is None else time.monotonic() + until
    for spec in cells:
        python = BY_NAME[spec["peer"]].python(environments)
        if python is None or finished(known.get(key_of(spec)), spec["limit"]):
            continue
        if stop is not None and time.monotonic() > stop:
            break
        record = {name: spec[name] for name in (*KEY, "limit")} | run(spec, python)
        known[key_of(record)] = record
        write_cells(path, known.values())
        say(f"{spec['table']} epsilon {spec['epsilon']:g} {spec['peer']}: {describe(record)}")
    return known


# -- the page --------------------------------------------------------------------------------------


def describe(record: Record) -> str:
    """Say how a cell went."""
    if record["status"] == "ok":
        return f"{record['error']:.4f} ({record['cpu_seconds']:.0f} s, {record['peak_mb']:,.0f} MB)"
    if record["status"] == "timeout":
        return f"did not finish in {record['limit']:.0f} s of CPU"
    if record["status"] == "clock":
        return f"ended by the clock after {record['cpu_seconds']:.0f} s of CPU"
    if record["status"] == "memory":
        return f"ended at {record['peak_mb']:,.0f} MB after {record['cpu_seconds']:.0f} s"
    return f"failed: {record.get('note', '')}"


def best_peer(records: Iterable[Record]) -> Record | None:
    """Return the cell of the peer with the least error; None where no peer finished."""
    found = [record for record in records if record["peer"] != OURS and record["status"] == "ok"]
    return min(found, key=lambda record: record["error"]) if found else None


def compare(known: Mapping[Key, Record]) -> list[tuple[str, float, int, Record, Record | None, float | None]]:
    """Return for every table, budget and seed of ours: our cell, the best peer's, and the ratio of errors."""
    lines = []
    for (table, epsilon, seed, peer), own in known.items():
        if peer != OURS or own["status"] != "ok":
            continue
        others = [record for key, record in known.items() if key[:3] == (table, epsilon, seed)]
        best = best_peer(others)
        lines.append(
            (table, epsilon, seed, own, best, None if best is None else own["error"] / best["error"])
        )
    return lines


def report(
    known: Mapping[Key, Record],
    cells: Sequence[Record],
    environments: Path,
    say: Callable[[str], None] = print,
) -> None:
    """Print settings and versions, every cell, and the ratios to the best peer."""
    wanted = {key_of(spec): spec for spec in cells}
    peers = list(dict.fromkeys(spec["peer"] for spec in cells))
    say("\n" + PROMISE)
    say("\n| who | settings | versions |\n|---|---|---|")
    for name in peers:
        absent = "not run" if BY_NAME[name].python(environments) else "not installed"
        versions = [
            record["versions"] for key, record in known.items() if key[3] == name and "versions" in record
        ]
        say(f"| {name} | {BY_NAME[name].settings} | {'; '.join(dict.fromkeys(versions)) or absent} |")
    places = list(dict.fromkeys((spec["table"], spec["epsilon"], spec["seed"]) for spec in cells))
    seeds = len({seed for _, _, seed in places})
    say("\nError (CPU of the whole process, most memory):\n")
    head = [
        f"{table}, epsilon {epsilon:g}" + (f", seed {seed}" if seeds > 1 else "")
        for table, epsilon, seed in places
    ]
    say(f"| who | {' | '.join(head)} |\n|{'---|' * (len(head) + 1)}")
    for name in peers:
        shown = []
        for place in places:
            record = known.get((*place, name))
            if record is not None:
                shown.append(describe(record))
            else:
                shown.append("not run" if BY_NAME[name].python(environments) else "not installed")
        say(f"| {name} | {' | '.join(shown)} |")
    for key in wanted:
        note = known[key].get("note") if key in known and known[key]["status"] == "ok" else None
        if note:
            took = "took " if key[3] == OURS else ""
            say(f"Note on {key[0]}, epsilon {key[1]:g}: {key[3]} {took}{note}.")
    say(
        "\n| table | epsilon | ours | CPU s | best peer that finished | its error | its CPU s | ours / best peer | tried | finished |"
    )
    say("|---|---|---|---|---|---|---|---|---|---|")
    ratios = []
    for table, epsilon, seed, own, best, ratio in compare(
        {key: known[key] for key in wanted if key in known}
    ):
        others = [
            known[key]
            for key in wanted
            if key in known and key[:3] == (table, epsilon, seed) and key[3] != OURS
        ]
        done = sum(record["status"] == "ok" for record in others)
        said = ["none", "", "", ""]
        if best is not None and ratio is not None:
            ratios.append((ratio, table, epsilon))
            said = [best["peer"], f"{best['error']:.4f}", f"{best['cpu_seconds']:.0f}", f"{ratio:.3f}"]
        say(
            f"| {table} | {epsilon:g} | {own['error']:.4f} | {own['cpu_seconds']:.0f} | {' | '.join(said)} | {len(others)} | {done} |"
        )
    if ratios:
        worst = max(ratios)
        ahead = sum(ratio <= AHEAD for ratio, _, _ in ratios)
        say(
            f"\nOurs has at most {AHEAD:g} of the best finished peer's error in {ahead} of {len(ratios)} cells; largest ratio {worst[0]:.3f} ({worst[1]}, epsilon {worst[2]:g})."
        )
    count = {
        status: sum(known[key]["status"] == status for key in wanted if key in known)
        for status in ("ok", "timeout", "clock", "memory", "failed")
    }
    left = sum(key not in known for key in wanted)
    used = sum(known[key]["cpu_seconds"] for key in wanted if key in known)
    say(
        f"{count['ok']} cells finished, {count['timeout']} did not within their CPU limit, {count['clock']} were ended by the clock, {count['memory']} for memory, {count['failed']} failed, {left} were not run; {used:.0f} s of CPU."
    )


def _words(text: str) -> list[str]:
    return text.split(",")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="auto beside other projects, each in a process of its own.")
    parser.add_argument(
        "--quick", action="store_true", help="Understudy alone, the smallest table, epsilon 1"
    )
    parser.add_argument("--environments", type=Path, default=Path(".benchmarks/peer-environments"))
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/peers"))
    parser.add_argument("--data", type=Path, help="folder of tables; default ../shared/data")
    parser.add_argument("--tables", type=_words, default=list(TABLES))
    parser.add_argument(
        "--epsilons", type=lambda text: [float(word) for word in _words(text)], default=list(EPSILONS)
    )
    parser.add_argument(
        "--peers", type=lambda text: text.split(";"), default=list(BY_NAME), help="names, with ; between them"
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--cpu-limit", type=float, default=CPU_LIMIT, help="CPU seconds of a cell")
    parser.add_argument("--memory-limit", type=float, default=MEMORY_LIMIT, help="megabytes of a cell")
    parser.add_argument(
        "--until", type=float, help="start no cell after so many seconds; run it again to go on"
    )
    parser.add_argument(
        "--again", type=lambda text: text.split(";"), default=[], help="run these peers again"
    )
    parser.add_argument("--no-run", action="store_true", help="print what is kept and run nothing")
    parser.add_argument("--write", action="store_true", help="keep the cells under docs/measured")
    given = parser.parse_args(arguments)
    unknown = [name for name in (*given.peers, *given.again) if name not in BY_NAME]
    if unknown:
        parser.error(f"no peer named {', '.join(unknown)}; known: {'; '.join(BY_NAME)}")
    data = find_data(given.data)
    print(NOTICE)
    cells = list(
        specs(
            ["titanic"] if given.quick else given.tables,
            [1.0] if given.quick else given.epsilons,
            [OURS] if given.quick else given.peers,
            seeds=given.seeds,
            data=data,
            limit=given.cpu_limit,
            memory=given.memory_limit,
        )
    )
    path = given.out / ("quick.csv" if given.quick else "cells.csv")
    if not path.exists() and not given.quick:
        write_cells(path, read_cells(KEPT).values())
    if given.again:
        write_cells(path, [record for key, record in read_cells(path).items() if key[3] not in given.again])
    known = read_cells(path) if given.no_run else run_all(cells, path, given.environments, until=given.until)
    report(known, cells, given.environments)
    if given.write:
        write_cells(KEPT, known.values())
        print(f"Wrote {KEPT.name}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
