"""Labels and rounded shares behind the simulated survey.

The categories are those of the American Community Survey's public-use files that paper Deniability's
Table 1 counts (codes COW, SCHL, MAR, OCCP grouped in 25, RELP, RAC1P in 5, WAOB). Shares are rounded
figures of the size the Census Bureau and the Bureau of Labor Statistics publish for people at work.
"""

from __future__ import annotations

from typing import NamedTuple

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
