"""Count laws: their probabilities against independent computations, and what they refuse."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import integrate, special, stats

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy.count_models.divergence import first_count, last_count, probabilities
from understudy.privacy.count_models.kernels import step_bound
from understudy.privacy.count_models.laws import CountLaw, bessel_ratio

LAWS = {
    "poisson": CountLaw("poisson", 0.7),
    "negative-binomial": CountLaw("negative-binomial", 0.7, 0.4),
    "wide negative-binomial": CountLaw("negative-binomial", 0.7, 3.0),
    "poisson-inverse-gaussian": CountLaw("poisson-inverse-gaussian", 0.7, 0.4),
    "delaporte": CountLaw("delaporte", 0.7, 0.4, 0.3),
    "sichel": CountLaw("sichel", 0.7, 0.4, -2.3),
    "sichel upwards": CountLaw("sichel", 0.7, 0.4, 1.5),
}
MEANS = (0.7, 1.7, 30.0, 700.0)


def mixed(law: CountLaw, mean: float, b: int) -> float:
    """Probability of ``b`` by quadrature over the mixing density, or by a convolution."""
    k = 1 / law.sigma if law.sigma else 0.0
    if law.family == "delaporte":
        rest = mean * (1 - law.nu)
        j = np.arange(b + 1)
        return float(np.sum(stats.poisson.pmf(b - j, mean * law.nu) * stats.nbinom.pmf(j, k, k / (k + rest))))
    index, psi, chi = law.mixing

    def density(t: float) -> float:  # of ln g, up to a constant
        return math.exp(index * t - (psi * (math.exp(t) - 1) + chi * (math.exp(-t) - 1)) / 2)

    def joint(t: float) -> float:
        return density(t) * stats.poisson.pmf(b, mean * math.exp(t))

    points = np.linspace(-6, 6, 25)
    return (
        integrate.quad(joint, -12, 12, points=points, limit=400, epsabs=0, epsrel=1e-10)[0]
        / integrate.quad(density, -12, 12, points=points, limit=400, epsabs=0, epsrel=1e-10)[0]
    )


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("mean", MEANS)
def test_mean_and_variance_are_those_stated(name: str, mean: float) -> None:
    law = LAWS[name]
    found = probabilities(law, np.array([mean]))
    b = found.first + np.arange(found.values.shape[1])
    first = float((found.values[0] * b).sum())
    second = float((found.values[0] * (b - first) ** 2).sum())
    assert found.values[0].sum() == pytest.approx(1, abs=1e-12)
    assert first == pytest.approx(mean, rel=1e-9)
    assert second == pytest.approx(law.variance(mean - law.alpha), rel=1e-8)


@pytest.mark.parametrize("mean", MEANS)
def test_poisson_and_negative_binomial_agree_with_scipy(mean: float) -> None:
    for law, reference in (
        (LAWS["poisson"], stats.poisson(mean)),
        (LAWS["negative-binomial"], stats.nbinom(2.5, 2.5 / (2.5 + mean))),
    ):
        found = probabilities(law, np.array([mean]))
        b = found.first + np.arange(found.values.shape[1])
        np.testing.assert_allclose(found.values[0], reference.pmf(b), rtol=1e-9, atol=1e-60)
        assert found.first == 0 or reference.cdf(found.first - 1) < math.exp(-80)
        assert reference.sf(b[-1]) < 1e-32


@pytest.mark.parametrize("name", ["poisson-inverse-gaussian", "delaporte", "sichel", "sichel upwards"])
@pytest.mark.parametrize("mean", [0.7, 1.7, 30.0])
def test_recurrences_agree_with_quadrature(name: str, mean: float) -> None:
    law = LAWS[name]
    found = probabilities(law, np.array([mean])).values[0]
    for b in (0, 1, 2, 5, 25, 48):
        assert found[b] == pytest.approx(mixed(law, mean, b), rel=1e-7)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("mean", MEANS)
def test_the_bound_on_steps_holds_for_every_later_count(name: str, mean: float) -> None:
    law = LAWS[name]
    numbers = (law.sigma or 0.0, law.nu or 0.0, 0.0, 0.0)
    if law.kind in (2, 4):
        numbers = (law.sigma, *law.mixing)
    found = probabilities(law, np.array([mean]))
    usable = found.values[0] > 1e-250
    step = found.values[0][1:] / np.where(usable, found.values[0], 1)[:-1]
    step[~usable[:-1]] = 0
    for b in range(0, len(step), max(1, len(step) // 40)):
        assert step[b:].max() <= step_bound(law.kind, mean, *numbers, found.first + b) * (1 + 1e-9)
    last = last_count(law, mean, numbers, nats=20.0)
    assert found.values[0][last - found.first :].sum() <= math.exp(-20)
    assert first_count(law, mean) == found.first


def trapezoid_ratio(order: float, z: float) -> float:
    """``K_{order+1}(z) / K_order(z)`` by the trapezoidal rule with fifty digits; it converges geometrically."""
    with localcontext() as context:
        context.prec = 50
        step = Decimal("0.02")

        def bessel(v: Decimal) -> Decimal:
            total = Decimal(0)
            for j in range(-700, 701):
                t = step * j
                exponent = v * t - Decimal(z) * ((t.exp() + (-t).exp()) / 2 - 1)
                if exponent > -150:
                    total += exponent.exp()
            return total

        return float(bessel(Decimal(order) + 1) / bessel(Decimal(order)))


@pytest.mark.parametrize("order", [-2.3, -0.5, 0.0, 3.7])
@pytest.mark.parametrize("z", [0.05, 1.0, 40.0])
def test_bessel_ratios_are_as_accurate_as_claimed(order: float, z: float) -> None:
    """The privacy bounds take a relative error of 1e-12 for granted."""
    assert float(bessel_ratio(order, np.array([z]))[0]) == pytest.approx(trapezoid_ratio(order, z), rel=1e-13)


def test_the_inverse_gaussian_is_a_sichel() -> None:
    one = probabilities(CountLaw("poisson-inverse-gaussian", 2.0, 0.3), np.array([2.0, 5.0])).values
    two = probabilities(CountLaw("sichel", 2.0, 0.3, -0.5), np.array([2.0, 5.0])).values
    shared = min(one.shape[1], two.shape[1])
    np.testing.assert_allclose(one[:, :shared], two[:, :shared], rtol=1e-9, atol=1e-60)
    assert special.kv(0.5, 2.0) == pytest.approx(math.sqrt(math.pi / 4) * math.exp(-2.0))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("poisson", 0.0), BudgetError),
        (("poisson", -1.0), BudgetError),
        (("poisson", math.nan), BudgetError),
        (("poisson", 1.0, 0.5), BudgetError),
        (("negative-binomial", 1.0), BudgetError),
        (("negative-binomial", 1.0, -0.5), BudgetError),
        (("negative-binomial", 1.0, 0.5, 0.5), BudgetError),
        (("delaporte", 1.0, 0.5, 1.0), BudgetError),
        (("delaporte", 1.0, 1.5, 0.5), NoSuchGuarantee),
        (("sichel", 1.0, 0.5, 100.0), BudgetError),
        (("binomial", 1.0), BudgetError),
    ],
)
def test_laws_that_make_no_sense(arguments: tuple, error: type[Exception]) -> None:
    with pytest.raises(error):
        CountLaw(*arguments)
