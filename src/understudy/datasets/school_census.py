"""A simulated school census: five categorical columns and up to three and a half million cells.

Paper Poisson (section 5.1) works on a constructed stand-in of the English School Census with about eight
million pupils, five categorical variables and about 3.5 million cells, nearly all of them empty. The
shape is reproduced here, the figures are not: areas are fictional and shares are rounded figures in the
range of the Department for Education's yearly release "Schools, pupils and their characteristics".
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from understudy.datasets.draw import Floats, checked_rows, draw, draw_given, generator, labelled
from understudy.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema import Schema

MOST_AREAS = 326  # lower-tier local authorities in England from 2009 to 2019

YEAR_GROUPS = ("R", *(str(year) for year in range(1, 14)))
# Pupils per year group: compulsory years are about equal with a bulge in primary school; less than half of
# a cohort stays in a state-funded school's sixth form (years 12 and 13).
YEAR_WEIGHTS = (97, 100, 101, 102, 103, 103, 102, 100, 98, 96, 94, 91, 36, 31)
SIXTH_FORM_FROM = 12

SEXES = ("F", "M")
BOYS, BOYS_IN_SIXTH_FORM = 0.511, 0.485

# Ethnic group as the census codes it (18 groups, refused, not obtained), with its share in three kinds of
# area: little diversity, a diverse large city, a town with a large South Asian community.
ETHNIC_GROUPS = (
    ("White British", 0.905, 0.240, 0.420),
    ("White Irish", 0.002, 0.005, 0.002),
    ("Traveller of Irish heritage", 0.0007, 0.0010, 0.0005),
    ("Gypsy or Roma", 0.0030, 0.0035, 0.0050),
    ("Any other White background", 0.0300, 0.1550, 0.0500),
    ("White and Black Caribbean", 0.0090, 0.0280, 0.0130),
    ("White and Black African", 0.0040, 0.0150, 0.0050),
    ("White and Asian", 0.0080, 0.0200, 0.0150),
    ("Any other Mixed background", 0.0090, 0.0400, 0.0160),
    ("Indian", 0.0080, 0.0550, 0.0900),
    ("Pakistani", 0.0030, 0.0450, 0.2400),
    ("Bangladeshi", 0.0015, 0.0500, 0.0400),
    ("Any other Asian background", 0.0050, 0.0500, 0.0200),
    ("Chinese", 0.0025, 0.0080, 0.0020),
    ("Black Caribbean", 0.0010, 0.0400, 0.0100),
    ("Black African", 0.0040, 0.1300, 0.0270),
    ("Any other Black background", 0.0010, 0.0250, 0.0070),
    ("Any other ethnic group", 0.0040, 0.0650, 0.0230),
    ("Refused", 0.0020, 0.0100, 0.0050),
    ("Not obtained", 0.0070, 0.0150, 0.0090),
)

LANGUAGES = (
    "English", "Urdu", "Polish", "Panjabi", "Bengali", "Somali", "Arabic", "Romanian", "Gujarati",
    "Portuguese", "Tamil", "French", "Turkish", "Spanish", "Lithuanian", "Chinese", "Yoruba", "Other",
    "Not obtained",
)  # fmt: skip
# First language by ethnic group: the main languages of each; what is left is English. One pupil in five
# ends with a first language other than English.
LANGUAGES_OF = {
    "White British": {"Other": 0.004, "Polish": 0.001},
    "White Irish": {"Other": 0.01},
    "Traveller of Irish heritage": {"Other": 0.02},
    "Gypsy or Roma": {"Romanian": 0.35, "Other": 0.30},
    "Any other White background": {
        "Polish": 0.22, "Romanian": 0.12, "Lithuanian": 0.06, "Portuguese": 0.06, "Turkish": 0.06,
        "Spanish": 0.04, "French": 0.02, "Other": 0.22,
    },
    "White and Black Caribbean": {"Other": 0.02},
    "White and Black African": {"French": 0.03, "Portuguese": 0.03, "Arabic": 0.02, "Other": 0.10},
    "White and Asian": {"Urdu": 0.03, "Chinese": 0.02, "Other": 0.08},
    "Any other Mixed background": {"Spanish": 0.03, "Portuguese": 0.03, "Arabic": 0.03, "Other": 0.15},
    "Indian": {"Panjabi": 0.24, "Gujarati": 0.20, "Tamil": 0.08, "Urdu": 0.02, "Other": 0.22},
    "Pakistani": {"Urdu": 0.46, "Panjabi": 0.24, "Other": 0.07},
    "Bangladeshi": {"Bengali": 0.76, "Other": 0.04},
    "Any other Asian background": {"Tamil": 0.23, "Urdu": 0.04, "Chinese": 0.01, "Other": 0.45},
    "Chinese": {"Chinese": 0.66, "Other": 0.06},
    "Black Caribbean": {"Other": 0.03},
    "Black African": {"Somali": 0.24, "Yoruba": 0.08, "French": 0.08, "Arabic": 0.05, "Portuguese": 0.03,
                      "Other": 0.22},
    "Any other Black background": {"Somali": 0.10, "French": 0.05, "Portuguese": 0.04, "Other": 0.15},
    "Any other ethnic group": {"Arabic": 0.34, "Turkish": 0.05, "Spanish": 0.05, "Portuguese": 0.04,
                               "Other": 0.33},
    "Refused": {"Other": 0.15, "Not obtained": 0.10},
    "Not obtained": {"Other": 0.20, "Not obtained": 0.25},
}  # fmt: skip


def school_census(n: int, seed: int = 0, *, areas: int = MOST_AREAS) -> pd.DataFrame:
    """Simulate a census of pupils in state-funded schools.

    Ethnic mix differs between areas and between younger and older pupils, first language follows ethnic
    group, and sixth forms (years 12 and 13) are small, unevenly spread and have more girls. The areas
    themselves are the same for every seed.

    Parameters
    ----------
    n
        Number of pupils, 0 or more.
    seed
        Seed of the simulation; the same arguments give the same table.
    areas
        Number of local authorities, 1 to 326. With all of them the table has 3,468,640 cells.

    Returns
    -------
    pandas.DataFrame
        Five categorical columns. `school_census_schema` describes them.

    Raises
    ------
    DataError
        If an argument is out of range.

    Examples
    --------
    >>> table = school_census(1000, seed=7)
    >>> list(table.columns)
    ['local_authority', 'year_group', 'sex', 'ethnic_group', 'first_language']
    """
    import pandas as pd

    n = checked_rows(n)
    names = _area_names(areas)
    rng = generator(seed, "school_census")
    size, diverse, south_asian = _area_facts(len(names))
    area = draw(rng, size, n)
    year = draw_given(rng, _year_table(diverse), area)
    sixth_form = (year >= SIXTH_FORM_FROM).astype(np.int64)
    boy = (rng.random(n) < np.where(sixth_form == 1, BOYS_IN_SIXTH_FORM, BOYS)).astype(np.int64)
    secondary = (year >= 7).astype(np.int64)
    ethnic = draw_given(rng, _ethnic_table(diverse, south_asian), 2 * area + secondary)
    language = draw_given(rng, _language_table(), ethnic)
    return pd.DataFrame(
        {
            "local_authority": labelled(area, names),
            "year_group": labelled(year, YEAR_GROUPS),
            "sex": labelled(boy, SEXES),
            "ethnic_group": labelled(ethnic, [row[0] for row in ETHNIC_GROUPS]),
            "first_language": labelled(language, LANGUAGES),
        }
    )


def school_census_schema(*, areas: int = MOST_AREAS) -> Schema:
    """Return the public schema of `school_census` for the same number of areas.

    Examples
    --------
    >>> school_census_schema().domain.cells()
    3468640
    >>> school_census_schema(areas=10).domain.shape()
    (10, 14, 2, 20, 19)
    """
    from understudy.schema import Categorical, Ordinal, Schema

    return Schema(
        name="school_census",
        description="Simulated pupils in state-funded schools, after paper Poisson, section 5.1.",
        columns=(
            Categorical(name="local_authority", description="Area of the school", values=_area_names(areas)),
            Ordinal(name="year_group", description="Reception (R), then years 1 to 13", values=YEAR_GROUPS),
            Categorical(name="sex", values=SEXES),
            Categorical(
                name="ethnic_group",
                description="Ethnic group as recorded by the school",
                values=tuple(row[0] for row in ETHNIC_GROUPS),
            ),
            Categorical(
                name="first_language",
                description="Language the pupil was first exposed to at home",
                values=LANGUAGES,
            ),
        ),
    )


def _area_names(areas: object) -> tuple[str, ...]:
    if isinstance(areas, bool) or not isinstance(areas, int | np.integer) or not 1 <= areas <= MOST_AREAS:
        raise DataError(f"areas ({areas!r}) must be a whole number from 1 to {MOST_AREAS}.")
    return tuple(f"LA{number:03d}" for number in range(1, int(areas) + 1))


def _area_facts(areas: int) -> tuple[Floats, Floats, Floats]:
    """Size, diversity and South Asian share of each area: fixed, evenly spread quantiles, not random."""
    number = np.arange(1, areas + 1, dtype=np.float64)
    first, second, third = ((number * step) % 1.0 for step in (0.6180339887, 0.4142135624, 0.7320508076))
    size = np.array([math.exp(0.55 * NormalDist().inv_cdf(q)) for q in np.clip(first, 0.01, 0.99).tolist()])
    diverse: Floats = second**2.2
    south_asian: Floats = 0.6 * third**8
    return size * (1.0 + diverse), diverse, south_asian


def _year_table(diverse: Floats) -> Floats:
    """Year groups by area; school sixth forms are larger in cities, where colleges are fewer."""
    table = np.tile(np.asarray(YEAR_WEIGHTS, dtype=np.float64), (diverse.size, 1))
    table[:, SIXTH_FORM_FROM:] *= (0.8 + 0.6 * diverse)[:, None]
    return table


def _ethnic_table(diverse: Floats, south_asian: Floats) -> Floats:
    """Shares by area and phase (primary, secondary); younger pupils are a little more diverse."""
    shares = np.array([row[1:] for row in ETHNIC_GROUPS])
    shares = shares / shares.sum(axis=0)
    kinds = np.stack([(1 - diverse) * (1 - south_asian), diverse * (1 - south_asian), south_asian], axis=1)
    by_area = kinds @ shares.T
    table = np.repeat(by_area, 2, axis=0)
    table[0::2, 0] *= 0.94
    table[1::2, 0] *= 1.06
    return table


def _language_table() -> Floats:
    table = np.zeros((len(ETHNIC_GROUPS), len(LANGUAGES)))
    for row, (group, *_) in enumerate(ETHNIC_GROUPS):
        for language, share in LANGUAGES_OF[group].items():
            table[row, LANGUAGES.index(language)] = share
        table[row, 0] = 1.0 - table[row].sum()
    return table
