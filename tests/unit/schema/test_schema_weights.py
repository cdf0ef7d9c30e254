"""Survey weights: one more column with public bins, in which every entry has a code."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import SchemaError
from understudy.privacy import Ledger, PureDP, Unit
from understudy.schema import Schema
from understudy.schema.weights import MOST_BINS, Weight

SCHEMA = Schema.parse(
    """
columns:
  - {name: sex, kind: categorical, values: [f, m]}
  - {name: works, kind: boolean}
weight: {column: w, cap: 25, lowest: 1}
"""
)
ENTRIES = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.integers(-(10**30), 10**30).map(str),
    st.text(st.characters(codec="utf-8", exclude_characters='",\r\n\x00'), max_size=8),
    st.sampled_from(["", "NA", "-0", "25", "24.999999999", "1e400", "-1e400", "1,5", " 3 ", "0x10", "١"]),
)
ROWS = st.lists(st.tuples(st.sampled_from("fm"), st.booleans(), ENTRIES), max_size=12)


def frame_of(rows: list[tuple[str, bool, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["sex", "works", "w"]).astype({"w": object})


def test_the_weight_column_is_added_and_written_as_its_section() -> None:
    assert SCHEMA.names == ("sex", "works", "w")
    assert SCHEMA.to_dict()["weight"] == {"column": "w", "cap": 25.0, "lowest": 1.0}
    assert [column["name"] for column in SCHEMA.to_dict()["columns"]] == ["sex", "works"]
    again = Schema.from_dict(SCHEMA.to_dict())
    assert again == SCHEMA
    assert again.fingerprint() == SCHEMA.fingerprint()
    first = replace(SCHEMA, columns=SCHEMA.columns[::-1])  # a place of its own is kept
    assert Schema.from_dict(first.to_dict()).names == ("w", "works", "sex")
    assert SCHEMA.select(["sex"]).weight is None
    assert Schema.from_dict(SCHEMA.select(["w"]).to_dict()) == SCHEMA.select(["w"])


def test_schemas_without_weights_are_what_they_were() -> None:
    plain = SCHEMA.select(["sex", "works"])
    assert "weight" not in plain.to_dict()
    assert plain.fingerprint() != SCHEMA.fingerprint()
    # as 0.1.0 computed it
    assert plain.fingerprint() == Schema(plain.columns).fingerprint()


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("{column: w}", "the keys column and cap"),
        ("{column: w, cap: 0}", "weight.cap"),
        ("{column: w, cap: .inf}", "weight.cap"),
        ("{column: w, cap: true}", "weight.cap"),
        ("{column: w, cap: 3, lowest: 3}", "weight.lowest"),
        ("{column: w, cap: 3, bins: 0}", "weight.bins"),
        ("{column: w, cap: 1.0000001, lowest: 1, bins: 90}", "fewer"),
        ("{column: '', cap: 3}", "weight.column"),
        ("{column: sex, cap: 3}", "also declared among columns"),
        ("{column: w, kap: 3, cap: 3}", "Did you mean 'cap'"),
        ("[w, 3]", "the keys column and cap"),
    ],
)
def test_what_is_wrong_with_a_section_is_said(section: Any, words: Any) -> None:
    with pytest.raises(SchemaError, match=words):
        Schema.parse(f"columns: [{{name: sex, kind: boolean}}]\nweight: {section}")


@given(
    cap=st.floats(1e-300, 1e12, allow_nan=False),
    share=st.one_of(st.none(), st.floats(1e-8, 0.999)),
    bins=st.integers(1, MOST_BINS),
)
def test_bins_ascend_from_nothing_to_the_cap_or_are_refused(cap: Any, share: Any, bins: Any) -> None:
    weight, wrong = Weight.from_plain(
        Weight("w", cap, lowest=None if share is None else share * cap, bins=bins)
    )
    if weight is None:
        assert wrong
        return
    assert weight.edges[0] == 0
    assert weight.edges[-1] == cap
    assert all(math.isfinite(edge) for edge in weight.edges)
    column = weight.as_column
    assert column.size == bins + 3
    # the cap and all above it share the last bin, and a synthetic weight of it is the cap
    assert set(column.encode(np.array([cap, 2 * cap])).tolist()) == {bins + 1}
    drawn = column.decode(np.full(3, bins + 1), np.random.default_rng(0), counts=np.ones(column.size))
    assert (drawn == cap).all()


def test_weights_that_stand_for_nobody_are_missing_and_large_ones_are_the_cap() -> None:
    column = SCHEMA.column("w")
    found = column.encode(np.array([-1.0, np.nan, np.inf, -np.inf, 0.0, 0.5, 25.0, 1e300]))
    absent, top = column.size - 1, column.size - 2
    assert found.tolist() == [absent, absent, absent, absent, 0, 0, top, top]


@settings(deadline=None, max_examples=60)
@given(rows=ROWS)
def test_no_table_is_refused_for_its_weights(tmp_path_factory: Any, rows: Any) -> None:
    """From frames and from files: whatever the entries are, reading ends in the same way."""
    frame = frame_of(rows)
    read = read_table(frame, SCHEMA)
    assert read.exact_row_count() == len(rows)
    path = tmp_path_factory.mktemp("weights") / "t.csv"
    frame.to_csv(path, index=False)
    assert read_table(path, SCHEMA).exact_row_count() == len(rows)


@settings(deadline=None, max_examples=60)
@given(rows=ROWS, extra=st.tuples(st.sampled_from("fm"), st.booleans(), ENTRIES), place=st.integers(0, 12))
def test_one_row_more_changes_every_marginal_by_one_whatever_its_weight(
    rows: Any, extra: Any, place: Any
) -> None:
    place = min(place, len(rows))
    more = [*rows[:place], extra, *rows[place:]]
    cliques = [("w",), ("sex", "w"), ("sex", "works", "w")]
    for before, after in zip(
        read_table(frame_of(rows), SCHEMA).count_many(cliques),
        read_table(frame_of(more), SCHEMA).count_many(cliques),
        strict=True,
    ):
        assert np.abs(after - before).sum() == 1
    unit = Unit.add_remove()
    curator = Curator(
        read_table(frame_of(more), SCHEMA),
        unit=unit,
        ledger=Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t"),
    )
    assert curator.counts(("sex", "w")).l1 == 1


@settings(deadline=None, max_examples=60)
@given(rows=ROWS.filter(bool), other=st.tuples(st.sampled_from("fm"), st.booleans(), ENTRIES))
def test_another_row_in_its_place_changes_every_marginal_by_two_at_most(rows: Any, other: Any) -> None:
    replaced = [other, *rows[1:]]
    cliques = [("w",), ("sex", "works", "w")]
    for before, after in zip(
        read_table(frame_of(rows), SCHEMA).count_many(cliques),
        read_table(frame_of(replaced), SCHEMA).count_many(cliques),
        strict=True,
    ):
        change = after - before
        assert np.abs(change).sum() <= 2
        assert (change**2).sum() <= 2
