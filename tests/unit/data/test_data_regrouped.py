"""Tables in groups of values: every back end gives the same codes, and neighbours stay neighbours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from understudy.data import ArrowTable, Database, LocalTable, SqlTable, Table, read_table
from understudy.data.prepare import reading_facts
from understudy.data.regrouped import RegroupedTable, regrouped
from understudy.errors import DataError
from understudy.schema import Categorical, Schema

VALUES = [f"{letter}{number:02d}" for letter in "ABCD" for number in range(10)]
OPEN = Schema.parse(
    f"""
columns:
  - {{name: code, kind: categorical, values: [{", ".join(VALUES)}], levels: {{prefix: [1, 2]}}, missing: true, out_of_domain: to-other}}
  - {{name: number, kind: categorical, values: [1, 2, "03", 4.5], levels: {{groups: {{low: [1, 2], high: ["03", 4.5]}}, at: 1}}}}
  - {{name: sex, kind: categorical, values: [f, m]}}
"""
)
GENERATOR = np.random.default_rng(7)
GROUPS = [place // 4 if place < 20 else 5 + (place % 3) for place in range(40)]
CUT = OPEN.with_columns(
    [
        Categorical(
            "code",
            values=VALUES,
            levels={"prefix": [1, 2], "cut": GROUPS, "weights": GENERATOR.random(40).tolist()},
            missing=True,
            out_of_domain="to-other",
        )
    ]
)
FRAME = pd.DataFrame(
    {
        "code": GENERATOR.choice([*VALUES, "", "Z9"], 500),
        "number": GENERATOR.choice(["1", "2", "2.0", "03", "4.5"], 500),
        "sex": GENERATOR.choice(["f", "m"], 500),
        "person": GENERATOR.integers(0, 200, 500).astype(str),
    }
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The same records as a frame, a stream of a CSV file, a Parquet file, and tables of two databases."""
    duckdb = pytest.importorskip("duckdb")
    folder: Path = tmp_path_factory.mktemp("regrouped")
    FRAME.to_csv(folder / "t.csv", index=False)
    FRAME.replace({"code": {"": None}}).to_parquet(folder / "t.parquet")
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT nullif(code, '') AS code, number, sex, person FROM read_csv(?, all_varchar = true)",
            [str(folder / "t.csv")],
        )
    return {
        "frame": FRAME,
        "csv": folder / "t.csv",
        "parquet": folder / "t.parquet",
        "duckdb": Database(url=str(folder / "t.duckdb"), table="t"),
    }


def opened(sources: dict[str, object], kind: str, schema: Schema) -> Table:
    if kind == "stream":
        return ArrowTable(sources["parquet"], schema)
    if kind == "csv stream":
        table = read_table(sources["csv"], schema, max_memory_mb=0)
        assert isinstance(table, ArrowTable)
        return table
    if kind == "unheld":  # counts come from queries, not from records in memory
        table = SqlTable(sources["duckdb"], schema, max_memory_mb=0)
        table._held = None
        return table
    return read_table(sources[kind], schema)


KINDS = ["frame", "csv", "parquet", "stream", "csv stream", "duckdb", "unheld"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_back_end_agrees_whether_read_in_groups_or_regrouped(
    sources: dict[str, object], kind: str
) -> None:
    expected = {name: CUT.column(name).encode(FRAME[name]) for name in CUT.names}
    wanted = LocalTable(CUT, expected)
    read = opened(sources, kind, CUT)
    made = regrouped(opened(sources, kind, OPEN), CUT)
    assert isinstance(made, LocalTable | RegroupedTable)
    cliques = [(), ("code",), ("sex", "code"), ("code", "number", "sex"), ("number",)]
    for table in (read, made):
        assert table.schema is CUT
        assert table.exact_row_count() == 500
        for found, right in zip(table.count_many(cliques), wanted.count_many(cliques), strict=True):
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, right)
        for found, right in zip(
            table.distinct(("sex", "code")), wanted.distinct(("sex", "code")), strict=True
        ):
            np.testing.assert_array_equal(found, right)
        rows = np.concatenate(
            [
                np.stack([chunk["code"], chunk["sex"]], axis=1)
                for chunk in table.chunks(("code", "sex"), rows=64)
            ]
        )
        right = np.stack([expected["code"], expected["sex"]], axis=1)
        np.testing.assert_array_equal(np.unique(rows, axis=0), np.unique(right, axis=0))
        assert len(rows) == 500
        assert "500" not in repr(table)


