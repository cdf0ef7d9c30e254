"""The journal of paid answers: what it keeps, what it refuses, and how much of it is in memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator, Journal, SealedScalar
from understudy.curator.journal import Question, _parts, _whole_lines
from understudy.data import LocalTable
from understudy.data.entries import read_entries
from understudy.discovery.look import seal_days, seal_ranges
from understudy.errors import LedgerCorrupted, LedgerError, LedgerMismatch
from understudy.privacy import Laplace, Ledger, PureDP, Unit
from understudy.privacy.events import (
    Approximated,
    Composed,
    GaussianEvent,
    Parallel,
    PureEvent,
    SelectionEvent,
)
from understudy.schema import Schema

ASKED = Question("s", "p", PureEvent(0.5))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "l.ledger", budget=PureDP(9.0), unit=Unit.add_remove(), table="t")


def opened(ledger: Ledger) -> Journal:
    assert ledger.path is not None
    return Journal(ledger.path.with_name("journal"), ledger=ledger, work={})


def keep(journal: Journal, ledger: Ledger, value: Any) -> None:
    journal.keep(ASKED, ledger.charge(ASKED.event, purpose="p", scope="s"), value)


@pytest.mark.parametrize(
    "value",
    [
        3,
        -(2**200),
        0.1,
        [1, [2.5, float("inf")]],
        np.array(7),
        np.zeros((0, 3)),
        [np.arange(6, dtype=np.int64).reshape(2, 3)[:, ::2], np.array([True, False]), np.float64(0.1)],
        np.arange(3, dtype=">i4"),
    ],
    ids=str,
)
def test_an_answer_comes_back_as_it_was(ledger: Ledger, value: Any) -> None:
    keep(opened(ledger), ledger, value)
    found = opened(ledger).repeat(ASKED)
    assert found is not None
    given, back = (value, found.value) if isinstance(value, list) else ([value], [found.value])
    for one, other in zip(given, back, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), strict=isinstance(one, np.ndarray))


@pytest.mark.parametrize(
    "event",
    [
        Composed((PureEvent(0.1), GaussianEvent(1, 3))),
        Parallel((SelectionEvent(0.1), SelectionEvent(0.2))),
        Approximated(0.5, 1e-9, (GaussianEvent(1, 3),)),
    ],
)
def test_a_question_is_recognised_after_it_was_read_back(event: Any, tmp_path: Path) -> None:
    asked = Question("s", "p", event, [("a", "b"), np.array([1.5, 0.1]), np.int64(3)])
    (tmp_path / "journal").write_bytes(b"".join(_parts({"question": asked.plain()}, [])))
    assert next(_whole_lines(tmp_path / "journal")).head["question"] == asked.plain()


def test_answers_are_not_held_in_memory(ledger: Ledger) -> None:
    """Sixteen answers of 8 MB each; of all of them together at most four are held at any time."""
    one = np.zeros(10**6)
    tracemalloc.start()
    try:
        journal = opened(ledger)
        for _ in range(16):
            keep(journal, ledger, [one + 1])
        assert Journal.has_answers(journal.path)
        journal = opened(ledger)
        for _ in range(16):
            assert journal.repeat(ASKED) is not None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * one.nbytes


def test_one_charge_does_not_stand_for_two_answers(ledger: Ledger) -> None:
    journal = opened(ledger)
    keep(journal, ledger, 1)
    first, line = _whole_lines(journal.path)
    content = journal.path.read_bytes()
    journal.path.write_bytes(content + content[first.end : line.end])
    with pytest.raises(LedgerCorrupted, match="another charge"):
        opened(ledger)


def test_a_small_charge_does_not_stand_for_a_large_answer(ledger: Ledger) -> None:
    journal = opened(ledger)
    small = ledger.charge(PureEvent(0.01), purpose="p", scope="s")
    journal.keep(ASKED, small, 1)
    with pytest.raises(LedgerCorrupted, match="another charge"):
        opened(ledger)


def test_a_number_on_another_grid_is_another_question(ledger: Ledger) -> None:
    """Twice the sensitivity and twice the noise cost the same; the steps that were drawn mean something else."""
    schema = Schema.parse("name: t\ncolumns: [{name: a, kind: boolean}]")
    table = LocalTable(schema, {"a": np.zeros(5, dtype=np.int64)})

    def measure(size: float) -> float:
        curator = Curator(table, unit=ledger.unit, ledger=ledger, journal=opened(ledger))
        sealed = SealedScalar(3.0, sensitivity=size)
        return curator.measure_scalar(sealed, noise=Laplace(4.0 * size), purpose="p")

    first = measure(1.0)
    assert measure(1.0) == first
    with pytest.raises(LedgerMismatch):
        measure(2.0)


def test_other_ranges_are_another_question_even_if_they_are_as_many(ledger: Ledger) -> None:
    """The edges, and the way dates are written, are the question; their number was all that was compared."""
    table = read_entries(pd.DataFrame({"a": ["1", "20", "2020-01-31"] * 5}), ["a"])

    def measure(*edges: float, days: str | None = None) -> list[float]:
        curator = Curator(table, unit=ledger.unit, ledger=ledger, journal=opened(ledger))
        sealed = (
            seal_days(curator, "a", [int(edge) for edge in edges], days)
            if days
            else seal_ranges(curator, "a", edges)
        )
        return [float(value) for value in curator.measure(sealed, noise=Laplace(4.0)).values]

    first = measure(0.0, 10.0)
    assert measure(0.0, 10.0) == first
    for edges, days in (((0.0, 20.0), None), ((0.0, 10.0), "%Y-%m-%d")):
        with pytest.raises(LedgerMismatch):
            measure(*edges, days=days)


def test_damage_in_the_middle_is_not_taken_for_an_interrupted_line(ledger: Ledger) -> None:
    journal = opened(ledger)
    for value in (1, 2, 3):
        keep(journal, ledger, value)
    whole = journal.path.read_bytes()
    end = next(iter(_whole_lines(journal.path))).end
    for place in (end + 60, len(whole) - 2):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        journal.path.write_bytes(damaged)
        if place == end + 60:
            with pytest.raises(
                LedgerCorrupted, match=r"damaged in the middle.*Restore the file.*--unfinished drop"
            ):
                opened(ledger)
            assert journal.path.read_bytes() == damaged  # what lies behind is not cut off
        else:
            assert len(opened(ledger)) == 2  # it was being written when the work was stopped
    journal.path.write_bytes(b"something else")
    with pytest.raises(LedgerError, match=r"is not a journal\. .*--unfinished drop"):
        opened(ledger)
