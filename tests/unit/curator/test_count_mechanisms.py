"""Redrawn tables and urns through the curator: charged first, charged the truth, silent about full cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import BudgetError, BudgetExceeded, NoSuchGuarantee
from understudy.mechanisms.counts.look import draw_from_urns, redraw, redraw_event, urn_event
from understudy.privacy import ApproxDP, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.privacy.count_models.laws import CountLaw
from understudy.privacy.count_models.solving import draw_counts, largest_count, released_delta
from understudy.privacy.count_models.urn import UrnPrior
from understudy.privacy.events import ApproxEvent, Composed, PureEvent
from understudy.schema import Schema

SCHEMA = Schema.parse(
    """
name: cells
columns:
  - {name: a, kind: categorical, values: [x, y, z]}
  - {name: b, kind: boolean}
"""
)
LAW = CountLaw("poisson", 0.5)


def curator(
    rows: int = 20,
    *,
    budget: ApproxDP | PureDP | None = None,
    reserve: float = 0.45,
    unit: Unit | None = None,
) -> Curator:
    budget = budget or ApproxDP(3.0, 0.5)
    unit = unit or Unit.add_remove()
    frame = pd.DataFrame({"a": ["x"] * rows, "b": [True] * rows})
    kept = reserve if isinstance(budget, ApproxDP) else 0.0
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t", approximate_delta=kept)
    return Curator(read_table(frame, SCHEMA), unit=unit, ledger=ledger, randomness=SeededRandomness(3))


def test_the_true_delta_is_charged() -> None:
    box = curator()
    drawn = redraw(box, box.counts(("a", "b")), law=LAW, epsilon=2.0, purpose="redraw")
    assert drawn.shape == (3, 2)
    assert drawn.dtype == np.int64
    (event,) = [entry.event for entry in box.ledger.entries() if entry.event is not None]
    assert event == ApproxEvent(2.0, released_delta(LAW, 2.0, box.unit))
    assert event == redraw_event(LAW, epsilon=2.0, unit=box.unit)
    box.ledger.verify()


@pytest.mark.parametrize(
    "unit",
    [Unit.replace_one(), Unit.add_remove_person("a", max_rows=2), Unit.replace_person("a", max_rows=2)],
)
def test_larger_units_cost_more(unit: Unit) -> None:
    law = CountLaw("negative-binomial", 8.0, 0.1)
    one = redraw_event(law, epsilon=1.0, unit=Unit.add_remove())
    assert redraw_event(law, epsilon=1.0, unit=unit).delta > 1.5 * one.delta


def test_a_ledger_that_cannot_pay_draws_nothing() -> None:
    class Silent(SeededRandomness):
        def words(self, n: int) -> np.ndarray:
            raise AssertionError("drew before paying")

    box = curator(reserve=0.01)
    box._randomness = Silent(0)
    with pytest.raises(BudgetExceeded):
        redraw(box, box.counts(("a", "b")), law=LAW, epsilon=2.0, purpose="redraw")
    assert box.ledger.spent == 0
    pure = curator(budget=PureDP(5.0))
    with pytest.raises(BudgetExceeded):
        redraw(pure, pure.counts(("a", "b")), law=LAW, epsilon=2.0, purpose="redraw")
    assert pure.ledger.spent == 0


def test_an_allowance_pays_epsilon_and_delta() -> None:
    box = curator()
    purse = box.within(ApproxDP(2.0, 0.3), scope="redraw", accounting=PURE, reserve=0.25)
    redraw(purse, purse.counts(("a", "b")), law=LAW, epsilon=2.0, purpose="redraw")
    assert purse.spent == 2.0
    assert purse.reserve == pytest.approx(0.25 - released_delta(LAW, 2.0, box.unit))


def test_laws_without_a_guarantee_are_refused_before_charging() -> None:
    with pytest.raises(NoSuchGuarantee, match="promises nothing"):
        redraw_event(CountLaw("sichel", 1.0, 0.5, 1.0), epsilon=0.0, unit=Unit.add_remove())
    with pytest.raises(NoSuchGuarantee, match="spreads"):
        largest_count(CountLaw("negative-binomial", 1e8, 1.0))


@pytest.mark.parametrize(
    "law",
    [
        CountLaw("negative-binomial", 1.0, 100.0),
        CountLaw("poisson-inverse-gaussian", 1.0, 20.0),
        CountLaw("delaporte", 1.0, 1.0, 0.01),
    ],
)
def test_a_very_full_cell_does_not_show_as_a_failure(law: CountLaw) -> None:
    """Full cells are cut at a bound that depends on the law alone; an error would reveal them."""
    bound = largest_count(law)
    assert bound < 10**7
    one = draw_counts(law, np.array([bound, 0]), SeededRandomness(1))
    two = draw_counts(law, np.array([bound * 50, 0]), SeededRandomness(1))
    assert (one == two).all()


def test_negative_counts_are_a_mistake() -> None:
    with pytest.raises(BudgetError):
        draw_counts(LAW, np.array([0, -1]), SeededRandomness(0))


def test_equal_tables_are_redrawn_alike_whatever_the_order_of_cells() -> None:
    """Every cell uses its own words, empty cells included: the number of words does not depend on the counts."""

    class Counting(SeededRandomness):
        used = 0

        def words(self, n: int) -> np.ndarray:
            self.used += n
            return super().words(n)

    for counts in (np.zeros(10, np.int64), np.arange(10), np.full(10, 7)):
        source = Counting(5)
        draw_counts(LAW, counts, source)
        assert source.used == 20


def test_urns_are_charged_together_and_keep_to_possible_cells() -> None:
    box = curator(budget=PureDP(3.0))
    prior = UrnPrior.for_epsilon(1.0, rows=30, unit=box.unit)
    possible = np.array([[True, True], [True, False], [False, False]])
    (drawn,) = draw_from_urns(box, [box.counts(("a", "b"))], priors=[prior], purpose="urn", possible=possible)
    assert drawn.sum() == 30
    assert drawn[~possible].sum() == 0
    assert box.ledger.spent == pytest.approx(1.0, rel=1e-3)
    two = draw_from_urns(box, box.counts_many([("a",), ("b",)]), priors=[prior, prior], purpose="urns")
    assert [item.shape for item in two] == [(3,), (2,)]
    assert box.ledger.spent == pytest.approx(3.0, rel=1e-3)
    assert isinstance(urn_event([prior], unit=box.unit), PureEvent)
    assert isinstance(urn_event([prior, prior], unit=box.unit), Composed)


def test_urns_that_make_no_sense() -> None:
    box = curator(budget=PureDP(3.0))
    prior = UrnPrior(1, 0, rows=5)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: draw_from_urns(box, [box.counts(("a",))], priors=[], purpose="urn"),
        lambda: draw_from_urns(box, [], priors=[], purpose="urn"),
        lambda: draw_from_urns(
            box, [box.counts(("a",))], priors=[prior], purpose="urn", possible=np.zeros(3, bool)
        ),
        lambda: draw_from_urns(
            box, [box.counts(("a",))], priors=[prior], purpose="urn", possible=np.ones(4, bool)
        ),
    )
    for call in calls:
        with pytest.raises(BudgetError):
            call()
    assert box.ledger.spent == 0
