"""What is public about a table: its columns, their possible values, and record constraints."""

from understudy.schema.domain import Clique, Domain

__all__ = ["Clique", "Domain"]
