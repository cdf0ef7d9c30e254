"""Interrupts of the program itself, started as a user starts it: during imports, compilation, writing and the end.

The harness in `faults` hurts a process that has imported and compiled everything before, to reach many instants of the command
itself. Here every case is a new interpreter, so that an interrupt also hits start-up, the first compilation (some
cases have an empty cache) and the end of the interpreter. Some cases are interrupted twice.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.trust._faults_cases import JOBS, Job, prepare

SCRIPT = "import sys\nfrom understudy.cli.entry import main\nsys.argv[0] = 'understudy'\nsys.exit(main())\n"
"""What an installer writes into the console script."""
_BAD = ("Traceback", "KeyboardInterrupt", "Exception ignored", "unexpected")
_SECONDS = 300.0
_COLD = 0.06
"""Share of cases with an empty cache: compiling everything takes half a minute."""


@dataclass
class Struck:
    """What the interrupts ended in."""

    cases: int = 0
    struck: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    before_ours: int = 0
    early: float = 0.0
    failures: list[str] = field(default_factory=list)


def run_program(
    folder: Path, command_line: tuple[str, ...], *, cache: Path | None = None, moments: tuple[float, ...] = ()
) -> tuple[int, str, float, bool]:
    """Start the program, interrupt it at the given seconds; return code, words, time, and whether a signal was sent."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *command_line],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}),
        start_new_session=True,
        preexec_fn=_listen,
    )
    sent = False
    for moment in moments:
        try:
            process.wait(max(0.0, start + moment - time.perf_counter()))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            sent = True
    try:
        out, err = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err += b"\nunexpected: it did not end"
    text = (out + err).decode("utf-8", "replace")
    return process.returncode, text, time.perf_counter() - start, sent


def _listen() -> None:
    """Undo what a shell does to commands in the background, whose interrupts it has ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def judge(code: int, text: str, sent: bool) -> str | None:
    """Return what is wrong with an ending, if anything."""
    if any(word in text for word in _BAD):
        return f"code {code}: {text[-1500:]}"
    if sent and code not in (130, -signal.SIGINT, 0, 3):  # 0 and 3: it had ended before the signal came
        return f"an interrupted program ended with code {code}: {text[-500:]}"
    if not sent and code not in (0, 3):
        return f"an undisturbed program ended with code {code}: {text[-500:]}"
    if code == 130 and "Interrupted." not in text:
        return "an interrupt was not told"
    return None


def hammer(count: int, *, seed: int, place: Path, jobs: tuple[Job, ...] = tuple(JOBS.values())) -> Struck:
    """Interrupt that many programs, each at an instant of its own."""
    generator = random.Random(seed)
    result = Struck()
    lengths: dict[str, float] = {}
    for number in range(count):
        job = jobs[number % len(jobs)]
        cold = generator.random() < _COLD
        cache = place / "cold" if cold else None
        if job.name not in lengths:
            lengths[job.name] = min(_undisturbed(place, job, result) for _ in range(2))
        shutil.rmtree(place / "cold", ignore_errors=True)
        length = lengths[job.name] * (generator.choice((1, 4)) if cold else 1)
        aim = generator.random()
        low, high = (0.0, 0.4) if aim < 0.5 else (0.85, 1.1) if aim < 0.75 else (0.0, 1.1)
        moment = length * generator.uniform(low, high)
        again = (moment + generator.expovariate(50.0),) if generator.random() < 0.3 else ()
        folder = _laid_out(place, job)
        code, text, _, sent = run_program(folder, job.command_line, cache=cache, moments=(moment, *again))
        result.cases += 1
        result.struck += sent
        result.codes[code] += sent
        if code == -signal.SIGINT:
            result.early = max(result.early, moment)
        wrong = judge(code, text, sent)
        if wrong and sent and "understudy/" not in text and "understudy\\" not in text:
            result.before_ours += 1  # the interpreter had not come to a line of ours
        elif wrong:
            result.failures.append(
                f"case {number} ({job.name}, {'cold' if cold else 'warm'}, {moment:.2f} s): {wrong}"
            )
    return result


def _undisturbed(place: Path, job: Job, result: Struck) -> float:
    """Return how long a job takes by itself."""
    code, text, seconds, _ = run_program(_laid_out(place, job), job.command_line)
    wrong = judge(code, text, False)
    if wrong:
        result.failures.append(wrong)
    return seconds


def _laid_out(place: Path, job: Job) -> Path:
    folder = place / "work"
    shutil.rmtree(folder, ignore_errors=True)
    prepare(folder, job, roomy=False)
    return folder
