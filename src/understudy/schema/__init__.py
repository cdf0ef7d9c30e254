"""What is public about a table: its columns, their possible values, and record constraints."""

from understudy.schema.coding.bins import Bins
from understudy.schema.coding.calendar import read_date
from understudy.schema.coding.cells import Cells, DecodeRule
from understudy.schema.coding.reading import number_of, truth_of
from understudy.schema.columns.categorical import Boolean, Categorical, Ordinal
from understudy.schema.columns.column import Codes, Column, Kind, OutOfDomain
from understudy.schema.columns.date import Date, Resolution
from understudy.schema.columns.numeric import Integer, Real
from understudy.schema.constraints.constraint import Constraint
from understudy.schema.constraints.selection import Selection
from understudy.schema.domain import Clique, Domain
from understudy.schema.importers.importing import ImportFormat, import_schema
from understudy.schema.origin import Origin
from understudy.schema.schema import Schema

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
    "Selection",
    "import_schema",
    "number_of",
    "read_date",
    "truth_of",
]
