"""Made-up records of any schema: they obey it, repeat, and depend on one another as strongly as asked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from understudy import datasets
from understudy.datasets.schema_tables import simulated_codes
from understudy.errors import DataError
from understudy.schema import Boolean, Integer, Schema

SCHEMA = Schema(
    columns=tuple(Integer(f"c{i}", minimum=0, maximum=size - 1) for i, size in enumerate((2, 5, 9, 30, 3, 2)))
)


def distance_from_independence(codes: dict[str, np.ndarray]) -> float:
    """Mean total variation of pairs from the product of their columns."""
    found = []
    for a, b in itertools.combinations(codes, 2):
        joint, _, _ = np.histogram2d(codes[a], codes[b], bins=(codes[a].max() + 1, codes[b].max() + 1))
        joint /= joint.sum()
        found.append(np.abs(joint - np.outer(joint.sum(1), joint.sum(0))).sum() / 2)
    return float(np.mean(found))


def test_records_are_of_the_schema_and_repeat() -> None:
    codes = simulated_codes(SCHEMA, 2_000, seed=3)
    again, other = simulated_codes(SCHEMA, 2_000, seed=3), simulated_codes(SCHEMA, 2_000, seed=4)
    assert list(codes) == list(SCHEMA.names)
    for column in SCHEMA.columns:
        assert len(codes[column.name]) == 2_000
        assert 0 <= codes[column.name].min() <= codes[column.name].max() < column.size
    assert all((codes[name] == again[name]).all() for name in codes)
    assert any((codes[name] != other[name]).any() for name in codes)


def test_dependence_is_as_strong_as_asked() -> None:
    """Seeded, so it alarms always or never; a strength that is ignored gives three equal numbers."""
    means = [
        np.mean(
            [
                distance_from_independence(simulated_codes(SCHEMA, 20_000, dependence=d, seed=s))
                for s in range(4)
            ]
        )
        for d in (0.0, 0.6, 1.6)
    ]
    assert means[0] < 0.01
    assert means[1] > 3 * means[0]
    assert means[2] > 1.4 * means[1]


def test_rules_are_kept_and_rejected_rows_are_made_up_for() -> None:
    for name in ("births", "toy"):
        given = datasets.load(name, 10, seed=1)[1]
        codes = simulated_codes(given, 500, seed=1)
        assert given.holds_codes(codes).all()
        assert {len(column) for column in codes.values()} == {500}
    rare = Schema(
        columns=(Integer("a", minimum=0, maximum=99), Integer("b", minimum=0, maximum=99)),
        constraints=("a == b",),
    )
    codes = simulated_codes(rare, 20_000, seed=1)
    assert (codes["a"] == codes["b"]).all()
    assert len(codes["a"]) == 20_000


def test_rules_that_leave_nothing_are_an_error() -> None:
    schema = Schema(columns=(Boolean("a"), Boolean("b")), constraints=("a", "not a or b", "not b"))
    with pytest.raises(DataError, match="No made-up record obeys the rules"):
        simulated_codes(schema, 100)


def test_columns_with_many_values_do_not_fill_the_memory() -> None:
    wide = Schema(columns=(Integer("a", minimum=0, maximum=20_000), Integer("b", minimum=0, maximum=20_000)))
    codes = simulated_codes(wide, 1_000)
    assert codes["a"].max() < 20_001
    assert simulated_codes(wide, 0)["a"].size == 0
