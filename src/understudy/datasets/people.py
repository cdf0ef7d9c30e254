"""Simulated tables in which a person or a household has several rows: hospital stays, members of households, and the years of a panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from understudy.datasets.draw import checked_rows, draw, draw_given, generator, labelled, logistic

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema import Schema

REGIONS = ("north", "east", "south", "west")
DIAGNOSES = ("heart", "lung", "injury", "cancer", "mental", "other")
WARDS = ("day", "general", "surgery", "intensive")
MOST_STAYS = 40
FIRST_DAY, LAST_DAY = "2019-01-01", "2023-12-31"
_DAYS = 1826
_SEXES = ("female", "male")
_AGE_GROUPS = ("0-17", "18-39", "40-64", "65-79", "80+")
_AGE_FRAILTY = (-0.6, -0.5, 0.0, 0.5, 0.8)
_DIAGNOSIS_BY_AGE = (
    (1, 3, 6, 1, 2, 7),
    (2, 2, 6, 2, 6, 6),
    (6, 4, 4, 6, 4, 5),
    (10, 6, 3, 8, 2, 4),
    (10, 8, 5, 5, 3, 4),
)
_WARD_BY_DIAGNOSIS = (
    (2, 6, 2, 2),
    (2, 8, 0.5, 2),
    (3, 3, 6, 1),
    (5, 4, 4, 0.7),
    (3, 9, 0.1, 0.1),
    (6, 5, 2, 0.4),
)
_NIGHTS_BY_WARD = (0.05, 0.82, 0.78, 0.88)
_LONGEST_STAY = 30
_OF_PATIENTS = ("sex", "age_group", "region")
_NEVER_STAYED = (0.6, 0.5, 0.4, 0.25, 0.15)
"""How likely a patient with one stay was registered without it, by age."""
_SAME_DIAGNOSIS = 0.7

RELATIONS = ("head", "partner", "child", "parent", "other")
MOST_MEMBERS = 12
_TENURES = ("owner", "tenant", "social")
_WORK = ("at work", "looking for work", "at school", "retired", "at home")
_WORK_BY_STAGE = (
    (0.0, 0.0, 0.0, 0.0, 1.0),
    (0.02, 0.01, 0.97, 0.0, 0.0),
    (0.72, 0.07, 0.06, 0.03, 0.12),
    (0.06, 0.0, 0.0, 0.9, 0.04),
)
"""Below 6, below 18, below 65, and older."""
_OLDEST = 99

_YEARS = (2019, 2020, 2021, 2022, 2023)
_COHORTS = ("before 1950", "1950-1964", "1965-1979", "1980-1994", "since 1995")
_EDUCATION = ("primary", "secondary", "degree")
_HEALTH = ("good", "fair", "poor")
_CLASSES = 8
_EDUCATION_BY_COHORT = ((5, 4, 1), (3, 5, 2), (2, 5, 3), (1, 5, 4), (2, 6, 2))
_WORK_BY_COHORT = (
    (0.05, 0.0, 0.0, 0.9, 0.05),
    (0.5, 0.05, 0.0, 0.35, 0.1),
    (0.8, 0.06, 0.01, 0.02, 0.11),
    (0.78, 0.08, 0.04, 0.0, 0.1),
    (0.3, 0.1, 0.55, 0.0, 0.05),
)


def patient_stays(patients: int, seed: int = 0) -> pd.DataFrame:
    """Simulate a hospital register: patients with 1 to 40 stays each, whose outcome depends on how many they have.

    Frail patients come back more often, so that the share of readmissions is far higher among patients with many stays: a table cut to a few
    rows of each patient has a lower share than the register. Most patients keep their diagnosis from one stay to the next.

    Parameters
    ----------
    patients
        Number of patients, 0 or more; there are about 1.45 stays to a patient.
    seed
        Seed of the simulation; the same arguments give the same table.

    Returns
    -------
    pandas.DataFrame
        One row per stay, those of a patient together and in order: ``patient`` (who), ``sex``, ``age_group`` and ``region`` (the same in
        all stays of a patient), ``admitted`` (2019 to 2023), ``diagnosis``, ``ward``, ``nights`` and ``readmitted``. `patient_stays_schema`
        describes all but ``patient``.

    Examples
    --------
    >>> table = patient_stays(100, seed=1)
    >>> table["patient"].nunique(), int(table.groupby("patient")["sex"].nunique().max())
    (100, 1)
    """
    import pandas as pd

    patients = checked_rows(patients)
    rng = generator(seed, "patient_stays")
    sex = draw(rng, (0.53, 0.47), patients)
    age = draw(rng, (0.15, 0.25, 0.28, 0.2, 0.12), patients)
    region = draw(rng, (0.35, 0.2, 0.3, 0.15), patients)
    frailty = np.asarray(_AGE_FRAILTY)[age] + 0.1 * (sex == 1) + 1.2 * rng.standard_normal(patients)
    again = logistic(-1.55 + 0.95 * frailty)  # how likely a stay is followed by another one
    again = np.minimum(again, 0.9)
    stays = np.minimum(rng.geometric(1.0 - again), MOST_STAYS)
    who = np.repeat(np.arange(patients), stays)
    rows = len(who)
    place = np.arange(rows) - np.repeat(np.cumsum(stays) - stays, stays)
    diagnosis = np.zeros(rows, np.int64)
    fresh = draw_given(rng, _DIAGNOSIS_BY_AGE, age[who])
    keeps = rng.random(rows) < _SAME_DIAGNOSIS
    for step in range(int(stays.max(initial=0))):
        now = np.flatnonzero(place == step)
        same = keeps[now] & (step > 0)
        diagnosis[now] = np.where(same, diagnosis[now - 1], fresh[now])
    ward = draw_given(rng, _WARD_BY_DIAGNOSIS, diagnosis)
    nights = draw_given(rng, np.asarray(_NIGHTS_BY_WARD)[:, None] ** np.arange(_LONGEST_STAY + 1), ward)
    readmitted = rng.random(rows) < logistic(
        -0.75
        + 0.55 * np.log(stays)[who]
        + 0.5 * frailty[who]
        + 0.4 * (diagnosis == 0)
        - 0.5 * (diagnosis == 2)
        + 0.02 * nights
    )
    starts = np.cumsum(stays) - stays
    so_far = np.cumsum(rng.exponential(size=rows + 1)[:rows])  # of the time that lies between stays
    so_far -= np.repeat(so_far[starts], stays)
    whole = np.repeat(so_far[starts + stays - 1], stays) + 1.0
    first = (rng.random(patients) ** (1.0 + 0.15 * stays))[who]
    day = np.floor((first + (1.0 - first) * so_far / whole) * (_DAYS - 1)).astype(np.int64)
    admitted = (np.datetime64(FIRST_DAY, "D") + day.astype("timedelta64[D]")).astype("datetime64[us]")
    return pd.DataFrame(
        {
            "patient": who + 100_000,
            "sex": labelled(sex[who], _SEXES),
            "age_group": labelled(age[who], _AGE_GROUPS),
            "region": labelled(region[who], REGIONS),
            "admitted": admitted,
            "diagnosis": labelled(diagnosis, DIAGNOSES),
            "ward": labelled(ward, WARDS),
            "nights": nights,
            "readmitted": readmitted,
        }
    )


def patient_stays_schema() -> Schema:
    """Return the public schema of `patient_stays`, with what is fixed about a patient and what puts the stays in order."""
    from understudy.schema import Schema

    return Schema.from_dict(
        {
            "name": "patient stays",
            "columns": [
                {"name": "sex", "kind": "categorical", "values": list(_SEXES)},
                {"name": "age_group", "kind": "ordinal", "values": list(_AGE_GROUPS)},
                {"name": "region", "kind": "categorical", "values": list(REGIONS)},
                {
                    "name": "admitted",
                    "kind": "date",
                    "minimum": FIRST_DAY,
                    "maximum": LAST_DAY,
                    "resolution": "quarter",
                    "decode_by": "uniform",
                },
                {"name": "diagnosis", "kind": "categorical", "values": list(DIAGNOSES)},
                {"name": "ward", "kind": "categorical", "values": list(WARDS)},
                {
                    "name": "nights",
                    "kind": "integer",
                    "bins": {"edges": [0, 1, 2, 3, 5, 8, 15, 31]},
                    "decode_by": "smooth",
                },
                {"name": "readmitted", "kind": "boolean"},
            ],
            "entity": {
                "id": "patient",
                "fixed": ["sex", "age_group", "region"],
                "order": "admitted",
                "max_events": MOST_STAYS,
            },
        }
    )


def patient_register(patients: int, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Simulate a hospital register of two linked tables: patients, some of whom never stayed, and their stays.

    They are those of `patient_stays`, except that some patients with a single stay, the young more often than the old, were registered without one.

    Parameters
    ----------
    patients, seed
        As for `patient_stays`.

    Returns
    -------
    dict
        ``patients``, one row per patient: ``patient``, ``sex``, ``age_group`` and ``region``; and ``stays``: ``patient``, ``admitted``, ``diagnosis``, ``ward``, ``nights``
        and ``readmitted``. `patient_register_schema` describes both.

    Examples
    --------
    >>> tables = patient_register(100, seed=1)
    >>> len(tables["patients"]), bool(tables["stays"]["patient"].isin(tables["patients"]["patient"]).all())
    (100, True)
    """
    table = patient_stays(patients, seed)
    rng = generator(seed, "patient_register")
    people = table.drop_duplicates("patient", ignore_index=True)[["patient", *_OF_PATIENTS]]
    age = people["age_group"].map({name: place for place, name in enumerate(_AGE_GROUPS)}).to_numpy(np.int64)
    single = ~table["patient"].duplicated(keep=False).to_numpy()
    none = rng.random(len(people)) < np.asarray(_NEVER_STAYED)[age]
    dropped = single & none[table["patient"].to_numpy() - table["patient"].min() if len(table) else slice(0)]
    stays = table[~dropped].drop(columns=list(_OF_PATIENTS)).reset_index(drop=True)
    return {"patients": people, "stays": stays}


