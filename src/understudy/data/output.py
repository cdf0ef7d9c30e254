"""Writing tables so that a reader never finds half a file."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from understudy._system import take_lock
from understudy.errors import OutputError, UnsupportedSystem

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema import Schema

Writer = Callable[["pd.DataFrame", BinaryIO, bool], None]


def write_frame(
    frame: pd.DataFrame, path: str | PathLike[str], *, schema: Schema | None = None, synthetic: bool = False
) -> Path:
    """Write a frame as CSV, gzipped CSV or Parquet, whichever the name of the file says.

    The rows go to a new file in the same folder, which takes the name only when it is complete and on
    disk. If anything fails, an existing file of that name is as it was. Equal frames give equal bytes.

    Parameters
    ----------
    frame
        What to write; its index is not written.
    path
        Ends in ``.csv``, ``.csv.gz`` or ``.parquet``.
    schema
        Of the frame. CSV files then have its spelling of values: so many decimals as it declares, and its text
        for missing entries. Parquet files hold numbers and nulls.
    synthetic
        Whether the rows are synthetic. Parquet files then say so in their metadata (``synthetic`` is ``true``), so that nobody takes
        them for real records; a CSV file has no place for it.

    Returns
    -------
    Path
        Where the file is.

    Raises
    ------
    OutputError
        If the name ends in something else, or the file cannot be written.

    Privacy
    -------
    Whatever is passed is written as it is. Pass synthetic or public tables only.

    Examples
    --------
    >>> import pandas as pd, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_frame(pd.DataFrame({"a": [1, 2]}), f"{folder}/out.csv")
    ...     path.read_text()
    'a\\n1\\n2\\n'
    """
    target = Path(path)
    write = _writer(target)
    spelled = frame if schema is None or write is _write_parquet else spell(frame, schema)
    with replacing(target) as file:
        write(spelled, file, synthetic)
    return target


ENDINGS = (".csv.gz", ".csv", ".parquet", ".pq")
"""Of the files that tables are written to; the first that fits says the format."""


def table_ending(name: str | PathLike[str]) -> str:
    """Return the ending that says how a table is written, or nothing.

    Examples
    --------
    >>> table_ending("out/stays.csv.gz"), table_ending("out/")
    ('.csv.gz', '')
    """
    lowered = os.fspath(name).rstrip("/" + os.sep).lower()
    return next((ending for ending in ENDINGS if lowered.endswith(ending)), "")


def check_tables_output(out: str) -> None:
    """Refuse a name for linked tables that cannot be written, before any work is done or budget spent.

    Raises
    ------
    OutputError
        If the name is that of a single table, something is in the way, the folder above it takes no files, or DuckDB is not installed.
    """
    target = Path(os.path.abspath(out))
    database = _is_database_file(out)
    if not is_folder(out) and not database:
        raise OutputError(
            f"{out!r} is one file, and these are several tables: end the name in a slash ({out.removesuffix(table_ending(out))}/) for a folder with a file for "
            "each, or in .duckdb for a database."
        )
    if database and find_spec("duckdb") is None:
        raise OutputError("Writing a database needs DuckDB: pip install 'understudy[sql]'.")
    if target.exists() and (database or not target.is_dir() or any(target.iterdir())):
        raise OutputError(
            f"{str(target)!r} exists already and is left as it is. Remove it, or choose another name."
        )
    require_folder(target.parent, what="output")


def _is_database_file(out: str) -> bool:
    return not is_folder(out) and out.lower().endswith(".duckdb")


@dataclass(frozen=True)
class Relation:
    """How one table points to another: each value of a column of the one is a key of the other."""

    table: str
    column: str
    to: str
    key: str


def write_tables(
    tables: Mapping[str, pd.DataFrame],
    out: str,
    *,
    schema: Schema | None = None,
    endings: Mapping[str, str] | None = None,
    relations: Sequence[Relation] = (),
    describe: Callable[[Mapping[str, str]], str] | None = None,
) -> tuple[Path, ...]:
    """Write several tables to a folder, a file each, or to a DuckDB file; it takes its name when all of them are complete and on disk.

    Parameters
    ----------
    tables
        The tables by name.
    out
        A folder, ending in a slash, or a name that ends in ``.duckdb``. If the folder has an ending before the slash (``tables.parquet/``), that is the format of all files.
    schema
        Of all columns; see `write_frame`.
    endings
        The format of each table otherwise: ``.csv`` where nothing is said.
    relations
        How they belong together: a database then keeps it (primary and foreign keys).
    describe
        Returns the ``datapackage.json`` of a folder, from the names of the files by table.

    Returns
    -------
    tuple
        Where the tables are.

    Raises
    ------
    OutputError
        If something is in the way or cannot be written; then there is nothing of that name.

    Privacy
    -------
    Whatever is passed is written as it is. Pass synthetic or public tables only.
    """
    check_tables_output(out)
    target = Path(os.path.abspath(out))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        if _is_database_file(out):
            _write_database(tables, temporary, relations)
            written: tuple[Path, ...] = (target,)
        else:
            temporary.mkdir()
            files = {
                name: name + (table_ending(out) or (endings or {}).get(name, "") or ".csv") for name in tables
            }
            for name, frame in tables.items():
                write_frame(frame, temporary / files[name], schema=schema, synthetic=True)
            if describe is not None:
                write_text(temporary / "datapackage.json", describe(files))
            sync(temporary)
            written = tuple(target / name for name in files.values())
        temporary.replace(target)
    except OSError as error:
        raise _not_written(target, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        with contextlib.suppress(OSError):
            temporary.unlink()
    with contextlib.suppress(OSError):
        sync(target.parent)
    return written


def _write_database(tables: Mapping[str, pd.DataFrame], path: Path, relations: Sequence[Relation]) -> None:
    """Write tables to a new DuckDB file, with their keys."""
    import duckdb

    try:
        with duckdb.connect(str(path)) as database:
            for name, frame in tables.items():
                stored = _arrow(frame)
                database.register("rows_to_write", stored)
                kinds = database.execute("DESCRIBE SELECT * FROM rows_to_write").fetchall()
                parts = [f"{_quoted(kind[0])} {kind[1]}" for kind in kinds]
                kept = [item for item in relations if item.to in tables]
                keys = dict.fromkeys(item.key for item in kept if name == item.to)
                parts += [f"PRIMARY KEY ({_quoted(key)})" for key in keys]
                parts += [
                    f"FOREIGN KEY ({_quoted(item.column)}) REFERENCES {_quoted(item.to)} ({_quoted(item.key)})"
                    for item in kept
                    if name == item.table
                ]
                database.execute(f"CREATE TABLE {_quoted(name)} ({', '.join(parts)})")
                database.execute(f"INSERT INTO {_quoted(name)} SELECT * FROM rows_to_write")
                database.unregister("rows_to_write")
    except duckdb.Error as error:
        raise OutputError(
            f"The database was not written ({type(error).__name__}); choose a folder instead."
        ) from None


def _quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever letters it has."""
    return '"' + name.replace('"', '""') + '"'


