"""Noise descriptions: what they promise before anything is drawn, and how drawing behaves."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from understudy.errors import BudgetError
from understudy.privacy import (
    Accounting,
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Noise,
    SeededRandomness,
    SystemRandomness,
)
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE, ZCDP_ACCOUNTING
from understudy.privacy.events import GaussianEvent, LaplaceEvent, ZcdpEvent
from understudy.privacy.noise.noise import noise_within
from understudy.privacy.noise.opendp import OpenDPRandomness
from understudy.privacy.noise.randomness import Randomness

KINDS = (Gaussian, DiscreteGaussian, Laplace, Geometric)
AnyNoise = Gaussian | DiscreteGaussian | Laplace | Geometric


def mass_function(noise: AnyNoise) -> tuple[np.ndarray, np.ndarray]:
    """Integers and their probabilities, summed directly."""
    reach = int(45 * noise.scale) + 3
    k = np.arange(-reach, reach + 1)
    if isinstance(noise, Gaussian):
        # Differences of upper tails on the right, of lower tails on the left: no cancellation.
        a = np.abs(k)
        mass = special.ndtr(-(a - 0.5) / noise.sigma) - special.ndtr(-(a + 0.5) / noise.sigma)
    elif isinstance(noise, DiscreteGaussian):
        mass = np.exp(-((k / noise.sigma) ** 2) / 2)
    else:
        mass = np.exp(-np.abs(k) / noise.scale)
        if isinstance(noise, Geometric):
            mass[k < 0] = 0.0
    return k, mass / mass.sum()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.2, 0.6, 1.0, 2.9, 3.1, 17.25, 60.0])
def test_variance_and_quantiles_match_the_mass_function(kind: type[AnyNoise], scale: float) -> None:
    noise = kind(scale)
    k, mass = mass_function(noise)
    mean = np.sum(k * mass)
    assert noise.variance == pytest.approx(np.sum((k - mean) ** 2 * mass), rel=1e-9, abs=1e-300)
    cumulative = np.cumsum(mass)
    for p in (0.001, 0.025, 0.2, 0.45, 0.55, 0.8, 0.975, 0.999):
        assert noise.quantile(p) == k[np.argmax(cumulative >= p)], p


def test_extreme_scales_have_finite_moments() -> None:
    for kind in KINDS:
        for scale in (2.0**-20, 2.0**40):
            assert np.isfinite(kind(scale).variance)
            assert kind(scale).quantile(0.9) >= 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "scale", [0.0, -1.0, float("nan"), float("inf"), 2.0**-21, 2.0**40 * 1.001, True, "wide", None, 1j]
)
def test_impossible_scales_are_refused(kind: type[AnyNoise], scale: object) -> None:
    with pytest.raises(BudgetError):
        kind(scale)  # type: ignore[arg-type]


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, float("nan")])
@pytest.mark.parametrize("kind", KINDS)
def test_impossible_probabilities_are_refused(kind: type[AnyNoise], p: float) -> None:
    with pytest.raises(BudgetError):
        kind(1.0).quantile(p)


@pytest.mark.parametrize("kind", KINDS)
def test_descriptions_are_values(kind: type[AnyNoise]) -> None:
    noise = kind(np.float64(2.5))
    assert noise == kind(2.5)
    assert noise != kind(2.0)
    assert hash(noise) == hash(kind(2.5))
    assert pickle.loads(pickle.dumps(noise)) == noise
    assert type(noise.scale) is float
    assert isinstance(noise, Noise) == (kind is not Geometric)  # one-sided noise protects one side only
    with pytest.raises(AttributeError):
        noise.scale = 3.0  # type: ignore[misc]


def test_events_use_the_sensitivity_of_their_own_norm() -> None:
    assert Laplace(4.0).event(l1=2, l2=1.5) == LaplaceEvent(2.0, 4.0)
    assert Gaussian(4.0).event(l1=2, l2=1.5) == GaussianEvent(1.5, 4.0)
    assert DiscreteGaussian(4.0).event(l1=2, l2=2) == ZcdpEvent(0.125)


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_the_cost_of_the_discrete_gaussian_is_never_rounded_down(l2: float, sigma: float) -> None:
    rho = Fraction(DiscreteGaussian(sigma).event(l1=l2, l2=l2).rho)
    exact = (Fraction(l2) / Fraction(sigma)) ** 2 / 2
    assert exact <= rho <= exact * (1 + Fraction(1, 2**51))


@pytest.mark.parametrize("accounting", [PURE, ZCDP_ACCOUNTING, GDP_ACCOUNTING])
def test_noise_within_a_cost_costs_no_more_and_hardly_less(accounting: Accounting) -> None:
    for cost in (1e-3, 0.3, 7.0):
        noise = noise_within(accounting, cost, l1=3.0, l2=1.25)
        assert isinstance(noise, Laplace if accounting is PURE else Gaussian)
        assert cost * (1 - 1e-9) < accounting.cost(noise.event(l1=3.0, l2=1.25)) <= cost


def test_kinds_are_what_measurements_call_them() -> None:
    assert [kind.kind for kind in KINDS] == ["gaussian", "gaussian", "laplace", "geometric"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), 0, 5, (3, 0), (2, 3, 4)])
def test_draws_have_the_shape_asked_for(kind: type[AnyNoise], shape: int | tuple[int, ...]) -> None:
    draws = kind(2.5).draw(shape, SystemRandomness())
    assert draws.dtype == np.int64
    assert draws.shape == ((shape,) if isinstance(shape, int) else shape)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_differ_between_calls_and_repeat_with_the_seed(kind: type[AnyNoise]) -> None:
    noise = kind(1e6)
    system = SystemRandomness()
    assert not np.array_equal(noise.draw(8, system), noise.draw(8, system))
    seeded = SeededRandomness(5)
    first, second = noise.draw(8, seeded), noise.draw(8, seeded)
    assert not np.array_equal(first, second)
    assert np.array_equal(first, noise.draw(8, SeededRandomness(5)))


def test_drawing_leaves_global_generators_alone() -> None:
    before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    for kind in KINDS:
        kind(3.0).draw(100, SystemRandomness())
    Laplace(3.0).draw(10, OpenDPRandomness())
    after = np.random.get_state()[1], random.getstate()  # noqa: NPY002
    assert np.array_equal(before[0], after[0])
    assert before[1] == after[1]


def test_opendp_is_selected_by_the_randomness_and_leaves_its_features_as_they_were() -> None:
    from opendp import mod

    assert isinstance(OpenDPRandomness(), Randomness)
    was_enabled = "contrib" in mod.GLOBAL_FEATURES
    for noise in (Laplace(1e6), DiscreteGaussian(1e6)):
        a, b = (noise.draw((2, 3), OpenDPRandomness()) for _ in range(2))
        assert a.dtype == np.int64
        assert a.shape == (2, 3)
        assert not np.array_equal(a, b)
        assert noise.draw(0, OpenDPRandomness()).shape == (0,)
    assert ("contrib" in mod.GLOBAL_FEATURES) == was_enabled


@pytest.mark.parametrize("noise", [Gaussian(1.0), Geometric(1.0)])
def test_opendp_refuses_what_it_has_no_sampler_for(noise: AnyNoise) -> None:
    with pytest.raises(BudgetError, match="OpenDP has no"):
        noise.draw(3, OpenDPRandomness())


FORK = """
import os, sys
from understudy.privacy.noise.noise import Gaussian
from understudy.privacy.noise.randomness import SystemRandomness
source, noise = SystemRandomness(), Gaussian(1e9)
noise.draw(4, source)
for _ in range(2):
    if os.fork() == 0:
        os.write(1, (" ".join(map(str, noise.draw(4, source))) + "\\n").encode())
        os._exit(0)
os.write(1, (" ".join(map(str, noise.draw(4, source))) + "\\n").encode())
for _ in range(2):
    os.wait()
"""


def test_forked_processes_draw_different_noise() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == 3
    assert len(set(lines)) == 3


def test_importing_the_noise_does_not_import_the_compilers() -> None:
    code = (
        "import sys, understudy.privacy.noise.noise, understudy.privacy.noise.selection\n"
        "print(sorted({'numba', 'opendp', 'llvmlite'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
