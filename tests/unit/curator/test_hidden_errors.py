"""Errors in what was paid for say that they happened and nothing else; what is claimed about sealed values is claimed once."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from deep_examples import LAYOUT, curator_of, random_codes
from understudy.curator import Curator, Sealed, SealedCounts, SealedNumbers, SealedScalar
from understudy.curator.numbers import Reach
from understudy.data import LocalTable
from understudy.errors import BudgetError, LookFailed
from understudy.marginals import cells_of_marginal
from understudy.mechanisms.deep.critic import Critic
from understudy.mechanisms.deep.look import PanelPlan, TrainingPlan, open_panel, open_training
from understudy.mechanisms.deniability.bounds import SeedTest
from understudy.mechanisms.deniability.look import (
    counts_event,
    entropy_event,
    moments_event,
    open_parts,
    records_event,
    rows_event,
)
from understudy.mechanisms.deniability.network import Conditional, NetworkSeedModel
from understudy.mechanisms.histograms.partitions.look import SealedBuckets
from understudy.mechanisms.parametric.regression.look import Softmax, fit_softmax
from understudy.mechanisms.queries.look import measure_answers, seal_answers
from understudy.privacy import ApproxDP, Gaussian, Laplace, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Categorical, Domain, Schema

UNIT = Unit.add_remove()
PRIVATE = "the record of patient 4711"


class Breaking(LocalTable):
    """A table whose records end every look in an error that shows one of them."""

    def _fail(self, *args: Any, **options: Any) -> Any:
        raise ValueError(PRIVATE)

    chunks = count_many = distinct = exact_row_count = _fail


def breaking(curator: Curator) -> Curator:
    """The same curator, whose table now breaks."""
    table = copy.copy(curator._table)
    table.__class__ = Breaking
    curator._table = table
    return curator


def hides(look: Callable[[], Any]) -> None:
    """The error has a public name, and nothing of what happened is reachable from it."""
    with pytest.raises(LookFailed) as caught:
        look()
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert PRIVATE not in "".join(traceback.format_exception(error))


def codes(rows: int = 40) -> np.ndarray:
    return random_codes(np.random.default_rng(0), rows)


def test_a_training_hides_its_errors() -> None:
    critic = Critic(LAYOUT, (5,), "cross_entropy", 1.0)
    plan = TrainingPlan(critic, 0.5, 20.0, 2, (Gaussian(50.0),) * 3)
    curator = breaking(curator_of(codes(), budget=ApproxDP(9.0, 1e-3), randomness=1, reserve=9e-4))
    training = open_training(curator, plan, event=plan.event(UNIT, delta=1e-4), purpose="train")
    hides(lambda: training.step(critic.start(np.random.default_rng(0))))
    hides(training.marginals)
    with pytest.raises(BudgetError, match="measured already"):
        training.marginals()


def test_a_panel_hides_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = PanelPlan(LAYOUT, 3, 4, 2, 1e-3, 10, Laplace(50.0), (Laplace(60.0),) * 3)

    def opened(curator: Curator) -> Any:
        return open_panel(curator, plan, generator=np.random.default_rng(0), purpose="ask")

    door = breaking(curator_of(codes(), budget=PureDP(9.0), randomness=1))
    hides(lambda: opened(door))
    assert door.ledger.spent > 0  # it was paid for

    panel = opened(curator_of(codes(), budget=PureDP(9.0), randomness=1))
    panel._codes = panel._parameters = None  # whatever breaks inside
    hides(lambda: panel.teach(codes(6), np.zeros(6, dtype=np.int64)))
    hides(lambda: panel.ask(codes(4), np.zeros(4, dtype=np.int64)))
    panel._table = breaking(door)._table
    hides(panel.marginals)


def small() -> Schema:
    return Schema(columns=(Categorical("a", values=("0", "1")), Categorical("b", values=("0", "1", "2"))))


def small_curator(unit: Unit = UNIT) -> Curator:
    generator = np.random.default_rng(1)
    table = LocalTable(small(), {"a": generator.integers(0, 2, 30), "b": generator.integers(0, 3, 30)})
    ledger = Ledger.in_memory(budget=ApproxDP(1e6, 1e-2), unit=unit, approximate_delta=5e-3)
    return Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(3))


def acts() -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    noise, both = Laplace(3.0), {"a": [0, 1], "b": [0, 1, 2]}
    test = SeedTest(k=50, gamma=4.0, epsilon0=1.0, min_seeds=200)
    records = records_event(test, unit=UNIT, records=1, delta=1e-3)
    laws = (Conditional("a", (), (), np.ones(2) / 2), Conditional("b", (), (), np.ones(3) / 3))
    model = NetworkSeedModel(small().domain, laws, omega=(1,))  # never asked: the table breaks before
    yield "row_count", rows_event(UNIT, noise), lambda part: part.row_count(noise)
    yield "entropies", entropy_event(noise), lambda part: part.entropies([both], noise=noise, at_least=5)
    yield "measure", counts_event(UNIT, noise), lambda part: part.measure([both], noise=noise)
    yield (
        "moments",
        moments_event(UNIT, noise),
        lambda part: part.moments({"b": [0, 1, 2]}, "a", [0.0, 1.0], noise=noise),
    )
    yield "lazy_counts", counts_event(UNIT, noise), lambda part: part.lazy_counts(both, "b", noise=noise)
    yield "release", records, lambda part: part.release(model, test, records=1, event=records)


@pytest.mark.parametrize(("event", "act"), [pytest.param(event, act, id=name) for name, event, act in acts()])
def test_a_part_hides_its_errors(event: Any, act: Callable[[Any], Any]) -> None:
    (part,) = open_parts(breaking(small_curator()), [[event]], shares=None, purpose="look")
    hides(lambda: act(part))
    with pytest.raises(BudgetError, match="not paid for"):
        act(part)


def test_splitting_and_lazy_counts_hide_their_errors() -> None:
    noise = Laplace(3.0)
    events = [[rows_event(UNIT, noise)], [counts_event(UNIT, noise)]]
    hides(lambda: open_parts(breaking(small_curator()), events, shares=[0.5, 0.5], purpose="split"))
    _, part = open_parts(small_curator(), events, shares=None, purpose="look")
    lazy = part.lazy_counts({"a": [0, 1], "b": [0, 1, 2]}, "b", noise=noise)
    with pytest.raises(BudgetError, match="no such combination"):
        lazy.row([7])
    lazy._rows = None  # type: ignore[assignment]
    hides(lambda: lazy.row([1]))


def test_a_regression_reads_the_records_after_it_is_charged_and_hides_errors() -> None:
    model = Softmax("a", np.array([0, 1]), (("b", np.array([[-1.0], [0.0], [1.0]])),))
    curator = breaking(small_curator())
    hides(lambda: fit_softmax(curator, model, epsilon=1.0, purpose="fit"))
    assert [entry.purpose for entry in curator.ledger.entries() if entry.event is not None] == ["fit"]


# ---------------------------------------------------------------------- claims


def sealed() -> list[tuple[Sealed, tuple[str, ...]]]:
    counts = SealedCounts(
        np.array([5, 5, 0, 1]), clique=("a",), domain=Domain(("a",), (4,)), unit=UNIT, known_rows=None
    )
    numbers = SealedNumbers(np.array([1, 2]), name="moments", reach=Reach(2.0, 1.5), step=0.5)
    answers = seal_answers(small_curator(), cells_of_marginal(small().domain, ("a",)))
    return [
        (SealedScalar(3.0, sensitivity=1.0), ("sensitivity",)),
        (counts, ("l1", "l2", "linf", "clique", "shape")),
        (counts.grouped({"a": [0, 0, 1, 1]}), ("l1", "l2", "linf", "clique", "shape")),
        (numbers, ("reach", "step", "name", "size")),
        (answers, ("sensitivity",)),
        (SealedBuckets(counts, cells=4, buckets=2), ("sensitivity", "cells", "buckets")),
    ]


@pytest.mark.parametrize(("item", "names"), [pytest.param(*pair, id=repr(pair[0])) for pair in sealed()])
def test_a_claim_about_a_sealed_value_cannot_be_changed(item: Sealed, names: tuple[str, ...]) -> None:
    """Fails on 0.1.0: a sensitivity that was lowered was charged for."""
    for name in names:
        before = getattr(item, name)
        with pytest.raises(TypeError, match="cannot be changed"):
            setattr(item, name, before)
        with pytest.raises(TypeError, match="Nothing can be taken"):
            delattr(item, name)
        assert getattr(item, name) is before


def test_a_question_about_answers_names_the_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails on 0.1.0: places in a list were all that told two questions apart, so an answer about other cells could be repeated."""
    asked = []
    original = Curator._answer

    def answer(self: Curator, *events: Any, about: Any = None, **rest: Any) -> Any:
        asked.append(about)
        return original(self, *events, about=about, **rest)

    monkeypatch.setattr(Curator, "_answer", answer)
    curator = small_curator()
    ours, others = (cells_of_marginal(small().domain, (name,))[:2] for name in ("a", "b"))
    for queries in (ours, others, list(reversed(ours)), ours):
        measure_answers(
            curator, seal_answers(curator, queries), [0, 1], noise=Laplace(2.0), purpose="measure"
        )
    assert asked[0] == asked[3]
    assert len({repr(about) for about in asked}) == 3
