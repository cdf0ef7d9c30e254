"""What marks a private table, so that it is known again under another name, in another folder, or as a copy.

Both functions feed a digest that somebody else keyed: without the key a digest of a table would be a test for guesses of it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import sys
import zlib
from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from os.path import exists, isdir
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from understudy.data.files.stream import parquet_files
from understudy.data.sql.source import Database, is_path, parts_of_name
from understudy.errors import DataError

__all__ = ["digest_content", "digest_place", "file_stamps", "parts_of", "table_file"]

_PIECE = 1 << 22
_FILES = ("duckdb", "sqlite")
_PORTS = {"postgresql": "5432", "mysql": "3306"}
_DEFAULT_SCHEMAS = {"postgresql": "public."}


def table_file(source: Any) -> Path | None:
    """Return the file or folder that a source is, with all links followed; None if it is not one.

    Examples
    --------
    >>> table_file(Database(url="duckdb:///a.duckdb", table="births")) is None
    True
    """
    if isinstance(source, Database):  # DuckDB and Spark read Parquet files under the name of a table
        return Path(source.table).resolve() if is_path(source.table) else None
    if isinstance(source, str | PathLike):
        return Path(fspath(source)).resolve()
    if _is_files(source) and len(source) == 1:
        return Path(fspath(source[0])).resolve()
    if parts_of(source) and source.file is not None:
        return Path(source.file).resolve()
    return None


def parts_of(source: Any) -> dict[str, Any]:
    """Return the tables that linked tables are, by name; none for a source that is one table."""
    from understudy.data.linked import LinkedTables

    return dict(source.tables) if isinstance(source, LinkedTables) else {}


def file_stamps(sources: Iterable[Any]) -> list[tuple[str, int, int, int]]:
    """Return what changes when the files among some sources are written; nothing for frames."""
    paths = [Path(fspath(item)) for item in sources if isinstance(item, str | PathLike)]
    # a name that no file can have is refused when it is read
    files = [file for path in paths for file in (sorted(path.rglob("*")) if isdir(path) else [path])]
    facts = [(str(file), file.stat()) for file in files if exists(file)]
    return [(name, found.st_ino, found.st_size, found.st_mtime_ns) for name, found in facts]


def digest_place(source: Any, digest: hashlib.blake2b) -> bytes | None:
    """Return the digest of where a table is: its path, or the address of its database without user and options.

    None for a table that is nowhere, such as a frame.

    Privacy
    -------
    Looks at no record, and at no password: an address that holds one is no `Database`.
    """
    path = table_file(source)
    if path is not None:
        parts = ["file", str(path)]
    elif isinstance(source, Database):
        parts = ["database", source.kind, *_address(source), _table_name(source)]
    else:
        return None
    for part in parts:
        _add(digest, part.encode("utf-8", "surrogateescape"))
    return digest.digest()


def digest_content(source: Any, digest: hashlib.blake2b, *, in_order: bool = False) -> bytes | None:
    """Return the digest of what a table holds; None if it cannot be had without counting (most databases) or at all.

    Files count byte by byte, compressed ones (.gz) by what they hold, a folder or list of files whatever the names and the order of its
    files; frames by column names and values, whatever the order of columns and (unless ``in_order``) of rows. A table of a database that is a file
    counts by that file and by its name.

    Privacy
    -------
    In: private, all of it. Out: private; with the key of the digest a guess of the *whole* table can be checked.
    """
    if isinstance(source, Database):
        file = table_file(source)
        if file is None and source.kind in _FILES and (address := _address(source)[0]):
            _add(digest, _table_name(source).encode("utf-8", "surrogateescape"))
            file = Path(address)
        return None if file is None else digest_content(file, digest)
    if isinstance(source, str | PathLike) or _is_files(source):
        paths = [source] if isinstance(source, str | PathLike) else list(source)
        try:
            files = [
                file
                for path in (Path(fspath(item)) for item in paths)
                for file in (parquet_files(path) if path.is_dir() else [path])
            ]
            contents = sorted(_file_digest(file) for file in files)
        except (OSError, DataError):
            return None  # reading the table says what is wrong with it
        for content in contents:
            _add(digest, content)
        return digest.digest()
    if parts := parts_of(source):
        for name, part in sorted(parts.items()):
            found = digest_content(part, digest.copy(), in_order=in_order)
            if found is None:
                return None
            _add(digest, name.encode("utf-8"))
            _add(digest, found)
        return digest.digest()
    rows = _row_hashes(source, in_order=in_order)
    if rows is None:
        return None
    for part in rows:
        _add(digest, part)
    return digest.digest()


def _is_files(source: Any) -> bool:
    return (
        isinstance(source, Sequence)
        and not isinstance(source, str | bytes)
        and bool(source)
        and all(isinstance(item, str | PathLike) for item in source)
    )


def _add(digest: hashlib.blake2b, part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "big"))
    digest.update(part)


def _file_digest(path: Path) -> bytes:
    # kept in memory only, and keyed before it is written anywhere
    found = hashlib.blake2b(digest_size=32)
    if not path.is_file():
        raise OSError("not a regular file")  # reading a pipe would consume it
    with path.open("rb", buffering=0) as raw, contextlib.ExitStack() as stack:
        packed = path.name.lower().endswith(".gz")
        stream = stack.enter_context(gzip.GzipFile(fileobj=raw)) if packed else raw
        piece = bytearray(_PIECE)
        try:
            while size := stream.readinto(piece):
                found.update(memoryview(piece)[:size])
        except (EOFError, zlib.error):
            raise OSError("not a whole file") from None
    return found.digest()


def _row_hashes(source: Any, *, in_order: bool) -> list[bytes] | None:
    """Return the column names and the hashes of the rows of a frame, sorted unless their order counts; None for anything else."""
    pandas, polars, arrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))
    frame = source
    with contextlib.suppress(Exception):  # a frame that cannot be converted is read, and refused, by others
        if polars is not None and isinstance(frame, polars.LazyFrame):
            frame = frame.collect()
        if (polars is not None and isinstance(frame, polars.DataFrame)) or (
            arrow is not None and isinstance(frame, arrow.Table | arrow.RecordBatch)
        ):
            frame = frame.to_pandas()
        if pandas is None or not isinstance(frame, pandas.DataFrame):
            return None
        names = sorted(map(str, frame.columns))
        named = frame.set_axis([str(name) for name in frame.columns], axis=1)[names]
        hashes = pandas.util.hash_pandas_object(named, index=False).to_numpy("<u8")
        if not in_order:
            hashes.sort()
        return [*(name.encode("utf-8", "surrogatepass") for name in names), hashes.tobytes()]
    return None


def _table_name(source: Database) -> str:
    """Return the name of a table in its database, equal for the spellings that the engine takes for one.

    DuckDB and SQLite do not tell small letters from capitals, and a table may be named with its schema and with its file.
    Quotes count where they stand around dots alone.
    """
    named = [f'"{part}"' if "." in part else part for part in parts_of_name(source.table)]
    if source.kind not in _FILES:
        return ".".join(named).removeprefix(_DEFAULT_SCHEMAS.get(source.kind, ""))
    parts = [part.lower() for part in named]
    if len(parts) == 3 and parts[0] == Path(_address(source)[0]).stem.lower():
        parts = parts[1:]
    if len(parts) == 2 and parts[0] == "main":
        parts = parts[1:]
    return ".".join(parts)


def _address(source: Database) -> list[str]:
    """Return where a database is: host, port and name, or its file with all links followed; no user, no other option."""
    url = source.url
    if source.kind in _FILES:
        file = url.split("://", 1)[-1].split("?", 1)[0]
        return [str(Path(file).resolve()) if file and file != ":memory:" else ""]
    if "://" not in url:
        return [url]
    split = urlsplit(url)
    options = {
        name: value
        for name, value in parse_qsl(split.query)
        if name in ("host", "hostaddr", "port", "dbname", "service")
    }
    host = options.pop("host", None) or options.pop("hostaddr", None) or split.hostname or ""
    port = options.pop("port", None) or (str(split.port) if split.port else _PORTS.get(source.kind, ""))
    name = options.pop("dbname", None) or split.path.strip("/")
    if host.lower() in ("localhost", "127.0.0.1", "::1"):
        host = ""
    return [host.lower(), port, name, options.get("service", "")]
