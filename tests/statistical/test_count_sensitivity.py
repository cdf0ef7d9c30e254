"""Random neighbouring tables: the joint law of all redrawn cells never reveals more than is charged.

Deterministic given the seed: laws are enumerated, not sampled. A charge that ignored a direction, a relation, a second row or
the empty cells would be exceeded here; that the charge is nearly reached is asserted too.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import read_table
from understudy.mechanisms.counts.look import redraw_event
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.privacy.count_models.divergence import probabilities
from understudy.privacy.count_models.laws import CountLaw
from understudy.schema import Schema

SCHEMA = Schema.parse(
    """
name: neighbours
columns:
  - {name: a, kind: categorical, values: [x, y]}
  - {name: b, kind: categorical, values: [u, v]}
"""
)
CELLS = [("x", "u"), ("x", "v"), ("y", "u"), ("y", "v")]
LAWS = [
    CountLaw("poisson", 0.6),
    CountLaw("negative-binomial", 1.5, 0.5),
    CountLaw("poisson-inverse-gaussian", 1.5, 0.5),
    CountLaw("delaporte", 1.5, 0.5, 0.4),
    CountLaw("sichel", 1.5, 0.5, -1.5),
]
UNITS = {
    "row": Unit.add_remove(),
    "replaced row": Unit.replace_one(),
    "person": Unit.add_remove_person("person", max_rows=2),
    "replaced person": Unit.replace_person("person", max_rows=2),
}


def counts(people: list[list[int]], unit: Unit) -> np.ndarray:
    """Exact counts as the curator seals them, from each person's cells."""
    rows = [(*CELLS[cell], person) for person, cells in enumerate(people) for cell in cells]
    table = read_table(
        pd.DataFrame(rows, columns=["a", "b", "person"]).astype({"a": object, "b": object}),
        SCHEMA,
        id_column=unit.id_column,
    )
    ledger = Ledger.in_memory(budget=ApproxDP(1.0, 1e-3), unit=unit, table="t")
    box = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(0))
    return np.asarray(box.counts(("a", "b"))._exact).ravel()


def neighbours(generator: np.random.Generator, unit: Unit) -> tuple[np.ndarray, np.ndarray]:
    """A random small table, often empty or nearly so, and a random neighbour of it."""
    size = int(generator.integers(0, 4))
    favourite = int(generator.integers(0, 4))

    def person() -> list[int]:
        rows = unit.max_rows if generator.random() < 0.8 else 1
        return [favourite if generator.random() < 0.6 else int(generator.integers(0, 4)) for _ in range(rows)]

    others = [person() for _ in range(size)]
    mine, instead = person(), person()
    first = counts([*others, mine], unit)
    second = counts([*others, instead] if unit.relation == "replace-one" else others, unit)
    return first, second


def revealed(law: CountLaw, one: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    """Hockey-stick divergence of the joint laws of the cells that differ, both ways."""
    p = q = np.ones(1)
    for a, b in zip(one, other, strict=True):
        if a == b:
            continue
        found = probabilities(law, np.array([a + law.alpha, b + law.alpha])).values[:, :70]
        p, q = np.outer(p, found[0]).ravel(), np.outer(q, found[1]).ravel()
    scale = math.exp(epsilon)
    return max(float(np.maximum(0, p - scale * q).sum()), float(np.maximum(0, q - scale * p).sum()))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("law", LAWS, ids=[law.family for law in LAWS])
def test_neighbours_never_reveal_more_than_is_charged(law: CountLaw, unit: str, seed: int) -> None:
    generator = np.random.default_rng([seed, len(unit)])
    epsilons = (0.2, 1.0)
    charged = {epsilon: redraw_event(law, epsilon=epsilon, unit=UNITS[unit]).delta for epsilon in epsilons}
    worst = dict.fromkeys(epsilons, 0.0)
    seen: set[tuple[int, ...]] = set()
    for _ in range(60):
        one, other = neighbours(generator, UNITS[unit])
        key = (*one.tolist(), *other.tolist())
        if key in seen or (one != other).sum() > 3:
            continue
        seen.add(key)
        for epsilon in epsilons:
            found = revealed(law, one, other, epsilon)
            assert found <= charged[epsilon] * (1 + 1e-9)
            worst[epsilon] = max(worst[epsilon], found)
    exact = law.family == "poisson" or UNITS[unit].max_rows == 1
    assert worst[0.2] > (0.8 if exact else 0.1) * charged[0.2]
