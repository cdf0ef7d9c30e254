"""A simulated labour survey with the eleven attributes of paper Deniability, Table 1.

The columns are drawn one after the other: age, sex, area of birth, race, education, marital status,
relationship, occupation, class of worker, hours, income. Each depends on earlier ones, so the table has
both strong pairs (marital status and relationship) and effects that need three columns or more (income).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.datasets.draw import (
    Floats,
    Ints,
    checked_rows,
    draw,
    draw_given,
    generator,
    labelled,
    logistic,
)

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema import Schema

# ----------------------------------------------------------------------------------------
# Labels and rounded shares behind the simulated survey.
#
# The categories are those of the American Community Survey's public-use files that paper Deniability's
# Table 1 counts (codes COW, SCHL, MAR, OCCP grouped in 25, RELP, RAC1P in 5, WAOB). Shares are rounded
# figures of the size the Census Bureau and the Bureau of Labor Statistics publish for people at work.

WORKCLASSES = (
    "Private company", "Private non-profit", "Local government", "State government", "Federal government",
    "Self-employed, not incorporated", "Self-employed, incorporated", "Unpaid family worker",
)  # fmt: skip

# Education level and its share among workers of 30 and over born in the country.
EDUCATION = (
    ("No schooling", 0.3), ("Nursery school", 0.02), ("Kindergarten", 0.02), ("Grade 1", 0.03),
    ("Grade 2", 0.04), ("Grade 3", 0.06), ("Grade 4", 0.06), ("Grade 5", 0.1), ("Grade 6", 0.3),
    ("Grade 7", 0.2), ("Grade 8", 0.5), ("Grade 9", 0.8), ("Grade 10", 1.1), ("Grade 11", 1.4),
    ("Grade 12, no diploma", 1.4), ("High school diploma", 21.5), ("GED or alternative", 3.6),
    ("College, less than a year", 7.4), ("College, no degree", 15.5), ("Associate degree", 10.0),
    ("Bachelor's degree", 21.5), ("Master's degree", 10.2), ("Professional degree", 2.4), ("Doctorate", 1.6),
)  # fmt: skip
HIGH_SCHOOL, ASSOCIATE, BACHELOR, MASTER = 15, 19, 20, 21
# The highest level (index) that can have been reached at an age.
HIGHEST_BY_AGE = ((17, 15), (18, 17), (20, 18), (21, 19), (24, 20), (26, 22), (200, 23))

MARITAL = ("Married", "Widowed", "Divorced", "Separated", "Never married")
# (up to this age, shares in the order above)
MARITAL_BY_AGE = (
    (19, (0.6, 0.02, 0.1, 0.2, 99.1)),
    (24, (10.0, 0.1, 1.2, 1.2, 87.5)),
    (29, (34.0, 0.2, 4.0, 2.2, 59.6)),
    (34, (54.0, 0.3, 7.5, 2.7, 35.5)),
    (44, (65.0, 0.6, 12.5, 3.0, 18.9)),
    (54, (67.0, 1.8, 17.0, 2.7, 11.5)),
    (64, (69.0, 4.5, 17.5, 1.9, 7.1)),
    (74, (68.0, 11.0, 15.5, 1.2, 4.3)),
    (200, (58.0, 28.0, 10.0, 0.7, 3.3)),
)

RELATIONSHIPS = (
    "Reference person", "Husband or wife", "Biological child", "Adopted child", "Stepchild", "Sibling",
    "Parent", "Grandchild", "Parent-in-law", "Child-in-law", "Other relative", "Roomer or boarder",
    "Housemate", "Unmarried partner", "Foster child", "Other non-relative", "Institution resident",
    "Group quarters resident",
)  # fmt: skip
# Weights by (married, age class under 25 / 25 to 34 / 35 and over), in the order above.
RELATIONSHIP_WEIGHTS = {
    (True, 0): (40, 36, 9, 0.2, 0.5, 1, 0, 1, 0, 7, 2, 0.8, 0.8, 0.3, 0.02, 0.7, 0.2, 0.5),
    (True, 1): (49, 42, 3.5, 0.1, 0.2, 0.6, 0, 0.2, 0, 2.4, 0.8, 0.4, 0.3, 0.2, 0.005, 0.3, 0.1, 0.1),
    (True, 2): (53, 44, 0.7, 0.02, 0.03, 0.3, 0.5, 0.02, 0.4, 0.4, 0.3, 0.2, 0.1, 0.05, 0.001, 0.1, 0.1, 0.1),
    (False, 0): (16, 0, 47, 1.3, 2.2, 2.4, 0, 2.6, 0, 0.2, 2, 1.8, 7, 6, 0.06, 2, 0.4, 9),
    (False, 1): (45, 0, 24, 0.6, 0.8, 3.2, 0.02, 1.1, 0, 0.2, 1.6, 2, 6, 12.5, 0.01, 1.9, 0.6, 1.1),
    (False, 2): (71, 0, 8.5, 0.2, 0.2, 2.6, 2.2, 0.1, 0.7, 0.1, 0.9, 1.5, 2.2, 7, 0.002, 1.6, 0.7, 0.8),
}

RACES = ("American Indian or Alaska Native", "Asian or Pacific Islander", "Black", "Other", "White")
BIRTH_AREAS = (
    "United States", "Puerto Rico and island areas", "Latin America", "Asia", "Europe", "Africa",
    "Northern America", "Oceania",
)  # fmt: skip
BIRTH_AREA_SHARES = (84.2, 0.9, 7.2, 4.6, 2.0, 0.65, 0.35, 0.1)
# Race by area of birth, in the order of RACES.
RACE_BY_BIRTH_AREA = (
    (1.0, 1.8, 9.8, 3.2, 84.2),
    (0.4, 4.0, 8.0, 25.6, 62.0),
    (0.9, 0.5, 9.0, 31.6, 58.0),
    (0.2, 82.0, 0.8, 3.0, 14.0),
    (0.1, 1.2, 1.7, 2.0, 95.0),
    (0.2, 3.0, 64.0, 3.8, 29.0),
    (1.0, 4.0, 4.0, 3.0, 88.0),
    (0.5, 52.0, 2.5, 7.0, 38.0),
)
# How schooling before arrival tilts education: log weight per level above (or below) high school.
EDUCATION_TILT_BY_BIRTH_AREA = (0.0, -0.02, -0.22, 0.10, 0.04, 0.04, 0.08, 0.0)


class Occupation(NamedTuple):
    """What the simulation knows about one occupation group."""

    label: str
    share: float  # percent of workers with middling education
    schooling: float  # log weight per education tier above the middle one
    women: float  # share of women
    public: float  # share employed by a government
    own: float  # share self-employed
    wage: float  # log-odds of earning more than 50,000, all else equal
    full_time: float  # log-odds of full-time hours, all else equal


OCCUPATIONS = (
    Occupation("Management", 9.5, 0.45, 0.40, 0.12, 0.17, 1.1, 1.2),
    Occupation("Business operations", 2.4, 0.65, 0.52, 0.20, 0.10, 0.9, 0.8),
    Occupation("Finance", 1.9, 0.75, 0.55, 0.12, 0.08, 1.0, 0.9),
    Occupation("Computing and mathematics", 2.0, 0.80, 0.26, 0.14, 0.06, 1.5, 1.1),
    Occupation("Architecture and engineering", 1.5, 0.80, 0.14, 0.16, 0.06, 1.5, 1.2),
    Occupation("Science", 0.35, 1.45, 0.47, 0.38, 0.04, 0.7, 0.6),
    Occupation("Community and social services", 1.0, 1.10, 0.63, 0.40, 0.02, -0.3, 0.3),
    Occupation("Legal", 0.45, 1.45, 0.52, 0.22, 0.24, 1.2, 0.7),
    Occupation("Education", 3.0, 1.20, 0.74, 0.72, 0.04, -0.5, -0.2),
    Occupation("Arts, sports and media", 1.6, 0.55, 0.47, 0.12, 0.25, 0.1, -0.4),
    Occupation("Health practice", 4.6, 0.85, 0.75, 0.18, 0.06, 1.2, 0.1),
    Occupation("Health support", 3.2, -0.25, 0.88, 0.14, 0.04, -1.2, -0.4),
    Occupation("Protective services", 2.6, -0.05, 0.21, 0.72, 0.01, 0.6, 0.7),
    Occupation("Food service", 5.2, -0.55, 0.55, 0.06, 0.02, -1.6, -1.3),
    Occupation("Cleaning and grounds", 3.4, -0.85, 0.40, 0.16, 0.12, -1.4, -0.5),
    Occupation("Personal care", 3.7, -0.35, 0.78, 0.12, 0.22, -1.5, -1.0),
    Occupation("Sales", 10.8, -0.05, 0.49, 0.02, 0.12, 0.3, -0.4),
    Occupation("Office support", 15.0, -0.10, 0.73, 0.20, 0.03, -0.4, -0.1),
    Occupation("Farming, fishing and forestry", 0.6, -1.10, 0.23, 0.04, 0.06, -1.2, 0.4),
    Occupation("Construction", 5.2, -0.75, 0.03, 0.08, 0.24, 0.4, 0.5),
    Occupation("Extraction", 0.2, -0.70, 0.04, 0.01, 0.03, 1.1, 1.5),
    Occupation("Installation and repair", 3.5, -0.50, 0.04, 0.11, 0.11, 0.5, 1.0),
    Occupation("Production", 6.4, -0.65, 0.28, 0.03, 0.04, 0.0, 1.0),
    Occupation("Transport", 6.6, -0.75, 0.15, 0.11, 0.08, -0.1, 0.1),
    Occupation("Military", 0.4, 0.05, 0.15, 1.00, 0.00, 0.3, 2.0),
)

# Usual weekly hours: weights of the values people report, for full-time and part-time work.
FULL_TIME_HOURS = {
    35: 4.2, 36: 1.9, 37: 1.1, 38: 1.4, 39: 0.4, 40: 52.0, 41: 0.2, 42: 1.0, 43: 0.7, 44: 0.8, 45: 7.0,
    46: 0.5, 47: 0.3, 48: 1.5, 50: 10.0, 52: 0.4, 54: 0.3, 55: 2.0, 56: 0.3, 58: 0.1, 60: 4.4, 65: 0.6,
    70: 0.9, 72: 0.2, 75: 0.2, 80: 0.5, 84: 0.2, 90: 0.1, 98: 0.1, 99: 0.15,
}  # fmt: skip
PART_TIME_HOURS = {
    0: 0.4, 2: 0.5, 3: 0.6, 4: 1.2, 5: 1.6, 6: 1.3, 8: 3.2, 10: 5.4, 12: 4.0, 14: 0.8, 15: 6.6, 16: 3.0,
    18: 2.0, 20: 20.5, 22: 1.3, 24: 5.2, 25: 11.5, 26: 0.8, 28: 2.0, 30: 20.5, 32: 7.6,
}  # fmt: skip
ODD_HOURS = 0.02  # weight of every other value

INCOME_CLASSES = ("<=50K", ">50K")


YOUNGEST, OLDEST = 17, 96  # Table 1: 80 ages, 17 to 96
MOST_HOURS = 99  # Table 1: 100 values, 0 to 99, the last one open
SEXES = ("Male", "Female")
MEN = 0.515
N_TIERS = 5  # below high school, high school, associate, bachelor, beyond
INCOME_INTERCEPT = -1.05  # puts the share above 50,000 USD near 31 % of workers


def survey(n: int, seed: int = 0) -> pd.DataFrame:
    """Simulate adults at work, with the columns and cardinalities of paper Deniability, Table 1.

    Parameters
    ----------
    n
        Number of people, 0 or more.
    seed
        Seed of the simulation; the same ``n`` and ``seed`` give the same table.

    Returns
    -------
    pandas.DataFrame
        Two integer columns (``age``, ``hours_per_week``) and nine categorical ones. `survey_schema`
        describes them.

    Raises
    ------
    DataError
        If an argument is out of range.

    Examples
    --------
    >>> table = survey(2000, seed=7)
    >>> table.shape
    (2000, 11)
    >>> above = table["income_class"] == ">50K"
    >>> bool(table.loc[above, "hours_per_week"].mean() > table.loc[~above, "hours_per_week"].mean())
    True
    """
    import pandas as pd

    n = checked_rows(n)
    rng = generator(seed, "survey")
    age = draw(rng, _age_weights(), n) + YOUNGEST
    woman = (rng.random(n) >= MEN).astype(np.int64)
    birth_area = draw(rng, BIRTH_AREA_SHARES, n)
    race = draw_given(rng, RACE_BY_BIRTH_AREA, birth_area)
    education = _education(rng, age, birth_area)
    marital = _marital(rng, age, woman)
    relationship = _relationship(rng, age, woman, marital)
    tier = np.searchsorted([HIGH_SCHOOL, ASSOCIATE, BACHELOR, MASTER], education, "right")
    occupation = draw_given(rng, _occupation_table(), 2 * tier + woman)
    workclass = draw_given(rng, _workclass_table(), occupation)
    hours = _hours(rng, age, woman, occupation)
    rich = (rng.random(n) < _income_probability(age, woman, tier, occupation, hours)).astype(np.int64)
    return pd.DataFrame(
        {
            "age": age,
            "workclass": labelled(workclass, WORKCLASSES),
            "education": labelled(education, _labels(EDUCATION)),
            "marital_status": labelled(marital, MARITAL),
            "occupation": labelled(occupation, _labels(OCCUPATIONS)),
            "relationship": labelled(relationship, RELATIONSHIPS),
            "race": labelled(race, RACES),
            "sex": labelled(woman, SEXES),
            "hours_per_week": hours,
            "world_area_of_birth": labelled(birth_area, BIRTH_AREAS),
            "income_class": labelled(rich, INCOME_CLASSES),
        }
    )


def survey_schema() -> Schema:
    """Return the public schema of `survey`; its sizes are the cardinalities of Table 1.

    Examples
    --------
    >>> survey_schema().domain.shape()
    (80, 8, 24, 5, 25, 18, 5, 2, 100, 8, 2)
    """
    from understudy.schema import Categorical, Integer, Ordinal, Schema

    return Schema(
        name="survey",
        description="Simulated adults at work, after paper Deniability, Table 1.",
        columns=(
            Integer(name="age", unit="years", minimum=YOUNGEST, maximum=OLDEST),
            Categorical(name="workclass", description="Class of worker", values=WORKCLASSES),
            Ordinal(name="education", description="Highest level reached", values=_labels(EDUCATION)),
            Categorical(name="marital_status", values=MARITAL),
            Categorical(name="occupation", values=_labels(OCCUPATIONS)),
            Categorical(
                name="relationship",
                description="Relationship to the household's reference person",
                values=RELATIONSHIPS,
            ),
            Categorical(name="race", values=RACES),
            Categorical(name="sex", values=SEXES),
            Integer(
                name="hours_per_week",
                description="Usual hours worked per week; 99 stands for 99 and more",
                unit="hours",
                minimum=0,
                maximum=MOST_HOURS,
            ),
            Categorical(name="world_area_of_birth", values=BIRTH_AREAS),
            Categorical(name="income_class", description="Yearly wage in USD", values=INCOME_CLASSES),
        ),
    )


PEOPLE_PER_ROW = 5
MOST_WEIGHT = 25.0


def weighted_survey(n: int, seed: int = 0) -> pd.DataFrame:
    """Simulate a survey whose respondents stand for different numbers of people: a sample of a population of five times as many, with its design weights.

    People born abroad, and of races with few members, are sampled far more often than others; the young, men and those who earn much less often, as they answer less often. So rows that are
    counted without their weights show another population.

    Parameters
    ----------
    n
        Number of rows, 0 or more.
    seed
        Seed of the simulation; the same ``n`` and ``seed`` give the same table.

    Returns
    -------
    pandas.DataFrame
        The columns of `survey` and ``weight``: one over the probability with which the row was sampled, at most 25. `weighted_survey_schema` describes them.

    Examples
    --------
    >>> table = weighted_survey(2000, seed=7)
    >>> abroad = table["world_area_of_birth"] != "United States"
    >>> bool(abroad.mean() > 1.5 * table.loc[abroad, "weight"].sum() / table["weight"].sum())
    True
    """
    n = checked_rows(n)
    people = survey(PEOPLE_PER_ROW * n, seed)
    rng = generator(seed, "weighted_survey")
    often = np.where(people["world_area_of_birth"] == "United States", 1.0, 3.0)
    often *= np.where(people["race"] == "White", 0.8, 1.3) * np.where(people["age"] < 30, 0.6, 1.1)
    often *= np.where(people["sex"] == "Male", 0.85, 1.1) * np.where(
        people["income_class"] == ">50K", 0.75, 1.1
    )
    often *= rng.lognormal(0.0, 0.35, len(people))
    chance = n * often / max(1e-12, float(often.sum()))
    for _ in range(20):  # nobody is sampled twice, or with less than the least probability
        chance = np.clip(chance, 1.0 / MOST_WEIGHT, 1.0)
        free = (chance > 1.0 / MOST_WEIGHT) & (chance < 1.0)
        chance[free] *= max(0.0, n - float(chance[~free].sum())) / max(1e-12, float(chance[free].sum()))
    chance = np.clip(chance, 1.0 / MOST_WEIGHT, 1.0)
    ends = np.cumsum(chance) * (n / max(1e-12, float(chance.sum())))
    cuts = rng.random() + np.arange(n)
    chosen = np.minimum(np.searchsorted(ends, cuts, side="right"), len(people) - 1) if n else cuts.astype(int)
    return people.iloc[chosen].assign(weight=1.0 / chance[chosen]).reset_index(drop=True)


def weighted_survey_schema() -> Schema:
    """Return the public schema of `weighted_survey`; age and hours are in bins, as tables of surveys are published.

    Examples
    --------
    >>> weighted_survey_schema().column("weight").labels[-2:]
    ('>=25', 'missing')
    """
    from dataclasses import replace

    from understudy.schema import Integer
    from understudy.schema.weights import Weight

    ages = ["17-24", "25-29", "30-34", "35-39", "40-44", "45-49", "50-54", "55-59", "60-64", "65-74", "75-96"]
    hours = ["0-9", "10-19", "20-29", "30-34", "35-39", "40", "41-49", "50-59", "60-99"]
    plain = survey_schema().with_columns(
        [
            Integer("age", unit="years", bins=ages, decode_by="smooth"),
            Integer("hours_per_week", unit="hours", bins=hours, decode_by="smooth"),
        ]
    )
    return replace(
        plain,
        name="weighted survey",
        description="Simulated adults at work, sampled with unequal probabilities.",
        weight=Weight("weight", cap=MOST_WEIGHT, lowest=1.0),
    )


def _labels(rows: tuple[tuple[str, float], ...] | tuple[Occupation, ...]) -> tuple[str, ...]:
    return tuple(row[0] for row in rows)


def _age_weights() -> Floats:
    """Rise from 17 to 25, a plateau to the mid-fifties, retirement after 60, a thin tail of the very old."""
    age = np.arange(YOUNGEST, OLDEST + 1)
    entering = logistic((age - 19.0) / 1.8)
    leaving = logistic((63.5 - age) / 3.5)
    return np.asarray(entering * (leaving + 0.10 * np.exp(-np.maximum(age - 62, 0) / 8.0)))


def _education(rng: np.random.Generator, age: Ints, birth_area: Ints) -> Ints:
    ends = [end for end, _ in HIGHEST_BY_AGE]
    age_class = np.searchsorted(ends, age, side="left")
    level = np.arange(len(EDUCATION))
    base = np.array([share for _, share in EDUCATION])
    tilt = np.asarray(EDUCATION_TILT_BY_BIRTH_AREA)
    table = base * np.exp(tilt[:, None] * (level - HIGH_SCHOOL)[None, :])
    highest = np.array([top for _, top in HIGHEST_BY_AGE])
    # Those too young for a degree are still at the level they could reach: their weight moves there.
    tables = np.repeat(table[:, None, :], highest.size, axis=1)
    for index, top in enumerate(highest):
        tables[:, index, top] += tables[:, index, top + 1 :].sum(axis=1)
        tables[:, index, top + 1 :] = 0.0
        if top <= HIGH_SCHOOL:  # at 17 most are still in grades 10 to 12
            tables[:, index, 12:15] *= 12.0
    return draw_given(rng, tables.reshape(-1, level.size), birth_area * highest.size + age_class)


def _marital(rng: np.random.Generator, age: Ints, woman: Ints) -> Ints:
    """Women marry earlier, and are widowed and divorced more often at the same age."""
    men = np.array([shares for _, shares in MARITAL_BY_AGE])
    women = men * np.array([0.95, 2.2, 1.3, 1.3, 0.92])
    age_class = np.searchsorted([end for end, _ in MARITAL_BY_AGE], age, side="left")
    return draw_given(rng, np.concatenate([men, women]), woman * men.shape[0] + age_class)


def _relationship(rng: np.random.Generator, age: Ints, woman: Ints, marital: Ints) -> Ints:
    """Spouses come from marriages; husbands are named as reference person more often than wives."""
    men = np.array(list(RELATIONSHIP_WEIGHTS.values()))
    women = men.copy()
    men[:3, :2] *= (1.25, 0.72)
    women[:3, :2] *= (0.70, 1.34)
    age_class = np.searchsorted([24, 34], age, side="left")
    return draw_given(rng, np.concatenate([men, women]), 6 * woman + 3 * (marital != 0) + age_class)


def _occupation_table() -> Floats:
    """Occupations by education tier and sex (row ``2 * tier + woman``)."""
    tiers = np.arange(N_TIERS) - 1
    rows = []
    for tier in tiers:
        for woman in (0, 1):
            rows.append(
                [
                    job.share * np.exp(job.schooling * tier) * (job.women if woman else 1.0 - job.women)
                    for job in OCCUPATIONS
                ]
            )
    return np.array(rows, dtype=np.float64)


def _workclass_table() -> Floats:
    rows = []
    for job in OCCUPATIONS:
        private = max(0.0, 1.0 - job.public - job.own)
        non_profit = (
            0.30 if job.label in {"Health practice", "Community and social services", "Education"} else 0.07
        )
        federal = 0.95 if job.label == "Military" else 0.18
        state = (1.0 - federal) * 0.38
        local = 1.0 - federal - state
        rows.append(
            [
                private * (1.0 - non_profit), private * non_profit, job.public * local, job.public * state,
                job.public * federal, job.own * 0.63, job.own * 0.37, 0.003 * private,
            ]
        )  # fmt: skip
    return np.array(rows)


def _hours(rng: np.random.Generator, age: Ints, woman: Ints, occupation: Ints) -> Ints:
    """Full or part time first (age, sex, occupation), then one of the values people report."""
    job_effect = np.array([job.full_time for job in OCCUPATIONS])[occupation]
    log_odds = 1.50 + job_effect - 0.65 * woman - 2.1 * (age < 20) - 0.9 * ((age >= 20) & (age < 24))
    log_odds = log_odds - 1.3 * (age >= 65) - 0.8 * (age >= 72)
    full_time = (rng.random(age.shape[0]) < logistic(log_odds)).astype(np.int64)
    value = np.arange(MOST_HOURS + 1)
    table = np.zeros((3, value.size))
    table[0, 1:35] = table[1, 35:] = ODD_HOURS
    for row, weights in enumerate((PART_TIME_HOURS, FULL_TIME_HOURS)):
        table[row, list(weights)] = list(weights.values())
    # Managers, lawyers and people who work for themselves most often report long weeks.
    table[2] = table[1] * np.where(value > 44, 1.8, 1.0)
    long_weeks = np.array([job.own > 0.15 or job.wage > 1.0 for job in OCCUPATIONS])[occupation]
    return draw_given(rng, table, full_time * (1 + long_weeks))


def _income_probability(
    age: Ints, woman: Ints, tier: npt.NDArray[np.integer], occupation: Ints, hours: Ints
) -> Floats:
    """Chance of more than 50,000 a year: education, experience up to 50, hours, sex and occupation."""
    job_effect = np.array([job.wage for job in OCCUPATIONS])[occupation]
    schooling = np.array([-1.1, -0.3, 0.1, 0.8, 1.4])[tier]
    experience = 0.075 * (np.minimum(age, 50) - 38.0) - 0.02 * np.maximum(age - 58, 0)
    worked = 0.055 * (np.clip(hours, 5, 60) - 40.0) - 1.5 * (hours < 35)
    return logistic(INCOME_INTERCEPT + job_effect + schooling + experience + worked - 0.75 * woman)
