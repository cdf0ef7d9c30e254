"""Estimation against general solvers on the full simplex of small domains."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import design, every_clique, least_squares_optimum, problems, squared_loss
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import wrightomega

from understudy.engine import GraphicalModel, estimate, model_cells
from understudy.errors import ConstraintError, DomainTooLarge, WorkloadError
from understudy.marginals import Measurement
from understudy.schema import Domain

AB = Domain(("a", "b"), (2, 3))


def noisy(clique, values, scale=1.0, noise="gaussian"):
    return Measurement(clique, np.asarray(values, dtype=float), noise, scale)


@settings(max_examples=60)
@given(problems())
def test_the_loss_is_that_of_a_general_solver_and_the_bound_is_below_it(case):
    domain, measurements = case
    model = estimate(domain, measurements, total=200.0, tolerance=1e-7, max_epochs=2000)
    best = least_squares_optimum(domain, measurements, 200.0)
    loss = squared_loss(model, measurements)
    assert loss == pytest.approx(model.info.loss, rel=1e-6, abs=1e-6)
    assert loss <= best + max(1e-3, 2 * model.info.gap)
    assert model.info.bound <= best + 1e-4
    assert loss >= best - 1e-4


@settings(max_examples=60)
@given(problems(), st.integers(0, 2**32 - 1))
def test_zeros_are_respected_and_the_rest_is_optimal(case, seed):
    domain, measurements = case
    generator = np.random.default_rng(seed)
    clique = domain.names[: min(2, len(domain))]
    allowed = generator.random(domain.shape(clique)) < 0.7
    if not allowed.any():
        return
    shape = [domain.size(name) if name in clique else 1 for name in domain.names]
    whole = np.broadcast_to(allowed.reshape(shape), domain.sizes)
    model = estimate(
        domain, measurements, total=200.0, zeros=[(clique, allowed)], tolerance=1e-6, max_epochs=3000
    )
    table = model.marginal(domain.names)
    assert (table[~whole] == 0).all()
    assert table.sum() == pytest.approx(200.0)
    best = least_squares_optimum(domain, measurements, 200.0, whole)
    assert squared_loss(model, measurements) <= best + max(0.02, 0.01 * best, 2 * model.info.gap)


@settings(max_examples=40)
@given(problems(noise="laplace", max_columns=3))
def test_absolute_loss_reaches_the_optimum_of_a_linear_program(case):
    domain, measurements = case
    measurements = [item for item in measurements if item.clique]
    if not measurements:
        return
    total = 200.0
    model = estimate(domain, measurements, total=total, laplace="likelihood", tolerance=1e-4, max_epochs=3000)
    cells = domain.cells()
    rows = np.concatenate([design(domain, item.clique) for item in measurements])
    values = np.concatenate([item.values.ravel() for item in measurements])
    scales = np.concatenate([np.full(item.values.size, item.scale) for item in measurements])
    n = len(values)
    program = linprog(
        np.concatenate([np.zeros(cells), 1 / scales]),
        A_ub=np.block([[rows, -np.eye(n)], [-rows, -np.eye(n)]]),
        b_ub=np.concatenate([values, -values]),
        A_eq=np.concatenate([np.ones(cells), np.zeros(n)])[None],
        b_eq=[total],
    )
    answers = model.marginals([item.clique for item in measurements])
    loss = sum(np.abs(a - i.values).sum() / i.scale for a, i in zip(answers, measurements, strict=True))
    assert loss == pytest.approx(model.info.loss, rel=1e-6, abs=1e-6)
    assert program.fun - 1e-6 <= loss <= program.fun + max(0.05, 0.02 * program.fun, 2 * model.info.gap)


@given(problems())
def test_a_warm_start_leads_to_the_same_fit(case):
    domain, measurements = case
    options = {"total": 200.0, "tolerance": 1e-6, "max_epochs": 2000}
    cold = estimate(domain, measurements, **options)
    first = estimate(domain, measurements[: len(measurements) // 2], **options)
    warm = estimate(domain, measurements, warm_start=first, **options)
    assert squared_loss(warm, measurements) == pytest.approx(
        squared_loss(cold, measurements), rel=1e-2, abs=1e-2
    )


def test_starting_from_the_answer_takes_no_more_than_a_few_epochs():
    values = [[30.0, 20.0, 10.0], [5.0, 15.0, 20.0]]
    model = estimate(AB, [noisy(("a", "b"), values)], tolerance=1e-6)
    again = estimate(AB, [noisy(("a", "b"), values)], tolerance=1e-6, warm_start=model)
    assert again.info.epochs <= 2
    np.testing.assert_allclose(again.marginal(("a", "b")), values, atol=1e-3)


def test_repeated_measurements_merge_by_precision():
    model = estimate(
        AB, [noisy(("a",), [40, 60], 1.0), noisy(("a",), [50, 50], 2.0)], total=100.0, tolerance=1e-9
    )
    np.testing.assert_allclose(model.marginal(("a",)), [42.0, 58.0], atol=1e-3)


def test_axes_follow_the_clique_as_it_was_measured():
    table = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]) * 10
    swapped = estimate(AB, [noisy(("b", "a"), table.T)], tolerance=1e-9)
    np.testing.assert_allclose(swapped.marginal(("a", "b")), table, atol=1e-4)


def test_without_measurements_the_model_is_uniform_over_its_support():
    model = estimate(AB, [], total=12.0, zeros=[(("a", "b"), np.array([[1, 0, 1], [1, 0, 0]], dtype=bool))])
    np.testing.assert_allclose(model.marginal(("a", "b")), [[4, 0, 4], [4, 0, 0]])


def test_the_total_is_estimated_when_it_is_not_public():
    model = estimate(AB, [noisy((), 100.0, 1.0), noisy(("a",), [70.0, 50.0], 10.0)])
    assert model.total == pytest.approx((100 / 1 + 120 / 200) / (1 + 1 / 200))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("total", [1.0, 1e3, 1e9])
def test_any_ratio_of_counts_to_noise_is_numerically_safe(scale, total):
    domain = Domain(("a", "b", "c"), (4, 4, 4))
    generator = np.random.default_rng(0)
    table = generator.dirichlet(np.full(64, 0.1)).reshape(4, 4, 4) * total
    measurements = [
        noisy(
            c,
            table.sum(axis=3 - domain.index(c[0]) - domain.index(c[1]))
            + scale * generator.normal(size=(4, 4)),
            scale,
        )
        for c in [("a", "b"), ("b", "c"), ("a", "c")]
    ]
    model = estimate(domain, measurements, total=total, max_epochs=500)
    answers = model.marginals(every_clique(domain))
    for answer in answers:
        assert np.isfinite(answer).all()
        assert answer.sum() == pytest.approx(total)
    assert squared_loss(model, measurements) <= 1.5 * model.info.bound + 48
    again = GraphicalModel(domain, total, model.potentials)  # what a model file would restore
    np.testing.assert_allclose(again.marginal(domain.names), model.marginal(domain.names), atol=1e-5 * total)


def test_steps_solve_the_equation_they_claim_to():
    from understudy._compile import compiled
    from understudy.engine.graphical import kernels

    omega = compiled()(lambda z, guess: kernels.omega(z, guess))  # only kernels call it
    points = np.concatenate([np.linspace(-60, 60, 500), [-700.0, 1e3, 1e9]])
    for guess in (0.0, 1e-3, 5.0):
        np.testing.assert_allclose([omega(z, guess) for z in points], wrightomega(points), rtol=1e-12)


def test_an_empty_support_is_an_error():
    with pytest.raises(ConstraintError, match="every combination of a is forbidden"):
        estimate(AB, [], total=1.0, zeros=[(("a",), np.array([False, False]))])
    clash = [(("a", "b"), np.array([[1, 1, 1], [0, 0, 0]], dtype=bool)), (("a",), np.array([False, True]))]
    with pytest.raises(ConstraintError, match="leave no possible record"):
        estimate(AB, [], total=1.0, zeros=clash)


def test_a_tree_that_does_not_fit_is_refused_with_its_size():
    domain = Domain(tuple("abcd"), (10,) * 4)
    cycle = [noisy(pair, np.ones((10, 10))) for pair in [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]]
    with pytest.raises(DomainTooLarge, match="2,000 cells; 1,500 are allowed") as caught:
        estimate(domain, cycle, max_cells=1500)
    assert caught.value.cells == model_cells(domain, [item.clique for item in cycle]) == 2000


@pytest.mark.parametrize(
    ("measurements", "options", "message"),
    [
        ([], {}, "Without measurements"),
        ([], {"total": 0.0}, "must be positive"),
        ([], {"total": np.inf}, "must be positive"),
        ([noisy(("a",), [1, 2, 3])], {}, r"has shape \(3,\)"),
        ([noisy(("x",), [1, 2])], {}, "No column named 'x'"),
        ([noisy(("a",), [1, np.nan])], {"total": 3.0}, "not finite"),
        ([], {"total": 1.0, "warm_start": GraphicalModel(Domain(("z",), (2,)), 1.0)}, "same columns"),
    ],
)
def test_bad_input_is_refused(measurements, options, message):
    with pytest.raises(WorkloadError, match=message):
        estimate(AB, measurements, **options)


def test_hitting_the_cap_is_reported():
    generator = np.random.default_rng(1)
    domain = Domain(tuple("abc"), (5, 5, 5))
    pairs = [noisy(c, generator.normal(20, 10, size=(5, 5))) for c in [("a", "b"), ("b", "c"), ("a", "c")]]
    hurried = estimate(domain, pairs, tolerance=1e-9, max_epochs=1)
    patient = estimate(domain, pairs, tolerance=1e-9, max_epochs=500)
    assert not hurried.info.converged
    assert hurried.info.epochs == 1
    assert patient.info.loss < hurried.info.loss
    assert patient.info.gap < hurried.info.gap


def test_estimates_are_reproducible_to_the_last_bit():
    generator = np.random.default_rng(2)
    domain = Domain(tuple("abcd"), (5, 6, 2, 3))
    measurements = [
        noisy(c, generator.normal(20, 10, size=domain.shape(c))) for c in [("a", "b"), ("b", "c"), ("c", "d")]
    ]
    first, second = (estimate(domain, measurements).marginal(domain.names) for _ in range(2))
    np.testing.assert_array_equal(first, second)