def patient_register_schema() -> Schema:
    """Return the public schema of `patient_register`, with its tables and keys."""
    from understudy.schema import Schema

    whole = patient_stays_schema().to_dict()
    fixed = [column for column in whole["columns"] if column["name"] in _OF_PATIENTS]
    return Schema.from_dict(
        {
            "name": "register",
            "tables": [
                {"name": "patients", "key": "patient", "columns": fixed},
                {
                    "name": "stays",
                    "belongs_to": "patients",
                    "order": "admitted",
                    "max_events": MOST_STAYS,
                    "columns": [column for column in whole["columns"] if column not in fixed],
                },
            ],
        }
    )


def households(number: int, seed: int = 0) -> pd.DataFrame:
    """Simulate the members of households: 1 to 12 of them, the head first, with ages that go together.

    Parameters
    ----------
    number
        Number of households, 0 or more; there are about 2.5 members to a household.
    seed
        Seed of the simulation; the same arguments give the same table.

    Returns
    -------
    pandas.DataFrame
        One row per member, those of a household together: ``household`` (which), ``region`` and ``tenure`` (the same for all members),
        ``relation`` (to the head), ``age``, ``sex`` and ``work``. `households_schema` describes all but ``household``.

    Examples
    --------
    >>> table = households(50, seed=2)
    >>> int((table["relation"] == "head").sum())
    50
    """
    import pandas as pd

    number = checked_rows(number)
    rng = generator(seed, "households")
    region = draw(rng, (0.35, 0.2, 0.3, 0.15), number)
    tenure = draw(rng, (0.5, 0.35, 0.15), number)
    head = np.clip(np.round(rng.gamma(9.0, 5.6, number) + np.asarray([5, -4, 0])[tenure]), 18, _OLDEST)
    partner = rng.random(number) < np.where(head > 75, 0.35, np.where(head < 26, 0.25, 0.6))
    mean = np.where((head > 26) & (head < 58), 1.25, 0.12) * np.where(partner, 1.25, 0.55)
    children = np.minimum(rng.poisson(mean * np.asarray([1.0, 0.8, 1.6])[tenure]), 8)
    parent = rng.random(number) < np.where((head > 35) & (head < 70), 0.05, 0.005)
    others = np.where(rng.random(number) < 0.06, rng.integers(1, 3, number), 0)
    counts = np.stack([np.ones(number, int), partner.astype(int), children, parent.astype(int), others], 1)
    size = counts.sum(axis=1)
    which = np.repeat(np.arange(number), size)
    relation = np.repeat(np.tile(np.arange(len(RELATIONS)), number), counts.reshape(-1))
    rows = len(which)
    heads = head[which]
    apart = rng.standard_normal(rows)
    ages = np.select(
        [relation == 0, relation == 1, relation == 2, relation == 3],
        [heads, heads - 1.5 + 4.0 * apart, heads - 29.0 + 5.5 * apart, heads + 27.0 + 4.0 * apart],
        default=18 + 60 * rng.random(rows),
    )
    age = np.clip(np.round(ages), np.where((relation == 1) | (relation == 3), 18, 0), _OLDEST).astype(
        np.int64
    )
    head_sex = rng.random(number) < 0.55
    sex = np.where(
        relation == 0,
        head_sex[which],
        np.where(relation == 1, head_sex[which] ^ (rng.random(rows) > 0.02), rng.random(rows) < 0.5),
    ).astype(np.int64)
    stage = np.select([age < 6, age < 18, age < 65], [0, 1, 2], default=3)
    work = draw_given(
        rng,
        np.array(_WORK_BY_STAGE),
        stage,
    )
    return pd.DataFrame(
        {
            "household": which + 1,
            "region": labelled(region[which], REGIONS),
            "tenure": labelled(tenure[which], _TENURES),
            "relation": labelled(relation, RELATIONS),
            "age": age,
            "sex": labelled(sex, _SEXES),
            "work": labelled(work, _WORK),
        }
    )


