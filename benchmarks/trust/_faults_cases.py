"""What the fault harness runs, and how it hurts it: commands on tiny tables, faults at random instants."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.trust import _faults_child as child
from understudy.privacy import ApproxDP, Budget, Ledger, PureDP, Unit

CANARY = "zzcanaryzz"
ROWS = 200
SCHEMA = """
columns:
  - {name: grade, kind: ordinal, values: [a, b, c]}
  - {name: sex, kind: categorical, values: [f, m]}
  - {name: age, kind: integer, unit: years, bins: ["<30", 30-44, "44<"], decode_by: label}
"""
SPEC = """
name: staff
source: {path: staff.csv}
schema: schema.yaml
unit: replace-one
cleaning: [age >= 18]
public: {row_count: {epsilon: 1}, expected_rows: 200}
synthesizers: [{method: gaussian, options: {workload: all-2way}}]
acceptance:
  form: pass-only
  epsilon: 5
  criteria: [{name: cells, kind: max-marginal-error, threshold: 0.5}]
selection: SELECTION
budget: {total: {epsilon: TOTAL}, model: {epsilon: 4}}
"""
_PEOPLE = (
    "{name: people, key: who, source: people.csv, columns: [{name: sex, kind: categorical, values: [f, m]}]}"
)
_VISITS = "{name: visits, belongs_to: people, source: visits.csv, order: day, max_events: 6, columns: [{name: day, kind: integer, minimum: 0, maximum: 29, bins: 3}, {name: urgent, kind: boolean}]}"
_BILLS = "{name: bills, belongs_to: people, source: bills.csv, max_events: 3, columns: [{name: paid, kind: boolean}]}"
REGISTERS = {
    "register.yaml": f"tables: [{_PEOPLE}, {_VISITS}]",
    "several.yaml": f"tables: [{_PEOPLE}, {_VISITS}, {_BILLS}]",
}
LINKED_SPEC = """
name: staff
source: {table: register}
schema: register.yaml
unit: {relation: add-remove, id_column: who, max_rows: 2}
public: {row_count: {epsilon: 1}}
synthesizers: [{method: mst}]
acceptance:
  form: published
  criteria:
    - {name: urgent, kind: event-rates, column: urgent, values: ["true"], threshold: 0.9, epsilon: 2}
    - {name: number, kind: mean-events, threshold: 4, epsilon: 2}
