"""The cost of rare-value counts, tried on random neighbouring tables.

No sampling error: for every pair the exact privacy loss of the Laplace noise, ``sum |change| / scale``, must not exceed
the stated epsilon. The pairs are hard enough if some reach it: an epsilon a tenth smaller would be refuted.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import BudgetError, BudgetExceeded
from understudy.mechanisms.marginal.look import _classes, count_rare, rare_epsilon
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Categorical, Schema

SCHEMA = Schema(tuple(Categorical(name, values=tuple("abcd")) for name in ("x", "y", "z")))
VALUES = (("x", 3), ("y", 3), ("x", 2), ("z", 0))
UNITS = (
    Unit.add_remove(),
    Unit.replace_one(),
    Unit.add_remove_person("id", max_rows=3),
    Unit.replace_person("id", max_rows=2),
)
PAIRS = 400


def _counts(rows: np.ndarray) -> np.ndarray:
    table = LocalTable(SCHEMA, {name: rows[:, i].astype(np.uint8) for i, name in enumerate(SCHEMA.names)})
    holder: Any = SimpleNamespace(domain=SCHEMA.domain, _table=table)
    return _classes(holder, VALUES)


def _person(generator: np.random.Generator, low: int, high: int) -> np.ndarray:
    rows = generator.integers(0, 4, (int(generator.integers(low, high + 1)), 3))
    if generator.random() < 0.5 and len(rows):  # all in one class, the worst case
        name, code = VALUES[int(generator.integers(len(VALUES)))]
        rows[:] = 1
        rows[:, SCHEMA.names.index(name)] = code
    return rows


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.relation}-{unit.max_rows}")
def test_no_neighbour_changes_the_counts_by_more_than_epsilon_pays_for(unit: Unit) -> None:
    generator = np.random.default_rng(7)
    scales = np.array([2.0, 5.0, 5.0, 9.0])
    epsilon = rare_epsilon(scales, unit)
    largest = 0.0
    for _ in range(PAIRS):
        rest = generator.integers(0, 4, (int(generator.choice([0, 1, 2, 9])), 3))
        before, after = rest, np.concatenate([rest, _person(generator, 1, unit.max_rows)])
        if unit.relation == "replace-one":
            low = 1 if unit.max_rows == 1 else 0
            before = np.concatenate([rest, _person(generator, low, unit.max_rows)])
        loss = float((np.abs(_counts(after) - _counts(before)) / scales).sum())
        assert loss <= epsilon + 1e-12
        largest = max(largest, loss)
    assert largest > 0.9 * epsilon


def _curator(unit: Unit, ledger: Ledger, seed: int = 1) -> Curator:
    rows = np.random.default_rng(3).integers(0, 4, (500, 3))
    columns = {name: rows[:, i].astype(np.uint8) for i, name in enumerate(SCHEMA.names)}
    return Curator(LocalTable(SCHEMA, columns), unit=unit, ledger=ledger, randomness=SeededRandomness(seed))


@pytest.mark.parametrize("unit", UNITS[:2], ids=lambda unit: unit.relation)
def test_counts_cost_what_they_say_and_get_noise_by_weight(unit: Unit) -> None:
    with Ledger.in_memory(budget=PureDP(0.5), unit=unit) as ledger:
        curator = _curator(unit, ledger)
        found = count_rare(curator, VALUES, weights=[4, 2, 2, 1], epsilon=0.5, purpose="rare")
        assert ledger.spent == 0.5
        assert rare_epsilon(found.scales, unit) <= 0.5
        assert np.allclose(found.scales / found.scales[0], [1, 2, 2, 4])
        expected = 2.0 if unit.relation == "add-remove" else 3.0
        assert found.scales[0] == pytest.approx(expected)
        with pytest.raises(BudgetExceeded):
            count_rare(curator, VALUES, weights=[1, 1, 1, 1], epsilon=0.1, purpose="rare")


@pytest.mark.parametrize(
    ("values", "weights", "epsilon"),
    [
        ((), (), 0.1),
        ((("x", 3), ("x", 3)), (1, 1), 0.1),
        ((("x", 9),), (1,), 0.1),
        ((("nowhere", 0),), (1,), 0.1),
        ((("x", 3),), (0,), 0.1),
        ((("x", 3),), (1,), 0.0),
    ],
)
def test_nonsense_is_refused_before_anything_is_spent(values: Any, weights: Any, epsilon: float) -> None:
    unit = Unit.replace_one()
    with Ledger.in_memory(budget=PureDP(1.0), unit=unit) as ledger:
        with pytest.raises(BudgetError):
            count_rare(_curator(unit, ledger), values, weights=weights, epsilon=epsilon, purpose="rare")
        assert ledger.spent == 0
