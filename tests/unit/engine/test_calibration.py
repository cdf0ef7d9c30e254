"""Calibration: the fast tree against brute force and against the log-space reference."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from engine_cases import joint_table, marginal_of, models
from engine_reference import brute_force, calibrate_log
from hypothesis import given

from understudy.engine import GraphicalModel
from understudy.engine.graphical.calibration import Workspace, build_branches
from understudy.engine.graphical.junction import build_tree, order_of
from understudy.errors import ConstraintError
from understudy.schema import Domain

TOTAL = 100.0


def calibrated(domain, potentials):
    order = order_of(domain)
    inner = [(order.columns(clique), order.inward(clique, values)) for clique, values in potentials]
    tree = build_tree(order.sizes, [columns for columns, _ in inner])
    workspace = Workspace(tree, [], inner, TOTAL)
    return tree, inner, workspace, workspace.load()


@given(models())
def test_bags_hold_the_marginals_of_the_joint_table(case):
    domain, potentials = case
    joint = joint_table(domain, potentials, TOTAL)
    if joint is None:
        with pytest.raises(ConstraintError):
            calibrated(domain, potentials)
        return
    order = order_of(domain)
    tree, inner, workspace, _ = calibrated(domain, potentials)
    for bag, columns in enumerate(tree.bags):
        expected = marginal_of(joint, domain, order.clique(columns))
        np.testing.assert_allclose(order.outward(columns, workspace.bag(bag)), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(brute_force(order.sizes, inner, TOTAL).sum(), TOTAL)


@given(models(spread=700.0, max_size=12))
def test_steep_potentials_agree_with_the_log_space_reference(case):
    domain, potentials = case
    if joint_table(domain, potentials, TOTAL) is None:
        return
    tree, inner, workspace, log_partition = calibrated(domain, potentials)
    logs, expected = calibrate_log(tree, inner, TOTAL)
    assert log_partition == pytest.approx(expected, rel=1e-12, abs=1e-9)
    for bag in range(len(tree.bags)):
        assert np.isfinite(workspace.bag(bag)).all()
        np.testing.assert_allclose(workspace.bag(bag), np.exp(logs[bag]), rtol=1e-7, atol=1e-12 * TOTAL)


def test_a_rare_row_keeps_its_conditional_distribution():
    # P(a=1) is about exp(-2000): far below the smallest double, yet b given a=1 must not become 0/0.
    domain = Domain(("a", "b"), (2, 3))
    steep = (("a",), np.array([0.0, -2000.0]))
    pair = (("a", "b"), np.log([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]))
    model = GraphicalModel(domain, 1.0, (steep, pair))
    np.testing.assert_allclose(model.marginal(("b",)), [0.2, 0.3, 0.5])
    assert model.marginal(("a",))[1] == 0.0


def test_wide_columns_and_long_runs_use_every_access_pattern():
    generator = np.random.default_rng(5)
    domain = Domain(("a", "b", "c", "d"), (3, 70, 2, 40))
    potentials = tuple(
        (clique, generator.normal(size=domain.shape(clique)))
        for clique in [("a", "b"), ("b", "c"), ("b", "c", "d"), ("a", "d"), ("c",)]
    )
    joint = joint_table(domain, potentials, TOTAL)
    model = GraphicalModel(domain, TOTAL, potentials)
    for clique in [("a", "b"), ("a", "d"), ("b", "d"), ("c",), ("a", "b", "c", "d")]:
        np.testing.assert_allclose(model.marginal(clique), marginal_of(joint, domain, clique), rtol=1e-9)


def test_grouping_all_triples_of_many_columns_takes_little_memory():
    # Every pair of tables is weighed as the seed of a group. Comparing all of these unions with all tables at once takes
    # 2 GB for the 816 triples of 18 columns, and 22 GB for the 1,771 triples of 23.
    columns = tuple(range(18))
    tree = build_tree((2,) * len(columns), [columns])
    triples = list(itertools.combinations(columns, 3))
    tracemalloc.start()
    try:
        roots, groups = build_branches(tree, triples)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200e6
    assert groups
    held = []
    waiting = [branch for bag in roots for branch in bag]
    while waiting:
        branch = waiting.pop()
        held.append(branch.node)
        assert all(below.mask & branch.mask == below.mask for below in branch.below)
        waiting += branch.below
    assert sorted(held) == list(range(len(triples) + len(groups)))
