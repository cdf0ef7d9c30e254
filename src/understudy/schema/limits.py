"""Upper limits that keep a hostile or mistaken schema file from exhausting memory.

They are generous for honest schemas (a million codes in one column, five thousand columns) and are
checked before anything of that size is built.
"""

from __future__ import annotations

__all__ = [
    "MAX_CELLS",
    "MAX_CODES",
    "MAX_COLUMNS",
    "MAX_CONSTRAINTS",
    "MAX_DOTS",
    "MAX_FILE_BYTES",
    "MAX_NESTING",
    "MAX_RULE_DEPTH",
    "MAX_RULE_LENGTH",
    "MAX_TEXT",
    "MAX_TOTAL_CODES",
]

MAX_FILE_BYTES = 32 << 20
"""Largest schema file that is read."""

MAX_NESTING = 16
"""Deepest nesting of lists and mappings in a schema file."""

MAX_COLUMNS = 5_000
"""Most columns of one schema."""

MAX_CODES = 1_000_000
"""Most codes of one column."""

MAX_TOTAL_CODES = 10_000_000
"""Most codes of all columns together."""

MAX_DOTS = 10_000
"""Most bins that ``...`` in a list of labels may stand for."""

MAX_TEXT = 10_000
"""Longest name, label, unit or description."""

MAX_CONSTRAINTS = 1_000
"""Most record constraints of one schema."""

MAX_RULE_LENGTH = 10_000
"""Longest text of one constraint."""

MAX_RULE_DEPTH = 60
"""Deepest nesting of parentheses and operators in one constraint."""

MAX_CELLS = 10_000_000
"""Most cells of the table of allowed code combinations of one constraint."""
