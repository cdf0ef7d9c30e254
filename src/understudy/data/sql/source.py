"""Where a table in a database is: an address without secrets, and the name of the table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from understudy.data.files.stream import PARQUET_SUFFIXES
from understudy.errors import DataError
from understudy.schema.addresses import is_address, secret_in

__all__ = ["Database", "is_database"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_MASTER = re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[.*\]|yarn|k8s://.+|spark://.+")
_DUCKDB = (".duckdb", ".ddb")


def is_database(source: object) -> bool:
    """Say whether a source is the address of a database rather than a file.

    Addresses have a scheme (``postgresql://``, ``duckdb://``, ``pyspark://``, ...), are a Spark master
    (``local[2]``, ``yarn``) or name a DuckDB file. What is spelled like an address otherwise (``host=db user=clerk``)
    counts too, although no `Database` can be made of it: it must not be looked for, and shown, as a file.

    Examples
    --------
    >>> is_database("postgresql:///registry"), is_database("local[2]"), is_database("births.csv")
    (True, True, False)
    """
    if isinstance(source, Database):
        return True
    if not isinstance(source, str | Path):
        return False
    text = str(source)
    return (
        (isinstance(source, str) and _can_be_opened(text))
        or text.lower().endswith(_DUCKDB)
        or is_address(text)
    )


def _can_be_opened(url: str) -> bool:
    """Say whether an address is one that a `Database` may have."""
    return bool(_URL.match(url) or _MASTER.fullmatch(url)) or url.lower().endswith(_DUCKDB)


@dataclass(frozen=True, kw_only=True)
class Database:
    """A private table that stays in a database.

    Parameters
    ----------
    url
        Address of the database: ``postgresql://user@host/name``, ``duckdb:///folder/file.duckdb`` (or the path
        of the file), a Spark master (``local[2]``, ``spark://host:7077``, ``yarn``), or any other URL that Ibis
        connects to. It must hold no password.
    table
        Name of the table or view, with its schema if it needs one (``health.births``); a part that holds dots stands in
        double quotes (``health."births.2024"``). For DuckDB and Spark it may be a Parquet file or folder.
    immutable
        Declares that nobody writes to the table while it is in use. Needed where the engine cannot hold a
        snapshot of it: Spark tables in a catalogue, and engines other than DuckDB and PostgreSQL.

    Raises
    ------
    DataError
        If the address holds a password or another secret, or the name of the table is none. The address is not shown.

    Privacy
    -------
    Public: the repr names the kind of database and the table, and nothing of the address.

    Examples
    --------
    >>> Database(url="postgresql://clerk@db.example/registry", table="births")
    Database(postgresql, table 'births')
    """

    url: str
    table: str
    immutable: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.url, str):
            _refuse_secrets(self.url)
        if not isinstance(self.url, str) or not _can_be_opened(self.url):
            raise DataError(
                "The address of a database must be a URL such as postgresql://host/name or duckdb:///file.duckdb, "
                "a Spark master such as local[2], or the path of a DuckDB file. What PostgreSQL calls host=, user= and dbname= is "
                "written postgresql://user@host/dbname."
            )
        if not isinstance(self.table, str) or not self.table.strip():
            raise DataError(
                "Name the table to read from the database (--table, or table: in a specification)."
            )
        if is_address(self.table):
            _refuse_secrets(self.table)
        if not is_path(self.table):
            parts_of_name(self.table)

    @property
    def kind(self) -> str:
        """The kind of database: ``duckdb``, ``postgresql``, ``spark``, or the scheme of another one."""
        text = self.url
        if _MASTER.fullmatch(text) and not text.startswith(_DUCKDB):
            return "spark"
        scheme = text.split("://")[0].lower() if _URL.match(text) else "duckdb"
        scheme = scheme.split("+")[0]
        return {"postgres": "postgresql", "pyspark": "spark", "md": "motherduck"}.get(scheme, scheme)

    @property
    def label(self) -> str:
        """What to call the table in messages and in the ledger: its name, or that of its file."""
        return Path(self.table).name if is_path(self.table) else self.table

    def __repr__(self) -> str:
        return f"Database({self.kind}, table {self.label!r})"

    __str__ = __repr__


def is_path(table: str) -> bool:
    """Say whether a table is meant by the path of its Parquet files.

    Examples
    --------
    >>> is_path("births/"), is_path("births.parquet"), is_path("health.births"), is_path('"births/2024"')
    (True, True, False, False)
    """
    return not table.startswith('"') and ("/" in table or table.lower().endswith(PARQUET_SUFFIXES))


_NAME = re.compile(r'"(?:[^"]|"")+"|[^".]+')


def parts_of_name(table: str) -> tuple[str, ...]:
    """Return catalogue, schema and name of a table; a part that holds dots stands in double quotes, a quote within it twice.

    Examples
    --------
    >>> parts_of_name("health.births"), parts_of_name('health."births.2024"')
    (('health', 'births'), ('health', 'births.2024'))
    """
    found, place = [], 0
    while part := _NAME.match(table, place):
        found.append(part[0])
        place = part.end()
        if place == len(table) or table[place] != ".":
            break
        place += 1
    if place != len(table) or not 1 <= len(found) <= 3 or table.endswith("."):
        raise DataError(
            f"{table!r} is no name of a table. Up to three parts were wanted, with dots between them (health.births), and those "
            'that hold dots in double quotes (health."births.2024").'
        )
    return tuple(part[1:-1].replace('""', '"') if part[0] == '"' else part for part in found)


def _refuse_secrets(url: str) -> None:
    """Refuse an address with a password in it, without showing it."""
    problem = secret_in(url)
    if problem:
        raise DataError(problem)
