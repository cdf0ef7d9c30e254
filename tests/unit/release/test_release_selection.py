"""Selection accounting: exact outcome distributions on tiny output spaces respect every stated guarantee."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.privacy.accounting.conversions import gdp_delta, zcdp_delta
from understudy.release import selection_guarantee
from understudy.release.selection.accounting import (
    Attempts,
    GeometricAttempts,
    NegativeBinomialAttempts,
    SingleAttempt,
    UnlimitedAttempts,
    attempts_needed,
    profile_bound,
    pure_cost,
    renyi_cost,
    selection_delta,
    selection_epsilon,
    theorem_3,
)
from understudy.release.selection.profiles import ApproxProfile, GaussianProfile, ZcdpProfile, profile_of

Probabilities = np.ndarray

RULES: dict[str, Attempts] = {
    "single": SingleAttempt(),
    "unlimited": UnlimitedAttempts(),
    "known threshold": GeometricAttempts(0.1),
    "known threshold, few": GeometricAttempts(0.02, most=4),
    "known threshold, many": GeometricAttempts(0.02, most=attempts_needed(0.02, 0.1)),
    "logarithmic": NegativeBinomialAttempts(0.0, 0.05),
    "between": NegativeBinomialAttempts(-0.5, 0.01),
    "geometric": NegativeBinomialAttempts(1.0, 0.1),
    "heavy": NegativeBinomialAttempts(2.0, 0.3),
}


def number_of_attempts(rule: Attempts) -> np.ndarray:
    """P(K = k) for k = 1, 2, ..., written down from the definition of each rule."""
    k = np.arange(1, 3000)
    if isinstance(rule, SingleAttempt):
        return (k == 1).astype(float)
    if isinstance(rule, GeometricAttempts):
        p = rule.gamma * (1 - rule.gamma) ** (k - 1)
        if rule.most is not None:
            p[rule.most - 1] = (1 - rule.gamma) ** (rule.most - 1)
            p[rule.most :] = 0
        return p
    assert isinstance(rule, NegativeBinomialAttempts)
    log = k * math.log1p(-rule.gamma)
    eta = rule.eta
    if eta == 0:
        weights = np.exp(log) / k
    else:
        ratio = np.concatenate([[1.0], (k[:-1] + eta) / (k[:-1] + 1)])
        weights = np.exp(log) * np.cumprod(ratio)
    return weights / weights.sum()


def outcome(q: Probabilities, passing: int, rule: Attempts) -> Probabilities:
    """Simulate the loop exactly: the first ``passing`` outcomes pass, the rest fail; failure comes last."""
    p, fails = q[:passing].sum(), q[passing:].sum()
    if isinstance(rule, UnlimitedAttempts):
        return np.append(q[:passing] / p, 0.0)
    pmf = number_of_attempts(rule)
    at_least = pmf[::-1].cumsum()[::-1]
    reached = (at_least * fails ** np.arange(len(pmf))).sum()  # expected number of attempts
    failed = (pmf * fails ** np.arange(1, len(pmf) + 1)).sum()
    return np.append(q[:passing] * reached, failed)


def delta_at(a: Probabilities, b: Probabilities, epsilon: float) -> float:
    return float(np.maximum(0.0, a - math.exp(epsilon) * b).sum())


def pure_pairs(epsilon: float, seed: int, count: int) -> Iterator[tuple[Probabilities, Probabilities, int]]:
    """Pairs of distributions on a few outcomes with likelihood ratios up to ``exp(epsilon)``, often exactly."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        m = int(generator.integers(2, 6))
        base = generator.dirichlet(np.full(m, generator.choice([0.1, 0.5, 2.0]))) + 1e-9
        up = generator.random(m) < 0.5
        if up.all() or not up.any():
            up[0] = not up[0]
        # mass x on the raised outcomes becomes e^eps x, the others e^-eps: possible for x = 1/(1 + e^eps)
        low = 1 / (1 + math.exp(epsilon))
        q = np.where(up, base * low / base[up].sum(), base * (1 - low) / base[~up].sum())
        other = np.where(up, q * math.exp(epsilon), q * math.exp(-epsilon))
        mix = generator.choice([0.0, generator.random()])
        other = (1 - mix) * other + mix * q
        assert np.abs(np.log(q / other)).max() <= epsilon + 1e-9
        yield q, other, int(generator.integers(1, m + 1))


