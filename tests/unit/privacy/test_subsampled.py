"""Poisson-subsampled Gaussian accounting: against dp-accounting, closed forms and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from understudy.errors import BudgetError, BudgetExceeded, NoSuchGuarantee
from understudy.privacy import ApproxDP, Ledger, Unit, event_from_dict
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE, ZCDP_ACCOUNTING, delta_of
from understudy.privacy.accounting.conversions import gdp_delta
from understudy.privacy.accounting.subsampled import (
    approximated,
    approximated_delta,
    subsampled_noise,
    subsampled_steps,
)
from understudy.privacy.events import (
    ApproxEvent,
    Approximated,
    GaussianEvent,
    LaplaceEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
    ZcdpEvent,
)

CASES = [
    (0.05, 5.0, 6000, 1e-6),
    (0.05, 1.2, 200, 1e-6),
    (0.01, 1.0, 1000, 1e-5),
    (0.5, 2.0, 30, 1e-9),
]


@pytest.mark.parametrize(("rate", "noise", "steps", "delta"), CASES)
@pytest.mark.parametrize("sides", [1, 2])
def test_equals_the_figure_of_dp_accounting(
    rate: float, noise: float, steps: int, delta: float, sides: int
) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    relations = pytest.importorskip("dp_accounting.privacy_accountant").NeighboringRelation
    relation = relations.ADD_OR_REMOVE_ONE if sides == 1 else relations.REPLACE_ONE
    referee = (
        pld.from_gaussian_mechanism(noise, sampling_prob=rate, neighboring_relation=relation)
        .self_compose(steps)
        .get_epsilon_for_delta(delta)
    )
    ours = approximated((SubsampledGaussianEvent(rate, noise, steps, 1, sides),), delta=delta).epsilon
    assert 0.9999 * referee <= ours <= 1.001 * referee


def test_rare_batches_whose_losses_are_bounded_on_one_side() -> None:
    """Where no sum of losses reaches epsilon, delta is nothing; a search for the best tilt found no end and gave up at one."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    event = SubsampledGaussianEvent(0.0005, 0.6, 2000, 1, 1)
    single = pld.from_gaussian_mechanism(0.6, sampling_prob=0.0005, value_discretization_interval=1e-3)
    referee = single.self_compose(2000).get_delta_for_epsilon(1.5)
    assert 0.99 * referee <= approximated_delta((event,), 1.5) <= 1.01 * referee


def test_persons_with_several_rows_are_mixtures_of_gaussians() -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    q, rows = 0.1, 3
    weights = [math.comb(rows, j) * q**j * (1 - q) ** (rows - j) for j in range(rows + 1)]
    referee = (
        pld.from_mixture_gaussian_mechanism(
            4.0, list(range(rows + 1)), weights, value_discretization_interval=1e-3
        )
        .self_compose(50)
        .get_epsilon_for_delta(1e-5)
    )
    ours = approximated((SubsampledGaussianEvent(q, 4.0, 50, rows, 1),), delta=1e-5).epsilon
    assert 0.9999 * referee <= ours <= 1.001 * referee


def test_measurements_compose_with_the_steps() -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    events = (*[GaussianEvent(1, 12.0)] * 3, SubsampledGaussianEvent(0.05, 3.0, 500, 1, 1))
    referee = pld.from_gaussian_mechanism(12.0).self_compose(3)
    referee = referee.compose(pld.from_gaussian_mechanism(3.0, sampling_prob=0.05).self_compose(500))
    ours = approximated(events, delta=1e-6).epsilon
    assert 0.9999 * referee.get_epsilon_for_delta(1e-6) <= ours <= 1.001 * referee.get_epsilon_for_delta(1e-6)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_without_sampling_it_is_the_gaussian_curve(epsilon: float) -> None:
    for steps, noise in ((1, 1.0), (100, 10.0), (400, 25.0)):
        exact = gdp_delta(math.sqrt(steps) / noise, epsilon)
        for sides in (1, 2):
            ours = approximated_delta(
                (SubsampledGaussianEvent(1.0, noise * sides, steps, 1, sides),), epsilon
            )
            assert exact <= ours <= exact * 1.01 + 1e-15


