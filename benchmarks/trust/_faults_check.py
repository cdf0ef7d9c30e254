"""What must hold after a fault: no uncharged draw, nothing half written, records untouched, work that can go on."""

from __future__ import annotations

import json
import random
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.trust._faults_cases import CANARY, JOBS, Job, Outcome, run_job, tables
from understudy.curator.journal import _whole_lines
from understudy.data import read_frame
from understudy.mechanisms import Model
from understudy.privacy import Event, Ledger
from understudy.release.bundle.verify import verify_bundle
from understudy.release.spec.spec import Spec
from understudy.schema import Schema

RESULTS = ("out.csv", "out.parquet", "made")
"""What fits write."""
CODES = {0, 1, 3, 4, 5, 6, 130}
_GROUPS = ("Composed", "Parallel")


class Fault(AssertionError):
    """Something that must never happen did."""


def flat(event: Event) -> list[Event]:
    """The plain events inside an event."""
    if type(event).__name__ in _GROUPS:
        return [leaf for part in event.events for leaf in flat(part)]  # type: ignore[attr-defined]
    return [event]


def charged(entries: Any) -> Counter[tuple[str, float]]:
    """Count the charges by the noise they paid for."""
    found: Counter[tuple[str, float]] = Counter()
    for entry in entries:
        for event in [] if entry.event is None else flat(entry.event):
            kind = type(event).__name__
            if kind == "GaussianEvent":
                found["Gaussian", event.sigma] += 1  # type: ignore[attr-defined]
            elif kind == "LaplaceEvent":
                found["Laplace", event.scale] += 1  # type: ignore[attr-defined]
            elif kind in ("SelectionEvent", "PureEvent"):
                name = "exponential_mechanism" if kind == "SelectionEvent" else "permute_and_flip"
                found[name, event.epsilon] += 1  # type: ignore[attr-defined]
    return found


def drawn(side: Path) -> list[dict[str, Any]]:
    """Every draw of noise that was made, or was about to be."""
    log = side / "draws"
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines]


def check_ledger(folder: Path, side: Path, *, spec: Spec | None) -> int:
    """Check that every draw was charged, and before it was made; return how many draws there were."""
    draws = drawn(side)
    path = folder / "staff.ledger"
    if not path.exists():
        if draws:
            raise Fault("noise was drawn without a ledger")
        return 0
    with Ledger.open(path) as book:
        book.verify()
        if not book.rule.holds(book.spending):
            raise Fault("the ledger is overspent")
        _covered(draws, book.entries(), spec, "at the end")
    copy = side / "copy.ledger"
    for index, line in enumerate(draws):
        if line["open"]:
            raise Fault(f"draw {index} was made while the ledger's transaction was still open")
        copy.write_bytes((side / line["image"]).read_bytes())
        with Ledger.open(copy) as then:
            _covered(draws[: index + 1], then.entries(), spec, f"at draw {index}")
    copy.unlink(missing_ok=True)
    return len(draws)


def _covered(draws: list[dict[str, Any]], entries: Any, spec: Spec | None, when: str) -> None:
    outside = Counter((line["kind"], line["scale"]) for line in draws if not line["attempt"])
    missing = outside - charged(entries)
    if missing:
        raise Fault(f"{when}: {missing.total()} draws were not charged")
    if any(line["attempt"] for line in draws):
        whole = None if spec is None else spec.shares.selection_event
        if not any(entry.event == whole and entry.scope.endswith("/selection") for entry in entries):
            raise Fault(f"{when}: an attempt drew noise before the selection was charged")


def check_files(folder: Path, *, killed: bool) -> dict[str, bool]:
    """Check that what looks complete is complete; return which results exist."""
    for name, content in tables().items():
        if not read_frame(folder / name).astype(str).equals(content.astype(str)):
            raise Fault(f"the private table {name} was changed")
    schema = Schema.read(folder / "schema.yaml")
    found = {}
    for name in ("out.csv", "out.parquet"):
        path = folder / name
        found[name] = path.exists()
        if found[name]:
            frame = read_frame(path)
            schema.encode_frame(frame)
            if len(frame) != 150:
                raise Fault(f"{name} is not whole")
    found["made"] = (folder / "made").exists()
    if found["made"]:
        people, visits = (read_frame(folder / "made" / name) for name in ("people.csv", "visits.csv"))
        if not visits["who"].isin(people["who"]).all() or not people["who"].is_unique:
            raise Fault("the linked tables do not join")
    for path in folder.rglob("*.understudy"):
        if not path.name.startswith("."):
            Model.load(path)
    found["bundle"] = (folder / "bundle").exists()
    if found["bundle"]:
        verify_bundle(folder / "bundle")
    for path in folder.rglob("state.json"):
        json.loads(path.read_text("utf-8"))
    if not killed:
        rests = [path.name for path in folder.rglob(".*") if path.is_file() or path.suffix == ".part"]
        if rests:
            raise Fault(f"temporary files were left behind: {sorted(rests)}")
    return found