@pytest.mark.parametrize("name", sorted(RULES))
def test_weights_follow_from_the_distribution_of_the_number_of_attempts(name: str) -> None:
    rule = RULES[name]
    if isinstance(rule, UnlimitedAttempts):
        return
    pmf = number_of_attempts(rule)
    assert pmf.sum() == pytest.approx(1.0)
    for p in (0.0, 1e-9, 0.01, 0.3, 0.9, 1 - 1e-9, 1.0):
        a = outcome(np.array([p, 1 - p]), 1, rule)
        assert a.sum() == pytest.approx(1.0)
        if p > 0:
            assert p * rule.weight_of_pass(np.array([p]))[0] == pytest.approx(a[0])
            assert rule.success(p) == pytest.approx(a[0])
        if p < 1:
            assert (1 - p) * rule.weight_of_failure(np.array([p]))[0] == pytest.approx(a[1], abs=1e-12)
    if isinstance(rule, NegativeBinomialAttempts):
        assert rule.mean == pytest.approx((pmf * np.arange(1, len(pmf) + 1)).sum())
        assert [rule.probability(k) for k in (1, 2, 7)] == pytest.approx(pmf[[0, 1, 6]].tolist())
    grid = np.linspace(0.0, 1.0, 200)
    assert (np.diff(rule.weight_of_pass(grid)) <= 1e-12).all()
    assert (np.diff(rule.weight_of_failure(grid)) <= 1e-12).all()
    assert (rule.weight_of_failure(grid) <= rule.weight_of_pass(grid) + 1e-12).all()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("name", sorted(RULES))
def test_pure_guarantees_hold_in_both_directions(name: str, epsilon: float, seed: int) -> None:
    rule = RULES[name]
    guarantee = selection_guarantee(PureDP(epsilon), rule)
    assert guarantee.delta == 0
    assert guarantee.epsilon == min(guarantee.considered.values())
    worst = 0.0
    for q, other, passing in pure_pairs(epsilon, seed, 150):
        a, b = outcome(q, passing, rule), outcome(other, passing, rule)
        kept = (a > 1e-15) & (b > 1e-15)
        worst = max(worst, float(np.abs(np.log(a[kept] / b[kept])).max()))
    assert worst <= guarantee.epsilon + 1e-9
    assert worst > 0.8 * guarantee.epsilon, "the guarantee is loose, or the pairs too easy"
    assert guarantee.budget == PureDP(guarantee.epsilon)


def test_the_closed_form_of_the_known_threshold_is_attained() -> None:
    """Pass probability 1/(1 + e^eps), and a passing outcome that is rare but e^eps times rarer next door."""
    for epsilon, gamma in itertools.product((0.2, 1.0, 2.5), (0.01, 0.2)):
        low = 1 / (1 + math.exp(epsilon))
        tiny = 1e-9
        q = np.array([tiny, low - tiny, 1 - low])
        other = np.array([tiny * math.exp(-epsilon), (low - tiny) * math.exp(epsilon), 0.0])
        other[2] = 1 - other.sum()
        rule = GeometricAttempts(gamma)
        a, b = outcome(q, 2, rule), outcome(other, 2, rule)
        reached = math.log(a[0] / b[0])
        assert reached == pytest.approx(selection_guarantee(PureDP(epsilon), rule).epsilon, rel=1e-6)
        assert selection_guarantee(PureDP(epsilon), rule).epsilon < 2 * epsilon


