"""Spoilt files for every reader: schema, specification, CSV, Parquet, model, ledger, bundle.

``python -m benchmarks.trust.fuzz`` gives each reader 10,000 cases; ``--count 300`` or ``--quick`` fewer. Files are spoilt by
mutation of good ones; every eighth case is traced, and cases that reach lines of Understudy not seen before
join the files that are spoilt further. A finding is an error that is not one of ours, a private value in a
message, a case that takes longer than the limit, or a process that dies. A case that does not even return to Python, so that
no timer can end it, is killed from outside, kept, and reported with the place where it hangs.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.trust._faults_child import run_command
from benchmarks.trust._fuzz_readers import CANARY, NUMBER, READERS, Case, Reader
from understudy.errors import UnderstudyError

SECONDS = 10.0
"""Of processor time for one case, so that a busy machine is no finding."""
STUCK = 30 * SECONDS
"""After so long on one case by the clock, command line included, the process is killed: its own timer did not help."""
MEMORY = 4 << 30
TRACE_EVERY = 8
_ROOT = str(Path(__file__).resolve().parents[2] / "src" / "understudy")


class TooLong(BaseException):
    """A case did not end in time."""


@dataclass
class Report:
    """What the cases of one reader ended in."""

    reader: str
    cases: int = 0
    read: int = 0
    refused: int = 0
    commands: int = 0
    lines: int = 0
    corpus: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return vars(self) | {"errors": dict(self.errors)}


def lay_out(case: Case, folder: Path) -> None:
    """Write a case into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in case.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def tells(text: str) -> bool:
    """Say whether a text holds a private value."""
    return CANARY in text or str(NUMBER) in text


def try_case(reader: Reader, folder: Path, *, seconds: float = SECONDS) -> tuple[str, str | None]:
    """Read one case; return what it ended in, and the finding if there is one."""

    def late(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return _tried(reader, folder)
    except TooLong:
        return "hang", f"took longer than {seconds:g} s"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _tried(reader: Reader, folder: Path) -> tuple[str, str | None]:
    try:
        with warnings.catch_warnings(record=True) as reported:
            warnings.simplefilter("always")
            reader.read(folder)
        if reader.private and any(tells(str(item.message)) for item in reported):
            return "leak", "a warning holds a private value"
        return "read", None
    except UnderstudyError as error:
        shown = "".join(traceback.format_exception(error)) + str(error) + repr(error)
        if reader.private and tells(shown):
            return "leak", f"a message holds a private value: {type(error).__name__}"
        return type(error).__name__, None
    except TooLong:
        raise
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)
        ours = [item for item in place if item.filename.startswith(_ROOT)] or place
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        return "escaped", f"{type(error).__name__} at {where}: {str(error)[:200]}"


def try_command(command_line: list[str], folder: Path) -> str | None:
    """Run the command line on a case in a process of its own; return the finding if there is one."""
    out, err = folder.parent / "out", folder.parent / "err"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        number = os.fork()
    if number == 0:
        code = 97
        try:
            code = run_command(command_line, out=out, err=err, arm=lambda: None)
        finally:
            os._exit(code)
    end = time.perf_counter() + STUCK / 2
    while not os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if time.perf_counter() > end:
            os.kill(number, signal.SIGKILL)
            break
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    text = out.read_text("utf-8", "replace") + err.read_text("utf-8", "replace")
    if code not in (0, 3, 4, 5, 6):
        return f"the command {command_line[0]} ended with code {code}: {text[-200:]}"
    if "Traceback" in text:
        return f"the command {command_line[0]} printed a traceback"
    if tells(text):
        return f"the command {command_line[0]} printed a private value"
    return None


class Tracer:
    """Collects the lines of Understudy that a case reaches."""

    def __init__(self) -> None:
        self.seen: set[tuple[Any, int]] = set()
        self.fresh = 0

    def __enter__(self) -> Tracer:
        self.fresh = 0
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(_ROOT) else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        place = (frame.f_code, frame.f_lineno)
        if place not in self.seen:
            self.seen.add(place)
            self.fresh += 1
        return self._line


