"""Untangled targets: the same loss for every table, without contradictions, and a bound below it."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import design, problems
from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.graphical.consistency import Consistency
from understudy.engine.graphical.factors import cells_of, sum_to
from understudy.engine.graphical.junction import order_of
from understudy.engine.graphical.targets import collect_targets, estimate_total, untangle
from understudy.marginals import Measurement
from understudy.schema import Domain


def setup(domain, measurements, total):
    order = order_of(domain)
    targets = collect_targets(domain, measurements)
    columns = [target.columns for target in targets]
    weights = [target.weight for target in targets]
    values = np.concatenate([target.values.ravel() for target in targets])
    return order.sizes, columns, weights, values, Consistency(order.sizes, columns, weights, total), targets


def generalised_least_squares(sizes, columns, weights, values, total):
    """Project onto the range of all marginal matrices with a dense solver, the total fixed."""
    domain = Domain(tuple(f"c{i}" for i in range(len(sizes))), tuple(sizes))
    matrix = np.concatenate([design(domain, tuple(f"c{i}" for i in clique)) for clique in columns])
    root = np.sqrt(
        np.concatenate([np.full(cells_of(sizes, c), w) for c, w in zip(columns, weights, strict=True)])
    )
    cells = matrix.shape[1]
    basis = np.linalg.qr(np.column_stack([np.ones(cells), np.eye(cells)[:, 1:]]))[0][:, 1:]  # sums to zero
    start = matrix @ np.full(cells, total / cells)
    free = matrix @ basis
    free[np.abs(free) < 1e-12] = 0.0
    solution = np.linalg.lstsq(root[:, None] * free, root * (values - start), rcond=1e-10)[0]
    return start + matrix @ basis @ solution


@given(problems())
def test_the_projection_is_generalised_least_squares(case):
    domain, measurements = case
    if not any(item.clique for item in measurements):
        return
    sizes, columns, weights, values, agree, _ = setup(domain, measurements, 150.0)
    expected = generalised_least_squares(sizes, columns, weights, values, 150.0)
    np.testing.assert_allclose(agree.project(values), expected, rtol=1e-6, atol=1e-6)


@given(problems(), st.integers(0, 2**32 - 1))
def test_untangled_targets_have_the_same_loss_up_to_a_constant_and_a_bound_below_it(case, seed):
    domain, measurements = case
    if not any(item.clique for item in measurements):
        return
    generator = np.random.default_rng(seed)
    total = estimate_total(measurements)
    sizes, _, _, _, _, targets = setup(domain, measurements, total)
    untangled, bound, constant = untangle(sizes, targets, total)
    every = tuple(range(len(sizes)))
    for _ in range(3):
        table = generator.dirichlet(np.full(cells_of(sizes, every), 0.5)).reshape(sizes) * total
        before = sum(target.loss(sum_to(table, every, target.columns)) for target in targets)
        after = sum(target.loss(sum_to(table, every, target.columns)) for target in untangled)
        assert before == pytest.approx(after + constant, rel=1e-9)
        assert bound <= before * (1 + 1e-12) + 1e-9


@given(problems())
def test_the_nearest_tuple_agrees_is_non_negative_and_fits_every_target_alone(case):
    domain, measurements = case
    if not any(item.clique for item in measurements):
        return
    sizes, columns, weights, values, agree, _ = setup(domain, measurements, 200.0)
    targets, nearest, bound = agree.untangle(values, tolerance=1e-14, iterations=20_000)
    tables = [nearest[a:b] for a, b in zip(agree.starts, agree.starts[1:], strict=False)]
    assert nearest.min() > -1e-4
    for table, clique in zip(tables, columns, strict=True):
        assert table.sum() == pytest.approx(200.0)
        for other, second in zip(tables, columns, strict=True):
            shared = tuple(sorted(set(clique) & set(second)))
            left = sum_to(table.reshape([sizes[c] for c in clique]), clique, shared)
            right = sum_to(other.reshape([sizes[c] for c in second]), second, shared)
            np.testing.assert_allclose(left, right, atol=1e-6)
    # Complementarity: a target differs from the tuple only downwards, and only where the tuple is zero.
    assert (targets <= nearest + 1e-6).all()
    np.testing.assert_allclose((nearest - targets) * nearest, 0.0, atol=1e-2)
    spread = np.concatenate(
        [np.full(b - a, w) for a, b, w in zip(agree.starts, agree.starts[1:], weights, strict=False)]
    )
    assert 0.5 * float(spread @ np.square(nearest - values)) == pytest.approx(bound, rel=1e-4, abs=1e-3)


def test_contradicting_one_way_tables_are_averaged_by_precision():
    agree = Consistency((2, 2), [(0,), (0, 1)], [3.0, 2.0], 10.0)
    # Main effect of column 0: 2 from the first table, 6 from the second with its weight halved (two cells summed).
    found = agree.project(np.array([6.0, 4.0, 4.0, 4.0, 1.0, 1.0]))
    np.testing.assert_allclose(found[:2], [5 + (3 * 1 + 1 * 3) / 4, 5 - (3 * 1 + 1 * 3) / 4])


def test_forbidden_cells_become_zero():
    agree = Consistency((2, 2), [(0, 1), (1,)], [1.0, 1.0], 8.0)
    forbidden = np.array([True, False, False, False, False, False])
    _, nearest, _ = agree.untangle(
        np.array([3.0, 1.0, 2.0, 2.0, 4.0, 4.0]), forbidden=forbidden, tolerance=1e-16, iterations=10_000
    )
    assert abs(nearest[0]) < 1e-6
    assert nearest[:4].sum() == pytest.approx(8.0)
    np.testing.assert_allclose(nearest[4:], nearest[:4].reshape(2, 2).sum(axis=0), atol=1e-6)


def test_the_total_is_weighted_by_the_inverse_of_its_variance():
    wide = Measurement(("a", "b"), np.full((2, 5), 2.0), "gaussian", 2.0)  # total 20, variance 10 * 4
    sharp = Measurement((), np.array(10.0), "laplace", 1.0)  # total 10, variance 2
    assert estimate_total([wide, sharp]) == pytest.approx((20 / 40 + 10 / 2) / (1 / 40 + 1 / 2))
    assert estimate_total([Measurement((), np.array(-5.0), "gaussian", 1.0)]) == 1.0
