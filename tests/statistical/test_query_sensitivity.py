"""How far one unit moves answers to linear queries, alone and together: random and adversarial neighbouring tables.

No sampling error is involved: each pair either respects the claim or refutes it. The second half of each test shows that
the pairs are hard enough: a claim a tenth smaller would have been refuted.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from alpha import ALPHA

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import BudgetExceeded
from understudy.marginals import (
    Query,
    box,
    cells_of_marginal,
    halfspace,
    interval,
    linear,
    prefix,
    random_boxes,
)
from understudy.mechanisms.queries.look import draw_queries, joint_reach, measure_answers, seal_answers
from understudy.privacy import GDP, Gaussian, Laplace, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Domain, Schema

DOMAIN = Domain(("a", "b"), (4, 3))
SCHEMA = Schema.parse(
    """
columns:
  - {name: a, kind: integer, minimum: 0, maximum: 3}
  - {name: b, kind: categorical, values: [x, y, z]}
"""
)
UNITS = (
    Unit.add_remove(),
    Unit.replace_one(),
    Unit.add_remove_person("id", max_rows=3),
    Unit.replace_person("id", max_rows=2),
)
POOLS: dict[str, list[Query]] = {
    "marginal": list(cells_of_marginal(DOMAIN, ("a", "b"))),
    "prefixes": [prefix(DOMAIN, "a", last) for last in range(3)],
    "two columns": [prefix(DOMAIN, "a", 1), prefix(DOMAIN, "b", 0)],
    "halfspaces": [halfspace(DOMAIN, {"a": 1.0, "b": 1.0}, float(t)) for t in (1, 3, 5)],
    "values": [
        linear(DOMAIN, ["a"], [0.0, 0.3, 0.6, 0.9]),
        linear(DOMAIN, ["a", "b"], np.linspace(0, 1, 12).reshape(4, 3)),
    ],
    "boxes": list(random_boxes(DOMAIN, 8, order=2, generator=np.random.default_rng(2))),
    "range": [interval(DOMAIN, {"a": (1, 2)}), box(DOMAIN, {"a": [0, 3]})],
}


def table(rows: np.ndarray) -> LocalTable:
    return LocalTable(SCHEMA, {name: rows[:, index] for index, name in enumerate(DOMAIN.names)})


def exact(rows: np.ndarray, queries: list[Query], unit: Unit) -> np.ndarray:
    plain = Unit.add_remove()
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=plain, table="t")
    sealed = seal_answers(Curator(table(rows), unit=plain, ledger=ledger), queries)
    return sealed._exact / sealed._grid


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.relation}-{unit.max_rows}")
def test_no_unit_moves_answers_further_than_claimed(unit: Unit, pool: str, seed: int) -> None:
    queries = POOLS[pool]
    l1, l2 = joint_reach(queries, unit)
    generator = np.random.default_rng([seed, unit.max_rows])
    every = np.stack(np.meshgrid(range(4), range(3), indexing="ij"), axis=-1).reshape(-1, 2)
    worst = np.zeros(3)
    for _ in range(80):
        n = int(generator.choice([0, 1, 3, 20]))
        rest = every[generator.integers(0, 12, n)]
        one, two = (np.repeat(every[generator.integers(0, 12, 1)], unit.max_rows, axis=0) for _ in "xy")
        if unit.relation == "add-remove":
            before, after = rest, np.concatenate([rest, one])
        else:
            gone = unit.max_rows > 1 and generator.random() < 0.3
            before = np.concatenate([rest, one])
            after = rest if gone else np.concatenate([rest, two])
        moved = np.abs(exact(after, queries, unit) - exact(before, queries, unit))
        worst = np.maximum(worst, [moved.max(), moved.sum(), np.sqrt(np.square(moved).sum())])
    each = unit.max_rows * max(query.reach for query in queries)
    assert worst[0] <= each
    assert worst[1] <= l1 * (1 + 1e-12)
    assert worst[2] <= l2 * (1 + 1e-12)
    # sharp where the maximum over pairs is what the bound is; "two columns" and "values" join different cliques
    if pool in ("marginal", "prefixes"):
        assert worst[1] > 0.9 * l1
        assert worst[2] > 0.9 * l2
    assert worst[0] > 0.9 * each


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.relation}-{unit.max_rows}")
def test_joint_sensitivities_are_rounded_up_never_down(unit: Unit) -> None:
    """The nearest double to the root of three lies below it; groups of one query each make every root up to 40."""
    wide = Domain(tuple(f"c{i}" for i in range(40)), (2,) * 40)
    k = unit.max_rows
    for number in range(1, 41):
        l1, l2 = joint_reach([prefix(wide, name, 0) for name in wide.names[:number]], unit)
        assert l1 == k * number
        assert Fraction(l2) ** 2 >= k * k * number
        assert l2 <= (k * k * number) ** 0.5 * (1 + 1e-15)


def test_the_cells_of_a_marginal_cost_one_histogram() -> None:
    """Twelve answers together cost as much as one; one by one they would cost twelve times as much."""
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t")
    curator = Curator(table(np.zeros((5, 2), dtype=int)), unit=unit, ledger=ledger)
    sealed = seal_answers(curator, POOLS["marginal"])
    values = measure_answers(curator, sealed, range(12), noise=Laplace(2.0), purpose="cells")
    assert values.shape == (12,)
    assert ledger.spent == pytest.approx(0.5)
    with pytest.raises(BudgetExceeded):
        measure_answers(
            curator, seal_answers(curator, POOLS["boxes"]), range(8), noise=Laplace(2.0), purpose="b"
        )


def test_noise_of_linear_queries_has_the_scale_that_is_charged() -> None:
    """4,000 answers of .5 per row: mean and spread within the bounds of chance; half the noise would be caught.

    The mean of 4,000 draws of scale 3 is off by more than 6.1 standard errors, and their variance by more than 6.1 of its
    own, with probability below 1e-9 each.
    """
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=GDP(100.0), unit=unit, table="t")
    curator = Curator(
        table(np.ones((8, 2), dtype=int)), unit=unit, ledger=ledger, randomness=SeededRandomness(4)
    )
    sealed = seal_answers(curator, [linear(DOMAIN, ["a"], [0.0, 0.5, 1.0, 0.25])])
    drawn = np.concatenate(
        [measure_answers(curator, sealed, [0], noise=Gaussian(3.0), purpose="q") for _ in range(4_000)]
    )
    assert ALPHA == 1e-9
    assert abs(drawn.mean() - 4.0) < 6.1 * 3 / np.sqrt(4_000)
    assert abs(drawn.var() / 9 - 1) < 6.1 * np.sqrt(2 / 4_000)
    assert abs((drawn.mean() - 4.0) ** 2 + drawn.var() / 4 - 9) > 9 * 6.1 * np.sqrt(2 / 4_000)
    assert ledger.spent == pytest.approx(4_000 / 9)


def test_draws_of_queries_follow_the_exponential_law() -> None:
    """Frequencies of 4,000 draws against the law; an epsilon twice or half as large is caught.

    A chi-square statistic with 3 degrees of freedom exceeds 45 with probability below 1e-9.
    """
    unit = Unit.replace_one()
    ledger = Ledger.in_memory(budget=PureDP(1e6), unit=unit, table="t")
    curator = Curator(
        table(np.array([[0, 0]] * 6 + [[3, 1]] * 2)), unit=unit, ledger=ledger, randomness=SeededRandomness(1)
    )
    queries = [prefix(DOMAIN, "a", 1), prefix(DOMAIN, "b", 0)]
    sealed = seal_answers(curator, queries)
    public, factor = np.array([10.0, 16.0]), 2.0
    drawn = draw_queries(curator, sealed, public, factor=factor, epsilon=1.0, number=4_000, purpose="draw")
    assert ledger.spent == pytest.approx(4_000)
    scores = factor * np.array([6.0, 6.0]) - public
    both = np.concatenate([scores, -scores])

    def misfit(epsilon: float) -> float:
        law = np.exp(epsilon * both / (2 * factor * 1.0))
        expected = 4_000 * law / law.sum()
        return float((np.square(np.bincount(drawn, minlength=4) - expected) / expected).sum())

    assert misfit(1.0) < 45
    assert misfit(2.0) > 45
    assert misfit(0.5) > 45
