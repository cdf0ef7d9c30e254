"""Values that a spreadsheet takes for formulas are found, and nothing else is."""

from __future__ import annotations

import pytest

from understudy.schema import Column, Schema
from understudy.schema.spreadsheets import formula_values, formula_warnings


def column(label: str, kind: str = "categorical") -> Column:
    return Schema.from_dict({"columns": [{"name": "a", "kind": kind, "values": [label, "other"]}]}).columns[0]


@pytest.mark.parametrize(
    "label",
    [
        "=cmd|' /C calc'!A0", "=1+1", "+1+1", "-1+1", "@SUM(A1:A2)", "-2-3", "=", "＝1+1", "x;=1+1", "-10--5",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["categorical", "ordinal"])
def test_formulas_are_found(label: str, kind: str) -> None:
    assert formula_values(column(label, kind)) == (label,)


@pytest.mark.parametrize(
    "label", ["-5", "+49", "-0.5", "-1e-3", "-", "+", "a=b", "a+b", "x@y", "<30", "2-3", "44<"]
)
def test_numbers_and_ordinary_words_are_not(label: str) -> None:
    assert formula_values(column(label)) == ()


def test_numbers_and_dates_are_written_as_such() -> None:
    text = """
columns:
  - {name: a, kind: integer, minimum: -9, maximum: 9}
  - {name: b, kind: real, minimum: -1, maximum: 1, bins: 4}
  - {name: c, kind: integer, bins: {edges: [-10, -5, 0]}, decode_by: label}
  - {name: "=d", kind: boolean}
"""
    described = Schema.parse(text)
    found = {item.name: formula_values(item) for item in described.columns}
    assert found["a"] == found["b"] == ()
    assert found["=d"] == ("=d",), "the name stands in the first line of the file"
    assert all(label in found["c"] for label in described.column("c").labels if label.startswith("-"))
    assert [warning.split("'")[1] for warning in formula_warnings(described)] == [
        name for name, values in found.items() if values
    ]