def write_text(path: str | PathLike[str], text: str) -> Path:
    """Write a text file in UTF-8, complete or not at all, as `write_frame` does.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(f"{folder}/note.txt", "seen").read_text()
    'seen'
    """
    target = Path(path)
    with replacing(target) as file:
        file.write(text.encode("utf-8"))
    return target


def require_outside_bundles(path: str | PathLike[str], advice: str = "") -> None:
    """Refuse a file in the folder of a published bundle, or below it: what is computed from records without noise must not be published with the rest.

    Raises
    ------
    OutputError
        Naming the bundle.

    Examples
    --------
    >>> require_outside_bundles("elsewhere/evaluation.html")
    """
    folder = Path(path).resolve().parent
    for place in (folder, *folder.parents):
        if (place / "certificate.json").exists():
            raise OutputError(
                f"{str(place)!r} is a published bundle, and what is computed from records without noise is as private as they are. Write it elsewhere{advice}."
            )


def check_output_format(path: str | PathLike[str]) -> None:
    """Refuse a file name that `write_frame` would refuse, before any work is done or budget spent.

    Raises
    ------
    OutputError
        If the name does not end in ``.csv``, ``.csv.gz`` or ``.parquet``.

    Examples
    --------
    >>> check_output_format("table.xlsx")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    understudy.errors.OutputError: The name 'table.xlsx' does not say how to write the table. Use .csv, ...
    """
    _writer(Path(path))


def require_folder(folder: Path, *, what: str) -> None:
    """Refuse a folder that takes no files, by making one in it, before anything is spent on filling it.

    Raises
    ------
    OutputError
        If the folder does not exist, or no file can be made in it.

    Examples
    --------
    >>> require_folder(Path("/proc"), what="output")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    understudy.errors.OutputError: The output cannot be written to '/proc': ... Choose another folder.
    """
    if not folder.is_dir():
        raise OutputError(f"The folder {str(folder)!r} for the {what} does not exist; create it first.")
    try:
        # Without a name where the system can (Linux), so that no interrupt, not even one while it is removed, leaves it.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(
            f"The {what} cannot be written to {str(folder)!r}: {error.strerror or error}. Choose another folder."
        ) from None


