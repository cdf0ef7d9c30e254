"""The fallback: tables that agree with each other when no junction tree fits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from understudy.engine import GraphicalModel, estimate, model_cells
from understudy.errors import DomainTooLarge
from understudy.marginals import Measurement
from understudy.schema import Domain

DOMAIN = Domain(tuple("abcdef"), (4, 5, 3, 4, 2, 6))
PAIRS = list(combinations(DOMAIN.names, 2))


@pytest.fixture(scope="module")
def truth():
    generator = np.random.default_rng(0)
    return generator.dirichlet(np.full(DOMAIN.cells(), 0.2)).reshape(DOMAIN.sizes) * 10_000


def summed(table, clique):
    return table.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique))


def measured(truth, scale=30.0, noise="gaussian"):
    generator = np.random.default_rng(1)
    draw = generator.normal if noise == "gaussian" else generator.laplace
    return [
        Measurement(pair, summed(truth, pair) + scale * draw(size=DOMAIN.shape(pair)), noise, scale)
        for pair in PAIRS
    ]


@pytest.fixture(scope="module")
def model(truth):
    return estimate(DOMAIN, measured(truth), total=10_000.0, max_cells=400, if_too_large="local-consistency")


def test_it_is_refused_unless_asked_for(truth):
    with pytest.raises(DomainTooLarge, match="allowed"):
        estimate(DOMAIN, measured(truth), total=10_000.0, max_cells=400)


def test_the_model_says_what_it_is(model):
    assert model.kind == "local-consistency"
    assert model_cells(DOMAIN, model.cliques) <= 400
    assert {clique for clique, _ in model.local} == set(PAIRS)


def test_tables_are_non_negative_and_agree(model):
    for first, second in combinations(PAIRS, 2):
        shared = sorted(set(first) & set(second))
        if shared:
            left, right = model.marginals([first, second])
            axis = first.index(shared[0]), second.index(shared[0])
            np.testing.assert_allclose(
                left.sum(axis=1 - axis[0]), right.sum(axis=1 - axis[1]), rtol=1e-3, atol=0.5
            )
    for table in model.marginals(PAIRS):
        assert (table >= 0).all()
        assert table.sum() == pytest.approx(10_000.0)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("laplace", ["variance", "likelihood"])
def test_tables_are_closer_to_the_truth_than_the_measurements(truth, noise, laplace):
    items = measured(truth, noise=noise)
    model = estimate(
        DOMAIN, items, total=10_000.0, max_cells=400, if_too_large="local-consistency", laplace=laplace
    )
    answers = model.marginals([item.clique for item in items])
    error = [
        np.abs(answer - summed(truth, item.clique)).sum() for answer, item in zip(answers, items, strict=True)
    ]
    noise_error = [np.abs(item.values - summed(truth, item.clique)).sum() for item in items]
    assert sum(error) < 0.9 * sum(noise_error)


def test_other_questions_and_sampling_use_the_backbone(model, truth):
    triple = model.marginal(("a", "b", "c"))
    assert triple.sum() == pytest.approx(10_000.0)
    codes = model.sample_codes(500, np.random.default_rng(0))
    assert codes.shape == (500, 6)


def test_support_restrictions_hold_in_tables_and_backbone(truth):
    allowed = np.ones((4, 5), dtype=bool)
    allowed[0, :3] = False
    restricted = truth * allowed.reshape(4, 5, 1, 1, 1, 1)
    model = estimate(
        DOMAIN,
        measured(restricted),
        total=float(restricted.sum()),
        zeros=[(("a", "b"), allowed)],
        max_cells=400,
        if_too_large="local-consistency",
    )
    assert (model.marginal(("a", "b"))[~allowed] == 0).all()
    codes = model.sample_codes(2000, np.random.default_rng(0))
    assert allowed[codes[:, 0], codes[:, 1]].all()


def test_it_survives_the_trip_through_arrays(model):
    meta, arrays = model.to_arrays()
    again = GraphicalModel.from_arrays(DOMAIN, meta, arrays)
    assert again.kind == model.kind
    for first, second in zip(again.marginals(PAIRS), model.marginals(PAIRS), strict=True):
        np.testing.assert_array_equal(first, second)