selection: SELECTION
budget: {total: {epsilon: TOTAL}, model: {epsilon: 4}}
"""


@dataclass(frozen=True)
class Job:
    """One command that the harness runs."""

    name: str
    command_line: tuple[str, ...]
    unit: Unit
    budget: Budget
    roomy: Budget
    selection: str = "{rule: single}"
    total: float = 10.0
    spec: str = SPEC
    table: str = "staff.csv"

    @property
    def is_release(self) -> bool:
        return self.command_line[0] == "release"


_ENTITY = Unit.add_remove_person("who", max_rows=2)
_SYNTH = ("synth", "staff.csv", "--schema", "schema.yaml", "--ledger", "staff.ledger", "--rows", "150")
JOBS = {
    job.name: job
    for job in (
        *(
            Job(
                f"synth {method}",
                (*_SYNTH, "--method", method, "--epsilon", "1", "--delta", "1e-6", "--unit", "add-remove",
                 "--out", "out.csv", "--model", "out.understudy"),
                Unit.add_remove(), ApproxDP(1.0, 1e-6), ApproxDP(9.0, 1e-6),
            )
            for method in ("aim", "mst", "privbayes", "privsyn", "rap")
        ),
        Job(
            "synth independent",
            (*_SYNTH, "--method", "independent", "--epsilon", "1", "--unit", "replace-one",
             "--out", "out.parquet", "--model", "out.understudy"),
            Unit.replace_one(), PureDP(1.0), PureDP(9.0),
        ),
        Job(
            "release single",
            ("release", "spec.yaml", "--out", "bundle", "--ledger", "staff.ledger", "--yes"),
            Unit.replace_one(), PureDP(10.0), PureDP(50.0),
        ),
        Job(
            "release loop",
            ("release", "spec.yaml", "--out", "bundle", "--ledger", "staff.ledger", "--yes"),
            Unit.replace_one(), PureDP(11.61), PureDP(60.0),
            selection="{rule: until-accepted, gamma: 0.2}", total=11.61,
        ),
        *(
            Job(
                f"synth {file}",
                ("synth", file, "--ledger", "staff.ledger", "--method", "mst", "--epsilon", "1", "--unit", "add-remove",
                 "--id-column", "who", "--max-rows-per-person", "2", "--out", "made/"),
                _ENTITY, PureDP(1.0), PureDP(9.0), table=file.removesuffix(".yaml"),
            )
            for file in REGISTERS
        ),
        Job(
            "release of linked tables",
            ("release", "spec.yaml", "--out", "bundle", "--ledger", "staff.ledger", "--yes"),
            _ENTITY, PureDP(10.0), PureDP(50.0), spec=LINKED_SPEC, table="register",
        ),
    )
}  # fmt: skip


def table() -> pd.DataFrame:
    """A tiny private table. Its last column is not in the schema and holds nothing but canaries."""
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "grade": generator.choice(["a", "b", "c"], ROWS),
            "sex": generator.choice(["f", "m"], ROWS),
            "age": generator.integers(18, 70, ROWS),
            "secret": [f"{CANARY}{number}" for number in range(ROWS)],
        }
    )


def tables() -> dict[str, pd.DataFrame]:
    """All private tables by their files, none of them with more than one canary in a row that is read."""
    generator = np.random.default_rng(1)
    keys = [f"{CANARY}{number}" for number in range(60)]
    who = {name: generator.choice(keys, rows) for name, rows in (("visits", 110), ("bills", 70))}
    return {
        "staff.csv": table(),
        "people.csv": pd.DataFrame({"who": keys, "sex": generator.choice(["f", "m"], 60)}),
        "visits.csv": pd.DataFrame(
            {
                "who": who["visits"],
                "day": generator.integers(0, 30, 110),
                "urgent": generator.random(110) < 0.3,
            }
        ),
        "bills.csv": pd.DataFrame({"who": who["bills"], "paid": generator.random(70) < 0.8}),
    }


def prepare(folder: Path, job: Job, *, roomy: bool) -> None:
    """Lay out a job: table, schema, specification and, with ``roomy``, a ledger for more than one run.

    What the program remembers of tables goes to a folder of this job: all jobs have the same one.
    """
    home = folder.with_name(f"{folder.name}-home")
    shutil.rmtree(home, ignore_errors=True)
    os.environ["UNDERSTUDY_HOME"] = str(home)
    folder.mkdir(exist_ok=True)
    for name, content in tables().items():
        content.to_csv(folder / name, index=False)
    for name, described in REGISTERS.items():
        (folder / name).write_text(described, encoding="utf-8")
    (folder / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    text = job.spec.replace("SELECTION", job.selection).replace("TOTAL", str(job.total))
    (folder / "spec.yaml").write_text(text, encoding="utf-8")
    if roomy:
        Ledger.create(folder / "staff.ledger", budget=job.roomy, unit=job.unit, table=job.table)


@dataclass(frozen=True)
class Outcome:
    """How one run of a job ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code < 0


