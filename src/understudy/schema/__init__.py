"""What is public about a table: its columns, their possible values, and record constraints."""

from understudy.schema.bins import Bins
from understudy.schema.calendar import read_date
from understudy.schema.categorical import Boolean, Categorical, Ordinal
from understudy.schema.cells import Cells, DecodeRule
from understudy.schema.column import Codes, Column, Kind, OutOfDomain
from understudy.schema.constraints import Constraint, Straddle
from understudy.schema.date import Date, Resolution
from understudy.schema.domain import Clique, Domain
from understudy.schema.importers import ImportFormat, import_schema
from understudy.schema.numeric import Integer, Real
from understudy.schema.origin import Origin
from understudy.schema.reading import number_of, truth_of
from understudy.schema.schema import Schema
from understudy.schema.spreadsheets import formula_values, formula_warnings, is_formula

__all__ = [
    "Bins",
    "Boolean",
    "Categorical",
    "Cells",
    "Clique",
    "Codes",
    "Column",
    "Constraint",
    "Date",
    "DecodeRule",
    "Domain",
    "ImportFormat",
    "Integer",
    "Kind",
    "Ordinal",
    "Origin",
    "OutOfDomain",
    "Real",
    "Resolution",
    "Schema",
    "Straddle",
    "formula_values",
    "formula_warnings",
    "import_schema",
    "is_formula",
    "number_of",
    "read_date",
    "truth_of",
]
