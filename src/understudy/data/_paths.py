"""Which file is read how, by the ending of its name."""

from __future__ import annotations

import stat
from pathlib import Path

from understudy.data._stream import attempt, explain_os_error
from understudy.errors import DataError

CSV_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")


def is_csv(path: Path) -> bool:
    """Say whether a path is to be read as CSV, refusing what cannot be read at all."""

    def explain(error: Exception) -> DataError:
        return explain_os_error(error, path.name) or DataError(
            f"{path.name!r} cannot be opened. Check the path."
        )

    status = attempt(path.stat, explain)
    name = path.name.lower()
    if stat.S_ISDIR(status.st_mode):
        return False
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path.name!r} is not a regular file. Save the table to a file first.")
    if name.endswith(CSV_SUFFIXES):
        return True
    if name.endswith(PARQUET_SUFFIXES):
        return False
    raise DataError(
        f"The name {path.name!r} does not say what kind of file it is. "
        f"It must end in one of {', '.join((*CSV_SUFFIXES, *PARQUET_SUFFIXES))}."
    )


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder, in the order of their names, without hidden and unfinished ones."""

    def visible(path: Path) -> bool:
        return not any(
            part.startswith(("_", ".")) and "=" not in part for part in path.relative_to(folder).parts
        )

    files = sorted(
        path for path in folder.rglob("*") if path.suffix.lower() in PARQUET_SUFFIXES and visible(path)
    )
    files = [path for path in files if path.is_file()]
    if not files:
        raise DataError(
            f"The folder {str(folder)!r} holds no Parquet files. Their names must end in "
            f"{' or '.join(PARQUET_SUFFIXES)}; for CSV, pass the file itself."
        )
    return files
