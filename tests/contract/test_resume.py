"""Every mechanism, interrupted and begun again: what was answered is neither asked nor charged a second time.

Noise is drawn here from a seed per question, so that a resumed fit and an undisturbed one see the same noise and must agree to the
last row. Nothing here is a matter of chance.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from contract_cases import case_of, made
from test_synthesizers import EVERY

from understudy.curator import Curator, Journal
from understudy.data import read_table
from understudy.errors import BudgetExceeded, DataError, LedgerCorrupted, LedgerError, LedgerMismatch
from understudy.mechanisms import Synthesizer, create
from understudy.mechanisms.base import try_out
from understudy.privacy import ApproxDP, Ledger, PureDP, SeededRandomness, Unit
from understudy.workflow.paid import paid_work, work_facts

UNIT = Unit.add_remove()
SHARE, ROOM = ApproxDP(1.0, 1e-6), ApproxDP(4.0, 4e-6)


class Stopped(BaseException):
    """Stands for a process that is killed."""


class Run:
    """One mechanism on one ledger, with the same noise for the same question in every run."""

    def __init__(self, folder: Path, name: str) -> None:
        self.synthesizer: Synthesizer = made(name)
        self.case = case_of(name)
        reserve = self.synthesizer.reserve(self.case.schema, SHARE)
        self.ledger = Ledger.create(
            folder / "t.ledger", budget=ROOM, unit=UNIT, table="t", approximate_delta=4 * reserve
        )
        self.folder = folder

    def fit(
        self,
        *,
        stop: tuple[int, bool] | None = None,
        hand_over: bool = True,
        rows: int = 300,
        sets: int | None = None,
    ) -> Any:
        """Fit; with ``stop`` the process ends at that answer, before (True) or after it was journalled."""
        questions = kept = 0
        answer, keep, converse = Curator._answer, Journal.keep, Journal.open_conversation

        def seeded(curator: Curator, *events: Any, **rest: Any) -> Any:
            nonlocal questions
            questions += 1
            curator._randomness = SeededRandomness(questions)
            return answer(curator, *events, **rest)

        def stopping(write: Any) -> Any:
            def around(journal: Journal, *given: Any, **rest: Any) -> None:
                nonlocal kept
                kept += 1
                if stop == (kept, True):
                    raise Stopped
                write(journal, *given, **rest)
                if stop == (kept, False):
                    raise Stopped

            return around

        facts = work_facts(
            self.synthesizer, schema_fingerprint=self.case.schema.fingerprint(), unit=UNIT, budget=SHARE
        )
        table = read_table(self.case.frame(rows), self.case.schema)
        for way in self.synthesizer.accountings(SHARE):  # trials ask questions too
            try_out(self.synthesizer, self.case.schema, SHARE, way.name)
        self.synthesizer.prepare(self.case.schema, unit=UNIT, budget=SHARE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Curator, "_answer", seeded)
            patch.setattr(Journal, "keep", stopping(keep))
            patch.setattr(Journal, "open_conversation", stopping(converse))
            with paid_work(self.ledger, facts) as work:
                if sets is None:
                    model: Any = work.fit(self.synthesizer, table, unit=UNIT, budget=SHARE)
                else:
                    model = work.fit_many(
                        self.synthesizer,
                        table,
                        unit=UNIT,
                        budget=SHARE,
                        sets=sets,
                        how="independent",
                        seed=1,
                    )
                if hand_over:
                    work.done()
        return model

    def charges(self) -> list[tuple[str, str]]:
        return [(e.scope, e.purpose) for e in self.ledger.entries() if e.event is not None]

    def left_behind(self) -> list[Path]:
        return list(self.folder.glob("*.state"))


@pytest.mark.parametrize("name", EVERY)
def test_an_interrupted_fit_goes_on_and_pays_for_nothing_twice(name: str, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = Run(tmp_path / "whole", name)
    wanted = whole.fit().sample(40, seed=1)
    charges = whole.charges()
    assert not whole.left_behind()
    conversation = any(word in name for word in ("deniability", "dpctgan", "patectgan"))
    generator = random.Random(name)
    places = sorted(generator.sample(range(1, len(charges) + 1), min(2, len(charges))))
    for number, (place, in_flight) in enumerate((p, f) for p in places for f in (True, False)):
        folder = tmp_path / str(number)
        folder.mkdir()
        run = Run(folder, name)
        with pytest.raises(Stopped):
            run.fit(stop=(place, in_flight))
        assert run.charges() == charges[:place]
        made = run.fit().sample(40, seed=1)
        assert not run.left_behind()
        extra = Counter(run.charges()) - Counter(charges)
        if conversation:  # its answers are not kept one by one: the one charge in flight is that of all of it
            assert extra.total() <= 1
            continue
        assert extra == (Counter([charges[place - 1]]) if in_flight else Counter())
        assert made.equals(wanted)


@pytest.mark.parametrize("name", EVERY)
def test_a_model_that_was_not_handed_over_is_taken_up_at_no_cost(name: str, tmp_path: Path) -> None:
    run = Run(tmp_path, name)
    first = run.fit(hand_over=False)
    charges, (folder,) = run.charges(), run.left_behind()
    (folder / "model.understudy").chmod(0o600)
    again = run.fit()
    assert run.charges() == charges
    assert again.sample(40, seed=1).equals(first.sample(40, seed=1))
    assert not run.left_behind()


def test_a_finished_fit_is_repeated_from_its_journal_without_its_model(tmp_path: Path) -> None:
    run = Run(tmp_path, "aim")
    first = run.fit(hand_over=False)
    charges, (folder,) = run.charges(), run.left_behind()
    (folder / "model.understudy").unlink()
    assert run.fit().sample(40, seed=1).equals(first.sample(40, seed=1))
    assert run.charges() == charges


def test_a_line_that_was_not_written_to_its_end_is_cut_off(tmp_path: Path) -> None:
    run = Run(tmp_path, "mst")
    with pytest.raises(Stopped):
        run.fit(stop=(2, False))
    (folder,) = run.left_behind()
    content = (folder / "journal").read_bytes()
    for cut in (1, 7, 100):
        (folder / "journal").write_bytes(content[:-cut])
        journal = Journal(folder / "journal", ledger=run.ledger, work=_work(folder))
        assert len(journal) == 1
        assert len((folder / "journal").read_bytes()) < len(content) - cut


def test_a_journal_is_no_substitute_for_a_ledger_that_was_cut_back(tmp_path: Path) -> None:
    run = Run(tmp_path, "mst")
    before = (tmp_path / "t.ledger").read_bytes()
    with pytest.raises(Stopped):
        run.fit(stop=(2, False))
    (tmp_path / "t.ledger").write_bytes(before)
    run.ledger = Ledger.open(tmp_path / "t.ledger")
    with pytest.raises(LedgerCorrupted, match="not in the ledger"):
        run.fit()
    assert not run.charges()


def test_other_records_are_not_mixed_in(tmp_path: Path) -> None:
    run = Run(tmp_path, "mst")
    with pytest.raises(Stopped):
        run.fit(stop=(1, False))
    charges = run.charges()
    with pytest.raises(DataError, match="not the one that the interrupted fit began with"):
        run.fit(rows=301)
    assert run.charges() == charges
    run.fit()


def test_a_model_of_other_records_is_not_handed_over(tmp_path: Path) -> None:
    run = Run(tmp_path, "mst")
    run.fit(hand_over=False)
    with pytest.raises(DataError, match="not the one that the interrupted fit began with"):
        run.fit(rows=301)


@pytest.mark.parametrize("name", ["deniability", "mst"])
def test_of_several_sets_only_the_one_in_flight_is_lost(name: str, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = Run(tmp_path / "whole", name)
    whole.fit(sets=3)
    charges = whole.charges()
    for number, (place, in_flight) in enumerate(((len(charges) - 1, False), (len(charges), True))):
        folder = tmp_path / str(number)
        folder.mkdir()
        run = Run(folder, name)
        with pytest.raises(Stopped):
            run.fit(sets=3, stop=(place, in_flight))
        run.fit(sets=3, hand_over=False)
        lost = len(run.charges()) - len(charges)
        assert lost <= (1 if in_flight or name == "deniability" else 0)
        before = run.charges()
        run.fit(sets=3)  # the models were not handed over: they are taken up
        assert run.charges() == before
        assert not run.left_behind()


def test_what_another_process_made_anew_is_left_alone(tmp_path: Path) -> None:
    run = Run(tmp_path, "mst")
    facts = work_facts(
        run.synthesizer, schema_fingerprint=run.case.schema.fingerprint(), unit=UNIT, budget=SHARE
    )
    with paid_work(run.ledger, facts) as work:
        (folder,) = run.left_behind()
        work.done()
        folder.mkdir()
        (folder / "lock").touch()
    assert (folder / "lock").exists()


def test_other_work_is_refused_kept_or_dropped(tmp_path: Path) -> None:
    run = Run(tmp_path, "mst")
    with pytest.raises(Stopped):
        run.fit(stop=(1, False))
    other = work_facts(
        create("independent"), schema_fingerprint=run.case.schema.fingerprint(), unit=UNIT, budget=SHARE
    )
    with pytest.raises(LedgerError, match="--unfinished keep"), paid_work(run.ledger, other):
        pass
    with paid_work(run.ledger, other, unfinished="keep"):
        pass
    assert len(run.left_behind()) == 1  # what was begun and paid for nothing leaves nothing
    (folder,) = run.left_behind()
    (folder / "journal").write_bytes(b"not a journal")
    with paid_work(run.ledger, other, unfinished="drop"):
        pass
    assert not run.left_behind()


def test_the_same_work_at_the_same_time_pays_for_itself_and_an_interrupted_one_is_found(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, "independent")
    facts = work_facts(
        run.synthesizer, schema_fingerprint=run.case.schema.fingerprint(), unit=UNIT, budget=SHARE
    )
    with paid_work(run.ledger, facts):
        run.fit(hand_over=False)  # beside the one that is at work
    charges, (folder,) = run.charges(), run.left_behind()
    assert folder.name.endswith(".2.state")
    run.fit()
    assert run.charges() == charges
    assert not run.left_behind()


def test_another_question_at_the_same_place_is_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, "mst")
    with pytest.raises(Stopped):
        run.fit(stop=(2, False))
    charges = run.charges()
    measure = Curator.measure_many
    monkeypatch.setattr(
        Curator,
        "measure_many",
        lambda self, *given, **rest: measure(self, *given, **rest | {"purpose": "other"}),
    )
    with pytest.raises(LedgerMismatch, match="Nothing was spent"):
        run.fit()
    assert run.charges() == charges


def test_a_charge_that_was_lost_on_a_full_ledger_says_what_is_kept(tmp_path: Path) -> None:
    run = Run(tmp_path, "independent")
    ledger = Ledger.create(tmp_path / "full.ledger", budget=SHARE, unit=UNIT, table="t")
    run.ledger = ledger
    with pytest.raises(Stopped):
        run.fit(stop=(1, True))
    with pytest.raises(BudgetExceeded):
        run.fit()
    assert len(run.charges()) == 1


def test_the_total_that_is_said_to_be_enough_after_a_loss_is_enough(tmp_path: Path) -> None:
    run = Run(tmp_path, "mst")
    run.ledger = Ledger.create(tmp_path / "full.ledger", budget=SHARE, unit=UNIT, table="t")
    with pytest.raises(Stopped):
        run.fit(stop=(2, True))
    with pytest.raises(BudgetExceeded) as caught:
        run.fit()
    found = re.search(r"epsilon=([\d.]+), delta=([\d.e-]+)[^;]* is enough", str(caught.value))
    assert found is not None
    assert 1.0 < float(found[1]) < 2.0
    run.ledger.change_total(ApproxDP(float(found[1]), 1e-6), who="owner", why="an answer was lost")
    run.fit()
    assert not run.left_behind()


def test_a_fit_whose_look_failed_says_how_to_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.errors import LookFailed
    from understudy.privacy import Gaussian

    run = Run(tmp_path, "mst")

    def fails(*_: Any) -> Any:
        raise OverflowError("12345 records")

    with monkeypatch.context() as patch:
        patch.setattr(Gaussian, "draw", fails)
        with pytest.raises(LookFailed, match="--unfinished drop") as error:
            run.fit()
    assert "12345" not in str(error.value)
    charges = run.charges()
    with pytest.raises(LookFailed, match="--unfinished drop"):
        run.fit()
    assert run.charges() == charges


@pytest.mark.parametrize("name", ["privsyn", "mst", "dpcube", "universal-histogram"])
def test_a_raised_total_does_not_change_how_interrupted_work_is_paid_for(name: str, tmp_path: Path) -> None:
    """A fit that has the ledger to itself chooses its accounting freely; after the total was raised it would choose again."""
    run = Run(tmp_path, name)
    run.ledger = Ledger.create(tmp_path / "own.ledger", budget=SHARE, unit=UNIT, table="t")
    with pytest.raises(Stopped):
        run.fit(stop=(1, False))
    (first,) = [entry for entry in run.ledger.entries() if entry.event is not None]
    run.ledger.change_total(ROOM, who="owner", why="more is wanted")
    run.fit()
    charges = [entry for entry in run.ledger.entries() if entry.event is not None]
    assert charges[0] == first


def test_a_failed_look_is_an_answer_and_is_not_tried_again(tmp_path: Path) -> None:
    """A look that fails after its charge says no more than that, the same each time, and costs once."""
    from understudy.errors import LookFailed

    case = case_of("mst")
    ledger = Ledger.create(tmp_path / "l.ledger", budget=PureDP(1.0), unit=UNIT, table="t")
    table = read_table(case.frame(50), case.schema)

    def fails() -> float:
        raise OverflowError("12345 records")

    from understudy.privacy.events import PureEvent

    for _ in range(2):
        curator = Curator(
            table, unit=UNIT, ledger=ledger, journal=Journal(tmp_path / "journal", ledger=ledger, work={})
        )
        with pytest.raises(LookFailed) as error:
            curator._answer(PureEvent(0.25), purpose="p", draw=fails)
        assert "12345" not in str(error.value)
        assert error.value.__context__ is None or error.value.__suppress_context__
    assert ledger.spent == 0.25


def _work(folder: Path) -> Any:
    from understudy.curator.journal import _whole_lines

    return next(_whole_lines(folder / "journal")).head["work"]
