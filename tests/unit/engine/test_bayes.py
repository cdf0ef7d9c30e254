"""Bayesian networks with coarse parents against brute force: answers, draws, files, refusals."""

from __future__ import annotations

import json
import math
from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.engine import (
    BayesianNetwork,
    CoarseModel,
    Node,
    Resolution,
    distribution_from_arrays,
    estimate,
)
from understudy.engine.distributions import bayes
from understudy.errors import ModelFileError, WorkloadError
from understudy.marginals import Measurement
from understudy.schema import Domain


def every_clique(domain):
    return list(chain.from_iterable(combinations(domain.names, k) for k in range(len(domain) + 1)))


@st.composite
def resolutions(draw, max_columns=4):
    """Small domains; some columns have one or two coarser levels."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=max_columns))
    domain = Domain(tuple("abcdef"[: len(sizes)]), tuple(sizes))
    coarser = {}
    for name, size in zip(domain.names, sizes, strict=True):
        levels = []
        codes = np.arange(size)
        while size > 2 and draw(st.booleans()):
            codes = codes // 2
            size = int(codes.max()) + 1
            levels.append(codes)
        if levels:
            coarser[name] = levels
    return Resolution(domain, coarser)


@st.composite
def networks(draw, max_columns=4):
    """Random networks: any order of the columns, any parents before them, any level, some zeros."""
    resolution = draw(resolutions(max_columns))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    order = draw(st.permutations(resolution.domain.names))
    nodes = []
    for index, name in enumerate(order):
        parents = tuple(
            (parent, draw(st.integers(0, resolution.heights(parent) - 1)))
            for parent in order[:index]
            if draw(st.booleans())
        )
        table = generator.dirichlet(
            np.full(resolution.domain.size(name), 0.7), size=resolution.shape(parents)
        )
        table[table < 0.05] = 0.0
        nodes.append(Node(name, parents, table / table.sum(axis=-1, keepdims=True)))
    return BayesianNetwork(resolution, draw(st.floats(1, 1e5)), tuple(nodes))


def joint_table(network):
    """The probability of every record, one product at a time."""
    domain, joint = network.domain, np.zeros(network.domain.sizes)
    for record in product(*(range(size) for size in domain.sizes)):
        p = 1.0
        for node in network.nodes:
            groups = [network.resolution.labels(view)[record[domain.index(view[0])]] for view in node.parents]
            p *= node.conditional[(*groups, record[domain.index(node.column)])]
        joint[record] = p
    return joint


def marginal_of(joint, domain, clique):
    return joint.sum(axis=tuple(i for i, name in enumerate(domain.names) if name not in clique))


@given(networks())
def test_marginals_are_those_of_the_joint_table(network):
    joint = joint_table(network)
    assert joint.sum() == pytest.approx(1.0)
    cliques = every_clique(network.domain)
    for clique, answer in zip(cliques, network.marginals(cliques), strict=True):
        expected = network.total * marginal_of(joint, network.domain, clique)
        np.testing.assert_allclose(answer, expected, atol=1e-9 * network.total)


@given(networks())
def test_the_network_of_the_ancestors_is_exact(network):
    """Without room for the whole tree, cliques whose ancestors fit are still exact."""
    joint = joint_table(network)
    cliques = [clique for clique in every_clique(network.domain) if len(clique) <= 2]
    whole = bayes.model_cells(network._extended.domain, [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bayes, "MAX_TREE_CELLS", whole)
        patch.setattr(bayes.BayesianNetwork, "simulated_rows", 64)
        fresh = BayesianNetwork(network.resolution, network.total, network.nodes)
        answers = fresh.marginals(cliques)
        for clique, answer in zip(cliques, answers, strict=True):
            part = fresh._with_ancestors(clique)
            assert answer.sum() == pytest.approx(network.total)
            if not part or (len(part) < len(network.domain) and fresh._part(part).exact):
                expected = network.total * marginal_of(joint, network.domain, clique)
                np.testing.assert_allclose(answer, expected, atol=1e-9 * network.total)


def test_what_does_not_fit_is_counted_on_simulated_records(monkeypatch):
    """Every simulated share lies within a Hoeffding radius of the truth, for a false alarm rate of 1e-9."""
    names = tuple("abc")
    resolution = Resolution(Domain(names, (3, 4, 5)), {"b": [np.array([0, 0, 1, 1])]})
    generator = np.random.default_rng(5)
    nodes = (
        Node("a", (), generator.dirichlet(np.ones(3))),
        Node("b", (("a", 0),), generator.dirichlet(np.ones(4), size=3)),
        Node("c", (("a", 0), ("b", 1)), generator.dirichlet(np.ones(5), size=(3, 2))),
    )
    network = BayesianNetwork(resolution, 100.0, nodes)
    joint = joint_table(network)
    monkeypatch.setattr(bayes, "MAX_TREE_CELLS", 1)
    assert not network.exact
    answer = network.marginals([names])[0] / 100.0
    radius = math.sqrt(math.log(2 * answer.size / 1e-9) / (2 * bayes.BayesianNetwork.simulated_rows))
    assert np.abs(answer - joint).max() < radius
    assert answer.sum() == pytest.approx(1.0)


@given(networks(), st.integers(0, 300))
def test_draws_follow_the_tables_within_one_row_per_group(network, n):
    """Among the rows that agree on the parents each value comes out within one of its expected number."""
    codes = network.sample_codes(n, np.random.default_rng(n))
    assert codes.shape == (n, len(network.domain))
    joint = joint_table(network)
    assert (joint[tuple(codes.T)] > 0).all(), "an impossible record was drawn"
    for node in network.nodes:
        group = np.zeros(n, dtype=int)
        for view in node.parents:
            labels = network.resolution.labels(view)[codes[:, network.domain.index(view[0])]]
            group = group * network.resolution.size(view) + labels
        table = node.conditional.reshape(-1, node.conditional.shape[-1])
        values = codes[:, network.domain.index(node.column)]
        for row in np.unique(group):
            counts = np.bincount(values[group == row], minlength=table.shape[1])
            assert (np.abs(counts - counts.sum() * table[row]) < 1 + 1e-6).all()


def test_the_first_record_follows_the_joint_distribution(seed):
    """Single draws are exact: chi-square on 4,000 first records, false alarm rate 1e-9.

    A sampler that ignored the coarse parent would be caught: the two conditionals differ by .8.
    """
    from scipy import stats

    resolution = Resolution(Domain(("a", "b"), (4, 2)), {"a": [np.array([0, 0, 1, 1])]})
    nodes = (
        Node("a", (), np.array([0.1, 0.2, 0.3, 0.4])),
        Node("b", (("a", 1),), np.array([[0.9, 0.1], [0.1, 0.9]])),
    )
    network = BayesianNetwork(resolution, 10.0, nodes)
    generator = np.random.default_rng(seed)
    first = np.array([network.sample_codes(3, generator)[0] for _ in range(4_000)])
    counts = np.zeros((4, 2))
    np.add.at(counts, (first[:, 0], first[:, 1]), 1)
    expected = joint_table(network) * len(first)
    assert stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 7) > 1e-9
    independent = np.outer(expected.sum(axis=1), expected.sum(axis=0)) / len(first)
    assert stats.chi2.sf(((counts - independent) ** 2 / independent).sum(), 7) < 1e-9


@given(networks())
def test_files_hold_the_whole_network(network):
    meta, arrays = network.to_arrays()
    again = distribution_from_arrays(network.kind, network.domain, json.loads(json.dumps(meta)), arrays)
    assert isinstance(again, BayesianNetwork)
    assert [node.views for node in again.nodes] == [node.views for node in network.nodes]
    cliques = every_clique(network.domain)
    for one, two in zip(network.marginals(cliques), again.marginals(cliques), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)
    one, two = (item.sample_codes(20, np.random.default_rng(1)) for item in (network, again))
    np.testing.assert_array_equal(one, two)


AB = Resolution(Domain(("a", "b"), (4, 2)), {"a": [np.array([0, 0, 1, 1])]})
A, B = Node("a", (), np.full(4, 0.25)), Node("b", (("a", 1),), np.full((2, 2), 0.5))


@pytest.mark.parametrize(
    ("nodes", "total", "message"),
    [
        ((B, A), 1.0, "after its parents"),
        ((A, Node("b", (("b", 0),), np.full((2, 2), 0.5))), 1.0, "names each column once"),
        ((A, A), 1.0, "must come once"),
        ((A,), 1.0, "every column"),
        ((A, Node("b", (("a", 2),), np.full((2, 2), 0.5))), 1.0, "no level 2"),
        ((A, Node("b", (("a", 0),), np.full((2, 2), 0.5))), 1.0, "does not fit"),
        ((A, Node("b", (), np.array([0.5, 0.6]))), 1.0, "must be a distribution"),
        ((A, Node("b", (), np.array([-0.5, 1.5]))), 1.0, "must be a distribution"),
        ((A, Node("b", (), np.array([np.nan, 0.5]))), 1.0, "must be a distribution"),
        ((A, B), 0.0, "must be positive"),
    ],
)
def test_what_is_not_a_network_is_refused(nodes, total, message):
    with pytest.raises(WorkloadError, match=message):
        BayesianNetwork(AB, total, nodes)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda meta, arrays: meta.update(format=9),
        lambda meta, arrays: meta.pop("nodes"),
        lambda meta, arrays: meta["nodes"].reverse(),
        lambda meta, arrays: meta.update(total="many"),
        lambda meta, arrays: meta["levels"].update(z=1),
        lambda meta, arrays: arrays.pop("conditional-1"),
        lambda meta, arrays: arrays.pop("level-0-1"),
        lambda meta, arrays: arrays.update({"level-0-1": np.array([0, 1, 0, 2])}),
        lambda meta, arrays: arrays.update({"conditional-1": np.ones((2, 2))}),
    ],
)
def test_damaged_files_are_refused(spoil):
    network = BayesianNetwork(AB, 5.0, (A, B))
    meta, arrays = network.to_arrays()
    spoil(meta, arrays)
    with pytest.raises(ModelFileError):
        distribution_from_arrays(network.kind, network.domain, meta, arrays)


@pytest.mark.parametrize(
    "levels", [[[0, 1, 0, 2]], [[0, 0, 2, 2]], [[1, 1, 2, 2]], [[0, 0, 1]], [[0, 0, 1, 1], [0, 1, 1, 1]]]
)
def test_levels_must_merge_the_groups_before_them(levels):
    nested = levels != [[0, 1, 0, 2]]
    if not nested:
        Resolution(AB.domain, {"a": levels})  # any first level merges single codes
        levels = [*levels, [0, 0, 1, 1]]  # but this one splits the group of codes 0 and 2
    with pytest.raises(WorkloadError, match="must number groups that merge"):
        Resolution(AB.domain, {"a": levels})


@given(resolutions(), st.data())
def test_summing_and_spreading_are_transposes(resolution, data):
    """``<summed(x), y> = <x, spread(y)>`` for every coarser table y: the defining property of both."""
    names = data.draw(st.permutations(resolution.domain.names))
    fine = [(name, data.draw(st.integers(0, resolution.heights(name) - 1))) for name in names]
    onto = [
        (name, data.draw(st.integers(level, resolution.heights(name) - 1)))
        for name, level in fine
        if data.draw(st.booleans())
    ]
    onto = data.draw(st.permutations(onto))
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=resolution.shape(fine)), generator.normal(size=resolution.shape(onto))
    spread = np.broadcast_to(resolution.spread(y, onto, fine), x.shape)
    assert np.sum(resolution.summed(x, fine, onto) * y) == pytest.approx(float(np.sum(x * spread)))


def test_extended_names_never_collide():
    domain = Domain(("a", "a~1", "b"), (4, 2, 2))
    extended = Resolution(domain, {"a": [np.array([0, 0, 1, 1])]}).extended([("a", 1), ("a", 1), ("b", 0)])
    assert extended.domain.names == ("a", "a~1", "b", "a~1~")
    assert extended.clique([("b", 0), ("a", 1)]) == ("b", "a~1~")


def test_a_coarse_model_is_seen_through_its_columns():
    """A table over a coarse view of a shapes the model; the view itself never shows."""
    extended = AB.extended([("a", 1)])
    noisy = Measurement(("b", "a~1"), np.array([[30.0, 10.0], [5.0, 55.0]]), "gaussian", 0.1)
    inner = estimate(extended.domain, [noisy], total=100.0, zeros=extended.links, thorough=True)
    model = CoarseModel(AB, extended.views, inner)
    joint = model.marginals([("a", "b")])[0]
    np.testing.assert_allclose(joint, [[15, 2.5], [15, 2.5], [5, 27.5], [5, 27.5]], rtol=1e-3)
    codes = model.sample_codes(200, np.random.default_rng(0))
    assert codes.shape == (200, 2)
    counts = np.zeros((4, 2))
    np.add.at(counts, (codes[:, 0], codes[:, 1]), 1)
    assert np.abs(counts / 2 - joint).max() < 2
    meta, arrays = model.to_arrays()
    again = distribution_from_arrays(model.kind, AB.domain, json.loads(json.dumps(meta)), arrays)
    np.testing.assert_allclose(again.marginals([("a", "b")])[0], joint)
    assert again.total == pytest.approx(100.0)
    meta["views"] = [["a", 3]]
    with pytest.raises(ModelFileError):
        distribution_from_arrays(model.kind, AB.domain, meta, arrays)
