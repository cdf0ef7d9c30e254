"""Accounted measures of quality: right numbers, proved sensitivities, charges before noise."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import BudgetExceeded, WorkloadError
from understudy.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP, SeededRandomness, Unit
from understudy.release.accounted import _errors, accounted_measures
from understudy.schema import Schema

SCHEMA = Schema.parse(
    """
columns:
  - {name: a, kind: categorical, values: [x, y, z]}
  - {name: b, kind: boolean}
  - {name: c, kind: ordinal, values: [p, q, r, s]}
"""
)
SIZES = (3, 2, 4)


def codes(n: int, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.integers(0, size, n) for name, size in zip("abc", SIZES, strict=True)}


def curator(n: int, budget, unit=None, seed: int = 0) -> Curator:
    unit = unit or Unit.add_remove()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    return Curator(
        LocalTable(SCHEMA, codes(n, seed)), unit=unit, ledger=ledger, randomness=SeededRandomness(1)
    )


@pytest.mark.parametrize("budget", [PureDP(2000.0), ApproxDP(2000.0, 1e-6), ZCDP(1e6), GDP(1e3)])
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()])
def test_with_little_noise_the_numbers_are_the_exact_ones(budget, unit) -> None:
    box = curator(500, budget, unit)
    made = codes(700, 9)
    found = {item.measure: item for item in accounted_measures(box, made, budget)}
    real = codes(500, 0)
    for k in (1, 2, 3):
        averages, largest = [], 0.0
        for clique in combinations("abc", k):
            shape = tuple(SIZES["abc".index(name)] for name in clique)
            p, q = np.zeros(shape), np.zeros(shape)
            np.add.at(p, tuple(real[name] for name in clique), 1 / 500)
            np.add.at(q, tuple(made[name] for name in clique), 1 / 700)
            averages.append(np.abs(p - q).sum() / 2)
            largest = max(largest, np.abs(p - q).max())
        average = found[f"average total variation of {k}-way marginals"]
        assert average.value == pytest.approx(np.mean(averages), abs=0.005)
        assert found[f"largest error of {k}-way marginals"].value == pytest.approx(largest, abs=0.005)
    assert ("rows" in found) == (unit.relation == "add-remove")
    assert box.ledger.spent > 0


@pytest.mark.parametrize("number", range(30))
def test_sensitivities_on_neighbours(number: int) -> None:
    """One row more moves the average by at most a half and the largest by one; a replaced row by one and one."""
    generator = np.random.default_rng(number)
    n = int(generator.integers(0, 30))
    real = codes(n + 1, number)
    made = LocalTable(SCHEMA, codes(int(generator.integers(1, 30)), number + 1000))
    scale = float(generator.uniform(0.1, 3))
    k = int(generator.integers(1, 4))
    cliques = [SCHEMA.domain.canonical(names) for names in combinations("abc", k)]

    def errors(columns: dict[str, np.ndarray]) -> np.ndarray:
        return np.array(_errors(LocalTable(SCHEMA, columns), made, cliques, scale))

    whole = errors(real)
    fewer = errors({name: values[:-1] for name, values in real.items()})
    changed = errors(
        {name: np.append(v[:-1], generator.integers(0, SIZES[i])) for i, (name, v) in enumerate(real.items())}
    )
    slack = 1e-9
    assert (np.abs(whole - fewer) <= np.array([0.5, 1.0]) + slack).all()
    assert (np.abs(whole - changed) <= np.array([1.0, 1.0]) + slack).all()


def test_the_whole_budget_is_spent_and_no_more() -> None:
    box = curator(300, PureDP(1.0))
    found = accounted_measures(box, codes(300, 3), PureDP(1.0), orders=(1, 2))
    assert 0.99 <= box.ledger.spent <= 1.0
    assert all(item.deviation > 0 for item in found)
    with pytest.raises(BudgetExceeded):
        accounted_measures(box, codes(300, 3), PureDP(1.0))


def test_bad_input_spends_nothing() -> None:
    box = curator(300, PureDP(1.0))
    with pytest.raises(WorkloadError, match="no rows"):
        accounted_measures(box, codes(0, 3), PureDP(1.0))
    with pytest.raises(WorkloadError, match="orders"):
        accounted_measures(box, codes(10, 3), PureDP(1.0), orders=(7,))
    assert box.ledger.spent == 0