def is_folder(path: str | PathLike[str]) -> bool:
    """Say whether a name asks for a folder of parts: it ends in a slash.

    Examples
    --------
    >>> is_folder("table.parquet/"), is_folder("table.parquet")
    (True, False)
    """
    return os.fspath(path).endswith(("/", os.sep))


def require_writable(path: Path, *, what: str) -> None:
    """Refuse an output that cannot be written before anything is spent on making it."""
    folder = path.parent if str(path.parent) else Path()
    if path.is_dir():
        raise OutputError(f"The {what} {str(path)!r} is a folder; give the name of a file.")
    if path.exists() and not os.access(path, os.W_OK):
        raise OutputError(f"The {what} {str(path)!r} exists and cannot be replaced; choose another name.")
    if what != "ledger" and _is_sqlite(path):
        raise OutputError(
            f"The {what} {str(path)!r} would replace a database or the ledger of a table; choose another name."
        )
    require_folder(folder, what=what)


def _is_sqlite(path: Path) -> bool:
    """Say whether a file is a database of SQLite, as every ledger is."""
    if not path.is_file():  # a pipe would wait for its writer
        return False
    try:
        with path.open("rb") as stream:
            return stream.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def require_apart(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Refuse an output that would replace a file that is read, add to a folder that is read, or replace another output.

    Examples
    --------
    >>> require_apart({"output": Path("synthetic.csv")}, {"table": Path("patients.csv")})
    >>> require_apart({"output": Path("./patients.csv")}, {"table": Path("patients.csv")})
    Traceback (most recent call last):
    understudy.errors.OutputError: The output 'patients.csv' would replace the table; choose another name.
    """
    written = {what: path for what, path in outputs.items() if path is not None}
    read = {what: path for what, path in inputs.items() if path is not None}
    for what, path in written.items():
        for other, source in read.items():
            if _same(path, source):
                raise OutputError(f"The {what} {str(path)!r} would replace the {other}; choose another name.")
            parts = path.suffix.lower() in (".parquet", ".pq")
            if parts and source.is_dir() and source.resolve() in path.resolve().parents:
                raise OutputError(
                    f"The {what} {str(path)!r} would become part of the {other}, a folder of Parquet files; choose another "
                    "folder."
                )
    for (what, path), (other, another) in combinations(written.items(), 2):
        if _same(path, another):
            raise OutputError(f"The {what} and the {other} would be one file, {str(path)!r}; name two.")


def _same(path: Path, other: Path) -> bool:
    """Say whether two names are one file, by whatever links."""
    try:
        return path.resolve() == other.resolve() or path.samefile(other)
    except OSError:
        return False


def _writer(target: Path) -> Writer:
    name = target.name.lower()
    if name.endswith(".csv"):
        return _write_csv
    if name.endswith(".csv.gz"):
        return _write_csv_gz
    if name.endswith((".parquet", ".pq")):
        return _write_parquet
    raise OutputError(
        f"The name {target.name!r} does not say how to write the table. Use .csv, .csv.gz or .parquet."
    )


def spell(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return a frame as its CSV file reads: numbers with the declared decimals, missing entries with their text.

    A number has exactly the declared decimals. Columns that declare neither are returned as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> from understudy.schema import Real, Schema
    >>> schema = Schema([Real("price", bins=[0, 10], decimals=2, missing=True, missing_text="?")])
    >>> spell(pd.DataFrame({"price": [4.05, 4.5, 4.0, None]}), schema)["price"].tolist()
    ['4.05', '4.50', '4.00', '?']
    """
    spelled = frame
    for column in schema.columns:
        decimals = getattr(column, "decimals", None)
        if column.name in frame.columns and (decimals is not None or column.missing_text):
            if spelled is frame:
                spelled = frame.copy(deep=False)
            spelled[column.name] = _spelled(frame[column.name], decimals, column.missing_text or None)
    return spelled


def _spelled(series: pd.Series[Any], decimals: int | None, missing: str | None) -> Any:
    """Return the entries of a column as objects that CSV writers take as they are."""
    import pandas as pd

    values: Any
    if series.dtype.kind == "M":
        values = np.datetime_as_string(series.to_numpy().astype("datetime64[D]")).astype(object)
    elif series.dtype.kind == "f" and decimals is not None:
        places, distinct = pd.factorize(series.to_numpy(), use_na_sentinel=False)
        values = np.array([_number_text(number, decimals) for number in distinct.tolist()], dtype=object)[
            places
        ]
    else:
        values = series.to_numpy(dtype=object, copy=True)
        if decimals is not None:
            values = np.array(
                [_number_text(entry, decimals) if isinstance(entry, float) else entry for entry in values],
                dtype=object,
            )
    values[series.isna().to_numpy(dtype=bool)] = missing
    return values


def _number_text(number: float, decimals: int) -> str | None:
    if not math.isfinite(number):
        return None
    text = f"{number:.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text  # no negative zero


def _write_csv(frame: pd.DataFrame, file: BinaryIO, synthetic: bool) -> None:
    frame.to_csv(file, index=False, lineterminator="\n", encoding="utf-8")


def _write_csv_gz(frame: pd.DataFrame, file: BinaryIO, synthetic: bool) -> None:
    import gzip

    # neither name nor time in the header: equal frames give equal bytes
    with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as compressed:
        frame.to_csv(compressed, index=False, lineterminator="\n", encoding="utf-8")  # type: ignore[arg-type]


def _write_parquet(frame: pd.DataFrame, file: BinaryIO, synthetic: bool) -> None:
    import pyarrow.parquet as pq

    table = _arrow(frame)
    if synthetic:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"synthetic": b"true"})
    pq.write_table(table, file)


