"""Drawing when many columns are given: each record has the distribution of the model under its own codes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from understudy.engine import GraphicalModel
from understudy.engine.graphical import evidence
from understudy.engine.graphical.evidence import sample_each
from understudy.schema import Domain

DOMAIN = Domain(("a", "b", "c", "d", "e"), (2, 3, 4, 2, 3))
CLIQUES = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("d", "e"), ("c",))


def model_of(seed: int, *, zeros: bool = False) -> GraphicalModel:
    rng = np.random.default_rng(seed)
    potentials = []
    for clique in CLIQUES:
        logs = 2.0 * rng.standard_normal(DOMAIN.shape(clique))
        if zeros and len(clique) == 2:
            logs[0, -1] = -np.inf
        potentials.append((clique, logs))
    return GraphicalModel(DOMAIN, 1.0, tuple(potentials))


@pytest.mark.parametrize("given", [("a",), ("b", "d"), ("a", "c", "e"), ("a", "b", "c", "d"), ()])
@pytest.mark.parametrize("zeros", [False, True])
def test_records_follow_the_conditional_distribution(given, zeros):
    """A chi-square distance over 60,000 records; false alarm below 1e-9 at mean + 8 deviations. Catches a factor that is left out or turned."""
    model = model_of(1, zeros=zeros)
    joint = model.marginal(DOMAIN.names)
    rng = np.random.default_rng(5)
    shape = DOMAIN.shape(given)
    cells = list(itertools.product(*map(range, shape)))
    values = np.array([cells[i] for i in rng.integers(0, len(cells), 60_000)], dtype=np.int64).reshape(
        60_000, len(given)
    )
    codes, possible = sample_each(model, given, values, rng)
    places = [DOMAIN.index(name) for name in given]
    np.testing.assert_array_equal(codes[:, places], values)
    for cell in cells:
        index = tuple(cell[given.index(name)] if name in given else slice(None) for name in DOMAIN.names)
        wanted = joint[index].reshape(-1)
        mine = (values == np.array(cell, dtype=np.int64)).all(axis=1)
        assert possible[mine].all() == (wanted.sum() > 0)
        if not wanted.sum() > 0:
            continue
        free = [place for place in range(5) if place not in places]
        flat = np.zeros(mine.sum(), dtype=np.int64)
        for place in free:
            flat = flat * DOMAIN.sizes[place] + codes[mine, place]
        counts = np.bincount(flat, minlength=wanted.size)
        expected = wanted / wanted.sum() * mine.sum()
        assert counts[expected == 0].sum() == 0
        common = expected > 5
        distance = ((counts - expected)[common] ** 2 / expected[common]).sum()
        degrees = max(1, common.sum())
        assert distance < degrees + 8 * np.sqrt(2 * degrees) + 30


def test_rows_that_cannot_occur_are_told():
    model = model_of(2, zeros=True)
    values = np.array([[0, 2], [1, 2], [0, 0]])
    _, possible = sample_each(model, ("a", "b"), values, np.random.default_rng(0))
    assert possible.tolist() == [False, True, True]


def test_large_potentials_that_cancel_do_no_harm():
    logs = np.array([[0.0, 800.0], [800.0, 0.0]])
    model = GraphicalModel(
        Domain(("a", "b"), (2, 2)), 1.0, ((("a", "b"), logs), (("b",), np.array([-800.0, -800.0])))
    )
    codes, possible = sample_each(model, ("a",), np.array([[0], [1]]), np.random.default_rng(0))
    assert codes.tolist() == [[0, 1], [1, 0]]
    assert possible.all()


@pytest.mark.parametrize("huge", [300.0, 745.0, 900.0, 2_000.0])
def test_what_cancels_in_several_potentials_changes_nothing(huge):
    """The same model, with a large number added to one potential and taken from another: 40,000 records follow the same law.

    The eliminated column carries the numbers, so that products of one step look like nothing beside a factor of another. False alarm below 1e-9 (eight deviations); catches
    products that underflow beside others that do not, which moved tens of percent.
    """
    plain = model_of(4)
    shift = huge * np.array([0.0, 0.5, 0.8, 1.0])  # of the codes of c, over which b and d meet
    moved = {("b", "c"): shift[None, :], ("c", "d"): -shift[:, None]}
    model = GraphicalModel(
        DOMAIN, 1.0, tuple((clique, logs + moved.get(clique, 0.0)) for clique, logs in plain.potentials)
    )
    values = np.tile(np.array([[0, 2], [1, 0]]), (20_000, 1))
    codes, possible = sample_each(model, ("a", "e"), values, np.random.default_rng(2))
    assert possible.all()
    joint = plain.marginal(("a", "c", "d", "e"))
    for a, e in ((0, 2), (1, 0)):
        mine = codes[(codes[:, 0] == a) & (codes[:, 4] == e)]
        found = np.zeros((4, 2))
        np.add.at(found, (mine[:, 2], mine[:, 3]), 1 / len(mine))
        wanted = joint[a, :, :, e] / joint[a, :, :, e].sum()
        assert np.abs(found - wanted).max() < 8 * 0.5 / np.sqrt(len(mine))


def test_tables_that_are_too_large_are_left_to_others(monkeypatch):
    monkeypatch.setattr(evidence, "MOST_CELLS", 4)
    assert sample_each(model_of(1), ("a",), np.array([[0]]), np.random.default_rng(0)) is None


def test_few_rows_at_a_time_are_the_same_distribution(monkeypatch):
    monkeypatch.setattr(evidence, "_NUMBERS_AT_ONCE", 100)
    model = model_of(3)
    values = np.zeros((5_000, 1), dtype=np.int64)
    codes, _ = sample_each(model, ("a",), values, np.random.default_rng(1))
    joint = model.marginal(("a", "c"))[0]
    found = np.bincount(codes[:, 2], minlength=4) / 5_000
    assert np.abs(found - joint / joint.sum()).max() < 0.06  # eight deviations
