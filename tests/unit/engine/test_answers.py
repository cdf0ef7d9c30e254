"""Batched marginals against brute force, inside and across bags."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import every_clique, joint_table, marginal_of, models
from hypothesis import given
from hypothesis import strategies as st

from understudy.engine import GraphicalModel
from understudy.engine.graphical.answers import Answers
from understudy.errors import DomainTooLarge, WorkloadError
from understudy.schema import Domain


@given(models(max_columns=6, max_size=3), st.randoms(use_true_random=False))
def test_every_marginal_is_that_of_the_joint_table(case, random):
    domain, potentials = case
    joint = joint_table(domain, potentials, 50.0)
    if joint is None:
        return
    model = GraphicalModel(domain, 50.0, potentials)
    wanted = every_clique(domain)
    random.shuffle(wanted)
    for clique, answer in zip(wanted, model.marginals(wanted), strict=True):
        np.testing.assert_allclose(answer, marginal_of(joint, domain, clique), rtol=1e-9, atol=1e-9)


@given(models(max_columns=6, max_size=4))
def test_slices_and_little_memory_give_the_same_answers(case):
    domain, potentials = case
    if joint_table(domain, potentials, 50.0) is None:
        return
    model = GraphicalModel(domain, 50.0, potentials)
    columns = [model.order.columns(clique) for clique in every_clique(domain)]
    small = Answers(model.tree, model.tables, 50.0, memory_cells=1, piece_cells=9)
    plenty = Answers(model.tree, model.tables, 50.0)
    for first, second in zip(small.marginals(columns), plenty.marginals(columns), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12)


def chain(n, size=5):
    generator = np.random.default_rng(n)
    domain = Domain(tuple(f"c{i}" for i in range(n)), (size,) * n)
    potentials = tuple(((f"c{i}", f"c{i + 1}"), generator.normal(size=(size, size))) for i in range(n - 1))
    return GraphicalModel(domain, 1.0, potentials)


def test_far_ends_of_a_long_chain_multiply_transition_matrices():
    model = chain(60)
    power = np.eye(5)
    for i in range(59):
        pair = model.marginal((f"c{i}", f"c{i + 1}"))
        power = power @ (pair / pair.sum(axis=1, keepdims=True))
    start = model.marginal(("c0",))
    np.testing.assert_allclose(model.marginal(("c0", "c59")), start[:, None] * power, rtol=1e-9)


def test_many_triples_of_a_wide_model_are_consistent():
    model = chain(40, size=2)
    names = model.domain.names
    triples = [
        (names[i], names[j], names[k])
        for i in range(0, 40, 7)
        for j in range(i + 1, 40, 9)
        for k in range(j + 1, 40)
    ]
    for clique, answer in zip(triples, model.marginals(triples), strict=True):
        np.testing.assert_allclose(answer.sum(axis=(0, 2)), model.marginal((clique[1],)), atol=1e-12)


@pytest.mark.parametrize("piece_cells", [20, 60, 400])
def test_slices_of_a_tree_with_wide_separators_give_the_same_answers(piece_cells):
    generator = np.random.default_rng(3)
    domain = Domain(tuple("abcdefg"), (3, 4, 2, 5, 3, 6, 4))
    cliques = [("a", "b", "c"), ("b", "c", "d"), ("b", "d", "e"), ("d", "e", "f"), ("c", "g")]
    model = GraphicalModel(domain, 1.0, tuple((c, generator.normal(size=domain.shape(c))) for c in cliques))
    wanted = every_clique(domain)
    columns = [model.order.columns(clique) for clique in wanted]
    sliced = Answers(model.tree, model.tables, 1.0, piece_cells=piece_cells).marginals(columns)
    joint = model.marginal(domain.names)
    for clique, item, answer in zip(wanted, columns, sliced, strict=True):
        np.testing.assert_allclose(
            model.order.outward(item, answer), marginal_of(joint, domain, clique), atol=1e-12
        )


def test_a_marginal_that_cannot_fit_is_refused_with_its_size():
    model = chain(30, size=10)
    with pytest.raises(DomainTooLarge, match="needs 1,000,000,000,000 cells") as caught:
        model.marginal(model.domain.names[:12])
    assert caught.value.cells == 10**12


def test_unknown_and_repeated_columns_are_refused():
    model = chain(3)
    with pytest.raises(WorkloadError, match="No column named 'x'"):
        model.marginal(("x",))
    with pytest.raises(WorkloadError, match="names each column once"):
        model.marginal(("c0", "c0"))


def test_one_at_a_time_gives_every_position_once():
    model = chain(4)
    wanted = [("c0", "c3"), ("c1",), ("c3", "c0"), ()]
    found = dict(model.each_marginal(wanted))
    assert sorted(found) == [0, 1, 2, 3]
    for position, table in enumerate(model.marginals(wanted)):
        np.testing.assert_array_equal(found[position], table)
    assert found[0] is not found[2]  # each caller owns its table


def test_column_order_of_a_question_does_not_matter():
    model = chain(4)
    np.testing.assert_array_equal(model.marginal(("c2", "c0")), model.marginal(("c0", "c2")))