def _arrow(frame: pd.DataFrame) -> Any:
    """Return a frame as an Arrow table."""
    import pyarrow as pa

    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException:
        raise OutputError(
            "A column mixes types that Parquet cannot hold together. Write CSV instead."
        ) from None


_LEFT_OVER_SECONDS = 3600.0


@contextlib.contextmanager
def in_use(temporary: Path) -> Iterator[None]:
    """Mark a temporary file or folder as somebody's, until the block or the process ends, however it ends."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, UnsupportedSystem):  # without locks its age has to do
            descriptor = os.open(temporary, os.O_RDONLY)
            held.callback(os.close, descriptor)
            take_lock(descriptor)
        yield


def sweep_leftovers(target: Path) -> list[Path]:
    """Remove what writers of a file or folder left beside it when they were killed; return what was removed.

    Temporary names begin with a dot and the name of the target and end in a random number and ``.part`` or ``.tmp``. One that is held by a living
    process, or was changed within the hour, is left alone.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     left = Path(here) / ".bundle.0123abcd.part"
    ...     left.mkdir()
    ...     os.utime(left, (0, 0))
    ...     [path.name for path in sweep_leftovers(Path(here) / "bundle")]
    ['.bundle.0123abcd.part']
    """
    name = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-z_]{{8,12}}\.(part|tmp)")
    removed = []
    with contextlib.suppress(OSError, UnsupportedSystem):  # tidying up is no reason to fail
        for path in target.parent.iterdir():
            if not name.fullmatch(path.name) or path.is_symlink():
                continue
            if time.time() - path.stat().st_mtime < _LEFT_OVER_SECONDS:
                continue
            descriptor = os.open(path, os.O_RDONLY)
            try:
                if take_lock(descriptor):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                    removed.append(path)
            finally:
                os.close(descriptor)
    return removed


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of ``target``, on the disk, when the block ends without an error.

    Raises
    ------
    OutputError
        If the file cannot be written; an existing one is as it was.
    """
    if target.is_symlink():
        target = target.resolve()  # replace what the link points to, not the link
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        sweep_leftovers(target)
        with temporary.open("xb") as file, in_use(temporary):
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        temporary.replace(target)
    except OSError as error:
        raise _not_written(target, error) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    with contextlib.suppress(OSError):  # the file is in place; a folder that cannot be synced is no failure
        sync(target.parent)


def sync(path: Path) -> None:
    """Ask the system to put a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):  # some file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)


_ADVICE = {
    errno.ENOENT: "its folder does not exist; create it first",
    errno.EACCES: "this user may not write in its folder; choose another one",
    errno.EPERM: "this user may not write in its folder; choose another one",
    errno.EROFS: "its folder is read-only; choose another one",
    errno.ENOSPC: "the disk is full; make room or choose another one",
    errno.EDQUOT: "the disk quota is used up; make room or choose another disk",
    errno.EFBIG: "the file would be larger than the system allows",
    errno.EISDIR: "there is a folder of that name",
    errno.ENOTDIR: "part of its path is a file, not a folder",
    errno.ENAMETOOLONG: "its name is too long",
}


def _not_written(target: Path, error: OSError) -> OutputError:
    if isinstance(error, OutputError):
        return error
    reason = _ADVICE.get(error.errno or 0, "the system refused")
    return OutputError(f"{str(target)!r} cannot be written: {reason}. An existing file was left as it was.")
