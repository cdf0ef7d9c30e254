"""Releasing keys that nobody listed: charged first, from the reserve; nothing of rare keys is seen."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from understudy.curator import Curator, Journal, ReleasedKeys, SealedKeys, release_keys, usable_key
from understudy.data.entries import read_entries
from understudy.discovery.look import seal_keys
from understudy.errors import BudgetError, BudgetExceeded
from understudy.privacy import ApproxDP, Gaussian, Laplace, Ledger, SeededRandomness, Unit
from understudy.privacy.events import GaussianEvent, Thresholded
from understudy.privacy.noise.thresholds import threshold_for, upper_tail

sys.path.insert(0, str(Path(__file__).parents[2] / "statistical"))
from alpha import ALPHA

UNIT = Unit.add_remove()


def _curator(
    texts: list[str], *, unit: Unit = UNIT, reserve: float = 1e-7, seed: int | None = 1, **more: Any
) -> Curator:
    frame = pd.DataFrame({"a": texts, "id": range(len(texts))})
    table = read_entries(frame, ["a"], id_column=unit.id_column)
    ledger = more.pop("ledger", None) or Ledger.in_memory(
        budget=ApproxDP(50.0, 1e-6), unit=unit, approximate_delta=reserve
    )
    source = None if seed is None else SeededRandomness(seed)
    return Curator(table, unit=unit, ledger=ledger, randomness=source, **more)


def _release(curator: Curator, sigma: float = 2.0, delta: float = 1e-8) -> ReleasedKeys:
    (found,) = release_keys(
        curator, [seal_keys(curator, "a")], noise=[Gaussian(sigma)], deltas=[delta], purpose="keys"
    )
    return found


def test_frequent_keys_come_out_with_noisy_counts_and_rare_ones_do_not() -> None:
    found = _release(_curator(["north"] * 200 + ["south"] * 100 + ["hermit"]))
    assert list(found.counts) == ["north", "south"], "in the order of the keys, not of the records"
    assert abs(found.counts["north"] - 200) < 20
    assert found.threshold == threshold_for(Gaussian(2.0), UNIT, 1e-8)


def test_the_charge_says_what_was_done() -> None:
    curator = _curator(["north"] * 50)
    found = _release(curator)
    (event,) = [entry.event for entry in curator.ledger.entries() if entry.event is not None]
    assert isinstance(event, Thresholded)
    assert event.threshold == found.threshold
    assert 0 < event.delta <= 1e-8
    (noise,) = event.events
    assert isinstance(noise, GaussianEvent)
    assert (noise.l2_sensitivity, noise.sigma) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("unit", "l2"),
    [(Unit.replace_one(), math.sqrt(2)), (Unit.replace_person("id", max_rows=3), 3 * math.sqrt(2))],
    ids=["replace-one", "replace-person"],
)
def test_the_charge_is_that_of_the_unit(unit: Unit, l2: float) -> None:
    curator = _curator(["north"] * 50, unit=unit)
    _release(curator)
    event = next(entry.event for entry in curator.ledger.entries() if entry.event is not None)
    assert isinstance(event, Thresholded)
    assert isinstance(event.events[0], GaussianEvent)
    assert event.events[0].l2_sensitivity == pytest.approx(l2)


def test_nothing_is_drawn_where_the_reserve_cannot_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = _curator(["north"] * 50, reserve=1e-9)
    monkeypatch.setattr(Gaussian, "draw", lambda *args: pytest.fail("noise was drawn"))
    with pytest.raises(BudgetExceeded):
        _release(curator)
    assert all(entry.event is None for entry in curator.ledger.entries())


def test_a_key_of_one_row_is_released_with_at_most_the_stated_probability() -> None:
    """Exact by the law, and counted: 4,000 releases of a key that one row holds, at a delta of 0.05.

    False alarm: `ALPHA` by a Chernoff bound on the upper side. A threshold that is one standard deviation lower releases the key with
    probability 0.26 and fails for sure; a threshold one lower, with probability 0.07, fails but for about one in a million.
    """
    noise, delta, at_once = Laplace(3.0), 0.05, 16
    runs = 250 * at_once
    least = threshold_for(noise, UNIT, delta)
    assert upper_tail(noise, least - 1) <= delta
    seen = 0
    for _ in range(runs // at_once):
        ledger = Ledger.in_memory(budget=ApproxDP(1e6, 0.99), unit=UNIT, approximate_delta=0.9)
        curator = _curator(["hermit"], seed=None, ledger=ledger)
        sealed = [seal_keys(curator, "a")] * at_once
        found = release_keys(
            curator, sealed, noise=[noise] * at_once, deltas=[delta] * at_once, purpose="keys"
        )
        seen += sum("hermit" in item.counts for item in found)
    share = seen / runs
    if share > delta:
        distance = share * math.log(share / delta) + (1 - share) * math.log((1 - share) / (1 - delta))
        assert math.exp(-runs * distance) > ALPHA


def test_a_repeated_question_is_answered_from_the_journal(tmp_path: Path) -> None:
    with Ledger.create(
        tmp_path / "t.ledger", budget=ApproxDP(5.0, 1e-6), unit=UNIT, table="t", approximate_delta=1e-7
    ) as ledger:
        answers = []
        for _ in range(2):
            journal = Journal(tmp_path / "journal", ledger=ledger, work={"a": 1})
            curator = _curator(["nörth"] * 90, seed=None, ledger=ledger, journal=journal)
            answers.append(_release(curator).counts)
        assert answers[0] == answers[1]
        assert sum(entry.event is not None for entry in ledger.entries()) == 1


@pytest.mark.parametrize(
    "text", ["", "x" * 61, "a\tb", "a\nb", "a\x00", "a\u2028b", "a\u202eb", "\ud800"], ids=ascii
)
def test_texts_that_are_no_keys_by_the_public_rule_are_never_counted(text: str) -> None:
    assert not usable_key(text)
    assert SealedKeys({text: 10_000}, name="a", unit=UNIT)._exact == {}


def test_seals_show_nothing_and_units_must_agree() -> None:
    sealed = SealedKeys({"secret": 3}, name="a", unit=Unit.replace_one())
    assert "secret" not in repr(sealed)
    assert "3" not in repr(sealed)
    with pytest.raises(BudgetError, match="another unit"):
        release_keys(_curator(["a"]), [sealed], noise=[Gaussian(1.0)], deltas=[1e-8], purpose="p")
