"""The unit's sensitivities, against neighbours made at random."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from understudy.errors import BudgetError, UsageError
from understudy.privacy import Unit

CELLS = 4


def neighbours(unit: Unit, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two histograms whose tables are neighbours under ``unit``; rows often share a cell."""
    base = generator.integers(0, 5, CELLS)

    def rows() -> np.ndarray:
        cells = generator.integers(0, 2 if generator.random() < 0.5 else CELLS, unit.max_rows)
        if generator.random() < 0.3:
            cells[:] = cells[0]
        kept = generator.integers(0, unit.max_rows + 1) if unit.id_column else unit.max_rows
        return np.bincount(cells[: max(kept, 1)], minlength=CELLS)

    mine, other = rows(), rows()
    return base + mine, base + other if unit.relation == "replace-one" else base


UNITS = [
    Unit.add_remove(),
    Unit.replace_one(),
    Unit.add_remove_person("id", max_rows=3),
    Unit.replace_person("id", max_rows=3),
    Unit.add_remove_person("id", max_rows=1),
]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.describe())
def test_histograms_move_by_at_most_what_the_unit_says_and_sometimes_by_exactly_that(unit, seed):
    generator = np.random.default_rng(seed)
    moves = [np.subtract(*neighbours(unit, generator)) for _ in range(3000)]
    l1 = max(np.abs(move).sum() for move in moves)
    l2 = max(math.sqrt(float((move**2).sum())) for move in moves)
    linf = max(np.abs(move).max() for move in moves)
    touched = max(np.count_nonzero(move) for move in moves)
    assert l1 == unit.histogram_l1
    assert linf == unit.histogram_linf
    assert touched <= unit.parts_touched
    # a sensitivity that is too small by one part in a thousand would be noticed
    assert unit.histogram_l2 * 0.999 < l2 <= unit.histogram_l2


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.describe())
def test_a_unit_that_keeps_rows_keeps_them_and_another_does_not(unit, seed):
    generator = np.random.default_rng(seed)
    changes = [int(np.subtract(*neighbours(unit, generator)).sum()) for _ in range(300)]
    assert unit.keeps_rows == (not any(changes))


def test_l2_of_replacement_is_rounded_up():
    for k in (1, 2, 3, 7, 1000, 12345):
        unit = Unit.replace_one() if k == 1 else Unit.replace_person("id", max_rows=k)
        from fractions import Fraction

        assert Fraction(unit.histogram_l2) ** 2 >= 2 * k * k
        assert Fraction(math.nextafter(unit.histogram_l2, 0)) ** 2 < 2 * k * k


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.describe())
def test_units_survive_a_dictionary(unit):
    assert Unit.from_dict(unit.to_dict()) == unit
    assert hash(Unit.from_dict(unit.to_dict())) == hash(unit)


def test_every_unit_describes_itself_differently():
    assert max(Counter(unit.describe() for unit in UNITS).values()) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Unit("add"),
        lambda: Unit("add-remove", 2),
        lambda: Unit("add-remove", 0, "id"),
        lambda: Unit("add-remove", -1, "id"),
        lambda: Unit("add-remove", 1.5, "id"),
        lambda: Unit("add-remove", True, "id"),
        lambda: Unit("add-remove", 1, ""),
        lambda: Unit("add-remove", 1, 7),
        lambda: Unit.from_dict({"max_rows": 1}),
        lambda: Unit.from_dict({"relation": "add-remove", "rows": 1}),
        lambda: Unit.from_dict(None),
    ],
)
def test_units_that_make_no_sense_are_refused(make):
    with pytest.raises(BudgetError):
        make()


def test_whole_numbers_from_numpy_are_welcome():
    assert Unit.add_remove_person("id", max_rows=np.int64(3)) == Unit.add_remove_person("id", max_rows=3)


@pytest.mark.parametrize("unit", UNITS, ids=Unit.describe)
def test_one_function_takes_a_unit_in_every_form(unit):
    assert Unit.of(unit) is unit
    assert Unit.of(unit.to_dict()) == unit
    if unit.id_column is None:
        assert Unit.of(unit.relation) == unit
    else:
        assert Unit.of(unit.relation, id_column=unit.id_column, max_rows=unit.max_rows) == unit


@pytest.mark.parametrize(
    ("given", "more", "words"),
    [
        (None, {}, r"Say who is protected \(--unit\)\. One row per person: add-remove"),
        ("add", {}, r"--unit \('add'\) must be add-remove or replace-one"),
        ("add-remove", {"id_column": "id"}, "--id-column and --max-rows go together"),
        ("add-remove", {"max_rows": 2}, "--id-column and --max-rows go together"),
        (Unit.add_remove(), {"id_column": "id"}, "go with a relation"),
    ],
)
def test_a_unit_that_is_not_clear_is_refused_in_the_words_of_the_caller(given, more, words):
    names = {"unit": "--unit", "id_column": "--id-column", "max_rows": "--max-rows"}
    with pytest.raises(UsageError, match=words):
        Unit.of(given, **more, names=names, error=UsageError)
    with pytest.raises(BudgetError):
        Unit.of(given, **more)