def test_theorem_3_is_an_upper_bound_and_half_of_it_is_not() -> None:
    for epsilon, gamma, epsilon0 in itertools.product((0.3, 2.0, 4.0), (0.01, 0.1), (0.05, 1.0)):
        most = attempts_needed(gamma, epsilon0)
        assert pure_cost(epsilon, GeometricAttempts(gamma, most)) <= theorem_3(
            epsilon, gamma=gamma, epsilon0=epsilon0, most=most
        )
    with pytest.raises(BudgetError, match="attempts"):
        theorem_3(1.0, gamma=0.01, epsilon0=0.1, most=100)
    for bad in ((0.0, 0.1), (0.1, 0.0), (0.1, 2.0)):
        with pytest.raises(BudgetError):
            attempts_needed(*bad)
    # the paper's release: epsilon 4.99 per attempt, unlimited
    assert selection_guarantee(PureDP(4.99), UnlimitedAttempts()).epsilon == pytest.approx(9.98)
    # one epsilon is not enough: the pair of the test above exceeds it
    assert pure_cost(1.0, GeometricAttempts(0.05)) > 1.5


def test_a_negative_binomial_costs_at_most_two_plus_eta() -> None:
    for epsilon, eta, gamma in itertools.product((0.1, 1.0), (-0.9, -0.5, 0.0, 1.0), (0.3, 0.001)):
        guarantee = selection_guarantee(PureDP(epsilon), NegativeBinomialAttempts(eta, gamma))
        assert guarantee.epsilon <= (2 + eta) * epsilon
        assert guarantee.epsilon >= epsilon


def test_the_bound_of_a_negative_binomial_is_rounded_up() -> None:
    """A tiny gamma, for which the bound is the cheapest argument; as a product of doubles it was rounded down."""
    for epsilon, eta in itertools.product((0.1, 0.3, 0.7, 1.1), (0.3, 1.3)):
        considered = selection_guarantee(PureDP(epsilon), NegativeBinomialAttempts(eta, 1e-12)).considered
        assert Fraction(considered["truncated negative binomial"]) >= (2 + Fraction(eta)) * Fraction(epsilon)


def test_few_attempts_cost_no_more_than_composition() -> None:
    for most in (1, 2, 3):
        assert pure_cost(0.7, GeometricAttempts(1e-9, most)) <= max(2, most) * 0.7 * (1 + 1e-4)


# ---------------------------------------------------------------------- approximate


def gaussian_pair(mu: float, bins: int) -> tuple[Probabilities, Probabilities]:
    """N(0, 1) and N(mu, 1) cut into bins: a mu-GDP pair on finitely many outcomes."""
    from scipy.special import ndtr

    edges = np.concatenate([[-np.inf], np.linspace(-6, 6 + mu, bins - 1), [np.inf]])
    return np.diff(ndtr(edges)), np.diff(ndtr(edges - mu))


def approximate_pair(epsilon: float, delta: float) -> tuple[Probabilities, Probabilities]:
    """The worst (epsilon, delta)-DP pair: reveal with probability delta, else randomised response."""
    yes = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.array([delta, yes, 1 - delta - yes, 0.0]), np.array([0.0, 1 - delta - yes, yes, delta])


def split_outcomes(
    q: Probabilities, other: Probabilities, generator: np.random.Generator
) -> tuple[Probabilities, Probabilities, int]:
    """Let each outcome pass with its own probability: post-processing that makes passing correlate with the data."""
    chance = generator.choice([0.0, 1.0, generator.random()], size=len(q))
    chance = np.sort(chance) if generator.random() < 0.7 else chance
    if chance.sum() == 0:
        chance[-1] = 1e-3
    stacked = (
        np.concatenate([q * chance, q * (1 - chance)]),
        np.concatenate([other * chance, other * (1 - chance)]),
    )
    return stacked[0], stacked[1], len(q)


BASES: dict[str, tuple[Budget, Callable[[], tuple[Probabilities, Probabilities]]]] = {
    "gdp": (GDP(0.5), lambda: gaussian_pair(0.5, 60)),
    "large gdp": (GDP(1.5), lambda: gaussian_pair(1.5, 60)),
    "zcdp": (ZCDP(0.125), lambda: gaussian_pair(0.5, 60)),
    "approximate": (ApproxDP(0.8, 1e-3), lambda: approximate_pair(0.8, 1e-3)),
    "pure": (PureDP(0.8), lambda: approximate_pair(0.8, 0.0)),
}


