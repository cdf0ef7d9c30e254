"""Conversions against independent referees: mpmath to 60 digits, dp_accounting's PLD and RDP accountants."""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import pld, rdp
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy import GDP, ZCDP, ApproxDP, PureDP, Unit, group_privacy
from understudy.privacy.accounting.conversions import (
    approx_to_gdp,
    approx_to_zcdp,
    bounded_range_to_gdp,
    bounded_range_to_zcdp,
    gdp_delta,
    gdp_to_approx,
    pure_to_gdp,
    pure_to_zcdp,
    zcdp_delta,
    zcdp_to_approx,
)
from understudy.privacy.events import (
    ApproxEvent,
    GaussianEvent,
    LaplaceEvent,
    Parallel,
    PureEvent,
    SelectionEvent,
    ZcdpEvent,
)
from understudy.privacy.guarantee import tightest

EPSILONS = st.floats(min_value=-4, max_value=2.5).map(lambda x: 10.0**x)
DELTAS = st.floats(min_value=-30, max_value=-0.5).map(lambda x: 10.0**x)
SOME = settings(max_examples=40, deadline=None)


def exact_gdp_delta(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return +(mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))


# ------------------------------------------------------------------------------------------------ GDP


@pytest.mark.parametrize("mu", [1e-12, 1e-4, 0.03, 0.5, 1.0, 4.0, 25.0])
@pytest.mark.parametrize("ratio", [0.0, 0.1, 1.0, 3.0, 10.0, 30.0])
def test_the_gaussian_curve_is_right_to_the_last_bit(mu, ratio):
    epsilon = ratio * mu
    exact, found = exact_gdp_delta(mu, epsilon), gdp_delta(mu, epsilon)
    assert mpmath.mpf(found) >= exact
    assert mpmath.mpf(math.nextafter(found, 0)) < exact or found == 1.0


@SOME
@given(EPSILONS, DELTAS)
def test_mu_and_epsilon_are_inverse_and_on_the_safe_side(epsilon, delta):
    mu = approx_to_gdp(epsilon, delta)
    assert gdp_delta(mu, epsilon) <= delta
    assert gdp_delta(math.nextafter(mu, math.inf), epsilon) > delta  # the largest such double
    back = gdp_to_approx(mu, delta)
    assert gdp_delta(mu, back) <= delta
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("mu", "delta"), [(0.1, 1e-300), (1e-5, 1e-300), (1e-100, 1e-120), (30.0, 1e-9)])
def test_the_curve_holds_at_extremes(mu, delta):
    epsilon = gdp_to_approx(mu, delta)
    assert gdp_delta(mu, epsilon) <= delta
    assert gdp_delta(mu, epsilon * (1 - 1e-9)) > delta


def test_a_generous_delta_needs_no_epsilon():
    assert gdp_to_approx(0.01, 0.5) == 0.0


def test_gaussian_composition_agrees_with_the_privacy_loss_distribution():
    sigma, count, delta = 8.0, 10, 1e-6
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(dp_accounting.GaussianDpEvent(sigma), count)
    referee = accountant.get_epsilon(delta)
    ours = gdp_to_approx(math.sqrt(count) / sigma, delta)
    assert ours == pytest.approx(referee, rel=5e-3)
    assert ours <= referee + 1e-9  # the referee rounds its grid up, the curve is exact


# ----------------------------------------------------------------------------------------------- zCDP


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.05, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-5, 0.1])
def test_concentrated_privacy_converts_like_a_fine_grid_of_orders(rho, delta):
    orders = 1 + np.geomspace(1e-4, 1e7, 20_000)
    logs = (orders - 1) * np.log1p(-1 / orders) - np.log(orders) - math.log(delta)
    grid = float(np.min(rho * orders + logs / (orders - 1)))
    ours = zcdp_to_approx(rho, delta)
    assert ours <= max(grid, 0.0) * (1 + 1e-12)
    assert ours >= grid * (1 - 1e-5)


def test_concentrated_privacy_agrees_with_the_renyi_accountant():
    rho, delta = 0.1, 1e-6
    orders = [1 + x / 10 for x in range(1, 1000)]
    accountant = rdp.RdpAccountant(orders)
    accountant.compose(dp_accounting.ZCDpEvent(rho))
    assert zcdp_to_approx(rho, delta) == pytest.approx(accountant.get_epsilon(delta), rel=1e-4)