def test_no_pair_in_the_plane_is_worse_than_the_line() -> None:
    """Kahane's inequality as used for the domination, tried by brute force on vectors in all directions.

    Integrates the hockey-stick divergence of two mixtures in two dimensions on a grid; sums of errors are below 1e-6.
    """
    generator = np.random.default_rng(3)
    z, q = 0.8, 0.3
    axis = np.linspace(-7, 7, 401)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    area = (axis[1] - axis[0]) ** 2

    def density(vectors: np.ndarray, weights: list[float]) -> np.ndarray:
        return sum(
            w * norm.pdf(x, v[0], z) * norm.pdf(y, v[1], z) for w, v in zip(weights, vectors, strict=True)
        )

    rows = 2
    subsets = [s for r in range(rows + 1) for s in itertools.combinations(range(rows), r)]
    weights = [q ** len(s) * (1 - q) ** (rows - len(s)) for s in subsets]
    for sides in (1, 2):
        bounds = {
            epsilon: approximated_delta((SubsampledGaussianEvent(q, z, 1, rows, sides),), epsilon)
            for epsilon in (0.1, 0.7, 2.0)
        }
        for _ in range(12):
            parts = []
            for side in range(2):
                angles = generator.uniform(0, 2 * np.pi, rows)
                lengths = generator.choice([1.0, 0.6, 0.0], rows) if side < sides else np.zeros(rows)
                single = np.stack([np.cos(angles), np.sin(angles)], axis=1) * lengths[:, None]
                sums = np.array([single[list(s)].sum(axis=0) if s else np.zeros(2) for s in subsets])
                parts.append(density(sums, weights))
            for epsilon, bound in bounds.items():
                for p, other in (parts, parts[::-1]):
                    delta = float(np.maximum(p - math.exp(epsilon) * other, 0).sum() * area)
                    assert delta <= bound + 1e-6


def test_noise_and_steps_are_inverse_to_each_other() -> None:
    noise = subsampled_noise(1.0, 1e-6, rate=0.05, steps=400)
    event = SubsampledGaussianEvent(0.05, noise, 400, 1, 1)
    assert approximated_delta((event,), 1.0) <= 1e-6
    smaller = SubsampledGaussianEvent(0.05, noise / 1.001, 400, 1, 1)
    assert approximated_delta((smaller,), 1.0) > 1e-6
    assert subsampled_steps(1.0, 1e-6, rate=0.05, noise_multiplier=noise, most=10_000) in range(400, 404)
    assert subsampled_steps(1.0, 1e-6, rate=0.05, noise_multiplier=0.01, most=10) == 0
    assert approximated((event,), delta=1e-6).epsilon <= 1.0


def test_more_of_anything_costs_more() -> None:
    base = approximated((SubsampledGaussianEvent(0.1, 2.0, 100, 1, 1),), delta=1e-6).epsilon
    for worse in ((0.11, 2.0, 100, 1, 1), (0.1, 1.9, 100, 1, 1), (0.1, 2.0, 110, 1, 1)):
        assert approximated((SubsampledGaussianEvent(*worse),), delta=1e-6).epsilon > base
    for worse in ((0.1, 2.0, 100, 2, 1), (0.1, 2.0, 100, 1, 2)):
        assert approximated((SubsampledGaussianEvent(*worse),), delta=1e-6).epsilon > 1.5 * base


def test_a_guarantee_that_no_noise_can_keep_is_refused() -> None:
    with pytest.raises(NoSuchGuarantee):
        subsampled_noise(0.5, 1e-6, rate=0.1, steps=10, measured=(GaussianEvent(1, 1.0),))
    with pytest.raises(NoSuchGuarantee):
        approximated((SubsampledGaussianEvent(0.5, 0.01, 10, 1, 1),), delta=1e-9)


