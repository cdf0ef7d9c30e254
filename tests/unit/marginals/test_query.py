"""Linear queries: what they answer, how they are written down, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.errors import DomainTooLarge, WorkloadError
from understudy.marginals import (
    Predicate,
    Query,
    box,
    cells_of_marginal,
    halfspace,
    interval,
    linear,
    prefix,
    read_queries,
)
from understudy.schema import Domain, Schema

DOMAIN = Domain(("a", "b", "c"), (4, 3, 2))
SCHEMA = Schema.parse(
    """
columns:
  - {name: a, kind: integer, minimum: 0, maximum: 3}
  - {name: b, kind: ordinal, values: [low, middle, high]}
  - {name: c, kind: boolean}
"""
)


def test_answers_are_sums_of_values() -> None:
    counts = np.arange(12).reshape(4, 3)
    query = linear(DOMAIN, ["b", "a"], np.arange(12).reshape(3, 4) / 11)
    expected = sum(counts[i, j] * (4 * j + i) / 11 for i in range(4) for j in range(3))
    assert query.clique == ("a", "b")
    assert query.answer(counts) == pytest.approx(expected, rel=1e-5)
    assert not query.counting
    assert (query.steps == np.round(query.values * 2**20)).all()
    assert interval(DOMAIN, {"a": (1, 2)}).answer([1, 2, 4, 8]) == 6
    assert box(DOMAIN, {"a": [0]}).counting


def test_values_are_on_the_grid_and_read_only() -> None:
    query = Query(("a",), np.array([0.1, 1 / 3, 0.0, 1.0]))
    assert (query.values * 2**20 == np.round(query.values * 2**20)).all()
    np.testing.assert_allclose(query.values, [0.1, 1 / 3, 0, 1], atol=2**-21)
    with pytest.raises(ValueError, match="read-only"):
        query.values[0] = 1.0


@pytest.mark.parametrize("bad", [[-0.1, 0, 0, 0], [0, 0, 0, 1.5], [np.nan, 0, 0, 0], [np.inf, 0, 0, 0]])
def test_values_outside_the_unit_interval_are_refused(bad: list[float]) -> None:
    """A record that answers 1.5 would move an answer by more than the sensitivity that is charged."""
    with pytest.raises(WorkloadError, match="between 0 and 1"):
        Query(("a",), np.array(bad))


def test_cells_of_a_marginal_are_a_partition() -> None:
    cells = cells_of_marginal(DOMAIN, ["c", "a"])
    assert np.sum([query.values for query in cells], axis=0).tolist() == np.ones((4, 2)).tolist()
    with pytest.raises(DomainTooLarge, match="as a whole"):
        cells_of_marginal(Domain(("x", "y"), (100, 100)), ["x", "y"])


def test_descriptions_become_queries(tmp_path: Path) -> None:
    told: list[Any] = [
        {"range": {"b": ["middle", "high"], "a": [1, 1]}},
        {"prefix": {"a": 2}},
        {"box": {"c": [True], "b": "low"}},
        {"halfspace": {"weights": {"a": 1, "c": 2}, "at_least": 3}},
        {"linear": {"columns": ["b"], "values": [0, 0.5, 1]}},
        {"marginal": ["c"]},
        {"prefixes": "b"},
        {"ranges": "b"},
        prefix(DOMAIN, "a", 0),
    ]
    queries = read_queries(SCHEMA, told)
    assert len(queries) == 5 + 2 + 2 + 5 + 1
    assert queries[0].values.sum() == 2
    assert queries[0].values[1].tolist() == [0, 1, 1]
    assert (queries[3].values == halfspace(DOMAIN, {"a": 1.0, "c": 2.0}, 3.0).values).all()
    assert [query.values.tolist() for query in queries[7:9]] == [[1, 0, 0], [1, 1, 0]]
    (tmp_path / "q.json").write_text(json.dumps(told[:-1]))
    (tmp_path / "q.yaml").write_text("queries:\n- prefix: {a: 2}\n")
    assert len(read_queries(SCHEMA, str(tmp_path / "q.json"))) == len(queries) - 1
    assert len(read_queries(SCHEMA, tmp_path / "q.yaml")) == 1
    plain = [query.to_plain() for query in queries]
    again = read_queries(SCHEMA, plain)
    assert all(
        (x.values == y.values).all() and x.clique == y.clique for x, y in zip(queries, again, strict=True)
    )


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ([], "no query"),
        ([{"box": {"a": [9]}}], "codes of 'a' run from 0 to 3"),
        ([{"box": {"b": ["tall"]}}], "no code 'tall'"),
        ([{"range": {"a": [2, 1]}}], "first and a last"),
        ([{"range": {"a": [1]}}], "first and a last"),
        ([{"prefix": {"nothing": 1}}], "nothing"),
        ([{"halfspace": {"weights": {"a": 1}}}], "exactly the keys"),
        ([{"linear": {"columns": ["a"], "values": [0, 1]}}], "shape"),
        ([{"linear": {"columns": ["b"], "values": [0, 1, 2]}}], "between 0 and 1"),
        ([{"circle": {}}], "no such form"),
        ([{"box": 3}], "cannot be understood"),
        ([{"box": {}, "range": {}}], "exactly one key"),
        (["a"], "exactly one key"),
        ("/nonexistent/queries.yaml", "cannot be read"),
    ],
)
def test_descriptions_that_make_no_sense(bad: object, reason: str) -> None:
    with pytest.raises(WorkloadError, match=reason):
        read_queries(SCHEMA, bad)  # type: ignore[arg-type]


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    for text, reason in (("a: 1\n", "must hold a list"), ("{", "Not well-formed YAML")):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(WorkloadError, match=reason):
            read_queries(SCHEMA, tmp_path / "bad.yaml")


def test_a_query_over_too_many_columns_is_refused_before_it_is_built() -> None:
    wide = Domain(tuple("abcdefgh"), (50,) * 8)
    with pytest.raises(DomainTooLarge, match="coarser"):
        halfspace(wide, dict.fromkeys(wide.names, 1.0), 10.0)
    assert isinstance(prefix(wide, "a", 3), Predicate)
