"""Simulated tables for demonstrations and tests; public from the first row, so their seeds are too."""

from understudy.datasets.births import births, births_schema
from understudy.datasets.messy import messy_table, write_messy
from understudy.datasets.people import (
    households,
    households_schema,
    patient_register,
    patient_register_schema,
    patient_stays,
    patient_stays_schema,
    work_panel,
    work_panel_schema,
)
from understudy.datasets.registry import load, names
from understudy.datasets.school_census import school_census, school_census_schema
from understudy.datasets.survey import (
    survey,
    survey_schema,
    weighted_survey,
    weighted_survey_schema,
)
from understudy.datasets.toy import toy, toy_schema

__all__ = [
    "births",
    "births_schema",
    "households",
    "households_schema",
    "load",
    "messy_table",
    "names",
    "patient_register",
    "patient_register_schema",
    "patient_stays",
    "patient_stays_schema",
    "school_census",
    "school_census_schema",
    "survey",
    "survey_schema",
    "toy",
    "toy_schema",
    "weighted_survey",
    "weighted_survey_schema",
    "work_panel",
    "work_panel_schema",
    "write_messy",
]
