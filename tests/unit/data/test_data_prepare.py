"""Derived columns and cleaning rules: record by record, the same from every kind of source."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

from understudy.curator import Curator
from understudy.data import Derived, Preparation, read_table
from understudy.errors import DataError
from understudy.privacy import Laplace, Ledger, PureDP, Unit
from understudy.privacy.rows import PublicRows
from understudy.release.look import seal_numbers
from understudy.schema import Categorical, Constraint, Integer, Schema

SCHEMA = Schema(
    [
        Integer("month", minimum=1, maximum=12),
        Categorical("sex", values=("M", "F")),
        Integer("weight", bins=["<1500", "1500-2999", "2999<"]),
    ]
)
DERIVED = (
    Derived(name="month", source="born", part="month"),
    Derived(name="sex", source="is_female", values=(("True", "F"), ("False", "M"))),
)
RULES = tuple(
    Constraint.parse(text, SCHEMA)
    for text in ("weight >= 500", "weight <= 5500 or month == 12", "sex is not missing")
)
PREPARATION = Preparation(derived=DERIVED, rules=RULES)
FRAME = pd.DataFrame(
    {
        "born": ["2019-01-15", "2019-12-01", "2019-12-31", "2018-03-02", "2019-05-05"],
        "is_female": [True, False, True, False, True],
        "weight": [3000, 9000, 400, 1500, 9000],
    }
)
EXPECTED = [(1, "F", 2), (12, "M", 2), (3, "M", 1)]  # month, sex, bin of the weight


def _rows(table: Any) -> list[tuple[int, str, int]]:
    columns = next(iter(table.chunks()))
    return [
        (int(m) + 1, "MF"[int(s)], int(w))
        for m, s, w in zip(columns["month"], columns["sex"], columns["weight"], strict=True)
    ]


def _sources(folder: Path) -> dict[str, Any]:
    FRAME.to_csv(folder / "t.csv", index=False)
    FRAME.to_csv(folder / "t.csv.gz", index=False)
    FRAME.to_parquet(folder / "t.parquet", index=False)
    typed = FRAME.assign(born=pd.to_datetime(FRAME["born"]))
    return {
        "csv": folder / "t.csv",
        "gzip": str(folder / "t.csv.gz"),
        "parquet": folder / "t.parquet",
        "pandas": FRAME,
        "pandas with dates": typed,
        "polars": polars.from_pandas(FRAME),
        "lazy polars": polars.from_pandas(FRAME).lazy(),
        "arrow": pa.Table.from_pandas(typed, preserve_index=False),
        "batch": pa.RecordBatch.from_pandas(FRAME, preserve_index=False),
        "list of files": [folder / "t.parquet"],
    }


@pytest.mark.parametrize("kind", ["csv", "gzip", "parquet", "pandas"])
def test_files_and_frames_are_prepared_alike(kind: str, tmp_path: Path) -> None:
    table = read_table(_sources(tmp_path)[kind], SCHEMA, prepare=PREPARATION)
    assert _rows(table) == EXPECTED
    assert table.filtered  # type: ignore[attr-defined]


def test_every_source_in_memory_is_prepared_alike(tmp_path: Path) -> None:
    for kind, source in _sources(tmp_path).items():
        assert _rows(read_table(source, SCHEMA, prepare=PREPARATION)) == EXPECTED, kind


def test_a_file_beyond_the_memory_limit_is_prepared_too(tmp_path: Path) -> None:
    table = read_table(_sources(tmp_path)["csv"], SCHEMA, prepare=PREPARATION, max_memory_mb=0)
    assert type(table).__name__ == "ArrowTable"
    assert table.exact_row_count() == 3
    assert table.count(("sex",)).tolist() == [2, 1]
    assert table.filtered  # type: ignore[attr-defined]


def test_a_column_the_source_has_is_not_derived() -> None:
    frame = FRAME.assign(sex=["M"] * 5)
    table = read_table(frame, SCHEMA, prepare=PREPARATION)
    assert [sex for _, sex, _ in _rows(table)] == ["M", "M", "M"]


def test_persons_are_cut_after_cleaning() -> None:
    frame = FRAME.assign(person=["a", "a", "a", "b", "b"])
    table = read_table(frame, SCHEMA, id_column="person", prepare=PREPARATION)
    cut = table.truncated("person", 1, bytes(32))
    assert (cut.exact_row_count(), cut.filtered) == (2, True)  # type: ignore[attr-defined]


def test_records_that_are_left_out_need_not_fit_the_schema() -> None:
    frame = FRAME.assign(is_female=["True", "False", "True", "False", "unknown"])
    with pytest.raises(DataError, match="sex"):
        read_table(frame, SCHEMA, prepare=Preparation(derived=DERIVED))
    assert _rows(read_table(frame, SCHEMA, prepare=PREPARATION)) == EXPECTED


def test_without_rules_the_number_of_rows_stays_fixed_by_the_relation() -> None:
    table = read_table(FRAME, SCHEMA, prepare=Preparation(derived=DERIVED))
    assert not table.filtered  # type: ignore[attr-defined]
    assert _curator(table).rows.number == 5


def test_a_missing_source_column_is_named() -> None:
    with pytest.raises(DataError, match="'born'"):
        read_table(FRAME.drop(columns="born"), SCHEMA, prepare=PREPARATION)


def test_no_error_shows_a_value(tmp_path: Path) -> None:
    frame = FRAME.assign(weight=["zzcanaryzz"] * 5)
    for source in (frame, pa.Table.from_pandas(frame, preserve_index=False)):
        with pytest.raises(DataError) as caught:
            read_table(source, SCHEMA, prepare=PREPARATION)
        assert "zzcanaryzz" not in str(caught.value)
    with pytest.raises(DataError, match="cannot be prepared from an object of type 'int'"):
        read_table(3, SCHEMA, prepare=PREPARATION)


@pytest.mark.parametrize(
    ("entry", "part", "value"),
    [
        ("2019-03-15", "month", 3),
        ("2019-03-15T10:00:00", "year", 2019),
        (dt.date(2019, 8, 1), "quarter", 3),
        (pd.Timestamp("2019-08-04"), "weekday", 7),
        (np.datetime64("2019-08-05"), "weekday", 1),
        ("15/03/2019", "month", None),
        (None, "month", None),
        (20190315, "month", None),
    ],
)
def test_parts_of_dates(entry: Any, part: Any, value: int | None) -> None:
    assert Derived(name="x", source="y", part=part).of(entry) == value


def test_a_derived_column_needs_one_recipe() -> None:
    for recipe in ({}, {"part": "month", "values": (("a", "b"),)}, {"part": "minute"}):
        with pytest.raises(DataError, match="derived column 'x'"):
            Derived(name="x", source="y", **recipe)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- what the curator makes of it


def _curator(table: Any, **options: Any) -> Curator:
    unit = Unit.replace_one()
    return Curator(table, unit=unit, ledger=Ledger.in_memory(budget=PureDP(9.0), unit=unit), **options)


def test_the_number_of_rows_after_cleaning_is_no_public_fact() -> None:
    """One replaced record may be left out, so the count of kept records differs between neighbours."""
    table = read_table(FRAME, SCHEMA, prepare=PREPARATION)
    neighbour = read_table(FRAME.assign(weight=[400, 9000, 400, 1500, 9000]), SCHEMA, prepare=PREPARATION)
    assert table.exact_row_count() - neighbour.exact_row_count() == 1
    curator = _curator(table)
    assert curator.rows.number is None
    assert curator.counts(("sex",)).sum().sensitivity == 1.0  # not 0, as it is without cleaning
    assert curator.counts(("sex",)).mean([0.0, 1.0], low=0, high=1).sensitivity == 1.0


def test_a_measured_number_scales_models_but_no_sensitivity_relies_on_it() -> None:
    curator = _curator(read_table(FRAME, SCHEMA, prepare=PREPARATION), rows=1000)
    assert curator.rows.number == 1000
    assert curator.within(PureDP(1.0), scope="a").rows.number == 1000
    assert curator.counts(("sex",)).mean([0.0, 1.0], low=0, high=1).sensitivity == 1.0
    declared = _curator(read_table(FRAME, SCHEMA, prepare=PREPARATION), rows=PublicRows.exactly(3))
    assert declared.counts(("sex",)).mean([0.0, 1.0], low=0, high=1).sensitivity == pytest.approx(1 / 3)


def test_trusted_statistics_are_sealed_charged_and_counted() -> None:
    curator = _curator(read_table(FRAME, SCHEMA, prepare=PREPARATION), scope="here")
    sealed = seal_numbers(
        curator, lambda table: [float(table.exact_row_count()), 2.0], sensitivities=[1.0, 0.5]
    )
    assert [item.sensitivity for item in sealed] == [1.0, 0.5]
    assert "3" not in repr(sealed[0])
    with pytest.raises(ValueError, match="must return 2 numbers"):
        seal_numbers(curator, lambda table: [1.0], sensitivities=[1.0, 1.0])
    values = curator.measure_scalars(sealed, noise=[Laplace(1.0), Laplace(1.0)], purpose="two numbers")
    assert len(values) == 2
    entry = curator.ledger.entries()[-1]
    assert (entry.scope, entry.purpose) == ("here", "two numbers")
    assert entry.costs["pure"] == pytest.approx(1.5, rel=2e-4)
    assert curator.measure_scalars([], noise=[], purpose="nothing") == []
