"""Kills, interrupts, full disks, read-only folders, power cuts and lack of memory at random instants.

``python -m benchmarks.trust.faults`` is the long form (500 kills and 60 or more of every other kind);
``python -m benchmarks.trust.faults --quick`` takes about a minute; ``--programs 300`` interrupts whole programs. Exit code 1 if anything that must never happen did.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from benchmarks.trust import _faults_child as child
from benchmarks.trust._faults_cases import (
    JOBS,
    Job,
    SmallDisk,
    freeze_later,
    lose_unflushed,
    prepare,
    run_job,
    signal_later,
    thaw,
)
from benchmarks.trust._faults_check import check_case
from benchmarks.trust._faults_program import hammer
from understudy.errors import UnderstudyError

LONG = {
    "kill": 500,
    "kill at a step": 120,
    "interrupt": 60,
    "interrupt at a step": 40,
    "disk full": 40,
    "file limit": 40,
    "read-only": 40,
    "power cut": 80,
    "memory": 40,
}
QUICK = dict.fromkeys(LONG, 2) | {"kill": 8, "kill at a step": 4}


@dataclass
class Tally:
    """What happened in the cases of one kind of fault."""

    cases: int = 0
    struck: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Measured:
    """How long a job takes undisturbed, and how many steps that touch files it makes."""

    seconds: float
    steps: int


def warm_up(place: Path) -> dict[str, Measured]:
    """Import and compile everything here once, then measure each job in a forked process."""
    import understudy.cli.commands.release
    import understudy.cli.commands.synth  # noqa: F401
    from understudy.cli import main as commands
    from understudy.cli.main import app
    from understudy.release.bundle import bundle, verify  # noqa: F401

    commands.register(app)
    found = {}
    for name, job in JOBS.items():
        folder, side = rooms(place)
        prepare(folder, job, roomy=False)
        _run_here(folder, job.command_line)
        _clear(folder, side)
        times = []
        for turn in range(2):
            folder, side = rooms(place)
            prepare(folder, job, roomy=False)
            steps = side / "steps"
            last = turn == 1

            def count(witness: child.Witness, steps: Path = steps) -> None:
                child.at_step(0, lambda: None, witness=witness, steps=steps)

            outcome = run_job(folder, side, job.command_line, inside=count if last else None)
            if outcome.code not in (0, 3):
                raise RuntimeError(f"{name} does not run undisturbed: {outcome.code} {outcome.err}")
            times.append(outcome.seconds)
        found[name] = Measured(min(times), int(steps.read_text()))
        _clear(folder, side)
    return found


def _run_here(folder: Path, command_line: tuple[str, ...]) -> None:
    """Run a command in this process and throw away what it says."""
    from understudy.cli.main import run

    before, silence = Path.cwd(), io.StringIO()
    os.chdir(folder)
    try:
        with (
            patch.object(sys, "argv", ["understudy", *command_line]),
            contextlib.redirect_stdout(silence),
            contextlib.redirect_stderr(silence),
            contextlib.suppress(SystemExit),
        ):
            run()
    finally:
        os.chdir(before)


def one_case(
    kind: str, job: Job, measured: Measured, place: Path, generator: random.Random
) -> tuple[bool, str]:
    """Run one case; return whether the fault struck before the end, and how going on ended."""
    roomy = generator.random() < 0.5
    moment = generator.uniform(0, 1.1 * measured.seconds)
    step = generator.randint(1, measured.steps)
    folder, side = rooms(place)
    try:
        if kind == "disk full":
            return _on_small_disk(job, folder, side, generator)
        prepare(folder, job, roomy=roomy)
        inside: Callable[[child.Witness], None] | None = None
        outside: Callable[[int], None] | None = None
        if kind == "kill":
            outside = signal_later(signal.SIGKILL, moment)
        elif kind == "interrupt":
            outside = signal_later(signal.SIGINT, moment)
        elif kind in ("kill at a step", "power cut"):
            inside = _at(step, signal.SIGKILL)
        elif kind == "interrupt at a step":
            inside = _at(step, signal.SIGINT)
        elif kind == "memory":
            room = generator.choice((0, 0, 0.2, 1))
            inside = lambda witness: child.at_step(  # noqa: E731
                step, lambda: child.less_memory(room), witness=witness
            )
        elif kind == "file limit":
            size = generator.choice((0, 4096, 8192, 12288, 16384, 20480, 30000))
            inside = lambda witness: child.at_step(  # noqa: E731
                step, lambda: child.smaller_files(size), witness=witness
            )
        elif kind == "read-only":
            inside = lambda witness: child.without_privileges()  # noqa: E731
            outside = freeze_later(folder, moment)
        outcome = run_job(folder, side, job.command_line, inside=inside, outside=outside)
        if kind == "read-only":
            thaw(folder)
        if kind == "power cut":
            lose_unflushed(folder, side, generator)
        ending = check_case(
            folder, side, job, outcome, roomy=roomy, memory=kind == "memory", rests=kind == "read-only"
        )
        return outcome.code not in (0, 3), ending
    finally:
        _clear(folder, side)


def _on_small_disk(job: Job, folder: Path, side: Path, generator: random.Random) -> tuple[bool, str]:
    with SmallDisk(folder) as disk:
        if disk is None:
            return False, "no right to mount"
        prepare(folder, job, roomy=False)
        disk.leave(generator.randint(4, 120))
        outcome = run_job(folder, side, job.command_line)
        disk.more_room()
        ending = check_case(folder, side, job, outcome, roomy=False)
        return outcome.code not in (0, 3), ending


def _at(step: int, which: signal.Signals) -> Callable[[child.Witness], None]:
    return lambda witness: child.at_step(step, lambda: os.kill(os.getpid(), which), witness=witness)


def rooms(place: Path) -> tuple[Path, Path]:
    """Return a folder for the job and one for the witness, both open to everybody."""
    base = Path(tempfile.mkdtemp(dir=place))
    base.chmod(0o755)
    side = base / "side"
    side.mkdir(mode=0o777)
    side.chmod(0o777)
    return base / "job", side


def _clear(folder: Path, side: Path) -> None:
    shutil.rmtree(folder.parent, ignore_errors=True)


def run_all(
    counts: dict[str, int], *, seed: int, say: Callable[[str], None], kinds: list[str] | None = None
) -> dict[str, Tally]:
    """Run so many cases of each kind, spread over the jobs; return what happened."""
    generator = random.Random(seed)
    place = Path(tempfile.mkdtemp(prefix="understudy-faults-"))
    place.chmod(0o755)
    tallies = {}
    try:
        measured = warm_up(place)
        for name, facts in measured.items():
            say(f"{name}: {facts.seconds:.2f} s and {facts.steps} steps undisturbed")
        jobs = list(JOBS.values())
        for kind, count in counts.items():
            if kinds and kind not in kinds:
                continue
            if kind == "disk full" and not SmallDisk.possible():
                say("disk full: needs the right to mount, left out")
                continue
            tally = tallies[kind] = Tally()
            start = time.perf_counter()
            for number in range(count):
                job = jobs[number % len(jobs)]
                case_seed = generator.randrange(2**32)
                try:
                    struck, ending = one_case(kind, job, measured[job.name], place, random.Random(case_seed))
                    tally.struck += struck
                    tally.endings[ending] += 1
                except (AssertionError, UnderstudyError, OSError, ValueError) as fault:
                    tally.failures.append(
                        f"{kind}, {job.name}, case {case_seed}: {type(fault).__name__}: {fault}"
                    )
                    say(tally.failures[-1])
                    if os.environ.get("UNDERSTUDY_FAULTS_TRACE"):
                        say(traceback.format_exc())
                tally.cases += 1
            seconds = time.perf_counter() - start
            say(
                f"{kind}: {tally.cases} cases, {tally.struck} struck, {len(tally.failures)} failures, "
                f"{dict(tally.endings)}, {seconds:.0f} s"
            )
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return tallies


def interrupt_programs(count: int, *, seed: int) -> int:
    """Interrupt whole programs, from the start of the interpreter to its end, and tell how they ended."""
    with tempfile.TemporaryDirectory() as place:
        result = hammer(count, seed=seed, place=Path(place))
    print(
        f"programs: {result.cases} cases, {result.struck} struck, codes {dict(result.codes)} (by the signal itself: at most "
        f"{result.early:.2f} s after the start), {result.before_ours} before a line of ours, {len(result.failures)} failures"
    )
    for failure in result.failures:
        print(f"  {failure}")
    return 1 if result.failures else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few cases of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", choices=list(LONG), help="only this kind of fault")
    parser.add_argument("--kills", action="store_true", help="only kills: 300 at random and 100 at a step")
    parser.add_argument("--count", type=int, help="so many cases of each kind")
    parser.add_argument("--programs", type=int, help="only interrupts of so many programs, from their start")
    parser.add_argument("--json", type=Path, help="write the tallies to this file")
    chosen = parser.parse_args(arguments)
    if chosen.programs is not None:
        return interrupt_programs(chosen.programs, seed=chosen.seed)
    counts = QUICK if chosen.quick else LONG
    if chosen.count is not None:
        counts = dict.fromkeys(counts, chosen.count)
    if chosen.kills:
        counts = {"kill": 300, "kill at a step": 100}
    tallies = run_all(counts, seed=chosen.seed, kinds=chosen.kind, say=lambda text: print(text, flush=True))
    if chosen.json is not None:
        plain = {kind: vars(tally) | {"endings": dict(tally.endings)} for kind, tally in tallies.items()}
        chosen.json.write_text(json.dumps(plain, indent=1), encoding="utf-8")
    return 1 if any(tally.failures for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