def start_job(
    folder: Path,
    side: Path,
    command_line: tuple[str, ...],
    *,
    inside: Callable[[child.Witness], None] | None = None,
) -> int:
    """Start a command in a forked process that has everything imported already; return its number.

    ``inside`` is called in the child, last before the command.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child runs nothing but the command
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        number = os.fork()
    if number:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return number
    code = 97
    try:
        os.umask(0o022)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        witness = child.Witness(side, folder / "staff.ledger")
        child.install(witness)
        arm = (lambda: None) if inside is None else (lambda: inside(witness))
        code = child.run_command(list(command_line), out=side / "out", err=side / "err", arm=arm)
    except BaseException:
        with open(side / "escaped", "w", encoding="utf-8") as file:
            traceback.print_exc(file=file)
    finally:
        os._exit(code)


def run_job(
    folder: Path,
    side: Path,
    command_line: tuple[str, ...],
    *,
    inside: Callable[[child.Witness], None] | None = None,
    outside: Callable[[int], None] | None = None,
    patience: float = 120.0,
) -> Outcome:
    """Run a command as `start_job` does and wait for it; ``outside`` is called with its number meanwhile."""
    start = time.perf_counter()
    number = start_job(folder, side, command_line, inside=inside)
    if outside is not None:
        outside(number)
    code = wait_for(number, patience)
    texts = [(side / n).read_text("utf-8", "replace") if (side / n).exists() else "" for n in ("out", "err")]
    return Outcome(code, texts[0], texts[1], time.perf_counter() - start)


def wait_for(number: int, patience: float) -> int:
    """Wait for a child; a child that does not end in time is a hang, reported as code 98."""
    end = time.perf_counter() + patience
    while True:
        done, status = os.waitpid(number, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.perf_counter() > end:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            return 98
        time.sleep(0.005)


# ------------------------------------------------------------------ faults


def signal_later(which: signal.Signals, seconds: float) -> Callable[[int], None]:
    """Send a signal after some time, unless the process has ended by then."""

    def send(number: int) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            if os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return
            time.sleep(min(0.002, max(0.0, end - time.perf_counter())))
        os.kill(number, which)

    return send


def freeze_later(folder: Path, seconds: float) -> Callable[[int], None]:
    """Take the permission to write away from a folder and what is in it."""

    def freeze(number: int) -> None:
        time.sleep(seconds)
        for path in (folder, *folder.rglob("*")):
            if path.exists() and not path.is_symlink():
                try:
                    path.chmod(path.stat().st_mode & ~0o222)
                except FileNotFoundError:
                    continue

    return freeze


def thaw(folder: Path) -> None:
    """Give the permission to write back."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


class SmallDisk:
    """A file system of its own; needs the right to mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def possible() -> bool:
        """Say whether this process may mount."""
        return os.getuid() == 0 and shutil.which("mount") is not None

    def __enter__(self) -> SmallDisk | None:
        self.folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(self.folder)]
        done = subprocess.run(command, capture_output=True, check=False)
        self.mounted = done.returncode == 0
        return self if self.mounted else None

    def leave(self, kilobytes: int) -> None:
        """Leave so much room beside what is on the disk now."""
        disk = os.statvfs(self.folder)
        used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize // 1024
        self._resize(f"{used + kilobytes}k")

    def more_room(self) -> None:
        """Give the disk plenty of room."""
        self._resize("64m")

    def _resize(self, size: str) -> None:
        command = ["mount", "-o", f"remount,size={size}", str(self.folder)]
        subprocess.run(command, capture_output=True, check=True)

    def __exit__(self, *_: object) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, check=True)


def lose_unflushed(folder: Path, side: Path, generator: random.Random) -> int:
    """Cut every file at a random byte since it was last flushed, as a power cut may; return how many were cut.

    Renames and removals are taken to have reached the disk: that is the worst case for a file that was
    renamed into place without having been flushed. The ledger is left to its own test.
    """
    flushed: dict[int, int] = {}
    log = side / "flushes"
    for line in log.read_text().splitlines() if log.exists() else ():
        inode, size = map(int, line.split())
        flushed[inode] = max(size, flushed.get(inode, 0))
    cut = 0
    laid_out = {*tables(), *REGISTERS, "schema.yaml", "spec.yaml", "room"}
    for path in sorted(folder.rglob("*")):
        given = path.name == "lock" or (path.parent == folder and path.name in laid_out)
        if path.is_dir() or given or path.name.startswith("staff.ledger"):
            continue
        facts = path.stat()
        safe = flushed.get(facts.st_ino, 0)
        if facts.st_size > safe:
            os.truncate(path, generator.randint(safe, facts.st_size - 1))
            cut += 1
    return cut
