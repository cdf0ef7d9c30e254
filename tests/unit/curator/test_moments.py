"""Sums of products under seal: exact values, matrices, charges and refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from understudy.curator import Curator, measure_numbers
from understudy.data import LocalTable
from understudy.errors import BudgetError, BudgetExceeded
from understudy.mechanisms.parametric.features import ONE, Feature, indicator, standardised
from understudy.mechanisms.parametric.look import MomentBlock, moment_noise, seal_moments
from understudy.privacy import Gaussian, Laplace, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE
from understudy.schema import Boolean, Categorical, Integer, Real, Schema

SCHEMA = Schema(
    [
        Real("height", minimum=0, maximum=8, bins=5),
        Integer("age", minimum=0, maximum=4, missing=True),
        Boolean("male"),
    ]
)
HEIGHT, AGE = standardised(SCHEMA.column("height")), standardised(SCHEMA.column("age"))
MALE = indicator("male", [1], 2)


def _curator(
    n: int = 200, *, unit: Unit | None = None, epsilon: float = 1.0
) -> tuple[Curator, dict[str, np.ndarray]]:
    generator = np.random.default_rng(5)
    codes = {
        name: generator.integers(0, SCHEMA.column(name).size, n).astype(np.uint8) for name in SCHEMA.names
    }
    unit = unit or Unit.add_remove()
    book = Ledger.in_memory(budget=PureDP(epsilon), unit=unit, table="t")
    return Curator(LocalTable(SCHEMA, codes), unit=unit, ledger=book, randomness=SeededRandomness(3)), codes


@pytest.mark.parametrize("n", [0, 1, 200, 70_000])
def test_sums_are_those_of_the_records(n: int) -> None:
    curator, codes = _curator(n)
    features = [ONE, HEIGHT.feature, AGE.feature, AGE.present, MALE]
    block = MomentBlock.second("all", features)
    numbers = np.stack([np.ones(n), *(item.values[codes[item.columns[0]]] for item in features[1:])], axis=1)
    (sealed,) = seal_moments(curator, [block])
    np.testing.assert_allclose(block.matrix(sealed._exact)[0], numbers.T @ numbers, atol=n * 2.0**-14)


def test_sums_within_cells_add_up_to_the_whole() -> None:
    curator, codes = _curator()
    inside = MomentBlock.second("cells", [ONE, HEIGHT.feature], within=("age", "male"))
    whole = MomentBlock.second("all", [ONE, HEIGHT.feature])
    cells, total = seal_moments(curator, [inside, whole])
    assert cells._exact.shape == (12, 3)
    assert (cells._exact.sum(axis=0) == total._exact[0]).all()
    counts = np.zeros((6, 2), dtype=np.int64)
    np.add.at(counts, (codes["age"], codes["male"]), 1)
    assert (cells._exact[:, 0].reshape(6, 2) == counts * 4**15).all()
    levels = MomentBlock(
        "l", (ONE,), ((0, 0),), within=("age",), labels={"age": np.array([0, 0, 0, 0, 0, 1])}
    )
    (merged,) = seal_moments(curator, [levels])
    assert (merged._exact[:, 0] == 4**15 * np.array([counts[:5].sum(), counts[5].sum()])).all()


def test_products_that_tell_nothing_new_are_left_out() -> None:
    block = MomentBlock.second("b", [ONE, AGE.feature, AGE.present, MALE])
    named = {tuple(block.features[i].name for i in pair) for pair in block.pairs}
    # present² is present, age times present is age, male² is male
    assert named == {
        ("1", "1"),
        ("1", "age"),
        ("1", "age present"),
        ("1", MALE.name),
        ("age", "age"),
        ("age", MALE.name),
        ("age present", MALE.name),
    }
    red, blue = indicator("male", [0], 2), indicator("male", [1], 2)
    pair = MomentBlock.second("p", [red, blue])
    assert pair.pairs == ((0, 0), (1, 1))
    assert pair.matrix([[3 * pair.unit, 4 * pair.unit]]).tolist() == [[[3.0, 0.0], [0.0, 4.0]]]
    assert np.isnan(MomentBlock("s", (ONE, AGE.feature), ((0, 1),)).matrix([[0.0]])[0, 1, 1])


def test_the_charge_is_the_sum_of_the_blocks_and_comes_first() -> None:
    curator, _ = _curator(epsilon=1.0)
    sealed = seal_moments(
        curator, [MomentBlock.second("one", [ONE, HEIGHT.feature]), MomentBlock.second("two", [ONE, MALE])]
    )
    noise = [Laplace(sealed[0].reach.l1 / 0.25), Laplace(sealed[1].reach.l1 / 0.5)]
    noisy = measure_numbers(curator, sealed, noise=noise, purpose="moments")
    assert curator.ledger.spent == pytest.approx(0.75)
    assert [item.scale for item in noisy] == [item.scale for item in noise]
    with pytest.raises(BudgetExceeded):
        measure_numbers(curator, sealed, noise=noise, purpose="again")
    assert curator.ledger.spent == pytest.approx(0.75)


@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=["add", "replace"])
@pytest.mark.parametrize(
    ("accounting", "cost"), [(PURE, 1e-9), (PURE, 2.0), (GDP_ACCOUNTING, 1e-18), (GDP_ACCOUNTING, 1.0)]
)
def test_noise_is_paid_for_and_the_grid_gets_coarser_with_it(unit, accounting, cost) -> None:  # type: ignore[no-untyped-def]
    block = MomentBlock.second("b", [ONE, HEIGHT.feature, AGE.feature])
    made, noise = moment_noise(block, SCHEMA.domain, unit, accounting, cost, rows_fixed=False)
    bounds = made.bounds(SCHEMA.domain, unit, rows_fixed=False)
    assert isinstance(noise, Laplace if accounting is PURE else Gaussian)
    assert noise.scale <= 2.0**40
    spent = bounds.l1 / noise.scale if accounting is PURE else (bounds.l2 / noise.scale) ** 2
    assert spent <= cost
    assert spent == pytest.approx(cost, rel=1e-6)
    assert (made.bits == 15) == (cost > 0.5)
    with pytest.raises(BudgetError, match="too small"):
        moment_noise(block, SCHEMA.domain, unit, accounting, 1e-30, rows_fixed=False)


def test_a_replaced_row_cannot_change_the_number_of_rows() -> None:
    curator, _ = _curator(unit=Unit.replace_one())
    assert curator.rows.fixed
    block = MomentBlock.second("b", [ONE, HEIGHT.feature])
    fixed = block.bounds(SCHEMA.domain, curator.unit, rows_fixed=True)
    free = block.bounds(SCHEMA.domain, curator.unit, rows_fixed=False)
    assert fixed.l1 / block.unit == pytest.approx(2 + 1)  # t from -1 to 1, t² from 0 to 1
    assert free.l1 / block.unit == pytest.approx(1 + 2 + 1)
    assert not _curator()[0].rows.fixed


def test_sealed_moments_stay_sealed() -> None:
    curator, _ = _curator()
    (sealed,) = seal_moments(curator, [MomentBlock.second("b", [ONE, HEIGHT.feature])])
    assert "b" in repr(sealed)
    assert str(int(sealed._exact[0, 0])) not in repr(sealed)
    for act in (np.asarray, bool, lambda x: x == x, pickle.dumps, hash):
        with pytest.raises(TypeError):
            act(sealed)


def test_refusals() -> None:
    with pytest.raises(BudgetError, match="between -1 and 1"):
        Feature("f", ("age",), np.array([0.0, 1.5]))
    with pytest.raises(BudgetError, match="between -1 and 1"):
        Feature("f", ("age",), np.array([0.0, np.nan]))
    with pytest.raises(BudgetError, match="one axis"):
        Feature("f", ("age",), np.zeros((2, 2)))
    with pytest.raises(BudgetError, match="bits"):
        MomentBlock("b", (ONE,), ((0, 0),), bits=16)
    with pytest.raises(BudgetError, match="pairs of places"):
        MomentBlock("b", (ONE,), ((0, 1),))
    wrong = MomentBlock("b", (ONE, Feature("f", ("age",), np.zeros(3))), ((0, 1),))
    with pytest.raises(BudgetError, match="does not fit"):
        wrong.bounds(SCHEMA.domain, Unit.add_remove(), rows_fixed=False)
    merged = MomentBlock("b", (ONE,), ((0, 0),), within=("age",), labels={"age": np.zeros(3, dtype=int)})
    with pytest.raises(BudgetError, match="levels of 'age'"):
        merged.bounds(SCHEMA.domain, Unit.add_remove(), rows_fixed=False)
    with pytest.raises(BudgetError, match="no range"):
        standardised(Categorical("c", values=["a", "b"]))
    curator, _ = _curator()
    sealed = seal_moments(curator, [MomentBlock.second("b", [ONE, HEIGHT.feature])])
    with pytest.raises(BudgetError, match="one noise per vector"):
        measure_numbers(curator, sealed, noise=[], purpose="p")
    assert measure_numbers(curator, [], noise=[], purpose="p") == []
    assert curator.ledger.spent == 0
