"""The engine against mbi (Private-PGM) on shared models. Runs where mbi is installed: ``pip install mbi``."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest

from understudy.engine import GraphicalModel, estimate, model_size
from understudy.marginals import Measurement
from understudy.schema import Domain

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
        import jax
    except ImportError:
        pytest.skip(
            "mbi is not installed (pip install mbi, in an environment of its own)", allow_module_level=True
        )
    jax.config.update("jax_enable_x64", True)
    mbi = pytest.importorskip(
        "mbi", reason="mbi is not installed (pip install mbi, in an environment of its own)"
    )

pytestmark = pytest.mark.filterwarnings("ignore")

DOMAIN = Domain(tuple("abcdef"), (3, 4, 2, 5, 3, 2))
SHAPES = {
    "chain": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")],
    "star": [("a", "d"), ("b", "d"), ("c", "d"), ("d", "e"), ("d", "f")],
    "cycle": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "e")],
    "triples": [("a", "b", "c"), ("b", "c", "d"), ("a", "e"), ("d", "f")],
    "apart": [("a", "b"), ("c", "d")],
}


def theirs():
    return mbi.Domain(DOMAIN.names, DOMAIN.sizes)


def random_potentials(cliques, seed):
    generator = np.random.default_rng(seed)
    return tuple((clique, generator.normal(size=DOMAIN.shape(clique)) * 2) for clique in cliques)


def noisy_marginals(cliques, seed, scale=10.0):
    generator = np.random.default_rng(seed)
    table = generator.dirichlet(np.full(DOMAIN.cells(), 0.2)).reshape(DOMAIN.sizes) * 5000
    measurements = []
    for clique in cliques:
        axes = tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique)
        noise = scale * generator.normal(size=DOMAIN.shape(clique))
        measurements.append(Measurement(clique, table.sum(axis=axes) + noise, "gaussian", scale))
    return measurements


@pytest.mark.parametrize("shape", SHAPES)
def test_marginals_of_the_same_potentials_agree(shape, seed):
    potentials = random_potentials(SHAPES[shape], seed)
    tables = {clique: mbi.Factor(theirs().project(clique), values) for clique, values in potentials}
    vector = mbi.CliqueVector(theirs(), list(tables), tables)
    model = GraphicalModel(DOMAIN, 100.0, potentials)
    wanted = [clique for size in (1, 2, 3) for clique in combinations(DOMAIN.names, size)]
    for clique, answer in zip(wanted, model.marginals(wanted), strict=True):
        expected = mbi.marginal_oracles.variable_elimination(vector, clique, 100.0)
        np.testing.assert_allclose(answer, np.asarray(expected.values), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_our_trees_are_never_larger(shape):
    ours, other = (
        model_size(DOMAIN, SHAPES[shape]),
        mbi.junction_tree.hypothetical_model_size(theirs(), SHAPES[shape]),
    )
    assert ours <= other * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["chain", "cycle", "triples"])
def test_our_estimate_fits_at_least_as_well_as_mirror_descent(shape, seed):
    measurements = noisy_marginals(SHAPES[shape], seed)
    model = estimate(DOMAIN, measurements, total=5000.0, tolerance=1e-5, max_epochs=500)
    linear = [mbi.LinearMeasurement(m.values.ravel(), m.clique, m.scale) for m in measurements]
    other = mbi.estimation.MirrorDescent().estimate(theirs(), linear, known_total=5000.0, iters=2000)

    def loss(answers):
        return sum(
            0.5 * np.square(np.asarray(answer) - item.values).sum() / item.variance
            for answer, item in zip(answers, measurements, strict=True)
        )

    ours = loss(model.marginals([m.clique for m in measurements]))
    assert ours == pytest.approx(model.info.loss, rel=1e-6)
    reference = loss([other.project(m.clique).values for m in measurements])
    assert ours <= reference + 1e-3
    assert ours == pytest.approx(reference, rel=0.02, abs=0.2)
