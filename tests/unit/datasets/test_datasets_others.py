"""Dependence in the census, the survey and the toy table, and the table-driven sampler behind them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from understudy import datasets
from understudy.datasets import school_census, survey, toy, work_panel, work_panel_schema
from understudy.datasets.draw import draw, draw_given

ALPHA = 1e-9  # false-alarm rate of each statistical assertion, as in tests/statistical
Z = NormalDist().inv_cdf(1 - ALPHA / 2)
N = 100_000


@functools.cache
def simulated(table: Callable[[int, int], pd.DataFrame], seed: int) -> pd.DataFrame:
    return table(N, seed)


@pytest.fixture
def people(seed: int) -> pd.DataFrame:
    return simulated(survey, seed)


@pytest.fixture
def pupils(seed: int) -> pd.DataFrame:
    return simulated(school_census, seed)


def assert_share(low: float, flags: pd.Series, high: float) -> None:
    """Accept a share that lies in the stated range up to Z standard errors."""
    p = float(flags.mean())
    error = math.sqrt(max(p * (1 - p), 1 / len(flags)) / len(flags))
    assert low - Z * error <= p <= high + Z * error


def assert_more(a: pd.Series, b: pd.Series, *, by: float) -> None:
    """Accept if the mean of ``a`` exceeds that of ``b`` by more than ``by``, Z errors to spare."""
    a, b = a.astype(float), b.astype(float)
    error = math.sqrt(a.var() / len(a) + b.var() / len(b))
    assert a.mean() - b.mean() - by > Z * error


def p_value_of_independence(a: pd.Series, b: pd.Series) -> float:
    return float(stats.chi2_contingency(pd.crosstab(a, b)).pvalue)


# --- the sampler --------------------------------------------------------------------------------------


def test_draw_given_follows_each_groups_table(seed: int) -> None:
    table = np.array([[1, 2, 3, 0], [0, 0, 5, 5], [7, 0, 0, 0]], dtype=float)
    groups = np.repeat([0, 1, 2], 60_000)
    codes = draw_given(np.random.default_rng(seed), table, groups)
    for group, weights in enumerate(table):
        observed = np.bincount(codes[groups == group], minlength=4)
        possible = weights > 0
        assert observed[~possible].sum() == 0
        if possible.sum() > 1:
            expected = weights[possible] / weights.sum() * 60_000
            assert stats.chisquare(observed[possible], expected).pvalue > ALPHA
            wrong = expected * np.linspace(0.95, 1.05, possible.sum())  # a 5 % error is caught
            wrong *= 60_000 / wrong.sum()
            assert stats.chisquare(observed[possible], wrong).pvalue < ALPHA


def test_draw_stays_inside_the_last_possible_code() -> None:
    class AlmostOne(np.random.Generator):
        def random(self, *args: Any, **kwargs: Any) -> Any:
            return np.full(args[0], np.nextafter(1.0, 0.0))

    rng = AlmostOne(np.random.PCG64(0))
    table = np.ones((300, 4))
    table[:, 3] = 0
    assert np.array_equal(draw_given(rng, table, np.arange(300)), np.full(300, 2))


def test_draw_of_nothing() -> None:
    assert draw(np.random.default_rng(0), [1, 2], 0).shape == (0,)


# --- school census ------------------------------------------------------------------------------------


def test_census_levels(pupils: pd.DataFrame) -> None:
    assert_share(0.60, pupils["ethnic_group"] == "White British", 0.68)
    assert_share(0.17, ~pupils["first_language"].isin(["English", "Not obtained"]), 0.24)
    assert_share(0.500, pupils["sex"] == "M", 0.515)
    assert_share(0.045, pupils["year_group"].isin(["12", "13"]), 0.065)


def test_census_columns_depend_on_each_other(pupils: pd.DataFrame) -> None:
    area = pupils["local_authority"].cat.codes // 33  # ten groups of areas keep the expected counts large
    british = pupils["ethnic_group"] == "White British"
    assert p_value_of_independence(area, british) < ALPHA
    assert p_value_of_independence(british, pupils["first_language"] == "English") < ALPHA
    bengali = pupils["first_language"] == "Bengali"
    assert set(pupils.loc[bengali, "ethnic_group"].unique()) == {"Bangladeshi"}


def test_census_sixth_forms_have_more_girls(seed: int) -> None:
    # A difference of .026 among 5.5 % of the rows: a million rows put it 11 standard errors from zero.
    pupils = school_census(1_000_000, seed, areas=20)
    sixth_form = pupils["year_group"].isin(["12", "13"])
    assert_more(pupils["sex"][sixth_form] == "F", pupils["sex"][~sixth_form] == "F", by=0.0)


def test_census_cells_are_mostly_empty(pupils: pd.DataFrame) -> None:
    assert len(pupils.drop_duplicates()) < 0.7 * N
    assert pupils["local_authority"].nunique() == 326


# --- survey -------------------------------------------------------------------------------------------


def test_survey_levels(people: pd.DataFrame) -> None:
    assert_share(0.29, people["income_class"] == ">50K", 0.33)
    assert_share(0.50, people["marital_status"] == "Married", 0.56)
    assert_share(0.83, people["world_area_of_birth"] == "United States", 0.86)
    assert_share(0.35, people["hours_per_week"] == 40, 0.45)
    assert people["age"].between(17, 96).all()
    assert people["hours_per_week"].between(0, 99).all()


def test_survey_income_follows_schooling_sex_and_hours(people: pd.DataFrame) -> None:
    above = people["income_class"] == ">50K"
    graduate = people["education"].isin(["Bachelor's degree", "Master's degree", "Doctorate"])
    assert_more(above[graduate], above[~graduate], by=0.2)
    assert_more(above[people["sex"] == "Male"], above[people["sex"] == "Female"], by=0.1)
    assert_more(people["hours_per_week"][above], people["hours_per_week"][~above], by=4.0)
    assert_more(people["age"][above], people["age"][~above], by=2.0)


def test_survey_has_no_impossible_pairs(people: pd.DataFrame) -> None:
    spouse = people["relationship"] == "Husband or wife"
    assert (people.loc[spouse, "marital_status"] == "Married").all()
    highest = people["education"].cat.codes
    assert highest[people["age"] == 17].max() <= 15  # no more than a high school diploma
    assert highest[people["age"] < 22].max() <= 19  # no bachelor's degree before 22
    soldier = people["occupation"] == "Military"
    assert (
        people.loc[soldier, "workclass"]
        .isin(["Local government", "State government", "Federal government"])
        .all()
    )


def test_survey_race_follows_area_of_birth(people: pd.DataFrame) -> None:
    asian = people["race"] == "Asian or Pacific Islander"
    from_asia = people["world_area_of_birth"] == "Asia"
    assert_more(asian[from_asia], asian[~from_asia], by=0.7)


# --- toy ----------------------------------------------------------------------------------------------


def test_toy_has_missing_values_and_dependence(seed: int) -> None:
    frame = toy(20_000, seed)
    assert_share(0.05, frame["ward"].isna(), 0.05)
    intensive, day = frame["ward"] == "intensive", frame["ward"] == "day"
    assert_more(frame["stay_days"][intensive], frame["stay_days"][day], by=2.0)
    assert_more(frame["cost"][intensive], frame["cost"][day], by=5_000.0)
    assert_more(
        frame["admitted"].dt.month.isin([12, 1, 2]), frame["admitted"].dt.month.isin([6, 7, 8]), by=0.05
    )
    assert frame["stay_days"].between(0, 14).all()
    assert frame["cost"].between(0, 50_000).all()
    assert (frame["admitted"].dt.year == 2023).all()


def test_a_panel_asks_nobody_twice_a_year_and_most_answers_stay() -> None:
    """Fixed seed, no false alarms. Caught: years out of order or twice, what is fixed changing, answers that forget the year before, and leaving that has nothing to do with health."""
    panel, schema = work_panel(20_000, seed=4), work_panel_schema()
    assert schema.entity is not None
    codes = schema.encode_frame(panel)
    assert set(codes) == set(schema.names)
    assert panel.equals(work_panel(20_000, seed=4))
    assert work_panel(0).dtypes.equals(panel.dtypes)
    assert (panel.groupby("person")[list(schema.entity.fixed)].nunique() == 1).all().all()
    same = panel["person"].diff() == 0
    assert (panel["year"].diff()[same] == 1).all(), "who leaves does not come back"
    waves = panel.groupby("person").size()
    assert set(waves) == {1, 2, 3, 4, 5}
    work = panel["work"].cat.codes
    assert (work.diff()[same] == 0).mean() > 0.85
    assert (panel["income"].diff()[same].abs() <= 1).mean() > 0.85
    often = panel["person"].map(waves) == 5
    poor = panel["health"] == "poor"
    assert poor[~often].mean() > 1.5 * poor[often].mean()


def test_the_page_of_simulated_tables_lists_every_one() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "datasets.md").read_text(encoding="utf-8")
    left_out = {"load", "names", "write_messy"}
    tables = [name for name in datasets.__all__ if not name.endswith("_schema") and name not in left_out]
    assert {"patient_register", "births"} <= set(tables)
    for name in tables:
        assert f"| `{name}(" in page, name
