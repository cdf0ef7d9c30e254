"""How far one unit moves sums of products, tried on random and on adversarial neighbouring tables.

No sampling error is involved: each pair either respects the claim or refutes it. The second half shows that
the pairs are hard enough: a claim of half the size would have been refuted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.mechanisms.parametric.features import ONE, Feature, indicator, standardised
from understudy.mechanisms.parametric.look import MomentBlock, seal_moments
from understudy.privacy import Ledger, PureDP, Unit
from understudy.schema import Categorical, Integer, Real, Schema

PAIRS = 120
SCHEMA = Schema(
    [
        Real("height", minimum=140, maximum=210),
        Integer("age", bins=[0, 18, 40, 65, 100], missing=True),
        Categorical("colour", values=["red", "green", "blue"]),
        Categorical("size", values=["small", "large"], out_of_domain="to-other"),
    ]
)
UNITS = (
    Unit.add_remove(),
    Unit.replace_one(),
    Unit.add_remove_person("id", max_rows=3),
    Unit.replace_person("id", max_rows=2),
)
HEIGHT, AGE = standardised(SCHEMA.column("height")), standardised(SCHEMA.column("age"))
COLOURS = [indicator("colour", [code], 3) for code in range(3)]
SIZES = [indicator("size", [code], 3) for code in range(3)]
JOINT = Feature("colour and size", ("colour", "size"), np.linspace(-1, 0.5, 9).reshape(3, 3))
BLOCKS = {
    "second moments": MomentBlock.second("all", [ONE, HEIGHT.feature, AGE.feature, AGE.present]),
    "with categories": MomentBlock.second("mixed", [ONE, HEIGHT.feature, *COLOURS, *SIZES]),
    "within cells": MomentBlock.second("cells", [ONE, HEIGHT.feature, AGE.feature, AGE.present], within=("colour",)),
    "within two columns": MomentBlock.second("cells", [ONE, HEIGHT.feature], within=("colour", "size")),
    "within levels": MomentBlock("levels", (ONE, HEIGHT.feature, AGE.feature), ((0, 1), (0, 2), (1, 2)), within=("age", "colour"), labels={"age": np.array([0, 0, 0, 0, 1])}),
    "sums alone": MomentBlock("sums", (ONE, HEIGHT.feature, AGE.feature), ((0, 1), (0, 2))),
    "the number of rows": MomentBlock("rows", (ONE,), ((0, 0),)),
    "of two columns": MomentBlock("joint", (ONE, JOINT, *COLOURS), ((0, 1), (1, 1), (1, 2))),
    "coarse grid": MomentBlock("coarse", (ONE, HEIGHT.feature), ((0, 0), (0, 1), (1, 1)), bits=3),
}  # fmt: skip

Rows = np.ndarray


def _rows(generator: np.random.Generator, n: int) -> Rows:
    """Rows of one person: at a corner of the domain (the same for all, or each its own), or anywhere."""
    sizes = SCHEMA.domain.sizes
    style = generator.integers(4)
    corners = np.array([[0, sizes[0] - 1], [0, 3], [0, 2], [0, 2]])
    if style == 3:
        return np.stack([generator.integers(0, size, n) for size in sizes], axis=1)
    pick = generator.integers(0, 2, (1 if style else n, 4))
    return np.broadcast_to(corners[np.arange(4), pick], (n, 4)) if style else corners[np.arange(4), pick]


def _neighbours(unit: Unit, seed: int) -> Iterator[tuple[Rows, Rows]]:
    generator = np.random.default_rng(seed)
    for _ in range(PAIRS):
        n = int(generator.choice([0, 0, 1, 7]))
        rest = np.stack([generator.integers(0, size, n) for size in SCHEMA.domain.sizes], axis=1)
        one = _rows(generator, int(generator.integers(1, unit.max_rows + 1)))
        if unit.relation == "add-remove":
            yield rest, np.concatenate([rest, one])
            continue
        low = 1 if unit.max_rows == 1 else 0
        other = _rows(generator, int(generator.integers(low, unit.max_rows + 1)))
        yield np.concatenate([rest, one]), np.concatenate([rest, other])


def _sealed(rows: Rows, unit: Unit):  # type: ignore[no-untyped-def]
    columns = {
        name: rows[:, place].astype(SCHEMA.column(name).dtype) for place, name in enumerate(SCHEMA.names)
    }
    table = LocalTable(SCHEMA, columns)
    plain = Unit(unit.relation)
    book = Ledger.in_memory(budget=PureDP(1.0), unit=plain, table="t")
    curator = Curator(table, unit=plain, ledger=book)
    curator._unit = unit  # the rows are already those of one person; no identifiers are needed
    return dict(zip(BLOCKS, seal_moments(curator, list(BLOCKS.values())), strict=True))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.relation}-{unit.max_rows}")
def test_no_unit_moves_a_sum_further_than_claimed(unit: Unit, seed: int) -> None:
    worst = {name: np.zeros(2) for name in BLOCKS}
    for left, right in _neighbours(unit, seed):
        before, after = _sealed(left, unit), _sealed(right, unit)
        for name in BLOCKS:
            one, two = before[name], after[name]
            assert (one.reach.l1, one.reach.l2) == (two.reach.l1, two.reach.l2), (
                "a claim must not depend on the records"
            )
            change = np.abs(one._exact - two._exact).astype(float)
            moved = np.array([change.sum(), np.sqrt((change**2).sum())])
            claimed = np.array([one.reach.l1, one.reach.l2])
            assert (moved <= claimed).all(), name
            if one.reach.l1 > 0:
                worst[name] = np.maximum(worst[name], moved / claimed)
            else:
                assert unit == Unit.replace_one()
                assert name == "the number of rows"
    for name, ratios in worst.items():
        if name != "the number of rows" or unit != Unit.replace_one():
            assert (ratios > 0.5 + 1e-9).all(), f"a halved sensitivity of {name} would not have been caught"


def test_the_worst_record_attains_the_bound(seed: int) -> None:
    """Adding the corner record moves the second moments of the standard features by exactly the claim."""
    unit = Unit.add_remove()
    corner = np.array([[SCHEMA.domain.sizes[0] - 1, 3, 2, 2]])
    with_it, without = _sealed(corner, unit), _sealed(corner[:0], unit)
    for name in ("second moments", "with categories", "within cells"):
        change = np.abs(with_it[name]._exact - without[name]._exact).astype(float)
        assert change.sum() == pytest.approx(with_it[name].reach.l1, rel=1e-9)
        assert np.sqrt((change**2).sum()) == pytest.approx(with_it[name].reach.l2, rel=1e-9)