def check_messages(outcome: Outcome, side: Path, *, allow_memory: bool = False) -> None:
    """Check that a run that was not killed ended in a documented way and told nothing private."""
    for text in (outcome.out, outcome.err):
        if CANARY in text:
            raise Fault("a private value was printed")
        if "Traceback" in text:
            raise Fault(f"a traceback was printed: {text[-600:]}")
    if outcome.code == 98:
        raise Fault("the run did not end")
    if outcome.killed or (allow_memory and outcome.code == 97):
        return
    if (side / "escaped").exists():
        escaped = (side / "escaped").read_text()
        if not escaped.rstrip().endswith("KeyboardInterrupt"):  # in the last lines of the command line itself
            raise Fault(f"an error escaped the command line:\n{escaped}")
    elif outcome.code not in CODES or ("unexpected" in outcome.err and not allow_memory):
        raise Fault(f"the command ended with code {outcome.code}: {outcome.err[-400:]}")


def check_silence(folder: Path) -> int:
    """Look for a private value in every file that was written; return how many files were searched."""
    searched = 0
    for path in folder.rglob("*"):
        if path.is_dir() or (path.parent == folder and path.name in tables()):
            continue
        texts = [path.read_bytes()]
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                texts += [archive.read(name) for name in archive.namelist()]
        if path.suffix == ".parquet" and not path.name.startswith("."):
            texts.append(read_frame(path).to_csv().encode())
        searched += 1
        if any(CANARY.encode() in text for text in texts):
            raise Fault(f"a private value is in {path.name}")
    return searched


def journalled(folder: Path) -> int:
    """Return how many answers are kept for work to go on with."""
    return sum(len(list(_whole_lines(path))) - 1 for path in folder.rglob("journal"))


def check_journal(folder: Path, side: Path, job: Job) -> int:
    """Check that an interruption lost at most the one answer that was being drawn; return how many it lost."""
    path = folder / "staff.ledger"
    if not path.exists():
        return 0
    with Ledger.open(path) as book:
        scopes = [entry.scope for entry in book.entries() if entry.event is not None]
    finished = any((folder / name).exists() for name in (*RESULTS, "bundle"))
    outcome = any("outcome" in json.loads(file.read_text("utf-8")) for file in folder.rglob("state.json"))
    if finished or outcome or not scopes:
        return 0
    selections = sum(
        scope.endswith("/selection") for scope in scopes
    )  # charged once for all attempts, which are not journalled
    lost = len(scopes) - selections - journalled(folder)
    if lost > 1:
        raise Fault(f"{lost} paid answers were lost")
    return lost


def go_on(folder: Path, side: Path, job: Job, *, roomy: bool) -> str:
    """Run the job again, undisturbed, and check that it ends as it should; say how."""
    lost, kept = check_journal(folder, side, job), journalled(folder)
    finished = any((folder / name).exists() for name in RESULTS)
    for name in ("out", "err", "escaped"):
        (side / name).unlink(missing_ok=True)
    again = run_job(folder, side, job.command_line)
    check_messages(again, side)
    ending = "finished" if again.code == 0 else "refused"
    if again.code == 6 and (folder / "made").exists() and "exists already" in again.err:
        return "finished before"  # and a folder of tables is not written over
    if job.is_release and "Not accepted" in again.out:
        return "not accepted"
    if again.code != 0 and (roomy or again.code != 3 or not (lost or finished)):
        raise Fault(f"going on failed with code {again.code}: {again.err[-400:]}")
    if again.code != 0 and lost:
        return "one answer lost, on a full ledger"
    if again.code == 0:
        if not job.is_release and kept and f" {kept} answers" not in again.out + again.err:
            raise Fault(
                f"{kept} paid answers were kept, and not all of them were repeated: {again.out[:200]}"
            )
        found = check_files(folder, killed=True)
        if not any(found.values()):
            raise Fault("the command said that it finished and wrote nothing")
    return ending


def check_case(
    folder: Path,
    side: Path,
    job: Job,
    outcome: Outcome,
    *,
    roomy: bool,
    memory: bool = False,
    rests: bool = False,
) -> str:
    """Check everything after one fault, go on, and check everything again; say how going on ended.

    With ``memory``, errors of any kind are expected; with ``rests``, temporary files that could not be removed.
    """
    spec = Spec.read(folder / "spec.yaml") if job.is_release else None
    check_messages(outcome, side, allow_memory=memory)
    check_ledger(folder, side, spec=spec)
    check_files(folder, killed=outcome.killed or memory or rests)
    check_silence(folder)
    ending = go_on(folder, side, job, roomy=roomy)
    check_ledger(folder, side, spec=spec)
    return ending


def power_cut_states(
    before: bytes, now: bytes, journal: bytes, generator: random.Random, *, count: int
) -> list[tuple[bytes, bytes]]:
    """Ledger files and journals that a power cut in the middle of a commit may leave.

    The journal is flushed before the first byte of the ledger changes. So either the ledger is as it was and the
    journal is cut at any byte, or the journal is whole and each page of the ledger is old, new or torn.
    """
    states = []
    for _ in range(count):
        if generator.random() < 0.4:
            states.append((before, journal[: generator.randint(0, len(journal))]))
            continue
        length = generator.randint(len(before), max(len(before), len(now)))
        mixed = bytearray(before.ljust(length, b"\0"))
        for start in range(0, min(length, len(now)), 4096):
            end = min(start + generator.choice((0, 512, 2048, 4096)), length)
            mixed[start:end] = now[start:end]
        states.append((bytes(mixed[:length]), journal))
    return states


JOB_NAMES = tuple(JOBS)
