"""The noise of PrivSyn and PrivMRF: dependences and marginals carry what the budget pays for.

Each assertion alarms falsely with probability at most ALPHA and is judged together with wrong answers it must catch: a scale
15 % too small or too large. (That choices follow their law is tested with the curator.)
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from alpha import ALPHA
from scipy import stats

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.mechanisms import create
from understudy.mechanisms.graphs.look import independence_gap, measure_gaps
from understudy.privacy import GDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Integer, Schema

BUDGETS = pytest.mark.parametrize("budget", [PureDP(1.0), GDP(0.5)], ids=["laplace", "gaussian"])


def curator_of(sizes: list[int], n: int, budget: Budget, unit: Unit, seed: int) -> Curator:
    columns = tuple(Integer(f"c{i}", minimum=0, maximum=size - 1) for i, size in enumerate(sizes))
    generator = np.random.default_rng(seed)
    shared = generator.integers(0, 1 << 20, n)
    codes = {
        column.name: np.where(generator.random(n) < 0.3, shared, generator.integers(0, 1 << 20, n)) % size
        for column, size in zip(columns, sizes, strict=True)
    }
    table = LocalTable(
        Schema(columns=columns), {name: values.astype(np.uint8) for name, values in codes.items()}
    )
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="test")
    curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(seed))
    return curator.within(budget, scope="test")


def p_value(residuals: np.ndarray, scales: np.ndarray | float, *, laplace: bool) -> float:
    """Two-sided: sums of squares of Gaussian and of absolute values of Laplace noise have known laws."""
    standard = residuals / scales
    n = standard.size
    if laplace:
        law, value = stats.gamma(n), float(np.abs(standard).sum())
    else:
        law, value = stats.chi2(n), float(np.square(standard).sum())
    return 2 * min(float(law.cdf(value)), float(law.sf(value)))


@BUDGETS
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=lambda unit: unit.relation)
def test_dependences_carry_the_noise_that_is_paid_for(budget: Budget, unit: Unit, seed: int) -> None:
    """1,770 pairs of 60 columns, twice. The scale is computed here: sensitivity 4 or 6, an equal share of half the budget."""
    curator = curator_of([2, 3] * 30, 500, budget, unit, seed)
    pairs = list(combinations(curator.domain.names, 2))
    exact = np.array([independence_gap(counts)._exact for counts in curator.counts_many(pairs)])
    half = curator.remaining / 2
    residuals = np.concatenate([measure_gaps(curator, pairs, half).values - exact for _ in range(2)])
    sensitivity = 4 if unit.relation == "add-remove" else 6
    laplace = isinstance(budget, PureDP)
    share = (1.0 if laplace else 0.5**2) / 2 / len(pairs)
    scale = sensitivity / share if laplace else sensitivity / math.sqrt(share)
    assert p_value(residuals, scale, laplace=laplace) > ALPHA
    for wrong in (1 / 1.15, 1.15):
        assert p_value(residuals, scale * wrong, laplace=laplace) < ALPHA
    assert curator.remaining < 2e-3 * half


@BUDGETS
@pytest.mark.parametrize("name", ["privsyn", "privmrf"])
def test_marginals_carry_the_noise_they_say(name: str, budget: Budget, seed: int) -> None:
    """Columns of 40 to 90 values: thousands of cells in all, each judged by the scale its measurement states."""
    curator = curator_of([40, 50, 60, 70, 80, 90], 100_000, budget, Unit.add_remove(), seed)
    every: dict[str, dict[str, Any]] = {
        "privsyn": {"max_clique_cells": 1},
        "privmrf": {"theta": 0.1, "max_order": 2},
    }
    options = every[name]
    fitted = create(name, **options)._fit(curator, progress=lambda stage, fraction: None)
    residuals, scales = [], []
    for item in fitted.measurements:
        residuals.append((item.values - curator.counts(item.clique)._exact).ravel())
        scales.append(np.full(item.values.size, item.scale))
    together, scale = np.concatenate(residuals), np.concatenate(scales)
    assert together.size > 4_000, "enough cells for the wrong scales to be caught"
    laplace = isinstance(budget, PureDP)
    assert p_value(together, scale, laplace=laplace) > ALPHA
    for wrong in (1 / 1.15, 1.15):
        assert p_value(together, scale * wrong, laplace=laplace) < ALPHA
