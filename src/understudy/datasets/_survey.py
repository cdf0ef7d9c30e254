"""A simulated labour survey with the eleven attributes of paper Deniability, Table 1.

The columns are drawn one after the other: age, sex, area of birth, race, education, marital status,
relationship, occupation, class of worker, hours, income. Each depends on earlier ones, so the table has
both strong pairs (marital status and relationship) and effects that need three columns or more (income).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from understudy.datasets import _survey_facts as facts
from understudy.datasets._draw import (
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
    birth_area = draw(rng, facts.BIRTH_AREA_SHARES, n)
    race = draw_given(rng, facts.RACE_BY_BIRTH_AREA, birth_area)
    education = _education(rng, age, birth_area)
    marital = _marital(rng, age, woman)
    relationship = _relationship(rng, age, woman, marital)
    tier = np.searchsorted(
        [facts.HIGH_SCHOOL, facts.ASSOCIATE, facts.BACHELOR, facts.MASTER], education, "right"
    )
    occupation = draw_given(rng, _occupation_table(), 2 * tier + woman)
    workclass = draw_given(rng, _workclass_table(), occupation)
    hours = _hours(rng, age, woman, occupation)
    rich = (rng.random(n) < _income_probability(age, woman, tier, occupation, hours)).astype(np.int64)
    return pd.DataFrame(
        {
            "age": age,
            "workclass": labelled(workclass, facts.WORKCLASSES),
            "education": labelled(education, _labels(facts.EDUCATION)),
            "marital_status": labelled(marital, facts.MARITAL),
            "occupation": labelled(occupation, _labels(facts.OCCUPATIONS)),
            "relationship": labelled(relationship, facts.RELATIONSHIPS),
            "race": labelled(race, facts.RACES),
            "sex": labelled(woman, SEXES),
            "hours_per_week": hours,
            "world_area_of_birth": labelled(birth_area, facts.BIRTH_AREAS),
            "income_class": labelled(rich, facts.INCOME_CLASSES),
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
            Categorical(name="workclass", description="Class of worker", values=facts.WORKCLASSES),
            Ordinal(name="education", description="Highest level reached", values=_labels(facts.EDUCATION)),
            Categorical(name="marital_status", values=facts.MARITAL),
            Categorical(name="occupation", values=_labels(facts.OCCUPATIONS)),
            Categorical(
                name="relationship",
                description="Relationship to the household's reference person",
                values=facts.RELATIONSHIPS,
            ),
            Categorical(name="race", values=facts.RACES),
            Categorical(name="sex", values=SEXES),
            Integer(
                name="hours_per_week",
                description="Usual hours worked per week; 99 stands for 99 and more",
                unit="hours",
                minimum=0,
                maximum=MOST_HOURS,
            ),
            Categorical(name="world_area_of_birth", values=facts.BIRTH_AREAS),
            Categorical(name="income_class", description="Yearly wage in USD", values=facts.INCOME_CLASSES),
        ),
    )


def _labels(rows: tuple[tuple[str, float], ...] | tuple[facts.Occupation, ...]) -> tuple[str, ...]:
    return tuple(row[0] for row in rows)


def _age_weights() -> Floats:
    """Rise from 17 to 25, a plateau to the mid-fifties, retirement after 60, a thin tail of the very old."""
    age = np.arange(YOUNGEST, OLDEST + 1)
    entering = logistic((age - 19.0) / 1.8)
    leaving = logistic((63.5 - age) / 3.5)
    return np.asarray(entering * (leaving + 0.10 * np.exp(-np.maximum(age - 62, 0) / 8.0)))


def _education(rng: np.random.Generator, age: Ints, birth_area: Ints) -> Ints:
    ends = [end for end, _ in facts.HIGHEST_BY_AGE]
    age_class = np.searchsorted(ends, age, side="left")
    level = np.arange(len(facts.EDUCATION))
    base = np.array([share for _, share in facts.EDUCATION])
    tilt = np.asarray(facts.EDUCATION_TILT_BY_BIRTH_AREA)
    table = base * np.exp(tilt[:, None] * (level - facts.HIGH_SCHOOL)[None, :])
    highest = np.array([top for _, top in facts.HIGHEST_BY_AGE])
    # Those too young for a degree are still at the level they could reach: their weight moves there.
    tables = np.repeat(table[:, None, :], highest.size, axis=1)
    for index, top in enumerate(highest):
        tables[:, index, top] += tables[:, index, top + 1 :].sum(axis=1)
        tables[:, index, top + 1 :] = 0.0
        if top <= facts.HIGH_SCHOOL:  # at 17 most are still in grades 10 to 12
            tables[:, index, 12:15] *= 12.0
    return draw_given(rng, tables.reshape(-1, level.size), birth_area * highest.size + age_class)


def _marital(rng: np.random.Generator, age: Ints, woman: Ints) -> Ints:
    """Women marry earlier, and are widowed and divorced more often at the same age."""
    men = np.array([shares for _, shares in facts.MARITAL_BY_AGE])
    women = men * np.array([0.95, 2.2, 1.3, 1.3, 0.92])
    age_class = np.searchsorted([end for end, _ in facts.MARITAL_BY_AGE], age, side="left")
    return draw_given(rng, np.concatenate([men, women]), woman * men.shape[0] + age_class)


def _relationship(rng: np.random.Generator, age: Ints, woman: Ints, marital: Ints) -> Ints:
    """Spouses come from marriages; husbands are named as reference person more often than wives."""
    men = np.array(list(facts.RELATIONSHIP_WEIGHTS.values()))
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
                    for job in facts.OCCUPATIONS
                ]
            )
    return np.array(rows, dtype=np.float64)


def _workclass_table() -> Floats:
    rows = []
    for job in facts.OCCUPATIONS:
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
    job_effect = np.array([job.full_time for job in facts.OCCUPATIONS])[occupation]
    log_odds = 1.50 + job_effect - 0.65 * woman - 2.1 * (age < 20) - 0.9 * ((age >= 20) & (age < 24))
    log_odds = log_odds - 1.3 * (age >= 65) - 0.8 * (age >= 72)
    full_time = (rng.random(age.shape[0]) < logistic(log_odds)).astype(np.int64)
    value = np.arange(MOST_HOURS + 1)
    table = np.zeros((3, value.size))
    table[0, 1:35] = table[1, 35:] = facts.ODD_HOURS
    for row, weights in enumerate((facts.PART_TIME_HOURS, facts.FULL_TIME_HOURS)):
        table[row, list(weights)] = list(weights.values())
    # Managers, lawyers and people who work for themselves most often report long weeks.
    table[2] = table[1] * np.where(value > 44, 1.8, 1.0)
    long_weeks = np.array([job.own > 0.15 or job.wage > 1.0 for job in facts.OCCUPATIONS])[occupation]
    return draw_given(rng, table, full_time * (1 + long_weeks))


def _income_probability(
    age: Ints, woman: Ints, tier: npt.NDArray[np.integer], occupation: Ints, hours: Ints
) -> Floats:
    """Chance of more than 50,000 a year: education, experience up to 50, hours, sex and occupation."""
    job_effect = np.array([job.wage for job in facts.OCCUPATIONS])[occupation]
    schooling = np.array([-1.1, -0.3, 0.1, 0.8, 1.4])[tier]
    experience = 0.075 * (np.minimum(age, 50) - 38.0) - 0.02 * np.maximum(age - 58, 0)
    worked = 0.055 * (np.clip(hours, 5, 60) - 40.0) - 1.5 * (hours < 35)
    return logistic(INCOME_INTERCEPT + job_effect + schooling + experience + worked - 0.75 * woman)
