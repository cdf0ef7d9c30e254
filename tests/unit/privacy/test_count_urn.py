"""Pólya's urn: its privacy by exact enumeration, and its arithmetic."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from understudy.errors import BudgetError
from understudy.privacy import SeededRandomness, Unit
from understudy.privacy.count_models.urn import UrnPrior, _weights, draw_urn

ROW = Unit.add_remove()


def law(counts: tuple[int, ...], alpha: Fraction, rows: int) -> dict[tuple[int, ...], Fraction]:
    """Exact law of the synthetic counts, draw by draw."""
    found = {tuple([0] * len(counts)): Fraction(1)}
    for j in range(rows):
        following: dict[tuple[int, ...], Fraction] = {}
        for drawn, mass in found.items():
            total = sum(counts) + len(counts) * alpha + j
            for cell in range(len(counts)):
                after = (*drawn[:cell], drawn[cell] + 1, *drawn[cell + 1 :])
                weight = (counts[cell] + alpha + drawn[cell]) / total
                following[after] = following.get(after, Fraction(0)) + mass * weight
        found = following
    return found


def worst_loss(one: dict, other: dict) -> float:
    return max(abs(math.log(one[b]) - math.log(other[b])) for b in one)


@pytest.mark.parametrize("rows", [1, 3, 5])
@pytest.mark.parametrize("alpha", [Fraction(1, 4), Fraction(1), Fraction(5, 2)])
def test_the_claimed_epsilon_by_enumeration(rows: int, alpha: Fraction) -> None:
    """All tables of three cells with up to three rows, all neighbours, all outputs: safe, and nearly reached."""
    prior = UrnPrior(int(alpha * 4), 2, rows)
    claimed = prior.epsilon(ROW)
    laws = {c: law(c, alpha, rows) for c in itertools.product(range(4), repeat=3)}
    removed = replaced = 0.0
    for c in laws:
        for cell in range(3):
            if not c[cell]:
                continue
            fewer = (*c[:cell], c[cell] - 1, *c[cell + 1 :])
            removed = max(removed, worst_loss(laws[c], laws[fewer]))
            for other in range(3):
                moved = tuple(x + (i == other) for i, x in enumerate(fewer))
                if moved in laws:
                    replaced = max(replaced, worst_loss(laws[c], laws[moved]))
    assert removed <= claimed
    assert replaced <= claimed
    assert replaced == pytest.approx(claimed, rel=1e-9)  # a replaced row reaches it in a table of one row


def test_protecting_only_the_largest_prior_is_not_enough() -> None:
    """The condition printed in the paper is about the largest pseudocount; the smallest one decides."""
    claimed = math.log1p(3 / 2)

    def uneven(counts: tuple[int, int]) -> dict:
        alphas = (Fraction(2), Fraction(1, 10))
        found = {(0, 0): Fraction(1)}
        for j in range(3):
            following: dict = {}
            for drawn, mass in found.items():
                for cell in range(2):
                    after = tuple(x + (i == cell) for i, x in enumerate(drawn))
                    weight = (counts[cell] + alphas[cell] + drawn[cell]) / (sum(counts) + sum(alphas) + j)
                    following[after] = following.get(after, Fraction(0)) + mass * weight
            found = following
        return found

    assert worst_loss(uneven((1, 0)), uneven((0, 1))) > 2 * claimed


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("unit", [ROW, Unit.replace_one(), Unit.add_remove_person("id", max_rows=3)])
def test_the_prior_for_an_epsilon_spends_it(epsilon: float, unit: Unit) -> None:
    prior = UrnPrior.for_epsilon(epsilon, rows=1000, unit=unit)
    assert 0.999 * epsilon < prior.epsilon(unit) <= epsilon


def test_weights_depend_on_public_numbers_and_never_shrink() -> None:
    for epsilon, rows, cells in ((20.0, 2000, 120), (1.0, 8_000_000, 3_500_000), (1e-3, 10**6, 10**6)):
        prior = UrnPrior.for_epsilon(epsilon, rows=rows, unit=ROW)
        numerator, shift = _weights(prior, cells)
        assert numerator / 2**shift >= prior.alpha
        assert cells * numerator + ((2**36 + rows) << shift) < 2**63
    with pytest.raises(BudgetError):
        _weights(UrnPrior(2**40, 0, 1), 2**30)
    with pytest.raises(BudgetError):
        UrnPrior(1, 50, 1)


def test_empty_and_large_tables() -> None:
    drawn = draw_urn(UrnPrior(1, 3, rows=40), np.zeros((2, 3), np.int64), SeededRandomness(0))
    assert drawn.shape == (2, 3)
    assert drawn.sum() == 40
    full = draw_urn(UrnPrior(1, 40, rows=1000), np.array([0, 10**6, 0]), SeededRandomness(0))
    assert full.tolist() == [0, 1000, 0]