def households_schema() -> Schema:
    """Return the public schema of `households`: members stand in the order of their relation to the head."""
    from understudy.schema import Schema

    return Schema.from_dict(
        {
            "name": "households",
            "columns": [
                {"name": "region", "kind": "categorical", "values": list(REGIONS)},
                {"name": "tenure", "kind": "categorical", "values": list(_TENURES)},
                {"name": "relation", "kind": "ordinal", "values": list(RELATIONS)},
                {
                    "name": "age",
                    "kind": "integer",
                    "bins": {"edges": [0, 6, 12, 18, 25, 30, 35, 40, 45, 50, 55, 60, 65, 75, 100]},
                    "decode_by": "smooth",
                },
                {"name": "sex", "kind": "categorical", "values": list(_SEXES)},
                {"name": "work", "kind": "categorical", "values": list(_WORK)},
            ],
            "entity": {
                "id": "household",
                "fixed": ["region", "tenure"],
                "order": "relation",
                "max_events": MOST_MEMBERS,
            },
        }
    )


def work_panel(people: int, seed: int = 0) -> pd.DataFrame:
    """Simulate a panel: people who are asked about work, income and health once a year, for up to five years.

    Most answers are those of the year before. People join in any year and leave for good, those in poor health sooner, so that whoever was asked five times is healthier than whoever was asked once.

    Parameters
    ----------
    people
        Number of people, 0 or more; each was asked about 3.3 times.
    seed
        Seed of the simulation; the same arguments give the same table.

    Returns
    -------
    pandas.DataFrame
        One row per person and year, those of a person together and in order: ``person`` (who), ``sex``, ``born`` and ``education`` (the same in all years), ``year`` (2019 to 2023), ``work``, ``income`` (a
        class from 1 to 8) and ``health``. `work_panel_schema` describes all but ``person``.

    Examples
    --------
    >>> table = work_panel(100, seed=1)
    >>> int(table.groupby("person").size().max()), bool(table.duplicated(["person", "year"]).any())
    (5, False)
    """
    import pandas as pd

    people = checked_rows(people)
    rng = generator(seed, "work_panel")
    sex = draw(rng, (0.52, 0.48), people)
    born = draw(rng, (0.2, 0.25, 0.25, 0.2, 0.1), people)
    education = draw_given(rng, np.array(_EDUCATION_BY_COHORT), born)
    start = draw(rng, (0.6, 0.1, 0.1, 0.1, 0.1), people)
    work = draw_given(rng, np.array(_WORK_BY_COHORT), born)
    income = np.clip(np.round(2.5 + 0.8 * education + 1.3 * (work == 0) + 1.2 * rng.standard_normal(people)), 1, _CLASSES)  # fmt: skip
    frail = -0.2 - 0.45 * born - 0.25 * education + 0.9 * rng.standard_normal(people)
    health = (rng.random(people) < logistic(frail)).astype(int) + (rng.random(people) < logistic(frail - 0.8))
    asked = np.ones(people, dtype=bool)
    waves = []
    for year in range(len(_YEARS)):
        joins = start == year
        stays = asked & (start < year)
        if year:
            changes = rng.random(people) < 0.12
            work = np.where(stays & changes, draw_given(rng, np.array(_WORK_BY_COHORT), born), work)
            step = np.round(0.7 * rng.standard_normal(people) + 0.1 + 0.5 * (changes & (work == 0)))
            income = np.where(stays, np.clip(income + step, 1, _CLASSES), income)
            worse = rng.random(people) < logistic(frail - 1.2)
            better = rng.random(people) < 0.12
            health = np.where(stays, np.clip(health + worse.astype(int) - better, 0, 2), health)
        now = np.flatnonzero(joins | stays)
        waves.append(np.stack([now, np.full(len(now), year), work[now], income[now], health[now]], axis=1))
        leaves = rng.random(people) < logistic(-2.6 + 0.9 * health)
        asked = asked & ~((joins | stays) & leaves)
    rows = np.concatenate(waves).astype(np.int64)
    who, year, doing, earns, feels = rows[np.lexsort((rows[:, 1], rows[:, 0]))].T
    return pd.DataFrame(
        {
            "person": who + 1,
            "sex": labelled(sex[who], _SEXES),
            "born": labelled(born[who], _COHORTS),
            "education": labelled(education[who], _EDUCATION),
            "year": np.asarray(_YEARS, np.int64)[year],
            "work": labelled(doing, _WORK),
            "income": earns,
            "health": labelled(feels, _HEALTH),
        }
    )


def work_panel_schema() -> Schema:
    """Return the public schema of `work_panel`: years stand in order, and nobody is asked more than five times."""
    from understudy.schema import Schema

    return Schema.from_dict(
        {
            "name": "work panel",
            "columns": [
                {"name": "sex", "kind": "categorical", "values": list(_SEXES)},
                {"name": "born", "kind": "ordinal", "values": list(_COHORTS)},
                {"name": "education", "kind": "ordinal", "values": list(_EDUCATION)},
                {"name": "year", "kind": "integer", "minimum": _YEARS[0], "maximum": _YEARS[-1]},
                {"name": "work", "kind": "categorical", "values": list(_WORK)},
                {"name": "income", "kind": "integer", "minimum": 1, "maximum": _CLASSES},
                {"name": "health", "kind": "ordinal", "values": list(_HEALTH)},
            ],
            "entity": {
                "id": "person",
                "fixed": ["sex", "born", "education"],
                "order": "year",
                "max_events": len(_YEARS),
            },
        }
    )