@SOME
@given(EPSILONS, DELTAS)
def test_rho_is_the_largest_that_keeps_the_promise(epsilon, delta):
    rho = approx_to_zcdp(epsilon, delta)
    assert zcdp_to_approx(rho, delta) <= epsilon
    assert zcdp_to_approx(rho * (1 + 1e-9), delta) > epsilon or rho == 0
    assert zcdp_delta(rho, epsilon) <= delta * (1 + 1e-6)
    # every mu-GDP act is mu^2/2-zCDP, so the exact Gaussian curve can never be worse
    assert approx_to_gdp(epsilon, delta) ** 2 / 2 >= rho * (1 - 1e-9)


@pytest.mark.parametrize(
    ("rho", "delta"), [(1e-300, 1e-300), (1e300, 1e-9), (5e-324, 5e-324), (1.0, 1 - 1e-16)]
)
def test_concentrated_conversions_survive_absurd_numbers(rho, delta):
    epsilon = zcdp_to_approx(rho, delta)
    assert math.isfinite(epsilon)
    assert 0 < zcdp_delta(rho, epsilon + 1.0) <= 1


def test_delta_of_concentrated_privacy_is_a_probability():
    assert zcdp_delta(1e300, 1.0) == 1.0
    assert zcdp_delta(1.0, 1e300) == 5e-324
    assert zcdp_delta(0.5, 0.0) < 1


# --------------------------------------------------------------------------- pure and bounded range


@pytest.mark.parametrize("epsilon", [1e-300, 1e-9, 1e-3, 0.1, 1.0, 5.0, 40.0, 700.0, 1e5])
def test_pure_costs_are_right_and_rounded_up(epsilon):
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon)
        rho = e * mpmath.tanh(e / 2)
        assert mpmath.mpf(pure_to_zcdp(epsilon)) >= rho
        assert rho < 1e-320 or abs(pure_to_zcdp(epsilon) / rho - 1) < 1e-15
    for scale, function in ((1, pure_to_gdp), (mpmath.mpf(1) / 2, bounded_range_to_gdp)):
        mu = function(epsilon)
        with mpmath.workdps(60 if epsilon < 100 else 30):
            x = mpmath.mpf(epsilon) * scale

            def logit(m: float) -> mpmath.mpf:
                z = mpmath.mpf(m) / 2
                if z < 1e-20:
                    return 4 * z / mpmath.sqrt(2 * mpmath.pi)
                return (
                    2 * mpmath.atanh(mpmath.erf(z / mpmath.sqrt(2)))
                    if z < 5
                    else -mpmath.log(mpmath.erfc(z / mpmath.sqrt(2)) / 2)
                    + mpmath.log1p(-mpmath.erfc(z / mpmath.sqrt(2)) / 2)
                )

            assert logit(mu) >= x * (1 - mpmath.mpf(10) ** -25)
            assert logit(mu * (1 - 1e-14)) < x


def test_bounded_range_is_half_of_pure_in_mu_and_a_quarter_in_rho():
    assert bounded_range_to_gdp(1.0) == pure_to_gdp(0.5)
    assert bounded_range_to_zcdp(1.0) == 0.125
    assert pure_to_zcdp(0.01) == pytest.approx(0.01**2 / 2, rel=1e-4)
    # beyond eight the pure bound is the better one
    assert bounded_range_to_zcdp(20.0) == pure_to_zcdp(20.0) < 20.0**2 / 8


def test_composed_laplace_noise_is_covered_by_the_privacy_loss_distribution():
    scale, count, delta = 20.0, 30, 1e-6
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(dp_accounting.LaplaceDpEvent(scale), count)
    referee = accountant.get_epsilon(delta)
    ours = tightest([LaplaceEvent(1.0, scale)] * count, delta)
    assert referee * 0.98 <= ours.epsilon <= referee * 1.5
    assert ours.accounting in ("gdp", "zcdp")


# -------------------------------------------------------------------------------------------- groups


