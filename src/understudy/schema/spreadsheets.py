"""Values that a spreadsheet takes for formulas when it opens a CSV file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.schema.columns.column import Column
    from understudy.schema.schema import Schema

__all__ = ["formula_values", "formula_warnings", "is_formula"]

_FORMULA = re.compile(r"(?:^|[;\t\r\n])[=+\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d+)?|[-+]")


def is_formula(text: str) -> bool:
    """Say whether a spreadsheet would calculate a text that stands in a field of a CSV file; numbers are not meant."""
    return bool(_FORMULA.search(text)) and not _NUMBER.fullmatch(text)


def formula_values(column: Column) -> tuple[str, ...]:
    """Return the texts that a column may put into a CSV file and that a spreadsheet would take for formulas.

    A spreadsheet calculates what begins with ``=``, ``+``, ``-`` or ``@`` (or with a tab, or after a semicolon where that
    separates fields), and a formula can start programs and send data away. Numbers are not meant; columns that are
    written as numbers or dates have none. The name of the column counts too: it stands in the first line.

    Examples
    --------
    >>> from understudy.schema import Categorical
    >>> formula_values(Categorical(name="note", values=("none", "-1", "=1+1", "@SUM(A1)")))
    ('=1+1', '@SUM(A1)')
    """
    as_text = (
        column.kind in ("categorical", "ordinal")
        or getattr(column, "decode_by", None) == "label"
        or getattr(column, "spelling", None) is not None
    )
    texts = (column.name, *(column.finest.labels if as_text else ()), column.missing_text)
    return tuple(text for text in texts if is_formula(text))


def formula_warnings(schema: Schema) -> list[str]:
    """Return a sentence for each column with such values.

    Examples
    --------
    >>> from understudy.schema import Schema
    >>> formula_warnings(Schema.parse("columns: [{name: note, kind: categorical, values: [none, '=1+1']}]"))[0][:72]
    "Column 'note' has values that spreadsheets take for formulas ('=1+1'). T"
    """
    found = []
    for column in schema.columns:
        values = formula_values(column)
        if values:
            shown = ", ".join(map(repr, values[:3])) + (", ..." if len(values) > 3 else "")
            found.append(
                f"Column {column.name!r} has values that spreadsheets take for formulas ({shown}). They are written to CSV "
                "files as they are: rename them in the schema, or tell readers to import the column as text."
            )
    return found
