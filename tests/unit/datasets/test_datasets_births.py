"""The simulated births registry: cleaning rules with a known answer, and the facts it was built from."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

from understudy.datasets import births, births_schema
from understudy.datasets.births import breaks_a_rule
from understudy.errors import DataError

ALPHA = 1e-9  # false-alarm rate of each statistical assertion, as in tests/statistical
Z = NormalDist().inv_cdf(1 - ALPHA / 2)
N = 200_000

TABLE_1_LABELS = {
    "mother_age": ["<18", "18-19", "20-24", "25-29", "30-34", "35-36", "37-39", "40-42", "43-44", "44<"],
    "parity": ["1", "2-3", "4-6", "7-10", "10<"],
    "gestation_week": ["<29", "29-31", "32-33", "34-36", "37-41", "41<"],
    "birth_weight": ["<1500", *(f"{low}-{low + 99}" for low in range(1500, 4500, 100)), "4499<"],
}


def removed(frame: pd.DataFrame) -> np.ndarray:
    columns = ("mother_age", "parity", "gestation_week", "birth_weight")
    return breaks_a_rule(*(frame[column].to_numpy() for column in columns))


def satisfied(frame: pd.DataFrame) -> np.ndarray:
    return np.logical_and.reduce([rule.holds_raw(frame) for rule in births_schema().constraints])  # type: ignore[no-any-return]


@functools.cache
def simulated(seed: int) -> pd.DataFrame:
    return births(N, seed, implausible_share=0)


@pytest.fixture
def clean(seed: int) -> pd.DataFrame:
    return simulated(seed)


def assert_within(low: float, estimate: float, high: float, error: float) -> None:
    """Accept an estimate that lies in the stated range up to Z standard errors."""
    assert low - Z * error <= estimate <= high + Z * error


def share(flags: pd.Series) -> tuple[float, float]:
    p = float(flags.mean())
    return p, math.sqrt(p * (1 - p) / len(flags))


def difference(a: pd.Series, b: pd.Series) -> tuple[float, float]:
    return float(a.mean() - b.mean()), math.sqrt(a.var() / len(a) + b.var() / len(b))


# --- cleaning -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "wanted", "rows"),
    [
        (10_000, 0.01, 100),
        (10_000, 0.0, 0),
        (1_000, 1.0, 1_000),
        (150, 0.01, 2),
        (1, 1.0, 1),
        (1, 0.4, 0),
        (0, 0.5, 0),
    ],
)
def test_exactly_the_asked_share_breaks_a_rule(n: int, wanted: float, rows: int) -> None:
    frame = births(n, 3, implausible_share=wanted)
    assert int(removed(frame).sum()) == rows


def test_schema_constraints_are_the_cleaning_rules() -> None:
    """The rules are written twice, as arrays and as schema text; both must remove the same rows."""
    spoilt = births(20_000, 4, implausible_share=0.5)
    assert np.array_equal(satisfied(spoilt), ~removed(spoilt))
    rng = np.random.default_rng(8)
    anything = births(20_000, 5).assign(
        mother_age=rng.integers(10, 60, 20_000),
        parity=rng.integers(1, 20, 20_000),
        gestation_week=rng.integers(10, 50, 20_000),
        birth_weight=rng.integers(20, 92, 20_000) * 100 + rng.choice([-1, 0, 1, 99], 20_000),
    )
    assert np.array_equal(satisfied(anything), ~removed(anything))


def test_every_rule_catches_some_row() -> None:
    spoilt = births(5_000, 6, implausible_share=1.0)
    for rule in births_schema().constraints:
        assert not rule.holds_raw(spoilt).all(), rule


def test_spoilt_rows_still_fit_the_domain() -> None:
    schema, spoilt = births_schema(), births(3_000, 7, implausible_share=1.0)
    codes = schema.encode_frame(spoilt)
    assert all((codes[column.name] < column.size).all() for column in schema.columns)
    assert not schema.holds_raw(spoilt).any()


def test_rows_that_pass_on_raw_values_also_pass_on_bins() -> None:
    """Cleaning before binning must not leave rows that the binned rules would forbid again."""
    schema = births_schema()
    frame = births(50_000, 9, implausible_share=0)
    codes = schema.encode_frame(frame)
    for rule in schema.constraints:
        assert rule.holds_codes(codes).all(), rule


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, "0.1", None, True])
def test_bad_implausible_share_is_refused(value: object) -> None:
    with pytest.raises(DataError, match="implausible_share"):
        births(10, implausible_share=value)  # type: ignore[arg-type]


# --- schema -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", sorted(TABLE_1_LABELS))
def test_bins_are_those_of_table_1(column: str) -> None:
    assert list(births_schema().column(column).labels) == TABLE_1_LABELS[column]


def test_bins_hold_the_values_their_labels_name() -> None:
    schema = births_schema()
    for column, value, label in [
        ("mother_age", 17, "<18"),
        ("mother_age", 44, "43-44"),
        ("mother_age", 45, "44<"),
        ("parity", 10, "7-10"),
        ("parity", 11, "10<"),
        ("gestation_week", 28, "<29"),
        ("gestation_week", 41, "37-41"),
        ("gestation_week", 42, "41<"),
        ("birth_weight", 1499, "<1500"),
        ("birth_weight", 1500, "1500-1599"),
        ("birth_weight", 4499, "4400-4499"),
        ("birth_weight", 4500, "4499<"),
    ]:
        described = schema.column(column)
        assert described.labels[int(described.encode(pd.Series([value]))[0])] == label


def test_months_are_the_bins_of_the_date() -> None:
    schema = births_schema()
    frame = births(5_000, 10)
    codes = schema.encode_frame(frame)["date_of_birth"]
    assert np.array_equal(codes, frame["date_of_birth"].dt.month.to_numpy() - 1)


# --- the facts the simulation was built from -----------------------------------------------------------


def test_sexes(clean: pd.DataFrame) -> None:
    boys = clean["birth_sex"] == "M"
    p, error = share(boys)
    assert_within(0.512, p, 0.512, error)  # catches an even split, 10 errors away
    gap, error = difference(clean.loc[boys, "birth_weight"], clean.loc[~boys, "birth_weight"])
    assert_within(95, gap, 125, error)  # catches no offset: the error is about 2.4 g


def test_gestation_and_weight(clean: pd.DataFrame) -> None:
    r = clean["gestation_week"].corr(clean["birth_weight"])
    assert_within(0.55, r, 0.62, (1 - 0.55**2) / math.sqrt(N))
    by_week = clean.groupby("gestation_week")["birth_weight"].mean()
    assert by_week.loc[27:41].is_monotonic_increasing
    p, error = share(clean["gestation_week"] < 37)
    assert_within(0.066, p, 0.080, error)
    p, error = share(clean["gestation_week"] < 28)
    assert_within(0.002, p, 0.005, error)
    p, error = share(clean["gestation_week"] > 41)
    assert_within(0.012, p, 0.020, error)
    p, error = share(clean["birth_weight"] < 2500)
    assert_within(0.055, p, 0.080, error)


def test_age_and_parity(clean: pd.DataFrame) -> None:
    assert_within(28.5, clean["mother_age"].mean(), 29.8, clean["mother_age"].std() / math.sqrt(N))
    r = clean["mother_age"].corr(clean["parity"])
    # Parity is skewed, so the error of r is taken three times larger than the normal one.
    assert_within(0.25, r, 0.34, 3 * (1 - 0.25**2) / math.sqrt(N))
    groups = pd.cut(clean["mother_age"], [0, 19, 24, 29, 34, 39, 60])
    assert clean.groupby(groups, observed=True)["parity"].mean().is_monotonic_increasing
    p, error = share(clean["parity"] == 1)
    assert_within(0.34, p, 0.39, error)
    p, error = share(clean["parity"] > 10)
    assert_within(0.002, p, 0.005, error)  # the rarest bin of Table 1 is there, and rare


def test_first_children_are_lighter(clean: pd.DataFrame) -> None:
    term = clean[clean["gestation_week"] == 39]
    gap, error = difference(
        term.loc[term["parity"] > 1, "birth_weight"], term.loc[term["parity"] == 1, "birth_weight"]
    )
    assert_within(95, gap, 125, error)


def test_older_mothers_have_more_preterm_births(clean: pd.DataFrame) -> None:
    preterm = (clean["gestation_week"] < 37).astype(float)
    older = clean["mother_age"] >= 40
    middle = clean["mother_age"].between(20, 34)
    gap, error = difference(preterm[older], preterm[middle])
    assert_within(0.03, gap, 0.06, error)


def test_seasons_and_weekends(clean: pd.DataFrame) -> None:
    dates = clean["date_of_birth"]
    assert dates.min() >= pd.Timestamp("2014-01-01")
    assert dates.max() <= pd.Timestamp("2014-12-31")
    weekday = dates.dt.day_of_week.value_counts()
    for day, ratio in ((5, 0.75 / 1.06), (6, 0.65 / 1.06)):  # 52 of each in 2014
        observed = weekday[day] / weekday[1]
        error = ratio * math.sqrt(1 / weekday[day] + 1 / weekday[1])
        assert_within(ratio - 0.02, observed, ratio + 0.02, error)
    month = dates.dt.month.value_counts()
    summer, winter = month[8] / 31, month[2] / 28
    error = summer / winter * math.sqrt(1 / month[8] + 1 / month[2])
    # 1.07 / .97 = 1.10, less 1.4 %: August 2014 had ten weekend days in 31, February eight in 28.
    assert_within(1.08, summer / winter, 1.10, error)


def test_weights_are_read_from_a_scale(clean: pd.DataFrame) -> None:
    assert (clean["birth_weight"] % 5 == 0).all()
    p, error = share(clean["birth_weight"] % 10 == 0)
    assert_within(0.75, p, 0.75, error)
