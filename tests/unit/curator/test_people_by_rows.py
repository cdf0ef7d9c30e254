"""People counted by how many rows they have: each once, whatever they have; and cuts that go below what the unit allows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data import ArrowTable, Database, LocalTable, Table, read_table
from understudy.errors import BudgetError, DataError
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Schema

SCHEMA = Schema.parse("columns: [{name: ward, kind: categorical, values: [a, b, c]}]")
PEOPLE = st.dictionaries(
    st.integers(0, 30), st.lists(st.sampled_from("abc"), min_size=1, max_size=12), max_size=8
)
STARTS = st.sets(st.integers(2, 15), max_size=5).map(lambda rest: [1, *sorted(rest)])


def table_of(people: dict[int, list[str]], seed: int = 0) -> LocalTable:
    rows = [(who, "abc".index(ward)) for who, wards in people.items() for ward in wards]
    order = np.random.default_rng(seed).permutation(len(rows))
    who, ward = (np.array([row[place] for row in rows], np.int64)[order] for place in (0, 1))
    return LocalTable(SCHEMA, {"ward": ward}, persons={"who": who})


def curator_of(table: Table, unit: Unit, **more: Any) -> Curator:
    ledger = Ledger.in_memory(budget=PureDP(10.0), unit=unit, table="t")
    return Curator(table, unit=unit, ledger=ledger, **more)


@settings(deadline=None)
@given(
    people=PEOPLE,
    rows=st.lists(st.sampled_from("abc"), min_size=1, max_size=40),
    starts=STARTS,
    k=st.integers(1, 50),
)
def test_one_person_more_changes_one_bin_by_one_whatever_they_have(
    people: Any, rows: Any, starts: Any, k: Any
) -> None:
    people.pop(99, None)
    unit = Unit.add_remove_person("who", max_rows=k)
    before = curator_of(table_of(people), unit).people_by_rows(starts)
    after = curator_of(table_of({**people, 99: rows}, seed=1), unit).people_by_rows(starts)
    change = after._exact - before._exact
    assert np.abs(change).sum() == 1
    assert (before.l1, before.l2) == (1.0, 1.0)
    assert before._exact.sum() == len(people)


@settings(deadline=None)
@given(
    people=PEOPLE.filter(bool),
    rows=st.lists(st.sampled_from("abc"), min_size=1, max_size=40),
    starts=STARTS,
    k=st.integers(1, 50),
)
def test_another_person_in_the_place_of_one_changes_two_bins_at_most(
    people: Any, rows: Any, starts: Any, k: Any
) -> None:
    unit = Unit.replace_person("who", max_rows=k)
    other = {**people, next(iter(people)): rows}
    before = curator_of(table_of(people), unit).people_by_rows(starts)
    after = curator_of(table_of(other), unit).people_by_rows(starts)
    change = after._exact - before._exact
    assert np.abs(change).sum() <= before.l1
    assert np.sqrt((change**2).sum()) <= before.l2
    assert before.l1 <= 2
    assert before.l2 <= 1.4142135623730952


@settings(deadline=None, max_examples=8)
@given(people=PEOPLE, most=st.integers(1, 14))
def test_every_kind_of_table_counts_the_same_people(tmp_path_factory: Any, people: Any, most: Any) -> None:
    pytest.importorskip("duckdb")
    import duckdb

    folder: Path = tmp_path_factory.mktemp("people")
    rows = [(who, ward) for who, wards in people.items() for ward in wards]
    frame = pd.DataFrame(rows, columns=["who", "ward"]).astype({"who": "int64", "ward": "string"})
    expected = np.zeros(most, np.int64)
    for wards in people.values():
        expected[min(len(wards), most) - 1] += 1
    frame.to_parquet(folder / "t.parquet")
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    on_disk = ArrowTable(folder / "t.parquet", SCHEMA, id_column="who")
    assert on_disk.people_by_rows("who", most).tolist() == expected.tolist()
    for source in (frame, Database(url=str(folder / "t.duckdb"), table="t")):
        assert (
            read_table(source, SCHEMA, id_column="who").people_by_rows("who", most).tolist()
            == expected.tolist()
        )


@settings(deadline=None)
@given(people=PEOPLE, rows=st.lists(st.sampled_from("abc"), min_size=1, max_size=40), k=st.integers(1, 20))
def test_a_cut_below_the_unit_has_the_bounds_of_the_cut(people: Any, rows: Any, k: Any) -> None:
    people.pop(99, None)
    unit = Unit.add_remove_person("who", max_rows=20)
    curators = [curator_of(table_of(each), unit).cut_to(k) for each in (people, {**people, 99: rows})]
    sealed = [curator.counts(("ward",)) for curator in curators]
    assert sealed[0].l1 == k == curators[0].unit.max_rows
    # whichever rows are kept, nobody has more than k
    assert sealed[1]._exact.sum() - sealed[0]._exact.sum() == min(k, len(rows))
    assert sealed[0]._exact.sum() == sum(min(k, len(wards)) for wards in people.values())


def test_with_the_same_key_all_others_keep_their_rows() -> None:
    rng = np.random.default_rng(0)
    ward, who = rng.integers(0, 3, 200), rng.integers(0, 20, 200)
    fewer = LocalTable(SCHEMA, {"ward": ward}, persons={"who": who})
    more = LocalTable(
        SCHEMA, {"ward": [*ward, *rng.integers(0, 3, 30)]}, persons={"who": [*who, *([99] * 30)]}
    )
    key = rng.bytes(32)
    change = more.truncated("who", 2, key).count(("ward",)) - fewer.truncated("who", 2, key).count(("ward",))
    assert (change >= 0).all()
    assert change.sum() == 2


def test_what_cannot_be_asked_is_refused() -> None:
    people = {1: ["a"], 2: ["b", "c"]}
    rows = curator_of(table_of(people), Unit.add_remove())
    with pytest.raises(BudgetError, match="unit is a person"):
        rows.people_by_rows([1])
    with pytest.raises(BudgetError, match="unit is a person"):
        rows.cut_to(1)
    persons_ = curator_of(table_of(people), Unit.add_remove_person("who", max_rows=3))
    for starts in ([], [2, 3], [1, 1], [1, 3, 2], [0, 1]):
        with pytest.raises(BudgetError, match="begin at 1"):
            persons_.people_by_rows(starts)
    wrong: tuple[Any, ...] = (0, 4, True, 1.5, "2")
    for most in wrong:
        with pytest.raises(BudgetError, match="from 1 to 3"):
            persons_.cut_to(most)
    with pytest.raises(DataError, match="id column"):
        LocalTable(SCHEMA, {"ward": [0]}).people_by_rows("who", 3)
    assert rows.spent == persons_.spent == 0


def test_a_cut_to_one_row_states_the_number_of_people_where_the_relation_fixes_it() -> None:
    unit = Unit.replace_person("who", max_rows=3)
    curator = curator_of(table_of({1: ["a"], 2: ["b", "c"]}), unit, randomness=SeededRandomness(1))
    assert curator.rows.number is None
    cut = curator.cut_to(1)
    assert cut.unit == replace(unit, max_rows=1)
    assert cut.rows.number == 2
    assert cut.ledger.guarantee().invariants
