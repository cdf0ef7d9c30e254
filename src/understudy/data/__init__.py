"""Private tables: reading, encoding and exact counting. Only the curator talks to this room."""

from understudy.data._counting import Counts
from understudy.data._pace import Watch, rate
from understudy.data.arrow import ArrowTable
from understudy.data.draft import draft_schema
from understudy.data.facts import reading_facts, rule_meaning
from understudy.data.frames import read_frame
from understudy.data.identity import digest_content, digest_place, table_file
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
from understudy.data.private_files import FolderInUse, is_in_use, private_folder, write_private
from understudy.data.sources import read_table
from understudy.data.sql import Database, Session, SqlTable, connect, is_database
from understudy.data.table import Table, Words, records_digest

__all__ = [
    "ArrowTable",
    "Counts",
    "Database",
    "Derived",
    "FolderInUse",
    "LocalTable",
    "Preparation",
    "Session",
    "SqlTable",
    "Table",
    "Watch",
    "Words",
    "check_output_format",
    "connect",
    "digest_content",
    "digest_place",
    "draft_schema",
    "is_database",
    "is_in_use",
    "private_folder",
    "rate",
    "read_frame",
    "read_table",
    "reading_facts",
    "records_digest",
    "replacing",
    "require_folder",
    "rule_meaning",
    "sync",
    "table_file",
    "write_frame",
    "write_private",
    "write_text",
]
