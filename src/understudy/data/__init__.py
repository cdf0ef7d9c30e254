"""Private tables: reading, encoding and exact counting. Only the curator talks to this room."""

from understudy.data.arrow import ArrowTable
from understudy.data.counting.counting import Counts
from understudy.data.drafting.draft import draft_schema
from understudy.data.files.stream import Watch, rate
from understudy.data.identity import digest_content, digest_place
from understudy.data.local import LocalTable
from understudy.data.output import (
    check_output_format,
    replacing,
    require_folder,
    sync,
    write_frame,
    write_text,
)
from understudy.data.prepare import Derived, Preparation
from understudy.data.sources import read_frame, read_table
from understudy.data.sql.engines import connect
from understudy.data.sql.source import Database, is_database
from understudy.data.sql.spark import SparkTable
from understudy.data.sql.table import SqlTable
from understudy.data.table import Table, records_digest

__all__ = [
    "ArrowTable",
    "Counts",
    "Database",
    "Derived",
    "LocalTable",
    "Preparation",
    "SparkTable",
    "SqlTable",
    "Table",
    "Watch",
    "check_output_format",
    "connect",
    "digest_content",
    "digest_place",
    "draft_schema",
    "is_database",
    "rate",
    "read_frame",
    "read_table",
    "records_digest",
    "replacing",
    "require_folder",
    "sync",
    "write_frame",
    "write_text",
]