def test_large_marginals_are_counted_in_groups(
    sources: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.data.regrouped._COUNTED_FINE", 50)
    made = regrouped(ArrowTable(sources["parquet"], OPEN), CUT)
    wanted = read_table(FRAME, CUT)
    for clique in (("code", "sex"), ("sex", "code"), ("sex",)):
        np.testing.assert_array_equal(made.count(clique), wanted.count(clique))


@pytest.mark.parametrize("kind", ["frame", "stream"])
def test_persons_are_cut_off_alike_before_and_after(sources: dict[str, object], kind: str) -> None:
    table = (
        read_table(FRAME, OPEN, id_column="person")
        if kind == "frame"
        else ArrowTable(sources["parquet"], OPEN, id_column="person")
    )
    key = np.random.default_rng(1).bytes(32)
    before = regrouped(table.truncated("person", 2, key), CUT)
    after = regrouped(table, CUT).truncated("person", 2, key)
    np.testing.assert_array_equal(before.count(("code", "sex")), after.count(("code", "sex")))
    assert before.exact_row_count() < 500


def test_tables_that_differ_in_k_records_differ_in_at_most_k_in_groups() -> None:
    """The claim of `Curator.regrouped`, on 300 random pairs, also with all values in one group or each in its own."""
    generator = np.random.default_rng(5)
    for trial in range(300):
        numbers = {0: np.zeros(40, int), 1: np.arange(40)}.get(trial % 10, generator.integers(0, 6, 40))
        known: dict[int, int] = {}
        groups = [known.setdefault(int(number), len(known)) for number in numbers]
        column = OPEN.column("code")
        assert isinstance(column, Categorical)
        levels = {"prefix": [1], "cut": groups, "weights": generator.random(40).tolist()}
        schema = OPEN.with_columns(
            [Categorical("code", values=VALUES, levels=levels, missing=True, out_of_domain="to-other")]
        )
        rest = _codes(generator, int(generator.integers(0, 20)))
        k = int(generator.integers(1, 4))
        one = _codes(generator, k)
        first = LocalTable(OPEN, rest)
        second = LocalTable(OPEN, {name: np.concatenate([rest[name], one[name]]) for name in rest})
        cells = [regrouped(table, schema).count(("code", "number", "sex")) for table in (first, second)]
        assert np.abs(cells[1] - cells[0]).sum() == k


def _codes(generator: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    return {
        name: generator.integers(0, size, rows)
        for name, size in zip(OPEN.names, OPEN.domain.sizes, strict=True)
    }


def test_a_table_is_not_regrouped_by_another_schema() -> None:
    table = read_table(FRAME, OPEN)
    with pytest.raises(DataError, match="same columns"):
        regrouped(table, OPEN.select(["sex"]))
    other = OPEN.with_columns([Categorical("sex", values=["f", "m", "x"])])
    with pytest.raises(DataError, match="'sex' is not a grouping"):
        regrouped(table, other)


def test_levels_are_a_fact_about_reading_only_where_values_share_codes() -> None:
    def facts(levels: str) -> object:
        text = f"columns: [{{name: a, kind: categorical, values: [x1, x2, y1]{levels}}}]"
        return reading_facts(Schema.parse(text))

    assert facts("") == facts(", levels: {prefix: [1]}") == facts(", levels: {prefix: [1], share: 0.2}")
    assert facts("") != facts(", levels: {prefix: [1], at: 1}")
    assert facts(", levels: {prefix: [1], at: 1}") == facts(
        ", levels: {groups: {x: [x1, x2], y: [y1]}, at: 1}"
    )
