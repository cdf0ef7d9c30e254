"""Simulated tables for demonstrations and tests; public from the first row, so their seeds are too."""

from understudy.datasets._births import births, births_schema
from understudy.datasets._registry import load, names
from understudy.datasets._school_census import school_census, school_census_schema
from understudy.datasets._survey import survey, survey_schema
from understudy.datasets._toy import toy, toy_schema

__all__ = [
    "births",
    "births_schema",
    "load",
    "names",
    "school_census",
    "school_census_schema",
    "survey",
    "survey_schema",
    "toy",
    "toy_schema",
]
