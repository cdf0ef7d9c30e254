"""Tables that stay in a database: DuckDB, PostgreSQL, Spark, and whatever else Ibis connects to."""

from understudy.data.sql.engines import connect
from understudy.data.sql.session import Session
from understudy.data.sql.source import Database, is_database
from understudy.data.sql.spark import SparkTable
from understudy.data.sql.table import SqlTable

__all__ = ["Database", "Session", "SparkTable", "SqlTable", "connect", "is_database"]
