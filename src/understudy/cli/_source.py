"""Where the private table is, as words of the command line: a file, or a table of a database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.data import Database, is_database
from understudy.errors import UsageError

TableInDatabase = Annotated[
    str | None,
    typer.Option("--table", help="With a database: the table or view, with its schema if it needs one."),
]
Immutable = Annotated[
    bool,
    typer.Option(
        "--immutable",
        help="With a database: declare that nobody writes to the table meanwhile. Needed where the engine cannot hold "
        "a snapshot of it.",
    ),
]


def parse_source(given: str, table: str | None, immutable: bool) -> tuple[Path | Database, str]:
    """Return what to read, and its public name: that of the file or of the table.

    Examples
    --------
    >>> parse_source("duckdb:///data/registry.duckdb", "births", False)
    (Database(duckdb, table 'births'), 'births')
    >>> parse_source("births.csv.gz", None, False)[1]
    'births.csv.gz'
    """
    if is_database(given):
        if table is None:
            raise UsageError("A database holds many tables; name the one to read (--table).")
        source = Database(url=given, table=table, immutable=immutable)
        return source, source.label
    if table is not None or immutable:
        raise UsageError(
            "--table and --immutable go with the address of a database, and this is a file. (SQLite: sqlite://FILE, or "
            "sqlite:///FOLDER/FILE for a path from the root.)"
        )
    return Path(given), Path(given).name
