"""Measures of quality on tables whose answers are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from benchmarks.papers._private_erm import (
    HUBER,
    LOGISTIC,
    Loss,
    linear_accuracy,
    minimiser,
    objective_parameters,
    objective_perturbation,
    output_perturbation,
    output_sensitivity,
)

from understudy.errors import MissingExtra, WorkloadError
from understudy.evaluation import (
    CLASSIFIERS,
    Result,
    accuracy,
    agreement,
    distinguishing_game,
    forest_accuracy,
    model_accuracy,
    pair_distances,
    predictions,
    random_accuracy,
    single_distances,
    total_variation,
)
from understudy.evaluation.accuracy import marginal_accuracy
from understudy.evaluation.comparison import as_codes, one_hot
from understudy.schema import Domain

DOMAIN = Domain(("a", "b", "y"), (3, 4, 2))


def table(n: int, seed: int = 0) -> np.ndarray:
    """y follows a; b is noise."""
    generator = np.random.default_rng(seed)
    a = generator.integers(0, 3, n)
    b = generator.integers(0, 4, n)
    y = np.where(generator.random(n) < 0.9, a == 2, generator.random(n) < 0.5).astype(np.int64)
    return np.stack([a, b, y], axis=1)


def independent(codes: np.ndarray, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([generator.permutation(column) for column in codes.T], axis=1)


def test_distances_see_what_shuffling_destroys() -> None:
    real = table(4000)
    made = independent(real)
    assert single_distances(DOMAIN, real, made).mean == 0.0
    pairs = pair_distances(DOMAIN, real, made)
    assert pairs.worst[0] == "a y"
    assert pairs.values["a y"] > 0.3
    assert pairs.values["a b"] < 0.05
    assert pair_distances(DOMAIN, real, real).mean == 0.0
    by_name = {name: made[:, i] for i, name in enumerate(DOMAIN.names)}
    assert pair_distances(DOMAIN, real, by_name).values == pairs.values


def test_total_variation_by_hand() -> None:
    assert total_variation([1, 0], [0, 5]) == 1.0
    assert total_variation([0, 0], [0, 5]) == 1.0
    assert total_variation([0, 0], [0, 0]) == 0.0


def test_tables_are_checked() -> None:
    with pytest.raises(WorkloadError, match="outside"):
        as_codes(DOMAIN, np.array([[3, 0, 0]]))
    with pytest.raises(WorkloadError, match="lacks"):
        as_codes(DOMAIN, {"a": [0]})
    with pytest.raises(WorkloadError, match="whole numbers"):
        as_codes(DOMAIN, np.array([[0.5, 0.0, 0.0]]))


def test_accuracies_of_a_known_model() -> None:
    real, test = table(4000, 1), table(2000, 2)

    def log_density(codes: np.ndarray) -> np.ndarray:
        likely = np.where(codes[:, 0] == 2, codes[:, 2] == 1, codes[:, 2] == 0)
        return np.log(np.where(likely, 0.95, 0.05))

    model = model_accuracy(DOMAIN, log_density, test)
    marginal = marginal_accuracy(DOMAIN, real, test)
    forest = forest_accuracy(DOMAIN, real, test, trees=10)
    assert model.values["y"] > 0.9 > 0.75 > marginal.values["y"]
    assert forest.values["y"] > 0.9
    assert random_accuracy(DOMAIN).values == {"a": 1 / 3, "b": 0.25, "y": 0.5}


def test_classifiers_learn_from_good_tables_only() -> None:
    real, good, bad, test = table(2000, 1), table(2000, 3), independent(table(2000, 3)), table(1000, 2)
    said = {
        name: predictions(DOMAIN, train, test, target="y")
        for name, train in (("real", real), ("good", good), ("bad", bad))
    }
    scores = {name: accuracy(DOMAIN, values, test, target="y") for name, values in said.items()}
    assert set(scores["real"].values) == set(CLASSIFIERS)
    for classifier in CLASSIFIERS:
        assert scores["good"].values[classifier] > scores["bad"].values[classifier] + 0.1
        assert scores["good"].values[classifier] > 0.85
    assert agreement(said["good"], said["real"]).mean > agreement(said["bad"], said["real"]).mean
    assert agreement(said["real"], said["real"]).mean == 1.0
    single = real[real[:, 2] == 0]
    assert (predictions(DOMAIN, single, test, target="y", classifiers=("svm",))["svm"] == 0).all()
    with pytest.raises(WorkloadError, match="No classifier"):
        predictions(DOMAIN, real, test, target="y", classifiers=("oracle",))


def test_the_game_is_even_for_equal_laws_and_won_for_others() -> None:
    real, same, other = table(4000, 1), table(4000, 5), independent(table(4000, 5))
    even = distinguishing_game(DOMAIN, real, same)
    won = distinguishing_game(DOMAIN, real, other)
    for player in ("forest", "tree"):
        assert abs(even.values[player] - 0.5) < 0.06
        assert won.values[player] > 0.62
    with pytest.raises(WorkloadError, match="No player"):
        distinguishing_game(DOMAIN, real, same, players=("human",))
    with pytest.raises(WorkloadError, match="at least four"):
        distinguishing_game(DOMAIN, real[:2], same)


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    usual = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("sklearn"):
            raise ImportError("No module named 'sklearn'", name="sklearn")
        return usual(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"understudy\[evaluation\]"):
        distinguishing_game(DOMAIN, table(10), table(10))


def test_result_reads_both_ways() -> None:
    result = Result("x", {"a": 1, "b": 2}, better="higher")
    assert result.worst == ("a", 1.0)
    assert result.to_dict() == {"measure": "x", "better": "higher", "values": {"a": 1.0, "b": 2.0}}
    assert Result("x", {}, better="lower").mean == 0.0


# ------------------------------------------------------------------------------------ private classifiers


def problem(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    codes = table(n, seed)
    return one_hot(DOMAIN, codes, without="y"), np.where(codes[:, 2] == 1, 1.0, -1.0)


@pytest.mark.parametrize("loss", [LOGISTIC, HUBER])
def test_slopes_and_curvatures_are_what_the_proofs_use(loss: Loss) -> None:
    z = np.linspace(-4, 4, 4001)
    slope = loss.slope(z)
    assert (np.abs(slope) <= 1).all()
    np.testing.assert_allclose(np.gradient(loss.value(z), z)[2:-2], slope[2:-2], atol=2e-3)
    curvature = np.gradient(slope, z)
    assert curvature.min() >= -1e-9
    assert curvature.max() <= loss.curvature + 1e-9


@pytest.mark.parametrize("loss", [LOGISTIC, HUBER])
def test_replacing_a_record_moves_the_minimiser_less_than_the_sensitivity(loss: Loss, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for trial in range(12):
        x, y = problem(30, trial + 100 * seed)
        regularisation = float(10 ** generator.uniform(-2, 0))
        other_x, other_y = x.copy(), y.copy()
        other_x[0] = -x[0] if trial % 2 else np.eye(x.shape[1])[0]
        other_y[0] = -y[0]
        moved = np.linalg.norm(
            minimiser(x, y, loss=loss, regularisation=regularisation)
            - minimiser(other_x, other_y, loss=loss, regularisation=regularisation)
        )
        assert moved <= output_sensitivity(30, regularisation) * (1 + 1e-4)


def test_private_classifiers_learn_with_enough_budget_and_forget_without() -> None:
    x, y = problem(5000, 1)
    unseen, truth = problem(2000, 2)
    generator = np.random.default_rng(0)
    for perturbation in (output_perturbation, objective_perturbation):
        for loss in (LOGISTIC, HUBER):
            good, bad = (
                linear_accuracy(
                    perturbation(x, y, loss=loss, regularisation=1e-2, epsilon=epsilon, generator=generator),
                    unseen,
                    truth,
                )
                for epsilon in (50.0, 1e-4)
            )
            assert good > 0.9
            assert bad < 0.9


def test_objective_perturbation_at_small_budgets_adds_curvature() -> None:
    left, extra = objective_parameters(10, curvature=0.25, regularisation=1e-4, epsilon=0.1)
    assert left == pytest.approx(0.05)
    assert extra == pytest.approx(0.25 / (10 * math.expm1(0.025)) - 1e-4)


def test_private_classifiers_refuse_what_breaks_their_proof() -> None:
    x, y = problem(20, 1)
    with pytest.raises(WorkloadError, match="norm"):
        minimiser(10 * x, y, loss=LOGISTIC, regularisation=0.1)
    with pytest.raises(WorkloadError, match="-1 or 1"):
        minimiser(x, y * 2, loss=LOGISTIC, regularisation=0.1)
    with pytest.raises(WorkloadError, match="positive"):
        minimiser(x, y, loss=LOGISTIC, regularisation=0.0)
    with pytest.raises(WorkloadError, match="epsilon"):
        objective_parameters(10, curvature=0.25, regularisation=0.1, epsilon=-1)
