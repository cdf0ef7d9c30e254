"""Power cuts in the middle of a commit: whatever part of the ledger's pages reached the disk, no draw is forgotten.

Processes that charge and draw are killed until some have died in the middle of a commit, with the rollback journal
still there. From each such moment many states of the disk are made that a power cut may leave: a journal cut at any
byte while the ledger is as it was, or a whole journal beside a ledger whose pages are old, new or torn.
"""

from __future__ import annotations

import os
import random
import signal
import time
import warnings
from pathlib import Path

import pytest
from benchmarks.trust._faults_check import power_cut_states

from understudy.privacy import Ledger, PureDP, Unit
from understudy.privacy.events import PureEvent

MOMENTS, STATES, MOST_KILLS = 4, 25, 300

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")


def _charge_and_draw(path: Path, before: Path, draws: int) -> None:
    """Charge, then draw; keep the ledger's bytes of the last finished commit."""
    book = Ledger.open(path)
    while True:
        before.write_bytes(path.read_bytes())
        book.charge(PureEvent(0.001), purpose="measure " + "x" * 150, scope="fit")
        os.write(draws, b"d")


def _killed_in_a_commit(folder: Path, generator: random.Random) -> tuple[bytes, bytes, bytes, int] | None:
    path, before = folder / "a.ledger", folder / "before"
    draws = os.open(folder / "draws", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        number = os.fork()
    if number == 0:
        try:
            _charge_and_draw(path, before, draws)
        finally:
            os._exit(1)
    os.close(draws)
    time.sleep(generator.uniform(0.01, 0.06))
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)
    journal = folder / "a.ledger-journal"
    if not journal.exists() or not before.exists():
        return None
    count = (folder / "draws").stat().st_size
    return before.read_bytes(), path.read_bytes(), journal.read_bytes(), count


def test_no_draw_is_forgotten_whatever_reached_the_disk(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    path = tmp_path / "a.ledger"
    Ledger.create(path, budget=PureDP(1000.0), unit=Unit.add_remove(), table="t")
    (tmp_path / "after").mkdir()
    moments = kills = 0
    while moments < MOMENTS and kills < MOST_KILLS:
        found = _killed_in_a_commit(tmp_path, generator)
        kills += 1
        if found is None:
            continue
        before, now, journal, draws = found
        if len(before) % 4096 or not before:
            continue  # killed while the copy was written
        moments += 1
        for ledger, rest in power_cut_states(before, now, journal, generator, count=STATES):
            copy = tmp_path / "after" / "a.ledger"
            copy.write_bytes(ledger)
            copy.with_name("a.ledger-journal").write_bytes(rest)
            with Ledger.open(copy) as book:
                book.verify()
                assert len(book.entries()) >= draws
                book.charge(PureEvent(0.001), purpose="after the power came back")
                book.verify()
            for file in copy.parent.iterdir():
                file.unlink()
        with Ledger.open(path) as book:  # the next process goes on from here
            assert len(book.entries()) >= draws
    assert moments, f"none of {kills} kills fell into a commit"


def test_a_ledger_that_lost_a_charge_would_be_noticed(tmp_path: Path) -> None:
    """The wrong answer: an older copy of the ledger, as a disk that ignores flushes would leave it."""
    path = tmp_path / "a.ledger"
    with Ledger.create(path, budget=PureDP(1.0), unit=Unit.add_remove(), table="t") as book:
        old = path.read_bytes()
        head = book.charge(PureEvent(0.1), purpose="measure").hash
        draws = 1
        path.write_bytes(old)
    with Ledger.open(path) as book:
        assert len(book.entries()) < draws
        with pytest.raises(Exception, match="published head hash"):
            book.verify(head=head)