@pytest.mark.parametrize("rule", [name for name in sorted(RULES) if name != "unlimited"])
@pytest.mark.parametrize("base", sorted(BASES))
def test_approximate_guarantees_hold_in_both_directions(base: str, rule: str, seed: int) -> None:
    budget, build = BASES[base]
    attempts = RULES[rule]
    generator = np.random.default_rng(seed)
    q, other = build()
    epsilons = np.array([0.3, 0.8, 1.5, 2.5])
    claimed = [selection_delta(budget, attempts, epsilon=float(e)) for e in epsilons]
    worst = np.zeros(len(epsilons))
    for _ in range(150):
        one, two, passing = split_outcomes(q, other, generator)
        a, b = outcome(one, passing, attempts), outcome(two, passing, attempts)
        for i, epsilon in enumerate(epsilons):
            worst[i] = max(worst[i], delta_at(a, b, epsilon), delta_at(b, a, epsilon))
    assert (worst <= np.array(claimed) + 1e-12).all()
    assert worst.max() > 0.05 * claimed[int(worst.argmax())], "the pairs are far too easy"


@pytest.mark.parametrize("rule", [name for name in sorted(RULES) if name != "unlimited"])
@pytest.mark.parametrize("base", ["approximate", "gdp"])
def test_passing_in_both_tails_comes_close_to_the_claim(base: str, rule: str) -> None:
    """One tail makes passing rarer next door, the other holds what is released: the worst there is, or nearly.

    No sampling: sets of outcomes below one place or above another, first a few, then those around the worst of them.
    A claim of 88 percent would be refuted; without the tails most are known to a tenth of themselves.
    """
    budget, build = BASES[base]
    attempts, (q, other) = RULES[rule], build()
    place, epsilon = np.arange(len(q)), 2.5

    def reached(low: int, high: int) -> float:
        passes = (place < low) | (place >= high)
        if not 0 <= low < high <= len(q):
            return 0.0
        order = np.argsort(~passes, kind="stable")
        one, two = (outcome(part[order], int(passes.sum()), attempts) for part in (q, other))
        return max(delta_at(one, two, epsilon), delta_at(two, one, epsilon))

    few = range(0, len(q) + 1, 4 if len(q) > 20 else 1)
    start = max(itertools.combinations(few, 2), key=lambda pair: reached(*pair))
    worst = max(reached(start[0] + i, start[1] + j) for i in range(-3, 4) for j in range(-3, 4))
    claimed = selection_delta(budget, attempts, epsilon=epsilon)
    assert 0.88 * claimed < worst <= claimed * (1 + 1e-9)


def test_the_profile_bound_is_valid_and_never_better() -> None:
    """The bound of the corrections page, and its factors for a Gaussian attempt."""
    for mu, gamma in itertools.product((0.25, 1.0), (0.1, 0.01)):
        base = selection_guarantee(GDP(mu), SingleAttempt(), delta=1e-6).epsilon
        for epsilon in (1.2 * base, 1.6 * base):
            exact = selection_delta(GDP(mu), GeometricAttempts(gamma), epsilon=epsilon)
            assert exact <= profile_bound(GDP(mu), gamma=gamma, epsilon=epsilon) * 1.01
        factor = selection_epsilon(GDP(mu), GeometricAttempts(gamma), delta=1e-6) / base
        assert 1.2 < factor < 1.6


def test_a_single_attempt_is_post_processing() -> None:
    guarantee = selection_guarantee(GDP(0.5), SingleAttempt(), delta=1e-6)
    assert GaussianProfile(0.5).delta(np.array([guarantee.epsilon]))[0] <= 1e-6
    assert guarantee.argument == "privacy profile of one attempt"
    assert guarantee.budget == ApproxDP(guarantee.epsilon, 1e-6)
    pure = selection_guarantee(PureDP(0.5), SingleAttempt())
    assert (pure.epsilon, pure.delta) == (0.5, 0.0)