def fuzz(
    reader: Reader,
    count: int,
    *,
    seed: int,
    place: Path,
    command_every: int = 200,
    keep: Path | None = None,
    begin: Callable[[], None] = lambda: None,
    note: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Try so many spoilt cases of one reader in this process.

    Parameters
    ----------
    begin, note
        Called before every case and after it.
    """
    generator = random.Random(seed)
    report, tracer = Report(reader.name), Tracer()
    corpus = list(reader.seeds)
    folder = place / "case"
    start = time.perf_counter()
    for case in corpus:  # the good ones must be read
        begin()
        lay_out(case, folder)
        with tracer:
            ending, finding = try_case(reader, folder, seconds=20 * SECONDS)
        if ending != "read":
            report.findings.append(f"a good file was not read: {ending} {finding or ''}")
    for number in range(count):
        begin()
        try:
            start_from = corpus if generator.random() < 0.5 else reader.seeds
            case = reader.spoil(generator.choice(start_from), generator, corpus)
        except (
            RecursionError,
            OverflowError,
            ValueError,
        ):  # a kept case too deep or large to be spoilt further
            case = reader.spoil(generator.choice(reader.seeds), generator, reader.seeds)
        lay_out(case, folder)
        begun = time.process_time()
        if number % TRACE_EVERY == 0:
            with tracer:
                ending, finding = try_case(reader, folder, seconds=5 * SECONDS)
            if tracer.fresh and len(corpus) < 2000:
                corpus.append(case)
        else:
            ending, finding = try_case(reader, folder)
            report.slowest = max(report.slowest, time.process_time() - begun)
        command_line = reader.command(folder) if command_every and number % command_every == 0 else []
        if command_line and finding is None:
            lay_out(case, folder)
            finding = try_command(command_line, folder)
            report.commands += 1
        report.cases += 1
        report.errors[ending] += 1
        report.read += ending == "read"
        report.refused += ending not in ("read", "leak", "hang", "escaped")
        if finding is not None:
            report.findings.append(f"case {number} of seed {seed}: {finding}")
            if keep is not None:
                lay_out(case, keep / f"{reader.name}-{seed}-{number}")
        report.lines, report.corpus = len(tracer.seen), len(corpus)
        report.seconds = time.perf_counter() - start
        note(report)
    return report


def fuzz_apart(name: str, count: int, *, seed: int, keep: Path | None = None) -> Report:
    """Fuzz a reader in forked processes, so that one that dies, hangs or eats the memory is a finding too.

    After such a finding the rest of the cases is made from another seed.
    """
    import_commands()
    reader, whole, start = READERS[name](), Report(name), time.perf_counter()
    for turn in range(_MOST_TURNS):
        part = _watched(reader, count - whole.cases, seed=seed + 1_000_003 * turn, keep=keep)
        whole = _joined(whole, part)
        whole.seconds = time.perf_counter() - start
        if whole.cases >= count:
            break
    return whole


_MOST_TURNS = 20


def _joined(one: Report, two: Report) -> Report:
    """Add up two reports on one reader."""
    added = ("cases", "read", "refused", "commands", "errors", "findings")
    return Report(
        reader=one.reader,
        lines=max(one.lines, two.lines),
        corpus=max(one.corpus, two.corpus),
        slowest=max(one.slowest, two.slowest),
        **{key: getattr(one, key) + getattr(two, key) for key in added},
    )


def _watched(reader: Reader, count: int, *, seed: int, keep: Path | None) -> Report:
    """Fuzz in one forked process and watch it: its last report, and how it ended."""
    place = Path(tempfile.mkdtemp(prefix="understudy-fuzz-"))
    reported, stack = place / "report.json", place / "stack"
    clock = mmap.mmap(-1, 8)  # shared with the child: when its case began

    def begin() -> None:
        clock[:] = struct.pack("d", time.monotonic())

    begin()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            number = os.fork()
        if number == 0:
            code = 1
            try:
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY + _size(), resource.RLIM_INFINITY))
                faulthandler.register(signal.SIGUSR1, file=stack.open("w"), all_threads=False)
                last = [0.0]

                def note(report: Report) -> None:
                    if time.perf_counter() - last[0] > 1 or report.cases == count:
                        last[0] = time.perf_counter()
                        reported.write_text(json.dumps(report.plain()))

                fuzz(reader, count, seed=seed, place=place, keep=keep, begin=begin, note=note)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        stuck = False
        while not os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if time.monotonic() - struct.unpack("d", clock[:])[0] > STUCK:
                stuck = True
                os.kill(number, signal.SIGUSR1)
                time.sleep(1.0)
                os.kill(number, signal.SIGKILL)
                break
            time.sleep(0.1)
        code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        plain = json.loads(reported.read_text()) if reported.exists() else {"reader": reader.name}
        report = Report(**(plain | {"errors": Counter(plain.get("errors", {}))}))
        if code != 0:
            report.cases += 1
            how = f"hung for {STUCK:g} s in {_place(stack)}" if stuck else f"made the process die ({code})"
            report.findings.append(f"case near {report.cases} of seed {seed}: {how}")
            if keep is not None and (place / "case").exists():
                shutil.copytree(place / "case", keep / f"{reader.name}-{seed}-died", dirs_exist_ok=True)
        return report
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _place(stack: Path) -> str:
    """Return the innermost function of Understudy that was running, from a written stack."""
    lines = stack.read_text("utf-8", "replace").splitlines() if stack.exists() else []
    ours = [line.strip() for line in lines if _ROOT in line] or [line.strip() for line in lines[1:2]]
    return ours[0].replace(_ROOT, "")[:200] if ours else "an unknown place"


def import_commands() -> None:
    """Import what commands import when they run, once for all processes to be forked."""
    import rich.console  # noqa: F401

    import understudy.data
    import understudy.release.bundle.verify  # noqa: F401
    from understudy.cli import main as commands
    from understudy.cli import output as _output  # noqa: F401
    from understudy.cli.main import app

    commands.register(app)


def _size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust.fuzz", description=__doc__)
    parser.add_argument("readers", nargs="*", help="only these readers")
    parser.add_argument("--count", type=int, default=10_000, help="cases per reader")
    parser.add_argument("--quick", action="store_true", help="200 cases per reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the cases behind findings")
    parser.add_argument("--json", type=Path, help="write the reports to this file")
    chosen = parser.parse_args(arguments)
    if chosen.keep is not None:
        chosen.keep.mkdir(exist_ok=True, parents=True)
    if Path("/dev/shm").is_dir():
        tempfile.tempdir = "/dev/shm"  # small files by the ten thousand: memory is kinder than a disk
    reports = []
    for name in chosen.readers or READERS:
        report = fuzz_apart(name, 200 if chosen.quick else chosen.count, seed=chosen.seed, keep=chosen.keep)
        reports.append(report)
        print(
            f"{name}: {report.cases} cases, {report.read} read, {report.refused} refused, {report.commands} by the "
            f"command line, {report.lines} lines reached, {report.corpus} files kept, slowest {report.slowest:.2f} s, "
            f"{report.seconds:.0f} s in all, {len(report.findings)} findings",
            flush=True,
        )
        for finding, times in Counter(
            item.partition(": ")[2] or item for item in report.findings
        ).most_common(25):
            print(f"  {times} x {finding}", flush=True)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps([report.plain() for report in reports], indent=1), encoding="utf-8")
    return 1 if any(report.findings for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
