"""The record of how measurements came about survives the model file and refuses damage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from understudy.errors import DomainTooLarge, ModelFileError
from understudy.inference import Certificate, History, Round, RoundLog, answer_each
from understudy.inference.bounds import round_share
from understudy.marginals import Measurement
from understudy.schema import Clique, Domain

DOMAIN = Domain(("a", "b"), (2, 3))


def story(certificate: bool = True) -> tuple[tuple[Measurement, ...], History]:
    first = Measurement(("a",), np.array([4.0, 8.0]), "gaussian", 2.0)
    log = RoundLog(planned=1)
    items = [first]
    for index, last in enumerate((False, True)):
        item = Measurement(("a", "b"), np.arange(6.0).reshape(2, 3), "gaussian", 1.0)
        candidates = (("a",), ("a", "b")) if index == 0 else (("a", "b"),)
        step = Round(("a", "b"), np.full((2, 3), 2.0), item, 0.1, candidates, 3.0, 3.0, 0.8, 1.0, last)
        answers = [np.full(DOMAIN.shape(clique), 2.0 + index) for clique in candidates]
        log.add(step, answers, [1.0, 3.0][2 - len(candidates) :])
        items.append(item)
    signed = Certificate((("a", "b"),), np.array([5.5]), "gaussian", 2.0) if certificate else None
    final = {("a",): np.array([3.0, 3.0]), ("a", "b"): np.full((2, 3), 3.0)}
    history = log.close(final, certificate=signed)
    return tuple(items), history


def test_standings_remember_the_last_chance() -> None:
    _, history = story()
    assert history.batches == (1, 1, 1)
    found = {item.clique: (item.round, item.weight, item.drift) for item in history.standings}
    assert found == {("a",): (0, 1.0, 2.0), ("a", "b"): (1, 3.0, 0.0)}


@pytest.mark.parametrize("certificate", [True, False])
def test_round_trip(certificate: bool) -> None:
    items, history = story(certificate)
    meta, arrays = history.to_arrays()
    back = History.from_arrays(DOMAIN, items, meta, arrays)
    assert back.batches == history.batches
    assert back.standings == history.standings
    for left, right in zip(back.rounds, history.rounds, strict=True):
        assert left.measurement is right.measurement
        assert (left.clique, left.candidates, left.last) == (right.clique, right.candidates, right.last)
        assert (left.epsilon, left.weight, left.penalty) == (right.epsilon, right.weight, right.penalty)
        np.testing.assert_array_equal(left.answer, right.answer)
    if certificate:
        assert back.certificate is not None
        np.testing.assert_array_equal(back.certificate.values, [5.5])
    else:
        assert back.certificate is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda meta, arrays: meta.pop("batches"),
        lambda meta, arrays: meta.update(batches=[1, 1]),
        lambda meta, arrays: meta.update(batches=[4, -1]),
        lambda meta, arrays: meta["rounds"][0].update(clique=99),
        lambda meta, arrays: meta["rounds"][0].update(clique="x"),
        lambda meta, arrays: meta["rounds"].extend([{}] * 9),
        lambda meta, arrays: arrays.update({"answer-0": np.zeros((9, 9))}),
        lambda meta, arrays: arrays.pop("standing-drift"),
        lambda meta, arrays: arrays.update({"standing-round": np.array([0, 7])}),
        lambda meta, arrays: meta["certificate"].update(noise="none"),
        lambda meta, arrays: arrays.update(certificate=np.zeros(4)),
    ],
)
def test_damage_is_refused(damage: object) -> None:
    assert callable(damage)
    items, history = story()
    meta, arrays = history.to_arrays()
    damage(meta, arrays)
    with pytest.raises(ModelFileError):
        History.from_arrays(DOMAIN, items, meta, arrays)


def test_the_log_forgets_what_it_has_no_room_for() -> None:
    log = RoundLog(planned=0, max_cells=4)
    item = Measurement(("a", "b"), np.zeros((2, 3)), "gaussian", 1.0)
    step = Round(("a", "b"), np.zeros((2, 3)), item, 0.1, (("a",), ("a", "b")), 1.0, 1.0, 0.8, 1.0)
    log.add(step, [np.zeros(2), np.zeros((2, 3))], [1.0, 1.0])
    history = log.close({("a",): np.ones(2), ("a", "b"): np.ones((2, 3))})
    assert [item.clique for item in history.standings] == [("a",)]
    assert History.unknown(4).batches == (1, 1, 1, 1)


def test_marginals_a_model_cannot_compute_are_left_out() -> None:
    def answers(cliques: Sequence[Clique]) -> list[np.ndarray]:
        if ("a", "b") in cliques:
            raise DomainTooLarge("too large", cells=9, allowed=1)
        return [np.ones(2) for _ in cliques]

    found = answer_each(answers, [("a",), ("a", "b"), ("b",)])
    assert list(found) == [("a",), ("b",)]
    assert answer_each(answers, []) == {}


def test_rounds_share_the_failure_probability() -> None:
    _, history = story()
    assert round_share(history.rounds[1], 500) == 0.5
    assert 0.4999 < sum(round_share(history.rounds[0], index) for index in range(10_000)) < 0.5