def test_acts_that_it_cannot_compose_are_refused_and_not_left_out() -> None:
    """They were passed over in silence, at no cost."""
    sampled = SubsampledGaussianEvent(0.1, 2.0, 100, 1, 1)
    for other in (LaplaceEvent(1, 1), SelectionEvent(1.0), ApproxEvent(1.0, 1e-6), ZcdpEvent(0.1)):
        with pytest.raises(BudgetError, match="nothing else"):
            approximated_delta((sampled, other), 1.0)  # type: ignore[arg-type]
        with pytest.raises(BudgetError, match="nothing else"):
            approximated((other,), delta=1e-6)  # type: ignore[arg-type]
    with pytest.raises(BudgetError):
        approximated((), delta=1e-6)


def test_units_of_very_many_rows_are_refused_in_words() -> None:
    assert approximated_delta((SubsampledGaussianEvent(0.01, 5000.0, 10, 1000, 1),), 1.0) < 1e-6
    with pytest.raises(NoSuchGuarantee, match="1,000 rows"):
        approximated_delta((SubsampledGaussianEvent(0.01, 5000.0, 10, 1001, 1),), 1.0)


@pytest.mark.parametrize("sides", [1, 2])
def test_very_many_steps_stay_above_the_gaussian_curve_of_every_batch(sides: int) -> None:
    """A third of a million steps: rounding of the transforms stays below what is added for it."""
    steps, mu = 300_000, 1.0
    z = sides * math.sqrt(steps) / mu
    for epsilon in (0.5, 4.0):
        exact = gdp_delta(mu, epsilon)
        ours = approximated_delta((SubsampledGaussianEvent(1.0, z, steps, 1, sides),), epsilon)
        assert exact <= ours <= 1.02 * exact


def test_events_are_checked_priced_and_read_back() -> None:
    sampled = SubsampledGaussianEvent(0.05, 2.0, 100, 1, 2)
    assert PURE.cost(sampled) == math.inf
    assert GDP_ACCOUNTING.cost(sampled) == 100.0
    assert ZCDP_ACCOUNTING.cost(sampled) == 50.0
    together = Approximated(1.0, 1e-6, (GaussianEvent(1, 3), sampled))
    assert event_from_dict(together.to_dict()) == together
    same = ApproxEvent(1.0, 1e-6)
    assert delta_of(together) == delta_of(same)
    for accounting in (PURE, GDP_ACCOUNTING, ZCDP_ACCOUNTING):
        assert accounting.cost(together) == math.inf
        assert accounting.exact_cost(together, reserve=True) == accounting.exact_cost(same, reserve=True)
    for wrong in ((1.5, 1, 1, 1, 1), (0.5, 1, 1.5, 1, 1), (0.5, 1, 1, 1, 3), (0.5, 0, 1, 1, 1)):
        with pytest.raises(BudgetError):
            SubsampledGaussianEvent(*wrong)
    with pytest.raises(BudgetError):
        event_from_dict({"kind": "approximated", "epsilon": 1.0, "events": []})
    with pytest.raises(BudgetError):
        Approximated(1.0, 0.0, (sampled,))


def test_a_ledger_needs_the_reserve() -> None:
    event = Approximated(0.9, 9e-7, (SubsampledGaussianEvent(0.05, 9.0, 100, 1, 1),))
    unit = Unit.add_remove()
    with (
        Ledger.in_memory(budget=ApproxDP(1.0, 1e-6), unit=unit, table="t") as book,
        pytest.raises(BudgetExceeded),
    ):
        book.charge(event, purpose="train")
    with Ledger.in_memory(budget=ApproxDP(1.0, 1e-6), unit=unit, table="t", approximate_delta=9e-7) as book:
        book.charge(event, purpose="train")
        assert [entry.event for entry in book.entries() if entry.event is not None] == [event]
        book.verify()
        with pytest.raises(BudgetExceeded):
            book.charge(event, purpose="train again")
