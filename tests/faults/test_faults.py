"""Faults at random instants of ``synth`` and ``release``: the quick form of ``python -m benchmarks.trust.faults``.

What must hold is certain, not statistical: every draw of noise was charged before it was made, nothing half
written looks whole, the records are as they were, and the work can go on. The witness compares the ledger's bytes at
each draw with that draw, so a charge that comes late is caught at every run and not only when a kill falls between
the two. The last tests break what is under test on purpose, and must be caught.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from benchmarks.trust import _faults_child as child
from benchmarks.trust._faults_cases import (
    JOBS,
    SmallDisk,
    lose_unflushed,
    prepare,
    run_job,
    signal_later,
    start_job,
    wait_for,
)
from benchmarks.trust._faults_check import Fault, check_case, check_files, check_ledger, check_silence
from benchmarks.trust.faults import QUICK, Measured, one_case, rooms, warm_up

from understudy.privacy import ApproxDP, Ledger, PureDP, Unit
from understudy.release.spec.spec import Spec

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or not Path("/proc/self/statm").exists(), reason="needs fork and Linux"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def measured(place: Path) -> dict[str, Measured]:
    return warm_up(place)


@pytest.mark.parametrize("kind", list(QUICK))
def test_a_fault_at_a_random_instant_is_survived(
    kind: str, place: Path, measured: dict[str, Measured], seed: int
) -> None:
    if kind == "disk full" and not SmallDisk.possible():
        pytest.skip("needs the right to mount a small disk")
    generator = random.Random(f"{kind} {seed}")
    jobs = list(JOBS.values())
    first = generator.randrange(len(jobs))
    for number in range(QUICK[kind]):
        job = jobs[(first + number) % len(jobs)]
        one_case(kind, job, measured[job.name], place, generator)


@pytest.mark.parametrize("name", list(JOBS))
def test_every_job_undisturbed_charges_before_it_draws(
    name: str, place: Path, measured: dict[str, Measured]
) -> None:
    folder, side = rooms(place)
    prepare(folder, JOBS[name], roomy=False)
    outcome = run_job(folder, side, JOBS[name].command_line)
    assert outcome.code in (0, 3)
    spec = Spec.read(folder / "spec.yaml") if JOBS[name].is_release else None
    assert check_ledger(folder, side, spec=spec) >= 3
    assert check_silence(folder) >= 4


def test_twenty_processes_on_one_ledger_never_overspend(place: Path, measured: dict[str, Measured]) -> None:
    """A ledger with room for a few runs; twenty come at once, four of which are shot."""
    job, most = JOBS["synth independent"], 7
    folder, side = rooms(place)
    prepare(folder, job, roomy=False)
    Ledger.create(folder / "staff.ledger", budget=PureDP(float(most)), unit=job.unit, table="staff.csv")
    started = []
    for number in range(20):
        own = side / str(number)
        own.mkdir()
        command_line = tuple(w.replace("out.", f"out{number}.") for w in job.command_line)
        started.append(start_job(folder, own, command_line))
    for number, after in zip(started[::5], (0.01, 0.05, 0.1, 0.2), strict=True):
        signal_later(signal.SIGKILL, after)(number)
    codes = [wait_for(number, 120.0) for number in started]
    unexpected = {
        code: (side / str(n) / "err").read_text("utf-8")
        for n, code in enumerate(codes)
        if code not in (0, 3, -signal.SIGKILL)
    }
    assert not unexpected
    assert 1 <= codes.count(0) <= most
    book = Ledger.open(folder / "staff.ledger")
    book.verify()
    assert book.spent <= most
    charges = [entry for entry in book.entries() if entry.event is not None]
    assert len(charges) >= codes.count(0)
    assert sum((side / str(n) / "draws").stat().st_size > 0 for n in range(20)) <= len(charges)
    assert len(list(folder.glob("out*.parquet"))) >= codes.count(0)


# ---------------------------------------------------------------------- the harness can fail


def _broken(place: Path, name: str, inside: object) -> tuple[Path, Path]:
    folder, side = rooms(place)
    prepare(folder, JOBS[name], roomy=True)
    run_job(folder, side, JOBS[name].command_line, inside=inside)  # type: ignore[arg-type]
    return folder, side


def test_a_forgotten_charge_is_caught(place: Path, measured: dict[str, Measured]) -> None:
    def forget(witness: child.Witness) -> None:
        from understudy.curator import Curator

        Curator._charge = lambda self, *events, purpose: None  # type: ignore[method-assign,assignment]

    folder, side = _broken(place, "synth mst", forget)
    with pytest.raises(Fault, match="not charged"):
        check_ledger(folder, side, spec=None)


def test_a_charge_after_the_draw_is_caught_without_any_kill(
    place: Path, measured: dict[str, Measured]
) -> None:
    def late(witness: child.Witness) -> None:
        from understudy.curator import Curator

        def answer(self: Curator, *events: Any, purpose: str, draw: Any, about: object = None) -> object:
            drawn = draw()
            self._charge(*events, purpose=purpose)
            return drawn

        Curator._answer = answer  # type: ignore[method-assign,assignment]

    folder, side = _broken(place, "synth independent", late)
    with pytest.raises(Fault, match=r"at draw 0: .* not charged"):
        check_ledger(folder, side, spec=None)


def test_a_file_renamed_into_place_without_a_flush_is_caught(
    place: Path, measured: dict[str, Measured], seed: int
) -> None:
    def careless(witness: child.Witness) -> None:
        os.fsync = lambda fd: None

    folder, side = _broken(place, "synth mst", careless)
    assert check_files(folder, killed=False)["out.csv"]
    assert lose_unflushed(folder, side, random.Random(seed)) >= 2
    with pytest.raises(Exception, match=r"."):
        check_files(folder, killed=False)


def test_a_changed_table_and_a_rest_are_caught(place: Path, measured: dict[str, Measured]) -> None:
    folder, _ = _broken(place, "synth mst", None)
    (folder / ".out.csv.abc.tmp").write_text("half")
    with pytest.raises(Fault, match="temporary files"):
        check_files(folder, killed=False)
    text = (folder / "staff.csv").read_text()
    (folder / "staff.csv").write_text(text.replace("zzcanaryzz3", "zzcanaryzz4", 1))
    with pytest.raises(Fault, match=r"private table staff\.csv was changed"):
        check_files(folder, killed=True)


# ---------------------------------------------------------------------- found by the harness


def test_an_interrupt_is_told_and_has_its_own_code(place: Path, measured: dict[str, Measured]) -> None:
    folder, side = rooms(place)
    job = JOBS["release single"]
    prepare(folder, job, roomy=True)

    def interrupt(witness: child.Witness) -> None:
        child.at_step(60, lambda: os.kill(os.getpid(), signal.SIGINT), witness=witness)

    outcome = run_job(folder, side, job.command_line, inside=interrupt)
    assert (outcome.code, "Interrupted." in outcome.err) == (130, True), outcome.err
    check_case(folder, side, job, outcome, roomy=True)


def test_a_folder_that_becomes_read_only_ends_in_a_message(
    place: Path, measured: dict[str, Measured], monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.errors import OutputError
    from understudy.release.run.state import State

    folder = rooms(place)[0]
    folder.mkdir()

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    with State.opened(folder / "s", fingerprint="f", ledger_id="l") as state:
        state.model_path.write_bytes(b"")
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", refuse)
            state.release_room()
            with pytest.raises(OutputError, match="Permission denied"):
                state.forget_model()
            with pytest.raises(OutputError, match="cannot be changed"):
                State.opened(folder / "t", fingerprint="f", ledger_id="l", restart=True).__enter__()


def test_lack_of_memory_is_told(place: Path, measured: dict[str, Measured]) -> None:
    folder, side = rooms(place)
    prepare(folder, JOBS["synth mst"], roomy=False)

    def exhaust(witness: child.Witness) -> None:
        from understudy.privacy import Gaussian, Laplace

        def draw(self: object, shape: object, randomness: object) -> object:
            raise MemoryError

        Gaussian.draw = Laplace.draw = draw  # type: ignore[method-assign,assignment]

    outcome = run_job(folder, side, JOBS["synth mst"].command_line, inside=exhaust)
    assert outcome.code == 1
    assert "the memory ran out" in outcome.err
    with Ledger.open(folder / "staff.ledger") as book:
        assert book.budget == ApproxDP(1.0, 1e-6)
        assert book.unit == Unit.add_remove()
        assert book.spent > 0
