"""Drafting a schema from a table: one module per question that a careful reader asks about a column."""
