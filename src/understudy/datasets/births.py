"""A simulated registry of singleton live births, with the columns of paper Births, Table 1.

The country is fictional. Its levels are rounded figures of the kind that vital-statistics offices print
every year (US: National Vital Statistics Reports, "Births: Final Data"; Israel: Central Bureau of
Statistics, "Live births"), chosen between the two countries because paper Births released the Israeli
registry and rehearsed on US data. No record was copied or resampled: every number below is a summary fact.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.datasets.draw import (
    Floats,
    Ints,
    checked_rows,
    checked_share,
    draw,
    draw_given,
    generator,
    labelled,
    logistic,
    poisson_shares,
)

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema import Schema

Flags = npt.NDArray[np.bool_]

YEAR = 2014  # the year of the released registry (paper Births, Table 1)
SEXES = ("M", "F")
BOYS = 0.512  # 105 boys per 100 girls, the usual ratio at birth

# Births per day of month relative to the year's mean: high summer and early autumn, low late winter and
# spring, as in both countries' monthly tables.
MONTH_FACTOR = (0.97, 0.97, 0.96, 0.96, 0.98, 1.00, 1.04, 1.07, 1.06, 1.02, 0.98, 0.99)
# Monday to Sunday. Planned deliveries avoid the weekend: US tables show a Sunday at about 65 % and a
# Saturday at about 75 % of a working day.
WEEKDAY_FACTOR = (1.00, 1.06, 1.04, 1.04, 1.02, 0.75, 0.65)

YOUNGEST, OLDEST = 12, 52
# Age of the mother: a main wave around 30 and a smaller, younger one. Mean about 29 (US: 28 to 29;
# Israel: about 30), under 20 about 4 %, 35 and over about 18 %.
AGE_WAVES = ((0.80, 30.7, 5.0), (0.20, 23.0, 3.2))  # share, mean, standard deviation

MOST_BIRTHS = 18
# Birth order: most families have two or three children; one mother in eight belongs to a community of
# large families (paper Births keeps bins up to "10<"). First births end near 37 % of all births (US: 38 to
# 39 %, Israel lower), sixth and later births near 4 % (US: above 2 %, Israel higher).
LARGE_FAMILY_SHARE = 0.12

# Preterm (before week 37) singleton births: about 8 % in the US, 6 % in Israel. Weeks 22 to 36 thin out
# by about a third per week; half of one percent of births come before week 28.
PRETERM_SHARE_AT_BASE = 0.064
PRETERM_WEEK_WEIGHTS = (0.4, 0.6, 0.8, 1.0, 1.1, 1.3, 1.7, 2.2, 2.9, 4.0, 6.0, 9.5, 15.5, 26.0, 48.0)
FIRST_WEEK, FIRST_TERM_WEEK, LAST_WEEK = 22, 37, 44
# Weeks 37 to 44: the mode is week 39, beyond week 41 lie about 1.5 % of births.
TERM_WEEK_WEIGHTS = (90.0, 190.0, 310.0, 230.0, 95.0, 12.0, 2.5, 0.6)

# Median weight in grams of a first-born girl by completed week, rounded from growth charts in common use:
# about 1 kg at week 28, 2 kg at 33, 3 kg at 38, flattening after week 41.
GIRL_WEIGHT_BY_WEEK = {
    22: 490, 23: 560, 24: 640, 25: 740, 26: 840, 27: 950, 28: 1070, 29: 1210, 30: 1370, 31: 1550, 32: 1750,
    33: 1970, 34: 2210, 35: 2450, 36: 2690, 37: 2910, 38: 3100, 39: 3240, 40: 3350, 41: 3440, 42: 3480,
    43: 3480, 44: 3470,
}  # fmt: skip
BOY_RATIO = 1.036  # boys weigh about 115 g more at term
LATER_BORN_GRAMS = 105.0  # first-borns are about 100 g lighter than later children
GRAMS_PER_YEAR_OF_AGE = 3.0  # from 16 to 36 children of older mothers are a little heavier
SPREAD_AT_TERM, SPREAD_AT_22 = 0.125, 0.18  # coefficient of variation by week, falling from 22 to term
GROWTH_RESTRICTED_SHARE, GROWTH_RESTRICTED_RATIO = 0.03, 0.80  # a light tail at every week


class _Rows(NamedTuple):
    """The six columns as plain arrays; dates are days since the first of January."""

    day: Ints
    mother_age: Ints
    parity: Ints
    gestation_week: Ints
    girl: Ints
    birth_weight: Ints


def births(n: int, seed: int = 0, *, implausible_share: float = 0.01) -> pd.DataFrame:
    """Simulate a year's registry of singleton live births.

    The columns are those of paper Births, Table 1, before binning: ``date_of_birth`` (the table's
    ``birth_month``, at daily resolution), ``mother_age`` in full years, ``parity`` (number of live births
    so far, this one included), ``gestation_week``, ``birth_sex`` and ``birth_weight`` in grams.

    Exactly ``round(implausible_share * n)`` rows break at least one cleaning rule of the paper's section
    4.8.1, as keying errors do (week 43 with 300 g, a mother of 11 with her ninth child); all others obey
    every rule, so the cleaning step has a known answer. The paper removed at most 1.5 % of its rows.

    Parameters
    ----------
    n
        Number of rows, 0 or more.
    seed
        Seed of the simulation; the same ``n`` and ``seed`` give the same table.
    implausible_share
        Share of rows that break a cleaning rule, between 0 and 1.

    Returns
    -------
    pandas.DataFrame
        ``n`` rows in random order. `births_schema` describes them.

    Raises
    ------
    DataError
        If an argument is out of range.

    Examples
    --------
    >>> table = births(1000, seed=7)
    >>> list(table.columns)
    ['date_of_birth', 'mother_age', 'parity', 'gestation_week', 'birth_sex', 'birth_weight']
    >>> by_sex = table.groupby("birth_sex", observed=True)["birth_weight"].mean()
    >>> bool(by_sex["M"] > by_sex["F"])
    True
    """
    import pandas as pd

    n = checked_rows(n)
    share = checked_share("implausible_share", implausible_share)
    rng = generator(seed, "births")
    rows = _plausible(rng, n)
    wrong = rng.permutation(n)[: int(share * n + 0.5)]
    _spoil(rng, rows, wrong)
    start = np.datetime64(f"{YEAR}-01-01", "D")
    return pd.DataFrame(
        {
            "date_of_birth": (start + rows.day.astype("timedelta64[D]")).astype("datetime64[us]"),
            "mother_age": rows.mother_age,
            "parity": rows.parity,
            "gestation_week": rows.gestation_week,
            "birth_sex": labelled(rows.girl, SEXES),
            "birth_weight": rows.birth_weight,
        }
    )


def births_schema() -> Schema:
    """Return the public schema of `births`: the bins of Table 1 and the rules of section 4.8.

    The text is the package file ``understudy/datasets/births.yaml``, a model for schemas of your own.

    Examples
    --------
    >>> schema = births_schema()
    >>> schema.domain.shape()
    (12, 10, 5, 6, 2, 32)
    >>> schema.domain.cells()
    230400
    """
    from understudy.schema import Schema

    with resources.as_file(resources.files("understudy.datasets") / "births.yaml") as path:
        return Schema.read(path)


def breaks_a_rule(
    mother_age: npt.NDArray[np.integer],
    parity: npt.NDArray[np.integer],
    gestation_week: npt.NDArray[np.integer],
    birth_weight: npt.NDArray[np.integer],
) -> Flags:
    """Tell which rows the cleaning step removes (paper Births 4.8.1, rules 2 to 10; none is missing here).

    Examples
    --------
    >>> age, parity, week, grams = np.array([[30, 11], [2, 9], [39, 39], [3300, 3300]])
    >>> breaks_a_rule(age, parity, week, grams).tolist()
    [False, True]
    """
    age, week, grams = mother_age, gestation_week, birth_weight
    return np.asarray(
        (grams < 500)
        | (grams > 5500)
        | (week < 22)
        | (week > 44)
        | ((age < 23) & (parity > 6))
        | ((age < 20) & (parity > 3))
        | ((week < 26) & (grams > 1499))
        | ((week < 29) & (grams > 2999))
        | ((week < 34) & (grams > 3999))
        | ((grams < 600) & (week > 29))
        | ((grams < 700) & (week > 32))
    )


def _plausible(rng: np.random.Generator, n: int) -> _Rows:
    """Draw rows and redraw those that break a rule (a few in a thousand) until none does."""
    rows = _draw_rows(rng, n)
    again = np.flatnonzero(breaks_a_rule(*_checked_columns(rows)))
    while again.size:
        fresh = _draw_rows(rng, again.size)
        for column, values in zip(rows, fresh, strict=True):
            column[again] = values
        again = again[breaks_a_rule(*_checked_columns(fresh))]
    return rows


def _checked_columns(rows: _Rows) -> tuple[Ints, Ints, Ints, Ints]:
    return rows.mother_age, rows.parity, rows.gestation_week, rows.birth_weight


def _draw_rows(rng: np.random.Generator, n: int) -> _Rows:
    ages = np.arange(YOUNGEST, OLDEST + 1)
    age = draw(rng, _age_weights(ages), n) + YOUNGEST
    parity = draw_given(rng, _parity_table(ages), age - YOUNGEST) + 1
    girl = (rng.random(n) >= BOYS).astype(np.int64)
    week = _weeks(rng, age, parity, girl)
    return _Rows(
        day=draw(rng, _day_weights(), n),
        mother_age=age,
        parity=parity,
        gestation_week=week,
        girl=girl,
        birth_weight=_grams(rng, age, parity, girl, week),
    )


def _day_weights() -> Floats:
    days = np.arange(f"{YEAR}-01-01", f"{YEAR + 1}-01-01", dtype="datetime64[D]")
    month = days.astype("datetime64[M]").astype(np.int64) % 12
    weekday = (days.astype(np.int64) + 3) % 7  # the first of January 1970 was a Thursday
    return np.asarray(np.asarray(MONTH_FACTOR)[month] * np.asarray(WEEKDAY_FACTOR)[weekday])


def _age_weights(ages: npt.NDArray[np.integer]) -> Floats:
    total = np.zeros(ages.shape[0])
    for share, mean, spread in AGE_WAVES:
        total += share / spread * np.exp(-0.5 * ((ages - mean) / spread) ** 2)
    return total


def _parity_table(ages: npt.NDArray[np.integer]) -> Floats:
    """Shares of birth orders 1, 2, ... at each age: two kinds of family, at least a year between births."""
    previous = np.arange(MOST_BIRTHS)
    small_mean = 1.75 * (1.0 - np.exp(-np.maximum(ages - 17.0, 0.0) / 13.5)) + 0.03
    small = poisson_shares(small_mean, MOST_BIRTHS - 1) * np.where(previous <= 1, 1.0, 0.85 ** (previous - 1))
    large = poisson_shares(0.32 * np.maximum(ages - 18.0, 0.2), MOST_BIRTHS - 1)
    mixed = (1.0 - LARGE_FAMILY_SHARE) * small / small.sum(axis=1, keepdims=True)
    mixed += LARGE_FAMILY_SHARE * large / large.sum(axis=1, keepdims=True)
    return np.where(previous[None, :] <= np.maximum(ages - 15, 0)[:, None], mixed, 0.0)


def _weeks(rng: np.random.Generator, age: Ints, parity: Ints, girl: Ints) -> Ints:
    """Preterm birth is commoner for very young and older mothers, after many births, and for boys."""
    log_odds = np.log(PRETERM_SHARE_AT_BASE / (1.0 - PRETERM_SHARE_AT_BASE)) + (
        0.35 * (age < 20)
        + 0.25 * (age >= 35)
        + 0.30 * (age >= 40)
        + 0.20 * (parity >= 5)
        + 0.08 * (girl == 0)
    )
    preterm = rng.random(age.shape[0]) < logistic(log_odds)
    early = draw(rng, PRETERM_WEEK_WEIGHTS, age.shape[0]) + FIRST_WEEK
    # First births run about a day longer: their term weeks are tilted upwards by 8 % per week.
    later = np.asarray(TERM_WEEK_WEIGHTS)
    first = later * 1.08 ** np.arange(later.size)
    late = draw_given(rng, np.stack([later, first]), (parity == 1).astype(np.int64)) + FIRST_TERM_WEEK
    return np.where(preterm, early, late)


def _grams(rng: np.random.Generator, age: Ints, parity: Ints, girl: Ints, week: Ints) -> Ints:
    """Grams at birth: a curve by week, shifted by sex, birth order and the mother's age, with spread."""
    curve = np.array([GIRL_WEIGHT_BY_WEEK[w] for w in range(FIRST_WEEK, LAST_WEEK + 1)], dtype=np.float64)
    centre = curve[week - FIRST_WEEK]
    relative = centre / GIRL_WEIGHT_BY_WEEK[39]  # shifts are quoted at term and shrink with the child
    centre = centre * np.where(girl == 1, 1.0, BOY_RATIO)
    centre = centre + relative * (
        LATER_BORN_GRAMS * (parity > 1) + GRAMS_PER_YEAR_OF_AGE * (np.clip(age, 16, 36) - 29)
    )
    restricted = rng.random(week.shape[0]) < GROWTH_RESTRICTED_SHARE
    centre = np.where(restricted, GROWTH_RESTRICTED_RATIO * centre, centre)
    to_term = np.minimum(week - FIRST_WEEK, FIRST_TERM_WEEK - FIRST_WEEK) / (FIRST_TERM_WEEK - FIRST_WEEK)
    spread = SPREAD_AT_22 + (SPREAD_AT_TERM - SPREAD_AT_22) * to_term
    exact = centre * (1.0 + spread * rng.standard_normal(week.shape[0]))
    grams = np.maximum(exact, 200.0).round().astype(np.int64)
    # Scales are read to the nearest 5 g, and half of the readings are written down to the nearest 10 g.
    step = np.where(rng.random(week.shape[0]) < 0.5, 10, 5)
    return np.asarray((grams + step // 2) // step * step, dtype=np.int64)


def _spoil(rng: np.random.Generator, rows: _Rows, wrong: npt.NDArray[np.integer]) -> None:
    """Overwrite some rows so that each breaks at least one rule; the kinds are the rules of 4.8.1 in turn."""
    kind = rng.integers(0, 10, wrong.size)

    def between(which: int, low: int, high: int, column: Ints) -> None:
        chosen = wrong[kind == which]
        column[chosen] = rng.integers(low, high + 1, chosen.size)

    slipped = wrong[kind == 0]  # a digit lost: 3400 g written as 340 g
    rows.birth_weight[slipped] = np.minimum(rows.birth_weight[slipped] // 10, 499)
    between(1, 5501, 9000, rows.birth_weight)
    between(2, 45, 49, rows.gestation_week)
    between(3, 12, 21, rows.gestation_week)
    between(4, 20, 22, rows.mother_age)
    between(4, 7, 12, rows.parity)
    between(5, 11, 19, rows.mother_age)
    between(5, 4, 9, rows.parity)
    between(6, 22, 25, rows.gestation_week)
    between(6, 1500, 2900, rows.birth_weight)
    between(7, 26, 28, rows.gestation_week)
    between(7, 3000, 3900, rows.birth_weight)
    between(8, 29, 33, rows.gestation_week)
    between(8, 4000, 5000, rows.birth_weight)
    between(9, 33, 43, rows.gestation_week)
    between(9, 500, 699, rows.birth_weight)