def test_groups_of_one_change_nothing():
    for budget in (PureDP(0.3), ZCDP(0.3), GDP(0.3), ApproxDP(0.3, 1e-9)):
        assert group_privacy(budget, 1) == budget


def test_groups_in_all_four_notions():
    assert group_privacy(PureDP(0.5), 3) == PureDP(1.5)
    assert group_privacy(GDP(0.5), 3) == GDP(1.5)
    assert group_privacy(ZCDP(0.5), 3) == ZCDP(4.5)
    approx = group_privacy(ApproxDP(0.5, 1e-9), 3)
    assert approx.epsilon == 1.5
    assert approx.delta == pytest.approx(1e-9 * (1 + math.exp(0.5) + math.exp(1.0)), rel=1e-14)
    assert Fraction(group_privacy(ApproxDP(1e-200, 1e-9), 5).delta) >= 5 * Fraction(1e-9)


def test_a_group_too_large_for_its_delta_is_refused():
    with pytest.raises(NoSuchGuarantee, match="group of 40"):
        group_privacy(ApproxDP(1.0, 1e-9), 40)
    with pytest.raises(BudgetError):
        group_privacy(PureDP(1.0), 0)


def test_group_privacy_of_gaussian_noise_is_covered():
    """k steps of a Gaussian of sensitivity one are a Gaussian of sensitivity k."""
    mu, k, delta = 0.2, 3, 1e-6
    epsilon = gdp_to_approx(mu, delta)
    group = group_privacy(ApproxDP(epsilon, delta), k)
    assert gdp_delta(k * mu, group.epsilon) <= group.delta


# ------------------------------------------------------------------------------------------- tightest


def test_the_tightest_accounting_is_named():
    assert tightest([PureEvent(0.1)], 1e-9).accounting == "pure"
    assert tightest([PureEvent(0.1)], 1e-9).delta == 0.0
    many = tightest([SelectionEvent(0.01)] * 500, 1e-9)
    assert many.accounting == "zcdp"  # bounded range is cheapest there
    assert tightest([GaussianEvent(1, 5)] * 4, 1e-9).accounting == "gdp"
    only = tightest([ZcdpEvent(0.1), GaussianEvent(1, 5)], 1e-9)
    assert set(only.alternatives) == {"zcdp"}
    assert "zcdp" in only.describe()


def test_the_tightest_guarantee_is_the_smallest_alternative():
    guarantee = tightest([GaussianEvent(1, 5), LaplaceEvent(1, 10), SelectionEvent(0.1)], 1e-6)
    assert guarantee.epsilon == min(guarantee.alternatives.values())
    assert set(guarantee.alternatives) == {"zcdp", "gdp"}


def test_events_with_their_own_delta_use_up_part_of_it():
    plain, more = [GaussianEvent(1, 5)], [GaussianEvent(1, 5), ApproxEvent(0.0, 5e-7)]
    assert tightest(more, 1e-6).epsilon == pytest.approx(tightest(plain, 5e-7).epsilon, rel=1e-9)
    with pytest.raises(NoSuchGuarantee):
        tightest(more, 5e-7)


def test_events_without_a_common_accounting_have_no_guarantee():
    assert tightest([], 1e-9).epsilon == 0.0
    with pytest.raises(NoSuchGuarantee, match="delta"):
        tightest([ZcdpEvent(0.1), ApproxEvent(0.1, 0.5)], 1e-9)


def test_parallel_events_depend_on_the_unit():
    event = Parallel([PureEvent(0.1), PureEvent(0.1)])
    assert tightest([event], 1e-9).epsilon == 0.1
    assert tightest([event], 1e-9, unit=Unit.replace_one()).epsilon == 0.2


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None])
def test_bad_numbers_are_refused_everywhere(bad):
    for function in (pure_to_zcdp, pure_to_gdp, bounded_range_to_gdp, bounded_range_to_zcdp):
        with pytest.raises(BudgetError):
            function(bad)
    for convert in (approx_to_gdp, approx_to_zcdp, zcdp_to_approx, gdp_to_approx):
        with pytest.raises(BudgetError):
            convert(bad, 1e-6)
        with pytest.raises(BudgetError):
            convert(1.0, bad)
