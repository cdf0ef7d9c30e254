"""Exact gradients, Poisson batches and paid trainings."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest

from deep_examples import LAYOUT, SCHEMA, curator_of, random_codes
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import BudgetError, BudgetExceeded, DomainTooLarge
from understudy.mechanisms.deep.critic import Critic
from understudy.mechanisms.deep.encoding import Layout
from understudy.mechanisms.deep.look import TrainingPlan, open_training, poisson_batch
from understudy.privacy import ApproxDP, DiscreteGaussian, Gaussian, SeededRandomness, Unit
from understudy.privacy.events import Approximated
from understudy.schema import Categorical, Schema


def critic(loss: str = "cross_entropy", clip: float = 1.0, hidden: tuple[int, ...] = (12, 7)) -> Critic:
    return Critic(LAYOUT, hidden, loss, clip)


def some(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return random_codes(generator, n), generator.integers(0, 3, n)


def contributions(
    network: Critic, weights: Any, codes: np.ndarray, shown: np.ndarray
) -> list[list[np.ndarray]]:
    return [
        network.gradients(weights, codes[i : i + 1], shown[i : i + 1], real=True) for i in range(len(codes))
    ]


def squared_norm(contribution: list[np.ndarray]) -> int:
    return sum(int(x) ** 2 for layer in contribution for x in layer[layer != 0].tolist())


def curator(rows: int, *, epsilon: float = 1.0, seed: int = 1, unit: Unit | None = None) -> Curator:
    codes, _ = some(rows, 3)
    return curator_of(codes, budget=ApproxDP(epsilon, 1e-5), unit=unit, randomness=seed, reserve=9e-6)


def test_the_layout_follows_from_the_schema() -> None:
    assert LAYOUT.modes == (4, 6, 2)
    assert LAYOUT.spread == (1,)
    assert LAYOUT.width == 13
    codes = np.array([[3, 0, 1], [0, 19, 0]])
    np.testing.assert_array_equal(LAYOUT.places(codes), [[3, 4, 11], [0, 9, 10]])
    for column in range(3):
        modes = LAYOUT.mode_of(column)
        assert (np.diff(modes) >= 0).all()
        assert modes[-1] + 1 == LAYOUT.modes[column]
        assert (np.abs(LAYOUT.position_of(column)) < 1).all()
    with pytest.raises(DomainTooLarge):
        Layout.of(Schema([Categorical("c", values=[str(i) for i in range(30_000)])]), max_modes=4)


@pytest.mark.parametrize("loss", ["cross_entropy", "wasserstein"])
@pytest.mark.parametrize("clip", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("size", [0.3, 3.0, 1e6])
def test_a_sum_is_the_sum_of_contributions_and_each_is_short(loss: str, clip: float, size: float) -> None:
    """Whatever the weights: exact addition in any order, and norms that keep the claim to the last bit."""
    network = critic(loss, clip)
    generator = np.random.default_rng(1)
    weights = [(size * a, size * generator.normal(size=len(b))) for a, b in network.start(generator)]
    codes, shown = some(60)
    whole = network.gradients(weights, codes, shown, real=True)
    single = contributions(network, weights, codes, shown)
    order = generator.permutation(60)
    again = network.gradients(weights, codes[order], shown[order], real=True)
    for layer, total in enumerate(whole):
        np.testing.assert_array_equal(total, sum(part[layer] for part in single))
        np.testing.assert_array_equal(total, again[layer])
    longest = max(squared_norm(part) ** 0.5 / network.reach for part in single)
    assert all(squared_norm(part) <= int(network.reach) ** 2 for part in single)
    if clip == 0.1:
        assert longest > 0.99  # the bound is reached


def test_the_widest_networks_are_exact_too() -> None:
    """512 units, as many columns as are allowed and weights at their limits: the bits are counted for these."""
    columns = 510
    layout = Layout((4,) * columns, (np.arange(0, 4, 2),) * columns)
    network = Critic(layout, (512, 512), "wasserstein", 4000.0)
    generator = np.random.default_rng(2)
    weights = [
        (8.0 * generator.choice([-1.0, 1.0], a.shape), 8.0 * generator.choice([-1.0, 1.0], b.shape))
        for a, b in network.start(generator)
    ]
    codes = generator.integers(0, 4, (5, columns))
    shown = generator.integers(0, columns, 5)
    whole = network.gradients(weights, codes, shown, real=True)
    single = contributions(network, weights, codes, shown)
    for layer, total in enumerate(whole):
        np.testing.assert_array_equal(total, sum(part[layer] for part in single))
    assert all(squared_norm(part) <= int(network.reach) ** 2 for part in single)


@pytest.mark.parametrize("hidden", [(1,), (12, 7)])
def test_weights_that_the_proof_does_not_cover_are_refused(hidden: tuple[int, ...]) -> None:
    """Not-a-numbers turned a record into the least whole number there is; other shapes were repeated to fit."""
    network = critic(hidden=hidden)
    right = network.start(np.random.default_rng(0))
    codes, shown = some(3)
    for spoilt in (np.nan, np.inf):
        wrong = [(a.copy(), b.copy()) for a, b in right]
        wrong[0][0][0, 0] = spoilt
        with pytest.raises(BudgetError, match="finite"):
            network.gradients(wrong, codes, shown, real=True)
    narrow = Critic(LAYOUT, (1,) * len(hidden), "cross_entropy", 1.0).start(np.random.default_rng(0))
    for wrong in (right[:-1], [*right, right[-1]], [(a.T, b) for a, b in right], narrow * (len(hidden) > 1)):
        with pytest.raises(BudgetError, match="shapes"):
            network.gradients(wrong, codes, shown, real=True)


@pytest.mark.parametrize("starts", [[1, 2], [0, 0], [0, 2, 1], [0, 4], []])
def test_modes_that_are_no_partition_are_refused(starts: list[int]) -> None:
    """A code before the first mode was put into the place of another column, which then counted twice."""
    with pytest.raises(BudgetError, match="modes"):
        Layout((2, 4), (np.arange(2), np.array(starts, dtype=np.int64)))
    with pytest.raises(BudgetError, match="modes"):
        Layout((2, 4), (np.arange(2),))


def test_gradients_are_those_of_automatic_differentiation() -> None:
    torch = pytest.importorskip("torch", reason="torch is the referee of the gradients")
    network = critic(clip=1000.0)
    weights = network.start(np.random.default_rng(5))
    codes, shown = some(40)
    for real in (True, False):
        ours = network.gradients(weights, codes, shown, real=real)
        tensors = [
            (torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)) for a, b in weights
        ]
        reached = torch.tensor(network.encode(codes, shown).toarray() / 4096)
        for place, (matrix, constants) in enumerate(tensors):
            reached = reached @ matrix + constants
            if place + 1 < len(tensors):
                reached = torch.nn.functional.leaky_relu(reached, 0.25)
        sign = -1 if real else 1
        torch.nn.functional.softplus(sign * reached).sum().backward()
        for (matrix, constants), found in zip(tensors, ours, strict=True):
            expected = np.concatenate([matrix.grad.numpy(), constants.grad.numpy()[None]])
            np.testing.assert_allclose(found * network.unit, expected, atol=0.02 * len(codes) ** 0.5)


def test_bad_networks_are_refused() -> None:
    for arguments in (((), "cross_entropy", 1.0), ((600,), "cross_entropy", 1.0), ((4,), "hinge", 1.0)):
        with pytest.raises(BudgetError):
            Critic(LAYOUT, *arguments)
    with pytest.raises(BudgetError):
        critic(clip=0.0)
    for rate, noise, steps in ((0.0, 1.0, 1), (1.5, 1.0, 1), (0.1, 0.0, 1), (0.1, 1e4, 1), (0.1, 1.0, 0)):
        with pytest.raises(BudgetError):
            TrainingPlan(critic(), rate, noise, steps)
    with pytest.raises(BudgetError):
        TrainingPlan(critic(), 0.1, 1.0, 1, (Gaussian(3.0),))
    with pytest.raises(BudgetError, match="Gaussian noise"):  # has a sigma too, and another privacy curve
        TrainingPlan(critic(), 0.1, 1.0, 1, (DiscreteGaussian(3.0),) * 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [0, 1, 50])
def test_a_training_hands_out_what_was_paid_for_and_no_more(rows: int) -> None:
    door = curator(rows)
    plan = TrainingPlan(critic(), 0.1, 30.0, 3, (Gaussian(40.0),) * 3)
    event = plan.event(door.unit, delta=9e-6)
    training = open_training(door, plan, event=event, purpose="train")
    assert [entry.event for entry in door.ledger.entries() if entry.event is not None] == [event]
    weights = plan.critic.start(np.random.default_rng(0))
    marginals = training.marginals()
    assert [item.clique for item in marginals] == [(name,) for name in SCHEMA.names]
    with pytest.raises(BudgetError, match="already"):
        training.marginals()
    for left in (2, 1, 0):
        assert [layer.shape for layer in training.step(weights)] == [(26, 12), (13, 7), (8, 1)]
        assert training.steps_left == left
    with pytest.raises(BudgetError, match="All 3 steps"):
        training.step(weights)
    for copied in (lambda: copy.copy(training), lambda: pickle.dumps(training), lambda: bool(training)):
        with pytest.raises(TypeError):
            copied()
    assert "codes" not in repr(training)


def test_another_event_or_too_small_a_budget_is_refused_before_anything_is_drawn() -> None:
    door = curator(20)
    plan = TrainingPlan(critic(), 0.1, 30.0, 3)
    other = TrainingPlan(critic(), 0.1, 30.0, 2)
    with pytest.raises(BudgetError, match="not the one"):
        open_training(door, plan, event=other.event(door.unit, delta=9e-6), purpose="train")
    with pytest.raises(BudgetError, match="not the one"):
        open_training(door, plan, event=plan.event(Unit.replace_one(), delta=9e-6), purpose="train")
    loud = TrainingPlan(critic(), 0.5, 0.8, 50)
    with pytest.raises(BudgetExceeded):
        open_training(door, loud, event=loud.event(door.unit, delta=9e-6), purpose="train")
    assert door.ledger.spent == 0


def test_too_small_an_epsilon_for_the_right_acts_is_refused() -> None:
    """Whoever opens a training names what is charged; the accountant has the last word."""
    door = curator(20)
    plan = TrainingPlan(critic(), 0.1, 30.0, 3, (Gaussian(40.0),) * 3)
    right = plan.event(door.unit, delta=9e-6)
    for epsilon, delta in ((right.epsilon / 2, right.delta), (right.epsilon, right.delta / 100)):
        with pytest.raises(BudgetError, match="does not keep"):
            open_training(door, plan, event=Approximated(epsilon, delta, right.events), purpose="train")
    assert door.ledger.spent == 0
    more = Approximated(2 * right.epsilon, right.delta, right.events)
    open_training(door, plan, event=more, purpose="train")
    assert [entry.event for entry in door.ledger.entries() if entry.event is not None] == [more]


def test_coins_do_not_depend_on_what_the_records_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code elsewhere picks records that fit a condition, which is no random batch whatever the rate is called."""
    from understudy.mechanisms.deep import look as gradients

    batches: list[list[int]] = []
    right = gradients.poisson_batch

    def watched(rows: int, rate: float, randomness: Any) -> np.ndarray:
        found = right(rows, rate, randomness)
        batches.append(found.tolist())
        return found

    monkeypatch.setattr(gradients, "poisson_batch", watched)
    plan = TrainingPlan(critic(), 0.2, 30.0, 1)
    for value in (0, 1):
        door = curator(50, seed=6)
        door._table = LocalTable(SCHEMA, {name: np.full(50, value) for name in SCHEMA.names})
        event = plan.event(door.unit, delta=9e-6)
        training = open_training(door, plan, event=event, purpose="train")
        training.step(plan.critic.start(np.random.default_rng(0)))
    assert batches[0] == batches[1] != []


def test_batches_are_sorted_places_of_rows() -> None:
    randomness = SeededRandomness(4)
    for rows, rate in itertools.product((0, 1, 7, 1000), (1e-4, 0.3, 0.999, 1.0)):
        batch = poisson_batch(rows, rate, randomness)
        assert (np.diff(batch) > 0).all()
        assert len(batch) == 0 or (batch[0] >= 0 and batch[-1] < rows)
    assert len(poisson_batch(1000, 1.0, randomness)) == 1000
