"""Parametric distributions: answers agree with rows, files keep everything, draws stay possible."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.engine import DenseTable, ProductModel, distribution_from_arrays
from understudy.engine.distributions.product import AveragedModel, DrawnTables, Factor, Mixed, Number
from understudy.marginals import Measurement, Statistic, count_codes
from understudy.mechanisms.parametric.modips.gaussian import (
    GaussianEvidence,
    draw_gaussian,
    inverse_wishart,
    naive_gaussian,
    pairs_of,
    positive_definite,
)
from understudy.mechanisms.parametric.modips.location import (
    LocationEvidence,
    LocationModel,
    draw_probabilities,
    naive_counts,
    plausible_counts,
)
from understudy.mechanisms.parametric.modips.loglinear import LoglinearModel
from understudy.mechanisms.parametric.modips.slomag import (
    SlomagEvidence,
    SlomagModel,
    expectation,
    predictors_of,
    probabilities,
    solve_logistic,
    terms_of,
)
from understudy.schema import Domain

# a: category; x: number with a code for missing; y: number
DOMAIN = Domain(("a", "x", "y"), (3, 9, 6))
MIXED = Mixed(
    DOMAIN,
    (Factor("a", np.arange(3)), Factor("x", np.array([0] * 8 + [1]))),
    (Number("x", np.linspace(-1, 1, 9)[1:-1]), Number("y", np.linspace(-1, 1, 7)[1:-1])),
)
PRESENCE_FIRST = Mixed(DOMAIN, MIXED.factors[::-1], MIXED.numbers)


def _generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def _location(*, aware: bool = True, noise: str = "laplace", bounds: str = "clip") -> LocationModel:
    n = np.array([40.0, 10.0, 30.0, 5.0, 80.0, 2.0])
    there = MIXED.present
    sums = np.array([[0.3, -0.2]] * 6) * n[:, None] * there
    within = ((there * n[:, None]).T @ there) * np.array([[0.15, 0.06], [0.06, 0.1]])
    gaussian = GaussianEvidence(
        Statistic("sums", sums, noise, 1.5), Statistic("second", within[pairs_of(2)], noise, 1.5), there
    )
    told = LocationEvidence(Statistic("counts", n - 1, noise, 2.0), None, 0.5, gaussian, aware)
    return LocationModel.learn(MIXED, told, _generator(), parameters="draw", bounds=bounds)


def _slomag() -> SlomagModel:
    terms = terms_of(PRESENCE_FIRST)
    generator = _generator(3)
    numbers = np.clip(generator.normal(0.1, 0.3, (500, 2)), -1, 1)
    absent = generator.random(500) < 0.2
    level = generator.integers(0, 3, 500)
    columns = {"one": np.ones(500)}
    rows = np.stack(
        [
            columns["one"]
            if kind == "one"
            else numbers[:, which] * (~absent if which == 0 else 1.0)
            if kind == "number"
            else ((absent if which == 0 else level) == code).astype(float)
            for kind, which, code in terms
        ],
        axis=1,
    )
    told = SlomagEvidence(Statistic("moments", rows.T @ rows, "gaussian", 3.0), None, True)
    return SlomagModel.learn(PRESENCE_FIRST, told, _generator(), parameters="mean")


def _loglinear() -> LoglinearModel:
    domain = Domain(("a", "b", "c"), (2, 3, 2))
    table = np.arange(12.0).reshape(2, 3, 2) * 5
    measured = [
        Measurement(("a", "b"), table.sum(axis=2), "laplace", 1.0),
        Measurement(("b", "c"), table.sum(axis=0), "laplace", 1.0),
    ]
    return LoglinearModel.learn(domain, measured, total=None, aware=True)


def _product() -> ProductModel:
    parts = (_location(), DrawnTables(Domain(("p",), (2,)), np.array([0.4, 0.6]), np.eye(2), 5.0))
    return ProductModel(Domain(("a", "p", "x", "y"), (3, 2, 9, 6)), parts, 150.0)


def _average() -> AveragedModel:
    return AveragedModel(DOMAIN, (_location(), _slomag()), (0.25, 0.75))


ALL = {
    "location": _location,
    "naive location": lambda: _location(aware=False),
    "gaussian noise": lambda: _location(noise="gaussian"),
    "redraw": lambda: _location(bounds="redraw"),
    "slomag": _slomag,
    "loglinear": _loglinear,
    "product": _product,
    "average": _average,
}


@pytest.mark.parametrize("name", ALL)
def test_answers_are_those_of_the_rows(name: str) -> None:
    """One fixed sample of 200,000 rows; the largest standard error of a cell is .0011 of the total."""
    model = ALL[name]()
    domain = model.domain
    cliques = [(column,) for column in domain.names] + [domain.names[:2], domain.names[-2:], ()]
    codes = model.sample_codes(200_000, _generator(9))
    for clique, told in zip(cliques, model.marginals(cliques), strict=True):
        assert told.shape == domain.shape(clique)
        assert told.min() >= 0
        assert float(told.sum()) == pytest.approx(model.total, rel=1e-6)
        seen = count_codes(domain, codes, clique) / 200_000
        assert np.abs(seen - told / model.total).max() < 0.009  # eight standard errors


@pytest.mark.parametrize("name", ALL)
def test_a_file_keeps_the_model_and_its_posterior(name: str) -> None:
    model = ALL[name]()
    meta, arrays = model.to_arrays()
    again = distribution_from_arrays(model.kind, model.domain, meta, arrays)
    assert again.total == pytest.approx(model.total)
    assert (model.sample_codes(50, _generator(1)) == again.sample_codes(50, _generator(1))).all()
    one, two = model.posterior(_generator(2)), again.posterior(_generator(2))  # type: ignore[attr-defined]
    assert (one.sample_codes(50, _generator(1)) == two.sample_codes(50, _generator(1))).all()


@pytest.mark.parametrize("name", ALL)
def test_parameters_are_drawn_anew(name: str) -> None:
    model = ALL[name]()
    clique = model.domain.names[:1]
    tables = [model.posterior(_generator(seed)).marginals([clique])[0] for seed in range(2)]
    assert len({table.tobytes() for table in tables}) > 1
    assert len(model.sample_codes(0, _generator())) == 0


def test_codes_of_missing_numbers() -> None:
    cell = np.array([0, 1, 4, 5])  # (a, absent) = (0, no), (0, yes), (2, no), (2, yes)
    codes = MIXED.assemble(cell, np.array([[-3.0, 0.0]] * 4))
    assert codes[:, 0].tolist() == [0, 0, 2, 2]
    assert codes[:, 1].tolist() == [0, 8, 0, 8]
    assert codes[:, 2].tolist() == [3] * 4
    assert MIXED.present[:, 0].tolist() == [True, False] * 3
    assert MIXED.present[:, 1].all()


def test_what_each_regression_looks_at() -> None:
    assert [terms_of(PRESENCE_FIRST)[place] for place in predictors_of(PRESENCE_FIRST, 0)] == [("one", 0, 0)]
    assert len(predictors_of(PRESENCE_FIRST, 1)) == 1 + 2 + 1


def test_the_naive_reading_of_counts() -> None:
    noisy = Statistic("counts", np.array([-3.0, 4.0, 99.0]), "laplace", 1.0)
    assert naive_counts(noisy, total=50).tolist() == [0.0, 4.0, 50.0]
    one = Statistic("counts", np.array([np.nan, 12.0]), "laplace", 1.0)
    assert naive_counts(one, total=50).tolist() == [38.0, 12.0]


@pytest.mark.parametrize("total", [None, 0, 1, 60])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.05, 3.0, 4_000.0])
@pytest.mark.parametrize("cells", [1, 2, 5])
def test_drawn_counts_are_possible(total: int | None, noise: str, scale: float, cells: int) -> None:
    values = np.array([30.0, -5.0, 1e4, -1e4, 2.0])[:cells]
    n = plausible_counts(
        Statistic("c", values, noise, scale), alpha=0.5, total=total, generator=_generator(4)
    )
    assert n.min() >= 0
    assert total is None or n.sum() == total
    assert draw_probabilities(n, 0.5, _generator()).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("aware", [True, False])
def test_impossible_moments_give_possible_parameters(aware: bool) -> None:
    """Negative squares, means beyond the bounds, empty cells: every draw is a normal law within the bounds."""
    sums = Statistic("s", np.array([[500.0, -3.0], [0.0, 9.0]]), "laplace", 40.0)
    second = Statistic("q", np.array([-200.0, 400.0, -5.0]), "laplace", 40.0)
    evidence = GaussianEvidence(sums, second, np.ones((2, 2), dtype=bool))
    for seed in range(3):
        draw = draw_gaussian if aware else naive_gaussian
        found = draw(evidence, np.array([20.0, 0.0]), _generator(seed))
        assert np.abs(found.means).max() <= 1
        assert np.linalg.eigvalsh(found.covariance).min() > 0
        assert np.diag(found.covariance).max() <= 1 + 1e-9


def test_matrices() -> None:
    fixed = positive_definite(np.array([[1.0, 2.0], [2.0, 1.0]]), 0.01)
    assert np.linalg.eigvalsh(fixed).min() == pytest.approx(0.01)
    drawn = np.mean([inverse_wishart(12.0, np.diag([2.0, 4.0]), _generator(s)) for s in range(4_000)], axis=0)
    # mean scale / (freedom - d - 1), standard error of the larger below .01
    np.testing.assert_allclose(drawn, np.diag([2.0, 4.0]) / 9, atol=0.06)


def test_regression_without_noise_is_maximum_likelihood() -> None:
    generator = _generator(8)
    design = np.stack([np.ones(300), generator.uniform(-1, 1, 300), generator.integers(0, 2, 300)], axis=1)
    truth = np.array([[0.3, -1.0, 0.5], [-0.4, 2.0, 1.0]])
    chances = probabilities(design, truth)
    level = (chances.cumsum(axis=1) < generator.random(300)[:, None]).sum(axis=1)
    statistic = np.stack([design[level == c].sum(axis=0) for c in (1, 2)])
    wide = np.full((2, 3), 1e4)
    found = solve_logistic(statistic, design, rows=300, noise_variance=0.0, deviations=wide)
    np.testing.assert_allclose(expectation(design, found, 300)[0], statistic, atol=1e-3)
    hidden = solve_logistic(statistic, design, rows=300, noise_variance=1e12, deviations=wide / 1e4)
    assert np.abs(hidden).max() < 1e-3, "a statistic that is all noise leaves the prior as it was"


def test_an_average_is_one_of_its_models() -> None:
    a, b = (DenseTable(Domain(("a",), (2,)), np.array(cells)) for cells in ([9.0, 1.0], [1.0, 9.0]))
    model = AveragedModel(a.domain, (a, b), (0.25, 0.75))
    assert model.marginals([("a",)])[0].tolist() == [3.0, 7.0]
    chosen = [model.posterior(_generator(seed)) is a for seed in range(400)]
    assert 0.25 * 400 - 8 * 8.7 < sum(chosen) < 0.25 * 400 + 8 * 8.7  # eight standard errors
