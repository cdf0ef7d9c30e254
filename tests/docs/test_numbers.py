"""Numbers of the explanations that follow from formulas: computed again by the code they describe."""

from __future__ import annotations

import math
import re
from pathlib import Path
from statistics import NormalDist

import pytest
from benchmarks.accuracy.curves import RULES

from understudy.mechanisms.deniability.bounds import SeedTest
from understudy.privacy import GDP, ApproxDP, PureDP, Unit
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING
from understudy.privacy.accounting.conversions import approx_to_gdp, gdp_to_approx
from understudy.privacy.count_models.divergence import probabilistic_delta, true_delta
from understudy.privacy.count_models.laws import CountLaw
from understudy.privacy.events import PureEvent
from understudy.release import selection_guarantee
from understudy.release.selection.accounting import SingleAttempt
from understudy.release.selection.profiles import Bound, best_profile

PAGES = Path(__file__).parents[2] / "docs" / "explanation"


def _rows(page: str, head: str) -> list[list[str]]:
    """Return the cells of the table whose first line is ``head``."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    lines = text.split(f"\n{head}\n", 1)[1].splitlines()[1:]
    taken = lines[: next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in taken]


def _close(told: str, number: float) -> None:
    """Compare with a printed number, to the last digit printed."""
    digits = told.replace(",", "").partition(".")[2]
    assert float(told.replace(",", "")) == pytest.approx(number, abs=0.51 * 10.0 ** -len(digits)), told


def test_what_an_attacker_can_gain() -> None:
    rows = _rows("promise", "| epsilon | sure before: 10 % | sure before: 50 % |")
    assert len(rows) == 5
    for epsilon, *told in rows:
        for prior, words in zip((0.1, 0.5), told, strict=True):
            odds = prior / (1 - prior) * math.exp(float(epsilon))
            _close(re.findall(r"[\d.]+", words)[0], 100 * odds / (1 + odds))


def test_what_a_gaussian_release_lets_an_attacker_gain() -> None:
    head = "| epsilon, with delta 1e-9 | pure noise | Gaussian noise | chance that Gaussian noise moves the odds by more than `e^epsilon` |"
    rows = _rows("promise", head)
    assert len(rows) == 4
    times = []
    for told_epsilon, pure, gaussian, chance in rows:
        epsilon = float(told_epsilon)
        mu = approx_to_gdp(epsilon, 1e-9)
        _close(pure.split()[0], 100 / (1 + math.exp(-epsilon)))
        _close(gaussian.split()[0], 100 * NormalDist().cdf(mu / 2))
        exact = NormalDist().cdf(mu / 2 - epsilon / mu)
        assert float(chance) == pytest.approx(exact, rel=0.03)
        times.append(exact / 1e-9)
        named = best_profile([Bound(0.0, ApproxDP(epsilon, 1e-9)), Bound(0.0, GDP(mu))]).exceeded(epsilon)
        assert 2 < named / exact < 5
    assert 9.5 < min(times) < max(times) < 62


def test_the_example_of_plain_addition() -> None:
    text = (PAGES / "accounting.md").read_text(encoding="utf-8")
    squares = GDP_ACCOUNTING.cost(PureEvent(0.3))
    told = float(re.search(r"0\.3 of pure\s+noise costs as much as ([\d.]+) of Gaussian", text)[1])  # type: ignore[index]
    assert told == pytest.approx(gdp_to_approx(math.sqrt(squares), 1e-9), abs=0.01)


def test_what_selection_costs() -> None:
    head = "| attempt | rule | epsilon | factor | fails if attempts pass with probability 1/2 |"
    rows = _rows("private-selection", head)
    assert len(rows) == 9
    gaussian = False
    for attempt, rule, epsilon, factor, fails in rows:
        gaussian = gaussian or attempt.startswith("`GDP")
        base = (GDP(0.25), 1e-6) if gaussian else (PureDP(1.0), 0.0)
        found = selection_guarantee(base[0], RULES[rule], delta=base[1]).epsilon
        single = selection_guarantee(base[0], SingleAttempt(), delta=base[1]).epsilon
        _close(epsilon, found)
        _close(factor, found / single)
        _close(fails, 1 - RULES[rule].success(0.5))


def test_two_notions_of_delta() -> None:
    rows = _rows(
        "count-mechanisms", "| alpha | epsilon | probabilistic | true, add or remove | true, replace one |"
    )
    assert len(rows) == 2
    for alpha, epsilon, *told in rows:
        law, e = CountLaw("poisson", alpha=float(alpha)), float(epsilon)
        _close(told[0], probabilistic_delta(law, e))
        _close(told[1], true_delta(law, e, Unit.add_remove()))
        _close(told[2], true_delta(law, e, Unit.replace_one()))


def test_many_seed_based_records() -> None:
    rows = _rows("plausible-deniability", "| records | `k=50`, `ε0=1` | adding up | `k=150`, `ε0=.15` |")
    assert len(rows) == 4
    tests = [SeedTest(k=k, gamma=4.0, epsilon0=e, min_seeds=100_000) for k, e in ((50, 1.0), (150, 0.15))]
    for records, first, added, second in rows:
        n = int(records.replace(",", ""))
        for told, test in ((first, tests[0]), (second, tests[1])):
            _close(told, test.composed(n, relation="add-remove", delta=1e-6))
        one = tests[0].composed(1, relation="add-remove", delta=1e-6)
        assert float(added.replace(",", "")) == pytest.approx(n * one, rel=0.01)
