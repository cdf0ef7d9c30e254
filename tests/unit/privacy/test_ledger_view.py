"""What a mechanism sees of a ledger can be read and not written."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from understudy.curator import Curator, practice_curator
from understudy.data import LocalTable
from understudy.errors import BudgetError, UnusableMethod
from understudy.mechanisms import Fitted, Progress, Synthesizer
from understudy.mechanisms.marginal.independent import Independent
from understudy.privacy import Ledger, PureDP, Unit
from understudy.privacy.events import PureEvent
from understudy.privacy.invariants import declare_rows
from understudy.privacy.ledger.view import WRITING, LedgerView
from understudy.schema import Schema

SCHEMA = Schema.parse("columns: [{name: home, kind: boolean}, {name: car, kind: boolean}]")
MAKING = {"create", "in_memory", "open", "open_or_create"}


def _public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def _on_disk(folder: Path) -> Ledger:
    return Ledger.create(folder / "t.ledger", budget=PureDP(1.0), unit=Unit.add_remove(), table="t")


def _curator(ledger: Ledger) -> Curator:
    import numpy as np

    table = LocalTable(SCHEMA, {name: np.tile(np.array([0, 1], np.uint8), 50) for name in ("home", "car")})
    return Curator(table, unit=ledger.unit, ledger=ledger)


def test_every_public_name_of_a_ledger_is_either_read_or_refused() -> None:
    """A method that is added to ledgers needs a decision: it is in the view, or among what writes."""
    assert _public(LedgerView) | WRITING | MAKING == _public(Ledger)
    assert not _public(LedgerView) & (WRITING | MAKING)


def test_nothing_that_writes_can_be_had_from_a_curator(tmp_path: Path) -> None:
    ledger = _on_disk(tmp_path)
    seen = _curator(ledger).ledger
    before = (tmp_path / "t.ledger").read_bytes()
    for name in sorted(WRITING):
        with pytest.raises(BudgetError, match=f"read, not written \\({name}\\)"):
            getattr(seen, name)
    for name in (*MAKING, "_store", "_known", "_header"):
        assert not hasattr(seen, name)
    with pytest.raises(AttributeError):
        seen.budget = PureDP(50.0)  # type: ignore[misc]
    with pytest.raises(BudgetError, match="read, not written"):
        declare_rows(seen, rule="", exact=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        seen.spending.sums["pure"] = 0  # type: ignore[index]
    assert (tmp_path / "t.ledger").read_bytes() == before


def test_the_view_reads_what_the_ledger_says_now_and_changes_nothing(tmp_path: Path) -> None:
    ledger = _on_disk(tmp_path)
    seen = _curator(ledger).ledger
    ledger.charge(PureEvent(0.25), purpose="count")
    ledger.change_total(PureDP(2.0), who="the owner", why="as agreed")
    before = (tmp_path / "t.ledger").read_bytes()
    for name in sorted(_public(LedgerView) - {"can_afford", "check_anchor"}):
        mine, real = (getattr(item, name) for item in (seen, ledger))
        assert (mine() == real()) if inspect.ismethod(mine) else (mine == real), name
    assert seen.can_afford(PureEvent(1.75))
    assert not seen.can_afford(PureEvent(1.8))
    seen.check_anchor(ledger.anchor())
    assert (tmp_path / "t.ledger").read_bytes() == before
    assert "budget" not in repr(seen)
    assert "'t'" in repr(seen)


class Greedy(Independent):
    """Raises the total, then fits as usual."""

    name = "greedy"

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        book: Any = curator.ledger
        book.change_total(PureDP(50.0), who="the owner", why="as agreed")
        return super()._fit(curator, progress=progress)


class Untried(Greedy):
    """The same, without a trial on made-up records."""

    def trial(self) -> Synthesizer | None:
        return None


def test_a_mechanism_cannot_raise_the_total_of_the_ledger(tmp_path: Path) -> None:
    ledger = _on_disk(tmp_path)
    with pytest.raises(UnusableMethod, match="read, not written"):
        Greedy().fit(_curator(ledger), PureDP(1.0))
    assert ledger.length == 0
    with pytest.raises(BudgetError, match="read, not written"):
        Untried().fit(_curator(ledger), PureDP(1.0))
    assert (ledger.budget, ledger.totals(), ledger.facts, ledger.charged) == (PureDP(1.0), (), (), False)


def test_a_fit_leaves_total_and_facts_as_they_were() -> None:
    curator = practice_curator(SCHEMA, rows=40, unit=Unit.replace_one(), budget=PureDP(1.0))
    ledger = curator.ledger
    before = (ledger.budget, ledger.totals(), ledger.facts, ledger.invariants())
    Independent().fit(curator, PureDP(1.0))
    assert ledger.spent == pytest.approx(1.0)
    assert (ledger.budget, ledger.totals(), ledger.facts, ledger.invariants()) == before