def test_renyi_bound_holds(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rho = 0.125
    q, other = gaussian_pair(math.sqrt(2 * rho), 60)
    for eta, gamma in ((0.0, 0.05), (-0.5, 0.01), (1.0, 0.1)):
        rule = NegativeBinomialAttempts(eta, gamma)
        for order in (1.5, 3.0, 8.0):
            bound = renyi_cost(rho, rule, order=order)
            worst = 0.0
            for _ in range(60):
                one, two, passing = split_outcomes(q, other, generator)
                a, b = outcome(one, passing, rule), outcome(two, passing, rule)
                kept = (a > 0) & (b > 0)
                for left, right in ((a, b), (b, a)):
                    moment = (left[kept] ** order * right[kept] ** (1 - order)).sum()
                    worst = max(worst, math.log(moment) / (order - 1))
            assert worst <= bound + 1e-9
    both = selection_guarantee(ZCDP(rho), NegativeBinomialAttempts(0.0, 0.05), delta=1e-6)
    assert set(both.considered) == {"privacy profile", "Rényi divergences"}
    with pytest.raises(BudgetError):
        renyi_cost(rho, NegativeBinomialAttempts(0.0, 0.05), order=1.0)


def test_profiles_bound_what_they_describe() -> None:
    epsilons = np.array([-1.0, -0.2, 0.0, 0.3, 1.0, 3.0])
    grid = np.linspace(0.0, 1.0, 41)
    for profile, (a, b) in [
        (ApproxProfile(0.8, 0.01), approximate_pair(0.8, 0.01)),
        (GaussianProfile(0.7), gaussian_pair(0.7, 4000)),
        (ZcdpProfile(0.7**2 / 2), gaussian_pair(0.7, 4000)),
    ]:
        deltas = profile.delta(epsilons)
        exact = np.array([max(delta_at(a, b, e), delta_at(b, a, e)) for e in epsilons])
        assert (exact <= deltas + 1e-12).all()
        if not isinstance(profile, ZcdpProfile):
            assert exact == pytest.approx(deltas, abs=2e-3)
        order = np.argsort(a / np.maximum(b, 1e-300))
        reached, other = np.cumsum(a[order]), np.cumsum(b[order])
        assert (other <= profile.largest(np.minimum(reached, 1.0)) + 1e-9).all()
        assert (np.diff(profile.largest(grid)) >= -1e-12).all()
    with pytest.raises(BudgetError):
        profile_of("epsilon")  # type: ignore[arg-type]


def test_profiles_agree_with_the_accounting_of_the_ledger() -> None:
    for mu, epsilon in itertools.product((0.1, 0.5, 2.0), (0.0, 0.5, 2.0, 6.0)):
        ours = float(GaussianProfile(mu).delta(np.array([epsilon]))[0])
        assert ours == pytest.approx(gdp_delta(mu, epsilon), rel=1e-6, abs=1e-15)
        rho = mu**2 / 2
        loose = float(ZcdpProfile(rho).delta(np.array([epsilon]))[0])
        assert gdp_delta(mu, epsilon) <= loose + 1e-300
        assert loose <= zcdp_delta(rho, epsilon) * 1.02 + 1e-300


def test_what_has_no_guarantee_is_refused() -> None:
    with pytest.raises(NoSuchGuarantee):
        selection_guarantee(GDP(1.0), GeometricAttempts(0.1))
    with pytest.raises(NoSuchGuarantee):
        selection_guarantee(GDP(1.0), UnlimitedAttempts(), delta=1e-6)
    with pytest.raises(NoSuchGuarantee):
        selection_delta(GDP(1.0), UnlimitedAttempts(), epsilon=1.0)
    with pytest.raises(BudgetError):
        selection_guarantee(PureDP(1.0), SingleAttempt(), delta=1.0)
    for build in (
        lambda: GeometricAttempts(0.0),
        lambda: GeometricAttempts(0.1, most=0),
        lambda: NegativeBinomialAttempts(-1.0, 0.1),
        lambda: NegativeBinomialAttempts(0.0, 1.0),
    ):
        with pytest.raises(BudgetError):
            build()


def test_every_rule_describes_itself() -> None:
    assert all(rule.describe() and rule.name for rule in RULES.values())
    assert UnlimitedAttempts().expected(0.25) == 4.0
    assert SingleAttempt().success(0.0) == 0.0
