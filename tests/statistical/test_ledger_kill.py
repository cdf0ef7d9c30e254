"""A ledger never under-counts: processes are killed at random instants, and others race for the last share.

The property under test is certain, not statistical: a charge is on the disk before its noise is drawn. What is
random is whether a *wrong* ledger would be caught. The wrong order (draw, then charge) leaves more draws than
charges whenever the kill falls between the two. Charging takes most of a cycle, so that is more than half of
all kills, and the chance that ``KILLS`` of them all miss is below 2**-60, far under ALPHA.
"""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alpha import ALPHA

from understudy.errors import BudgetExceeded
from understudy.privacy import Ledger, PureDP, Unit
from understudy.privacy.events import LaplaceEvent, PureEvent

KILLS = 60
assert 0.5**KILLS < ALPHA

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")

TERMS: dict[str, Any] = {"budget": PureDP(1000.0), "unit": Unit.add_remove(), "table": "births"}


def spawn(work: Callable[[], None], *, ready: bool = False) -> int:
    """Run ``work`` in a forked process; with ``ready``, return once it has begun."""
    receive, send = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child runs nothing but ``work``
        child = os.fork()
    if child:
        os.close(send)
        if ready:
            os.read(receive, 1)
        os.close(receive)
        return child
    code = 1
    try:
        os.write(send, b"!")
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_after(child: int, seconds: float) -> None:
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    assert wait(child) == -signal.SIGKILL


def draw(path: Path) -> None:
    """Stand in for drawing and using noise: one byte, flushed to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, b"d")
    os.fsync(descriptor)
    os.close(descriptor)


def counts(ledger: Path, draws: Path) -> tuple[int, int]:
    """Number of charges, after checking the whole ledger, and number of draws."""
    book = Ledger.open(ledger)
    book.verify()
    return len(book.entries()), draws.stat().st_size if draws.exists() else 0


def test_a_killed_process_never_leaves_a_draw_without_its_charge(tmp_path: Path, seed: int) -> None:
    ledger, draws = tmp_path / "a.ledger", tmp_path / "draws"
    Ledger.create(ledger, **TERMS)
    generator = random.Random(seed)

    def fit() -> None:
        book = Ledger.open(ledger)
        while True:
            book.charge(PureEvent(0.001), purpose="measure", scope="fit")
            draw(draws)

    unfinished = 0
    for kill in range(1, KILLS + 1):
        before = counts(ledger, draws)
        kill_after(spawn(fit, ready=True), generator.uniform(0, 0.08))
        charged, drawn = counts(ledger, draws)
        assert drawn <= charged
        # one process was killed, so at most one more charge is without its draw
        assert (charged - drawn) - (before[0] - before[1]) in (0, 1)
        unfinished += charged - drawn > before[0] - before[1]
        assert unfinished <= kill
    book = Ledger.open(ledger)
    book.charge(PureEvent(0.001), purpose="measure", scope="undisturbed")
    assert book.spent == pytest.approx(0.001 * (charged + 1))


def test_drawing_before_charging_would_be_caught(tmp_path: Path, seed: int) -> None:
    ledger, draws = tmp_path / "a.ledger", tmp_path / "draws"
    Ledger.create(ledger, **TERMS)
    generator = random.Random(seed)

    def fit() -> None:
        book = Ledger.open(ledger)
        while True:
            draw(draws)
            book.charge(PureEvent(0.001), purpose="measure", scope="fit")

    drawn = 0
    for _ in range(KILLS):
        child = spawn(fit)
        while (draws.stat().st_size if draws.exists() else 0) <= drawn:  # until it has drawn once more
            time.sleep(0.001)
        kill_after(child, generator.uniform(0, 0.01))
        charged, drawn = counts(ledger, draws)
        if drawn > charged:
            return
    pytest.fail("no kill fell between a draw and its charge")


def test_a_process_killed_while_making_a_ledger_leaves_a_whole_one_or_none(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    made = 0
    for attempt in range(25):
        path = tmp_path / f"{attempt}.ledger"

        def make(path: Path = path) -> None:
            Ledger.open_or_create(path, **TERMS).charge(PureEvent(1.0), purpose="x")
            time.sleep(10)

        kill_after(spawn(make, ready=True), generator.uniform(0, 0.03))
        if path.exists():
            made += 1
            assert counts(path, tmp_path / "none")[0] in (0, 1)
        book = Ledger.open_or_create(path, **TERMS)
        book.charge(PureEvent(1.0), purpose="x")
        book.verify()
    assert made <= 25


@pytest.mark.parametrize("processes", [2, 8])
def test_racing_processes_together_never_exceed_the_total(tmp_path: Path, processes: int) -> None:
    ledger, draws = tmp_path / "a.ledger", tmp_path / "draws"
    share, fits, attempts = LaplaceEvent(1.0, 24.0), 24, 48 // processes
    terms = TERMS | {"budget": PureDP(1.0)}

    def work() -> None:
        book = Ledger.open_or_create(ledger, **terms)  # the first to come makes it
        for _ in range(attempts):
            try:
                book.charge(share, purpose="race", scope=str(os.getpid()))
            except BudgetExceeded:
                continue
            draw(draws)

    children = [spawn(work) for _ in range(processes)]
    assert [wait(child) for child in children] == [0] * processes
    assert counts(ledger, draws) == (fits, fits)
    book = Ledger.open(ledger)
    assert book.spending.sums["pure"] == 1
    assert book.remaining == 0.0
    assert sorted(entry.sequence for entry in book.entries()) == list(range(1, fits + 1))
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_a_race_that_is_also_shot_at_never_exceeds_the_total(tmp_path: Path, seed: int) -> None:
    """Eight processes, all killed at random moments, again and again until the budget is gone."""
    ledger, draws = tmp_path / "a.ledger", tmp_path / "draws"
    Ledger.create(ledger, **(TERMS | {"budget": PureDP(1.0)}))
    generator = random.Random(seed)

    def fit() -> None:
        book = Ledger.open(ledger)
        while True:
            try:
                book.charge(LaplaceEvent(1.0, 64.0), purpose="race")
            except BudgetExceeded:
                time.sleep(60)
            draw(draws)

    for _ in range(6):
        children = [spawn(fit, ready=True) for _ in range(8)]
        for child in children:
            kill_after(child, generator.uniform(0, 0.03))
        charged, drawn = counts(ledger, draws)
        assert drawn <= charged <= 64
