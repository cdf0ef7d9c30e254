"""The messy table carries every trap it names."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from understudy.datasets import messy_table, write_messy
from understudy.datasets.messy import (
    DIAGNOSES,
    MONTHS,
    OUTLIER,
    RARE_MEAL,
    RARE_ROWS,
    SENTINEL,
    TRAPS,
    WEEKDAYS,
    diagnoses,
)
from understudy.errors import DataError


@functools.cache
def messy() -> pd.DataFrame:
    return messy_table(5_000, seed=3)


def test_names_of_the_columns_are_those_of_the_traps() -> None:
    assert list(messy().columns) == list(TRAPS)
    assert len(TRAPS) >= 30


@pytest.mark.parametrize("n", [0, 1, 2, 50, 1_000])
def test_any_number_of_rows_has_the_same_columns(n: int) -> None:
    frame = messy_table(n, seed=1)
    assert frame.shape == (n, len(TRAPS))
    assert frame.dtypes.equals(messy().dtypes)


def test_same_seed_same_table() -> None:
    pd.testing.assert_frame_equal(messy_table(300, 5), messy_table(300, seed=5))
    assert not messy_table(300, 5).equals(messy_table(300, 6))


@pytest.mark.parametrize("n", [-1, 1.5, "10", None, True])
def test_bad_row_counts_are_refused(n: object) -> None:
    with pytest.raises(DataError, match="whole number of rows"):
        messy_table(n)  # type: ignore[arg-type]


def test_dates_depend_on_each_other_and_the_parts_follow_the_date() -> None:
    frame = messy()
    arrival = pd.to_datetime(frame["arrival_date"])
    departure = pd.to_datetime(frame["departure_date"])
    assert (departure >= arrival).all()
    assert ((departure - arrival).dt.days == frame["nights"]).all()
    assert (arrival.dt.isocalendar()["week"].to_numpy() == frame["arrival_week"]).all()
    assert (arrival.dt.day == frame["arrival_day"]).all()
    assert (arrival.dt.year == frame["arrival_year"]).all()
    assert [MONTHS[month - 1] for month in arrival.dt.month] == list(frame["arrival_month"])
    assert [WEEKDAYS[day] for day in arrival.dt.dayofweek] == list(frame["arrival_weekday"])


def test_prices_have_two_decimals_one_outlier_and_zeros() -> None:
    price = messy()["price"].to_numpy()
    assert np.array_equal(price, price.round(2))
    assert not np.array_equal(price, price.round(1))
    assert np.count_nonzero(price == OUTLIER) == 1
    assert np.sort(price)[-2] <= 900
    assert np.count_nonzero(price == 0) > 20


def test_codes_repeat_and_have_gaps() -> None:
    frame = messy()
    agents = np.unique(pd.to_numeric(frame["agent"], errors="coerce").dropna())
    assert agents.size < 330
    assert agents.max() - agents.min() + 1 > 1.3 * agents.size
    assert (frame["company"] == "NULL").mean() > 0.9
    assert frame["diagnosis"].nunique() > 300
    assert len(diagnoses()) == DIAGNOSES
    assert set(frame["diagnosis"]) <= {*diagnoses(), "?"}
    assert frame["zip"].str.fullmatch(r"0\d{4}").all()
    assert frame.groupby("zip")["district"].nunique().max() == 1


def test_persons_repeat_and_rows_are_loaded_twice() -> None:
    frame = messy()
    rows = frame["patient_nbr"].value_counts()
    assert rows.max() > 1
    assert 0.4 < len(rows) / len(frame) < 0.9
    assert frame.duplicated().sum() == 50
    assert frame["encounter_id"].nunique() == len(frame) - 50
    assert frame["note"].nunique() > 0.95 * len(frame)


def test_spellings_of_missing_and_rare_rows() -> None:
    frame = messy()
    assert (frame["race"] == "?").any()
    assert (frame["age"] == "?").any()
    assert (frame["income"] == SENTINEL).mean() > 0.05
    assert frame["income"][frame["income"] > 0].min() >= 2_000
    assert (frame["meal"] == RARE_MEAL).sum() == RARE_ROWS
    assert (frame["emergencies"] == 0).mean() > 0.95
    assert set(frame["smoker"]) == {"Yes", "No"}


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("blanks", [True, False])
def test_the_file_holds_the_table(tmp_path: Path, header: bool, blanks: bool) -> None:
    path = tmp_path / "messy.csv"
    frame = messy_table(40, seed=2)
    write_messy(path, frame, header=header, blanks=blanks)
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert (", " in first) == blanks
    assert first.startswith("encounter_id") == header
    read = pd.read_csv(
        path,
        header=0 if header else None,
        names=None if header else list(TRAPS),
        skipinitialspace=blanks,
        dtype=str,
        keep_default_na=False,
    )
    pd.testing.assert_frame_equal(read, frame.map(str), check_dtype=False)
